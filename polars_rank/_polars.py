"""Code that depends on undocumented behavior of Polars.

The code reads the text of plans and expressions, uses two internals, and stores hashes in files.
Each function has a test in `tests/test_polars.py` that fails if Polars changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import polars as pl
from polars import selectors
from polars.io.plugins import register_io_source

#: First words of the steps that keep all rows, so that Polars counts rows without reading them.
_KEEPS_ROWS = (
    *("Parquet SCAN", "DF [", "PROJECT", "ESTIMATED", "hint.sorted"),
    *("WITH_COLUMNS:", "["),
)


def inner(expression: pl.Expr) -> Any:
    """Return the object that represents an expression in Polars' engine."""
    return expression._pyexpr


def inputs(expression: pl.Expr) -> Sequence[pl.Expr]:
    """Return the direct inputs of an expression."""
    return expression.meta.pop()


def is_elementwise(expression: pl.Expr) -> bool:
    """Return whether each row of an expression depends only on the same row of its inputs."""
    parts = [expression]
    while parts:
        part = parts.pop()
        meta = part.meta
        if meta.is_column() or meta.is_literal():
            continue
        try:
            whole = meta.is_length_preserving() or not meta.root_names()
            if not (whole and meta.is_row_separable()):
                return False
        except pl.exceptions.PolarsError:  # raised for filters
            return False
        parts.extend(inputs(part))
    return True


def reads_column(expression: pl.Expr, name: str, *, besides: pl.Expr) -> bool:
    """Return whether an expression reads a column outside of the expression `besides`."""
    return f'col("{name}")' in str(expression).replace(str(besides), "")


def is_sorted_by(table: pl.LazyFrame, keys: Sequence[str]) -> bool:
    """Return whether Polars knows that a table is sorted by the keys."""
    return "SORT BY" not in table.select(keys).sort(keys).explain()


def keeps_all_rows(plan: pl.LazyFrame) -> bool:
    """Return whether Polars can count the rows of a plan without reading them."""
    lines = plan.explain(optimized=False).splitlines()
    return all(line.strip().startswith(_KEEPS_ROWS) for line in lines)


def scan_of_files(
    read: Callable[..., Iterator[pl.DataFrame]],
    names: Sequence[str],
    *,
    rows: int | None = None,
    lengths: object = None,
    sorts: bool = False,
    checks_ids: bool = False,
    **options: Any,
) -> pl.LazyFrame:
    """Return a plan that reads files with a Python function.

    `files` returns the names of the files, and `rows_of_scan` the number of rows of files that are
    read in their own order. The function is the `source_of_rows` of the plan and has the attributes
    `lengths`, `sorts`, which says whether it sorts all rows in memory, and `checks_ids`, which says
    whether it warns of ids that never match.
    """
    read.files, read.rows, read.lengths = names, rows, lengths  # type: ignore[attr-defined]  # functions have attributes
    read.sorts, read.checks_ids = sorts, checks_ids  # type: ignore[attr-defined]
    return register_io_source(read, **options)


def files(plan: pl.LazyFrame) -> list[str]:
    """Return the files that a plan reads, by scans of Polars and by `scan_of_files`."""
    nodes = plan._ldf.visit()
    pending, paths = [nodes.get_node()], []
    while pending:
        nodes.set_node(pending.pop())
        pending += reversed(nodes.get_inputs())
        with suppress(NotImplementedError):  # a step that is not exposed, such as a Python function
            node = nodes.view_current_node()
            if hasattr(node, "paths"):
                paths += node.paths
            elif _kind(node) == "PythonScan":
                paths += getattr(_function(node), "files", ())
    return [*dict.fromkeys(paths)]


def rows_of_scan(plan: pl.LazyFrame, keys: Sequence[str]) -> int | None:
    """Return the estimated number of rows of the Parquet files that a plan scans.

    Return None if the plan changes the keys or does more than filter rows and change columns.
    """
    source = source_of_rows(plan, keys)
    if callable(source):
        return getattr(source, "rows", None)
    if _kind(source) != "Scan" or source.scan_type[0] != "parquet":
        return None
    rows = re.search(r"^\s*ESTIMATED ROWS: (\d+)$", plan.explain(optimized=False), re.MULTILINE)
    return None if rows is None else int(rows[1])


