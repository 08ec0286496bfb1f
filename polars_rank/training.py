"""Metrics during training: callables for LightGBM, XGBoost and CatBoost, and an accumulator.

The callables do not import these libraries. Their values are those of `evaluate` for a log without
document ids: tied documents are in the worst order unless `ties` is given.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack

import polars as pl

from polars_rank._params import OPTIONS, public
from polars_rank.conventions import ConventionsLike, Definitions, read_metrics
from polars_rank.errors import ArgumentError, number_of
from polars_rank.evaluation.evaluate import evaluate
from polars_rank.io.lists import from_arrays, series_of, sizes_of
from polars_rank.metrics.metric import direction
from polars_rank.metrics.names import output_name

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

__all__ = ["Accumulator", "catboost", "lightgbm", "xgboost"]


class TrainingOptions(Definitions, total=False):
    """The options of `evaluate` that define what is computed."""

    conventions: ConventionsLike


OPTIONS["TrainingOptions"] = [*TrainingOptions.__annotations__]


#: A log whose plans are built to check metrics and options.
_SMALL = pl.LazyFrame({"query": [0], "score": [1.0], "label": [1]})


def _evaluated(log: pl.DataFrame, metrics: Metrics, options: TrainingOptions) -> dict[str, float]:
    """Return the columns of `evaluate` by name; undefined means are NaN."""
    row = evaluate(log, metrics, **options).row(0, named=True)
    return {name: math.nan if value is None else float(value) for name, value in row.items()}


class _Mean(NamedTuple):
    """The mean of a metric over the rankings of a dataset."""

    metric: str | pl.Expr
    options: TrainingOptions
    name: str
    rises: bool

    @classmethod
    def of(cls, metric: str | pl.Expr, options: TrainingOptions) -> _Mean:
        """Return the mean of a metric; raise `ArgumentError` for invalid options."""
        one, *others = read_metrics(metric, options.get("conventions"), "metric")
        if others:
            raise ArgumentError(
                f"must be one metric; found {number_of(len(others) + 1, 'metric')}", "metric"
            )
        evaluate(_SMALL, metric, **options)
        return cls(metric, options, output_name(one), direction(one) >= 0)

    def of_sizes(self, scores: Any, labels: Any, groups: Any) -> float:
        """Return the mean, from the number of documents of each group."""
        sizes = sizes_of(groups)
        documents: Any = sizes.sum()
        if not len(scores) == len(labels) == documents:
            raise ArgumentError(
                f"the groups have {number_of(documents, 'document')}, but there are "
                f"{number_of(len(scores), 'prediction')} and {number_of(len(labels), 'label')}; "
                "pass the groups of this dataset"
            )
        return self(scores, labels, _queries(sizes))

    def __call__(self, scores: Any, labels: Any, queries: pl.Series) -> float:
        """Return the mean, from the query of each document; NaN if it is undefined."""
        log = pl.DataFrame({"query": queries, "score": scores, "label": labels})
        return _evaluated(log, self.metric, self.options)[self.name]


@public
def lightgbm(
    metric: str | pl.Expr, **options: Unpack[TrainingOptions]
) -> Callable[..., tuple[str, float, bool]]:
    """Return a metric for `lightgbm.train` and `lightgbm.cv` (`feval`), and for `LGBMRanker`.

    Examples
    --------
    LightGBM calls the metric with the predictions and the dataset, for which a class stands here:

    >>> class Dataset:
    ...     def get_group(self): return [2, 1]
    ...     def get_label(self): return [0, 1, 1]
    >>> feval = pr.training.lightgbm("mrr")
    >>> feval([0.9, 0.1, 0.5], Dataset())
    ('mrr', 0.75, True)

    Parameters
    ----------
    metric
        Name of a metric, or an expression.
    **options
        `conventions` and fields of `Conventions`, as for `evaluate`.

    Returns
    -------
    Callable
        A function of the predictions and the dataset, which must have groups; or, as `eval_metric`
        of `LGBMRanker.fit`, of labels, predictions, weights and groups. It returns the name of the
        metric, its mean over the groups, and whether a higher value is better. The mean is NaN if
        the metric is undefined for all groups that count. Weights are not used.

    Raises
    ------
    ArgumentError
        For an unknown metric or an invalid parameter, and during training for a dataset without
        groups.

    Notes
    -----
    Set `metric` of LightGBM to "None" to stop early by this metric only. Pass several metrics as a
    list of functions.

    A name that LightGBM has for a metric of its own, such as "ndcg@10", becomes
    "polars_rank.ndcg@10", because LightGBM would add the values of both to one history.
    `lightgbm.train` with `metric` "None" has no metrics of its own, and keeps the name.
    """
    return partial(_of_lightgbm, _Mean.of(metric, options))


#: Names that LightGBM gives to metrics of its own.
_OF_LIGHTGBM = re.compile(r"(ndcg|map)@\d+|auc|average_precision")
#: The parameter of LightGBM's own metrics, with its aliases, and its values for none.
_METRIC, _NONE = ("metric", "metrics", "metric_types"), {"none", "null", "na", "custom"}


def _of_lightgbm(
    mean: _Mean, first: Any, second: Any, _weight: Any = None, group: Any = None
) -> tuple[str, float, bool]:
    """Return the name, the value, and whether a higher one is better.

    LightGBM passes predictions and a dataset to `feval`; and to an `eval_metric` of four parameters
    labels, predictions, weights and the numbers of documents of groups.
    """
    labels, predictions = first, second
    params: Mapping[str, Any] = {}
    if hasattr(second, "get_label"):
        labels, predictions, group = second.get_label(), first, second.get_group()
        params = getattr(second, "params", {"metric": "none"}) or {}
    if group is None:
        raise ArgumentError(
            "the dataset has no groups; pass `group` to lightgbm.Dataset, or `eval_group` to "
            "LGBMRanker.fit"
        )
    own = next((params[key] for key in _METRIC if key in params), "")
    is_alone = {str(each).lower() for each in ([own] if isinstance(own, str) else own)} <= _NONE
    prefix = "polars_rank." if _OF_LIGHTGBM.fullmatch(mean.name) and not is_alone else ""
    return prefix + mean.name, mean.of_sizes(predictions, labels, group), mean.rises


@public
def xgboost(
    metric: str | pl.Expr, **options: Unpack[TrainingOptions]
) -> Callable[[Any, Any], tuple[str, float]]:
    """Return a metric for the parameter `custom_metric` of `xgboost.train`.

    Examples
    --------
    XGBoost calls the metric with the predictions and the DMatrix, for which a class stands here:

    >>> class DMatrix:
    ...     def get_uint_info(self, field): return [0, 2, 3]
    ...     def get_label(self): return [0, 1, 1]
    >>> custom_metric = pr.training.xgboost("mrr")
    >>> custom_metric([0.9, 0.1, 0.5], DMatrix())
    ('mrr', 0.75)

    Parameters
    ----------
    metric
        Name of a metric, or an expression.
    **options
        `conventions` and fields of `Conventions`, as for `evaluate`.

    Returns
    -------
    Callable
        A function of the predictions and the DMatrix, which must have groups (`qid` or `group`). It
        returns the name of the metric and its mean over the groups. The mean is NaN if the metric
        is undefined for all groups that count. Weights are not used.

    Raises
    ------
    ArgumentError
        For an unknown metric or an invalid parameter.

    Notes
    -----
    XGBoost does not know whether a higher value is better. To stop early, pass
    `xgboost.callback.EarlyStopping(rounds, metric_name="ndcg@10", maximize=True)`.

    XGBoost adds the values of this metric and those of a metric of its own with the same name to
    one history. If `eval_metric` has the name, give this metric another one:
    `pr.ndcg(10).alias("ours")`. `XGBRanker` passes no groups to metrics; use `xgboost.train`.
    """
    return partial(_of_xgboost, _Mean.of(metric, options))


def _of_xgboost(mean: _Mean, predictions: Any, dmatrix: Any) -> tuple[str, float]:
    if not hasattr(dmatrix, "get_uint_info"):
        raise ArgumentError("XGBRanker passes no groups to metrics; use xgboost.train")
    sizes = pl.Series(dmatrix.get_uint_info("group_ptr")).diff().drop_nulls()
    if sizes.is_empty():
        raise ArgumentError("the DMatrix has no groups; pass `qid` or `group` to xgboost.DMatrix")
    return mean.name, mean.of_sizes(predictions, dmatrix.get_label(), sizes)


@public
def catboost(metric: str | pl.Expr, groups: Any, **options: Unpack[TrainingOptions]) -> Any:
    """Return a metric for the parameter `eval_metric` of CatBoost.

    Examples
    --------
    CatBoost calls the metric with predictions and labels:

    >>> metric = pr.training.catboost("mrr", groups=["a", "a", "b"])
    >>> metric.evaluate([[0.9, 0.1, 0.5]], [0, 1, 1], None)
    (0.75, 1.0)

    Parameters
    ----------
    metric
        Name of a metric, or an expression.
    groups
        Groups of the training set and of all evaluation sets, which CatBoost does not pass to
        metrics. Each is a Pool, an array of the group of each document (`group_id`), or an array of
        the numbers of documents of the groups. Several are a list.
    **options
        `conventions` and fields of `Conventions`, as for `evaluate`.

    Returns
    -------
    object
        Its methods `evaluate`, `get_final_error` and `is_max_optimal` are called by CatBoost. The
        value is NaN if the metric is undefined for all groups that count. Weights are not used.

    Raises
    ------
    ArgumentError
        For an unknown metric or an invalid parameter, and during training for a dataset that is not
        in `groups`.

    Notes
    -----
    A Pool is recognized by its labels, other groups by the number of documents. With
    `boosting_type="Ordered"`, CatBoost shuffles the training set, whose groups are then unknown:
    use "Plain". Pass Pools, for which this is an error instead of a wrong value.
    """
    mean = _Mean.of(metric, options)
    several = isinstance(groups, (list, tuple)) and any(map(_is_dataset, groups))
    return _catboost_metric(mean, [_Groups.of(each) for each in (groups if several else [groups])])


def _catboost_metric(mean: _Mean, known: Sequence[_Groups]) -> _CatBoostMetric:
    """Return the metric, of a class with its name, which CatBoost shows."""
    metric: _CatBoostMetric = type(mean.name, (_CatBoostMetric,), {})(mean, known)
    return metric


def _is_dataset(value: Any) -> bool:
    """Return whether a value is a Pool or an array, not a single group."""
    is_array = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
    return is_array or hasattr(value, "get_label")


class _Groups(NamedTuple):
    """The groups of a dataset, and its labels if they are known."""

    queries: pl.Series
    labels: pl.Series | None = None

    @classmethod
    def of(cls, dataset: Any) -> _Groups:
        if hasattr(dataset, "get_label"):
            labels = pl.Series(dataset.get_label()).cast(pl.Float32)
            return cls(pl.Series(dataset.get_group_id_hash()), labels)
        queries = series_of("groups", dataset)
        if queries.is_empty():
            raise ArgumentError("is empty; pass the groups of each dataset", "groups")
        return cls(queries)

    def of_documents(self, labels: pl.Series) -> pl.Series | None:
        """Return the group of each document; None if the labels are of another dataset."""
        if self.labels is not None:
            return self.queries if self.labels.equals(labels.cast(pl.Float32)) else None
        if len(self.queries) == len(labels):
            return self.queries
        sizes = self.queries
        if not sizes.dtype.is_integer() or sizes.has_nulls() or (sizes < 0).any():
            return None
        return _queries(sizes) if sizes.cast(pl.Int128).sum() == len(labels) else None


class _CatBoostMetric:
    """A metric as CatBoost calls it."""

    no_jit = True  # CatBoost would compile the methods

    def __init__(self, mean: _Mean, known: Sequence[_Groups]) -> None:
        self.mean, self.known = mean, known

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to unpickle the metric: no module has its class."""
        return _catboost_metric, (self.mean, self.known)

    def is_max_optimal(self) -> bool:
        """Return whether a higher value is better."""
        return self.mean.rises

    def evaluate(self, approxes: Sequence[Any], target: Any, _weight: Any) -> tuple[float, float]:
        """Return the mean of the metric, and the weight 1."""
        if len(approxes) != 1:
            raise ArgumentError(
                f"the model predicts {number_of(len(approxes), 'value')} for each document; a "
                "ranking needs one"
            )
        labels = pl.Series(target)
        found = (each.of_documents(labels) for each in self.known)
        queries = next((each for each in found if each is not None), None)
        if queries is None:
            raise ArgumentError(
                f"the groups of a dataset of {number_of(len(labels), 'document')} are unknown; "
                "pass the Pools of the training set and of all evaluation sets as `groups`; with "
                "boosting_type='Ordered', CatBoost shuffles the training set: use 'Plain'"
            )
        return self.mean(approxes[0], labels, queries), 1.0

    def get_final_error(self, error: float, _weight: float) -> float:
        """Return the value."""
        return error


