"""Write the table, the chart and the JSON file of all runs."""

from __future__ import annotations

import json
import os
import platform
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .contenders import CONTENDERS
from .logs import Log

BASELINE = "polars_rank"
AGREEMENT = 1e-9
HEADER = """
| contender | metrics | seconds | × | in the peer | × | start | CPU | peak MB | × | means |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"""


class Run(NamedTuple):
    """One process: times in seconds, peak memory in megabytes."""

    contender: str
    rows: int
    wall: float
    cpu: float
    peak: float
    seconds: float = 0
    inside: float = 0
    means: dict[str, float] = {}
    version: str = ""
    problem: str = ""


def write(runs: list[Run], log: Log, metrics: list[str], folder: Path) -> str:
    """Write the three files; return the table."""
    folder.mkdir(parents=True, exist_ok=True)
    text = table(runs, log, metrics)
    (folder / "benchmark.md").write_text(text, encoding="utf-8")
    (folder / "benchmark.json").write_text(json.dumps([run._asdict() for run in runs], indent=1))
    return f"{text}\n{picture(runs, folder / 'benchmark.png')}"


def grouped(runs: list[Run]) -> dict[int, dict[str, list[Run]]]:
    """Rows → contender → its runs, without those that failed."""
    groups: dict[int, dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        if not run.problem:
            groups[run.rows][run.contender].append(run)
    return groups


def middle(name: str, group: list[Run]) -> float:
    return float(median(getattr(run, name) for run in group))


def table(runs: list[Run], log: Log, metrics: list[str]) -> str:
    lines = [
        f"Rankings of {log.list_length:,} documents, {log.layout}, {log.ids} ids, "
        f"{log.ties:.0%} of the scores rounded, memory budget: {log.memory or 'default'}. "
        f"Metrics: {', '.join(metrics)}.",
        f"{machine()}. Medians (fastest-slowest); × is the ratio to {BASELINE}.",
    ]
    for rows, groups in grouped(runs).items():
        baseline = groups.get(BASELINE, [])
        lines += [f"\n**{rows:,} rows**", HEADER]
        lines += [line(group, baseline) for group in groups.values()]
    lines.append("")
    for name, last in {run.contender: run for run in runs}.items():
        note = " ".join((CONTENDERS[name].run.__doc__ or "").split())
        lines.append(f"- {name} ({last.problem or last.version}): {note}")
    return "\n".join(lines) + "\n"


def line(group: list[Run], baseline: list[Run]) -> str:
    def ratio(name: str) -> str:
        return f"{middle(name, group) / middle(name, baseline):.2f}" if baseline else ""

    seconds = [run.seconds for run in group]
    cells = [
        group[0].contender,
        len(group[0].means),
        f"{median(seconds):.3f} ({min(seconds):.3f}-{max(seconds):.3f})",
        ratio("seconds"),
        f"{middle('inside', group):.3f}",
        ratio("inside"),
        f"{median(run.wall - run.seconds for run in group):.1f}",
        f"{middle('cpu', group):.1f}",
        f"{middle('peak', group):,.0f}",
        ratio("peak"),
        agreement(group[0].means, baseline[0].means) if baseline else "",
    ]
    return f"| {' | '.join(map(str, cells))} |"


def agreement(means: dict[str, float], expected: dict[str, float]) -> str:
    difference, name = max((abs(mean - expected[name]), name) for name, mean in means.items())
    return "equal" if difference <= AGREEMENT else f"differ by {difference:.1g} ({name})"


def machine() -> str:
    model = platform.processor() or platform.machine()
    if (about := Path("/proc/cpuinfo")).exists():
        models = [x for x in about.read_text().splitlines() if x.startswith("model name")]
        model = models[0].partition(": ")[2] if models else model
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{os.cpu_count()} × {model}, {memory:.0f} GiB, Python {platform.python_version()}"


def picture(runs: list[Run], path: Path) -> str:
    """Draw time and peak memory by rows, or points if there is only one size."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "No chart: matplotlib is not installed: pip install 'polars_rank[bench]'"
    groups = grouped(runs)
    figure = Figure(figsize=(11, 5), layout="constrained")
    names = list(dict.fromkeys(name for by_name in groups.values() for name in by_name))
    titles = {"seconds": "Seconds, Parquet to means", "peak": "Peak memory, MB"}
    axes: Any = figure.subplots(1, 2)
    for axis, (value, title) in zip(axes, titles.items()):
        for name in names:
            points = {r: middle(value, by[name]) for r, by in groups.items() if name in by}
            if len(groups) > 1:
                width = 3 if name == BASELINE else 1.5
                axis.loglog(*zip(*points.items()), marker="o", linewidth=width, label=name)
            else:
                color = "C0" if name == BASELINE else "C7"
                axis.plot(list(points.values()), [name], "o", markersize=9, color=color)
        axis.set_title(title)
        axis.set_xscale("log")
        if len(groups) > 1:
            axis.set_xlabel("rows")
        axis.grid(alpha=0.3)
    if len(groups) > 1:
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(path, dpi=120)
    return f"Table, chart and runs: {path.parent}"
