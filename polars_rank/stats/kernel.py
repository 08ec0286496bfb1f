"""The kernel of all statistics: moments of a vector of variables, and how parts are merged.

A unit, which is a query or a cluster of queries, contributes variables x with weights w. With the
mean m = Σwx / Σw over all of its queries, a unit has the deviation y = Σw(x - m) over its own. The
moments are means, weights, and sums over units of products of *letters*: deviations and weights.
A mean is a contrast a·m of the means, and its squared error is

    n / (n - 1) · Σ(a·y)² / W²,    n = W² / Σw²

with the weight W = Σw and Kish's effective number n of units (Survey Sampling, 1965). If the mean
of a part differs from the mean of the whole by s, a deviation grows by s·w, so all products of
parts are merged by one rule: replace y by y + s·w, expand, and add.
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
    """The variables of a unit, each with the letter of its weight."""

    weight_of: Mapping[str, str]
    #: The variable that is estimated, whose moments up to the fourth are kept.
    primary: str = "d"

    @property
    def letters(self) -> str:
        """The letters of variables and weights."""
        return "".join(self.weight_of) + self.weights

    @property
    def weights(self) -> str:
        """The letters of weights."""
        return "".join(dict.fromkeys(self.weight_of.values()))

    @property
    def products(self) -> list[str]:
        """The products of letters that are summed over units."""
        d, w = self.primary, self.weight_of[self.primary]
        pairs = ("".join(each) for each in combinations_with_replacement(self.letters, 2))
        powers = (d * i + w * (power - i) for power in (3, 4) for i in range(power, -1, -1))
        return [*pairs, *powers]

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The pairs of variables of one weight whose products are summed over rows, too."""
        pairs = combinations_with_replacement(self.weight_of, 2)
        return [(x, y) for x, y in pairs if self.weight_of[x] == self.weight_of[y]]

    @property
    def fields(self) -> list[str]:
        """The names of all moments."""
        counts = [part + w for w in self.weights for part in "nuW"]
        rows = ["r" + x + y for x, y in self.rows]
        return [*counts, *("m" + x for x in self.weight_of), *rows, *self.products]

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
        size = len(values[self.primary])
        sums = self._means(values, weights, size)
        letters = {
            w: np.broadcast_to(1.0, size) if weight is None else weight
            for w, weight in weights.items()
        }
        letters |= {x: np.empty(size) for x in self.weight_of}
        totals = dict.fromkeys(("r" + x + y for x, y in self.rows), 0.0)
        totals |= dict.fromkeys(self.products, 0.0)
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
        for rows in blocks(len(letters[self.primary])):
            self._add_products(totals, {x: each[rows] for x, each in letters.items()})
        for w in self.weights:
            is_plain = units is None and weights[w] is None
            sums["u" + w] = float(size if is_plain else np.count_nonzero(letters[w] > 0))
        return {**sums, **totals}, letters

    def _means(
        self, values: Mapping[str, Array], weights: Mapping[str, Array | None], size: int
    ) -> dict[str, float]:
        """Return the numbers of rows that count, their weights, and the means."""
        np = numpy()
        sums: dict[str, float] = {}
        for w, weight in weights.items():
            sums["n" + w] = float(size if weight is None else np.count_nonzero(weight > 0))
            sums["W" + w] = float(size if weight is None else weight.sum())
        for x, w in self.weight_of.items():
            of_weight, total = weights[w], sums["W" + w]
            weighted = values[x] if of_weight is None else values[x] * of_weight
            sums["m" + x] = float(weighted.sum()) / total if total else np.nan
        return sums

    def _add_products(self, totals: dict[str, float], letters: Mapping[str, Array]) -> None:
        """Add the products of letters over some units."""
        for x, y in combinations_with_replacement(self.letters, 2):
            totals[x + y] += float(letters[x] @ letters[y])
        name, weight = self.primary, self.weight_of[self.primary]
        d, w = letters[name], letters[weight]
        square, mixed, own = d * d, d * w, w * w
        for power, factors in (
            (3, ((square, d), (square, w), (mixed, w), (own, w))),
            (4, ((square, square), (square, mixed), (square, own), (mixed, own), (own, own))),
        ):
            for place, (left, right) in enumerate(factors):
                totals[name * (power - place) + weight * place] += float(left @ right)

    def merged(self, parts: Mapping[str, Array], group: Array, size: int) -> dict[str, Array]:
        """Return the moments of groups of parts; `group` has the group of each part."""
        np = numpy()

        def total(values: Array) -> Array:
            return np.bincount(group, values, minlength=size)

        merged, shifts = {}, {}
        for name in self.fields:
            if name[0] in "nuW" and name[1:] in self.weights:
                merged[name] = total(parts[name])
        with np.errstate(all="ignore"):
            for x, w in self.weight_of.items():
                mean = np.where(parts["W" + w] > 0, parts["m" + x], 0.0)
                of_group = total(mean * parts["W" + w]) / merged["W" + w]
                merged["m" + x] = of_group
                shifts[x] = np.where(parts["W" + w] > 0, mean - of_group[group], 0.0)
        for x, y in self.rows:
            between = parts["W" + self.weight_of[x]] * shifts[x] * shifts[y]
            merged["r" + x + y] = total(parts["r" + x + y] + between)
        for name in self.products:
            merged[name] = total(sum(f * parts[each] for f, each in self._expanded(name, shifts)))
        return merged

    def _expanded(self, product: str, shifts: Mapping[str, Array]) -> Iterator[tuple[Array, str]]:
        """Yield the terms of a product in which each deviation y is replaced by y + shift · w."""
        terms: list[tuple[Array, str]] = [(1.0, "")]
        for x in product:
            more = []
            if x in self.weight_of:
                more = [(f * shifts[x], term + self.weight_of[x]) for f, term in terms]
            terms = [(f, term + x) for f, term in terms] + more
        for factor, term in terms:
            yield factor, "".join(sorted(term, key=self.letters.index))


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

    def mean(self, **contrast: Array) -> Array:
        """Return a contrast of means."""
        return sum(a * self["m" + x] for x, a in contrast.items())

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
