"""What is computed, in words; and why two conventions give two means for one log."""

from __future__ import annotations

import inspect
import math
import re
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.columns import Columns, Names, same_kind, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import _AGGREGATES, _COUNTED, counted_as, per_query
from polars_rank.expectation import SAME_IN_ANY_ORDER
from polars_rank.lists import PRESENCE
from polars_rank.metrics.metric import Metric, _written, whole_number
from polars_rank.naming import output_name, resolve
from polars_rank.ranked import JUDGED, SCORE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def explain(metric: str | pl.Expr, conventions: Conventions = POLARS_RANK) -> str:
    """Say in words what will be computed.

    Parameters
    ----------
    metric
        A name, a metric, or any expression over the ranked table.
    conventions
        Whose definitions are followed.

    Returns
    -------
    str
        The definition of the metric, its formula, its value for one list; its parameters, each
        with who says so; and the choices of the conventions that can matter for it.

    Raises
    ------
    ArgumentError
        For an unknown metric, or a name that stands for several.

    Examples
    --------
    >>> import polars_rank as pr
    >>> print(pr.explain("set_recall"))
    set_recall: Set recall: the share of the relevant documents that was retrieved.
    Formula: R = hits / R
    Value: One Float64 in [0, 1] per list; null where no document is relevant.
    Computed with:
    - rel = None (default): The lowest relevant label; None for the threshold of the call.
    Choices of polars_rank:
    - A document is relevant if its label is at least 1.
    - A list for which the metric is undefined counts as 0 in the mean.
    - Every list counts.
    - A retrieved document without a label keeps its rank and is not relevant.
    """
    wanted = _one(metric)
    agreed = conventions.of(wanted)
    lines = [f"{output_name(wanted)}: {wanted}"]
    if isinstance(wanted, Metric):
        lines = _defined(wanted, conventions)
    lines.append(f"Choices of {conventions.name}:")
    for choice in _choices(agreed):
        if _matters(choice, wanted, (agreed,)):
            lines.append(f"- {_SENTENCES.get(choice, _plain(choice))(agreed, wanted)}")
    return "\n".join(lines)


def explain_difference(
    frame: Any,
    metric: str | pl.Expr,
    a: Conventions,
    b: Conventions,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    worst: int = 5,
) -> Any:
    """Say which choices make the difference between the means under two conventions.

    The choices are switched from `a` to `b` one after another, so that the changes add up to
    the difference.

    Parameters
    ----------
    frame, query, doc, score, label, by
        As for `evaluate`.
    metric
        A name, a metric, or any expression over the ranked table.
    a, b
        The conventions, such as `pr.POLARS_RANK` and `pr.SKLEARN`.
    worst
        How many lists to name for each choice, at least 1.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group and choice that differs and can matter for the metric,
        with the `by` columns and

        - `choice`: its name in `Conventions`, or the name of a parameter of the metric;
        - `a`, `b`: what it is in each;
        - `before`, `after`: the mean before and after it is switched;
        - `change`: after - before;
        - `share`: of the whole difference; null where there is none;
        - `worst`: the lists whose values change most, with their `query` columns and `change`.

        No rows where nothing differs.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate`; also for a name that stands for several metrics.

    Notes
    -----
    The order is that of `Conventions`, but "expected" ties come last, since few parameters have
    a closed form for them. What one choice changes depends on those switched before it. A list
    that does not count, before or after, stands at the mean there: so much it moved the mean.
    A mean that is null, for a list that is undefined, makes the change null.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 0]
    ... })
    >>> pr.explain_difference(df, "rr", pr.POLARS_RANK, pr.LIGHTGBM).select(
    ...     "choice", "b", "change", "worst"
    ... )
    shape: (3, 4)
    ┌───────────┬───────────┬────────┬─────────────────┐
    │ choice    ┆ b         ┆ change ┆ worst           │
    │ ---       ┆ ---       ┆ ---    ┆ ---             │
    │ str       ┆ str       ┆ f64    ┆ list[struct[2]] │
    ╞═══════════╪═══════════╪════════╪═════════════════╡
    │ ties      ┆ input     ┆ 0.0    ┆ []              │
    │ relevant  ┆ above 0.5 ┆ 0.0    ┆ []              │
    │ undefined ┆ one       ┆ 0.5    ┆ [{"b",1.0}]     │
    └───────────┴───────────┴────────┴─────────────────┘
    """
    wanted = _one(metric)
    whole_number("worst", worst)

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        named = {"query": query, "doc": doc, "score": score, "label": label, "by": by}
        columns = Columns.find(schema_of(log), **named)  # type: ignore[arg-type]
        _check_names(columns)
        start, *steps = _steps(wanted, a, b, "worst" if columns.doc is None else "doc")
        states = [start, *(steps or [start])]
        first, *others = [
            _values(log, state, f"__value_{index}", named) for index, state in enumerate(states)
        ]
        # The lists are the same, and in the same order.
        more = [lists.select(f"__value_{index}") for index, lists in enumerate(others, 1)]
        lists = pl.concat([first, *more], how="horizontal")
        aggregate = _AGGREGATES[wanted.aggregate if isinstance(wanted, Metric) else "mean"]
        # A list that does not count stands where it does not move the mean, or the sum.
        neutral = aggregate is _AGGREGATES["sum"]
        values = [pl.col(f"__value_{index}") for index in range(len(states))]
        parts = [
            *(aggregate(each).fill_nan(None).alias(f"__mean_{i}") for i, each in enumerate(values)),
            *(
                _worst(before, after, columns.query, worst, neutral=neutral).alias(f"__worst_{i}")
                for i, (before, after) in enumerate(pairwise(values), 1)
            ),
        ]
        groups = list(columns.by)
        wide = lists.group_by(groups).agg(parts).sort(groups) if groups else lists.select(parts)
        rows = [_row(index, step, len(steps)) for index, step in enumerate(states[1:], 1)]
        long = wide.select(*groups, pl.concat_list(rows).alias("__row"))
        found = long.explode("__row").unnest("__row")
        return found if steps else found.clear()

    return same_kind(frame, plan)


