"""Position bias: computed by hand, compared with another library, and in simulations."""

from __future__ import annotations

import json
import math
import random
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import polars_rank as pr
from polars_rank.datasets import click_log


#: Most logs here are small, of which the standard errors are inaccurate or unknown.
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*standard errors? of propensities (is|are):polars_rank.errors.RankWarning"
)

PEERS = json.loads((Path(__file__).parents[1] / "fixtures" / "clicks.json").read_text("utf-8"))
METHODS = ("pivot", "adjacent", "randomized", "em")


def impressions(*cells: tuple[str, int, int, int, int]) -> pl.DataFrame:
    """Return impressions of (query, doc, position, clicks, times shown)."""
    rows = [
        (query, doc, position, number < clicks)
        for query, doc, position, clicks, times in cells
        for number in range(times)
    ]
    return pl.DataFrame(rows, schema=["query", "doc", "position", "click"], orient="row")


#: Click rates at positions 1, 2, 3: of one document 4/4, 2/4, 1/4; of another 2/4, 1/4, never
#: shown; of a third never shown, 2/2, 1/2.
SMALL = impressions(
    ("a", 1, 1, 4, 4), ("a", 1, 2, 2, 4), ("a", 1, 3, 1, 4),
    ("a", 2, 1, 2, 4), ("a", 2, 2, 1, 4),
    ("b", 2, 2, 2, 2), ("b", 2, 3, 1, 2),
)  # fmt: skip


def of(table: pl.DataFrame, name: str) -> list[Any]:
    return table.get_column(name).to_list()


