"""Interleaving: rankings by definition, random draws, and results of clicks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import permutations
from math import comb
from typing import Literal

import polars as pl
import polars_rank as pr
import pytest
from benchmarks.clicks import clicked as clicked_by
from benchmarks.clicks import five_rankers, interleaved_pairs, rankers_of
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy import stats


Docs = list[list[int]]
Engine = Literal["in-memory", "streaming"]


def tables(queries: list[Docs]) -> list[pl.DataFrame]:
    """Return the tables of rankers: for each query the list of each of them."""
    return [
        pl.DataFrame(
            [
                (query, doc, -float(rank))
                for query, lists in enumerate(queries)
                for rank, doc in enumerate(lists[ranker])
            ],
            {"query": pl.Int64, "doc": pl.Int64, "score": pl.Float64},
            orient="row",
        )
        for ranker in range(len(queries[0]))
    ]


def some_lists(count: int, rankers: int, seed: int = 0, docs: int = 12) -> list[Docs]:
    draw = random.Random(seed)
    return [
        [draw.sample(range(docs), draw.randint(1, docs)) for _ in range(rankers)]
        for _ in range(count)
    ]


def drafts(docs: Docs, k: int) -> set[tuple[tuple[int, str], ...]]:
    """Return all lists that team draft may give: every order in every round."""
    actual = set()

    def go_on(shown: tuple[tuple[int, str], ...]) -> None:
        rest = [[d for d in each if d not in dict(shown)] for each in docs]
        if len(shown) >= k or not any(rest):
            actual.add(shown[:k])
            return
        for order in permutations(range(len(docs))):
            after = dict(shown)
            for team in order:
                best = next((d for d in docs[team] if d not in after), None)
                if best is not None:
                    after[best] = "abc"[team]
            go_on(tuple(after.items()))

    go_on(())
    return actual


@pytest.mark.parametrize("rankers", [2, 3])
def test_team_draft_follows_its_rounds(rankers: int) -> None:
    queries = some_lists(60, rankers, docs=5)
    lists = pr.clicks.team_draft(tables(queries), k=4, seed=3)
    for query, docs in enumerate(queries):
        rows = lists.filter(pl.col("query") == query).sort("position")
        assert rows["position"].to_list() == [*range(1, rows.height + 1)]
        assert tuple(rows.select("doc", "team").rows()) in drafts(docs, 4)


def test_team_draft_draws_all_orders_equally_often() -> None:
    # Nothing in common: the order of teams is that of the draws.
    queries = [[[1, 2], [3, 4], [5, 6]]] * 6000
    lists = pr.clicks.team_draft(tables(queries), k=6, seed=1)
    orders = lists.group_by("query").agg(pl.col("team").sort_by("position"))["team"].to_list()
    first, second = (Counter(tuple(order[at : at + 3]) for order in orders) for at in (0, 3))
    both = Counter(map(tuple, orders))
    assert len(first) == len(second) == 6
    assert len(both) == 36
    # 1000 of each are expected: 5 standard deviations of a binomial are 144.
    assert all(abs(count - 1000) < 144 for count in [*first.values(), *second.values()])


def balanced(docs: Docs, k: int, first: int) -> list[int]:
    """Return the list of Joachims (2003), pointer by pointer."""
    shown: list[int] = []
    at = [0, 0]
    while len(shown) < k and (at[0] < len(docs[0]) or at[1] < len(docs[1])):
        ahead = at[0] < at[1] or (at[0] == at[1] and first == 0)
        team = 0 if (ahead and at[0] < len(docs[0])) or at[1] >= len(docs[1]) else 1
        if docs[team][at[team]] not in shown:
            shown.append(docs[team][at[team]])
        at[team] += 1
    return shown


def test_balanced_interleaving_is_one_of_two_rankings() -> None:
    queries = some_lists(200, 2, seed=1)
    lists = pr.clicks.balanced_interleaving(*tables(queries), 7, seed=2)
    who = set()
    for query, docs in enumerate(queries):
        rows = lists.filter(pl.col("query") == query).sort("position")
        possible = [balanced(docs, 7, first) for first in (0, 1)]
        assert rows["doc"].to_list() in possible
        who |= {possible.index(rows["doc"].to_list())} if possible[0] != possible[1] else set()
        for ranker, name in enumerate(("rank_a", "rank_b")):
            places = {doc: rank for rank, doc in enumerate(docs[ranker][:7], 1)}
            assert rows[name].to_list() == [places.get(doc) for doc in rows["doc"]]
    assert who == {0, 1}


FUNCTIONS = [pr.clicks.team_draft, pr.clicks.balanced_interleaving]


@pytest.mark.parametrize("interleave", FUNCTIONS)
def test_draws_depend_on_seed_and_query_only(interleave: Callable[..., pl.DataFrame]) -> None:
    a, b = tables(some_lists(300, 2, seed=4))
    lists = interleave(a, b, 5, 1)
    assert_frame_equal(interleave(a, b, 5, 1), lists)
    assert not interleave(a, b, 5, 2).equals(lists)
    odd = pl.col("query") % 2 == 1
    some = interleave(a.filter(odd), b.filter(odd).sample(fraction=1, shuffle=True, seed=1), 5, 1)
    assert_frame_equal(some, lists.filter(odd))


def test_draws_are_stable() -> None:
    a, b = (pl.DataFrame({"query": range(12), "doc": doc, "score": 1.0}) for doc in "xy")
    first = pr.clicks.team_draft(a, b, 1, 0)["team"].to_list()
    assert "".join(first) == "bbbbababbbab"
    named = pr.clicks.team_draft({"old": a, "new": b}, k=1, seed=0)["team"].to_list()
    assert named == [{"a": "old", "b": "new"}[team] for team in first]


@pytest.mark.parametrize("interleave", FUNCTIONS)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy_ranked_and_several_keys(interleave: Callable[..., pl.DataFrame], engine: str) -> None:
    a, b = tables(some_lists(50, 2, seed=5))
    lists = interleave(a, b, 6)
    lazy = interleave(a.lazy(), b, 6)
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema() == lists.schema
    assert_frame_equal(lazy.collect(engine=engine), lists)
    assert_frame_equal(interleave([a, b], k=6), lists)
    ranked = [pr.rank(each.with_columns(label=0)).drop("score") for each in (a, b)]
    assert_frame_equal(interleave(*ranked, 6), lists)
    shown = [each.rename({"rank": "place"}) for each in ranked]
    assert_frame_equal(interleave(*shown, 6, position="place"), lists)
    keyed = [
        each.rename({"query": "text"}).with_columns(country=pl.lit("BR"), extra=1)
        for each in (a, b)
    ]
    names = interleave(*keyed, 6, query=["country", "text"])
    assert names.columns[:2] == ["country", "text"]
    assert names.height == lists.height


@pytest.mark.parametrize("interleave", FUNCTIONS)
def test_streams_without_falling_back_to_memory(interleave: Callable[..., pl.LazyFrame]) -> None:
    a, b = (each.lazy().set_sorted("query") for each in tables(some_lists(50, 2, seed=5)))
    nodes = interleave(a, b).show_graph(
        engine="streaming", plan_stage="physical", raw_output=True, show=False
    )
    assert "sorted-group-by" in nodes
    assert "in-memory-map" not in nodes


def test_a_false_sorted_flag_raises_an_error() -> None:
    a, b = tables(some_lists(50, 2, seed=5))
    mixed = a.sample(fraction=1, shuffle=True, seed=1).lazy().set_sorted("query")
    with pytest.raises(pr.errors.DataError, match="ranker 'a' are not sorted by query"):
        pr.clicks.team_draft(mixed, b).collect()


def test_unretrieved_documents_and_queries_of_one_ranker() -> None:
    a = pl.DataFrame({"query": [1, 1, 2], "doc": ["x", "y", "z"], "score": [1.0, None, 1.0]})
    b = pl.DataFrame({"query": [1], "doc": ["x"], "score": [1.0]})
    lists = pr.clicks.team_draft(a, b)
    assert lists.select("query", "doc").rows() == [(1, "x"), (2, "z")]
    assert lists["team"][1] == "a"
    empty = pr.clicks.team_draft(a.clear(), b.clear())
    assert empty.is_empty()
    assert empty.schema == lists.schema


def test_tied_scores_are_ordered_as_in_rank() -> None:
    a = pl.DataFrame({"query": 1, "doc": [3, 9, 5], "score": 1.0, "label": 0})
    lists = pr.clicks.team_draft(a, a)
    assert lists["doc"].to_list() == pr.rank(a).sort("rank")["doc"].to_list() == [9, 5, 3]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda a: pr.clicks.team_draft(a),
            pr.errors.ArgumentError,
            "two or more rankers: .* found 1",
        ),
        (lambda a: pr.clicks.team_draft([a]), pr.errors.ArgumentError, "two or more rankers"),
        (
            lambda a: pr.clicks.team_draft([a] * 27),
            pr.errors.ArgumentError,
            "27 rankers need names",
        ),
        (
            lambda a: pr.clicks.balanced_interleaving([a] * 3),
            pr.errors.ArgumentError,
            "two rankers; found 3",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a, 0),
            pr.errors.ArgumentError,
            "`k` must be a positive integer",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a, 3, "x"),
            pr.errors.ArgumentError,
            "`seed` must be an integer",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a, query=None),
            pr.errors.ArgumentError,
            "`query` must be the name of a column or several names; found None",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a, doc=None),
            pr.errors.ArgumentError,
            "`doc` must be the name of a column; found None",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a, query="doc"),
            pr.errors.ArgumentError,
            "column 'doc' is used for both `query` and `doc`",
        ),
        (
            lambda a: pr.clicks.team_draft({1: a, 2: a}),
            pr.errors.ArgumentError,
            "must have strings as names of rankers; found 1",
        ),
        (
            lambda a: pr.clicks.team_draft(*[a.with_columns(doc=pl.concat_list("doc"))] * 2),
            pr.errors.SchemaError,
            r"'doc' \(`doc`\) must have one id per row; found List",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a.drop("doc")),
            pr.errors.SchemaError,
            ".`doc`. not found; available in the table of the ranker 'b'",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a.drop("score")),
            pr.errors.SchemaError,
            "column 'score' .`score`. not found",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a.with_columns(score=float("nan"))),
            pr.errors.DataError,
            "NaN scores .*query = 1",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a.with_columns(query=pl.lit(None, dtype=pl.Int64))),
            pr.errors.DataError,
            "null query ids .*query = None.* drop these rows",
        ),
        (
            lambda a: pr.clicks.balanced_interleaving(
                a.with_columns(doc=pl.lit(None, pl.Int64)), a
            ),
            pr.errors.DataError,
            "null document ids .*query = 1",
        ),
        (
            lambda a: pr.clicks.team_draft(pl.concat([a, a]), a),
            pr.errors.DataError,
            "duplicate documents in a ranking .*query = 1",
        ),
        (
            lambda a: pr.clicks.team_draft(a, a.with_columns(score=pl.lit("10"))),
            pr.errors.SchemaError,
            r"'score' \(`score`\) must be numeric; found String; cast it",
        ),
        (
            lambda a: pr.clicks.team_draft(a.rename({"query": "team"}), a, query="team"),
            pr.errors.ArgumentError,
            "'team' .*has the name of a result column",
        ),
    ],
)
def test_invalid_rankings(
    call: Callable[[pl.DataFrame], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(pl.DataFrame({"query": [1], "doc": [1], "score": [1.0]}))


IDS = [
    ("query", pl.Int64, pl.String),
    ("doc", pl.Int64, pl.String),
    ("doc", pl.Categorical, pl.Int32),
    ("doc", pl.Float64, pl.Int64),
]


@pytest.mark.parametrize("interleave", FUNCTIONS)
@pytest.mark.parametrize(("column", "one", "other"), IDS)
def test_ids_of_incompatible_types(
    interleave: Callable[..., pl.DataFrame], column: str, one: pl.DataType, other: pl.DataType
) -> None:
    a, b = (
        pl.DataFrame({"query": [1], "doc": [1], "score": [1.0]})
        .cast({column: pl.String})
        .cast({column: dtype})
        for dtype in (one, other)
    )
    message = f"'{column}' is {a[column].dtype} .* ranker 'a' and {b[column].dtype} .* 'b'.* cast"
    for tables in ((a, b), (a.lazy(), b.lazy()), (a, b.lazy())):
        with pytest.raises(pr.errors.SchemaError, match=message):
            interleave(*tables)


@pytest.mark.parametrize("interleave", FUNCTIONS)
@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        (pl.Int64, pl.Int32, pl.Int64),
        (pl.UInt8, pl.Int64, pl.Int64),
        (pl.Categorical, pl.String, pl.String),
        (pl.Enum(["1", "2"]), pl.Categorical, pl.String),
        (pl.Categorical, pl.Categorical, pl.Categorical),
    ],
)
def test_ids_of_several_kinds_of_one_type(
    interleave: Callable[..., pl.DataFrame], one: pl.DataType, other: pl.DataType, both: pl.DataType
) -> None:
    ids = pl.DataFrame({"query": ["1", "1", "2"], "doc": ["1", "2", "1"], "score": [2.0, 1.0, 1.0]})
    plain = interleave(ids, ids[::-1], 2).cast({"query": both, "doc": both})
    a, b = (ids.cast({"query": dtype, "doc": dtype}) for dtype in (one, other))
    assert_frame_equal(interleave(a, b[::-1], 2), plain)


# -- What clicks say ------------------------------------------------------------------------------


def clicked(lists: list[str]) -> pl.DataFrame:
    """Return the log of lists of three documents of each team: "aab" has three clicks."""
    return pl.DataFrame(
        [
            (query, position, team, number < clicks.count(team))
            for query, clicks in enumerate(lists)
            for position, (team, number) in enumerate(
                ((team, number) for number in range(3) for team in "abc"), 1
            )
        ],
        ["query", "position", "team", "click"],
        orient="row",
    )


def test_result_by_hand() -> None:
    #  a over b in 5 of 8 lists, b over a in 1; of two lists one is tied and one has no click
    log = clicked(["a", "a", "aab", "a", "aa", "b", "ab", ""]).filter(pl.col("team") != "c")
    row = pr.clicks.interleaving_result(log).row(0, named=True)
    assert (row["team"], row["other"]) == ("a", "b")
    assert [row[name] for name in ("queries", "wins", "ties", "losses")] == [8, 5, 2, 1]
    assert row["delta"] == (5 + 2 / 2) / 8 - 1 / 2
    assert row["p_value"] == pytest.approx(2 * stats.norm.sf((5 - 1) / (5 + 1) ** 0.5))
    assert row["low"] < 0 < row["high"]


def decided(counts: list[tuple[int, int, int]]) -> pl.DataFrame:
    """Return a log of pairs of documents with, in each group, so many wins, losses and lists."""
    lists = [
        (group, query, query < wins, wins <= query < wins + losses)
        for group, (wins, losses, number) in enumerate(counts)
        for query in range(number)
    ]
    log = pl.DataFrame(lists, ["group", "query", "a", "b"], orient="row")
    return log.unpivot(
        ["a", "b"], index=["group", "query"], variable_name="team", value_name="click"
    )


def test_the_interval_agrees_with_the_peer() -> None:
    """Tango's interval by R's PropCIs: scoreci.mp(7, 1, 21) and scoreci.mp(25, 28, 618)."""
    actual = pr.clicks.interleaving_result(decided([(1, 7, 21)])).row(0, named=True)
    assert (2 * actual["low"], 2 * actual["high"]) == pytest.approx((-0.517, -0.026), abs=5e-4)
    actual = pr.clicks.interleaving_result(decided([(28, 25, 618)]), confidence=0.9).row(
        0, named=True
    )
    assert (2 * actual["low"], 2 * actual["high"]) == pytest.approx((-0.0148, 0.0247), abs=5e-5)


def test_the_interval_contains_the_difference_and_is_symmetric() -> None:
    for wins in range(11):
        counts = [(wins, 10 - wins, 15), (10 - wins, wins, 15), (wins, 10 - wins, 10)]
        one, other, all_decided = pr.clicks.interleaving_result(
            decided(counts), by="group"
        ).iter_rows(named=True)
        assert (one["low"], one["high"]) == pytest.approx((-other["high"], -other["low"]))
        for row in (one, all_decided):
            assert -0.5 <= row["low"] <= row["delta"] <= row["high"] <= 0.5
            assert row["low"] < row["high"]


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
def test_the_interval_keeps_its_level_if_one_ranker_always_wins(share: float) -> None:
    """Exact coverage over the number of decided lists; 0.48 to 0.53 if that is taken as known."""
    lists = 100
    actual = pr.clicks.interleaving_result(
        decided([(wins, 0, lists) for wins in range(lists + 1)]), by="group"
    )
    covered = actual.select(pl.lit(share / 2).is_between("low", "high")).to_series()
    chances = [
        comb(lists, wins) * share**wins * (1 - share) ** (lists - wins) for wins in range(lists + 1)
    ]
    assert sum(chance for chance, yes in zip(chances, covered, strict=True) if yes) > 0.93


def users(*results: str) -> pl.DataFrame:
    """Return a log with a ranking for each letter: the ranker that wins, or "." for a tie.

    Each argument is a user.
    """
    rankings = [(user, winner) for user, row in enumerate(results) for winner in row]
    return pl.DataFrame(
        [
            (user, query, team, team == winner)
            for query, (user, winner) in enumerate(rankings)
            for team in "ab"
        ],
        ["user", "query", "team", "click"],
        orient="row",
    )


FEW_CLUSTERS = pytest.mark.filterwarnings(
    "ignore:the effective sample size is:polars_rank.errors.RankWarning"
)


def test_clusters_by_hand() -> None:
    log = users("aaab", "a.", "bb", "a")
    with pytest.warns(pr.errors.RankWarning, match="sample size is 3.24, below 5, e.g. in"):
        row = pr.clicks.interleaving_result(log, cluster="user").row(0, named=True)
    assert [row[name] for name in ("queries", "wins", "ties", "losses")] == [9, 5, 1, 3]
    share, units = (5 - 3) / 9, 9**2 / (4**2 + 2**2 + 2**2 + 1**2)
    clusters = [(3 - 1, 4), (1, 2), (-2, 2), (1, 1)]
    squares = sum((won - share * size) ** 2 for won, size in clusters)
    square_error = units / (units - 1) * squares / 9**2
    assert (row["delta"], row["effective"]) == pytest.approx((share / 2, units))
    # Independent rankings with this standard error, and the share of those without a tie.
    rankings, decided = ((5 + 3) / 9 - share**2) / square_error, (5 + 3) / 9
    assert units < rankings < 9
    statistic = rankings**0.5 * share / decided**0.5
    assert row["p_value"] == pytest.approx(2 * stats.t.sf(statistic, units - 1))
    values = pl.DataFrame([
        {"query": query, "user": user, "run": team, "win": float(team == winner)}
        for query, (user, winner) in enumerate([*zip("0000112233"[:9], "aaaba.bba", strict=True)])
        for team in "ab"
    ])  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match="fewer than 5 degrees of freedom"):
        expected = pr.compare(values, baseline="b", cluster="user", correction=False)
    assert (2 * row["low"], 2 * row["high"]) == pytest.approx(expected.select("low", "high").row(0))


@FEW_CLUSTERS
def test_a_cluster_of_its_own() -> None:
    log = users("aaab", "a.", "bb", "a").with_columns(nobody=pl.lit(None, pl.Int64))
    alone = pr.clicks.interleaving_result(log, cluster="query")
    row = alone.row(0, named=True)
    assert row["effective"] == 9
    assert row["p_value"] == pytest.approx(2 * stats.t.sf((5 - 3) / (5 + 3) ** 0.5, 9 - 1))
    for cluster in ("nobody", ["user", "nobody"]):
        assert_frame_equal(pr.clicks.interleaving_result(log, cluster=cluster), alone)
    clustered = pr.clicks.interleaving_result(log, cluster="user")
    both = pr.clicks.interleaving_result(log, query=["user", "query"], cluster="user")
    assert_frame_equal(both, clustered)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@FEW_CLUSTERS
def test_clusters_of_groups_and_of_ranks(engine: Engine) -> None:
    log = pl.concat([
        users("aab", "ab", ".").with_columns(half=0), users("ba", "b", "b").with_columns(half=1)
    ])  # fmt: skip
    eager = pr.clicks.interleaving_result(log, by="half", cluster="user")
    lazy = pr.clicks.interleaving_result(log.lazy(), by="half", cluster="user")
    assert lazy.collect_schema() == eager.schema
    assert_frame_equal(lazy.collect(engine=engine), eager)
    for (half,), part in log.group_by("half"):
        alone = pr.clicks.interleaving_result(part, cluster="user")
        assert_frame_equal(eager.filter(half=half).drop("half"), alone)
    # A click at the first rank of a ranker is a win for it.
    ranked = log.with_columns(
        position=pl.int_range(1, pl.len() + 1).over("half", "query"),
        rank_a=pl.when(team="a").then(1).otherwise(2),
        rank_b=pl.when(team="b").then(1).otherwise(2),
    )
    ranks = {"a": "rank_a", "b": "rank_b"}
    actual = pr.clicks.interleaving_result(ranked, by="half", cluster="user", ranks=ranks)
    assert_frame_equal(actual, eager)


@FEW_CLUSTERS
def test_clusters_that_are_equal_or_alone() -> None:
    names = ["delta", "low", "high", "p_value", "effective"]
    row = pr.clicks.interleaving_result(users("aa", "a"), cluster="user").row(0, named=True)
    assert (row["delta"], row["high"]) == (0.5, 0.5)
    assert row["p_value"] == pytest.approx(2 * stats.t.sf(1.8**0.5, 1.8 - 1))
    row = pr.clicks.interleaving_result(users("ab", "."), cluster="user").row(0, named=True)
    assert (row["delta"], row["p_value"], -row["low"]) == (0, 1, pytest.approx(row["high"]))
    alone = pr.clicks.interleaving_result(users("aab"), cluster="user")
    assert alone.select(names).row(0)[1:] == (None, None, None, 1)


def test_errors_of_clusters() -> None:
    log = users("ab").with_columns(row=pl.int_range(pl.len()), effective=1)
    with pytest.raises(pr.errors.DataError, match="several clusters in a ranking .*`cluster`"):
        pr.clicks.interleaving_result(log, cluster="row")
    with pytest.raises(pr.errors.SchemaError, match="column 'who' .`cluster`. not found"):
        pr.clicks.interleaving_result(log, cluster="who")
    with pytest.raises(pr.errors.ArgumentError, match="'effective' .*name of a result column"):
        pr.clicks.interleaving_result(log, cluster="user", by="effective")


def test_clusters_keep_the_level() -> None:
    """40 sessions of 50 queries that differ: 0.45 of the intervals without clusters."""
    draw = random.Random(5)
    logs = []
    for log in range(40):
        preferences = [draw.betavariate(0.5, 0.5) for _ in range(50)]
        results = [
            "".join("a" if draw.random() < p else "b" for _ in range(40)) for p in preferences
        ]
        logs.append(users(*results).with_columns(log=log))
    rows = pl.concat(logs)
    covered = {
        cluster: pr.clicks.interleaving_result(rows, by="log", cluster=cluster)
        .select(pl.lit(0.0).is_between("low", "high").mean())
        .item()
        for cluster in (None, "user")
    }
    assert covered[None] < 0.7
    assert covered["user"] > 0.87


def test_several_rankers_groups_and_advertisements() -> None:
    log = clicked(["a", "ab", "c", "cc", "b", ""]).with_columns(half=pl.col("query") % 2)
    actual = pr.clicks.interleaving_result(log, by="half")
    assert actual.select("half", "team", "other", "wins", "ties", "losses").rows() == [
        (0, "a", "b", 1, 1, 1),  # "a", "c", "b"
        (0, "a", "c", 1, 1, 1),
        (0, "b", "c", 1, 1, 1),
        (1, "a", "b", 0, 3, 0),  # "ab", "cc", ""
        (1, "a", "c", 1, 1, 1),
        (1, "b", "c", 1, 1, 1),
    ]
    nobody = pl.when(pl.col("team") != "c").then("team").alias("team")
    alone = pr.clicks.interleaving_result(log.with_columns(nobody))
    assert alone.select("team", "other", "wins", "ties", "losses").rows() == [("a", "b", 1, 4, 1)]
    enum = log.with_columns(pl.col("team").cast(pl.Enum(["c", "b", "a"])))
    assert_frame_equal(pr.clicks.interleaving_result(enum, by="half"), actual)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy_result(engine: str) -> None:
    log = clicked(["a", "ab", "c", "cc", "b", ""])
    lazy = pr.clicks.interleaving_result(log.lazy())
    eager = pr.clicks.interleaving_result(log)
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect_schema() == eager.schema
    assert_frame_equal(lazy.collect(engine=engine), eager)


def test_nobody_wins() -> None:
    row = pr.clicks.interleaving_result(clicked(["", ""])).row(0, named=True)
    assert (row["delta"], row["p_value"]) == (0.0, 1.0)
    width = 1.959963984540054**2 / (2 + 1.959963984540054**2) / 2
    assert (row["low"], row["high"]) == pytest.approx((-width, width))


ONE_TEAM = [
    (pl.lit("a"), None, "only documents of the team 'a'"),
    (pl.lit(None, pl.String), None, "the log has no documents of a team"),
    (
        pl.when(half=0).then("team"),
        "half",
        r"no documents of a team in the group \{'half': 1\} \(1 such group\)",
    ),
    (pl.when(half=0).then("team").otherwise(pl.lit("b")), "half", r"'b' in the group \{'half': 1"),
]


@pytest.mark.parametrize(("team", "by", "message"), ONE_TEAM)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_one_team_has_no_opponent(
    team: pl.Expr, by: str | None, message: str, engine: Engine
) -> None:
    log = clicked(["a", "ab", "c", ""]).with_columns(half=pl.col("query") % 2)
    log = log.with_columns(team=team)
    with pytest.raises(pr.errors.DataError, match=message):
        pr.clicks.interleaving_result(log, by=by)
    with pytest.raises(pr.errors.DataError, match=message):
        pr.clicks.interleaving_result(log.lazy(), by=by).collect(engine=engine)


def test_ranks_of_one_ranker_have_no_opponent() -> None:
    ranks = {"a": "rank_a", "b": "rank_b"}
    log = pl.DataFrame({
        "query": [1, 2], "position": 1, "click": 1, "half": [0, 1],
        "rank_a": [1, 2], "rank_b": [None, 1],
    })  # fmt: skip
    # The first list is one that b does not know.
    assert pr.clicks.interleaving_result(log, ranks=ranks).row(0, named=True)["queries"] == 2
    with pytest.raises(
        pr.errors.DataError, match="only documents of the team 'a' in the group {'half': 0}"
    ):
        pr.clicks.interleaving_result(log, ranks=ranks, by="half")
    for column in ("position", "rank_b"):
        with pytest.raises(
            pr.errors.SchemaError, match=f"'{column}' .* must be numeric; found String"
        ):
            pr.clicks.interleaving_result(log.cast({column: pl.String}), ranks=ranks)


def test_rankings_of_one_team_and_logs_without_teams() -> None:
    log = clicked(["a", "b"])
    one_each = log.filter(pl.col("team") == pl.col("query").replace_strict({0: "a", 1: "b"}))
    row = pr.clicks.interleaving_result(one_each).row(0, named=True)
    assert (row["wins"], row["losses"]) == (1, 1)
    assert pr.clicks.interleaving_result(log.clear()).is_empty()
    assert pr.clicks.interleaving_result(log.clear(), by="position").is_empty()


def test_balanced_credit_by_hand() -> None:
    # Lists a: x y z, b: y w x; shown x y w. The lowest click, w, is at rank 2 of b: of x and w,
    # a has x among its first two, b has w.
    ranks = {"a": "rank_a", "b": "rank_b"}
    log = pl.DataFrame(
        {
            "query": [1, 1, 1, 2, 2, 2, 3, 3, 3],
            "position": [1, 2, 3] * 3,
            "rank_a": [1, 2, None] * 3,
            "rank_b": [3, 1, 2] * 3,
            "click": [1, 0, 1, 1, 0, 0, 0, 1, 1],
        }
    )
    actual = pr.clicks.interleaving_result(log, ranks=ranks)
    # 1: a has x, b has w, a tie; 2: x is at rank 1 of a, which wins; 3: y is at rank 1 of b, but
    # the lowest click is w, at rank 2: a has y, b has y and w.
    assert actual.select("team", "other", "wins", "ties", "losses").rows() == [("a", "b", 1, 1, 1)]


@given(seed=st.integers(0, 9999))
def test_swapping_rankers_reverses_the_result(seed: int) -> None:
    a, b = tables(some_lists(20, 2, seed=seed))
    lists = pr.clicks.team_draft(a, b, 5, seed).with_columns(click=pl.col("doc") % 3 == 0)
    swap = {"a": "b", "b": "a"}
    one = pr.clicks.interleaving_result(lists).row(0, named=True)
    other = pr.clicks.interleaving_result(
        lists.with_columns(pl.col("team").replace_strict(swap))
    ).row(0, named=True)
    assert (one["wins"], one["losses"], one["p_value"]) == (
        other["losses"],
        other["wins"],
        other["p_value"],
    )
    assert one["delta"] == pytest.approx(-other["delta"])


def test_errors_of_results() -> None:
    log = clicked(["a"])
    with pytest.raises(pr.errors.SchemaError, match="column 'who' .`team`. not found"):
        pr.clicks.interleaving_result(log, team="who")
    for ranks, message in (
        ({"a": "position"}, "`ranks` must map the names of two rankers"),
        (["a", "b"], r"`ranks` must be a mapping or None; found \['a', 'b'\]"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.clicks.interleaving_result(log, ranks=ranks)  # type: ignore[arg-type]
    for options, message in (
        ({"query": []}, "`query` must name at least one column"),
        ({"query": None}, "`query` must be the name of a column or several names"),
        ({"by": "query"}, "'query' is used for both `by` and `query`"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.clicks.interleaving_result(log, **options)
    with pytest.raises(pr.errors.SchemaError, match="column 'place' .`position`. not found"):
        pr.clicks.interleaving_result(log, position="place")
    with pytest.raises(pr.errors.SchemaError, match="'team' .*must have one id per row"):
        pr.clicks.interleaving_result(log.with_columns(pl.concat_list("team")))
    with pytest.raises(
        pr.errors.ArgumentError, match="`confidence` must be a number between 0 and 1"
    ):
        pr.clicks.interleaving_result(log, confidence=95)
    with pytest.raises(
        pr.errors.SchemaError, match="'click' .*must be numeric; found String; cast it"
    ):
        pr.clicks.interleaving_result(log.with_columns(click=pl.lit("yes")))
    log = log.with_columns(rank_a="position", rank_b="query")
    unknown = pl.when(pl.col("position") > 1).then("query").alias("query")
    for options in ({}, {"ranks": {"a": "rank_a", "b": "rank_b"}}):
        with pytest.raises(pr.errors.DataError, match="null query ids .*drop these rows"):
            pr.clicks.interleaving_result(log.with_columns(unknown), **options)
    for odd in (-1.0, float("nan"), 0.5, float("inf")):
        for options in ({}, {"ranks": {"a": "rank_a", "b": "rank_b"}}):
            with pytest.raises(pr.errors.DataError, match="NaN, negative or fractional clicks"):
                pr.clicks.interleaving_result(log.with_columns(click=odd), **options)
    several = pl.concat([log, log])  # of one query, as two users saw them
    for options in ({}, {"ranks": {"a": "rank_a", "b": "rank_b"}}):
        with pytest.raises(pr.errors.DataError, match="duplicate positions in a ranking .*query="):
            pr.clicks.interleaving_result(several, **options)
    with pytest.raises(pr.errors.ArgumentError, match="'wins' .*has the name of a result column"):
        pr.clicks.interleaving_result(log.with_columns(wins=1), by="wins")


# -- With known truth -----------------------------------------------------------------------------


def test_recovers_the_order_of_five_rankers() -> None:
    rankers = five_rankers(1500, 0)
    for name in ("ndcg@10", "delta"):
        assert rankers[name].is_sorted()
    pairs = interleaved_pairs(1500, 0)
    assert (pairs["high"] < 0).all()
    assert (pairs["p_value"] < 0.01).all()


@pytest.mark.parametrize("interleave", FUNCTIONS)
def test_clicks_on_positions_alone_prefer_nobody(interleave: Callable[..., pl.DataFrame]) -> None:
    rankers, documents = rankers_of(3000, 5)
    alike = documents.with_columns(label=0.5)
    lists = interleave(rankers["r1"], rankers["r5"], 10, 5)
    ranks = {"a": "rank_a", "b": "rank_b"} if "rank_a" in lists.columns else None
    row = pr.clicks.interleaving_result(clicked_by(lists, alike, 5), ranks=ranks).row(0, named=True)
    # Of as many coins as lists are not tied, 3 standard deviations.
    decided = row["wins"] + row["losses"]
    assert abs(row["wins"] - decided / 2) < 3 * (decided / 4) ** 0.5
