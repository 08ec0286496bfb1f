"""Pages: any text keeps the shape of each format, and lines keep their width."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import needs
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st

# Tables of any columns, which no public function has.
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


FORMATS = (check_plain, check_markdown, check_html, check_json, check_junit)


def width(line: str) -> int:
    """Return the places of a line in a terminal, as rich counts them."""
    return int(needs.package("rich.cells", "cli").cell_len(line))


def test_names_of_users_in_each_format() -> None:
    page = page_of([*NAMES.values()])
    for check in FORMATS:
        text = check(page)
        assert INVISIBLE.search(text) is None
        assert LONG not in text


@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_any_text_in_each_format(texts: list[str]) -> None:
    page = page_of(texts)
    for check in FORMATS:
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


def test_numbers_in_tables() -> None:
    bounds = [(0.000213, 0.053), (0.0000213, 0.053), (-0.053, -0.0000213), (0.0, 0.053)]
    rows = {
        "difference": [0.1, -0.00012, 0.0],
        "relative_difference": [0.1449, -0.02, None],
        "low": [0.0689, -math.inf, None],
        "high": [0.0981, 0.5, 0.5],
    }
    for table, expected in (
        ({"p": [0.0, 1.23e-9, 0.5, 1e12]}, ["0.0000", "1.23e-09", "0.5000", "1e+12"]),
        ({"n": [1, 25]}, ["1", "25"]),
        ({"p_value": [0.0, 1.2e-9, 0.04]}, ["< 0.001", "< 0.001", "0.0400"]),
        (rows, ["+0.1000 +14.5% [0.0689, 0.0981]", "-0.00012 -2.0% [-inf, 0.5000]", "0.0000"]),
        ({"low": [0.01234567], "high": [0.01235678]}, ["[0.012346, 0.012357]"]),
        # With p = 0.049, the lower bound must not look as if the interval contained 0.
        (
            dict(zip(("low", "high"), zip(*bounds, strict=True), strict=True)),
            ["[0.0002, 0.0530]", "[2.13e-05, 0.0530]", "[-0.0530, -2.13e-05]", "[0.0000, 0.0530]"],
        ),
    ):
        shown = PageTable(pl.DataFrame(table), columns=COLUMNS)
        assert [" ".join(line.split()) for line in [*shown.lines(None)][1:]] == expected
    tiny = pl.DataFrame({"p_value": [1.2e-9], "x": [0.0]})
    assert "&lt; 0.001" in PageTable(tiny, columns=COLUMNS).markdown()


def test_folded_columns_share_the_line() -> None:
    texts = {"a": "one two three " * 5 + "x" * 13, "b": "four five " * 9, "n": 1}
    for most in (30, 47, 80):
        text = Page("", (), [PageTable(pl.DataFrame(texts), folds=True)]).plain(most)
        assert max(map(width, text.splitlines())) <= most
        assert [text.count(word) for word in ("three", "five", "x")] == [5, 9, 13]
        assert abs(text.index("b") - most / 2) <= 4