class TestByHand:
    def test_pivot(self) -> None:
        actual = pr.clicks.position_bias(SMALL)
        assert of(actual, "propensity") == pytest.approx([1, (1 / 2 + 1 / 4) / (1 + 1 / 2), 1 / 4])
        assert of(actual, "pairs") == [2, 2, 1]
        assert of(actual, "impressions") == [8, 10, 6]
        assert of(actual, "clicks") == [6, 5, 2]

    def test_the_error_of_pivot_is_that_of_a_ratio_over_pairs(self) -> None:
        actual = pr.clicks.position_bias(impressions(
            ("a", 1, 1, 3, 4), ("a", 1, 2, 2, 4), ("a", 2, 1, 2, 4), ("a", 2, 2, 1, 4)
        ))  # fmt: skip
        ratio = (2 / 4 + 1 / 4) / (3 / 4 + 2 / 4)
        left = [2 / 4 - ratio * 3 / 4, 1 / 4 - ratio * 2 / 4]  # of two pairs, one degree is free
        error = math.sqrt(2 * sum(each**2 for each in left)) / (3 / 4 + 2 / 4)
        assert of(actual, "propensity") == pytest.approx([1, ratio])
        assert of(actual, "std_error") == pytest.approx([0, error])

    def test_one_pair_tells_no_error(self) -> None:
        assert of(pr.clicks.position_bias(SMALL), "std_error")[2] is None

    def test_adjacent_multiplies_down_the_list(self) -> None:
        actual = pr.clicks.position_bias(SMALL, "adjacent")
        second = (1 / 2 + 1 / 4) / (1 + 1 / 2)
        third = second * (1 / 4 + 1 / 2) / (1 / 2 + 1)
        assert of(actual, "propensity") == pytest.approx([1, second, third])
        assert of(actual, "pairs") == [0, 2, 2]

    def test_the_error_of_adjacent_is_that_of_the_product(self) -> None:
        rates = [[0.9, 0.5, 0.3], [0.6, 0.5, 0.1], [0.8, 0.2, 0.4]]
        log = impressions(
            *(
                ("a", doc, position, round(10 * rate), 10)
                for doc, all_three in enumerate(rates)
                for position, rate in enumerate(all_three, start=1)
            )
        )
        one, two, three = (sum(column) for column in zip(*rates, strict=True))
        # All pairs are at all positions: the product is three / one, the ratio of the ends.
        parts = [(c / three - b / two) + (b / two - a / one) for a, b, c in rates]
        error = three / one * math.sqrt(3 / 2 * sum(part**2 for part in parts))
        actual = pr.clicks.position_bias(log, "adjacent")
        assert of(actual, "propensity")[2] == pytest.approx(three / one)
        assert of(actual, "std_error")[2] == pytest.approx(error)

    def test_a_gap_breaks_the_chain(self) -> None:
        gap = SMALL.with_columns(
            position=pl.when(pl.col("position") == 3).then(4).otherwise("position")
        )
        assert of(pr.clicks.position_bias(gap, "adjacent"), "propensity") == [1, 0.5, None]
        assert of(pr.clicks.position_bias(gap), "propensity") == [1, 0.5, 0.25]

    @pytest.mark.filterwarnings("ignore:the propensity of 1 position is at a bound")
    def test_positions_that_no_pair_links_have_no_propensity(self) -> None:
        apart = impressions(("a", 1, 1, 1, 2), ("a", 1, 2, 1, 2), ("b", 1, 3, 1, 2))
        for method in ("pivot", "adjacent", "em"):
            actual = pr.clicks.position_bias(apart, method)
            assert of(actual, "propensity")[0] == 1
            assert of(actual, "propensity")[2] is None, method
            assert of(actual, "std_error")[2] is None, method
            assert of(actual, "pairs")[2] == 0

    def test_another_pivot_is_divided_by_the_top(self) -> None:
        actual = pr.clicks.position_bias(SMALL, pivot=2)
        up, down = (1 + 1 / 2) / (1 / 2 + 1 / 4), (1 / 4 + 1 / 2) / (1 / 2 + 1)
        assert of(actual, "propensity") == pytest.approx([1, 1 / up, down / up])

    def test_randomized_compares_shares_of_clicks(self) -> None:
        actual = pr.clicks.position_bias(SMALL, "randomized")
        shares = [6 / 8, 5 / 10, 2 / 6]
        assert of(actual, "propensity") == pytest.approx([share / shares[0] for share in shares])
        top, second = (6 + 2) / (8 + 4), (5 + 2) / (10 + 4)
        variance = second * (1 - second) / 10 + (2 / 3) ** 2 * top * (1 - top) / 8
        assert of(actual, "std_error")[:2] == pytest.approx([0, math.sqrt(variance) / (6 / 8)])
        assert of(actual, "pairs") == [None] * 3

    def test_randomized_is_uncertain_if_all_or_no_impressions_have_a_click(self) -> None:
        log = impressions(("a", 1, 1, 2, 2), ("a", 1, 2, 2, 2), ("a", 1, 3, 0, 2))
        with pytest.warns(pr.errors.RankWarning, match="2 standard errors .* fewer than 10 clicks"):
            actual = pr.clicks.position_bias(log, "randomized")
        always, never = 4 / 6 * 2 / 6 / 2, 2 / 6 * 4 / 6 / 2
        assert of(actual, "propensity") == [1, 1, 0]
        assert of(actual, "std_error") == pytest.approx(
            [0, math.sqrt(always + always), math.sqrt(never)]
        )

    @pytest.mark.parametrize("method", ["pivot", "adjacent"])
    def test_equal_pairs_have_no_error(self, method: Any) -> None:
        log = impressions(
            *(("a", doc, place, 3 - place, 2) for doc in range(60) for place in (1, 2))
        )
        with pytest.warns(pr.errors.RankWarning, match="1 standard error .* is unknown because"):
            actual = pr.clicks.position_bias(log, method)
        assert of(actual, "propensity") == [1, 0.5]
        assert of(actual, "std_error") == [0, None]

    def test_swaps_count_the_two_positions_that_changed_places(self) -> None:
        swaps = pl.concat(
            [
                impressions(("a", 1, 1, 3, 4), ("a", 2, 2, 1, 4), ("a", 3, 3, 4, 4)).with_columns(
                    swap=2
                ),
                impressions(("a", 1, 1, 2, 4), ("a", 2, 2, 4, 4), ("a", 3, 3, 1, 4)).with_columns(
                    swap=3
                ),
                impressions(("a", 1, 1, 4, 4)).with_columns(swap=pl.lit(None, dtype=pl.Int32)),
            ]
        )
        actual = pr.clicks.position_bias(swaps, "randomized", swap="swap")
        assert of(actual, "position") == [1, 2, 3]
        assert of(actual, "propensity") == pytest.approx([1, (1 / 4) / (3 / 4), (1 / 4) / (2 / 4)])
        assert of(actual, "impressions") == [8, 4, 4]
        top, third = (2 + 2) / (4 + 4), (1 + 2) / (4 + 4)
        variance = third * (1 - third) / 4 + (1 / 2) ** 2 * top * (1 - top) / 4
        assert of(actual, "std_error")[2] == pytest.approx(math.sqrt(variance) / (2 / 4))

    def test_em_finds_the_likeliest(self) -> None:
        # Rates that the model can meet: 0.8 and 0.4 times 1, 0.5, 0.25.
        log = impressions(
            *(
                ("a", doc, position, round(80 * attractive / 2 ** (position - 1)), 80)
                for doc, attractive in enumerate((0.8, 0.4))
                for position in (1, 2, 3)
            )
        )
        actual = pr.clicks.position_bias(log, "em", tolerance=1e-9, iterations=20_000)
        assert of(actual, "propensity") == pytest.approx([1, 0.5, 0.25], abs=1e-5)
        assert of(actual, "pairs") == [2, 2, 2]

    def test_the_error_of_em_is_that_of_two_binomials_where_there_is_one_pair(self) -> None:
        log = impressions(("a", 1, 1, 40, 80), ("a", 1, 2, 10, 80))
        actual = pr.clicks.position_bias(log, "em", tolerance=1e-10, iterations=50_000)
        error = 1 / 4 * math.sqrt((1 - 1 / 2) / 40 + (1 - 1 / 8) / 10)
        assert of(actual, "propensity")[1] == pytest.approx(1 / 4, rel=1e-5)
        assert of(actual, "std_error")[1] == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize(("name", "options"), [
    ("pivot", {}), ("pivot 3", {"pivot": 3}), ("adjacent", {"method": "adjacent"})
])  # fmt: skip
def test_agrees_with_the_peer(name: str, options: dict[str, Any]) -> None:
    actual = of(pr.clicks.position_bias(pl.DataFrame(PEERS["log"]), **options), "propensity")
    assert actual == pytest.approx(PEERS["position_bias"][name], rel=1e-9)


