"""TREC files: valid and invalid files are read, and logs are written."""

from __future__ import annotations

import gzip
import random
import re
from pathlib import Path
from typing import Any, Literal

import needs
import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars import col
from polars.testing import assert_frame_equal

from polars_rank.errors import ArgumentError, DataError, RankError, SchemaError, SourceError
from polars_rank.io.formats import scan_judgments, scan_run
from polars_rank.trec import write_qrels, write_run

Engine = Literal["in-memory", "streaming"]
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")

REAL = Path(__file__).parents[2] / "shared" / "data" / "trec"
real = pytest.mark.skipif(not REAL.is_dir(), reason="needs the real data of the developers")


def rows(frame: pl.LazyFrame) -> list[tuple[Any, ...]]:
    table = frame.collect(engine="in-memory")
    assert_frame_equal(frame.collect(engine="streaming"), table)
    return table.rows()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file"


# --- reading --------------------------------------------------------------------------------

LOOSE = "\ufeff1 Q0 a 0 2.5 bm25\n\n  # a comment\n1\t0\t b\t 1  -1e-3\tbm25  \r\n   \n2 Q0 #c 1 +3 bm25"


def test_a_run_is_split_at_spaces_and_tabs(file: Path) -> None:
    file.write_text(LOOSE, encoding="utf-8")
    assert rows(scan_run(file)) == [
        ("1", "a", 2.5, "bm25"),
        ("1", "b", -0.001, "bm25"),
        ("2", "#c", 3.0, "bm25"),
    ]
    schema = {"query": pl.String, "doc": pl.String, "score": pl.Float64, "run": pl.String}
    assert scan_run(str(file)).collect_schema() == schema


def test_judgments_with_or_without_subtopics(file: Path) -> None:
    file.write_text("01 1 a 2\n01 2 a 2\n01 2 b -2\n", "utf-8")
    assert rows(scan_judgments(file)) == [("01", "a", 2), ("01", "b", None)]
    assert rows(scan_judgments(file, diversity=True, negative="keep")) == [
        ("01", "1", "a", 2),
        ("01", "2", "a", 2),
        ("01", "2", "b", -2),
    ]
    assert scan_judgments(file).collect_schema()["label"] == pl.Int64


def test_fractional_labels(file: Path) -> None:
    file.write_text("1 0 a 0.5\n1 0 b 1\n", "utf-8")
    assert rows(scan_judgments(file, fractional=True)) == [("1", "a", 0.5), ("1", "b", 1.0)]


def test_several_files_patterns_and_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 0 a 1\n", "utf-8")
    (tmp_path / "b.txt").write_text("1 0 b 1\n", "utf-8")
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"1 0 c 1\n"))
    (tmp_path / "d[1].txt").write_text("1 0 d 1\n", "utf-8")
    docs = scan_judgments([tmp_path / "*.txt", tmp_path / "c.gz"]).select("doc")
    assert rows(docs) == [("a",), ("b",), ("d",), ("c",)]
    assert rows(scan_judgments(tmp_path / "d[1].txt").select("doc")) == [("d",)]


def test_an_empty_file_has_no_documents(file: Path) -> None:
    for text in ("# nothing yet\n", ""):
        file.write_text(text, "utf-8")
        with pytest.warns(pr.errors.RankWarning, match=f"{file}: the file has no results"):
            assert rows(scan_run(file)) == []
        with pytest.raises(DataError, match=f"{file} has no judgments"):
            scan_judgments(file)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("1 Q0 b 1 0.5", "where the score is a finite number; found '1 Q0 b 1 0.5'"),
        ("1 Q0 b c 1 0.5 x", "must be 'query iteration doc rank score run'"),
        ("1 Q0 b 1 high x y", "where the score is a finite number"),
        ("1 Q0 b 1 high x", "found '1 Q0 b 1 high x'"),
        ("1 Q0 b 1 nan x", "where the score is a finite number"),
    ],
)
def test_malformed_lines_of_a_run(file: Path, line: str, problem: str, engine: Engine) -> None:
    file.write_text(f"\ufeff1 Q0 a 1 0.7 x\n# comment\n\n{line}\n", encoding="utf-8")
    good = file.with_name("good")
    good.write_text("1 Q0 a 1 0.7 x\n" * 5, "utf-8")
    for frame in (scan_run([good, file]), scan_run(file).select("doc")):
        with pytest.raises(DataError, match=re.escape(problem)) as error:
            frame.collect(engine=engine)
        assert str(error.value).startswith(f"line 4 of {file} must be ")


