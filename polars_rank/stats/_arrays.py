"""NumPy and scipy, which are extras and are imported when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

from polars_rank.errors import missing_extra

#: An array of NumPy.
Array: TypeAlias = Any

#: The extra that installs scipy and NumPy.
EXTRA = "stats"


class _Module:
    """A module that is imported with its first attribute."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(import_module(self._name), name)
        except ImportError as error:
            raise missing_extra(EXTRA, error) from error
        setattr(self, name, value)
        return value


np: Any = _Module("numpy")
#: It takes a third of the time of scipy.stats to import.
special: Any = _Module("scipy.special")
stats: Any = _Module("scipy.stats")


def require_scipy() -> None:
    """Raise `MissingExtraError` if scipy is not installed."""
    _ = special.ndtri
