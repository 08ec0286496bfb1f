"""Metrics during training, with data in place of the tools and with the tools."""

from __future__ import annotations

import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import needs
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
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_values_are_those_of_evaluate(metric: str, options: dict[str, Any]) -> None:
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
    with pytest.raises(ArgumentError, match=r"groups have 2 documents, but there are \d+ pred"):
        pr.training.lightgbm("rr")(SCORES, Dataset(sizes=[2]))
    with pytest.raises(ArgumentError, match="no groups; pass `group` to lightgbm.Dataset"):
        pr.training.lightgbm("ndcg")(SCORES, Dataset(sizes=None))
    with pytest.raises(ArgumentError, match="no groups; pass `qid` or `group` to xgboost.DMatrix"):
        pr.training.xgboost("ndcg")(SCORES, Dataset(sizes=None))
    with pytest.raises(ArgumentError, match=r"`metric` must be one metric; found 2 metrics"):
        pr.training.lightgbm("ndcg@5,10")
    with pytest.raises(ArgumentError, match="ndgc"):
        pr.training.xgboost("ndgc@10")
    with pytest.raises(ArgumentError, match="LightGBM"):
        pr.training.catboost("ndcg", SIZES, conventions="lightgmb")
    with pytest.raises(ArgumentError, match="depth"):  # the plan is checked before the training
        pr.training.Accumulator("recall(depth=3)")


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([2**31], "groups have 2,147,483,648 documents, but there are 3 predictions"),
        ([2**63 - 1, 2**63 - 1, 5], "groups have 18,446,744,073,709,55"),
        ([-1, 4], "`groups` must be integers of 0 or more"),
        ([math.nan, 3], "found .* of type Float64; cast them to integers"),
        (np.array([[2, 1]]), "found array.* of type Array.*; cast them to integers"),
        ([None, 3], "`groups` must be integers of 0 or more"),
        (["a", "b"], "of type String; cast them to integers"),
        (5, "`groups` must be an array, a Series or a list; found int"),
    ],
)
def test_sizes_of_groups_that_are_invalid(sizes: Any, message: str) -> None:
    scores, labels = [0.9, 0.1, 0.5], [0, 1, 1]
    with pytest.raises(ArgumentError, match=message):
        pr.training.lightgbm("mrr")(scores, Dataset(labels, sizes))
    with pytest.raises(ArgumentError, match=message):
        pr.training.lightgbm("mrr")(labels, scores, None, sizes)
    with pytest.raises(ArgumentError, match="`groups` must"):
        pr.training.Accumulator("mrr").update(scores, labels, groups=sizes)


def test_sizes_of_groups_that_are_no_sizes() -> None:
    """XGBoost has ends of groups; for CatBoost, numbers may be sizes or ids."""
    data = Dataset([0, 1, 1])
    data.get_uint_info = lambda _: np.array([0, 2**31], np.uint32)
    with pytest.raises(ArgumentError, match="groups have 2,147,483,648 documents"):
        pr.training.xgboost("mrr")([0.9, 0.1, 0.5], data)
    with pytest.raises(ArgumentError, match="XGBRanker passes no groups"):
        pr.training.xgboost("mrr")([0, 1, 1], np.array([0.9, 0.1, 0.5]))
    for sizes in ([-1, 4], [2**31], [None, 3], [2**63 - 1, 2**63 - 1, 4, 1]):
        with pytest.raises(ArgumentError, match="groups of a dataset of 3 documents are unknown"):
            pr.training.catboost("mrr", sizes).evaluate([[0.9, 0.1, 0.5]], [0, 1, 1], None)
    metric = pr.training.catboost("mrr", [-1, -1, 4])  # ids
    assert metric.evaluate([[0.9, 0.1, 0.5]], [0, 1, 1], None) == (0.75, 1.0)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_metrics_are_pickled(name: str) -> None:
    options: dict[str, Any] = {"groups": SIZES} if name == "catboost" else {}
    metric = getattr(pr.training, name)(pr.ndcg(5).alias("ours"), ties="best", **options)
    again = pickle.loads(pickle.dumps(metric))
    if name == "catboost":
        assert type(again).__name__ == "ours"
        assert again.evaluate([SCORES], LABELS, None) == metric.evaluate([SCORES], LABELS, None)
    else:
        assert again(SCORES, Dataset()) == metric(SCORES, Dataset())


