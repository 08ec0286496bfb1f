"""Worked examples with visible arithmetic, and parameters of metrics against the oracles."""

from __future__ import annotations

import warnings
from math import log2
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from polars.testing import assert_frame_equal
from strategies import Lists, assert_close, log_of, logs, random_lists, truth

LAMBDARANK = Path(__file__).parents[3] / "shared" / "data" / "lambdarank_test.parquet"
TIES = ("doc", "doc_ascending", "best", "worst", "input")


def ranking(*labels: float | None, unretrieved: tuple[float, ...] = ()) -> pl.DataFrame:
    """Return one ranking: labels in rank order, then labels of documents not retrieved."""
    scores = [-float(i) for i in range(len(labels))] + [None] * len(unretrieved)
    return pl.DataFrame({"query": "q", "score": scores, "label": [*labels, *unretrieved]})


def assert_value(log: pl.DataFrame, metric: pl.Expr | str, value: float | None) -> None:
    """Assert the value of a metric in `group_by`, in `per_query` and in `evaluate`."""
    expected = None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)
    expression = pr.metric(metric) if isinstance(metric, str) else metric
    inline = pr.rank(log).group_by("query").agg(value=expression)["value"].item()
    lists = pr.per_query(log, metric, undefined="null").to_series(-1).item()
    means = pr.evaluate(log, metric, undefined="null").to_series(-1).item()
    assert [inline, lists, means] == [expected] * 3, (metric, log["label"].to_list())


FIVE_LAST = ranking(3, 3, 3, 3, 3, 0, 0, 0, 0, 5)
FIVE_FIRST = ranking(5, 3, 3, 3, 3, 3, 0, 0, 0, 0)
BEST = sum(3 / log2(rank) for rank in range(3, 7))  # of the threes, and below with exp2
BEST_EXP2 = 31 + sum(7 / log2(rank) for rank in range(3, 8))
MISSED = ranking(3, 2, 3, 0, 1, 2, unretrieved=(3, 2))
SHIFTED = ranking(-1, 1, 0, -1, unretrieved=(1,))
THREE_OF_4 = ranking(1, 0, 1, 1, unretrieved=(1,))
NOTHING = ranking(unretrieved=(2,)).with_columns(pl.col("score").cast(pl.Float64))
TIED = pl.DataFrame({"query": "q", "score": [0.6, 0.5, 0.1, 0.1, 0.1], "label": [1, 1, 0, 0, 1]})

