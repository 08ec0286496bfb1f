"""Conventions of tools as data: find those of a number or a function."""
