"""The per-query table of a log, as one lazy plan.

The plan has one of two forms. Both stream in flat memory if the rows of each ranking are adjacent.

By rows: each ranking is sorted once, with only the columns that metrics read. The rankings are
exploded into the ranked table, the terms that metrics share become columns of this table, and the
columns are summed per ranking.

By columns: see `wide`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import frame_of
from polars_rank.checks import FAILED, Check, failed, raise_failed
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.by_columns import ColumnStages, by_columns
from polars_rank.evaluation.by_rows import RowStages, by_rows
from polars_rank.evaluation.checks import length_check
from polars_rank.evaluation.inputs import with_inputs
from polars_rank.evaluation.log import Log, Rules
from polars_rank.evaluation.order import PackedKey, first_position, key_of_columns
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.evaluation.ranked import in_rank_order, ranked_table, rows_of_rankings
from polars_rank.evaluation.stages import FACTS, JUDGED, RETRIEVED, TIED, facts_of
from polars_rank.evaluation.wide import (
    REPEATED,
    ROW,
    columns_are_faster,
    table_of_positions,
)
from polars_rank.frames.batches import deferred, in_batches
from polars_rank.frames.lengths import Lengths, counted, lengths_of
from polars_rank.frames.tables import FEW_ROWS
from polars_rank.metrics.analyses import fits_columns
from polars_rank.metrics.expectations import expectation, has_reverse, reverse
from polars_rank.metrics.metric import Metric, made_of, tree_of
from polars_rank.metrics.names import metric as read_metric
from polars_rank.metrics.nodes import Value


def per_query(frame: pl.LazyFrame, evaluation: Evaluation) -> pl.LazyFrame:
    """Return one row per ranking: keys, kept columns, facts, and metrics.

    The facts are those of `facts_of`. The log is read once for each set of rules by which metrics
    order documents.
    """
    log = evaluation.read(frame)
    lengths = lengths_of(log.table, log.columns.keys)
    metrics: dict[Rules, list[MetricColumn]] = {}
    every = [Rules.of(each.conventions) for each in evaluation.metrics]
    for rules, column in zip(every, evaluation.metrics, strict=True):
        # The best order of tied documents is the reverse of the worst one.
        worst = rules._replace(ties="worst")
        reverse = rules.ties == "best" and worst in every and has_reverse(column.metric)
        metrics.setdefault(worst if reverse else rules, []).append(column)
    tables: list[pl.LazyFrame] = []
    for rules, alike in metrics.items():
        part = evaluation._replace(metrics=alike)
        # The first table has the facts, and warns about columns that no parameter names.
        unnamed = () if tables else log.columns.unnamed
        own = replace(log, rules=rules, columns=log.columns._replace(unnamed=unnamed))
        tables.append(_table(own, part, lengths, [] if tables else facts_of(evaluation)))
    if len(tables) == 1:
        return tables[0]
    # All tables have the same rankings in the same order.
    names = [[column.name for column in alike] for alike in metrics.values()]
    others = [table.select(own) for table, own in zip(tables[1:], names[1:], strict=True)]
    leading = [*log.columns.keys, *evaluation.kept.values(), *facts_of(evaluation)]
    together = pl.concat([tables[0], *others], how="horizontal")
    return together.select(*leading, *(column.name for column in evaluation.metrics))


def _table(
    log: Log, evaluation: Evaluation, lengths: Lengths | None, facts: Sequence[str]
) -> pl.LazyFrame:
    """Return the per-query table of metrics with the same rules, with some of the facts."""
    rules = log.rules
    values = [_value(column, log) for column in evaluation.metrics]
    key = None
    if all(map(fits_columns, values)):
        key = key_of_columns(rules.ties, log.canonical, text_ids=rules.text_ids, row=ROW)

    def table(lengths: Lengths | None) -> pl.LazyFrame:
        if lengths is not None and columns_are_faster(lengths) and key is not None:
            positions = by_columns(values, lengths.longest, log)
            return _by_columns(log, evaluation, positions, key, facts)
        return _by_rows(log, evaluation, by_rows(values, log), facts)

    result, keys = table(lengths), log.columns.keys
    frame = None if lengths is not None or key is None else frame_of(log.table, keys)
    if frame is not None and frame.height > FEW_ROWS:
        # Rankings are counted when the result is collected.
        schema = result.collect_schema()
        return deferred(lambda: table(counted(frame.lazy(), keys)), schema, "RANKINGS")
    return result


def _by_columns(
    log: Log, evaluation: Evaluation, stages: ColumnStages, key: PackedKey, facts: Sequence[str]
) -> pl.LazyFrame:
    """Return the per-query table, computed from one column per position."""
    log = with_inputs(log, evaluation, stages.needs, set())
    others = [*log.checks_of_others, length_check(stages.length)]
    log = replace(log, checks_of_others=others, repeated=REPEATED)
    counts = _named({name: FACTS[name] for name in (JUDGED, RETRIEVED)})
    table = table_of_positions(log, [*_kept(evaluation), *counts], key, stages)
    result = table.select(*_result(log, evaluation, map(pl.col, facts), stages.values), FAILED)
    return log.checked(result, named=True)


def _by_rows(
    log: Log, evaluation: Evaluation, stages: RowStages, facts: Sequence[str]
) -> pl.LazyFrame:
    """Return the per-query table, computed from one row per document."""
    reads = stages.reads
    read = {name for each in stages.rankings.values() for name in each.meta.root_names()}
    log = with_inputs(log, evaluation, stages.needs, reads.columns | read)
    keys, kept = log.keys, _kept(evaluation)
    order = log.order(only_label=True)
    firsts = {name: first_position(each, order) for name, each in stages.firsts.items()}
    # Without ids, ties are not broken by them.
    nothing = {} if log.columns.doc is not None else {TIED: pl.lit(None, dtype=pl.Boolean)}
    of_rows = {name: {**FACTS, **nothing}[name] for name in facts}
    aggregated = [*kept, *_named(of_rows | stages.rankings | firsts)]
    carried = [*facts, *stages.rankings, *firsts]
    terms = [*map(pl.col, stages.gathered), *_named(stages.folds)]
    if stages.needs.ordered and terms:
        rankings = log.checked(in_rank_order(log, reads, aggregated))

        def with_terms(rankings: pl.LazyFrame) -> pl.LazyFrame:
            ranked = ranked_table(log, rankings, reads)
            ranked = ranked.with_columns(**stages.ties) if stages.ties else ranked
            return ranked.with_columns(**stages.rows)

        # Terms of tied documents read other rows, for which the streaming engine would hold rows
        # back. A ranking has all rows that the terms read.
        rows = in_batches(rankings, with_terms) if reads.of_ties else with_terms(rankings)
        table = (
            rows.set_sorted(keys.group)
            .group_by(keys.group, maintain_order=True)
            .agg(*keys.carried, *kept, *(pl.col(name).first() for name in carried), *terms)
        )
    else:
        # Rankings are aggregated without their documents in rank order.
        rows = rows_of_rankings(log).with_columns(**stages.rows)
        table = log.checked(log.rankings(rows, [*aggregated, *terms]))
    for stage in stages.sums:
        table = table.with_columns(**stage) if stage else table
    if stages.required:
        required = [
            Check("ranking", ~each.fill_null(value=False), problem)
            for problem, each in stages.required.items()
        ]
        flagged = table.with_columns(failed(required, "ranking"))
        table = raise_failed(flagged, required, keys=keys.names)
    return table.select(_result(log, evaluation, map(pl.col, facts), stages.values))


def _kept(evaluation: Evaluation) -> list[pl.Expr]:
    """Return the columns to keep as aggregations."""
    return [pl.col(own).first() for own in evaluation.kept]


def _named(values: Mapping[str, pl.Expr]) -> list[pl.Expr]:
    return [value.alias(name) for name, value in values.items()]


def _result(
    log: Log, evaluation: Evaluation, facts: Iterable[pl.Expr], values: Sequence[pl.Expr]
) -> list[pl.Expr]:
    """Return the columns of the per-query table, under the user's names."""
    names = [column.name for column in evaluation.metrics]
    kept = [pl.col(own).alias(name) for own, name in evaluation.kept.items()]
    metrics = _named(dict(zip(names, values, strict=True)))
    return [*log.keys.named, *kept, *facts, *metrics]