@pytest.fixture(scope="module")
def many_logs() -> pl.DataFrame:
    """Return logs of 30 seeds, told apart by the column "seed"."""
    logs = [
        click_log(20, 4, sessions=100, shown=4, seed=seed).with_columns(seed=pl.lit(seed))
        for seed in range(30)
    ]
    return pl.concat(logs).collect()


class TestRecovery:
    """Of clicks by known propensities, those come out within 3 standard errors."""

    @pytest.mark.parametrize("truth", [
        [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6], [1, 0.9, 0.5, 0.5, 0.2, 0.3]
    ])  # fmt: skip
    def test_from_rankers_that_vary(self, truth: list[float]) -> None:
        log = click_log(400, 6, sessions=200, shown=6, propensities=truth, seed=1).collect()
        for method in ("pivot", "adjacent", "em"):
            # The tolerance is far below the standard errors, of about 0.005.
            actual = pr.clicks.position_bias(log, method, tolerance=1e-4)
            for row, true in zip(actual.iter_rows(named=True), truth, strict=True):
                assert abs(row["propensity"] - true) <= 3 * row["std_error"], (method, row)
                assert row["std_error"] < 0.02

    def test_the_share_of_clicks_alone_is_far_off(self) -> None:
        log = click_log(400, 6, sessions=50, shown=6, seed=1).collect()
        actual = pr.clicks.position_bias(log, "randomized")
        off = (actual["propensity"] - 1 / actual["position"]) / actual["std_error"]
        assert (off[1:].abs() > 10).all()

    def test_from_an_order_drawn_by_lot(self) -> None:
        log = click_log(400, 6, sessions=50, shown=6, seed=2).collect()
        draw = random.Random(4)
        chance = pl.Series([draw.random() for _ in range(log.height)])
        lot = pl.Series([draw.random() for _ in range(log.height)])
        log = log.with_columns(lot=lot).with_columns(
            position=pl.col("lot").rank("ordinal").over("session")
        )
        log = log.with_columns(click=chance < pl.col("relevance") / pl.col("position"))
        actual = pr.clicks.position_bias(log, "randomized")
        off = (actual["propensity"] - 1 / actual["position"])[1:] / actual["std_error"][1:]
        assert (off.abs() <= 3).all()

    @pytest.mark.parametrize("method", ["pivot", "adjacent", "em"])
    def test_errors_are_as_large_as_estimates_vary(
        self, method: Any, many_logs: pl.DataFrame
    ) -> None:
        # The tolerance is far below the standard errors.
        actual = pr.clicks.position_bias(many_logs, method, by="seed", tolerance=1e-5)
        lower = actual.filter(pl.col("position") > 1)
        assert lower.height == 30 * 3
        off = (lower["propensity"] - 1 / lower["position"]) / lower["std_error"]
        assert 0.75 < math.sqrt((off**2).mean()) < 1.3


@cache
def few_clicks() -> pl.DataFrame:
    return click_log(20, 5, sessions=10, shown=4, seed=3).collect()


