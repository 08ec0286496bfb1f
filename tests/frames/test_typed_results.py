"""Tables of results that come back from files with other types."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

LOG = pr.datasets.search_log(400, runs=["a", "b"], seed=3).collect()
VALUES = pr.per_query(LOG, ["ndcg@10", "rr"], by="run", keep="country")
SUMMARY = pr.summarize(VALUES)
DAY = pl.date(2026, 1, 1 + pl.col("query") % 4)
COMPARISON = pr.compare(VALUES, baseline="a")
SLICES = pr.compare(VALUES, "rr", slices="country", baseline="a", min_queries=30)


def from_files(table: pl.DataFrame) -> list[Any]:
    """Return the table as it comes back from CSV files and from pandas."""
    as_text = pl.read_csv(io.StringIO(table.write_csv()), infer_schema=False)
    guessed = pl.read_csv(io.StringIO(table.write_csv()))
    return [as_text, as_text.lazy(), guessed, as_text.to_pandas()]


def test_rules_about_results_from_files() -> None:
    for table, rules in (
        (SUMMARY, ["rr > 0", "queries >= 400", "ndcg@10 >= 0.99"]),
        (COMPARISON, ["difference(rr) >= -0.5", "wins(rr) >= 1", "p_value(rr) < 0.5"]),
        (SLICES, ["difference(rr) >= -0.1 where(country=US)"]),
    ):
        expected = pr.check(table, rules, on_fail="return")
        for again in from_files(table):
            assert_frame_equal(pr.check(again, rules, on_fail="return"), expected)


@pytest.mark.parametrize("write", [pr.stats.write_markdown, pr.stats.write_junit])
def test_verdicts_from_files(tmp_path: Path, write: Callable[..., None]) -> None:
    rules = ["rr > 0 where(run=a)", "rr > 9", "queries > 1"]
    verdicts = pr.check(SUMMARY, rules, on_fail="return")
    write(verdicts, tmp_path / "expected")
    for number, again in enumerate(from_files(verdicts)):
        write(again, tmp_path / str(number))
        assert (tmp_path / str(number)).read_text("utf-8") == (tmp_path / "expected").read_text(
            "utf-8"
        )


def test_charts_of_results_from_files() -> None:
    """Other charts: tests/plot."""
    needs.package("altair", "plot")
    of_days = pr.summarize(VALUES.with_columns(day=DAY), "rr", by="day")
    bands = pr.diagnostics.tie_bands(LOG, "rr", by="run")
    for draw, table in (("intervals", COMPARISON), ("bounds", bands), ("over_time", of_days)):
        function = getattr(pr.plot, draw)
        expected = function(table).to_dict(validate=False)
        for again in from_files(table):
            assert function(again).to_dict(validate=False) == expected


RULES = ["rr > 0"]
BAD: list[tuple[Callable[[pl.DataFrame], object], dict[str, Any], type[Exception], str]] = [
    (lambda table: pr.check(table, RULES), {"mean": pl.lit("high")}, pr.errors.SchemaError,
     r"column 'mean' \(`result`\) must have numbers; found String, e.g. 'high'; cast"),
    (lambda table: pr.check(table, RULES), {"low": pl.concat_list("low")}, pr.errors.SchemaError,
     r"column 'low' \(`result`\) must have numbers; found List\(Float64\); cast"),
    (lambda table: pr.check(table, RULES), {"queries": None}, pr.errors.DataError,
     r"column 'queries' \(`result`\) is null \(rows: 4; the first: "),
    (lambda table: pr.check(table, RULES), {"queries": 2.5}, pr.errors.SchemaError,
     r"column 'queries' \(`result`\) must have whole numbers; found Float64, e.g. 2.5"),
    (lambda table: pr.plot.intervals(table), {"low": pl.lit("low")}, pr.errors.SchemaError,
     r"column 'low' \(`table`\) must have numbers; found String, e.g. 'low'"),
]  # fmt: skip


def test_other_tables_are_errors() -> None:
    for call, columns, error, message in BAD:
        with pytest.raises(error, match=message):
            call(SUMMARY.with_columns(**columns))


@pytest.mark.parametrize("write", [pr.stats.write_markdown, pr.stats.write_junit])
def test_other_verdicts_are_errors(tmp_path: Path, write: Callable[..., None]) -> None:
    verdicts = pr.check(SUMMARY, ["rr > 0"], on_fail="return")
    with pytest.raises(pr.errors.DataError, match="'verdict' one of 'fail', 'undecided', 'pass'"):
        write(verdicts.with_columns(verdict=pl.lit("passed")), tmp_path / "a")
    with pytest.raises(pr.errors.SchemaError, match=r"column 'high' \(`verdicts`\) must have numb"):
        write(verdicts.with_columns(high=pl.lit("x")), tmp_path / "a")
    assert not (tmp_path / "a").exists()
