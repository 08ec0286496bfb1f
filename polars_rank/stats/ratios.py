"""Ratios of sums over units, from sums of powers that are added up over parts of a table.

The ratio m = Σv / Σd is the mean of v / d with the weights d. So a unit has the deviation v - md
and the weight d, and the moments of `kernel` follow from the sums of products of v and d.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import comb, nan
from operator import mul

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.means import ratio
from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.estimates import inference_of
from polars_rank.stats.groups import Facts
from polars_rank.stats.kernel import ROUNDING, Moments

_UNITS = OWN + "units"
#: The powers of v and d in each product.
_POWERS = [(i, power - i) for power in range(1, 5) for i in range(power + 1)]


def power_sums(names: Sequence[str], divisor: str) -> list[pl.Expr]:
    """Return sums over units, from which the moments of the ratios of some columns follow."""
    sums = {
        _column(name, i, j): reduce(mul, [*[pl.col(name)] * i, *[pl.col(divisor)] * j]).sum()
        for name in names
        for i, j in _POWERS
    }
    return [each.alias(name) for name, each in sums.items()] + [
        (pl.col(divisor) > 0).sum().alias(_UNITS)
    ]


def _column(name: str, i: int, j: int) -> str:
    return f"{OWN}v{i}d{j} {name if i else ''}"


#: Kish's effective number of units, (Σd)² / Σd².
EFFECTIVE_UNITS = ratio(pl.col(_column("", 0, 1)) ** 2, pl.col(_column("", 0, 2)))


def ratio_estimates(
    sums: pl.DataFrame,
    name: str,
    *,
    rows: str,
    confidence: float,
    differences: bool = False,
    discordant: str | None = None,
    weighted: bool = False,
) -> pl.DataFrame:
    """Return the columns value, variance, low, high and p_value of a ratio, from its sums.

    The column `rows` has the number of rows of all units. For differences of -1, 0 or 1, the column
    `discordant` has the number of those that are not 0. Otherwise, the range of values is unknown.
    """
    np = numpy()

    def total(i: int, j: int) -> Array:
        return sums.get_column(_column(name, i, j)).to_numpy()

    with np.errstate(all="ignore"):
        mean, number = total(1, 0) / total(0, 1), sums.get_column(rows).to_numpy().astype(float)

        def central(power: int) -> Array:
            """Return Σ(v - md)^power."""
            terms = [comb(power, k) * (-mean) ** k * total(power - k, k) for k in range(power + 1)]
            found, size = sum(terms), sum(map(np.abs, terms))
            known = np.where(np.abs(found) > ROUNDING * size, found, 0.0)
            return np.where(np.isfinite(size), known, np.nan)

        nothing = np.zeros(len(mean))
        spread, facts = nothing, Facts(is_binary=False, range=nan)
        if discordant is not None:
            facts = Facts(is_binary=True, range=1.0)
            spread = sums.get_column(discordant).to_numpy() - number * mean**2
        moments = Moments({
            "nw": number, "uw": sums.get_column(_UNITS).to_numpy(), "Ww": total(0, 1),
            "ww": total(0, 2), "md": mean, "mx": nothing, "rdd": spread, "rxx": nothing,
            "dd": central(2), "ddd": central(3), "dddd": central(4),
        })  # fmt: skip
        found = inference_of(
            moments, [facts] * len(mean), differences=differences, weighted=weighted,
            known=np.ones(len(mean), dtype=bool),
        )  # fmt: skip
        low, high = found.bounds(1 - confidence)
        columns = {
            "value": mean, "variance": found.error**2, "low": low, "high": high,
            "p_value": found.p_values(),
        }  # fmt: skip
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.Float64), nan_to_null=True)
