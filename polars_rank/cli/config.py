"""Options from files: [tool.polars-rank] in pyproject.toml, or the TOML file of --config."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from polars_rank.cli.messages import say
from polars_rank.cli.options import MAY_BE_EMPTY
from polars_rank.conventions import Definitions
from polars_rank.errors import ArgumentError, hint
from polars_rank.io.files import read_toml

#: Options that a file can set: those that describe the log and its evaluation.
KEYS = (
    *("query", "doc", "score", "position", "label", "run", "weight", "cluster"),
    *("metrics", "metric", "by", "baseline", "confidence"),
    *("conventions", *Definitions.__annotations__),
    *("fractional", "negative", "layout", "memory", "progress"),
)
_TABLE = "[tool.polars-rank]"


def options_for(command: Any, path: Path | None) -> dict[str, Any]:
    """Return defaults of the options of a command, from the file or the nearest pyproject.toml."""
    file = path or _nearest()
    if file is None:
        return {}
    options = {each.name: each for each in command.params}
    defaults = {
        name: _value(value, name, file, several=options[name].multiple)
        for name, value in _table(file, named=path is not None).items()
        if _checked(name, file) in options
    }
    if path is None and defaults:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in defaults)
        say(f"Options from {_TABLE} in {file}: {names}")
    return defaults


def _nearest() -> Path | None:
    """Return the first pyproject.toml with the table, in the working directory or its parents."""
    try:
        start = Path.cwd()
        files = [folder / "pyproject.toml" for folder in (start, *start.parents)]
        files = [file for file in files if file.is_file()]
    except OSError:  # the folder was deleted, or one of its parents cannot be read
        return None
    return next((file for file in files if _table(file, named=False)), None)


def _table(file: Path, *, named: bool) -> dict[str, Any]:
    """Return the options in a file; at the top level only if --config names the file."""
    content = read_toml(file, "options")
    table = content.get("tool", {}).get("polars-rank")
    if table is None and named and "tool" in content:
        raise ArgumentError(f"{str(file)!r} has neither {_TABLE} nor top-level options")
    if table is None:
        table = content if named else {}
    if not isinstance(table, dict):
        raise ArgumentError(f"{_TABLE} in {str(file)!r} must be a table; found {table!r}")
    return {key.replace("-", "_"): value for key, value in table.items()}


def _checked(name: str, file: Path) -> str:
    """Return the name of an option; raise if there is none with this name."""
    if name not in KEYS:
        known = [key.replace("_", "-") for key in KEYS]
        raise ArgumentError(
            f"unknown option in {str(file)!r}: {name.replace('_', '-')!r}."
            f"{hint(name.replace('_', '-'), known)} Known options: {', '.join(known)}"
        )
    return name


def _value(value: Any, name: str, file: Path, *, several: bool) -> Any:
    """Return a value as text or Boolean, as on the command line."""
    where = f"{name.replace('_', '-')} in {str(file)!r}"
    values = value if isinstance(value, list) and several else [value]
    if not all(isinstance(each, (str, int, float, bool)) for each in values):
        what = "text, a number or a list of them" if several else "text or a number"
        raise ArgumentError(f"{where} must be {what}; found {value!r}")
    if "" in values and name not in MAY_BE_EMPTY:
        raise ArgumentError(f"{where} is empty; omit it")
    texts = [each if isinstance(each, bool) else str(each) for each in values]
    return texts if several else texts[0]
