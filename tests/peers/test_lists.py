"""Objects of ranx as dictionaries, and NDCG of LightGBM on arrays."""

from __future__ import annotations

import needs
import numpy as np
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

JUDGMENTS = {"q1": {"a": 1, "b": 0, "c": 2}, "q2": {"z": 1}}
BM25 = {"q1": {"a": 0.9, "x": 0.8}, "q3": {"y": 0.1}}


@pytest.mark.filterwarnings("ignore:.*(leaves them out|do the ids match)")
def test_ranx_itself() -> None:
    ranx = needs.package("ranx", "conformance")
    run, qrels = ranx.Run(BM25), ranx.Qrels(JUDGMENTS)
    for rankings, plain in (({"bm25": run}, {"bm25": BM25}), (run, BM25)):
        expected = pr.from_dicts(plain, JUDGMENTS)
        for order in ((rankings, qrels), (qrels, rankings)):
            table = pr.from_dicts(*order)
            assert_frame_equal(table, expected, check_row_order=False, check_dtypes=False)
    assert_frame_equal(pr.from_dicts(JUDGMENTS, run), pr.from_dicts(run, JUDGMENTS))
    for same in (run, qrels):
        with pytest.raises(pr.errors.ArgumentError, match=f"both {type(same).__name__}; pass one"):
            pr.from_dicts(same, same)


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