def _value(column: MetricColumn, log: Log) -> Value:
    """Return the tree of a metric that follows its conventions about ties."""
    metric, ties = column.metric, column.conventions.ties
    if not isinstance(metric, Metric):
        _check_expression(column)
    if ties == "expected":
        return expectation(metric, whole_labels=log.whole_labels)
    tree = tree_of(metric)
    return reverse(tree) if ties == "best" != log.rules.ties else tree


def _check_expression(column: MetricColumn) -> None:
    """Raise `ArgumentError` for an expression that does not follow the conventions."""
    metric, conventions = column.metric, column.conventions
    for part in made_of(metric):
        if _changes(conventions, part):
            raise ArgumentError(
                f"expression {column.name!r} contains the metric {part}, which would not follow "
                f"the conventions {conventions.name!r}; evaluate the metric itself, and use its "
                "column of the result"
            )
    reads = metric.meta.root_names()
    if any(name.startswith(OWN) for name in reads):
        raise ArgumentError(
            f"expression {column.name!r} reads internal columns, {reads}; read columns of the "
            "ranked table instead"
        )


def _changes(conventions: Conventions, name: str) -> bool:
    """Return whether conventions change a metric that an expression over the ranked table reads."""
    if not conventions.parameters and conventions.gain_from is None:
        return False
    try:
        metric = read_metric(name)
    except ArgumentError:  # a parameter has no representation as text
        return True
    return conventions.apply(metric).arguments != metric.arguments
