"""Write the generated files: examples/conformance, parts of the guide, and metrics/compared.json."""

from __future__ import annotations

from pathlib import Path

from tests.parts import filled

from . import case_files, pages

GUIDE = pages.ROOT / "examples" / "guide"


def about_cases() -> dict[Path, str]:
    """Return the texts of the files about the cases."""
    return {**case_files.files(), **in_guide(case_files.pages())}


def about_tools() -> dict[Path, str]:
    """Return the texts of the files about metrics, tools and tests."""
    return {pages.MODULE: pages.module(), **in_guide(pages.pages())}


def in_guide(parts: dict[str, dict[str, str]]) -> dict[Path, str]:
    """Return pages of the guide with other texts of their generated parts."""
    paths = {GUIDE / f"{name}.md": of_page for name, of_page in parts.items()}
    return {path: filled(path.read_text(encoding="utf-8"), of) for path, of in paths.items()}


if __name__ == "__main__":
    for path, text in {**about_cases(), **about_tools()}.items():
        path.write_text(text, encoding="utf-8")
