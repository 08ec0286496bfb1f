"""Lazy evaluation of Spark DataFrames, classic or Connect, with the functions for Polars.

Spark moves the rows of each query to one worker, which evaluates complete rankings with Polars. The
result is a Spark DataFrame: rows for each ranking, or means, which one task merges from parts.
"""

# ruff: noqa: PLC0415  (pyspark is an extra, and workers import Polars late)

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from functools import partial, reduce
from inspect import signature
from typing import TYPE_CHECKING, Any

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank import catalog
from polars_rank._params import OWN, names
from polars_rank._polars import rows_of_table
from polars_rank.catalog.fairness import GroupExposure
from polars_rank.catalog.summaries import Summary
from polars_rank.catalog.training import Popularity
from polars_rank.clicks.estimates import Estimates, estimate
from polars_rank.columns import Columns
from polars_rank.conventions import POLARS_RANK, named, read_metrics
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation import plan
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.means import Means
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.evaluation.ranking import rank
from polars_rank.frames.tables import FEW_ROWS, as_table, collected
from polars_rank.fusion.fuse import Runs, fuse, fused
from polars_rank.fusion.tuning import tune_fusion
from polars_rank.io.chunks import collapse
from polars_rank.io.judgments import join_judgments
from polars_rank.merging import Mergeable, merge, merged
from polars_rank.spark import dataframes
from polars_rank.spark.joins import joined
from polars_rank.spark.query_chunks import Packed, Sorted, Unpacked
from polars_rank.spark.tasks import CheckTask, MergeTask, PartsTask, RankingsTask, packed
from polars_rank.stats.moment_tables import sum_of_parts
from polars_rank.stats.moments import moments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame


def run(function: Callable[..., Any], *args: Any, **options: Any) -> DataFrame:
    """Return the result of a function of polars_rank for a Spark DataFrame, its first argument.

    Raises
    ------
    ArgumentError
        If the function does not support Spark, or options cannot be pickled for workers.
    """
    bound = signature(function).bind(*args, **options)
    bound.apply_defaults()
    arguments = {**dict(zip(bound.arguments, bound.args, strict=False)), **bound.kwargs}
    frame = arguments.pop(next(iter(arguments)))
    if function not in _IMPLEMENTATIONS:
        as_table(frame)  # raises the error for Spark DataFrames
    if getattr(frame, "isStreaming", False):
        raise ArgumentError(
            f"pr.{function.__name__} does not support streaming DataFrames; call it for each batch "
            "in .writeStream.foreachBatch(...)"
        )
    result: DataFrame = _IMPLEMENTATIONS[function](frame, arguments)
    return result


