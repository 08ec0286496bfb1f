"""Docstrings: references to parameters of another function, and examples that come early."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import TYPE_CHECKING

import polars_rank as pr
import pytest
from polars_rank._docstrings import ENTRY, described_by

if TYPE_CHECKING:
    from collections.abc import Iterator


def source(frame: object, low: float, high: float) -> None:
    """Return nothing.

    Parameters
    ----------
    frame
        A table.

        With a second paragraph.
    low, high
        The bounds.

    Returns
    -------
    None
        Nothing.
    """


@described_by(source)
def user(frame: object, high: float, n: int, low: float) -> None:
    """Return nothing, too.

    Parameters
    ----------
    frame, low, high
        As in `source`.
    n
        Number of rows, as in `source`.

    Returns
    -------
    None
        Nothing.
    """


def test_references_become_descriptions() -> None:
    expected = inspect.getdoc(source).replace("Return nothing.", "Return nothing, too.")
    bounds = "    The bounds.\n"
    assert user.__doc__ == expected.replace(
        bounds, f"{bounds}n\n    Number of rows, as in `source`.\n"
    )


@pytest.mark.parametrize(
    "function",
    [
        *(pr.evaluate, pr.per_query, pr.rank, pr.report),
        *(pr.Ranking.evaluate, pr.Ranking.per_query, pr.Ranking.rank),
        *(pr.diagnostics.overlap, pr.diagnostics.movers),
    ],
)
def test_each_parameter_is_described_once(function: object) -> None:
    text = inspect.getdoc(function).partition("Parameters\n----------\n")[2]
    entries = ENTRY.findall(text.partition("\n\nReturns\n")[0] + "\n")
    described = [name for names, _ in entries for name in names.split(", ")]
    parameters = [
        name
        for name in inspect.signature(function).parameters
        if name not in ("options", "definitions")
    ]
    assert sorted(described) == sorted(each for each in parameters if each != "self")
    assert not any("As in `" in description for _, description in entries)


def public_functions() -> Iterator[tuple[str, object]]:
    """Yield the public functions and classes with their names."""
    modules = ("catalog", "clicks", "datasets", "diagnostics", "judges", "metrics", "plot")
    for module in ("", *modules):
        owner = getattr(pr, module) if module else pr
        for name in owner.__all__:
            value = getattr(owner, name)
            if callable(value) and not isinstance(value, ModuleType):
                yield f"{module}.{name}".lstrip("."), value


def test_examples_come_early() -> None:
    """The first line of an example is within the first 40 lines of help()."""
    late = []
    for name, value in public_functions():
        if name not in ("Metric", "Ranking"):  # types, whose methods have examples
            lines = (inspect.getdoc(value) or "").split("\n")[:40]
            late += [] if any(line.startswith(">>>") for line in lines) else [name]
    assert late == []
