"""Bounds of metrics: over orders of tied documents, and over labels of unjudged documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import free, number, whole_number
from polars_rank.conventions import fixed_rel, read_metrics
from polars_rank.diagnostics.documents_to_judge import DocumentsToJudge
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import Means, ratio, to_rows
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.frames.tables import framed
from polars_rank.metrics import terms as t
from polars_rank.metrics.analyses import refusals
from polars_rank.metrics.expectations import has_expectation
from polars_rank.metrics.incomplete_judgments import judged
from polars_rank.metrics.metric import Metric, cutoff
from polars_rank.metrics.names import Metrics, output_name
from polars_rank.metrics.terms import Value, where
from polars_rank.metrics.ties import FIRST, LAST

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from polars_rank.evaluation.parameters import EvaluateOptions


def _has_ties() -> Value:
    return where(_tied() > 0, 1, 0)


def _tied() -> Value:
    return t.top(LAST > FIRST).count()


def _retrieved() -> Value:
    return t.num_retrieved()


#: Counts of tied and retrieved documents per ranking.
_TIES = {"tied rankings": _has_ties, "tied": _tied, "retrieved": _retrieved}


@framed
def tie_bands(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    **options: Unpack[EvaluateOptions],
) -> pl.LazyFrame:
    """Compute the lowest, expected and highest mean of metrics over orders of tied documents.

    Parameters
    ----------
    frame
        The long table, one row per document.
    metrics
        Names of metrics, metrics such as `pr.ndcg(10)`, or expressions.
    **options
        Options of `evaluate`, such as `by` and `weight`, except `ties` and `align`. `weight` also
        applies to the shares of ties.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`, and

        - `metric`;
        - `low`, `high`: lower and higher mean of two orders: the higher or the lower label first
          among tied documents;
        - `expected`: mean over all orders; null if no closed form is known;
        - `tied_rankings`: share of rankings with tied documents;
        - `tied_documents`: share of retrieved documents that are tied; null if nothing is
          retrieved.

    References
    ----------
    McSherry & Najork, Computing information retrieval performance measures efficiently in the
    presence of tied scores, 2008.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "a", "b"], "score": [2, 2, 1, 1],
    ...     "label": [0, 1, 0, 1],
    ... })
    >>> pr.diagnostics.tie_bands(df, ["rr", "p@1"])
    shape: (2, 6)
    ┌────────┬──────┬──────────┬──────┬───────────────┬────────────────┐
    │ metric ┆ low  ┆ expected ┆ high ┆ tied_rankings ┆ tied_documents │
    │ ---    ┆ ---  ┆ ---      ┆ ---  ┆ ---           ┆ ---            │
    │ str    ┆ f64  ┆ f64      ┆ f64  ┆ f64           ┆ f64            │
    ╞════════╪══════╪══════════╪══════╪═══════════════╪════════════════╡
    │ rr     ┆ 0.75 ┆ 0.875    ┆ 1.0  ┆ 0.5           ┆ 0.5            │
    │ p@1    ┆ 0.5  ┆ 0.75     ┆ 1.0  ┆ 0.5           ┆ 0.5            │
    └────────┴──────┴──────────┴──────┴───────────────┴────────────────┘
    """
    given = read_metrics(metrics, options.get("conventions"))
    _without(options, {"ties": "all orders of tied documents count", **_UNSUPPORTED})
    evaluation = Evaluation.of(given, **options)
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
            "low": pl.min_horizontal(f"worst {index}", f"best {index}"),
            "expected": pl.col(name) if (name := f"expected {index}") in known else _NOTHING,
            "high": pl.max_horizontal(f"worst {index}", f"best {index}"),
            "tied_rankings": pl.col("tied rankings"),
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
    grade: float | None = None,
    documents: int | None = None,
    baseline: Any = None,
    **options: Unpack[EvaluateOptions],
) -> pl.LazyFrame:
    """Compute the mean of metrics with unjudged documents as not relevant, and as relevant.

    With `documents`, return the unjudged documents whose labels could change the means, or the
    differences from a baseline, most.

    Parameters
    ----------
    frame
        The long table, one row per document.
    metrics
        Names of metrics, metrics such as `pr.ndcg(10)`, or expressions.
    grade
        Label of retrieved documents without a label for the high value, such as the highest grade
        of the scale. None for the lowest relevant label of each metric.
    documents
        Number of unjudged documents per metric and group, or pair of runs. None: bounds of means.
    baseline
        The run that the others are compared with, for `documents`: a value of the column of runs,
        which is the column of `by` named like `run`, `system` or `model`, or the only one. None:
        the documents that could change the mean of each group.
    **options
        Options of `evaluate`, such as `by` and `weight`, except `unjudged` and `align`; with
        `documents`, also except `labels`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`, and

        - `metric`;
        - `low`: mean if unjudged documents are not relevant, as in `evaluate`;
        - `high`: mean if they are relevant in each ranking in which that is the higher value;
        - `judged`: share of judged documents up to the metric's cutoff, or in whole rankings.

        With `documents`, at most this number of rows per group and metric, or pair of runs and
        metric, the largest absolute changes first, with the columns of `by`, and

        - `metric`;
        - with `baseline`, the column of the run, after `metric`, and `baseline`;
        - the columns of the query and of the document;
        - `rank`: rank of the document in the run; null if the run did not retrieve it;
        - `baseline_rank`: with `baseline`, the rank in the baseline's ranking;
        - `change`: how much the mean, or the difference run - baseline, increases if this document
          alone had the label `grade`. Documents that change nothing are left out.

    Notes
    -----
    A document that counts as relevant also counts among the relevant documents of its query and in
    the ideal ranking, as if it had been judged, so that no value exceeds its range. At a low rank
    it can then reduce recall, AP or NDCG. Such a ranking keeps its low value, because its
    documents may also be not relevant. For metrics that add up documents, such as precision, DCG
    and RBP, the two values are exact bounds for labels up to `grade`; for other metrics they are
    two of many cases. A ranking that is undefined without relevant documents may have a high
    value: with `undefined="skip"`, the two means may be over different rankings.

    With `documents`, the label applies to all rows of the document and its query in the log, and so
    to all runs that retrieved it; their changes may cancel. It does not change runs without such a
    row. Means are those of `evaluate`, of each run over its own queries; with `weight`, they are
    weighted, so that documents of frequent queries come first. Documents with equal changes are in
    the order of rank, query and document. Changes of several documents do not add up exactly,
    except for metrics that add up documents.

    For each unjudged document, the rankings that contain it are evaluated once more. Documents
    below the largest cutoff that are in the same rankings are evaluated once, if the metrics read
    no ranks below it. Without a cutoff, the time grows with the square of the length of rankings.
    Memory is proportional to the number of unjudged documents; the log is sorted unless the rows of
    each query, of all runs, are adjacent.

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
    ┌──────────┬─────┬──────┬────────┐
    │ metric   ┆ low ┆ high ┆ judged │
    │ ---      ┆ --- ┆ ---  ┆ ---    │
    │ str      ┆ f64 ┆ f64  ┆ f64    │
    ╞══════════╪═════╪══════╪════════╡
    │ p@2      ┆ 0.5 ┆ 1.0  ┆ 0.5    │
    │ recall@2 ┆ 1.0 ┆ 1.0  ┆ 0.5    │
    └──────────┴─────┴──────┴────────┘
    >>> runs = pl.DataFrame({
    ...     "run": ["a", "a", "b", "b"], "query": 1, "doc": ["x", "y", "z", "x"],
    ...     "score": [2.0, 1.0] * 2, "label": [None, 1, None, None],
    ... })
    >>> pair = {"by": "run", "baseline": "a"}
    >>> pr.diagnostics.judgment_bounds(runs, "dcg", documents=2, **pair)
    shape: (2, 8)
    ┌────────┬─────┬──────────┬───────┬─────┬──────┬───────────────┬──────────┐
    │ metric ┆ run ┆ baseline ┆ query ┆ doc ┆ rank ┆ baseline_rank ┆ change   │
    │ ---    ┆ --- ┆ ---      ┆ ---   ┆ --- ┆ ---  ┆ ---           ┆ ---      │
    │ str    ┆ str ┆ str      ┆ i32   ┆ str ┆ u32  ┆ u32           ┆ f64      │
    ╞════════╪═════╪══════════╪═══════╪═════╪══════╪═══════════════╪══════════╡
    │ dcg    ┆ b   ┆ a        ┆ 1     ┆ z   ┆ 1    ┆ null          ┆ 1.0      │
    │ dcg    ┆ b   ┆ a        ┆ 1     ┆ x   ┆ 2    ┆ 1             ┆ -0.36907 │
    └────────┴─────┴──────────┴───────┴─────┴──────┴───────────────┴──────────┘
    """
    given = read_metrics(metrics, options.get("conventions"))
    _without(options, {"unjudged": "both values count", **_UNSUPPORTED})
    applied: dict[str, Any] = {**options, "unjudged": "nonrelevant"}
    evaluation = Evaluation.of(given, **applied)
    label = None if grade is None else number("grade", grade)
    columns = evaluation.metrics
    judged_columns = [_with_unjudged_label(column, label) for column in columns]
    if documents is not None:
        labels = [float(column.unjudged_label or 0) for column in judged_columns]
        number_of_documents = whole_number("documents", documents)
        return DocumentsToJudge(evaluation, labels, number_of_documents, baseline).table(frame)
    if baseline is not None:
        raise ArgumentError("`baseline` needs `documents`, the number of documents to return")
    low = [_named("low", index, column) for index, column in enumerate(columns)]
    high = [_named("high", index, column) for index, column in enumerate(judged_columns)]
    shares = [
        _named("judged", index, column._replace(metric=judged(cutoff(metric))))
        for index, (metric, column) in enumerate(zip(given, columns, strict=True))
    ]
    wide = _means(
        frame,
        evaluation._replace(metrics=[*low, *high, *shares]),
        {f"low {index}": output_name(metric) for index, metric in enumerate(given)},
        *(
            pl.max_horizontal(f"low {index}", f"high {index}").alias(f"high {index}")
            for index in range(len(given))
        ),
    )
    rows = {
        output_name(metric): {name: pl.col(f"{name} {index}") for name in ("low", "high", "judged")}
        for index, metric in enumerate(given)
    }
    return _long(wide, evaluation.by, rows)


_NOTHING = pl.lit(None, dtype=pl.Float64)


def _with_unjudged_label(column: MetricColumn, label: float | None) -> MetricColumn:
    """Return the labels, with one label for unjudged documents: by default the lowest relevant one.

    Raise `ArgumentError` if a gain of the metric rejects the label.
    """
    metric, rel = column.metric, fixed_rel(column.conventions)
    if not isinstance(metric, Metric):
        return column._replace(unjudged_label=rel if label is None else label)
    if label is None:
        own = [leaf.arguments.get("rel") for leaf in metric.leaves]
        label = max(rel if lowest is None else lowest for lowest in own)
    for problem, is_refused in refusals(metric.tree).items():
        if pl.select(is_refused(pl.lit(label, dtype=pl.Float64))).item():
            raise ArgumentError(
                f"{column.name}: the label {label} of unjudged documents (`grade`) is {problem}"
            )
    return column._replace(unjudged_label=label)


def _means(
    frame: pl.LazyFrame, evaluation: Evaluation, names: Mapping[str, str], *changed: pl.Expr
) -> pl.LazyFrame:
    """Return the means of columns of the per-query table, after applying `changed`.

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


#: Parameters of `evaluate` that are not supported here, and why.
_UNSUPPORTED = {"align": "the means are over all rankings of each group"}


def _without(options: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        if name in options:
            raise ArgumentError(f"`{name}` is not supported: {reason}")
