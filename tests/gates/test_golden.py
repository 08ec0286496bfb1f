"""Columns of golden files, results and corpora that cannot be used."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import needs
import polars as pl
import polars_rank as pr
import pytest

needs.package("scipy", "stats")

GOLDEN = pl.DataFrame({"query": ["a", "b"], "doc": ["d1", "d2"], "label": 1})
RESULTS = pl.DataFrame({"query": ["a", "b", "b"], "doc": ["d1", "x", "d2"], "score": [3.0, 2, 1]})


def test_an_error_may_be_an_object(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    rows = [{"query": "a", "error": {"code": 503}}, {"query": "b", "results": ["d2"], "error": {}}]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with pytest.raises(pr.errors.DataError, match="1 of 2 queries have no result: 'a'"):
        pr.gate(GOLDEN, path)


def test_the_latency_of_other_queries_does_not_count() -> None:
    rows = [*RESULTS.with_columns(latency=0.2).rows(), ("z", "d", 1.0, 9.0)]
    found = pl.DataFrame(rows, schema=["query", "doc", "score", "latency"], orient="row")
    with pytest.warns(pr.errors.RankWarning, match="not in the golden file"):
        assert pr.gate(GOLDEN, found, latency={"max": 1}).verdicts["value"].to_list() == [0.2]


CATEGORIES = {"a": {"catgory": "x"}, "b": {"category": "x"}, "c": {"category": "y"}}


MISSPELLED: list[tuple[dict[str, dict[str, str]], str | None]] = [
    (CATEGORIES, "1 query with the field 'catgory' instead of 'category', .*: 'a'$"),
    ({**CATEGORIES, "b": {"catgory": "y"}}, "2 queries .* 'catgory' .*: 'a', 'b'$"),
    (dict.fromkeys("abc", {"catgory": "x"}), "3 queries .* 'catgory' .*: 'a', 'b', 'c'$"),
    ({**CATEGORIES, "a": {"class": "x"}}, "1 query with the field 'class' instead of 'category'"),
    (dict.fromkeys("abc", {"class": "x"}), None),
    (dict.fromkeys("abc", {"category": "x", "subcategory": "y"}), None),
    (dict.fromkeys("abc", {"category": "x"}) | {"a": {"note": "y"}}, None),
]


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_misspelled_category_is_named(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"golden.{ending}"
    for fields, text in MISSPELLED:
        rows = [{"query": q, "doc": f"d{q}", "label": 1, **each} for q, each in fields.items()]
        table = pl.DataFrame(rows, infer_schema_length=None)
        if ending == "csv":
            table.write_csv(path)
        else:
            path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
        found = table.select("query", doc=pl.lit("x"), score=1.0)
        with warnings.catch_warnings(action="ignore"):
            gate = pr.gate(path, found, metrics="rr")
        texts = [each for each in gate.warnings if "instead of" in each]
        assert len(texts) == (text is not None), fields
        assert text is None or re.search(text, texts[0]), fields


def test_two_fields_that_may_be_the_category(tmp_path: Path) -> None:
    path = tmp_path / "golden.jsonl"
    rows = [{"query": name, "doc": "d", name: "x"} for name in ("Category", "category")]
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    with pytest.raises(pr.errors.SchemaError, match="'Category' and 'category' can both be"):
        pr.gate(path, RESULTS)


def test_a_misspelled_name_of_the_column_of_categories() -> None:
    judged = GOLDEN.with_columns(topic=pl.Series(["x", None]), topics=pl.Series([None, "x"]))
    with pytest.warns(pr.errors.RankWarning, match="'topics' instead of 'topic'.*: 'b'"):
        pr.gate(judged, RESULTS, category="topic")


def test_columns_that_must_have_numbers() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="'latency' .* must have numbers"):
        pr.gate(GOLDEN, RESULTS.with_columns(latency=pl.lit("fast")), latency={"max": 1})
    with pytest.raises(pr.errors.SchemaError, match="'label' .* must be a number"):
        pr.gate(GOLDEN.with_columns(label=pl.lit([1])), RESULTS)


@pytest.mark.parametrize("text", ["d1\nd2\n", '{"id": "d1"}\n{"id":', ""])
def test_a_corpus_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(pr.errors.SourceError, match="cannot read the corpus"):
        pr.gate(GOLDEN, RESULTS, corpus=path)


def test_a_corpus_of_an_unknown_format_is_named(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("d1\nd2\n", "utf-8")
    with pytest.raises(pr.errors.SourceError, match=r"the corpus .*unknown format; a table is Par"):
        pr.gate(GOLDEN, RESULTS, corpus=tmp_path / "corpus.txt")


@pytest.mark.parametrize("parameter", ["corpus", "baseline"])
def test_an_empty_path_is_no_folder(parameter: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=f"`{parameter}` has an empty path; name a"):
        pr.gate(GOLDEN, RESULTS, **{parameter: ""})


@pytest.mark.parametrize("name", ["all", "unanswerable"])
def test_categories_with_names_of_other_queries(name: str) -> None:
    """Otherwise, two rows have one name, or numbers are of both kinds of queries."""
    judged = pl.DataFrame(
        {"query": ["a", "b", "c"], "doc": ["d1", "d2", None], "label": [1, 1, None]}
    )
    with pytest.raises(pr.errors.DataError, match=f"'b', category = '{name}'.; rename"):
        pr.gate(judged.with_columns(category=pl.Series(["x", name, "y"])), RESULTS)
    # A query without a relevant document has no category of its own.
    judged = judged.with_columns(category=pl.Series(["x", "y", name]))
    gate = pr.gate(judged, RESULTS, missing="zero", metrics="rr")
    assert gate.table["category"].to_list() == ["all", "unanswerable", "x", "y"]


def test_errors_of_rules_name_their_parameter() -> None:
    for rules in ({"floors": {"ndgc@10": 0.5}}, {"max_drop": {"ndgc@10": 0.5}}):
        with pytest.raises(pr.errors.ArgumentError, match=f"`{[*rules][0]}`: unknown metric"):
            pr.gate(GOLDEN, RESULTS, **rules)


def test_results_without_a_query() -> None:
    with pytest.raises(pr.errors.DataError, match="those of the results none"):
        pr.gate(GOLDEN, RESULTS.clear())


def test_few_queries_find_no_loss() -> None:
    notes = pr.gate(GOLDEN, RESULTS.filter(query="a"), missing="zero").notes
    assert notes == [
        "2 queries: too few to find a loss in ndcg@10 with 80% probability, if the differences from "
        "a later run vary as much as the values do"
    ]


@pytest.mark.filterwarnings("ignore:.*has fractions:polars_rank.errors.RankWarning")
def test_grades_below_the_lowest_relevant_label() -> None:
    judged = GOLDEN.with_columns(label=pl.Series([0.5, 1.0]))
    with pytest.warns(pr.errors.RankWarning, match=r"1 query without a grade of at least 1 .*'a'"):
        pr.gate(judged, RESULTS)
    assert pr.gate(judged, RESULTS, rel=0.5).warnings == []
