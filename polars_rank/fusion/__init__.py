"""Fusion of several runs into one."""
