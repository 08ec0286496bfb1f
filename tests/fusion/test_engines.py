"""Methods of search engines, compared with their published source in plain Python, with 32 bits.

OpenSearch: neural-search 3.8.0, `MinMaxScoreNormalizationTechnique`, `…ScoreCombinationTechnique`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

#: Scores of the documents of two runs, query by query; the last query has constant scores.
_RNG = random.Random(0)
RUNS = {
    run: [
        {doc: (_RNG.random() * 9 if query else 2.0) for doc in range(20) if _RNG.random() < 0.7}
        for query in range(4)
    ]
    for run in ("bm25", "dense")
}
ROWS = [
    (run, query, doc, score)
    for run, rankings in RUNS.items()
    for query, scores in enumerate(rankings)
    for doc, score in scores.items()
]
LOG = pl.DataFrame(ROWS, ["run", "query", "doc", "score"], orient="row")
WEIGHTS = {"bm25": 0.3, "dense": 0.7}


def opensearch(method: str, scores: Sequence[float], weights: Sequence[float]) -> float:
    """Combine the normalized scores of a document; 0 for a sub-query that did not find it."""
    counts = [(s, w) for s, w in zip(scores, weights, strict=True) if method[0] == "a" or s > 0]
    total = sum(weight for _, weight in counts)
    if method == "arithmetic_mean":
        return sum(score * weight for score, weight in counts) / total
    if method == "geometric_mean":
        return math.exp(sum(weight * math.log(score) for score, weight in counts) / total)
    return total / sum(weight / score for score, weight in counts)


def min_max(score: float, scores: Sequence[float]) -> float:
    low, high = min(scores), max(scores)
    if low == high:
        return 1.0
    return (score - low) / (high - low) or 0.001


@pytest.mark.parametrize("method", ["arithmetic_mean", "geometric_mean", "harmonic_mean"])
def test_opensearch(method: Any) -> None:
    expected = {}
    for query in range(4):
        rankings = [RUNS[run][query] for run in WEIGHTS]
        for doc in {*rankings[0], *rankings[1]}:
            scores = [min_max(r[doc], [*r.values()]) if doc in r else 0.0 for r in rankings]
            expected[query, doc] = opensearch(method, scores, [*WEIGHTS.values()])
    # What OpenSearch does with the scores first is an expression of Polars.
    score, keys = pl.col("score"), ["run", "query"]
    low, high = score.min().over(keys), score.max().over(keys)
    normalized = pl.when(low == high).then(1.0).otherwise((score - low) / (high - low))
    log = LOG.with_columns(score=normalized.replace(0.0, 0.001))
    rows = pr.fuse(log, pr.Fusion(method, weights=WEIGHTS)).select("query", "doc", "score").rows()
    found = {(query, doc): score for query, doc, score in rows}
    assert found == pytest.approx(expected, rel=1e-6)
