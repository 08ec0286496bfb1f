"""Evaluate search and recommendation rankings in Polars.

Evaluation:

- `evaluate`: mean of each metric over the queries of a log.
- `per_query`: value of each metric for each ranking.
- `rank`: ranked table, on which metrics are Polars expressions.
- `rank_curve`, `pr_curve`: means at each cutoff; precision and recall at each score threshold.
- `grouped_auc`: mean AUC, weighted by the length of the rankings.
- `ndcg`, `average_precision`, `reciprocal_rank`, ...: metrics; `metrics` has all of them, and
  `list_metrics` returns a table.
- `metric`, `Metric`: metric from its name; type of all metrics.

Comparison and reports:

- `summarize`: means with confidence intervals.
- `compare`: differences between runs with confidence intervals, p-values and verdicts; by slice.
- `leaderboard`: runs in the order of their means, with intervals of ranks.
- `power`: number of queries that a difference, or the width of an interval, needs.
- `tune_fusion`: method or weights of a fusion, with its mean on held-out queries.
- `check`, `Rule`: verdicts of rules, such as a quality gate; a rule.
- `gate`: verdicts about a retriever, from a golden file, its results and a baseline.
- `report`: HTML report.
- `flat`: numbers of a result as a dictionary, for tools that track experiments.

Input:

- `scan_log`: lazy scan of a Parquet log of any size.
- `scan_run`, `scan_judgments`: lazy scans of results and judgments in any format.
- `from_arrays`, `from_lists`, `from_dicts`: long table from arrays, list columns or dictionaries.
- `join_judgments`: long table from rankings and judgments.
- `join_spans`: long table from retrieved chunks and relevant spans of text.
- `collapse`: rankings of documents from rankings of chunks.
- `fuse`, `Fusion`: one run from the rankings of several runs; a method of fusion.

Definitions:

- `Conventions`, `conventions`: definitional choices of a tool; presets.
- `explain`, `explain_difference`: definition of a metric; difference between two conventions.
- `identify`: definitions that reproduce a number of another tool.
- `gains`, `discounts`: gain and discount functions.
- `define_metric`, `terms`: metrics of your own; what they are made of.
- `referee`: definition and defects of a metric function that you wrote.

Submodules: `stats`, `diagnostics`, `clicks`, `catalog`, `judges`, `training`, `plot`, `trec`,
`datasets`, `errors`.

Parameters that functions share, such as `run`, `by` and `cluster`, mean the same in all of them.
The page "Parameters" of the guide explains them.

Importing the package adds the namespace `.ranking` (class `Ranking`) to DataFrame and LazyFrame,
with functions and metrics as methods.
"""

from polars_rank import _startup  # noqa: F401

# isort: split
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import polars as pl

from polars_rank.frames.engines import ENGINES, Engine

if TYPE_CHECKING:
    from polars_rank import (
        catalog,
        clicks,
        conventions,
        datasets,
        diagnostics,
        discounts,
        errors,
        gains,
        judges,
        metrics,
        plot,
        stats,
        terms,
        training,
        trec,
    )
    from polars_rank.conformance.identification import identify
    from polars_rank.conformance.referee import referee
    from polars_rank.conventions import Conventions
    from polars_rank.evaluation.auc import grouped_auc
    from polars_rank.evaluation.curves import pr_curve, rank_curve
    from polars_rank.evaluation.evaluate import evaluate, per_query
    from polars_rank.evaluation.ranking import rank
    from polars_rank.explanation import explain, explain_difference
    from polars_rank.fusion.fuse import fuse
    from polars_rank.fusion.methods import Fusion
    from polars_rank.fusion.tuning import tune_fusion
    from polars_rank.gates.gate import gate
    from polars_rank.gates.rules import Rule
    from polars_rank.gates.verdicts import check
    from polars_rank.io.arrays import from_arrays
    from polars_rank.io.chunks import collapse
    from polars_rank.io.dicts import from_dicts
    from polars_rank.io.formats import scan_judgments, scan_run
    from polars_rank.io.judgments import join_judgments
    from polars_rank.io.lists import from_lists
    from polars_rank.io.parquet import scan_log
    from polars_rank.io.spans import join_spans
    from polars_rank.metrics import (
        alpha_ndcg,
        average_precision,
        bpref,
        cg,
        dcg,
        err,
        f1,
        fall_out,
        fbeta,
        hit_rate,
        ideal_dcg,
        intra_list_diversity,
        judged,
        ndcg,
        num_relevant,
        num_relevant_retrieved,
        num_retrieved,
        precision,
        r_precision,
        rbp,
        recall,
        reciprocal_rank,
        roc_auc,
        unjudged,
    )
    from polars_rank.metrics.listing import list_metrics
    from polars_rank.metrics.metric import Metric, define_metric
    from polars_rank.metrics.names import metric
    from polars_rank.namespace import Ranking
    from polars_rank.reporting.page import report
    from polars_rank.stats.comparison import compare
    from polars_rank.stats.leaderboards import leaderboard
    from polars_rank.stats.planning import power
    from polars_rank.stats.result_columns import flat
    from polars_rank.stats.summary import summarize

