"""Sums for means and standard errors, which can be merged over any partition.

A unit is sampled independently: a ranking, or a cluster of rankings. With weights w and values x
of the units, the mean is m = Σwx / Σw, and its standard error the square root of

    n / (n - 1) · Σ w² (x - m)² / (Σw)²,    n = (Σw)² / Σw²

which is s / √n if all weights are 1 (Cochran, Sampling Techniques, 1977, section 6.4; for
clusters, w is the weight of a cluster and x its mean). n is the effective number of units (Kish,
Survey Sampling, 1965), which is lower if weights are unequal. Deviations are from the mean of
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
#: Σw²(x - m) and Σw²(x - m)² over them; Σw³, Σw³(x - m), Σw³(x - m)² and Σw³(x - m)³.
PARTS = (
    *("counted", "weight", "mean", "squares"),
    *("units", "weight_squares", "deviations", "unit_squares"),
    *("weight_cubes", "cube_deviations", "cube_squares", "unit_cubes"),
)
#: The sums of a variable without those for the skewness, which take half of the time.
PARTS_OF_ERRORS = PARTS[:8]
#: The sums of a variable that is counted where another one is, which has the other sums.
COMPANION_PARTS = ("mean", "deviations", "unit_squares")

#: A standard deviation below this share of the size of the values may be a rounding error.
_ROUNDING = 1e-14

#: Squares of numbers between the inverse of this number and the number can be added without loss.
LARGE = 1e150

_ALONE = OWN + "alone"
#: An effective number of units up to this number is one unit, up to rounding.
_ONE = 1 + 1e-9


def reduced(
    rows: pl.LazyFrame,
    by: Sequence[str],
    *,
    counts: Mapping[str, pl.Expr],
    spreads: Mapping[str, tuple[pl.Expr, Sequence[str]]],
    weight: str | None = None,
    cluster: Sequence[str] = (),
    carried: Sequence[str] = (),
    also: Sequence[pl.Expr] = (),
) -> pl.LazyFrame:
    """Return a row per group: sums of `counts`, and the given parts of `spreads`.

    The columns of a spread are its name followed by the part. `also` has further aggregations;
    with clusters, they read the columns `carried` of the first ranking of each cluster.
    """
    if weight is None and not cluster:
        values = [
            *(count.sum().alias(name) for name, count in counts.items()),
            *(each for name, spread in spreads.items() for each in _plain(name, *spread)),
            *also,
        ]
        return grouped(rows, by, values)
    weights = pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)
    rankings = rows.with_columns(count.cast(pl.Int64).alias(name) for name, count in counts.items())
    variables = {name: value for name, (value, _) in spreads.items()}
    units = deviations(rankings, by, variables, weights)
    if cluster:
        units = units.group_by([*by, *cluster, alone(cluster)]).agg(
            pl.col(*counts).sum(),
            *(pl.col(f"{name} {key}").sum() for name in spreads for key in "nwyz"),
            *(pl.col(f"{name} c").first() for name in spreads),
            *(pl.col(name).first() for name in carried),
        )
    values = [
        *(pl.col(name).sum() for name in counts),
        *(each for name, (_, parts) in spreads.items() for each in _of_units(name, parts)),
        *also,
    ]
    return grouped(units, by, values)


def _plain(name: str, value: pl.Expr, parts: Sequence[str]) -> list[pl.Expr]:
    """Return parts of a variable whose weights are 1."""
    count, variance = value.count(), value.var(ddof=0)
    squares = (variance * count).fill_null(0.0)
    weight, nothing = count.cast(pl.Float64), (count * 0).cast(pl.Float64)
    cubes = pl.when(squares > 0).then(value.skew() * variance.sqrt() * squares).otherwise(0.0)
    values = {
        "counted": count,
        "weight": weight,
        "mean": value.mean(),
        "squares": squares,
        "units": count,
        "weight_squares": weight,
        "deviations": nothing,
        "unit_squares": squares,
        "weight_cubes": weight,
        "cube_deviations": nothing,
        "cube_squares": squares,
        "unit_cubes": cubes,
    }
    return [values[part].alias(name + part) for part in parts]


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


def _weighed(name: str, value: pl.Expr, weight: pl.Expr) -> list[pl.Expr]:
    """Return w and wx of each ranking; 0 where it does not count."""
    counts = value.is_not_null() & (weight > 0)
    w = pl.when(counts).then(weight).otherwise(0.0).alias(name + " w")
    return [w, pl.when(counts).then(weight * value).otherwise(0.0).alias(name + " y")]


def alone(cluster: Sequence[str]) -> pl.Expr:
    """Return a number for each row without a cluster, so that it forms its own cluster, or null."""
    without = pl.any_horizontal(pl.col(name).is_null() for name in cluster)
    return pl.when(without).then(pl.int_range(pl.len())).alias(_ALONE)


def _of_units(name: str, parts: Sequence[str]) -> list[pl.Expr]:
    """Return parts from the columns of `deviations`."""
    n, w, y, z, c = (pl.col(f"{name} {key}") for key in "nwyzc")
    # The mean differs from c by a rounding error only.
    off = ratio(y.sum(), w.sum()).fill_null(0.0)
    values = {
        "counted": n.sum(),
        "weight": w.sum(),
        "mean": c.first() + off,
        "squares": z.sum() - off * y.sum(),
        "units": (w > 0).sum(),
        **_shifted(
            -off,
            *((w * w).sum(), (w * y).sum(), (y * y).sum()),
            *((w * w * w).sum(), (w * w * y).sum(), (w * y * y).sum(), (y * y * y).sum()),
        ),
    }
    return [values[part].alias(name + part) for part in parts]


def _shifted(
    shift: pl.Expr, ww: pl.Expr, wwd: pl.Expr, wwdd: pl.Expr, *cubes: pl.Expr
) -> dict[str, pl.Expr]:
    """Return the sums over units around a mean that is lower by `shift`."""
    www, wwwd, wwwdd, wwwddd = cubes
    return {
        "weight_squares": ww,
        "deviations": wwd + shift * ww,
        "unit_squares": wwdd + 2 * shift * wwd + shift * shift * ww,
        "weight_cubes": www,
        "cube_deviations": wwwd + shift * www,
        "cube_squares": wwwdd + 2 * shift * wwwd + shift * shift * www,
        "unit_cubes": wwwddd + shift * (3 * wwwdd + shift * (3 * wwwd + shift * www)),
    }


def merged(name: str) -> list[pl.Expr]:
    """Return all `PARTS` of the union of several parts."""
    counted, weight, mean, squares, units, *of_units = (pl.col(name + part) for part in PARTS)
    part_mean = mean.fill_null(0.0)
    together = weighted_mean(part_mean, weight)
    shift = (part_mean - together).fill_null(0.0)
    parts = {
        "counted": counted.sum(),
        "weight": weight.sum(),
        "mean": together,
        "squares": (squares + weight * shift * shift).sum(),
        "units": units.sum(),
        **{part: value.sum() for part, value in _shifted(shift, *of_units).items()},
    }
    return [parts[part].alias(name + part) for part in PARTS]


def merged_companion(name: str, other: str) -> list[pl.Expr]:
    """Return all `COMPANION_PARTS` of the union of several parts, given the name of the spread."""
    mean, deviations, squares = (pl.col(name + part) for part in COMPANION_PARTS)
    weight, ww = pl.col(other + "weight"), pl.col(other + "weight_squares")
    part_mean = mean.fill_null(0.0)
    together = weighted_mean(part_mean, weight)
    shift = (part_mean - together).fill_null(0.0)
    parts = (
        together,
        (deviations + shift * ww).sum(),
        (squares + 2 * shift * deviations + shift * shift * ww).sum(),
    )
    return [part.alias(name + key) for key, part in zip(COMPANION_PARTS, parts, strict=True)]


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


def effective(name: str) -> pl.Expr:
    """Return the effective number of units."""
    weight, squares = pl.col(name + "weight"), pl.col(name + "weight_squares")
    return ratio(weight * weight, squares)


def std_error(name: str) -> pl.Expr:
    """Return the standard error of the mean; null for one effective unit or fewer."""
    spread = _root(pl.col(name + "unit_squares") / pl.col(name + "weight_squares"), name)
    n = effective(name)
    return pl.when(n > _ONE).then(spread / (n - 1).sqrt())


def skewness(name: str) -> pl.Expr:
    """Return the skewness of the mean times √n, which is that of the values for weights of 1.

    Null if the values do not differ.
    """
    squares, cubes = pl.col(name + "unit_squares"), pl.col(name + "unit_cubes")
    value = cubes / (squares * squares.sqrt()) * effective(name).sqrt()
    return pl.when(value.is_finite() & (std_error(name) > 0)).then(value)


def variance(companion: str, name: str) -> pl.Expr:
    """Return the squared standard error of the mean of a companion of the spread `name`."""
    return pl.col(companion + "unit_squares") * _factor(name)


def covariance(left: str, right: str, total: str, name: str) -> pl.Expr:
    """Return the covariance of two means, given the companion that is the sum of both."""
    squares = [pl.col(each + "unit_squares") for each in (total, left, right)]
    return (squares[0] - squares[1] - squares[2]) / 2 * _factor(name)


def _factor(name: str) -> pl.Expr:
    """Return what a sum of weighted squares is multiplied by for a squared standard error."""
    n, weight = effective(name), pl.col(name + "weight")
    return pl.when(n > _ONE).then(n / (n - 1) / weight / weight)
