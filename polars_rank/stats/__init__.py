"""Files of verdicts: JUnit XML and Markdown."""

from polars_rank.stats.verdict_files import write_junit, write_markdown

__all__ = ["write_junit", "write_markdown"]


def __dir__() -> list[str]:
    return __all__
