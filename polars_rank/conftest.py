"""Names that examples in docstrings use without an import, and warnings that are ignored."""

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.metrics.metric import REGISTER

#: Examples are small, and some functions warn about small samples.
SMALL = "ignore:.*(below 5|fewer than 50 pairs):polars_rank.errors.RankWarning"


@pytest.fixture(autouse=True)
def _names_of_doctests(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(pl=pl, pr=pr)


@pytest.fixture(autouse=True)
def _own_metrics() -> Iterator[None]:
    """Remove the metrics that an example defines."""
    known = {**REGISTER}
    yield
    for name in REGISTER.keys() - known:
        del REGISTER[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem) and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(SMALL))
