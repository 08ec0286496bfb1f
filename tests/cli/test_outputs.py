"""Outputs of commands: all formats, terminals of any width, pipes, and errors."""

from __future__ import annotations

import io
import json
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import needs
import polars as pl
import pytest
from commands import invoke, on_terminal, run
from polars.testing import assert_frame_equal

import polars_rank as pr
from polars_rank._pages import width
from polars_rank.cli.writing import json_rows, put

LONG = "https://example.org/" + "path/" * 30 + "end"
IDS = ["a|b", "x\ty\x1b[31m", "文書", LONG, "[bold]id[/bold]", "\\sum_{i}^2 & 5%"]
LOG = pl.DataFrame(
    {"query": IDS, "doc": 1, "score": 1.0, "label": [1, 0, 1, 1, 1, 1]}
).with_columns(run=pl.lit("bm25"))
LISTS = ["per-query", "log.parquet", "-m", "rr p@1", "--run", ""]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    LOG.write_parquet("log.parquet")
    return tmp_path


def process(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "polars_rank", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, timeout=120, **options,
    )  # fmt: skip


READERS = {
    "csv": pl.read_csv,
    "json": pl.read_json,
    "ndjson": pl.read_ndjson,
    "parquet": pl.read_parquet,
}


def test_text_in_a_pipe_is_utf_8_in_every_locale() -> None:
    """Windows has an encoding without α for files and pipes."""
    done = process("explain", "alpha_ndcg@10", env={**os.environ, "PYTHONIOENCODING": "cp1252"})
    assert done.stdout.decode("utf-8") == pr.explain("alpha_ndcg@10") + "\n"
    assert "α-NDCG" in done.stdout.decode("utf-8")


@pytest.mark.parametrize("form", READERS)
def test_data_is_the_same_in_pipes_and_files(here: Path, form: str) -> None:
    expected = pr.per_query(LOG, ["rr", "p@1"], run=None).sort("query")
    done = invoke(*LISTS, "--format", form)
    assert (done.exit_code, done.stderr) == (0, "")
    assert_frame_equal(READERS[form](io.BytesIO(done.stdout_bytes)).sort("query"), expected)
    assert run(*LISTS, "-o", f"out.{form}")[0] == 0
    assert Path(f"out.{form}").read_bytes() == done.stdout_bytes


def test_infinite_numbers_are_not_null(here: Path) -> None:
    table = pl.DataFrame({"x": [-math.inf, None, 0.5]})
    for form in ("json", "ndjson", "csv"):
        put(table.lazy(), form, {"output": f"out.{form}"}, {"json": json_rows})
    rows = [{"x": "-Infinity"}, {"x": None}, {"x": 0.5}]
    assert json.loads(Path("out.json").read_text("utf-8")) == rows
    assert [json.loads(line) for line in Path("out.ndjson").read_text("utf-8").splitlines()] == rows
    assert pl.read_csv("out.csv")["x"].to_list() == [-math.inf, None, 0.5]
    lists = ["per-query", "log.parquet", "-m", "rr", "--format", "json"]
    lists += ["--undefined", "null"]
    assert [row["rr"] for row in json.loads(run(*lists)[1])].count(None) == 1


def test_ids_stay_text(here: Path) -> None:
    """Nothing in an id moves a cursor, opens a tag, or ends a cell."""
    _, out, _ = run(*LISTS)
    lines = out.splitlines()
    assert len(lines) == 1 + len(IDS)
    assert "\x1b" not in out
    assert r"x\ty\x1b[31m" in out
    assert "[bold]id[/bold]" in out
    assert LONG in out
    # Numbers stand below each other, whatever the width of the letters before them.
    assert len({width(line) for line in lines if not line.endswith("rr  p@1")}) <= 2
    assert len({width(line[: line.rindex("  ")]) for line in lines[1:]}) == 1


def test_markdown(here: Path) -> None:
    _, out, _ = run(*LISTS, "--format", "markdown")
    head, rule, *rows = out.splitlines()
    assert (head, rule) == ("| query | rr | p@1 |", "| --- | ---: | ---: |")
    assert r"| a\|b | 1.0000 | 1.0000 |" in rows
    assert all(row.replace(r"\|", "").count("|") == 4 for row in rows)
    assert run(*LISTS, "-o", "t.md")[0] == 0
    assert Path("t.md").read_text("utf-8") == out


