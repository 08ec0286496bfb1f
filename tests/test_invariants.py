"""Properties that every metric of the package has, without naming one of them."""

from __future__ import annotations

from collections.abc import Callable

import oracles
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import Doc
from polars_rank.metrics.metric import REGISTER
from strategies import Lists, assert_close, every_metric, log_of, logs, random_lists, shuffled, truth

METRICS = list(every_metric(1, 3))
DEFAULTS = list(every_metric())
TIES = ("doc", "doc_ascending", "best", "worst", "input")


def per_query(frame: pl.DataFrame, **options: object) -> pl.DataFrame:
    return pr.per_query(frame, METRICS, **options)


def test_every_metric_has_an_oracle() -> None:
    assert set(REGISTER) <= set(vars(oracles))


def test_every_metric_is_public() -> None:
    assert all(getattr(pr, name) is REGISTER[name] for name in REGISTER)


@pytest.mark.parametrize("ties", TIES)
@given(lists=logs())
def test_equals_its_oracle(lists: Lists, ties: str) -> None:
    assert_close(per_query(log_of(lists), ties=ties), truth(METRICS, lists, ties))


@pytest.mark.parametrize("ties", TIES)
def test_equals_its_oracle_on_a_larger_log(ties: str) -> None:
    lists = random_lists(seed=1, queries=200)
    assert_close(per_query(log_of(lists), ties=ties), truth(METRICS, lists, ties))


@given(lists=logs())
def test_stays_within_its_bounds(lists: Lists) -> None:
    values = per_query(log_of(lists))
    assert not values.select(pl.col(pl.Float64).is_nan().any()).transpose().to_series().any()
    for metric in METRICS:
        low, high = REGISTER[metric.function.__name__].bounds
        found = values[metric.output_name].drop_nulls()
        assert low is None or (found >= low - 1e-12).all(), metric
        assert high is None or (found <= high + 1e-12).all(), metric


@pytest.mark.parametrize("ties", [rule for rule in TIES if rule != "input"])
@given(lists=logs(), seed=st.integers(0, 99))
def test_order_of_rows_is_irrelevant(lists: Lists, seed: int, ties: str) -> None:
    log = log_of(lists)
    assert_close(per_query(shuffled(log, seed), ties=ties), per_query(log, ties=ties))


@pytest.mark.parametrize("change", [lambda s: 3 * s - 7, lambda s: s.exp(), lambda s: s.pow(3)])
@given(lists=logs())
def test_only_the_order_of_scores_counts(
    lists: Lists, change: Callable[[pl.Expr], pl.Expr]
) -> None:
    log = log_of(lists)
    assert_close(per_query(log.with_columns(change(pl.col("score")))), per_query(log))


@given(grades=st.lists(st.integers(0, 4), min_size=2, max_size=12))
def test_perfect_list(grades: list[int]) -> None:
    assume(0 in grades and max(grades) > 0)
    best_first = sorted(grades, reverse=True)
    lists = {0: [Doc(i, -float(i), label) for i, label in enumerate(best_first)]}
    for metric in DEFAULTS:
        perfect = REGISTER[metric.function.__name__].perfect
        if perfect is not None:
            value = pr.per_query(log_of(lists), metric)[metric.output_name].item()
            assert value == pytest.approx(perfect, abs=1e-12), metric


@given(lists=logs())
def test_eager_lazy_and_both_engines_agree(lists: Lists) -> None:
    log = log_of(lists)
    plan = pr.per_query(log.lazy(), METRICS)
    eager = pr.per_query(log, METRICS)
    assert plan.collect_schema() == eager.schema
    assert_close(plan.collect(engine="in-memory"), eager)
    assert_close(plan.collect(engine="streaming"), eager)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_is_an_expression_over_the_ranked_table(ties: str, engine: str) -> None:
    log = log_of(random_lists(seed=2))
    plan = pr.rank(log.lazy(), ties=ties).group_by("query").agg(METRICS).sort("query")
    assert_close(plan.collect(engine=engine), per_query(log, ties=ties))


def test_order_of_ranked_rows_is_irrelevant() -> None:
    ranked = pr.rank(log_of(random_lists(seed=3)))
    expected = ranked.group_by("query").agg(METRICS).sort("query")
    assert_close(shuffled(ranked).group_by("query").agg(METRICS).sort("query"), expected)


def test_works_over_a_window() -> None:
    log = log_of(random_lists(seed=4))
    rows = pr.rank(log).select("query", *(metric.over("query") for metric in METRICS))
    assert_close(rows.unique().sort("query"), per_query(log))


def test_works_in_a_select() -> None:
    log = log_of(random_lists(seed=5, queries=1))
    assert_close(pr.rank(log).select(METRICS), per_query(log).drop("query"))


@given(lists=logs(), others=logs())
def test_other_queries_change_nothing(lists: Lists, others: Lists) -> None:
    more = log_of(others).with_columns(pl.col("query") * 2 - 7)
    log = log_of(lists).with_columns(pl.col("query") * 2)
    both = per_query(shuffled(pl.concat([more, log])))
    assert_close(both.filter(pl.col("query") % 2 == 0), per_query(log))


@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_name_reads_back_into_the_metric(metric: pr.Metric) -> None:
    again = pr.metric(str(metric))
    assert str(again) == again.output_name == str(metric)
    assert (again.function, again.arguments) == (metric.function, metric.arguments)
    assert again.meta.eq(metric)
