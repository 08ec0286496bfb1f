"""Tables and sentences: of one log, and of the generated parts of the pages."""

from __future__ import annotations

import os
import platform
import textwrap
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from .contenders import CONTENDERS
from .logs import Log, count
from tests.parts import filled

BASELINE = "polars_rank"
#: Other ways to read a log with this package, which README.md does not show.
VARIANTS = ("scan_parquet", "dataframe")
#: A contender that is no tool, and the logs in README.md, where it is not shown.
LIMIT, README_LENGTHS = "numba", (10, 100)
#: What differs by less is equal: means of float64.
AGREEMENT = 1e-9


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


class Case(NamedTuple):
    """What was measured on a log."""

    log: Log
    runs: list[Run]
    group: str = ""  # of contenders

    @property
    def contenders(self) -> list[str]:
        """The contenders without a problem."""
        return [*dict.fromkeys(run.contender for run in self.runs if not run.problem)]

    def of(self, contender: str) -> list[Run]:
        return [run for run in self.runs if run.contender == contender]

    def median(self, number: str, contender: str = BASELINE) -> float:
        return float(median(getattr(run, number) for run in self.of(contender)))

    def ratio(self, number: str, contender: str) -> float:
        return self.median(number, contender) / self.median(number)

    def difference(self, contender: str) -> float:
        """Return the largest difference of a mean."""
        means, expected = (self.of(name)[0].means for name in (contender, BASELINE))
        return max(abs(mean - expected[name]) for name, mean in means.items())


class Number(NamedTuple):
    """A number of a run that the pages show; lower is better."""

    title: str
    unit: str
    better: str


NUMBERS = {
    "seconds": Number("seconds", "s", "faster"),
    "cpu": Number("seconds of all cores, with imports", "s", "less work"),
    "peak": Number("peak memory in MB", "MB", "less memory"),
}


class Results(NamedTuple):
    """What the pages show."""

    date: str
    machine: str
    polars: str  # version
    metrics: list[str]
    cases: list[Case]
    calls: str = ""
    memory: str = ""


def one_log(cases: list[Case]) -> str:
    """Return the tables of logs of one form."""
    log = cases[0].log
    head = f"{log.ties:.0%} of scores rounded, memory: {log.memory or 'default'}. {machine()}."
    tables = [
        f"{name} (ratio to {BASELINE})\n\n{wide_table(cases, key)}"
        for key, (name, *_) in NUMBERS.items()
    ]
    return "\n\n".join([head, *tables, wrapped(agreement(cases)), "\n".join(about(cases))]) + "\n"


def about(cases: list[Case]) -> Iterator[str]:
    """Yield what each contender does, with its version or problem."""
    for name, last in {run.contender: run for case in cases for run in case.runs}.items():
        note = " ".join((CONTENDERS[name].run.__doc__ or "").split())
        text = f"- {title(name)} ({CONTENDERS[name].package} {last.version}): {note}"
        if last.problem:
            text = f"- {title(name)}: {last.problem}"
        yield textwrap.fill(text, 100, subsequent_indent="  ", break_on_hyphens=False)


def title(name: str) -> str:
    return CONTENDERS[name].title.partition(", ")[0]


def machine() -> str:
    model = platform.processor() or platform.machine()
    if (about := Path("/proc/cpuinfo")).exists():
        models = [x for x in about.read_text("utf-8").splitlines() if x.startswith("model name")]
        model = models[0].partition(": ")[2] if models else model
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    return f"{os.cpu_count()} × {model}, {memory:.0f} GiB, Python {platform.python_version()}"


# Pages


def write(saved: dict[str, Any], project: Path) -> None:
    """Write the generated parts of README.md and of the guide."""
    cases = [
        Case(Log(**log), [Run(**run) for run in runs], group) for log, runs, group in saved["cases"]
    ]
    results = Results(**saved | {"cases": cases})
    parts = {"speed": "\n\n".join(performance(results))}
    for name in ("memory", "calls"):
        if part := getattr(results, name):
            parts[name] = f"{where(results)}\n\n{part}"
    guide, page = project / "examples" / "guide" / "performance.md", project / "README.md"
    guide.write_text(filled(guide.read_text("utf-8"), parts), "utf-8")
    of_readme = {"speed": "\n\n".join(readme(results))}
    page.write_text(filled(page.read_text("utf-8"), of_readme), "utf-8")


def readme(results: Results) -> Iterator[str]:
    """Yield the paragraphs of README.md."""
    yield wrapped(measured(results), "Rows are sorted by query.", where(results))
    for group, cases in by_group(results.cases).items():
        first = cases[0].log
        logs = [first._replace(list_length=length) for length in README_LENGTHS]
        yield f"{group}, {count(first.rows)} rows:"
        yield small_table([case for case in cases if case.log in logs], results.metrics)
    yield wrapped(*shuffled(results.cases))


def performance(results: Results) -> Iterator[str]:
    """Yield the paragraphs of the guide's page."""
    yield wrapped(
        measured(results),
        f"Logs have {count(Log().rows)} rows, sorted by query, and integer ids, unless the table "
        "says otherwise.",
        where(results),
    )
    for group, cases in by_group(results.cases).items():
        for number, (name, _, _) in NUMBERS.items():
            yield f"{group}: {name} (in parentheses: ratio to {BASELINE})"
            yield wide_table(cases, number)
    yield losses(results.cases)
    yield wrapped(agreement(results.cases))
    yield "\n".join(about(results.cases))


