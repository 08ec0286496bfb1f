"""Fields of golden files, results and corpora that have other names, types or formats."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from rows import check_each

needs.package("scipy", "stats")

GOLDEN = pl.DataFrame({"query": ["a", "b"], "doc": ["d1", "d2"], "label": 1})
RESULTS = pl.DataFrame({"query": ["a", "b", "b"], "doc": ["d1", "x", "d2"], "score": [3.0, 2, 1]})


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


def test_an_error_may_be_an_object(tmp_path: Path) -> None:
    rows = [{"query": "a", "error": {"code": 503}}, {"query": "b", "results": ["d2"], "error": {}}]
    with pytest.raises(pr.errors.DataError, match="1 of 2 queries have no result: 'a'"):
        pr.gate(GOLDEN, write(tmp_path / "results.jsonl", rows))


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


def test_a_misspelled_category_is_named(tmp_path: Path) -> None:
    def check(fields: dict[str, dict[str, str]], text: str | None) -> None:
        rows = [{"query": q, "doc": f"d{q}", "label": 1, **each} for q, each in fields.items()]
        found = pl.DataFrame({"query": [*fields], "doc": "x", "score": 1.0})
        with warnings.catch_warnings(action="ignore"):
            gate = pr.gate(write(tmp_path / "golden.jsonl", rows), found, metrics="rr")
        texts = [each for each in gate.warnings if "instead of" in each]
        assert len(texts) == (text is not None)
        assert text is None or re.search(text, texts[0])

    check_each(check, MISSPELLED)


def test_other_names_of_the_category(tmp_path: Path) -> None:
    rows = [{"query": name, "doc": "d", name: "x"} for name in ("Category", "category")]
    with pytest.raises(pr.errors.SchemaError, match="'Category' and 'category' can both be"):
        pr.gate(write(tmp_path / "golden.jsonl", rows), RESULTS)
    judged = GOLDEN.with_columns(topic=pl.Series(["x", None]), topics=pl.Series([None, "x"]))
    with pytest.warns(pr.errors.RankWarning, match="'topics' instead of 'topic'.*: 'b'"):
        pr.gate(judged, RESULTS, category="topic")


def test_corpora_in_files(tmp_path: Path) -> None:
    path = tmp_path / "corpus.json"
    path.write_text('[{"_id": "d1"}]', "utf-8")
    with pytest.warns(pr.errors.RankWarning, match="neither the corpus nor the results: 'd3'"):
        pr.gate(GOLDEN.with_columns(doc=pl.Series(["d1", "d3"])), RESULTS, corpus=path)

    def check(name: str, text: str, message: str) -> None:
        (tmp_path / name).write_text(text, "utf-8")
        with pytest.raises(pr.errors.SourceError, match=message):
            pr.gate(GOLDEN, RESULTS, corpus=tmp_path / name)

    unreadable = ("d1\nd2\n", '{"id": "d1"}\n{"id":', "")
    check_each(check, [
        *(("corpus.jsonl", text, "cannot read the corpus") for text in unreadable),
        ("corpus.txt", "d1\nd2\n", "the corpus .*unknown format; a table is Par"),
    ])  # fmt: skip
