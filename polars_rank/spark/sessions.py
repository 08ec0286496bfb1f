"""Spark sessions for the command line: start, tables, and transfer of results."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank import errors
from polars_rank.errors import ArgumentError, RankError, SourceError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_MASTERS = ("local", "spark://", "yarn", "k8s://", "sc://")

#: With the largest limit, Spark does not measure a batch after each row, which is faster.
FASTER = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
#: Without messages of Spark, because an exception reports failures.
_QUIET = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


def session(master: str | None = None, *, timeout: float = 20) -> SparkSession:
    """Return a Spark session.

    Parameters
    ----------
    master
        Spark master, or the URL of a Spark Connect server, such as "sc://host:15002". Default: the
        environment variable MASTER, or "local[*]".
    timeout
        Seconds to wait for the server.

    Raises
    ------
    MissingExtraError
        If pyspark is not installed, or Java for a local session.
    ArgumentError
        If `master` is invalid.
    SourceError
        If the master or the server does not respond.
    """
    master = master or os.environ.get("MASTER", "local[*]")
    if not master.startswith(_MASTERS):
        raise ArgumentError(
            f"invalid Spark master {master!r}; use for example local[4], spark://host:7077, yarn, "
            "or sc://host:15002 for Spark Connect"
        )
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  (an extra)

        builder: Any = SparkSession.builder
        if master.startswith("sc://"):
            _wait_for_server(master, timeout)
            builder = builder.remote(master).config(map=FASTER)
        else:
            _check_java()
            if master.startswith("local"):  # workers on this machine use the same Python
                os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            builder = builder.master(master).config(map={**_QUIET, **FASTER})
        spark: SparkSession = builder.getOrCreate()
        spark.range(1).count()
    except errors.MissingExtraError:
        raise
    except ImportError as error:
        raise missing_extra(extra="spark", cause=error) from error
    except Exception as error:
        raise SourceError(f"Spark at {master!r} does not respond: {_reason(error)}") from error
    return spark


def _wait_for_server(url: str, timeout: float) -> None:
    """Raise `TimeoutError` if a server does not respond; pyspark would wait ten minutes."""
    import grpc  # type: ignore[import-untyped]  # noqa: PLC0415  (an extra)
    from pyspark.sql.connect.client import DefaultChannelBuilder  # noqa: PLC0415  (an extra)

    channel = DefaultChannelBuilder(url).toChannel()
    try:
        grpc.channel_ready_future(channel).result(timeout=timeout)
    except grpc.FutureTimeoutError:
        raise TimeoutError(f"no connection after {timeout} seconds; check host and port") from None
    finally:
        channel.close()


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") or (home and Path(home, "bin", "java").exists()):
        return
    raise errors.MissingExtraError(
        "Spark needs Java 17 or later, which is not installed; install it with apt-get install "
        "default-jre-headless (and pyspark with pip install 'polars_rank[spark]'), or use a Spark "
        "Connect server"
    )


def read(spark: SparkSession, sources: Sequence[str]) -> DataFrame:
    """Return a table of the catalog, or Parquet files, as a Spark DataFrame.

    Raises
    ------
    SourceError
        If the table or a file does not exist.
    """
    is_path = re.compile(r"[/\\*]|\.parquet$").search
    paths = [name for name in sources if is_path(name) or Path(name).exists()]
    if len(paths) < len(sources) and len(sources) > 1:
        raise SourceError(f"pass one table, or Parquet files; found {', '.join(sources)}")
    try:
        frame: DataFrame = spark.read.parquet(*paths) if paths else spark.table(sources[0])
        frame.columns  # noqa: B018  (Spark Connect looks for the table only here)
    except Exception as error:
        raise SourceError(f"Spark cannot read {', '.join(sources)}: {_reason(error)}") from error
    return frame


def fetched(frame: DataFrame) -> pl.DataFrame:
    """Return the rows of a Spark DataFrame.

    Raises
    ------
    RankError
        The error of polars_rank that a worker raised; `SourceError` for other errors of Spark.
    """
    try:
        return pl.DataFrame(frame.toArrow())
    except Exception as error:
        match = re.search(r"polars_rank\.errors\.(\w+): (.*)", str(error), re.DOTALL)
        kind = getattr(errors, match[1], SourceError) if match else SourceError
        if match is None or not issubclass(kind, RankError):
            raise SourceError(f"Spark failed: {_reason(error)}") from error
        raise kind(match[2].partition("\n\nJVM stacktrace")[0].strip()) from None


def _reason(error: Exception) -> str:
    """Return the line with the cause from Spark's report."""
    report = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    lines = [line for line in report if line and not line.startswith("An error occurred while")]
    python = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)]
    return (python or lines or [type(error).__name__])[0]
