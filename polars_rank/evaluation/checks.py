"""Checks of a log: what rows and rankings must hold, and the errors that say so."""

from __future__ import annotations

import reprlib
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, one_of
from polars_rank.columns import RUNS
from polars_rank.errors import DataError, Finding, RankWarning, number_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.columns import Columns


#: By row, the number of the rule that it breaks, 0 for none; by list, the highest of them.
FAULT = OWN + "fault"


#: By list, how many rows repeat a document of the list.
REPEATS = OWN + "repeats"


#: By list, the number of a column to be kept that has several values in it, 0 for none.
VARIES = OWN + "varies"


#: By list, the number of a column that nobody named, though it tells its rows apart, or does not.
DOUBTS = OWN + "doubts"


_REMEDY = (
    "pass duplicates='max' or 'first', name the columns that tell lists apart with by=, or drop "
    "them with .unique()"
)


def rules(
    columns: Columns, of_labels: Mapping[str, Callable[[pl.Expr], pl.Expr]]
) -> dict[str, pl.Expr]:
    """Return the row rules of a frame: what is wrong → whether this row is at fault."""
    found = {
        f"null in the column {name!r} (query); drop these rows or give them an id": pl.col(
            name
        ).is_null()
        for name in columns.query
    }
    if columns.doc is not None:
        # A row of nothing but a query stands for a list without documents.
        names = f"null in the column {columns.doc!r} (doc); drop these rows or pass doc=None"
        found[names] = pl.col(columns.doc).is_null() & (
            pl.col(columns.score).is_not_null() | pl.col(columns.label).is_not_null()
        )
    for role, name in (("score", columns.score), ("label", columns.label)):
        if columns.schema[name].is_float():
            found[f"NaN or infinite {role} in the column {name!r}; use null for 'unknown'"] = ~(
                pl.col(name).is_finite()
            )
    for problem, condition in of_labels.items():
        label = columns.number(columns.label).cast(pl.Float64)
        found[f"{columns.label!r} {problem}"] = condition(label)
    return found


