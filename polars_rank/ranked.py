"""The ranked table as metrics read it: its columns, and the few sums that metrics are made of.

A metric is an order-free expression over the columns below. Written on its own, it is just
that. Inside an evaluation, which holds the rows of each list in rank order, the same function
is called under `lowering()`: per-row terms become columns that all metrics share, computed
once, and "at rank k or above" becomes the first k rows.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A cutoff: a number of ranks, an expression for one (such as R), or None for the whole list.
Cutoff: TypeAlias = "int | pl.Expr | None"

SCORE = pl.col("score")
LABEL = pl.col("label")
RANK = pl.col("rank")
IDEAL_RANK = pl.col("ideal_rank")
RELEVANT = pl.col("relevant")
HITS = pl.col("hits")

RETRIEVED = RANK.is_not_null()
JUDGED = LABEL.is_not_null()

#: Inside an evaluation: the row's position in its list, and the label of that ideal rank.
POSITION = pl.col("__position")
IDEAL_LABEL = pl.col("__ideal_label")


@dataclass
class Lowering:
    """What the metrics of one evaluation share."""

    terms: list[pl.Expr] = field(default_factory=list)
    rules: dict[str, Callable[[pl.Expr], pl.Expr]] = field(default_factory=dict)

    def column(self, term: pl.Expr) -> pl.Expr:
        """Register a per-row term and return the column that will hold it."""
        for index, known in enumerate(self.terms):
            if known.meta.eq(term):
                return pl.col(f"__term_{index}")
        self.terms.append(term)
        return pl.col(f"__term_{len(self.terms) - 1}")

    def columns(self) -> list[pl.Expr]:
        """Return the registered terms under their column names."""
        return [term.alias(f"__term_{index}") for index, term in enumerate(self.terms)]


_lowering: ContextVar[Lowering | None] = ContextVar("lowering", default=None)


@contextmanager
def lowering() -> Iterator[Lowering]:
    """Collect the shared terms and the rules of the metrics built inside the block."""
    plan = Lowering()
    token = _lowering.set(plan)
    try:
        yield plan
    finally:
        _lowering.reset(token)


def top(term: pl.Expr, k: Cutoff = None) -> pl.Expr:
    """Return `term` of the retrieved documents at rank k or above."""
    plan = _lowering.get()
    if plan is None:
        return term.filter(RETRIEVED if k is None else RANK <= k)
    column = plan.column(pl.when(RETRIEVED).then(term))
    return column if k is None else column.head(k)


def ideal_top(gain: Callable[[pl.Expr], pl.Expr], discount: Callable[[pl.Expr], pl.Expr],
              k: Cutoff = None) -> pl.Expr:
    """Return gain x discount of the judged documents at ideal rank k or above."""
    plan = _lowering.get()
    if plan is None:
        term = gain(LABEL) * discount(IDEAL_RANK)
        return term.filter(JUDGED if k is None else IDEAL_RANK <= k)
    column = plan.column(gain(IDEAL_LABEL) * discount(POSITION))
    return column if k is None else column.head(k)


def forbid(problem: str, condition: Callable[[pl.Expr], pl.Expr]) -> None:
    """Let an evaluation raise `DataError` for labels for which `condition` holds."""
    plan = _lowering.get()
    if plan is not None:
        plan.rules[problem] = condition
