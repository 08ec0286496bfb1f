"""Inputs of commands: all formats, pipes, judgments, and files of options."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
import lzma
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import run
from rows import check_each
from servers import serving

import polars_rank as pr
from polars_rank.cli.program import app
from polars_rank.cli.sources import readable

LOG = pl.DataFrame(
    {
        "query": [1, 1, 2, 2, 3],
        "doc": ["a", "b", "a", "ü", "a"],
        "score": [0.5, 0.9, 0.75, 0.25, 0.5],
        "label": [1, 0, 0, 2, 1],
    }
)
# RR of the queries: 1/2, 1/2, 1.
RR = (1 / 2 + 1 / 2 + 1) / 3
QRELS = "1 0 a 1\n1 0 b 0\n2 0 a 0\n2 0 ü 2\n3 0 a 1\n"
RUN = "".join(f"{q} Q0 {d} 1 {s} mine\n" for q, d, s in LOG.select("query", "doc", "score").rows())


def rr(*arguments: object, stdin: bytes | None = None) -> float:
    code, out, err = run("evaluate", *arguments, "-m", "rr", "--format", "json", stdin=stdin)
    assert (code, err) == (0, "")
    (row,) = json.loads(out)
    return row["rr"]


def written(write: Any, path: Path) -> bytes:
    write(path)
    return path.read_bytes()


FORMATS = {
    "parquet": LOG.write_parquet,
    "ipc": LOG.write_ipc,
    "csv": LOG.write_csv,
    "tsv": lambda path: LOG.write_csv(path, separator="\t"),
    "ndjson": LOG.write_ndjson,
    "packed csv": lambda path: path.write_bytes(gzip.compress(LOG.write_csv().encode())),
    "packed ndjson": lambda path: path.write_bytes(gzip.compress(LOG.write_ndjson().encode())),
    "csv with a mark": lambda path: path.write_bytes(b"\xef\xbb\xbf" + LOG.write_csv().encode()),
}


@pytest.mark.parametrize("form", FORMATS)
def test_formats_are_detected_by_their_first_bytes(tmp_path: Path, form: str) -> None:
    data = written(FORMATS[form], tmp_path / "log")
    assert rr(tmp_path / "log") == RR
    assert rr("-", stdin=data) == RR
    code, out, _ = run("summarize", "-", "-m", "rr", "--format", "json", stdin=data)
    assert (code, json.loads(out)[0]["mean"]) == (0, RR)
    code, out, _ = run("inspect", "-", "--format", "csv", stdin=data)
    assert (code, "size,rows,5" in out) == (0, True)
    assert not [*tmp_path.glob("*.part")]


def test_formats_by_option(tmp_path: Path) -> None:
    """A header of one column has no separator."""
    (tmp_path / "log.txt").write_text(LOG.write_csv(), "utf-8")
    assert rr(tmp_path / "log.txt", "--input-format", "csv") == RR
    (tmp_path / "one").write_text("query\n1\n", "utf-8")
    assert "--input-format" in run("evaluate", tmp_path / "one", "-m", "rr")[2]
    code, _, err = run("evaluate", tmp_path / "one", "-m", "rr", "--input-format", "csv")
    assert (code, "column 'score' (`--score`) not found" in err) == (2, True)


def test_judgments_can_be_joined_to_any_log(tmp_path: Path) -> None:
    qrels, trec, table = tmp_path / "qrels", tmp_path / "run", tmp_path / "run.parquet"
    qrels.write_text(QRELS, "utf-8")
    trec.write_text(RUN, "utf-8")
    LOG.drop("label").write_parquet(table)
    with_qrels = ["--judgments", qrels]
    assert rr(trec, *with_qrels) == RR
    assert rr(table, *with_qrels) == RR  # whose queries are whole numbers
    assert rr("-", *with_qrels, stdin=RUN.encode()) == RR
    assert rr(trec, "--judgments", "-", stdin=QRELS.encode()) == RR
    renamed = LOG.drop("label").rename({"query": "q", "doc": "d", "score": "s"})
    renamed.write_csv(tmp_path / "other.csv")
    names = ["--query", "q", "--doc", "d", "--score", "s"]
    assert rr(tmp_path / "other.csv", *with_qrels, *names) == RR
    both = pl.concat([LOG.with_columns(model=pl.lit(name)) for name in "AB"]).drop("label")
    both.write_csv(tmp_path / "both.csv")
    _, out, _ = run("evaluate", tmp_path / "both.csv", *with_qrels, "-m", "rr", "--by", "model",
                    "--format", "json")  # fmt: skip
    assert [(row["model"], row["rr"]) for row in json.loads(out)] == [("A", RR), ("B", RR)]


def test_results_and_judgments_in_any_format(tmp_path: Path) -> None:
    golden, results = tmp_path / "golden.jsonl", tmp_path / "results.json"
    golden.write_text(
        '{"id": 1, "query": "a?", "relevant": ["b"], "category": "x"}\n'
        '{"id": 2, "query": "b?", "relevant": ["c"], "category": "y"}\n',
        "utf-8",
    )
    results.write_text(
        '{"1": {"results": ["a", "b"], "category": "x"}, "2": {"results": []}}', "utf-8"
    )
    files = ["--run-file", results, "--judgments", golden]
    assert rr(*files) == 0.25
    code, out, _ = run("evaluate", *files, "-m", "rr", "--by", "category", "--format", "csv")
    assert (code, out) == (0, "category,queries,rr\nx,1,0.5\ny,1,0.0\n")
    _, out, _ = run("inspect", *files)
    assert f"--judgments {golden} --run-file {results}" in out
    assert "give one of the two" in run("evaluate", results, *files, "-m", "rr")[2]
    assert "has no judgments; add --judgments" in run("evaluate", *files[:2], "-m", "rr")[2]
    _, _, err = run("evaluate", golden, "--judgments", golden, "-m", "rr")
    assert "column 'doc' (`--doc`) not found; available: 'id', 'query', " in err


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["evaluate", "-", "-m", "rr"], b"", "standard input is empty"),
        (["evaluate", "-", "-", "-m", "rr"], b"x", "use - only once"),
        (["evaluate", "-", "-m", "rr"], RUN.encode(), "has no judgments; add --judgments"),
        (["evaluate", "-", "-m", "rr"], QRELS.encode(), "pass judgments as --judgments"),
        (["evaluate", "-", "-m", "rr"], b'[{"query": 1}]', "results as --run-file"),
        (["evaluate", "-", "-m", "rr"], b"%PDF-1.4", "has an unknown format"),
        (["evaluate", "-", "-m", "rr"], b"PAR1 and no more", "standard input"),
        (["summarize", "-", "--values", "x", "-m", "rr"], b"x", "LOG cannot be used with --values"),
    ],
)
def test_pipes_in_other_formats(arguments: list[str], stdin: bytes, message: str) -> None:
    code, out, err = run(*arguments, stdin=stdin)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_pipes_of_processes(tmp_path: Path) -> None:
    """Standard input is read once and copied; other pipes are not."""
    (tmp_path / "qrels").write_text(QRELS, "utf-8")
    (tmp_path / "run").write_text(RUN, "utf-8")
    command = f"{sys.executable} -m polars_rank evaluate -m rr --format json"
    for script, code, text in (
        (f"cat run | {command} - --judgments qrels", 0, f'"rr":{RR}'),
        (f"cat qrels | {command} run --judgments -", 0, f'"rr":{RR}'),
        (f"{command} run --judgments <(cat qrels)", 2, "is a pipe or a device.*standard input"),
    ):
        done = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, capture_output=True, encoding="utf-8"
        )
        assert (done.returncode, bool(re.search(text, done.stdout + done.stderr))) == (code, True)


def test_errors_name_standard_input(tmp_path: Path) -> None:
    convert = ["convert", "-", "-o", tmp_path / "none.parquet"]
    invalid = b"1 Q0 a 1 2 x\n1 Q0 b 2 high x\n"
    assert "line 2 of standard input must be" in run(*convert, stdin=invalid)[2]


def test_a_terminal_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    pty = pytest.importorskip("pty", reason="terminals of POSIX")
    here, there = pty.openpty()
    with os.fdopen(there, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        with pytest.raises(pr.errors.SourceError, match="is closed or a terminal"):
            readable("-")
        with pytest.raises(pr.errors.SourceError, match="is a pipe or a device"):
            pr.scan_run(os.ttyname(there))
    os.close(here)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of a project, whose columns have names of their own."""
    (tmp_path / "logs").mkdir()
    monkeypatch.chdir(tmp_path / "logs")
    LOG.rename({"query": "qid", "label": "grade"}).write_parquet("log.parquet")
    return tmp_path


