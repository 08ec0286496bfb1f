"""Names of metrics: dialects, parameters, round trips, and errors with hints."""

from __future__ import annotations

import re

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

# All names of metrics.
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.aliases import ALIASES, SETS

SAME = {
    "ndcg": "ndcg", "ndcg@10": "ndcg@10", "NDCG@10": "ndcg@10", " ndcg@10 ": "ndcg@10",
    "ndcg()@10": "ndcg@10", "ndcg(k=10)": "ndcg@10",
    "ndcg(gain='exp2')@10": "ndcg(gain='exp2')@10",
    'ndcg(gain="exp2", k=10)': "ndcg(gain='exp2')@10",
    "ndcg(gain=exp2)@10": "ndcg(gain='exp2')@10",
    "dcg(gain={0: 0, 1: 3})": "dcg(gain={0: 0, 1: 3})",
    "dcg(discount=jarvelin(3))": "dcg(discount=jarvelin(3))",
    "dcg(discount=log(2.5))@5": "dcg(discount=log(2.5))@5", "rbp(p=0.95)": "rbp(p=0.95)",
    "rbp(p=0.8)": "rbp",
    "precision(depth='retrieved', short='null')@3": "precision(depth='retrieved', short='null')@3",
    "AP": "average_precision", "AP@100": "average_precision@100", "RR": "reciprocal_rank",
    "P@5": "precision@5", "R@1000": "recall@1000", "nDCG@20": "ndcg@20", "Rprec": "r_precision",
    "Success@1": "hit_rate@1", "RBP(p=0.5)": "rbp(p=0.5)", "map": "average_precision",
    "map_cut_10": "average_precision@10", "map_cut.10": "average_precision@10",
    "ndcg_cut_10": "ndcg@10", "P_5": "precision@5", "recall_100": "recall@100",
    "recip_rank": "reciprocal_rank", "success_1": "hit_rate@1", "mrr@10": "reciprocal_rank@10",
    "ndcg_burges@10": "ndcg(gain='exp2')@10", "dcg_burges": "dcg(gain='exp2')",
    "r-precision": "r_precision", "auc": "roc_auc", "f1@3": "f1@3",
    "nDCG(dcg='exp-log2')@10": "ndcg(gain='exp2')@10", "nDCG(dcg='log2')@10": "ndcg@10",
    "nDCG(gains={0: 0, 1: 2})@5": "ndcg(gain={0: 0, 1: 2})@5",
    "nDCG(cutoff=3, judged_only=False)": "ndcg@3",
    "AP(rel=2)@100": "average_precision(rel=2)@100", "RBP(p=0.8,rel=1)": "rbp(rel=1)",
    "IPrec@0.1": "interpolated_precision(recall=0.1)", "SetF(beta=4)": "set_f(beta=2.0)",
    "SetP(relative=True)": "set_relative_precision", "SetP(relative=False)": "set_precision",
    "NumRet(rel=2)": "num_relevant_retrieved(rel=2)", "NumQ": "num_queries",
    "SDCG(max_rel=4, min_rel=1)@5": "sdcg(max_grade=4, min_grade=1)@5",
    "iprec_at_recall_0.10": "interpolated_precision(recall=0.1)",
    "iprec_at_recall.0.10": "interpolated_precision(recall=0.1)", "11pt_avg": "eleven_point",
    "gm_map": "log_average_precision", "Rprec_mult_0.20": "r_precision(multiple=0.2)",
    "relative_P_5": "relative_precision@5", "set_F_4": "set_f(beta=2.0)",
    "rbp_0.95": "rbp(p=0.95)", "rbp.95": "rbp(p=0.95)", "map-l2": "average_precision(rel=2)",
    "precision@3-l2": "precision(rel=2)@3", "ndcg@10-l2": "ndcg(gain=at_least(2))@10",
    "ndcg_burges@10-l1": "ndcg(gain=at_least(1, exp2))@10",
    "mean_reciprocal_rank@10": "reciprocal_rank@10",
    "Mean_Average_Precision": "average_precision",
    "normalized_discounted_cumulative_gain@10": "ndcg@10",
    "normalised_discounted_cumulative_gain_5": "ndcg@5",
    "discounted_cumulative_gain@10": "dcg@10", "expected_reciprocal_rank@10": "err@10",
    "rank_biased_precision(p=0.5)": "rbp(p=0.5)", "hit_ratio@10": "hit_rate@10",
    "recall_any@10": "hit_rate@10", "any@10": "hit_rate@10", "recall_all@10": "full_recall@10",
    "all@10": "full_recall@10", "RetrievalMAP": "average_precision",
    "RetrievalNormalizedDCG(top_k=5)": "ndcg@5",
    "RetrievalPrecision(top_k=5, adaptive_k=True)": "precision(depth='retrieved')@5",
    "RetrievalPrecision(adaptive_k=False)": "precision", "retrieval_auroc": "roc_auc",
    "retrieval_hit_rate": "hit_rate", "ndcg_score(k=5)": "ndcg@5", "roc_auc_score": "roc_auc",
}  # fmt: skip


