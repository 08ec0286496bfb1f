"""Known differences between tools and polars_rank, from `differences.json`.

`log` has the query, score and label of documents d0, d1, …, with more `columns` or other `docs`.
`values` are means by preset and metric, as arithmetic, and `gives` what code of the tool returns, or
an error. The log and the functions that evaluate it with tools are `log` and `peers`, and the module
is `peer`. What is not a table is in the function that `test` names.
"""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

from . import peers
from .recorded_logs import metric

_FILE = Path(__file__).with_name("differences.json")
DIFFERENCES: list[dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))


def of_group(group: str) -> list[Any]:
    """Return the differences whose tool is in a group of dependencies."""
    return [
        pytest.param(each, id=each["title"])
        for each in DIFFERENCES
        if "tool" in each and each["tool"].get("group", "conformance") == group
    ]


def log_of(rows: list[list[Any]], docs: list[str] | None = None, **columns: Any) -> pl.DataFrame:
    """Return a log of queries, scores and labels, without the column of labels if there are none."""
    query, *others = (list(column) for column in zip(*rows, strict=True))
    named = dict(zip(("score", "label"), others, strict=False))
    docs = docs or [f"d{at}" for at in range(len(rows))]
    return pl.DataFrame({"query": [*map(str, query)], "doc": docs, **named, **columns})


def frame(difference: dict[str, Any]) -> pl.DataFrame:
    columns = difference.get("columns", {})
    return log_of(difference["log"], difference.get("docs"), **columns)


def number(value: Any) -> Any:
    """Return what a text of arithmetic, or the texts of a dictionary, compute."""
    if isinstance(value, dict):
        return {key: number(each) for key, each in value.items()}
    return eval(value, {"log2": math.log2, "nan": math.nan}) if isinstance(value, str) else value


def mean(log: pl.DataFrame, name: str, preset: str) -> float | None:
    conventions = getattr(pr.conventions, preset)
    value: float | None = pr.evaluate(log, metric(name), conventions=conventions).item(0, -1)
    return value


def is_equal(found: Any, expected: Any) -> bool:
    if isinstance(expected, dict):
        both = found.keys() == expected.keys()
        return both and all(is_equal(found[key], expected[key]) for key in expected)
    return found is expected or bool(found == pytest.approx(expected, rel=1e-9, nan_ok=True))


def check_tool(difference: dict[str, Any]) -> None:
    """Check what a tool computes, or the error that it raises."""
    tool = difference["tool"]
    names = {"log": frame(difference), "peers": peers, "peer": import_module(tool["module"])}
    for code, expected in tool["gives"].items():
        if isinstance(expected, str) and "Error: " in expected:
            error, _, text = expected.partition(": ")
            with pytest.raises(Exception, match=text) as raised:
                eval(code, names)
            assert raised.typename == error
        else:
            found = eval(code, names)
            assert is_equal(found, number(expected)), f"{code}: {found}"
