"""From the values of single lists to a result: what counts, as what, and how it adds up.

Every mean over lists is made here, whether the lists come from a log, a file of last month, or a
cluster.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError, RankWarning
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.metric import Aggregate

#: Names of columns → what they are of lists, and by which aggregation they are merged.
_Known: TypeAlias = "Mapping[str, tuple[pl.Expr, str]]"

#: Columns that say whether a list has judged documents, and retrieved ones.
PRESENCE = (OWN + "judged", OWN + "found")

#: How many documents of a list are retrieved: a column of `per_query`, and our own for it.
NUM_RETRIEVED, FOUND_DOCUMENTS = "num_retrieved", OWN + "found documents"

#: Columns that say whether a list of no known group has but judged documents, or others as well.
STRAY, UNKNOWN = OWN + "stray", OWN + "unknown"

#: Of a query, how many runs have it; of a list, whether it is the first of its query; lists.
_HAVING, _FIRST, _LISTS = OWN + "having", OWN + "first", OWN + "lists"
_QUERIES = OWN + "queries"

_JUDGED, _FOUND = map(pl.col, PRESENCE)

#: Which lists count.
COUNTED = {"judged": _JUDGED, "retrieved": _FOUND, "both": _JUDGED & _FOUND}


class Total(Protocol):
    """What the values of lists add up to; `parts` and `merged` have columns of the same names."""

    def parts(self) -> list[pl.Expr]:
        """Return numbers of some lists."""

    def merged(self) -> list[pl.Expr]:
        """Return the numbers of several sets of lists as those of one."""

    def undefined(self, number: pl.Expr) -> list[pl.Expr]:
        """Return the parts of so many lists that a run lacks."""

    def of_unit(self, clustered: pl.Expr) -> list[pl.Expr]:
        """Return the parts of lists that were sampled as one unit, where they were."""

    def finished(self) -> list[pl.Expr]:
        """Return columns of the result."""


@dataclass(frozen=True)
class Totals:
    """What the values of lists add up to in each group: of all at once, or part by part.

    Where not all lists count, they have the columns `PRESENCE`. With `runs`, of which `query` is
    the other keys, means of runs that are over different queries are aligned, or else it is said
    that they stand side by side; all lists of a query are then in one part. With `strays`, lists
    have the columns `STRAY` and `UNKNOWN`, and judged documents that count for no group are an
    error. With `label`, the column of labels that metrics read, lists have the first column of
    `PRESENCE`, and it is said in which groups no document has a label.

    With `cluster`, the lists that share its values were sampled as one unit; a list with nulls is
    a unit of its own. Parts then have a row per unit, so that those of one unit add up wherever
    its lists were evaluated.
    """

    totals: Sequence[Total]
    by: Sequence[str]
    conventions: Conventions
    runs: Sequence[str] = ()
    query: Sequence[str] = ()
    align: str | None = None
    strays: bool = False
    label: str | None = None
    cluster: Sequence[str] = ()
    #: What makes sure that the result can be believed.
    check: Callable[[pl.LazyFrame], pl.LazyFrame] | None = None

    def of(self, lists: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per group: how many lists there are, and what they add up to."""
        return self.finished(self.parts(lists))

    def parts(self, lists: pl.LazyFrame) -> pl.LazyFrame:
        """Return for each group numbers of some lists, to be merged with those of others."""
        if self.align == "common":
            lists = lists.with_columns(pl.len().over(self.query).alias(_HAVING))
        elif self.align == "all":
            first = pl.int_range(pl.len()).over(self.query) == 0
            lists = lists.with_columns(first.alias(_FIRST))
        values = [
            *(value.alias(name) for name, (value, _) in {**self._counts, **self._told}.items()),
            *(each for total in self.totals for each in total.parts()),
        ]
        return grouped(lists, self._keys, values)

    def merged(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the numbers of several sets of lists as those of one."""
        return self._merged(parts, self._keys)

    def finished(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the result, in sorted order of groups, from the numbers of all lists."""
        if self.align == "common":
            parts = parts.filter(pl.col(_HAVING) == pl.struct(self.runs).n_unique())
        elif self.align == "all":
            parts = self.merged(pl.concat([parts, self._lacking(parts)], how="diagonal_relaxed"))
        if self.cluster:
            clustered = pl.all_horizontal(pl.col(name).is_not_null() for name in self.cluster)
            units = [each for total in self.totals for each in total.of_unit(clustered)]
            parts = self._merged(parts.with_columns(units), self.by)
        flags: dict[str, pl.Expr] = {}
        if self.strays:
            # A group that nobody knows is one of its own if somebody found a document in it.
            flags[STRAY] = pl.col(STRAY) & ~pl.col(UNKNOWN)
        if self._compared:
            sketch = [pl.col(name) for name in self._told if name.startswith(_QUERIES)]
            flags[_QUERIES] = _overlapping(sketch, self._others)
        if self.label is not None:
            flags[PRESENCE[0]] = ~_JUDGED & (pl.col("queries") > 0)
        result = parts.select(
            *self.by,
            *self._counts,
            *(each for total in self.totals for each in total.finished()),
            *(flag.alias(name) for name, flag in flags.items()),
        )
        if flags:
            schema = {n: dtype for n, dtype in result.collect_schema().items() if n not in flags}
            result = result.map_batches(
                partial(_doubted, self.by, self.label), schema=schema, streamable=True
            )
        return result if self.check is None else self.check(result)

    @property
    def _keys(self) -> list[str]:
        return [*self.by, *self.cluster, *([_HAVING] if self.align == "common" else [])]

    @property
    def _others(self) -> list[str]:
        return [name for name in self.by if name not in self.runs]

    @property
    def _compared(self) -> bool:
        """Whether it is to be said which runs are over different queries."""
        return bool(self.runs) and self.align is None

    @property
    def _counts(self) -> _Known:
        if self.conventions.queries == "all":
            return {"queries": (pl.len(), "sum")}
        kinds = {
            "queries": COUNTED[self.conventions.queries],
            "queries_judged": _JUDGED,
            "queries_retrieved": _FOUND,
        }
        return {name: (kind.sum(), "sum") for name, kind in kinds.items()}

    @property
    def _told(self) -> _Known:
        """Return what else is to be known of a group."""
        told = {name: (pl.col(name).any(), "any") for name in (STRAY, UNKNOWN) if self.strays}
        if self.label is not None:
            told[PRESENCE[0]] = (_JUDGED.any(), "any")
        if self._compared:
            hashes = pl.struct(self.query).hash(0)
            if self.conventions.queries != "all":
                hashes = hashes.filter(COUNTED[self.conventions.queries])
            told |= _sketch(hashes)
        if self.align == "all":
            told |= {_FIRST: (pl.col(_FIRST).sum(), "sum"), _LISTS: (pl.len(), "sum")}
        return told

    def _merged(self, parts: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        values = [
            *(getattr(pl.col(n), how)() for n, (_, how) in {**self._counts, **self._told}.items()),
            *(each for total in self.totals for each in total.merged()),
        ]
        return grouped(parts, keys, values)

    def _lacking(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the numbers of the lists that runs lack, which count as undefined."""
        every = grouped(parts, [*self._others, *self.cluster], [pl.col(_FIRST).sum()])
        number = pl.col(_FIRST) - pl.col(_LISTS).fill_null(0)
        values = [number.alias("queries")]
        values += [each for total in self.totals for each in total.undefined(number)]
        return (
            parts.select(self.runs)
            .unique()
            .join(every, how="cross")
            .join(parts.select(*self._keys, _LISTS), on=self._keys, how="left", nulls_equal=True)
            .select(*self._keys, *(values if self.conventions.queries == "all" else ()))
        )


def grouped(lists: pl.LazyFrame, by: Sequence[str], values: Sequence[pl.Expr]) -> pl.LazyFrame:
    """Return one row per group in sorted order, or one row of all lists."""
    return lists.group_by(by).agg(values).sort(by) if by else lists.select(values)


def _sketch(hashes: pl.Expr) -> _Known:
    """Return what tells of two sets of queries whether they are the same, and whether they meet.

    The same queries in any order have the same sum of hashes. Those of which a good part is
    the same likely have one of several least numbers in common (Broder, On the resemblance and
    containment of documents, 1997).
    """
    factors = [(0x9E3779B97F4A7C15 * (2 * index + 1)) % 2**64 for index in range(16)]
    least = [(hashes * pl.lit(each, dtype=pl.UInt64)).min() for each in factors]
    known = [(hashes.sum(), "sum"), *((each, "min") for each in least)]
    return {f"{_QUERIES} {index}": each for index, each in enumerate(known)}


def _overlapping(sketch: Sequence[pl.Expr], others: Sequence[str]) -> pl.Expr:
    """Return whether the runs of the same other keys share queries, but not all of them."""
    beside = [*others, pl.col("queries").is_null()]
    shared = (part.n_unique().over(beside) < pl.len().over(beside) for part in sketch)
    return pl.any_horizontal(shared) & (sketch[0].n_unique().over(beside) > 1)


def warn_of_no_labels(label: str, groups: Sequence[Mapping[str, object]]) -> None:
    """Warn that in these groups no document has a label."""
    message = (
        f"no document has a label (column {label!r}), so that metrics are 0 or undefined: are the "
        f"labels missing, or were they joined by keys of other queries or documents? As in {groups}"
    )
    warnings.warn(message, RankWarning, stacklevel=2)


def _doubted(by: Sequence[str], label: str | None, groups: pl.DataFrame) -> pl.DataFrame:
    """Raise for judged documents of no group; warn of runs over other queries, and no labels."""

    def rows(flag: str) -> list[dict[str, object]]:
        if flag not in groups.columns:
            return []
        doubtful = groups.filter(pl.col(flag).fill_null(value=False))
        return doubtful.head(5).select(*by, "queries").to_dicts()

    if found := rows(STRAY):
        message = (
            f"null in {', '.join(map(repr, by))} (by) for judged documents that were not "
            f"retrieved, so that they count for no group: {found}; fill it in for all rows of a "
            "query, as pr.join_judgments does"
        )
        raise DataError(message)
    if found := rows(_QUERIES):
        message = (
            f"means of runs stand side by side that are over different queries, as in {found}; "
            "align='common' takes the queries that all runs have, align='all' counts those that "
            "a run lacks as undefined"
        )
        warnings.warn(message, RankWarning, stacklevel=2)
    if label is not None and (found := rows(PRESENCE[0])):
        warn_of_no_labels(label, found)
    return groups.drop(STRAY, _QUERIES, PRESENCE[0], strict=False)


def total(metric: pl.Expr, conventions: Conventions, weight: str | None = None) -> Total:
    """Return what the values of a metric add up to, in a column of its name."""
    return _Mean.of(metric, conventions, weight)


@dataclass(frozen=True)
class _Mean:
    """What the values of one metric add up to, be it their mean or their sum."""

    name: str
    kind: Aggregate
    value: pl.Expr
    weights: pl.Expr | None
    #: What an undefined value counts as, or "skip" or "null".
    counts_as: float | Undefined

    @classmethod
    def of(cls, metric: pl.Expr, conventions: Conventions, weight: str | None) -> _Mean:
        name = output_name(metric)
        value, weights = pl.col(name), None if weight is None else pl.col(weight).cast(pl.Float64)
        if conventions.queries != "all":
            counted = COUNTED[conventions.queries]
            value = value.filter(counted)
            weights = None if weights is None else weights.filter(counted)
        undefined = counted_as(metric, conventions)
        if isinstance(undefined, float):
            value = value.fill_null(undefined)
        kind = metric.aggregate if isinstance(metric, Metric) else "mean"
        return cls(name, kind, value, weights, undefined)

    def parts(self) -> list[pl.Expr]:
        value, weights = self.value, self.weights
        if weights is None:
            found = value.sum() if self.kind == "sum" else value.mean()
            weight = value.count()
        else:
            found, weight = (value * weights).sum(), weights.filter(value.is_not_null()).sum()
            found = found if self.kind == "sum" else ratio(found, weight)
        return self._columns(found, weight, value.null_count())

    def merged(self) -> list[pl.Expr]:
        value, weight, nulls = map(pl.col, self._names)
        found = value.sum() if self.kind == "sum" else weighted_mean(value, weight)
        return self._columns(found, weight.sum(), nulls.sum())

    def undefined(self, number: pl.Expr) -> list[pl.Expr]:
        if not isinstance(self.counts_as, float) or self.weights is not None:
            return self._columns(pl.lit(None, pl.Float64), number * 0, number)
        value = pl.lit(self.counts_as)
        return self._columns(value * number if self.kind == "sum" else value, number, number * 0)

    def of_unit(self, clustered: pl.Expr) -> list[pl.Expr]:  # noqa: ARG002  (a mean has no units)
        return []

    def finished(self) -> list[pl.Expr]:
        value, _, nulls = map(pl.col, self._names)
        value = value.exp() if self.kind == "geometric" else value
        if self.counts_as == "null":
            value = pl.when(nulls == 0).then(value)
        return [value.alias(self.name)]

    def _columns(self, *parts: pl.Expr) -> list[pl.Expr]:
        return [part.alias(name) for name, part in zip(self._names, parts, strict=True)]

    @property
    def _names(self) -> list[str]:
        """Of the mean of the values, or their sum; their weight; how many are undefined."""
        return [f"{OWN}{part} {self.name}" for part in ("value", "weight", "nulls")]


def weighted_mean(value: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """Return Σwx / Σw; null, not NaN, without weight."""
    return ratio((value * weight).sum(), weight.sum())


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole; null, not NaN, where the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)


def counted_as(metric: pl.Expr, conventions: Conventions) -> float | Undefined:
    """Return the value that an undefined one is replaced by, or "skip" or "null"."""
    undefined = conventions.counts_as(metric)
    if undefined not in ("zero", "one"):
        return undefined
    value = 1.0 if undefined == "one" else 0.0
    if isinstance(metric, Metric) and metric.aggregate == "geometric":  # of logarithms
        return math.log(max(value, metric.arguments.get("floor", 1e-5)))
    return value
