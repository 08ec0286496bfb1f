"""Cutoffs far below the last document, whose ranks count in the divisor."""

from __future__ import annotations

from math import fsum, log, log2, pi

import polars as pl
import polars_rank as pr
import pytest

#: One document, relevant to the only subtopic, with half of the highest grade.
LOG = pl.DataFrame(
    {"query": 1, "doc": "a", "score": 1.0, "label": 1, "subtopics": pl.Series([["x"]])}
)
DEEP = 4_000_000_000
#: The sum of 1 / rank, with Euler's constant.
HARMONIC = log(DEEP) + 0.5772156649015329


VALUES = {
    # Half of the users stop at the document; the other half read all other ranks.
    f"nerr8(max_grade=2)@{DEEP}": 1 / 2 / (1 + (DEEP - 1) / 2),
    f"nerr9(max_grade=2)@{DEEP}": 1 / 2 / (1 + (HARMONIC - 1) / 2),
    f"nerr10(max_grade=2, p=0.9, depth={DEEP})": 1 / 2 / (1 + (1 / (1 - 0.9) - 1) / 2),
    # The sum of 4 / (rank + 1)^2 is 4 (pi^2 / 6 - 1).
    f"nerr11(max_grade=2, depth={DEEP})": 1 / 2 / (1 + (4 * (pi**2 / 6 - 1 - 1 / DEEP) - 1) / 2),
    f"insq(max_grade=2, depth={DEEP})": 1 / 2 / (4 * (pi**2 / 6 - 1 - 1 / DEEP)),
    f"err_ia(alpha=0)@{DEEP}": 1 / HARMONIC,
    # The sum of 1/2^(rank - 1) / rank is 2 log(2).
    f"err_ia@{DEEP}": 1 / (2 * log(2)),
    f"alpha_dcg@{DEEP}": 1 / fsum(0.5 ** (r - 1) / log2(r + 1) for r in range(1, 100)),
    "alpha_dcg(alpha=0)@20000": 1 / fsum(1 / log2(r + 1) for r in range(1, 20_001)),
    "ndcg(ideal='full')@20000": 1 / fsum(1 / log2(r + 1) for r in range(1, 20_001)),
    f"ndcg(ideal='full', discount='reciprocal')@{DEEP}": 1 / HARMONIC,
    "sdcg(max_grade=2)@20000": 1 / 2 / fsum(1 / log2(r + 1) for r in range(1, 20_001)),
}


def test_time_and_memory_do_not_grow_with_the_cutoff() -> None:
    for metric, expected in VALUES.items():
        found = [
            pr.per_query(LOG, metric).item(0, 1),
            pr.rank(LOG).select(pr.metric(metric)).item(),
        ]
        assert found == pytest.approx([expected] * 2, rel=1e-13), metric
