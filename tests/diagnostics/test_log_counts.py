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
            "query": ["a", "a", "a", "b", "b", "c", None],
            "doc": [1, 2, 2, 1, None, None, 9],
            "score": [2.0, 2.0, 1.0, None, 0.5, None, float("nan")],
            "label": [1.0, None, 0.0, 2.0, 0.0, None, float("inf")],
        }
    )
    assert findings(log).collect().row(0, named=True) == {
        "rows": 6,  # that of "c" is of an empty list
        "rankings": 4, "shortest": 0, "longest": 3,
        "median_length": (1 + 2) / 2, "mean_length": (3 + 2 + 0 + 1) / 4,
        "not_retrieved": 1, "unlabelled": 1, "unjudged": 1, "unjudged_share": 1 / 5,
        "tied_rankings": 1 / 4, "tied_documents": 2 / 5,
        "barren_rankings": 1, "unretrieved_rankings": 1, "repeated": 1,
        "null_query": 1, "null_doc": 1, "bad_score": 1, "bad_label": 1,
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
