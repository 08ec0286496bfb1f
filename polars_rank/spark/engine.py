"""Lazy evaluation of Spark DataFrames, classic or Connect, with the functions for Polars.

Spark moves the rows of each query to one worker, which evaluates complete rankings with Polars. The
result is a Spark DataFrame: rows for each ranking, or the result that one task merges from parts.
"""

# ruff: noqa: PLC0415  (pyspark is an extra, and workers import Polars late)

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.engines import Mergeable, Separable
from polars_rank.frames.tables import evaluated
from polars_rank.spark import dataframes
from polars_rank.spark.query_chunks import PLACE, chunks_of, packed_cells
from polars_rank.spark.tasks import Findings, merged, packed, parts, results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from polars_rank.spark.tasks import Chunks

#: The schemas `CELLS` and `PARTS` in Spark's syntax.
_CELLS = "bucket int, rows binary"
_PARTS = "part binary"
#: Minimum number of buckets of queries. A task holds one bucket in memory.
_MIN_BUCKETS = 1_024

#: A function of batches that a task of Spark runs.
Task: TypeAlias = "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]"


def run(
    function: Callable[..., Separable | Mergeable], frame: DataFrame, options: Mapping[str, Any]
) -> DataFrame:
    """Return the result of a function of a Spark DataFrame.

    Raises
    ------
    ArgumentError
        If the DataFrame is a stream, or options cannot be pickled for workers.
    """
    if getattr(frame, "isStreaming", False):
        raise ArgumentError(
            "streaming DataFrames are not supported; call the function for each batch in "
            ".writeStream.foreachBatch(...)"
        )
    on_workers = {**options, **({"progress": False} if "progress" in options else {})}
    computation = function(pl.LazyFrame(schema=dataframes.schema_of(frame)), **on_workers)
    return _result(computation, frame)


def unsupported() -> ArgumentError:
    """Return the error of a function that needs all rows at once."""
    return ArgumentError(
        "this function does not support Spark DataFrames, because it needs all rows at once; pass "
        "frame.toArrow(), or the .toArrow() of a smaller table, such as the result of "
        "pr.per_query; or call it for each group of rows: frame.groupBy('day').applyInArrow(lambda "
        "rows: function(rows).to_arrow(), schema), with the option "
        "spark.sql.execution.arrow.useLargeVarTypes"
    )


def _result(computation: Separable | Mergeable, frame: DataFrame) -> DataFrame:
    given = dataframes.schema_of(frame)
    read, result = _read_by(computation, given)
    schema = dataframes.spark_schema(result, frame, given)
    arrow = dataframes.arrow_schema(schema)
    for_workers = partial(_for_workers, frame)
    rows, chunks = _together(frame, read, computation.together, for_workers)
    if isinstance(computation, Mergeable):
        add_up, merge, finish = computation.add_up, computation.merge, computation.finish
        added_up = rows.mapInArrow(for_workers(partial(parts, add_up, merge, chunks)), _PARTS)
        # The part of an empty table, which has a result, but no tasks.
        empty = packed(evaluated(add_up, given.to_frame()), Findings())
        all_parts = added_up.union(frame.sparkSession.createDataFrame(empty.to_pylist(), _PARTS))
        return all_parts.repartition(1).mapInArrow(
            for_workers(partial(merged, merge, finish, arrow)), schema
        )
    found = rows.mapInArrow(
        for_workers(partial(results, computation.function, chunks, arrow)), schema
    )
    if computation.check is None:
        return found
    nothing = _result(computation.check, frame)
    return found.unionByName(nothing, allowMissingColumns=True)


