"""Functions on a small engine that splits its tables into parts, against the same without parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

# An engine of the tests is registered.
from polars_rank.frames.engines import ENGINES, Mergeable, Separable, engine_of

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

PARTS = 3
LOG = pr.datasets.search_log(60, 6, runs=["a", "b"], seed=4).collect()
LOG = LOG.select("run", "query", "doc", "score", "label")
ITEMS = LOG.select(pl.col("doc").unique().sort())
VALUES = pr.per_query(LOG, ["ap", "ndcg@3"])


class DataFrame:
    """A DataFrame of the engine."""

    __module__ = "small.frames"

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows = rows


class Small:
    """An engine that computes the parts one after the other."""

    def run(
        self,
        function: Callable[..., Separable | Mergeable],
        frame: DataFrame,
        options: Mapping[str, Any],
    ) -> DataFrame:
        return DataFrame(self._result(function(frame.rows.lazy(), **options), frame.rows))

    def _result(self, computation: Separable | Mergeable, rows: pl.DataFrame) -> pl.DataFrame:
        key = (
            pl.struct(computation.together).hash(7)
            if computation.together
            else pl.int_range(pl.len())
        )
        parts = [rows.filter(key % PARTS == part).lazy() for part in range(PARTS)]
        if isinstance(computation, Mergeable):
            sums = pl.concat([computation.add_up(part).collect() for part in parts])
            return computation.finish(computation.merge(sums.lazy())).collect()
        if computation.check is not None:
            assert self._result(computation.check, rows).is_empty()
        return pl.concat([computation.function(part).collect() for part in parts])

    def schema_of(self, frame: DataFrame) -> pl.Schema:
        return frame.rows.schema

    def unsupported(self) -> Exception:
        return pr.errors.ArgumentError("this function needs all rows at once")


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Register the engine."""
    engine: Any = Small()
    ENGINES["small"] = lambda: engine
    yield
    del ENGINES["small"]


#: Calls of all functions that engines support, except for `join_judgments`.
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], pl.DataFrame]] = {
    "evaluate": (lambda log: pr.evaluate(log, ["ap", "p@3"]), LOG),
    "per_query": (lambda log: pr.per_query(log, ["ap", "p@3"], by="run"), LOG),
    "rank": (pr.rank, LOG),
    "collapse": (lambda log: pr.collapse(log, doc="doc", how="first"), LOG),
    "fuse": (lambda log: pr.fuse(log, keep_runs=True), LOG),
    "catalog.exclude_seen": (lambda log: pr.catalog.exclude_seen(log, LOG.head(9)), LOG),
    "catalog.popularity": (lambda log: pr.catalog.popularity(log), LOG),
    "catalog.summary": (lambda log: pr.catalog.summary(log, 3, items=ITEMS), LOG),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_do_not_depend_on_parts(name: str) -> None:
    function, table = FUNCTIONS[name]
    expected, found = function(table), function(DataFrame(table)).rows
    assert_frame_equal(
        found, expected, check_row_order=False, check_dtypes=False, rel_tol=1e-12, abs_tol=1e-12
    )


def test_the_whole_table_is_checked() -> None:
    with pytest.raises(pr.errors.DataError, match="only the run 'a'"):
        pr.fuse(DataFrame(LOG.filter(run="a")))


def test_functions_of_all_rows_are_not_supported() -> None:
    for function in (pr.tune_fusion, pr.diagnostics.tie_bands, pr.diagnostics.judgment_bounds):
        with pytest.raises(pr.errors.ArgumentError, match="needs all rows at once"):
            function(DataFrame(LOG), "ap")
    with pytest.raises(pr.errors.ArgumentError, match="needs all rows at once"):
        pr.catalog.summary(LOG, items=DataFrame(ITEMS))


def test_engines_are_found_by_the_package_of_their_class() -> None:
    class Own(DataFrame):
        pass

    assert isinstance(engine_of(Own(LOG)), Small)
    assert engine_of(LOG) is engine_of(LOG.lazy()) is engine_of(None) is None
    assert engine_of(type("Series", (), {"__module__": "small.frames"})()) is None
    assert engine_of(type("DataFrame", (), {"__module__": "smaller.frames"})()) is None
