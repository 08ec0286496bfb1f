"""Policies of slates: another library, and logs in which estimates are exact."""

from __future__ import annotations

import json
import math
from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import polars_rank as pr

#: Most logs here are small, and some have no weight at all.
pytestmark = pytest.mark.filterwarnings(
    "ignore:the effective sample size is:polars_rank.errors.RankWarning",
    "ignore:all rankings or clusters have the same value:polars_rank.errors.RankWarning",
)

PEERS = json.loads((Path(__file__).parents[1] / "fixtures" / "clicks.json").read_text())
SLATES = pl.DataFrame(PEERS["slates"])
MODEL = {"estimate": pl.lit(0.5), "expected": pl.lit(0.25)}
ESTIMATORS = {
    "sips": pr.clicks.sips,
    "iips": pr.clicks.iips,
    "rips": pr.clicks.rips,
    "cascade_dr": pr.clicks.cascade_dr,
}


def value(table: pl.DataFrame) -> float:
    return float(table.get_column("value").item())


@pytest.mark.parametrize("name", PEERS["values"])
def test_agrees_with_the_peer(name: str) -> None:
    assert value(ESTIMATORS[name](SLATES)) == pytest.approx(PEERS["values"][name], rel=1e-9)


@pytest.mark.parametrize("name", ["sips", "rips", "cascade_dr"])
def test_joint_probabilities_give_the_same_estimates(name: str) -> None:
    log = SLATES.with_columns(**MODEL)
    joint = ESTIMATORS[name](log, logged="logged_together", new="new_together", joint=True)
    assert_frame_equal(joint, ESTIMATORS[name](log))


def test_without_a_model_doubly_robust_is_rips() -> None:
    log = SLATES.with_columns(estimate=0.0, expected=0.0)
    assert_frame_equal(pr.clicks.cascade_dr(log), pr.clicks.rips(log))


def test_weights_by_hand() -> None:
    log = pl.DataFrame({
        "slate": [1, 1, 2, 2],
        "position": [2, 1, 1, 2],
        "reward": [2.0, 1.0, 3.0, 0.0],
        "logged_probability": [0.5, 0.25, 0.5, 0.5],
        "new_probability": [0.25, 0.5, 0.25, 1.0],
    })  # fmt: skip
    # Ratios from the top: 2, 1/2 and 1/2, 2.
    actual = pr.clicks.rips(log).row(0, named=True)
    first, second = 2 * 1 + 2 / 2 * 2, 1 / 2 * 3 + 0
    assert actual["slates"] == 2
    assert actual["value"] == (first + second) / 2
    assert actual["variance"] == pytest.approx((first - second) ** 2 / 2 / 2)
    width = 1.959963984540054 * math.sqrt(actual["variance"])
    assert actual["low"] == pytest.approx(actual["value"] - width)
    assert actual["high"] == pytest.approx(actual["value"] + width)
    weights = [2, 1, 1 / 2, 1]
    total = sum(weights)
    assert actual["mean_weight"] == total / 4
    assert actual["effective_sample_size"] == total**2 / sum(weight**2 for weight in weights)
    assert actual["max_weight_share"] == 2 / total
    slates = pr.clicks.sips(log).row(0, named=True)
    assert slates["value"] == (1 * 3 + 1 * 3) / 2
    assert slates["effective_sample_size"] == 2
    alone = pr.clicks.iips(log).row(0, named=True)
    assert alone["value"] == (2 * 1 + 1 / 2 * 2 + 1 / 2 * 3 + 2 * 0) / 2


