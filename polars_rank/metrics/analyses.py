"""What a metric reads and needs, as functions of its tree."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import lru_cache, partial

import polars as pl

from polars_rank._polars import is_elementwise
from polars_rank.errors import ArgumentError, short
from polars_rank.metrics import nodes
from polars_rank.metrics.expressions import conditional, lowered
from polars_rank.metrics.nodes import Field, Fold, Hits, Node, Reduction, Relevant, Term, Value

#: Fields of the label of a document.
_LABELS = {Field("label"), Field("exact_label"), Field("judged")}
#: The literal null.
_NOTHING = nodes.term_of(None)
#: Fields that depend on the order of documents.
_RANKS = {Field("rank"), Field("ideal_rank")}
#: Fields of the documents tied with a document, which only plans by rows have.
TIES = {Field("position")} | {Field(name) for name in ("first", "last", "begin", "end", "reverse")}
#: Fields and functions of labels that columns by position have, by the order of positions.
_RANKED = {Field("rank"), Field("label"), Field("retrieved"), Field("judged")}
_OF_POSITIONS: Mapping[nodes.Order, tuple[set[Field], tuple[type[Term], ...]]] = {
    "rank": (_RANKED, (Relevant, Hits, nodes.Gain)),
    "any": (_RANKED, (Relevant, nodes.Gain)),
    "ideal": ({Field("ideal_rank"), Field("label"), Field("judged")}, (nodes.Gain,)),
}

#: The length of the longest ranking by columns, which count conditions as UInt8.
LONGEST = 64

#: Modules whose functions the operators of terms call.
_ELEMENTWISE = {"_operator", "polars.functions.aggregation.horizontal"}

#: Ranked columns that depend on labels.
_OF_LABELS = {"label", "relevant", "hits", "ideal_rank"}


@lru_cache(4096)
def nodes_in(*roots: Node) -> tuple[Node, ...]:
    """Return each distinct node once, inputs first."""
    return (*dict.fromkeys(each for root in roots for each in (*nodes_in(*root.inputs), root)),)


@lru_cache(4096)
def leaves(node: Node) -> frozenset[Term]:
    """Return what a term or a value reads of documents."""
    if isinstance(node, Term) and not node.inputs:
        return frozenset() if isinstance(node, nodes.LiteralTerm) else frozenset([node])
    return frozenset[Term]().union(*map(leaves, node.inputs))


def depth(*values: Value) -> int | None:
    """Return the number of documents that values read in order; None if they read all.

    The ranks of the first documents that meet conditions are found without it.
    """
    cutoffs: list[int | None] = [0]
    for node in nodes_in(*values):
        if first_that(node) is not None:
            continue
        if isinstance(node, nodes.Listed) or (isinstance(node, Reduction) and reads_order(node)):
            # Tied documents and ideal ranks are found in whole rankings.
            whole = node.order == "any" or any(
                leaf in TIES or (leaf == Field("ideal_rank") and node.order != "ideal")
                for leaf in leaves(node)
            )
            cutoffs.append(None if whole or not isinstance(node.k, int) else node.k)
        elif isinstance(node, (nodes.Batch, nodes.UserExpression)):
            cutoffs.append(None)
    known = [k for k in cutoffs if k is not None]
    return max(known) if len(known) == len(cutoffs) else None


def first_that(node: Node) -> Term | None:
    """Return the condition of the rank of the first document that meets it, or None.

    The condition reads only labels.
    """
    match node:
        case Reduction("min", nodes.MappedTerm(function, operands), "rank", None):
            condition, *others = operands
            is_rank = function is conditional and others == [Field("rank"), _NOTHING]
            read = leaves(condition)
            if is_rank and all(leaf in _LABELS or isinstance(leaf, Relevant) for leaf in read):
                return condition
    return None


@lru_cache(4096)
def reads_order(node: Node) -> bool:
    """Return whether a term or a value depends on the order of documents."""
    if isinstance(node, nodes.UserExpression):
        return True
    if isinstance(node, Reduction) and (node.order == "ideal" or node.k is not None):
        return True
    if isinstance(node, nodes.Listed) and node.order != "any":
        return True
    if node in _RANKS or node in TIES or isinstance(node, (Hits, nodes.OfTies)):
        return True
    return any(map(reads_order, node.inputs))


@lru_cache(4096)
def reads_labels(value: Value) -> bool:
    """Return whether a value depends on labels."""
    for node in nodes_in(value):
        if isinstance(node, nodes.UserExpression):
            if not _OF_LABELS.isdisjoint(node.expression.meta.root_names()):
                return True
        elif isinstance(node, nodes.Gain):  # a constant gain does not read the label
            if node.gain(pl.col("label")).meta.root_names():
                return True
        elif node in {*_LABELS, Field("ideal_rank")} or isinstance(node, (Relevant, Hits)):
            return True
    return False


@lru_cache(4096)
def of_scored_documents(value: Value) -> frozenset[float | None]:
    """Return the lowest relevant labels of folds over the scores of documents, as for AUC.

    None is the lowest relevant label of the call. Documents without a score have no effect on them.
    """
    score = nodes.Listed(Field("score"), "any")
    folds = [node for node in nodes_in(value) if isinstance(node, Fold) and score in node.sequences]
    return frozenset(node.rel for node in nodes_in(*folds) if isinstance(node, Relevant))


@lru_cache(4096)
def has_threshold(value: Value) -> bool:
    """Return whether a value depends on the lowest relevant label of the call."""
    return any(isinstance(node, (Relevant, Hits)) and node.rel is None for node in nodes_in(value))


def columns_read(*values: Node) -> list[nodes.Column]:
    """Return the columns of the log that values read, in a stable order."""
    return [node for node in nodes_in(*values) if isinstance(node, nodes.Column)]


def invalid_values(column: nodes.Column) -> dict[str, pl.Expr]:
    """Return the checks for values that a metric cannot read: messages and conditions."""
    if column.kind == "as is":
        return {}
    check = no_count if column.kind == "count" else negative
    problems = check(column.parameter, column.name)
    if column.high is not None:
        problem = f"values above {column.high:g}; use shares from 0 to 1"
        number = pl.col(column.name).cast(pl.Float64)
        is_high = (number > column.high) & number.is_not_nan()
        problems[f"column {column.name!r} (`{column.parameter}`) has {problem}"] = is_high
    return problems


def negative(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return the check for numbers below 0: its message and its condition."""
    problem = f"column {column!r} (`{parameter}`) has negative values; use null for unknown"
    return {problem: pl.col(column).cast(pl.Float64) < 0}


