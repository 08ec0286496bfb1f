"""Properties of all metrics."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import oracles
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from oracles import Doc
from plans import holding_nodes

# The registry of metrics, to test each of them.
from polars_rank.metrics.metric import REGISTER
from strategies import (
    Lists,
    assert_close,
    every_metric,
    fewer_examples,
    large_logs,
    log_of,
    random_lists,
    shuffled,
    truth,
)

METRICS = every_metric(3)
#: Each metric once, for tests in which parameters make no difference.
ONCE = every_metric()
#: Each metric once, at a cutoff if it has one.
CUT = [*{m.function: m for m in METRICS if "rel=" not in str(m)}.values()]
TIES = ("doc", "doc_ascending", "best", "worst", "input")
CHANGES: list[Callable[[pl.Expr], pl.Expr]] = [lambda s: 3 * s - 7, lambda s: s.pow(3) + s]


def per_query(
    frame: pl.DataFrame, metrics: list[pr.Metric] = METRICS, **options: object
) -> pl.DataFrame:
    return pr.per_query(frame, metrics, **options, undefined="null")


def test_every_metric_is_public_and_has_an_oracle() -> None:
    assert all(getattr(pr.metrics, name) is REGISTER[name] for name in REGISTER)
    assert set(REGISTER) <= set(vars(oracles))


@pytest.mark.parametrize("ties", TIES)
def test_equals_its_oracle_by_every_rule_for_ties(ties: str) -> None:
    lists = random_lists(seed=1, queries=40)
    assert_close(per_query(log_of(lists), ties=ties), truth(METRICS, lists, ties))


@fewer_examples
@given(lists=large_logs(), ties=st.sampled_from(TIES))
@example(lists={0: [Doc(0, None, None)]}, ties="doc")
def test_equals_its_oracle_within_its_bounds(lists: Lists, ties: str) -> None:
    values = per_query(log_of(lists), ties=ties)
    assert_close(values, truth(METRICS, lists, ties))
    for metric in METRICS:
        definition = REGISTER[metric.function.__name__]
        low, high = definition.low, definition.high
        found = values[metric.output_name].drop_nulls().cast(pl.Float64)
        assert found.is_finite().all(), metric
        assert low is None or (found >= low - 1e-12).all(), metric
        assert high is None or (found <= high + 1e-12).all(), metric


@fewer_examples
@given(
    lists=large_logs(),
    seed=st.integers(0, 99),
    change=st.sampled_from(CHANGES),
    ties=st.sampled_from(TIES[:-1]),
)
def test_order_of_rows_and_size_of_scores_are_irrelevant(
    lists: Lists, seed: int, change: Callable[[pl.Expr], pl.Expr], ties: str
) -> None:
    log = log_of(lists)
    changed = shuffled(log.with_columns(change(pl.col("score"))), seed)
    assert_close(per_query(changed, ONCE, ties=ties), per_query(log, ONCE, ties=ties))


#: Values of a ranking of all relevant documents in ideal order.
PERFECT = {
    **dict.fromkeys(("log_average_precision", "log_bpref", "label_ranking_loss"), 0),
    **dict.fromkeys(("ndcg", "g_measure", "rndcg", "binary_g", "bpref", "reciprocal_rank"), 1),
    **dict.fromkeys(("recall", "full_recall", "recall_capped", "relative_precision"), 1),
    **dict.fromkeys(("hit_rate", "r_precision", "interpolated_precision", "eleven_point"), 1),
    **dict.fromkeys(("roc_auc", "pr_auc", "pair_accuracy", "top_k_accuracy", "answered"), 1),
    **dict.fromkeys(("label_ranking_average_precision", "set_recall"), 1),
    "set_relative_precision": 1,
}


@given(grades=st.lists(st.integers(0, 4), min_size=2, max_size=12))
def test_perfect_list(grades: list[int]) -> None:
    assume(0 in grades and max(grades) > 0)
    best_first = sorted(grades, reverse=True)
    log = log_of({0: [Doc(i, -float(i), label) for i, label in enumerate(best_first)]})
    perfect = {str(m): PERFECT[m.function.__name__] for m in every_metric()
               if m.function.__name__ in PERFECT}  # fmt: skip
    row = pr.per_query(log, list(perfect)).drop("query").row(0, named=True)
    assert row == pytest.approx(perfect, abs=1e-12)


LOG = log_of(random_lists(seed=2))


@cache
def values() -> pl.DataFrame:
    return per_query(LOG)


def test_works_over_a_window_and_in_a_select() -> None:
    rows, expected = pr.rank(LOG), values().select("query", *map(str, CUT))
    windows = rows.select("query", *(metric.over("query") for metric in CUT))
    assert_close(windows.unique().sort("query"), expected)
    one = rows.filter(query=0).select(CUT)
    assert_close(one, expected.filter(query=0).drop("query"))


@fewer_examples
@given(lists=large_logs(), others=large_logs())
def test_other_queries_change_nothing(lists: Lists, others: Lists) -> None:
    log = log_of(lists).with_columns(pl.col("query") * 2)
    more = log_of(others).with_columns(pl.col("query") * 2 - 7)
    both = per_query(shuffled(pl.concat([more, log])), ONCE)
    assert_close(both.filter(pl.col("query") % 2 == 0), per_query(log, ONCE))


@pytest.mark.parametrize("by", [None, "run"])
def test_streams_without_falling_back_to_memory(by: str | None) -> None:
    log = log_of(random_lists(seed=6)).with_columns(run=pl.lit("a"))
    assert "in-memory-map" not in holding_nodes(pr.evaluate(log.lazy(), METRICS, by=by))


def test_metrics_of_zeros_and_ones_say_so() -> None:
    log = pl.concat([LOG, log_of({-1: [Doc(0, None, 0)]})])  # with an empty ranking
    several = pl.concat([per_query(log, ties=ties) for ties in ("best", "worst")])
    for metric in METRICS:
        found = set(several[metric.output_name].drop_nulls().cast(pl.Float64))
        # Metrics of labels of 2 or more have no value where the labels have no subtopics.
        assert not found or metric.binary == (found == {0.0, 1.0}), metric
    assert not any(each.binary for each in (pr.hit_rate(3) / 2, 1 - pr.hit_rate(3)))


def test_name_reads_back_into_the_metric() -> None:
    for metric in METRICS:
        again = pr.metric(str(metric))
        assert str(again) == again.output_name == str(metric)
        assert (again.function, again.arguments) == (metric.function, metric.arguments)
        assert again.meta.eq(metric), metric
