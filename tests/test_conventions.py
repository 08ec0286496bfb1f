"""Presets and exceptions: one call applies different rules to different metrics."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest

# The registry of metrics, to test each of them.
from polars_rank.metrics.metric import REGISTER
from polars_rank.conventions import PRESETS
from strategies import assert_close, log_of, random_lists

LOG = log_of(random_lists(seed=40))
METRICS = ["ndcg@5", "rr", "rr@3", "ap", "judged@3"]


@pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers of queries")
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_exceptions(engine: str) -> None:
    exceptions = {
        "reciprocal_rank": {"ties": "best"},
        "reciprocal_rank@k": {"ties": "worst", "rel": 2},
        "judged": {"unjudged": "removed"},
    }
    rules = [{}, {"ties": "best"}, {"ties": "worst", "rel": 2}, {}, {"unjudged": "removed"}]
    for queries in ("all", "both"):
        agreed = pr.Conventions(query_set=queries, exceptions=exceptions)
        found = pr.per_query(LOG.lazy(), METRICS, conventions=agreed).collect(engine=engine)
        assert found.columns == ["query", *METRICS]
        for metric, rule in zip(METRICS, rules, strict=True):
            alone = pr.per_query(LOG, metric, query_set=queries, **rule)
            assert_close(found.select("query", metric), alone)
        log = LOG.with_columns(run=pl.col("query") % 2)
        by = pr.evaluate(log, METRICS, conventions=agreed, by="run")
        assert by.columns[0] == "run" and by.height == 2


def test_what_the_call_says_holds_for_all() -> None:
    asked = {"ties": "best", "rel": 2}
    everywhere = pr.conventions.IR_MEASURES.but(**asked)
    assert all(everywhere.of(pr.metric(metric)).ties == "best" for metric in METRICS)
    exceptions = {"reciprocal_rank": {"ties": "worst", "rel": 3}}
    agreed = pr.Conventions(exceptions=exceptions)
    assert_close(
        pr.per_query(LOG, METRICS, conventions=agreed, **asked), pr.per_query(LOG, METRICS, **asked)
    )


def test_gain_from() -> None:
    log = LOG.with_columns(pl.col("label") - 2)
    agreed = pr.Conventions(gain_from=0)
    clipped = log.with_columns(pl.col("label").clip(0))
    for metric in ("ndcg@3", "ndcg(gain='exp2')", "dcg", "cg", "rndcg", "g_measure", "ndcg_rel"):
        assert_close(pr.per_query(log, metric, conventions=agreed), pr.per_query(clipped, metric))


def test_counts() -> None:
    metrics = ["num_ret", "num_rel_ret@2", "gm_map", "ap"]
    sums = pr.evaluate(LOG, metrics)
    averaged = pr.Conventions(counts="mean")
    means = pr.evaluate(LOG, metrics, conventions=averaged)
    per_query = pl.col("num_ret", "num_rel_ret@2") / pl.col("queries")
    assert_close(means, sums.with_columns(per_query))
    weighted = pr.evaluate(LOG.with_columns(w=2), metrics, conventions=averaged, weight="w")
    assert_close(weighted, means)
    values = pr.per_query(LOG, ["num_ret", "num_rel_ret@2", "ap"])
    assert sums["num_ret"].item() == values["num_ret"].sum()
    found = pr.summarize(values, values.columns[1:])["mean"].to_list()
    assert found == pytest.approx(means.select(values.columns[1:]).row(0))
    assert pr.evaluate(LOG, "num_q")["num_q"].item() == LOG["query"].n_unique()
    assert "aggregation: mean over queries" in pr.explain("num_ret", averaged)
    why = pr.explain_difference(LOG, "num_ret", pr.conventions.POLARS_RANK, averaged)
    expected = ("counts", "sum", "mean", means["num_ret"].item())
    assert why.select("choice", "a", "b", "mean").row(0) == expected


def test_invalid_conventions() -> None:
    for options, message in (
        *(({"rel": rel}, "`rel` must be") for rel in ("top", True, float("nan"))),
        ({"exceptions": {"ndcg": {"tie": "best"}}}, "invalid choice 'tie'.*Did you mean 'ties'"),
        ({"exceptions": {"ndcg": {"ties": "random"}}}, "`ties` must be one of"),
        ({"exceptions": {"ndcg": {"queries": "both"}}}, "invalid choice 'queries'"),
        ({"exceptions": {"num_retrieved": {"counts": "mean"}}}, "invalid choice 'counts'"),
        ({"counts": "max"}, "`counts` must be one of 'sum', 'mean'"),
        *(({"parameters": {key: None}}, rf"parameter '{key}' \(`param") for key in (None, 1)),
    ):  # fmt: skip
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.Conventions(**options)
    for key in (None, 1):
        with pytest.raises(pr.errors.ArgumentError, match=f"keys of `undefined` .*; found {key}"):
            pr.evaluate(LOG, "ndcg", conventions=pr.Conventions(undefined={key: "zero"}))


def test_grades_of_gains_may_be_digits() -> None:
    gain = {"-1": 0, "0": 0, "1": 1, "2": 3}
    conventions = pr.Conventions(parameters={"gain": gain})
    log = pl.DataFrame({"query": 1, "score": [3, 2, 1], "label": [1, 2, -1]})
    found = pr.evaluate(log, ["cg", "cg@1"], conventions=conventions)
    assert found.row(0) == (1, 1 + 3, 1)
    for grade in ("one", "１", "1_0", ""):
        with pytest.raises(pr.errors.ArgumentError, match="must map finite grades"):
            pr.gains.mapping({grade: 1})
    for given in ([0, 1, 3], (0, 1, 3)):
        with pytest.raises(pr.errors.ArgumentError, match=r"`gain` .* a mapping \{grade: gain\}"):
            pr.ndcg(gain=given)


def test_metrics_that_no_test_compares_with_the_tool_warn() -> None:
    metrics = ["err@5", "ndcg@5", "err@10", pr.bpref() - pr.reciprocal_rank(), "bpref", "map"]
    said = r"^no test compares 'err', 'bpref', 'reciprocal_rank' with LightGBM, which may define"
    with pytest.warns(pr.errors.RankWarning, match=said) as warnings:
        pr.evaluate(LOG, metrics, conventions="lightgbm")
    assert len(warnings) == 1
    with pytest.warns(pr.errors.RankWarning, match="^no test compares 'fbeta' with ranx, "):
        pr.per_query(LOG.lazy(), "fbeta", conventions=pr.conventions.RANX)
    # Without a preset, with other conventions, and for metrics that a tool cannot have.
    pr.evaluate(LOG, metrics)
    pr.evaluate(LOG, metrics, conventions=pr.Conventions(ties="best", undefined="one"))
    pr.evaluate(LOG, pl.col("label").max().alias("highest"), conventions="lightgbm")

    @pr.define_metric()
    def own_of_this_test() -> pr.terms.Value:
        return pr.terms.num_retrieved() * 1

    pr.evaluate(LOG, own_of_this_test(), conventions="lightgbm")
    del REGISTER["own_of_this_test"]


@pytest.mark.filterwarnings("error:no test compares")
def test_what_functions_compute_besides_the_metrics_does_not_warn(tmp_path: Path) -> None:
    log = pr.datasets.search_log(40, runs=["a", "b"]).collect()
    options = {"by": "run", "conventions": "lightgbm"}
    pr.diagnostics.tie_bands(log, "ndcg@5", **options)
    pr.diagnostics.judgment_bounds(log, "ndcg@5", **options)
    pr.diagnostics.headroom(log, "ndcg@5", **options)
    pr.rank_curve(log, "ndcg", [1, 2], **options)
    pr.plot.at_k(log, "ndcg", baseline="a", conventions="lightgbm")
    pr.report(
        log, "ndcg@5", baseline="a", conventions="lightgbm", path=tmp_path / "report.html"
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore:in each ranking:polars_rank.errors.RankWarning")
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_presets_of_trec_eval_compare_ids_as_text(engine: str) -> None:
    numbers, enum = (pl.Int8, pl.Int32, pl.Int64, pl.UInt64), pl.Enum(["9", "10", "-1"])
    types = [(dtype, pl.Float64) for dtype in (*numbers, enum, pl.Categorical, pl.String)]
    types += product((pl.Int64, pl.String), (pl.Float32, pl.Int64))
    ascending = pr.conventions.TREC_EVAL.but(ties="doc_ascending")
    for dtype, score in types:
        ids = ["9", "10"] if dtype == pl.UInt64 else ["9", "10", "-1"]
        log = pl.LazyFrame({"query": 1, "doc": ids, "score": 1.0}).with_columns(
            pl.col("doc").cast(dtype), pl.col("score").cast(score), label=pl.col("doc") == "10"
        )
        for preset, places in (
            ("trec_eval", {"rr": 2}),
            ("trec_eval 9", {"rr": 2}),
            ("ir_measures", {"rr": 2, "rr@3": len(ids) - 1}),
            (ascending, {"rr": len(ids) - 1}),
        ):
            found = pr.evaluate(log, [*places], conventions=preset).collect(engine=engine)
            for metric, place in places.items():
                assert found[metric].item() == 1 / place, (preset, dtype, score)
        if dtype in numbers:
            assert pr.evaluate(log, "rr").collect(engine=engine)["rr"].item() == 1


def test_ids_of_types_without_text() -> None:
    frame = pl.DataFrame({"query": 1, "score": [1.0, 1.0, None], "label": [0, 1, None]})
    for ids in ([b"\xff", b"a", None], [{"a": 2}, {"a": 1}, None]):
        log = frame.with_columns(doc=pl.Series(ids), query=pl.Series([1, 1, 2]))
        found = pr.per_query(log, "rr", conventions=pr.Conventions(text_ids=True), undefined="null")
        assert found["rr"].to_list() == [1 / 2, None]
