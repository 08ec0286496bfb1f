"""Names of users with characters that break formats: charts, pages, tables and files show them."""

from __future__ import annotations

import io
import json
import re
import warnings
from base64 import b64decode
from collections.abc import Callable, Iterator
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


@cache
def verdicts() -> pl.DataFrame:
    rules = ["rr >= 0.4", "ndcg@2 >= 0.4"]
    return pr.check(pr.summarize(values(), by="country"), rules, on_fail="return")


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


def junit(folder: Path) -> str:
    pr.stats.write_junit(verdicts(), folder / "a.xml")
    text = (folder / "a.xml").read_text(encoding="utf-8")
    (suite,) = ET.fromstring(text)
    assert len({case.get("name") for case in suite.iter("testcase")}) == verdicts().height
    return re.sub(r'name="[^"]*"', "", text)


def markdown(folder: Path) -> str:
    pr.stats.write_markdown(verdicts(), folder / "a.md")
    text = (folder / "a.md").read_text(encoding="utf-8")
    check_markdown(text, verdicts().height)
    return text


def check_markdown(text: str, rows: int) -> None:
    lines = text.splitlines()
    assert len(lines) == rows + 2
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert "<img" not in text
    assert "[k](" not in text
    assert "http:" not in text
    assert re.search(r"(?<!\w)@\w", text) is None


def command(form: str) -> Callable[[Path], str]:
    def output(folder: Path) -> str:
        commands = needs.package("commands", "cli")
        means = pr.summarize(values(), by="country")
        values().write_parquet(folder / "values.parquet")
        code, _, error = commands.run(
            *("summarize", "--values", folder / "values.parquet", "--by", "country", "-m", "rr"),
            *("--format", form, "--output", folder / "output"),
        )
        assert code == 0, error
        text = (folder / "output").read_text(encoding="utf-8")
        rows = means.filter(metric="rr")
        if form == "markdown":
            check_markdown(text, rows.height)
        elif form == "table":
            assert len(text.splitlines()) == 1 + rows.height
        else:
            read = pl.read_csv if form == "csv" else pl.read_ndjson
            again = read(folder / "output")
            for name in ("run", "country"):
                assert {*again[name]} == {*rows[name]}
            return ""  # data is unchanged
        return text

    return output


FORMATS: dict[str, Callable[[Path], str]] = {
    "charts": charts, "page": page, "junit": junit, "markdown": markdown,
    **{f"command {form}": command(form) for form in ("markdown", "table", "csv", "ndjson")},
}  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_names_in_output(form: str, tmp_path: Path) -> None:
    text = FORMATS[form](tmp_path)
    assert INVISIBLE.search(text) is None
    if form != "charts":  # Vega cuts text off when it draws a chart
        assert LONG not in text


#: Names of columns of charts and results, and names that the library reserves.
COLUMNS = ("x", "y", "low", "label", "value", "run", "metric", "rank", "*", "", "polars_rank:value")


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_with_internal_names(name: str) -> None:
    """A function either has the same result as for another name, or says that it is reserved."""
    needs.package("altair", "plot")
    plain = of_runs("baseline", "markup").drop("country")
    expected = pr.compare(plain, "rr", baseline="a").drop("run")
    for role in ("run", "query", "further"):
        table = plain.with_columns(further=0.5)
        if name in table.columns and name != role:
            continue
        table = table.rename({role: name})
        run, query = (name if role == each else each for each in ("run", "query"))
        options: dict[str, Any] = {"run": run, "query": query}
        try:
            result = pr.compare(table, "rr", baseline="a", **options).drop(run)
        except (pr.errors.ArgumentError, pr.errors.SchemaError) as error:
            assert re.search("rename it", str(error)), error
            continue
        assert result.equals(expected)
        pr.plot.differences(table, "rr", baseline="a", **options)
        pr.plot.intervals(pr.summarize(table, "rr", run=run), run=run)


#: A name of bytes that are not UTF-8, as Python reads it from a command line.
SURROGATE = "a\udcff"
CALLS: dict[str, Callable[[], object]] = {
    "a metric": lambda: pr.evaluate(log(), SURROGATE),
    "a weight": lambda: pr.evaluate(log(), "rr", by="run", weight=SURROGATE),
    "a run": lambda: pr.compare(values(), baseline=SURROGATE),
    "a column": lambda: pr.summarize(values(), by=SURROGATE),
    "a slice": lambda: pr.compare(values(), "rr", slices=SURROGATE, baseline="a"),
    "a rule": lambda: pr.check(pr.summarize(values()), [f"rr > 0 where(run={SURROGATE})"]),
    "a chart": lambda: pr.plot.differences(values(), "rr", baseline=SURROGATE),
}


@pytest.mark.parametrize("name", CALLS)
def test_names_that_are_not_unicode_are_errors(name: str) -> None:
    needs.package("altair", "plot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(pr.errors.RankError) as caught:
            CALLS[name]()
    str(caught.value).encode()  # a terminal can show it
