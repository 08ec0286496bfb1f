"""Values of rankings and means equal those of tools; `tests/peers` has the other tools."""

from __future__ import annotations

import needs
import pytest

# The names of metrics of trec_eval.
from polars_rank.metrics.aliases import SETS

from .pairs import PEERS, Peer


@pytest.mark.filterwarnings("ignore")  # from the peers
@pytest.mark.parametrize(
    "peer", [each for each in PEERS if each.group == "test"], ids=lambda each: each.name
)
def test_values_and_means(peer: Peer) -> None:
    needs.package(peer.module, peer.group)
    assert peer.wrong() == []


def test_all_measures_of_tools_are_compared() -> None:
    peer = needs.package("pytrec_eval", "test")
    measures = {
        name
        for name in peer.supported_measures
        if not name.startswith("prefs_") and name not in ("runid", "relstring")
    }
    found = peer.RelevanceEvaluator({"1": {"a": 1}}, measures).evaluate({"1": {"a": 1.0}})["1"]
    assert found.keys() <= {*SETS["all_trec"]} == PEERS[0].pairs.keys()
    peer = needs.package("ir_measures", "test")
    ours = {pair.partition("(")[0].partition("@")[0] for each in PEERS for pair in each.pairs}
    assert {measure.NAME for measure in peer.measures.registry.values()} <= ours
