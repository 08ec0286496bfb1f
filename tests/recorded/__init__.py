"""Values that tools computed, in tests/fixtures, with which tests compare.

    python -m tests.recorded [--check] NAME…

writes the values of the tools that are installed to the file of each name, beside those of the
others. With `--check`, it writes nothing, and fails if a value differs from the file, or if no tool
of a file is installed. The names, and environments of their tools:

- tools: `pip install -e '.[all]' --group conformance`; `sentence-transformers mteb pyvespa`;
  `mlflow-skinny llama-index-core haystack-ai`; `rectools 'pandas<3'`; `replay-rec 'pandas<3'`;
  trec_eval, which is built by `make` from https://github.com/usnistgov/trec_eval, and of which the
  environment variables TREC_EVAL_9 and TREC_EVAL_10 name the programs;
- recommenders: one environment each for `rectools==0.19.0`, `replay-rec==0.22.0`,
  `evidently==0.7.23 'pandas<3'` and `lenskit==2026.4.0`, which needs Python 3.12.5 or later;
- retrieval: `sentence-transformers==6.2.0 mteb==2.26.24 pyvespa==1.2.9`; Quepid, whose scorers run
  with node from a checkout of its repository in the folder that the variable QUEPID names;
- rag: `haystack-ai ragas mlflow-skinny llama-index-core scikit-learn`;
- trec_eval: the program of TREC_EVAL_10 (commit f425365);
- irrcac: `irrCAC==0.4.4`; rectools_catalog: `rectools==0.19.0`.

In most files, "values" are by tool, name of a metric, and query or user: a number, null if the tool
has none, or "error". "means" are those that the tool reports, and "log" is what it evaluated.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[1] / "fixtures"
NAMES = (
    *("tools", "recommenders", "retrieval", "rag", "trec_eval", "irrcac", "rectools_catalog"),
)  # fmt: skip

#: Values by the tool's name of the metric, and by query or user.
Values = dict[str, Any]
#: The means that the tool reports, by its name of the metric.
Means = dict[str, float]
#: The package of each tool, or a function that returns its version, and the function that
#: evaluates a log with it.
Tools = dict[str, tuple[str | Callable[[], str], Callable[[Any], tuple[Values, Means]]]]


def read(name: str) -> Any:
    """Return the content of a file."""
    return json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))


def evaluated(data: Any, tools: Tools) -> dict[str, Any]:
    """Return the versions of the tools that are installed, and what they compute."""
    found: dict[str, Any] = {"versions": {}, "values": {}, "means": {}}
    for tool, (package, evaluate) in tools.items():
        try:
            found["versions"][tool] = version(package) if isinstance(package, str) else package()
        except PackageNotFoundError:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["values"][tool], found["means"][tool] = evaluate(data)
    return found


def by_key(values: Mapping[Any, Any]) -> dict[str, float | None]:
    """Return numbers by text, and None for NaN."""
    known = {str(key): float(value) for key, value in dict(values).items()}
    return {key: None if value != value else value for key, value in known.items()}


def differences(file: Any, found: Any, path: str) -> list[str]:
    """Return where what is found is not in a file; numbers may differ by 1e-6."""
    if isinstance(found, dict):
        if file.keys() != found.keys():
            return [f"{path}: {sorted(file.keys() ^ found.keys())} are not in both"]
        parts = ((file[key], value, f"{path}/{key}") for key, value in found.items())
    elif isinstance(found, (list, tuple)) and len(file) == len(found):
        parts = ((a, b, f"{path}/{at}") for at, (a, b) in enumerate(zip(file, found)))
    else:
        both = isinstance(file, (int, float)) and isinstance(found, (int, float))
        equal = math.isclose(file, found, rel_tol=1e-6) if both else file == found
        return [] if equal else [f"{path}: {file} in the file, now {found}"]
    return [text for part in parts for text in differences(*part)]


def text_of(value: Any, levels: int = 3) -> str:
    """Return JSON with a line for each entry of three levels of objects."""
    if not (isinstance(value, dict) and value and levels):
        return json.dumps(value, sort_keys=True)
    deeper = " " * (4 - levels)
    parts = (
        f"{json.dumps(key)}: {text_of(each, levels - 1)}" for key, each in sorted(value.items())
    )
    return f"{{\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{deeper[1:]}}}"
