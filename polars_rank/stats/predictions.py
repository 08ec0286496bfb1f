"""Values by human labels of some queries and by predicted labels of all, joined and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_column, check_type, names
from polars_rank.errors import ArgumentError, DataError, SchemaError, number_of, warn
from polars_rank.evaluation.checks import with_check
from polars_rank.evaluation.means import to_rows
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.stats.per_query_tables import bad_weight, data_error, with_definitions
from polars_rank.stats.prediction_estimates import Source, sums
from polars_rank.stats.run_pairs import PAIRED, SLICE, baseline_of, without_duplicates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.conventions import Conventions
    from polars_rank.stats.per_query_tables import Variable
    from polars_rank.stats.run_pairs import Pairs

#: Columns of moments with the sums of values and of differences, and with the name of the column of
#: probabilities.
PREDICTED, OF_DIFFERENCE, SAMPLED_BY = "predictions", "difference_predictions", "sampled_by"
_HUMAN, _IS_HUMAN, _PROBABILITY = OWN + "human ", OWN + "is human", OWN + "probability"
_COUNT, _SAMPLE, _RUNS = OWN + "count", OWN + "sample", OWN + "runs"


class Predictions(NamedTuple):
    """Values by predicted labels of all queries, joined with the human values of some."""

    #: The columns of the predictions, and `human_of` the columns of the human values.
    rows: pl.LazyFrame
    probability: str | None

    @classmethod
    def of(
        cls,
        values: pl.LazyFrame,
        predictions: pl.LazyFrame,
        keys: Sequence[str],
        metrics: Sequence[str],
        probability: str | None,
    ) -> Predictions:
        """Return predictions joined with values; `keys` identify a ranking."""
        human = values.select(
            *keys,
            *(pl.col(name).alias(_HUMAN + name) for name in metrics),
            *(() if probability is None else [pl.col(probability).alias(_PROBABILITY)]),
            pl.lit(value=True).alias(_IS_HUMAN),
        )
        others = predictions.drop(probability, strict=False) if probability else predictions
        rows = others.join(human, on=keys, how="left", nulls_equal=True)
        return cls(rows, None if probability is None else _PROBABILITY)

    def source(self, name: str, value: Callable[[pl.Expr], pl.Expr]) -> Source:
        """Return the source of a metric; `value` fills undefined values."""
        is_human = pl.col(_IS_HUMAN).is_not_null()
        human = pl.when(is_human).then(value(pl.col(_HUMAN + name)))
        is_other = pl.lit(value=True) if self.probability else ~is_human
        return Source(human, value(pl.col(name)), is_other)

    def paired_source(self, name: str, value: Callable[[pl.Expr], pl.Expr]) -> Source:
        """Return the source of the difference from the baseline of rows with `with_baseline`."""
        both = PAIRED & pl.col(_IS_HUMAN).is_not_null() & baseline_of(_IS_HUMAN).is_not_null()
        human = value(pl.col(_HUMAN + name)) - value(baseline_of(_HUMAN + name))
        judge = pl.when(PAIRED).then(value(pl.col(name)) - value(baseline_of(name)))
        is_human = pl.col(_IS_HUMAN).is_not_null() | baseline_of(_IS_HUMAN).is_not_null()
        is_other = pl.lit(value=True) if self.probability else ~is_human
        return Source(pl.when(both).then(human), judge, is_other)

    @staticmethod
    def columns(metrics: Sequence[str]) -> list[str]:
        """Return the columns that a comparison reads of both runs."""
        return [*metrics, *(_HUMAN + name for name in metrics), _IS_HUMAN]


def with_predictions(
    moments: pl.LazyFrame,
    values: pl.LazyFrame,
    predictions: pl.LazyFrame,
    selected: Sequence[Variable],
    keys: Mapping[str, Sequence[str]],
    *,
    weight: str | None,
    probability: str | None,
    pairs: Pairs | None = None,
    slices: str | None = None,
) -> pl.LazyFrame:
    """Return moments of human values with the sums of `FIELDS`; collecting them checks the tables.

    `keys` has the columns of `by`, `run`, `query` and `cluster`. With `pairs`, there are sums of
    the differences, too.
    """
    for each in selected:
        if each.aggregate != "mean":
            raise ArgumentError(
                f"`predictions` needs metrics that are means over queries; {each.name!r} is a "
                f"{each.aggregate}; name other metrics"
            )
    metrics = [each.name for each in selected]
    ranking = _ranking(keys)
    given = {"weight": names("weight", weight), "cluster": keys["cluster"]}
    roles = {name: role for role, columns in given.items() for name in columns}
    check_columns(predictions, [*ranking, *roles, *metrics])
    _check_types(values, predictions, [*ranking, *keys["cluster"]])
    for name in metrics:
        check_type("predictions", name, schema_of(predictions)[name], "number")
    if probability is not None:
        check_column("probability", probability, schema_of(values), "number")
    joined = Predictions.of(values, predictions, ranking, metrics, probability)
    groups, rows = [*keys["by"], *keys["run"]], joined.rows
    sources = {f"{i} value": joined.source(each.name, each.of) for i, each in enumerate(selected)}
    if pairs is not None:
        rows = pairs.joined(rows, Predictions.columns(metrics))
        sources |= {
            f"{i} difference": joined.paired_source(each.name, each.of)
            for i, each in enumerate(selected)
        }
    if slices is not None:
        groups = [*SLICE, *keys["run"]]
        rows = rows.explode(slices).unnest(slices)
    wide = sums(
        rows, groups, sources, weight=weight, cluster=keys["cluster"],
        probability=joined.probability,
    )  # fmt: skip
    columns = {"value": PREDICTED, **({} if pairs is None else {"difference": OF_DIFFERENCE})}
    long = to_rows(
        wide,
        groups,
        [
            {
                "metric": pl.lit(each.name),
                **{column: pl.col(f"{i} {kind}") for kind, column in columns.items()},
            }
            for i, each in enumerate(selected)
        ],
    )
    result = moments.join(
        long, on=[*groups, "metric"], how="left", nulls_equal=True, maintain_order="left"
    )
    if probability is not None:
        result = result.with_columns(pl.lit(probability).alias(SAMPLED_BY))
    result = _checked(result, values, predictions, keys, probability)
    if pairs is None:
        result = without_duplicates(result, values, ranking)
    result = _with_valid_numbers(result, predictions, metrics, weight)
    result = result.map_batches(_warn_of_undefined)
    return _with_equal_columns(result, values, predictions, ranking, roles)


def _warn_of_undefined(table: pl.DataFrame) -> pl.DataFrame:
    """Warn of human values that do not count because the predicted value is undefined."""
    of_human = table.get_column(PREDICTED).struct.field("human")
    lost = table.select((pl.col("counted") - of_human).alias(_COUNT)).get_column(_COUNT)
    if count := int(lost.sum()):
        metric = table.get_column("metric")[(lost > 0).arg_true()[0]]
        warn(
            f"{number_of(count, 'human value')} do not count, e.g. of {metric!r}: the predicted "
            "value of the query is undefined (null); `undefined` says how such values count"
        )
    return table


def _ranking(keys: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the columns that identify a ranking; a column of `by` may be one of the query."""
    return [*dict.fromkeys((*keys["by"], *keys["run"], *keys["query"]))]


