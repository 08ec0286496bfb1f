"""`power`: how many queries a difference, or the width of an interval, needs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, integer, positive
from polars_rank.errors import ArgumentError, short
from polars_rank.frames.tables import framed
from polars_rank.stats._arrays import np
from polars_rank.stats.designs import MOST, Design, Width, effect_interval, spread_interval, whole
from polars_rank.stats.estimate import FEW_DIFFERENT, FEW_QUERIES, ROUNDING
from polars_rank.stats.result_columns import COUNT, ResultColumn, returning
from polars_rank.stats.rows import ResultRows, rows_of_pairs, rows_of_runs
from polars_rank.stats.value_columns import check_run
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polars_rank.metrics.names import Metrics

POWER = (
    ResultColumn("queries", "number of queries that count in both runs", dtype=pl.Int64(),
                 kind=COUNT),
    ResultColumn("difference", "observed mean difference", format="signed"),
    ResultColumn("std", "observed standard deviation of the differences", is_minor=True),
    ResultColumn("target", "the difference to detect"),
    ResultColumn("power", "probability that these queries detect it; null without `difference`"),
    ResultColumn("comparisons", "number of rows that `compare` will correct for",
                 dtype=pl.Int64(), is_minor=True),
    ResultColumn("needed_low", "lower bound of `needed`, because these queries are a sample",
                 dtype=pl.Int64(), is_minor=True),
    ResultColumn("needed", "number of queries that detect it with the given power; null above 2^62",
                 dtype=pl.Int64()),
    ResultColumn("needed_high", "upper bound; null if the true difference may be 0",
                 dtype=pl.Int64(), is_minor=True),
    ResultColumn("detectable",
                 "smallest difference that these queries detect with the given power"),
)  # fmt: skip
WIDTHS = (
    ResultColumn("n", "number of additional queries: as given, or the smallest with at most the "
                 "given width; null if there is none", dtype=pl.Int64()),
    ResultColumn("width", "expected width of the interval"),
    ResultColumn("note", "why a number is null; else null", dtype=pl.String()),
)  # fmt: skip


@framed
@returning((*POWER, *WIDTHS))
def power(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    baseline: Any = None,
    difference: float | None = None,
    width: float | None = None,
    n: int | Sequence[int] | None = None,
    power: float = 0.8,
    comparisons: int | None = None,
    run: str = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    confidence: float = 0.95,
) -> pl.LazyFrame:
    r"""Compute the number of queries that a difference, or the width of an interval, requires.

    $$P(|T| > t_{1 - \alpha/2, n-1}), \qquad T \sim t_{n-1}(\sqrt n \, |d| / s_d)$$

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4, "query": [1, 2, 3, 4] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 0.0, 1.0, 0.5, 1.0, 0.5],
    ... })
    >>> power = pr.power(values, baseline="a", difference=0.1)
    >>> power.select("std", "target", "needed")
    shape: (1, 3)
    ┌──────────┬────────┬────────┐
    │ std      ┆ target ┆ needed │
    │ ---      ┆ ---    ┆ ---    │
    │ f64      ┆ f64    ┆ i64    │
    ╞══════════╪════════╪════════╡
    │ 0.288675 ┆ 0.1    ┆ 68     │
    └──────────┴────────┴────────┘

    Parameters
    ----------
    values
        Per-query values of several runs, whose differences vary as much as in the
        planned experiment.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats.
    baseline
        Run that the others are compared with. Default: all pairs, or with `width` or `n` the means
        of the runs.
    difference
        The difference of means to detect, above 0. Default: the observed one. To plan a proof that
        a run is not worse by more than a margin, use the margin.
    width
        Width of the confidence interval to reach, instead of a power. It is `high` - `low`, above
        0.
    n
        Number of additional queries whose interval is planned, or several such numbers.
    power
        Probability of a significant result. It is between 1 - `confidence` and 1.
    comparisons
        Number of rows for which `compare` will correct the test or the interval, 1 or more.
        Default: the number of pairs of runs and metrics of the group, and 1 for the means of runs.
    run
        Column of the run.
    query
        Column or columns that identify the query.
    by
        Columns to group by.
    weight
        Column of weights, 0 or more, such as the traffic of the query.
    cluster
        Columns that identify the sampling unit, such as the user. Not with `width` and `n`.
    confidence
        Confidence level. 1 minus it is the significance level of the tests.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and pair of runs, with the columns of `by`,
        `metric`, the column of the run, and `baseline`. The columns from `n` on are those of plans
        with `width` or `n`, which have one row for each number in `n`.

        {columns}

    Raises
    ------
    DataError
        A query occurs twice in a run, the baseline does not exist, or there is no other run. Raised
        when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Notes
    -----
    Set `difference` to the smallest difference that would matter. The power to detect the observed
    difference would follow from the p-value and add no information, so there is none.

    A plan has at least 30 queries, and at least 10 whose values differ if as many differ as in
    `values`: with fewer, `compare` needs more than a t test for a verdict. The level of the test is
    1 - `confidence`, divided by `comparisons`; the correction of `compare` is at most as strict.

    With weights or clusters, `needed` assumes the same weights and cluster sizes. For metrics of 0
    and 1, the standard deviation depends on how often two runs differ: plan with runs that differ
    as often as those of the experiment.

    References
    ----------
    Sakai, Laboratory Experiments in Information Retrieval, 2018, chapter 6.
    """
    is_width = width is not None or n is not None
    design = Design(power, confidence)
    if difference is not None:
        positive("difference", difference)
    if comparisons is not None:
        integer("comparisons", comparisons, 1, MOST)
    numbers = _checked_widths(width, n, difference, cluster)
    is_pairs = not is_width or baseline is not None
    source = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        needs_run=is_pairs,
    )  # fmt: skip
    if baseline is not None:
        check_run("baseline", baseline, run, source.schema[run])

    def plans() -> tuple[list[Key], list[dict[str, Any]]]:
        rows = rows_of_pairs(source, baseline) if is_pairs else rows_of_runs(source)
        of_group = Counter(key.group for key in rows.keys)
        numbers_of = [comparisons or (of_group[key.group] if is_pairs else 1) for key in rows.keys]
        if not is_width:
            return rows.keys, [*_powers(rows, design, difference, numbers_of)]
        e, keys, found = rows.estimate, [], []
        for place, (key, number) in enumerate(zip(rows.keys, numbers_of, strict=True)):
            plan = Width(float(e.error[place]), float(e.effective[place]), int(e.n[place]),
                         design.of(number).confidence)  # fmt: skip
            made = [plan.with_width(width)] if width else [*map(plan.with_n, numbers)]
            keys += [key] * len(made)
            found += made
        return keys, found

    return source.result(WIDTHS if is_width else POWER, plans, pairs=is_pairs)


def _checked_widths(width: Any, n: Any, difference: Any, cluster: Any) -> list[int]:
    """Return the numbers of additional queries; raise for parameters that do not go together."""
    if width is None and n is None:
        return []
    if width is not None and n is not None:
        raise ArgumentError(f"pass either `n` or `width`; found {short(n)} and {short(width)}")
    for name, value in (("difference", difference), ("cluster", cluster)):
        if value is not None:
            raise ArgumentError("is not supported with `width` and `n`; omit it", name)
    if width is not None:
        positive("width", width)
        return []
    numbers = [*n] if isinstance(n, Sequence) and not isinstance(n, (str, bytes)) else [n]
    if not numbers:
        raise ArgumentError("must have at least one number", "n")
    return [integer("n", each, 0, MOST) for each in numbers]


def _powers(
    rows: ResultRows, design: Design, difference: float | None, comparisons: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the power of each row, and the numbers of queries that it needs."""
    e = rows.estimate
    observed = np.abs(e.mean)
    size = np.array([each.size for each in rows.facts])
    observed = np.where(observed <= ROUNDING * size, 0.0, observed)
    skewness = np.where(e.error > 0, 6 * e.acceleration * np.sqrt(e.effective), 0.0)
    differ = rows.count("wins") + rows.count("losses")
    is_binary = np.array([each.is_binary for each in rows.facts], dtype=bool)
    least = np.where(is_binary, FEW_QUERIES, np.maximum(FEW_QUERIES, FEW_DIFFERENT * e.n / differ))
    columns = {
        "queries": e.n, "difference": e.mean, "std": e.std, "comparisons": comparisons,
        "target": observed if difference is None else np.full(len(observed), float(difference)),
        "units": e.effective, "spread": e.error * np.sqrt(e.effective), "skewness": skewness,
        "kurtosis": _kurtosis(rows, differ / e.n, skewness), "least": least,
    }  # fmt: skip
    names = ("power", "needed_low", "needed", "needed_high", "detectable")
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, map(float, values), strict=True))
        units, spread, corrected = row["units"], row["spread"], design.of(int(row["comparisons"]))
        solution: Sequence[float | None] = [None] * len(names)
        if spread > 0 and row["target"]:
            effects = _effects(row, design.confidence, is_known=difference is not None)
            needed = [
                corrected.needed(each) if each and math.isfinite(each) else None for each in effects
            ]
            queries = [whole(each, row["queries"] / units, row["least"]) for each in needed]
            power = None if difference is None else corrected.power_of(units, effects[1])
            solution = power, *queries, corrected.detectable(units) * spread
        yield {**row, **dict(zip(names, solution, strict=True))}


