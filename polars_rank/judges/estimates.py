"""`estimate`: conclusions from labels of people for some queries and of a judge for all."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, share
from polars_rank.columns import Columns
from polars_rank.errors import DataError, SchemaError, number_of, warn
from polars_rank.frames.tables import framed, lazy
from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.comparison import COMPARISON, Comparison
from polars_rank.stats.estimate import (
    FEW_DIFFERENT,
    FEW_QUERIES,
    Facts,
    Prediction,
    predicted,
)
from polars_rank.stats.inference import T
from polars_rank.stats.results import COUNT, ResultColumn, returning
from polars_rank.stats.rows import Rows, outcomes
from polars_rank.stats.summary import SUMMARY, Summary, warn_rows
from polars_rank.stats.value_columns import check_run, warn_of_directions
from polars_rank.stats.values import Key, Values

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.groups import Group

#: Prefix of columns of values by people, beside predicted ones. Without a name, whether people
#: judged the query.
_HUMAN = OWN + "human "
PREDICTIONS = (
    ResultColumn("predicted", "number of other queries, with predicted values only",
                 lambda r: r.rows.count("others"), pl.Int64(), COUNT),
    ResultColumn("judge_weight", "weight λ of the predicted values",
                 lambda r: r.rows.count("weight")),
    ResultColumn("effective_queries",
                 "number of judged queries alone that would give the same standard error",
                 lambda r: r.rows.count("effective_queries")),
)  # fmt: skip


def _shown(columns: tuple[ResultColumn, ...]) -> tuple[ResultColumn, ...]:
    """Return the columns that a result always has, and those of predictions before the last."""
    shown = [each for each in columns if not each.is_detail and each.only is None]
    return (*shown[:-1], *PREDICTIONS, shown[-1])


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
    >>> llm = (pl.col("label") + pl.struct("query", "doc").hash(1) % 3 - 1).clip(0, 4)
    >>> predicted = pr.per_query(log.with_columns(label=llm), "ndcg@10")
    >>> human = pr.per_query(log.filter(pl.col("query") < 100), "ndcg@10")
    >>> result = pr.judges.estimate(human, predicted, baseline="bm25")
    >>> result.select("run", "difference", "low", "high", "verdict")
    shape: (1, 5)

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
    names = [each.name for each in of_people.metrics]
    table = lazy(predicted, "predicted")
    source = replace(of_people, table=table)
    _check_columns(of_people, source)
    if baseline is not None:
        check_run("baseline", baseline, run, of_people.schema[run])

    def estimates() -> tuple[list[Key], Summary]:
        if baseline is not None:
            warn_of_directions(metrics, names)
        rows, facts = Rows(source), of_people.checked(of_people.collected(of_people.table))
        frame = _joined(of_people, source)
        source.checked(frame.select(pl.exclude("^" + _HUMAN + ".*$")))
        groups = source.groups(frame)
        pairs = None if baseline is None else source.compared(groups, baseline)
        for group in groups:
            if pairs is None:
                _add_means(rows, group, facts)
            else:
                _add_differences(rows, group, facts, pairs, baseline)
        made = Summary(rows, confidence) if pairs is None else Comparison(rows, confidence)
        made.warn()
        warn_rows(
            (made.inference.method == T) & made.estimate.is_few, rows.texts,
            f"fewer than {FEW_QUERIES} judged queries, or {FEW_DIFFERENT} that differ from most, "
            "in {}: the interval assumes a normal distribution",
        )  # fmt: skip
        warn_rows(
            rows.count("is_selective") > 0, rows.texts,
            "the predicted values of judged queries differ from those of the others in {} "
            "(p < 0.001): the judged queries are not a random sample of all, so the estimate may "
            "be biased",
        )  # fmt: skip
        return rows.keys, made

    columns = _shown(SUMMARY if baseline is None else COMPARISON)
    return of_people.result(columns, estimates, pairs=baseline is not None)


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


def _joined(human: Values, source: Values) -> pl.DataFrame:
    """Return the predicted values with those by people beside them, after checks of both."""
    rows, every = human.collected(human.table), source.collected(source.table)
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
    # What a query must have in both tables.
    weight = () if human.weight is None else (human.weight,)
    same = {**dict.fromkeys(weight, "weight"), **dict.fromkeys(human.cluster, "cluster")}
    same = {name: role for name, role in same.items() if name not in keys}
    beside = [pl.col(name).alias(_HUMAN + name) for name in (*names, *same)]
    of_people = rows.select(*keys, *beside, pl.lit(1.0).alias(_HUMAN))
    joined = every.join(of_people, on=keys, how="left", nulls_equal=True, maintain_order="left")
    is_judged = pl.col(_HUMAN).is_not_null()
    for name, role in same.items():
        differ = pl.col(name).ne_missing(pl.col(_HUMAN + name)) & is_judged
        if count := joined.select(differ.sum()).item():
            raise DataError(
                f"{number_of(count, 'row')} of `human` have another {role} in `predicted` "
                f"(column {name!r}); use one {role} per query"
            )
    for name in names:
        undefined = pl.col(_HUMAN + name).is_not_null() & pl.col(name).is_null()
        if count := joined.select(undefined.sum()).item():
            warn(
                f"{number_of(count, 'human value')} do not count, e.g. of {name!r}: the predicted "
                "value of the query is undefined (null)"
            )
    return joined


def _predicted(
    group: Group, rows: Array, human: Array, judge: Array, is_other: Array, facts: Facts,
    *, queries: Array, is_difference: bool = False,
) -> Any:  # fmt: skip
    """Return the estimate from values of some rows, of which some do not count."""
    weight = None if group.weights is None else group.weights[rows]
    unit = queries if group.units is None else group.units[rows]
    counts = numpy().ones(len(rows), dtype=bool) if weight is None else weight > 0
    return predicted(
        human[counts], judge[counts], is_other[counts], facts,
        weight=None if weight is None else weight[counts], unit=unit[counts],
        is_clustered=group.units is not None, is_difference=is_difference,
    )  # fmt: skip


def _counts(found: Prediction) -> dict[str, float]:
    return {name: float(value) for name, value in found._asdict().items()}


def _add_means(rows: Rows, group: Group, facts: dict[str, Facts]) -> None:
    """Add a row for each metric and run."""
    group.check_unique()
    is_human = group.column(_HUMAN) == 1
    for name, of_metric in facts.items():
        human, judge = group.column(_HUMAN + name), group.column(name)
        for run, of_run in group.rows.items():
            made, _, _, counts = _predicted(
                group, of_run, human[of_run], judge[of_run], ~is_human[of_run], of_metric,
                queries=of_run,
            )  # fmt: skip
            undefined = group.undefined(name, of_run[is_human[of_run]])
            key = Key(group.key, name, run)
            rows.add(key, of_metric, made, undefined=undefined, **_counts(counts))


def _add_differences(
    rows: Rows, group: Group, facts: dict[str, Facts], pairs: list[tuple[Any, Any]], baseline: Any
) -> None:
    """Add a row for each metric and pair of runs."""
    np, is_human = numpy(), group.column(_HUMAN) == 1
    compared = group.pairs(pairs, baseline)
    add = rows.families_of(group, compared)
    lower = group.source.lower_is_better
    for name, of_metric in facts.items():
        human, judge = group.column(_HUMAN + name), group.column(name)
        for pair in compared:
            run, base = pair.rows, pair.of_baseline
            both = is_human[run] & is_human[base]
            is_other = ~(is_human[run] | is_human[base])
            differences = np.where(both, human[run] - human[base], np.nan)
            options = {"is_difference": True, "queries": pair.queries}
            made, influence, units, counts = _predicted(
                group, run, differences, judge[run] - judge[base], is_other, of_metric, **options
            )
            own = np.where(both, human[run], np.nan)
            of_run = _predicted(group, run, own, judge[run], is_other, of_metric, **options)[0]
            key = Key(group.key, name, pair.run, pair.baseline)
            add(key, units, influence)
            known = differences[~np.isnan(differences)]
            rows.add(
                key, of_metric, replace(made, base=of_run.mean - made.mean), missing=0,
                undefined=group.undefined(name, run[both], base[both]), **_counts(counts),
                **outcomes(known, is_lower=lower[name]),
            )  # fmt: skip
