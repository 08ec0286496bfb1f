"""Counterfactual estimates: weights computed by hand, another library, and simulations."""

from __future__ import annotations

import json
import math
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats

import polars_rank as pr
from polars_rank.datasets import click_log


#: Most logs here are small, and some have no weight at all.
pytestmark = pytest.mark.filterwarnings(
    "ignore:the effective sample size is:polars_rank.errors.RankWarning",
    "ignore:all rankings or clusters have the same value:polars_rank.errors.RankWarning",
)

PEERS = json.loads((Path(__file__).parents[1] / "fixtures" / "clicks.json").read_text("utf-8"))

#: Two lists of an older ranker; the new one turns each of them round.
LOG = pl.DataFrame({
    "query": ["a", "a", "a", "b", "b", "b"],
    "doc": [1, 2, 3, 1, 2, 3],
    "position": [1, 2, 3, 1, 2, 3],
    "propensity": [1.0, 0.5, 0.25] * 2,
    "click": [True, False, True, False, True, False],
    "score": [1, 2, 3] * 2,
})  # fmt: skip
WEIGHTED = LOG.with_columns(label=pr.clicks.inverse_propensity())


def one(table: pl.DataFrame, column: str) -> Any:
    return table.get_column(column).item()


def labels(log: pl.DataFrame, *arguments: Any, **options: Any) -> list[float | None]:
    return log.select(pr.clicks.inverse_propensity(*arguments, **options)).to_series().to_list()


class TestLabel:
    def test_a_click_weighs_the_inverse_of_its_propensity(self) -> None:
        assert labels(LOG) == [1, 0, 4, 0, 2, 0]

    def test_a_clip_is_a_highest_weight_or_a_lowest_propensity(self) -> None:
        assert labels(LOG, clip=3) == labels(LOG, clip=1 / 3) == [1, 0, 3, 0, 2, 0]
        assert labels(LOG, clip=1) == [1, 0, 1, 0, 1, 0]

    def test_what_was_not_shown_has_no_label(self) -> None:
        log = LOG.with_columns(click=pl.when(pl.col("doc") != 2).then("click"))
        assert labels(log) == [1, None, 4, 0, None, 0]

    def test_a_reward_is_weighted_like_a_click(self) -> None:
        assert labels(LOG, 2.5 * pl.col("click").cast(pl.Float64))[2] == 10

    def test_propensities_of_a_table(self) -> None:
        table = LOG.select("position", "propensity").head(3)
        renamed = LOG.drop("propensity").rename({"position": "place"})
        assert labels(renamed, "click", table, position="place") == labels(LOG)
        assert labels(LOG, "click", pl.col("propensity") ** 2)[2] == 16

    def test_lazy_is_eager(self) -> None:
        lazy = LOG.lazy().with_columns(label=pr.clicks.inverse_propensity())
        assert_frame_equal(lazy.collect(engine="streaming"), WEIGHTED)
        assert lazy.collect_schema() == WEIGHTED.schema

    @pytest.mark.parametrize(("column", "value", "said"), [
        ("propensity", 0.0, "0 or negative .1 of (1 row|[2-9] rows) .*not a valid weight"),
        ("propensity", -0.5, "0 or negative"),
        ("propensity", 1.2, r"above 1 or NaN .*1\.2.*clip\(upper_bound=1\)"),
        ("propensity", math.nan, "above 1"),
        ("propensity", None, "missing propensity of a click .*with this position"),
        ("click", -1.0, "negative"),
        ("click", math.nan, "negative or not finite"),
    ])  # fmt: skip
    def test_refusals_teach(self, column: str, value: Any, said: str) -> None:
        third = pl.int_range(pl.len()) == 2
        log = LOG.with_columns(pl.col("click").cast(pl.Float64)).with_columns(
            pl.when(third).then(pl.lit(value)).otherwise(column).alias(column)
        )
        for make in (
            lambda: labels(log),
            lambda: log.lazy().select(pr.clicks.inverse_propensity()).collect(),
            lambda: log.lazy().select(pr.clicks.inverse_propensity()).collect(engine="streaming"),
        ):
            with pytest.raises(pr.errors.DataError, match=said):
                make()

    def test_a_position_that_no_table_has(self) -> None:
        table = LOG.select("position", "propensity").head(2)
        between = LOG.with_columns(pl.col("position") - 0.5)  # which is not cut to a whole number
        with pytest.raises(pr.errors.DataError, match="missing propensity of a click"):
            labels(between, "click", table)
        with pytest.raises(pr.errors.DataError, match="missing propensity of a click"):
            labels(LOG, "click", table)
        unclicked = LOG.with_columns(click=pl.col("click") & (pl.col("position") < 3))
        assert labels(unclicked, "click", table) == [1, 0, 0, 0, 2, 0]

    def test_what_has_no_position_was_not_shown(self) -> None:
        table = LOG.select("position", "propensity").head(3)
        unshown = LOG.with_columns(position=pl.lit(None, pl.Int64), click=0)
        assert labels(unshown, "click", table) == [None] * LOG.height
        with pytest.raises(pr.errors.DataError, match="missing propensity of a click"):
            labels(unshown.with_columns(click=1), "click", table)

    @pytest.mark.parametrize("value", ["1", timedelta(seconds=1), date(2026, 1, 5), [1]])
    @pytest.mark.parametrize("name", ["click", "position", "propensity"])
    def test_columns_that_are_not_numeric(self, name: str, value: object) -> None:
        log = LOG.with_columns(pl.Series(name, [value] * LOG.height))
        table = LOG.select("position", "propensity").head(3)
        propensity = table if name == "position" else "propensity"
        message = rf"column '{name}' .*must be numeric; found {log[name].dtype!s:.4}"
        for make in (
            lambda: labels(log, "click", propensity),
            lambda: log.lazy().select(pr.clicks.inverse_propensity("click", propensity)).collect(),
        ):
            with pytest.raises(pr.errors.SchemaError, match=message):
                make()

    def test_bad_parameters(self) -> None:
        table = LOG.select("position", "propensity")
        with pytest.raises(pr.errors.ArgumentError, match="duplicate positions in the table"):
            pr.clicks.inverse_propensity("click", table)
        for name in ("position", "propensity"):
            text = table.head(3).cast({name: pl.String})
            with pytest.raises(
                pr.errors.SchemaError, match=f"'{name}' .*must be numeric; found String"
            ):
                pr.clicks.inverse_propensity("click", text)
        with pytest.raises(pr.errors.ArgumentError, match="`propensity` must be the name"):
            pr.clicks.inverse_propensity("click", table.lazy())  # type: ignore[arg-type]
        with pytest.raises(pr.errors.ArgumentError, match="`propensity` must be the name"):
            pr.clicks.inverse_propensity("click", table.drop("position"))
        with pytest.raises(pr.errors.ArgumentError, match="`clip` must be a number above 0"):
            pr.clicks.inverse_propensity(clip=0)


