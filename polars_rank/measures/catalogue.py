"""`metrics`: what there is to measure, read from the functions themselves."""

from __future__ import annotations

import inspect
from typing import Any

import polars as pl

from polars_rank.measures.metric import REGISTER
from polars_rank.measures.names import ALIASES


def metrics() -> pl.DataFrame:
    """List every metric.

    Returns
    -------
    DataFrame
        One row per metric, by name, with

        - `metric`: its name, that of the function and of `evaluate`;
        - `parameters`: with their defaults, "@k" first for a cutoff;
        - `low`, `high`: the range of its values, null where it has no bound;
        - `definition`: in one line;
        - `aliases`: other names that `evaluate` understands.

    Examples
    --------
    >>> pr.metrics().filter(pl.col("metric") == "hit_rate").row(0)[1:4]
    ('@k, rel=None', 0.0, 1.0)
    """
    aliases: dict[str, list[str]] = {name: [] for name in REGISTER}
    for alias, (name, fixed) in ALIASES.items():
        aliases[name].append(f"{alias} = {REGISTER[name](**fixed)}" if fixed else alias)
    return pl.DataFrame(
        [
            {
                "metric": name,
                "parameters": ", ".join(map(_written, _parameters(build))),
                "low": build.low,
                "high": build.high,
                "definition": inspect.getdoc(build).partition("\n")[0],  # type: ignore[union-attr]
                "aliases": aliases[name],
            }
            for name, build in sorted(REGISTER.items())
        ],
        schema={
            "metric": pl.String,
            "parameters": pl.String,
            "low": pl.Float64,
            "high": pl.Float64,
            "definition": pl.String,
            "aliases": pl.List(pl.String),
        },
    )


def _parameters(build: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(build).parameters.values())


def _written(parameter: inspect.Parameter) -> str:
    if parameter.name == "k":
        return "@k"
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={getattr(default, '__name__', repr(default))}"
