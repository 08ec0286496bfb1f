"""Lengths of rankings, and what is evaluated by columns because of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal
from plans import holding_nodes

# Values do not show which form a plan has, and the rule needs lengths of many rows.
from polars_rank.evaluation.by_columns import columns_are_faster
from polars_rank.frames.layouts import Lengths, in_order, lengths_of
from polars_rank.frames.tables import FEW_ROWS

METRICS = ["ndcg@3", "ap", "p@2"]
ROWS = 300_000


def log(length: int, rows: int = ROWS) -> pl.DataFrame:
    row = pl.int_range(rows)
    return pl.select(
        query=row // length, doc=row % length, score=row.hash() % 7 / 7, label=(row.hash(1) % 3).cast(pl.Int8),
        group=1,
    )  # fmt: skip


def is_by_columns(plan: pl.LazyFrame) -> bool:
    return ".int_ranges(" not in plan.explain(optimized=False)


def test_nothing_is_collected_while_a_lazy_plan_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"by": "group", "ties": "worst"}
    table, reads = log(5), []
    table.write_parquet(tmp_path / "log.parquet")

    def read(*_: object) -> Iterator[pl.DataFrame]:
        reads.append(1)
        yield table

    from_python = register_io_source(read, schema=table.schema)
    scanned = pr.scan_log(tmp_path / "log.parquet", by=options.get("by"))
    frames = {
        "memory": table.lazy(),
        "sorted": table.set_sorted("query").lazy(),
        "Parquet": pl.scan_parquet(tmp_path / "log.parquet"),
        "scan_log": scanned,
        "Python": from_python,
        "join": from_python.join(table.lazy().select("query").unique(), on="query"),
        "concat": pl.concat([scanned, table.lazy().head(0)]),
    }
    for method in ("collect", "collect_batches", "sink_parquet"):
        original = getattr(pl.LazyFrame, method)

        def collect(self: pl.LazyFrame, *args: Any, original: Any = original, **kwargs: Any) -> Any:
            # Constants are collected, too, such as discounts of positions.
            text = self.explain(optimized=False)
            assert not [name for name in ("query", "SCAN") if name in text], text
            return original(self, *args, **kwargs)

        monkeypatch.setattr(pl.LazyFrame, method, collect)
    plans = {name: pr.evaluate(frame, METRICS, **options) for name, frame in frames.items()}
    assert not reads
    # Rankings of tables in memory are counted when the plan runs.
    chosen_later = [name for name, plan in plans.items() if "[RANKINGS]" in plan.explain()]
    assert chosen_later == ["memory", "sorted"]
    by_columns = [name for name, plan in plans.items() if is_by_columns(plan)]
    assert by_columns == [*chosen_later, "scan_log"]
    monkeypatch.undo()
    means = [plan.collect() for plan in plans.values()]
    assert reads
    for other in means:
        assert_frame_equal(other, pr.evaluate(table, METRICS, **options), rel_tol=1e-12)


def test_lengths_of_scans(tmp_path: Path) -> None:
    table = log(5)
    table.write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    for same in (scanned, scanned.filter(pl.col("label") > 0).with_columns(x=1)):
        known = Lengths(["query"], ROWS, ROWS // 5, 5)
        assert lengths_of(same, ["query"]) == known
        assert lengths_of(same, ["query", "group"]) == known
        assert lengths_of(same, ["group"]) is None
    for unknown in (
        table.lazy(),
        pl.scan_parquet(tmp_path / "log.parquet"),
        pl.concat([scanned, scanned]),
        scanned.with_columns(pl.col("query") // 2),
    ):
        assert lengths_of(unknown, ["query"]) is None


def test_the_form_depends_on_lengths_and_number_of_rows() -> None:
    for length, rows, by_columns in (
        (5, FEW_ROWS + 1, True), (12, 60_000, False), (10, ROWS, True),
        (30, ROWS, False),
    ):  # fmt: skip
        table = log(length, rows)
        for each in (table, table.sample(fraction=1, shuffle=True, seed=1)):
            ordered, lengths = in_order(each.lazy(), ["query"])
            assert lengths == Lengths(["query"], rows, -(-rows // length), length)
            assert ordered.collect()["query"].is_sorted()
            assert columns_are_faster(lengths) == by_columns, (length, rows)


@pytest.mark.parametrize("layout", ["sorted", "adjacent", "shuffled"])
def test_plain_scans_have_the_plan_of_scan_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    """Their keys are read when the result is collected, also after filters and new columns."""
    monkeypatch.setattr("polars_rank.frames.layouts._MANY_ROWS", 1000)
    expected = pr.per_query(log(5, 60_000), METRICS)
    table = log(5, 60_000)
    if layout == "adjacent":
        table = table.sort("query", descending=True, maintain_order=True)
    elif layout == "shuffled":
        table = table.sample(fraction=1, shuffle=True, seed=1)
    table.write_parquet(tmp_path / "log.parquet")
    scan = pl.scan_parquet(tmp_path / "log.parquet")
    for each in (scan, scan.filter(pl.col("doc") >= 0).with_columns(x=pl.col("label") * 2)):
        plan = pr.per_query(each, [*METRICS, pr.dcg(2, gain="exp2")])
        assert "[RANKINGS]" in plan.explain() and not holding_nodes(plan)
        assert_frame_equal(plan.collect().select(expected.columns), expected, rel_tol=1e-12)
    mixed = pr.per_query(
        scan, METRICS, conventions={"exceptions": {"average_precision": {"ties": "worst"}}}
    )
    assert mixed.explain().count("[RANKINGS]") == 2
    assert_frame_equal(mixed.collect().drop("ap"), expected.drop("ap"), rel_tol=1e-12)
    for invalid, problem in (({"score": math.nan}, "NaN"), ({"doc": 0}, "duplicates")):
        with pytest.raises(pr.errors.DataError, match=problem):
            pr.evaluate(scan.with_columns(**invalid), METRICS).collect()


def test_the_form_that_a_plan_chooses_when_it_runs() -> None:
    engines: tuple[Any, ...] = ("streaming", "in-memory")
    for length, engine in zip((5, 100), engines, strict=True):
        table = log(length).with_columns(run=pl.lit("a"))
        values, lazily = pr.per_query(table, METRICS), pr.per_query(table.lazy(), METRICS)
        high = pl.col("ap") > 0.5
        assert_frame_equal(lazily.collect(engine=engine), values, rel_tol=1e-12)
        some = lazily.filter(high).select("query", "ap").head(7).collect(engine=engine)
        assert_frame_equal(some, values.filter(high).select("query", "ap").head(7), rel_tol=1e-12)
        for invalid, problem in [({"score": math.nan}, "NaN"), ({"doc": 0}, "duplicates")]:
            plan = pr.evaluate(table.lazy().with_columns(**invalid), METRICS)
            with pytest.raises(pr.errors.DataError, match=problem):
                plan.collect(engine=engine)


def test_a_few_long_rankings_among_short_ones_take_rows() -> None:
    for rows in (10**5, 10**7):
        assert columns_are_faster(Lengths(["query"], rows, rows // 3, 5))
        assert not columns_are_faster(Lengths(["query"], rows, rows // 3, 50))
