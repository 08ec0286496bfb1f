"""`grouped_auc`: the mean AUC of rankings, weighted by their numbers of documents."""

import oracles
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

LOG = pl.DataFrame({
    "run": ["x"] * 5 + ["y"] * 6, "query": [*"aabbbaaabbc"],
    "score": [0.9, 0.1, 0.9, 0.5, 0.1, 0.5, 0.5, None, 0.3, 0.2, 0.1],
    "label": [1, 0, 0, 1, 0, 1, 0, 1, 1, 1, None],
})  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_weighted_by_impressions(engine):
    found = pr.grouped_auc(LOG.lazy(), by="run").collect(engine=engine)
    # x: AUC 1 of 2 documents and 1/2 of 3. y: only "a" has both kinds, a tied pair.
    assert found.columns == ["run", "queries", "impressions", "gauc"]
    assert found.rows() == [("x", 2, 5, (2 * 1 + 3 * 0.5) / 5), ("y", 1, 2, 0.5)]
    nothing = pr.grouped_auc(LOG.filter(pl.col("query") == "c"), run=None)
    assert nothing.row(0) == (0, 0, None)


def test_equals_the_oracle():
    log = pr.datasets.search_log(50, runs=1, seed=3).collect()
    parts = log.select("query", "doc", "score", "label").partition_by("query", include_key=False)
    lists = [[oracles.Doc(*row) for row in rows.iter_rows()] for rows in parts]
    assert pr.grouped_auc(log)["gauc"].item() == pytest.approx(oracles.gauc(lists), abs=1e-12)
