"""Metrics of subtopics: weights and grades, the greedy ideal, errors, and joined judgments."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path

import oracles
import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from strategies import assert_close, in_rank_order, log_of, random_lists, shuffled

GRADES = {"grades": "grades"}
WEIGHTS = {"grades": "grades", "weights": "weights"}

CALLS = [
    (name, {**parameters, **columns})
    for columns in ({}, GRADES, WEIGHTS)
    for name, parameters in (
        *((name, {"k": k}) for k in (1, 3) for name in (
            "alpha_dcg", "alpha_ndcg", "err_ia", "nerr_ia", "precision_ia", "subtopic_recall",
            "nugget_recall", "d_sharp_ndcg",
        )),
        *((name, {"alpha": alpha, "k": k}) for alpha in (0, 0.3, 0.9, 1) for k in (None, 2)
          for name in ("alpha_dcg", "alpha_ndcg", "err_ia", "nerr_ia")),
        *(("alpha_dcg", {"norm": norm, "k": k}) for norm in ("none", "ndeval") for k in (1, 2)),
        *((name, {"alpha": 0.3, "beta": b}) for b in (0.2, 0.9) for name in ("nrbp", "nnrbp")),
        ("ap_ia", {}),
        ("d_sharp_ndcg", {"gamma": 0.2}),
    )
]  # fmt: skip

Covers = Mapping[int, Mapping[str, float]]


def judged(
    seed: int,
) -> tuple[dict[int, list[Doc]], dict[int, Covers], dict[int, dict[str, float]]]:
    """Return random rankings, the grades of each document, and the weights of each query."""
    draw = random.Random(seed)
    lists = random_lists(seed, queries=20)

    def grades() -> dict[str, float]:
        of = draw.sample("vwxyz", draw.randint(0, 4))
        return {subtopic: draw.choice((0, 0.5, 1, 2, 3)) for subtopic in of}

    covers = {query: {d.doc: grades() for d in docs} for query, docs in lists.items()}
    weights = {query: {s: draw.choice((0, 0.5, 1, 2)) for s in "vwxyz"} for query in lists}
    return lists, covers, weights


def with_judgments(
    lists: dict[int, list[Doc]], covers: dict[int, Covers], weights: dict[int, dict[str, float]]
) -> pl.DataFrame:
    """Return the log with list columns of subtopics, grades and weights."""
    rows = [(query, covers[query][d.doc]) for query, docs in lists.items() for d in docs]
    columns = {
        "subtopics": ([[*each] for _, each in rows], pl.String),
        "grades": ([[*each.values()] for _, each in rows], pl.Float64),
        "weights": ([[weights[query][s] for s in each] for query, each in rows], pl.Float64),
    }
    return log_of(lists).with_columns(
        pl.Series(name, values, pl.List(dtype)) for name, (values, dtype) in columns.items()
    )


@pytest.mark.parametrize("rel", [1, 2])
def test_grades_and_weights(rel: int) -> None:
    lists, covers, weights = judged(seed=41)
    calls = [
        (name, {**options, **({} if name == "nugget_recall" else {"rel": rel})})
        for name, options in CALLS
        if rel == 1 or "grades" in options
    ]
    metrics = [getattr(pr.metrics, name)(**options) for name, options in calls]
    log = shuffled(with_judgments(lists, covers, weights))
    found = pr.per_query(log, metrics, undefined="null")
    for (name, options), metric in zip(calls, metrics, strict=True):
        oracle, own = getattr(oracles, name), dict(options)
        graded, weighted = own.pop("grades", None), own.pop("weights", None)
        least = 0 if name == "nugget_recall" else own.pop("rel")

        def covered(grades: Mapping[str, float]) -> dict[str, float]:
            if not graded:
                return dict.fromkeys(grades, 1.0)
            return {s: grade for s, grade in grades.items() if grade >= least}

        expected = []
        for query, docs in lists.items():
            of_docs = {doc: covered(grades) for doc, grades in covers[query].items()}
            of_query = weights[query] if weighted else None
            expected.append(
                oracle(in_rank_order(docs, "doc"), **own, covers=of_docs, weights=of_query)
            )
        values = pl.DataFrame({"query": list(lists), metric.output_name: expected}, strict=False)
        assert_close(found.select("query", metric.output_name), values)


def test_ties_of_the_ideal_ranking_are_broken_by_descending_id_as_text() -> None:
    """9 is above 11 and 10."""
    # After {y, z}, no document adds two subtopics; after any other one, another one does.
    log = pl.DataFrame({"query": 1, "doc": ["11", "10", "9"], "score": [3.0, 2.0, 1.0], "label": 1,
                        "subtopics": [["x", "y"], ["z", "u"], ["y", "z"]]})  # fmt: skip
    discount = 1 / math.log2(3)
    for doc in (pl.Int64, pl.Int128, pl.UInt128, pl.String, pl.Categorical):
        found = pr.per_query(log.cast({"doc": doc}), "alpha_ndcg(alpha=1)@2").item(0, 1)
        assert found == pytest.approx((2 + 2 * discount) / (2 + discount))
    typed = log_of(random_lists(seed=43))
    metrics = ["alpha_ndcg@3", "ap_ia", "subtopic_recall@3", "d_sharp_ndcg@3"]
    for dtype in (pl.String, pl.Int8, pl.UInt64, pl.Categorical):
        subtopics = pl.col("subtopics").cast(pl.List(pl.String)).cast(pl.List(dtype))
        cast = typed.with_columns(subtopics)
        assert_close(pr.per_query(cast, metrics), pr.per_query(typed, metrics))


def test_expressions_and_per_query_break_ties_of_the_ideal_ranking_alike() -> None:
    log = pl.DataFrame({"query": 1, "doc": [10, 11, 101], "score": [3.0, 2.0, 1.0], "label": 1,
                        "subtopics": [["a", "b"], ["c", "a"], ["d", "c"]]})  # fmt: skip
    metrics = [pr.alpha_ndcg(), pr.metrics.nerr_ia(), pr.metrics.nnrbp(alpha=0.5, beta=0.5)]
    for conventions in ("polars_rank", "ndeval"):
        found = pr.rank(log, conventions=conventions).group_by("query").agg(metrics)
        own = pr.per_query(log, metrics, conventions=conventions)
        assert_close(own.select(found.columns), found)
        # The ideal ranking is 11, 101, 10: it has the gains of 10, 11, 101 (2, 1 + 1/2, 1 + 1/2).
        assert found["alpha_ndcg"].item() == pytest.approx(1)


def test_columns_with_the_reserved_prefix_are_refused() -> None:
    for log in (LOG, LOG.rename({"subtopics": "polars_rank:x"})):
        for evaluated in (
            lambda log=log: pr.per_query(log, pr.alpha_ndcg(subtopics="polars_rank:x")),
            lambda log=log: log.with_columns(rank=1).select(
                pr.metrics.err_ia(subtopics="polars_rank:x")
            ),
        ):
            with pytest.raises(pr.errors.SchemaError, match="'polars_rank:x' has the prefix"):
                evaluated()


LOG = pl.DataFrame(
    {"query": 1, "doc": ["a", "b"], "score": [2.0, 1.0], "subtopics": [["x"], ["x", "y"]]}
)


def test_invalid_columns() -> None:
    schema, rows = pr.errors.SchemaError, pr.errors.DataError
    for columns, call, error, message in (
        ({"subtopics": ["x", "y"]}, {}, schema, "'subtopics' .* lists of ids"),
        ({"subtopics": [[["x"]], [["y"]]]}, {}, schema, "'subtopics' .* lists of ids"),
        ({"grades": [["1"], ["2"]]}, GRADES, schema, "'grades' .* lists of numbers"),
        ({"w": [[1.0], [1.0]]}, {"weights": "w"}, rows, "lists of the same length"),
        ({"w": [[1.0], [2.0, 1.0]]}, {"weights": "w"}, rows, "several weights"),
        ({"w": [[1.0], [1.0, -1.0]]}, {"weights": "w"}, rows, "numbers of 0 or more"),
        ({"subtopics": [["x"], ["y", "y"]]}, {}, rows, "'y' twice"),
    ):
        log = LOG.with_columns(pl.Series(name, values) for name, values in columns.items())
        with pytest.raises(error, match=message):
            pr.evaluate(log, pr.alpha_ndcg(2, **call))
    not_found = "'subtopics' .`subtopics` of alpha_ndcg@2. not found"
    for name, message in (("subtopics", not_found), ("doc", "reads the column 'doc'")):
        with pytest.raises(schema, match=message):
            pr.evaluate(LOG.drop(name), "alpha_ndcg@2")
    assert pr.evaluate(LOG.drop("doc"), "alpha_dcg@2").item(0, "alpha_dcg@2") > 0


def test_from_trec_files_to_a_metric(tmp_path: Path) -> None:
    run, qrels = tmp_path / "run", tmp_path / "qrels"
    run.write_text("1 Q0 a 1 2.0 r\n1 Q0 b 2 1.0 r\n", "utf-8")
    qrels.write_text("1 1 a 1\n1 2 a 0\n1 1 b 1\n1 2 b 2\n1 3 c 0\n", "utf-8")
    judgments = pr.scan_judgments(qrels, diversity=True)
    log = pr.join_judgments(pr.scan_run(run), judgments, subtopic="subtopic")
    found = pr.evaluate(log, ["alpha_nDCG@20", "StRecall@1", "num_relevant"]).collect()
    own = 1 + 1.5 * 0.6309297535714575
    assert found.item(0, "alpha_nDCG@20") == pytest.approx(own / (2 + 0.5 * 0.6309297535714575))
    assert found.row(0)[-2:] == (0.5, 2.0)


def test_weights_of_queries_may_differ_by_any_factor() -> None:
    lists = {
        "subtopics": [["a"], ["b", "c"], ["a", "c"]],
        "score": [3.0, 2.0, 1.0],
        "doc": [1, 2, 3],
    }
    logs = [
        pl.DataFrame({**lists, "w": [[w], [w / 2, w], [w, w]]}).with_columns(query=query)
        for query, w in enumerate((1.0, 1e-20, 1e20))
    ]
    values = pr.per_query(pl.concat(logs), pr.alpha_ndcg(2, weights="w"))
    second = 1 / math.log2(3)
    # Documents 1 and 2 against 3 and 2, where c is covered.
    expected = (1 + 1.5 * second) / (2 + (0.5 + 0.5) * second)
    assert values.get_column(values.columns[-1]).to_list() == pytest.approx([expected] * 3)
