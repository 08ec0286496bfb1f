"""What depends on Polars beyond its documented interface.

That is the text of plans and expressions, two internals, and hashes that are kept in files. Each
function has a test in `tests/test_polars.py` that fails if Polars changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import polars as pl

#: What begins the lines of plans that keep all rows and count them without reading them.
_CHEAP = ("Parquet SCAN", "DF [", "PROJECT", "ESTIMATED", "hint.sorted")


def inner(expression: pl.Expr) -> Any:
    """Return the expression as the engine holds it."""
    return expression._pyexpr


def inputs(expression: pl.Expr) -> Sequence[pl.Expr]:
    """Return the expressions that an expression is directly made of."""
    return expression.meta.pop()


def aliases(expression: pl.Expr, prefix: str) -> list[str]:
    """Return the names within an expression that begin with a prefix, without that prefix."""
    return re.findall(rf'alias\("{prefix}(.*?)"\)', str(expression))


def renamed(expression: pl.Expr, names: Mapping[str, str]) -> pl.Expr:
    """Return the same expression of other columns, given as a mapping from names to new names."""
    if expression.meta.is_column():
        return pl.col(names[expression.meta.output_name()])
    text = expression.meta.serialize(format="json")
    for name, other in names.items():
        text = text.replace(f'{{"Column":{json.dumps(name)}}}', f'{{"Column":{json.dumps(other)}}}')
    return pl.Expr.deserialize(StringIO(text), format="json")


def reads_column(expression: pl.Expr, name: str, *, besides: pl.Expr) -> bool:
    """Return whether an expression reads a column in another way than one that is given."""
    return f'col("{name}")' in str(expression).replace(str(besides), "")


def number_of_scans(plan: pl.LazyFrame, source: str) -> int:
    """Return how often a plan reads a Python source of this name."""
    return plan.explain(optimized=False).count(source)


def is_sorted_by(table: pl.LazyFrame, keys: Sequence[str]) -> bool:
    """Return whether Polars knows a table to be sorted by the keys."""
    return "SORT BY" not in table.select(keys).sort(keys).explain()


def keeps_all_rows(plan: pl.LazyFrame) -> bool:
    """Return whether counting the rows of a plan reads none of them."""
    lines = plan.explain(optimized=False).splitlines()
    return all(line.strip().startswith(_CHEAP) for line in lines)


def files(plan: pl.LazyFrame, source: str) -> list[str]:
    """Return the files that a plan reads by scans of Polars or by a Python source of this name."""
    found = re.findall(
        rf"^\s*(?:\w+ SCAN \[(.*)\]|PYTHON\[{source} (.*)\] SCAN \[.*\])$",
        plan.explain(optimized=False),
        re.MULTILINE,
    )
    return list(dict.fromkeys(file for each in found for file in "".join(each).split(", ") if file))


def source_of_rows(plan: pl.LazyFrame, keys: Sequence[str]) -> str | None:
    """Return the line of a plan that shows the source of its rows, if it is that of their keys.

    Rows may be filtered, and columns may be added, dropped or changed, but not the keys; nothing
    may add rows. Otherwise, and for plans with several sources, the result is None.
    """
    *steps, source = (
        line.strip()
        for line in plan.explain(optimized=False).splitlines()
        if not line.strip().startswith("PROJECT */")
    )
    for step in steps:
        if step.startswith(("hint.sorted", "FILTER", "FROM", "SLICE", "WITH_COLUMNS:")):
            continue
        if not step.startswith(("SELECT [", "[")) or "explode(" in step:
            return None
        for key in keys:
            column = re.escape(f'col("{key}")')
            kept = re.search(rf"(\[|, ){column}(,|\])", step)
            if f'alias("{key}")' in step or bool(kept) != step.startswith("SELECT ["):
                return None
            if not kept and re.search(column, step):
                return None
    return source


def key_hash(keys: Mapping[str, str]) -> pl.Expr:
    """Return a hash of key columns, given as a mapping from their names to columns."""
    columns = (pl.col(column).alias(name) for name, column in sorted(keys.items()))
    return pl.struct(columns).hash(seed=0)


def hash_version() -> str:
    """Return what tells apart releases of Polars whose hashes differ."""
    values = pl.DataFrame({"text": ["polars_rank"], "number": [1.5]})
    return f"{values.select(pl.struct('text', 'number').hash(seed=0)).item():016x}"
