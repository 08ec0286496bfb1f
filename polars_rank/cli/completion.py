"""Shell completion of metrics, presets, and the columns and runs of the log."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click
import polars as pl

from polars_rank import conventions
from polars_rank.cli.sources import expand, is_pipe, kind_of, scan_table

if TYPE_CHECKING:
    from collections.abc import Iterable


def metrics(_: click.Context, incomplete: str) -> list[str]:
    """Complete the last metric of a list."""
    from polars_rank.metrics.listing import list_metrics  # noqa: PLC0415  (rarely needed)

    return _last(incomplete, list_metrics()["metric"])


def presets(_: click.Context, incomplete: str) -> list[str]:
    """Complete the name of a preset of conventions."""
    names = (preset.name.lower().replace(" ", "_") for preset in conventions.PRESETS)
    return [name for name in names if name.startswith(incomplete.lower())]


def columns(ctx: click.Context, incomplete: str) -> list[str]:
    """Complete the last column of a list."""
    # There are no completions for an unreadable log. The command itself explains the error.
    with suppress(Exception):
        return _last(incomplete, _table(ctx).collect_schema().names())
    return []


def runs(ctx: click.Context, incomplete: str) -> list[str]:
    """Complete the name of a run."""
    with suppress(Exception):
        column = pl.col(ctx.params.get("run") or "run").cast(pl.String)
        names = _table(ctx).select(column.unique().drop_nulls().sort()).collect(engine="streaming")
        return [name for name in names.to_series() if name.startswith(incomplete)]
    return []


def _last(incomplete: str, names: Iterable[str]) -> list[str]:
    before, start = re.fullmatch(r"(.*[ ,])?(.*)", incomplete).groups("")  # type: ignore[union-attr]
    return [before + name for name in names if name.startswith(start)]


def _table(ctx: click.Context) -> pl.LazyFrame:
    """Return the rows of the files that the command line names so far, without scanning them."""
    # While the value of an option is incomplete, Click leaves the arguments unparsed.
    given: list[Any] = [*(ctx.params.get("logs") or ctx.args), *(ctx.params.get("values") or ())]
    paths = expand([path for path in given if "://" not in path and not is_pipe(path)])
    kind = ctx.params.get("input_format") or kind_of(paths)
    if kind in ("csv", "tsv"):  # inferring types would scan all rows
        return pl.scan_csv(paths, separator="\t" if kind == "tsv" else ",", infer_schema=False)
    return scan_table(paths, kind, {}, ())
