"""Write what a benchmark measured."""

from __future__ import annotations

from pathlib import Path


def publish(text: str, output: Path | None) -> None:
    """Write Markdown to a file, or print it."""
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