#: Few iterations, in tests of two calls that do the same.
ROUGH: dict[str, Any] = {"tolerance": 0.001}


@cache
def bias_of_few_clicks(method: str) -> pl.DataFrame:
    return pr.clicks.position_bias(few_clicks(), method, **ROUGH)


@pytest.mark.parametrize("method", METHODS)
class TestEvery:
    def test_lazy_is_eager_and_streaming_is_in_memory(self, method: Any) -> None:
        actual = bias_of_few_clicks(method)
        lazy = pr.clicks.position_bias(few_clicks().lazy(), method, **ROUGH)
        assert isinstance(lazy, pl.LazyFrame)
        assert lazy.collect_schema() == actual.schema
        assert_frame_equal(lazy.collect(engine="streaming"), actual)
        assert_frame_equal(lazy.collect(engine="in-memory"), actual)

    def test_the_order_of_rows_changes_nothing(self, method: Any, tmp_path: Path) -> None:
        log, expected = few_clicks(), bias_of_few_clicks(method)
        rows = log.sample(fraction=1, shuffle=True, seed=1)
        assert_frame_equal(pr.clicks.position_bias(rows, method, **ROUGH), expected)
        for name, rows in {"sorted": log, "shuffled": rows}.items():
            rows.write_parquet(tmp_path / f"{name}.parquet")
            scanned = pr.scan_log(tmp_path / f"{name}.parquet")
            actual = pr.clicks.position_bias(scanned, method, **ROUGH).collect()
            assert_frame_equal(actual, expected)

    def test_groups_are_alone(self, method: Any) -> None:
        # Clicked less often, so that the likeliest probabilities of its top are lower.
        phone = impressions(
            ("a", 1, 1, 12, 20), ("a", 1, 2, 4, 20), ("a", 2, 1, 6, 20), ("a", 2, 2, 2, 20)
        )  # fmt: skip
        log = pl.concat([
            SMALL.with_columns(device=pl.lit(None, pl.String)),
            phone.with_columns(device=pl.lit("phone")),
        ])  # fmt: skip
        actual = pr.clicks.position_bias(log, method, by="device", tolerance=1e-6)
        for (device,), part in log.group_by("device"):
            alone = pr.clicks.position_bias(part, method, tolerance=1e-6)
            assert actual.columns == ["device", *alone.columns]
            rows = actual.filter(pl.col("device").eq_missing(device)).drop("device")
            assert_frame_equal(rows, alone, rel_tol=1e-3, abs_tol=1e-5)

    def test_names_are_the_users(self, method: Any) -> None:
        names = {"query": "text", "doc": "clicks", "position": "pairs", "click": "propensity"}
        renamed = few_clicks().select(*names).rename(names)
        actual = pr.clicks.position_bias(renamed, method, **names, **ROUGH)
        assert_frame_equal(actual, bias_of_few_clicks(method))

    def test_an_empty_log_has_no_positions(self, method: Any) -> None:
        assert pr.clicks.position_bias(SMALL.clear(), method).is_empty()

    def test_what_was_not_shown_does_not_count(self, method: Any) -> None:
        unseen = SMALL.with_columns(position=pl.lit(None, pl.Int64), click=None)
        both = pl.concat([SMALL, unseen], how="vertical_relaxed")
        assert_frame_equal(
            pr.clicks.position_bias(both, method, **ROUGH),
            pr.clicks.position_bias(SMALL, method, **ROUGH),
        )

    @pytest.mark.parametrize(("column", "value", "said"), [
        ("position", 0, "must have integers from 1"),
        ("position", 1.5, "must have integers from 1"),
        ("position", float("nan"), "must have integers from 1"),
        ("click", 2, "must be Boolean, 0 or 1"),
        ("click", 0.5, "must be Boolean, 0 or 1"),
        ("doc", None, "null in the id column 'doc'"),
        ("query", None, "null in the id column 'query'"),
    ])  # fmt: skip
    def test_rows_at_fault(self, method: Any, column: str, value: Any, said: str) -> None:
        fault = pl.int_range(pl.len()) == 3
        broken = SMALL.with_columns(
            pl.when(fault).then(pl.lit(value)).otherwise(column).alias(column)
        )
        with pytest.raises(pr.errors.DataError, match=f"1 of 24 rows: .*{said}"):
            pr.clicks.position_bias(broken, method)
        with pytest.raises(pr.errors.DataError, match=said):
            pr.clicks.position_bias(broken.lazy(), method).collect()


