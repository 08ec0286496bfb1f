"""Temporary folders: they vanish, and those of other processes remain."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import needs
import pytest
from polars_rank.errors import SourceError
from polars_rank.io.outputs import temporary_folder


def test_a_forked_process_leaves_the_folders_of_its_parent(tmp_path: Path) -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork")
    needs.polars_2_1("a fork of a process that imported it does not end")
    code = """
import os, sys
from polars_rank.io.outputs import temporary_folder
with temporary_folder() as folder:
    if os.fork() == 0:
        sys.exit()
    os.wait()
    print(folder.exists())
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    message = "cannot write temporary files in '.*none': No such file or directory; .*TMPDIR"
    with pytest.raises(SourceError, match=message), temporary_folder():
        pass
