"""From a log to the per-query table, as one lazy plan.

Each ranking is sorted once, with the columns that the metrics read and no others. The rankings are
exploded into the ranked table; the terms that metrics share become columns of it; and those are
gathered per ranking and summed. All of it streams in flat memory if the rows of a ranking stand
together, because a ranking that has passed is never looked at again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN, check_number, check_values
from polars_rank._progress import known_rows, watch
from polars_rank.columns import Columns
from polars_rank.conventions import Conventions, Duplicates, Ties
from polars_rank.errors import ArgumentError, SchemaError, hint
from polars_rank.evaluation.checks import (
    FAILED,
    Check,
    checks_of,
    constant_check,
    duplicate_check,
    failed,
    failed_in_ranking,
    length_check,
    raise_failed,
    repeats,
    row_checks,
    unnamed_check,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.evaluation.ranking import (
    RANKED,
    best_of_each,
    is_relevant,
    key_of_columns,
    rank_order,
)
from polars_rank.evaluation.wide import REPEATED, ROW, Documents, is_short, per_ranking
from polars_rank.evaluation.wide import presence as of_presence
from polars_rank.frames.lengths import Lengths, lengths_of
from polars_rank.metrics.expected_terms import ExpectedTerms, expectation
from polars_rank.metrics.metric import Metric, made_of
from polars_rank.metrics.names import metric as read_metric
from polars_rank.metrics.plan_terms import TIED, PlanTerms, as_list
from polars_rank.metrics.signals import negative
from polars_rank.metrics.terms import RETRIEVED as IS_RETRIEVED
from polars_rank.metrics.wide_terms import NotWideError, WideTerms

#: Whether a ranking has judged documents, and how many of its documents are retrieved.
JUDGED, RETRIEVED = OWN + "judged", OWN + "retrieved"

#: The largest number of 32-bit floats.
_LARGEST_32 = (2 - 2**-23) * 2.0**127

_LABEL, _SCORE = pl.col("label"), pl.col("score")
_ROW, _ROWS, _POSITION = OWN + "row", OWN + "rows", OWN + "position"
_IDEAL, _RETRIEVED = OWN + "ideal label", OWN + "is retrieved"
_DOCUMENT = OWN + "document"


def per_query(
    frame: pl.LazyFrame, evaluation: Evaluation, *, presence: bool = False
) -> pl.LazyFrame:
    """Return one row per ranking: its keys, the columns that are kept, and the metrics.

    With `presence` there are also the columns `JUDGED` and `RETRIEVED`. Rankings are evaluated once
    for each order of documents that the conventions of the metrics ask for.
    """
    log, columns = evaluation.read(frame)
    runs = ["run"] if evaluation.scores is not None else []
    lengths = lengths_of(frame, [key for key in columns.keys if key not in runs])
    orders: dict[_Order, list[MetricColumn]] = {}
    for column in evaluation.metrics:
        orders.setdefault(_Order.of(column), []).append(column)
    tables = [
        _in_order(log, columns, evaluation.with_metrics(metrics), order, lengths, presence=presence)
        for order, metrics in orders.items()
    ]
    if len(tables) == 1:
        return tables[0]
    # All tables have the same rankings in the same order.
    first, *others = tables
    names = [[column.name for column in metrics] for metrics in orders.values()]
    more = [table.select(own) for table, own in zip(others, names[1:], strict=True)]
    keys = first.collect_schema().names()[: -len(names[0])]
    together = pl.concat([first, *more], how="horizontal")
    return together.select(*keys, *(column.name for column in evaluation.metrics))


class _Order(NamedTuple):
    """What decides how the documents of a ranking are ordered, and what they count as."""

    ties: Ties | None
    rel: float
    unjudged: str
    float32_scores: bool
    text_ids: bool
    unjudged_label: float | None

    @classmethod
    def of(cls, column: MetricColumn) -> _Order:
        own = column.conventions
        # The mean over all orders is the same from any of them; "worst" needs no documents.
        ties: Ties | None = "worst" if own.ties == "expected" else own.ties
        return cls(
            ties, own.rel, own.unjudged, own.float32_scores, own.text_ids, column.unjudged_label
        )

    def canonical(self, columns: Columns) -> Columns:
        """Return the columns under their canonical names, with the types that they have there."""
        score = pl.Float32() if self.float32_scores else columns.number_type(columns.score)
        label = columns.number_type(columns.label)
        types = {"score": score, "label": label if self.unjudged_label is None else pl.Float64()}
        doc = None if columns.doc is None else "doc"
        if columns.doc is not None:
            types["doc"] = columns.schema[columns.doc]
        return replace(columns, doc=doc, score="score", label="label", schema=pl.Schema(types))


def _in_order(
    log: pl.LazyFrame,
    columns: Columns,
    evaluation: Evaluation,
    order: _Order,
    lengths: Lengths | None,
    *,
    presence: bool,
) -> pl.LazyFrame:
    """Return the per-query table of metrics that share one order of documents."""
    keys = Keys.of(columns)
    canonical = order.canonical(columns)
    key = None
    if lengths is not None and is_short(lengths):
        key = key_of_columns(order.ties, canonical, text_ids=order.text_ids, row=ROW)
    terms, values = _terms(evaluation, columns, order, None if key is None else lengths)
    read = _Read.of(terms, columns)
    constant = [*evaluation.keep, *([] if evaluation.weight is None else [evaluation.weight])]
    kept = {f"{OWN}kept {index}": name for index, name in enumerate(constant)}
    carried = [*keys.carried, *(pl.col(own).first() for own in kept)]
    result = [pl.col(own).alias(name) for name, own in keys.names.items()]
    result += [pl.col(own).alias(name) for own, name in kept.items()]
    if key is not None and isinstance(terms, WideTerms):
        checks = _checks(columns, evaluation, terms, kept, REPEATED)
        checks.append(length_check(terms.length))
        rows = _canonical(log, columns, evaluation, order, keys, read, kept, checks)
        table = per_ranking(
            rows, Documents(canonical, key), terms,
            group=keys.group, carried=carried, checks=checks,
        )  # fmt: skip
        judged, retrieved = of_presence(terms.length)
        present = [judged.alias(JUDGED), retrieved.alias(RETRIEVED)] * presence
        table = table.select(*result, *present, *values, FAILED)
        return raise_failed(table, checks, log=log, keys={name: name for name in keys.names})
    checks = _checks(columns, evaluation, terms, kept, repeats("doc"))
    rows = _canonical(log, columns, evaluation, order, keys, read, kept, checks)
    table = _summed(
        rows, canonical, order, keys, read, terms, checks, carried, log, presence=presence
    )
    return table.select(*result, *([JUDGED, RETRIEVED] * presence), *values)


def _summed(
    rows: pl.LazyFrame,
    columns: Columns,
    order: _Order,
    keys: Keys,
    read: _Read,
    terms: PlanTerms,
    checks: Sequence[Check],
    carried: Sequence[pl.Expr],
    log: pl.LazyFrame,
    *,
    presence: bool,
) -> pl.LazyFrame:
    """Return one row per ranking with the sums of terms over its rows."""
    present = [(_LABEL.count() > 0).alias(JUDGED), _SCORE.count().alias(RETRIEVED)] * presence
    of_ranking = [*carried, failed_in_ranking(checks), *present]
    gathered = [pl.col(name).alias(as_list(name)) for name in terms.gathered]
    gathered += terms.folds.named()
    if terms.ordered:
        rankings = _sort(rows, columns, order, keys, read, terms, of_ranking)
        checked = raise_failed(rankings, checks, log=log, keys=keys.names)
        rows = _ranked_rows(checked, order, keys, read, terms)
        of_ranking = [*carried, *([pl.col(JUDGED, RETRIEVED).first()] * presence)]
    else:
        # Nothing reads the order of documents: rankings are aggregated as they come.
        relevant = is_relevant(_LABEL, order.rel).alias("relevant")
        rank = pl.when(_SCORE.is_not_null()).then(1).alias("rank")
        rows = rows.with_columns(relevant, rank)
    table = (
        rows.with_columns(terms.rows_of.named())
        .group_by(keys.group, maintain_order=True)
        .agg(*of_ranking, *gathered)
    )
    if not terms.ordered:
        table = raise_failed(table, checks, log=log, keys=keys.names)
    for layer in terms.layers():
        table = table.with_columns(layer) if layer else table
    if terms.required:
        required = [Check("ranking", ~each, problem) for problem, each in terms.required.items()]
        flagged = table.with_columns(failed(required, "ranking"))
        table = raise_failed(flagged, required, keys=keys.names)
    return table


def _terms(
    evaluation: Evaluation, columns: Columns, order: _Order, lengths: Lengths | None
) -> tuple[PlanTerms, list[pl.Expr]]:
    """Return the terms of metrics, and the metrics as expressions over them."""
    whole_labels = columns.schema[columns.label].is_integer()
    if lengths is not None:
        wide = WideTerms(
            lengths.longest, order.rel, whole_labels=whole_labels, placed=columns.placed
        )
        try:
            return wide, [_value(column, wide) for column in evaluation.metrics]
        except NotWideError:
            pass
    terms = PlanTerms(whole_labels=whole_labels, placed=columns.placed)
    return terms, [_value(column, terms) for column in evaluation.metrics]


def _checks(
    columns: Columns,
    evaluation: Evaluation,
    terms: PlanTerms,
    kept: dict[str, str],
    repeated: pl.Expr,
) -> list[Check]:
    """Return the checks of rows and rankings."""
    checks = row_checks(columns, terms.refused)
    for name, parameter in terms.signals.items():
        checks += checks_of("row", negative(parameter, name))
    if evaluation.weight is not None:
        weight = pl.col(evaluation.weight).cast(pl.Float64)
        message = f"the column {evaluation.weight!r} (weight) must hold finite numbers of 0 or more"
        valid = ((weight >= 0) & weight.is_finite()).fill_null(value=False)
        checks.append(Check("row", ~valid, message))
    if columns.doc is not None and evaluation.duplicates == "error":
        checks.append(duplicate_check(columns, repeated))
    checks += [constant_check(name, own) for own, name in kept.items()]
    checks += [unnamed_check(name, OWN + name) for name in columns.unnamed]
    return checks


class _Read(NamedTuple):
    """Which columns of the ranked table are read, and which of them are the user's own."""

    names: set[str]
    extras: list[str]

    @classmethod
    def of(cls, terms: PlanTerms, columns: Columns) -> _Read:
        names = terms.read() - terms.rows_of.columns.keys()
        canonical = {"score", "label", *RANKED, *([] if columns.doc is None else ["doc"])}
        extras = sorted(name for name in names - canonical if not name.startswith(OWN))
        for name in extras:
            if name not in columns.schema:
                there = ", ".join(map(repr, [*RANKED, *columns.schema]))
                message = f"a metric reads the column {name!r}, but the ranked table has {there}."
                raise SchemaError(message + hint(name, [*RANKED, *columns.schema]))
            check_values("metrics", name, columns.schema[name])
        for name, parameter in terms.signals.items():
            check_number(parameter, name, columns.schema[name])
        return cls(names, extras)

    @property
    def carried(self) -> list[str]:
        """The columns of a document that are sorted with it."""
        read = self.names | ({"score"} if TIED & self.names else set())
        own = [name for name in ("score", "doc", _DOCUMENT) if name in read]
        return ["label", *own, *self.extras]


