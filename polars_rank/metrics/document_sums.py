"""Metrics that are sums over documents, in which labels count one document at a time.

In such a metric, the label of a document changes only the term of this document. The sum may be
divided by a constant or by a number that does not depend on labels, and added to other such sums.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.metrics.analyses import nodes, reads_labels, weighted
from polars_rank.metrics.expressions import conditional
from polars_rank.metrics.nodes import (
    Field,
    Function,
    Gain,
    Hits,
    MappedTerm,
    MappedValue,
    OfTies,
    Reduction,
    Relevant,
    Required,
    Term,
    UserExpression,
    Value,
)
from polars_rank.metrics.terms import quotient

_DIVIDES = "divides by a sum of labels"
#: Functions that are linear in some operands, and what is wrong with labels in the others.
LINEAR: Mapping[Function, Mapping[int, str]] = {
    operator.add: {},
    operator.sub: {},
    operator.neg: {},
    operator.truediv: {1: _DIVIDES},
    quotient: {1: _DIVIDES},
    conditional: {0: "has a condition that depends on labels"},
    pl.Expr.fill_null: {1: "replaces undefined values by a sum of labels"},
}

_EXTREMES = ("min", "max")
_OF_EXTREME = "reads one of several documents, which labels select"


class NotASumError(ArgumentError):
    """A metric is not a sum over documents; the message is a verb phrase."""


def with_document_terms(value: Value, change: Callable[[Term], Term]) -> Value:
    """Return a metric in which the terms of labels are changed, document by document.

    `change` is called with each term that depends on the label of its document, without the weight
    of the rank, and returns a term of numbers without nulls.

    Raises
    ------
    NotASumError
        If the metric is not a sum over documents of terms that depend on their own label.
    """
    if isinstance(value, UserExpression):
        raise NotASumError("is an expression, whose form is unknown")
    if not reads_labels(value):
        return value
    if isinstance(value, Reduction):
        return _changed_sum(value, change)
    if isinstance(value, Required):
        if reads_labels(value.condition):
            raise NotASumError("has a condition that depends on labels")
        return replace(value, value=with_document_terms(value.value, change))
    if isinstance(value, MappedValue):
        if value.function is conditional:  # a problem of the value says more than the condition
            for each in value.operands[1:]:
                with_document_terms(each, change)
        _check_linear(value)
        operands = tuple(with_document_terms(each, change) for each in value.operands)
        return replace(value, operands=operands)
    raise NotASumError("is a function of whole rankings")


def _check_linear(value: MappedValue) -> None:
    """Raise `NotASumError` unless a function is linear in the operands that depend on labels."""
    of_labels = [index for index, each in enumerate(value.operands) if reads_labels(each)]
    if value.function is operator.mul:
        if len(of_labels) > 1:
            raise NotASumError("multiplies sums of labels")
        return
    if value.function not in LINEAR:
        raise NotASumError("is a nonlinear function of a sum of labels")
    problems = LINEAR[value.function]
    for index in of_labels:
        if index in problems:
            reductions = (x for x in nodes(value.operands[index]) if isinstance(x, Reduction))
            of_extreme = any(x.how in _EXTREMES and reads_labels(x) for x in reductions)
            raise NotASumError(_OF_EXTREME if of_extreme else problems[index])


def _changed_sum(value: Reduction, change: Callable[[Term], Term]) -> Value:
    if value.order == "ideal":
        raise NotASumError("reads the ideal ranking, which depends on all labels")
    if isinstance(value.k, Value) and reads_labels(value.k):
        raise NotASumError("has a cutoff that depends on labels")
    if value.how in _EXTREMES:
        raise NotASumError(_OF_EXTREME)
    for node in nodes(value.term):
        if isinstance(node, (Hits, OfTies)) or node == Field("ideal_rank"):
            raise NotASumError("counts a document by the labels of other documents")
    term, weight = weighted(value.term, value.order)
    changed = change(term)
    # A count is the sum of a condition.
    return replace(value, how="sum", term=changed if weight is None else changed * weight)


def with_label(term: Term, label: Term, relevant: Callable[[float | None], Term]) -> Term:
    """Return a term that reads another label: a term of Float64, null if the label is unknown.

    `relevant` returns whether a document with this label is relevant, given the lowest relevant
    label of the term, or None.
    """
    match term:
        case Field("label"):
            return label
        case Field("judged"):
            return ~label.is_null()
        case Relevant(rel):
            return relevant(rel)
        case Gain(gain):
            return label.map(gain)
        case MappedTerm(operands=operands):
            changed = tuple(with_label(each, label, relevant) for each in operands)
            return replace(term, operands=changed)
    return term
