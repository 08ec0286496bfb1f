"""Names of metrics in other tools, common long forms, and measures that are not metrics."""

from __future__ import annotations

from typing import Any

#: Other names for a metric in lower case: those of other tools, and common long forms.
_OTHER_NAMES = {
    "average_precision": "ap map map_cut mean_average_precision averageprecision",
    "reciprocal_rank": "rr mrr recip_rank reciprank mean_reciprocal_rank",
    "precision": "p pre precisiontopk",
    "recall": "r recalltopk",
    "fbeta": "f f1beta fbetatopk",
    "r_precision": "rprec r-precision rprec_mult rprecision",
    "hit_rate": "success hit any recall_any hr hitrate hit_ratio",
    "full_recall": "all recall_all",
    "ndcg":
        "ndcg_cut ndcg_burges normalized_dcg normalizeddcg ndcg_score "
        "normalized_discounted_cumulative_gain normalised_discounted_cumulative_gain "
        "normalised_dcg",
    "dcg": "dcg_burges dcg_score discounted_cumulative_gain",
    "ideal_dcg": "idcg ideal_discounted_cumulative_gain",
    "roc_auc": "auc auroc roc_auc_score",
    "set_precision": "set_p setp",
    "set_recall": "setr",
    "set_f": "setf",
    "set_ap": "set_map setap",
    "set_relative_precision": "set_relative_p setrelp",
    "relative_precision": "relative_p",
    "recall_capped": "r_cap",
    "num_retrieved": "num_ret numret",
    "num_relevant": "num_rel numrel",
    "num_relevant_retrieved": "num_rel_ret numrelret",
    "num_nonrelevant_judged_retrieved": "num_nonrel_judged_ret",
    "unjudged": "unj",
    "inf_ap": "infap inferred_average_precision",
    "log_average_precision": "gm_map gmap geometric_mean_average_precision",
    "log_bpref": "gm_bpref",
    "g_measure": "g",
    "binary_g": "bing",
    "rbp_residual": "rbp_resid",
    "average_relevance_position": "arp",
    "ordered_pair_accuracy": "opa",
    "eleven_point": "11pt_avg",
    "interpolated_precision": "iprec iprec_at_recall",
    "num_queries": "num_q numq",
    "fall_out": "fallout",
    "label_ranking_average_precision":
        "average_precision_score label_ranking_average_precision_score lrap",
    "kendall_tau_b": "tau_b",
    "cg": "cumulative_gain",
    "err": "expected_reciprocal_rank",
    "rbp": "rank_biased_precision",
    "bpref": "binary_preference",
    "f1": "f1_score",
    "classification_accuracy": "accuracy_score",
    "mcc": "matthews_correlation_coefficient",
    "alpha_dcg": "alpha-dcg",
    "alpha_ndcg": "alpha-ndcg",
    "err_ia": "err-ia",
    "nerr_ia": "nerr-ia",
    "ap_ia": "map-ia map_ia",
    "precision_ia": "p-ia p_ia",
    "subtopic_recall": "strec strecall s_recall i-rec",
    "d_sharp_ndcg": "d#-ndcg",
    "novelty": "miuf mean_inv_user_freq mean_inverse_user_frequency meaninvuserfreq",
    "popularity": "avg_rec_popularity avgrecpopularity average_recommendation_popularity",
    "intra_list_diversity": "ild intralistdiversity",
    "long_tail_share": "longtailshare aplt",
}  # fmt: skip
#: Names by Burges et al., whose gain is 2^label - 1.
_EXP2 = ("dcg_burges", "ndcg_burges")
#: Metrics and parameters by other names.
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    alias: (name, {"gain": "exp2"} if alias in _EXP2 else {})
    for name, others in _OTHER_NAMES.items()
    for alias in others.split()
}

