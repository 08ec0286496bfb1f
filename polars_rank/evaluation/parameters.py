"""The parameters of an evaluation, checked once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, check_column, free, names, one_of
from polars_rank.columns import DOC, Columns, Score, labeled, scored
from polars_rank.conventions import (
    DUPLICATES,
    POLARS_RANK,
    Conventions,
    Duplicates,
    QuerySet,
    Ties,
    Undefined,
    Unjudged,
    check_undefined,
    counted_as,
    named,
)
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.attributes import with_attributes, without_seen
from polars_rank.frames.tables import Table, lazy, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name, resolve

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

Align: TypeAlias = Literal["common", "all"]

#: Columns of the ranked table that depend on labels.
_OF_LABELS = {"label", "ideal_rank", "relevant", "hits"}


class MetricColumn(NamedTuple):
    """A column of the per-query table: a metric and its conventions."""

    name: str
    metric: pl.Expr
    conventions: Conventions
    #: The value of undefined rankings in means, or "skip" or "null".
    counts_as: float | Undefined
    #: The label given to retrieved documents without one.
    unjudged_label: float | None = None

    @classmethod
    def of(cls, metric: pl.Expr, conventions: Conventions) -> MetricColumn:
        """Return the column of a metric, with the parameters that the conventions set."""
        applied = conventions.apply(metric) if isinstance(metric, Metric) else metric
        value = counted_as(metric, conventions)
        return cls(output_name(metric), applied, conventions.of(metric), value)


class Evaluation(NamedTuple):
    """The checked parameters of an evaluation: metrics, columns, conventions."""

    metrics: Sequence[MetricColumn]
    conventions: Conventions
    query: tuple[str, ...]
    #: The columns of groups; with `scores`, "run" is the first.
    by: tuple[str, ...]
    keep: tuple[str, ...]
    doc: str | None = DOC
    score: Score = "score"
    label: str = "label"
    position: str | None = None
    scores: Sequence[str] | None = None
    weight: str | None = None
    align: Align | None = None
    duplicates: Duplicates = "error"
    progress: bool = False
    #: The attributes of documents, and what users have seen.
    items: pl.LazyFrame | None = None
    history: pl.LazyFrame | None = None
    exclude_seen: bool = False

    @classmethod
    def of(
        cls,
        metrics: Metrics | None,
        *,
        query: Names = "query",
        by: Names | None = None,
        keep: Names | None = None,
        scores: Sequence[str] | None = None,
        items: Table | None = None,
        history: Table | None = None,
        conventions: Conventions | str = POLARS_RANK,
        ties: Ties | None = None,
        rel: float | None = None,
        unjudged: Unjudged | None = None,
        query_set: QuerySet | None = None,
        undefined: Undefined | Mapping[str, Undefined] | None = None,
        **others: Any,
    ) -> Evaluation:
        """Check the parameters of `evaluate` and `per_query`; `others` are fields of this class."""
        own = undefined if isinstance(undefined, str) else None  # of expressions of the user's
        definitions = named(conventions).but(
            ties=ties, rel=rel, unjudged=unjudged, query_set=query_set, undefined=undefined, own=own
        )
        resolved = [] if metrics is None else resolve(metrics, definitions.name)
        if isinstance(undefined, Mapping):
            check_undefined(undefined, resolved)
        evaluation = cls(
            metrics=[MetricColumn.of(metric, definitions) for metric in resolved],
            conventions=definitions,
            query=names("query", query),
            by=(*(() if scores is None else ("run",)), *names("by", by)),
            keep=names("keep", keep),
            scores=scores,
            items=None if items is None else lazy(items),
            history=None if history is None else lazy(history),
            **others,
        )
        one_of("duplicates", evaluation.duplicates, DUPLICATES)
        one_of("align", evaluation.align, (None, "common", "all"))
        one_of("exclude_seen", evaluation.exclude_seen, (True, False))
        if evaluation.exclude_seen and history is None:
            message = "`exclude_seen` needs the documents that users have seen; pass `history`"
            raise ArgumentError(message, "exclude_seen", "history")
        return evaluation

    @property
    def kept(self) -> dict[str, str]:
        """The columns that are kept, one value per ranking, by their internal names."""
        names = [*self.keep, *([] if self.weight is None else [self.weight])]
        return {f"{OWN}kept {index}": name for index, name in enumerate(names)}

    def read(self, frame: pl.LazyFrame) -> tuple[pl.LazyFrame, Columns]:
        """Return the log, with columns of scores and labels, and its checked columns."""
        log, label = frame, self.label
        if label not in schema_of(frame) and not self.reads_labels:
            log, label = labeled(frame, label)
        if self.scores is None:
            log, score = scored(log, self.score, self.position)
        else:
            log, score = runs_of(log, self.scores)
        columns = Columns.find(
            schema_of(log), query=self.query, doc=self.doc, score=score, label=label, by=self.by
        )
        for name in self.keep:
            check_column("keep", name, columns.schema, "value")
        if self.weight is not None:
            check_column("weight", self.weight, columns.schema, "number")
        columns = columns._replace(placed=self.position is not None)
        if self.items is None and self.history is None:
            return log, columns
        read = {name for column in self.metrics for name in column.metric.meta.root_names()}
        reads = read - {"score", *_OF_LABELS, "rank"}
        if self.exclude_seen and self.history is not None:
            log = without_seen(log, columns, self.history)
        return with_attributes(log, columns, self.items, self.history, reads)

    def check_names(self, added: Sequence[str] = ()) -> None:
        """Raise `ArgumentError` if two columns of the result have one name."""
        keys, metrics = [*self.by, *self.query], [column.name for column in self.metrics]
        free(self.by, added)
        free(self.keep, keys, "keep")
        if self.weight is not None:
            free([self.weight], [*keys, *metrics], "weight")
        others = {*keys, *self.keep, *added}
        for name in metrics:
            if name in others:
                message = (
                    f"metric {name!r} has the name of another column of the result; rename it with "
                    ".alias()"
                )
                raise ArgumentError(message)

    @property
    def reads_labels(self) -> bool:
        """Whether a metric or a convention reads labels."""
        return not self.metrics or any(
            column.conventions.unjudged != "nonrelevant"
            or column.conventions.query_set not in ("all", "retrieved")
            or _reads_labels(column.metric)
            for column in self.metrics
        )


def _reads_labels(metric: pl.Expr) -> bool:
    """Return whether a metric reads columns that depend on labels."""
    if isinstance(metric, Metric) and not metric.parts:
        with suppress(TypeError):  # a parameter that cannot be a key, such as a mapping
            return _metric_reads_labels(metric.function, tuple(metric.arguments.items()))
    return not _OF_LABELS.isdisjoint(metric.meta.root_names())


@lru_cache(maxsize=1024)  # a preset creates metrics for each call, and reading one takes 1 ms
def _metric_reads_labels(
    function: Callable[..., Any], arguments: tuple[tuple[str, Hashable], ...]
) -> bool:
    return not _OF_LABELS.isdisjoint(Metric(function, dict(arguments)).meta.root_names())


def runs_of(log: pl.LazyFrame, scores: Sequence[str]) -> tuple[pl.LazyFrame, str]:
    """Return the log once per column of scores, with the name of the column as its run."""
    columns = names("scores", scores)
    if not columns:
        message = "`scores` is empty; name at least one column of scores"
        raise ArgumentError(message, "scores")
    if "run" in schema_of(log):
        message = "the frame already has a column 'run', which `scores` adds; rename it"
        raise SchemaError(message, "scores")
    runs = pl.Enum(list(dict.fromkeys(columns)))  # sorted in the order of `scores`
    parts = []
    for name in columns:
        made, score = scored(log, name, None)
        run = pl.lit(name, dtype=runs)
        parts.append(made.with_columns(pl.col(score).alias(OWN + "score"), run=run))
    return pl.concat(parts, how="vertical_relaxed"), OWN + "score"
