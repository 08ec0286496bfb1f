"""The per-query table of a log, as one lazy plan.

The plan has one of two forms. Both stream in flat memory if the rows of each ranking are adjacent.

By rows: each ranking is sorted once, with only the columns that metrics read. The rankings are
exploded into the ranked table, the terms that metrics share become columns of this table, and the
columns are summed per ranking.

By columns: see `by_columns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import polars as pl

from polars_rank._params import OWN, check_name, check_type, described, missing_column
from polars_rank.checks import FAILED, Check, checks_of, failed, raise_failed
from polars_rank.columns import RANKED
from polars_rank.definitions import Definition, Ordering
from polars_rank.errors import ArgumentError, SchemaError, hint
from polars_rank.evaluation.by_columns import (
    REPEATED,
    ROW,
    ColumnStages,
    Positions,
    columns_are_faster,
    table_of_positions,
)
from polars_rank.evaluation.by_rows import RowStages, by_rows
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.log_checks import unscored_check, weight_check
from polars_rank.evaluation.order import PackedKey, first_position, key_of_columns
from polars_rank.evaluation.ranking import DOCUMENT, in_rank_order, ranked_table, rows_of_rankings
from polars_rank.evaluation.stages import FACTS, JUDGED, MATCHED, RETRIEVED, TIED, Needs
from polars_rank.frames.batches import deferred, in_batches
from polars_rank.frames.layouts import Lengths, in_order, is_read_before, lengths_of
from polars_rank.metrics import analyses
from polars_rank.metrics.expectations import expectation, has_reverse, reverse
from polars_rank.metrics.metric import FILLED, REGISTER, Metric, parameters_of, tree_of
from polars_rank.metrics.names import named_in
from polars_rank.metrics.nodes import Value

#: What joins a column of another table to the log, by the parameter of a metric that names the
#: column.
_JOINS = {
    **dict.fromkeys(
        ("share", "users", "interactions", "long_tail", "features", "category"),
        'log.join(items, on={doc}, how="left", maintain_order="left")',
    ),
    **{
        parameter: f"log.join({table}.select({{keys}}, {{name}}=True).unique(), on=[{{keys}}], "
        'how="left", maintain_order="left")'
        for parameter, table in (("seen", "history"), ("forbidden", "forbidden"))
    },
    "history": (
        "log.join(history.join(items, on={doc}).group_by({query}).agg({name}={category}), "
        'on=[{query}], how="left", maintain_order="left")'
    ),
}


def per_query(log: Log) -> pl.LazyFrame:
    """Return one row per ranking: keys, kept columns, facts, and metrics.

    The facts are columns of `FACTS`. The log is read once for each order of documents.
    """
    lengths = lengths_of(log.table, log.columns.keys)
    metrics: dict[Ordering, list[Definition]] = {}
    every = [each.ordering for each in log.definitions]
    for ordering, column in zip(every, log.definitions, strict=True):
        # The best order of tied documents is the reverse of the worst one.
        worst = ordering._replace(ties="worst")
        reverse = ordering.ties == "best" and worst in every and has_reverse(column.metric)
        metrics.setdefault(worst if reverse else ordering, []).append(column)
    facts = [JUDGED, RETRIEVED, MATCHED, *([TIED] if log.breaks_ties_by_id else [])]
    tables: list[pl.LazyFrame] = []
    for ordering, alike in metrics.items():
        # The first table has the facts, and warns about columns that no parameter names.
        unnamed = () if tables else log.columns.unnamed
        columns = log.columns._replace(unnamed=unnamed)
        own = replace(log, ordering=ordering, definitions=alike, columns=columns)
        tables.append(_table(own, lengths, [] if tables else facts))
    if len(tables) == 1:
        return tables[0]
    # All tables have the same rankings in the same order.
    names = [[column.name for column in alike] for alike in metrics.values()]
    others = [table.select(own) for table, own in zip(tables[1:], names[1:], strict=True)]
    leading = [*log.columns.keys, *log.kept.values(), *facts]
    together = pl.concat([tables[0], *others], how="horizontal")
    return together.select(*leading, *(column.name for column in log.definitions))


def _table(log: Log, lengths: Lengths | None, facts: Sequence[str]) -> pl.LazyFrame:
    """Return the per-query table of metrics with the same order of documents."""
    ordering = log.ordering
    values = [_value(column, log) for column in log.definitions]
    key = None
    if all(map(analyses.fits_columns, values)):
        key = key_of_columns(ordering, log.canonical, ROW)

    def table(log: Log, lengths: Lengths | None) -> pl.LazyFrame:
        if lengths is not None and columns_are_faster(lengths) and key is not None:
            stages = Positions(values, lengths.longest, log).stages()
            return _by_columns(log, stages, key, facts)
        rows = by_rows((*values,), ordering.rel, whole_labels=log.whole_labels)
        return _by_rows(log, rows, facts)

    result, is_known = table(log, lengths), lengths is not None or log.keys.number is not None
    if is_known or key is None or not is_read_before(log.table, log.columns.keys):
        return result

    def chosen() -> pl.LazyFrame:
        columns = log.columns
        read = [columns.doc, columns.score, columns.label, *columns.unnamed, *log.kept.values()]
        names = [*dict.fromkeys(name for name in (*columns.keys, *read) if name is not None)]
        rows, lengths = in_order(log.table.select(names), columns.keys)
        return table(replace(log, table=rows), lengths)

    # The rows are sorted, and rankings are counted, when the result is collected.
    return deferred(chosen, result.collect_schema(), "RANKINGS")


def _by_columns(
    log: Log, stages: ColumnStages, key: PackedKey, facts: Sequence[str]
) -> pl.LazyFrame:
    """Return the per-query table, computed from one column per position."""
    log = _with_inputs(log, stages.needs, set())
    message = (
        f"a ranking has more than {stages.length} documents, the maximum when the log was scanned; "
        "scan the log again"
    )
    others = [*log.checks_of_others, Check("ranking", pl.len() > stages.length, message)]
    log = replace(log, checks_of_others=others, repeated=REPEATED)
    counts = _named({name: FACTS[name] for name in (JUDGED, RETRIEVED)})
    kept = [pl.col(own).first() for own in log.kept]
    table = table_of_positions(log, [*kept, *counts], key, stages)
    result = table.select(*_result(log, map(pl.col, facts), stages.values), FAILED)
    return log.checked(result, named=True)


def _by_rows(log: Log, stages: RowStages, facts: Sequence[str]) -> pl.LazyFrame:
    """Return the per-query table, computed from one row per document."""
    reads = stages.reads
    read = {name for each in stages.rankings.values() for name in each.meta.root_names()}
    log = _with_inputs(log, stages.needs, reads.columns | read)
    keys, kept = log.keys, [pl.col(own).first() for own in log.kept]
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
    return table.select(_result(log, map(pl.col, facts), stages.values))


def _named(values: Mapping[str, pl.Expr]) -> list[pl.Expr]:
    return [value.alias(name) for name, value in values.items()]


def _result(log: Log, facts: Iterable[pl.Expr], values: Sequence[pl.Expr]) -> list[pl.Expr]:
    """Return the columns of the per-query table, under the user's names."""
    names = [column.name for column in log.definitions]
    kept = [pl.col(own).alias(name) for own, name in log.kept.items()]
    metrics = _named(dict(zip(names, values, strict=True)))
    return [*log.keys.named, *kept, *facts, *metrics]


