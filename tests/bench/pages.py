"""Options of the programs, and pages of what they measured."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def number(text: str) -> int:
    return int(text.replace("_", ""))


def arguments(doc: str, **defaults: Any) -> argparse.Namespace:
    """Return the options of a program: whole numbers, lists of them, or texts, and `--output`."""
    name = Path(sys.argv[0]).stem
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.bench.{name}", description=doc.partition("\n")[0]
    )
    for option, default in defaults.items():
        several = "+" if isinstance(default, list) else None
        kind = str if isinstance(default, str) else number
        parser.add_argument(f"--{option}", type=kind, nargs=several, default=default)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def publish(text: str, output: Path | None) -> None:
    """Write Markdown to a file, or print it."""
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
