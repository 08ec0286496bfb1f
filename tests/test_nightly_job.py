"""The nightly job of the examples: no day is computed twice, and none is lost."""

from __future__ import annotations

import datetime
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

if TYPE_CHECKING:
    from types import ModuleType

EXAMPLES = Path(__file__).parents[1] / "examples"


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
    values = pr.per_query(log, daily.METRICS, keep="day", conventions=daily.CONVENTIONS)
    return pr.summarize(values, by="day", details=True)


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    assert_frame_equal(pr.summarize(found, by="day", details=True), wanted, rel_tol=1e-12)


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


@pytest.mark.parametrize("stop", ["write_parquet", "_write"])
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_crash_at_any_step(
    job: tuple[ModuleType, Path, Path], monkeypatch: pytest.MonkeyPatch, stop: str, after: bool
) -> None:
    """After an interruption on the third day, the remaining steps run once."""
    daily, logs, made = job
    where = pl.DataFrame if stop == "write_parquet" else daily.Manifest
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
    entered = stop == "_write" and after
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
    manifest = json.loads((made / "manifest.json").read_text("utf-8"))["days"]
    rest = daily.update(logs, made)
    assert set(rest) == {folder.name for folder in logs.iterdir()} - set(manifest)
    same(daily.merged(made), expected(daily, logs))
