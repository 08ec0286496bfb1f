"""Parameters of all metrics against the oracles, and similarity of two runs."""

from __future__ import annotations

import math

import needs
import oracles
import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from strategies import assert_close, log_of, random_lists, shuffled, truth

EXP2 = {"gain": pr.gains.exp2}
GRADED = {"max_grade": 3, "min_grade": 1}

METRICS = [
    pr.metrics.set_f(beta=2),
    pr.metrics.abstained(min_score=0.25),
    pr.metrics.answered(min_score=0.25),
    pr.metrics.utility(a=2, b=-0.5, c=-1, d=0.25),
    pr.metrics.utility(d=1, size=100),
    pr.judged(4, depth="retrieved"),
    pr.r_precision(multiple=0.5),
    pr.r_precision(multiple=1.7),
    *(pr.metrics.interpolated_precision(recall=recall) for recall in (0.1, 0.35, 0.5, 1)),
    *(
        pr.metrics.interpolated_precision(recall=recall, rounding="nearest")
        for recall in (0.1, 0.5)
    ),
    pr.metrics.eleven_point(rounding="nearest"),
    pr.metrics.log_average_precision(3, floor=0.2),
    pr.metrics.log_bpref(floor=0.2),
    pr.metrics.g_measure(**EXP2),
    pr.metrics.rndcg(**EXP2),
    pr.metrics.ndcg_rel(**EXP2),
    pr.bpref(form="R"),
    pr.fall_out(3, size=50),
    pr.metrics.classification_accuracy(3, size=50),
    pr.metrics.mcc(3, size=50),
    pr.err(3, max_grade=2),
    pr.err(max_grade=4),
    pr.metrics.pfound(3, decay=0.5, max_grade=4),
    pr.metrics.rbp_residual(3, p=0.4),
    pr.metrics.sdcg(3, **GRADED),
    pr.metrics.nerr8(20, **GRADED),
    pr.metrics.nerr9(20, **GRADED),
    pr.metrics.nerr10(**GRADED, p=0.6, depth=5),
    pr.metrics.nerr11(**GRADED, T=2.5, depth=5),
    pr.metrics.insq(**GRADED, T=2.5, depth=5),
    pr.metrics.inst(**GRADED, T=2.5),
    pr.metrics.inst(**GRADED, T=0.3, depth=5),
    pr.metrics.bpm(6, **GRADED, T=2.5),
    pr.metrics.pwa(5),
    *(pr.metrics.partial_auc(max_fpr=rate) for rate in (0.1, 0.3, 0.5, 0.99, 1)),
    pr.metrics.top_k_accuracy(1),
    pr.metrics.compat(p=0.6),
    pr.metrics.compat(normalize=False),
    pr.rbp(3, p=0.4, graded=True),
    pr.num_relevant_retrieved(3),
    pr.metrics.novelty(3, unknown="zero"),
    pr.metrics.novelty(3, unknown="max", num_users=40, depth="k"),
    *(pr.metrics.surprisal(3, unknown=unknown) for unknown in ("zero", "max")),
    pr.metrics.surprisal(3, num_users=40),
    pr.metrics.surprisal(5, unknown="max", depth="k"),
    pr.metrics.unseen_share(4, depth="k"),
    pr.metrics.unexpectedness(4, depth="k"),
    pr.metrics.serendipity(4, num_items=30),
    pr.metrics.popularity(3, interactions="users", unknown="skip"),
    pr.metrics.popularity(3, interactions="share", depth="k"),
    *(pr.metrics.long_tail_share(3, unknown=unknown) for unknown in ("zero", "max")),
    *(pr.intra_list_diversity(4, single=single) for single in (0, 1)),
    pr.intra_list_diversity(3, unknown="null"),
    pr.intra_list_diversity(4, distance="euclidean"),
    pr.intra_list_diversity(4, features="genres", distance="jaccard"),
    pr.intra_list_diversity(4, features="category", distance="category"),
    pr.metrics.category_count(4, category="genres"),
    pr.metrics.category_entropy(4, category="genres"),
    pr.metrics.max_share(4, category="genres"),
    pr.metrics.calibration(4, category="genres", alpha=0.1),
]

