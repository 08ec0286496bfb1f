"""Sessions of Spark for those who have none yet, what they read, and results on this machine."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank import errors
from polars_rank.errors import (
    ArgumentError,
    MissingExtraError,
    RankError,
    SourceError,
    missing_extra,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_MASTERS = ("local", "spark://", "yarn", "k8s://")

#: Without a limit, Spark does not measure a batch after each row that it hands over to Python.
FASTER = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
#: What goes wrong is told once, by an error.
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


def session(
    master: str | None = None, remote: str | None = None, *, timeout: float = 20
) -> SparkSession:
    """Return a session of Spark: of a master, "local[*]" unless one is named, or of a Connect URL.

    A Connect URL, such as "sc://host:15002", may be given as the master, too; it waits `timeout`
    seconds for the server.

    Raises
    ------
    MissingExtraError
        Without pyspark or, unless the session is a remote one, without Java.
    ArgumentError
        For text that is no master.
    SourceError
        For a master or a server that does not answer.
    """
    master = master or os.environ.get("MASTER", "local[*]")
    if remote is None and master.startswith("sc://"):
        remote = master
    if remote is None and not master.startswith(_MASTERS):
        message = (
            "a master of Spark is local[4], spark://host:7077, yarn or the like, or "
            f"sc://host:15002 of Spark Connect; found {master!r}"
        )
        raise ArgumentError(message)
    try:
        made = _started(master) if remote is None else _connected(remote, timeout)
        made.range(1).count()
    except MissingExtraError:
        raise
    except ImportError as error:
        raise missing_extra(extra="spark", cause=error) from error
    except Exception as error:
        message = f"Spark at {remote or master!r} does not answer: {_reason(error)}"
        raise SourceError(message) from error
    return made


def _started(master: str) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415  (an extra)

    _check_java()
    if master.startswith("local"):  # workers are on this machine: of this Python
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder: Any = SparkSession.builder
    made: SparkSession = builder.master(master).config(map={**_QUIET, **FASTER}).getOrCreate()
    made.sparkContext.setLogLevel("OFF")
    return made


def _connected(url: str, timeout: float) -> SparkSession:
    """Connect to a server; pyspark itself tries for ten minutes whether there is one."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra)
    from pyspark.sql import SparkSession  # noqa: PLC0415  (an extra)
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415  (an extra)

    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=timeout)
    except grpc.FutureTimeoutError:
        message = f"there is no connection after {timeout} seconds; check host and port"
        raise TimeoutError(message) from None
    finally:
        channel.close()
    builder: Any = SparkSession.builder
    made: SparkSession = builder.remote(url).config(map=FASTER).getOrCreate()
    return made


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and Path(home, "bin", "java").exists()):
        return
    message = (
        "Spark runs on Java, 17 or later, and there is none on this machine: install it with "
        "apt-get install default-jre-headless (and pyspark with pip install 'polars_rank[spark]'), "
        "or use a Spark Connect server"
    )
    raise MissingExtraError(message)


def read(spark: SparkSession, sources: Sequence[str]) -> DataFrame:
    """Return a table of the catalogue, or Parquet files.

    Raises
    ------
    SourceError
        For a table or files that are not there.
    """
    paths = [
        name for name in sources if re.search(r"[/\\*]|\.parquet$", name) or Path(name).exists()
    ]
    if paths and len(paths) < len(sources):
        message = f"give one table, or Parquet files; found both: {', '.join(sources)}"
        raise SourceError(message)
    if not paths and len(sources) > 1:
        message = f"give one table; found {', '.join(sources)}"
        raise SourceError(message)
    try:
        found: DataFrame = spark.read.parquet(*paths) if paths else spark.table(sources[0])
        found.columns  # noqa: B018  (Connect looks for the table only now)
    except Exception as error:
        message = f"{', '.join(sources)} cannot be read by Spark: {_reason(error)}"
        raise SourceError(message) from error
    return found


def fetched(frame: DataFrame) -> pl.DataFrame:
    """Run what a Spark DataFrame is to be, and return it; errors of ours are ours again.

    Raises
    ------
    RankError
        That of a worker; `SourceError` for all else that Spark reports.
    """
    try:
        return pl.DataFrame(frame.toArrow())
    except Exception as error:
        found = re.search(r"polars_rank\.errors\.(\w+): (.*)", str(error), re.DOTALL)
        kind = getattr(errors, found[1], SourceError) if found else SourceError
        if found is None or not issubclass(kind, RankError):
            message = f"Spark failed: {_reason(error)}"
            raise SourceError(message) from error
        raise kind(found[2].partition("\n\nJVM stacktrace")[0].strip()) from None


def _reason(error: Exception) -> str:
    """Return the line of Spark's report that says what is wrong."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("An error occurred while call")]
    python = [line for line in told if re.match(r"\w*(Error|Exception)\b", line)]
    return (python or told or [type(error).__name__])[0]