def test_bad_parameters() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="`method` must be one of"):
        pr.clicks.position_bias(SMALL, "pivots")  # type: ignore[arg-type]
    with pytest.raises(pr.errors.ArgumentError, match="`pivot`"):
        pr.clicks.position_bias(SMALL, pivot=0)
    with pytest.raises(pr.errors.ArgumentError, match="`tolerance`"):
        pr.clicks.position_bias(SMALL, "em", tolerance=0)
    with pytest.raises(pr.errors.ArgumentError, match="`swap` needs `method` 'randomized'"):
        pr.clicks.position_bias(SMALL, swap="position")
    with pytest.raises(pr.errors.SchemaError, match="column 'clicked' .`click`. not found"):
        pr.clicks.position_bias(SMALL, click="clicked")
    for name in ("click", "position"):
        for value in ("1", timedelta(seconds=1), date(2026, 1, 5)):
            for log in (SMALL, SMALL.lazy()):
                with pytest.raises(
                    pr.errors.SchemaError, match=f"'{name}' .* must be numeric; found"
                ):
                    pr.clicks.position_bias(log.with_columns(pl.lit(value).alias(name)))
    with pytest.raises(
        pr.errors.ArgumentError, match="`doc` must be the name of a column; found None"
    ):
        pr.clicks.position_bias(SMALL, doc=None)  # type: ignore[arg-type]
    with pytest.raises(pr.errors.ArgumentError, match="has the name of a result column"):
        pr.clicks.position_bias(SMALL.with_columns(clicks=1), by="clicks")
    with pytest.raises(pr.errors.ArgumentError, match="'query' is used for both `by` and `query`"):
        pr.clicks.position_bias(SMALL, by="query")


def test_a_session_as_query_raises_a_warning() -> None:
    sessions = SMALL.with_row_index("session")
    for method in ("pivot", "adjacent", "em"):
        with pytest.warns(pr.errors.RankWarning, match="`query` must be the text of the query"):
            actual = pr.clicks.position_bias(sessions, method, query="session")
        assert of(actual, "propensity") == [1, None, None]
    assert of(pr.clicks.position_bias(SMALL.filter(position=1)), "propensity") == [1]


@pytest.mark.parametrize("method", METHODS)
def test_a_top_position_without_clicks(method: Any) -> None:
    unclicked = SMALL.with_columns(
        click=pl.when(pl.col("position") > 1).then("click").otherwise(pl.lit(value=False))
    )
    assert unclicked["click"].sum() > 0
    for log in (unclicked, SMALL.with_columns(click=False)):
        with pytest.warns(pr.errors.RankWarning, match="position of reference has no clicks"):
            actual = pr.clicks.position_bias(log, method)
        assert actual.filter(pl.col("position") > 1)["propensity"].is_null().all()
        assert actual["propensity"][0] in (None, 1.0)
    # Beside a group of which something is known.
    both = pl.concat([SMALL.with_columns(by=0), unclicked.with_columns(by=1)])
    actual = pr.clicks.position_bias(both, method, by="by", **ROUGH)
    known = pr.clicks.position_bias(SMALL, method, **ROUGH)
    assert_frame_equal(actual.filter(by=0).drop("by"), known)
    assert actual.filter(pl.col("position") > 1, by=1)["propensity"].is_null().all()


def test_a_pivot_with_a_top_position_without_clicks() -> None:
    unclicked = SMALL.with_columns(
        click=pl.when(pl.col("position") > 1).then("click").otherwise(pl.lit(value=False))
    )
    with pytest.warns(pr.errors.RankWarning, match="no propensity can be estimated"):
        actual = pr.clicks.position_bias(unclicked, pivot=2)
    assert actual["propensity"].is_null().all()


def test_a_pivot_that_was_never_shown() -> None:
    with pytest.warns(pr.errors.RankWarning, match="no propensity can be estimated"):
        actual = pr.clicks.position_bias(SMALL, pivot=9)
    assert actual.select("propensity", "std_error").null_count().row(0) == (actual.height,) * 2


def test_em_warns_if_it_does_not_converge() -> None:
    with pytest.warns(
        pr.errors.RankWarning, match="no convergence in 2 iterations: .* increase one"
    ):
        pr.clicks.position_bias(SMALL, "em", iterations=2)


#: A hundred pairs, each shown once at both of two positions: 20 were clicked at both, 8 at the top
#: alone, 2 below alone.
ONCE = impressions(
    *((f"{n}", 1, 1, int(n < 28), 1) for n in range(100)),
    *((f"{n}", 1, 2, int(n < 20 or n >= 98), 1) for n in range(100)),
)


