"""`ties="expected"`: the mean over all permutations, scikit-learn, and invariants."""

from __future__ import annotations

import inspect
import random
from functools import cache

import oracles
import needs
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from oracles import Doc
from plans import holding_nodes

# Which metrics have a closed form, and what is known about all.
from polars_rank.metrics.expectations import EXPECTATIONS, has_expectation
from polars_rank.metrics.metric import REGISTER, Metric
from strategies import (
    ATTRIBUTES,
    Lists,
    _plain,
    assert_close,
    every_metric,
    fewer_examples,
    large_logs,
    log_of,
    shuffled,
)

METRICS = [metric for metric in every_metric(1, 3, 8) if has_expectation(metric)]
CLOSED = {metric.function.__name__ for metric in METRICS}
#: Each metric without and with a cutoff, for tests of invariants.
FEW = [each for each in every_metric(3) if has_expectation(each) and "rel=" not in str(each)]
MORE = [
    pr.ndcg(3, gain="exp2", discount="reciprocal"),
    pr.ndcg(gain={-1: 0, 0: 0, 1: 3, 2: 4, 3: 5, 4: 9}, ideal="retrieved", depth="retrieved"),
    pr.dcg(2, discount=pr.discounts.jarvelin(2)),
    pr.precision(2, depth="retrieved"),
    pr.precision(3, short="null"),
    pr.fbeta(3, beta=2),
    pr.r_precision(multiple=0.5),
    pr.average_precision(2, norm="min"),
    pr.average_precision(norm="hits"),
    pr.average_precision(2, norm="retrieved"),
    pr.ndcg(2, gain="binary", ideal="full"),
    pr.rbp(2, irrelevant="null"),
    pr.err(3, max_grade=4),
    pr.metrics.pfound(3, max_grade=4, decay=0.5),
    pr.judged(2, depth="retrieved"),
    pr.metrics.mcc(2, size=20),
]
#: Metrics that are lowest if higher labels come first.
LOW = {"fall_out", "average_relevance_position", "unjudged", "rbp_residual"}


def small_lists(seed: int) -> Lists:
    """Return short rankings with many ties, because tests enumerate all orders."""
    draw = random.Random(seed)

    def docs() -> list[Doc]:
        ids = draw.sample(range(30), draw.randint(1, 6))
        scores, labels = (None, 0.0, 0.5, 0.5, 0.5), (None, -1, 0, 0, 1, 1, 2, 3, 4)
        return [Doc(doc, draw.choice(scores), draw.choice(labels)) for doc in ids]

    return {query: docs() for query in range(40)}


SMALL = small_lists(1)


@cache
def values_of_small() -> pl.DataFrame:
    return pr.per_query(log_of(SMALL), [*METRICS, *MORE], ties="expected", undefined="null")


def expected(log: object, metrics: list[Metric] = METRICS, **options: object) -> pl.DataFrame:
    return pr.per_query(log, metrics, ties="expected", undefined="null", **options)


def test_mean_over_all_orders() -> None:
    for metric in (*METRICS, *MORE):
        oracle = getattr(oracles, metric.function.__name__)
        arguments = {name: _plain(value) for name, value in metric.arguments.items()}
        means = [oracles.expected(oracle, docs, **arguments) for docs in SMALL.values()]
        truth = pl.Series(metric.output_name, means, strict=False)
        assert_close(values_of_small().select(metric.output_name), truth.to_frame())


def test_scikit_learn() -> None:
    sklearn = needs.package("sklearn.metrics", "test")
    draw = random.Random(2)
    labels = [[draw.choice((0, 0, 1, 2, 5)) for _ in range(40)] for _ in range(10)]
    scores = [[draw.randint(0, 9) / 10 for _ in range(40)] for _ in range(10)]
    log = pl.DataFrame({"query": range(10), "score": scores, "label": labels})
    log = log.explode("score", "label", empty_as_null=True)
    for k in (None, 1, 5, 20):
        metrics = [pr.ndcg(k).alias("ndcg"), pr.dcg(k).alias("dcg")]
        found = pr.per_query(log, metrics, ties="expected")
        for query in range(10):
            pair = [labels[query]], [scores[query]]
            theirs = (sklearn.ndcg_score(*pair, k=k), sklearn.dcg_score(*pair, k=k))
            assert found.row(query)[1:] == pytest.approx(theirs, abs=1e-9)


