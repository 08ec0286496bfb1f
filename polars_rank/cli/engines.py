"""Where a command evaluates: on this machine, or on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from polars_rank.cli.messages import misused

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
        help="Of Spark, as local[4] or spark://host:7077; local[*] by default.",
        rich_help_panel=_PANEL,
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        help="A Spark Connect server, as sc://host:15002, for --master.", rich_help_panel=_PANEL
    ),
]


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
        from polars_rank.runners.sessions import read, session  # noqa: PLC0415  (an extra)

        if not log.logs or log.qrels or log.run:
            misused("--engine spark reads a LOG: a table, or Parquet files")
        return read(session(self.master, self.remote), log.logs)

    def fetched(self, result: Any) -> pl.LazyFrame:
        """Return a result on this machine."""
        if not self.on_spark:
            return cast("pl.LazyFrame", result)
        from polars_rank.runners.sessions import fetched  # noqa: PLC0415  (an extra)

        return fetched(result).lazy()
