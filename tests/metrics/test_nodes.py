"""Nodes: equal nodes are one node, and terms and values cannot be mixed."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import polars_rank as pr
import pytest

# A metric without a name of its own, and equality of trees, which decides what is computed once.
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.nodes import LiteralTerm, term_of

t = pr.terms


def test_equal_trees_are_one_key() -> None:
    for metric in (pr.ndcg, pr.average_precision, pr.err, pr.alpha_ndcg):
        one, same, other = metric(3).tree, metric(3).tree, metric(4).tree
        assert one == same and hash(one) == hash(same) and one != other
    assert term_of(True) != term_of(1.0)
    assert term_of(1) == term_of(1.0) == LiteralTerm(1.0, float)


def count(term: object) -> Callable[[], object]:
    return lambda: t.top(term).count()


MIXED = [
    (lambda: t.LABEL * t.num_relevant(), "combine terms .* found a value per ranking"),
    (lambda: t.num_relevant() * t.LABEL, "combine values .* found a term"),
    (lambda: t.top(t.num_relevant()), "combine terms .* found a value per ranking"),
    (lambda: t.where(t.relevant(), t.num_relevant()), "combine terms"),
    (lambda: t.ratio(t.LABEL, t.num_relevant()), "combine values .* found a term"),
    (lambda: t.fold(lambda label: label.sum(), t.LABEL), "read sequences"),
    (lambda: t.top(t.LABEL, t.RANK), "`k` must be a positive integer"),
    (lambda: t.top(t.LABEL, 3, "log3"), "`weight` must be"),
    (lambda: t.where(t.LABEL == 1, 1), "t.LABEL.equals"),
    (lambda: t.num_relevant() if t.num_relevant() > 3 else 0, "no truth value"),
    (lambda: t.top(t.LABEL) + 1, "not a value; reduce it with `sum`"),
    (lambda: 1 - t.top(t.LABEL), "not a value; reduce it with `sum`"),
    (lambda: t.top(t.LABEL) > t.num_relevant(), "not a value; reduce it with `sum`"),
    (lambda: 1 if t.top(t.relevant()) else 0, "not a value; reduce it with `sum`"),
    (lambda: t.num_relevant() - t.top(t.LABEL), "found a selection of documents; reduce"),
    (lambda: t.ratio(t.top(t.LABEL), t.num_relevant()), "found a selection of documents"),
    (lambda: t.top(t.LABEL, t.top(t.LABEL)), "`k` must be .* a selection of documents"),
    (lambda: t.num_retrieved(t.top(t.LABEL)), "`k` must be"),
    (lambda: t.require(t.top(t.LABEL), t.num_relevant() > 0, "none"), "a selection of doc"),
    (lambda: t.least(t.top(t.LABEL), 1), "`first` must be .* a selection of documents"),
    (lambda: t.fold(pl.Expr.sum, t.top(t.LABEL)), "read sequences.* a selection of documents"),
    (lambda: t.batch(pl.Series, list, x=t.top(t.LABEL)), "found a selection of documents"),
    (count(t.LABEL), r"`count` is for conditions.*t.top\(t.LABEL > 0\).count"),
    (count(t.where(t.relevant(), t.RANK)), "`count` is for conditions"),
    (count(t.column("price")), "`count` is for conditions"),
    (lambda: t.column("price", kind="text"), "`kind` must be one of 'number', 'count', 'as is'"),
    (lambda: t.column("price", high="1"), "`high` must be"),
    (lambda: t.in_ideal_order(t.RANK), "LABEL, gain, JUDGED and IDEAL_RANK only.* found 'rank'"),
    (lambda: t.in_ideal_order(t.LABEL * t.relevant()), "found 'relevant'"),
    (lambda: t.in_ideal_order(t.column("price")), "found 'price'"),
    (lambda: t.fold(pl.Expr.sum, t.in_order(t.LABEL), shares=[1]), "`shares` must be hashable"),
    (lambda: t.LABEL.map(pl.Expr.sum, shares=[1]), "`shares` must be hashable"),
    (lambda: t.batch(pl.Series, list, [1], x=t.LABEL), "`parameters` must be hashable"),
]


def test_terms_and_values_are_not_mixed() -> None:
    for mixed, said in MIXED:
        with pytest.raises(pr.errors.ArgumentError, match=said):
            mixed()


def test_conditions_of_columns_of_any_type() -> None:
    sale = t.column("sale", kind="as is")
    counts = Metric(lambda: t.top(sale).count() + t.top(sale.is_null()).count(), {}, "x")
    log = pl.DataFrame(
        {"query": 1, "score": [3.0, 2.0, 1.0], "label": 0, "sale": [True, False, None]}
    )
    assert pr.per_query(log, counts)["x"].to_list() == [2]
    assert pr.rank(log).select(counts).item() == 2
    wrong = log.with_columns(sale=pl.Series(["a", "b", "c"]))
    for evaluated in (lambda: pr.per_query(wrong, counts), lambda: pr.rank(wrong).select(counts)):
        with pytest.raises(pl.exceptions.PolarsError):
            evaluated()


def test_an_unknown_condition_does_not_hold() -> None:
    required = t.require(t.num_relevant(), t.top(t.LABEL).max() > 0, "no label above 0")
    log = pl.DataFrame(
        {"query": 1, "score": [2.0, 1.0], "label": [None, None]},
        schema_overrides={"label": pl.Int64},
    )
    with pytest.raises(pr.errors.DataError, match="no label above 0"):
        pr.per_query(log, Metric(lambda: required, {}, "x"))