__version__ = "0.1.0"


__all__ = [
    "Conventions",
    "Fusion",
    "Metric",
    "Ranking",
    "Rule",
    "catalog",
    "check",
    "clicks",
    "collapse",
    "compare",
    "conventions",
    "datasets",
    "define_metric",
    "diagnostics",
    "discounts",
    "errors",
    "evaluate",
    "explain",
    "explain_difference",
    "flat",
    "from_arrays",
    "from_dicts",
    "from_lists",
    "fuse",
    "gains",
    "gate",
    "grouped_auc",
    "identify",
    "join_judgments",
    "join_spans",
    "judges",
    "leaderboard",
    "list_metrics",
    "metric",
    "metrics",
    "per_query",
    "plot",
    "power",
    "pr_curve",
    "rank",
    "rank_curve",
    "referee",
    "report",
    "scan_judgments",
    "scan_log",
    "scan_run",
    "stats",
    "summarize",
    "terms",
    "training",
    "trec",
    "tune_fusion",
]
#: The metrics that people write by hand; `metrics` has all of them.
__all__ += [
    "alpha_ndcg",
    "average_precision",
    "bpref",
    "cg",
    "dcg",
    "err",
    "f1",
    "fall_out",
    "fbeta",
    "hit_rate",
    "ideal_dcg",
    "intra_list_diversity",
    "judged",
    "ndcg",
    "num_relevant",
    "num_relevant_retrieved",
    "num_retrieved",
    "precision",
    "r_precision",
    "rbp",
    "recall",
    "reciprocal_rank",
    "roc_auc",
    "unjudged",
]

_SUBMODULES = (
    "catalog", "clicks", "conventions", "datasets", "diagnostics", "discounts", "errors", "gains",
    "judges", "metrics", "plot", "stats", "terms", "training", "trec",
)  # fmt: skip
#: Modules of the functions and classes. A name is imported on first use, so that a program imports
#: what it calls. Metrics are in `metrics`.
_MODULES = {
    "Conventions": "conventions",
    "Fusion": "fusion.methods",
    "Metric": "metrics.metric",
    "Ranking": "namespace",
    "Rule": "gates.rules",
    "check": "gates.verdicts",
    "collapse": "io.chunks",
    "compare": "stats.comparison",
    "define_metric": "metrics.metric",
    "evaluate": "evaluation.evaluate",
    "explain": "explanation",
    "explain_difference": "explanation",
    "flat": "stats.result_columns",
    "from_arrays": "io.arrays",
    "from_dicts": "io.dicts",
    "from_lists": "io.lists",
    "fuse": "fusion.fuse",
    "gate": "gates.gate",
    "grouped_auc": "evaluation.auc",
    "identify": "conformance.identification",
    "join_judgments": "io.judgments",
    "join_spans": "io.spans",
    "leaderboard": "stats.leaderboards",
    "list_metrics": "metrics.listing",
    "metric": "metrics.names",
    "per_query": "evaluation.evaluate",
    "power": "stats.planning",
    "pr_curve": "evaluation.curves",
    "rank": "evaluation.ranking",
    "rank_curve": "evaluation.curves",
    "referee": "conformance.referee",
    "report": "reporting.page",
    "scan_judgments": "io.formats",
    "scan_log": "io.parquet",
    "scan_run": "io.formats",
    "summarize": "stats.summary",
    "tune_fusion": "fusion.tuning",
}

if not TYPE_CHECKING:  # type checkers know the names from the imports above

    def __getattr__(name: str) -> Any:
        if name in _SUBMODULES:
            return import_module(f"polars_rank.{name}")
        if name not in __all__:
            advice = _advice(name)
            remedy = f"; {advice}" if advice else ""
            raise AttributeError(f"module 'polars_rank' has no attribute {name!r}{remedy}")
        value = getattr(import_module(f"polars_rank.{_MODULES.get(name, 'metrics')}"), name)
        globals()[name] = value
        return value


def _advice(name: str) -> str:
    """Return what to use instead of a name, or an empty string."""
    if name.startswith("_"):
        return ""
    if name in import_module("polars_rank.metrics").__all__:
        return f"use pr.metrics.{name}"
    if name in ("merge", "moments"):
        return (
            'keep the per-query values of each day in Parquet, and compare them with cluster="day"'
        )
    if instead := import_module("polars_rank.metrics.names").instead(name):
        return str(instead)
    modules = [each for each in _SUBMODULES if name in dir(import_module(f"polars_rank.{each}"))]
    found = " or ".join(f"pr.{each}.{name}" for each in modules)
    return f"use {found}" if found else ""


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _ranking(frame: Any) -> Any:
    """Return the namespace of a frame, which has functions and metrics as methods."""
    return import_module("polars_rank.namespace").Ranking(frame)


ENGINES["pyspark.sql"] = lambda: cast("Engine", import_module("polars_rank.spark"))
pl.api.register_dataframe_namespace("ranking")(cast("type[Any]", _ranking))
pl.api.register_lazyframe_namespace("ranking")(cast("type[Any]", _ranking))
