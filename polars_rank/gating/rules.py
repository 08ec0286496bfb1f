"""The rules of a gate, and their verdicts, which are those of `check`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl
from polars import col

from polars_rank._params import number
from polars_rank.errors import ArgumentError, short
from polars_rank.metrics.names import lower_is_better
from polars_rank.stats.comparison import compare
from polars_rank.stats.gates import check
from polars_rank.stats.verdicts import TYPES, WORST_FIRST

#: Decimals of values: rounding errors must not decide.
DECIMALS = 9
_LATENCIES = re.compile(r"mean|max|p(\d{1,2}(?:\.\d+)?)")


class Bound(NamedTuple):
    """A number in a parameter of rules."""

    category: str | None
    #: Empty for all metrics.
    metric: str
    value: float


def bounds_of(parameter: str, given: Any, *, is_loss: bool = False) -> list[Bound]:
    """Return the numbers of a mapping, whose keys are metrics or categories with such mappings.

    A loss may be one number for all metrics.
    """
    if isinstance(given, Mapping):
        found = [
            Bound(
                key if isinstance(value, Mapping) else None,
                name,
                number(f"{parameter}[{name!r}]", bound),
            )
            for key, value in given.items()
            for name, bound in (value if isinstance(value, Mapping) else {key: value}).items()
        ]
    elif is_loss:
        found = [Bound(None, "", number(parameter, given, "0 or above, or a mapping"))]
    else:
        raise ArgumentError(
            f"`{parameter}` must be a mapping from metrics to numbers; found {short(given)}"
        )
    if is_loss and any(each.value < 0 for each in found):
        raise ArgumentError(f"`{parameter}` must be 0 or above; found {short(given)}")
    return found


def means(values: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Return the means over all queries and of each category, one row per metric.

    They are the numbers of these queries, so that their interval is a point.
    """
    long = values.unpivot(metrics, index="category", variable_name="metric", value_name="mean")
    count = col("mean").count().cast(pl.Int64).alias("queries")
    number = [col("mean").mean().round(DECIMALS), count]
    whole = long.group_by("metric", maintain_order=True).agg(number)
    parts = long.filter(col("category").is_not_null())
    parts = parts.group_by("category", "metric", maintain_order=True).agg(number)
    table = pl.concat([whole, parts.sort("category", maintain_order=True)], how="diagonal")
    return table.filter(col("queries") > 0).with_columns(low="mean", high="mean")


def checked(
    numbers: pl.DataFrame, bounds: Sequence[Bound], form: str, sign: int = 1
) -> Iterator[pl.DataFrame]:
    """Yield the verdicts of bounds on tables of numbers, for all queries and for categories."""
    for category, name, bound in bounds:
        rule, where = _text(form, name, sign * bound + 0.0), {"category": category}
        table = numbers.filter(col("category").eq_missing(pl.lit(category)))
        if category is None:
            table, where = table.drop("category"), {}
        elif table.is_empty():
            known = numbers["category"].unique().drop_nulls().sort()
            raise ArgumentError(
                f"the category {category!r} of the rule {rule!r} has no queries; "
                f"categories: {', '.join(map(repr, known)) or 'none'}"
            )
        yield _decided(table, [{"rule": rule, "where": where}])


def _decided(numbers: pl.DataFrame, rules: Sequence[Any]) -> pl.DataFrame:
    """Return the verdicts on numbers, whose interval is a point that is not shown."""
    verdicts = check(numbers, rules, on_fail="return")
    return verdicts.with_columns(pl.lit(None, pl.Float64).alias(name) for name in ("low", "high"))


def _text(form: str, name: str, bound: float) -> str:
    """Return the text of a rule; for a metric of which less is better, it is turned around."""
    if lower_is_better(name):
        form = form.translate(str.maketrans("<>", "><"))
        bound = -bound if "difference" in form and bound else bound
    return form.format(name, bound)


def differences(now: pl.DataFrame, before: pl.DataFrame) -> pl.DataFrame:
    """Return the differences of means, as numbers of these queries."""
    both = now.join(before, on=["category", "metric"], nulls_equal=True, suffix="_before")
    difference = (col("mean") - col("mean_before")).round(DECIMALS)
    return both.select(
        "category", "metric", "queries", difference=difference, low=difference, high=difference
    )


def of_metrics(bounds: Sequence[Bound], numbers: pl.DataFrame) -> list[Bound]:
    """Return the bounds of each metric of a table."""
    metrics = [*numbers["metric"].unique(maintain_order=True)]
    return [b._replace(metric=m) for b in bounds for m in metrics if b.metric in ("", m)]


def guards(comparison: pl.DataFrame, margins: Sequence[Bound]) -> Iterator[pl.DataFrame]:
    """Yield the verdicts of guards, which fail if a loss beyond the margin is shown."""
    bounds = [Bound(None, "", 0), *margins]
    known = {each.metric: each.value for each in of_metrics(bounds, comparison)}
    rules = [
        _text("not difference({}) < {:.12g}", name, -margin + 0.0) for name, margin in known.items()
    ]
    if rules:
        yield check(comparison, rules, on_fail="return")


def compared(now: pl.DataFrame, before: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Compare the values of the same queries with those of the baseline, also by category."""
    both = pl.concat(
        [now.with_columns(run=pl.lit("run")), before.with_columns(run=pl.lit("baseline"))],
        how="diagonal",
    ).select("run", "query", "category", *metrics)
    categories = "category" if both["category"].count() else None
    rows = compare(both, metrics, baseline="baseline", slices=categories, details=True)
    # Small categories have no interval, and no verdict.
    is_kept = col("slice").is_null() | col("low").is_not_null() if categories else True
    return rows.filter(col("queries") > 0, is_kept).drop("run", "baseline")


def latencies(
    seconds: Sequence[pl.Series | None], bounds: Sequence[Bound]
) -> Iterator[pl.DataFrame]:
    """Yield the verdicts of limits on the latency of queries, such as its 95th percentile."""
    known = [each for each in seconds if each is not None]
    if not known:
        raise ArgumentError("`latency` has limits, but the results have no column 'latency'")
    every = pl.concat(known).cast(pl.Float64)
    rows = []
    for _, name, _ in bounds:
        match = _LATENCIES.fullmatch(name)
        if match is None:
            raise ArgumentError(
                "`latency` has limits for 'mean', 'max' or percentiles such as 'p95'; "
                f"found {name!r}"
            )
        value = (
            every.quantile(float(match[1]) / 100, "linear") if match[1] else getattr(every, name)()
        )
        rows.append({"metric": f"latency_{name}", "mean": value, "queries": len(every)})
    table = pl.DataFrame(rows).with_columns(low="mean", high="mean")
    rules = [f"latency_{name} <= {bound:.12g}" for _, name, bound in bounds]
    yield _decided(table, rules)


def sorted_verdicts(tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return all verdicts, failures first."""
    severity = col("verdict").cast(pl.Enum(WORST_FIRST))
    return pl.concat(tables or [pl.DataFrame(schema=TYPES)]).sort(severity, maintain_order=True)
