"""What examples in docstrings use without an import, and warnings that they ignore: a plugin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "polars_rank"
#: Examples are small, and some functions warn about small samples.
SMALL = "ignore:.*(below 5|fewer than 50 pairs):polars_rank.errors.RankWarning"


@pytest.fixture(autouse=True)
def _names_and_metrics(
    request: pytest.FixtureRequest, doctest_namespace: dict[str, object]
) -> Iterator[None]:
    """Add the names, and remove the metrics that an example defines."""
    if not isinstance(request.node, pytest.DoctestItem) or PACKAGE not in request.path.parents:
        yield
        return
    # Not above, so that the coverage of the package is measured from its import on.
    import polars as pl
    import polars_rank as pr
    from polars_rank.metrics.metric import REGISTER

    doctest_namespace.update(pl=pl, pr=pr)
    known = {**REGISTER}
    yield
    for name in REGISTER.keys() - known:
        del REGISTER[name]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.DoctestItem) and PACKAGE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(SMALL))
