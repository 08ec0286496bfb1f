"""What only a process shows: signals, pipes, terminals, closed streams and encodings."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import needs
import polars as pl
import pytest

import polars_rank as pr

# The entry point of the program.
from polars_rank._pages import width

PROGRAM = [sys.executable, "-m", "polars_rank"]
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals and pipes of POSIX")
EVALUATE = ["evaluate", "log.parquet", "-m", "rr"]
LISTS = ["per-query", "log.parquet", "-m", "rr", "--run", ""]
LOG = pl.DataFrame({"query": ["a", "文書"], "doc": 1, "score": 1.0, "label": [1, 0], "run": "bm25"})


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    LOG.write_parquet("log.parquet")


def start(*words: object, **options: Any) -> subprocess.Popen[str]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*PROGRAM, *map(str, words)], encoding="utf-8", **pipes)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def test_a_program_that_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError(name='click')", "utf-8")
    # Errors before the program handles errors itself.
    program = """if True:
    import sys, tempfile, types
    from polars_rank.cli.main import main
    def app(**_): raise error
    sys.modules["polars_rank.cli.program"] = types.SimpleNamespace(app=app)
    for error in (MemoryError(), SystemError("x"), SystemExit(2), None):
        tempfile.tempdir = None
        if error is None:
            del sys.modules["polars_rank.cli.program"]
        try:
            main()
        except SystemExit as end:
            print(end.code)
    """
    folders = os.pathsep.join([str(tmp_path), str(Path(pr.__file__).parents[1])])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": folders},
    )  # fmt: skip
    assert done.stdout.split() == ["2"] * 4
    *errors, extra = done.stderr.splitlines()
    assert errors == ["Error: MemoryError", "Error: x"]
    assert "pip install 'polars_rank[cli]'" in extra


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "log.parquet"
    part = pr.datasets.search_log(2_500, 20).collect()
    parts = (part.with_columns(pl.col("query") + 2_500 * number) for number in range(5))
    pl.concat(parts).sort("run", "query").write_parquet(path)  # half a million rows
    return path


@POSIX
@pytest.mark.parametrize(
    ("layout", "sent", "code"),
    [("sorted", "SIGTERM", 143), ("shuffled", "SIGINT", 130), ("shuffled", "SIGHUP", 129)],
)
def test_signals(large_log: Path, tmp_path: Path, layout: str, sent: str, code: int) -> None:
    spill, output = tmp_path / "spill", tmp_path / "out"
    spill.mkdir()
    output.mkdir()
    process = start(
        "per-query", large_log, "--by", "run", "-o", output / "lists.parquet",
        "-m", "ndcg@10 ap rr", "--layout", layout, "--memory", "10MB",
        env={**os.environ, "TMPDIR": str(spill)},
        # A machine may run its tests with signals ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.Signals[sent], signal.SIG_DFL),
    )  # fmt: skip

    def is_busy(folder: Path) -> bool:
        """Whether the run has begun to write its output or its temporary files."""
        files = [*folder.glob("*.part"), *folder.glob("polars_rank.*/polars_rank.*/*")]
        return bool(files)

    folders = [output, *([spill] if layout == "shuffled" else [])]
    while process.poll() is None and not all(map(is_busy, folders)):
        time.sleep(0.01)
    process.send_signal(signal.Signals[sent])
    assert ended(process) == (code, "", "Interrupted; nothing was written.\n")
    assert ([*output.iterdir()], [*spill.iterdir()]) == ([], [])


@POSIX
def test_an_ignored_hangup_is_ignored() -> None:
    """As by `nohup`."""
    ignore = {"preexec_fn": lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)}
    process = start(*EVALUATE, "--format", "csv", **ignore)
    while process.poll() is None:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    assert ended(process) == (0, "run,queries,rr\nbm25,2,0.5\n", "")


@POSIX
def test_standard_input_in_a_pipe() -> None:
    """It is read once and copied; other pipes are not read."""
    Path("qrels").write_text("1 0 a 1\n", "utf-8")
    Path("run").write_text("1 Q0 a 1 2 x\n", "utf-8")
    command = f"{sys.executable} -m polars_rank evaluate -m rr --format csv"
    script = f"cat run | {command} - --judgments qrels; {command} run --judgments <(cat qrels)"
    done = subprocess.run(["bash", "-c", script], capture_output=True, encoding="utf-8")
    assert (done.returncode, done.stdout) == (2, "run,queries,rr\nx,1,1.0\n")
    assert re.search("is a pipe or a device.*standard input", done.stderr)


def test_text_is_utf_8_in_every_locale() -> None:
    """As a scheduler runs it: no input, a plain locale, nothing in the environment."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    plain = {**kept, "LC_ALL": "C", "PYTHONIOENCODING": "cp1252"}  # which has no α
    done = start("explain", "alpha_ndcg@10", env=plain, stdin=subprocess.DEVNULL)
    assert ended(done) == (0, pr.explain("alpha_ndcg@10") + "\n", "")
    assert "α" in pr.explain("alpha_ndcg@10")
    code, out, err = ended(start("evaluate", "文書.parquet", "-m", "rr", env=plain))
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_terminal_of_a_process() -> None:
    """Its width is that of the system, and letters that it does not have are question marks."""
    pty = pytest.importorskip("pty", reason="terminals of POSIX")
    import fcntl
    import struct
    import termios

    LOG.with_columns(pl.col("query") + "long" * 30).write_parquet("log.parquet")
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 60, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    env |= {"TERM": "xterm", "NO_COLOR": "1", "PYTHONIOENCODING": "latin-1"}
    process = start(*LISTS, stdout=there, stderr=subprocess.DEVNULL, stdin=there, env=env)
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
    assert process.wait(timeout=60) == 0
    shown = re.sub(r"\x1b\[[0-9;]*m", "", b"".join(parts).decode())
    assert max(map(width, shown.split("\r\n"))) <= 60
    assert (shown.count("1.0000"), "??" in shown) == (1, True), shown


