"""Errors survive pickling."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

SUMMARY = pl.DataFrame(
    {"metric": ["rr"], "mean": [0.5], "low": [0.4], "high": [0.6], "queries": [9]}
)


def failed_gate() -> pr.errors.RankError:
    with pytest.raises(pr.errors.GateFailed) as caught:
        pr.check(SUMMARY, ["rr > 0.9"])
    return caught.value


def invalid_rows() -> pr.errors.RankError:
    log = pl.DataFrame({"query": [1], "doc": [1], "score": [float("nan")], "label": [1]})
    with pytest.raises(pr.errors.DataError) as caught:
        pr.evaluate(log, "rr")
    return caught.value


ERRORS: list[Callable[[], pr.errors.RankError]] = [
    failed_gate,
    invalid_rows,
    lambda: pr.errors.DataError("rows", details=lambda: []),  # which are not counted
    lambda: pr.errors.ArgumentError("must be positive", "k"),
    lambda: pr.errors.MissingExtraError("package 'x' is not installed"),
    lambda: pr.errors.SchemaError("column 'x' not found"),
    lambda: pr.errors.SourceError("cannot read 'x'"),
]


def test_errors_survive_pickling() -> None:
    for build in ERRORS:
        error = build()
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
            assert type(again) is type(error)
            assert (str(again), again.parameter) == (str(error), error.parameter)
            if isinstance(error, pr.errors.GateFailed):
                assert_frame_equal(again.verdicts, error.verdicts)
            if isinstance(error, pr.errors.DataError):
                assert repr(again.findings) == repr(error.findings)
                assert str(again.explained()) == str(error)
