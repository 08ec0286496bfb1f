"""What a report is asked: of which log, by which metrics, against which run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, check_there, names
from polars_rank.columns import RUN
from polars_rank.conventions import Conventions, named, read_metrics
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.stats.comparison import COLUMNS as COMPARED
from polars_rank.stats.gates import read_rules
from polars_rank.stats.pairs import Pairs
from polars_rank.stats.summary import COLUMNS as SUMMARIZED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank._params import Names
    from polars_rank.columns import Columns
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.gates import Rule, Rules


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of a log, its columns checked."""

    log: pl.LazyFrame
    columns: Columns
    metrics: Sequence[pl.Expr]
    by: Sequence[str]
    run: str | None
    baseline: Any
    slices: Sequence[str]
    keep: Sequence[str]
    show: Sequence[str]
    rules: Sequence[Rule] | None
    #: Whether undecided rules "pass" or "fail".
    undecided: str
    confidence: float
    worst: int
    k: int
    #: Of `per_query`, beside `by` and `keep`; and as what undefined values count.
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
        keep: Names | None,
        show: Names | None,
        options: Mapping[str, Any],
        rules: Rules | None,
        undecided: str | None,
        **others: Any,
    ) -> Question:
        """Return the question; raise where a column is not there, or has two parts to play."""
        schema = schema_of(log)
        groups, run = _run_of(schema, names("by", by), run, baseline, options)
        evaluation = Evaluation.of(
            None,
            by=[*([] if run is None or options.get("scores") else [run]), *groups],
            **{key: value for key, value in options.items() if key in _OF_REQUEST},
        )
        long, columns = evaluation.read(log)
        extra = {"slices": names("slices", slices), "keep": names("keep", keep)}
        shown = names("show", show)
        for parameter, asked in {**extra, "show": shown}.items():
            for name in asked:
                check_there(parameter, name, columns.schema)
        if baseline is not None:  # so that one of another type is an error before the long work
            theirs = {n: dtype for n, dtype in columns.schema.items() if not n.startswith(OWN)}
            query = columns.query
            Pairs.of(pl.Schema(theirs), by=groups, run=str(run), query=query, baseline=baseline)
        if run in extra["slices"]:
            message = f"`slices` names the column of runs, {run!r}; leave it out"
            raise ArgumentError(message, "slices")
        wanted = read_metrics(metrics, options.get("conventions"))
        read, undecided = _gates(rules, undecided, wanted, baseline)
        return cls(
            log=long, columns=columns, metrics=wanted, by=groups, run=run, rules=read,
            undecided=undecided, baseline=baseline, slices=extra["slices"], keep=extra["keep"],
            show=shown, options=options, **others,
        )  # fmt: skip

    @property
    def conventions(self) -> Conventions:
        """The conventions by which undefined values count."""
        return named(self.options.get("conventions", "polars_rank"))

    @property
    def agreed(self) -> Conventions:
        """The conventions with what was said beside them."""
        choices = ("ties", "rel", "unjudged", "query_set")
        given = {name: self.options.get(name) for name in choices}
        return self.conventions.but(**given, undefined=self.undefined)

    @property
    def splits(self) -> list[str]:
        """The columns of runs and groups."""
        return [*([] if self.run is None else [self.run]), *self.by]

    @property
    def queries(self) -> list[str]:
        """The columns that tell the lists of a run apart."""
        return [*self.by, *self.columns.query]

    @property
    def kept(self) -> list[str]:
        """The columns that per-query values must have beside their keys."""
        asked = dict.fromkeys([*self.slices, *self.keep])
        return [name for name in asked if name not in self.columns.keys]

    @property
    def first(self) -> pl.Expr:
        """The metric that decides."""
        return self.metrics[0]

    def named(self, name: str) -> pl.Expr:
        """Return the metric of a name."""
        return next(each for each in self.metrics if output_name(each) == name)

    @property
    def means(self) -> list[pl.Expr]:
        """The metrics that are means over lists, which differences add up to."""
        return [
            each
            for each in self.metrics
            if not isinstance(each, Metric) or each.aggregate == "mean"
        ]

    @property
    def counted(self) -> dict[str, Any]:
        """What the statistics are told of undefined values."""
        return {"undefined": self.undefined, "conventions": self.conventions}


def _gates(
    rules: Rules | None, undecided: str | None, metrics: Sequence[pl.Expr], baseline: Any
) -> tuple[list[Rule] | None, str]:
    """Return the rules and what undecided ones do; raise, before the long work, if on nothing."""
    if rules is None:
        return None, "fail"
    read, undecided = read_rules(rules, undecided)
    for rule in read:
        there = names_of(metrics)
        if rule.metric is not None and rule.metric not in there:
            message = (
                f"the rule {rule.text!r} is about {rule.metric!r}, which is not among the metrics "
                f"{there}.{hint(rule.metric, there)}"
            )
            raise ArgumentError(message)
        if baseline is None and rule.column in {*COMPARED} - {*SUMMARIZED}:
            message = (
                f"the rule {rule.text!r} is about differences from a run; name it with `baseline`"
            )
            raise ArgumentError(message, "baseline")
    return read, undecided


def lower_is_better(metric: pl.Expr) -> bool:
    """Return whether a lower value is better; of a plain expression that is not known."""
    return isinstance(metric, Metric) and metric.lower_is_better


def names_of(metrics: Sequence[pl.Expr]) -> list[str]:
    """Return the names of metrics."""
    return [output_name(each) for each in metrics]


_OF_REQUEST = {
    *("query", "doc", "score", "label", "position", "scores", "ties", "rel", "unjudged"),
    *("query_set", "duplicates", "conventions", "progress"),
}


def _run_of(
    schema: pl.Schema,
    groups: tuple[str, ...],
    run: str | None,
    baseline: Any,
    options: Mapping[str, Any],
) -> tuple[list[str], str | None]:
    """Return the groups, and the column of runs."""
    unsaid = run is RUN
    if options.get("scores") is not None:
        if not unsaid and run != RUN:
            message = f"`scores` are the runs, in a column 'run'; leave out `run`; found {run!r}"
            raise ArgumentError(message, "scores", "run")
        return [*groups], str(RUN)
    if unsaid:
        keys = names("query", options.get("query", "query"))
        there = run in schema and run not in keys
        run = str(run) if there or baseline is not None else None
        groups = tuple(name for name in groups if name != run)
    if run is None:
        if baseline is not None:
            message = "`baseline` is one of the runs; say with `run` which column they are in"
            raise ArgumentError(message, "baseline", "run")
        return [*groups], None
    if not isinstance(run, str):
        message = f"`run` must be the name of a column; found {run!r}"
        raise ArgumentError(message, "run")
    check_there("run", run, schema)
    if run in groups:
        message = f"column {run!r} is in `by` and in `run`; leave it in one of them"
        raise ArgumentError(message, "by", "run")
    return [*groups], run