def check_columns(predictions: pl.LazyFrame, columns: Sequence[str]) -> None:
    """Raise `SchemaError` if the predictions lack a column of the values."""
    schema = schema_of(predictions)
    for name in columns:
        if name not in schema:
            raise SchemaError(
                f"column {name!r} of `values` not found in `predictions`; compute both tables with "
                "the same metrics, `by` and `query`, and keep the same columns"
            )


def _check_types(values: pl.LazyFrame, predictions: pl.LazyFrame, keys: Sequence[str]) -> None:
    """Raise `SchemaError` if a key has different types in the two tables."""
    schema, other = schema_of(values), schema_of(predictions)
    for name in keys:
        both_whole = schema[name].is_integer() and other[name].is_integer()
        if schema[name] != other[name] and not both_whole:
            raise SchemaError(
                f"column {name!r} must have the same type in `values` and `predictions`; found "
                f"{schema[name]} and {other[name]}; cast one of them"
            )


def _checked(
    result: pl.LazyFrame,
    values: pl.LazyFrame,
    predictions: pl.LazyFrame,
    keys: Mapping[str, Sequence[str]],
    probability: str | None,
) -> pl.LazyFrame:
    """Return the result; collecting it raises unless each human query has its predictions."""
    ranking = _ranking(keys)
    result = without_duplicates(result, predictions, ranking, parameter="predictions")
    facts = _lost(values, predictions, ranking)

    def check(rows: pl.DataFrame) -> None:
        count = rows.get_column(_COUNT)[0]
        if count:
            raise DataError(
                f"`predictions` has no row for {number_of(count, 'row')} of `values`, e.g. "
                f"{rows.get_column(_SAMPLE)[0]}; compute predicted values, from predicted labels, "
                "for all queries that people judged, in all runs"
            )

    result = with_check(result, facts, check)
    if keys["run"]:

        def check_runs(rows: pl.DataFrame) -> None:
            if not rows.get_column(_RUNS)[0]:
                raise DataError(
                    "`values` has no rows: no query has labels of people; check the column of "
                    "their labels"
                )
            if count := rows.get_column(_COUNT)[0]:
                raise DataError(
                    f"{number_of(count, 'run')} of `predictions` not found in `values`, e.g. "
                    f"{rows.get_column(_SAMPLE)[0]}; evaluate the same runs in both tables"
                )

        runs = keys["run"]
        both = predictions.select(runs).unique(), values.select(runs).unique()
        number = both[1].select(pl.len().alias(_RUNS))
        unknown = pl.concat([_lost(*both, runs), number], how="horizontal")
        result = with_check(result, unknown, check_runs)
    if probability is None:
        return result
    share = pl.col(probability).cast(pl.Float64)
    problem = f"null values, or numbers outside (0, 1], in the column {probability!r}"
    invalid = ~((share > 0) & (share <= 1)).fill_null(value=False)

    def check_probability(rows: pl.DataFrame) -> None:
        if rows.get_column(_COUNT)[0]:
            raise data_error(values, {problem: invalid})

    return with_check(result, values.select(invalid.sum().alias(_COUNT)), check_probability)


