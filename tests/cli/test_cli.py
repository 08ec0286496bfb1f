"""The command line: results, errors, exit codes and signals."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import run
from polars.testing import assert_frame_equal

import polars_rank as pr
from polars_rank.datasets import search_log
from polars_rank.metrics import names as metric_names
from polars_rank.metrics.aliases import ALIASES
from polars_rank.metrics.metric import REGISTER

METRICS = ["ndcg@10", "ap", "rr"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    search_log(60, 10, seed=1).sink_parquet(path)
    return path


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "polars_rank", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **options,
    )


def test_an_output_is_not_overwritten_by_default(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "means.csv"
    output.write_text("mine", "utf-8")
    arguments = ["evaluate", log, "-m", "rr", "--by", "run", "-o", output]
    code, _, err = run(*arguments)
    assert (code, output.read_text("utf-8")) == (2, "mine")
    assert "already exists" in err
    assert run(*arguments, "--overwrite")[0] == 0
    assert pl.read_csv(output).columns == ["run", "queries", "rr"]


@pytest.mark.parametrize("kind", ["file", "link", "directory", "pattern", "csv"])
def test_an_output_never_replaces_the_log(log: Path, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "a.parquet"
    source.write_bytes(log.read_bytes())
    output, given = source, {"directory": tmp_path, "pattern": tmp_path / "*.parquet"}.get(
        kind, source
    )  # fmt: skip
    if kind == "link":
        given = tmp_path / "link.parquet"
        given.symlink_to(source)
    if kind == "csv":
        output = given = tmp_path / "a.csv"
        pl.read_parquet(log).write_csv(output)
    before = output.read_bytes()
    arguments = ["evaluate", given, "-m", "rr", "--by", "run", "--overwrite", "-o"]
    code, out, err = run(*arguments, output)
    assert (code, out, output.read_bytes()) == (2, "", before)
    assert f"'{output}' is an input; write to another file" in err
    assert run(*arguments, tmp_path / "other.json")[0] == 0


def test_an_output_never_replaces_trec_files(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("q1 0 a 1\n", "utf-8")
    (tmp_path / "r").write_text("q1 Q0 b 1 2.0 bm25\n", "utf-8")
    sources = [tmp_path / "r", "--judgments", tmp_path / "q", "--overwrite"]
    for name in "qr":
        for arguments in (
            ["convert", *sources, "-o", tmp_path / name],
            ["evaluate", *sources, "-m", "rr", "-o", tmp_path / name],
        ):
            code, _, err = run(*arguments)
            assert (code, "is an input; write to another file" in err) == (2, True)
    assert (tmp_path / "q").read_text("utf-8") == "q1 0 a 1\n"


def test_endings_of_the_output_in_any_case(log: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", log, "-m", "rr", "--by", "run", "-o"]
    expected = pr.evaluate(pl.read_parquet(log), "rr", by="run")
    assert run(*arguments, tmp_path / "A.CSV")[0] == 0
    assert_frame_equal(pl.read_csv(tmp_path / "A.CSV"), expected, check_dtypes=False)
    assert run(*arguments, tmp_path / "a.txt")[0] == 0
    assert run(*arguments, tmp_path / "a")[0] == 0
    assert (tmp_path / "a").read_text("utf-8") == (tmp_path / "a.txt").read_text("utf-8")
    assert (tmp_path / "a").read_text("utf-8").split()[:3] == ["run", "queries", "rr"]
    assert run(*arguments, tmp_path / "a.dat", "--format", "csv")[0] == 0
    assert (tmp_path / "a.dat").read_text("utf-8") == (tmp_path / "A.CSV").read_text("utf-8")


WRITERS = {
    "log.csv": lambda frame, path: frame.write_csv(path),
    "LOG.CSV": lambda frame, path: frame.write_csv(path),
    "log.tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "log.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "log.ndjson": lambda frame, path: frame.write_ndjson(path),
    "log.jsonl": lambda frame, path: frame.write_ndjson(path),
    "log.arrow": lambda frame, path: frame.write_ipc(path),
    "log.feather": lambda frame, path: frame.write_ipc(path),
    "log.ipc": lambda frame, path: frame.write_ipc(path),
    "log[1].csv": lambda frame, path: frame.write_csv(path),
    "log[1].arrow": lambda frame, path: frame.write_ipc(path),
    "log[1].ndjson": lambda frame, path: frame.write_ndjson(path),
    "log[1].parquet": lambda frame, path: frame.write_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_logs_in_other_formats(log: Path, tmp_path: Path, name: str) -> None:
    frame = pl.read_parquet(log)
    WRITERS[name](frame, tmp_path / name)
    code, out, err = run(
        "evaluate", tmp_path / name, "-m", "ndcg@10 ap rr", "--by", "run", "--format", "json"
    )
    assert (code, err) == (0, "")
    expected = pr.evaluate(frame, METRICS, by="run").to_dicts()
    assert json.loads(out) == [pytest.approx(row) for row in expected]


def test_types_of_csv_files_are_inferred_from_all_rows(tmp_path: Path) -> None:
    """A label of 0.5 and a document "x" after a thousand whole numbers."""
    frame = pl.DataFrame({"query": range(1200)}).with_columns(
        doc=pl.format("{}", pl.when(pl.col("query") < 1100).then("query").otherwise(pl.lit("x"))),
        score=pl.lit(1.0),
        label=pl.when(pl.col("query") < 1150).then(1.0).otherwise(0.5),
    )
    text = frame.write_csv().replace(",1.0\n", ",1\n")
    (tmp_path / "a.csv").write_text(text, "utf-8")
    code, out, err = run("evaluate", tmp_path / "*.csv", "-m", "cg", "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == [{"queries": 1200, "cg": pytest.approx((1150 + 50 / 2) / 1200)}]
    # Of many files, the types show in the last one.
    for number in range(12):
        label = 0.5 if number == 11 else 1
        text = f"query,doc,score,label\n{number},a,1,{label}\n"
        (tmp_path / f"part-{number:02}.csv").write_text(text, "utf-8")
    code, out, err = run("evaluate", tmp_path / "part-*.csv", "-m", "cg", "--format", "csv")
    assert (code, out, err) == (0, f"queries,cg\n12,{(11 + 0.5) / 12}\n", "")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_invalid_rows_are_counted(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame(
        {"query": [1, 2, 1, 2], "doc": 1, "score": [float("nan")] * 2 + [1.0] * 2, "label": 1}
    )
    getattr(frame, f"write_{ending}")(tmp_path / f"log.{ending}")
    code, out, err = run("evaluate", tmp_path / f"log.{ending}", "-m", "rr")
    assert (code, out) == (2, "")
    assert "2 of 4 rows: column 'score' (`--score`) has NaN or infinite values" in err
    assert "2 documents: column 'doc' (`--doc`) has duplicates" in err


def test_a_warning_is_one_line(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*arguments: Any, **options: Any) -> Any:
        warnings.warn("part of it", pr.errors.RankWarning)
        return pr.evaluate(*arguments, **options)

    monkeypatch.setattr("polars_rank.cli.calls.public", lambda _: evaluate)
    code, out, err = run("evaluate", log, "-m", "rr", "--by", "run")
    assert (code, err) == (0, "Warning: part of it\n")
    assert out.startswith("run ")


def test_trec_files(tmp_path: Path) -> None:
    qrels, trec_run = tmp_path / "qrels", tmp_path / "bm25.run"
    qrels.write_text("q1 0 a 1\nq1 0 b 0\nq2 0 a 2\n", "utf-8")
    trec_run.write_text("q1 Q0 b 1 2.0 bm25\nq1 Q0 a 2 1.0 bm25\nq2 Q0 a 1 1.0 bm25\n", "utf-8")
    expected = {"run": "bm25", "queries": 2, "rr": (1 / 2 + 1) / 2}
    _, out, _ = run("evaluate", trec_run, "--judgments", qrels, "-m", "rr", "--format", "json")
    assert json.loads(out) == [expected]
    long = tmp_path / "long.parquet"
    assert run("convert", trec_run, "--judgments", qrels, "-o", long)[0] == 0
    assert pr.evaluate(pl.read_parquet(long), "rr", by="run").to_dicts() == [expected]
    qrels.write_text("q1 0 a 1\nq1 0 b -1\nq2 0 a 2\n", "utf-8")
    sources = [trec_run, "--judgments", qrels]
    arguments = ["evaluate", *sources, "-m", "ndcg", "--format", "json"]
    actual = {
        word: json.loads(run(*arguments, "--negative", word)[1])[0]["ndcg"]
        for word in ("unjudged", "keep")
    }
    gain = 1 / math.log2(3)  # of a, at rank 2 of q1
    # Kept, the gain of b is -1, at rank 1 and in the ideal list at rank 2.
    kept = (gain - 1) / (1 - gain)
    assert actual == pytest.approx({"unjudged": (gain + 1) / 2, "keep": (kept + 1) / 2})
    assert json.loads(run(*arguments)[1])[0]["ndcg"] == actual["unjudged"]  # as of trec_eval
    for word, label in (("unjudged", None), ("keep", -1)):
        run("convert", *sources, "-o", long, "--negative", word, "--overwrite")
        assert pl.read_parquet(long).filter(query="q1", doc="b")["label"].item() == label
    alone = tmp_path / "judgments.parquet"
    assert run("convert", "-o", alone, "--judgments", qrels)[0] == 0
    assert pl.read_parquet(alone).columns == ["query", "doc", "label"]


def test_malformed_trec_file(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 a 1\nq1 0 b\n", "utf-8")
    code, _, err = run("convert", "-o", tmp_path / "out.parquet", "--judgments", tmp_path / "qrels")
    assert (code, [file.name for file in tmp_path.iterdir()]) == (2, ["qrels"])
    assert "line 2" in err


def test_all_metrics_are_listed() -> None:
    table = metric_names.list_metrics()
    assert table["metric"].to_list() == sorted(REGISTER)
    listed = table["aliases"].explode(empty_as_null=False).str.split(" = ").list.first()
    assert sorted(listed) == sorted(ALIASES)
    assert all(text.endswith(".") for text in table["definition"])
    code, out, _ = run("metrics", "--wide")
    assert code == 0
    assert len(out.splitlines()) == 1 + len(REGISTER)
    assert json.loads(run("metrics", "--format", "json")[1])[0]["metric"] == min(REGISTER)


def test_version() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out[0].isdigit()


def test_without_the_extra(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(name='click')", "utf-8")
    process = start("--version", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    _, err = process.communicate()
    assert process.returncode == 2
    assert "pip install 'polars_rank[cli]'" in err
    assert "Traceback" not in err


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "log.parquet"
    part = search_log(2_500, 20).collect()
    parts = (part.with_columns(pl.col("query") + 2_500 * number) for number in range(5))
    pl.concat(parts).sort("run", "query").write_parquet(path)  # half a million rows
    return path


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("layout", "sent"),
    [("sorted", "SIGTERM"), ("shuffled", "SIGINT"), ("shuffled", "SIGHUP")],
)
def test_signals(large_log: Path, tmp_path: Path, layout: str, sent: str) -> None:
    spill, output = tmp_path / "spill", tmp_path / "lists.parquet"
    spill.mkdir()
    process = start(
        "per-query",
        large_log,
        "--by",
        "run",
        "-o",
        output,
        "-m",
        "ndcg@10 ap rr",
        "--layout",
        layout,
        "--memory",
        "10MB",
        env={**os.environ, "TMPDIR": str(spill)},
        # A machine may run its tests with signals ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.Signals[sent], signal.SIG_DFL),
    )
    parts = [tmp_path, *([spill] if layout == "shuffled" else [])]
    while process.poll() is None and not all(_busy(folder) for folder in parts):
        time.sleep(0.01)
    process.send_signal(signal.Signals[sent])
    out, err = process.communicate(timeout=60)
    assert process.returncode == {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}[sent]
    assert (out, err) == ("", "Interrupted; nothing was written.\n")
    assert [file.name for file in tmp_path.iterdir()] == ["spill"]
    assert [*spill.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_ignored_hangup_is_ignored(log: Path, tmp_path: Path) -> None:
    """As by `nohup`."""
    process = start(
        "evaluate", log, "-m", "rr", "--by", "run", "--format", "json",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    while process.poll() is None:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert len(json.loads(out)) == 2


def _busy(folder: Path) -> bool:
    """Whether a run has begun to write its output or its temporary files."""
    return any(file.name.endswith(".part") for file in folder.iterdir()) or any(
        folder.glob("polars_rank.*/polars_rank.*/*")
    )
