"""Files of judgments and results in any format.

`readers.json` has a row for each file: its content (text, a list of JSON lines, or a document
under "json"), and what is read from it, or what the error says. Names of cases name the tool.
"""

from __future__ import annotations

import gzip
import json
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from rows import check_each

from polars_rank.errors import (
    ArgumentError, DataError, RankError, RankWarning, SchemaError,
)  # fmt: skip

CASES = json.loads(Path(__file__).with_name("readers.json").read_text("utf-8"))
SCAN: dict[str, Any] = {"judgments": pr.scan_judgments, "run": pr.scan_run}

BEIR = "query-id\tcorpus-id\tscore\nq1\td1\t1\n"
JUDGED = [("q1", "d1", 1), ("q1", "7", 1), ("q2", None, None)]
LONG = pl.DataFrame(JUDGED, ["query", "doc", "label"], orient="row")
MTEB = LONG.drop_nulls().rename({"query": "query-id", "doc": "corpus-id", "label": "score"})
LISTS = pl.DataFrame({"query": ["q1", "q2"], "relevant": [["d1", "7"], []]})
FOUND, NONE = [("q1", "x", -1.0), ("q1", "d1", -2.0)], ("q2", None, None)
STRUCTS = [[{"id": "x", "score": 0.9}, {"id": "d1", "score": 0.8}], []]
SPANS = [[{"document.id": "x", "document.content": "t"}, {"document.id": "d1"}], []]
MLFLOW = [
    json.dumps([{"span_type": "RETRIEVER", "inputs": {"question": query},
                 "outputs": [{"page_content": "t", "metadata": {}, "id": x} for x in ids]}])
    for query, ids in {"q1": ["x", "d1"], "q2": []}.items()
]  # fmt: skip

#: Files that are no text, and folders.
BINARY: list[tuple[str, str, Any, list[tuple[Any, ...]]]] = [
    ("gzip, TREC", "judgments", gzip.compress(b"q1 0 d1 1\n"), JUDGED[:1]),
    ("gzip, JSON lines", "judgments", gzip.compress(LISTS.write_ndjson().encode()), JUDGED),
    ("gzip, JSON", "judgments", gzip.compress(b'{"q1": ["d1", "7"], "q2": []}'), JUDGED),
    ("gzip, CSV", "judgments", gzip.compress(LONG.write_csv().encode()), JUDGED),
    ("Parquet", "judgments", LONG, JUDGED),
    ("Arrow", "judgments", LONG.write_ipc(None).getvalue(), JUDGED),
    ("Parquet of lists", "judgments", LISTS, JUDGED),
    ("Parquet of numbers", "judgments", pl.DataFrame({"query": [1, 2], "relevant": [[10], []]}),
     [("1", "10", 1), ("2", None, None)]),
    ("BEIR, a folder", "judgments",
     {"qrels/test.tsv": BEIR, "qrels/train.tsv": "query-id\tcorpus-id\tscore\n"}, JUDGED[:1]),
    ("MTEB, a folder", "judgments", {"qrels/test-00000-of-00001.parquet": MTEB}, JUDGED[:2]),
    ("qrels", "judgments", {"train.tsv": BEIR}, JUDGED[:1]),
    ("several files", "judgments", {"1.parquet": LONG, "2.parquet": LONG}, JUDGED * 2),
    ("lists of results", "run", LISTS.rename({"relevant": "retrieved"}),
     [("q1", "d1", -1.0), ("q1", "7", -2.0), NONE]),
    ("structs", "run", LISTS.select("query", results=pl.Series(STRUCTS)),
     [("q1", "x", 0.9), ("q1", "d1", 0.8), NONE]),
    ("numbers as ids", "run", pl.DataFrame({"query": [7, 7], "doc": [3, 4], "score": [0.5, None]}),
     [("7", "3", 0.5), ("7", "4", None)]),
    ("ranks beside null scores", "run",
     pl.DataFrame({"query": "q", "doc": ["a", "b"], "score": None, "rank": [2, 1]},
                  schema_overrides={"score": pl.Float64}),
     [("q", "a", -2.0), ("q", "b", -1.0)]),
    ("Phoenix, get_spans_dataframe", "run",
     pl.DataFrame({"span_kind": ["RETRIEVER"] * 2, "attributes.input.value": ["q1", "q2"],
                   "context.trace_id": ["a", "b"], "attributes.retrieval.documents": SPANS}),
     [*FOUND, NONE]),
    ("MLflow, search_traces", "run", pl.DataFrame({"trace_id": ["a", "b"], "spans": MLFLOW}),
     [*FOUND, NONE]),
]  # fmt: skip


