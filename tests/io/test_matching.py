"""Ids of rankings and judgments that never match lead to a warning that names two of them."""

from __future__ import annotations

import warnings
from typing import Any

import duckdb
import polars as pl
import polars_rank as pr
import pytest
from rows import check_each

RankWarning = pr.errors.RankWarning
RUN = pl.DataFrame({
    "run": ["a", "a", "b"], "query": ["1", "1", "1"], "doc": ["10", "11", "12"],
    "score": [2.0, 1.0, 1.0],
})  # fmt: skip


KINDS: dict[str, Any] = {
    "eager": lambda table: table,
    "lazy": lambda table: table.lazy(),
    "pandas": lambda table: table.to_pandas(),
    "duckdb": lambda table: duckdb.connect().from_arrow(table.to_arrow()),
}


def judgments(*pairs: tuple[str, str]) -> pl.DataFrame:
    names = {"query": pl.String, "doc": pl.String}
    return pl.DataFrame(pairs, names, orient="row").with_columns(label=1)


def messages(function: Any) -> list[str]:
    """Return the warnings of a function, without those of evaluations."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    assert all(issubclass(each.category, RankWarning) for each in caught)
    return [str(each.message) for each in caught]


OF_BOTH = "runs 'a', 'b': no retrieved document is judged"
NO_QUERY = "runs 'a', 'b': no ranked query is judged (1 ranked, {} judged): do the ids match? e.g. "
#: Judged queries and documents, and the warning.
JUDGED = [
    ([("1", "d10")], f"{OF_BOTH} (3 retrieved, 1 judged): do the ids match? e.g. '10' and 'd10'"),
    # Text with trailing blanks.
    ([("1", "10 "), ("1", "11 ")],
     f"{OF_BOTH} (3 retrieved, 2 judged): do the ids match? e.g. '10' and '10 '"),
    ([("q1", "10")], f"{NO_QUERY.format(1)}'1' in the rankings and 'q1' in the judgments"),
    ([("1 ", "10"), ("2 ", "10")],
     f"{NO_QUERY.format(2)}'1' in the rankings and '1 ', '2 ' in the judgments"),
    ([("1", "10")], "run 'b': no retrieved document is judged (1 retrieved, 1 judged): do the ids "
     "match? e.g. '12' and '10'"),
    # Ids that match, and no judgments.
    ([("1", "10"), ("1", "12")], None),
    ([], None),
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_tables(kind: str) -> None:
    def check(judged: list[tuple[str, str]], expected: str | None) -> None:
        tables = [KINDS[kind](RUN), KINDS[kind](judgments(*judged))]
        found = messages(lambda: pr.join_judgments(*tables).lazy().collect())
        assert found == ([expected] if expected else [])

    check_each(check, JUDGED if kind in ("eager", "lazy") else JUDGED[:1])
    assert not messages(lambda: pr.join_judgments(RUN.clear(), judgments(("1", "10"))))


def test_queries_in_one_of_the_tables() -> None:
    run = pl.DataFrame({"query": [1, 1, 2], "doc": [1, 2, 1], "score": 1.0})
    judged = pl.DataFrame({"query": [1, 3, 4], "doc": 1, "label": 1})
    for lazily in (False, True):
        tables = [table.lazy() if lazily else table for table in (run, judged)]
        assert messages(lambda tables=tables: pr.join_judgments(*tables).lazy().collect()) == [
            "2 of 3 judged queries are in no run (e.g. 3) and 1 of 2 queries in the rankings is not "
            "judged (e.g. 2); they count in means unless `query_set` leaves them out"
        ]


def test_tables_sorted_by_query() -> None:
    """They are joined in batches; the check reads all of them."""
    queries = range(2_000)
    run = pl.LazyFrame({"query": queries, "doc": "10", "score": 1.0}).set_sorted("query")
    judged = pl.LazyFrame({"query": queries, "doc": "d10", "label": 1}).set_sorted("query")
    plan = pr.join_judgments(run, judged)
    (message,) = messages(lambda: plan.collect(engine="streaming"))
    assert message.startswith("no retrieved document is judged (2,000 retrieved, 2,000 judged)")
    # Rows that are not read are not counted.
    assert not messages(lambda: plan.head(1).collect())
    partly = judged.with_columns(doc=pl.when(pl.col("query") == 1_999).then(pl.lit("10")))
    joined = pr.join_judgments(run, partly.set_sorted("query").fill_null("d10"))
    assert not messages(lambda: joined.collect(engine="streaming"))
    # Neither a filter nor a selection of columns changes what is counted.
    assert not messages(lambda: joined.filter(query=0).select("doc").collect())


def test_dictionaries() -> None:
    runs = {"a": {"1": {"10": 2.0, "11": 1.0}}, "b": {"1": {"d10": 1.0}}}
    assert messages(lambda: pr.from_dicts(runs, {"1": {"d10": 1}})) == [
        "run 'a': no retrieved document is judged (2 retrieved, 1 judged): do the ids match? "
        "e.g. '10' and 'd10'"
    ]
    assert messages(lambda: pr.from_dicts(runs["a"], {"q1": {"10": 1}})) == [
        "no ranked query is judged (1 ranked, 1 judged): do the ids match? e.g. '1' in the "
        "rankings and 'q1' in the judgments"
    ]
    with pytest.raises(pr.errors.ArgumentError, match="none would match"):
        pr.from_dicts({"1": {10: 1.0}}, {"1": {"10": 1}})


def test_lists() -> None:
    lists = pl.DataFrame({
        "shown": [["10", "11"], ["12"]], "bought": [["d10"], ["d12", "d13"]], "near": [["12"], []],
    })  # fmt: skip

    def found(table: Any, relevant: str) -> list[str]:
        options = {"retrieved": "shown", "relevant": relevant}
        return messages(lambda: pr.from_lists(table, **options).lazy().collect())

    for table in (lists, lists.lazy()):
        assert found(table, "bought") == [
            "no retrieved document is relevant (3 retrieved, 3 relevant): do the ids match? "
            "e.g. '10' and 'd10'"
        ]
        # All documents are judged, and one is relevant to another query only.
        assert not found(table, "near")


@pytest.mark.parametrize("kind", KINDS)
def test_long_tables(kind: str) -> None:
    """Tables that were joined elsewhere have no ids of rankings and judgments to compare."""
    rows = [("a", 1, 1.0, None), ("a", 2, None, 1), ("b", 1, 1.0, 0), ("b", 2, None, 1)]
    log = pl.DataFrame(rows, ["run", "doc", "score", "label"], orient="row")
    table = KINDS[kind](log.with_columns(query=1, day=pl.col("run") + "1"))
    expected = (
        "no retrieved document has a label (column 'label'), although other documents have one; "
        "check that the ids of rankings and judgments match; as in {'run': 'a', 'queries': 1}"
    )
    # The label 0 is a judgment.
    assert messages(lambda: pr.evaluate(table, "rr", by="run").lazy().collect()) == [expected]
    assert not messages(lambda: pr.evaluate(table, "num_retrieved", by="run").lazy().collect())


def test_short_rankings() -> None:
    """Rankings of a large table are evaluated by columns of positions."""
    log = pl.DataFrame({"query": [number // 2 for number in range(60_000)]}).with_columns(
        doc=pl.int_range(pl.len()), score=pl.when(pl.int_range(pl.len()) % 2 == 0).then(1.0),
        label=pl.when(pl.int_range(pl.len()) % 2 == 1).then(1),
    )  # fmt: skip
    (message,) = messages(lambda: pr.evaluate(log, "rr"))
    assert message.startswith("no retrieved document has a label")
    one = log.with_columns(pl.when(doc=0).then(0).otherwise("label").alias("label"))
    assert not messages(lambda: pr.evaluate(one, "rr"))


def test_a_lazy_table_warns_once() -> None:
    joined = pr.join_judgments(RUN.lazy(), judgments(("1", "d10")))
    (message,) = messages(lambda: pr.evaluate(joined, "rr", by="run").collect())
    assert message.endswith("do the ids match? e.g. '10' and 'd10'")


def test_a_plan_that_panics_is_not_taken_for_its_end(capfd: pytest.CaptureFixture[str]) -> None:
    def panic(rows: pl.DataFrame) -> pl.DataFrame:
        raise pl.exceptions.PanicException

    run = RUN.lazy().map_batches(panic, schema=RUN.schema, streamable=True)
    plan = pr.join_judgments(run, judgments(("1", "10")))
    with pytest.raises((pr.errors.SourceError, pl.exceptions.PanicException)):
        plan.collect(engine="streaming")
    capfd.readouterr()
