"""Every metric has the same value as an expression, by rows and by columns, for all ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st

# Trees have several compilers, between which plans choose.
from polars_rank.evaluation import plan
from polars_rank.frames import tables
from polars_rank.frames.layouts import Lengths
from polars_rank import terms as t
from polars_rank.metrics.analyses import fits_columns
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.nodes import Value
from strategies import assert_close, every_metric, log_of, more_examples, random_lists, shuffled
from trees import Trees, above_zero_for_null, constant, infinite_at_3

#: Documents without labels and scores, and rankings without relevant documents.
LOG = log_of(random_lists(seed=34, queries=40))


GAINS = (above_zero_for_null, "exp2", {0: 0, 1: 1, 2: 1.5, 3: 7, 4: 8})
OWN_GAINS = [
    metric.alias(f"{metric.function.__name__} {k} {index}")
    for index, gain in enumerate(GAINS)
    for k in (2, None)
    for metric in (
        pr.cg(k, gain=gain),
        pr.dcg(k, gain=gain),
        pr.ideal_dcg(k, gain=gain),
        pr.ndcg(k, gain=gain),
        pr.ndcg(k, gain=gain, ideal="retrieved"),
    )
]
OWN_GAINS = [
    metric.alias(f"{metric.function.__name__} {metric.arguments.get('ideal')} {k} {index}")
    for index, gain in enumerate(GAINS)
    for k in (2, None)
    for metric in (*(build(k, gain=gain) for build in (pr.cg, pr.dcg, pr.ideal_dcg, pr.ndcg)),
                   pr.ndcg(k, gain=gain, ideal="retrieved"))
]  # fmt: skip
CHOICES = [
    *(pr.ndcg(k, gain="binary", ideal="full") for k in (2, None)),
    *(build(2, irrelevant="null") for build in (pr.precision, pr.dcg, pr.rbp)),
    pr.average_precision(2, norm="retrieved"),
]
METRICS = [*every_metric(3), *OWN_GAINS, *CHOICES]


TIES = ("doc", "doc_ascending", "best", "worst", "input")


@contextmanager
def forced(log: pl.DataFrame, *, columns: bool) -> Iterator[list[bool]]:
    """Evaluate all metrics by rows, or by columns those that fit; yield the evaluations so far."""
    used: list[bool] = []

    def are_faster(_: object) -> bool:
        used.append(columns)
        return columns

    rankings = log.group_by("query").len()["len"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "columns_are_faster", are_faster)
        patch.setattr(tables, "FEW_ROWS", 0)
        lengths = Lengths(["query"], log.height, len(rankings), rankings.max())
        patch.setattr(plan, "lengths_of", lambda *_: lengths)
        yield used


def assert_equal_by_all_compilers(
    log: pl.DataFrame, metrics: Sequence[Metric], ties: str
) -> pl.DataFrame:
    """Compare metrics as expressions, by rows and by columns, and return the values."""
    fitting = [metric for metric in metrics if fits_columns(metric.tree)]
    with forced(log, columns=False) as used:
        by_rows = pr.per_query(log, metrics, ties=ties, undefined="null")
    assert used
    expressions = pr.rank(log, ties=ties).group_by("query").agg(metrics).sort("query")
    assert_close(by_rows, expressions)
    if fitting:
        with forced(log, columns=True) as used:
            by_columns = pr.per_query(log, fitting, ties=ties, undefined="null")
        assert used
        assert_close(by_columns, expressions.select(by_columns.columns))
    return expressions


@pytest.mark.parametrize("ties", TIES)
def test_equal_by_all_compilers(ties: str) -> None:
    place = TIES.index(ties)
    # Other rules for ties change the order of documents only: each has a half of the metrics.
    assert_equal_by_all_compilers(LOG, METRICS[place % 2 :: 2] if place else METRICS, ties)


@more_examples
@given(seed=st.integers(0, 2**32), ties=st.sampled_from(TIES))
def test_random_trees_are_equal_by_all_compilers(seed: int, ties: str) -> None:
    columns = ["query", "doc", "score", "label", "dwell", "share", "click"]
    log = log_of(random_lists(seed, queries=25)).select(columns)
    log = pl.concat([log, pl.DataFrame({"query": [100, 101]})], how="diagonal")
    trees = Trees(seed)
    metrics = [Metric(lambda tree: tree, {"tree": trees.value()}, str(i)) for i in range(15)]
    assert_equal_by_all_compilers(shuffled(log, seed), metrics, ties)


#: One document; four documents of which one is not judged and one is not retrieved; none.
SMALL = pl.DataFrame({
    "query": [1, 2, 2, 2, 2, 3], "doc": [1, 1, 2, 3, 4, None],
    "score": [1.0, 4.0, 3.0, 2.0, None, None], "label": [0, 1, None, 2, 3, None],
})  # fmt: skip
OWN = {
    "ideal rank": (lambda: t.top(t.IDEAL_RANK).sum(), [1, 3 + 2, 0]),
    "ideal rank beyond a cutoff": (lambda: t.top(t.LABEL * t.IDEAL_RANK, 1).sum(), [0, 1 * 3, 0]),
    "ideal rank of all": (lambda: t.each(t.LABEL * t.IDEAL_RANK).sum(), [0, 3 + 2 * 2 + 3, 0]),
    "rank of all": (lambda: t.each(t.LABEL * t.RANK).sum(), [0, 1 + 2 * 3, 0]),
    "ranks of documents": (lambda: t.top(t.where(t.RANK > 2, 1.0)).sum(), [0, 1, 0]),
    "not retrieved": (lambda: t.each(t.RANK.is_null()).count(), [0, 1, 0]),
    "not relevant": (lambda: t.each(~t.relevant()).count(), [1, 1, 0]),
    "a number": (lambda: t.each(1.5).sum(), [1.5, 6, 0]),
    "null cutoff": (lambda: t.top(1.0, t.ratio(1.0, t.num_relevant())).sum(), [0, 0, 0]),
    "cutoff below 0": (lambda: t.top(1.0, t.num_retrieved() - 3).sum(), [0, 0, 0]),
    "fraction": (lambda: t.top(1.0, t.num_retrieved() * 0.9).sum(), [0, 2, 0]),
    "cutoff of a cutoff": (
        lambda: t.top(1.0, t.top(t.LABEL, t.num_relevant()).max()).sum(), [0, 2, 0],
    ),
    "infinite": (lambda: t.top(t.LABEL.log()).max(), [-math.inf, math.log(2), None]),
    "infinite weight": (lambda: t.top(t.LABEL, weight=infinite_at_3).sum(), [0, math.inf, 0]),
    "constant weight": (lambda: t.top(t.LABEL, weight=constant).sum(), [0, 2 * (1 + 2), 0]),
    "cutoff of NumPy": (lambda: t.top(t.LABEL, np.int64(1)).sum(), [0, 1, 0]),
}  # fmt: skip


def test_values_of_own_metrics() -> None:
    metrics = [Metric(tree, {}, name) for name, (tree, _) in OWN.items()]
    found = assert_equal_by_all_compilers(SMALL, metrics, "doc")
    assert found.select([*OWN]).to_dict(as_series=False) == {
        name: v for name, (_, v) in OWN.items()
    }


@pytest.mark.parametrize("ties", ["best", "worst"])
def test_mapped_gains_in_folds_of_many_rankings(ties: str) -> None:
    fold = Metric(lambda: t.fold(pl.Expr.sum, t.in_order(t.gain(GAINS[2]), 3)), {}, "x")
    found = assert_equal_by_all_compilers(LOG, [fold, pr.cg(3, gain=GAINS[2]).alias("y")], ties)
    assert found["x"].to_list() == found["y"].to_list()


def test_unjudged_documents_are_not_in_the_ideal_ranking() -> None:
    log = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [None, 1, None]})
    ideal = pr.ideal_dcg(gain=above_zero_for_null)
    assert pr.per_query(log, ideal).item(0, 1) == 2.0
    assert pr.rank(log).select(ideal).item() == 2.0
