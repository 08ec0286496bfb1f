"""leaderboard: ranks and letters by hand, and intervals against scipy and plain numpy."""

import itertools
import math
import re

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from polars_rank.stats.letters import letters

LOG = pr.datasets.search_log(300, runs=["old", "new", "best"], seed=2)
VALUES = pr.per_query(LOG, ["ap", "rr"], by="run", keep="country").collect()
RANKS = ["run", "rank", "rank_low", "rank_high", "better_than", "worse_than", "best", "letters"]


def table(**runs):
    """Return per-query values of runs."""
    return pl.concat(
        pl.DataFrame({"run": run, "query": np.arange(len(values)), "x": values})
        for run, values in runs.items()
    )


def noise(scale, queries=40):
    """Return values with the mean 0."""
    return np.resize([scale, -scale], queries)


# -- Ranks and letters ----------------------------------------------------------------------------


def test_significant_runs_can_share_a_letter_but_not_the_other_way_round():
    draw = np.random.default_rng(5)
    base = draw.normal(size=40)
    means = {f"r{i}": mean for i, mean in enumerate((0, 0.12, 0.3, 0.42, 0.6, 1.2))}
    values = table(**{run: base + draw.normal(size=40) * 0.5 + mean for run, mean in means.items()})
    letters_of = dict(pr.stats.leaderboard(values).select("run", "letters").iter_rows())
    pairs = pr.stats.compare_all(values).select("run", "other", pl.col("p_value") < 0.05).rows()
    significant = {(run, other) for run, other, low in pairs if low}
    apart = {
        (run, other) for run, other, _ in pairs if not {*letters_of[run]} & {*letters_of[other]}
    }
    assert apart < significant


