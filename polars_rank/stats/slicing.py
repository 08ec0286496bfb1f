"""`slices`: where a difference between two runs comes from, and where it goes the other way."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, find_columns, names, share, whole_number
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats.comparison import against_baseline, result_of, tested
from polars_rank.stats.intervals import stats
from polars_rank.stats.moment_tables import DIFFERENCE, paired_sums
from polars_rank.stats.pairs import Pairs
from polars_rank.stats.significance import Testing, corrected
from polars_rank.stats.tables import EMPTY, agreed_on, variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.stats.significance import Correction

_SLICE, _COUNTED = OWN + "slice", DIFFERENCE + "counted"
_BETWEEN = " & "


@framed_table
def slices(
    table: pl.LazyFrame,
    metric: str | pl.Expr,
    *,
    columns: Names,
    baseline: Any,
    run: str = "run",
    query: Names = "query",
    pairs: bool = False,
    min_queries: int = 30,
    correction: Correction = "bh",
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
) -> pl.LazyFrame:
    r"""Compare two runs in every slice: where the difference comes from, and where it turns.

    $$\mathrm{contribution}_s = \frac{\sum_{q \in s} d_q}{n}$$

    which, over the values of a column, add up to the whole difference.

    Parameters
    ----------
    table
        What `per_query` returns of several runs, with columns that are constant within a query,
        such as its country.
    metric
        One column, or metric.
    columns
        The columns whose values are slices.
    run, baseline, query
        As for `compare`.
    pairs
        Whether pairs of values of two of the columns are slices, too.
    min_queries
        Slices of fewer queries are too `small` to tell: they have no interval and no p-value,
        and do not count among the tests.
    correction
        Of the p-values, over all slices: "bh" holds the false discovery rate.
    confidence, undefined, conventions
        As for `compare`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `table`: a row per run other than the baseline, column and value, those that pull
        the difference down most first, with

        - `run` (under its own name), `column`, `value`: the value as text, null for null; of a
          pair both, with " & " between, "null" for null, and in quotes a text that is "null",
          contains " & " or begins with a quote;
        - `metric`; `queries`, `missing`: those in both runs, and on one side only; a slice in
          which the run has no rankings has 0 and those of the baseline; `empty` as of `compare`;
        - `baseline_mean`, `mean`, `difference`, `low`, `high`, `p_value`, `p_corrected`: as in
          `compare`, by the t test;
        - `contribution`: how much of the whole difference is from this slice; null for 0 queries;
        - `small`: whether it is too small to tell.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `compare`; also for a metric that is a sum or a geometric mean, whose difference
        does not add up.

    Warns
    -----
    RankWarning
        For a run most of whose rankings have no retrieved document; when the result is collected.

    Notes
    -----
    A query belongs to the slice that its row in the run, not in the baseline, says.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4, "query": [1, 2, 3, 4] * 2,
    ...     "country": ["DE", "DE", "FR", "FR"] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5],
    ... })
    >>> found = pr.slices(lists, "rr", columns="country", baseline="a", min_queries=2)
    >>> found.select("value", "queries", "difference", "contribution")
    shape: (2, 4)
    ┌───────┬─────────┬────────────┬──────────────┐
    │ value ┆ queries ┆ difference ┆ contribution │
    │ ---   ┆ ---     ┆ ---        ┆ ---          │
    │ str   ┆ i64     ┆ f64        ┆ f64          │
    ╞═══════╪═════════╪════════════╪══════════════╡
    │ FR    ┆ 2       ┆ -0.25      ┆ -0.125       │
    │ DE    ┆ 2       ┆ 0.5        ┆ 0.25         │
    └───────┴─────────┴────────────┴──────────────┘
    """
    asked = names("columns", columns)
    if not asked:
        message = "`columns` must name at least one column; every value of it is a slice"
        raise ArgumentError(message, "columns")
    share("confidence", confidence)
    whole_number("min_queries", min_queries)
    stats()
    agreed = agreed_on(conventions, undefined)
    testing = Testing("t", "two-sided", confidence, n_resamples=1, seed=0)

    schema = schema_of(table)
    find_columns(schema, {"columns": asked})
    whole = Pairs.of(schema, by=None, run=run, query=query, baseline=baseline)
    keys = [*whole.columns, *asked]
    (variable,) = variables(schema, [metric], agreed, keys, "metric", undefined)
    if variable.aggregate != "mean":
        message = f"{variable.name!r} is no mean over queries; its slices do not add up"
        raise ArgumentError(message)
    # The slice of the run's own row: of the baseline, a query has the same value in all.
    sliced = table.with_columns(_slices(asked, pairs=pairs).alias(_SLICE))
    moments = paired_sums(sliced, [variable], whole, agreed, slices=_SLICE)
    chosen = against_baseline(
        moments, ["column", "value"], run, baseline, told=[run], again=["metric", "column"]
    )
    known = tested(chosen, testing, "none", 0.0)
    result = result_of(known, [run, "column", "value", "metric"], "t", [_COUNTED])
    return _finished(result, run, min_queries, correction)


def _slices(columns: Sequence[str], *, pairs: bool) -> pl.Expr:
    """Return for each list the slices that it belongs to."""
    single = [(column,) for column in columns]
    several = [*single, *(combinations(columns, 2) if pairs else ())]
    made = [
        pl.struct(
            pl.lit(_BETWEEN.join(each)).alias("column"),
            _value(each).alias("value"),
        )
        for each in several
    ]
    return pl.concat_list(made)


def _value(columns: Sequence[str]) -> pl.Expr:
    """Return the value of a slice as text: null for null; of several columns, texts apart."""
    texts = [pl.col(name).cast(pl.String) for name in columns]
    if len(texts) == 1:
        return texts[0]
    return pl.concat_str([_quoted(text) for text in texts], separator=_BETWEEN)


def _quoted(text: pl.Expr) -> pl.Expr:
    """Return text that is "null" for null, and in quotes where it could be taken for another."""
    in_quotes = pl.format('"{}"', text.str.replace_all('"', '""', literal=True))
    ambiguous = (
        (text == "null") | text.str.contains(_BETWEEN, literal=True) | text.str.starts_with('"')
    )
    return pl.when(ambiguous).then(in_quotes).otherwise(text).fill_null("null")


def _finished(
    table: pl.LazyFrame, run: str, min_queries: int, correction: Correction
) -> pl.LazyFrame:
    small = pl.col("queries") < min_queries
    whole = pl.col(_COUNTED).sum().over(run, "column")
    columns = ["low", "high", "p_value"]
    ready = table.select(
        run, "column", "value", "metric", "queries", "missing",
        *(name for name in (EMPTY,) if name in schema_of(table)),
        "baseline_mean", "mean", "difference",
        *(pl.when(~small).then(pl.col(name)).alias(name) for name in columns),
        pl.lit(None, dtype=pl.Float64).alias("p_corrected"),
        (pl.col("difference") * pl.col(_COUNTED) / whole).alias("contribution"),
        small.alias("small"),
    )  # fmt: skip

    def correct(rows: pl.DataFrame) -> pl.DataFrame:
        found = corrected(rows.get_column("p_value").to_list(), correction)
        made = pl.Series("p_corrected", found, dtype=pl.Float64)
        return pl.DataFrame([made if c.name == made.name else c for c in rows.get_columns()])

    done = ready.map_batches(correct, schema=ready.collect_schema())
    return done.sort(run, "contribution", "column", "value", nulls_last=True)
