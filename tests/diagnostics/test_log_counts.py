"""What a log holds: counts by hand, the same for every layout and engine, in one pass."""

import polars as pl
import polars_rank as pr
import pytest

# The report shows these counts.
from polars_rank.diagnostics.log_facts import log_counts
from polars_rank.evaluation.log import Log


@pytest.fixture(scope="module")
def log():
    return pr.datasets.search_log(120, runs=["bm25", "neural"]).collect()


def findings(frame, **options):
    log = Log.of(frame.lazy(), **options)
    rows, columns = log.table, log.columns
    return log_counts(rows, columns, 1, columns.by)


def test_findings_by_hand():
    log = pl.DataFrame(
        {
            "query": ["a", "a", "a", "b", "b", "c"],
            "doc": [1, 2, 2, 1, 3, None],
            "score": [2.0, 2.0, 1.0, None, 0.5, None],
            "label": [1.0, None, 0.0, 2.0, 0.0, None],
        }
    )
    assert findings(log).collect().row(0, named=True) == {
        "rows": 5,  # that of "c" is of an empty list
        "retrieved": 4, "tied": 2,
        "rankings": 3, "shortest": 0, "median_length": 2, "longest": 3,
        "not_retrieved": 1, "unjudged": 1, "unjudged_share": 1 / 4,
        "tied_rankings": 1 / 3, "tied_documents": 2 / 4,
        "barren_rankings": 1, "unretrieved_rankings": 1, "repeated": 1,
    }  # fmt: skip


def test_findings_are_the_same_for_every_layout_and_engine(log, tmp_path):
    expected = findings(log, by="run").collect()
    for layout, rows in {
        "sorted": log.sort("run", "query"),
        "adjacent": log.sort("run", "query", descending=[False, True]),
        "shuffled": log.sample(fraction=1, shuffle=True, seed=1),
    }.items():
        rows.write_parquet(tmp_path / layout)
        scanned = findings(pr.scan_log(tmp_path / layout, by="run"), by="run")
        for engine in ("streaming", "in-memory"):
            assert scanned.collect(engine=engine).equals(expected), (layout, engine)


def test_findings_stream(log, tmp_path):
    log.sort("run", "query").write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet", by="run")
    log = Log.of(scanned)
    plan = log_counts(log.table, log.columns, 1, ["run"])
    graph = plan.show_graph(engine="streaming", plan_stage="physical", raw_output=True, show=False)
    assert "sorted-group-by" in graph and "in-memory-map" not in graph
