"""Sums for means and standard errors, which can be merged over any partition.

A unit is sampled independently: a ranking, or a cluster of rankings. With weights w and values x
of the units, the mean is m = Σwx / Σw, and its standard error the square root of

    n / (n - 1) · Σ w² (x - m)² / (Σw)²

which is s / √n if all weights are 1 (Cochran, Sampling Techniques, 1977, section 6.4; for
clusters, w is the weight of a cluster and x its mean). Deviations are from the mean of
the part, as in Chan, Golub & LeVeque (1979), so that no digits cancel when parts are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.means import grouped, ratio, weighted_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: The sums of a variable: rankings and their weight, mean and squared deviations; units, Σw²,
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

#: A standard deviation below this share of the size of the values may be a rounding error.
_ROUNDING = 1e-14

#: Squares of numbers between the inverse of this number and the number can be added without loss.
LARGE = 1e150

_ALONE = OWN + "alone"


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
    """Return a row per group: sums of `counts`, `means`, and all `PARTS` of each of `spreads`.

    The columns of a spread are its name followed by the part. `also` has further aggregations,
    which are omitted if there are clusters.
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
    rankings = rows.with_columns(
        *(count.cast(pl.Int64).alias(name) for name, count in counts.items()),
        *(each for name, value in means.items() for each in _weighed(name, value, weights)),
    )
    units = deviations(rankings, by, spreads, weights)
    if cluster:
        units = units.group_by([*by, *cluster, alone(cluster)]).agg(
            *(pl.col(name).sum() for name in counts),
            *(pl.col(f"{name} {key}").sum() for name in means for key in "wy"),
            *(pl.col(f"{name} {key}").sum() for name in spreads for key in "nwyz"),
            *(pl.col(f"{name} c").first() for name in spreads),
        )
        also = ()
    values = [
        *(pl.col(name).sum() for name in counts),
        *(
            ratio(pl.col(name + " y").sum(), pl.col(name + " w").sum()).alias(name)
            for name in means
        ),
        *(each for name in spreads for each in _of_units(name)),
        *also,
    ]
    return grouped(units, by, values)


def _plain(name: str, value: pl.Expr) -> list[pl.Expr]:
    count, squares = value.count(), (value.var(ddof=0) * value.count()).fill_null(0.0)
    weight, nothing = count.cast(pl.Float64), (count * 0).cast(pl.Float64)
    parts = (count, weight, value.mean(), squares, count, weight, nothing, squares)
    return [part.alias(name + key) for key, part in zip(PARTS, parts, strict=True)]


def _weighed(name: str, value: pl.Expr, weight: pl.Expr) -> list[pl.Expr]:
    """Return w and wx of each ranking; 0 where it does not count."""
    counts = value.is_not_null() & (weight > 0)
    w = pl.when(counts).then(weight).otherwise(0.0).alias(name + " w")
    return [w, pl.when(counts).then(weight * value).otherwise(0.0).alias(name + " y")]


def deviations(
    rows: pl.LazyFrame, by: Sequence[str], values: Mapping[str, pl.Expr], weight: pl.Expr
) -> pl.LazyFrame:
    """Add for each ranking n (whether it counts), w, y = w(x - c) and z = w(x - c)².

    c is the mean of the group. Sums of squares of the values themselves would lose digits: for
    values around 1e7, a variance of 1 would be lost.
    """
    weighed = rows.with_columns(
        each for name, value in values.items() for each in _weighed(name, value, weight)
    )

    def over(total: pl.Expr) -> pl.Expr:
        return total.over(by) if by else total

    centers, parts = [], []
    for name, value in values.items():
        n, w, y, z, c = (f"{name} {key}" for key in "nwyzc")
        centers.append(over(ratio(pl.col(y).sum(), pl.col(w).sum())).alias(c))
        counts, distance = pl.col(w) > 0, value - pl.col(c)
        parts += [
            counts.cast(pl.Int64).alias(n),
            pl.when(counts).then(pl.col(w) * distance).otherwise(0.0).alias(y),
            pl.when(counts).then(pl.col(w) * distance * distance).otherwise(0.0).alias(z),
        ]
    return weighed.with_columns(centers).with_columns(parts)


def alone(cluster: Sequence[str]) -> pl.Expr:
    """Return a number for each row without a cluster, so that it forms its own cluster, or null."""
    without = pl.any_horizontal(pl.col(name).is_null() for name in cluster)
    return pl.when(without).then(pl.int_range(pl.len())).alias(_ALONE)


def _of_units(name: str) -> list[pl.Expr]:
    """Return all `PARTS` from the columns of `deviations`."""
    n, w, y, z, c = (pl.col(f"{name} {key}") for key in "nwyzc")
    ww, wy, yy = (w * w).sum(), (w * y).sum(), (y * y).sum()
    # The mean differs from c by a rounding error only.
    off = ratio(y.sum(), w.sum()).fill_null(0.0)
    parts = (
        n.sum(),
        w.sum(),
        c.first() + off,
        z.sum() - off * y.sum(),
        (w > 0).sum(),
        ww,
        wy - off * ww,
        yy - 2 * off * wy + off * off * ww,
    )
    return [part.alias(name + key) for key, part in zip(PARTS, parts, strict=True)]


def merged(name: str) -> list[pl.Expr]:
    """Return all `PARTS` of the union of several parts."""
    counted, weight, mean, squares, units, ww, deviations, unit_squares = (
        pl.col(name + part) for part in PARTS
    )
    part_mean = mean.fill_null(0.0)
    together = weighted_mean(part_mean, weight)
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
    """Return the mean of the union of several parts."""
    return weighted_mean(pl.col(name).fill_null(0.0), pl.col(weight)).alias(name)


def rounding(name: str) -> pl.Expr:
    """Return the size up to which a standard deviation or a difference may be a rounding error.

    It is proportional to the size of the values, also for differences between them.
    """
    mean, squares, weight = (pl.col(part) for part in ("mean", "squares", "weight"))
    size = (squares / weight + mean * mean).sqrt().fill_nan(None).fill_null(0.0)
    return _ROUNDING * (size + pl.col(name + "mean").abs())


def shares() -> pl.Expr:
    """Return whether all values may be in [0, 1]: the mean square is at most the mean."""
    mean, squares, weight = (pl.col(part) for part in ("mean", "squares", "weight"))
    return squares / weight <= mean * (1 - mean) + _ROUNDING


def _root(squares: pl.Expr, name: str) -> pl.Expr:
    """Return the root of a mean square; 0 if it may be a rounding error, null if it is unknown."""
    spread, size = squares.clip(0.0).sqrt(), pl.col(name + "mean").abs()
    lost = (spread < 1 / LARGE) & (size > 0) & (size < 1 / LARGE)
    return pl.when(~lost).then(pl.when(spread <= rounding(name)).then(0.0).otherwise(spread))


def std(name: str) -> pl.Expr:
    """Return the standard deviation of the values; null for fewer than two."""
    counted, weight, squares = (pl.col(name + part) for part in ("counted", "weight", "squares"))
    return pl.when(counted > 1).then(_root(squares / weight * counted / (counted - 1), name))


def std_error(name: str) -> pl.Expr:
    """Return the standard error of the mean; null for fewer than two units."""
    units, weight = pl.col(name + "units"), pl.col(name + "weight")
    squares, weight_squares = pl.col(name + "unit_squares"), pl.col(name + "weight_squares")
    spread = _root(squares / weight_squares, name)
    return pl.when(units > 1).then(spread * (weight_squares * units / (units - 1)).sqrt() / weight)