class TestByHand:
    """The lists, by the new ranker: weights 4, 0, 1 and 0, 2, 0."""

    A, B = [4, 0, 1], [0, 2, 0]

    def test_dcg(self) -> None:
        a, b = 4 / 1 + 1 / 2, 2 / math.log2(3)
        actual = pr.clicks.estimate(WEIGHTED, "dcg", normalize="ips")
        assert one(actual, "dcg") == pytest.approx((a + b) / 2)
        assert one(actual, "dcg") == one(pr.evaluate(WEIGHTED, "dcg"), "dcg")
        assert one(actual, "mean_weight") == (5 + 2) / 2
        assert one(actual, "effective_sample_size") == pytest.approx(7**2 / (16 + 1 + 4))
        assert one(actual, "max_weight_share") == 4 / 7
        assert one(actual, "unshown") == 0
        mean = (a + b) / 2
        variance = ((a - mean) ** 2 + (b - mean) ** 2) / (2 * 1)
        assert one(actual, "dcg_variance") == pytest.approx(variance)
        width = stats.t.ppf(0.975, 1) * variance**0.5  # two rankings are not skewed
        assert one(actual, "dcg_low") == pytest.approx(mean - width)
        assert one(actual, "dcg_high") == pytest.approx(mean + width)

    def test_dcg_self_normalised(self) -> None:
        a, b = 4 / 1 + 1 / 2, 2 / math.log2(3)
        actual = pr.clicks.estimate(WEIGHTED, "dcg", normalize="snips")
        snips = (a + b) / (5 + 2)
        units = 7**2 / (5**2 + 2**2)
        variance = units / (units - 1) * ((a - snips * 5) ** 2 + (b - snips * 2) ** 2) / 7**2
        assert one(actual, "dcg") == pytest.approx(snips)
        assert one(actual, "dcg_variance") == pytest.approx(variance)

    @pytest.mark.parametrize(("metric", "a", "b"), [
        ("cg@2", 4, 2),
        ("p@2", 4 / 2, 2 / 2),
        ("num_relevant_retrieved@1", 4, 0),
        ("arp", 4 * 1 + 1 * 3, 2 * 2),
        ("rbp(p=0.5)@3", 0.5 * (4 + 1 / 4), 0.5 * (2 / 2)),
        (pl.col("label").filter(pl.col("rank") > 1).sum().alias("below"), 1, 2),
    ])  # fmt: skip
    def test_others(self, metric: Any, a: float, b: float) -> None:
        ips = pr.clicks.estimate(WEIGHTED, metric, normalize="ips")
        snips = pr.clicks.estimate(WEIGHTED, metric, normalize="snips")
        assert ips.row(0)[1] == pytest.approx((a + b) / 2)
        assert snips.row(0)[1] == pytest.approx((a + b) / 7)

    def test_recall_is_a_share_of_the_weights(self) -> None:
        assert one(pr.clicks.estimate(WEIGHTED, "recall@1", normalize="snips"), "recall@1") == 4 / 7

    def test_lists_have_weights_of_their_own(self) -> None:
        log = WEIGHTED.with_columns(traffic=pl.when(pl.col("query") == "a").then(3).otherwise(1))
        a, b = 4, 0
        ips = pr.clicks.estimate(log, "cg@1", normalize="ips", weight="traffic")
        snips = pr.clicks.estimate(log, "cg@1", normalize="snips", weight="traffic")
        assert one(ips, "cg@1") == pytest.approx((3 * a + b) / 4)
        assert one(snips, "cg@1") == pytest.approx((3 * a + b) / (3 * 5 + 2))
        assert one(ips, "mean_weight") == pytest.approx((3 * 5 + 2) / 4)

    def test_groups(self) -> None:
        log = WEIGHTED.with_columns(country=pl.col("query"))
        actual = pr.clicks.estimate(log, "cg@1", by="country", normalize="snips")
        assert actual.get_column("cg@1").to_list() == [4 / 5, 0]
        assert actual.get_column("cg@1_variance").to_list() == [None, None]  # of one list each
        assert actual.get_column("effective_sample_size").to_list() == [25 / 17, 1]

    def test_no_click_at_all(self) -> None:
        log = WEIGHTED.with_columns(label=0.0)
        actual = pr.clicks.estimate(log, "cg@1", normalize="snips")
        assert one(actual, "cg@1") is None
        assert one(actual, "effective_sample_size") is None
        assert one(pr.clicks.estimate(log, "cg@1", normalize="ips"), "cg@1") == 0

    def test_one_ranking_with_clicks_has_no_interval(self) -> None:
        log = WEIGHTED.with_columns(label=pl.when(query="a").then("label").otherwise(0.0))
        row = pr.clicks.estimate(log, "cg@1", normalize="snips").row(0)
        assert row[1:5] == (4 / 5, None, None, None)

    def test_equal_rankings_have_no_interval(self) -> None:
        log = pl.DataFrame({"query": range(40), "score": 1, "label": 2.0})
        with pytest.warns(pr.errors.RankWarning, match="have the same value: the variance is 0"):
            row = pr.clicks.estimate(log, "cg@1", normalize="ips").row(0)
        assert row[1:5] == (2, 0, None, None)

    def test_an_empty_log(self) -> None:
        actual = pr.clicks.estimate(WEIGHTED.clear(), "cg@1", normalize="snips")
        assert actual.row(0)[:2] == (0, None)


