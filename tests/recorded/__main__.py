"""Write, or check, the files of values of tools; the package's docstring says how."""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from . import FIXTURES, NAMES, differences, evaluated, read, text_of


def run(name: str, *, check: bool) -> None:
    """Write or check a file."""
    module, file = import_module(f"tests.recorded.{name}"), read(name)
    if hasattr(module, "content"):  # a file of its own form
        before, found = file, module.content()
        content, versions = found, {}
    else:
        data = module.log()
        found = evaluated(data, module.TOOLS)
        if not (versions := found["versions"]):
            sys.exit(f"{name}: no tool is installed")
        content = {"log": data, **{part: {**file[part], **now} for part, now in found.items()}}
        found = {part: found[part] for part in ("values", "means")}
        before = {part: {tool: file[part][tool] for tool in versions} for part in found}
    if not check:
        (FIXTURES / f"{name}.json").write_text(text_of(content) + "\n", encoding="utf-8")
    elif wrong := differences(before, found, name):
        sys.exit("\n".join(wrong))
    print(f"{name}:", *(" ".join(each) for each in versions.items()))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.recorded", description=__doc__)
    parser.add_argument("names", nargs="+", choices=NAMES, metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--check", action="store_true", help="compare with the files")
    options = parser.parse_args()
    for name in options.names:
        run(name, check=options.check)


if __name__ == "__main__":
    main()
