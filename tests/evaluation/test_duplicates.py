"""Documents that occur more than once in a ranking."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from plans import holding_nodes

# Rows as all functions read them.
from polars_rank.evaluation.log import Log
from strategies import assert_close, every_metric
from strategies import log_of as log_with_attributes

METRICS = ["p@1", "recall@2", "ap", "rr", "ndcg@3", "err@3", "num_rel", "num_ret", "judged@3"]


class Row(NamedTuple):
    """A row of a log."""

    doc: str
    score: float | None
    label: int | None


def log_of(lists: list[list[Row]]) -> pl.DataFrame:
    rows = [(query, *row) for query, ranking in enumerate(lists) for row in ranking]
    schema = {"query": pl.Int64, "doc": pl.String, "score": pl.Float64, "label": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def random_log(seed: int, queries: int = 60) -> pl.DataFrame:
    """Return a log with copies and without ties, in random order."""
    draw = random.Random(seed)
    lists = []
    for _ in range(queries):
        scores = draw.sample(range(20), draw.randint(1, 8))
        lists.append([Row(draw.choice("abcdef"), float(score), draw.choice([None, 0, 0, 1, 2]))
                      for score in scores])  # fmt: skip
    return log_of(lists)


def without_copies(log: pl.DataFrame, duplicates: str) -> pl.DataFrame:
    """Return the row with the highest score of each document, or its first row."""
    order = pl.struct(-pl.col("score").fill_null(-9), pl.int_range(pl.len()))
    order = order if duplicates == "max" else pl.int_range(pl.len())
    return log.filter(order.rank("ordinal").over("query", "doc") == 1)


@pytest.mark.parametrize("duplicates", ["max", "first"])
def test_layouts(tmp_path: Path, duplicates: str) -> None:
    log = random_log(1)
    kept = without_copies(log, duplicates)
    log.write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    # Equal queries are apart; the rows of each query keep their order.
    by_place = log.with_columns(pl.int_range(pl.len()).over("query").alias("place"))
    by_place.sort("place", "query").drop("place").write_parquet(tmp_path / "apart.parquet")
    apart = pr.scan_log(tmp_path / "apart.parquet")
    for frame in (log, scanned, apart):
        for ties in (None, "input", "worst"):
            options: dict[str, Any] = {"duplicates": duplicates, "ties": ties}
            found = pr.per_query(frame, METRICS, **options).lazy().collect(engine="streaming")
            expected = pr.per_query(kept, METRICS)
            assert_close(found.sort("query"), expected)
    means = pr.evaluate(log, METRICS, duplicates=duplicates)
    assert_close(means, pr.evaluate(kept, METRICS))
    curve = pr.rank_curve(log, "ndcg", [2, 3], duplicates=duplicates)
    assert curve["ndcg"].to_list()[1] == pytest.approx(means["ndcg@3"].item())


@pytest.mark.parametrize("duplicates", ["max", "first"])
def test_columns_and_seen_documents(duplicates: str) -> None:
    log = random_log(2)
    kept = without_copies(log, duplicates)
    prices = pl.DataFrame({"doc": [*"abcdef"], "price": range(6)})
    cheap = (pl.col("price") < 2).sum().alias("cheap")
    own = [*METRICS, cheap, pl.len().alias("rows"), pl.col("label").count().alias("labels")]
    priced, priced_once = (rows.join(prices, on="doc", how="left") for rows in (log, kept))
    found = pr.per_query(priced, own, duplicates=duplicates)
    assert_close(found, pr.per_query(priced_once, own))
    history = pl.DataFrame({"query": range(60), "doc": "a"})
    found, expected = (
        pr.per_query(pr.catalog.exclude_seen(rows, history), METRICS, duplicates=duplicates)
        for rows in (log, kept)
    )
    assert_close(found, expected)


@pytest.mark.parametrize(
    ("duplicates", "ties"), [("max", "worst"), ("max", "input"), ("first", "doc")]
)
def test_every_metric(duplicates: str, ties: str) -> None:
    draw, lists = random.Random(5), {}
    for query in range(30):
        labels = [draw.choice([None, 0, 0, 1, 2, 3]) for _ in range(7)]
        docs = [draw.randrange(7) for _ in range(draw.randint(1, 9))]
        scores = [draw.choice([None, 0.0, 0.5, 1.0, 1.0]) for _ in docs]
        lists[query] = [Doc(d, s, labels[d]) for d, s in zip(docs, scores, strict=True)]
    log, metrics = log_with_attributes(lists), every_metric(3)
    expected = pr.per_query(without_copies(log, duplicates), metrics, ties=ties)
    assert_close(pr.per_query(log, metrics, duplicates=duplicates, ties=ties), expected)


def test_copies_of_categorical_ids() -> None:
    draw = random.Random(8)
    rows = [(draw.randrange(9), f"{draw.randrange(8)}", draw.randrange(5)) for _ in range(200)]
    numbers = pl.DataFrame(rows, ["query", "doc", "score"], orient="row")
    for score, duplicates in product((pl.Float64, pl.Decimal(10, 2)), ("max", "first")):
        log = numbers.with_columns(pl.col("score").cast(score), label=1)
        found = pr.rank(log.cast({"doc": pl.Categorical}), duplicates=duplicates)
        assert found.cast({"doc": pl.String}).equals(pr.rank(log, duplicates=duplicates))


def test_copies_are_dropped_in_flat_memory(tmp_path: Path) -> None:
    rankings = [[Row("b", 5.0, 1), Row("a", 2.0, None), Row("b", 1.0, 1)], [Row("x", 4.0, 0)]]
    log_of(rankings).write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    for ties in ("doc", "input"):
        assert not holding_nodes(pr.per_query(scanned, "num_ret", duplicates="max", ties=ties))


def test_scores_and_labels_in_different_rows() -> None:
    # Rows of a run and of its judgments, which were not joined.
    separate = [Row("b", 3.0, None), Row("c", 2.0, None), Row("c", None, 1), Row("b", None, 1)]
    other = [Row("b", 3.0, 1), Row("c", 2.0, 1), Row("b", 1.0, 0)]
    unjudged = [Row("b", 3.0, None), Row("c", 2.0, 1), Row("b", 1.0, 1)]
    for lazy, function, ties, duplicates in product(
        (False, True), (pr.per_query, pr.rank), ("doc", "input"), ("max", "first")
    ):

        def evaluate(rows: list[Row]) -> pl.DataFrame:
            log: Any = log_of([rows, [Row("b", 1.0, 1)]])
            log = log.lazy() if lazy else log
            metrics = [] if function is pr.rank else ["num_rel_ret"]
            return function(log, *metrics, duplicates=duplicates, ties=ties).lazy().collect()

        found = "rows without a score.*pr.join_judgments"
        found = found if lazy else rf"2 documents.*{found}.*'label': \[None, 1\]"
        for rows in (separate, separate[::-1]):
            with pytest.raises(pr.errors.DataError, match=found):
                evaluate(rows)
        column = "relevant" if function is pr.rank else "num_rel_ret"
        for rows, relevant in ((other, 2), (unjudged, 1)):  # the row that is kept has its label
            assert evaluate(rows).filter(query=0)[column].sum() == relevant


def test_conventions_set_the_treatment() -> None:
    log = log_of([[Row("b", 1.0, 1), Row("b", 3.0, 1), Row("c", 2.0, 1), Row("d", 1.5, 0)]])
    own = pr.Conventions(duplicates="first", exceptions={"precision": {"duplicates": "max"}})
    # b at rank 3, and with "max" at rank 1.
    values = pr.evaluate(log, ["ap", "p@2", "rr"], conventions=own).row(0)
    assert values == pytest.approx((1, (1 / 1 + 2 / 3) / 2, 2 / 2, 1))
    # The parameter of the call takes precedence, also over exceptions.
    values = pr.evaluate(log, ["ap", "p@2"], conventions=own, duplicates="max").row(0)
    assert values == (1, 1, 2 / 2)
    assert pr.rank(log, conventions=own).sort("rank")["hits"].to_list() == [1, 1, 2]
    assert "duplicate documents: the first row is kept" in pr.explain("ap", own)
    with pytest.raises(pr.errors.ArgumentError, match="`duplicates` must be one of.*'distinct'"):
        pr.evaluate(log, "ap", duplicates="distinct")


def test_explain_difference_names_copies() -> None:
    log = log_of([[Row("b", 1.0, 1), Row("b", 3.0, 1), Row("c", 2.0, 1), Row("d", 1.5, 0)]])
    first, best = pr.Conventions(duplicates="first"), pr.Conventions(duplicates="max")
    why = pr.explain_difference(log, "ap", best, first)
    assert why.select("choice", "a", "b").rows() == [("duplicates", "max", "first")]
    assert why["change"].item() == pytest.approx((1 / 1 + 2 / 3) / 2 - 1)
    # Without a treatment in both conventions, a log with copies has no value to explain.
    copies = "'doc' .*more than once in a ranking.*set `duplicates` to 'max' or 'first'"
    for pair in (("polars_rank", first), (first, "polars_rank"), ("polars_rank", "lightgbm")):
        with pytest.raises(pr.errors.DataError, match=copies):
            pr.explain_difference(log, "ap", *pair)
    for pair in (("polars_rank", first), (first, "polars_rank")):
        assert pr.explain_difference(log.unique("doc"), "ap", *pair).is_empty()
        assert pr.explain_difference(log, "ap", *pair, duplicates="max").is_empty()
