"""Names of inputs: pipes, names that no file can have, and files of web servers."""

from __future__ import annotations

import gc
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.errors import ArgumentError, SourceError
from servers import serving

LOG = pl.DataFrame(
    {"query": [1, 1, 2], "doc": ["a", "b", "a"], "score": [0.5, 0.9, 0.5], "label": [1, 0, 1]}
)
# RR of the queries: 1/2, 1.
RR = (1 / 2 + 1) / 2
RUN = "".join(f"{q} Q0 {d} 1 {s} mine\n" for q, d, s, _ in LOG.rows()).encode()
QRELS = "".join(f"{q} 0 {d} {label}\n" for q, d, _, label in LOG.rows()).encode()


def parquet(table: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    return buffer.getvalue()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, which must have no copies after the tables are deleted."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    if list(folder.iterdir()):
        gc.collect()
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_pipes_are_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "run.txt"
    os.mkfifo(fifo)
    for read in (pr.scan_log, pr.scan_run, pr.scan_judgments):
        for name in (fifo, tmp_path / "*.txt"):
            with pytest.raises(SourceError, match=r"run\.txt' is a pipe or a device.*write a file"):
                read(name)


READERS = {
    "scan_log": pr.scan_log,
    "scan_run": pr.scan_run,
    "check": lambda path: pr.check(pl.DataFrame({"metric": ["ap"], "queries": [1]}), path),
}


@pytest.mark.parametrize("reader", READERS)
def test_names_that_no_file_can_have(tmp_path: Path, reader: str) -> None:
    for name in ("a\0", "a\0/*.parquet", "~\0"):
        with pytest.raises(SourceError, match="contains a null character"):
            READERS[reader](name)
    with pytest.raises(SourceError, match="cannot read .*: .*File name too long"):
        READERS[reader](str(tmp_path / ("x" * 300)))


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    files = {
        "log.parquet": parquet(LOG),
        "run.txt": RUN,
        "golden.csv": LOG.write_csv().encode(),
        "golden.jsonl": LOG.write_ndjson().encode(),
    }
    with serving(files) as root:
        yield root


def test_files_of_web_servers(root: str) -> None:
    for name in ("log.parquet", "log.parquet?version=1"):
        log = pr.scan_log(f"{root}/{name}")
        assert pr.evaluate(log, "rr").collect()["rr"].item() == RR
    assert pr.scan_run(f"{root}/run.txt").collect().height == LOG.height
    for name in ("golden.csv", "golden.jsonl"):
        found = pr.scan_judgments(f"{root}/{name}").collect()
        assert found["label"].to_list() == LOG["label"].to_list()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/400", "the server answered 400 Bad Request; check the URL"),
        ("/403", "access is denied; check the key"),
        ("/404", "object '404' not found; check the path|404 Not Found; check the URL"),
        ("9999/a", "the URL is invalid; check the name of the server and the port"),
    ],
)
def test_web_servers_that_do_not_send_the_file(root: str, path: str, message: str) -> None:
    for read in (pr.scan_log, lambda url: pr.evaluate(pl.scan_parquet(url), "rr")):
        with pytest.raises(SourceError, match=message):
            read(root + path)


def test_web_servers_are_not_written(root: str) -> None:
    with pytest.raises(SourceError, match=f"cannot write '{root}/a': only local files are"):
        pr.trec.write_run(LOG, f"{root}/a", overwrite=True)


def test_options_that_are_no_mapping(root: str) -> None:
    with pytest.raises(ArgumentError, match="`storage_options` must be a mapping"):
        pr.scan_log(f"{root}/log.parquet", storage_options="key")