def test_conventions_of_a_file(here: Path) -> None:
    Path("ours.toml").write_text(
        'base = "lightgbm"\nundefined = "skip"\n[parameters]\ngain = "linear"\n', "utf-8"
    )
    log = ["log.parquet", "--query", "qid", "--label", "grade", "-m", "ndcg@1 ap"]
    code, out, err = run("evaluate", *log, "--conventions", "ours.toml", "--format", "json")
    assert (code, err) == (0, "")
    ours = pr.conventions.LIGHTGBM.but(undefined="skip", parameters={"gain": "linear"})
    assert json.loads(out) == [
        pytest.approx(row)
        for row in pr.evaluate(LOG, ["ndcg@1", "ap"], conventions=ours).to_dicts()
    ]
    Path("ours.toml").write_text("[parameters.gain]\n0 = 0\n1 = 1\n2 = 3\n3 = 7\n", "utf-8")
    code, out, err = run("evaluate", *log, "--conventions", "ours.toml", "--format", "json")
    gains = pr.evaluate(LOG, ["ndcg(gain={0: 0, 1: 1, 2: 3, 3: 7})@1", "ap"]).rows()
    assert (code, err, [*json.loads(out)[0].values()]) == (0, "", pytest.approx(gains[0]))
    Path("ours.toml").write_text('tie = "best"', "utf-8")
    assert (
        "invalid choice 'tie'; available: "
        in (run("evaluate", *log, "--conventions", "ours.toml")[2])
    )


