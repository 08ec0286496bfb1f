"""Names of metrics in other tools, common long forms, and measures that are not metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FILE: dict[str, Any] = json.loads(Path(__file__).with_name("aliases.json").read_text("utf-8"))
#: Names by Burges et al., whose gain is 2^label - 1.
_EXP2 = ("dcg_burges", "ndcg_burges")
#: Metrics and parameters by other names in lower case: those of tools, and common long forms.
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    alias: (name, {"gain": "exp2"} if alias in _EXP2 else {})
    for name, others in _FILE["other_names"].items()
    for alias in others.split()
}
#: Metrics and parameters by the tool and a name that has another meaning elsewhere.
TOOL_ALIASES: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {
    (tool, alias): (name, parameters)
    for tool, names in _FILE["tool_aliases"].items()
    for alias, (name, parameters) in names.items()
}
#: Other meanings of the name of a metric.
OTHER_MEANINGS: dict[str, str] = _FILE["other_meanings"]
#: What to use for measures that are not metrics, but results of functions or of other metrics.
FUNCTIONS_OF: dict[str, str] = _FILE["functions_of"]
#: What to use instead of an ambiguous name.
MEANINGS: dict[str, str] = _FILE["meanings"]
#: Names of trec_eval that mean several metrics.
SETS: dict[str, list[str]] = {
    name: " ".join(lines).split() for name, lines in _FILE["sets"].items()
}
