"""Values by labels of people and by predicted labels: the shares of judged documents, and errors."""

from __future__ import annotations

import warnings
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.conventions import POLARS_RANK, read_metrics
from polars_rank.judges.both_labels import BothLabels

COLUMNS: dict[str, Any] = {"label": "human", "predicted_label": "llm"}


def log() -> pl.DataFrame:
    """Return two runs of 4 queries with 3 documents; people judged query 1, and query 2 in part."""
    rows = [
        (run, query, doc, float(-doc), doc % 2 if query == 1 or (query == 2 and doc < 2) else None)
        for run in "ab"
        for query in (1, 2, 3, 4)
        for doc in (1, 2, 3)
    ]
    frame = pl.DataFrame(rows, ["run", "query", "doc", "score", "human"], orient="row")
    return frame.with_columns(llm=pl.lit(1))


def checked(frame: pl.DataFrame, metrics: Any, **options: Any) -> list[pl.DataFrame]:
    """Return the values by labels of people and predicted labels, after the check."""
    parsed = read_metrics(metrics)
    both = BothLabels.of(
        frame.schema, parsed, POLARS_RANK, **{**COLUMNS, **options.pop("names", {})}
    )
    values = both.per_query(frame.lazy(), by="run", **options)
    both.check(values, ["query"])
    return [each.collect() for each in both.split(values)]


def test_values_are_those_of_labels() -> None:
    frame = log().with_columns(human=pl.when(pl.col("query") < 3).then(pl.col("doc") % 2))
    of_judges = pr.per_query(frame, ["ap", "p@2"], by="run", label=["human", "llm"])
    for values, judge in zip(checked(frame, ["ap", "p@2"]), ("human", "llm"), strict=True):
        assert_frame_equal(values, of_judges.filter(judge=judge).drop("judge"))


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        # Of two queries, one is complete, and one has 1 of 2 and 1 of 3 documents.
        ("p@2", "75.0% for p@2 (judged@2, with unjudged documents in 1 of 2 queries)"),
        ("ap", "66.6% for ap (judged, with unjudged documents in 1 of 2 queries)"),
        (["p@2", "ndcg@2"], "75.0% for p@2, ndcg@2 (judged@2, "),
        # Rankings are shorter than the cutoff; the share is of their documents.
        ("ndcg@10", "66.6% for ndcg@10 (judged@10, "),
        (["rr", (pr.precision(1) + pr.precision(2)).alias("x")], "; 75.0% for x (judged@2, "),
        (["ap", "bpref"], "66.6% for ap (judged, "),
        (pl.col("label").max().alias("x"), "66.6% for x (judged, "),
    ],
)
def test_shares_of_judged_documents(metrics: Any, text: str) -> None:
    with pytest.warns(pr.errors.RankWarning, match="people judged only some") as messages:
        checked(log(), metrics)
    assert [text in str(each.message) for each in messages] == [True]


@pytest.mark.parametrize(
    "metrics",
    ["p@1", "bpref", "judged@3", ["rr@1", "ndcg@1"], (pl.col("score").count() / 3).alias("share")],
)
def test_complete_judgments_and_metrics_that_do_not_need_them(metrics: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked(log(), metrics)


def test_unjudged_documents_that_are_removed_are_not_read() -> None:
    human, _ = checked(log(), "ap", unjudged="removed")
    assert human.height == 4


@pytest.mark.parametrize(
    ("changes", "names", "error", "match"),
    [
        ({"human": None}, {}, "DataError", "'human' .`label`. has no labels, .* of 4 queries"),
        ({"llm": None}, {}, "DataError", "'llm' .`predicted_label`. has no labels, .* of 2 queries"),
        (
            {"llm": pl.when(pl.col("query") != 2).then("llm")}, {}, "DataError",
            r"'llm' .`predicted_label`. has no labels of 1 of 2 queries .* \{'query': 2\}",
        ),
        ({}, {"label": "people"}, "SchemaError", "column 'people' .`label`. not found"),
        ({}, {"predicted_label": "x"}, "SchemaError", "column 'x' .`predicted_label`. not found"),
        ({}, {"predicted_label": "run"}, "SchemaError", "'run' .`predicted_label`. must be numeric"),
        ({}, {"predicted_label": "human"}, "ArgumentError", "both `label` and `predicted_label`"),
        ({"judge": 1}, {}, "SchemaError", "the log has a column 'judge'"),
    ],
)  # fmt: skip
def test_labels_that_are_missing(
    changes: dict[str, Any], names: dict[str, str], error: str, match: str
) -> None:
    values = {
        name: pl.lit(each, pl.Int64) if each is None or isinstance(each, int) else each
        for name, each in changes.items()
    }
    with pytest.raises(getattr(pr.errors, error), match=match):
        checked(log().with_columns(**values), "p@1", names=names)


def test_a_query_set_with_queries_that_nobody_judged() -> None:
    with pytest.warns(pr.errors.RankWarning, match="in 3 of 4 queries"):
        checked(log(), "ap", query_set="all")
    nothing = log().with_columns(human=pl.lit(None, pl.Int64))
    with pytest.raises(pr.errors.DataError, match="'human' .`label`. has no labels"):
        checked(nothing, "ap", query_set="all")


def test_metrics_must_be_means() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="'num_rel' is a sum; name other metrics"):
        checked(log(), "num_rel")
