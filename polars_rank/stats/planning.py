"""`power`: how many queries a difference, or the width of an interval, needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, free, integer, positive
from polars_rank.errors import ArgumentError, number_of, short, warn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.designs import Design, effect_interval, spread_interval, whole
from polars_rank.stats.kernel import PREDICTED, ROUNDING
from polars_rank.stats.results import (
    COUNT,
    ResultColumn,
    returning,
    schema_of_result,
    series_of,
    table_of,
)
from polars_rank.stats.rows import Rows, rows_of_pairs, rows_of_runs
from polars_rank.stats.summary import key_series, row_texts, warn_of_sampling
from polars_rank.stats.value_columns import check_run
from polars_rank.stats.values import Values, deferred
from polars_rank.stats.widths import MOST, Pilot, Planned

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.metrics.names import Metrics

#: Below this number of judged queries, planned widths are uncertain.
_FEW = 10

POWER = (
    ResultColumn("queries", "number of queries that count in both runs", lambda r: r.queries,
                 pl.Int64(), COUNT),
    ResultColumn("difference", "observed mean difference", lambda r: r.difference),
    ResultColumn("std", "observed standard deviation of the differences", lambda r: r.std,
                 is_minor=True),
    ResultColumn("target", "the difference to detect", lambda r: r.target),
    ResultColumn("power", "probability that these queries detect it", lambda r: r.solved("power")),
    ResultColumn("needed_low", "lower bound of `needed`, because these queries are a sample",
                 lambda r: r.solved("needed_low"), pl.Int64(), is_minor=True),
    ResultColumn("needed", "number of queries that detect it with the given power; null above 2^62",
                 lambda r: r.solved("needed"), pl.Int64()),
    ResultColumn("needed_high", "upper bound; null if the true difference may be 0",
                 lambda r: r.solved("needed_high"), pl.Int64(), is_minor=True),
    ResultColumn("detectable", "smallest difference that these queries detect with the given power",
                 lambda r: r.solved("detectable")),
)  # fmt: skip
WIDTHS = (
    ResultColumn("n", "number of additional queries: as given, or the smallest with at most the "
                 "given width; null if even all queries are not enough", lambda r: r.of("n"),
                 pl.Int64()),
    ResultColumn("width", "expected width of the interval", lambda r: r.of("width")),
    ResultColumn("width_human", "expected width of the same queries without predictions",
                 lambda r: r.of("width_human")),
    ResultColumn("saving", "with `predictions`, share of the human labels that they save for this "
                 "width", lambda r: r.of("saving")),
    ResultColumn("note", "why a number is null, or that predictions save less than 10%; else null",
                 lambda r: [each.note for each in r.planned], pl.String()),
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
    design = Design.of(power, confidence)
    special()
    if difference is not None:
        positive("difference", difference)
    numbers = _checked_widths(width, n, difference, cluster, predictions)
    schema = schema_of(values)
    is_pairs = not is_width or baseline is not None
    source, rows_of = planned(
        values, metrics, baseline, is_pairs=is_pairs, run=run, query=query, by=by, weight=weight,
        cluster=cluster, predictions=predictions,
    )  # fmt: skip
    columns = WIDTHS if is_width else POWER
    names = ["metric", *([] if source.run is None else [source.run]), *(["baseline"] * is_pairs)]
    free([*source.by, *names[1:2]], ["metric", "baseline", *schema_of_result(columns)])
    run_type = pl.String() if source.run is None else schema[source.run]
    keys = {name: schema[name] for name in source.by}
    keys |= {name: pl.String() if name == "metric" else run_type for name in names}

    def result() -> pl.DataFrame:
        rows = rows_of()
        plan: Any = (
            _Widths(rows, width, numbers, confidence)
            if is_width
            else Power(rows, design, difference)
        )
        if is_width:
            _warn(rows, source)
        head = key_series(plan.rows, source.by, {source.run: "run"}, keys)
        return table_of([*head, *series_of(columns, plan)])

    return deferred(result, {**keys, **schema_of_result(columns)})


def planned(
    values: pl.LazyFrame, metrics: Metrics | None, baseline: Any, *, is_pairs: bool, **given: Any
) -> tuple[Values, Callable[[], Rows]]:
    """Return the values of a table, and a function that returns the rows to plan."""
    source = Values.of(values, metrics, needs_run=is_pairs, **given)
    if baseline is not None:
        check_run("baseline", baseline, str(source.run), schema_of(values)[str(source.run)])

    def rows_of() -> Rows:
        return rows_of_pairs(source, baseline) if is_pairs else rows_of_runs(source)

    return source, rows_of


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


class Power:
    """The power of each row, and the numbers of queries that it needs."""

    def __init__(self, rows: Rows, design: Design, difference: float | None) -> None:
        np = numpy()
        self.rows = rows
        self.design = design
        self.is_known: bool = difference is not None
        m = rows.moments
        self.difference: Array = m["md"]
        self.std: Array = m.std
        self.queries: Array = m["nw"]
        self.units: Array = m.effective()
        self.error: Array = m.error
        size = np.abs(m["md"])
        observed = np.where(size <= ROUNDING * m.size, 0.0, size)
        self.target: Array = (
            observed if difference is None else np.full(len(size), float(difference))
        )
        self.spread: Array = self.error * np.sqrt(self.units)
        self.skewness: Array = np.nan_to_num(m.skewness)
        self.kurtosis: Array = self._kurtosis(m)
        self.solutions: list[dict[str, float | None]] = [
            self._solution(place) for place in range(len(rows.keys))
        ]

    def _kurtosis(self, m: Any) -> Any:
        """Return an upper estimate of the kurtosis of the differences.

        Differences that are not 0 count as Laplace distributed, with a kurtosis of 6; skewed ones
        have at least that of a gamma distribution. For metrics in [0, 1], the kurtosis is at most
        (1 + |mean|)² / variance. The kurtosis of a sample is too low for few queries.
        """
        np = numpy()
        changed = (self.rows.count("wins") + self.rows.count("losses")) / self.rows.count("queries")
        of_ties = 6 / changed
        limit = (1 + np.abs(m["md"])) ** 2 / m.std**2
        is_share = np.array([each.range == 1.0 for each in self.rows.facts], dtype=bool)
        kurtosis = np.where(is_share, np.minimum(of_ties, limit), of_ties)
        return np.maximum(np.maximum(kurtosis, 3 + 1.5 * self.skewness**2), 3.0)

    def effects(self, place: int) -> tuple[float, float, float] | None:
        """Return the target in standard deviations of a unit, between its upper and lower bound.

        Values that do not vary, and targets of 0, have none.
        """
        units, spread, target = (float(e[place]) for e in (self.units, self.spread, self.target))
        if not spread > 0 or not target:
            return None
        kurtosis, confidence = float(self.kurtosis[place]), self.design.confidence
        if self.is_known:
            low, high = spread_interval(units, spread, kurtosis, confidence)
            return target / low, target / spread, target / high
        low, high = effect_interval(
            units, target / spread, float(self.skewness[place]), kurtosis, confidence
        )
        return high, target / spread, max(low, 0.0)

    def _solution(self, place: int) -> dict[str, float | None]:
        names = ("power", "needed_low", "needed", "needed_high", "detectable")
        effects = self.effects(place)
        if effects is None:
            return dict.fromkeys(names)
        units, spread = float(self.units[place]), float(self.spread[place])
        needed = [
            self.design.needed(each) if each and math.isfinite(each) else None for each in effects
        ]
        queries = [whole(each, float(self.queries[place]) / units) for each in needed]
        power = self.design.power_of(units, effects[1])
        return dict(
            zip(names, (power, *queries, self.design.detectable(units) * spread), strict=True)
        )

    def solved(self, name: str) -> list[float]:
        """Return a column of the solutions."""
        return [math.nan if each[name] is None else each[name] for each in self.solutions]  # type: ignore[misc]


class _Widths:
    """The widths of intervals with more queries."""

    def __init__(
        self, rows: Rows, width: float | None, numbers: Sequence[int], confidence: float
    ) -> None:
        self.rows = Rows()
        self.planned: list[Planned] = []
        for key, sums in zip(rows.keys, rows.sums, strict=True):
            pilot = Pilot(_with_judge(sums), confidence, bool(rows.predictions))
            plans = [pilot.with_width(width)] if width is not None else map(pilot.with_n, numbers)
            for each in plans:
                self.rows.keys.append(key)
                self.planned.append(each)

    def of(self, name: str) -> list[float]:
        """Return a column of the plans."""
        values = [getattr(each, name) for each in self.planned]
        return [math.nan if each is None else each for each in values]


def _with_judge(sums: Any) -> dict[str, float]:
    """Return the moments of `PREDICTED`, with zeros if there are no predictions."""
    return {**dict.fromkeys(PREDICTED.fields, 0.0), **sums}


def _warn(rows: Rows, source: Any) -> None:
    """Warn of judged queries that are few, or no random sample."""
    if not rows.predictions:
        return
    few = [sums["nw"] for sums in rows.sums if 0 < sums["nw"] < _FEW]
    if few:
        warn(
            f"fewer than {_FEW} judged queries in {number_of(len(few), 'row')}, e.g. "
            f"{few[0]:.0f}: the planned widths may be far from those that more judged "
            "queries give; judge some first"
        )
    warn_of_sampling(rows, row_texts(rows, source.by, source.run))
