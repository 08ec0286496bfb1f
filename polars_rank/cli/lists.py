"""Per-query values: of a log, which is evaluated first, of a table, or moments of either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import polars as pl
import typer

from polars_rank.cli import options as o
from polars_rank.cli.logs import Definitions, Log, conventions_of
from polars_rank.cli.messages import misused
from polars_rank.cli.running import is_said
from polars_rank.cli.sources import scan_table
from polars_rank.conventions import Conventions
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.tables import collected, schema_of
from polars_rank.metrics.names import split
from polars_rank.stats.moment_tables import is_moments, merge

#: Options that say how a log is evaluated, which in per-query values has been done.
_OF_LOGS = (*("position", "query_set", "rel", "ties", "unjudged", "layout", "memory"),)


@dataclass(frozen=True)
class Lists:
    """Per-query values, and what their columns are."""

    table: pl.LazyFrame
    run: str | None
    by: list[str]
    query: list[str]
    metrics: list[str] | None
    conventions: Conventions
    undefined: str | Mapping[str, str] | None

    @property
    def counted(self) -> dict[str, Any]:
        """What undefined values count as, for the functions of statistics."""
        return {"conventions": self.conventions, "undefined": self.undefined}

    @property
    def groups(self) -> list[str]:
        """The columns of run and groups."""
        return distinct([*([] if self.run is None else [self.run]), *self.by])

    def value(self, baseline: str) -> Any:
        """Return the name of the baseline as a value of the column of runs."""
        return run_of(baseline, str(self.run), schema_of(self.table)[str(self.run)])

    def held(self) -> Lists:
        """Return the lists in memory, for what reads them more than once."""
        return replace(self, table=collected(self.table).lazy())


@dataclass(frozen=True, kw_only=True)
class Source(Log, Definitions):
    """What is read: a log, which is evaluated, or per-query values; and how."""

    logs: Annotated[
        list[str],
        typer.Argument(
            metavar="LOG",
            help="A log as of evaluate; or per-query values or moments of such a one.",
        ),
    ] = field(default_factory=list)
    lists: Annotated[
        list[str],
        typer.Option(
            help="Per-query values, instead of a log; told by their columns, too.",
            rich_help_panel=o.INPUT,
        ),
    ] = field(default_factory=list)
    metrics: o.Metrics = field(default_factory=list)
    run_column: o.RunColumn = None

    @property
    def files(self) -> list[str]:
        """All files that are read."""
        return [*super().files, *self.lists]

    def read(
        self,
        *,
        by: Iterable[str] | None = None,
        kept: Iterable[str | None] = (),
        paired: bool = False,
        metrics: Sequence[str] = (),
    ) -> Lists:
        """Return per-query values of whatever was given.

        `kept` are columns of the query that a command needs, `metrics` those that it has reason
        to think of where none are named; `paired` is whether it compares runs.
        """
        source = self.opened
        table = source.table()
        schema = schema_of(table)
        asked = distinct([*split(" ".join(self.metrics)), *metrics]) or None
        lists = Lists(
            table,
            self.run_column_of(schema, paired=paired),
            o.split_names(by or []),
            self.keys,
            asked,
            conventions_of(self.conventions),
            o.undefined_of(self.undefined or []),
        )
        if not self._is_log(schema):
            self._check_evaluated(schema, asked)
            return replace(lists, table=merge(table)) if is_moments(schema) else lists
        if asked is None:
            misused('name the metrics of the log, as in --metrics "ndcg@10 ap"')
        return replace(lists, table=source._evaluated(lists, kept))

    def table(self) -> pl.LazyFrame:
        """Return what was given as it stands, whose rows may be in any order."""
        if self.lists and (self.logs or self.run or self.qrels):
            misused("--lists are per-query values, instead of a log; give one of the two")
        if self.lists:
            return scan_table(self.lists, self.input_format, self.differing, self.ids)
        return self.scan_as_is()

    def _is_log(self, schema: pl.Schema) -> bool:
        """Return whether the rows are documents; a log may lack some column, but not all."""
        if self.lists or is_moments(schema):
            return False
        score = self.position or self.score
        return bool({self.doc or "doc", score, score.removeprefix("-"), self.label} & {*schema})

    def _check_evaluated(self, schema: pl.Schema, metrics: Sequence[str] | None) -> None:
        for name in _OF_LOGS:
            if getattr(self, name) is not None and is_said(name):
                misused(f"--{name} is for logs; these are per-query values")
        missing = [name for name in metrics or [] if name not in schema]
        if missing and not self.lists and not is_moments(schema):
            misused(
                f"this is no log, without the columns {self.score!r} and {self.label!r}, nor "
                f"per-query values with a column {missing[0]!r}; it has {', '.join(schema)}. Name "
                "the columns of a log with --score and --label, those of values with --metrics"
            )

    def run_column_of(self, schema: pl.Schema, *, paired: bool = False) -> str | None:
        """Return the column of runs; where runs are compared, there must be one."""
        column = "run" if self.run_column is None else self.run_column
        if column in schema:
            return column
        if paired or (self.run_column is not None and column):
            misused(
                f"there is no column {column!r} to tell runs apart; the columns are "
                f"{', '.join(schema)}; name it with --run-column"
            )
        return None

    def _evaluated(self, lists: Lists, kept: Iterable[str | None]) -> pl.LazyFrame:
        """Return the per-query values of a log."""
        keys = [*lists.groups, *lists.query]
        kept = distinct(name for name in kept if name and name not in keys)
        choices = {**self.choices, "undefined": None}
        return per_query(
            self.scan(lists.groups), lists.metrics or [], by=lists.groups, keep=kept,
            **self.columns, **choices,
        )  # fmt: skip


def run_of(name: str, column: str, dtype: pl.DataType) -> Any:
    """Return the name of a run as a value of the column of runs."""
    if dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum):
        return name
    try:
        return pl.Series([name]).cast(dtype).item()
    except pl.exceptions.PolarsError:
        misused(f"--baseline must be a value of the column {column!r}, of type {dtype}")


def distinct(names: Iterable[str]) -> list[str]:
    """Return each name once, where it comes first."""
    return [*dict.fromkeys(names)]
