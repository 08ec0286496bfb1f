"""Metrics during training, with data in place of the tools; see `peers/test_training.py`."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest

import polars_rank as pr
from polars_rank.errors import ArgumentError

random = np.random.default_rng(0)
SIZES = random.integers(1, 12, 60)
IDS = np.repeat(np.arange(60), SIZES)
LABELS = random.integers(0, 4, len(IDS)).astype(np.float32)
SCORES = random.integers(0, 6, len(IDS)) / 5  # with ties

METRICS = [
    "ndcg@5", "ndcg(gain='exp2')@10", "ap", "rr", "recall@3", "precision@5", "err@10", "rbp",
    "bpref", "roc_auc", "r_precision", "kendall_tau_b", "average_relevance_position",
    "num_relevant",
]  # fmt: skip


class Dataset:
    """What callables read of a dataset of LightGBM, XGBoost or CatBoost."""

    def __init__(self, labels: Any = LABELS, sizes: Any = SIZES) -> None:
        self.labels, self.sizes = labels, sizes

    def get_label(self) -> Any:
        return self.labels

    def get_group(self) -> Any:
        return self.sizes

    def get_uint_info(self, field: str) -> Any:
        assert field == "group_ptr"
        ends = [] if self.sizes is None else [0, *np.cumsum(self.sizes)]
        return np.array(ends, dtype=np.uint32)

    def get_group_id_hash(self) -> Any:
        return np.repeat(np.arange(len(self.sizes), dtype=np.uint64), self.sizes)


def expected(metric: str, labels: Any = LABELS, **options: Any) -> float:
    log = pl.DataFrame({"query": IDS, "score": SCORES, "label": labels})
    return pr.evaluate(log.lazy(), metric, **options).collect().item(0, metric)


@pytest.mark.parametrize("options", [{}, {"conventions": "lightgbm"}, {"ties": "best", "rel": 2}])
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_values_are_those_of_evaluate(options: dict[str, Any]) -> None:
    for metric in METRICS:
        check_values(metric, **options)


def check_values(metric: str, **options: Any) -> None:
    value = pytest.approx(expected(metric, **options), abs=1e-12)
    data, rises = Dataset(), metric != "average_relevance_position"
    assert pr.training.lightgbm(metric, **options)(SCORES, data) == (metric, value, rises)
    assert pr.training.xgboost(metric, **options)(SCORES, data) == (metric, value)
    for groups in (SIZES, IDS, [*map(str, IDS)], data, [np.array([3]), IDS], [Dataset(), data]):
        of_catboost = pr.training.catboost(metric, groups, **options)
        error, weight = of_catboost.evaluate([SCORES], LABELS, None)
        assert of_catboost.get_final_error(error, weight) == value
        assert of_catboost.is_max_optimal() == rises
        assert type(of_catboost).__name__ == metric
    accumulator = pr.training.Accumulator([metric], **options)
    accumulator.update(SCORES, LABELS, groups=SIZES)
    assert accumulator.compute() == {metric: value}


def test_labels_that_change() -> None:
    data, feval = Dataset(LABELS.copy()), pr.training.lightgbm("ndcg")
    feval(SCORES, data)
    data.labels[:] = 3 - LABELS
    assert feval(SCORES, data)[1] == pytest.approx(expected("ndcg", 3 - LABELS), abs=1e-12)


def test_a_mean_that_is_undefined() -> None:
    nothing = Dataset([0, 0], [2])
    with pytest.warns(pr.errors.RankWarning):
        assert pr.training.lightgbm("ndcg")([2, 1], nothing) == ("ndcg", 0.0, True)
    name, value = pr.training.xgboost("ndcg", undefined="skip")([2, 1], nothing)
    assert name == "ndcg" and math.isnan(value)


def test_errors() -> None:
    of_lightgbm, three = pr.training.lightgbm("rr"), ([0.9, 0.1, 0.5], [0, 1, 1])
    of_catboost = pr.training.catboost("rr", SIZES)
    unknown = "groups of a dataset of .* documents are unknown"
    for call, said in (
        (
            lambda: of_lightgbm(SCORES, Dataset(sizes=[2])),
            r"have 2 documents, but there are \d+ pred",
        ),
        (lambda: of_lightgbm(SCORES, Dataset(sizes=None)), "pass `group` to lightgbm.Dataset"),
        (lambda: pr.training.xgboost("rr")(SCORES, Dataset(sizes=None)), "to xgboost.DMatrix"),
        (lambda: pr.training.xgboost("rr")(three[1], three[0]), "XGBRanker passes no groups"),
        (lambda: pr.training.lightgbm("ndcg@5,10"), "`metric` must be one metric; found 2 metrics"),
        (lambda: pr.training.xgboost("ndgc@10"), "ndgc"),
        (lambda: pr.training.catboost("ndcg", SIZES, conventions="lightgmb"), "LightGBM"),
        (lambda: pr.training.Accumulator("recall(depth=3)"), "depth"),  # before the training
        (lambda: pr.training.Accumulator("rr", ties="no"), "ties"),
        (
            lambda: of_catboost.evaluate([SCORES, SCORES], LABELS, None),
            "predicts 2 values for each",
        ),
        *(
            (lambda groups=groups: _of_catboost(groups, SCORES, LABELS), unknown)
            for groups in ([1, 2], Dataset(LABELS[::-1]))
        ),
        *(
            (lambda groups=groups: _of_catboost(groups, *three), unknown)
            for groups in ([-1, 4], [2**31], [None, 3], [2**63 - 1, 2**63 - 1, 4, 1])
        ),
    ):
        with pytest.raises(ArgumentError, match=said):
            call()


def _of_catboost(groups: Any, scores: Any, labels: Any) -> tuple[float, float]:
    return pr.training.catboost("rr", groups).evaluate([scores], labels, None)


def test_sizes_of_groups_that_are_invalid() -> None:
    scores, labels = [0.9, 0.1, 0.5], [0, 1, 1]
    whole = "`groups` must be integers of 0 or more"
    for sizes, said in (
        ([2**31], "groups have 2,147,483,648 documents, but there are 3 predictions"),
        ([2**63 - 1, 2**63 - 1, 5], "groups have 18,446,744,073,709,55"),
        ([-1, 4], whole),
        ([math.nan, 3], "found .* of type Float64; cast them to integers"),
        (np.array([[2, 1]]), "found array.* of type Array.*; cast them to integers"),
        ([None, 3], whole),
        (["a", "b"], "of type String; cast them to integers"),
        (5, "`groups` must be an array, a Series or a list; found int"),
    ):
        with pytest.raises(ArgumentError, match=said):
            pr.training.lightgbm("mrr")(scores, Dataset(labels, sizes))
        with pytest.raises(ArgumentError, match=said):
            pr.training.lightgbm("mrr")(labels, scores, None, sizes)
        with pytest.raises(ArgumentError, match="`groups` must"):
            pr.training.Accumulator("mrr").update(scores, labels, groups=sizes)
    data = Dataset(labels)
    data.get_uint_info = lambda _: np.array([0, 2**31], np.uint32)  # ends of groups
    with pytest.raises(ArgumentError, match="groups have 2,147,483,648 documents"):
        pr.training.xgboost("mrr")(scores, data)
    assert _of_catboost([-1, -1, 4], scores, labels) == (0.75, 1.0)  # ids
    assert _of_catboost([0, 3], scores, labels) == (0.5, 1.0)


def test_metrics_are_pickled() -> None:
    ours = pr.ndcg(5).alias("ours")
    for build in (pr.training.lightgbm, pr.training.xgboost):
        metric = build(ours, ties="best")
        assert pickle.loads(pickle.dumps(metric))(SCORES, Dataset()) == metric(SCORES, Dataset())
    metric = pr.training.catboost(ours, SIZES, ties="best")
    again = pickle.loads(pickle.dumps(metric))
    assert type(again).__name__ == "ours"
    assert again.evaluate([SCORES], LABELS, None) == metric.evaluate([SCORES], LABELS, None)


def test_threads_add_batches_at_the_same_time() -> None:
    """In each batch, one of two rankings is right."""
    metrics = pr.training.Accumulator("rr", ties="worst")
    update = partial(metrics.update, [[1, 0], [1, 0]], [[1, 0], [0, 1]])
    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(update) for _ in range(300)]:
            each.result()
    assert metrics.compute() == {"rr": 0.75}


def test_batches() -> None:
    metrics = pr.training.Accumulator(["ndcg@5", "rr"])
    order = random.permutation(len(IDS))
    for _ in range(2):
        for part in np.array_split(order, 5):  # documents of a query in several batches
            metrics.update(SCORES[part], LABELS[part], IDS[part])
        whole = {name: pytest.approx(expected(name), abs=1e-12) for name in ("ndcg@5", "rr")}
        assert metrics.compute() == whole
        metrics.reset()
    with pytest.raises(ArgumentError, match="call `update` first"):
        metrics.compute()


def test_rows_of_batches_are_rankings() -> None:
    metrics = pr.training.Accumulator("rr")
    metrics.update([[3, 2, 1], [1, 2, 0]], [[0, 1, -100], [0, -100, 1]], ignore=-100)
    metrics.update([[2, 1]], [[1, 0]])
    assert metrics.compute() == {"rr": pytest.approx((1 / 2 + 1 / 2 + 1) / 3)}
    with pytest.raises(ArgumentError, match="for all batches or for none"):
        metrics.update([[2, 1]], [[1, 0]], [7])
