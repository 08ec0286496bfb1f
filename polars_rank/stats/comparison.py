"""`compare`: whether one run is better than another, by how much, and how sure that is."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank._params import OWN, Names, free, number, one_of, share, whole_number
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import sums
from polars_rank.stats.intervals import FEW, Alternative, stats, warn_of_range
from polars_rank.stats.moment_tables import (
    DIFFERENCE,
    KINDS,
    PAIR_MEANS,
    QUERY_KEYS,
    VALUES,
    groups_of,
    is_moments,
    paired_sums,
    regrouped,
)
from polars_rank.stats.pairs import Pairs, is_run
from polars_rank.stats.resampling import check_seed
from polars_rank.stats.significance import Correction, Found, Sample, Test, Testing, corrected
from polars_rank.stats.tables import (
    EMPTY,
    agreed_on,
    key_columns,
    only_metrics,
    rows_told,
    settled,
    some_of,
    variables,
    warn_of_empty,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

COLUMNS = (
    *("metric", "baseline_mean", "mean", "difference", "relative_difference", "low", "high"),
    *("p_value", "p_corrected", "effect_size", "wins", "ties", "losses", "queries", "missing"),
    *("undefined", EMPTY, "warning"),
)
#: Above this number of queries, Wilcoxon's test and the sign test are not to be trusted.
MANY = 1_000

_MEAN, _ERROR, _NULL = OWN + "mean", OWN + "error", OWN + "null"
_OF_BASELINE = OWN + "of baseline"
_SHARES, _UNITS = OWN + "shares", OWN + "units"
_IS_BASELINE, _PLACE = OWN + "is baseline", OWN + "place"


@framed_table
def compare(
    table: pl.LazyFrame,
    *,
    run: str = "run",
    baseline: Any,
    metrics: Metrics | None = None,
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    test: Test = "t",
    correction: Correction = "holm",
    alternative: Alternative = "two-sided",
    margin: float = 0.0,
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Compare runs with a baseline, query by query.

    $$d_q = x_q - b_q, \qquad t = \frac{\bar d}{s_d / \sqrt n}$$

    over the queries that have a list in both runs.

    Parameters
    ----------
    table
        What `per_query` returns of several runs: a row per list, a column per metric, null where
        undefined. Or `moments` with the same `run` and `baseline`, for the tests "t" and "sign".
    run, baseline
        The column that tells runs apart, and its value for the run that the others are compared
        with.
    metrics
        The columns to take, or metrics (`pr.ndcg(10)`); None for all columns of floats.
    by
        Columns that split the table.
    query
        The columns that tell the lists of a run (and group) apart.
    weight, cluster
        As for `summarize`; with the test "t" only. A query whose list in the run has a null
        cluster is a unit of its own.
    test
        "t" (paired); "randomization" of the signs of the differences (Fisher), exact for up to
        16 queries, which assumes that differences with mean 0 are symmetric: of simulations with
        exponential ones 0.10 had a p-value below 0.05 with 10 queries, 0.06 with 100; "bootstrap"
        (studentized, Poisson), null where too many resamples have no spread;
        "wilcoxon" (signed ranks); "sign".
    correction
        Of the p-values for the number of rows in the result: "holm", "bh" (the false discovery
        rate of Benjamini and Hochberg), "bonferroni" or "none".
    alternative
        What is to be shown: that the run is "greater", "less", or either ("two-sided").
    margin
        With "greater": to show that the run is not worse than the baseline by this much or more
        (non-inferiority); with "less": not greater by this much.
    confidence
        Of the interval, between 0 and 1; a one-sided alternative has a one-sided interval.
    undefined, conventions
        As in `evaluate`, with the same default: where both runs have the same queries, the
        difference is that of `evaluate`'s means.
    n_resamples, seed
        Of the randomization and the bootstrap, which give the same result for the same seed, in
        any order of rows.

    Returns
    -------
    LazyFrame or DataFrame
        Like `table`: a row per group, metric and run other than the baseline, in this order. A
        run that has no rankings in a group of the baseline has a row there, too, with 0
        `queries` and those of the baseline as `missing`. With the `by` columns and

        - `metric`, `run` (under its own name);
        - `baseline_mean`, `mean`, `difference`, `relative_difference` (to the baseline's mean):
          over the queries in both runs;
        - `low`, `high`: the interval of the difference; from the draws for "bootstrap", else
          that of t;
        - `p_value`, `p_corrected`; null for fewer than two pairs, and as `low` and `high` for a
          "bootstrap" of which more resamples than 1 - `confidence` have no spread, because few
          queries differ;
        - `effect_size`: Cohen's dz, the mean difference over its standard deviation; null where
          that is 0;
        - `wins`, `ties`, `losses`: queries with a higher, the same, a lower value;
        - `queries`, `missing`, `undefined`: those in both runs, on one side only, and undefined
          on either side;
        - `empty`: rankings of the run without a retrieved document, if the lists have a column
          `num_retrieved`, as `per_query(by=...)` makes it;
        - for "wilcoxon" and "sign" also `warning`, null or in words.

        For a geometric mean, the test is of the logarithms, and the interval takes the
        baseline's mean as it is.

    Raises
    ------
    SchemaError
        For a missing or not numeric column, or a log in place of per-query values.
    DataError
        For NaN or infinite values, a query twice in a run, weights that are null, negative or
        differ between runs, a baseline that is not there, or no other run; lazily, when the
        result is collected.
    ArgumentError
        For a parameter out of its range, a `margin` without a direction, or a test that moments,
        weights or clusters do not allow.
    MissingExtraError
        Without scipy (extra "stats").

    Warns
    -----
    RankWarning
        For a run that shares no query with the baseline in a group, or most of whose rankings
        there have no retrieved document, for "wilcoxon" and "sign" above 1,000 queries, for
        "bootstrap" below 30 queries or where it is null, and for an interval of fewer than 30
        units that leaves [-1, 1] where the metric seems to be in [0, 1]; when the result is
        collected.

    Notes
    -----
    Wilcoxon's test and the sign test ask about ranks and signs, not about the mean: on many
    queries with skewed differences they reject far too often (Ihemelandu & Ekstrand, 2023).
    Prefer "t", or "randomization" for few queries.

    References
    ----------
    Smucker, Allan & Carterette, A comparison of statistical significance tests for information
    retrieval evaluation, 2007.
    Ihemelandu & Ekstrand, Inference at scale: significance testing for large search and
    recommendation experiments, 2023.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4,
    ...     "query": [1, 2, 3, 4] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 0.0, 1.0, 0.5, 1.0, 0.5],
    ... })
    >>> found = pr.compare(lists, baseline="a")
    >>> found.select("run", "baseline_mean", "mean", "difference", "p_value", "wins", "ties")
    shape: (1, 7)
    ┌─────┬───────────────┬──────┬────────────┬─────────┬──────┬──────┐
    │ run ┆ baseline_mean ┆ mean ┆ difference ┆ p_value ┆ wins ┆ ties │
    │ --- ┆ ---           ┆ ---  ┆ ---        ┆ ---     ┆ ---  ┆ ---  │
    │ str ┆ f64           ┆ f64  ┆ f64        ┆ f64     ┆ i64  ┆ i64  │
    ╞═════╪═══════════════╪══════╪════════════╪═════════╪══════╪══════╡
    │ b   ┆ 0.5           ┆ 0.75 ┆ 0.25       ┆ 0.18169 ┆ 2    ┆ 2    │
    └─────┴───────────────┴──────┴────────────┴─────────┴──────┴──────┘
    """
    one_of("test", test, get_args(Test))
    one_of("correction", correction, get_args(Correction))
    check_direction(alternative, margin)
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    check_seed(seed)
    stats()
    if test != "t" and (weight is not None or cluster is not None):
        message = f"`weight` and `cluster` go with `test` 't'; found {test!r}"
        raise ArgumentError(message, "weight", "cluster", "test")
    agreed = agreed_on(conventions, undefined)
    testing = Testing(test, alternative, confidence, n_resamples, seed)
    needs_values = test not in ("t", "sign") or (test == "sign" and margin != 0)

    schema = schema_of(table)
    if is_moments(schema):
        settled(undefined, conventions)
        given = {"weight": weight, "cluster": cluster}
        _refuse({**given, f"test={test!r}": needs_values})
        groups = groups_of_moments(schema, by, run, baseline)
        moments = regrouped(only_metrics(table, metrics), [*groups, run])
    else:
        pairs = Pairs.of(
            schema, by=by, run=run, query=query, baseline=baseline, weight=weight,
            cluster=cluster,
        )  # fmt: skip
        groups = [*pairs.by]
        free([*groups, run], COLUMNS)
        asked = variables(schema, metrics, agreed, pairs.columns, undefined=undefined)
        moments = paired_sums(table, asked, pairs, agreed, values=needs_values)
    chosen = against_baseline(moments, groups, run, baseline)
    known = tested(chosen, testing, correction, margin)
    shares = (pl.col("aggregate") == "mean") & sums.shares()
    known = known.with_columns(
        (shares & pl.col("baseline_mean").is_between(0, 1)).alias(_SHARES),
        pl.col(DIFFERENCE + "units").alias(_UNITS),
    )
    result = result_of(known, [*groups, "metric", run], test, [_SHARES, _UNITS])
    return _warned(result, groups, run, test)


