"""From the long table to one row per list: the lazy plan behind every evaluation.

Each list is sorted once, with the columns it needs and no others. The lists in rank order are
exploded into the ranked rows; the terms that metrics share become columns of them; and those are
gathered once more, per list, to be summed. All of it streams in flat memory where the lists come
in order, for a group that has passed is never looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_number, check_there, check_values, one_of
from polars_rank._progress import known_rows, watch
from polars_rank.errors import ArgumentError, SchemaError, hint
from polars_rank.evaluation.aggregation import FOUND_DOCUMENTS, PRESENCE, STRAY, UNKNOWN
from polars_rank.evaluation.checks import VARIES, doubts, fault, faults, raise_for_faults, rules
from polars_rank.evaluation.contiguity import Lists
from polars_rank.evaluation.ranking import (
    DUPLICATES,
    RANKED,
    Duplicates,
    best_of_each,
    is_relevant,
    rank_order,
)
from polars_rank.metrics.expected_terms import Expected, expectation
from polars_rank.metrics.metric import Metric, made_of
from polars_rank.metrics.names import metric as read_metric
from polars_rank.metrics.names import output_name
from polars_rank.metrics.plan_terms import TIED, Shared, as_list
from polars_rank.metrics.signals import negative
from polars_rank.metrics.terms import RETRIEVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.columns import Columns
    from polars_rank.conventions import Conventions
    from polars_rank.evaluation.ranking import Ties


#: The largest number of 32-bit floats.
_LARGEST_32 = (2 - 2**-23) * 2.0**127

_LABEL, _SCORE = pl.col("label"), pl.col("score")
_ROW, _ROWS, _PLACE = OWN + "row", OWN + "rows", OWN + "position"
_IDEAL, _RETRIEVED = OWN + "ideal label", OWN + "retrieved"
_DOCUMENT = OWN + "document"


class Wanted(NamedTuple):
    """A metric, and the conventions by which it is to be evaluated."""

    metric: pl.Expr
    conventions: Conventions


def per_list(
    log: pl.LazyFrame,
    wanted: Sequence[Wanted],
    columns: Columns,
    keep: Sequence[str],
    *,
    constant: Sequence[str] = (),
    forbidden: Mapping[str, pl.Expr] | None = None,
    duplicates: Duplicates,
    told: Sequence[str] = (),
    progress: bool,
) -> pl.LazyFrame:
    """Evaluate all lists, once for each order of documents that is asked for.

    The result has the columns `told`, such as `PRESENCE`, the key columns in `keep`, those in
    `constant`, which must be the same in all rows of a list, and a column per metric. Rows for
    which an expression in `forbidden` holds are at fault for the reason that it stands under.
    """
    orders: dict[_Order, list[Wanted]] = {}
    for each in wanted:
        orders.setdefault(_Order.of(each), []).append(each)
    for name in constant:
        check_there("keep", name, columns.schema)
        check_values("keep", name, columns.schema[name])
    plan = _Plan(log, columns, keep, duplicates, constant, forbidden or {}, progress=progress)
    (first, metrics), *others = orders.items()
    lists = plan.evaluated(first, metrics, told)
    if not others:
        return lists
    # The lists are the same, and in the same order.
    more = [
        plan.evaluated(order, part).select(output_name(each.metric) for each in part)
        for order, part in others
    ]
    names = [*told, *keep, *constant]
    together = pl.concat([lists, *more], how="horizontal")
    return together.select(*names, *(output_name(each.metric) for each in wanted))


class _Order(NamedTuple):
    """What decides how the documents of a list are ranked, and what they count as."""

    ties: Ties | None
    relevant: float
    unjudged: str
    float32_scores: bool
    text_ids: bool

    @classmethod
    def of(cls, wanted: Wanted) -> _Order:
        agreed = wanted.conventions
        # The mean over all orders is the same from any; "worst" needs no documents.
        ties: Ties | None = "worst" if agreed.ties == "expected" else agreed.ties
        return cls(ties, agreed.relevant, agreed.unjudged, agreed.float32_scores, agreed.text_ids)


@dataclass
class _Plan:
    """The stages from one log to its lists."""

    log: pl.LazyFrame
    columns: Columns
    keep: Sequence[str]
    duplicates: Duplicates
    constant: Sequence[str]
    forbidden: Mapping[str, pl.Expr]
    progress: bool = field(kw_only=True)

    def __post_init__(self) -> None:
        one_of("duplicates", self.duplicates, DUPLICATES)
        self.lists = Lists.of(self.columns)
        #: The columns of groups, by our own names.
        self.groups = [self.lists.keys[name] for name in self.columns.by]
        #: The columns that are kept, by our own names.
        self.kept = {f"{OWN}kept {index}": name for index, name in enumerate(self.constant)}
        #: The documents whose repetition in a list is an error.
        unique = self.columns.doc is not None and self.duplicates != "error"
        self.ids = None if unique or self.columns.doc is None else "doc"

    def evaluated(
        self, order: _Order, wanted: Sequence[Wanted], told: Sequence[str] = ()
    ) -> pl.LazyFrame:
        """Sort each list once, compute the terms that metrics share once, aggregate once."""
        shared = Shared(
            whole_labels=self.columns.schema[self.columns.label].is_integer(),
            placed=self.columns.placed,
        )
        values = [_value(each, shared) for each in wanted]
        read = _Read.of(shared, self.columns)
        found = {**rules(self.columns, shared.refused), **self.forbidden}
        for name, parameter in shared.signals.items():
            found |= negative(parameter, name)
        long, columns = self._canonical(order, read, found)
        check = partial(
            raise_for_faults,
            log=self.log,
            columns=self.columns if self.ids else replace(self.columns, doc=None),
            found=found,
            keys=self.lists.keys,
            constant=self.constant,
        )
        values_of = [
            *self.lists.carried,
            *(pl.col(name).alias(as_list(name)) for name in shared.gathered),
            *shared.folds.named(),
        ]
        if shared.ordered:
            lists = self._in_rank_order(long, columns, order, read, shared, told)
            rows = _ranked_rows(check(lists), order, self.lists, read, shared)
            values_of += [pl.col(name).first() for name in (*told, *self.kept)]
        else:
            # Nothing asks in which order documents stand: lists are aggregated as they come.
            rows = long.with_columns(
                is_relevant(_LABEL, order.relevant).alias("relevant"),
                pl.when(_SCORE.is_not_null()).then(1).alias("rank"),
            )
            values_of += [*faults(self.ids), *self._told(told), *self._kept(), *doubts(columns)]
        gathered = (
            rows.with_columns(shared.rows_of.named())
            .group_by(self.lists.group, maintain_order=True)
            .agg(values_of)
        )
        gathered = gathered if shared.ordered else check(gathered)
        for sums in (shared.sums, shared.late):
            gathered = gathered.with_columns(sums.named()) if sums.columns else gathered
        if shared.required:
            gathered = self._requiring(gathered, shared.required)
        return gathered.select(
            *told,
            *(pl.col(self.lists.keys[name]).alias(name) for name in self.keep),
            *(pl.col(own).alias(name) for own, name in self.kept.items()),
            *values,
        )

    def _requiring(self, lists: pl.LazyFrame, required: Mapping[str, pl.Expr]) -> pl.LazyFrame:
        """Let the lists be checked for what metrics require of each."""
        broken = {problem: ~condition for problem, condition in required.items()}
        return raise_for_faults(
            lists.with_columns(fault(broken)),
            self.log,
            self.columns,
            broken,
            self.lists.keys,
            told=True,
        )

    def _told(self, names: Sequence[str]) -> list[pl.Expr]:
        """Return what is to be told of each list beside its metrics."""
        judged, found = _LABEL.count() > 0, _SCORE.count() > 0
        nobody = pl.any_horizontal(
            pl.lit(value=False), *(pl.col(name).is_null().first() for name in self.groups)
        )
        known = dict(zip(PRESENCE, (judged, found), strict=True))
        known |= {STRAY: nobody & judged & ~found, UNKNOWN: nobody & found}
        known[FOUND_DOCUMENTS] = _SCORE.count()
        return [known[name].alias(name) for name in names]

    def _kept(self) -> list[pl.Expr]:
        """Return the columns that are the same in all rows of a list, and which of them is not."""
        if not self.kept:
            return []
        firsts = [pl.col(own).first() for own in self.kept]
        number = pl.lit(0, dtype=pl.UInt8)
        for index, own in enumerate(self.kept, start=1):
            several = pl.col(own).n_unique() > 1
            number = pl.when(several).then(pl.lit(index, dtype=pl.UInt8)).otherwise(number)
        return [*firsts, number.alias(VARIES)]

    def _canonical(
        self, order: _Order, read: _Read, found: Mapping[str, pl.Expr]
    ) -> tuple[pl.LazyFrame, Columns]:
        """Return the log sorted by list, under our own names, with the columns that are read."""
        columns, lists = self.columns, self.lists
        score, label = columns.number(columns.score), columns.number(columns.label)
        if order.float32_scores:
            # What is beyond them must not become infinite, and tie with what is not retrieved.
            score = score.cast(pl.Float64).clip(-_LARGEST_32, _LARGEST_32).cast(pl.Float32)
        if order.unjudged == "removed":
            # The row stays, so that a list which loses all its documents is still counted.
            score = pl.when(label.is_not_null()).then(score)
        log = lists.in_order(self.log)
        if columns.doc is not None and self.duplicates != "error":
            log = self._distinct(log, read)
        long = lists.checked(
            log.select(
                *lists.named,
                *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
                score.alias("score"),
                label.alias("label"),
                *(pl.col(name).alias(own) for own, name in self.kept.items()),
                *(pl.col(name).alias(OWN + name) for name in columns.unnamed),
                *read.extras,
                *read.document(columns),
                fault(found),
            )
        )
        if self.progress:  # behind the sort, which a log that is known to be sorted does without
            long = watch(long, known_rows(self.log)).set_sorted(lists.group)
        types = self._types(order)
        inner = replace(columns, score="score", label="label", schema=types)
        return long, inner if columns.doc is None else replace(inner, doc="doc")

    def _distinct(self, log: pl.LazyFrame, read: _Read) -> pl.LazyFrame:
        """Keep one row of each document in each list: the first, or the one of highest score."""
        columns, lists = self.columns, self.lists
        assert columns.doc is not None  # noqa: S101  (for the type checker)
        used = [*columns.keys, columns.doc, columns.score, columns.label, *read.extras]
        used += [*self.constant, *([] if lists.number is None else [lists.number])]
        others = [name for name in dict.fromkeys(used) if name not in lists.order]
        row = best_of_each(columns, self.duplicates).sort(pl.struct(others))
        keys = [*lists.order, columns.doc]
        same = [pl.col(name).eq_missing(pl.col(name).shift(1)) for name in keys]
        return (
            log.select(*lists.order, *others)
            .set_sorted(lists.order)
            .group_by(lists.order, maintain_order=True)
            .agg(row.alias(_ROW))
            .explode(_ROW)
            .unnest(_ROW)
            .filter(~pl.all_horizontal(same).fill_null(value=False))
            .set_sorted(lists.order)
        )

    def _types(self, order: _Order) -> pl.Schema:
        """Return the types of the columns under our own names, as `_canonical` makes them."""
        schema, columns = self.columns.schema, self.columns

        def number(name: str) -> pl.DataType:
            return schema[name] if columns.is_plain(name) else pl.Float64()

        score = pl.Float32() if order.float32_scores else number(columns.score)
        doc = {} if columns.doc is None else {"doc": schema[columns.doc]}
        return pl.Schema({**doc, "score": score, "label": number(columns.label)})

    def _in_rank_order(
        self,
        long: pl.LazyFrame,
        columns: Columns,
        order: _Order,
        read: _Read,
        shared: Shared,
        told: Sequence[str],
    ) -> pl.LazyFrame:
        """Return each list in rank order, down to a depth, with what only a whole list can tell."""
        depth = shared.depth

        def cut(rows: pl.Expr) -> pl.Expr:
            return rows if depth is None else rows.head(depth)

        carried = read.carried
        sorting = rank_order(
            order.ties,
            columns,
            only_label={*carried} <= {"label", "score"},
            text_ids=order.text_ids,
        )
        row = pl.struct(*carried, _SCORE.is_not_null().alias(_RETRIEVED))
        parts = [cut(sorting.sort(row)).alias(_ROW)]
        if _IDEAL in read.names:
            parts.append(cut(_LABEL.sort(descending=True, nulls_last=True)).alias(_IDEAL))
        parts.append((pl.len() if depth is None else pl.len().clip(upper_bound=depth)).alias(_ROWS))
        # Where each list starts in the running counts of relevant documents.
        parts += [
            is_relevant(_LABEL, lowest).sum().alias(name)
            for name, lowest in _counted(read, shared, order)
        ]
        in_order = long.group_by(self.lists.group, maintain_order=True).agg(
            *self.lists.carried,
            *faults(self.ids),
            *parts,
            *self._told(told),
            *self._kept(),
            *doubts(columns),
        )
        if "ideal_rank" not in read.names:
            return in_order
        label = pl.element().struct.field("label")
        ideal_rank = label.rank("ordinal", descending=True)
        return in_order.with_columns(pl.col(_ROW).list.eval(ideal_rank).alias("ideal_rank"))


@dataclass(frozen=True)
class _Read:
    """Which columns of the ranked rows are read, and which of them are the user's own."""

    names: set[str]
    extras: list[str]
    doc: str | None

    @classmethod
    def of(cls, shared: Shared, columns: Columns) -> _Read:
        names = shared.read() - shared.rows_of.columns.keys()
        canonical = {"score", "label", *RANKED, *([] if columns.doc is None else ["doc"])}
        extras = sorted(name for name in names - canonical if not name.startswith(OWN))
        for name in extras:
            if name not in columns.schema:
                there = ", ".join(map(repr, [*RANKED, *columns.schema]))
                message = f"a metric reads the column {name!r}, but the ranked table has {there}."
                raise SchemaError(message + hint(name, [*RANKED, *columns.schema]))
            check_values("metrics", name, columns.schema[name])
        for name, parameter in shared.signals.items():
            check_number(parameter, name, columns.schema[name])
        return cls(names, extras, columns.doc)

    @property
    def carried(self) -> list[str]:
        """The columns of a document that go with it when its list is sorted."""
        read = self.names | ({"score"} if TIED & self.names else set())
        own: list[str] = [name for name in ("score", "doc") if name in read]
        own += [_DOCUMENT] if _DOCUMENT in self.names else []
        return ["label", *own, *self.extras]

    def document(self, columns: Columns) -> list[pl.Expr]:
        """Return whether a row is a document's, if that is read."""
        if _DOCUMENT not in self.names:
            return []
        known = pl.lit(value=True) if columns.doc is None else pl.col(columns.doc).is_not_null()
        return [known.alias(_DOCUMENT)]


