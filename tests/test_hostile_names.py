"""Names of users with characters that break formats: charts, pages, tables and files show them."""

from __future__ import annotations

import io
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import needs
import polars as pl
import polars_rank as pr
import pytest

#: A run, a query, a document and a slice has each of these names.
NAMES = {
    "baseline": "a",
    "null character": "b\0c",
    "line separator": "d\u2028e\u2029",
    "line breaks": "f\r\ng\x85\x1b[31m",
    "direction": "h\u200fi\u202ej\u2067",
    "markup": "<img src=x onerror=1></script>|[k](http://l.org) `m` *n* <!--",
    "mentions": "by @octocat, @org/team, (@me)",
    "latex": r"\input{o} $p_q^2$ & 5% #",
    "10,000 characters": "r" * 10_000,
}
#: Characters that no output has, other than line breaks between rows.
INVISIBLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
#: More characters than an output for readers shows of a name.
LONG = "r" * 600

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")


@cache
def log() -> pl.DataFrame:
    rows = [
        {
            "run": run, "query": f"{query}{number}", "doc": f"{query}{doc}", "country": query,
            "day": 1 + number, "score": float((place + doc * (number + 1)) % 3),
            "label": (doc + number) % 3, "llm": (doc + place) % 3,
        }
        for place, run in enumerate(NAMES.values())
        for query in NAMES.values()
        for number in range(4)
        for doc in range(3)
    ]  # fmt: skip
    return pl.DataFrame(rows).with_columns(day=pl.date(2026, 1, "day"))


@cache
def values() -> pl.DataFrame:
    return pr.per_query(log(), ["ndcg@2", "rr"], by="run", keep=["country", "day"])


def of_runs(*names: str) -> pl.DataFrame:
    return values().filter(pl.col("run").is_in([NAMES[name] for name in names]))


def texts_in(value: Any) -> Iterator[str]:
    """Yield all text of a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from map(str, value)
        for each in value.values():
            yield from texts_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each)


def charts(_: Path) -> str:
    """Return charts of each kind of text as SVG; other charts have the same names of runs."""
    needs.package("altair", "plot")
    plot, base = pr.plot, {"baseline": "a"}
    two, three = of_runs("baseline", "null character"), of_runs("baseline", "line separator")
    drawn = io.StringIO()
    for chart in (
        plot.differences(two, "rr", **base),
        plot.intervals(pr.summarize(values(), "rr", by="country").head(40)),
        plot.slices(pr.compare(three, "rr", slices="country", min_queries=2, **base)),
        plot.leaderboard(pr.leaderboard(values(), "rr")),
    ):
        for text in texts_in(chart.to_dict()):
            assert INVISIBLE.search(text) is None, text[:100]
            assert "</script" not in text
        # Vega ends the process at a null character.
        chart.save(drawn, "svg")
    return drawn.getvalue()


def page(folder: Path) -> str:
    needs.package("jinja2", "report")
    pr.report(
        log(), ["ndcg@2", "rr"], path=folder / "page.html", baseline="a", slices="country",
        rules=["rr >= 0.4"], title=NAMES["line separator"],
    )  # fmt: skip
    html = (folder / "page.html").read_text(encoding="utf-8")
    (data,) = re.findall(r'id="charts-data">(.*?)</script>', html, re.DOTALL)
    assert {*json.loads(data)["kinds"]} >= {"differences", "slices"}
    for text in texts_in(json.loads(data)):
        assert INVISIBLE.search(text) is None, text[:100]
    for link in re.findall(r'href="data:text/csv;charset=utf-8;base64,([^"]*)"', html):
        assert pl.read_csv(b64decode(link), infer_schema=False).height
    body = re.sub(r"<(script|style|select).*?</\1>|<[^>]*>", "", html, flags=re.DOTALL)
    return body.replace("\n", " ").replace("\r", " ").replace("\t", " ")


def files(folder: Path) -> str:
    """Return files of verdicts, JUnit without the names of tests."""
    rules = ["rr >= 0.4", "ndcg@2 >= 0.4"]
    verdicts = pr.check(pr.summarize(values(), by="country"), rules, on_fail="return")
    pr.stats.write_junit(verdicts, folder / "a.xml")
    pr.stats.write_markdown(verdicts, folder / "a.md")
    junit, markdown = ((folder / name).read_text("utf-8") for name in ("a.xml", "a.md"))
    (suite,) = ET.fromstring(junit)
    assert len({case.get("name") for case in suite.iter("testcase")}) == verdicts.height
    check_markdown(markdown, verdicts.height)
    one = pr.summarize(values().group_by("run").first(), "rr")
    pr.stats.write_junit(pr.check(one, rules[:1], on_fail="return"), folder / "b.xml")
    assert "no interval (1 query)" in (folder / "b.xml").read_text("utf-8")
    return markdown + re.sub(r'name="[^"]*"', "", junit)


def check_markdown(text: str, rows: int) -> None:
    lines = text.splitlines()
    assert len(lines) == rows + 2
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert "<img" not in text
    assert "[k](" not in text
    assert "http:" not in text
    assert re.search(r"(?<!\w)@\w", text) is None


def commands(folder: Path) -> str:
    """Return tables of a command; other formats have the names as they are."""
    run = needs.package("commands", "cli").run
    rows = pr.summarize(values(), by="country").filter(metric="rr")
    values().write_parquet(folder / "values.parquet")
    command = "summarize", "--values", folder / "values.parquet", "--by", "country", "-m", "rr"
    texts = {}
    for form in ("markdown", "table", "csv", "ndjson"):
        code, _, error = run(*command, "--format", form, "--output", folder / form)
        assert code == 0, error
        texts[form] = (folder / form).read_text("utf-8")
    check_markdown(texts["markdown"], rows.height)
    assert len(texts["table"].splitlines()) == 1 + rows.height
    for again in (pl.read_csv(folder / "csv"), pl.read_ndjson(folder / "ndjson")):
        for name in ("run", "country"):
            assert {*again[name]} == {*rows[name]}
    return texts["markdown"] + texts["table"]


FORMATS = {"charts": charts, "page": page, "files": files, "commands": commands}


@pytest.mark.parametrize("form", FORMATS)
def test_names_in_output(form: str, tmp_path: Path) -> None:
    text = FORMATS[form](tmp_path)
    assert INVISIBLE.search(text) is None
    if form != "charts":  # Vega cuts text off when it draws a chart
        assert LONG not in text
