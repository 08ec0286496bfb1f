"""Warnings about values that do not measure rankings, and none where they do."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes

LOG = pl.LazyFrame(
    {"query": [1, 1, 2, 2], "doc": [1, 2, 1, 2], "score": [1.0, 2.0, 2.0, 1.0], "label": [0, 1] * 2}
)
CONSTANT = LOG.with_columns(score=pl.lit(1.0))


@pytest.fixture(params=["in-memory", "streaming"])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_ids_decide_about_a_constant_ranker(engine: Any, tmp_path: Path) -> None:
    with pytest.warns(pr.errors.RankWarning, match=r"same score.*ties='expected'.*'queries': 2"):
        found = pr.evaluate(CONSTANT, "rr").collect(engine=engine)
    assert found["rr"].item() == 1  # the relevant document has the highest id
    assert pr.evaluate(CONSTANT, "rr", ties="expected").collect()["rr"].item() == (1 + 1 / 2) / 2
    other = LOG.with_columns(run=pl.lit("a"))
    runs = pl.concat([other, CONSTANT.with_columns(run=pl.lit("b"))])
    with pytest.warns(pr.errors.RankWarning, match="same score.*'run': 'b'"):
        pr.evaluate(runs, ["rr", "ndcg"], by="run").collect(engine=engine)
    LOG.sink_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    for metrics in (["rr", "ndcg"], ["rr", "roc_auc"]):
        assert not holding_nodes(pr.evaluate(scanned, metrics))


def test_logs_that_need_no_warning() -> None:
    nothing = LOG.with_columns(label=pl.lit(0))
    defined = ["dcg", "p@1", "num_rel", "judged@2", pl.col("label").sum().alias("sum")]
    for log, metrics, options in (
        (CONSTANT, "rr", {"ties": "input"}),
        (CONSTANT, "rr", {"ties": "worst"}),
        (CONSTANT.drop("doc"), "rr", {}),
        (CONSTANT, ["set_precision", "roc_auc", "num_ret"], {}),  # of any order
        (CONSTANT.filter(pl.col("doc") == 2), "rr", {}),
        (pl.concat([LOG, CONSTANT.with_columns(pl.col("query") + 2)]), "rr", {}),
        # The ranker is constant in one country only.
        (LOG.with_columns(pl.col("score").clip(1, "query"), x="query"), "rr", {"by": "x"}),
        (nothing, defined, {}),  # without a relevant document
        (FRACTIONS, "mrr", {"rel": 0.5}),
        (FRACTIONS, ["ndcg", "dcg", "recall(rel=0.5)"], {}),
        (FRACTIONS.with_columns(label=pl.Series([0.0, 1.0])), "mrr", {}),
        (FRACTIONS.with_columns(label=pl.Series([1.5, 1.0])), "mrr", {}),
        (FRACTIONS.with_columns(label=pl.Series([1, 2])), "mrr", {}),
    ):
        for engine in ("in-memory", "streaming"):
            pr.evaluate(log, metrics, **options).collect(engine=engine)


def test_logs_without_a_relevant_label(engine: Any) -> None:
    for metric, highest, options, value in (
        ("ndcg", 0, {}, 0),
        ("ndcg@5", 0, {"conventions": "lightgbm"}, 1),
        ("recall@2", 1, {"rel": 2}, 0),
        ("rr", 0, {"weight": "traffic"}, 0),
    ):
        log = LOG.with_columns(pl.col("label").clip(0, highest), run=pl.lit("b"), traffic=2)
        match = f"metric '{metric}' is undefined for all rankings: .*'label'.*`rel`"
        with pytest.warns(pr.errors.RankWarning, match=match):
            found = pr.evaluate(log, metric, by="run", **options).collect(engine=engine)
        assert found[metric].item() == value
        other = log.with_columns(label=2 * LOG.collect()["label"], run=pl.lit("a"))
        pr.evaluate(pl.concat([log, other]), metric, by="run", **options).collect(engine=engine)
        # There is no value without a relevant document.
        pr.evaluate(log, metric, undefined="skip", **options).collect(engine=engine)


def test_auc_of_the_top_documents(engine: Any) -> None:
    # Of the relevant documents with the scores 3 and 0, only the first is in the top 2.
    scores = {"query": 1, "doc": [1, 2, 3], "score": [3.0, 2.0, 0.0], "label": [1, 0, 1]}
    every = pl.LazyFrame(scores)
    top = every.with_columns(pl.when(pl.col("score") > 1).then("score"))
    assert pr.evaluate(every, "roc_auc").collect()["roc_auc"].item() == 1 / 2
    functions: list[Any] = [
        lambda log: pr.evaluate(log, "roc_auc"),
        lambda log: pr.per_query(log, ["ndcg", "partial_auc(max_fpr=0.5)"]),
        lambda log: pr.evaluate(log, "pr_auc(rel=1)"),
        pr.grouped_auc,
    ]
    for function in functions:
        with pytest.warns(pr.errors.RankWarning, match="auc.* compares retrieved documents only"):
            function(top).collect(engine=engine)
    # Documents that are not relevant, or not judged, need no score.
    for log in (every, top.with_columns(label=pl.when(pl.col("doc") < 3).then("label"))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pr.evaluate(log, "roc_auc").collect(engine=engine)


#: One document for each query, of which the first has a label just below 1.
FRACTIONS = pl.LazyFrame({"query": [1, 2], "doc": 1, "score": 1.0, "label": [0.9, 1.0]})


def test_fractions_below_the_lowest_relevant_label(engine: Any) -> None:
    message = "label.* has fractions.*pass the lowest relevant label as `rel`.*{'query': 1}"
    for metrics in ("mrr", ["ndcg", "p@1"], ["recall", "roc_auc"]):
        for function in (pr.evaluate, pr.per_query):
            with pytest.warns(pr.errors.RankWarning, match=message):
                function(FRACTIONS, metrics).collect(engine=engine)
