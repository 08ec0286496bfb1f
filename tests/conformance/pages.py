"""The generated parts of the pages on metrics, on other tools and on the tests.

For code, polars_rank/metrics/compared.json has the metrics that are compared with each tool: `evaluate`
warns about the others. `python -m tests.conformance` writes everything.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars_rank as pr

# All metrics, as the pages list them.
from polars_rank.conformance.cases import CASES
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, MetricFunction
from polars_rank.metrics.names import read

from tests import oracles, recorded
from tests.metric_texts import MetricTexts

from . import test_reference
from .differences import DIFFERENCES
from .logs import LOGS, REAL
from .pairs import PEERS, Peer
from .recorded_logs import NAMES, metric

ROOT = Path(__file__).parents[2]
MODULE = ROOT / "polars_rank" / "metrics" / "compared.json"
#: Tolerances of values in files, if they are not 1e-9.
TOLERANCES = {"trec_eval": 6e-5, "MTEB": 6e-6}
#: Presets by the name they are exported under, in the order of the page.
PRESETS = {
    "trec_eval": "TREC_EVAL", "pytrec_eval": "TREC_EVAL_9", "ir_measures": "IR_MEASURES",
    "pyndeval": "NDEVAL", "ranx": "RANX", "scikit-learn": "SKLEARN",
    "torchmetrics": "TORCHMETRICS", "LightGBM": "LIGHTGBM", "XGBoost": "XGBOOST",
    "CatBoost": "CATBOOST", "RecTools": "RECTOOLS", "RePlay": "REPLAY", "Evidently": "EVIDENTLY",
    "LensKit": "LENSKIT", "Elasticsearch": "ELASTICSEARCH",
    "sentence-transformers": "SENTENCE_TRANSFORMERS", "MTEB": "MTEB", "Vespa": "VESPA",
    "Quepid": "QUEPID",
}  # fmt: skip
FAMILIES = {
    "discounted_gain": "Gains",
    "relevance": "Binary relevance",
    "user_models": "User models",
    "pairwise": "Pairs and thresholds",
    "agreement": "Agreement with the ideal order",
    "incomplete_judgments": "Incomplete judgments",
    "sets": "Sets and counts",
    "subtopics": "Subtopics",
    "beyond_accuracy": "Attributes of documents",
    "diversity": "Diversity",
}


# Metrics in other tools


def tool(peer: Peer) -> str:
    """Return the name of a peer without the part in parentheses."""
    return peer.name.partition(" (")[0]


class Pair(NamedTuple):
    """A name of a metric in a tool, and the metric in polars_rank."""

    tool: str
    name: str
    metric: pr.Metric
    spelling: str
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
            spelling = peer.pairs[name] or name
            yield Pair(tool(peer), name, peer.ours(name), spelling, peer.tolerance)
    for log in ("trec_eval", "accuracy", "recommenders", "engines", "retrieval"):
        for other, name, text in (
            (t, n, text) for t, of in NAMES[log].items() for n, text in of.items()
        ):
            if not name.startswith("graded"):
                spelled = metric(text)
                own = read(spelled, other) if isinstance(spelled, str) else spelled
                yield Pair(other, name, own, str(spelled), TOLERANCES.get(other, 1e-9))


def names() -> dict[str, dict[str, dict[str, None]]]:
    """Return the names of each metric in each tool that supports it."""
    found: dict[str, dict[str, dict[str, None]]] = {name: {} for name in sorted(REGISTER)}
    for pair in pairs():
        digits = "" if pair.tolerance == 1e-9 else f" ({pair.tolerance:.0e})".replace("e-0", "e-")
        (leaf,) = pair.metric.leaves
        row = found[leaf.function.__name__].setdefault(pair.tool, {})
        row[f"`{_general(pair.name)}`{digits}"] = None
    return found


def rows(tool: str) -> list[tuple[str, str, str]]:
    """Return the rows of the table of a tool: metric, names, tolerance."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for pair in pairs():
        if pair.tool == tool:
            metric = pair.metric.leaves[0].function.__name__
            shown, mark = (metric, "") if pair.is_accepted else (_general(pair.spelling), r" \*")
            tolerance = f"{pair.tolerance:.0e}".replace("e-0", "e-")
            found.setdefault((shown, tolerance), {})[f"`{_general(pair.name)}`{mark}"] = None
    return sorted(
        (f"`{metric}`", ", ".join(names), tolerance) for (metric, tolerance), names in found.items()
    )