EXAMPLES = [
    # The five is last: gains 3 and 5, or 7 and 31 with exp2.
    (FIVE_FIRST, pr.dcg(discount="jarvelin"), 5 + 3 + BEST),
    (FIVE_FIRST, pr.ndcg(discount=pr.discounts.jarvelin()), 1),
    (FIVE_LAST, pr.dcg(discount="jarvelin"),
     3 + 3 + 3 / log2(3) + 3 / 2 + 3 / log2(5) + 5 / log2(10)),
    (FIVE_FIRST, pr.dcg(gain=pr.gains.exp2), BEST_EXP2),
    (FIVE_LAST, pr.ndcg(gain="exp2"),
     (sum(7 / log2(rank) for rank in range(2, 7)) + 31 / log2(11)) / BEST_EXP2),
    # [2, 4, 0, 1] with gains 3, 15, 0, 1
    (ranking(2, 4, 0, 1), pr.dcg(4, gain="exp2"), 3 + 15 / log2(3) + 1 / log2(5)),
    (ranking(2, 4, 0, 1), pr.ideal_dcg(4, gain="exp2"), 15 + 3 / log2(3) + 1 / log2(4)),
    (ranking(3, 2, 3, 0, 0, 1, 2, 4, 3, 1), "ndcg(gain='exp2')@1", 7 / 15),
    # relevant documents at ranks 2 and 4
    (ranking(0, 1, 0, 1), "rr", 1 / 2),
    (ranking(0, 1, 0, 1), "p@3", 1 / 3),
    (ranking(0, 1, 0, 1), "ap", (1 / 2 + 2 / 4) / 2),
    # a 3 and a 2 are judged but not retrieved: the ideal ranking is 3, 3, 3, 2, 2, 2
    (MISSED, "dcg@6", 3 + 2 / log2(3) + 3 / log2(4) + 1 / log2(6) + 2 / log2(7)),
    (MISSED, "idcg@6", 3 + 3 / log2(3) + 3 / 2 + 2 / log2(5) + 2 / log2(6) + 2 / log2(7)),
    # the ideal ranking of the retrieved documents is 3, 3, 2, 2, 1, 0
    (MISSED, pr.ideal_dcg(ideal="retrieved"), 3 + 3 / log2(3) + 1 + 2 / log2(5) + 1 / log2(6)),
    # the grades 1, 0, -1: a negative grade is a penalty
    (SHIFTED, "ndcg@4", (-1 + 1 / log2(3) - 1 / log2(5)) / (1 + 1 / log2(3) - 1 / log2(5))),
    (ranking(-1, 0, 1), "ndcg", (-1 + 1 / 2) / (1 - 1 / 2)),
    # precision 1, 1, 3/5 at recall 1/3, 2/3, 1: the three tied documents are one point of the curve
    (TIED, "pr_auc", (1 + 1) / 2 / 3 + (1 + 1) / 2 / 3 + (1 + 3 / 5) / 2 / 3),
    (TIED, "roc_auc", (2 * 2 + 1 * 2 / 2) / (3 * 2)),
    # only the first two retrieved: P = 2/2, R = 2/3
    (ranking(1, 1, unretrieved=(0, 0, 1)), "fbeta(beta=2)", 5 * (2 / 3) / (4 * 1 + 2 / 3)),
    # a ranking of 2 documents with the cutoff 4
    (ranking(1, 0), "p@4", 1 / 4),
    (ranking(1, 0), "precision(depth='retrieved')@4", 1 / 2),
    (ranking(1, 0), "precision(short='null')@4", None),
    # 3 of 4 relevant documents among the first 4, at ranks 1, 3 and 4
    (THREE_OF_4, "recall@3", 2 / 4),
    (THREE_OF_4, "r_precision", 3 / 4),
    (THREE_OF_4, "average_precision", (1 + 2 / 3 + 3 / 4) / 4),
    (THREE_OF_4, "average_precision(norm='hits')@3", (1 + 2 / 3) / 2),
    (ranking(1, 0, 1), "full_recall@2", 0.0),
    (ranking(1, 0, 1), "full_recall@3", 1.0),
    (ranking(0, 0), "full_recall@2", None),
    # queries with and without an answer
    (ranking(0, 0), "abstained", 0.0),
    (ranking(unretrieved=(0,)), "abstained", 1.0),
    (ranking(0, 0), "abstained(min_score=1)", 1.0),
    (ranking(0, unretrieved=(1,)), "abstained", None),
    (ranking(0, unretrieved=(1,)), "answered", 1.0),
    (ranking(0, unretrieved=(1,)), "answered(min_score=1)", 0.0),
    (ranking(unretrieved=(1,)), "answered", 0.0),
    (ranking(0, 0), "answered", None),
    (ranking(1, 0, 1), "rbp(p=0.5)", 0.5 * (1 + 0.5**2)),
    # other gains and discounts
    (ranking(1, 0, 2), pr.cg(gain={0: 0, 1: 3, 2: 10}), 3 + 0 + 10),
    (ranking(1, 0, 2), pr.dcg(discount=pr.discounts.log(10)), log2(10) * (1 / 1 + 2 / 2)),
    (ranking(1, 0, 2, 1), pr.dcg(discount=pr.discounts.jarvelin(3)), 1 + 2 + log2(3) / log2(4)),
    (ranking(1, 0, 2), pr.dcg(discount=lambda rank: 1 / rank.pow(2)), 1 / 1 + 2 / 9),
    # an unjudged document has gain 0 and keeps its rank
    (ranking(None, 1), "dcg", 1 / log2(3)),
    # fractional grades, of which the last two are not retrieved
    (ranking(0.1, 0.5, 0.7, unretrieved=(0.5, 0.1)), "idcg", 1.3472178133165222),
    (ranking(0.1, 0.5, 0.7, unretrieved=(0.5, 0.1)), "ndcg@3", 0.6048882832133625),
    # no relevant document
    *((ranking(0, 0, None), name, None) for name in (
        "ndcg", "recall", "f1", "fbeta", "hit_rate", "r_precision", "rr", "ap", "roc_auc", "pr_auc",
    )),
    *((ranking(0, 0, None), name, 0) for name in ("cg", "dcg", "precision", "p@3", "rbp")),
    # nothing retrieved
    *((NOTHING, name, None) for name in (
        "precision", "precision(depth='retrieved')@2", "roc_auc", "pr_auc",
    )),
    *((NOTHING, name, 0) for name in (
        "cg", "dcg", "ndcg", "p@2", "r@2", "f1", "hit@2", "rprec", "rr", "ap", "rbp",
    )),
    (NOTHING, "idcg", 2),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:metric .* is undefined for all:polars_rank.errors.RankWarning")
@pytest.mark.filterwarnings("ignore:.*has fractions:polars_rank.errors.RankWarning")
def test_examples() -> None:
    for log, metric, value in EXAMPLES:
        assert_value(log, metric, value)


@pytest.mark.skipif(not LAMBDARANK.exists(), reason="needs the real data of the developers")
def test_equals_what_lightgbm_reports() -> None:
    reported = {1: 0.6230476190476191, 3: 0.652505818927616, 5: 0.6932834325434453,
                10: 0.7526080517168399}  # fmt: skip
    metrics = [pr.ndcg(k, gain="exp2") for k in reported]
    options = {"by": "run", "ties": "input", "undefined": "one"}
    means = pr.evaluate(pl.scan_parquet(LAMBDARANK), metrics, **options).collect()
    assert means["run"].to_list() == ["lambdarank-10", "lambdarank-100"]
    assert means["queries"].to_list() == [50, 50]
    assert means.row(1)[2:] == pytest.approx(list(reported.values()), abs=1e-12)


VARIANTS = [
    *(pr.cg(k, gain=gain) for k in (None, 2) for gain in ("exp2", {g: g * g for g in range(5)})),
    *(
        build(k, gain=gain, discount=discount)
        for build in (pr.dcg, pr.ideal_dcg, pr.ndcg)
        for k in (None, 2)
        for gain in ("linear", "exp2", "binary", {0: 0, 1: 1, 2: 5, 3: 5, 4: 9})
        for discount in (
            "log", pr.discounts.log(10), "jarvelin", pr.discounts.jarvelin(3), "reciprocal",
        )
    ),
    *(
        build(k, gain=gain, ideal=ideal, depth=depth)
        for build in (pr.ideal_dcg, pr.ndcg)
        for gain, ideal in (("linear", "judged"), ("linear", "retrieved"), ("binary", "full"))
        for k, depth in ((None, None), (None, "retrieved"), (2, None))
    ),
    *(
        pr.precision(k, depth=depth, short=short, irrelevant=irrelevant)
        for k in (2, 5)
        for depth in ("k", "retrieved")
        for short in (None, "null")
        for irrelevant in (None, "null")
    ),
    *(build(k, irrelevant="null") for build in (pr.precision, pr.dcg, pr.rbp) for k in (None, 2)),
    *(pr.fbeta(k, beta=beta) for k in (None, 3) for beta in (0.5, 2)),
    *(pr.average_precision(k, norm=n) for k in (None, 3) for n in ("min", "retrieved", "hits")),
    *(pr.rbp(k, p=p) for k in (None, 3) for p in (0.5, 0.95)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:metric 'Rndcg' is undefined for all rankings")
def test_rndcg_of_a_query_without_relevant_documents_is_undefined() -> None:
    log = pr.from_dicts({"q": {"a": 1.0}}, {"q": {"a": 2}})
    for rel, expected in ((2, 1.0), (3, 0.0)):  # as trec_eval -l
        found = pr.evaluate(log, "Rndcg", conventions="trec_eval", rel=rel)
        assert found["Rndcg"].item() == expected


@pytest.mark.parametrize("ties", TIES)
def test_parameters_against_oracles(ties: str) -> None:
    metrics = list({str(metric): metric for metric in VARIANTS}.values())
    lists = random_lists(seed=6, queries=25)
    found = pr.per_query(log_of(lists), metrics, ties=ties, undefined="null")
    assert_close(found, truth(metrics, lists, ties))
    inline = pr.rank(log_of(lists), ties=ties).group_by("query").agg(metrics).sort("query")
    assert_close(inline, found)


@pytest.mark.filterwarnings("ignore:.*has fractions:polars_rank.errors.RankWarning")
@given(lists=logs(labels=(None, -2, -1, 0, 0.5, 1, 3)))
def test_negative_and_fractional_labels_against_oracles(lists: Lists) -> None:
    metrics = [
        *(build(k) for build in (pr.cg, pr.dcg, pr.ideal_dcg, pr.ndcg) for k in (None, 2)),
        *(build(k) for build in (pr.precision, pr.average_precision) for k in (None, 2)),
        pr.ndcg(gain="exp2", ideal="retrieved"),
    ]
    found = pr.per_query(log_of(lists, label=pl.Float64), metrics, undefined="null")
    assert_close(found, truth(metrics, lists))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_gains_above_those_of_a_full_ideal_ranking_are_an_error(engine: str) -> None:
    log = pl.LazyFrame({"query": 1, "doc": ["a", "b"], "score": [2.0, 1.0], "label": [0, 2]})
    with pytest.raises(pr.errors.DataError, match="labels have a higher gain; pass gain='binary'"):
        pr.per_query(log, pr.ndcg(2, ideal="full")).collect(engine=engine)
    found = pr.per_query(log, pr.ndcg(2, gain="binary", ideal="full")).collect(engine=engine)
    discounts = 1 / log2(2), 1 / log2(3)
    assert found.to_series(1).to_list() == pytest.approx([discounts[1] / sum(discounts)])
