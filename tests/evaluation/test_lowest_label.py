"""Lowest relevant labels that depend on the labels of the ranking, and rounded values."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from oracles import Doc
from plans import holding_nodes
from polars.testing import assert_frame_equal
from polars_rank.metrics.analyses import nodes
from polars_rank.metrics.expectations import has_expectation
from polars_rank.metrics.metric import parameters_of, tree_of
from polars_rank.metrics.nodes import Field, Gain, UserExpression
from strategies import Lists, assert_close, every_metric, logs, log_of, more_examples

OF_LABELS = pr.Conventions(rel="opensearch")


def reads_only_relevance(metric: pr.Metric) -> bool:
    """Return whether a metric reads labels only to compare them with the default lowest one."""
    parameters = {name for leaf in metric.leaves for name in parameters_of(leaf)}
    read = {*nodes(tree_of(metric))}
    others = any(isinstance(each, (Gain, UserExpression)) for each in read)
    return (
        "rel" in parameters
        and not {"rel", "subtopics"} & {*metric.arguments}
        and "subtopics" not in parameters
        and not others
        and not read & {Field("label"), Field("ideal_rank")}
    )


METRICS = [metric for metric in every_metric(3) if reads_only_relevance(metric)]


def binary(docs: list[Doc]) -> list[Doc]:
    """Return documents with the label 1 if they are relevant, and 0 if they are not."""
    labels = sorted(doc.label for doc in docs if doc.label is not None)
    lowest = max(labels[-1] / 2, labels[math.ceil(0.9 * len(labels)) - 1]) if labels else 0
    return [
        doc if doc.label is None else doc._replace(label=int(doc.label >= lowest and doc.label > 0))
        for doc in docs
    ]


@pytest.mark.parametrize("ties", ["doc", "input", "expected"])
@more_examples
@given(lists=logs(labels=(None, -2, -1, 0, 0, 1, 2, 3, 4)))
def test_equal_to_binary_labels(lists: Lists, ties: Any) -> None:
    metrics = [each for each in METRICS if ties != "expected" or has_expectation(each)]
    options: dict[str, Any] = {"ties": ties, "undefined": "null"}
    of_binary = log_of({query: binary(docs) for query, docs in lists.items()})
    expected = pr.per_query(of_binary, metrics, **options)
    log = log_of(lists)
    actual = pr.per_query(log, metrics, conventions=OF_LABELS, **options)
    assert_close(actual, expected)
    if ties != "expected":
        ranked = pr.rank(log, ties=ties, conventions=OF_LABELS)
        columns = ["query", "doc", "score", "rank", "relevant", "hits"]
        assert_frame_equal(ranked.select(columns), pr.rank(of_binary, ties=ties).select(columns))


def log_of_copies() -> pl.DataFrame:
    """Return a ranking a, b, b, b with the labels 4, 2, 2, 2, in which b occurs three times."""
    return pl.DataFrame({
        "query": 1, "doc": ["a", "b", "b", "b"], "score": [4.0, 3.0, 2.0, 1.0],
        "label": [4, 2, 2, 2],
    })  # fmt: skip


@pytest.mark.parametrize("duplicates", ["max", "first", "credit_once", "credit_each"])
@pytest.mark.filterwarnings("ignore:column 'doc' .*each copy is credited")
def test_copies_have_one_label(duplicates: Any) -> None:
    """The 90th percentile of 4 and 2 is 4, as that of the labels of all rows."""
    options: dict[str, Any] = {"conventions": OF_LABELS, "duplicates": duplicates}
    assert pr.evaluate(log_of_copies(), "num_rel", **options).item(0, 1) == 1
    # Of a with the label 1 and b with 0.9, half the highest label decides.
    log = log_of_copies().with_columns(
        label=pl.when(doc="a").then(1.0).otherwise(0.9), doc=pl.col("doc")
    )
    assert pr.evaluate(log, "num_rel", **options).item(0, 1) == 1


def test_own_thresholds_take_precedence() -> None:
    log = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 2, 4]})
    metrics = ["p@3", "precision(rel=2)@3", pr.ndcg(3)]
    table = pr.evaluate(log, metrics, conventions=OF_LABELS)
    ndcg = pr.evaluate(log, "ndcg@3").item(0, 1)
    assert table.row(0) == (1, 1 / 3, 2 / 3, ndcg)  # relevant: 4; 2 and 4
    assert pr.evaluate(log, "p@3", conventions=OF_LABELS, rel=1).item(0, 1) == 1
    assert pr.evaluate(log, "p@3", rel="opensearch").item(0, 1) == 1 / 3


def test_each_judge_has_a_threshold() -> None:
    log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "x": [1, 4], "y": [1, 1]})
    table = pr.evaluate(log, "p@2", label=["x", "y"], conventions=OF_LABELS)
    assert table.rows() == [("x", 1, 0.5), ("y", 1, 1.0)]


def test_rankings_without_labels_have_no_relevant_document() -> None:
    log = pl.DataFrame({
        "query": [1, 1, 2, 3], "score": [2.0, 1.0, 1.0, 1.0], "label": [None, None, 0, -1],
    })  # fmt: skip
    assert pr.evaluate(log, "num_rel", conventions=OF_LABELS).item(0, 1) == 0


@pytest.mark.parametrize("metrics", [["recall"], ["ndcg@10", "rr"]])
def test_the_plan_streams(tmp_path: Path, metrics: list[str]) -> None:
    path = tmp_path / "log.parquet"
    pr.datasets.search_log(200, 10, runs="bm25").sink_parquet(path)
    options: dict[str, Any] = {"conventions": "opensearch"}
    plan = pr.per_query(pr.scan_log(path), metrics, **options)
    assert not holding_nodes(plan)
    eager = pr.per_query(pl.read_parquet(path), metrics, **options)
    assert_close(plan.collect(engine="streaming"), eager)
    ranks = pr.rank(pr.scan_log(path), **options)
    assert not holding_nodes(ranks)


def test_functions_of_a_fixed_threshold_say_so() -> None:
    log = pl.DataFrame({"query": 1, "doc": [1], "score": [1.0], "label": [1]})
    expected = "the lowest relevant label of OpenSearch depends on the labels of the query"
    with pytest.raises(pr.errors.ArgumentError, match=expected):
        pr.diagnostics.judgment_bounds(log, "p@1", conventions="opensearch")
    assert pr.diagnostics.judgment_bounds(log, "p@1", conventions="opensearch", rel=1).height == 1


@pytest.mark.parametrize(
    ("value", "decimals", "rounded"),
    [
        *(
            (1 / 3, 2, 0.33),
            (0.125, 2, 0.13),
            (5 / 6, 2, 0.83),
            (-0.125, 2, -0.12),
            (1 / 3, 0, 0.0),
        ),
        (1e300, 15, 1e300),  # times 10**15, it would be infinite
    ],
)
def test_values_are_rounded_half_up(value: float, decimals: int, rounded: float) -> None:
    log = pl.DataFrame({"query": 1, "score": [1.0], "label": [value]})
    own = pr.Conventions(decimals=decimals)
    assert pr.per_query(log, "dcg", conventions=own).item(0, 1) == rounded


def test_means_are_of_rounded_values() -> None:
    log = pl.DataFrame({
        "query": [1, 1, 1, 2], "score": [3.0, 2.0, 1.0, 1.0], "label": [0, 0, 1, 1],
    })  # fmt: skip
    own = pr.Conventions(decimals=1)
    table = pr.evaluate(log, ["rr", "gmap", pl.len().alias("n") / 7], conventions=own)
    rr, gmap, n = table.row(0)[1:]
    assert rr == (0.3 + 1) / 2
    assert gmap == pytest.approx(math.sqrt(1 / 3))  # logarithms are not rounded
    assert n == (3 / 7 + 1 / 7) / 2  # nor are the values of expressions
    half = (pr.reciprocal_rank() / pl.col("rank").max()).alias("half")
    with pytest.raises(pr.errors.ArgumentError, match="'half' contains the metric reciprocal_rank"):
        pr.evaluate(log, half, conventions=own)


@pytest.mark.parametrize(
    "choices",
    [{"rel": "top"}, {"rel": True}, {"rel": math.nan}, {"decimals": -1}, {"decimals": 0.5}],
)
def test_invalid_choices(choices: dict[str, Any]) -> None:
    name = next(iter(choices))
    with pytest.raises(pr.errors.ArgumentError, match=f"`{name}` must be"):
        replace(pr.Conventions(), **choices)
