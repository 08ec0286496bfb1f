"""Measure search and recommendation rankings where the data already is: in Polars.

Start with `evaluate` (means over queries), `per_query` and `rank`; `scan_log` reads Parquet logs
of any size. Importing the package adds the namespace `.ranking` to DataFrame and LazyFrame.
"""

from polars_rank import datasets, measures
from polars_rank.conventions import (
    CATBOOST,
    IR_MEASURES,
    LIGHTGBM,
    POLARS_RANK,
    RANX,
    SKLEARN,
    TORCHMETRICS,
    TREC_EVAL,
    TREC_EVAL_9,
    XGBOOST,
    Conventions,
)
from polars_rank.errors import (
    ArgumentError,
    DataError,
    MissingExtraError,
    RankError,
    RankWarning,
    SchemaError,
    SourceError,
)
from polars_rank.evaluation import evaluate, per_query
from polars_rank.feedback.bias import position_bias
from polars_rank.feedback.interleaving import balanced_interleaving, team_draft
from polars_rank.feedback.labels import clicked, graded, graded_dwell, satisfied
from polars_rank.feedback.preferences import last_click, skip_above
from polars_rank.feedback.rates import click_through_rates, coec
from polars_rank.feedback.slates import cascade_dr, iips, rips, sips
from polars_rank.feedback.sweeps import propensity_sweep
from polars_rank.feedback.weights import inverse_propensity
from polars_rank.logs.arrays import from_arrays
from polars_rank.logs.judgments import join_judgments
from polars_rank.logs.lists import from_lists
from polars_rank.logs.parquet import scan_log
from polars_rank.logs.trec import scan_qrels, scan_trec_run, write_qrels, write_trec_run
from polars_rank.logs.ubi import scan_ubi
from polars_rank.measures.agreement import *
from polars_rank.measures.cascade import *
from polars_rank.measures.catalogue import metrics
from polars_rank.measures.cumulated import *
from polars_rank.measures.gain import (
    at_least,
    exp2,
    jarvelin,
    linear,
    log,
    log2,
    mapping,
    reciprocal,
)
from polars_rank.measures.gains import *
from polars_rank.measures.judgments import *
from polars_rank.measures.metric import Metric
from polars_rank.measures.names import metric
from polars_rank.measures.pairs import *
from polars_rank.measures.points import *
from polars_rank.measures.relevance import *
from polars_rank.measures.sets import *
from polars_rank.measures.shown import *
from polars_rank.measures.users import *
from polars_rank.namespace import Ranking
from polars_rank.ranking import rank
from polars_rank.reporting import plot
from polars_rank.reporting.curves import pr_curve, rank_curve
from polars_rank.reporting.page import report
from polars_rank.reporting.words import explain, explain_difference
from polars_rank.statistics.all_pairs import compare_all
from polars_rank.statistics.bounds import judgment_bounds, tie_bands
from polars_rank.statistics.comparison import compare
from polars_rank.statistics.documents import churn, headroom, movers
from polars_rank.statistics.gates import GateFailed, check, write_junit, write_markdown
from polars_rank.statistics.grouped import grouped_auc
from polars_rank.statistics.interleaving import interleaving_result
from polars_rank.statistics.moments import merge, moments
from polars_rank.statistics.overlap import overlap, rbo
from polars_rank.statistics.planning import power
from polars_rank.statistics.slicing import slices
from polars_rank.statistics.stored import scan_moments, write_moments
from polars_rank.statistics.summary import summarize

__version__ = "0.1.0"

__all__ = [
    "CATBOOST",
    "IR_MEASURES",
    "LIGHTGBM",
    "POLARS_RANK",
    "RANX",
    "SKLEARN",
    "TORCHMETRICS",
    "TREC_EVAL",
    "TREC_EVAL_9",
    "XGBOOST",
    "ArgumentError",
    "Conventions",
    "DataError",
    "GateFailed",
    "Metric",
    "MissingExtraError",
    "RankError",
    "RankWarning",
    "Ranking",
    "SchemaError",
    "SourceError",
    "at_least",
    "balanced_interleaving",
    "cascade_dr",
    "check",
    "churn",
    "click_through_rates",
    "clicked",
    "coec",
    "compare",
    "compare_all",
    "datasets",
    "evaluate",
    "exp2",
    "explain",
    "explain_difference",
    "from_arrays",
    "from_lists",
    "graded",
    "graded_dwell",
    "grouped_auc",
    "headroom",
    "iips",
    "interleaving_result",
    "inverse_propensity",
    "jarvelin",
    "join_judgments",
    "judgment_bounds",
    "last_click",
    "linear",
    "log",
    "log2",
    "mapping",
    "merge",
    "metric",
    "metrics",
    "moments",
    "movers",
    "overlap",
    "per_query",
    "plot",
    "position_bias",
    "power",
    "pr_curve",
    "propensity_sweep",
    "rank",
    "rank_curve",
    "rbo",
    "reciprocal",
    "report",
    "rips",
    "satisfied",
    "scan_log",
    "scan_moments",
    "scan_qrels",
    "scan_trec_run",
    "scan_ubi",
    "sips",
    "skip_above",
    "slices",
    "summarize",
    "team_draft",
    "tie_bands",
    "write_junit",
    "write_markdown",
    "write_moments",
    "write_qrels",
    "write_trec_run",
]
__all__ += measures.__all__


def __dir__() -> list[str]:
    return __all__
