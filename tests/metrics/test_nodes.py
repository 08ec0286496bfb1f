"""Nodes: equal nodes are one node, and terms and values cannot be mixed."""

from __future__ import annotations

from collections.abc import Callable

import polars_rank as pr
import pytest
from polars_rank.metrics.nodes import LiteralTerm, term_of

t = pr.terms


@pytest.mark.parametrize("metric", [pr.ndcg, pr.average_precision, pr.err, pr.alpha_ndcg])
def test_equal_trees_are_one_key(metric: Callable) -> None:
    one, same, other = metric(3).tree, metric(3).tree, metric(4).tree
    assert one == same and hash(one) == hash(same) and one != other
    assert len({one, same, other}) == 2


def test_true_and_one_are_different_nodes() -> None:
    assert term_of(True) != term_of(1.0)
    assert term_of(1) == term_of(1.0) == LiteralTerm(1.0, float)


@pytest.mark.parametrize(
    ("mixed", "said"),
    [
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
    ],
)
def test_terms_and_values_are_not_mixed(mixed: Callable[[], object], said: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=said):
        mixed()
