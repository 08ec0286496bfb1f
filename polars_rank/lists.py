"""From the long table to one row per list: the lazy plan behind every evaluation.

Each list is sorted once, with the rows it needs and no others. The lists in rank order are
exploded into the ranked table; the terms that metrics share become columns of it; and those are
gathered once more, per list, to be summed. All of it streams in flat memory where the lists come
in order, for a group that has passed is never looked at again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.errors import SchemaError, hint
from polars_rank.expectation import expectation
from polars_rank.layout import number_column
from polars_rank.metrics.metric import Metric
from polars_rank.naming import output_name
from polars_rank.progress import known_rows, watch
from polars_rank.ranked import HITS, LABEL, POSITION, RELEVANT, SCORE, Lowering, is_aggregate
from polars_rank.ranking import RANKED, Duplicates, Order, is_relevant, rank_order
from polars_rank.validation import (
    FAULTS,
    fault,
    faults,
    raise_for_faults,
    rules,
    without_duplicates,
)

if TYPE_CHECKING:
    from polars_rank.columns import Columns
    from polars_rank.conventions import Conventions

#: Columns of the result that say whether a list has judged documents, and retrieved ones; they
#: are there where the conventions do not count all lists.
PRESENCE = ["__judged", "__found"]


def per_list(
    log: pl.LazyFrame,
    metrics: list[pl.Expr],
    columns: Columns,
    keep: list[str],
    conventions: Conventions,
    *,
    duplicates: Duplicates,
    progress: bool,
) -> pl.LazyFrame:
    """Evaluate all lists, once for each order of documents that the conventions ask for."""
    parts: list[tuple[Conventions, list[pl.Expr]]] = []
    for metric in metrics:
        own = conventions.of(metric)
        known = next((part for agreed, part in parts if agreed == own), None)
        if known is None:
            parts.append((own, [metric]))
        else:
            known.append(metric)
    (first, wanted), *others = parts
    each = partial(_in_one_order, log, duplicates=duplicates, progress=progress)
    lists = each(wanted, columns, keep, first)
    if not others:
        return lists
    # The lists are the same, and in the same order.
    more = [each(part, columns, keep, own).select(map(output_name, part)) for own, part in others]
    names = lists.collect_schema().names()[: -len(wanted)]
    together = pl.concat([lists, *more], how="horizontal")
    return together.select(*names, *map(output_name, metrics))


def _in_one_order(
    log: pl.LazyFrame,
    metrics: list[pl.Expr],
    columns: Columns,
    keep: list[str],
    conventions: Conventions,
    *,
    duplicates: Duplicates,
    progress: bool,
) -> pl.LazyFrame:
    """Sort each list once, compute the terms that metrics share once, aggregate once."""
    expected = conventions.ties == "expected"
    if expected:
        metrics = [expectation(metric) for metric in metrics]
    shared = Lowering(whole_labels=columns.schema[columns.label].is_integer(), expected=expected)
    lowered = [
        shared.lower(metric.lowered) if isinstance(metric, Metric) else metric for metric in metrics
    ]
    # A metric that reads nothing but shared aggregates is finished after them, row by row.
    roots = [metric.meta.root_names() for metric in lowered]
    last = [bool(names) and all(map(is_aggregate, names)) for names in roots]
    aggregations = [
        *shared.lists(),
        *(metric for metric, late in zip(lowered, last, strict=True) if not late),
    ]
    read = {name for part in (*aggregations, *shared.terms) for name in part.meta.root_names()}
    extras = _extras(read, columns)
    found = rules(columns, shared.rules)
    log = without_duplicates(log, columns, duplicates)
    lists = _Lists.of(columns, keep)
    long = _canonical(log, columns, lists, [*extras, fault(found)], conventions)
    if progress:  # behind the sort, which a log that is known to be sorted does without
        long = watch(long, known_rows(log)).set_sorted(lists.group)
    inner = replace(columns, score="score", label="label", schema=long.collect_schema())
    if columns.doc is not None:
        inner = replace(inner, doc="doc")
    carried = ["label", *(name for name in ("score", "doc") if name in read), *extras]
    in_order = _in_rank_order(
        long,
        inner,
        lists,
        order=rank_order("worst" if expected else conventions.ties, inner),
        depth=shared.depth(lowered),
        carried=carried,
        read=read,
        conventions=conventions,
    )
    checked = raise_for_faults(in_order, log, columns, found)
    rows = _exploded(checked, lists, read, conventions)
    presence = [] if conventions.queries == "all" else PRESENCE
    results = (
        shared.with_terms(rows)
        .group_by(lists.group, maintain_order=True)
        .agg(*lists.carried, *aggregations, *(pl.col(name).first() for name in presence))
        .with_columns(shared.aggregated())
    )
    return results.select(
        *presence,
        *(pl.col(inner_name).alias(name) for name, inner_name in lists.keys.items()),
        *(
            metric if late else pl.col(output_name(metric))
            for metric, late in zip(lowered, last, strict=True)
        ),
    )


@dataclass(frozen=True)
class _Lists:
    """How lists are told apart: by their keys, or by the number that `scan_log` gave them."""

    order: list[str]  # columns of the log that stand in order
    group: list[str]  # the same under our names
    keys: dict[str, str]  # columns of the result and our names for them

    @classmethod
    def of(cls, columns: Columns, keep: list[str]) -> _Lists:
        number = number_column(columns.keys)
        numbered = number in columns.schema
        keys = {key: f"__key_{index}" for index, key in enumerate(columns.keys)}
        kept = {key: keys[key] for key in keep}
        if numbered:
            return cls([number], ["__list"], kept)
        return cls(columns.keys, list(keys.values()), kept)

    @property
    def carried(self) -> list[pl.Expr]:
        return [pl.col(name).first() for name in self.keys.values() if name not in self.group]


def _extras(read: set[str], columns: Columns) -> list[str]:
    """Return the columns of the log that the user's own expressions read."""
    canonical = {"score", "label", *RANKED, *([] if columns.doc is None else ["doc"])}
    extras = sorted(name for name in read - canonical if not name.startswith("__"))
    for name in extras:
        if name not in columns.schema:
            there = ", ".join(map(repr, [*RANKED, *columns.schema]))
            message = f"a metric reads the column {name!r}, but the ranked table has {there}."
            raise SchemaError(message + hint(name, [*RANKED, *columns.schema]))
    return extras


