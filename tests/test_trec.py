"""TREC files: valid and invalid files are read, and logs are written."""

from __future__ import annotations

import gzip
import random
from pathlib import Path
from typing import Any, Literal

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars import col
from polars.testing import assert_frame_equal

from polars_rank.errors import ArgumentError, DataError, SchemaError, SourceError

from polars_rank import scan_judgments, scan_run
from polars_rank.trec import write_qrels, write_run

Engine = Literal["in-memory", "streaming"]
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")


def rows(frame: pl.LazyFrame) -> list[tuple[Any, ...]]:
    table = frame.collect(engine="in-memory")
    assert_frame_equal(frame.collect(engine="streaming"), table)
    return table.rows()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


def rejected(call: Any, error: type[Exception], said: str) -> None:
    for engine in ENGINES:
        with pytest.raises(error, match=said):
            call().lazy().collect(engine=engine)


LOOSE = (
    "\ufeff1 Q0 a 0 2.5 bm25\n\n  # a comment\n1\t0\t b\t 1  -1e-3\tbm25  \r\n   \n"
    "2 Q0 #c 1 +3 bm25"
)
SUBTOPICS = "01 1 a 2\n01 2 a 2\n01 2 b -2\n"
THREE = "1 Q0 a 1 2 x\n1 Q0 a 1 1 y\n2 Q0 b 1 1 y\n"
#: Files, options, and the rows.
RUNS: list[tuple[str, list[tuple[Any, ...]]]] = [
    (LOOSE, [("1", "a", 2.5, "bm25"), ("1", "b", -0.001, "bm25"), ("2", "#c", 3.0, "bm25")]),
    ("1 Q0 a 1 2 b k=9\n1 Q0 c  2 1 b k=9\n", [("1", "a", 2, "b k=9"), ("1", "c", 1, "b k=9")]),
    # Two runs in one file have documents in common.
    (THREE, [("1", "a", 2.0, "x"), ("1", "a", 1.0, "y"), ("2", "b", 1.0, "y")]),
    ("1 Q0 a 1 2.5\n1 Q0 b 2 1.5\n", [("1", "a", 2.5), ("1", "b", 1.5)]),
    ("1\ta\t1\n1\tb\t2\n", [("1", "a", -1.0), ("1", "b", -2.0)]),
]  # fmt: skip
JUDGMENTS: list[tuple[str, dict[str, Any], list[tuple[Any, ...]]]] = [
    (SUBTOPICS, {}, [("01", "a", 2), ("01", "b", None)]),
    (
        SUBTOPICS, {"diversity": True, "negative": "keep"},
        [("01", "1", "a", 2), ("01", "2", "a", 2), ("01", "2", "b", -2)],
    ),
    ("1 0 a 0.5\n1 0 b 1\n", {"fractional": True}, [("1", "a", 0.5), ("1", "b", 1.0)]),
    ("1 0 a -0.5\n1 0 b 0.5\n", {"fractional": True}, [("1", "a", None), ("1", "b", 0.5)]),
]  # fmt: skip


def test_files_that_are_read(file: Path) -> None:
    for text, expected in RUNS:
        file.write_text(text, "utf-8")
        assert rows(scan_run(file)) == expected
    file.write_text(LOOSE, "utf-8")
    schema = {"query": pl.String, "doc": pl.String, "score": pl.Float64, "run": pl.String}
    assert scan_run(str(file)).collect_schema() == schema
    for text, options, expected in JUDGMENTS:
        file.write_text(text, "utf-8")
        assert rows(scan_judgments(file, **options)) == expected
    file.write_text(SUBTOPICS, "utf-8")
    assert scan_judgments(file).collect_schema()["label"] == pl.Int64


