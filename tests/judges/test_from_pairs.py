"""Labels from pairwise verdicts: closed forms, statsmodels, the ridge, orders of display, errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal


def table(verdicts: Sequence[tuple[Any, ...]]) -> pl.DataFrame:
    """Return the verdicts: query, first, second and winner."""
    return pl.DataFrame(verdicts, ["query", "first", "second", "winner"], orient="row")


def of_wins(wins: int, losses: int, ties: int = 0, query: int = 1) -> list[tuple[Any, ...]]:
    """Return verdicts about a and b."""
    return [
        *[(query, "a", "b", "a")] * wins, *[(query, "b", "a", "b")] * losses,
        *[(query, "a", "b", None)] * ties,
    ]  # fmt: skip


def test_two_documents_have_the_log_odds() -> None:
    """Queries have their own labels; a tie is half a win of each document."""
    result = pr.judges.from_pairs(table([*of_wins(3, 1), *of_wins(5, 2, 4, query=2)]))
    schema = ["query", "doc", "label", "std_error", "verdicts", "ridge", "flipped", "first_share"]
    assert result.columns == schema
    assert result.select("query", "doc", "verdicts", "ridge").rows() == [
        (1, "a", 4, 0.0), (1, "b", 4, 0.0), (2, "a", 11, 0.0), (2, "b", 11, 0.0),
    ]  # fmt: skip
    one, two = math.log(3 / 1) / 2, math.log((5 + 2) / (2 + 2)) / 2
    assert result["label"].to_list() == pytest.approx([one, -one, two, -two], abs=1e-12)
    # The variance of log odds is 1 / wins + 1 / losses; a label is half of them.
    first, second = math.sqrt(1 / 3 + 1) / 2, math.sqrt(1 / 7 + 1 / 4) / 2
    errors = [first, first, second, second]
    assert result["std_error"].to_list() == pytest.approx(errors, rel=1e-9)


def random_verdicts(docs: int, number: int, seed: int) -> list[tuple[int, int, int]]:
    random = np.random.default_rng(seed)
    strength = random.normal(0, 1, docs)
    verdicts = []
    for _ in range(number):
        a, b = random.choice(docs, 2, replace=False)
        won = random.random() < 1 / (1 + np.exp(strength[b] - strength[a]))
        verdicts.append((int(a), int(b), int(a if won else b)))
    return verdicts


def test_statsmodels() -> None:
    statsmodels = needs.package("statsmodels.api", "test")
    sizes = {1: (4, 90), 2: (7, 300), 3: (4, 80)}
    verdicts = {query: random_verdicts(*size, seed=query) for query, size in sizes.items()}
    pairs = table([(query, *each) for query, some in verdicts.items() for each in some])
    result = pr.judges.from_pairs(pairs.sample(fraction=1, shuffle=True, seed=1))
    for query, (docs, _) in sizes.items():
        # The label of the last document is minus the sum of the others.
        signs = np.eye(docs)[:, :-1] - np.eye(docs)[:, -1:]
        signs[-1] = -1
        of_docs = np.vstack([np.eye(docs - 1), -np.ones(docs - 1)])
        design = np.array(
            [of_docs[first] - of_docs[second] for first, second, _ in verdicts[query]]
        )
        won = [first == winner for first, _, winner in verdicts[query]]
        fit = statsmodels.GLM(won, design, family=statsmodels.families.Binomial()).fit(tol=1e-14)
        ours = result.filter(query=query)
        assert ours["ridge"].to_list() == [0.0] * docs
        assert ours["label"].to_numpy() == pytest.approx(of_docs @ fit.params, abs=1e-9)
        errors = np.sqrt(np.diag(of_docs @ fit.cov_params() @ of_docs.T))
        assert ours["std_error"].to_numpy() == pytest.approx(errors, rel=1e-7)


def test_ridge_where_no_maximum_exists() -> None:
    """The labels ±θ of two documents solve 3 / (1 + e^2θ) = 0.01 θ."""
    result = pr.judges.from_pairs(table([*of_wins(3, 0), *of_wins(1, 1, query=2)]))
    assert result["ridge"].to_list() == [0.01, 0.01, 0.0, 0.0]
    label, other, *_ = result["label"].to_list()
    assert label == -other > 0
    assert 3 / (1 + math.exp(2 * label)) == pytest.approx(0.01 * label, rel=1e-9)
    # The information of 2θ is 3p(1 - p) + 0.01 / 2, and θ has a quarter of the variance.
    share = 1 / (1 + math.exp(-2 * label))
    error = math.sqrt(1 / (3 * share * (1 - share) + 0.005)) / 2
    assert result["std_error"][0] == pytest.approx(error, rel=1e-9)


def test_many_verdicts_and_long_chains_converge() -> None:
    chain = [(1, i, i + 1, i if j else i + 1) for i in range(50) for j in range(1001)]
    result = pr.judges.from_pairs(table(chain))
    steps = -result["label"].diff().drop_nulls().to_numpy()
    assert steps == pytest.approx(np.full(50, math.log(1000)), abs=1e-10)
    ordered = [(1, i, j, i) for i in range(30) for j in range(i + 1, 30)]
    result = pr.judges.from_pairs(table(ordered))
    assert result["label"].is_sorted(descending=True)
    assert result["label"].to_numpy() == pytest.approx(-result["label"].to_numpy()[::-1], abs=1e-9)


def test_flips_and_positions() -> None:
    verdicts = [
        # Shown in both orders: the first wins both times; the winner is the same; a tie and a win.
        ("a", "b", "a"), ("b", "a", "b"),
        ("a", "c", "c"), ("c", "a", "c"),
        ("b", "c", None), ("c", "b", "b"),
        # In one order only.
        ("a", "d", "d"),
        # Twice in one order, with different winners.
        ("c", "d", "c"), ("c", "d", "d"), ("d", "c", "c"),
    ]  # fmt: skip
    result = pr.judges.from_pairs(table([(1, *each) for each in verdicts]))
    flipped, of_first = (1 + 0 + 1 + 0.5) / 4, (1 + 0.5 + (0.5 + 0) / 2 + (0.5 + 0) / 2) / 4
    assert result.select("flipped", "first_share").unique().row(0) == pytest.approx(
        (flipped, of_first)
    )
    alone = pr.judges.from_pairs(table(of_wins(3, 0)))
    assert alone.select("flipped", "first_share").unique().rows() == [(None, None)]


DOCS = st.integers(0, 4)
VERDICTS = st.lists(
    st.tuples(st.integers(1, 3), DOCS, DOCS, st.sampled_from([0, 1, None])), min_size=1, max_size=30
)


@settings(deadline=None, max_examples=30)
@given(verdicts=VERDICTS, seed=st.integers(0, 9))
def test_orders_of_rows_and_of_documents(verdicts: list[tuple[Any, ...]], seed: int) -> None:
    rows = [(q, a, b, (a, b)[w] if w is not None else None) for q, a, b, w in verdicts if a != b]
    # Document 9 connects all documents.
    rows += [(q, each, 9, w) for q in (1, 2, 3) for each in range(5) for w in (each, 9)]
    pairs = table(rows)
    result = pr.judges.from_pairs(pairs)
    assert_frame_equal(
        result, pr.judges.from_pairs(pairs.sample(fraction=1, shuffle=True, seed=seed))
    )
    means = result.group_by("query").agg(pl.col("label").mean())
    assert means["label"].to_list() == pytest.approx([0, 0, 0], abs=1e-12)
    swapped = pr.judges.from_pairs(pairs.rename({"first": "second", "second": "first"}))
    columns = ["query", "doc", "label", "std_error", "flipped"]
    assert_frame_equal(result.select(columns), swapped.select(columns))
    lost = pl.when(pl.col("winner") == pl.col("first")).then("second").otherwise("first")
    opposite = pairs.with_columns(winner=pl.when(pl.col("winner").is_not_null()).then(lost))
    negative = result.select("query", "doc", -pl.col("label"), "std_error")
    ours = pr.judges.from_pairs(opposite).select(negative.columns)
    assert_frame_equal(ours, negative, abs_tol=1e-9)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_groups_names_and_types(engine: Any) -> None:
    pairs = table([*of_wins(3, 1), *of_wins(1, 2, query=2)])
    names = {"query": "q", "first": "left", "second": "right", "winner": "better"}
    renamed = pl.concat([
        pairs.rename(names).with_columns(judge=pl.lit(judge)).cast({"left": pl.Categorical})
        for judge in ("llm", None)
    ])  # fmt: skip
    result = pr.judges.from_pairs(renamed.lazy(), by="judge", **names).collect(engine=engine)
    alone = pr.judges.from_pairs(pairs).rename({"query": "q"})
    assert result.columns == ["judge", *alone.columns]
    for judge in ("llm", None):
        ours = result.filter(pl.col("judge").eq_missing(pl.lit(judge))).drop("judge")
        assert_frame_equal(ours, alone)
    assert result["judge"].to_list() == [None] * 4 + ["llm"] * 4
    empty = pr.judges.from_pairs(pairs.clear())
    assert_frame_equal(empty, alone.rename({"q": "query"}).clear())


def test_labels_of_a_run() -> None:
    """Labels can be joined, and values of queries summarized."""
    labels = pr.judges.from_pairs(table([*of_wins(3, 1), *of_wins(3, 0, query=2)]))
    judgments = labels.with_columns(pl.col("label") - pl.col("label").min().over("query"))
    run = pl.DataFrame({"query": [1, 1], "doc": ["b", "a"], "score": [2.0, 1.0]})
    with pytest.warns(pr.errors.RankWarning, match="1 of 2 judged queries is in no run"):
        log = pr.join_judgments(run, judgments)
    value = pr.evaluate(log, pr.ndcg(2, gain="linear"), query_set="retrieved")["ndcg@2"].item()
    assert value == pytest.approx(1 / math.log2(3))
    summary = pr.summarize(labels.unique("query"), "flipped").row(0, named=True)
    assert [summary[name] for name in ("mean", "queries", "undefined")] == [1.0, 2, 1]


@pytest.mark.parametrize("lazily", [False, True])
@pytest.mark.parametrize(
    ("rows", "match"),
    [
        ([(1, "a", "b", "c")], r"column 'winner' \(`winner`\) has ids of neither"),
        ([(1, "a", "a", "a")], r"'first' \(`first`\) and 'second' \(`second`\) have the same"),
        ([(None, "a", "b", "a")], r"'query' \(`query`\) has nulls"),
        ([(1, None, "b", "b")], r"'first' \(`first`\) has nulls"),
        ([(1, "a", None, "a")], r"'second' \(`second`\) has nulls"),
        (
            [(1, "c", "d", "c"), (2, "a", "b", "a"), (2, "c", "d", None)],
            r"all documents of 2 queries, e\.g\. 'a' and 'c' of \{'query': 1\}",
        ),
    ],
)
def test_invalid_rows(rows: list[tuple[Any, ...]], match: str, lazily: bool) -> None:
    pairs = table([(1, "a", "b", "a"), *rows])
    with pytest.raises(pr.errors.DataError, match=match):
        pr.judges.from_pairs(pairs.lazy() if lazily else pairs).lazy().collect()


def test_invalid_columns() -> None:
    pairs = table(of_wins(1, 1))
    with pytest.raises(pr.errors.SchemaError, match=r"'winner' \(`winner`\) not found"):
        pr.judges.from_pairs(pairs.drop("winner"))
    with pytest.raises(
        pr.errors.SchemaError, match=r"`first`.*'winner' \(`winner`\) must have the"
    ):
        pr.judges.from_pairs(pairs.with_columns(winner=1))