#: Names that mean a metric, and parameters, under a tool's conventions only, as they have another
#: meaning elsewhere.
TOOL_ALIASES: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    ("ranx", "hits"): ("num_relevant_retrieved", {}),
    ("ir_measures", "accuracy"): ("pair_accuracy", {}),
    ("RecTools", "accuracy"): ("classification_accuracy", {}),
    ("scikit-learn", "accuracy"): ("classification_accuracy", {}),
    ("sentence-transformers", "accuracy"): ("hit_rate", {}),
    ("Vespa", "accuracy"): ("hit_rate", {}),
    ("Quepid", "ndcg_cut"): ("ndcg", {"ideal": "judged"}),
    ("RePlay", "novelty"): ("unseen_share", {}),
    ("RecTools", "arp"): ("popularity", {}),
    ("Evidently", "arp"): ("popularity", {}),
    ("Evidently", "diversity"): ("intra_list_diversity", {}),
    ("LensKit", "recall"): ("recall_capped", {}),
}

#: Other meanings of the name of a metric.
OTHER_MEANINGS = {
    "average_relevance_position": (
        "in RecTools and Evidently, ARP is the average recommendation popularity, 'popularity'"
    ),
    "popularity": "without a preset, ARP is the average relevance position",
    "novelty": "in RePlay, Novelty is the share of unseen documents, 'unseen_share'",
    "unseen_share": "in RecTools and Evidently, Novelty is self-information, 'novelty'",
}

_SUMMARY = "pr.catalog.summary"
#: What to use for measures that are not metrics, but results of functions or of other metrics.
FUNCTIONS_OF = {
    "catalogcoverage": f"'coverage' of {_SUMMARY} (a count in RecTools: 'recommended' + 'unknown')",
    "catalog_coverage": f"'coverage' of {_SUMMARY}",
    "item_coverage": f"'recommended' of {_SUMMARY}",
    "itemcoverage": f"'recommended' of {_SUMMARY}",
    "coverage": f"'coverage' of {_SUMMARY}",
    "gini": (
        f"'gini' of {_SUMMARY}, over the catalog (LensKit), or 'gini_recommended', over the "
        "recommended documents, which Evidently multiplies by n / (n - 1)"
    ),
    "listgini": f"'gini' of {_SUMMARY}",
    "exposuregini": f"'gini' of {_SUMMARY} with a `discount`",
    **dict.fromkeys(("gauc", "uauc", "grouped_auc"), "pr.grouped_auc"),
    "personalization": f"'personalization' of {_SUMMARY}",
    "rocauc": (
        "pr.roc_auc(), or as in RePlay, of the first k documents, "
        "pl.coalesce(pr.metrics.pair_accuracy(k), pr.hit_rate(k))"
    ),
    "categoricaldiversity": "pr.metrics.category_count(k) / k",
    "ils": "1 - pr.intra_list_diversity(k, ...)",
    "rbo": "pr.diagnostics.overlap(a, b, 'rbo')",
}

#: What to use instead of an ambiguous name.
MEANINGS = {
    "accuracy": (
        "use 'hit_rate' for whether a relevant document is among the first k "
        "(sentence-transformers, BEIR), 'classification_accuracy' for the share of the documents "
        "that the cutoff classifies right (RecTools), or 'pair_accuracy' for pairs of documents "
        "(ir_measures)"
    ),
    "hits": (
        "use 'hit_rate' for whether a relevant document was retrieved, or "
        "'num_relevant_retrieved' for how many were (ranx's hits)"
    ),
}

_DEPTHS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
_SET = ["num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_relative_P",
        "set_recall", "set_map", "set_F"]  # fmt: skip
_OFFICIAL = [
    *("num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref"),
    "recip_rank",
    *(f"iprec_at_recall_{tenth / 10:.2f}" for tenth in range(11)),
    *(f"P_{k}" for k in _DEPTHS),
]

#: Names of trec_eval that mean several metrics.
SETS: dict[str, list[str]] = {
    "official": _OFFICIAL,
    "set": _SET,
    "all_trec": [
        *_OFFICIAL,
        *(name for name in _SET if name not in _OFFICIAL),
        *("num_nonrel_judged_ret", "gm_bpref", "infAP", "11pt_avg", "G", "binG", "Rndcg"),
        *("ndcg", "ndcg_rel", "success_1", "success_5", "success_10"),
        *(f"Rprec_mult_{fifth / 5:.2f}" for fifth in range(1, 11)),
        *(f"{name}_{k}" for name in ("relative_P", "recall", "ndcg_cut", "map_cut")
          for k in _DEPTHS),
    ],
}  # fmt: skip