def _value(column: Definition, log: Log) -> Value:
    """Return the tree of a metric that follows its conventions about ties."""
    metric, ties = column.metric, column.conventions.ties
    if not isinstance(metric, Metric):
        _check_expression(column)
    if ties == "expected":
        return expectation(metric, whole_labels=log.whole_labels)
    tree = tree_of(metric)
    return reverse(tree) if ties == "best" != log.ordering.ties else tree


def _check_expression(column: Definition) -> None:
    """Raise `ArgumentError` for an expression that does not follow the conventions."""
    metric, conventions = column.metric, column.conventions
    is_decided = isinstance(conventions.undefined, Mapping) and column.name in conventions.undefined
    for full_name, leaf in named_in(metric).items():
        name, filled, _ = full_name.partition(FILLED)
        counts = {"zero": 0, "one": 1}.get(conventions.counts_as(leaf))
        can_be_null = (
            REGISTER[leaf.function.__name__].undefined is not None or "irrelevant=" in name
        )
        # A rule for a column that has the name of the metric is one for the metric.
        is_open = not filled and (not is_decided or name == column.name)
        if can_be_null and is_open and counts is not None:
            raise ArgumentError(
                f"expression {column.name!r} contains the metric {name} in a function of Polars, "
                f"which would not count undefined values as {counts} (`undefined`); write "
                f".fill_null({counts}) after the metric, or pass undefined='skip'"
            )
    reads = metric.meta.root_names()
    if any(name.startswith(OWN) for name in reads):
        raise ArgumentError(
            f"expression {column.name!r} reads internal columns, {reads}; read columns of the "
            "ranked table instead"
        )


