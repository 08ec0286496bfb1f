"""Inputs that can be read only once: pipes, and files of web servers."""

from __future__ import annotations

import gc
import io
import os
import tempfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.errors import ArgumentError, SourceError

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


@pytest.fixture
def pipe() -> Iterator[Any]:
    """A function that returns a pipe with some content, as a shell does for <(...)."""
    ends = []

    def pipe_of(content: bytes) -> str:
        end, other = os.pipe()
        ends.append(end)
        with os.fdopen(other, "wb") as writer:
            writer.write(content)
        return f"/dev/fd/{end}"

    yield pipe_of
    for end in ends:
        os.close(end)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, which must have no copies after the tables are deleted."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    gc.collect()
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names of open files")
def test_pipes_are_read_once(pipe: Any) -> None:
    run, qrels = pr.scan_run(pipe(RUN)), pr.scan_judgments(pipe(QRELS))
    for _ in range(2):
        table = pr.join_judgments(run, qrels)
        assert pr.evaluate(table, "rr").collect()["rr"].item() == RR
    log = pr.scan_log(pipe(parquet(LOG)))
    for _ in range(2):
        assert pr.evaluate(log, "rr").collect()["rr"].item() == RR


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
def test_named_pipes(tmp_path: Path) -> None:
    fifo = tmp_path / "run.txt"
    os.mkfifo(fifo)
    Thread(target=fifo.write_bytes, args=[RUN], daemon=True).start()
    assert pr.scan_run(tmp_path / "*.txt").collect().height == LOG.height
    Thread(target=fifo.write_bytes, args=[b""], daemon=True).start()
    with pytest.raises(SourceError, match=r"run\.txt is empty; check the program that writes"):
        pr.scan_run(fifo)


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names of open files")
def test_errors_name_the_pipe(pipe: Any) -> None:
    run = pr.scan_run(path := pipe(b"1 Q0 a 1 2 mine\n1 Q0 b 2 high mine\n"))
    with pytest.raises(pr.errors.DataError, match=f"line 2 of {path} must be"):
        run.collect()
    with pytest.raises(SourceError, match="cannot read '/dev/fd/.*' as Parquet"):
        pr.scan_log(pipe(RUN))


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


class Server(BaseHTTPRequestHandler):
    """Responds with the status in the path; counts requests and stores their headers."""

    files = {"/log.parquet": parquet(LOG), "/ru%20n.txt": RUN, "/moved": RUN}
    requests: list[dict[str, str]] = []
    stop = Event()

    def do_GET(self) -> None:
        self.requests.append(dict(self.headers))
        path = self.path.partition("?")[0]
        kind, _, rest = path.strip("/").partition("/")
        if path in self.files:
            return self.answer(200, self.files[path])
        if kind == "silent":  # before or after the first bytes of the answer
            if rest:
                self.answer(200, RUN[:9], len(RUN))
            self.stop.wait()
            return None
        if kind == "short":
            return self.answer(200, RUN[:9], len(RUN))
        if kind == "once" and len(self.requests) > 1:
            return self.answer(200, RUN)
        self.send_response(503 if kind == "once" else int(kind))
        if rest:
            self.send_header("Location", f"/{rest}")
        self.send_header("Content-Length", "0")
        return self.end_headers()

    def answer(self, status: int, body: bytes, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length or len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def root() -> Iterator[str]:
    Server.requests.clear()
    Server.stop.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    server.daemon_threads = True
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    Server.stop.set()
    server.shutdown()
    server.server_close()


QUICK = {"read_timeout": "200ms", "max_retries": 1, "retry_init_backoff_ms": 1}


def test_files_of_web_servers(root: str) -> None:
    log = pr.scan_log(f"{root}/log.parquet?version=1")
    for _ in range(2):
        assert pr.evaluate(log, "rr").collect()["rr"].item() == RR
    assert len(Server.requests) == 1
    assert pr.scan_run(f"{root}/ru n.txt").collect().height == LOG.height
    assert pr.scan_run(f"{root}/301/moved").collect().height == LOG.height
    assert pr.scan_run(f"{root}/once").collect().height == LOG.height


def test_headers_of_the_request(root: str) -> None:
    options = {**QUICK, "Authorization": "Bearer key"}
    pr.scan_log(f"{root}/301/log.parquet", storage_options=options)
    asked, redirected = Server.requests
    assert asked["Authorization"] == "Bearer key"
    assert "Authorization" not in redirected  # the target may be another server
    assert not any("retr" in name or "timeout" in name for name in asked)
    pr.scan_log(f"{root.replace('//', '//me:secret@')}/log.parquet")
    assert Server.requests[-1]["Authorization"] == "Basic bWU6c2VjcmV0"
    with pytest.raises(SourceError, match=f"^'{root}/404'"):  # without the password
        pr.scan_log(f"{root.replace('//', '//me:secret@')}/404")


@pytest.mark.parametrize(
    ("path", "message", "requests"),
    [
        ("204", "the server answered 204 No Content instead of the file; check the URL", 1),
        ("301", "the server answered 301 Moved Permanently instead of the file", 1),
        ("416", "the server answered 416 .* instead of the file; check the URL", 1),
        ("403", r"access is denied \(403 Forbidden\); pass headers", 1),
        ("404", r"file not found \(404 Not Found\); check the URL", 1),
        ("503", "the server answered 503 Service Unavailable, in 2 attempts; try again", 2),
        ("silent", "the server did not answer within 0.2 seconds, in 2 attempts", 2),
        ("silent/later", "the server did not answer within 0.2 seconds, in 2 attempts", 2),
        ("short", "the connection was closed before the end of the file, in 2 attempts", 2),
    ],
)
def test_servers_that_do_not_send_the_file(
    root: str, path: str, message: str, requests: int
) -> None:
    with pytest.raises(SourceError, match=f"'{root}/{path}' cannot be read: {message}"):
        pr.scan_log(f"{root}/{path}", storage_options=QUICK)
    assert len(Server.requests) == requests


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "http:///a",
        "http://[::1",
        "http://a:99999/b",
        "http://a b/c",
        "http://a..b",
        "HTTPS://%/",
    ],
)
def test_invalid_urls(url: str) -> None:
    with pytest.raises(SourceError, match="is not a valid URL; check the name of the server"):
        pr.scan_run(url)


def test_web_servers_are_not_written(root: str) -> None:
    with pytest.raises(SourceError, match=f"cannot write '{root}/a': only local files are"):
        pr.trec.write_run(LOG, f"{root}/a", overwrite=True)
    assert not Server.requests


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(SourceError, match="the connection failed .*, in 2 attempts; try again"):
        pr.scan_log("http://127.0.0.1:1/a", storage_options=QUICK)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"read_timeout": "soon"}, "'read_timeout' in `storage_options` must be a duration"),
        ({"max_retries": -1}, "'max_retries' in `storage_options` must be a whole number"),
        ("key", "`storage_options` must be a mapping"),
    ],
)
def test_invalid_options(options: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pr.scan_log("http://127.0.0.1:1/a", storage_options=options)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/400", "the server answered 400 Bad Request; check the URL"),
        ("9999/a", "the URL is invalid; check the name of the server and the port"),
    ],
)
def test_scans_of_polars(root: str, path: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        pr.evaluate(pl.scan_parquet(root + path), "rr")