def test_several_files_patterns_and_gzip(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt", "d[1].txt"):
        (tmp_path / name).write_text(f"1 0 {name[0]} 1\n", "utf-8")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"1 0 c 1\n"))
    docs = scan_judgments([tmp_path / "*.txt", tmp_path / "c.gz"]).select("doc")
    assert rows(docs) == [("a",), ("b",), ("d",), ("c",)]
    assert rows(scan_judgments(tmp_path / "d[1].txt").select("doc")) == [("d",)]
    for name, text in {"e": THREE, "f": "1 Q0 a 1 2 z\n"}.items():
        (tmp_path / name).write_text(text, "utf-8")
    runs = scan_run([tmp_path / "e", tmp_path / "f"]).select("run")
    assert rows(runs) == [("x",), ("y",), ("y",), ("z",)]


def test_files_with_warnings(tmp_path: Path) -> None:
    file = tmp_path / "neural.run.txt"
    for text in ("# nothing yet\n", ""):
        file.write_text(text, "utf-8")
        with pytest.warns(pr.errors.RankWarning, match=f"{file}: the file has no results"):
            assert rows(scan_run(file)) == []
        with pytest.raises(DataError, match=f"{file} has no judgments"):
            scan_judgments(file)


def test_malformed_lines(file: Path) -> None:
    good = file.with_name("good")
    good.write_text("1 Q0 a 1 0.7 x\n" * 5, "utf-8")
    for line, said in (
        ("1 Q0 b 1 0.5", "where the score is a finite number; found '1 Q0 b 1 0.5'"),
        ("1 Q0 b c 1 0.5 x", "'query iteration doc rank score run'.*ids must not contain"),
        ("1 Q0 b 1 high x y", "where the score is a finite number"),
        ("1 Q0 b 1 high x", "found '1 Q0 b 1 high x'"),
        ("1 Q0 b 1 nan x", "where the score is a finite number"),
    ):
        file.write_text(f"\ufeff1 Q0 a 1 0.7 x\n# comment\n\n{line}\n", encoding="utf-8")
        for frame in (scan_run([good, file]), scan_run(file).select("doc")):
            rejected(lambda frame=frame: frame, DataError, f"^line 4 of {file} must be .*{said}")
    said = "must be 'query subtopic doc label', where the label is a whole number; found '1 0 b"
    for label, end in (("0.5", "'; set `fractional` .*"), ("x", "'"), ("1 2", "'.*"), ("", "'")):
        file.write_text(f"1 0 a 1\n1 0 b {label}\n", "utf-8")
        rejected(lambda: scan_judgments(file), DataError, f"line 2 of .*{said} {label}{end}$")
    file.write_text("\ufeff1 0 a\n", encoding="utf-8")
    rejected(lambda: scan_judgments(file, "trec"), DataError, "line 1 of .* found '1 0 a'")
    with pytest.raises(DataError, match="line 1"):
        scan_judgments(file, "trec").sink_parquet(file.with_suffix(".parquet"))


def test_files_that_cannot_be_read(tmp_path: Path, file: Path) -> None:
    (tmp_path / "qrels.txt").touch()
    file.write_text("1 0 a 1\n", "utf-8")
    run, gone = tmp_path / "run", tmp_path / "gone"
    run.write_text("1 Q0 a 1 0.5 bm25\n", "utf-8")
    gone.write_text("1 0 a 1\n", "utf-8")
    scanned = scan_judgments(gone)
    gone.unlink()
    for call, error, said in (
        (lambda: scan_judgments(tmp_path / "qrel.txt"), SourceError, "Did you mean 'qrels.txt'"),
        (lambda: scan_judgments([tmp_path / "*.gz"]), SourceError, r"file '.*\*.gz' not found"),
        (lambda: scan_run("nowhere/at/all"), SourceError, "file 'nowhere/at/all' not found"),
        (lambda: scan_run(tmp_path), SourceError, "is a directory; name its files"),
        (lambda: scan_run([]), ArgumentError, "`path` is empty; name at least one file"),
        (lambda: scan_judgments(run), SourceError, "unknown format of judgments"),
        (lambda: scan_run(file), SourceError, "unknown format of results"),
        (lambda: scan_judgments(file, negative="drop"), ArgumentError, "`negative` must be one of"),
        (lambda: scanned, SourceError, f"cannot read {gone}"),
    ):  # fmt: skip
        rejected(call, error, said)


