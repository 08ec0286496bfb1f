"""Write examples/guide/metrics.md, the reference of all metrics, from their docstrings.

Run `PYTHONPATH=tests python -m tests.conformance.metrics_page` in the root of the project.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import polars_rank as pr
from metric_texts import MetricTexts
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import REGISTER, MetricFunction

from .table import names

PAGE = Path(__file__).parents[2] / "examples" / "guide" / "metrics.md"

FAMILIES = {
    "discounted_gain": "Gains",
    "relevance": "Binary relevance",
    "user_models": "User models",
    "pairwise": "Pairs and thresholds",
    "agreement": "Agreement with the ideal order",
    "incomplete_judgments": "Incomplete judgments",
    "sets": "Sets and counts",
    "subtopics": "Subtopics",
    "beyond_accuracy": "Novelty and popularity",
    "diversity": "Diversity",
}

HEAD = """\
# Metrics

A metric is a function, such as `pr.ndcg(10, gain="exp2")`, and has a name, such as
`"ndcg(gain='exp2')@10"`. Names are not case-sensitive, and the names of other tools work as well:
[Metrics in other tools](peers.md) lists them and shows how closely the values agree.
[Coming from other tools](coming_from.md) translates code written for other tools.

`pr.list_metrics()` returns a table of all metrics. This page is generated from the docstrings by
`python -m tests.conformance.metrics_page`.

In the formulas, $r$ and $i$ are ranks, starting at 1, and $k$ is the cutoff. Without a cutoff, $k$
is the length of the ranking. $n$ is the number of retrieved documents, which are the documents with
a score. $R$ is the number of relevant documents, retrieved or not, which are the documents with a
label of at least `rel`. Hits are the relevant documents retrieved down to the given rank. $(i)$ is
the i-th document of the ideal ranking, in which documents are sorted by label.

If a metric is undefined for a ranking, it counts as 0 if 0 is its worst value; otherwise, it does not
count. The tables say which. The parameter `undefined` says otherwise, and a preset counts as its tool;
see [How numbers are defined](conventions.md#undefined-values).

**Ties.** The parameter `ties` of `evaluate` applies to all metrics of a call: `"doc"`,
`"doc_ascending"`, `"best"`, `"worst"`, `"input"`, or `"expected"`, which is the mean over all
orders of tied documents. The default is `"doc"` (by document id, descending), or `"worst"` without
document ids. In the tables:

- *no effect*: the value does not depend on the order of tied documents.
- *every rule*: the metric supports every rule. `"expected"` is exact, in closed form.
- *every rule except `expected`*: no closed form is known, and `"expected"` raises an error.
  `pr.diagnostics.tie_bands` returns the lowest and the highest mean.
"""

_AGGREGATES = {"sum": "sum", "geometric": "geometric mean"}


def page() -> str:
    """Return the text of the page."""
    grouped = {name: [] for name in FAMILIES}
    for name, build in REGISTER.items():
        grouped[build.function.__module__.rpartition(".")[2]].append(name)
    index = "\n".join(
        f"- **[{title}](#{_anchor(title)})**: " + ", ".join(map(_link, grouped[name]))
        for name, title in FAMILIES.items()
    )
    elsewhere, aliases = names(), _aliases()
    sections = [
        "\n\n".join([
            f"## {title}",
            inspect.getdoc(sys.modules[f"polars_rank.metrics.{name}"]) or "",
            _table(grouped[name]),
            *(_entry(metric, aliases[metric], elsewhere[metric]) for metric in grouped[name]),
        ])
        for name, title in FAMILIES.items()
    ]  # fmt: skip
    return "\n\n".join([HEAD.strip(), "## Index", index, *sections]) + "\n"


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
        *([f"- Also called {', '.join(aliases)}."] if aliases else []),
        *(f"- {tool}: {', '.join(called)}" for tool, called in elsewhere.items()),
        f"- Source: {description.source}",
    ]
    return "\n\n".join(
        part
        for part in (
            f"### `{name}`",
            description.definition,
            _displayed(description.formula),
            texts.letters,
            texts.values,
            "\n".join(lines),
        )
        if part
    )


def _displayed(formula: str) -> str:
    """Return a formula as a block of Markdown."""
    # After a bracket, Markdown may read an underscore before another character as emphasis.
    return re.sub(r"(?<=[})])_(?=\S)", "_ ", f"$$\n{formula}\n$$")


def _parameter(build: object, key: str) -> str:
    parameter = inspect.signature(build).parameters[key]
    if parameter.default is parameter.empty:
        return key
    return f"{key}={getattr(parameter.default, '__name__', repr(parameter.default))}"


def _aliases() -> dict[str, list[str]]:
    """Return the aliases of each metric in polars_rank."""
    table = pr.list_metrics().select("metric", "aliases").iter_rows()
    return {name: [f"`{alias}`" for alias in aliases] for name, aliases in table}


def _link(name: str) -> str:
    return f"[`{name}`](#{name})"


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
