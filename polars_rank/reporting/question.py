"""The parameters of a report, checked against the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import check_column, names
from polars_rank.columns import run_column, without_run
from polars_rank.conventions import POLARS_RANK, Conventions, named, read_metrics, with_undefined
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation.parameters import Evaluation, check_single, run_of, several
from polars_rank.frames.tables import schema_of
from polars_rank.judges.both_labels import BothLabels
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.rules import read_rules
from polars_rank.stats.summary import SUMMARY
from polars_rank.stats.value_columns import check_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names
    from polars_rank.columns import Columns
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.rules import Rule, Rules


@dataclass(frozen=True, kw_only=True)
class Question:
    """The checked parameters of a report."""

    log: pl.LazyFrame
    columns: Columns
    metrics: Sequence[pl.Expr]
    by: Sequence[str]
    run: str | None
    baseline: Any
    slices: Sequence[str]
    #: The column of query weights, and the columns of sampling units that are not queries.
    weight: str | None
    cluster: Sequence[str]
    keep: Sequence[str]
    show: Sequence[str]
    url: str | None
    meta: Mapping[str, Any]
    rules: Sequence[Rule] | None
    #: The verdict of undecided rules: "pass" or "fail".
    undecided: str
    confidence: float
    n: int
    k: int
    #: The column of predicted labels of all queries; `label` then has those of people.
    predicted_label: str | None = None
    #: Parameters of a fusion to tune.
    fusion: Mapping[str, Any] | None = None
    #: Parameters of `per_query` other than `by` and `keep`, and the value of undefined metrics.
    options: Mapping[str, Any] = field(default_factory=dict)
    undefined: Any = None

    @classmethod
    def of(
        cls,
        log: pl.LazyFrame,
        metrics: Metrics,
        *,
        by: Names | None,
        run: str | None,
        baseline: Any,
        slices: Names | None,
        weight: str | None,
        cluster: Names | None,
        keep: Names | None,
        show: Names | None,
        url: str | None,
        meta: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        rules: Rules | None,
        undecided: str | None,
        predicted_label: str | None,
        **others: Any,
    ) -> Question:
        """Check the parameters; raise for a missing column or one that is used twice."""
        schema = schema_of(log)
        run = _run_of(schema, run, baseline, options)
        groups = without_run(names("by", by), run)
        options = {**options, "run": run}
        check_single(options, "label", "predicted labels are those of `predicted_label`")
        evaluation = Evaluation.of(
            schema,
            None,
            by=[*([] if run is None else [run]), *groups],
            **{key: value for key, value in options.items() if key in _EVALUATION_PARAMETERS},
        )
        long, columns = evaluation.read(log)
        extra = {"slices": names("slices", slices), "keep": names("keep", keep)}
        units = {"weight": names("weight", weight), "cluster": names("cluster", cluster)}
        shown = names("show", show)
        for parameter, requested_columns in {**extra, **units, "show": shown}.items():
            for name in requested_columns:
                check_column(parameter, name, columns.schema)
        if baseline is not None:  # raise for a wrong type before the evaluation
            check_run("baseline", baseline, str(run), columns.schema[str(run)])
        for parameter in ("slices", "weight", "cluster"):
            if run in {**extra, **units}[parameter]:
                raise ArgumentError(
                    f"`{parameter}` contains the column of runs, {run!r}; name another column"
                )
        requested = read_metrics(metrics, options.get("conventions"))
        conventions = named(options.get("conventions", POLARS_RANK))
        for metric in requested:
            if conventions.aggregate(metric) == "geometric":
                raise ArgumentError(
                    f"`metrics` has {output_name(metric)!r}, a geometric mean, and a report is "
                    "about means; name other metrics, such as 'ap'"
                )
        if predicted_label is not None:
            BothLabels.of(
                columns.schema, requested, conventions, label=columns.label,
                predicted_label=predicted_label,
            )  # fmt: skip
        parsed, undecided = _gates(rules, undecided, requested, baseline)
        return cls(
            log=long, columns=columns, metrics=requested, by=[*groups], run=run, rules=parsed,
            undecided=undecided, baseline=baseline, slices=extra["slices"], weight=weight,
            cluster=units["cluster"], keep=extra["keep"], show=shown,
            url=_url(url, columns, shown), meta=_meta(meta), predicted_label=predicted_label,
            options=options, **others,
        )  # fmt: skip

    @property
    def conventions(self) -> Conventions:
        """The conventions of the evaluation."""
        return named(self.options.get("conventions", POLARS_RANK))

    @property
    def counting(self) -> Conventions:
        """The conventions with the treatment of undefined values."""
        return with_undefined(self.conventions, self.undefined)

    @property
    def definitions(self) -> Conventions:
        """The conventions with the overrides of other parameters."""
        choices = ("ties", "rel", "unjudged", "query_set", "duplicates")
        given = {name: self.options.get(name) for name in choices}
        return self.conventions.but(**given, undefined=self.undefined)

    @property
    def splits(self) -> list[str]:
        """The columns of runs and groups."""
        return [*([] if self.run is None else [self.run]), *self.by]

    @property
    def both_labels(self) -> BothLabels | None:
        """The columns of labels of people and of predicted labels, if there are both."""
        if self.predicted_label is None:
            return None
        return BothLabels(self.columns.label, self.predicted_label, self.metrics)

    @property
    def columns_of_all_queries(self) -> Columns:
        """The columns of the log, with the labels that all queries have."""
        label = self.columns.label if self.predicted_label is None else self.predicted_label
        return self.columns._replace(label=label)

    @property
    def queries(self) -> list[str]:
        """The columns that identify a ranking of a run."""
        return [*self.by, *self.columns.query]

    @property
    def kept(self) -> list[str]:
        """The columns of per-query values other than their keys."""
        return self._other_columns([*self.slices, *self.units, *self.keep])

    @property
    def units(self) -> list[str]:
        """The columns of weights and clusters."""
        return [*([] if self.weight is None else [self.weight]), *self.cluster]

    @property
    def kept_units(self) -> list[str]:
        """The columns of weights and clusters other than the keys of per-query values."""
        return self._other_columns(self.units)

    def _other_columns(self, columns: Sequence[str]) -> list[str]:
        return [name for name in dict.fromkeys(columns) if name not in self.columns.keys]

    @property
    def first(self) -> pl.Expr:
        """The first metric, which determines the headline."""
        return self.metrics[0]

    @property
    def depth(self) -> int:
        """The cutoff of the first metric that has one, otherwise the number of documents shown."""
        cutoffs = (each.arguments.get("k") for each in self.metrics if isinstance(each, Metric))
        return next((k for k in cutoffs if k is not None), self.k)

    def undefined_of(self, metric: pl.Expr) -> Any:
        """Return how undefined values of one of the metrics count."""
        if not isinstance(self.undefined, Mapping):
            return self.undefined
        return self.counting.counts_as(metric)

    @property
    def statistics_options(self) -> dict[str, Any]:
        """Parameters that the statistics functions have in common."""
        return {
            "weight": self.weight, "cluster": self.cluster or None, "confidence": self.confidence,
        }  # fmt: skip


#: A field of a URL template: the name of a column in braces.
FIELD = re.compile(r"\{([^{}]*)\}")


def _url(url: str | None, columns: Columns, show: Sequence[str]) -> str | None:
    """Return the template of addresses; raise if it is not one."""
    if url is None:
        return None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ArgumentError(
            f"`url` must be a template such as 'https://example.org/{{doc}}'; found {url!r}"
        )
    available = [*columns.query, *([] if columns.doc is None else [columns.doc]), *show]
    for name in FIELD.findall(url):
        if name not in available:
            raise ArgumentError(
                f"column {name!r} (`url`) not found; available: {available}."
                f"{hint(name, available)} Add other columns of documents with `show`.",
            )
    return url


def _meta(meta: Mapping[str, Any] | None) -> Mapping[str, Any]:
    if meta is not None and not isinstance(meta, Mapping):
        raise ArgumentError(
            f"`meta` must be a mapping such as {{'commit': '1a2b3c'}}; found {meta!r}"
        )
    return meta or {}


def _gates(
    rules: Rules | None,
    undecided: str | None,
    metrics: Sequence[pl.Expr],
    baseline: Any,
) -> tuple[list[Rule] | None, str]:
    """Return the rules and the verdict of undecided ones; raise if a rule cannot apply."""
    if rules is None:
        return None, "fail"
    parsed, undecided = read_rules(rules, undecided)
    of_comparisons = {each.name for each in COMPARISON} - {each.name for each in SUMMARY}
    for rule in parsed:
        available = names_of(metrics)
        if rule.metric is not None and rule.metric not in available:
            raise ArgumentError(
                f"metric {rule.metric!r} of the rule {rule.text!r} not found; available: "
                f"{available}.{hint(rule.metric, available)}"
            )
        if baseline is None and rule.column in of_comparisons:
            raise ArgumentError(f"the rule {rule.text!r} needs a comparison; set `baseline`")
    return parsed, undecided


def names_of(metrics: Sequence[pl.Expr]) -> list[str]:
    """Return the names of metrics."""
    return [output_name(each) for each in metrics]


_EVALUATION_PARAMETERS = {
    *("query", "doc", "score", "label", "position", "run", "ties", "rel", "unjudged"),
    *("query_set", "duplicates", "conventions", "progress"),
}


def _run_of(
    schema: pl.Schema, run: str | None, baseline: Any, options: Mapping[str, Any]
) -> str | None:
    """Return the column of runs."""
    scores = several("score", options.get("score", "score"))
    if scores is not None:
        return run_of(schema, run, scores, ())
    if baseline is not None and run is None:
        raise ArgumentError("`baseline` needs a column of runs; set `run`")
    return run_column(schema, run, required=baseline is not None)
