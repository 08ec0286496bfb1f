"""Values of tools on the cases of polars_rank.conformance.

`tools_table.json` has the tools: the package; the preset that reproduces the tool; what it `takes`,
which is "rows", "dictionaries" of documents, which have no copies, "lists" of scores and labels
without ids, or "ranks": documents that the caller has sorted; and `metrics`, our names and the
tool's. Labels are converted to 0 and 1 by the caller in `binary` metrics, "all" means all, so that
they are evaluated on cases with these labels only. `tolerance` is the largest difference from the
value of a convention, and `base` has the metrics that reproduce a tool without a preset.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

# The cases that tools answer.
from polars_rank.conformance.cases import CASES, Case

from tests.conformance import peers

from . import Means, Tools, Values, retrieval
from .trec_eval import version_of

#: A query that all tools can evaluate, beside that of a case.
OTHER = "other"
QUERY = "case"
#: Topics that the caller decides, by what a tool reads.
_OF_CALLER = {"lists": ("unjudged", "ids"), "ranks": ("ties", "float32", "ids", "scores", "order")}
#: Topics that show what a tool does with labels.
_OF_LABELS = ("grades", "gain", "threshold")
#: What a tool returns for a case, by its names of the metrics.
Found = dict[str, float | None]


@dataclass(frozen=True)
class Tool:
    """A tool, and what it can be given; the docstring of this module says what fields mean."""

    package: str
    preset: str | None
    takes: str
    metrics: dict[str, str]
    binary: str = ""
    tolerance: float = 1e-9
    base: dict[str, str] = field(default_factory=dict)

    def names(self, case: Case) -> dict[str, str]:
        """Return the tool's names of metrics that it can evaluate on a case, and ours."""
        copies = len(dict(case.rows)) < len(case.rows)
        if case.k is None or (copies and self.takes == "dictionaries"):
            return {}
        if case.topic in _OF_CALLER.get(self.takes, ()) or (
            self.takes == "lists" and not case.rows
        ):
            return {}
        converted = {*(self.metrics if self.binary == "all" else self.binary.split())}
        if set(case.judgments.values()) <= {0, 1} and case.topic not in _OF_LABELS:
            converted = set()
        return {
            theirs.format(k=case.k): full_name(ours, case)
            for ours, theirs in self.metrics.items()
            if ours not in converted
        }


def full_name(metric: str, case: Case) -> str:
    """Return the name of a metric with the cutoff of a case."""
    return metric if case.k is None or metric == "r_precision" else f"{metric}@{case.k}"


def frame(case: Case, *, lists: bool = False) -> pl.DataFrame:
    """Return a case as a log: the retrieved documents only, or all, with a second query."""
    rows = [(QUERY, doc, score, case.judgments.get(doc)) for doc, score in case.rows]
    if lists:
        rows = [(*row, label or 0.0) for *row, label in rows]
    else:
        missing = case.judgments.keys() - dict(case.rows).keys()
        rows += [(QUERY, doc, None, case.judgments[doc]) for doc in sorted(missing)]
        rows += [(OTHER, "x", 1.0, 1.0)]
    schema = {"query": pl.String, "doc": pl.String, "score": pl.Float64, "label": pl.Float64}
    log = pl.DataFrame(rows, schema, orient="row")
    whole = all(label == int(label) for label in case.judgments.values())
    return log.with_columns(pl.col("label").cast(pl.Int64)) if whole else log


def of_lists(values: Callable[..., peers.Values], case: Case, names: list[str]) -> Found:
    """Evaluate a case with a function of `peers` for lists."""
    log = frame(case, lists=True)
    return {name: of.get(QUERY) for name, of in values(log, names).items()}


def trec_eval(variable: str, case: Case, names: list[str]) -> Found:
    """Evaluate a case with the program that a variable names."""
    with TemporaryDirectory() as folder:
        judgments, run = Path(folder, "qrels"), Path(folder, "run")
        lines = [f"{QUERY} 0 {doc} {label:g}\n" for doc, label in case.judgments.items()]
        judgments.write_text("".join([*lines, f"{OTHER} 0 x 1\n"]), encoding="utf-8")
        lines = [f"{QUERY} Q0 {doc} 0 {score!r} run\n" for doc, score in case.rows]
        run.write_text("".join([*lines, f"{OTHER} Q0 x 0 1 run\n"]), encoding="utf-8")
        measures = [part for name in names for part in ("-m", _measure(name))]
        command = [os.environ[variable], "-q", "-c", *measures, judgments, run]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in printed.splitlines()]
    values = {name: float(value) for name, query, value in rows if query == QUERY}
    return {name: values.get(name) for name in names}


