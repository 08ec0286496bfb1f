"""The pages that are generated: the one from the suite, and the one from the metrics."""

from __future__ import annotations

import inspect
import re

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.metrics.metric import REGISTER

from . import catalogue, table
from .logs import GRADES, random_log

#: With what users did, which metrics of clicks read.
LOG = random_log(21, GRADES, queries=100).with_columns(
    click=pl.col("label") % 2 == 1,
    dwell=pl.col("label") * 20.0,
    time=pl.col("score").rank(),
    good=pl.col("label") == 4,
)
ORDERS = ("doc", "doc_ascending", "best", "worst", "input")


def test_page_is_up_to_date() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), (
        "run `PYTHONPATH=tests python -m tests.conformance.table`"
    )


def test_catalogue_is_up_to_date() -> None:
    assert catalogue.PAGE.read_text(encoding="utf-8") == catalogue.page(), (
        "run `PYTHONPATH=tests python -m tests.conformance.catalogue`"
    )


def test_every_metric_has_one_entry_that_the_index_links_to() -> None:
    page = catalogue.page()
    headings = re.findall(r"^#{2,3} `?(.*?)`?$", page, re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert len(set(anchors)) == len(anchors)
    assert set(REGISTER) <= set(anchors)
    assert set(re.findall(r"\]\(#(.*?)\)", page)) == set(anchors) - {"index"}
    assert {"peers.md", "coming_from.md"} == set(re.findall(r"\]\((\w+\.md)\)", page))
    for path in ("peers.md", "coming_from.md"):
        assert (catalogue.PAGE.parent / path).is_file()


def called(name: str, *more: str) -> pr.Metric:
    """Call a metric with the parameters that it must have, and these if it has them."""
    accepted = inspect.signature(REGISTER[name]).parameters
    needed = {key for key, each in accepted.items() if each.default is each.empty}
    values = {"k": 3, "max_grade": 4}
    return REGISTER[name](**{key: values[key] for key in needed | (accepted.keys() & {*more})})


WHOLE = {name: called(name) for name in REGISTER}
CUT = {name: called(name, "k") for name in REGISTER}


@pytest.fixture(scope="module")
def follow_ties() -> dict[str, bool]:
    """Return which metrics, by their own names, have other values in another order of ties."""
    metrics = list({str(each): each for each in (*WHOLE.values(), *CUT.values())}.values())
    first, *others = (pr.per_query(LOG, metrics, ties=ties).drop("query") for ties in ORDERS)
    return {
        name: any(((first[name] - each[name]).abs().max() or 0) >= 1e-9 for each in others)
        for name in first.columns
    }


@pytest.fixture(scope="module")
def mean_over_ties() -> pl.DataFrame:
    metrics = [each for name, each in CUT.items() if "but `expected`" not in catalogue.ties(name)]
    return pr.evaluate(LOG, metrics, ties="expected")


@pytest.mark.parametrize("name", sorted(REGISTER))
def test_what_the_catalogue_says_of_ties(
    name: str, follow_ties: dict[str, bool], mean_over_ties: pl.DataFrame
) -> None:
    said, whole, cut = catalogue.ties(name), WHOLE[name], CUT[name]
    assert follow_ties[str(cut)] == (said != "no part")
    assert follow_ties[str(whole)] == (said != "no part" and not said.endswith("without `k`"))
    if "but `expected`" in said:
        with pytest.raises(pr.errors.ArgumentError, match="closed form"):
            pr.evaluate(LOG, cut, ties="expected")
    else:
        assert mean_over_ties[str(cut)].item() is not None