def test_threads_add_batches_at_the_same_time() -> None:
    """In each batch, one of two rankings is right."""
    metrics = pr.training.Accumulator("rr", ties="worst")
    update = partial(metrics.update, [[1, 0], [1, 0]], [[1, 0], [0, 1]])
    with ThreadPoolExecutor(8) as threads:
        for each in [threads.submit(update) for _ in range(300)]:
            each.result()
    assert metrics.compute() == {"rr": 0.75}


@pytest.mark.parametrize("groups", [[1, 2], Dataset(LABELS[::-1])])
def test_groups_of_another_dataset(groups: Any) -> None:
    metric = pr.training.catboost("ndcg", groups)
    with pytest.raises(ArgumentError, match="predicts 2 values for each document"):
        pr.training.catboost("rr", SIZES).evaluate([SCORES, SCORES], LABELS, None)
    with pytest.raises(ArgumentError, match=r"groups of a dataset of \d+ documents are unknown"):
        metric.evaluate([SCORES], LABELS, None)


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


def test_tensors() -> None:
    torch = needs.package("torch", "conformance")
    metrics = pr.training.Accumulator("ndcg@5")
    scores = torch.tensor(SCORES, requires_grad=True)
    metrics.update(scores, torch.tensor(LABELS), torch.tensor(IDS))
    metrics.update(scores[:0].bfloat16(), torch.tensor(LABELS[:0]), torch.tensor(IDS[:0]))
    assert metrics.compute() == {"ndcg@5": pytest.approx(expected("ndcg@5"))}


FEATURES = np.column_stack([LABELS + random.normal(0, 2, len(IDS)), random.normal(size=len(IDS))])


def test_lightgbm() -> None:
    lightgbm = needs.package("lightgbm", "conformance")
    train = lightgbm.Dataset(FEATURES, LABELS, group=SIZES)
    history: dict[str, Any] = {}
    ours = [
        pr.training.lightgbm(pr.ndcg(5).alias("ours"), conventions="lightgbm"),
        pr.training.lightgbm("rr"),
    ]
    parameters = {"objective": "lambdarank", "metric": "ndcg", "eval_at": [5], "verbose": -1}
    lightgbm.train(
        {**parameters, "num_threads": 1, "min_data_in_leaf": 5}, train, 5, valid_sets=[train],
        feval=ours, callbacks=[lightgbm.record_evaluation(history)],
    )  # fmt: skip
    (found,) = history.values()
    assert found["ours"] == pytest.approx(found["ndcg@5"], abs=1e-9)
    assert len({*found["rr"]}) > 1


def test_a_name_of_lightgbm_has_its_own_history() -> None:
    """LightGBM's NDCG has exponential gains, and ours has linear ones."""
    lightgbm = needs.package("lightgbm", "conformance")
    ours = [pr.training.lightgbm("ndcg@10"), pr.training.lightgbm("rr")]
    parameters = {"objective": "lambdarank", "verbose": -1, "num_threads": 1}
    for own, name in (
        ({"metric": "ndcg", "eval_at": [10]}, "polars_rank.ndcg@10"),
        ({"metrics": ["map", "ndcg"], "ndcg_at": "10"}, "polars_rank.ndcg@10"),
        ({"metric": "None"}, "ndcg@10"),
    ):
        history: dict[str, Any] = {}
        train = lightgbm.Dataset(FEATURES, LABELS, group=SIZES)
        model = lightgbm.train(
            {**parameters, **own}, train, 20, valid_sets=[train], feval=ours,
            callbacks=[lightgbm.record_evaluation(history)],
        )  # fmt: skip
        (found,) = history.values()
        assert {len(each) for each in found.values()} == {20}
        assert set(found) - {"map@10"} == {"rr", "ndcg@10", name}
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
