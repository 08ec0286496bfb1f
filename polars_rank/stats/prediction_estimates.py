"""Estimates from values by human labels for some queries and by predicted labels for all.

For n human queries with the values H and J by human and predicted labels, and N other queries with
values J only, the estimate of the mean is

    mean(H - λJ over human queries) + λ · mean(J over the others)

(Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023). It is unbiased
for any λ if human queries are a random sample. The best λ is cov(H, J) / ((1 + n/N) · var(J)).

If human queries were drawn with known probabilities, they are weighted by 1 / probability, and the
other queries are all queries.

The sums below can be merged. A unit is a query, or a cluster with human and other queries. With
deviations of H, J and other J from their means, a unit has the sums u = Σw(H - m), v = Σw(J - m),
t = Σw(J - m) over other queries, and the weights a and b of its human and other queries.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import number_of, warn
from polars_rank.evaluation.means import grouped, ratio, weighted_mean
from polars_rank.stats.intervals import ONE_UNIT, TWO_UNITS
from polars_rank.stats.moment_math import alone

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The sums over units of products of u, v, t, a and b.
_LETTERS = ("u", "v", "t", "a", "b")
_PRODUCTS = {
    left + right: (left, right) for left, right in combinations_with_replacement(_LETTERS, 2)
}
#: The sums of a variable: numbers, weights and means of H, J and other J; Σw(H - m)(J - m) and
#: Σw(J - m)² over human queries, Σw(J - m)² over the others; and products over units.
FIELDS = (
    *("human", "others", "human_weight", "other_weight"),
    *("human_mean", "judge_mean", "other_mean"),
    *("covariance", "judge_squares", "other_squares"),
    *_PRODUCTS,
)


class Source(NamedTuple):
    """The values of a variable by human and by predicted labels; null where they do not count."""

    human: pl.Expr
    judge: pl.Expr
    #: Whether the query is one of the others.
    is_other: pl.Expr


def sums(
    rows: pl.LazyFrame,
    by: Sequence[str],
    sources: Mapping[str, Source],
    *,
    weight: str | None,
    cluster: Sequence[str],
    probability: str | None,
) -> pl.LazyFrame:
    """Return a row per group with a struct of `FIELDS` for each source."""
    if weight is None and not cluster and probability is None:
        structs = [_plain(source).alias(name) for name, source in sources.items()]
        return grouped(rows, by, structs)
    weights = pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)
    inverse = pl.lit(1.0) if probability is None else 1 / pl.col(probability).cast(pl.Float64)
    units = _deviations(rows, by, sources, weights, inverse)
    columns = [f"{name} {key}" for name in sources for key in _ADDED]
    if cluster:
        units = units.group_by([*by, *cluster, alone(cluster)]).agg(
            pl.col(columns).sum(),
            pl.col(f"{name} {key}" for name in sources for key in _MEANS).first(),
        )
    return grouped(units, by, [_of_units(name).alias(name) for name in sources])


def _of_both(source: Source) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Return H and J of human queries, and J of the others, null elsewhere."""
    both = source.human.is_not_null() & source.judge.is_not_null()
    return (
        pl.when(both).then(source.human),
        pl.when(both).then(source.judge),
        pl.when(source.is_other).then(source.judge),
    )


def _plain(source: Source) -> pl.Expr:
    """Return the sums if all weights are 1."""
    human, judge, other = _of_both(source)
    n, others = human.count(), other.count()
    squares = {
        "uu": human.var(ddof=0) * n,
        "uv": pl.cov(human, judge, ddof=0) * n,
        "vv": judge.var(ddof=0) * n,
        "tt": other.var(ddof=0) * others,
    }
    squares = {name: value.fill_null(0.0) for name, value in squares.items()}
    weights = {"aa": n.cast(pl.Float64), "bb": others.cast(pl.Float64)}
    nothing = (n * 0).cast(pl.Float64)
    return pl.struct(
        n.cast(pl.Int64).alias("human"),
        others.cast(pl.Int64).alias("others"),
        weights["aa"].alias("human_weight"),
        weights["bb"].alias("other_weight"),
        human.mean().alias("human_mean"),
        judge.mean().alias("judge_mean"),
        other.mean().alias("other_mean"),
        squares["uv"].alias("covariance"),
        squares["vv"].alias("judge_squares"),
        squares["tt"].alias("other_squares"),
        *({**squares, **weights}.get(name, nothing).alias(name) for name in _PRODUCTS),
    )


