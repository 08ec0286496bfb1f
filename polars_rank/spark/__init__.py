"""The same functions on Spark."""

from polars_rank.spark.engine import run

__all__ = ["run"]
