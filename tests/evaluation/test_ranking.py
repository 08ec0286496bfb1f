"""The ranked table, compared with a few lines of Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import holding_nodes
from polars.testing import assert_frame_equal

# The number of rows from which plans differ.
from polars_rank.frames.tables import FEW_ROWS
from strategies import SCHEMA, Lists, in_rank_order, logs, more_examples, random_lists, shuffled
from strategies import log_of as log_with_clicks

TIES = ("doc", "doc_ascending", "best", "worst", "input")
NEW = ["rank", "ideal_rank", "relevant", "hits"]
TYPES = [pl.UInt32, pl.UInt32, pl.Boolean, pl.UInt32]


def log_of(lists: Lists) -> pl.DataFrame:
    return log_with_clicks(lists).select(*SCHEMA)


def expected(lists: Lists, ties: str = "doc", rel: float = 1) -> pl.DataFrame:
    """The ranked table, in the order of the log."""
    rows = []
    for query, docs in lists.items():
        order = in_rank_order(docs, ties)
        judged = [d for d in order if d.label is not None]
        ideal = sorted(judged, key=lambda d: d.label, reverse=True)
        for d in docs:
            rank = order.index(d) + 1
            hits = sum(e.label is not None and e.label >= rel for e in order[:rank])
            ranked = (None, None) if d.score is None else (rank, hits)
            best = None if d.label is None else ideal.index(d) + 1
            is_relevant = d.label is not None and d.label >= rel
            rows.append((query, *d, ranked[0], best, is_relevant, ranked[1]))
    return pl.DataFrame(rows, {**SCHEMA, **dict(zip(NEW, TYPES, strict=True))}, orient="row")


def assert_same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    assert_frame_equal(found, wanted, check_dtypes=False, categorical_as_str=True)


@pytest.mark.parametrize("ties", TIES)
def test_eager_and_lazy_on_both_engines(ties: str) -> None:
    lists = random_lists(seed=1)
    plan, wanted = pr.rank(log_of(lists).lazy(), ties=ties), expected(lists, ties)
    for found in (
        pr.rank(log_of(lists), ties=ties),
        *(plan.collect(engine=engine) for engine in ("in-memory", "streaming")),
    ):
        assert plan.collect_schema() == found.schema
        assert_frame_equal(found, wanted)
    assert_frame_equal(plan.collect().clear(), pr.rank(log_of({}), ties=ties))


@pytest.mark.parametrize("layout", ["sorted", "adjacent"])
def test_logs_in_order_are_ranked_in_batches(tmp_path: Path, layout: str) -> None:
    lists = random_lists(seed=5)
    if layout == "adjacent":
        lists = {query: lists[query] for query in sorted(lists, key=lambda query: query * 7 % 60)}
    log_of(lists).write_parquet(tmp_path / "log.parquet")
    for duplicates in ("error", "max"):
        plan = pr.rank(pr.scan_log(tmp_path / "log.parquet"), duplicates=duplicates)
        assert not holding_nodes(plan)
        with pl.Config(streaming_chunk_size=50):
            found = plan.collect(engine="streaming")
        assert_same(found.select(*SCHEMA, *NEW), expected(lists))
        # The result is also sorted.
        assert not holding_nodes(pr.per_query(plan.drop(NEW), "num_ret"))


@more_examples
@given(lists=logs(), seed=st.integers(0, 99), ties=st.sampled_from(TIES[:-1]))
def test_order_of_rows_is_irrelevant(lists: Lists, seed: int, ties: str) -> None:
    log = log_of(lists)
    key = ["query", "doc"]
    both = [pr.rank(each, ties=ties).sort(key) for each in (shuffled(log, seed), log)]
    assert_same(*both)


def test_order_of_rows_is_irrelevant_without_documents() -> None:
    log = log_of(random_lists(seed=2))
    for ties in ("best", "worst"):
        both = [pr.rank(x, ties=ties) for x in (log.drop("doc"), shuffled(log).drop("doc"))]
        assert_same(*(frame.sort(frame.columns) for frame in both))
    assert_same(pr.rank(log), pr.rank(log, ties="doc"))
    assert_same(pr.rank(log, doc=None), pr.rank(log, doc=None, ties="worst"))
    assert_same(pr.rank(log.drop("doc")), pr.rank(log.drop("doc"), ties="worst"))


TEXTS = [f"id-{i:03}" for i in range(100)]
#: Keys of many types, in the same order as the integers that are their places.
KEYS: list[tuple[list[Any], Any]] = [
    ([i - 50 for i in range(100)], pl.Int8),
    ([i + 2**63 for i in range(100)], pl.UInt64),
    (TEXTS, pl.String),
    (TEXTS, pl.Categorical),
    (TEXTS, pl.Categorical(pl.Categories("ids"))),
    (TEXTS, pl.Enum(TEXTS)),
    ([date(2024, 1, 1) + timedelta(days=i) for i in range(100)], pl.Date),
    ([i / 4 for i in range(100)], pl.Float64),
    ([bytes([i]) for i in range(100)], pl.Binary),
]


@pytest.mark.parametrize("column", ["query", "doc"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_keys_of_any_type(column: str, engine: str) -> None:
    metrics = [pr.ndcg(3), pr.average_precision(), pl.col("rank").max().alias("last")]
    for keys, dtype in KEYS:
        wanted = shuffled(expected(random_lists(seed=4, queries=30)))
        ids = pl.Series(column, [keys[i] for i in wanted[column]], dtype=dtype)
        wanted = wanted.with_columns(ids)
        log = wanted.drop(NEW).lazy()
        assert_same(pr.rank(log).collect(engine=engine), wanted)
        plain = wanted.group_by("query").agg(metrics)
        evaluated = pr.per_query(log, metrics, undefined="null").collect(engine=engine)
        assert evaluated["query"].n_unique() == evaluated.height
        assert_same(evaluated.sort("query"), plain.sort("query"))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_several_query_columns_and_by(engine: str) -> None:
    number = pl.col("query")
    country = pl.when(number // 3 % 2 > 0).then(pl.lit("b"))  # a null is a group, too
    wanted = shuffled(expected(random_lists(seed=5, queries=36))).with_columns(
        user=number // 6, country=country, page=number % 3
    )
    wanted = wanted.select("user", "doc", "country", "score", "page", "label", *NEW)
    log, names = wanted.drop(NEW).lazy(), {"query": ["user", "page"], "by": ["country"]}
    assert_same(pr.rank(log, **names).collect(engine=engine), wanted)
    found = pr.per_query(log, ["ndcg", "ap"], **names, undefined="null")
    keys = ["country", "user", "page"]
    plain = wanted.group_by(keys).agg(pr.ndcg(), pr.average_precision().alias("ap")).sort(keys)
    assert_same(found.collect(engine=engine), plain)


def test_rows_and_columns_are_kept() -> None:
    log = log_of(random_lists(seed=6)).with_row_index("row")
    log = shuffled(log.with_columns(when=pl.lit(date(2024, 1, 1)), tags=pl.lit([["a", None]])))
    assert_frame_equal(pr.rank(log).drop(NEW), log)
    assert_frame_equal(pr.rank(log.lazy()).drop(NEW).collect(engine="streaming"), log)
    wanted = expected(random_lists(seed=7))
    names = {"query": "qid", "doc": "item", "score": "prediction", "label": "grade"}
    renamed = wanted.drop(NEW).rename(names)
    copies = {"score": pl.col("prediction"), "label": pl.col("grade")}  # which metrics read
    assert_same(pr.rank(renamed, **names), wanted.rename(names).with_columns(**copies))
    log = pl.DataFrame({"query": 1, "at": pl.Series([2, 1, None], dtype=pl.Int64), "label": 0})
    for options in ({"position": "at"}, {"score": "-at"}):
        assert pr.rank(log, **options)["score"].equals(pl.Series("score", [-2, -1, None]))


def test_threshold_of_relevance() -> None:
    lists = random_lists(seed=8)
    for threshold in (0, 0.5, 2, 5):
        assert_same(pr.rank(log_of(lists), rel=threshold), expected(lists, rel=threshold))


def test_numbers_of_any_type() -> None:
    numbers = (pl.Int8, pl.UInt16, pl.Float32, pl.Decimal(6, 2), pl.Boolean, pl.Null)
    for column, dtype in product(("score", "label"), numbers):
        values = (None,) if dtype == pl.Null else (None, 0, 1)
        lists = random_lists(seed=9, queries=20, **{f"{column}s": values})
        found = pr.rank(log_of(lists).with_columns(pl.col(column).cast(dtype)))
        assert found.schema[column] == dtype
        new = ["query", "doc", *NEW]
        assert_same(found.select(new), expected(lists).select(new))


def test_duplicate_documents() -> None:
    log = pl.DataFrame({
        "query": 1, "doc": [*"abab"], "score": [1.0, 2.0, 3.0, None], "label": [1, 0, 2, 1],
    })  # fmt: skip
    for duplicates, kept in (("max", [("a", 3.0, 2), ("b", 2.0, 0)]),
                             ("first", [("b", 2.0, 0), ("a", 1.0, 1)])):  # fmt: skip
        found = pr.rank(log, duplicates=duplicates)
        assert found.sort("rank").select("doc", "score", "label").rows() == kept
    assert pr.rank(log, duplicates="max")["doc"].to_list() == ["b", "a"]  # in the order of rows


@pytest.mark.parametrize("rankings", [1, FEW_ROWS])
def test_rows_without_duplicates_keep_their_order(rankings: int) -> None:
    ranking = pl.DataFrame(
        {"doc": [2, 1, 3, 2], "score": [1.0, 1.0, 1.0, 0.5], "label": [1, 0, 0, 0]}
    )
    log = pl.DataFrame({"query": range(rankings)}).join(ranking, how="cross")
    for duplicates in ("max", "first"):
        options = {"ties": "input", "duplicates": duplicates}
        assert pr.rank(log, **options)["doc"].head(3).to_list() == [2, 1, 3]
        found = pr.evaluate(log, ["p@1", "num_ret"], **options)
        assert found.row(0) == (rankings, 1, 3 * rankings)


@pytest.mark.parametrize("score", [pl.Float32, pl.Float64, pl.Int64], ids=str)
def test_duplicates_of_ids_at_the_ends_of_their_type(score: pl.DataType) -> None:
    for sign, width, best in product(("Int", "UInt"), (8, 16, 32, 64), (1.0, 0.0, -1.0)):
        dtype = getattr(pl, f"{sign}{width}")
        low, high = pl.select(low=dtype.min(), high=dtype.max()).row(0)
        ids = [low, low + 1, (low + high) // 2, (low + high) // 2 + 1, high - 1, high]
        log = pl.DataFrame({
            "query": 1, "doc": pl.Series(ids * 3, dtype=dtype),
            "score": pl.Series([each for each in (-2.0, best, None) for _ in ids]).cast(score),
            "label": [each for each in (0, 1, 0) for _ in ids],
        })  # fmt: skip
        found = pr.per_query(log, ["num_ret", "num_rel_ret"], duplicates="max")
        assert found.row(0) == (1, len(ids), len(ids)), dtype


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("sign", ["Int", "UInt", "Decimal"])
def test_lower_scores_are_better_exactly(sign: str, engine: str) -> None:
    of_type = {}
    for width in (8, 16, 32, 64, 128) if sign != "Decimal" else ():
        high = 2 ** (width - (sign == "Int")) - 1
        low = -high - 1 if sign == "Int" else 0
        of_type[getattr(pl, f"{sign}{width}")] = [low, low + 1, low + 2, high - 1, high]
    if sign == "Decimal":
        sizes = (-(10**35) - 1, -(10**35), 2**53)
        of_type[pl.Decimal(38, 2)] = [Decimal(f"{size}.{c}") for size in sizes for c in (1, 2)]
    for dtype, values in of_type.items():
        values.sort()
        # All rankings have the same documents, with different relevant ones.
        wanted = [*range(1, len(values) + 1)]
        log = pl.LazyFrame({"doc": wanted, "x": pl.Series(values, dtype=dtype)})
        log = pl.LazyFrame({"query": wanted}).join(log, how="cross", maintain_order="left_right")
        log = log.with_columns(label=pl.col("doc") == pl.col("query"))
        for options in ({"score": "-x"}, {"position": "x"}):
            found = pr.rank(log, **options).collect(engine=engine)
            assert found["rank"].to_list() == wanted * len(values)
            for more in ({}, {"duplicates": "max"}):
                lists = pr.per_query(log, "rr", **options, **more).collect(engine=engine)
                assert lists["rr"].to_list() == [1 / place for place in wanted]


@pytest.mark.parametrize("lazy", [False, True])
def test_metrics_read_labels_and_scores_of_any_name(lazy: bool) -> None:
    log = pl.DataFrame({"query": [1, 1, 2], "s": [2.0, 1.0, 1.0], "grade": [0, 1, 0]})
    ranked = pr.rank(log.lazy() if lazy else log, score="s", label="grade", doc=None)
    found = ranked.group_by("query", maintain_order=True).agg(pr.reciprocal_rank(), pr.roc_auc())
    # The second query has no relevant document.
    assert found.lazy().collect().rows() == [(1, 1 / 2, 0.0), (2, None, None)]
    values = pr.per_query(log, ["rr", "roc_auc"], score="s", label="grade", undefined="null")
    assert values.select("rr", "roc_auc").rows() == [(1 / 2, 0.0), (None, None)]
