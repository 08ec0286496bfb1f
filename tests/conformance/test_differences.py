"""Differences between polars_rank and peers whose values are wrong, random or missing."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars_rank.metrics.aliases import SETS

from . import peers
from .logs import LOGS, random_log
from .pairs import PEERS
from . import test_recommenders as recommenders
from . import test_retrieval as retrieval
from .test_rag import FOUND, RANKINGS
from .test_rag import log as rag_log

IRRCAC = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "irrcac.json").read_text(encoding="utf-8")
)
pytestmark = pytest.mark.filterwarnings("ignore")  # from the peers


def log(*rows: tuple[float | None, float | None], query: str = "1") -> pl.DataFrame:
    """Return a log of one ranking of the documents d0, d1, ... with scores and labels."""
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


def test_all_measures_of_ir_measures_are_compared() -> None:
    peer = needs.package("ir_measures", "test")
    ours = [pair.partition("(")[0].partition("@")[0] for each in PEERS for pair in each.pairs]
    known = {measure.NAME for measure in peer.measures.registry.values()}
    assert known <= set(ours)


def test_pytrec_eval_crashes_without_a_label_of_0_or_more() -> None:
    """It ends the Python process.

    In polars_rank, negative labels are not relevant and have no gain.
    """
    needs.package("pytrec_eval", "test")
    code = (
        "import pytrec_eval as p;"
        "p.RelevanceEvaluator({'1': {'a': -2}}, set(p.supported_measures)).evaluate({'1': {'a': 1}})"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode != 0
    frame = log((1.0, -2))
    for name in ("ndcg", "map", "bpref", "infAP", "Rndcg", "G", "recip_rank", "P_5"):
        assert mean(frame, name, pr.conventions.TREC_EVAL_9) == 0


def test_pytrec_eval_omits_queries_without_retrieved_documents() -> None:
    """Its mean ignores queries that are only in the judgments, and so does the preset TREC_EVAL_9.

    With the preset TREC_EVAL, they count as 0.
    """
    frame = pl.concat([log((1.0, 1), query="1"), log((None, 1), query="2"),
                       log((1.0, None), query="3")])  # fmt: skip
    assert mean(frame, "map", pr.conventions.TREC_EVAL_9) == 1
    assert mean(frame, "map", pr.conventions.TREC_EVAL) == 1 / 2
    counts = pr.evaluate(frame, "map", conventions=pr.conventions.TREC_EVAL)
    assert counts.select("queries", "queries_judged", "queries_retrieved").row(0) == (2, 2, 2)


def test_trec_eval_9_compares_scores_as_32_bit_floats() -> None:
    """Scores that are equal as 32-bit floats are ties. The preset TREC_EVAL_9 reproduces this."""
    frame = log((1.0, 0), (1.0 + 1e-9, 1)).with_columns(doc=pl.Series(["d9", "d1"]))
    assert mean(frame, "recip_rank", pr.conventions.TREC_EVAL_9) == 1 / 2
    assert mean(frame, "recip_rank", pr.conventions.TREC_EVAL) == 1


def test_trec_eval_10_rounds_recall_to_the_nearest_hit() -> None:
    """Versions up to 9 round it up. The presets TREC_EVAL and TREC_EVAL_9 reproduce each rule."""
    frame = log(*[(9.0 - i, 1 if i in (0, 4) else 0) for i in range(8)], (None, 1))
    assert mean(frame, "11pt_avg", pr.conventions.TREC_EVAL) != mean(
        frame, "11pt_avg", pr.conventions.TREC_EVAL_9
    )


def test_trec_eval_10_scales_rbp_by_uninitialized_variables() -> None:
    """It reads its lowest and highest gain before it sets them. In polars_rank, RBP is binary."""
    frame = log((2.0, 4), (1.0, 1))
    assert mean(frame, "rbp", pr.conventions.TREC_EVAL) == pytest.approx(0.1 * (1 + 0.9))


def test_trec_eval_10_has_an_rbp_residual_of_0_without_retrieved_documents() -> None:
    """In polars_rank, the residual is then 1, because all ranks are unknown."""
    assert mean(log((None, 1)), "rbp_resid", pr.conventions.TREC_EVAL) == 1


def test_trec_eval_10_counts_negative_labels_as_unjudged() -> None:
    """This affects `unj`. In polars_rank, every label is a judgment."""
    assert mean(log((1.0, -1)), "unj_5", pr.conventions.TREC_EVAL) == 0


def test_ir_measures_orders_ties_in_two_ways() -> None:
    """For the same ranking, RR is 1 / 2 and RR@10 is 1.

    The preset IR_MEASURES reproduces both, which takes two sorts.
    """
    frame = log((1.0, 1), (1.0, 0))
    found = pr.evaluate(frame, ["RR", "RR@10"], conventions=pr.conventions.IR_MEASURES)
    assert found.row(0)[-2:] == (1 / 2, 1.0)
    own = pr.evaluate(frame, ["RR", "RR@10"])
    assert own.row(0)[-2:] == (1 / 2, 1 / 2)


def test_ir_measures_ranks_documents_that_were_not_retrieved_by_score_0() -> None:
    """In the ideal ranking of Compat, they come before documents with negative scores.

    In polars_rank, they come last.
    """
    needs.package("ir_measures", "test")
    frame = log((-1.0, 1), (None, 1))
    assert peers.ir_measures(frame, ["Compat"])["Compat"]["1"] < 0.5
    assert mean(frame, "Compat", pr.conventions.IR_MEASURES) == pytest.approx(
        (1 + 0.95 / 2) / (1 + 0.95)
    )


def test_ir_measures_counts_only_queries_of_the_run() -> None:
    """This affects NumQ and NumRel. In polars_rank, every query that has judgments counts."""
    needs.package("ir_measures", "test")
    frame = pl.concat([log((2.0, 1), query="1"), log((None, 1), query="2")])
    frame, names = frame.with_columns(pl.col("label").cast(pl.Int64)), ["NumQ", "NumRel"]
    assert peers.ir_measures_means(frame, names) == dict.fromkeys(names, 1)
    assert [mean(frame, name, pr.conventions.IR_MEASURES) for name in names] == [2, 2]


def test_ir_measures_divides_by_zero_in_accuracy() -> None:
    """If every retrieved document is relevant, there are no pairs.

    In polars_rank, the value is null.
    """
    needs.package("ir_measures", "test")
    frame = log((2.0, 1), (1.0, 1))
    with pytest.raises(ZeroDivisionError):
        peers.ir_measures(frame, ["Accuracy"])
    assert pr.per_query(frame, "pair_accuracy").item(0, 1) is None


def test_ir_measures_returns_0_for_a_second_alpha() -> None:
    """In one call, intent-aware metrics with another alpha, beta or rel than the first are 0.

    In polars_rank, no metric affects another.
    """
    needs.package("pyndeval", "conformance")
    frame, names = LOGS["subtopics"](), ["alpha_nDCG@5", "alpha_nDCG(alpha=0.25)@5"]
    found = peers._diverse_ir_measures(frame, names)
    assert sorted(any(values.values()) for values in found.values()) == [False, True]
    ours = pr.evaluate(frame, names, conventions=pr.conventions.IR_MEASURES)
    assert all(ours.item(0, name) > 0.1 for name in names)


def test_pyndeval_does_not_normalize_alpha_dcg_and_err_ia_at_cutoff_1() -> None:
    """There they can exceed 1. The preset NDEVAL reproduces this.

    By default, polars_rank normalizes them at every cutoff.
    """
    needs.package("pyndeval", "conformance")
    frame = log((2.0, 1), (1.0, 1)).with_columns(subtopics=pl.Series([["a", "b"], ["a"]]))
    theirs = peers.pyndeval(frame, ["alpha-DCG@1", "ERR-IA@1"])
    for name, values in theirs.items():
        assert values == {"1": 2.0}
        assert mean(frame, name, pr.conventions.NDEVAL) == 2
        assert mean(frame, name, pr.conventions.POLARS_RANK) == 1


def test_pyndeval_returns_nan_for_nnrbp_without_a_relevant_subtopic() -> None:
    """Its other metrics are then 0. With the preset NDEVAL, the mean is null."""
    needs.package("pyndeval", "conformance")
    frame = log((2.0, 0)).with_columns(subtopics=pl.Series([[]], dtype=pl.List(pl.String)))
    found = peers.pyndeval(frame, ["nNRBP", "NRBP"])
    assert math.isnan(found["nNRBP"]["1"]) and found["NRBP"]["1"] == 0
    assert mean(frame, "nNRBP", pr.conventions.NDEVAL) is None
    assert mean(frame, "NRBP", pr.conventions.NDEVAL) == 0


def test_beta_of_ir_measures_is_the_square_of_beta() -> None:
    """`SetF(beta=4.0)` is `set_f(beta=2)` in polars_rank."""
    frame = log((2.0, 1), (1.0, 0), (0.5, 0), (None, 1))
    assert mean(frame, "SetF(beta=4.0)", pr.conventions.IR_MEASURES) == mean(
        frame, "set_f(beta=2)", pr.conventions.RANX
    )


def test_ranx_averages_counts() -> None:
    """The preset RANX reproduces this. By default, polars_rank adds counts up, as trec_eval does."""
    frame = pl.concat([log((2.0, 1), (1.0, 1), query="1"), log((2.0, 1), (1.0, 0), query="2")])
    assert mean(frame, "hits", pr.conventions.RANX) == (2 + 1) / 2
    assert mean(frame, "num_relevant_retrieved", pr.conventions.POLARS_RANK) == 2 + 1


def test_ranx_orders_ties_by_an_unstable_sort() -> None:
    """With the preset RANX, tied documents keep the order of the rows."""
    frame = log(*[(1.0, 1 if i == 0 else 0) for i in range(40)])
    assert mean(frame, "mrr", pr.conventions.RANX) == 1


def test_ranx_returns_nan_for_bpref_if_no_document_is_judged_not_relevant() -> None:
    """In polars_rank, bpref is then 1 if all relevant documents were retrieved."""
    needs.package("ranx", "conformance")
    frame = pl.concat([log((2.0, 1), (1.0, 1), query=q) for q in "12"])
    theirs = peers.ranx(frame.with_columns(pl.col("label").cast(pl.Int64)), ["bpref"])["bpref"]
    assert len(theirs) == 2 and all(map(math.isnan, theirs.values()))
    assert mean(frame, "bpref", pr.conventions.RANX) == 1


def test_bpref_of_ranx_is_wrong_after_a_ranking_without_relevant_documents() -> None:
    """It is 0 for all later rankings. In polars_rank, no ranking affects another."""
    needs.package("ranx", "conformance")
    some = [log((3.0, 1), (2.0, 0), (1.0, 1), query=query) for query in "124"]
    frame = pl.concat([*some, log((2.0, 0), (1.0, 0), query="3")])
    frame = frame.with_columns(pl.col("label").cast(pl.Int64))
    assert peers.ranx(frame, ["bpref"])["bpref"]["4"] == 0
    ours = pr.per_query(frame, "bpref", conventions=pr.conventions.RANX)
    assert ours["bpref"].to_list() == [0.5, 0.5, 0, 0.5]


def test_bpref_of_ranx_counts_negative_labels_as_judged_not_relevant() -> None:
    """In bpref of trec_eval and polars_rank, negative labels mean "in the pool but not judged"."""
    needs.package("ranx", "conformance")
    frame = pl.concat([log((3.0, -1), (2.0, 1), (1.0, 0), query=query) for query in "12"])
    frame = frame.with_columns(pl.col("label").cast(pl.Int64))
    assert peers.ranx(frame, ["bpref"])["bpref"]["1"] == 0
    assert mean(frame, "bpref", pr.conventions.RANX) == 1


def test_graded_rbp_of_ranx_can_exceed_1() -> None:
    """It adds up labels, which the preset RANX reproduces.

    By default, RBP in polars_rank is binary and below 1.
    """
    frame = log((2.0, 4), (1.0, 3))
    assert mean(frame, "rbp.5", pr.conventions.RANX) == 0.5 * (4 + 3 / 2)
    assert mean(frame, "rbp.5", pr.conventions.POLARS_RANK) == 0.5 * (1 + 1 / 2)


def test_ranx_truncates_fractional_labels() -> None:
    """It counts a label of 1.9 as 1. polars_rank uses labels as they are."""
    needs.package("ranx", "conformance")
    frame = pl.concat([log((2.0, 1.9), query=q) for q in "12"])
    assert peers.ranx(frame, ["dcg"])["dcg"]["1"] == 1
    assert mean(frame, "dcg", pr.conventions.RANX) == 1.9


def test_scikit_learn_rejects_a_single_document() -> None:
    """polars_rank evaluates rankings of any length."""
    metrics = needs.package("sklearn.metrics", "test")
    with pytest.raises(ValueError, match="more than 1 document"):
        metrics.ndcg_score([[1]], [[1.0]])
    assert mean(log((1.0, 1)), "ndcg_score", pr.conventions.SKLEARN) == 1


def test_scikit_learn_rejects_negative_labels_in_ndcg() -> None:
    """In polars_rank, negative labels are penalties."""
    metrics = needs.package("sklearn.metrics", "test")
    with pytest.raises(ValueError, match="negative"):
        metrics.ndcg_score([[1, -1]], [[1.0, 2.0]])
    expected = (-1 + 1 / math.log2(3)) / (1 - 1 / math.log2(3))
    found = mean(log((1.0, 1), (2.0, -1)), "ndcg_score", pr.conventions.SKLEARN)
    assert found == pytest.approx(expected, rel=1e-12)


def test_scikit_learn_has_two_values_of_average_precision_without_relevant_documents() -> None:
    """They are 0 and, for label ranking average precision, 1. The preset SKLEARN uses 1."""
    metrics = needs.package("sklearn.metrics", "test")
    assert metrics.label_ranking_average_precision_score([[0, 0]], [[2.0, 1.0]]) == 1
    assert metrics.average_precision_score([0, 0], [2.0, 1.0]) == 0
    frame = log((2.0, 0), (1.0, 0))
    assert mean(frame, "average_precision_score", pr.conventions.SKLEARN) == 1


def test_torchmetrics_ignores_documents_with_negative_scores() -> None:
    """A document with a score of 0 or less counts as not relevant, whatever its label.

    In polars_rank, any number is a valid score.
    """
    needs.package("torchmetrics", "conformance")
    frame = log((-1.0, 1), (-2.0, 0))
    name = "retrieval_reciprocal_rank()"
    assert peers.torchmetrics(frame, [name])[name]["1"] == 0
    assert mean(frame, "RetrievalMRR", pr.conventions.TORCHMETRICS) == 1


def test_torchmetrics_has_two_values_of_fall_out_without_nonrelevant_documents() -> None:
    """Its function returns 0. Its class counts 1, which the preset TORCHMETRICS reproduces.

    By default, the value is null in polars_rank.
    """
    needs.package("torchmetrics", "conformance")
    frame, name = log((2.0, 1), (1.0, 1)), "retrieval_fall_out()"
    assert peers.torchmetrics_means(frame, [name]) == {name: 1}
    assert mean(frame, name, pr.conventions.TORCHMETRICS) == 1
    assert pr.per_query(frame, "fall_out").item(0, 1) is None


def test_lightgbm_rejects_fractional_labels_in_ndcg() -> None:
    """polars_rank accepts any number."""
    lightgbm = needs.package("lightgbm", "conformance")
    with pytest.raises(lightgbm.basic.LightGBMError, match="int type"):
        peers.lightgbm(log((2.0, 1.5), (1.0, 0)), ["ndcg@2"])
    expected = (2**0.5 - 1) / math.log2(3) / (2**0.5 - 1)
    found = mean(log((1.0, 0.5), (2.0, 0)), "ndcg@2", pr.conventions.LIGHTGBM)
    assert found == pytest.approx(expected, rel=1e-12)


def test_xgboost_rejects_grades_in_map() -> None:
    """In polars_rank, a document is relevant if its grade is at least `rel`."""
    xgboost = needs.package("xgboost", "conformance")
    frame = log((2.0, 2), (1.0, 0))
    with pytest.raises(xgboost.core.XGBoostError, match="binary labels"):
        peers.xgboost(frame, ["map@2"])
    assert mean(frame, "map@2", pr.conventions.XGBOOST) == 1


@pytest.mark.parametrize("tool", ["lightgbm", "catboost"])
def test_auc_of_lightgbm_and_catboost_is_of_all_rankings_together(tool: str) -> None:
    """In polars_rank, it is the mean of the AUC of each ranking."""
    needs.package(tool, "conformance")
    # Each ranking is perfect, but the relevant document of the second one has a lower score than
    # the other document of the first one.
    frame = pl.concat([log((4.0, 1), (3.0, 0), query="1"), log((2.0, 1), (1.0, 0), query="2")])
    name, means = {
        "lightgbm": ("auc", peers.lightgbm_means),
        "catboost": ("AUC", peers.catboost_means),
    }[tool]
    assert means(frame, [name]) == {name: 3 / 4}
    assert mean(frame, name, pr.conventions.POLARS_RANK) == 1


def test_auc_of_xgboost_depends_on_the_order_of_rows() -> None:
    """This is the AUC of a ranking, for one group.

    In polars_rank, the order of rows has no effect.
    """
    needs.package("xgboost", "conformance")
    frame = log((4.0, 0), (3.0, 0), (2.0, 1), (1.0, 1), (0.5, 0))
    turned = frame.reverse()
    assert peers.xgboost(frame, ["auc"]) != peers.xgboost(turned, ["auc"])
    assert (
        mean(frame, "auc", pr.conventions.XGBOOST)
        == mean(turned, "auc", pr.conventions.XGBOOST)
        == 2 / 6
    )


def test_err_of_catboost_uses_labels_as_probabilities() -> None:
    """In polars_rank, the probability is (2^label - 1) / 2^max.

    For a label of 1 on a scale up to 1, it is 1 / 2 instead of 1.
    """
    needs.package("catboost", "conformance")
    frame = log((2.0, 1), (1.0, 0))
    assert peers.catboost(frame, ["ERR"])["ERR"]["1"] == 1
    assert mean(frame, "err(max_grade=1)", pr.conventions.CATBOOST) == 1 / 2


#: Two recommendations; only the first is in the training log.
NEW = pl.DataFrame({
    "query": 1, "doc": ["a", "b"], "score": [2.0, 1.0],
    "users": [2, None], "share": [0.25, None], "interactions": [8, None],
})  # fmt: skip


def test_rectools_counts_new_documents_as_documents_of_one_user() -> None:
    """This affects MIUF, and the preset RECTOOLS reproduces it.

    By default, novelty in polars_rank excludes new documents.
    """
    assert mean(NEW, "MIUF(num_users=8)@2", pr.conventions.RECTOOLS) == (2 + 3) / 2
    assert mean(NEW, "MIUF@2", pr.conventions.POLARS_RANK) == 2


def test_replay_divides_surprisal_and_unexpectedness_by_k() -> None:
    """New documents have the surprisal 1. The preset REPLAY reproduces both.

    By default, polars_rank excludes new documents and divides by the number of other documents.
    """
    assert mean(NEW, "Surprisal@4", pr.conventions.REPLAY) == pytest.approx((2 / 3 + 1) / 4)
    assert mean(NEW, "Surprisal@4", pr.conventions.POLARS_RANK) == pytest.approx(2 / 3)


def test_replay_calls_the_share_of_unseen_documents_novelty() -> None:
    """In RecTools and Evidently, and by default in polars_rank, novelty is self-information."""
    frame = NEW.with_columns(seen=pl.Series([True, False]))
    assert mean(frame, "Novelty@2", pr.conventions.REPLAY) == 1 / 2
    assert mean(frame, "Novelty@2", pr.conventions.EVIDENTLY) == 2


def test_arp_of_recommenders_is_average_recommendation_popularity() -> None:
    """RecTools counts interactions; new documents count as 0.

    Evidently counts users, divides by the maximum, and excludes new documents; `interactions` names
    the column. Without a preset, ARP is the average relevance position.
    """
    assert mean(NEW, "ARP@2", pr.conventions.RECTOOLS) == 8 / 2
    assert mean(NEW, "ARP(interactions='users')@2", pr.conventions.EVIDENTLY) == 2
    assert pr.metric("ARP").function.__name__ == "average_relevance_position"


def test_rectools_has_an_ild_of_0_for_a_single_document() -> None:
    """The preset RECTOOLS reproduces it, and so does LENSKIT.

    By default, the diversity of a single document is null.
    """
    frame = NEW.head(1).with_columns(embedding=pl.lit([1.0, 0.0]))
    for preset in (pr.conventions.RECTOOLS, pr.conventions.LENSKIT):
        assert pr.per_query(frame, "ILD@2", conventions=preset)["ILD@2"].item() == 0
    assert pr.per_query(frame, "ILD@2").item(0, 1) is None


def test_quepid_has_no_dcg_if_a_hit_has_no_rating() -> None:
    """Its CG and DCG are NaN then; in polars_rank, the hit has gain 0.

    In other rankings the values are equal.
    """
    for name in ("cg@10", "dcg@10"):
        theirs = retrieval.FOUND["values"]["Quepid"][name]
        frame = retrieval.rankings("Quepid", name)
        unrated = frame.filter(pl.col("score").is_not_null() & pl.col("label").is_null())["query"]
        assert {query for query, value in theirs.items() if value is None} <= {*unrated}
        ours = pr.per_query(frame, name, conventions="Quepid").drop_nulls()
        assert {*unrated} & theirs.keys() <= {*ours["query"]}


def test_lenskit_excludes_users_without_relevant_documents() -> None:
    """The preset LENSKIT reproduces this, and the value 0 of precision for these users.

    RecTools, RePlay and Evidently exclude them from precision, too, and so do their presets.
    """
    frame = pl.concat([log((2.0, 1), query="1"), log((2.0, 0), query="2")])
    for name in ("NDCG@1", "DCG@1", "Recall@1", "Hit@1", "RecipRank@1", "AveragePrecision@1"):
        assert mean(frame, name, pr.conventions.LENSKIT) == 1
        assert mean(frame, name, pr.conventions.POLARS_RANK) == 1 / 2
    assert mean(frame, "Precision@1", pr.conventions.LENSKIT) == 1 / 2
    for preset in (pr.conventions.RECTOOLS, pr.conventions.REPLAY, pr.conventions.EVIDENTLY):
        assert mean(frame, "Precision@1", preset) == mean(frame, "NDCG@1", preset) == 1


def test_rectools_divides_ndcg_by_the_dcg_of_k_relevant_documents() -> None:
    """The preset RECTOOLS reproduces this. For `divide_by_achievable`, use `ndcg(ideal='judged')`.

    RecTools, RePlay and LensKit know no grades; in their presets, a relevant document has gain 1.
    """
    frame = log((2.0, 3), (1.0, 0))
    assert mean(frame, "NDCG@2", pr.conventions.RECTOOLS) == pytest.approx(
        1 / (1 + 1 / math.log2(3))
    )
    assert mean(frame, "ndcg(ideal='judged')@2", pr.conventions.RECTOOLS) == 1
    assert mean(log((2.0, 1), (1.0, 3)), "NDCG@2", pr.conventions.REPLAY) == 1


def test_replay_divides_map_by_at_most_k() -> None:
    """The preset REPLAY reproduces the example of its documentation."""
    rankings = {1: [3, 7, 10, 11, 2], 2: [5, 8, 11, 1, 3], 3: [4, 9, 2]}
    relevant = {1: [5, 6, 7, 8, 9, 10], 2: [6, 7, 4, 10, 11], 3: [1, 2, 3, 4, 5]}
    frame = pr.from_dicts(
        {q: {doc: -rank for rank, doc in enumerate(docs)} for q, docs in rankings.items()},
        {q: dict.fromkeys(docs, 1) for q, docs in relevant.items()},
    )
    found = pr.per_query(frame, "MAP@2", conventions="replay").sort("query")
    assert found["MAP@2"].to_list() == [0.25, 0, 0.5]


def test_rectools_counts_k_documents_of_short_rankings_in_accuracy_and_mcc() -> None:
    """In polars_rank, a shorter ranking has as many documents as were retrieved."""
    values = recommenders.FOUND["values"]["RecTools"]["Accuracy@5"]
    ranking, relevant = (
        recommenders.DATA["accuracy"][key]["u8"] for key in ("rankings", "relevant")
    )
    assert (len(ranking), len(relevant)) == (2, 1)  # the last one is relevant
    assert values["u8"] == pytest.approx((1 + 30 - 5) / 30)
    ours = pr.per_query(
        recommenders.accuracy_log("RecTools"), pr.metrics.classification_accuracy(5, size=30), query="user", doc="item",
        position="position", conventions="rectools",
    )  # fmt: skip
    assert ours.filter(user="u8").item(0, -1) == pytest.approx((1 + 30 - 2) / 30)


def test_replay_computes_roc_auc_of_the_first_k_documents() -> None:
    """It is 1 if all are relevant, and 0 if none is.

    In polars_rank, this is `pl.coalesce(pr.metrics.pair_accuracy(k), pr.hit_rate(k))`.
    """
    metric = pl.coalesce(pr.metrics.pair_accuracy(5), pr.hit_rate(5)).alias("RocAuc")
    options = {"query": "user", "doc": "item", "position": "position", "conventions": "replay"}
    frame = recommenders.accuracy_log("RePlay")
    ours = dict(pr.per_query(frame, metric, **options).select("user", "RocAuc").iter_rows())
    theirs = recommenders.FOUND["values"]["RePlay"]["RocAuc@5"]
    assert {user: ours[user] for user in theirs} == pytest.approx(theirs)
    mean_of_theirs = recommenders.FOUND["means"]["RePlay"]["RocAuc@5"]
    assert pr.evaluate(frame, metric, **options)["RocAuc"].item() == pytest.approx(mean_of_theirs)


def test_evidently_knows_relevant_documents_only_if_they_are_recommended() -> None:
    """This affects recall and MAP. In polars_rank, other relevant documents count, too.

    Without these rows, values are those of Evidently.
    """
    frame = log((1.0, 1), (None, 1))
    assert mean(frame, "Recall@1", pr.conventions.EVIDENTLY) == 1 / 2
    assert mean(frame.drop_nulls(), "Recall@1", pr.conventions.EVIDENTLY) == 1


def test_evidently_adds_the_last_relevant_document_of_a_short_ranking_again() -> None:
    """Its MAP has one more term for each rank that the ranking lacks, and can exceed 1.

    In polars_rank, missing ranks add nothing.
    """
    ours = pr.evaluate(
        recommenders.accuracy_log("Evidently"), "MAP@5", query="user", doc="item",
        position="position", conventions="evidently",
    )  # fmt: skip
    theirs = recommenders.FOUND["means"]["Evidently"]
    assert ours["MAP@5"].item() < theirs["MRR@5"] < theirs["MAP@5"]


def test_evidently_computes_f_beta_of_mean_precision_and_mean_recall() -> None:
    """In polars_rank, it is the mean of the F-measures of the users, with the precision at k."""
    means = recommenders.FOUND["means"]["Evidently"]
    precision, recall = means["PrecisionTopK@5"], means["RecallTopK@5"]
    assert means["FBetaTopK@5"] == pytest.approx(2 * precision * recall / (precision + recall))
    frame = pl.concat([log((2.0, 1), (1.0, 0), query="1"), log((2.0, 1), (1.0, 1), query="2")])
    found = mean(frame, "FBetaTopK@2", pr.conventions.EVIDENTLY)
    assert found == pytest.approx((2 * 0.5 / 1.5 + 1) / 2)


def test_replay_divides_categorical_diversity_by_k() -> None:
    """In polars_rank, this is `category_count(k) / k`."""
    frame = NEW.with_columns(category=pl.Series(["a", "b"]))
    found = pr.evaluate(frame, pr.metrics.category_count(4) / 4, conventions=pr.conventions.REPLAY)
    assert found.item(0, 1) == 2 / 4


def test_evidently_divides_the_gini_index_by_n_minus_1() -> None:
    """Evidently computes it over the recommended documents, and LensKit over the catalog.

    In polars_rank, these are `gini_recommended` and `gini` of `catalog.summary`, with the divisor n
    of the definition.
    """
    shown = pl.DataFrame({"query": [1, 2, 2], "doc": ["a", "a", "b"], "score": [1.0, 2.0, 1.0]})
    items = pl.DataFrame({"doc": ["a", "b", "c"]})
    found = pr.catalog.summary(shown, items=items)
    # The mean absolute difference of two documents, relative to twice the mean.
    assert found["gini_recommended"].item() == pytest.approx((2 * 1 / 4) / (2 * 1.5))
    assert found["gini"].item() == pytest.approx((2 * (1 + 2 + 1) / 9) / (2 * 1))


def test_rectools_counts_documents_as_catalog_coverage() -> None:
    """The count includes documents that are not in the catalog.

    With `normalize=True`, RecTools divides the count by the size of the catalog.

    In polars_rank, the count is `recommended` + `unknown` of `catalog.summary`, and `coverage` is
    the share of the catalog that is recommended.
    """
    shown = pl.DataFrame({"query": 1, "doc": ["a", "new"], "score": [2.0, 1.0]})
    found = pr.catalog.summary(shown, items=pl.DataFrame({"doc": ["a", "b", "c", "d"]}))
    assert found.select("recommended", "unknown", "coverage").row(0) == (1, 1, 1 / 4)
    with pytest.raises(pr.errors.ArgumentError, match="'coverage' of pr.catalog.summary"):
        pr.evaluate(shown, "CatalogCoverage@10")


def test_presets_agree_on_a_log_without_special_cases() -> None:
    """Without ties, grades and unjudged documents, all presets agree on NDCG, RR, and recall."""
    frame = random_log(20, (0, 1), tied=False, pooled=False)
    solvable = frame.filter((pl.col("label").max().over("query") == 1))
    names = ["ndcg@5", "rr", "recall@5"]
    presets = [peer.conventions for peer in PEERS]
    means = [pr.evaluate(solvable, names, conventions=each).select(names).row(0)
             for each in presets]  # fmt: skip
    for found in means:
        assert found == pytest.approx(means[0], rel=1e-12)


def agreement(ratings: list[list[int | None]]) -> dict[str, float]:
    """Return the statistics of all judges, or of two; a column of the matrix is a judge."""
    judges = [f"judge {index}" for index in range(len(ratings[0]))]
    table = pl.DataFrame(ratings, judges, orient="row").with_row_index("doc").with_columns(query=1)
    table = table.unpivot(judges, index=["query", "doc"], variable_name="judge", value_name="label")
    result = pr.judges.agreement(table, n_resamples=1)
    last = result.filter(pl.col("judge") == result["judge"][-1])
    return dict(last.select("statistic", "value").iter_rows())


def test_scikit_learn_weighs_kappa_by_places_of_grades() -> None:
    """With the grades 0, 1 and 5, the distance of 1 and 5 is 1. In `judges.agreement`, it is 4."""
    peer = needs.package("sklearn.metrics", "test")
    ratings = [[0, 1], [0, 5], [5, 5], [1, 1], [0, 0]]
    first, second = zip(*ratings, strict=True)
    places = [[{5: 2}.get(each, each) for each in row] for row in ratings]
    theirs = peer.cohen_kappa_score(first, second, weights="quadratic")
    assert theirs == pytest.approx(agreement(places)["kappa_quadratic"], abs=1e-9)
    assert theirs != pytest.approx(agreement(ratings)["kappa_quadratic"], abs=0.01)


def test_irrcac_estimates_chance_from_documents_with_one_label() -> None:
    """This affects AC2. In `judges.agreement`, these documents do not count."""
    case = IRRCAC[3]
    ours, theirs = agreement(case["ratings"]), case["others"]
    assert ours["agreement"] == pytest.approx(theirs["agreement"], abs=1e-9)
    assert ours["ac2_quadratic"] != pytest.approx(theirs["ac2_quadratic"], abs=1e-3)


def test_irrcac_has_ordinal_weights_of_its_own() -> None:
    """They depend on the grades only. Krippendorff's ordinal distance counts labels."""
    case = IRRCAC[3]
    ours, theirs = agreement(case["ratings"]), case["others"]
    assert ours["alpha_ordinal"] != pytest.approx(theirs["alpha_ordinal"], abs=1e-3)


