"""The ranked table follows the same definitions as an evaluation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import holding_nodes
from polars.testing import assert_frame_equal

# The columns that `rank` adds.
from polars_rank.columns import RANKED
from polars_rank.conventions import DUPLICATES, PRESETS, named
from strategies import (
    ATTRIBUTES_SCHEMA,
    Lists,
    assert_close,
    every_metric,
    logs,
    more_examples,
    random_lists,
)
from strategies import log_of as log_with_seen

#: Presets that order tied documents in one way.
CONVENTIONS = ["polars_rank", *(each.name for each in PRESETS if each.ties != "expected")]
TIES = (None, "doc", "doc_ascending", "best", "worst", "input")
#: Expressions that read columns of all rows of a ranking.
OWN = [
    pl.len().alias("rows"),
    pl.col("doc").count().alias("ids"),
    pl.col("dwell").count().alias("dwells"),
    pl.col("score").max().alias("highest"),
    pl.col("hits").max().alias("last hits"),
    pl.col("ideal_rank").max().alias("last ideal rank"),
]


def log_of(lists: Lists) -> pl.DataFrame:
    return log_with_seen(lists).drop("seen")


def repeated(log: pl.DataFrame) -> pl.DataFrame:
    """Return a log in which some documents occur twice, with other scores."""
    again = log.filter(pl.col("doc") % 3 == 0)
    return pl.concat([log, again.with_columns(score=1 - pl.col("score"))])


def assert_consistent(log: pl.DataFrame, metrics: list[Any], **options: Any) -> None:
    """Compare metrics of rankings with metrics as expressions over the ranked table."""
    conventions = named(options["conventions"]).but(ties=options.get("ties"))
    options["conventions"] = conventions
    general = replace(conventions, exceptions={})
    metrics = [metric for metric in metrics if conventions.of(metric) == general]
    expressions = [
        general.apply(each).alias(each.output_name) if isinstance(each, pr.Metric) else each
        for each in metrics
    ]
    keys = ["run", "query"] if "score" in options else ["query"]
    expected = pr.per_query(log, metrics, query_set="all", undefined="null", **options)
    actual = pr.rank(log, **options).group_by(keys).agg(expressions).sort(keys)
    assert_close(actual, expected.select(actual.columns))


@more_examples
@given(
    lists=logs(),
    ties=st.sampled_from(TIES),
    duplicates=st.sampled_from(DUPLICATES),
    conventions=st.sampled_from(CONVENTIONS),
    unjudged=st.sampled_from([None, "removed"]),
)
def test_expressions_over_the_ranked_table(lists: Lists, duplicates: str, **options: Any) -> None:
    log = log_of(lists) if duplicates == "error" else repeated(log_of(lists))
    metrics = [pr.metric(name) for name in ("ndcg@3", "ap", "rr", "p@5", "bpref", "roc_auc")]
    assert_consistent(log, [*metrics, *OWN], duplicates=duplicates, **options)


@pytest.mark.parametrize(
    ("conventions", "unjudged"),
    [("polars_rank", "nonrelevant"), ("trec_eval 9", "removed"), ("LensKit", "removed")],
)
def test_every_metric_is_an_expression_over_the_ranked_table(
    conventions: str, unjudged: str
) -> None:
    log = log_with_seen(random_lists(seed=21))
    assert_consistent(
        repeated(log), every_metric(3), conventions=conventions, unjudged=unjudged, duplicates="max"
    )


def test_removed_documents_are_not_retrieved() -> None:
    log = pl.DataFrame({
        "query": [1, 1, 2], "doc": [*"bca"], "score": [2.0, 1.0, 1.0],
        "label": [None, 2, None], "text": [*"xyz"],
    })  # fmt: skip
    ranked = pr.rank(log, unjudged="removed")
    assert ranked.columns == [*log.columns, *RANKED]
    assert ranked.rows() == [
        (1, "b", None, None, "x", None, None, False, None),
        (1, "c", 1.0, 2, "y", 1, 1, True, 1),
        (2, "a", None, None, "z", None, None, False, None),
    ]
    assert pr.rank(log.lazy(), unjudged="removed").collect_schema() == ranked.schema


def test_scores_are_those_that_rank() -> None:
    log = pl.DataFrame({"query": 1, "score": [0.1, 0.1 + 1e-12], "x": [1, 2], "label": [0, 1]})
    single = pr.rank(log, conventions="trec_eval 9", ties="worst")
    assert single.schema["score"] == pl.Float32
    assert single["rank"].to_list() == [1, 2]
    assert pr.rank(log)["rank"].to_list() == [2, 1]
    with pytest.raises(pr.errors.SchemaError, match="the frame also has a column 'score'"):
        pr.rank(log, score="x")


def test_a_mean_over_orders_is_not_an_order() -> None:
    log = log_of(random_lists(seed=23))
    for options in ({"ties": "expected"}, {"conventions": "scikit-learn"}):
        with pytest.raises(pr.errors.ArgumentError, match="is a mean over many orders"):
            pr.rank(log, **options)


def test_definitions_keep_batches(tmp_path: Path) -> None:
    log = log_of(random_lists(seed=25))
    log.write_parquet(tmp_path / "log.parquet")
    for options in ({}, {"duplicates": "max"}, {"conventions": "trec_eval 9"}):
        plan = pr.rank(pr.scan_log(tmp_path / "log.parquet"), unjudged="removed", **options)
        assert not holding_nodes(plan)
        expected = pr.rank(log, unjudged="removed", **options)
        actual = plan.collect(engine="streaming").select(expected.columns)
        assert_frame_equal(actual, expected)
        assert not holding_nodes(pr.per_query(plan.drop(RANKED), "num_ret"))
