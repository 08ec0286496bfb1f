"""Tables of other engines, read batch by batch from Arrow's C stream."""

from __future__ import annotations

import warnings
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._polars import number_of_scans
from polars_rank.errors import DataError, RankWarning, SchemaError, SourceError
from polars_rank.frames.pieces import BATCH_ROWS, NUMBERED, first, numbered, together, whole_lists

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: How many rows are looked at before anything is planned; a stream of fewer is held in memory.
GLIMPSE_ROWS = 100_000

#: What Polars and pyarrow raise for columns that they cannot make out.
_UNREADABLE = (
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
    *(TypeError, ValueError, NotImplementedError),
)

#: By this, a plan says how often it reads the stream.
_NAME = "ARROW STREAM"


class TornError(DataError):
    """The rows of a list came in two places of a stream."""


class Stream:
    """The rows of another engine, which are asked for when they are needed.

    A relation of DuckDB or a dataset is asked anew each time it is read; a stream of batches, such
    as a `pyarrow.RecordBatchReader`, can be read only once.

    Parameters
    ----------
    table
        A pyarrow Dataset or Scanner, or anything else with `__arrow_c_stream__`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from polars_rank.frames.streams import Stream
    >>> stream = Stream(pa.table({"query": [1, 1, 2]}).to_reader())
    >>> [batch.height for batch in stream.begun()]
    [3]
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._reader: Any = None
        self._fresh = False
        self._begun: list[pl.DataFrame] = []
        self._lock = Lock()
        #: Whether it can be read only once.
        self.once = any(hasattr(table, name) for name in ("read_next_batch", "__next__"))
        self.schema = _schema(self._open().schema)

    def begun(self) -> list[pl.DataFrame]:
        """Read the first batches, for at least `GLIMPSE_ROWS` rows where there are as many."""
        rows = sum(batch.height for batch in self._begun)
        for batch in self._rest(self._reader) if rows < GLIMPSE_ROWS else ():
            self._begun.append(batch)
            rows += batch.height
            if rows >= GLIMPSE_ROWS:
                break
        if self.once and not any(batch.height for batch in self._begun):
            message = (
                f"the {type(self._table).__name__} has no rows; a stream can be read only once: "
                "was it read before?"
            )
            warnings.warn(message, RankWarning, stacklevel=2)
        return self._begun

    def is_long(self) -> bool:
        """Return whether there are at least `GLIMPSE_ROWS` rows."""
        return sum(batch.height for batch in self.begun()) >= GLIMPSE_ROWS

    def whole(self) -> pl.DataFrame:
        """Return all rows, in memory."""
        try:
            return pl.concat([pl.DataFrame(schema=self.schema), *self._batches()])
        finally:
            self.close()

    def scan(self, keys: Sequence[str] = (), number: str = "") -> pl.LazyFrame:
        """Return the rows as a plan; with keys, whose lists stand together, also numbered."""
        full = pl.Schema({**self.schema, number: NUMBERED} if keys else self.schema)
        message = (
            f"the rows of some lists stand in two places of the stream, by {[*keys]}; have the "
            "engine sort them (ORDER BY), or give the whole table, such as reader.read_all()"
        )

        def read(
            with_columns: list[str] | None,
            predicate: pl.Expr | None,
            n_rows: int | None,
            batch_size: int | None,  # noqa: ARG001  (batches are cut by who makes them)
        ) -> Iterator[pl.DataFrame]:
            columns = [*full] if with_columns is None else with_columns
            needed = {*columns, *keys, *([] if predicate is None else predicate.meta.root_names())}
            wanted = [name for name in self.schema if name in needed]
            batches: Iterator[pl.DataFrame] = (batch[wanted] for batch in self._batches(wanted))
            if keys:
                batches = numbered(whole_lists(batches, keys), keys, number, TornError(message))
            kept = batches if predicate is None else (batch.filter(predicate) for batch in batches)
            for rows in first(kept, n_rows):
                yield rows[columns]

        return register_io_source(read, schema=full, explain_name=_NAME)

    def in_pieces(self, keys: Sequence[str]) -> bool:
        """Return whether, as far as is known, the rows of each list stand together."""
        there = bool(keys) and all(key in self.schema for key in keys)
        return there and together(pl.concat(self.begun()).select(keys), keys)

    def close(self) -> None:
        """Let go of the engine, which may do nothing else while it is read."""
        with self._lock:
            if self._reader is not None:
                self._reader.close()
            self._reader, self._fresh = None, False

    def _open(self, columns: list[str] | None = None) -> Any:
        self.close()
        try:
            self._reader = _reader(self._table, columns)
        except Exception as error:  # of any engine
            raise _broken(error) from error
        self._fresh, self._begun = True, []
        return self._reader

    def _batches(self, columns: list[str] | None = None) -> Iterator[pl.DataFrame]:
        """Yield all batches, from the first one on; of a dataset, with these columns only."""
        if hasattr(self._table, "scanner") and columns is not None:
            self._open(columns)
        elif not self._fresh:
            if self.once:
                message = (
                    f"a {type(self._table).__name__} can be read only once, and has been; give "
                    "the whole table, such as reader.read_all()"
                )
                raise SourceError(message)
            self._open()
        reader, begun = self._reader, self._begun
        self._fresh, self._begun = False, []
        for batch in chain(begun, self._rest(reader)):
            yield from batch.iter_slices(BATCH_ROWS)

    def _rest(self, reader: Any) -> Iterator[pl.DataFrame]:
        """Yield the batches that a reader still has, unless the stream is closed meanwhile."""
        while True:
            with self._lock:
                if reader is not self._reader:
                    return
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                except Exception as error:  # of any engine
                    raise _broken(error) from error
            yield held(batch)


def is_scanned_once(plan: pl.LazyFrame) -> bool:
    """Return whether a plan reads its stream no more than once."""
    return number_of_scans(plan, _NAME) == 1


def _reader(table: Any, columns: list[str] | None) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (slow to import, seldom needed)

    if hasattr(table, "scanner"):
        return _scanner(table, columns).to_reader()
    if hasattr(table, "to_reader"):
        return table.to_reader()
    return pa.RecordBatchReader.from_stream(table)


def _scanner(dataset: Any, columns: list[str] | None) -> Any:
    """Scan a dataset without what pyarrow reads ahead of it, up to whole files of Parquet."""
    from pyarrow import dataset as of  # noqa: PLC0415  (as above)

    little: dict[str, Any] = {"batch_readahead": 2, "fragment_readahead": 1}
    if isinstance(getattr(dataset, "format", None), of.ParquetFileFormat):
        little["fragment_scan_options"] = of.ParquetFragmentScanOptions(pre_buffer=False)
    return dataset.scanner(columns=columns, **little)


def _schema(schema: Any) -> pl.Schema:
    """Return the columns of a stream as Polars has them."""
    try:
        empty = schema.empty_table()
    except NotImplementedError as error:
        fields = ", ".join(f"{field.name!r} ({field.type})" for field in schema)
        message = (
            f"pyarrow has no tables of the columns {fields}: {error}; leave it out, or cast it"
        )
        raise SchemaError(message) from error
    return held(empty).schema


def held(rows: Any) -> pl.DataFrame:
    """Return what another library holds in memory, a table or a batch, as Polars has it.

    Raises
    ------
    SchemaError
        For columns of a type that Polars does not have, of several types, or of the same name.
    """
    try:
        return pl.DataFrame(rows)
    except _UNREADABLE as error:
        columns = [*map(str, rows.columns if hasattr(rows, "iloc") else rows.schema.names)]
        twice = next((name for name in columns if columns.count(name) > 1), None)
        if twice is not None:
            message = f"the table has two columns {twice!r}; rename one of them, or drop it"
            raise SchemaError(message) from error
        message = (
            f"Polars cannot read the column {_culprit(rows)}: {error}; leave it out, or cast it"
        )
        raise SchemaError(message) from error


def _culprit(rows: Any) -> str:
    """Return the name and the type of the first column that Polars cannot read."""
    of_pandas = hasattr(rows, "iloc")
    for index, name in enumerate(rows.columns if of_pandas else rows.schema.names):
        try:
            pl.DataFrame(rows[[name]] if of_pandas else rows.select([name]))
        except _UNREADABLE:
            dtype = rows.dtypes.iloc[index] if of_pandas else rows.schema.field(index).type
            return f"{str(name)!r} ({dtype})"
    return "of one type beside those of others"


def _broken(error: Exception) -> SourceError:
    return SourceError(f"the table cannot be read to its end, its engine says: {error}")
