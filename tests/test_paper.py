"""The paper: its numbers are those of the tests, the simulations and README's benchmark."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "paper"
PAPER = (FOLDER / "paper.md").read_text(encoding="utf-8")
TEXT = " ".join(PAPER.split())


def speed() -> list[dict[str, list[str]]]:
    """Return the rows of the tables of README's benchmark, by the name of the tool."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    part = readme.partition("<!-- speed:")[2].partition("<!-- end of speed -->")[0]
    tables = re.findall(r"^\|---.*\n((?:\|.*\n)+)", part, re.MULTILINE)
    rows = [[line.strip("|").split("|") for line in table.splitlines()] for table in tables]
    return [
        {re.split(r"[ (]", name.strip())[0]: [*map(str.strip, cells)] for name, *cells in table}
        for table in rows
    ]


def test_speed_is_that_of_the_readme() -> None:
    engines, tools = speed()
    seconds, _, memory, *_ = engines["polars_rank"]
    ratio = {name: row[1] for name, row in (engines | tools).items()}
    assert (
        f"For 10 million rows with 10 documents per query, it takes {seconds} and {memory} of memory; "
        f"ClickHouse takes {ratio['ClickHouse']} times as long, and DuckDB {ratio['DuckDB']} times. For "
        f"1 million rows, pandas takes {ratio['pandas']} times as long as `polars_rank`, pytrec_eval "
        f"{ratio['pytrec_eval']} times, and ranx {ratio['ranx']} times."
    ) in TEXT
    (shuffled,) = re.findall(
        r"at 10 documents is ClickHouse, which takes ([\d.]+) times",
        " ".join((ROOT / "README.md").read_text(encoding="utf-8").split()),
    )
    assert f"ClickHouse takes {shuffled} times as long" in TEXT
    assert f"the benchmark runs {len(engines | tools) - 1} other tools" in TEXT


def test_counts_are_those_of_the_page_on_tests() -> None:
    page = (ROOT / "examples" / "guide" / "testing.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (.*?) \| ([\d,]+) \|", page, re.MULTILINE))
    tools, pairs = (
        rows["tools with a preset"],
        rows["pairs of a metric and a tool that are compared"],
    )
    (differences,) = (count for name, count in rows.items() if name.startswith("known differences"))
    (metrics,) = (count for name, count in rows.items() if name.startswith("metrics, each"))
    levels = re.search(r"\(`tests/bench/levels.md`\) \| (.*?) \| (.*?) \| .*?: (\d+),", page)
    situations, logs, beyond = levels.groups()
    for text in (
        f"a preset for each of {tools} tools",
        f"Each of the {metrics} metrics has an independent implementation",
        f"compare {pairs} pairs of a metric and a tool",
        f"{differences} known differences",
        f"document {differences} differences",
        f"in {situations} situations with {logs} logs in most",
        f"outside their limits (now {beyond})",
    ):
        assert text in TEXT, text


def test_references_are_cited_and_listed() -> None:
    bibliography = (FOLDER / "paper.bib").read_text(encoding="utf-8")
    listed = re.findall(r"^@\w+\{(\w+),$", bibliography, re.MULTILINE)
    cited = re.findall(r"@(\w+\d{4})", PAPER)
    assert sorted(listed) == sorted({*cited})


@pytest.mark.parametrize(
    "section",
    [
        *("Summary", "Statement of need", "State of the field", "Software design"),
        *("Research impact statement", "AI usage disclosure", "Acknowledgements", "References"),
    ],
)
def test_sections_that_journals_require(section: str) -> None:
    assert f"\n# {section}\n" in PAPER
    assert 750 <= len(PAPER.split()) <= 1750
