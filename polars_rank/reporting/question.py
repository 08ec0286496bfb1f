"""The parameters of a report, checked against the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import polars as pl

from polars_rank._params import OWN, names
from polars_rank.columns import RUN, Columns, without_run
from polars_rank.conventions import Conventions, ConventionsLike, Definitions, named, read_metrics
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation.log import Log
from polars_rank.frames.tables import schema_of
from polars_rank.gates.rules import read_rules
from polars_rank.metrics.metric import cutoff
from polars_rank.metrics.names import output_name
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.summary import SUMMARY
from polars_rank.stats.value_columns import check_run, is_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_rank._params import Names
    from polars_rank.conventions import Undefined
    from polars_rank.gates.rules import Rule, Rules
    from polars_rank.metrics.names import Metrics

#: Prefix of columns of values that are null where a metric is undefined, whatever it counts as.
DEFINED = OWN + "defined "


@dataclass(frozen=True, kw_only=True)
class Question:
    """The checked parameters of a report."""

    #: The number of queries with the largest gains, and with the largest losses, of each run.
    n: ClassVar[int] = 5
    #: The number of documents that are shown of each ranking.
    k: ClassVar[int] = 10
    #: The confidence level of all intervals.
    confidence: ClassVar[float] = 0.95

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
    show: Sequence[str]
    rules: Sequence[Rule] | None
    #: The verdict of undecided rules: "pass" or "fail".
    undecided: str
    #: Parameters of `per_query` other than `by` and `keep`.
    options: Mapping[str, Any]

    @classmethod
    def of(
        cls, log: pl.LazyFrame, metrics: Metrics, *, by: Names | None, run: str | None,
        baseline: Any, rules: Rules | None, undecided: str | None,
        conventions: ConventionsLike, progress: bool, **options: Any,
    ) -> Question:  # fmt: skip
        """Check the parameters; raise for a missing column or one that is used twice."""
        schema = schema_of(log)
        if baseline is not None and run is None:
            raise ArgumentError("needs a column of runs; set `run`", "baseline")
        optional = () if baseline is not None else (RUN,)
        run = Columns.find(schema, {"run": run}, optional=optional).run
        groups = without_run(names("by", by), run)
        choices = {name: options.pop(name) for name in Definitions.__annotations__.keys() & options}
        definitions = named(conventions).but(**choices)
        given = {role: options.pop(role) for role in ("slices", "weight", "cluster", "show")}
        options |= {"run": run, "conventions": definitions, "progress": progress}
        read = Log.of(log, by=groups, **options)
        found = read.columns
        extra = {
            role: Columns.find(found.schema, {role: columns}).roles[role]
            for role, columns in given.items()
        }
        if baseline is not None:  # raise for a wrong type before the evaluation
            check_run("baseline", baseline, str(run), found.schema[str(run)])
        for parameter in ("slices", "weight", "cluster"):
            if run in extra[parameter]:
                raise ArgumentError(
                    f"contains the column of runs, {run!r}; name another column", parameter
                )
        requested = read_metrics(metrics, definitions)
        for metric in requested:
            if definitions.aggregate(metric) == "geometric":
                raise ArgumentError(
                    f"has {output_name(metric)!r}, a geometric mean, and a report is "
                    "about means; name other metrics, such as 'ap'",
                    "metrics",
                )
        parsed, undecided = _gates(rules, undecided, requested, baseline)
        return cls(
            log=read.table, columns=found, metrics=requested, by=[*groups], run=run, rules=parsed,
            undecided=undecided, baseline=baseline, options=options,
            **{**extra, "weight": given["weight"]},
        )  # fmt: skip

    @property
    def conventions(self) -> Conventions:
        """The conventions of the evaluation."""
        conventions: Conventions = self.options["conventions"]
        return conventions

    def counting_where(self, rules: Mapping[str, Undefined]) -> Conventions:
        """Return the conventions with other treatments of undefined values in some columns."""
        general = self.conventions.undefined
        if not isinstance(general, Mapping):
            general = {"*": general}
        return replace(self.conventions, undefined={**general, **rules})

    @property
    def runs(self) -> list[str]:
        """The column of runs, if there is one."""
        return [] if self.run is None else [self.run]

    def of_runs(self, table: pl.LazyFrame, runs: Iterable[Any]) -> pl.LazyFrame:
        """Return the rows of some runs."""
        if self.run is None:
            return table
        dtype = table.collect_schema()[self.run]
        are_runs = (is_run(self.run, dtype, run) for run in runs)
        return table.filter(pl.any_horizontal(pl.lit(value=False), *are_runs))

    @property
    def splits(self) -> list[str]:
        """The columns of runs and groups."""
        return [*self.runs, *self.by]

    @property
    def queries(self) -> list[str]:
        """The columns that identify a ranking of a run."""
        return [*self.by, *self.columns.query]

    def kept(self, *, slices: bool) -> list[str]:
        """Return the columns of weights and clusters, and of slices, other than the keys."""
        weight = [] if self.weight is None else [self.weight]
        columns = [*(self.slices if slices else ()), *weight, *self.cluster]
        return [name for name in dict.fromkeys(columns) if name not in self.columns.keys]

    @property
    def first(self) -> pl.Expr:
        """The first metric, which determines the headline."""
        return self.metrics[0]

    @property
    def depth(self) -> int:
        """The number of first documents whose labels the headline needs, at most `k`."""
        return min(cutoff(self.first) or self.k, self.k)


def _gates(
    rules: Rules | None, undecided: str | None, metrics: Sequence[pl.Expr], baseline: Any
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
                f"metric {rule.metric!r} of the rule {str(rule)!r} not found; available: "
                f"{available}.{hint(rule.metric, available)}"
            )
        if baseline is None and rule.column in of_comparisons:
            raise ArgumentError(f"the rule {str(rule)!r} needs a comparison; set `baseline`")
    return parsed, undecided


def names_of(metrics: Sequence[pl.Expr]) -> list[str]:
    """Return the names of metrics."""
    return [output_name(each) for each in metrics]
