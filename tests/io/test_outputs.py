"""Output files: they appear complete, keep their kind, and never replace an input."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.errors import SourceError

# All functions that write files use it.
from polars_rank.io.outputs import new_file

posix = pytest.mark.skipif(os.name != "posix", reason="files of POSIX")

LOG = pl.DataFrame(
    {"query": [1, 1, 2], "doc": [1, 2, 1], "score": [0.5, 0.9, 0.5], "label": [1, 0, 1]}
)


def write(path: Path | str, text: str, **options: object) -> None:
    with new_file(path, **options) as part:
        part.write_text(text, "utf-8")


@posix
def test_permissions_stay_and_the_incomplete_file_is_private(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("before", "utf-8")
    for mode in (0o600, 0o640, 0o444):
        file.chmod(mode)
        with new_file(file, overwrite=True) as part:
            assert stat.S_IMODE(part.stat().st_mode) == 0o600
            part.write_text(f"{mode}", "utf-8")
        assert (file.read_text("utf-8"), stat.S_IMODE(file.stat().st_mode)) == (f"{mode}", mode)
    write(tmp_path / "new", "text")
    (tmp_path / "plain").touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


@posix
def test_two_outputs_need_different_files(tmp_path: Path) -> None:
    """Otherwise, the second would replace the first."""
    file = tmp_path / "a"
    (tmp_path / "link").symlink_to(file)
    for overwrite in (False, True):
        with new_file(file, overwrite=overwrite) as part:
            part.write_text("first", "utf-8")
            for name in (file, tmp_path / "link", f"{tmp_path}/./a"):
                with pytest.raises(SourceError, match="is written twice; name different files"):
                    write(name, "second", overwrite=overwrite)
            write(tmp_path / f"b{overwrite}", "other")
    assert file.read_text("utf-8") == "first"
    write(file, "later", overwrite=True)
    assert file.read_text("utf-8") == "later"


@posix
def test_symbolic_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    file, link = tmp_path / "far" / "a", tmp_path / "link"
    link.symlink_to(file)
    for text in ("created", "replaced"):
        write(link, text, overwrite=text == "replaced")
        assert (link.readlink(), file.read_text("utf-8")) == (file, text)
    with pytest.raises(SourceError, match="link' already exists"):
        write(link, "refused")
    link.unlink()
    link.symlink_to(tmp_path / "none" / "a")
    with pytest.raises(SourceError, match="none' does not exist; create it first"):
        write(link, "lost")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "far", "link"]


@posix
def test_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_text("utf-8")), daemon=True)
    reader.start()
    verdicts = pl.DataFrame(
        {"rule": ["ap >= 0"], "where": [""], "verdict": ["pass"], "value": [1.0],
         "low": [0.5], "high": [1.5], "queries": [1], "reason": [None]}
    )  # fmt: skip
    pr.stats.write_markdown(verdicts, pipe)
    reader.join(timeout=60)
    assert pipe.is_fifo()
    assert read[0].endswith("| pass | ap >= 0 |  | 1 | [0.5, 1.5] | 1 |\n")
    assert list(tmp_path.iterdir()) == [pipe]


@posix
def test_open_files_of_the_process(tmp_path: Path) -> None:
    """With `> file`, several commands write to one open file one after another."""
    with (tmp_path / "log").open("ab") as file:
        write(f"/dev/fd/{file.fileno()}", "one\n")
        write(f"/dev/fd/{file.fileno()}", "two\n", overwrite=True)
    assert (tmp_path / "log").read_text("utf-8") == "one\ntwo\n"


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, message in (
        ("a\0b", "contains a null character"),
        ("x" * 300, "cannot write '.*x': File name too long; write to another folder"),
        ("file/a", "directory '.*file' does not exist"),
    ):
        with pytest.raises(SourceError, match=message):
            write(tmp_path / name, "lost")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    write(tmp_path / ("x" * 255), "text")
    assert (tmp_path / ("x" * 255)).read_text("utf-8") == "text"


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="sockets in folders")
def test_sockets_are_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(SourceError, match="'socket' is a directory or a device"):
            write("socket", "lost", overwrite=True)
    assert Path("socket").is_socket()


def test_inputs_that_cannot_be_read(tmp_path: Path) -> None:
    LOG.write_parquet(tmp_path / "log.parquet")
    log = pl.scan_parquet(tmp_path / "log.parquet")
    log.collect_schema()
    (tmp_path / "log.parquet").unlink()
    with pytest.raises(SourceError, match=r"cannot read the log: .*log\.parquet"):
        pr.trec.write_run(log, tmp_path / "a.run")
    assert not list(tmp_path.iterdir())


WRITERS: dict[str, Any] = {
    "report": lambda log, path: pr.report(log, "ap", path=path, overwrite=True),
    "write_run": lambda log, path: pr.trec.write_run(log, path, overwrite=True),
    "write_qrels": lambda log, path: pr.trec.write_qrels(log, path, overwrite=True),
}


@pytest.mark.parametrize(
    ("writer", "scan"),
    [("report", "polars_rank"), ("write_run", "polars"), ("write_qrels", "polars_rank")],
)
def test_inputs_are_never_replaced(tmp_path: Path, writer: str, scan: str) -> None:
    if writer == "report":
        pytest.importorskip("jinja2")
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    for number, file in enumerate(files):
        LOG.with_columns(query=pl.col("query") + 10 * number).write_parquet(file)
    log = pr.scan_log(tmp_path) if scan == "polars_rank" else pl.scan_parquet(files)
    before = files[2].read_bytes()
    (tmp_path / "link").symlink_to(files[2])
    for path in (files[2], tmp_path / "link"):
        with pytest.raises(SourceError, match=f"'{path}' is an input; write to another file"):
            WRITERS[writer](log, path)
    assert files[2].read_bytes() == before


def test_texts_are_inputs_too(tmp_path: Path) -> None:
    run = tmp_path / "a.run"
    run.write_text("1 Q0 a 1 0.5 x\n", "utf-8")
    with pytest.raises(SourceError, match=r"a\.run' is an input"):
        pr.trec.write_run(pr.scan_run(run), run, overwrite=True)
    pytest.importorskip("jinja2")
    rules = tmp_path / "rules.toml"
    rules.write_text('rules = ["ap >= 0"]\n', "utf-8")
    with pytest.raises(SourceError, match=r"rules\.toml' is an input"):
        pr.report(LOG, "ap", rules=rules, path=rules, overwrite=True)
