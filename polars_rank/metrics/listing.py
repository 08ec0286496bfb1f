"""`list_metrics`: the table of all metrics, read from their functions."""

from __future__ import annotations

import inspect

import polars as pl

from polars_rank._params import public
from polars_rank.metrics.aliases import ALIASES
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, Definition

AGGREGATES = {"mean": "mean", "sum": "sum", "geometric": "geometric mean"}

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "metric": pl.String,
    "parameters": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "binary": pl.Boolean,
    "definition": pl.String,
    "aliases": pl.List(pl.String),
    "family": pl.String,
    "formula": pl.String,
    "undefined": pl.String,
    "counts_as": pl.Float64,
    "aggregate": pl.String,
    "source": pl.String,
}


@public
def list_metrics() -> pl.DataFrame:
    """Return a table of all metrics.

    Returns
    -------
    DataFrame
        One row per metric, sorted by name, with the columns

        - `metric`: name of the metric, in `evaluate` and as a function;
        - `parameters`: parameters with their defaults; "@k" stands for the cutoff;
        - `low`, `high`: range of the values, null if unbounded;
        - `binary`: whether all values are 0 or 1, except by `ties="expected"`;
        - `definition`: definition in one sentence;
        - `aliases`: other names that `evaluate` accepts;
        - `family`: module in which the metric is defined;
        - `formula`: formula in LaTeX;
        - `undefined`: condition under which the metric is undefined for a ranking; null if it never
          is;
        - `counts_as`: what an undefined ranking counts as by default; null if it does not count;
        - `aggregate`: what `evaluate` returns: the "mean", "sum" or "geometric mean";
        - `source`: publication or tool in which the metric is defined.

    Examples
    --------
    >>> metrics = pr.list_metrics().filter(family="pairwise")
    >>> metrics.select("metric", "parameters", "low", "high").head(3)
    shape: (3, 4)
    ┌─────────────────────────────────┬────────────┬─────┬──────┐
    │ metric                          ┆ parameters ┆ low ┆ high │
    │ ---                             ┆ ---        ┆ --- ┆ ---  │
    │ str                             ┆ str        ┆ f64 ┆ f64  │
    ╞═════════════════════════════════╪════════════╪═════╪══════╡
    │ coverage_error                  ┆ rel=None   ┆ 1.0 ┆ null │
    │ label_ranking_average_precisio… ┆ rel=None   ┆ 0.0 ┆ 1.0  │
    │ label_ranking_loss              ┆ rel=None   ┆ 0.0 ┆ 1.0  │
    └─────────────────────────────────┴────────────┴─────┴──────┘
    """
    aliases: dict[str, list[str]] = {name: [] for name in REGISTER}
    for alias, (name, fixed) in ALIASES.items():
        aliases[name].append(f"{alias} = {REGISTER[name](**fixed)}" if fixed else alias)
    rows = []
    for name, definition in sorted(REGISTER.items()):
        description = described(definition)
        rows.append(
            (
                name,
                ", ".join(map(_parameter_text, inspect.signature(definition).parameters.values())),
                definition.low,
                definition.high,
                definition.binary,
                description.definition,
                aliases[name],
                family(definition),
                description.formula or None,
                definition.undefined,
                _counts_as(definition),
                AGGREGATES[definition.aggregate],
                description.source or None,
            )
        )
    return pl.DataFrame(rows, SCHEMA, orient="row")


def _counts_as(definition: Definition[...]) -> float | None:
    """Return the value of an undefined ranking in the mean."""
    if definition.undefined is None or definition.skipped:
        return None
    floor = inspect.signature(definition).parameters.get("floor")
    return 0.0 if definition.aggregate != "geometric" or floor is None else floor.default


def family(definition: Definition[...]) -> str:
    """Return the name of the module that a metric is defined in."""
    return definition.function.__module__.rpartition(".")[2]


def _parameter_text(parameter: inspect.Parameter) -> str:
    if parameter.name == "k":
        return "@k"
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={getattr(default, '__name__', repr(default))}"
