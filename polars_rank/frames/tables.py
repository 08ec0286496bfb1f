"""Tables of any library as input: LazyFrames give LazyFrames, other tables give DataFrames."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial, wraps
from inspect import signature
from os import PathLike, fspath
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, cast, overload

import polars as pl

from polars_rank._params import OWN, names, public
from polars_rank._polars import rows_of_table, without_expression
from polars_rank.errors import ArgumentError, DataError, RankError, SchemaError, SourceError, warn
from polars_rank.frames.engines import Computation, EngineFrame, Separable, engine_of
from polars_rank.frames.plans import PLANS, key_of
from polars_rank.frames.stores import store_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


P = ParamSpec("P")


#: What Polars and pyarrow raise for columns of unsupported types.
_UNREADABLE = (
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    *(TypeError, ValueError, NotImplementedError),
)

#: Tables with at most this number of rows are collected faster in memory than by streaming.
FEW_ROWS = 50_000


def number_column(keys: Sequence[str]) -> str:
    """Return the name of the column that numbers the rankings of these keys.

    The column holds the number of the ranking and a hash of its keys. The hash shows whether the
    rows are still in the order in which they were numbered.
    """
    return f"{OWN}ranking({', '.join(sorted(keys))})"


def own_name(name: str) -> SchemaError:
    """Return the error for a user's column with the name of an internal one."""
    return SchemaError(f"column {name!r} has the prefix {OWN!r}, which is reserved; rename it")


def lazy(frame: Any, parameter: str = "frame", *, collects: bool = False) -> pl.LazyFrame:
    """Return any table as a LazyFrame.

    A caller that `collects` the result lets tables in memory be read before, to choose a plan.
    """
    table = as_table(frame, parameter)
    if collects and isinstance(table, pl.DataFrame):
        return rows_of_table(table, FEW_ROWS)
    return table.lazy()


def is_table(frame: Any) -> bool:
    """Return whether an object is a table of any kind."""
    return isinstance(frame, (pl.LazyFrame, pl.DataFrame)) or _has_rows(frame)


class Table(Protocol):
    """A table with an Arrow C stream, such as tables of pyarrow, pandas, DuckDB, or Polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream."""


E = TypeVar("E", bound=EngineFrame)