@pytest.mark.parametrize(
    "expected", PEERS["counterfactual"], ids=lambda e: f"{e['weight']} {e['clip']}"
)
def test_agrees_with_the_peer(expected: dict[str, Any]) -> None:
    log = pl.DataFrame(PEERS["log"]).with_columns(propensity=1 / pl.col("position"))
    log = log.with_columns(label=pr.clicks.inverse_propensity(clip=expected["clip"] or None))
    metric, sums = {"dcg": ("dcg", "dcg"), "recall": ("recall@3", "cg@3")}[expected["weight"]]
    options: dict[str, Any] = {"query": "session", "score": "new"}
    ips = pr.clicks.estimate(log, sums, normalize="ips", **options)
    snips = pr.clicks.estimate(log, metric, normalize="snips", **options)
    naive = pr.clicks.estimate(log, sums, label="click", normalize="ips", **options)
    actual = {
        "naive": one(naive, sums),
        "ips": one(ips, sums),
        "snips": one(snips, metric),
        **{
            name: one(snips, name)
            for name in ("mean_weight", "effective_sample_size", "max_weight_share")
        },
    }
    assert actual == pytest.approx({name: expected[name] for name in actual}, rel=1e-9)


@st.composite
def weighted_logs(draw: Any) -> pl.DataFrame:
    """Several logs, told apart by the column "log", so that they are evaluated at once."""
    row = st.tuples(st.integers(0, 4), st.booleans(), st.floats(0.05, 1), st.integers(0, 9))
    logs = draw(st.lists(st.lists(row, min_size=1, max_size=40), min_size=5, max_size=10))
    return pl.DataFrame(
        [(number, *each) for number, rows in enumerate(logs) for each in rows],
        schema=["log", "query", "click", "propensity", "score"], orient="row",
    ).with_columns(label=pr.clicks.inverse_propensity())  # fmt: skip