#: More lines than are read at a time.
LONG = "".join(f"{i // 100} Q0 doc{i * 7919 % 100_003} 1 {i} x\n" for i in range(45_000))


def test_a_long_run(file: Path) -> None:
    file.write_text(LONG, "utf-8")
    expected = [(f[0], f[2], float(f[4]), f[5]) for f in map(str.split, LONG.splitlines())]
    assert rows(scan_run(file)) == expected
    file.write_text(f"{LONG}1 Q0 a 1 x y\n", "utf-8")
    rejected(lambda: scan_run(file), DataError, f"^line 45001 of {file} must be")
    file.write_bytes(gzip.compress(LONG.encode(), compresslevel=1)[:-3])
    judgments = pl.LazyFrame({"query": ["1"], "doc": ["a"], "label": [1]})
    log = pr.join_judgments(scan_run(file), judgments)
    said = f"cannot read {file}: .*; check that the file is complete"
    rejected(lambda: pr.evaluate(log, "rr", by="run"), SourceError, said)


BY_TREC_EVAL = ["ndcg", "ndcg_cut_5", "bpref", "map", "num_nonrel_judged_ret", "num_rel"]


def test_negative_labels_are_unjudged_as_in_trec_eval(tmp_path: Path) -> None:
    """A run without ties, and judgments with -1 and -2, also of documents not in the run."""
    pytrec_eval = needs.package("pytrec_eval", "test")
    draw, run, qrels = random.Random(1), tmp_path / "run", tmp_path / "qrels"
    judged, scores = {}, {}
    for query in "abcdef":
        labels = {
            f"d{i}": draw.choice([-2, -1, -1, 0, 0, 1, 2]) for i in draw.sample(range(30), 20)
        }
        judged[query] = labels | {"d0": 1}  # 0 in trec_eval if no document is relevant
        found = enumerate(draw.sample(range(30), 15))
        scores[query] = {f"d{i}": float(score) for score, i in found}
    lines = [f"{q} Q0 {d} 0 {score} x\n" for q, docs in scores.items() for d, score in docs.items()]
    run.write_text("".join(lines), "utf-8")
    lines = [f"{q} 0 {d} {label}\n" for q, docs in judged.items() for d, label in docs.items()]
    qrels.write_text("".join(lines), "utf-8")
    names = {"ndcg", "ndcg_cut.5", "bpref", "map", "num_nonrel_judged_ret", "num_rel", "infAP"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, names).evaluate(scores)
    for negative, metrics in (("unjudged", BY_TREC_EVAL), ("keep", ["infAP", "ndcg"])):
        # Inferred AP distinguishes documents in the pool from documents outside it.
        log = pr.join_judgments(scan_run(run), scan_judgments(qrels, negative=negative))
        options = {"conventions": pr.conventions.TREC_EVAL} if negative == "keep" else {}
        for row in pr.per_query(log, metrics, run=None, **options).collect().iter_rows(named=True):
            expected = {name: pytest.approx(theirs[row["query"]][name]) for name in metrics}
            assert {name: row[name] for name in metrics} == expected


def test_judged_documents_leave_out_negative_labels(tmp_path: Path) -> None:
    """As in `unj` of trec_eval 10, a label of -1 means that a document was not judged."""
    (tmp_path / "run").write_text(
        "q Q0 a 1 4 x\nq Q0 b 1 3 x\nq Q0 c 1 2 x\nq Q0 d 1 1 x\n", "utf-8"
    )
    (tmp_path / "qrels").write_text("q 0 a -1\nq 0 b 0\nq 0 c 1\nq 0 e -1\n", "utf-8")
    log = pr.join_judgments(scan_run(tmp_path / "run"), scan_judgments(tmp_path / "qrels"))
    found = pr.evaluate(log, ["judged@4", "unj_4", "num_nonrel_judged_ret"], run=None).collect()
    assert found.row(0)[1:] == (2 / 4, 2 / 4, 1)