def source_of_rows(plan: pl.LazyFrame, keys: Sequence[str]) -> Any:
    """Return the source of the rows and keys of a plan: a Python function or a node, or None.

    The plan may filter rows and add, drop or change columns other than the keys. Return None if it
    changes the keys, adds rows, or has several sources.
    """
    nodes = plan._ldf.visit()
    while True:
        try:
            node = nodes.view_current_node()
        except NotImplementedError:  # a step that is not exposed, such as a Python function
            return None
        kind = _kind(node)
        if kind == "PythonScan":
            return _function(node)
        if kind in {"DataFrameScan", "Scan"}:
            return node
        if kind == "HStack":
            keeps = not any(each.output_name in keys for each in node.exprs)
        elif kind == "Select":
            keeps = all(
                any(
                    each.output_name == key
                    and _kind(column := nodes.view_expression(each.node)) == "Column"
                    and column.name == key
                    for each in node.expr
                )
                for key in keys
            )
        else:
            # Rows of the input, with all columns that are not dropped.
            keeps = kind in {"Filter", "Slice", "SimpleProjection"} or (
                kind == "MapFunction" and node.function[0] == "hint_sorted"
            )
        if not keeps:
            return None
        nodes.set_node(node.input)


def frame_of(plan: pl.LazyFrame, keys: Sequence[str]) -> pl.DataFrame | None:
    """Return the DataFrame that has the rows and keys of a plan, as `source_of_rows` finds it."""
    source = source_of_rows(plan, keys)
    return pl.DataFrame._from_pydf(source.df) if _kind(source) == "DataFrameScan" else None


def _kind(node: object) -> str:
    return type(node).__name__


def _function(scan: Any) -> Callable[..., Iterator[pl.DataFrame]] | None:
    """Return the function of a scan of `register_io_source`."""
    return getattr(scan.options[0], "io_source", None)


def without_expression(message: str) -> str:
    """Return the message of an error without the expression that Polars appends."""
    return message.partition("\n\nThis error occurred in the following expression:")[0]


#: Type of the column that numbers rankings: the number, and a hash of the keys of the ranking.
NUMBERED = pl.Struct({"number": pl.UInt32, "keys": pl.UInt64})


class NumberedRows(pl.LazyFrame):
    """A log with a column that numbers its rankings, which `collect` leaves out.

    Frames that Polars derives row by row from such a frame also have this class.
    """

    @classmethod
    def of(cls, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return rows as a frame of this class."""
        return cls._from_pyldf(rows._ldf)

    def collect(self, *args: Any, **kwargs: Any) -> Any:
        """Return the rows as a DataFrame, without the column that numbers rankings."""
        rows = self.select(~selectors.by_dtype(NUMBERED))
        return pl.LazyFrame.collect(rows, *args, **kwargs)


class FewRows(pl.LazyFrame):
    """A small table that is not known to be sorted; it is sorted without checking.

    Reading the order of rows from a plan takes longer than the sort. Frames that Polars derives row
    by row from such a frame also have this class.
    """


def rows_of_table(table: pl.DataFrame, few: int) -> pl.LazyFrame:
    """Return the rows of a table, for a function that collects them.

    They are `FewRows` if the table has at most `few` rows in no declared order.
    """
    rows = table.lazy()
    is_few = table.height <= few and not declared_order(table)
    return FewRows._from_pyldf(rows._ldf) if is_few else rows


def declared_order(table: pl.DataFrame) -> tuple[tuple[str, bool], ...]:
    """Return the columns that are declared to be sorted, and whether each is descending."""
    return tuple(
        (name, each["SORTED_DESC"])
        for name, each in table.flags.items()
        if each["SORTED_ASC"] or each["SORTED_DESC"]
    )


def rows_of_source(
    read: Callable[..., Iterator[pl.DataFrame]], table: pl.DataFrame
) -> pl.LazyFrame:
    """Return the rows of a function like those of a table (`rows_of_table`) with few rows."""
    rows = register_io_source(read, schema=table.schema)
    order = declared_order(table)
    for name, descending in order:
        rows = rows.set_sorted(name, descending=descending)
    return rows if order else FewRows._from_pyldf(rows._ldf)


def run_number() -> pl.Expr:
    """Return a random number that all rows of one execution of a plan share.

    It has no Python function, which would be a phase of its own when several plans are collected.
    """
    parts = pl.int_range(0, 2**16, dtype=pl.UInt64).sample(4, with_replacement=True)
    return (parts * pl.lit(pl.Series([2**48, 2**32, 2**16, 1], dtype=pl.UInt64))).sum()


def key_hash(keys: Mapping[str, str]) -> pl.Expr:
    """Return a hash of key columns; `keys` maps the names of keys to columns."""
    columns = (pl.col(column).alias(name) for name, column in sorted(keys.items()))
    return pl.struct(columns).hash(seed=0)