def test_a_tag_with_blanks_and_ids_with_blanks(file: Path) -> None:
    file.write_text("1 Q0 a 1 0.5 bm25 k1=0.9\n1 Q0 b  2 0.25 bm25 k1=0.9\n", "utf-8")
    assert rows(scan_run(file).select("run").unique()) == [("bm25 k1=0.9",)]
    file.write_text("1 Q0 a 1 0.5 bm25\n1 Q0 b c 2 0.25 bm25\n", "utf-8")
    with pytest.raises(DataError, match=r"line 2 of .*'; ids must not contain spaces"):
        scan_run(file).collect()


def test_tags_that_do_not_name_runs(tmp_path: Path) -> None:
    file = tmp_path / "neural.run.txt"
    file.write_text("1 Q0 a 1 2 k=1\n1 Q0 b 2 1 k=2\n2 Q0 a 1 1 k=1\n", "utf-8")
    with pytest.warns(pr.errors.RankWarning, match="2 different tags.*the run is 'neural'"):
        assert rows(scan_run(file).select("run").unique()) == [("neural",)]
    # Two runs in one file have documents in common.
    file.write_text("1 Q0 a 1 2 x\n1 Q0 a 1 1 y\n2 Q0 b 1 1 y\n", "utf-8")
    assert rows(scan_run(file).select("run")) == [("x",), ("y",), ("y",)]
    (tmp_path / "other").write_text("1 Q0 a 1 2 z\n", "utf-8")
    runs = scan_run([file, tmp_path / "other"]).select("run")
    assert rows(runs) == [("x",), ("y",), ("y",), ("z",)]


def test_runs_with_fewer_fields(file: Path) -> None:
    file.write_text("1 Q0 a 1 2.5\n1 Q0 b 2 1.5\n", "utf-8")
    assert rows(scan_run(file)) == [("1", "a", 2.5), ("1", "b", 1.5)]
    file.write_text("1\ta\t1\n1\tb\t2\n", "utf-8")
    assert rows(scan_run(file)) == [("1", "a", -1.0), ("1", "b", -2.0)]


@pytest.mark.parametrize(
    ("label", "end"), [("0.5", "'; set `fractional` .*"), ("x", "'"), ("1 2", "'.*"), ("", "'")]
)
def test_malformed_lines_of_judgments(file: Path, label: str, end: str) -> None:
    file.write_text(f"1 0 a 1\n1 0 b {label}\n", "utf-8")
    message = "must be 'query subtopic doc label', where the label is a whole number"
    with pytest.raises(DataError, match=f"line 2 of .*{message}; found '1 0 b {label}{end}$"):
        scan_judgments(file).collect()


def test_swapped_run_and_qrels_files(file: Path) -> None:
    file.write_text("1 Q0 a 1 0.5 bm25\n", "utf-8")
    with pytest.raises(SourceError, match="unknown format of judgments"):
        scan_judgments(file)
    file.write_text("1 0 a 1\n", "utf-8")
    with pytest.raises(SourceError, match="unknown format of results"):
        scan_run(file)