def _canonical(
    log: pl.LazyFrame,
    columns: Columns,
    lists: _Lists,
    more: list[str | pl.Expr],
    conventions: Conventions,
) -> pl.LazyFrame:
    """Return the log sorted by list, under our own names, with the columns that are read."""
    named = {**lists.keys, **dict(zip(lists.order, lists.group, strict=True))}
    score, label = columns.number(columns.score), columns.number(columns.label)
    if conventions.float32_scores:
        score = score.cast(pl.Float32)
    if conventions.unjudged == "removed":
        # The row stays, so that a list which loses all its documents is still counted.
        score = pl.when(label.is_not_null()).then(score)
    return (
        log.sort(lists.order, maintain_order=True)
        .select(
            *(pl.col(column).alias(name) for column, name in named.items()),
            *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
            score.alias("score"),
            label.alias("label"),
            *more,
        )
        # Polars loses the hint on renamed keys and would gather all rows without it.
        .set_sorted(lists.group)
    )


def _in_rank_order(
    long: pl.LazyFrame,
    columns: Columns,
    lists: _Lists,
    *,
    order: Order,
    depth: int | None,
    carried: list[str],
    read: set[str],
    conventions: Conventions,
) -> pl.LazyFrame:
    """Return each list in rank order, down to a depth, with what only a whole list can tell."""

    def cut(rows: pl.Expr) -> pl.Expr:
        return rows if depth is None else rows.head(depth)

    rows = pl.struct(*carried, SCORE.is_not_null().alias("__retrieved"))
    parts = {
        "__row": cut(order.sort(rows)),
        "__ideal_label": cut(LABEL.sort(descending=True, nulls_last=True)),
        "__rows": pl.len() if depth is None else pl.len().clip(upper_bound=depth),
        # Where each list starts in the running count of relevant documents.
        "hits": is_relevant(LABEL, conventions.relevant).sum(),
        "__tie_first": cut(SCORE.rank("min", descending=True).cast(pl.Int64).sort(nulls_last=True)),
        "__tie_last": cut(SCORE.rank("max", descending=True).cast(pl.Int64).sort(nulls_last=True)),
        "__judged": LABEL.count() > 0,
        "__found": SCORE.count() > 0,
    }
    wanted = {"__row", "__rows", *read, *(PRESENCE if conventions.queries != "all" else ())}
    in_order = long.group_by(lists.group, maintain_order=True).agg(
        *lists.carried,
        faults(columns.doc).alias(FAULTS),
        **{name: part for name, part in parts.items() if name in wanted},
    )
    if "ideal_rank" not in read:
        return in_order
    label = pl.element().struct.field("label")
    ideal_rank = label.rank("ordinal", descending=True)
    return in_order.with_columns(pl.col("__row").list.eval(ideal_rank).alias("ideal_rank"))


def _exploded(
    in_order: pl.LazyFrame, lists: _Lists, read: set[str], conventions: Conventions
) -> pl.LazyFrame:
    """Return the rows of lists in rank order as the ranked table.

    Ranks and hits are running counts over all rows less what they were at the start of the
    list: counting anew in every list takes three times as long where lists are short.
    """
    running = ["__rows", *({"hits"} & read)]
    nested = [name for name, dtype in in_order.collect_schema().items() if dtype == pl.List]
    rows = (
        in_order.with_columns(pl.col(name).cum_sum() - pl.col(name) for name in running)
        .explode(nested)
        .unnest("__row")
        .with_row_index("__index")
        .set_sorted(lists.group)
        .with_columns(
            (pl.col("__index") + 1 - pl.col("__rows")).alias("__position"),
            is_relevant(LABEL, conventions.relevant).alias("relevant"),
        )
    )
    if "hits" in read:
        rows = rows.with_columns((RELEVANT.cum_sum() - HITS).alias("hits"))
    return rows.with_columns(
        pl.when("__retrieved").then(POSITION).alias("rank"),
        *(pl.when("__retrieved").then(HITS) for _ in {"hits"} & read),
    )
