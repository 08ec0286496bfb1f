"""The check that the ids of rankings and judgments match.

If they never match, metrics are 0, as those of bad rankings are. Rows are counted by run and query
while they are read. Only if a run has no judged document, rankings and judgments are read again, to
find out whether ids match at all, and to name two of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, TypeVar

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import files, scan_of_files
from polars_rank.errors import RankWarning, UnmatchedIds, short, warn
from polars_rank.frames.batches import Totals, all_batches, requested

if TYPE_CHECKING:
    from collections.abc import Iterator

How: TypeAlias = Literal["semi", "anti"]

AnyFrame = TypeVar("AnyFrame", pl.DataFrame, pl.LazyFrame)

#: Numbers of rows that are retrieved, judged, and both, and of rows without a document.
_RETRIEVED, _JUDGED, _BOTH, _EMPTY = (
    OWN + name for name in ("retrieved", "judged", "both", "empty")
)
_HAS_RANKING, _HAS_LABELS = pl.col(_RETRIEVED) > 0, pl.col(_JUDGED) > 0
#: The run of a table without runs.
_RUN = OWN + "run"

#: Maximum number of runs in a message.
_MAX_RUNS = 5


class Ids(NamedTuple):
    """The columns of ids in a long table, and conditions for retrieved and judged documents."""

    runs: Sequence[str]
    query: Sequence[str]
    doc: str
    retrieved: pl.Expr
    judged: pl.Expr
    #: What documents are for which the condition `judged` is true.
    adjective: str = "judged"
    #: Whether rankings and judgments are separate tables, whose queries may differ.
    separate: bool = True

    @property
    def keys(self) -> list[str]:
        """The columns that identify rankings."""
        return [*self.runs, *self.query]

    def checked(
        self,
        table: AnyFrame,
        rankings: pl.LazyFrame | None = None,
        judgments: pl.LazyFrame | None = None,
    ) -> AnyFrame:
        """Return the long table; when all its rows are read, warn of ids that do not match.

        `rankings` and `judgments` are tables of retrieved and of judged documents. Default: rows of
        the long table.
        """
        retrieved = table.lazy().filter(self.retrieved) if rankings is None else rankings
        judged = table.lazy().filter(self.judged) if judgments is None else judgments
        if isinstance(table, pl.LazyFrame):
            return self._checked_plan(table, retrieved, judged)
        self._check(self._counts(table), retrieved, judged)
        return table

    def _checked_plan(
        self, table: pl.LazyFrame, rankings: pl.LazyFrame, judgments: pl.LazyFrame
    ) -> pl.LazyFrame:
        schema = table.collect_schema()
        conditions = self.retrieved.meta.root_names() + self.judged.meta.root_names()

        def batches(names: Sequence[str]) -> Iterator[pl.DataFrame]:
            totals = Totals(self.keys, [self._counts(pl.DataFrame(schema=schema))])
            for rows in all_batches(table.select(names)):
                totals.add(self._counts(rows))
                yield rows
            self._check(totals.table(), rankings, judgments)

        def read(
            columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
        ) -> Iterator[pl.DataFrame]:
            columns = [*schema] if columns is None else columns
            names = [*dict.fromkeys([*columns, *self.keys, *conditions, self.doc])]
            yield from requested(batches(names), columns, predicate, n_rows)

        return scan_of_files(
            read, files(table), checks_ids=True, schema=schema, explain_name="LONG TABLE"
        )

    def _counts(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return numbers of rows by run and query."""
        return rows.group_by(self.keys).agg(
            self.retrieved.sum().alias(_RETRIEVED),
            self.judged.sum().alias(_JUDGED),
            (self.retrieved & self.judged).sum().alias(_BOTH),
            pl.col(self.doc).is_null().sum().alias(_EMPTY),
        )

    def _check(self, counts: pl.DataFrame, rankings: pl.LazyFrame, judgments: pl.LazyFrame) -> None:
        """Warn of ids that do not match, given numbers of rows by run and query."""
        runs = [*self.runs] or [_RUN]
        if not self.runs:
            counts = counts.with_columns(pl.lit(0).alias(_RUN))
            rankings = rankings.with_columns(pl.lit(0).alias(_RUN))
        totals = counts.group_by(runs).agg(pl.col(_RETRIEVED, _JUDGED, _BOTH).sum())
        unmatched = totals.filter(_HAS_RANKING, _HAS_LABELS, pl.col(_BOTH) == 0).sort(runs)
        shared = counts.filter(_HAS_RANKING, _HAS_LABELS)
        if self.separate:
            strangers = _among(unmatched, shared, runs, "anti")
            if strangers.is_empty():
                self._check_queries(counts)
            else:
                queries = _among(counts, strangers, runs)
                numbers = [
                    queries.filter(known).select(self.query).n_unique()
                    for known in (_HAS_RANKING, _HAS_LABELS)
                ]
                tables = _among(rankings, strangers.lazy(), runs), judgments
                ids = [_first(table, self.query, 2) for table in tables]
                examples = [f"{ids[0]} in the rankings", f"{ids[1]} in the judgments"]
                self._warn(strangers, "ranked query", numbers, examples, UnmatchedIds)
        others = _among(unmatched, shared, runs)
        if others.is_empty():
            return
        occurring = _among(_among(rankings, others.lazy(), runs), judgments, [self.doc])
        known = occurring.select(runs).unique().collect(engine="streaming")
        parts: list[tuple[How, type[RankWarning]]] = [("anti", UnmatchedIds), ("semi", RankWarning)]
        for how, kind in parts[: 1 + self.separate]:
            part = _among(others, known, runs, how)
            if part.is_empty():
                continue
            # The examples are of the same query.
            one = _among(shared, part, runs).sort(self.keys).head(1).lazy()
            keys = [*runs, *self.query]
            tables = _among(rankings, one, keys), _among(judgments, one, self.query)
            examples = [_first(table, [self.doc]) for table in tables]
            numbers = [int(part[_RETRIEVED].sum()), part.item(0, _JUDGED)]
            self._warn(part, "retrieved document", numbers, examples, kind)

    def _warn(
        self,
        runs: pl.DataFrame,
        unit: str,
        numbers: Sequence[int],
        examples: Sequence[str],
        kind: type[RankWarning],
    ) -> None:
        """Warn about runs without a match."""
        named = ""
        if self.runs:
            rows = runs.select(self.runs).rows()
            names = [repr(row[0] if len(row) == 1 else row) for row in rows[:_MAX_RUNS]]
            names += [f"{len(rows) - _MAX_RUNS:,} others"] if len(rows) > _MAX_RUNS else []
            named = f"run{'s' if len(rows) > 1 else ''} {', '.join(names)}: "
        ranked, judged = numbers
        warn(
            f"{named}no {unit} is {self.adjective} ({ranked:,} {unit.partition(' ')[0]}, "
            f"{judged:,} {self.adjective}): do the ids match? e.g. {' and '.join(examples)}",
            kind,
        )

    def _check_queries(self, counts: pl.DataFrame) -> None:
        """Warn of queries that only the judgments have, or only the rankings.

        A row without a document is of a query that was answered or judged with an empty list.
        """
        queries = counts.group_by(self.query).agg(pl.col(_RETRIEVED, _JUDGED, _EMPTY).sum())
        ranked, judged = queries.filter(_HAS_RANKING), queries.filter(_HAS_LABELS)
        if ranked.is_empty() or judged.is_empty():
            return
        problems = []
        for known, other, noun, problem in (
            (judged, _HAS_RANKING, "judged queries", "in no run"),
            (ranked, _HAS_LABELS, "queries in the rankings", "not judged"),
        ):
            missing = known.filter(~other, pl.col(_EMPTY) == 0)
            if missing.height:
                verb = "is" if missing.height == 1 else "are"
                example = _first(missing.lazy(), self.query)
                problems.append(
                    f"{missing.height:,} of {known.height:,} {noun} {verb} {problem} "
                    f"(e.g. {example})"
                )
        if problems:
            remedy = "they count in means unless `query_set` leaves them out"
            warn(f"{' and '.join(problems)}; {remedy}")


def _among(table: AnyFrame, others: AnyFrame, keys: Sequence[str], how: How = "semi") -> AnyFrame:
    """Return the rows whose keys are in another table, or with "anti" those whose are not."""
    return table.join(others.select(keys), on=keys, how=how, nulls_equal=True)


def _first(table: pl.LazyFrame, columns: Sequence[str], number: int = 1) -> str:
    """Return the lowest ids in columns as text."""
    ids = table.select(columns).drop_nulls().unique().collect(engine="streaming")
    rows = ids.sort(columns).head(number).rows() or [(None,)]
    return ", ".join(short(row[0] if len(row) == 1 else row) for row in rows)
