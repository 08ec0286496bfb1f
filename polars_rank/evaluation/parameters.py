"""The parameters of an evaluation, their types, and their checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

import polars as pl

from polars_rank._params import (
    OPTIONS,
    OWN,
    Names,
    check_name,
    free,
    names,
    public,
)
from polars_rank.columns import (
    RUN,
    RUNS,
    Columns,
    Label,
    Score,
    check_single,
)
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    ConventionsLike,
    Definitions,
    Undefined,
    check_undefined,
    counted_as,
    named,
    warn_of_uncompared,
)
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.log import Log, Rules
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.analyses import reads_labels, reads_order
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import listed, output_name, resolve

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics


class ColumnOptions(TypedDict, total=False):
    """The options of `evaluate` that name columns."""

    query: Names
    doc: str | None
    score: Score
    label: Label
    position: str | None
    run: str | None
    by: Names | None


class DefinitionOptions(Definitions, total=False):
    """The options of `evaluate` that define what is computed, and how."""

    conventions: ConventionsLike


class RankingOptions(ColumnOptions, DefinitionOptions, total=False):
    """The options that `evaluate` and `per_query` share."""


class EvaluateOptions(RankingOptions, total=False):
    """The options of `evaluate`, for functions that pass them on: `**options`."""

    weight: str | None


OPTIONS.update(
    (each.__name__, [*each.__annotations__])
    for each in (ColumnOptions, DefinitionOptions, RankingOptions, EvaluateOptions)
)


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


class Evaluation(NamedTuple):
    """The checked parameters of an evaluation: metrics, columns, conventions."""

    metrics: Sequence[MetricColumn]
    conventions: Conventions
    query: tuple[str, ...]
    #: The columns of groups: those of `by`, and the run.
    by: tuple[str, ...]
    keep: tuple[str, ...]
    doc: str | None = "doc"
    score: Score = "score"
    label: str = "label"
    position: str | None = None
    #: The column of runs, one of `by`, if there is one.
    run: str | None = None
    weight: str | None = None
    progress: bool = False

    @classmethod
    @public
    def of(
        cls,
        schema: pl.Schema,
        metrics: Metrics | None,
        *,
        query: Names = "query",
        by: Names | None = None,
        keep: Names | None = None,
        doc: str | None = "doc",
        score: Score = "score",
        label: Label = "label",
        position: str | None = None,
        run: str | None = RUN,
        weight: str | None = None,
        progress: bool = False,
        conventions: ConventionsLike = POLARS_RANK,
        **choices: Unpack[Definitions],
    ) -> Evaluation:
        """Check the parameters of `evaluate` and `per_query` for a log with a schema."""
        definitions = named(conventions).but(**choices)
        resolved = [] if metrics is None else resolve(metrics, definitions.name)
        undefined = choices.get("undefined")
        if isinstance(undefined, Mapping):
            check_undefined(undefined, resolved)
        warn_of_uncompared(resolved, definitions)
        columns = groups_of(
            schema, {"run": run, "by": by, "query": query, "score": score, "label": label}
        )
        return cls(
            metrics=[MetricColumn.of(metric, definitions) for metric in resolved],
            conventions=definitions,
            query=columns.query,
            by=columns.by,
            keep=names("keep", keep),
            doc=doc,
            score=score,
            label=label,
            position=position,
            run=columns.run,
            weight=weight,
            progress=progress,
        )

    @classmethod
    def of_call(cls, arguments: Mapping[str, Any]) -> Evaluation:
        """Check the arguments of `evaluate`, `per_query` or `rank`, given its `locals()`."""
        given = {**arguments, **arguments["definitions"]}
        del given["definitions"]
        metrics = listed(given.pop("metrics")) if "metrics" in given else None
        return cls.of(schema_of(given.pop("frame")), metrics, **given)

    @property
    def runs(self) -> list[str]:
        """The columns of `by` that identify the run: that of `run`, or by their names."""
        return [name for name in self.by if name == self.run or name.lower() in RUNS]

    @property
    def kept(self) -> dict[str, str]:
        """The columns to keep, which have one value per ranking, by internal name."""
        names = [*self.keep, *([] if self.weight is None else [self.weight])]
        return {f"{OWN}kept {index}": name for index, name in enumerate(names)}

    def read(self, frame: pl.LazyFrame) -> Log:
        """Return the log of a table, checked."""
        roles = {
            "run": self.run, "by": self.by, "query": self.query, "doc": self.doc,
            "score": self.score, "position": self.position, "label": self.label,
            "keep": self.keep, "weight": self.weight,
        }  # fmt: skip
        optional = (RUN, "doc", *([] if self.reads_labels else ["label"]))
        return Log.find(frame, roles, optional=optional, rules=Rules.of(self.conventions))

    def check_names(self, added: Sequence[str] = ()) -> None:
        """Raise `ArgumentError` if two columns of the result have the same name."""
        keys, metrics = [*self.by, *self.query], [column.name for column in self.metrics]
        free(self.by, added)
        weight = [] if self.weight is None else [self.weight]
        free(weight, metrics, "weight")
        others = {*keys, *self.keep, *added}
        for name in metrics:
            check_name(name)
            if name in others:
                raise ArgumentError(
                    f"metric {name!r} has the name of another column of the result; rename it with "
                    ".alias()"
                )

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


def groups_of(schema: pl.Schema, options: Mapping[str, Any]) -> Columns:
    """Return the columns of rankings in the result of an evaluation with these options."""
    for parameter in ("score", "label"):
        check_single(schema, parameter, options.get(parameter, parameter))
    given = {role: options[role] for role in ("by", "run", "query") if role in options}
    return Columns.find(schema, {"run": RUN, **given})
