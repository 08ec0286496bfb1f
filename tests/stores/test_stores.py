"""Logs in an object store: a real S3 server on this machine, and a proxy that fails on demand."""

from __future__ import annotations

import io
import logging
import socket
import threading
import time
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from strategies import assert_close, log_of, random_lists, shuffled

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRICS = ["ndcg@10", "rr"]
LOG = log_of(random_lists(seed=41, queries=90)).sort("query")
WANTED = pr.evaluate(LOG, METRICS)


class Store:
    """A bucket, and the options that open it."""

    def __init__(self, endpoint: str) -> None:
        import boto3

        self.endpoint = endpoint
        keys = {"aws_access_key_id": "key", "aws_secret_access_key": "secret"}
        self.known = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", **keys}
        self.client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **keys)
        self.client.create_bucket(Bucket="logs")

    def options(self, **more: object) -> dict[str, object]:
        return {**self.known, **more}

    def put(self, key: str, table: pl.DataFrame | bytes, **options: object) -> str:
        body = table
        if isinstance(table, pl.DataFrame):
            buffer = io.BytesIO()
            table.write_parquet(buffer, **options)  # type: ignore[arg-type]
            body = buffer.getvalue()
        self.client.put_object(Bucket="logs", Key=key, Body=body)
        return f"s3://logs/{key}"


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
    urllib.request.urlopen(reset).close()  # all servers of a process have the same objects
    yield Store(f"http://{host}:{port}")
    server.stop()


class Wire:
    """A proxy that closes or stalls each response after a number of bytes."""

    def __init__(self, endpoint: str) -> None:
        host, port = endpoint.removeprefix("http://").split(":")
        self.server = (host, int(port))
        self.limit: int | None = None
        self.silent = False
        self.cuts = 0
        self.read = 0
        self.open: list[socket.socket] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.socket.accept()
                self.open.append(near)
                far = socket.create_connection(self.server)
                self.open.append(far)
                threading.Thread(target=self._ask, args=(near, far), daemon=True).start()
                threading.Thread(target=self._answer, args=(near, far), daemon=True).start()

    @staticmethod
    def _ask(near: socket.socket, far: socket.socket) -> None:
        with suppress(OSError):
            while data := near.recv(65536):
                far.sendall(data)

    def _answer(self, near: socket.socket, far: socket.socket) -> None:
        sent = 0
        with suppress(OSError):
            while data := far.recv(65536):
                if self.limit is not None and sent + len(data) > self.limit:
                    self.cuts += 1
                    near.sendall(data[: max(0, self.limit - sent)])
                    if not self.silent:
                        near.shutdown(socket.SHUT_RDWR)
                        far.shutdown(socket.SHUT_RDWR)
                    return
                near.sendall(data)
                sent += len(data)
                self.read += len(data)
            near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # ends the thread that accepts connections
        self.socket.close()
        self.thread.join(timeout=10)
        for each in self.open:
            each.close()


@pytest.fixture
def wire(store: Store) -> Iterator[Wire]:
    made = Wire(store.endpoint)
    yield made
    made.close()


