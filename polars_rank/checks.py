"""Checks of rows, rankings and groups, and the errors that they raise.

Checks run in the same pass as the metrics. If a check fails and polars_rank collects the result,
polars_rank reads the log again to count the failing rows and to show one of them.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import run_number
from polars_rank.errors import DataError, Finding, warning

Scope: TypeAlias = Literal["row", "ranking", "group"]


#: Column with the number of the failed check, 0 if none failed.
FAILED = OWN + "failed"


_RUN = OWN + "run of the plan"


class Check(NamedTuple):
    """A condition that must not hold for any row, ranking or group, and the message if it does.

    If several checks fail, the first one is reported.
    """

    scope: Scope
    #: An expression over rows of the log or of the result, or an aggregation of a ranking.
    condition: pl.Expr
    message: str
    #: Whether the condition leads to a warning instead of an error.
    warns: bool = False
    #: Counts the failures in the log; None if the message needs no count.
    count_failures: Callable[[pl.LazyFrame], Finding | None] | None = None


def checks_of(scope: Scope, problems: Mapping[str, pl.Expr]) -> list[Check]:
    """Return checks from their messages and conditions."""
    return [Check(scope, condition, problem) for problem, condition in problems.items()]


def failed(checks: Sequence[Check], scope: Scope) -> pl.Expr:
    """Return the number of the failed check of a scope; the first check has the highest number."""
    conditions: Any = pl
    for index, check in enumerate(checks):
        if check.scope == scope:
            conditions = conditions.when(check.condition).then(_check_number(len(checks) - index))
    none = _check_number(0)
    return (none if conditions is pl else conditions.otherwise(none)).alias(FAILED)


@lru_cache
def _check_number(number: int) -> pl.Expr:
    return pl.lit(number, dtype=pl.UInt16)


def failed_in_ranking(checks: Sequence[Check]) -> pl.Expr:
    """Return the number of the check that failed for a ranking or one of its rows."""
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
    """Return a table without `FAILED`; collecting it raises `DataError` if a check failed.

    Parameters
    ----------
    table
        Rankings or groups, with the column `FAILED`.
    checks
        The checks that the numbers refer to.
    log
        The log, to count the rows that fail.
    keys
        The key columns of the log, mapped to the names of these columns in the table.

    Returns
    -------
    LazyFrame
        The table without the column `FAILED`.
    """
    if not checks:
        return table.drop(FAILED)
    warned: dict[int, set[int]] = {}  # the checks by the execution of the plan
    warns = any(check.warns for check in checks)
    flagged = table.with_columns(run_number().alias(_RUN)) if warns else table

    issue = warning()

    def check(batch: pl.DataFrame) -> pl.DataFrame:
        numbers = batch.get_column(FAILED)
        if not numbers.max():
            return batch
        for number in sorted({*numbers.unique()} - {0, None}, reverse=True):
            failing = checks[len(checks) - number]
            row = batch.row(numbers.index_of(number) or 0, named=True)
            where = {key: row[inner] for key, inner in (keys or {}).items() if inner in row}
            kind = "in the group" if failing.scope == "group" else "in the ranking"
            place = f"; {'as in' if failing.warns else kind} {where}" if where else ""
            if not failing.warns:
                is_counted = failing.scope == "row" or failing.count_failures is not None
                details = partial(findings, log, checks) if is_counted and log is not None else None
                raise DataError(failing.message + place, details=details)
            if row[_RUN] not in warned:  # a plan may be kept: forget earlier executions
                warned.clear()
            of_run = warned.setdefault(row[_RUN], set())
            if number not in of_run:  # one warning for all batches
                of_run.add(number)
                issue(failing.message + place)
        return batch

    checked = flagged.map_batches(check, validate_output_schema=False, streamable=True)
    # A plan that uses the table twice computes it once, and warns once.
    return checked.cache().drop(FAILED, _RUN) if warns else checked.drop(FAILED)


def findings(log: pl.LazyFrame, checks: Sequence[Check]) -> list[Finding]:
    """Read the log again and return each problem with its count and an example."""
    rows = [check for check in checks if check.scope == "row"]
    total = OWN + "rows"
    counts = log.select(
        pl.len().alias(total),
        *(check.condition.sum().alias(str(index)) for index, check in enumerate(rows)),
    ).collect(engine="streaming")
    failures = []
    for index, check in enumerate(rows):
        count = counts.item(0, str(index))
        if count:
            first = log.filter(check.condition).head(1).collect(engine="streaming")
            example = first.select(pl.exclude(f"^{OWN}.*$")).row(0, named=True)
            failures.append(Finding(check.message, count, example, counts.item(0, total)))
    others = [check.count_failures(log) for check in checks if check.count_failures is not None]
    return [*failures, *(finding for finding in others if finding is not None)]


def with_check(
    results: pl.LazyFrame,
    facts: pl.LazyFrame,
    check: Callable[[pl.DataFrame], object],
    *,
    last: bool = False,
) -> pl.LazyFrame:
    """Return the results; collecting them raises if the check of `facts` does.

    The check is concatenated as a table without rows: a join might skip it if there are no
    results, and need not keep their order. It comes first, because `head` may skip what comes
    after the results. With `last`, it comes last: results that are streamed from the same rows as
    `facts` would otherwise be held in memory.
    """
    schema = results.collect_schema()

    def checked(batch: pl.DataFrame) -> pl.DataFrame:
        check(batch)
        return pl.DataFrame(schema=schema)

    nothing = facts.map_batches(checked, schema=schema, streamable=True)
    return pl.concat([results, nothing] if last else [nothing, results], parallel=not last)


def refuse(rows: pl.DataFrame, invalid: pl.Expr, problem: str, remedy: str) -> None:
    """Raise `DataError` with the number of invalid rows and the first one, if there are any."""
    invalid_rows = rows.filter(invalid)
    if not invalid_rows.is_empty():
        first = ", ".join(
            f"{name} = {reprlib.repr(value)}"
            for name, value in invalid_rows.row(0, named=True).items()
            if not name.startswith(OWN)
        )
        raise DataError(f"{problem} (rows: {invalid_rows.height:,}; the first: {first}); {remedy}")
