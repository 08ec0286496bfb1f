"""Which direction is better: of metrics, and of what multiples, sums and aliases make of them."""

from __future__ import annotations

import polars as pl
import polars_rank as pr
import pytest

LOW, HIGH = pr.fall_out(2), pr.ndcg(2)


def test_lower_is_better() -> None:
    share = pr.metrics.max_share(2)
    for metric in (
        LOW, LOW.alias("junk@2"), LOW * 1, 2 * LOW, LOW / 3, LOW + 1, LOW - 1, LOW + share,
        (LOW + share) / 2, LOW - HIGH, -HIGH, 1 - HIGH, HIGH * -2, HIGH / -0.5,
        -(1 - LOW), LOW.fill_null(0), LOW.round(2), LOW.cast(pl.Float32), (1 - HIGH).alias("miss"),
    ):  # fmt: skip
        assert metric.lower_is_better, metric


def test_higher_is_better_or_the_direction_is_unknown() -> None:
    for metric in (
        HIGH, HIGH.alias("quality"), 1 - LOW, -LOW, LOW * -1, LOW / -2, HIGH - LOW, HIGH + HIGH,
        1 - -HIGH,
        # Unknown.
        LOW + HIGH, HIGH - HIGH, LOW * LOW, LOW / HIGH, 1 / LOW, LOW * 0,
    ):  # fmt: skip
        assert not metric.lower_is_better, metric