def text_of(content: Any) -> str:
    if isinstance(content, list):
        return "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in content)
    return json.dumps(content["json"]) if isinstance(content, dict) else content


def written(path: Path, content: Any) -> Path:
    if isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    elif isinstance(content, dict) and "json" not in content:
        for name, part in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            written(path / name, part)
    else:
        path.write_bytes(content if isinstance(content, bytes) else text_of(content).encode())
    return path


@pytest.mark.filterwarnings("ignore:.*ranks contradict:polars_rank.errors.RankWarning")
def test_what_is_read(tmp_path: Path) -> None:
    def check(name: str, kind: str, content: Any, fields: Any, expected: Any) -> None:
        path = written(tmp_path / name.replace("/", ""), content)
        found = SCAN[kind](path, fields=fields).collect()
        value = "label" if kind == "judgments" else "score"
        assert found.select("query", "doc", value).rows() == [*map(tuple, expected)]
        assert found.schema["query"] == found.schema["doc"] == pl.String
        assert kind == "judgments" or found.schema["score"] == pl.Float64

    check_each(check, CASES["read"] + [(*row[:3], {}, row[3]) for row in BINARY])


DEEP = "[" * 100_000
#: Files that are too long for `readers.json`, or no text.
BROKEN: list[tuple[str, str, Any, str]] = [
    ("a number of 5,000 digits", "judgments", '{"q": {"a": ' + "1" * 5000 + "}}", "number that is"),
    ("a label of 400 digits", "judgments", [{"id": 1, "gold": {"a": 10**400}}], "must be a finite"),
    ("deep lists", "judgments", '{"query": "q", "gold": ' + DEEP + "]" * 100_000 + "}",
     "is nested too deeply"),
    ("a deep document", "judgments", DEEP, "is nested too deeply"),
    ("a deep text", "judgments", 'query,relevant_ids\nq,"[' + "-" * 3000 + '1]"\n',
     "row 1: 'relevant_ids' has"),
    ("UTF-16", "judgments", "query,doc\n".encode("utf-16"), "is in UTF-16"),
    ("latin-1", "judgments", '{"a": ["\u00e9"]}'.encode("latin-1"), "not UTF-8"),
    ("fractions as ids", "run", pl.DataFrame({"query": [7], "doc": [0.5], "score": [1.0]}),
     "'doc' has the type Float64, but ids are text"),
    ("other splits", "judgments", {"qrels/dev.tsv": BEIR, "qrels/train.tsv": BEIR},
     "has no split 'test', but 'dev', 'train'; name a file"),
]  # fmt: skip


def test_what_is_refused(tmp_path: Path) -> None:
    def check(name: str, kind: str, content: Any, message: str) -> None:
        path = written(tmp_path / str(len([*tmp_path.iterdir()])), content)
        with pytest.raises(RankError, match=message) as error:
            SCAN[kind](path).collect()
        assert str(path) in str(error.value)

    check_each(check, CASES["refused"] + BROKEN)


def test_other_fields_are_columns(tmp_path: Path) -> None:
    judgments = pr.scan_judgments(written(tmp_path / "golden.jsonl", [
        {"id": 1, "query": "Wer?", "relevant": ["a", "b"], "category": "x", "tags": ["s", "t"]},
        {"id": 2, "query": "Was?", "relevant": {"a": 0.5}, "hops": 1, "meta": {"ignored": 1}},
    ]))  # fmt: skip
    expected = pl.DataFrame({
        "query": ["1", "1", "2"], "doc": ["a", "b", "a"], "label": [1.0, 1.0, 0.5],
        "text": ["Wer?", "Wer?", "Was?"], "category": ["x", "x", None],
        "tags": [["s", "t"], ["s", "t"], None], "hops": [None, None, 1],
    })  # fmt: skip
    assert_frame_equal(judgments.collect(), expected)
    assert_frame_equal(judgments.filter(doc="b").select("tags").collect(), expected[1:2, ["tags"]])
    assert judgments.head(1).collect().height == 1


