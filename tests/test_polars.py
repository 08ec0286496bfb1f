"""Undocumented behavior of Polars that polars_rank depends on."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import polars_rank as pr

# What no public function shows: plans and expressions inside Polars.
import polars_rank._polars as ours
from polars.io.plugins import register_io_source

KEYS = pl.DataFrame({"run": ["a", "b", None], "query": [1, 1, 2]})
SCHEMA = pl.Schema({"query": pl.Int64})


def source(name: str) -> pl.LazyFrame:
    """Return a plan that scans a Python source of this name."""

    def read(*_: object) -> object:
        yield pl.DataFrame({"query": [1]}, SCHEMA)

    return register_io_source(read, schema=SCHEMA, explain_name=name)


def test_keeps_all_rows(tmp_path: Path) -> None:
    KEYS.write_parquet(tmp_path / "keys.parquet")
    scan = pl.scan_parquet(tmp_path / "keys.parquet")
    for plan in (scan, KEYS.lazy(), scan.set_sorted("run")):
        assert ours.keeps_all_rows(plan)
    for plan in (scan.filter(pl.col("query") > 1), scan.unique(), scan.map_batches(lambda t: t)):
        assert not ours.keeps_all_rows(plan)


def test_files(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{name}.parquet") for name in "ab"]
    for path in paths:
        KEYS.write_parquet(path)
    both = pl.concat([pl.scan_parquet(paths), pl.scan_parquet(paths[0])])
    assert ours.files(both.filter(pl.col("query") > 1)) == paths
    # Below a step that Polars does not expose.
    assert ours.files(both.map_batches(lambda rows: rows)) == paths
    names = [f"{number}.run" for number in range(9)]
    scan = ours.scan_of_files(lambda *_: iter([]), names, schema=SCHEMA)
    assert ours.files(scan.join(pl.scan_parquet(paths[1]), on="query")) == [*names, paths[1]]
    assert ours.files(KEYS.lazy()) == []


def test_key_hash() -> None:
    by_name = ours.key_hash({"query": "query", "run": "run"})
    for engine in ("in-memory", "streaming"):
        found = KEYS.lazy().select(by_name.alias("hash")).collect(engine=engine)
        assert found["hash"].to_list() == [
            2758092955449124961, 3648615843712977925, 4649075645311908259
        ]  # fmt: skip
    # The hash depends on the key names, not on the names or the order of the columns.
    renamed = KEYS.select("query", system="run")
    other = renamed.select(ours.key_hash({"run": "system", "query": "query"}))
    assert other.to_series().to_list() == found["hash"].to_list()


def test_source_of_rows() -> None:
    def found(plan: pl.LazyFrame) -> bool:
        return ours.source_of_rows(plan, ["query"]) is not None

    log = source("LOG x").with_columns(score=pl.lit(1.0))
    assert callable(ours.source_of_rows(log, ["query"]))
    assert type(ours.source_of_rows(KEYS.lazy(), ["query"])).__name__ == "DataFrameScan"
    for kept in (
        log.filter(pl.col("query") > 1).head(3),
        log.select("score", "query"),
        log.with_columns(pl.col("score") + 1, a=pl.lit("x")),
        log.rename({"score": "s"}),
        log.set_sorted("query"),
        log.head(9).filter(pl.col("score") > 0),
    ):
        assert found(kept), kept.explain(optimized=False)
    for changed in (
        pl.concat([log, log]),
        log.with_columns(pl.col("query") + 1),
        log.with_columns(query=pl.col("score")),
        log.with_columns(query=pl.lit(1)),
        log.with_columns(a=pl.col("query")).drop("query").rename({"a": "query"}),
        log.rename({"query": "a", "score": "query"}),
        log.select(pl.col("query") // 2),
        log.select(pl.all().repeat_by(2).explode()),
        log.select(pl.all().filter(pl.col("score") > 0)),
        log.with_columns(a=[1, 2]).explode("a"),
        log.join(log, on="query"),
        log.group_by("query").agg("score").explode("score"),
        log.map_batches(lambda table: table),
    ):
        assert not found(changed), changed.explain(optimized=False)


def test_rows_of_scan(tmp_path: Path) -> None:
    file = tmp_path / "log.parquet"
    pl.DataFrame({"run": ["a", "b"], "query": 1}).write_parquet(file)
    for scan in (pl.scan_parquet(file), pr.scan_log(file)):
        assert ours.rows_of_scan(scan.filter(run="a").drop("run"), ["query"]) == 2
        assert ours.rows_of_scan(scan.with_columns(query=2), ["query"]) is None
    # A log that is sorted in memory would be sorted each time it is read.
    assert ours.rows_of_scan(pr.scan_log(file, layout="shuffled"), ["query"]) is None


def test_lengths_of_a_scan() -> None:
    plan = ours.scan_of_files(lambda *_: iter([]), [], lengths=7, schema=SCHEMA)
    assert ours.source_of_rows(plan.filter(pl.col("query") > 0), ["query"]).lengths == 7


def test_rows_of_table() -> None:
    """Plans that work row by row keep the class; plans of other rows do not have it."""
    rows = ours.rows_of_table(KEYS, 3)
    same = rows.filter(pl.col("query") == 1).with_columns(one=1).select("run", "one")
    assert isinstance(same, ours.FewRows)
    assert same.collect().rows() == [("a", 1), ("b", 1)]
    assert not isinstance(rows.group_by("query").agg(pl.len()), ours.FewRows)
    assert not isinstance(ours.rows_of_table(KEYS, 2), ours.FewRows)
    for descending in (False, True):
        declared = KEYS.set_sorted("query", descending=descending)
        assert not isinstance(ours.rows_of_table(declared, 3), ours.FewRows)
