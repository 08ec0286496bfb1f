"""Bounds of metrics: over orders of tied documents, and over labels of unjudged documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, free, number
from polars_rank.conventions import read_metrics
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import Means, ratio, to_rows
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.frames.tables import framed
from polars_rank.metrics.expected_terms import has_expectation
from polars_rank.metrics.judgments import judged
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import Metrics, output_name
from polars_rank.metrics.terms import Terms, Value, where

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _has_ties(t: Terms) -> Value:
    return where(t.tied() > 0, 1, 0)


def _tied(t: Terms) -> Value:
    return t.tied()


def _retrieved(t: Terms) -> Value:
    return t.retrieved()


#: Counts of tied and retrieved documents per ranking.
_TIES = {"tied rankings": _has_ties, "tied": _tied, "retrieved": _retrieved}


@framed
def tie_bands(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    by: Names | None = None,
    weight: str | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Compute the best, expected and worst mean of metrics over the orders of tied documents.

    Parameters
    ----------
    frame
        The long table, one row per document.
    metrics
        Names of metrics, metrics such as `pr.ndcg(10)`, or expressions.
    by
        Columns that split the table.
    weight
        Column of query weights, also for the shares of ties.
    **options
        Any other parameter of `evaluate`, except `ties` and `align`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`, and

        - `metric`;
        - `best`, `worst`: mean if the higher or the lower label comes first among tied documents;
        - `expected`: mean over all orders; null if no closed form is known;
        - `tied_lists`: share of rankings with tied documents;
        - `tied_documents`: share of retrieved documents that are tied; null if nothing is
          retrieved.

    Notes
    -----
    If a lower value is better, as for `fall_out`, `best` is below `worst`.

    References
    ----------
    McSherry & Najork, Computing information retrieval performance measures efficiently in the
    presence of tied scores, 2008.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "a", "b"], "score": [2, 2, 1, 1], "label": [0, 1, 0, 1]
    ... })
    >>> pr.diagnostics.tie_bands(df, ["rr", "p@1"])
    shape: (2, 6)
    ┌────────┬──────┬──────────┬───────┬────────────┬────────────────┐
    │ metric ┆ best ┆ expected ┆ worst ┆ tied_lists ┆ tied_documents │
    │ ---    ┆ ---  ┆ ---      ┆ ---   ┆ ---        ┆ ---            │
    │ str    ┆ f64  ┆ f64      ┆ f64   ┆ f64        ┆ f64            │
    ╞════════╪══════╪══════════╪═══════╪════════════╪════════════════╡
    │ rr     ┆ 1.0  ┆ 0.875    ┆ 0.75  ┆ 0.5        ┆ 0.5            │
    │ p@1    ┆ 1.0  ┆ 0.75     ┆ 0.5   ┆ 0.5        ┆ 0.5            │
    └────────┴──────┴──────────┴───────┴────────────┴────────────────┘
    """
    given = read_metrics(metrics, options.get("conventions"))
    _without(options, {"ties": "all orders of tied documents count", **_OF_MEANS})
    evaluation = Evaluation.of(given, by=by, weight=weight, **options)
    columns_of = {
        ties: [
            _named(ties, index, column._replace(conventions=column.conventions.but(ties=ties)))
            for index, column in enumerate(evaluation.metrics)
        ]
        for ties in ("worst", "best", "expected")
    }
    columns_of["expected"] = [
        column for column in columns_of["expected"] if has_expectation(column.metric)
    ]
    worst = evaluation.conventions.but(ties="worst")
    shares = [MetricColumn.of(Metric(value, {}, name), worst) for name, value in _TIES.items()]
    every = [column for columns in columns_of.values() for column in columns]
    names = {f"worst {index}": output_name(metric) for index, metric in enumerate(given)}
    wide = _means(frame, evaluation._replace(metrics=[*every, *shares]), names)
    known = {column.name for column in columns_of["expected"]}
    rows = {
        output_name(metric): {
            "best": pl.col(f"best {index}"),
            "expected": pl.col(name) if (name := f"expected {index}") in known else _NOTHING,
            "worst": pl.col(f"worst {index}"),
            "tied_lists": pl.col("tied rankings"),
            "tied_documents": ratio(pl.col("tied"), pl.col("retrieved")),
        }
        for index, metric in enumerate(given)
    }
    return _long(wide, evaluation.by, rows)


