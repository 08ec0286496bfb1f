"""`list_metrics`: the table of all metrics, read from their functions."""

from __future__ import annotations

import inspect
from typing import Any

import polars as pl

from polars_rank._params import public
from polars_rank.metrics.aliases import ALIASES
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, Definition

#: Types of columns that may be null or empty in all rows.
_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(("low", "high", "counts_as"), pl.Float64),
    **dict.fromkeys(("formula", "undefined", "source"), pl.String),
    "aliases": pl.List(pl.String),
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
    rows = [_row(definition, aliases[name]) for name, definition in sorted(REGISTER.items())]
    return pl.DataFrame(rows, schema_overrides=_TYPES, infer_schema_length=None)


def _row(definition: Definition[...], aliases: list[str]) -> dict[str, Any]:
    description, signature = described(definition), inspect.signature(definition)
    # What an undefined ranking counts as in the mean.
    counted = None if definition.undefined is None or definition.skipped else 0.0
    if counted is not None and definition.aggregate == "geometric":
        counted = getattr(signature.parameters.get("floor"), "default", counted)
    return {
        "metric": definition.__name__,
        "parameters": ", ".join(map(_parameter_text, signature.parameters.values())),
        "low": definition.low,
        "high": definition.high,
        "binary": definition.binary,
        "definition": description.definition,
        "aliases": aliases,
        "family": family(definition),
        "formula": description.formula or None,
        "undefined": definition.undefined,
        "counts_as": counted,
        "aggregate": definition.aggregate.replace("geometric", "geometric mean"),
        "source": description.source or None,
    }


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
