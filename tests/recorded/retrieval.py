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


# Functions that evaluate relevant documents, or grades, and rankings of queries at the cutoff k.


def sentence_transformers(relevant: Any, rankings: Any, k: int) -> Means:
    """Evaluate with the evaluator of sentence-transformers, of queries with relevant documents."""
    from sentence_transformers.evaluation import InformationRetrievalEvaluator

    ks, queries = [k], dict.fromkeys(relevant, "")
    evaluator = InformationRetrievalEvaluator(
        queries, {"d0": ""}, relevant,
        mrr_at_k=ks, ndcg_at_k=ks, accuracy_at_k=ks, precision_recall_at_k=ks, map_at_k=ks,
    )  # fmt: skip
    if not evaluator.queries_ids:
        return {}
    hits = [
        [{"corpus_id": doc, "score": score} for doc, score in rankings[query]]
        for query in evaluator.queries_ids
    ]
    found = evaluator.compute_metrics(hits)
    return {f"{name.removesuffix('@k')}@{k}": float(by_k[k]) for name, by_k in found.items()}


def mteb(grades: Any, rankings: Any, k: int) -> Means:
    """Evaluate with the functions of retrieval tasks in MTEB."""
    from mteb._evaluators.retrieval_metrics import calculate_retrieval_scores, make_score_dict

    run = {query: dict(ranking) for query, ranking in rankings.items()}
    # MTEB needs the cutoff 1 for its accuracy.
    found = calculate_retrieval_scores(run, grades, sorted({1, k}))
    scores = make_score_dict(
        ndcg=found.ndcg, _map=found.map, recall=found.recall, precision=found.precision,
        mrr=found.mrr, naucs={}, naucs_mrr={}, hit_rate=found.hit_rate, task_scores={},
    )  # fmt: skip
    return {name: float(value) for name, value in scores.items() if name.endswith(f"_at_{k}")}


def pyvespa(relevant: Any, rankings: Any, k: int) -> Means:
    """Evaluate with the evaluator of pyvespa, which keeps the order of hits."""
    from vespa.evaluation import VespaEvaluator

    ks, queries = [k], dict.fromkeys(relevant, "")
    evaluator = VespaEvaluator(
        queries, relevant, lambda text, top_k: {}, None,
        accuracy_at_k=ks, precision_recall_at_k=ks, mrr_at_k=ks, ndcg_at_k=ks, map_at_k=ks,
    )  # fmt: skip
    if not evaluator.queries_ids:
        return {}
    found = evaluator._compute_metrics([rankings[query] for query in evaluator.queries_ids])
    return {name: float(value) for name, value in found.items()}


def evaluated(function: Any, judgments: Any, data: dict[str, Any]) -> tuple[Values, Means]:
    """Return the metrics of each query, and of all."""
    rankings = {query: _ranking(data, query) for query in judgments}
    found: Values = {}
    for query, own in judgments.items():
        for name, value in function({query: own}, {query: rankings[query]}, K).items():
            found.setdefault(name, {})[query] = value
    return found, function(judgments, rankings, K)


def of_sentence_transformers(data: dict[str, Any]) -> tuple[Values, Means]:
    return evaluated(sentence_transformers, _relevant(data), data)


def of_mteb(data: dict[str, Any]) -> tuple[Values, Means]:
    judgments = {query: of for query, of in data["grades"].items() if query in data["rankings"]}
    return evaluated(mteb, judgments, data)


def of_pyvespa(data: dict[str, Any]) -> tuple[Values, Means]:
    """Return the metrics of relevant documents, and NDCG of grades from 0 to 1 as "graded"."""
    grades = {
        query: {doc: grade / 3 for doc, grade in data["grades"][query].items()}
        for query in _relevant(data)
    }
    both, graded = evaluated(pyvespa, _relevant(data), data), evaluated(pyvespa, grades, data)
    both[0][f"graded ndcg@{K}"] = graded[0][f"ndcg@{K}"]
    return both[0], both[1] | {f"graded {name}": value for name, value in graded[1].items()}


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


def _relevant(data: dict[str, Any]) -> dict[str, set[str]]:
    """Return the relevant documents of the queries that have some."""
    found = {
        query: {doc for doc, grade in grades.items() if grade > 0}
        for query, grades in data["grades"].items()
    }
    return {query: docs for query, docs in found.items() if docs}


def _ranking(data: dict[str, Any], query: str) -> list[tuple[str, float]]:
    """Return hits, highest score first, and equal scores in the order of the log."""
    return sorted(data["rankings"].get(query, ()), key=lambda hit: -hit[1])


def _version_of_quepid() -> str:
    """Return the version of the checkout."""
    if "QUEPID" not in os.environ:
        raise PackageNotFoundError("quepid")
    command = ["git", "-C", os.environ["QUEPID"], "describe", "--tags"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout.strip()


TOOLS: Tools = {
    "sentence-transformers": ("sentence-transformers", of_sentence_transformers),
    "MTEB": ("mteb", of_mteb),
    "Vespa": ("pyvespa", of_pyvespa),
    "Quepid": (_version_of_quepid, quepid),
}
