"""Evaluation of Spark DataFrames, classic or Connect: as lazy as they are, by the same functions.

Spark brings the rows of a query together; workers evaluate whole lists with Polars; what comes
back is a Spark DataFrame again: of lists, or of parts that one task merges.
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

from polars_rank._params import OWN, names
from polars_rank.clicks.estimates import Estimates, estimate
from polars_rank.conventions import POLARS_RANK, named, read_metrics
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.means import Means
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.evaluation.ranking import rank
from polars_rank.frames.tables import as_table, collected
from polars_rank.spark import tables
from polars_rank.spark.chunks import Packed, Sorted, Unpacked
from polars_rank.spark.joins import joined
from polars_rank.spark.tasks import OfAll, OfLists, OfParts, packed
from polars_rank.stats.moment_tables import merge, merged, moments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame


def run(function: Callable[..., Any], *args: Any, **options: Any) -> DataFrame:
    """Run a function of polars_rank on a Spark DataFrame, its first argument; return one.

    Raises
    ------
    ArgumentError
        For a function that takes none, or options that cannot be sent to the workers.
    """
    name = function.__name__
    bound = signature(function).bind(*args, **options)
    asked = {**dict(zip(bound.arguments, bound.args, strict=False)), **bound.kwargs}
    frame = asked.pop(next(iter(asked)))
    if name not in _RUNS:
        as_table(frame)  # raises the error for Spark
    if getattr(frame, "isStreaming", False):
        message = (
            f"pr.{name} takes no streaming DataFrame; call it for each batch, in "
            ".writeStream.foreachBatch(...)"
        )
        raise ArgumentError(message)
    made: DataFrame = _RUNS[name](frame, asked)
    return made


def _rank(frame: DataFrame, asked: dict[str, Any]) -> DataFrame:
    return _of_lists(rank, frame, asked)


def _per_query(frame: DataFrame, asked: dict[str, Any]) -> DataFrame:
    return _of_lists(per_query, frame, _here(asked))


def _of_lists(function: Callable[..., Any], frame: DataFrame, asked: dict[str, Any]) -> DataFrame:
    call = partial(function, **asked)
    return _Log.of(frame, call).lists(call, _queries(asked), asked)


def _evaluate(frame: DataFrame, asked: dict[str, Any]) -> DataFrame:
    asked = _here(asked)
    evaluation = Evaluation.of(**asked)
    means = Means.of(evaluation)
    rankings = partial(plan.per_query, evaluation=evaluation, presence=means.presence)
    return _in_parts(frame, partial(evaluate, **asked), _Parts(rankings, means), asked)


def _estimate(frame: DataFrame, asked: dict[str, Any]) -> DataFrame:
    asked = _here(asked)
    estimates = Estimates.of(**asked)
    return _in_parts(
        frame, partial(estimate, **asked), _Parts(estimates.rankings, estimates), asked
    )


def _in_parts(
    frame: DataFrame, function: Callable[..., Any], parts: _Parts, asked: dict[str, Any]
) -> DataFrame:
    log = _Log.of(frame, function)
    return log.parts(parts.add_up, parts.merge, _queries(asked), asked, parts.finish)


def _moments(frame: DataFrame, asked: dict[str, Any]) -> DataFrame:
    call = partial(moments, **asked)
    query = _queries(asked) if asked.get("baseline") is not None else ()
    return _Log.of(frame, call).parts(call, _added_up, query, asked)


def _added_up(parts: pl.DataFrame) -> pl.DataFrame:
    return collected(merged([parts.lazy()], None, disjoint=False), few=True)


def _merge(frame: Any, asked: dict[str, Any]) -> DataFrame:
    several = frame if isinstance(frame, (list, tuple)) else [frame]
    schemas = [tables.schema_of(part) for part in several]
    merged([pl.LazyFrame(schema=schema) for schema in schemas], None)  # says which columns differ
    together = reduce(
        lambda left, right: left.unionByName(right, allowMissingColumns=True), several
    )
    return _Log.of(together, merge).parts(merge, merge, (), asked)


def _here(asked: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked of an evaluation, with metrics that can be read again and again."""
    return {
        **asked,
        "metrics": read_metrics(asked["metrics"], asked.get("conventions")),
        "progress": False,
    }


def _queries(asked: Mapping[str, Any]) -> tuple[str, ...]:
    return names("query", asked.get("query", "query"))


