"""`from_dicts`: the long table from dictionaries of ranx and pytrec_eval."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from rows import check_each

#: Rankings and judgments have different queries on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*(leaves them out|do the ids match)")

JUDGMENTS = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"z": 1}}
BM25 = {"q1": {"a": 0.9, "x": 0.8}, "q3": {"y": 0.1}}
NEURAL = {"q1": {"c": 7, "a": 3}}


class Ranx:
    """Like `Run` and `Qrels` of ranx."""

    def __init__(self, nested: dict[str, Any]) -> None:
        self.nested = nested

    def to_dict(self) -> dict[str, Any]:
        return self.nested


def test_one_run() -> None:
    table = pr.from_dicts(BM25, JUDGMENTS)
    assert table.columns == ["query", "doc", "score", "label"]
    assert sorted(table.rows()) == [
        ("q1", "a", 0.9, 1), ("q1", "b", None, 0), ("q1", "c", None, 2), ("q1", "x", 0.8, None),
        ("q2", "z", None, 1), ("q3", "y", 0.1, None),
    ]  # fmt: skip


def test_several_runs_are_joined_with_all_judgments() -> None:
    table = pr.from_dicts({"bm25": BM25, "neural": NEURAL, "none": {}}, JUDGMENTS)
    runs = {"bm25": BM25, "neural": NEURAL, "none": {}}
    for name, run in runs.items():
        part = table.filter(run=name).drop("run")
        alone = pr.from_dicts(run, JUDGMENTS)
        assert_frame_equal(part, alone, check_row_order=False, check_dtypes=False)
    assert table["run"].unique(maintain_order=True).to_list() == [*runs]


def test_objects_of_ranx() -> None:
    for runs, objects in ((NEURAL, Ranx(NEURAL)), ({"a": NEURAL}, {"a": Ranx(NEURAL)})):
        found = pr.from_dicts(objects, Ranx(JUDGMENTS))
        assert_frame_equal(found, pr.from_dicts(runs, JUDGMENTS))


def test_whole_scores_are_no_labels() -> None:
    labels = {"q1": {"a": 1.0, "b": 0.0, "c": 0.0}, "q2": {"a": 1.0}}
    assert pr.from_dicts({"q1": {"a": 3, "b": 3}}, labels).height == 4
    halves = {"q1": {"a": 0.5, "b": 1.0}}
    assert pr.from_dicts({"q1": {"a": 3.0, "b": 2.0}}, halves).height == 2


def test_queries_without_documents_keep_a_row() -> None:
    assert pr.from_dicts({"q1": {}}, {"q1": {"a": 1}}).rows() == [("q1", "a", None, 1)]
    assert pr.from_dicts({"q1": {}}, {"q1": {}}).rows() == [("q1", None, None, None)]
    table = pr.from_dicts({"q1": {"a": 1.0}, "q2": {}}, {"q1": {"a": 1}})
    assert pr.evaluate(table, "rr").row(0) == (2, 0.5)
    assert pr.from_dicts({}, {}).schema["score"] == pl.Float64


def test_numbers_and_ids_of_other_types() -> None:
    table = pr.from_dicts({1: {7: np.float32(0.5), 8: 1}}, {np.int64(1): {7: True, 9: None}})
    assert sorted(table.rows(), key=str) == [
        (1, 7, 0.5, True),
        (1, 8, 1.0, None),
        (1, 9, None, None),
    ]


#: Rankings, judgments, and what is wrong.
WRONG: list[tuple[Any, Any, str]] = [
    (BM25, {"q1": ["a"]}, "`judgments` must map each query to a dictionary {doc: label}; found list "
     "for query 'q1'; for documents that are all relevant, pass dict.fromkeys(docs, 1)"),
    ({"a": 0.5}, JUDGMENTS, "a dictionary {doc: score}; found float for query 'a'"),
    ({"q1": {"a": "x"}}, JUDGMENTS, "scores in `rankings` must be numbers; found String"),
    (pl.DataFrame({"q": 1}), JUDGMENTS, "for tables, use pr.join_judgments"),
    ([BM25], JUDGMENTS, "`rankings` must be a dictionary {query: {doc: score}}"),
    ({1: {"a": 1.0}}, JUDGMENTS,
     "`rankings` has ids of queries of type Int64 and `judgments` of type String"),
    (JUDGMENTS, BM25, "were they swapped? Pass the rankings first."),
    ({"q1": {"a": 1, "b": 0, "c": 0}}, {"q1": {"a": 3.0, "b": 2.0}}, "convert the scores to floats"),
    (JUDGMENTS, {"bm25": BM25}, "`judgments` holds several runs; pass the rankings first"),
    (BM25, {"q1": {None: 1}}, "`judgments` has the document None"),
]  # fmt: skip


def test_dictionaries_that_do_not_fit() -> None:
    def check(rankings: Any, judgments: Any, message: str) -> None:
        with pytest.raises(pr.errors.ArgumentError, match=re.escape(message)):
            pr.from_dicts(rankings, judgments)

    check_each(check, WRONG)