#: Columns of `_deviations`: sums over rankings, and means of the group.
_ADDED = ("n", "o", "u", "v", "t", "a", "b", "hj", "jj", "oo")
_MEANS = ("mh", "mj", "mo")


def _deviations(
    rows: pl.LazyFrame,
    by: Sequence[str],
    sources: Mapping[str, Source],
    weight: pl.Expr,
    inverse: pl.Expr,
) -> pl.LazyFrame:
    """Add weights, deviations from the means of the group, and their products."""

    def over(total: pl.Expr) -> pl.Expr:
        return total.over(by) if by else total

    weighed, means, products = [], [], []
    for name, source in sources.items():
        human, judge, other = _of_both(source)
        n, o, u, v, t, a, b, hj, jj, oo = (f"{name} {key}" for key in _ADDED)
        for values, weights, key, column in (
            (human, weight * inverse, a, u),
            (judge, weight * inverse, a, v),
            (other, weight, b, t),
        ):
            counts = values.is_not_null() & (weights > 0)
            if column != v:
                weighed.append(pl.when(counts).then(weights).otherwise(0.0).alias(key))
            weighed.append(pl.when(counts).then(values).otherwise(0.0).alias(column))
        for column, key, mean in ((u, a, "mh"), (v, a, "mj"), (t, b, "mo")):
            w = pl.col(key)
            center = ratio((w * pl.col(column)).sum(), w.sum())
            means.append(over(center).alias(f"{name} {mean}"))
        du, dv, dt = (
            pl.when(pl.col(key) > 0).then(pl.col(column) - pl.col(f"{name} {mean}")).otherwise(0.0)
            for column, key, mean in ((u, a, "mh"), (v, a, "mj"), (t, b, "mo"))
        )
        products += [
            (pl.col(a) > 0).cast(pl.Int64).alias(n),
            (pl.col(b) > 0).cast(pl.Int64).alias(o),
            (pl.col(a) * du).alias(u),
            (pl.col(a) * dv).alias(v),
            (pl.col(b) * dt).alias(t),
            (pl.col(a) * du * dv).alias(hj),
            (pl.col(a) * dv * dv).alias(jj),
            (pl.col(b) * dt * dt).alias(oo),
        ]
    return rows.with_columns(weighed).with_columns(means).with_columns(products)


def _of_units(name: str) -> pl.Expr:
    """Return the struct of sums from the columns of `_deviations`."""
    n, o, *letters, hj, jj, oo = [pl.col(f"{name} {key}") for key in _ADDED]
    of_unit = dict(zip(_LETTERS, letters, strict=True))
    return pl.struct(
        n.sum().alias("human"),
        o.sum().alias("others"),
        of_unit["a"].sum().alias("human_weight"),
        of_unit["b"].sum().alias("other_weight"),
        *(
            pl.col(f"{name} {key}").first().alias(field)
            for key, field in zip(_MEANS, FIELDS[4:7], strict=True)
        ),
        hj.sum().alias("covariance"),
        jj.sum().alias("judge_squares"),
        oo.sum().alias("other_squares"),
        *(
            (of_unit[left] * of_unit[right]).sum().alias(key)
            for key, (left, right) in _PRODUCTS.items()
        ),
    )


