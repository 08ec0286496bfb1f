"""Random metrics from `pr.terms`: terms, conditions, selections of documents, and values."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import polars as pl
from polars_rank import terms as t

# The nodes of which trees are made.
from polars_rank.metrics.nodes import Order, Term, Value


def above_zero_for_null(label: pl.Expr) -> pl.Expr:
    return label.fill_null(1) + 1


def constant(_: pl.Expr) -> pl.Expr:
    return pl.lit(2.0)


def infinite_at_3(rank: pl.Expr) -> pl.Expr:
    return 1 / (3 - rank)


def null_from_3(rank: pl.Expr) -> pl.Expr:
    return pl.when(rank < 3).then(1 / rank)


def rises(first: pl.Expr, second: pl.Expr) -> pl.Expr:
    return (first.diff() < second.diff()).sum() + 100 * first.len()


def weighted(values: pl.Expr) -> pl.Expr:
    return (values * pl.int_range(1, values.len() + 1)).sum()


def lists(documents: pl.Series) -> list[Any]:
    return documents.to_list()


def totals(rankings: list[Any]) -> pl.Series:
    values = [sum((row["a"] or 0.0) + 10 * bool(row["b"]) for row in rows) for rows in rankings]
    return pl.Series(values, dtype=pl.Float64)


GAINS = ("linear", "exp2", {0: 0, 1: 1, 2: 1.5, 3: 7, 4: 8}, above_zero_for_null, constant)
WEIGHTS = ("log2", "reciprocal", infinite_at_3, null_from_3)
CUTOFFS = (None, 1, 3, 100)


class Trees:
    """Trees that are the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def _one(self, *choices: Any) -> Any:
        """Return a choice, or the result of calling it."""
        chosen = self.random.choice(choices)
        return chosen() if callable(chosen) else chosen

    def _small(self) -> float:
        return float(self.random.randint(-2, 3))

    def _gain(self) -> Any:
        return self.random.choice(GAINS)

    def _reduced(self, selection: t.Selection) -> Value:
        reduce: Callable[[], Value] = getattr(selection, self._one("sum", "sum", "min", "max"))
        return reduce()

    def _leaf(self, order: Order) -> Term:
        of_labels = (t.LABEL, t.LABEL, t.IDEAL_RANK, lambda: t.gain(self._gain()))
        columns = (
            lambda: t.column("dwell"),
            lambda: t.column("share", kind="as is"),
            lambda: t.column("click", kind="count"),
        )
        if order == "ideal":
            return self._one(*of_labels)
        return self._one(*of_labels, t.RANK, t.RANK, t.RANK, t.SCORE, *columns)

    def number(self, order: Order, depth: int) -> Term:
        """Return a term of numbers."""
        if depth == 0:
            return self._leaf(order)
        one, other = self.number(order, depth - 1), self.number(order, depth - 1)
        some = self._one(self._small, other)
        condition = self.condition(order, depth - 1)
        return self._one(
            lambda: one + some, lambda: some - one, lambda: one * some, lambda: one / some,
            lambda: some / one, lambda: -one, lambda: one**2, lambda: one.clip(0, 3),
            lambda: one.clip(high=1), lambda: one.fill_null(some), one.floor, one.sqrt, one.log,
            lambda: t.where(condition, one), lambda: t.where(condition, one, some),
            lambda: t.where(condition, 1.0), lambda: t.least(one, some), lambda: t.most(one, some),
            lambda: condition * one, lambda: condition.cast(pl.Float64), lambda: one,
        )  # fmt: skip

    def condition(self, order: Order, depth: int) -> Term:
        """Return a term that is true, false or null."""
        if depth == 0:
            return t.JUDGED if order == "ideal" else self._one(t.RETRIEVED, t.JUDGED, t.relevant)
        number = self.number(order, depth - 1)
        some = self._one(self._small, self.number(order, depth - 1))
        one, other = self.condition(order, depth - 1), self.condition(order, depth - 1)
        return self._one(
            lambda: number > some, lambda: number <= some, number.is_null,
            lambda: number.equals(some), lambda: one & other, lambda: one | other, lambda: ~one,
            lambda: one.fill_null(True), lambda: t.relevant(2),
        )  # fmt: skip

    def count(self, depth: int) -> Value:
        """Return a count of documents."""
        return self._one(
            lambda: t.top(self.condition("rank", 2), self._cutoff(depth)).count(),
            lambda: t.each(self.condition("any", 2)).count(),
            t.num_relevant,
            lambda: t.num_retrieved(self.random.choice(CUTOFFS)),
            t.num_documents,
        )

    def _cutoff(self, depth: int) -> int | Value | None:
        if depth == 0 or self.random.random() < 0.5:
            return self.random.choice(CUTOFFS)
        return self._one(
            lambda: self.count(depth - 1), lambda: 2 - self.count(0),
            lambda: t.num_relevant() / 2, lambda: t.top(t.LABEL, 3).max(),
            lambda: t.ratio(6.0, t.num_relevant()),
        )  # fmt: skip

    def _reduction(self, depth: int) -> Value:
        weight, k = self.random.choice((None, *WEIGHTS)), self.random.choice(CUTOFFS)
        selection = self._one(
            lambda: t.top(self.number("rank", 2), self._cutoff(depth), weight),
            lambda: t.top(self.number("rank", 1), self._cutoff(depth), weight),
            lambda: t.top(self.condition("rank", 1), self._cutoff(depth)),
            lambda: t.top(2.0, self._cutoff(depth)),
            lambda: t.at_hits(lambda rank, hits: hits / rank + self.number("rank", 1), k),
            lambda: t.ideal_top(self._gain(), weight or "log2", self._cutoff(depth)),
            lambda: t.each(self.number("any", 2)),
            lambda: t.each(self.condition("any", 1)),
            lambda: t.each(1.5),
            lambda: t.each(t.column("dwell") + t.column("click", kind="count")),
        )
        return self._reduced(selection)

    def _fold(self) -> Value:
        k = self.random.choice(CUTOFFS)
        return self._one(
            lambda: t.fold(rises, *(t.in_order(self.number("rank", 1), k) for _ in range(2))),
            lambda: t.fold(weighted, t.in_ideal_order(self.number("ideal", 1))),
            lambda: t.fold(pl.Expr.sum, t.in_any_order(self.number("any", 1))),
            lambda: t.fold(pl.Expr.mean, t.in_any_order(self.condition("any", 1))),
            lambda: t.fold(pl.Expr.sum, self.random.choice((t.in_any_order, t.in_order))(1.0)),
            lambda: t.batch(totals, lists, a=self.number("any", 1), b=self.condition("any", 1)),
        )

    def value(self, depth: int = 2) -> Value:
        """Return a metric."""
        if depth == 0 or self.random.random() < 0.2:
            if self.random.random() < 0.1:
                return self._fold()
            return self._one(lambda: self._reduction(depth), lambda: self.count(depth))
        one, other = self.value(depth - 1), self.value(depth - 1)
        some = self._one(self._small, lambda: other)
        condition = self._one(
            lambda: self.count(0) > 1, one.is_null, lambda: self.count(0).equals(self.count(0))
        )
        return self._one(
            lambda: one + some, lambda: one - some, lambda: one * some,
            lambda: t.ratio(one, self.count(0)), lambda: t.ratio(1.0, self.count(0)),
            lambda: t.where(condition, one), lambda: t.where(condition, one, some),
            lambda: t.least(one, some), lambda: t.most(one, some), lambda: one.fill_null(0),
            lambda: one.clip(0, 5),
        )  # fmt: skip
