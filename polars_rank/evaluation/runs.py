"""The runs of judged documents that no run retrieved, as an outer join with judgments leaves them.

Their run and their score are null. In a log with one run, they are its rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import polars as pl

from polars_rank._polars import FewRows, ManyRows, frame_of
from polars_rank.columns import Columns
from polars_rank.evaluation.contiguity import Keys
from polars_rank.frames.layouts import is_large_scan
from polars_rank.frames.plans import remembers_rows


def with_known_runs(log: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Return the log in which rows without run and score belong to the only run.

    They are unchanged if there are several runs, or if the log may be read ranking by ranking, for
    which its keys must not change; `row_checks` then refuses them.
    """
    run = columns.run
    if run is None:
        return log
    keys = Keys.of(columns)
    if keys.are_adjacent(log) or is_large_scan(log, keys.order):
        return log
    frame = frame_of(log, [run])
    if frame is not None and not frame.get_column(run).null_count():
        return log
    known = _KnownRuns(log.filter(pl.col(columns.score).is_not_null()).select(run))
    if isinstance(log, (FewRows, ManyRows)):
        nulls = log.select(pl.col(run).null_count()).collect(engine="in-memory").item()
        if not nulls or known.only is None:
            return log
        return log.with_columns(pl.col(run).fill_null(known.only))
    remembers_rows()
    dtype = columns.schema[run]
    return log.with_columns(pl.col(run).map_batches(known, return_dtype=dtype, is_elementwise=True))


class _KnownRuns:
    """Fills nulls in the column of runs with the only run of retrieved documents."""

    def __init__(self, retrieved: pl.LazyFrame) -> None:
        #: The runs of retrieved documents, which are read if a batch has a null.
        self.retrieved = retrieved

    @cached_property
    def only(self) -> Any:
        """The only run, or None if there are several."""
        runs = self.retrieved.unique().head(2).collect(engine="streaming").to_series()
        return runs.item() if runs.len() == 1 else None

    def __call__(self, runs: pl.Series) -> pl.Series:
        if not runs.null_count() or self.only is None:
            return runs
        return runs.fill_null(self.only)
