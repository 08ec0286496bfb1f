"""What trec_eval 10 prints for the random log "grades"; "all" has the means and sums."""

from __future__ import annotations

import os
import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conformance.logs import LOGS

from . import Means, Tools, Values

#: Without measures of text; RBP and its residual have differences of their own.
_LEFT_OUT = ("runid", "relstring", "rbp", "rbp_resid")
#: One cutoff below the length of rankings and one above it are enough.
_CUTOFFS = ("15", "20", "30", "100", "200", "500")


def log() -> str:
    """Return the name of the log."""
    return "grades"


def printed(name: str) -> tuple[Values, Means]:
    """Return the values of each topic."""
    table = LOGS[name]()
    judged = table.select("query", "doc", "label").drop_nulls().iter_rows()
    scored = table.select("query", "doc", "score").drop_nulls().iter_rows()
    with TemporaryDirectory() as folder:
        judgments, run = Path(folder, "qrels"), Path(folder, "run")
        judgments.write_text("".join(f"{q} 0 {d} {label}\n" for q, d, label in judged), "utf-8")
        run.write_text("".join(f"{q} Q0 {d} 0 {score!r} run\n" for q, d, score in scored), "utf-8")
        options = ["-q", "-c", "-m", "all_trec", "-m", "yaap", judgments, run]
        ended = subprocess.run(
            [os.environ["TREC_EVAL_10"], *options], capture_output=True, text=True, check=True
        )
    values: Values = {}
    for line in ended.stdout.splitlines():
        name, topic, value = line.split()
        if name not in _LEFT_OUT and name.rpartition("_")[2] not in _CUTOFFS:
            values.setdefault(name, {})[topic] = float(value)
    return values, {}


def version_of(variable: str) -> str:
    """Return the version of the program that an environment variable names."""
    if variable not in os.environ:
        raise PackageNotFoundError("trec_eval")
    # Version 9 exits with an error after it has printed its version.
    ended = subprocess.run([os.environ[variable], "--version"], capture_output=True, text=True)
    return (ended.stdout + ended.stderr).split("version ")[1].split()[0]


TOOLS: Tools = {"trec_eval": (lambda: version_of("TREC_EVAL_10"), printed)}
