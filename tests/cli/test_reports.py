"""The commands `explain`, `report` and `demo`, compared with the library."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import polars as pl
import pytest
from commands import run

import polars_rank as pr


@pytest.fixture(scope="module", autouse=True)
def _altair() -> None:
    needs.package("altair", "plot")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    day = pl.date(2026, 1, 1).dt.offset_by(pl.format("{}d", pl.col("query") % 5)).alias("day")
    pr.datasets.search_log(60, runs=["new", "old"]).with_columns(day).sink_parquet(path)
    return path


def test_explain(log: Path, tmp_path: Path) -> None:
    code, out, _ = run("explain", "ndcg@10", "--conventions", "lightgbm")
    assert (code, out) == (0, pr.explain("ndcg@10", "lightgbm") + "\n")
    _, out, _ = run("explain", "map", "--versus", "trec_eval")
    assert out == f"{pr.explain('map')}\n\n{pr.explain('map', 'trec_eval')}\n"
    assert run("explain", "rr", "-o", tmp_path / "rr.txt")[0] == 0
    assert (tmp_path / "rr.txt").read_text("utf-8") == pr.explain("rr") + "\n"
    code, out, _ = run("explain", "ndcg@10", log, "--by", "run", "--versus", "lightgbm",
                       "--format", "json")  # fmt: skip
    expected = pr.explain_difference(
        pl.read_parquet(log),
        "ndcg@10",
        pr.conventions.POLARS_RANK,
        pr.conventions.LIGHTGBM,
        by="run",
    )
    actual = json.loads(out)
    assert [row["choice"] for row in actual] == expected["choice"].to_list()
    assert [row["mean"] for row in actual] == pytest.approx(expected["mean"].to_list())
    _, out, _ = run("explain", "rr", log, "--by", "run", "--versus", "lightgbm", "--position",
                    "position", "--format", "json")  # fmt: skip
    shown = pr.evaluate(
        pl.read_parquet(log), "rr", by=["run"], position="position", conventions="lightgbm"
    )
    assert json.loads(out)[-1]["mean"] == pytest.approx(shown["rr"].mean())


def test_report(log: Path, tmp_path: Path) -> None:
    needs.package("jinja2", "report")
    page = tmp_path / "page.html"
    (tmp_path / "gate.toml").write_text(
        'undecided = "pass"\n[[rules]]\nrule = "queries >= 7"\n', "utf-8"
    )
    arguments = [
        "report", log, "--metrics", "ndcg@10 ap", "--run", "run", "--baseline", "old",
        "--slices", "country", "--rule", "ap >= 0.123", "--rules", tmp_path / "gate.toml",
        "--title", "Ours & theirs", "--conventions", "lightgbm", "--output", page,
        "--show", "country", "--unjudged", "removed",
    ]  # fmt: skip
    code, out, err = run(*arguments)
    assert (code, out) == (0, "")
    assert err.endswith(f"Wrote {page}\n")
    text = page.read_text("utf-8")
    for part in (
        "Ours &amp; theirs",
        "ap &gt;= 0.123",
        "queries &gt;= 7",
        "LightGBM",
        str(log),
        '<span class="key">country</span>',
        "removed before ranking",
    ):
        assert part in text
    code, _, err = run(*arguments)
    assert (code, "use `--overwrite` to replace it" in err) == (2, True)
    for wrong, message in {
        ("--output", tmp_path / "page.pdf"): "must end in .html",
        ("--baseline", "older"): "'older'",
        ("--run", "model"): "column 'model' (`--run`) not found",
        ("--slices", "county"): "column 'county' (`--slices`) not found",
    }.items():
        code, _, err = run(*arguments, *wrong, "--overwrite")
        assert (code, message in err) == (2, True), err
    assert page.read_text("utf-8") == text


def test_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command that it shows is one that runs, and gives what it showed."""
    needs.package("jinja2", "report")
    import shlex

    monkeypatch.chdir(tmp_path)
    code, out, _ = run("demo", "my demo", "--queries", 50)
    assert code == 0
    assert sorted(file.name for file in Path("my demo").iterdir()) == ["log.parquet", "report.html"]
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
    # It replaces nothing unasked, but in its own folder.
    code, _, err = run("demo", "my demo")
    assert (code, "use `--overwrite` to replace it" in err) == (2, True)
    own = Path("polars-rank-demo")
    own.mkdir()
    for name in ("log.parquet", "report.html"):
        (own / name).write_text("old", "utf-8")
    for arguments, folder in ((["my demo", "--overwrite"], Path("my demo")), ([], own)):
        assert run("demo", *arguments, "--queries", 20)[0] == 0
        assert pl.read_parquet(folder / "log.parquet")["query"].n_unique() == 20
        assert "<html" in (folder / "report.html").read_text("utf-8")
