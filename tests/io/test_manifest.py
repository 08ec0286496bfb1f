"""Moments of parts of a log: no ranking is in two parts, and no part is computed twice."""

from __future__ import annotations

import datetime
import importlib.util
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from strategies import SCHEMA, log_of, random_lists, shuffled

if TYPE_CHECKING:
    from types import ModuleType

METRICS = ["ndcg@10", "rr"]
LOG = log_of(random_lists(seed=51, queries=400)).select(*SCHEMA).sort("query")
EXAMPLES = Path(__file__).parents[2] / "examples"


def moments(rows: pl.DataFrame, **options: Any) -> pl.DataFrame:
    return pr.stats.moments(pr.per_query(rows, METRICS), **options)


def inside(rows: pl.DataFrame, start: int) -> int:
    """Return the first row from `start` on that continues a ranking."""
    queries = rows["query"]
    return next(i for i in range(start, len(queries)) if queries[i] == queries[i - 1])


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("place", [10, 500, 900])
def test_a_list_that_was_cut_in_two_is_named(place: int, lazy: bool) -> None:
    cut = inside(LOG, place)
    parts = [moments(LOG[:cut]), moments(LOG[cut:])]
    given = [part.lazy() for part in parts] if lazy else parts
    said = rf"the ranking of query {LOG['query'][cut]} is in two parts, table 1 and table 2"
    with pytest.raises(pr.errors.DataError, match=said):
        merged = pr.stats.merge(given)
        merged.collect(engine="streaming")


def test_cuts_between_lists_are_no_fault() -> None:
    cut = inside(LOG, 500)
    while LOG["query"][cut] == LOG["query"][cut - 1]:
        cut += 1
    assert_frame_equal(
        pr.stats.merge([moments(LOG[:cut]), moments(LOG[cut:])]), moments(LOG), rel_tol=1e-12
    )