def wrapped(*sentences: str) -> str:
    return textwrap.fill(" ".join(sentences), 100, break_on_hyphens=False)


def measured(results: Results) -> str:
    runs = max(len(case.of(BASELINE)) for case in results.cases)
    return (
        f"From Parquet to the means of {len(results.metrics)} metrics: NDCG, precision and recall "
        f"at six cutoffs, AP, RR. {BASELINE} runs all its checks. Medians of up to {runs} runs in "
        "turn, each in a new process. Times include reading and conversion, but not imports and the "
        "compilation by Numba. Memory is the peak of the process."
    )


def where(results: Results) -> str:
    return f"Measured on {results.machine}, Polars {results.polars}, on {results.date}."


def by_group(cases: list[Case]) -> dict[str, list[Case]]:
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.group, []).append(case)
    return groups


def small_table(cases: list[Case], metrics: list[str]) -> str:
    """Return a table with a line for each contender that is in all cases."""
    lengths = " | ".join(f"{case.log.list_length:,} documents | ratio | memory" for case in cases)
    lines = [f"| | {lengths} |", f"|---|{'--:|' * 3 * len(cases)}"]
    for name in cases[0].contenders:
        if name in (LIMIT, *VARIANTS) or not all(name in case.contenders for case in cases):
            continue
        cells = [full_title(name, cases[0], metrics)]
        for case in cases:
            seconds, peak = (
                f"{figure(case, x, name)} {NUMBERS[x].unit}" for x in ("seconds", "peak")
            )
            cells += [seconds, ratio(case.ratio("seconds", name)), peak]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def full_title(name: str, case: Case, metrics: list[str]) -> str:
    """Return a contender with its version, and how it computes."""
    tool, _, how = CONTENDERS[name].title.partition(", ")
    package, run = CONTENDERS[name].package, case.of(name)[0]
    version = ".".join(run.version.split(".")[:2])
    same = tool.lower() == package.lower()
    text = f"{tool} {version}" if same else f"{tool} ({package} {version})"
    if len(run.means) < len(metrics):
        how = f"{len(run.means)} of {len(metrics)} metrics"
    return f"{text}, {how}" if how else text


def wide_table(cases: list[Case], number: str) -> str:
    """Return a table with a line for each case."""
    names = [*dict.fromkeys(name for case in cases for name in case.contenders)]
    lines = [f"| | {' | '.join(map(title, names))} |", f"|---|{'--:|' * len(names)}"]
    for case in cases:
        cells = [case.log.title]
        for name in names:
            cell = figure(case, number, name) if name in case.contenders else ""
            if cell and name != BASELINE and BASELINE in case.contenders:
                cell += f" ({ratio(case.ratio(number, name))})"
            cells.append(cell)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def figure(case: Case, number: str, name: str) -> str:
    value = case.median(number, name)
    return f"{value:.2f}" if value < 9.995 else f"{value:,.0f}"


def ratio(value: float) -> str:
    if value == 1:
        return "1"
    return f"{value:.2f}" if value < 1.095 else f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def shuffled(cases: list[Case]) -> Iterator[str]:
    """Yield a sentence about the fastest other contender for each shuffled log."""
    for case in cases:
        others = [name for name in case.contenders if name not in (BASELINE, LIMIT, *VARIANTS)]
        if case.log.layout == "shuffled" and others:
            fastest = min(others, key=lambda name: case.ratio("seconds", name))
            yield (
                f"If rows are shuffled, the fastest other tool at {case.log.list_length:,} "
                f"documents is {title(fastest)}, which takes "
                f"{ratio(case.ratio('seconds', fastest))} times as long as {BASELINE}."
            )


def losses(cases: list[Case]) -> str:
    """Return a list of the contenders that are faster or need less memory."""
    lines = [f"Cases that {BASELINE} loses, by tool, with the ratio to {BASELINE}:", ""]
    for number, (_, _, better) in NUMBERS.items():
        found: dict[str, list[str]] = {}
        for case in cases:
            for name in case.contenders:
                if name not in VARIANTS and (value := case.ratio(number, name)) < 1:
                    found.setdefault(name, []).append(f"{ratio(value)} at {case.log.title}")
        texts = [f"{title(name)} ({'; '.join(found[name])})" for name in found]
        line = f"- {better}: {', '.join(texts) or 'none'}."
        lines.append(textwrap.fill(line, 100, subsequent_indent="  "))
    return "\n".join(lines)


def agreement(cases: list[Case]) -> str:
    """Return a sentence about means that are not equal."""
    worst: dict[str, float] = {}
    for case in cases:
        for name in case.contenders if BASELINE in case.contenders else ():
            worst[name] = max(worst.get(name, 0), case.difference(name))
    unequal = [f"{title(name)} (by up to {x:.1g})" for name, x in worst.items() if x > AGREEMENT]
    text = f"The means of all contenders are equal within 1e-9"
    return f"{text}, except for those of {', '.join(unequal)}." if unequal else f"{text}."
