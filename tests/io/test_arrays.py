"""`from_arrays`: the long table from arrays."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from rows import check_each

np = needs.package("numpy", "test")

LABELS = [[1, 0, 2], [0, 1, 0]]
SCORES = [[0.2, 0.9, 0.5], [0.1, 0.3, 0.2]]
ROWS = [
    (0, 1, 0.2, 1), (0, 2, 0.9, 0), (0, 3, 0.5, 2), (1, 1, 0.1, 0), (1, 2, 0.3, 1), (1, 3, 0.2, 0),
]  # fmt: skip


def flat(lists: list[list[Any]]) -> list[Any]:
    return [value for values in lists for value in values]


TWO_DIMENSIONS: list[Any] = [
    list,
    lambda lists: tuple(map(tuple, lists)),
    np.array,
    lambda lists: np.asfortranarray(np.array(lists)),
    pl.Series,
    lambda lists: pl.Series(np.array(lists)),
    pa.array,
    lambda lists: pa.chunked_array([lists[:1], lists[1:]]),
    lambda lists: [np.array(values) for values in lists],
]


@pytest.mark.parametrize("array", TWO_DIMENSIONS)
def test_two_dimensions_are_a_row_for_each_query(array: Any) -> None:
    for labels, scores in ((array, array), (array, list), (list, array)):
        table = pr.from_arrays(labels(LABELS), scores(SCORES))
        assert isinstance(table, pl.DataFrame)
        assert table.columns == ["query", "doc", "score", "label"]
        assert table.rows() == ROWS


def test_one_dimension_and_the_sizes_of_groups() -> None:
    for array in (list, tuple, np.array, pl.Series, pa.array, iter):
        labels, scores = array(flat(LABELS)), array(flat(SCORES))
        assert pr.from_arrays(labels, scores, groups=array([3, 3])).rows() == ROWS
        labels, scores, ids = array(flat(LABELS)), array(flat(SCORES)), array(list("aaabbb"))
        assert pr.from_arrays(labels, scores, queries=ids).rows() == [
            ("ab"[row[0]], *row[1:]) for row in ROWS
        ]


UNEVEN = [(0, 1, 0.5, 1), (1, None, None, None), (2, 1, 0.1, 0), (2, 2, 0.2, 2)]
#: Labels, scores, options, and the rows of the long table.
TABLES: list[tuple[Any, Any, dict[str, Any], list[tuple[Any, ...]]]] = [
    ([1, 0], [0.5, 0.7], {}, [(0, 1, 0.5, 1), (0, 2, 0.7, 0)]),
    ([[1], [], [0, 2]], [[0.5], [], [0.1, 0.2]], {}, UNEVEN),
    ([1, 0, 2], [0.5, 0.1, 0.2], {"groups": [1, 0, 2]}, UNEVEN),
    (np.zeros((0, 3)), np.zeros((0, 3)), {}, []),
    ([], [], {"groups": []}, []),
    # Elements of a query need not stand together.
    ([1, 0, 2], [0.5, 0.1, 0.2], {"queries": [7, 8, 7]},
     [(7, 1, 0.5, 1), (8, 1, 0.1, 0), (7, 2, 0.2, 2)]),
    ([[1, 0], [2]], [[0.5, 0.1], [0.2]], {"docs": [["a", "b"], ["a"]], "queries": ["x", "y"]},
     [("x", "a", 0.5, 1), ("x", "b", 0.1, 0), ("y", "a", 0.2, 2)]),
    ([1, 0], [0.5, 0.1], {"docs": np.array(["a", "b"], dtype=object)},
     [(0, "a", 0.5, 1), (0, "b", 0.1, 0)]),
    ([[1, None], [0.5]], [[2, 0.5], [None]], {},
     [(0, 1, 2.0, 1.0), (0, 2, 0.5, None), (1, 1, None, 0.5)]),
]  # fmt: skip


def test_long_tables() -> None:
    def check(labels: Any, scores: Any, options: Any, rows: Any) -> None:
        assert pr.from_arrays(labels, scores, **options).rows() == rows

    check_each(check, TABLES)
    table = pr.from_arrays(np.array([True, False]), np.array([1, 2], dtype=np.float32))
    assert table.schema["score"] == pl.Float32
    assert pr.evaluate(table, "rr")["rr"].item() == 1 / 2


def test_nan_is_refused_as_everywhere() -> None:
    table = pr.from_arrays(np.array([1.0, np.nan]), np.array([0.5, 0.2]))
    with pytest.raises(pr.errors.DataError, match="NaN or infinite values"):
        pr.evaluate(table, "rr")


ONE_LIST = st.lists(st.tuples(st.integers(0, 3), st.floats(-1, 1)), max_size=5)


@given(st.lists(ONE_LIST, min_size=1, max_size=5))
def test_groups_and_lists_are_the_same(lists: list[list[tuple[int, float]]]) -> None:
    labels = [[label for label, _ in values] for values in lists]
    scores = [[score for _, score in values] for values in lists]
    sizes = [len(values) for values in lists]
    table = pr.from_arrays(flat(labels), flat(scores), groups=sizes)
    assert table.rows() == [
        row
        for query, values in enumerate(lists)
        for row in (
            [(query, place, score, label) for place, (label, score) in enumerate(values, 1)]
            or [(query, None, None, None)]
        )
    ]
    assert_frame_equal(pr.from_arrays(labels, scores), table, check_dtypes=bool(flat(lists)))


#: Labels, scores and options, and what is wrong.
WRONG: list[tuple[Any, str]] = [
    (([1], [0.5, 0.2]), "`labels` and `scores` must have the same shape; found one dimension of "
     "length 1 and one dimension of length 2"),
    (([[1]], [0.5]), "found two dimensions of 1 row and one dimension of length 1"),
    (([[1]], [[0.5], [0.2]]), "two dimensions of 1 row and two dimensions of 2 rows"),
    (([[1], [0]], [[0.5], [1, 2]]), "`scores` must have the same shape; found 1 in row 1 and 2 in "),
    (([1], [0.5], {"docs": [1, 2]}), "`labels` and `docs` must have the same shape"),
    (([1], [0.5], {"groups": [2]}), "`groups` must add up to the number of labels, 1; found 2"),
    (([1, 0], [1, 2], {"groups": [7, 7]}), "for a query id of each element, pass queries="),
    (([1], [0.5], {"groups": [1.0]}), "found [1.0] of type Float64; cast them to integers"),
    (([1], [0.5], {"groups": [2, -1]}), "`groups` must be integers of 0 or more"),
    (([1], [0.5], {"groups": [1, None]}), "`groups` must be integers of 0 or more"),
    (([[1]], [[0.5]], {"groups": [1]}), "`groups` needs one-dimensional arrays"),
    (([1], [0.5], {"groups": [1], "queries": [1]}), "`groups` and `queries` cannot both be given"),
    (([1], [0.5], {"queries": [1, 2]}), "`queries` must have one dimension of length 1; found"),
    (([[1]], [[0.5]], {"queries": [[1]]}), "`queries` must have one dimension of length 1"),
    (([[[1]]], [[[1]]]), "`labels` must be one- or two-dimensional; found List(List(Int64))"),
    ((np.zeros((1, 1, 1)), [1]), "`labels` must be one- or two-dimensional"),
    ((["good"], [0.5]), "`labels` must be numbers; found String"),
    (([1], ["high"]), "`scores` must be numbers; found String"),
    (("1", [0.5]), "`labels` must be an array, a Series or a list; found str"),
    ((None, [0.5]), "found NoneType"),
    (([1], 0.5), "`scores` must be an array, a Series or a list; found float"),
    ((pl.DataFrame({"a": [1]}), [0.5]), "found DataFrame"),
    (([1], [1], {"group": [1]}), "no parameter `group`. Did you mean `groups`"),
    (([1], [1], {"qid": [1]}), "no parameter `qid`. Did you mean `queries`"),
    (([1], [1], {"group_id": [1]}), "no parameter `group_id`. Did you mean `queries`"),
]  # fmt: skip


def test_arrays_that_do_not_fit() -> None:
    def check(arguments: tuple[Any, ...], message: str) -> None:
        arrays, options = arguments[:2], dict(*arguments[2:])
        with pytest.raises(pr.errors.ArgumentError, match=re.escape(message)):
            pr.from_arrays(*arrays, **options)

    check_each(check, WRONG)


def test_numpy_is_not_imported() -> None:
    code = (
        "import polars_rank as pr, sys; pr.evaluate(pr.from_arrays([1, 0], [1, 2]), 'rr');"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