def no_count(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return the checks for numbers that are not counts: their messages and conditions."""
    problem = f"column {column!r} (`{parameter}`) must be Boolean or a count; found other numbers"
    number = pl.col(column).cast(pl.Float64)
    is_fractional = (number != number.floor()) | number.is_infinite()  # false for NaN
    return {**negative(parameter, column), problem: is_fractional}


def refusals(*values: Value) -> dict[str, Callable[[pl.Expr], pl.Expr]]:
    """Return the labels that gains do not accept: messages and conditions."""
    refused: dict[str, Callable[[pl.Expr], pl.Expr]] = {}
    for node in nodes_in(*values):
        if isinstance(node, nodes.Gain):
            refused |= getattr(node.gain, "refuses", {})
    return refused


@lru_cache(4096)
def fits_columns(value: Value) -> bool:
    """Return whether a value needs no more than the label and the rank at each position."""
    if isinstance(value, Reduction):
        fields, of_labels = _OF_POSITIONS[value.order]
        return (
            all(leaf in fields or isinstance(leaf, of_labels) for leaf in leaves(value.term))
            # Positions have no mark of documents that are neither retrieved nor judged.
            and (value.order != "any" or is_neutral(value.elements))
            and (not isinstance(value.k, Value) or fits_columns(value.k))
        )
    if isinstance(value, (nodes.LiteralValue, nodes.MappedValue)):
        return all(map(fits_columns, value.inputs))
    return False


@lru_cache(4096)
def is_neutral(elements: nodes.Elements, label: float | None = None) -> bool:
    """Return whether rows and positions without a document of the order have no effect.

    They have no label and, if the order is "any", no rank. With `label`, they have this label, but
    are neither judged nor relevant.
    """
    if any(map(_is_of_any_type, leaves(elements.term))):
        return False
    ranks = [None] if elements.order == "any" else range(1, LONGEST + 1)
    ranks_of = pl.Series(ranks, dtype=pl.Float64)
    values = lowered(elements.term, partial(_absent, ranks=ranks_of, label=label))
    known = pl.select(values.cast(pl.Float64)).to_series().drop_nulls()
    return known.is_empty() or (elements.how != "extreme" and (known == 0).all())


@lru_cache(4096)
def is_condition(term: Term) -> bool | None:
    """Return whether a term is true or false; None if this depends on columns of the log."""
    try:
        values = lowered(term, partial(_absent, ranks=pl.Series([1.0])))
        found = pl.select(values).to_series().dtype
    except pl.exceptions.PolarsError:  # of a function of another type
        return None
    if any(map(_is_of_any_type, leaves(term))):
        return True if found == pl.Boolean else None
    return found in {pl.Boolean, pl.Null}


def _is_of_any_type(leaf: Term) -> bool:
    """Return whether a leaf is a column that need not have numbers."""
    return leaf == Field("doc") or (isinstance(leaf, nodes.Column) and leaf.kind == "as is")


def _absent(leaf: Term, *, ranks: pl.Series, label: float | None = None) -> pl.Expr:
    """Return what a term reads where no document is, at some ranks."""
    match leaf:
        case Relevant() | Field("retrieved" | "judged" | "document"):
            return pl.lit(value=False)
        case Field("rank" | "ideal_rank") | Hits():
            return pl.lit(ranks)
        case nodes.Gain(gain):
            worth: pl.Expr = gain(pl.lit(label, dtype=pl.Float64))
            return worth
        case Field("label"):
            return pl.lit(label, dtype=pl.Float64)
    return pl.lit(None) if _is_of_any_type(leaf) else pl.lit(None, dtype=pl.Float64)


def weighted(term: Term, order: nodes.Order) -> tuple[Term, Term | None]:
    """Split a term into a factor and a weight, which reads only the rank in an order."""
    if isinstance(term, nodes.MappedTerm) and term.function is operator.mul:
        rest, weight = term.operands
        if leaves(weight) == {Field("ideal_rank" if order == "ideal" else "rank")}:
            return rest, weight
    return term, None


def check_functions(value: Value) -> None:
    """Raise `ArgumentError` for functions of users that plans cannot compute."""
    for node in nodes_in(value):
        if node.inputs and _reads_truth_value(node):
            raise ArgumentError(
                "a metric reads True or False instead of a term or a value; write "
                "t.LABEL.equals(2) instead of t.LABEL == 2"
            )
        if isinstance(node, nodes.MappedTerm) and node.function.__module__ not in _ELEMENTWISE:
            what = "a function of terms"
            check_elementwise(what, node.function, len(node.operands), node.parameters)
        elif isinstance(node, nodes.Gain):
            check_elementwise("a gain", node.gain)
        elif isinstance(node, Fold):
            _check_fold(node.function, len(node.sequences), node.parameters)


def _reads_truth_value(node: Node) -> bool:
    """Return whether a node other than a choice or a default reads True or False."""
    if (
        isinstance(node, (nodes.MappedTerm, nodes.MappedValue))
        and node.function.__module__ != "_operator"
    ):
        return False
    literals = (
        each for each in node.inputs if isinstance(each, (nodes.LiteralTerm, nodes.LiteralValue))
    )
    return any(each.kind is bool for each in literals)


@lru_cache(4096)
def check_elementwise(
    what: str, function: nodes.Function, number: int = 1, parameters: nodes.Parameters = ()
) -> None:
    """Raise `ArgumentError` for a function of expressions that is not elementwise."""
    columns = [pl.col(f"term {index}") for index in range(number)]
    result = function(*columns, **dict(parameters))
    if not isinstance(result, pl.Expr) or not is_elementwise(result):
        raise ArgumentError(
            f"{what} must return an elementwise expression, with one value per document; found "
            f"{short(function)}"
        )


@lru_cache(4096)
def _check_fold(function: nodes.Function, number: int, parameters: nodes.Parameters) -> None:
    names = [f"term {index}" for index in range(number)]
    others = {*function(*map(pl.col, names), **dict(parameters)).meta.root_names()} - {*names}
    if others:
        raise ArgumentError(
            f"a fold reads {sorted(others)}, which are not among its terms; pass them as terms"
        )
