"""Evaluation of logs: metrics of each ranking, and their means."""