@POSIX
def test_a_pipe_that_is_closed_early() -> None:
    """As by `| head -1`: quietly, and not as if a check had failed."""
    # Ids that no format compresses are more than a pipe holds, so that the writer has to wait for
    # the reader, which closes it: of less, the writer may be done before.
    query = pl.int_range(30_000, eager=True).hash(seed=1)
    LOG.head(1).drop("query").join(query.to_frame("query"), how="cross").write_parquet(
        "log.parquet"
    )
    default = {"preexec_fn": lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL)}
    started = start(*LISTS, "--format", "csv", **default)
    assert started.stdout is not None
    assert started.stderr is not None
    assert started.stdout.read(1)
    started.stdout.close()
    with started.stderr as told:
        assert (told.read(), started.wait(timeout=60)) == ("", 141)
    reads, writes = os.pipe()
    os.close(reads)
    process = start("evaluate", "--help", stdout=writes)
    os.close(writes)
    assert ended(process)[::2] == (141, "")


@POSIX
def test_standard_streams_that_are_closed() -> None:
    """Nothing is lost without an error, and no file of the command takes their numbers."""
    program = f"{sys.executable} -m polars_rank"
    evaluate = " ".join([program, *EVALUATE])
    closed = (2, "", "Error: cannot write to standard output: it is closed\n")
    endings = {
        f"{evaluate} >&-": closed,
        f"{program} --version >&-": closed,
        f"{evaluate} -o rr.csv <&- >&- 2>&-": (0, "", ""),
    }
    for line, expected in endings.items():
        done = subprocess.run(line, shell=True, capture_output=True, encoding="utf-8")
        assert (done.returncode, done.stdout, done.stderr) == expected
    assert pl.read_csv("rr.csv").rows() == [("bm25", 2, 0.5)]


def test_a_full_disk_behind_standard_output(tmp_path: Path) -> None:
    with needs.full_device(tmp_path).open("wb") as full:
        code, _, err = ended(start(*LISTS, stdout=full))
    error = "Error: cannot write to standard output: No space left on device\n"
    assert (code, err) == (2, error)
