"""Baselines that were truncated or edited by hand, and margins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

needs.package("scipy", "stats")

GOLDEN = pl.DataFrame({"query": ["a", "b"], "doc": ["d1", "d2"], "label": 1})
RESULTS = pl.DataFrame({"query": ["a", "b", "b"], "doc": ["d1", "x", "d2"], "score": [3.0, 2, 1]})


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Return the baseline of the results."""
    path = tmp_path / "baseline.jsonl"
    pr.gate(GOLDEN, RESULTS).write_baseline(path)
    return path


def change(path: Path, line: int, **values: Any) -> None:
    """Change the values of a line."""
    lines = path.read_text("utf-8").splitlines()
    lines[line] = json.dumps(json.loads(lines[line]) | values)
    path.write_text("\n".join(lines), "utf-8")


@pytest.mark.parametrize(
    ("line", "values", "text"),
    [
        (0, {"metrics": ["mrr@10"]}, "keys"),
        (0, {"accepted": 3}, "iterable"),
        (0, {"queries": 3}, "line 1 says 3 queries, but there are 2"),
        (1, {"values": {"mrr@10": float("nan")}}, "NaN"),
    ],
)
def test_values_that_gate_does_not_write(
    baseline: Path, line: int, values: dict[str, Any], text: str
) -> None:
    change(baseline, line, **values)
    with pytest.raises(pr.errors.DataError, match=f"is not a baseline: .*{text}"):
        pr.gate(GOLDEN, RESULTS, baseline)


@pytest.mark.parametrize("version", [2, 0, "1", None])
def test_a_later_version_of_the_format(baseline: Path, version: object) -> None:
    change(baseline, 0, format_version=version, metrics=None)
    message = f"has the format_version {version!r}, .* up to 1; .*--upgrade.* --update-baseline"
    with pytest.raises(pr.errors.DataError, match=message):
        pr.gate(GOLDEN, RESULTS, baseline)


@pytest.mark.parametrize("line", ['"query judged values docs"', "3", "[" * 100_000])
def test_lines_that_are_no_objects(baseline: Path, line: str) -> None:
    baseline.write_text(baseline.read_text("utf-8") + line, "utf-8")
    with pytest.raises(pr.errors.DataError, match="line 4 is not a JSON object"):
        pr.gate(GOLDEN, RESULTS, baseline)


def test_a_truncated_baseline_is_an_error(baseline: Path) -> None:
    text = baseline.read_text("utf-8").splitlines()
    baseline.write_text("\n".join(text[:-1]), "utf-8")
    with pytest.raises(pr.errors.DataError, match="says 2 queries, but there are 1"):
        pr.gate(GOLDEN, RESULTS, baseline)


def test_an_editor_may_add_a_byte_order_mark(baseline: Path) -> None:
    baseline.write_text(baseline.read_text("utf-8"), "utf-8-sig")
    assert pr.gate(GOLDEN, RESULTS, baseline).passed


def test_a_date_in_the_future(baseline: Path) -> None:
    change(baseline, 0, date="2999-01-01")
    assert "written on 2999-01-01" in pr.gate(GOLDEN, RESULTS, baseline).notes[-1]


def test_a_blank_reason_accepts_no_loss(tmp_path: Path) -> None:
    gate = pr.gate(GOLDEN, RESULTS, floors={"mrr@10": 1})
    with pytest.raises(pr.errors.GateFailed):
        gate.write_baseline(tmp_path / "baseline.jsonl", accept_loss="  ")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("margin", [{"ndgc@10": 0.1}, {"low": {"ndcg@10": 0.1}}])
def test_margins_are_numbers_by_metric(margin: dict[str, Any]) -> None:
    with pytest.raises(pr.errors.ArgumentError, match="`margin` has numbers by metric"):
        pr.gate(GOLDEN, RESULTS, margin=margin)


def test_queries_without_an_answer_alone_can_be_a_baseline(tmp_path: Path) -> None:
    judged = GOLDEN.with_columns(doc=pl.lit(None, pl.String), label=None)
    found = RESULTS.with_columns(doc=pl.when(query="b").then("doc"))
    gate = pr.gate(judged, found)
    assert gate.warnings == []
    gate.write_baseline(tmp_path / "baseline.jsonl")
    assert pr.gate(judged, found, tmp_path / "baseline.jsonl").passed