def fault(found: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return the number of a rule that a row breaks, from 1; 0 where it breaks none."""
    number = pl.lit(0, dtype=pl.UInt8)
    for index, condition in enumerate(found.values(), start=1):
        number = pl.when(condition).then(pl.lit(index, dtype=pl.UInt8)).otherwise(number)
    return number.alias(FAULT)


def faults(doc: str | None) -> list[pl.Expr]:
    """Return what is wrong with one list: a rule that is broken, and repeated documents."""
    repeats = [] if doc is None else [(pl.len() - pl.col(doc).n_unique()).alias(REPEATS)]
    return [pl.col(FAULT).max(), *repeats]


def doubts(columns: Columns) -> list[pl.Expr]:
    """Return whether a list repeats what looks like an id, or mixes what looks like runs."""
    number = pl.lit(0, dtype=pl.UInt8)
    for index, name in enumerate(columns.unnamed, start=1):
        values = pl.col(OWN + name).n_unique()
        doubtful = values > 1 if name.lower() in RUNS else values < pl.len()
        number = pl.when(doubtful).then(pl.lit(index, dtype=pl.UInt8)).otherwise(number)
    return [number.alias(DOUBTS)] if columns.unnamed else []


def _warn(name: str, where: str) -> None:
    if name.lower() in RUNS:
        said = (
            f"lists have rows of several values of the column {name!r}, which is not used: if it "
            f"tells rankings apart, say by={name!r}"
        )
    else:
        said = (
            f"lists have rows with the same value of the column {name!r}, which looks like an id "
            f"of documents: say doc={name!r} to have repeated documents found, or doc=None"
        )
    warnings.warn(f"{said}{where}", RankWarning, stacklevel=2)


def _warn_of_repeats(doc: str, where: str) -> None:
    message = (
        f"a document stands more than once in a list (column {doc!r}), and all its rows count: "
        "name the columns that tell lists apart with by= or query=, drop repeated rows with "
        f".unique(), or pass doc=None{where}"
    )
    warnings.warn(message, RankWarning, stacklevel=2)


def raise_for_faults(
    results: pl.LazyFrame,
    log: pl.LazyFrame,
    columns: Columns,
    found: Mapping[str, pl.Expr],
    keys: Mapping[str, str] | None = None,
    constant: Sequence[str] = (),
    *,
    told: bool = False,
    pooled: bool = False,
) -> pl.LazyFrame:
    """Drop the columns of faults from the results; collecting them raises if one is not 0.

    `keys` says which columns of the results tell lists apart, by their names in the log;
    `constant`, which columns must have one value in a list; `told`, that the rules are about
    lists, of which the log's rows say nothing more; `pooled`, that all rows count, so that repeated
    documents are only warned of.
    """
    varying = [
        f"the column {name!r} must be the same in all rows of a list; add it to `by`, or leave it"
        for name in constant
    ]
    schema = results.collect_schema()
    checked = [name for name in (FAULT, REPEATS, VARIES, DOUBTS) if name in schema]

    def check(batch: pl.DataFrame) -> pl.DataFrame:
        for name in checked:
            worst: Any = batch.get_column(name).max()
            if worst:
                row = batch.row(batch.get_column(name).arg_max() or 0, named=True)
                where = {key: row[inner] for key, inner in (keys or {}).items() if inner in row}
                if name == DOUBTS:
                    _warn(columns.unnamed[worst - 1], f"; as in {where}" * bool(where))
                    continue
                if name == REPEATS and pooled:
                    _warn_of_repeats(str(columns.doc), f"; as in {where}" * bool(where))
                    continue
                problem = (
                    f"duplicates in the column {columns.doc!r} (doc): a document stands more "
                    f"than once in a list; {_REMEDY}"
                )
                if name != REPEATS:
                    problem = ([*found] if name == FAULT else varying)[worst - 1]
                message = f"{problem}{f'; in the list {where}' if where else ''}"
                final = told or name == VARIES
                details = None if final else partial(explanation, log, columns, found)
                raise DataError(message, details)
        return batch.drop(checked)

    kept = {name: dtype for name, dtype in schema.items() if name not in checked}
    return results.map_batches(check, schema=kept, streamable=True)


@dataclass(frozen=True)
class Repeats(Finding):
    """Documents that stand in a list more than once."""

    def __str__(self) -> str:
        count = number_of(self.count, "document")
        return f"{self.problem}: {count} more than once in a list; e.g. {self.example}; {_REMEDY}"


def explanation(log: pl.LazyFrame, columns: Columns, found: Mapping[str, pl.Expr]) -> list[Finding]:
    """Read the log again and find what is wrong, how often and where."""
    findings = []
    counts = log.select(
        pl.len().alias(OWN + "rows"),
        *(condition.sum().alias(problem) for problem, condition in found.items()),
    ).collect(engine="streaming")
    rows = counts.get_column(OWN + "rows").item()
    for problem, condition in found.items():
        count = counts.get_column(problem).item()
        if count:
            row = _shown(log.filter(condition).head(1))
            findings.append(Finding(problem, count, row, rows))
    if columns.doc is not None:
        pairs = [*columns.keys, columns.doc]
        times = OWN + "rows"
        twice = (
            log.select(pairs).group_by(pairs).agg(pl.len().alias(times)).filter(pl.col(times) > 1)
        ).collect(engine="streaming")
        if not twice.is_empty():
            row = twice.sort(times, descending=True).row(0, named=True)
            row["rows"] = row.pop(times)
            problem = f"duplicates in the column {columns.doc!r} (doc)"
            findings.append(Repeats(problem, twice.height, row))
    return findings


def _shown(log: pl.LazyFrame) -> dict[str, Any]:
    """Return the first row, without columns of our own."""
    row = log.collect(engine="streaming").row(0, named=True)
    return {name: value for name, value in row.items() if not name.startswith(OWN)}


def without_duplicates(log: pl.LazyFrame, columns: Columns, keep: str) -> pl.LazyFrame:
    """Keep one row of each document in each list: the first, or the one of highest score."""
    one_of("duplicates", keep, ("error", "max", "first"))
    if columns.doc is None or keep == "error":
        return log
    if keep == "max":
        log = log.sort(columns.score, descending=True, nulls_last=True, maintain_order=True)
    return log.unique([*columns.keys, columns.doc], keep="first", maintain_order=True)


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
