"""`power`: how many queries a difference, or the width of an interval, needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, integer, positive
from polars_rank.errors import ArgumentError, number_of, short, warn
from polars_rank.frames.tables import framed
from polars_rank.stats._arrays import numpy
from polars_rank.stats.designs import Design, effect_interval, spread_interval, whole
from polars_rank.stats.kernel import PREDICTED, ROUNDING
from polars_rank.stats.results import COUNT, ResultColumn, returning
from polars_rank.stats.rows import Rows, rows_of_pairs, rows_of_runs
from polars_rank.stats.summary import warn_of_sampling
from polars_rank.stats.value_columns import check_run
from polars_rank.stats.values import Key, Values
from polars_rank.stats.widths import MOST, Pilot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polars_rank.metrics.names import Metrics

#: Below this number of judged queries, planned widths are uncertain.
_FEW = 10

POWER = (
    ResultColumn("queries", "number of queries that count in both runs", dtype=pl.Int64(),
                 kind=COUNT),
    ResultColumn("difference", "observed mean difference"),
    ResultColumn("std", "observed standard deviation of the differences", is_minor=True),
    ResultColumn("target", "the difference to detect"),
    ResultColumn("power", "probability that these queries detect it"),
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
                 "given width; null if even all queries are not enough", dtype=pl.Int64()),
    ResultColumn("width", "expected width of the interval"),
    ResultColumn("width_human", "expected width of the same queries without predictions"),
    ResultColumn("saving", "with `predictions`, share of the human labels that they save for this "
                 "width"),
    ResultColumn("note", "why a number is null, or that predictions save less than 10%; else null",
                 dtype=pl.String()),
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
    predictions: Any = None,
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
        Number of additional queries whose interval is planned, or several such numbers. With
        `predictions`, they are queries that people judge.
    power
        Probability of a significant result. It is between 1 - `confidence` and 1.
    predictions
        Per-query values from predicted labels, such as those of a language model, for all queries.
        For plans with `width` or `n`.
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

    Warns
    -----
    RankWarning
        There are fewer than 10 judged queries, or they are not a random sample of all.

    Notes
    -----
    The power to detect the observed difference follows from the p-value and adds no information.
    Set `difference` to the smallest difference that would matter.

    With weights or clusters, `needed` assumes the same weights and cluster sizes. For metrics of 0
    and 1, the standard deviation depends on how often two runs differ: plan with runs that differ
    as often as those of the experiment.

    References
    ----------
    Sakai, Laboratory Experiments in Information Retrieval, 2018, chapter 6.
    Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023.
    """
    is_width = width is not None or n is not None
    design = Design(power, confidence)
    if difference is not None:
        positive("difference", difference)
    numbers = _checked_widths(width, n, difference, cluster, predictions)
    is_pairs = not is_width or baseline is not None
    source = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        predictions=predictions, needs_run=is_pairs,
    )  # fmt: skip
    if baseline is not None:
        check_run("baseline", baseline, run, source.schema[run])

    def plans() -> tuple[list[Key], list[dict[str, Any]]]:
        rows = rows_of_pairs(source, baseline) if is_pairs else rows_of_runs(source)
        if not is_width:
            return rows.keys, [*_powers(rows, design, difference)]
        _warn_of_few(rows)
        warn_of_sampling(rows)
        keys, plans = [], []
        for key, sums in zip(rows.keys, rows.sums, strict=True):
            # Without predictions, their moments are 0.
            of_all = {**dict.fromkeys(PREDICTED.fields, 0.0), **sums}
            pilot = Pilot(of_all, confidence, bool(rows.predictions))
            found = [pilot.with_width(width)] if width else [*map(pilot.with_n, numbers)]
            keys += [key] * len(found)
            plans += found
        return keys, plans

    return source.result(WIDTHS if is_width else POWER, plans, pairs=is_pairs)


def _checked_widths(
    width: Any, n: Any, difference: Any, cluster: Any, predictions: Any
) -> list[int]:
    """Return the numbers of additional queries; raise for parameters that do not go together."""
    if width is None and n is None:
        if predictions is not None:
            raise ArgumentError(
                "`predictions` needs `n`, the number of additional judged queries, or `width`, the "
                "width of the interval to reach"
            )
        return []
    if width is not None and n is not None:
        raise ArgumentError(f"pass either `n` or `width`; found {short(n)} and {short(width)}")
    for name, value in (("difference", difference), ("cluster", cluster)):
        if value is not None:
            raise ArgumentError(f"`{name}` is not supported with `width` and `n`; omit it")
    if width is not None:
        positive("width", width)
        return []
    numbers = [*n] if isinstance(n, Sequence) and not isinstance(n, (str, bytes)) else [n]
    if not numbers:
        raise ArgumentError("`n` must have at least one number")
    return [integer("n", each, 0, MOST) for each in numbers]


def _powers(rows: Rows, design: Design, difference: float | None) -> Iterator[dict[str, Any]]:
    """Yield the power of each row, and the numbers of queries that it needs."""
    np, m = numpy(), rows.moments
    size = np.abs(m["md"])
    observed = np.where(size <= ROUNDING * m.size, 0.0, size)
    columns = {
        "queries": m["nw"], "difference": m["md"], "std": m.std,
        "target": observed if difference is None else np.full(len(size), float(difference)),
        "units": m.effective(), "spread": m.error * np.sqrt(m.effective()),
        "skewness": np.nan_to_num(m.skewness), "kurtosis": _kurtosis(rows),
    }  # fmt: skip
    names = ("power", "needed_low", "needed", "needed_high", "detectable")
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, map(float, values), strict=True))
        units, spread = row["units"], row["spread"]
        solution: Sequence[float | None] = [None] * len(names)
        if spread > 0 and row["target"]:
            effects = _effects(row, design.confidence, is_known=difference is not None)
            needed = [
                design.needed(each) if each and math.isfinite(each) else None for each in effects
            ]
            queries = [whole(each, row["queries"] / units) for each in needed]
            power = design.power_of(units, effects[1])
            solution = power, *queries, design.detectable(units) * spread
        yield {**row, **dict(zip(names, solution, strict=True))}


def _kurtosis(rows: Rows) -> Any:
    """Return an upper estimate of the kurtosis of the differences.

    Differences that are not 0 count as Laplace distributed, with a kurtosis of 6; skewed ones have
    at least that of a gamma distribution. For metrics in [0, 1], the kurtosis is at most
    (1 + |mean|)² / variance. The kurtosis of a sample is too low for few queries.
    """
    np, m = numpy(), rows.moments
    changed = (rows.count("wins") + rows.count("losses")) / rows.count("queries")
    of_ties = 6 / changed
    limit = (1 + np.abs(m["md"])) ** 2 / m.std**2
    is_share = np.array([each.range == 1.0 for each in rows.facts], dtype=bool)
    kurtosis = np.where(is_share, np.minimum(of_ties, limit), of_ties)
    return np.maximum(np.maximum(kurtosis, 3 + 1.5 * np.nan_to_num(m.skewness) ** 2), 3.0)


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


def _warn_of_few(rows: Rows) -> None:
    """Warn of few judged queries."""
    few = [sums["nw"] for sums in rows.sums if 0 < sums["nw"] < _FEW]
    if few and rows.predictions:
        warn(
            f"fewer than {_FEW} judged queries in {number_of(len(few), 'row')}, e.g. "
            f"{few[0]:.0f}: the planned widths may be far from those that more judged "
            "queries give; judge some first"
        )
