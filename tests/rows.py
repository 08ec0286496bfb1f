"""Tables of inputs and what they give: one test checks all rows and names those that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest


def check_each(check: Callable[..., None], rows: Iterable[tuple[object, ...]]) -> None:
    """Call a check with the values of each row; one message has all rows that fail."""
    failed = []
    for row in rows:
        try:
            check(*row)
        except (Exception, pytest.fail.Exception) as error:
            failed.append(f"{str(row)[:300]}\n{type(error).__name__}: {error}")
    assert not failed, "\n\n".join([f"{len(failed)} rows fail", *failed])
