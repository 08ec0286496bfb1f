"""The log: a table of rankings, its columns, and the rules by which documents are ordered.

Everything that reads rankings reads the rows of a `Log`, ranking by ranking under canonical names,
with the numbers of failed checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank._progress import known_rows, watch
from polars_rank.checks import Check, failed, failed_in_ranking, raise_failed
from polars_rank.columns import RUN, Columns
from polars_rank.evaluation.checks import (
    DUPLICATES_REMEDY,
    conflict_check,
    duplicate_check,
    row_checks,
    unnamed_checks,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.order import CONFLICT, INTEGERS, Order, best_of_each, rank_order
from polars_rank.evaluation.runs import with_known_runs
from polars_rank.frames.batches import in_batches

if TYPE_CHECKING:
    from polars_rank.conventions import Conventions, Duplicates, Ties, Unjudged

#: The largest 32-bit float.
LARGEST_32 = (2 - 2**-23) * 2.0**127

_ROW = OWN + "row"
#: Columns of the number of a ranking, and of a row in its ranking, in the order of the log.
_RANKING, _PLACE = OWN + "number of the ranking", OWN + "place"
#: Column that says whether a row is not the first one of its document.
_LATER = OWN + "later copy"
#: Whether a ranking has a document more than once.
_REPEATED = pl.col("doc").n_unique() < pl.len()


class Rules(NamedTuple):
    """The rules that order the documents of a ranking and interpret their labels."""

    ties: Ties | None = None
    rel: float = 1
    unjudged: Unjudged = "nonrelevant"
    float32_scores: bool = False
    text_ids: bool = False
    duplicates: Duplicates = "error"

    @classmethod
    def of(cls, own: Conventions) -> Rules:
        """Return the rules of a metric with these conventions."""
        # The mean over all orders does not depend on the order; "worst" needs no document ids.
        ties: Ties | None = "worst" if own.ties == "expected" else own.ties
        return cls(ties, own.rel, own.unjudged, own.float32_scores, own.text_ids, own.duplicates)

    @property
    def changes_scores(self) -> bool:
        """Whether the score that ranks documents may differ from the score of the log."""
        return self.float32_scores or self.unjudged == "removed"

    def score(self, columns: Columns) -> pl.Expr:
        """Return the score that ranks documents; null if a document is not retrieved."""
        score = columns.number(columns.score)
        if self.float32_scores:
            # A score must not become infinite: -inf is the score of documents not retrieved.
            score = score.cast(pl.Float64).clip(-LARGEST_32, LARGEST_32).cast(pl.Float32)
        if self.unjudged == "removed":
            # The row remains, so that a ranking that loses all its documents counts.
            score = pl.when(pl.col(columns.label).is_not_null()).then(score)
        return score


@dataclass(frozen=True)
class Log:
    """A table of rankings, and what is read of its rows."""

    table: pl.LazyFrame
    #: The columns of the table.
    columns: Columns
    rules: Rules = field(default_factory=Rules)
    #: Other columns that are read, as expressions over the table.
    others: Mapping[str, pl.Expr] = field(default_factory=dict)
    #: Checks of these columns.
    checks_of_others: Sequence[Check] = ()
    #: Labels that gains do not accept: messages and conditions.
    refusals: Mapping[str, Callable[[pl.Expr], pl.Expr]] = field(default_factory=dict)
    #: Whether a ranking has a document more than once, and what to do about it.
    repeated: pl.Expr = _REPEATED
    remedy: str = DUPLICATES_REMEDY
    progress: bool = False
    #: Whether the rows have passed the checks already.
    is_checked: bool = False

    @classmethod
    def find(
        cls,
        frame: pl.LazyFrame,
        roles: Mapping[str, Any],
        *,
        optional: Collection[str] = (RUN, "label"),
        parameters: Mapping[str, str] = {},
        rules: Rules | None = None,
        remedy: str = DUPLICATES_REMEDY,
    ) -> Log:
        """Return the log of a table, with its columns as `Columns.read` finds them."""
        table, columns = Columns.read(frame, roles, optional=optional, parameters=parameters)
        known = with_known_runs(table, columns)
        return cls(known, columns, Rules() if rules is None else rules, remedy=remedy)

    @cached_property
    def keys(self) -> Keys:
        """The keys of rankings."""
        return Keys.of(self.columns)

    @cached_property
    def canonical(self) -> Columns:
        """The columns of the rows: canonical names, with the types of the ranked table."""
        columns, rules = self.columns, self.rules
        score = pl.Float32() if rules.float32_scores else columns.number_type(columns.score)
        types = {"score": score, "label": columns.number_type(columns.label)}
        doc = None if columns.doc is None else "doc"
        if columns.doc is not None:
            types["doc"] = columns.schema[columns.doc]
        return columns._replace(doc=doc, score="score", label="label", schema=pl.Schema(types))

    @property
    def whole_labels(self) -> bool:
        """Whether labels are integers of at most 64 bits."""
        return self.canonical.schema["label"] in INTEGERS

    @cached_property
    def merges_copies(self) -> bool:
        """Whether one row of each document is kept, so that rows have the column `CONFLICT`."""
        return self.columns.doc is not None and self.rules.duplicates != "error"

    @cached_property
    def checks(self) -> list[Check]:
        """The checks of rows and rankings; those that warn come last."""
        if self.is_checked:
            return []
        columns, repeated, remedy = self.columns, self.repeated, self.remedy
        checks = row_checks(columns, self.refusals)
        if self.merges_copies:
            checks.append(conflict_check(columns))
        elif columns.doc is not None:
            checks.append(duplicate_check(columns, repeated, remedy))
        checks += [*self.checks_of_others, *unnamed_checks(columns)]
        return sorted(checks, key=lambda check: (check.warns, check.scope != "row"))

    def order(self, *, only_label: bool = False) -> Order:
        """Return the order of the documents of a ranking, in rows under canonical names.

        With `only_label`, documents with equal labels and scores may have any order.
        """
        rules = self.rules
        return rank_order(
            rules.ties, self.canonical, only_label=only_label, text_ids=rules.text_ids
        )

    def rows(self) -> pl.LazyFrame:
        """Return the rows, ranking by ranking, with the number of a failed check."""
        columns = self.columns
        selected: list[pl.Expr | str] = [
            *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
            self.rules.score(columns).alias("score"),
            columns.number(columns.label).alias("label"),
            *([CONFLICT] if self.merges_copies else []),
            *(pl.col(name).alias(OWN + name) for name in columns.unnamed),
            *(value.alias(name) for name, value in self.others.items()),
            failed(self.checks, "row"),
        ]
        change = self._without_copies if self.merges_copies else None
        rows = self.keys.rows(self.table, selected, change)
        if self.progress:  # after the sort: the bar hides from Polars that a log is sorted
            return watch(rows, known_rows(self.table)).set_sorted(self.keys.group)
        return rows

    def rankings(self, rows: pl.LazyFrame, values: Sequence[pl.Expr]) -> pl.LazyFrame:
        """Return one row per ranking: keys, aggregations of rows, and the number of a check."""
        return _rankings(rows, self.keys, values, self.checks)

    def checked(self, table: pl.LazyFrame, *, named: bool = False) -> pl.LazyFrame:
        """Return a table without the numbers of checks; collecting it raises if one failed.

        The table has the keys under their internal names, or, if `named`, under the user's names.
        """
        names = {key: key for key in self.columns.keys} if named else self.keys.names
        return raise_failed(table, self.checks, log=self.table, keys=names)

    def _without_copies(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row of each document: the one with the highest score, or the first one.

        A row in `CONFLICT` with another copy is not dropped. With `ties="input"`, the rows keep
        their order; otherwise, they are by document.
        """
        columns, keys, rules = self.columns, self.keys, self.rules
        read = [name for value in self.others.values() for name in value.meta.root_names()]
        used = [*columns.keys, columns.doc, columns.score, columns.label, *columns.unnamed, *read]
        used += [] if keys.number is None else [keys.number]
        others = [name for name in dict.fromkeys(map(str, used)) if name not in keys.order]
        by_document = best_of_each(columns, rules.duplicates)
        is_input = rules.ties == "input"
        place = [pl.int_range(pl.len()).alias(_PLACE)] * is_input
        row = pl.struct(*others, *place).sort_by(**by_document)
        later = pl.all_horizontal(
            pl.col(name).eq_missing(pl.col(name).shift(1)) for name in (_RANKING, str(columns.doc))
        ).fill_null(value=False)
        known, labeled = (pl.col(name).is_not_null() for name in (columns.score, columns.label))
        apart = (known != labeled) & (known == labeled.shift()) & (labeled == known.shift())

        def distinct(rankings: pl.LazyFrame) -> pl.LazyFrame:
            documents = rankings.with_row_index(_RANKING).explode(_ROW).unnest(_ROW)
            kept = documents.with_columns(
                later.alias(_LATER), (later & apart).alias(CONFLICT)
            ).filter(~pl.col(_LATER) | pl.col(CONFLICT))
            return kept.sort(_RANKING, _PLACE) if is_input else kept

        rows = table.select(*keys.order, *others).set_sorted(keys.order)
        rankings = rows.group_by(keys.order, maintain_order=True).agg(row.alias(_ROW))
        # The streaming engine would hold rows back for expressions that read other rows.
        return in_batches(rankings, distinct).set_sorted(keys.order)


