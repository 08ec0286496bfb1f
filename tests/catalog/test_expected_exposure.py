"""`expected_exposure`, compared with the formulas of the paper."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import permutations
from statistics import fmean

import polars as pl
import polars_rank as pr
import pytest
from catalog.plain import tops
from strategies import assert_close, log_of, random_lists, shuffled


def measures(
    lists: list[list[int]], documents: list[int], relevant: set[int], discount, k: int
) -> tuple[float, float, float]:
    """The mean exposure over rankings, and over all rankings of the ideal policy."""

    def mean(rankings: list[list[int]]) -> dict[int, float]:
        return {
            doc: fmean(
                discount(docs.index(doc) + 1) if doc in docs[:k] else 0.0 for docs in rankings
            )
            for doc in documents
        }

    others = [doc for doc in documents if doc not in relevant]
    both = ([*map(list, permutations(part))] for part in (sorted(relevant), others))
    firsts, lasts = both
    e, ideal = mean(lists), mean([first + last for first in firsts for last in lasts])
    return (
        math.fsum((e[doc] - ideal[doc]) ** 2 for doc in documents),
        math.fsum(e[doc] ** 2 for doc in documents),
        math.fsum(e[doc] * ideal[doc] for doc in documents),
    )


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("k", [2, None])
def test_against_all_rankings_of_the_ideal_policy(engine: str, k: int | None) -> None:
    lists = {query: docs[:6] for query, docs in random_lists(seed=11, queries=25).items()}
    log = log_of(lists).with_columns(sample=pl.lit(0))
    again = log.with_columns(sample=1, score=-pl.col("score"))
    both = pl.concat([log, again.filter(pl.col("doc") % 5 != 0)]).select(
        "query", "sample", "doc", "score", "label"
    )
    actual = pr.catalog.expected_exposure(
        both.lazy(), k, sample="sample", discount=lambda rank: 0.5 ** (rank - 1)
    ).collect(engine=engine)
    rankings = defaultdict(list)
    for (_,), part in both.group_by("sample", maintain_order=True):
        for query, docs in tops(part).items():
            rankings[query].append(docs)
    rows = []
    for query, part in both.group_by("query", maintain_order=True):
        documents = part["doc"].unique().to_list()
        relevant = {*part.filter(pl.col("label") >= 1)["doc"]}
        values = measures(
            rankings[query[0]], documents, relevant, lambda rank: 0.5 ** (rank - 1), k or 99
        )
        rows.append((*query, *values))
    expected = pl.DataFrame(rows, ["query", "ee_l", "ee_d", "ee_r"], orient="row").sort("query")
    assert_close(actual, expected)


def test_runs_and_one_ranking() -> None:
    log = log_of(random_lists(seed=12)).with_columns(run=pl.col("query") % 2)
    actual = pr.catalog.expected_exposure(shuffled(log), 3, by="run")
    for run in (0, 1):
        alone = pr.catalog.expected_exposure(log.filter(run=run).drop("run"), 3)
        assert_close(actual.filter(run=run).drop("run"), alone)
    perfect = pl.DataFrame({"query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": [1, 0]})
    assert pr.catalog.expected_exposure(perfect)["ee_l"].to_list() == [0.0]
    counted = pr.catalog.expected_exposure(perfect, 1, discount=None)
    assert counted.rows() == [(1, 0.0, 1.0, 1.0)]
    empty = pl.DataFrame({"query": [1], "doc": [None], "score": [None], "label": [None]})
    assert pr.catalog.expected_exposure(empty).rows() == [(1, 0.0, 0.0, 0.0)]


def test_invalid_input() -> None:
    log = pl.DataFrame({"query": 1, "doc": [1, 1], "score": [2.0, 1.0], "label": [1, 0]})
    with pytest.raises(pr.errors.DataError, match="more than once in a ranking"):
        pr.catalog.expected_exposure(log)
    with pytest.raises(
        pr.errors.ArgumentError, match="'query' is used for both `query` and `sample`"
    ):
        pr.catalog.expected_exposure(log, sample="query")
    with pytest.raises(pr.errors.SchemaError, match="'draw' .`sample`. not found"):
        pr.catalog.expected_exposure(log, sample="draw")
    with pytest.raises(pr.errors.ArgumentError, match="`discount` must be 'log2', 'log'"):
        pr.catalog.expected_exposure(log, discount="none")
