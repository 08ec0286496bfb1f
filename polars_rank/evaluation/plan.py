"""The per-query table of a log, as one lazy plan.

The plan has one of two forms. Both stream in flat memory if the rows of each ranking are adjacent.

By rows: each ranking is sorted once, with only the columns that metrics read. The rankings are
exploded into the ranked table, the terms that metrics share become columns of this table, and the
columns are summed per ranking.

By columns: see `wide`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import FAILED, Check, failed, failed_in_ranking, raise_failed
from polars_rank.columns import Columns, is_relevant
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.by_columns import ColumnStages, by_columns
from polars_rank.evaluation.by_rows import (
    DOCUMENT,
    IDEAL_LABEL,
    POSITION,
    TIE_COLUMNS,
    RowStages,
    by_rows,
)
from polars_rank.evaluation.checks import length_check
from polars_rank.evaluation.judges import of_judges
from polars_rank.evaluation.order import INTEGERS, key_of_columns, rank_order
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.evaluation.rows import (
    TIED,
    Plan,
    Rules,
    canonical_columns,
    checks,
    facts_of,
    rows,
)
from polars_rank.evaluation.stages import LogFacts
from polars_rank.evaluation.wide import (
    REPEATED,
    ROW,
    Documents,
    columns_are_faster,
    presence,
    table_of_positions,
)
from polars_rank.frames.batches import in_batches
from polars_rank.frames.lengths import Lengths, lengths_of
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.analyses import fits_columns
from polars_rank.metrics.expectations import expectation
from polars_rank.metrics.expressions import IS_RETRIEVED
from polars_rank.metrics.metric import Metric, made_of, tree_of
from polars_rank.metrics.names import metric as read_metric
from polars_rank.metrics.nodes import Value
from polars_rank.metrics.ties import has_reverse, reverse

_LABEL, _SCORE = pl.col("label"), pl.col("score")
_ROW, _ROWS = OWN + "row", OWN + "rows"
_ROW_NUMBER, _RETRIEVED = OWN + "number of the row", OWN + "is retrieved"

# Columns that all plans share.
_IS_RETRIEVED = _SCORE.is_not_null().alias(_RETRIEVED)
_POSITIONS = pl.int_ranges(1, pl.col(_ROWS) + 1, dtype=pl.UInt32).alias(POSITION)
_RANK = pl.when(_RETRIEVED).then(POSITION).alias("rank")


def per_query(frame: pl.LazyFrame, evaluation: Evaluation) -> pl.LazyFrame:
    """Return one row per ranking: keys, kept columns, facts, and metrics.

    The facts are those of `facts_of`. The log is read once for each column of labels and each set
    of rules by which metrics order documents. With several labels, there is one row per ranking and
    judge.
    """
    logs = [(part, *part.read(frame)) for part in evaluation.of_labels]
    _, log, columns = logs[0]
    if evaluation.scores is None:
        lengths = lengths_of(log, columns.keys)
    else:  # each run has the rows of the log
        lengths = lengths_of(frame, [key for key in columns.keys if key != columns.run])
    tables: list[pl.LazyFrame] = []
    for part, log, columns in logs:
        # The first table warns about columns that no parameter names.
        known = columns._replace(unnamed=()) if tables else columns
        tables.append(_of_label(log, known, part, lengths))
    return tables[0] if evaluation.labels is None else of_judges(tables, evaluation)


def _of_label(
    log: pl.LazyFrame, columns: Columns, evaluation: Evaluation, lengths: Lengths | None
) -> pl.LazyFrame:
    """Return the per-query table of a log with one column of labels."""
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
        facts = [] if tables else facts_of(evaluation)
        tables.append(_table(log, columns, part, rules, lengths, facts))
        columns = columns._replace(unnamed=())
    if len(tables) == 1:
        return tables[0]
    # All tables have the same rankings in the same order.
    names = [[column.name for column in alike] for alike in metrics.values()]
    others = [table.select(own) for table, own in zip(tables[1:], names[1:], strict=True)]
    leading = [*columns.keys, *evaluation.kept.values(), *facts_of(evaluation)]
    together = pl.concat([tables[0], *others], how="horizontal")
    return together.select(*leading, *(column.name for column in evaluation.metrics))


def _table(
    log: pl.LazyFrame,
    columns: Columns,
    evaluation: Evaluation,
    rules: Rules,
    lengths: Lengths | None,
    facts: Sequence[str],
) -> pl.LazyFrame:
    """Return the per-query table of metrics with the same rules."""
    canonical = canonical_columns(columns, rules)
    about = LogFacts(
        whole_labels=canonical.schema[canonical.label] in INTEGERS,
        placed=columns.placed,
        attributes=[] if evaluation.items is None else schema_of(evaluation.items).names(),
    )
    values = [_value(column, rules, about) for column in evaluation.metrics]
    # Attributes are read by rows.
    fits = evaluation.items is None and all(map(fits_columns, values))
    if lengths is not None and columns_are_faster(lengths) and fits:
        key = key_of_columns(rules.ties, canonical, text_ids=rules.text_ids, row=ROW)
        if key is not None:
            columns_by_position = by_columns(values, lengths.longest, rules.rel, about)
            plan = Plan.of(log, columns, evaluation, rules, columns_by_position, facts)
            return _by_columns(plan, columns_by_position, Documents(canonical, key))
    stages = by_rows(values, about)
    return _by_rows(Plan.of(log, columns, evaluation, rules, stages, facts), stages)


def _by_columns(plan: Plan, stages: ColumnStages, documents: Documents) -> pl.LazyFrame:
    """Return the per-query table, computed from one column per position."""
    checked = [*checks(plan, REPEATED), length_check(stages.length)]
    tied = [fact.alias(TIED) for name, fact in plan.facts.items() if name == TIED]
    table = table_of_positions(
        rows(plan, checked), documents, stages,
        group=plan.keys.group, carried=[*plan.carried, *tied], checks=checked,
    )  # fmt: skip
    of_positions = {**presence(stages.length), TIED: pl.col(TIED)}
    facts = [of_positions[name].alias(name) for name in plan.facts]
    table = table.select(*plan.leading, *facts, *_named(plan, stages.values), FAILED)
    return raise_failed(table, checked, log=plan.log, keys={name: name for name in plan.keys.names})


def _named(plan: Plan, values: Sequence[pl.Expr]) -> list[pl.Expr]:
    """Return values under the names of their metrics."""
    metrics = plan.evaluation.metrics
    return [value.alias(column.name) for value, column in zip(values, metrics, strict=True)]


def _by_rows(plan: Plan, stages: RowStages) -> pl.LazyFrame:
    """Return the per-query table, computed from one row per document."""
    keys, checked = plan.keys, checks(plan)
    documents = rows(plan, checked)
    of_ranking = {**plan.facts, FAILED: failed_in_ranking(checked)}
    if plan.needs.ordered:
        rankings = raise_failed(
            _sorted(documents, plan, of_ranking), checked, log=plan.log, keys=keys.names
        )
        tied = _reads_ties(plan)
        if tied:
            # Terms of tied documents read other rows, for which the streaming engine would hold
            # rows back. A ranking has all rows that the terms read.
            documents = in_batches(rankings, partial(_ranked_table, plan=plan, stages=stages))
            documents = documents.set_sorted(keys.group)
        else:
            documents = _ranked_table(rankings, plan, stages)
        of_ranking = {name: pl.col(name).first() for name in plan.facts}
    else:
        # No metric reads the order of documents: rankings are not sorted.
        relevant = is_relevant(_LABEL, plan.rules.rel).alias("relevant")
        rank = pl.when(_SCORE.is_not_null()).then(1).alias("rank")
        documents = documents.with_columns(relevant, rank).with_columns(**stages.rows)
    table = documents.group_by(keys.group, maintain_order=True).agg(
        *plan.carried, *stages.gathered, **of_ranking, **stages.folds
    )
    if not plan.needs.ordered:
        table = raise_failed(table, checked, log=plan.log, keys=keys.names)
    if stages.items and plan.evaluation.items is not None:
        of_items = plan.evaluation.items.select(**stages.items)
        table = table.join(of_items, how="cross", maintain_order="left")
    for stage in stages.sums:
        table = table.with_columns(**stage) if stage else table
    if stages.required:
        required = [
            Check("ranking", ~each.fill_null(value=False), problem)
            for problem, each in stages.required.items()
        ]
        flagged = table.with_columns(failed(required, "ranking"))
        table = raise_failed(flagged, required, keys=keys.names)
    return table.select(*plan.leading, *plan.facts, *_named(plan, stages.values))


def _reads_ties(plan: Plan) -> bool:
    return not plan.reads.isdisjoint(TIE_COLUMNS.values())


def _sorted(documents: pl.LazyFrame, plan: Plan, of_ranking: Mapping[str, pl.Expr]) -> pl.LazyFrame:
    """Return one row per ranking with its documents in rank order, up to the depth of metrics."""
    depth, rules = plan.needs.depth, plan.rules
    reads = {*plan.reads, "score"} if _reads_ties(plan) else plan.reads
    document = [name for name in ("score", "doc", DOCUMENT) if name in reads] + plan.extras
    canonical = canonical_columns(plan.columns, rules)
    only_label = {*document} <= {"score"}
    order = rank_order(rules.ties, canonical, only_label=only_label, text_ids=rules.text_ids)
    row = pl.struct("label", *document, _IS_RETRIEVED)
    parts = {_ROW: row.sort_by(**order)}
    if IDEAL_LABEL in plan.reads:
        parts[IDEAL_LABEL] = _LABEL.sort(descending=True, nulls_last=True)
    number = pl.len()
    if depth is not None:
        parts = {name: values.head(depth) for name, values in parts.items()}
        number = number.clip(upper_bound=depth)
    parts[_ROWS] = number
    # Numbers of relevant documents, which give the running count at the start of each ranking.
    for name, rel in plan.hits.items():
        parts[name] = is_relevant(_LABEL, rules.rel if rel is None else rel).sum()
    rankings = documents.group_by(plan.keys.group, maintain_order=True).agg(
        *plan.carried, **of_ranking, **parts
    )
    if "ideal_rank" not in plan.reads:
        return rankings
    ideal_rank = pl.element().struct.field("label").rank("ordinal", descending=True)
    return rankings.with_columns(pl.col(_ROW).list.eval(ideal_rank).alias("ideal_rank"))


def _ranked_table(rankings: pl.LazyFrame, plan: Plan, stages: RowStages) -> pl.LazyFrame:
    """Return the ranked table with terms of metrics: one row per document, in rank order.

    Hits are running counts over all rows minus the counts at the start of the ranking. A count per
    ranking would take three times as long for short rankings.
    """
    hits, reads, lowest = plan.hits, plan.reads, plan.rules.rel
    nested = [_ROW, *(name for name in (IDEAL_LABEL, "ideal_rank") if name in reads), POSITION]
    columns = [_RANK]
    if "relevant" in reads:
        columns.append(is_relevant(_LABEL, lowest).alias("relevant"))
    for name, rel in hits.items():
        is_hit = is_relevant(_LABEL, lowest if rel is None else rel)
        columns.append((is_hit.cum_sum() - pl.col(name)).alias(name))
    ranked = (
        rankings.with_columns(
            _POSITIONS,
            *(pl.col(name).cum_sum() - pl.col(name) for name in hits),
        )
        .explode(nested)
        .unnest(_ROW)
        .set_sorted(plan.keys.group)
        .with_columns(columns)
    )
    if "hits" in reads:
        ranked = ranked.with_columns(pl.when(IS_RETRIEVED).then("hits").alias("hits"))
    if _reads_ties(plan):
        ranked = _with_ties(ranked)
    if stages.ties:
        ranked = ranked.with_columns(**stages.ties)
    return ranked.with_columns(**stages.rows)


def _with_ties(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the positions of the first and last document tied with each document."""
    position, row = pl.col(POSITION), pl.col(_ROW_NUMBER)
    begin, end = pl.col(TIE_COLUMNS["begin"]), pl.col(TIE_COLUMNS["end"])
    begins = (position == 1) | _SCORE.ne_missing(_SCORE.shift(1))
    return (
        rows.with_columns(begins.alias(TIE_COLUMNS["begin"]))
        .with_columns(
            pl.int_range(pl.len(), dtype=pl.UInt32).alias(_ROW_NUMBER),
            begin.shift(-1, fill_value=True).alias(TIE_COLUMNS["end"]),
        )
        .with_columns(
            pl.when(begin).then(row).forward_fill().alias(TIE_COLUMNS["begin"]),
            pl.when(end).then(row).backward_fill().alias(TIE_COLUMNS["end"]),
        )
        .with_columns(
            (position + begin - row).alias(TIE_COLUMNS["first"]),
            (position + end - row).alias(TIE_COLUMNS["last"]),
            (begin + end - row).alias(TIE_COLUMNS["reverse"]),
        )
    )


def _value(column: MetricColumn, rules: Rules, facts: LogFacts) -> Value:
    """Return the tree of a metric that follows its conventions about ties."""
    metric, ties = column.metric, column.conventions.ties
    if not isinstance(metric, Metric):
        _check_expression(column)
    if ties == "expected":
        return expectation(metric, whole_labels=facts.whole_labels)
    tree = tree_of(metric)
    return reverse(tree) if ties == "best" != rules.ties else tree


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
