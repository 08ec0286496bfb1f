"""The generated files and pages are up to date, and say what metrics do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from polars_rank.conventions import PRESETS

# The registry of metrics, to test each of them.
from polars_rank.metrics.compared import COMPARED
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import read
from strategies import ATTRIBUTES, ATTRIBUTES_SCHEMA

from . import pages
from .__main__ import about_cases, about_tools
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


@pytest.mark.parametrize("files", [about_cases, about_tools])
def test_generated_files_are_up_to_date(files: Callable[[], dict[Path, str]]) -> None:
    for path, text in files().items():
        assert path.read_text("utf-8") == text, f"{path}: run `python -m tests.conformance`"


def test_each_preset_is_compared_with_its_tool() -> None:
    assert {*COMPARED} == {each.name for each in PRESETS}


def test_names_on_the_page_mean_their_metric_or_nothing() -> None:
    for pair in pages.pairs():
        if pair.is_accepted:
            preset = getattr(pr.conventions, pages.PRESETS[pair.tool]).name
            assert read(pair.name, preset).function is pair.metric.function, pair
    # Names with the syntax of another tool, and measures that are not one metric.
    assert {pair.tool for pair in pages.pairs() if not pair.is_accepted} == {
        *("scikit-learn", "CatBoost", "RecTools", "RePlay", "LensKit", "Elasticsearch")
    }


def called(name: str, *more: str) -> pr.Metric:
    """Return a metric with its required parameters, and with the given ones that it has."""
    accepted = inspect.signature(REGISTER[name]).parameters
    needed = {key for key, each in accepted.items() if each.default is each.empty}
    values = {"k": 3, "max_grade": 4}
    return REGISTER[name](**{key: values[key] for key in needed | (accepted.keys() & {*more})})


WHOLE = {name: called(name) for name in REGISTER}
CUT = {name: called(name, "k") for name in REGISTER}


def test_documented_effect_of_ties() -> None:
    metrics = [*{str(each): each for each in (*WHOLE.values(), *CUT.values())}.values()]
    first, *others = (pr.per_query(LOG, metrics, ties=ties).drop("query") for ties in ORDERS)
    follows = {
        name: any(((first[name] - each[name]).abs().max() or 0) >= 1e-9 for each in others)
        for name in first.columns
    }
    rules = {name: pages.ties(name) for name in REGISTER}
    closed = [name for name in REGISTER if "except `expected`" not in rules[name]]
    means = pr.evaluate(LOG, [CUT[name] for name in closed], ties="expected")
    for name, rule in rules.items():
        assert follows[str(CUT[name])] == (rule != "no effect"), name
        always = rule != "no effect" and not rule.endswith("without `k`")
        assert follows[str(WHOLE[name])] == always, name
        if name in closed:
            assert means[str(CUT[name])].item() is not None
        else:
            with pytest.raises(pr.errors.ArgumentError, match="closed form"):
                pr.evaluate(LOG, CUT[name], ties="expected")
