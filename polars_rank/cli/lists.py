"""Per-query values: of a log, which is evaluated first, of a table, or moments of either."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import polars as pl

from polars_rank._params import Names, check_there, find_columns
from polars_rank.cli.logs import Log, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.options import chosen, split_names
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
class Source(Log):
    """A log, which is evaluated, or per-query values, as a command is given them."""

    lists: list[str]
    metrics: list[str]
    run: str | None
    definitions: dict[str, Any]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Source:
        """Return what the arguments of a command describe."""
        return chosen(cls, {**values, "definitions": definitions(values)})

    @property
    def rel(self) -> float:
        """The lowest relevant label."""
        conventions: Conventions = self.definitions["conventions"]
        return conventions.but(rel=self.definitions["rel"]).rel

    @property
    def files(self) -> list[str]:
        """All files that are read."""
        return [*super().files, *self.lists]

    def read(
        self,
        *,
        by: Iterable[str] = (),
        kept: Mapping[str, Names | None] | None = None,
        paired: bool = False,
        metrics: Sequence[str] = (),
    ) -> Lists:
        """Return per-query values of whatever was given.

        `kept` are columns of the query that a command needs, by parameter; `metrics` those that
        it needs if none are named; `paired` is whether it compares runs.
        """
        source = self.opened
        table = source.table()
        schema = schema_of(table)
        asked = distinct([*split(" ".join(self.metrics)), *metrics]) or None
        lists = Lists(
            table,
            self.run_column(schema, paired=paired),
            split_names(by),
            self.keys,
            asked,
            self.definitions["conventions"],
            self.definitions["undefined"],
        )
        if not self._is_log(schema):
            self._check_evaluated(schema, asked)
            return replace(lists, table=merge(table)) if is_moments(schema) else lists
        if asked is None:
            misused('name the metrics of the log, as in --metrics "ndcg@10 ap"')
        found = find_columns(
            schema, {name: columns or () for name, columns in (kept or {}).items()}
        )
        return replace(lists, table=source._evaluated(lists, chain(*found.values())))

    def table(self) -> pl.LazyFrame:
        """Return what was given as it stands, whose rows may be in any order."""
        if self.lists and (self.logs or self.qrels):
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
            if self.is_given(name):
                misused(f"--{name.replace('_', '-')} is for logs; these are per-query values")
        missing = [name for name in metrics or [] if name not in schema]
        if missing and not self.lists and not is_moments(schema):
            misused(
                f"this is no log, without the columns {self.score!r} and {self.label!r}, nor "
                f"per-query values with a column {missing[0]!r}; it has {', '.join(schema)}. Name "
                "the columns of a log with --score and --label, those of values with --metrics"
            )

    def run_column(self, schema: pl.Schema, *, paired: bool = False) -> str | None:
        """Return the column of runs; where runs are compared, there must be one."""
        column = "run" if self.run is None else self.run
        if column in schema:
            return column
        if paired or (self.run is not None and column):
            check_there("run", column, schema)
        return None

    def _evaluated(self, lists: Lists, kept: Iterable[str]) -> pl.LazyFrame:
        """Return the per-query values of a log."""
        keys = [*lists.groups, *lists.query]
        return per_query(
            self.scan(lists.groups), lists.metrics or [], by=lists.groups,
            keep=distinct(name for name in kept if name not in keys), **self.columns,
            **{**self.definitions, "undefined": None},
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