def test_errors_and_latencies(tmp_path: Path) -> None:
    def check(name: str, content: Any, query: str, rows: Any) -> None:
        path = written(tmp_path / name, content)
        with pytest.warns(RankWarning, match=f"{path}: 1 query has an error, such as '{query}'"):
            run = pr.scan_run(path).collect()
        assert run.to_dicts() == rows

    check_each(check, CASES["errors"])


def test_columns_of_queries_are_groups(tmp_path: Path) -> None:
    judgments = pr.scan_judgments(written(tmp_path / "golden", [
        {"query": "a", "relevant": ["d"], "category": "x"},
        {"query": "b", "relevant": [], "category": "y"},
        {"query": "c", "relevant": ["e"], "category": "y"},
    ]))  # fmt: skip
    run = pr.scan_run(written(tmp_path / "run", {"json": {"a": ["z", "d"], "b": ["z"]}}))
    with pytest.warns(RankWarning, match="1 of 2 judged queries is in no run"):
        log = pr.join_judgments(run, judgments, by="category").collect()
    assert log["category"].null_count() == 0
    means = pr.evaluate(log, "rr", by="category")
    assert means.rows() == [("x", 1, 0.5), ("y", 2, 0.0)]
    differs = judgments.with_columns(category="doc")
    twice = pl.concat([differs, differs.with_columns(doc=pl.lit("f"), category=pl.lit("g"))])
    with pytest.raises(DataError, match="'category' .* differs within a query"):
        pr.join_judgments(run, twice, by="category").collect()


def test_empty_lists_are_no_missing_queries(tmp_path: Path, recwarn: Any) -> None:
    golden = {"json": {"q1": ["d1", "7"], "q2": [], "q3": ["d1"]}}
    results = {"json": {"q1": ["x", "d1"], "q2": ["x"], "q3": []}}
    judgments = pr.scan_judgments(written(tmp_path / "golden", golden))
    log = pr.join_judgments(pr.scan_run(written(tmp_path / "run", results)), judgments).collect()
    assert not recwarn.list
    means = pr.evaluate(log, ["recall", "num_retrieved"])
    assert means.rows() == [(3, 0.5 / 3, 3.0)]
    judged = pr.evaluate(log, "recall", query_set="judged")
    assert judged.select("queries", "recall").rows() == [(2, 0.25)]


def test_a_named_format(tmp_path: Path) -> None:
    file = written(tmp_path / "a", "query;doc,label\nx;y,1\n")
    with pytest.raises(ArgumentError, match="`format` must be one of .*'svmlight'"):
        pr.scan_judgments(file, "xml")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="Fields: 'query;doc', 'label'"):
        pr.scan_judgments(file, "csv")
    with pytest.raises(ArgumentError, match="`diversity` needs TREC judgments; found csv"):
        pr.scan_judgments(written(file, "query,doc,label\na,b,1\n"), diversity=True)
    json_lines = written(file, '\n \n{"query": "a", "relevant": ["b"]}\n')
    assert pr.scan_judgments(json_lines, "json").collect().row(0) == ("a", "b", 1)


def test_flags_are_whole_labels(tmp_path: Path) -> None:
    table = pl.DataFrame({"query": "q", "doc": ["a", "b"], "label": [True, False]})
    found = pr.scan_judgments(written(tmp_path / "flags", table)).collect()
    assert found["label"].dtype == pl.Int64 and found["label"].to_list() == [1, 0]


def test_negative_labels_may_stay(tmp_path: Path) -> None:
    file = written(tmp_path / "golden", '{"a": {"b": -1, "c": 2}}')
    assert pr.scan_judgments(file, negative="keep").collect()["label"].to_list() == [-1, 2]


