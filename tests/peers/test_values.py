"""Values of rankings and means equal those of tools of the group "conformance"."""

from __future__ import annotations

import needs
import pytest

from tests.conformance.logs import LOGS, REAL, SHARED
from tests.conformance.pairs import PEERS, Peer


@pytest.mark.filterwarnings("ignore")  # from the peers
@pytest.mark.parametrize(
    ("peer", "log"),
    [
        pytest.param(peer, log, id=f"{peer.name}-{log}")
        for peer in PEERS
        for log in LOGS
        if peer.group == "conformance" and peer.on(log)
    ],
)
def test_values_and_means(peer: Peer, log: str) -> None:
    needs.package(peer.module, peer.group)
    if log in REAL and not SHARED.is_dir():
        pytest.skip("needs the real data of the developers")
    wrong = [*peer.wrong_values(log), *peer.wrong_means(log)]
    assert not wrong, f"{len(wrong)} numbers differ: {wrong[:20]}"