def _value(wanted: Wanted, shared: Shared) -> pl.Expr:
    """Return a metric as an expression over the sums that all metrics share."""
    metric, conventions = wanted
    name = output_name(metric)
    t = Expected(shared) if conventions.ties == "expected" else shared
    if isinstance(metric, Metric):
        value = expectation(metric, t) if isinstance(t, Expected) else metric.value(t)
        return value.expr.alias(name)
    for part in made_of(metric):
        if _changes(conventions, part):
            message = (
                f"{name!r} is an expression made of the metric {part}, of which it would not "
                f"follow the conventions of {conventions.name}; evaluate the metric itself, and "
                "work on its column of the result"
            )
            raise ArgumentError(message)
    reads = metric.meta.root_names()
    if any(read.startswith(OWN) for read in reads):
        message = f"{name!r} reads a column of our own, {reads}; take those of the ranked table"
        raise ArgumentError(message)
    return t.own(metric).expr.alias(name)


def _changes(conventions: Conventions, name: str) -> bool:
    """Return whether conventions change a metric, beyond how its documents are ranked."""
    if not conventions.parameters and conventions.gain_from is None:
        return False
    try:
        metric = read_metric(name)
    except ArgumentError:  # its parameters cannot be written down
        return True
    return conventions.apply(metric).arguments != metric.arguments


