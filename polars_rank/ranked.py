"""The ranked table as metrics read it: its columns, and the few sums that metrics are made of.

A metric is an order-free expression over the columns below. Written on its own, it is just
that. Inside an evaluation, which holds the rows of each list in rank order, the same function
is called by `Lowering.lower`: per-row terms become columns that all metrics share, computed
once, and "at rank k or above" becomes the first k rows.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

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
#: The first and the last rank of the documents that are tied with this one.
TIE_FIRST = pl.col("__tie_first")
TIE_LAST = pl.col("__tie_last")


_LIST = "__list_"


@dataclass
class Lowering:
    """What the metrics of one evaluation share."""

    terms: list[pl.Expr] = field(default_factory=list)
    aggregates: list[pl.Expr] | None = field(default_factory=list)
    rules: dict[str, Callable[[pl.Expr], pl.Expr]] = field(default_factory=dict)
    cutoffs: list[Cutoff] = field(default_factory=list)
    whole_labels: bool = False
    expected: bool = False

    def column(self, term: pl.Expr) -> pl.Expr:
        """Register a per-row term and return the column that will hold it."""
        index = _index(term, self.terms)
        return Shared(self, f"__term_{index}", f"__full_{index}")

    def with_terms(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Add the columns that hold the registered terms, and the same without nulls to sum."""
        terms = [term.alias(f"__term_{index}") for index, term in enumerate(self.terms)]
        full = [
            pl.col(f"__term_{index}").fill_null(strategy="zero").alias(f"__full_{index}")
            for index in range(len(self.terms))
        ]
        return rows.with_columns(terms).with_columns(full)

    def aggregate(self, name: str, k: Cutoff, how: Literal["sum", "min", "max"]) -> pl.Expr:
        """Register an aggregate of the first k terms; return the column that will hold it."""
        if self.aggregates is None or isinstance(k, pl.Expr):
            return _aggregated(pl.col(name), k, how)
        # Of many sums in many lists, those over a column of lists take a fifth of the time.
        terms = pl.col(_LIST + name).list
        value = getattr(terms if k is None else terms.head(k).list, how)()
        return pl.col(f"__aggregate_{_index(value, self.aggregates)}")

    def lists(self) -> list[pl.Expr]:
        """Return the terms that aggregates read, as lists."""
        read = {name for value in self.aggregates or () for name in value.meta.root_names()}
        return [pl.col(name.removeprefix(_LIST)).alias(name) for name in sorted(read)]

    def aggregated(self) -> list[pl.Expr]:
        """Return the registered aggregates under their column names."""
        return [value.alias(f"__aggregate_{i}") for i, value in enumerate(self.aggregates or ())]

    def depth(self, metrics: Iterable[pl.Expr]) -> int | None:
        """Return the rank below which nothing is read; None if whole lists are."""
        # An expression that reads no column, such as `pl.len()`, counts all rows.
        read = [metric.meta.root_names() or ["rows"] for metric in metrics]
        shared = all(_is_shared(name) for names in read for name in names)
        # Hits are counted through whole lists.
        counted = any("hits" in term.meta.root_names() for term in self.terms)
        cutoffs = [k for k in self.cutoffs if isinstance(k, int)]
        whole = counted or not shared or len(cutoffs) < len(self.cutoffs)
        return None if whole or not cutoffs else max(cutoffs)

    def lower(self, build: Callable[[], pl.Expr]) -> pl.Expr:
        """Build a metric out of shared aggregates, or, if it also reads rows, of shared terms."""
        known = len(self.aggregates or ())
        token = _lowering.set(self)
        try:
            built = build()
            if all(map(is_aggregate, built.meta.root_names())):
                return built
            # Aggregates cannot stand beside rows: this metric aggregates by itself.
            del (self.aggregates or [])[known:]
            _lowering.set(replace(self, aggregates=None))
            return build()
        finally:
            _lowering.reset(token)


def is_aggregate(name: str) -> bool:
    """Return whether a column holds a shared aggregate."""
    return name.startswith("__aggregate_")


def _is_shared(name: str) -> bool:
    return name.startswith(("__aggregate_", "__term_", "__full_"))


class Shared(pl.Expr):
    """Terms of one evaluation, whose aggregates are shared as well."""

    def __init__(
        self, plan: Lowering, terms: str, full: str | None = None, k: Cutoff = None
    ) -> None:
        self._pyexpr = (pl.col(terms) if k is None else pl.col(terms).head(k))._pyexpr
        self._plan = plan
        self._terms = terms
        self._full = full or terms
        self._k = k

    def sum(self) -> pl.Expr:
        """Return the sum, computed once however often it is asked for."""
        # Of the terms with 0 for null: a sum that has no nulls to skip takes a third of the time.
        return self._plan.aggregate(self._full, self._k, "sum")

    def min(self) -> pl.Expr:
        """Return the least, computed once however often it is asked for."""
        return self._plan.aggregate(self._terms, self._k, "min")

    def max(self) -> pl.Expr:
        """Return the greatest, computed once however often it is asked for."""
        return self._plan.aggregate(self._terms, self._k, "max")

    def head(self, n: int | pl.Expr = 10) -> pl.Expr:
        """Return the first n terms."""
        return Shared(self._plan, self._terms, self._full, n)


