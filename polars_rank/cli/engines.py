"""Where a command evaluates: on this machine, or on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from polars_rank.cli.messages import misused
from polars_rank.cli.running import is_said
from polars_rank.cli.sources import is_pipe

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame

    from polars_rank.cli.logs import Log

_PANEL = "Engine"
Engine = Literal["polars", "spark"]
EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="Polars on this machine; or Spark (extra spark), which reads a table or Parquet.",
        rich_help_panel=_PANEL,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Of Spark, as local[4], spark://host:7077 or sc://host:15002; local[*] by default.",
        rich_help_panel=_PANEL,
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        help="A Spark Connect server, as sc://host:15002, for --master.", rich_help_panel=_PANEL
    ),
]

#: How files are read on this machine.
_OF_FILES = ("input_format", "layout", "memory", "missing_columns", "extra_columns")


@dataclass(frozen=True, kw_only=True)
class Where:
    """The engine that evaluates, and how Spark is reached."""

    engine: EngineOption = "polars"
    master: Master = None
    remote: Remote = None

    @property
    def on_spark(self) -> bool:
        """Whether Spark evaluates."""
        if self.engine != "spark" and (self.master or self.remote):
            misused("--master and --remote are for --engine spark")
        if self.master and self.remote:
            misused("give --master or --remote")
        return self.engine == "spark"

    def read(self, log: Log) -> DataFrame:
        """Return a table of Spark's, or what it reads of Parquet files."""
        from polars_rank.spark.sessions import read, session  # noqa: PLC0415  (an extra)

        if not log.logs or log.qrels or log.run or any(map(is_pipe, log.logs)):
            misused("--engine spark reads a LOG: a table, or Parquet files")
        for name in _OF_FILES:
            if is_said(name):
                misused(f"--{name.replace('_', '-')} is for --engine polars")
        return read(session(self.master, self.remote), log.logs)

    def fetched(self, result: Any) -> pl.LazyFrame:
        """Return a result on this machine."""
        if not self.on_spark:
            return cast("pl.LazyFrame", result)
        from polars_rank.spark.sessions import fetched  # noqa: PLC0415  (an extra)

        return fetched(result).lazy()