@dataclass(frozen=True)
class _Parts:
    """The means or estimates of an evaluation, in parts."""

    rankings: Callable[[pl.LazyFrame], pl.LazyFrame]
    sums: Means | Estimates

    def add_up(self, log: pl.DataFrame) -> pl.DataFrame:
        return collected(self.sums.add_up(self.rankings(log.lazy())))

    def merge(self, parts: pl.DataFrame) -> pl.DataFrame:
        return collected(self.sums.merge(parts.lazy()), few=True)

    def finish(self, parts: pl.DataFrame) -> pl.DataFrame:
        return collected(self.sums.finish(parts.lazy()), few=True)


@dataclass(frozen=True)
class _Log:
    """A Spark DataFrame, and what is known of a function of it before anything runs."""

    frame: DataFrame
    given: pl.Schema
    #: The columns that the function reads, and those of its result.
    read: list[str]
    result: pl.Schema

    @classmethod
    def of(cls, frame: DataFrame, function: Callable[[pl.LazyFrame], pl.LazyFrame]) -> _Log:
        given = tables.schema_of(frame)
        read: set[str] = set()

        def nothing(columns: list[str] | None, *_: Any) -> Iterator[pl.DataFrame]:
            asked = list(given) if columns is None else columns
            read.update(asked)
            yield pl.DataFrame(schema=given).select(asked)

        plan = function(register_io_source(nothing, schema=given))
        result = plan.collect_schema()
        plan.collect()
        return cls(frame, given, [name for name in given if name in read], result)

    def lists(
        self, function: Callable[..., Any], query: Sequence[str], asked: Mapping[str, Any]
    ) -> DataFrame:
        """Return the rows that a function gives of the lists of each query."""
        schema = tables.spark_schema(self.result, self.frame, self.given)
        together, chunks = self._together(query, asked)
        task = OfLists(function, chunks, tables.arrow_schema(schema))
        return together.mapInArrow(_sent(task, asked, self.frame), schema)

    def parts(
        self,
        function: Callable[..., Any],
        merged: Callable[..., Any],
        query: Sequence[str],
        asked: Mapping[str, Any],
        finished: Callable[..., Any] | None = None,
    ) -> DataFrame:
        """Return what one task makes of the parts that a function gives of some queries."""
        schema = tables.spark_schema(self.result, self.frame, self.given)
        together, chunks = self._together(query, asked)
        first = OfParts(function, merged, chunks)
        last = OfAll(merged, finished, tables.arrow_schema(schema))
        few = together.mapInArrow(_sent(first, asked, self.frame), _PARTS)
        # Those of no list: there is a result, too, where the table has no rows and no tasks.
        none = packed(function(pl.DataFrame(schema=self.given)))
        session = self.frame.sparkSession
        with_none = few.union(session.createDataFrame(none.to_pylist(), _PARTS))
        return with_none.repartition(1).mapInArrow(_sent(last, asked, self.frame), schema)

    def _together(
        self, query: Sequence[str], asked: Mapping[str, Any]
    ) -> tuple[DataFrame, Sorted | Unpacked]:
        """Return the columns that are read, all of a query in one task, and how they come there.

        Spark says itself whether it has to move rows for it. Not those of a table that is bucketed
        or was partitioned by query: it sorts them, if in the order of Polars. Others travel packed,
        by a hash of their query that Spark takes, for it has to be the same on all machines. Names
        of columns are plain ones, which pyspark does not parse.
        """
        plain = {name: f"column{index}" for index, name in enumerate(self.read)}
        frame = self.frame.selectExpr(
            *(f"{tables.quoted(name)} as {own}" for name, own in plain.items())
        )
        if not query:
            return frame, Sorted(self.read, query)
        keys = [plain[name] for name in query]
        placed = [_PLACE] if _order_counts(asked) else []
        if placed:
            frame = frame.selectExpr("*", f"monotonically_increasing_id() as {_PLACE}")
        over = f"(partition by {', '.join(keys)} order by {', '.join([*keys, *placed])})"
        numbered = frame.selectExpr("*", f"row_number() over {over} as number")
        in_place = tables.is_sorted_by_bytes(self.frame, query)
        if in_place and _moves(numbered) <= _moves(frame):
            return numbered, Sorted(self.read, query)
        schema = pl.Schema({name: self.given[name] for name in self.read})
        schema |= {OWN + name: pl.Int64() for name in placed}  # users may have a "place", too
        hashed = f"cast(pmod(xxhash64({', '.join(keys)}), {_buckets(frame)}) as int) as bucket"
        task = _sent(Packed(schema), asked, frame)
        cells = frame.selectExpr(hashed, "*").mapInArrow(task, _CELLS)
        together = cells.repartition("bucket").sortWithinPartitions("bucket")
        return together, Unpacked(schema, placed=bool(placed))