def _one(metric: str | pl.Expr) -> pl.Expr:
    wanted = resolve(metric)
    if len(wanted) > 1:
        message = f"`metric` must be one metric; found {metric!r}, which is {len(wanted)}"
        raise ArgumentError(message)
    return wanted[0]


def _choices(agreed: Conventions) -> list[str]:
    """Return the names of the choices, in order; parameters of metrics are looked at apart."""
    apart = ("name", "parameters", "exceptions")
    return [choice.name for choice in fields(agreed) if choice.name not in apart]


def _matters(choice: str, metric: pl.Expr, agreed: Sequence[Conventions]) -> bool:
    """Return whether a choice can change the value of the metric under any of the conventions."""
    if not isinstance(metric, Metric):
        read = set(metric.meta.root_names())
        ordered = bool({"rank", "hits"} & read)
        gains = False
    else:
        read = {name for each in agreed for name in each.apply(metric).meta.root_names()}
        ordered = metric.function.__name__ not in SAME_IN_ANY_ORDER
        gains = "gain" in _signature(metric)
    known = {
        "ties": ordered,
        "relevant": bool({"relevant", "hits"} & read),
        "float32_scores": ordered or "score" in read,
        "gain_from": gains,
    }
    return known.get(choice, True)


# What `explain` says.


def _defined(metric: Metric, conventions: Conventions) -> list[str]:
    """Return what the docstring of a metric says, and its parameters."""
    doc = inspect.getdoc(metric.function) or ""
    formula = re.search(r"\$\$(.*?)\$\$", doc, re.DOTALL)
    value = re.search(r"^Metric\n((?:    .*\n)+)", doc, re.MULTILINE)
    lines = [f"{metric.output_name}: {doc.partition(chr(10))[0]}"]
    if formula:
        lines.append(f"Formula: {_joined(formula[1])}")
    if value:
        lines.append(f"Value: {_joined(value[1])}")
    arguments = _arguments(metric, conventions)
    if arguments:
        lines.append("Computed with:")
    for key, value in arguments.items():
        default = _same(value, _signature(metric)[key].default)
        source = "default" if default else conventions.name
        if key in metric.arguments:
            source = "given"
        lines.append(f"- {key} = {_text(value)} ({source}): {_meaning(key, value, doc)}")
    return lines


#: What a value of a parameter means, where the docstring has to speak of all of them.
_MEANINGS = {
    ("ideal", "judged"): "The ideal list holds all judged documents, retrieved or not.",
    ("ideal", "retrieved"): "The ideal list holds judged documents only if they are retrieved.",
    ("norm", "R"): "The divisor is the number of relevant documents, retrieved or not.",
    ("norm", "min"): "The divisor is the smaller of k and the number of relevant documents.",
    ("norm", "hits"): "The divisor is the number of relevant documents among the first k.",
}


