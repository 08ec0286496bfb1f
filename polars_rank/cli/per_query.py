"""The per-query values that a command reads from a table or moments, or computes from a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import polars as pl

from polars_rank._params import Names
from polars_rank.cli.logs import Log, definitions
from polars_rank.cli.messages import misused
from polars_rank.cli.sources import scan_table
from polars_rank.columns import RUN, Columns, without_run
from polars_rank.conventions import Conventions, read_metrics
from polars_rank.evaluation.evaluate import per_query as evaluated
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import collected, schema_of
from polars_rank.judges.both_labels import BothLabels
from polars_rank.stats.moment_tables import is_moments

#: Options for the evaluation of a log, which do not apply to per-query values.
_LOG_OPTIONS = (
    *("position", "query_set", "rel", "ties", "unjudged", "layout", "memory"),
    *("items", "history", "conventions", "undefined"),
)


@dataclass(frozen=True)
class PerQuery:
    """Per-query values, and the names of their columns."""

    table: pl.LazyFrame
    run: str | None
    by: list[str]
    query: list[str]
    metrics: list[str] | None
    #: The values from predicted labels, if there are some.
    predictions: pl.LazyFrame | None = None

    @property
    def columns(self) -> dict[str, Any]:
        """The names of columns, as parameters of statistics."""
        return {"run": self.run, "by": self.by or None, "query": self.query}

    @property
    def groups(self) -> list[str]:
        """The column of the run and the columns of groups."""
        return [*self.runs, *self.by]

    @property
    def runs(self) -> list[str]:
        """The column of the run in a list; an empty list if there is none."""
        return [] if self.run is None else [self.run]

    def value(self, baseline: str | None) -> Any:
        """Return the baseline as a value of the column of the run; None if there is none."""
        if baseline is None:
            return None
        return run_value(baseline, str(self.run), schema_of(self.table))

    def in_memory(self) -> PerQuery:
        """Return the values as a table in memory, for commands that read them several times."""
        return replace(self, table=collected(self.table).lazy())


@dataclass(frozen=True, kw_only=True)
class Source(Log):
    """The input of a command: a log, or per-query values."""

    values: list[str]
    metrics: list[str]
    definitions: dict[str, Any]

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> Self:
        """Return the input of a command; raise `SourceError` if the output would replace it."""
        return super().of({**arguments, "definitions": definitions(arguments)})

    @property
    def rel(self) -> float:
        """The lowest relevant label."""
        conventions: Conventions = self.definitions["conventions"]
        return conventions.but(rel=self.definitions["rel"]).rel

    @property
    def files(self) -> list[str]:
        """All input files."""
        return [*super().files, *self.values]

    def read(
        self,
        *,
        by: Iterable[str] = (),
        kept: Mapping[str, Names | None] | None = None,
        paired: bool = False,
        metrics: Sequence[str] = (),
        predicted_label: str | None = None,
        predictions: Sequence[str] = (),
    ) -> PerQuery:
        """Return the per-query values of the input.

        `kept` has the columns of the query that a command needs, by parameter. `metrics` are the
        metrics that it needs in addition to those of --metrics. `paired` is whether it compares
        runs. `predictions` are files of predicted values. With `predicted_label`, the values are
        those of the queries that people judged, and the log has the predicted labels.
        """
        source = self.opened
        table = source.table()
        schema = schema_of(table)
        requested = distinct([*self.metrics, *metrics]) or None
        is_log = self._is_log(schema)
        run = self.run_column(schema, paired=paired)
        result = PerQuery(table, run, [*without_run([*by], run)], self.keys, requested)
        if predictions:
            if predicted_label is not None:
                misused("give one of --predicted-label and --predictions")
            predicted = scan_table(predictions, None, {}, self.ids)
            result = replace(result, predictions=predicted)
        if not is_log:
            self._check_evaluated(schema, requested)
            if predicted_label is not None:
                misused("--predicted-label is for logs; name a table with --predictions")
            return result
        if requested is None:
            misused('a log needs metrics; add for example --metrics "ndcg@10 ap"')
        kept_columns = [*Columns.find(schema, kept or {}).parameters]
        if predicted_label is None:
            return replace(result, table=source._evaluated(result, kept_columns))
        conventions = self.definitions["conventions"]
        both = BothLabels.of(
            schema, read_metrics(requested, conventions), conventions,
            label=source.labels[0], predicted_label=predicted_label,
        )  # fmt: skip
        # In memory, because several checks and joins read the values.
        values = collected(source._evaluated(result, kept_columns, both)).lazy()
        both.check(values, [*result.by, *result.query])
        human, predicted = both.split(values)
        return replace(result, table=human, predictions=predicted)

    def table(self) -> pl.LazyFrame:
        """Scan the input, with its rows in their original order."""
        if self.values and (self.logs or self.qrels):
            misused("--values has per-query values, instead of a log; give one of the two")
        if self.values:
            return scan_table(self.values, self.input_format, self.schema_options, self.ids)
        return self.scan_as_is()

    def _is_log(self, schema: pl.Schema) -> bool:
        """Return whether the table is a log: it has a column of documents, scores or labels."""
        if self.values or is_moments(schema):
            return False
        scores = [self.position] if self.position else self.scores
        values = {*scores, *(name.removeprefix("-") for name in scores), *self.labels}
        return bool({self.doc or "doc", *values} & {*schema})

    def _check_evaluated(self, schema: pl.Schema, metrics: Sequence[str] | None) -> None:
        for name in _LOG_OPTIONS:
            if self.is_given(name):
                misused(f"--{name.replace('_', '-')} is for logs; the input has per-query values")
        missing = [name for name in metrics or [] if name not in schema]
        if missing and not self.values and not is_moments(schema):
            misused(
                f"the input is not a log with the columns {', '.join(map(repr, self.scores))} and "
                f"{', '.join(map(repr, self.labels))}, nor "
                f"are there per-query values in a column {missing[0]!r}; available: "
                f"{', '.join(schema)}. Name the columns of a log with --score and --label, or "
                "columns of per-query values with --metrics"
            )

    def run_column(self, schema: pl.Schema, *, paired: bool = False) -> str | None:
        """Return the column of the run, or None; raise `SchemaError` if a comparison needs it."""
        if len(self.scores) > 1:
            return self.run_name
        optional = () if paired else (RUN,)
        return Columns.find(schema, {"run": self.run_name}, optional=optional).run

    def _evaluated(
        self, per_query: PerQuery, kept: Iterable[str], both: BothLabels | None = None
    ) -> pl.LazyFrame:
        """Return the per-query values of a log, by the label or by both labels."""
        keys = [*per_query.groups, *per_query.query]
        log = self.scan(per_query.groups if len(self.scores) == 1 else per_query.by)
        options: dict[str, Any] = {
            "by": per_query.groups, "keep": distinct(name for name in kept if name not in keys),
            **self.columns, "run": per_query.run, **self.attributes, **self.definitions,
        }  # fmt: skip
        if both is not None:
            return both.per_query(log, **options)
        return evaluated(log, per_query.metrics or [], **options)


def run_value(name: str, run: str | None, schema: pl.Schema) -> Any:
    """Return the name of a run as a value of its column; raise `SchemaError` if it is missing."""
    column = str(Columns.find(schema, {"run": run}, optional=()).run)
    dtype = schema[column]
    if is_text(dtype):
        return name
    try:
        return pl.Series([name]).cast(dtype).item()
    except pl.exceptions.PolarsError:
        misused(f"--baseline must be a value of the column {column!r}, of type {dtype}")


def distinct(names: Iterable[str]) -> list[str]:
    """Return the names without duplicates, in their order."""
    return [*dict.fromkeys(names)]
