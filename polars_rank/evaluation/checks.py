"""Checks of a log: what its rows, rankings and groups must not hold, and the errors that say so.

Checks run in the same pass as the metrics. Only when one fails, and only if polars_rank itself
collects the result, is the log read again to count the failing rows and to show one of them.
"""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import RUNS, Columns
from polars_rank.errors import DataError, Finding, RankWarning, number_of

Scope: TypeAlias = Literal["row", "ranking", "group"]

#: The column with the number of the check that fails, 0 if none does.
FAILED = OWN + "failed"

_DUPLICATES = (
    "set `duplicates` to 'max' or 'first', name the columns that tell lists apart with `by`, or "
    "drop them"
)


@dataclass(frozen=True)
class Check:
    """A condition that no row, ranking or group may meet, and the message if one does.

    Of several checks that fail, the first in their sequence is reported.
    """

    scope: Scope
    #: Over the columns of a row of the log, an aggregation of a ranking, or a row of the result.
    condition: pl.Expr
    message: str
    #: Whether the condition leads to a warning instead of an error.
    warns: bool = False
    #: Returns how often the condition is met in the log; None if the message says it all.
    count: Callable[[pl.LazyFrame], Finding | None] | None = None
    #: The parameters that the message names in backticks.
    parameters: tuple[str, ...] = ()

    @property
    def can_be_counted(self) -> bool:
        """Whether reading the log again tells more."""
        return self.scope == "row" or self.count is not None


def row_checks(
    columns: Columns, refusals: Mapping[str, Callable[[pl.Expr], pl.Expr]] = MappingProxyType({})
) -> list[Check]:
    """Return the checks of the rows of any log: ids, scores and labels.

    `refusals` are the messages of gains that cannot handle all labels, with their conditions.
    """
    checks = [
        Check(
            "row",
            pl.col(name).is_null(),
            f"null in the column {name!r} (query); drop these rows or give them an id",
        )
        for name in columns.query
    ]
    if columns.doc is not None:
        # A row with nothing but a query stands for a ranking without documents.
        filled = pl.col(columns.score).is_not_null() | pl.col(columns.label).is_not_null()
        message = f"null in the column {columns.doc!r}; drop these rows or evaluate without `doc`"
        missing = pl.col(columns.doc).is_null() & filled
        checks.append(Check("row", missing, message, parameters=("doc",)))
    for role, name in (("score", columns.score), ("label", columns.label)):
        if columns.schema[name].is_float():
            message = f"NaN or infinite {role} in the column {name!r}; use null for 'unknown'"
            checks.append(Check("row", ~pl.col(name).is_finite(), message))
    for problem, condition in refusals.items():
        label = columns.number(columns.label).cast(pl.Float64)
        checks.append(Check("row", condition(label), f"{columns.label!r} {problem}"))
    return checks


def repeats(doc: str) -> pl.Expr:
    """Return whether a ranking has a document more than once."""
    return pl.col(doc).n_unique() < pl.len()


def duplicate_check(columns: Columns, repeated: pl.Expr) -> Check:
    """Return the check for rankings with a document more than once, for which `repeated` holds."""
    problem = f"duplicates in the column {columns.doc!r} (doc)"
    return Check(
        "ranking",
        repeated,
        f"{problem}: a document stands more than once in a list; {_DUPLICATES}",
        count=partial(_count_duplicates, [*columns.keys, str(columns.doc)], problem),
        parameters=("duplicates", "by"),
    )


def length_check(longest: int) -> Check:
    """Return the check for rankings that are longer than the log said when it was scanned."""
    message = f"a ranking has more than the {longest} documents that were there; scan the log again"
    return Check("ranking", pl.len() > longest, message)


def constant_check(name: str, column: str) -> Check:
    """Return the check for several values in a column that is kept once per ranking."""
    message = (
        f"the column {name!r} must be the same in all rows of a list; add it to `by`, or leave it"
    )
    return Check("ranking", pl.col(column).n_unique() > 1, message, parameters=("by",))


def unnamed_check(name: str, column: str) -> Check:
    """Return the warning about a column that looks like runs or ids and that no parameter names."""
    values = pl.col(column).n_unique()
    if name.lower() in RUNS:
        message = (
            f"lists have rows of several values of the column {name!r}, which is not used: if it "
            "tells rankings apart, add it to `by`"
        )
        return Check("ranking", values > 1, message, warns=True, parameters=("by",))
    message = (
        f"lists have rows with the same value of the column {name!r}, which looks like an id "
        "of documents: name it with `doc` to find repeated documents, or name no column"
    )
    return Check("ranking", values < pl.len(), message, warns=True, parameters=("doc",))


def checks_of(scope: Scope, problems: Mapping[str, pl.Expr]) -> list[Check]:
    """Return checks from their messages and conditions."""
    return [Check(scope, condition, problem) for problem, condition in problems.items()]


def failed(checks: Sequence[Check], scope: Scope) -> pl.Expr:
    """Return the number of the check of this scope that fails; the first check has the highest."""
    number = pl.lit(0, dtype=pl.UInt16)
    for index, check in reversed([*enumerate(checks)]):
        if check.scope == scope:
            found = pl.lit(len(checks) - index, dtype=pl.UInt16)
            number = pl.when(check.condition).then(found).otherwise(number)
    return number.alias(FAILED)


