"""Write the version and the public addresses into .github/CITATION.cff."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / ".github" / "CITATION.cff"


def addresses() -> dict[str, str]:
    """Return the fields that depend on the version and on pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    known = project["tool"]["hatch"]["metadata"]["hooks"]["custom"]
    source = (ROOT / "polars_rank" / "__init__.py").read_text(encoding="utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE)
    return {
        "version": version,
        "doi": known["doi"],
        "repository-code": known["repository"],
        "url": known["documentation"],
    }


def filled(text: str, fields: dict[str, str]) -> str:
    """Return the text with the fields after the title; those without a value are left out."""
    text = re.sub(rf"^({'|'.join(fields)}): .*\n", "", text, flags=re.MULTILINE)
    lines = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    return re.sub(r"^title: .*\n", lambda title: title[0] + lines, text, flags=re.MULTILINE)


if __name__ == "__main__":
    FILE.write_text(filled(FILE.read_text(encoding="utf-8"), addresses()), encoding="utf-8")
