"""The planned widths of intervals: the formulas by hand, the estimates of now, notes, errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import t

N, OTHERS = 40, 300
METRICS = ["x", "y"]
KEYS = ["country", "metric", "run"]


def tables(noise: float = 0.2, n: int = N, others: int = OTHERS) -> tuple[pl.DataFrame, ...]:
    """Return values by human labels of n queries, and by predicted labels of all."""
    random = np.random.default_rng(0)
    query = np.arange(n + others)
    human, predicted = [], []
    for run, shift in (("a", 0.0), ("b", 0.1)):
        x = random.random(n + others) + shift
        both = pl.DataFrame({
            "run": run, "query": query, "country": query % 2, "w": 1.0 + query % 5, "x": x,
            "y": x * x, "judge": x + random.normal(0, noise, n + others),
        })  # fmt: skip
        human.append(both.head(n).drop("judge"))
        predicted.append(both.drop("x").rename({"judge": "x"}))
    return pl.concat(human), pl.concat(predicted)


VALUES, PREDICTED = tables()


def expected(added: int, *, is_difference: bool = False) -> tuple[float, float]:
    """Return the width with predictions, and that of the human queries alone."""
    human, judge = (
        table.filter(run="b")["x"].to_numpy()
        - (table.filter(run="a")["x"].to_numpy() if is_difference else 0)
        for table in (VALUES, PREDICTED)
    )
    n, others = N + added, OTHERS - added
    covariance = np.cov(human, judge[:N])[0, 1] * (n - 1) / n
    weight = min(max(covariance / ((1 + n / others) * judge.var(ddof=1)), 0), 1)
    rest = human - weight * judge[:N]
    square = ((rest - rest.mean()) ** 2).sum() / (N - 2) / n
    square += weight**2 * judge[N:].var(ddof=1) / others
    alone = 2 * t.ppf(0.975, n - 1) * human.std(ddof=1) / math.sqrt(n)
    return 2 * t.ppf(0.975, n - 2) * math.sqrt(square), alone


@pytest.mark.parametrize(("is_difference", "engine"), [(False, "in-memory"), (True, "streaming")])
def test_widths_by_hand(is_difference: bool, engine: Any) -> None:
    baseline = "a" if is_difference else None
    result = pr.judges.plan(
        VALUES.lazy(), PREDICTED.lazy(), "x", n=[0, 10, 100], baseline=baseline
    ).collect(engine=engine)
    assert result.columns == ["metric", "run", "n", "width", "width_human", "saving", "note"]
    rows = result.filter(run="b")
    assert rows["n"].to_list() == [0, 10, 100]
    for added, width, alone in rows.select("n", "width", "width_human").iter_rows():
        hand = expected(added, is_difference=is_difference)
        assert (width, alone) == pytest.approx(hand, rel=1e-12)
    assert rows["note"][0] is None


@pytest.mark.parametrize("options", [{"weight": "w"}, {"by": "country", "confidence": 0.8}])
def test_widths_of_now_are_those_of_the_estimates(options: dict[str, Any]) -> None:
    compared = pr.compare(VALUES, METRICS, baseline="a", predictions=PREDICTED, **options)
    summary = pr.summarize(VALUES, METRICS, predictions=PREDICTED, interval="t", **options)
    alone = pr.summarize(VALUES, METRICS, interval="t", **options)
    for baseline, now in (("a", compared), (None, summary)):
        plan = pr.judges.plan(VALUES, PREDICTED, METRICS, n=0, baseline=baseline, **options)
        keys = [name for name in KEYS if name in plan.columns]
        ours = plan.select(*keys, "width")
        assert_frame_equal(ours, now.select(*keys, width=pl.col("high") - pl.col("low")))
    assert_frame_equal(
        plan.select(*keys, "width_human"),
        alone.select(*keys, width_human=pl.col("high") - pl.col("low")),
    )


def test_saving_is_of_the_human_queries_for_the_same_width() -> None:
    row = pr.judges.plan(VALUES, PREDICTED, "x", n=20).filter(run="b").row(0, named=True)
    spread = VALUES.filter(run="b")["x"].std()

    def alone(n: int) -> float:
        return 2 * t.ppf(0.975, n - 1) * spread / math.sqrt(n)

    needed = next(n for n in range(2, 1000) if alone(n) <= row["width"])
    assert row["saving"] == pytest.approx(1 - (N + 20) / needed)
    assert needed > N + 20


def test_the_smallest_number_for_a_width() -> None:
    widths = pr.judges.plan(VALUES, PREDICTED, "x", n=[59, 60, OTHERS]).filter(run="b")
    target = expected(60)[0]
    assert expected(59)[0] > target
    plan = pr.judges.plan(VALUES, PREDICTED, "x", width=target).filter(run="b")
    assert_frame_equal(plan, widths[1])
    # The interval of now is narrow enough.
    assert pr.judges.plan(VALUES, PREDICTED, "x", width=1)["n"].to_list() == [0, 0]
    last = widths["width"][-1]
    for row in pr.judges.plan(VALUES, PREDICTED, "x", width=last * 0.99).iter_rows(named=True):
        assert [row[name] for name in ("n", "width", "width_human", "saving")] == [None] * 4
        assert "with human labels of all queries, the width is" in row["note"]


def test_without_a_run_the_table_is_one() -> None:
    values, predicted = (table.filter(run="b").drop("run") for table in (VALUES, PREDICTED))
    row = pr.judges.plan(values, predicted, "x", n=0).row(0, named=True)
    assert "run" not in row
    assert row["width"] == pytest.approx(expected(0)[0])


@pytest.mark.parametrize("judge", ["constant", "opposite"])
def test_a_judge_that_is_not_worth_its_labels(judge: str) -> None:
    x = pl.lit(0.5) if judge == "constant" else -pl.col("x")
    for row in pr.judges.plan(VALUES, PREDICTED.with_columns(x=x), "x", n=[0, 50]).rows(named=True):
        assert row["width"] == row["width_human"]
        assert row["saving"] == 0
        assert "less than 10%" in row["note"]
        assert "the judge is not worth its labels" in row["note"]


def test_all_queries() -> None:
    plan = pr.judges.plan(VALUES, PREDICTED, "x", n=[OTHERS, OTHERS + 1]).filter(run="a")
    last, more = plan.rows(named=True)
    assert last["width"] == last["width_human"]
    assert last["note"] == "all queries have human labels, so there is nothing to predict"
    assert [more[name] for name in ("n", "width", "saving")] == [OTHERS + 1, None, None]
    assert more["note"] == "only 300 queries have no human labels"


def test_without_an_interval() -> None:
    equal = pr.judges.plan(VALUES.with_columns(x=0.5), PREDICTED, "x", n=5)
    assert equal["width"].to_list() == [None, None]
    assert "all values are equal" in equal["note"][0]
    few = VALUES.filter(pl.col("query") < 2)
    for given in ({"n": 5}, {"width": 0.1}):
        with pytest.warns(pr.errors.RankWarning, match="fewer than 10 human queries in 2 rows"):
            plan = pr.judges.plan(few, PREDICTED, "x", **given)
        assert plan["width"].to_list() == [None, None]
        assert plan["note"].to_list() == ["too few human queries: 2; at least 3 are needed"] * 2


def test_human_queries_are_a_random_sample() -> None:
    high = PREDICTED.with_columns(
        x=pl.when(pl.col("query") < N).then(pl.col("x") + 1).otherwise("x")
    )
    with pytest.warns(pr.errors.RankWarning, match="judge queries at random"):
        pr.judges.plan(VALUES, high, "x", n=5)


def test_errors() -> None:
    for given in ({}, {"n": 1, "width": 0.1}):
        with pytest.raises(pr.errors.ArgumentError, match=r"pass either `n`.*or `width`"):
            pr.judges.plan(VALUES, PREDICTED, **given)
    with pytest.raises(pr.errors.ArgumentError, match="`n` must be an integer of at least 0"):
        pr.judges.plan(VALUES, PREDICTED, n=np.array([1, 2]))
    with pytest.raises(pr.errors.ArgumentError, match="`values` must be per-query values"):
        pr.judges.plan(pr.stats.moments(VALUES), PREDICTED, n=1)
    with pytest.raises(pr.errors.ArgumentError, match="`baseline` needs `run`"):
        pr.judges.plan(VALUES, PREDICTED, n=1, baseline="a", run=None)
    for lazily in (False, True):
        for values, match in (
            (pl.concat([VALUES, VALUES.head(1)]), "duplicate rankings"),
            (VALUES.with_columns(query=pl.col("query") + 999), "`predictions` has no row for 80"),
        ):
            table = values.lazy() if lazily else values
            with pytest.raises(pr.errors.DataError, match=match):
                pr.judges.plan(table, PREDICTED, n=1).lazy().collect()