class Framed(Protocol[P]):
    """A function of a table that returns a table.

    LazyFrames give a LazyFrame, DataFrames of an engine such as Spark a DataFrame of this engine,
    and other tables a DataFrame.
    """

    @overload
    def __call__(
        self, frame: pl.LazyFrame, /, *args: P.args, **kwargs: P.kwargs
    ) -> pl.LazyFrame: ...
    @overload
    def __call__(self, frame: E, /, *args: P.args, **kwargs: P.kwargs) -> E: ...
    @overload
    def __call__(self, frame: Table, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame: ...


def framed(function: Callable[Concatenate[pl.LazyFrame, P], Computation]) -> Framed[P]:
    """Return a function that accepts any table, for a function of LazyFrames.

    The first parameter of `function` is the table. Tables of other libraries are read into memory.
    Other engines run the function if it is declared to return a `Separable` or `Mergeable` result
    instead of a LazyFrame.
    """
    return _dispatched(function)


def framed_by_query(function: Callable[Concatenate[pl.LazyFrame, P], pl.LazyFrame]) -> Framed[P]:
    """Return a function that accepts any table, as `framed` does, and that other engines run.

    `function` computes the rows of each query from the rows with the same `query`.
    """
    return _dispatched(function, by_query=True)


def _dispatched(function: Callable[..., Any], *, by_query: bool = False) -> Framed[Any]:
    first, *others = signature(function).parameters
    in_parts = by_query or function.__annotations__["return"] != "pl.LazyFrame"
    # Users see the type of the result, not how it is computed.
    function.__annotations__["return"] = "pl.LazyFrame"

    @wraps(function)
    def dispatched(*args: Any, **options: Any) -> Any:
        frame, *rest = args or [options.pop(first, None)]
        options |= zip(others, rest, strict=False)

        def plan(table: pl.LazyFrame) -> pl.LazyFrame:
            result = function(table, **options)
            return result if isinstance(result, pl.LazyFrame) else result(table)

        if in_parts and (engine := engine_of(frame)) is not None:
            return engine.run(rows if by_query else function, frame, options)
        table = as_table(frame, first)
        if isinstance(table, pl.LazyFrame):
            return plan(table)
        few = in_parts and table.height <= FEW_ROWS
        key = key_of(function, table, options) if few else None
        if key is None:
            return evaluated(plan, table)
        return PLANS.run(key, plan, partial(collected, few=True), table)

    def rows(_: pl.LazyFrame, **options: Any) -> Separable:
        query = names("query", options.get("query", "query"))
        return Separable(query, partial(checked, **options))

    checked = public(dispatched)
    return cast("Framed[Any]", checked)


def evaluated(plan: Callable[[pl.LazyFrame], pl.LazyFrame], table: pl.DataFrame) -> pl.DataFrame:
    """Return the result of a plan on a table in memory."""
    return collected(plan(rows_of_table(table, FEW_ROWS)), few=table.height <= FEW_ROWS)


def collected(plan: pl.LazyFrame, *, few: bool = False) -> pl.DataFrame:
    """Return the result of a plan; errors count invalid rows."""
    try:
        if few:  # optimizing the plan would take longer than running it
            return plan.collect(engine="in-memory", optimizations=pl.QueryOptFlags.none())
        return plan.collect(engine="streaming")
    except RankError as error:
        text = without_expression(str(error))
        if text != str(error):
            error.args = (text,)
        raise (error.explained() if isinstance(error, DataError) else error) from None


def schema_of(frame: pl.LazyFrame) -> pl.Schema:
    """Return the schema of a plan; raise `SourceError` if its files cannot be read."""
    try:
        return frame.collect_schema()
    except pl.exceptions.ColumnNotFoundError as error:  # in the user's plan
        raise SchemaError(f"cannot read the log: {str(error).partition(chr(10))[0]}") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> SourceError:
    """Return the error for files that Polars cannot read."""
    return store_error(error) or SourceError(
        f"cannot read the log: {error}; check that all files are complete and have the same schema"
    )


def as_table(frame: Any, parameter: str = "frame") -> pl.LazyFrame | pl.DataFrame:
    """Return the table of a parameter as a Polars frame; others are read into memory.

    Raises
    ------
    ArgumentError
        If `frame` is not a table, or is a DataFrame of another engine.
    SourceError
        If the engine fails to read the table.
    SchemaError
        If Polars does not support the type of a column, or if two columns have the same name.
    """
    if isinstance(frame, (pl.LazyFrame, pl.DataFrame)):
        return frame
    if (engine := engine_of(frame)) is not None:
        raise engine.unsupported()
    if not _has_rows(frame):
        raise ArgumentError(
            f"must be a table; found {type(frame).__name__}; {_remedy(frame)}", parameter
        )
    # Tables that can be sliced, such as those of pandas and pyarrow, are in memory.
    if any(hasattr(frame, name) for name in ("iloc", "slice")):
        return to_polars(frame)
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    try:  # datasets and scanners of pyarrow have no C stream
        if hasattr(frame, "__arrow_c_stream__"):
            table = pa.RecordBatchReader.from_stream(frame).read_all()
        else:
            table = frame.to_table()
    except Exception as error:  # engines raise any type
        raise SourceError(f"the engine failed to read the table: {error}") from error
    if not table.num_rows and any(hasattr(frame, name) for name in ("read_next_batch", "__next__")):
        warn(
            f"{type(frame).__name__} has no rows; it can be read only once, so check that it was "
            "not read before"
        )
    return to_polars(table)


def to_polars(rows: Any) -> pl.DataFrame:
    """Return an Arrow or pandas table in memory as a Polars DataFrame."""
    try:
        return pl.DataFrame(rows)
    except _UNREADABLE as error:
        columns = [*map(str, rows.columns if hasattr(rows, "iloc") else rows.schema.names)]
        duplicate = next((name for name in columns if columns.count(name) > 1), None)
        if duplicate is not None:
            raise SchemaError(
                f"duplicate column {duplicate!r}; drop one of them, or rename it"
            ) from error
        raise SchemaError(
            f"Polars does not support column {_unsupported(rows)}: {error}; drop it, or cast it"
        ) from error


def _unsupported(rows: Any) -> str:
    """Return the name and type of the first column that Polars cannot read."""
    of_pandas = hasattr(rows, "iloc")
    for index, name in enumerate(rows.columns if of_pandas else rows.schema.names):
        try:
            pl.DataFrame(rows[[name]] if of_pandas else rows.select([name]))
        except _UNREADABLE:
            dtype = rows.dtypes.iloc[index] if of_pandas else rows.schema.field(index).type
            return f"{str(name)!r} ({dtype})"
    return "types that differ between batches"


#: Functions that read files, by extension. Files with other extensions may be Parquet logs.
_READERS = {
    ".csv": "pl.scan_csv", ".tsv": "pl.scan_csv", ".json": "pl.read_json",
    ".ndjson": "pl.scan_ndjson", ".jsonl": "pl.scan_ndjson", ".arrow": "pl.scan_ipc",
    ".feather": "pl.scan_ipc", ".ipc": "pl.scan_ipc", ".txt": "pr.scan_run",
    ".run": "pr.scan_run", ".qrels": "pr.scan_judgments",
}  # fmt: skip


def _remedy(value: object) -> str:
    """Return what to pass instead of something that is not a table."""
    if isinstance(value, (str, PathLike)):
        path = fspath(value)
        reader = _READERS.get(PurePath(str(path)).suffix.lower())
        return f"to read a file, pass {reader or 'pr.scan_log'}({path!r})"
    if isinstance(value, Mapping):
        return (
            "for {query: {doc: score}}, pass pr.from_dicts(rankings, judgments); for columns, pass "
            "pl.DataFrame(...)"
        )
    if isinstance(value, (list, tuple)) and value and all(map(is_table, value)):
        return (
            "pass one table: put the tables together with pl.concat, with a column such as 'run' "
            "that says which one a row is from"
        )
    return (
        "pass a Polars LazyFrame or DataFrame, or a table with an Arrow C stream, such as a "
        "pyarrow Table, a pandas DataFrame, or a DuckDB relation"
    )


def _has_rows(frame: Any) -> bool:
    """Return whether an object has rows in Arrow's format, or is a dataset of pyarrow."""
    if type(frame).__name__ in ("Series", "Index", "ChunkedArray"):
        return False
    of_pyarrow = type(frame).__module__.startswith("pyarrow")
    batch = hasattr(frame, "__arrow_c_array__") and hasattr(frame, "schema")
    of_files = any(hasattr(frame, name) for name in ("scanner", "projected_schema"))
    return hasattr(frame, "__arrow_c_stream__") or (of_pyarrow and (batch or of_files))
