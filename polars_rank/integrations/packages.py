"""What the integrations share: packages that their users have, and a small log."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import polars as pl

from polars_rank.errors import MissingExtraError

#: A log whose plans are built to check metrics and conventions.
SMALL = pl.LazyFrame({"query": ["q"], "doc": ["d"], "score": [1.0], "label": [1]})


def imported(package: str, *modules: str) -> Any:
    """Return the first of the modules of a package that exists; by default, the package itself."""
    cause: ImportError | None = None
    for module in modules or ("",):
        try:
            return import_module(f"{package}.{module}".rstrip("."))
        except ImportError as error:
            cause = error
    raise MissingExtraError(
        f"package {package!r} cannot be imported ({cause}); install it with: pip install {package}"
    ) from cause