def test_urls(tmp_path: Path) -> None:
    LOG.write_parquet(tmp_path / "log.parquet")
    LOG.write_csv(tmp_path / "log.csv")
    LOG.write_ndjson(tmp_path / "log.ndjson")
    LOG.write_ipc(tmp_path / "log.arrow")
    (tmp_path / "qrels.txt").write_text(QRELS, "utf-8")
    (tmp_path / "run.txt").write_text(RUN, "utf-8")
    with serving({path.name: path.read_bytes() for path in tmp_path.iterdir()}) as root:
        for ending in ("parquet", "csv", "ndjson", "arrow"):
            assert rr(f"{root}/log.{ending}") == RR
        assert rr("--run-file", f"{root}/run.txt", "--judgments", f"{root}/qrels.txt") == RR
        code, _, err = run("evaluate", f"{root}/gone.parquet", "-m", "rr")
        assert (code, err.count("\n"), "404" in err) == (2, 1, True)


def test_files_with_other_columns(tmp_path: Path) -> None:
    LOG.head(2).write_parquet(tmp_path / "1.parquet")
    LOG.slice(2).drop("doc").with_columns(day=1).write_parquet(tmp_path / "2.parquet")
    code, _, err = run("evaluate", tmp_path, "-m", "rr", "--doc", "")
    assert (
        code,
        "set `--missing-columns` to 'insert' or `--extra-columns` to 'ignore'" in err,
    ) == (2, True)
    options = ["--missing-columns", "insert", "--extra-columns", "ignore"]
    assert rr(tmp_path, "--doc", "", *options) == RR
    LOG.write_csv(tmp_path / "log.csv")
    assert (
        "--extra-columns needs Parquet files"
        in (run("evaluate", tmp_path / "log.csv", "-m", "rr", "--extra-columns", "ignore")[2])
    )


