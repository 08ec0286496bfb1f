"""Runs the command as `python -m polars_rank`."""

from polars_rank.cli.main import main

main()
