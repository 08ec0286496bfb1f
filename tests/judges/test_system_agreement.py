"""Agreement of judges on runs: plain Python, scipy, worked examples, intervals, errors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import permutations, product
from operator import add
from typing import Any

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

#: Most tables here have few queries.
pytestmark = pytest.mark.filterwarnings("ignore:intervals of agreement are too narrow")

CORRELATIONS = ["tau_b", "tau_ap"]
WINNERS = ["same_winner", "opposite_winner"]
NAMES = "abcdefghij"


def table(values: dict[str, Sequence[Sequence[float | None]]], metric: str = "rr") -> pl.DataFrame:
    """Return per-query values from the rows of queries x runs of each judge."""
    rows = [
        (run, query, judge, value)
        for judge, queries in values.items()
        for query, row in enumerate(queries)
        for run, value in zip(NAMES, row, strict=False)
    ]
    schema = {"run": pl.String, "query": pl.Int64, "judge": pl.String, metric: pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def agreement(values: Any, *metrics: Any, **options: Any) -> pl.DataFrame:
    options = {"reference": "human", "n_resamples": 50, **options}
    return pr.judges.system_agreement(values, *metrics, **options)


def statistics(result: pl.DataFrame) -> dict[str, float | None]:
    return dict(result.select("statistic", "value").iter_rows())


def of_means(
    reference: Sequence[float], judge: Sequence[float], metric: str = "rr"
) -> dict[str, float | None]:
    """Return the correlations of the orders of runs by their values for one query."""
    means = {"human": [reference], "llm": [judge]}
    found = statistics(agreement(table(means, metric), n_resamples=1))
    return {name: found[name] for name in CORRELATIONS}


def orders(means: Sequence[float]) -> list[list[int]]:
    """Return all rankings of the runs, the best first, that differ by the order of ties."""
    runs = [*range(len(means))]
    levels = [[run for run in runs if means[run] == mean] for mean in sorted({*means})[::-1]]
    return [
        [run for level in order for run in level]
        for order in product(*(permutations(level) for level in levels))
    ]


def tau_ap(reference: Sequence[int], judge: Sequence[int]) -> float:
    """Return the AP correlation of two rankings without ties (Yilmaz et al., 2008)."""
    total = 0.0
    for place in range(1, len(judge)):
        above = reference[: reference.index(judge[place])]
        total += len({*judge[:place]} & {*above}) / place
    return 2 * total / (len(judge) - 1) - 1


leaderboards = st.integers(2, 4).flatmap(
    lambda runs: st.tuples(*[st.lists(st.integers(0, 3), min_size=runs, max_size=runs)] * 2)
)


@settings(max_examples=40)
@given(leaderboards)
def test_correlations_of_means(means: tuple[list[int], list[int]]) -> None:
    reference, judge = means
    ours = of_means(reference, judge)
    stats = needs.package("scipy.stats", "stats")
    is_tied = min(len({*means[0]}), len({*means[1]})) == 1
    tau_b = None if is_tied else stats.kendalltau(reference, judge).statistic
    assert ours["tau_b"] == (None if tau_b is None else pytest.approx(tau_b))
    pairs = [*product(orders(reference), orders(judge))]
    expected = sum(tau_ap(*pair) for pair in pairs) / len(pairs)
    assert ours["tau_ap"] == pytest.approx(expected, abs=1e-12)


def test_published_values_of_the_ap_correlation() -> None:
    """Values of the R package ircor (Urbano), which are rounded to seven digits."""
    reference = np.array([0.06, 0.2, 0.27, 0.37, 0.57, 0.63, 0.66, 0.9, 0.91, 0.94])
    judge = np.array([0.37, 0.06, 0.2, 0.27, 0.57, 0.66, 0.63, 0.91, 0.9, 0.94])
    ours = of_means(reference, judge)
    assert (ours["tau_b"], ours["tau_ap"]) == pytest.approx((0.7777778, 0.7491182), abs=1e-7)
    ties = np.round(judge * 5) / 5
    assert of_means(reference, ties)["tau_ap"] == pytest.approx(0.6074515, abs=1e-7)
    # Where lower is better, the first run is right, or else the last one.
    orders = [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]
    assert of_means(*orders, "fallout@10")["tau_ap"] == 0.5
    assert of_means(*orders, "p@10")["tau_ap"] == 0


def test_means_that_differ_by_rounding_are_tied() -> None:
    human = [[0.1, 0.3, 0.9], [0.2, 0.2, 0.9], [0.3, 0.1, 0.9]]
    first, second = (reduce(add, (row[run] for row in human)) for run in (0, 1))
    assert first != second  # `sum` rounds once, from Python 3.12
    result = statistics(agreement(table({"human": human, "llm": [[0.5, 0.5, 0.7]] * 3})))
    assert result["tau_b"] == 1
    # Half of the orders of the tied runs are equal, with 1; in the others, one of the two runs
    # above the last one is concordant.
    assert result["tau_ap"] == (1 + (2 / 2 * (1 / 1 + 1 / 2) - 1)) / 2


def random_values(seed: int, runs: int = 4, queries: int = 60) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    human = random.uniform(size=(queries, runs)) + np.linspace(0, 0.5, runs)
    noisy = human + random.normal(size=human.shape) * 0.3
    return {"human": human.tolist(), "llm": noisy.tolist(), "third": noisy[:, ::-1].tolist()}


SIGNS = {"better": 1, "worse": -1, "unclear": 0}


@pytest.mark.parametrize("metric", ["rr", "fallout@10"])
def test_winners_are_those_of_compare(metric: str) -> None:
    values = random_values(2)
    result = agreement(table(values, metric), metric)
    for judge in ("llm", "third"):
        winners = []
        for name in ("human", judge):
            pairs = pr.compare(table({name: values[name]}, metric), metric)
            winners.append([SIGNS[each] for each in pairs["verdict"]])
        products = [a * b for a, b in zip(*winners, strict=True)]
        ours = statistics(result.filter(judge=judge))
        assert ours["same_winner"] == products.count(1) / 6
        assert ours["opposite_winner"] == products.count(-1) / 6
        assert products.count(1 if judge == "llm" else -1) > 0


def test_winners_by_hand() -> None:
    """Of 6 pairs, both judges show 3 differences, one of them in opposite directions."""
    noise = [0.05, -0.05] * 40
    human = [[0.2 + x, 0.4 - x, 0.6 + x, 0.6 - x] for x in noise]
    llm = [[0.2 + x, 0.4 - x, 0.3 + x, 0.2 - x] for x in noise]
    # By people, a < b < c = d. By the judge, a = d < c < b.
    result = statistics(agreement(table({"human": human, "llm": llm})))
    # Same: a < b and a < c. Opposite: b and c, b and d. Only people: a < d. Only the judge: c, d.
    assert result["same_winner"] == 2 / 6
    assert result["opposite_winner"] == 2 / 6
    # People: a 0, b 1, c 2, d 2; judge: a 0, d 0, c 1, b 2. Concordant: a-b and a-c; discordant:
    # b-c and b-d; c-d is tied by people, a-d by the judge.
    assert result["tau_b"] == 0


def test_groups_metrics_and_judges() -> None:
    values = [
        table(random_values(seed)).with_columns(
            pl.lit(country).alias("country"), (-pl.col("rr")).alias("opposite")
        )
        for seed, country in ((1, "b"), (2, "a"))
    ]
    whole = pl.concat(values)
    result = agreement(whole, by="country")
    assert result.columns == [
        "country", "metric", "judge", "reference", "statistic", "value", "low", "high", "runs",
        "queries", "note",
    ]  # fmt: skip
    assert result["statistic"].to_list() == [*CORRELATIONS, *WINNERS] * 8
    assert result.select("country", "metric", "judge").unique(maintain_order=True).rows() == [
        *product("ab", ["rr", "opposite"], ["llm", "third"])
    ]
    assert_frame_equal(agreement(whole.lazy(), by="country").collect(engine="streaming"), result)
    shuffled = whole.sample(fraction=1, shuffle=True, seed=3)
    assert_frame_equal(agreement(shuffled, by="country"), result)
    alone = agreement(values[1].filter(pl.col("judge") != "third"), ["rr"])
    part = result.filter(pl.col("country") == "a", pl.col("metric") == "rr", judge="llm")
    assert_frame_equal(alone, part.drop("country"))
    # The order of the runs by the negative values is the opposite one for both judges.
    tau = result.filter(statistic="tau_b").pivot(
        "metric", index=["country", "judge"], values="value"
    )
    assert tau["rr"].to_list() == pytest.approx(tau["opposite"].to_list())


def test_only_queries_of_both_judges_count() -> None:
    values = random_values(4, queries=40)
    human = values["human"][:35]
    human[3] = [None, *human[3][1:]]
    result = agreement(table({"human": human, "llm": values["llm"]}, "gain"))
    assert result["queries"].unique().to_list() == [34]
    same = table({name: values[name][:35] for name in ("human", "llm")})
    assert statistics(agreement(same.filter(pl.col("query") != 3))) == statistics(result)


def test_warning_of_queries_of_the_reference_that_do_not_count() -> None:
    values = random_values(4, queries=40)
    llm = [[None] * 4, [None, 1.0, 1.0, 1.0], [0.5] * 4, *values["llm"][3:]]
    half = table({"human": values["human"], "llm": llm}, "gain")
    assert agreement(half)["queries"][0] == 38
    with pytest.warns(
        pr.errors.RankWarning, match=r"'human' are not .*judge = 'llm', metric = 'gain' .3 of 40.$"
    ):
        agreement(half.filter(~((pl.col("query") == 5) & (pl.col("judge") == "llm"))))
    # Queries without a value of the reference in any run are not those of the reference.
    none = pl.when(pl.col("query") > 4).then("gain").alias("gain")
    assert agreement(half.with_columns(none))["queries"][0] == 35


@pytest.mark.filterwarnings("ignore:fewer than 5 degrees of freedom")
def test_weights_and_clusters() -> None:
    values = table(random_values(5, queries=50)).filter(pl.col("judge") != "third")
    weighted = values.with_columns(traffic=pl.col("query") % 3)
    copies = pl.concat(
        weighted.filter(pl.col("traffic") > copy).with_columns(copy=copy) for copy in range(2)
    )
    result = agreement(weighted, "rr", weight="traffic")
    repeated = agreement(copies, "rr", query=["query", "copy"], cluster="query")
    leading = pl.col("statistic").is_in(CORRELATIONS)
    columns = ["statistic", "value", "low", "high"]
    assert_frame_equal(result.filter(leading)[columns], repeated.filter(leading)[columns])
    assert set(result["queries"]) == {33}
    assert set(repeated["queries"]) == {49}
    winners = [
        pr.compare(copies.filter(judge=name), "rr", query=["query", "copy"], cluster="query")
        for name in ("human", "llm")
    ]
    same = winners[0]["verdict"] == winners[1]["verdict"]
    both = winners[0]["verdict"].is_in(["better", "worse"])
    assert statistics(repeated)["same_winner"] == (same & both).mean()


def test_intervals() -> None:
    values = table(random_values(6, runs=6)).filter(pl.col("judge") != "third")
    result = agreement(values, n_resamples=2000)
    bounded = result.head(2)
    assert ((bounded["low"] <= bounded["value"]) & (bounded["value"] <= bounded["high"])).all()
    assert (bounded["low"] < bounded["high"]).all()
    assert result.tail(2)["low"].null_count() == 2
    assert set(result.tail(2)["note"]) == {"shares of pairs have no interval"}
    narrow = agreement(values, n_resamples=2000, confidence=0.5).head(2)
    assert (narrow["low"] >= bounded["low"]).all()
    assert (narrow["low"] > bounded["low"]).any()
    assert_frame_equal(agreement(values, n_resamples=2000), result)
    few = [agreement(values, n_resamples=20, seed=seed)["low"].to_list() for seed in (0, 1)]
    assert few[0] != few[1]
    human = [[0.1, 0.5], [0.5, 0.2], *[[0.3, 0.3]] * 9]
    result = agreement(table({"human": human, "llm": human[1:] + human[:1]}), n_resamples=2000)
    note = dict(result.select("statistic", "note").iter_rows())["tau_b"]
    share = float(note.removeprefix("undefined in ").removesuffix("% of the resamples"))
    # Undefined if the Poisson weights of the first or of the last two differences are 0.
    assert 0 < share < 100


def test_intervals_of_more_queries_than_are_resampled_one_by_one() -> None:
    """Of 18,000 queries, the second run is better in 9,050 by people, so its order varies."""
    wins = [[0.0, 1.0]] * 9_050 + [[1.0, 0.0]] * 8_950
    result = agreement(table({"human": wins, "llm": [[0.0, 1.0]] * 18_000}), n_resamples=200)
    assert result["queries"].unique().to_list() == [18_000]
    # The difference of 100 wins has a standard error of sqrt(18,000) = 134.
    assert result.row(0, named=True)["low"] == -1
    assert result.row(0, named=True)["high"] == 1


@pytest.mark.filterwarnings("ignore:queries with values of the judge")
def test_undefined_values_are_null_with_a_note() -> None:
    every, pair = [*CORRELATIONS, *WINNERS], "no interval for 1 pair of runs"
    for human, llm, undefined, note in (
        ([[0.1, 0.5], [0.2, 0.3]], [[0.3, 0.3]] * 2, ["tau_b", *WINNERS],
         "all runs are tied under one"),
        ([[0.1]] * 4, [[0.3]] * 4, every, "there is only one run"),
        ([[0.1, 0.5]], [[0.3, 0.2]], WINNERS, pair),
        ([[0.1, 0.5]] * 4, [[0.3, 0.2]] * 4, WINNERS, pair),
        ([[0.1, 0.5]], [[None, 0.2]], every, "no query has values of both"),
    ):  # fmt: skip
        result = agreement(table({"human": human, "llm": llm}, "gain"))
        null = result.filter(pl.col("value").is_null())
        assert null["statistic"].to_list() == undefined
        assert all(each.startswith((note, "no interval for 1")) for each in null["note"])
        assert result["note"].null_count() == 0  # of the others, all resamples are equal


def test_groups_with_values_of_one_judge() -> None:
    values = table(random_values(7)).with_columns(country=pl.lit("a"))
    other, third = (
        values.filter(judge=name).with_columns(country=pl.lit(country))
        for name, country in (("human", "b"), ("third", "c"))
    )
    message = r"country = 'b'.*judge = 'llm', metric = 'rr' .60 of 60."
    with pytest.warns(pr.errors.RankWarning, match=message):
        result = agreement(pl.concat([values, other, third]), by="country")
    empty = result.filter(pl.col("country") != "a")
    assert empty["value"].null_count() == len(empty) == 16
    assert set(empty["queries"]) == {0}
    # A column named judge that is not the judge is no group.
    two = values.filter(pl.col("judge") != "third")
    named = two.rename({"judge": "rater"}).with_columns(judge=pl.lit("x"))
    assert_frame_equal(agreement(named, "rr", judge="rater"), agreement(two, "rr"))


def test_values_of_per_query() -> None:
    log = pr.datasets.search_log(60, runs=["a", "b", "c"], seed=1).collect()
    log = log.with_columns(llm=(pl.col("label") + pl.col("doc").hash(1) % 2).clip(0, 4))
    keys = ["run", "query", "doc", "score"]
    log = log.unpivot(
        ["label", "llm"], index=keys, variable_name="judge", value_name="grade"
    ).with_columns(pl.col("grade").fill_null(0))
    values = pr.per_query(log, ["ndcg@5", "rr"], by="judge", label="grade")
    result = agreement(values, reference="label")
    assert result["metric"].unique(maintain_order=True).to_list() == ["ndcg@5", "rr"]
    assert set(result["judge"]) == {"llm"}
    assert result["runs"].unique().to_list() == [3]
    trec = pr.per_query(log, "ndcg@5", by="judge", label="grade", conventions="trec_eval")
    assert agreement(trec, reference="label")["value"].null_count() == 0


VALUES = table(random_values(8))


def test_errors() -> None:
    judge, rows, arguments = pl.col("judge"), pr.errors.DataError, pr.errors.ArgumentError
    mean = "'humans' .*Did you mean 'human'"
    enum = VALUES.with_columns(judge.cast(pl.Enum(["human", "llm", "third"])))
    for values, options, error, message in (
        (VALUES, {"reference": "humans"}, rows, mean),
        (enum, {"reference": "humans"}, rows, mean),
        (VALUES.with_columns(runs=1), {"by": "runs"}, arguments, "has the name of a result"),
        (VALUES.filter(judge="human"), {}, rows, "only the judge 'human'"),
        (VALUES.with_columns(pl.when(judge != "third").then("judge").alias("judge")), {}, rows,
         "column 'judge' .`judge`. has nulls"),
        (VALUES.filter(~((judge == "llm") & (pl.col("run") == "b"))), {}, rows,
         "1 run, e.g. 'b', with values of only one of the judges 'human' a"),
        (pl.concat([VALUES, VALUES.head(1)]), {}, rows, "duplicate rankings.*'judge'"),
        (VALUES.with_columns(rr=float("nan")), {}, rows, "NaN or infinite"),
        (VALUES.with_columns(w=pl.when(judge="llm").then(2).otherwise(1)), {"weight": "w"}, rows,
         "different weights in two runs"),
    ):  # fmt: skip
        for frame in (values, values.lazy()):
            with pytest.raises(error, match=message):
                agreement(frame, **options).lazy().collect()
