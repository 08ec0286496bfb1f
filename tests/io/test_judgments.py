"""`join_judgments`: every run has all judged documents, whatever the order of the tables."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import holding_nodes
from polars.io.plugins import register_io_source
from rows import check_each
from polars.testing import assert_frame_equal

# Fewer rows count as many, so that they are made in less time.
from polars_rank.frames import layouts

#: Rankings and judgments have different queries on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*(leaves them out|do the ids match)")

ENGINES: Any = ("in-memory", "streaming")

RUN = pl.DataFrame({
    "run": ["A", "A", "B"], "query": 1, "doc": ["a", "b", "c"], "score": [0.9, 0.8, 0.7],
}).cast({"query": pl.Int64})  # fmt: skip
JUDGMENTS = pl.DataFrame({"query": [1, 1, 2], "doc": ["b", "c", "z"], "label": [2, 0, 1]})
JOINED = [
    ("A", 1, "a", 0.9, None), ("A", 1, "b", 0.8, 2), ("A", 1, "c", None, 0),
    ("A", 2, "z", None, 1), ("B", 1, "b", None, 2), ("B", 1, "c", 0.7, 0), ("B", 2, "z", None, 1),
]  # fmt: skip


#: Changes of both tables, options, and columns of the joined table: each is joined like `RUN`.
JOINS: list[tuple[Any, Any, dict[str, Any], str]] = [
    (None, None, {}, "run query doc score label"),
    (None, None, {"by": "run"}, "run query doc score label"),
    (lambda run: run.rename({"run": "system"}), None, {"run": "system"},
     "system query doc score label"),
    # Runs A and B are in one group each.
    (lambda run: run.with_columns(day=pl.Series([1, 1, 2])), None, {"by": "day"},
     "run query doc score label day"),
    (lambda run: run.rename({"query": "topic", "doc": "docno", "score": "sim"}).with_columns(
        shard=pl.Series([1, 2, 1])),
     lambda judged: judged.select(topic="query", docno="doc", rel="label", by=pl.lit("x")),
     {"query": "topic", "doc": "docno", "score": "sim", "label": "rel"},
     "run topic docno sim rel shard by"),
    *((None, lambda judged, to=to: judged.cast(to), {}, "run query doc score label") for to in (
        {"query": pl.Int16}, {"query": pl.UInt64}, {"doc": pl.Categorical},
        {"doc": pl.Enum(["b", "c", "z"])},
    )),
]  # fmt: skip


def test_every_run_gets_all_judgments() -> None:
    def check(of_run: Any, of_judgments: Any, options: Any, columns: str) -> None:
        run = of_run(RUN) if of_run else RUN
        judged = of_judgments(JUDGMENTS) if of_judgments else JUDGMENTS
        joined = pr.join_judgments(run, judged, **options)
        assert sorted(joined.columns) == sorted(columns.split())
        assert sorted(joined.select(columns.split()[:5]).rows()) == JOINED
        lazy = run.lazy(), judged.lazy()
        for left, right in (lazy, (run, lazy[1]), (lazy[0], judged)):
            lazily = pr.join_judgments(left, right, **options)
            assert lazily.collect_schema() == joined.schema
            found = lazily.collect(engine="streaming")
            assert_frame_equal(found, joined, check_row_order=False)

    check_each(check, JOINS)
    assert sorted(pr.join_judgments(RUN.to_arrow(), JUDGMENTS).rows()) == JOINED


def test_one_run_or_none_named() -> None:
    expected = [row[1:] for row in JOINED[:4]]
    one = RUN.filter(run="A").drop("run")
    assert sorted(pr.join_judgments(one, JUDGMENTS).rows(), key=str) == sorted(expected, key=str)
    joined = pr.join_judgments(RUN, JUDGMENTS, run=None)
    assert joined.filter(pl.col("run").is_null()).rows() == [(None, 2, "z", None, 1)]


def test_columns_of_lists_runs_and_queries_are_known_where_only_judgments_are() -> None:
    run = RUN.with_columns(
        version=pl.Series([7, 7, 8]),  # of the run
        session=pl.Series(["x", "x", "y"]),  # of the list
        market=pl.lit("web"),  # of the query
        shard=pl.Series([1, 2, 1]),  # of the document
        country=pl.Series(["DE", None, "DE"]),  # missing in a part of the query
    )
    joined = pr.join_judgments(run, JUDGMENTS)
    columns = ["run", "query", "doc", "version", "session", "market", "shard", "country"]
    assert sorted(joined.filter(pl.col("score").is_null()).select(columns).rows()) == [
        ("A", 1, "c", 7, "x", "web", None, None),
        ("A", 2, "z", 7, "x", "web", None, None),
        ("B", 1, "b", 8, "y", "web", None, None),
        ("B", 2, "z", 8, "y", "web", None, None),
    ]
    assert joined.filter(doc="b", run="A")["country"].to_list() == [None]


retrieved_rows = st.tuples(
    st.sampled_from("AB"), st.integers(0, 2), st.integers(0, 4), st.sampled_from([0, 1, None])
)


@given(
    st.lists(retrieved_rows, unique_by=lambda row: row[:3], min_size=5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), unique=True),
)
def test_joined_against_plain_python(
    retrieved: list[tuple[str, int, int, int | None]], judged: list[tuple[int, int]]
) -> None:
    run = pl.DataFrame(
        [(*row[:3], 1.0, row[3]) for row in retrieved],
        schema={"run": pl.String, "query": int, "doc": int, "score": float, "extra": int},
        orient="row",
    )
    judgments = pl.DataFrame(
        [(*row, 1) for row in judged], schema={"query": int, "doc": int, "label": int}, orient="row"
    )

    def constant(part: slice, of: tuple[Any, ...]) -> int | None:
        """The value of a group of rows, or None if the values vary within any group."""
        values: dict[Any, set[int | None]] = {}
        for row in retrieved:
            values.setdefault(row[part], set()).add(row[3])
        fits = all(len(each) == 1 for each in values.values())
        return next(iter(values.get(of, {None}))) if fits else None

    expected = {row[:3]: (1.0, row[3], int(row[1:3] in judged) or None) for row in retrieved}
    for name in {row[0] for row in retrieved}:
        for query, doc in judged:
            levels = [
                constant(slice(0, 2), (name, query)),
                constant(slice(1, 2), (query,)),
                constant(slice(0, 1), (name,)),
            ]
            known = next((value for value in levels if value is not None), None)
            expected.setdefault((name, query, doc), (None, known, 1))
    joined = pr.join_judgments(run, judgments)
    assert {row[:3]: row[3:] for row in joined.rows()} == expected
    assert joined.height == len(expected)


@pytest.mark.parametrize(
    ("layout", "by"), [("sorted", None), ("adjacent", "run"), ("shuffled", None)]
)
def test_numbers_and_order_of_a_scanned_log_are_forgotten(
    tmp_path: Path, layout: Any, by: str | None
) -> None:
    queries = {"sorted": [1, 1, 3, 3], "adjacent": [3, 3, 1, 1], "shuffled": [3, 1, 3, 1]}[layout]
    run = pl.DataFrame({"run": "A", "query": queries, "doc": list("abcd"), "score": [4.0, 3, 2, 1]})
    judged = {"query": [*queries, 0, 0, 2, 2], "doc": list("abcd") * 2, "label": [0, 1] * 4}
    judgments = pl.DataFrame(judged)
    run.write_parquet(tmp_path / "run.parquet")
    scanned = pr.scan_log(tmp_path / "run.parquet", by=by, layout=layout)
    joined = pr.join_judgments(scanned, judgments)
    assert joined.collect_schema().names() == ["run", "query", "doc", "score", "label"]
    expected = pr.evaluate(pr.join_judgments(run, judgments), ["rr", "recall"], by="run")
    assert expected["queries"].item() == 4
    for engine in ENGINES:
        found = pr.evaluate(joined, ["rr", "recall"], by="run").collect(engine=engine)
        assert_frame_equal(found, expected)


def test_the_run_is_read_once() -> None:
    reads = 0

    def read(columns: Any, *_: Any) -> Iterator[pl.DataFrame]:
        nonlocal reads
        reads += 1
        yield run if columns is None else run.select(columns)

    run = RUN.with_columns(country=pl.lit("DE"))
    source = register_io_source(read, schema=run.schema)  # as scan_run and scan_log make
    for number, engine in enumerate(ENGINES, 1):
        pr.join_judgments(source, JUDGMENTS).collect(engine=engine)
        assert reads == number


def test_queries_of_several_columns() -> None:
    run = RUN.with_columns(day=pl.Series([1, 1, 1]))
    judgments = JUDGMENTS.with_columns(day=pl.Series([1, 2, 1]))
    joined = pr.join_judgments(run, judgments, query=["day", "query"])
    assert sorted(
        joined.filter(run="B").select("day", "query", "doc", "label").rows(), key=str
    ) == [(1, 1, "b", 2), (1, 1, "c", None), (1, 2, "z", 1), (2, 1, "c", 0)]


def test_empty_tables() -> None:
    joined = pr.join_judgments(RUN, JUDGMENTS.clear())
    assert sorted(joined.rows()) == [(*row, None) for row in RUN.rows()]
    assert pr.join_judgments(RUN.clear().drop("run"), JUDGMENTS)["score"].null_count() == 3
    assert pr.join_judgments(RUN.clear(), JUDGMENTS).is_empty()


def test_judgments_without_labels_are_relevant() -> None:
    for bought in (
        JUDGMENTS.drop("label"),
        JUDGMENTS.select("query", "doc", at=pl.date(2026, 1, 1)),
    ):
        joined = pr.join_judgments(RUN, bought)
        expected = pr.join_judgments(RUN, bought.with_columns(label=pl.lit(1, pl.Int64)))
        assert_frame_equal(joined, expected.select(joined.columns), check_row_order=False)
        with pytest.raises(pr.errors.SchemaError, match=r"column 'grade' \(`label`\) not found"):
            pr.join_judgments(RUN, bought, label="grade")


#: Changes of rankings and of judgments, and what is wrong.
UNFIT: list[tuple[Any, Any, str]] = [
    (lambda run: run.rename({"score": "scores"}), None,
     "column 'score' (`score`) not found; available in `rankings`: 'run', "),
    (lambda run: run.rename({"score": "scores"}), None, "Did you mean 'scores'?"),
    (None, lambda judged: judged.rename({"label": "grade"}),
     "'label' (`label`) not found; available in `judgments`: 'query', 'doc', 'grade'. Name the"),
    (lambda run: run.with_columns(label=1), lambda judged: judged.drop("label"),
     "column 'label' is in `rankings` and in `judgments`"),
    (None, lambda judged: judged.with_columns(score=1),
     "column 'score' is in `rankings` and in `judgments`"),
    (None, lambda judged: judged.cast({"query": pl.String}),
     "is Int64 in `rankings` and String in `judgments`, so no rows would match; cast one of them, "
     "such as the second with .cast({'query': pl.Int64})"),
    (lambda run: run.cast({"query": pl.Float64}), None, "is Float64 in `rankings` and Int64 in"),
]  # fmt: skip


def test_tables_that_do_not_fit() -> None:
    def check(of_run: Any, of_judgments: Any, message: str) -> None:
        run = of_run(RUN) if of_run else RUN
        judgments = of_judgments(JUDGMENTS) if of_judgments else JUDGMENTS
        for tables in ((run, judgments), (run.lazy(), judgments)):
            with pytest.raises(pr.errors.SchemaError, match=re.escape(message)):
                pr.join_judgments(*tables)

    check_each(check, UNFIT)
    with pytest.raises(pr.errors.SchemaError, match="column 'system' .`run`. not found"):
        pr.join_judgments(RUN, JUDGMENTS, run="system")
    with pytest.raises(
        pr.errors.ArgumentError, match=r"`rankings` must be a table; found dict; .*from_dicts"
    ):
        pr.join_judgments({"query": [1]}, JUDGMENTS)


@pytest.mark.parametrize("keys", [["query"], ["run", "query"]])
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


ONE: Any = pl.DataFrame({"query": "q", "doc": ["a"], "score": [1.0]})


def from_file(judgments: pl.DataFrame, path: Path) -> Any:
    path.write_text("".join(f"{q} 0 {doc} {n}\n" for q, doc, n in judgments.rows()), "utf-8")
    return pr.scan_judgments(path)


def from_lists(judgments: pl.DataFrame, _: Path) -> Any:
    lists = judgments.group_by("query").agg(judged=pl.struct("doc", "label"))
    lists = lists.with_columns(shown=pl.lit(["a"]))
    return pr.from_lists(lists, retrieved="shown", relevant="judged", query="query")


WAYS: dict[str, Any] = {
    "eager": lambda judgments, _: pr.join_judgments(ONE, judgments),
    "lazy": lambda judgments, _: pr.join_judgments(ONE.lazy(), judgments.lazy()),
    "sorted": lambda judgments, _: pr.join_judgments(
        *(table.lazy().set_sorted("query") for table in (ONE, judgments))
    ),
    "subtopic": lambda judgments, _: pr.join_judgments(
        ONE, judgments.with_columns(subtopic=pl.lit("s")), subtopic="subtopic"
    ),
    "file": from_file,
    "lists": from_lists,
}


@pytest.mark.parametrize("way", WAYS)
def test_unequal_labels_are_an_error(way: str, tmp_path: Path) -> None:
    """Otherwise, the order of rows would decide which label counts."""
    conflict = CONFLICT.replace("'a', ", "'a', subtopic = 's', ") if way == "subtopic" else CONFLICT
    for judgments in (JUDGED_TWICE, JUDGED_TWICE.reverse()):
        with pytest.raises(pr.errors.DataError, match=conflict):
            WAYS[way](judgments, tmp_path / "qrels").lazy().collect()
    # Equal labels are one judgment.
    found = WAYS[way](JUDGED_TWICE.with_columns(label=1), tmp_path / "qrels").lazy().collect()
    assert found["doc"].sort().to_list() == ["a", "b"]


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
