"""`list_metrics`: the table of all metrics, read from their functions."""

from __future__ import annotations

import inspect

import polars as pl

from polars_rank._params import public
from polars_rank.metrics.aliases import ALIASES
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, Definition

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
        - `undefined`: condition under which the metric is null for a ranking; null if it never is;
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
                description.source or None,
            )
        )
    return pl.DataFrame(rows, SCHEMA, orient="row")


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
