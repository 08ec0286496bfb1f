"""Write tests/fixtures/trec_eval.json: what trec_eval 10 prints for a random log.

trec_eval is built from its source, https://github.com/usnistgov/trec_eval (commit f425365), by
`make`. With the path of the program:

    PYTHONPATH=tests python -m tests.conformance.write_trec_eval trec_eval
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .logs import LOGS

FIXTURE = Path(__file__).parents[1] / "fixtures" / "trec_eval.json"

#: Without measures of text; RBP and its residual have differences of their own.
_LEFT_OUT = ("runid", "relstring", "rbp", "rbp_resid")
#: One cutoff below the length of rankings and one above it are enough.
_CUTOFFS = ("15", "20", "30", "100", "200", "500")


def main(program: str) -> None:
    """Write the values of each topic, and the means and sums under "all"."""
    log = LOGS["grades"]()
    with TemporaryDirectory() as name:
        judgments, run = Path(name, "qrels"), Path(name, "run")
        labeled = log.select("query", "doc", "label").drop_nulls()
        judgments.write_text(
            "".join(f"{q} 0 {d} {label}\n" for q, d, label in labeled.iter_rows()), "utf-8"
        )
        scored = log.select("query", "doc", "score").drop_nulls()
        run.write_text(
            "".join(f"{q} Q0 {d} 0 {score!r} run\n" for q, d, score in scored.iter_rows()), "utf-8"
        )
        printed = subprocess.run(
            [program, "-q", "-c", "-m", "all_trec", "-m", "yaap", judgments, run],
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout
    values: dict[str, dict[str, float]] = {}
    for line in printed.splitlines():
        name, topic, value = line.split()
        if name not in _LEFT_OUT and name.rpartition("_")[2] not in _CUTOFFS:
            values.setdefault(name, {})[topic] = float(value)
    lines = (f" {json.dumps(name)}: {json.dumps(of)}" for name, of in values.items())
    FIXTURE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