def _canonical(
    log: pl.LazyFrame,
    columns: Columns,
    evaluation: Evaluation,
    order: _Order,
    keys: Keys,
    read: _Read,
    kept: dict[str, str],
    checks: Sequence[Check],
) -> pl.LazyFrame:
    """Return the rows, ranking by ranking, under canonical names."""
    score, label = columns.number(columns.score), columns.number(columns.label)
    if order.float32_scores:
        # Larger scores must not become infinite and tie with those that are not retrieved.
        score = score.cast(pl.Float64).clip(-_LARGEST_32, _LARGEST_32).cast(pl.Float32)
    if order.unjudged == "removed":
        # The row stays, so that a ranking which loses all its documents is still counted.
        score = pl.when(label.is_not_null()).then(score)
    if order.unjudged_label is not None:
        given = pl.lit(order.unjudged_label)
        label = pl.when(score.is_not_null() & label.is_null()).then(given).otherwise(label)
    rows = keys.in_order(log)
    if columns.doc is not None and evaluation.duplicates != "error":
        rows = _distinct(rows, columns, evaluation.duplicates, keys, [*read.extras, *kept.values()])
    document = pl.lit(value=True) if columns.doc is None else pl.col(columns.doc).is_not_null()
    rows = keys.checked(
        rows.select(
            *keys.named,
            *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
            score.alias("score"),
            label.alias("label"),
            *(pl.col(name).alias(own) for own, name in kept.items()),
            *(pl.col(name).alias(OWN + name) for name in columns.unnamed),
            *read.extras,
            *([document.alias(_DOCUMENT)] if _DOCUMENT in read.names else []),
            failed(checks, "row"),
        )
    )
    if evaluation.progress:  # after the sort, which a log that is known to be sorted does not need
        rows = watch(rows, known_rows(log)).set_sorted(keys.group)
    return rows


