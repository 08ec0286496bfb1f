"""The names that every example in a docstring may use."""

import polars as pl
import polars_rank as pr
import pytest


@pytest.fixture(autouse=True)
def _names_of_doctests(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(pl=pl, pr=pr)