def _per_query(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    return _of_rankings(per_query, frame, _parsed(arguments))


def _of_rankings(
    function: Callable[..., Any], frame: DataFrame, arguments: dict[str, Any]
) -> DataFrame:
    call = partial(function, **arguments)
    return _Log.of(frame, call).rankings(call, _queries(arguments), arguments)


def _fuse(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    rankings = _of_rankings(fused, frame, arguments)
    runs = Runs.of(arguments)
    text = f"cast({dataframes.quoted(runs.column)} as string) as run"
    task = _for_workers(CheckTask(runs), arguments, frame)
    checked = frame.selectExpr(text).distinct().repartition(1).mapInArrow(task, rankings.schema)
    return rankings.union(checked)


def _of_groups(
    function: Callable[..., Any], frame: DataFrame, arguments: dict[str, Any]
) -> DataFrame:
    """Return the result of a function that needs all rows of a group at once, in one task."""
    call = partial(function, **arguments)
    log, by = _Log.of(frame, call), names("by", arguments.get("by"))
    if by:
        return log.rankings(call, by, arguments)
    return log.parts(partial(_selected, names=log.read), _as_is, (), arguments, call)


def _selected(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    return rows.select(names)


def _evaluate(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    arguments = _parsed(arguments)
    evaluation = Evaluation.of(dataframes.schema_of(frame), **arguments)
    means = Means.of(evaluation)
    rankings = partial(plan.per_query, evaluation=evaluation)
    return _in_parts(frame, partial(evaluate, **arguments), _Parts(rankings, means), arguments)


def _estimate(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    arguments = _parsed(arguments)
    estimates = Estimates.of(dataframes.schema_of(frame), **arguments)
    return _in_parts(
        frame, partial(estimate, **arguments), _Parts(estimates.rankings, estimates), arguments
    )


def _summary(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    sums = Summary.of(dataframes.schema_of(frame), **arguments)
    call = partial(catalog.summary, **arguments)
    query = () if sums.of_exposures else _queries(arguments)
    parts = _Parts(_as_is, sums)
    return _Log.of(frame, call).parts(parts.add_up, parts.merge, query, arguments, parts.finish)


def _popularity(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    call = partial(catalog.popularity, **arguments)
    return _in_parts(frame, call, _Parts(_as_is, Popularity.of(**arguments)), arguments)


def _group_exposure(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    call = partial(catalog.group_exposure, **arguments)
    sums = GroupExposure.of(dataframes.schema_of(frame), **arguments)
    return _in_parts(frame, call, _Parts(_as_is, sums), arguments)


def _exposure(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    call = partial(catalog.exposure, **arguments)
    return _Log.of(frame, call).parts(call, merge, _queries(arguments), arguments)


def _as_is(log: Any) -> Any:
    return log


def _in_parts(
    frame: DataFrame, function: Callable[..., Any], parts: _Parts, arguments: dict[str, Any]
) -> DataFrame:
    log = _Log.of(frame, function)
    return log.parts(parts.add_up, parts.merge, _queries(arguments), arguments, parts.finish)


def _moments(frame: DataFrame, arguments: dict[str, Any]) -> DataFrame:
    call = partial(moments, **arguments)
    schema = dataframes.schema_of(frame)
    roles = {"query": _queries(arguments), "cluster": arguments.get("cluster")}
    columns = Columns.find(schema, roles, optional=("query",))
    query, clusters = columns.query, columns.roles["cluster"]
    # Each cluster, with all runs of its queries, must be in one part.
    return _Log.of(frame, call).parts(call, sum_of_parts, clusters or query, arguments)


def _merge(frame: Any, arguments: dict[str, Any]) -> DataFrame:
    several = frame if isinstance(frame, (list, tuple)) else [frame]
    schemas = [dataframes.schema_of(part) for part in several]
    merged([pl.LazyFrame(schema=each) for each in schemas])  # raises if columns differ
    union = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), several)
    return _Log.of(union, merge).parts(merge, merge, (), arguments)


def _parsed(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of an evaluation with parsed metrics, and without a progress bar."""
    without = {"progress": False} if "progress" in arguments else {}
    metrics = read_metrics(arguments["metrics"], arguments.get("conventions"))
    return {**arguments, "metrics": metrics, **without}


def _queries(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return names("query", arguments.get("query", "query"))


@dataclass(frozen=True)
class _Parts:
    """A result that is computed from the sums of parts of a log."""

    rankings: Callable[[pl.LazyFrame], pl.LazyFrame]
    sums: Mergeable

    def add_up(self, log: pl.DataFrame) -> pl.DataFrame:
        return collected(self.sums.add_up(self.rankings(rows_of_table(log, FEW_ROWS))))

    def merge(self, parts: pl.DataFrame) -> pl.DataFrame:
        return collected(self.sums.merge(parts.lazy()), few=True)

    def finish(self, parts: pl.DataFrame) -> pl.DataFrame:
        return collected(self.sums.finish(parts.lazy()), few=True)


@dataclass(frozen=True)
class _Log:
    """A Spark DataFrame, and the columns that a function reads from it and returns."""

    frame: DataFrame
    #: The schema of the DataFrame.
    given: pl.Schema
    #: The columns that the function reads, and the schema of its result.
    read: list[str]
    result: pl.Schema

    @classmethod
    def of(cls, frame: DataFrame, function: Callable[[pl.LazyFrame], pl.LazyFrame]) -> _Log:
        given = dataframes.schema_of(frame)
        read: set[str] = set()

        def empty(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
            names = list(given) if columns is None else columns
            read.update(names)
            yield pl.DataFrame(schema=given).select(names)

        plan = function(register_io_source(empty, schema=given))
        result = plan.collect_schema()
        with contextlib.suppress(DataError):  # some functions raise it for a table without rows
            plan.collect()
        return cls(frame, given, [name for name in given if name in read], result)

    def rankings(
        self, function: Callable[..., Any], query: Sequence[str], arguments: Mapping[str, Any]
    ) -> DataFrame:
        """Return the rows that a function returns for the rankings of each query."""
        schema = dataframes.spark_schema(self.result, self.frame, self.given)
        together, chunks = self._together(query, arguments)
        task = RankingsTask(function, chunks, dataframes.arrow_schema(schema))
        return together.mapInArrow(_for_workers(task, arguments, self.frame), schema)

    def parts(
        self,
        function: Callable[..., Any],
        merged: Callable[..., Any],
        query: Sequence[str],
        arguments: Mapping[str, Any],
        finished: Callable[..., Any] | None = None,
    ) -> DataFrame:
        """Return the merged result of the parts that a function returns for groups of queries."""
        schema = dataframes.spark_schema(self.result, self.frame, self.given)
        together, chunks = self._together(query, arguments)
        first = PartsTask(function, merged, chunks)
        last = MergeTask(merged, finished, dataframes.arrow_schema(schema))
        parts = together.mapInArrow(_for_workers(first, arguments, self.frame), _PARTS)
        # The part of an empty table, which has a result, but no tasks.
        empty = packed(function(pl.DataFrame(schema=self.given)))
        session = self.frame.sparkSession
        all_parts = parts.union(session.createDataFrame(empty.to_pylist(), _PARTS))
        return all_parts.repartition(1).mapInArrow(
            _for_workers(last, arguments, self.frame), schema
        )

    def _together(
        self, query: Sequence[str], arguments: Mapping[str, Any]
    ) -> tuple[DataFrame, Sorted | Unpacked]:
        """Return the columns to read, with each query in one task, and the chunks of a task.

        If the table is bucketed or partitioned by query and text sorts as in Polars, Spark only
        sorts the rows: its plan then has no further exchange. Otherwise, rows move in packed cells
        by Spark's hash of the query, which is the same on all machines. Columns are renamed,
        because pyspark parses names with special characters.
        """
        plain = {name: f"column{index}" for index, name in enumerate(self.read)}
        frame = self.frame.selectExpr(
            *(f"{dataframes.quoted(name)} as {own}" for name, own in plain.items())
        )
        if not query:
            return frame, Sorted(self.read, query)
        keys = [plain[name] for name in query]
        placed = [_PLACE] if _order_counts(arguments) else []
        if placed:
            frame = frame.selectExpr("*", f"monotonically_increasing_id() as {_PLACE}")
        over = f"(partition by {', '.join(keys)} order by {', '.join([*keys, *placed])})"
        numbered = frame.selectExpr("*", f"row_number() over {over} as number")
        in_place = dataframes.is_sorted_by_bytes(self.frame, query)
        if in_place and _moves(numbered) <= _moves(frame):
            return numbered, Sorted(self.read, query)
        schema = pl.Schema({name: self.given[name] for name in self.read})
        schema |= {OWN + name: pl.Int64() for name in placed}  # users may have a column "place"
        hashed = f"cast(pmod(xxhash64({', '.join(keys)}), {_buckets(frame)}) as int) as bucket"
        task = _for_workers(Packed(schema), arguments, frame)
        cells = frame.selectExpr(hashed, "*").mapInArrow(task, _CELLS)
        together = cells.repartition("bucket").sortWithinPartitions("bucket")
        return together, Unpacked(schema, placed=bool(placed))


def _buckets(frame: DataFrame) -> int:
    """Return the number of buckets, at least four per partition."""
    partitions = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    return max(_MIN_BUCKETS, 4 * int(partitions) if partitions.isdigit() else 0)  # may be "auto"


def _moves(frame: DataFrame) -> int:
    """Return the number of exchanges in Spark's plan, which move rows between machines."""
    plan = io.StringIO()
    with contextlib.redirect_stdout(plan):
        frame.explain()
    return len(re.findall(r"\bExchange\b", plan.getvalue()))


def _order_counts(arguments: Mapping[str, Any]) -> bool:
    """Return whether the result depends on the order of the rows of a ranking."""
    if "first" in (arguments.get("how"), arguments.get("label_how")):
        return True
    conventions = named(arguments.get("conventions") or POLARS_RANK).but(
        ties=arguments.get("ties"), duplicates=arguments.get("duplicates")
    )
    every = [conventions, *(conventions.of(each) for each in arguments.get("metrics") or ())]
    return any(each.ties == "input" or each.duplicates != "error" for each in every)


#: The schemas `CELLS` and `PARTS` in Spark's syntax.
_CELLS = "bucket int, rows binary"
_PARTS = "part binary, rows bigint, findings binary"
#: Minimum number of buckets of queries. A task holds one bucket in memory.
_MIN_BUCKETS = 1_024
#: Column of the original order of rows.
_PLACE = "place"


def _for_workers(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    arguments: Mapping[str, Any],
    frame: DataFrame,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task for workers that imports Polars when it runs."""
    payload = _pickled(task, arguments)
    warnings_of_workers = _warnings_from_workers(frame)

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
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
                f"module {error.name!r} not found on a worker; install polars_rank on all workers, "
                "and send your own modules with spark.addArtifacts(..., pyfile=True) or --py-files"
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


def _pickled(task: Any, arguments: Mapping[str, Any]) -> bytes:
    payload, error = _pickle(task)
    if error is None:
        return payload
    values = {f"`{name}`": value for name, value in arguments.items() if name != "metrics"}
    values |= {f"the metric {metric}": metric for metric in arguments.get("metrics") or ()}
    name = next((name for name, value in values.items() if _pickle(value)[1]), "the call")
    raise ArgumentError(
        f"{name} cannot be sent to Spark's workers: {error}; use functions of a module, or names "
        "such as gain='exp2'"
    ) from error


def _pickle(value: Any) -> tuple[bytes, Exception | None]:
    """Return the pickle of a value, including functions of a notebook, or the error."""
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps
    try:
        return dumps(value), None
    except Exception as error:  # noqa: BLE001  (objects of users may raise anything)
        return b"", error


#: Implementations for Spark by function.
_IMPLEMENTATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    evaluate: _evaluate,
    estimate: _estimate,
    fuse: _fuse,
    per_query: _per_query,
    moments: _moments,
    merge: _merge,
    join_judgments: joined,
    catalog.exposure: _exposure,
    catalog.group_exposure: _group_exposure,
    catalog.popularity: _popularity,
    catalog.summary: _summary,
    **{
        function: partial(_of_rankings, function)
        for function in (
            rank,
            collapse,
            catalog.awrf,
            catalog.exclude_seen,
            catalog.expected_exposure,
        )
    },
    tune_fusion: partial(_of_groups, tune_fusion),
}
