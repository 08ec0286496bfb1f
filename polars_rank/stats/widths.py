"""Widths of the intervals that more queries judged by people would give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.estimates import Judged
from polars_rank.stats.kernel import Moments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The smallest number of judged queries for an estimate with predictions.
_LEAST = 3
#: Below this saving, the judge is not worth its labels.
_WORTH = 0.1
#: Widths that differ by less, relative to them, are equal.
_SLACK = 1e-9
#: Number of widths that are computed at once.
_WIDTHS = 2**12
#: The largest number of judged queries.
MOST = 2**48


class Pilot(NamedTuple):
    """The moments of `PREDICTED` of a row, and the confidence level."""

    sums: Mapping[str, float]
    confidence: float
    #: Whether there are predictions; otherwise, there is any number of other queries.
    has_predictions: bool

    def width(self, added: Array, *, alone: bool) -> Array:
        """Return the width with some numbers of additional queries; NaN where there is none."""
        np = numpy()
        judged = Judged.of(Moments(self._planned(np.asarray(added, dtype=float), alone=alone)))
        used = judged.judge_weight > 0
        degrees = judged.units - 1 - used
        error = np.where((judged.error > 0) & (degrees > 0), judged.error, np.nan)
        tail = (1 + self.confidence) / 2
        widths = 2 * special().stdtrit(np.maximum(degrees, 1e-9), tail) * error
        return widths if alone else np.where(used, widths, self.width(added, alone=True))

    def _planned(self, added: Array, *, alone: bool) -> dict[str, Array]:
        """Return the moments that are expected.

        Means, variances and weights per query remain. If `alone`, there are no other queries. The
        sums of squares are proportional to the degrees of freedom of the estimate.
        """
        np, s = numpy(), self.sums
        n, others, a, b = s["nw"], s["nv"], s["Ww"], s["Wv"]
        with np.errstate(all="ignore"):
            share = (n + added) / n
            other_share = (others - added) / others if others else np.zeros(len(added))
            units, other_units = a * a / np.float64(s["ww"]), b * b / np.float64(s["vv"])
            lost = 1 if alone else 2
            squares = np.where(units > lost, (units * share - lost) / (units - lost), np.nan)
            other_squares = (other_units * other_share - 1) / (other_units - 1)
            other = s["mo"] if others else 0.0
            middle = (a * s["mj"] + b * other) / (a + b)
            between = a * (s["mj"] - middle) ** 2 + b * (other - middle) ** 2
            of_judge = s["rjj"] + s["roo"] + between
            total = a * share + b * other_share
            planned: dict[str, Any] = {
                name: np.full(len(added), value) for name, value in s.items()
            }
            planned |= {
                "nw": n + added, "nv": np.zeros(len(added)) if alone else others - added,
                "Ww": a * share, "Wv": b * other_share, "mj": np.full(len(added), middle),
                "mo": np.full(len(added), middle),
                "rdj": s["rdj"] * (n + added - 1) / (n - 1 if n > 1 else np.nan),
                "rjj": of_judge * total / (a + b), "roo": np.zeros(len(added)),
                "rdd": s["rdd"] * share, "dd": s["dd"] * squares, "dj": s["dj"] * squares,
                "jj": s["jj"] * squares, "oo": s["oo"] * other_squares, "ww": s["ww"] * share,
                "vv": s["vv"] * other_share,
            }  # fmt: skip
        return planned

    def with_n(self, added: int) -> dict[str, Any]:
        """Return the expected width with a number of additional queries."""
        return self._result(added, possible=added <= self.others, is_given=True)

    def with_width(self, width: float) -> dict[str, Any]:
        """Return the smallest number of additional queries with at most this width."""
        alone = not self.has_predictions
        added = _smallest(lambda n: self.width(n, alone=alone), width, 0, self.others)
        reached = self._one_width(added, alone=alone)
        return self._result(added, possible=reached <= width * (1 + _SLACK), is_given=False)

    @property
    def others(self) -> int:
        """The largest number of additional queries."""
        return int(self.sums["nv"]) if self.has_predictions else MOST

    def _one_width(self, added: int, *, alone: bool) -> float:
        return float(self.width(numpy().array([added]), alone=alone)[0])

    def _result(self, added: int, *, possible: bool, is_given: bool) -> dict[str, Any]:
        human, others = int(self.sums["nw"]), self.others
        least = _LEAST if self.has_predictions else _LEAST - 1
        known = possible and human >= least
        width = alone = saving = last = float("nan")
        if known:
            alone = self._one_width(added, alone=True)
            width = self._one_width(added, alone=False) if self.has_predictions else alone
            if self.has_predictions and width == width:  # noqa: PLR0124
                saving = 1 - (human + added) / self._needed(human, human + added, width, alone)
        if human >= least:
            last = self._one_width(others, alone=not self.has_predictions)
        note = None
        if human < least:
            note = f"too few judged queries: {human}; at least {least} are needed"
        elif is_given and added > others:
            note = f"only {others:,} queries have no human labels"
        elif last != last:  # noqa: PLR0124
            note = (
                "no interval: all values are equal, or the weights leave too few effective queries"
            )
        elif width != width:  # noqa: PLR0124
            note = f"not reached: with human labels of all queries, the width is {last:.4g}"
        elif self.has_predictions and added == others:
            note = "all queries have human labels, so there is nothing to predict"
        elif saving < _WORTH:
            note = (
                f"the predictions save less than {_WORTH:.0%} of the human labels for this width: "
                "the judge is not worth its labels"
            )
        return {
            "n": added if known or is_given else None, "width": width, "width_human": alone,
            "saving": saving, "note": note,
        }  # fmt: skip

    def _needed(self, human: int, total: int, width: float, alone: float) -> int:
        """Return the number of judged queries that have this width alone.

        The quantile of t decreases with the number, and the standard error with its root.
        """
        high = int(min(numpy().ceil(total * max(alone / width, 1.0) ** 2), MOST))
        return _smallest(lambda n: self.width(n - human, alone=True), width, 2, max(high, 2))


def _smallest(widths: Callable[[Array], Array], most: float, low: int, high: int) -> int:
    """Return the smallest number from `low` to `high` with at most this width, or else `high`."""
    np = numpy()
    while low < high:
        parts = max(2, min(_WIDTHS, high - low))
        numbers = low + (high - low) * np.arange(parts) // parts
        enough = widths(numbers.astype(float)) <= most * (1 + _SLACK)
        last = int(enough.argmax()) if enough.any() else parts
        bounds = np.concatenate([[low - 1], numbers, [high]])
        low, high = int(min(bounds[last] + 1, bounds[last + 1])), int(bounds[last + 1])
    return high
