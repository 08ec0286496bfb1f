"""Predictions of a judge for all queries beside values by people for some."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import polars_rank as pr
from polars_rank.errors import DataError, RankWarning, SchemaError


def tables(queries: int = 400, human: int = 100, noise: float = 0.2, seed: int = 0) -> tuple:
    """Return values by people for some queries, and predicted values for all."""
    random = np.random.default_rng(seed)
    quality = random.normal(0, 1, queries)
    truth = pl.DataFrame(
        {"run": run, "query": q, "x": quality[q] + shift + random.normal(0, 0.4)}
        for run, shift in (("a", 0.0), ("b", 0.3))
        for q in range(queries)
    )
    error = pl.Series(random.normal(0.5, noise, truth.height))
    predicted = truth.with_columns(x=pl.col("x") + error)
    chosen = random.permutation(queries)[:human]
    return truth.filter(pl.col("query").is_in(chosen)), predicted


def test_the_estimate_is_that_of_the_paper() -> None:
    human, predicted = tables()
    row = (
        pr.summarize(human, predictions=predicted, details=True).filter(run="a").row(0, named=True)
    )
    h = human.filter(run="a").sort("query")["x"].to_numpy()
    judged = predicted.filter(run="a").join(human, on=["run", "query"], how="semi").sort("query")
    others = predicted.filter(run="a").join(human, on=["run", "query"], how="anti")
    j, o = judged["x"].to_numpy(), others["x"].to_numpy()
    n, total = len(h), len(o)
    variance = np.concatenate([j, o]).var(ddof=1)
    covariance = ((h - h.mean()) * (j - j.mean())).mean()
    weight = np.clip(covariance / ((1 + n / total) * variance), 0, 1)
    assert row["judge_weight"] == pytest.approx(weight)
    assert row["mean"] == pytest.approx((h - weight * j).mean() + weight * o.mean())
    residual = h - weight * j
    squares = ((residual - residual.mean()) ** 2).sum() / (n * (n - 2))
    error = np.sqrt(squares + weight**2 * o.var(ddof=1) / total)
    assert row["std_error"] == pytest.approx(error)
    assert row["effective_queries"] > 2 * n


def test_perfect_predictions_narrow_the_interval() -> None:
    human, predicted = tables(noise=0.05)
    for function, options in ((pr.summarize, {}), (pr.compare, {"baseline": "a"})):
        alone = function(human, **options).row(0, named=True)
        row = function(human, predictions=predicted, **options).row(0, named=True)
        assert row["high"] - row["low"] < 0.8 * (alone["high"] - alone["low"])


def test_intervals_cover() -> None:
    """100 logs: the truth is the mean over all queries of an endless population, 0.3."""
    covered = 0
    for seed in range(100):
        human, predicted = tables(200, 50, seed=seed)
        row = pr.compare(human, predictions=predicted, baseline="a").row(0, named=True)
        covered += row["low"] <= 0.3 <= row["high"]
    assert covered >= 88


def test_slices() -> None:
    human, predicted = tables()
    part = (pl.col("query") % 2 == 0).alias("even")
    result = pr.compare(
        human.with_columns(part), "x", predictions=predicted.with_columns(part), baseline="a",
        slices="even",
    )  # fmt: skip
    even = pl.col("query") % 2 == 0
    alone = pr.compare(
        human.filter(even), predictions=predicted.filter(even), baseline="a", correction=False
    )
    assert result.filter(value="true")["difference"].item() == pytest.approx(
        alone["difference"].item()
    )


def test_a_selection_that_is_not_random_warns() -> None:
    human, predicted = tables()
    chosen = predicted.filter(pl.col("x") > 0.5).select("query").unique()
    biased = human.join(chosen, on="query", how="semi")
    with pytest.warns(RankWarning, match="not a random sample"):
        pr.summarize(biased, predictions=predicted)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda p: p.filter(pl.col("run") == "a"), DataError, "`predictions` has no row for 100 rows"),
        (lambda p: p.drop("x"), SchemaError, "'x' \\(`predictions`\\) not found"),
        (lambda p: p.with_columns(pl.col("query").cast(pl.String)), SchemaError, "same type"),
        (lambda p: p.with_columns(x=pl.lit(float("nan"))), DataError, "NaN or infinite"),
        (lambda p: pl.concat([p, p.with_columns(run=pl.lit("c"))]), DataError,
         "1 run of `predictions` not found"),
        (lambda p: pl.concat([p, p.head(1)]), DataError, "duplicate rankings"),
    ],
)  # fmt: skip
def test_bad_input(change: object, error: type, message: str) -> None:
    human, predicted = tables()
    with pytest.raises(error, match=message):
        pr.summarize(human, predictions=change(predicted))  # type: ignore[operator]
    with pytest.raises(error, match=message):
        pr.compare(human.lazy(), predictions=change(predicted), baseline="a").collect()  # type: ignore[operator]
