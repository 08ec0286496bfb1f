import pytest


@pytest.fixture
def _no_charts(monkeypatch):
    monkeypatch.setattr("polars_rank.reporting.charts._charts", lambda *_: iter(()))


@pytest.fixture
def _tables_only(_no_charts, monkeypatch):
    monkeypatch.setattr("polars_rank.reporting.evidence._robustness", lambda *_: None)
