"""The parameters of an evaluation, their types, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

import polars as pl

from polars_rank._params import (
    OPTIONS,
    OWN,
    Names,
    check_column,
    check_distinct,
    free,
    names,
    one_of,
    public,
)
from polars_rank.columns import RUNS, Columns, Score, labeled, scored
from polars_rank.conventions import (
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
    warn_of_uncompared,
)
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.attributes import with_attributes, without_seen
from polars_rank.evaluation.corrections import Correction
from polars_rank.frames.tables import Table, lazy, schema_of
from polars_rank.metrics.analyses import names_read, reads_labels, reads_order
from polars_rank.metrics.expressions import expression
from polars_rank.metrics.metric import Metric, leaves_of, tree_of
from polars_rank.metrics.names import output_name, resolve

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

Align: TypeAlias = Literal["common", "all"]

#: The column with the name of the column of labels, if there are several.
JUDGE = "judge"


class ColumnOptions(TypedDict, total=False):
    """The options of `evaluate` that name columns."""

    query: Names
    doc: str | None
    score: Score
    label: str
    position: str | None
    scores: Sequence[str] | None
    by: Names | None


class DefinitionOptions(TypedDict, total=False):
    """The options of `evaluate` that define what is computed, and how."""

    ties: Ties | None
    rel: float | None
    unjudged: Unjudged | None
    query_set: QuerySet | None
    duplicates: Duplicates | None
    undefined: Undefined | Mapping[str, Undefined] | None
    items: Table | None
    history: Table | None
    exclude_seen: bool
    conventions: Conventions | str
    progress: bool


class RankingOptions(ColumnOptions, DefinitionOptions, total=False):
    """The options that `evaluate` and `per_query` share."""

    labels: Sequence[str] | None


class EvaluateOptions(RankingOptions, total=False):
    """The options of `evaluate`, for functions that pass them on: `**options`."""

    weight: str | None
    align: Align | None


OPTIONS.update(
    (each.__name__, [*each.__annotations__])
    for each in (ColumnOptions, DefinitionOptions, RankingOptions, EvaluateOptions)
)


#: The ranked table, for expressions of metrics over a ranking without documents.
_RANKED = {
    "score": pl.Float64(), "label": pl.Float64(), "rank": pl.UInt32(), "ideal_rank": pl.UInt32(),
    "relevant": pl.Boolean(), "hits": pl.UInt32(),
}  # fmt: skip


class MetricColumn(NamedTuple):
    """A column of the per-query table: a metric and its conventions."""

    name: str
    metric: pl.Expr
    conventions: Conventions
    #: What null counts as in means: a number, "skip" or "null". The leaves of an expression are
    #: filled, so that its nulls are of rankings for which it does not count.
    counts_as: float | Undefined

    @classmethod
    def of(cls, metric: pl.Expr, conventions: Conventions) -> MetricColumn:
        """Return the column of a metric, with the parameters that the conventions set."""
        applied = conventions.apply(metric) if isinstance(metric, Metric) else metric
        value = counted_as(metric, conventions)
        return cls(output_name(metric), conventions.filled(applied), conventions.of(metric), value)

    @property
    def counted(self) -> pl.Expr:
        """The values of the per-query table as they enter means; null does not count."""
        value = pl.col(self.name)
        return value.fill_null(self.counts_as) if isinstance(self.counts_as, float) else value

    @property
    def counts_as_missing(self) -> float | Undefined:
        """The value of a ranking that is missing, or "skip" or "null"."""
        metric = self.metric
        if isinstance(self.counts_as, float) or not leaves_of(metric):
            return self.counts_as
        whole = expression(metric.nowhere) if isinstance(metric, Metric) else metric
        if not {*whole.meta.root_names()} <= _RANKED.keys():
            return self.counts_as
        value = pl.DataFrame(schema=_RANKED).select(whole.cast(pl.Float64)).item()
        return self.counts_as if value is None else value


class Evaluation(NamedTuple):
    """The checked parameters of an evaluation: metrics, columns, conventions."""

    metrics: Sequence[MetricColumn]
    conventions: Conventions
    query: tuple[str, ...]
    #: The columns of groups; with `scores`, "run" is the first, with `labels`, "judge" the last.
    by: tuple[str, ...]
    keep: tuple[str, ...]
    doc: str | None = "doc"
    score: Score = "score"
    label: str = "label"
    position: str | None = None
    scores: Sequence[str] | None = None
    labels: tuple[str, ...] | None = None
    #: Whether a query counts for a judge who labeled a document in any run, instead of by the query
    #: set of the conventions.
    labeled_in_any_run: bool = False
    weight: str | None = None
    align: Align | None = None
    progress: bool = False
    #: The attributes of documents, and the documents that each user has already seen.
    items: pl.LazyFrame | None = None
    history: pl.LazyFrame | None = None
    exclude_seen: bool = False
    #: The labels of people by which those of the column `label`, of a judge, are corrected.
    correction: Correction | None = None

    @classmethod
    @public
    def of(
        cls,
        metrics: Metrics | None,
        *,
        query: Names = "query",
        by: Names | None = None,
        keep: Names | None = None,
        doc: str | None = "doc",
        score: Score = "score",
        label: str = "label",
        position: str | None = None,
        scores: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        weight: str | None = None,
        align: Align | None = None,
        duplicates: Duplicates | None = None,
        progress: bool = False,
        items: Table | None = None,
        history: Table | None = None,
        conventions: Conventions | str = POLARS_RANK,
        ties: Ties | None = None,
        rel: float | None = None,
        unjudged: Unjudged | None = None,
        query_set: QuerySet | None = None,
        undefined: Undefined | Mapping[str, Undefined] | None = None,
        exclude_seen: bool = False,
    ) -> Evaluation:
        """Check the parameters of `evaluate` and `per_query`."""
        definitions = named(conventions).but(
            ties=ties, rel=rel, unjudged=unjudged, query_set=query_set, duplicates=duplicates,
            undefined=undefined,
        )  # fmt: skip
        resolved = [] if metrics is None else resolve(metrics, definitions.name)
        if isinstance(undefined, Mapping):
            check_undefined(undefined, resolved)
        warn_of_uncompared(resolved, definitions)
        evaluation = cls(
            metrics=[MetricColumn.of(metric, definitions) for metric in resolved],
            conventions=definitions,
            query=names("query", query),
            by=groups_of({"scores": scores, "by": by, "labels": labels}),
            keep=names("keep", keep),
            doc=doc,
            score=score,
            label=label,
            position=position,
            scores=scores,
            labels=None if labels is None else _judges(labels, label),
            labeled_in_any_run=(
                labels is not None and query_set is None and definitions.query_set == "all"
            ),
            weight=weight,
            align=align,
            progress=progress,
            items=None if items is None else lazy(items, "items"),
            history=None if history is None else lazy(history, "history"),
            exclude_seen=exclude_seen,
        )
        if labels is not None:
            given = {"query": evaluation.query, "by": names("by", by), "keep": evaluation.keep}
            for parameter, columns in given.items():
                free(columns, [JUDGE], parameter)
        one_of("align", evaluation.align, (None, "common", "all"))
        if evaluation.exclude_seen and history is None:
            raise ArgumentError(
                "`exclude_seen` needs the documents that users have seen; pass `history`"
            )
        return evaluation

    @property
    def runs(self) -> list[str]:
        """The columns of `by` that identify the run, by their names."""
        return [name for name in self.by if name.lower() in RUNS]

    @property
    def of_labels(self) -> list[Evaluation]:
        """The evaluations by each column of labels; their groups do not include the judge."""
        if self.labels is None:
            return [self]
        return [self._replace(label=name, by=self.by[:-1]) for name in self.labels]

    @property
    def kept(self) -> dict[str, str]:
        """The columns to keep, which have one value per ranking, by internal name."""
        names = [*self.keep, *([] if self.weight is None else [self.weight])]
        return {f"{OWN}kept {index}": name for index, name in enumerate(names)}

    def read(self, frame: pl.LazyFrame) -> tuple[pl.LazyFrame, Columns]:
        """Return the log with columns of scores and labels, and the columns, checked."""
        log, label = frame, self.label
        if self.labels is not None and JUDGE in schema_of(frame):
            raise SchemaError(
                f"the frame already has a column {JUDGE!r}, which `labels` adds; rename it"
            )
        if self.has_optional_label and label not in schema_of(frame):
            log, label = labeled(frame, label)
        log, score, parameter = self._with_scores(log)
        columns = Columns.find(
            schema_of(log), query=self.query, doc=self.doc, score=score, label=label, by=self.by,
            score_parameter=parameter, label_parameter=self.label_parameter, needs_ids=False,
        )  # fmt: skip
        for name in self.keep:
            check_column("keep", name, columns.schema, "value")
        if self.weight is not None:
            columns.check("weight", [self.weight], "number")
        if self.position is not None:
            columns.check("position", [self.position])
        if self.scores is not None:
            columns.check("scores", [name for name in self.scores if name in columns.schema])
        if self.correction is not None:
            log, columns = self.correction.read(log, columns)
        if self.items is None and self.history is None:
            return log, columns
        trees = [tree_of(column.metric) for column in self.metrics]
        reads = names_read(*trees) if trees else None
        if self.exclude_seen and self.history is not None:
            log = without_seen(log, columns, self.history)
        return with_attributes(log, columns, self.items, self.history, reads)

    def _with_scores(self, log: pl.LazyFrame) -> tuple[pl.LazyFrame, str, str]:
        """Return the log, its column of scores, and the parameter that the scores come from."""
        if self.scores is None:
            log, score = scored(log, self.score, self.position)
            return log, score, "score" if self.position is None else "position"
        return *runs_of(log, self.scores), "scores"

    def check_names(self, added: Sequence[str] = ()) -> None:
        """Raise `ArgumentError` if two columns of the result have the same name."""
        keys, metrics = [*self.by, *self.query], [column.name for column in self.metrics]
        free(self.by, added)
        weight = [] if self.weight is None else [self.weight]
        check_distinct({"by": self.by, "query": self.query, "keep": self.keep, "weight": weight})
        free(weight, metrics, "weight")
        others = {*keys, *self.keep, *added}
        for name in metrics:
            if name in others:
                raise ArgumentError(
                    f"metric {name!r} has the name of another column of the result; rename it with "
                    ".alias()"
                )

    @property
    def label_parameter(self) -> str:
        """The parameter that names the column of labels."""
        if self.correction is not None:
            return JUDGE
        return "label" if self.labels is None else "labels"

    @property
    def has_optional_label(self) -> bool:
        """Whether the log needs no column of labels."""
        return self.labels is None and self.correction is None and not self.reads_labels

    @property
    def reads_labels(self) -> bool:
        """Whether a metric or a convention reads labels."""
        return not self.metrics or any(
            column.conventions.unjudged != "nonrelevant"
            or column.conventions.query_set not in ("all", "retrieved")
            or reads_labels(tree_of(column.metric))
            for column in self.metrics
        )

    @property
    def breaks_ties_by_id(self) -> bool:
        """Whether the ids of tied documents, if there are ids, change the value of a metric."""
        return self.doc is not None and any(
            column.conventions.ties in (None, "doc", "doc_ascending")
            and isinstance(column.metric, Metric)
            and reads_order(column.metric.tree)
            for column in self.metrics
        )


def groups_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns of groups of an evaluation with these options."""
    run = () if options.get("scores") is None else ("run",)
    judge = () if options.get("labels") is None else (JUDGE,)
    return (*run, *names("by", options.get("by")), *judge)


def _judges(labels: Sequence[str], label: str) -> tuple[str, ...]:
    """Return the columns of labels, checked."""
    if label != "label":
        raise ArgumentError("`label` and `labels` exclude each other; pass one of them")
    columns = names("labels", labels)
    if not columns:
        raise ArgumentError("`labels` is empty; name at least one column of labels")
    return columns


def runs_of(log: pl.LazyFrame, scores: Sequence[str]) -> tuple[pl.LazyFrame, str]:
    """Return one copy of the log per column of scores, whose run is the name of the column."""
    columns = names("scores", scores)
    if not columns:
        raise ArgumentError("`scores` is empty; name at least one column of scores")
    if "run" in schema_of(log):
        raise SchemaError("the frame already has a column 'run', which `scores` adds; rename it")
    runs = pl.Enum(list(dict.fromkeys(columns)))  # sorted in the order of `scores`
    parts = []
    for name in columns:
        part, score = scored(log, name, None, "scores")
        run = pl.lit(name, dtype=runs)
        parts.append(part.with_columns(pl.col(score).alias(OWN + "score"), run=run))
    return pl.concat(parts, how="vertical_relaxed"), OWN + "score"
