"""Names of metrics in other tools, common long forms, and measures that are not metrics."""

from __future__ import annotations

from typing import Any

#: Other names for a metric in lower case: those of other tools, and common long forms.
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ap": ("average_precision", {}),
    "map": ("average_precision", {}),
    "map_cut": ("average_precision", {}),
    "mean_average_precision": ("average_precision", {}),
    "rr": ("reciprocal_rank", {}),
    "mrr": ("reciprocal_rank", {}),
    "recip_rank": ("reciprocal_rank", {}),
    "reciprank": ("reciprocal_rank", {}),
    "p": ("precision", {}),
    "r": ("recall", {}),
    "f": ("fbeta", {}),
    "rprec": ("r_precision", {}),
    "r-precision": ("r_precision", {}),
    "success": ("hit_rate", {}),
    "hit": ("hit_rate", {}),
    "any": ("hit_rate", {}),
    "recall_any": ("hit_rate", {}),
    "all": ("full_recall", {}),
    "recall_all": ("full_recall", {}),
    "ndcg_cut": ("ndcg", {}),
    "ndcg_burges": ("ndcg", {"gain": "exp2"}),
    "dcg_burges": ("dcg", {"gain": "exp2"}),
    "idcg": ("ideal_dcg", {}),
    "auc": ("roc_auc", {}),
    "auroc": ("roc_auc", {}),
    "hr": ("hit_rate", {}),
    "set_p": ("set_precision", {}),
    "setp": ("set_precision", {}),
    "setr": ("set_recall", {}),
    "setf": ("set_f", {}),
    "set_map": ("set_ap", {}),
    "setap": ("set_ap", {}),
    "set_relative_p": ("set_relative_precision", {}),
    "relative_p": ("relative_precision", {}),
    "r_cap": ("recall_capped", {}),
    "num_ret": ("num_retrieved", {}),
    "numret": ("num_retrieved", {}),
    "num_rel": ("num_relevant", {}),
    "numrel": ("num_relevant", {}),
    "num_rel_ret": ("num_relevant_retrieved", {}),
    "numrelret": ("num_relevant_retrieved", {}),
    "num_nonrel_judged_ret": ("num_nonrelevant_judged_retrieved", {}),
    "unj": ("unjudged", {}),
    "infap": ("inf_ap", {}),
    "gm_map": ("log_average_precision", {}),
    "gm_bpref": ("log_bpref", {}),
    "g": ("g_measure", {}),
    "bing": ("binary_g", {}),
    "rbp_resid": ("rbp_residual", {}),
    "arp": ("average_relevance_position", {}),
    "opa": ("ordered_pair_accuracy", {}),
    "11pt_avg": ("eleven_point", {}),
    "iprec": ("interpolated_precision", {}),
    "iprec_at_recall": ("interpolated_precision", {}),
    "rprec_mult": ("r_precision", {}),
    "num_q": ("num_queries", {}),
    "numq": ("num_queries", {}),
    "setrelp": ("set_relative_precision", {}),
    "gmap": ("log_average_precision", {}),
    "normalized_dcg": ("ndcg", {}),
    "normalizeddcg": ("ndcg", {}),
    "hitrate": ("hit_rate", {}),
    "fallout": ("fall_out", {}),
    "rprecision": ("r_precision", {}),
    "pre": ("precision", {}),
    "ndcg_score": ("ndcg", {}),
    "dcg_score": ("dcg", {}),
    "roc_auc_score": ("roc_auc", {}),
    "average_precision_score": ("label_ranking_average_precision", {}),
    "label_ranking_average_precision_score": ("label_ranking_average_precision", {}),
    "lrap": ("label_ranking_average_precision", {}),
    "tau_b": ("kendall_tau_b", {}),
    "mean_reciprocal_rank": ("reciprocal_rank", {}),
    "cumulative_gain": ("cg", {}),
    "discounted_cumulative_gain": ("dcg", {}),
    "ideal_discounted_cumulative_gain": ("ideal_dcg", {}),
    "normalized_discounted_cumulative_gain": ("ndcg", {}),
    "normalised_discounted_cumulative_gain": ("ndcg", {}),
    "normalised_dcg": ("ndcg", {}),
    "expected_reciprocal_rank": ("err", {}),
    "rank_biased_precision": ("rbp", {}),
    "geometric_mean_average_precision": ("log_average_precision", {}),
    "inferred_average_precision": ("inf_ap", {}),
    "binary_preference": ("bpref", {}),
    "hit_ratio": ("hit_rate", {}),
    "f1_score": ("f1", {}),
    "f1beta": ("fbeta", {}),
    "fbetatopk": ("fbeta", {}),
    "precisiontopk": ("precision", {}),
    "recalltopk": ("recall", {}),
    "averageprecision": ("average_precision", {}),
    "accuracy_score": ("classification_accuracy", {}),
    "matthews_correlation_coefficient": ("mcc", {}),
    "alpha-dcg": ("alpha_dcg", {}),
    "alpha-ndcg": ("alpha_ndcg", {}),
    "err-ia": ("err_ia", {}),
    "nerr-ia": ("nerr_ia", {}),
    "map-ia": ("ap_ia", {}),
    "map_ia": ("ap_ia", {}),
    "p-ia": ("precision_ia", {}),
    "p_ia": ("precision_ia", {}),
    "strec": ("subtopic_recall", {}),
    "strecall": ("subtopic_recall", {}),
    "s_recall": ("subtopic_recall", {}),
    "i-rec": ("subtopic_recall", {}),
    "d#-ndcg": ("d_sharp_ndcg", {}),
    "miuf": ("novelty", {}),
    "mean_inv_user_freq": ("novelty", {}),
    "mean_inverse_user_frequency": ("novelty", {}),
    "meaninvuserfreq": ("novelty", {}),
    "avg_rec_popularity": ("popularity", {}),
    "avgrecpopularity": ("popularity", {}),
    "average_recommendation_popularity": ("popularity", {}),
    "ild": ("intra_list_diversity", {}),
    "intralistdiversity": ("intra_list_diversity", {}),
    "longtailshare": ("long_tail_share", {}),
    "aplt": ("long_tail_share", {}),
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

#: What to use instead of metrics of ragas and LlamaIndex, by their names without underscores. The
#: other metrics of LlamaIndex have names that are understood.
OF_GENERATION = {
    **dict.fromkeys(
        (
            *("contextprecision", "contextutilization", "llmcontextprecisionwithreference"),
            *("llmcontextprecisionwithoutreference", "nonllmcontextprecisionwithreference"),
        ),
        "use \"average_precision(norm='hits')\", or by ids 'set_precision'",
    ),
    "idbasedcontextprecision": "use 'set_precision'",
    **dict.fromkeys(
        ("contextrecall", "llmcontextrecall", "nonllmcontextrecall", "idbasedcontextrecall"),
        "use 'recall'",
    ),
    **dict.fromkeys(
        (
            *("faithfulness", "answerrelevancy", "responserelevancy", "answercorrectness"),
            *("factualcorrectness", "answersimilarity", "semanticsimilarity", "noisesensitivity"),
            *("relevancy", "correctness", "responsegroundedness"),
        ),
        "it evaluates generated answers, not rankings; there is no equivalent",
    ),
    **dict.fromkeys(
        ("contextrelevance", "contextrelevancy", "contextentityrecall"),
        "it evaluates the text of documents, not rankings; there is no equivalent",
    ),
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