def _buckets(frame: DataFrame) -> int:
    """Return into how many buckets to sort queries, so that few of them are a partition."""
    partitions = frame.sparkSession.conf.get("spark.sql.shuffle.partitions") or ""
    return max(_BUCKETS, 4 * int(partitions) if partitions.isdigit() else 0)  # or it is "auto"


def _moves(frame: DataFrame) -> int:
    """Return how often Spark plans to send the rows of a frame over the network."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        frame.explain()
    return len(re.findall(r"\bExchange\b", told.getvalue()))


def _order_counts(asked: Mapping[str, Any]) -> bool:
    """Return whether the order in which the rows of a list come changes the result."""
    if asked.get("duplicates", "error") != "error":
        return True
    conventions = named(asked.get("conventions", POLARS_RANK)).but(ties=asked.get("ties"))
    return "input" in {
        conventions.ties,
        *(conventions.of(metric).ties for metric in asked.get("metrics") or ()),
    }


#: The columns of `CELLS` and of `PARTS`, for Spark.
_CELLS = "bucket int, rows binary"
_PARTS = "part binary, rows bigint, findings binary"
#: Buckets into which queries are sorted, at least: one is in memory at a time.
_BUCKETS = 1_024
#: The column of where a row was in its table.
_PLACE = "place"


def _sent(
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    asked: Mapping[str, Any],
    frame: DataFrame,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a task as it is sent to workers; they import Polars when it runs, not before."""
    payload = _pickled(task, asked)
    warned = _warnings_from_workers(frame)

    def on_worker(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import pickle
        import sys
        import warnings

        from pyspark import TaskContext

        # Polars reads it when it is imported.
        task = TaskContext.get()
        os.environ["POLARS_MAX_THREADS"] = str(task.cpus() if task else 1)
        try:
            from polars_rank.errors import RankError, RankWarning

            made = pickle.loads(payload)  # noqa: S301  (we wrote it)
        except ImportError as error:
            message = (
                f"the worker has no module {error.name!r}: install polars_rank on all workers, and "
                "send modules of your own with spark.addArtifacts(..., pyfile=True) or --py-files"
            )
            raise ImportError(message) from None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", RankWarning)
            try:
                yield from made(batches)
            except RankError as error:
                raise error.with_traceback(None) from None
        texts = {str(each.message) for each in caught if issubclass(each.category, RankWarning)}
        if warned is not None:
            warned.add(texts)
        else:
            sys.stderr.writelines(f"RankWarning: {text}\n" for text in texts)

    return on_worker


def _warnings_from_workers(frame: DataFrame) -> Any:
    """Return an accumulator of texts, each of which becomes a warning in this process.

    Spark Connect has none: there, warnings stand in the log of the worker.
    """
    if "connect" in type(frame).__module__:
        return None
    from pyspark import AccumulatorParam, TaskContext

    # All of it inside, so that workers need not import this module, and Polars, for it.
    def warn(text: str) -> None:
        import sys
        import warnings

        from polars_rank.errors import RankWarning

        try:
            warnings.warn(text, RankWarning, stacklevel=2)
        except RankWarning:  # an error would break the thread in which Spark takes updates
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


def _pickled(task: Any, asked: Mapping[str, Any]) -> bytes:
    made, error = _tried(task)
    if error is None:
        return made
    each = {f"`{name}`": value for name, value in asked.items() if name != "metrics"}
    each |= {f"the metric {metric}": metric for metric in asked.get("metrics") or ()}
    culprit = next((name for name, value in each.items() if _tried(value)[1]), "the call")
    message = (
        f"{culprit} cannot be sent to Spark's workers: {error}; give functions of a module, or "
        "names such as gain='exp2'"
    )
    raise ArgumentError(message) from error


def _tried(value: Any) -> tuple[bytes, Exception | None]:
    """Return a value as bytes, functions of a notebook among it, or why that cannot be."""
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps
    try:
        return dumps(value), None
    except Exception as error:  # noqa: BLE001  (whatever the objects of users raise)
        return b"", error


_RUNS: dict[str, Callable[..., Any]] = {
    "evaluate": _evaluate,
    "estimate": _estimate,
    "per_query": _per_query,
    "rank": _rank,
    "moments": _moments,
    "merge": _merge,
    "join_judgments": joined,
}