def _with_valid_numbers(
    result: pl.LazyFrame, predictions: pl.LazyFrame, metrics: Sequence[str], weight: str | None
) -> pl.LazyFrame:
    """Return the result; collecting it raises for invalid values or weights of predictions."""
    problems = {
        f"NaN or infinite values in the column {name!r} of `predictions`": (
            ~pl.col(name).cast(pl.Float64).is_finite()
        ).fill_null(value=False)
        for name in metrics
    }
    problems |= {} if weight is None else bad_weight(weight)
    invalid = pl.any_horizontal(*problems.values()).sum().alias(_COUNT)

    def check(rows: pl.DataFrame) -> None:
        if rows.get_column(_COUNT)[0]:
            raise data_error(predictions, problems)

    return with_check(result, predictions.select(invalid), check)


def _with_equal_columns(
    result: pl.LazyFrame,
    values: pl.LazyFrame,
    predictions: pl.LazyFrame,
    keys: Sequence[str],
    roles: Mapping[str, str],
) -> pl.LazyFrame:
    """Return the result; collecting it raises if a query has another weight or cluster.

    `roles` maps columns of both tables to what they are.
    """
    roles = {name: role for name, role in roles.items() if name not in keys}
    if not roles:
        return result
    others = (pl.col(name).alias(OWN + name) for name in roles)
    both = values.select(*keys, *roles).join(
        predictions.select(*keys, *others), on=keys, nulls_equal=True
    )

    def check(rows: pl.DataFrame) -> None:
        for name, role in roles.items():
            if count := rows.get_column(name)[0]:
                raise DataError(
                    f"{number_of(count, 'row')} of `values` have another {role} in `predictions` "
                    f"(column {name!r}); use one {role} per query"
                )

    differ = (
        # Null weights are invalid, for which another check raises.
        pl.col(name) != pl.col(OWN + name)
        if role == "weight"
        else pl.col(name).ne_missing(pl.col(OWN + name))
        for name, role in roles.items()
    )
    return with_check(result, both.select(each.sum() for each in differ), check)


def _lost(rows: pl.LazyFrame, others: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
    """Return the number of rows that other rows lack, and the first in the order of the keys."""
    lost = rows.join(others, on=keys, how="anti", nulls_equal=True)
    first = pl.struct(pl.col(name).sort_by(keys).first() for name in keys)
    return lost.select(pl.len().alias(_COUNT), first.alias(_SAMPLE))


def check_predictions(predictions: Any, probability: str | None) -> None:
    """Raise `ArgumentError` if there is a probability without predictions."""
    if probability is not None and predictions is None:
        raise ArgumentError(
            "`probability` needs `predictions`: it is for queries that people judged among others"
        )


def predicted_values(
    predictions: Any,
    definitions: Conventions,
    conventions: Conventions | str | None,
    undefined: Any,
) -> pl.LazyFrame:
    """Return predictions as a LazyFrame; raise if they state other conventions than the values."""
    table = lazy(predictions, "predictions")
    table, stated = with_definitions(table, conventions, undefined)
    if stated != definitions:
        raise DataError(
            f"`predictions` has values of the conventions {stated.name!r}, and `values` those of "
            f"{definitions.name!r}; compute both with the same conventions"
        )
    return table
