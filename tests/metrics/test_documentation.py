"""The documentation of metrics: docstrings, and the table of metrics."""

from __future__ import annotations

import pydoc
import re

import polars as pl
import polars_rank as pr
from markdown_it import MarkdownIt
from markdown_it.token import Token
from metric_texts import MetricTexts

# The registry of metrics, to test each of them.
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, define_metric, parameters_of
from polars_rank.terms import Value, num_retrieved, where


def test_every_metric_is_documented() -> None:
    for name in sorted(REGISTER):
        description, texts = described(REGISTER[name]), MetricTexts.of(REGISTER[name])
        assert description.definition.endswith(".") and description.source.endswith(".")
        values = "0.0 or 1.0 per ranking" if REGISTER[name].binary else "One Float64"
        assert texts.values.startswith(values)
        assert ("Never null." in texts.values) == (REGISTER[name].undefined is None)
        assert [*texts.parameters] == [*parameters_of(REGISTER[name])]
        assert all(text.endswith(".") for text in texts.parameters.values())
        assert texts.letters == "" or texts.letters.endswith(".")
        formula = description.formula
        assert formula and formula.count("{") == formula.count("}")
        # What Markdown would interpret, and words that would be rendered as products of letters.
        assert re.search(r"\\[{}\\,;!_]|[<>*`$~]", formula) is None
        plain = re.sub(r"\\mathrm\{[^{}]*\}|\\[a-z]+", "", formula)
        assert not re.search(r"[A-Za-z]{2}", plain)


def test_the_catalog_agrees_with_the_functions() -> None:
    table = pr.list_metrics()
    for row in table.iter_rows(named=True):
        build = REGISTER[row["metric"]]
        of_docstring = ("definition", "formula", "source")
        assert all(row[name] == getattr(described(build), name) for name in of_docstring)
        of_definition = ("low", "high", "binary", "undefined")
        assert all(row[name] == getattr(build, name) for name in of_definition)
        assert row["family"] == build.__module__.rpartition(".")[2]
        own = {"mean": "mean", "sum": "sum"}.get(build.aggregate, "geometric mean")
        assert row["aggregate"] == own
    known = pl.exclude("low", "high", "undefined", "counts_as")
    assert table.select(known.null_count()).row(0) == (0,) * 9
    gains = ["cg", "dcg", "g_measure", "ideal_dcg", "ndcg", "ndcg_rel", "rndcg"]
    assert table.filter(family="discounted_gain")["metric"].to_list() == gains


def test_a_metric_of_users_may_be_binary() -> None:
    try:

        @pr.define_metric(binary=True)
        def found() -> Value:
            """Found: 1 if a document was retrieved, otherwise 0.

            Returns
            -------
            Metric
                0.0 or 1.0 per ranking.
            """
            return where(num_retrieved() > 0, 1.0, 0.0)

        assert found().binary and pr.metric("found").binary
        assert 'by "expected", the value is the probability of 1.' in MetricTexts.of(found).values
        assert pr.list_metrics().filter(metric="found")["binary"].to_list() == [True]
    finally:
        REGISTER.pop("found", None)
