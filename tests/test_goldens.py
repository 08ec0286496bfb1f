"""Results are equal to those that were frozen: see `goldens.py`."""

from __future__ import annotations

import math
from collections import defaultdict

import goldens
import polars as pl
import pytest

CASES = goldens.cases()
FROZEN = pl.read_parquet(goldens.FILE)
#: Cases by function, and evaluations by preset.
GROUPS: dict[str, list[str]] = defaultdict(list)
for _case in CASES:
    _function, _log, _preset = [*_case.split(" ", 2), "", ""][:3]
    GROUPS[f"evaluate {_preset}" if _function == "evaluate" else _function].append(_case)


def test_each_case_is_frozen() -> None:
    assert set(FROZEN["case"].unique()) == set(CASES)


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
@pytest.mark.parametrize("group", GROUPS)
def test_results_are_equal_to_the_frozen_ones(group: str) -> None:
    different = []
    for case in GROUPS[group]:
        frozen = FROZEN.filter(case=case)
        found = goldens.long(case, CASES[case]())
        places = frozen.select("row", pl.col("column").cast(pl.String))
        assert found.select("row", "column").equals(places), case
        both = found.with_columns(frozen=frozen["number"], before=frozen["text"])
        texts = both.filter(pl.col("text").ne_missing(pl.col("before")))
        different += [(case, *row) for row in texts.rows()]
        numbers = both.select("row", "column", "number", "frozen")
        different += [(case, *row) for row in numbers.rows() if not _is_equal(*row[2:])]
    assert not different, different[:10]


def _is_equal(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12) or (math.isnan(a) and math.isnan(b))
