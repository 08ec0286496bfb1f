"""`slices`: in which slices of the queries runs differ."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any, get_args

import polars as pl
from polars import selectors

from polars_rank._params import (
    OWN,
    Names,
    free,
    one_of,
    share,
    some_names,
    whole_number,
)
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats.baselines import against_baseline
from polars_rank.stats.differences import COLUMNS, result_of, with_tests
from polars_rank.stats.hypotheses import Hypothesis, warn_of_skewed
from polars_rank.stats.intervals import Alternative, special, warn_of_effective, warn_of_equal
from polars_rank.stats.moment_tables import DIFFERENCE, paired_sums
from polars_rank.stats.per_query_tables import EMPTY, variables, with_definitions
from polars_rank.stats.prediction_estimates import ESTIMATE_COLUMNS, HUMAN_UNITS
from polars_rank.stats.predictions import (
    check_columns,
    check_predictions,
    predicted_values,
    with_predictions,
)
from polars_rank.stats.run_pairs import SLICE, Pairs
from polars_rank.stats.significance import Correction, Testing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined

_SLICE, _WEIGHT = OWN + "slice", DIFFERENCE + "weight"
_SEPARATOR = " & "


@framed_table
def slices(
    values: pl.LazyFrame,
    metric: str | pl.Expr,
    *,
    slices: Names,
    baseline: Any,
    run: str = "run",
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    pairs: bool = False,
    min_queries: int = 30,
    correction: Correction = "bh",
    alternative: Alternative = "two-sided",
    margin: float = 0.0,
    relative_margin: float | None = None,
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    predictions: Any = None,
    probability: str | None = None,
) -> pl.LazyFrame:
    r"""Compare runs in slices of the queries, to see where a difference comes from.

    $$\mathrm{contribution}_s = \frac{\sum_{q \in s} w_q d_q}{\sum_q w_q}$$

    The contributions of all values of a column add up to the whole difference.

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query(by="run", keep=...)` returns them, with
        columns that are constant within a query, such as its country.
    metric
        Name of a column, or a metric such as `pr.ndcg(10)`.
    slices
        Columns whose values are slices.
    baseline
        The run that the others are compared with.
    run
        Column of runs.
    query
        Columns that identify the query. If there is no column "query": the one column that
        identifies the rows of each run, besides runs, groups, metrics, counts and constant
        columns; if there is none or several, name the columns. To find it among several columns,
        the table is read once more.
    weight
        Column of query weights, 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query, as in `compare`.
    pairs
        Whether to add slices by pairs of columns.
    min_queries
        Minimum number of queries to test a slice. Smaller slices have no interval and no p-value,
        and do not count in the correction.
    correction
        Correction of the p-values for the number of slices: "bh" (false discovery rate), "holm",
        "bonferroni" or "none".
    alternative, margin, relative_margin
        Alternative hypothesis in each slice, and its margin, as in `compare`.
    confidence
        Confidence level, between 0 and 1. With the alternative "equivalent", intervals have the
        level 2 * `confidence` - 1.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the table names, as `per_query` returns it; else the
        default.
    predictions
        Per-query values of the same metric and rankings from predicted labels, for all queries, as
        in `compare`, with the columns of `slices`.
    probability
        Column of `values` with the probability with which a query was chosen for people to judge.
        None: all queries were equally likely.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per slice and run other than the baseline. For each run, the
        slice with the lowest contribution comes first. The columns are

        - `column`, `value`: the slice. The value is text, or null for null. For a pair of columns,
          both are joined by " & ", with "null" for null, and with quotes around a text that is
          "null", contains " & " or starts with a quote;
        - `metric`, and the column of the run;
        - `mean`, `baseline_mean`: means over the queries in both runs;
        - `missing`: number of queries in only one of the runs;
        - `empty`: number of the run's rankings without a retrieved document, if the table has the
          column `num_retrieved`, as `per_query(by=...)` returns it;
        - `predicted`, `judge_weight`, `effective_queries`: with `predictions`, as in `compare`;
        - `small`: whether there are fewer than `min_queries` queries;
        - `used`, `effective`, `skewness`, `interval`, `confidence`, `relative_difference`,
          `relative_low`, `relative_high`: as in `compare`;
        - `low_corrected`, `high_corrected`: confidence interval of the difference that is corrected
          for the number of slices, as in `compare`;
        - `p_value`, `low`, `high`: test of `compare` (`test="auto"`), and confidence interval of
          the difference;
        - `queries`: number of queries in both runs;
        - `difference`: `mean` - `baseline_mean`;
        - `p_corrected`: corrected p-value;
        - `contribution`: the slice's part of the whole difference; null for 0 queries.

    Raises
    ------
    ArgumentError
        The metric is a sum or a geometric mean, whose differences do not add up.
    DataError
        A query occurs twice in a run, the baseline does not exist, or there is no other run. Raised
        when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        Most rankings of a run have no retrieved document, all differences of a slice are equal, it
        has fewer than 30 effective units with weights or clusters, or t tests claim equivalence for
        fewer than 25 · G² units for a skewness of G.

    Notes
    -----
    A query belongs to the slice of its row in the run, not of its row in the baseline.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4, "query": [1, 2, 3, 4] * 2,
    ...     "country": ["DE", "DE", "FR", "FR"] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 1.0, 1.0, 0.75, 1.0, 0.5],
    ... })
    >>> countries = pr.slices(
    ...     values, "rr", slices="country", baseline="a", min_queries=2
    ... )
    >>> countries.select("value", "difference", "queries", "contribution")
    shape: (2, 4)
    ┌───────┬────────────┬─────────┬──────────────┐
    │ value ┆ difference ┆ queries ┆ contribution │
    │ ---   ┆ ---        ┆ ---     ┆ ---          │
    │ str   ┆ f64        ┆ i64     ┆ f64          │
    ╞═══════╪════════════╪═════════╪══════════════╡
    │ FR    ┆ -0.25      ┆ 2       ┆ -0.125       │
    │ DE    ┆ 0.375      ┆ 2       ┆ 0.1875       │
    └───────┴────────────┴─────────┴──────────────┘
    """
    sliced_by = some_names("slices", slices)
    one_of("correction", correction, get_args(Correction))
    share("confidence", confidence)
    whole_number("min_queries", min_queries)
    special()
    hypothesis = Hypothesis.of(alternative, margin, relative_margin, confidence)
    hypothesis.check_margin(predictions=predictions is not None)
    check_predictions(predictions, probability)
    values, definitions = with_definitions(values, conventions, undefined)
    testing = Testing("auto", alternative, confidence, n_resamples=1, seed=0)

    schema = schema_of(values)
    whole = Pairs.of(
        values, by=None, run=run, query=query, baseline=baseline, metrics=[metric], weight=weight,
        cluster=cluster, slices=sliced_by,
    )  # fmt: skip
    free([run], ("column", "value", "small", "contribution", *COLUMNS), "run")
    keys = {**whole.columns, "slices": sliced_by}
    (variable,) = variables(schema, [metric], definitions, keys, "metric", undefined)
    if variable.aggregate != "mean":
        raise ArgumentError(
            f"the metric {variable.name!r} is not a mean over queries, so its slices do not add up",
        )
    of_row = _slices(sliced_by, pairs=pairs).alias(_SLICE)
    sliced = values.with_columns(of_row)
    moments = paired_sums(sliced, [variable], whole, definitions, slices=_SLICE)
    if predictions is not None:
        predicted = predicted_values(predictions, definitions, conventions, undefined)
        check_columns(predicted, sliced_by)
        moments = with_predictions(
            moments, values, predicted.with_columns(of_row), [variable], whole.columns,
            weight=weight, probability=probability, pairs=whole, slices=_SLICE,
        )  # fmt: skip
    moments = moments.rename(dict(zip(SLICE, ("column", "value"), strict=True)))
    compared = against_baseline(
        moments, ["column", "value"], run, baseline, empty_by=[run], repeated=["metric", "column"]
    )
    results = with_tests(compared, testing, correction, hypothesis, at_least=min_queries)
    of_rows = ["column", "value", "metric", run]
    result = result_of(
        results, of_rows, "auto", weighted=whole.is_weighted, also=[_WEIGHT, HUMAN_UNITS]
    )
    return _result(result, run, min_queries, hypothesis.alpha(confidence))


def _slices(columns: Sequence[str], *, pairs: bool) -> pl.Expr:
    """Return the slices of each row as a list of structs."""
    single = [(column,) for column in columns]
    several = [*single, *(combinations(columns, 2) if pairs else ())]
    structs = [
        pl.struct(pl.lit(_SEPARATOR.join(each)).alias(SLICE[0]), _value(each).alias(SLICE[1]))
        for each in several
    ]
    return pl.concat_list(structs)


def _value(columns: Sequence[str]) -> pl.Expr:
    """Return the value of a slice as text: null for null; values of several columns are joined."""
    texts = [pl.col(name).cast(pl.String) for name in columns]
    if len(texts) == 1:
        return texts[0]
    return pl.concat_str([_quoted(text) for text in texts], separator=_SEPARATOR)


def _quoted(text: pl.Expr) -> pl.Expr:
    """Return "null" for null, and text in quotes if it would be ambiguous."""
    in_quotes = pl.format('"{}"', text.str.replace_all('"', '""', literal=True))
    ambiguous = (
        (text == "null") | text.str.contains(_SEPARATOR, literal=True) | text.str.starts_with('"')
    )
    return pl.when(ambiguous).then(in_quotes).otherwise(text).fill_null("null")


def _result(table: pl.LazyFrame, run: str, min_queries: int, alpha: float | None) -> pl.LazyFrame:
    """Return the columns of slices, with warnings; `alpha` is that of tests of equivalence."""
    whole = pl.col(_WEIGHT).sum().over(run, "column")
    effective = selectors.by_name("effective", *ESTIMATE_COLUMNS, require_all=False)
    # Polars prints the first four and the last four columns of a wide table.
    result = table.select(
        "column", "value", "metric", run, "mean", "baseline_mean", "relative_difference",
        "relative_low", "relative_high", "skewness", "used", effective, "missing",
        selectors.by_name(EMPTY, require_all=False),
        (pl.col("queries") < min_queries).alias("small"), "interval", "confidence",
        "low_corrected", "high_corrected", "p_value", "low", "high", "queries", "difference",
        "p_corrected", (pl.col("difference") * pl.col(_WEIGHT) / whole).alias("contribution"),
        HUMAN_UNITS,
    )  # fmt: skip
    ordered = result.sort(run, "contribution", "column", "value", nulls_last=True)

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        _warn(rows)
        if alpha is not None:
            keys = ["column", "value", "metric", run]
            warn_of_skewed(rows, keys, rows.get_column(HUMAN_UNITS), alpha)
        return rows

    return ordered.map_batches(check).drop(HUMAN_UNITS)


def _warn(table: pl.DataFrame) -> None:
    """Warn of slices whose intervals are unreliable or missing."""
    small, low = table.get_column("small"), table.get_column("low")
    if "effective" in table.columns:
        warn_of_effective(table, ~small)
    equal = ~small & low.is_null() & table.get_column("difference").is_not_null()
    warn_of_equal(table, equal & table.get_column("skewness").is_null(), "differences")