@fewer_examples
@given(lists=large_logs())
def test_between_worst_and_best(lists: Lists) -> None:
    log = log_of(lists)
    mean, best, worst = (pr.per_query(log, FEW, ties=t) for t in ("expected", "best", "worst"))
    for metric in FEW:
        name = metric.output_name
        if "judged" in name or {"click", *ATTRIBUTES} & {*metric.meta.root_names()}:
            continue  # "best" and "worst" order ties by label, not by what these metrics read
        low, high = (best, worst) if metric.function.__name__ in LOW else (worst, best)
        within = (low[name] <= mean[name] + 1e-9) & (mean[name] <= high[name] + 1e-9)
        assert within.all(), metric
        assert low[name].is_null().equals(mean[name].is_null()), metric


@fewer_examples
@given(lists=large_logs())
def test_without_ties(lists: Lists) -> None:
    log = log_of(lists).with_columns(score=pl.col("score") + pl.col("doc") / 1000)
    assert_close(expected(log, FEW), pr.per_query(log, FEW, ties="doc", undefined="null"))


def test_order_of_rows_is_irrelevant() -> None:
    turned, found = shuffled(log_of(SMALL)), values_of_small().select("query", *map(str, FEW))
    assert_close(expected(turned.drop("doc"), FEW), found)
    for engine in ("in-memory", "streaming"):
        assert_close(expected(turned.lazy(), FEW).collect(engine=engine), found)
    lists = pr.per_query(turned, [pl.len().alias("n"), "rr"], ties="expected")
    assert lists["n"].to_list() == list(map(len, SMALL.values()))


def test_evaluate_is_the_mean() -> None:
    log = log_of(SMALL)
    assert "in-memory-map" not in holding_nodes(expected(log.lazy()))
    metrics = ["ndcg@3", "err@3", "rr"]
    means = pr.evaluate(log, metrics, ties="expected").drop("queries")
    lists = pr.per_query(log, metrics, ties="expected").select(metrics).fill_null(0.0)
    assert_close(means, lists.mean())
    filtered = pr.evaluate(log, metrics, ties="expected", query_set="both", unjudged="removed")
    assert filtered["queries"].item() < len(SMALL)


def test_large_block() -> None:
    # All 1100 documents are tied and have the same label, so ERR is the same in every order. The
    # number of subsets of half of them exceeds the largest float.
    log = pl.DataFrame({"query": 1, "score": [1.0] * 1100, "label": [1] * 1100})
    metrics = ["err(max_grade=1)", "rr", "ap", "ndcg", "hit_rate@1", "p@7"]
    assert_close(pr.evaluate(log, metrics, ties="expected"), pr.evaluate(log, metrics))


def test_same_parameters() -> None:
    for name in EXPECTATIONS:
        parameters = [*inspect.signature(EXPECTATIONS[name]).parameters.values()]
        assert parameters == [*inspect.signature(REGISTER[name]).parameters.values()], name


def test_other_metrics_raise() -> None:
    by_name = {metric.function.__name__: metric for metric in every_metric()}
    ranks = (pr.ndcg(3) * pl.col("rank").max()).alias("x")
    for metric, message in (
        *((by_name[name], f"{name}.* has no closed form") for name in REGISTER.keys() - CLOSED),
        (pr.average_precision(2, norm="hits"), "norm='hits'.* at a cutoff"),
        (ranks, "does not support expressions that read ranks"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            expected(log_of(SMALL), [metric])


def test_rows_are_checked() -> None:
    log = pl.DataFrame({"query": [1, 1], "doc": [1, 1], "score": [1.0, 2.0], "label": [0, 1]})
    with pytest.raises(pr.errors.DataError, match="duplicates"):
        expected(log, [pr.ndcg()])
    assert expected(log, [pr.ndcg()], duplicates="max").row(0) == (1, 1.0)
    with pytest.raises(pr.errors.DataError, match="too large"):
        expected(log.with_columns(doc=pl.col("score"), label=99), [pr.ndcg(gain="exp2")])


def test_ranks_with_a_null_weight_do_not_count() -> None:
    log = pl.DataFrame({"query": 1, "score": [2.0, 1.0, 1.0], "label": [0.0, 0.5, 2.0]})
    first_two = pr.dcg(discount=lambda rank: pl.when(rank <= 2).then(1 / rank))
    assert expected(log, [first_two]).item(0, 1) == (0.5 + 2) / 2 / 2
