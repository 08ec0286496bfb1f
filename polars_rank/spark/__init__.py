"""Functions of polars_rank on Spark DataFrames."""

from polars_rank.spark.engine import run

__all__ = ["run"]
