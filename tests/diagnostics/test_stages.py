"""`stages` against plain Python, and the stage that `movers` names."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import oracles
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import Doc
from polars.testing import assert_frame_equal

ORDER = ["retrieved", "filtered", "reranked"]
SCHEMA = {
    "stage": pl.String, "query": pl.Int64, "doc": pl.Int64, "score": pl.Float64, "label": pl.Int64
}  # fmt: skip


def log_of(rows: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(rows, SCHEMA, orient="row")


#: Query 1: document 2 is relevant and was not retrieved; the filter loses 3, the reranker turns 4
#: and 5. Query 2: the filter loses all. Query 3 has no relevant document.
LOG = log_of([
    *(("retrieved", 1, doc, 10.0 - doc, label) for doc, label in ((3, 1), (4, 0), (5, 1))),
    (None, 1, 2, None, 1),
    *(("filtered", 1, doc, 10.0 - doc, None) for doc in (4, 5)),
    *(("reranked", 1, doc, float(doc), None) for doc in (4, 5)),
    *(("retrieved", 2, 7, 1.0, 1), ("retrieved", 3, 8, 1.0, 0), ("filtered", 3, 8, 1.0, 0)),
    ("reranked", 3, 8, 1.0, 0),
])  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_stages_by_hand(engine: Any) -> None:
    table = pr.diagnostics.stages(LOG.lazy(), "rr", order=ORDER, details=True)
    table = table.collect(engine=engine)
    assert table.columns == [
        *("stage", "depth", "kept", "lost", "mean", "difference", "low", "high", "ceiling"),
        "lost_documents",
    ]
    # RR of queries 1, 2 and 3: 1, 1, 0; then 1/2, 0, 0; then 1, 0, 0. Relevant: 2, 3, 5 and 7.
    rows = table.select("stage", "depth", "kept", "lost", "mean", "difference", "ceiling").rows()
    assert rows == [
        ("retrieved", 3, 3 / 4, 1, pytest.approx(2 / 3), None, pytest.approx(2 / 3)),
        ("filtered", 2, 1 / 4, 2, pytest.approx(1 / 6), pytest.approx(-1 / 2), approx(2 / 3)),
        ("reranked", 2, 1 / 4, 0, pytest.approx(1 / 3), pytest.approx(1 / 6), approx(1 / 3)),
    ]
    lost = table.explode("lost_documents", empty_as_null=False).unnest("lost_documents")
    assert lost.select("stage", "query", "doc").rows() == [
        ("retrieved", 1, 2), ("filtered", 1, 3), ("filtered", 2, 7)
    ]  # fmt: skip


def approx(value: float) -> Any:
    return pytest.approx(value)


docs = st.lists(
    st.builds(Doc, st.integers(0, 8), st.sampled_from((None, 1.0, 2.0)), st.sampled_from((0, 1))),
    min_size=1, max_size=6, unique_by=lambda doc: doc.doc,
)  # fmt: skip
#: The documents of queries, and which of them each later stage has, with which score.
pipelines = st.lists(
    st.tuples(docs, *[st.lists(st.sampled_from((None, 0.5, 1.0, 2.0)), min_size=6, max_size=6)] * 2),
    min_size=2, max_size=6,
)  # fmt: skip


@given(pipelines=pipelines, as_enum=st.booleans())
def test_equals_its_oracle(pipelines: list[Any], as_enum: bool) -> None:
    """Documents may come back: a stage may have some that the stage before does not have."""
    of_stages = [
        [
            docs if place == 0 else [d._replace(score=s) for d, s in zip(docs, scores[place - 1])]
            for docs, *scores in pipelines
        ]
        for place in range(3)
    ]
    log = log_of([
        (stage, query, doc.doc, doc.score, doc.label)
        for stage, queries in zip(ORDER, of_stages, strict=True)
        for query, docs in enumerate(queries)
        for doc in docs
        # Documents without a score may be absent from later stages.
        if stage == "retrieved" or doc.score is not None or doc.doc % 2
    ] + [(stage, -1, 0, 1.0, 0) for stage in ORDER])  # fmt: skip
    log = log.with_columns(pl.col("stage").cast(pl.Enum(ORDER))) if as_enum else log
    table = pr.diagnostics.stages(
        log, "p@2", order=None if as_enum else ORDER, details=True, ties="worst"
    )
    relevant = sum(doc.label for docs, *_ in pipelines for doc in docs)
    before: Any = None
    for row, queries in zip(table.iter_rows(named=True), of_stages, strict=True):
        ranked = [sorted(oracles.retrieved(q), key=lambda d: (-d.score, d.label)) for q in queries]
        best = [sorted(oracles.retrieved(q), key=lambda d: -d.label) for q in queries]
        values = [sum(d.label for d in docs[:2]) / 2 for docs in ranked] + [0]
        there = {(q, d.doc) for q, docs in enumerate(ranked) for d in docs if d.label}
        every = {(q, d.doc) for q, docs in enumerate(queries) for d in docs if d.label}
        received = every if before is None else before[0]
        assert row["depth"] == max(1, *map(len, ranked))
        assert row["kept"] == (approx(len(there) / relevant) if relevant else None)
        assert row["lost"] == len(received - there)
        lost = {(each["query"], each["doc"]) for each in row["lost_documents"]}
        assert lost == received - there
        assert row["mean"] == approx(fmean(values))
        judged = [sorted(q, key=lambda d: -d.label) for q in queries]
        ceiling = judged if before is None else before[1]
        assert row["ceiling"] == approx(
            fmean([*(sum(d.label for d in docs[:2]) / 2 for docs in ceiling), 0])
        )
        if before is not None:
            assert row["difference"] == approx(fmean(values) - fmean(before[2]))
        before = there, best, values


def test_the_interval_is_that_of_compare() -> None:
    candidates = pr.datasets.search_log(120, runs=["x"], seed=5).collect().drop("run")
    candidates = candidates.select("query", "doc", "score", "label", "country")
    reranked = candidates.with_columns(score=pl.col("doc").hash(1) % 100 / 1.0)
    log = pl.concat([candidates.with_columns(stage=1), reranked.with_columns(stage=2)])
    table = pr.diagnostics.stages(log, "ndcg@10", order=[1, 2], by="country", confidence=0.9)
    values = pr.per_query(log, "ndcg@10", run="stage", by="country")
    expected = pr.compare(
        values, run="stage", by="country", baseline=1, confidence=0.9, correction=False
    )
    columns = ["country", "stage", "difference", "low", "high"]
    assert_frame_equal(table.filter(stage=2).select(columns), expected.select(columns))
    one = pr.diagnostics.stages(candidates.with_columns(stage=1), "ndcg@10")
    alone = pr.diagnostics.headroom(candidates, "ndcg@10")
    assert one.select("mean", "ceiling").row(0) == alone.select("value", "complete").row(0)


def test_a_reranker_whose_loss_is_known() -> None:
    """The candidates are in the best order; the reranker drops the first document of each tenth
    query and turns the first two of each fifth one, of which only the first is relevant."""
    log = log_of([("retrieved", q, d, -d, int(d == 0)) for q in range(100) for d in range(4)])
    reranked = log.with_columns(
        stage=pl.lit("reranked"), score=pl.when(pl.col("query") % 5 == 1, pl.col("doc") == 0)
        .then(-1.5).otherwise("score"),
    ).filter((pl.col("query") % 10 != 0) | (pl.col("doc") != 0))  # fmt: skip
    table = pr.diagnostics.stages(pl.concat([log, reranked]), "rr", order=["retrieved", "reranked"])
    row = table.row(1, named=True)
    # 10 queries lose 1, and 20 queries lose 1/2.
    assert row["difference"] == pytest.approx(-(10 * 1 + 20 / 2) / 100)
    assert (row["kept"], row["lost"], row["ceiling"]) == (90 / 100, 10, 1.0)
    assert row["low"] < row["difference"] < row["high"] < 0


def test_each_run_has_its_own_stages() -> None:
    other = LOG.filter((pl.col("stage") != "filtered").fill_null(value=True))
    both = pl.concat([LOG.with_columns(run=pl.lit("a")), other.with_columns(run=pl.lit("b"))])
    table = pr.diagnostics.stages(both, "rr", order=ORDER)
    assert table.columns[:2] == ["run", "stage"]
    alone = pr.diagnostics.stages(LOG, "rr", order=ORDER)
    assert_frame_equal(table.filter(run="a").drop("run"), alone)
    alone = pr.diagnostics.stages(other, "rr", order=["retrieved", "reranked"])
    assert_frame_equal(table.filter(run="b").drop("run"), alone)


def test_scores_labels_and_duplicates_follow_the_options() -> None:
    expected = pr.diagnostics.stages(LOG, "rr", order=ORDER)
    lower = LOG.with_columns(distance=-pl.col("score")).drop("score")
    for options in ({"score": "-distance"}, {"score": 1 - pl.col("distance")}):
        assert_frame_equal(pr.diagnostics.stages(lower, "rr", order=ORDER, **options), expected)
    place = pl.col("score").rank("ordinal", descending=True).over("stage", "query")
    ranked = LOG.with_columns(position=place).drop("score")
    result = pr.diagnostics.stages(ranked, "rr", order=ORDER, position="position")
    assert_frame_equal(result, expected)
    twice = pr.diagnostics.stages(pl.concat([LOG, LOG]), "rr", order=ORDER, duplicates="max")
    assert_frame_equal(twice, expected)
    # With a threshold of 2, nothing is relevant.
    with pytest.warns(pr.errors.RankWarning, match="undefined for all rankings"):
        table = pr.diagnostics.stages(LOG, "rr", order=ORDER, rel=2)
    assert table.select("kept", "lost").rows() == [(None, 0)] * 3


def test_no_log() -> None:
    for options in ({}, {"order": ORDER}):
        assert pr.diagnostics.stages(LOG.clear(), "rr", **options).is_empty()


ERRORS, IS_FILTERED = pr.errors, pl.col("stage") == "filtered"
MISUSES = [
    (LOG, {}, ERRORS.ArgumentError,
     r"`order` must list the values of the column 'stage'.*\['filtered', 'reranked', 'retrieved'\]"),
    (LOG, {"order": ORDER[:2]}, ERRORS.ArgumentError, "they are .*'reranked'"),
    (LOG, {"order": [*ORDER, "context"]}, ERRORS.ArgumentError, "`order` must list"),
    (LOG, {"order": [*ORDER, "filtered"]}, ERRORS.ArgumentError, "`order` must list"),
    (LOG, {"order": "filtered"}, ERRORS.ArgumentError, "`order` must"),
    (LOG.with_columns(stage=pl.when(~IS_FILTERED).then("stage")), {"order": ORDER},
     ERRORS.DataError, "'stage' .`stage`. is null in 3 rows with a score, e.g. .'query': 1"),
    (LOG.with_columns(label=pl.when(IS_FILTERED).then(3).otherwise("label")), {"order": ORDER},
     ERRORS.DataError, "several labels for one document of a query .*query = 1, doc = 4"),
    (LOG.drop("doc"), {"order": ORDER}, ERRORS.SchemaError, "'doc' .`doc`. not found"),
    (LOG, {"stage": "step"}, ERRORS.SchemaError, "'step' .`stage`. not found"),
    (LOG, {"by": "stage"}, ERRORS.ArgumentError, "column 'stage' is used for"),
    (LOG, {"metric": ["rr", "ap"]}, ERRORS.ArgumentError, "`metric` must be"),
    (LOG.rename({"query": "kept"}).with_columns(query=1), {"by": "kept"}, ERRORS.ArgumentError,
     "'kept' .`by`. has the name of a result"),
    (pl.concat([LOG, LOG]), {"order": ORDER}, ERRORS.DataError, "'doc' .`doc`. has duplicates"),
]  # fmt: skip


def test_misuse() -> None:
    for log, options, error, message in MISUSES:
        for table in (log, log.lazy()):
            with pytest.raises(error, match=message):
                given = {"metric": "rr", **options}
                pr.diagnostics.stages(table, **given).lazy().collect(engine="streaming")


def runs_of_stages() -> pl.DataFrame:
    """Run b has document 2 at no stage, loses 3 in the filter and 4 in the reranker, and keeps 5."""
    kept = {("a", stage): (2, 3, 4, 5) for stage in ORDER}
    kept |= {("b", stage): docs for stage, docs in zip(ORDER, ((3, 4, 5), (4, 5), (5,)))}
    return pl.DataFrame(
        [(run, stage, 1, doc, 10.0 - doc, 1) for (run, stage), docs in kept.items() for doc in docs],
        {"run": pl.String, **SCHEMA}, orient="row",
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_movers_name_the_stage_that_lost_a_document(engine: Any) -> None:
    log, options = runs_of_stages(), {"baseline": "a", "order": ORDER}
    table = pr.diagnostics.movers(log.lazy(), "p@4", k=4, **options).collect(engine=engine)
    assert table["difference"].to_list() == [pytest.approx(1 / 4 - 1)] * 4
    assert table.select("baseline_doc", "doc", "lost_at").rows() == [
        (2, 5, "retrieved"), (3, None, "filtered"), (4, None, "reranked"), (5, None, None)
    ]  # fmt: skip
    place = pl.col("score").rank("ordinal", descending=True).over("run", "stage")
    ranked = log.with_columns(place=place).drop("score")
    again = pr.diagnostics.movers(ranked, "p@4", k=4, position="place", **options)
    assert_frame_equal(again, table)
    # The judgments of a run are those of all of its stages: 3 of b, of which it has 1.
    row = pr.diagnostics.movers(log, "recall", **options).row(0, named=True)
    assert (row["value"], row["baseline_value"]) == (pytest.approx(1 / 3), 1)
    names = log.rename({"stage": "step"}).with_columns(pl.col("step").cast(pl.Enum(ORDER)))
    again = pr.diagnostics.movers(names, "p@4", k=4, baseline="a", stage="step")
    assert_frame_equal(again.with_columns(pl.col("lost_at").cast(pl.String)), table)


def test_movers_without_stages_are_as_before() -> None:
    log = runs_of_stages().filter(stage="reranked")
    expected = pr.diagnostics.movers(log.drop("stage"), "p@4", k=4, baseline="a")
    one = pr.diagnostics.movers(log, "p@4", k=4, baseline="a")  # one stage needs no order
    assert_frame_equal(one.drop("lost_at"), expected)
    kept = pr.diagnostics.movers(log, "p@4", k=4, baseline="a", keep="stage")
    assert "lost_at" not in kept.columns
    of_stages = pr.diagnostics.movers(
        runs_of_stages().filter(run="b").drop("run"), "p@4", run="stage", baseline="retrieved"
    )
    assert of_stages["stage"].to_list() == ["filtered", "reranked"]
    log = runs_of_stages()
    for options, message in (
        ({}, "`order` must list the values"),
        ({"keep": "stage", "order": ORDER}, "`order` needs a column of stages"),
        ({"stage": "query", "order": ORDER}, "column 'query' is used for"),
    ):
        with pytest.raises(ERRORS.ArgumentError, match=message):
            pr.diagnostics.movers(log, "p@4", baseline="a", **options)
