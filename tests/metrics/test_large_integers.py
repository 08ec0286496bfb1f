"""Integers that Float64 cannot hold exactly, or whose sums need more bits than their type."""

from __future__ import annotations

import polars as pl
import polars_rank as pr
import pytest

UNSIGNED = (pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128)
#: Types of integers, and four consecutive ones that Float64 does not tell apart.
FOUR = {
    pl.Int64: 2**54,
    pl.UInt64: 2**64 - 4,
    pl.Int128: 2**127 - 4,
    pl.UInt128: 2**128 - 4,
}
CORRELATIONS = ["spearman", "kendall_tau_b", "ordered_pair_accuracy"]


def one_ranking(**columns: object) -> pl.DataFrame:
    return pl.DataFrame({"query": 1, "doc": [*"abcd"], **columns})


@pytest.mark.parametrize("dtype", [*FOUR, pl.Decimal(38, 0)])
def test_mean_over_orders_of_ties_of_large_labels(dtype: type[pl.DataType]) -> None:
    # 5 x 2^61 and 5 x 2^63 exceed Int64 and UInt64.
    for label in (2**61, 2**62 if dtype == pl.Int64 else 2**63):
        log = pl.DataFrame({"query": 1, "score": [1] * 5, "label": [label] * 5})
        log = log.with_columns(pl.lit(label, dtype).alias("label"))
        found = pr.evaluate(log, ["ndcg@1", "ndcg", "cg@2"], ties="expected")
        assert found.row(0)[1:] == pytest.approx((1.0, 1.0, 2 * label), rel=1e-12)


@pytest.mark.parametrize("dtype", FOUR)
def test_correlations_tell_large_integers_apart(dtype: type[pl.DataType]) -> None:
    large = pl.Series([FOUR[dtype] + i for i in (3, 2, 1, 0)], dtype=dtype)
    for log in (
        one_ranking(score=large, label=[3, 2, 1, 0]),
        one_ranking(score=[4.0, 3.0, 2.0, 1.0], label=large),
    ):
        expected = (1.0, 1.0, 1.0)
        assert pr.per_query(log, CORRELATIONS).row(0)[1:] == pytest.approx(expected)
        plain = pr.rank(log).select(map(pr.metric, CORRELATIONS))
        assert plain.row(0) == pytest.approx(expected)


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_lower_unsigned_integers_are_better(dtype: type[pl.DataType]) -> None:
    log = one_ranking(distance=pl.Series([0, 1, 2, 255], dtype=dtype), label=[3, 2, 1, 0])
    found = pr.evaluate(log, ["spearman", "rr", "roc_auc"], score="-distance")
    assert found.row(0)[1:] == pytest.approx((1.0, 1.0, 1.0))
