"""What a table is: any kind of frame in, the same kind out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial, wraps
from importlib import import_module
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)

import polars as pl

from polars_rank._params import OWN, names
from polars_rank.errors import ArgumentError, DataError, SchemaError, SourceError
from polars_rank.frames.pieces import NUMBERED
from polars_rank.frames.stores import store_error
from polars_rank.frames.streams import Stream, TornError, held, is_scanned_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


P = ParamSpec("P")


F = TypeVar("F", bound="Callable[..., Any]")


#: The package that evaluates the frames of another library, by the name of that library.
_ENGINES = {"pyspark": "polars_rank.spark"}

#: Rows of a frame that the in-memory engine collects faster than the streaming one.
FEW_ROWS = 50_000


def number_column(keys: Sequence[str]) -> str:
    """Return the name of the column that numbers the lists of these keys.

    It holds the number of the row's list and the hash of its keys, by which a plan finds out
    while it reads whether the rows still stand as they were numbered.
    """
    return f"{OWN}list({', '.join(sorted(keys))})"


def number_column_in(schema: pl.Schema, keys: Sequence[str]) -> str | None:
    """Return the column that numbers the lists of these keys, if there is one."""
    name = number_column(keys)
    if name not in schema:
        return None
    if schema[name] != NUMBERED:
        raise own_name(name)
    return name


def own_name(name: str) -> SchemaError:
    """Return the error for a user's column that has the name of an internal one."""
    message = f"column {name!r} begins with {OWN!r}, as our own do; rename it"
    return SchemaError(message)


def lazy(frame: Any) -> pl.LazyFrame:
    """Return any kind of table as a LazyFrame; a stream, as what it holds."""
    table = as_table(frame)
    return table.whole().lazy() if isinstance(table, Stream) else table.lazy()


def is_table(frame: Any) -> bool:
    """Return whether something is one table of any kind, rather than several of them."""
    return isinstance(frame, (pl.LazyFrame, pl.DataFrame)) or _has_rows(frame)


class Table(Protocol):
    """Any table that gives its rows by Arrow's C stream: pyarrow, pandas, DuckDB, Polars."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream."""


class SparkFrame(Protocol):
    """A Spark DataFrame, classic or Connect."""

    def mapInArrow(self, func: Any, schema: Any) -> Any:  # noqa: N802  (Spark's own name)
        """Return what a function makes of batches of its rows."""


Spark = TypeVar("Spark", bound=SparkFrame)


class Framed(Protocol[P]):
    """A function of any table: a LazyFrame gives a LazyFrame, a Spark DataFrame one of Spark.

    Any other table gives a DataFrame.
    """

    @overload
    def __call__(
        self, frame: pl.LazyFrame, /, *args: P.args, **kwargs: P.kwargs
    ) -> pl.LazyFrame: ...
    @overload
    def __call__(self, frame: Spark, /, *args: P.args, **kwargs: P.kwargs) -> Spark: ...
    @overload
    def __call__(self, frame: Table, /, *args: P.args, **kwargs: P.kwargs) -> pl.DataFrame: ...


def framed(plan: Callable[Concatenate[pl.LazyFrame, P], pl.LazyFrame]) -> Framed[P]:
    """Make a function of any table from a lazy plan: the same kind of table comes out.

    The first parameter of the plan is the table. Its parameters `by` and `query` name the key
    columns of rankings: a stream whose rankings come one by one is read in flat memory.
    """
    return cast("Framed[P]", _dispatched(plan, of_rankings=True))


def framed_table(plan: Callable[Concatenate[pl.LazyFrame, P], pl.LazyFrame]) -> Framed[P]:
    """Make a function of any table from a lazy plan, as `framed`, of a table without rankings."""
    return cast("Framed[P]", _dispatched(plan, of_rankings=False))


def _dispatched(plan: Callable[..., Any], *, of_rankings: bool) -> Any:
    first = next(iter(signature(plan).parameters))

    @wraps(plan)
    def function(*args: Any, **kwargs: Any) -> Any:
        # Names may be given by an iterator, which can be read only once.
        kwargs = {
            key: tuple(value) if isinstance(value, Iterator) and key != first else value
            for key, value in kwargs.items()
        }
        frame = args[0] if args else kwargs.get(first)
        if isinstance(frame, pl.LazyFrame):
            return plan(*args, **kwargs)
        if is_spark(frame):
            return run_on_spark(function, *args, **kwargs)
        options = {key: value for key, value in kwargs.items() if args or key != first}
        table = as_table(frame)
        if isinstance(table, Stream):
            given = {"query": "query", "by": None, **options} if of_rankings else {}
            keys = [key for name in ("by", "query") for key in names(name, given.get(name))]
            run = partial(_with_first, plan, args[1:], options)
            return _streamed(table, run, [*dict.fromkeys(keys)])
        result = plan(table.lazy(), *args[1:], **options)
        few = isinstance(table, pl.DataFrame) and table.height < FEW_ROWS
        return collected(result, few=few)

    return function


