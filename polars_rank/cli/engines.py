"""Where a command evaluates: on this machine, or on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from polars_rank.cli.messages import misused
from polars_rank.cli.sources import is_pipe

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

    from polars_rank.cli.logs import Log

#: How files are read on this machine.
_OF_FILES = ("input_format", "layout", "memory", "missing_columns", "extra_columns")


@dataclass(frozen=True)
class Where:
    """The engine that evaluates, and how Spark is reached."""

    engine: Literal["polars", "spark"]
    master: str | None
    remote: str | None

    @property
    def on_spark(self) -> bool:
        """Whether Spark evaluates."""
        if self.engine != "spark" and (self.master or self.remote):
            misused("--master and --remote are for --engine spark")
        if self.master and self.remote:
            misused("give --master or --remote")
        return self.engine == "spark"

    def opened(self, log: Log) -> Log:
        """Return the log, whose pipes this machine has read."""
        return log if self.on_spark else log.opened

    def rows(self, log: Log, groups: list[str]) -> pl.LazyFrame | DataFrame:
        """Return the log, or a table of Spark's, or what it reads of Parquet files."""
        if not self.on_spark:
            return log.scan(groups)
        from polars_rank.spark.sessions import read, session  # noqa: PLC0415  (an extra)

        if not log.logs or log.qrels or any(map(is_pipe, log.logs)):
            misused("--engine spark reads a LOG: a table, or Parquet files")
        for name in _OF_FILES:
            if log.is_given(name):
                misused(f"--{name.replace('_', '-')} is for --engine polars")
        return read(session(self.master, self.remote), log.logs)

    def fetched(self, result: Any) -> pl.LazyFrame:
        """Return a result on this machine."""
        if not self.on_spark:
            return cast("pl.LazyFrame", result)
        from polars_rank.spark.sessions import fetched  # noqa: PLC0415  (an extra)

        return fetched(result).lazy()
