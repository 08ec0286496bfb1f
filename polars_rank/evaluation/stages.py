"""What plans by rows and by columns share: facts of rankings, needs of metrics, running sums."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import polars as pl

from polars_rank._params import OWN
from polars_rank.metrics.analyses import columns_read, depth, reads_order, refusals
from polars_rank.metrics.nodes import Column, Elements, Function, Node, Reduction, Value

#: Columns that say whether a ranking has judged documents, how many are retrieved, and whether any
#: document is both.
JUDGED, RETRIEVED, MATCHED = OWN + "judged", OWN + "retrieved", OWN + "matched"
#: Column that says whether all retrieved documents have the same score; null for fewer than two.
TIED = OWN + "tied"

#: The scores of a ranking. Extremes of lists take a tenth of the time of those of groups.
_SCORES = pl.col("score").implode().list

#: The facts, as aggregations of rows under canonical names.
FACTS: dict[str, pl.Expr] = {
    JUDGED: pl.col("label").count() > 0,
    RETRIEVED: pl.col("score").count(),
    MATCHED: (pl.col("label").is_not_null() & pl.col("score").is_not_null()).any(),
    TIED: pl.when(pl.col("score").count() > 1).then(_SCORES.min() == _SCORES.max()),
}


#: Columns of one stage, which reads those of the stages before.
Stage: TypeAlias = dict[str, pl.Expr]


class Needs(NamedTuple):
    """What metrics read, and what their columns must be."""

    #: The number of documents that are read in order; None if all are.
    depth: int | None
    ordered: bool
    #: The labels that gains do not accept: messages and conditions.
    refused: Mapping[str, Callable[[pl.Expr], pl.Expr]]
    #: The columns of the user.
    columns: Sequence[Column]

    @classmethod
    def of(cls, values: Sequence[Value]) -> Needs:
        """Return the needs of values."""
        ordered = any(map(reads_order, values))
        return cls(depth(*values), ordered, refusals(*values), columns_read(*values))


def gain_of(gain: Function, label: pl.Expr, *, whole_labels: bool) -> pl.Expr:
    """Return the gain of a label, by a faster function if labels are integers."""
    faster = getattr(gain, "of_whole", None) if whole_labels else None
    worth: pl.Expr = gain(label.cast(pl.Float64)) if faster is None else faster(label)
    return worth


def complete(term: pl.Expr, how: str, among: pl.Expr | None) -> pl.Expr:
    """Return a term restricted to some documents, with nulls replaced where they have no effect.

    A sum over a column without nulls takes a third of the time.
    """
    if how == "count":
        return (term if among is None else term & among).fill_null(value=False)
    some = term if among is None else pl.when(among).then(term)
    return some.cast(pl.Float64).fill_null(0.0) if how == "sum" else some


def is_running(node: Node) -> TypeGuard[Reduction]:
    """Return whether a node is a sum down to a number of ranks."""
    return isinstance(node, Reduction) and isinstance(node.k, int) and node.how in {"sum", "count"}


def by_cutoffs(reductions: Iterable[Reduction]) -> list[list[Reduction]]:
    """Return reductions in groups: a cutoff that is a value reads those of the groups before."""
    groups: dict[int, list[Reduction]] = {}
    for each in reductions:
        groups.setdefault(_level(each), []).append(each)
    return [groups[level] for level in sorted(groups)]


@lru_cache(4096)
def _level(node: Node) -> int:
    level = max(map(_level, node.inputs), default=0)
    return level + (isinstance(node, Reduction) and isinstance(node.k, Value))


def name_of_sum(names: Mapping[Node, str], elements: Elements, k: Any) -> str:
    """Return the name of the column with a sum down to a cutoff."""
    return f"{names[elements]} to {k}"


def running_sums(
    sums: Iterable[tuple[Elements, Any]],
    names: Mapping[Node, str],
    part: Callable[[Elements, int, int], pl.Expr],
) -> list[Stage]:
    """Return a stage per cutoff: a sum is the sum down to the next smaller cutoff, plus a part.

    `part` returns the sum between two ranks.
    """
    cutoffs: dict[Elements, list[int]] = {}
    for elements, k in sorted(sums, key=lambda pair: pair[1]):
        cutoffs.setdefault(elements, []).append(k)
    stages: dict[int, Stage] = {k: {} for k in sorted({k for ks in cutoffs.values() for k in ks})}
    for elements, ks in cutoffs.items():
        for start, stop in zip([0, *ks], ks, strict=False):
            added = part(elements, start, stop)
            before = pl.col(name_of_sum(names, elements, start)) + added if start else added
            stages[stop][name_of_sum(names, elements, stop)] = before
    return [*stages.values()]
