"""The options that functions pass on to `evaluate` are its parameters."""

from __future__ import annotations

from functools import partial
from inspect import signature
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

from polars_rank.conventions import Definitions

# Options that functions pass on, which types check.
from polars_rank.evaluation.log import EvaluateOptions, RankingOptions


def typed(options: Any) -> dict[str, str]:
    """Return the types of options by their names, as they are written."""
    return {name: each.__forward_arg__ for name, each in options.__annotations__.items()}


def parameters(function: Any, *omitted: str) -> dict[str, str]:
    """Return the types of keyword parameters by their names, as they are written."""
    described = signature(function).parameters.values()
    named = [each for each in described if each.kind is each.KEYWORD_ONLY]
    return {each.name: each.annotation for each in named if each.name not in omitted}


def test_options_are_those_of_evaluate() -> None:
    fields = typed(Definitions)
    assert typed(EvaluateOptions) == {**parameters(pr.evaluate, "progress"), **fields}
    assert typed(RankingOptions) == {**parameters(pr.per_query, "keep", "progress"), **fields}
    assert {*fields} == {*pr.Conventions.__dataclass_fields__} - {"name"}


@pytest.mark.filterwarnings("ignore:fewer than 30 queries")
def test_conventions_as_keywords_and_as_a_dictionary() -> None:
    log = pr.datasets.search_log(20, runs=["a", "b"], seed=1).collect()
    own = pr.Conventions(ties="worst", rel=2)
    expected = pr.evaluate(log, "ap", conventions=own)
    assert pr.evaluate(log, "ap", conventions={"ties": "worst", "rel": 2}).equals(expected)
    assert pr.evaluate(log, "ap", conventions={"rel": 2}, ties="worst").equals(expected)
    of_trec_eval = pr.conventions.TREC_EVAL.but(rel=2)
    found = pr.evaluate(log, "ap", conventions={"base": "trec_eval", "rel": 2})
    assert found.equals(pr.evaluate(log, "ap", conventions=of_trec_eval))
    assert pr.explain("ap", rel=2) == pr.explain("ap", pr.Conventions(rel=2))
    tuned = pr.tune_fusion(log, "ap", "sum", step=0.5, rel=2)
    assert tuned.equals(pr.tune_fusion(log, "ap", "sum", step=0.5, conventions={"rel": 2}))


def test_dictionaries_that_are_no_conventions() -> None:
    for conventions, message in (
        ({"name": "trec_eval"}, "the key 'name', which does not choose a preset"),
        ({"tie": "doc"}, "invalid choice 'tie'.*Did you mean 'ties'"),
        ({"base": "trec"}, "unknown preset 'trec'"),
        ("RecBole", "see the page tasks/recbole of the guide"),
        ({"ties": "random"}, "`ties` must be one of"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.evaluate(LOG, "rr", conventions=conventions)


LOG = pl.DataFrame({"query": 1, "doc": ["a", "b"], "score": [2.0, 1.0], "label": [0, 1]})


def test_an_unknown_option_has_a_hint() -> None:
    runs = LOG.with_columns(run=pl.lit("a"))
    for function in (
        partial(pr.evaluate, LOG, "rr"),
        partial(pr.per_query, LOG, "rr"),
        partial(pr.rank_curve, LOG, "ndcg", [1]),
        partial(pr.grouped_auc, LOG),
        partial(pr.diagnostics.tie_bands, LOG, "rr"),
        partial(pr.diagnostics.judgment_bounds, LOG, "rr"),
        partial(pr.diagnostics.headroom, LOG, "rr"),
        partial(pr.diagnostics.movers, runs, "rr", baseline="a"),
    ):
        for wrong, right in (("group_by", "by"), ("querry", "query")):
            message = f"no parameter `{wrong}`. Did you mean `{right}`"
            with pytest.raises(pr.errors.ArgumentError, match=message):
                function(**{wrong: "run"})
