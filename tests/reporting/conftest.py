import pytest


@pytest.fixture
def _no_charts(monkeypatch):
    monkeypatch.setattr("polars_rank.reporting.charts._charts", lambda *_: iter(()))