def _meaning(key: str, value: Any, doc: str) -> str:
    if callable(value) and value.__doc__:  # a gain, a discount
        return str(value.__doc__).partition("\n")[0]
    if isinstance(value, str) and (key, value) in _MEANINGS:
        return _MEANINGS[key, value]
    found = re.search(rf"^(?:\w+, )*{key}(?:, \w+)*\n((?:    .*\n)+)", doc, re.MULTILINE)
    return _joined(found[1]) if found else ""


def _joined(lines: str) -> str:
    return " ".join(lines.split())


_TIES = {
    None: "by document id, descending; without ids, the lower label comes first",
    "doc": "by document id, descending",
    "doc_ascending": "by document id, ascending",
    "best": "in the best way: the higher label comes first",
    "worst": "in the worst way: the lower label comes first",
    "input": "as their rows come",
    "expected": "in every possible way, and the value is the mean over all those orders",
}
_QUERIES = {
    "all": "Every list counts.",
    "judged": "A list counts if at least one of its documents is judged.",
    "retrieved": "A list counts if at least one of its documents is retrieved.",
    "both": "A list counts if at least one document is judged, and at least one is retrieved.",
}
_UNJUDGED = {
    "nonrelevant": "A retrieved document without a label keeps its rank and is not relevant.",
    "removed": "Retrieved documents without a label are removed before ranks are given.",
}


def _undefined(agreed: Conventions, metric: pl.Expr) -> str:
    if isinstance(metric, Metric):  # the floor of a geometric mean is a parameter
        metric = agreed.apply(metric)
    how = counted_as(metric, agreed)
    aggregate = metric.aggregate if isinstance(metric, Metric) else "mean"
    over = {"geometric": "geometric mean"}.get(aggregate, aggregate)
    what = {"skip": f"is left out of the {over}", "null": f"makes the {over} null"}.get(str(how))
    if isinstance(how, float):
        what = f"counts as {math.exp(how) if aggregate == 'geometric' else how:.6g} in the {over}"
    return f"A list for which the metric is undefined {what}."


def _gain_from(agreed: Conventions, _: pl.Expr) -> str:
    if agreed.gain_from is None:
        return "Every label has the gain that `gain` says, negative ones as a penalty."
    return f"A label has a gain if it is {_threshold(agreed.gain_from)}; others have gain 0."


def _plain(choice: str) -> Callable[[Conventions, pl.Expr], str]:
    return lambda agreed, _: f"{choice} = {_text(getattr(agreed, choice))}"


_SENTENCES: dict[str, Callable[[Conventions, pl.Expr], str]] = {
    "ties": lambda agreed, _: f"Documents of the same score are ordered {_TIES[agreed.ties]}.",
    "relevant": lambda agreed, _: (
        f"A document is relevant if its label is {_threshold(agreed.relevant)}."
    ),
    "undefined": _undefined,
    "queries": lambda agreed, _: _QUERIES[agreed.queries],
    "unjudged": lambda agreed, _: _UNJUDGED[agreed.unjudged],
    "float32_scores": lambda agreed, _: (
        "Scores are compared as 32-bit floats: those that differ less are tied."
        if agreed.float32_scores
        else "Scores are compared as they are."
    ),
    "gain_from": _gain_from,
}


def _threshold(value: float) -> str:
    """Return "at least" a number; the first one after a short number is "above" that."""
    below = math.nextafter(value, -math.inf)
    return f"above {below}" if len(str(below)) < len(str(value)) else f"at least {value}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _written(value).strip("'")


# How `explain_difference` goes from one to the other.


@dataclass(frozen=True)
class _State:
    """A metric under conventions; and which choice was switched to come here, from what."""

    metric: pl.Expr
    conventions: Conventions
    choice: str = ""
    a: str = ""
    b: str = ""


def _steps(metric: pl.Expr, a: Conventions, b: Conventions, ties: Any) -> list[_State]:
    """Return the states from `a` to `b`, each with one more choice switched."""
    ends = [_settled(metric, each, ties) for each in (a, b)]
    one, other = ({name: getattr(end, name) for name in _choices(end)} for end in ends)
    changes = [
        (name, one[name], other[name])
        for name in one
        if one[name] != other[name] and _matters(name, metric, (a, b))
    ]
    conventions = replace(ends[0], parameters={})
    if isinstance(metric, Metric):
        before, after = (_arguments(metric, each) for each in (a, b))
        metric = metric.but(**before)
        changes += [
            (key, before[key], after[key]) for key in before if not _same(before[key], after[key])
        ]
    # Few other parameters have a closed form for "expected": they are switched without it.
    changes.sort(key=lambda change: change[0] == "ties" and change[2] == "expected")
    states = [_State(metric, conventions)]
    for choice, old, new in changes:
        if choice in one:
            conventions = replace(conventions, **{choice: new})
        elif isinstance(metric, Metric):
            metric = metric.but(**{choice: new})
        states.append(_State(metric, conventions, choice, _shown(choice, old), _shown(choice, new)))
    return states


