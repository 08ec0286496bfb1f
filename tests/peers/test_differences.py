"""Known differences between polars_rank and tools of the group "conformance"."""

from __future__ import annotations

from typing import Any

import needs
import polars_rank as pr
import pytest

from tests.conformance import peers
from tests.conformance.differences import check_tool, of_group
from tests.conformance.logs import LOGS

pytestmark = pytest.mark.filterwarnings("ignore")  # from the peers


@pytest.mark.parametrize("difference", of_group("conformance"))
def test_tools(difference: dict[str, Any]) -> None:
    needs.package(difference["tool"]["module"], "conformance")
    check_tool(difference)


def test_ir_measures_returns_0_for_a_second_alpha() -> None:
    needs.package("pyndeval", "conformance")
    log, names = LOGS["subtopics"](), ["alpha_nDCG@5", "alpha_nDCG(alpha=0.25)@5"]
    found = peers._diverse_ir_measures(log, names)
    assert sorted(any(values.values()) for values in found.values()) == [False, True]
    ours = pr.evaluate(log, names, conventions=pr.conventions.IR_MEASURES)
    assert all(ours.item(0, name) > 0.1 for name in names)