def _with_inputs(log: Log, needs: Needs, reads: AbstractSet[str]) -> Log:
    """Return the log with the other columns that metrics read.

    `reads` are the columns of the ranked table and of the log that the metrics read.
    """
    canonical = {"score", "label", *RANKED, *([] if log.columns.doc is None else ["doc"])}
    extras = sorted(name for name in reads - canonical if not name.startswith(OWN))
    for name in extras:
        if name not in log.columns.schema:
            raise _missing(name, log)
        check_name(name)
    for column in needs.columns:
        if column.kind != "as is":
            check_type(column.parameter, column.name, log.columns.schema[column.name], "number")
    read = {**log.kept, **{name: name for name in extras}}
    others = {own: pl.col(name) for own, name in read.items()}
    if DOCUMENT in reads:
        others[DOCUMENT] = log.columns.is_document
    return replace(log, others=others, refusals=needs.refused, checks_of_others=_checks(log, needs))


def _checks(log: Log, needs: Needs) -> list[Check]:
    """Return the checks of the columns that metrics read."""
    columns = log.columns
    checks: list[Check] = []
    for column in needs.columns:
        checks += checks_of("row", analyses.invalid_values(column))
    if log.weight is not None:
        weight = pl.col(log.weight).cast(pl.Float64)
        checks.append(weight_check(f"{log.weight!r} (`weight`)", weight))
    for own, name in log.kept.items():
        problem = "has several values in a ranking; add it to `by`, or leave it out"
        checks.append(Check("ranking", pl.col(own).n_unique() > 1, f"column {name!r} {problem}"))
    if log.canonical.schema["label"].is_float() and any(
        column.conventions.rel == 1 and analyses.has_threshold(tree_of(column.metric))
        for column in log.definitions
    ):
        message = (
            f"{described(columns.label_parameter, columns.label)} has fractions, and the highest "
            "label of some rankings is between 0 and 1: no document counts as relevant, because "
            "labels are relevant from 1 on; pass the lowest relevant label as `rel`"
        )
        highest = pl.col("label").max()
        checks.append(Check("ranking", (highest > 0) & (highest < 1), message, warns=True))
    return checks + [
        unscored_check(
            str(leaf),
            column.conventions.rel if rel is None else rel,
            columns.score_parameter,
            columns.score,
        )
        for column in log.definitions
        if isinstance(column.metric, Metric)
        for leaf in column.metric.leaves
        for rel in analyses.of_scored_documents(leaf.tree)
    ]


def _missing(name: str, log: Log) -> SchemaError:
    """Return the error for a column that a metric reads and the log lacks."""
    available = [column for column in log.columns.schema if not column.startswith(OWN)]
    metrics = [each.metric for each in log.definitions]
    leaves = [leaf for each in metrics if isinstance(each, Metric) for leaf in each.leaves]
    for leaf in leaves:
        for parameter, value in {**parameters_of(leaf), **leaf.arguments}.items():
            if value == name and isinstance(value, str):
                similar = next((each for each in available if parameter in each.lower()), "...")
                metric = leaf.but(**{parameter: similar})
                advice = f' Name the column in the metric: "{metric}"'
                if parameter in _JOINS:
                    columns = log.columns
                    doc = repr(columns.doc or "doc")
                    query = ", ".join(map(repr, columns.query))
                    joined = _JOINS[parameter].format(
                        doc=doc, query=query, keys=f"{query}, {doc}", name=name,
                        category=repr(leaf.arguments.get("category", "category")),
                    )  # fmt: skip
                    advice += f"; or join it: {joined}"
                return missing_column(f"`{parameter}` of {leaf}", name, available, advice=advice)
    there = [*RANKED, *available]
    return SchemaError(
        f"a metric (`metrics`) reads the column {name!r}, but the ranked table has "
        f"{', '.join(map(repr, there))}.{hint(name, there)}"
    )
