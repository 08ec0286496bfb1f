"""`estimate`: conclusions from labels of people for some queries and of a judge for all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, share
from polars_rank.columns import Columns
from polars_rank.errors import DataError, SchemaError, number_of, warn
from polars_rank.frames.tables import framed, lazy
from polars_rank.stats.comparison import COMPARISON, Comparison
from polars_rank.stats.inference import T
from polars_rank.stats.predictions import HUMAN, PREDICTIONS, rows_of_predictions
from polars_rank.stats.result_columns import returning
from polars_rank.stats.rows import ResultRows
from polars_rank.stats.summary import SUMMARY, Summary
from polars_rank.stats.value_columns import check_run, warn_of_directions
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics


@framed
@returning(PREDICTIONS)
def estimate(
    human: pl.LazyFrame,
    predicted: Any,
    metrics: Metrics | None = None,
    *,
    baseline: Any = None,
    run: str = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    confidence: float = 0.95,
) -> pl.LazyFrame:
    r"""Estimate means, or differences of runs, from few human and many predicted labels.

    $$\bar h - \lambda \bar j + \lambda \bar J$$

    $\bar h$ and $\bar j$ are the means of the values by people and by the judge over the queries
    that people judged, and $\bar J$ is the mean of the values by the judge over the others. Of
    differences, the values are those of a run minus those of the baseline.

    Examples
    --------
    >>> log = pr.datasets.search_log(500, runs=["bm25", "neural"], seed=1).collect()
    >>> log = log.with_columns(pl.col("label").fill_null(0))
    >>> noise = pl.struct("query", "doc").hash(1) % 3
    >>> llm = (pl.col("label") + noise - 1).clip(0, 4)
    >>> predicted = pr.per_query(log.with_columns(label=llm), "ndcg@10")
    >>> human = pr.per_query(log.filter(pl.col("query") < 100), "ndcg@10")
    >>> result = pr.judges.estimate(human, predicted, baseline="bm25")
    >>> result.select("run", "difference", "low", "high", "verdict")
    shape: (1, 5)
    ┌────────┬────────────┬──────────┬──────────┬─────────┐
    │ run    ┆ difference ┆ low      ┆ high     ┆ verdict │
    │ ---    ┆ ---        ┆ ---      ┆ ---      ┆ ---     │
    │ str    ┆ f64        ┆ f64      ┆ f64      ┆ str     │
    ╞════════╪════════════╪══════════╪══════════╪═════════╡
    │ neural ┆ 0.063443   ┆ 0.029917 ┆ 0.093693 ┆ better  │
    └────────┴────────────┴──────────┴──────────┴─────────┘

    Parameters
    ----------
    human
        Per-query values from people's labels, for a random sample of the queries.
    predicted
        Per-query values from predicted labels, such as those of a language model, for all queries.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats.
    baseline
        Run that the others are compared with. Default: the means of the runs are estimated.
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
    confidence
        Confidence level.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `human`. The rows and columns are those of `summarize`, or with `baseline`
        those of `compare`, whose counts are of the queries that people judged, and

        {columns}

    Raises
    ------
    DataError
        `predicted` has no row for a row of `human`, or another weight or cluster; or as in
        `compare`. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        The predicted values of judged queries differ from those of the others, so that they are not
        a random sample; few queries are judged, and means have the interval of t; or as in
        `compare`.

    Notes
    -----
    λ is the weight with the smallest standard error, from 0, if the predictions do not help, to 1.
    The estimate has no bias whatever the predictions are, if the judged queries are a random sample
    of all. Fewer than 30 judged queries give no verdict.

    References
    ----------
    Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023.
    """
    share("confidence", confidence)
    options: dict[str, Any] = {
        "run": run, "query": query, "by": by, "weight": weight, "cluster": cluster,
        "needs_run": baseline is not None,
    }  # fmt: skip
    of_people = Values.of(human, metrics, **options)
    source = replace(of_people, table=lazy(predicted, "predicted"))
    _check_columns(of_people, source)
    if baseline is not None:
        check_run("baseline", baseline, run, of_people.schema[run])

    def estimates() -> tuple[list[Key], Summary]:
        if baseline is not None:
            warn_of_directions(metrics, source.lower_is_better)
        people, every = (each.collected(each.table) for each in (of_people, source))
        rows, facts = ResultRows(source), of_people.checked(people)
        source.checked(every)
        groups = source.groups(_joined(of_people, people, every))
        pairs = None if baseline is None else source.compared(groups, baseline)
        for group in groups:
            rows_of_predictions(rows, group, facts, pairs, baseline)
        made = Summary(rows, confidence) if pairs is None else Comparison(rows, confidence)
        made.warn()
        rows.warn_of(
            (made.inference.method == T) & made.estimate.is_few,
            "few judged queries, or few that differ, in {}: t assumes a normal distribution",
        )
        rows.warn_of(
            rows.count("is_selective") > 0,
            "the predicted values of judged queries differ from those of the others in {} "
            "(p < 0.001): the judged queries are not a random sample of all, so the estimate may "
            "be biased",
        )
        return rows.keys, made

    columns = SUMMARY if baseline is None else COMPARISON
    shown = [each for each in columns if not each.is_detail and each.only is None]
    shown[-1:-1] = PREDICTIONS
    return of_people.result(shown, estimates, pairs=baseline is not None)


def _check_columns(human: Values, predicted: Values) -> None:
    """Raise `SchemaError` unless the predicted values have the same columns and types."""
    schema, other = human.schema, predicted.schema
    weight = () if human.weight is None else (human.weight,)
    keys = [*dict.fromkeys((*human.keys, *weight, *human.cluster))]
    roles: dict[str, Any] = {"metrics": [each.name for each in human.metrics], "predicted": keys}
    Columns.find(other, roles, parameters={"metrics": "predicted"}, table="`predicted`")
    if different := [name for name in keys if schema[name] != other[name]]:
        raise SchemaError(
            f"column {different[0]!r} must have the same type in `human` and `predicted`; found "
            f"{schema[different[0]]} and {other[different[0]]}; cast one of them"
        )


def _joined(human: Values, rows: pl.DataFrame, every: pl.DataFrame) -> pl.DataFrame:
    """Return the predicted values of all queries, with those by people beside them."""
    keys, names = [*human.keys], [each.name for each in human.metrics]
    if not rows.height:
        raise DataError(
            "`human` has no rows: no query has labels of people; check the column of their labels"
        )
    lost = rows.join(every, on=keys, how="anti", nulls_equal=True).sort(keys)
    if lost.height:
        raise DataError(
            f"`predicted` has no row for {number_of(lost.height, 'row')} of `human`, e.g. "
            f"{lost.select(keys).row(0, named=True)}; compute predicted values, from predicted "
            "labels, for all queries that people judged, in all runs"
        )
    if human.run is not None:
        unknown = every.select(human.run).unique().join(
            rows, on=human.run, how="anti", nulls_equal=True
        ).sort(human.run)  # fmt: skip
        if unknown.height:
            raise DataError(
                f"{number_of(unknown.height, 'run')} of `predicted` not found in `human`, e.g. "
                f"{unknown.row(0, named=True)}; evaluate the same runs in both tables"
            )
    weight = () if human.weight is None else (human.weight,)
    same = [name for name in (*weight, *human.cluster) if name not in keys]
    beside = [pl.col(name).alias(HUMAN + name) for name in (*names, *same)]
    of_people = rows.select(*keys, *beside, pl.lit(1.0).alias(HUMAN))
    joined = every.join(of_people, on=keys, how="left", nulls_equal=True, maintain_order="left")
    both = joined.filter(pl.col(HUMAN).is_not_null())
    for name in same:
        differ = pl.col(name).ne_missing(pl.col(HUMAN + name))
        if count := both.filter(differ).height:
            raise DataError(
                f"{number_of(count, 'row')} of `human` have another value in `predicted` (column "
                f"{name!r}); use one weight and one cluster per query"
            )
    for name in names:
        if count := both.filter(pl.col(HUMAN + name).is_not_null() & pl.col(name).is_null()).height:
            warn(
                f"{number_of(count, 'human value')} do not count, e.g. of {name!r}: the predicted "
                "value of the query is undefined (null)"
            )
    return joined
