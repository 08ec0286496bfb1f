"""`from_lists` and `join_judgments`: the long table from other forms of data."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars import col
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal
from rows import check_each

from polars_rank.errors import ArgumentError, DataError, SchemaError
from polars_rank.io.judgments import join_judgments
from polars_rank.io.lists import from_lists

#: Rankings and judgments have different queries on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*(leaves them out|do the ids match)")

Engine = Literal["in-memory", "streaming"]
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")

LISTS = pl.DataFrame(
    {
        "shown": [["a", "b"], ["c"], []],
        "bought": [["b", "d"], [], ["e"]],
        "grades": [[0, 3], [None], []],
        "country": ["DE", "FR", "DE"],
    }
)


def long(frame: pl.DataFrame, **lists: Any) -> list[tuple[Any, ...]]:
    """Return the rows of the long table, which must be equal on every engine."""
    table = from_lists(frame, **lists)
    for engine in ENGINES:
        assert_frame_equal(from_lists(frame.lazy(), **lists).collect(engine=engine), table)
    assert from_lists(frame.lazy(), **lists).collect_schema() == table.schema
    return table.rows()


# --- from_lists -----------------------------------------------------------------------------


BOTH = {"retrieved": "shown", "relevant": "bought"}
GRADED = {"retrieved": "shown", "labels": "grades"}
SCORES = pl.DataFrame({
    "shown": [["a", "b"], ["c"], None], "bought": [["a", "d"], ["c"], ["e"]],
    "scores": [[0.1, 0.9], [None], None], "grades": [[2, 0], [1], None],
})  # fmt: skip
NULLS = pl.DataFrame({
    "query": ["unjudged", "unretrieved", "empty", "unknown"],
    "shown": pl.Series([["a"], None, [], None], dtype=pl.List(pl.String)),
    "bought": [None, ["b"], [], None],
})  # fmt: skip
NUMBERS = pl.DataFrame({"shown": [[1, 2]], "bought": [[2]]})

#: A table of lists, the parameters, and the rows of the long table.
LONG: dict[str, tuple[pl.DataFrame, dict[str, str], list[tuple[Any, ...]]]] = {
    "ids": (LISTS.select("shown", "bought"), BOTH, [
        (0, "a", -1.0, 0), (0, "b", -2.0, 1), (0, "d", None, 1), (1, "c", -1.0, 0),
        (2, "e", None, 1),
    ]),
    "labels, whose place is the document": (
        pl.DataFrame({"label": [[3, 0], [1.5, None]]}, strict=False), {"labels": "label"},
        [(0, 1, -1.0, 3.0), (0, 2, -2.0, 0.0), (1, 1, -1.0, 1.5), (1, 2, -2.0, None)],
    ),
    "a label each": (LISTS.select("shown", "grades"), GRADED, [
        (0, "a", -1.0, 0), (0, "b", -2.0, 3), (1, "c", -1.0, None), (2, None, None, None),
    ]),
    "relevant ids with grades leave others unjudged": (
        pl.DataFrame({
            "shown": [[11, 12], [13]],
            "bought": [[{"item": 12, "grade": 4}, {"item": 14, "grade": -1}], []],
        }), BOTH,
        [(0, 11, -1.0, None), (0, 12, -2.0, 4), (0, 14, None, -1), (1, 13, -1.0, None)],
    ),
    "ids with scores in any order": (
        pl.DataFrame({
            "shown": [[{"item": "a", "s": 0.1}, {"item": "b", "s": 0.9}]], "bought": [["a", "c"]],
        }), BOTH, [(0, "a", 0.1, 1), (0, "b", 0.9, 0), (0, "c", None, 1)],
    ),
    "scores by place": (SCORES.drop("grades"), {**BOTH, "scores": "scores"}, [
        (0, "a", 0.1, 1), (0, "b", 0.9, 0), (0, "d", None, 1), (1, "c", None, 1),
        (2, "e", None, 1),
    ]),
    "scores and labels by place": (SCORES.drop("bought"), {**GRADED, "scores": "scores"}, [
        (0, "a", 0.1, 2), (0, "b", 0.9, 0), (1, "c", None, 1), (2, None, None, None),
    ]),
    "scores of labels": (
        SCORES.head(1).select("grades", "scores"), {"labels": "grades", "scores": "scores"},
        [(0, 1, 0.1, 2), (0, 2, 0.9, 0)],
    ),
    "null lists are unknown, and no query vanishes": (NULLS, BOTH, [
        ("unjudged", "a", -1.0, None), ("unretrieved", "b", None, 1), ("empty", None, None, None),
        ("unknown", None, None, None),
    ]),
    "null lists of labels": (
        NULLS.head(2).select("shown", grades=pl.Series([None, []], dtype=pl.List(pl.Int64))),
        GRADED, [(0, "a", -1.0, None), (1, None, None, None)],
    ),
    "a column of queries": (
        pl.DataFrame({"query": ["x", "y"], "labels": [[1], [0]]}), {"labels": "labels"},
        [("x", 1, -1.0, 1), ("y", 1, -1.0, 0)],
    ),
    "duplicates stay for evaluation to find": (
        pl.DataFrame({"shown": [["a", "a"]], "bought": [["a", "a", "b"]]}), BOTH,
        [(0, "a", -1.0, 1), (0, "a", -2.0, 1), (0, "b", None, 1)],
    ),
    "numbers of two types": (
        NUMBERS.cast({"shown": pl.Array(pl.Int64, 2), "bought": pl.List(pl.Int8)}), BOTH,
        [(0, 1, -1.0, 0), (0, 2, -2.0, 1)],
    ),
    "nothing relevant": (
        NUMBERS.with_columns(bought=pl.Series([[]], dtype=pl.List(pl.Null))), BOTH,
        [(0, 1, -1.0, 0), (0, 2, -2.0, 0)],
    ),
    "categories": (
        LISTS.head(1).select(pl.col("shown").cast(pl.List(pl.Categorical)), "bought"), BOTH,
        [(0, "a", -1.0, 0), (0, "b", -2.0, 1), (0, "d", None, 1)],
    ),
}  # fmt: skip


def test_long_tables() -> None:
    def check(name: str, frame: pl.DataFrame, lists: Any, rows: list[tuple[Any, ...]]) -> None:
        assert long(frame, **lists) == rows

    check_each(check, [(name, *row) for name, row in LONG.items()])


def test_scores_decide_the_order() -> None:
    frame = pl.DataFrame({"scores": [[0.2, 0.7, 0.1]], "labels": [[2, 0, 1]]})
    table = from_lists(frame, labels="labels", scores="scores")
    # By score: labels 0, 2, 1. DCG = 2 / log2(3) + 1 / log2(4); ideal 2 + 1 / log2(3).
    log3 = math.log2(3)
    assert pr.evaluate(table, "ndcg")["ndcg"].item() == pytest.approx(
        (2 / log3 + 1 / 2) / (2 + 1 / log3)
    )


def test_other_columns_are_repeated_and_queries_named() -> None:
    table = from_lists(
        LISTS.with_columns(user=pl.Series([7, 7, 8]), day=pl.Series([1, 2, 1])),
        retrieved="shown",
        relevant="bought",
        query=["user", "day"],
    )
    assert table.columns == ["user", "day", "doc", "score", "label", "grades", "country"]
    assert table["country"].to_list() == ["DE", "DE", "DE", "FR", "DE"]
    assert table.select("user", "day").rows() == [(7, 1), (7, 1), (7, 1), (7, 2), (8, 1)]


def test_an_empty_frame_gives_an_empty_table() -> None:
    table = from_lists(LISTS.clear(), retrieved="shown", relevant="bought")
    full = from_lists(LISTS, retrieved="shown", relevant="bought")
    assert_frame_equal(table, full.clear())


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 9), max_size=6, unique=True),
            st.lists(st.integers(0, 9), max_size=6, unique=True),
        ),
        min_size=5,
        max_size=30,
    )
)
def test_any_lists_against_plain_python(lists: list[tuple[list[int], list[int]]]) -> None:
    frame = pl.DataFrame(
        lists, schema={"shown": pl.List(pl.Int64), "bought": pl.List(pl.Int64)}, orient="row"
    )
    expected: list[tuple[int, int | None, float | None, int | None]] = []
    for query, (shown, bought) in enumerate(lists):
        expected += [(query, d, -float(i), int(d in bought)) for i, d in enumerate(shown, 1)]
        expected += [(query, d, None, 1) for d in bought if d not in shown]
        expected += [] if shown or bought else [(query, None, None, None)]
    assert long(frame, retrieved="shown", relevant="bought") == expected


#: Columns beside those of `LISTS`, parameters, and what is wrong.
WRONG: list[tuple[dict[str, Any], dict[str, str], type[Exception], str]] = [
    ({}, {}, ArgumentError, "pass `retrieved` and `relevant`, `retrieved` and `labels`, or `labels`"),
    ({}, {"retrieved": "shown"}, ArgumentError, "found `retrieved`; for labels of relevant docum"),
    ({}, {"relevant": "bought"}, ArgumentError, "found `relevant`"),
    ({}, {"relevant": "bought", "labels": "grades"}, ArgumentError, "found `relevant`, `labels`"),
    ({}, {"scores": "grades"}, ArgumentError, "found `scores`"),
    ({"structs": [[{"id": "a", "score": 1.0}]] * 3},
     {"retrieved": "structs", "relevant": "bought", "scores": "grades"}, ArgumentError,
     "column 'structs' (`retrieved`) already has scores; leave out `scores`"),
    ({}, {**BOTH, "labels": "grades"}, ArgumentError,
     "found `retrieved`, `relevant`, `labels`; for labels of relevant documents, pass a column"),
    ({}, {**BOTH, "query": "shown"}, ArgumentError, "'shown' is used for both `query` and `retr"),
    ({}, {"labels": "grade"}, SchemaError, "column 'grade' (`labels`) not found; available: 'shown'"),
    ({}, {"labels": "grade"}, SchemaError, "Did you mean 'grades'?"),
    ({}, {"labels": "grades", "query": "q"}, SchemaError, "column 'q' (`query`) not found"),
    ({}, {"labels": "grades", "scores": "score"}, SchemaError, "'score' (`scores`) not found"),
    ({"doc": [1] * 3}, {"labels": "grades"}, SchemaError, "the table already has a column 'doc'; re"),
    ({}, {"labels": "country"}, SchemaError, "'country' (`labels`) must hold lists of numbers"),
    ({}, {"labels": "shown"}, SchemaError, "'shown' (`labels`) must hold lists of numbers"),
    ({}, {"labels": "grades", "scores": "shown"}, SchemaError, "'shown' (`scores`) must hold lists"),
    ({"deep": [[[1]]] * 3}, {"retrieved": "deep", "labels": "grades"}, SchemaError,
     "'deep' (`retrieved`) must hold lists of ids, or of structs (id, score)"),
    ({"deep": [[{"id": "a", "grade": "good"}]] * 3}, {"retrieved": "shown", "relevant": "deep"},
     SchemaError, "'deep' (`relevant`) must hold lists of ids, or of structs (id, label)"),
    ({"found": [[0.5, 0.25]] * 3}, {"retrieved": "found", "labels": "grades"}, SchemaError,
     "'found' (`retrieved`) must hold lists of ids; found List(Float64); if it holds scores, pass"),
    ({"found": [[0.5, 1.0]] * 3}, {"retrieved": "shown", "relevant": "found"}, SchemaError,
     "'found' (`relevant`) must hold lists of ids; found List(Float64); if it holds labels, pass"),
    ({}, {"retrieved": "shown", "relevant": "grades"}, SchemaError,
     "ids are String in column 'shown' and Int64 in column 'grades', so none would match"),
]  # fmt: skip


def test_columns_that_do_not_fit() -> None:
    def check(columns: Any, lists: Any, error: type[Exception], message: str) -> None:
        frame = LISTS.with_columns(**{name: pl.Series(x) for name, x in columns.items()})
        for table in (frame, frame.lazy()):
            with pytest.raises(error, match=re.escape(message)):
                from_lists(table, **lists)

    check_each(check, WRONG)


@pytest.mark.parametrize(
    ("columns", "lists", "message"),
    [
        ({"shown": [["a", "b"], ["c"]], "grades": [[1, 0], [2, 3]]}, GRADED,
         "lists in column 'grades' are not as long as in 'shown' (rows: 1; the first: query = 1, "),
        ({"scores": [[0.5], [0.5, 0.25]], "grades": [[1, 0], [2, 3]]},
         {"labels": "grades", "scores": "scores"},
         "lists in column 'scores' are not as long as in 'grades' "),
        ({"shown": [["a"], ["b", None]], "bought": [["a"], ["b"]]}, BOTH,
         "'shown' has lists with a null id (rows: 1; the first: query = 1, position = 2)"),
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(columns: Any, lists: Any, message: str) -> None:
    for engine in ENGINES:
        with pytest.raises(DataError, match=re.escape(message)):
            from_lists(pl.LazyFrame(columns), **lists).collect(engine=engine)


# --- join_judgments -------------------------------------------------------------------------

RUN = pl.DataFrame(
    {
        "run": ["A", "A", "B"],
        "query": [1, 1, 1],
        "doc": ["a", "b", "c"],
        "score": [0.9, 0.8, 0.7],
    }
)
JUDGMENTS = pl.DataFrame({"query": [1, 1, 2], "doc": ["b", "c", "z"], "label": [2, 0, 1]})
JOINED = [
    ("A", 1, "a", 0.9, None),
    ("A", 1, "b", 0.8, 2),
    ("A", 1, "c", None, 0),
    ("A", 2, "z", None, 1),
    ("B", 1, "b", None, 2),
    ("B", 1, "c", 0.7, 0),
    ("B", 2, "z", None, 1),
]


def test_every_run_gets_all_judgments() -> None:
    assert sorted(join_judgments(RUN, JUDGMENTS).rows()) == JOINED
    systems, all_judgments = RUN.rename({"run": "system"}), JUDGMENTS
    assert sorted(join_judgments(systems, all_judgments, run="system").rows()) == JOINED


def test_one_run_or_none_named() -> None:
    expected = [row[1:] for row in JOINED[:4]]
    one = RUN.filter(col("run") == "A").drop("run")
    assert sorted(join_judgments(one, JUDGMENTS).rows(), key=str) == sorted(expected, key=str)
    joined = join_judgments(RUN, JUDGMENTS, run=None)
    assert joined.filter(col("run").is_null()).rows() == [(None, 2, "z", None, 1)]


def test_every_run_of_a_group_gets_all_judgments() -> None:
    days = RUN.with_columns(day=pl.Series([1, 1, 2]))
    joined = join_judgments(days, JUDGMENTS, by="day")
    # Runs A and B are in one group each: the rows are those without groups.
    assert sorted(joined.drop("day").rows()) == JOINED
    assert joined.filter(day=2)["run"].unique().to_list() == ["B"]
    assert_frame_equal(join_judgments(RUN, JUDGMENTS, by="run"), join_judgments(RUN, JUDGMENTS))
    with pytest.raises(SchemaError, match="column 'system' .`run`. not found"):
        join_judgments(RUN, JUDGMENTS, run="system")


@pytest.mark.parametrize("engine", ENGINES)
def test_lazy_if_one_is_lazy(engine: Engine) -> None:
    for run, judgments in [
        (RUN.lazy(), JUDGMENTS.lazy()),
        (RUN, JUDGMENTS.lazy()),
        (RUN.lazy(), JUDGMENTS),
    ]:
        joined = join_judgments(run, judgments)
        assert isinstance(joined, pl.LazyFrame)
        assert sorted(joined.collect(engine=engine).rows()) == JOINED


def test_other_columns_and_names() -> None:
    run = RUN.rename({"query": "topic", "doc": "docno", "score": "sim"})
    judgments = JUDGMENTS.rename({"query": "topic", "doc": "docno", "label": "rel"})
    joined = join_judgments(
        run.with_columns(shard=pl.Series([1, 2, 1])),
        judgments.with_columns(assessor=pl.lit("x")),
        query="topic",
        doc="docno",
        score="sim",
        label="rel",
    )
    assert joined.columns == ["run", "topic", "docno", "sim", "shard", "rel", "assessor"]
    assert sorted(joined.select("run", "topic", "docno", "sim", "rel").rows()) == JOINED
    assert joined.filter(col("sim").is_null())["shard"].null_count() == 4


def test_columns_of_lists_runs_and_queries_are_known_where_only_judgments_are() -> None:
    run = RUN.with_columns(
        version=pl.Series([7, 7, 8]),  # of the run
        session=pl.Series(["x", "x", "y"]),  # of the list
        market=pl.lit("web"),  # of the query
        shard=pl.Series([1, 2, 1]),  # of the document
        country=pl.Series(["DE", None, "DE"]),  # missing in a part of the query
    )
    joined = join_judgments(run, JUDGMENTS)
    columns = ["run", "query", "doc", "version", "session", "market", "shard", "country"]
    assert sorted(joined.filter(col("score").is_null()).select(columns).rows()) == [
        ("A", 1, "c", 7, "x", "web", None, None),
        ("A", 2, "z", 7, "x", "web", None, None),
        ("B", 1, "b", 8, "y", "web", None, None),
        ("B", 2, "z", 8, "y", "web", None, None),
    ]
    assert joined.filter(doc="b", run="A")["country"].to_list() == [None]
    for engine in ENGINES:
        lazily = join_judgments(run.lazy(), JUDGMENTS.lazy())
        assert lazily.collect_schema() == joined.schema
        assert_frame_equal(lazily.collect(engine=engine), joined, check_row_order=False)


def test_columns_of_queries_are_groups() -> None:
    run = pl.DataFrame({
        "query": [1, 1, 2, 2], "doc": ["a", "b", "a", "b"], "score": [0.9, 0.8, 0.7, 0.6],
        "country": ["DE", "DE", "FR", "FR"], "price": [1, 2, 3, 3],
    })  # fmt: skip
    judgments = pl.DataFrame({"query": [1, 1, 2, 3], "doc": list("azzz"), "label": [1, 1, 1, 1]})
    joined = join_judgments(run, judgments)
    assert joined.filter(doc="z").sort("query").select("query", "country", "price").rows() == [
        (1, "DE", None), (2, "FR", None), (3, None, None),  # no run has the query 3
    ]  # fmt: skip
    by_country = pr.evaluate(joined.filter(col("query") < 3), "recall", by="country")
    assert by_country.rows() == [("DE", 1, 1 / 2), ("FR", 1, 0.0)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("AB"),
            st.integers(0, 2),
            st.integers(0, 4),
            st.sampled_from([0, 1, None]),
        ),
        unique_by=lambda row: row[:3],
        min_size=5,
    ),
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
    joined = join_judgments(run, judgments)
    assert {row[:3]: row[3:] for row in joined.rows()} == expected
    assert joined.height == len(expected)


@pytest.mark.parametrize(
    ("layout", "by"), [("sorted", None), ("adjacent", "run"), ("shuffled", None)]
)
def test_numbers_and_order_of_a_scanned_log_are_forgotten(
    tmp_path: Path, layout: Any, by: str | None
) -> None:
    queries = {"sorted": [1, 1, 3, 3], "adjacent": [3, 3, 1, 1], "shuffled": [3, 1, 3, 1]}[layout]
    run = pl.DataFrame(
        {"run": "A", "query": queries, "doc": list("abcd"), "score": [4.0, 3.0, 2.0, 1.0]}
    )
    judgments = pl.DataFrame(
        {"query": [*queries, 0, 0, 2, 2], "doc": list("abcd") * 2, "label": [0, 1] * 4}
    )
    run.write_parquet(tmp_path / "run.parquet")
    scanned = pr.scan_log(tmp_path / "run.parquet", by=by, layout=layout)
    joined = join_judgments(scanned, judgments)
    assert joined.collect_schema().names() == ["run", "query", "doc", "score", "label"]
    expected = pr.evaluate(join_judgments(run, judgments), ["rr", "recall"], by="run")
    assert expected["queries"].item() == 4
    for engine in ENGINES:
        found = pr.evaluate(joined, ["rr", "recall"], by="run").collect(engine=engine)
        assert_frame_equal(found, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_run_is_read_once(engine: Engine) -> None:
    reads = 0

    def read(columns: Any, *_: Any) -> Iterator[pl.DataFrame]:
        nonlocal reads
        reads += 1
        yield run if columns is None else run.select(columns)

    run = RUN.with_columns(country=pl.lit("DE"))
    source = register_io_source(read, schema=run.schema)  # as scan_run and scan_log make
    join_judgments(source, JUDGMENTS).collect(engine=engine)
    assert reads == 1


def test_queries_of_several_columns() -> None:
    run = RUN.with_columns(day=pl.Series([1, 1, 1]))
    judgments = JUDGMENTS.with_columns(day=pl.Series([1, 2, 1]))
    joined = join_judgments(run, judgments, query=["day", "query"])
    assert sorted(
        joined.filter(run="B").select("day", "query", "doc", "label").rows(), key=str
    ) == [
        (1, 1, "b", 2),
        (1, 1, "c", None),
        (1, 2, "z", 1),
        (2, 1, "c", 0),
    ]


def test_kinds_of_keys_that_match() -> None:
    enum = pl.Enum(["b", "c", "z"])
    kinds = ({"query": pl.Int16}, {"query": pl.UInt64}, {"doc": pl.Categorical}, {"doc": enum})
    for types in kinds:
        assert sorted(join_judgments(RUN, JUDGMENTS.cast(types)).rows()) == JOINED
    assert sorted(join_judgments(RUN.to_arrow(), JUDGMENTS).rows()) == JOINED


def test_empty_tables() -> None:
    joined = join_judgments(RUN, JUDGMENTS.clear())
    assert sorted(joined.rows()) == [(*row, None) for row in RUN.rows()]
    assert join_judgments(RUN.clear().drop("run"), JUDGMENTS)["score"].null_count() == 3
    assert join_judgments(RUN.clear(), JUDGMENTS).is_empty()


@pytest.mark.parametrize("times", [[], ["at"]])
def test_judgments_without_labels_are_relevant(times: list[str]) -> None:
    bought = JUDGMENTS.select("query", "doc", at=pl.date(2026, 1, 1)).drop([] if times else ["at"])
    joined = join_judgments(RUN, bought)
    expected = join_judgments(RUN, bought.with_columns(label=pl.lit(1, pl.Int64))).select(
        joined.columns
    )
    assert_frame_equal(joined, expected, check_row_order=False)
    with pytest.raises(SchemaError, match=r"column 'grade' \(`label`\) not found"):
        join_judgments(RUN, bought, label="grade")


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
            with pytest.raises(SchemaError, match=re.escape(message)):
                join_judgments(*tables)

    check_each(check, UNFIT)
    with pytest.raises(
        ArgumentError, match=r"`rankings` must be a table; found dict; .*from_dicts"
    ):
        join_judgments({"query": [1]}, JUDGMENTS)
