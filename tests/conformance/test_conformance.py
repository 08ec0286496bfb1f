"""All values and means of all peers equal those of polars_rank with their preset."""

from __future__ import annotations

import math

import needs
import polars_rank as pr
import pytest
from polars_rank.conventions import counted_as

from .logs import LOGS, REAL, SHARED
from .pairs import PEERS, Peer, family

CASES = [
    pytest.param(peer, log, id=f"{peer.name}-{log}")
    for peer in PEERS
    for log in LOGS
    if peer.on(log)
]
pytestmark = pytest.mark.filterwarnings("ignore")  # from the peers


def check(peer: Peer, log: str) -> None:
    """Skip the test if the peer or a real log is missing."""
    needs.package(peer.module, peer.group)
    if log in REAL and not SHARED.is_dir():
        pytest.skip("needs the real data of the developers")


def averaged(peer: Peer, log: str) -> list[str]:
    """Return the names of the metrics whose means on a log are those of the peer."""
    if peer.means is None:
        return []
    return [name for name in peer.on(log) if family(name) not in peer.different]


@pytest.mark.parametrize(("peer", "log"), CASES)
def test_value_of_every_ranking(peer: Peer, log: str) -> None:
    check(peer, log)
    frame, names = LOGS[log](), peer.on(log)
    expected = peer.values(frame, names)
    metrics = [peer.ours(name).alias(name) for name in names]
    found = pr.per_query(frame, metrics, conventions=peer.conventions)
    wrong = []
    for metric in metrics:
        name = metric.output_name
        ours = dict(found.select("query", name).iter_rows())
        theirs = expected[name]
        assert len(theirs) > 2 and theirs.keys() <= ours.keys(), name
        for query, value in theirs.items():
            own = math.nan if ours[query] is None else ours[query]
            if not (abs(own - value) <= peer.tolerance * max(1, abs(value)) or own != own != value):
                wrong.append((name, query, own, value))
    assert not wrong, f"{len(wrong)} values differ (metric, query, ours, theirs): {wrong[:20]}"


@pytest.mark.parametrize(("peer", "log"), [case for case in CASES if averaged(*case.values)])
def test_mean_of_every_metric(peer: Peer, log: str) -> None:
    check(peer, log)
    frame = peer.part(LOGS[log]())
    expected = peer.means(frame, averaged(peer, log))
    metrics = [peer.ours(name).alias(name) for name in expected]
    assert metrics
    found = pr.evaluate(frame, metrics, conventions=peer.conventions).row(0, named=True)
    ours = {name: math.nan if found[name] is None else found[name] for name in expected}
    assert ours == pytest.approx(expected, rel=peer.tolerance, abs=peer.tolerance, nan_ok=True)
