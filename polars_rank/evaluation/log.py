"""The log: a table of rankings, its columns, and the definitions of metrics on it.

Everything that reads rankings reads the rows of a `Log`, ranking by ranking under canonical names,
with the numbers of failed checks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import polars as pl

from polars_rank._params import OPTIONS, OWN, Names, check_name, free, public
from polars_rank._polars import FewRows, frame_of
from polars_rank._progress import known_rows, watcher
from polars_rank.checks import Check, failed, failed_in_ranking, raise_failed
from polars_rank.columns import RUN, RUNS, Columns, Label, Score, check_single
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    ConventionsLike,
    Definitions,
    check_undefined,
    named,
    warn_of_uncompared,
)
from polars_rank.definitions import Definition, Ordering
from polars_rank.errors import REUSABLE, ArgumentError
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log_checks import (
    DUPLICATES_REMEDY,
    conflict_check,
    duplicate_check,
    row_checks,
    unnamed_checks,
)
from polars_rank.evaluation.order import CONFLICT, INTEGERS, Order, best_of_each, rank_order
from polars_rank.frames.batches import in_batches
from polars_rank.frames.layouts import is_large_scan
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.names import resolve

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

_ROW = OWN + "row"
#: Columns of the number of a ranking, and of a row in its ranking, in the order of the log.
_RANKING, _PLACE = OWN + "number of the ranking", OWN + "place"
#: Column that says whether a row is not the first one of its document.
_LATER = OWN + "later copy"
#: Whether a ranking has a document more than once.
_REPEATED = pl.col("doc").n_unique() < pl.len()


class ColumnOptions(TypedDict, total=False):
    """The options of `evaluate` that name columns."""

    query: Names
    doc: str | None
    score: Score
    label: Label
    position: str | None
    run: str | None
    by: Names | None


class RankingOptions(ColumnOptions, Definitions, total=False):
    """The options that `evaluate` and `per_query` share."""

    conventions: ConventionsLike


class EvaluateOptions(RankingOptions, total=False):
    """The options of `evaluate`, for functions that pass them on: `**options`."""

    weight: str | None


OPTIONS.update(
    (each.__name__, [*each.__annotations__])
    for each in (ColumnOptions, RankingOptions, EvaluateOptions)
)


@dataclass(frozen=True)
class Log:
    """A table of rankings, the definitions of metrics on it, and what is read of its rows."""

    table: pl.LazyFrame
    #: The columns of the table.
    columns: Columns
    ordering: Ordering = field(default_factory=Ordering)
    #: Other columns that are read, as expressions over the table.
    others: Mapping[str, pl.Expr] = field(default_factory=dict)
    definitions: Sequence[Definition] = ()
    #: The conventions of all metrics, with their exceptions.
    conventions: Conventions = POLARS_RANK
    #: The table and the columns by role, as the caller gave them.
    source: pl.LazyFrame | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    #: Checks of the other columns.
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
    @public
    def of(
        cls,
        frame: pl.LazyFrame,
        metrics: Metrics | None = None,
        *,
        query: Names = "query",
        doc: str | None = "doc",
        score: Score = "score",
        label: Label = "label",
        position: str | None = None,
        run: str | None = RUN,
        by: Names | None = None,
        keep: Names | None = None,
        weight: str | None = None,
        conventions: ConventionsLike = POLARS_RANK,
        progress: bool = False,
        **choices: Unpack[Definitions],
    ) -> Log:
        """Return the log of a table for metrics, given the parameters of `evaluate`."""
        own = named(conventions).but(**choices)
        resolved = [] if metrics is None else resolve(metrics, own.name)
        undefined = choices.get("undefined")
        if isinstance(undefined, Mapping):
            check_undefined(undefined, resolved)
        warn_of_uncompared(resolved, own)
        check_single(schema_of(frame), "label", label)
        definitions = [Definition.of(metric, own) for metric in resolved]
        given = {
            "run": run, "by": by, "query": query, "doc": doc, "score": score,
            "position": position, "label": label, "keep": keep, "weight": weight,
        }  # fmt: skip
        reads_labels = not definitions or any(each.reads_labels for each in definitions)
        optional = (RUN, "doc", *([] if reads_labels else ["label"]))
        return cls.find(
            frame, given, optional=optional, ordering=Ordering.of(own), definitions=definitions,
            conventions=own, progress=progress,
        )  # fmt: skip

    @classmethod
    def find(
        cls,
        frame: pl.LazyFrame,
        given: Mapping[str, Any],
        *,
        optional: Collection[str] = (RUN, "label"),
        **fields: Any,
    ) -> Log:
        """Return the log of a table, with its columns as `Columns.read` finds them."""
        table, columns = Columns.read(frame, given, optional=optional)
        return cls(with_known_runs(table, columns), columns, source=frame, given=given, **fields)

    def on(self, frame: pl.LazyFrame) -> Log:
        """Return the log of another table with the same columns, such as a part of the rows."""
        if frame is self.source:
            return self
        table, columns = Columns.read(frame, self.given, optional=(RUN, "doc", "label"))
        return replace(self, table=with_known_runs(table, columns), columns=columns, source=frame)

    @property
    def breaks_ties_by_id(self) -> bool:
        """Whether the ids of tied documents, if there are ids, change the value of a metric."""
        return self.columns.doc is not None and any(
            each.breaks_ties_by_id for each in self.definitions
        )

    @property
    def weight(self) -> str | None:
        """The column of weights."""
        return self.columns.one("weight")

    @property
    def runs(self) -> list[str]:
        """The columns of `by` that identify the run: that of `run`, or by their names."""
        columns = self.columns
        return [name for name in columns.by if name == columns.run or name.lower() in RUNS]

    @property
    def kept(self) -> dict[str, str]:
        """The columns to keep, which have one value per ranking, by internal name."""
        names = [*self.columns.roles.get("keep", ()), *self.columns.roles.get("weight", ())]
        return {f"{OWN}kept {index}": name for index, name in enumerate(names)}

    def check_names(self, added: Sequence[str] = ()) -> None:
        """Raise `ArgumentError` if two columns of the result have the same name."""
        metrics = [each.name for each in self.definitions]
        free(self.columns.by, added)
        free(self.columns.roles.get("weight", ()), metrics, "weight")
        others = {*self.columns.keys, *self.columns.roles.get("keep", ()), *added}
        for name in metrics:
            check_name(name)
            if name in others:
                raise ArgumentError(
                    f"metric {name!r} has the name of another column of the result; rename it with "
                    ".alias()"
                )

    @cached_property
    def keys(self) -> Keys:
        """The keys of rankings."""
        return Keys.of(self.columns)

    @cached_property
    def canonical(self) -> Columns:
        """The columns of the rows: canonical names, with the types of the ranked table."""
        columns, ordering = self.columns, self.ordering
        score = pl.Float32() if ordering.float32_scores else columns.number_type(columns.score)
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
        return self.columns.doc is not None and self.ordering.duplicates != "error"

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
        return rank_order(self.ordering, self.canonical, only_label=only_label)

    def rows(self) -> pl.LazyFrame:
        """Return the rows, ranking by ranking, with the number of a failed check."""
        columns = self.columns
        selected: list[pl.Expr | str] = [
            *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
            self.ordering.score(columns).alias("score"),
            columns.number(columns.label).alias("label"),
            *([CONFLICT] if self.merges_copies else []),
            *(pl.col(name).alias(OWN + name) for name in columns.unnamed),
            *(value.alias(name) for name, value in self.others.items()),
            failed(self.checks, "row"),
        ]
        change = self._without_copies if self.merges_copies else None
        rows = self.keys.rows(self.table, selected, change)
        if self.progress:  # after the sort: the bar hides from Polars that a log is sorted
            return watcher(known_rows(self.table))(rows).set_sorted(self.keys.group)
        return rows

    def rankings(self, rows: pl.LazyFrame, values: Sequence[pl.Expr]) -> pl.LazyFrame:
        """Return one row per ranking: keys, aggregations of rows, and the number of a check."""
        values = [*self.keys.carried, *values, failed_in_ranking(self.checks)]
        return rows.group_by(self.keys.group, maintain_order=True).agg(values)

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
        columns, keys, ordering = self.columns, self.keys, self.ordering
        read = [name for value in self.others.values() for name in value.meta.root_names()]
        used = [*columns.keys, columns.doc, columns.score, columns.label, *columns.unnamed, *read]
        used += [] if keys.number is None else [keys.number]
        others = [name for name in dict.fromkeys(map(str, used)) if name not in keys.order]
        by_document = best_of_each(columns, ordering.duplicates)
        is_input = ordering.ties == "input"
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


def groups_of(schema: pl.Schema, options: Mapping[str, Any]) -> Columns:
    """Return the columns of rankings in the result of an evaluation with these options."""
    for parameter in ("score", "label"):
        check_single(schema, parameter, options.get(parameter, parameter))
    given = {role: options[role] for role in ("by", "run", "query") if role in options}
    return Columns.find(schema, {"run": RUN, **given})


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
    values = [*keys.carried, *values, failed_in_ranking(checks)]
    rankings = rows.group_by(keys.group, maintain_order=in_order).agg(values)
    checked = raise_failed(rankings, checks, log=log, keys=keys.names)
    return (checked.set_sorted(keys.group) if in_order else checked), keys


def with_known_runs(log: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Return the log in which rows without run and score belong to the only run.

    They are unchanged if there are several runs, or if the log may be read ranking by ranking, for
    which its keys must not change; `row_checks` then refuses them.
    """
    run = columns.run
    if run is None:
        return log
    keys = Keys.of(columns)
    if keys.are_adjacent(log) or is_large_scan(log, keys.order):
        return log
    frame = frame_of(log, [run])
    if frame is not None and not frame.get_column(run).null_count():
        return log
    known = _KnownRuns(log.filter(pl.col(columns.score).is_not_null()).select(run))
    if isinstance(log, FewRows):
        nulls = log.select(pl.col(run).null_count()).collect(engine="in-memory").item()
        if not nulls or known.only is None:
            return log
        return log.with_columns(pl.col(run).fill_null(known.only))
    REUSABLE.set(False)  # the function below remembers the run that it finds
    dtype = columns.schema[run]
    return log.with_columns(pl.col(run).map_batches(known, return_dtype=dtype, is_elementwise=True))


class _KnownRuns:
    """Fills nulls in the column of runs with the only run of retrieved documents."""

    def __init__(self, retrieved: pl.LazyFrame) -> None:
        #: The runs of retrieved documents, which are read if a batch has a null.
        self.retrieved = retrieved

    @cached_property
    def only(self) -> Any:
        """The only run, or None if there are several."""
        runs = self.retrieved.unique().head(2).collect(engine="streaming").to_series()
        return runs.item() if runs.len() == 1 else None

    def __call__(self, runs: pl.Series) -> pl.Series:
        if not runs.null_count() or self.only is None:
            return runs
        return runs.fill_null(self.only)
