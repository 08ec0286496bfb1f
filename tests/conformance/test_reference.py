"""The reference in plain Python has the values of the library, and those of many choices at once."""

from __future__ import annotations

import math
import random
from itertools import product

import polars as pl
import polars_rank as pr
import pytest

# Its values have no public function: `identify` only shows the definitions that fit.
from polars_rank.conformance.batch import computes, documents, values
from polars_rank.conformance.reference import METRICS, value
from polars_rank.conventions import POLARS_RANK
from polars_rank.definitions import Definition, changes
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


def pair_of(docs: pl.DataFrame) -> tuple[list[tuple[str, float]], dict[str, float]]:
    """Return the ranking and the judgments of the documents of a query."""
    ranking = docs.drop_nulls("score").select("doc", "score").rows()
    return ranking, dict(docs.drop_nulls("label").select("doc", "label").iter_rows())


@pytest.mark.parametrize("preset", ["POLARS_RANK", *map(str, pr.conventions.__all__)])
def test_values_of_presets(preset: str) -> None:
    conventions = getattr(pr.conventions, preset)
    plain = pr.Conventions(**{**vars(conventions), "query_set": "all"})
    choices = {name: Definition.of(read(name, plain.name), plain).choices() for name in NAMES}
    functions = {name: read(name, plain.name).function.__name__ for name in NAMES}
    log = queries()
    pairs = {query: pair_of(docs) for (query,), docs in log.group_by("query")}
    for row in pr.per_query(log, NAMES, conventions=plain).to_dicts():
        for name in NAMES:
            found = value(functions[name], *pairs[row["query"]], choices[name])
            expected = math.nan if row[name] is None else row[name]
            assert math.isclose(
                math.nan if found is None else found, expected, rel_tol=1e-12, abs_tol=1e-15
            ) or (found is None and row[name] is None), (name, choices[name], pairs[row["query"]])


Query = list[tuple[str, float | None, float | None]]


def with_copies() -> list[Query]:
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
def test_values_of_many_choices(metric: str) -> None:
    every = with_copies()
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
