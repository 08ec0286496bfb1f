"""Write examples/guide/peers.md: the names of each metric in other tools, and known differences.

Run `PYTHONPATH=tests python -m tests.conformance.table` in the root of the project.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars_rank as pr
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import read

from . import test_differences, test_engines, test_rag, test_recommenders
from .pairs import PEERS, Peer

PAGE = Path(__file__).parents[2] / "examples" / "guide" / "peers.md"

HEAD = """\
# Metrics in other tools

The names of each metric in each tool; "…" stands for a number. The first row has the preset that
reproduces the tool, as in `pr.evaluate(log, "ndcg@10", conventions=pr.conventions.LIGHTGBM)`. With
that preset, functions accept the names of the tool, except for [the names below](#other-names).
Values agree within a relative tolerance of 1e-9, or the tolerance in parentheses if the tool uses
32-bit floats or prints few digits.

The conformance tests compare the value of every ranking in random and real logs with each tool, and
the means that the tool reports. The table is generated from them by
`python -m tests.conformance.table`.
"""

OTHER_NAMES = """\
## Other names

The following names are not accepted. Use the metric in the last column.
"""

FUSION = """\
## Fusion

What tools do when they fuse runs, and the parameter of `fuse` that decides it. `engine="ranx"`,
`engine="opensearch"` and `engine="elasticsearch"` set the parameters to the choices of the tool.
Values of ranx 0.3.21 agree within 1e-9 with `ties="input"`. The others are compared with their
published source, which computes with 32 bits, within 1e-6: neural-search 3.8.0, and
`RRFRetrieverBuilder` of Elasticsearch 9.1 (commit 0050ad5). Elasticsearch has weights since version 9.2.

| choice | `fuse` | default | ranx | OpenSearch | Elasticsearch |
| --- | --- | --- | --- | --- | --- |
| methods | `method` | `"rrf"` | all except the three means; also Condorcet and trained methods | RRF, arithmetic, geometric and harmonic mean | RRF |
| normalization of scores | `normalize` | none | min-max | min-max; L2 and its z-scores, of which those of 0 or less become 0.001, are not available here | none: RRF reads ranks |
| run whose scores are all equal, or with one document | `constant` | 1; 0 with `"zscore"` | 0 | 1 | |
| lowest score with min-max | `engine` | 0 | 0 | 0.001 | |
| document that a run lacks | `missing` | 0 in the arithmetic mean, else left out | left out | 0 in the arithmetic mean, else left out | left out |
| the same with Borda points | | half of the remaining points | half of the remaining points | | |
| standard deviation of z-scores | `ddof` | of the population | of the population | of a sample | |
| scores of 0 or less in geometric and harmonic means | | left out | | left out | |
| highest score of 0 or less with `"max"` | `normalize` | an error | divides by 1e-9 | | |
| documents of each run | `window` | all | all | of each shard, as many as the request returns, or `pagination_depth` | the first 10 (`rank_window_size`) |
| rank constant of RRF | `k` | 60 | 60 | 60 | 60 |
| query that a run lacks | | the run does not count | an error | counts as a run without documents | counts as a run without documents |
| document that a run has twice | | once, at its best rank | the last score | cannot occur | cannot occur |
| equal scores in a run | `ties` | by id, descending | order of an unstable sort | by shard and internal id | by shard and internal id |
"""

RAG = """\
## Names in retrieval for language models

With binary labels, 1 for an expected document or chunk. With the preset RAGAS, `context_precision` and
`context_recall` are those by ids:

| name | tool | definition | metric |
| --- | --- | --- | --- |
| context precision by ids | ragas | share of the retrieved documents that are expected; copies count once | `set_precision` |
| context precision of verdicts | ragas | mean of the precision at the ranks of the relevant documents that are retrieved | `average_precision(norm='hits')` |
| context recall by ids | ragas | share of the expected documents that are retrieved | `recall` |
| hit rate | LlamaIndex | 1 if an expected document is retrieved | `hit_rate` |
| `DocumentRecallEvaluator` | Haystack | `single_hit`: 1 if an expected document is retrieved; `multi_hit`: share of them | `hit_rate`, `recall` |
| MRR | Haystack, LlamaIndex | 1 / rank of the first expected document; 0 if none is retrieved | `reciprocal_rank` |
| `ndcg_at_10` | MTEB, BEIR | NDCG with linear gain, as in trec_eval; no copies | `ndcg@10` |

A document that is retrieved more than once counts differently. For the ranking b, b, c with the
expected documents b and c, average precision is (1 + 2/2 + 3/3) / 2 = 1.5 in LlamaIndex, which credits
every copy; (1 + 2/3) / 2 = 0.833 in Haystack, which credits the first copy and keeps the ranks of all;
and 1 if copies are removed. MLflow makes every copy a document of its own. The presets set `duplicates`
accordingly. Their values equal those of Haystack 3.4.1, ragas 0.4.3, MLflow 3.17.2 and LlamaIndex
0.14.25 on random rankings with copies, except for the differences below; those of `ELASTICSEARCH` equal
plain Python after the source of `modules/rank-eval` of Elasticsearch 8 (commit d04e400), and those of
`OPENSEARCH` after that of the plugin `search-relevance` of OpenSearch 3.6 (commit 0b75cf8). Its search
relevance workbench has a threshold of relevance for each query, the larger of half the highest label
and the 90th percentile, and rounds the values of queries to two decimals.
"""

DIFFERENCES = """\
## Differences

Each difference between a tool and polars_rank is tested.
"""

SPELLED = {
    "pytrec eval": "pytrec_eval",
    "trec eval": "trec_eval",
    "ir measures": "ir_measures",
    "scikit learn": "scikit-learn",
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "rectools": "RecTools",
    "replay": "RePlay",
    "evidently": "Evidently",
    "llamaindex": "LlamaIndex",
    "mlflow": "MLflow",
    "elasticsearch": "Elasticsearch",
    "opensearch": "OpenSearch",
    "lenskit": "LensKit",
    " ild ": " ILD ",
    "arp ": "ARP ",
    "awrf": "AWRF",
    "trec fair": "TREC Fair",
    "irrcac": "irrCAC",
    "gini": "Gini",
    "bpref": "bpref",
    "rbp": "RBP",
    "nnRBP": "nNRBP",
    "alpha dcg": "α-DCG",
    "err ia": "ERR-IA",
    "err ": "ERR ",
    "auc ": "AUC ",
    " nan ": " NaN ",
    "32 bit": "32-bit",
    "ndcg": "NDCG",
    "fall out": "fall-out",
    " map": " MAP",
}

#: Metrics whose values come from files.
METRICS: dict[tuple[str, str], str | pr.Metric] = {
    **test_recommenders.METRICS,
    **test_rag.METRICS,
    **test_engines.METRICS,
}

#: Presets by the name they are exported under.
PRESETS = {
    "pytrec_eval": "TREC_EVAL_9",
    "ir_measures": "IR_MEASURES",
    "pyndeval": "NDEVAL",
    "ranx": "RANX",
    "scikit-learn": "SKLEARN",
    "torchmetrics": "TORCHMETRICS",
    "LightGBM": "LIGHTGBM",
    "XGBoost": "XGBOOST",
    "CatBoost": "CATBOOST",
    "RecTools": "RECTOOLS",
    "RePlay": "REPLAY",
    "Evidently": "EVIDENTLY",
    "LensKit": "LENSKIT",
    "Haystack": "HAYSTACK",
    "ragas": "RAGAS",
    "MLflow": "MLFLOW",
    "LlamaIndex": "LLAMA_INDEX",
    "Elasticsearch": "ELASTICSEARCH",
    "OpenSearch": "OPENSEARCH",
}


def tool(peer: Peer) -> str:
    """Return the name of a peer without the part in parentheses."""
    return peer.name.partition(" (")[0]


class Pair(NamedTuple):
    """A name of a metric in a tool, and the metric in polars_rank."""

    tool: str
    name: str
    metric: pr.Metric
    tolerance: float = 1e-9

    @property
    def is_accepted(self) -> bool:
        """Whether polars_rank accepts the name with the preset of the tool."""
        try:
            read(self.name, getattr(pr.conventions, PRESETS[self.tool]).name)
        except pr.errors.ArgumentError:
            return False
        return True


def pairs() -> Iterator[Pair]:
    """Yield the names of all metrics in all tools."""
    for peer in PEERS:
        for name in peer.pairs:
            yield Pair(tool(peer), name, peer.ours(name), peer.tolerance)
    for (other, name), pair in METRICS.items():
        yield Pair(other, name, pair if isinstance(pair, pr.Metric) else read(pair, other))


def names() -> dict[str, dict[str, dict[str, None]]]:
    """Return the names of each metric in each tool that supports it."""
    found: dict[str, dict[str, dict[str, None]]] = {name: {} for name in sorted(REGISTER)}
    for pair in pairs():
        digits = "" if pair.tolerance == 1e-9 else f" ({pair.tolerance:.0e})".replace("e-0", "e-")
        (leaf,) = pair.metric.leaves
        row = found[leaf.function.__name__].setdefault(pair.tool, {})
        row[f"`{_general(pair.name)}`{digits}"] = None
    return found


def other_names() -> dict[tuple[str, str], str]:
    """Return the names that polars_rank does not accept, by tool, and the metric to use."""
    return {
        (pair.tool, f"`{_general(pair.name)}`"): f"`{_general(str(pair.metric))}`"
        for pair in pairs()
        if not pair.is_accepted
    }


def page() -> str:
    """Return the text of the page."""
    tools = list(dict.fromkeys([*map(tool, PEERS), *(each for each, _ in METRICS)]))
    cells = names()
    rows = [
        ["metric", *tools],
        ["---"] * (len(tools) + 1),
        ["", *(f"`{PRESETS[tool]}`" for tool in tools)],
        *(
            [f"`{name}`", *(", ".join(row.get(tool, "")) for tool in tools)]
            for name, row in cells.items()
            if row
        ),
    ]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    alone = ", ".join(f"`{name}`" for name, row in cells.items() if not row)
    others = [["tool", "name", "polars_rank"], ["---"] * 3]
    others += [[tool, name, ours] for (tool, name), ours in other_names().items()]
    other_table = "\n".join(f"| {' | '.join(row)} |" for row in others)
    differences = "\n".join(f"- {text}" for text in _differences())
    return (
        f"{HEAD}\n{table}\n\nThe following metrics are compared with plain Python functions instead "
        f"of these tools: {alone}.\n\n{OTHER_NAMES}\n{other_table}\n\n{RAG}\n{FUSION}\n"
        f"{DIFFERENCES}\n{differences}\n"
    )


def _general(name: str) -> str:
    """Return a name without its threshold, and with "…" for other numbers."""
    if not name.startswith("NumRet"):
        name = re.sub(r"\(rel=\d+\)|,rel=\d+|-l\d+|\(\)", "", name)
    return re.sub(
        r"(?<=[@_=.])\d+(\.\d+)?$|(?<=[@=])\d+(\.\d+)?|(?<=_)\d+\.\d+|(?<=/ )\d+", "…", name
    )


def _differences() -> list[str]:
    found = []
    for name, test in vars(test_differences).items():
        if not name.startswith("test_") or name.startswith(
            ("test_all", "test_means", "test_presets")
        ):
            continue
        title = name.removeprefix("test_").replace("_", " ")
        for plain, spelled in SPELLED.items():
            title = title.replace(plain, spelled)
        more = " ".join((inspect.getdoc(test) or "").split())
        found.append(f"**{title[0].upper() if title[0] not in 'prit' else title[0]}{title[1:]}.** "
                     f"{more}".strip())  # fmt: skip
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
