"""The page that is generated from the suite."""

from __future__ import annotations

from .table import PAGE, page


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m tests.conformance.table`"
