"""Trees of metrics: every compiler returns the same value, or building a metric raises."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given

# Metrics of terms alone.
from polars_rank.metrics.metric import Metric
from polars_rank import terms as t
from polars_rank.terms import LABEL, RANK, RETRIEVED, SCORE, Value, where
from strategies import (
    Lists,
    assert_close,
    every_metric,
    fewer_examples,
    large_logs,
    log_of,
    random_lists,
    shuffled,
)

LOG = log_of(random_lists(seed=11))
METRICS = every_metric(3)
#: Each metric once, for plans in which parameters make no difference.
ONCE = every_metric()
#: Each metric once, at a cutoff if it has one.
CUT = [*{m.function: m for m in METRICS if "rel=" not in str(m)}.values()]
LAYOUTS = ("sorted", "adjacent", "shuffled")


def evaluated(function: Callable[[], Value], log: pl.DataFrame = LOG) -> pl.DataFrame:
    """Return the values of a tree, equal in a plan and as a plain expression."""
    metric = Metric(function, {}, "x")
    plan = pr.per_query(log, [metric, "ap"]).select("query", "x")
    plain = pr.rank(shuffled(log)).group_by("query").agg(metric).sort("query")
    assert_close(plain, plan)
    return plan


def test_a_users_metric() -> None:
    share = evaluated(lambda: t.top(t.relevant(), 2).count() / t.num_documents())
    wanted = pr.per_query(LOG, [pr.num_relevant_retrieved(2), pl.len().alias("n")])
    assert_close(share, wanted.select("query", x=pl.col("num_relevant_retrieved@2") / pl.col("n")))


def test_sums_of_integers_have_as_many_bits_as_they_need() -> None:
    log = pl.DataFrame({"query": 1, "doc": [*"abcd"], "score": 1, "label": 2**62})
    total = evaluated(lambda: t.each(LABEL.cast(pl.Int64)).sum(), log)
    assert total["x"].item() == 4 * 2.0**62


WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: t.top(RANK).sum() / pl.len(), "combine values with values"),
    (lambda: t.top(RANK).sum() + pl.col("score").max(), "combine values with values"),
    (lambda: t.top(RANK).sum() + LABEL, "combine values with values"),
    (lambda: t.top(RANK * pl.col("score")).sum(), "combine terms with terms"),
    (lambda: t.top(RANK / t.num_retrieved()).sum(), "combine terms with terms"),
    (lambda: pl.col("rank").max(), "must return a value per ranking"),
    (lambda: RANK, "must return a value per ranking"),
    # Functions of several rows, of fewer rows, and of rows in another order.
    (lambda: t.top(LABEL.map(lambda label: label - label.mean())).sum(), "elementwise"),
    (lambda: t.each(LABEL.map(lambda x, kept: x.filter(kept), RETRIEVED)).sum(), "elementwise"),
    (lambda: t.top(SCORE.map(pl.Expr.cum_sum)).max(), "elementwise"),
    (lambda: t.fold(lambda label: (label * pl.col("rank")).sum(), t.in_order(LABEL)),
     r"reads \['rank'\]"),
    # Operations that not all compilers support.
    (lambda: t.top(LABEL, 2).head(), "no attribute 'head'"),
    (lambda: t.top(LABEL, 2).mean(), "no attribute 'mean'"),
]  # fmt: skip


def test_terms_that_would_differ_in_a_plan_are_errors() -> None:
    for function, said in WRONG:
        with pytest.raises(pr.errors.ArgumentError, match=said):
            Metric(function, {}, "x")
    for parameter in ("gain", "discount"):
        for of_rows in (lambda label: label - label.min(), pl.Expr.cum_sum):
            with pytest.raises(pr.errors.ArgumentError, match="must return an elementwise"):
                pr.dcg(3, **{parameter: of_rows})


def test_values_that_depend_on_ties_allow_no_products() -> None:
    def squared() -> Value:
        hits = t.top(t.relevant(), 2).count()
        return hits * hits

    def scaled() -> Value:
        hits = t.top(t.relevant(), 2).count()
        return where(t.num_documents() > 0, 1 - 3 * hits / t.num_documents())

    one, other = Metric(squared, {}, "x"), Metric(scaled, {}, "x")
    with pytest.raises(pr.errors.ArgumentError, match="no closed form"):
        pr.per_query(LOG, one, ties="expected")
    found = pr.per_query(LOG, other, ties="expected")
    hits = pr.per_query(LOG, [pr.num_relevant_retrieved(2), pl.len().alias("n")], ties="expected")
    counted = 1 - 3 * pl.col("num_relevant_retrieved@2") / pl.col("n")
    assert_close(found, hits.select("query", x=counted))


def test_same_value_alone_and_with_other_metrics() -> None:
    log = log_of(random_lists(seed=7, queries=30))
    expected = pr.per_query(log, METRICS, undefined="null")
    groups = pr.rank(log).group_by("query")
    for metric in CUT:
        found = pr.per_query(log, metric, undefined="null")
        assert_close(found, expected.select("query", metric.output_name))
    for metric in ONCE:
        found = groups.agg(metric).sort("query")
        assert_close(found, expected.select("query", metric.output_name))


@fewer_examples
@given(lists=large_logs())
def test_the_same_value_wherever_it_is_evaluated(lists: Lists) -> None:
    log = log_of(lists)
    eager = pr.per_query(log, ONCE)
    plan = pr.per_query(log.lazy(), ONCE)
    assert plan.collect_schema() == eager.schema
    for engine in ("streaming", "in-memory"):
        assert_close(plan.collect(engine=engine), eager)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_same_values_through_a_file(layout: str, tmp_path: pytest.TempPathFactory) -> None:
    # What follows the sorting is one plan for all layouts: each has a part of the metrics.
    metrics = METRICS[LAYOUTS.index(layout) :: len(LAYOUTS)]
    rows = {"sorted": LOG, "adjacent": LOG.reverse(), "shuffled": shuffled(LOG)}[layout]
    rows.write_parquet(tmp_path / "log.parquet")
    scan = pr.scan_log(tmp_path / "log.parquet", layout=layout)
    found = pr.per_query(scan, metrics).collect(engine="streaming").sort("query")
    assert_close(found, pr.per_query(LOG, metrics))


def test_arithmetic_of_metrics() -> None:
    both = pr.ndcg(3) * 2 - pr.precision(1) / 2 + 1
    assert isinstance(both, Metric)
    found = pr.per_query(LOG, [both.alias("x"), pr.ndcg(3), pr.precision(1)])
    ndcg, precision = pl.col("ndcg@3"), pl.col("precision@1")
    assert_close(found.select("x"), found.select(x=ndcg * 2 - precision / 2 + 1))
    assert str(both) == "(((ndcg@3 * 2) - (precision@1 / 2)) + 1)"


def test_combined_metrics_follow_conventions() -> None:
    metrics = [pr.ndcg(2), (pr.ndcg(2) * 1).alias("x"), (pr.ndcg(2) + pr.ndcg(3)).alias("y")]
    for name in ("LIGHTGBM", "TREC_EVAL", "RANX", "SKLEARN"):
        conventions = getattr(pr.conventions, name)
        row = pr.evaluate(LOG, [*metrics, pr.ndcg(3)], conventions=conventions).row(0, named=True)
        assert row["x"] == pytest.approx(row["ndcg@2"], abs=1e-12)
        if conventions.undefined != "one":  # the sum of two undefined metrics counts as one
            assert row["y"] == pytest.approx(row["ndcg@2"] + row["ndcg@3"], abs=1e-12)


def test_aggregates_of_combined_counts() -> None:
    found, hits = pr.num_retrieved(), pr.num_relevant_retrieved()
    sums = [found + hits, hits - found, found * 2, 2 * hits, found / 4, -found,
            (found - hits / 2) * 3, hits.round(1) + found, found.cast(pl.Int64)]  # fmt: skip
    means = [hits / found, hits * found, 1 / found, (hits / found) * 2,
             (hits / found).fill_null(0) - 1 / found, (hits / found) * pr.ndcg()]  # fmt: skip
    metrics = [made.alias(str(place)) for place, made in enumerate((*sums, *means))]
    lists = pr.per_query(LOG, metrics, undefined="skip")
    row = pr.evaluate(LOG, metrics, undefined="skip").row(0, named=True)
    for place in range(len(metrics)):
        values = lists[str(place)]
        expected = values.sum() if place < len(sums) else values.mean()
        assert row[str(place)] == pytest.approx(expected), metrics[place]
    with pytest.raises(pr.errors.ArgumentError, match="different aggregations over rankings"):
        found + pr.ndcg()


def test_expressions_of_metrics_with_conventions_raise() -> None:
    by_method = pr.ndcg(2).clip(0.1)
    values = pr.per_query(LOG, pr.ndcg(2), conventions="lightgbm").to_series(-1)
    found = pr.evaluate(LOG, by_method, conventions="lightgbm").item(0, -1)
    assert found == pytest.approx(values.clip(0.1).mean())
    filled = (pr.ndcg(2) + pr.recall(2)).fill_null(0)
    for part, other in ((pr.ndcg(2).fill_null(0), 0.1), (filled, 0.1), (pr.ndcg(2) > 0, True)):
        made = pl.max_horizontal(part, other).alias("x")
        assert pr.evaluate(LOG, made, undefined="skip")["x"].item() is not None
        with pytest.raises(
            pr.errors.ArgumentError, match="would not follow the conventions 'LightGBM'"
        ):
            pr.evaluate(LOG, made, conventions=pr.conventions.LIGHTGBM, undefined="skip")


def test_division_by_zero() -> None:
    for zero in (0, 0.0, -0.0):
        with pytest.raises(pr.errors.ArgumentError, match="ndcg@1 is divided by 0"):
            pr.ndcg(1) / zero
        quotient = (zero / pr.ndcg(1)).alias("x")
        assert pr.evaluate(LOG, quotient, undefined="skip")["x"].item() == 0
    log = pl.DataFrame({"query": 1, "score": [1.0, 0.5], "label": [0, 1]})
    ratio = (pr.recall(2) / pr.precision(1)).alias("x")
    assert pr.per_query(log, ratio)["x"].to_list() == [None]
