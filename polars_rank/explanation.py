"""What will be computed, in words; and why two tools disagree about one log, in numbers."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, names
from polars_rank.conventions import POLARS_RANK, Conventions, counted_as, named
from polars_rank.errors import ArgumentError, number_of
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, Metric, parameters_of, written
from polars_rank.metrics.names import output_name, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_VALUE = OWN + "value"
_TIES = {
    None: "by document id descending; without ids, the lower label first",
    "doc": "by document id, descending",
    "doc_ascending": "by document id, ascending",
    "best": "the higher label first",
    "worst": "the lower label first",
    "input": "in the order of the rows",
    "expected": "the mean over all their orders, exactly",
}
_QUERIES = {
    "all": "all",
    "judged": "those with a judged document, retrieved or not",
    "retrieved": "those with a retrieved document",
    "both": "those with both a judged and a retrieved document",
}
_UNJUDGED = {
    "nonrelevant": "not relevant, without gain; they keep their rank",
    "removed": "removed before ranks are given",
}
_UNDEFINED = {
    "skip": "is left out of the mean",
    "null": "makes the mean null",
    "zero": "counts as 0",
    "one": "counts as 1",
}
_AGGREGATES = {
    "mean": "the mean over lists",
    "sum": "the sum over lists",
    "geometric": "the geometric mean over lists",
}
#: Parameters in words, by name and value; others are written as they are.
_WORDS: dict[tuple[str, str], str] = {
    ("gain", "linear"): "the label",
    ("gain", "'linear'"): "the label",
    ("gain", "'exp2'"): "2^label - 1",
    ("discount", "'log2'"): "1 / log2(rank + 1)",
    ("discount", "'reciprocal'"): "1 / rank",
    ("ideal", "'judged'"): "of all judged documents, retrieved or not",
    ("ideal", "'retrieved'"): "of the retrieved documents only",
    ("norm", "'R'"): "all relevant documents",
    ("norm", "'min'"): "the smaller of k and the number of relevant documents",
    ("norm", "'hits'"): "the relevant documents among the first k",
    ("depth", "'k'"): "k",
    ("depth", "'retrieved'"): "the smaller of k and the number of retrieved documents",
    ("rounding", "'up'"): "recall x R, plus 0.9, cut to a whole number of hits",
    ("rounding", "'nearest'"): "recall x R, rounded to a whole number of hits",
}
_TITLES = {
    "norm": "divisor",
    "depth": "divisor",
    "ideal": "ideal list",
    "rounding": "recall",
    "click": "column of clicks",
    "dwell": "column of seconds spent on a document",
    "time": "column of seconds to a click",
    "good": "column of lists that answer themselves",
    "seconds": "seconds that satisfy",
}


def explain(metric: str | Metric, conventions: Conventions | str = POLARS_RANK) -> str:
    """Say in words what will be computed.

    Parameters
    ----------
    metric
        A name or a metric.
    conventions
        Whose definitions to follow where the metric says nothing itself.

    Returns
    -------
    str
        A line for each choice: formula, cutoff, parameters, threshold, ties, unjudged
        documents, undefined lists, which lists count.

    Raises
    ------
    ArgumentError
        For an unknown metric.

    Examples
    --------
    >>> print(pr.explain("map@10", pr.conventions.LIGHTGBM))
    average_precision(norm='min')@10 as LightGBM has it
    - what: Average precision: the mean, over relevant documents, of precision at their rank.
    - cutoff: the first 10 documents
    - divisor: the smaller of k and the number of relevant documents
    - relevant: a label above 0.5
    - tied scores: in the order of the rows
    - unjudged documents: not relevant, without gain; they keep their rank
    - undefined where no document is relevant: counts as 1
    - lists that count: all
    - over lists: the mean over lists
    """
    asked = read(metric, named(conventions).name) if isinstance(metric, str) else metric
    if not isinstance(asked, Metric) or asked.parts:
        message = (
            "`metric` must be a name or a metric of the catalogue, of which there is something to "
            f"explain; found {metric if isinstance(metric, (pl.Expr, str)) else repr(metric)}"
        )
        raise ArgumentError(message, "metric")
    conventions = named(conventions)
    agreed = conventions.of(asked)
    applied = replace(agreed, gain_from=None).apply(asked)
    name = str(applied)
    lines = [f"{name} as {conventions.name} has it"]
    lines += [f"- {title}: {text}" for title, text in _lines(applied, agreed)]
    return "\n".join(lines)


def _lines(metric: Metric, agreed: Conventions) -> Iterator[tuple[str, str]]:
    definition = REGISTER[metric.function.__name__]
    if said := described(definition).definition:
        yield "what", said
    values = {**parameters_of(metric), **metric.arguments}
    for key, value in values.items():
        if key == "k":
            yield "cutoff", "none" if value is None else f"the first {number_of(value, 'document')}"
        elif key != "rel" and value is not None:
            word = written(value)
            worthless = "" if agreed.gain_from is None else f"; 0 below {agreed.gain_from}"
            text = _WORDS.get((key, word), word) + (worthless if key == "gain" else "")
            yield _TITLES.get(key, key), text
    if "rel" in values:
        lowest = agreed.rel if values["rel"] is None else values["rel"]
        yield "relevant", f"a label {'' if 'above' in _above(lowest) else 'of '}{_above(lowest)}"
    by_id = agreed.text_ids and agreed.ties in (None, "doc", "doc_ascending")
    yield "tied scores", _TIES[agreed.ties] + ("; ids are compared as text" if by_id else "")
    if agreed.float32_scores:
        yield "scores", "compared as 32-bit floats"
    yield "unjudged documents", _UNJUDGED[agreed.unjudged]
    if definition.undefined:
        counted = _UNDEFINED[agreed.counts_as(metric)]
        value = counted_as(metric, agreed)
        if metric.aggregate == "geometric" and isinstance(value, float):
            counted = f"counts as {math.exp(value):g}"
        yield f"undefined where {definition.undefined}", counted
    yield "lists that count", _QUERIES[agreed.query_set]
    yield "over lists", _AGGREGATES[metric.aggregate]


def explain_difference(
    frame: Any,
    metric: str | Metric,
    a: Conventions | str,
    b: Conventions | str,
    *,
    worst: int = 3,
    **columns: Any,
) -> pl.DataFrame:
    """Say why two conventions give two means on this log: so much by each choice.

    Parameters
    ----------
    frame
        The long table, as for `evaluate`.
    metric
        A name or a metric.
    a, b
        The conventions that are compared.
    worst
        How many lists to name for each choice.
    **columns
        Names of the columns and `duplicates`, as for `evaluate`; the columns of `by` count as
        parts of the query.

    Returns
    -------
    DataFrame
        One row for each choice in which `a` and `b` differ for this metric, in the order in
        which they are switched, one after the other, from `a` to `b`:

        - `choice`, `a`, `b`: which, and what it is under each;
        - `mean`: the mean after the switch, the last one being that under `b`; null where an
          undefined list makes it null;
        - `change`: by how much the switch changed it; null where one of the means is null;
        - `share`: of the whole difference; null where that is 0 or null;
        - `worst`: the lists that it changed most, a struct of the query and its `change`. A
          list that does not count is taken to have the mean of those that do; a list without a
          value on one side is left out where that mean is null.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate`.

    Notes
    -----
    What a choice changes depends on those switched before it; the changes add up to the whole
    difference in any order.

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
    """
    asked = read(metric) if isinstance(metric, str) else metric
    if not isinstance(asked, Metric):
        message = f"`metric` must be a name or a metric of this package; found {metric!r}"
        raise ArgumentError(message, "metric")
    keys = [*names("by", columns.pop("by", None)), *names("query", columns.pop("query", "query"))]
    a, b = named(a), named(b)
    options = {**columns, "query": keys}
    log, doc = lazy(frame), options.get("doc", "doc")
    ids = None if doc is None else schema_of(log).get(doc)
    at, end = (_choices(asked, which, ids) for which in (a, b))
    start = last = _evaluated(log, asked, at, options)
    rows = []
    for choice in [choice for choice in end if at.get(choice) != end[choice]]:
        was, at = at[choice], {**at, choice: end[choice]}
        now = _evaluated(log, asked, at, options)
        rows.append(
            {
                "choice": choice,
                "a": _shown(choice, was),
                "b": _shown(choice, end[choice]),
                "mean": now[0],
                "change": _less(now[0], last[0]),
                "worst": _worst(last, now, keys, worst),
            }
        )
        last = now
    whole = _less(last[0], start[0])
    numbers = dict.fromkeys(("mean", "change"), pl.Float64)
    keyed = {key: dtype for key, dtype in start[1].schema.items() if key in keys}
    listed = pl.List(pl.Struct({**keyed, "change": pl.Float64}))
    texts = dict.fromkeys(("choice", "a", "b"), pl.String)
    share = pl.col("change") / pl.lit(whole or None, pl.Float64)
    found = pl.DataFrame(rows, {**texts, **numbers, "worst": listed}, orient="row")
    return found.select(*texts, *numbers, share.alias("share"), "worst")


def _choices(metric: Metric, conventions: Conventions, ids: pl.DataType | None) -> dict[str, Any]:
    """Return everything that conventions decide for a metric, in the order to be switched.

    `ids` is the type of the documents' ids, if they have any.
    """
    accepted = parameters_of(metric)
    agreed = conventions.of(metric)
    free = {key: value for key, value in accepted.items() if key not in metric.arguments}
    own = f"{metric.function.__name__}."
    parameters = {
        **{key: value for key, value in agreed.parameters.items() if key in free},
        **{
            key.removeprefix(own): value
            for key, value in agreed.parameters.items()
            if key.startswith(own)
        },
    }
    return {
        "float32_scores": agreed.float32_scores,
        "ties": agreed.ties or ("worst" if ids is None else "doc"),
        **({} if ids in (None, pl.String) else {"text_ids": agreed.text_ids}),
        "unjudged": agreed.unjudged,
        **({"rel": agreed.rel} if "rel" in free else {}),
        **{
            key: metric.but(**{key: parameters.get(key, value)}).arguments[key]
            for key, value in free.items()
            if key not in ("k", "rel") and value is not Parameter.empty
        },
        **({"gain_from": agreed.gain_from} if "gain" in accepted else {}),
        "undefined": agreed.counts_as(metric),
        "query_set": agreed.query_set,
    }


def _evaluated(
    log: pl.LazyFrame, metric: Metric, choices: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[float | None, pl.DataFrame]:
    """Return the mean, and the value of each list that counts."""
    known = {each.name for each in fields(Conventions)}
    general = {key: value for key, value in choices.items() if key in known}
    special = {key: value for key, value in choices.items() if key not in known}
    agreed = Conventions(**general, parameters=special)
    name = output_name(metric)
    mean, lists = pl.collect_all(
        [
            evaluate(log, metric, conventions=agreed, **options).select(name),
            per_query(log, metric, conventions=agreed, **options),
        ]
    )
    counted = counted_as(metric, agreed)
    value = _filled(name, counted if isinstance(counted, float) else None)
    return mean.item(), lists.with_columns(value.alias(_VALUE)).drop(name)


def _worst(
    before: tuple[float | None, pl.DataFrame],
    after: tuple[float | None, pl.DataFrame],
    keys: list[str],
    count: int,
) -> list[dict[str, Any]]:
    """Return the lists that changed most; those that do not count have the mean."""
    both = before[1].join(after[1], on=keys, how="full", coalesce=True, nulls_equal=True)
    was, now = _filled(_VALUE, before[0]), _filled(_VALUE + "_right", after[0])
    changes = both.select(*keys, (now - was).alias("change"))
    size = pl.col("change").abs()
    return (
        changes.filter(size > 0)
        .sort(size, *keys, descending=[True, *[False] * len(keys)])
        .head(count)
        .to_dicts()
    )


def _filled(name: str, value: float | None) -> pl.Expr:
    """Return a column with a number, or None, in place of its nulls."""
    return pl.coalesce(pl.col(name).cast(pl.Float64), pl.lit(value, dtype=pl.Float64))


def _less(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _shown(choice: str, value: Any) -> str:
    return _above(value) if choice == "relevant" else written(value).strip("'")


def _above(lowest: float) -> str:
    """Write a threshold; the first number above another as "above" that one."""
    below = math.nextafter(lowest, -math.inf)
    short = len(repr(below)) + 5 < len(repr(lowest))
    return f"above {below}" if short else f"{lowest} or more"
