"""Files of judgments and results in any format: each is evaluated to values computed by hand.

All files have the same three queries. The first has the relevant documents "d1" and "7", and the
run retrieves "x", "d1"; nothing is relevant to the second, for which "x" is retrieved; nothing is
retrieved for the third, whose relevant document is "d1".
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from rows import check_each

from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError, SourceError
from polars_rank.io.formats import Format, Start

KEYS = ("q1", "q2", "q3")
#: Recall at 5, the reciprocal rank, and NDCG at 5 of the files.
RECALL, RR, NDCG = [0.5, 0.0, 0.0], [0.5, 0.0, 0.0], [0.38685280723454163, 0.0, 0.0]

JUDGMENTS = [("q1", ["d1", "7"]), ("q2", []), ("q3", ["d1"])]
RESULTS: list[tuple[str, list[str]]] = [("q1", ["x", "d1"]), ("q2", ["x"]), ("q3", [])]


def lines(*records: Any) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def table(rows: list[tuple[Any, ...]], *names: str) -> pl.DataFrame:
    return pl.DataFrame(rows, names, orient="row", strict=False)


def unused(folder: Path) -> Path:
    return folder / f"file{len([*folder.iterdir()])}"


def written(path: Path, content: Any) -> Path:
    if isinstance(content, pl.DataFrame):
        content.write_parquet(path)
    elif isinstance(content, dict):
        path.mkdir()
        for name, text in content.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            written(path / name, text)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def golden(name: str, docs: Callable[[list[str]], Any] = list, query: str = "query") -> str:
    return lines(*({query: key, name: docs(ids)} for key, ids in JUDGMENTS))


def found(name: str, docs: Callable[[list[str]], Any] = list, query: str = "query") -> str:
    return lines(*({query: key, name: docs(ids)} for key, ids in RESULTS))


def scored(ids: list[str]) -> list[tuple[str, float]]:
    return [(each, 0.9 - rank / 10) for rank, each in enumerate(ids)]


QRELS = "q1 0 d1 1\nq1 0 7 1\nq2 0 x 0\nq3 0 d1 1\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\t7\t1\nq2\tx\t0\nq3\td1\t1\n"
LONG = table(
    [("q1", "d1", 1), ("q1", "7", 1), ("q2", None, None), ("q3", "d1", 1)],
    *("query", "doc", "label"),
)

#: Files of judgments. The comments name the source of the format.
GOLDEN: dict[str, Any] = {
    "trec": QRELS,
    "trec with tabs, comments, a byte order mark and CRLF": (
        "\ufeff# judgments\r\n\r\n" + QRELS.replace(" ", "\t").replace("\n", "\r\n")
    ),
    "trec, compressed": gzip.compress(QRELS.encode()),
    "three columns": "q1 d1 1\nq1 7 1\nq2 x 0\nq3 d1 1\n",
    # The layout of BEIR's datasets, and of MTEB's in Parquet.
    "beir": BEIR,
    "beir folder": {"qrels/test.tsv": BEIR, "qrels/train.tsv": "query-id\tcorpus-id\tscore\n"},
    "mteb folder": {
        "qrels/test-00000-of-00001.parquet": LONG.drop_nulls().rename(
            {"query": "query-id", "doc": "corpus-id", "label": "score"}
        ).vstack(table([("q2", "x", 0)], "query-id", "corpus-id", "score")),
    },
    "list of ids": golden("relevant_ids"),
    "list of objects": golden(
        "gold", lambda ids: [{"doc_id": each, "grade": 1} for each in ids], "question"
    ),
    "list of pairs": golden("expected", lambda ids: [[each, 1] for each in ids]),
    "mapping to grades": golden("relevant", lambda ids: dict.fromkeys(ids, 1), "query_id"),
    "numbers and texts": lines(
        {"id": "q1", "relevant_doc_ids": ["d1", 7]}, {"id": "q2", "relevant_doc_ids": []},
        {"id": "q3", "relevant_doc_ids": ["d1"]},
    ),
    "ground truth": golden("ground_truth_ids"),
    "json, one query per item": json.dumps(
        [{"query": key, "reference_context_ids": ids} for key, ids in JUDGMENTS], indent=1
    ),
    "json, a list under a key": json.dumps(
        {"version": 2, "queries": [{"query": key, "expected_ids": ids} for key, ids in JUDGMENTS]}
    ),
    "json, a mapping to lists": json.dumps(dict(JUDGMENTS)),
    "json, a mapping to grades": json.dumps({key: dict.fromkeys(x, 1) for key, x in JUDGMENTS}),
    # LlamaIndex: EmbeddingQAFinetuneDataset.save_json
    "json, texts and documents by query": json.dumps(
        {"queries": dict.fromkeys(KEYS, "?"), "corpus": {"d1": "text"},
         "relevant_docs": dict(JUDGMENTS), "mode": "text"}
    ),
    "one document per line": lines(
        {"query": "q1", "doc_id": "d1", "label": 1}, {"query": "q1", "doc_id": "7", "label": 1},
        {"query": "q2", "doc_id": None}, {"query": "q3", "doc_id": "d1", "label": True},
    ),
    "csv": "query,doc,label\nq1,d1,1\nq1,7,1\nq2,,\nq3,d1,1\n",
    "csv of lists": 'qid,relevant_ids\nq1,d1;7\nq2,\nq3,"[""d1""]"\n',
    "csv of Python lists": "qid,relevant_ids\nq1,\"['d1', '7']\"\nq2,[]\nq3,['d1']\n",
    "parquet": LONG,
    "arrow": LONG.write_ipc(None).getvalue(),
    "parquet of lists": table(JUDGMENTS, "query", "relevant"),
    # Quepid: app/views/api/v1/export/ratings/show.basic.csv.erb. A query without ratings is a row
    # with one field.
    "quepid": "query,docid,rating\nq1,d1,1\nq1,7,1\nq2\nq3,d1,1\n",
    # OpenSearch: docs/search-plugins/search-relevance/judgments. Ratings are text.
    "opensearch": json.dumps(
        {"name": "j", "type": "IMPORT_JUDGMENT", "judgmentRatings": [
            {"query": key, "ratings": [{"docId": each, "rating": "1.0"} for each in ids]}
            for key, ids in JUDGMENTS
        ]}
    ),
    "opensearch, as a search response": json.dumps(
        {"took": 1, "hits": {"total": {"value": 1}, "hits": [{"_id": "u", "_source": {
            "id": "u", "name": "j", "judgmentRatings": [
                {"query": key, "ratings": [{"docId": each, "rating": "1"} for each in ids]}
                for key, ids in JUDGMENTS
            ],
        }}]}}
    ),
    # Elasticsearch: reference of the ranking evaluation API, its request.
    "rank_eval": json.dumps(
        {"requests": [
            {"id": key, "request": {"query": {"match": {"text": "?"}}},
             "ratings": [{"_index": "i", "_id": each, "rating": 1} for each in ids]}
            for key, ids in JUDGMENTS
        ], "metric": {"recall": {"k": 5}}}
    ),
    # SVMlight's format with the comments of LETOR, and with the ids of Quepid's show_ltr.txt.erb.
    "svmlight": "1 qid:q1 1:0.5 #docid = d1 inc = 1\n1 qid:q1 1:2 # 7 text\n0 qid:q2 1:0 # x\n"
    "1 qid:q3 # d1\n",
}  # fmt: skip

#: Files of results.
FOUND: dict[str, Any] = {
    "trec": "q1 Q0 x 1 2.5 bm25\nq1 Q0 d1 2 1.5 bm25\nq2 Q0 x 1 1 bm25\n",
    "trec without a tag": "q1 Q0 x 1 2.5\nq1 Q0 d1 2 1.5\nq2 Q0 x 1 1\n",
    "trec, a tag with blanks": "q1 Q0 x 1 2.5 a b\nq1 Q0 d1 2 1.5 a b\nq2 Q0 x 1 1 a b\n",
    # MS MARCO passage ranking: qid, pid and rank.
    "msmarco": "q1\tx\t1\nq1\td1\t2\nq2\tx\t1\n",
    "list of ids": found("results"),
    "list of pairs": found("retrieved", scored),
    "list of objects": found(
        "retrieved_ids", lambda ids: [{"id": each, "score": x} for each, x in scored(ids)]
    ),
    "objects with texts": found(
        "results", lambda ids: [{"id": each, "document": "text", "url": "u"} for each in ids]
    ),
    "objects in any order with ranks": found(
        "hits", lambda ids: [{"doc": x, "rank": ids.index(x) + 1} for x in reversed(ids)]
    ),
    "mapping to scores": found("predictions", lambda ids: dict(scored(ids)), "query_id"),
    "json, a mapping to lists": json.dumps(dict(RESULTS), indent=2),
    "matches": lines(*(
        {"query": key, "matches": [{"id": doc, "score": score} for doc, score in scored(ids)]}
        for key, ids in RESULTS
    )),
    "json, a mapping to records": json.dumps(
        {key: {"retrieved_context_ids": ids, "latency": 0.5} for key, ids in RESULTS}
    ),
    "one document per line": lines(
        {"query": "q1", "doc": "x", "score": 2}, {"query": "q1", "doc": "d1", "score": 1},
        {"query": "q2", "doc": "x", "score": 1},
    ),
    "csv": "query,doc,score\nq1,x,2\nq1,d1,1.5\nq2,x,1\nq3,,\n",
    "csv with ranks": "qid,docno,rank\nq1,d1,2\nq1,x,1\nq2,x,1\n",
    "tsv of lists": "query\tresult_ids\nq1\tx|d1\nq2\tx\nq3\t\n",
    "parquet of lists": table(RESULTS, "query", "retrieved"),
    "parquet of structs": table(
        [(key, [{"id": x, "score": y} for x, y in scored(ids)]) for key, ids in RESULTS],
        *("query", "results"),
    ),
    # sentence-transformers: InformationRetrievalEvaluator with write_predictions.
    "sentence-transformers": lines(*(
        {"query_id": key, "query": "?",
         "results": [{"corpus_id": x, "score": y} for x, y in scored(ids)]}
        for key, ids in RESULTS
    )),
    # MTEB: AbsTask._save_task_predictions.
    "mteb": json.dumps(
        {"mteb_model_meta": {"model_name": "m", "revision": "r"},
         "default": {"test": {key: dict(scored(ids)) for key, ids in RESULTS}}}
    ),
    # Quepid: ExportCaseService.detailed_csv, and snapshot_csv.
    "quepid": "Team Name,Case Name,Case ID,Query Text,Doc ID,Doc Position,Title,Rating\n"
    "t,c,1,q1,x,1,,0\nt,c,1,q1,d1,2,,1\nt,c,1,q2,x,1,,0\nt,c,1,q3,,,,\n",
    "quepid snapshot": "Snapshot Name,Snapshot Time,Case ID,Query Text,Doc ID,Doc Position\n"
    "s,2026-01-01 00:00:00,1,q1,x,1\ns,2026-01-01 00:00:00,1,q1,d1,2\n"
    "s,2026-01-01 00:00:00,1,q2,x,1\n",
    # OpenSearch: EvaluationResult of the plugin search-relevance, as a search returns it.
    "opensearch": json.dumps({"hits": {"hits": [
        {"_id": key, "_source": {
            "id": f"u-{key}", "searchConfigurationId": "c", "searchText": key,
            "judgmentIds": ["j"], "documentIds": ids,
            "metrics": [{"metric": "Recall@5", "value": 0.5}], "took": 3,
        }} for key, ids in RESULTS
    ]}}),
    # Elasticsearch: reference of the ranking evaluation API, its response.
    "rank_eval": json.dumps({"metric_score": 0.5, "details": {
        key: {"metric_score": 0.5, "unrated_docs": [{"_index": "i", "_id": "x"}], "hits": [
            {"hit": {"_index": "i", "_id": x, "_score": y}, "rating": None}
            for x, y in scored(ids)
        ]} for key, ids in RESULTS
    }, "failures": {}}),
    # OpenInference: spec/traces.md and spec/semantic_conventions.md.
    "openinference": lines(
        {"name": "answer", "span_kind": "CHAIN", "context": {"trace_id": "t", "span_id": "s"},
         "attributes": {"input.value": "q1"}},
        *({"name": "retrieve", "context": {"trace_id": f"t-{key}", "span_id": "s"},
           "start_time": "2026-01-01T00:00:00+00:00", "end_time": "2026-01-01T00:00:00.5+00:00",
           "status_code": "OK",
           "attributes": {
               "openinference.span.kind": "RETRIEVER", "input.value": key,
               "retrieval.documents": [
                   {"document.id": x, "document.score": y} for x, y in scored(ids)
               ],
           }} for key, ids in RESULTS),
    ),
    # OpenTelemetry spans have one attribute for each field of a document.
    "openinference, flat": lines(*(
        {"span_id": "s", "attributes": {
            "openinference.span.kind": "RETRIEVER", "input.value": key,
            **{f"retrieval.documents.{i}.document.id": x for i, x in enumerate(ids)},
        }} for key, ids in RESULTS
    )),
    # Phoenix: Client.get_spans_dataframe.
    "openinference in Parquet": pl.DataFrame({
        "span_kind": ["RETRIEVER"] * 3, "attributes.input.value": [*KEYS],
        "context.trace_id": ["a", "b", "c"],
        "attributes.retrieval.documents": [
            [{"document.id": x, "document.content": "text"} for x in ids] for _, ids in RESULTS
        ],
    }),
    # MLflow: Trace.to_dict, entities.Document; values of attributes are JSON.
    "mlflow": lines(*(
        {"info": {"trace_id": key}, "data": {"spans": [{
            "trace_id": key, "span_id": "s", "start_time_unix_nano": 0,
            "end_time_unix_nano": 500_000_000, "status": {"code": "STATUS_CODE_OK"},
            "attributes": {
                "mlflow.spanType": '"RETRIEVER"', "mlflow.spanInputs": json.dumps({"query": key}),
                "mlflow.spanOutputs": json.dumps([
                    {"page_content": "text", "metadata": {"doc_uri": x}, "id": None} for x in ids
                ]),
            },
        }]}} for key, ids in RESULTS
    )),
    # MLflow: search_traces, written to Parquet with the spans as JSON.
    "mlflow in Parquet": pl.DataFrame({
        "trace_id": [*KEYS], "spans": [json.dumps([{
            "span_type": "RETRIEVER", "inputs": {"question": key},
            "outputs": [{"page_content": "text", "metadata": {}, "id": x} for x in ids],
        }]) for key, ids in RESULTS],
    }),
}  # fmt: skip


def values(run: pl.LazyFrame, judgments: pl.LazyFrame) -> pl.DataFrame:
    log = pr.join_judgments(run, judgments)
    assert log.collect().schema["query"] == log.collect().schema["doc"] == pl.String
    found = pr.per_query(log, ["recall@5", "rr", "ndcg@5"], run=None).collect()
    return found.select("query", "recall@5", "rr", "ndcg@5").sort("query")


EXPECTED = pl.DataFrame({"query": [*KEYS], "recall@5": RECALL, "rr": RR, "ndcg@5": NDCG})


@pytest.mark.filterwarnings("ignore:.*judged.*:polars_rank.errors.RankWarning")
def test_judgments(tmp_path: Path) -> None:
    run = pr.scan_run(written(tmp_path / "run", FOUND["list of ids"]))

    def check(name: str, content: Any) -> None:
        judgments = pr.scan_judgments(written(unused(tmp_path), content))
        assert_frame_equal(values(run, judgments), EXPECTED)
        assert judgments.collect().drop_nulls("label")["doc"].to_list()[:2] == ["d1", "7"]

    check_each(check, GOLDEN.items())


@pytest.mark.filterwarnings("ignore:.*judged.*:polars_rank.errors.RankWarning")
def test_results(tmp_path: Path) -> None:
    judgments = pr.scan_judgments(written(tmp_path / "golden", GOLDEN["list of ids"]))

    def check(name: str, content: Any) -> None:
        run = pr.scan_run(written(unused(tmp_path), content))
        assert_frame_equal(values(run, judgments), EXPECTED)
        assert run.collect().schema["score"] == pl.Float64

    check_each(check, FOUND.items())


def test_each_format_has_a_file_here(tmp_path: Path) -> None:
    files = [written(tmp_path / str(n), content) for n, content in enumerate(GOLDEN.values())]
    recognized = {Start.of(str(file), "judgments").format() for file in files if file.is_file()}
    assert recognized == {*get_args(Format)}


def test_lightgbm_has_the_queries_in_a_file(tmp_path: Path) -> None:
    data = written(tmp_path / "rank.train", "1 0:0.5 2:1\n0 1:2\n\n2 0:1\n")
    written(tmp_path / "rank.train.query", "2\n1\n")
    judgments = pr.scan_judgments(data).collect()
    assert judgments.rows() == [("1", "1", 1.0), ("1", "2", 0.0), ("2", "4", 2.0)]
    written(tmp_path / "rank.train.query", "2\n2\n")
    with pytest.raises(DataError, match="has 4 documents in 2 queries, .* has 3 lines"):
        pr.scan_judgments(data).collect()


def test_other_fields_are_columns(tmp_path: Path) -> None:
    file = written(tmp_path / "golden.jsonl", lines(
        {"id": 1, "query": "Wer?", "relevant": ["a", "b"], "category": "x", "tags": ["s", "t"]},
        {"id": 2, "query": "Was?", "relevant": {"a": 0.5}, "hops": 1, "meta": {"ignored": 1}},
    ))  # fmt: skip
    judgments = pr.scan_judgments(file)
    expected = pl.DataFrame({
        "query": ["1", "1", "2"], "doc": ["a", "b", "a"], "label": [1.0, 1.0, 0.5],
        "text": ["Wer?", "Wer?", "Was?"], "category": ["x", "x", None],
        "tags": [["s", "t"], ["s", "t"], None], "hops": [None, None, 1],
    })  # fmt: skip
    assert_frame_equal(judgments.collect(), expected)
    assert_frame_equal(judgments.filter(doc="b").select("tags").collect(), expected[1:2, ["tags"]])
    assert judgments.head(1).collect().height == 1
    file = written(tmp_path / "results.jsonl", lines(
        {"id": 1, "query": "Wer?", "results": ["a"], "latency": 2, "system": "neural"},
        {"id": 2, "query": "Was?", "error": "timeout", "latency": 0.5, "system": "neural"},
    ))  # fmt: skip
    with pytest.warns(RankWarning, match="1 query has an error, such as '2'"):
        run = pr.scan_run(file).collect()
    assert run.columns == ["query", "doc", "score", "run", "latency", "error"]
    assert run.rows() == [
        ("1", "a", -1.0, "neural", 2.0, None), ("2", None, None, "neural", 0.5, "timeout"),
    ]  # fmt: skip


def test_failures_of_rank_eval_are_errors(tmp_path: Path) -> None:
    response = {"details": {}, "failures": {"q1": {"error": {"type": "parsing_exception"}}}}
    with pytest.warns(RankWarning, match="1 query has an error, such as 'q1'"):
        run = pr.scan_run(written(tmp_path / "run", json.dumps(response))).collect()
    assert run.rows() == [("q1", None, None, '{"error": {"type": "parsing_exception"}}')]


def test_spans_have_latency_and_errors(tmp_path: Path) -> None:
    span = {
        "context": {"trace_id": "t", "span_id": "s"}, "span_kind": "RETRIEVER",
        "start_time": "2026-01-01T00:00:00Z", "end_time": "2026-01-01T00:00:01.5Z",
        "status_code": "ERROR", "status_message": "no index", "attributes": {"input.value": "a"},
    }  # fmt: skip
    with pytest.warns(RankWarning, match="1 query has an error, such as 'a'"):
        run = pr.scan_run(written(tmp_path / "run", lines(span, span))).collect()
    assert run.drop("doc", "score").unique().to_dicts() == [
        {"query": "a", "trace": "t", "latency": 1.5, "error": "no index"}
    ]


@pytest.mark.parametrize(
    ("records", "queries"),
    [
        ([{"query_id": 1, "id": 8, "query": "a"}, {"query_id": 2, "id": 8, "query": "b"}], "12"),
        ([{"id": 1, "query": "a"}, {"id": 2, "query": "a"}], "12"),
        ([{"query": "a"}, {"query": "b"}], "ab"),
    ],
)
def test_the_key_of_queries(tmp_path: Path, records: list[Any], queries: str) -> None:
    text = lines(*({**record, "relevant": ["d"]} for record in records))
    judgments = pr.scan_judgments(written(tmp_path / "golden", text)).collect()
    assert "".join(judgments["query"]) == queries
    assert ("text" in judgments.columns) == (queries == "12")


def test_columns_of_queries_are_groups(tmp_path: Path) -> None:
    text = lines(
        {"query": "a", "relevant": ["d"], "category": "x"},
        {"query": "b", "relevant": [], "category": "y"},
        {"query": "c", "relevant": ["e"], "category": "y"},
    )
    judgments = pr.scan_judgments(written(tmp_path / "golden", text))
    run = pr.scan_run(written(tmp_path / "run", json.dumps({"a": ["z", "d"], "b": ["z"]})))
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
    judgments = pr.scan_judgments(written(tmp_path / "golden", json.dumps(dict(JUDGMENTS))))
    run = pr.scan_run(written(tmp_path / "run", json.dumps(dict(RESULTS))))
    log = pr.join_judgments(run, judgments).collect()
    assert not recwarn.list
    means = pr.evaluate(log, ["recall", "num_retrieved"])
    assert means.rows() == [(3, 0.5 / 3, 3.0)]
    judged = pr.evaluate(log, "recall", query_set="judged")
    assert judged.select("queries", "recall").rows() == [(2, 0.25)]


def test_different_keys_show_ids_of_both(tmp_path: Path) -> None:
    judgments = pr.scan_judgments(written(tmp_path / "golden", golden("relevant")))
    records = [{"id": key, "results": ["d1"]} for key in (901, 902, 903)]
    run = pr.scan_run(written(tmp_path / "run", lines(*records)))
    message = "match.*'901', '902' in the rankings and 'q1', 'q2' in the judgments"
    with pytest.warns(RankWarning, match=message):
        pr.join_judgments(run, judgments).collect()


def test_folders(tmp_path: Path) -> None:
    folder = written(tmp_path / "a", {"qrels/dev.tsv": BEIR, "qrels/train.tsv": BEIR})
    with pytest.raises(SourceError, match="has no split 'test', but 'dev', 'train'; name a file"):
        pr.scan_judgments(folder)
    assert pr.scan_judgments(folder / "qrels" / "dev.tsv").collect().height == 4
    (folder / "qrels" / "dev.tsv").unlink()
    assert pr.scan_judgments(folder / "qrels").collect().height == 4
    parts = written(tmp_path / "b", {"1.parquet": LONG, "2.parquet": LONG})
    assert pr.scan_judgments(parts).collect().height == 8


def test_files_of_different_formats(tmp_path: Path) -> None:
    trec = written(tmp_path / "a", FOUND["trec"])
    results = written(tmp_path / "b", FOUND["list of ids"])
    run = pr.scan_run([trec, results]).collect()
    assert run.height == 3 + 4
    assert run["run"].to_list() == ["bm25"] * 3 + ["b"] * 4


def test_compressed_json_and_csv(tmp_path: Path) -> None:
    for text in (golden("relevant"), GOLDEN["csv"], json.dumps(dict(JUDGMENTS))):
        plain = pr.scan_judgments(written(tmp_path / "a", text)).collect()
        packed = pr.scan_judgments(written(tmp_path / "b", gzip.compress(text.encode()))).collect()
        assert_frame_equal(plain, packed)


LOOSE = (
    "\ufeff\r\n\r\n"
    '{"query": "\u00e9\u4e2d", "relevant": ["\U0001f642", 12345678901234567890]}\r\n'
    '  \r\n{"query": "b c", "relevant": ["d e"]}'
)


@pytest.mark.parametrize("docs", [["d1", "x"], {"d1": 2.0, "x": 1.0}])
def test_a_mapping_of_queries_may_be_beside_settings(tmp_path: Path, docs: Any) -> None:
    text = json.dumps({"model": "m", "config": {"k": 5}, "results": {"q1": docs, "q2": []}})
    run = pr.scan_run(written(tmp_path / "run.json", text)).collect()
    assert run.select("query", "doc").rows() == [("q1", "d1"), ("q1", "x"), ("q2", None)]


def test_queries_may_be_numbers(tmp_path: Path) -> None:
    path = tmp_path / "golden.parquet"
    pl.DataFrame({"query": [1, 2], "relevant": [[10], []]}).write_parquet(path)
    rows = [("1", "10"), ("2", None)]
    assert pr.scan_judgments(path).collect().select("query", "doc").rows() == rows
    text = lines({"query": 1, "relevant": [10]}, {"query": 2, "relevant": []})
    judgments = pr.scan_judgments(written(tmp_path / "golden.jsonl", text)).collect()
    assert judgments.select("query", "doc").rows() == rows


def test_json_lines_with_blank_lines(tmp_path: Path) -> None:
    judgments = pr.scan_judgments(written(tmp_path / "golden", LOOSE), "json").collect()
    assert judgments["query"].to_list() == ["\u00e9\u4e2d", "\u00e9\u4e2d", "b c"]
    assert judgments["doc"].to_list() == ["\U0001f642", "12345678901234567890", "d e"]
    assert pr.scan_judgments(tmp_path / "golden").collect().equals(judgments)


INVALID = {
    "a truncated document": ('[{"query": "a",\n"relevant": ["b"', "line 2 of .* is not valid JSON"),
    "a truncated line": (golden("relevant")[:-4], "line 3 of .* is not valid JSON"),
    "a comment": (f"{golden('relevant')}\n# a comment", "line . of .* is not valid JSON"),
    "a document nested too deeply": ("[" * 100_000, "is nested too deeply"),
    "half of a character": ('{"query": "\\ud800", "relevant": []}', "half of a surrogate pair"),
    "a repeated key": ('{"a": ["b"],\n "a": ["c"]}', "the key 'a' is repeated"),
    "a repeated key in lines": (
        '{"query": "a", "relevant": []}\n{"query": "a", "query": "b"}', "line 2: the key 'query' is"
    ),
    "a repeated query": (
        lines(*[{"query": "a", "relevant": ["b"]}] * 2), "line 2 repeats the query 'a' of line 1"
    ),
    "a grade that is text": ('{"a": {"b": "high"}}', r"\['a'\] has 'high' .* must be a number"),
    "a grade that is not finite": ('{"a": {"b": NaN}}', r"\['a'\]: 'label' must be a finite"),
    "an id that is a fraction": (
        '[{"query": "a", "relevant": [1.5]}]', r"\[0\]: 'relevant' has 1.5, which is neither an id"
    ),
    "an id that is null": ('{"query": "a", "relevant": [null]}', "has null, which is neither an id"),
    "an object without an id": (
        '{"queries": [{"query": "a", "relevant": [{"x": 1}]}]}',
        r"known as the document; name it, as in fields=\{'doc': 'x'\}",
    ),
    "a record without documents": (
        lines({"query": "a", "relevant": []}, {"query": "b", "answer": "c"}),
        "line 2 has no 'relevant', which other records have. Fields: 'query', 'answer'",
    ),
    "a record without a query": (lines({"relevant": ["a"]}, {}), "no field is known as the query"),
    "a number as documents": ('{"a": ["b"], "c": 3}', "no field is known as the query.* Fields: 'a' .a list., 'c'"),
    "a list of numbers": ("[1, 2]", r"\[0\] must be an object with a query .* found 1"),
    "several splits": (
        '{"en": {"test": {"a": {"b": 1}}}, "de": {"test": {"a": {"b": 1}}}}',
        "has several subsets or splits: 'en', 'de'",
    ),
    "a key that some queries lack": (
        lines({"query_id": 1, "relevant": ["b"]}, {"query": "c", "relevant": ["b"]}),
        "line 2 has no query in 'query_id'",
    ),
    "text": ("hello world\n", "unknown format of judgments: line 1 is 'hello world'.* trec .*csv"),
    "a table without a query": ("a,b\n1,2\n", "unknown format of judgments: line 1 is 'a,b'"),
    "a label that is text": ("query,doc,label\na,b,1\na,c,high\n", "'label' of .* must have num"),
    "a table without documents": (
        "query,label\na,1\n", r"or the document; .* Fields: 'query' \(query\), 'label'"
    ),
    "a short row": ("query,doc,label\na,b,1\na,c\n", "row 3 of .* has 2 fields"),
    "UTF-16": ("query,doc\n".encode("utf-16"), "is in UTF-16"),
    "latin-1": ('{"a": ["\u00e9"]}'.encode("latin-1"), "not UTF-8"),
    "results": ("1 Q0 a 1 0.5 x\n", "unknown format of judgments: line 1 is"),
}  # fmt: skip


def test_invalid_files(tmp_path: Path) -> None:
    def check(name: str, content: Any, message: str) -> None:
        file = written(tmp_path / "golden", content)
        with pytest.raises((DataError, SourceError, SchemaError), match=message) as error:
            pr.scan_judgments(file).collect()
        assert str(file) in str(error.value)

    check_each(check, ((name, *row) for name, row in INVALID.items()))


def test_a_part_of_the_scores_is_missing(tmp_path: Path) -> None:
    text = lines({"query": "a", "results": [{"id": "b", "score": 1}, {"id": "c"}]})
    with pytest.raises(DataError, match="line 1: the document 'c' has no 'score', but others"):
        pr.scan_run(written(tmp_path / "run", text))
    with pytest.raises(SchemaError, match="no field is known as the score"):
        pr.scan_run(written(tmp_path / "run", "query,doc\na,b\n"))


def test_distances_instead_of_scores(tmp_path: Path) -> None:
    text = lines({"query": "a", "results": [["b", 0.1], ["c", 0.4]]})
    with pytest.warns(RankWarning, match="the scores of every query ascend, as distances do"):
        pr.scan_run(written(tmp_path / "run", text))


def test_ids_of_parquet_files(tmp_path: Path) -> None:
    log = table([(7, 3, 0.5), (7, 4, None)], "query", "doc", "score")
    run = pr.scan_run(written(tmp_path / "run", log)).collect()
    assert run.rows() == [("7", "3", 0.5), ("7", "4", None)]
    with pytest.raises(SchemaError, match="'doc' has the type Float64, but ids are text"):
        pr.scan_run(written(tmp_path / "run", log.cast({"doc": pl.Float64})))


def test_a_named_format(tmp_path: Path) -> None:
    file = written(tmp_path / "a", "query;doc,label\nx;y,1\n")
    with pytest.raises(ArgumentError, match="`format` must be one of .*'svmlight'"):
        pr.scan_judgments(file, "xml")  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="Fields: 'query;doc', 'label'"):
        pr.scan_judgments(file, "csv")
    with pytest.raises(ArgumentError, match="`diversity` needs TREC judgments; found csv"):
        pr.scan_judgments(written(file, GOLDEN["csv"]), diversity=True)


def test_negative_labels_are_unjudged(tmp_path: Path) -> None:
    file = written(tmp_path / "golden", '{"a": {"b": -1, "c": 2}}')
    assert pr.scan_judgments(file).collect()["label"].to_list() == [None, 2]
    assert pr.scan_judgments(file, negative="keep").collect()["label"].to_list() == [-1, 2]


def test_many_json_lines_stream(tmp_path: Path) -> None:
    text = lines(*({"id": i, "results": [f"d{i}", "x"]} for i in range(30_000)))
    run = pr.scan_run(written(tmp_path / "run", text))
    assert run.select(pl.len(), pl.col("query").n_unique()).collect().row(0) == (60_000, 30_000)
    plan = run.show_graph(engine="streaming", plan_stage="physical", raw_output=True, show=False)
    assert plan is not None
    assert "in-memory-map" not in plan
