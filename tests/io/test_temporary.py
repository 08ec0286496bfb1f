"""Temporary folders: they vanish, and those of other processes remain."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import needs
import pytest
from polars_rank.datasets import search_log
from polars_rank.errors import SourceError

# Folders that a process leaves when it ends.
from polars_rank.io.outputs import temporary_folder


def output(code: str, folder: Path, *arguments: str) -> str:
    """Return the output of code in a process whose temporary files are in the folder."""
    command = [sys.executable, "-W", "ignore", "-c", code, *arguments]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        command, env=environment, capture_output=True, encoding="utf-8", check=False, timeout=120
    ).stdout


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
    assert output(code, tmp_path) == "True\n"
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_when_the_process_ends(tmp_path: Path) -> None:
    log = search_log(2400, 10, runs=1).collect().select("query", "doc", "score", "label")
    log.sample(fraction=1, shuffle=True, seed=1).write_parquet(tmp_path / "log.parquet")
    code = """
import os, sys
import polars as pl
import polars_rank as pr
pl.Config.set_streaming_chunk_size(500)
batches = pr.scan_log(sys.argv[1], memory="1MB").collect_batches(chunk_size=9)
next(iter(batches))
print(len(os.listdir(os.environ["TMPDIR"])), flush=True)
raise KeyboardInterrupt
"""
    folder = tmp_path / "temporary"
    folder.mkdir()
    assert output(code, folder, str(tmp_path / "log.parquet")) == "1\n"
    assert list(folder.iterdir()) == []


def test_no_place_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    message = "cannot write temporary files in '.*none': No such file or directory; .*TMPDIR"
    with pytest.raises(SourceError, match=message), temporary_folder():
        pass
