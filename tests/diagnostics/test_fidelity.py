"""`fidelity` against plain Python."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

SCHEMA = {"query": pl.Int64, "doc": pl.Int64, "score": pl.Float64}


def table_of(rows: list[tuple[Any, ...]], **others: Any) -> pl.DataFrame:
    return pl.DataFrame(rows, {**SCHEMA, **others}, orient="row")


#: Two queries with the scores 9, 8, ..., 5 for the documents 1 to 5; document 6 ties with 3.
EXACT = table_of([(q, doc, 10.0 - doc) for q in (1, 2) for doc in range(1, 6)])
#: Query 1: document 2 is at rank 4, and 6 is at rank 2. Query 2: documents 1 and 2 only.
FOUND = table_of([
    *((1, 1, 9.0, 4.0), (1, 6, 7.0, 4.0), (1, 3, 7.0, 4.0), (1, 2, 6.5, 4.0)),
    *((2, 1, 9.0, 2.0), (2, 2, 8.0, 2.0)),
], latency=pl.Float64)  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_fidelity_by_hand(engine: Any) -> None:
    table = pr.diagnostics.fidelity(EXACT.lazy(), FOUND, [1, 3]).collect(engine=engine)
    assert table.columns == [
        *("k", "recall", "recall_by_score", "short", "missed", "demoted", "queries"),
        *("latency_mean", "latency_p95"),
    ]
    # k = 3: query 1 has 1 and 3 of 1, 2 and 3, and 6, whose score is the third; query 2 has 1 and 2.
    # The 95th percentile of 2 and 4 is 2 + 0.95 * (4 - 2).
    assert table.rows() == [
        (1, 1.0, 1.0, 0, 0.0, 0.0, 2, 3.0, pytest.approx(3.9)),
        (3, approx(2 / 3), approx((3 / 3 + 2 / 3) / 2), 1, approx(1 / 6), approx(1 / 6), 2, 3.0,
         approx(3.9)),
    ]  # fmt: skip


def approx(value: float) -> Any:
    return pytest.approx(value)


def test_tolerance_is_in_units_of_the_score() -> None:
    exact, found = EXACT.filter(query=1), table_of([(1, 1, 9.0), (1, 7, 7.5), (1, 8, 6.9)])
    # The third score is 7; 2 of 3 are at least 7, and 3 of 3 at least 6.9.
    for tolerance, share in ((0, 2 / 3), (0.05, 2 / 3), (0.11, 1)):
        table = pr.diagnostics.fidelity(exact, found, 3, tolerance=tolerance)
        assert table["recall_by_score"].to_list() == [approx(share)]
    # In `exact`, document 4 has the score 6, whatever quantized scores say.
    quantized = table_of([(1, 1, 9.0), (1, 2, 8.0), (1, 4, 7.2)])
    assert pr.diagnostics.fidelity(exact, quantized, 3)["recall_by_score"].item() == approx(2 / 3)
    table = pr.diagnostics.fidelity(exact, found.with_columns(score=-pl.col("score")), 3,
                                    tolerance=None)  # fmt: skip
    assert table.select("recall", "recall_by_score").row(0) == (approx(1 / 3), None)
    places = [each.with_columns(position=pl.col("score").rank(descending=True).over("query"))
              .drop("score") for each in (exact, found)]  # fmt: skip
    table = pr.diagnostics.fidelity(*places, 3, position="position")
    assert table.select("recall", "recall_by_score").row(0) == (approx(1 / 3), None)


scores = st.lists(st.sampled_from([float(i) for i in range(12)]), min_size=1, max_size=8)
queries = st.lists(st.tuples(scores, st.integers(0, 8), st.lists(st.booleans(), min_size=8,
                             max_size=8)), min_size=1, max_size=5)  # fmt: skip


@given(queries=queries, k=st.integers(1, 5), tolerance=st.sampled_from((0, 1, 2.5)))
def test_equals_its_oracle(queries: list[Any], k: int, tolerance: float) -> None:
    """Exact search has the best n documents of a collection, and the other one some of all."""
    # Queries that are as they should be, so that the scores of others do not seem reversed.
    sure = ([float(i) for i in range(8, 0, -1)], 8, [True] * 4 + [False] * 4)
    exact, found, expected = [], [], []
    for query, (values, n, kept) in enumerate([sure, sure, *queries]):
        ranked = sorted(((score, doc) for doc, score in enumerate(values)), reverse=True)
        best = ranked[:n]
        some = [each for each in ranked if kept[each[1]]]
        exact += [(query, doc, score) for score, doc in best] or [(query, None, None)]
        found += [(query, doc, score) for score, doc in some] or [(query, None, None)]
        wanted, top = {doc for _, doc in best[:k]}, {doc for _, doc in some[:k]}
        if not wanted:
            continue
        there, size = {doc for _, doc in some}, len(wanted)
        limit = min(score for score, _ in best[:k]) - tolerance
        near = sum(score >= limit for score, _ in some[:k])
        expected.append({
            "recall": len(wanted & top) / size,
            "recall_by_score": min(near / size, 1),
            "missed": len(wanted - there) / size,
            "demoted": len((wanted & there) - top) / size,
            "short": len(some) < size,
        })  # fmt: skip
    row = pr.diagnostics.fidelity(table_of(exact), table_of(found), k, tolerance=tolerance)
    row = row.row(0, named=True)
    assert row["recall"] + row["missed"] + row["demoted"] == approx(1)
    assert row.pop("queries") == len(expected)
    assert row.pop("short") == sum(each["short"] for each in expected)
    for name in ("recall", "recall_by_score", "missed", "demoted"):
        assert row[name] == approx(fmean(each[name] for each in expected)), name


def settings(*names: str, queries: int = 60) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return exact rankings, and those of settings that miss documents at random."""
    random = np.random.default_rng(1)
    exact = table_of([(q, d, float(100 - d)) for q in range(queries) for d in range(20)])
    exact = exact.with_columns(label=(pl.col("doc") % 4 == 0).cast(pl.Int64))
    runs = [
        exact.drop("label").filter(random.random(exact.height) > 0.1 * (place + 1))
        .with_columns(run=pl.lit(name), latency=pl.col("query") + 1.0)
        for place, name in enumerate(names)
    ]  # fmt: skip
    return exact, pl.concat(runs)