def lines(*arguments: object) -> list[str]:
    code, out, err = run(*arguments, "--format", "csv")
    assert (code, err) == (0, "")
    return sorted(out.splitlines()[1:])


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".ndjson"])
def test_ids_are_text(tmp_path: Path, ending: str) -> None:
    rows = {
        "query": ["01", "01", "1", "1"], "doc": ["007", "08", "007", "7"], "run": ["1"] * 4,
        "score": [0.5, 0.9, 0.5, 0.4], "label": [1, 0, 1, 0], "country": ["03", "03", "3", "3"],
    }  # fmt: skip
    log, table = tmp_path / f"log{ending}", pl.DataFrame(rows)
    write = {".csv": table.write_csv, ".ndjson": table.write_ndjson}
    write.get(ending, lambda path: table.write_csv(path, separator="\t"))(log)
    rr = ["-m", "rr"]
    assert lines("evaluate", log, *rr) == ["1,2,0.75"]
    assert lines("evaluate", log, *rr, "--by", "run country") == ["1,03,1,0.5", "1,3,1,1.0"]
    listed = ["01,03,0.5", "1,3,1.0"]
    assert lines("per-query", log, *rr, "--run", "", "--keep", "country") == listed
    actual = lines("summarize", log, *rr, "--by", "country", "--run", "")
    assert [line.split(",")[:3] for line in actual] == [["03", "rr", "0.5"], ["3", "rr", "1.0"]]


def test_judgments_are_joined_by_ids_as_text(tmp_path: Path) -> None:
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("01 0 007 1\n01 0 d9 1\n1 0 7 1\n", "utf-8")
    log = tmp_path / "log.csv"
    log.write_text("query,doc,score\n01,007,0.5\n1,7,0.5\n", "utf-8")
    recall = ["--judgments", qrels, "-m", "recall"]
    assert lines("per-query", log, *recall) == ["01,0.5", "1,1.0"]
    # A log of numbers, beside judgments of documents whose ids are none.
    qrels.write_text("1 0 7 1\n1 0 d9 1\n", "utf-8")
    log = tmp_path / "log.parquet"
    pl.DataFrame({"query": [1, 1], "doc": [7, 8], "score": [0.5, 0.6]}).write_parquet(log)
    assert lines("per-query", log, *recall) == ["1,0.5"]
    pl.DataFrame({"query": [1], "doc": [7.0], "score": [0.5]}).write_parquet(log)
    code, _, err = run("evaluate", log, *recall)
    assert (code, "do the ids match? e.g. '7.0' and '7'" in err) == (2, True)


