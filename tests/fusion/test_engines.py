"""Methods of search engines, compared with their published source in plain Python, with 32 bits.

OpenSearch: neural-search 3.8.0, `MinMaxScoreNormalizationTechnique`, `…ScoreCombinationTechnique`.
Elasticsearch: 9.1 (commit 0050ad5), `RRFRetrieverBuilder`. ranx: see the conformance tests.
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
LOG = pl.DataFrame(
    [
        (run, query, doc, score)
        for run, rankings in RUNS.items()
        for query, scores in enumerate(rankings)
        for doc, score in scores.items()
    ],
    ["run", "query", "doc", "score"],
    orient="row",
)
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


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("method", ["arithmetic_mean", "geometric_mean", "harmonic_mean"])
def test_opensearch(method: Any, weights: dict[str, float] | None) -> None:
    expected = {}
    for query in range(4):
        rankings = [RUNS[run][query] for run in WEIGHTS]
        for doc in {*rankings[0], *rankings[1]}:
            scores = [min_max(r[doc], [*r.values()]) if doc in r else 0.0 for r in rankings]
            given = [*WEIGHTS.values()] if weights else [1.0, 1.0]
            expected[query, doc] = opensearch(method, scores, given)
    # What OpenSearch does with the scores first is an expression of Polars.
    score, keys = pl.col("score"), ["run", "query"]
    low, high = score.min().over(keys), score.max().over(keys)
    normalized = pl.when(low == high).then(1.0).otherwise((score - low) / (high - low))
    log = LOG.with_columns(score=normalized.replace(0.0, 0.001))
    table = pr.fuse(log, pr.Fusion(method, weights=weights))
    assert scores_of(table) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("window", [None, 10])
def test_reciprocal_rank_fusion(window: int | None) -> None:
    """The first documents of a run, as in Elasticsearch, are a filter of ranks."""
    expected: dict[tuple[int, int], float] = {}
    for run, weight in WEIGHTS.items():
        for query, scores in enumerate(RUNS[run]):
            # Documents with equal scores: those of higher ids first, as here by default.
            ranking = sorted(scores, key=lambda doc: (scores[doc], doc), reverse=True)[:window]
            for rank, doc in enumerate(ranking, 1):
                expected[query, doc] = expected.get((query, doc), 0) + weight / (60 + rank)
    log = LOG
    if window is not None:
        ranked = pr.rank(LOG.with_columns(label=0), by="run")
        log = ranked.filter(pl.col("rank") <= window).drop("label")
    table = pr.fuse(log, pr.Fusion(weights=WEIGHTS))
    assert scores_of(table) == pytest.approx(expected, rel=1e-6)


def scores_of(table: pl.DataFrame) -> dict[tuple[int, int], float]:
    rows = table.select("query", "doc", "score").rows()
    return {(query, doc): score for query, doc, score in rows}
