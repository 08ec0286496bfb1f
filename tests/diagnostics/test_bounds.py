"""`tie_bands` and `judgment_bounds` against what `evaluate` says of each case by itself."""

from __future__ import annotations

import itertools
import random

import oracles
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from oracles import Doc

# Which metrics have a reverse order of ties.
from polars_rank.metrics.expectations import has_reverse
from strategies import (
    Lists,
    assert_close,
    every_metric,
    in_rank_order,
    log_of,
    logs,
    random_lists,
    shuffled,
)

METRICS = ["ndcg@3", "p@2", "recall@3", "ap", "rr", "err@3", "bpref", "rbp"]
KNOWN = [name for name in METRICS if name != "bpref"]
LISTS = random_lists(3)


def grouped(lists: Lists) -> pl.DataFrame:
    """The log with a group that is null for some lists."""
    group = pl.col("query").cast(pl.Int64).mod(3)
    return log_of(lists).with_columns(group=pl.when(group > 0).then(group))


def column(result: pl.DataFrame, name: str, metrics: list[str] = METRICS) -> pl.DataFrame:
    """One column of the bounds in the shape of `evaluate`."""
    wide = [
        result.filter(pl.col("metric") == metric).select(pl.col(name).alias(metric))
        for metric in metrics
    ]
    return pl.concat(wide, how="horizontal")


@pytest.mark.filterwarnings("ignore:metric .* is undefined:polars_rank.errors.RankWarning")
@given(lists=logs())
def test_bands_are_those_of_evaluate(lists: Lists) -> None:
    log = grouped(lists)
    bands = pr.diagnostics.tie_bands(log, METRICS, by="group")
    for name, ties, metrics in (
        ("high", "best", METRICS), ("expected", "expected", KNOWN), ("low", "worst", METRICS),
    ):  # fmt: skip
        means = pr.evaluate(log, metrics, by="group", ties=ties)
        assert_close(column(bands, name, metrics), means.select(metrics))
        assert bands["group"].unique(maintain_order=True).to_list() == means["group"].to_list()
    assert (bands["high"] >= bands["low"]).all()
    assert bands.filter(metric="bpref")["expected"].is_null().all()


def test_bands_of_every_metric() -> None:
    """Two scores tie most documents; tied documents are sorted once, in the worst order."""
    log = log_of(random_lists(5, scores=(1.0, 2.0, None)))
    metrics = [metric for metric in every_metric() if has_reverse(metric)]
    assert len(metrics) > 50
    bands = pr.diagnostics.tie_bands(log, metrics)
    ends = pl.concat(
        pr.evaluate(log, metrics, ties=ties).drop("queries") for ties in ("best", "worst")
    )
    names = list(map(str, metrics))
    assert_close(column(bands, "low", names), ends.min())
    assert_close(column(bands, "high", names), ends.max())


def test_metrics_that_read_documents() -> None:
    metrics = [
        pr.metrics.popularity(1),
        pl.col("label").filter(pl.col("rank") <= 2).sum().alias("own"),
    ]
    log = log_of(LISTS)
    bands = pr.diagnostics.tie_bands(log, metrics)
    for name, ties in (("high", "best"), ("low", "worst")):
        means = pr.evaluate(log, metrics, ties=ties).drop("queries")
        assert_close(column(bands, name, means.columns), means)


def test_shares_of_ties() -> None:
    # Four of six retrieved documents in one of three lists; two nulls are not tied.
    scores = {1: (2.0, 2.0, 1.0, 1.0, None, None), 2: (1.0, 2.0), 3: (None,)}
    lists = {q: [Doc(i, s, 1) for i, s in enumerate(found)] for q, found in scores.items()}
    bands = pr.diagnostics.tie_bands(log_of(lists), "p@1")
    assert bands.row(0)[-2:] == pytest.approx((1 / 3, 4 / 6))
    nothing = pr.diagnostics.tie_bands(log_of({1: lists[3]}), "p@1")
    assert nothing.row(0)[-2:] == (0, None)


