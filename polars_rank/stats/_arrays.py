"""NumPy and scipy, which are extras and are imported when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from polars_rank.errors import missing_extra

if TYPE_CHECKING:
    from types import ModuleType

#: An array of NumPy.
Array: TypeAlias = Any

#: The extra that installs scipy and NumPy.
EXTRA = "stats"


def numpy() -> ModuleType:
    """Return NumPy; raise `MissingExtraError` if it is not installed."""
    try:
        import numpy as np  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(EXTRA, error) from error
    return np


def special() -> ModuleType:
    """Return scipy.special, which takes a third of the time of scipy.stats to import."""
    try:
        from scipy import special as module  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(EXTRA, error) from error
    return module  # type: ignore[no-any-return]


def stats() -> ModuleType:
    """Return scipy.stats."""
    special()
    from scipy import stats as module  # noqa: PLC0415

    return module  # type: ignore[no-any-return]
