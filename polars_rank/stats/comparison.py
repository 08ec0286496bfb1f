"""`compare`: differences between runs, with confidence intervals, tests and verdicts."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import Names, is_number, number_in, share, whole_number
from polars_rank.errors import ArgumentError, number_of, of_all_runs, short, warn
from polars_rank.frames.tables import framed
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.estimate import FEW_DIFFERENT
from polars_rank.stats.inference import NONE
from polars_rank.stats.result_columns import BOUND, COUNT, ESTIMATE, ResultColumn, returning
from polars_rank.stats.rows import ResultRows, rows_of_pairs
from polars_rank.stats.summary import ESTIMATE_COLUMNS, METHOD, SLICE_COLUMNS, Summary
from polars_rank.stats.value_columns import check_run, warn_of_directions
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

#: Above this share of queries that only one of the runs has, there is a warning.
MANY_MISSING = 0.05


class Margin(NamedTuple):
    """The size of a difference that does not matter."""

    size: float
    #: Whether it is a share of the baseline's mean.
    is_relative: bool = False

    @classmethod
    def of(cls, given: Any) -> Margin:
        """Return the margin of a parameter: a number, or text such as "2%"."""
        is_relative = isinstance(given, str) and given.strip().endswith("%")
        percent = number_in(given.strip()[:-1].strip()) if is_relative else None
        size = float(given) if is_number(given) else -1.0 if percent is None else percent / 100
        if size < 0 or (is_relative and size >= 1):
            raise ArgumentError(
                "must be a number, 0 or above, or a percentage of the baseline's mean as "
                f"text, such as '2%'; found {short(given)}",
                "margin",
            )
        return cls(size, is_relative)


NO_MARGIN = Margin(0.0)


class Comparison(Summary):
    """The estimates of differences of several rows."""

    def __init__(
        self, rows: ResultRows, confidence: float, margin: Margin = NO_MARGIN, *,
        correction: bool = True, repeated: bool = False, min_queries: int = 0,
    ) -> None:  # fmt: skip
        lower = rows.source.lower_is_better
        is_whole = np.array([key.slice is None for key in rows.keys], dtype=bool)
        known = is_whole | (rows.estimate.n >= min_queries)
        super().__init__(rows, confidence, repeated=repeated, differences=True, known=known)
        self.margin = margin
        self.is_lower: Array = np.array([lower[key.metric] for key in rows.keys], dtype=bool)
        self.p_values: Array
        self.levels: Array
        self.comparisons: Array
        # The estimates with the methods of the corrected intervals.
        self.corrected, self.p_values, self.levels, self.comparisons = rows.levels(
            self.inference, 1 - confidence, is_corrected=correction, is_repeated=repeated
        )

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The corrected intervals."""
        return self.corrected.bounds(self.levels)

    @cached_property
    def relative_bounds(self) -> tuple[Array, Array]:
        """The intervals of the relative differences, at the level of `bounds`."""
        return self.corrected.relative_bounds(self.levels)

    @property
    def contribution(self) -> Array:
        """The differences of slices as parts of the difference of all queries."""
        e, keys = self.estimate, self.rows.keys
        whole = {
            key: weight for key, weight in zip(keys, e.weight, strict=True) if key.slice is None
        }
        totals = [whole[key._replace(slice=None, value=None)] for key in keys]
        return e.mean * e.weight / np.array(totals)

    @cached_property
    def verdicts(self) -> list[str]:
        """A word for each row, by which a run can be shipped or not."""
        low, high = self._turned(self.bounds)
        low_of_margin, high_of_margin = low, high
        if self.margin.is_relative:
            low_of_margin, high_of_margin = self._turned(self.relative_bounds)
        margin = self.margin.size
        conditions = (
            ("too few", np.isnan(low)),
            ("better", low > 0),
            ("equivalent", (margin > 0) & (low_of_margin > -margin) & (high_of_margin < margin)),
            ("not worse", (margin > 0) & (low_of_margin > -margin)),
            ("worse", high < 0),
        )
        # Few queries that differ may show a verdict, but not that there is none.
        e = self.estimate
        default = np.where(e.is_same & ~self._is_equal, "too few", "unclear")
        verdicts = np.select(
            [each for _, each in conditions], [name for name, _ in conditions], default
        )
        return [str(each) for each in verdicts]

    @property
    def _is_equal(self) -> Array:
        """Whether all differences are 0."""
        return (self.estimate.error == 0) & (self.estimate.mean == 0)

    def _turned(self, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        """Return bounds of the difference in which higher is better."""
        (low, high) = bounds
        return np.where(self.is_lower, -high, low), np.where(self.is_lower, -low, high)

    @property
    def reasons(self) -> list[str | None]:
        """Why a verdict is not about an interval of the difference; else None."""
        unbounded = np.isnan(self.relative_bounds[0]) if self.margin.is_relative else None
        reasons: list[str | None] = []
        is_equal = self._is_equal
        for place, verdict in enumerate(self.verdicts):
            used = number_of(self.estimate.n[place], "query", "queries")
            reason = None
            if is_equal[place]:
                reason = f"equal in all {used}"
            elif verdict == "too few" and self.inference.method[place] == NONE:
                reason = f"no interval from {used}"
            elif verdict == "too few" and self.estimate.n[place] < FEW_DIFFERENT:
                reason = f"only {used}"
            elif verdict == "too few":
                reason = f"fewer than {FEW_DIFFERENT} of {used} differ from most"
            elif unbounded is not None and unbounded[place] and verdict == "unclear":
                reason = "the baseline's mean may be 0"
            reasons.append(reason)
        return reasons


_MEANS = "over the queries with a value in both runs"
COMPARISON = (
    *SLICE_COLUMNS,
    ResultColumn("baseline_mean", f"mean of the baseline {_MEANS}", lambda r: r.estimate.base,
                 is_minor=True),
    ResultColumn("mean", f"mean of the run {_MEANS}", lambda r: r.estimate.mean + r.estimate.base),
    ResultColumn("difference", "mean - baseline_mean", lambda r: r.estimate.mean, kind=ESTIMATE,
                 bounds=("low", "high"), format="signed"),
    ResultColumn("low", "lower bound of the confidence interval of the difference; null if "
                 "there is none", lambda r: r.bounds[0], kind=BOUND),
    ResultColumn("high", "upper bound", lambda r: r.bounds[1], kind=BOUND),
    ResultColumn("relative_difference", "difference / abs(baseline_mean)",
                 lambda r: r.estimate.ratio, kind=ESTIMATE,
                 bounds=("relative_low", "relative_high"), format="percent", is_detail=True),
    ResultColumn("relative_low", "lower bound of the relative difference; null if the baseline's "
                 "mean may be 0. Only with a margin in percent, or details",
                 lambda r: r.relative_bounds[0], kind=BOUND, format="percent", only="relative",
                 is_minor=True),
    ResultColumn("relative_high", "upper bound of the relative difference",
                 lambda r: r.relative_bounds[1], kind=BOUND, format="percent", only="relative",
                 is_minor=True),
    ResultColumn("p_value", "two-sided p-value for a difference of 0", lambda r: r.p_values,
                 kind=BOUND, format="p_value"),
    ResultColumn("wins", "number of queries in which the run is better",
                 lambda r: r.rows.count("wins"), pl.Int64(), COUNT, is_minor=True),
    ResultColumn("losses", "number of queries in which the baseline is better",
                 lambda r: r.rows.count("losses"), pl.Int64(), COUNT, is_minor=True),
    ResultColumn("queries", "number of queries with a value in both runs",
                 lambda r: r.estimate.n, pl.Int64(), COUNT, is_minor=True),
    ResultColumn("contribution", "part of the difference of all queries; those of a column of "
                 "`slices` add up to it", lambda r: r.contribution, only="slices", is_minor=True),
    ResultColumn("verdict", '"better", "worse", "equivalent" (within the margin), "not worse" '
                 '(above -margin), "unclear", or "too few" queries, or queries that differ',
                 lambda r: r.verdicts, pl.String()),
    ResultColumn("comparisons", "number of rows whose intervals and p-values are corrected "
                 "together: those of the group, or of its slices",
                 lambda r: r.comparisons, pl.Int64(), is_minor=True),
    ResultColumn("reason", "why there is no interval or no verdict, or that all values are equal; "
                 "else null",
                 lambda r: r.reasons, pl.String(), is_detail=True),
    ResultColumn("ties", "number of queries with equal values", lambda r: r.rows.count("ties"),
                 pl.Int64(), COUNT, is_detail=True),
    ResultColumn("missing", "number of queries that only one of the runs has",
                 lambda r: r.rows.count("missing"), pl.Int64(), COUNT, is_detail=True),
    ResultColumn("low_uncorrected", "lower bound of the interval for one question asked in advance",
                 lambda r: r.uncorrected[0], kind=BOUND, is_detail=True),
    ResultColumn("high_uncorrected", "upper bound of that interval", lambda r: r.uncorrected[1],
                 kind=BOUND, is_detail=True),
    *ESTIMATE_COLUMNS,
    METHOD,
)  # fmt: skip


@framed
@returning(COMPARISON)
def compare(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    baseline: Any = None,
    margin: float | str = 0,
    run: str = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    slices: Names | None = None,
    min_queries: int = 30,
    confidence: float = 0.95,
    correction: bool = True,
    repeated: bool = False,
    details: bool = False,
) -> pl.LazyFrame:
    r"""Compare runs on the queries that they have in common, with a verdict for each difference.

    $$d_q = x_q - b_q, \qquad \bar d = \frac{\sum_q w_q d_q}{\sum_q w_q}$$

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pr.datasets.search_log(300, runs=["bm25", "neural"], seed=1).collect()
    >>> values = pr.per_query(log, "ndcg@10", by="run")
    >>> comparison = pr.compare(values, baseline="bm25")
    >>> comparison.select("run", "difference", "low", "high", "verdict")
    shape: (1, 5)
    ┌────────┬────────────┬──────────┬──────────┬─────────┐
    │ run    ┆ difference ┆ low      ┆ high     ┆ verdict │
    │ ---    ┆ ---        ┆ ---      ┆ ---      ┆ ---     │
    │ str    ┆ f64        ┆ f64      ┆ f64      ┆ str     │
    ╞════════╪════════════╪══════════╪══════════╪═════════╡
    │ neural ┆ 0.074101   ┆ 0.047665 ┆ 0.100587 ┆ better  │
    └────────┴────────────┴──────────┴──────────┴─────────┘

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them: one row per query and run, one column per
        metric.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats. If no metric has the
        name of a column, higher values are taken as better, with a warning; `pl.col(name)` states
        this without one.
    baseline
        Run that the others are compared with. Default: all pairs of runs are compared.
    margin
        Size of a difference that does not matter: a number of 0 or above, or a percentage of the
        baseline's mean, such as "2%". With it, a run can be "equivalent" or "not worse".
    run
        Column of the run.
    query
        Column or columns that identify the query.
    by
        Columns to group by.
    weight
        Column of weights, 0 or more, such as the traffic of the query.
    cluster
        Columns that identify the sampling unit, such as the user.
    slices
        Columns that define slices, such as the country of the query.
    min_queries
        Minimum number of queries of a slice. A smaller slice has no interval.
    confidence
        Confidence level.
    correction
        Whether to correct intervals and p-values for the number of rows, so that all of a group, or
        of its slices, hold together. Use False for one question that was asked in advance.
    repeated
        Whether to allow for repeated comparisons as new queries arrive. All intervals together then
        contain the true difference with probability `confidence`, and are wider.
    details
        Whether to add columns, such as the relative difference and the uncorrected interval.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric, and pair of runs, in this order, and after
        it the rows of its slices. A run without rankings in a group or slice has 0 `queries` there.
        The columns are those of `by`, and

        - `metric`, the column of the run, and `baseline`;
        {columns}

    Raises
    ------
    DataError
        A query is repeated in a run, has different weights, clusters or slices in two runs, or the
        baseline does not exist. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        More than 5% of the queries are in only one of the runs; few units have most of the weight;
        the values are of several days with `repeated`, without ``cluster="day"``; or no metric has
        the name of a column.

    Notes
    -----
    The verdict is the first that applies: "too few" if there is no interval, "better" if the
    interval is above 0, "equivalent" if it is between -`margin` and `margin`, "not worse" if it is
    above -`margin`, "worse" if it is below 0, "too few" if fewer than 10 queries differ from the
    commonest difference, and "unclear" otherwise. If lower values are better, the signs are
    reversed. With a margin in percent, the interval of the relative difference is compared with the
    margin.

    The interval and the p-value of a row are from the same test: Tango's score test if all values
    are 0 or 1, otherwise the t test with Hall's correction for skewness. Few queries have bounds
    that hold for any distribution on the range of the metric, or no interval if it is unknown.
    Intervals and p-values are corrected for the rows of a group, and of its slices: with `by`, each
    group is right with probability `confidence`, not all together. The correction simulates the
    correlations of the rows, with a fixed seed and 8,192 draws (fewer above 256 rows): a corrected
    p-value of 0.05 has a standard error of at most 0.0005 for 10 rows, and 0.001 for 100. The page
    "How statistics are computed" of the guide has the tests, the correction and the references.
    """
    share("confidence", confidence)
    whole_number("min_queries", min_queries)
    of_margin = Margin.of(margin)
    is_relative = of_margin.is_relative or details
    source = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        slices=slices, is_repeated=repeated,
    )  # fmt: skip
    if baseline is not None:
        check_run("baseline", baseline, run, source.schema[run])

    def comparison() -> tuple[list[Key], Comparison]:
        warn_of_directions(metrics, source.lower_is_better)
        rows = rows_of_pairs(source, baseline, is_relative=is_relative)
        found = Comparison(
            rows, confidence, of_margin, correction=correction, repeated=repeated,
            min_queries=min_queries,
        )  # fmt: skip
        _warn_of_missing(rows)
        found.warn()
        return rows.keys, found

    features = ["relative"] * is_relative
    return source.result(COMPARISON, comparison, pairs=True, details=details, features=features)


def _warn_of_missing(rows: ResultRows) -> None:
    """Warn of queries that are not compared."""
    source, queries, missing = rows.source, rows.estimate.n, rows.count("missing")
    whole = np.array([key.slice is None for key in rows.keys], dtype=bool)
    many = whole & (missing > MANY_MISSING * (queries + missing))
    if count := int(many.sum()):
        place = int(many.argmax())
        runs, query = [str(source.run)], [*source.by, *source.query]
        warn(
            f"more than {MANY_MISSING:.0%} of the queries are not compared in "
            f"{number_of(count, 'row')}, because only one of the runs has them, e.g. "
            f"{missing[place]:,.0f} of {missing[place] + queries[place]:,.0f} of "
            f"{rows.subject(place)}: evaluate all runs on the same queries, or keep those that all "
            f"runs have: {of_all_runs('values', 'values', runs, query)}"
        )
