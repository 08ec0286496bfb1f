"""The engine that evaluates a log: Polars on this machine, or Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from polars_rank.cli.messages import misused
from polars_rank.cli.options import Engines
from polars_rank.cli.sources import is_pipe

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

    from polars_rank.cli.logs import Log

#: Options that need the engine Polars.
_POLARS_OPTIONS = (
    *("input_format", "layout", "memory", "missing_columns", "extra_columns"),
    *("items", "history"),
)


class Engine(Engines):
    """The engine, and how to connect to Spark."""

    @property
    def on_spark(self) -> bool:
        """Whether the engine is Spark."""
        if self.engine != "spark" and (self.master or self.remote):
            misused("--master and --remote need --engine spark")
        if self.master and self.remote:
            misused("use either --master or --remote")
        return self.engine == "spark"

    def opened(self, log: Log) -> Log:
        """Return the log with copies of pipes, which Spark does not read."""
        return log if self.on_spark else log.opened

    def rows(self, log: Log, groups: list[str]) -> pl.LazyFrame | DataFrame:
        """Scan the log as a LazyFrame or a Spark DataFrame."""
        if not self.on_spark:
            return log.scan(groups)
        from polars_rank.spark.sessions import read, session  # noqa: PLC0415  (an extra)

        if not log.logs or log.qrels or any(map(is_pipe, log.logs)):
            misused("--engine spark needs a LOG that is a table or Parquet files")
        for name in _POLARS_OPTIONS:
            if log.is_given(name):
                misused(f"--{name.replace('_', '-')} needs --engine polars")
        return read(session(self.master, self.remote), log.logs)

    def fetched(self, result: Any) -> pl.LazyFrame:
        """Return a result as a LazyFrame."""
        if not self.on_spark:
            return cast("pl.LazyFrame", result)
        from polars_rank.spark.sessions import fetched  # noqa: PLC0415  (an extra)

        return fetched(result).lazy()