def _distinct(
    log: pl.LazyFrame, columns: Columns, keep: Duplicates, keys: Keys, others: Sequence[str]
) -> pl.LazyFrame:
    """Keep one row of each document in each ranking: the first, or the one of highest score."""
    used = [*columns.keys, str(columns.doc), columns.score, columns.label, *others]
    used += [] if keys.number is None else [keys.number]
    others = [name for name in dict.fromkeys(used) if name not in keys.order]
    row = best_of_each(columns, keep).sort(pl.struct(others))
    same = [
        pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*keys.order, str(columns.doc))
    ]
    return (
        log.select(*keys.order, *others)
        .set_sorted(keys.order)
        .group_by(keys.order, maintain_order=True)
        .agg(row.alias(_ROW))
        .explode(_ROW)
        .unnest(_ROW)
        .filter(~pl.all_horizontal(same).fill_null(value=False))
        .set_sorted(keys.order)
    )


def _sort(
    rows: pl.LazyFrame,
    columns: Columns,
    order: _Order,
    keys: Keys,
    read: _Read,
    terms: PlanTerms,
    of_ranking: Sequence[pl.Expr],
) -> pl.LazyFrame:
    """Return one row per ranking with its documents in rank order, as deep as is read."""
    depth = terms.depth
    only_label = {*read.carried} <= {"label", "score"}
    sorting = rank_order(order.ties, columns, only_label=only_label, text_ids=order.text_ids)
    row = pl.struct(*read.carried, _SCORE.is_not_null().alias(_RETRIEVED))
    parts = {_ROW: sorting.sort(row)}
    if _IDEAL in read.names:
        parts[_IDEAL] = _LABEL.sort(descending=True, nulls_last=True)
    number = pl.len()
    if depth is not None:
        parts = {name: values.head(depth) for name, values in parts.items()}
        number = number.clip(upper_bound=depth)
    parts[_ROWS] = number
    # Where each ranking starts in the running counts of relevant documents.
    for name, lowest in _hits(read, terms, order):
        parts[name] = is_relevant(_LABEL, lowest).sum()
    rankings = rows.group_by(keys.group, maintain_order=True).agg(*of_ranking, **parts)
    if "ideal_rank" not in read.names:
        return rankings
    label = pl.element().struct.field("label")
    ideal_rank = label.rank("ordinal", descending=True)
    return rankings.with_columns(pl.col(_ROW).list.eval(ideal_rank).alias("ideal_rank"))


