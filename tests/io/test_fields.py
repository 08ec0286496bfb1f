"""Which field of a file has which role: the user's word, a known name, or an error.

Cases are from public reports, in the format in which they were reported and in others.
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


def values(tmp_path: Path, judgments: Any, results: Any, *metrics: str, **options: Any) -> Any:
    """Return the means of one run."""
    log = pr.join_judgments(
        pr.scan_run(written(tmp_path, results, "results"), fields=options.get("results")),
        pr.scan_judgments(written(tmp_path, judgments, "judgments"), fields=options.get("fields")),
    )
    return pr.evaluate(log, [*metrics], run=None).collect().select(metrics).row(0)


RUN = "q1 Q0 a 1 2 x\nq1 Q0 b 2 1 x\n"


#: Unknown names of labels, each in some format.
LABELS = [
    *("relevancy", "relevance_score", "is_relevant", "relevance_grade", "qrel", "weight"),
    *("n_stars", "rated_as"),
]


@pytest.mark.parametrize(("form", "name"), [*zip(FORMATS, LABELS, strict=True)])
def test_an_unknown_label_is_an_error_and_may_be_named(
    tmp_path: Path, form: str, name: str
) -> None:
    rows = [{"query_id": "q1", "doc_id": "a", name: 0}, {"query_id": "q1", "doc_id": "b", name: 2}]
    judgments = FORMATS[form](rows)
    line = rf"'{name}' is not known.* fields=\{{'label': '{name}'\}}.* Fields: 'query_id' \(query\)"
    with pytest.raises(SchemaError, match=line):
        pr.scan_judgments(written(tmp_path, judgments))
    # The relevant document has rank 2: 1/2, and 1/log2(3).
    found = values(tmp_path, judgments, RUN, "mrr", "ndcg", fields={"label": name})
    assert found == pytest.approx((1 / 2, 0.6309297535714574))
    assert values(tmp_path, judgments, RUN, "mrr", fields={"label": None}) == (1,)


#: For each role, rows in which its field has an unknown name.
UNKNOWN: list[tuple[str, str, Rows, str]] = [
    ("judgments", "query", [{"prompt": "q", "doc_id": "a", "label": 1}], "prompt"),
    ("judgments", "doc", [{"query_id": "q", "path": "a", "label": 1}], "path"),
    ("judgments", "label", [{"query_id": "q", "doc_id": "a", "stars": 1}], "stars"),
    ("judgments", "label", [{"query_id": "q", "doc_id": "a", "good": True}], "good"),
    ("run", "query", [{"prompt": "q", "doc_id": "a", "score": 1.5}], "prompt"),
    ("run", "doc", [{"query_id": "q", "path": "a", "score": 1.5}], "path"),
    ("run", "score", [{"query_id": "q", "doc_id": "a", "confidence": 1.5}], "confidence"),
    ("run", "rank", [{"query_id": "q", "doc_id": "a", "nth": 1}], "nth"),
]


def test_a_field_with_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    rows = [(tmp_path, form, *row) for form in FORMATS for row in UNKNOWN]
    check_each(_is_an_error, rows)


def _is_an_error(folder: Path, form: str, kind: str, role: str, rows: Rows, name: str) -> None:
    path = written(folder, FORMATS[form](rows), f"{form}-{kind}-{name}")
    with pytest.raises(RankError, match=name) as error:
        SCAN[kind](path)
    assert str(path) in str(error.value)
    found = SCAN[kind](path, fields={role: name}).collect()
    assert found.select("query", "doc").rows() == [("q", "a")]
    assert name not in found.columns
    missing = "no field 'nowhere'|no file has the field 'nowhere'|may be a list of records"
    with pytest.raises(RankError, match=missing):
        SCAN[kind](path, fields={role: "nowhere"})


LISTS = [
    *("expected_files", "target_ids", "evidence", "supporting_docs", "ground_truth_sources"),
    *("must_retrieve", "answers_in", "relevent_ids"),
]


NESTED = ["json lines", "json", "json under a key", "parquet", "arrow"]


def test_an_unknown_list_is_no_document(tmp_path: Path) -> None:
    rows = [(form, name) for form in NESTED for name in LISTS[:2]]
    rows += [("json lines", name) for name in LISTS[2:]]
    check_each(lambda *row: _is_no_document(tmp_path, *row), rows)


def _is_no_document(folder: Path, form: str, name: str) -> None:
    rows = [{"id": 1, "question": "Where?", name: ["k7"]}]
    path = written(folder, FORMATS[form](rows), f"{form}-{name}")
    with pytest.raises(SchemaError, match=rf"fields=\{{'relevant': '{name}'\}}.*\(a list\)"):
        pr.scan_judgments(path)
    found = pr.scan_judgments(path, fields={"relevant": name}).collect()
    assert found.select("query", "doc", "label", "text").rows() == [("1", "k7", 1, "Where?")]
    with pytest.raises(SchemaError, match=rf"fields=\{{'results': '{name}'\}}"):
        pr.scan_run(path)
    assert pr.scan_run(path, fields={"results": name}).collect().rows() == [("1", "k7", -1.0)]


GOLDEN = [
    {"id": 1, "question": "Where is the key?", "relevant_ids": ["k7"]},
    {"id": 2, "question": "Will it rain?", "answerable": False},
]


@pytest.mark.parametrize("key", ["id", "question"])
@pytest.mark.parametrize("none", [{"answerable": False}, {"relevant_ids": []}])
def test_the_id_of_a_question_is_no_document(tmp_path: Path, key: str, none: Any) -> None:
    golden = [GOLDEN[0], {"id": 2, "question": "Will it rain?", **none}]
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


def test_texts_in_place_of_ids_are_unique_or_stay(tmp_path: Path) -> None:
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


#: A kind of file, its content, `fields`, and the rows that are read.
READ: dict[str, tuple[str, Any, Any, list[tuple[Any, ...]]]] = {
    "ranks that are null": ("run", "query,doc,rank\nq,d,\n", None, [("q", "d", None)]),
    "an empty line before the header": (
        "run", "\nquery,doc,score\nq,d,2\nq,e,\n", None, [("q", "d", 2.0), ("q", "e", None)],
    ),
    "no ratings": ("judgments", [{"id": 1, "ratings": []}], None, [("1", None, None)]),
    "an id beside a text": (
        "judgments", [{"id": "q1", "question": "How?", "doc_id": "d1", "grade": 2}], {},
        [("q1", "d1", 2)],
    ),
    "the text, by the user": (
        "judgments", [{"id": "q1", "question": "How?", "doc_id": "d1", "grade": 2}],
        {"query": "question"}, [("How?", "d1", 2)],
    ),
    "the id of a document, by the user": (
        "run", [{"query": "q1", "id": "d1", "score": 2}], {"doc": "id"}, [("q1", "d1", 2.0)],
    ),
    "the id of an element": (
        "run", [{"id": "q1", "results": [{"id": "d1", "score": 0.5}]}], {}, [("q1", "d1", 0.5)],
    ),
    "an id in metadata, by the user": (
        "run", [{"id": "q1", "results": [{"metadata": {"source": "d1"}, "score": 0.5}]}],
        {"doc": "metadata.source"}, [("q1", "d1", 0.5)],
    ),
    "a label in a list, by its whole name": (
        "judgments", [{"id": "q1", "relevant": [{"doc_id": "d1", "relevancy": 2}]}],
        {"label": "relevant.relevancy"}, [("q1", "d1", 2)],
    ),
    "a null rating": (
        "judgments",
        [{"query": "q", "ratings": [{"doc_id": "x", "rating": None}, {"doc_id": "y", "rating": 0}]}],
        {}, [("q", "x", None), ("q", "y", 0)],
    ),
    "a null rating in rows": (
        "judgments",
        [{"query": "q", "doc": "x", "rating": None}, {"query": "q", "doc": "y", "rating": 3}],
        {}, [("q", "x", None), ("q", "y", 3)],
    ),
    "a null rating in a mapping": (
        "judgments", json.dumps({"q": {"x": None, "y": 0}}), {}, [("q", "x", None), ("q", "y", 0)],
    ),
    "a null rating in a pair": (
        "judgments", [{"query": "q", "gold": [["x", None], ["y", 2]]}], {},
        [("q", "x", None), ("q", "y", 2)],
    ),
    "a null rating in CSV": (
        "judgments", "query,doc,rating\nq,x,\nq,y,3\n", {}, [("q", "x", None), ("q", "y", 3)],
    ),
    "ids without labels beside labels of another query": (
        "judgments", [{"id": 1, "gold": ["a"]}, {"id": 2, "gold": {"b": 3}}], {},
        [("1", "a", 1), ("2", "b", 3)],
    ),
    "labels in a list of their own": (
        "judgments", [{"id": 1, "relevant_ids": ["a", "b"], "grades": None, "labels": [2, 1]}], {},
        [("1", "a", 2.0), ("1", "b", 1.0)],
    ),
    "scores in a list of their own": (
        "run", [{"id": 1, "ids": ["a", "b"], "distances": [0.5, 0.25]}],
        {"results": "ids", "score": "distances"}, [("1", "a", 0.5), ("1", "b", 0.25)],
    ),
    "ids that are split in a CSV column of ids": (
        "judgments", 'query,relevant_ids\nq,"a, c"\np,a;b|c\nr,\n', {},
        [("q", "a", 1), ("q", "c", 1), ("p", "a", 1), ("p", "b", 1), ("p", "c", 1),
         ("r", None, None)],
    ),
    "lists in a CSV column": (
        "judgments", 'query,expected\nq,"[""a b"", ""c""]"\np,"[\'d\']"\n', {},
        [("q", "a b", 1), ("q", "c", 1), ("p", "d", 1)],
    ),
    "flags in CSV": (
        "judgments", "query,doc,relevant\nq,a,TRUE\nq,b,FALSE\n", {}, [("q", "a", 1), ("q", "b", 0)],
    ),
    "flags and numbers in CSV": (
        "judgments", "query,doc,relevant\nq,a,TRUE\nq,b,2\nq,c,\n", {},
        [("q", "a", 1.0), ("q", "b", 2.0), ("q", "c", None)],
    ),
    "flags in JSON": (
        "judgments", [{"query": "q", "relevant": [{"id": "a", "relevant": True}]}], {},
        [("q", "a", 1)],
    ),
    "a header with semicolons": (
        "judgments", "query;doc;label\nq;a;1\n", {}, [("q", "a", 1)],
    ),
    "ranks without scores": (
        "run", "query_id,doc_id,score,rank\nq1,a,,2\nq1,b,,1\n", {},
        [("q1", "a", -2.0), ("q1", "b", -1.0)],
    ),
    "ranks, by the user": (
        "run", "query_id,doc_id,score,rank\nq1,a,.5,2\nq1,b,.5,1\n", {"score": None},
        [("q1", "a", -2.0), ("q1", "b", -1.0)],
    ),
    "a null score without ranks": (
        "run", [{"query": "q", "doc": "a", "score": 0.5}, {"query": "q", "doc": "b", "score": None}],
        {}, [("q", "a", 0.5), ("q", "b", None)],
    ),
    "null scores in a list": (
        "run", [{"id": 1, "results": [{"id": "a", "score": None}, {"id": "b", "score": None}]}], {},
        [("1", "a", -1.0), ("1", "b", -2.0)],
    ),
    "a page number is no score": (
        "run", [{"id": 1, "results": [{"id": "a", "page": 7}, {"id": "b", "page": 9}]}], {},
        [("1", "a", -1.0), ("1", "b", -2.0)],
    ),
    "an order that the user confirms": (
        "run", [{"id": 1, "results": [{"id": "a", "distance": 0.1}, {"id": "b", "distance": 0.2}]}],
        {"score": None}, [("1", "a", -1.0), ("1", "b", -2.0)],
    ),
    "three columns with ranks": (
        "run", "q1 d1 1\nq1 d2 2\nq2 d3 1\n", {},
        [("q1", "d1", -1.0), ("q1", "d2", -2.0), ("q2", "d3", -1.0)],
    ),
    "three columns with ranks from 0": (
        "run", "q1 d1 1\nq1 d2 0\n", {}, [("q1", "d1", -1.0), ("q1", "d2", 0.0)],
    ),
    "three columns with scores, by the user": (
        "run", "q1 d1 0.9\nq1 d2 0.3\n", {"score": "column 3"}, [("q1", "d1", 0.9), ("q1", "d2", 0.3)],
    ),
    "four columns, by the user": (
        "run", "q1 d1 1 0.9\n", {"query": "column 1", "doc": "column 2", "score": "column 4"},
        [("q1", "d1", 0.9)],
    ),
    "the order of ranks in TREC files, by the user": (
        "run", "q1 Q0 d1 2 0.9 x\nq1 Q0 d2 1 0.3 x\n", {"score": None},
        [("q1", "d1", -2.0), ("q1", "d2", -1.0)],
    ),
    "a query that begins with #": (
        "judgments", "# judgments\n#12 0 d1 1\n# 0 d2\n", {}, [("#12", "d1", 1)],
    ),
    "a query that begins with # in three columns": ("judgments", "#12 d1 1\n", {}, [("#12", "d1", 1)]),
    "a result for a query that begins with #": (
        "run", "#12 Q0 d1 1 0.5 x\n#12 Q0 d2 2 0.25 x y\n#13\n", {},
        [("#12", "d1", 0.5), ("#12", "d2", 0.25)],
    ),
    "words after the tag": (
        "run", "1 Q0 a 1 2 tag w1\n1 Q0 b 2 1 tag w2 w3\n1 Q0 c 3 0 tag\n", {},
        [("1", "a", 2.0), ("1", "b", 1.0), ("1", "c", 0.0)],
    ),
    "the number of the line": (
        "judgments", "1 qid:7 1:2 # doc 1\n0 qid:7 1:2 # doc 2\n", {"doc": None},
        [("7", "1", 1.0), ("7", "2", 0.0)],
    ),
    "labels of 64 bits": (
        "judgments", [{"id": 1, "gold": {"a": 2**63, "b": 0}}], {},
        [("1", "a", 2.0**63), ("1", "b", 0.0)],
    ),
    "users and items": (
        "judgments", "user_id,item_id,rating,timestamp\nu,i,4,1700000000\n", {}, [("u", "i", 4)],
    ),
    "one question in a document": (
        "judgments", json.dumps({"query": "q", "expected_ids": ["a"], "difficulty": 3}), {},
        [("q", "a", 1)],
    ),
    "records by query": (
        "judgments", json.dumps({"q1": {"question": "How?", "files": ["a"]}}), {"relevant": "files"},
        [("q1", "a", 1)],
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*ranks contradict:polars_rank.errors.RankWarning")
def test_what_is_read(tmp_path: Path) -> None:
    def check(name: str, kind: str, content: Any, fields: Any, expected: Any) -> None:
        path = written(tmp_path, content, str(len([*tmp_path.iterdir()])))
        found = SCAN[kind](path, fields=fields).collect()
        value = "label" if kind == "judgments" else "score"
        assert found.select("query", "doc", value).rows() == expected

    check_each(check, ((name, *row) for name, row in READ.items()))


#: A kind of file, its content, and what the error says.
REFUSED: dict[str, tuple[str, Any, str]] = {
    "ratings without numbers": (
        "judgments", [{"id": 1, "ratings": ["k8"]}], "documents in 'ratings' have no label",
    ),
    "records under a key that are no documents": (
        "judgments", '{"queries": [{"question": null, "id": "q0", "grade": 2}]}',
        "no field is known as the list of relevant documents",
    ),
    "a document without an id among ids": (
        "run", [{"id": 1, "results": ["b", {"node": {"doc": None, "title": "t"}}]}],
        "line 1: .* found no value",
    ),
    "a record without the list": (
        "judgments",
        [GOLDEN[0], {"id": 2, "question": "Who?", "relevent_ids": ["k8"]}],
        r"line 2 has no 'relevant_ids'.* Did you mean 'relevent_ids'\? Fields: ",
    ),
    "a record without results": (
        "run", [{"id": 1, "results": ["a"]}, {"id": 2, "answer": "x"}],
        r"line 2 has no 'results'.* If nothing was retrieved, write \[\]",
    ),
    "a null list": (
        "judgments", [GOLDEN[0], {"id": 2, "relevant_ids": None}], "line 2 has null as 'relevant_ids'",
    ),
    "a question that is not answerable with documents": (
        "judgments", [{"id": 1, "relevant_ids": ["a"], "answerable": False}],
        "line 1 has documents in 'relevant_ids', although 'answerable' is false",
    ),
    "an id twice": (
        "judgments",
        [{"id": 1, "question": "a", "gold": ["x"]}, {"id": 1, "question": "b", "gold": ["y"]}],
        "line 2 repeats the query '1' of line 1",
    ),
    "an id of two questions in rows": (
        "judgments",
        [{"id": 1, "question": "a", "doc": "x"}, {"id": 1, "question": "b", "doc": "y"}],
        "line 2 repeats the query '1' of line 1",
    ),
    "an id of rows": (
        "judgments",
        [{"id": n, "query": "q", "doc": f"d{n}", "label": 1} for n in range(3)],
        "'id' differs in each of 3 rows.* write fields={'query': 'query'} or",
    ),
    "an id of rows in CSV": (
        "run", "id,query,doc,score\n1,q,a,1\n2,q,b,2\n", "'id' differs in each of 2 rows",
    ),
    "an id of rows in each run": (
        "run", "id,query,run,doc,score\n1,q,a,d,1\n2,q,a,e,2\n1,q,b,d,1\n2,q,b,e,2\n",
        "'id' differs in each of 4 rows",
    ),
    "a query without documents or an error": (
        "run", "query,error\np,timeout\nq,\n", "row 2 has no 'doc'",
    ),
    "an id of some questions": (
        "judgments", [{"id": 1, "query": "a", "gold": ["x"]}, {"query": "b", "gold": ["y"]}],
        "line 2 has no query in 'id'",
    ),
    "an id that is null": ("judgments", [{"id": None, "gold": ["x"]}], "line 1 has no query in 'id'"),
    "an id that is a document": (
        "run", [{"query": "q", "id": "a", "score": 1}], r"name it, as in fields={'doc': 'id'}",
    ),
    "two ids that may be the query": (
        "judgments", "id,user_id,item_id,rating\n1,u,i,4\n", "'id' and 'user_id' can both be the query",
    ),
    "two documents": (
        "judgments", [{"id": 1, "doc_id": "a", "chunk_id": "b", "label": 1}],
        "'doc_id' and 'chunk_id' can both be the document; write fields={'doc': 'doc_id'}",
    ),
    "two lists": (
        "judgments", [{"id": 1, "relevant_ids": ["a"], "gold_ids": ["b"]}],
        "'relevant_ids' and 'gold_ids' can both be the list of relevant documents",
    ),
    "a document beside a list": (
        "judgments", [{"id": 1, "doc_id": "a", "relevant_ids": ["b"]}],
        "'relevant_ids' and 'doc_id' can both be",
    ),
    "two labels": (
        "judgments", "query,doc,relevance,rating\nq,a,1,5\n",
        "'relevance' and 'rating' can both be the label",
    ),
    "two scores": (
        "run", [{"id": 1, "hits": [{"id": "a", "score": 1, "similarity": 0.5}]}],
        "can both be the score",
    ),
    "an unknown label in a list": (
        "judgments", [{"id": 1, "gold": [{"doc_id": "a", "relevancy": None},
                                         {"doc_id": "b", "relevancy": 0}]}],
        "the field 'relevancy' is not known",
    ),
    "an unknown score in a list": (
        "run", [{"id": 1, "hits": [{"id": "a", "distance": 0.1}]}],
        r"'distance' is not known.*fields=\{'score': None\}",
    ),
    "unknown numbers beside a list": (
        "judgments", [{"id": 1, "gold_ids": ["a", "b"], "stars": [5, 1]}], "'stars' is not known",
    ),
    "labels of another length": (
        "judgments", [{"id": 1, "gold_ids": ["a", "b"], "labels": [1]}],
        "line 1: 'labels' has 1 values, and 'gold_ids' has 2",
    ),
    "a label in some elements": (
        "judgments", [{"id": 1, "gold": ["a", {"id": "b", "grade": 2}]}],
        "the document 'a' has no 'grade', but others have one",
    ),
    "text in a list": ("judgments", [{"query": "q", "relevant": "yes"}], "line 1 has 'yes' in 'relev"),
    "ids in text": ("judgments", [{"query": "q", "relevant_ids": "a,c"}], "line 1 has 'a,c' in"),
    "an answer": (
        "judgments", [{"query": "q", "expected": "Bob, the builder"}], "line 1 has 'Bob, the builder'",
    ),
    "an answer in CSV": (
        "judgments", 'query,expected\nq,"Bob, the builder"\n', "row 1 has 'Bob, the builder' in 'exp",
    ),
    "text in a list of CSV": ("judgments", "question,relevant\nHow?,yes\n", "row 1 has 'yes' in 'rel"),
    "a text in some lists": (
        "judgments", [{"id": 1, "gold": ["a"]}, {"id": 2, "gold": "no"}], "line 2 has 'no' in 'gold'",
    ),
    "a text of a mapping": ("judgments", json.dumps({"q": "a"}), "no field is known as the query"),
    "groups of alternatives": (
        "judgments", [{"query": "q", "relevant": [[1, 2], [3, 4]]}], r"'relevant' has \[1, 2\]",
    ),
    "groups of texts": (
        "judgments", [{"query": "q", "relevant": [["a", "b"]]}], r"'relevant' has \['a', 'b'\]",
    ),
    "a set": (
        "run", "query,result_ids\nq,\"{'a', 'b'}\"\n", "\"{'a', 'b'}\", whose order is random",
    ),
    "three columns with scores": (
        "run", "q1 d1 0.9\nq1 d2 0.3\n",
        r"query 'q1' has 0.9, 0.3.* fields=\{'score': 'column 3'\}, add a header, or write the six",
    ),
    "three columns with whole scores": ("run", "q1 d1 30\nq1 d2 12\n", "query 'q1' has 30, 12"),
    "three columns with a score in a later line": (
        "run", "".join(f"q{n} d 1\n" for n in range(9)) + "q0 e 0.5\n", "query 'q0' has 1, 0.5",
    ),
    "four columns": ("run", "q Q0 d 1\n", "unknown format of results: line 1 is .* with `fields`"),
    "scores in some rows": (
        "run", "query_id,doc_id,score,rank\nq,a,,1\nq,b,.5,2\n",
        "1 of 2 documents have a score, and 2 have a rank",
    ),
    "scores in some rows of JSON": (
        "run", [{"query": "q", "doc": "a", "score": None, "rank": 1},
                {"query": "q", "doc": "b", "score": 0.5, "rank": 2}],
        "1 of 2 documents have a score, and 2 have a rank",
    ),
    "comments that begin alike": (
        "judgments", "1 qid:7 1:2 # doc 1\n0 qid:7 1:2 # doc 2\n",
        r"comments of lines 1 and 2.* both begin with 'doc'.* fields=\{'doc': None\}",
    ),
    "a bad number in line 1": ("judgments", "q 0 d x\n", "line 1 .* the label is a whole number"),
    "a stray quote": ("judgments", 'query,doc,label\nq,a"b,1\n', "as CSV: "),
    "a quote at the start": ("judgments", 'query,doc,label\nq,"a"b,1\nq,c,2\n', "as CSV: "),
    "a stray comma": ("judgments", "query,doc,label\nq,a,1,\n", "row 2 of .* has 4 fields"),
    # Rated Ranking Evaluator
    "a mapping of RRE": (
        "judgments",
        json.dumps({"index": "i", "id_field": "id", "topics": [{"query_groups": [
            {"name": "n", "queries": [], "relevant_documents": {"d1": {"gain": 3}}}]}]}),
        "no field is known as the query.* Fields: 'index', 'id_field', 'topics'",
    ),
    "a label of 400 digits": ("judgments", [{"id": 1, "gold": {"a": 10**400}}], "must be a finite"),
    "a number of 5,000 digits": ("judgments", '{"q": {"a": ' + "1" * 5000 + "}}", "number that is too l"),
    "lists that are nested too deeply": (
        "judgments", '{"query": "q", "gold": ' + "[" * 100_000 + "]" * 100_000 + "}", "is nested too deeply",
    ),
    "a text that is nested too deeply": (
        "judgments", 'query,relevant_ids\nq,"[' + "-" * 3000 + '1]"\n', "row 1: 'relevant_ids' has",
    ),
    "half of a character in a list of CSV": (
        "judgments", 'query,relevant_ids\nq,"[""\\ud800""]"\n', "row 1: 'relevant_ids' has",
    ),
    "an empty file": ("judgments", "", "has no judgments"),
    "an empty list": ("judgments", "[]", "has no judgments"),
    "a header": ("judgments", "query,doc,label\n", "has no judgments"),
}  # fmt: skip


def test_what_is_refused(tmp_path: Path) -> None:
    def check(name: str, kind: str, content: Any, message: str) -> None:
        path = written(tmp_path, content, str(len([*tmp_path.iterdir()])))
        with pytest.raises(RankError, match=message) as error:
            SCAN[kind](path).collect()
        assert str(path) in str(error.value)

    check_each(check, ((name, *row) for name, row in REFUSED.items()))


def test_ratings_of_a_response_are_judgments(tmp_path: Path) -> None:
    hits = [
        {"hit": {"_id": doc, "_score": score}, "rating": rating}
        for doc, score, rating in (("x", 3, 0), ("y", 2, None), ("z", 1, 3))
    ]
    response = json.dumps({"metric_score": 0.3, "failures": {}, "details": {
        "q": {"metric_score": 0.3, "unrated_docs": [{"_index": "i", "_id": "y"}], "hits": hits}
    }})  # fmt: skip
    # The only relevant document has rank 3.
    assert values(tmp_path, response, response, "mrr", "P@3") == pytest.approx((1 / 3, 1 / 3))


def test_scores_do_not_hide_ranks(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {"query": ["q", "q"], "doc": ["a", "b"], "score": [None, None], "rank": [1, 2]},
        schema_overrides={"score": pl.Float64},
    )
    for results in (table.write_csv(), buffer(table, "write_parquet"), table.rows(named=True)):
        assert values(tmp_path, "q 0 b 1\n", results, "mrr") == (0.5,)


A, B = [{"query": "q", "results": ["x", "y"]}], [{"query": "q", "results": ["y", "x"]}]
TREC = "q Q0 x 1 {} tag\nq Q0 y 1 {} tag\n"
TSV = "query\tdoc\tscore\nq\tx\t{}\nq\ty\t{}\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (A, B), (TREC.format(2, 1), TREC.format(1, 2)), (TSV.format(2, 1), TSV.format(1, 2)),
        (json.dumps({"q": ["x", "y"]}), json.dumps({"q": ["y", "x"]})),
        (TREC.format(2, 1), B), (A, TSV.format(1, 2)),
    ],
)  # fmt: skip
def test_files_of_results_are_runs(tmp_path: Path, one: Any, other: Any) -> None:
    files = [written(tmp_path, one, "a.x"), written(tmp_path, other, "b.y")]
    judgments = pr.scan_judgments(written(tmp_path, "q 0 x 1\n", "qrels"))
    means = pr.evaluate(pr.join_judgments(pr.scan_run(files), judgments), "mrr").collect()
    names = ["tag" if one == TREC.format(2, 1) and other == B else "a", "b"]
    assert {run: mrr for run, _, mrr in means.rows()} == {names[0]: 1.0, names[1]: 0.5}
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


@pytest.mark.parametrize("content", ["", "[]", "query,doc,score\n", "{}"])
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


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            [{"id": 1, "results": ["a"]}, {"id": 2, "error": "timeout"}],
            "1 query has an error, .*'2'",
        ),
        ("query,doc,score,error\n1,a,1,\n2,,,timeout\n", "1 query has an error, such as '2'"),
        ("q Q0 a 1 0.1 x\nq Q0 b 2 0.3 x\n", "the ranks contradict the scores in every query"),
        ([{"id": 1, "results": [["a", 0.1], ["b", 0.2]]}], "the scores of every query ascend"),
    ],
)
def test_warnings(tmp_path: Path, content: Any, message: str) -> None:
    path = written(tmp_path, content)
    with pytest.warns(RankWarning, match=f"{path}: {message}"):
        pr.scan_run(path)


def test_no_warning_if_one_query_has_the_order_of_its_ranks(tmp_path: Path) -> None:
    text = "q Q0 a 1 0.1 x\nq Q0 b 2 0.3 x\np Q0 a 1 2 x\np Q0 b 2 1 x\nr Q0 a 1 1 x\n"
    assert pr.scan_run(written(tmp_path, text)).collect().height == 5


def test_columns_are_named_by_role(tmp_path: Path) -> None:
    rows = [{"qid": 1, "path": "a", "sim": 0.5, "engine": "x", "topic": "t", "ms": 7}]
    fields = {
        "doc": "path", "score": "sim", "run": "engine", "category": "topic", "latency": "ms",
    }  # fmt: skip
    for form in FORMATS.values():
        found = pr.scan_run(written(tmp_path, form(rows)), fields=fields).collect()
        row = {"query": "1", "doc": "a", "score": 0.5, "run": "x", "category": "t", "latency": 7}
        assert found.to_dicts() == [row]
    spans = [{"id": 1, "relevant": [{"id": "a", "from": 3, "to": 9}]}]
    found = pr.scan_judgments(
        written(tmp_path, spans), fields={"start": "from", "end": "to", "label": None}
    ).collect()
    assert found.select("doc", "start", "end").rows() == [("a", 3.0, 9.0)]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"labels": "x"}, r"unknown role 'labels'\. Did you mean 'label'\? Roles: query, doc"),
        ({"score": "x"}, "unknown role 'score'"),
        ({"label": 1}, "must map 'label' to the name of a field"),
        ({"label": ""}, "must map 'label' to the name of a field"),
        ("label=x", "`fields` must be a mapping"),
    ],
)
def test_invalid_fields(tmp_path: Path, fields: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pr.scan_judgments(written(tmp_path, "q 0 a 1\n"), fields=fields)


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


FILES = Path(__file__).parents[2] / "examples" / "files"


def test_example_files_say_what_was_read() -> None:
    golden, results = FILES / "golden.jsonl", FILES / "results.jsonl"
    notes = pr.gate(golden, results).notes
    assert notes[-2:] == [
        "3 questions from golden.jsonl: query 'query', relevant 'relevant'",
        "3 rankings from results.jsonl: query 'query', results 'results', score 'results.score'",
    ]
    qrels = pr.scan_judgments(FILES / "qrels.txt").collect()
    run = pr.scan_run(FILES / "bm25.run").collect()
    assert (qrels["query"].n_unique(), run["query"].n_unique()) == (3, 2)
    clicks = pr.scan_judgments(FILES / "recommendations.csv", fields={"label": "clicked"}).collect()
    assert clicks["query"].n_unique() == 3
