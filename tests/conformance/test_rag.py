"""Values of RAG tools, query by query, from a file that `write_rag` writes."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from tables import with_own_ids

from .write_rag import FIXTURE

FOUND = json.loads(FIXTURE.read_text(encoding="utf-8"))
RANKINGS = FOUND["rankings"]

#: The metric that has the value of each name in each tool.
METRICS = {
    "Haystack": {
        "DocumentMAPEvaluator": "ap",
        "DocumentMRREvaluator": "rr",
        "DocumentNDCGEvaluator": "ndcg",
        "DocumentRecallEvaluator(mode='single_hit')": "hit_rate",
        "DocumentRecallEvaluator(mode='multi_hit')": "recall",
    },
    "ragas": {
        "id_based_context_precision": "set_precision",
        "id_based_context_recall": "recall",
    },
    "MLflow": {
        f"{name}_at_{k}": f"{metric}@{k}"
        for name, metric in (
            ("precision", "precision(depth='retrieved')"),
            ("recall", "recall"),
            ("ndcg", "ndcg(depth='retrieved')"),
        )
        for k in (3, 8)
    },
    "LlamaIndex": {
        "hit_rate": "hit_rate",
        "mrr": "rr",
        "precision": "precision(depth='retrieved')",
        "recall": "recall",
        "ap": "ap",
        "ndcg": "ndcg",
    },
}
NAMES = [(tool, name) for tool, names in METRICS.items() for name in names]


def log() -> pl.DataFrame:
    """Return the rankings as rows; a query without documents has a row without a document."""
    rows: list[tuple[int, str | None, float | None, int | None]] = []
    for query, ranking in enumerate(RANKINGS):
        retrieved, relevant = ranking["retrieved"], ranking["relevant"]
        rows += [(query, doc, -float(i), int(doc in relevant)) for i, doc in enumerate(retrieved)]
        rows += [(query, doc, None, 1) for doc in relevant if doc not in retrieved]
        rows += [(query, None, None, None)] * (not retrieved and not relevant)
    schema = {"query": pl.Int64, "doc": pl.String, "score": pl.Float64, "label": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def compare(tool: str, name: str, log: pl.DataFrame, **options: Any) -> int:
    """Compare the values of queries with a tool; return how many are compared."""
    metric = METRICS[tool][name]
    found = pr.per_query(log, metric, ties="input", undefined="null", **options)
    compared = 0
    for query, own in found.select("query", metric).iter_rows():
        theirs = FOUND["values"][tool][name][query]
        if theirs is not None and own is not None:
            assert own == pytest.approx(theirs, rel=1e-7), query
            compared += 1
    return compared


@pytest.mark.parametrize(("tool", "name"), NAMES)
def test_rankings_without_copies(tool: str, name: str) -> None:
    unique = pl.struct("query", "doc").is_unique().all().over("query")
    assert compare(tool, name, log().filter(unique)) >= 10


@pytest.mark.parametrize("name", METRICS["Haystack"])
def test_copies_with_ids_of_their_own_count_as_in_haystack(name: str) -> None:
    """Copies keep their ranks, and the first one is credited."""
    assert compare("Haystack", name, with_own_ids(log())) > 30


@pytest.mark.parametrize("name", METRICS["ragas"])
def test_copies_that_are_removed_count_as_in_ragas(name: str) -> None:
    assert compare("ragas", name, log(), duplicates="max") > 30


@pytest.mark.parametrize("tool", ["Haystack", "ragas"])
def test_means(tool: str) -> None:
    """Haystack counts undefined values as 0. The means of ragas are over the known values."""
    own, undefined = (with_own_ids(log()), "zero") if tool == "Haystack" else (log(), "skip")
    for name, values in FOUND["values"][tool].items():
        known = [value for value in values if value is not None]
        found = pr.evaluate(own, METRICS[tool][name], duplicates="max", undefined=undefined)
        assert found.item(0, -1) == pytest.approx(sum(known) / len(known)), name
