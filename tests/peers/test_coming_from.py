"""Every pair in examples/guide/coming_from.md: their code and ours are run, and give the same numbers."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import polars as pl
import pytest

PAGE = Path(__file__).parents[2] / "examples" / "guide" / "coming_from.md"
HEAD, *SECTIONS = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)

CELL = r"<td>\n\n```python\n(.*?)```\n\n</td>"
PAIR = re.compile(CELL + CELL, re.DOTALL)

#: What each section needs of the group "conformance"; each has three pairs with a value at the least.
NEEDED = {
    **{name: name for name in ("ranx", "ir_measures", "pytrec_eval", "torchmetrics")},
    **{name: name.lower() for name in ("LightGBM", "RecTools", "LensKit", "BEIR")},
    **{
        "scikit-learn": "sklearn",
        "pandas and SciPy": "pandas",
        "Spark's RankingMetrics": "pyspark",
    },
}
#: Not in the group: the newest versions exclude those of other packages here, which they work with
#: all the same, or need gigabytes.
ALONE = {"rectools": "--no-deps rectools", "beir": "--no-deps beir", "lenskit": "lenskit"}
EXACT = {"rel": 1e-9, "abs": 1e-12}
#: As the page says: computed in 32 bits; rounded to five digits.
TOLERANCE = {"torchmetrics": {"rel": 1e-6, "abs": 1e-12}, "BEIR": {"rel": 0, "abs": 1e-5}}
#: Columns of ours that say which row it is, or count.
KEYS = ("query", "query_id", "user_id", "run", "country")
COUNTS = ("queries", "queries_judged", "queries_retrieved")


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def run(code: str, names: dict[str, Any]) -> Any:
    """Run code as a notebook does: return the value of an expression in the last line."""
    body = ast.parse(code).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), str(PAGE), "exec"), names)
    return last and eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names)


def cells(value: Any, *path: str) -> Iterator[tuple[tuple[str, ...], float]]:
    """Return all numbers of a result, each with what it is called, where it is."""
    if isinstance(value, pl.DataFrame):
        keys = [name for name in value.columns if name in KEYS]
        table = value.drop(*COUNTS, "conventions", strict=False).sort(keys)
        for row in table.iter_rows(named=True):
            yield from cells(row, *(str(row.pop(key)) for key in keys))
    elif hasattr(value, "items"):  # a Series of pandas, too
        for key, each in value.items():
            yield from cells(each, *path, str(key))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from cells(each, *path)
    else:
        yield path, float(value)


@pytest.mark.filterwarnings("ignore:.* intervals exceed")
@pytest.mark.parametrize("section", SECTIONS, ids=lambda text: text.partition("\n")[0])
def test_theirs_and_ours_are_equal(
    section: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    title = section.partition("\n")[0]
    tolerance = TOLERANCE.get(title, EXACT)
    if title.startswith("Spark") and (missing := needs.without_spark()):
        pytest.skip(missing)
    if NEEDED[title] in ALONE:
        install = f"pip install {ALONE[NEEDED[title]]}"
        pytest.importorskip(NEEDED[title], reason=f"needs {NEEDED[title]}: {install}")
    needs.package(NEEDED[title], "conformance")
    if title.startswith("Spark"):
        needs.new_jvm()
    monkeypatch.chdir(tmp_path)
    # Spark's workers run on this Python, and its driver needs no network.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    names: dict[str, Any] = {}
    run(blocks(HEAD)[0], names)
    compared = 0
    try:
        for left, right in PAIR.findall(section):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the peers' own
                theirs = run(left, names)
            ours = run(right, names)
            if theirs is None:
                continue
            compared += 1
            expected, found = list(cells(theirs)), list(cells(ours))
            assert expected and len(expected) == len(found), left
            if {path for path, _ in expected} == {path for path, _ in found} != {()}:
                expected, found = sorted(expected), sorted(found)
            for (path, value), (_, own) in zip(expected, found, strict=True):
                assert own == pytest.approx(value, **tolerance), (path, left)
    finally:
        if "spark" in names:
            names["spark"].stop()
    assert compared >= 3


def test_every_tool_has_a_section_of_pairs() -> None:
    assert {section.partition("\n")[0] for section in SECTIONS} == {*NEEDED}
    for section in SECTIONS:
        pairs = PAIR.findall(section)
        assert len(pairs) >= 4
        assert blocks(section) == [code for pair in pairs for code in pair]