class TestExact:
    """Every slate of two of three documents once, as often as an even lot draws it."""

    DOCS = "abc"

    def slates(self, reward: Any, new: dict[str, float], below: Any) -> tuple[pl.DataFrame, float]:
        """Return the slates, and what the new policy is worth by their probabilities."""
        rows, worth = [], 0.0
        for number, (one, two) in enumerate(permutations(self.DOCS, 2)):
            first, second = new[one], below(one, two)
            rewards = reward(one, two)
            worth += first * second * sum(rewards)
            rows += [
                (number, 1, one, rewards[0], 1 / 3, first),
                (number, 2, two, rewards[1], 1 / 2, second),
            ]
        names = ["slate", "position", "doc", "reward", "logged_probability", "new_probability"]
        return pl.DataFrame(rows, schema=names, orient="row"), worth

    POLICY = {"a": 0.5, "b": 0.3, "c": 0.2}

    def below(self, one: str, two: str) -> float:
        """Return the probability of a second document given the first."""
        left = sum(share for doc, share in self.POLICY.items() if doc != one)
        return self.POLICY[two] / left

    def test_sips_whatever_rewards_depend_on(self) -> None:
        rewards = {pair: (n + 1, (n * 7) % 5) for n, pair in enumerate(permutations(self.DOCS, 2))}
        log, worth = self.slates(lambda *pair: rewards[pair], self.POLICY, self.below)
        assert value(pr.clicks.sips(log)) == pytest.approx(worth)
        assert value(pr.clicks.rips(log)) != pytest.approx(worth)

    @pytest.mark.parametrize("model", [0.0, 1.0, -3.0])
    def test_rips_and_doubly_robust_where_users_read_from_the_top(self, model: float) -> None:
        log, worth = self.slates(
            lambda one, two: (ord(one) % 5, ord(one) * ord(two) % 7), self.POLICY, self.below
        )
        assert value(pr.clicks.rips(log)) == pytest.approx(worth)
        assert value(pr.clicks.iips(log)) != pytest.approx(worth)
        # Any model, as long as its mean is that of the new policy.
        guess = {"a": model, "b": 2 * model, "c": -model}
        first = sum(share * guess[doc] for doc, share in self.POLICY.items())
        estimates, means = [], []
        for one, two in permutations(self.DOCS, 2):
            others = [doc for doc in self.DOCS if doc != one]
            estimates += [guess[one], guess[two]]
            means += [first, sum(self.below(one, doc) * guess[doc] for doc in others)]
        modelled = log.with_columns(
            estimate=pl.Series(estimates, dtype=pl.Float64),
            expected=pl.Series(means, dtype=pl.Float64),
        )
        assert value(pr.clicks.cascade_dr(modelled)) == pytest.approx(worth)

    def test_a_perfect_model_leaves_no_variance(self) -> None:
        log, worth = self.slates(lambda one, two: (3.0, 4.0), self.POLICY, self.below)
        known = log.with_columns(
            estimate=pl.when(pl.col("position") == 1).then(7.0).otherwise(4.0),
            expected=pl.when(pl.col("position") == 1).then(7.0).otherwise(4.0),
        )
        actual = pr.clicks.cascade_dr(known).row(0, named=True)
        assert actual["value"] == pytest.approx(worth) == 7
        assert actual["variance"] == pytest.approx(0, abs=1e-20)
        assert pr.clicks.rips(log).get_column("variance").item() > 0.1

    def test_iips_where_documents_do_not_matter_to_each_other(self) -> None:
        log, worth = self.slates(
            lambda one, two: (ord(one) % 5, ord(two) % 3), self.POLICY, self.below
        )
        marginal = {
            (2, two): sum(
                self.POLICY[one] * self.below(one, two) for one in self.DOCS if one != two
            )
            for two in self.DOCS
        } | {(1, one): share for one, share in self.POLICY.items()}
        shares = [marginal[key] for key in log.select("position", "doc").rows()]
        alone = log.with_columns(logged_probability=1 / 3, new_probability=pl.Series(shares))
        assert value(pr.clicks.iips(alone)) == pytest.approx(worth)