LOG = pl.DataFrame(
    {
        "query": [10, 10, 10, 9, 9, 9],
        "doc": [9, 10, 1, 5, 6, 7],
        "score": [0.5, 0.5, 1e-7, None, 3.0, 4.0],
        "label": [0, 1, None, 2, 0, 1],
    }
)


def test_files_that_are_written(file: Path) -> None:
    run = [
        "9 Q0 7 1 4.0 mine",
        "9 Q0 6 2 3.0 mine",
        "10 Q0 9 1 0.5 mine",  # tied with doc 10, and after it as text
        "10 Q0 10 2 0.5 mine",
        "10 Q0 1 3 1e-7 mine",
    ]
    judgments = ["9 0 5 2", "9 0 6 0", "9 0 7 1", "10 0 10 1", "10 0 9 0"]
    twice = pl.concat([LOG, LOG])  # as the same judgments in two runs
    booleans = pl.DataFrame({"query": 1, "doc": ["a", "b"], "label": [True, False]})
    for write, table, options, lines in (
        (write_run, LOG, {"tag": "mine"}, run),
        (write_run, LOG, {}, [line.replace("mine", "polars_rank") for line in run]),
        (write_qrels, twice, {}, judgments),
        (write_qrels, booleans, {}, ["1 0 a 1", "1 0 b 0"]),
    ):
        for frame in (table, table.lazy()):
            write(frame, file, overwrite=True, **options)
            assert file.read_text("utf-8").splitlines() == lines
    two = pl.concat([LOG.with_columns(run=pl.lit(name)) for name in "BA"])
    write_run(two, file, overwrite=True)
    fields = [line.split() for line in file.read_text("utf-8").splitlines()]
    assert [(each[0], each[3], each[5]) for each in fields[3:7]] == [
        ("10", "2", "A"), ("10", "3", "A"), ("9", "1", "B"), ("9", "2", "B"),
    ]  # fmt: skip


def test_write_subtopics_and_fractional_labels(file: Path) -> None:
    log = pl.DataFrame(
        {"q": ["x", "x", "x"], "subtopic": [1, 2, 2], "d": ["a", "a", "b"], "grade": [1.0, 0.5, -2]}
    )
    write_qrels(log, file, query="q", doc="d", label="grade")
    assert file.read_text("utf-8").splitlines() == ["x 1 a 1", "x 2 a 0.5", "x 2 b -2"]
    back = scan_judgments(file, diversity=True, fractional=True, negative="keep").collect()
    assert back.rows() == [("x", "1", "a", 1.0), ("x", "2", "a", 0.5), ("x", "2", "b", -2.0)]


def test_a_sorted_log_is_written_ranking_by_ranking(tmp_path: Path) -> None:
    log = pr.datasets.search_log(60, runs=["b", "a"], seed=3).collect()
    log.sort("run", "query", pl.col("doc").hash()).write_parquet(tmp_path / "log")
    scan = pr.scan_log(tmp_path / "log", by="run")
    with pl.Config(streaming_chunk_size=100):
        write_run(scan, tmp_path / "file")
    retrieved = log.filter(col("score").is_not_null()).with_columns(col("doc").cast(pl.String))
    by_rank = retrieved.sort("run", "query", "score", "doc", descending=[False, False, True, True])
    lines = [line.split() for line in (tmp_path / "file").read_text("utf-8").splitlines()]
    assert [(line[5], int(line[0]), line[2]) for line in lines] == by_rank.select(
        "run", "query", "doc"
    ).rows()
    # Rankings in any order are sorted.
    log.sort(col("query").hash()).write_parquet(tmp_path / "adjacent")
    write_run(pr.scan_log(tmp_path / "adjacent", by="run"), tmp_path / "same")
    assert (tmp_path / "same").read_bytes() == (tmp_path / "file").read_bytes()


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    scores = [0.1 + 0.2, 1e300, -5e-324, 0.0]
    log = pl.DataFrame({"query": ["q"] * 4, "doc": list("abcd"), "score": scores})
    for name in ("run.txt", "run.gz"):
        write_run(log, tmp_path / name)
        back = scan_run(tmp_path / name).drop("run").sort("doc").collect()
        assert_frame_equal(back, log, check_exact=True)
        assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


