"""Files of verdicts: JUnit XML and Markdown."""

from typing import TYPE_CHECKING

from polars_rank._moved import missing
from polars_rank.stats.verdicts import write_junit, write_markdown

__all__ = ["write_junit", "write_markdown"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    __getattr__ = missing("stats")
