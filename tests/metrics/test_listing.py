"""Parameters of all metrics against the oracles, and similarity of two runs."""

from __future__ import annotations

import math

import needs
import oracles
import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from strategies import assert_close, in_rank_order, log_of, random_lists, shuffled, truth

m = pr.metrics
EXP2 = {"gain": pr.gains.exp2}
GRADED = {"max_grade": 3, "min_grade": 1}

METRICS = [
    m.set_f(beta=2), m.abstained(min_score=0.25), m.answered(min_score=0.25),
    m.utility(a=2, b=-0.5, c=-1, d=0.25), m.utility(d=1, size=100),
    pr.judged(4, depth="retrieved"), pr.r_precision(multiple=0.5), pr.r_precision(multiple=1.7),
    *(m.interpolated_precision(recall=recall) for recall in (0.1, 0.35, 0.5, 1)),
    *(m.interpolated_precision(recall=recall, rounding="nearest") for recall in (0.1, 0.5)),
    m.eleven_point(rounding="nearest"),
    m.log_average_precision(3, floor=0.2), m.log_bpref(floor=0.2), pr.bpref(form="R"),
    m.g_measure(**EXP2), m.rndcg(**EXP2), m.ndcg_rel(**EXP2),
    pr.fall_out(3, size=50), m.classification_accuracy(3, size=50), m.mcc(3, size=50),
    pr.err(3, max_grade=2), pr.err(max_grade=4), m.pfound(3, decay=0.5, max_grade=4),
    m.rbp_residual(3, p=0.4), pr.rbp(3, p=0.4, graded=True),
    m.sdcg(3, **GRADED), m.nerr8(20, **GRADED), m.nerr9(20, **GRADED),
    m.nerr10(**GRADED, p=0.6, depth=5), m.nerr11(**GRADED, T=2.5, depth=5),
    m.insq(**GRADED, T=2.5, depth=5), m.inst(**GRADED, T=2.5), m.inst(**GRADED, T=0.3, depth=5),
    m.bpm(6, **GRADED, T=2.5), m.pwa(5),
    *(m.partial_auc(max_fpr=rate) for rate in (0.1, 0.3, 0.5, 0.99, 1)),
    m.top_k_accuracy(1), m.compat(p=0.6), m.compat(normalize=False), pr.num_relevant_retrieved(3),
    m.novelty(3, unknown="zero"), m.novelty(3, unknown="max", num_users=40, depth="k"),
    *(m.surprisal(3, unknown=unknown) for unknown in ("zero", "max")),
    m.surprisal(3, num_users=40), m.surprisal(5, unknown="max", depth="k"),
    m.unseen_share(4, depth="k"), m.unexpectedness(4, depth="k"), m.serendipity(4, num_items=30),
    m.popularity(3, interactions="users", unknown="skip"),
    m.popularity(3, interactions="share", depth="k"),
    *(m.long_tail_share(3, unknown=unknown) for unknown in ("zero", "max")),
    *(pr.intra_list_diversity(4, single=single) for single in (0, 1)),
    pr.intra_list_diversity(3, unknown="null"), pr.intra_list_diversity(4, distance="euclidean"),
    pr.intra_list_diversity(4, features="genres", distance="jaccard"),
    pr.intra_list_diversity(4, features="category", distance="category"),
    m.category_count(4, category="genres"), m.category_entropy(4, category="genres"),
    m.max_share(4, category="genres"), m.calibration(4, category="genres", alpha=0.1),
]  # fmt: skip

WITH_REL = [
    getattr(m, name)(rel=2)
    for name in """
        precision recall full_recall fbeta f1 hit_rate r_precision rbp average_precision
        reciprocal_rank roc_auc pr_auc partial_auc recall_capped relative_precision set_precision
        set_recall set_f set_ap set_relative_precision utility num_relevant num_relevant_retrieved
        num_nonrelevant_judged_retrieved fall_out classification_accuracy mcc
        interpolated_precision eleven_point binary_g yaap log_average_precision bpref log_bpref
        inf_ap pair_accuracy label_ranking_average_precision label_ranking_loss coverage_error
        compat serendipity rndcg abstained answered
    """.split()
]
WITH_REL += [pr.average_precision(3, rel=1.5, norm="min"), m.pair_accuracy(4, rel=2)]

LABELS = {
    "grades": (None, 0, 0, 1, 1, 2, 3, 4),
    "negative": (None, -2, -1, 0, 1, 2, 3),
    "fractional": (None, 0.0, 0.4, 1.0, 1.5, 2.25, 3.7),
}


@pytest.mark.filterwarnings("ignore:.*has fractions:polars_rank.errors.RankWarning")
@pytest.mark.parametrize("labels", LABELS)
def test_equals_its_oracle(labels: str) -> None:
    metrics = [*METRICS, *WITH_REL]
    lists = random_lists(seed=11, labels=LABELS[labels], queries=25)
    log = shuffled(log_of(lists, pl.Float64)).lazy()
    expected = truth(metrics, lists)
    assert_close(pr.per_query(log, metrics, undefined="null").collect(engine="streaming"), expected)
    inline = pr.rank(log).group_by("query").agg(metrics).sort("query")
    assert_close(inline.collect(engine="in-memory"), expected)