def _with_first(
    plan: Callable[..., Any], rest: Sequence[Any], options: Mapping[str, Any], table: pl.LazyFrame
) -> Any:
    return plan(table, *rest, **options)


def run_on_spark(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the Spark DataFrame that a function makes of one, or of several."""
    return import_module(_ENGINES["pyspark"]).run(function, *args, **kwargs)


def is_spark(frame: Any) -> bool:
    """Return whether something is a Spark DataFrame, classic or Connect."""
    kinds = type(frame).__mro__
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql.")
        for kind in kinds
    )


def _streamed(
    stream: Stream, plan: Callable[[pl.LazyFrame], pl.LazyFrame], keys: Sequence[str]
) -> pl.DataFrame:
    """Run a plan on a stream in flat memory if possible, otherwise on all of its rows."""

    def whole() -> pl.DataFrame:
        table = stream.whole()
        return collected(plan(table.lazy()), few=table.height < FEW_ROWS)

    number = number_column(keys)
    try:
        if not stream.is_long():
            return whole()
        if keys and not stream.in_pieces(keys):
            return whole()
        result = plan(stream.scan(keys, number))
        if not is_scanned_once(result) or number in result.collect_schema():
            return whole()
        try:
            found = collected(result, again=not stream.once)
        except TornError:
            if stream.once:
                raise
            stream.close()
            return whole()
        return found.sort(keys) if keys and {*keys} <= {*found.columns} else found
    finally:
        stream.close()


def collected(plan: pl.LazyFrame, *, few: bool = False, again: bool = True) -> pl.DataFrame:
    """Collect a plan; an error in rows says how many are at fault, if they can be read again."""
    try:
        if few:  # to make the plan better takes longer than to run it
            return plan.collect(engine="in-memory", optimizations=pl.QueryOptFlags.none())
        return plan.collect(engine="streaming")
    except DataError as error:
        raise (error.explained() if again else error) from None


def schema_of(frame: pl.LazyFrame) -> pl.Schema:
    """Return the schema of a plan; raise `SourceError` where its files cannot be read."""
    try:
        return frame.collect_schema()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> SourceError:
    """Return the error for files that Polars cannot read."""
    return store_error(error) or SourceError(
        f"the log cannot be read: {error}; check that the files are whole and have one schema"
    )


def as_table(frame: Any) -> pl.LazyFrame | pl.DataFrame | Stream:
    """Return any kind of table as one of ours: the one place that decides what a table is."""
    if isinstance(frame, (pl.LazyFrame, pl.DataFrame)):
        return frame
    if is_spark(frame):
        message = (
            "this function takes no Spark DataFrame, which may be larger than this machine; make a "
            "small table of it with pr.evaluate, pr.per_query or pr.stats.moments, and give the "
            ".toArrow() of that"
        )
        raise ArgumentError(message)
    if not _has_rows(frame):
        message = (
            "a frame must be a Polars LazyFrame or DataFrame, or a table with Arrow's C stream, "
            "such as a pyarrow Table, a pandas DataFrame or a DuckDB relation (con.sql(...)); "
            f"files are read by pr.scan_log(...); found {_kind(frame)}"
        )
        raise ArgumentError(message)
    # What can be cut by rows is in memory, as the tables of pandas and pyarrow are.
    in_memory = any(hasattr(frame, name) for name in ("iloc", "slice"))
    return held(frame) if in_memory else Stream(frame)


def _kind(value: Any) -> str:
    """Return what something is, and whose."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return kind.__name__ if library == "builtins" else f"{library}.{kind.__name__}"


def _has_rows(frame: Any) -> bool:
    """Return whether something gives rows of several columns as Arrow does, or as a dataset."""
    if type(frame).__name__ in ("Series", "Index", "ChunkedArray"):
        return False
    of_pyarrow = type(frame).__module__.startswith("pyarrow")
    batch = hasattr(frame, "__arrow_c_array__") and hasattr(frame, "schema")
    of_files = any(hasattr(frame, name) for name in ("scanner", "projected_schema"))
    return hasattr(frame, "__arrow_c_stream__") or (of_pyarrow and (batch or of_files))