def _ranked_rows(
    rankings: pl.LazyFrame, order: _Order, keys: Keys, read: _Read, terms: PlanTerms
) -> pl.LazyFrame:
    """Return rankings in rank order as the ranked table.

    Hits are running counts over all rows less what they were at the start of the ranking: counting
    anew in every ranking takes three times as long if rankings are short.
    """
    hits = _hits(read, terms, order)
    nested = [_ROW, *(name for name in (_IDEAL, "ideal_rank") if name in read.names), _POSITION]
    rows = (
        rankings.with_columns(
            pl.int_ranges(1, pl.col(_ROWS) + 1, dtype=pl.UInt32).alias(_POSITION),
            *(pl.col(name).cum_sum() - pl.col(name) for name, _ in hits),
        )
        .explode(nested)
        .unnest(_ROW)
        .set_sorted(keys.group)
        .with_columns(
            is_relevant(_LABEL, order.rel).alias("relevant"),
            pl.when(_RETRIEVED).then(_POSITION).alias("rank"),
            *(
                (is_relevant(_LABEL, lowest).cum_sum() - pl.col(name)).alias(name)
                for name, lowest in hits
            ),
        )
    )
    if "hits" in read.names:
        rows = rows.with_columns(pl.when(IS_RETRIEVED).then("hits").alias("hits"))
    return _with_ties(rows) if TIED & read.names else rows


