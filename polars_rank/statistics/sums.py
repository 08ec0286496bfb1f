"""What a mean and its error need of many values: few numbers, which add up over any partition.

A unit is what is drawn independently: a list, or a cluster of them. With weights w and values x
of the units, the mean is m = Σwx / Σw, and its standard error the square root of

    n / (n - 1) · Σ w² (x - m)² / (Σw)²

which is s / √n where all weights are 1 (Cochran, Sampling Techniques, 1977, section 6.4; for
clusters, w is the weight of a cluster and x its mean). The deviations are kept from the mean of
the part, as in Chan, Golub & LeVeque (1979), so that nothing cancels when parts are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank.aggregation import grouped, ratio

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The numbers of one variable: lists and their weight, mean and squared deviations; units, Σw²,
#: Σw²(x - m) and Σw²(x - m)² over them.
PARTS = (
    "counted",
    "weight",
    "mean",
    "squares",
    "units",
    "weight_squares",
    "deviations",
    "unit_squares",
)

#: Below this share of what it was made of, a difference of sums is nothing but rounding.
_ROUNDING = 1e-14


def reduced(
    rows: pl.LazyFrame,
    by: Sequence[str],
    *,
    counts: Mapping[str, pl.Expr],
    means: Mapping[str, pl.Expr],
    spreads: Mapping[str, pl.Expr],
    weight: str | None = None,
    cluster: Sequence[str] = (),
    also: Sequence[pl.Expr] = (),
) -> pl.LazyFrame:
    """Return a row per group: sums of counts, means, and all `PARTS` of spreads by name + part.

    Without clusters, what else is asked for is there `also`.
    """
    if weight is None and not cluster:
        values = [
            *(count.sum().alias(name) for name, count in counts.items()),
            *(value.mean().alias(name) for name, value in means.items()),
            *(each for name, value in spreads.items() for each in _plain(name, value)),
            *also,
        ]
        return grouped(rows, by, values)
    weights = pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)
    of_each = [
        *(count.cast(pl.Int64).alias(name) for name, count in counts.items()),
        *(each for name, value in means.items() for each in weighed(name, value, weights)[1:3]),
        *(each for name, value in spreads.items() for each in weighed(name, value, weights)),
    ]
    if cluster:
        lists = rows.select(*by, *cluster, *of_each)
        units, also = lists.group_by([*by, *cluster]).agg(pl.all().sum()), ()
    else:
        units = rows.with_columns(of_each)
    values = [
        *(pl.col(name).sum() for name in counts),
        *(
            ratio(pl.col(name + " y").sum(), pl.col(name + " w").sum()).alias(name)
            for name in means
        ),
        *(each for name in spreads for each in of_units(name)),
        *also,
    ]
    return grouped(units, by, values)


def _plain(name: str, value: pl.Expr) -> list[pl.Expr]:
    count, squares = value.count(), (value.var(ddof=0) * value.count()).fill_null(0.0)
    weight, nothing = count.cast(pl.Float64), (count * 0).cast(pl.Float64)
    parts = (count, weight, value.mean(), squares, count, weight, nothing, squares)
    return [part.alias(name + key) for key, part in zip(PARTS, parts, strict=True)]


def weighed(name: str, value: pl.Expr, weight: pl.Expr) -> list[pl.Expr]:
    """Return of each list whether it counts, w, wx and wx²."""
    counts = value.is_not_null() & (weight > 0)
    w = pl.when(counts).then(weight).otherwise(0.0)
    y = pl.when(counts).then(weight * value).otherwise(0.0)
    z = pl.when(counts).then(weight * value * value).otherwise(0.0)
    parts = {" n": counts.cast(pl.Int64), " w": w, " y": y, " z": z}
    return [part.alias(name + key) for key, part in parts.items()]


def of_units(name: str) -> list[pl.Expr]:
    """Return all `PARTS` from the columns n, w, y = Σwx and z = Σwx² of the units."""
    n, w, y, z = (pl.col(f"{name} {key}") for key in "nwyz")
    mean = y.sum() / w.sum()
    ww, wy, yy = (w * w).sum(), (w * y).sum(), (y * y).sum()
    parts = (
        n.sum(),
        w.sum(),
        ratio(y.sum(), w.sum()),
        _above_rounding(z.sum() - mean * y.sum(), z.sum()),
        (w > 0).sum(),
        ww,
        (wy - mean * ww).fill_nan(0.0),
        _above_rounding(yy - 2 * mean * wy + mean * mean * ww, yy),
    )
    return [part.alias(name + key) for key, part in zip(PARTS, parts, strict=True)]


def _above_rounding(difference: pl.Expr, of: pl.Expr) -> pl.Expr:
    # NaN, of a group without weight, compares as greater than everything.
    return (
        pl.when(difference.is_nan())
        .then(0.0)
        .when(difference <= _ROUNDING * of)
        .then(0.0)
        .otherwise(difference)
    )


def merged(name: str) -> list[pl.Expr]:
    """Return all `PARTS` of several parts taken together."""
    counted, weight, mean, squares, units, ww, deviations, unit_squares = (
        pl.col(name + part) for part in PARTS
    )
    part_mean = mean.fill_null(0.0)
    together = _together(part_mean, weight)
    shift = (part_mean - together).fill_null(0.0)
    parts = (
        counted.sum(),
        weight.sum(),
        together,
        (squares + weight * shift * shift).sum(),
        units.sum(),
        ww.sum(),
        (deviations + shift * ww).sum(),
        (unit_squares + 2 * shift * deviations + shift * shift * ww).sum(),
    )
    return [part.alias(name + key) for key, part in zip(PARTS, parts, strict=True)]


def merged_mean(name: str, weight: str) -> pl.Expr:
    """Return the mean of several parts taken together."""
    return _together(pl.col(name).fill_null(0.0), pl.col(weight)).alias(name)


def _together(mean: pl.Expr, weight: pl.Expr) -> pl.Expr:
    return ratio((mean * weight).sum(), weight.sum())


def std(name: str) -> pl.Expr:
    """Return the standard deviation of the values; null for fewer than two."""
    counted, weight, squares = (pl.col(name + part) for part in ("counted", "weight", "squares"))
    return pl.when(counted > 1).then((squares / weight * counted / (counted - 1)).sqrt())


def std_error(name: str) -> pl.Expr:
    """Return the standard error of the mean; null for fewer than two units."""
    units, weight = pl.col(name + "units"), pl.col(name + "weight")
    squares = pl.col(name + "unit_squares")
    return pl.when(units > 1).then((squares * units / (units - 1)).sqrt() / weight)
