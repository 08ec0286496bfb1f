"""The commands `curve`, `explain`, `plot`, `report` and `demo`, compared with the library."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import polars as pl
import pytest
from commands import run

import polars_rank as pr
from polars_rank.cli.commands import PLOTS


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


ASKED = {
    "at-k": ["-m", "ndcg", "--ks", "1-5"],
    "pr-curve": [],
    "answerability": ["-m", "rr", "--rel", 3],
    "bounds": ["-m", "ndcg@5"],
    "distribution": ["-m", "ap", "--kind", "ecdf"],
    "differences": ["-m", "ap", "--baseline", "old"],
    "intervals": ["-m", "ap rr", "--baseline", "old"],
    "slices": ["-m", "ap", "--baseline", "old", "--slices", "country"],
    "over-time": ["-m", "ap"],
    "leaderboard": ["-m", "ap", "--kind", "ranks"],
    "power": ["-m", "ap", "--baseline", "old", "--difference", 0.02, "--power", 0.9],
    "fusion": ["-m", "ap", "--step", 0.5],
}


def drawn(*arguments: object, output: Path) -> dict[str, object]:
    code, out, err = run("plot", *arguments, "-o", output, "--overwrite")
    assert (code, out, err) == (0, "", f"Wrote {output}\n")
    return json.loads(output.read_text("utf-8"))


def rows_of(chart: dict[str, object]) -> list[dict[str, object]]:
    return [row for rows in chart["datasets"].values() for row in rows]


def test_each_kind_is_a_function_of_plot() -> None:
    assert {*ASKED} == {*PLOTS}
    # The command has no judges, which `confusion` shows.
    assert {kind.replace("-", "_") for kind in PLOTS} == {*pr.plot.__all__} - {"confusion"}


@pytest.mark.parametrize("kind", ASKED)
def test_each_kind_of_chart(log: Path, tmp_path: Path, kind: str) -> None:
    chart = drawn(kind, log, *ASKED[kind], output=tmp_path / "chart.json")
    assert rows_of(chart)
    assert chart["background"] == "white"


def test_kinds_with_underscores(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "chart.json"
    dashed, underscored = (drawn(f"at{sign}k", log, *ASKED["at-k"], output=output) for sign in "-_")
    assert dashed == underscored


def test_charts_have_the_numbers_of_the_library(log: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(log)
    chart = drawn("at-k", log, *ASKED["at-k"], output=tmp_path / "chart.json")
    expected = pr.rank_curve(frame, "ndcg", range(1, 6), by="run")
    actual = {(row["run"], row["x"]): row["y"] for row in rows_of(chart)}
    assert actual == pytest.approx(
        {(name, k): value for name, k, value in expected.select("run", "k", "ndcg").rows()}
    )
    assert (
        "#16181d" == drawn("pr-curve", log, "--dark", output=tmp_path / "chart.json")["background"]
    )


def test_a_fusion_is_the_curve_with_the_held_out_mean(log: Path, tmp_path: Path) -> None:
    expected = pr.tune_fusion(pl.read_parquet(log), "ap", step=0.5, curve=True)["mean"].to_list()
    chart = drawn("fusion", log, *ASKED["fusion"], output=tmp_path / "chart.json")
    means = [row["y"] for row in rows_of(chart) if "label" in row]
    assert means == pytest.approx(expected)


def test_charts_of_values_and_of_tables(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "chart.json"
    run("per-query", log, "-m", "ap", "--by", "run", "--keep", "country", "-o",
        tmp_path / "lists.parquet")  # fmt: skip
    of_log = drawn("differences", log, *ASKED["differences"], output=output)
    of_lists = drawn("differences", tmp_path / "lists.parquet", "--baseline", "old", output=output)
    assert rows_of(of_lists) == rows_of(of_log)
    tables = {
        "at-k": ["rank-curve", log, "-m", "ndcg", "--ks", "1-20"],
        "pr-curve": ["pr-curve", log],
        "intervals": ["summarize", log, "-m", "ap"],
        "slices": ["compare", log, *ASKED["slices"]],
        "leaderboard": ["leaderboard", log, "-m", "ap"],
    }
    for kind, command in tables.items():
        run(*command, "-o", tmp_path / "table.csv", "--overwrite")
        assert rows_of(drawn(kind, tmp_path / "table.csv", output=output))


@pytest.mark.parametrize("ending", ["png", "svg", "html"])
def test_formats_of_charts(log: Path, tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"chart.{ending}"
    arguments = ["plot", "pr-curve", log, "-o", output]
    assert run(*arguments)[0] == 0
    begin = {"png": b"\x89PNG", "svg": b"<svg", "html": b"<!DOCTYPE html>"}[ending]
    data = output.read_bytes()
    assert data.startswith(begin)
    assert b'src="http' not in data  # it opens offline
    code, _, err = run(*arguments)
    assert (code, "use `--overwrite` to replace it" in err, output.read_bytes()) == (2, True, data)
    assert [file.name for file in tmp_path.iterdir()] == [output.name]


def test_a_chart_never_replaces_its_log(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "log.json"
    copy.write_bytes(log.read_bytes())
    code, _, err = run("plot", "pr-curve", copy, "-o", copy, "--overwrite")
    assert (code, "is an input; write to another file" in err) == (2, True)


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


def test_report_of_both_labels(log: Path, tmp_path: Path) -> None:
    needs.package("jinja2", "report")
    label = pl.col("label").fill_null(0)
    human = pl.when(pl.col("query") < 40).then(label)
    both = pl.read_parquet(log).with_columns(human=human, llm=label.clip(0, 1))
    both.write_parquet(path := tmp_path / "both.parquet")
    arguments = [
        "report", path, "--metrics", "ap", "--baseline", "old", "--label", "human",
        "--predicted-label", "llm", "--output", tmp_path / "page.html",
    ]  # fmt: skip
    code, _, err = run(*arguments)
    assert (code, err) == (0, f"Wrote {tmp_path / 'page.html'}\n")
    assert "alone would have claimed" in (tmp_path / "page.html").read_text("utf-8")
    code, _, err = run(*arguments, "--predicted-label", "gpt", "--overwrite")
    assert (code, "column 'gpt' (`--predicted-label`) not found" in err) == (2, True)


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
