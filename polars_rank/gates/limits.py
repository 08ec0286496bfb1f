"""The parameters of a gate as rules, and their verdicts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import polars as pl
from polars import col

from polars_rank._params import OWN, number, number_in
from polars_rank.conventions import Conventions, read_metrics
from polars_rank.errors import ArgumentError, short
from polars_rank.gates.golden import ALL, UNANSWERABLE, Golden
from polars_rank.gates.measures import (
    ABSTAINED,
    ANSWERED,
    BEFORE,
    DECIMALS,
    FORBIDDEN,
    Change,
    Measures,
)
from polars_rank.gates.rules import Rule
from polars_rank.gates.verdicts import decided
from polars_rank.io.fields import listed
from polars_rank.metrics.names import lower_is_better, output_name
from polars_rank.stats.verdict_files import TYPES, WORST_FIRST

_LATENCIES = re.compile(r"mean|max|p(\d{1,2}(?:\.\d+)?)")
LATENCY = "latency_"
#: Columns of the tables of a gate.
_COLUMNS = {
    *("query", "category", "relevant", "forbidden_docs", "text", "docs"),
    *("run", "repetition", "metric"),
}


class Limit(NamedTuple):
    """A number in a parameter of rules."""

    category: str | None
    #: Empty for all metrics.
    metric: str
    value: float
    #: The column that it limits.
    column: str = "mean"

    def rule(self, metric: str, *, is_guard: bool = False) -> Rule:
        """Return the rule about a metric; for one of which less is better, it is turned around."""
        lower = lower_is_better(metric)
        bound = self.value if lower or self.column == "mean" else -self.value
        is_ceiling = lower or metric.startswith(LATENCY)
        where = {} if self.category is None else {"category": self.category}
        return Rule(metric, "<=" if is_ceiling else ">=", bound, self.column, where, is_guard)


def limits_of(parameter: str, given: Any, *, is_loss: bool = False) -> list[Limit]:
    """Return the numbers of a mapping, whose keys are metrics or categories with such mappings.

    A loss may be one number for all metrics, and a share of the baseline's mean, such as "5%".
    """
    is_mapping, found = isinstance(given, Mapping), []
    prefix = LATENCY if parameter == "latency" else ""
    if not is_mapping and not is_loss:
        raise ArgumentError(f"must map metrics to numbers; found {short(given)}", parameter)
    for key, of_key in (given if is_mapping else {"": given}).items():
        is_category = isinstance(of_key, Mapping)
        for metric, value in (of_key if is_category else {key: of_key}).items():
            column, is_percent = "difference" if is_loss else "mean", str(value).endswith("%")
            if is_loss and is_percent and (share := number_in(str(value)[:-1])) is not None:
                column, value = "relative_difference", share / 100  # noqa: PLW2901
            name = f"{parameter}[{metric!r}]" if is_mapping else parameter
            what = "" if is_mapping else "0 or above, a percentage, or a mapping"
            limit = round(number(name, value, what), DECIMALS)
            category = str(key) if is_category and key != ALL else None
            found.append(Limit(category, f"{prefix}{metric}", limit, column))
    if is_loss and any(each.value < 0 for each in found):
        raise ArgumentError(f"must be 0 or above; found {short(given)}", parameter)
    return found


class Limits(NamedTuple):
    """The limits of all rules."""

    floors: Sequence[Limit]
    latency: Sequence[Limit]
    drops: Sequence[Limit]
    margins: Sequence[Limit]

    def check(self, measures: Measures) -> None:
        """Raise `ArgumentError` for unknown categories, and for margins of others than metrics."""
        metrics, known = measures.metrics, measures.means["category"].unique().drop_nulls().sort()
        for limit in (*self.floors, *self.drops):
            if limit.category is not None and limit.category not in known:
                raise ArgumentError(
                    f"the category {limit.category!r} of the rule '{limit.rule(limit.metric)}' has "
                    f"no queries; categories: {listed(known)}"
                )
        for each in self.margins:
            if (name := each.category or each.metric) not in {"", *metrics}:
                raise ArgumentError(f"has numbers by metric: {metrics}; found {name!r}", "margin")

    def verdicts(self, measures: Measures, change: Change | None) -> pl.DataFrame:
        """Return the verdicts of the rules, failures first.

        Floors, latencies and drops are about the numbers of these queries, and have no interval.
        """
        numbers = [*_of_numbers(self.floors, measures.means)]
        if self.latency:
            latencies = _latencies(self.latency, [each.latency for each in measures.runs])
            numbers += _of_numbers(self.latency, latencies)
        guards: dict[str, Rule] = {}
        if change is not None:
            numbers += _of_numbers(self.drops, change.differences)
            for limit in (Limit(None, "", 0, "difference"), *self.margins):
                for metric in _metrics(limit, change.comparison):
                    guards[metric] = limit.rule(metric, is_guard=True)
        exact = pl.concat([decided([], []), *numbers]).with_columns(
            pl.lit(None, pl.Float64).alias(name) for name in ("low", "high")
        )
        shown = decided([*guards.values()], [] if change is None else [change.comparison])
        severity = col("verdict").cast(pl.Enum(WORST_FIRST))
        return pl.concat([exact, shown]).sort(severity, maintain_order=True)


def _metrics(limit: Limit, numbers: pl.DataFrame) -> list[str]:
    """Return the metrics of a table that a limit is about."""
    every = numbers["metric"].unique(maintain_order=True)
    return [name for name in every if limit.metric in ("", name)]


def _of_numbers(limits: Sequence[Limit], numbers: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the verdicts of rules about the numbers of these queries."""
    for limit in limits:
        table = numbers.filter(col("category").eq_missing(pl.lit(limit.category)))
        table = table.drop("category") if limit.category is None else table
        rules = [limit.rule(metric) for metric in _metrics(limit, table)]
        if rules or not limit.metric or limit.column != "mean":
            yield decided(rules, [table])
        else:  # nothing counts in the metric
            where = "" if limit.category is None else f"category={limit.category}"
            condition = limit.rule(limit.metric).condition
            row = (condition, where, None, None, None, 0, "fail", "no queries")
            yield pl.DataFrame([row], TYPES, orient="row")


