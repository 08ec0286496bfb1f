"""Terms in an evaluation: columns that many metrics share, each computed once.

The rows of each ranking are in rank order, with the labels in ideal order in another column. A term
becomes a column of these rows. Columns to be summed are aggregated into one list per ranking: for
many metrics and rankings, sums over a column of lists take a fifth of the time.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.discounts import Discount
from polars_rank.gains import Gain
from polars_rank.metrics.terms import (
    RELEVANT,
    RETRIEVED,
    SCORE,
    Cutoff,
    How,
    Listed,
    Source,
    Term,
    Terms,
    Value,
    reads_order,
    reduced,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
    from typing import Any

#: The position of the row in its ranking, from 1: the rank, if the document is retrieved.
POSITION = pl.col(OWN + "position").cast(pl.Float64)
#: The label of the document, of the type in the log.
ROW_LABEL = pl.col("label")
#: The label at this position of the ideal ranking.
IDEAL_LABEL = pl.col(OWN + "ideal label")
#: Whether the row is a document: an empty ranking has one row that is not.
DOCUMENT = pl.col(OWN + "document")
#: The first and the last position of the documents tied with this document.
TIE_FIRST = pl.col(OWN + "tie first").cast(pl.Float64)
TIE_LAST = pl.col(OWN + "tie last").cast(pl.Float64)
#: The rows of the table with the first and the last of the documents tied with this document.
TIE_BEGIN, TIE_END = pl.col(OWN + "tie begin"), pl.col(OWN + "tie end")
#: The row of the document that has this document's place if tied documents are in reverse order.
TIE_REVERSE = pl.col(OWN + "tie reverse")
#: The columns that the ranked rows need for these expressions.
TIED = {OWN + "tie " + name for name in ("first", "last", "begin", "end", "reverse")}


#: The message if two documents of a ranking have the same position.
_SEVERAL = (
    "a position occurs twice in a ranking; add the columns that identify a ranking, such as the "
    "session, to `query`"
)


class Register(dict[str, pl.Expr]):
    """Expressions by the names of their columns, in the order in which they were added."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind
        self._alike: dict[str, list[str]] = {}

    def add(self, expression: pl.Expr) -> pl.Expr:
        """Return the column that holds the expression."""
        alike = self._alike.setdefault(str(expression), [])
        name = next((name for name in alike if self[name].meta.eq(expression)), None)
        if name is None:
            name = f"{OWN}{self._kind} {len(self)}"
            alike.append(name)
            self[name] = expression
        return pl.col(name)