WITH_REL = [
    build(rel=2)
    for build in (
        pr.precision, pr.recall, pr.metrics.full_recall, pr.fbeta, pr.f1, pr.hit_rate, pr.r_precision, pr.rbp,
        pr.average_precision, pr.reciprocal_rank, pr.roc_auc, pr.metrics.pr_auc, pr.metrics.partial_auc,
        pr.metrics.recall_capped, pr.metrics.relative_precision, pr.metrics.set_precision, pr.metrics.set_recall, pr.metrics.set_f,
        pr.metrics.set_ap, pr.metrics.set_relative_precision, pr.metrics.utility, pr.num_relevant,
        pr.num_relevant_retrieved, pr.metrics.num_nonrelevant_judged_retrieved, pr.fall_out,
        pr.metrics.classification_accuracy, pr.metrics.mcc, pr.metrics.interpolated_precision, pr.metrics.eleven_point, pr.metrics.binary_g, pr.metrics.yaap,
        pr.metrics.log_average_precision, pr.bpref, pr.metrics.log_bpref, pr.metrics.inf_ap, pr.metrics.pair_accuracy,
        pr.metrics.label_ranking_average_precision, pr.metrics.label_ranking_loss, pr.metrics.coverage_error,
        pr.metrics.compat, pr.metrics.serendipity, pr.metrics.rndcg,
        pr.metrics.abstained, pr.metrics.answered,
    )
]  # fmt: skip
WITH_REL += [pr.average_precision(3, rel=1.5, norm="min"), pr.metrics.pair_accuracy(4, rel=2)]

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
    metrics = [pr.metrics.inst(max_grade=3, depth=3), *METRICS, *WITH_REL]
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
        pr.metrics.inst(max_grade=4), pr.metrics.insq(max_grade=4), pr.metrics.nerr10(max_grade=4, p=0.99),
        pr.metrics.nerr11(max_grade=4), pr.metrics.kendall_tau_b(), pr.metrics.ordered_pair_accuracy(), pr.metrics.spearman(),
        pr.metrics.compat(),
    ]  # fmt: skip
    assert_close(pr.per_query(log_of(lists, pl.Float64), metrics), truth(metrics, lists))


def test_labels_of_many_values() -> None:
    lists = random_lists(seed=12, labels=tuple(math.sqrt(i) for i in range(200)))
    metrics = [
        pr.metrics.kendall_tau_b(),
        pr.metrics.ordered_pair_accuracy(),
        pr.metrics.spearman(),
    ]
    assert_close(pr.per_query(log_of(lists, pl.Float64), metrics), truth(metrics, lists))


def test_rel_is_the_threshold_of_the_call() -> None:
    log = log_of(random_lists(seed=13))
    own = pr.per_query(log, [metric.alias(metric.function.__name__) for metric in WITH_REL[:30]])
    names = [metric.function.__name__ for metric in WITH_REL[:30]]
    assert_close(own, pr.per_query(log, names, rel=2))


def test_geometric_mean_of_average_precision() -> None:
    lists = random_lists(seed=14)
    known = [docs for docs in lists.values() if oracles.relevant(docs)]
    for undefined, counted in (("skip", known), ("zero", list(lists.values()))):
        found = pr.evaluate(log_of(lists), "gm_map", undefined=undefined).item(0, "gm_map")
        assert found == pytest.approx(oracles.gmap(counted), rel=1e-12)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: pr.average_precision(rel="2"), "`rel` must be a number"),
        (lambda: pr.metrics.sdcg(None, max_grade=4), "`k` must be a positive integer"),
        (lambda: pr.metrics.sdcg(5, max_grade=0), "`max_grade` must be above `min_grade`"),
        (lambda: pr.err(max_grade=0), "`max_grade` must be a number above 0"),
        (
            lambda: pr.metrics.interpolated_precision(recall=1.5),
            "`recall` must be a number from 0 to 1",
        ),
        (lambda: pr.metrics.eleven_point(rounding="down"), "`rounding` must be one of"),
        (lambda: pr.bpref(form="tfr"), "`form` must be one of"),
        (lambda: pr.metrics.partial_auc(max_fpr=0), "`max_fpr` must be a number between 0 and 1"),
        (lambda: pr.r_precision(multiple=0), "`multiple` must be a number above 0"),
        (lambda: pr.fall_out(size=0), "`size` must be a positive integer"),
    ],
)
def test_parameters_out_of_range(build: object, message: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=message):
        build()


RUNS = random_lists(seed=15), random_lists(seed=16)


def both_runs() -> tuple[pl.DataFrame, pl.DataFrame]:
    left, right = (shuffled(log_of(run)).drop("label") for run in RUNS)
    return left.filter(pl.col("query") > 2), right.filter(pl.col("query") < 50)


def docs_of(run: int, query: int) -> list[int | str]:
    listed = query > 2 if run == 0 else query < 50
    return [doc.doc for doc in oracles.ranked(RUNS[run][query])] if listed else []


@pytest.mark.parametrize("p", [0.3, 0.9])
def test_rank_biased_overlap(p: float) -> None:
    from polars_rank.diagnostics.similarity import overlap

    left, right = both_runs()
    expected = [oracles.rbo(docs_of(0, query), docs_of(1, query), p) for query in RUNS[0]]
    lazily = overlap(left.lazy(), right, "rbo", p=p)
    for found in (overlap(left, right, "rbo", p=p), lazily.collect()):
        assert_close(found, pl.DataFrame({"query": list(RUNS[0]), "rbo": expected}))


@pytest.mark.parametrize("k", [None, 1, 5, 40])
def test_overlap(k: int | None) -> None:
    from polars_rank.diagnostics.similarity import overlap

    expected = [oracles.overlap(docs_of(0, query), docs_of(1, query), k) for query in RUNS[0]]
    found = overlap(*both_runs(), "overlap", k=k)
    assert_close(found, pl.DataFrame({"query": list(RUNS[0]), "overlap": expected}))