def failed_in_ranking(checks: Sequence[Check]) -> pl.Expr:
    """Return the number of the check that fails in a ranking or in one of its rows."""
    rows = pl.col(FAILED).max()
    if not any(check.scope == "ranking" for check in checks):
        return rows
    return pl.max_horizontal(rows, failed(checks, "ranking")).alias(FAILED)


def raise_failed(
    table: pl.LazyFrame,
    checks: Sequence[Check],
    *,
    log: pl.LazyFrame | None = None,
    keys: Mapping[str, str] | None = None,
) -> pl.LazyFrame:
    """Drop the numbers of failed checks from a table; collecting it raises if one has failed.

    Parameters
    ----------
    table
        Rankings or groups, with the column `FAILED`.
    checks
        Those that the numbers are of.
    log
        The rows that are read again to count what fails.
    keys
        The names of the key columns of the log, and of the same columns in the table.

    Returns
    -------
    LazyFrame
        The table without the column `FAILED`.
    """
    if not checks:
        return table.drop(FAILED)
    schema = {name: dtype for name, dtype in table.collect_schema().items() if name != FAILED}
    warned: set[int] = set()

    def check(batch: pl.DataFrame) -> pl.DataFrame:
        numbers = batch.get_column(FAILED)
        if not numbers.max():
            return batch.drop(FAILED)
        for number in numbers.unique().sort(descending=True).drop_nulls():
            if number == 0 or number in warned:
                continue
            failing = checks[len(checks) - number]
            row = batch.row(numbers.index_of(number) or 0, named=True)
            where = {key: row[inner] for key, inner in (keys or {}).items() if inner in row}
            if failing.warns:  # once, however many batches there are
                warned.add(number)
                where_text = f"; as in {where}" if where else ""
                warning = RankWarning(failing.message + where_text, *failing.parameters)
                warnings.warn(warning, stacklevel=2)
                continue
            kind = "group" if failing.scope == "group" else "list"
            where_text = f"; in the {kind} {where}" if where else ""
            details = None
            if failing.can_be_counted and log is not None:
                details = partial(findings, log, checks)
            raise DataError(failing.message + where_text, *failing.parameters, details=details)
        return batch.drop(FAILED)

    return table.map_batches(check, schema=schema, streamable=True)


def findings(log: pl.LazyFrame, checks: Sequence[Check]) -> list[Finding]:
    """Read the log again and return what fails, how often, and one row of it."""
    rows = [check for check in checks if check.scope == "row"]
    total = OWN + "rows"
    counts = log.select(
        pl.len().alias(total),
        *(check.condition.sum().alias(str(index)) for index, check in enumerate(rows)),
    ).collect(engine="streaming")
    found = []
    for index, check in enumerate(rows):
        count = counts.item(0, str(index))
        if count:
            example = _first_row(log.filter(check.condition))
            rows_of = counts.item(0, total)
            found.append(Finding(check.message, count, example, rows_of, check.parameters))
    others = [check.count(log) for check in checks if check.count is not None]
    return [*found, *(finding for finding in others if finding is not None)]


@dataclass(frozen=True)
class _Duplicates(Finding):
    """Documents that a ranking has more than once."""

    def __str__(self) -> str:
        count = number_of(self.count, "document")
        return (
            f"{self.problem}: {count} more than once in a list; e.g. {self.example}; {_DUPLICATES}"
        )


def _count_duplicates(pair: Sequence[str], problem: str, log: pl.LazyFrame) -> Finding | None:
    times = OWN + "rows"
    twice = (log.group_by(pair).agg(pl.len().alias(times)).filter(pl.col(times) > 1)).collect(
        engine="streaming"
    )
    if twice.is_empty():
        return None
    row = twice.sort(times, descending=True).row(0, named=True)
    row["rows"] = row.pop(times)
    return _Duplicates(problem, twice.height, row, parameters=("duplicates", "by"))


def _first_row(log: pl.LazyFrame) -> dict[str, Any]:
    """Return the first row, without internal columns."""
    row = log.head(1).collect(engine="streaming").row(0, named=True)
    return {name: value for name, value in row.items() if not name.startswith(OWN)}


def refuse_failed(rows: pl.DataFrame, checks: Sequence[Check], remedies: Mapping[str, str]) -> None:
    """Raise `DataError` if a check has failed, with what to do about its message."""
    for index, check in enumerate(checks):
        remedy = remedies[check.message]
        refuse(rows, pl.col(FAILED) == len(checks) - index, check.message, remedy)


def refuse(rows: pl.DataFrame, fault: pl.Expr, problem: str, remedy: str) -> None:
    """Raise `DataError` if some of the rows are at fault; say how many and show the first."""
    found = rows.filter(fault)
    if not found.is_empty():
        cells = {
            k: reprlib.repr(v) for k, v in found.row(0, named=True).items() if not k.startswith(OWN)
        }
        first = ", ".join(f"{name} = {value}" for name, value in cells.items())
        msg = f"{problem} (rows: {found.height:,}; the first: {first}); {remedy}"
        raise DataError(msg)
