"""The ranked table, compared with a few lines of Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import holding_nodes
from polars.testing import assert_frame_equal
from polars_rank.frames.tables import FEW_ROWS
from strategies import SCHEMA, Lists, in_rank_order, logs, random_lists, shuffled
from strategies import log_of as log_with_clicks

TIES = ("doc", "doc_ascending", "best", "worst", "input")
NEW = ["rank", "ideal_rank", "relevant", "hits"]


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
            rows.append(
                {
                    "query": query,
                    **d._asdict(),
                    "rank": None if d.score is None else rank,
                    "ideal_rank": None if d.label is None else ideal.index(d) + 1,
                    "relevant": d.label is not None and d.label >= rel,
                    "hits": None if d.score is None else hits,
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def assert_same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    assert_frame_equal(found, wanted, check_dtypes=False, categorical_as_str=True)


@pytest.mark.parametrize("ties", TIES)
@given(lists=logs())
def test_ranked_table(lists: Lists, ties: str) -> None:
    assert_same(pr.rank(log_of(lists), ties=ties), expected(lists, ties))


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy_on_both_engines(ties: str, engine: str) -> None:
    lists = random_lists(seed=1)
    plan = pr.rank(log_of(lists).lazy(), ties=ties)
    found = plan.collect(engine=engine)
    assert plan.collect_schema() == found.schema
    assert_same(found, expected(lists, ties))


@pytest.mark.parametrize("duplicates", ["error", "max"])
@pytest.mark.parametrize("layout", ["sorted", "adjacent"])
def test_logs_in_order_are_ranked_in_batches(tmp_path: Path, layout: str, duplicates: str) -> None:
    lists = random_lists(seed=5)
    if layout == "adjacent":
        lists = {query: lists[query] for query in sorted(lists, key=lambda query: query * 7 % 60)}
    log_of(lists).write_parquet(tmp_path / "log.parquet")
    plan = pr.rank(pr.scan_log(tmp_path / "log.parquet"), duplicates=duplicates)
    assert not holding_nodes(plan)
    with pl.Config(streaming_chunk_size=50):
        found = plan.collect(engine="streaming")
    assert_same(found.select(*SCHEMA, *NEW), expected(lists))
    # The result is also sorted.
    assert not holding_nodes(pr.per_query(plan.drop(NEW), "num_ret"))


def test_types_of_the_new_columns() -> None:
    found = pr.rank(log_of(random_lists(seed=1))).select(NEW).schema
    assert found == {
        "rank": pl.UInt32,
        "ideal_rank": pl.UInt32,
        "relevant": pl.Boolean,
        "hits": pl.UInt32,
    }


@pytest.mark.parametrize("ties", [rule for rule in TIES if rule != "input"])
@given(lists=logs(), seed=st.integers(0, 99))
def test_order_of_rows_is_irrelevant(lists: Lists, seed: int, ties: str) -> None:
    log = log_of(lists)
    key = ["query", "doc"]
    assert_same(
        pr.rank(shuffled(log, seed), ties=ties).sort(key), pr.rank(log, ties=ties).sort(key)
    )


@pytest.mark.parametrize("ties", ["best", "worst"])
def test_order_of_rows_is_irrelevant_without_documents(ties: str) -> None:
    log = log_of(random_lists(seed=2)).drop("doc")
    both = [pr.rank(frame, ties=ties) for frame in (log, shuffled(log))]
    found, wanted = (frame.sort(frame.columns) for frame in both)
    assert_same(found, wanted)


def test_rule_for_ties_by_default() -> None:
    log = log_of(random_lists(seed=3))
    assert_same(pr.rank(log), pr.rank(log, ties="doc"))
    assert_same(pr.rank(log, doc=None), pr.rank(log, doc=None, ties="worst"))
    assert_same(pr.rank(log.drop("doc")), pr.rank(log.drop("doc"), ties="worst"))


def text(i: int) -> str:
    return f"id-{i:03}"


#: Functions from integers to keys of many types, in the same order.
KEYS: dict[str, tuple[Callable[[int], Any], Any]] = {
    "negative integers": (lambda i: i - 50, pl.Int8),
    "unsigned integers": (lambda i: i + 2**63, pl.UInt64),
    "strings": (text, pl.String),
    "categoricals": (text, pl.Categorical),
    "categoricals of other categories": (text, pl.Categorical(pl.Categories("ids"))),
    "enums": (text, pl.Enum([text(i) for i in range(100)])),
    "UUID strings": (lambda i: str(UUID(int=i * 2**120)), pl.String),
    "dates": (lambda i: date(2024, 1, 1) + timedelta(days=i), pl.Date),
    "floats": (lambda i: i / 4, pl.Float64),
    "binary": (lambda i: bytes([i]), pl.Binary),
}


@pytest.fixture(params=KEYS)
def keys(request: pytest.FixtureRequest) -> Callable[[pl.DataFrame, str], pl.DataFrame]:
    """Replace the integers of a column by keys of another type in the same order."""
    make, dtype = KEYS[request.param]
    return lambda log, name: log.with_columns(
        pl.Series(name, [make(i) for i in log[name]], dtype=dtype)
    )


@pytest.mark.parametrize("column", ["query", "doc"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_keys_of_any_type(
    keys: Callable[[pl.DataFrame, str], pl.DataFrame], column: str, engine: str
) -> None:
    wanted = keys(shuffled(expected(random_lists(seed=4))), column)
    log = wanted.drop(NEW)
    assert_same(pr.rank(log.lazy()).collect(engine=engine), wanted)
    metrics = [pr.ndcg(3), pr.average_precision(), pl.col("rank").max().alias("last")]
    plain = wanted.group_by("query").agg(metrics)
    evaluated = pr.per_query(log.lazy(), metrics, undefined="null").collect(engine=engine)
    assert evaluated["query"].n_unique() == evaluated.height
    assert_same(evaluated.sort("query"), plain.sort("query"))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_several_query_columns_and_by(engine: str) -> None:
    number = pl.col("query")
    wanted = shuffled(
        expected(random_lists(seed=5, queries=36))
        .with_columns(user=number // 6, country=number // 3 % 2, page=number % 3)
        .with_columns(
            country=pl.when(pl.col("country") > 0).then(pl.lit("b"))
        )  # a null is a group too
        .select("user", "doc", "country", "score", "page", "label", *NEW)
    )
    log = wanted.drop(NEW).lazy()
    found = pr.rank(log, query=["user", "page"], by=["country"])
    assert_same(found.collect(engine=engine), wanted)
    metrics = pr.per_query(
        log, ["ndcg", "ap"], query=["user", "page"], by="country", undefined="null"
    )
    keys = ["country", "user", "page"]
    plain = wanted.group_by(keys).agg(pr.ndcg(), pr.average_precision().alias("ap")).sort(keys)
    assert_same(metrics.collect(engine=engine), plain)


def test_rows_and_columns_are_kept() -> None:
    log = log_of(random_lists(seed=6)).with_row_index("row")
    log = shuffled(log.with_columns(when=pl.lit(date(2024, 1, 1)), tags=pl.lit([["a", None]])))
    assert_frame_equal(pr.rank(log).drop(NEW), log)
    assert_frame_equal(pr.rank(log.lazy()).drop(NEW).collect(engine="streaming"), log)


def test_own_names_of_columns() -> None:
    wanted = expected(random_lists(seed=7))
    names = {"query": "qid", "doc": "item", "score": "prediction", "label": "grade"}
    log = wanted.drop(NEW).rename(names)
    copies = {"score": pl.col("prediction"), "label": pl.col("grade")}  # which metrics read
    assert_same(pr.rank(log, **names), wanted.rename(names).with_columns(**copies))


@pytest.mark.parametrize("threshold", [0, 0.5, 2, 5])
def test_threshold_of_relevance(threshold: float) -> None:
    lists = random_lists(seed=8)
    assert_same(pr.rank(log_of(lists), rel=threshold), expected(lists, rel=threshold))


@pytest.mark.parametrize(
    "dtype", [pl.Int8, pl.UInt16, pl.Float32, pl.Decimal(6, 2), pl.Boolean, pl.Null], ids=str
)
@pytest.mark.parametrize("column", ["score", "label"])
def test_numbers_of_any_type(column: str, dtype: pl.DataType) -> None:
    values = (None,) if dtype == pl.Null else (None, 0, 1)
    lists = random_lists(seed=9, **{f"{column}s": values})
    log = log_of(lists).with_columns(pl.col(column).cast(dtype))
    found = pr.rank(log)
    assert found.schema[column] == dtype
    assert_same(found.select("query", "doc", *NEW), expected(lists).select("query", "doc", *NEW))


def test_duplicate_documents() -> None:
    log = pl.DataFrame(
        {
            "query": 1,
            "doc": ["a", "b", "a", "b"],
            "score": [1.0, 2.0, 3.0, None],
            "label": [1, 0, 2, 1],
        }
    )
    highest = pr.rank(log, duplicates="max").sort("rank")
    assert highest.select("doc", "score", "label").rows() == [("a", 3.0, 2), ("b", 2.0, 0)]
    assert pr.rank(log, duplicates="max")["doc"].to_list() == ["b", "a"]  # in the order of rows
    first = pr.rank(log, duplicates="first").sort("rank")
    assert first.select("doc", "score", "label").rows() == [("b", 2.0, 0), ("a", 1.0, 1)]


@pytest.mark.parametrize("duplicates", ["max", "first"])
@pytest.mark.parametrize("rankings", [1, FEW_ROWS])
def test_rows_without_duplicates_keep_their_order(rankings: int, duplicates: str) -> None:
    ranking = pl.DataFrame(
        {"doc": [2, 1, 3, 2], "score": [1.0, 1.0, 1.0, 0.5], "label": [1, 0, 0, 0]}
    )
    log = pl.DataFrame({"query": range(rankings)}).join(ranking, how="cross")
    options = {"ties": "input", "duplicates": duplicates}
    assert pr.rank(log, **options)["doc"].head(3).to_list() == [2, 1, 3]
    assert pr.evaluate(log, ["p@1", "num_ret"], **options).row(0) == (rankings, 1, 3 * rankings)


@pytest.mark.parametrize("score", [pl.Float32, pl.Float64, pl.Int64], ids=str)
@pytest.mark.parametrize("width", [8, 16, 32, 64], ids=str)
@pytest.mark.parametrize("sign", ["Int", "UInt"])
def test_duplicates_of_ids_at_the_ends_of_their_type(
    sign: str, width: int, score: pl.DataType
) -> None:
    dtype = getattr(pl, f"{sign}{width}")
    low, high = pl.select(low=dtype.min(), high=dtype.max()).row(0)
    ids = [low, low + 1, (low + high) // 2, (low + high) // 2 + 1, high - 1, high]
    for best in (1.0, 0.0, -1.0):
        scores = [-2.0, best, None]
        log = pl.DataFrame({
            "query": 1,
            "doc": pl.Series(ids * 3, dtype=dtype),
            "score": pl.Series([each for each in scores for _ in ids]).cast(score),
            "label": [each for each in (0, 1, 0) for _ in ids],
        })  # fmt: skip
        found = pr.per_query(log, ["num_ret", "num_rel_ret"], duplicates="max")
        assert found.row(0) == (1, len(ids), len(ids))


_BITS = {pl.Int8: 7, pl.Int16: 15, pl.Int32: 31, pl.Int64: 63, pl.Int128: 127}
_BITS |= {pl.UInt8: 8, pl.UInt16: 16, pl.UInt32: 32, pl.UInt64: 64, pl.UInt128: 128}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("dtype", [*_BITS, pl.Decimal(38, 2)], ids=str)
def test_lower_scores_are_better_exactly(dtype: pl.DataType, engine: str) -> None:
    if dtype == pl.Decimal:
        values = [Decimal(f"{whole}.{cents}") for whole in (-(10**35), 2**53) for cents in (1, 2)]
        values.sort()
    else:
        high = 2 ** _BITS[dtype] - 1
        low = -high - 1 if dtype.is_signed_integer() else 0
        values = [low, low + 1, low + 2, high - 1, high]
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


def test_scores_of_positions() -> None:
    log = pl.DataFrame({"query": 1, "at": pl.Series([2, 1, None], dtype=pl.Int64), "label": 0})
    assert pr.rank(log, position="at")["score"].equals(pl.Series("score", [-2, -1, None]))
    assert pr.rank(log.rename({"at": "x"}), score="-x").schema["score"] == pl.Int64


def test_empty_frame() -> None:
    found = pr.rank(pl.DataFrame(schema=log_of({}).schema))
    assert found.is_empty()
    assert found.columns == ["query", "doc", "score", "label", *NEW]


@pytest.mark.parametrize("lazy", [False, True])
def test_metrics_read_labels_and_scores_of_any_name(lazy: bool) -> None:
    log = pl.DataFrame({"query": [1, 1, 2], "s": [2.0, 1.0, 1.0], "grade": [0, 1, 0]})
    ranked = pr.rank(log.lazy() if lazy else log, score="s", label="grade", doc=None)
    found = ranked.group_by("query", maintain_order=True).agg(pr.reciprocal_rank(), pr.roc_auc())
    # The second query has no relevant document.
    assert found.lazy().collect().rows() == [(1, 1 / 2, 0.0), (2, None, None)]
    values = pr.per_query(log, ["rr", "roc_auc"], score="s", label="grade", undefined="null")
    assert values.select("rr", "roc_auc").rows() == [(1 / 2, 0.0), (None, None)]
