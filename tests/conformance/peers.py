"""Functions that evaluate a log with each peer, ranking by ranking if it returns only means."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

#: The values of a peer: by its name of the metric, then by query.
Values = dict[str, dict[str, float]]
#: The means that a peer reports, by its name of the metric.
Means = dict[str, float]


def of_trec_eval(log: pl.DataFrame) -> pl.DataFrame:
    """Return the log without queries whose labels are all below 0: trec_eval crashes."""
    return log.filter((pl.col("label").max().over("query") >= 0).fill_null(value=True))


def pytrec_eval(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with pytrec_eval."""
    import pytrec_eval as peer

    log = of_trec_eval(log)
    found = peer.RelevanceEvaluator(_judgments(log), set(names)).evaluate(_run(log))
    return {name: {query: values[name] for query, values in found.items()} for name in names}


def pytrec_eval_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Aggregate with pytrec_eval."""
    import pytrec_eval as peer

    return {
        name: peer.compute_aggregated_measure(name, [*values.values()])
        for name, values in pytrec_eval(log, names).items()
    }


def ir_measures(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with ir_measures, without NumQ, NumRel and subtopics of queries not in the run."""
    import ir_measures as peer

    measures = {peer.parse_measure(name): name for name in names}
    log = of_trec_eval(log)
    judgments, run = _judgments_of_ir_measures(log), _run(log)
    found: Values = {name: {} for name in names}
    for value in peer.iter_calc(list(measures), judgments, run):
        of_run = value.measure.NAME in ("NumQ", "NumRel") or "subtopics" in log.columns
        if value.query_id in run or not of_run:
            found[measures[value.measure]][value.query_id] = value.value
    return found


def ir_measures_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Aggregate with ir_measures, name by name, as for `diverse_ir_measures`."""
    import ir_measures as peer

    judgments, run = _judgments_of_ir_measures(log), _run(log)
    return {
        name: peer.calc_aggregate([measure], judgments, run)[measure]
        for name in names
        for measure in [peer.parse_measure(name)]
    }


def _judgments_of_ir_measures(log: pl.DataFrame) -> Any:
    """Return the judgments, with subtopics if the log has them."""
    import ir_measures as peer

    if "subtopics" not in log.columns:
        return _judgments(log)
    return [
        peer.GenericQrel(query, doc, label, subtopic)
        for query, subtopic, doc, label in _diverse(log)
    ]


def of_ir_accuracy(log: pl.DataFrame) -> pl.DataFrame:
    """Return the rankings whose best documents are not relevant: no ranking divides by zero."""
    is_best = pl.col("score") == pl.col("score").max()
    best = pl.col("label").filter(is_best).max().over("query")
    return of_trec_eval(log).filter((best < 1).fill_null(value=True))


def ir_accuracy(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate Accuracy with ir_measures, without rankings for which it divides by zero."""
    found: Values = {name: {} for name in names}
    for (query,), rows in log.group_by("query"):
        for name in names:
            with contextlib.suppress(ZeroDivisionError):
                found[name] |= {
                    q: value for q, value in ir_measures(rows, [name])[name].items() if q == query
                }
    return found


def pyndeval(
    log: pl.DataFrame, names: Sequence[str], *, rel: int = 1, alpha: float = 0.5, beta: float = 0.5
) -> Values:
    """Evaluate with pyndeval, with the grades of subtopics if there is a column of them."""
    import pyndeval as peer

    options = {"relevance_level": rel, "alpha": alpha, "beta": beta}
    found = peer.RelevanceEvaluator(_diverse(log), names, **options).evaluate(
        log.select("query", "doc", "score").drop_nulls().sort("query").iter_rows()
    )
    return {name: {query: values[name] for query, values in found.items()} for name in names}


