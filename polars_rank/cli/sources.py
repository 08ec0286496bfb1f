"""Input files of commands: patterns, and standard input."""

from __future__ import annotations

import os
import shutil
import sys
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING

from polars_rank.errors import SourceError
from polars_rank.io import files as input_files
from polars_rank.io import outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: The file name that means standard input.
STANDARD_INPUT = "-"

#: Prefixes of files without data that Spark and other tools write next to the files of a log.
_METADATA_PREFIXES = (
    *("_SUCCESS", "_metadata", "_common_metadata"), *("_committed_", "_started_", "_delta_log"),
)  # fmt: skip


def expand(paths: Sequence[str]) -> list[str]:
    """Expand patterns to files and directories; URLs are unchanged.

    Files in one of the directories are excluded. Files without data, such as _SUCCESS, are
    excluded as well, because patterns match them, also those that the shell has expanded.
    """
    files: list[str] = []
    for path in paths:
        local = os.path.expanduser(path)  # noqa: PTH111  (unlike Path's, it accepts unknown users)
        exists = "://" in path or Path(local).exists()
        matches = [] if exists else sorted(glob(local, recursive=True))  # noqa: PTH207
        files += matches or [path]
    files = [path for path in files if not Path(path).name.startswith(_METADATA_PREFIXES)] or files
    folders = {Path(path) for path in files if "://" not in path and Path(path).is_dir()}
    return [path for path in files if folders.isdisjoint(Path(path).parents)]


def readable(path: str) -> str:
    """Return a file that can be read several times; standard input is copied."""
    if path != STANDARD_INPUT:
        return input_files.readable(path)
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError("standard input (-) is closed or a terminal; pipe a file into it")
    folder = outputs.new_folder()
    copy = folder / "standard-input"
    with outputs.written_to(folder), copy.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    if not copy.stat().st_size:
        raise SourceError("standard input is empty; check the program that writes to the pipe")
    input_files.COPIES[str(copy)] = "standard input"
    return str(copy)


def refuse_to_replace(output: Path | None, paths: Iterable[str]) -> None:
    """Raise `SourceError` if the output is an input file, or is in an input directory."""
    if output is None or not output.is_file():
        return
    paths = [path for path in paths if "://" not in path and path != STANDARD_INPUT]
    files = [*map(Path, expand(paths))]
    files += [file for path in files for file in path.rglob("*")]
    outputs.refuse_to_replace(output, files)
