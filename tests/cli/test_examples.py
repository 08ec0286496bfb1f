"""The help of the commands: its texts, and the examples in it."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

from commands import invoke, testing
import polars as pl
import polars_rank as pr
import pytest

from polars_rank.cli.commands import app

COMMANDS = [each.name for each in app.registered_commands]
SNAPSHOTS = Path(__file__).parent / "help"


def ended(*arguments: str, columns: int = 400) -> testing.Result:
    """Run the command on a screen without colours."""
    return invoke(*arguments, env={"COLUMNS": str(columns), "NO_COLOR": "1", "TERM": "dumb"})


def helps_of(columns: int) -> dict[str, str]:
    done = {
        name: ended(*([name] if name else []), "--help", columns=columns)
        for name in ["", *COMMANDS]
    }
    assert all(each.exit_code == 0 for each in done.values())
    return {name: each.stdout for name, each in done.items()}


@pytest.fixture(scope="module")
def helps() -> dict[str, str]:
    return helps_of(400)


def normalised(text: str) -> str:
    """Return the words of a help page: not how a version of typer draws it or names types."""
    text = re.sub(r"<[\w\[\]|]+>|\b(TEXT|INTEGER|FLOAT|PATH)\b", " ", text)
    lines = (re.sub(r"[─━│┃╭╮╰╯]+", " ", line) for line in text.splitlines())
    return "".join(" ".join(line.split()) + "\n" for line in lines if line.strip())


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_unchanged(helps: dict[str, str], name: str) -> None:
    """With POLARS_RANK_SNAPSHOTS=1, the pages are written anew, to be looked at in the diff."""
    path = SNAPSHOTS / f"{name or 'polars-rank'}.txt"
    if os.environ.get("POLARS_RANK_SNAPSHOTS"):
        path.write_text(normalised(helps[name]), "utf-8")
    assert path.read_text("utf-8") == normalised(helps[name])


def test_each_help_page_belongs_to_a_command() -> None:
    assert {file.stem for file in SNAPSHOTS.iterdir()} == {"polars-rank", *COMMANDS}


def test_every_command_has_an_example(helps: dict[str, str]) -> None:
    for name in COMMANDS:
        assert f"$ polars-rank {name}" in helps[name]


def test_help_wraps_between_words_in_80_columns(helps: dict[str, str]) -> None:
    """Examples are on one line each, and so are the descriptions of the commands."""
    narrow = helps_of(80)
    for name, page in narrow.items():
        assert max(map(len, page.splitlines())) <= 80
        words = re.findall(r"[^\s│]+", normalised(helps[name]))
        assert {*re.findall(r"[^\s│]+", normalised(page))} <= {*words}
        assert examples(page) == examples(helps[name])
    rows = re.findall(r"^│ ([\w -]{11})  \S", narrow[""], re.MULTILINE)
    assert [row.strip() for row in rows] == COMMANDS


def test_the_program_names_its_commands_and_exit_codes(helps: dict[str, str]) -> None:
    for name in COMMANDS:
        assert re.search(rf"│ {name} ", helps[""])
    assert "Exit codes: 0" in " ".join(normalised(helps[""]).split())


def examples(page: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", normalised(page), re.MULTILINE)


def test_examples_work(
    helps: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\n")
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2.0 bm25\nq2 Q0 b 1 1.0 bm25\n")
    pr.datasets.search_log(200).select(pl.col("doc").unique(), share=0.1).sink_parquet(
        "items.parquet"
    )
    clicks = pr.datasets.click_log(60, 5, sessions=4)
    old = -pl.col("position")  # a second score
    clicks.with_columns(
        label=pr.clicks.inverse_propensity(), query="session", old=old
    ).sink_parquet("clicks.parquet")
    for name in sorted(COMMANDS, key=lambda name: name != "generate"):  # it makes the log
        for example in examples(helps[name]):
            program, *arguments = shlex.split(example)
            # On few queries: these are the words of the help, not its data.
            done = ended(
                *arguments,
                *{"generate": ["--queries", "200"], "demo": ["--queries", "30"]}.get(name, []),
            )
            assert (done.exit_code, "Error" in done.stderr) == (0, False), (example, done.stderr)
            assert done.stdout.strip() or "Wrote" in done.stderr
    assert {"log.parquet", "both.parquet"} < {file.name for file in tmp_path.iterdir()}
