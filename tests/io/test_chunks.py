"""`collapse`, compared with values by hand and with Python."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import fmean

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal
from rows import check_each
from strategies import assert_close, log_of, random_lists, shuffled

LOG = pl.DataFrame({
    "query": ["a", "a", "a", "a", "b"], "document": ["x", "y", "x", "z", "b"], "chunk": range(5),
    "score": [1, 3, 2, None, 5], "label": [2, None, 1, 1, 1],
})  # fmt: skip

RULES = {"max": max, "first": lambda values: values[0], "sum": sum, "mean": fmean}


def test_by_hand() -> None:
    found = pr.collapse(LOG, doc="document")
    assert found.columns == ["query", "document", "score", "label", "chunks"]
    assert found.rows() == [
        ("a", "y", 3, None, 1),
        ("a", "x", 2, 2, 2),
        ("a", "z", None, 1, 0),
        ("b", "b", 5, 1, 1),
    ]
    unlabelled = pr.collapse(LOG.drop("label"), doc="document", how="first")
    assert unlabelled.rows()[:2] == [("a", "y", 3, 1), ("a", "x", 1, 2)]


@pytest.mark.parametrize(
    ("engine", "how", "label_how"),
    [("in-memory", "max", "mean"), ("streaming", "first", "sum"), ("streaming", "sum", "first"),
     ("streaming", "mean", "max")],
)  # fmt: skip
def test_against_plain_python(engine: str, how: str, label_how: str) -> None:
    log = log_of(random_lists(seed=5)).with_columns(document=pl.col("doc") % 4)
    found = pr.collapse(log.lazy(), doc="document", how=how, label_how=label_how)
    scores, labels = defaultdict(list), defaultdict(list)
    for row in log.to_dicts():
        key = (row["query"], row["document"])
        scores[key] += [] if row["score"] is None else [row["score"]]
        labels[key] += [] if row["label"] is None else [row["label"]]
    truth = [
        (
            *key,
            RULES[how](scores[key]) if scores[key] else None,
            RULES[label_how](labels[key]) if labels[key] else None,
            len(scores[key]),
        )
        for key in scores
    ]
    truth.sort(key=lambda row: (row[0], row[2] is None, -(row[2] or 0), -row[1]))
    expected = pl.DataFrame(truth, found.collect_schema(), orient="row")
    assert_close(found.collect(engine=engine), expected)


def test_groups_and_layouts() -> None:
    log = log_of(random_lists(seed=6)).with_columns(run=pl.col("query") % 2, doc=pl.col("doc") % 3)
    found = pr.collapse(log, doc="doc", by="run")
    assert_frame_equal(pr.collapse(shuffled(log), doc="doc", by="run"), found)
    with pytest.raises(pr.errors.DataError, match="pr.collapse"):
        pr.evaluate(log.drop("run"), "rr")
    best = pr.evaluate(log.with_columns(label=0), "num_ret", duplicates="max", by="run")
    assert_close(pr.evaluate(found.with_columns(label=0), "num_ret", by="run"), best)


@pytest.mark.parametrize("layout", ["sorted", "adjacent"])
def test_logs_in_order_are_collapsed_in_batches(tmp_path: Path, layout: str) -> None:
    log = log_of(random_lists(seed=7)).with_columns(doc=pl.col("doc") % 4)
    log = log.sort(pl.col("query") * 7 % 60 if layout == "adjacent" else "query")
    log.write_parquet(tmp_path / "log.parquet")
    scan = pr.scan_log(tmp_path / "log.parquet")
    plan = pr.collapse(scan, doc="doc", how="first", exclude_self=True)
    assert not holding_nodes(plan)
    with pl.Config(streaming_chunk_size=50):
        found = plan.collect(engine="streaming")
    expected = pr.collapse(log, doc="doc", how="first", exclude_self=True)
    assert_close(found.sort("query", maintain_order=True), expected)
    assert (
        found["query"].unique(maintain_order=True).equals(log["query"].unique(maintain_order=True))
    )


def test_documents_of_the_query_itself_are_excluded() -> None:
    log = pl.DataFrame({"query": [1, 1, 1, 2], "doc": [1, 3, 1, 2], "score": [3.0, 1.0, 2.0, 1.0]})
    found = pr.collapse(log, doc="doc", exclude_self=True)
    # A query without another document keeps a row.
    assert found.rows() == [(1, 3, 1.0, 1), (2, None, None, 0)]
    labelled = found.with_columns(label=pl.when(pl.col("doc").is_not_null()).then(1))
    assert pr.evaluate(labelled, "num_ret").row(0) == (2, 1)
    with pytest.raises(pr.errors.SchemaError, match="`exclude_self` compares column 'query'"):
        pr.collapse(log.cast({"doc": pl.String}), doc="doc", exclude_self=True)
    with pytest.raises(pr.errors.ArgumentError, match="`exclude_self` compares documents with one"):
        pr.collapse(log.with_columns(day=1), doc="doc", query=["query", "day"], exclude_self=True)


#: A table, options, and what is wrong.
WRONG: list[tuple[pl.DataFrame, dict[str, str], str]] = [
    (LOG.with_columns(pl.col("document").replace("b", None)), {},
     "1 of 5 rows: column 'document' .`doc`. has nulls"),
    (LOG.with_columns(score=float("nan")), {}, "NaN"),
    (LOG, {"how": "min"}, "`how` must be one of"),
    (LOG.with_columns(chunks="document"), {"doc": "chunks"}, "'chunks' .`doc`. has the name of a"),
    (LOG, {"label": "grade"}, "'grade' .`label`. not found"),
]  # fmt: skip


def test_invalid_input() -> None:
    def check(log: pl.DataFrame, options: dict[str, str], message: str) -> None:
        with pytest.raises(pr.errors.RankError, match=message):
            pr.collapse(log, **{"doc": "document", **options})

    check_each(check, WRONG)
