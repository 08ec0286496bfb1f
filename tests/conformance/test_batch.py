"""Metrics of many choices at once have the values of the reference."""

from __future__ import annotations

import math
import random
from itertools import product

import polars as pl
import pytest
from polars_rank.conformance.batch import computes, documents, values
from polars_rank.definitions import Definition, changes
from polars_rank.conformance.reference import METRICS, RefusedError, value
from polars_rank.conventions import POLARS_RANK
from polars_rank.metrics.names import read

Query = list[tuple[str, float | None, float | None]]


def queries() -> list[Query]:
    """Return documents, scores and labels with ties, gaps and copies."""
    draw = random.Random(3)
    found = []
    for _ in range(30):
        labels = {f"d{doc}": draw.choice([None, -1, 0, 0, 1, 2, 3]) for doc in range(6)}
        docs = draw.choices([*labels], k=draw.randint(1, 5))
        scores = [0.1, 0.1 + 1e-9, 0.5, 2.0]
        rows: Query = [(doc, draw.choice(scores), labels[doc]) for doc in docs]
        found.append(rows + [(doc, None, label) for doc, label in labels.items()
                             if doc not in docs and label is not None])  # fmt: skip
    return found


@pytest.mark.parametrize("metric", METRICS)
def test_values_of_the_reference(metric: str) -> None:
    every = queries()
    rows = documents(
        pl.DataFrame(
            [[*map(list, zip(*rows, strict=True))] for rows in every],
            {"doc": pl.List(pl.String), "score": pl.List(pl.Float64), "label": pl.List(pl.Float64)},
            orient="row",
        )
    )
    definitions = []
    for k in (None, 1, 3) if metric != "r_precision" else (None,):
        base = Definition.of(read(metric if k is None else f"{metric}@{k}"), POLARS_RANK).choices()
        base["duplicates"] = "credited"
        singles = [change for change in changes(base) if not {"decimals", "undefined"} & {*change}]
        definitions += [{**base, **a, **b} for a, b in product(singles, [{}, *singles])]
    definitions = [
        each for each in definitions if each["duplicates"] != "error" and computes(metric, each)
    ]
    table = values(rows, [(metric, each) for each in definitions])
    for index, (query, choices) in enumerate(product(every, definitions)):
        ranking = [(doc, score) for doc, score, _ in query if score is not None]
        judgments = {doc: label for doc, _, label in query if label is not None}
        expected = value(metric, ranking, judgments, {**choices, "undefined": "null"})
        found = table.item(index // len(definitions), index % len(definitions))
        assert (expected is None) == (found is None), (choices, query)
        if expected is not None:
            assert math.isclose(expected, found, rel_tol=1e-12, abs_tol=1e-15), (choices, query)
