"""Baselines that were truncated or edited by hand, and margins."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from rows import check_each

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


def change(path: Path, **values: Any) -> None:
    """Change values of line 1, and the checksum, which is described on the page on formats."""
    head, *rows = map(json.loads, path.read_text("utf-8").splitlines())
    head.update(values)
    del head["checksum"]
    text = "\n".join(map(json.dumps, [head, *rows]))
    head["checksum"] = hashlib.sha256(text.encode()).hexdigest()[:16]
    path.write_text("\n".join(map(json.dumps, [head, *rows])), "utf-8")


def test_versions_and_dates_of_the_future(baseline: Path) -> None:
    change(baseline, date="2999-01-01")
    assert "written on 2999-01-01" in pr.gate(GOLDEN, RESULTS, baseline).notes[-1]
    for version in (3, 0, "1", None):
        change(baseline, format_version=version, metrics=None)
        message = f"has the format_version {version!r}, .* up to 2; .*--upgrade.* --update-baseline"
        with pytest.raises(pr.errors.DataError, match=message):
            pr.gate(GOLDEN, RESULTS, baseline)


MANY = pl.DataFrame({"query": [f"q{n:02}" for n in range(40)], "doc": "d", "label": 1})
FOUND = pl.concat(
    MANY.select("query", doc=pl.lit(doc), score=score) for doc, score in (("d", 1.0), ("x", 0.0))
)
#: The first 20 queries lost their document.
LOST = FOUND.filter(~((pl.col("query") < "q20") & (pl.col("doc") == "d")))


def test_a_baseline_that_was_edited_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    pr.gate(MANY, FOUND).write_baseline(path)
    assert not pr.gate(MANY, LOST, path).passed
    head, *rows = map(json.loads, path.read_text("utf-8").splitlines())
    nulls = [row | {"values": dict.fromkeys(METRICS)} for row in rows[:20]]
    old = {key: value for key, value in head.items() if key != "checksum"} | {"format_version": 1}

    def check(edit: str, *lines: dict[str, Any]) -> None:
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        with pytest.raises(pr.errors.DataError, match="is not a baseline: .* restore it, or del"):
            pr.gate(MANY, LOST, path)

    check_each(check, [
        ("labels", head, rows[0] | {"judged": "00000000"}, *rows[1:]),
        ("a query", head, *rows[:-1], rows[-1] | {"query": "q99"}),
        ("values", head, *nulls, *rows[20:]),
        ("documents", head, rows[0] | {"docs": ["x"]}, *rows[1:]),
        ("a key", head, {"query": "q00", "judged": ""}, *rows[1:]),
        ("lines removed", head | {"queries": 20}, *rows[20:]),
        ("lines duplicated", head, *rows, rows[-1]),
        ("lines swapped", head, rows[1], rows[0], *rows[2:]),
        ("the head", head | {"accepted": [{"reason": "none"}]}, *rows),
        ("the checksum", head | {"checksum": ""}, *rows),
        ("an earlier version", old, *rows),
    ])  # fmt: skip


def test_texts_that_are_no_baseline(baseline: Path) -> None:
    text = baseline.read_text("utf-8")

    def check(text: str, message: str) -> None:
        baseline.write_text(text, "utf-8")
        with pytest.raises(pr.errors.DataError, match=message):
            pr.gate(GOLDEN, RESULTS, baseline)

    no_object = "line 4 is not a JSON object"
    cut_off = "edited or cut off, as the 'checksum'"
    ends = ('"query judged values docs"', "3", "[" * 100_000)
    starts = ("", "[]", '{"query": "a"}', '{"polars_rank": "1"}', "no json")
    check_each(check, [
        *((text + end, no_object) for end in ends),
        *((start, "is not a baseline: line 1") for start in starts),
        ("\n".join(text.splitlines()[:-1]), cut_off),
    ])  # fmt: skip


def test_other_spaces_ends_of_lines_and_a_mark_are_no_edits(baseline: Path) -> None:
    """Git on Windows, formatters and editors may change them."""
    lines = [json.loads(line) for line in baseline.read_text("utf-8").splitlines()]
    text = "\r\n".join(json.dumps(line, separators=(",", ":")) for line in lines) + "\r\n\r\n"
    baseline.write_text(text, "utf-8-sig", newline="")
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


def test_what_a_baseline_is_read_from() -> None:
    with pytest.raises(pr.errors.SourceError, match="cannot read the baseline 'nowhere.jsonl'"):
        pr.gate(GOLDEN, RESULTS, "nowhere.jsonl")
    with pytest.raises(pr.errors.ArgumentError, match="`baseline` must be a path; found 3"):
        pr.gate(GOLDEN, RESULTS, 3)


def test_reasons_for_a_loss(tmp_path: Path) -> None:
    path, rules = tmp_path / "baseline.jsonl", {"floors": {"mrr@10": 1}}
    gate = pr.gate(GOLDEN, RESULTS, **rules)
    for reason in (None, "  "):
        with pytest.raises(pr.errors.GateFailed, match="because 1 rule failed"):
            gate.write_baseline(path, accept_loss=reason)
    assert not [*tmp_path.iterdir()]
    gate.write_baseline(path, accept_loss="caf\udce9")  # a byte that is not UTF-8
    (loss,) = json.loads(path.read_text("utf-8").split("\n")[0])["accepted"]
    assert (loss["reason"], loss["failed"]) == ("caf\udce9", gate.failed)
    assert pr.gate(GOLDEN, RESULTS, path).passed


def test_queries_without_an_answer_alone_can_be_a_baseline(tmp_path: Path) -> None:
    judged = GOLDEN.with_columns(doc=pl.lit(None, pl.String), label=None)
    found = RESULTS.with_columns(doc=pl.when(query="b").then("doc"))
    gate = pr.gate(judged, found)
    assert gate.warnings == []
    gate.write_baseline(tmp_path / "baseline.jsonl")
    assert pr.gate(judged, found, tmp_path / "baseline.jsonl").passed