def test_ranks_and_letters_by_hand():
    # The differences of a and the other runs from zero vary by 0.1 (standard error 0.016); those
    # of wide by 2 (0.32). 2.7 standard errors separate runs, so that wide, of which the mean is
    # between those of a and zero, cannot be told apart from either of them, but from low.
    base = np.sin(np.arange(40))
    base -= base.mean()
    values = table(
        zero=base, a=base + 0.5 + noise(0.1), low=base - 2, wide=base + 0.2 + noise(2)
    ).with_columns(
        pl.when(pl.col("run") == "low")
        .then(pl.col("x") + 0.1 * (pl.col("query") % 2))
        .otherwise("x")
    )
    board = pr.stats.leaderboard(values)
    assert board.select(RANKS).rows() == [
        ("a", 1, 1, 2, 2, 0, True, "a"),
        ("wide", 2, 1, 3, 1, 0, True, "ab"),
        ("zero", 3, 2, 3, 1, 1, False, "b"),
        ("low", 4, 4, 4, 0, 3, False, "c"),
    ]
    assert board["queries"].to_list() == [40] * 4
    assert board["mean"].to_list() == pytest.approx([0.5, 0.2, 0.0, -1.95])


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], ["a", "a", "a", "a"]),
        ([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)], ["a", "b", "c", "d"]),
        ([(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"]),
        ([(0, 2), (1, 3)], ["ab", "ac", "cd", "bd"]),
        # The first run varies: it is the only one that cannot be told apart from all others.
        ([(1, 2), (1, 3), (2, 3)], ["abc", "a", "b", "c"]),
    ],
)
def test_letters_by_hand(pairs, expected):
    assert (
        letters([[(i, j) in pairs or (j, i) in pairs for j in range(4)] for i in range(4)])
        == expected
    )


@given(
    st.integers(0, 7).flatmap(
        lambda n: st.tuples(
            st.just(n), st.sets(st.sampled_from([*itertools.combinations(range(max(n, 2)), 2)]))
        )
    )
)
def test_runs_share_a_letter_if_and_only_if_they_do_not_differ(case):
    number, pairs = case
    names = letters(
        [[(i, j) in pairs or (j, i) in pairs for j in range(number)] for i in range(number)]
    )
    for i, j in itertools.combinations(range(number), 2):
        assert bool({*names[i]} & {*names[j]}) == ((i, j) not in pairs)
    assert all("a" in name for name in names[:1])


def test_letters_after_z():
    # Each run differs from all others.
    names = letters([[i != j for j in range(30)] for i in range(30)])
    assert names == [*"abcdefghijklmnopqrstuvwxyz", "aa", "ab", "ac", "ad"]
    # Each run differs from all but the next one.
    names = letters([[abs(i - j) > 1 for j in range(30)] for i in range(30)])
    assert names[:3] == ["a", "a,b", "b,c"]
    assert names[-2:] == ["ab,ac", "ac"]


def test_many_runs_of_which_only_pairs_differ_have_few_letters():
    # There are 2^25 largest groups of runs that do not differ.
    names = letters([[i // 2 == j // 2 and i != j for j in range(50)] for i in range(50)])
    assert len({letter for name in names for letter in name.split(",")}) <= 100


def test_equal_means_share_a_rank():
    values = table(a=[0.1, 0.2, 0.6], b=[0.6, 0.1, 0.2], c=[0.0, 0.1, 0.2], d=[0.2, 0.1, 0.0])
    with pytest.warns(pr.errors.RankWarning, match="too few queries"):
        board = pr.stats.leaderboard(values)
    assert board.select("run", "rank", "rank_low", "rank_high", "letters").rows() == [
        ("a", 1, 1, 4, "a"), ("b", 1, 1, 4, "a"), ("c", 3, 1, 4, "a"), ("d", 3, 1, 4, "a"),
    ]  # fmt: skip


@pytest.mark.parametrize("metric", ["fall_out@10", pr.fall_out(10).alias("noise")])
def test_lower_is_better(metric):
    name = metric if isinstance(metric, str) else "noise"
    better = table(a=noise(0.1) + 0.5, b=noise(0.2) + 0.4).rename({"x": name})
    for values in (better, pr.stats.moments(better, all_pairs=True)):
        board = pr.stats.leaderboard(values, metric)
        assert board.select(RANKS).rows() == [
            ("b", 1, 1, 1, 1, 0, True, "a"), ("a", 2, 2, 2, 0, 1, False, "b"),
        ]  # fmt: skip


def test_direction_of_a_column_that_is_no_metric():
    """The metric says what the name of a column does not: the run with less junk is better."""
    log = pl.DataFrame({
        "run": ["a", "b"] * 16, "query": [i // 2 for i in range(32)],
        "doc": "x", "score": 1.0, "label": [1, 0] * 15 + [0, 1],
    })  # fmt: skip
    log = pl.concat([log, log.with_columns(doc=pl.lit("y"), score=0.5, label=pl.lit(0, pl.Int64))])
    junk = pr.fall_out(1)
    for metric in (
        junk.alias("junk@1"), junk * 1, (2 * junk).alias("double"), (junk + junk) / 2,
        junk - pr.precision(1), pr.precision(1) * -1, 1 - pr.precision(1), -(-junk),
    ):  # fmt: skip
        values = pr.per_query(log, metric, by="run", undefined="zero")
        for table in (values, pr.stats.moments(values, metric, all_pairs=True)):
            board = pr.stats.leaderboard(table, metric)
            assert board["run"].to_list() == ["a", "b"]
            assert board["direction"].to_list() == ["lower is better"] * 2
    values = pr.per_query(log, [junk.alias("junk@1"), 1 - junk, junk + pr.precision(1)], by="run")
    board = pr.stats.leaderboard(values.rename({"(1 - fall_out@1)": "clean"}))
    assert {*board["direction"]} == {"higher is better"}
    assert board.filter(metric="junk@1", rank=1)["run"].item() == "b"
    assert board.filter(metric="clean", rank=1)["run"].item() == "a"


# -- Intervals ------------------------------------------------------------------------------------


def test_ranks_are_those_of_the_intervals_of_compare_all():
    lists = VALUES.with_columns(w=1 + pl.col("query") % 3, user=pl.col("query") // 2)
    options = {"n_resamples": 500, "seed": 3, "weight": "w", "cluster": "user"}
    plan = pr.stats.leaderboard(lists.lazy(), **options)
    board = plan.collect(engine="in-memory")
    assert_frame_equal(plan.collect(engine="streaming"), board)
    shuffled = lists.sample(fraction=1, shuffle=True, seed=1)
    assert_frame_equal(pr.stats.leaderboard(shuffled, **options), board)
    pairs = pr.stats.compare_all(lists, **options)
    for row in board.iter_rows(named=True):
        of_run = [
            ((low, high) if run == row["run"] else (-high, -low))
            for metric, run, other, low, high in pairs.select(
                "metric", "run", "other", "low", "high"
            ).rows()
            if metric == row["metric"] and row["run"] in (run, other)
        ]
        assert row["better_than"] == sum(low > 0 for low, _ in of_run)
        assert row["worse_than"] == sum(high < 0 for _, high in of_run)
        assert row["rank_low"] == 1 + row["worse_than"]
        assert row["rank_high"] == 3 - row["better_than"]
        assert row["rank_low"] <= row["rank"] <= row["rank_high"]
        assert row["best"] == ("a" in row["letters"])
    keys = ["metric", "run"]
    summary = pr.summarize(lists, interval="t", weight="w", cluster="user")
    means = ["mean", "low", "high", "effective"]
    assert_frame_equal(
        board.sort(keys).select(*keys, *means), summary.sort(keys).select(*keys, *means)
    )


def test_moments_give_the_same_means_and_intervals():
    parts = [
        pr.stats.moments(VALUES.filter(pl.col("query") % 2 == half), all_pairs=True)
        for half in (0, 1)
    ]
    board = pr.stats.leaderboard(pr.stats.merge(parts))
    exact = ["metric", "run", "rank", "mean", "low", "high", "queries", "missing"]
    assert_frame_equal(board.select(exact), pr.stats.leaderboard(VALUES).select(exact))
    by_country = pr.stats.moments(VALUES, by="country", all_pairs=True)
    assert_frame_equal(
        pr.stats.leaderboard(by_country, by="country"), pr.stats.leaderboard(VALUES, by="country")
    )


def test_only_queries_that_all_runs_have_are_compared():
    values = table(
        a=[1.0, 0.5, None, 0.0, 0.1], b=[0.6, 0.4, 0.5, None, 0.0], c=[0.1, 0.3, 0.2, 0.3, 0.4]
    )
    values = values.filter((pl.col("run") != "c") | (pl.col("query") < 4))
    partial = "more than 5% of the queries are not compared in 3 rows.* e.g. 3 of 5 of 'x'"
    with (
        pytest.warns(pr.errors.RankWarning, match="too few queries"),
        pytest.warns(pr.errors.RankWarning, match=partial),
    ):
        board = pr.stats.leaderboard(values)
    assert board.select("run", "mean", "queries", "missing").rows() == [
        ("a", 0.75, 2, 3), ("b", 0.5, 2, 3), ("c", pytest.approx(0.2), 2, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("by", [None, "task"])
def test_queries_that_are_undefined_in_all_runs_need_no_warning(by):
    random = np.random.default_rng(1)
    values = table(**{run: random.random(80).tolist() for run in "abc"}).with_columns(
        x=pl.when(pl.col("query") < 40).then("x"), task=pl.col("query") % 2
    )
    board = pr.stats.leaderboard(values, "x", by=by)
    assert board.select("queries", "missing").rows() == [(40, 40)] * 3
    one_lacks_many = values.filter((pl.col("run") != "c") | (pl.col("query") % 10 > 0))
    with pytest.warns(pr.errors.RankWarning, match="4 of 40 of 'x'"):
        pr.stats.leaderboard(one_lacks_many, "x", by=by)


# -- Tasks ----------------------------------------------------------------------------------------

SIZES = {"news": 5, "code": 12, "law": 30}


def tasks(weights=(1, 1, 1)):
    """Return values of two runs for tasks with different means and variances."""
    random = np.random.default_rng(7)
    parts = []
    for (task, size), weight in zip(SIZES.items(), weights, strict=True):
        base = random.normal(0.5, size / 20, size)
        for run, scale in (("a", 0.0), ("b", size / 10)):
            x = base + random.normal(0.35, scale or 0.1, size) * (run == "b")
            parts.append(
                pl.DataFrame(
                    {"task": task, "run": run, "query": np.arange(size), "x": x, "w": weight}
                )
            )
    return pl.concat(parts)


def satterthwaite(variances, sizes):
    return sum(variances) ** 2 / sum(v * v / (n - 1) for v, n in zip(variances, sizes, strict=True))


def matrices(values):
    for task in SIZES:
        rows = values.filter(task=task)
        yield np.column_stack([rows.filter(run=run)["x"] for run in "ab"])


@pytest.mark.parametrize("weights", [(1, 1, 1), (1, 2, 5)])
def test_given_tasks(weights):
    values = tasks(weights)
    share = np.array(weights) / sum(weights)
    weight = {} if weights == (1, 1, 1) else {"weight": "w"}
    by_task = [*matrices(values)]
    sizes = [len(x) for x in by_task]
    board = pr.stats.leaderboard(values.sample(fraction=1, shuffle=True), "x", by="task", **weight)
    for column, run in enumerate("ab"):
        (row,) = board.filter(run=run).iter_rows(named=True)
        mean = sum(a * x[:, column].mean() for a, x in zip(share, by_task, strict=True))
        variances = [
            a * a * x[:, column].var(ddof=1) / len(x) for a, x in zip(share, by_task, strict=True)
        ]
        limit = 1 / sum(a * a / n for a, n in zip(share, sizes, strict=True)) - 1
        degrees = min(satterthwaite(variances, sizes), limit)
        width = scipy.stats.t.isf(0.025, degrees) * math.sqrt(sum(variances))
        assert (row["mean"], row["low"], row["high"]) == pytest.approx(
            (mean, mean - width, mean + width)
        )
        assert (row["tasks"], row["queries"], row["missing"]) == (3, 47, 0)
    # The runs differ at confidence levels below 1 - p.
    differences = [x[:, 1] - x[:, 0] for x in by_task]
    variances = [a * a * d.var(ddof=1) / len(d) for a, d in zip(share, differences, strict=True)]
    t = sum(a * d.mean() for a, d in zip(share, differences, strict=True)) / math.sqrt(
        sum(variances)
    )
    p = 2 * scipy.stats.t.sf(abs(t), min(satterthwaite(variances, sizes), limit))
    for level, best in ((1 - p - 1e-6, [True, False]), (1 - p + 1e-6, [True, True])):
        ranks = pr.stats.leaderboard(values, "x", by="task", confidence=level, **weight)
        assert ranks["best"].to_list() == best


def test_queries_that_tasks_share_are_clusters():
    # The same 40 queries in two languages: the differences of the languages are equal.
    one = table(a=np.arange(40) / 40, b=np.arange(40) / 40 + np.sin(np.arange(40)))
    both = pl.concat([one.with_columns(language=pl.lit(name)) for name in ("de", "en")])
    board = pr.stats.leaderboard(both, "x", by="language", cluster="query")
    expected = pr.stats.leaderboard(one, "x", cluster="query")
    columns = ["run", "mean", "low", "high", "rank_low", "letters"]
    assert_frame_equal(board.select(columns), expected.select(columns))
    own = pr.stats.leaderboard(both, "x", by="language")
    assert (own["high"] - own["low"] < board["high"] - board["low"]).all()


def test_tasks_as_a_sample_of_tasks():
    values = VALUES.with_columns(task=pl.col("query") % 50, w=1.0 + pl.col("query") % 50 % 3)
    # Undefined values count as 0, as in the means per task of the second table.
    per_task = values.group_by("task", "run").agg(
        pl.col("ap", "rr").fill_null(0).mean(), pl.col("w").first()
    )
    for weight in (None, "w"):
        options = {"by": "task", "population": "tasks", "weight": weight, "metrics": ["ap", "rr"]}
        board = pr.stats.leaderboard(values, **options)
        of_tasks = pr.stats.leaderboard(per_task, **options)
        # A task is a unit, as a query is without `by`.
        units = pr.stats.leaderboard(per_task, ["ap", "rr"], query="task", weight=weight)
        assert_frame_equal(of_tasks.drop("tasks"), units.drop("queries", "missing"))
        assert_frame_equal(board.drop("queries", "missing"), of_tasks)
        assert board.select("queries", "missing", "tasks").unique().rows() == [(300, 0, 50)]


def test_few_tasks_have_no_ranks():
    options = {"by": "task", "population": "tasks", "metrics": "x"}
    with pytest.warns(pr.errors.RankWarning, match="no ranks from 3 tasks"):
        board = pr.stats.leaderboard(tasks(), **options)
    assert board.select(RANKS[1:]).unique().rows() == [(None,) * 7]
    means = tasks().group_by("task", "run").agg(pl.col("x").mean())
    a = means.filter(run="a")["x"]
    width = scipy.stats.t.isf(0.025, 2) * a.std() / math.sqrt(3)
    assert board.filter(run="a").select("mean", "low", "high").row(0) == pytest.approx(
        (a.mean(), a.mean() - width, a.mean() + width)
    )


# -- Errors and warnings --------------------------------------------------------------------------

TWO = tasks()
NEWS = TWO.filter(task="news")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pr.stats.leaderboard(NEWS.filter(run="a"), "x"), pr.errors.DataError, "only the run 'a'"),
        (
            lambda: pr.stats.leaderboard(TWO.filter((pl.col("run") == "a") == (pl.col("query") < 3)), "x", query=["task", "query"]),
            pr.errors.DataError, "no query has a value of the metric 'x' in each of the 2 runs",
        ),
        (
            lambda: pr.stats.leaderboard(TWO.filter((pl.col("run") == "a") | (pl.col("task") != "law")), "x", by="task"),
            pr.errors.DataError, "the run 'b' has no rankings in the task 'law'",
        ),
        (
            lambda: pr.stats.leaderboard(
                TWO.with_columns(pl.when((pl.col("run") == "a") | (pl.col("task") != "law")).then("x").alias("ap")), "ap", by="task", undefined="skip",
            ),
            pr.errors.DataError, "'ap' in each of the 2 runs in the task 'law'",
        ),
        (
            lambda: pr.stats.leaderboard(TWO.with_columns(v=1.0 + pl.col("query")), "x", by="task", weight="v"),
            pr.errors.DataError, "different weights",
        ),
        (
            lambda: pr.stats.leaderboard(TWO.drop("query"), "x", by="task", population="tasks"),
            pr.errors.DataError, "name the columns of the query with `query`",
        ),
        (
            lambda: pr.stats.leaderboard(TWO.with_columns(v=0.0), "x", by="task", weight="v"),
            pr.errors.DataError, "all weights of the metric 'x' are 0",
        ),
        (lambda: pr.stats.leaderboard(TWO, "x", population="tasks"), pr.errors.ArgumentError, "needs `by`"),
        (
            lambda: pr.stats.leaderboard(TWO, "x", by="task", population="tasks", cluster="query"),
            pr.errors.ArgumentError, "`cluster` needs",
        ),
        (
            lambda: pr.stats.leaderboard(pr.stats.moments(VALUES, baseline="old")),
            pr.errors.SchemaError, "all_pairs=True",
        ),
        (
            lambda: pr.stats.leaderboard(pr.stats.moments(TWO, "x", by="task", all_pairs=True), by="task", weight="w"),
            pr.errors.ArgumentError, "`weight` needs per-query values",
        ),
    ],
)  # fmt: skip
def test_errors(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call()


def test_runs_that_cannot_be_compared_are_not_told_apart():
    constant = table(a=[0.1] * 30, b=[0.2] * 30, c=np.arange(30) * 1.0)
    with pytest.warns(pr.errors.RankWarning) as warnings:
        board = pr.stats.leaderboard(constant)
    messages = " ".join(str(each.message) for each in warnings)
    assert "all values are equal in 2 rows" in messages
    assert "the difference of two runs is the same in all queries" in messages
    assert board.select("run", "rank_low", "rank_high", "letters", "low").rows()[1:] == [
        ("b", 2, 3, "b", None), ("a", 2, 3, "b", None),
    ]  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match="fewer than two queries"):
        board = pr.stats.leaderboard(constant.filter(query=3))
    assert board["rank_high"].to_list() == [3] * 3
    one = pl.concat([TWO, NEWS.filter(query=0).with_columns(task=pl.lit("one"))])
    with pytest.warns(pr.errors.RankWarning, match="fewer than two queries"):
        board = pr.stats.leaderboard(one, "x", by="task")
    assert board.select("low", "letters").rows() == [(None, "a")] * 2


def test_identical_runs_need_no_warning():
    values = table(a=np.arange(30) / 30, b=np.arange(30) / 30, c=np.sin(np.arange(30)) + 3)
    board = pr.stats.leaderboard(values)
    assert board.select("run", "rank", "letters").rows() == [
        ("c", 1, "a"),
        ("a", 2, "b"),
        ("b", 2, "b"),
    ]


@pytest.mark.parametrize("population", ["queries", "tasks"])
def test_tasks_of_one_run_are_an_error(population):
    with pytest.raises(pr.errors.DataError, match="only the run 'a'"):
        pr.stats.leaderboard(TWO.filter(run="a"), "x", by="task", population=population)


def test_a_task_without_a_value_is_not_zero():
    means = TWO.group_by("task", "run").agg(ap=pl.col("x").mean())
    known = (pl.col("task") != "law") | (pl.col("run") == "a")
    missing = means.with_columns(pl.when(known).then("ap").alias("ap"))
    options = {"by": "task", "population": "tasks"}
    with pytest.raises(
        pr.errors.DataError, match="a run has no value of the metric 'ap' in the task 'law'"
    ):
        pr.stats.leaderboard(missing, **options)
    with pytest.warns(pr.errors.RankWarning, match="no ranks from 3 tasks"):
        zero = pr.stats.leaderboard(missing, undefined="zero", **options)
        filled = pr.stats.leaderboard(missing.fill_null(0.0), **options)
    assert_frame_equal(zero, filled)
