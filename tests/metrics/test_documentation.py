"""The documentation of metrics: docstrings, notebooks, and the table of metrics."""

from __future__ import annotations

import pydoc
import re

import polars as pl
import polars_rank as pr
from markdown_it import MarkdownIt
from markdown_it.token import Token
from polars_rank.metrics.documentation import described, displayed
from polars_rank.metrics.metric import REGISTER, define_metric, parameters_of
from polars_rank.terms import Value, num_retrieved, where
from strategies import every_metric


def test_every_metric_is_documented() -> None:
    for name in sorted(REGISTER):
        description = described(REGISTER[name])
        assert description.definition.endswith(".") and description.source.endswith(".")
        values = "0.0 or 1.0 per ranking" if REGISTER[name].binary else "One Float64"
        assert description.values.startswith(values)
        assert ("Never null." in description.values) == (REGISTER[name].undefined is None)
        assert [*description.parameters] == [*parameters_of(REGISTER[name])]
        assert all(text.endswith(".") for text in description.parameters.values())
        assert description.letters == "" or description.letters.endswith(".")
        formula = description.formula
        assert formula and formula.count("{") == formula.count("}")
        # What Markdown would interpret, and words that would be rendered as products of letters.
        assert re.search(r"\\[{}\\,;!_]|[<>*`$~]", formula) is None
        plain = re.sub(r"\\mathrm\{[^{}]*\}|\\[a-z]+", "", formula)
        assert not re.search(r"[A-Za-z]{2}", plain)


def test_a_notebook_shows_name_formula_and_parameters() -> None:
    for metric in every_metric(10):
        shown = metric._repr_markdown_()
        description = described(metric.definition)
        formula = displayed(description.formula)
        assert shown.startswith(f"`{metric}`: {description.definition}\n\n{formula}\n\n")
        for part in (description.letters, description.values, description.source):
            assert part in shown
        values = {**parameters_of(metric), **metric.arguments}
        for key in values.keys() & {"k", "rel", "max_grade"}:
            assert f"\n- `{key} = {values[key]!r}`: {description.parameters[key]}" in shown
        assert shown.count("\n- `") == len(values)
    assert pr.metric("MAP")._repr_markdown_().startswith("`average_precision` as `MAP`: ")
    assert "`gain = 'exp2'`" in pr.metric("ndcg_burges@5")._repr_markdown_()


def test_a_notebook_shows_the_metrics_that_a_metric_combines() -> None:
    shown = (pr.ndcg(10) - pr.precision(1) / pr.ndcg(10))._repr_markdown_()
    assert shown.startswith("`(ndcg@10 - (precision@1 / ndcg@10))` combines\n\n`ndcg@10`: ")
    counts = {"\n`ndcg@10`: ": 1, "\n`precision@1`: ": 1, "$$": 4, "conventions of the call": 1}
    assert {part: shown.count(part) for part in counts} == counts
    assert displayed(r"x_r = \mathrm{label}_r") == "$$\nx_r = \\mathrm{label}_ r\n$$"


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


def test_metrics_of_users() -> None:
    try:

        @define_metric()
        def own(*, weight: float = 1) -> Value:
            """Own: the weight."""
            return num_retrieved() * 0 + weight

        @pr.define_metric(binary=True)
        def found() -> Value:
            """Found: 1 if a document was retrieved, otherwise 0.

            Returns
            -------
            Metric
                0.0 or 1.0 per ranking.
            """
            return where(num_retrieved() > 0, 1.0, 0.0)

        shown = own(weight=0.5)._repr_markdown_()
        assert shown.startswith("`own(weight=0.5)`: Own: the weight.")
        assert "- `weight = 0.5`" in shown  # which the docstring does not describe
        assert found().binary and pr.metric("found").binary
        assert 'by "expected", the value is the probability of 1.' in described(found).values
        assert pr.list_metrics().filter(metric="found")["binary"].to_list() == [True]
    finally:
        for name in ("own", "found"):
            REGISTER.pop(name, None)
