"""`items` and `history`: the same results as a left join before the evaluation."""

from __future__ import annotations

import math
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from strategies import ATTRIBUTES, assert_close, log_of, random_lists, shuffled

METRICS = [
    "ndcg@3", "novelty@3", "surprisal(unknown='max')@3", "unseen_share@3", "category_entropy@3",
    "ild@3", "ap",
]  # fmt: skip
#: All columns, and the same in three tables.
FULL = log_of(random_lists(seed=50)).drop("users", "history_category", strict=False).with_columns(
    users=pl.col("share") * 16
)  # fmt: skip
ITEMS = FULL.select("doc", *(set(ATTRIBUTES) - {"seen"}), rank=pl.lit(7)).unique(
    "doc", maintain_order=True
)
HISTORY = FULL.filter("seen").select("query", "doc")
LOG = FULL.select("query", "doc", "score", "label")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"duplicates": "max"},
        {"conventions": pr.Conventions(exceptions={"novelty": {"ties": "worst"}})},
        {"query_set": "retrieved"},
        {"ties": "input"},
    ],
    ids=str,
)
def test_equals_a_table_that_has_the_columns(options: dict[str, Any]) -> None:
    joins = {"items": ITEMS, "history": HISTORY.lazy()}
    expected = pr.per_query(FULL, METRICS, **options)
    assert_close(pr.per_query(LOG, METRICS, **joins, **options), expected)
    means = pr.evaluate(FULL, METRICS, **options)
    plan = pr.evaluate(LOG.lazy(), METRICS, **joins, **options)
    for engine in ("in-memory", "streaming"):
        assert_close(plan.collect(engine=engine), means)


