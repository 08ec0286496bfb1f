"""The example for Spark, and tables and columns that Spark does not accept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import polars_rank as pr
import pytest
from spark.logs import log, on_spark, same

pytestmark = pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers")

LOG = log()
ROOT = Path(__file__).parents[2]


def test_the_example(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", str(ROOT / "examples" / "on_spark.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("neural") >= 2


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
