"""The command `inspect`: facts about a log, and invalid rows, which do not raise errors."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import run
from rows import check_each

Found = dict[tuple[str, str], tuple[str, str, str]]
FINE = pl.DataFrame({
    "run": ["A"] * 5 + ["B"] * 3, "query": [1, 1, 1, 2, 2, 1, 1, 1],
    "doc": [1, 2, 3, 1, 2, 1, 2, 3], "score": [0.9, 0.9, None, 0.5, 0.1, 0.3, 0.2, 0.1],
    "label": [0, 1, 2, 0, None, 0, 1, 2],
})  # fmt: skip
FIX = "after fixing the errors above"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def inspected(log: pl.DataFrame | str, *options: object) -> Found:
    """Return value, state and note of each part and what of it."""
    if isinstance(log, pl.DataFrame):
        log.write_parquet("log.parquet")
        log = "log.parquet"
    code, out, err = run("inspect", log, *options, "--format", "json")
    rows = json.loads(out)
    count = sum(row["state"] == "error" for row in rows)
    message = f"{count} error{'s' if count > 1 else ''} found\n"
    assert (code, err) == ((2, message) if count else (0, ""))
    return {(r["part"], r["what"]): (r["value"], r["state"], r["note"]) for r in rows}


def values(found: Found, part: str) -> dict[str, str]:
    return {what: value for (each, what), (value, _, _) in found.items() if each == part}


def errors(found: Found) -> dict[str, str]:
    return {what: note for (_, what), (_, state, note) in found.items() if state == "error"}


def next_works(found: Found) -> list[str]:
    """Run the next command, and return its words."""
    command, _, note = found["next", "command"]
    program, *words = shlex.split(command)
    code, _, err = run(*words)
    assert (program, note, code, "Error" in err) == ("polars-rank", "", 0, False), err
    return words


def test_a_log_by_hand() -> None:
    found = inspected(FINE)
    assert values(found, "columns") == {
        "run": "run: String", "query": "query: Int64", "doc": "doc: Int64",
        "score": "score: Float64", "label": "label: Int64",
    }  # fmt: skip
    size = {"rows": "8", "runs": "2", "queries of A": "2", "queries of B": "1"}
    assert values(found, "size") == size
    assert found["size", "runs"][1] == "note"  # different numbers of queries
    rankings = values(found, "rankings")
    assert rankings.pop("layout") == "sorted"
    assert {name.split()[0]: float(value) for name, value in rankings.items()} == {
        "shortest": 2, "median": 3, "mean": pytest.approx(8 / 3), "longest": 3
    }  # fmt: skip
    labels = {name: float(value) for name, value in values(found, "labels").items()}
    assert labels == pytest.approx({
        "share of 0": 3 / 8, "share of 1": 2 / 8, "share of 2": 2 / 8,
        "judged share": 6 / 7, "not retrieved": 1, "nothing relevant": 1,
    })  # fmt: skip
    ties = {name: float(value) for name, value in values(found, "ties").items()}
    assert ties == pytest.approx(
        {"share of tied rankings": 1 / 3, "share of tied documents": 2 / 7}
    )
    assert errors(found) == {}
    shuffled = inspected(FINE.sample(fraction=1, shuffle=True, seed=1))
    assert values(shuffled, "rankings")["layout"] == "shuffled"
    assert next_works(found) == shlex.split(
        "compare log.parquet --metrics 'ndcg@10 ap rr' --baseline A"
    )
    # For readers, values are rounded.
    FINE.write_csv("log.csv")
    code, out, _ = run("inspect", "log.csv")
    last = "Next: polars-rank compare log.csv --metrics 'ndcg@10 ap rr' --baseline A"
    assert (code, out.splitlines()[-1], "85.71%" in out, "2.667" in out) == (0, last, True, True)
    assert run("inspect", "log.csv", "-o", "log.txt")[0] == 0
    assert last in Path("log.txt").read_text("utf-8")


def test_labels() -> None:
    """0.7 is 0.699999988 in 32 bits."""
    labels = pl.Series("label", [0.7, 0.1] * 4, pl.Float32)
    for rel, note in ("0.7", "no label reaches --rel"), ("0.5", None):
        found = inspected(FINE.with_columns(labels), "--rel", rel)
        assert found.get(("labels", "relevant"), (None, None, None))[2] == note
        assert (found["labels", "share of 0.699999988079071"][2] == "relevant") == (note is None)
    many = pl.DataFrame({"query": range(40), "doc": 1, "score": 1.0, "label": range(40)})
    found = inspected(many.with_columns(pl.col("label") / 7), "--rel", 9)
    assert found["labels", "range"][::2] == (f"0.0 to {39 / 7}", "40 different labels")
    assert found["labels", "relevant"][:2] == ("0", "note")


def test_invalid_rows_are_counted() -> None:
    found = inspected(pl.DataFrame({
        "query": [1, 1, 1, 1, None, 2, 2, 2], "doc": [1, 1, 2, None, 5, 1, 2, 3],
        "score": [0.1, 0.2, math.nan, 0.3, 0.4, math.inf, 0.5, 0.6],
        "label": [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, math.nan, 1.0],
    }))  # fmt: skip
    assert values(found, "invalid") == {
        "null query": "1", "null doc": "1", "bad score": "2", "bad label": "1", "repeated": "1"
    }  # fmt: skip
    assert {*errors(found)} == {*values(found, "invalid")}
    command, _, note = found["next", "command"]
    assert (shlex.split(command)[-2:], note) == (["--duplicates", "max"], FIX)
    # The next command fixes what an option can fix.
    found = inspected(pl.concat([FINE.filter(run="A"), FINE.head(1)]).drop("run"))
    assert {*errors(found)} == {"repeated"}
    next_works(found)


def test_columns_of_other_names() -> None:
    """They are named in the command, which runs."""

    def check(names: dict[str, str], options: str) -> None:
        frame = FINE.filter(pl.col("score").is_not_null())
        if "rank" in names.values():
            frame = frame.with_columns(score=pl.col("score").rank("ordinal", descending=True))
        found = inspected(frame.rename(names), *options.split())
        assert values(found, "size")["rows"] == "7"
        assert next_works(found)[-len(options.split()) :] == options.split()

    check_each(check, [
        ({"query": "qid", "doc": "docno"}, "--query qid --doc docno"),
        ({"score": "s", "label": "g"}, "--score s --label g"),
        ({"score": "rank"}, "--position rank"),
        ({"run": "system"}, "--run system"),
    ])  # fmt: skip
    found = inspected(FINE.rename({"score": "cost"}), "--score=-cost")
    assert next_works(found)[-2:] == ["--score", "-cost"]


def test_columns_with_errors() -> None:
    def check(frame: Any, options: str, note: str) -> None:
        found = inspected(frame, *options.split())
        (told,) = errors(found).values()
        assert note in told
        assert found["next", "command"][2] == FIX

    scroe, lists = FINE.rename({"score": "scroe"}), FINE.with_columns(query=pl.concat_list("query"))
    check_each(check, [
        (scroe, "", "column 'score' (--score) not found. Did you mean 'scroe'?"),
        (FINE, "--label grade", "column 'grade' (--label) not found."),
        (FINE, "--run model", "column 'model' (--run) not found."),
        (FINE, "--by lable", "column 'lable' (--by) not found. Did you mean 'label'?"),
        (FINE.cast({"score": pl.String}), "", "(`--score`) must be numeric; found String"),
        (lists, "", "must have one id per row"),
    ])  # fmt: skip


def test_groups_and_small_logs() -> None:
    """A list is what shares the columns of groups, too."""
    days = pl.concat([FINE.with_columns(day=pl.lit(day)) for day in (1, 2)])
    found = inspected(days)
    assert ({*errors(found)}, values(found, "columns")["others"]) == ({"repeated"}, "day: Int32")
    found = inspected(days, "--by", "day")
    assert errors(found) == {}
    assert next_works(found)[-2:] == ["--by", "day"]
    assert values(inspected(FINE.clear()), "size") == {"rows": "0", "runs": "0"}
    found = inspected(FINE.head(1).with_columns(score=None, label=None))
    assert (found["labels", "judged share"][0], errors(found)) == (None, {})


def test_trec_files() -> None:
    Path("qrels").write_text("1 0 a 1\n1 0 b 0\n", "utf-8")
    Path("run").write_text("1 Q0 a 1 2.0 bm25\n1 Q0 c 2 1.0 bm25\n", "utf-8")
    found = inspected("run", "--judgments", "qrels")
    assert values(found, "size") == {"rows": "3", "runs": "1", "queries of bm25": "1"}
    next_works(found)
