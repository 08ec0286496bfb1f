"""Rank-biased overlap with ties: all orders, plain Python, worked examples, published values."""

from __future__ import annotations

from itertools import permutations, product
from statistics import mean
from typing import Any

import oracles
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

#: A ranking: groups of tied documents, the best first.
Ranking = tuple[str, ...]
TREATMENTS = ("w", "a", "b")


def run(*rankings: Ranking) -> pl.DataFrame:
    """Return the table of the rankings of queries 0, 1, ..."""
    rows = [
        (query, doc, -place / 2)
        for query, ranking in enumerate(rankings)
        for place, docs in enumerate(ranking)
        for doc in docs
    ]
    return pl.DataFrame(
        rows, schema={"query": pl.Int64, "doc": pl.String, "score": pl.Float64}, orient="row"
    )


def rbo(left: Ranking, right: Ranking, p: float, ties: Any) -> float:
    return pr.diagnostics.overlap(run(left), run(right), "rbo", p=p, ties=ties)["rbo"].item()


def orders(ranking: Ranking) -> list[str]:
    return ["".join(parts) for parts in product(*(map("".join, permutations(g)) for g in ranking))]


def plain(left: Ranking, right: Ranking, p: float, ties: str) -> float:
    """Return RBO from the contribution of each document at each depth (Corsi and Urbano, 2024)."""
    short, long = sorted([left, right], key=lambda ranking: len("".join(ranking)))
    s, n = len("".join(short)), len("".join(long))

    def contribution(ranking: Ranking, doc: str, depth: int) -> float:
        above = 0
        for docs in ranking:
            if doc in docs:
                share = (depth - above) / len(docs)
                return float(depth > above) if ties == "w" else min(max(share, 0), 1)
            above += len(docs)
        return 0.0

    docs = {*"".join(left), *"".join(right)}

    def agreement(depth: int, at_short: float = 0.0) -> float:
        of_short = {doc: contribution(short, doc, depth) for doc in docs}
        of_long = {doc: contribution(long, doc, depth) for doc in docs}
        total = sum(of_short[doc] * of_long[doc] for doc in docs)
        missing = max(0, depth - s)
        if missing:
            only = [of_long[d] for d in docs if not of_short[d] and of_long[d]]
            total += missing * at_short * mean(only)
        if ties == "w":
            return 2 * total / (sum(of_short.values()) + missing + sum(of_long.values()))
        if ties == "a":
            return total / depth
        squares = sum(c**2 for c in of_short.values()) + missing
        return total / (squares * sum(c**2 for c in of_long.values())) ** 0.5

    at_short = agreement(s)
    known = sum(p ** (depth - 1) * agreement(depth, at_short) for depth in range(1, n + 1))
    both = len({*"".join(left)} & {*"".join(right)})
    return (1 - p) * known + p**n * (both + (n - s) * at_short) / n


@st.composite
def rankings(draw: st.DrawFn, docs: str = "abcdefg") -> Ranking:
    order = draw(st.permutations(docs))[: draw(st.integers(1, 6))]
    ends = sorted(draw(st.sets(st.integers(1, len(order)))) | {len(order)})
    return tuple("".join(order[a:b]) for a, b in zip([0, *ends], ends, strict=False))


@settings(max_examples=12)
@given(st.lists(st.tuples(rankings(), rankings()), min_size=8, max_size=8), st.floats(0.2, 0.95))
def test_plain_python(pairs: list[tuple[Ranking, Ranking]], p: float) -> None:
    left, right = (run(*side) for side in zip(*pairs, strict=True))
    for ties in TREATMENTS:
        ours = pr.diagnostics.overlap(left, right, "rbo", p=p, ties=ties)["rbo"].to_list()
        assert ours == pytest.approx([plain(*pair, p, ties) for pair in pairs], abs=1e-12)
        assert all(0 <= each <= 1 for each in ours)
        other = pr.diagnostics.overlap(right, left, "rbo", p=p, ties=ties)["rbo"].to_list()
        assert other == pytest.approx(ours, abs=1e-12)
    for ties, value in (("w", 1), ("b", 1)):
        same = pr.diagnostics.overlap(left, left, "rbo", p=p, ties=ties)["rbo"].to_list()
        assert same == pytest.approx([value] * len(pairs))


