"""`from_arrays`: the long table from arrays, with the values of the tools that use arrays."""

from __future__ import annotations

import math
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
from strategies import more_examples

np = needs.package("numpy", "test")

LABELS = [[1, 0, 2], [0, 1, 0]]
SCORES = [[0.2, 0.9, 0.5], [0.1, 0.3, 0.2]]
ROWS = [
    (0, 1, 0.2, 1),
    (0, 2, 0.9, 0),
    (0, 3, 0.5, 2),
    (1, 1, 0.1, 0),
    (1, 2, 0.3, 1),
    (1, 3, 0.2, 0),
]


def flat(lists: list[list[Any]]) -> list[Any]:
    return [value for values in lists for value in values]


TWO_DIMENSIONS: list[Any] = [
    lambda lists: lists,
    lambda lists: tuple(map(tuple, lists)),
    np.array,
    lambda lists: np.asfortranarray(np.array(lists)),
    pl.Series,
    lambda lists: pl.Series(np.array(lists)),
    pa.array,
    lambda lists: pa.chunked_array([lists[:1], lists[1:]]),
    lambda lists: [np.array(values) for values in lists],
]


@pytest.mark.parametrize(
    ("labels", "scores"),
    [
        *((array, TWO_DIMENSIONS[0]) for array in TWO_DIMENSIONS),
        *((array, array) for array in TWO_DIMENSIONS[1:]),
        *((TWO_DIMENSIONS[0], array) for array in TWO_DIMENSIONS[1:]),
    ],
)
def test_two_dimensions_are_a_row_for_each_query(labels: Any, scores: Any) -> None:
    table = pr.from_arrays(labels(LABELS), scores(SCORES))
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["query", "doc", "score", "label"]
    assert table.rows() == ROWS


@pytest.mark.parametrize("array", [list, tuple, np.array, pl.Series, pa.array, iter])
def test_one_dimension_and_the_sizes_of_groups(array: Any) -> None:
    labels, scores = array(flat(LABELS)), array(flat(SCORES))
    assert pr.from_arrays(labels, scores, groups=array([3, 3])).rows() == ROWS
    labels, scores, ids = array(flat(LABELS)), array(flat(SCORES)), array(list("aaabbb"))
    assert pr.from_arrays(labels, scores, queries=ids).rows() == [
        ("ab"[row[0]], *row[1:]) for row in ROWS
    ]


def test_one_dimension_alone_is_one_list() -> None:
    assert pr.from_arrays([1, 0], [0.5, 0.7]).rows() == [(0, 1, 0.5, 1), (0, 2, 0.7, 0)]


def test_lists_of_different_lengths_and_nothing_in_them() -> None:
    expected = [(0, 1, 0.5, 1), (1, None, None, None), (2, 1, 0.1, 0), (2, 2, 0.2, 2)]
    assert pr.from_arrays([[1], [], [0, 2]], [[0.5], [], [0.1, 0.2]]).rows() == expected
    assert pr.from_arrays([1, 0, 2], [0.5, 0.1, 0.2], groups=[1, 0, 2]).rows() == expected
    assert pr.from_arrays(np.zeros((0, 3)), np.zeros((0, 3))).is_empty()
    assert pr.from_arrays([], [], groups=[]).is_empty()


def test_elements_of_a_query_need_not_stand_together() -> None:
    table = pr.from_arrays([1, 0, 2], [0.5, 0.1, 0.2], queries=[7, 8, 7])
    assert table.rows() == [(7, 1, 0.5, 1), (8, 1, 0.1, 0), (7, 2, 0.2, 2)]


def test_documents_and_ids_of_rows() -> None:
    table = pr.from_arrays([[1, 0], [2]], [[0.5, 0.1], [0.2]], docs=[["a", "b"], ["a"]],
                           queries=["x", "y"])  # fmt: skip
    assert table.rows() == [("x", "a", 0.5, 1), ("x", "b", 0.1, 0), ("y", "a", 0.2, 2)]
    docs = np.array(["a", "b"], dtype=object)
    assert pr.from_arrays([1, 0], [0.5, 0.1], docs=docs)["doc"].to_list() == ["a", "b"]


