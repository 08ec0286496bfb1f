"""The metrics of search engines, compared with plain Python after their published source.

Elasticsearch 8: `modules/rank-eval`, classes DiscountedCumulativeGain, PrecisionAtK, RecallAtK,
MeanReciprocalRank and ExpectedReciprocalRank. OpenSearch 3.6: the plugin `search-relevance`,
classes EvaluationMetrics, Evaluation and JudgmentThresholdCalculator.
"""

from __future__ import annotations

import math

import polars as pl
import polars_rank as pr
import pytest

from .logs import LOGS

#: The metric for each name in each tool, under the preset of the tool.
METRICS = {
    ("Elasticsearch", "dcg(k=5)"): "dcg(k=5)",
    ("Elasticsearch", "dcg(k=5, normalize=true)"): "ndcg@5",
    ("Elasticsearch", "precision(k=5)"): "precision(k=5)",
    ("Elasticsearch", "recall(k=5)"): "recall(k=5)",
    ("Elasticsearch", "mean_reciprocal_rank(k=5)"): "mean_reciprocal_rank(k=5)",
    ("Elasticsearch", "expected_reciprocal_rank(k=5, maximum_relevance=4)"): "err(max_grade=4)@5",
    ("OpenSearch", "Coverage@5"): "judged@5",
    ("OpenSearch", "Precision@5"): "precision@5",
    ("OpenSearch", "Recall@5"): "recall@5",
    ("OpenSearch", "MAP@5"): "map@5",
    ("OpenSearch", "MRR"): "rr@5",
    ("OpenSearch", "DCG@5"): "dcg@5",
    ("OpenSearch", "NDCG@5"): "ndcg@5",
}


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
@pytest.mark.parametrize(("tool", "name"), METRICS)
def test_values(tool: str, name: str, log: str) -> None:
    """Values of OpenSearch have two decimals and are equal, also where they are rounded."""
    frame = LOGS[log]()
    value, tolerance = (elasticsearch, 1e-12) if tool == "Elasticsearch" else (opensearch, 0)
    expected = {query: value(name, *parts) for query, parts in rankings(frame).items()}
    metric = METRICS[tool, name]
    values = pr.per_query(frame, metric, conventions=tool)
    actual = dict(values.select("query", pl.last()).iter_rows())
    assert actual == pytest.approx(expected, rel=tolerance, abs=tolerance)
    mean = pr.evaluate(frame, metric, conventions=tool).item(0, 1)
    assert mean == pytest.approx(sum(expected.values()) / len(expected))


def test_difference_of_elasticsearch() -> None:
    frame = LOGS["grades"]()
    why = pr.explain_difference(frame, "ndcg@5", "polars_rank", "elasticsearch")
    assert why["choice"].to_list() == ["ties", "gain", "depth"]
    assert why["b"].to_list() == ["input", "exp2", "retrieved"]
    expected = [elasticsearch("dcg(normalize)", *parts) for parts in rankings(frame).values()]
    assert why["mean"][-1] == pytest.approx(sum(expected) / len(expected))
    assert "number of retrieved documents" in pr.explain("ndcg@5", "elasticsearch")


def opensearch(name: str, hits: list[int | None], ratings: list[int], k: int = 5) -> float:
    """Evaluate hits as the search relevance workbench of OpenSearch does, with k hits."""
    hits = hits[:k]
    ordered = sorted(ratings)
    threshold = 0.0
    if ordered and ordered[-1]:
        threshold = max(ordered[-1] / 2, ordered[math.ceil(0.9 * len(ordered)) - 1])
    relevant = [r is not None and r >= threshold and r > 0 for r in hits]
    total = sum(r >= threshold and r > 0 for r in ratings)
    precisions = [sum(relevant[: i + 1]) / (i + 1) for i, hit in enumerate(relevant) if hit]

    def dcg(ratings: list[int | None]) -> float:
        return sum(
            (2**rating - 1) / (math.log(i + 2) / math.log(2))
            for i, rating in enumerate(ratings)
            if rating is not None
        )

    ideal = dcg([*reversed(ordered)][:k])
    value = {
        "Coverage": sum(r is not None for r in hits) / len(hits) if hits else 0.0,
        "Precision": sum(relevant) / len(relevant) if relevant else 0.0,
        "Recall": sum(relevant) / total if total else 0.0,
        "MAP": sum(precisions) / total if total else 0.0,
        "MRR": 1 / (relevant.index(True) + 1) if any(relevant) else 0.0,
        "DCG": dcg(hits),
        "NDCG": dcg(hits) / ideal if ideal > 0 else 0.0,
    }[name.partition("@")[0]]
    return math.floor(value * 100 + 0.5) / 100


def test_published_values_of_opensearch() -> None:
    """The values that the plugin's own tests expect for the labels 1, 2, 0, 1, 2, 0, ... ."""
    log = pl.DataFrame({
        "query": 1, "score": range(20, 0, -1), "label": [i % 3 for i in range(1, 21)],
    })  # fmt: skip
    metrics = ["precision@20", "precision@5", "map@20", "map@5", "ndcg@20", "ndcg@5"]
    values = pr.per_query(log, metrics, conventions="opensearch")
    assert values.select(metrics).row(0) == (0.35, 0.4, 0.39, 0.13, 0.76, 0.51)
    short = log.with_columns(score=pl.when(pl.col("score") > 15).then("score"))  # 5 are retrieved
    metrics = ["precision@8", "map@8", "ndcg@8"]
    values = pr.per_query(short, metrics, conventions="opensearch")
    assert values.select(metrics).row(0) == (0.4, 0.13, 0.4)
    grades = pl.DataFrame({
        "query": 1, "score": range(10), "label": [i % 5 + 1 for i in range(10)],
    })  # fmt: skip
    assert pr.evaluate(grades, "precision@10", conventions="opensearch").item(0, 1) == 0.2


def test_difference_of_opensearch() -> None:
    frame = LOGS["grades"]()
    why = pr.explain_difference(frame, "precision@5", "elasticsearch", "opensearch")
    assert why["choice"].to_list() == ["rel", "decimals"]
    assert why["a"].to_list() == ["1 or more", "None"]
    assert why["b"].to_list() == ["opensearch", "2"]
    expected = [opensearch("Precision@5", *parts) for parts in rankings(frame).values()]
    assert why["mean"][-1] == pytest.approx(sum(expected) / len(expected))
    text = pr.explain("precision@5", "opensearch")
    assert "at least half the highest label" in text
    assert "rounded to 2 decimals" in text
    assert "rounded" not in pr.explain("gmap", "opensearch")
    of_logarithms = pr.explain_difference(frame, "gmap", "elasticsearch", "opensearch")
    assert of_logarithms["choice"].to_list() == ["rel"]
