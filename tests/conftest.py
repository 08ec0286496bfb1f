"""Fixtures and settings of all tests.

If POLARS_RANK_SKIPS names a file of patterns, a test that skips for another reason fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from _pytest.doctest import DoctestModule

# Idle threads of OpenBLAS would take time from the processes of tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def keep_to_one_core(worker: int) -> None:
    """Run an xdist worker on one core, with two Polars threads.

    Polars wakes a thread for every few rows of a test. On one core this costs less: the tests take
    an eighth less time. With 16 threads, they take a fifth more.
    """
    if not hasattr(os, "sched_setaffinity"):  # macOS and Windows
        return
    cores = sorted(os.sched_getaffinity(0))
    os.environ.setdefault("POLARS_MAX_THREADS", "2")
    os.sched_setaffinity(0, {cores[worker % len(cores)]})


#: The name of this xdist worker, such as "gw0"; empty without xdist.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
if WORKER:
    keep_to_one_core(int(WORKER.removeprefix("gw")))

# An example has many rankings, so a few examples suffice.
settings.register_profile(
    "quick",
    max_examples=3,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
# With POLARS_RANK_DEEP=1: hundreds of new examples each time, reduced if one fails.
settings.register_profile("deep", max_examples=300, deadline=None, print_blob=True)
settings.load_profile("deep" if os.environ.get("POLARS_RANK_DEEP") else "quick")

#: Code for type checkers only.
collect_ignore = ["typing"]


#: Warnings about random logs of hypothesis.
RANDOM_LOGS = (
    "ignore:no document has a label",
    "ignore:the runs were evaluated on different numbers of queries",
)


#: Tests that load Altair, Vega's scripts, scipy or scikit-learn, which takes seconds. They come
#: first, in this order, so that one process of two loads them.
HEAVY = (
    *("test_documents.py", "test_guide.py", "test_readme.py", "reporting", "plot", "cli"),
    *("test_functions.py", "metrics/test_documentation.py", "frames/test_tables.py"),
    *("io/test_arrays.py", "conformance", "metrics/test_expectations.py", "catalog", "stats"),
)

#: What is not marked `core`: tests of what is made from numbers (charts, pages, commands), of what
#: stands beside evaluation and statistics, of all public functions at once, and of faults.
NOT_CORE = (
    *("catalog", "cli", "conformance", "diagnostics", "fusion", "judges", "plot", "reporting"),
    *("test_click_labels.py", "test_click_rates.py", "test_benchmarks.py", "test_documents.py"),
    *("test_faults.py", "test_functions.py", "test_guide.py", "test_hostile_names.py"),
    *("test_mistakes.py", "test_progress.py", "test_readme.py", "test_without_docstrings.py"),
    *("test_explanation.py", "test_training.py", "frames/test_lengths.py", "frames/test_tables.py"),
    *("io/test_dicts.py",),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    order = [here / name for name in HEAVY]
    elsewhere = {here / name for name in NOT_CORE}

    @cache
    def place(file: Path) -> int:
        if here not in file.parents:  # examples in docstrings
            return 0
        found = (at for at, path in enumerate(order, 1) if path in (file, *file.parents))
        return next(found, len(order) + 1)

    items.sort(key=lambda item: place(item.path))
    for item in items:
        if here in item.path.parents and not {item.path, *item.path.parents} & elsewhere:
            item.add_marker(pytest.mark.core)
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.filterwarnings(*RANDOM_LOGS))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Do not import tests again to find examples in docstrings, which they do not have."""
    collectors = yield
    return [each for each in collectors if not isinstance(each, DoctestModule)]


@pytest.hookimpl(hookwrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> object:
    yield
    allowed = os.environ.get("POLARS_RANK_SKIPS")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or WORKER or not allowed:
        return
    skipped = reporter.stats.get("skipped", [])
    lines = Path(allowed).read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    for report in skipped:
        reason = str(report.longrepr)
        if not any(re.search(pattern, reason) for pattern in patterns):
            reporter.write_line(f"A skip that is not listed: {report.nodeid}: {reason}", red=True)
            session.exitstatus = 1


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give each process the tests of whole files, so that fixtures of a file are created once."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None
