"""`summarize`: means of per-query values with confidence intervals."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import Names, share
from polars_rank.frames.tables import framed
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.estimate import FEW_DIFFERENT, FEW_QUERIES, UNEQUAL, Estimate
from polars_rank.stats.inference import NONE, Inference, T
from polars_rank.stats.result_columns import BOUND, COUNT, ESTIMATE, ResultColumn, returning
from polars_rank.stats.rows import ResultRows, rows_of_runs
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

#: Below these degrees of freedom, intervals with unequal weights are unreliable.
FEW_DEGREES = 5


class Summary:
    """The estimates of several rows: means, or differences of means."""

    def __init__(
        self, rows: ResultRows, confidence: float, *, repeated: bool = False,
        differences: bool = False, known: Array = True,
    ) -> None:  # fmt: skip
        self.rows = rows
        self.confidence = confidence
        self.estimate: Estimate = rows.estimate
        self.inference: Inference = Inference.of(
            rows.estimate, rows.facts, is_difference=differences,
            is_weighted=rows.source.weight is not None, known=known, is_repeated=repeated,
        )  # fmt: skip

    @cached_property
    def uncorrected(self) -> tuple[Array, Array]:
        """The intervals of single rows."""
        alpha = 1 - self.confidence
        return self.inference.at(alpha).bounds(alpha)

    @cached_property
    def corrected(self) -> Inference:
        """The estimates with the methods of the intervals of the result."""
        return self.inference.at(1 - self.confidence)

    @property
    def skewness(self) -> Array:
        """The skewness of the mean times √n: that of the values, if weights are equal."""
        e = self.estimate
        return np.where(e.error == 0, np.nan, 6 * e.acceleration * np.sqrt(e.effective))

    def warn(self) -> None:
        """Warn of unreliable intervals."""
        e, method = self.estimate, self.inference.method
        degrees = np.minimum(e.degrees, np.minimum(e.shape, e.effective) - 1)
        few = (degrees < FEW_DEGREES) & (e.effective < UNEQUAL * e.units)
        self.rows.warn_of(
            few & (method != NONE),
            f"fewer than {FEW_DEGREES} degrees of freedom in {{}}: few queries or clusters have "
            "most of the weight, and the interval is unreliable",
        )


SLICE_COLUMNS = (
    ResultColumn("slice", "column of `slices`; null for all queries",
                 lambda r: [key.slice for key in r.rows.keys], pl.String(), only="slices"),
    ResultColumn("value", "value of the slice as text",
                 lambda r: [key.value for key in r.rows.keys], pl.String(), only="slices"),
)  # fmt: skip
ESTIMATE_COLUMNS = (
    ResultColumn("std", "standard deviation of the values", lambda r: r.estimate.std,
                 is_detail=True),
    ResultColumn("std_error", "standard error", lambda r: r.estimate.error, is_detail=True),
    ResultColumn("skewness", "skewness of the values, or of what units contribute to the mean",
                 lambda r: r.skewness, is_detail=True),
    ResultColumn("undefined", "number of undefined (null) values",
                 lambda r: r.rows.count("undefined"), pl.Int64(), COUNT, is_detail=True),
    ResultColumn("effective", "Kish's effective number of units, (Σw)² / Σw²",
                 lambda r: r.estimate.effective, is_detail=True),
    ResultColumn("confidence", "confidence level", lambda r: [r.confidence] * len(r.rows.keys),
                 is_detail=True),
)  # fmt: skip
METHOD = ResultColumn(
    "method", 'method of the interval: "t", "clopper-pearson", "tango", "bounded", "sequence" or '
    '"none"', lambda r: [*r.corrected.method], pl.String(),
)  # fmt: skip
SUMMARY = (
    *SLICE_COLUMNS,
    ResultColumn("mean", "mean of the values that count", lambda r: r.estimate.mean, kind=ESTIMATE,
                 bounds=("low", "high")),
    ResultColumn("low", "lower bound of the confidence interval; null if there is none",
                 lambda r: r.uncorrected[0], kind=BOUND),
    ResultColumn("high", "upper bound", lambda r: r.uncorrected[1], kind=BOUND),
    ResultColumn("queries", "number of values that count", lambda r: r.estimate.n, pl.Int64(),
                 COUNT),
    *ESTIMATE_COLUMNS,
    METHOD,
)  # fmt: skip


@framed
@returning(SUMMARY)
def summarize(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str | None = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    slices: Names | None = None,
    confidence: float = 0.95,
    repeated: bool = False,
    details: bool = False,
) -> pl.LazyFrame:
    r"""Compute means of metrics with confidence intervals.

    $$m = \frac{\sum_q w_q x_q}{\sum_q w_q}, \qquad
    \mathrm{se}^2 = \frac{n}{n - 1} \cdot \frac{\sum_u w_u^2 (x_u - m)^2}{(\sum_u w_u)^2},
    \qquad n = \frac{(\sum_u w_u)^2}{\sum_u w_u^2}$$

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> rr = [0.8, 0.5, 0.4, 0.7, 0.6, None] * 10
    >>> values = pl.DataFrame({"query": range(60), "rr": rr})
    >>> pr.summarize(values, confidence=0.9)
    shape: (1, 6)
    ┌────────┬──────┬──────────┬──────────┬─────────┬────────┐
    │ metric ┆ mean ┆ low      ┆ high     ┆ queries ┆ method │
    │ ---    ┆ ---  ┆ ---      ┆ ---      ┆ ---     ┆ ---    │
    │ str    ┆ f64  ┆ f64      ┆ f64      ┆ i64     ┆ str    │
    ╞════════╪══════╪══════════╪══════════╪═════════╪════════╡
    │ rr     ┆ 0.6  ┆ 0.566129 ┆ 0.633871 ┆ 50      ┆ t      │
    └────────┴──────┴──────────┴──────────┴─────────┴────────┘

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them: one row per ranking, one column per metric.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats.
    run
        Column of the run, each of which is summarized.
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
    confidence
        Confidence level.
    repeated
        Whether to allow for repeated estimates as new queries arrive. All intervals together then
        contain the true mean with probability `confidence`, and are wider.
    details
        Whether to add columns, such as the standard error and the method of the interval.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and run, in this order, with the columns of
        `by`, and

        - `metric`, and the column of the run;
        {columns}

    Raises
    ------
    DataError
        A query is repeated, values are not finite, or weights are invalid. Raised when the result
        is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        The table has no column of queries; several columns identify a query, and the values of one
        of them recur, without `cluster`; all values are equal, or few, and the range of the metric
        is unknown; few units have most of the weight; or the values are of several days with
        `repeated`, without ``cluster="day"``.

    Notes
    -----
    The units u are the queries, or with `cluster` the clusters, with the mean $x_u$ and the weight
    $w_u$ of their queries. The interval is that of t, with Hall's correction for skewness; for
    values of 0 and 1, it is that of Clopper and Pearson. If the range of the metric is known, few
    queries have bounds that hold for any distribution on it, and all intervals lie in it. The page
    "How statistics are computed" of the guide has the tests and the simulations.

    Null values do not count. `per_query` returns the values that count, such as 0 for the NDCG of a
    query without relevant documents.

    With `repeated`, the interval is a confidence sequence. It is an approximation for many queries:
    there should be at least 100 at the first look, and for rare events at least 30 events. Below 30
    queries, or 10 clusters, there is none.

    References
    ----------
    Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, 1934.
    Kish, Survey sampling, 1965.
    Hall, On the removal of skewness by transformation, 1992.
    Learned-Miller & Thomas, A new confidence interval for the mean of a bounded random variable,
    2019.
    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021.
    """
    share("confidence", confidence)
    source = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        slices=slices, is_repeated=repeated, needs_query=False, needs_run=False,
    )  # fmt: skip

    def summary() -> tuple[list[Key], Summary]:
        rows = rows_of_runs(source)
        found = Summary(rows, confidence, repeated=repeated)
        e, method = rows.estimate, found.inference.method
        rows.warn_of(
            (method == NONE) & (e.n > 1) & (e.error == 0),
            "all values are equal in {}: they do not show how much queries vary, so there is no "
            "interval",
        )
        rows.warn_of(
            (method == T) & e.is_few,
            f"fewer than {FEW_QUERIES} queries, or {FEW_DIFFERENT} that differ from most, in {{}}: "
            "without a known range of the values, the interval assumes a normal distribution",
        )
        found.warn()
        return rows.keys, found

    return source.result(SUMMARY, summary, details=details)