def test_dialects() -> None:
    for asked, name in SAME.items():
        metric = pr.metric(asked)
        assert (str(metric), metric.output_name, str(pr.metric(name))) == (name, asked, name)
    for name, metric in (
        ("ndcg(gain='exp2')@10", pr.ndcg(10, gain=pr.gains.exp2)),
        ("ndcg(gain='exp2')@10", pr.ndcg(k=10, gain="exp2")),
        ("dcg(discount='jarvelin')", pr.dcg(discount="jarvelin")),
        ("dcg(discount='reciprocal')", pr.dcg(discount=pr.discounts.reciprocal)),
        ("dcg(discount=log(10))", pr.dcg(discount=pr.discounts.log(10))),
        ("dcg(discount=jarvelin(1.0000001))", pr.dcg(discount=pr.discounts.jarvelin(1.0000001))),
        ("dcg(gain={0: 0, 1: 3})", pr.dcg(gain={0: 0, 1: 3})),
        ("fbeta(beta=2)", pr.fbeta(beta=2)),
    ):
        assert str(metric) == metric.output_name == metric.meta.output_name() == name
        assert pr.metric(name).meta.eq(metric)


def test_aliases_are_lower_case_names_of_metrics() -> None:
    for name in ALIASES:
        function, arguments = ALIASES[name]
        assert name == name.lower() and name not in REGISTER
        assert pr.metric(name).meta.eq(REGISTER[function](**arguments).alias(name)), name


def test_no_digit_of_a_base_is_lost() -> None:
    """The base of `log()` is e, which six digits cannot represent."""
    rank = pl.Series([1, 2, 9])
    for base in (2.718281828459045, 1.1, 10):
        for discount in (pr.discounts.log(base), pr.discounts.jarvelin(base)):
            written = eval(
                discount.__name__, {"log": pr.discounts.log, "jarvelin": pr.discounts.jarvelin}
            )
            assert pl.select(written(rank)).equals(pl.select(discount(rank)))


def test_output_keeps_the_given_name() -> None:
    log = pl.DataFrame({"query": [1], "score": [1.0], "label": [1]})
    asked = ["nDCG@10", "ndcg_cut_10", "map", " rr ", "ndcg(gain=exp2)@10"]
    assert pr.per_query(log, asked).columns == ["query", *asked]
    metric = pr.ndcg(10).alias("quality")
    assert isinstance(metric, pr.Metric)
    assert (str(metric), metric.output_name) == ("ndcg@10", "quality")
    assert (metric.meta.output_name(), repr(metric)) == ("quality", "<Metric ndcg@10>")


UNREADABLE = [
    ("ngcd@10", "unknown metric 'ngcd'. Did you mean 'ndcg@10'"),
    ("recip_rnk", "Did you mean 'recip_rank'"),
    ("CatalogCoverge", "Did you mean 'catalogcoverage'"),
    ("ndcg10", "unknown metric 'ndcg10'. Did you mean 'ndcg@10'?"),
    ("xyz", "unknown metric 'xyz'. pr.list_metrics() and the command"),
    ("hits", "'hits' is ambiguous; use 'hit_rate'"),
    ("accuracy@3", "'accuracy' is ambiguous; use 'hit_rate' for whether a relevant document"),
    ("gauc", "'gauc' is not a metric; use pr.grouped_auc"),
    ("", "invalid metric ''"),
    ("ndcg(gain='exp2'@10", "invalid metric"),
    ("ndcg@3-", "found '3-' in 'ndcg@3-'; write the cutoff like 'ndcg@10'"),
    ("ndcg@", "`k` must be a positive integer; found ''"),
    ("ndcg@0", "`k` must be a positive integer; found 0"),
    ("ndcg@2.5", "`k` must be a positive integer; found '2.5'"),
    ("ndcg(10)", "invalid parameters in 'ndcg(10)'"),
    ("rbp(p=open('x'))", "invalid parameters in"),
    ("dcg(discount=ln)", "invalid parameters in"),
    ("ndcg(gian='exp2')", "ndcg has no parameter 'gian'"),
    ("roc_auc@5", "roc_auc has no parameter 'k' (in 'roc_auc@5'); available: 'rel'"),
    ("ndcg(gain='exp')", "`gain` must be 'linear', 'exp2'"),
    ("ndcg(k=5)@10", "`k` is given twice in 'ndcg(k=5)@10'"),
    ("AP(judged_only=True)", "use unjudged='removed' instead"),
    ("nDCG(dcg='log')", "invalid parameter dcg='log'"),
    ("IPrec@half", "`recall` must be a number from 0 to 1"),
    ("num_q-l2", "num_queries has no parameter 'rel'"),
    ("official", "'official' means 29 metrics; name one, such as 'num_q'"),
    ("ndcg@" + "1" * 5000,
     f"`k` must be a positive integer; found '{'1' * 199}... (5,002 characters) in 'ndcg@1"),
    ("recall_0.10", "`k` must be a positive integer; found '0.10' in 'recall_0.10'"),
    ("ndcg@٣", "`k` must be a positive integer; found '٣'"),
    ("map-l" + "1" * 5000, "`rel` must be a positive integer"),
    ("-" * 3000, "(3,002 characters)"),
    (f"ndcg(k={'-' * 3000}1)", "invalid parameters in 'ndcg(k=-"),
    ("setf(beta=-1)", "`beta` must be a number above 0; found -1 in 'setf(beta=-1)"),
    ("ndcg_1=.", "`gain` must be a number; found '.' in 'ndcg_1=.'"),
    ("ndcg_burges_1=2", "unknown metric 'ndcg_burges_1=2'"),
    ("ndcg_0=1,0=2", "`gain` of a label is given twice in 'ndcg_0=1,0=2'"),
    ("dcg(discount=log(0))", "`base` must be a number above 1; found 0"),
    ("utility_1,2,3,.", "`a` must be a number; found '.'"),
    ("dcg(k=1, k=2)", "`k` is given twice in 'dcg(k=1, k=2)'"),
    ("rbp(p=2)", "`p` must be a number between 0 and 1; found 2"),
]  # fmt: skip


