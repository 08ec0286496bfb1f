"""The metrics of Elasticsearch, compared with plain Python after its published source.

Version 8: `modules/rank-eval`, classes DiscountedCumulativeGain, PrecisionAtK, RecallAtK,
MeanReciprocalRank and ExpectedReciprocalRank.
"""

from __future__ import annotations

import math

import polars as pl
import polars_rank as pr
import pytest

from .logs import LOGS
from .recorded_logs import NAMES


def elasticsearch(name: str, hits: list[int | None], ratings: list[int], k: int = 5) -> float:
    """Evaluate the ratings of hits, None for a hit without a rating, as `_rank_eval` does."""
    hits = hits[:k]
    relevant = [rating is not None and rating >= 1 for rating in hits]

    def dcg(ratings: list[int | None]) -> float:
        return sum(
            (2**rating - 1) / math.log2(rank + 1)
            for rank, rating in enumerate(ratings, 1)
            if rating is not None
        )

    match name.partition("(")[0]:
        case "dcg" if "normalize" not in name:
            return dcg(hits)
        case "dcg":
            ideal = dcg(sorted(ratings, reverse=True)[: len(hits)])
            return dcg(hits) / ideal if ideal else 0.0
        case "precision":  # with ignore_unlabeled=false
            return sum(relevant) / len(hits) if hits else 0.0
        case "recall":
            total = sum(rating >= 1 for rating in ratings)
            return sum(relevant) / total if total else 0.0
        case "mean_reciprocal_rank":
            return 1 / (relevant.index(True) + 1) if any(relevant) else 0.0
    arrived, value = 1.0, 0.0
    for rank, rating in enumerate(hits, 1):
        if rating is not None:
            likely = (2**rating - 1) / 2**4
            value, arrived = value + arrived * likely / rank, arrived * (1 - likely)
    return value


def rankings(log: pl.DataFrame) -> dict[str, tuple[list[int | None], list[int]]]:
    """Return the ratings of the hits, and all ratings, by query."""
    score, label = pl.col("score"), pl.col("label")
    table = log.group_by("query", maintain_order=True).agg(
        label.filter(score.is_not_null())
        .sort_by(score.drop_nulls(), descending=True, maintain_order=True)
        .alias("hits"),
        label.drop_nulls().alias("ratings"),
    )
    return {query: (hits, ratings) for query, hits, ratings in table.iter_rows()}


@pytest.mark.parametrize("log", ["grades", "untied", "scored"])
def test_values_of_elasticsearch(log: str) -> None:
    frame, tool = LOGS[log](), "Elasticsearch"
    for name, metric in NAMES["engines"][tool].items():
        expected = {query: elasticsearch(name, *parts) for query, parts in rankings(frame).items()}
        values = pr.per_query(frame, metric, conventions=tool)
        actual = dict(values.select("query", pl.last()).iter_rows())
        assert actual == pytest.approx(expected, rel=1e-12, abs=1e-12), name
        mean = pr.evaluate(frame, metric, conventions=tool).item(0, 1)
        assert mean == pytest.approx(sum(expected.values()) / len(expected)), name


def test_difference_of_elasticsearch() -> None:
    frame = LOGS["grades"]()
    why = pr.explain_difference(frame, "ndcg@5", "polars_rank", "elasticsearch")
    assert why["choice"].to_list() == ["ties", "gain", "depth"]
    assert why["b"].to_list() == ["input", "exp2", "retrieved"]
    expected = [elasticsearch("dcg(normalize)", *parts) for parts in rankings(frame).values()]
    assert why["mean"][-1] == pytest.approx(sum(expected) / len(expected))
    assert "number of retrieved documents" in pr.explain("ndcg@5", "elasticsearch")
