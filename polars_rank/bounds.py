"""How far a value may be off: by the order of tied documents, by documents nobody judged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.columns import Names, names, same_kind, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import Metrics, _mean, evaluate, per_query
from polars_rank.expectation import expectation
from polars_rank.metrics.judgments import judged
from polars_rank.metrics.metric import Metric, ratio
from polars_rank.naming import output_name, resolve
from polars_rank.ranked import JUDGED, SCORE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.ranking import Ties

#: How many documents of a list share their score with another, and how many it has.
_TIED = SCORE.drop_nulls().is_duplicated().sum()
_RETRIEVED = SCORE.count()


def tie_bands(frame: Any, metrics: Metrics, *, by: Names | None = None, **options: Any) -> Any:
    """Best, expected and worst mean of each metric over the orders of tied documents.

    Parameters
    ----------
    frame, metrics, by
        As for `evaluate`.
    **options
        Any other parameter of `evaluate` but `ties`.

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
        As for `evaluate`; also for `ties` among the options.

    Notes
    -----
    Where a lower value is better, as for `fall_out`, `best` is below `worst`.

    References
    ----------
    McSherry & Najork, Computing information retrieval performance measures efficiently in the
    presence of tied scores, 2008.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "a", "b"], "score": [2, 2, 1, 1], "label": [0, 1, 0, 1]
    ... })
    >>> pr.tie_bands(df, ["rr", "p@1"])
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
    wanted, groups = resolve(metrics), names("by", by)
    _without(options, "ties", "every order of tied documents is looked at")
    conventions = options.get("conventions", POLARS_RANK)
    shares = {
        "tied_lists": pl.col("__tied_lists"),
        "tied_documents": ratio(pl.col("__tied"), pl.col("__retrieved")),
    }
    counted = [
        (_TIED > 0).alias("__tied_lists"),
        _TIED.alias("__tied"),
        _RETRIEVED.alias("__retrieved"),
    ]
    known = [_has_expectation(metric, conventions) for metric in wanted]

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        def means(ties: Ties, kept: Sequence[bool], more: Sequence[pl.Expr] = ()) -> pl.LazyFrame:
            several = [
                metric.alias(f"__{ties}_{index}")
                for index, (metric, keep) in enumerate(zip(wanted, kept, strict=True))
                if keep
            ]
            found: pl.LazyFrame = evaluate(log, [*several, *more], by=by, ties=ties, **options)
            return found

        every = [True] * len(wanted)
        # Groups are in sorted order in each of them.
        wide = pl.concat(
            [
                means("worst", every, counted),
                means("best", every).select("^__best_.*$"),
                *([means("expected", known).select("^__expected_.*$")] if any(known) else ()),
            ],
            how="horizontal",
        )
        rows = {
            output_name(metric): {
                "best": pl.col(f"__best_{index}"),
                "expected": pl.col(f"__expected_{index}") if known[index] else _NOTHING,
                "worst": pl.col(f"__worst_{index}"),
                **shares,
            }
            for index, metric in enumerate(wanted)
        }
        return _long(wide, groups, rows)

    return same_kind(frame, plan)


