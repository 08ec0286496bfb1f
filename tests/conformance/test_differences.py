"""Where a peer is wrong, random or silent: what it does, and the value that is defined here."""

from __future__ import annotations

import math
import subprocess
import sys

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars_rank.metrics.names import SETS

from . import peers
from .logs import LOGS, SHARED, random_log
from .pairs import PEERS

pytestmark = pytest.mark.filterwarnings("ignore")  # the peers' own


def log(*rows: tuple[float | None, float | None], query: str = "1") -> pl.DataFrame:
    """Make a log of one list: d0, d1, ... with score and label."""
    return pl.DataFrame(
        [(query, f"d{i}", score, label) for i, (score, label) in enumerate(rows)],
        {"query": pl.String, "doc": pl.String, "score": pl.Float64, "label": pl.Float64},
        orient="row",
    )


def mean(frame: pl.DataFrame, metric: str, conventions: pr.Conventions) -> float:
    return pr.evaluate(frame, metric, conventions=conventions).item(0, metric)


def test_all_measures_of_pytrec_eval_are_compared() -> None:
    peer = needs.package("pytrec_eval", "test")
    measures = {
        name
        for name in peer.supported_measures
        if not name.startswith("prefs_") and name not in ("runid", "relstring")
    }
    found = peer.RelevanceEvaluator({"1": {"a": 1}}, measures).evaluate({"1": {"a": 1.0}})["1"]
    assert found.keys() <= set(SETS["all_trec"]) == set(PEERS[0].pairs)


@pytest.mark.parametrize("name", ["grades", "negative", "untied", "trec"])
def test_means_of_pytrec_eval(name: str) -> None:
    peer = needs.package("pytrec_eval", "test")
    if name == "trec" and not SHARED.is_dir():
        pytest.skip("the real logs are not there")
    names = SETS["all_trec"]
    frame = LOGS[name]()
    values = peers.pytrec_eval(frame, names)
    known = frame.filter(pl.col("query").is_in(list(values["map"])))
    means = pr.evaluate(known, names, conventions=pr.conventions.TREC_EVAL_9).row(0, named=True)
    for measure in names:
        expected = peer.compute_aggregated_measure(measure, list(values[measure].values()))
        assert means[measure] == pytest.approx(expected, rel=1e-9, abs=1e-9), measure


def test_all_measures_of_ir_measures_are_compared() -> None:
    """But those of intents, for which judgments have subtopics."""
    peer = needs.package("ir_measures", "test")
    ours = [pair.partition("(")[0].partition("@")[0] for each in PEERS for pair in each.pairs]
    intents = {"alpha_DCG", "alpha_nDCG", "ERR_IA", "nERR_IA", "NRBP", "nNRBP", "AP_IA", "P_IA",
               "StRecall"}  # fmt: skip
    known = {measure.NAME for measure in peer.measures.registry.values()}
    assert known - intents <= set(ours)


def test_means_of_ir_measures() -> None:
    peer = needs.package("ir_measures", "test")
    names = ["nDCG@5", "AP", "RR@3", "P(rel=2)@3", "Judged@3", "NumRet", "NumRet(rel=1)"]
    frame = LOGS["grades"]()
    expected = peer.calc_aggregate(
        [peer.parse_measure(name) for name in names],
        peers._nested(frame, "label"),
        peers._nested(frame, "score"),
    )
    means = pr.evaluate(frame, names, conventions=pr.conventions.IR_MEASURES)
    for name in names:
        assert means.item(0, name) == pytest.approx(expected[peer.parse_measure(name)], rel=1e-9)


