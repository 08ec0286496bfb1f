"""Pictures of the README, which a browser takes."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import needs
import polars as pl
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_pictures_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.program("chromium", "chromium-browser", "google-chrome", package="chromium")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["pictures.py"])
    monkeypatch.syspath_prepend(EXAMPLES)
    with pl.Config():
        runpy.run_path(str(EXAMPLES / "pictures.py"), run_name="__main__")


def test_the_picture_shows_the_report_of_the_demonstration(tmp_path: Path) -> None:
    pictures = runpy.run_path(str(EXAMPLES / "pictures.py"))
    page = pictures["report"](tmp_path / "report.html")
    shown = pictures["words_in"](EXAMPLES / "report.png")
    assert shown == pictures["words"](page), "run `python examples/pictures.py examples`"
