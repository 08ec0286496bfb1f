"""The parameters of an evaluation, their types, and their checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack, cast

import polars as pl

from polars_rank._params import (
    OPTIONS,
    OWN,
    Names,
    check_name,
    free,
    names,
    public,
    some_names,
)
from polars_rank.columns import (
    RUN,
    RUNS,
    Columns,
    Score,
    Scores,
    scored,
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
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.corrections import Correction
from polars_rank.evaluation.log import Log, Rules
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.analyses import reads_labels, reads_order
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import listed, output_name, resolve

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

#: The column with the name of the column of labels, if there are several.
JUDGE = "judge"


class ColumnOptions(TypedDict, total=False):
    """The options of `evaluate` that name columns."""

    query: Names
    doc: str | None
    score: Scores
    label: Names
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
    #: The columns of groups: those of `by`, the run, and with several columns of labels "judge".
    by: tuple[str, ...]
    keep: tuple[str, ...]
    doc: str | None = "doc"
    score: Score = "score"
    label: str = "label"
    position: str | None = None
    #: The column of runs, one of `by`, if there is one.
    run: str | None = None
    #: The columns of scores and of labels if several are given; else None.
    scores: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    #: Whether a query counts for a judge who labeled a document in any run, instead of by the query
    #: set of the conventions.
    labeled_in_any_run: bool = False
    weight: str | None = None
    progress: bool = False
    #: The labels of people by which those of the column `label`, of a judge, are corrected.
    correction: Correction | None = None

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
        score: Scores = "score",
        label: Names = "label",
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
        scores, labels = several("score", score), several("label", label)
        if scores is not None and position is not None:
            raise ArgumentError("`score` and `position` exclude each other; pass one of them")
        columns = groups_of(
            schema, {"run": run, "by": by, "query": query, "score": score, "label": label}
        )
        evaluation = cls(
            metrics=[MetricColumn.of(metric, definitions) for metric in resolved],
            conventions=definitions,
            query=columns.query,
            by=columns.by,
            keep=names("keep", keep),
            doc=doc,
            score="score" if scores is not None else cast("Score", score),
            label=label if isinstance(label, str) else "label",
            position=position,
            run=columns.run,
            scores=scores,
            labels=labels,
            labeled_in_any_run=(
                labels is not None
                and choices.get("query_set") is None
                and definitions.query_set == "all"
            ),
            weight=weight,
            progress=progress,
        )
        if labels is not None:
            given = {"query": columns.query, "by": columns.by[:-1], "keep": evaluation.keep}
            for parameter, named_columns in given.items():
                free(named_columns, [JUDGE], parameter)
        return evaluation

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

    def read(self, frame: pl.LazyFrame) -> Log:
        """Return the log of a table, with the columns of other tables, checked."""
        if self.labels is not None and JUDGE in schema_of(frame):
            raise SchemaError(
                f"the frame already has a column {JUDGE!r}, which several columns of labels "
                "(`label`) add; rename it"
            )
        table, score = frame, self.score
        if self.scores is not None:
            table, score = runs_of(frame, self.scores, str(self.run))
        roles = {
            "run": self.run, "by": self.by, "query": self.query, "doc": self.doc, "score": score,
            "position": self.position, "label": self.label, "keep": self.keep,
            "weight": self.weight,
        }  # fmt: skip
        if self.correction is not None:
            roles |= {"human": self.correction.human, "probability": self.correction.probability}
        log = Log.find(
            table, roles,
            optional=(RUN, "doc", *(["label"] if self.has_optional_label else [])),
            parameters={"label": self.label_parameter}, rules=Rules.of(self.conventions),
        )  # fmt: skip
        columns = log.columns
        if self.scores is not None:
            columns.check_unused("score", [n for n in self.scores if n in columns.schema])
        if self.correction is not None:
            log = self.correction.read(log)
        return log

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
    def label_parameter(self) -> str:
        """The parameter that names the column of labels."""
        if self.correction is not None:
            return JUDGE
        return "label"

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


def several(parameter: str, value: Scores) -> tuple[str, ...] | None:
    """Return the columns of a parameter that names several; None if it is one."""
    if isinstance(value, (str, pl.Expr)) or not isinstance(value, Iterable):
        return None
    return some_names(parameter, value)


def check_single(options: Mapping[str, Any], parameter: str, reason: str) -> None:
    """Raise `ArgumentError` if an option names several columns, which a function does not take."""
    if several(parameter, options.get(parameter, parameter)) is not None:
        raise ArgumentError(f"`{parameter}` must be a single column here: {reason}")


def groups_of(schema: pl.Schema, options: Mapping[str, Any]) -> Columns:
    """Return the columns of rankings in the result of an evaluation with these options.

    Several columns of scores add the column of runs, and several columns of labels that of judges.
    """
    roles = {
        "run": RUN,
        **{role: options[role] for role in ("by", "run", "query") if role in options},
    }
    run = roles["run"]
    if several("score", options.get("score", "score")) is not None:
        if run is None:
            raise ArgumentError(
                "`run` must name the column of runs that several columns of scores add; found None"
            )
        if run in schema:
            raise SchemaError(
                f"the frame already has a column {run!r} (`run`), which several columns of scores "
                "(`score`) add; rename it"
            )
        schema = pl.Schema({**schema, run: pl.String()})
    if several("label", options.get("label", "label")) is None:
        return Columns.find(schema, roles)
    columns = Columns.find(pl.Schema({**schema, JUDGE: pl.String()}), roles)
    return columns._replace(by=(*columns.by, JUDGE))


def runs_of(log: pl.LazyFrame, scores: Sequence[str], run: str) -> tuple[pl.LazyFrame, str]:
    """Return one copy of the log per column of scores, whose run is the name of the column."""
    runs = pl.Enum([*scores])  # sorted in the order of `score`
    parts = []
    for name in scores:
        part, score = scored(log, name, None)
        own = {OWN + "score": pl.col(score), run: pl.lit(name, dtype=runs)}
        parts.append(part.with_columns(**own))
    return pl.concat(parts, how="vertical_relaxed"), OWN + "score"