def test_relative_intervals_of_a_margin_in_percent(here: Path) -> None:
    values = pl.DataFrame({
        "run": ["old"] * 4 + ["new"] * 4, "query": [0, 1, 2, 3] * 2,
        "rr": [0.5, 0.4, 0.6, 0.5, 0.6, 0.6, 0.7, 0.7],
    })  # fmt: skip
    values.write_parquet("values.parquet")
    low, high = (
        pr.compare(values, baseline="old", margin="2%").select("relative_low", "relative_high")
    ).row(0)  # fmt: skip
    compare = ["compare", "--values", "values.parquet", "--baseline", "old", "--margin", "2%"]
    head, row = run(*compare, "--wide")[1].splitlines()
    assert "relative [low, high]" in head
    assert f"[{low:+.1%}, {high:+.1%}]" in row


def test_counts_among_verdicts_have_no_decimals(here: Path) -> None:
    rules = [each for rule in ("queries >= 30", "rr >= 1") for each in ("--rule", rule)]
    _, out, _ = run("check", "log.parquet", *rules)
    assert [line.split()[3:-1] for line in out.splitlines()[1:]] == [
        ["run=bm25", "6"], ["run=bm25", "0.8333", "[0.3588,", "0.9958]"]
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_terminal_of_a_process(here: Path, encoding: str) -> None:
    """The width of a terminal is that of the system, where no variable says it.

    Letters that the terminal does not have are question marks.
    """
    pty = pytest.importorskip("pty", reason="terminals of POSIX")
    import fcntl
    import struct
    import termios

    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    started = subprocess.Popen(
        [sys.executable, "-m", "polars_rank", *LISTS], stdout=there,
        stderr=subprocess.DEVNULL, stdin=there,
        env={**env, "TERM": "xterm", "NO_COLOR": "1", "PYTHONIOENCODING": encoding},
    )  # fmt: skip
    os.close(there)
    parts = []
    while True:
        try:
            part = os.read(here, 1 << 16)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        parts.append(part)
    os.close(here)
    assert started.wait(timeout=60) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", b"".join(parts).decode())
    assert max(map(width, shown.split("\r\n"))) <= 60
    assert shown.count("1.0000") == 2 * 5


@pytest.mark.parametrize("columns", [60, 260])
def test_text_is_shortened_but_not_numbers(
    here: Path, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    shown = on_terminal(monkeypatch, columns, *LISTS)
    assert (LONG in shown, "https://exam" in shown) == (columns == 260, True)
    assert "[bold]id[/bold]" in shown
    lines = shown.splitlines()
    heads = 2 if columns == 60 else 1  # the cutoff is below its metric
    assert len(lines) == heads + len(IDS) and max(map(width, lines)) <= columns
    assert shown.count("1.0000") == 2 * 5
    assert LONG in on_terminal(monkeypatch, 60, *LISTS, "--wide")


def test_a_comparison_shows_its_first_columns(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal and in a pipe; with --wide, a table has all columns."""
    pr.datasets.search_log(40, runs=["bm25", "neural"]).sink_parquet("runs.parquet")
    options = ["compare", "runs.parquet", "-m", "ndcg@10", "--baseline", "bm25"]
    for columns in (80, 300):
        head, row, below, hint = on_terminal(monkeypatch, columns, *options).splitlines()
        names = ["metric", "run", "mean", "difference", "[low, high]", "p_value", "verdict"]
        assert re.split(r"\s{2,}", head) == [*names, "method"]
        assert below == "40 queries; intervals and p-values are not corrected"
        assert row.startswith("ndcg@10  neural  0.") and len(row) <= 80
        assert re.fullmatch(r"\d+ columns hidden; use --wide to show all columns.", hint)
    monkeypatch.undo()
    monkeypatch.chdir(here)
    assert run(*options)[1].splitlines() == [head, row, below]
    assert "baseline_mean" in run(*options, "--wide")[1]


@pytest.mark.parametrize("column", ["system", "retriever_and_reranker"])
def test_a_comparison_fits_whatever_the_column_of_the_run_is_called(
    here: Path, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    log = pr.datasets.search_log(40, runs=["bm25", "neural"]).rename({"run": column})
    log.sink_parquet("runs.parquet")
    options = ["compare", "runs.parquet", "-m", "ndcg@10", "--baseline", "bm25", "--run", column]
    assert max(map(len, run(*options)[1].splitlines())) <= 80 or len(column) > 6
    for more in [], ["--slices", "country"]:
        shown = on_terminal(monkeypatch, 80, *options, *more)
        assert "[low, high]" in shown
        assert max(map(len, shown.splitlines())) <= 80


def test_a_column_of_the_log_may_have_the_name_of_a_result_column(here: Path) -> None:
    """What a table leaves out depends on the command."""
    LOG.with_columns(metric=1, queries=1, wins=3).write_parquet("log.parquet")
    by = "metric run wins"
    _, out, _ = run("evaluate", "log.parquet", "-m", "rr", "--by", by)
    assert out.split() == [
        "metric",
        "run",
        "wins",
        "queries",
        "rr",
        "1",
        "bm25",
        "3",
        "6",
        "0.8333",
    ]


@pytest.mark.parametrize("command", ["metrics novelty", "inspect log.parquet"])
def test_tables_of_text_fold_to_80_columns_in_pipes(here: Path, command: str) -> None:
    _, out, _ = run(*command.split())
    lines = [line for line in out.splitlines() if not line.startswith("Next")]
    assert max(map(width, lines)) <= 80
    assert "…" not in out
    assert max(map(width, run(*command.split(), "--wide")[1].splitlines())) > 80


def test_passes_are_one_line(here: Path) -> None:
    rules = ["--rule", "rr >= 0", "--rule", "rr >= 2", "--rule", "queries > 1"]
    check = ["check", "log.parquet", "-m", "rr", *rules]
    _, out, _ = run(*check)
    assert [line.split("  ")[0] for line in out.splitlines()] == ["rule", "rr >= 2", "2 pass"]
    assert len(run(*check, "--wide")[1].splitlines()) == 1 + 3


def test_metrics_are_filtered(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pl.read_csv(run("metrics", "reciprocal rank", "--format", "csv")[1].encode())
    assert 0 < table.height < pr.list_metrics().height
    assert "reciprocal_rank" in table["metric"].to_list()
    code, _, err = run("metrics", "ndgc")
    assert (code, "no metric contains 'ndgc'. Did you mean 'ndcg'" in err) == (2, True)
    assert "rbp" in on_terminal(monkeypatch, 200, "metrics", "rank-biased precision")


def test_parquet_is_not_printed_in_terminals(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", type("", (io.StringIO,), {"isatty": lambda self: True})())
    from polars_rank.cli.writing import choose

    with pytest.raises(pr.errors.ArgumentError, match="pipe it, or use --output"):
        choose("parquet", None)


def test_without_a_terminal_at_all(here: Path) -> None:
    """As a scheduler runs it: no input, a plain locale, nothing in the environment."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    # Text that is written for a terminal of another encoding is whole.
    plain = {"env": {**kept, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}}
    done = process(*LISTS, **plain, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "文書" in done.stdout.decode("utf-8")
    done = process("evaluate", "文書.parquet", "-m", "rr", **plain)
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1)


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_pipe_that_is_closed_early(here: Path, form: str) -> None:
    """As by `| head -1`: quietly, and not as if a check had failed."""
    # Ids that no format compresses are more than a pipe holds, so that the writer has to wait for
    # the reader, which closes it: of less, the writer may be done before.
    query = pl.int_range(30_000, eager=True).hash(seed=1)
    many = pl.DataFrame({"query": query}).with_columns(doc=1, score=1.0, label=1)
    many.write_parquet("many.parquet")
    started = subprocess.Popen(
        [sys.executable, "-m", "polars_rank", "per-query", "many.parquet", "-m", "rr",
         "--format", form],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    )  # fmt: skip
    assert started.stdout is not None
    assert started.stderr is not None
    assert started.stdout.read(1)
    started.stdout.close()
    with started.stderr as told:
        assert (told.read(), started.wait(timeout=60)) == (b"", 141)


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_help_into_a_pipe_that_is_closed() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "polars_rank", "evaluate", "--help"],
        stdout=writes, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, b"")


def test_debug_shows_where_an_error_comes_from(here: Path) -> None:
    wrong = ["evaluate", "log.parquet", "-m", "ndgc"]
    code, out, err = run(*wrong)
    assert (code, out, err.count("\n")) == (2, "", 1)
    code, out, debugged = run("--debug", *wrong)
    assert (code, out) == (2, "")
    assert debugged.startswith("Traceback")
    assert debugged.endswith(err)


def test_internal_errors_are_reported_as_such(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("polars_rank.cli.calls.public", lambda _: fail)
    code, out, err = run("evaluate", "log.parquet", "-m", "rr")
    assert (code, out) == (2, "")
    assert err == (
        "Error: internal error: ZeroDivisionError: division by zero; please report it with the "
        "output of --debug\n"
    )


def test_runs_with_different_documents_are_reported(here: Path) -> None:
    log = pl.DataFrame({
        "query": 1, "doc": [1, 2], "model": ["a", "b"], "score": [2, 1], "label": 1
    })  # fmt: skip
    log.write_csv("log.csv")
    code, _, err = run("evaluate", "log.csv", "-m", "ap")
    expected = (0, True, True)
    assert (code, "values of the column 'model'" in err, "pass --run model" in err) == expected
    assert run("evaluate", "log.csv", "-m", "ap", "--run", "model")[::2] == (0, "")


def test_the_same_warning_is_given_once(here: Path) -> None:
    """Polars runs a plan in parts, each of which may find the same."""
    log = pr.datasets.search_log(3_000).rename({"run": "model"}).drop("doc")
    log.sink_parquet("log.parquet")
    code, out, err = run("summarize", "log.parquet", "-m", "rr")
    assert (code, err.count("\n")) == (0, 1)
    assert "if it identifies rankings, pass --run model; if not, drop or rename it; as in" in err


def test_rows_in_messages_are_unchanged(here: Path) -> None:
    """Values of the log are no parameters."""
    row = LOG.head(1).with_columns(query=pl.lit("of `label` or `score`"))
    row.with_columns(label=pl.lit(math.nan)).write_parquet("log.parquet")
    code, _, err = run("evaluate", "log.parquet", "-m", "rr")
    assert code == 2
    assert "1 of 1 row: column 'label' (`--label`) has NaN or infinite values" in err
    assert "of `label` or `score`" in err


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_output_to_special_files(here: Path) -> None:
    """Standard output by its name, and a pipe, as those that a shell gives for >(...)."""
    done = invoke(*LISTS, "--format", "csv", "-o", "-")
    assert (done.exit_code, done.stdout) == (0, run(*LISTS, "--format", "csv")[1])
    assert not Path("-").exists()
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    assert run(*LISTS, "--format", "csv", "-o", "pipe")[0] == 0
    assert reader.communicate()[0] == done.stdout_bytes
    assert Path("pipe").is_fifo()


def completed(environment: dict[str, str]) -> str:
    return invoke(env=environment).stdout


def test_completion(here: Path) -> None:
    """For three shells."""
    for shell in ("bash", "zsh", "fish"):
        assert "polars-rank" in completed({"_POLARS_RANK_COMPLETE": f"{shell}_source"})
    line = {"_POLARS_RANK_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    words = "polars-rank evaluate --ties wor"
    assert "plain,worst" in completed({**line, "COMP_WORDS": words}).split()


def test_exit_codes_are_those_of_the_help() -> None:
    from polars_rank import cli

    _, shown, _ = run("--help")
    text = " ".join(shown.split())
    for code in (cli.FAILED, cli.MISUSED, cli.INTERRUPTED, cli.BROKEN_PIPE, 143):
        assert f" {code} " in text


@pytest.mark.skipif(os.name != "posix", reason="descriptors of POSIX")
def test_standard_streams_that_are_closed(here: Path) -> None:
    """Nothing is lost without an error, and no file of the command takes their numbers."""
    program = f"{sys.executable} -m polars_rank"
    evaluate = f"{program} evaluate log.parquet -m rr"
    written = "Error: cannot write to standard output"
    endings = {
        f"{evaluate} >&-": (2, f"{written}: it is closed\n"),
        f"{evaluate} -o rr.csv <&- >&- 2>&-": (0, ""),
        f"{program} --version >&-": (2, f"{written}: it is closed\n"),
        f"{program} evaluate - -m rr <&-": (
            2, "Error: standard input (-) is closed or a terminal; pipe a file into it\n"
        ),
    }  # fmt: skip
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    started = [subprocess.Popen(each, shell=True, encoding="utf-8", **pipes) for each in endings]
    ended = [(each.communicate(timeout=120), each.returncode) for each in started]
    assert [(code, out, err) for (out, err), code in ended] == [
        (code, "", err) for code, err in endings.values()
    ]
    assert pl.read_csv("rr.csv").rows() == [("bm25", 6, 5 / 6)]


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps working folders")
def test_a_working_folder_that_was_deleted(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "folder").mkdir()
    monkeypatch.chdir(here / "folder")
    (here / "folder").rmdir()
    evaluate = ["evaluate", here / "log.parquet", "-m", "rr", "--format", "csv"]
    assert run(*evaluate) == (0, f"run,queries,rr\nbm25,6,{5 / 6}\n", "")
    assert run(*evaluate, "-o", here / "rr.csv")[0] == 0
    code, out, err = run(*evaluate, "-o", "rr.csv")
    problem = "Error: cannot write 'rr.csv': No such file or directory; write to another folder\n"
    assert (code, out, err) == (2, "", problem)
    assert (
        run("evaluate", "log.parquet", "-m", "rr")[2]
        == "Error: file or directory 'log.parquet' not found\n"
    )


def test_a_full_disk_behind_standard_output(here: Path) -> None:
    with needs.full_device(here).open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "polars_rank", *LISTS],
            stdout=full, stderr=subprocess.PIPE, encoding="utf-8", check=False,
        )  # fmt: skip
    error = "Error: cannot write to standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, error)


@pytest.mark.parametrize(
    "outputs", [("--junit", "--markdown"), ("--junit", "-o"), ("--markdown", "-o")]
)
def test_reports_of_check_need_different_files(here: Path, outputs: tuple[str, str]) -> None:
    files = [word for option in outputs for word in (option, "out.md")]
    code, _, err = run(
        "check", "log.parquet", "-m", "rr", "--rule", "rr >= 2", *files, "--overwrite"
    )
    assert code == 2
    assert "'out.md' is written twice; name different files" in err
    assert not Path("out.md").exists()


def test_reports_of_check_replace_no_conventions(here: Path) -> None:
    Path("mine.toml").write_text('base = "trec_eval"', "utf-8")
    check = ["check", "log.parquet", "-m", "rr", "--rule", "rr >= 2", "--conventions", "mine.toml"]
    code, _, err = run(*check, "--junit", "mine.toml", "--overwrite")
    assert code == 2
    assert "'mine.toml' is an input" in err
    assert Path("mine.toml").read_text("utf-8") == 'base = "trec_eval"'


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_reports_of_a_gate_in_pipes(here: Path) -> None:
    os.mkfifo("pipe")
    read: list[str] = []
    reader = Thread(target=lambda: read.append(Path("pipe").read_text("utf-8")), daemon=True)
    reader.start()
    gate = ["check", "log.parquet", "-m", "rr", "--rule", "rr >= 0", "-o", "gate.csv"]
    assert run(*gate, "--junit", "pipe")[0] == 0
    reader.join(timeout=60)
    assert read[0].endswith("</testsuites>")
    assert Path("pipe").is_fifo()


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_an_output_whose_reader_has_closed_it(here: Path) -> None:
    # More than a pipe holds, so that the command has to wait for the reader.
    rows = {"query": range(50_000), "doc": 1, "score": 1.0, "label": 1}
    pl.DataFrame(rows).write_parquet("log.parquet")
    os.mkfifo("pipe")
    Thread(target=lambda: Path("pipe").open("rb").close(), daemon=True).start()
    code, out, err = run(*LISTS, "--format", "csv", "-o", "pipe")
    assert (code, out, err) == (141, "", "")


def broken(_: pl.DataFrame) -> pl.DataFrame:
    raise ValueError("broken")


@pytest.mark.parametrize("form", ["parquet", "csv", "ndjson"])
def test_failed_plans_leave_no_file(tmp_path: Path, form: Any) -> None:
    """Polars may create the file of a sink after its plan failed, if the sink gets a path."""
    plan = pl.LazyFrame({"a": [1]}).map_batches(broken, schema={"a": pl.Int64}, streamable=True)
    for _ in range(30):
        with pytest.raises(ValueError, match="broken"):
            put(plan, form, {"output": tmp_path / "out"}, {})
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("to_file", [False, True])
def test_text_that_spreadsheets_run_is_prefixed_in_csv(here: Path, to_file: bool) -> None:
    runs = ["=HYPERLINK(1)", "+a", "-a", "@a", "-1.5", "a=b"]
    log = pl.DataFrame({"=run": runs, "query": 1, "doc": "a", "score": 1.0, "label": 1})
    log.cast({"=run": pl.Categorical}).write_parquet("runs.parquet")
    command = ["evaluate", "runs.parquet", "-m", "rr", "--by", "=run", "--format", "csv"]

    def written(*options: str) -> list[str]:
        _, out, _ = run(*command, *options, *(["-o", "out.csv", "--overwrite"] if to_file else []))
        text = Path("out.csv").read_text("utf-8") if to_file else out
        return sorted(line.removesuffix(",1,1.0") for line in text.splitlines())

    prefixed = ["'=HYPERLINK(1)", "'+a", "'-a", "'@a", "-1.5", "a=b"]
    assert written() == sorted([*prefixed, "'=run,queries,rr"])
    assert written("--keep-formulas") == sorted([*runs, "=run,queries,rr"])