class TestProperties:
    @given(weighted_logs())
    def test_snips_times_the_mean_weight_is_ips(self, logs: pl.DataFrame) -> None:
        metrics = ["dcg", "dcg@2", "p@3", "arp", "rbp"]
        ips, snips = (
            pr.clicks.estimate(logs, metrics, normalize=each, by="log").sort("log")
            for each in ("ips", "snips")
        )
        assert ips.height == snips.height == logs.get_column("log").n_unique()
        for sums, shares in zip(ips.to_dicts(), snips.to_dicts(), strict=True):
            for metric in metrics:
                if shares["mean_weight"] == 0:
                    assert sums[metric] == 0
                else:
                    product = shares[metric] * shares["mean_weight"]
                    assert product == pytest.approx(sums[metric])

    @given(weighted_logs())
    def test_weights_are_shares_of_a_sample(self, logs: pl.DataFrame) -> None:
        actual = pr.clicks.estimate(logs, "dcg", normalize="snips", by="log")
        clicks = dict(logs.group_by("log").agg(pl.col("click").sum()).rows())
        for row in actual.iter_rows(named=True):
            if number := clicks[row["log"]]:
                assert 1 - 1e-9 <= row["effective_sample_size"] <= number + 1e-9
                assert 1 / number - 1e-9 <= row["max_weight_share"] <= 1
                assert 0 <= row["dcg"] <= 1 + 1e-9

    @given(weighted_logs())
    def test_equal_weights_are_the_naive_estimate(self, logs: pl.DataFrame) -> None:
        equal, naive = (
            pr.clicks.estimate(logs.with_columns(label=label), "cg@2", normalize="snips", by="log")
            for label in (pr.clicks.inverse_propensity(clip=1), pl.col("click"))
        )
        assert_frame_equal(equal, naive)

    @pytest.mark.parametrize("cluster", [None, "query"])
    @pytest.mark.parametrize("normalize", ["ips", "snips"])
    def test_an_estimate_is_a_weighted_mean(self, normalize: Any, cluster: str | None) -> None:
        """SNIPS is the mean of v / d with the weights d: the sums of weighted hits and of weights.

        Half of the sessions have one query in ten, so that the units have unequal weights.
        """
        log = click_log(40, sessions=20, seed=2).collect()
        log = log.filter((pl.col("query") < 4) | (pl.col("session") % 20 < 2))
        log = log.with_columns(label=pr.clicks.inverse_propensity())
        options: dict[str, Any] = {"query": "session", "score": "new"}
        lists = pr.per_query(log, ["dcg@5", "cg"], keep="query", **options)
        divisor = pl.lit(1.0) if normalize == "ips" else pl.col("cg")
        values = lists.with_columns(pl.col("dcg@5") / divisor, divisor=divisor)
        row = pr.summarize(
            values.filter(pl.col("divisor") > 0), "dcg@5", query="session", weight="divisor",
            cluster=cluster, details=True,
        ).row(0, named=True)  # fmt: skip
        actual = pr.clicks.estimate(
            log, "dcg@5", normalize=normalize, cluster=cluster, **options
        ).row(0, named=True)
        parts = ("dcg@5", "dcg@5_low", "dcg@5_high", "dcg@5_variance")
        assert [actual[part] for part in parts] == pytest.approx(
            [row["mean"], row["low"], row["high"], row["std_error"] ** 2], rel=1e-9
        )

    def test_numbers_of_before(self) -> None:
        """Means, variances and effective sample sizes as an earlier implementation gave them."""
        log = click_log(40, sessions=20, seed=2).collect()
        bias = pr.clicks.position_bias(log, "adjacent")
        log = log.with_columns(label=pr.clicks.inverse_propensity("click", bias, clip=20))
        for cluster, variance, effective, largest in (
            (None, 0.0001622259099448144, 637.0975034328471, 0.002680847835653279),
            ("query", 0.00033973980547237156, 37.01737774305421, 0.04510072466034654),
        ):
            row = pr.clicks.estimate(
                log, "dcg@5", query="session", score="new", cluster=cluster
            ).row(0, named=True)
            expected = {
                "queries": 800, "dcg@5": 0.5493124768530027, "dcg@5_variance": variance,
                "mean_weight": 2.9184540580184186, "effective_sample_size": effective,
                "max_weight_share": largest, "unshown": 0,
            }  # fmt: skip
            assert {name: row[name] for name in expected} == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("normalize", ["ips", "snips"])
    def test_lazy_is_eager_and_streaming_is_in_memory(self, normalize: Any) -> None:
        log = click_log(30, sessions=5, seed=2).with_columns(
            label=pr.clicks.inverse_propensity(), device=pl.col("query") % 2
        )
        options: dict[str, Any] = {"query": "session", "score": "new", "by": "device"}
        lazy = pr.clicks.estimate(log, ["dcg@3", "p@5"], normalize=normalize, **options)
        actual = pr.clicks.estimate(log.collect(), ["dcg@3", "p@5"], normalize=normalize, **options)
        assert lazy.collect_schema() == actual.schema
        assert_frame_equal(lazy.collect(engine="streaming"), actual)
        assert_frame_equal(lazy.collect(engine="in-memory"), actual)


class TestRecovery:
    """What is estimated of a new ranker, from clicks on the lists of another one."""

    LOG = click_log(400, sessions=40, seed=11)
    OPTIONS: dict[str, Any] = {"query": "session", "score": "new"}
    METRICS = ("dcg@5", "p@3", "rbp@5", "arp")

    def test_ips_is_unbiased_and_clicks_alone_are_not(self) -> None:
        log = self.LOG.collect()
        bias = pr.clicks.position_bias(log, "adjacent")
        log = log.with_columns(
            known=pr.clicks.inverse_propensity(),
            estimated=pr.clicks.inverse_propensity("click", bias),
        )
        options = {**self.OPTIONS, "normalize": "ips"}
        truth, known, estimated, naive = (
            pr.clicks.estimate(log, self.METRICS, label=label, **options)
            for label in ("relevance", "known", "estimated", "click")
        )
        for metric in self.METRICS:
            for actual in (known, estimated):
                error = math.sqrt(one(actual, f"{metric}_variance"))
                assert abs(one(actual, metric) - one(truth, metric)) <= 3 * error, metric
            error = math.sqrt(one(naive, f"{metric}_variance"))
            assert abs(one(naive, metric) - one(truth, metric)) > 10 * error, metric

    def test_snips_is_that_of_the_truth(self) -> None:
        weighted = self.LOG.with_columns(label=pr.clicks.inverse_propensity())
        actual = pr.clicks.estimate(weighted, "dcg@5", normalize="snips", **self.OPTIONS).collect()
        truth = pr.clicks.estimate(
            self.LOG, "dcg@5", label="relevance", normalize="snips", **self.OPTIONS
        ).collect()
        error = math.sqrt(one(actual, "dcg@5_variance"))
        assert abs(one(actual, "dcg@5") - one(truth, "dcg@5")) <= 3 * error

    def test_errors_are_as_large_as_estimates_vary(self) -> None:
        logs = [
            click_log(40, 5, sessions=10, seed=seed).with_columns(seed=pl.lit(seed))
            for seed in range(40)
        ]
        log = pl.concat(logs).with_columns(label=pr.clicks.inverse_propensity()).collect()
        for normalize in ("ips", "snips"):
            options = {**self.OPTIONS, "normalize": normalize, "by": "seed"}
            actual = pr.clicks.estimate(log, "dcg@3", **options).sort("seed")
            truth = pr.clicks.estimate(log, "dcg@3", label="relevance", **options).sort("seed")
            off = (actual["dcg@3"] - truth["dcg@3"]) / actual["dcg@3_variance"].sqrt()
            assert off.len() == 40
            assert 0.7 < math.sqrt((off**2).mean()) < 1.35


