"""What is said of every metric: in its docstring, in a notebook, in the catalogue."""

from __future__ import annotations

import re

import polars as pl
import polars_rank as pr
import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from polars_rank.metrics.documentation import described, displayed
from polars_rank.metrics.metric import REGISTER, metric, parameters_of
from polars_rank.metrics.terms import Terms, Value
from strategies import every_metric

#: Of a formula: what Markdown would take for its own before the mathematics is read.
TAKEN = re.compile(r"\\[{}\\,;!_]|[<>*`$~]")
#: The LaTeX that formulas are made of.
KNOWN = set(
    r"""\mathrm \frac \sum \prod \max \min \ln \log \sqrt \left \right \lbrace \rbrace \lfloor
    \rfloor \cdot \le \ge \lt \gt \ne \in \cap \propto \qquad \textstyle \tau \rho \pi \beta
    \epsilon""".split()
)


def parsed(text: str) -> list[Token]:
    """Return every element of a text, those inside others among them."""
    tokens = MarkdownIt("commonmark").parse(text)
    return [each for token in tokens for each in (token, *(token.children or []))]


@pytest.mark.parametrize("name", sorted(REGISTER))
def test_every_metric_says_what_it_is(name: str) -> None:
    said = described(REGISTER[name])
    assert said.definition.endswith(".") and said.source.endswith(".")
    assert said.values.startswith(("One Float64", "0.0 or 1.0 per list"))
    assert [*said.parameters] == [*parameters_of(REGISTER[name])]
    assert all(text.endswith(".") for text in said.parameters.values())
    assert said.letters == "" or said.letters.endswith(".")


@pytest.mark.parametrize("name", sorted(REGISTER))
def test_formulas_are_latex_that_markdown_leaves_alone(name: str) -> None:
    formula = described(REGISTER[name]).formula
    assert formula
    assert TAKEN.search(formula) is None
    assert formula.count("{") == formula.count("}")
    assert formula.count(r"\left") == formula.count(r"\right")
    assert set(re.findall(r"\\[a-z]+", formula)) <= KNOWN
    # A word outside of \mathrm would be a product of its letters.
    assert not re.search(r"[A-Za-z]{2}", re.sub(r"\\mathrm\{[^{}]*\}|\\[a-z]+", "", formula))


@pytest.mark.parametrize("metric", every_metric(10), ids=str)
def test_a_notebook_shows_name_formula_and_parameters(metric: pr.Metric) -> None:
    shown = metric._repr_markdown_()
    said = described(metric.definition)
    assert shown.startswith(f"`{metric}`: {said.definition}\n\n{displayed(said.formula)}\n\n")
    for part in (said.letters, said.values, said.source):
        assert part in shown
    values = {**parameters_of(metric), **metric.arguments}
    for key in ("k", "rel", "max_grade"):
        if key in values:
            assert f"\n- `{key} = {values[key]!r}`: {said.parameters[key]}" in shown
    kinds = [token.type for token in parsed(shown)]
    assert kinds.count("list_item_open") == len(values)
    assert not {"em_open", "strong_open", "html_inline", "html_block", "heading_open"} & set(kinds)


def test_a_notebook_shows_what_a_metric_is_made_of() -> None:
    shown = (pr.ndcg(10) - pr.precision(1) / pr.ndcg(10))._repr_markdown_()
    assert shown.startswith("`(ndcg@10 - (precision@1 / ndcg@10))` is made of\n\n`ndcg@10`: ")
    assert shown.count("\n`ndcg@10`: ") == shown.count("\n`precision@1`: ") == 1
    assert shown.count("$$") == 4
    assert shown.count("conventions of the call") == 1


def test_a_notebook_shows_the_name_that_was_asked_for() -> None:
    assert pr.metric("MAP")._repr_markdown_().startswith("`average_precision` as `MAP`: ")
    assert "`gain = 'exp2'`" in pr.metric("ndcg_burges@5")._repr_markdown_()


def test_the_catalogue_says_what_the_functions_say() -> None:
    table = pr.list_metrics()
    for row in table.iter_rows(named=True):
        build = REGISTER[row["metric"]]
        said = described(build)
        assert (row["definition"], row["formula"], row["source"]) == (
            said.definition,
            said.formula,
            said.source,
        )
        assert (row["low"], row["high"], row["undefined"]) == (
            build.low,
            build.high,
            build.undefined,
        )
        assert row["family"] == build.__module__.rpartition(".")[2]
    assert table.select(pl.exclude("low", "high", "undefined").null_count()).row(0) == (0,) * 7
    assert table.filter(family="gains")["metric"].to_list() == ["cg", "dcg", "ideal_dcg", "ndcg"]


def test_a_formula_is_a_block_of_its_own() -> None:
    assert displayed(r"x_r = \mathrm{label}_r") == "$$\nx_r = \\mathrm{label}_ r\n$$"


def test_a_metric_of_ones_own_may_leave_parameters_undocumented() -> None:
    try:

        @metric()
        def own(t: Terms, *, weight: float = 1) -> Value:
            """Own: the weight."""
            return t.retrieved(None) * 0 + weight

        assert own(weight=0.5)._repr_markdown_().startswith("`own(weight=0.5)`: Own: the weight.")
        assert "- `weight = 0.5`" in own(weight=0.5)._repr_markdown_()
    finally:
        REGISTER.pop("own", None)
