"""Intervals drawn in the cells of a table: where they begin and end, in percent of the cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: Left free at both ends of a cell.
_MARGIN = 4.0


@dataclass(frozen=True)
class Place:
    """Where an interval, its middle and 0 are, in percent; 0 outside of the cell below it."""

    low: float
    high: float
    at: float
    zero: float


@dataclass(frozen=True)
class Scale:
    """The values that the ends of a cell stand for."""

    low: float
    high: float

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], value: str, *, zero: bool = False) -> Scale:
        """Return the scale of all intervals; with `zero`, 0 is in the middle."""
        ends = [row.get(name) for row in rows for name in (value, "low", "high")]
        known = [end for end in ends if end is not None and abs(end) != float("inf")]
        if zero:
            most = max(map(abs, known), default=0.0)
            return cls(-most, most)
        return cls(min(known, default=0.0), max(known, default=0.0))

    def place(self, row: Mapping[str, Any], value: str) -> Place | None:
        """Return where the interval of a row is; None where there is no value."""
        at = row[value]
        if at is None or self.high <= self.low:
            return None
        ends = (at if row.get(name) is None else row[name] for name in ("low", "high"))
        low, high = (self._percent(end) for end in ends)
        return Place(low, high, self._percent(at), self._percent(0.0))

    def _percent(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        inside = min(max(share, -1.0), 2.0)
        return round(_MARGIN + (100 - 2 * _MARGIN) * inside, 2)
