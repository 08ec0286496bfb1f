"""The metrics of each peer, with their names in the peer and in polars_rank.

The table in examples/guide/peers.md is generated from this list. `test_conformance.py` compares each
pair, and `test_differences.py` tests known differences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl
import polars_rank as pr
from polars_rank.metrics.aliases import SETS
from polars_rank.metrics.names import read

from . import peers


@dataclass(frozen=True)
class Peer:
    """A tool, its preset, and its metrics.

    Parameters
    ----------
    name
        Name of the tool.
    conventions
        Preset that reproduces the tool.
    values
        Function that evaluates metrics with the tool.
    logs
        Names of the logs that the tool supports.
    pairs
        Metrics by their names in the tool: the name in polars_rank, or None if `pr.metric`
        accepts the tool's name.
    module, group
        Module to import, and the group of dependencies that has it.
    tolerance
        Largest difference allowed: 1e-9, or more if the tool computes in 32 bits or prints few
        digits.
    only
        Names of the logs for metrics that the tool supports only on some logs, by the metric's
        name up to "(" or "@".
    means
        Function that returns the means that the tool reports; None if it reports none.
    part
        Function that returns the part of a log that the tool averages without a failure.
    different
        Metrics with another mean, which `test_differences.py` tests, by the metric's name up to
        "(" or "@".
    """

    name: str
    conventions: pr.Conventions
    values: Callable[..., peers.Values]
    logs: tuple[str, ...]
    pairs: dict[str, str | None]
    module: str
    group: str = "conformance"
    tolerance: float = 1e-9
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    means: Callable[..., peers.Means] | None = None
    part: Callable[[pl.DataFrame], pl.DataFrame] = lambda log: log
    different: tuple[str, ...] = ()

    def ours(self, name: str) -> pr.Metric:
        """Return the metric for a name in the tool."""
        return read(self.pairs[name] or name, self.conventions.name)

    def on(self, log: str) -> list[str]:
        """Return the names of the metrics to compare on a log."""
        return [name for name in self.pairs if log in self.only.get(family(name), self.logs)]


def family(name: str) -> str:
    """Return a name without parameters and cutoff."""
    return name.partition("(")[0].partition("@")[0].partition(":")[0]


def named(*names: str) -> dict[str, str | None]:
    """Return pairs for names that `pr.metric` accepts."""
    return dict.fromkeys(names)


PEERS = [
    Peer(
        "pytrec_eval",
        pr.conventions.TREC_EVAL_9,
        peers.pytrec_eval,
        ("grades", "negative", "untied", "trec", "search"),
        named(*SETS["all_trec"]),
        module="pytrec_eval",
        group="test",
        means=peers.pytrec_eval_means,
        part=peers.of_trec_eval,
    ),
    Peer(
        "ir_measures",
        pr.conventions.IR_MEASURES,
        peers.ir_measures,
        ("grades", "negative", "positive scores", "untied"),
        named(
            "P@5", "P(rel=2)@3", "RR", "RR@3", "RR(rel=2)", "RR(rel=2)@3", "Rprec", "Rprec(rel=2)",
            "AP", "AP@3", "AP(rel=2)", "AP(rel=2)@100", "nDCG", "nDCG@3", "R@3", "R(rel=2)@3",
            "Bpref", "Bpref(rel=2)", "NumRet", "NumRet(rel=1)", "NumRet(rel=2)", "NumQ", "NumRel",
            "SetAP", "SetF", "SetF(beta=2.0)", "SetF(beta=0.5)", "SetP", "SetP(relative=True)",
            "SetR", "Success@1", "Success(rel=2)@3", "IPrec@0.0", "IPrec@0.1", "IPrec@0.55",
            "IPrec(rel=2)@1.0", "infAP", "infAP(rel=2)", "Judged@3", "Judged@10", "Compat",
            "Compat(p=0.8)", "Compat(normalize=False)",
        ),
        module="ir_measures",
        group="test",
        only={"Compat": ("positive scores", "untied")},
        means=peers.ir_measures_means,
        part=peers.of_trec_eval,
        different=("NumQ", "NumRel"),
    ),
    Peer(
        "ir_measures (accuracy)",
        pr.conventions.IR_MEASURES,
        peers.ir_accuracy,
        ("grades", "negative", "untied"),
        named("Accuracy", "Accuracy@3", "Accuracy(rel=2)@5"),
        module="ir_measures",
        group="test",
        means=peers.ir_measures_means,
        part=peers.of_ir_accuracy,
    ),
    Peer(
        "ir_measures (gdeval)",
        pr.conventions.IR_MEASURES,
        peers.ir_measures,
        ("grades", "negative", "untied"),
        named("ERR@3", "ERR@20", "nDCG(dcg='exp-log2')@3", "nDCG(dcg='exp-log2')@20"),
        module="ir_measures",
        group="test",
        tolerance=6e-6,
        only={"nDCG": ("untied",)},
        means=peers.ir_measures_means,
        part=peers.of_trec_eval,
    ),
    Peer(
        "ir_measures (cwl_eval)",
        pr.conventions.IR_MEASURES,
        peers.ir_measures,
        ("grades", "negative", "untied"),
        named(
            "RBP(p=0.8,rel=1)", "RBP(p=0.5,rel=2)", "SDCG(max_rel=4)@5",
            "SDCG(max_rel=4,min_rel=1)@5", "BPM(max_rel=4,T=2.0)@5", "NERR8(max_rel=4)@5",
            "NERR9(max_rel=4)@5", "NERR10(max_rel=4,p=0.9)", "NERR11(max_rel=4,T=1.0)",
            "INST(max_rel=4,T=2.0)", "INSQ(max_rel=4,T=1.0)",
        ),
        module="cwl",
        means=peers.ir_measures_means,
        part=peers.of_trec_eval,
    ),
    Peer(
        "ir_measures (pyndeval)",
        pr.conventions.IR_MEASURES,
        peers.diverse_ir_measures,
        ("subtopics", "more subtopics"),
        named(
            "alpha_DCG@1", "alpha_DCG@20", "alpha_nDCG@5", "alpha_nDCG(alpha=0.25)@20",
            "ERR_IA@20", "nERR_IA@20", "NRBP", "NRBP(alpha=0.25,beta=0.75)", "nNRBP", "AP_IA",
            "P_IA@10", "StRecall@10",
        ),
        module="pyndeval",
        tolerance=1e-12,
        means=peers.ir_measures_means,
    ),
    Peer(
        "pyndeval",
        pr.conventions.NDEVAL,
        peers.pyndeval,
        ("subtopics", "more subtopics"),
        named(
            "ERR-IA@1", "ERR-IA@5", "ERR-IA@20", "nERR-IA@1", "nERR-IA@5", "nERR-IA@20",
            "alpha-DCG@1", "alpha-DCG@5", "alpha-DCG@20", "alpha-nDCG@1", "alpha-nDCG@5",
            "alpha-nDCG@20", "P-IA@1", "P-IA@5", "P-IA@20", "strec@1", "strec@5", "strec@20",
            "NRBP", "nNRBP", "MAP-IA",
        ),
        module="pyndeval",
        tolerance=1e-12,
    ),
    Peer(
        "ranx",
        pr.conventions.RANX,
        peers.ranx,
        ("untied", "untied, negative", "search"),
        named(
            "hits", "hits@3", "hit_rate", "hit_rate@3", "precision", "precision@3", "recall",
            "recall@3", "f1", "f1@3", "r-precision", "mrr", "mrr@3", "map", "map@3", "dcg",
            "dcg@3", "dcg_burges", "dcg_burges@3", "ndcg", "ndcg@3", "ndcg_burges",
            "ndcg_burges@3", "rbp.95", "rbp.5", "map-l2", "precision@3-l2", "ndcg@3-l2",
            "ndcg_burges@3-l2",
        ),
        module="ranx",
        means=peers.ranx_means,
    ),
    Peer(
        "ranx (bpref)",
        pr.conventions.RANX,
        lambda log, names: peers.ranx(peers.of_ranx_bpref(log), names),
        ("untied", "search"),
        named("bpref"),
        module="ranx",
        means=peers.ranx_means,
        part=peers.of_ranx_bpref,
    ),
    Peer(
        "scikit-learn (average precision)",
        pr.conventions.SKLEARN,
        peers.scikit_learn,
        ("scored", "scored, fractional", "search"),
        named("average_precision_score()"),
        module="sklearn",
        group="test",
        means=peers.scikit_learn_means,
        part=peers.of_scikit_learn_average_precision,
    ),
    Peer(
        "scikit-learn",
        pr.conventions.SKLEARN,
        peers.scikit_learn,
        ("scored", "scored, fractional", "search"),
        named(
            "ndcg_score()", "ndcg_score(k=3)", "dcg_score()", "dcg_score(k=3)", "roc_auc_score()",
            "label_ranking_average_precision_score()", "label_ranking_loss()", "coverage_error()",
        )
        | {
            "dcg_score(k=3, log_base=10)": "dcg(discount=log(10))@3",
            "roc_auc_score(max_fpr=0.3)": "partial_auc(max_fpr=0.3)",
            "accuracy_score(k=3)": "classification_accuracy@3",
            "matthews_corrcoef(k=3)": "mcc@3",
            "precision_score(k=3)": "precision(depth='retrieved')@3",
            "recall_score(k=3)": "recall@3",
        },
        module="sklearn",
        group="test",
        only={
            name: ("scored, untied",)
            for name in ("accuracy_score", "matthews_corrcoef", "precision_score", "recall_score")
        },
        means=peers.scikit_learn_means,
        part=peers.of_one_length,
    ),
    Peer(
        "torchmetrics",
        pr.conventions.TORCHMETRICS,
        peers.torchmetrics,
        ("scored, untied",),
        {
            f"retrieval_{name}({parameters})": None
            for name, several in {
                "average_precision": ("", "top_k=3"),
                "reciprocal_rank": ("", "top_k=3"),
                "precision": ("", "top_k=3", "top_k=3, adaptive_k=True"),
                "recall": ("", "top_k=3"),
                "fall_out": ("", "top_k=3"),
                "hit_rate": ("", "top_k=3"),
                "normalized_dcg": ("", "top_k=3"),
                "r_precision": ("",),
                "auroc": ("",),
            }.items()
            for parameters in several
        },
        module="torchmetrics",
        tolerance=1e-6,
        only={"retrieval_normalized_dcg": ("scored", "scored, fractional", "search")},
        means=peers.torchmetrics_means,
    ),
    Peer(
        "LightGBM",
        pr.conventions.LIGHTGBM,
        peers.lightgbm,
        ("scored", "search"),
        named("ndcg@1", "ndcg@3", "ndcg@100", "map@1", "map@3", "map@100", "auc"),
        module="lightgbm",
        only={"map": ("scored", "scored, fractional", "search"), "auc": ("scored, binary",)},
        means=peers.lightgbm_means,
        different=("auc",),
    ),
    Peer(
        "XGBoost",
        pr.conventions.XGBOOST,
        peers.xgboost,
        ("scored", "scored, binary", "search"),
        named("ndcg@1", "ndcg@3", "ndcg", "map@1", "map@3", "map", "pre@1", "pre@3", "pre"),
        module="xgboost",
        only={name: ("scored, binary",) for name in ("map", "pre")},
        means=peers.xgboost_means,
    ),
    Peer(
        "CatBoost",
        pr.conventions.CATBOOST,
        peers.catboost,
        ("scored", "scored, fractional", "scored, probability", "search"),
        {
            "NDCG": "ndcg",
            "NDCG:top=3": "ndcg@3",
            "NDCG:top=3;type=Exp": "ndcg(gain='exp2')@3",
            "NDCG:top=3;denominator=Position": "ndcg(discount='reciprocal')@3",
            "DCG": "dcg",
            "DCG:top=3;type=Exp;denominator=Position": "dcg(gain='exp2', discount='reciprocal')@3",
            "MRR": "reciprocal_rank",
            "MRR:top=3": "reciprocal_rank@3",
            "MAP": "average_precision",
            "MAP:top=3": "average_precision@3",
            "PrecisionAt:top=3": "precision(depth='retrieved')@3",
            "RecallAt:top=3": "recall@3",
            "AUC": "roc_auc",
            "PFound": "pfound",
            "PFound:top=3;decay=0.5": "pfound(decay=0.5)@3",
        },
        module="catboost",
        only={"PFound": ("scored, probability", "scored, binary"), "AUC": ("scored, binary",)},
        means=peers.catboost_means,
        different=("AUC",),
    ),
]  # fmt: skip
