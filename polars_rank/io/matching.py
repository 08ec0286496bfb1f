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
from polars_rank.errors import RankWarning, UnmatchedIds, number_of, short, warn
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
        rankings = table.lazy().filter(self.retrieved) if rankings is None else rankings
        judgments = table.lazy().filter(self.judged) if judgments is None else judgments
        if isinstance(table, pl.LazyFrame):
            return self._checked_plan(table, rankings, judgments)
        self._check(self._counts(table), rankings, judgments)
        return table

    def _checked_plan(
        self, table: pl.LazyFrame, rankings: pl.LazyFrame, judgments: pl.LazyFrame
    ) -> pl.LazyFrame:
        schema = table.collect_schema()
        conditions = self.retrieved, self.judged
        read_by_check = [name for each in conditions for name in each.meta.root_names()]
        read_by_check.append(self.doc)

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
            names = [*dict.fromkeys([*columns, *self.keys, *read_by_check])]
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
        strangers = _among(unmatched, shared, runs, "anti")
        if self.separate and strangers.is_empty():
            self._check_queries(counts)
        elif self.separate:
            own = _among(rankings, strangers.lazy(), runs)
            queries = _among(counts, strangers, runs)
            numbers = [
                number_of(queries.filter(known).select(self.query).n_unique(), "query", "queries")
                for known in (_HAS_RANKING, _HAS_LABELS)
            ]
            examples = [_first(table, self.query, 2) for table in (own, judgments)]
            if any(", " in each for each in examples):
                examples = [f"{examples[0]} in the rankings", f"{examples[1]} in the judgments"]
            warn(self._unmatched(strangers, numbers, examples), UnmatchedIds)
        others = _among(unmatched, shared, runs)
        if others.is_empty():
            return
        occurring = _among(_among(rankings, others.lazy(), runs), judgments, [self.doc])
        known = occurring.select(runs).unique().collect(engine="streaming")
        kinds: dict[How, type[RankWarning]] = {"anti": UnmatchedIds}
        if self.separate:
            kinds["semi"] = RankWarning
        for how, kind in kinds.items():
            part = _among(others, known, runs, how)
            if part.is_empty():
                continue
            # The examples are of the same query.
            keys = [*runs, *self.query]
            one = _among(shared, part, runs).sort(keys).head(1).lazy()
            tables = _among(rankings, one, keys), _among(judgments, one, self.query)
            numbers = [
                number_of(int(part[_RETRIEVED].sum()), "retrieved document"),
                number_of(int(part.item(0, _JUDGED)), "document"),
            ]
            examples = [_first(table, [self.doc]) for table in tables]
            warn(self._unmatched(part, numbers, examples), kind)

    def _unmatched(
        self, runs: pl.DataFrame, numbers: Sequence[str], examples: Sequence[str]
    ) -> str:
        """Return the message about runs without a match."""
        some, others = numbers
        none = f"none of the {some} is {self.adjective}"
        if some.startswith("1 "):
            none = f"the only {some[2:]} is not {self.adjective}"
        are = "is" if others.startswith("1 ") else "are"
        return (
            f"{self._named(runs)}{none}, although {others} {are}: do the ids match? "
            f"e.g. {' and '.join(examples)}"
        )

    def _named(self, runs: pl.DataFrame) -> str:
        """Return the names of runs as the start of a message."""
        if not self.runs:
            return ""
        rows = runs.select(self.runs).rows()
        names = [repr(row[0] if len(row) == 1 else row) for row in rows]
        if len(names) > _MAX_RUNS:
            names = [*names[:_MAX_RUNS], f"{len(names) - _MAX_RUNS:,} others"]
        return f"run{'s' if len(names) > 1 else ''} {', '.join(names)}: "

    def _check_queries(self, counts: pl.DataFrame) -> None:
        """Warn of queries that only the judgments have, or only the rankings.

        A row without a document is of a query that was answered or judged with an empty list.
        """
        queries = counts.group_by(self.query).agg(pl.col(_RETRIEVED, _JUDGED, _EMPTY).sum())
        ranked, judged = queries.filter(_HAS_RANKING), queries.filter(_HAS_LABELS)
        missing, unjudged = (
            judged.filter(~_HAS_RANKING, pl.col(_EMPTY) == 0),
            ranked.filter(~_HAS_LABELS, pl.col(_EMPTY) == 0),
        )
        problems = []
        if ranked.height and missing.height:
            of = number_of(judged.height, "judged query", "judged queries")
            example = _first(missing.lazy(), self.query)
            problems.append(f"{missing.height:,} of {of} {_is(missing)} in no run (e.g. {example})")
        if judged.height and unjudged.height:
            of = number_of(ranked.height, "query", "queries")
            example = _first(unjudged.lazy(), self.query)
            problems.append(
                f"{unjudged.height:,} of {of} in the rankings {_is(unjudged)} not judged "
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


def _is(rows: pl.DataFrame) -> str:
    return "is" if rows.height == 1 else "are"
