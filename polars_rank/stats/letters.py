"""The compact letter display of runs that cannot be told apart."""

from __future__ import annotations

from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Between the letters of a run, if some groups have two letters.
_SEPARATOR = ","


def letters(differ: Sequence[Sequence[bool]]) -> list[str]:
    """Return the letters of runs, best first: two share one if and only if they do not differ.

    Each group of runs that do not differ is as large as possible. It begins with the first two
    runs that are not in a group together. Those that are not yet together with most of its runs
    join it first. Unlike Piepho's insert-absorb algorithm, which may need exponential time, this
    needs at most one group for each pair.

    Gramm et al., Algorithms for compact letter displays: comparison and evaluation, 2007.

    Examples
    --------
    >>> from polars_rank.stats.letters import letters
    >>> letters([[False, False, True], [False, False, False], [True, False, False]])
    ['a', 'ab', 'b']
    """
    count = len(differ)
    alike = [sum(1 << j for j in range(count) if not differ[i][j]) for i in range(count)]
    together = [0] * count
    groups: list[int] = []
    for i in range(count):
        for j in range(i, count):
            if not alike[i] >> j & 1 or together[i] >> j & 1:
                continue
            group, candidates = 1 << i | 1 << j, alike[i] & alike[j] & ~(1 << i | 1 << j)
            while candidates:
                best = max(
                    _members(candidates), key=lambda run: (group & ~together[run]).bit_count()
                )
                group |= 1 << best
                candidates &= alike[best] & ~(1 << best)
            groups.append(group)
            for member in _members(group):
                together[member] |= group
    ordered = sorted(_members(group) for group in groups)
    names: list[list[str]] = [[] for _ in range(count)]
    for number, members in enumerate(ordered):
        for member in members:
            names[member].append(_letter(number))
    separator = _SEPARATOR if len(groups) > len(ascii_lowercase) else ""
    return [separator.join(each) for each in names]


def _members(group: int) -> list[int]:
    return [place for place in range(group.bit_length()) if group >> place & 1]


def _letter(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    more, last = divmod(number, len(ascii_lowercase))
    return (_letter(more - 1) if more else "") + ascii_lowercase[last]
