"""Descriptions of parameters that several functions share, written once."""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

#: An entry in the section of parameters: names and an indented description.
ENTRY = re.compile(r"^(\w[\w, ]*)\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)


def described_by(source: Callable[..., Any]) -> Callable[[F], F]:
    """Return a decorator that copies descriptions of parameters from another function.

    The source code of a docstring refers to the other function: "As in `evaluate`." Editors that
    only read the source show this reference. The docstring at run time has the full descriptions.
    """
    reference = f"As in `{source.__name__}`."
    entries = {
        name: entry[0].rstrip()
        for entry in ENTRY.finditer(cleandoc(source.__doc__ or ""))
        for name in entry[1].split(", ")
    }

    def full(entry: re.Match[str]) -> str:
        names, description = entry.groups()
        if description.strip() != reference:
            return entry[0]
        copied = dict.fromkeys(entries[name] for name in names.split(", "))
        return "\n".join(copied) + entry[0][len(entry[0].rstrip()) :]

    def decorate(function: F) -> F:
        if function.__doc__:  # python -OO removes docstrings
            function.__doc__ = ENTRY.sub(full, cleandoc(function.__doc__))
        return function

    return decorate