def _measure(name: str) -> str:
    """Return the parameter of trec_eval for a name such as "ndcg_cut_3": "ndcg_cut.3"."""
    stem, _, k = name.rpartition("_")
    return f"{stem}.{k}" if k.isdigit() else name


def pytrec_eval(case: Case, names: list[str]) -> Found:
    """Evaluate with pytrec_eval."""
    import pytrec_eval as peer

    log = frame(case)
    evaluator = peer.RelevanceEvaluator(peers._judgments(log), {_measure(name) for name in names})
    found = evaluator.evaluate(peers._run(log)).get(QUERY, {})
    return {name: found.get(name) for name in names}


def ir_measures(case: Case, names: list[str]) -> Found:
    """Evaluate with ir_measures."""
    import ir_measures as peer

    log = frame(case)
    measures = {name: peer.parse_measure(name) for name in names}
    values = peer.iter_calc([*measures.values()], peers._judgments(log), peers._run(log))
    found = {each.measure: each.value for each in values if each.query_id == QUERY}
    return {name: found.get(measure) for name, measure in measures.items()}


def scikit_learn(case: Case, names: list[str]) -> Found:
    """Evaluate with scikit-learn."""
    from sklearn import metrics as peer

    ((_, scores, labels),) = peers._lists(frame(case, lists=True))
    calls = {name: peers.called(name) for name in names}
    return {
        name: getattr(peer, function)([labels], [scores], **options)
        for name, (function, options) in calls.items()
    }


def ranx(case: Case, names: list[str]) -> Found:
    """Evaluate with ranx, which counts queries without results as 0."""
    import ranx as peer

    log = frame(case)
    run = peer.Run(peers._run(log))
    judgments = peer.Qrels(peers._judgments(log))
    peer.evaluate(judgments, run, names, make_comparable=True)
    return {name: run.scores[name].get(QUERY) for name in names}


def _ids(case: Case, k: int | None = None) -> tuple[list[str], list[str]]:
    """Return the ids of the first k retrieved documents, and of the relevant ones."""
    ranking = sorted(case.rows, key=lambda row: -row[1])
    return [doc for doc, _ in ranking[:k]], [doc for doc, n in case.judgments.items() if n >= 1]


def mlflow(case: Case, names: list[str]) -> Found:
    """Evaluate with MLflow."""
    import pandas as pd
    from mlflow import metrics as peer

    retrieved, relevant = _ids(case)
    found: Found = {}
    for name in names:
        metric = getattr(peer, f"{name.rpartition('_')[0]}")(case.k)
        (found[name],) = metric.eval_fn(pd.Series([retrieved]), pd.Series([relevant])).scores
    return found


def llama_index(case: Case, names: list[str]) -> Found:
    """Evaluate the first k documents with LlamaIndex, whose metrics have no cutoff."""
    from llama_index.core.evaluation.retrieval import metrics as peer

    retrieved, relevant = _ids(case, case.k)
    return {
        name: getattr(peer, name)().compute(expected_ids=relevant, retrieved_ids=retrieved).score
        for name in names
    }


def haystack(case: Case, names: list[str]) -> Found:
    """Evaluate the first k documents with Haystack, whose evaluators have no cutoff."""
    from haystack import Document
    from haystack.components import evaluators as peer

    retrieved, relevant = ([[Document(content=doc) for doc in ids]] for ids in _ids(case, case.k))
    found: Found = {}
    for name in names:
        class_, _, mode = name.partition(" ")
        evaluator = getattr(peer, class_)(*([mode] if mode else []))
        result = evaluator.run(ground_truth_documents=relevant, retrieved_documents=retrieved)
        (found[name],) = result["individual_scores"]
    return found


