"""The documentation of metrics: docstrings, and the table of metrics."""

from __future__ import annotations

import pydoc
import re

import polars as pl
import polars_rank as pr
from metric_texts import MetricTexts
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, parameters_of
from polars_rank.terms import Value, num_retrieved, where

#: Parts of a formula that Markdown would interpret before the formula is rendered.
MARKDOWN = re.compile(r"\\[{}\\,;!_]|[<>*`$~]")
#: The LaTeX commands in formulas.
COMMANDS = set(
    r"""\mathrm \frac \sum \prod \max \min \ln \log \sqrt \left \right \lbrace \rbrace \lfloor
    \rfloor \cdot \le \ge \lt \gt \ne \in \cap \propto \qquad \textstyle \tau \rho \pi \alpha
    \beta \gamma \epsilon \phi""".split()
)


def test_every_metric_is_documented() -> None:
    for name in sorted(REGISTER):
        description, texts = described(REGISTER[name]), MetricTexts.of(REGISTER[name])
        assert len(description.definition) < 80
        assert description.definition.endswith(".") and description.source.endswith(".")
        values = "0.0 or 1.0 per ranking" if REGISTER[name].binary else "One Float64"
        assert texts.values.startswith(values)
        assert ("Never null." in texts.values) == (REGISTER[name].undefined is None)
        assert texts.values.count("`ties` rule of `evaluate`") == 1
        assert [*texts.parameters] == [*parameters_of(REGISTER[name])]
        assert all(text.endswith(".") for text in texts.parameters.values())
        assert texts.letters == "" or texts.letters.endswith(".")


def test_help_shows_all_parameters() -> None:
    for metric in (pr.ndcg, pr.metrics.dcg, pl.DataFrame().ranking.err):  # type: ignore[attr-defined]
        text = pydoc.render_doc(metric, renderer=pydoc.plaintext)
        assert "Cutoff, a positive integer." in text and "-> Metric" in text.replace(
            "polars_rank.metrics.metric.", ""
        )


def test_formulas_are_latex_that_markdown_leaves_alone() -> None:
    for name in sorted(REGISTER):
        formula = described(REGISTER[name]).formula
        assert formula
        assert MARKDOWN.search(formula) is None
        assert formula.count("{") == formula.count("}")
        assert formula.count(r"\left") == formula.count(r"\right")
        assert set(re.findall(r"\\[a-z]+", formula)) <= COMMANDS
        # A word outside of \mathrm would be rendered as a product of its letters.
        assert not re.search(r"[A-Za-z]{2}", re.sub(r"\\mathrm\{[^{}]*\}|\\[a-z]+", "", formula))


def test_the_catalog_agrees_with_the_functions() -> None:
    table = pr.list_metrics()
    for row in table.iter_rows(named=True):
        build = REGISTER[row["metric"]]
        description = described(build)
        assert (row["definition"], row["formula"], row["source"]) == (
            description.definition,
            description.formula,
            description.source,
        )
        assert (row["low"], row["high"], row["binary"], row["undefined"]) == (
            build.low,
            build.high,
            build.binary,
            build.undefined,
        )
        assert row["family"] == build.__module__.rpartition(".")[2]
    known = pl.exclude("low", "high", "undefined", "counts_as")
    assert table.select(known.null_count()).row(0) == (0,) * 9
    aggregates = dict(
        table.filter(pl.col("aggregate") != "mean").select("metric", "aggregate").rows()
    )
    assert aggregates == {
        name: "geometric mean" if name.startswith("log_") else "sum"
        for name, build in REGISTER.items()
        if build.aggregate != "mean" and build.__module__.startswith("polars_rank.")
    }
    assert table.filter(family="discounted_gain")["metric"].to_list() == [
        "cg",
        "dcg",
        "g_measure",
        "ideal_dcg",
        "ndcg",
        "ndcg_rel",
        "rndcg",
    ]


def test_a_users_metric_may_be_binary() -> None:
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
