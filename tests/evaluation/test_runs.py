"""The column of runs: its default, and judged documents that no run retrieved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

#: "a" has x first, and y is relevant; "b" has y first.
LOG = pl.DataFrame({
    "run": ["a", "a", "b", "b"], "query": 1, "doc": [*"xyxy"], "score": [2.0, 1.0, 1.0, 2.0],
    "label": [0, 1, 0, 1],
})  # fmt: skip
#: z is relevant, and not retrieved.
MISSED = pl.DataFrame({"run": None, "query": 1, "doc": "z", "score": None, "label": 1}).cast(
    dict(LOG.schema)
)


def test_each_run_is_a_group_by_default() -> None:
    assert pr.evaluate(LOG, "rr").rows() == [("a", 1, 0.5), ("b", 1, 1.0)]
    by_day = pr.evaluate(LOG.with_columns(day=1), "rr", by="day")
    assert by_day.columns == ["day", "run", "queries", "rr"]
    assert_frame_equal(pr.evaluate(LOG, "rr", by="run"), pr.evaluate(LOG, "rr"))
    systems = LOG.rename({"run": "system"})
    assert pr.evaluate(systems, "rr", run="system").columns == ["system", "queries", "rr"]
    one = LOG.filter(run="b")
    assert pr.evaluate(one, "rr", run=None).rows() == [(1, 1.0)]
    assert pr.evaluate(one.drop("run"), "rr").rows() == [(1, 1.0)]
    with pytest.raises(pr.errors.SchemaError, match="column 'runn' .`run`. not found"):
        pr.evaluate(LOG, "rr", run="runn")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_judged_documents_without_a_run_belong_to_the_only_run(engine: Any, tmp_path: Path) -> None:
    log = pl.concat([LOG.filter(run="a"), MISSED])
    log.write_parquet(tmp_path / "log.parquet")
    for frame in (log.lazy(), pl.scan_parquet(tmp_path / "log.parquet")):
        means = pr.evaluate(frame, ["recall", "rr"]).collect(engine=engine)
        assert means.rows() == [("a", 1, 0.5, 0.5)]
        ranked = pr.rank(frame).collect(engine=engine)
        assert ranked["run"].to_list() == ["a"] * 3
    assert pr.per_query(log, "recall").rows() == [("a", 1, 2, 0.5)]
    assert pr.catalog.summary(log)["run"].to_list() == ["a"]


@pytest.mark.parametrize(
    "function",
    [
        lambda log: pr.evaluate(log, "rr"),
        lambda log: pr.per_query(log, "rr"),
        pr.rank,
        pr.pr_curve,
        pr.catalog.summary,
    ],
)
def test_judged_documents_without_a_run_are_an_error_if_there_are_several(function: Any) -> None:
    log = pl.concat([LOG, MISSED])
    for frame in (log, log.lazy()):
        with pytest.raises(pr.errors.DataError, match="'run' .`run`. is null for judged.*join_jud"):
            function(frame).lazy().collect()
