"""Options from a file: [tool.polars-rank] in pyproject.toml, or the TOML file of --config."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from polars_rank.cli.messages import say
from polars_rank.errors import ArgumentError, hint
from polars_rank.io.files import read_toml

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Options that a file may have: those that describe the log and its evaluation.
KEYS = (
    *("query", "doc", "score", "position", "label", "run", "weight", "cluster"),
    *("metrics", "by", "baseline", "confidence"),
    *("conventions", "ties", "rel", "unjudged", "query_set", "undefined", "duplicates"),
    *("fractional", "negative", "layout", "memory", "progress"),
)
_TABLE = "[tool.polars-rank]"
#: Options whose value may be empty: no column, or a run or a title without letters.
MAY_BE_EMPTY = {"doc", "run", "baseline", "title"}


def options_for(command: Any, path: Path | None) -> dict[str, Any]:
    """Return the defaults for the options of a command from a file."""
    file = path or _nearest()
    if file is None:
        return {}
    values = _checked(_table(file, named=path is not None), file)
    options = {each.name: each for each in command.params}
    defaults = {
        name: _value(value, name, file, several=options[name].multiple)
        for name, value in values.items()
        if name in options
    }
    if path is None and defaults:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in defaults)
        say(f"Options from {_TABLE} in {file}: {names}")
    return defaults


def _nearest() -> Path | None:
    """Return the nearest pyproject.toml with the table, from the working directory upwards."""
    here = Path.cwd()
    files = (folder / "pyproject.toml" for folder in (here, *here.parents))
    return next((file for file in files if file.is_file() and _table(file, named=False)), None)


def _table(file: Path, *, named: bool) -> dict[str, Any]:
    content = read_toml(file, "options")
    own = content.get("tool", {}).get("polars-rank")
    if own is None and named and "tool" in content:
        raise ArgumentError(f"{str(file)!r} has neither {_TABLE} nor top-level options")
    if own is None:
        return content if named else {}
    if not isinstance(own, dict):
        raise ArgumentError(f"{_TABLE} in {str(file)!r} must be a table; found {own!r}")
    return own


def _checked(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    named = {key.replace("-", "_"): value for key, value in table.items()}
    unknown = [key for key in named if key not in KEYS]
    if unknown:
        known = [key.replace("_", "-") for key in KEYS]
        close = hint(unknown[0].replace("_", "-"), known)
        raise ArgumentError(
            f"unknown options in {str(file)!r}: {', '.join(map(repr, unknown))}.{close} Known "
            f"options: {', '.join(known)}"
        )
    return named


def _value(value: Any, name: str, file: Path, *, several: bool) -> Any:
    """Return a value as it would be on the command line."""
    values = value if isinstance(value, list) and several else [value]
    if not all(isinstance(each, (str, int, float, bool)) for each in values):
        what = "text, a number or a list of them" if several else "text or a number"
        raise ArgumentError(
            f"{name.replace('_', '-')} in {str(file)!r} must be {what}; found {value!r}"
        )
    if "" in values and name not in MAY_BE_EMPTY:
        raise ArgumentError(f"{name.replace('_', '-')} in {str(file)!r} is empty; leave it out")
    given = [each if isinstance(each, bool) else str(each) for each in values]
    return given if several else given[0]
