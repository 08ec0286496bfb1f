"""Results as a dictionary of numbers."""

from __future__ import annotations

import re

import polars as pl
import polars_rank as pr
import pytest

LOG = pl.DataFrame({
    "run": [*"aaaabbbb"], "country": [1, 1, 2, 2] * 2, "query": [1, 1, 2, 2] * 2,
    "score": [2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 2.0], "label": [1, 0, 0, 1] * 2,
})  # fmt: skip
METRICS = ["mrr", "precision@1"]


def test_a_column_per_metric() -> None:
    log = LOG.filter(run="a").drop("run")
    for each in (log, log.lazy()):
        found = pr.evaluate(each, METRICS).pipe(pr.flat)
        assert found == {"queries": 2, "mrr": (1 + 1 / 2) / 2, "precision@1": 1 / 2}
    nothing = pl.DataFrame({"queries": [3], "ap": [None]}, {"queries": int, "ap": float})
    assert pr.flat(nothing) == {"queries": 3}


def test_values_of_by_and_run_come_first() -> None:
    found = pr.flat(pr.evaluate(LOG, METRICS, by="country"))
    assert found["1/a/mrr"] == found["2/b/precision@1"] == 1
    assert (found["2/a/mrr"], len(found)) == (1 / 2, 4 * 3)


@pytest.mark.filterwarnings("ignore")  # of few queries
def test_a_row_per_metric() -> None:
    values = pr.per_query(LOG, METRICS)
    found = pr.flat(pr.summarize(values))
    assert found["a/mrr"] == 3 / 4
    assert found["a/mrr/queries"] == 2
    assert {"a/mrr/low", "b/precision@1/high"} <= found.keys()
    differences = pr.flat(pr.compare(values, baseline="a"))
    assert differences["b/mrr/difference"] == 1 / 4
    assert "b/mrr/verdict" not in differences
    ranks = pr.flat(pr.leaderboard(values))
    assert "b/mrr/rank" not in ranks and ranks["b/mrr"] == 1  # two queries give no ranks


def test_names() -> None:
    log = LOG.filter(run="a").with_columns(run=pl.lit("a b/c"))
    found = pr.flat(pr.evaluate(log, ["ndcg(gain='exp2')@10", "precision@1"]), safe=True)
    assert [*found] == ["a_b_c/queries", "a_b_c/ndcg_gain_exp2_at_10", "a_b_c/precision_at_1"]
    with pytest.raises(pr.errors.DataError, match="'a/queries'"):
        pr.flat(pl.DataFrame({"run": ["a", "a"], "queries": [1, 2]}))