def test_intervals_and_the_loss_of_a_metric() -> None:
    """A label in `exact` counts in both tables: the documents are the same."""
    exact, found = settings("x", "y")
    table = pr.diagnostics.fidelity(exact, found, 5, metric="ndcg@5", details=True, confidence=0.9)
    labels = exact.select("query", "doc", "label")
    both = pr.join_judgments(
        pl.concat([exact.drop("label").with_columns(run=pl.lit("exact")), found], how="diagonal"),
        labels,
    ).with_columns(new=(pl.col("doc") < 5).cast(pl.Int64))  # fmt: skip
    values = pr.per_query(both, "ndcg@5")
    compared = pr.compare(values, baseline="exact", confidence=0.9, correction=False)
    ends = pl.col("low", "high").name.prefix("difference_")
    assert_frame_equal(
        table.select("run", "difference", "difference_low", "difference_high"),
        compared.select("run", "difference", ends),
    )
    recall = pr.per_query(both.with_columns(label="new"), "recall@5")
    means = pr.summarize(recall, confidence=0.9).filter(pl.col("run") != "exact")
    assert_frame_equal(
        table.select("run", mean="recall", low="low", high="high"),
        means.select("run", "mean", "low", "high"),
    )


def test_groups_are_those_of_their_queries() -> None:
    exact, found = settings("x", "y")
    color = pl.when(pl.col("query") < 20).then(pl.lit("red")).otherwise(pl.lit("blue"))
    exact, found = (each.with_columns(color=color) for each in (exact, found))
    table = pr.diagnostics.fidelity(exact, found, [1, 5], metric="rr", by="color")
    assert table.columns[:3] == ["color", "run", "k"]
    for (name,), part in exact.group_by("color"):
        alone = pr.diagnostics.fidelity(part, found.filter(color=name), [1, 5], metric="rr")
        assert_frame_equal(table.filter(color=name).drop("color"), alone)


def test_types_directions_and_ties() -> None:
    exact, found = settings("x")
    expected = pr.diagnostics.fidelity(exact, found, 5)
    far = [each.with_columns(distance=-pl.col("score")).drop("score") for each in (exact, found)]
    assert_frame_equal(pr.diagnostics.fidelity(*far, 5, score="-distance"), expected)
    short = found.cast({"query": pl.Int16, "doc": pl.Int32, "score": pl.Float32})
    assert_frame_equal(pr.diagnostics.fidelity(exact.with_columns(run=1), short, 5), expected)
    tied = table_of([(1, doc, 1.0) for doc in (1, 2)])
    one = table_of([(1, 2, 1.0)])
    for ties, recall in ((None, 1.0), ("doc", 1.0), ("doc_ascending", 0.0), ("input", 0.0)):
        row = pr.diagnostics.fidelity(tied, one, 1, **({} if ties is None else {"ties": ties}))
        # Both documents are as good as the first one.
        assert row.select("recall", "recall_by_score").row(0) == (recall, 1.0)


