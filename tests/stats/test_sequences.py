"""Intervals that hold at every look: against the formulas in plain Python, and by their properties."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from polars_rank.stats.sequences import ConfidenceSequence
from scipy.stats import norm

RANDOM = np.random.default_rng(5)
QUERIES = 300
TIMES = RANDOM.permutation(QUERIES)
OLD, NEW = RANDOM.beta(0.7, 0.7, QUERIES), RANDOM.beta(0.9, 0.7, QUERIES)
#: Two runs, of which the new one is better.
VALUES = pl.DataFrame({
    "run": ["old"] * QUERIES + ["new"] * QUERIES,
    "query": [*range(QUERIES)] * 2,
    "time": [*TIMES, *TIMES],
    "night": [*(TIMES // 50), *(TIMES // 50)],
    "ndcg": [*OLD, *NEW],
})  # fmt: skip
ALTERNATIVES = ["two-sided", "greater", "less"]


def compared(values: pl.DataFrame = VALUES, **options: Any) -> dict[str, Any]:
    """Return the row of a comparison with sequences."""
    result: pl.DataFrame = pr.compare(
        values, ["ndcg"], baseline="old", **{"interval": "sequence", **options}
    )
    return result.row(0, named=True)


def rho_squared(alpha: float) -> float:
    return (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / 1000


def test_two_sided_interval_is_the_formula_of_the_paper() -> None:
    differences, n = NEW - OLD, QUERIES
    spread = n * rho_squared(0.05)
    radius = differences.std(ddof=1) * math.sqrt(
        2 * (spread + 1) / (n * spread) * math.log(math.sqrt(spread + 1) / 0.05)
    )
    row = compared()
    assert row["interval"] == "sequence"
    assert row["low"] == pytest.approx(differences.mean() - radius, rel=1e-9)
    assert row["high"] == pytest.approx(differences.mean() + radius, rel=1e-9)
    of_summary = pr.summarize(
        pl.DataFrame({"query": range(n), "x": differences}), interval="sequence"
    )
    assert of_summary.select("low", "high").row(0) == pytest.approx((row["low"], row["high"]))


@pytest.mark.parametrize("alternative", ["greater", "less"])
def test_one_sided_interval_holds_for_the_exact_mixture(alternative: str) -> None:
    """At the bound, the mixture over the positive half of a normal is at least 1 / α."""
    row = compared(alternative=alternative)
    side, other = ("low", "high") if alternative == "greater" else ("high", "low")
    assert row[other] == (math.inf if alternative == "greater" else -math.inf)
    differences = NEW - OLD
    error = differences.std(ddof=1) / math.sqrt(QUERIES)
    width = abs(row[side] - differences.mean()) / error
    spread = QUERIES * rho_squared(0.05)
    x = width * math.sqrt(spread / (spread + 1))
    mixture = 2 / math.sqrt(spread + 1) * math.exp(x * x / 2) * norm.cdf(x)
    assert 1 / 0.05 <= mixture < 1.1 / 0.05
    two_sided = compared()
    assert two_sided["low"] < row["low"] or two_sided["high"] > row["high"]


@given(st.floats(2, 1e7), st.floats(0.05, 6), st.sampled_from(ALTERNATIVES), st.floats(0.5, 0.999))
@settings(max_examples=100, deadline=None)
def test_p_value_is_the_level_whose_interval_ends_at_the_null(
    units: float, statistic: float, alternative: str, confidence: float
) -> None:
    sequence = ConfidenceSequence(confidence, alternative)
    signed = -statistic if alternative == "less" else statistic
    p_value = sequence.p_value(units, signed)
    assert 0 < p_value <= 1
    if p_value < 1:
        # The level is given as 1 - α, which has an absolute error of 1e-16.
        slack = max(1e-9, 1e-14 / p_value)
        assert sequence.width(units, 1 - p_value) == pytest.approx(statistic, rel=slack)
    if alternative != "two-sided":
        assert sequence.p_value(units, -signed) == 1.0


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("alternative", ALTERNATIVES)
def test_p_value_and_interval_agree(alternative: str, bounded: bool) -> None:  # noqa: FBT001
    """A difference is significant at a level if the interval of this level excludes the null."""
    options: dict[str, Any] = {"bounds": (0, 1), "order": "time"} if bounded else {}
    p_value = compared(alternative=alternative, **options)["p_value"]
    if p_value == 1:
        assert alternative == "less"
        return
    # The parameters of the sequence depend on `confidence`, so levels vary by the correction.
    values = pl.concat([VALUES, *(VALUES.filter(run="new").with_columns(run=pl.lit(f"new{i}"))
                                  for i in range(9))])  # fmt: skip
    result = pr.compare(
        values, ["ndcg"], baseline="old", interval="sequence", alternative=alternative,
        correction="bonferroni", confidence=0.9, **options,
    )  # fmt: skip
    for low, high, corrected in result.select(
        "low_corrected", "high_corrected", "p_corrected"
    ).iter_rows():
        assert (low > 0 or high < 0) == (corrected < 0.1)
    excluded = compared(alternative=alternative, **options)["low"] > 0
    assert excluded == (p_value < 0.05)


def bernstein(
    values: Any, alpha: float, low: float, high: float, sides: int
) -> tuple[float, float]:
    """Return the predictable plug-in empirical Bernstein interval, by a loop over the values."""
    total, squares, count = 0.0, 0.0, 0
    weights = weighted = cost = 0.0
    log = math.log(sides / alpha)
    for value in values:
        x = (value - low) / (high - low)
        mean, variance = (0.5 + total) / (count + 1), (0.25 + squares) / (count + 1)
        count += 1
        bet = min(math.sqrt(2 * log / (variance * count * math.log(1 + count))), 0.5)
        weights, weighted = weights + bet, weighted + bet * x
        cost += 4 * (x - mean) ** 2 * (-math.log(1 - bet) - bet) / 4
        total += x
        squares += (x - (0.5 + total) / (count + 1)) ** 2
    center, width = weighted / weights, (log + cost) / weights
    below, above = max(center - width, 0.0), min(center + width, 1.0)
    return low + (high - low) * below, low + (high - low) * above


@pytest.mark.parametrize("lazy", [False, True])
def test_bounds_give_the_empirical_bernstein_sequence(lazy: bool) -> None:  # noqa: FBT001
    in_order = np.argsort(TIMES)
    differences = (NEW - OLD)[in_order]
    shuffled = VALUES.sample(fraction=1, shuffle=True, seed=1)
    options: dict[str, Any] = {"interval": "sequence", "bounds": (0, 1), "order": "time"}
    for alternative, sides in zip(ALTERNATIVES, (2, 1, 1), strict=True):
        table: Any = shuffled.lazy() if lazy else shuffled
        result = pr.compare(table, ["ndcg"], baseline="old", alternative=alternative, **options)
        row = result.lazy().collect().row(0, named=True)
        low, high = bernstein(differences, 0.05, -1, 1, sides)
        expected = {
            "two-sided": (low, high), "greater": (low, math.inf), "less": (-math.inf, high),
        }[alternative]  # fmt: skip
        assert (row["low"], row["high"]) == pytest.approx(expected, rel=1e-9)
        assert row["interval"] == "empirical_bernstein"
        assert row["relative_low"] is row["effect_low"] is None
    summary = pr.summarize(shuffled.lazy() if lazy else shuffled, ["ndcg"], **options)
    for row in summary.lazy().collect().iter_rows(named=True):
        mine = (OLD if row["run"] == "old" else NEW)[in_order]
        expected = bernstein(mine, 0.05, 0, 1, 2)
        assert (row["low"], row["high"]) == pytest.approx(expected, rel=1e-9)
        assert row["interval"] == "empirical_bernstein"


def test_equal_times_are_in_an_order_that_does_not_depend_on_rows_or_later_nights() -> None:
    options: dict[str, Any] = {"bounds": (0, 1), "order": "night"}
    row = compared(**options)
    shuffled = compared(VALUES.sample(fraction=1, shuffle=True, seed=2), **options)
    for name in ("low", "high", "p_value"):
        assert shuffled[name] == row[name]
    # Another order within nights gives another interval.
    assert compared(bounds=(0, 1), order="time")["low"] != row["low"]


def test_few_or_equal_queries_have_a_wide_interval_within_the_bounds() -> None:
    same = VALUES.filter(query=0).with_columns(ndcg=0.5)
    row = compared(same, bounds=(0, 1), order="time")
    assert (row["low"], row["high"], row["p_value"]) == (-1.0, 1.0, 1.0)
    equal = VALUES.with_columns(ndcg=0.5)
    row = compared(equal, bounds=(0, 1), order="time")
    assert -0.1 < row["low"] < 0 < row["high"] < 0.1


def test_values_without_a_definition_are_skipped() -> None:
    some = VALUES.with_columns(ndcg=pl.when(pl.col("query") != 7).then("ndcg"))
    skipped = compared(some, bounds=(0, 1), order="time", undefined="skip")
    without = compared(VALUES.filter(pl.col("query") != 7), bounds=(0, 1), order="time")
    assert skipped["low"] == without["low"]
    unknown = compared(some, bounds=(0, 1), order="time", undefined="null")
    assert unknown["low"] is unknown["p_value"] is None


def test_moments_of_nights_give_the_same_sequence() -> None:
    nights = [
        pr.stats.moments(part, ["ndcg"], baseline="old")
        for part in VALUES.partition_by("night", maintain_order=True)
    ]
    merged = pr.stats.merge(nights)
    assert_frame_equal(
        pr.compare(merged, baseline="old", interval="sequence"),
        pr.compare(VALUES, ["ndcg"], baseline="old", interval="sequence"),
        rel_tol=1e-9,
    )


@pytest.mark.parametrize("options", [{"weight": "w"}, {"cluster": "user"}])
def test_weights_and_clusters_count_as_their_effective_number(options: dict[str, str]) -> None:
    values = VALUES.with_columns(w=1.0 + pl.col("query") % 3, user=pl.col("query") // 2)
    row, once = (compared(values, interval=each, **options) for each in ("sequence", "auto"))
    error = (once["high"] - once["low"]) / 2
    width = ConfidenceSequence(0.95).width(row["effective"])
    from scipy.stats import t  # noqa: PLC0415

    error /= t.ppf(0.975, row["effective"] - 1)
    assert row["high"] - row["difference"] == pytest.approx(width * error)


def test_margin_moves_the_null_hypothesis() -> None:
    shifted = VALUES.with_columns(ndcg=pl.col("ndcg") + 0.1 * (pl.col("run") == "new"))
    plain = compared(shifted, alternative="greater")
    with_margin = compared(alternative="greater", margin=0.1)
    assert with_margin["p_value"] == pytest.approx(plain["p_value"], rel=1e-9)
    options: dict[str, Any] = {"bounds": (0, 1), "order": "time", "alternative": "greater"}
    margin = -compared(**options)["low"]
    assert margin > 0
    assert compared(margin=margin, **options)["p_value"] == pytest.approx(0.05)


def test_relative_differences_and_effects_hold_at_every_look() -> None:
    """Their intervals are wider than those of "t" in the proportion of the differences."""
    row, once = compared(), compared(interval="auto")
    wider = (row["high"] - row["low"]) / (once["high"] - once["low"])
    for name in ("relative", "effect"):
        ratio = (row[f"{name}_high"] - row[f"{name}_low"]) / (
            once[f"{name}_high"] - once[f"{name}_low"]
        )
        assert ratio == pytest.approx(wider, rel=0.02)


def hits(rates: tuple[float, float], queries: int) -> pl.DataFrame:
    """Return hit rates of two runs with the first queries as hits."""
    return pl.DataFrame([
        {"run": run, "query": query, "time": query, "hit_rate@10": float(query % 500 < rate * 500)}
        for run, rate in zip(("old", "new"), rates, strict=True)
        for query in range(queries)
    ])  # fmt: skip


def test_rare_events_are_warned_of() -> None:
    early = hits((0.02, 0.04), 500)
    with pytest.warns(pr.errors.RankWarning, match="500 queries, 10 of which differ, skewness 6.9"):
        row = pr.compare(early, baseline="old", interval="sequence").row(0, named=True)
    assert row["interval"] == "sequence"  # and not Tango's, which is for one look
    with pytest.warns(pr.errors.RankWarning, match="may exclude the true value in 2 rows"):
        pr.summarize(early, interval="sequence")
    options: dict[str, Any] = {"interval": "sequence", "bounds": (0, 1), "order": "time"}
    pr.compare(early, baseline="old", **options)
    pr.summarize(early, **options)
    later = hits((0.02, 0.04), 2000)
    assert pr.compare(later, baseline="old", interval="sequence")["interval"].item() == "sequence"


def test_symmetric_rare_differences_are_warned_of() -> None:
    """As many wins as losses have no skewness, but few of them are no sum of many terms."""
    values = hits((0.02, 0.02), 500).with_columns(
        query=pl.when(run="new").then((pl.col("query") + 100) % 500).otherwise("query")
    )
    with pytest.warns(
        pr.errors.RankWarning, match="500 queries, 20 of which differ, skewness [-]?0.0"
    ):
        pr.compare(values, baseline="old", interval="sequence")


def test_verdicts_are_those_of_the_sequence() -> None:
    once, always = (
        pr.compare(VALUES, ["ndcg"], baseline="old", interval=each) for each in ("auto", "sequence")
    )
    low, low_always = once["low"].item(), always["low"].item()
    rules = [
        f"difference(ndcg) >= {(low + low_always) / 2}",
        f"difference(ndcg) >= {low_always - 1e-3}",
    ]
    assert pr.check(once, rules)["verdict"].to_list() == ["pass", "pass"]
    verdicts = pr.check(always, rules, on_fail="return")
    assert verdicts["verdict"].to_list() == ["undecided", "pass"]
    assert verdicts["low"].to_list() == [low_always] * 2


def test_an_interval_with_bounds_does_not_depend_on_the_skewness() -> None:
    values = hits((0.02, 0.04), 500)
    result = pr.compare(
        values, baseline="old", interval="sequence", bounds=(0, 1), order="time"
    )  # fmt: skip
    assert pr.check(result, ["difference(hit_rate@10) >= -0.9"])["verdict"].item() == "pass"


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "bounds for one look": ({"interval": "auto", "bounds": (0, 1)}, "`bounds` needs `interval`"),
    "order for one look": ({"interval": "auto", "order": "time"}, "`order` needs `interval`"),
    "order alone": ({"order": "time"}, "`order` needs `bounds`"),
    "bounds alone": ({"bounds": (0, 1)}, "`bounds` needs `order`"),
    "bounds in the wrong order": (
        {"bounds": (1, 0), "order": "time"}, "first number of `bounds` must be the lower one",
    ),
    "one bound": ({"bounds": (1,), "order": "time"}, "`bounds` must be two numbers"),
    "an unknown bound": ({"bounds": (0, None), "order": "time"}, "`bounds` must be several numbers"),
    "weights": (
        {"bounds": (0, 1), "order": "time", "weight": "night"}, "`bounds` does not support `weight`",
    ),
    "clusters": (
        {"bounds": (0, 1), "order": "time", "cluster": "night"},
        "`bounds` does not support `cluster`",
    ),
    "no such column": ({"bounds": (0, 1), "order": "date"}, r"column 'date' \(`order`\) not found"),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_parameters_that_do_not_go_together(name: str) -> None:
    options, message = ERRORS[name]
    options = {"interval": "sequence", **options}
    with pytest.raises(pr.errors.RankError, match=message):
        pr.compare(VALUES, ["ndcg"], baseline="old", **options)
    with pytest.raises(pr.errors.RankError, match=message):
        pr.summarize(VALUES.lazy(), ["ndcg"], **options)


def test_what_a_sequence_does_not_support() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="`interval` needs `test`"):
        compared(test="wilcoxon")
    with pytest.raises(pr.errors.ArgumentError, match="`predictions` does not support"):
        compared(predictions=VALUES)
    with pytest.raises(pr.errors.ArgumentError, match="`interval` must be"):
        compared(interval="t")
    moments = pr.stats.moments(VALUES, ["ndcg"], baseline="old")
    options: dict[str, Any] = {"interval": "sequence", "bounds": (0, 1), "order": "time"}
    for call in (
        lambda: pr.compare(moments, baseline="old", **options),
        lambda: pr.summarize(moments, **options),
    ):
        with pytest.raises(pr.errors.ArgumentError, match="`bounds` needs per-query values"):
            call()
    totals = VALUES.with_columns(num_rel=1.0)
    with pytest.raises(pr.errors.ArgumentError, match="'num_rel' is not a mean over queries"):
        pr.summarize(totals, interval="sequence", bounds=(0, 1), order="time")


@pytest.mark.parametrize("lazy", [False, True])
def test_invalid_values_of_sequences_with_bounds(lazy: bool) -> None:  # noqa: FBT001
    options: dict[str, Any] = {"interval": "sequence", "bounds": (0, 1), "order": "time"}
    above = VALUES.with_columns(ndcg=pl.col("ndcg") + (pl.col("query") == 3))
    ordered = pl.col("query") != 3
    unordered = VALUES.with_columns(time=pl.when(ordered).then("time"))
    nan = VALUES.with_columns(time=pl.when(ordered).then("time").otherwise(math.nan))
    for values, message in (
        (nan, "null or NaN in the column 'time'"),
        (above, "values outside `bounds`, 0 to 1, in the column 'ndcg'"),
        (unordered, r"null or NaN in the column 'time' \(`order`\)"),
    ):
        table: Any = values.lazy() if lazy else values
        with pytest.raises(pr.errors.DataError, match=message):
            pr.compare(table, ["ndcg"], baseline="old", **options).lazy().collect()
        with pytest.raises(pr.errors.DataError, match=message):
            pr.summarize(table, ["ndcg"], **options).lazy().collect()


def test_looks_at_growing_data_hold_their_level() -> None:
    """Of years with 60 looks and no difference, few have a false alarm; "t" has many."""
    years, looks, step = 200, 60, 40
    differences = RANDOM.normal(0, 0.2, (years, looks * step))
    sums, squares = differences.cumsum(axis=1), (differences**2).cumsum(axis=1)
    n = np.arange(1, looks + 1) * step
    mean = sums[:, n - 1] / n
    error = np.sqrt((squares[:, n - 1] / n - mean**2) / (n - 1))
    widths = np.array([ConfidenceSequence(0.95).width(each) for each in n])
    assert (abs(mean / error) > widths).any(axis=1).mean() <= 0.05
    assert (abs(mean / error) > 1.96).any(axis=1).mean() > 0.2
