"""Tables of other libraries and engines, read in batches from their Arrow C streams."""

from __future__ import annotations

from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._polars import NUMBERED, number_of_scans
from polars_rank.errors import DataError, SchemaError, SourceError, warn
from polars_rank.frames.batches import (
    BATCH_ROWS,
    complete_rankings,
    is_adjacent,
    numbered,
    requested,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Rows that are read before planning. Streams with fewer rows are kept in memory.
GLIMPSE_ROWS = 100_000

#: What Polars and pyarrow raise for columns of unsupported types.
_UNREADABLE = (
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    *(TypeError, ValueError, NotImplementedError),
)

#: Name of the source in plans. Its count is the number of times that a plan reads the stream.
_NAME = "ARROW STREAM"


class NotAdjacentError(DataError):
    """The rows of a ranking are not adjacent in a stream."""


class Stream:
    """A table of another engine that is read in batches.

    A DuckDB relation or a dataset is executed each time it is read. A stream of batches, such as a
    `pyarrow.RecordBatchReader`, can be read only once.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from polars_rank.frames.streams import Stream
    >>> stream = Stream(pa.table({"query": [1, 1, 2]}).to_reader())
    >>> [batch.height for batch in stream.first_batches()]
    [3]

    Parameters
    ----------
    table
        A pyarrow Dataset or Scanner, or any other object with `__arrow_c_stream__`.
    glimpse_rows
        Number of first rows that are read to find out whether rankings are adjacent. Streams with
        fewer rows are held in memory.
    batch_rows
        Maximum number of rows of a batch.
    """

    def __init__(
        self, table: Any, *, glimpse_rows: int = GLIMPSE_ROWS, batch_rows: int = BATCH_ROWS
    ) -> None:
        self._table = table
        self._glimpse_rows = glimpse_rows
        self._batch_rows = batch_rows
        self._reader: Any = None
        #: Whether the reader is unused, except for the first batches.
        self._fresh = False
        self._first: list[pl.DataFrame] = []
        self._lock = Lock()
        #: Whether the table can be read only once.
        self.once: bool = any(hasattr(table, name) for name in ("read_next_batch", "__next__"))
        self.schema: pl.Schema = _schema(self._open().schema)

    def first_batches(self) -> list[pl.DataFrame]:
        """Return the first batches, with `glimpse_rows` rows or more if the stream is that long."""
        rows = sum(batch.height for batch in self._first)
        for batch in self._rest(self._reader) if rows < self._glimpse_rows else ():
            self._first.append(batch)
            rows += batch.height
            if rows >= self._glimpse_rows:
                break
        if self.once and not any(batch.height for batch in self._first):
            warn(
                f"{type(self._table).__name__} has no rows; it can be read only once, so check "
                "that it was not read before"
            )
        return self._first

    def is_long(self) -> bool:
        """Return whether there are at least `glimpse_rows` rows."""
        return sum(batch.height for batch in self.first_batches()) >= self._glimpse_rows

    def whole(self) -> pl.DataFrame:
        """Return all rows."""
        try:
            return pl.concat([pl.DataFrame(schema=self.schema), *self._batches()])
        finally:
            self.close()

    def scan(self, keys: Sequence[str] = (), number: str = "") -> pl.LazyFrame:
        """Return a plan that reads the rows; with keys, it also numbers adjacent rankings."""
        full = pl.Schema({**self.schema, number: NUMBERED} if keys else self.schema)
        message = (
            f"the rows of a ranking are not adjacent in the stream (keys: {[*keys]}); sort them "
            "in the engine (ORDER BY), or pass the whole table, such as reader.read_all()"
        )

        def read(
            with_columns: list[str] | None,
            predicate: pl.Expr | None,
            n_rows: int | None,
            batch_size: int | None,  # noqa: ARG001  (the engine determines it)
        ) -> Iterator[pl.DataFrame]:
            columns = [*full] if with_columns is None else with_columns
            read = {*columns, *keys, *([] if predicate is None else predicate.meta.root_names())}
            in_stream = [name for name in self.schema if name in read]
            batches: Iterator[pl.DataFrame] = (
                batch[in_stream] for batch in self._batches(in_stream)
            )
            if keys:
                error = NotAdjacentError(message)
                batches = numbered(complete_rankings(batches, keys), keys, number, error)
            yield from requested(batches, columns, predicate, n_rows)

        return register_io_source(read, schema=full, explain_name=_NAME)

    def seems_adjacent(self, keys: Sequence[str]) -> bool:
        """Return whether the rows of each ranking are adjacent in the first batches."""
        exist = bool(keys) and all(key in self.schema for key in keys)
        return exist and is_adjacent(pl.concat(self.first_batches()).select(keys), keys)

    def close(self) -> None:
        """Close the reader; an open reader may block the connection of the engine."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
            self._reader, self._fresh = None, False

    def _open(self, columns: list[str] | None = None) -> Any:
        self.close()
        try:
            self._reader = _reader(self._table, columns)
        except Exception as error:  # engines raise any type
            raise _broken(error) from error
        self._fresh, self._first = True, []
        return self._reader

    def _batches(self, columns: list[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield all batches. Datasets read only the given columns."""
        if hasattr(self._table, "scanner") and columns is not None:
            self._open(columns)
        elif not self._fresh:
            if self.once:
                raise SourceError(
                    f"{type(self._table).__name__} can be read only once, and was read before; "
                    "pass the whole table, such as reader.read_all()"
                )
            self._open()
        reader, first_batches = self._reader, self._first
        self._fresh, self._first = False, []
        for batch in chain(first_batches, self._rest(reader)):
            yield from batch.iter_slices(self._batch_rows)

    def _rest(self, reader: Any) -> Iterator[pl.DataFrame]:
        """Yield the remaining batches of a reader, until the stream is closed."""
        while True:
            with self._lock:
                if reader is not self._reader:
                    return
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except Exception as error:  # engines raise any type
                    raise _broken(error) from error
            yield to_polars(batch)


def is_scanned_once(plan: pl.LazyFrame) -> bool:
    """Return whether a plan reads its stream no more than once."""
    return number_of_scans(plan, _NAME) == 1


def _reader(table: Any, columns: list[str] | None) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    if hasattr(table, "scanner"):
        return _scanner(table, columns).to_reader()
    if hasattr(table, "to_reader"):
        return table.to_reader()
    return pa.RecordBatchReader.from_stream(table)


def _scanner(dataset: Any, columns: list[str] | None) -> Any:
    """Return a scanner with little read-ahead; by default pyarrow reads whole Parquet files."""
    from pyarrow import dataset as pa_dataset  # noqa: PLC0415  (as above)

    options: dict[str, Any] = {"batch_readahead": 2, "fragment_readahead": 1}
    if isinstance(getattr(dataset, "format", None), pa_dataset.ParquetFileFormat):
        options["fragment_scan_options"] = pa_dataset.ParquetFragmentScanOptions(pre_buffer=False)
    return dataset.scanner(columns=columns, **options)


def _schema(schema: Any) -> pl.Schema:
    """Return the schema of a stream with the types of Polars."""
    try:
        empty = schema.empty_table()
    except NotImplementedError as error:
        fields = ", ".join(f"{field.name!r} ({field.type})" for field in schema)
        raise SchemaError(
            f"pyarrow does not support a column of {fields}: {error}; drop the column, or cast it"
        ) from error
    return to_polars(empty).schema


def to_polars(rows: Any) -> pl.DataFrame:
    """Return an Arrow or pandas table in memory as a Polars DataFrame.

    Raises
    ------
    SchemaError
        If Polars does not support the type of a column, or if two columns have the same name.
    """
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


def _broken(error: Exception) -> SourceError:
    return SourceError(f"the engine failed to read the table: {error}")