def _aggregated(terms: pl.Expr, k: Cutoff, how: str) -> pl.Expr:
    value: pl.Expr = getattr(terms if k is None else terms.head(k), how)()
    return value


def _index(expression: pl.Expr, known: list[pl.Expr]) -> int:
    """Return where the expression stands in the list, which gets it if it is new."""
    for index, other in enumerate(known):
        if other.meta.eq(expression):
            return index
    known.append(expression)
    return len(known) - 1


_lowering: ContextVar[Lowering | None] = ContextVar("lowering", default=None)


def top(
    term: pl.Expr, k: Cutoff = None, weight: Callable[[pl.Expr], pl.Expr] | None = None
) -> pl.Expr:
    """Return `term` of the retrieved documents at rank k or above, times the rank's weight."""
    plan = _lowering.get()
    if plan is not None and plan.expected and (k is not None or weight is not None):
        return _expected_top(plan, term, k, weight)
    if weight is not None:
        term = term * weight(RANK)
    if plan is None:
        return term.filter(RETRIEVED if k is None else k >= RANK)
    plan.cutoffs.append(k)
    column = plan.column(pl.when(RETRIEVED).then(term))
    return column if k is None else column.head(k)


def _expected_top(
    plan: Lowering, term: pl.Expr, k: Cutoff, weight: Callable[[pl.Expr], pl.Expr] | None
) -> pl.Expr:
    """Return `term` times the mean weight of all ranks that the document may have."""
    plan.cutoffs.append(None)
    listed = plan.column(pl.when(RETRIEVED).then(term))
    ties = TIE_LAST - TIE_FIRST + 1
    if weight is None:
        return listed * (k - TIE_FIRST + 1).clip(0, ties) / ties
    counted = weight(POSITION)
    if k is not None:
        counted = pl.when(k >= POSITION).then(counted).otherwise(0.0)
    return listed * tied_sum(plan.column(counted)) / ties


def tied_sum(values: pl.Expr) -> pl.Expr:
    """Return the sum of values in rank order over the documents that are tied with each."""
    return above(values, TIE_LAST + 1) - above(values, TIE_FIRST)


def above(values: pl.Expr, rank: pl.Expr) -> pl.Expr:
    """Return the sum of values in rank order above a rank."""
    running = values.cast(pl.Float64).cum_sum()
    return pl.when(rank > 1).then(running.gather((rank - 2).clip(0))).otherwise(0.0)


def ideal_top(
    gain: Callable[[pl.Expr], pl.Expr], discount: Callable[[pl.Expr], pl.Expr], k: Cutoff = None
) -> pl.Expr:
    """Return gain x discount of the judged documents at ideal rank k or above."""
    plan = _lowering.get()
    if plan is None:
        term = gain(LABEL) * discount(IDEAL_RANK)
        return term.filter(JUDGED if k is None else k >= IDEAL_RANK)
    plan.cutoffs.append(k)
    column = plan.column(gain(IDEAL_LABEL) * discount(POSITION))
    return column if k is None else column.head(k)


def relevant(rel: float | None = None) -> pl.Expr:
    """Return whether a document is relevant: by the threshold of the call, or label >= rel."""
    return RELEVANT if rel is None else (rel <= LABEL).fill_null(value=False)


def each(term: pl.Expr) -> pl.Expr:
    """Return `term` of every document of the list, retrieved or not."""
    plan = _lowering.get()
    if plan is None:
        return term
    plan.cutoffs.append(None)
    return Shared(plan, term.meta.output_name()) if term.meta.is_column() else plan.column(term)


def number_relevant(rel: float | None = None) -> pl.Expr:
    """Return R, how many documents are relevant, retrieved or not."""
    return each(relevant(rel)).sum()


def at_hits(
    term: Callable[[pl.Expr, pl.Expr], pl.Expr], k: Cutoff = None, rel: float | None = None
) -> pl.Expr:
    """Return `term` of rank and hits at each relevant document at rank k or above."""
    if rel is None:
        return top(pl.when(RELEVANT).then(term(RANK, HITS)), k)
    ranks = top(pl.when(relevant(rel)).then(RANK), k).drop_nulls()
    return term(ranks, ranks.rank("ordinal"))


def in_order(term: pl.Expr) -> pl.Expr:
    """Return `term` in rank order, one row per document; null for those not retrieved."""
    listed = pl.when(RETRIEVED).then(term)
    plan = _lowering.get()
    if plan is None:
        return listed.sort_by(RANK, nulls_last=True)
    plan.cutoffs.append(None)
    return plan.column(listed)


def in_ideal_order(term: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> pl.Expr:
    """Return `term` of label and ideal rank in ideal order; those not judged come last."""
    plan = _lowering.get()
    if plan is None:
        return term(LABEL, IDEAL_RANK).sort_by(IDEAL_RANK, nulls_last=True)
    plan.cutoffs.append(None)
    return plan.column(term(IDEAL_LABEL, POSITION))


def is_whole(label: pl.Expr) -> bool:
    """Return whether these are labels that are known to be whole numbers."""
    plan = _lowering.get()
    return plan is not None and plan.whole_labels and label.meta.is_column()


def forbid(problem: str, condition: Callable[[pl.Expr], pl.Expr]) -> None:
    """Let an evaluation raise `DataError` for labels for which `condition` holds."""
    plan = _lowering.get()
    if plan is not None:
        plan.rules[problem] = condition
