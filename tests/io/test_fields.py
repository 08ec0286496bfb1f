"""Which field of a file has which role: the user's word, a known name, or an error.

Cases are from public reports, in the format in which they were reported and in others. What is
read from each file is in `test_formats.py`.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from rows import check_each

from polars_rank.errors import ArgumentError, DataError, RankError, RankWarning, SchemaError

Rows = list[dict[str, Any]]
SCAN: dict[str, Any] = {"judgments": pr.scan_judgments, "run": pr.scan_run}


def lines(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def buffer(table: pl.DataFrame, write: str) -> bytes:
    stream = io.BytesIO()
    getattr(table, write)(stream)
    return stream.getvalue()


#: Rows with scalar fields in each format.
FORMATS: dict[str, Any] = {
    "csv": lambda rows: pl.DataFrame(rows).write_csv(),
    "tsv": lambda rows: pl.DataFrame(rows).write_csv(separator="\t"),
    "semicolons": lambda rows: pl.DataFrame(rows).write_csv(separator=";"),
    "json": json.dumps,
    "json lines": lines,
    "json under a key": lambda rows: json.dumps({"rows": rows}),
    "parquet": lambda rows: buffer(pl.DataFrame(rows), "write_parquet"),
    "arrow": lambda rows: buffer(pl.DataFrame(rows), "write_ipc"),
}


def written(folder: Path, content: Any, name: str = "file") -> Path:
    path = folder / name
    content = lines(content) if isinstance(content, list) else content
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


#: For each role, rows in which its field has an unknown name.
UNKNOWN: list[tuple[str, str, Rows, str]] = [
    ("judgments", "label", [{"query_id": "q", "doc_id": "a", "stars": 1}], "stars"),
    ("judgments", "query", [{"prompt": "q", "doc_id": "a", "label": 1}], "prompt"),
    ("judgments", "doc", [{"query_id": "q", "path": "a", "label": 1}], "path"),
    ("judgments", "label", [{"query_id": "q", "doc_id": "a", "good": True}], "good"),
    ("run", "query", [{"prompt": "q", "doc_id": "a", "score": 1.5}], "prompt"),
    ("run", "doc", [{"query_id": "q", "path": "a", "score": 1.5}], "path"),
    ("run", "score", [{"query_id": "q", "doc_id": "a", "confidence": 1.5}], "confidence"),
    ("run", "rank", [{"query_id": "q", "doc_id": "a", "nth": 1}], "nth"),
]


def test_a_field_with_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    def check(form: str, kind: str, role: str, rows: Rows, name: str) -> None:
        path = written(tmp_path, FORMATS[form](rows), f"{form}-{kind}-{name}")
        with pytest.raises(RankError, match=name) as error:
            SCAN[kind](path)
        assert str(path) in str(error.value)
        if role == "label":
            assert f"'{name}' is not known" in str(error.value)
            assert f"fields={{'label': '{name}'}}" in str(error.value)
        found = SCAN[kind](path, fields={role: name}).collect()
        assert found.select("query", "doc").rows() == [("q", "a")]
        assert name not in found.columns
        missing = "no field 'nowhere'|no file has the field 'nowhere'|may be a list of records"
        with pytest.raises(RankError, match=missing):
            SCAN[kind](path, fields={role: "nowhere"})

    forms = [(form, *UNKNOWN[0]) for form in FORMATS]
    check_each(check, forms + [(form, *row) for row in UNKNOWN[1:] for form in ("csv", "json")])


def test_an_unknown_list_is_no_document(tmp_path: Path) -> None:
    def check(form: str) -> None:
        rows = [{"id": 1, "question": "Where?", "evidence": ["k7"]}]
        path = written(tmp_path, FORMATS[form](rows), form)
        with pytest.raises(SchemaError, match=r"fields=\{'relevant': 'evidence'\}.*\(a list\)"):
            pr.scan_judgments(path)
        found = pr.scan_judgments(path, fields={"relevant": "evidence"}).collect()
        assert found.select("query", "doc", "label", "text").rows() == [("1", "k7", 1, "Where?")]
        with pytest.raises(SchemaError, match=r"fields=\{'results': 'evidence'\}"):
            pr.scan_run(path)
        run = pr.scan_run(path, fields={"results": "evidence"})
        assert run.collect().rows() == [("1", "k7", -1.0)]

    forms = ["json lines", "json", "json under a key", "parquet", "arrow"]
    check_each(check, [(form,) for form in forms])


@pytest.mark.parametrize(
    ("key", "none"), [("id", {"answerable": False}), ("question", {"relevant_ids": []})]
)
def test_the_id_of_a_question_is_no_document(tmp_path: Path, key: str, none: Any) -> None:
    golden = [{"id": 1, "question": "Where is the key?", "relevant_ids": ["k7"]},
              {"id": 2, "question": "Will it rain?", **none}]  # fmt: skip
    results = [
        {key: golden[0][key], "results": ["x", "k7"]}, {key: golden[1][key], "results": ["x"]}
    ]  # fmt: skip
    paths = written(tmp_path, golden, "golden"), written(tmp_path, results, "results")
    log = pr.join_judgments(pr.scan_run(paths[1]), pr.scan_judgments(paths[0]))
    means = pr.evaluate(log, ["recall@5", "mrr"], undefined="skip").collect()
    # The second query has no relevant document, and is left out.
    assert means.rows() == [(2, 1.0, 0.5)]
    gate = pr.gate(*paths)
    assert gate.table.filter(category="all")["recall@5"].item() == 1.0
    assert gate.queries["category"].to_list() == [None, "unanswerable"]
    assert gate.table.filter(category="unanswerable")["queries"].item() == 1
    assert any("2 questions from golden: query 'id', relevant 'relev" in x for x in gate.notes)


def test_texts_in_place_of_ids_are_unique_or_stay() -> None:
    judgments = pl.DataFrame({
        "query": ["1", "2", "3", "a"], "doc": ["x", "y", "z", "x"], "label": 1,
        "text": ["a", "b", "b", "c"],
    })  # fmt: skip
    run = pl.DataFrame({"query": ["b", "a", "c", "1"], "doc": "x", "score": 1.0})
    # "b" is the text of two queries, and "a" is the id of one.
    with pytest.warns(RankWarning, match="2 of 4 judged queries are in no run"):
        joined = pr.join_judgments(run, judgments)
    found = joined.filter(pl.col("score").is_not_null()).select("query", "label").sort("query")
    assert found.rows() == [("1", 1), ("a", 1), ("a", 1), ("b", None)]


A, B = [{"query": "q", "results": ["x", "y"]}], [{"query": "q", "results": ["y", "x"]}]
TREC = "q Q0 x 1 {} tag\nq Q0 y 1 {} tag\n"
TSV = "query\tdoc\tscore\nq\tx\t{}\nq\ty\t{}\n"


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        (A, B, "a"), (TREC.format(2, 1), TREC.format(1, 2), "a"),
        (TREC.format(2, 1), B, "tag"), (A, TSV.format(1, 2), "a"),
    ],
)  # fmt: skip
def test_files_of_results_are_runs(tmp_path: Path, one: Any, other: Any, name: str) -> None:
    files = [written(tmp_path, one, "a.x"), written(tmp_path, other, "b.y")]
    judgments = pr.scan_judgments(written(tmp_path, "q 0 x 1\n", "qrels"))
    means = pr.evaluate(pr.join_judgments(pr.scan_run(files), judgments), "mrr").collect()
    assert {run: mrr for run, _, mrr in means.rows()} == {name: 1.0, "b": 0.5}
    named = pr.scan_run({"prod": files[0], "new": files[1]})
    means = pr.evaluate(pr.join_judgments(named, judgments), "mrr").collect()
    assert means.rows() == [("new", 1, 0.5), ("prod", 1, 1.0)]


def test_runs_that_the_files_name_stay(tmp_path: Path) -> None:
    first = written(tmp_path, TREC.format(2, 1), "a.txt")
    # Another query of the same run: parts of one run.
    second = written(tmp_path, TREC.format(2, 1).replace("q ", "p "), "b.txt")
    assert pr.scan_run([first, second]).collect()["run"].unique().to_list() == ["tag"]
    rows = [{"query": "q", "doc": "x", "score": 1, "system": name} for name in "ab"]
    one, other = (written(tmp_path, rows, name) for name in ("c", "d"))
    with pytest.raises(DataError, match="c has several runs, .* have queries"):
        pr.scan_run([one, other])
    (tmp_path / "e").mkdir()
    with pytest.raises(ArgumentError, match="several runs have the name 'a'"):
        pr.scan_run([written(tmp_path, A, "a"), written(tmp_path / "e", B, "a")])
    with pytest.raises(ArgumentError, match="the run 'x' has 2 files; name each of them"):
        pr.scan_run({"x": [first, second]})


def test_a_folder_is_one_run(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    for query in "pq":
        table = pl.DataFrame({"query": [query], "doc": ["x"], "score": [1.0]})
        table.write_parquet(folder / f"part-{query}.parquet")
    run = pr.scan_run(folder).collect()
    assert run.rows() == [("p", "x", 1.0), ("q", "x", 1.0)]
    both = pr.scan_run([folder, written(tmp_path, A, "a.json")]).collect()
    assert both["run"].unique(maintain_order=True).to_list() == ["results", "a"]


@pytest.mark.parametrize("content", ["", "query,doc,score\n", "{}"])
def test_an_empty_file_of_results_is_0(tmp_path: Path, content: str) -> None:
    empty, full = written(tmp_path, content, "none.x"), written(tmp_path, A, "a.json")
    judgments = pr.scan_judgments(written(tmp_path, "q 0 x 1\np 0 x 1\n", "qrels"))
    with pytest.warns(RankWarning, match=r"none.x: the file has no results"):
        alone = pr.scan_run(empty)
    assert pr.evaluate(pr.join_judgments(alone, judgments), "mrr").collect().rows() == [(2, 0.0)]
    with pytest.warns(RankWarning, match=r"none.x: the file has no results"):
        both = pr.scan_run([full, empty])
    with (
        pytest.warns(RankWarning, match="1 of 2 judged queries is in no run"),
        pytest.warns(RankWarning, match="most rankings have no retrieved document.*'none'"),
    ):
        means = pr.evaluate(pr.join_judgments(both, judgments), "mrr").collect()
    # Of the two judged queries, the full file has the one whose document it finds first.
    assert means.rows() == [("a", 2, 0.5), ("none", 2, 0.0)]


def test_scores_and_ranks_that_contradict(tmp_path: Path, recwarn: Any) -> None:
    text = "q Q0 a 1 0.1 x\nq Q0 b 2 0.3 x\n"
    # One query has the order of its ranks.
    path = written(tmp_path, text + "p Q0 a 1 2 x\np Q0 b 2 1 x\nr Q0 a 1 1 x\n")
    assert pr.scan_run(path).collect().height == 5
    assert not recwarn.list
    with pytest.warns(RankWarning, match=f"{path}: the ranks contradict the scores in every query"):
        pr.scan_run(written(tmp_path, text))
    with pytest.warns(RankWarning, match="the scores of every query ascend, as distances do"):
        pr.scan_run(written(tmp_path, [{"id": 1, "results": [["a", 0.1], ["b", 0.2]]}]))


def test_columns_are_named_by_role(tmp_path: Path) -> None:
    rows = [{"qid": 1, "path": "a", "sim": 0.5, "engine": "x", "topic": "t", "ms": 7}]
    fields = {
        "doc": "path", "score": "sim", "run": "engine", "category": "topic", "latency": "ms",
    }  # fmt: skip
    for form in ("csv", "json", "parquet"):
        found = pr.scan_run(written(tmp_path, FORMATS[form](rows)), fields=fields).collect()
        row = {"query": "1", "doc": "a", "score": 0.5, "run": "x", "category": "t", "latency": 7}
        assert found.to_dicts() == [row]
    spans = [{"id": 1, "relevant": [{"id": "a", "from": 3, "to": 9}]}]
    found = pr.scan_judgments(
        written(tmp_path, spans), fields={"start": "from", "end": "to", "label": None}
    ).collect()
    assert found.select("doc", "start", "end").rows() == [("a", 3.0, 9.0)]


INVALID = [
    ({"labels": "x"}, r"unknown role 'labels'\. Did you mean 'label'\? Roles: query, doc"),
    ({"score": "x"}, "unknown role 'score'"),
    ({"label": 1}, "must map 'label' to the name of a field"),
    ({"label": ""}, "must map 'label' to the name of a field"),
    ("label=x", "`fields` must be a mapping"),
]


def test_invalid_fields(tmp_path: Path) -> None:
    def check(fields: Any, message: str) -> None:
        with pytest.raises(ArgumentError, match=message):
            pr.scan_judgments(written(tmp_path, "q 0 a 1\n"), fields=fields)

    check_each(check, INVALID)


def test_fields_apply_to_the_files_that_have_them(tmp_path: Path) -> None:
    golden = written(tmp_path, [{"qid": 1, "files": ["a"], "n": 0}], "golden")
    results = written(tmp_path, [{"number": 1, "found": ["b", "a"]}], "results")
    fields = {"relevant": "files", "results.query": "number", "results": "found"}
    gate = pr.gate(golden, results, metrics=["mrr"], fields=fields)
    assert gate.table["mrr"].to_list() == [0.5]
    with pytest.raises(SchemaError, match="no file has the field 'number', .* 'judgments.query'"):
        pr.gate(golden, results, fields={**fields, "judgments.query": "number"})
    with pytest.raises(ArgumentError, match="unknown role 'results.label'"):
        pr.gate(golden, results, fields={"results.label": "x"})


def test_tables_of_a_gate_name_their_fields() -> None:
    golden = pl.DataFrame({"qid": ["q"], "doc": ["a"], "relevancy": [2]})
    results = pl.DataFrame({"qid": ["q", "q"], "doc": ["b", "a"], "sim": [0.5, 0.25]})
    fields = {"query": "qid", "label": "relevancy", "score": "sim"}
    gate = pr.gate(golden, results, metrics=["mrr"], fields=fields)
    assert gate.table["mrr"].to_list() == [0.5]
    named = golden.rename({"qid": "query"})
    with pytest.raises(
        SchemaError, match="'relevancy' is not known.*fields={'label': 'relevancy'}"
    ):
        pr.gate(named, results.rename({"qid": "query", "sim": "score"}))
