"""Files with the values of tools that need other packages than this project."""

from __future__ import annotations

import json
import math
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

#: Values by the tool's name of the metric, and by the query or user; "error" if the tool refuses it.
Values = dict[str, dict[str, float | str | None]]
#: The means that the tool reports, by its name of the metric.
Means = dict[str, float]
#: The function that evaluates a log with each tool, and the tool's package, or a function that
#: returns its version.
Tools = dict[str, tuple[str | Callable[[], str], Callable[[dict[str, Any]], tuple[Values, Means]]]]


def write(fixture: Path, data: dict[str, Any], tools: Tools) -> None:
    """Replace the values of the tools that are installed, or check them with `--check`."""
    found = evaluated(data, tools)
    file = json.loads(fixture.read_text(encoding="utf-8")) if fixture.exists() else {}
    parts = {part: {**file.get(part, {}), **now} for part, now in found.items()}
    if "--check" not in sys.argv:
        text = json.dumps({"log": data, **parts}, indent=1, sort_keys=True)
        fixture.write_text(text + "\n", encoding="utf-8")
        return
    if not found["versions"]:
        sys.exit("no tool is installed")
    for part in ("values", "means"):
        check({tool: file[part][tool] for tool in found[part]}, found[part], part)
    print("the same values:", *(" ".join(each) for each in found["versions"].items()))


def evaluated(data: dict[str, Any], tools: Tools) -> dict[str, Any]:
    """Return the versions of the tools that are installed, and what they compute."""
    found: dict[str, Any] = {"versions": {}, "values": {}, "means": {}}
    for tool, (package, evaluate) in tools.items():
        try:
            found["versions"][tool] = version(package) if isinstance(package, str) else package()
        except PackageNotFoundError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["values"][tool], found["means"][tool] = evaluate(data)
    return found


def check(file: Any, found: Any, path: str) -> None:
    """Exit with an error if a number of the tools that are installed is not in the file."""
    if isinstance(found, dict):
        if file.keys() != found.keys():
            sys.exit(f"{path}: {sorted(file.keys() ^ found.keys())} are not in both")
        for key, value in found.items():
            check(file[key], value, f"{path}/{key}")
    elif file != found and not (
        isinstance(file, float)
        and isinstance(found, float)
        and math.isclose(file, found, rel_tol=1e-6)
    ):
        sys.exit(f"{path}: {file} in the file, now {found}")
