"""`list_metrics`: what there is to measure, read from the functions themselves."""

from __future__ import annotations

import inspect

import polars as pl

from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, Definition
from polars_rank.metrics.names import ALIASES

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "metric": pl.String,
    "parameters": pl.String,
    "low": pl.Float64,
    "high": pl.Float64,
    "definition": pl.String,
    "aliases": pl.List(pl.String),
    "family": pl.String,
    "formula": pl.String,
    "undefined": pl.String,
    "source": pl.String,
}


def list_metrics() -> pl.DataFrame:
    """List every metric.

    Returns
    -------
    DataFrame
        One row per metric, by name, with

        - `metric`: its name, that of the function and of `evaluate`;
        - `parameters`: with their defaults, "@k" first for a cutoff;
        - `low`, `high`: the range of its values, null where it has no bound;
        - `definition`: in one sentence;
        - `aliases`: other names that `evaluate` understands;
        - `family`: what it is about, the module of the functions next to it;
        - `formula`: in LaTeX;
        - `undefined`: for which lists it is null, in words that follow "where"; null if for none;
        - `source`: where it was published, or the tool that it comes from.

    Examples
    --------
    >>> pr.list_metrics().filter(pl.col("metric") == "hit_rate").row(0)[1:4]
    ('@k, rel=None', 0.0, 1.0)
    """
    aliases: dict[str, list[str]] = {name: [] for name in REGISTER}
    for alias, (name, fixed) in ALIASES.items():
        aliases[name].append(f"{alias} = {REGISTER[name](**fixed)}" if fixed else alias)
    rows = []
    for name, build in sorted(REGISTER.items()):
        said = described(build)
        rows.append(
            (
                name,
                ", ".join(map(_written, inspect.signature(build).parameters.values())),
                build.low,
                build.high,
                said.definition,
                aliases[name],
                family(build),
                said.formula or None,
                build.undefined,
                said.source or None,
            )
        )
    return pl.DataFrame(rows, SCHEMA, orient="row")


def family(build: Definition[...]) -> str:
    """Return the name of the module that a metric is defined in."""
    return build.function.__module__.rpartition(".")[2]


def _written(parameter: inspect.Parameter) -> str:
    if parameter.name == "k":
        return "@k"
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={getattr(default, '__name__', repr(default))}"
