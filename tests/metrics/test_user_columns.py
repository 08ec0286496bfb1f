"""Columns that metrics read besides labels and scores: names, types and invalid values."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

LOG = pl.DataFrame({
    "query": [1, 1, 1, 2, 2], "position": [1, 2, 3, 1, None], "seen": [2, None, 0, 1, 0],
    "interactions": [5.0, 0.5, float("nan"), 3.0, 9.0],
})  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_counts_and_numbers_with_nulls(engine: Any) -> None:
    """Counts above 0 are alike; null is no count; documents not shown are ignored."""
    metrics = ["unseen_share", "unseen_share@1", "popularity@2"]
    values = pr.per_query(LOG.lazy(), metrics, position="position").collect(engine=engine)
    assert values["unseen_share"].to_list() == [2 / 3, 0]
    assert values["unseen_share@1"].to_list() == [0, 0]
    assert values["popularity@2"].to_list() == [(5 + 0.5) / 2, 3]


def test_forbidden_documents() -> None:
    """A null is no forbidden document, and neither is one that was not retrieved."""
    log = pl.DataFrame({
        "query": [1, 1, 2, 2, 3, 3, 4], "doc": [*"abababa"],
        "score": [2.0, 1.0, 2.0, 1.0, 2.0, None, None], "label": [1, 0, 1, 0, 1, 0, None],
        "forbidden": [False, True, None, None, False, True, None],
    })  # fmt: skip
    metrics = ["forbidden@1", "forbidden@2", "forbidden"]
    values = pr.per_query(log, metrics, undefined="null")
    assert values.rows() == [(1, 0, 1, 1), (2, 0, 0, 0), (3, 0, 0, 0), (4, 0, 0, 0)]
    assert pr.evaluate(log, "forbidden@2").item(0, 1) == 1 / 4
    # Of tied documents, the lowest label is first.
    tied = log.with_columns(score=pl.col("score") * 0).drop("doc")
    assert pr.evaluate(tied, "forbidden@1").item(0, 1) == 1 / 4
    # Less is better.
    runs = pl.concat(
        log.with_columns(run=pl.lit(run), forbidden=pl.col("forbidden") & pl.lit(run == "a"))
        for run in "ab"
    )
    values = pr.per_query(runs, "forbidden@2")
    best = pr.leaderboard(values).row(0, named=True)
    assert (best["run"], best["mean"]) == ("b", 0)
    many = pl.concat(values.with_columns(pl.col("query") + 10 * n) for n in range(40))
    assert pr.compare(many, baseline="a")["verdict"].to_list() == ["better"]
    [verdict] = pr.check(pr.summarize(values), ["forbidden@2 <= 0"], on_fail="return").filter(
        pl.col("where").str.contains("a")
    )["verdict"]
    assert verdict != "pass"
    with pytest.raises(pr.errors.SchemaError, match=r"'forbidden' \(`forbidden` of forbidden@2\)"):
        pr.evaluate(log.drop("forbidden"), "forbidden@2")


def test_labels_are_required_only_if_they_are_read() -> None:
    for metrics, options, name in (
        (["popularity", "ndcg"], {}, "label"),
        ("popularity", {"query_set": "judged"}, "label"),
        ("popularity", {"label": "grade"}, "grade"),
    ):
        with pytest.raises(pr.errors.SchemaError, match=rf"'{name}' \(`label`\) not found"):
            pr.evaluate(LOG, metrics, position="position", **options)
    both = pr.evaluate(LOG.with_columns(label=1), ["popularity@1", "p@1"], position="position")
    assert both.row(0)[1:] == ((5 + 3) / 2, 1)


def test_names_of_columns() -> None:
    log = LOG.rename({"interactions": "sales"})
    metric = pr.metrics.popularity(1, interactions="sales")
    assert str(metric) == "popularity(interactions='sales')@1"
    assert pr.evaluate(log, str(metric), position="position").item(0, 1) == (5 + 3) / 2
    with pytest.raises(
        pr.errors.ArgumentError, match="`interactions` must be the name of a column"
    ):
        pr.metrics.popularity(interactions=3)  # type: ignore[arg-type]
    lists = pl.DataFrame({"query": 1, "score": [1.0], "label": [1], "my_subtopics": [[1]]})
    for other in (pr.metrics.subtopic_recall(1) - 1, "subtopic_recall@1"):
        with pytest.raises(pr.errors.SchemaError) as error:
            pr.evaluate(lists, other)
        assert str(error.value).endswith(
            """Name the column in the metric: "subtopic_recall(subtopics='my_subtopics')@1\""""
        )


FIVE = timedelta(seconds=5)  # a cast to numbers would give 5,000,000


def test_columns_that_are_not_numeric() -> None:
    for column, metric in (("seen", "unseen_share"), ("interactions", "popularity")):
        for value in (FIVE, "5", date(2026, 1, 5), [5]):
            log = LOG.with_columns(pl.Series(column, [value] * LOG.height))
            message = rf"'{column}' \(`{column}`\) must be numeric; found {log[column].dtype!s:.4}"
            for frame in (log, log.lazy()):  # a lazy frame is checked before it is collected
                for function in (pr.evaluate, pr.per_query):
                    with pytest.raises(pr.errors.SchemaError, match=message):
                        function(frame, metric, position="position")
    # A cast would accept a Duration as a number of ticks.
    log = pl.DataFrame({"query": 1, "score": [1.0], "label": [1], "interactions": [FIVE]})
    with pytest.raises(pl.exceptions.PolarsError):
        pr.rank(log).group_by("query").agg(pr.metrics.popularity())


def test_negative_values() -> None:
    for column, metric in (("seen", "unseen_share"), ("interactions", "popularity")):
        log = LOG.with_columns(pl.lit(-1).alias(column))
        message = rf"column '{column}' \(`{column}`\) has negative values; use null"
        with pytest.raises(pr.errors.DataError, match="of 5 rows: " + message):
            pr.evaluate(log, metric, position="position")
        with pytest.raises(pr.errors.DataError, match=message):
            pr.evaluate(log.lazy(), metric, position="position").collect()