def check_direction(alternative: str, margin: float) -> None:
    """Raise `ArgumentError` unless the two go together."""
    one_of("alternative", alternative, get_args(Alternative))
    if number("margin", margin, "0 or above") < 0:
        message = f"`margin` must be 0 or above; found {margin!r}"
        raise ArgumentError(message, "margin")
    if margin and alternative == "two-sided":
        message = (
            "`margin` needs a direction: `alternative` 'greater' shows that the run is not worse "
            "than the baseline by that much, where higher is better"
        )
        raise ArgumentError(message, "margin", "alternative")


def _refuse(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value:
            message = f"moments have no lists left for `{name}`; give compare the lists"
            raise ArgumentError(message, name)


def groups_of_moments(schema: pl.Schema, by: Names | None, run: str, baseline: Any) -> list[str]:
    """Return the groups that are asked of moments of differences."""
    if "baseline" not in schema:
        message = (
            "the moments have no differences; compute them with the run column "
            f"{run!r} and the baseline {baseline!r}"
        )
        raise SchemaError(message)
    found = key_columns(schema, by=by, run=run)
    unknown = {run, *found["by"]} - set(groups_of(schema))
    if unknown:
        message = (
            f"the moments are not split by {unknown.pop()!r}; split them when they are computed"
        )
        raise ArgumentError(message)
    return [*found["by"]]


def against_baseline(
    table: pl.LazyFrame,
    groups: Sequence[str],
    run: str,
    baseline: Any,
    *,
    told: Sequence[str] | None = None,
    again: Sequence[str] = ("metric",),
) -> pl.LazyFrame:
    """Return the moments of the other runs, with how many rankings the baseline has.

    A run without rankings in a group of the baseline has a row of zeros there. In the order of
    groups, metrics and runs. Warns of empty rankings by the columns `told`, those of groups and
    runs if there are none; see `warn_of_empty`.
    """
    schema = schema_of(table)
    marked = table.with_columns(is_run(run, schema[run], baseline).alias(_IS_BASELINE))

    def others(rows: pl.DataFrame) -> pl.DataFrame:
        _check_runs(rows, run, baseline)
        warn_of_empty(rows, [*groups, run] if told is None else told, again)
        return rows

    checked = marked.map_batches(others, schema=marked.collect_schema()).cache()
    checked = pl.concat([checked, _lacking(checked, groups, run)])
    of_baseline = pl.col("queries").filter(pl.col(_IS_BASELINE)).first()
    keys = [*groups, "metric"]
    return (
        checked.with_row_index(_PLACE)
        .with_columns(
            of_baseline.over(keys).fill_null(0).alias(_OF_BASELINE),
            # The metrics of a run are in the order in which they were asked for.
            pl.col(_PLACE).min().over(keys),
        )
        .filter(~pl.col(_IS_BASELINE))
        .sort([*groups, _PLACE, run])
        .drop(_IS_BASELINE, _PLACE)
    )


def _lacking(table: pl.LazyFrame, groups: Sequence[str], run: str) -> pl.LazyFrame:
    """Return a row of zeros for each run that lacks a group and metric of the baseline."""
    schema = schema_of(table)
    others = table.filter(~pl.col(_IS_BASELINE))
    of_baseline = table.filter(_IS_BASELINE).drop(run)
    rows = of_baseline.join(others.select(run).unique(), how="cross").join(
        others.select(*groups, "metric", run),
        on=[*groups, "metric", run],
        how="anti",
        nulls_equal=True,
    )
    kept = {*groups, *KINDS, "baseline", run}
    means = {"mean", *PAIR_MEANS, DIFFERENCE + "mean"}
    empty = {
        name: pl.lit(None if name in means or not dtype.is_numeric() else 0, dtype=dtype)
        for name, dtype in schema.items()
        if name not in kept
    }
    empty[_IS_BASELINE] = pl.lit(value=False)
    empty |= {name: pl.lit([], dtype=schema[name]) for name in _LISTS if name in schema}
    return rows.with_columns(value.alias(name) for name, value in empty.items()).select(*schema)


def _check_runs(rows: pl.DataFrame, run: str, baseline: Any) -> None:
    if not rows.height:
        return
    is_baseline = rows.get_column(_IS_BASELINE)
    there = rows.get_column(run).unique().sort()
    told = ", ".join(repr(each) for each in there[:10]) + (", ..." if there.len() > 10 else "")
    if not is_baseline.any():
        message = f"there is no run {baseline!r} in the column {run!r}; there are {told}"
        raise DataError(message)
    if is_baseline.all():
        message = (
            f"there is only the run {told} in the column {run!r}, and nothing to compare it with; "
            "put the lists of both runs in one table"
        )
        raise DataError(message)
    made_with = rows.get_column("baseline")[0]
    if made_with != str(baseline):
        message = (
            f"the moments are of differences from {made_with!r}; found `baseline` {baseline!r}"
        )
        raise DataError(message, "baseline")


def tested(
    table: pl.LazyFrame, testing: Testing, correction: Correction, margin: float
) -> pl.LazyFrame:
    """Return the moments with p-values and bounds of the mean difference."""
    known = (pl.col("counts_as") != "null") | (pl.col("pair_undefined") == 0)
    mean, null = pl.col(DIFFERENCE + "mean"), _null_hypothesis(testing.alternative, margin)
    table = table.with_columns(
        pl.when(known).then(sums.std_error(DIFFERENCE)).alias(_ERROR),
        null.alias(_NULL),
        # A mean that only rounding keeps from the null hypothesis is not off it.
        pl.when((mean - null).abs() <= sums.rounding(DIFFERENCE)).then(null).otherwise(mean)
        .alias(_MEAN),
    )  # fmt: skip
    found_columns = ("p_value", "low", "high", "p_corrected")
    schema = {
        **{name: dtype for name, dtype in schema_of(table).items() if name not in _LISTS},
        **dict.fromkeys(found_columns, pl.Float64()),
    }

    def test(rows: pl.DataFrame) -> pl.DataFrame:
        found = testing(_samples(rows))
        p_values = [each.p_value for each in found]
        made: dict[str, list[float | None]] = {
            name: [getattr(each, name) for each in found] for name in Found._fields
        }
        made["p_corrected"] = corrected(p_values, correction)
        return without(rows, *_LISTS).hstack(
            [pl.Series(name, made[name], dtype=pl.Float64) for name in found_columns]
        )

    return table.map_batches(test, schema=schema)


_LISTS = (VALUES, QUERY_KEYS)


def _null_hypothesis(alternative: str, margin: float) -> pl.Expr:
    """Return the mean difference, as the moments have it, at which a run is worse by the margin."""
    bound = {"two-sided": 0.0, "greater": -margin, "less": margin}[alternative]
    aggregate = pl.col("aggregate")
    return (
        pl.when(aggregate == "sum")
        .then(bound / pl.col(DIFFERENCE + "weight"))
        .when(aggregate == "geometric")
        .then((bound / pl.col("baseline_mean").exp()).log1p())
        .otherwise(bound)
    )


def _samples(rows: pl.DataFrame) -> list[Sample]:
    def column(name: str) -> list[Any]:
        return rows.get_column(name).to_list()

    known = (
        *(column(_MEAN), column(_ERROR), column(DIFFERENCE + "units")),
        *(column("wins"), column("losses"), column(_NULL)),
    )
    if VALUES not in rows.columns:
        return list(map(Sample, *known))
    values, keys = ([each.to_numpy() for each in rows.get_column(name)] for name in _LISTS)
    return list(map(Sample, *known, values, keys))


def result_of(
    table: pl.LazyFrame, keys: Sequence[str], test: str, also: Sequence[str] = ()
) -> pl.LazyFrame:
    """Return what `compare` returns, from tested moments; and `also` some of their columns."""
    aggregate, mean = pl.col("aggregate"), pl.col("run_mean")
    base, weight = pl.col("baseline_mean"), pl.col(DIFFERENCE + "weight")
    known = (pl.col("counts_as") != "null") | (pl.col("pair_undefined") == 0)

    def whole(value: pl.Expr) -> pl.Expr:
        scaled = pl.when(aggregate == "sum").then(value * weight)
        return scaled.when(aggregate == "geometric").then(value.exp()).otherwise(value)

    def change(value: pl.Expr) -> pl.Expr:
        scaled = pl.when(aggregate == "sum").then(value * weight)
        ratio_of_means = base.exp() * (value.exp() - 1)
        return scaled.when(aggregate == "geometric").then(ratio_of_means).otherwise(value)

    spread = sums.std(DIFFERENCE)
    values = {
        "baseline_mean": whole(base),
        "mean": whole(mean),
        "difference": change(pl.col(DIFFERENCE + "mean")),
        "low": change(pl.col("low")),
        "high": change(pl.col("high")),
        "effect_size": pl.when(spread > 0).then(pl.col(DIFFERENCE + "mean") / spread),
    }
    result = table.select(
        *keys,
        *(pl.when(known).then(value).alias(name) for name, value in values.items()),
        *("p_value", "p_corrected", "wins", "ties", "losses"),
        pl.col("pairs").alias("queries"),
        (pl.col("queries") + pl.col(_OF_BASELINE) - 2 * pl.col("pairs")).alias("missing"),
        pl.col("pair_undefined").alias("undefined"),
        *(name for name in (EMPTY,) if name in schema_of(table)),
        *also,
    ).with_columns(
        relative_difference=pl.when(pl.col("baseline_mean") != 0).then(
            pl.col("difference") / pl.col("baseline_mean")
        )
    )
    if test in _RANKS:
        many = f"{test!r} rejects too often on more than {MANY:,} queries; use test='t'"
        result = result.with_columns(
            warning=pl.when(pl.col("queries") > MANY).then(pl.lit(many)).otherwise(None)
        )
    order = [name for name in COLUMNS if name in schema_of(result) and name not in keys]
    return result.select(*keys, *order, *also)


_RANKS = ("wilcoxon", "sign")


def _warned(result: pl.LazyFrame, groups: Sequence[str], run: str, test: str) -> pl.LazyFrame:
    def warn(table: pl.DataFrame) -> pl.DataFrame:
        queries = table.get_column("queries")
        if (queries == 0).any():
            told = rows_told(table, [*groups, run])
            alone = [told[place] for place in (queries == 0).arg_true()]
            message = f"no query in common with the baseline: {some_of(alone)}"
            warnings.warn(message, RankWarning, stacklevel=2)
        if test in _RANKS and (queries > MANY).any():
            message = (
                f"{test!r} asks about ranks or signs, not means: on more than {MANY:,} queries "
                "with skewed differences it rejects far too often; use test='t'"
            )
            warnings.warn(message, RankWarning, stacklevel=2)
        _warn_of_few(table, test)
        return without(table, _SHARES, _UNITS)

    schema = result.collect_schema()
    kept = {name: dtype for name, dtype in schema.items() if name not in (_SHARES, _UNITS)}
    return result.map_batches(warn, schema=kept)


def _warn_of_few(table: pl.DataFrame, test: str) -> None:
    """Warn of differences that stand on too few units for their interval."""
    units, difference, low, high = (
        table.get_column(name) for name in (_UNITS, "difference", "low", "high")
    )
    some = (units > 1) & difference.is_not_null()
    if test == "bootstrap":
        if few := int((some & (units < FEW)).sum()):
            message = (
                f"{few} comparisons by {test!r} stand on fewer than {FEW} queries; use test='t' or "
                "'randomization'"
            )
            warnings.warn(message, RankWarning, stacklevel=2)
        if unknown := int((some & table.get_column("p_value").is_null()).sum()):
            message = (
                f"{unknown} comparisons by {test!r} are null: the run differs from the baseline on "
                "so few queries, or always by so much the same, that too many resamples have no "
                "spread; use test='t' or 'randomization'"
            )
            warnings.warn(message, RankWarning, stacklevel=2)
    beyond = ((low < -1) & low.is_finite()) | ((high > 1) & high.is_finite())
    warn_of_range(table, (units < FEW) & table.get_column(_SHARES) & beyond, -1)
