"""How far a value may be off: by the order of tied documents, by documents nobody judged."""

from __future__ import annotations

from dataclasses import replace
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


def _tied_lists(t: Terms) -> Value:
    return where(t.tied() > 0, 1, 0)


def _tied(t: Terms) -> Value:
    return t.tied()


def _retrieved(t: Terms) -> Value:
    return t.retrieved()


#: Whether documents of a list are tied, how many are, and how many there are.
_TIES = {"tied lists": _tied_lists, "tied": _tied, "retrieved": _retrieved}


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
    """Best, expected and worst mean of each metric over the orders of tied documents.

    Parameters
    ----------
    frame, metrics, by
        As for `evaluate`.
    weight
        The column of each query's weight, as for `evaluate`; the shares are weighted, too.
    **options
        Any other parameter of `evaluate` but `ties` and `align`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group and metric, in this order, with the `by` columns and

        - `metric`: its name;
        - `best`, `worst`: with the higher, the lower label first among tied documents;
        - `expected`: the mean over all their orders, null where no closed form is known; see
          `ties` of `per_query`;
        - `tied_lists`: the share of the lists in which documents are tied;
        - `tied_documents`: the share of the retrieved documents that are tied with another of
          their list, null where nothing is retrieved.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate`; also for an option that is left out above.

    Notes
    -----
    Where a lower value is better, as for `fall_out`, `best` is below `worst`.

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
    asked = read_metrics(metrics, options.get("conventions"))
    _without(options, {"ties": "every order of tied documents is looked at", **_OF_MEANS})
    evaluation = Evaluation.of(asked, by=by, weight=weight, **options)
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
    names = {f"worst {index}": output_name(metric) for index, metric in enumerate(asked)}
    wide = _means(frame, evaluation.with_metrics([*every, *shares]), names)
    known = {column.name for column in columns_of["expected"]}
    rows = {
        output_name(metric): {
            "best": pl.col(f"best {index}"),
            "expected": pl.col(name) if (name := f"expected {index}") in known else _NOTHING,
            "worst": pl.col(f"worst {index}"),
            "tied_lists": pl.col("tied lists"),
            "tied_documents": ratio(pl.col("tied"), pl.col("retrieved")),
        }
        for index, metric in enumerate(asked)
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
    """Mean of each metric with unjudged documents as not relevant, and as relevant.

    Parameters
    ----------
    frame, metrics, by
        As for `evaluate`.
    grade
        The label that a retrieved document without one gets for the upper value, such as the
        highest grade of the scale; None for the lowest relevant label.
    weight
        The column of each query's weight, as for `evaluate`.
    **options
        Any other parameter of `evaluate` but `unjudged` and `align`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group and metric, in this order, with the `by` columns and

        - `metric`: its name;
        - `lower`: unjudged documents are not relevant, as in `evaluate`;
        - `upper`: they are relevant, in each list in which this is the higher value;
        - `judged`: the mean of `judged` at the metric's own cutoff, or of the whole list.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate`; also for a `grade` that is not a number, or an option that is left out
        above.

    Notes
    -----
    A document that counts as relevant also counts among the relevant documents of its list and
    in the ideal list, as it would once judged, so that no value is above its range. Found far
    down, it can then lower recall, AP or NDCG; such a list keeps its lower value, for its
    documents may just as well be not relevant. For metrics that only add up documents, such as
    precision, DCG and RBP, the two are exact bounds for labels of at most `grade`; for the
    others they are two cases of many. A list that is undefined without relevant documents may
    have an upper value: with `undefined="skip"`, the two means may be over different lists.

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
    asked = read_metrics(metrics, options.get("conventions"))
    _without(options, {"unjudged": "it is looked at both ways", **_OF_MEANS})
    evaluation = Evaluation.of(asked, by=by, weight=weight, unjudged="nonrelevant", **options)
    lowest = evaluation.conventions.rel if grade is None else number("grade", grade)
    columns = evaluation.metrics
    lower = [_named("lower", index, column) for index, column in enumerate(columns)]
    upper = [
        _named("upper", index, column._replace(unjudged_label=lowest))
        for index, column in enumerate(columns)
    ]
    shares = [
        _named("judged", index, column._replace(metric=judged(_cutoff(metric))))
        for index, (metric, column) in enumerate(zip(asked, columns, strict=True))
    ]
    wide = _means(
        frame,
        evaluation.with_metrics([*lower, *upper, *shares]),
        {f"lower {index}": output_name(metric) for index, metric in enumerate(asked)},
        *(
            pl.max_horizontal(f"lower {index}", f"upper {index}").alias(f"upper {index}")
            for index in range(len(asked))
        ),
    )
    rows = {
        output_name(metric): {
            name: pl.col(f"{name} {index}") for name in ("lower", "upper", "judged")
        }
        for index, metric in enumerate(asked)
    }
    return _long(wide, evaluation.by, rows)


_NOTHING = pl.lit(None, dtype=pl.Float64)


def _means(
    frame: pl.LazyFrame, evaluation: Evaluation, names: Mapping[str, str], *changed: pl.Expr
) -> pl.LazyFrame:
    """Return the means of columns of the per-query table, some of them changed before.

    `names` maps a column of each of the user's metrics to its name.
    """
    # Nothing is said of missing labels, which are what is looked at, nor of runs side by side.
    means = replace(Means.of(evaluation), label=None, runs=())
    rankings = plan.per_query(frame, evaluation, presence=means.presence)
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


#: Parameters of `evaluate` that have no meaning here, and why.
_OF_MEANS = {"align": "the means are over all lists of each group"}


def _without(options: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        if name in options:
            message = f"`{name}` cannot be chosen here, since {reason}; leave it out"
            raise ArgumentError(message, name)
