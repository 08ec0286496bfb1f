"""Docstrings: examples that come early, and one sentence for each parameter that functions share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import polars_rank as pr
import pytest
from polars_rank.metrics.documentation import ENTRY

PAGE = Path(__file__).parents[1] / "examples" / "guide" / "parameters.md"
#: The first sentence of each parameter on the page of the guide.
SENTENCES = {
    name: " ".join(text.split()).partition(". ")[0].rstrip(".")
    for name, text in re.findall(
        r"^### `(\w+)`\n\n(.*?)(?=\n\n)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
}
MODULES = (
    *("catalog", "clicks", "conventions", "datasets", "diagnostics", "judges", "metrics", "plot"),
    *("stats", "trec"),
)
#: Parameters that have the name of a shared one and mean something else.
OTHERS = {
    "Conventions": {"query_set", "ties", "undefined", "unjudged"},
    "define_metric": {"undefined"},
    "gate": {"baseline", "run"},
    "metrics.calibration": {"history"},
}


def public_functions() -> Iterator[tuple[str, object]]:
    """Yield the public functions and classes with their names."""
    for module in ("", *MODULES):
        owner = getattr(pr, module) if module else pr
        for name in owner.__all__:
            value = getattr(owner, name)
            if callable(value) and not isinstance(value, ModuleType):
                yield f"{module}.{name}".lstrip("."), value


FUNCTIONS = dict(public_functions())


def described(function: object) -> list[tuple[str, str]]:
    """Return the parameters that a docstring describes, and their descriptions."""
    text = (inspect.getdoc(function) or "").partition("Parameters\n----------\n")[2]
    text = re.split(r"\n\n(?=[A-Z][\w ]+\n---)", text)[0]
    return [
        (name.lstrip("*"), " ".join(description.split()))
        for names, description in ENTRY.findall(text + "\n")
        for name in names.split(", ")
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_shared_parameters_have_one_sentence(name: str) -> None:
    different = [
        (parameter, text)
        for parameter, text in described(FUNCTIONS[name])
        if parameter in SENTENCES and parameter not in OTHERS.get(name, ())
        if not text.startswith(SENTENCES[parameter])
    ]
    assert different == []


def test_functions_share_the_parameters_of_the_page() -> None:
    shared = [name for function in FUNCTIONS.values() for name, _ in described(function)]
    definitions = pr.Conventions.__annotations__.keys()
    assert [name for name in SENTENCES if name not in {*shared, *definitions}] == []


def test_each_parameter_is_described_once() -> None:
    wrong = []
    for name, function in FUNCTIONS.items():
        parameters = (
            [each for each in inspect.signature(function).parameters if each != "options"]
            if inspect.isroutine(function)
            else []
        )
        found = [parameter for parameter, _ in described(function)]
        if (
            found
            and parameters
            and sorted({*found, "definitions"} & {*parameters}) != sorted(parameters)
        ):
            wrong.append((name, sorted({*parameters} ^ {*found})))
        if len(found) != len({*found}):
            wrong.append((name, found))
    assert wrong == []


def test_examples_come_early() -> None:
    """The first line of an example is within the first 40 lines of help()."""
    late = []
    for name, value in FUNCTIONS.items():
        if name not in ("Metric", "Ranking"):  # types, whose methods have examples
            lines = (inspect.getdoc(value) or "").split("\n")[:40]
            late += [] if any(line.startswith(">>>") for line in lines) else [name]
    assert late == []
