"""Baselines that were truncated or edited by hand, and margins."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

needs.package("scipy", "stats")

GOLDEN = pl.DataFrame({"query": ["a", "b"], "doc": ["d1", "d2"], "label": 1})
RESULTS = pl.DataFrame({"query": ["a", "b", "b"], "doc": ["d1", "x", "d2"], "score": [3.0, 2, 1]})
METRICS = ["recall@5", "recall@10", "full_recall@10", "mrr@10", "ndcg@10", "hit_rate@5"]


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Return the baseline of the results."""
    path = tmp_path / "baseline.jsonl"
    pr.gate(GOLDEN, RESULTS).write_baseline(path)
    return path


def change(path: Path, line: int, **values: Any) -> None:
    """Change the values of a line, and the checksum, which is described on the page on formats."""
    head, *rows = map(json.loads, path.read_text("utf-8").splitlines())
    [head, *rows][line].update(values)
    del head["checksum"]
    text = "\n".join(map(json.dumps, [head, *rows]))
    head["checksum"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    path.write_text("\n".join(map(json.dumps, [head, *rows])), "utf-8")


@pytest.mark.parametrize("version", [3, 0, "1", None])
def test_a_later_version_of_the_format(baseline: Path, version: object) -> None:
    change(baseline, 0, format_version=version, metrics=None)
    message = f"has the format_version {version!r}, .* up to 2; .*--upgrade.* --update-baseline"
    with pytest.raises(pr.errors.DataError, match=message):
        pr.gate(GOLDEN, RESULTS, baseline)


MANY = pl.DataFrame({"query": [f"q{n:02}" for n in range(40)], "doc": "d", "label": 1})
FOUND = pl.concat(MANY.select("query", doc=pl.lit(doc), score=score) for doc, score in (("d", 1.0), ("x", 0.0)))  # fmt: skip
#: The first 20 queries lost their document.
LOST = FOUND.filter(~((pl.col("query") < "q20") & (pl.col("doc") == "d")))

Lines = list[dict[str, Any]]


def head(**values: Any) -> Callable[[Lines], Lines]:
    """Return a function that changes line 1."""
    return lambda lines: [lines[0] | values, *lines[1:]]


def lost(**values: Any) -> Callable[[Lines], Lines]:
    """Return a function that changes the lines of the queries that lost."""
    return lambda lines: [lines[0], *(line | values for line in lines[1:21]), *lines[21:]]


#: What may happen to the lines of a baseline.
EDITS: dict[str, Callable[[Lines], Lines]] = {
    "judged": lost(judged="00000000"),
    "query": lambda lines: [*lines[:-1], lines[-1] | {"query": "q99"}],
    "values deleted": lost(values={}),
    "values null": lost(values=dict.fromkeys(METRICS)),
    "values lower": lost(values=dict.fromkeys(METRICS, 0.0)),
    "docs": lost(docs=["x"]),
    "a key": lambda lines: [lines[0], {"query": "q00", "judged": ""}, *lines[2:]],
    "lines removed": lambda lines: [lines[0], *lines[21:]],
    "lines removed, and their number": lambda lines: [lines[0] | {"queries": 20}, *lines[21:]],
    "lines duplicated": lambda lines: [*lines, lines[-1]],
    "lines swapped": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "queries swapped": lambda lines: [
        lines[0], lines[1] | {"query": "q39"}, *lines[2:-1], lines[-1] | {"query": "q00"}
    ],
    "metrics": head(metrics={"mrr@10": "reciprocal_rank@10"}),
    "definitions": head(metrics=dict.fromkeys(METRICS, "other")),
    "golden": head(golden="0123456789abcdef"),
    "queries": head(queries=41),
    "date": head(date="2020-01-01"),
    "corpus": head(corpus="0123456789abcdef"),
    "accepted": head(accepted=[{"reason": "none"}]),
    "checksum": head(checksum=""),
    "an earlier version": lambda lines: [
        {key: value for key, value in lines[0].items() if key != "checksum"}
        | {"format_version": 1}, *lines[1:]
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Return the lines of a baseline with which the lost documents fail."""
    path = tmp_path_factory.mktemp("baseline") / "baseline.jsonl"
    pr.gate(MANY, FOUND).write_baseline(path)
    assert not pr.gate(MANY, LOST, path).passed
    return [*map(json.loads, path.read_text("utf-8").split("\n")[:-1])]


@pytest.mark.parametrize("edit", EDITS)
def test_a_baseline_that_was_edited_is_an_error(tmp_path: Path, lines: Lines, edit: str) -> None:
    path = tmp_path / "baseline.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in EDITS[edit](lines)), "utf-8")
    with pytest.raises(pr.errors.DataError, match="is not a baseline: .* restore it, or delete"):
        pr.gate(MANY, LOST, path)


def test_other_spaces_and_ends_of_lines_are_no_edits(baseline: Path) -> None:
    """Git on Windows, formatters and editors may change them."""
    lines = [json.loads(line) for line in baseline.read_text("utf-8").splitlines()]
    text = "\r\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\r\n\r\n"
    baseline.write_bytes(text.encode())
    assert pr.gate(GOLDEN, RESULTS, baseline).passed


def test_ids_may_have_separators_of_lines(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    separators = ["\n", "\r", "\x0b", "\x1c", "\x85", "\u2028", "\u2029"]
    judged = pl.DataFrame({"query": [f"{n}{each}a" for n, each in enumerate(separators)]})
    judged = judged.with_columns(doc=pl.format("d{}", "query"))
    found = pl.concat([
        judged.with_columns(score=1.0), judged.with_columns(doc=pl.lit("x"), score=0.0)
    ])  # fmt: skip
    pr.gate(judged, found).write_baseline(path)
    again = pr.gate(judged, found, path)
    assert again.queries["docs_before"].to_list() == [[doc, "x"] for doc in judged["doc"]]


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_baseline_is_a_regular_file(tmp_path: Path) -> None:
    """A pipe without a program that writes to it would never end."""
    gate = pr.gate(GOLDEN, RESULTS)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        with pytest.raises(pr.errors.SourceError, match="is not a regular file"):
            pr.gate(GOLDEN, RESULTS, path)
        with pytest.raises(pr.errors.SourceError, match="is not a regular file"):
            gate.write_baseline(path)


@pytest.mark.parametrize("line", ['"query judged values docs"', "3", "[" * 100_000])
def test_lines_that_are_no_objects(baseline: Path, line: str) -> None:
    baseline.write_text(baseline.read_text("utf-8") + line, "utf-8")
    with pytest.raises(pr.errors.DataError, match="line 4 is not a JSON object"):
        pr.gate(GOLDEN, RESULTS, baseline)


def test_a_truncated_baseline_is_an_error(baseline: Path) -> None:
    text = baseline.read_text("utf-8").splitlines()
    baseline.write_text("\n".join(text[:-1]), "utf-8")
    with pytest.raises(pr.errors.DataError, match="edited or cut off, as the 'checksum'"):
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


def test_a_reason_may_have_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    rules: dict[str, Any] = {"floors": {"mrr@10": 1}}
    pr.gate(GOLDEN, RESULTS, **rules).write_baseline(path, accept_loss="caf\udce9")
    assert (
        json.loads(path.read_text("utf-8").split("\n")[0])["accepted"][0]["reason"] == "caf\udce9"
    )
    assert pr.gate(GOLDEN, RESULTS, path).passed


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