class TestRefusals:
    @pytest.mark.parametrize(("metric", "normalize", "said"), [
        ("ndcg@10", "snips", "ndcg@10 is not a sum of labels"),
        ("ap", "ips", "average_precision is not a sum"),
        ("rr", "snips", "reciprocal_rank is not a sum"),
        ("recall@5", "ips", "recall@5 is not a sum"),
        ("dcg(gain='exp2')@5", "ips", "with gain='exp2' is not a sum"),
        ("precision", "ips", "with k=None is not a sum"),
        ("precision(depth='retrieved')@5", "ips", "with depth='retrieved' is not a sum"),
        (pr.dcg(5) - pr.cg(5), "ips", "is not a sum"),
    ])  # fmt: skip
    def test_metrics_that_are_no_sums(self, metric: Any, normalize: Any, said: str) -> None:
        with pytest.raises(pr.errors.ArgumentError, match=said):
            pr.clicks.estimate(WEIGHTED, metric, normalize=normalize)

    def test_conventions(self) -> None:
        with pytest.raises(pr.errors.ArgumentError, match="needs all rankings"):
            pr.clicks.estimate(WEIGHTED, "dcg", normalize="snips", conventions="trec_eval")
        with pytest.raises(pr.errors.ArgumentError, match="with gain="):
            pr.clicks.estimate(WEIGHTED, "dcg", normalize="snips", conventions="lightgbm")
        with pytest.raises(pr.errors.ArgumentError, match="`normalize` must be one of"):
            pr.clicks.estimate(WEIGHTED, "dcg", normalize="SNIPS")  # type: ignore[arg-type]
        with pytest.raises(pr.errors.ArgumentError, match="has the name of a result column"):
            pr.clicks.estimate(
                WEIGHTED.with_columns(unshown=1), "dcg", normalize="ips", by="unshown"
            )

    def test_what_was_never_shown(self) -> None:
        # The new ranker's first of each list was not shown by the old one: half of the first two.
        unseen = WEIGHTED.with_columns(label=pl.when(pl.col("score") < 3).then("label"))
        for make in (
            lambda: pr.clicks.estimate(unseen, "dcg@2", normalize="ips"),
            lambda: pr.clicks.estimate(unseen.lazy(), "dcg@2", normalize="ips").collect(),
        ):
            with pytest.raises(
                pr.errors.DataError, match=r"50\.0% of the new ranker's documents .*max_unshown"
            ):
                make()
        with pytest.raises(pr.errors.DataError, match=r"33\.3% .*`max_unshown=0\.34`"):
            pr.clicks.estimate(unseen, "arp", normalize="ips")
        actual = pr.clicks.estimate(unseen, "dcg@2", normalize="ips", max_unshown=0.5)
        assert one(actual, "unshown") == 0.5
        # At most at the deepest cutoff that is asked for; of the whole list without one.
        assert (
            one(
                pr.clicks.estimate(unseen, ["cg@1", "cg@2"], normalize="ips", max_unshown=1),
                "unshown",
            )
            == 1 / 2
        )
        assert (
            one(
                pr.clicks.estimate(unseen, ["cg@1", "arp"], normalize="ips", max_unshown=1),
                "unshown",
            )
            == 1 / 3
        )
        with pytest.raises(pr.errors.DataError, match=r"e.g. in .'country': 'x'"):
            pr.clicks.estimate(
                unseen.with_columns(country=pl.lit("x")), "cg@1", by="country", normalize="ips"
            )
        with pytest.raises(pr.errors.ArgumentError, match="`max_unshown`"):
            pr.clicks.estimate(unseen, "dcg@2", normalize="ips", max_unshown=2)