def test_empty_rankings_and_tables() -> None:
    nothing = table_of([(1, None, None), (2, None, None)])
    row = pr.diagnostics.fidelity(EXACT, nothing, 2).row(0)
    assert row == (2, 0.0, 0.0, 2, 1.0, 0.0, 2)
    # A query without exact documents does not count, except in latencies.
    half = pl.concat([EXACT.filter(query=1), nothing.filter(query=2)])
    row = pr.diagnostics.fidelity(half, FOUND, 1).row(0, named=True)
    assert (row["queries"], row["recall"], row["latency_mean"]) == (1, 1.0, 3.0)
    unknown = FOUND.with_columns(latency=pl.when(pl.col("query") == 2).then("latency"))
    assert pr.diagnostics.fidelity(EXACT, unknown, 1)["latency_mean"].to_list() == [2.0]
    for exact in (EXACT.with_columns(label=1), EXACT.clear().with_columns(label=1)):
        settings = FOUND.clear().with_columns(run=pl.lit("x"))
        assert pr.diagnostics.fidelity(exact, settings, 1, metric="rr").is_empty()


def misuses() -> list[tuple[pl.DataFrame, Any, dict[str, Any], type[Exception], str]]:
    argument, data, schema = pr.errors.ArgumentError, pr.errors.DataError, pr.errors.SchemaError
    exact, found = settings("x", "y")
    turned, distance = {"score": -pl.col("score")}, {"score": 100 - pl.col("score")}
    lost, other = pl.col("query") != 7, (pl.col("query") != 7) | (pl.col("run") == "x")
    directions = r"different directions or scales.*run = 'x', query = 0"
    deep = found.filter(pl.col("doc") < 8)
    apart = found.with_columns(doc=pl.col("doc") + 5, score=pl.col("score") - 5)
    return [
        (exact, found.filter(other), {}, data, "different queries .*run = 'y', query = 7.*exact"),
        (exact.filter(lost), found, {}, data, "different queries .*query = 7.*approximate"),
        (exact, found, {"k": [5, 21]}, data, r"fewer than 21 .`k`. documents for all queries.*query"),
        (exact, found.with_columns(**turned), {}, data, directions),
        (exact.with_columns(**turned), found, {}, data, directions),
        # Both tables have distances, of which the highest are the worst.
        (exact.with_columns(**distance), deep.with_columns(**distance), {}, data, directions),
        (exact.with_columns(**distance), apart.with_columns(**distance), {}, data, directions),
        (exact, apart.with_columns(score=pl.col("score") * 100), {}, data, directions),
        (exact.with_columns(run=pl.col("doc") % 2), found, {}, data, r"several runs, \[0, 1\]"),
        (pl.concat([exact, exact]), found, {}, data, "'doc' .`doc`. has duplicates"),
        (exact, found.with_columns(latency="doc"), {}, data, "'latency' .* several values .*query"),
        (exact, found.with_columns(latency=pl.lit("1 s")), {}, schema, "'latency' .*numeric"),
        (exact, found.cast({"doc": pl.String}), {}, schema, "Int64 in `exact` and String in `appr"),
        (exact, found, {"latency": "ms"}, schema, "'ms' .`latency`. not found"),
        (exact, found, {"run": "system"}, schema, "'system' .`run`. not found"),
        (exact.drop("label"), found, {"metric": "rr"}, schema, "'label' .*not found; (?!.*'side)"),
        (exact, found, {"metric": "mapp"}, argument, "unknown metric 'mapp'"),
        (exact, found, {"k": 0}, argument, "`k` must be"),
        (exact, found, {"k": []}, argument, "`k` is empty"),
        (exact, found, {"tolerance": -1}, argument, "`tolerance` must be 0 or more"),
        (exact, "found", {}, argument, "`approximate` must be a table"),
        (exact.with_columns(k=1), found.with_columns(k=1), {"by": "k"}, argument, "name of a result"),
    ]  # fmt: skip


def test_misuse() -> None:
    for exact, found, options, error, message in misuses():
        for table in (exact, exact.lazy()):
            with pytest.raises(error, match=message):
                result = pr.diagnostics.fidelity(table, found, **{"k": 5, **options})
                result.lazy().collect(engine="streaming")