def _counted(read: _Read, shared: Shared, order: _Order) -> list[tuple[str, float]]:
    """Return the columns of running hits, each with the lowest label that is one."""
    lowest: dict[str, float | None] = {"hits": None} if "hits" in read.names else {}
    lowest |= {name: rel for rel, name in shared.hits.items()}
    return [(name, order.relevant if rel is None else rel) for name, rel in lowest.items()]


def _ranked_rows(
    in_order: pl.LazyFrame, order: _Order, lists: Lists, read: _Read, shared: Shared
) -> pl.LazyFrame:
    """Return the rows of lists in rank order as the ranked table.

    Hits are running counts over all rows less what they were at the start of the list: counting
    anew in every list takes three times as long where lists are short.
    """
    counted = _counted(read, shared, order)
    nested = [_ROW, *(name for name in (_IDEAL, "ideal_rank") if name in read.names), _PLACE]
    rows = (
        in_order.with_columns(
            pl.int_ranges(1, pl.col(_ROWS) + 1, dtype=pl.UInt32).alias(_PLACE),
            *(pl.col(name).cum_sum() - pl.col(name) for name, _ in counted),
        )
        .explode(nested)
        .unnest(_ROW)
        .set_sorted(lists.group)
        .with_columns(
            is_relevant(_LABEL, order.relevant).alias("relevant"),
            pl.when(_RETRIEVED).then(_PLACE).alias("rank"),
            *(
                (is_relevant(_LABEL, lowest).cum_sum() - pl.col(name)).alias(name)
                for name, lowest in counted
            ),
        )
    )
    if "hits" in read.names:
        rows = rows.with_columns(pl.when(RETRIEVED).then("hits").alias("hits"))
    return _with_ties(rows) if TIED & read.names else rows


def _with_ties(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Say where the documents begin and end that are tied with each."""
    place = pl.col(_PLACE)
    begins, ends = pl.col(OWN + "tie begins"), pl.col(OWN + "tie ends")
    return (
        rows.with_columns(
            ((place == 1) | _SCORE.ne_missing(_SCORE.shift(1))).alias(OWN + "tie begins")
        )
        .with_columns(begins.shift(-1, fill_value=True).alias(OWN + "tie ends"))
        .with_columns(
            pl.when(begins).then(place).forward_fill().alias(OWN + "tie first"),
            pl.when(ends).then(place).backward_fill().alias(OWN + "tie last"),
        )
    )