def rectools(case: Case, names: list[str]) -> Found:
    """Evaluate with RecTools, which reads ranks."""
    import pandas as pd
    from rectools import metrics as peer

    retrieved, relevant = _ids(case)
    rows = [(QUERY, doc, rank) for rank, doc in enumerate(retrieved, 1)]
    shown = pd.DataFrame([*rows, (OTHER, "x", 1)], columns=["user_id", "item_id", "rank"])
    seen = pd.DataFrame(
        [*((QUERY, doc) for doc in relevant), (OTHER, "x")], columns=["user_id", "item_id"]
    )
    metrics = {name: getattr(peer, name.partition("@")[0])(case.k) for name in names}
    return {name: metric.calc_per_user(shown, seen).get(QUERY) for name, metric in metrics.items()}


def replay(case: Case, names: list[str]) -> Found:
    """Evaluate with RePlay, which reads scores."""
    import pandas as pd
    from replay import metrics as peer

    _, relevant = _ids(case)
    rows = [(QUERY, doc, score) for doc, score in case.rows]
    shown = pd.DataFrame([*rows, (OTHER, "x", 1.0)], columns=["query_id", "item_id", "rating"])
    seen = pd.DataFrame(
        [*((QUERY, doc) for doc in relevant), (OTHER, "x")], columns=["query_id", "item_id"]
    )
    found: Found = {}
    for name in names:
        metric = getattr(peer, name.partition("@")[0])(case.k, mode=peer.PerUser())
        (of_users,) = metric(shown, seen).values()
        found[name] = dict(of_users).get(QUERY)
    return found


def of_queries(values: Callable[..., Means], case: Case, names: list[str]) -> Found:
    """Evaluate a case with a function of `retrieval`."""
    retrieved, relevant = _ids(case)
    judgments: Any = {QUERY: {*relevant}}
    if values is retrieval.mteb:
        judgments = peers._judgments(frame(case).filter(query=QUERY))
    hits = case.rows
    if values is retrieval.pyvespa:
        hits = [(doc, -float(at)) for at, doc in enumerate(retrieved)]
    found = values(judgments, {QUERY: hits}, case.k)
    return {name: found.get(name) for name in names}


#: Functions that evaluate a case with each tool.
FUNCTIONS: dict[str, Callable[[Case, list[str]], Found]] = {
    **{f"trec_eval {n}": partial(trec_eval, f"TREC_EVAL_{n}") for n in (9, 10)},
    **{"pytrec_eval": pytrec_eval, "ranx": ranx, "ir_measures": ir_measures},
    "scikit-learn": scikit_learn,
    "torchmetrics": partial(of_lists, peers.torchmetrics),
    "LightGBM": partial(of_lists, peers.lightgbm),
    "XGBoost": partial(of_lists, peers.xgboost),
    "CatBoost": partial(of_lists, peers.catboost),
    **{"RecTools": rectools, "RePlay": replay, "MLflow": mlflow},
    "sentence-transformers": partial(of_queries, retrieval.sentence_transformers),
    "Vespa": partial(of_queries, retrieval.pyvespa),
    "MTEB": partial(of_queries, retrieval.mteb),
    **{"LlamaIndex": llama_index, "Haystack": haystack},
}
_TABLE = json.loads(Path(__file__).with_name("tools_table.json").read_text(encoding="utf-8"))
PEERS = {name: Tool(**tool) for name, tool in _TABLE.items()}


def log() -> dict[str, Any]:
    """Return the cases, as the file has them."""
    return {
        case.name: {"k": case.k, "rows": [*map(list, case.rows)], "judgments": case.judgments}
        for case in CASES
    }


def evaluated(name: str, _: Any) -> tuple[Values, Means]:
    """Evaluate all cases with a tool, by our names of the metrics."""
    found: Values = {case.name: {} for case in CASES}
    for case in CASES:
        for theirs, ours in PEERS[name].names(case).items():
            try:
                value = FUNCTIONS[name](case, [theirs])[theirs]
            except Exception:  # whatever the tool raises
                found[case.name][ours] = "error"
                continue
            known = value is not None and value == value
            found[case.name][ours] = float(value) if known else None
    return {case: values for case, values in found.items() if values}, {}


def _package(name: str) -> str | Callable[[], str]:
    variable = name.upper().replace(" ", "_")
    return partial(version_of, variable) if name.startswith("trec_eval") else PEERS[name].package


TOOLS: Tools = {name: (_package(name), partial(evaluated, name)) for name in PEERS}
