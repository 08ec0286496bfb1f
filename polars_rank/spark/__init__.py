"""The engine of Spark DataFrames, see `polars_rank.frames.engines.ENGINES`."""

from polars_rank.spark.dataframes import schema_of
from polars_rank.spark.engine import run, unsupported
from polars_rank.spark.joins import join_judgments

__all__ = ["join_judgments", "run", "schema_of", "unsupported"]
