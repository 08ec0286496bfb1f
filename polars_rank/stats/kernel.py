"""The kernel of all statistics: moments of a vector of variables.

A unit, which is a query or a cluster of queries, contributes variables x with weights w. With the
mean m = Σwx / Σw over all queries, a unit has the deviation y = Σw(x - m) over its own. The moments
are means, weights, and sums over units of products of *letters*: deviations and weights.
A mean is a contrast a·m of the means, and its squared error is

    n / (n - 1) · Σ(a·y)² / W²,    n = W² / Σw²

with the weight W = Σw and Kish's effective number n of units (Survey Sampling, 1965).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, NamedTuple

from polars_rank.stats._arrays import Array, numpy, special

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Numbers above it have squares that cannot be added without loss.
LARGE = 1e150
#: A spread below this share of the size of the values may be a rounding error.
ROUNDING = 1e-14
#: Rows that are added at once, so that their letters fit into the cache.
_BLOCK = 2**13
#: An effective number of units up to these numbers is one and two units, up to rounding.
ONE_UNIT, TWO_UNITS = 1 + 1e-9, 2 + 1e-9
#: Weights whose effective number is below this share of their number are unequal.
_UNEQUAL = 0.9


def blocks(size: int) -> Iterator[slice]:
    """Yield the rows that are added at once."""
    for start in range(0, size, _BLOCK):
        yield slice(start, start + _BLOCK)


class Vector(NamedTuple):
    """The variables of a unit, each with the letter of its weight; d is the one to estimate."""

    weight_of: Mapping[str, str]

    @property
    def weights(self) -> str:
        """The letters of weights."""
        return "".join(dict.fromkeys(self.weight_of.values()))

    @property
    def products(self) -> list[tuple[str, str]]:
        """The pairs of letters whose products are summed over units."""
        pairs = combinations_with_replacement(self.weight_of, 2)
        return [*pairs, *((w, w) for w in self.weights)]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The pairs of variables of one weight whose products are summed over rows, too."""
        pairs = combinations_with_replacement(self.weight_of, 2)
        return [(x, y) for x, y in pairs if self.weight_of[x] == self.weight_of[y]]

    @property
    def fields(self) -> list[str]:
        """The names of all moments."""
        counts = [part + w for w in self.weights for part in "nuW"]
        means = ["m" + x for x in self.weight_of]
        return [*counts, *means, *self.totals]

    @property
    def totals(self) -> list[str]:
        """The names of sums of products over rows, and over units."""
        rows = ("r" + x + y for x, y in self.rows)
        return [*rows, *(x + y for x, y in self.products), "ddd", "dddd"]

    def of(
        self,
        values: Mapping[str, Array],
        weights: Mapping[str, Array | None],
        units: Array | None,
    ) -> tuple[dict[str, float], dict[str, Array]]:
        """Return the moments, and the letters of each unit.

        Weights are None if all are 1. Values are 0 where their weight is 0. `units` are the numbers
        of the units of the rows; None if each row is a unit.
        """
        np = numpy()
        size = len(values["d"])
        sums: dict[str, float] = {}
        for w, weight in weights.items():
            sums["n" + w] = float(size if weight is None else np.count_nonzero(weight > 0))
            sums["W" + w] = float(size if weight is None else weight.sum())
        for x, w in self.weight_of.items():
            of_weight, total = weights[w], sums["W" + w]
            weighted = values[x] if of_weight is None else values[x] * of_weight
            sums["m" + x] = float(weighted.sum()) / total if total else np.nan
        letters = {
            w: np.broadcast_to(1.0, size) if weight is None else weight
            for w, weight in weights.items()
        }
        letters |= {x: np.empty(size) for x in self.weight_of}
        totals = dict.fromkeys(self.totals, 0.0)
        for rows in blocks(size):
            deviations = {}
            for x, w in self.weight_of.items():
                mean, of_weight = sums["m" + x], weights[w]
                deviations[x] = values[x][rows] - (0.0 if np.isnan(mean) else mean)
                scale = 1.0 if of_weight is None else of_weight[rows]
                np.multiply(deviations[x], scale, out=letters[x][rows])
            for x, y in self.rows:
                totals["r" + x + y] += float(letters[x][rows] @ deviations[y])
        if units is not None:
            present, places = np.unique(units, return_inverse=True)
            letters = {
                x: np.bincount(places, each, minlength=len(present)) for x, each in letters.items()
            }
        for rows in blocks(len(letters["d"])):
            for x, y in self.products:
                totals[x + y] += float(letters[x][rows] @ letters[y][rows])
            d = letters["d"][rows]
            square = d * d
            totals["ddd"] += float(square @ d)
            totals["dddd"] += float(square @ square)
        for w in self.weights:
            is_plain = units is None and weights[w] is None
            sums["u" + w] = float(size if is_plain else np.count_nonzero(letters[w] > 0))
        return {**sums, **totals}, letters


#: A difference d from a baseline and the value x of the run; for one run alone, d is its value.
PAIR = Vector({"d": "w", "x": "w"})
#: Values by people and predicted values of queries that people judged, and predicted values of
#: other queries.
PREDICTED = Vector({"d": "w", "j": "w", "o": "v"})