def _settled(metric: pl.Expr, conventions: Conventions, ties: Any) -> Conventions:
    """Return the conventions with what they say of this metric and this frame."""
    agreed = conventions.of(metric)
    name = metric.function.__name__ if isinstance(metric, Metric) else output_name(metric)
    return replace(agreed, ties=agreed.ties or ties, undefined=agreed.counts_as(name))


def _signature(metric: Metric) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(metric.function).parameters)


def _arguments(metric: Metric, conventions: Conventions) -> dict[str, Any]:
    """Return all parameters in force: given ones, those of the conventions, defaults."""
    # What `gain_from` does to the gain is a choice of its own.
    agreed = replace(conventions.of(metric), gain_from=None).apply(metric)
    return {
        key: agreed.arguments.get(key, parameter.default)
        for key, parameter in _signature(metric).items()
    }


def _same(one: Any, other: Any) -> bool:
    if callable(one) and callable(other):  # gains and discounts
        x = pl.col("x")
        return bool(one(x).meta.eq(other(x)))
    return bool(one == other)


def _shown(choice: str, value: Any) -> str:
    if choice in ("relevant", "gain_from") and value is not None:
        return _threshold(value)
    return _text(value)


def _values(log: pl.LazyFrame, state: _State, name: str, columns: dict[str, Any]) -> pl.LazyFrame:
    """Return what each list counts as: null if it does not count, NaN if it makes the mean null."""
    agreed = state.conventions
    value = pl.col(name).cast(pl.Float64)
    undefined = counted_as(state.metric, agreed)
    if undefined == "null":
        undefined = math.nan
    if isinstance(undefined, float):
        value = value.fill_null(undefined)
    presence: list[pl.Expr] = []
    if agreed.queries != "all":
        value = pl.when(_COUNTED[agreed.queries]).then(value)
        kinds = (JUDGED.any(), SCORE.is_not_null().any())
        presence = [kind.alias(column) for kind, column in zip(kinds, PRESENCE, strict=True)]
    lists: pl.LazyFrame = per_query(
        log,
        [state.metric.alias(name), *presence],
        conventions=replace(agreed, queries="all"),
        **columns,
    )
    return lists.with_columns(value.alias(name)).drop(PRESENCE, strict=False)


#: A value that changes less was summed up in another order.
_NOISE = 1e-12


def _worst(
    before: pl.Expr, after: pl.Expr, query: Sequence[str], n: int, *, neutral: bool
) -> pl.Expr:
    """Return the lists whose values change most, with by how much."""
    here, there = (
        value.fill_null(pl.lit(0.0) if neutral else value.mean()) for value in (before, after)
    )
    change = there - here
    changed = before.ne_missing(after) & (change.abs() > _NOISE)
    return (
        pl.struct(*query, change.fill_nan(None).alias("change"))
        .filter(changed)
        .sort_by(change.abs().filter(changed), descending=True, maintain_order=True)
        .head(n)
        .implode()
    )


def _row(index: int, state: _State, last: int) -> pl.Expr:
    before, after = pl.col(f"__mean_{index - 1}"), pl.col(f"__mean_{index}")
    total = pl.col(f"__mean_{last}") - pl.col("__mean_0")
    change = after - before
    return pl.struct(
        choice=pl.lit(state.choice),
        a=pl.lit(state.a),
        b=pl.lit(state.b),
        before=before,
        after=after,
        change=change,
        share=pl.when(total.abs() > _NOISE).then(change / total),
        worst=pl.col(f"__worst_{index}"),
    )


def _check_names(columns: Columns) -> None:
    added = {"choice", "a", "b", "before", "after", "change", "share", "worst"}
    for parameter, taken in (
        ("by", added & set(columns.by)),
        ("query", {"change"} & set(columns.query)),
    ):
        if taken:
            message = (
                f"`{parameter}` names the column {taken.pop()!r}, which the result adds; rename it"
            )
            raise ArgumentError(message)