@pytest.mark.parametrize("nested", [False, True])
def test_a_part_that_counts_twice_is_found(nested: bool) -> None:
    parts = [moments(LOG.filter(pl.col("query") % 7 == index)) for index in range(7)]
    first = [pr.stats.merge(parts)] if nested else parts
    for again in parts:
        with pytest.raises(pr.errors.DataError, match=r"merge each part once"):
            pr.stats.merge([*first, again, parts[0]])
    with pytest.raises(pr.errors.DataError, match="in two parts, row 2 and row 3"):
        pr.stats.merge(pl.concat([parts[0], parts[1], parts[1]])[::2])


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), parts=st.integers(2, 9))
def test_the_rows_of_an_unsorted_log_in_any_parts_are_found(seed: int, parts: int) -> None:
    rows = LOG.sample(fraction=1, shuffle=True, seed=seed)
    size = -(-rows.height // parts)
    with pytest.raises(pr.errors.DataError, match="in two parts"):
        pr.stats.merge([moments(part) for part in rows.iter_slices(size)])


KEYS = {
    "integers": pl.col("query") + 9_990,
    "small integers": pl.col("query").cast(pl.UInt16),
    "text": pl.format("{} words", "query"),
    "long text": pl.format("{}{}", pl.lit("w" * 200), "query"),
    "dates": pl.date(2000, 1, 1) + pl.duration(days="query"),
    "times": pl.datetime(2000, 1, 1) + pl.duration(milliseconds="query"),
    "durations": pl.duration(milliseconds="query"),
    "negative integers": -pl.col("query"),
    "decimals": pl.col("query").cast(pl.Decimal(12, 3)),
    "structs": pl.struct("query"),
    "bytes": pl.format("{}", "query").cast(pl.Binary),
    "categories": pl.format("{}", "query").cast(pl.Categorical),
}
ORDERED = [kind for kind in KEYS if kind not in ("decimals", "structs", "bytes", "categories")]


@pytest.mark.parametrize(
    ("kind", "weight"), [*((kind, None) for kind in ORDERED), ("integers", "w")]
)
def test_keys_of_any_kind(kind: str, weight: str | None) -> None:
    lists = pr.per_query(LOG, METRICS).with_columns(query=KEYS[kind], w=1.0).sort("query")
    parts = [pr.stats.moments(part, METRICS, weight=weight) for part in (lists[:200], lists[200:])]
    whole = pr.stats.moments(lists, METRICS, weight=weight)
    assert_frame_equal(pr.stats.merge(parts), whole, rel_tol=1e-12)
    assert whole["first_ranking"][0] < whole["last_ranking"][0]
    torn = [pr.stats.moments(part, METRICS, weight=weight) for part in (lists[:201], lists[200:])]
    with pytest.raises(pr.errors.DataError, match="in two parts, table 1 and table 2"):
        pr.stats.merge(torn)


@pytest.mark.parametrize("kind", KEYS)
def test_parts_that_share_lists_are_found_whatever_their_keys(kind: str) -> None:
    lists = pr.per_query(LOG, METRICS).with_columns(query=KEYS[kind])
    with pytest.raises(pr.errors.DataError, match="in two parts"):
        pr.stats.merge(
            [pr.stats.moments(lists[:300], METRICS), pr.stats.moments(lists[100:], METRICS)]
        )
    assert len(max(pr.stats.moments(lists, METRICS)["sampled_rankings"][0], key=len)) < 100


def test_keys_of_several_columns() -> None:
    lists = pr.per_query(LOG, METRICS).with_columns(site=pl.lit("de"))
    options = {"query": ["site", "query"]}
    with pytest.raises(pr.errors.DataError, match="the ranking of query 'de', 17 is in two parts"):
        pr.stats.merge(
            [pr.stats.moments(lists[:18], **options), pr.stats.moments(lists[17:], **options)]
        )


def test_the_same_query_on_two_days_is_two_lists_where_the_day_is_said() -> None:
    days = [pr.per_query(LOG, METRICS).with_columns(day=day) for day in (1, 2)]
    with pytest.warns(pr.errors.RankWarning, match="occur in several groups"):
        month = pr.stats.merge([pr.stats.moments(day, METRICS, by="day") for day in days])
    assert pr.summarize(month, by="day")["queries"].to_list() == [400] * 4
    with pytest.raises(pr.errors.DataError, match=r"to `by` of `moments`"):
        pr.stats.merge([pr.stats.moments(day, METRICS) for day in days])
    with pytest.raises(
        pr.errors.DataError, match="the ranking of query .*, day = 1 is in two parts"
    ):
        pr.stats.merge([pr.stats.moments(days[0], METRICS, by="day"), month])


def test_pairs_of_runs_too() -> None:
    log = pl.concat(LOG.with_columns(run=pl.lit(run)) for run in "ab")
    lists = pr.per_query(log, METRICS, by="run")
    options: dict[str, Any] = {"run": "run", "baseline": "a"}
    halves = [lists.filter(pl.col("query") < 200), lists.filter(pl.col("query") >= 200)]
    parts = [pr.stats.moments(half, **options) for half in halves]
    assert_frame_equal(pr.stats.merge(parts), pr.stats.moments(lists, **options), rel_tol=1e-12)
    twice = lists.filter(pl.col("query") >= 199)
    with pytest.raises(
        pr.errors.DataError, match="the ranking of query 199 is in two parts, table 1 and table 2"
    ):
        pr.stats.merge([parts[0], pr.stats.moments(twice, **options)])


@pytest.mark.parametrize("lazy", [False, True])
def test_runs_of_a_query_in_two_parts_are_no_pair(lazy: bool) -> None:
    """No ranking is split, but a difference would be missing."""
    log = pl.concat(LOG.with_columns(run=pl.lit(run)) for run in "ab")
    lists = pr.per_query(log, METRICS, by="run").sort("query", "run")
    options: dict[str, Any] = {"run": "run", "baseline": "a"}
    by_run = [lists.filter(run="a"), lists.filter(run="b")]
    for halves in ([lists[:201], lists[201:]], by_run):
        parts = [pr.stats.moments(half.lazy() if lazy else half, **options) for half in halves]
        with pytest.raises(pr.errors.DataError, match="in two parts, table 1 and table 2"):
            pr.stats.merge(parts).lazy().collect(engine="streaming")
    apart = [pr.stats.moments(half) for half in by_run]
    assert_frame_equal(pr.stats.merge(apart), pr.stats.moments(lists))


def test_a_table_without_queries_is_taken_at_its_word() -> None:
    lists = pr.per_query(LOG, METRICS).drop("query")
    part = pr.stats.moments(lists, METRICS)
    assert part.select("first_ranking", "last_ranking", "sampled_rankings").null_count().row(0) == (
        2,
        2,
        2,
    )
    assert pr.stats.merge([part, part])["queries"].to_list() == [800, 800]


def test_what_is_kept_is_little_and_the_same_however_it_is_merged() -> None:
    lists = pr.per_query(LOG, METRICS)
    parts = [pr.stats.moments(lists.filter(pl.col("query") % 9 == index)) for index in range(9)]
    random.Random(1).shuffle(parts)
    nested = pr.stats.merge(
        [pr.stats.merge(parts[:4]), pr.stats.merge([pr.stats.merge(parts[4:8]), parts[8]])]
    )
    whole = pr.stats.moments(lists)
    assert_frame_equal(nested, whole, rel_tol=1e-12)
    assert_frame_equal(
        pr.stats.moments(shuffled(lists).lazy()).collect(engine="streaming"), whole, rel_tol=1e-9
    )
    assert 20 < len(whole["sampled_rankings"][0]) <= 32


def test_files_name_the_parts(tmp_path: Path) -> None:
    cut = inside(LOG, 500)
    for name, part in {"a": LOG[:cut], "b": LOG[cut:]}.items():
        pr.stats.write_moments(moments(part), tmp_path / f"{name}.parquet")
    with pytest.raises(pr.errors.DataError, match=r"in two parts, '.*a.parquet' and '.*b.parquet'"):
        pr.stats.scan_moments(tmp_path / "*.parquet").collect()


def test_files_of_another_format_are_computed_again(tmp_path: Path) -> None:
    lists = pr.per_query(LOG, METRICS)
    about = {"polars_rank.moments": json.dumps({"format": 1, "groups": []})}
    pr.stats.moments(lists).write_parquet(tmp_path / "old.parquet", metadata=about)
    with pytest.raises(pr.errors.SourceError, match="of format 1, .* compute the moments again"):
        pr.stats.scan_moments(tmp_path / "*.parquet")


def test_tables_without_samples_are_merged() -> None:
    lists = pr.per_query(LOG, METRICS)
    names = ["ranking_type", "first_ranking", "last_ranking", "sampled_rankings"]
    part = pr.stats.moments(lists[:100]).drop(names)
    merged = pr.stats.merge([part, pr.stats.moments(lists[100:])])
    expected = pr.stats.moments(lists).drop(names)
    assert_frame_equal(merged.drop(names), expected, rel_tol=1e-12)
    assert_frame_equal(pr.stats.merge(part).drop(names), part)


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = moments(LOG)
    pr.stats.write_moments(part, tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()

    def broken(self: pl.DataFrame, path: Path, **_: object) -> None:
        Path(path).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.DataFrame, "write_parquet", broken)
    with pytest.raises(KeyboardInterrupt):
        pr.stats.write_moments(part, tmp_path / "a.parquet", overwrite=True)
    assert (tmp_path / "a.parquet").read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


# The nightly job of the example.


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    generate = module.search_log
    module.search_log = lambda queries, **options: generate(40, **options)
    return module


@pytest.fixture(scope="module")
def four_days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    logs = tmp_path_factory.mktemp("logs")
    daily = example("daily_partitions")
    for number in range(4):
        daily.write_log(logs, datetime.date(2024, 6, 1 + number), "neural")
    return logs


@pytest.fixture
def job(four_days: Path, tmp_path: Path) -> tuple[ModuleType, Path, Path]:
    """The example script and logs of four days."""
    logs, made = tmp_path / "logs", tmp_path / "moments"
    shutil.copytree(four_days, logs)
    made.mkdir()
    return example("daily_partitions"), logs, made


def expected(daily: ModuleType, logs: Path) -> pl.DataFrame:
    log = pl.concat(
        pl.read_parquet(folder / "0.parquet").with_columns(
            day=pl.lit(folder.name.removeprefix("day=")).str.to_date()
        )
        for folder in sorted(logs.iterdir())
    )
    lists = pr.per_query(log, daily.METRICS, by=["day", "country"], conventions=daily.CONVENTIONS)
    return pr.stats.moments(lists, by=["day", "country"], conventions=daily.CONVENTIONS)


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    order = ["day", "country", "metric"]
    assert_frame_equal(
        found.sort(order), wanted.sort(order), rel_tol=1e-12, check_column_order=False
    )


def test_a_night_does_what_is_new(job: tuple[ModuleType, Path, Path]) -> None:
    daily, logs, made = job
    assert len(daily.update(logs, made)) == 4
    assert daily.update(logs, made) == []
    same(daily.merged(made), expected(daily, logs))
    daily.write_log(logs, datetime.date(2024, 6, 6), "bm25")
    assert daily.update(logs, made) == ["day=2024-06-06"]
    same(daily.merged(made), expected(daily, logs))


def test_what_has_changed_is_done_anew(
    job: tuple[ModuleType, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    daily, logs, made = job
    daily.update(logs, made)
    late = logs / "day=2024-06-03" / "0.parquet"
    rows = pl.read_parquet(late)
    rows.filter(pl.col("query") % 2 == 0).write_parquet(late)
    assert daily.update(logs, made) == ["day=2024-06-03"]
    same(daily.merged(made), expected(daily, logs))
    late.unlink()
    late.parent.rmdir()
    assert daily.update(logs, made) == []
    same(daily.merged(made), expected(daily, logs))
    changes = [
        (daily, "METRICS", ["ap"]),
        (daily, "CONVENTIONS", pr.conventions.SKLEARN),
        (pr, "__version__", "9"),
    ]
    for where, name, value in changes:
        monkeypatch.setattr(where, name, value)
        assert len(daily.update(logs, made)) == 3, name
        assert daily.update(logs, made) == [], name
    same(daily.merged(made), expected(daily, logs))


@pytest.mark.parametrize("stop", ["write_moments", "_write"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step(
    job: tuple[ModuleType, Path, Path], monkeypatch: pytest.MonkeyPatch, stop: str, after: bool
) -> None:
    """After an interruption on the third day, the remaining steps run once."""
    daily, logs, made = job
    where = pr.stats if stop == "write_moments" else daily.Manifest
    step = getattr(where, stop)
    calls = 0

    def crashing(*args: Any, **kwargs: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 3 and not after:
            raise MemoryError
        step(*args, **kwargs)
        if calls == 3:
            raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(where, stop, crashing)
        with pytest.raises(MemoryError):
            daily.update(logs, made)
    entered = stop != "write_moments" and after
    assert len(daily.update(logs, made)) == (1 if entered else 2)
    same(daily.merged(made), expected(daily, logs))


def test_a_process_that_is_killed(job: tuple[ModuleType, Path, Path]) -> None:
    daily, logs, made = job
    for number in range(4, 10):
        daily.write_log(logs, datetime.date(2024, 6, 1 + number), "neural")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
        "import daily_partitions as job; job.update(Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, str(EXAMPLES), str(logs), str(made)]
    killed = subprocess.Popen(command)
    while killed.poll() is None and len(list(made.glob("day=*.parquet"))) < 3:
        time.sleep(0.002)
    killed.kill()
    killed.wait()
    manifest = json.loads((made / "manifest.json").read_text())["days"]
    rest = daily.update(logs, made)
    assert set(rest) == {folder.name for folder in logs.iterdir()} - set(manifest)
    same(daily.merged(made), expected(daily, logs))
