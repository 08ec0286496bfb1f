"""Measure search and recommendation rankings where the data already is: in Polars."""

from polars_rank import namespace
from polars_rank.curves import pr_curve, rank_curve
from polars_rank.errors import (
    ArgumentError,
    DataError,
    MissingExtraError,
    RankError,
    SchemaError,
    SourceError,
)
from polars_rank.evaluation import evaluate, per_query
from polars_rank.gain import exp2, jarvelin, linear, log, log2, mapping, reciprocal
from polars_rank.layout import scan_log
from polars_rank.metrics import *
from polars_rank.naming import metric
from polars_rank.ranking import rank
