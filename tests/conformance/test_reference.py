"""The reference in plain Python has the values of the library under every preset."""

from __future__ import annotations

import math
import random

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.definitions import Definition
from polars_rank.conformance.reference import METRICS, value
from polars_rank.metrics.names import read

NAMES = [
    f"{metric}{cutoff}" for metric in METRICS for cutoff in ("", "@1", "@4")
    if metric != "r_precision" or not cutoff
]  # fmt: skip


def queries() -> pl.DataFrame:
    """Return random queries with ties, gaps and documents that were not retrieved."""
    draw = random.Random(7)
    rows = [
        {"query": query, "doc": f"d{doc}", "score": score, "label": label}
        for query in range(80)
        for doc in draw.sample(range(20), draw.randint(1, 6))
        for score in [draw.choice([None, 0.1, 0.1 + 1e-9, 0.5, 2.0])]
        for label in [draw.choice([None, 0, 0, 1, 1, 2, 3])]
        if score is not None or label is not None
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


@pytest.mark.parametrize("preset", ["polars_rank", *map(str, pr.conventions.__all__)])
def test_values_of_presets(preset: str) -> None:
    conventions = pr.conventions.__dict__.get(preset, pr.conventions.POLARS_RANK)
    log = queries()
    plain = pr.Conventions(**{**vars(conventions), "query_set": "all"})
    table = pr.per_query(log, NAMES, conventions=plain).to_dicts()
    for row in table:
        docs = log.filter(pl.col("query") == row["query"]).to_dicts()
        ranking = [(doc["doc"], doc["score"]) for doc in docs if doc["score"] is not None]
        judgments = {doc["doc"]: doc["label"] for doc in docs if doc["label"] is not None}
        for name in NAMES:
            metric = read(name, plain.name)
            choices = Definition.of(metric, plain).choices()
            found = value(metric.function.__name__, ranking, judgments, choices)
            expected = math.nan if row[name] is None else row[name]
            assert pytest.approx(expected, rel=1e-12, abs=1e-15, nan_ok=True) == (
                math.nan if found is None else found
            ), (name, choices, docs)
