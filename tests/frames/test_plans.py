"""Plans that are built once and run for several small tables."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import polars_rank as pr

# A metric is registered and removed.
from polars_rank.metrics.metric import REGISTER

METRICS = ["ndcg@5", "ap", "rr"]


def log(seed: int, queries: int = 20) -> pl.DataFrame:
    row = pl.int_range(queries * 6, eager=True)
    return pl.DataFrame({
        "query": row // 6, "doc": row % 6, "score": row.hash(seed).cast(pl.Float64),
        "label": row.hash(seed + 1) % 3,
    })  # fmt: skip


def lazily(table: pl.DataFrame, **options: str) -> pl.DataFrame:
    return pr.evaluate(table.lazy(), METRICS, **options).collect()


@pytest.mark.parametrize("options", [{}, {"ties": "worst"}, {"conventions": "trec_eval"}])
def test_each_table_has_its_own_values(options: dict[str, str]) -> None:
    tables = [log(seed, queries) for seed, queries in ((0, 20), (7, 20), (3, 1), (0, 20))]
    for table in tables:
        assert pr.evaluate(table, METRICS, **options).equals(lazily(table, **options))
        ranked = pr.rank(table, **{k: v for k, v in options.items() if k == "ties"})
        assert ranked.drop("rank", "ideal_rank", "relevant", "hits").equals(table)


def test_tables_that_are_declared_to_be_sorted() -> None:
    for seed, queries, descending in ((1, 20, False), (2, 7, True)):
        table = log(seed, queries).sort("query", descending=descending)
        lazily = pr.per_query(table.lazy(), METRICS).collect().sort("query")
        assert pr.per_query(table, METRICS).equals(lazily)


def test_a_wrong_declaration_is_found_each_time() -> None:
    wrong = log(3).sample(fraction=1, shuffle=True, seed=1).with_columns(
        pl.col("query").set_sorted()
    )  # fmt: skip
    for _ in range(2):
        with pytest.raises(pr.errors.DataError, match="sorted"):
            pr.per_query(wrong, METRICS)


def test_other_types_have_another_plan() -> None:
    table = log(1)
    expected = pr.evaluate(table, METRICS)
    for dtype in (pl.Float32, pl.Int8, pl.Float64):
        cast = table.with_columns(pl.col("label").cast(dtype))
        assert pr.evaluate(cast, METRICS).equals(expected)


def test_metrics_and_conventions_are_told_apart() -> None:
    table = log(6)
    for metric in (pr.ndcg(2), pr.ndcg(3).alias("ndcg@2"), pr.recall(2).alias("ndcg@2")):
        for conventions in (pr.Conventions(rel=1), pr.Conventions(rel=2), pr.conventions.SKLEARN):
            options = {"conventions": conventions}
            expected = pr.evaluate(table.lazy(), metric, **options).collect()
            for _ in range(2):
                assert pr.evaluate(table, metric, **options).equals(expected)


def test_threads() -> None:
    tables = [log(seed, 5 + seed) for seed in range(12)] * 4
    expected = [lazily(table) for table in tables[:12]] * 4
    with ThreadPoolExecutor(8) as pool:
        found = [*pool.map(lambda table: pr.evaluate(table, METRICS), tables)]
    assert all(map(pl.DataFrame.equals, found, expected))


def test_an_error_is_about_the_table_of_the_call() -> None:
    table = log(2)
    expected = pr.evaluate(table, METRICS)
    for number in (1, 3):
        invalid = table.with_columns(
            pl.when(pl.int_range(pl.len()) < number).then(float("nan")).otherwise("score")
            .alias("score")
        )  # fmt: skip
        with pytest.raises(pr.errors.DataError, match=f"{number} of 120 rows"):
            pr.evaluate(invalid, METRICS)
    assert pr.evaluate(table, METRICS).equals(expected)


def test_each_call_warns() -> None:
    for seed in range(3):
        with pytest.warns(pr.errors.RankWarning, match="rbp"):  # about the options
            pr.evaluate(log(seed), "rbp", conventions="lightgbm")
        with pytest.warns(pr.errors.RankWarning, match="no document has a label"):
            pr.evaluate(log(seed).with_columns(label=pl.lit(None, pl.Int64)), "rbp")


def test_tables_are_not_kept() -> None:
    table = log(4)
    before = sys.getrefcount(table)
    pr.evaluate(table, METRICS)
    assert sys.getrefcount(table) == before


def test_a_metric_that_is_defined_again(request: pytest.FixtureRequest) -> None:
    request.addfinalizer(lambda: REGISTER.pop("first_label", None))
    table = log(5)

    def define(factor: float) -> None:
        @pr.define_metric(high=None)
        def first_label() -> pr.terms.Value:
            return factor * pr.terms.top(pr.terms.LABEL, 1).sum()

    define(1)
    value = pr.evaluate(table, "first_label").item(0, "first_label")
    define(2)
    assert pr.evaluate(table, "first_label").item(0, "first_label") == 2 * value > 0
