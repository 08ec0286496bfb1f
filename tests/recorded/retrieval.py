"""Values of tools for retrieval, query by query, and means."""

from __future__ import annotations

import json
import os
import random
import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

from . import Means, Tools, Values

K = 5


def log() -> dict[str, Any]:
    """Return rankings with ties, and grades from 0 to 3.

    Rankings are short or long; some queries have no relevant document, no judgments or no results.
    """
    draw = random.Random(50)
    docs = [f"d{number}" for number in range(30)]
    queries = [f"q{number}" for number in range(40)]
    rankings = {
        query: [(doc, draw.choice((0.25, 0.5, 0.75, 1.0))) for doc in draw.sample(docs, size)]
        for query in queries[2:]
        for size in [draw.randint(1, 12)]
    }
    grades = {}
    for query in queries[:-2]:
        shown = [doc for doc, _ in rankings.get(query, ())]
        likely = [*docs, *shown, *shown]
        some = sorted({draw.choice(likely) for _ in range(draw.choice((2, 4, 9)))})
        barren = query in queries[5:9]
        grades[query] = {doc: 0 if barren else draw.randint(0, 3) for doc in some}
    return {"rankings": rankings, "grades": grades}


def sentence_transformers(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with the evaluator of sentence-transformers, of which queries have results."""
    from sentence_transformers.evaluation import InformationRetrievalEvaluator

    ks = [K]

    def metrics(queries: list[str]) -> Means:
        evaluator = InformationRetrievalEvaluator(
            dict.fromkeys(queries, ""),
            {"d0": ""},
            {query: _relevant(data, query) for query in queries},
            mrr_at_k=ks, ndcg_at_k=ks, accuracy_at_k=ks, precision_recall_at_k=ks, map_at_k=ks,
        )  # fmt: skip
        hits = [
            [{"corpus_id": doc, "score": score} for doc, score in _ranking(data, query)]
            for query in evaluator.queries_ids
        ]
        found = evaluator.compute_metrics(hits)
        return {f"{name.removesuffix('@k')}@{K}": float(by_k[K]) for name, by_k in found.items()}

    queries = [query for query in data["grades"] if _relevant(data, query)]
    return _by_query(metrics, queries), metrics(queries)


def mteb(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with the functions of retrieval tasks in MTEB."""
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, make_score_dict

    def metrics(queries: list[str]) -> Means:
        found = calculate_retrieval_scores(
            {query: dict(data["rankings"][query]) for query in queries},
            {query: data["grades"][query] for query in queries},
            [1, K],  # MTEB needs the cutoff 1 for its accuracy
        )
        scores = make_score_dict(
            ndcg=found.ndcg, _map=found.map, recall=found.recall, precision=found.precision,
            mrr=found.mrr, naucs={}, naucs_mrr={}, hit_rate=found.hit_rate, task_scores={},
        )  # fmt: skip
        return {name: float(value) for name, value in scores.items() if name.endswith(f"_at_{K}")}

    queries = [query for query in data["rankings"] if query in data["grades"]]
    return _by_query(metrics, queries), metrics(queries)


def pyvespa(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with the evaluator of pyvespa; grades of "graded" metrics are from 0 to 1."""
    from vespa.evaluation import VespaEvaluator

    ks = [K]

    def metrics(queries: list[str], *, graded: bool = False) -> Means:
        judgments = {query: _relevant(data, query) for query in queries}
        if graded:
            judgments = {
                query: {doc: grade / 3 for doc, grade in data["grades"][query].items()}
                for query in queries
            }
        evaluator = VespaEvaluator(
            dict.fromkeys(queries, ""),
            judgments,
            lambda text, top_k: {},
            None,
            accuracy_at_k=ks, precision_recall_at_k=ks, mrr_at_k=ks, ndcg_at_k=ks, map_at_k=ks,
        )  # fmt: skip
        hits = [_ranking(data, query) for query in evaluator.queries_ids]
        return {name: float(value) for name, value in evaluator._compute_metrics(hits).items()}

    queries = [query for query in data["grades"] if _relevant(data, query)]
    values, means = _by_query(metrics, queries), metrics(queries)
    both = {
        f"graded {name}": {query: metrics([query], graded=True)[name] for query in queries}
        for name in (f"ndcg@{K}",)
    }
    return values | both, means | {
        f"graded {name}": value for name, value in metrics(queries, graded=True).items()
    }


def quepid(data: dict[str, Any]) -> tuple[Values, Means]:
    """Evaluate with the scorers of Quepid, of a scale from 0 to 3; they have the cutoff 10."""
    folder = Path(os.environ["QUEPID"])
    code = (folder / "lib" / "scorer_logic.js").read_text(encoding="utf-8")
    values: Values = {}
    for path in sorted((folder / "db" / "scorers").glob("*@10.js")):
        values[path.stem] = {}
        for query in data["grades"].keys() & data["rankings"].keys():
            grades = data["grades"][query]
            docs = [
                {"id": doc} | ({"rating": grades[doc]} if doc in grades else {})
                for doc, _ in _ranking(data, query)
            ]
            best = [
                {"id": doc, "rating": grade}
                for doc, grade in sorted(grades.items(), key=lambda pair: -pair[1])
            ]
            program = (
                f"var docs = {json.dumps(docs)}, bestDocs = {json.dumps(best)}, max = 3;"
                f"var total = docs.length, options = {{}};\n{code}\n"
                f"{{{path.read_text(encoding='utf-8')}}}\n"
                "console.log(JSON.stringify(getScore()));"
            )
            ended = subprocess.run(
                ["node", "-"], input=program, capture_output=True, encoding="utf-8", check=True
            )
            values[path.stem][query] = json.loads(ended.stdout)
    return values, {}


def _relevant(data: dict[str, Any], query: str) -> set[str]:
    return {doc for doc, grade in data["grades"][query].items() if grade > 0}


def _ranking(data: dict[str, Any], query: str) -> list[tuple[str, float]]:
    """Return hits, highest score first, and equal scores in the order of the log."""
    return sorted(data["rankings"].get(query, ()), key=lambda hit: -hit[1])


def _by_query(metrics: Any, queries: list[str]) -> Values:
    found: Values = {}
    for query in queries:
        for name, value in metrics([query]).items():
            found.setdefault(name, {})[query] = value
    return found


def _version_of_quepid() -> str:
    """Return the version of the checkout."""
    if "QUEPID" not in os.environ:
        raise PackageNotFoundError("quepid")
    command = ["git", "-C", os.environ["QUEPID"], "describe", "--tags"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()


TOOLS: Tools = {
    "sentence-transformers": ("sentence-transformers", sentence_transformers),
    "MTEB": ("mteb", mteb),
    "Vespa": ("pyvespa", pyvespa),
    "Quepid": (_version_of_quepid, quepid),
}
