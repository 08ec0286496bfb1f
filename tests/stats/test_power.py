"""`power`: queries that a difference or a width needs, and what `compare` then finds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from statsmodels.stats.power import TTestPower

import polars_rank as pr
from polars_rank.errors import ArgumentError, RankWarning


def table(queries: int, effect: float = 0.0, seed: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    a = random.normal(0, 1, queries)
    b = a + effect + random.normal(0, 0.5, queries)
    query = [*range(queries)] * 2
    return pl.DataFrame({"run": ["a"] * queries + ["b"] * queries, "query": query, "x": [*a, *b]})


def test_power_is_that_of_the_t_test() -> None:
    row = pr.power(table(40), baseline="a", difference=0.2).row(0, named=True)
    effect, law = 0.2 / row["std"], TTestPower()
    assert row["power"] == pytest.approx(law.power(effect, 40, 0.05))
    assert row["needed"] == int(np.ceil(law.solve_power(effect, None, 0.05, 0.8)))
    detectable = law.solve_power(None, 40, 0.05, 0.8) * row["std"]
    assert row["detectable"] == pytest.approx(detectable, rel=1e-5)
    assert row["needed_low"] < row["needed"] < row["needed_high"]


def test_planned_experiments_have_their_power() -> None:
    needed = pr.power(table(200, seed=9), baseline="a", difference=0.15)["needed"].item()
    found = [
        pr.compare(table(needed, 0.15, seed), baseline="a")["p_value"].item() < 0.05
        for seed in range(200)
    ]
    assert 0.7 < np.mean(found) < 0.9


def test_widths_are_those_of_later_intervals() -> None:
    plan = pr.power(table(50), "x", baseline="a", width=0.2).row(0, named=True)
    total = 50 + plan["n"]
    widths = [
        row["high"] - row["low"]
        for seed in range(20)
        for row in pr.compare(table(total, seed=seed), baseline="a").iter_rows(named=True)
    ]
    assert np.mean(widths) == pytest.approx(0.2, rel=0.15)
    now = pr.power(table(50), "x", baseline="a", n=0)["width"].item()
    row = pr.compare(table(50), baseline="a").row(0, named=True)
    assert now == pytest.approx(row["high"] - row["low"], rel=0.02)


def test_predictions_save_labels() -> None:
    random = np.random.default_rng(0)
    predicted = pl.DataFrame({"query": range(1000), "x": random.normal(0, 1, 1000)})
    human = predicted.head(100).with_columns(pl.col("x") + pl.Series(random.normal(0, 0.3, 100)))
    now = pr.power(human, n=0, predictions=predicted).row(0, named=True)
    row = pr.summarize(human, predictions=predicted).row(0, named=True)
    assert now["width"] == pytest.approx(row["high"] - row["low"], rel=0.02)
    assert now["width_human"] > now["width"]
    assert 0.5 < now["saving"] < 0.95
    more = pr.power(human, n=[0, 50, 2000], predictions=predicted)
    assert more["width"].to_list()[1] < now["width"]
    assert more["note"].to_list()[2] == "only 900 queries have no human labels"


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_equal_values_have_no_power() -> None:
    values = table(10).with_columns(x=pl.lit(0.5))
    row = pr.power(values, baseline="a", difference=0.1).row(0, named=True)
    assert (row["power"], row["needed"]) == (None, None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"difference": 0}, "`difference`"),
        ({"power": 0.01}, "`power` must be above"),
        ({"width": 0.1, "n": 3}, "either `n` or `width`"),
        ({"width": -0.1}, "`width`"),
        ({"n": []}, "at least one"),
        ({"n": -1}, "`n`"),
        ({"n": 3, "cluster": "query"}, "`cluster` is not supported"),
        ({"predictions": table(40)}, "`predictions` needs `n`"),
    ],
)
def test_bad_input(options: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pr.power(table(40), baseline="a", **options)


def test_few_judged_queries_warn() -> None:
    predicted = pl.DataFrame({"query": range(50), "x": np.linspace(0, 1, 50)})
    with pytest.warns(RankWarning, match="fewer than 10 judged queries"):
        pr.power(predicted.sample(5, seed=1), n=10, predictions=predicted)
