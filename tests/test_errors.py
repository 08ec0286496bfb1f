"""Errors: what they say, and that they survive pickling."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

VALUES = pl.DataFrame(
    {"run": ["a", "a", "b", "b"], "query": [1, 2, 1, 2], "rr": [0.5, 1.0, 0.3, 0.4]}
)
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


ERRORS: dict[str, Callable[[], pr.errors.RankError]] = {
    "a failed gate": failed_gate,
    "invalid rows": invalid_rows,
    "details that are not counted": lambda: pr.errors.DataError("rows", details=lambda: []),
    "an argument": lambda: pr.errors.ArgumentError("must be positive", "k"),
    "a missing package": lambda: pr.errors.MissingExtraError("package 'x' is not installed"),
    "a schema": lambda: pr.errors.SchemaError("column 'x' not found"),
    "a source": lambda: pr.errors.SourceError("cannot read 'x'"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_survive_pickling(name: str) -> None:
    error = ERRORS[name]()
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert (str(again), again.parameter) == (str(error), error.parameter)
        if isinstance(error, pr.errors.GateFailed):
            assert_frame_equal(again.verdicts, error.verdicts)
        if isinstance(error, pr.errors.DataError):
            assert repr(again.findings) == repr(error.findings)
            assert str(again.explained()) == str(error)


def test_a_gate_fails_in_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        future = pool.submit(pr.check, SUMMARY, ["rr > 0.9"])
        with pytest.raises(pr.errors.GateFailed) as caught:
            future.result()
    assert caught.value.verdicts["verdict"].to_list() == ["fail"]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("movers", "use pr.diagnostics.movers"),
        ("exclude_seen", "use pr.catalog.exclude_seen"),
        ("SchemaError", "use pr.errors.SchemaError"),
        ("TREC_EVAL", "use pr.conventions.TREC_EVAL"),
        ("mrr", r"use reciprocal_rank\(\)"),
    ],
)
def test_names_of_submodules_have_a_hint(name: str, remedy: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}'; {remedy}$"):
        getattr(pr, name)
    assert not hasattr(pr, "_inner")


LISTS = VALUES.with_columns(run=pl.concat_list("run"))
WORDS = pl.DataFrame(
    {"query": [1, 1], "doc": ["d", "d"], "judge": ["x", "y"], "label": ["good", "bad"]}
)
CALLS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "several tables": (
        lambda: pr.fuse([VALUES, VALUES]),
        pr.errors.ArgumentError,
        "pass one table: put the tables together with pl.concat",
    ),
    "several baselines": (
        lambda: pr.compare(VALUES, baseline=["a", "b"]),
        pr.errors.ArgumentError,
        "`baseline` must be a value of the column 'run'.*call the function for each of the runs$",
    ),
    "lists as runs in compare": (
        lambda: pr.compare(LISTS, baseline="a"),
        pr.errors.SchemaError,
        r"column 'run' \(`run`\) must have one id per row; found List\(String\); convert it to",
    ),
    "lists as runs in power": (
        lambda: pr.power(LISTS.lazy(), baseline=["a"]),
        pr.errors.SchemaError,
        r"column 'run' \(`run`\) must have one id per row; found List\(String\); convert it to",
    ),
    "words as labels": (
        lambda: pr.judges.agreement(WORDS),
        pr.errors.SchemaError,
        r"column 'label' \(`label`\) must be numeric; found String; .*"
        r"replace words by numbers, as in \.replace_strict\({'no': 0, 'yes': 1}\)",
    ),
    "the name of a correction in statsmodels": (
        lambda: pr.compare(VALUES, baseline="a", correction="fdr_bh"),  # type: ignore[arg-type]
        pr.errors.ArgumentError,
        "`correction` must be True or False; found 'fdr_bh'",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_messages_say_what_to_do(name: str) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message):
        call()
