"""`from_lists`: the long table from lists of each query.

`lists.json` has rows of columns, parameters, and the long table, or what is wrong with columns
beside those of `LISTS`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from rows import check_each

from polars_rank import errors

from polars_rank import from_lists

pytestmark = pytest.mark.filterwarnings("ignore:.*do the ids match")

Engine = Literal["in-memory", "streaming"]
CASES = json.loads(Path(__file__).with_name("lists.json").read_text("utf-8"))
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")

LISTS = pl.DataFrame({
    "shown": [["a", "b"], ["c"], []], "bought": [["b", "d"], [], ["e"]],
    "grades": [[0, 3], [None], []], "country": ["DE", "FR", "DE"],
})  # fmt: skip


def long(frame: pl.DataFrame, **lists: Any) -> list[tuple[Any, ...]]:
    """Return the rows of the long table, which must be equal on every engine."""
    table = from_lists(frame, **lists)
    for engine in ENGINES:
        assert_frame_equal(from_lists(frame.lazy(), **lists).collect(engine=engine), table)
    assert from_lists(frame.lazy(), **lists).collect_schema() == table.schema
    return table.rows()


BOTH = {"retrieved": "shown", "relevant": "bought"}
GRADED = {"retrieved": "shown", "labels": "grades"}
NUMBERS = pl.DataFrame({"shown": [[1, 2]], "bought": [[2]]})

#: Lists of other types than those in `lists.json`.
TYPES: list[tuple[str, pl.DataFrame, dict[str, str], list[tuple[Any, ...]]]] = [
    ("numbers", NUMBERS.cast({"shown": pl.Array(pl.Int64, 2), "bought": pl.List(pl.Int8)}), BOTH,
     [(0, 1, -1.0, 0), (0, 2, -2.0, 1)]),
    ("nothing", NUMBERS.with_columns(bought=pl.Series([[]], dtype=pl.List(pl.Null))), BOTH,
     [(0, 1, -1.0, 0), (0, 2, -2.0, 0)]),
    ("categories", LISTS.head(1).select(pl.col("shown").cast(pl.List(pl.Categorical)), "bought"),
     BOTH, [(0, "a", -1.0, 0), (0, "b", -2.0, 1), (0, "d", None, 1)]),
]  # fmt: skip


def test_long_tables() -> None:
    def check(name: str, columns: Any, lists: Any, rows: Any) -> None:
        frame = pl.DataFrame(columns, strict=False)
        assert long(frame, **lists) == [*map(tuple, rows)]

    check_each(check, CASES["long"] + TYPES)


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


IDS = st.lists(st.integers(0, 9), max_size=6, unique=True)


@given(st.lists(st.tuples(IDS, IDS), min_size=5, max_size=30))
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


def test_columns_that_do_not_fit() -> None:
    def check(columns: Any, lists: Any, error: str, message: str) -> None:
        frame = LISTS.with_columns(**{name: pl.Series(x) for name, x in columns.items()})
        for table in (frame, frame.lazy()):
            with pytest.raises(getattr(errors, error), match=re.escape(message)):
                from_lists(table, **lists)

    check_each(check, CASES["wrong"])


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
        with pytest.raises(errors.DataError, match=re.escape(message)):
            from_lists(pl.LazyFrame(columns), **lists).collect(engine=engine)
