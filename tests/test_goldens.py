"""Results are equal to those that were frozen: see `goldens.py`."""

from __future__ import annotations

import math

import goldens
import polars as pl
import pytest

CASES = goldens.cases()
FROZEN = pl.read_parquet(goldens.FILE)


def test_each_case_is_frozen() -> None:
    assert set(FROZEN["case"].unique()) == set(CASES)


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
@pytest.mark.parametrize("case", CASES)
def test_results_are_equal_to_the_frozen_ones(case: str) -> None:
    frozen = FROZEN.filter(case=case)
    found = goldens.long(case, CASES[case]())
    assert found.select("row", "column").equals(
        frozen.select("row", pl.col("column").cast(pl.String))
    )
    both = found.with_columns(frozen=frozen["number"], before=frozen["text"])
    texts = both.filter(pl.col("text").ne_missing(pl.col("before")))
    assert texts.is_empty(), texts
    numbers = both.filter(pl.col("number").is_not_null() | pl.col("frozen").is_not_null())
    different = [
        each
        for each in numbers.select("row", "column", "number", "frozen").iter_rows()
        if not _is_equal(each[2], each[3])
    ]
    assert not different, different[:10]


def _is_equal(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
