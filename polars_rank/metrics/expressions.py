"""Metrics as free-standing expressions over the ranked table, with rows in any order."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

import polars as pl

from polars_rank.columns import is_relevant
from polars_rank.errors import ArgumentError
from polars_rank.metrics import nodes
from polars_rank.metrics.nodes import Field, Fold, How, Node, Relevant, Term, Value

#: Columns of the ranked table.
_LABEL = pl.col("label").cast(pl.Float64)
_RANK = pl.col("rank").cast(pl.Float64)
_IDEAL_RANK = pl.col("ideal_rank").cast(pl.Float64)
IS_RETRIEVED = pl.col("rank").is_not_null()
_IS_JUDGED = pl.col("label").is_not_null()
_IS_ROW = IS_RETRIEVED | ~IS_RETRIEVED

_FIELDS = {
    "score": pl.col("score"),
    "label": _LABEL,
    "exact_label": pl.col("label") + 0,  # booleans as numbers
    "rank": _RANK,
    "ideal_rank": _IDEAL_RANK,
    "doc": pl.col("doc"),
    "retrieved": IS_RETRIEVED,
    "judged": _IS_JUDGED,
    # Null in the row of an empty ranking.
    "document": pl.col("relevant").is_not_null(),
}


def lowered(node: Node, leaf: Callable[[Any], pl.Expr]) -> pl.Expr:
    """Return a term or a value as an expression, given the expressions of its leaves."""
    if isinstance(node, (nodes.LiteralTerm, nodes.LiteralValue)):
        return pl.lit(node.value)
    if isinstance(node, (nodes.MappedTerm, nodes.MappedValue)):
        operands = [lowered(each, leaf) for each in node.operands]
        result: pl.Expr = node.function(*operands, **dict(node.parameters))
        return result
    if isinstance(node, (nodes.Required, nodes.Mean)):
        return lowered(node.value, leaf)
    return leaf(node)


def conditional(condition: pl.Expr, value: pl.Expr, otherwise: pl.Expr) -> pl.Expr:
    """Return a value if a condition holds, otherwise another value."""
    return pl.when(condition).then(value).otherwise(otherwise)


def expression(value: Value) -> pl.Expr:
    """Return a value as an expression over the rows of a ranking."""
    return lowered(value, _aggregation)


def _aggregation(node: Any) -> pl.Expr:
    if isinstance(node, nodes.UserExpression):
        return node.expression
    if isinstance(node, Fold):
        return folded(node, *map(_sequence, node.sequences))
    if isinstance(node, nodes.Batch):
        rows = pl.struct(_of_rows(term).alias(name) for name, term in node.fields)
        return of_lists(_computed, node.compute, node.read, *node.parameters, lists=rows.implode())
    term, k = _of_rows(node.term), node.k
    if node.order == "any":
        return reduced(term, node.how)
    rank, among = (_RANK, IS_RETRIEVED) if node.order == "rank" else (_IDEAL_RANK, _IS_JUDGED)
    if k is not None:
        among = rank <= (cutoff(expression(k)) if isinstance(k, Value) else k)
    return reduced(term.filter(among), node.how)


def _of_rows(term: Term) -> pl.Expr:
    return for_each_row(lowered(term, _leaf))


def for_each_row(values: pl.Expr) -> pl.Expr:
    """Return an expression with one value per row, also if it is constant."""
    return values if values.meta.root_names() else pl.when(_IS_ROW).then(values)


def cutoff(k: pl.Expr) -> pl.Expr:
    """Return a value as a number of ranks; none if it is null or NaN."""
    return k.cast(pl.Float64).fill_nan(None).fill_null(0.0)


def _leaf(leaf: Term) -> pl.Expr:
    column = leaf_of_rows(leaf)
    # The column is null in rows without a document.
    return column.fill_null(value=False) if leaf == Relevant(None) else column


def leaf_of_rows(leaf: Term) -> pl.Expr:
    """Return what a term reads as an expression over the ranked table."""
    match leaf:
        case Field(name) if name in _FIELDS:
            return _FIELDS[name]
        case Relevant(None):
            return pl.col("relevant")
        case Relevant(float() | int() as rel):
            return is_relevant(pl.col("label"), rel)
        case nodes.Hits(None):
            return pl.col("hits").cast(pl.Float64)
        case nodes.Hits(rel):
            hit = _of_rows(Relevant(rel)) & IS_RETRIEVED
            return pl.when(hit).then(_RANK).rank("ordinal").cast(pl.Float64)
        case nodes.Gain(gain):
            refusals = getattr(gain, "refuses", {})
            return sum((_refusing(*refusal) for refusal in refusals.items()), gain(_LABEL))
        case nodes.Column(name, kind="as is"):
            return pl.col(name)
        case nodes.Column(name):
            # Polars does not add 0.0 to other types, such as a Duration, which a cast accepts.
            return (pl.col(name) + 0.0).cast(pl.Float64).fill_nan(None)
    raise ArgumentError("terms of tied documents are known in an evaluation only")


def _sequence(listed: nodes.Listed) -> pl.Expr:
    term = _of_rows(listed.term)
    if listed.order == "ideal":
        term = term.sort_by("ideal_rank", nulls_last=True)
    elif listed.order == "rank":
        term = pl.when(IS_RETRIEVED).then(term).sort_by("rank", nulls_last=True)
    return term if listed.k is None else term.head(listed.k)


def folded(fold: Fold, *sequences: pl.Expr) -> pl.Expr:
    """Return the value of a fold, given its sequences."""
    result: pl.Expr = fold.function(*sequences, **dict(fold.parameters))
    return result


def reduced(term: Any, how: How) -> pl.Expr:
    """Return the sum, count or extreme of an expression or of its lists as Float64."""
    if how == "sum" and isinstance(term, pl.Expr):
        term = term.cast(pl.Float64)  # the sum of integers may need more bits
    # The count of a condition is the sum of its values.
    value: pl.Expr = getattr(term, "sum" if how == "count" else how)()
    return value.cast(pl.Float64)


def _refusing(problem: str, condition: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """Return 0 for each document; evaluating it fails, with a message, for a rejected label."""
    text = pl.format("the label {} is " + problem.replace("{", "(").replace("}", ")"), _LABEL)
    return pl.when(condition(_LABEL)).then(text).cast(pl.Float64).fill_null(0.0)


def of_lists(function: Callable[..., pl.Series], *arguments: Hashable, lists: pl.Expr) -> pl.Expr:
    """Return a function of the lists of many rankings at once, as one expression.

    The function is called with the arguments and a column of lists, and returns a number for each.
    Equal calls return the same object: Polars compares Python functions by identity, so it would
    not share the value otherwise.
    """
    return _of_lists(function, arguments, lists.meta.serialize())


@lru_cache(maxsize=256)
def _of_lists(
    function: Callable[..., pl.Series], arguments: tuple[Hashable, ...], lists: bytes
) -> pl.Expr:
    return pl.Expr.deserialize(BytesIO(lists)).map_batches(
        partial(function, *arguments),
        return_dtype=pl.Float64,
        is_elementwise=True,
        returns_scalar=True,
    )


def _computed(
    compute: Callable[..., pl.Series], read: Callable[..., Any], *parameters: Any
) -> pl.Series:
    """Return a value of each ranking; the last parameter is the column of lists."""
    return compute(read(*parameters))
