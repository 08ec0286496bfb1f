"""The help of options, from docstrings: what `polars_rank/cli/help.json` has."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

# The application and its options, of which help texts are made.
from polars_rank.cli.program import app
from polars_rank.cli.options import kind_of, parameters_of, public
from polars_rank.conventions import Definitions

#: Functions that rows of the table do not name, whose parameters are options.
_OTHERS = ("Conventions", "evaluate", "per_query", "scan_log", "scan_judgments")
_ENTRY = re.compile(r"^\*{0,2}(\w[\w, ]*)\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)


def functions() -> list[str]:
    """Return the functions whose parameters are options of commands."""
    rows = app.rows().values()
    return sorted({*_OTHERS, *(name for row in rows for name in (row.function, *row.also))} - {""})


def texts() -> dict[str, dict[str, str]]:
    """Return the first line of each function, and the first sentence about each parameter.

    Sentences that a function shares with `evaluate` or `Conventions` are those of these two.
    """
    options = {name for function in functions() for name in _options(function)}
    found: dict[str, dict[str, str]] = {}
    for function in dict.fromkeys(["Conventions", "evaluate", *functions()]):
        line, _, _ = (inspect.getdoc(public(function)) or "").partition("\n")
        shared = {**found.get("Conventions", {}), **found.get("evaluate", {})}
        found[function] = {"": line.replace("`", "")}
        for name, text in described(function).items():
            sentence = _sentence(function, name, text, options)
            if name in _options(function) and shared.get(name) != sentence:
                found[function][name] = sentence
    return {name: found[name] for name in sorted(found)}


def _options(function: str) -> set[str]:
    """Return the parameters of a function except the table that it reads."""
    if function == "Conventions":
        return {*Definitions.__annotations__}
    names = [*parameters_of(function)]
    return {*names} if function == "datasets.search_log" else {*names[1:]}


def described(name: str) -> dict[str, str]:
    """Return the descriptions of the parameters of a function on one line each."""
    doc = inspect.getdoc(public(name)) or ""
    section = re.split(r"\n\n\w+\n---+\n", doc.partition("Parameters\n----------\n")[2])[0]
    return {
        parameter: " ".join(text.split())
        for names, text in _ENTRY.findall(section + "\n")
        for parameter in names.split(", ")
    }


def _sentence(function: str, parameter: str, text: str, options: set[str]) -> str:
    sentence = re.split(r"(?<=[.])\s+(?=[A-Z0-9\"`(])|: - ", text, maxsplit=1)[0]
    known: Any = {} if function == "Conventions" else parameters_of(function)
    annotation = known.get(parameter) or parameters_of("evaluate").get(parameter)
    if annotation is not None and kind_of(parameter, annotation[0]).choices:
        sentence = sentence.partition(":")[0]  # the help lists the choices
    # Commands take names of metrics only.
    sentence = sentence.replace("by name or as expressions", 'such as "ndcg@10 ap"')
    sentence = re.sub(r"; None .*|,? as in `\w+`.*", "", sentence)
    sentence = re.sub(r"^Whether to (\w)", lambda found: found[1].upper(), sentence)

    def option(found: re.Match[str]) -> str:
        name = found[1]
        return f"--{name.replace('_', '-')}" if name in options else name

    return re.sub(r"`+([^`]+)`+", option, sentence).rstrip(".") + "."


def written() -> str:
    """Return the file of the package."""
    return json.dumps(texts(), indent=1, ensure_ascii=False) + "\n"
