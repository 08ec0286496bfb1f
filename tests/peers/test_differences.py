"""Values, differences and objects of tools of the group "conformance"."""

from __future__ import annotations

from typing import Any

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

from tests import recorded
from tests.conformance import peers
from tests.conformance.differences import check_tool, of_group
from tests.conformance.logs import LOGS, diverse_log
from tests.conformance.pairs import PEERS, Peer

pytestmark = pytest.mark.filterwarnings("ignore")  # from the peers


@pytest.mark.parametrize(
    "peer", [each for each in PEERS if each.group == "conformance"], ids=lambda each: each.name
)
def test_values_and_means(peer: Peer) -> None:
    needs.package(peer.module, peer.group)
    assert peer.wrong() == []


@pytest.mark.parametrize("difference", of_group("conformance"))
def test_tools(difference: dict[str, Any]) -> None:
    needs.package(difference["tool"]["module"], "conformance")
    check_tool(difference)


def test_ir_measures_returns_0_for_a_second_alpha() -> None:
    needs.package("pyndeval", "conformance")
    log, names = LOGS["subtopics"](), ["alpha_nDCG@5", "alpha_nDCG(alpha=0.25)@5"]
    found = peers.ir_measures(log, names)
    assert sorted(any(values.values()) for values in found.values()) == [False, True]
    ours = pr.evaluate(log, names, conventions=pr.conventions.IR_MEASURES)
    assert all(ours.item(0, name) > 0.1 for name in names)


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


def test_alpha_of_ordinal_labels() -> None:
    peer = needs.package("krippendorff", "conformance")
    for case in recorded.read("irrcac")[:3]:
        raters = len(case["ratings"][0])
        ratings = [*case["ratings"], [1, *[None] * (raters - 1)]]
        labels = [
            (place // 3, place, f"judge {rater}", label)
            for place, row in enumerate(ratings)
            for rater, label in enumerate(row)
        ]
        schema = {"query": pl.Int64, "doc": pl.Int64, "judge": pl.String, "label": pl.Float64}
        log = pl.DataFrame(labels, schema, orient="row")
        found = pr.judges.agreement(log, n_resamples=1).filter(statistic="alpha_ordinal")
        ours = found if raters == 2 else found.filter(judge="all")
        matrix = pl.DataFrame(ratings, orient="row").to_numpy().astype(float).T
        expected = peer.alpha(matrix, level_of_measurement="ordinal")
        assert ours["value"].item() == pytest.approx(expected, abs=1e-9)


JUDGMENTS = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"z": 1}}
BM25 = {"q1": {"a": 0.9, "x": 0.8}, "q3": {"y": 0.1}}


def test_ranx_itself() -> None:
    ranx = needs.package("ranx", "conformance")
    run, qrels = ranx.Run(BM25), ranx.Qrels(JUDGMENTS)
    for rankings, plain in (({"bm25": run}, {"bm25": BM25}), (run, BM25)):
        expected = pr.from_dicts(plain, JUDGMENTS)
        table = pr.from_dicts(rankings, qrels)
        assert_frame_equal(table, expected, check_row_order=False, check_dtypes=False)
    for order in (
        (qrels, run),
        (qrels, {"bm25": run}),
        (JUDGMENTS, run),
        (run, run),
        (qrels, qrels),
    ):
        with pytest.raises(pr.errors.ArgumentError, match="pass the Run first"):
            pr.from_dicts(*order)


def test_ndcg_of_lightgbm_itself() -> None:
    lightgbm = needs.package("lightgbm", "conformance")
    sizes = [30, 45, 25]
    rng = np.random.default_rng(2)
    labels, scores = rng.integers(0, 4, 100), rng.random(100)
    data = lightgbm.Dataset(
        np.zeros((100, 1)),
        label=labels,
        group=sizes,
        init_score=scores,  # of a model that is never trained
        params={"verbosity": -1, "feature_pre_filter": False},
    )
    options = {"objective": "none", "metric": ["ndcg"], "eval_at": [3, 10], "verbosity": -1}
    theirs = {name: value for _, name, value, _ in lightgbm.Booster(options, data).eval_train()}
    assert sorted(theirs) == ["ndcg@10", "ndcg@3"]
    table = pr.from_arrays(labels, scores, groups=sizes)
    ours = pr.evaluate(table, [*theirs], conventions=pr.conventions.LIGHTGBM)
    assert ours.select(*theirs).row(0) == pytest.approx(tuple(theirs.values()))
