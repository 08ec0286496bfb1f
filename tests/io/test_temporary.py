"""Temporary folders: those of killed processes are removed, those of other processes remain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import needs
import pytest
from polars_rank.errors import SourceError
from polars_rank.io.outputs import temporary_folder

CODE = """
from polars_rank.io.outputs import temporary_folder
with temporary_folder() as folder:
    (folder / "a").write_text("text")
    print(folder, flush=True)
    input()
"""


def start(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process with a temporary folder in `place`, and return both."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE], env={**os.environ, "TMPDIR": str(place)},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
    )  # fmt: skip
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.skipif(sys.platform != "linux", reason="folders are recognized on Linux")
def test_folders_of_killed_processes_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, abandoned = start(tmp_path)
    running, used = start(tmp_path)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = {*tmp_path.iterdir()}
    others = [tmp_path / "polars_rank-notes", tmp_path / "mine"]
    if os.getuid() == 0:  # of another user, who may have created it to have files removed
        others.append(abandoned.with_name(abandoned.name[:-4] + "0000"))
    for other in others:
        other.mkdir()
        (other / "a").write_text("text", "utf-8")
    if os.getuid() == 0:
        os.chown(others[-1], 12345, 12345)
    linked = abandoned.with_name(abandoned.name[:-4] + "1111")
    linked.symlink_to(others[1])
    assert abandoned in before
    with temporary_folder() as folder:
        left = {*tmp_path.iterdir()} - {folder, linked, *others}
    assert left == {used} < before
    assert all((path / "a").read_text("utf-8") == "text" for path in (used, linked, *others))
    running.communicate("\n")
    assert {*tmp_path.iterdir()} == {linked, *others}


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
