"""`position_bias`: how likely users look at each position, from a log of impressions."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import Names, check_there, free, one_of, positive, whole_number
from polars_rank.clicks.examination import fitted
from polars_rank.clicks.exposure import Exposure
from polars_rank.errors import ArgumentError, RankWarning, number_of
from polars_rank.evaluation.checks import FAILED
from polars_rank.evaluation.means import ratio
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

Method: TypeAlias = Literal["pivot", "adjacent", "randomized", "em"]

COLUMNS = ("position", "propensity", "standard_error", "pairs", "impressions", "clicks")

#: With fewer pairs or clicks at a position, 95% intervals contain the true propensity in 0.75 to
#: 0.93 of simulated logs (tests/benchmarks/clicks_coverage.md).
FEW_PAIRS, FEW_CLICKS = 50, 10

#: The click rate of a pair at a position, at the one it is compared with, and at one above that.
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
    progress: bool = False,
) -> pl.LazyFrame:
    r"""Estimate how likely users look at each position: its propensity, that of the top being 1.

    By the position-based model a document is clicked if it is looked at, which depends on the
    position alone, and attractive, which depends on query and document alone. So the click rates
    of the same documents at two positions tell how their propensities compare:

    $$\frac{p_k}{p_j} = \frac{\sum_{(q, d)} ctr_k(q, d)}{\sum_{(q, d)} ctr_j(q, d)}$$

    over the (query, document) pairs that were shown at both.

    Parameters
    ----------
    frame
        A log of impressions: one row per document shown, of several rankers or of one that
        changed. A query stands in it as often as it was asked.
    method
        - "pivot": each position is compared with the same one;
        - "adjacent": each with the one above it, and the ratios are multiplied down the list;
        - "randomized": for a log in which the order of documents was drawn by lot, the shares of
          clicks are compared; with `swap`, for one of experiments that exchanged two documents;
        - "em": propensities and attractiveness are fitted together, by expectation-maximisation
          over all pairs that were shown at several positions.
    query, doc, position, click
        Names of the columns: the query (its text, not the session), the document, the position
        from 1 for the top, and whether it was clicked. A row whose position or click is null was
        not shown.
    by
        Columns that split the log, such as the device: each group has its own propensities.
    pivot
        The position that others are compared with: for "pivot", and for `swap`, whose propensities
        are relative to that of the pivot.
    swap
        For "randomized": the column that says which position took part in the exchange with the
        pivot, null for none. Of the rows it is said for, those of the two positions count.
    iterations, tolerance
        For "em": it ends when no propensity changes by more than the tolerance; a `RankWarning`
        says when the iterations are over before.
    progress
        Show a progress bar on a terminal when it takes longer than two seconds (extra "cli").

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group and position shown, in their order, none of a log in which
        nothing was; with the `by` columns and

        - `position`;
        - `propensity`: relative to that of the topmost position; null where no pair links the
          two, or nobody clicked at one that is compared with. Noise can bring it above 1;
        - `standard_error`: by the delta method, over pairs as the units ("pivot", "adjacent") or
          over clicks ("randomized"), or from the Fisher information ("em"); 0 for the top, null
          where it is not known, as for a propensity that "em" finds at a bound: as high as that of
          the top, or 0. With a pivot other than the top, the errors of two comparisons
          are added, which is rather too much;
        - `pairs`: how many pairs of query and document were compared; null for "randomized";
        - `impressions`, `clicks`: of the position.

    Raises
    ------
    SchemaError, ArgumentError
        For a missing or not numeric column, an unknown method, a parameter out of its range.
    DataError
        For a position that is no whole number from 1, a click that is neither 0 nor 1, a null id;
        lazily, when the result is collected.

    Warns
    -----
    RankWarning
        When the result is collected, if it holds no propensity but the top's. For "pivot" and
        "adjacent", if the standard error of a position is based on fewer than 50 pairs or 10
        clicks, where it is likely too small. For "em", if the iterations end too early, if a
        propensity is at a bound, or if pairs were shown fewer than 1.5 times at a position on
        average.

    Notes
    -----
    "pivot" and "adjacent" stream in flat memory over a log from `scan_log(..., query=...)`, in
    whatever order its rows lie; of other logs, and for "em", one row is kept for each query,
    document and position. All pairs weigh the same, however often they were shown.

    "em" has the smallest errors where pairs were shown often, some hundred times. With pairs shown
    only once or twice at a position, it overestimates the propensities of lower positions, by 10%
    to 130% in simulations: it fits an attractiveness to each pair, and a pair that was clicked each
    of the few times that it was shown looks as if every position was examined.

    Nothing here distinguishes users who look at a position from users who trust it: if clicks rise
    with the position's prestige, so do the propensities.

    References
    ----------
    Agarwal et al., Estimating position bias without intrusive interventions, 2019: "pivot",
    "adjacent". Joachims, Swaminathan & Schnabel, Unbiased learning-to-rank with biased feedback,
    2017: `swap`. Chuklin, Markov & de Rijke, Click models for web search, 2015, and Wang et al.,
    Position bias estimation for unbiased learning to rank in personal search, 2018: "em".

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": "a",
    ...     "doc": [1, 1, 1, 1, 2, 2, 2, 2],
    ...     "position": [1, 1, 2, 2, 1, 1, 2, 2],
    ...     "click": [1, 1, 1, 0, 1, 0, 0, 0],
    ... })
    >>> pr.clicks.position_bias(df).select("position", "propensity")  # (0.5 + 0) / (1 + 0.5)
    shape: (2, 2)
    ┌──────────┬────────────┐
    │ position ┆ propensity │
    │ ---      ┆ ---        │
    │ i64      ┆ f64        │
    ╞══════════╪════════════╡
    │ 1        ┆ 1.0        │
    │ 2        ┆ 0.333333   │
    └──────────┴────────────┘
    """
    one_of("method", method, get_args(Method))
    pivot, iterations = whole_number("pivot", pivot), whole_number("iterations", iterations)
    positive("tolerance", tolerance)
    if swap is not None:
        check_there("swap", swap, schema_of(frame))
        if method != "randomized":
            message = f"`swap` is for the method 'randomized'; found {method!r}"
            raise ArgumentError(message, "swap")
    shown = Exposure.of(
        frame,
        query=query,
        doc=doc,
        position=position,
        click=click,
        by=by,
        progress=progress and method != "em",  # which has a bar of its own
    )
    free(shown.columns.by, COLUMNS)
    groups = list(shown.groups.values())
    if method == "pivot":
        found = _pivoted(shown, groups, pivot)
    elif method == "adjacent":
        found = _chained(shown, groups)
    elif method == "randomized":
        found = _randomized(shown, groups, pivot, swap)
    else:
        found = fitted(shown, groups, iterations, tolerance, progress=progress)
    table = found.select(
        *groups,
        "position",
        "propensity",
        "standard_error",
        pl.col("pairs", "impressions", "clicks").cast(pl.UInt32),
        FAILED,
    )
    found = shown.checked(table.sort([*groups, "position"]))
    # Not streamable: what is known of a position shows in the whole table alone.
    return found.map_batches(partial(_doubted, method), schema=found.collect_schema())


def _doubted(method: Method, table: pl.DataFrame) -> pl.DataFrame:
    """Warn where nothing is known of any position, and of errors that are likely too small."""
    top = (pl.col("propensity") == 1) & (pl.col("standard_error") == 0)
    below = table.filter(~top.fill_null(value=False))
    if method in ("pivot", "adjacent"):
        _warn_of_few(below)
    if below.height == 0 or below.get_column("propensity").count() > 0:
        return table
    message = (
        "no propensity is known, for nobody clicked at the position that others are compared with: "
        "take a log of more clicks, or compare with another position (pivot=...)"
    )
    if (below.get_column("pairs") == 0).all(ignore_nulls=False):
        message = (
            "no (query, document) pair was shown at two positions that are compared, so that no "
            "propensity is known: `query` must be what was asked for, the same each time, and no "
            "session or impression; if it is, only an experiment tells (method='randomized')"
        )
    warnings.warn(message, RankWarning, stacklevel=2)
    return table


def _warn_of_few(below: pl.DataFrame) -> None:
    few = below.filter(
        pl.col("standard_error").is_not_null(),
        (pl.col("pairs") < FEW_PAIRS) | (pl.col("clicks") < FEW_CLICKS),
    )
    if few.is_empty():
        return
    first = few.drop("propensity", "standard_error", "impressions").row(0, named=True)
    verb = "is" if few.height == 1 else "are"
    message = (
        f"{number_of(few.height, 'standard error')} of propensities {verb} based on fewer than "
        f"{FEW_PAIRS} pairs or {FEW_CLICKS} clicks and likely too small; e.g. {first}: take a log "
        "of more queries or a longer time, or drop these positions"
    )
    warnings.warn(message, RankWarning, stacklevel=2)


def _pivoted(shown: Exposure, groups: Sequence[str], pivot: int) -> pl.LazyFrame:
    """Compare each position with the pivot, and both with the top."""
    at_pivot = _RATE.filter(pl.lit(pivot) == _POSITION).first().alias("base")
    sums = _summed(_pairs(shown, at_pivot), groups)
    top = _Top(groups)
    return sums.with_columns(
        ratio(pl.col("ratio"), top.of("ratio")).alias("propensity"),
        (pl.col("variance") + top.of("variance")).alias("variance"),
    ).with_columns(top.standard_error())


def _chained(shown: Exposure, groups: Sequence[str]) -> pl.LazyFrame:
    """Compare each position with the one above it, and multiply down the list.

    Two neighbouring ratios share the position between them: their covariance counts for all
    positions below. Others have none, for clicks at different positions are independent.
    """
    lists = {
        "above": _POSITION.list.shift(1),
        "two above": _POSITION.list.shift(2),
        "base": _RATE.list.shift(1),
        "before": _RATE.list.shift(2),
    }
    above = pl.col("above") == _POSITION - 1
    two_above = above & (pl.col("two above") == _POSITION - 2)
    rows = _pairs(shown, **lists).with_columns(
        pl.when(above).then("base").alias("base"),
        pl.when(two_above).then("before").alias("before"),
    )
    three = pl.when(_BEFORE.is_not_null())
    sums = _summed(
        rows,
        groups,
        here_base=three.then(_RATE * _BASE).sum(),
        here_before=three.then(_RATE * _BEFORE).sum(),
        base_base=three.then(_BASE * _BASE).sum(),
        base_before=three.then(_BASE * _BEFORE).sum(),
    )
    top, here, base = _Top(groups), pl.col("here"), pl.col("base")
    here_above, base_above = (top.over(each.shift(1)) for each in (here, base))
    covariance = _unbiased(
        pl.col("here_base") / (here * here_above)
        - pl.col("here_before") / (here * base_above)
        - pl.col("base_base") / (base * here_above)
        + pl.col("base_before") / (base * base_above)
    )
    ratio = pl.when(top.here).then(1.0).otherwise(pl.col("ratio"))
    variance = pl.when(top.here).then(0.0).otherwise(pl.col("variance"))
    return (
        sums.sort([*groups, "position"])
        .with_columns(
            pl.when(pl.col("triples") > 0)
            .then(covariance.fill_nan(None))
            .otherwise(0.0)
            .alias("covariance")
        )
        .with_columns(
            top.down(ratio.cum_prod(), ratio).alias("propensity"),
            top.down((variance + 2 * pl.col("covariance")).cum_sum(), variance).alias("variance"),
        )
        .with_columns(top.standard_error())
    )


def _randomized(
    shown: Exposure, groups: Sequence[str], pivot: int, swap: str | None
) -> pl.LazyFrame:
    """Compare the shares of clicks: of the whole log, or within each kind of exchange."""
    clicks, seen = pl.col("clicks"), pl.col("impressions")
    partner = pl.lit(None) if swap is None else pl.col(swap)
    counts = (
        shown.rows(shown.groups, partner.cast(pl.Int64).alias("swap"))
        .group_by([*groups, "swap", "position"])
        .agg(pl.col("click").sum().alias("clicks"), pl.len().alias("impressions"), _worst())
    )
    if swap is None:
        base = _Top(groups)
        kept = counts
    else:
        base = _Top([*groups, "swap"], pivot)
        kept = counts.filter(
            pl.col("swap").is_not_null(), (pivot == _POSITION) | (pl.col("swap") == _POSITION)
        )
    rate = clicks / seen
    compared = kept.with_columns(
        rate.alias("ratio"),
        pl.when(clicks > 0).then((1 - rate) / clicks).alias("variance"),
    ).with_columns(
        ratio(pl.col("ratio"), base.of("ratio")).alias("propensity"),
        (pl.col("variance") + base.of("variance")).alias("variance"),
    )
    return (
        # The pivot took part in every exchange; any other position in its own.
        compared.group_by([*groups, "position"])
        .agg(
            pl.col("propensity", "variance").first(),
            pl.col("clicks", "impressions").sum(),
            pl.lit(None).first().alias("pairs"),
            _worst(),
        )
        .with_columns(_Top(groups, None if swap is None else pivot).standard_error())
    )


def _pairs(shown: Exposure, *compared: pl.Expr, **listed: pl.Expr) -> pl.LazyFrame:
    """Return a row for each position of each pair, with its click rate and what to compare.

    That is one value for the pair, or made of the lists of its positions and rates.
    """
    counts, pair = shown.counts()
    each = ["position", "rate", "clicks", "impressions"]
    return (
        counts.with_columns((pl.col("clicks") / pl.col("impressions")).alias("rate"))
        .group_by(pair, maintain_order=True)
        .agg(*shown.carried(pair), *each, *compared, _worst())
        .with_columns(**listed)
        .explode(*each, *listed)
    )


def _summed(rows: pl.LazyFrame, groups: Sequence[str], **more: pl.Expr) -> pl.LazyFrame:
    """Return by position what the pairs compared add up to, their ratio, and its variance.

    The variance is relative, that of the ratio's logarithm, by Taylor's series over the pairs.
    """
    both = pl.when(_BASE.is_not_null()).then(_RATE)
    here, base, pairs = pl.col("here"), pl.col("base"), pl.col("pairs")
    spread = (
        pl.col("here_here") / here**2
        - 2 * pl.col("both") / (here * base)
        + pl.col("base_squared") / base**2
    )
    triples = [] if "here_base" not in more else [_BEFORE.count().alias("triples")]
    return (
        rows.group_by([*groups, "position"])
        .agg(
            pl.col("clicks", "impressions").sum(),
            _worst(),
            *triples,
            both.count().alias("pairs"),
            both.sum().alias("here"),
            _BASE.sum().alias("base"),
            (both**2).sum().alias("here_here"),
            (both * _BASE).sum().alias("both"),
            (_BASE**2).sum().alias("base_squared"),
            **more,
        )
        .with_columns(
            pl.when(base > 0).then(here / base).alias("ratio"),
            pl.when((here > 0) & (base > 0) & (pairs > 1))
            .then(_unbiased(spread.clip(0)))
            .alias("variance"),
        )
    )


class _Top:
    """The position that has propensity 1: the topmost of each group, or one that is given."""

    def __init__(self, groups: Sequence[str], position: int | None = None) -> None:
        self._groups = list(groups)
        first = self.over(_POSITION.min()) if position is None else pl.lit(position)
        self.here = first == _POSITION

    def over(self, expression: pl.Expr) -> pl.Expr:
        """Return an expression over each group."""
        return expression.over(self._groups) if self._groups else expression

    def of(self, name: str) -> pl.Expr:
        """Return the top's value of a column."""
        return self.over(pl.col(name).filter(self.here).first())

    def down(self, cumulated: pl.Expr, step: pl.Expr) -> pl.Expr:
        """Return what is cumulated down the positions; null below the first step that is null."""
        return pl.when(~self.over(step.is_null().cum_max())).then(self.over(cumulated))

    def standard_error(self) -> pl.Expr:
        """Return the error of the propensity, from its relative variance."""
        known = pl.col("propensity").is_not_null()
        error = pl.col("propensity") * pl.col("variance").clip(0).sqrt()
        return pl.when(self.here & known).then(0.0).otherwise(error).alias("standard_error")


def _unbiased(moment: pl.Expr) -> pl.Expr:
    """Return a moment of pairs from whose values a ratio was estimated, as n / (n - 1) of it."""
    pairs = pl.col("pairs").cast(pl.Float64)
    return moment * pairs / (pairs - 1)


def _worst() -> pl.Expr:
    return pl.col(FAILED).max()