def _latencies(limits: Sequence[Limit], seconds: Sequence[pl.Series]) -> pl.DataFrame:
    """Return the latencies of queries that have limits, such as their 95th percentile."""
    every = pl.concat(each.cast(pl.Float64) for each in seconds).drop_nulls()
    if every.is_empty():
        raise ArgumentError("has limits, but the results have no column 'latency'", "latency")
    if not every.is_finite().all():
        raise ArgumentError("column 'latency' (`results`) has NaN or infinite numbers; use null")
    rows = []
    for limit in limits:
        name = limit.metric.removeprefix(LATENCY)
        match = _LATENCIES.fullmatch(name)
        if match is None or limit.category is not None:
            expected = "'mean', 'max' or percentiles such as 'p95'"
            raise ArgumentError(f"limits {expected}; found {limit.category or name!r}", "latency")
        share = None if match[1] is None else float(match[1]) / 100
        value = getattr(every, name)() if share is None else every.quantile(share, "linear")
        rows.append({"category": None, "metric": limit.metric, "mean": value})
    table = pl.DataFrame(rows).cast({"category": pl.String})
    return table.with_columns(queries=pl.lit(len(every), pl.Int64), low="mean", high="mean")


def expressions(
    metrics: Any, golden: Golden, limits: Limits, conventions: Conventions
) -> list[pl.Expr]:
    """Return the metrics, and those of limits and of unanswerable queries."""
    chosen = read_metrics(metrics, conventions)
    for each in chosen:
        name = output_name(each)
        if lower_is_better(each) != lower_is_better(name):
            raise ArgumentError(
                f"metric {name!r}: lower is better, which its name hides; leave out .alias()"
            )
        is_taken = name in _COLUMNS or name.endswith(BEFORE) or name.startswith(OWN)
        with suppress(ArgumentError):
            is_metric = " where(" not in name and Rule.read(f"{name} >= 0") == Rule(name, ">=", 0)
            if is_metric and not is_taken:
                continue
        raise ArgumentError(
            f"metric {name!r} has the name of another column of the result, or of a part of a "
            "rule; rename it with .alias()"
        )
    known = {"", *map(output_name, chosen)}
    named = {
        "floors": [each.metric for each in limits.floors],
        "max_drop": [each.metric for each in limits.drops],
        "metrics": [ABSTAINED, ANSWERED] if UNANSWERABLE in golden.queries["category"] else [],
    }
    for parameter, names in named.items():
        others = [name for name in dict.fromkeys(names) if name not in known]
        chosen += read_metrics(others, conventions, parameter) if others else []
        known |= {*others}
    marked = [output_name(each) for each in chosen if FORBIDDEN in each.meta.root_names()]
    if marked and not golden.has_forbidden:
        raise ArgumentError(
            f"has no forbidden document for {listed(marked)}: add the field 'forbidden', a list of "
            "ids, to a query of the golden file, or leave out the metric", "judgments",
        )  # fmt: skip
    if golden.has_forbidden and not marked:
        chosen += read_metrics(f"{FORBIDDEN}@10", conventions)
    return chosen