def test_a_scanned_log_streams(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    LOG.sort("query").write_parquet(path)
    plan = pr.evaluate(pr.scan_log(path), METRICS, items=ITEMS, history=HISTORY)
    assert_close(plan.collect(engine="streaming"), pr.evaluate(FULL, METRICS))
    nodes = plan.show_graph(engine="streaming", plan_stage="physical", raw_output=True, show=False)
    assert "sorted-group-by" in nodes


@pytest.mark.parametrize(
    ("engine", "duplicates"), [("in-memory", "error"), ("streaming", "error"), ("streaming", "max")]
)
def test_seen_documents_are_excluded(engine: str, duplicates: str) -> None:
    """The result equals that for a log without these rows, with one empty row per lost ranking."""
    metrics = [
        "ndcg@3", "ap", "roc_auc", "recall@2", "bpref", "rr", "fallout@2", "num_retrieved",
        "num_relevant", pr.metrics.novelty(3),
    ]  # fmt: skip
    whole = LOG.filter(pl.col("query") == LOG["query"].max())
    history = pl.concat([HISTORY, whole.select(HISTORY.columns)])
    left = LOG.join(history, on=["query", "doc"], how="anti")
    lost = LOG.select("query").unique().join(left, on="query", how="anti")
    assert lost.height >= 1
    expected = pr.per_query(pl.concat([left, lost], how="diagonal"), metrics, items=ITEMS)
    unseen = pr.catalog.exclude_seen(LOG.lazy(), history)
    found = pr.per_query(unseen, metrics, items=ITEMS, duplicates=duplicates)
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


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_the_number_of_users_is_that_of_all_items(engine: str) -> None:
    """The values equal those of RecTools, also for a ranking without a known document."""
    train = pl.DataFrame({"query": [1, 2, 3, 4], "doc": [*"aaba"]})
    items = pr.catalog.popularity(train)
    log = pl.LazyFrame({"query": [1, 1, 2, 2], "doc": [*"xyax"], "score": [2.0, 1.0] * 2})
    with pytest.warns(pr.errors.RankWarning, match="`items` has no row"):
        plan = pr.per_query(log, "MIUF@2", items=items, conventions="rectools")
        found = plan.collect(engine=engine)
    # Three of four users used a; x and y count as documents of one of four.
    assert found["MIUF@2"].to_list() == pytest.approx([2.0, (-math.log2(3 / 4) + 2) / 2])


def test_the_number_of_users_is_not_that_of_excluded_documents() -> None:
    full = pl.DataFrame({
        "query": 1, "doc": [*"ax"], "score": [2.0, 1.0], "share": [0.75, None],
        "users": [3, None],
    })  # fmt: skip
    history = pl.DataFrame({"query": [1], "doc": ["a"]})
    metric = pr.metrics.novelty(2, unknown="max")
    found = pr.per_query(pr.catalog.exclude_seen(full, history), metric)
    assert found.rows() == pr.per_query(full.filter(doc="x"), metric).rows() == [(1, None)]


def test_history_gives_lists_of_attributes() -> None:
    history = pl.DataFrame({"user": [1, 1, 2, 3], "doc": ["a", "b", "a", "z"]})
    items = pl.DataFrame({"doc": [*"abc"], "category": [["x"], ["x", "y"], ["y"]]})
    log = pl.DataFrame({
        "user": [1, 1, 2, 3], "day": [1, 2, 1, 1], "doc": [*"cbca"], "score": 1.0
    })  # fmt: skip
    lists = pl.DataFrame({
        "user": [1, 2], "history_category": [[["x"], ["x", "y"]], [["x"]]]
    })  # fmt: skip
    query = ["user", "day"]
    full = log.join(items, on="doc", how="left").join(lists, on="user", how="left")
    expected = pr.per_query(full, "calibration", query=query)
    found = pr.per_query(log, "calibration", query=query, items=items, history=history)
    assert_close(found, expected)
    assert found["calibration"].is_null().to_list() == [False, False, False, True]
    own = history.join(items, on="doc", how="left")
    alone = pr.per_query(
        log.join(items, on="doc"), "calibration", query=query, history=own
    )  # fmt: skip
    assert_close(alone, expected)


def test_only_columns_that_metrics_read_are_joined() -> None:
    log = LOG.with_columns(category=pl.lit("mine"), interactions=0)
    assert_close(pr.per_query(log, "novelty@3", items=ITEMS), pr.per_query(FULL, "novelty@3"))
    with pytest.raises(pr.errors.SchemaError, match="'interactions' is in the table and comes"):
        pr.per_query(log, "popularity", items=ITEMS)


@pytest.mark.parametrize("function", [pr.per_query, pr.evaluate])
@pytest.mark.parametrize("lazy", [False, True])
def test_the_number_of_unknown_documents_is_reported(function: Any, lazy: bool) -> None:
    some = ITEMS.filter(pl.col("doc") % 4 != 0)
    unknown = LOG.filter(pl.col("doc") % 4 == 0, pl.col("score").is_not_null())
    shown = [f"'unknown documents': {unknown.height}}}$"]
    if function is pr.per_query:  # one of the rankings with unknown documents
        counts = unknown.group_by("query").len().rows()
        shown = [f"'query': {query}, 'unknown documents': {number}}}$" for query, number in counts]
    message = rf"`items` has no row for some retrieved .*({'|'.join(shown)})"
    log = shuffled(LOG).lazy() if lazy else LOG
    with pytest.warns(pr.errors.RankWarning, match=message) as warning:
        function(log, ["novelty@1", "p@1"], items=some).lazy().collect(engine="streaming")
    assert len(warning) == 1 and warning[0].message.parameters[0] == "items"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(log, "novelty@1", items=ITEMS).lazy().collect()


def test_unknown_documents_that_are_an_error() -> None:
    metric = pr.metrics.novelty(2, unknown="error")
    log = pl.DataFrame({"query": [1, 2], "doc": [*"ab"], "score": 1.0, "share": [0.5, None]})
    with pytest.raises(pr.errors.DataError, match=r"'share' \(`share`\) has nulls.*'query': 2"):
        pr.evaluate(log, metric)
    ranked = pr.rank(log.with_columns(label=0))
    found = ranked.group_by("query").agg(metric.alias("novelty")).sort("query")
    assert found["novelty"].to_list() == [1.0, None]
    ild = pr.intra_list_diversity(features="share", distance="category", unknown="error")
    with pytest.raises(pr.errors.DataError, match=r"'share' \(`features`\) has nulls"):
        pr.evaluate(log, ild)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"items": ITEMS, "doc": None}, "ArgumentError", "`items` needs document ids"),
        ({"history": HISTORY, "doc": None}, "ArgumentError", "`history` needs document ids"),
        ({"items": pl.concat([ITEMS, ITEMS.head(1)])}, "DataError", "`items` has duplicates"),
        (
            {"items": ITEMS.drop("doc")},
            "SchemaError",
            r"'doc' \(`doc`\) not found; available in `items`",
        ),
        ({"history": HISTORY.drop("query")}, "SchemaError", r"'query' \(`history`\) not found"),
        (
            {"items": ITEMS.with_columns(pl.col("doc").cast(pl.String))},
            "SchemaError",
            "is Int64 in the rankings and String in `items`",
        ),
        (
            {"items": ITEMS.drop("share")},
            "SchemaError",
            r"'share' \(`share` of novelty\) not found",
        ),
        (
            {"items": ITEMS.with_columns(share=pl.col("users"))},
            "DataError",
            r"'share' \(`share`\) has values above 1",
        ),
    ],
)
def test_tables_that_do_not_fit(options: dict[str, Any], error: str, message: str) -> None:
    with pytest.raises(getattr(pr.errors, error), match=message):
        pr.evaluate(LOG, "novelty", **options)
