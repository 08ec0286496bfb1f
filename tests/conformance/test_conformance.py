"""All values of all peers, ranking by ranking, equal those of polars_rank with their preset."""

from __future__ import annotations
from polars_rank.conventions import counted_as

import math

import needs
import polars_rank as pr
import pytest

from .logs import LOGS, REAL, SHARED
from .pairs import PEERS, Peer

CASES = [
    pytest.param(peer, log, id=f"{peer.name}-{log}")
    for peer in PEERS
    for log in LOGS
    if peer.on(log)
]


@pytest.mark.parametrize(("peer", "log"), CASES)
@pytest.mark.filterwarnings("ignore")  # from the peers
def test_value_of_every_ranking(peer: Peer, log: str) -> None:
    needs.package(peer.module, peer.extra)
    if log in REAL and not SHARED.is_dir():
        pytest.skip("the real logs are missing")
    frame, names = LOGS[log](), peer.on(log)
    expected = peer.values(frame, names)
    metrics = [peer.ours(name).alias(name) for name in names]
    found = pr.per_query(frame, metrics, conventions=peer.conventions)
    wrong = []
    for metric in metrics:
        name = metric.output_name
        undefined = counted_as(metric, peer.conventions)
        ours = dict(found.select("query", name).iter_rows())
        theirs = expected[name]
        assert len(theirs) > 2 and theirs.keys() <= ours.keys(), name
        for query, value in theirs.items():
            own = ours[query] if ours[query] is not None else undefined
            if own in ("null", "skip"):
                own = math.nan
            if not (abs(own - value) <= peer.tolerance * max(1, abs(value)) or own != own != value):
                wrong.append((name, query, own, value))
    assert not wrong, f"{len(wrong)} values differ (metric, query, ours, theirs): {wrong[:20]}"