def _kurtosis(rows: ResultRows, changed: Any, skewness: Any) -> Any:
    """Return an upper estimate of the kurtosis of the differences, of which a share is not 0.

    Differences that are not 0 count as Laplace distributed, with a kurtosis of 6; skewed ones have
    at least that of a gamma distribution. For metrics in [0, 1], the kurtosis is at most
    (1 + |mean|)² / variance. The kurtosis of a sample is too low for few queries.
    """
    e = rows.estimate
    of_ties = 6 / changed
    limit = (1 + np.abs(e.mean)) ** 2 / e.std**2
    is_share = np.array([each.range == 1.0 for each in rows.facts], dtype=bool)
    kurtosis = np.where(is_share, np.minimum(of_ties, limit), of_ties)
    return np.maximum(np.maximum(kurtosis, 3 + 1.5 * skewness**2), 3.0)


def _effects(
    row: dict[str, float], confidence: float, *, is_known: bool
) -> tuple[float, float, float]:
    """Return the target in standard deviations of a unit, between its upper and lower bound."""
    units, spread, target, kurtosis = (row[n] for n in ("units", "spread", "target", "kurtosis"))
    if is_known:
        low, high = spread_interval(units, spread, kurtosis, confidence)
        return target / low, target / spread, target / high
    low, high = effect_interval(units, target / spread, row["skewness"], kurtosis, confidence)
    return high, target / spread, max(low, 0.0)
