"""Pages: any text keeps the shape of each format, and lines keep their width."""

from __future__ import annotations

import json
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