def _hits(read: _Read, terms: PlanTerms, order: _Order) -> list[tuple[str, float]]:
    """Return the columns of running hits, each with the lowest label that is one."""
    lowest: dict[str, float | None] = {"hits": None} if "hits" in read.names else {}
    lowest |= {name: rel for rel, name in terms.hits.items()}
    return [(name, order.rel if rel is None else rel) for name, rel in lowest.items()]


def _with_ties(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the first and the last position of the documents that are tied with each."""
    position = pl.col(_POSITION)
    begins, ends = pl.col(OWN + "tie begins"), pl.col(OWN + "tie ends")
    return (
        rows.with_columns(
            ((position == 1) | _SCORE.ne_missing(_SCORE.shift(1))).alias(OWN + "tie begins")
        )
        .with_columns(begins.shift(-1, fill_value=True).alias(OWN + "tie ends"))
        .with_columns(
            pl.when(begins).then(position).forward_fill().alias(OWN + "tie first"),
            pl.when(ends).then(position).backward_fill().alias(OWN + "tie last"),
        )
    )


def _value(column: MetricColumn, terms: PlanTerms) -> pl.Expr:
    """Return a metric as an expression over the sums that all metrics share."""
    metric, conventions = column.metric, column.conventions
    expected = conventions.ties == "expected"
    if expected and isinstance(terms, WideTerms):
        raise NotWideError
    t = ExpectedTerms(terms) if expected else terms
    if isinstance(metric, Metric):
        value = expectation(metric, t) if isinstance(t, ExpectedTerms) else metric.value(t)
        return value.expr.alias(column.name)
    _check_expression(column)
    return t.own(metric).expr.alias(column.name)


def _check_expression(column: MetricColumn) -> None:
    """Raise `ArgumentError` for an expression that does not follow the conventions."""
    metric, conventions = column.metric, column.conventions
    for part in made_of(metric):
        if _changes(conventions, part):
            message = (
                f"{column.name!r} is an expression made of the metric {part}, of which it would "
                f"not follow the conventions of {conventions.name}; evaluate the metric itself, "
                "and work on its column of the result"
            )
            raise ArgumentError(message)
    reads = metric.meta.root_names()
    if any(name.startswith(OWN) for name in reads):
        message = (
            f"{column.name!r} reads a column of our own, {reads}; take those of the ranked table"
        )
        raise ArgumentError(message)


def _changes(conventions: Conventions, name: str) -> bool:
    """Return whether conventions change a metric, beyond how its documents are ranked."""
    if not conventions.parameters and conventions.gain_from is None:
        return False
    try:
        metric = read_metric(name)
    except ArgumentError:  # its parameters cannot be written down
        return True
    return conventions.apply(metric).arguments != metric.arguments