@given(
    st.sampled_from(sorted({*SAME, *ALIASES})),
    st.integers(0, 40),
    st.text("@()=,._-'[]{} 019klnx", min_size=1, max_size=4),
)
@settings(max_examples=200)
def test_any_other_name_is_a_metric_or_an_error(name: str, place: int, inserted: str) -> None:
    try:
        metric = pr.metric(name[:place] + inserted + name[place:])
    except pr.errors.ArgumentError:
        return
    assert str(pr.metric(str(metric))) == str(metric)


def test_names_that_cannot_be_read() -> None:
    for name, message in UNREADABLE:
        with pytest.raises(pr.errors.ArgumentError, match=re.escape(message)):
            pr.metric(name)


def test_names_that_mean_several_metrics() -> None:
    log = pl.DataFrame({"query": [1], "score": [1.0], "label": [1]})
    several = ["ndcg_cut_5,10", "official", "set_F.1,4"]
    names = pr.evaluate(log, several, conventions=pr.Conventions()).columns[1:]
    assert names[:3] == ["ndcg_cut_5", "ndcg_cut_10", "num_q"]
    assert names[-2:] == ["set_F.1", "set_F.4"]
    assert len(pr.evaluate(log, "all_trec").columns) == 1 + len(set(SETS["all_trec"]))


def test_accuracy_of_pairs_and_of_documents() -> None:
    # One of the two nonrelevant documents is above the relevant one. The cutoff classifies two of
    # three documents right: the relevant one, and the last one.
    log = pl.DataFrame({"query": 1, "doc": [*"abc"], "score": [3, 2, 1], "label": [0, 1, 0]})
    for conventions, name, expected in (
        ("ir_measures", "Accuracy", 1 / 2),
        ("ir_measures", "Accuracy@2", 0),
        ("ir_measures", "Accuracy(rel=1)@2", 0),
        ("rectools", "accuracy@2", 2 / 3),
        ("sklearn", "accuracy@2", 2 / 3),
    ):
        found = pr.evaluate(log, name, conventions=conventions)[name].item()
        assert found == pytest.approx(expected)
    assert pr.metric("accuracy_score@2").function.__name__ == "classification_accuracy"


def test_hits_are_a_count_under_the_conventions_of_ranx() -> None:
    log = pl.DataFrame(
        {"query": 1, "doc": [*"abcd"], "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 1, 0, 1]}
    )
    own = pr.conventions.RANX.but(ties="doc")
    for name, ranx in zip(
        ("hits", "hits@2", "Hits(k=2)", "hits@2-l1"), ["ranx", own] * 2, strict=True
    ):
        expected = 3.0 if name == "hits" else 2.0
        assert pr.evaluate(log, name, conventions=ranx)[name].item() == expected
        assert pr.per_query(log, [name], conventions=ranx)[name].item() == expected
        assert pr.diagnostics.tie_bands(log, name, conventions=ranx)["high"].item() == expected
        assert pr.explain(name, "ranx").startswith("num_relevant_retrieved")
        for conventions in ("polars_rank", "trec_eval"):
            with pytest.raises(pr.errors.ArgumentError, match="'hit_rate'.*'num_relevant_retr"):
                pr.evaluate(log, name, conventions=conventions)
