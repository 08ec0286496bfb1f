"""`moments`: sums of per-query values that can be merged over days and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._formats import FORMAT_VERSION, MOMENTS
from polars_rank._params import OWN, Names, free
from polars_rank.errors import SchemaError
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.tables import collected, framed, schema_of
from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.groups import Group
from polars_rank.stats.moment_tables import (
    COLUMNS,
    COUNTS,
    FACTS,
    UNITS,
    Shape,
    in_order,
    is_moments,
    struct_type,
)
from polars_rank.stats.query_hash import mixed, query_key
from polars_rank.stats.rows import Rows, moments_of_run, rows_of_pairs
from polars_rank.stats.value_columns import check_run
from polars_rank.stats.values import Values, deferred

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics


_RUNS = OWN + "runs"


@framed
def moments(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    baseline: Any = None,
    run: str | None = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
) -> Mergeable:
    """Compute moments of per-query values, which can be merged over days, files and machines.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> days = [pl.DataFrame({"query": [1, 2], "rr": [1.0, 0.5]}),
    ...         pl.DataFrame({"query": [3, 4], "rr": [0.0, 1.0]})]
    >>> month = pr.merge([pr.moments(day) for day in days])
    >>> pr.summarize(month).select("metric", "mean", "queries")
    shape: (1, 3)
    ┌────────┬───────┬─────────┐
    │ metric ┆ mean  ┆ queries │
    │ ---    ┆ ---   ┆ ---     │
    │ str    ┆ f64   ┆ i64     │
    ╞════════╪═══════╪═════════╡
    │ rr     ┆ 0.625 ┆ 4       │
    └────────┴───────┴─────────┘

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them: one row per ranking, one column per metric.
        Also a Spark DataFrame.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats.
    baseline
        Run that the others are compared with. Default: any pair of runs can be compared later.
    run
        Column of the run. A table without the column "run" has one run.
    query
        Column or columns that identify the query. All runs of a query must be in the same part.
    by
        Columns to group by, such as days, whose moments can be merged later.
    weight
        Column of weights, 0 or more, such as the traffic of the query.
    cluster
        Columns that identify the sampling unit, such as the user. All rows of a unit must be in the
        same part.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group and run, and one per pair of runs, with the columns
        of `by`, the column of the run, and

        - `baseline`: the other run of a pair; null in the rows of single runs;
        - `queries`, `empty`: number of rankings, or of queries in both runs, and number of rankings
          without a retrieved document;
        - `parts`: fingerprints of the queries, by which `merge` finds a part that is merged twice;
        - `weighted_by`, `clustered_by`: with `weight` and `cluster`, the names of their columns;
        - for each metric, a struct of its moments.

        It can be written with `write_parquet` and read with `scan_parquet`.

    Raises
    ------
    DataError
        A query occurs twice in a run. Raised when the result is collected.
    MissingExtraError
        NumPy is not installed (extra "stats").

    Notes
    -----
    The size does not depend on the number of queries. `summarize`, `compare`, `leaderboard` and
    `power` accept moments instead of per-query values.

    References
    ----------
    Chan, Golub & LeVeque, Updating formulae and a pairwise algorithm for computing sample
    variances, 1979.
    """
    schema = schema_of(values)
    if is_moments(schema):
        raise SchemaError("the table already has moments; merge moments with pr.merge(...)")
    source = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        needs_query=baseline is not None, needs_run=baseline is not None,
    )  # fmt: skip
    if baseline is not None:
        check_run("baseline", baseline, str(source.run), schema[str(source.run)])
    free([*source.by, *([] if source.run is None else [source.run])], COLUMNS)
    has_query = query != "query" or "query" in schema
    add_up = partial(_moments, source=source, baseline=baseline, has_query=has_query)
    # Each cluster, with all runs of its queries, must be in one part.
    return Mergeable(source.cluster or source.query, add_up, _merge, _as_one_part)


def _moments(
    values: pl.LazyFrame, source: Values, baseline: Any, *, has_query: bool
) -> pl.LazyFrame:
    """Return the moments of per-query values, one row per group and run or pair of runs."""
    schema, source = source.schema, replace(source, table=values)
    run_type = pl.String() if source.run is None else schema[source.run]
    types: dict[str, pl.DataType] = {name: schema[name] for name in source.by}
    if source.run is not None:
        types |= {source.run: run_type, "baseline": run_type}
    types |= {"queries": pl.Int64(), "empty": pl.Int64(), "parts": pl.List(pl.Int64)}
    texts = dict(zip(UNITS, (source.weight, ", ".join(source.cluster) or None), strict=True))
    types |= {name: pl.String() for name, text in texts.items() if text is not None}
    types |= {each.name: struct_type(run_type) for each in source.metrics}

    def result() -> pl.DataFrame:
        groups = source.facts_and_groups()[1]
        rows = [row for group in groups for row in _own_rows(group)]
        several = source.run is not None and has_query
        if several and (baseline is not None or any(len(group.rows) > 1 for group in groups)):
            pairs = rows_of_pairs(source, baseline, every=baseline is None, groups=groups)
            rows += _pair_table(pairs, source)
        columns = {name: [row.get(name, texts.get(name)) for row in rows] for name in types}
        table = pl.DataFrame([pl.Series(n, columns[n], dtype) for n, dtype in types.items()])
        return in_order(table, source.by, source.run)

    return deferred(result, types)


def of_moments(schema: pl.Schema) -> Mergeable | None:
    """Return how results of `moments` are merged; None if a table has another schema."""
    return Mergeable((), _merge, _merge, lambda sums: sums) if is_moments(schema) else None


def _merge(parts: pl.LazyFrame) -> pl.LazyFrame:
    """Return the moments of the whole, given those of parts."""
    schema = schema_of(parts)
    shape = Shape.of(schema)
    return deferred(lambda: shape.added(collected(parts), shape.by, pooled=False), schema)


def _as_one_part(sums: pl.LazyFrame) -> pl.LazyFrame:
    """Return moments whose fingerprints of parts are added to the one of their union."""
    parts = pl.col("parts")
    several = parts.list.len() > 1
    return sums.with_columns(
        pl.when(several).then(pl.concat_list(parts.list.sum())).otherwise(parts)
    )


def _own_rows(group: Group) -> list[dict[str, Any]]:
    """Return the row of each run of a group."""
    np, source = numpy(), group.source
    if source.query:
        group.check_unique()
    head = dict(zip(source.by, group.key, strict=True))
    number = group.n_units if group.units is not None or source.query else 0
    letters: dict[tuple[str, Any], tuple[Array, Array]] = {}
    rows = []
    for run, of_run in group.rows.items():
        row = {**head, "queries": len(of_run), "empty": group.empty(of_run), "parts": []}
        if source.run is not None:
            row |= {source.run: run, "baseline": None}
        if source.query:
            key = query_key(source.query, [group.frame.schema[name] for name in source.query])
            hashes = group.frame.select(mixed(key)).to_series().to_numpy()[of_run]
            row["parts"] = [int(hashes.sum(dtype=np.uint64).astype(np.int64))]
        for variable in source.metrics:
            sums, of_units = moments_of_run(group, variable.name, of_run)
            values = group.column(variable.name)[of_run]
            known = values[~np.isnan(values)]
            undefined = group.undefined(variable.name)
            facts = (None, None, 0.0)
            if len(known):
                facts = (known.min(), known.max(), np.abs(known * (1 - known)).sum())
            row[variable.name] = {
                **sums, **dict(zip(FACTS, facts, strict=True)), **dict.fromkeys(COUNTS, 0),
                "undefined": 0 if undefined is None else int(undefined[of_run].sum()),
                FORMAT_VERSION: MOMENTS, "lower_is_better": variable.lower_is_better, "cross": [],
            }  # fmt: skip
            if source.run is not None and source.query:
                letters[variable.name, run] = _dense(group, variable.name, of_run, of_units, number)
        rows.append(row)
    for variable in source.metrics:
        if source.run is not None and source.query:
            _add_cross(rows, variable.name, source.run, letters)
    return rows


def _dense(
    group: Group, metric: str, rows: Array, letters: Mapping[str, Array], number: int
) -> tuple[Array, Array]:
    """Return the deviations and weights of all units of a group, 0 where a run has no value."""
    np = numpy()
    (counted,) = group.counted(metric, rows)
    units = group.queries[counted] if group.units is None else group.units[counted]
    present = units if group.units is None else np.unique(units)
    dense = np.zeros(number), np.zeros(number)
    dense[0][present], dense[1][present] = letters["d"], letters["w"]
    return dense


def _add_cross(
    rows: Sequence[dict[str, Any]], metric: str, run: str, letters: Mapping[tuple[str, Any], Any]
) -> None:
    """Add the products with other runs to the struct of a metric."""
    for row in rows:
        y, w = letters[metric, row[run]]
        row[metric]["cross"] = [
            {"run": other[run], "yy": float(y @ v), "yw": float(y @ u), "wy": float(w @ v),
             "ww": float(w @ u), "mean": other[metric]["md"]}
            for other in rows
            for v, u in [letters[metric, other[run]]]
        ]  # fmt: skip


def _pair_table(pairs: Rows, source: Values) -> list[dict[str, Any]]:
    """Return one row per group and pair of runs."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key, sums, counts in zip(pairs.keys, pairs.sums, pairs.counts, strict=True):
        row = rows.setdefault(
            (key.group, key.run, key.baseline),
            {
                **dict(zip(source.by, key.group, strict=True)), str(source.run): key.run,
                "baseline": key.baseline, "queries": counts["queries"], "empty": None, "parts": [],
            },
        )  # fmt: skip
        row[key.metric] = {
            **sums, "low": None, "high": None, "between": 0.0,
            **{name: counts[name] for name in COUNTS}, FORMAT_VERSION: MOMENTS,
            "lower_is_better": source.lower_is_better[key.metric], "cross": [],
        }  # fmt: skip
    return [*rows.values()]