def test_text_files_without_values(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    head = "query,doc,score,label\n"
    for text, actual in {
        "": ["0,,"],
        "1,a,,1\n1,b,,0\n": ["1,0.0,0.0"],
        "1,a,0.5,\n": ["1,0.0,0.0"],
    }.items():
        log.write_text(head + text, "utf-8")
        code, out, _ = run("evaluate", log, "-m", "rr ndcg", "--format", "csv")
        assert (code, out.splitlines()[1:]) == (0, actual)
    for row, said in {
        "1,a,nan,1": "1 of 2 rows: column 'score' (`--score`) has NaN or infinite values",
        "1,a,0.5,inf": "1 of 2 rows: column 'label' (`--label`) has NaN or infinite values",
        "1,a,high,1": "column 'score' (`--score`) must be numeric; found String",
    }.items():
        log.write_text(f"{head}{row}\n1,b,0.5,0\n", "utf-8")
        code, _, err = run("evaluate", log, "-m", "rr")
        assert (code, said in err) == (2, True), err
    # A kept column of words is none of numbers, whatever they look like.
    log.write_text("query,doc,score,label,name\n1,a,0.5,1,nan\n", "utf-8")
    assert lines("per-query", log, "-m", "rr", "--keep", "name") == ["1,nan,1.0"]


def test_metadata_files_of_spark_are_ignored(tmp_path: Path) -> None:
    for index, part in enumerate(LOG.partition_by("query")):
        (tmp_path / f"day={index}").mkdir()
        part.write_parquet(tmp_path / f"day={index}" / "part.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_committed_1").write_text("{}", "utf-8")
    for paths in (
        [tmp_path], [tmp_path / "*"], [tmp_path / "day=*"], [f"{tmp_path}/day=*/"],
        [tmp_path / "**"], sorted(tmp_path.iterdir()), [tmp_path / "*" / "*"],
    ):  # fmt: skip
        assert rr(*paths) == RR, paths
    code, _, err = run("evaluate", tmp_path / "_SUCCESS", "-m", "rr")
    assert (code, "has an unknown format" in err) == (2, True)


def test_directories_of_other_formats(tmp_path: Path) -> None:
    LOG.write_csv(tmp_path / "log.csv")
    (tmp_path / "_SUCCESS").touch()
    assert rr(tmp_path / "*") == RR
    code, _, err = run("evaluate", tmp_path, "-m", "rr")
    assert (code, f"directory '{tmp_path}' has no .parquet files" in err) == (2, True)


TEXTS = {
    "txt": LOG.write_csv(), "csv": LOG.write_csv(), "tsv": LOG.write_csv(separator="\t"),
    "ndjson": LOG.write_ndjson(),
}  # fmt: skip


@pytest.mark.parametrize("ending", TEXTS)
def test_compressed_text(tmp_path: Path, ending: str) -> None:
    log = tmp_path / f"log.{ending}.gz"
    packed = gzip.compress(TEXTS[ending].encode())
    log.write_bytes(packed)
    assert rr(log) == RR
    log.write_bytes(packed[:-9])
    code, out, err = run("evaluate", log, "-m", "rr")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(log) in err


@pytest.mark.parametrize("ending", TEXTS)
@pytest.mark.parametrize("packer", [bz2, lzma])
def test_other_compressions_are_refused(tmp_path: Path, packer: Any, ending: str) -> None:
    log = tmp_path / f"log.{ending}.{'xz' if packer is lzma else 'bz2'}"
    log.write_bytes(packer.compress(TEXTS[ending].encode()))
    code, out, err = run("evaluate", log, "-m", "rr")
    assert (code, out) == (2, "")
    assert f"{log} is compressed with " in err
    assert "decompress it first" in err


def test_arrow_streams_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.arrow"
    LOG.write_ipc_stream(log)
    code, _, err = run("evaluate", log, "-m", "rr")
    assert (code, f"{log} is an Arrow stream; write an Arrow file or Parquet" in err) == (2, True)


@pytest.mark.parametrize("ending", TEXTS)
def test_line_ends(tmp_path: Path, ending: str) -> None:
    log = tmp_path / f"log.{ending}"
    log.write_bytes(TEXTS[ending].replace("\n", "\r\n").encode())
    assert rr(log) == RR
    log.write_bytes(TEXTS[ending].replace("\n", "\r").encode())
    code, out, err = run("evaluate", log, "-m", "rr")
    assert (code, out) == (2, "")
    assert str(log) in err


@pytest.mark.parametrize(("name", "text"), [("runs.txt", RUN), ("qrels", QRELS)])
def test_carriage_returns_in_trec_files(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "runs.txt").write_text(RUN, "utf-8")
    (tmp_path / "qrels").write_text(QRELS, "utf-8")
    (tmp_path / name).write_bytes(text.replace("\n", "\r").encode())
    code, out, err = run(
        "evaluate", tmp_path / "runs.txt", "--judgments", tmp_path / "qrels", "-m", "rr"
    )
    assert (code, out) == (2, "")
    assert str(tmp_path / name) in err


@pytest.mark.parametrize("separator", [",", "\t"])
def test_rows_with_missing_or_extra_fields(tmp_path: Path, separator: str) -> None:
    log = tmp_path / ("log.tsv" if separator == "\t" else "log.csv")

    def ended(rows: list[list[str]]) -> tuple[int, str, str]:
        log.write_text("".join(f"{separator.join(row)}\n" for row in rows), "utf-8")
        return run("evaluate", log, "-m", "rr", "--format", "csv")

    # The fields may hold separators and line ends, and be empty.
    rows = [
        [*"query doc score label".split()],
        ["1", f'"b{separator}\n"', "0.9", ""],
        ["1", "a", "0.5", "1"],
    ]
    assert ended(rows) == (0, "queries,rr\n1,0.5\n", "")
    for row, number in (
        (["2", "a"], "2 fields"),
        (["2", "a", "1"], "3 fields"),
        ([*"2a110"], "5 fields"),
    ):
        code, out, err = ended([*rows, row, ["2", "b", "0.25", "0"]])
        message = (
            f"row 4 of {log} has {number}, but the header has 4: {separator.join(row)!r}; check"
        )
        assert (code, out, message in err) == (2, "", True), err


NEVER = {
    "1 0 d10 1\n": "no retrieved document is judged (2 retrieved, 1 judged): do the ids match? "
                   "e.g. '10' and 'd10'",
    "q1 0 10 1\n": "no ranked query is judged (1 ranked, 1 judged): do the ids match? "
                   "e.g. '1' in the rankings and 'q1' in the judgments",
}  # fmt: skip
JOINING = [
    *("evaluate -m rr", "inspect", "per-query -m rr", "summarize -m rr", "leaderboard -m rr"),
    *("compare -m rr --baseline a", "compare -m rr --baseline a --slices query"),
    *("movers -m rr --baseline a", "explain rr --versus ranx", "convert -o out.parquet"),
    *("report -m rr -o out.html", "check -m rr --rule rr>=0"),
]


def test_ids_that_never_match_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bm25").write_text("1 Q0 10 1 2 a\n1 Q0 11 2 1 a\n", "utf-8")

    def check(command: str, qrels: str) -> None:
        Path("qrels").write_text(qrels, "utf-8")
        code, out, err = run(*command.split(), "bm25", "--judgments", "qrels")
        *read, error = err.splitlines()  # convert says what was read
        assert (code, out, error) == (2, "", f"Error: run 'a': {NEVER[qrels]}")
        assert len(read) == 2 * command.startswith("convert")
        assert {path.name for path in tmp_path.iterdir()} == {"bm25", "qrels"}

    check_each(check, [(command, qrels) for command in JOINING for qrels in NEVER])


def test_ids_that_occur_are_a_warning(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("1 Q0 10 1 2 a\n1 Q0 11 2 1 a\n2 Q0 12 1 1 a\n", "utf-8")
    (tmp_path / "qrels").write_text("1 0 d10 1\n3 0 10 1\n", "utf-8")
    arguments = [tmp_path / "run", "--judgments", tmp_path / "qrels", "-m", "rr"]
    code, _, err = run("evaluate", *arguments)
    assert (code, err.splitlines()) == (0, [
        "Warning: 1 of 2 judged queries is in no run (e.g. '3') and 1 of 2 queries in the rankings "
        "is not judged (e.g. '2'); they count in means unless `--query-set` leaves them out",
        "Warning: run 'a': no retrieved document is judged (3 retrieved, 2 judged): do the ids "
        "match? e.g. '10' and 'd10'",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"query,doc,score,label\n1,a\xff,1,1\n", 2),
        (b"query,doc\xff,score,label\n1,a,1,1\n", 1),
        (b"query,doc,score,label\n1,a,1,1\n1,b\xff,2\n", 3),  # and too few fields
    ],
)
def test_bytes_of_csv_that_are_not_utf8(text: bytes, line: int, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes(text)
    code, _, err = run("evaluate", tmp_path / "log.csv", "-m", "rr")
    problem = "has the byte 0xff, so it is not UTF-8; save the file as text in UTF-8"
    assert (code, err) == (2, f"Error: line {line} of {tmp_path / 'log.csv'} {problem}\n")


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("needs a file system on which names are bytes")
    log, table = folder / "\udcff.csv", folder / "\udcff.parquet"
    LOG.write_csv(tmp_path / "log.csv")
    LOG.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.csv").rename(log)
    (tmp_path / "log.parquet").rename(table)
    for path in (log, table, folder / "*.parquet"):
        code, _, err = run("evaluate", path, "-m", "rr")
        assert (code, err.count("\n")) == (2, 1)
        assert "is not UTF-8; rename the file" in err
    page = folder / "\udcfe.html"
    log = tmp_path / "log.csv"
    LOG.write_csv(log)
    code, _, err = run("report", log, "-m", "rr", "--title", "a\udcff", "-o", page)
    assert (code, "internal error" in err) == (0, False)
    assert "<title>a" in page.read_text("utf-8")
    assert run("evaluate", log, "-m", "rr", "-o", folder / "out\udcff.csv")[0] == 0
    code, _, err = run("evaluate", folder / "not there\udcff.csv", "-m", "rr")
    assert (code, "not found" in err) == (2, True)


# --- fields of judgments and results ----------------------------------------------------------


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Judgments and results in which no name but "doc" is known; the RR is 1/2."""
    judgments, results = tmp_path / "judgments.csv", tmp_path / "results.jsonl"
    judgments.write_text("prompt,doc,relevancy\nq,a,0\nq,b,2\n", "utf-8")
    results.write_text('{"number": "q", "found": ["a", "b"]}\n' * 1, "utf-8")
    return judgments, results


def mrr(*arguments: object) -> Any:
    code, out, err = run("evaluate", *arguments, "-m", "mrr", "--format", "json")
    return (json.loads(out), err) if code == 0 else (code, err)


def test_fields_name_what_judgments_and_results_have(files: tuple[Path, Path]) -> None:
    read = ["--judgments", files[0], "--run-file", files[1]]
    fields = "judgments.query=prompt,results.query=number,label=relevancy,results=found"
    rows = [{"queries": 1, "mrr": 0.5}]
    assert mrr(*read, "--fields", fields) == (rows, "")
    found = (
        "1 ranking from results.jsonl: query 'number', results 'found'\n"
        "1 query from judgments.csv: query 'prompt', doc 'doc', label 'relevancy'\n"
    )
    assert mrr(*read, "--fields", fields, "--verbose") == (rows, found)
    code, out, _ = run("inspect", *read, "--fields", fields, "--format", "json")
    notes = [each["value"] for each in json.loads(out) if each["part"] == "files"]
    assert (code, notes) == (0, found.splitlines())
    converted = files[0].with_name("log.parquet")
    code, _, err = run("convert", *read, "--fields", fields, "-o", converted)
    assert (code, err) == (0, f"{found}Wrote {converted}\n")
    code, out, _ = run("gate", *files, "--fields", fields)
    assert "1 query from judgments.csv: query 'prompt', doc 'doc', label 'relevancy'" in out


def test_options_of_columns_name_fields(files: tuple[Path, Path]) -> None:
    read = ["--judgments", files[0], "--run-file", files[1], "--fields", "results=found"]
    # Each file has a field of the query; the option is of the file that has it.
    code, err = mrr(*read, "--query", "prompt")
    assert (code, "no field is known as the query; name it, as in --fields query=number" in err) == (
        2, True,
    )  # fmt: skip
    judgments = files[0].read_text("utf-8").replace("prompt", "number")
    files[0].write_text(judgments, "utf-8")
    code, err = mrr(*read, "--query", "number")
    assert (code, "write --fields label=relevancy; if there is no label" in err) == (2, True)
    assert mrr(*read, "--query", "number", "--label", "relevancy")[0] == [
        {"queries": 1, "mrr": 0.5}
    ]
    assert mrr(*read, "--query", "number", "--fields", "label=")[0] == [{"queries": 1, "mrr": 1.0}]
    code, err = mrr(*read, "--query", "number", "--label", "relevanc")
    assert (code, "Did you mean 'relevancy'" in err or "no field 'relevanc'" in err) == (2, True)
    code, err = mrr(*read, "--query", "number", "--label", "relevancy", "--fields", "label=x")
    assert (code, err) == (2, "Error: --label relevancy differs from --fields label=x\n")
    code, err = mrr(*read, "--fields", "labels=x")
    assert (code, "unknown role 'labels'. Did you mean 'label'" in err) == (2, True)
    code, err = mrr(*read, "--fields", "relevancy")
    assert (code, "`--fields` must be ROLE=FIELD" in err) == (2, True)


def test_options_name_columns_of_a_log_and_fields_of_judgments(tmp_path: Path) -> None:
    log, judgments = tmp_path / "log.csv", tmp_path / "judgments.csv"
    log.write_text("q,item,points\n1,a,2\n1,b,1\n", "utf-8")
    judgments.write_text("q,item,stars\n1,b,1\n", "utf-8")
    names = ["--query", "q", "--doc", "item", "--score", "points"]
    found = mrr(log, "--judgments", judgments, *names, "--label", "stars")
    assert found == ([{"queries": 1, "mrr": 0.5}], "")
    code, err = mrr(log, "--judgments", judgments, *names, "--label", "start")
    assert (code, "no field 'start'" in err) == (2, True)


def test_scores_that_descend_in_results(tmp_path: Path) -> None:
    results, qrels = tmp_path / "results.csv", tmp_path / "qrels"
    results.write_text("query,doc,distance\n1,a,2\n1,b,1\n", "utf-8")
    qrels.write_text("1 0 b 1\n", "utf-8")
    read = ["--run-file", results, "--judgments", qrels]
    assert mrr(*read, "--score=-distance")[0] == [{"queries": 1, "mrr": 1.0}]
    assert mrr(*read, "--score", "distance")[0] == [{"queries": 1, "mrr": 0.5}]


def test_runs_of_several_files_have_names(tmp_path: Path) -> None:
    qrels, one, other = tmp_path / "qrels", tmp_path / "one.txt", tmp_path / "other.txt"
    qrels.write_text("q 0 a 1\n", "utf-8")
    one.write_text("q Q0 a 1 2 tag\nq Q0 b 2 1 tag\n", "utf-8")
    other.write_text("q Q0 b 1 2 tag\nq Q0 a 2 1 tag\n", "utf-8")
    read = ["--judgments", qrels, "--run-file"]
    rows = [{"run": "one", "queries": 1, "mrr": 1.0}, {"run": "other", "queries": 1, "mrr": 0.5}]
    assert mrr(*read, one, "--run-file", other) == (rows, "")
    named = [{**rows[1], "run": "new"}, {**rows[0], "run": "prod"}]
    assert mrr(*read, f"prod={one}", "--run-file", f"new={other}") == (named, "")
    assert mrr(*read, f"a={one}", "--run-file", f"b={one}")[0] == [
        {"run": name, "queries": 1, "mrr": 1.0} for name in "ab"
    ]
    code, err = mrr(*read, f"x={one}", "--run-file", f"x={other}")
    assert (code, "several runs have the name 'x'" in err) == (2, True)
    code, err = mrr(*read, f"x={tmp_path / 'nowhere'}")
    assert (code, "nowhere' not found" in err) == (2, True)


@pytest.mark.parametrize("command", ["evaluate", "per-query", "report", "summarize"])
def test_empty_files_of_judgments_and_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in {"qrels": "q 0 a 1\n", "run": "q Q0 a 1 2 x\n", "empty": ""}.items():
        Path(name).write_text(text, "utf-8")
    output = {"per-query": ["-o", "values.parquet"], "report": ["-o", "report.html"]}.get(
        command, []
    )
    code, _, err = run(
        command, "--run-file", "run", "--judgments", "empty", "-m", "ap", *output
    )  # fmt: skip
    assert (code, err) == (2, "Error: empty has no judgments\n")
    code, out, err = run(
        command, "--run-file", "empty", "--judgments", "qrels", "-m", "ap", *output
    )
    assert (code, "Warning: empty: the file has no results" in err) == (0, True)
    if command == "evaluate":
        assert out.split() == ["queries", "ap", "1", "0.0000"]


EXAMPLES = Path(__file__).parents[2] / "examples" / "files"


@pytest.mark.parametrize(
    ("arguments", "sentences"),
    [
        (
            ["--judgments", "qrels.txt", "--run-file", "bm25.run"],
            ["2 rankings from bm25.run: query 'column 1', doc 'column 3', score 'column 5'",
             "3 queries from qrels.txt: query 'column 1', doc 'column 3', label 'column 4'"],
        ),
        (
            ["--judgments", "golden.jsonl", "--run-file", "results.jsonl"],
            ["3 rankings from results.jsonl: query 'query', results 'results', "
             "score 'results.score'",
             "3 questions from golden.jsonl: query 'query', relevant 'relevant'"],
        ),
        (
            ["--run-file", "recommendations.csv"],
            ["3 rankings from recommendations.csv: query 'user', doc 'item', score 'score'"],
        ),
        (
            ["--judgments", "recommendations.csv", "--fields", "label=clicked"],
            ["3 queries from recommendations.csv: query 'user', doc 'item', label 'clicked'"],
        ),
    ],
)  # fmt: skip
def test_example_files_say_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], sentences: list[str]
) -> None:
    monkeypatch.chdir(EXAMPLES)
    code, _, err = run("convert", *arguments, "-o", tmp_path / "log.parquet")
    lines = [line for line in err.splitlines() if not line.startswith(("Wrote ", "Warning: "))]
    assert (code, lines) == (0, sentences)
