"""Runs the command as `python -m polars_rank.cli`."""

from polars_rank.cli.main import main

main()