def _read_by(computation: Separable | Mergeable, given: pl.Schema) -> tuple[pl.Schema, pl.Schema]:
    """Return the schemas of the columns that a computation reads, and of its result."""
    read: set[str] = set()

    def empty(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
        names = list(given) if columns is None else columns
        read.update(names)
        yield pl.DataFrame(schema=given).select(names)

    plan = computation(register_io_source(empty, schema=given))
    result = plan.collect_schema()
    with contextlib.suppress(DataError):  # some functions raise it for a table without rows
        plan.collect()
    return pl.Schema({name: dtype for name, dtype in given.items() if name in read}), result


def _together(
    frame: DataFrame, read: pl.Schema, together: Sequence[str], for_workers: Callable[[Task], Task]
) -> tuple[DataFrame, Chunks]:
    """Return the columns to read, with each query in one task, and the chunks of a task.

    Rows move in packed cells by Spark's hash of the query, which is the same on all machines. The
    rows of a query keep their order. Columns are renamed, because pyspark parses names with special
    characters.
    """
    plain = {name: f"column{index}" for index, name in enumerate(read)}
    frame = frame.selectExpr(
        *(f"{dataframes.quoted(name)} as {own}" for name, own in plain.items())
    )
    if not together:
        return frame, partial(chunks_of, read)
    schema = pl.Schema({**read, PLACE: pl.Int64()})
    partitions = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    # At least four per partition; the number of partitions may be "auto".
    buckets = max(_MIN_BUCKETS, 4 * int(partitions) if partitions.isdigit() else 0)
    keys = ", ".join(plain[name] for name in together)
    hashed = f"cast(pmod(xxhash64({keys}), {buckets}) as int) as bucket"
    numbered = frame.selectExpr(hashed, "*", "monotonically_increasing_id() as place")
    cells = numbered.mapInArrow(for_workers(partial(packed_cells, schema)), _CELLS)
    return cells.repartition("bucket").sortWithinPartitions("bucket"), partial(chunks_of, schema)


def _for_workers(frame: DataFrame, task: Task) -> Task:
    """Return a task for workers that imports Polars when it runs."""
    payload = _pickled(task)
    warnings_of_workers = _warnings_from_workers(frame)

    def on_worker(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import pickle
        import sys
        import warnings

        from pyspark import TaskContext

        # Polars reads this variable when it is imported.
        task = TaskContext.get()
        os.environ["POLARS_MAX_THREADS"] = str(task.cpus() if task else 1)
        try:
            from polars_rank.errors import RankError, RankWarning

            on_batches = pickle.loads(payload)  # noqa: S301  (pickled by the driver)
        except ImportError as error:
            raise ImportError(
                f"module {error.name!r} not found on a worker; install polars_rank on all "
                "workers, and send your own modules with spark.addArtifacts(..., pyfile=True) "
                "or --py-files"
            ) from None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RankWarning)
            try:
                yield from on_batches(batches)
            except RankError as error:
                raise error.with_traceback(None) from None
        texts = {str(each.message) for each in caught if issubclass(each.category, RankWarning)}
        if warnings_of_workers is not None:
            warnings_of_workers.add(texts)
        else:
            sys.stderr.writelines(f"RankWarning: {text}\n" for text in texts)

    return on_worker


def _warnings_from_workers(frame: DataFrame) -> Any:
    """Return an accumulator whose texts become warnings in this process.

    Spark Connect has no accumulators; warnings are then written to the logs of workers.
    """
    if "connect" in type(frame).__module__:
        return None
    from pyspark import AccumulatorParam, TaskContext

    # Nested functions, so that workers can unpickle them without importing this module.
    def warn(text: str) -> None:
        import sys
        import warnings

        from polars_rank.errors import RankWarning

        try:
            warnings.warn(text, RankWarning, stacklevel=2)
        except RankWarning:  # an error would stop Spark's thread for updates
            sys.stderr.write(f"RankWarning: {text}\n")

    def added(_: Any, known: set[str], more: set[str]) -> set[str]:
        if TaskContext.get() is not None:
            return known | more
        for text in more:
            if text.partition("as in")[0] not in {other.partition("as in")[0] for other in known}:
                warn(text)
                known = known | {text}
        return known

    methods = {"zero": lambda *_: set(), "addInPlace": added}
    texts = type("Texts", (AccumulatorParam,), methods)
    return frame.sparkSession.sparkContext.accumulator(set(), texts())


def _pickled(task: Task) -> bytes:
    """Return the pickle of a task, including functions of a notebook."""
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps
    try:
        payload: bytes = dumps(task)
    except Exception as error:  # objects of users may raise anything
        raise ArgumentError(
            f"the arguments cannot be sent to Spark's workers: {error}; use functions of a "
            "module, or names such as gain='exp2'"
        ) from error
    return payload
