"""`scan_log`: all rows of the scanned files in any layout, or an error that names the file.

With POLARS_RANK_DEEP=1 in the environment, fifty times as many damaged files are read.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal
from polars_rank.datasets import search_log
from polars_rank.frames.tables import number_column
from polars_rank._polars import key_hash

# The order of files, before rows are sorted.
from polars_rank.io.files import find_files
from rows import check_each
from strategies import log_of, random_lists

METRICS = ["ndcg@3", "ap", "rr", "num_ret"]
DEEP = 50 if os.environ.get("POLARS_RANK_DEEP") else 1
ENGINES = ["in-memory", "streaming"]

#: Layouts of a log, and budgets of memory to read it with. The log
#: of `a_log` exceeds 1 MB.
LAYOUTS: dict[str, tuple[Callable[[pl.DataFrame], pl.DataFrame], str]] = {
    "sorted": (lambda log: log.sort("query", maintain_order=True), "2GB"),
    "adjacent": (lambda log: log.sort("query", descending=True, maintain_order=True), "2GB"),
    "shuffled": (lambda log: log.sample(fraction=1, shuffle=True, seed=1), "2GB"),
    "spilled": (lambda log: log.sample(fraction=1, shuffle=True, seed=1), "1MB"),
}


@cache
def a_log(queries: int = 1200) -> pl.DataFrame:
    log = search_log(queries, 10, runs=1).collect()
    # Text takes more memory.
    return log.select("query", pl.col("doc").cast(pl.String), "score", "label")


def lying(layout: str, log: pl.DataFrame) -> pl.DataFrame:
    return LAYOUTS[layout][0](log)


def scan(path: object, layout: str, **options: object) -> pl.LazyFrame:
    return pr.scan_log(path, memory=LAYOUTS[layout][1], **options)


def by_query(log: pl.LazyFrame | pl.DataFrame, engine: str = "streaming") -> pl.DataFrame:
    return pr.per_query(log, METRICS).lazy().collect(engine=engine).sort("query")


@pytest.fixture
def small() -> Iterator[None]:
    """Small logs are read in many batches."""
    with pl.Config(streaming_chunk_size=500):
        yield


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# Every layout, every batch


@pytest.mark.parametrize("layout", ["sorted", "adjacent", "shuffled"])
def test_batches_of_any_size(tmp_path: Path, layout: str) -> None:
    log = log_of(random_lists(7, queries=12))
    lying(layout, log).write_parquet(tmp_path / "log.parquet", row_group_size=40)
    for rows, engine in ((1, "streaming"), (7, "streaming"), (7, "in-memory")):
        with pl.Config(streaming_chunk_size=rows):
            found = by_query(scan(tmp_path / "log.parquet", layout), engine)
            assert_frame_equal(found, by_query(log))


@pytest.mark.parametrize(("layout", "engine"), [*zip(LAYOUTS, ENGINES[::-1] * 2, strict=True)])
@pytest.mark.usefixtures("small")
def test_parts_of_a_log(tmp_path: Path, layout: str, engine: str) -> None:
    log, path = lying(layout, a_log()), tmp_path / "log.parquet"
    log.write_parquet(path, row_group_size=300)
    found = scan(path, layout)

    def height(rows: pl.LazyFrame) -> int:
        return rows.collect(engine=engine).height

    assert found.select(pl.len()).collect(engine=engine).item() == log.height
    assert height(found.head(7)) == 7
    assert height(found.slice(450, 700)) == 700
    few = pl.col("query") < 100
    assert height(found.filter(few)) == log.filter(few).height
    assert height(found.filter(few).select("label")) == log.filter(few).height
    assert height(found.filter(few).head(600)) == 600
    assert_frame_equal(by_query(found.filter(few)), by_query(log.filter(few)))
    if layout in ("sorted", "shuffled"):
        assert_frame_equal(found.collect(), log.sort("query", maintain_order=True))
    found = scan(path, layout, n_rows=1_234, row_index_name="row")
    assert_frame_equal(by_query(found), by_query(log.head(1_234)))
    assert sorted(found.collect()["row"]) == list(range(1_234))


@pytest.mark.parametrize("layout", ["sorted", "spilled"])
@pytest.mark.usefixtures("small")
def test_structs_as_queries(tmp_path: Path, layout: str) -> None:
    log, path = a_log(), tmp_path / "log.parquet"
    lying(layout, log).with_columns(query=pl.struct("query", day=pl.lit("mon"))).write_parquet(path)
    assert_frame_equal(
        pr.evaluate(scan(path, layout), METRICS).collect(), pr.evaluate(log, METRICS)
    )


@pytest.mark.parametrize("score", [{"score": "-distance"}, {"position": "distance"}])
def test_the_columns_of_evaluate(tmp_path: Path, score: dict[str, str]) -> None:
    path = tmp_path / "log.parquet"
    log = a_log(50).with_columns(distance=-pl.col("score")).drop("score")
    log.rename({"query": "qid", "doc": "item", "label": "grade"}).write_parquet(path)
    columns = {"query": "qid", "doc": "item", "label": "grade", **score}
    found = pr.per_query(pr.scan_log(path, **columns), METRICS, **columns).collect()
    assert_frame_equal(found.rename({"qid": "query"}).sort("query"), by_query(a_log(50)))
    for role, column in {**columns, "run": "system"}.items():
        name = column.removeprefix("-") + "s"
        with pytest.raises(pr.errors.SchemaError, match=f"column '{name}' .`{role}`. not found"):
            pr.scan_log(path, **{**columns, role: column + "s"})
    with pytest.raises(pr.errors.SchemaError, match="column 'rating' .`score`. not found"):
        pr.scan_log(path, query="qid", score=pl.col("rating") + 1)


def test_lists_as_queries(tmp_path: Path) -> None:
    a_log(3).with_columns(query=pl.concat_list("query")).write_parquet(tmp_path / "log.parquet")
    with pytest.raises(pr.errors.SchemaError, match=r"'query' \(`query`\) must have one id.*List"):
        pr.scan_log(tmp_path / "log.parquet")


def test_sizes_of_memory(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    a_log(3).write_parquet(path)
    for memory in ("1.5GB", ".5 gb", "1000KB", "2T", 10**6, "3.MB"):
        assert pr.scan_log(path, memory=memory).collect().height == a_log(3).height, memory
    for memory in ("1.5.5GB", ".", "1,5GB", "", "GB", "-1GB", "999KB", 10, True):
        with pytest.raises(pr.errors.ArgumentError, match="`memory` must be a size of at least"):
            pr.scan_log(path, memory=memory)


# The number of a ranking


@pytest.mark.parametrize(
    ("layout", "keys"), [("adjacent", ["query"]), ("spilled", ["run", "query"])]
)
@pytest.mark.usefixtures("small")
def test_lists_are_numbered(tmp_path: Path, layout: str, keys: list[str]) -> None:
    log = a_log().with_columns(run=pl.lit("a"))
    lying(layout, log).write_parquet(tmp_path / "log.parquet")
    found = scan(tmp_path / "log.parquet", layout, query=keys, run=None)
    name = f"polars_rank:ranking({', '.join(sorted(keys))})"
    assert number_column(keys) == number_column(keys[::-1]) == name
    rows = pl.LazyFrame.collect(found)
    number = rows[name].struct.field("number")
    assert number.unique(maintain_order=True).to_list() == list(range(1200))
    assert number.is_sorted()
    # The hash is that of the row, in any engine and piece, and of the lists no two have the same.
    hashed, swapped = (key_hash({key: key for key in each}) for each in (keys, keys[::-1]))
    same = found.select(pl.col(name).struct.field("keys").eq(swapped).all())
    assert same.collect(engine="streaming").item()
    assert rows.select(hashed.n_unique()).item() == 1200
    # Numbers are not collected, but results still read the rows ranking by ranking.
    some = found.filter(pl.col("query") < 9).with_columns(one=1)
    ranked = pr.rank(found, query=keys, run=None)
    others = pr.rank(found.with_columns(other=1), query=[*keys, "other"], run=None)
    for each in (found, some, some.select(pl.all()), some.drop("one").sort("doc"), ranked, others):
        assert name in each.collect_schema()
        for engine in ENGINES:
            columns = [each for each in each.collect_schema() if each != name]
            assert each.collect(engine=engine).columns == columns
    assert_frame_equal(
        rows.drop(name).sort(pl.all()), log.select(rows.drop(name).columns).sort(pl.all())
    )


# Files that change, and files that lose rows


CHANGES: dict[str, Callable[[Path], object]] = {
    "other rows": lambda path: a_log(99).write_parquet(path),
    "other order": lambda path: pl.read_parquet(path).reverse().write_parquet(path),
    "other columns": lambda path: (
        pl.read_parquet(path).rename({"label": "grade"}).write_parquet(path)
    ),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-100]),
    "emptied": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize(
    ("layout", "engine", "change"),
    [
        *(("sorted", "streaming", change) for change in CHANGES),
        *(("shuffled", "in-memory", "other order"), ("adjacent", "streaming", "other order")),
        ("spilled", "streaming", "other order"),
    ],
)
@pytest.mark.usefixtures("small")
def test_a_file_that_changed_after_the_scan(
    tmp_path: Path, layout: str, engine: str, change: str
) -> None:
    log = lying(layout, a_log())
    for index, name in enumerate("abc"):
        log.slice(index * 3_960, 3_960).write_parquet(tmp_path / f"{name}.parquet")
    lists = pr.per_query(scan(tmp_path, layout), METRICS)
    assert lists.collect(engine=engine).height == 1200
    CHANGES[change](tmp_path / "b.parquet")
    with pytest.raises(pr.errors.SourceError, match=r"b\.parquet'( has changed|: No such)"):
        lists.collect(engine=engine)


@pytest.mark.parametrize("layout", ["sorted", "adjacent"])
@pytest.mark.usefixtures("small")
def test_a_file_that_changes_while_it_is_read(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "log.parquet"
    # More batches than Polars reads ahead, so that some are read after the change.
    lying(layout, a_log(4_000)).write_parquet(path)
    written = path.stat().st_mtime_ns

    def touch(rows: pl.DataFrame) -> pl.DataFrame:
        os.utime(path, ns=(written, written + 1))
        return rows

    log = scan(path, layout)
    log = log.map_batches(touch, schema=log.collect_schema(), streamable=True)
    with pytest.raises(
        pr.errors.SourceError, match=r"log\.parquet' has changed since it was scanned"
    ):
        log.collect(engine="streaming")


@pytest.mark.parametrize(("layout", "files"), [("sorted", 1), ("adjacent", 3), ("shuffled", 3)])
@pytest.mark.usefixtures("small")
def test_batches_that_end_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, files: int
) -> None:
    """Batches end early if Polars panics."""
    log = lying(layout, a_log())
    for index in range(files):
        log.slice(index * 3_960, log.height if files == 1 else 3_960).write_parquet(
            tmp_path / f"{index}.parquet"
        )
    whole = pl.LazyFrame.collect_batches

    def cut(self: pl.LazyFrame, **options: object) -> Iterator[pl.DataFrame]:
        yield from list(whole(self, **options))[:-1]

    monkeypatch.setattr(pl.LazyFrame, "collect_batches", cut)
    others = "" if files == 1 else " or one of 2 other files"
    rows = rf"cannot read all of .*0\.parquet'{others}: 11,\d+ of 11,878 rows were read"
    with pytest.raises(pr.errors.SourceError, match=rows):
        by_query(scan(tmp_path, layout))
    with pytest.raises(pr.errors.SourceError, match="cannot read all of"):
        scan(tmp_path, layout).filter(pl.col("query") < 300).collect()


# Damaged files


def damaged(whole: bytes, seed: str) -> bytes:
    """Damage a file at random positions that depend on the seed."""
    draw = random.Random(seed)
    file, at = bytearray(whole), draw.randrange(len(whole))
    end = at + draw.randint(1, 64)
    kind = draw.choice(["bits", "bytes", "cut short", "zeros", "footer", "taken out", "doubled"])
    if kind in ("bits", "footer"):
        footer = len(file) - 8 - int.from_bytes(file[-8:-4], "little")
        for _ in range(draw.randint(1, 4)):
            first = 0 if kind == "bits" else footer
            file[draw.randrange(first, len(file))] ^= 1 << draw.randrange(8)
    else:
        new = {
            "bytes": draw.randbytes(end - at),
            "zeros": bytes(end - at),
            "doubled": 2 * file[at:end],
        }
        file[at : None if kind == "cut short" else end] = new.get(kind, b"")
    return bytes(file)


def numbers(log: pl.DataFrame | pl.LazyFrame) -> tuple[object, ...]:
    return pr.evaluate(log, METRICS).lazy().collect(engine="streaming").row(0)


def compared(path: Path, layout: str) -> str:
    """Compare the values of `scan_log` with those of a plain read by Polars; return the outcome."""
    try:
        # If all columns are read at once, Polars raises for all damage that it detects.
        expected = numbers(pl.read_parquet(path, glob=False))
    except (Exception, pl.exceptions.PanicException):
        expected = None
    try:
        found = numbers(scan(path, layout))
    except pr.errors.SourceError as error:
        assert str(path) in str(error)
        # Only some ways of reading detect an inconsistent footer.
        return "error" if expected is None else "doubt"
    except (pr.errors.DataError, pr.errors.SchemaError):  # such as by another name of a column
        assert expected is None
        return "rows"
    assert expected is not None, found
    assert found == pytest.approx(expected, nan_ok=True)
    return "numbers"


#: Writers of Parquet, and their options.
WAYS: dict[str, Callable[[pl.DataFrame, Path], object]] = {
    "plain": lambda log, path: log.write_parquet(
        path, compression="uncompressed", row_group_size=400
    ),
    "pages": lambda log, path: log.write_parquet(path, row_group_size=400, data_page_size=2_000),
    "arrow": lambda log, path: pq.write_table(log.to_arrow(), path, row_group_size=400),
    "strings": lambda log, path: log.cast({"query": pl.String, "doc": pl.String}).write_parquet(
        path, compression="uncompressed", row_group_size=400
    ),
}


@pytest.mark.usefixtures("small")
def test_damaged_files(tmp_path: Path, temporary: Path, capfd: Any) -> None:
    """Each damage gives an error that names the file, or the number of rows the file has now."""
    ends: list[str] = []
    for (way, write), layout in product(WAYS.items(), LAYOUTS):
        path = tmp_path / f"{way}-{layout}.parquet"
        write(lying(layout, a_log(1200 if layout == "spilled" else 80)), path)
        whole = path.read_bytes()

        def check(seed: int, path: Path = path, whole: bytes = whole, layout: str = layout) -> None:
            path.write_bytes(damaged(whole, f"{path.name}-{seed}"))
            ends.append(compared(path, layout))

        check_each(check, [(seed,) for seed in range(DEEP)])
    assert_gone(temporary)
    capfd.readouterr()  # messages of Polars
    counts = Counter(ends)
    assert counts["error"] > len(ends) / 3  # it is damage
    assert counts["doubt"] <= len(ends) / 200
    assert counts["numbers"] > len(ends) / 30  # not all of it is visible


@pytest.mark.usefixtures("small")
def test_one_of_many_files_is_damaged(tmp_path: Path) -> None:
    log = lying("spilled", a_log())
    for index in range(13):
        log.slice(index * 303, 303).write_parquet(tmp_path / f"{index:02}.parquet")
    path = tmp_path / "07.parquet"
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(3)
    whole = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    whole[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(whole)
    with pytest.raises(pr.errors.SourceError, match=r"cannot read '.*07\.parquet' as Parquet"):
        by_query(scan(tmp_path, "spilled"))


def test_what_is_wrong_with_no_file(tmp_path: Path) -> None:
    a_log(20).with_columns(day=pl.lit("monday")).write_parquet(tmp_path / "log.parquet")
    log = pr.scan_log(tmp_path / "log.parquet")
    with pytest.raises(pl.exceptions.InvalidOperationError, match="monday"):
        log.filter(pl.col("day").str.to_date("%Y") > pl.date(2026, 1, 1)).collect()
    with pytest.raises(pr.errors.SourceError, match="cannot read .*score"):
        pr.scan_log(tmp_path / "log.parquet", schema={"query": pl.Int64, "doc": pl.String})


# Names


AB = "a1.parquet a2.parquet b1.parquet sub/c1.parquet"
SPARK = "day=1/a.parquet day=1/_b.parquet _tmp/c.parquet _SUCCESS"
HIDDEN = (
    ".log.parquet.0123abcd.part .part-0.snappy.parquet.crc .half.parquet _half.parquet _SUCCESS "
    "_metadata _temporary/0/half.parquet .tmp/half.parquet notes.txt"
)
#: Files of a folder, a path or a pattern in it, and its files.
FILES = [
    # Names that look like patterns.
    *((f"{name} {other}", name, name) for name, other in (
        ("a[1].parquet", "a1.parquet"), ("what?.parquet", "whats.parquet"),
        ("*.parquet", "a.parquet"), ("[x]/a.parquet", "x/a.parquet"),
    )),
    (AB, "a[12].parquet", "a1.parquet a2.parquet"), (AB, "?1.parquet", "a1.parquet b1.parquet"),
    (AB, "**/*.parquet", AB), (AB, "su*", "sub/c1.parquet"),
    *((SPARK, each, "day=1/a.parquet") for each in ("*", "day=*", "*/*", "day=1/*.parquet")),
    (SPARK, "day=1/_*", "day=1/_b.parquet"),
    ("_day=1/a.parquet log.parquet/a.parquet", "", "_day=1/a.parquet log.parquet/a.parquet"),
    (f"{HIDDEN} a.snappy.parquet", "", "a.snappy.parquet"),
    (f"{HIDDEN} a.snappy.parquet b.parquet", "", "a.snappy.parquet b.parquet"),
]  # fmt: skip


def test_files_of_a_path(tmp_path: Path) -> None:
    def check(files: str, pattern: str, expected: str) -> None:
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        for name in files.split():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            log = pl.DataFrame({"query": [1], "doc": [name], "score": [1.0], "label": [1]})
            log.write_parquet(folder / name)
        path = folder / pattern
        for given in (path, str(path), [path]):
            found = pr.scan_log(given, hive_partitioning=False).collect()
            assert sorted(found["doc"]) == sorted(expected.split())

    check_each(check, FILES)


def test_no_file_of_a_path(tmp_path: Path) -> None:
    for name in ("_half.parquet", "sub/a.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        a_log(3).write_parquet(tmp_path / name)
    with pytest.raises(pr.errors.SourceError, match="no file matches"):
        pr.scan_log(tmp_path / "[!s]*")
    (tmp_path / "sub" / "b.parquet").touch()  # which Polars skips without an error
    with pytest.raises(pr.errors.SourceError, match=r"cannot read '.*b\.parquet'"):
        pr.scan_log(tmp_path / "sub")
    for path in (tmp_path / "sub").iterdir():
        path.unlink()
    with pytest.raises(pr.errors.SourceError, match=r"has no \.parquet files"):
        pr.scan_log(tmp_path)
    with pytest.raises(pr.errors.ArgumentError, match="`paths` is empty"):
        pr.scan_log([])


@pytest.mark.parametrize("same", [True, False])
def test_a_directory_that_looks_like_a_pattern(tmp_path: Path, same: bool) -> None:
    log = a_log(30)
    for index in range(3):
        folder = tmp_path / "log[1]*" / f"day={index}"
        folder.mkdir(parents=True)
        dtype = pl.Int64 if same or not index else pl.Int32
        log.cast({"query": dtype}).write_parquet(folder / "a[0].parquet")
    found = pr.per_query(pr.scan_log(tmp_path / "log[1]*", by="day"), METRICS, by="day").collect()
    assert found["day"].unique(maintain_order=True).to_list() == [0, 1, 2]
    for _, day in found.group_by("day"):
        assert_frame_equal(day.drop("day"), by_query(log))


def test_a_file_of_several_paths_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for day in (1, 2):
        Path(f"g/day={day}").mkdir(parents=True)
        a_log(5).write_parquet(f"g/day={day}/a.parquet")
    a_log(2).write_parquet("g/day=1/b.parquet")
    Path("link").symlink_to("g/day=1")
    day_1, day_2 = ["g/day=1/a.parquet", "g/day=1/b.parquet"], ["g/day=2/a.parquet"]
    for paths, files in (
        (["g/**/*"], day_1 + day_2),
        (["g", "g/day=1"], day_1 + day_2),
        (["g/day=2", "g", tmp_path / "g"], day_2 + day_1),
        (["g/day=1/a.parquet", "./g/day=1/../day=1/a.parquet"], day_1[:1]),
        (["link", "g/day=1/*"], ["link/a.parquet", "link/b.parquet"]),
    ):
        assert find_files(paths).names == files
        rows = sum(pl.read_parquet(file).height for file in files)
        assert pr.scan_log(paths).collect().height == rows
    assert pr.scan_log(["g", "g/day=1"], by="day").collect()["day"].value_counts().height == 2


def test_a_file_of_several_urls_is_read_once(tmp_path: Path) -> None:
    log = a_log(5)
    (tmp_path / "day=1").mkdir()
    log.write_parquet(tmp_path / "day=1" / "a[1].parquet")
    log.head(20).write_parquet(tmp_path / "b.parquet")
    at = tmp_path.as_uri()
    for urls, rows in (
        ([f"{at}/**/*.parquet", f"{at}/day=1/*.parquet"], log.height + 20),
        ([f"{at}/b.parquet", f"{at}/b.parquet"], 20),
        ([f"{at}/b.parquet", f"{at}/*.parquet"], 20),
    ):
        assert pr.scan_log(urls).collect().height == rows
        assert pr.scan_log(urls, n_rows=3, row_index_name="row").collect().height == 3
    log.clear().write_parquet(tmp_path / "day=1" / "a[1].parquet")
    none = [f"{at}/day=1/*.parquet", f"{at}/day=1/a*.parquet"]
    assert pr.scan_log(none).collect().is_empty()


def test_partitions_are_those_below_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "run=3" / "log"
    for day in (1, 2):
        (folder / f"day={day}").mkdir(parents=True)
        a_log(5).with_columns(pl.lit("x").alias("run")).write_parquet(
            folder / f"day={day}" / "a.parquet"
        )
        a_log(5).write_parquet(tmp_path / f"{day}.parquet")
    names = ["query", "doc", "score", "label"]
    assert pr.scan_log(folder / "day=1").collect_schema().names() == [*names, "run"]
    # Polars would read the run from the folder above.
    with pytest.raises(pr.errors.SourceError, match="column 'run' is in .*; rename the folder"):
        pr.scan_log(folder, by="day")
    log = pr.scan_log(folder, hive_partitioning=False).collect()
    assert log["run"].unique().to_list() == ["x"]
    for path in folder.rglob("a.parquet"):
        a_log(5).write_parquet(path)
    assert pr.scan_log(folder, by="day").collect()["day"].unique().to_list() == [1, 2]
    found = pr.scan_log(folder, by="day", hive_schema={"day": pl.String})
    assert found.drop("^polars_rank:.*$").collect_schema().names() == [*names, "day"]
    assert found.collect()["day"].unique().sort().to_list() == ["1", "2"]


def test_numbers_of_lists_that_were_written_with_a_log(tmp_path: Path) -> None:
    path, log = tmp_path / "a.parquet", lying("adjacent", a_log(50))
    log.write_parquet(path)
    numbered = pl.LazyFrame.collect(pr.scan_log(path))
    assert number_column(["query"]) in numbered.columns
    # Sorted by query otherwise than lists were numbered, once in order and once in disorder.
    for name, rows in {
        "b": numbered.sort("query", "doc"),
        "c": lying("shuffled", numbered),
    }.items():
        rows.write_parquet(tmp_path / f"{name}.parquet")
        found = pr.evaluate(pr.scan_log(tmp_path / f"{name}.parquet"), METRICS).collect()
        assert_frame_equal(found, pr.evaluate(log, METRICS))


# Temporary files


@pytest.mark.usefixtures("small")
def test_nothing_is_left_of_a_sorted_log(tmp_path: Path, temporary: Path) -> None:
    lying("spilled", a_log()).write_parquet(tmp_path / "log.parquet")
    log = scan(tmp_path / "log.parquet", "spilled")
    assert log.collect().height == 11_878
    assert [*temporary.iterdir()] == []
    batches = iter(log.collect_batches(chunk_size=10))
    next(batches)
    assert len([*temporary.iterdir()]) == 1  # it exists while it is needed
    del batches
    assert_gone(temporary)


def assert_gone(folder: Path) -> None:
    # Polars releases a generator in one of the next calls.
    for _ in range(200):
        if not [*folder.iterdir()]:
            return
        gc.collect()
        pl.LazyFrame({"a": [1]}).collect(engine="streaming")
        time.sleep(0.02)
    assert [*folder.iterdir()] == []