def test_llamaindex_rejects_queries_without_documents() -> None:
    """It needs retrieved and relevant documents. In polars_rank, undefined values count as 0."""
    values = FOUND["values"]["LlamaIndex"]["recall"]
    ours = pr.per_query(rag_log(), "recall", duplicates="max")["recall"].to_list()
    rejected = [own for own, theirs in zip(ours, values, strict=True) if theirs is None]
    assert set(rejected) == {0}


def test_mlflow_counts_queries_without_documents_as_1() -> None:
    """These have neither retrieved nor relevant documents. In polars_rank, they count as 0."""
    names = ["recall_at_3", "ndcg_at_3"]
    empty = [i for i, each in enumerate(RANKINGS) if not each["retrieved"] and not each["relevant"]]
    ours = pr.per_query(rag_log(), names, duplicates="max").filter(pl.col("query").is_in(empty))
    assert empty
    assert ours.select(names).rows() == [(0, 0)] * len(empty)
    assert {FOUND["values"]["MLflow"][name][query] for name in names for query in empty} == {1}


def test_elasticsearch_can_ignore_unrated_hits() -> None:
    """With `ignore_unlabeled`, precision is `precision(k) / judged(k, depth='retrieved')`.

    With `unjudged="removed"`, hits below k take the ranks of unrated hits.
    """
    frame = log((3.0, None), (2.0, 1), (1.0, 0), (0.5, 1))
    pair = pr.precision(3, depth="retrieved"), pr.judged(3, depth="retrieved")
    own = pr.evaluate(frame, (pair[0] / pair[1]).alias("precision"))["precision"].item()
    assert own == 1 / 2
    assert pr.evaluate(frame, pair[0], unjudged="removed").item(0, 1) == 2 / 3
