"""Which columns of the user's frame are the query, the document, the score and the label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    cast,
    overload,
)

import polars as pl

from polars_rank.errors import ArgumentError, DataError, SchemaError, SourceError, hint
from polars_rank.logs.pieces import NUMBERED
from polars_rank.logs.stores import store_error
from polars_rank.logs.streams import GLIMPSE_ROWS, Stream, TornError, held, is_scanned_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Names: TypeAlias = "str | Sequence[str]"
Score: TypeAlias = "str | pl.Expr"
P = ParamSpec("P")
F = TypeVar("F", bound="Callable[..., Any]")

#: What the names of our own columns begin with; no column of a user's may.
OWN = "polars_rank:"


#: Names of columns, in small letters, that tell the rankings of several systems apart.
RUNS = frozenset({"run", "run_id", "runid", "model", "system", "variant", "ranker", "experiment"})
#: Names of columns, in small letters, that hold ids of documents.
IDS = frozenset({
    *("docid", "doc_id", "docno", "document", "document_id", "documentid", "passage_id", "pid"),
    *("item", "item_id", "itemid", "product", "product_id", "sku", "asin", "url", "object_id"),
})  # fmt: skip


class _Unsaid(str):
    """A default that can be told from the same text given by the caller, in any process."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return self.upper()


#: The column of queries, if there is one.
QUERY: str = _Unsaid("query")
#: The column of documents, if there is one.
DOC: str = _Unsaid("doc")
#: The column that tells the rankings of several systems apart, if there is one.
RUN: str = _Unsaid("run")
#: The column of positions at which documents were shown, if there is one.
POSITION: str = _Unsaid("position")

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


@dataclass(frozen=True)
class Columns:
    """Names of the columns in one frame, checked against its schema."""

    query: tuple[str, ...]
    by: tuple[str, ...]
    doc: str | None
    score: str
    label: str
    schema: pl.Schema
    #: Columns that nobody named, and that look like ids of documents, or like names of runs.
    unnamed: tuple[str, ...] = ()
    #: Whether the score is made of positions, at which documents were shown.
    placed: bool = False

    @property
    def keys(self) -> list[str]:
        """The columns that tell lists apart."""
        return [*self.by, *self.query]

    @property
    def pair(self) -> list[str]:
        """The columns that tell the documents of lists apart, of which there must be some."""
        if not self.query or self.doc is None or self.doc in self.keys:
            message = (
                "`query` and `doc` must name the columns of queries and of documents, and no "
                f"column twice; found {self.query}, `doc` {self.doc!r} and `by` {self.by}"
            )
            raise ArgumentError(message)
        return [*self.keys, self.doc]

    def number(self, name: str) -> pl.Expr:
        """Return a score or label column as integers or floats."""
        return pl.col(name) if self.is_plain(name) else pl.col(name).cast(pl.Float64)

    def is_plain(self, name: str) -> bool:
        """Return whether a score or label column holds numbers as they are needed."""
        dtype = self.schema[name]
        # Scores that Float64 cannot tell apart must not become ties.
        exact = dtype.is_decimal() and name == self.score
        return dtype.is_integer() or dtype.is_float() or exact

    def check_numeric(self, parameter: str, name: str) -> None:
        """Raise `SchemaError` unless there is such a column of numbers."""
        check_there(parameter, name, self.schema)
        check_number(parameter, name, self.schema[name])

    @classmethod
    def find(
        cls,
        schema: pl.Schema,
        *,
        query: Names | None,
        doc: str | None,
        score: str,
        label: str,
        by: Names | None,
    ) -> Columns:
        """Check the names and types against the schema; raise `SchemaError` where one is off."""
        queries, groups = names("query", query), names("by", by)
        if query is not None and not queries:
            message = "`query` must name at least one column"
            raise ArgumentError(message)
        looks = RUNS
        if doc is DOC and doc not in schema:
            doc, looks = None, RUNS | IDS
        wanted = {
            "query": queries,
            "by": groups,
            "doc": names("doc", doc),
            "score": (score,),
            "label": (label,),
        }
        for parameter, columns in wanted.items():
            for column in columns:
                check_there(parameter, column, schema)
        asked = {column for columns in wanted.values() for column in columns}
        _check_names(asked, schema)
        both = set(queries) & set(groups)
        if both:
            message = f"column {both.pop()!r} is in `by` and in `query`; leave it in one of them"
            raise ArgumentError(message)
        for parameter, column in (("score", score), ("label", label)):
            check_number(parameter, column, schema[column])
        for parameter in ("query", "by", "doc"):
            for column in wanted[parameter]:
                check_id(parameter, column, schema[column])
        unnamed = tuple(
            name
            for name, dtype in schema.items()
            if name not in asked and name.lower() in looks and dtype != pl.Object
        )
        return cls(queries, groups, doc, score, label, schema, () if doc else unnamed)


def _check_names(asked: set[str], schema: pl.Schema) -> None:
    """Raise `SchemaError` for names of our own that nobody asked for."""
    own = {OWN + "score", *(name for name, dtype in schema.items() if dtype == NUMBERED)}
    for name in schema:
        if name.startswith(OWN) and name not in asked | own:
            raise _own_name(name)


def _own_name(name: str) -> SchemaError:
    message = f"column {name!r} begins with {OWN!r}, as our own do; rename it"
    return SchemaError(message)


