"""Rankings and judgments that are sorted by query are joined in batches of queries."""

import math
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal

# Fewer rows count as many, so that they are made in less time.
from polars_rank.frames import layouts

RankWarning = pr.errors.RankWarning


@pytest.mark.parametrize("keys", [["query"], ["run", "query"]])
@pytest.mark.filterwarnings("ignore:.* leaves them out")
def test_sorted_tables_are_joined_in_batches(tmp_path: Path, keys: list[str]) -> None:
    log = pr.datasets.search_log(80, runs=["b", "a"][: len(keys)], seed=2).collect()
    half = pl.col("doc").hash(1) % 2 == 0
    retrieved = log.drop_nulls("score")
    rankings = retrieved.filter(half | (pl.col("query") % 5 > 0), pl.col("query") != 7)
    # Some documents and queries are in only one of the tables.
    judgments = log.filter(~half | (pl.col("query") % 3 > 0), pl.col("query") != 8)
    tables = {
        "rankings": rankings.select(*keys, "doc", "score"),
        "judgments": judgments.select("query", "doc", "label").unique(),
    }
    for name, table in tables.items():
        table.sort([key for key in keys if key in table.columns]).write_parquet(tmp_path / name)
    scans = [pr.scan_log(tmp_path / name) for name in tables]
    joined = pr.join_judgments(*scans)
    assert not holding_nodes(joined)
    assert "sort" not in holding_nodes(pr.per_query(joined, "ap"))  # the result is also sorted
    with pl.Config(streaming_chunk_size=50):
        found = joined.collect(engine="streaming")
    expected = pr.join_judgments(*tables.values()).sort(*keys, "doc")
    assert_frame_equal(found.sort(*keys, "doc"), expected)
    assert_frame_equal(found.select(keys), found.select(keys).sort(keys))
    # In each query, documents are in the order of the rankings; then come the others.
    in_order = pl.read_parquet(tmp_path / "rankings").select(*keys, "doc")
    assert_frame_equal(found.drop_nulls("score").select(*keys, "doc"), in_order)
    for flags in found.group_by(keys).agg(pl.col("score").is_null())["score"].to_list():
        assert flags == sorted(flags)
    other_type = pr.join_judgments(scans[0], scans[1].cast({"query": pl.Int32}))
    assert_frame_equal(other_type.collect().sort(*keys, "doc"), expected)


