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
LOG = random_log(21, GRADES, queries=300).with_columns(
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


@pytest.mark.parametrize("name", sorted(REGISTER))
def test_what_the_catalogue_says_of_ties(name: str) -> None:
    said = catalogue.ties(name)
    accepted = inspect.signature(REGISTER[name]).parameters
    needed = {key for key, each in accepted.items() if each.default is each.empty}
    values = {"k": 3, "max_grade": 4}
    whole = REGISTER[name](**{key: values[key] for key in needed})
    cut = REGISTER[name](**{key: values[key] for key in needed | (accepted.keys() & {"k"})})

    def follows_ties(metric: pr.Metric) -> bool:
        first, *others = (pr.per_query(LOG, metric.alias("v"), ties=ties)["v"] for ties in ORDERS)
        return not all(((first - each).abs().max() or 0) < 1e-9 for each in others)

    assert follows_ties(cut) == (said != "no part")
    assert follows_ties(whole) == (said != "no part" and not said.endswith("without `k`"))
    if "but `expected`" in said:
        with pytest.raises(pr.errors.ArgumentError, match="closed form"):
            pr.evaluate(LOG, cut, ties="expected")
    else:
        assert pr.evaluate(LOG, cut, ties="expected")[cut.output_name].item() is not None