def names(parameter: str, value: Names | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple; raise `ArgumentError` for anything else."""
    if value is None:
        return ()
    given = (value,) if isinstance(value, str) else tuple(value)
    for name in given:
        if not isinstance(name, str):
            message = f"`{parameter}` must be column names; found {name!r}"
            raise ArgumentError(message)
        if given.count(name) > 1:
            message = f"`{parameter}` names the column {name!r} twice"
            raise ArgumentError(message)
    return given


def scored(log: pl.LazyFrame, score: Score, position: str | None) -> tuple[pl.LazyFrame, str]:
    """Return the log with a column of scores, higher being better, and its name."""
    if position is not None:
        if score != "score":
            message = "`score` and `position` both say how documents are ranked; give one of them"
            raise ArgumentError(message)
        score = f"-{position}"
    schema = schema_of(log)
    if isinstance(score, str) and score not in schema and score.startswith("-"):
        name = score[1:]
        check_there("score" if position is None else "position", name, schema)
        check_number("score", name, schema[name])
        score = _negative(pl.col(name), schema[name])
    if isinstance(score, str):
        return log, score
    if not isinstance(score, pl.Expr):
        message = (
            "`score` must be the name of a column, '-' and the name of one in which lower is "
            f"better, or an expression; found {score!r}; for several, use scores=[...]"
        )
        raise ArgumentError(message)
    return log.with_columns(score.alias(OWN + "score")), OWN + "score"


def _negative(number: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return numbers in reverse order: integers and decimals exactly, whatever their size."""
    if dtype.is_decimal():
        return -number
    if dtype in (pl.Int128, pl.UInt128):
        return ~number  # one less than its negative, which may be beyond any type
    if dtype in (pl.Int64, pl.UInt64):  # their negatives may be beyond Int64
        return -number.cast(pl.Decimal(20, 0))
    return -number.cast(pl.Int64 if dtype.is_integer() else pl.Float64)


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
    from polars_rank.runners import spark  # noqa: PLC0415  (it runs what is made here)

    return spark.run(function, *args, **kwargs)


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


def free(columns: Sequence[str], added: Sequence[str], parameter: str = "by") -> None:
    """Raise `ArgumentError` if a column that a parameter names is one that the result has too."""
    for name in added:
        if name in columns:
            message = f"`{parameter}` names the column {name!r}, which the result adds; rename it"
            raise ArgumentError(message)


def check_apart(parameter: str, keys: Sequence[str], groups: Sequence[str]) -> None:
    """Raise `ArgumentError` unless a parameter names columns, and none that `by` names."""
    if not keys or set(keys) & set(groups):
        message = f"`{parameter}` must name columns that are not in `by`; found {keys}"
        raise ArgumentError(message)


def check_there(parameter: str, column: str, schema: pl.Schema) -> None:
    """Raise `SchemaError` unless the column that a parameter names exists."""
    if not isinstance(column, str):
        message = f"`{parameter}` must be the name of a column; found {column!r}"
        raise ArgumentError(message)
    if column in schema:
        check_name(column)
        return
    columns = ", ".join(repr(name) for name in schema if not name.startswith(OWN))
    message = (
        f"there is no column {column!r}, which `{parameter}` names; the frame has {columns}."
        f"{hint(column, schema)} Name the right one with {parameter}=..."
    )
    raise SchemaError(message)


def check_name(column: str) -> None:
    """Raise `SchemaError` for the name of a column that Polars reads as a pattern."""
    if column == "*" or (column[:1], column[-1:]) == ("^", "$"):
        message = f"the column {column!r} has a name that Polars reads as a pattern; rename it"
        raise SchemaError(message)


def check_number(parameter: str, column: str, dtype: pl.DataType) -> None:
    """Raise `SchemaError` unless a column has numbers."""
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return
    remedy = f"cast it, as in pl.col({column!r}).cast(pl.Float64)"
    if dtype == pl.Duration:
        remedy = f"take its seconds, pl.col({column!r}).dt.total_seconds(fractional=True)"
    elif dtype.is_temporal():
        remedy += f", or say whether there is one, pl.col({column!r}).is_not_null()"
    if isinstance(dtype, (pl.List, pl.Array)):
        remedy = "turn one row per query into one row per document with pr.from_lists(...)"
    message = f"column {column!r} (`{parameter}`) must be numeric; found {dtype}; {remedy}"
    raise SchemaError(message)


def check_values(parameter: str, column: str, dtype: pl.DataType) -> None:
    """Raise `SchemaError` for a column of Python objects, which Polars cannot compare."""
    if dtype == pl.Object:
        message = (
            f"column {column!r} (`{parameter}`) must hold values that Polars can compare; found "
            f"Object; make text of them, as in pl.col({column!r}).map_elements(str, pl.String)"
        )
        raise SchemaError(message)


def check_id(parameter: str, column: str, dtype: pl.DataType) -> None:
    """Raise `SchemaError` unless a column has one id in each row."""
    check_values(parameter, column, dtype)
    if not dtype.is_nested() or isinstance(dtype, pl.Struct):
        return
    remedy = "name a column of ids"
    if isinstance(dtype, (pl.List, pl.Array)):
        remedy = "turn one row per query into one row per document with pr.from_lists(...)"
    message = f"column {column!r} (`{parameter}`) must hold one id per row; found {dtype}; {remedy}"
    raise SchemaError(message)
