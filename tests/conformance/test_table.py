"""The generated pages: metrics in other tools, and the reference of metrics."""

from __future__ import annotations

import inspect
import re

import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from polars_rank.conventions import PRESETS
from polars_rank.metrics.compared import COMPARED
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import read

from strategies import ATTRIBUTES, ATTRIBUTES_SCHEMA

from . import metrics_page, table, testing_page
from .logs import GRADES, random_log

#: Includes the columns that metrics of subtopics and attributes read.
LOG = pl.concat(
    [
        random_log(21, GRADES, queries=100),
        # Whether the first 3 documents are all relevant ones depends on the order of ties.
        pl.DataFrame({"query": "1", "doc": [*"abcd"], "score": 1.0, "label": [1, 0, 0, 0]}),
    ]
).with_columns(
    subtopics=pl.when(pl.col("label") > 0).then(
        pl.concat_list(pl.col("label") % 3, 3 + pl.col("doc").str.len_chars())
    ),
    **{
        name: pl.col("doc").map_elements(
            lambda doc, attribute=attribute: attribute(Doc(doc, None, None)),
            ATTRIBUTES_SCHEMA[name],
        )
        for name, attribute in ATTRIBUTES.items()
    },
    history_category=pl.lit(["a", "b", "b"]),
)
ORDERS = ("doc", "doc_ascending", "best", "worst", "input")


def test_page_is_up_to_date() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), (
        "run `PYTHONPATH=tests python -m tests.conformance.table`"
    )


def test_metrics_without_a_warning_are_those_that_are_compared() -> None:
    assert table.MODULE.read_text(encoding="utf-8") == table.module(), (
        "run `PYTHONPATH=tests python -m tests.conformance.table`"
    )


def test_each_preset_is_compared_with_its_tool() -> None:
    assert {*COMPARED} == {each.name for each in PRESETS}


def test_names_on_the_page_mean_their_metric_or_nothing() -> None:
    for pair in table.pairs():
        if pair.is_accepted:
            preset = getattr(pr.conventions, table.PRESETS[pair.tool]).name
            assert read(pair.name, preset).function is pair.metric.function, pair
    # Names with the syntax of another tool, and measures that are not one metric.
    assert {pair.tool for pair in table.pairs() if not pair.is_accepted} == {
        *("scikit-learn", "CatBoost", "RecTools", "RePlay", "LensKit", "Elasticsearch"),
    }


def test_page_on_tests_is_up_to_date() -> None:
    """Rounded counts may lag behind; the number of cases takes a minute to count."""
    page, numbers = testing_page.PAGE.read_text(encoding="utf-8"), testing_page.counts()
    shown = re.findall(r"\| ([\d,]+)\+ \|", page)
    functions, cases, properties = (int(each.replace(",", "")) for each in shown)
    rounded = {"functions": functions, "cases": cases, "properties": properties}
    assert page == testing_page.page({**numbers, **rounded}), (
        "run `PYTHONPATH=tests python -m tests.conformance.testing_page`"
    )
    assert 0.8 * numbers["functions"] < functions <= numbers["functions"] < cases
    assert 0.8 * numbers["properties"] - 10 < properties <= numbers["properties"]


def test_metrics_page_is_up_to_date() -> None:
    assert metrics_page.PAGE.read_text(encoding="utf-8") == metrics_page.page(), (
        "run `PYTHONPATH=tests python -m tests.conformance.metrics_page`"
    )


def test_every_metric_has_one_entry_that_the_index_links_to() -> None:
    page = metrics_page.page()
    headings = re.findall(r"^#{2,3} `?(.*?)`?$", page, re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert len(set(anchors)) == len(anchors)
    assert set(REGISTER) <= set(anchors)
    assert set(re.findall(r"\]\(#(.*?)\)", page)) == set(anchors) - {"index"}
    assert {"peers.md", "coming_from.md"} == set(re.findall(r"\]\((\w+\.md)\)", page))
    for path in ("peers.md", "coming_from.md"):
        assert (metrics_page.PAGE.parent / path).is_file()


def called(name: str, *more: str) -> pr.Metric:
    """Return a metric with its required parameters, and with the given ones that it has."""
    accepted = inspect.signature(REGISTER[name]).parameters
    needed = {key for key, each in accepted.items() if each.default is each.empty}
    values = {"k": 3, "max_grade": 4}
    return REGISTER[name](**{key: values[key] for key in needed | (accepted.keys() & {*more})})


WHOLE = {name: called(name) for name in REGISTER}
CUT = {name: called(name, "k") for name in REGISTER}


@pytest.fixture(scope="module")
def follow_ties() -> dict[str, bool]:
    """Return whether each metric has other values for another order of ties."""
    metrics = list({str(each): each for each in (*WHOLE.values(), *CUT.values())}.values())
    first, *others = (pr.per_query(LOG, metrics, ties=ties).drop("query") for ties in ORDERS)
    return {
        name: any(((first[name] - each[name]).abs().max() or 0) >= 1e-9 for each in others)
        for name in first.columns
    }


@pytest.fixture(scope="module")
def mean_over_ties() -> pl.DataFrame:
    metrics = [
        each for name, each in CUT.items() if "except `expected`" not in metrics_page.ties(name)
    ]
    return pr.evaluate(LOG, metrics, ties="expected")


def test_documented_effect_of_ties(
    follow_ties: dict[str, bool], mean_over_ties: pl.DataFrame
) -> None:
    for name in sorted(REGISTER):
        rules, whole, cut = metrics_page.ties(name), WHOLE[name], CUT[name]
        assert follow_ties[str(cut)] == (rules != "no effect"), name
        follows = rules != "no effect" and not rules.endswith("without `k`")
        assert follow_ties[str(whole)] == follows, name
        if "except `expected`" in rules:
            with pytest.raises(pr.errors.ArgumentError, match="closed form"):
                pr.evaluate(LOG, cut, ties="expected")
        else:
            assert mean_over_ties[str(cut)].item() is not None