@pytest.mark.parametrize("name", ESTIMATORS)
class TestEvery:
    def test_the_same_policy_is_worth_what_was_logged(self, name: str) -> None:
        log = SLATES.with_columns(new_probability="logged_probability", estimate=0.3, expected=0.3)
        actual = ESTIMATORS[name](log).row(0, named=True)
        assert actual["value"] == pytest.approx(log.get_column("reward").sum() / 40)
        assert actual["mean_weight"] == pytest.approx(1)
        weights = 40 if name == "sips" else 120
        assert actual["effective_sample_size"] == pytest.approx(weights)

    def test_lazy_streaming_order_and_files(self, name: str, tmp_path: Path) -> None:
        log = SLATES.with_columns(**MODEL, device=pl.col("slate") % 3)
        estimator = ESTIMATORS[name]
        actual = estimator(log, by="device")
        assert actual.columns[0] == "device"
        assert actual.get_column("slates").to_list() == [14, 13, 13]
        lazy = estimator(log.lazy(), by="device")
        assert lazy.collect_schema() == actual.schema
        assert_frame_equal(lazy.collect(engine="streaming"), actual)
        assert_frame_equal(lazy.collect(engine="in-memory"), actual)
        shuffled = log.sample(fraction=1, shuffle=True, seed=2)
        assert_frame_equal(estimator(shuffled, by="device"), actual)
        shuffled.write_parquet(tmp_path / "log.parquet")
        scanned = pr.scan_log(tmp_path / "log.parquet", query="slate", by="device")
        assert_frame_equal(estimator(scanned, by="device").collect(), actual)
        for (device,), part in log.group_by("device"):
            alone = estimator(part)
            rows = actual.filter(pl.col("device") == device).drop("device")
            assert_frame_equal(rows, alone)

    def test_clusters(self, name: str) -> None:
        log = SLATES.with_columns(
            **MODEL,
            user=pl.col("slate") // 4,
            device=pl.col("slate") % 2,
            alone=pl.lit(None, pl.Int8),
        )
        estimator = ESTIMATORS[name]
        actual, plain = estimator(log, cluster="user"), estimator(log)
        same = ["slates", "value", "mean_weight"]
        assert_frame_equal(actual.select(same), plain.select(same))
        # The mean is the ratio of what the slates of a user are worth to their number.
        users = estimator(log, by="user").select("slates", total=pl.col("slates") * pl.col("value"))
        count = users.height
        left = users.select(
            (pl.col("total") - value(actual) * pl.col("slates")).pow(2).sum()
        ).item()
        variance = left / 40**2 * count / (count - 1)
        row = actual.row(0, named=True)
        assert row["variance"] == pytest.approx(variance)
        assert row["high"] - row["low"] == pytest.approx(2 * 1.959963984540054 * variance**0.5)
        for own in ("slate", "alone", ["user", "alone"]):
            alone = estimator(log, cluster=own)
            assert_frame_equal(alone.select(plain.columns[:5]), plain.select(plain.columns[:5]))
        lazy = estimator(log.lazy(), cluster="user", by="device")
        assert_frame_equal(
            lazy.collect(engine="streaming"), estimator(log, cluster="user", by="device")
        )
        assert estimator(log.clear(), cluster="user").select("slates", "value").row(0) == (0, None)
        with pytest.raises(
            pr.errors.DataError, match=r"\['place'\] ..cluster.. must be constant within a slate"
        ):
            estimator(log.with_columns(place="position"), cluster="place")
        with pytest.raises(
            pr.errors.ArgumentError, match="'user' is used for both `by` and `cluster`"
        ):
            estimator(log, cluster="user", by="user")
        with pytest.raises(pr.errors.SchemaError, match="column 'person' .`cluster`. not found"):
            estimator(log, cluster="person")

    @pytest.mark.filterwarnings("error:the effective sample size:polars_rank.errors.RankWarning")
    def test_a_low_effective_sample_size_raises_a_warning(self, name: str) -> None:
        log = SLATES.with_columns(
            **MODEL, new_probability="logged_probability", user=pl.col("slate") // 2
        )
        estimator = ESTIMATORS[name]
        estimator(log)
        with pytest.warns(
            pr.errors.RankWarning,
            match="sample size is 2[01].*, below 30: the estimate depends on few weights",
        ):
            estimator(log.lazy(), cluster="user").collect()
        with pytest.warns(pr.errors.RankWarning, match="sample size is 20, below 30"):
            estimator(log.filter(pl.col("slate") % 2 == 0))

    def test_an_empty_table(self, name: str) -> None:
        actual = ESTIMATORS[name](SLATES.with_columns(**MODEL).clear())
        assert actual.select("slates", "value").row(0) == (0, None)

    @pytest.mark.parametrize(("column", "bad", "said"), [
        ("logged_probability", 0.0, "`logged`.* must have probabilities above 0 and at most 1"),
        ("logged_probability", 1.5, "above 0 and at most 1"),
        ("new_probability", -0.1, "must have probabilities from 0 to 1"),
        ("new_probability", 1.1, "must have probabilities from 0 to 1"),
        ("new_probability", None, "null, NaN or infinite in the column 'new_probability'"),
        ("reward", math.nan, "null, NaN or infinite in the column 'reward'"),
        ("slate", None, "null in the column 'slate'"),
        ("position", 1, "duplicate positions"),
    ])  # fmt: skip
    def test_refusals(self, name: str, column: str, bad: Any, said: str) -> None:
        second = pl.int_range(pl.len()) == 1
        log = SLATES.with_columns(**MODEL).with_columns(
            pl.when(second).then(pl.lit(bad)).otherwise(column).alias(column)
        )
        with pytest.raises(pr.errors.DataError, match=said):
            ESTIMATORS[name](log)
        with pytest.raises(pr.errors.DataError, match=said):
            ESTIMATORS[name](log.lazy()).collect()

    def test_columns(self, name: str) -> None:
        log = SLATES.with_columns(**MODEL)
        with pytest.raises(pr.errors.SchemaError, match="column 'gain' .`reward`. not found"):
            ESTIMATORS[name](log, reward="gain")
        with pytest.raises(pr.errors.SchemaError, match="must be numeric"):
            ESTIMATORS[name](log.with_columns(reward=pl.lit("x")))
        with pytest.raises(
            pr.errors.ArgumentError, match="'slate' is used for both `slate` and `by`"
        ):
            ESTIMATORS[name](log, by="slate")
        with pytest.raises(pr.errors.ArgumentError, match="has the name of a result column"):
            ESTIMATORS[name](log.with_columns(value=1), by="value")


