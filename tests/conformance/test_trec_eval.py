"""Values and means of trec_eval 10, from a file that `write_trec_eval` writes."""

from __future__ import annotations

import json

import polars_rank as pr
import pytest

from .logs import LOGS
from .write_trec_eval import FIXTURE

FOUND = json.loads(FIXTURE.read_text(encoding="utf-8"))

#: The metric for each name: polars_rank accepts the names of trec_eval.
METRICS = {("trec_eval", name): name for name in FOUND}
#: trec_eval prints four decimals.
TOLERANCE = 6e-5


def test_every_value_and_mean() -> None:
    log = LOGS["grades"]()
    values = pr.per_query(log, [*FOUND], conventions="trec_eval")
    means = pr.evaluate(log, [*FOUND], conventions="trec_eval").row(0, named=True)
    for name, theirs in FOUND.items():
        ours = {**dict(values.select("query", name).iter_rows()), "all": means[name]}
        found = {topic: ours[topic] or 0.0 for topic in theirs}
        assert found == pytest.approx(theirs, abs=TOLERANCE), name
    assert "map" in FOUND and len(FOUND["map"]) > 30
