"""Evaluate search and recommendation rankings in Polars.

`evaluate` returns the mean of each metric over the queries of a log, `per_query` one row per
ranking, and `rank` the ranked table. Importing the package adds the namespace `.ranking` to
DataFrame and LazyFrame.
"""

from polars_rank import (
    clicks,
    conventions,
    datasets,
    diagnostics,
    discounts,
    errors,
    gains,
    metrics,
    plot,
    stats,
    trec,
)
from polars_rank.conventions import Conventions
from polars_rank.evaluation.auc import grouped_auc
from polars_rank.evaluation.curves import pr_curve, rank_curve
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.ranking import rank
from polars_rank.explanation import explain, explain_difference
from polars_rank.io.arrays import from_arrays
from polars_rank.io.judgments import join_judgments
from polars_rank.io.lists import from_lists
from polars_rank.io.parquet import scan_log
from polars_rank.metrics.agreement import *
from polars_rank.metrics.cascade import *
from polars_rank.metrics.catalog import list_metrics
from polars_rank.metrics.cumulated import *
from polars_rank.metrics.gains import *
from polars_rank.metrics.judgments import *
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import metric
from polars_rank.metrics.pairs import *
from polars_rank.metrics.points import *
from polars_rank.metrics.relevance import *
from polars_rank.metrics.sets import *
from polars_rank.metrics.shown import *
from polars_rank.metrics.users import *
from polars_rank.namespace import Ranking
from polars_rank.reporting.page import report
from polars_rank.stats.comparison import compare
from polars_rank.stats.gates import check
from polars_rank.stats.slicing import slices
from polars_rank.stats.summary import summarize

__version__ = "0.1.0"

__all__ = [
    "Conventions",
    "Metric",
    "Ranking",
    "check",
    "clicks",
    "compare",
    "conventions",
    "datasets",
    "diagnostics",
    "discounts",
    "errors",
    "evaluate",
    "explain",
    "explain_difference",
    "from_arrays",
    "from_lists",
    "gains",
    "grouped_auc",
    "join_judgments",
    "list_metrics",
    "metric",
    "per_query",
    "plot",
    "pr_curve",
    "rank",
    "rank_curve",
    "report",
    "scan_log",
    "slices",
    "stats",
    "summarize",
    "trec",
]
__all__ += metrics.__all__


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