def test_bands_follow_the_conventions() -> None:
    log = log_of(LISTS)
    options = {"rel": 2, "undefined": "skip", "query_set": "judged", "unjudged": "removed"}
    bands = pr.diagnostics.tie_bands(log, METRICS, **options)
    means = pr.evaluate(log, METRICS, ties="worst", **options)
    assert_close(column(bands, "low"), means.select(METRICS))
    hits = pr.Conventions(parameters={"average_precision.norm": "hits"})
    assert pr.diagnostics.tie_bands(log, "ap@3", conventions=hits)["expected"].to_list() == [None]
    assert pr.diagnostics.tie_bands(log, "ap@3")["expected"].null_count() == 0


def test_judged_is_that_of_evaluate() -> None:
    log = grouped(LISTS)
    bounds = pr.diagnostics.judgment_bounds(log, KNOWN, by="group", rel=2)
    assert all(bounds["high"] >= bounds["low"])
    ks = (3, 2, 3, None, None, 3, None)
    cutoffs = [pr.judged(k).alias(name) for name, k in zip(KNOWN, ks, strict=True)]
    judged = pr.evaluate(log, cutoffs, by="group", rel=2)
    assert_close(column(bounds, "judged", KNOWN), judged.select(KNOWN))


def test_worked_example() -> None:
    # Unjudged at rank 1 and 3: recall is lowest if only rank 3 is relevant, AP if neither is.
    log = pl.DataFrame({"query": 1, "score": [4, 3, 2, 1], "label": [None, 1, None, 0]})
    bounds = pr.diagnostics.judgment_bounds(log, ["p@2", "recall@2", "ap", "rbp(p=0.5)"])
    assert bounds["low"].to_list() == pytest.approx([1 / 2, 1 / 2, (1 / 2) / 1, 0.5 * 0.5])
    assert bounds["high"].to_list() == pytest.approx([2 / 2, 1, 1, 0.5 * (1 + 0.5 + 0.25)])
    assert bounds["judged"].to_list() == pytest.approx([1 / 2, 1 / 2, 2 / 4, 2 / 4])


def test_grades() -> None:
    table = pl.DataFrame({"query": 1, "score": [2, 1]})
    for dtype, grade in itertools.product(
        (pl.Int8, pl.Float32, pl.Boolean, pl.Null), (None, 3, 2.5)
    ):
        log = table.with_columns(label=pl.lit(None, dtype))
        bounds = pr.diagnostics.judgment_bounds(log, "cg@1", grade=grade)
        assert bounds.select("low", "high").row(0) == (0, grade or 1), (dtype, grade)


def test_fractional_labels_of_unjudged_documents() -> None:
    log = pl.DataFrame({"query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": [None, 1]})
    log = log.cast({"label": pl.Int8})
    bounds = pr.diagnostics.judgment_bounds(log, "p@1", conventions="catboost")
    assert bounds.select("low", "high").row(0) == (0, 1)
    bounds = pr.diagnostics.judgment_bounds(log, "dcg(gain='exp2')@1", grade=1.5)
    assert bounds.select("low", "high").row(0) == (0, pytest.approx(2**1.5 - 1))
    # The label of unjudged documents is not rounded to 32 bits, as judged ones are.
    rounded = log.with_columns(label=pl.lit(0.7, pl.Float32))
    rounded = rounded.with_columns(pl.when(pl.col("doc") == 2).then("label"))
    bounds = pr.diagnostics.judgment_bounds(rounded, ["p@1", "p@2"], rel=0.7)
    assert bounds["high"].to_list() == [1, 1 / 2]


def test_unjudged_documents_have_the_lowest_relevant_label_of_the_metric() -> None:
    log = pl.DataFrame({"query": 1, "score": [2, 1], "label": [None, 2]})
    metrics = ["p(rel=2)@1", "p@1", "cg@1", "num_rel_ret(rel=0)", "num_rel_ret(rel=-1)"]
    bounds = pr.diagnostics.judgment_bounds(log, metrics)
    assert bounds["high"].to_list() == [1, 1, 1, 2, 2]
    own = pr.Conventions(parameters={"precision.rel": 2})
    bounds = pr.diagnostics.judgment_bounds(log, "p@1", conventions=own)
    assert bounds["high"].item() == 1