class TestBaseline:
    """Differences of two rankers on the same rankings."""

    #: The old ranker's order is that of the log: its weights are 1, 0, 4 and 0, 2, 0.
    LOG = WEIGHTED.with_columns(old=4 - pl.col("position"))
    OPTIONS: dict[str, Any] = {"score": ["old", "score"], "baseline": "old"}
    SESSIONS = click_log(60, 5, sessions=7, seed=2).with_columns(
        label=pr.clicks.inverse_propensity(), device=pl.col("query") % 2
    )
    RANKERS: dict[str, Any] = {
        "query": "session", "score": ["score", "new"], "baseline": "score",
    }  # fmt: skip

    def test_ips_is_a_paired_t_test(self) -> None:
        row = pr.clicks.estimate(self.LOG, "cg@1", normalize="ips", **self.OPTIONS).row(
            0, named=True
        )
        test = stats.ttest_rel([4, 0], [1, 0])
        interval = test.confidence_interval()
        assert (row["metric"], row["run"]) == ("cg@1", "score")
        assert (row["mean"], row["difference"], row["baseline_mean"]) == (2, 1.5, 0.5)
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
        assert row["p_value"] == pytest.approx(test.pvalue)
        assert (row["queries"], row["missing"], row["effective"]) == (2, 0, 2)

    def test_snips_is_a_ratio_of_sums(self) -> None:
        row = pr.clicks.estimate(self.LOG, "cg@1", normalize="snips", **self.OPTIONS).row(
            0, named=True
        )
        new, old, units = 4 / 7, 1 / 7, 7**2 / (5**2 + 2**2)
        influence = [
            ((4 - new * 5) - (1 - old * 5)) / 7,
            ((0 - new * 2) - (0 - old * 2)) / 7,
        ]
        variance = units / (units - 1) * sum(each**2 for each in influence)
        assert row["difference"] == pytest.approx(new - old)
        assert row["variance"] == pytest.approx(variance)
        assert row["effective"] == pytest.approx(units)
        width = stats.t.ppf(0.975, units - 1) * math.sqrt(variance)
        assert row["low"] == pytest.approx(new - old - width)
        p_value = 2 * stats.t.sf((new - old) / math.sqrt(variance), units - 1)
        assert row["p_value"] == pytest.approx(p_value)

    @pytest.mark.parametrize("cluster", [None, "query"])
    def test_ips_is_compare(self, cluster: str | None) -> None:
        values = pr.per_query(
            self.SESSIONS, ["dcg@5", "cg@3"], query="session", score=["score", "new"], keep="query"
        ).collect()
        expected = pr.compare(
            values, ["dcg@5", "cg@3"], baseline="score", query="session", cluster=cluster,
            correction=False,
        )  # fmt: skip
        actual = pr.clicks.estimate(
            self.SESSIONS, ["dcg@5", "cg@3"], normalize="ips", cluster=cluster, **self.RANKERS
        ).collect()
        names = ["metric", "mean", "difference", "baseline_mean", "low", "high", "p_value"]
        assert_frame_equal(actual.select(names), expected.select(names))

    @pytest.mark.parametrize("normalize", ["ips", "snips"])
    def test_the_means_are_those_of_each_ranker(self, normalize: Any) -> None:
        log = self.SESSIONS.collect()
        options = {**self.RANKERS, "normalize": normalize, "by": "device"}
        actual = pr.clicks.estimate(log, "dcg@5", **options)
        del options["baseline"]
        both = pr.clicks.estimate(log, "dcg@5", **options)
        for name, score in (("mean", "new"), ("baseline_mean", "score")):
            alone = both.filter(run=score).sort("device").get_column("dcg@5")
            assert actual[name].to_list() == pytest.approx(alone.to_list())

    @pytest.mark.parametrize("normalize", ["ips", "snips"])
    def test_columns_of_scores_are_rows_of_runs(self, normalize: Any) -> None:
        options: dict[str, Any] = {
            "normalize": normalize, "by": "device", "cluster": "query", "weight": "traffic"
        }  # fmt: skip
        log = self.SESSIONS.with_columns(traffic=pl.col("query") % 3)
        lazy = pr.clicks.estimate(log, ["dcg@3", "p@2"], **options, **self.RANKERS)
        eager = pr.clicks.estimate(log.collect(), ["dcg@3", "p@2"], **options, **self.RANKERS)
        assert lazy.collect_schema() == eager.schema
        assert_frame_equal(lazy.collect(engine="streaming"), eager)
        assert_frame_equal(lazy.collect(engine="in-memory"), eager)
        rows = pl.concat(
            log.with_columns(pl.col(score).alias("s"), ranker=pl.lit(number))
            for number, score in enumerate(("score", "new"))
        )
        actual = pr.clicks.estimate(
            rows, ["dcg@3", "p@2"], query="session", score="s", run="ranker", baseline=0, **options
        ).collect()
        assert actual["ranker"].to_list() == [1] * 4
        assert_frame_equal(actual.drop("ranker"), eager.drop("run"))

    def test_equal_rankers_have_no_interval(self) -> None:
        log = self.SESSIONS.with_columns(same=2 * pl.col("score"))
        options: dict[str, Any] = {"query": "session", "baseline": "score"}
        with pytest.warns(pr.errors.RankWarning, match="have the same difference.*'same'.*unknown"):
            row = pr.clicks.estimate(
                log.collect(), "dcg@5", score=["score", "same"], **options
            ).row(0, named=True)
        assert (row["difference"], row["p_value"]) == (0, 1)
        assert (row["low"], row["high"]) == (None, None)

    @pytest.mark.filterwarnings("ignore:.*same difference:polars_rank.errors.RankWarning")
    @pytest.mark.parametrize(("number", "p_value"), [(8, 2**-7), (5, 2**-4)])
    def test_equal_differences(self, number: int, p_value: float) -> None:
        """The old ranker puts a document without a click first, the new one a clicked one."""
        log = pl.DataFrame({
            "query": [query for query in range(number) for _ in range(2)],
            "label": [2.0, 0.0] * number, "new": [2, 1] * number, "old": [1, 2] * number,
        })  # fmt: skip
        row = pr.clicks.estimate(
            log, "cg@1", normalize="ips", score=["old", "new"], baseline="old"
        ).row(0, named=True)
        bound = 2 if p_value < 0.05 else None
        assert (row["difference"], row["variance"], row["p_value"]) == (2, 0, p_value)
        assert (row["low"], row["high"]) == (bound, bound)

    def test_missing_rankings_and_groups(self) -> None:
        rows = pl.concat([
            self.LOG.with_columns(run=pl.lit("old"), score="old"),
            self.LOG.with_columns(run=pl.lit("new")),
            self.LOG.filter(query="a").with_columns(run=pl.lit("part")),
        ])  # fmt: skip
        with pytest.warns(pr.errors.RankWarning, match=r"1 rankings are of only one.*'part'"):
            actual = pr.clicks.estimate(rows, "cg@1", normalize="ips", baseline="old")
        assert actual.select("run", "difference", "queries", "missing").rows() == [
            ("new", 1.5, 2, 0),
            ("part", 3.0, 1, 1),
        ]
        assert actual["low"].is_null().to_list() == [False, True]
        with pytest.warns(pr.errors.RankWarning, match="1 rankings are of only one"):
            groups = pr.clicks.estimate(
                rows.with_columns(country="query"), "cg@1", normalize="ips", baseline="old",
                by="country",
            )  # fmt: skip
        assert groups.select("country", "run", "difference", "queries", "missing").rows() == [
            ("a", "new", 3.0, 1, 0),
            ("a", "part", 3.0, 1, 0),
            ("b", "new", 0.0, 1, 0),
            ("b", "part", None, 0, 1),
        ]

    def test_errors(self) -> None:
        rows = pl.concat([
            self.LOG.with_columns(run=pl.lit("old"), score="old"),
            self.LOG.with_columns(run=pl.lit("new"), label=2 * pl.col("label")),
        ])  # fmt: skip
        with pytest.raises(pr.errors.DataError, match="different labels for the same .*'new'"):
            pr.clicks.estimate(rows, "cg@1", normalize="snips", baseline="old")
        assert pr.clicks.estimate(rows, "cg@1", normalize="ips", baseline="old").height == 1
        with pytest.raises(pr.errors.DataError, match=r"run 'x' \(`baseline`\) not found"):
            pr.clicks.estimate(rows, "cg@1", baseline="x")
        for options, message in (
            ({"baseline": 1}, "`baseline` must be a value of the column 'run'"),
        ):
            with pytest.raises(pr.errors.ArgumentError, match=message):
                pr.clicks.estimate(rows, "cg@1", **options)  # type: ignore[call-overload]
        with pytest.raises(pr.errors.SchemaError, match="already has a column 'doc' .`run`"):
            pr.clicks.estimate(rows, "cg@1", score=["old", "score"], run="doc")
        with pytest.raises(pr.errors.SchemaError, match="'ranker' .* not found"):
            pr.clicks.estimate(rows, "cg@1", baseline="old", run="ranker")

    def test_an_empty_log(self) -> None:
        assert pr.clicks.estimate(self.LOG.clear(), "cg@1", **self.OPTIONS).is_empty()


