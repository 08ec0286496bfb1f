"""What a table is: any kind of frame in, the same kind out."""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
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
from polars_rank.frames.streams import GLIMPSE_ROWS, Stream, TornError, held, is_scanned_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


P = ParamSpec("P")


F = TypeVar("F", bound="Callable[..., Any]")


#: The package that evaluates the frames of another library, by the name of that library.
_ENGINES = {"pyspark": "polars_rank.spark"}

#: Rows of a frame that the in-memory engine collects faster than the streaming one.
_FEW_ROWS = 50_000


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
        raise _own_name(name)
    return name


def _own_name(name: str) -> SchemaError:
    message = f"column {name!r} begins with {OWN!r}, as our own do; rename it"
    return SchemaError(message)


def lazy(frame: Any) -> pl.LazyFrame:
    """Return any kind of table as a LazyFrame; a stream, as what it holds."""
    table = _table(frame)
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


class Whole(NamedTuple):
    """A plan for a LazyFrame, and one for a table of which a call of ours collects all rows."""

    lazy: Callable[[], pl.LazyFrame]
    whole: Callable[[], pl.LazyFrame]
    #: What all rows of `whole` are given to, to be warned of, and what it makes of them.
    check: Callable[[pl.DataFrame], pl.DataFrame]


def framed(plan: Callable[Concatenate[pl.LazyFrame, P], pl.LazyFrame | Whole]) -> Framed[P]:
    """Make a function of any table from a lazy plan, of which `by` and `query` name the lists."""

    @on_clusters
    @wraps(plan)
    def function(frame: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
        given: dict[str, Any] = {"query": "query", "by": None, **kwargs}
        keys = [key for parameter in ("by", "query") for key in names(parameter, given[parameter])]
        return same_kind(frame, lambda log: plan(log, *args, **kwargs), [*dict.fromkeys(keys)])

    return cast("Framed[P]", function)


def any_table(function: Callable[Concatenate[Any, P], Any]) -> Framed[P]:
    """Tell type checkers what comes out of a function of any table that ends in `same_kind`."""
    return cast("Framed[P]", function)


def on_clusters(function: F) -> F:
    """Let Spark run a function where its table, the first parameter, is one of Spark's."""
    first = next(iter(signature(function).parameters))

    @wraps(function)
    def door(*args: Any, **kwargs: Any) -> Any:
        on_spark = is_spark(args[0] if args else kwargs.get(first))
        return run_on_spark(function, *args, **kwargs) if on_spark else function(*args, **kwargs)

    return cast("F", door)


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


def same_kind(
    frame: Any, plan: Callable[[pl.LazyFrame], pl.LazyFrame | Whole], keys: Sequence[str] = ()
) -> Any:
    """Run a lazy plan on any table: LazyFrame in, LazyFrame out; otherwise a DataFrame.

    The plan is told that lists, of which there may be `keys`, come one after the other where a
    stream of another engine has them so.
    """
    table = _table(frame)
    if isinstance(table, pl.LazyFrame):
        result = plan(table)
        return result.lazy() if isinstance(result, Whole) else result
    if isinstance(table, Stream):
        return _streamed(table, plan, keys)
    return _held(table, plan)


def _held(
    table: pl.DataFrame, plan: Callable[[pl.LazyFrame], pl.LazyFrame | Whole]
) -> pl.DataFrame:
    result, check = _of_all_rows(plan(table.lazy()))
    return check(collected(result, few=table.height < _FEW_ROWS))


def _of_all_rows(
    result: pl.LazyFrame | Whole,
) -> tuple[pl.LazyFrame, Callable[[pl.DataFrame], pl.DataFrame]]:
    """Return a plan that is to be collected, and what all of its rows are given to."""
    return (result.whole(), result.check) if isinstance(result, Whole) else (result, _unchanged)


def _unchanged(rows: pl.DataFrame) -> pl.DataFrame:
    return rows


def _streamed(
    stream: Stream, plan: Callable[[pl.LazyFrame], pl.LazyFrame | Whole], keys: Sequence[str]
) -> pl.DataFrame:
    """Run a plan on a stream in flat memory where it can be, otherwise on all of its rows."""
    number = number_column(keys)
    try:
        if sum(batch.height for batch in stream.begun()) < GLIMPSE_ROWS:
            return _held(stream.whole(), plan)
        if keys and not stream.in_pieces(keys):
            return _held(stream.whole(), plan)
        result, check = _of_all_rows(plan(stream.scan(keys, number)))
        if not is_scanned_once(result) or number in result.collect_schema():
            return _held(stream.whole(), plan)
        try:
            found = check(collected(result, again=not stream.once))
        except TornError:
            if stream.once:
                raise
            stream.close()
            return _held(stream.whole(), plan)
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


def _table(frame: Any) -> pl.LazyFrame | pl.DataFrame | Stream:
    """Return any kind of table as one of ours: the one place that decides what a table is."""
    if isinstance(frame, (pl.LazyFrame, pl.DataFrame)):
        return frame
    if is_spark(frame):
        message = (
            "this function takes no Spark DataFrame, which may be larger than this machine; make a "
            "small table of it with pr.evaluate, pr.per_query or pr.moments, and give the "
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
