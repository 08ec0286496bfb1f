"""Measure when one column per position is faster than one row per document.

    python -m tests.bench.columns [--rows 57_000 1_000_000 10_000_000] [--output FILE]

Sorted logs of `scan_log` are evaluated both ways in turn, in one process. A time is the lowest CPU
time of several runs, because CPU time depends less on other load. It includes the construction of
the plan. The costs in `columns_are_faster` are fitted to the table in columns.md.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import polars as pl

import polars_rank as pr

# The rule that is fitted.
from polars_rank.evaluation.by_columns import columns_are_faster
from polars_rank.frames.layouts import Lengths
from tests.bench.contenders import METRICS, own_names
from tests.bench.logs import Log, write
from tests.bench.pages import arguments, publish
from tests.parts import filled

LENGTHS = [5, 8, 10, 13, 16, 20, 24, 28, 33, 40, 48, 64]
FORMS = {"columns": True, "rows": False}
METRICS_OF = {"20 metrics": own_names(METRICS), "ndcg@10": ["ndcg@10"]}


def seconds(log: Path, metrics: list[str], *, by_columns: bool) -> float:
    """Return the CPU seconds of an evaluation."""
    rule = "columns_are_faster"
    with (
        patch(f"polars_rank.evaluation.plan.{rule}", lambda _: by_columns),
        patch(f"polars_rank.io.parquet.{rule}", lambda _: by_columns),
    ):
        scan = pr.scan_log(log)
        started = time.process_time()
        pr.evaluate(scan, metrics).collect(engine="streaming")
        return time.process_time() - started


class Times(NamedTuple):
    """The lowest CPU seconds for a log, by metrics and form."""

    rows: int
    length: int
    seconds: dict[tuple[str, str], float]

    @classmethod
    def of(cls, rows: int, length: int, data: Path) -> Times:
        """Measure both forms in turn."""
        log = Log(str(data), rows // length * length, length, "sorted", "int", ties=0.1)
        write(log)
        runs = 9 if rows < 500_000 else 5 if rows < 5_000_000 else 3
        times = {
            (name, form): seconds(log.path, metrics, by_columns=by_columns)
            for name, metrics in METRICS_OF.items()
            for form, by_columns in FORMS.items()
        }
        for _ in range(runs - 1):
            for name, form in times:
                now = seconds(log.path, METRICS_OF[name], by_columns=FORMS[form])
                times[name, form] = min(times[name, form], now)
        log.path.unlink()
        return cls(rows, length, times)

    @property
    def line(self) -> str:
        """The line of the table, with the form that the rule chooses."""
        rankings = self.rows // self.length
        rule = columns_are_faster(Lengths([], self.rows, rankings, self.length))
        cells = [f"{time:.3f}" for time in self.seconds.values()]
        chosen = "columns" if rule else "rows"
        return f"| {self.rows:,} | {self.length} | {' | '.join(cells)} | {chosen} |"


def costs(table: Sequence[Times], form: str) -> list[float]:
    """Return the costs of a form in microseconds, whose relative errors are least.

    They are fitted to the times for each set of metrics, and averaged over the sets. For columns,
    they are the costs of a plan, of a position, and of a ranking by its length and by the square of
    its length; for rows, the costs of a plan, of a ranking, and of a row.
    """
    rows, length = np.array([(each.rows, each.length) for each in table], float).T
    rankings = rows / length
    terms = [np.ones_like(rows), rankings, rows]
    if form == "columns":
        terms = [np.ones_like(rows), length, rankings * length, rankings * length**2]
    fits = []
    for name in METRICS_OF:
        micros = 1e6 * np.array([each.seconds[name, form] for each in table])
        parts = np.stack([term / micros for term in terms], axis=1)
        fits.append(np.linalg.lstsq(parts, np.ones_like(micros), rcond=None)[0])
    return [*np.mean(fits, axis=0)]


def page(table: Sequence[Times]) -> str:
    """Return the page with the table and the fitted costs."""
    titles = [f"{name}, {form}" for name, form in table[0].seconds]
    plan, position, by_length, by_square = costs(table, "columns")
    plan_of_rows, ranking, row = costs(table, "rows")
    parts = {
        "times": f"With Polars {pl.__version__} on {os.cpu_count()} cores:\n\n"
        f"| rows | documents | {' | '.join(titles)} | chosen |\n"
        f"|{' ---: |' * (len(titles) + 2)} --- |\n" + "".join(f"{each.line}\n" for each in table),
        "costs": f"- columns: {plan:,.0f} + {position:,.0f} × length + rankings × "
        f"({by_length:.3f} × length + {by_square:.4f} × length²)\n"
        f"- rows: {plan_of_rows:,.0f} + rankings × {ranking:.2f} + rows × {row:.3f}\n",
    }
    return filled(Path(__file__).with_suffix(".md").read_text("utf-8"), parts)


def main() -> None:
    options = arguments(__doc__, rows=[57_000, 1_000_000, 10_000_000], lengths=LENGTHS)
    folder, table = Path(tempfile.gettempdir(), "pr_columns"), []
    for rows in options.rows:
        for length in options.lengths:
            table.append(Times.of(rows, length, folder))
            print(table[-1].line, file=sys.stderr, flush=True)
    publish(page(table), options.output)


if __name__ == "__main__":
    main()