class Moments:
    """Moments of several rows as arrays, and the estimates that follow from them."""

    def __init__(self, sums: Mapping[str, Array] | Sequence[Mapping[str, float]]) -> None:
        np = numpy()
        if not isinstance(sums, Mapping):
            names = sums[0] if sums else PAIR.fields
            sums = {name: [row[name] for row in sums] for name in names}
        self.sums: dict[str, Array] = {
            name: np.asarray(each, dtype=float) for name, each in sums.items()
        }

    def __getitem__(self, name: str) -> Array:
        return self.sums[name]

    def effective(self, w: str = "w") -> Array:
        """Return Kish's effective number of units."""
        return self["W" + w] ** 2 / self[w + w]

    def squares(self, **contrast: Array) -> Array:
        """Return the sum over units of the squared contrast of deviations."""
        items = contrast.items()
        return sum(
            a * b * self[x + y if x + y in self.sums else y + x] for x, a in items for y, b in items
        )

    def variance(self, **contrast: Array) -> Array:
        """Return the squared standard error of a contrast; NaN for one unit or fewer."""
        n = self.effective()
        known = numpy().where(n > ONE_UNIT, n / (n - 1), numpy().nan)
        return known * self.squares(**contrast) / self["Ww"] ** 2

    @property
    def size(self) -> Array:
        """The size of the values, to which rounding errors are proportional."""
        np = numpy()
        has_run = self["Ww"] > 0
        squares = np.maximum(self["rdd"], self["rxx"]) / self["Ww"]
        means = np.maximum(np.abs(self["md"]), np.abs(self["mx"]))
        return np.where(has_run, np.sqrt(squares) + means, 0.0)

    @property
    def error(self) -> Array:
        """The standard error of the estimated mean; 0 if it may be a rounding error."""
        np = numpy()
        spread, n = self._spread, self.effective()
        lost = (spread < 1 / LARGE) & (self.size > 0) & (self.size < 1 / LARGE)
        spread = np.where(spread <= ROUNDING * self.size, 0.0, spread)
        return np.where((n > ONE_UNIT) & ~lost, spread / np.sqrt(n - 1), np.nan)

    @property
    def std(self) -> Array:
        """The standard deviation of the values; NaN for fewer than two."""
        np = numpy()
        n = self["nw"]
        spread = np.sqrt(np.maximum(self["rdd"] / self["Ww"] * n / (n - 1), 0.0))
        spread = np.where(spread <= ROUNDING * self.size, 0.0, spread)
        return np.where(n > 1, spread, np.nan)

    @property
    def _spread(self) -> Array:
        """The standard deviation of what units contribute to the mean."""
        np = numpy()
        return np.sqrt(np.maximum(self["dd"] / self["ww"], 0.0))

    @property
    def skewness(self) -> Array:
        """The skewness of the mean times √n: that of the values, if weights are equal.

        NaN if the values differ by rounding errors only.
        """
        np = numpy()
        skewness = self["ddd"] / self["dd"] ** 1.5 * np.sqrt(self.effective())
        return np.where(self._spread <= ROUNDING * self.size, np.nan, skewness)

    @property
    def acceleration(self) -> Array:
        """Σe³ / (6 (Σe²)^1.5) of the units' influence values, for Hall's bounds."""
        return self["ddd"] / self["dd"] ** 1.5 / 6

    @property
    def degrees(self) -> Array:
        """Degrees of freedom: the number of units - 1, or fewer if their weights are unequal."""
        return degrees_of_freedom(self["uw"], self.effective(), self["dd"] ** 2 / self["dddd"])


def degrees_of_freedom(units: Array, effective: Array, residuals: Array) -> Array:
    """Return degrees of freedom, given the numbers of units and (Σe²)² / Σe⁴ of their residuals.

    If Kish's effective number is below 90% of the number of units, the residuals decide.
    """
    np = numpy()
    known = np.where(np.isfinite(residuals), residuals, effective)
    fewer = np.minimum(known, effective) - 1
    return np.where(effective < _UNEQUAL * units, np.maximum(fewer, 0.0), units - 1)


def quantile(degrees: Array, share: Array) -> Array:
    """Return the quantile of t distributions, or of the normal one for infinite degrees."""
    np, functions = numpy(), special()
    finite = np.where(np.isfinite(degrees) & (degrees > 0), degrees, 1.0)
    of_t = np.where(degrees > 0, functions.stdtrit(finite, share), np.nan)
    return np.where(np.isposinf(degrees), functions.ndtri(share), of_t)


def two_sided(degrees: Array, statistic: Array) -> Array:
    """Return the two-sided p-value of a statistic, as `quantile` distributes it."""
    np, functions = numpy(), special()
    finite = np.where(np.isfinite(degrees) & (degrees > 0), degrees, 1.0)
    of_t = np.where(degrees > 0, functions.stdtr(finite, -statistic), np.nan)
    return np.minimum(2 * np.where(np.isposinf(degrees), functions.ndtr(-statistic), of_t), 1.0)