class TestClusters:
    """Sessions of one query are alike: what is sampled is the query."""

    LOG = click_log(60, 5, sessions=7, seed=2).with_columns(label=pr.clicks.inverse_propensity())
    OPTIONS: dict[str, Any] = {"query": "session", "score": "new"}

    def test_variance_by_hand(self) -> None:
        """Three sessions, of which two are of one query."""
        log = pl.DataFrame({
            "session": [1, 2, 3], "query": ["a", "a", "b"], "score": 1, "label": [4.0, 0.0, 2.0]
        })  # fmt: skip
        options: dict[str, Any] = {"query": "session", "cluster": "query"}
        ips = pr.clicks.estimate(log, "cg", normalize="ips", **options)
        left = [(4 + 0) - 2 * 2, 2 - 2 * 1]  # of Σv = 6 over 3 sessions, a mean of 2
        assert one(ips, "cg_variance") == pytest.approx(2 * sum(x**2 for x in left) / 3**2)
        weighted = log.with_columns(traffic=pl.Series([1, 1, 2]))
        actual = pr.clicks.estimate(weighted, "cg", normalize="ips", weight="traffic", **options)
        left = [4 - 2 * 2, 4 - 2 * 2]
        assert (one(actual, "cg"), one(actual, "cg_variance")) == (2, 0)
        snips = pr.clicks.estimate(log, "cg", normalize="snips", **options)
        assert (one(snips, "cg"), one(snips, "cg_variance")) == (1, 0)  # all weight is hits
        more = log.with_columns(label=pl.Series([4.0, 3.0, 1.0]))
        ips = pr.clicks.estimate(more, "cg", normalize="ips", **options)
        units = (2 + 1) ** 2 / (2**2 + 1**2)
        mean, sums = 8 / 3, ((4 + 3, 2), (1, 1))
        left = [value - mean * sessions for value, sessions in sums]
        assert one(ips, "cg_variance") == pytest.approx(
            units / (units - 1) * sum(x**2 for x in left) / 3**2
        )

    def test_weights_of_clusters(self) -> None:
        log = pl.DataFrame({
            "session": [1, 2, 3], "query": ["a", "a", "b"], "score": 1, "label": [4.0, 0.0, 2.0]
        })  # fmt: skip
        options: dict[str, Any] = {"query": "session", "cluster": "query"}
        ips = pr.clicks.estimate(log, "cg", normalize="ips", **options)
        assert one(ips, "effective_sample_size") == (4 + 2) ** 2 / (4**2 + 2**2)
        assert one(ips, "max_weight_share") == 4 / 6
        assert one(ips, "mean_weight") == 2

    @pytest.mark.parametrize("normalize", ["ips", "snips"])
    def test_a_cluster_of_its_own(self, normalize: Any) -> None:
        """A null is one, and so is each list; a cluster may be a part of the query, too."""
        log = self.LOG.collect().with_columns(nobody=pl.lit(None, pl.String))
        options = {"normalize": normalize, **self.OPTIONS}
        lists = ["queries", "dcg@5", "dcg@5_variance", "dcg@5_low", "dcg@5_high"]
        plain = pr.clicks.estimate(log, "dcg@5", **options).select(lists)
        for alone in ("nobody", "session", ["query", "nobody"]):
            actual = pr.clicks.estimate(log, "dcg@5", cluster=alone, **options)
            assert_frame_equal(actual.select(lists), plain)
        clustered = pr.clicks.estimate(log, "dcg@5", cluster="query", **options)
        assert one(clustered, "dcg@5_variance") > one(plain, "dcg@5_variance")
        both = options | {"query": ["query", "session"], "cluster": "query"}
        assert_frame_equal(pr.clicks.estimate(log, "dcg@5", **both), clustered)
        # Where some clusters are unknown, the others still are clusters.
        some = log.with_columns(pl.when(pl.col("query") < 30).then("query").alias("known"))
        named = pl.when(pl.col("query") < 30).then(-pl.col("query")).otherwise(pl.col("session"))
        actual, expected = (
            pr.clicks.estimate(some.with_columns(own=named), "dcg@5", cluster=cluster, **options)
            for cluster in ("known", "own")
        )
        assert_frame_equal(actual, expected)

    def test_lazy_streaming_groups_and_empty_logs(self) -> None:
        options = dict(self.OPTIONS, normalize="ips", cluster="query")
        by = self.LOG.with_columns(device=pl.col("query") % 2)
        lazy = pr.clicks.estimate(by, "dcg@5", by="device", **options)
        actual = pr.clicks.estimate(by.collect(), "dcg@5", by="device", **options)
        assert lazy.collect_schema() == actual.schema
        assert_frame_equal(lazy.collect(engine="streaming"), actual)
        alone = pr.clicks.estimate(by.filter(pl.col("device") == 1), "dcg@5", **options).collect()
        assert_frame_equal(actual.filter(device=1).drop("device"), alone)
        empty = pr.clicks.estimate(by.collect().clear(), "dcg@5", **options)
        assert empty.select("queries", "dcg@5", "dcg@5_low").row(0) == (0, None, None)

    def test_refusals(self) -> None:
        log = self.LOG.collect()
        options = dict(self.OPTIONS, normalize="ips")
        with pytest.raises(pr.errors.SchemaError, match="column 'user' .`cluster`. not found"):
            pr.clicks.estimate(log, "dcg@5", cluster="user", **options)
        with pytest.raises(pr.errors.DataError, match="'position' has several values in a ranking"):
            pr.clicks.estimate(log, "dcg@5", cluster="position", **options)


