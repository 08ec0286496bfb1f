"""What metrics read, found out from their trees."""

from __future__ import annotations

import polars_rank as pr
import pytest
from polars_rank.metrics.analyses import depth, fits_columns, reads_labels, reads_order
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.nodes import Value
import polars as pl

t = pr.terms


@pytest.mark.parametrize(
    ("metrics", "deepest"),
    [
        (["ndcg@10"], 10),
        (["ndcg@10", "p@20"], 20),
        (["ndcg@10", "ap"], None),
        (["recall@5", "rr@10"], 10),
        (["ap@5"], 5),
        (["rr"], 0),
        (["rr", "p@3"], 3),
        (["ndcg@10", "bpref"], None),
    ],
)
def test_depth(metrics: list[str], deepest: int | None) -> None:
    assert depth(*(pr.metric(name).tree for name in metrics)) == deepest


@pytest.mark.parametrize(
    ("value", "deepest", "fits"),
    [
        (t.top(t.LABEL * t.RANK, 3).sum(), 3, True),
        (t.top(t.LABEL * t.IDEAL_RANK, 3).sum(), None, False),
        (t.ideal_top("linear", "log2", 3).sum(), 3, True),
        (t.each(t.LABEL).max(), 0, True),
        (t.each(t.LABEL.is_null()).count(), 0, False),
        (t.each(1.0).sum(), 0, False),
    ],
)
def test_terms_of_documents_beyond_positions(value: Value, deepest: int | None, fits: bool) -> None:
    assert (depth(value), fits_columns(value)) == (deepest, fits)


@pytest.mark.parametrize(
    ("metric", "ordered"),
    [
        *(
            (each, False)
            for each in (
                pr.metrics.classification_accuracy(),
                pr.fall_out(),
                pr.metrics.mcc(),
                pr.metrics.utility(),
            )
        ),
        *(
            (each, True)
            for each in (pr.metrics.classification_accuracy(3), pr.fall_out(3), pr.metrics.mcc(3))
        ),
        (pr.num_relevant(), False),
        (pr.metrics.set_f(), False),
        (pr.ndcg(), True),
        (pr.ideal_dcg(), True),
        (pr.metrics.kendall_tau_b(), False),
    ],
    ids=str,
)
def test_reads_order(metric: Metric, ordered: bool) -> None:
    assert reads_order(metric.tree) == ordered


@pytest.mark.parametrize(
    ("metric", "labels", "columns"),
    [
        (pr.ndcg(3), True, True),
        (pr.average_precision(3), True, True),
        (pr.err(3), True, False),
        (pr.num_retrieved(), False, True),
        (pr.dcg(3, gain=lambda label: pl.lit(1.0)), False, True),
        (pr.metrics.popularity(3), False, False),
        (pl.col("label").mean(), True, False),
        (pl.col("rank").max(), False, False),
    ],
    ids=str,
)
def test_reads_labels_and_fits_columns(metric: pl.Expr, labels: bool, columns: bool) -> None:
    value = tree_of(metric)
    assert (reads_labels(value), fits_columns(value)) == (labels, columns)
