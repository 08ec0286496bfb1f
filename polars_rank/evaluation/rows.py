"""The rows of a log under canonical names, ranking by ranking, with checks.

A `Plan` describes one pass over a log: metrics that order documents by the same rules, and the
columns that they read. Metrics with other rules need another plan.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_name, check_type, missing_column
from polars_rank._progress import known_rows, watch
from polars_rank.columns import RANKED, Columns
from polars_rank.conventions import Conventions, Duplicates, Ties, Unjudged
from polars_rank.errors import SchemaError, hint
from polars_rank.evaluation.attributes import IN_ITEMS, UNKNOWN
from polars_rank.evaluation.by_columns import ColumnStages
from polars_rank.evaluation.by_rows import DOCUMENT, RowStages
from polars_rank.evaluation.checks import (
    Check,
    checks_of,
    conflict_check,
    constant_check,
    duplicate_check,
    failed,
    row_checks,
    unnamed_checks,
    unscored_check,
    weight_check,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.corrections import CORRECTION_COLUMNS
from polars_rank.evaluation.order import CONFLICT, best_of_each, conflict_with
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.evaluation.stages import Needs
from polars_rank.metrics.analyses import of_scored_documents
from polars_rank.metrics.metric import Metric, parameters_of
from polars_rank.metrics.user_columns import invalid_values

if TYPE_CHECKING:
    from collections.abc import Sequence

#: The largest 32-bit float.
_LARGEST_32 = (2 - 2**-23) * 2.0**127

#: Columns that say whether a ranking has judged documents, how many are retrieved, and whether any
#: document is both.
JUDGED, RETRIEVED, MATCHED = OWN + "judged", OWN + "retrieved", OWN + "matched"
#: Column that says whether all retrieved documents have the same score; null for fewer than two.
TIED = OWN + "tied"
#: The scores of a ranking. Extremes of lists take a tenth of the time of those of groups.
_SCORES = pl.col("score").implode().list

#: What each ranking has besides metrics, as aggregations.
_FACTS = {
    JUDGED: pl.col("label").count() > 0,
    RETRIEVED: pl.col("score").is_not_null().sum(),
    MATCHED: (pl.col("label").is_not_null() & pl.col("score").is_not_null()).any(),
    UNKNOWN: (pl.col(IN_ITEMS).is_null() & pl.col("score").is_not_null()).sum(),
    TIED: pl.when(pl.col("score").count() > 1).then(_SCORES.min() == _SCORES.max()),
}

#: The parameter of the table that has a column, by the parameter of a metric that names the column.
_SOURCES = {
    **dict.fromkeys(
        ("share", "users", "interactions", "long_tail", "features", "category"), "items"
    ),
    **dict.fromkeys(("seen", "history"), "history"),
}

_ROW = OWN + "row"
#: Column of the number of a row in its ranking, in the order of the log.
_ROW_NUMBER = OWN + "place"
#: Column that says whether a row is not the first one of its document.
_LATER = OWN + "later copy"


class Rules(NamedTuple):
    """The rules that order the documents of a ranking and interpret their labels."""

    ties: Ties | None
    rel: float
    unjudged: Unjudged = "nonrelevant"
    float32_scores: bool = False
    text_ids: bool = False
    duplicates: Duplicates = "error"

    @classmethod
    def of(cls, own: Conventions) -> Rules:
        """Return the rules of a metric with these conventions."""
        # The mean over all orders does not depend on the order; "worst" needs no document ids.
        ties: Ties | None = "worst" if own.ties == "expected" else own.ties
        return cls(
            ties, own.rel, own.unjudged, own.float32_scores, own.text_ids,
            own.duplicates,
        )  # fmt: skip

    def merges_copies(self, columns: Columns) -> bool:
        """Whether one row of each document is kept, so that rows have the column `CONFLICT`."""
        return columns.doc is not None and self.duplicates != "error"

    @property
    def changes_scores(self) -> bool:
        """Whether the score that ranks documents may differ from the score of the log."""
        return self.float32_scores or self.unjudged == "removed"

    def score(self, columns: Columns) -> pl.Expr:
        """Return the score that ranks documents; null if a document is not retrieved."""
        score = columns.number(columns.score)
        if self.float32_scores:
            # A score must not become infinite: -inf is the score of documents not retrieved.
            score = score.cast(pl.Float64).clip(-_LARGEST_32, _LARGEST_32).cast(pl.Float32)
        if self.unjudged == "removed":
            # The row remains, so that a ranking that loses all its documents counts.
            score = pl.when(pl.col(columns.label).is_not_null()).then(score)
        return score

    def score_type(self, columns: Columns) -> pl.DataType:
        """Return the type of `score`."""
        return pl.Float32() if self.float32_scores else columns.number_type(columns.score)


class Plan(NamedTuple):
    """One pass over a log, for metrics that order documents by the same rules."""

    log: pl.LazyFrame
    #: The columns of the log.
    columns: Columns
    evaluation: Evaluation
    rules: Rules
    #: What the metrics need.
    needs: Needs
    #: The keys of rankings.
    keys: Keys
    #: The columns of the ranked table that the metrics read.
    reads: set[str]
    #: The columns of the log that the metrics read, beyond the canonical ones.
    extras: list[str]
    #: The columns of running counts of hits, with the lowest relevant label; None for that of the
    #: rules.
    hits: dict[str, float | None]
    #: The columns that have one value per ranking, as aggregations.
    carried: list[pl.Expr]
    #: What each ranking has besides metrics, as aggregations.
    facts: dict[str, pl.Expr]
    #: The columns of the result before the metrics, under the user's names.
    leading: list[pl.Expr]

    @classmethod
    def of(
        cls,
        log: pl.LazyFrame,
        columns: Columns,
        evaluation: Evaluation,
        rules: Rules,
        stages: RowStages | ColumnStages,
        facts: Sequence[str],
    ) -> Plan:
        """Return the plan of the metrics that have these stages, with some of the facts."""
        keys, kept, needs = Keys.of(columns), evaluation.kept, stages.needs
        reads: set[str] = set()
        lowest: dict[str, float | None] = {}
        if isinstance(stages, RowStages):
            reads, lowest = stages.reads, stages.hits
        canonical = {"score", "label", *RANKED, *([] if columns.doc is None else ["doc"])}
        extras = sorted(
            name
            for name in reads - canonical
            if not name.startswith(OWN) or name in CORRECTION_COLUMNS
        )
        if "hits" in reads:
            lowest = {**lowest, "hits": None}
        once = [name for name in keys.names.values() if name not in keys.group]
        carried = [pl.col(name).first() for name in (*once, *kept)]
        of_ranking = {name: _FACTS[name] for name in facts}
        if TIED in of_ranking and columns.doc is None:
            of_ranking[TIED] = pl.lit(None, dtype=pl.Boolean)
        names = {own: name for name, own in keys.names.items()} | kept
        leading = [pl.col(own).alias(name) for own, name in names.items()]
        plan = cls(
            log, columns, evaluation, rules, needs,
            keys, reads, extras, lowest, carried, of_ranking, leading,
        )  # fmt: skip
        if extras or needs.columns:
            _check_extras(plan)
        return plan


def facts_of(evaluation: Evaluation) -> list[str]:
    """Return the columns of the per-query table besides keys, kept columns and metrics."""
    return [
        JUDGED,
        RETRIEVED,
        MATCHED,
        *([UNKNOWN] if evaluation.items is not None else []),
        *([TIED] if evaluation.breaks_ties_by_id else []),
    ]


def canonical_columns(columns: Columns, rules: Rules) -> Columns:
    """Return the columns under canonical names, with their types in the ranked table."""
    types = {
        "score": rules.score_type(columns),
        "label": columns.number_type(columns.label),
    }
    doc = None if columns.doc is None else "doc"
    if columns.doc is not None:
        types["doc"] = columns.schema[columns.doc]
    return columns._replace(doc=doc, score="score", label="label", schema=pl.Schema(types))


def checks(plan: Plan, repeated: pl.Expr | None = None) -> list[Check]:
    """Return the checks of rows and rankings.

    `repeated` is the condition that a ranking has a document more than once.
    """
    columns, evaluation = plan.columns, plan.evaluation
    all_checks = row_checks(columns, plan.needs.refused)
    problems: dict[str, pl.Expr] = {}
    for column in plan.needs.columns:
        problems |= invalid_values(column)
    all_checks += checks_of("row", problems)
    if evaluation.weight is not None:
        weight = pl.col(evaluation.weight).cast(pl.Float64)
        all_checks.append(weight_check(f"{evaluation.weight!r} (`weight`)", weight))
    if evaluation.correction is not None:
        all_checks += evaluation.correction.checks(plan.needs.refused)
    if columns.doc is not None and plan.rules.duplicates == "error":
        all_checks.append(duplicate_check(columns, "doc", repeated=repeated))
    if plan.rules.merges_copies(columns):
        all_checks.append(conflict_check(columns))
    all_checks += [
        unscored_check(
            str(leaf),
            column.conventions.rel if rel is None else rel,
            columns.score_parameter,
            columns.score,
        )
        for column in evaluation.metrics
        if isinstance(column.metric, Metric)
        for leaf in column.metric.leaves
        for rel in of_scored_documents(leaf.tree)
    ]
    all_checks += [constant_check(name, own) for own, name in evaluation.kept.items()]
    return [*all_checks, *unnamed_checks(columns)]


def rows(plan: Plan, checked: list[Check]) -> pl.LazyFrame:
    """Return the rows of the log, ranking by ranking, with the number of a failed check."""
    columns, evaluation, rules, keys = plan.columns, plan.evaluation, plan.rules, plan.keys
    merges_copies = rules.merges_copies(columns)
    extras = [pl.col(name) for name in plan.extras]
    selected: list[pl.Expr | str] = [
        *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
        rules.score(columns).alias("score"),
        columns.number(columns.label).alias("label"),
        *([CONFLICT] if merges_copies else []),
        *(pl.col(name).alias(own) for own, name in evaluation.kept.items()),
        *(pl.col(name).alias(OWN + name) for name in columns.unnamed),
        *extras,
        *([IN_ITEMS] if evaluation.items is not None else []),
        *([columns.is_document.alias(DOCUMENT)] if DOCUMENT in plan.reads else []),
        failed(checked, "row"),
    ]
    change = partial(_without_copies, plan) if merges_copies else None
    adjacent = keys.rows(plan.log, selected, change)
    if evaluation.progress:  # after the sort: the bar hides from Polars that a log is sorted
        return watch(adjacent, known_rows(plan.log)).set_sorted(keys.group)
    return adjacent


def _check_extras(plan: Plan) -> None:
    """Raise `SchemaError` for columns of the log that metrics cannot read."""
    schema = plan.columns.schema
    for name in plan.extras:
        if name not in schema:
            raise _missing(name, plan)
        check_name(name)
    for column in plan.needs.columns:
        if column.kind != "as is":
            check_type(column.parameter, column.name, schema[column.name], "number")


def _missing(name: str, plan: Plan) -> SchemaError:
    """Return the error for a column that a metric reads and the log lacks."""
    available = [column for column in plan.columns.schema if not column.startswith(OWN)]
    metrics = [each.metric for each in plan.evaluation.metrics]
    leaves = [leaf for each in metrics if isinstance(each, Metric) for leaf in each.leaves]
    for leaf in leaves:
        for parameter, value in {**parameters_of(leaf), **leaf.arguments}.items():
            if value == name and isinstance(value, str):
                similar = next((each for each in available if parameter in each.lower()), "...")
                table = _SOURCES.get(parameter)
                joined = f"Pass a table with it as `{table}`, or name" if table else "Name"
                metric = leaf.but(**{parameter: similar})
                return missing_column(
                    f"`{parameter}` of {leaf}", name, available,
                    advice=f' {joined} the column in the metric: "{metric}"',
                )  # fmt: skip
    there = [*RANKED, *available]
    return SchemaError(
        f"a metric (`metrics`) reads the column {name!r}, but the ranked table has "
        f"{', '.join(map(repr, there))}.{hint(name, there)}"
    )


def _without_copies(plan: Plan, log: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row of each document: the one with the highest score, or the first one.

    A row in `CONFLICT` with another copy is not dropped. With `ties="input"`, the rows keep their
    order; otherwise, they are by document.
    """
    columns, keys, rules = plan.columns, plan.keys, plan.rules
    used = [*columns.keys, str(columns.doc), columns.score, columns.label]
    used += [*plan.extras, *plan.evaluation.kept.values(), *columns.unnamed]
    used += [] if keys.number is None else [keys.number]
    used += [IN_ITEMS] if plan.evaluation.items is not None else []
    others = [name for name in dict.fromkeys(used) if name not in keys.order]
    is_input = rules.ties == "input"
    number = [pl.int_range(pl.len()).alias(_ROW_NUMBER)] * is_input
    row = pl.struct(*others, *number).sort_by(**best_of_each(columns, rules.duplicates))
    same = [
        pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (*keys.order, str(columns.doc))
    ]
    later = pl.all_horizontal(same).fill_null(value=False)
    conflict = conflict_with(pl.Expr.shift, columns)
    documents = (
        _of_each_ranking(log.select(*keys.order, *others), row, keys)
        .with_columns(later.alias(_LATER), (later & conflict).alias(CONFLICT))
        .filter(~pl.col(_LATER) | pl.col(CONFLICT))
    )
    if is_input:
        in_order = pl.struct(*others, CONFLICT).sort_by(_ROW_NUMBER)
        documents = _of_each_ranking(documents, in_order, keys)
    return documents.set_sorted(keys.order)


def _of_each_ranking(log: pl.LazyFrame, row: pl.Expr, keys: Keys) -> pl.LazyFrame:
    """Return the keys and the rows of each ranking; `row` aggregates their columns to structs."""
    return (
        log.set_sorted(keys.order)
        .group_by(keys.order, maintain_order=True)
        .agg(row.alias(_ROW))
        .explode(_ROW)
        .unnest(_ROW)
    )