def merged_sums(name: str) -> pl.Expr:
    """Return the sums of the union of several parts."""
    part = {field: pl.col(name).struct.field(field) for field in FIELDS}
    human, other = part["human_weight"], part["other_weight"]
    means, shifts = {}, {}
    for field, weight, letter in (
        ("human_mean", human, "u"),
        ("judge_mean", human, "v"),
        ("other_mean", other, "t"),
    ):
        mean = part[field].fill_null(0.0)
        means[field] = weighted_mean(mean, weight)
        shifts[letter] = (mean - means[field]).fill_null(0.0)
    added = {
        "covariance": human * shifts["u"] * shifts["v"],
        "judge_squares": human * shifts["v"] * shifts["v"],
        "other_squares": other * shifts["t"] * shifts["t"],
    }
    # A unit's deviation from another mean is larger by the shift times its weight.
    weight_of = {"u": "a", "v": "a", "t": "b"}

    def terms(letter: str) -> list[tuple[pl.Expr | float, str]]:
        plain: list[tuple[pl.Expr | float, str]] = [(1.0, letter)]
        return [*plain, (shifts[letter], weight_of[letter])] if letter in shifts else plain

    def product(left: str, right: str) -> pl.Expr:
        return sum(
            (
                x * y * part["".join(sorted((k, m), key=_LETTERS.index))]
                for x, k in terms(left)
                for y, m in terms(right)
            ),
            start=pl.lit(0.0),
        )

    products = {name: product(*letters) for name, letters in _PRODUCTS.items()}
    totals = {
        field: (part[field] + added[field] if field in added else products.get(field, part[field]))
        for field in FIELDS
    }
    return pl.struct(
        (means[field] if field in means else total.sum()).alias(field)
        for field, total in totals.items()
    ).alias(name)


class Estimate(NamedTuple):
    """The estimate of a mean, as expressions over a struct of sums."""

    mean: pl.Expr
    std_error: pl.Expr
    #: The effective number of human units.
    units: pl.Expr
    #: One more than the degrees of freedom.
    effective: pl.Expr
    #: The effective number of units for intervals of proportions.
    proportion: pl.Expr
    #: λ
    judge_weight: pl.Expr
    effective_queries: pl.Expr


def estimate(name: str, *, by_probability: bool) -> Estimate:
    """Return the estimate from the sums in a column."""
    s = {field: pl.col(name).struct.field(field) for field in FIELDS}
    n, others = s["human"].cast(pl.Float64), s["others"].cast(pl.Float64)
    a, b = s["human_weight"], s["other_weight"]
    of_units, of_others = ratio(a * a, s["aa"]), ratio(b * b, s["bb"])
    judged, judge, other = s["human_mean"], s["judge_mean"], s["other_mean"].fill_null(0.0)
    if by_probability:
        variance = s["judge_squares"] / a
        slope = ratio(s["covariance"] / a, variance)
    else:
        middle = (a * judge + b * other) / (a + b)
        between = a * (judge - middle) ** 2 + b * (other - middle) ** 2
        squares = s["judge_squares"] + s["other_squares"] + between
        variance = squares / (a + b) * (n + others) / (n + others - 1)
        slope = ratio(s["covariance"] / a, (1 + n / others) * variance)
    weight = pl.when(others > 0).then(slope.clip(0.0, 1.0)).fill_null(0.0)
    used = weight > 0
    residual = s["uu"] - 2 * weight * s["uv"] + weight * weight * s["vv"]
    crossed = 2 * weight * (s["ut"] - weight * s["vt"]) / (a * b)
    factor = pl.when(of_units > TWO_UNITS).then(of_units / (of_units - 2))
    of_other = (
        pl.when(of_others > ONE_UNIT)
        .then(s["tt"] / (b * b) * of_others / (of_others - 1))
        .otherwise(variance / others)
    )
    predicted = (residual / (a * a) + crossed) * factor + weight * weight * of_other
    alone_error = pl.when(of_units > ONE_UNIT).then(s["uu"] / (a * a) * of_units / (of_units - 1))
    square = pl.when(used).then(predicted).otherwise(alone_error).clip(0.0)
    # Few queries on which the judge is right do not show that it always is: for proportions, half a
    # query is added on which it is wrong, in each direction.
    half = 0.5 / (of_units * of_units)
    of_human = (s["uu"] / (a * a) + half) * of_units / (of_units - 1)
    of_estimate = predicted + half * (1 + weight * weight) * factor
    proportion = pl.max_horizontal(of_units, of_units * of_human / of_estimate)
    return Estimate(
        mean=pl.when(used).then(judged - weight * judge + weight * other).otherwise(judged),
        std_error=square.sqrt(),
        units=of_units,
        effective=pl.when(used).then(of_units - 1).otherwise(of_units),
        proportion=pl.when(used).then(proportion).otherwise(of_units),
        judge_weight=weight,
        effective_queries=pl.when(square > 0).then(n * alone_error / square),
    )


