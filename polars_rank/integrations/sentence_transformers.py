"""An evaluator of sentence-transformers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from polars_rank._params import public
from polars_rank.conventions import SENTENCE_TRANSFORMERS, ConventionsLike, read_metrics
from polars_rank.errors import ArgumentError, short, warn
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.integrations.packages import SMALL, imported
from polars_rank.io.lists import from_dicts
from polars_rank.metrics.names import Metrics, leaves_of, output_name

__all__ = ["evaluator"]

#: The metrics of InformationRetrievalEvaluator, and its parameters with their cutoffs.
_OWN = {name: f"{name}_at_k" for name in ("accuracy", "ndcg", "mrr", "map")}
_OWN |= dict.fromkeys(("precision", "recall"), "precision_recall_at_k")


@public
def evaluator(
    queries: Mapping[Any, Any],
    corpus: Mapping[Any, Any],
    relevant_docs: Mapping[Any, Collection[Any]],
    *,
    metrics: Metrics | None = None,
    conventions: ConventionsLike = SENTENCE_TRANSFORMERS,
    **options: Any,
) -> Any:
    """Return an InformationRetrievalEvaluator of sentence-transformers with more metrics.

    Parameters
    ----------
    queries
        Queries by id.
    corpus
        Documents by id.
    relevant_docs
        Ids of the relevant documents by query.
    metrics
        Metrics, by name or as expressions, in addition to those of InformationRetrievalEvaluator.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields. With
        the default, values are those of InformationRetrievalEvaluator.
    **options
        The other parameters of InformationRetrievalEvaluator, such as `name`, `ndcg_at_k` and
        `score_functions`.

    Returns
    -------
    InformationRetrievalEvaluator
        A subclass, which trainers call like the original. Its results have the keys of the
        original, such as "dev_cosine_ndcg@10", and in addition those of `metrics`. It also has

        - `per_query`: a DataFrame with the values of all metrics in the last call; the column `run`
          is the score function;
        - `left_out`: a sentence with the number of queries without relevant documents, which do
          not count, and one of them; empty if there are none. It is also a `RankWarning`.

    Raises
    ------
    MissingExtraError
        If sentence-transformers is not installed.
    ArgumentError
        For an unknown metric, for a metric with a larger cutoff than the number of documents that
        the evaluator retrieves, and if no query has relevant documents.

    Notes
    -----
    The primary metric is that of the original. To select models by another one, pass its key as
    `metric_for_best_model` to the trainer.

    The evaluator retrieves as many documents as its largest cutoff, 100 by default. Metrics without
    a cutoff, such as "rbp", are computed from these documents. The CSV file of the evaluator has
    only the metrics of the original.
    """
    peer: Any = imported("sentence_transformers", "sentence_transformer.evaluation", "evaluation")
    read = [] if metrics is None else read_metrics(metrics, conventions)
    added = {output_name(metric): metric for metric in read}

    class InformationRetrievalEvaluator(peer.InformationRetrievalEvaluator):  # type: ignore[misc]
        left_out = ""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            self.rankings: dict[str, Any] = {}
            found = super().__call__(*args, **kwargs)
            log = from_dicts(self.rankings, self.judgments)
            self.per_query = per_query(log, self.metrics, conventions=conventions)
            return found

        def compute_metrics(self, found: Any) -> dict[str, Any]:
            run = [*self.score_functions][len(self.rankings)]
            hits = zip(self.queries_ids, found, strict=True)
            rankings = {q: {hit["corpus_id"]: hit["score"] for hit in of} for q, of in hits}
            self.rankings[run] = rankings
            log = from_dicts(rankings, self.judgments)
            means = evaluate(log, self.metrics, conventions=conventions)
            row = means.fill_null(float("nan")).row(0, named=True)
            own = {f"{x}@k": {k: row[f"{x}@{k}"] for k in getattr(self, _OWN[x])} for x in _OWN}
            return own | {name: {"": row[name]} for name in added}

    made = InformationRetrievalEvaluator(queries, corpus, relevant_docs, **options)
    made.judgments = {q: dict.fromkeys(relevant_docs[q], 1) for q in made.queries_ids}
    own = {f"{name}@{k}": k for name, ks in _OWN.items() for k in getattr(made, ks)}
    made.metrics = read_metrics([added.get(x, x) for x in own | added], SENTENCE_TRANSFORMERS)
    evaluate(SMALL, made.metrics, conventions=conventions)  # raises errors about metrics
    leaves = [leaf for each in read for leaf in leaves_of(each)]
    if deep := [leaf for leaf in leaves if (leaf.arguments.get("k") or 0) > max(own.values())]:
        problem = f"has {str(deep[0])!r}, but the evaluator retrieves {max(own.values())} documents"
        raise ArgumentError(f"{problem}; pass a larger cutoff, as map_at_k=[1000]", "metrics")
    if without := [query for query in queries if not relevant_docs.get(query)]:
        example = f"{len(without):,} of {len(queries):,}, e.g. {short(without[0])}"
        made.left_out = f"queries without relevant documents are left out: {example}"
        if not made.queries_ids:
            raise ArgumentError(f"has none of `queries`; {made.left_out}", "relevant_docs")
        warn(made.left_out)
    return made


def __dir__() -> list[str]:
    return __all__
