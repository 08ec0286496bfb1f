"""Pages of the guide that need packages: on rankers, Spark, other tools and tables in LaTeX."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from test_guide import PACKAGES, SPARK, check_page


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize(
    "name",
    [
        # Models and trackers issue many warnings of their own.
        pytest.param(name, marks=pytest.mark.filterwarnings("ignore") if "inside" in name else ())
        for name in PACKAGES
    ],
)
def test_code_runs_and_prints_what_the_page_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in PACKAGES[name]:
        needs.package(package, "conformance")
    if name == "tasks/spark":
        if missing := needs.without_spark():
            pytest.skip(missing)
        needs.new_jvm()
    monkeypatch.chdir(tmp_path)
    for setting in SPARK.items():
        monkeypatch.setenv(*setting)
    check_page(name)
