"""`compare_all`: every run with every other, with one error rate for all."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, free, share
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.means import grouped
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats.intervals import stats
from polars_rank.stats.tables import (
    agreed_on,
    data_error,
    key_columns,
    not_finite,
    variables,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.tables import Variable

COLUMNS = (
    *("metric", "other", "mean", "other_mean", "difference", "low", "high", "p_value"),
    *("queries", "missing"),
)
_RUNS, _LISTS, _SHARE, _REPEATS = (OWN + name for name in ("runs", "lists", "share", "repeats"))


@framed_table
def compare_all(
    table: pl.LazyFrame,
    *,
    run: str = "run",
    metrics: Metrics | None = None,
    by: Names | None = None,
    query: Names = "query",
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
) -> pl.LazyFrame:
    r"""Compare all pairs of runs: Tukey's honestly significant difference, within queries.

    $$q = \frac{|\bar x_i - \bar x_j|}{\sqrt{\mathrm{MSE} / n}}$$

    with the mean squared error of the analysis of variance by run and query, of (n - 1)(m - 1)
    degrees of freedom for n queries and m runs. All p-values and intervals together hold their
    level; there is nothing left to correct.

    Parameters
    ----------
    table, run, metrics, by, query, confidence, undefined, conventions
        As for `compare`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `table`: a row per group, metric and pair of runs, with the `by` columns and

        - `metric`, `run` (under its own name), `other`;
        - `mean`, `other_mean`, `difference` (mean - other_mean), `low`, `high`, `p_value`;
        - `queries`, `missing`: those that all runs of the group have a value for, and the
          others, which are left out. A pair with a run that has no rankings in the group has 0
          `queries`.

    Raises
    ------
    SchemaError, ArgumentError, MissingExtraError
        As for `compare`; also for a metric that is a sum or a geometric mean.
    DataError
        For NaN or infinite values, a query twice in a run, fewer than two runs; lazily, when
        the result is collected.

    Notes
    -----
    For two runs it is the paired t test. `scipy.stats.tukey_hsd` is the unpaired test, which
    throws away that the runs answer the same queries.

    References
    ----------
    Carterette, Multiple testing in statistical analysis of systems-based information retrieval
    experiments, 2012.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({
    ...     "run": ["a"] * 3 + ["b"] * 3 + ["c"] * 3, "query": [1, 2, 3] * 3,
    ...     "rr": [0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.9, 0.9, 1.0],
    ... })
    >>> found = pr.stats.compare_all(lists)
    >>> found.select("run", "other", "difference", pl.col("p_value").round(4))
    shape: (3, 4)
    ┌─────┬───────┬────────────┬─────────┐
    │ run ┆ other ┆ difference ┆ p_value │
    │ --- ┆ ---   ┆ ---        ┆ ---     │
    │ str ┆ str   ┆ f64        ┆ f64     │
    ╞═════╪═══════╪════════════╪═════════╡
    │ b   ┆ a     ┆ 0.2        ┆ 0.021   │
    │ c   ┆ a     ┆ 0.633333   ┆ 0.0003  │
    │ c   ┆ b     ┆ 0.433333   ┆ 0.0012  │
    └─────┴───────┴────────────┴─────────┘
    """
    share("confidence", confidence)
    stats()
    agreed = agreed_on(conventions, undefined)

    schema = schema_of(table)
    keys = key_columns(schema, by=by, run=run, query=query)
    groups = keys["by"]
    free([*groups, run], COLUMNS)
    asked = variables(schema, metrics, agreed, [*groups, run, *keys["query"]], undefined=undefined)
    for each in asked:
        if each.aggregate != "mean":
            message = f"{each.name!r} is no mean over queries; compare the means of others"
            raise ArgumentError(message)
    sums = _sums(table, asked, groups, run, keys["query"])
    return _all_pairs(sums, table, asked, groups, run, confidence)


def _sums(
    rows: pl.LazyFrame,
    asked: Sequence[Variable],
    groups: Sequence[str],
    run: str,
    query: Sequence[str],
) -> pl.LazyFrame:
    """Return per group and run the mean of each metric, and the squares left of it."""
    values = {_key(index): each.value for index, each in enumerate(asked)}
    # What a query adds to all runs alike is taken off: its mean.
    blocks = rows.group_by([*groups, *query]).agg(
        pl.col(run),
        pl.len().alias(_LISTS),
        (pl.len() - pl.col(run).n_unique()).alias(_REPEATS),
        *(value.alias(key) for key, value in values.items()),
        *((value - value.mean()).alias(key + "left") for key, value in values.items()),
        *(value.count().alias(key + "count") for key, value in values.items()),
    )
    exploded = blocks.explode(run, *(key + end for key in values for end in ("", "left")))
    runs = pl.col(run).n_unique().alias(_RUNS)
    if groups:
        runs_of = rows.group_by(groups).agg(runs)
        complete = exploded.join(runs_of, on=groups, how="left", nulls_equal=True)
    else:
        complete = exploded.join(rows.select(runs), how="cross")
    found = []
    for key in values:
        whole = pl.col(key + "count") == pl.col(_RUNS)
        mean, left = (pl.when(whole).then(pl.col(key + end)) for end in ("", "left"))
        found += [
            mean.mean().alias(key + "mean"),
            (left.var(ddof=0) * left.count()).alias(key + "squares"),
            whole.sum().cast(pl.Int64).alias(key + "queries"),
        ]
    # Each query is spread over its lists: it adds up to one.
    spread = (1 / pl.col(_LISTS)).sum().alias(_SHARE)
    return grouped(complete, [*groups, run], [*found, spread, pl.col(_REPEATS).max()])


def _key(index: int) -> str:
    return f"{OWN}{index} "


def _all_pairs(
    sums: pl.LazyFrame,
    rows: pl.LazyFrame,
    asked: Sequence[Variable],
    groups: Sequence[str],
    run: str,
    confidence: float,
) -> pl.LazyFrame:
    given = schema_of(sums)
    schema = pl.Schema(
        {
            **{name: given[name] for name in groups},
            "metric": pl.String(),
            run: given[run],
            "other": given[run],
            **dict.fromkeys(COLUMNS[2:-2], pl.Float64()),
            "queries": pl.Int64(),
            "missing": pl.Int64(),
        }
    )

    def pairs(table: pl.DataFrame) -> pl.DataFrame:
        found: list[tuple[Any, ...]] = []
        there = table.get_column(run).unique().sort().to_list()
        if len(there) == 1:
            message = f"there is only one run in the column {run!r}, and nothing to compare it with"
            raise DataError(message)
        for part in table.partition_by(groups, maintain_order=True) if groups else [table]:
            _check(part, rows, asked, run)
            head = part.row(0)[: len(groups)] if part.height else ()
            for index, each in enumerate(asked):
                known = {pair[:2]: pair for pair in _tukey(part, _key(index), run, confidence)}
                lists = round(part.get_column(_SHARE).sum())
                # A run without rankings in the group has rows of 0 queries.
                found += [
                    (*head, each.name, *known.get((second, first), _absent(second, first, lists)))
                    for first, second in combinations(there, 2)
                ]
        return pl.DataFrame(found, schema=schema, orient="row")

    return sums.map_batches(pairs, schema=schema)


def _check(part: pl.DataFrame, rows: pl.LazyFrame, asked: Sequence[Variable], run: str) -> None:
    if part.height and part.get_column(_REPEATS).max():
        message = (
            f"a query stands more than once in a run of the column {run!r}; name the columns that "
            "tell lists apart with query=[...] or by=..., or drop repeats"
        )
        raise DataError(message)
    for index, each in enumerate(asked):
        if not part.get_column(_key(index) + "mean").is_finite().fill_null(value=True).all():
            raise data_error(rows, not_finite(each))


def _absent(run: Any, other: Any, missing: int) -> tuple[Any, ...]:
    return (run, other, *(None,) * len(COLUMNS[2:-2]), 0, missing)


@cache
def _quantile(confidence: float, runs: int, degrees: int) -> float:
    """Return the quantile of the studentized range: a slow search, alike for all metrics."""
    return float(stats().studentized_range.ppf(confidence, runs, degrees))


def _tukey(part: pl.DataFrame, key: str, run: str, confidence: float) -> list[tuple[Any, ...]]:
    names, means = part.get_column(run).to_list(), part.get_column(key + "mean").to_list()
    runs = len(names)
    if not runs:
        return []
    queries = min(part.get_column(key + "queries").to_list())
    missing = round(part.get_column(_SHARE).sum()) - queries
    degrees = (queries - 1) * (runs - 1)
    squares = float(part.get_column(key + "squares").sum())
    unit = math.sqrt(squares / degrees / queries) if degrees > 0 else 0.0
    distribution = stats().studentized_range
    width = _quantile(confidence, runs, degrees) * unit if unit else 0.0
    found: list[tuple[Any, ...]] = []
    for first, second in combinations(range(runs), 2):
        mean, other = means[second], means[first]
        if degrees <= 0:
            unknown: tuple[float | None, ...] = (None,) * 3
            difference = None if mean is None else mean - other
        else:
            difference = mean - other
            p_value = 1.0 if difference == 0 else 0.0
            if unit:
                p_value = float(distribution.sf(abs(difference) / unit, runs, degrees))
            unknown = (difference - width, difference + width, p_value)
        found.append(
            (names[second], names[first], mean, other, difference, *unknown, queries, missing)
        )
    return found