BLANK = "is null, empty, or contains whitespace or a null character"
NUMBERED = LOG.with_columns(run=pl.format("{}", pl.int_range(pl.len())))


def test_rows_that_cannot_be_written(file: Path) -> None:
    for write, table, column, said in (
        (write_run, NUMBERED, pl.lit("a b").alias("doc"), f"5 of 5 rows: doc {BLANK}"),
        (write_run, NUMBERED, pl.lit("").alias("query"), f"query {BLANK}"),
        (write_run, NUMBERED, pl.lit("a\0").alias("doc"), f"doc {BLANK}"),
        (write_run, NUMBERED, pl.lit(None, pl.String).alias("doc"), f"doc {BLANK}"),
        (write_run, LOG, pl.format("#{}", "query").alias("query"), "query begins with '#'"),
        (write_run, LOG, pl.lit("\t").alias("run"), f"run {BLANK}"),
        (write_run, LOG, col("score").log(-1), "5 of 5 rows: score is NaN or infinite; "),
        (write_run, LOG, pl.lit(7).alias("doc"), r"2 documents: column 'doc' \(`doc`\) has dupl"),
        (write_qrels, LOG, pl.format("d {}", "doc").alias("doc"), f"doc {BLANK}"),
        (write_qrels, LOG, pl.lit(None, pl.Int64).alias("query"), f"query {BLANK}"),
        (write_qrels, LOG, pl.lit(float("inf")).alias("label"), "6 of 6 rows: label is NaN or inf"),
        (write_qrels, LOG, pl.lit(7).alias("doc"), r"several labels for one document .*\(rows: 2"),
    ):
        log = table.with_columns(column)
        for frame in (log, log.lazy()):
            with pytest.raises(DataError, match=said):
                write(frame, file)
    assert list(file.parent.iterdir()) == []


def test_columns_that_do_not_fit(file: Path) -> None:
    with pytest.raises(SchemaError, match=r"column 'sim' .`score`. not found.*"):
        write_run(LOG, file, score="sim")
    with pytest.raises(SchemaError, match="column 'text' .`label`. must be numeric; found String"):
        write_qrels(LOG.with_columns(text=pl.lit("x")), file, label="text")
    assert not file.exists()


def test_a_file_is_replaced_only_when_told(file: Path) -> None:
    file.write_text("precious", "utf-8")
    for write in (write_run, write_qrels):
        with pytest.raises(SourceError, match="already exists; use `overwrite`"):
            write(LOG, file)
    with pytest.raises(DataError):
        write_run(LOG.with_columns(doc=1), file, overwrite=True)
    assert file.read_text("utf-8") == "precious"
    write_qrels(LOG, file, overwrite=True)
    assert file.read_text("utf-8").startswith("9 0 5 2\n")
    with pytest.raises(SourceError, match="directory .* does not exist"):
        write_qrels(LOG, file.parent / "missing" / "file")


def test_a_failed_write_leaves_nothing(file: Path) -> None:
    def fail(_: pl.DataFrame) -> pl.DataFrame:
        raise KeyboardInterrupt

    with pytest.raises(BaseException):  # noqa: B017, PT011  (Polars may wrap it)
        write_run(LOG.lazy().map_batches(fail), file)
    assert list(file.parent.iterdir()) == []
