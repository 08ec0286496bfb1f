"""A scorer of MLflow for retriever spans, and results as its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import polars as pl

from polars_rank._params import public
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions
from polars_rank.errors import DataError, number_of, recorded_warnings, short
from polars_rank.evaluation.evaluate import per_query
from polars_rank.integrations.packages import imported
from polars_rank.io.traces import retrievals
from polars_rank.metrics.names import Metrics
from polars_rank.stats.result_columns import flat

__all__ = ["log_metrics", "scorer"]

_SCHEMA = {"query": pl.Int8, "doc": pl.String, "position": pl.Int64, "label": pl.Float64}


@public
def scorer(
    metrics: Metrics,
    *,
    relevant: str = "relevant",
    span: str | None = None,
    name: str = "polars_rank",
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> Any:
    """Return a scorer for `mlflow.genai.evaluate` that evaluates the retriever of each trace.

    Parameters
    ----------
    metrics
        Metrics, by name or as expressions.
    relevant
        Name of the expectation with the relevant documents: a list of ids, or a mapping of ids to
        labels.
    span
        Name of the retriever span. Default: the only one of the trace.
    name
        Name of the scorer, which MLflow shows with errors.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, as keywords.

    Returns
    -------
    mlflow.genai.Scorer
        It returns a feedback for each metric that is defined for the trace, with a name such as
        "ndcg_at_10", of which MLflow computes the mean. Warnings are its rationale.

    Raises
    ------
    MissingExtraError
        If mlflow is not installed.
    ArgumentError
        For an unknown metric or an invalid parameter.

    Notes
    -----
    Documents rank in the order of the span. Their ids are read as by `scan_run`, and compared as
    text. A trace without the expectation, with another number of retriever spans than one, or with
    a failed one, and a document that was retrieved twice, are errors, which MLflow shows with the
    trace. To count a document of which several chunks were retrieved once, pass
    `duplicates="first"`.
    """
    genai, entities = (imported("mlflow", each) for each in ("genai", "entities"))
    options: Any = {"conventions": conventions, **definitions}

    def score(trace: Any, expectations: Mapping[str, Any]) -> list[Any]:
        spans = [each.to_dict() for each in trace.data.spans if span in (None, each.name)]
        found = [*retrievals({"spans": spans}, f"trace {trace.info.trace_id}")]
        if len(found) != 1:
            raise DataError(
                f"the trace has {number_of(len(found), 'retriever span')} (`span`: {span!r}), and "
                "needs one; pass its name as `span`"
            )
        if "error" in found[0]:
            raise DataError(f"the retriever failed: {found[0]['error']}")
        labels = (expectations or {}).get(relevant)
        if not isinstance(labels, (list, tuple, set, Mapping)):
            raise DataError(
                f"the expectation {relevant!r} (`relevant`) must be a list of ids or a mapping of "
                f"ids to labels; found {short(labels)}"
            )
        labels = {str(x): labels[x] if isinstance(labels, Mapping) else 1 for x in labels}
        docs = [str(each["id"]) for each in found[0]["results"]]
        rows: list[Any] = [(0, doc, rank, labels.get(doc)) for rank, doc in enumerate(docs, 1)]
        rows += [(0, doc, None, labels[doc]) for doc in labels.keys() - {*docs}]
        log = pl.DataFrame(rows or [(0, None, None, None)], _SCHEMA, orient="row")
        with recorded_warnings() as warnings:
            values = per_query(log, metrics, position="position", **options).drop("query")
        return [
            entities.Feedback(metric, value, rationale="\n".join(map(str, warnings)) or None)
            for metric, value in flat(values, safe=True).items()
        ]

    per_query(pl.LazyFrame(schema=_SCHEMA), metrics, position="position", **options)
    return genai.scorer(score, name=name)


@public
def log_metrics(result: pl.DataFrame | pl.LazyFrame, **options: Any) -> None:
    """Log the numbers of a result to the active run of MLflow, with the names of `flat`.

    Parameters
    ----------
    result
        Result with a column per metric, such as that of `evaluate`, or with a column `metric`, such
        as that of `summarize` or `compare`.
    **options
        Parameters of `mlflow.log_metrics`, such as `step` and `run_id`.

    Raises
    ------
    MissingExtraError
        If mlflow is not installed.
    DataError
        If two numbers have the same name.
    """
    imported("mlflow").log_metrics(flat(result, safe=True), **options)


def __dir__() -> list[str]:
    return __all__