def judgment_bounds(
    frame: Any,
    metrics: Metrics,
    *,
    by: Names | None = None,
    grade: float | None = None,
    **options: Any,
) -> Any:
    """Mean of each metric with unjudged documents as not relevant, and as relevant.

    Parameters
    ----------
    frame, metrics, by
        As for `evaluate`.
    grade
        The label that a retrieved document without one gets for the upper value, such as the
        highest grade of the scale; None for the lowest relevant label.
    **options
        Any other parameter of `evaluate` but `unjudged`.

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
        As for `evaluate`; also for a `grade` that is not a number, or `unjudged` among the
        options.

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
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [None, 1, 0, None]
    ... })
    >>> pr.judgment_bounds(df, ["p@2", "recall@2"])
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
    wanted, groups = resolve(metrics), names("by", by)
    _without(options, "unjudged", "it is looked at both ways")
    choices = {key: options.pop(key, None) for key in ("ties", "relevant", "queries", "undefined")}
    agreed = options.pop("conventions", POLARS_RANK).but(**choices, unjudged="nonrelevant")
    grade = _grade(agreed.relevant if grade is None else grade)
    wanted = [agreed.apply(metric) if isinstance(metric, Metric) else metric for metric in wanted]
    several = {
        name: [metric.alias(f"__{name}_{index}") for index, metric in enumerate(made)]
        for name, made in (
            ("lower", wanted),
            ("upper", wanted),
            ("judged", [judged(_cutoff(metric)) for metric in wanted]),
        )
    }

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        def lists(log: pl.LazyFrame, metrics: list[pl.Expr]) -> pl.LazyFrame:
            whole = agreed.but(queries="all")
            found: pl.LazyFrame = per_query(log, metrics, by=by, conventions=whole, **options)
            return found

        presence = [(JUDGED.sum() > 0).alias("__judged"), (_RETRIEVED > 0).alias("__found")]
        lower = lists(log, [*several["lower"], *several["judged"], *presence])
        score, label = (options.get(name, name) for name in ("score", "label"))
        filled = log.with_columns(_filled(pl.col(score), label, schema_of(log)[label], grade))
        upper = lists(filled, several["upper"]).select("^__upper_.*$")
        # The lists are the same, and in the same order.
        both = pl.concat([lower, upper], how="horizontal").with_columns(
            pl.max_horizontal(f"__lower_{index}", f"__upper_{index}").alias(f"__upper_{index}")
            for index in range(len(wanted))
        )
        means = [_mean(metric, agreed) for made in several.values() for metric in made]
        wide = both.group_by(groups).agg(means).sort(groups) if groups else both.select(means)
        rows = {
            output_name(metric): {name: pl.col(f"__{name}_{index}") for name in several}
            for index, metric in enumerate(wanted)
        }
        return _long(wide, groups, rows)

    return same_kind(frame, plan)


_NOTHING = pl.lit(None, dtype=pl.Float64)


def _long(
    wide: pl.LazyFrame, groups: Sequence[str], rows: Mapping[str, Mapping[str, pl.Expr]]
) -> pl.LazyFrame:
    """Return one row per group and metric."""
    columns = ["metric", *next(iter(rows.values()))]
    for taken in set(columns) & set(groups):
        message = f"`by` names the column {taken!r}, which the result adds; rename it"
        raise ArgumentError(message)
    structs = [
        pl.struct(pl.lit(name).alias("metric"), *(v.alias(key) for key, v in values.items()))
        for name, values in rows.items()
    ]
    return (
        wide.select(*groups, pl.concat_list(structs).alias("__row"))
        .explode("__row")
        .unnest("__row")
    )


def _has_expectation(metric: pl.Expr, conventions: Conventions) -> bool:
    try:
        expectation(conventions.apply(metric) if isinstance(metric, Metric) else metric)
    except ArgumentError:
        return False
    return True


def _cutoff(metric: pl.Expr) -> int | None:
    return metric.arguments.get("k") if isinstance(metric, Metric) else None


def _filled(score: pl.Expr, name: str, dtype: pl.DataType, grade: float) -> pl.Expr:
    """Return the labels, with a grade for documents that are retrieved but not judged."""
    whole = dtype.is_integer() and grade == int(grade)
    label = pl.col(name) if whole else pl.col(name).cast(pl.Float64)
    given = pl.lit(int(grade) if whole else float(grade))
    return pl.when(score.is_not_null() & label.is_null()).then(given).otherwise(label).alias(name)


def _grade(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        message = f"`grade` must be a number, a label of a relevant document; found {value!r}"
        raise ArgumentError(message)
    return value


def _without(options: Mapping[str, Any], name: str, reason: str) -> None:
    if name in options:
        message = f"`{name}` cannot be chosen here, since {reason}; leave it out"
        raise ArgumentError(message)
