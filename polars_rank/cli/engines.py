"""Where a command evaluates: on this machine, or on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from polars_rank.cli.messages import misused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

Engine = Literal["polars", "spark"]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="Polars on this machine, or Spark (extra spark).")
]
Master = Annotated[
    str | None,
    typer.Option(help="Of Spark, as local[4] or spark://host:7077; local[*] by default."),
]
Remote = Annotated[
    str | None, typer.Option(help="A Spark Connect server, as sc://host:15002, for --master.")
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

    def evaluated(
        self, logs: Sequence[str], plan: Callable[[Any], Any], *, beside: Sequence[object] = ()
    ) -> pl.LazyFrame:
        """Return what a plan makes of a table or Parquet files of Spark; of none `beside` them."""
        from polars_rank.runners.sessions import fetched, read, session  # noqa: PLC0415  (an extra)

        if beside or not logs:
            misused("--engine spark reads a LOG: a table, or Parquet files")
        rows = read(session(self.master, self.remote), logs)
        return fetched(plan(rows)).lazy()