def test_a_byte_order_mark_does_not_hide_a_malformed_line(file: Path) -> None:
    file.write_text("\ufeff1 0 a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"line 1 of .* found '1 0 a'"):
        scan_judgments(file, "trec").collect()


#: More lines than are read at a time.
LONG = "".join(f"{i // 100} Q0 doc{i * 7919 % 100_003} 1 {i} x\n" for i in range(45_000))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_long_run(file: Path, engine: Engine) -> None:
    assert len(LONG) > 1 << 20
    file.write_bytes(gzip.compress(LONG.encode(), compresslevel=1))
    expected = [(f[0], f[2], float(f[4]), f[5]) for f in map(str.split, LONG.splitlines())]
    assert scan_run(file).collect(engine=engine).rows() == expected
    file.write_text(f"{LONG}1 Q0 a 1 x y\n", "utf-8")
    with pytest.raises(DataError, match=f"^line 45001 of {file} must be"):
        scan_run(file).collect(engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_that_is_not_whole(file: Path, engine: Engine) -> None:
    file.write_bytes(gzip.compress(LONG.encode(), compresslevel=1)[:-3])
    frame = scan_run(file)
    said = f"cannot read {file}: .*; check that the file is complete"
    with pytest.raises(SourceError, match=said):
        frame.collect(engine=engine)
    judgments = pl.LazyFrame({"query": ["1"], "doc": ["a"], "label": [1]})
    with pytest.raises(SourceError, match=said):
        pr.evaluate(pr.join_judgments(frame, judgments), "rr", by="run").collect(engine=engine)


def test_a_file_that_goes_away(file: Path) -> None:
    file.write_text("1 0 a 1\n", "utf-8")
    frame = scan_judgments(file)
    file.unlink()
    with pytest.raises(SourceError, match=f"cannot read {file}"):
        frame.collect()


def test_malformed_lines_reach_a_sink(file: Path) -> None:
    file.write_text("1 0 a\n", "utf-8")
    with pytest.raises(DataError, match="line 1"):
        scan_judgments(file, "trec").sink_parquet(file.with_suffix(".parquet"))


def test_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "qrels.txt").touch()
    with pytest.raises(SourceError, match=r"file .*qrel.txt' not found. Did you mean 'qrels.txt'"):
        scan_judgments(tmp_path / "qrel.txt")
    with pytest.raises(SourceError, match=r"file '.*\*.gz' not found"):
        scan_judgments([tmp_path / "*.gz"])
    with pytest.raises(SourceError, match="file 'nowhere/at/all' not found"):
        scan_run("nowhere/at/all")
    with pytest.raises(SourceError, match="is a directory; name its files"):
        scan_run(tmp_path)
    with pytest.raises(ArgumentError, match="`path` is empty; name at least one file"):
        scan_run([])


def test_reading_streams(file: Path) -> None:
    file.write_text("1 Q0 a 1 1 x\n", "utf-8")
    plan = scan_run(file).show_graph(
        engine="streaming", plan_stage="physical", raw_output=True, show=False
    )
    assert plan is not None
    assert "in-memory-map" not in plan


# --- negative labels ------------------------------------------------------------------------


def negative_files(folder: Path, seed: int) -> tuple[Path, Path, dict[str, dict[str, int]]]:
    """Write a run without ties, and judgments with -1 and -2, also of documents not in the run."""
    draw = random.Random(seed)
    judged = {
        query: {f"d{i}": draw.choice([-2, -1, -1, 0, 0, 1, 2]) for i in draw.sample(range(30), 20)}
        for query in "abcdef"
    }
    for labels in judged.values():
        labels["d0"] = 1  # 0 in trec_eval if no document is relevant
    lines = [
        f"{query} Q0 d{i} 0 {score} x\n"
        for query in judged
        for score, i in enumerate(draw.sample(range(30), 15))
    ]
    (folder / "run").write_text("".join(lines), "utf-8")
    (folder / "qrels").write_text(
        "".join(
            f"{q} 0 {d} {label}\n" for q, labels in judged.items() for d, label in labels.items()
        ),
        "utf-8",
    )
    return folder / "run", folder / "qrels", judged


BY_TREC_EVAL = ["ndcg", "ndcg_cut_5", "bpref", "map", "num_nonrel_judged_ret", "num_rel"]


@pytest.mark.parametrize("seed", range(3))
def test_negative_labels_are_unjudged_as_in_trec_eval(tmp_path: Path, seed: int) -> None:
    pytrec_eval = needs.package("pytrec_eval", "test")
    run, qrels, judged = negative_files(tmp_path, seed)
    scores: dict[str, dict[str, float]] = {query: {} for query in judged}
    for query, _, doc, _, score, _ in map(str.split, run.read_text("utf-8").splitlines()):
        scores[query][doc] = float(score)
    names = {"ndcg", "ndcg_cut.5", "bpref", "map", "num_nonrel_judged_ret", "num_rel", "infAP"}
    theirs = pytrec_eval.RelevanceEvaluator(judged, names).evaluate(scores)
    log = pr.join_judgments(scan_run(run), scan_judgments(qrels))
    for row in pr.per_query(log, BY_TREC_EVAL, run=None).collect().iter_rows(named=True):
        for name in BY_TREC_EVAL:
            assert row[name] == pytest.approx(theirs[row["query"]][name]), name
    # Inferred AP distinguishes documents in the pool from documents outside it.
    kept = pr.join_judgments(scan_run(run), scan_judgments(qrels, negative="keep"))
    for row in (
        pr.per_query(kept, ["infAP", "ndcg"], conventions=pr.conventions.TREC_EVAL, run=None)
        .collect()
        .rows()
    ):
        expected = theirs[row[0]]
        assert row[-2:] == pytest.approx((expected["infAP"], expected["ndcg"]))


def test_judged_documents_leave_out_negative_labels(tmp_path: Path) -> None:
    """As in `unj` of trec_eval 10, a label of -1 means that a document was not judged."""
    (tmp_path / "run").write_text(
        "q Q0 a 1 4 x\nq Q0 b 1 3 x\nq Q0 c 1 2 x\nq Q0 d 1 1 x\n", "utf-8"
    )
    (tmp_path / "qrels").write_text("q 0 a -1\nq 0 b 0\nq 0 c 1\nq 0 e -1\n", "utf-8")
    log = pr.join_judgments(scan_run(tmp_path / "run"), scan_judgments(tmp_path / "qrels"))
    found = pr.evaluate(log, ["judged@4", "unj_4", "num_nonrel_judged_ret"], run=None).collect()
    assert found.row(0)[1:] == (2 / 4, 2 / 4, 1)


def test_negative_labels_that_are_fractions_and_other_words(file: Path) -> None:
    file.write_text("1 0 a -0.5\n1 0 b 0.5\n", "utf-8")
    assert rows(scan_judgments(file, fractional=True)) == [("1", "a", None), ("1", "b", 0.5)]
    with pytest.raises(ArgumentError, match="`negative` must be one of 'unjudged', 'keep'"):
        scan_judgments(file, negative="drop")  # type: ignore[arg-type]


# --- writing --------------------------------------------------------------------------------

LOG = pl.DataFrame(
    {
        "query": [10, 10, 10, 9, 9, 9],
        "doc": [9, 10, 1, 5, 6, 7],
        "score": [0.5, 0.5, 1e-7, None, 3.0, 4.0],
        "label": [0, 1, None, 2, 0, 1],
    }
)


@pytest.mark.parametrize("lazy", [False, True])
def test_write_a_run(file: Path, lazy: bool) -> None:
    write_run(LOG.lazy() if lazy else LOG, file, tag="mine")
    assert file.read_text("utf-8").splitlines() == [
        "9 Q0 7 1 4.0 mine",
        "9 Q0 6 2 3.0 mine",
        "10 Q0 9 1 0.5 mine",  # tied with doc 10, and after it as text
        "10 Q0 10 2 0.5 mine",
        "10 Q0 1 3 1e-7 mine",
    ]


def test_the_name_of_the_run(file: Path) -> None:
    write_run(LOG, file)
    assert {line.split()[-1] for line in file.read_text("utf-8").splitlines()} == {"polars_rank"}
    two = pl.concat([LOG.with_columns(run=pl.lit(name)) for name in "BA"])
    write_run(two, file, overwrite=True)
    lines = [line.split() for line in file.read_text("utf-8").splitlines()]
    assert [(*line[:1], *line[3:4], *line[5:]) for line in lines[3:7]] == [
        ("10", "2", "A"),
        ("10", "3", "A"),
        ("9", "1", "B"),
        ("9", "2", "B"),
    ]


@pytest.mark.parametrize("lazy", [False, True])
def test_write_judgments(file: Path, lazy: bool) -> None:
    twice = pl.concat([LOG, LOG])  # as the same judgments in two runs
    write_qrels(twice.lazy() if lazy else twice, file)
    assert file.read_text("utf-8").splitlines() == [
        "9 0 5 2",
        "9 0 6 0",
        "9 0 7 1",
        "10 0 10 1",
        "10 0 9 0",
    ]


def test_write_boolean_labels_as_numbers(file: Path) -> None:
    write_qrels(pl.DataFrame({"query": 1, "doc": ["a", "b"], "label": [True, False]}), file)
    assert file.read_text("utf-8").splitlines() == ["1 0 a 1", "1 0 b 0"]


def test_write_subtopics_and_fractional_labels(file: Path) -> None:
    log = pl.DataFrame(
        {"q": ["x", "x", "x"], "subtopic": [1, 2, 2], "d": ["a", "a", "b"], "grade": [1.0, 0.5, -2]}
    )
    write_qrels(log, file, query="q", doc="d", label="grade")
    assert file.read_text("utf-8").splitlines() == ["x 1 a 1", "x 2 a 0.5", "x 2 b -2"]
    back = scan_judgments(file, diversity=True, fractional=True, negative="keep").collect()
    assert back.rows() == [("x", "1", "a", 1.0), ("x", "2", "a", 0.5), ("x", "2", "b", -2.0)]


def test_a_sorted_log_is_written_ranking_by_ranking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = pr.datasets.search_log(60, runs=["b", "a"], seed=3).collect()
    log.sort("run", "query", pl.col("doc").hash()).write_parquet(tmp_path / "log")
    scan = pr.scan_log(tmp_path / "log", by="run")
    plans: list[pl.LazyFrame] = []
    sink = pl.LazyFrame.sink_csv

    def kept(plan: pl.LazyFrame, *args: Any, **options: Any) -> None:
        plans.append(plan)
        sink(plan, *args, **options)

    monkeypatch.setattr(pl.LazyFrame, "sink_csv", kept)
    with pl.Config(streaming_chunk_size=100):
        write_run(scan, tmp_path / "file")
    assert not holding_nodes(plans[0])
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


@pytest.mark.parametrize("name", ["run.txt", "run.gz"])
def test_what_was_written_is_read_again(tmp_path: Path, name: str) -> None:
    log = pl.DataFrame(
        {"query": ["q"] * 4, "doc": list("abcd"), "score": [0.1 + 0.2, 1e300, -5e-324, 0.0]}
    )
    write_run(log, tmp_path / name)
    back = scan_run(tmp_path / name).drop("run").sort("doc").collect()
    assert_frame_equal(back, log, check_exact=True)
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (
            pl.lit("a b").alias("doc"),
            "5 of 5 rows: doc is null, empty, or contains whitespace or a null character; TREC fi",
        ),
        (pl.lit("").alias("query"), "query is null, empty, or contains whitespace"),
        (pl.lit("a\0").alias("doc"), "doc is null, empty, or contains whitespace or a null char"),
        (pl.lit(None, pl.String).alias("doc"), "doc is null, empty"),
        (
            pl.format("#{}", "query").alias("query"),
            "query begins with '#', so its lines would be comments",
        ),
        (pl.lit("\t").alias("run"), "run is null, empty, or contains whitespace"),
        (col("score").log(-1), "5 of 5 rows: score is NaN or infinite; "),
        (
            pl.lit(7).alias("doc"),
            "2 documents: column 'doc' (`doc`) has duplicates: a document occurs more than once",
        ),
    ],
)
def test_rows_that_cannot_be_a_run(file: Path, column: pl.Expr, message: str) -> None:
    log = LOG.with_columns(column)
    if message.startswith(("doc", "query is")):  # these would also be repeated
        log = log.with_columns(run=pl.format("{}", pl.int_range(pl.len())))
    for frame in (log, log.lazy()):
        with pytest.raises(DataError, match=re.escape(message)):
            write_run(frame, file)
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.format("d {}", "doc").alias("doc"), "doc is null, empty, or contains whitespace"),
        (pl.lit(None, pl.Int64).alias("query"), "query is null, empty"),
        (pl.lit(float("inf")).alias("label"), "6 of 6 rows: label is NaN or infinite; "),
        (pl.lit(7).alias("doc"), "several labels for one document of a query (rows: 2"),
    ],
)
def test_rows_that_cannot_be_judgments(file: Path, column: pl.Expr, message: str) -> None:
    with pytest.raises(DataError, match=re.escape(message)):
        write_qrels(LOG.with_columns(column), file)
    assert list(file.parent.iterdir()) == []


def test_columns_that_do_not_fit(file: Path) -> None:
    with pytest.raises(SchemaError, match=r"column 'sim' .`score`. not found.*") as error:
        write_run(LOG, file, score="sim")
    assert isinstance(error.value, RankError)
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


# --- real files -----------------------------------------------------------------------------


@real
def test_real_files(tmp_path: Path) -> None:
    run, judgments = scan_run(REAL / "results.test"), scan_judgments(REAL / "qrels.test")
    lines = (REAL / "results.test").read_text("utf-8").splitlines()
    plain = [(f[0], f[2], float(f[4]), f[5]) for f in map(str.split, lines)]
    assert rows(run) == plain
    lines = (REAL / "qrels.test").read_text("utf-8").splitlines()
    assert rows(judgments) == [(f[0], f[2], int(f[3])) for f in map(str.split, lines)]
    write_run(run, tmp_path / "run")
    write_qrels(judgments, tmp_path / "qrels")
    assert_frame_equal(scan_run(tmp_path / "run"), run, check_row_order=False)
    assert_frame_equal(scan_judgments(tmp_path / "qrels"), judgments, check_row_order=False)
