"""Pages: any text keeps the shape of each format, and lines keep their width."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import needs
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars_rank._pages import Page, PageTable
from polars_rank.stats.comparison import COMPARISON
from test_hostile_names import INVISIBLE, LONG, NAMES

needs.package("scipy", "stats")

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

#: Letters of two places, marks of none, markup, and characters that change lines.
TEXTS = st.text(st.sampled_from("aé漢\u0301 \n|<&*_`[](@#\x1b\u202e"), max_size=40)


def page_of(texts: list[str]) -> Any:
    """Return the page of a gate whose queries, documents and categories have these names."""
    names = [f"{text} {n}" for n, text in enumerate(texts)]
    judged = pl.DataFrame({"query": names, "doc": names, "category": names, "label": 1})
    found = judged.select("query", doc="query", score=1.0).with_columns(
        doc=pl.when(pl.int_range(pl.len()) > 0).then(pl.col("doc") + "x").otherwise("doc")
    )
    return pr.gate(judged, found, metrics="rr", floors={"rr": 0.9}).page


def check_plain(page: Any) -> str:
    for most in (40, 80, 132):
        assert max(map(width, page.plain(most).split("\n"))) <= most
    return str(page.plain())


def check_markdown(page: Any) -> str:
    text = page.markdown()
    rows = [line for line in text.split("\n") if line.startswith("|")]
    bars = [len(re.findall(r"(?<!\\)\|", row.replace("\\\\", ""))) for row in rows]
    assert {*bars} <= {4, 5, 6, 7, 9}
    assert "<img" not in text
    assert "[k](" not in text
    assert re.search(r"(?<!\w)@\w", text) is None
    return str(text)


def check_html(page: Any) -> str:
    found: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, _: found.append(tag)  # type: ignore[method-assign]
    parser.feed(page.html())
    assert {*found} <= {"p", "b", "ul", "li", "table", "caption", "tr", "th", "td"}
    assert found.count("table") == len(page.tables)
    return str(page.html())


def check_json(page: Any) -> str:
    found = json.loads(page.json())
    assert found["format_version"] == 1
    assert (found["title"], found["passed"]) == (page.title, False)
    assert len(found["queries"]) == len(page.data["queries"])
    return json.dumps(found["title"])  # other texts are unchanged


def check_junit(page: Any) -> str:
    suite = ET.fromstring(page.junit())[0]
    assert suite.get("failures") == "1"
    return str(page.junit())


FORMATS: dict[str, Callable[[Any], str]] = {
    "plain": check_plain, "markdown": check_markdown, "html": check_html, "json": check_json,
    "junit": check_junit,
}  # fmt: skip


def width(line: str) -> int:
    """Return the places of a line in a terminal, as rich counts them."""
    return int(needs.package("rich.cells", "cli").cell_len(line))


@pytest.mark.parametrize("form", FORMATS)
def test_names_of_users_in_each_format(form: str) -> None:
    text = FORMATS[form](page_of([*NAMES.values()]))
    assert INVISIBLE.search(text) is None
    assert LONG not in text


@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_any_text_in_each_format(texts: list[str]) -> None:
    page = page_of(texts)
    for check in FORMATS.values():
        assert INVISIBLE.search(check(page)) is None


def test_narrow_lines_continue_a_table_below() -> None:
    names = {query: [f"d{query}"] for query in "abc"}
    judged = pl.DataFrame([*names.items()], ["query", "doc"], orient="row").explode("doc")
    found = judged.with_columns(score=1.0)
    metrics = [f"{name}@{k}" for name in ("recall", "ndcg", "mrr", "p") for k in (1, 5, 10, 20)]
    text = pr.gate(judged, found, metrics=metrics).page.plain(60)
    assert len(re.findall(r" \d\.\d{3}\b", text)) == len(metrics)
    assert max(map(len, text.split("\n"))) <= 60


COLUMNS = {each.name: each for each in COMPARISON}


def lines(frame: pl.DataFrame) -> list[str]:
    return [*PageTable(frame, columns=COLUMNS).lines(None)]


def test_numbers_of_any_size() -> None:
    table = pl.DataFrame({"p": [0.0, 1.23e-9, 0.5, 1e12, None], "n": [1, 2, 3, 4, 5]})
    rows = [line.split() for line in lines(table)[1:]]
    assert [row[0] for row in rows] == ["0.0000", "1.23e-09", "0.5000", "1e+12", "5"]


def test_p_values_are_never_printed_as_zero() -> None:
    table = pl.DataFrame({"p_value": [0.0, 1.2e-9, 0.04], "x": [0.0, 0.0, 0.0]})
    for text, tiny in {
        "\n".join(lines(table)): "< 0.001",
        PageTable(table, columns=COLUMNS).markdown(): "&lt; 0.001",
    }.items():
        assert (text.count(tiny), text.count("0.0000"), "0.0400" in text) == (2, 3, True)


def test_differences_shares_and_intervals() -> None:
    table = pl.DataFrame(
        {
            "difference": [0.1, -0.00012, 0.0],
            "relative_difference": [0.1449, -0.02, None],
            "low": [0.0689, -math.inf, None],
            "high": [0.0981, 0.5, 0.5],
        }
    )
    assert lines(table) == [
        "difference  relative_difference       [low, high]",
        "   +0.1000               +14.5%  [0.0689, 0.0981]",
        "  -0.00012                -2.0%    [-inf, 0.5000]",
        "    0.0000",
    ]
    narrow = pl.DataFrame({"low": [0.01234567, 0.0], "high": [0.01235678, 1.0]})
    assert "[0.012346, 0.012357]" in lines(narrow)[1]


def test_an_interval_without_0_does_not_show_0() -> None:
    """With p = 0.049, the lower bound must not look as if the interval contained 0."""
    bounds = [(0.000213, 0.053), (0.0000213, 0.053), (-0.053, -0.0000213), (0.0, 0.053)]
    table = pl.DataFrame(bounds, ["low", "high"], orient="row")
    assert [line.strip() for line in lines(table)[1:]] == [
        "[0.0002, 0.0530]", "[2.13e-05, 0.0530]", "[-0.0530, -2.13e-05]", "[0.0000, 0.0530]"
    ]  # fmt: skip


@pytest.mark.parametrize("most", [30, 47, 80])
def test_folded_columns_share_the_line(most: int) -> None:
    texts = {"a": "one two three " * 5 + "x" * 13, "b": "four five " * 9, "n": 1}
    text = Page("", (), [PageTable(pl.DataFrame(texts), folds=True)]).plain(most)
    assert max(map(width, text.splitlines())) <= most
    assert [text.count(word) for word in ("three", "five", "x")] == [5, 9, 13]
    first, second, _ = text.splitlines()[0].split()
    assert (first, second) == ("a", "b")
    assert abs(text.index("b") - most / 2) <= 4
