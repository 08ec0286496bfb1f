"""Metrics during training with the tools: LightGBM, XGBoost, CatBoost and PyTorch."""

from __future__ import annotations

from typing import Any

import needs
import numpy as np
import pytest
from test_training import IDS, LABELS, SCORES, SIZES, expected, random

import polars_rank as pr
from polars_rank.errors import ArgumentError

FEATURES = np.column_stack([LABELS + random.normal(0, 2, len(IDS)), random.normal(size=len(IDS))])


def test_tensors() -> None:
    torch = needs.package("torch", "conformance")
    metrics = pr.training.Accumulator("ndcg@5")
    scores = torch.tensor(SCORES, requires_grad=True)
    metrics.update(scores, torch.tensor(LABELS), torch.tensor(IDS))
    metrics.update(scores[:0].bfloat16(), torch.tensor(LABELS[:0]), torch.tensor(IDS[:0]))
    assert metrics.compute() == {"ndcg@5": pytest.approx(expected("ndcg@5"))}


def test_lightgbm() -> None:
    """LightGBM's NDCG has exponential gains, ours linear ones, and a name of it its own history."""
    lightgbm = needs.package("lightgbm", "conformance")
    parameters = {"objective": "lambdarank", "verbose": -1, "num_threads": 1}
    same = pr.training.lightgbm(pr.ndcg(10).alias("ours"), conventions="lightgbm")
    for own, name in (
        ({"metric": "ndcg", "eval_at": [10]}, "polars_rank.ndcg@10"),
        ({"metrics": ["map", "ndcg"], "ndcg_at": "10"}, "polars_rank.ndcg@10"),
        ({"metric": "None"}, "ndcg@10"),
    ):
        history: dict[str, Any] = {}
        train = lightgbm.Dataset(FEATURES, LABELS, group=SIZES)
        model = lightgbm.train(
            {**parameters, **own}, train, 20, valid_sets=[train],
            feval=[same, pr.training.lightgbm("ndcg@10"), pr.training.lightgbm("rr")],
            callbacks=[lightgbm.record_evaluation(history)],
        )  # fmt: skip
        (found,) = history.values()
        assert {len(each) for each in found.values()} == {20} and len({*found["rr"]}) > 1
        assert set(found) - {"map@10"} == {"rr", "ndcg@10", "ours", name}
        if name != "ndcg@10":
            assert found["ours"] == pytest.approx(found["ndcg@10"], abs=1e-9)
        log = pr.from_arrays(LABELS, model.predict(FEATURES), groups=SIZES).drop("doc")
        value = pr.evaluate(log, "ndcg@10").item(0, "ndcg@10")
        assert found[name][-1] == pytest.approx(value, abs=1e-9)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_lightgbm_ranker() -> None:
    """It calls metrics with labels first, and the groups of each evaluation set."""
    lightgbm = needs.package("lightgbm", "conformance")
    part = SIZES[:20].sum()
    ours = [pr.training.lightgbm(name) for name in ("ndcg@5", "rr")]
    ranker = lightgbm.LGBMRanker(n_estimators=20, n_jobs=1, verbose=-1)
    ranker.fit(
        FEATURES, LABELS, group=SIZES, eval_set=[(FEATURES[:part], LABELS[:part])],
        eval_group=[SIZES[:20]], eval_metric=ours,
    )  # fmt: skip
    (found,) = ranker.evals_result_.values()
    assert {len(each) for each in found.values()} == {20}
    assert {"ndcg@5", "polars_rank.ndcg@5", "rr"} <= {*found}
    log = pr.from_arrays(LABELS[:part], ranker.predict(FEATURES[:part]), groups=SIZES[:20])
    values = pr.evaluate(log.drop("doc"), ["ndcg@5", "rr"]).row(0, named=True)
    assert found["polars_rank.ndcg@5"][-1] == pytest.approx(values["ndcg@5"], abs=1e-9)
    assert found["rr"][-1] == pytest.approx(values["rr"], abs=1e-9)
    with pytest.raises(ArgumentError, match="or `eval_group` to LGBMRanker.fit"):
        ours[0](LABELS, SCORES, None, None)


def test_xgboost() -> None:
    xgboost = needs.package("xgboost", "conformance")
    train = xgboost.DMatrix(FEATURES, LABELS, qid=IDS)
    history: dict[str, Any] = {}
    xgboost.train(
        {"objective": "rank:ndcg", "eval_metric": "ndcg@5", "nthread": 1}, train, 5,
        evals=[(train, "train")], evals_result=history, verbose_eval=False,
        custom_metric=pr.training.xgboost(pr.ndcg(5).alias("ours"), conventions="xgboost"),
        callbacks=[
            xgboost.callback.EarlyStopping(
                rounds=5, metric_name="ours", data_name="train", maximize=True
            )
        ],
    )  # fmt: skip
    found = history["train"]
    assert found["ours"] == pytest.approx(found["ndcg@5"], abs=1e-6)  # XGBoost rounds the value


@pytest.mark.filterwarnings("error")  # such as for methods that cannot be compiled
def test_catboost() -> None:
    catboost = needs.package("catboost", "conformance")
    half = SIZES[:30].sum()
    train = catboost.Pool(FEATURES[:half], LABELS[:half], group_id=IDS[:half])
    valid = catboost.Pool(FEATURES[half:], LABELS[half:], group_id=IDS[half:])
    parameters = {
        "loss_function": "YetiRank", "iterations": 4, "verbose": 0, "random_seed": 1,
        "thread_count": 1, "allow_writing_files": False,
    }  # fmt: skip
    for groups in ([train, valid], [SIZES[:30], SIZES[30:]]):
        metric = pr.training.catboost("ndcg@5", groups, conventions="catboost")
        model = catboost.CatBoost({**parameters, "eval_metric": metric})
        model.fit(train, eval_set=valid)
        best = model.best_score_["validation"]["ndcg@5"]
        log = pr.from_arrays(LABELS[half:], model.predict(valid), groups=SIZES[30:])
        value = pr.evaluate(log.drop("doc"), "ndcg@5", conventions="catboost").item(0, "ndcg@5")
        assert best == pytest.approx(value, abs=1e-9)
