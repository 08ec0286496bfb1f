"""Scores of retrieval tasks in MTEB."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, Unpack

from polars_rank._params import public
from polars_rank.conventions import MTEB, ConventionsLike, Definitions
from polars_rank.evaluation.evaluate import evaluate
from polars_rank.integrations.packages import SMALL
from polars_rank.io.lists import from_dicts
from polars_rank.metrics.names import Metrics
from polars_rank.stats.result_columns import flat

__all__ = ["task_specific_scores"]

Nested: TypeAlias = Mapping[str, Mapping[str, float]]


@public
def task_specific_scores(
    metrics: Metrics, *, conventions: ConventionsLike = MTEB, **definitions: Unpack[Definitions]
) -> Callable[..., dict[str, float]]:
    """Return a method `task_specific_scores` for a retrieval task of MTEB.

    Examples
    --------
    The class of a task is a subclass of `AbsTaskRetrieval`, for which a class stands here:

    >>> class Task:
    ...     skip_first_result = False
    ...     task_specific_scores = pr.integrations.mteb.task_specific_scores(["rr", "rbp"])
    >>> qrels, results = {"q": {"a": 1}}, {"q": {"a": 0.5, "b": 0.9}}
    >>> Task().task_specific_scores({}, qrels, results, "test", "default")
    {'rr': 0.5, 'rbp': 0.15999999999999998}

    Parameters
    ----------
    metrics
        Metrics, by name or as expressions.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, as keywords.

    Returns
    -------
    Callable
        A method that MTEB calls with the judgments and the results of a subset. It returns the
        means by the names of the metrics, which MTEB adds to its scores: one of them may be the
        task's `main_score`. They are not rounded, and undefined means are left out. As in MTEB's
        own scores, the first result does not count if the task has `skip_first_result`.

    Raises
    ------
    ArgumentError
        For an unknown metric or an invalid parameter.

    Notes
    -----
    A name such as "ndcg@10" does not replace MTEB's "ndcg_at_10". To give a metric another name,
    use `.alias`.
    """
    options: Any = {"conventions": conventions, **definitions}

    def scores(
        task: Any, _: Any, qrels: Nested, results: Nested, *_args: Any, **_kwargs: Any
    ) -> dict[str, float]:
        if task.skip_first_result:
            first = {query: max(of, key=of.__getitem__) for query, of in results.items() if of}
            results = {
                query: {doc: score for doc, score in of.items() if doc != first[query]}
                for query, of in results.items()
            }
        found = flat(evaluate(from_dicts(results, qrels), metrics, **options))
        return {name: mean for name, mean in found.items() if not name.startswith("queries")}

    evaluate(SMALL, metrics, **options)  # raises ArgumentError for invalid parameters
    return scores


def __dir__() -> list[str]:
    return __all__
