"""`scan_log`: read a log so that each list comes in one piece, in flat memory.

The rows of a list may stand in order (sorted by the keys), together (adjacent) or anywhere
(shuffled). Polars aggregates sorted keys list by list when it is told. For the other two
this module makes the keys sorted: it reads the log batch by batch, cut where lists end, and
numbers the lists. A shuffled log is first split by key over files on disk, small enough to
sort one by one. The number stands in a column of our own, beside a hash of the keys that were
numbered: so an evaluation can tell whether they are still those.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl
import polars.selectors as cs
from polars.io.plugins import register_io_source

from polars_rank._params import OWN, Names, check_there, names, one_of
from polars_rank._progress import watcher
from polars_rank.errors import ArgumentError, DataError, SchemaError
from polars_rank.evaluation.contiguity import falls
from polars_rank.frames.lengths import Lengths, source_name
from polars_rank.frames.pieces import BATCH_ROWS, NUMBERED, first, numbered, whole_lists
from polars_rank.frames.tables import number_column, unreadable
from polars_rank.io.files import temporary_folder
from polars_rank.io.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from polars._typing import SchemaDict

Layout: TypeAlias = Literal["sorted", "adjacent", "shuffled"]
Watched: TypeAlias = "Callable[[pl.LazyFrame], pl.LazyFrame]"
Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

#: How many rows are looked at first.
_GLIMPSE_ROWS = 100_000

#: In memory, a row of a log while its partition is sorted takes about this many bytes a column.
_SORT_BYTES = 64


def scan_log(
    paths: Paths,
    *,
    query: Names = "query",
    by: Names | None = None,
    layout: Literal["auto", "sorted", "adjacent", "shuffled"] = "auto",
    memory: str | int | None = None,
    progress: bool = False,
    **options: Any,
) -> pl.LazyFrame:
    """Scan a Parquet log so that evaluation runs in flat memory, whatever the order of its rows.

    One pass over the key columns alone finds out how the rows lie. It takes hundredths of a
    second for ten million rows, and is the only thing that is read before the result is asked
    for.

    Parameters
    ----------
    paths
        A file, a directory (hive partitions become columns), a glob, or several of them; or
        URLs that Polars can scan, such as "s3://logs/june/". In directories, what begins with
        "." or "_" is left out. A name that is there is that file, even if it looks like a glob.
        A file that several of the paths stand for is read once.
    query, by
        The columns that tell lists apart, as they will be given to `evaluate`.
    layout
        How the rows of a list lie: "sorted" by (by..., query), "adjacent" or "shuffled";
        "auto" finds out. A claim that is not true is an error. To be sure of "adjacent" while
        the log is read, 8 bytes are kept for each list; the others need no such memory.
    memory
        For shuffled logs: how much memory sorting may take, in bytes or as "2GB"; a quarter of
        the machine's by default. Temporary files go where `tempfile.gettempdir()` says, and
        are removed when the evaluation ends, or the process.
    progress
        Show a progress bar on a terminal when reading takes longer than two seconds (extra
        "cli").
    **options
        Options of `polars.scan_parquet`, such as `n_rows`; or `storage_options`, for an object
        store: keys, region, and how long to try ("max_retries", "retry_timeout_ms", and
        "read_timeout", after which a store that is silent has hung up: "30s" by default).

    Returns
    -------
    LazyFrame
        The log. Of a sorted log, Polars is told so; the rows of others come list by list, with
        one more column that numbers the lists.

    Raises
    ------
    SourceError
        For files that are missing, cannot be read, or have different columns. Also when the
        log is collected: for a file that is damaged, or has changed since it was scanned. What
        is read is all rows of the files as they were, or nothing. Of files in an object store,
        only how many rows there are is looked at again. There, also for a bucket or an object
        that there is not, a key that is denied, and a connection that breaks off for good.
    SchemaError
        For a missing column, or one of lists.
    ArgumentError
        For a `memory` that is no size of at least 1 MB.
    DataError
        For a claimed `layout` that is not true.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> path = tempfile.mkdtemp() + "/log.parquet"
    >>> pl.DataFrame({
    ...     "query": [2, 2, 1], "doc": [1, 2, 1], "score": [0.9, 0.1, 0.5], "label": [0, 1, 1]
    ... }).write_parquet(path)
    >>> pr.evaluate(pr.scan_log(path), "rr").collect()["rr"].item()
    0.75
    """
    one_of("layout", layout, ("auto", "sorted", "adjacent", "shuffled"))
    budget = _bytes(memory)
    try:
        source = Source.scan([paths] if isinstance(paths, (str, os.PathLike)) else paths, options)
        keys = _keys(source.schema, query, by)
        with source.files.unchanged():
            found, lengths = (layout, None) if layout == "shuffled" else _look(source.log, keys)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(error) from error
    allowed = {
        "auto": ("sorted", "adjacent", "shuffled"),
        "sorted": ("sorted",),
        "adjacent": ("sorted", "adjacent"),
        "shuffled": ("shuffled",),
    }[layout]
    if found not in allowed:
        message = (
            f"`layout` says {layout!r}, but the rows are {found} by {keys}; "
            "leave it at 'auto', or sort the log"
        )
        raise DataError(message, "layout")
    watched = watcher(source.rows) if progress else _unwatched
    if found == "sorted":
        return _as_it_is(source, keys, lengths, watched)
    return _numbered(source, keys, lengths, None if found == "adjacent" else budget, watched)


def find_layout(log: pl.LazyFrame, keys: Sequence[str]) -> Layout:
    """Find out by one pass over the key columns how the rows of rankings lie."""
    return _look(log, keys)[0]


def _look(log: pl.LazyFrame, keys: Sequence[str]) -> tuple[Layout, Lengths | None]:
    """Return how the rows of rankings lie and, if they stand together, how many they are."""
    # A log in no order shows it in its first rows, and need not be read through.
    if _layout(log.head(_GLIMPSE_ROWS), keys)[0] == "shuffled":
        return "shuffled", None
    return _layout(log, keys)


def _layout(log: pl.LazyFrame, keys: Sequence[str]) -> tuple[Layout, Lengths | None]:
    # Names of our own, since a column of the log may have any name.
    names_of = {key: (f"key {index}", f"before {index}") for index, key in enumerate(keys)}
    shifted = log.select(
        column
        for key, (here, before) in names_of.items()
        for column in (pl.col(key).alias(here), pl.col(key).shift(1).alias(before))
    )
    pairs = [(pl.col(here), pl.col(before)) for here, before in names_of.values()]
    # One row per piece: where a key differs from that of the row before.
    pieces = shifted.with_row_index("row").filter(
        pl.any_horizontal(key.ne_missing(previous) for key, previous in pairs)
        | (pl.col("row") == 0)
    )
    nulls = pl.any_horizontal(key.is_null() for key, _ in pairs)
    schema = log.collect_schema()
    # The order of structs cannot be relied on.
    structs = any(isinstance(schema[key], pl.Struct) for key in keys)
    before = {here: pl.col(name) for here, name in names_of.values()}
    fallen = pl.lit(value=True) if structs else falls(before)
    counted = pieces.select(
        pl.len().alias("pieces"),
        fallen.sum().alias("falls"),
        nulls.sum().alias("nulls"),
        pl.col("row").diff().max().alias("longest"),
        pl.col("row").max().alias("last"),
    ).collect(engine="streaming")
    rows = log.select(pl.len()).collect(engine="streaming").item()
    last = rows - (counted["last"].item() or 0)
    longest = max(counted["longest"].item() or 0, last)
    lengths = Lengths(sorted(keys), rows, counted["pieces"].item(), longest)
    if counted["falls"].item() == 0 and counted["nulls"].item() == 0:
        return "sorted", lengths
    lists = (
        pieces.select(pl.struct(key for key, _ in pairs).hash().n_unique())
        .collect(engine="streaming")
        .item()
    )
    return ("adjacent", lengths) if lengths.rankings == lists else ("shuffled", None)


def _keys(schema: pl.Schema, query: Names, by: Names | None) -> list[str]:
    """Return the columns that tell lists apart, checked."""
    keys = []
    for parameter, given in (("by", by), ("query", query)):
        for key in names(parameter, given):
            check_there(parameter, key, schema)
            if schema[key].is_nested() and not isinstance(schema[key], pl.Struct):
                message = (
                    f"column {key!r} (`{parameter}`) must hold one id per row; found "
                    f"{schema[key]}; name a column of ids, or write the log with one"
                )
                raise SchemaError(message, parameter)
            keys.append(key)
    return keys


def _as_it_is(
    source: Source, keys: list[str], lengths: Lengths | None, watched: Watched
) -> pl.LazyFrame:
    """Return a sorted log."""

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001  (Polars' own suggestion; ours is measured)
    ) -> Iterator[pl.DataFrame]:
        columns = [*source.schema] if with_columns is None else with_columns
        needed = _needed(source, columns, predicate, keys)
        if predicate is None:
            batches = source.batches(watched(needed), BATCH_ROWS)
        else:
            # Parts of files that a filter leaves out need not be read.
            some = needed.filter(predicate)
            batches = source.batches(watched(some), BATCH_ROWS, source.count(some))
        for rows in first(batches, n_rows):
            yield rows[columns]

    name = source_name("LOG", lengths, source)
    return register_io_source(read, schema=source.schema, explain_name=name).set_sorted(keys)


def _numbered(
    source: Source,
    keys: list[str],
    lengths: Lengths | None,
    budget: int | None,
    watched: Watched,
) -> pl.LazyFrame:
    """Return the log list by list with the column that numbers the lists."""
    number = number_column(keys)
    full: SchemaDict = {**source.schema, number: NUMBERED}
    message = (
        f"the rows of some lists stand in two places, though the log was found or said to be "
        f"adjacent by {keys}: did a file change? Scan it again, or say layout='shuffled'"
    )
    torn = DataError(message) if budget is None else None

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001  (as above)
    ) -> Iterator[pl.DataFrame]:
        columns = [*full] if with_columns is None else with_columns
        needed = _needed(source, columns, predicate, keys)
        pieces = (
            whole_lists(source.batches(watched(needed), BATCH_ROWS), keys)
            if budget is None
            else _sorted(source, needed, keys, budget, watched)
        )
        lists = numbered(pieces, keys, number, torn)
        batches = (part for piece in lists for part in piece.iter_slices(BATCH_ROWS))
        kept = batches if predicate is None else (batch.filter(predicate) for batch in batches)
        for rows in first(kept, n_rows):
            yield rows[columns]

    name = source_name("LOG, LIST BY LIST", lengths, source)
    return register_io_source(read, schema=full, explain_name=name)


def _needed(
    source: Source, columns: list[str], predicate: pl.Expr | None, keys: list[str]
) -> pl.LazyFrame:
    filtered = [] if predicate is None else predicate.meta.root_names()
    wanted = {*columns, *filtered, *keys}
    return source.log.select(cs.by_name([name for name in source.schema if name in wanted]))


def _unwatched(log: pl.LazyFrame) -> pl.LazyFrame:
    return log


def _sorted(
    source: Source, needed: pl.LazyFrame, keys: list[str], budget: int, watched: Watched
) -> Iterator[pl.DataFrame]:
    """Sort a shuffled log, in parts on disk where it is too large for the budget."""
    width = len(needed.collect_schema())
    parts = -(-source.rows * width * _SORT_BYTES // budget)
    if parts <= 1:
        in_order = watched(needed).sort(keys, maintain_order=True)
        yield from whole_lists(source.batches(in_order, BATCH_ROWS), keys)
        return
    with temporary_folder() as folder:
        part = pl.struct(keys).hash() % parts
        with source.files.unchanged():
            watched(needed).sink_parquet(
                pl.PartitionBy(folder, key=part.alias(OWN + "part"), include_key=False),
                compression="lz4",
                statistics=False,
                maintain_order=True,
            )
        came = 0
        for path in sorted(folder.iterdir()):
            rows = pl.scan_parquet(path, glob=False).sort(keys, maintain_order=True)
            piece = watched(rows).collect()
            came += piece.height
            shutil.rmtree(path)
            yield piece
        source.check(came, source.rows)


def _bytes(memory: str | int | None) -> int:
    if memory is None:
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
        except (AttributeError, ValueError, OSError):  # no such figure on this system
            return 2 * 10**9
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)B?\s*", str(memory), re.IGNORECASE)
    size = float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " ") if match else 0
    if size < 10**6:
        message = f"`memory` must be a size of at least 1MB, such as '2GB'; found {memory!r}"
        raise ArgumentError(message, "memory")
    return int(size)
