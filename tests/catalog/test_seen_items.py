"""`exclude_seen` and `leave_one_out`."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import polars as pl
import polars_rank as pr
import pytest
from strategies import assert_close, log_of, random_lists, shuffled


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_seen_documents_have_no_effect(engine: str) -> None:
    lists = random_lists(seed=13)
    log = shuffled(log_of(lists)).with_columns(traffic=pl.col("query"))
    history = [(query, d.doc) for query, docs in lists.items() for d in docs if d.doc % 3 == 0]
    # The last ranking has only seen documents; what others have seen does not matter.
    history += [(max(lists), d.doc) for d in lists[max(lists)]] + history[:5]
    seen = pl.LazyFrame(history, {"query": pl.Int32, "doc": pl.Int64}, orient="row")
    actual = pr.catalog.exclude_seen(log.lazy(), seen).collect(engine=engine)
    left = log.filter(
        ~pl.struct("query", "doc").is_in([{"query": q, "doc": d} for q, d in history])
    )
    assert actual.columns == log.columns
    assert actual.filter(pl.col("doc").is_not_null()).equals(left)
    rest = {query: docs for query, docs in lists.items() if query in {*left["query"]}}
    empty = actual.filter(pl.col("doc").is_null())
    assert empty["query"].sort().to_list() == sorted({*lists} - {*rest})
    assert empty.select(pl.col("score", "label").null_count()).row(0) == (empty.height,) * 2
    means = pr.evaluate(actual, ["num_ret", "rr"], weight="traffic")
    assert means["queries"].item() == len(lists)
    assert_close(
        pr.evaluate(actual, "num_ret", undefined="zero"),
        pl.DataFrame({"queries": [len(lists)], "num_ret": [left["score"].count()]}),
    )


def test_runs_and_other_names() -> None:
    log = pl.DataFrame({"run": [1, 1, 2], "user": "u", "item": ["a", "b", "a"], "s": [2, 1, 1]})
    history = pl.DataFrame({"user": ["u"], "item": ["a"]}).cast({"item": pl.Categorical})
    names = {"query": "user", "doc": "item", "score": "s"}
    actual = pr.catalog.exclude_seen(log, history, **names, by="run")
    assert actual.rows() == [(1, "u", "b", 1), (2, "u", None, None)]
    numbers = history.with_columns(item=pl.lit(1, pl.Int64))
    for seen, message in (
        (history.drop("item"), "'item' .`doc`. not found; available in `history`"),
        (numbers, "String in the rankings and Int64 in `history`"),
    ):
        with pytest.raises(pr.errors.SchemaError, match=message):
            pr.catalog.exclude_seen(log, seen, **names)


def test_columns_whose_names_are_patterns_are_kept() -> None:
    history = pl.DataFrame({"query": [1], "doc": ["a"]})
    for name, value in product(("*", "^.*$", "^d.*$"), (1, [1, 2])):
        log = pl.DataFrame({"query": [1, 1], "doc": ["a", "b"], "score": [2.0, 1.0]})
        log = log.with_columns(pl.Series(name, [value, value]))
        assert pr.catalog.exclude_seen(log, history).equals(log.filter(doc="b"))


def test_leave_one_out_against_plain_python() -> None:
    numbers = log_of(random_lists(seed=14)).select("query", "doc", day=pl.col("doc") * 7 % 5)
    for n, dtype in product((1, 3), (pl.Int64, pl.String, pl.Categorical)):
        # The codes of categories follow the order of rows, not that of the texts.
        text = numbers.cast({"doc": pl.String}).cast({"doc": dtype})
        log = numbers if dtype == pl.Int64 else text
        rows: dict[int, list[tuple[int, int | str]]] = defaultdict(list)
        for query, doc, day in log.rows():
            rows[query].append((day, doc))
        last = {(q, doc) for q, pairs in rows.items() for _, doc in sorted(pairs)[-n:]}
        for frame in (log, shuffled(log)):
            actual = frame.filter(pr.catalog.leave_one_out("day", n=n))
            assert {*actual.select("query", "doc").rows()} == last
    for options, message in (({"n": 0}, "`n` must be a positive"), ({"query": []}, "`query` must")):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.catalog.leave_one_out("time", **options)


@pytest.mark.parametrize(
    ("engine", "duplicates"), [("in-memory", "error"), ("streaming", "error"), ("streaming", "max")]
)
def test_metrics_without_seen_documents(engine: str, duplicates: str) -> None:
    """The result equals that for a log without these rows, with one empty row per lost ranking."""
    metrics = [
        "ndcg@3", "ap", "roc_auc", "recall@2", "bpref", "rr", "fallout@2", "num_retrieved",
        "num_relevant",
    ]  # fmt: skip
    full = log_of(random_lists(seed=50))
    log = full.select("query", "doc", "score", "label")
    whole = log.filter(pl.col("query") == log["query"].max())
    history = pl.concat([full.filter("seen"), whole], how="diagonal").select("query", "doc")
    left = log.join(history, on=["query", "doc"], how="anti")
    lost = log.select("query").unique().join(left, on="query", how="anti")
    assert lost.height >= 1
    expected = pr.per_query(pl.concat([left, lost], how="diagonal"), metrics)
    unseen = pr.catalog.exclude_seen(log.lazy(), history)
    found = pr.per_query(unseen, metrics, duplicates=duplicates)
    assert_close(found.collect(engine=engine), expected)


def test_subtopics_of_excluded_documents_are_not_judged() -> None:
    log = pl.DataFrame({
        "query": [1, 1, 2], "doc": [*"xyx"], "score": [2.0, 1.0, 1.0], "label": 1,
        "subtopics": [["a", "b"], ["a"], ["a"]],
    })  # fmt: skip
    history = pl.DataFrame({"query": [1, 2], "doc": "x"})
    # The ideal ranking of query 1 has only y; query 2 has nothing left.
    unseen = pr.catalog.exclude_seen(log, history)
    found = pr.per_query(unseen, ["alpha_ndcg@2", "subtopic_recall@2"], undefined="null")
    assert found.rows() == [(1, 1.0, 1.0), (2, None, None)]
