"""Check that the files of a release have the files that they should, and no others.

The source distribution has all files of the repository, tests included. The wheel has the package.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path


def main(folder: Path) -> None:
    """Compare the files in a folder with those of the repository."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], text=True)
    files = {*listed.split("\0")} - {""}
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    with tarfile.open(source) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    compare(source, names - {"PKG-INFO"}, files)
    with zipfile.ZipFile(wheel) as archive:
        names = {each for each in archive.namelist() if ".dist-info/" not in each}
        (metadata,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        text = archive.read(metadata).decode()
    package = {each for each in files if each.startswith("polars_rank/")}
    compare(wheel, names, package)
    if found := re.findall(r"\]\((?!https:).*?\)", text):
        sys.exit(f"{wheel.name}: its description links to files, which an index has not: {found}")


def compare(path: Path, names: set[str], expected: set[str]) -> None:
    """End with an error if files are missing, or not expected."""
    for problem, found in {"lacks": expected - names, "has besides": names - expected}.items():
        if found:
            sys.exit(f"{path.name} {problem}: {', '.join(sorted(found))}")
    print(f"{path.name}: {len(names)} files")


main(Path(sys.argv[1]))