def _rankings(
    rows: pl.LazyFrame,
    keys: Keys,
    values: Sequence[pl.Expr],
    checks: Sequence[Check],
    *,
    in_order: bool = True,
) -> pl.LazyFrame:
    return rows.group_by(keys.group, maintain_order=in_order).agg(
        *keys.carried, *values, failed_in_ranking(checks)
    )


def per_ranking(
    log: pl.LazyFrame,
    columns: Columns,
    inputs: Mapping[str, pl.Expr],
    values: Sequence[pl.Expr],
    checks: Sequence[Check],
    add_columns: Callable[[pl.LazyFrame], pl.LazyFrame] | None = None,
    *,
    sort: bool = True,
) -> tuple[pl.LazyFrame, Keys]:
    """Return a table of values of each ranking, and the keys of rankings.

    The table is sorted by the keys, under their internal names. With `sort=False`, it may have any
    order if the log is not sorted. `values` are aggregations of the columns that `inputs` defines.
    Rows must pass `checks`. `add_columns` may add columns that `inputs` read, and must keep the
    order of the rows.
    """
    keys = Keys.of(columns)
    selected = [*(value.alias(name) for name, value in inputs.items()), failed(checks, "row")]
    in_order = sort or keys.are_adjacent(log)
    rows = keys.rows(log, selected, add_columns, sort=in_order)
    rankings = _rankings(rows, keys, values, checks, in_order=in_order)
    checked = raise_failed(rankings, checks, log=log, keys=keys.names)
    return (checked.set_sorted(keys.group) if in_order else checked), keys