@pytest.mark.parametrize("shuffled", [False, True])
def test_the_order_of_a_large_scan_of_judgments_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shuffled: bool
) -> None:
    monkeypatch.setattr(layouts, "_MANY_ROWS", 120_000)
    row = pl.int_range(120_000)
    table = pl.select(query=row // 50, doc=row % 50, label=row % 3)
    order = [pl.col("query", "doc").hash(1)] if shuffled else []
    table.sort([*order, "query"]).write_parquet(tmp_path / "judgments")
    rankings = table.select("query", "doc", score=pl.col("doc") % 7).filter(pl.col("doc") < 40)
    rankings.write_parquet(tmp_path / "rankings")
    scans = pr.scan_log(tmp_path / "rankings"), pl.scan_parquet(tmp_path / "judgments")
    joined = pr.join_judgments(*scans)
    assert not holding_nodes(joined)
    means = pr.evaluate(joined, "ap").collect(engine="streaming")
    expected = pr.evaluate(pr.join_judgments(rankings, table), "ap")
    assert_frame_equal(means, expected, rel_tol=1e-12)
    seen = pr.catalog.exclude_seen(scans[0], scans[1].filter(pl.col("label") == 1))
    assert not holding_nodes(seen)
    kept = pr.catalog.exclude_seen(rankings, table.filter(pl.col("label") == 1))
    assert_frame_equal(seen.collect(engine="streaming"), kept)


@pytest.mark.parametrize(("engine", "runs"), [("in-memory", False), ("streaming", True)])
@pytest.mark.filterwarnings("ignore:.* leaves them out")
def test_rows_keep_the_order_of_the_rankings(engine: Any, runs: bool) -> None:
    rankings = pl.DataFrame({
        "query": [row * 7_919 % 211 for row in range(40_000)], "doc": [*range(40_000)],
        "score": 1.0,
    })  # fmt: skip
    if runs:
        rankings = pl.concat(rankings.with_columns(run=pl.lit(run)) for run in "ba")
    judgments = rankings.select("query", "doc").unique().sort(pl.col("doc").hash(3)).head(9_000)
    others = judgments.select("query", pl.col("doc") + 10**6)
    judgments = pl.concat([judgments, others]).with_columns(label=pl.col("doc") % 3)
    joined = pr.join_judgments(rankings.lazy(), judgments).collect(engine=engine)
    assert_frame_equal(
        joined.head(rankings.height).drop("label"), rankings, check_column_order=False
    )
    rest = joined.tail(-rankings.height)
    documents = pl.concat([others] * (1 + runs))
    assert_frame_equal(rest.select("query", "doc"), documents)
    assert rest["score"].is_null().all()


def test_ties_in_the_order_of_the_rankings() -> None:
    """The same input gives the same value, to the last bit."""
    rankings = pl.DataFrame({"query": 1, "doc": ["c", "a", "d", "b"], "score": 1.0})
    judgments = pl.DataFrame({"query": 1, "doc": ["a", "b", "x"], "label": [3, 1, 2]})
    expected = (3 / math.log2(3) + 1 / math.log2(5)) / (3 + 2 / math.log2(3) + 1 / 2)
    for table in (rankings, rankings.lazy(), rankings.lazy().set_sorted("query")):
        joined = pr.join_judgments(table, judgments.lazy().set_sorted("query"))
        value = pr.evaluate(joined, "ndcg@4", ties="input").lazy().collect().item(0, "ndcg@4")
        assert value == pytest.approx(expected)


JUDGED_TWICE = pl.DataFrame({"query": "q", "doc": ["a", "b", "a"], "label": [2, 0, 1]})
CONFLICT = r"several labels for one document of a query \(rows: 1; .*doc = 'a', label = \[1, 2\]\)"


@pytest.mark.parametrize("kind", ["eager", "lazy", "sorted", "subtopic", "file", "lists"])
def test_unequal_labels_are_an_error(kind: str, tmp_path: Path) -> None:
    """Otherwise, the order of rows would decide which label counts."""
    run: Any = pl.DataFrame({"query": "q", "doc": ["a"], "score": [1.0]})

    def table(judgments: pl.DataFrame) -> pl.DataFrame:
        if kind == "file":
            lines = (f"{query} 0 {doc} {label}\n" for query, doc, label in judgments.rows())
            (tmp_path / "qrels").write_text("".join(lines), "utf-8")
            return pr.scan_judgments(tmp_path / "qrels").collect()
        if kind == "lists":
            judged = judgments.group_by("query").agg(judged=pl.struct("doc", "label"))
            lists = judged.with_columns(shown=pl.lit(["a"]))
            return pr.from_lists(lists, retrieved="shown", relevant="judged", query="query")
        if kind == "subtopic":
            topics = judgments.with_columns(subtopic=pl.lit("s"))
            return pr.join_judgments(run, topics, subtopic="subtopic")
        if kind == "eager":
            return pr.join_judgments(run, judgments)
        tables = [each.lazy() for each in (run, judgments)]
        if kind == "sorted":
            tables = [each.set_sorted("query") for each in tables]
        return pr.join_judgments(*tables).collect()

    conflict = (
        CONFLICT.replace("'a', ", "'a', subtopic = 's', ") if kind == "subtopic" else CONFLICT
    )
    for judgments in (JUDGED_TWICE, JUDGED_TWICE.reverse()):
        with pytest.raises(pr.errors.DataError, match=conflict):
            table(judgments)
    # Equal labels are one judgment.
    assert table(JUDGED_TWICE.with_columns(label=1))["doc"].sort().to_list() == ["a", "b"]


def test_judgments_of_several_judges_and_subtopics() -> None:
    run = pl.DataFrame({"query": ["q"], "doc": ["a"], "score": [1.0]})
    by_judge = JUDGED_TWICE.with_columns(judge=pl.Series(["x", "x", "y"]))
    assert pr.join_judgments(run, by_judge).filter(doc="a").select("judge", "label").rows() == [
        ("x", 2), ("y", 1)
    ]  # fmt: skip
    topics = JUDGED_TWICE.rename({"label": "grade"}).with_columns(topic=pl.Series(["x", "x", "y"]))
    joined = pr.join_judgments(run, topics, label="grade", subtopic="topic")
    assert joined.filter(doc="a").select("grade", "subtopics", "grades").rows() == [
        (2, ["x", "y"], [2, 1])
    ]


def test_runs_in_a_column_with_another_name_are_reported() -> None:
    """Otherwise, runs would lack the judged documents that they did not retrieve."""
    rankings = pl.LazyFrame({
        "model": ["a", "a", "b"], "query": 1, "doc": ["x", "y", "x"], "score": [2.0, 1.0, 1.0],
    })  # fmt: skip
    judgments = pl.LazyFrame({"query": [1, 1], "doc": ["x", "z"], "label": [1, 1]})
    plan = pr.join_judgments(rankings, judgments)
    with pytest.warns(pr.errors.RankWarning, match="`rankings` has .*'model'.*pass run='model'"):
        single = plan.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pr.join_judgments(rankings, judgments, run="model").collect().height == 5
        assert pr.join_judgments(rankings, judgments, by="model").collect().height == 5
        assert_frame_equal(
            pr.join_judgments(rankings, judgments, run=None).collect(),
            single,
            check_row_order=False,
        )
        one = rankings.filter(model="a")
        assert pr.join_judgments(one, judgments).collect()["model"].to_list() == ["a"] * 3