@pytest.mark.filterwarnings("error:the effective sample size:polars_rank.errors.RankWarning")
def test_a_low_effective_sample_size_raises_a_warning() -> None:
    def log(clicked: int, lists: int = 40) -> pl.DataFrame:
        queries = pl.int_range(lists, eager=True)
        return pl.DataFrame({"query": queries, "score": 1.0, "label": 5.0 * (queries < clicked)})

    actual = pr.clicks.estimate(log(5), "cg", normalize="ips")
    assert one(actual, "effective_sample_size") == 5
    for few, size in ((log(4), 4), (log(0), 0), (log(4, 4), 4)):
        for normalize in ("ips", "snips"):
            with pytest.warns(
                pr.errors.RankWarning,
                match=f"sample size is {size}, below 5, so the interval is unreliable; use a log",
            ):
                pr.clicks.estimate(few.lazy(), "cg", normalize=normalize).collect()
    pairs = log(8, 8).with_columns(user=pl.col("query") // 2, half=pl.col("query") // 4)
    with pytest.warns(pr.errors.RankWarning, match="sample size is 4, below 5"):
        pr.clicks.estimate(pairs, "cg", normalize="ips", cluster="user")
    # All users count alike but one, who has 40 of 80 rankings.
    one_user = log(80, 80).with_columns(user=pl.col("query").clip(upper_bound=40))
    size = 80**2 / (40**2 + 40)
    with pytest.warns(pr.errors.RankWarning, match=f"sample size is {size:.3g}, below 5"):
        pr.clicks.estimate(
            one_user.with_columns(label=1.0 * (pl.col("query") < 41)),
            "cg", normalize="ips", cluster="user",
        )  # fmt: skip
    with pytest.warns(
        pr.errors.RankWarning, match="sample size is 4, below 5, e.g. in {'half': 0}"
    ):
        pr.clicks.estimate(pairs, "cg", normalize="ips", by="half")


def test_weights_whose_squares_overflow() -> None:
    clicks = LOG.with_columns(label=pl.col("click") / 1e-160)
    with pytest.raises(pr.errors.DataError, match="weights are so large that their squares"):
        pr.clicks.estimate(clicks, "dcg", max_unshown=1)


def test_a_new_ranker_without_scores() -> None:
    log = WEIGHTED.with_columns(pl.when(query="a").then("score").alias("score"))
    assert pr.clicks.estimate(log, "dcg", normalize="ips")["queries"].item() == 2
    lost = WEIGHTED.with_columns(score=pl.lit(None, pl.Float64))  # a join in which no id was found
    for broken, options in ((lost, {}), (log, {"by": "device"})):
        grouped = broken.with_columns(device=pl.col("query"))
        with pytest.raises(pr.errors.DataError, match="has no scores .all null.*the ids of both"):
            pr.clicks.estimate(grouped, "dcg", normalize="snips", max_unshown=1, **options)
    with pytest.raises(pr.errors.DataError, match="e.g. in {'device': 'b'}"):
        pr.clicks.estimate(log.with_columns(device="query"), "dcg", normalize="ips", by="device")


@pytest.mark.parametrize("normalize", ["ips", "snips"])
def test_negative_weights_raise_errors(normalize: str) -> None:
    """What they gave: a negative worth, an effective sample of more lists than there are."""
    log = pl.DataFrame({"query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "label": [4.0, -1.0, 2.0]})
    for frame in (log, log.lazy()):
        with pytest.raises(pr.errors.DataError, match="negative label in the column 'label'"):
            pr.clicks.estimate(frame, "dcg@5", normalize=normalize).lazy().collect()
    assert pr.evaluate(log, "dcg@5")["queries"].item() == 2  # a grade may be