def test_labels_that_a_gain_rejects() -> None:
    log = pl.DataFrame({"query": 1, "score": [2, 1], "label": [None, 0]})
    for metric, grade, message in (
        ("dcg(gain='exp2')", 60, "label 60.0 .*`grade`.* is above 50"),
        ("dcg(gain={0: 0, 1: 1})", 2, "label 2.0 .*`grade`.* is not in the gain mapping"),
        ("dcg(gain={0: 0, 2: 1})", None, "label 1 .*`grade`.* is not in the gain mapping"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.diagnostics.judgment_bounds(log, metric, grade=grade)


def test_small_labels_break_ties() -> None:
    log = pl.DataFrame(
        {"query": 1, "doc": [1, 2, 3], "score": [2.0, 1.0, 1.0], "label": [None, 0, 1]},
        {"query": pl.Int64, "doc": pl.Int64, "score": pl.Float64, "label": pl.Int8},
    )
    bounds = pr.diagnostics.judgment_bounds(log, "rr", ties="worst")
    assert bounds.select("low", "high").row(0) == (1 / 3, 1)


@pytest.mark.parametrize("function", [pr.diagnostics.tie_bands, pr.diagnostics.judgment_bounds])
def test_kinds_and_engines(function: object) -> None:
    log = grouped(LISTS)
    eager = function(log, KNOWN, by="group")
    names = {"query": "q", "doc": "d", "score": "s", "label": "y"}
    renamed = log.rename(names)
    assert_close(function(renamed, KNOWN, by="group", **names), eager)
    lazy = function(log.lazy(), KNOWN, by="group")
    assert isinstance(lazy, pl.LazyFrame)
    assert_close(lazy.collect(engine="in-memory"), eager)
    assert_close(lazy.collect(engine="streaming"), eager)
    assert_close(function(shuffled(log), KNOWN, by="group"), eager)
    assert function(log.to_arrow(), KNOWN, by="group").equals(eager)
    plan = lazy.show_graph(plan_stage="physical", engine="streaming", raw_output=True)
    assert "in-memory-map" not in plan
    assert eager["metric"].to_list()[: len(KNOWN)] == KNOWN
    empty = function(log.clear(), KNOWN)
    assert empty["metric"].to_list() == KNOWN
    assert function(log.clear(), KNOWN, by="group").height == 0


def test_weights_of_queries() -> None:
    log = grouped(LISTS).with_columns(w=pl.col("query").cast(pl.Float64) % 4)
    means = pr.evaluate(log, METRICS, by="group", weight="w", ties="worst")
    bands = pr.diagnostics.tie_bands(log, METRICS, by="group", weight="w")
    assert_close(column(bands, "low"), means.select(METRICS))
    # Shares are weighted, too: one of two lists is tied, and weighs three times as much.
    two = pl.DataFrame({"query": [1, 1, 2], "score": [1, 1, 1], "label": 1, "w": [3, 3, 1]})
    shares = pr.diagnostics.tie_bands(two, "rr", weight="w").select(
        "tied_rankings", "tied_documents"
    )
    assert shares.row(0) == (0.75, 6 / 7)
    for function in (pr.diagnostics.tie_bands, pr.diagnostics.judgment_bounds):
        with pytest.raises(pr.errors.DataError, match="'w' .*weight.* must have finite numbers"):
            function(two.with_columns(w=-pl.col("w")), "rr", weight="w")


def test_refused() -> None:
    log, argument = grouped(LISTS).with_columns(metric=1), pr.errors.ArgumentError
    bands, bounds = pr.diagnostics.tie_bands, pr.diagnostics.judgment_bounds
    for function, options, error, message in (
        (bands, {"ties": "best"}, argument, "`ties` is not supported"),
        (bounds, {"unjudged": "removed"}, argument, "`unjudged` is not supported"),
        (bounds, {"grade": True}, argument, "`grade` must be a number"),
        (bounds, {"grade": "high"}, argument, "`grade` must be a number"),
        (bounds, {"grade": float("nan")}, argument, "`grade` must be a number"),
        (bands, {"by": "metric"}, argument, "'metric' .`by`. has the name of a result column"),
        (bounds, {"label": "labels"}, pr.errors.SchemaError, "'labels'"),
    ):
        with pytest.raises(error, match=message):
            function(log, "rr", **options)