def test_joint_probabilities_cannot_increase() -> None:
    with pytest.raises(pr.errors.DataError, match="joint probabilities increase down a slate"):
        pr.clicks.rips(SLATES, joint=True)


def test_streams_slate_by_slate(tmp_path: Path) -> None:
    SLATES.write_parquet(tmp_path / "log.parquet")
    plan = pr.clicks.rips(pr.scan_log(tmp_path / "log.parquet", query="slate")).show_graph(  # type: ignore[call-overload]
        engine="streaming", plan_stage="physical", raw_output=True, show=False
    )
    assert "sorted-group-by" in plan
    assert "in-memory-map" not in plan


@settings(max_examples=30, deadline=None)
@given(st.lists(
    st.tuples(st.floats(0.1, 1), st.floats(0, 1), st.floats(0, 3)), min_size=1, max_size=12
))  # fmt: skip
def test_rips_is_its_formula(rows: list[tuple[float, float, float]]) -> None:
    made = [(n // 3, n % 3 + 1, *row) for n, row in enumerate(rows)]
    names = ["slate", "position", "logged_probability", "new_probability", "reward"]
    log = pl.DataFrame(made, schema=names, orient="row")
    total, weight = 0.0, 1.0
    for _, position, logged, new, reward in made:
        weight = (1.0 if position == 1 else weight) * new / logged
        total += weight * reward
    assert value(pr.clicks.rips(log)) == pytest.approx(total / -(-len(rows) // 3), abs=1e-12)


def test_equal_slates_have_no_interval() -> None:
    log = pl.DataFrame({
        "slate": range(40), "position": 1, "reward": 0.1, "logged_probability": 0.3,
        "new_probability": 0.6, "user": pl.Series(range(40)) // 2,
    })  # fmt: skip
    for cluster in (None, "user"):
        with pytest.warns(pr.errors.RankWarning, match="have the same value: the variance is 0"):
            row = pr.clicks.sips(log, cluster=cluster).row(0, named=True)
        assert (row["variance"], row["low"], row["high"]) == (0, None, None)


def test_unequal_clusters_have_few_effective_units() -> None:
    log = pl.DataFrame({
        "slate": range(60), "position": 1, "reward": [1.0, 0.0, 0.0] * 20,
        "logged_probability": 0.5, "new_probability": 0.5,
        "user": pl.Series(range(60)).clip(upper_bound=30),
    })  # fmt: skip
    units = 60**2 / (30 * 1 + 30**2)
    with pytest.warns(pr.errors.RankWarning, match=f"sample size is {units:.3g}, below 30"):
        row = pr.clicks.sips(log, cluster="user").row(0, named=True)
    alone = [each - 1 / 3 for each in [1, 0, 0] * 10]
    squares = sum(each**2 for each in alone) + sum(alone) ** 2
    assert row["variance"] == pytest.approx(units / (units - 1) * squares / 60**2)