@pytest.mark.parametrize(
    ("left", "right"),
    [(("ab", "c"), ("c", "ab")), (("a", "bcd"), ("cd", "ab")), (("abc",), ("c", "ef"))],
)
def test_unknown_order_is_the_mean_over_all_orders(left: Ranking, right: Ranking) -> None:
    pairs = [*product(orders(left), orders(right))]
    expected = mean(oracles.rbo(*pair, 0.8) for pair in pairs)
    assert rbo(left, right, 0.8, "a") == pytest.approx(expected)


def test_worked_examples() -> None:
    left, right = ("ab", "c"), ("c", "ab")
    # "w": the first d documents are ab, ab, abc and c, abc, abc; "a" and "b": the contributions of
    # a, b, c are (.5 .5 0), (1 1 0), (1 1 1) and (0 0 1), (.5 .5 1), (1 1 1).
    agreements = {
        "w": [2 * 0 / (2 + 1), 2 * 2 / (2 + 3), 1],
        "a": [0, (0.5 + 0.5) / 2, 1],
        "b": [0, (0.5 + 0.5) / (2 * 1.5) ** 0.5, 1],
    }
    for ties, (first, second, third) in agreements.items():
        expected = 0.2 * (first + 0.8 * second + 0.8**2 * third) + 0.8**3
        assert rbo(left, right, 0.8, ties) == pytest.approx(expected)
    # The order by id is the same in both runs: b, a for all documents tied, so that RBO is 1.
    tied = [rbo(("ab",), ("ab",), 0.8, ties) for ties in ("doc", "w", "a", "b")]
    assert tied == pytest.approx([1, 1, 1 - 0.2 / 2, 1])


def test_published_implementation() -> None:
    """Values of rbo.py of the authors."""
    left, right = ("a", "bc", "d"), ("bae", "c", "f", "dg")
    expected = {"w": 0.7923479313186812, "a": 0.7574638511904762, "b": 0.8025838097389028}
    assert {t: rbo(left, right, 0.9, t) for t in TREATMENTS} == pytest.approx(expected, abs=1e-12)
    left, right = ("ab", "c"), ("c", "abd")
    expected = {"w": 0.7100952380952382, "a": 0.6364444444444445, "b": 0.6750905050183966}
    assert {t: rbo(left, right, 0.8, t) for t in TREATMENTS} == pytest.approx(expected, abs=1e-12)


def test_without_ties_all_values_are_those_of_an_order() -> None:
    left, right = run(tuple("abcd"), tuple("ab")), run(tuple("caf"), tuple("xyabz"))
    expected = pr.diagnostics.overlap(left, right, "rbo")
    for ties in TREATMENTS:
        assert_frame_equal(pr.diagnostics.overlap(left, right, "rbo", ties=ties), expected)


def test_queries_of_one_run_scores_of_equal_value_and_lazy_tables() -> None:
    left = pl.DataFrame(
        {
            "query": [1, 1, 1, 2, 3, 4],
            "doc": ["a", "b", "c", "a", "a", "a"],
            "score": [0.0, -0.0, None, 1.0, None, None],
        }
    )
    right = left.filter(pl.col("query") != 2).with_columns(pl.col("score").fill_null(1.0))
    right = right.filter(pl.col("query") != 4)
    for ties in TREATMENTS:
        result = pr.diagnostics.overlap(left, right, "rbo", ties=ties, p=0.5)
        lazy = pr.diagnostics.overlap(left.lazy(), right.lazy(), "rbo", ties=ties, p=0.5)
        assert_frame_equal(lazy.collect(engine="streaming"), result)
        expected = plain(("ab",), ("c", "ab"), 0.5, ties)
        assert result["rbo"].to_list() == [pytest.approx(expected), 0.0, 0.0, None]


def test_invalid_ties() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="`ties` must be one of .*'w', 'a', 'b'"):
        pr.diagnostics.overlap(run(("a",)), run(("a",)), "rbo", ties="c")
    with pytest.raises(pr.errors.ArgumentError, match="`ties` must be one of"):
        pr.diagnostics.overlap(run(("a",)), run(("a",)), ["rbo", "overlap"], ties="a")
