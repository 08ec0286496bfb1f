"""`scan_log`: Parquet logs that are evaluated in flat memory.

Rows may be sorted by the keys of rankings, adjacent, or shuffled:

- sorted: Polars aggregates by sorted keys in flat memory;
- adjacent: a column numbers the rankings, and these numbers are sorted. It also has a hash of the
  keys, so that an evaluation can check that the numbers still match;
- shuffled: logs that fit in memory are sorted there. Larger logs are split by key into temporary
  files that are small enough to sort, and their rankings are numbered.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl
import polars.selectors as cs

from polars_rank._params import OWN, Names, one_of, public
from polars_rank._polars import NUMBERED, NumberedRows, scan_of_files
from polars_rank._progress import watcher
from polars_rank.columns import RUN, Columns, Label, Score, scored
from polars_rank.errors import ArgumentError, DataError, SourceError
from polars_rank.evaluation.by_columns import columns_are_faster
from polars_rank.frames.batches import BATCH_ROWS, complete_rankings, numbered, requested
from polars_rank.frames.layouts import Lengths, inspect_rows
from polars_rank.frames.stores import check_options, store_error
from polars_rank.frames.tables import number_column, unreadable
from polars_rank.io.files import DAMAGE, Files, damaged, find_files, first_names, origin, scan_files
from polars_rank.io.outputs import temporary_folder, write_problem
from polars_rank.io.text_files import Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


Watched: TypeAlias = "Callable[[pl.LazyFrame], pl.LazyFrame]"

#: Minimum number of short rankings in a batch.
_BATCH_RANKINGS = 10_000

#: Default memory for sorting in bytes, unless a quarter of the machine's memory is less.
_DEFAULT_MEMORY = 500 * 10**6

#: Approximate bytes of memory while rows are sorted: the key and place of a row, and a text.
_PLACE_BYTES, _TEXT_BYTES = 15, 64


#: Options of `scan_parquet` that apply to the log, not to each of its files.
_LOG_OPTIONS = {
    *("n_rows", "row_index_name", "row_index_offset", "include_file_paths"),
    *("hive_partitioning", "hive_schema", "try_parse_hive_dates", "glob"),
}

Layout: TypeAlias = Literal["auto", "sorted", "adjacent", "shuffled"]


@public
def scan_log(
    paths: Paths,
    *,
    query: Names = "query",
    doc: str | None = None,
    score: Score | None = None,
    label: Label | None = None,
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    layout: Layout = "auto",
    memory: str | int | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Return a LazyFrame of a Parquet log that is evaluated in flat memory.

    The order of the rows may be any. The function reads the key columns to find the layout of the
    rows, which takes hundredths of a second for ten million rows. It reads nothing else until the
    result is collected, in batches of Polars' streaming chunk size, or larger ones.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> path = tempfile.mkdtemp() + "/log.parquet"
    >>> pl.DataFrame({
    ...     "query": [2, 2, 1], "doc": [1, 2, 1], "score": [0.9, 0.1, 0.5],
    ...     "label": [0, 1, 1],
    ... }).write_parquet(path)
    >>> pr.evaluate(pr.scan_log(path), "rr").collect()
    shape: (1, 2)
    ┌─────────┬──────┐
    │ queries ┆ rr   │
    │ ---     ┆ ---  │
    │ u32     ┆ f64  │
    ╞═════════╪══════╡
    │ 2       ┆ 0.75 │
    └─────────┴──────┘

    Parameters
    ----------
    paths
        A file, a directory, a pattern, or several of them; or URLs that Polars can scan, such as
        "s3://logs/june/". Hive partitions become columns. In directories, names that begin with
        "." or "_" are skipped. A path that exists is never a pattern. A file that several paths
        match is read once.
    query
        Column or columns that identify the query.
    doc
        Column of the document. None: do not check that the log has it.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
        None: do not check that the log has it.
    label
        Column of the relevance label. None: do not check that the log has it.
    position
        Column of the position, 1 first; replaces `score`. None: do not check that the log has it.
    run
        Column of the run. Default: "run" if the log has it.
    by
        Columns to group by.
    layout
        Layout of the rows: "sorted" by `by`, `run` and `query`, "adjacent" (the rows of each
        ranking follow each other), or "shuffled". Default: find out. With "adjacent", 8 bytes of
        memory per ranking are used to check this while the log is read.
    memory
        Memory for sorting shuffled logs, such as "2GB". A number is in bytes. Default: 500 MB, or a
        quarter of the machine's memory if that is less. A log that exceeds it is sorted through
        temporary files, which takes about twice as long. They are in `tempfile.gettempdir()`, and
        are removed when the evaluation ends.
    **options
        Options of `polars.scan_parquet`, such as `n_rows`, or `storage_options` for an object
        store: keys, the region, and timeouts, such as "read_timeout".

    Returns
    -------
    LazyFrame
        The log. Sorted logs, and shuffled logs that are sorted in memory, are marked as sorted.
        Other logs are read ranking by ranking, and their schema has one more column that numbers
        the rankings, which `collect` leaves out.

    Raises
    ------
    SourceError
        If a file is missing, cannot be read, or has different columns, or if an object store
        denies access. When the log is collected: if a file is damaged, or has changed since the
        scan, so that no row is silently missing, or if temporary files cannot be written. For
        object stores, only the number of rows is checked.
    SchemaError
        If a column that a parameter names is missing, or a key column holds lists.
    DataError
        If the rows do not have the given `layout`.
    """
    roles = {
        "query": query, "doc": doc, "score": score, "label": label, "position": position,
        "run": run, "by": by,
    }  # fmt: skip
    return scanned_log(paths, options, roles, layout=layout, memory=memory)