LAYOUTS = {
    "sorted": LOG,
    "adjacent": LOG.with_columns(query=(pl.col("query") * 7919) % 1009),
    "shuffled": shuffled(LOG),
    "spilled": shuffled(
        pl.concat(LOG.with_columns(pl.col("query") + 90 * copy) for copy in range(60))
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(store: Store, layout: str) -> None:
    rows, memory = LAYOUTS[layout], "1MB" if layout == "spilled" else None
    half = rows.height // 2
    for index, part in enumerate((rows[:half], rows[half:])):
        store.put(f"{layout}/{index}.parquet", part, row_group_size=rows.height // 10)
    log = pr.scan_log(
        f"s3://logs/{layout}/*.parquet", memory=memory, storage_options=store.options()
    )
    assert_close(pr.evaluate(log, METRICS).collect(engine="streaming"), pr.evaluate(rows, METRICS))


@pytest.mark.parametrize("path", ["s3://logs/hive/", "s3://logs/hive/**/*.parquet"])
def test_directories_and_hive_partitions(store: Store, path: str) -> None:
    for day in (1, 2, 3):
        part = LOG.filter(pl.col("query") % 3 == day - 1)
        store.put(f"hive/day={day}/part-0.parquet", part)
    # Metadata of Spark, and an incomplete file.
    store.put("hive/_SUCCESS", b"")
    store.put("hive/day=1/.part-0.parquet.crc", b"sum")
    store.put("hive/day=1/notes.txt", b"no Parquet")
    options = {"hive_partitioning": True} if "*" in path else {}
    log = pr.scan_log(path, by="day", storage_options=store.options(), **options)
    wanted = pr.evaluate(
        LOG.with_columns(day=(pl.col("query") % 3 + 1).cast(pl.Int64)), METRICS, by="day"
    )
    assert_close(pr.evaluate(log, METRICS, by="day").collect(), wanted)
    one = pr.evaluate(log.filter(pl.col("day") == 2), METRICS, by="day").collect()
    assert_close(one, wanted.filter(day=2))


def test_objects_of_several_urls_are_read_once(store: Store) -> None:
    for day in (1, 2):
        store.put(f"days/day={day}/a.parquet", LOG.with_columns(query=pl.col("query") + 90 * day))
    options = {"storage_options": store.options()}
    folder, day = "s3://logs/days", "s3://logs/days/day=1"
    for urls in ([folder, f"{folder}/"], [folder, day], [f"{folder}/*/*.parquet", day]):
        log = pr.scan_log(urls, hive_partitioning=True, **options).collect()
        assert log.group_by("day").len().sort("day").rows() == [(1, LOG.height), (2, LOG.height)]


def test_one_file_several_files_and_a_name_without_suffix(store: Store, tmp_path: Path) -> None:
    first, second = LOG.filter(pl.col("query") < 45), LOG.filter(pl.col("query") >= 45)
    urls = [store.put("two/a.parquet", first), store.put("two/b.parquet", second)]
    plain = store.put("two/whole", LOG)
    options = {"storage_options": store.options()}
    assert_close(pr.evaluate(pr.scan_log(urls, **options), METRICS).collect(), WANTED)
    second.write_parquet(tmp_path / "b.parquet")
    mixed = [urls[0], str(tmp_path)]
    assert_close(pr.evaluate(pr.scan_log(mixed, **options), METRICS).collect(), WANTED)
    assert_close(pr.evaluate(pr.scan_log(plain, **options), METRICS).collect(), WANTED)
    assert_close(
        pr.evaluate(pr.scan_log(urls[0], **options), METRICS).collect(),
        pr.evaluate(first, METRICS),
    )


def test_only_the_ranges_that_are_needed_are_read(store: Store, wire: Wire) -> None:
    wide = LOG.with_columns(
        pl.Series(f"x{i}", [f"{i}-{j * 7919 % 65537}" * 8 for j in range(LOG.height)])
        for i in range(20)
    )
    url = store.put("wide.parquet", wide, row_group_size=200, compression="uncompressed")
    size = store.client.head_object(Bucket="logs", Key="wide.parquet")["ContentLength"]
    log = pr.scan_log(url, storage_options=store.options(aws_endpoint_url=wire.endpoint))
    assert_close(pr.evaluate(log, METRICS).collect(engine="streaming"), WANTED)
    assert 0 < wire.read < size / 2


def test_a_bucket_and_a_directory_whose_name_has_a_dot(store: Store) -> None:
    store.client.create_bucket(Bucket="june.2024")
    buffer = io.BytesIO()
    LOG.write_parquet(buffer)
    store.client.put_object(Bucket="june.2024", Key="v1.2/a.parquet", Body=buffer.getvalue())
    for url in ("s3://june.2024", "s3://june.2024/", "s3://june.2024/v1.2", "s3://june.2024/v1.2/"):
        log = pr.scan_log(url, storage_options=store.options())
        assert_close(pr.evaluate(log, METRICS).collect(), WANTED)


@pytest.mark.parametrize("kept", [10, 500])
def test_an_object_that_was_replaced(store: Store, kept: int) -> None:
    """Polars reads the new file at old positions: rows are missing, or bytes are invalid."""
    url = store.put("replaced.parquet", LOG)
    log = pr.scan_log(url, storage_options=store.options())
    store.put("replaced.parquet", LOG.head(kept))
    with pytest.raises(pr.errors.SourceError, match="cannot read all of .*scan it again"):
        pr.evaluate(log, METRICS).collect()


def test_results_go_to_the_store(store: Store) -> None:
    url = store.put("in.parquet", LOG)
    options = store.options()
    log = pr.scan_log(url, storage_options=options)
    pr.per_query(log, METRICS).sink_parquet("s3://logs/out.parquet", storage_options=options)
    lists = pl.read_parquet("s3://logs/out.parquet", storage_options=options)
    assert_frame_equal(lists, pr.per_query(LOG, METRICS))


NOBODY = "bucket not found; check its name"


def test_what_is_not_there(store: Store) -> None:
    options = store.options()
    store.put("bad/a.parquet", b"no Parquet, but long enough to be one")
    for url, said in {
        "s3://logs/bad/a.parquet": "cannot read 's3://logs/bad/a.parquet' as Parquet",
        "s3://logs/none.parquet": "object 'none.parquet' not found; check the path",
        "s3://logs/none/*.parquet": "no file matches 's3://logs/none/.*check the bucket",
        "s3://logs/none/": "no file matches 's3://logs/none/'",
        "s3://logs/none.v1": "no file matches 's3://logs/none.v1'",
        "s3://logs/none": "no file matches 's3://logs/none'",
        **dict.fromkeys(
            (f"s3://nobody{end}" for end in ("", "/a.parquet", "/*", "/logs/")), NOBODY
        ),
    }.items():
        with pytest.raises(pr.errors.SourceError, match=said) as caught:
            pr.scan_log(url, storage_options=options)
        assert url.rstrip("/") in str(caught.value)
        assert "<?xml" not in str(caught.value)
    for url, said in {
        "s3://nobody/a.parquet": "bucket not found",
        "s3://logs/no/*": "no file",
    }.items():
        with pytest.raises(pr.errors.SourceError, match=said):
            pr.evaluate(pl.scan_parquet(url, storage_options=options), "rr")


def test_a_wrong_key_is_denied(store: Store) -> None:
    url = store.put("secret.parquet", LOG)
    log = pr.scan_log(url, storage_options=store.options())

    def check(calls: str) -> None:
        ask = urllib.request.Request(
            f"{store.endpoint}/moto-api/reset-auth",
            data=calls.encode(),
            headers={"Content-Type": "text/plain"},
        )
        urllib.request.urlopen(ask).close()

    check("0")  # from now on, the server checks keys
    try:
        wrong = store.options(aws_access_key_id="stolen")
        for name in ("secret.parquet", "*.parquet"):
            with pytest.raises(pr.errors.SourceError, match="access is denied.*check the key"):
                pr.scan_log(f"s3://logs/{name}", storage_options=wrong)
        with pytest.raises(pr.errors.SourceError, match="access is denied.*InvalidAccessKeyId"):
            pr.evaluate(log, "rr").collect(engine="streaming")
    finally:
        check("inf")


QUICK = {"retry_init_backoff_ms": 10}
IMPATIENT = {**QUICK, "max_retries": 1, "retry_timeout_ms": 1000, "read_timeout": "300ms"}


@pytest.fixture(scope="module")
def large(store: Store) -> str:
    rows = pl.select(
        query=pl.int_range(50_000, dtype=pl.Int64) // 10,
        doc=pl.int_range(50_000, dtype=pl.Int64) % 10,
        score=pl.int_range(50_000).hash(1).cast(pl.Float64),
        label=(pl.int_range(50_000).hash(2) % 3).cast(pl.Int8),
    )
    return store.put("large.parquet", rows, row_group_size=10_000)


def test_a_connection_that_breaks_now_and_then(store: Store, large: str, wire: Wire) -> None:
    options = {**store.options(), **QUICK, "aws_endpoint_url": wire.endpoint}
    whole = pr.evaluate(pr.scan_log(large, storage_options=store.options()), METRICS).collect()
    wire.limit = 100_000  # more than one range, less than a connection transfers in total
    found = pr.evaluate(pr.scan_log(large, storage_options=options), METRICS).collect()
    assert wire.cuts > 0
    assert_frame_equal(found, whole)


@pytest.mark.parametrize(
    ("layout", "silent"),
    [("adjacent", False), ("shuffled", False), ("sorted", True)],
)
def test_a_connection_that_breaks_for_good(
    store: Store, large: str, wire: Wire, layout: str, silent: bool
) -> None:
    options = {**store.options(), **IMPATIENT, "aws_endpoint_url": wire.endpoint}
    log = pr.scan_log(large, layout=layout, storage_options=options)
    wire.limit, wire.silent = 1_000, silent
    started = time.monotonic()
    with pytest.raises(
        pr.errors.SourceError, match="connection failed after several retries.*max_retries"
    ):
        pr.evaluate(log, METRICS).collect(engine="streaming")
    assert time.monotonic() - started < 120
    assert wire.cuts > 0


def test_a_server_that_is_not_there(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    options = {**store.options(), **IMPATIENT, "aws_endpoint_url": f"http://127.0.0.1:{port}"}
    with pytest.raises(pr.errors.SourceError, match="the connection failed"):
        pr.scan_log("s3://logs/large.parquet", storage_options=options)


def test_runs_in_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in store.options(aws_allow_http="true").items():
        monkeypatch.setenv(name.upper(), str(value))
    lines = ["1 Q0 a 1 0.5 x", "1 Q0 b 2 0.4 x"]
    for index, end in enumerate(("\n", "\r\n", "\n")):
        store.put(f"runs/{index}.txt", end.join(lines).encode())
        run = pr.scan_run(f"s3://logs/runs/{index}.txt")
        assert run.collect().rows() == [("1", "a", 0.5, "x"), ("1", "b", 0.4, "x")]
    store.put("runs/3.txt", b"1 Q0 a 1 0.5 x\n1 Q0 b 2 high x\n")
    with pytest.raises(pr.errors.DataError, match=r"line 2 of s3://logs/runs/3\.txt must be"):
        pr.scan_run("s3://logs/runs/*.txt").collect()
    store.put("runs/4.txt", "1 Q0 \u00fc 1 0.5 x".encode("latin-1"))
    for name, message in {
        "runs/4.txt": "cannot read s3://logs/runs/4.txt: ",
        "runs/none.txt": "object 'runs/none.txt' not found; check the path",
    }.items():
        with pytest.raises(pr.errors.SourceError, match=message):
            pr.scan_run(f"s3://logs/{name}").collect()
