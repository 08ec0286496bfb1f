"""Ways to Spark: the example, the command, and errors if Spark is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from commands import run
import polars as pl
import polars_rank as pr
import pytest
from spark.logs import log, on_spark, same
from polars.testing import assert_frame_equal
from polars_rank.spark import sessions

pytestmark = pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers")

LOG = log()
ROOT = Path(__file__).parents[2]


def test_the_example(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / "on_spark.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("neural") >= 2


def test_the_command(spark: Any, tmp_path: Path) -> None:
    """In this process, which already has a session; `test_elsewhere` starts a new one."""
    log = pr.datasets.search_log(100, runs=["a", "b"]).collect()
    log.write_parquet(tmp_path / "log.parquet")
    bad = pl.when(pl.col("query") == 3).then(float("nan")).otherwise("score").alias("score")
    log.with_columns(bad).write_parquet(tmp_path / "bad.parquet")
    options = ["-m", "ndcg@10 ap", "--by", "run", "--format", "csv"]
    options += ["--engine", "spark", "--master", "local[2]"]
    code, out, err = run("evaluate", tmp_path / "log.parquet", *options)
    assert code == 0, err
    here = pr.evaluate(log, ["ndcg@10", "ap"], by="run")
    assert_frame_equal(pl.read_csv(out.encode()), here, check_dtypes=False)

    code, out, err = run("evaluate", tmp_path / "bad.parquet", *options)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("Error: ")
    assert "rows: column 'score' (`--score`) has NaN or infinite values" in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_log_that_spark_does_not_find(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(pr.errors.SourceError, match="Spark cannot read nowhere.*not.* found"):
        sessions.read(spark, ["nowhere"])
    with pytest.raises(pr.errors.SourceError, match="Spark cannot read .*does not exist"):
        sessions.read(spark, [str(tmp_path / "nothing.parquet")])
    with pytest.raises(pr.errors.SourceError, match="one table, or Parquet files"):
        sessions.read(spark, ["a", "b.parquet"])


def test_masters_and_servers_that_there_are_not() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="invalid Spark master 'nowhere'.*sc://"):
        sessions.session("nowhere")
    with pytest.raises(
        pr.errors.SourceError, match="'sc://127.0.0.1:1' does not respond: no connection"
    ):
        sessions.session("sc://127.0.0.1:1", timeout=1)


def test_sessions_do_not_measure_every_row(spark: Any) -> None:
    for name in sessions.FASTER:
        spark.conf.unset(name)
    made = sessions.session("local[1]")
    assert all(made.conf.get(name) == value for name, value in sessions.FASTER.items())


def test_what_spark_says_of_files_and_masters() -> None:
    told = "An error occurred while calling o1.parquet.\n: SparkException: no footer\n\tat a.B"
    assert sessions._reason(RuntimeError(told)) == "SparkException: no footer"
    assert sessions._reason(RuntimeError()) == "RuntimeError"


def test_errors_of_workers_are_ours_again(spark: Any) -> None:
    twice = spark.range(4).selectExpr("1 as query", "id % 3 as doc", "id as score", "1 as label")
    with pytest.raises(
        pr.errors.DataError, match="^column 'doc' .*has duplicates.*1 document more"
    ) as found:
        sessions.fetched(pr.evaluate(twice, "ap"))
    assert "Traceback" not in str(found.value)
    with pytest.raises(pr.errors.SourceError, match="Spark failed: .*DIVIDE_BY_ZERO"):
        sessions.fetched(spark.range(3).selectExpr("1 / (id - 1) as x"))


def test_the_table_by_name(spark: Any) -> None:
    rows = on_spark(spark, LOG)
    options = {"by": "run"}
    same(pr.evaluate(LOG, "ap", **options), pr.evaluate(rows, metrics="ap", **options))


def test_tables_of_spark_among_others(spark: Any) -> None:
    rows = on_spark(spark, LOG)
    with pytest.raises(
        pr.errors.ArgumentError, match="`judgments` is a Spark DataFrame, but `rankings` is"
    ):
        pr.join_judgments(LOG.drop("label"), rows)
    with pytest.raises(pr.errors.ArgumentError, match="must be a table; found list"):
        pr.evaluate([rows, rows], "ap")


def test_columns_of_types_that_are_not_sent(spark: Any) -> None:
    row = "1 as query, 1 as doc, 1.0 as score, 1 as label"
    for value in ("interval 1 month", "make_interval(1, 2)"):
        rows = spark.sql(f"select {row}, {value} as wait")
        with pytest.raises(
            pr.errors.SchemaError, match=r"column 'wait' has the type interval.*; drop it"
        ):
            pr.evaluate(rows, "rr")
    with pytest.raises(
        pr.errors.SchemaError, match=r"'m' \(`by`\) must have one id.*a column of ids"
    ):
        pr.evaluate(spark.sql(f"select {row}, map('a', 1) as m"), "rr", by="m")


def test_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(pr.errors.MissingExtraError, match="apt-get install default-jre-headless"):
        sessions.session("local[1]")


def test_without_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(pr.errors.MissingExtraError, match=r"pip install 'polars_rank\[spark\]'"):
        sessions.session("local[1]")


def test_errors_of_workers_have_their_parameters(spark: Any) -> None:
    log = pr.datasets.search_log(5).drop("run").collect()
    with pytest.raises(pr.errors.DataError, match="has duplicates: ") as caught:
        sessions.fetched(pr.evaluate(on_spark(spark, log), "rr"))
    assert caught.value.parameters == ("doc", "run", "by", "query", "duplicates")


def test_errors_are_read_from_the_reports_of_spark() -> None:
    class Failing:
        def toArrow(self) -> None:  # noqa: N802
            text = "add the run to `by`, or set `duplicates`; e.g. {'query': '`label`'}"
            report = f"polars_rank.errors.DataError: {text}\n\nJVM stacktrace:\n..."
            raise RuntimeError(report)

    with pytest.raises(pr.errors.DataError, match="'`label`'}$") as caught:
        sessions.fetched(Failing())  # type: ignore[arg-type]
    assert caught.value.parameters == ("by", "duplicates")
