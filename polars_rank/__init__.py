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

Submodules: `stats`, `diagnostics`, `clicks`, `catalog`, `judges`, `training`, `integrations`,
`plot`, `trec`, `datasets`, `errors`.

Parameters that functions share, such as `run`, `by` and `cluster`, mean the same in all of them.
The page "Parameters" of the guide explains them.

Importing the package adds the namespace `.ranking` (class `Ranking`) to DataFrame and LazyFrame,
with functions and metrics as methods.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import polars as pl

from polars_rank.frames.engines import ENGINES

__version__ = "0.1.0"

#: Modules of the public names, which the stub lists for type checkers. A name is imported on first
#: use, so that a program imports what it calls.
_MODULES = {
    name: module
    for module, name in re.findall(
        r"^from (\S+) import \w+ as (\w+)$",
        Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
}
_SUBMODULES = [name for name, module in _MODULES.items() if module == "polars_rank"]

__all__ = [*_MODULES]  # noqa: PLE0604  (names)


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return import_module(f"polars_rank.{name}")
    if name not in _MODULES:
        advice = _advice(name)
        remedy = f"; {advice}" if advice else ""
        raise AttributeError(f"module 'polars_rank' has no attribute {name!r}{remedy}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def _advice(name: str) -> str:
    """Return what to use instead of a name, or an empty string."""
    if name.startswith("_"):
        return ""
    if name in import_module("polars_rank.metrics").__all__:
        return f"use pr.metrics.{name}"
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


ENGINES["pyspark.sql"] = lambda: import_module("polars_rank.spark")
pl.api.register_dataframe_namespace("ranking")(cast("type[Any]", _ranking))
pl.api.register_lazyframe_namespace("ranking")(cast("type[Any]", _ranking))