class PlanTerms(Terms):
    """Terms of many metrics in one plan.

    The plan computes columns in this order: `blocks`, one value per block of tied documents, which
    each of them gets; `rows_of`, one value per document; `folds` over the
    rows of a ranking; the columns in `gathered` as lists; `items`, which are the same for all
    rankings; `sums` over these lists; and `late`, sums whose cutoff is itself a sum. Values are
    expressions over the folds, the items and the sums.
    """

    def __init__(
        self,
        *,
        whole_labels: bool,
        placed: bool = False,
        text_ids: bool = False,
        attributes: Collection[str] = (),
    ) -> None:
        self.blocks = Register("block")
        self.rows_of = Register("row")
        self.folds = Register("fold")
        #: Aggregations of `items`, which every ranking gets.
        self.items = Register("items")
        self.sums = Register("sum")
        self.late = Register("late")
        self.gathered: dict[str, None] = {}
        #: The names of the columns of hits, by the lowest relevant label.
        self.hits: dict[float | None, str] = {}
        self.refused: dict[str, Callable[[pl.Expr], pl.Expr]] = {}
        #: The conditions that must hold for every ranking, by the message if one does not.
        self.required: dict[str, pl.Expr] = {}
        #: The parameters that name columns of numbers of 0 or more, by column.
        self.signals: dict[str, str] = {}
        #: Those of these columns that must be whole.
        self.counts: set[str] = set()
        #: The highest valid numbers of these columns, if they have one.
        self.highest: dict[str, float] = {}
        self.cutoffs: list[Cutoff] = []
        #: The columns of the sums of a column of rows, by the cutoff.
        self._sums_of: dict[str, dict[int, str]] = {}
        #: The values that are computed for many rankings at once, by their source: the column with
        #: a list of values per ranking, and the function of each value.
        self._batches: dict[Hashable, tuple[pl.Expr, list[Callable[..., pl.Series]]]] = {}
        #: The names of orders that terms depend on; if empty, rankings need not be sorted.
        self.ordered: list[str] = []
        self._whole_labels = whole_labels
        #: Whether documents are ranked by the positions at which they were shown.
        self._placed = placed
        #: Whether document ids are compared as text.
        self._text_ids = text_ids
        #: The columns of `items`.
        self._attributes = attributes

    @property
    def depth(self) -> int | None:
        """The largest cutoff; None if a term reads whole rankings."""
        known = [k for k in self.cutoffs if isinstance(k, int)]
        return max(known) if known and len(known) == len(self.cutoffs) else None

    def read(self) -> set[str]:
        """Return the columns of the ranked rows that are read."""
        registers = (self.blocks, self.rows_of, self.folds)
        parts = [part for register in registers for part in register.values()]
        read = {name for part in parts for name in part.meta.root_names()} | self.gathered.keys()
        return read - self.blocks.keys() - self.rows_of.keys()

    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Return the term of the first k rows, which are in rank order."""
        if k is not None or weight is not None:
            self.ordered.append("ranks")
        return self._term(term if weight is None else term * weight(POSITION), k, RETRIEVED)

    def at_hits(
        self,
        term: Callable[[pl.Expr, pl.Expr], pl.Expr],
        k: int | None = None,
        rel: float | None = None,
    ) -> Term:
        """Return the term of ranks and of the column of hits."""
        hits = self.hits_column(rel).cast(pl.Float64)
        return self._term(term(POSITION, hits), k, self.relevant(rel) & RETRIEVED)

    def hits_column(self, rel: float | None) -> pl.Expr:
        """Return the running count of hits."""
        self.cutoffs.append(None)  # hits are counted in whole rankings
        self.ordered.append("hits")
        return pl.col(self.hits.setdefault(rel, f"{OWN}hits {len(self.hits)}"))

    def ideal_top(self, gain: Gain, discount: Discount, k: Cutoff = None) -> Term:
        """Return gain times discount of the first k rows of the ideal ranking."""
        self.ordered.append("ideal ranks")
        return self._term(self.gain(gain, IDEAL_LABEL) * discount(POSITION), k)

    def each(self, term: pl.Expr) -> Term:
        """Return the term of all rows."""
        return self._term(term, None)

    def of_items(self, term: pl.Expr) -> Term:
        """Return the term of all rows of `items` if it has the columns."""
        if not {*term.meta.root_names()} <= {*self._attributes}:
            return super().of_items(term)
        return Term(lambda how: Value(self.items.add(reduced(term, how))))

    def rows(self) -> Value:
        """Count the rows that are documents."""
        return self._term(DOCUMENT, None).number()

    def gain(self, gain: Gain, label: pl.Expr = ROW_LABEL) -> pl.Expr:
        """Apply the gain to a label, and add checks for labels that it rejects."""
        self.refused.update(getattr(gain, "refuses", {}))
        faster: Gain | None = getattr(gain, "of_whole", None) if self._whole_labels else None
        worth: pl.Expr = gain(label.cast(pl.Float64)) if faster is None else faster(label)
        return worth

    def in_ideal_order(self, term: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Listed:
        """Return the term of the labels in ideal order."""
        place = pl.when(IDEAL_LABEL.is_not_null()).then(POSITION)
        return Listed(term(IDEAL_LABEL.cast(pl.Float64), place), "ideal_rank")

    def require(self, condition: Value, problem: str) -> None:
        """Add the condition to the conditions that every ranking must meet."""
        self.required[problem] = condition.expr

    def signal(
        self, parameter: str, column: str, *, high: float | None = None, whole: bool = False
    ) -> pl.Expr:
        """Return the column as numbers, and add it to the columns that are checked."""
        self.signals[column] = parameter
        if whole:
            self.counts.add(column)
        if high is not None:
            self.highest[column] = high
        return super().signal(parameter, column)

    def doc(self) -> pl.Expr:
        """Return the id of each document, as text if ids are compared as text."""
        return super().doc().cast(pl.String) if self._text_ids else super().doc()

    def require_one_list(self) -> None:
        """Add the condition that no two documents of a ranking have the same position."""
        if self._placed:
            once = self.fold(_is_unique, self.in_any_order(SCORE))
            self.require(once, _SEVERAL)

    def tied(self) -> Value:
        """Count the documents whose ties begin and end at different positions."""
        return self._term(TIE_LAST > TIE_FIRST, None, RETRIEVED).number()

    def of_batch(self, compute: Callable[..., pl.Series], source: Source) -> Value:
        """Compute the value together with others from equal sources."""
        lists = source.lists(self._column)
        key = source.read, source.parameters, str(lists)
        if key not in self._batches:
            functions: list[Callable[..., pl.Series]] = []
            values = lists.map_batches(
                partial(_of_batch, functions, source.read, *source.parameters),
                return_dtype=pl.List(pl.Float64),
                is_elementwise=True,
                returns_scalar=True,
            )
            self._batches[key] = self._folded(values).expr, functions
        column, functions = self._batches[key]
        if compute not in functions:
            functions.append(compute)
        return Value(column.list.get(functions.index(compute)))

    def fold(self, function: Callable[..., pl.Expr], *terms: Listed, k: int | None = None) -> Value:
        """Aggregate the rows of each ranking, which are in rank order."""
        self.ordered += [term.by for term in terms if term.by != "any"]
        return self._folded(function(*(self._column(self._sequence(term)) for term in terms)), k)

    def own(self, expression: pl.Expr) -> Value:
        """Aggregate a user's expression over the rows of each ranking."""
        self.ordered.append("rows")
        return self._folded(expression)

    def _sequence(self, term: Listed) -> pl.Expr:
        return pl.when(RETRIEVED).then(term.expr) if term.by == "rank" else term.expr

    def _folded(self, value: pl.Expr, k: int | None = None) -> Value:
        self.cutoffs.append(k)
        return Value(self.folds.add(value))

    def _column(self, term: pl.Expr) -> pl.Expr:
        places = [name for name in term.meta.root_names() if name.startswith(OWN)]
        if places or reads_order(term):
            self.ordered += places or ["ranks"]
        return term if term.meta.is_column() else self.rows_of.add(term)

    def _term(self, term: pl.Expr, k: Cutoff, among: pl.Expr | None = None) -> Term:
        return Term(partial(self._reduced, term, k, among))

    def _reduced(self, term: pl.Expr, k: Cutoff, among: pl.Expr | None, how: How) -> Value:
        """Return the sum, count or extreme of a term over the first k rows of each ranking."""
        self.cutoffs.append(k)
        name = self._column(complete(term, how, among)).meta.output_name()
        self.gathered[name] = None
        terms = pl.col(name).list
        if isinstance(k, Value):
            first = terms.head(k.expr.cast(pl.Int64))
            return Value(self.late.add(reduced(first.list, how)))
        if k is None or how in ("min", "max"):
            some = terms if k is None else terms.head(k).list
            return Value(self.sums.add(reduced(some, how)))
        return self._summed(name, k)

    def _summed(self, name: str, k: int) -> Value:
        """Return the sum of a term down to a cutoff."""
        sums = self._sums_of.setdefault(name, {})
        return Value(pl.col(sums.setdefault(k, f"{OWN}sum of {name} at {k}")))

    def layers(self) -> Iterable[Mapping[str, pl.Expr]]:
        """Return the columns of each stage after the lists are gathered.

        A sum down to a cutoff is added to the sum down to the next smaller cutoff.
        """
        yield self.sums
        begun: dict[str, int] = {}
        for cutoff in sorted({k for sums in self._sums_of.values() for k in sums}):
            layer = {}
            for name, sums in self._sums_of.items():
                if cutoff in sums:
                    start = begun.get(name, 0)
                    part = self._part(name, start, cutoff)
                    layer[sums[cutoff]] = pl.col(sums[start]) + part if start else part
                    begun[name] = cutoff
            yield layer
        yield self.late

    def _part(self, name: str, start: int, stop: int) -> pl.Expr:
        """Return the sum of a term between two ranks."""
        values = pl.col(name).list
        if stop - start == 1:
            return values.get(start, null_on_oob=True).cast(pl.Float64).fill_null(0.0)
        whole = start == 0 and stop == self.depth  # rankings end at the largest cutoff
        return reduced(values if whole else values.slice(start, stop - start).list, "sum")


def _of_batch(
    functions: Sequence[Callable[..., pl.Series]], read: Callable[..., Any], *parameters: Any
) -> pl.Series:
    """Return the values of each ranking as a list; the last parameter is the column of lists."""
    batch = read(*parameters)
    values = [function(batch).alias(str(index)) for index, function in enumerate(functions)]
    lists = pl.DataFrame(values).select(pl.concat_list(pl.all())).to_series()
    return lists.alias(parameters[-1].name)


def _is_unique(values: pl.Expr) -> pl.Expr:
    known = values.drop_nulls()
    return known.n_unique() == known.len()


def complete(term: pl.Expr, how: How, among: pl.Expr | None) -> pl.Expr:
    """Return a term restricted to some documents, with nulls replaced where they have no effect.

    A sum over a column without nulls takes a third of the time.
    """
    if how == "count":
        if among is not None:
            return (term & among).fill_null(value=False)
        return term if term.meta.eq(RELEVANT) else term.fill_null(value=False)
    some = term if among is None else pl.when(among).then(term)
    return some.cast(pl.Float64).fill_null(0.0) if how == "sum" else some
