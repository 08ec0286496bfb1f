"""Intervals drawn in the cells of a table, with positions in percent of the cell."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Margin at both ends of a cell, in percent.
_MARGIN = 6.0
#: Approximate number of ticks of an axis, and maximum number of characters of their labels, each
#: with a space after it.
_TICKS, _CHARACTERS = 5, 28


@dataclass(frozen=True)
class Place:
    """Positions of an interval, its value and 0, in percent; below 0 if outside of the cell."""

    low: float
    high: float
    at: float
    zero: float


@dataclass(frozen=True)
class Scale:
    """The values at the ends of a cell."""

    low: float
    high: float

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], value: str, *, zero: bool = False) -> Scale:
        """Return a scale that contains all intervals, and 0 with `zero`."""
        ends = [row.get(name) for row in rows for name in (value, "low", "high")]
        finite = [end for end in ends if end is not None and math.isfinite(end)]
        finite += [0.0] if zero else []
        return cls(min(finite, default=0.0), max(finite, default=0.0))

    def place(self, row: Mapping[str, Any], value: str) -> Place | None:
        """Return the position of the interval of a row; None if there is no value."""
        at = row[value]
        if at is None or self.high <= self.low:
            return None
        ends = (at if row.get(name) is None else row[name] for name in ("low", "high"))
        low, high = (self._percent(end) for end in ends)
        return Place(low, high, self._percent(at), self._percent(0.0))

    def ticks(self) -> list[tuple[float, str]]:
        """Return the positions and labels of a few round values.

        Examples
        --------
        >>> from polars_rank.reporting.bars import Scale
        >>> [label for _, label in Scale(-0.013, 0.052).ticks()]
        ['0.00', '0.02', '0.04']
        """
        if self.high <= self.low:
            return []
        power = math.floor(math.log10((self.high - self.low) / _TICKS))
        ticks: list[tuple[float, str]] = []
        for step in (factor * 10.0**power for factor in (1, 2, 5, 10)):
            places = range(math.ceil(self.low / step), math.floor(self.high / step) + 1)
            digits = max(0, -math.floor(math.log10(step)))
            ticks = [(self._percent(n * step), _label(n * step, digits)) for n in places]
            if sum(len(label) + 1 for _, label in ticks) <= _CHARACTERS:
                break
        return ticks

    def _percent(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        inside = min(max(share, -1.0), 2.0)
        return round(_MARGIN + (100 - 2 * _MARGIN) * inside, 2)


def _label(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}".replace("-", "\N{MINUS SIGN}")