def test_polars_may_share_subexpressions_of_any_metrics() -> None:
    needs.polars_2_1("a number that two expressions share becomes a column of all rows")
    lists = {0: [Doc(i, float(i % 3) if i % 4 else None, (i * 7) % 5 or None) for i in range(11)]}
    metrics = [m.inst(max_grade=3, depth=3), *METRICS, *WITH_REL]
    ranked, expected = pr.rank(log_of(lists)), truth(metrics, lists).drop("query")
    together = ranked.lazy().select(metrics)
    assert_close(together.collect(engine="in-memory"), expected)
    # The eager engine shares subexpressions as well if a metric builds a struct.
    for first in range(1, len(metrics), 8):
        values = ranked.select(metrics[0], *metrics[first : first + 8])
        assert_close(values, expected.select(values.columns))


def test_long_lists() -> None:
    lists = {
        0: [Doc(i, -float(i // 3), (i * 7) % 5 / (1 + i // 50)) for i in range(500)],
        1: [Doc(i, float(i), i % 3 or None) for i in range(100)],
    }
    metrics = [
        m.inst(max_grade=4), m.insq(max_grade=4), m.nerr10(max_grade=4, p=0.99),
        m.nerr11(max_grade=4), m.kendall_tau_b(), m.ordered_pair_accuracy(), m.spearman(),
        m.compat(),
    ]  # fmt: skip
    assert_close(pr.per_query(log_of(lists, pl.Float64), metrics), truth(metrics, lists))


def test_labels_of_many_values() -> None:
    lists = random_lists(seed=12, labels=tuple(math.sqrt(i) for i in range(200)))
    metrics = [m.kendall_tau_b(), m.ordered_pair_accuracy(), m.spearman()]
    assert_close(pr.per_query(log_of(lists, pl.Float64), metrics), truth(metrics, lists))


def test_rel_is_the_threshold_of_the_call() -> None:
    log = log_of(random_lists(seed=13))
    names = [metric.function.__name__ for metric in WITH_REL[:-2]]
    own = pr.per_query(log, [each.alias(n) for each, n in zip(WITH_REL, names, strict=False)])
    assert_close(own, pr.per_query(log, names, rel=2))


def test_geometric_mean_of_average_precision() -> None:
    lists = random_lists(seed=14)
    every = [in_rank_order(docs, "doc") for docs in lists.values()]
    known = [docs for docs in every if oracles.relevant(docs)]
    for undefined, counted in (("skip", known), ("zero", every)):
        found = pr.evaluate(log_of(lists), "gm_map", undefined=undefined).item(0, "gm_map")
        assert found == pytest.approx(oracles.gmap(counted), rel=1e-12)


def test_parameters_out_of_range() -> None:
    for build, message in (
        (lambda: pr.average_precision(rel="2"), "`rel` must be a number"),
        (lambda: m.sdcg(None, max_grade=4), "`k` must be a positive integer"),
        (lambda: m.sdcg(5, max_grade=0), "`max_grade` must be above `min_grade`"),
        (lambda: pr.err(max_grade=0), "`max_grade` must be a number above 0"),
        (lambda: m.interpolated_precision(recall=1.5), "`recall` must be a number from 0 to 1"),
        (lambda: m.eleven_point(rounding="down"), "`rounding` must be one of"),
        (lambda: pr.bpref(form="tfr"), "`form` must be one of"),
        (lambda: m.partial_auc(max_fpr=0), "`max_fpr` must be a number between 0 and 1"),
        (lambda: pr.r_precision(multiple=0), "`multiple` must be a number above 0"),
        (lambda: pr.fall_out(size=0), "`size` must be a positive integer"),
        (lambda: pr.alpha_ndcg(alpha=1.5), "`alpha` must be a number from 0 to 1"),
        (lambda: m.nrbp(beta=1), "`beta` must be a number between 0 and 1"),
        (lambda: m.d_sharp_ndcg(gamma=-1), "`gamma` must be a number from 0 to 1"),
        (lambda: m.alpha_dcg(norm="best"), "`norm` must be one of"),
        (lambda: m.ap_ia(subtopics=3), "`subtopics` must be the name of a column"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            build()


RUNS = random_lists(seed=15), random_lists(seed=16)


def docs_of(run: int, query: int) -> list[int | str]:
    listed = query > 2 if run == 0 else query < 50
    docs = in_rank_order(RUNS[run][query], "doc") if listed else []
    return [doc.doc for doc in oracles.ranked(docs)]


def test_overlap_of_two_runs() -> None:
    # `pr.diagnostics.similarity` takes the means of what this function returns for each query.
    from polars_rank.diagnostics.similarity import overlap

    left, right = (shuffled(log_of(run)).drop("label") for run in RUNS)
    left, right = left.filter(pl.col("query") > 2), right.filter(pl.col("query") < 50)
    for name, key, arguments in (("rbo", "p", (0.3, 0.9)), ("overlap", "k", (None, 1, 5, 40))):
        for argument in arguments:
            oracle = getattr(oracles, name)
            values = [oracle(docs_of(0, q), docs_of(1, q), argument) for q in RUNS[0]]
            expected = pl.DataFrame({"query": list(RUNS[0]), name: values})
            assert_close(overlap(left, right, name, **{key: argument}), expected)
            lazily = overlap(left.lazy(), right, name, **{key: argument})
            assert_close(lazily.collect(), expected)
