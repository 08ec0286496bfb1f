"""`summarize`: means of per-query values with confidence intervals."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, free, names, share
from polars_rank.errors import number_of, warn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.inference import NONE, SEQUENCE
from polars_rank.stats.results import (
    BOUND,
    COUNT,
    ESTIMATE,
    ResultColumn,
    chosen,
    first,
    labels,
    returning,
    schema_of_result,
    series_of,
    table_of,
)
from polars_rank.stats.rows import Rows, rows_of_runs
from polars_rank.stats.values import Values, deferred

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.inference import Inference
    from polars_rank.stats.kernel import Moments

#: Below these degrees of freedom, intervals with unequal weights are unreliable.
FEW_DEGREES = 5
#: Below these numbers of queries and of clusters, confidence sequences are unreliable.
_FIRST_LOOK = (30, 10)


class Summary:
    """The estimates of means of several rows."""

    def __init__(self, rows: Rows, confidence: float, *, weighted: bool, repeated: bool) -> None:
        np = numpy()
        self.rows = rows
        self.confidence = confidence
        self.moments: Moments = rows.moments
        known = np.ones(len(rows.keys), dtype=bool)
        inference = rows.inference(differences=False, weighted=weighted, known=known)
        self.inference: Inference = inference.as_sequences() if repeated else inference

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """The intervals of the means."""
        return self.inference.bounds(1 - self.confidence)

    @property
    def mean(self) -> Array:
        """The means; NaN without values."""
        return numpy().where(self.moments["nw"] > 0, self.inference.value, numpy().nan)

    def of_predictions(self, name: str) -> Array:
        """Return a number of each estimate with predictions."""
        return [getattr(each, name) for each in self.rows.predictions]


def of_key(name: str) -> Any:
    """Return a function from a result to a part of the keys of its rows."""
    return lambda result: [getattr(key, name) for key in result.rows.keys]


SLICE_COLUMNS = (
    ResultColumn(
        "slice", "column of `slices`; null for all queries", of_key("slice"), pl.String(),
        only="slices",
    ),
    ResultColumn(
        "value", "value of the slice as text", of_key("value"), pl.String(), only="slices"
    ),
)  # fmt: skip
PREDICTION_COLUMNS = (
    ResultColumn(
        "predicted", "number of other queries, with predicted values only",
        lambda r: r.of_predictions("others"), pl.Int64(), COUNT, only="predictions", is_detail=True,
    ),
    ResultColumn(
        "judge_weight", "weight λ of the predicted values",
        lambda r: r.of_predictions("judge_weight"), only="predictions", is_detail=True,
    ),
    ResultColumn(
        "effective_queries",
        "number of judged queries alone that would give the same standard error",
        lambda r: r.of_predictions("effective_queries"), only="predictions", is_detail=True,
    ),
)  # fmt: skip
ESTIMATE_COLUMNS = (
    ResultColumn(
        "std", "standard deviation of the values", lambda r: r.moments.std, is_detail=True
    ),
    ResultColumn("std_error", "standard error", lambda r: r.inference.error, is_detail=True),
    ResultColumn("skewness", "skewness of the values, or of what units contribute to the mean",
                 lambda r: r.moments.skewness, is_detail=True),
    ResultColumn("used", "number of values that count", lambda r: r.moments["nw"], pl.Int64(),
                 COUNT, is_detail=True),
    ResultColumn("undefined", "number of undefined (null) values",
                 lambda r: r.rows.count("undefined"), pl.Int64(), COUNT, is_detail=True),
    ResultColumn("effective", "Kish's effective number of units, (Σw)² / Σw²",
                 lambda r: r.moments.effective(), is_detail=True),
    ResultColumn("method", 'method of the interval: "t", "wilson", "tango" and so on',
                 lambda r: [*r.inference.method], pl.String(), is_detail=True),
    ResultColumn("confidence", "confidence level", lambda r: [r.confidence] * len(r.rows.keys),
                 is_detail=True),
)  # fmt: skip
SUMMARY = (
    *SLICE_COLUMNS,
    ResultColumn("mean", "mean of the values that count", lambda r: r.mean, kind=ESTIMATE,
                 bounds=("low", "high")),
    ResultColumn("low", "lower bound of the confidence interval; null if there is none",
                 lambda r: r.bounds[0], kind=BOUND),
    ResultColumn("high", "upper bound", lambda r: r.bounds[1], kind=BOUND),
    ResultColumn("queries", "number of rankings", lambda r: r.rows.count("queries"), pl.Int64(),
                 COUNT),
    *ESTIMATE_COLUMNS,
    *PREDICTION_COLUMNS,
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
    predictions: Any = None,
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
    >>> rr = [0.8, 0.5, 0.4, 0.7, 0.6, None]
    >>> values = pl.DataFrame({"query": range(6), "rr": rr})
    >>> pr.summarize(values, confidence=0.9)
    shape: (1, 5)
    ┌────────┬──────┬──────────┬──────────┬─────────┐
    │ metric ┆ mean ┆ low      ┆ high     ┆ queries │
    │ ---    ┆ ---  ┆ ---      ┆ ---      ┆ ---     │
    │ str    ┆ f64  ┆ f64      ┆ f64      ┆ i64     │
    ╞════════╪══════╪══════════╪══════════╪═════════╡
    │ rr     ┆ 0.6  ┆ 0.449256 ┆ 0.750744 ┆ 6       │
    └────────┴──────┴──────────┴──────────┴─────────┘

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
    predictions
        Per-query values from predicted labels, such as those of a language model, for all queries.
        `values` then has those from people's labels for a random sample of these queries.
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
        of them recur, without `cluster`; all values are equal, so that there is no interval; few
        units have most of the weight; most rankings have no retrieved document; or there are too
        few queries for `repeated`.

    Notes
    -----
    The units u are the queries, or with `cluster` the clusters, with the mean $x_u$ and the weight
    $w_u$ of their queries. If all values are 0 or 1, as for the hit rate, the interval is Wilson's;
    with weights or clusters, its number of units is m (1 - m) / se². Otherwise, each bound is the
    wider of two: that of the t distribution, and that of Hall's correction for skewness. If Kish's
    effective number n of units is below 90% of their number, the t distribution has
    (Σe²)² / Σe⁴ - 1 degrees of freedom for the units' residuals e, at most n - 1.

    Null values do not count. `per_query` returns the values that count, such as 0 for the NDCG of a
    query without relevant documents.

    With `repeated`, the interval is a confidence sequence. It is an approximation for many queries:
    there should be at least 100 at the first look, and for rare events at least 30 events.

    References
    ----------
    Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    Kish, Survey sampling, 1965.
    Hall, On the removal of skewness by transformation, 1992.
    Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023.
    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021.
    """
    share("confidence", confidence)
    special()
    schema = schema_of(values)
    table = Values.of(
        values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster,
        slices=slices, predictions=predictions, needs_query=False, needs_run=False,
    )  # fmt: skip
    groups, runs = table.by, table.run
    given = {"slices": bool(names("slices", slices)), "predictions": predictions is not None}
    columns = chosen(SUMMARY, [name for name, is_used in given.items() if is_used], details=details)
    of_rows = [*groups, "metric", *([] if runs is None else [runs])]
    free([name for name in of_rows if name != "metric"], schema_of_result(columns))
    keys = {name: pl.String() if name == "metric" else schema[name] for name in of_rows}

    def result() -> pl.DataFrame:
        rows = rows_of_runs(table)
        summary = Summary(rows, confidence, weighted=table.is_weighted, repeated=repeated)
        _warn(summary, groups, runs)
        own = key_series(rows, groups, {runs: "run"}, keys)
        return table_of([*own, *series_of(columns, summary)])

    return deferred(result, {**keys, **schema_of_result(columns)})