def with_estimate(
    table: pl.LazyFrame, column: str, name: str, error: str, units: str, *, by_probability: bool
) -> pl.LazyFrame:
    """Return moments with the estimate as the mean `name`.

    `error` and `units` are the columns of the standard error, and of the degrees of freedom + 1.
    """
    estimated = estimate(column, by_probability=by_probability)
    return table.with_columns(
        estimated.mean.alias(name + "mean"),
        estimated.std_error.alias(error),
        estimated.effective.alias(units),
        estimated.units.alias(HUMAN_UNITS),
        estimated.proportion.alias(PROPORTION_UNITS),
        # Moments that are weighted by 1 / probability have no variance of single queries.
        (pl.col("binary") & (not by_probability)).alias("binary"),
        pl.col(column).struct.field("others").alias("predicted"),
        estimated.judge_weight.alias("judge_weight"),
        estimated.effective_queries.alias("effective_queries"),
    )


#: The effective numbers of human units, and of units for intervals of proportions.
HUMAN_UNITS, PROPORTION_UNITS = OWN + "human units", OWN + "proportion units"
#: The columns of results with predictions.
ESTIMATE_COLUMNS = ("predicted", "judge_weight", "effective_queries")


def warn_of_sampling(
    table: pl.DataFrame,
    chosen: pl.Series,
    effect: str = "the estimate may be biased; pass `probability` if they were drawn with known "
    "probabilities",
) -> None:
    """Warn of rows whose human queries are not a random sample of all queries."""
    if count := int(chosen.sum()):
        metric = table.get_column("metric")[chosen.arg_true()[0]]
        warn(
            f"the predicted values of human queries differ from those of the others in "
            f"{number_of(count, 'row')}, e.g. of {metric!r} (p < 0.001): the human queries are not "
            f"a random sample of all, so {effect}"
        )


def differs(name: str, *, by_probability: bool) -> pl.Expr:
    """Return whether the judge's mean differs between human and other queries with p < 0.001."""
    s = {field: pl.col(name).struct.field(field) for field in FIELDS}
    of_human = s["vv"] / s["human_weight"] ** 2
    of_others = s["tt"] / s["other_weight"] ** 2
    variance = of_human if by_probability else of_human + of_others
    return is_far(
        s["judge_mean"] - s["other_mean"], variance, ratio(s["human_weight"] ** 2, s["aa"])
    )


def is_far(distance: pl.Expr, variance: pl.Expr, units: pl.Expr) -> pl.Expr:
    """Return whether a mean differs from its expected value with p < 0.001, by the t test.

    The quantile is from the expansion of Student's t in 1 / degrees of freedom (Abramowitz &
    Stegun, 26.7.5), for as many as it is good for.
    """
    degrees = units - 1
    known = (variance > 0) & (degrees >= _FEWEST)
    quantile = _Z + (_Z**3 + _Z) / (4 * degrees) + _SECOND / degrees**2
    return (known & (distance * distance > quantile * quantile * variance)).fill_null(value=False)


#: The normal quantile for p = 0.001, two-sided, and the second term of the expansion.
_Z = 3.2905
_SECOND = (5 * _Z**5 + 16 * _Z**3 + 3 * _Z) / 96
_FEWEST = 9