def scanned_log(
    paths: Paths,
    options: dict[str, Any],
    roles: Mapping[str, Any],
    *,
    layout: Layout,
    memory: str | int | None,
    progress: bool = False,
) -> pl.LazyFrame:
    """Return the result of `scan_log`, with a progress bar while it is read if it is wanted.

    `roles` has the columns that the log must have, by parameter.
    """
    order = ("sorted", "adjacent", "shuffled")
    one_of("layout", layout, ("auto", *order))
    check_options(options)
    budget = memory_bytes(memory)
    try:
        source = Source([paths] if isinstance(paths, (str, os.PathLike)) else paths, options)
        given = {name: value for name, value in roles.items() if value is not None}
        if {"score", "position"} & {*given}:
            scored(source.log, given.pop("score", "score"), given.get("position"))
        keys = Columns.find(source.schema, {**given, "query": given.get("query")}).keys
        with source.unchanged():
            found, lengths = "shuffled", None
            if layout != "shuffled":
                found, lengths = inspect_rows(source.log, keys, source.rows)
            # Structs cannot be compared.
            structs = any(isinstance(source.schema[key], pl.Struct) for key in keys)
            fits = not structs and source.rows * _sort_bytes(source.schema) <= budget
            in_memory = found == "shuffled" and fits
    except (OSError, pl.exceptions.PolarsError) as error:
        raise unreadable(error) from error
    if layout != "auto" and order.index(found) > order.index(layout):
        raise DataError(
            f"the rows are {found} by {keys}, not {layout!r} (`layout`); leave `layout` out, "
            "or sort the log"
        )
    watched: Watched = watcher(source.rows) if progress else lambda log: log
    return _scan(source, keys, lengths, "in memory" if in_memory else found, budget, watched)


