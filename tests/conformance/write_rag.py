"""Write tests/fixtures/rag.json: values of Haystack, ragas, MLflow and LlamaIndex, query by query.

Run it in an environment with haystack-ai, ragas, mlflow-skinny, llama-index-core and scikit-learn:
`python tests/conformance/write_rag.py`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

FIXTURE = Path(__file__).parents[1] / "fixtures" / "rag.json"
#: Numbers by query; None if the tool raises an error or returns NaN.
Values = dict[str, list[float | None]]


def rankings() -> list[dict[str, list[str]]]:
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


def haystack(logs: list[dict[str, list[str]]]) -> Values:
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
    return found


def ragas(logs: list[dict[str, list[str]]]) -> Values:
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

    return {
        metric.name: [value(metric, log) for log in logs]
        for metric in (peer.IDBasedContextPrecision(), peer.IDBasedContextRecall())
    }


def mlflow(logs: list[dict[str, list[str]]]) -> Values:
    """Evaluate with MLflow."""
    import pandas as pd
    from mlflow import metrics as peer

    parts = [pd.Series([log[part] for log in logs]) for part in ("retrieved", "relevant")]
    functions = {
        f"{name}_at_{k}": getattr(peer, f"{name}_at_k")(k)
        for name in ("precision", "recall", "ndcg")
        for k in (3, 8)
    }
    return {
        name: [*map(float, metric.eval_fn(*parts).scores)] for name, metric in functions.items()
    }


def llama_index(logs: list[dict[str, list[str]]]) -> Values:
    """Evaluate with LlamaIndex."""
    from llama_index.core.evaluation.retrieval import metrics as peer

    def value(metric: Any, log: dict[str, list[str]]) -> float | None:
        try:
            result = metric.compute(expected_ids=log["relevant"], retrieved_ids=log["retrieved"])
        except ValueError:
            return None
        return float(result.score)

    every = (
        *(peer.HitRate, peer.MRR, peer.Precision, peer.Recall),
        *(peer.AveragePrecision, peer.NDCG),
    )
    return {metric.metric_name: [value(metric(), log) for log in logs] for metric in every}


TOOLS = {
    "Haystack": (haystack, "haystack-ai"),
    "ragas": (ragas, "ragas"),
    "MLflow": (mlflow, "mlflow-skinny"),
    "LlamaIndex": (llama_index, "llama-index-core"),
}


if __name__ == "__main__":
    logs = rankings()
    found = {
        "rankings": logs,
        "versions": {tool: version(package) for tool, (_, package) in TOOLS.items()},
        "values": {tool: evaluate(logs) for tool, (evaluate, _) in TOOLS.items()},
    }
    FIXTURE.write_text(json.dumps(found) + "\n", encoding="utf-8")
