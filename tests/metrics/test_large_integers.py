"""Integers that Float64 cannot hold exactly, or whose sums need more bits than their type."""

from __future__ import annotations

import polars as pl
import polars_rank as pr
import pytest

#: Types of integers, and four consecutive ones that Float64 does not tell apart.
FOUR = {pl.Int64: 2**54, pl.UInt64: 2**64 - 4, pl.Int128: 2**127 - 4, pl.UInt128: 2**128 - 4}
CORRELATIONS = ["spearman", "kendall_tau_b", "ordered_pair_accuracy"]


def one_ranking(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"query": 1, "doc": [*"abcd"], **columns})


def test_mean_over_orders_of_ties_of_large_labels() -> None:
    # 5 x 2^61 and 5 x 2^63 exceed Int64 and UInt64.
    for dtype in (*FOUR, pl.Decimal(38, 0)):
        for label in (2**61, 2**62 if dtype == pl.Int64 else 2**63):
            log = pl.DataFrame({"query": 1, "score": [1] * 5}).with_columns(
                label=pl.lit(label, dtype)
            )
            found = pr.evaluate(log, ["ndcg@1", "ndcg", "cg@2"], ties="expected")
            assert found.row(0)[1:] == pytest.approx((1.0, 1.0, 2 * label), rel=1e-12)


def test_correlations_tell_large_integers_apart() -> None:
    for dtype, low in FOUR.items():
        large = pl.Series([low + i for i in (3, 2, 1, 0)], dtype=dtype)
        for log in (
            one_ranking(score=large, label=[3, 2, 1, 0]),
            one_ranking(score=[4.0, 3.0, 2.0, 1.0], label=large),
        ):
            plain = pr.rank(log).select(map(pr.metric, CORRELATIONS))
            for row in (pr.per_query(log, CORRELATIONS).row(0)[1:], plain.row(0)):
                assert row == pytest.approx((1.0, 1.0, 1.0))


def test_lower_unsigned_integers_are_better() -> None:
    for dtype in (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128):
        log = one_ranking(distance=pl.Series([0, 1, 2, 255], dtype=dtype), label=[3, 2, 1, 0])
        found = pr.evaluate(log, ["spearman", "rr", "roc_auc"], score="-distance")
        assert found.row(0)[1:] == pytest.approx((1.0, 1.0, 1.0))