def _scan(
    source: Source, keys: list[str], lengths: Lengths | None, found: str, budget: int,
    watched: Watched,
) -> pl.LazyFrame:  # fmt: skip
    """Return the log as a scan.

    A log that is sorted, or sorted "in memory", is marked as sorted. A log that is "adjacent" or
    "shuffled" is read ranking by ranking, with the column that numbers the rankings.
    """
    is_sorted, number = found in ("sorted", "in memory"), number_column(keys)
    schema = pl.Schema(source.schema if is_sorted else {**source.schema, number: NUMBERED})
    not_adjacent = DataError(
        f"the rows of a ranking are not adjacent by {keys}, although the log was scanned as "
        "adjacent; scan it again, or pass layout='shuffled'"
    )

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        columns = [*schema] if columns is None else columns
        needed = {*columns, *keys, *([] if predicate is None else predicate.meta.root_names())}
        plan = source.log.select(cs.by_name([name for name in source.schema if name in needed]))
        size = _batch_rows(plan, lengths, size)
        if is_sorted:
            # The scan skips parts of files that the predicate excludes.
            plan = plan if predicate is None else plan.filter(predicate)
            rows = None if predicate is None else source.count(plan)
            ordered = watched(plan)
            if found == "in memory":
                ordered = ordered.sort(keys, maintain_order=True)
            yield from requested(source.batches(ordered, size, rows), columns, n_rows=n_rows)
            return
        complete = (
            complete_rankings(source.batches(watched(plan), size), keys)
            if found == "adjacent"
            else _sorted(source, plan, keys, budget, size, watched)
        )
        rankings = numbered(complete, keys, number, not_adjacent if found == "adjacent" else None)
        batches = (part for batch in rankings for part in batch.iter_slices(size))
        yield from requested(batches, columns, predicate, n_rows)

    name = (
        f"LOG{'' if is_sorted else ', RANKING BY RANKING'} {', '.join(first_names(source.names))}"
    )
    scan = scan_of_files(
        read, source.names, rows=source.rows if found == "sorted" else None, lengths=lengths,
        sorts=found == "in memory", schema=schema, explain_name=name,
    )  # fmt: skip
    return scan.set_sorted(keys) if is_sorted else NumberedRows.of(scan)


def _batch_rows(plan: pl.LazyFrame, lengths: Lengths | None, batch_size: int | None) -> int:
    """Return the number of rows of a batch: Polars' size, or more if a batch has fixed costs.

    Short rankings have an expression for each position, and metrics of lists of ids, such as
    subtopics, call a function for each batch. Lists of numbers, such as embeddings, may need much
    memory, and keep Polars' size.
    """
    size = batch_size or BATCH_ROWS
    types = plan.collect_schema().values()
    if any(isinstance(each, pl.List) and not each.inner.is_float() for each in types):
        return 4 * size
    if lengths is not None and columns_are_faster(lengths):
        return max(size, _BATCH_RANKINGS * lengths.longest)
    return size


def _sorted(
    source: Source, plan: pl.LazyFrame, keys: list[str], budget: int, size: int, watched: Watched
) -> Iterator[pl.DataFrame]:
    """Yield a shuffled log sorted by the keys, through files on disk if it exceeds the budget."""
    parts = math.ceil(source.rows * _sort_bytes(plan.collect_schema()) / budget)
    if parts <= 1:
        in_order = watched(plan).sort(keys, maintain_order=True)
        yield from complete_rankings(source.batches(in_order, size), keys)
        return
    with temporary_folder() as folder:
        part = pl.struct(keys).hash() % parts
        with source.unchanged():
            watched(plan).sink_ipc(
                pl.PartitionBy(folder, key=part.alias(OWN + "part"), include_key=False),
                compression="uncompressed",
                maintain_order=True,
            )
        n_read = 0
        for path in sorted(folder.iterdir()):
            rows = pl.scan_ipc(path, glob=False).sort(keys, maintain_order=True)
            batch = watched(rows).collect()
            n_read += batch.height
            shutil.rmtree(path)
            yield batch
        source.check(n_read, source.rows)


def _sort_bytes(schema: pl.Schema) -> float:
    """Return the approximate bytes of memory per row while rows are sorted."""
    numbers = [each for each in schema.values() if not each.is_nested() and each != pl.String]
    values = sum(pl.Series(dtype=each).clear(8).estimated_size() / 8 for each in numbers)
    # Numbers are in memory before and after the sort.
    return 2 * values + _PLACE_BYTES + _TEXT_BYTES * (len(schema) - len(numbers))


def memory_bytes(memory: str | int | None) -> int:
    """Return the number of bytes of a parameter `memory`."""
    if memory is None:
        try:
            quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
        except (AttributeError, ValueError, OSError):  # unknown on this system
            return _DEFAULT_MEMORY
        return min(_DEFAULT_MEMORY, quarter)
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)B?\s*", str(memory), re.IGNORECASE)
    size = float(match[1]) * 1000 ** " KMGT".index(match[2].upper() or " ") if match else 0
    if not 10**6 <= size < math.inf:
        raise ArgumentError(
            f"must be a size of at least 1MB, such as '2GB'; found {memory!r}", "memory"
        )
    return int(size)


