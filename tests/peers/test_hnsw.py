"""`fidelity` of an HNSW index at three settings against brute force in NumPy."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest

K, DEPTH, SETTINGS = 10, 20, (10, 30, 200)
random = np.random.default_rng(8)
#: 3,000 documents in 60 clusters, and 80 queries.
CENTERS = random.normal(size=(60, 16))
DOCS = np.repeat(CENTERS, 50, axis=0) + random.normal(0, 0.7, (3_000, 16))
QUERIES = CENTERS[random.integers(0, 60, 80)] + random.normal(0, 0.7, (80, 16))


def table_of(docs: Any, distances: Any) -> pl.DataFrame:
    query = np.repeat(np.arange(len(docs)), docs.shape[1])
    columns = {"query": query, "doc": docs.ravel(), "distance": distances.ravel()}
    return pl.DataFrame(columns, {"query": pl.Int64, "doc": pl.Int64, "distance": pl.Float64})


@pytest.mark.parametrize("tolerance", [0.001, 1.0])
def test_recall_of_an_index_is_that_of_numpy(tolerance: float) -> None:
    hnswlib = needs.package("hnswlib", "conformance")
    distances = ((QUERIES[:, None] - DOCS[None]) ** 2).sum(axis=2)
    best = np.argsort(distances, axis=1)[:, :DEPTH]
    exact = table_of(best, np.take_along_axis(distances, best, axis=1))
    index = hnswlib.Index("l2", DOCS.shape[1])
    index.init_index(len(DOCS), ef_construction=20, M=4, random_seed=3)
    index.add_items(DOCS, num_threads=1)
    runs, found, times = [], {}, {}
    for ef in SETTINGS:
        index.set_ef(ef)
        rows, seconds = [], []
        for vector in QUERIES:
            began = perf_counter()
            rows.append(index.knn_query(vector, K, num_threads=1))
            seconds.append(perf_counter() - began)
        found[ef], times[ef] = np.concatenate([docs for docs, _ in rows]), seconds
        run = table_of(found[ef], np.concatenate([distances for _, distances in rows]))
        latency = pl.Series(np.repeat(seconds, K))
        runs.append(run.with_columns(ef=ef, latency=latency))
    table = pr.diagnostics.fidelity(
        exact, pl.concat(runs), K, run="ef", score="-distance", tolerance=tolerance, details=True
    )
    assert table["ef"].to_list() == [*SETTINGS]
    limit = np.sort(distances, axis=1)[:, [K - 1]] + tolerance
    for row in table.iter_rows(named=True):
        docs = found[row["ef"]]
        hits = [len({*a} & {*b}) / K for a, b in zip(docs, best[:, :K], strict=True)]
        near = np.take_along_axis(distances, docs.astype(int), axis=1) <= limit
        assert row["recall"] == pytest.approx(np.mean(hits))
        assert row["recall_by_score"] == pytest.approx(near.mean())
        assert row["missed"] == pytest.approx(1 - np.mean(hits))
        assert (row["short"], row["demoted"], row["queries"]) == (0, 0, len(QUERIES))
        assert row["low"] <= row["recall"] <= row["high"]
        assert row["latency_mean"] == pytest.approx(np.mean(times[row["ef"]]))
        assert row["latency_p95"] == pytest.approx(np.quantile(times[row["ef"]], 0.95))
    # The settings differ, and a longer list of candidates finds more.
    assert table["recall"].is_sorted() and table["recall"][0] < 0.9 < table["recall"][2]
