"""Versions of the formats that polars_rank writes and reads again, and of reports for machines."""

from __future__ import annotations

from typing import Any

from polars_rank.errors import DataError

#: The key, field or property that has the version. A change that older versions of polars_rank
#: would misread has a new version; `examples/guide/formats.md` is the promise.
FORMAT_VERSION = "format_version"

BASELINE = 2
PAGE = 1
JUNIT = 1


def check_version(found: Any, known: int, what: str, remedy: str) -> None:
    """Raise `DataError` unless this version of polars_rank can read the version of a format."""
    if type(found) is not int or not 1 <= found <= known:
        raise DataError(
            f"{what} has the {FORMAT_VERSION} {found!r}, and this version of polars_rank reads up "
            f"to {known}; install a later one with: pip install --upgrade polars_rank, or {remedy}"
        )