class Source:
    """A scan of Parquet files that fails if a file is damaged or has changed since the scan."""

    def __init__(self, paths: Iterable[str | os.PathLike[str]], options: Mapping[str, Any]) -> None:
        self.files: Files = find_files(paths)
        self.names: list[str] = self.files.names
        #: Sizes in bytes and times of the last change in nanoseconds; none for URLs.
        self.stamps: dict[str, tuple[int, int]] = (
            {} if self.files.remote else {name: _stamp(name) for name in self.names}
        )
        #: Options of `scan_parquet` for one file.
        self.options: dict[str, Any] = {
            name: value for name, value in options.items() if name not in _LOG_OPTIONS
        }
        with self.unchanged():
            log = scan_files(self.files, dict(options))
            # Numbers of rankings in a file may no longer match its rows.
            stale = [name for name, dtype in log.collect_schema().items() if dtype == NUMBERED]
            self.log: pl.LazyFrame = log.drop(stale) if stale else log
            self.schema: pl.Schema = self.log.collect_schema()
            self.rows: int = self.count(self.log)

    def batches(
        self, plan: pl.LazyFrame, size: int, rows: int | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a plan over the log, in order, in batches of about `size` rows.

        After the last batch, raise `SourceError` if a file is damaged or has changed. `rows` is the
        number of rows of the plan, by default that of the log.
        """
        n_read = 0
        with self.unchanged():
            for batch in plan.collect_batches(
                chunk_size=size, maintain_order=True, engine="streaming"
            ):
                n_read += batch.height
                yield batch
            # If Polars panics, its batches end without an error.
            self.check(n_read, self.rows if rows is None else rows)

    def check(self, n_read: int, expected: int) -> None:
        """Raise `SourceError` unless all rows were read."""
        if n_read != expected:
            raise self._damage() or self._incomplete(f"{n_read:,} of {expected:,} rows were read")

    def count(self, plan: pl.LazyFrame) -> int:
        """Return the number of rows of a plan over the log."""
        with self.unchanged():
            rows: int = plan.select(pl.len()).collect(engine="streaming").item()
        return rows

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise `SourceError` if a file is damaged, or changes before the block ends."""
        self._check_stamps()
        try:
            yield
        except DAMAGE as error:
            if write_problem(error) is not None:
                raise  # the disk for temporary files is full
            in_store = store_error(error, self.names) if self.files.remote else None
            if in_store is not None:
                raise in_store from error
            damage = self._damage()
            if damage is None and isinstance(error, Exception) and "parquet: " not in str(error):
                raise  # an error with another cause, such as a filter
            raise damage or self._incomplete(str(error)) from error
        self._check_stamps()

    def _check_stamps(self) -> None:
        for file, stamp in self.stamps.items():
            if _stamp(file) != stamp:
                raise SourceError(
                    f"'{origin(file)}' has changed since it was scanned; scan it again"
                )

    def _damage(self) -> SourceError | None:
        """Return the error for the first file that cannot be read, if there is one.

        Files are read one by one, because Polars does not name the damaged file.
        """
        self._check_stamps()
        for file in self.names:
            try:
                scan = scan_files(Files([file], self.files.remote), self.options)
                scan.select(cs.all().count()).collect(engine="streaming")
            except DAMAGE as error:
                return damaged(file, error)
        return None

    def _incomplete(self, problem: str) -> SourceError:
        """Return the error for missing rows if every single file can be read."""
        first, *others = map(origin, self.names)
        one_of = f"'{first}' or one of {len(others):,} other files" if others else f"'{first}'"
        remedy = "scan it again if it was replaced" if self.files.remote else "write it again"
        return SourceError(f"cannot read all of {one_of}: {problem}; {remedy}")


def _stamp(file: str) -> tuple[int, int]:
    try:
        status = Path(file).stat()
    except OSError as error:
        raise SourceError(
            f"cannot read '{origin(file)}': {error.strerror}; check that it still exists"
        ) from error
    return status.st_size, status.st_mtime_ns
