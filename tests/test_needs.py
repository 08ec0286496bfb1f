"""A test that lacks a program or a package skips, and says what to install."""

from __future__ import annotations

import needs
import pytest


def test_a_program_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(pytest.skip.Exception, match="^needs chromium: apt-get install chromium$"):
        needs.program("chromium", "google-chrome", package="chromium")


def test_a_package_that_is_missing() -> None:
    said = "^needs no_such_peer: pip install --group conformance$"
    with pytest.raises(pytest.skip.Exception, match=said):
        needs.package("no_such_peer.metrics", "conformance")
    said = r"^needs no_such_chart: pip install 'polars_rank\[plot\]'$"
    with pytest.raises(pytest.skip.Exception, match=said):
        needs.package("no_such_chart", "plot")


def test_spark_needs_a_package_and_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(needs, "find_spec", lambda name: None)
    assert needs.without_spark() == "needs pyspark: pip install 'polars_rank[spark]'"
    monkeypatch.setattr(needs, "find_spec", lambda name: name)
    assert needs.without_spark() == "needs Java: apt-get install default-jre-headless"
    monkeypatch.setenv("JAVA_HOME", "/opt/java")
    assert needs.without_spark() == ""
