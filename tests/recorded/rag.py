"""Values of Haystack, ragas, MLflow and LlamaIndex, in the order of the queries."""

from __future__ import annotations

import asyncio
import random
import sys
from types import ModuleType
from typing import Any

from . import Means, Tools, Values

Rankings = list[dict[str, list[str]]]


def log() -> Rankings:
    """Return retrieved and relevant documents, some of them repeated, missing or empty."""
    draw = random.Random(38)
    found = []
    for query in range(60):
        retrieved = [draw.choice("abcdefgh") for _ in range(draw.randint(1, 8))]
        relevant = draw.sample("abcdefghij", draw.randint(1, 4))
        found.append({
            "retrieved": [] if query % 10 == 3 else retrieved,
            "relevant": [] if query % 10 in (3, 7) and query != 3 else relevant,
        })  # fmt: skip
    return found


def haystack(logs: Rankings) -> tuple[Values, Means]:
    """Evaluate with Haystack."""
    from haystack import Document
    from haystack.components import evaluators as peer

    lists = [
        [[Document(content=doc) for doc in log[part]] for log in logs]
        for part in ("relevant", "retrieved")
    ]
    components = {
        "DocumentMAPEvaluator": peer.DocumentMAPEvaluator(),
        "DocumentMRREvaluator": peer.DocumentMRREvaluator(),
        "DocumentNDCGEvaluator": peer.DocumentNDCGEvaluator(),
        "DocumentRecallEvaluator(mode='single_hit')": peer.DocumentRecallEvaluator("single_hit"),
        "DocumentRecallEvaluator(mode='multi_hit')": peer.DocumentRecallEvaluator("multi_hit"),
    }
    found = {}
    for name, component in components.items():
        result = component.run(ground_truth_documents=lists[0], retrieved_documents=lists[1])
        found[name] = [*map(float, result["individual_scores"])]
    return found, {}


def ragas(logs: Rankings) -> tuple[Values, Means]:
    """Evaluate with ragas, by ids."""
    # ragas imports a class that newer versions of langchain-community do not have.
    stub: Any = ModuleType("langchain_community.chat_models.vertexai")
    stub.ChatVertexAI = object
    sys.modules.setdefault(stub.__name__, stub)
    from ragas import SingleTurnSample
    from ragas import metrics as peer

    def value(metric: Any, log: dict[str, list[str]]) -> float | None:
        sample = SingleTurnSample(
            retrieved_context_ids=log["retrieved"], reference_context_ids=log["relevant"]
        )
        number = float(asyncio.run(metric.single_turn_ascore(sample)))
        return None if number != number else number

    metrics = peer.IDBasedContextPrecision(), peer.IDBasedContextRecall()
    return {metric.name: [value(metric, log) for log in logs] for metric in metrics}, {}


def mlflow(logs: Rankings) -> tuple[Values, Means]:
    """Evaluate with MLflow."""
    import pandas as pd
    from mlflow import metrics as peer

    parts = [pd.Series([log[part] for log in logs]) for part in ("retrieved", "relevant")]
    functions = {
        f"{name}_at_{k}": getattr(peer, f"{name}_at_k")(k)
        for name in ("precision", "recall", "ndcg")
        for k in (3, 8)
    }
    values = {name: [*map(float, f.eval_fn(*parts).scores)] for name, f in functions.items()}
    return values, {}


def llama_index(logs: Rankings) -> tuple[Values, Means]:
    """Evaluate with LlamaIndex."""
    from llama_index.core.evaluation.retrieval import metrics as peer

    def value(metric: Any, log: dict[str, list[str]]) -> float | None:
        try:
            result = metric.compute(expected_ids=log["relevant"], retrieved_ids=log["retrieved"])
        except ValueError:
            return None
        return float(result.score)

    names = "HitRate", "MRR", "Precision", "Recall", "AveragePrecision", "NDCG"
    every = [getattr(peer, name)() for name in names]
    return {metric.metric_name: [value(metric, log) for log in logs] for metric in every}, {}


TOOLS: Tools = {
    "Haystack": ("haystack-ai", haystack),
    "ragas": ("ragas", ragas),
    "MLflow": ("mlflow-skinny", mlflow),
    "LlamaIndex": ("llama-index-core", llama_index),
}
