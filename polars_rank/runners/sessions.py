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
from polars_rank.errors import MissingExtraError, RankError, SourceError, missing_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def session(master: str | None = None, remote: str | None = None) -> SparkSession:
    """Return a session of Spark: of a master, "local[*]" unless one is named, or of a Connect URL.

    Raises
    ------
    MissingExtraError
        Without pyspark or, unless the session is a remote one, without Java.
    SourceError
        For a master or a server that does not answer.
    """
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(extra="spark", cause=error) from error
    builder: Any = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    if remote is not None:
        made = builder.remote(remote)
    else:
        _check_java()
        master = master or os.environ.get("MASTER", "local[*]")
        if master.startswith("local"):  # workers are on this machine: of this Python
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        made = builder.master(master)
    try:
        found: SparkSession = made.getOrCreate()
        found.range(1).count()
    except ImportError as error:
        raise missing_extra(extra="spark", cause=error) from error
    except Exception as error:
        message = f"Spark at {remote or master!r} does not answer: {_first_line(error)}"
        raise SourceError(message) from error
    if remote is None:
        found.sparkContext.setLogLevel("OFF")  # what goes wrong is told once, by an error
    return found


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
        message = f"{', '.join(sources)} cannot be read by Spark: {_first_line(error)}"
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
            message = f"Spark failed: {_first_line(error)}"
            raise SourceError(message) from error
        raise kind(found[2].partition("\n\nJVM stacktrace")[0].strip()) from None


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    python = [line for line in lines if re.match(r"\w*(Error|Exception)\b", line)]
    return (python or lines or [type(error).__name__])[0]
