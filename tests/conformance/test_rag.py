"""Values of RAG tools, query by query, from a file that `write_rag` writes."""

from __future__ import annotations

import json

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.conventions import counted_as, named
from polars_rank.metrics.names import read

from .write_rag import FIXTURE

FOUND = json.loads(FIXTURE.read_text(encoding="utf-8"))
RANKINGS = FOUND["rankings"]

#: The metric for each name in each tool, under the preset of the tool.
METRICS = {
    ("Haystack", "DocumentMAPEvaluator"): "DocumentMAPEvaluator",
    ("Haystack", "DocumentMRREvaluator"): "DocumentMRREvaluator",
    ("Haystack", "DocumentNDCGEvaluator"): "DocumentNDCGEvaluator",
    ("Haystack", "DocumentRecallEvaluator(mode='single_hit')"): "hit_rate",
    ("Haystack", "DocumentRecallEvaluator(mode='multi_hit')"): "recall",
    ("ragas", "id_based_context_precision"): "id_based_context_precision",
    ("ragas", "id_based_context_recall"): "id_based_context_recall",
    **{
        ("MLflow", f"{name}_at_{k}"): f"{name}_at_{k}"
        for name in ("precision", "recall", "ndcg")
        for k in (3, 8)
    },
    **{
        ("LlamaIndex", name): name
        for name in ("hit_rate", "mrr", "precision", "recall", "ap", "ndcg")
    },
}
pytestmark = pytest.mark.filterwarnings("ignore:column 'doc' .*each copy is credited")


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


def is_different(tool: str, name: str, query: int) -> bool:
    """Return whether a value is one of the differences in `test_differences`."""
    retrieved, relevant = RANKINGS[query]["retrieved"], RANKINGS[query]["relevant"]
    return tool == "MLflow" and not name.startswith("precision") and not (retrieved or relevant)


@pytest.mark.parametrize(("tool", "name"), METRICS)
def test_value_of_every_query(tool: str, name: str) -> None:
    metric = read(METRICS[tool, name], tool)
    conventions = named(tool)
    found = pr.per_query(log(), metric, conventions=tool)[metric.output_name].to_list()
    expected = FOUND["values"][tool][name]
    compared = 0
    for query, (own, theirs) in enumerate(zip(found, expected, strict=True)):
        if is_different(tool, name, query) or (tool == "LlamaIndex" and theirs is None):
            continue
        if own is None:
            assert theirs is None
            continue
        assert own == pytest.approx(theirs, rel=1e-7), query
        compared += theirs is not None
    assert compared > 30


@pytest.mark.parametrize("tool", FOUND["versions"])
def test_means(tool: str) -> None:
    if tool not in ("Haystack", "ragas"):
        return
    for name, values in FOUND["values"][tool].items():
        known = [value for value in values if value is not None]
        found = pr.evaluate(log(), METRICS[tool, name], conventions=tool)
        assert found.item(0, -1) == pytest.approx(sum(known) / len(known)), name
