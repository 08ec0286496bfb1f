"""The command line: results, errors, exit codes and signals."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
import subprocess
import sys
import time
import warnings
from io import StringIO
from pathlib import Path
from typing import Any, get_args

from commands import invoke, run
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.conventions import QuerySet, Undefined, Unjudged
from polars_rank.datasets import search_log
from polars_rank.evaluation.parameters import Align
from polars_rank.frames.layouts import Layout
from polars_rank.io.trec import Negative
from polars_rank.metrics import listing
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.aliases import ALIASES
from polars_rank.conventions import Duplicates, Ties


from polars_rank.cli.options import split_names  # noqa: E402

METRICS = ["ndcg@10", "ap", "rr"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    search_log(60, 10, seed=1).sink_parquet(path)
    return path


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "polars_rank.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def test_csv_is_what_the_library_returns(log: Path) -> None:
    code, out, err = run(
        "evaluate", log, "--metrics", "ndcg@10 ap rr", "--by", "run", "--format", "csv"
    )
    expected = pr.evaluate(pl.read_parquet(log), METRICS, by="run")
    assert (code, err) == (0, "")
    assert_frame_equal(pl.read_csv(StringIO(out)), expected, check_dtypes=False)


def test_json(log: Path) -> None:
    _, out, _ = run("evaluate", log, "-m", "rr", "--by", "run", "--format", "json")
    expected = pr.evaluate(pl.read_parquet(log), "rr", by="run")
    assert_frame_equal(pl.DataFrame(json.loads(out)), expected, check_dtypes=False)


def test_piped_tables_have_aligned_columns(log: Path) -> None:
    _, out, _ = run("evaluate", log, "--metrics", "rr", "--by", "run")
    head, *rows = out.splitlines()
    assert head.split() == ["run", "queries", "rr"]
    assert [row.split()[:2] for row in rows] == [["bm25", "60"], ["neural", "60"]]
    assert len({len(line) for line in out.splitlines()}) == 1


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_per_query_to_a_file(log: Path, tmp_path: Path, ending: str) -> None:
    output = tmp_path / f"lists.{ending}"
    code, out, _ = run("per-query", log, "-m", "ap p@5", "--by", "run", "-o", output)
    expected = pr.per_query(pl.read_parquet(log), ["ap", "p@5"], by="run")
    assert (code, out) == (0, "")
    actual = getattr(pl, f"read_{ending}")(output)
    assert_frame_equal(actual, expected, check_dtypes=False, check_row_order=False)
    assert [file.name for file in tmp_path.iterdir()] == [output.name]


def test_other_columns_and_options(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    names = {"query": "q", "doc": "d", "score": "s", "label": "grade"}
    frame = search_log(40, 8, runs=1).collect()
    frame.rename(names).write_parquet(path)
    options = {"ties": "best", "rel": 2, "undefined": "skip"}
    code, out, _ = run(
        "evaluate",
        path,
        "-m",
        "ap ndcg@3",
        "--format",
        "json",
        *(part for name, column in names.items() for part in (f"--{name}", column)),
        *(part for name, value in options.items() for part in (f"--{name}", value)),
    )
    assert code == 0
    assert json.loads(out) == pr.evaluate(frame, ["ap", "ndcg@3"], **options).to_dicts()


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["ndcg@10 ap rr"], ["ndcg@10", "ap", "rr"]),
        (["ndcg@10,ap,  rr"], ["ndcg@10", "ap", "rr"]),
        (["ndcg@10", "ap rr"], ["ndcg@10", "ap", "rr"]),
        (
            ["dcg(gain='exp2', discount=jarvelin(3))@5 p@1"],
            ["dcg(gain='exp2', discount=jarvelin(3))@5", "p@1"],
        ),
    ],
)
def test_names_of_metrics_are_split_outside_brackets(texts: list[str], names: list[str]) -> None:
    assert split_names(texts) == names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate", "LOG", "--metrics", "ndgc@10"], "Did you mean 'ndcg'"),
        (["evaluate", "LOG"], "Missing option '--metrics'"),
        (["evaluate", "LOG", "--metrics", "ap", "--run", ""], "more than once in a ranking"),
        (["evaluate", "LOG", "--metrics", "ap", "--by", "runs"], "Did you mean 'run'"),
        (["evaluate", "LOG", "--metrics", "ap", "--label", "country"], "must be numeric"),
        (["evaluate", "no.parquet", "--metrics", "ap"], "'no.parquet' not found"),
        (["evaluate", "--metrics", "ap"], "missing argument LOG"),
        (["evaluate", "LOG", "--metrics", "ap", "--qrels", "q"], "file 'q' not found"),
        (["evaluate", "--qrels", "q", "-m", "ap"], "--qrels needs a LOG"),
        (["evaluate", "LOG", "-m", "ap", "--rel", "nan"], "`--rel` must be"),
        (["evaluate", "LOG", "-m", "ap", "--undefined", "two"], "`--undefined` must be one of"),
        (["evaluate", "LOG", "-m", "ap", "--undefined", "ndgc=one"], "Did you mean"),
        (["evaluate", "LOG", "-m", "ap", "--lable", "x"], "--label"),
        (["rank-curve", "LOG", "-m", "ndcg@10", "--ks", "5"], "`--metrics` must be metrics without"),
        (["rank-curve", "LOG", "-m", "ndcg", "--ks", "ten"], "`--ks` must be whole numbers"),
        (["rank-curve", "LOG", "-m", "ndcg"], "Missing option '--ks'"),
        (["pr-curve", "LOG", "-m", "ndcg"], "No such option '-m'"),
        (["explain", "ndgc"], "Did you mean 'ndcg'"),
        (["explain", "ndcg", "LOG"], "name the conventions to compare with: --versus"),
        (["explain", "ndcg", "--format", "json"], "--format needs a LOG"),
        (["explain", "ndcg", "--conventions", "no.toml"], "in 'no.toml'"),
        (["evaluate", "LOG", "--metrics", "ap", "--ties", "never"], "--ties"),
        (
            ["evaluate", "LOG", "--metrics", "ap", "--by", "run", "-o", "no/a.csv"],
            "directory 'no' does not exist",
        ),
        (["convert", "-o", "out.parquet"], "give a LOG, --qrels, or both"),
        (["generate", "out.parquet", "--queries", "-1"], "`--queries` must be"),
        (["generate", "out.parquet", "--runs", "-3"], "`--runs` must be a positive integer"),
        (["evaluate", "", "-m", "ap"], "an argument is empty; name a file"),
        (
            ["evaluate", "LOG", "-m", "ap", "--items", ""],
            "--items is empty; give it a value, or omit it",
        ),
        (["evaluate", "LOG", "-m", "ap", "--by="], "--by is empty; give it a value, or omit it"),
        (["frobnicate"], "frobnicate"),
        (["evaluate", "LOG", "-m", "ap", "--doc", "docs"], "Did you mean 'doc'"),
        (["movers", "LOG", "-m", "ap rr", "--baseline", "a"], "`--metric` must be one metric"),
        (
            ["estimate", "LOG", "-m", "dcg", "--max-unshown", "2"],
            "`--max-unshown` must be a number from 0",
        ),
        (["estimate", "LOG", "-m", "dcg", "--query-set", "judged"], "`--query-set` must be 'all'"),
        (["estimate", "LOG", "-m", "ap"], "with `--normalize` 'snips', use"),
        (
            ["evaluate", "LOG", "-m", "ap", "--by", "run query"],
            "column 'query' is used for two parameters",
        ),
        (
            ["evaluate", "LOG", "-m", "ap", "--by", "run", "-o", "out.xlsx"],
            "must end in .txt, .csv, .json, .ndjson, .jsonl, .parquet, .md, .tex unless --format is given; "
            "found 'out.xlsx'",
        ),
        (["generate", "out.csv"], "the output is a Parquet file and must end in .parquet"),
        (["convert", "-o", "out.csv", "--qrels", "q"], "must end in .parquet"),
        (
            ["evaluate", "LOG", "-m", "ap", "--by", "run", "--conventions", "lightgmb"],
            "unknown preset 'lightgmb' (`--conventions`)",
        ),
        (["evaluate", "LOG", "-m", "ap", "--query-set", "some"], "--query-set"),
        (["evaluate", "LOG", "-m", "ap", "--unjudged", "kept"], "--unjudged"),
        (["evaluate", "LOG", "no.csv", "-m", "ap"], "files of different formats"),
        (["evaluate", "no.csv", "-m", "ap"], "'no.csv' not found"),
        (["evaluate", "no.csv", "-m", "ap", "--layout", "sorted"], "--layout needs Parquet files"),
        (["evaluate", "no.csv", "-m", "ap", "--memory", "1GB"], "--memory needs Parquet files"),
    ],
)
def test_invalid_usage_prints_one_message_and_exits_with_2(
    log: Path, arguments: list[str], message: str
) -> None:
    code, out, err = run(*[log if argument == "LOG" else argument for argument in arguments])
    assert code == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err
    assert out == ""


def test_an_output_is_not_overwritten_by_default(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "means.csv"
    output.write_text("mine")
    arguments = ["evaluate", log, "-m", "rr", "--by", "run", "-o", output]
    code, _, err = run(*arguments)
    assert (code, output.read_text()) == (2, "mine")
    assert "already exists" in err
    assert run(*arguments, "--overwrite")[0] == 0
    assert pl.read_csv(output).columns == ["run", "queries", "rr"]


@pytest.mark.parametrize("kind", ["file", "link", "directory", "pattern", "csv"])
def test_an_output_never_replaces_the_log(log: Path, tmp_path: Path, kind: str) -> None:
    source = tmp_path / "a.parquet"
    source.write_bytes(log.read_bytes())
    output, given = source, {"directory": tmp_path, "pattern": tmp_path / "*.parquet"}.get(
        kind, source
    )  # fmt: skip
    if kind == "link":
        given = tmp_path / "link.parquet"
        given.symlink_to(source)
    if kind == "csv":
        output = given = tmp_path / "a.csv"
        pl.read_parquet(log).write_csv(output)
    before = output.read_bytes()
    arguments = ["evaluate", given, "-m", "rr", "--by", "run", "--overwrite", "-o"]
    code, out, err = run(*arguments, output)
    assert (code, out, output.read_bytes()) == (2, "", before)
    assert f"'{output}' is an input; write to another file" in err
    assert run(*arguments, tmp_path / "other.json")[0] == 0


def test_an_output_never_replaces_trec_files(tmp_path: Path) -> None:
    (tmp_path / "q").write_text("q1 0 a 1\n")
    (tmp_path / "r").write_text("q1 Q0 b 1 2.0 bm25\n")
    sources = [tmp_path / "r", "--qrels", tmp_path / "q", "--overwrite"]
    for name in "qr":
        for arguments in (
            ["convert", *sources, "-o", tmp_path / name],
            ["evaluate", *sources, "-m", "rr", "-o", tmp_path / name],
        ):
            code, _, err = run(*arguments)
            assert (code, "is an input; write to another file" in err) == (2, True)
    assert (tmp_path / "q").read_text() == "q1 0 a 1\n"


def test_endings_of_the_output_in_any_case(log: Path, tmp_path: Path) -> None:
    arguments = ["evaluate", log, "-m", "rr", "--by", "run", "-o"]
    expected = pr.evaluate(pl.read_parquet(log), "rr", by="run")
    assert run(*arguments, tmp_path / "A.CSV")[0] == 0
    assert_frame_equal(pl.read_csv(tmp_path / "A.CSV"), expected, check_dtypes=False)
    assert run(*arguments, tmp_path / "a.txt")[0] == 0
    assert run(*arguments, tmp_path / "a")[0] == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "a.txt").read_text()
    assert (tmp_path / "a").read_text().split()[:3] == ["run", "queries", "rr"]
    assert run(*arguments, tmp_path / "a.dat", "--format", "csv")[0] == 0
    assert (tmp_path / "a.dat").read_text() == (tmp_path / "A.CSV").read_text()


WRITERS = {
    "log.csv": lambda frame, path: frame.write_csv(path),
    "LOG.CSV": lambda frame, path: frame.write_csv(path),
    "log.tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    "log.csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    "log.ndjson": lambda frame, path: frame.write_ndjson(path),
    "log.jsonl": lambda frame, path: frame.write_ndjson(path),
    "log.arrow": lambda frame, path: frame.write_ipc(path),
    "log.feather": lambda frame, path: frame.write_ipc(path),
    "log.ipc": lambda frame, path: frame.write_ipc(path),
    "log[1].csv": lambda frame, path: frame.write_csv(path),
    "log[1].arrow": lambda frame, path: frame.write_ipc(path),
    "log[1].ndjson": lambda frame, path: frame.write_ndjson(path),
    "log[1].parquet": lambda frame, path: frame.write_parquet(path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_logs_in_other_formats(log: Path, tmp_path: Path, name: str) -> None:
    frame = pl.read_parquet(log)
    WRITERS[name](frame, tmp_path / name)
    code, out, err = run(
        "evaluate", tmp_path / name, "-m", "ndcg@10 ap rr", "--by", "run", "--format", "json"
    )
    assert (code, err) == (0, "")
    expected = pr.evaluate(frame, METRICS, by="run").to_dicts()
    assert json.loads(out) == [pytest.approx(row) for row in expected]


def test_types_of_csv_files_are_inferred_from_all_rows(tmp_path: Path) -> None:
    """A label of 0.5 and a document "x" after a thousand whole numbers."""
    frame = pl.DataFrame({"query": range(1200)}).with_columns(
        doc=pl.format("{}", pl.when(pl.col("query") < 1100).then("query").otherwise(pl.lit("x"))),
        score=pl.lit(1.0),
        label=pl.when(pl.col("query") < 1150).then(1.0).otherwise(0.5),
    )
    text = frame.write_csv().replace(",1.0\n", ",1\n")
    (tmp_path / "a.csv").write_text(text)
    code, out, err = run("evaluate", tmp_path / "*.csv", "-m", "cg", "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out) == [{"queries": 1200, "cg": pytest.approx((1150 + 50 / 2) / 1200)}]
    # Of many files, the types show in the last one.
    for number in range(12):
        label = 0.5 if number == 11 else 1
        text = f"query,doc,score,label\n{number},a,1,{label}\n"
        (tmp_path / f"part-{number:02}.csv").write_text(text)
    code, out, err = run("evaluate", tmp_path / "part-*.csv", "-m", "cg", "--format", "csv")
    assert (code, out, err) == (0, f"queries,cg\n12,{(11 + 0.5) / 12}\n", "")


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_invalid_rows_are_counted(tmp_path: Path, ending: str) -> None:
    frame = pl.DataFrame(
        {"query": [1, 2, 1, 2], "doc": 1, "score": [float("nan")] * 2 + [1.0] * 2, "label": 1}
    )
    getattr(frame, f"write_{ending}")(tmp_path / f"log.{ending}")
    code, out, err = run("evaluate", tmp_path / f"log.{ending}", "-m", "rr")
    assert (code, out) == (2, "")
    assert "2 of 4 rows: column 'score' (`--score`) has NaN or infinite values" in err
    assert "2 documents more than once in a ranking" in err


def test_a_warning_is_one_line(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def evaluate(*arguments: Any, **options: Any) -> Any:
        warnings.warn("part of it", pr.errors.RankWarning)
        return pr.evaluate(*arguments, **options)

    monkeypatch.setattr("polars_rank.cli.calls.public", lambda _: evaluate)
    code, out, err = run("evaluate", log, "-m", "rr", "--by", "run")
    assert (code, err) == (0, "Warning: part of it\n")
    assert out.startswith("run ")


def test_errors_about_other_formats_name_the_option(tmp_path: Path) -> None:
    path = tmp_path / "bm25.run"
    path.write_text("q1 Q0 b 1 2.0 bm25\n")
    arguments = ["evaluate", path, "-m", "rr"]
    code, _, err = run(*arguments)
    assert code == 2
    assert f"{path} is a TREC run without judgments; add --qrels" in err
    path.write_text("q1 0 b 1\n")
    assert f"{path} looks like TREC judgments; use --qrels" in run(*arguments)[2]
    path.write_text("a story\n")
    assert "has an unknown format; name it with --input-format" in (run(*arguments)[2])


def test_errors_name_an_invalid_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"query,doc,score,label\n1,caf\xe9,0.5,1\n")
    code, out, err = run("evaluate", path, "-m", "rr")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(path) in err


def test_conventions_by_name(log: Path, tmp_path: Path) -> None:
    frame = pl.read_parquet(log).filter(run="bm25")
    log = tmp_path / "log.parquet"
    frame.write_parquet(log)
    arguments = ["evaluate", log, "-m", "ndcg@3 ap", "--by", "run", "--format", "json"]
    for name, conventions in {
        "trec_eval": pr.conventions.TREC_EVAL, "trec_eval_9": pr.conventions.TREC_EVAL_9, "IR_Measures": pr.conventions.IR_MEASURES,
        "ranx": pr.conventions.RANX, "sklearn": pr.conventions.SKLEARN, "scikit-learn": pr.conventions.SKLEARN,
        "torchmetrics": pr.conventions.TORCHMETRICS, "lightgbm": pr.conventions.LIGHTGBM, "XGBoost": pr.conventions.XGBOOST,
        "CATBOOST": pr.conventions.CATBOOST, "polars_rank": pr.Conventions(),
    }.items():  # fmt: skip
        metrics = ["ndcg@3"] if conventions.ties == "expected" else ["ndcg@3", "ap"]
        arguments[3] = " ".join(metrics)
        code, out, err = run(*arguments, "--conventions", name)
        assert (code, err) == (0, "")
        expected = pr.evaluate(frame, metrics, by="run", conventions=conventions)
        assert json.loads(out) == [pytest.approx(row) for row in expected.to_dicts()], name


def test_options_come_before_conventions(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "query": [1, 1, 2, 2, 3, 4],
            "doc": [1, 2, 1, 2, 1, 1],
            "score": [2.0, 1.0, 2.0, 1.0, 1.0, None],
            "label": [None, 1, 0, 0, None, 1],
        }
    )
    frame.write_parquet(tmp_path / "log.parquet")

    def actual(*options: object) -> dict[str, float]:
        code, out, err = run(
            "evaluate", tmp_path / "log.parquet", "-m", "ap", "--format", "json", *options
        )
        assert (code, err) == (0, "")
        return json.loads(out)[0]

    # AP of the queries: 1/2, undefined, undefined, 0.
    assert actual()["ap"] == (1 / 2) / 4
    assert actual("--query-set", "judged")["ap"] == pytest.approx((1 / 2) / 3)
    assert actual("--query-set", "both")["queries"] == 2
    assert actual("--unjudged", "removed")["ap"] == 1 / 4
    assert actual("--undefined", "one")["ap"] == (1 / 2 + 1 + 1) / 4
    assert actual("--conventions", "lightgbm")["ap"] == (1 / 2 + 1 + 1) / 4
    assert actual("--conventions", "lightgbm", "--undefined", "skip")["ap"] == (1 / 2) / 2
    assert actual("--conventions", "trec_eval", "--query-set", "all")["ap"] == (1 / 2) / 4
    assert actual("--conventions", "trec_eval")["ap"] == pytest.approx((1 / 2) / 3)


def test_undefined_values_of_each_query(tmp_path: Path) -> None:
    frame = pl.DataFrame({"query": [1, 2], "doc": [1, 1], "score": [1.0, 1.0], "label": [0, 1]})
    frame.write_parquet(tmp_path / "log.parquet")
    arguments = [
        "per-query",
        tmp_path / "log.parquet",
        "-m",
        "rr",
        "--format",
        "json",
    ]
    assert [row["rr"] for row in json.loads(run(*arguments)[1])] == [0, 1]
    null = run(*arguments, "--undefined", "null")
    assert [row["rr"] for row in json.loads(null[1])] == [None, 1]


@pytest.mark.parametrize("normalize", ["ips", "snips"])
def test_estimate_of_weighted_clicks(tmp_path: Path, normalize: str) -> None:
    weighted = pl.DataFrame(
        {"query": [1, 1, 2], "doc": [1, 2, 1], "score": [2, 1, 1], "label": [None, 3.0, 2.0]}
    )
    weighted.write_parquet(tmp_path / "log.parquet")
    command = ["estimate", tmp_path / "log.parquet", "-m", "p@1", "--normalize", normalize]
    code, out, err = run(*command, "--max-unshown", 0.5, "--format", "json")
    (row,) = json.loads(out)
    with pytest.warns(pr.errors.RankWarning, match="effective sample size"):
        wanted = pr.clicks.estimate(weighted, "p@1", normalize=normalize, max_unshown=0.5)
    assert (code, row) == (0, wanted.row(0, named=True))
    assert "the effective sample size is" in err
    assert row["p@1"] == pytest.approx({"ips": (0 + 2) / 2, "snips": (0 + 2) / (3 + 2)}[normalize])
    assert run(*command)[0] == 2  # a half was never shown


def test_clusters_of_estimates(tmp_path: Path) -> None:
    log = pr.datasets.click_log(60, 5, sessions=4).with_columns(
        label=pr.clicks.inverse_propensity()
    )
    log.sink_parquet(tmp_path / "log.parquet")
    (tmp_path / "options.toml").write_text('cluster = "query"\n')
    command = ["estimate", tmp_path / "log.parquet", "-m", "dcg@3", "--query", "session"]
    command += ["--score", "new", "--format", "json", "--normalize", "ips"]
    wanted = pr.clicks.estimate(
        log, "dcg@3", normalize="ips", cluster="query", query="session", score="new"
    ).collect()
    config = ["--config", tmp_path / "options.toml"]
    for arguments in ([*command, "--cluster", "query"], [*config, *command]):
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        assert json.loads(out)[0] == pytest.approx(wanted.row(0, named=True))


def test_differences_of_estimates(tmp_path: Path) -> None:
    log = pr.datasets.click_log(60, 5, sessions=4).with_columns(
        label=pr.clicks.inverse_propensity()
    )
    log.sink_parquet(tmp_path / "log.parquet")
    rows = [
        log.with_columns(pl.col(name).alias("score"), ranker=k)
        for k, name in enumerate(["score", "new"])
    ]
    pl.concat(rows).sink_parquet(tmp_path / "rows.parquet")
    wanted = pr.clicks.estimate(
        log, "dcg@3", cluster="query", query="session", score=["score", "new"], baseline="score"
    ).collect()
    command = ["-m", "dcg@3", "--query", "session", "--cluster", "query", "--format", "json"]
    for arguments, run_of in (
        (["log.parquet", "--score", "score new", "--baseline", "score"], "run"),
        (["rows.parquet", "--run", "ranker", "--baseline", "0"], "ranker"),
    ):
        name, *others = arguments
        code, out, err = run("estimate", tmp_path / name, *others, *command)
        assert (code, err) == (0, "")
        row = json.loads(out)[0]
        assert row.pop(run_of) == {"run": "new", "ranker": 1}[run_of]
        assert row == pytest.approx(wanted.drop("run").row(0, named=True))


def test_positions_scores_weights_and_runs_of_other_queries(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "run": ["A", "A", "A", "B", "B"],
            "query": [1, 1, 2, 1, 1],
            "place": [1, 2, 1, 1, 2],
            "score": [0.5, 0.9, 0.1, 0.9, 0.5],
            "other": [0.9, 0.5, 0.1, 0.2, 0.1],
            "label": [0, 1, 1, 0, 1],
            "traffic": [3, 3, 1, 3, 3],
            "country": ["A", "A", "A", "B", "B"],
        }
    )
    frame.write_parquet(tmp_path / "log.parquet")

    def actual(*options: object) -> list[Any]:
        code, out, err = run(
            "evaluate", tmp_path / "log.parquet", "-m", "rr", "--format", "json", *options
        )
        assert (code, "Traceback" in err) == (0, False)
        return [row["rr"] for row in json.loads(out)]

    by_run = ["--by", "run", "--align"]
    assert actual(*by_run, "common") == [1, 1 / 2]
    assert actual(*by_run, "all") == [1, (1 / 2 + 0) / 2]
    assert actual(*by_run, "common", "--position", "place") == [1 / 2, 1 / 2]
    assert actual(*by_run, "common", "--score=-score") == [1 / 2, 1]
    by_run = ["--by", "run", "--align", "all"]
    assert actual(*by_run, "--position", "place") == [(1 / 2 + 1) / 2, (1 / 2 + 0) / 2]
    assert actual("--weight", "traffic", "--position", "place", "--by", "country") == [
        (3 / 2 + 1) / 4,
        1 / 2,
    ]
    frame.filter(run="A").drop("run").write_parquet(tmp_path / "log.parquet")
    assert actual("--score", "score other") == [1, (1 / 2 + 1) / 2]
    assert actual("--label", "place label") == [1, 1]  # all places are 1 or more
    _, out, _ = run("per-query", tmp_path / "log.parquet", "-m", "rr", "--keep", "traffic",
                    "--format", "csv")  # fmt: skip
    assert out.splitlines() == ["query,traffic,rr", "1,3,1.0", "2,1,1.0"]


def test_choices_are_those_of_the_library() -> None:
    shown = invoke("evaluate", "--help", env={"COLUMNS": "300", "TERM": "dumb"}).stdout
    for choices in (Ties, Duplicates, Undefined, QuerySet, Unjudged, Layout, Negative, Align):
        assert f"[choices: {', '.join(get_args(choices))}]" in shown


def test_trec_files(tmp_path: Path) -> None:
    qrels, trec_run = tmp_path / "qrels", tmp_path / "bm25.run"
    qrels.write_text("q1 0 a 1\nq1 0 b 0\nq2 0 a 2\n")
    trec_run.write_text("q1 Q0 b 1 2.0 bm25\nq1 Q0 a 2 1.0 bm25\nq2 Q0 a 1 1.0 bm25\n")
    expected = {"run": "bm25", "queries": 2, "rr": (1 / 2 + 1) / 2}
    _, out, _ = run("evaluate", trec_run, "--qrels", qrels, "-m", "rr", "--format", "json")
    assert json.loads(out) == [expected]
    long = tmp_path / "long.parquet"
    assert run("convert", trec_run, "--qrels", qrels, "-o", long)[0] == 0
    assert pr.evaluate(pl.read_parquet(long), "rr", by="run").to_dicts() == [expected]
    qrels.write_text("q1 0 a 1\nq1 0 b -1\nq2 0 a 2\n")
    sources = [trec_run, "--qrels", qrels]
    arguments = ["evaluate", *sources, "-m", "ndcg", "--format", "json"]
    actual = {
        word: json.loads(run(*arguments, "--negative", word)[1])[0]["ndcg"]
        for word in ("unjudged", "keep")
    }
    gain = 1 / math.log2(3)  # of a, at rank 2 of q1
    # Kept, the gain of b is -1, at rank 1 and in the ideal list at rank 2.
    kept = (gain - 1) / (1 - gain)
    assert actual == pytest.approx({"unjudged": (gain + 1) / 2, "keep": (kept + 1) / 2})
    assert json.loads(run(*arguments)[1])[0]["ndcg"] == actual["unjudged"]  # as of trec_eval
    for word, label in (("unjudged", None), ("keep", -1)):
        run("convert", *sources, "-o", long, "--negative", word, "--overwrite")
        assert pl.read_parquet(long).filter(query="q1", doc="b")["label"].item() == label
    alone = tmp_path / "judgments.parquet"
    assert run("convert", "-o", alone, "--qrels", qrels)[0] == 0
    assert pl.read_parquet(alone).columns == ["query", "doc", "label"]


def test_fuse(tmp_path: Path) -> None:
    log = pr.datasets.search_log(30, runs=["a", "b"]).sort("query").collect()
    log.write_parquet(tmp_path / "log.parquet")
    source, output = tmp_path / "log.parquet", tmp_path / "fused.parquet"
    method = "rrf(k=10, weights={'a': 1, 'b': 2.5})"
    assert run("fuse", source, "-o", output, "--method", method, "--keep-runs")[0] == 0
    expected = pr.fuse(log, method, keep_runs=True)
    assert pl.read_parquet(output).equals(expected)
    for method, message in (
        ("rrf(a)", "invalid parameters in 'rrf(a)'; write them like \"rrf(k=60)\""),
        ("rrf(weights={'a': 1, 'b': 1, 'c': 1})", "run 'c' (`weights`) not found in column 'run'"),
    ):
        arguments = ["fuse", source, "-o", tmp_path / "none.parquet", "--method", method]
        code, _, err = run(*arguments)
        assert (code, message in err) == (2, True), err
    runs = [tmp_path / "bm25.run", tmp_path / "dense.run"]
    runs[0].write_text("q1 Q0 x 1 2.0 bm25\nq1 Q0 y 2 1.0 bm25\n")
    runs[1].write_text("q1 Q0 y 1 0.9 dense\n")
    assert run("fuse", *runs, "-o", output, "--overwrite")[0] == 0
    assert pl.read_parquet(output).select("doc", "score").rows() == [
        ("y", 1 / 62 + 1 / 61),
        ("x", 1 / 61),
    ]
    assert not (tmp_path / "none.parquet").exists()


def test_tune_fusion(tmp_path: Path) -> None:
    log = pr.datasets.search_log(30, runs=["a", "b"]).collect()
    source, output = tmp_path / "log.parquet", tmp_path / "tuned.parquet"
    log.write_parquet(source)
    options = ["--step", "0.5", "--folds", "3", "--cluster", "country", "--undefined", "skip"]
    arguments = ["tune-fusion", source, "-m", "ndcg@5", "-o", output, "--overwrite"]
    with warnings.catch_warnings(action="ignore"):  # of few countries
        assert run(*arguments, *options)[0] == 0
        skipping = pr.Conventions(undefined="skip")
        expected = pr.tune_fusion(
            log, "ndcg@5", step=0.5, folds=3, cluster="country", conventions=skipping
        )
    assert_frame_equal(pl.read_parquet(output), expected)
    methods = ["--candidates", "rrf(k=1)", "--candidates", "borda"]
    assert run(*arguments, *methods, "--curve")[0] == 0
    assert pl.read_parquet(output)["method"].to_list() == ["rrf(k=1)", "borda"]
    equal = ["--candidates", "rrf", "--candidates", "rrf(k=60)"]
    _, shown, _ = run(*arguments[:4], *equal, "--folds", 2, "--format", "csv")
    assert pl.read_csv(shown.encode())["by_fold"][0] == "rrf; rrf"
    for options, message in (
        (["--candidates", "x"], "`--candidates`: `method` must be one of 'rrf'"),
        (["--step", "0.3"], "`--step` must divide 1"),
        (["--run", ""], "`--run` must be the name of a column; found None"),
        (["--run", "model"], "column 'model' (`--run`) not found"),
    ):
        code, _, err = run(*arguments, *options)
        assert (code, message in err) == (2, True), err


def test_malformed_trec_file(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 a 1\nq1 0 b\n")
    code, _, err = run("convert", "-o", tmp_path / "out.parquet", "--qrels", tmp_path / "qrels")
    assert (code, [file.name for file in tmp_path.iterdir()]) == (2, ["qrels"])
    assert "line 2" in err


def test_generate_writes_search_log(tmp_path: Path) -> None:
    output = tmp_path / "log.parquet"
    code, _, _ = run(
        "generate", output, "--queries", 30, "--docs-per-query", 5, "--runs", 3, "--seed", 9
    )
    assert code == 0
    assert_frame_equal(pl.read_parquet(output), search_log(30, 5, runs=3, seed=9).collect())


def test_all_metrics_are_listed() -> None:
    table = listing.list_metrics()
    assert table["metric"].to_list() == sorted(REGISTER)
    listed = table["aliases"].explode(empty_as_null=False).str.split(" = ").list.first()
    assert sorted(listed) == sorted(ALIASES)
    assert all(text.endswith(".") for text in table["definition"])
    code, out, _ = run("metrics")
    assert code == 0
    assert len(out.splitlines()) == 1 + len(REGISTER)
    assert json.loads(run("metrics", "--format", "json")[1])[0]["metric"] == min(REGISTER)


def test_version() -> None:
    code, out, _ = run("--version")
    assert code == 0
    assert out[0].isdigit()


@pytest.mark.parametrize("package", ["click", "rich"])
def test_without_the_extra(tmp_path: Path, package: str) -> None:
    (tmp_path / f"{package}.py").write_text(f"raise ModuleNotFoundError(name={package!r})")
    process = start("--version", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    _, err = process.communicate()
    assert process.returncode == 2
    assert "pip install 'polars_rank[cli]'" in err
    assert "Traceback" not in err


@pytest.fixture(scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "log.parquet"
    part = search_log(2_500, 20).collect()
    parts = (part.with_columns(pl.col("query") + 2_500 * number) for number in range(5))
    pl.concat(parts).sort("run", "query").write_parquet(path)  # half a million rows
    return path


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("layout", "sent"),
    [("sorted", "SIGTERM"), ("shuffled", "SIGINT"), ("shuffled", "SIGHUP")],
)
def test_signals(large_log: Path, tmp_path: Path, layout: str, sent: str) -> None:
    spill, output = tmp_path / "spill", tmp_path / "lists.parquet"
    spill.mkdir()
    process = start(
        "per-query",
        large_log,
        "--by",
        "run",
        "-o",
        output,
        "-m",
        "ndcg@10 ap rr",
        "--layout",
        layout,
        "--memory",
        "10MB",
        env={**os.environ, "TMPDIR": str(spill)},
        # A machine may run its tests with signals ignored, which children inherit.
        preexec_fn=lambda: signal.signal(signal.Signals[sent], signal.SIG_DFL),
    )
    parts = [tmp_path, *([spill] if layout == "shuffled" else [])]
    while process.poll() is None and not all(_busy(folder) for folder in parts):
        time.sleep(0.01)
    process.send_signal(signal.Signals[sent])
    out, err = process.communicate(timeout=60)
    assert process.returncode == {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}[sent]
    assert (out, err) == ("", "Interrupted; nothing was written.\n")
    assert [file.name for file in tmp_path.iterdir()] == ["spill"]
    assert [*spill.iterdir()] == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_ignored_hangup_is_ignored(log: Path, tmp_path: Path) -> None:
    """As by `nohup`."""
    process = start(
        "evaluate", log, "-m", "rr", "--by", "run", "--format", "json",
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    while process.poll() is None:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert len(json.loads(out)) == 2


def _busy(folder: Path) -> bool:
    """Whether a run has begun to write its output or its temporary files."""
    return any(file.name.endswith(".part") for file in folder.iterdir()) or any(
        folder.glob("polars_rank-*/polars_rank-*/*")
    )


def test_metrics_are_split_as_in_python(log: Path) -> None:
    code, out, _ = run(
        "evaluate", log, "--metrics", "P_5,10 ndcg@[5, 10], utility_2,-1,0,0", "--format", "csv",
        "--by", "run",
    )  # fmt: skip
    assert code == 0
    header = out.splitlines()[0]
    assert header == 'run,queries,P_5,P_10,ndcg@5,ndcg@10,"utility_2,-1,0,0"'
