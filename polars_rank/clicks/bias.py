"""`position_bias`: estimates of the propensity of each position from a log of impressions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import Names, free, one_of, positive, whole_number
from polars_rank.checks import FAILED
from polars_rank.clicks.examination import fit
from polars_rank.clicks.impression_counts import ImpressionLog
from polars_rank.clicks.impressions import columns_of
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, number_of, warn
from polars_rank.evaluation.means import ratio
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Method: TypeAlias = Literal["pivot", "adjacent", "randomized", "em"]

COLUMNS = ("position", "propensity", "std_error", "pairs", "impressions", "clicks")

#: With fewer pairs or clicks at a position, 95% intervals contain the true propensity in 75% to 93%
#: of simulated logs; with "randomized" and fewer clicks, in 87% to 100%
#: (tests/benchmarks/clicks_coverage.md).
MIN_PAIRS, MIN_CLICKS = 50, 10
#: Clicks, and impressions without a click, that Agresti and Coull add to estimate the variance.
_ADDED = 2
#: A variance below this share of its terms may be a rounding error.
_ROUNDING = 1e-14

#: Click rates of a pair: at a position, at the position of reference, and at the position above it.
_RATE, _BASE, _BEFORE = pl.col("rate"), pl.col("base"), pl.col("before")
_POSITION = pl.col("position")


@framed
def position_bias(
    frame: pl.LazyFrame,
    method: Method = "pivot",
    *,
    query: Names = "query",
    doc: str = "doc",
    position: str = "position",
    click: str = "click",
    by: Names | None = None,
    pivot: int = 1,
    swap: str | None = None,
    iterations: int = 1000,
    tolerance: float = 1e-6,
) -> pl.LazyFrame:
    r"""Estimate the propensity of each position: the probability that users examine it.

    In the position-based model, a document is clicked if its position is examined, which depends
    only on the position, and if the document is attractive, which depends only on query and
    document. The ratio of the click rates of the same documents at two positions is then the ratio
    of their propensities:

    $$\frac{p_k}{p_j} = \frac{\sum_{(q, d)} ctr_k(q, d)}{\sum_{(q, d)} ctr_j(q, d)}$$

    over the (query, document) pairs that were shown at both positions. Propensities are relative
    to the top position, which has the propensity 1.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": "a",
    ...     "doc": [1, 1, 1, 1, 2, 2, 2, 2],
    ...     "position": [1, 1, 2, 2, 1, 1, 2, 2],
    ...     "click": [1, 1, 1, 0, 1, 0, 0, 0],
    ... })
    >>> # (0.5 + 0) / (1 + 0.5) at the second position.
    >>> pr.clicks.position_bias(df).select("position", "propensity")
    shape: (2, 2)
    ┌──────────┬────────────┐
    │ position ┆ propensity │
    │ ---      ┆ ---        │
    │ i64      ┆ f64        │
    ╞══════════╪════════════╡
    │ 1        ┆ 1.0        │
    │ 2        ┆ 0.333333   │
    └──────────┴────────────┘

    Parameters
    ----------
    frame
        A log of impressions, one row per shown document, from several rankers or from a ranker
        that changed over time. A query occurs many times: once for each search.
    method
        - "pivot" (default): compare each position with the same one, `pivot`;
        - "adjacent": compare each position with the one above it and multiply the ratios;
        - "randomized": compare click-through rates in a log with a random order of documents, or,
          with `swap`, in a log of experiments that exchanged the documents of two positions;
        - "em": fit propensities and attractiveness together by expectation-maximization, over all
          pairs that were shown at several positions.
    query
        Column or columns that identify the query: its text, not the session.
    doc
        Column of the document.
    position
        Column of the position, 1 first. Rows with a null position or click were not shown.
    click
        Column of clicks. They are Boolean, 0 or 1.
    by
        Columns to group by. Each group has its own propensities.
    pivot
        Position with which others are compared, for "pivot" and for `swap`. With `swap`,
        propensities are relative to the pivot.
    swap
        For "randomized": column with the position that was exchanged with the pivot in the
        impression; null if there was no exchange. Only impressions of the two positions count.
    iterations, tolerance
        For "em": the fit ends if no propensity changes by more than `tolerance`, or after
        `iterations`, with a `RankWarning`.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group and shown position, sorted, with the `by`
        columns and

        - `position`;
        - `propensity`: relative to the top position; null if no pair links the two positions, or
          the position of reference has no clicks. It can exceed 1 because of noise;
        - `std_error`: by the delta method, over pairs ("pivot", "adjacent") or over clicks
          ("randomized"), or from the Fisher information ("em"); 0 for the top position. Null if
          unknown, for example if all pairs have the same ratio of click rates, or if "em"
          estimates a propensity at a bound: equal to that of the top position, or 0. If the pivot
          is not the top position, the errors of two comparisons are added, which is conservative;
        - `pairs`: the number of (query, document) pairs compared; null for "randomized";
        - `impressions`, `clicks`: at the position.

    Raises
    ------
    DataError
        If a position is not an integer from 1, a click is neither 0 nor 1, or an id is null;
        raised when the result is collected.
    MissingExtraError
        If `method` is "em" and scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        When the result is collected, if only the propensity of the top position is known. For
        "pivot" and "adjacent", if the standard error of a position is based on fewer than 50 pairs
        or 10 clicks and is likely too small, or unknown because all pairs have the same ratio of
        click rates. For "randomized", if it is based on fewer than 10 clicks. For "em", if the fit
        does not converge, if a propensity is at a bound, or if pairs have fewer than 1.5
        impressions per position on average.

    Notes
    -----
    "pivot" and "adjacent" stream in flat memory over a log from `scan_log(..., query=...)`,
    whatever the order of its rows. For other logs, and for "em", memory holds one row per (query,
    document, position). All pairs have the same weight, whatever their number of impressions.

    "em" has the smallest errors if pairs have some hundred impressions each. With only one or two
    impressions per position, it overestimates the propensities of lower positions. The page "How
    statistics are computed" of the guide has simulations, and the standard error of "randomized".

    No method here separates examination from trust: if users click more at a position because they
    trust its rank, its propensity is higher.

    References
    ----------
    Agarwal et al., Estimating position bias without intrusive interventions, 2019: "pivot",
    "adjacent". Joachims, Swaminathan & Schnabel, Unbiased learning-to-rank with biased feedback,
    2017: `swap`. Chuklin, Markov & de Rijke, Click models for web search, 2015, and Wang et al.,
    Position bias estimation for unbiased learning to rank in personal search, 2018: "em".
    """
    one_of("method", method, get_args(Method))
    pivot, iterations = whole_number("pivot", pivot), whole_number("iterations", iterations)
    positive("tolerance", tolerance, 1)
    if swap is not None:
        Columns.find(schema_of(frame), {"swap": swap})
        if method != "randomized":
            raise ArgumentError(f"`swap` needs `method` 'randomized'; found {method!r}")
    columns = columns_of(schema_of(frame), query, doc, click, position, by)
    shown = frame.filter(pl.col(position).is_not_null(), pl.col(click).is_not_null())
    impressions = ImpressionLog(shown, columns)
    free(columns.by, COLUMNS)
    groups = list(impressions.groups.values())
    if method == "pivot":
        estimates = _pivot_estimates(impressions, groups, pivot)
    elif method == "adjacent":
        estimates = _adjacent_estimates(impressions, groups)
    elif method == "randomized":
        estimates = _randomized_estimates(impressions, groups, pivot, swap)
    else:
        estimates = fit(impressions, groups, iterations, tolerance)
    table = estimates.select(
        *groups,
        "position",
        "propensity",
        "std_error",
        pl.col("pairs", "impressions", "clicks").cast(pl.UInt32),
        FAILED,
    )
    result = impressions.checked(table.sort([*groups, "position"]))
    # Not streamable: the warnings depend on the whole table.
    return result.map_batches(partial(_with_warnings, method), schema=result.collect_schema())


def _with_warnings(method: Method, table: pl.DataFrame) -> pl.DataFrame:
    """Return the table; warn if no propensity is known or if standard errors are too small."""
    top = (pl.col("propensity") == 1) & (pl.col("std_error") == 0)
    below = table.filter(~top.fill_null(value=False))
    if method != "em":
        _warn_of_few(method, below)
    if below.height == 0 or below.get_column("propensity").count() > 0:
        return table
    message = (
        "no propensity can be estimated: the position of reference has no clicks; use a log with "
        "more clicks or another position of reference (pivot=...)"
    )
    if (below.get_column("pairs") == 0).all(ignore_nulls=False):
        message = (
            "no propensity can be estimated: no (query, document) pair was shown at two of the "
            "positions compared; `query` must be the text of the query, not a session or an "
            "impression; otherwise an experiment is needed (method='randomized')"
        )
    warn(message)
    return table


def _warn_of_few(method: Method, below: pl.DataFrame) -> None:
    """Warn of standard errors that are unknown, or based on few pairs or clicks."""
    known, few_clicks = pl.col("std_error").is_not_null(), pl.col("clicks") < MIN_CLICKS
    few, problem = few_clicks, f"{MIN_CLICKS} clicks and likely inaccurate"
    if method != "randomized":
        few = few_clicks | (pl.col("pairs") < MIN_PAIRS)
        problem = f"{MIN_PAIRS} pairs or {MIN_CLICKS} clicks and likely too small"
    equal = ~known & (pl.col("propensity") > 0) & (pl.col("pairs") > 1)
    problems = {
        f"based on fewer than {problem}": below.filter(known & few),
        "unknown because all pairs have the same ratio of click rates": below.filter(equal),
    }
    for problem, rows in problems.items():
        if rows.is_empty():
            continue
        first = rows.drop("propensity", "std_error", "impressions").row(0, named=True)
        verb = "is" if rows.height == 1 else "are"
        warn(
            f"{number_of(rows.height, 'standard error')} of propensities {verb} {problem}, "
            f"e.g. {first}; use a log with more queries or a longer period, or drop these positions"
        )


def _pivot_estimates(impressions: ImpressionLog, groups: Sequence[str], pivot: int) -> pl.LazyFrame:
    """Compare each position with the pivot, and the pivot with the top position."""
    at_pivot = _RATE.filter(pl.lit(pivot) == _POSITION).first().alias("base")
    sums = _sums(_pairs(impressions, at_pivot), groups)
    sums = sums.with_columns(
        pl.when(pl.lit(pivot) == _POSITION).then(0.0).otherwise("variance").alias("variance")
    )
    reference = _Reference(groups)
    return sums.with_columns(
        ratio(pl.col("ratio"), reference.value("ratio")).alias("propensity"),
        (pl.col("variance") + reference.value("variance")).alias("variance"),
    ).with_columns(reference.std_error())


def _adjacent_estimates(impressions: ImpressionLog, groups: Sequence[str]) -> pl.LazyFrame:
    """Compare each position with the one above it, and multiply the ratios.

    Two adjacent ratios share the position between them, so their covariance enters the variance of
    all positions below. Other pairs of ratios have no covariance, because clicks at different
    positions are independent.
    """
    lists = {
        "above": _POSITION.list.shift(1),
        "two above": _POSITION.list.shift(2),
        "base": _RATE.list.shift(1),
        "before": _RATE.list.shift(2),
    }
    above = pl.col("above") == _POSITION - 1
    two_above = above & (pl.col("two above") == _POSITION - 2)
    rows = _pairs(impressions, **lists).with_columns(
        pl.when(above).then("base").alias("base"), pl.when(two_above).then("before").alias("before")
    )
    three = pl.when(_BEFORE.is_not_null())
    sums = _sums(
        rows,
        groups,
        here_base=three.then(_RATE * _BASE).sum(),
        here_before=three.then(_RATE * _BEFORE).sum(),
        base_base=three.then(_BASE * _BASE).sum(),
        base_before=three.then(_BASE * _BEFORE).sum(),
    )
    reference, here, base = _Reference(groups), pl.col("here"), pl.col("base")
    here_above, base_above = (reference.over(each.shift(1)) for each in (here, base))
    covariance = _unbiased(
        pl.col("here_base") / (here * here_above)
        - pl.col("here_before") / (here * base_above)
        - pl.col("base_base") / (base * here_above)
        + pl.col("base_before") / (base * base_above)
    )
    ratio = pl.when(reference.is_reference).then(1.0).otherwise(pl.col("ratio"))
    variance = pl.when(reference.is_reference).then(0.0).otherwise(pl.col("variance"))
    return (
        sums.sort([*groups, "position"])
        .with_columns(
            pl.when(pl.col("triples") > 0)
            .then(covariance.fill_nan(None))
            .otherwise(0.0)
            .alias("covariance")
        )
        .with_columns(
            reference.cumulative(ratio.cum_prod(), ratio).alias("propensity"),
            reference.cumulative((variance + 2 * pl.col("covariance")).cum_sum(), variance).alias(
                "variance"
            ),
        )
        .with_columns(reference.std_error())
    )


def _randomized_estimates(
    impressions: ImpressionLog, groups: Sequence[str], pivot: int, swap: str | None
) -> pl.LazyFrame:
    """Compare click-through rates: in the whole log, or in the impressions of each exchange."""
    clicks, seen = pl.col("clicks"), pl.col("impressions")
    partner = pl.lit(None) if swap is None else pl.col(swap)
    counts = (
        impressions.rows(impressions.groups, partner.cast(pl.Int64).alias("swap"))
        .group_by([*groups, "swap", "position"])
        .agg(pl.col("click").sum().alias("clicks"), pl.len().alias("impressions"), _failed_check())
    )
    if swap is None:
        reference = _Reference(groups)
        counted = counts
    else:
        reference = _Reference([*groups, "swap"], pivot)
        counted = counts.filter(
            pl.col("swap").is_not_null(), (pivot == _POSITION) | (pl.col("swap") == _POSITION)
        )
    rate, adjusted = clicks / seen, (clicks + _ADDED) / (seen + 2 * _ADDED)
    rates = counted.with_columns(
        rate.alias("rate"), (adjusted * (1 - adjusted) / seen).alias("variance")
    )
    ratios = rates.with_columns(ratio(_RATE, reference.value("rate")).alias("propensity"))
    spread = pl.col("variance") + pl.col("propensity") ** 2 * reference.value("variance")
    errors = ratios.with_columns((spread.sqrt() / reference.value("rate")).alias("std_error"))
    top = _Reference(groups, None if swap is None else pivot)
    return (
        # The pivot has a row for each exchanged position; any other position has a single row.
        errors.group_by([*groups, "position"])
        .agg(
            pl.col("propensity", "std_error").first(),
            pl.col("clicks", "impressions").sum(),
            pl.lit(None).first().alias("pairs"),
            _failed_check(),
        )
        .with_columns(top.zero_error(pl.col("std_error")))
    )


def _pairs(impressions: ImpressionLog, *aggregates: pl.Expr, **lists: pl.Expr) -> pl.LazyFrame:
    """Return one row per position of a pair, with its click rate and the values to compare with.

    These values are aggregates of the pair (`aggregates`), or functions of the lists of its
    positions and rates (`lists`).
    """
    counts, pair = impressions.counts()
    each = ["position", "rate", "clicks", "impressions"]
    return (
        counts.with_columns((pl.col("clicks") / pl.col("impressions")).alias("rate"))
        .group_by(pair, maintain_order=True)
        .agg(*impressions.carried(pair), *each, *aggregates, _failed_check())
        .with_columns(**lists)
        .explode(*each, *lists)
    )


def _sums(rows: pl.LazyFrame, groups: Sequence[str], **more_sums: pl.Expr) -> pl.LazyFrame:
    """Return the sums over the compared pairs by position, with their ratio and its variance.

    The variance is that of the logarithm of the ratio, by the delta method over pairs.
    """
    both = pl.when(_BASE.is_not_null()).then(_RATE)
    here, base, pairs = pl.col("here"), pl.col("base"), pl.col("pairs")
    terms = pl.col("here_here") / here**2 + pl.col("base_squared") / base**2
    spread = terms - 2 * pl.col("both") / (here * base)
    triples = [] if "here_base" not in more_sums else [_BEFORE.count().alias("triples")]
    return (
        rows.group_by([*groups, "position"])
        .agg(
            pl.col("clicks", "impressions").sum(),
            _failed_check(),
            *triples,
            both.count().alias("pairs"),
            both.sum().alias("here"),
            _BASE.sum().alias("base"),
            (both**2).sum().alias("here_here"),
            (both * _BASE).sum().alias("both"),
            (_BASE**2).sum().alias("base_squared"),
            **more_sums,
        )
        .with_columns(
            pl.when(base > 0).then(here / base).alias("ratio"),
            pl.when((here > 0) & (base > 0) & (pairs > 1) & (spread > _ROUNDING * terms))
            .then(_unbiased(spread))
            .alias("variance"),
        )
    )


class _Reference:
    """The position with the propensity 1: the top position of each group, or a given position."""

    def __init__(self, groups: Sequence[str], position: int | None = None) -> None:
        self._groups = list(groups)
        first = self.over(_POSITION.min()) if position is None else pl.lit(position)
        self.is_reference = first == _POSITION

    def over(self, expression: pl.Expr) -> pl.Expr:
        """Return an expression that is evaluated within each group."""
        return expression.over(self._groups) if self._groups else expression

    def value(self, name: str) -> pl.Expr:
        """Return the value of a column at the position of reference."""
        return self.over(pl.col(name).filter(self.is_reference).first())

    def cumulative(self, cumulated: pl.Expr, step: pl.Expr) -> pl.Expr:
        """Return the cumulative value by position; null from the first null step down."""
        return pl.when(~self.over(step.is_null().cum_max())).then(self.over(cumulated))

    def std_error(self) -> pl.Expr:
        """Return the standard error of the propensity, from its relative variance."""
        return self.zero_error(pl.col("propensity") * pl.col("variance").clip(0).sqrt())

    def zero_error(self, error: pl.Expr) -> pl.Expr:
        """Return the standard error of the propensity; 0 at the position of reference."""
        known = pl.col("propensity").is_not_null()
        return pl.when(self.is_reference & known).then(0.0).otherwise(error).alias("std_error")


def _unbiased(moment: pl.Expr) -> pl.Expr:
    """Multiply a moment of n pairs by n / (n - 1), because the ratio is estimated from them."""
    pairs = pl.col("pairs").cast(pl.Float64)
    return moment * pairs / (pairs - 1)


def _failed_check() -> pl.Expr:
    """Return the failed check of a group of rows, as an aggregation."""
    return pl.col(FAILED).max()
