"""`plan`: how many further human queries an estimate with predictions needs."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, check_distinct, free, integer, positive, share
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, number_of, short, warn
from polars_rank.evaluation.means import ratio
from polars_rank.frames.tables import framed_table, lazy, schema_of
from polars_rank.stats.baselines import against_baseline
from polars_rank.stats.intervals import special
from polars_rank.stats.moment_tables import is_moments, moments
from polars_rank.stats.per_query_tables import key_columns, query_columns, run_column
from polars_rank.stats.prediction_estimates import (
    FIELDS,
    differs,
    estimate,
    warn_of_sampling,
)
from polars_rank.stats.predictions import (
    OF_DIFFERENCE,
    PREDICTED,
)
from polars_rank.stats.resampling import numpy
from polars_rank.stats.run_pairs import without_duplicates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

_PLANNED = {
    "n": pl.Int64(),
    **dict.fromkeys(("width", "width_human", "saving"), pl.Float64()),
    "note": pl.String(),
}
#: Below this number of human queries, `plan` warns.
_FEW = 10
#: The smallest number of human queries for an estimate with predictions.
_LEAST = 3
#: Below this saving, the judge is not worth its labels.
_WORTH = 0.1
#: Widths that differ by less, relative to them, are equal.
_SLACK = 1e-9
#: Number of widths that are computed at once.
_WIDTHS = 2**12
#: The largest number of human queries.
_MOST = 2**48
_SUMS, _ADDED, _PLAN = OWN + "sums", OWN + "added", OWN + "plan"


@framed_table
def plan(
    values: pl.LazyFrame,
    predictions: Any,
    metrics: Metrics | None = None,
    *,
    n: int | Sequence[int] | None = None,
    width: float | None = None,
    baseline: Any = None,
    run: str | None = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
) -> pl.LazyFrame:
    r"""Plan how many more queries people should judge, if a model labels all of them.

    $$\mathrm{width} = 2 \, t_{h - 2} \sqrt{\frac{s^2}{h} + \frac{\lambda^2 \sigma_J^2}{N}}$$

    with h human queries in all, N other queries, the weight λ of the predicted values for these
    numbers, the variance s² of H − λJ over the human queries of now (divisor h − 2 of now), and
    the variance of the predicted values J. It is the width that `summarize` and `compare` with
    `predictions` are expected to have after n more queries are judged. Without predictions, or if
    λ is 0, it is $2 \, t_{h - 1} s_H / \sqrt h$.

    Parameters
    ----------
    values
        Per-query values from human labels, for a random sample of the queries.
    predictions
        Per-query values of the same metrics and rankings from predicted labels, for all queries.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    n
        Number of additional human queries, chosen at random among the others, 0 or more; 0 for the
        interval of now. Or several such numbers. Pass either `n` or `width`.
    width
        Width of the confidence interval to reach, `high` − `low`, above 0.
    baseline
        The run that the others are compared with. None: the intervals are those of the means.
    run
        Column of runs. A table without the column "run" has one run. None for the means over all
        rows.
    by
        Columns that split the tables into groups.
    query
        Columns that identify the query, as in `compare`.
    weight
        Column of query weights, 0 or more. Further queries have weights like those of now.
    confidence
        Confidence level, between 0 and 1.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the tables names, as `per_query` returns it; else the
        default.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric, run, and number of queries in `n`, with
        the columns of `by`, and

        - `metric`, and the column of the run; with `baseline`, without a row of the baseline;
        - `n`: number of additional human queries: as given, or the smallest with at most the given
          width. Null if even all queries are not enough;
        - `width`: expected width of the interval with predictions;
        - `width_human`: expected width of the interval of the same human queries alone;
        - `saving`: share of human labels that the predictions save for this width,
          $1 - h / h'$, where h' is the smallest number of human queries that have at most this
          width without predictions. h' may be larger than the number of queries of the table;
        - `note`: whether the saving is below 10%, or why a number is null; else null.

        Numbers are null for fewer than three human queries, if all values are equal, or if fewer
        than n queries are left. A query counts if its value is not null.

    Raises
    ------
    ArgumentError
        Both or neither of `n` and `width` are given, or a metric is not a mean over queries.
    DataError
        Predictions lack a human query, or runs, queries or conventions do not match, as in
        `compare`. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        There are fewer than 10 human queries, from which the variance is not known well; or the
        human queries are not a random sample of all.

    Notes
    -----
    For metrics of 0 and 1, widths are those of t intervals (`interval="t"`, `test="t"`), although
    `summarize` and `compare` have Wilson's and Tango's by default.

    When all queries are judged, the interval is that of the human queries alone. Clusters and
    inclusion probabilities are not supported: how many clusters further queries have is unknown.

    References
    ----------
    Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> predicted = pl.DataFrame({"query": range(1000)}).with_columns(
    ...     rr=(pl.col("query") * 7 % 11) / 10
    ... )
    >>> error = (pl.col("query") % 3 - 1) / 2
    >>> values = predicted.head(60).with_columns(rr=pl.col("rr") + error)
    >>> pr.judges.plan(values, predicted, n=[0, 40, 100])
    shape: (3, 6)
    ┌────────┬─────┬──────────┬─────────────┬──────────┬──────┐
    │ metric ┆ n   ┆ width    ┆ width_human ┆ saving   ┆ note │
    │ ---    ┆ --- ┆ ---      ┆ ---         ┆ ---      ┆ ---  │
    │ str    ┆ i64 ┆ f64      ┆ f64         ┆ f64      ┆ str  │
    ╞════════╪═════╪══════════╪═════════════╪══════════╪══════╡
    │ rr     ┆ 0   ┆ 0.217818 ┆ 0.264727    ┆ 0.318182 ┆ null │
    │ rr     ┆ 40  ┆ 0.168981 ┆ 0.203337    ┆ 0.305556 ┆ null │
    │ rr     ┆ 100 ┆ 0.134961 ┆ 0.160005    ┆ 0.285714 ┆ null │
    └────────┴─────┴──────────┴─────────────┴──────────┴──────┘
    """
    number = _numbers(n, width)
    share("confidence", confidence)
    special()
    predictions, schema = lazy(predictions, "predictions"), schema_of(values)
    if is_moments(schema):
        raise ArgumentError("`values` must be per-query values; found moments")
    if baseline is not None and run is None:
        raise ArgumentError("`baseline` needs `run`, the column of the runs")
    keys = key_columns(
        schema, by=by, run=run_column(schema, run) if baseline is None else run, weight=weight
    )
    groups, runs = [*keys["by"]], [*keys["run"]]
    free([*groups, *runs], ["metric", *_PLANNED])
    if baseline is None:
        query = query_columns(values, query, metrics, keys)
        check_distinct({**keys, "query": query})
    table = moments(
        values, metrics, run=run, baseline=baseline, by=by, query=query, weight=weight,
        undefined=undefined, conventions=conventions, predictions=predictions,
    )  # fmt: skip
    column = PREDICTED
    if baseline is None:
        table = without_duplicates(table, values, [*groups, *runs, *query])
    else:
        table, column = against_baseline(table, groups, runs[0], baseline), OF_DIFFERENCE
    rows = table.select(*groups, "metric", *runs, pl.col(column).alias(_SUMS))
    tail = (1 + confidence) / 2

    def planned(rows: pl.DataFrame) -> pl.DataFrame:
        _warn(rows)
        results = _with_n(rows, number, tail) if width is None else _with_width(rows, width, tail)
        return results.drop(_SUMS)

    kept = {name: dtype for name, dtype in schema_of(rows).items() if name != _SUMS}
    return rows.map_batches(planned, schema={**kept, **_PLANNED})


def _numbers(n: int | Sequence[int] | None, width: float | None) -> list[int]:
    """Return the numbers of queries; raise unless either parameter is valid and given."""
    if (n is None) == (width is None):
        raise ArgumentError(
            "pass either `n`, the number of additional human queries, or `width`, the width of "
            f"the interval to reach; found `n` {short(n)} and `width` {short(width)}"
        )
    if width is not None:
        positive("width", width)
    if n is None:
        return []
    numbers = [*n] if isinstance(n, Sequence) and not isinstance(n, (str, bytes)) else [n]
    if not numbers:
        raise ArgumentError("`n` must have at least one number")
    return [integer("n", each, 0, _MOST) for each in numbers]


def _warn(rows: pl.DataFrame) -> None:
    """Warn of human queries that are few, or no random sample."""
    humans = rows.get_column(_SUMS).struct.field("human")
    few = (humans < _FEW) & (humans > 0)
    if count := int(few.sum()):
        warn(
            f"fewer than {_FEW} human queries in {number_of(count, 'row')}, e.g. "
            f"{humans[few.arg_true()[0]]}: the planned widths may be far from those that more "
            "human queries give; judge some queries first"
        )
    chosen = rows.select(differs(_SUMS, by_probability=False)).to_series()
    warn_of_sampling(rows, chosen, "the planned widths may be wrong; judge queries at random")


def _planned(*, alone: bool) -> pl.Expr:
    """Return the sums that are expected with the additional human queries in `_ADDED`.

    Means, variances and weights per query remain. If `alone`, there are no other queries. The sums
    of squares are proportional to the degrees of freedom of the estimate.
    """
    s = {field: pl.col(_SUMS).struct.field(field) for field in FIELDS}
    n, others, added = s["human"], s["others"], pl.col(_ADDED)
    a, b = s["human_weight"], s["other_weight"]
    human_share = (n + added) / n
    other_share = pl.when(others > 0).then((others - added) / others).otherwise(0.0)
    units, other_units = ratio(a * a, s["aa"]), ratio(b * b, s["bb"])
    lost = 1 if alone else 2
    squares = pl.when(units > lost).then((units * human_share - lost) / (units - lost))
    other_squares = pl.when(other_units > 1).then(
        (other_units * other_share - 1) / (other_units - 1)
    )
    judge, other = s["judge_mean"], s["other_mean"].fill_null(0.0)
    middle = (a * judge + b * other) / (a + b)
    between = a * (judge - middle) ** 2 + b * (other - middle) ** 2
    of_judge = s["judge_squares"] + s["other_squares"] + between
    changed = {
        "human": n + added,
        "others": others * 0 if alone else others - added,
        "human_weight": a * human_share,
        "other_weight": b * other_share,
        "judge_mean": middle,
        "other_mean": middle,
        "covariance": s["covariance"] * pl.when(n > 1).then((n + added - 1) / (n - 1)),
        "judge_squares": of_judge * (a * human_share + b * other_share) / (a + b),
        "other_squares": s["other_squares"] * 0,
        "uu": s["uu"] * squares,
        "uv": s["uv"] * squares,
        "vv": s["vv"] * squares,
        "tt": s["tt"] * other_squares,
        "aa": s["aa"] * human_share,
        "bb": s["bb"] * other_share,
    }
    return pl.struct(changed.get(field, s[field]).alias(field) for field in FIELDS)


def _width(rows: pl.DataFrame, added: Any, tail: float, *, alone: bool) -> Any:
    """Return the widths of intervals with more human queries; NaN where there is none."""
    sums = rows.select(_SUMS, pl.Series(_ADDED, added, dtype=pl.Int64))
    expected = estimate(_PLAN, by_probability=False)
    plans = sums.select(_planned(alone=alone).alias(_PLAN)).select(
        error=pl.when(expected.std_error > 0).then(expected.std_error),
        degrees=expected.effective - 1,
        used=expected.judge_weight > 0,
    )
    error, degrees = (plans.get_column(name).to_numpy() for name in ("error", "degrees"))
    widths = 2 * special().stdtrit(degrees, tail) * error
    if alone:
        return widths
    used = plans.get_column("used").to_numpy()
    return numpy().where(used, widths, _width(rows, added, tail, alone=True))


def _with_n(rows: pl.DataFrame, numbers: Sequence[int], tail: float) -> pl.DataFrame:
    """Return a row for each number of additional human queries."""
    np = numpy()
    repeated = rows.select(pl.all().repeat_by(len(numbers)).explode())
    added = np.tile(np.array(numbers, dtype=np.int64), rows.height)
    return _result(repeated, added, added <= _others(repeated), tail, None)


def _with_width(rows: pl.DataFrame, width: float, tail: float) -> pl.DataFrame:
    """Return for each row the smallest number of additional human queries with this width."""
    others = _others(rows)

    def widths(some: pl.DataFrame, added: Any) -> Any:
        return _width(some, added, tail, alone=False)

    added = _smallest(rows, widths, width, 0 * others, others)
    is_possible = widths(rows, others) <= width * (1 + _SLACK)
    return _result(rows, added, is_possible, tail, width)


def _others(rows: pl.DataFrame) -> Any:
    return rows.get_column(_SUMS).struct.field("others").fill_null(0).to_numpy()


def _smallest(
    rows: pl.DataFrame,
    widths: Callable[[pl.DataFrame, Any], Any],
    most: Any,
    low: Any,
    high: Any,
) -> Any:
    """Return the smallest numbers from `low` to `high` with at most this width, or else `high`.

    The widths of several numbers between are computed at once.
    """
    np = numpy()
    most = np.broadcast_to(np.asarray(most) * (1 + _SLACK), rows.height)
    while (low < high).any():
        parts = max(2, min(_WIDTHS // rows.height, int((high - low).max())))
        place = np.repeat(np.arange(rows.height), parts)
        numbers = low[:, None] + (high - low)[:, None] * np.arange(parts) // parts
        of_numbers = widths(rows[place], numbers.ravel()).reshape(-1, parts)
        numbers = np.column_stack([low - 1, numbers, high])
        enough = of_numbers <= most[:, None]
        last = np.where(enough.any(axis=1), enough.argmax(axis=1), parts)
        low, high = (
            np.take_along_axis(numbers, (last + each)[:, None], 1)[:, 0] for each in (0, 1)
        )
        low = np.minimum(low + 1, high)
    return high


def _result(
    rows: pl.DataFrame, added: Any, is_possible: Any, tail: float, target: float | None
) -> pl.DataFrame:
    """Return the columns of the result."""
    np = numpy()
    human = rows.get_column(_SUMS).struct.field("human").fill_null(0).to_numpy()
    others = _others(rows)
    is_possible = is_possible & (human >= _LEAST)
    width, alone = (
        np.where(is_possible, _width(rows, added, tail, alone=each), np.nan)
        for each in (False, True)
    )
    saving = 1 - (human + added) / _needed(rows, human, human + added, width, alone, tail)
    last = _width(rows, others, tail, alone=False)
    notes = [
        _note(human[i], others[i], added[i], width[i], saving[i], last[i], target)
        for i in range(rows.height)
    ]
    numbers = {"width": width, "width_human": alone, "saving": saving}
    known = is_possible if target is not None else np.full(rows.height, fill_value=True)
    return rows.with_columns(
        pl.when(pl.Series(known)).then(pl.Series(added, dtype=pl.Int64)).alias("n"),
        *(pl.Series(name, each).fill_nan(None) for name, each in numbers.items()),
        pl.Series("note", notes, dtype=pl.String),
    )


def _needed(rows: pl.DataFrame, human: Any, total: Any, width: Any, alone: Any, tail: float) -> Any:
    """Return the numbers of human queries that have these widths alone; NaN if unknown.

    `alone` are the widths of `total` human queries alone.
    """
    np = numpy()
    is_known = ~np.isnan(width)

    def widths(some: pl.DataFrame, totals: Any) -> Any:
        return _width(some, totals - np.repeat(human, len(totals) // len(human)), tail, alone=True)

    # The quantile of t decreases with the number, and the standard error with its root.
    ratio_of_widths = np.where(is_known, alone / width, 1.0)
    high = np.ceil(np.minimum(total * np.maximum(ratio_of_widths, 1) ** 2, _MOST)).astype(np.int64)
    low = np.where(is_known, 2, high)
    return np.where(is_known, _smallest(rows, widths, width, low, high), np.nan)


def _note(
    human: int,
    others: int,
    added: int,
    width: float,
    saving: float,
    last: float,
    target: float | None,
) -> str | None:
    """Return why numbers are null, or whether the judge is not worth its labels."""
    if human < _LEAST:
        return f"too few human queries: {human}; at least {_LEAST} are needed"
    if target is None and added > others:
        return f"only {others:,} queries have no human labels"
    if isnan(last):
        return "no interval: all values are equal, or the weights leave too few effective queries"
    if isnan(width):
        return f"not reached: with human labels of all queries, the width is {last:.4g}"
    if added == others:
        return "all queries have human labels, so there is nothing to predict"
    if saving < _WORTH:
        return (
            f"the predictions save less than {_WORTH:.0%} of the human labels for this width: the "
            "judge is not worth its labels"
        )
    return None
