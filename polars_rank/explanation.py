"""Definitions of metrics in words, and the causes of a difference between two conventions."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public, whole_number
from polars_rank._texts import visible
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions, named
from polars_rank.definitions import (
    TEXTS,
    TITLES,
    Definition,
    one_metric,
    threshold_text,
    value_text,
)
from polars_rank.errors import number_of
from polars_rank.evaluation.evaluate import VALUE, values_under
from polars_rank.evaluation.log import Log
from polars_rank.frames.tables import lazy
from polars_rank.metrics.aliases import OTHER_MEANINGS
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, Metric, parameters_of, written
from polars_rank.metrics.names import function_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Unpack

    from polars_rank.conventions import Duplicates
    from polars_rank.evaluation.log import ColumnOptions


@public
def explain(
    metric: str | Metric,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> str:
    """Return the definition of a metric under conventions, in words.

    Examples
    --------
    >>> print(pr.explain("map@10", "lightgbm"))
    average_precision(norm='min')@10 under the conventions of LightGBM
    - definition: Average precision: mean of the precision at the rank of each relevant document.
    - cutoff: first 10 documents
    - divisor: the smaller of k and the number of relevant documents
    - relevant: label above 0.5
    - tied scores: in the order of the rows
    - unjudged documents: not relevant, without gain; they keep their rank
    - undefined where no document is relevant: counts as 1
    - queries: all
    - aggregation: mean over queries

    Parameters
    ----------
    metric
        Name of a metric, or a metric.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`.

    Returns
    -------
    str
        One line each for the definition, cutoff, parameters, relevance threshold, ties, unjudged
        documents, undefined values, included queries, and aggregation. For a measure that
        is not a metric, such as "Gini", the function that computes it.

    Raises
    ------
    ArgumentError
        If the metric is unknown.
    """
    conventions = named(conventions).but(**definitions)
    function = function_of(metric) if isinstance(metric, str) else None
    if function is not None:
        return f"{metric} is not a metric of pr.evaluate\n- use: {function}"
    definition = Definition.of(one_metric(metric, conventions.name), conventions)
    title = f"{definition.plain} under the conventions of {conventions.name}"
    lines = (f"- {name}: {text}" for name, text in _lines(definition))
    return "\n".join(map(visible, [title, *lines]))


def _lines(definition: Definition) -> Iterator[tuple[str, str]]:
    """Yield the titles and texts of the lines of `explain`."""
    metric, conventions = definition.plain, definition.conventions
    function = definition.function
    texts = {
        "definition": described(REGISTER[function]).definition,  # empty without docstrings
        "other meanings of the name": OTHER_MEANINGS.get(function),
    }
    yield from ((title, text) for title, text in texts.items() if text)
    values = {**parameters_of(metric), **metric.arguments}
    for key, value in values.items():
        if key == "k":
            yield "cutoff", "none" if value is None else f"first {number_of(value, 'document')}"
        elif key not in ("rel", "irrelevant") and value is not None:
            word = written(value)
            lowest = conventions.gain_from
            without_gain = "" if lowest is None else f"; 0 for labels below {lowest}"
            text = TEXTS.get(key, {}).get(word.strip("'"), word)
            yield TITLES.get(key, key), text + (without_gain if key == "gain" else "")
    if "rel" in values:
        rel = conventions.rel if values["rel"] is None else values["rel"]
        yield "relevant", f"label {threshold_text(rel)}"
    by_id = conventions.text_ids and conventions.ties in (None, "doc", "doc_ascending")
    ties = TEXTS["ties"][conventions.ties]
    yield "tied scores", f"{ties}; ids are compared as text" if by_id else ties
    if "doc" in metric.meta.root_names():
        yield "ties in the ideal ranking", "by document id, descending"
    if conventions.float32_scores:
        yield "scores", "compared as 32-bit floats"
    yield "unjudged documents", TEXTS["unjudged"][conventions.unjudged]
    if conventions.duplicates != "error":
        yield "duplicate documents", TEXTS["duplicates"][conventions.duplicates]
    irrelevant = "no document is relevant" if metric.arguments.get("irrelevant") else ""
    undefined = ", or ".join(filter(None, (REGISTER[function].undefined, irrelevant)))
    if undefined:
        effect = TEXTS["undefined"][conventions.counts_as(metric)]
        if metric.aggregate == "geometric" and isinstance(definition.counts_as, float):
            effect = f"counts as {math.exp(definition.counts_as):g}"
        yield f"undefined where {undefined}", effect
    yield "queries", TEXTS["query_set"][conventions.query_set]
    yield "aggregation", TEXTS["aggregate"][conventions.aggregate(metric)]


@public
def explain_difference(
    frame: Any,
    metric: str | Metric,
    a: ConventionsLike,
    b: ConventionsLike,
    *,
    n: int = 3,
    duplicates: Duplicates | None = None,
    **columns: Unpack[ColumnOptions],
) -> pl.DataFrame:
    """Return how much each choice contributes to the difference of two conventions.

    The choices in which `a` and `b` differ are switched from `a` to `b` one after the other, and
    the log is evaluated after each switch.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [1, 3, 0]
    ... })
    >>> why = pr.explain_difference(df, "ndcg@10", "polars_rank", "lightgbm")
    >>> why.select("choice", "a", "b", pl.col("mean", "change").round(4))
    shape: (3, 5)
    ┌───────────┬────────┬───────┬────────┬─────────┐
    │ choice    ┆ a      ┆ b     ┆ mean   ┆ change  │
    │ ---       ┆ ---    ┆ ---   ┆ ---    ┆ ---     │
    │ str       ┆ str    ┆ str   ┆ f64    ┆ f64     │
    ╞═══════════╪════════╪═══════╪════════╪═════════╡
    │ ties      ┆ worst  ┆ input ┆ 0.3984 ┆ 0.0     │
    │ gain      ┆ linear ┆ exp2  ┆ 0.3549 ┆ -0.0434 │
    │ undefined ┆ zero   ┆ one   ┆ 0.8549 ┆ 0.5     │
    └───────────┴────────┴───────┴────────┴─────────┘

    Parameters
    ----------
    frame
        The long table.
    metric
        Name of a metric, or a metric.
    a, b
        Conventions to compare, or names of presets.
    n
        Number of queries to show per choice.
    duplicates
        Treatment of a document that occurs more than once in a ranking, by both conventions.
        Default: the treatment by each of them, and a row of the result if they differ. If it is
        "error" for one of them, as in "polars_rank", the log must have no duplicates. To see what a
        treatment changes, give it to the conventions: `pr.Conventions(duplicates="max")`.
    **columns
        Options of `evaluate` that name columns. The columns of `by` and `run` identify the query
        together with `query`. `score` and `label` are single columns.

    Returns
    -------
    DataFrame
        One row per choice in which `a` and `b` differ for the metric, in the order in which they
        are switched:

        - `choice`, `a`, `b`: the choice, and its values under `a` and `b`;
        - `mean`: mean after the switch, in the last row the mean under `b`; null if an undefined
          value makes it null;
        - `change`: change of the mean by the switch;
        - `share`: `change` divided by the whole difference; null if that is 0;
        - `changes`: the queries that changed most, as structs of the query and its `change`. A
          query that is not included in the mean has the mean as its value.

    Raises
    ------
    ArgumentError, DataError, SchemaError
        The errors of `evaluate`, such as `DataError` if one of the conventions has no value because
        the log has duplicates.

    Notes
    -----
    The change by a choice depends on the choices switched before it. The changes add up to the
    whole difference.
    """
    parsed = one_metric(metric)
    whole_number("n", n)
    a, b = named(a, "a"), named(b, "b")
    log = Log.of(lazy(frame, collects=True), **columns)
    ids = None if log.columns.doc is None else log.columns.schema[log.columns.doc]
    first = Definition.of(parsed, a.but(duplicates=duplicates))
    choices, target = (
        each.choices(ids) for each in (first, Definition.of(parsed, b.but(duplicates=duplicates)))
    )
    if "error" in (choices["duplicates"], target["duplicates"]):
        # Without duplicates, treatments have the same value; with some, one of the two has none.
        choices["duplicates"] = target["duplicates"] = "error"
    switched = [choice for choice in target if choices[choice] != target[choice]]
    steps = [first.but(duplicates=choices["duplicates"])]
    for choice in switched:
        steps.append(steps[-1].but(**{choice: target[choice]}))
    tables = values_under(log, steps)
    means = [*map(_mean, tables, steps)]
    keys, results = log.columns.keys, [*zip(means, tables, strict=True)]
    rows = [
        {
            "choice": choice,
            "a": value_text(choice, choices[choice]),
            "b": value_text(choice, target[choice]),
            "mean": after[0],
            "change": _difference(after[0], before[0]),
            "changes": _largest_changes(before, after, keys, n),
        }
        for choice, (before, after) in zip(switched, pairwise(results), strict=True)
    ]
    whole = _difference(means[-1], means[0])
    numbers = dict.fromkeys(("mean", "change"), pl.Float64)
    keyed = {key: dtype for key, dtype in tables[0].schema.items() if key in keys}
    listed = pl.List(pl.Struct({**keyed, "change": pl.Float64}))
    texts = dict.fromkeys(("choice", "a", "b"), pl.String)
    share = pl.col("change") / pl.lit(whole or None, pl.Float64)
    table = pl.DataFrame(rows, {**texts, **numbers, "changes": listed}, orient="row")
    return table.select(*texts, *numbers, share.alias("share"), "changes")


def _mean(values: pl.DataFrame, definition: Definition) -> float | None:
    """Return the mean that `evaluate` has of values: a sum of counts, or a geometric mean."""
    column = values.get_column(VALUE)
    if definition.counts_as == "null" and column.null_count():
        return None
    how = definition.conventions.aggregate(definition.metric)
    mean: Any = column.sum() if how == "sum" else column.mean()
    return math.exp(mean) if how == "geometric" and mean is not None else mean


def _largest_changes(
    before: tuple[float | None, pl.DataFrame],
    after: tuple[float | None, pl.DataFrame],
    keys: list[str],
    count: int,
) -> list[dict[str, Any]]:
    """Return the queries that changed most; queries without a value have the mean."""
    both = before[1].join(after[1], on=keys, how="full", coalesce=True, nulls_equal=True)
    filled = [
        pl.col(name).fill_null(pl.lit(mean, pl.Float64))
        for name, (mean, _) in ((VALUE, before), (VALUE + "_right", after))
    ]
    changes = both.select(*keys, (filled[1] - filled[0]).alias("change"))
    size = pl.col("change").abs()
    return (
        changes.filter(size > 0)
        .sort(size, *keys, descending=[True, *[False] * len(keys)])
        .head(count)
        .to_dicts()
    )


def _difference(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other