def _queries(sizes: pl.Series) -> pl.Series:
    """Return the number of its group for each document."""
    number = pl.int_range(pl.len(), dtype=pl.UInt32)
    documents = number.repeat_by("size").explode(empty_as_null=False)
    return sizes.to_frame("size").select(documents).to_series()


class Accumulator:
    """Metrics over the batches of an evaluation loop of PyTorch, Lightning or Transformers.

    Examples
    --------
    >>> metrics = pr.training.Accumulator(["ndcg@10", "mrr"])
    >>> metrics.update([[0.9, 0.1], [0.2, 0.3]], [[0, 1], [1, 0]])
    >>> metrics.update([[0.5, 0.4]], [[1, 0]])
    >>> metrics.compute()
    {'ndcg@10': 0.7539531690476382, 'mrr': 0.6666666666666666}
    >>> metrics.reset()

    Parameters
    ----------
    metrics
        Metrics, by name or as expressions.
    **options
        `conventions` and fields of `Conventions`, as for `evaluate`.

    Raises
    ------
    ArgumentError
        For an unknown metric or an invalid parameter.
    """

    @public
    def __init__(self, metrics: Metrics, **options: Unpack[TrainingOptions]) -> None:
        known = read_metrics(metrics, options.get("conventions"))
        self._names = [output_name(each) for each in known]
        self._metrics, self._options = metrics, options
        self.reset()
        evaluate(_SMALL, metrics, **options)

    def reset(self) -> None:
        """Remove all batches."""
        #: The batches, and whether queries were given. Threads may add some at the same time.
        self._batches: list[tuple[pl.DataFrame, bool]] = []

    @public
    def update(
        self,
        scores: Any,
        labels: Any,
        queries: Any = None,
        *,
        groups: Any = None,
        ignore: float | None = None,
    ) -> None:
        """Add the documents of a batch.

        Parameters
        ----------
        scores, labels
            Arrays, lists or tensors of the same shape. Each row of two dimensions is a ranking.
        queries
            Query of each document, or of each row. Batches can have documents of the same query.
            Default: each batch has rankings of its own.
        groups
            Number of documents of each ranking, in order, if `scores` has one dimension. Default:
            the batch is one ranking.
        ignore
            Label of documents that do not count, such as -100 for those that pad rows.

        Raises
        ------
        ArgumentError
            If shapes differ, or if some batches have queries and others do not.
        """
        batch = from_arrays(
            _array(labels), _array(scores), groups=groups, queries=_array(queries)
        ).drop("doc")
        if ignore is not None:
            batch = batch.filter(pl.col("label").ne_missing(ignore))
        has_queries = queries is not None
        if any(each is not has_queries for _, each in self._batches[:1]):
            raise ArgumentError("must be given for all batches or for none", "queries")
        self._batches.append((batch, has_queries))

    def compute(self) -> dict[str, float]:
        """Return the mean of each metric over the rankings of all batches, by name.

        Returns
        -------
        dict of str to float
            NaN for a metric that is undefined for all rankings that count.

        Raises
        ------
        ArgumentError
            If there are no batches.
        """
        if not (batches := [*self._batches]):
            raise ArgumentError("there are no batches; call `update` first")
        log = pl.concat((batch for batch, _ in batches), how="vertical_relaxed")
        if not batches[0][1]:  # the rankings of each batch are numbered from 0
            number = _queries(pl.Series([batch.height for batch, _ in batches]))
            most: Any = log.get_column("query").max() or 0  # None without documents
            log = log.with_columns(pl.col("query") + number.cast(pl.Int64) * (most + 1))
        row = _evaluated(log, self._metrics, self._options)
        return {name: row[name] for name in self._names}


def _array(values: Any) -> Any:
    """Return a tensor of PyTorch as an array of NumPy; return anything else unchanged."""
    if not hasattr(values, "detach"):
        return values
    tensor = values.detach().cpu()
    return (tensor.double() if tensor.is_floating_point() else tensor).numpy()


def __dir__() -> list[str]:
    return __all__
