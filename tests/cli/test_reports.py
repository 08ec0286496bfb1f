"""The commands `report` and `demo`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import needs
import polars as pl
import pytest
from commands import run

import polars_rank as pr

# A report that is replaced, because it takes seconds.
from polars_rank.reporting import page as pages


@pytest.fixture(scope="module", autouse=True)
def _packages() -> None:
    needs.package("altair", "plot")
    needs.package("jinja2", "report")


def test_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pr.datasets.search_log(60, runs=["new", "old"]).sink_parquet("log.parquet")
    rules = 'undecided = "pass"\n[[rules]]\nrule = "queries >= 7"\n'
    Path("gate.toml").write_text(rules, "utf-8")
    arguments = [
        "report", "log.parquet", "--metrics", "ap", "--run", "run", "--baseline", "old",
        "--slices", "country", "--rule", "ap >= 0.123", "--rules", "gate.toml",
        "--title", "Ours & theirs", "--conventions", "lightgbm", "--output", "page.html",
        "--show", "country", "--unjudged", "removed",
    ]  # fmt: skip
    code, out, err = run(*arguments)
    assert (code, out, err.splitlines()[-1]) == (0, "", "Wrote page.html")
    text = Path("page.html").read_text("utf-8")
    for part in (
        *("Ours &amp; theirs", "ap &gt;= 0.123", "queries &gt;= 7", "LightGBM", "log.parquet"),
        *('<span class="key">country</span>', "removed before ranking"),
    ):
        assert part in text
    assert "use `--overwrite` to replace it" in run(*arguments)[2]
    for wrong, message in {
        ("--output", "page.pdf"): "must end in .html",
        ("--baseline", "older"): "'older'",
        ("--run", "model"): "column 'model' (`--run`) not found",
        ("--slices", "county"): "column 'county' (`--slices`) not found",
    }.items():
        code, _, err = run(*arguments, *wrong, "--overwrite")
        assert (code, message in err) == (2, True), err
    assert Path("page.html").read_text("utf-8") == text


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command that it shows is one that runs, and gives what it showed."""
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("demo", "my demo", "--queries", 50)
    assert code == 0
    assert sorted(file.name for file in Path("my demo").iterdir()) == ["log.parquet", "report.html"]
    assert "<html" in Path("my demo/report.html").read_text("utf-8")
    blocks = [block for block in out.split("\n\n") if block.startswith("$ ")]
    assert [shlex.split(block)[2] for block in blocks] == [
        "generate", "evaluate", "compare", "report"
    ]  # fmt: skip
    for block in blocks[1:3]:
        line, _, shown = block.partition("\n")
        program, *words = shlex.split(line.removeprefix("$ "))
        code, again, _ = run(*words)
        assert (program, code, again.rstrip("\n")) == ("polars-rank", 0, shown)
    assert Path("my demo/report.html").resolve().as_uri() in out
    # It replaces nothing unasked, but in its own folder. A report takes seconds, so it is none.
    written: list[Any] = []

    def write_report(_: Any, *, path: Path, overwrite: bool, **__: Any) -> Path:
        written.append((str(path.parent), overwrite))
        return path

    monkeypatch.setattr(pages, "write_report", write_report)
    code, _, err = run("demo", "my demo")
    assert (code, "use `--overwrite` to replace it" in err) == (2, True)
    own = Path("polars-rank-demo")
    own.mkdir()
    (own / "log.parquet").write_text("old", "utf-8")
    for arguments, folder in ((["my demo", "--overwrite"], Path("my demo")), ([], own)):
        assert run("demo", *arguments, "--queries", 20)[0] == 0
        assert pl.read_parquet(folder / "log.parquet")["query"].n_unique() == 20
    assert written == [("my demo", True), ("polars-rank-demo", True)]