def test_em_has_no_error_for_a_propensity_at_a_bound() -> None:
    """It was 1.0 with a standard error of 0.0005, where the click rates are 0.28 and 0.22."""
    with pytest.warns(pr.errors.RankWarning) as caught:
        actual = pr.clicks.position_bias(ONCE, "em")
    assert of(actual, "propensity")[1] == pytest.approx(1, abs=1e-3)
    assert of(actual, "std_error") == [0, None]
    told = " ".join(str(each.message) for each in caught)
    assert "the propensity of 1 position is at a bound" in told
    assert "at position 2: the standard error is unknown" in told
    assert "have 1.00 impressions per position on average, fewer than 1.5" in told


def test_em_has_no_error_for_a_position_without_clicks() -> None:
    log = impressions(
        *(("a", doc, place, 2 if place == 1 else 0, 4) for doc in "xy" for place in (1, 2))
    )
    with pytest.warns(pr.errors.RankWarning, match="at a bound .0, or equal"):
        actual = pr.clicks.position_bias(log, "em")
    assert of(actual, "propensity")[1] == pytest.approx(0, abs=1e-6)
    assert of(actual, "std_error") == [0, None]


@pytest.mark.filterwarnings("error:.*fewer than 50 pairs:polars_rank.errors.RankWarning")
@pytest.mark.parametrize("method", ["pivot", "adjacent"])
def test_few_pairs_or_clicks_raise_a_warning(method: Any) -> None:
    def pairs(number: int, clicked: int) -> pl.DataFrame:
        return impressions(
            *((f"{n}", 1, 1, 1, 2) for n in range(number)),
            *((f"{n}", 1, 2, int(n < clicked), 2) for n in range(number)),
        )

    assert of(pr.clicks.position_bias(pairs(50, 10), method), "pairs")[1] == 50
    for number, clicked in ((49, 10), (50, 9)):
        said = rf"^1 standard error .*'position': 2, 'pairs': {number}, 'clicks': {clicked}\}}"
        with pytest.warns(pr.errors.RankWarning, match=said):
            pr.clicks.position_bias(pairs(number, clicked).lazy(), method).collect()


def test_a_sorted_log_is_counted_ranking_by_ranking(tmp_path: Path) -> None:
    log = click_log(20, 5, sessions=10, shown=4, seed=3).collect()
    for name, rows in {"sorted": log, "shuffled": log.sample(fraction=1, shuffle=True)}.items():
        rows.write_parquet(tmp_path / f"{name}.parquet")
        scanned = pr.scan_log(tmp_path / f"{name}.parquet")
        for method in ("pivot", "adjacent"):
            plan = pr.clicks.position_bias(scanned, method).show_graph(  # type: ignore[call-overload]
                engine="streaming", plan_stage="physical", raw_output=True, show=False
            )
            before = plan[plan.index("group-by", plan.index("group-by") + 1) :]
            assert "sorted-group-by" in before
            assert "in-memory-map" not in before


def test_false_sorted_flags_raise_errors() -> None:
    false = pl.concat([SMALL, SMALL]).lazy().set_sorted("query")
    with pytest.raises(pr.errors.DataError, match="rows of a ranking may not be adjacent"):
        pr.clicks.position_bias(false).collect()


@pytest.mark.filterwarnings("ignore:no (.query|propensity):polars_rank.errors.RankWarning")
@given(st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 3), st.integers(1, 4), st.integers(0, 1)),
    min_size=1, max_size=60,
))  # fmt: skip
def test_pivot_is_its_formula(rows: list[tuple[str, int, int, int]]) -> None:
    log = pl.DataFrame(rows, schema=["query", "doc", "position", "click"], orient="row")
    rates: dict[tuple[str, int], dict[int, list[int]]] = {}
    for query, doc, position, click in rows:
        rates.setdefault((query, doc), {}).setdefault(position, []).append(click)

    def rate(clicks: list[int]) -> float:
        return sum(clicks) / len(clicks)

    actual = dict(pr.clicks.position_bias(log).select("position", "propensity").rows())
    if 1 in actual:
        for position in actual:
            both = [each for each in rates.values() if position in each and 1 in each]
            base = sum(rate(each[1]) for each in both)
            here = sum(rate(each[position]) for each in both)
            if position == 1:
                continue
            assert actual[position] == (pytest.approx(here / base) if base else None)
