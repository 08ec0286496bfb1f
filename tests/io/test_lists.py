"""`from_lists`: the long table from lists of each query."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from rows import check_each

from polars_rank.errors import ArgumentError, DataError, SchemaError
from polars_rank.io.lists import from_lists

pytestmark = pytest.mark.filterwarnings("ignore:.*do the ids match")

Engine = Literal["in-memory", "streaming"]
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")

LISTS = pl.DataFrame(
    {
        "shown": [["a", "b"], ["c"], []],
        "bought": [["b", "d"], [], ["e"]],
        "grades": [[0, 3], [None], []],
        "country": ["DE", "FR", "DE"],
    }
)


def long(frame: pl.DataFrame, **lists: Any) -> list[tuple[Any, ...]]:
    """Return the rows of the long table, which must be equal on every engine."""
    table = from_lists(frame, **lists)
    for engine in ENGINES:
        assert_frame_equal(from_lists(frame.lazy(), **lists).collect(engine=engine), table)
    assert from_lists(frame.lazy(), **lists).collect_schema() == table.schema
    return table.rows()


BOTH = {"retrieved": "shown", "relevant": "bought"}
GRADED = {"retrieved": "shown", "labels": "grades"}
SCORES = pl.DataFrame({
    "shown": [["a", "b"], ["c"], None], "bought": [["a", "d"], ["c"], ["e"]],
    "scores": [[0.1, 0.9], [None], None], "grades": [[2, 0], [1], None],
})  # fmt: skip
NULLS = pl.DataFrame({
    "query": ["unjudged", "unretrieved", "empty", "unknown"],
    "shown": pl.Series([["a"], None, [], None], dtype=pl.List(pl.String)),
    "bought": [None, ["b"], [], None],
})  # fmt: skip
NUMBERS = pl.DataFrame({"shown": [[1, 2]], "bought": [[2]]})

#: A table of lists, the parameters, and the rows of the long table.
LONG: dict[str, tuple[pl.DataFrame, dict[str, str], list[tuple[Any, ...]]]] = {
    "ids": (LISTS.select("shown", "bought"), BOTH, [
        (0, "a", -1.0, 0), (0, "b", -2.0, 1), (0, "d", None, 1), (1, "c", -1.0, 0),
        (2, "e", None, 1),
    ]),
    "labels, whose place is the document": (
        pl.DataFrame({"label": [[3, 0], [1.5, None]]}, strict=False), {"labels": "label"},
        [(0, 1, -1.0, 3.0), (0, 2, -2.0, 0.0), (1, 1, -1.0, 1.5), (1, 2, -2.0, None)],
    ),
    "a label each": (LISTS.select("shown", "grades"), GRADED, [
        (0, "a", -1.0, 0), (0, "b", -2.0, 3), (1, "c", -1.0, None), (2, None, None, None),
    ]),
    "relevant ids with grades leave others unjudged": (
        pl.DataFrame({
            "shown": [[11, 12], [13]],
            "bought": [[{"item": 12, "grade": 4}, {"item": 14, "grade": -1}], []],
        }), BOTH,
        [(0, 11, -1.0, None), (0, 12, -2.0, 4), (0, 14, None, -1), (1, 13, -1.0, None)],
    ),
    "ids with scores in any order": (
        pl.DataFrame({
            "shown": [[{"item": "a", "s": 0.1}, {"item": "b", "s": 0.9}]], "bought": [["a", "c"]],
        }), BOTH, [(0, "a", 0.1, 1), (0, "b", 0.9, 0), (0, "c", None, 1)],
    ),
    "scores by place": (SCORES.drop("grades"), {**BOTH, "scores": "scores"}, [
        (0, "a", 0.1, 1), (0, "b", 0.9, 0), (0, "d", None, 1), (1, "c", None, 1),
        (2, "e", None, 1),
    ]),
    "scores and labels by place": (SCORES.drop("bought"), {**GRADED, "scores": "scores"}, [
        (0, "a", 0.1, 2), (0, "b", 0.9, 0), (1, "c", None, 1), (2, None, None, None),
    ]),
    "scores of labels": (
        SCORES.head(1).select("grades", "scores"), {"labels": "grades", "scores": "scores"},
        [(0, 1, 0.1, 2), (0, 2, 0.9, 0)],
    ),
    "null lists are unknown, and no query vanishes": (NULLS, BOTH, [
        ("unjudged", "a", -1.0, None), ("unretrieved", "b", None, 1), ("empty", None, None, None),
        ("unknown", None, None, None),
    ]),
    "null lists of labels": (
        NULLS.head(2).select("shown", grades=pl.Series([None, []], dtype=pl.List(pl.Int64))),
        GRADED, [(0, "a", -1.0, None), (1, None, None, None)],
    ),
    "a column of queries": (
        pl.DataFrame({"query": ["x", "y"], "labels": [[1], [0]]}), {"labels": "labels"},
        [("x", 1, -1.0, 1), ("y", 1, -1.0, 0)],
    ),
    "duplicates stay for evaluation to find": (
        pl.DataFrame({"shown": [["a", "a"]], "bought": [["a", "a", "b"]]}), BOTH,
        [(0, "a", -1.0, 1), (0, "a", -2.0, 1), (0, "b", None, 1)],
    ),
    "numbers of two types": (
        NUMBERS.cast({"shown": pl.Array(pl.Int64, 2), "bought": pl.List(pl.Int8)}), BOTH,
        [(0, 1, -1.0, 0), (0, 2, -2.0, 1)],
    ),
    "nothing relevant": (
        NUMBERS.with_columns(bought=pl.Series([[]], dtype=pl.List(pl.Null))), BOTH,
        [(0, 1, -1.0, 0), (0, 2, -2.0, 0)],
    ),
    "categories": (
        LISTS.head(1).select(pl.col("shown").cast(pl.List(pl.Categorical)), "bought"), BOTH,
        [(0, "a", -1.0, 0), (0, "b", -2.0, 1), (0, "d", None, 1)],
    ),
}  # fmt: skip


def test_long_tables() -> None:
    def check(name: str, frame: pl.DataFrame, lists: Any, rows: list[tuple[Any, ...]]) -> None:
        assert long(frame, **lists) == rows

    check_each(check, [(name, *row) for name, row in LONG.items()])


def test_scores_decide_the_order() -> None:
    frame = pl.DataFrame({"scores": [[0.2, 0.7, 0.1]], "labels": [[2, 0, 1]]})
    table = from_lists(frame, labels="labels", scores="scores")
    # By score: labels 0, 2, 1. DCG = 2 / log2(3) + 1 / log2(4); ideal 2 + 1 / log2(3).
    log3 = math.log2(3)
    assert pr.evaluate(table, "ndcg")["ndcg"].item() == pytest.approx(
        (2 / log3 + 1 / 2) / (2 + 1 / log3)
    )


def test_other_columns_are_repeated_and_queries_named() -> None:
    table = from_lists(
        LISTS.with_columns(user=pl.Series([7, 7, 8]), day=pl.Series([1, 2, 1])),
        retrieved="shown",
        relevant="bought",
        query=["user", "day"],
    )
    assert table.columns == ["user", "day", "doc", "score", "label", "grades", "country"]
    assert table["country"].to_list() == ["DE", "DE", "DE", "FR", "DE"]
    assert table.select("user", "day").rows() == [(7, 1), (7, 1), (7, 1), (7, 2), (8, 1)]


def test_an_empty_frame_gives_an_empty_table() -> None:
    table = from_lists(LISTS.clear(), retrieved="shown", relevant="bought")
    full = from_lists(LISTS, retrieved="shown", relevant="bought")
    assert_frame_equal(table, full.clear())


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), max_size=6, unique=True),
            st.lists(st.integers(0, 9), max_size=6, unique=True),
        ),
        min_size=5,
        max_size=30,
    )
)
def test_any_lists_against_plain_python(lists: list[tuple[list[int], list[int]]]) -> None:
    frame = pl.DataFrame(
        lists, schema={"shown": pl.List(pl.Int64), "bought": pl.List(pl.Int64)}, orient="row"
    )
    expected: list[tuple[int, int | None, float | None, int | None]] = []
    for query, (shown, bought) in enumerate(lists):
        expected += [(query, d, -float(i), int(d in bought)) for i, d in enumerate(shown, 1)]
        expected += [(query, d, None, 1) for d in bought if d not in shown]
        expected += [] if shown or bought else [(query, None, None, None)]
    assert long(frame, retrieved="shown", relevant="bought") == expected


#: Columns beside those of `LISTS`, parameters, and what is wrong.
WRONG: list[tuple[dict[str, Any], dict[str, str], type[Exception], str]] = [
    ({}, {}, ArgumentError, "pass `retrieved` and `relevant`, `retrieved` and `labels`, or `labels`"),
    ({}, {"retrieved": "shown"}, ArgumentError, "found `retrieved`; for labels of relevant docum"),
    ({}, {"relevant": "bought"}, ArgumentError, "found `relevant`"),
    ({}, {"relevant": "bought", "labels": "grades"}, ArgumentError, "found `relevant`, `labels`"),
    ({}, {"scores": "grades"}, ArgumentError, "found `scores`"),
    ({"structs": [[{"id": "a", "score": 1.0}]] * 3},
     {"retrieved": "structs", "relevant": "bought", "scores": "grades"}, ArgumentError,
     "column 'structs' (`retrieved`) already has scores; leave out `scores`"),
    ({}, {**BOTH, "labels": "grades"}, ArgumentError,
     "found `retrieved`, `relevant`, `labels`; for labels of relevant documents, pass a column"),
    ({}, {**BOTH, "query": "shown"}, ArgumentError, "'shown' is used for both `query` and `retr"),
    ({}, {"labels": "grade"}, SchemaError, "column 'grade' (`labels`) not found; available: 'shown'"),
    ({}, {"labels": "grade"}, SchemaError, "Did you mean 'grades'?"),
    ({}, {"labels": "grades", "query": "q"}, SchemaError, "column 'q' (`query`) not found"),
    ({}, {"labels": "grades", "scores": "score"}, SchemaError, "'score' (`scores`) not found"),
    ({"doc": [1] * 3}, {"labels": "grades"}, SchemaError, "the table already has a column 'doc'; re"),
    ({}, {"labels": "country"}, SchemaError, "'country' (`labels`) must hold lists of numbers"),
    ({}, {"labels": "shown"}, SchemaError, "'shown' (`labels`) must hold lists of numbers"),
    ({}, {"labels": "grades", "scores": "shown"}, SchemaError, "'shown' (`scores`) must hold lists"),
    ({"deep": [[[1]]] * 3}, {"retrieved": "deep", "labels": "grades"}, SchemaError,
     "'deep' (`retrieved`) must hold lists of ids, or of structs (id, score)"),
    ({"deep": [[{"id": "a", "grade": "good"}]] * 3}, {"retrieved": "shown", "relevant": "deep"},
     SchemaError, "'deep' (`relevant`) must hold lists of ids, or of structs (id, label)"),
    ({"found": [[0.5, 0.25]] * 3}, {"retrieved": "found", "labels": "grades"}, SchemaError,
     "'found' (`retrieved`) must hold lists of ids; found List(Float64); if it holds scores, pass"),
    ({"found": [[0.5, 1.0]] * 3}, {"retrieved": "shown", "relevant": "found"}, SchemaError,
     "'found' (`relevant`) must hold lists of ids; found List(Float64); if it holds labels, pass"),
    ({}, {"retrieved": "shown", "relevant": "grades"}, SchemaError,
     "ids are String in column 'shown' and Int64 in column 'grades', so none would match"),
]  # fmt: skip


def test_columns_that_do_not_fit() -> None:
    def check(columns: Any, lists: Any, error: type[Exception], message: str) -> None:
        frame = LISTS.with_columns(**{name: pl.Series(x) for name, x in columns.items()})
        for table in (frame, frame.lazy()):
            with pytest.raises(error, match=re.escape(message)):
                from_lists(table, **lists)

    check_each(check, WRONG)


@pytest.mark.parametrize(
    ("columns", "lists", "message"),
    [
        ({"shown": [["a", "b"], ["c"]], "grades": [[1, 0], [2, 3]]}, GRADED,
         "lists in column 'grades' are not as long as in 'shown' (rows: 1; the first: query = 1, "),
        ({"scores": [[0.5], [0.5, 0.25]], "grades": [[1, 0], [2, 3]]},
         {"labels": "grades", "scores": "scores"},
         "lists in column 'scores' are not as long as in 'grades' "),
        ({"shown": [["a"], ["b", None]], "bought": [["a"], ["b"]]}, BOTH,
         "'shown' has lists with a null id (rows: 1; the first: query = 1, position = 2)"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(columns: Any, lists: Any, message: str) -> None:
    for engine in ENGINES:
        with pytest.raises(DataError, match=re.escape(message)):
            from_lists(pl.LazyFrame(columns), **lists).collect(engine=engine)
