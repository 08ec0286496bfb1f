"""Whether the rows of each ranking are adjacent, compared batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from random import Random

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import holding_nodes
from polars.io.plugins import register_io_source

# Which order batches arrive in, and how much is kept of them, cannot be chosen from outside.
from polars_rank.columns import Columns
from polars_rank.datasets import search_log
from polars_rank.evaluation.contiguity import ROW, RUN, Keys, Neighbors


ENGINES = ("streaming", "in-memory")
LATER = "rows of a ranking may not be adjacent"
SCHEMA = {"query": pl.Int64, "doc": pl.Int64, "score": pl.Float64, "label": pl.Int64}


def rows_of(queries: list[int | None]) -> pl.DataFrame:
    """Return one row for each of the queries, each with another document."""
    number = pl.int_range(pl.len())
    made = pl.DataFrame({"query": queries}, schema={"query": pl.Int64})
    return made.with_columns(doc=number, score=number.cast(pl.Float64), label=number % 2)


def streamed(*runs: list[pl.DataFrame]) -> pl.LazyFrame:
    """Return a log that is declared sorted; each execution reads the next list of batches."""
    left = list(runs)

    def read(columns: object, predicate: object, n: object, size: object) -> Iterator[pl.DataFrame]:
        yield from (batch.select(columns or batch.columns) for batch in left.pop(0))

    return register_io_source(read, schema=SCHEMA).set_sorted("query")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_row_below_the_one_before_is_an_error(engine: str) -> None:
    message = rf"{LATER}.*in the ranking \{{'query': \d\}}"
    for batches in (
        [[1, 1, 2], [1, 3]],  # a ranking continues after another one
        [[4, 5], [1, 2]],  # the next batch has lower keys
        [[1, 1], [2, 2], [1, 1]],
        [[1, 2], [], [1]],
        [[1], [3], [2]],
        [[3, 1], [4]],  # within a batch
    ):
        log = streamed(*[[rows_of(batch) for batch in batches]])
        with pytest.raises(pr.errors.DataError, match=message):
            pr.evaluate(log, "ndcg", doc=None).collect(engine=engine)


def test_what_an_earlier_run_saw_does_not_count() -> None:
    broken = rows_of([8, 9]).with_columns(score=float("nan"))
    runs = [[rows_of([5, 6]), broken], [rows_of([1, 2]), rows_of([3, 4])]]
    plan = pr.evaluate(streamed(*runs), "p@1", doc=None)
    with pytest.raises(pr.errors.DataError):
        plan.collect(engine="streaming")
    assert plan.collect(engine="streaming")["queries"].item() == 4


def keyed(log: pl.DataFrame, *runs: str) -> tuple[Neighbors, pl.DataFrame]:
    """Return a check, and what it gets of a log in the execution 7."""
    keys = Keys.of(Columns(("query",), runs, None, "", "", log.schema))
    columns = [pl.col(name).alias(own) for name, own in keys.names.items()]
    return Neighbors(keys), log.select(columns).with_row_index(ROW).with_columns(
        pl.lit(7).alias(RUN)
    )


def test_batches_of_two_runs_are_not_neighbors_and_little_is_kept_of_them() -> None:
    check, rows = keyed(rows_of([5, 6, 1, 2]))
    later = rows[2:]
    check(rows[:2])
    check(later.with_columns(pl.lit(8).alias(RUN)))
    with pytest.raises(pr.errors.DataError, match=LATER):
        check(later)
    check, rows = keyed(rows_of([*range(500)]))
    for start in range(0, 500, 10):
        check(rows[start : start + 10])
    assert [each.height for each in check.ends.values()] == [1]


def test_plans_that_run_at_once() -> None:
    right = rows_of([*range(3000)]).lazy().set_sorted("query")
    false = rows_of([*range(1000), *range(2000)]).lazy().set_sorted("query")
    plans = [pr.evaluate(log, "p@1") for log in (right, false)]

    def collected(number: int) -> int:
        try:
            return int(plans[number % 2].collect(engine="streaming")["queries"].item())
        except pr.errors.DataError:
            return -1

    logs = [rows_of([*range(n * 500)]).lazy().set_sorted("query") for n in range(1, 6)]
    plans_of_logs = [pr.evaluate(log, "p@1") for log in logs]
    # Batches of 250 rows instead of 100,000.
    with pl.Config(streaming_chunk_size=250), ThreadPoolExecutor(4) as pool:
        assert [*pool.map(collected, range(12))] == [3000, -1] * 6
        for engine in ENGINES:
            found = pl.collect_all(plans_of_logs, engine=engine)
            assert [each["queries"].item() for each in found] == [n * 500 for n in range(1, 6)]


KEYS = st.lists(st.tuples(st.sampled_from([None, 1, 2]), st.integers(0, 3)), max_size=12)


@given(pairs=KEYS, cuts=st.sets(st.integers(1, 11)), order=st.randoms(use_true_random=False))
def test_batches_that_come_in_any_order_are_compared_as_if_they_were_one(
    pairs: list[tuple[int | None, int]], cuts: set[int], order: Random
) -> None:
    log = pl.DataFrame(pairs, schema={"run": pl.Int64, "query": pl.Int64}, orient="row")
    edges = [0, *sorted(cut for cut in cuts if cut < log.height), log.height]
    parts = [*pairwise(edges)]
    order.shuffle(parts)

    def falls(parts: list[tuple[int, int]]) -> bool:
        check, rows = keyed(log, "run")
        try:
            for start, end in parts:
                check(rows[start:end])
        except pr.errors.DataError:
            return True
        return False

    # A null is neither above nor below a value.
    expected = any(
        after[1] < before[1]
        if after[0] == before[0]
        else None not in (after[0], before[0]) and after[0] < before[0]
        for before, after in pairwise(pairs)
    )
    assert falls([(0, log.height)]) == falls(parts) == expected


def test_plans_do_not_hold_rows_back(tmp_path: Path) -> None:
    """A multiplexer of Polars buffers rows as fast as they arrive."""
    path = tmp_path / "log.parquet"
    search_log(20, 5, runs=5, seed=1).rename({"run": "session"}).sink_parquet(path)
    dwell = pl.col("dwell").fill_null(0)
    for keys in (["session", "query"], ["query", "session"]):
        log = pr.scan_log(path, query=keys)
        for plan in (
            pr.evaluate(log, "ndcg@10", query=keys),
            pr.evaluate(log.with_columns(label=dwell), "ndcg@10", query=keys, position="position"),
            pr.clicks.click_through_rates(log, query=keys, prior=0),
        ):
            assert not {"group-by", "multiplexer"} & holding_nodes(plan)
