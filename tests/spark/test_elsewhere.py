"""A local cluster of two workers and a Connect server: values, and lost workers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

#: Maximum seconds to wait, on a busy machine.
SECONDS = 400


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def started(log: Path, *command: str) -> subprocess.Popen[bytes]:
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
    environment["SPARK_LOG_DIR"] = environment["SPARK_WORKER_DIR"] = str(log.parent)
    return subprocess.Popen(
        [str(home / "bin" / command[0]), *command[1:]], env=environment, stdout=log.open("wb"),
        stderr=subprocess.STDOUT, start_new_session=True, cwd=log.parent,
    )  # fmt: skip


def ended(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def until(told: Path, text: str, times: int = 1) -> None:
    """Wait until a log has a text."""
    end = time.monotonic() + SECONDS
    while told.read_text(errors="replace").count(text) < times:
        assert time.monotonic() < end, told.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


class Cluster(NamedTuple):
    url: str
    workers: set[int]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port = str(free_port())
    url = f"spark://127.0.0.1:{port}"
    master = ["spark-class", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1"]
    worker = ["spark-class", "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1"]
    processes = [started(folder / "master", *master, "--port", port, "--webui-port", "0")]
    try:
        until(folder / "master", "I have been elected leader")
        processes += [
            started(folder / name, *worker, "-c", "1", "-m", "1g", "--webui-port", "0", url)
            for name in ("one", "two")
        ]
        until(folder / "master", "Registering worker", times=2)
        yield Cluster(url, {process.pid for process in processes[1:]})
    finally:
        ended(processes)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("connect")
    port = free_port()
    options = {
        "spark.connect.grpc.binding.port": str(port), "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4", "spark.master": "local[2]",
    }  # fmt: skip
    flags = [text for name, value in options.items() for text in ("--conf", f"{name}={value}")]
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    process = started(folder / "log", "spark-submit", "--class", kind, *flags, "spark-internal")
    try:
        until(folder / "log", "Spark Connect server started")
        yield f"sc://127.0.0.1:{port}"
    finally:
        ended([process])


def program(where: str, url: str, *parts: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(Path(__file__).with_name("elsewhere.py")), where, url, *parts]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )


def found_by(process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, err[-4000:]
    found: dict[str, object] = {}
    for line in out.splitlines():
        found |= json.loads(line)
    return found


def test_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    """Values, an error, a worker that dies, and an executor that is lost during the work."""
    once, at_work = tmp_path / "once", tmp_path / "at work"
    parts = ["equal", "error_of", f"killed={once}", "executors", f"slow={at_work}"]
    process = program("cluster", cluster.url, *parts)
    end = time.monotonic() + SECONDS
    while not at_work.exists():
        assert time.monotonic() < end, "no executor evaluates"
        assert process.poll() is None, process.communicate()[1][-3000:]
        time.sleep(0.2)
    os.kill(evaluating(cluster)[0], signal.SIGKILL)
    found = found_by(process)
    assert found["executors"] == 2 and found["slow"] is None
    error = str(found["error_of"])
    assert "polars_rank.errors.DataError" in error
    assert "rows: column 'score' (`score`) has NaN or infinite values" in error
    assert "'query': 7" in error


def evaluating(cluster: Cluster) -> list[int]:
    """Return the executors of the cluster that have started workers in Python."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
            parents[int(folder.name)] = int(stat[1])
    executors = [pid for pid, parent in parents.items() if parent in cluster.workers]
    return [pid for pid in executors if pid in parents.values()]


def test_connect(server: str) -> None:
    found = found_by(program("connect", server, "equal", "error_of"))
    error = str(found["error_of"])
    assert "polars_rank.errors.DataError" in error
    assert "rows: column 'score' (`score`) has NaN or infinite values" in error
