"""`answerability`: whether the top score says which queries have an answer."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank import terms as t
from polars_rank._params import OWN, free, share
from polars_rank.conventions import read_metrics
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.evaluate import per_query_table
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import grouped
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.inference import exact_bound
from polars_rank.terms import RETRIEVED, SCORE, where

if TYPE_CHECKING:
    from typing import Unpack

    from polars_rank.evaluation.log import RankingOptions

#: The highest score of a ranking, whether its query has an answer, and the value of the metric.
_TOP, _HAS_ANSWER, _VALUE = OWN + "top", OWN + "has answer", OWN + "value"
_POINTS = {
    "threshold": pl.Float64(), "false_answers": pl.Float64(), "false_answers_high": pl.Float64(),
    "missed_answers": pl.Float64(),
}  # fmt: skip
_CURVE = {
    "safe_threshold": pl.Float64(), "auroc": pl.Float64(), "nauc": pl.Float64(),
    "unanswerable": pl.UInt32(), "answerable": pl.UInt32(),
}  # fmt: skip
#: Rates of abstention, with the rounding of NumPy's `linspace(0, 1, 11)`.
_RATES = tuple(0.1 * step for step in range(10))


@framed
def answerability(
    frame: pl.LazyFrame,
    /,
    metric: str | pl.Expr,
    *,
    max_false_answers: float = 0.05,
    confidence: float = 0.95,
    **options: Unpack[RankingOptions],
) -> pl.LazyFrame:
    r"""Return the shares of false and of missed answers at every threshold of the top score.

    At threshold t, a query is answered if its highest score is at least t. An answer to a query
    without relevant documents is false; a query with relevant documents that is not answered is
    missed.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 2, 3, 4], "doc": ["a", "b", "c", "d"],
    ...     "score": [0.9, 0.7, 0.6, 0.2], "label": [1, 1, 0, 0],
    ... })
    >>> curve = pr.diagnostics.answerability(log, "rr", max_false_answers=0.9)
    >>> columns = "threshold", "false_answers", "missed_answers", "safe_threshold"
    >>> curve.select(columns)
    shape: (4, 4)
    ┌───────────┬───────────────┬────────────────┬────────────────┐
    │ threshold ┆ false_answers ┆ missed_answers ┆ safe_threshold │
    │ ---       ┆ ---           ┆ ---            ┆ ---            │
    │ f64       ┆ f64           ┆ f64            ┆ f64            │
    ╞═══════════╪═══════════════╪════════════════╪════════════════╡
    │ 0.9       ┆ 0.0           ┆ 0.5            ┆ 0.7            │
    │ 0.7       ┆ 0.0           ┆ 0.0            ┆ 0.7            │
    │ 0.6       ┆ 0.5           ┆ 0.0            ┆ 0.7            │
    │ 0.2       ┆ 1.0           ┆ 0.0            ┆ 0.7            │
    └───────────┴───────────────┴────────────────┴────────────────┘

    Parameters
    ----------
    frame
        The long table, one row per document. Queries without relevant documents have no answer.
    metric
        Metric of `nauc`.
    max_false_answers
        Highest share of false answers that `safe_threshold` allows.
    confidence
        Confidence level of `false_answers_high` and `safe_threshold`.
    **options
        Options of `evaluate` without `weight`, such as `run`, `by` and `rel`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group, run and threshold, the highest threshold first: the
        columns of `by` and `run`, and

        - `threshold`: a top score, and `min_score` of the metrics `answered` and `abstained`;
        - `false_answers`: share of the queries without an answer that are answered;
        - `false_answers_high`: upper confidence bound of this share (Clopper and Pearson);
        - `missed_answers`: share of the queries with an answer that are not answered.

        The other columns describe the whole curve:

        - `safe_threshold`: lowest threshold at which false answers are at most `max_false_answers`
          with the given confidence; null if there is none;
        - `auroc`: probability that a query with an answer has a higher top score than one without;
          equal scores count one half;
        - `nauc`: gain in the mean of the metric by abstaining from the queries with the lowest top
          scores, divided by the gain by abstaining from those with the lowest values (MTEB's nAUC);
          1 is perfect, 0 is as good as chance. Null if all values are equal;
        - `unanswerable`, `answerable`: numbers of queries without and with an answer.

    Raises
    ------
    MissingExtraError
        If scipy is not installed (extra "stats"). Raised when the result is collected.

    See Also
    --------
    abstained, answered : The shares of right decisions at one threshold.

    Notes
    -----
    `safe_threshold` tests thresholds from the highest down and stops at the first whose
    `false_answers_high` exceeds the limit. The order is fixed, so the share of false answers to
    new queries exceeds the limit with a probability of at most 1 - `confidence`, although many
    thresholds are tested. With 95% confidence, a limit of 5% needs at least 59 queries without an
    answer, and one of 1% needs 299.

    `nauc` is a mean over the rates of abstention 0, 0.1, ..., 0.9. Queries with equal top scores
    are abstained from in random order, of which it is the expected value. Undefined values count as
    in `evaluate`.

    References
    ----------
    Clopper & Pearson, The use of confidence or fiducial limits illustrated in the case of the
    binomial, 1934; Gisserot-Boukhlef et al., Towards trustworthy reranking: a simple yet effective
    abstention mechanism, 2024 (nAUC).
    """
    share("max_false_answers", max_false_answers)
    share("confidence", confidence)
    given = read_metrics(metric, options.get("conventions"), "metric")
    if len(given) != 1:
        raise ArgumentError(f"must be one metric; found {metric!r}", "metric")
    # Without documents, a query is not answered at any threshold.
    top = Metric(lambda: t.each(where(RETRIEVED, SCORE)).max().fill_null(-math.inf), {}, _TOP)
    facts = [top, Metric(lambda: where(t.num_relevant() > 0, 1.0, 0.0), {}, _HAS_ANSWER)]
    log = Log.of(frame, [*facts, *given], **options)
    groups = log.columns.by
    free(groups, [*_POINTS, *_CURVE])
    values = per_query_table(log)
    columns = {_TOP: _TOP, _HAS_ANSWER: _HAS_ANSWER, _VALUE: output_name(given[0])}
    lists = [pl.col(name).implode().alias(inner) for inner, name in columns.items()]
    rows = grouped(values, groups, lists)
    of_curve = partial(_curve, limit=max_false_answers, confidence=confidence)

    def curves(rows: pl.DataFrame) -> pl.DataFrame:
        found = [of_curve(*row) for row in zip(*(rows.get_column(n) for n in columns), strict=True)]
        table = pl.DataFrame(found, schema).with_columns(rows.get_columns()[: len(groups)])
        return table.select(types.names())

    points = {name: pl.List(dtype) for name, dtype in _POINTS.items()}
    schema = pl.Schema({**points, **_CURVE})
    types = pl.Schema({**{name: schema_of(rows)[name] for name in groups}, **schema})
    found = rows.map_batches(curves, schema=types)
    return found.explode(*_POINTS, empty_as_null=False)


def _curve(
    tops: pl.Series, has_answer: pl.Series, values: pl.Series, *, limit: float, confidence: float
) -> dict[str, Any]:
    """Return the points of the curve of a group as lists, and what describes the whole curve."""
    top = tops.cast(pl.Float64).to_numpy()
    is_right = has_answer.cast(pl.Boolean).to_numpy()
    wrong, right = np.sort(top[~is_right]), np.sort(top[is_right])
    thresholds = np.unique(top[np.isfinite(top)])[::-1]
    answered = wrong.size - np.searchsorted(wrong, thresholds)
    missed = np.searchsorted(right, thresholds)
    high = exact_bound(answered, wrong.size - answered, 1 - confidence)
    safe = thresholds[high <= limit]  # the bound does not decrease from one threshold to the next
    below = np.searchsorted(wrong, right).sum() + np.searchsorted(wrong, right, "right").sum()
    pairs = wrong.size * right.size
    return {
        "threshold": thresholds,
        "false_answers": answered / wrong.size if wrong.size else [None] * thresholds.size,
        "false_answers_high": high,
        "missed_answers": missed / right.size if right.size else [None] * thresholds.size,
        "safe_threshold": safe[-1] if safe.size else None,
        "auroc": below / (2 * pairs) if pairs else None,
        "nauc": _nauc(top, values),
        "unanswerable": wrong.size,
        "answerable": right.size,
    }


def _nauc(tops: Array, values: pl.Series) -> float | None:
    """Return the normalized area under the curve of abstention, over queries with a value."""
    table = pl.DataFrame({"top": tops, "value": values.cast(pl.Float64)}).drop_nulls("value")
    # The mean over all orders of queries with equal top scores.
    expected = table.sort("top").select(pl.col("value").mean().over("top")).to_series()
    best = table.get_column("value").sort()
    n = table.height
    if not n or best[0] == best[-1]:
        return None
    dropped = [min(round(rate * n), n - 1) for rate in _RATES]
    by_top, by_value = (
        np.array([kept[number:].mean() for number in dropped]) for kept in (expected, best)
    )
    own, ideal = ((curve[:-1] + curve[1:]).sum() / 2 for curve in (by_top, by_value))
    chance = by_value[0] * (len(_RATES) - 1)
    return float((own - chance) / (ideal - chance)) if ideal > chance else None