def diverse_ir_measures(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with ir_measures, name by name."""
    return {name: ir_measures(log, [name])[name] for name in names}


def ranx(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with ranx, which supports only queries that have judgments and retrieved documents."""
    import ranx as peer

    judgments, run = _judgments(log), _run(log)
    both = judgments.keys() & run.keys()
    ranked = peer.Run({query: run[query] for query in both})
    peer.evaluate(peer.Qrels({query: judgments[query] for query in both}), ranked, list(names))
    return {name: dict(ranked.scores[name]) for name in names}


def ranx_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Average with ranx, over all queries that have judgments."""
    import ranx as peer

    judgments, run = peer.Qrels(_judgments(log)), peer.Run(_run(log))
    means = peer.evaluate(judgments, run, [*names], make_comparable=True)
    return means if isinstance(means, dict) else {names[0]: means}


def of_ranx_bpref(log: pl.DataFrame) -> pl.DataFrame:
    """Return the rankings for which the bpref of ranx is right.

    It is NaN if no document is judged not relevant, and wrong after a ranking without relevant
    documents.
    """
    label = pl.col("label")
    both = (label.max() >= 1) & (label.min() < 1) & pl.col("score").is_not_null().any()
    return log.filter(both.over("query").fill_null(value=False))


def ranx_bpref(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate bpref with ranx, without rankings for which it is wrong."""
    return ranx(of_ranx_bpref(log), names)


def by_list(evaluate: Callable[[list[float], list[float], str], float | None]) -> Callable:
    """Convert a function of scores, labels and a name to a function of a log and names."""

    @functools.wraps(evaluate)
    def values(log: pl.DataFrame, names: Sequence[str]) -> Values:
        found: Values = {name: {} for name in names}
        for query, scores, labels in _lists(log):
            for name in names:
                value = evaluate(scores, labels, name)
                if value is not None:
                    found[name][query] = value
        return found

    return values


#: Functions of scikit-learn that need binary predictions: the first k documents are 1.
_OF_TOP = ("matthews_corrcoef", "accuracy_score", "precision_score", "recall_score")
#: Functions that average over the rows of a matrix with `average="samples"`.
_BY_SAMPLE = ("roc_auc_score", "average_precision_score", "precision_score", "recall_score")


def _scikit_learn(
    name: str, scores: list[list[float]], labels: list[list[float]], *, many: bool
) -> float:
    """Evaluate rankings of equal length, or a single one, with a function of scikit-learn."""
    from sklearn import metrics

    function, parameters = called(name)
    target = labels
    if function not in ("ndcg_score", "dcg_score"):
        target = [[int(label >= 1) for label in row] for row in labels]
    if function in _OF_TOP:
        k = parameters.pop("k")
        scores = [[int(s >= sorted(row)[-min(k, len(row))]) for s in row] for row in scores]
    if function in ("precision_score", "recall_score"):
        parameters["zero_division"] = 0
    if many and function in _BY_SAMPLE:
        parameters["average"] = "samples"
    elif function in (*_OF_TOP, *_BY_SAMPLE):
        (target,), (scores,) = target, scores
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all or none of the documents are relevant
        return getattr(metrics, function)(target, scores, **parameters)


@by_list
def scikit_learn(scores: list[float], labels: list[float], name: str) -> float | None:
    """Evaluate with scikit-learn, without rankings of a single document, which it rejects.

    Average precision without relevant documents is omitted: scikit-learn has two values for it.
    """
    if len(scores) == 1 or (name.startswith("average_precision") and max(labels) < 1):
        return None
    return _scikit_learn(name, [scores], [labels], many=False)


def scikit_learn_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Average with scikit-learn over rankings of equal length, where its functions support it."""
    _, scores, labels = zip(*_lists(log), strict=True)
    few = [name for name in names if called(name)[0] not in ("accuracy_score", "matthews_corrcoef")]
    return {name: _scikit_learn(name, [*scores], [*labels], many=True) for name in few}


def of_one_length(log: pl.DataFrame) -> pl.DataFrame:
    """Return the rankings of the most frequent length above 1."""
    lengths = log.group_by("query").len().filter(pl.col("len") > 1).get_column("len")
    return log.filter(pl.len().over("query") == lengths.mode().max())


def of_scikit_learn_average_precision(log: pl.DataFrame) -> pl.DataFrame:
    """Return rankings of one length with a relevant document; without one, there are two values."""
    return of_one_length(log).filter(pl.col("label").max().over("query") >= 1)


@by_list
def torchmetrics(scores: list[float], labels: list[float], name: str) -> float | None:
    """Evaluate with torchmetrics; all its functions except NDCG need binary labels.

    Fall-out without nonrelevant documents is omitted: torchmetrics has two values for it.
    """
    import torch
    from torchmetrics.functional import retrieval

    function, parameters = called(name)
    graded = function == "retrieval_normalized_dcg"
    target = torch.tensor(labels if graded else [int(label >= 1) for label in labels])
    if function == "retrieval_fall_out" and all(target):
        return None
    prediction = torch.tensor(scores, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(getattr(retrieval, function)(prediction, target, **parameters))


#: Classes of torchmetrics whose names differ from those of its functions.
_CLASSES = {
    "average_precision": "MAP",
    "reciprocal_rank": "MRR",
    "normalized_dcg": "NormalizedDCG",
    "r_precision": "RPrecision",
    "auroc": "AUROC",
}


def torchmetrics_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Average with the classes of torchmetrics."""
    import torch
    from torchmetrics import retrieval

    rows = [(i, *row) for i, (_, s, ls) in enumerate(_lists(log)) for row in zip(s, ls)]
    indexes, scores, labels = zip(*rows, strict=True)
    found: Means = {}
    for name in names:
        function, parameters = called(name)
        stem = function.removeprefix("retrieval_")
        class_ = _CLASSES.get(stem, stem.title().replace("_", ""))
        graded = stem == "normalized_dcg"
        target = torch.tensor(labels if graded else [int(label >= 1) for label in labels])
        metric = getattr(retrieval, f"Retrieval{class_}")(**parameters)
        metric.update(torch.tensor(scores, dtype=torch.float32), target, torch.tensor(indexes))
        found[name] = float(metric.compute())
    return found


def lightgbm_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Evaluate with LightGBM, with scores as the initial scores of an untrained model."""
    import lightgbm as peer
    import numpy as np

    cutoffs = [int(name.partition("@")[2]) for name in names if "@" in name]
    metrics = sorted({name.partition("@")[0] for name in names})
    scores, labels, lengths = _rows(log)
    data = peer.Dataset(
        np.zeros((len(scores), 1)),
        label=labels,
        group=lengths,
        init_score=scores,
        params={"verbosity": -1, "feature_pre_filter": False},
    )
    options = {"objective": "none", "metric": metrics, "eval_at": cutoffs, "verbosity": -1}
    values = peer.Booster({**options, "num_threads": 1}, data).eval_train()
    return {name: float(value) for _, name, value, _ in values if name in names}


def xgboost_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Evaluate with XGBoost, with scores as the base margin of a model without trees."""
    import numpy as np
    import xgboost as peer

    scores, labels, lengths = _rows(log)
    data = peer.DMatrix(np.zeros((len(scores), 1)), label=labels)
    data.set_group(lengths)
    data.set_base_margin(np.asarray(scores, dtype=np.float32))
    options = {"objective": "rank:pairwise", "eval_metric": list(names), "nthread": 1}
    line = peer.Booster({**options, "verbosity": 0}, [data]).eval_set([(data, "")])
    found: Means = {}
    for part in line.split("\t")[1:]:
        name, _, value = part.removeprefix("-").rpartition(":")
        if name in names:
            found[name] = float(value)
    return found


def catboost_means(log: pl.DataFrame, names: Sequence[str]) -> Means:
    """Evaluate with CatBoost's `eval_metric`."""
    from catboost.utils import eval_metric

    scores, labels, lengths = _rows(log)
    groups = [group for group, length in enumerate(lengths) for _ in range(length)]
    return {name: eval_metric(labels, scores, name, group_id=groups)[0] for name in names}


def one_by_one(means: Callable[..., Means]) -> Callable[..., Values]:
    """Convert a function of logs to a function that evaluates each ranking alone."""

    @functools.wraps(means)
    def values(log: pl.DataFrame, names: Sequence[str]) -> Values:
        found: Values = {name: {} for name in names}
        for (query,), rows in log.group_by("query", maintain_order=True):
            for name, value in means(rows, names).items():
                found[name][query] = value
        return found

    return values


lightgbm, xgboost, catboost = map(one_by_one, (lightgbm_means, xgboost_means, catboost_means))


def called(name: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a call such as "ndcg_score(k=5)"."""
    function, _, arguments = name.partition("(")
    return function, eval(f"dict({arguments.removesuffix(')')})")


def _judgments(log: pl.DataFrame) -> dict[str, dict[str, int]]:
    return _nested(log, "label")


def _run(log: pl.DataFrame) -> dict[str, dict[str, float]]:
    return _nested(log, "score")


def _nested(log: pl.DataFrame, column: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for query, doc, value in log.select("query", "doc", column).drop_nulls().iter_rows():
        found.setdefault(query, {})[doc] = value
    return found


def _diverse(log: pl.DataFrame) -> list[tuple[str, str, str, int]]:
    """Return (query, subtopic, doc, grade); a document without subtopics has grade 0 for "a"."""
    if "grades" not in log.columns:
        log = log.with_columns(grades=pl.lit(1).repeat_by(pl.col("subtopics").list.len()))
    judged = log.filter(pl.col("label").is_not_null()).select("query", "subtopics", "doc", "grades")
    return [
        (query, subtopic, doc, grade)
        for query, subtopics, doc, grades in judged.iter_rows()
        for subtopic, grade in zip(subtopics or ["a"], grades or [0], strict=True)
    ]


def _rows(log: pl.DataFrame) -> tuple[list[float], list[float], list[int]]:
    """Return the scores and labels of all documents, and the lengths of the rankings."""
    _, scores, labels = zip(*_lists(log), strict=True)
    return sum(scores, []), sum(labels, []), [len(row) for row in scores]


def _lists(log: pl.DataFrame) -> Iterator[tuple[str, list[float], list[float]]]:
    for (query,), rows in log.group_by("query", maintain_order=True):
        yield query, rows["score"].to_list(), rows["label"].to_list()