def table(rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def tables_of_names() -> str:
    """Return the tables of the names in each tool."""
    index = " · ".join(f"[{name}](#{name.lower()})" for name in PRESETS)
    parts = [f"{index}\n"]
    for name, preset in PRESETS.items():
        head = [("metric", f"name in {name}", "tolerance"), ("---",) * 3]
        parts += [f"### {name}\n\nPreset: `pr.conventions.{preset}`\n", table(head + rows(name))]
    alone = ", ".join(f"`{name}`" for name, tools in names().items() if not tools)
    parts.append(
        "### Other metrics\n\nPlain Python functions, instead of these tools, compute the expected values "
        f"of the following metrics: {alone}.\n"
    )
    return "\n".join(parts)


def module() -> str:
    """Return the text of the file of metrics that are compared."""
    found: dict[str, dict[str, None]] = {tool: {} for tool in PRESETS}
    for pair in pairs():
        found[pair.tool] |= {leaf.function.__name__: None for leaf in pair.metric.leaves}
    names = {
        getattr(pr.conventions, PRESETS[tool]).name: sorted(own) for tool, own in found.items()
    }
    return json.dumps(names, indent=1) + "\n"


def _general(name: str) -> str:
    """Return a name without its threshold, and with "…" for other numbers."""
    if not name.startswith("NumRet"):
        name = re.sub(r"\(rel=\d+\)|,rel=\d+|-l\d+|\(\)", "", name)
    return re.sub(
        r"(?<=[@_=.])\d+(\.\d+)?$|(?<=[@=])\d+(\.\d+)?|(?<=_)\d+\.\d+|(?<=/ )\d+", "…", name
    )


# Metrics


_AGGREGATES = {"sum": "sum", "geometric": "geometric mean"}


def metrics() -> str:
    """Return the index and the entries of all metrics."""
    grouped = {name: [] for name in FAMILIES}
    for name, build in REGISTER.items():
        grouped[build.function.__module__.rpartition(".")[2]].append(name)
    index = "\n".join(
        f"- **[{title}](#{_anchor(title)})**: " + ", ".join(map(_link, grouped[name]))
        for name, title in FAMILIES.items()
    )
    elsewhere = names()
    aliases = dict(pr.list_metrics().select("metric", "aliases").iter_rows())
    sections = [
        "\n\n".join([
            f"## {title}",
            inspect.getdoc(sys.modules[f"polars_rank.metrics.{name}"]) or "",
            _table(grouped[name]),
            *(_entry(metric, aliases[metric], elsewhere[metric]) for metric in grouped[name]),
        ])
        for name, title in FAMILIES.items()
    ]  # fmt: skip
    return "\n\n".join(["## Index", index, *sections])


def ties(name: str) -> str:
    """Return which `ties` rules a metric supports."""
    definition = REGISTER[name]
    if definition.order_matters == "never":
        return "no effect"
    rules = "every rule" if definition.expected else "every rule except `expected`"
    return f"{rules}; no effect without `k`" if definition.order_matters == "cutoff" else rules


def _table(metrics: list[str]) -> str:
    rows = [["metric", "range", "undefined if", "counts as", "ties"], ["---"] * 5]
    for name in metrics:
        build = REGISTER[name]
        low, high = ("" if bound is None else f"{bound:g}" for bound in (build.low, build.high))
        values = "0 or 1" if build.binary else f"{low or '-∞'} … {high or '∞'}"
        rows.append(
            [_link(name), values, build.undefined or "*never*", _counted(build), ties(name)]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _counted(build: MetricFunction[...]) -> str:
    """Return what an undefined ranking counts as by default."""
    if build.undefined is None:
        return ""
    return "nothing" if build.skipped else "`floor`" if build.aggregate == "geometric" else "0"


def _entry(name: str, aliases: list[str], elsewhere: dict[str, dict[str, None]]) -> str:
    build = REGISTER[name]
    description, texts = described(build), MetricTexts.of(build)
    aggregate = _AGGREGATES.get(build.aggregate)
    lines = [
        *(f"- `{_parameter(build, key)}`: {text}" for key, text in texts.parameters.items()),
        *([f"- Aggregate over rankings: {aggregate}."] if aggregate else []),
        *([f"- Also called {', '.join(f'`{each}`' for each in aliases)}."] if aliases else []),
        *(f"- {tool}: {', '.join(called)}" for tool, called in elsewhere.items()),
        f"- Source: {description.source}",
    ]
    parts = (
        *(f"### `{name}`", description.definition, _displayed(description.formula)),
        *(texts.letters, texts.values, "\n".join(lines)),
    )  # fmt: skip
    return "\n\n".join(filter(None, parts))


def _displayed(formula: str) -> str:
    """Return a formula as a block of Markdown."""
    # After a bracket, Markdown may read an underscore before another character as emphasis.
    return re.sub(r"(?<=[})])_(?=\S)", "_ ", f"$$\n{formula}\n$$")


def _parameter(build: object, key: str) -> str:
    parameter = inspect.signature(build).parameters[key]
    if parameter.default is parameter.empty:
        return key
    return f"{key}={getattr(parameter.default, '__name__', repr(parameter.default))}"


def _link(name: str) -> str:
    return f"[`{name}`](#{name})"


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


# Tests


def leaves(value: Any) -> int:
    """Return how many numbers a structure of JSON contains."""
    if isinstance(value, dict):
        value = [*value.values()]
    return sum(map(leaves, value)) if isinstance(value, list) else isinstance(value, int | float)


def counts() -> str:
    """Return the table of what the tests compare."""
    compared = [*pairs()]
    leaf_pairs = {(each.tool, leaf.function) for each in compared for leaf in each.metric.leaves}
    queries = {name: log()["query"].n_unique() for name, log in LOGS.items() if name not in REAL}
    files = {
        name: recorded.read(name)["values"]
        for name in ("recommenders", "retrieval", "rag", "tools")
    }
    found = {
        "metrics, each with a function in plain Python that computes its expected values": sum(
            hasattr(oracles, name) for name in REGISTER
        ),
        "tools with a preset": len(PRESETS),
        "pairs of a metric and a tool that are compared": len(leaf_pairs),
        "names of metrics in tools that are compared": len({(p.tool, p.name) for p in compared}),
        "values of random rankings that are compared with tools that the tests run": sum(
            queries[log] * len(peer.on(log)) for peer in PEERS for log in queries
        ),
        "values of tools in files, with which the tests compare": leaves([*files.values()]),
        "values of the reference in plain Python, compared under every preset": (
            len(test_reference.NAMES)
            * (1 + len(pr.conventions.__all__))
            * test_reference.queries()["query"].n_unique()
        ),
        "[cases on which tools differ](cases.md), each a query about one choice": len(CASES),
        "tools that were run on these cases": len(files["tools"]),
        "known differences between tools and polars_rank, each with a test": len(DIFFERENCES),
    }
    return "| What | Count |\n| --- | ---: |\n" + table((k, f"{v:,}") for k, v in found.items())


def rows_of(text: str) -> int:
    """Return how many rows the tables of a page have, without their heads."""
    tables = re.findall(r"^\|[-:| ]+\|\n((?:\|.*\n)+)", text + "\n", re.MULTILINE)
    return sum(table.count("\n") for table in tables)


def simulations() -> str:
    """Return the table of simulations, from the pages of their results."""
    levels, gates = (
        (ROOT / "tests" / "bench" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("levels", "gate_alarms")
    )
    tables, _, beyond = levels.partition("## What does not hold")
    logs = re.search(r"([\d,]+) simulated logs per cell", levels)[1]
    of_gates = re.search(r"([\d,]+) pairs of runs per row", gates)[1]
    alarms = re.search(r"over all rows, it is ([\d.]+ ± [\d]\.\d+)", gates)[1]
    outside = len(re.findall(r"^- ", beyond, re.MULTILINE))
    return (
        "| Simulation | Situations | Logs in most of them | Result |\n| --- | ---: | ---: | --- |\n"
        f"| levels of intervals, tests and gates (`tests/bench/levels.md`) | {rows_of(tables):,} | "
        f"{logs} | outside their limits: {outside}, listed at the end |\n"
        f"| false alarms of `gate` (`tests/bench/gate_alarms.md`) | {rows_of(gates)} | {of_gates} | "
        f"{alarms} of gates fail although both retrievers are equal; the aim is at most 0.05 |\n"
    )


def pages() -> dict[str, dict[str, str]]:
    """Return the generated parts of pages of the guide."""
    differences = "".join(f"- **{each['title']}.** {each['text']}\n" for each in DIFFERENCES)
    return {
        "metrics": {"metrics": metrics()},
        "peers": {"names": tables_of_names(), "differences": differences},
        "testing": {"counts": counts(), "simulations": simulations()},
    }
