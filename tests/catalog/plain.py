"""Rankings in plain Python, for comparison with functions of the catalog."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from itertools import chain
from typing import Any

import polars as pl


def tops(log: pl.DataFrame, k: int | None = None, ties: str = "doc") -> dict[Any, list[Any]]:
    """Return the first k documents of each query, best first; [] for a query without any."""
    rows: dict[Any, list[tuple[float, Any]]] = defaultdict(list)
    for row in log.to_dicts():
        actual = rows[row["query"]]
        if row["score"] is not None:
            actual.append((row["score"], row["doc"]))
    ordered = {}
    for query, pairs in rows.items():
        if ties != "input":
            pairs.sort(key=lambda pair: pair[1], reverse=ties == "doc")
        pairs.sort(key=lambda pair: -pair[0])
        ordered[query] = [doc for _, doc in pairs][:k]
    return ordered


def exposures(lists: Sequence[Sequence[Hashable]]) -> dict[Any, float]:
    """Return the number of rankings of each document."""
    return dict(Counter(chain.from_iterable(lists)))
