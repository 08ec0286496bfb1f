"""Intent-aware metrics with other parameters than the defaults equal those of pyndeval."""

from __future__ import annotations

import needs
import polars as pl
import polars_rank as pr
import pytest

from tests.conformance import peers
from tests.conformance.logs import diverse_log

#: Powers of 1 - alpha are exact, so that pyndeval finds the same ties in the ideal ranking.
OPTIONS = [(1, 0.25, 0.5), (2, 0.75, 0.8), (3, 0.0, 0.2), (1, 1.0, 0.5)]


@pytest.mark.parametrize(("rel", "alpha", "beta"), OPTIONS)
def test_parameters(rel: int, alpha: float, beta: float) -> None:
    needs.package("pyndeval", "conformance")
    log = diverse_log(16).with_columns(
        grades=pl.col("subtopics").list.eval(pl.element().rank("ordinal").cast(pl.Int64))
    )
    alike = {"alpha": alpha, "rel": rel, "grades": "grades"}
    metrics = {
        "alpha-DCG@5": pr.metrics.alpha_dcg(5, **alike),
        "alpha-nDCG@5": pr.alpha_ndcg(5, **alike),
        "ERR-IA@5": pr.metrics.err_ia(5, **alike),
        "nERR-IA@5": pr.metrics.nerr_ia(5, **alike),
        "NRBP": pr.metrics.nrbp(beta=beta, **alike),
        "nNRBP": pr.metrics.nnrbp(beta=beta, **alike),
        "MAP-IA": pr.metrics.ap_ia(rel=rel, grades="grades"),
        "strec@5": pr.metrics.subtopic_recall(5, rel=rel, grades="grades"),
    }
    found = pr.per_query(
        log, [metric.alias(name) for name, metric in metrics.items()], conventions="ndeval"
    )
    theirs = peers.pyndeval(log, list(metrics), rel=rel, alpha=alpha, beta=beta)
    for name, values in theirs.items():
        ours = dict(found.select("query", name).iter_rows())
        known = {query: value for query, value in values.items() if value == value}
        assert {q: ours[q] or 0.0 for q in known} == pytest.approx(known, rel=1e-12, abs=1e-12)
