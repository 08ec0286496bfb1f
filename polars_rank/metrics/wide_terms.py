"""Terms of short rankings: one row per ranking, one column per position.

A term becomes one column per position in rank order, such as `label 0`, `label 1`, .... A sum over
documents is a sum over columns, and every metric is an elementwise expression.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import TYPE_CHECKING, Any, NoReturn, cast

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import renamed
from polars_rank.columns import is_relevant
from polars_rank.metrics.plan_terms import IDEAL_LABEL, PlanTerms, complete
from polars_rank.metrics.terms import RELEVANT, RETRIEVED, Cutoff, How, Term, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from polars_rank.discounts import Discount
    from polars_rank.gains import Gain

#: The label at a position, and the label at a position if the document is retrieved.
LABEL, RETRIEVED_LABEL = "label", OWN + "retrieved label"
#: The label at a position of the ideal order.
IDEAL = IDEAL_LABEL.meta.output_name()
#: The rank at a position, null if the document is not retrieved; whether a document is there.
RANK, HERE = "rank", OWN + "here"

#: The length of the longest ranking supported: conditions are counted as UInt8.
LONGEST = 64


class NotWideError(Exception):
    """A metric needs more than the label and the rank at each position."""


def _not_wide(*_: object, **__: object) -> NoReturn:
    raise NotWideError


class WideTerms(PlanTerms):
    """Terms that many metrics share, as one column per position."""

    def __init__(self, length: int, lowest: float, *, whole_labels: bool, placed: bool) -> None:
        super().__init__(whole_labels=whole_labels, placed=placed)
        self.length = length
        #: The lowest relevant label.
        self.lowest = lowest
        #: The names of columns of relevance, by the lowest relevant label and the column of labels.
        self._relevant: dict[tuple[float | None, str], str] = {}
        #: The names of columns of hits, by the column of relevance.
        self._hits: dict[str, str] = {}
        #: The columns of each sum, one per position.
        self._cells: dict[str, Sequence[pl.Expr]] = {}

    def layers(self) -> Iterable[Mapping[str, pl.Expr]]:
        """Return the columns of each stage."""
        positions = range(self.length)
        yield {
            at(name, i): is_relevant(pl.col(at(label, i)), self.lowest if rel is None else rel)
            for (rel, label), name in self._relevant.items()
            for i in positions
        }
        yield {
            at(name, i): renamed(term, {each: at(each, i) for each in term.meta.root_names()})
            for name, term in self.rows_of.items()
            for i in positions
        }
        for i in positions:
            yield {
                at(hits, i): pl.col(at(hits, i - 1)) + pl.col(at(name, i))
                if i
                else pl.col(at(name, 0)).cast(pl.UInt8)
                for name, hits in self._hits.items()
            }
        yield from super().layers()

    def _part(self, name: str, start: int, stop: int) -> pl.Expr:
        """Return the sum of the columns between two positions."""
        return reduce(pl.Expr.__add__, self._cells[name][start:stop])

    def relevant(self, rel: float | None = None) -> pl.Expr:
        """Return whether the document is relevant."""
        return pl.col(self._relevant_column(rel, LABEL))

    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Return the term of the first k positions."""
        if RELEVANT.meta.output_name() in term.meta.root_names():
            raise NotWideError
        known = {name: name for name in term.meta.root_names()} | {LABEL: RETRIEVED_LABEL}
        known |= {
            name: self._relevant_column(rel, RETRIEVED_LABEL)
            for (rel, label), name in [*self._relevant.items()]
            if label == LABEL and name in known
        }
        term = renamed(term, {name: known[name] for name in term.meta.root_names()})
        return self._weighted(term, k, RETRIEVED, weight)

    def at_hits(
        self,
        term: Callable[[pl.Expr, pl.Expr], pl.Expr],
        k: int | None = None,
        rel: float | None = None,
    ) -> Term:
        """Return the term of ranks and of the columns of hits."""
        name = self._relevant_column(rel, RETRIEVED_LABEL)
        hits = self._hits.setdefault(name, f"{name} hits")

        def value(how: How) -> Value:
            cells = [
                complete(
                    term(pl.lit(i + 1.0), pl.col(at(hits, i)).cast(pl.Float64)),
                    how,
                    pl.col(at(name, i)),
                )
                for i in range(self.length)
            ]
            return self._cell_value(
                cells, f"{term(pl.col(RANK), pl.col('hits'))} of {name}", k, how
            )

        return Term(value)

    def ideal_top(self, gain: Gain, discount: Discount, k: Cutoff = None) -> Term:
        """Return gain times discount of the first k positions in ideal order."""
        return self._weighted(self.gain(gain, IDEAL_LABEL), k, pl.col(HERE), discount)

    def each(self, term: pl.Expr) -> Term:
        """Return the term of all positions of the ranking."""
        return self._weighted(term, None, pl.col(HERE), None)

    # These operations need whole rankings, scores, or other columns of the log.
    rows = tied = fold = of_batch = own = require = signal = lists = doc = cast("Any", _not_wide)
    hits_column = cast("Any", _not_wide)

    def _relevant_column(self, rel: float | None, label: str) -> str:
        return self._relevant.setdefault((rel, label), f"{OWN}relevant {len(self._relevant)}")

    def _is_neutral(self, term: pl.Expr, how: How) -> bool:
        """Return whether a position without a document has no effect on the reduced term."""
        empty = dict.fromkeys((LABEL, RETRIEVED_LABEL, RANK, IDEAL), None)
        no_document = pl.DataFrame({**empty, **dict.fromkeys(self._conditions, False)})
        value = no_document.cast(dict.fromkeys(empty, pl.Int64)).select(term).item()
        return value is None or (how in ("sum", "count") and not value)

    @property
    def _conditions(self) -> list[str]:
        """The names of Boolean columns."""
        return [*self._relevant.values(), HERE]

    def _name(self, term: pl.Expr) -> str:
        """Return the name of a term's columns, without the position."""
        column = term if term.meta.is_column() else self.rows_of.add(term)
        return column.meta.output_name()

    def _term(self, term: pl.Expr, k: Cutoff, among: pl.Expr | None = None) -> Term:
        return self._weighted(term, k, among, None)

    def _weighted(
        self,
        term: pl.Expr,
        k: Cutoff,
        among: pl.Expr | None,
        weight: Callable[[pl.Expr], pl.Expr] | None,
    ) -> Term:
        known = {LABEL, RETRIEVED_LABEL, RANK, IDEAL, *self._conditions}
        if not {*term.meta.root_names()} <= known:
            raise NotWideError

        def value(how: How) -> Value:
            some = None if self._is_neutral(term, how) else among
            name = self._name(complete(term, how, some))
            cells = [pl.col(at(name, i)) for i in range(self.length)]
            if weight is None:
                return self._cell_value(cells, name, k, how)
            ranks = pl.lit(pl.Series("rank", range(1, self.length + 1), pl.Float64))
            weights = pl.select(weight(ranks).cast(pl.Float64)).to_series()
            if how == "sum":
                weights = weights.fill_null(0.0)
            cells = [cell * each for cell, each in zip(cells, weights, strict=True)]
            return self._cell_value(cells, f"{name} times {weights.to_list()}", k, how)

        return Term(value)

    def _cell_value(self, cells: Sequence[pl.Expr], key: str, k: Cutoff, how: How) -> Value:
        """Return the sum, count or extreme of the columns down to a cutoff."""
        if isinstance(k, Value):
            depth = k.expr.cast(pl.Int64)
            cells = [pl.when(depth > i).then(cell) for i, cell in enumerate(cells)]
            if how in ("sum", "count"):
                cells = [cell.cast(pl.Float64).fill_null(0.0) for cell in cells]
                return Value(self.late.add(reduce(pl.Expr.__add__, cells)))
        cutoff = min(k, self.length) if isinstance(k, int) else self.length
        if how in ("min", "max"):
            # Columns without nulls are compared several times faster.
            none = math.inf if how == "min" else -math.inf
            extreme = pl.min_horizontal if how == "min" else pl.max_horizontal
            cells = [cell.cast(pl.Float64).fill_null(none) for cell in cells[:cutoff]]
            found = self.late.add(extreme(cells))
            return Value(pl.when(found != none).then(found))
        if how == "count":
            cells = [cell.cast(pl.UInt8) for cell in cells]
        self._cells[f"{how} {key}"] = cells
        return Value(self._summed(f"{how} {key}", cutoff).expr.cast(pl.Float64))


def at(name: str, position: int) -> str:
    """Return the name of a term's column at a position, counted from 0."""
    return f"{name} {position}"