def test_what_is_unknown_and_numbers_of_several_kinds() -> None:
    table = pr.from_arrays([[1, None], [0.5]], [[2, 0.5], [None]])
    assert table.rows() == [(0, 1, 2.0, 1.0), (0, 2, 0.5, None), (1, 1, None, 0.5)]
    table = pr.from_arrays(np.array([True, False]), np.array([1, 2], dtype=np.float32))
    assert table.schema["score"] == pl.Float32
    assert pr.evaluate(table, "rr")["rr"].item() == 1 / 2


def test_nan_is_refused_as_everywhere() -> None:
    table = pr.from_arrays(np.array([1.0, np.nan]), np.array([0.5, 0.2]))
    with pytest.raises(pr.errors.DataError, match="NaN or infinite values"):
        pr.evaluate(table, "rr")


ONE_LIST = st.lists(st.tuples(st.integers(0, 3), st.floats(-1, 1)), max_size=5)


@more_examples
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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
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
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit(arguments: tuple[Any, ...], message: str) -> None:
    arrays, options = arguments[:2], dict(*arguments[2:])
    with pytest.raises(pr.errors.ArgumentError, match=re.escape(message)):
        pr.from_arrays(*arrays, **options)


def test_numpy_is_not_imported() -> None:
    code = (
        "import polars_rank as pr, sys; pr.evaluate(pr.from_arrays([1, 0], [1, 2]), 'rr');"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# Other tools


def random_lists(seed: int, sizes: list[int]) -> tuple[list[Any], list[Any]]:
    draw = np.random.default_rng(seed)
    labels = [draw.integers(0, 4, size) for size in sizes]
    scores = [draw.integers(0, 6, size) / 4 for size in sizes]  # with ties
    return labels, scores


@pytest.mark.parametrize(
    ("other", "ours"), [("group", "groups"), ("qid", "queries"), ("group_id", "queries")]
)
def test_parameters_of_other_tools(other: str, ours: str) -> None:
    options: dict[str, Any] = {other: [2, 1]}
    with pytest.raises(
        pr.errors.ArgumentError, match=f"no parameter `{other}`. Did you mean `{ours}`"
    ):
        pr.from_arrays([1, 0, 1], [3, 2, 1], **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [None, 1, 3, 10])
def test_ndcg_score_of_scikit_learn(seed: int, k: int | None) -> None:
    metrics = needs.package("sklearn.metrics", "test")
    labels, scores = (np.array(lists) for lists in random_lists(seed, [7] * 9))
    labels[3] = 0  # nothing is relevant
    name = "ndcg" if k is None else f"ndcg@{k}"
    found = pr.evaluate(pr.from_arrays(labels, scores), name, conventions=pr.conventions.SKLEARN)
    assert found[name].item() == pytest.approx(metrics.ndcg_score(labels, scores, k=k))


def test_ranking_average_precision_of_scikit_learn() -> None:
    metrics = needs.package("sklearn.metrics", "test")
    labels, scores = (np.array(lists) for lists in random_lists(1, [7] * 9))
    table = pr.from_arrays(labels > 1, scores)
    expected = metrics.label_ranking_average_precision_score(labels > 1, scores)
    found = pr.evaluate(table, "lrap", conventions=pr.conventions.SKLEARN)["lrap"].item()
    assert found == pytest.approx(expected)


def test_ndcg_of_lightgbm_in_plain_python() -> None:
    """Gains are 2^label - 1, ties keep the order of rows, and 1 if no document is relevant."""
    sizes = [3, 8, 1, 5]
    labels, scores = random_lists(5, sizes)
    labels[2][:] = 0

    def dcg(labels: list[int], k: int) -> float:
        return sum((2 ** int(l) - 1) / math.log2(i + 2) for i, l in enumerate(labels[:k]))

    def ndcg(labels: Any, scores: Any, k: int) -> float:
        best = dcg(sorted(labels, reverse=True), k)
        order = sorted(range(len(labels)), key=lambda i: -scores[i])
        return dcg([labels[i] for i in order], k) / best if best else 1.0

    table = pr.from_arrays(np.concatenate(labels), np.concatenate(scores), groups=sizes)
    for k in (1, 2, 5):
        expected = sum(map(ndcg, labels, scores, [k] * 4)) / 4
        found = pr.evaluate(table, f"ndcg@{k}", conventions=pr.conventions.LIGHTGBM)
        assert found[f"ndcg@{k}"].item() == pytest.approx(expected)