def key_series(
    rows: Rows, groups: Sequence[str], others: dict[str | None, str], types: dict[str, pl.DataType]
) -> list[pl.Series]:
    """Return the columns of groups, the metric and runs; `others` maps columns to parts of keys."""
    series = []
    for name, dtype in types.items():
        if name in groups:
            values = [key.group[list(groups).index(name)] for key in rows.keys]
        else:
            values = [getattr(key, others.get(name, name)) for key in rows.keys]
        series.append(pl.Series(name, values, dtype))
    return series


def row_texts(rows: Rows, groups: Sequence[str], run: str | None) -> list[str]:
    """Return what each row is about, for messages."""
    texts = labels(groups, (key.group for key in rows.keys))
    return [
        ", ".join(
            each for each in (
                repr(key.metric), "" if run is None else f"{run} = {key.run!r}", text,
                "" if key.slice is None else f"{key.slice} = {key.value!r}",
            ) if each
        )
        for key, text in zip(rows.keys, texts, strict=True)
    ]  # fmt: skip


def _warn(summary: Summary, groups: Sequence[str], run: str | None) -> None:
    rows, inference = summary.rows, summary.inference
    texts = row_texts(rows, groups, run)
    equal = (inference.method == NONE) & (summary.moments["nw"] > 1) & (inference.error == 0)
    warn_rows(
        equal,
        texts,
        "all values are equal in {}: they do not show how much queries vary, so there is no "
        "interval",
    )
    warn_of_degrees(inference, summary.moments, texts)
    warn_of_sampling(rows, texts)


def warn_rows(mask: Array, texts: Sequence[str], message: str) -> None:
    """Warn of some rows; the message has a place for their number and an example."""
    if count := int(mask.sum()):
        warn(message.format(f"{number_of(count, 'row')}, e.g. of {first(mask, texts)}"))


def warn_of_degrees(inference: Inference, moments: Moments, texts: Sequence[str]) -> None:
    """Warn of intervals in which few units have most of the weight, and of too early looks."""
    units, method = moments["uw"], inference.method
    few = (inference.degrees < FEW_DEGREES) & (moments.effective() < 0.9 * units)
    warn_rows(
        few & (method != NONE),
        texts,
        f"fewer than {FEW_DEGREES} degrees of freedom in {{}}: few queries or clusters have most "
        "of the weight, and the interval is unreliable",
    )
    queries, clusters = _FIRST_LOOK
    enough = numpy().where(units < moments["nw"], clusters, queries)
    warn_rows(
        (method == SEQUENCE) & (units < enough),
        texts,
        f"fewer than {queries} queries, or {clusters} clusters, in {{}}: intervals of "
        "`repeated=True` are approximations for more; wait before you decide",
    )


def warn_of_sampling(rows: Rows, texts: Sequence[str]) -> None:
    """Warn of judged queries that are not a random sample of all queries."""
    if rows.predictions:
        warn_rows(
            numpy().array([each.is_selective for each in rows.predictions], dtype=bool), texts,
            "the predicted values of judged queries differ from those of the others in {} "
            "(p < 0.001): the judged queries are not a random sample of all, so the estimate may "
            "be biased",
        )  # fmt: skip