def test_pytrec_eval_crashes_without_a_label_of_0_or_more() -> None:
    """It ends the interpreter; here negative labels are not relevant, and there is no gain."""
    needs.package("pytrec_eval", "test")
    code = (
        "import pytrec_eval as p;"
        "p.RelevanceEvaluator({'1': {'a': -2}}, set(p.supported_measures)).evaluate({'1': {'a': 1}})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode != 0
    frame = log((1.0, -2))
    for name in ("ndcg", "map", "bpref", "infAP", "Rndcg", "G", "recip_rank", "P_5"):
        assert mean(frame, name, pr.conventions.TREC_EVAL_9) == 0


def test_pytrec_eval_is_silent_about_missing_queries() -> None:
    """Queries of the judgments only are not in its mean; TREC_EVAL counts them as 0."""
    frame = pl.concat([log((1.0, 1), query="1"), log((None, 1), query="2"),
                       log((1.0, None), query="3")])  # fmt: skip
    assert mean(frame, "map", pr.conventions.TREC_EVAL_9) == 1
    assert mean(frame, "map", pr.conventions.TREC_EVAL) == 1 / 2
    counts = pr.evaluate(frame, "map", conventions=pr.conventions.TREC_EVAL)
    assert counts.select("queries", "queries_judged", "queries_retrieved").row(0) == (2, 2, 2)


def test_trec_eval_9_compares_32_bits() -> None:
    """The second document is the better one by less than 32 bits tell apart."""
    frame = log((1.0, 0), (1.0 + 1e-9, 1)).with_columns(doc=pl.Series(["d9", "d1"]))
    assert mean(frame, "recip_rank", pr.conventions.TREC_EVAL_9) == 1 / 2
    assert mean(frame, "recip_rank", pr.conventions.TREC_EVAL) == 1


def test_trec_eval_10_rounds_recall_to_the_nearest() -> None:
    frame = log(*[(9.0 - i, 1 if i in (0, 4) else 0) for i in range(8)], (None, 1))
    assert mean(frame, "11pt_avg", pr.conventions.TREC_EVAL) != mean(
        frame, "11pt_avg", pr.conventions.TREC_EVAL_9
    )


def test_trec_eval_10_scales_rbp_by_what_it_never_set() -> None:
    """Its lowest and highest gain are read before they are written. RBP is binary here."""
    frame = log((2.0, 4), (1.0, 1))
    assert mean(frame, "rbp", pr.conventions.TREC_EVAL) == pytest.approx(0.1 * (1 + 0.9))


def test_trec_eval_10_has_no_rbp_residual_where_nothing_was_found() -> None:
    """It is 0 there; but nothing is known about any rank, so it is 1 here."""
    assert mean(log((None, 1)), "rbp_resid", pr.conventions.TREC_EVAL) == 1


def test_trec_eval_10_takes_negative_labels_as_unjudged() -> None:
    """In `unj`; a label is a judgment here."""
    assert mean(log((1.0, -1)), "unj_5", pr.conventions.TREC_EVAL) == 0


def test_ir_measures_has_two_orders_of_ties() -> None:
    """RR is 1 / 2 and RR@10 is 1 on one list; each is reproduced, at the price of two sorts."""
    frame = log((1.0, 1), (1.0, 0))
    found = pr.evaluate(frame, ["RR", "RR@10"], conventions=pr.conventions.IR_MEASURES)
    assert found.row(0)[-2:] == (1 / 2, 1.0)
    own = pr.evaluate(frame, ["RR", "RR@10"])
    assert own.row(0)[-2:] == (1 / 2, 1 / 2)


def test_ir_measures_ranks_what_was_not_retrieved_as_score_0() -> None:
    """In the ideal list of Compat: before a document of a negative score. Here it comes last."""
    needs.package("ir_measures", "test")
    frame = log((-1.0, 1), (None, 1))
    assert peers.ir_measures(frame, ["Compat"])["Compat"]["1"] < 0.5
    assert mean(frame, "Compat", pr.conventions.IR_MEASURES) == pytest.approx(
        (1 + 0.95 / 2) / (1 + 0.95)
    )


def test_ir_measures_divides_by_zero_in_accuracy() -> None:
    """Where every document found is relevant there is no pair: undefined here."""
    needs.package("ir_measures", "test")
    frame = log((2.0, 1), (1.0, 1))
    with pytest.raises(ZeroDivisionError):
        peers.ir_measures(frame, ["Accuracy"])
    assert pr.per_query(frame, "pair_accuracy").item(0, 1) is None


def test_ir_measures_calls_beta_what_is_its_square() -> None:
    frame = log((2.0, 1), (1.0, 0), (0.5, 0), (None, 1))
    assert mean(frame, "SetF(beta=4.0)", pr.conventions.IR_MEASURES) == mean(
        frame, "set_f(beta=2)", pr.conventions.RANX
    )


def test_ranx_orders_ties_by_the_way_it_sorts() -> None:
    """By a sort that is not stable; here it is the order of the rows."""
    frame = log(*[(1.0, 1 if i == 0 else 0) for i in range(40)])
    assert mean(frame, "mrr", pr.conventions.RANX) == 1


def test_ranx_has_no_number_for_bpref_without_judged_nonrelevant() -> None:
    needs.package("ranx", "conformance")
    frame = pl.concat([log((2.0, 1), (1.0, 1), query=q) for q in "12"])
    assert peers.ranx(frame.with_columns(pl.col("label").cast(pl.Int64)), ["bpref"])["bpref"] == {}
    assert mean(frame, "bpref", pr.conventions.RANX) == 1


def test_bpref_of_ranx_is_spoiled_by_a_list_without_relevant_documents() -> None:
    """Lists after it get 0. Here no list changes the value of another."""
    needs.package("ranx", "conformance")
    some = [log((3.0, 1), (2.0, 0), (1.0, 1), query=query) for query in "124"]
    frame = pl.concat([*some, log((2.0, 0), (1.0, 0), query="3")])
    frame = frame.with_columns(pl.col("label").cast(pl.Int64))
    assert peers.ranx(frame, ["bpref"])["bpref"]["4"] == 0
    ours = pr.per_query(frame, "bpref", conventions=pr.conventions.RANX)
    assert ours["bpref"].to_list() == [0.5, 0.5, None, 0.5]


def test_negative_labels_are_judged_not_relevant_in_bpref_of_ranx() -> None:
    """In bpref of trec_eval, and here, they are in the pool but not judged."""
    needs.package("ranx", "conformance")
    frame = pl.concat([log((3.0, -1), (2.0, 1), (1.0, 0), query=query) for query in "12"])
    frame = frame.with_columns(pl.col("label").cast(pl.Int64))
    assert peers.ranx(frame, ["bpref"])["bpref"]["1"] == 0
    assert mean(frame, "bpref", pr.conventions.RANX) == 1


def test_graded_rbp_of_ranx_is_no_share() -> None:
    """It adds up labels; RBP(rel=1) stays below 1."""
    frame = log((2.0, 4), (1.0, 3))
    assert mean(frame, "rbp.5", pr.conventions.RANX) == 0.5 * (4 + 3 / 2)
    assert mean(frame, "rbp.5", pr.conventions.POLARS_RANK) == 0.5 * (1 + 1 / 2)


def test_ranx_cuts_fractional_labels() -> None:
    """1.9 is 1 there, and a label is a label here."""
    needs.package("ranx", "conformance")
    frame = pl.concat([log((2.0, 1.9), query=q) for q in "12"])
    assert peers.ranx(frame, ["dcg"])["dcg"]["1"] == 1
    assert mean(frame, "dcg", pr.conventions.RANX) == 1.9


def test_scikit_learn_refuses_a_single_document() -> None:
    metrics = needs.package("sklearn.metrics", "test")
    with pytest.raises(ValueError, match="more than 1 document"):
        metrics.ndcg_score([[1]], [[1.0]])
    assert mean(log((1.0, 1)), "ndcg_score", pr.conventions.SKLEARN) == 1


def test_scikit_learn_refuses_negative_labels_in_ndcg() -> None:
    metrics = needs.package("sklearn.metrics", "test")
    with pytest.raises(ValueError, match="negative"):
        metrics.ndcg_score([[1, -1]], [[1.0, 2.0]])
    expected = (-1 + 1 / math.log2(3)) / (1 - 1 / math.log2(3))
    found = mean(log((1.0, 1), (2.0, -1)), "ndcg_score", pr.conventions.SKLEARN)
    assert found == pytest.approx(expected, rel=1e-12)


def test_average_precision_of_nothing_has_two_values_in_scikit_learn() -> None:
    """0 as average precision, 1 as label ranking average precision; SKLEARN takes the latter."""
    metrics = needs.package("sklearn.metrics", "test")
    assert metrics.label_ranking_average_precision_score([[0, 0]], [[2.0, 1.0]]) == 1
    assert metrics.average_precision_score([0, 0], [2.0, 1.0]) == 0
    frame = log((2.0, 0), (1.0, 0))
    assert mean(frame, "average_precision_score", pr.conventions.SKLEARN) == 1


def test_torchmetrics_ignores_documents_of_negative_score() -> None:
    """A logit of 0 or less is not relevant to it, whatever the label. A score is a score here."""
    needs.package("torchmetrics", "conformance")
    frame = log((-1.0, 1), (-2.0, 0))
    name = "retrieval_reciprocal_rank()"
    assert peers.torchmetrics(frame, [name])[name]["1"] == 0
    assert mean(frame, "RetrievalMRR", pr.conventions.TORCHMETRICS) == 1


def test_lightgbm_refuses_fractional_labels_in_ndcg() -> None:
    lightgbm = needs.package("lightgbm", "conformance")
    with pytest.raises(lightgbm.basic.LightGBMError, match="int type"):
        peers.lightgbm(log((2.0, 1.5), (1.0, 0)), ["ndcg@2"])
    expected = (2**0.5 - 1) / math.log2(3) / (2**0.5 - 1)
    found = mean(log((1.0, 0.5), (2.0, 0)), "ndcg@2", pr.conventions.LIGHTGBM)
    assert found == pytest.approx(expected, rel=1e-12)


def test_xgboost_refuses_grades_in_map() -> None:
    xgboost = needs.package("xgboost", "conformance")
    frame = log((2.0, 2), (1.0, 0))
    with pytest.raises(xgboost.core.XGBoostError, match="binary labels"):
        peers.xgboost(frame, ["map@2"])
    assert mean(frame, "map@2", pr.conventions.XGBOOST) == 1


def test_auc_of_xgboost_depends_on_the_order_of_rows() -> None:
    """As a ranking metric, for one group. Here no order of rows changes it."""
    needs.package("xgboost", "conformance")
    frame = log((4.0, 0), (3.0, 0), (2.0, 1), (1.0, 1), (0.5, 0))
    turned = frame.reverse()
    assert peers.xgboost(frame, ["auc"]) != peers.xgboost(turned, ["auc"])
    assert (
        mean(frame, "auc", pr.conventions.XGBOOST)
        == mean(turned, "auc", pr.conventions.XGBOOST)
        == 2 / 6
    )


def test_err_of_catboost_takes_labels_as_probabilities() -> None:
    """Ours stops with (2^label - 1) / 2^max: for a label of 1 of 1, with 1 / 2, not with 1."""
    needs.package("catboost", "conformance")
    frame = log((2.0, 1), (1.0, 0))
    assert peers.catboost(frame, ["ERR"])["ERR"]["1"] == 1
    assert mean(frame, "err(max_grade=1)", pr.conventions.CATBOOST) == 1 / 2


def test_presets_differ_only_in_what_they_say() -> None:
    """On a log without traps, all presets agree on binary NDCG, RR, and recall."""
    frame = random_log(20, (0, 1), tied=False, pooled=False)
    solvable = frame.filter((pl.col("label").max().over("query") == 1))
    names = ["ndcg@5", "rr", "recall@5"]
    presets = [peer.conventions for peer in PEERS]
    means = [pr.evaluate(solvable, names, conventions=each).select(names).row(0)
             for each in presets]  # fmt: skip
    for found in means:
        assert found == pytest.approx(means[0], rel=1e-12)
