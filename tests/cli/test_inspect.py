"""The command `inspect`: facts about a log, and invalid rows, which do not raise errors."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import polars as pl
import pytest
from commands import run

import polars_rank as pr


def inspected(*arguments: object) -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return value, state and note of each part and what of it."""
    code, out, err = run("inspect", *arguments, "--format", "json")
    rows = json.loads(out)
    count = sum(row["state"] == "error" for row in rows)
    message = f"{count} error{'s' if count > 1 else ''} found\n"
    assert (code, err) == ((2, message) if count else (0, ""))
    return {(r["part"], r["what"]): (r["value"], r["state"], r["note"]) for r in rows}


def values(actual: dict[tuple[str, str], tuple[str, str, str]], part: str) -> dict[str, str]:
    return {what: value for (each, what), (value, _, _) in actual.items() if each == part}


def errors(actual: dict[tuple[str, str], tuple[str, str, str]]) -> dict[str, str]:
    return {what: note for (_, what), (_, state, note) in actual.items() if state == "error"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


FINE = pl.DataFrame(
    {
        "run": ["A"] * 5 + ["B"] * 3,
        "query": [1, 1, 1, 2, 2, 1, 1, 1],
        "doc": [1, 2, 3, 1, 2, 1, 2, 3],
        "score": [0.9, 0.9, None, 0.5, 0.1, 0.3, 0.2, 0.1],
        "label": [0, 1, 2, 0, None, 0, 1, 2],
    }
)


def test_a_log_by_hand(here: Path) -> None:
    FINE.write_parquet("log.parquet")
    actual = inspected("log.parquet")
    assert values(actual, "columns") == {
        "run": "run: String", "query": "query: Int64", "doc": "doc: Int64",
        "score": "score: Float64", "label": "label: Int64",
    }  # fmt: skip
    assert values(actual, "size") == {"rows": "8", "runs": "2", "queries of A": "2",
                                     "queries of B": "1"}  # fmt: skip
    assert actual["size", "runs"][1] == "note"  # different numbers of queries
    lengths = {name.split()[0]: float(value) for name, value in values(actual, "rankings").items()
               if name.endswith("length")}  # fmt: skip
    assert lengths == {"shortest": 2, "median": 3, "mean": pytest.approx(8 / 3), "longest": 3}
    assert values(actual, "rankings")["layout"] == "sorted"
    labels = {name: float(value) for name, value in values(actual, "labels").items()}
    assert labels == pytest.approx(
        {
            "share of 0": 3 / 8, "share of 1": 2 / 8, "share of 2": 2 / 8,
            "judged share": 6 / 7, "not retrieved": 1, "nothing relevant": 1,
        }
    )  # fmt: skip
    ties = {name: float(value) for name, value in values(actual, "ties").items()}
    assert ties == pytest.approx(
        {"share of tied rankings": 1 / 3, "share of tied documents": 2 / 7}
    )
    assert errors(actual) == {}
    assert actual["next", "command"] == (
        "polars-rank compare log.parquet --metrics 'ndcg@10 ap rr' --baseline A", "", ""
    )  # fmt: skip


def test_relevant_labels_of_32_bits(here: Path) -> None:
    """0.7 is 0.699999988 in 32 bits."""
    labels = pl.Series("label", [0.7, 0.1, 0.7, 0.1, 0.7, 0.1, 0.7, 0.1], pl.Float32)
    FINE.with_columns(labels).write_parquet("log.parquet")
    for rel, note in ("0.7", "no label reaches --rel"), ("0.5", None):
        actual = inspected("log.parquet", "--rel", rel)
        assert actual.get(("labels", "relevant"), (None, None, None))[2] == note
        assert (actual["labels", "share of 0.699999988079071"][2] == "relevant") == (note is None)


def test_the_layout(here: Path) -> None:
    adjacent = pl.concat([FINE.slice(5), FINE.head(5)])
    shuffled = FINE.sample(fraction=1, shuffle=True, seed=1)
    for frame, layout in ((FINE, "sorted"), (adjacent, "adjacent"), (shuffled, "shuffled")):
        frame.write_parquet("log.parquet")
        frame.write_csv("log.csv")
        for name in ("log.parquet", "log.csv"):
            actual = inspected(name)
            assert values(actual, "rankings")["layout"] == layout
            assert values(actual, "size")["rows"] == "8"


BAD = pl.DataFrame(
    {
        "query": [1, 1, 1, 1, None, 2, 2, 2],
        "doc": [1, 1, 2, None, 5, 1, 2, 3],
        "score": [0.1, 0.2, math.nan, 0.3, 0.4, math.inf, 0.5, 0.6],
        "label": [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, math.nan, 1.0],
    }
)


def test_invalid_rows_are_counted(here: Path) -> None:
    BAD.write_parquet("log.parquet")
    actual = inspected("log.parquet")
    assert values(actual, "invalid") == {"null query": "1", "null doc": "1", "bad score": "2",
                                       "bad label": "1", "repeated": "1"}  # fmt: skip
    assert {*errors(actual)} == {"null query", "null doc", "bad score", "bad label", "repeated"}
    command, _, note = actual["next", "command"]
    assert note == "after fixing the errors above"
    assert shlex.split(command)[-2:] == ["--duplicates", "max"]
    # And evaluate says so, too.
    code, _, err = run("evaluate", "log.parquet", "-m", "rr")
    assert (code, "NaN or infinite values" in err) == (2, True)


def test_the_next_command_has_options_that_fix_errors(here: Path) -> None:
    FINE.filter(run="A").vstack(FINE.filter(run="A").head(1)).drop("run").write_csv("log.csv")
    actual = inspected("log.csv")
    assert {*errors(actual)} == {"repeated"}
    command, _, note = actual["next", "command"]
    program, *words = shlex.split(command)
    assert (program, note) == ("polars-rank", "")
    assert run(*words)[0] == 0


@pytest.mark.parametrize(
    ("names", "options"),
    [
        ({"query": "qid", "doc": "docno"}, ["--query", "qid", "--doc", "docno"]),
        ({"score": "s", "label": "g"}, ["--score", "s", "--label", "g"]),
        ({"score": "rank"}, ["--position", "rank"]),
        ({"score": "cost"}, ["--score=-cost"]),
    ],
)
def test_columns_of_other_names(here: Path, names: dict[str, str], options: list[str]) -> None:
    """They are named in the command, which runs."""
    frame = FINE.filter(pl.col("score").is_not_null())
    if "rank" in names.values():
        frame = frame.with_columns(score=pl.col("score").rank("ordinal", descending=True))
    frame.rename(names).write_parquet("log.parquet")
    actual = inspected("log.parquet", *options)
    assert values(actual, "size")["rows"] == "7"
    program, *words = shlex.split(actual["next", "command"][0])
    assert program == "polars-rank"
    code, _, err = run(*words)
    assert (code, "Error" in err) == (0, False)


@pytest.mark.parametrize(
    ("frame", "option", "note"),
    [
        (
            FINE.rename({"score": "scroe"}),
            [],
            "column 'score' (--score) not found. Did you mean 'scroe'?",
        ),
        (FINE, ["--label", "grade"], "column 'grade' (--label) not found."),
        (FINE, ["--run", "model"], "column 'model' (--run) not found."),
        (FINE.cast({"score": pl.String}), [], "(`--score`) must be numeric; found String"),
        (FINE.with_columns(query=pl.concat_list("query")), [], "must have one id per row"),
    ],
)
def test_columns_with_errors(here: Path, frame: pl.DataFrame, option: list[str], note: str) -> None:
    frame.write_parquet("log.parquet")
    actual = inspected("log.parquet", *option)
    (told,) = errors(actual).values()
    assert note in told
    assert actual["next", "command"][2] == "after fixing the errors above"


def test_groups(here: Path) -> None:
    """A list is what shares the columns of groups, too."""
    days = pl.concat([FINE.with_columns(day=pl.lit(day)) for day in (1, 2)])
    days.write_parquet("log.parquet")
    assert {*errors(inspected("log.parquet"))} == {"repeated"}
    actual = inspected("log.parquet", "--by", "day")
    assert errors(actual) == {}
    program, *words = shlex.split(actual["next", "command"][0])
    assert words[-2:] == ["--by", "day"]
    assert run(*words)[0] == 0
    (told,) = errors(inspected("log.parquet", "--by", "dya")).values()
    assert told == "column 'dya' (--by) not found. Did you mean 'day'?"


def test_small_logs(here: Path) -> None:
    FINE.clear().write_parquet("log.parquet")
    assert values(inspected("log.parquet"), "size") == {"rows": "0", "runs": "0"}
    FINE.head(1).with_columns(score=None, label=None).write_parquet("log.parquet")
    actual = inspected("log.parquet")
    assert actual["labels", "judged share"][0] is None
    assert errors(actual) == {}
    many = pl.DataFrame({"query": range(40), "doc": 1, "score": 1.0}).with_columns(
        label=pl.col("query") / 7
    )
    many.write_parquet("log.parquet")
    actual = inspected("log.parquet", "--rel", 9)
    assert actual["labels", "range"][::2] == (f"0.0 to {39 / 7}", "40 different labels")
    assert actual["labels", "relevant"][:2] == ("0", "note")


def test_trec_files(here: Path) -> None:
    Path("qrels").write_text("1 0 a 1\n1 0 b 0\n", "utf-8")
    Path("run").write_text("1 Q0 a 1 2.0 bm25\n1 Q0 c 2 1.0 bm25\n", "utf-8")
    actual = inspected("run", "--judgments", "qrels")
    assert values(actual, "size") == {"rows": "3", "runs": "1", "queries of bm25": "1"}
    program, *words = shlex.split(actual["next", "command"][0])
    assert (program, run(*words)[0]) == ("polars-rank", 0)


def test_values_are_rounded_for_readers(here: Path) -> None:
    pr.datasets.search_log(300, runs=["a", "b"]).sink_parquet("log.parquet")
    code, out, _ = run("inspect", "log.parquet")
    last = out.splitlines()[-1]
    assert (code, last) == (
        0, "Next: polars-rank compare log.parquet --metrics 'ndcg@10 ap rr' --baseline a"
    )  # fmt: skip
    rows = pl.read_parquet("log.parquet").height
    assert f"{rows:,}" in out
    assert "%" in out
    assert run("inspect", "log.parquet", "-o", "log.txt")[0] == 0
    assert last in Path("log.txt").read_text("utf-8")


def test_the_next_command_has_the_column_of_runs(here: Path) -> None:
    FINE.rename({"run": "system"}).write_parquet("log.parquet")
    command, _, _ = inspected("log.parquet", "--run", "system")["next", "command"]
    program, *words = shlex.split(command)
    assert (program, words[0], words[-2:]) == ("polars-rank", "compare", ["--run", "system"])
    assert run(*words)[0] == 0