PLAIN = [
    [{"query": "q1", "doc": "d1", "score": 2.5}, {"query": "q1", "doc": "d\u00e9", "score": 1.0}],
    [{"query": 7, "doc": 8, "score": 2}, {"query": 7, "doc": 9, "score": 2.5}],
    [{"doc": "a", "query": "q", "rank": 1, "run": "x"}, {"doc": "b", "query": "q", "rank": 2, "run": "x"}],
    [{"query_id": "q", "doc_id": "a", "score": -1e-7, "rank": 1, "source": "s", "pages": 3}],
    # What has several meanings, or another one: an error, or each value as it is.
    [{"query": "q", "doc": "1", "score": 1.0}, {"query": "q", "doc": 1, "score": 2.0}],
    [{"query": "q", "doc": "1", "score": 1.0}, {"query": "q", "doc": 2, "score": 2.0}],
    [{"query": "q", "doc": "a", "score": 1.0}, {"query": "q", "doc": "b", "score": "2"}],
    [{"query": "q", "doc": "a", "score": 1.0}, {"query": "q", "doc": "", "score": 2.0}],
    [{"query": "q", "doc": "a", "score": 1.0}, {"query": "q", "doc": None, "score": None}],
    [{"query": "q", "doc": "a", "score": True}, {"query": "q", "doc": "b", "score": 3}],
    [{"query": "q", "doc": 10**18, "score": 1.0}, {"query": "q", "doc": 10**19, "score": 2.0}],
    [{"query": 1.5, "doc": "a", "score": 1.0}],
    [{"query": "q", "doc": "a", "score": float("nan")}],
    [{"query": "q", "doc": "a", "score": 1e300}, {"query": "q", "doc": "b", "score": 10**400}],
    [{"query": "q", "doc": "a", "score": 1.0}, {"doc": "b", "query": "q", "score": 2.0}],
    [{"query": "q", "doc": "a", "score": 1.0}, {"query": "q", "doc": "b"}],
    [{"query": "q", "question": "How?", "doc": "a", "score": 1.0}],
    [{"query": "q", "doc": "a \\ud83d", "score": 1.0}, {"query": "q\"doc\":", "doc": "b", "score": 2}],
    [{"q": "q", "d": "a", "s": 1.0}],
]  # fmt: skip


def test_json_lines_have_the_rows_of_a_json_list(tmp_path: Path) -> None:
    """Polars reads lines with plain values, which must make no difference."""
    lines, document = tmp_path / "lines.jsonl", tmp_path / "list.json"

    def read(path: Path, kind: str) -> Any:
        try:
            return SCAN[kind](path).collect()
        except RankError as error:
            return type(error), str(error).replace(str(path), "FILE").partition(": ")[2][:60]

    for rows, kind in product(PLAIN, SCAN):
        for text in (text_of(rows), text_of(rows).replace('": ', '" :\t').replace("}", " }\r")):
            lines.write_text(text, "utf-8", newline="")
            document.write_text(json.dumps(rows), "utf-8")
            found, expected = read(lines, kind), read(document, kind)
            if isinstance(expected, pl.DataFrame):
                assert isinstance(found, pl.DataFrame), (rows, found)
                assert_frame_equal(found, expected)
            else:
                assert found[0] == expected[0], (rows, found, expected)


def test_json_lines_in_a_file_that_is_named_like_a_pattern(tmp_path: Path) -> None:
    for name in ("a1.jsonl", "a[1].jsonl"):
        row = {"query": name, "doc": "d", "score": 1.0}
        (tmp_path / name).write_text(text_of([row]), "utf-8")
    assert pr.scan_run(tmp_path / "a[1].jsonl").collect()["query"].to_list() == ["a[1].jsonl"]


def test_many_json_lines(tmp_path: Path) -> None:
    lines = [{"id": i, "results": ["x"]} for i in range(10_003)]
    run = pr.scan_run(written(tmp_path / "run", lines))
    assert run.select(pl.len(), pl.col("query").n_unique()).collect().row(0) == (10_003, 10_003)
