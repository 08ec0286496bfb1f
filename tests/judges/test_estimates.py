"""Estimates from labels of people for some queries and of a judge for all."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import beta
from scipy.stats import t as student

import polars_rank as pr
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError

NEW = ["predicted", "judge_weight", "effective_queries"]


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


def expected(h: np.ndarray, j: np.ndarray, o: np.ndarray) -> tuple[float, float, float]:
    """Return the weight of predictions, the estimate and its standard error, as in the paper.

    `h` and `j` are the values by people and by the judge for judged queries, and `o` those by the
    judge for the others. The variance of a residual has one degree of freedom less for the weight.
    """
    n, total = len(h), len(o)
    variance = np.concatenate([j, o]).var(ddof=1)
    covariance = ((h - h.mean()) * (j - j.mean())).mean()
    weight = min(max(covariance / ((1 + n / total) * variance), 0.0), 1.0)
    residual = h - weight * j
    squares = ((residual - residual.mean()) ** 2).sum() / (n * (n - 2))
    error = math.sqrt(squares + weight**2 * o.var(ddof=1) / total)
    return weight, residual.mean() + weight * o.mean(), error


def parts(human: pl.DataFrame, predicted: pl.DataFrame) -> tuple:
    """Return the values by people, by the judge for these, and by the judge for others."""
    judged = predicted.join(human, on=["run", "query"], how="semi").sort("run", "query")
    others = predicted.join(human, on=["run", "query"], how="anti").sort("run", "query")
    return tuple(
        {run: rows["x"].to_numpy() for (run,), rows in each.group_by("run", maintain_order=True)}
        for each in (human.sort("run", "query"), judged, others)
    )


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_means_and_differences_are_those_of_the_paper(engine: Any) -> None:
    human, predicted = tables()
    values = parts(human, predicted)
    both = (human.lazy(), predicted.lazy())
    found = pr.judges.estimate(*both).collect(engine=engine)
    of_pair = pr.judges.estimate(*both, baseline="a").collect(engine=engine)
    for row in (*found.iter_rows(named=True), *of_pair.iter_rows(named=True)):
        is_pair = "baseline" in row
        h, j, o = (each["b"] - each["a"] if is_pair else each[row["run"]] for each in values)
        weight, mean, error = expected(h, j, o)
        assert row["judge_weight"] == pytest.approx(weight)
        assert row["difference" if is_pair else "mean"] == pytest.approx(mean)
        assert (row["queries"], row["predicted"], row["method"]) == (100, 300, "t")
        # The values are nearly symmetric, so that t decides on at least one side.
        half = student.ppf(0.975, 98) * error
        assert 2 * half * (1 - 1e-12) <= row["high"] - row["low"] < 2.1 * half
        alone = h.var(ddof=1) / 100
        assert row["effective_queries"] == pytest.approx(100 * alone / error**2)
    assert (row["wins"], row["losses"]) == ((h > 0).sum(), (h < 0).sum())
    assert row["mean"] - row["baseline_mean"] == pytest.approx(row["difference"])
    assert (row["verdict"], row["comparisons"]) == ("better", 1)


def test_predictions_of_no_use_change_nothing() -> None:
    """The judge gives the opposite of the truth, so that its weight is 0."""
    human, predicted = tables()
    opposite = predicted.with_columns(x=-pl.col("x"))
    for function, options in ((pr.summarize, {}), (pr.compare, {"baseline": "a"})):
        found, plain = pr.judges.estimate(human, opposite, **options), function(human, **options)
        assert found.columns == [*plain.columns[:-1], *NEW, "method"]
        assert found["judge_weight"].unique().to_list() == [0]
        assert found["effective_queries"].unique().to_list() == [100]
        assert_frame_equal(found.drop(NEW), plain, rel_tol=1e-9)


def test_perfect_predictions_narrow_the_interval() -> None:
    human, predicted = tables(noise=0.05)
    for function, options in ((pr.summarize, {}), (pr.compare, {"baseline": "a"})):
        alone = function(human, **options).row(0, named=True)
        row = pr.judges.estimate(human, predicted, **options).row(0, named=True)
        assert row["high"] - row["low"] < 0.8 * (alone["high"] - alone["low"])
        assert row["effective_queries"] > 150


def test_proportions() -> None:
    """Of 200 queries, people judged 60, of which 36 are hits, and the judge is right on all."""
    truth = pl.DataFrame({"query": range(200), "hit": ([1.0] * 3 + [0.0] * 2) * 40})
    row = pr.judges.estimate(truth.head(60), truth).row(0, named=True)
    assert row["method"] == "clopper-pearson"
    assert row["mean"] == pytest.approx(0.6)
    few, many = (beta.ppf(0.975, 0.6 * n + 1, 0.4 * n) - 0.6 for n in (60, 200))
    assert many < row["high"] - 0.6 < few
    assert 60 < row["effective_queries"] <= 200 * 1.03


def test_groups_weights_and_clusters() -> None:
    human, predicted = tables(noise=0.5)
    columns = {"part": pl.col("query") % 2, "w": pl.lit(2.0), "user": pl.col("query")}
    human, predicted = human.with_columns(**columns), predicted.with_columns(**columns)
    for options in ({}, {"baseline": "a"}):
        found = pr.judges.estimate(human, predicted, "x", by="part", **options)
        for part in (0, 1):
            alone = pr.judges.estimate(
                human.filter(part=part), predicted.filter(part=part), "x", **options
            )
            assert_frame_equal(found.filter(part=part).drop("part"), alone)
        plain = pr.judges.estimate(human, predicted, "x", **options)
        for same in ({"weight": "w"}, {"cluster": "user"}):
            assert_frame_equal(
                pr.judges.estimate(human, predicted, "x", **same, **options), plain, rel_tol=1e-9
            )


@settings(max_examples=20)
@given(
    st.integers(2, 45), st.integers(0, 45), st.sampled_from(["rr", "x"]),
    st.sampled_from([{}, {"baseline": "a"}]), st.integers(0, 9),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_any_number_of_queries(
    judged: int, others: int, metric: str, options: dict, seed: int
) -> None:
    random = np.random.default_rng(seed)
    total = judged + others
    truth = pl.DataFrame(
        {"run": ["a"] * total + ["b"] * total, "query": [*range(total)] * 2,
         metric: np.round(random.random(2 * total), 1)}
    )  # fmt: skip
    noisy = (pl.col(metric) * 0.7 + pl.Series(random.random(2 * total) * 0.3)).alias(metric)
    human, predicted = truth.filter(pl.col("query") < judged), truth.with_columns(noisy)
    eager = pr.judges.estimate(human, predicted, **options)
    lazy = pr.judges.estimate(human.lazy(), predicted, **options).collect(engine="streaming")
    assert_frame_equal(lazy, eager)
    shuffled = predicted.sample(fraction=1.0, shuffle=True, seed=1)
    again = pr.judges.estimate(human.reverse(), shuffled, **options)
    assert_frame_equal(again, eager, rel_tol=1e-6, abs_tol=1e-6)
    for row in eager.iter_rows(named=True):
        assert (row["queries"], row["predicted"]) == (judged, others)
        assert (row["low"] is None) == (row["method"] == "none")
        if options and judged < 30 and row["judge_weight"]:
            assert (row["method"], row["verdict"], row["p_value"]) == ("none", "too few", None)
        if options and row["low"] is not None and abs(row["p_value"] - 0.05) > 1e-4:
            assert (row["low"] > 0 or row["high"] < 0) == (row["p_value"] < 0.05)


def test_few_judged_queries() -> None:
    human, predicted = tables(human=29)
    message = "few judged queries, or few that differ, in 2 rows, e.g. of 'x'"
    with pytest.warns(RankWarning, match=message):
        means = pr.judges.estimate(human, predicted)
    assert means["method"].to_list() == ["t", "t"]
    row = pr.judges.estimate(human, predicted, baseline="a").row(0, named=True)
    assert (row["method"], row["verdict"], row["low"]) == ("none", "too few", None)
    row = pr.judges.estimate(*tables(human=30), baseline="a").row(0, named=True)
    assert (row["method"], row["verdict"]) == ("t", "better")
    # A selection that is not random.
    human, predicted = tables()
    chosen = predicted.filter(pl.col("x") > 0.5).select("query").unique()
    with pytest.warns(RankWarning, match="not a random sample"):
        pr.judges.estimate(human.join(chosen, on="query", how="semi"), predicted)
    unknown = predicted.with_columns(x=pl.when(pl.col("query") != human["query"][0]).then("x"))
    with pytest.warns(RankWarning, match="2 human values do not count, e.g. of 'x'"):
        found = pr.judges.estimate(human, unknown)
    known = (each.filter(pl.col("query") != human["query"][0]) for each in (human, predicted))
    assert_frame_equal(found, pr.judges.estimate(*known))


def test_directions_are_those_of_differences_only() -> None:
    human, predicted = tables()
    with pytest.warns(RankWarning, match="no metric is named 'x', so higher values"):
        pr.judges.estimate(human, predicted, baseline="a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.judges.estimate(human, predicted)
    low = [each.rename({"x": "fall_out@2"}) for each in (human, predicted)]
    assert pr.judges.estimate(*low, baseline="a")["verdict"].item() == "worse"


def test_bad_input() -> None:
    other = "200 rows of `human` have another value in `predicted` \\(column '{}'\\)"
    human, predicted = (each.with_columns(w=pl.lit(1.0), u=pl.col("query")) for each in tables())
    x, of_a, one_more = pl.col("x"), pl.col("run") == "a", predicted.with_columns(run=pl.lit("c"))
    p = predicted
    for truth, guess, options, error, message in (
        (human, p.filter(of_a), {}, DataError, "`predicted` has no row for 100 rows"),
        (human, p.drop("x"), {}, SchemaError, "'x' \\(`predicted`\\) not found"),
        (human, p.cast({"query": pl.String}), {}, SchemaError, "same type"),
        (human, p.with_columns(x=x * math.nan), {}, DataError, "NaN or infinite"),
        (human, pl.concat([p, one_more]), {}, DataError, "1 run of `predicted` not found"),
        (human, pl.concat([p, p.head(1)]), {}, DataError, "duplicate rankings"),
        (human.head(0), p, {}, DataError, "`human` has no rows"),
        (human.with_columns(x=x * math.inf), p, {}, DataError, "NaN or infinite"),
        (human.with_columns(pl.col("w") + 1), p, {"weight": "w"}, DataError, other.format("w")),
        (human.with_columns(w=-1.0), p, {"weight": "w"}, DataError, "null, negative"),
        (human.with_columns(pl.col("u") + 1), p, {"cluster": "u"}, DataError, other.format("u")),
        (human, p, {"baseline": "z"}, DataError, "run 'z' \\(`baseline`\\) not found"),
        (human, p, {"confidence": 1}, ArgumentError, "confidence"),
    ):
        for more in ({}, {"baseline": "a"}):
            for lazy in (False, True):
                both = [each.lazy() if lazy else each for each in (truth, guess)]
                with pytest.raises(error, match=message):
                    pr.judges.estimate(*both, "x", **{**more, **options}).lazy().collect()