@framed
def judgment_bounds(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    by: Names | None = None,
    grade: float | None = None,
    weight: str | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Compute the mean of metrics with unjudged documents as not relevant, and as relevant.

    Parameters
    ----------
    frame
        The long table, one row per document.
    metrics
        Names of metrics, metrics such as `pr.ndcg(10)`, or expressions.
    by
        Columns that split the table.
    grade
        Label of retrieved documents without a label in the upper value, such as the highest grade
        of the scale. None for the lowest relevant label.
    weight
        Column of query weights.
    **options
        Any other parameter of `evaluate`, except `unjudged` and `align`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`, and

        - `metric`;
        - `lower`: mean if unjudged documents are not relevant, as in `evaluate`;
        - `upper`: mean if they are relevant in each ranking in which that is the higher value;
        - `judged`: share of judged documents up to the metric's cutoff, or in whole rankings.

    Notes
    -----
    A document that counts as relevant also counts among the relevant documents of its query and in
    the ideal ranking, as if it had been judged, so that no value exceeds its range. At a low rank
    it can then reduce recall, AP or NDCG. Such a ranking keeps its lower value, because its
    documents may also be not relevant. For metrics that add up documents, such as precision, DCG
    and RBP, the two values are exact bounds for labels up to `grade`; for other metrics they are
    two of many cases. A ranking that is undefined without relevant documents may have an upper
    value: with `undefined="skip"`, the two means may be over different rankings.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [None, 1, 0, None]
    ... })
    >>> pr.diagnostics.judgment_bounds(df, ["p@2", "recall@2"])
    shape: (2, 4)
    ┌──────────┬───────┬───────┬────────┐
    │ metric   ┆ lower ┆ upper ┆ judged │
    │ ---      ┆ ---   ┆ ---   ┆ ---    │
    │ str      ┆ f64   ┆ f64   ┆ f64    │
    ╞══════════╪═══════╪═══════╪════════╡
    │ p@2      ┆ 0.5   ┆ 1.0   ┆ 0.5    │
    │ recall@2 ┆ 1.0   ┆ 1.0   ┆ 0.5    │
    └──────────┴───────┴───────┴────────┘
    """
    given = read_metrics(metrics, options.get("conventions"))
    _without(options, {"unjudged": "both values count", **_OF_MEANS})
    evaluation = Evaluation.of(given, by=by, weight=weight, unjudged="nonrelevant", **options)
    lowest = evaluation.conventions.rel if grade is None else number("grade", grade)
    columns = evaluation.metrics
    lower = [_named("lower", index, column) for index, column in enumerate(columns)]
    upper = [
        _named("upper", index, column._replace(unjudged_label=lowest))
        for index, column in enumerate(columns)
    ]
    shares = [
        _named("judged", index, column._replace(metric=judged(_cutoff(metric))))
        for index, (metric, column) in enumerate(zip(given, columns, strict=True))
    ]
    wide = _means(
        frame,
        evaluation._replace(metrics=[*lower, *upper, *shares]),
        {f"lower {index}": output_name(metric) for index, metric in enumerate(given)},
        *(
            pl.max_horizontal(f"lower {index}", f"upper {index}").alias(f"upper {index}")
            for index in range(len(given))
        ),
    )
    rows = {
        output_name(metric): {
            name: pl.col(f"{name} {index}") for name in ("lower", "upper", "judged")
        }
        for index, metric in enumerate(given)
    }
    return _long(wide, evaluation.by, rows)


_NOTHING = pl.lit(None, dtype=pl.Float64)


def _means(
    frame: pl.LazyFrame, evaluation: Evaluation, names: Mapping[str, str], *changed: pl.Expr
) -> pl.LazyFrame:
    """Return the means of columns of the per-query table, after the expressions of `changed`.

    `names` maps a column of each of the user's metrics to its name.
    """
    # No warnings about missing labels, which are the subject here, or about several runs.
    means = Means.of(evaluation)._replace(label=None, runs=())
    rankings = plan.per_query(frame, evaluation)
    means.check_numbers(rankings, names)
    return means.finish(means.add_up(rankings.with_columns(changed)))


def _named(kind: str, index: int, column: MetricColumn) -> MetricColumn:
    name = f"{kind} {index}"
    return column._replace(name=name, metric=column.metric.alias(name))


def _long(
    wide: pl.LazyFrame, groups: Sequence[str], rows: Mapping[str, Mapping[str, pl.Expr]]
) -> pl.LazyFrame:
    """Return one row per group and metric."""
    free(groups, ["metric", *next(iter(rows.values()))])
    named = [{"metric": pl.lit(name), **values} for name, values in rows.items()]
    return to_rows(wide, groups, named)


def _cutoff(metric: pl.Expr) -> int | None:
    return metric.arguments.get("k") if isinstance(metric, Metric) else None


#: Parameters of `evaluate` that are not supported here, and why.
_OF_MEANS = {"align": "the means are over all rankings of each group"}


def _without(options: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        if name in options:
            message = f"`{name}` is not supported: {reason}"
            raise ArgumentError(message, name)
