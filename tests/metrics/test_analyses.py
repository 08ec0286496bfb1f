"""What metrics read, found out from their trees."""

from __future__ import annotations

import polars as pl
import polars_rank as pr

# What a metric reads shows in plans only: in which columns they keep, and in their order.
from polars_rank.metrics.analyses import depth, fits_columns, reads_labels, reads_order
from polars_rank.metrics.metric import tree_of

t = pr.terms


def test_depth() -> None:
    for names, deepest in (
        ("ndcg@10", 10), ("ndcg@10 p@20", 20), ("ndcg@10 ap", None), ("recall@5 rr@10", 10),
        ("ap@5", 5), ("rr", 0), ("rr p@3", 3), ("ndcg@10 bpref", None),
    ):  # fmt: skip
        assert depth(*(pr.metric(name).tree for name in names.split())) == deepest, names


def test_terms_of_documents_beyond_positions() -> None:
    for value, deepest, fits in (
        (t.top(t.LABEL * t.RANK, 3).sum(), 3, True),
        (t.top(t.LABEL * t.IDEAL_RANK, 3).sum(), None, False),
        (t.ideal_top("linear", "log2", 3).sum(), 3, True),
        (t.each(t.LABEL).max(), 0, True),
        (t.each(t.LABEL.is_null()).count(), 0, False),
        (t.each(1.0).sum(), 0, False),
    ):
        assert (depth(value), fits_columns(value)) == (deepest, fits), value


def test_reads_order() -> None:
    m = pr.metrics
    unordered = [m.classification_accuracy(), pr.fall_out(), m.mcc(), m.utility(), m.set_f(),
                 m.kendall_tau_b(), pr.num_relevant()]  # fmt: skip
    ordered = [m.classification_accuracy(3), pr.fall_out(3), m.mcc(3), pr.ndcg(), pr.ideal_dcg()]
    assert not any(reads_order(each.tree) for each in unordered)
    assert all(reads_order(each.tree) for each in ordered)


def test_reads_labels_and_fits_columns() -> None:
    for metric, labels, columns in (
        (pr.ndcg(3), True, True),
        (pr.average_precision(3), True, True),
        (pr.err(3), True, False),
        (pr.num_retrieved(), False, True),
        (pr.dcg(3, gain=lambda label: pl.lit(1.0)), False, True),
        (pr.metrics.popularity(3), False, False),
        (pl.col("label").mean(), True, False),
        (pl.col("rank").max(), False, False),
    ):
        value = tree_of(metric)
        assert (reads_labels(value), fits_columns(value)) == (labels, columns), metric
