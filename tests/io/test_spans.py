"""`join_spans` against sets of characters in plain Python."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Literal

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from rows import check_each

CHUNKS = {"run": pl.String, "query": pl.Int64, "doc": pl.String, "start": pl.Int64, "end": pl.Int64}
GOLD = {**CHUNKS, "label": pl.Int64}
del GOLD["run"]
CHARACTERS = ["character_recall", "character_precision", "chunk_precision", "character_iou"]

#: Runs, queries, documents, starts and lengths.
chunk_rows = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.sampled_from("xy"), st.integers(0, 6),
              st.integers(0, 6)), min_size=4, max_size=20, unique=True,
)  # fmt: skip
span_rows = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("xy"), st.integers(0, 6), st.integers(1, 6),
              st.sampled_from((0, 1, 1, 2))), max_size=9, unique_by=lambda row: row[:4],
)  # fmt: skip


def chunks_of(rows: Iterable[tuple[str, int, str, int, int]]) -> pl.DataFrame:
    table = [(*row[:4], row[3] + row[4]) for row in rows]
    chunks = pl.DataFrame(table, CHUNKS, orient="row")
    return chunks.with_columns(score=-pl.int_range(pl.len()).cast(pl.Float64))


def gold_of(rows: Iterable[tuple[int, str, int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame([(*r[:3], r[2] + r[3], r[4]) for r in rows], GOLD, orient="row")


def text(part: dict[str, Any]) -> set[tuple[str, int]]:
    return {(part["doc"], place) for place in range(part["start"], part["end"])}


def union(parts: Iterable[dict[str, Any]]) -> set[tuple[str, int]]:
    return set(chain.from_iterable(map(text, parts)))


def covered_by(
    chunk: dict[str, Any], spans: list[dict[str, Any]], overlap: float, of: str
) -> list[dict[str, Any]]:
    """Return the spans that a chunk covers."""
    found = [span for span in spans if text(span) & text(chunk)]
    if not overlap:
        return found
    if of == "gold":
        return [s for s in found if len(text(s) & text(chunk)) >= overlap * len(text(s))]
    kinds = ([s for s in found if s["label"] > 0], [s for s in found if s["label"] == 0])
    needed = overlap * len(text(chunk))
    return [s for kind in kinds for s in kind if len(union(kind) & text(chunk)) >= needed]


def judged(doc: dict[str, Any], score: float | None, spans: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "doc": {name: doc[name] for name in ("doc", "start", "end")},
        "score": score,
        "label": max((span["label"] for span in spans), default=None),
        "subtopics": sorted(s["number"] for s in spans if s["label"] > 0) if spans else None,
    }


def oracle(chunks: pl.DataFrame, gold: pl.DataFrame, overlap: float, of: str) -> pl.DataFrame:
    """Return the long table of one or several runs."""
    spans = [{**span, "number": i} for i, span in enumerate(gold.iter_rows(named=True))]
    rows, missed = [], []
    found: set[tuple[str, int]] = set()
    for chunk in chunks.iter_rows(named=True):
        own = [span for span in spans if span["query"] == chunk["query"]]
        covers = covered_by(chunk, own, overlap, of)
        found |= {(chunk["run"], span["number"]) for span in covers}
        rows.append({**chunk, **judged(chunk, chunk["score"], covers)})
    for run in chunks["run"].unique(maintain_order=True):
        missed += [
            {"run": run, "query": span["query"], **judged(span, None, [span])}
            for span in spans
            if (run, span["number"]) not in found
        ]
    schema = pr.join_spans(chunks, gold).schema
    return pl.DataFrame([*rows, *missed], schema)


def shares(chunks: list[dict[str, Any]], spans: list[dict[str, Any]]) -> list[float | None]:
    retrieved, relevant = union(chunks), union(s for s in spans if s["label"] > 0)
    found, either = len(retrieved & relevant), len(retrieved | relevant)
    total = sum(len(text(chunk)) for chunk in chunks)
    return [
        found / len(relevant) if relevant else None,
        found / max(len(retrieved), 1) if either else None,
        found / max(total, 1) if either else None,
        found / either if either else None,
    ]


@given(
    chunks=chunk_rows, spans=span_rows, overlap=st.sampled_from((0.25, 0.5, 1, "any")),
    of=st.sampled_from(("gold", "chunk")), engine=st.sampled_from(("in-memory", "streaming")),
)  # fmt: skip
def test_equals_its_oracle(
    chunks: list[Any], spans: list[Any], overlap: float | Literal["any"], of: Any, engine: Any
) -> None:
    retrieved, gold = chunks_of(chunks), gold_of(spans)
    least = 0 if overlap == "any" else overlap
    expected = oracle(retrieved, gold, least, of)
    table = pr.join_spans(retrieved.lazy(), gold.lazy(), overlap, of=of).collect(engine=engine)
    assert_frame_equal(table, expected)
    assert_frame_equal(pr.join_spans(retrieved, gold, overlap, of=of), expected)


@given(chunks=chunk_rows, spans=span_rows)
def test_characters_equal_sets(chunks: list[Any], spans: list[Any]) -> None:
    retrieved, gold = chunks_of(chunks), gold_of(spans)
    table = pr.join_spans(retrieved, gold, characters=True)
    for (run, query), rows in table.group_by("run", "query"):
        own = gold.filter(query=query).rows(named=True)
        expected = shares(retrieved.filter(run=run, query=query).rows(named=True), own)
        assert rows.select(CHARACTERS).unique().rows() == [tuple(expected)]
    assert_frame_equal(table.drop(CHARACTERS), pr.join_spans(retrieved, gold))


def example(size: int) -> pl.DataFrame:
    """Return all chunks of a document of 120 characters."""
    starts = range(0, 120, size)
    return pl.DataFrame({"query": 1, "doc": "x", "start": starts}).with_columns(
        end=pl.col("start") + size, score=-pl.col("start").cast(pl.Float64)
    )


SPANS = pl.DataFrame({"query": [1, 1, 1], "doc": ["x", "x", "y"], "start": [0, 70, 0],
                      "end": [30, 80, 9]})  # fmt: skip


def test_recall_of_spans_does_not_depend_on_chunks() -> None:
    for size in (10, 30, 40):
        found = pr.evaluate(pr.join_spans(example(size), SPANS, "any"), "subtopic_recall")
        assert found["subtopic_recall"].item() == pytest.approx(2 / 3)


def test_values_of_characters_are_compared_like_metrics() -> None:
    table = pr.join_spans(example(30), SPANS, characters=True)
    values = pr.per_query(table, "rr", keep=CHARACTERS)
    means = pr.summarize(values, CHARACTERS)["mean"].to_list()
    assert means == pytest.approx([40 / 49, 40 / 120, 40 / 120, 40 / 129])


@pytest.mark.parametrize("options", [{}, {"of": "chunk"}, {"overlap": "any"}])
def test_a_chunk_without_text_covers_nothing(options: dict[str, Any]) -> None:
    gold = gold_of([(1, "x", 0, 10, 1)])
    empty = chunks_of([("a", 1, "x", 5, 0)])
    table = pr.join_spans(empty, gold, characters=True, **options)
    # The span from 0 to 10 is missed: a second row, without a score.
    assert table.select("score", "label", "subtopics").rows() == [(0, None, None), (None, 1, [0])]
    assert table["character_recall"].to_list() == [0.0, 0.0]
    values = pr.per_query(table, ["rr", "subtopic_recall"])
    assert values.select("rr", "subtopic_recall").rows() == [(0, 0)]


def test_a_span_that_occurs_twice_counts_once() -> None:
    assert_frame_equal(
        pr.join_spans(example(30), pl.concat([SPANS, SPANS])), pr.join_spans(example(30), SPANS)
    )


def test_columns_may_have_other_names_and_types() -> None:
    names = {"query": "q", "doc": "d", "start": "s", "end": "e", "score": "sim"}
    chunks = example(30).rename(names).cast({"s": pl.UInt16, "e": pl.UInt32})
    gold = SPANS.rename({**names, "score": "score"}, strict=False).with_columns(grade=pl.lit(2.5))
    options = {"query": "q", "doc": "d", "start": "s", "end": "e", "score": "sim", "label": "grade"}
    table = pr.join_spans(chunks, gold, **options)
    plain = pr.join_spans(example(30), SPANS.with_columns(label=pl.lit(2.5)))
    assert table.columns == ["q", "d", "sim", "grade", "subtopics"]
    assert table["sim"].to_list() == plain["score"].to_list()
    assert table["subtopics"].to_list() == plain["subtopics"].to_list()


def test_other_columns_stay_and_constants_of_queries_extend_to_missed_spans() -> None:
    chunks = example(30).with_columns(
        text=pl.lit("…") + pl.col("start").cast(pl.String), lang=pl.lit("de")
    )
    table = pr.join_spans(chunks, SPANS)
    assert table["lang"].to_list() == ["de"] * 5
    assert table["text"].to_list() == ["…0", "…30", "…60", "…90", None]


def test_queries_without_chunks_and_without_spans_stay() -> None:
    empty = pl.DataFrame({"query": [2, 3]}, {"query": pl.Int32})
    chunks = pl.concat([example(30), empty], how="diagonal_relaxed")
    gold = pl.concat([SPANS, empty.head(1)], how="diagonal_relaxed")
    values = pr.per_query(pr.join_spans(chunks, gold), ["abstained", "answered"], undefined="null")
    assert values.rows() == [(1, None, 1.0), (2, 1.0, None), (3, 1.0, None)]


#: A parameter of `join_spans`, new columns of its table, and what is wrong.
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("retrieved", {"start": pl.lit(1000)}, "'start' (`start`) is after 'end' (`end`)"),
    ("retrieved", {"end": pl.lit(None, int)}, "'start' (`start`) or 'end' (`end`) has nulls"),
    ("retrieved", {"score": pl.lit(None, float)}, "column 'score' (`score`) has nulls"),
    ("retrieved", {"query": pl.lit(None, int)}, "column 'query' (`query`) has nulls"),
    ("gold", {"end": pl.col("start")}, "spans are empty"),
    ("gold", {"end": pl.lit(None, int)}, "'start' (`start`) or 'end' (`end`) has nulls"),
    ("gold", {"label": pl.lit(float("nan"))}, "column 'label' (`label`) has nulls or NaN"),
    ("gold", {"query": pl.lit(None, int)}, "column 'query' (`query`) has nulls"),
    ("gold", {"start": 0, "end": 9, "doc": pl.lit("x"), "label": pl.int_range(3)},
     "`gold` have several labels for one span of a query"),
]  # fmt: skip


def test_invalid_rows() -> None:
    def check(table: str, columns: dict[str, Any], problem: str) -> None:
        tables = {"retrieved": example(30), "gold": SPANS}
        tables[table] = tables[table].with_columns(**columns)
        with pytest.raises(pr.errors.DataError, match=re.escape(problem)):
            pr.join_spans(*tables.values())

    check_each(check, BAD)


def test_invalid_arguments() -> None:
    for overlap in (0, 1.5, "some", True):
        with pytest.raises(pr.errors.ArgumentError, match="`overlap` must be a number above 0"):
            pr.join_spans(example(30), SPANS, overlap)
    with pytest.raises(pr.errors.SchemaError, match=r"'end' \(`end`\).*in `gold`"):
        pr.join_spans(example(30), SPANS.drop("end"))
    with pytest.raises(pr.errors.SchemaError, match="of `gold` must be integers; found Float64"):
        pr.join_spans(example(30), SPANS.cast({"end": pl.Float64}))
    with pytest.raises(pr.errors.SchemaError, match="`retrieved` already has a column 'label'"):
        pr.join_spans(example(30).with_columns(label=1), SPANS)
    with pytest.raises(pr.errors.ArgumentError, match="is used for both `start` and `end`"):
        pr.join_spans(example(30), SPANS, end="start")
