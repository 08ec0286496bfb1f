"""Input tables in any format, which is detected by the file name or the first bytes."""

from __future__ import annotations

import shutil
import sys
from contextlib import nullcontext
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl
import polars.selectors as cs

from polars_rank.columns import IDS, RUNS
from polars_rank.errors import ArgumentError
from polars_rank.io.files import find_files, scan_files
from polars_rank.io.lines import reading, text_files
from polars_rank.io.parquet import scan_log
from polars_rank.trec import scan_run

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from polars_rank._params import Names
    from polars_rank.io.parquet import Layout

Kind: TypeAlias = Literal["parquet", "csv", "tsv", "ndjson", "ipc", "trec"]

#: The file name that means standard input.
STANDARD_INPUT = "-"

_ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}
_PACKED = {".gz", ".zst"}

_STREAM = b"\xff\xff\xff\xff"
_MAGIC: dict[bytes, Kind] = {b"PAR1": "parquet", b"ARROW1": "ipc", _STREAM: "ipc"}

#: Prefixes of files that Spark and others write next to the files of a log.
_NOTES = ("_SUCCESS", "_metadata", "_common_metadata", "_committed_", "_started_", "_delta_log")

#: Number of bytes from which the format is detected.
_GLIMPSE = 1 << 16


def _csv(files: list[str], ids: Collection[str], separator: str = ",") -> pl.LazyFrame:
    """Scan CSV files: ids are text, other types are inferred from all rows."""
    options: dict[str, Any] = {"separator": separator, "glob": False}
    names = pl.scan_csv(files, infer_schema=False, **options).collect_schema().names()
    texts = {name: pl.String for name in names if name in ids or name.lower() in RUNS | IDS}
    log = pl.scan_csv(files, infer_schema_length=None, schema_overrides=texts, **options)
    # Polars infers text for columns without values, and for numbers with "nan".
    doubtful = [
        name
        for name, dtype in log.collect_schema().items()
        if dtype == pl.String and name not in texts
    ]
    if not doubtful:
        return log
    number = cs.by_name(doubtful).cast(pl.Float64, strict=False)
    counts = log.select(
        cs.by_name(doubtful).count(),
        number.count().name.prefix(_NUMBERS),
        (~number.is_finite()).any().name.prefix(_ODD),
    ).collect(engine="streaming")
    known, numbers, odd = (
        {name: counts.get_column(prefix + name).item() for name in doubtful}
        for prefix in ("", _NUMBERS, _ODD)
    )
    return log.cast({
        name: pl.Float64
        for name in doubtful
        if not known[name] or (odd[name] and numbers[name] == known[name])
    })  # fmt: skip


def _tsv(files: list[str], ids: Collection[str]) -> pl.LazyFrame:
    return _csv(files, ids, "\t")


def _ndjson(files: list[str], _: Collection[str]) -> pl.LazyFrame:
    # Unlike other functions, it expands patterns in all names.
    names = [file if "://" in file else escape(file) for file in files]
    return pl.scan_ndjson(names, infer_schema_length=None)


def _ipc(files: list[str], _: Collection[str]) -> pl.LazyFrame:
    if all("://" not in file and _begins(file, _STREAM) for file in files):
        return pl.concat(pl.read_ipc_stream(file).lazy() for file in files)
    return pl.scan_ipc(files, glob=False)


def _trec(files: list[str], _: Collection[str]) -> pl.LazyFrame:
    return scan_run(files)


_READERS: dict[Kind, Callable[[list[str], Collection[str]], pl.LazyFrame]] = {
    "csv": _csv,
    "tsv": _tsv,
    "ndjson": _ndjson,
    "ipc": _ipc,
    "trec": _trec,
}


def scan(
    paths: Sequence[str],
    kind: Kind,
    differing: Mapping[str, str],
    ids: Collection[str],
    *,
    query: Names,
    by: Names,
    layout: Layout | None,
    memory: str | None,
    progress: bool,
) -> pl.LazyFrame:
    """Scan a log in any format; options other than columns are for Parquet only."""
    if kind == "parquet":
        return scan_log(
            expanded(paths), query=query, by=by, layout=layout or "auto", memory=memory,
            progress=progress, **differing,
        )  # fmt: skip
    for option, value in (("--layout", layout), ("--memory", memory)):
        if value is not None:
            message = f"{option} needs Parquet files; found {', '.join(paths)}"
            raise ArgumentError(message)
    return scan_table(paths, kind, differing, ids)


def scan_table(
    paths: Sequence[str], kind: Kind | None, differing: Mapping[str, str], ids: Collection[str]
) -> pl.LazyFrame:
    """Scan a table in any format, with rows in any order; `ids` are read as text."""
    paths = expanded(paths)
    kind = kind or kind_of(paths)
    if kind == "parquet":
        return scan_files(find_files(paths), {**differing})
    for name in differing:
        message = f"--{name.replace('_', '-')} needs Parquet files; found {', '.join(paths)}"
        raise ArgumentError(message)
    return _READERS[kind](text_files(paths), ids)


def expanded(paths: Sequence[str]) -> list[str]:
    """Expand patterns to files and directories; URLs are returned as they are.

    Files in one of the directories are left out, and so are files such as _SUCCESS, which
    patterns also match, including those that the shell has expanded.
    """
    found: list[str] = []
    for path in paths:
        is_there = "://" in path or Path(path).expanduser().exists()
        matches = [] if is_there else sorted(glob(str(Path(path).expanduser()), recursive=True))  # noqa: PTH207
        found += matches or [path]
    found = [path for path in found if not Path(path).name.startswith(_NOTES)] or found
    folders = {Path(path) for path in found if "://" not in path and Path(path).is_dir()}
    return [path for path in found if folders.isdisjoint(Path(path).parents)]


def kind_of(paths: Sequence[str]) -> Kind:
    """Return the format of files; raise unless they all have the same."""
    kinds = {_kind(path) for path in expanded(paths)}
    if len(kinds) > 1:
        message = f"files of different formats: {', '.join(expanded(paths))}"
        raise ArgumentError(message)
    return kinds.pop() if kinds else "parquet"


def is_pipe(path: str | Path) -> bool:
    """Return whether a path is standard input or a pipe, such as <(...) in a shell."""
    return str(path) == STANDARD_INPUT or ("://" not in str(path) and Path(path).is_fifo())


def keep_pipe(path: str | Path, folder: Path) -> str:
    """Write the content of a pipe to a file in the folder, so that it can be read again."""
    standard = str(path) == STANDARD_INPUT
    if standard and sys.stdin.isatty():
        message = "standard input (-) is this terminal; pipe a file into the command"
        raise ArgumentError(message)
    file = folder / ("standard-input" if standard else Path(path).name)
    with (
        file.open("wb") as copy,
        nullcontext(sys.stdin.buffer) if standard else Path(path).open("rb") as pipe,
    ):
        shutil.copyfileobj(pipe, copy)
    if not file.stat().st_size:
        name = "standard input" if standard else str(path)
        message = f"{name} is empty; pipe a file into the command"
        raise ArgumentError(message)
    return str(file)


def refuse_to_replace(output: Path | None, inputs: Iterable[str | Path]) -> None:
    """Raise `ArgumentError` if the output is one of the input files."""
    if output is None or not output.exists():
        return
    for path in inputs:
        if any(output.samefile(file) for file in _files(str(path))):
            message = f"{output} is an input of this command; write to another file"
            raise ArgumentError(message)


def _files(path: str) -> Iterable[Any]:
    if "://" in path or is_pipe(path):
        return []
    if Path(path).is_dir():
        return (file for file in Path(path).rglob("*") if file.is_file())
    return text_files(path)


def _kind(path: str) -> Kind:
    """Return the format of a file, a directory, a pattern or a URL."""
    known = _ENDINGS.get(_ending(path))
    if known is not None:
        return known
    if "://" in path:
        return "parquet"
    if Path(path).is_dir():
        _check_parquet(Path(path))
        return "parquet"
    (first, *_) = text_files(path)
    return _ENDINGS.get(_ending(first)) or _detected(first)


def _check_parquet(folder: Path) -> None:
    """Raise `ArgumentError` for a directory of files in another format than Parquet."""
    endings = {file.suffix.lower() for file in folder.rglob("*") if _ending(str(file)) in _ENDINGS}
    others = sorted(endings - {".parquet"})
    if others and ".parquet" not in endings:
        message = (
            f"no .parquet files in the directory '{folder}'; name its files, e.g. "
            f"'{folder / '*'}{others[0]}'"
        )
        raise ArgumentError(message)


def _detected(file: str) -> Kind:
    with reading(file) as stream:
        start = stream.read(_GLIMPSE)
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    text = start.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    line = text.partition("\n")[0]
    fields = line.split()
    if line.startswith("{"):
        return "ndjson"
    if len(fields) >= len(_RUN) and _is_number(fields[3]) and _is_number(fields[4]):
        return "trec"
    # The last field of judgments is a number; the last field of a header is not.
    if len(fields) == len(_QRELS) and _is_number(fields[3]):
        advice = "looks like TREC judgments; use --qrels"
    elif line.startswith("["):
        advice = "is a JSON array; write it as NDJSON, with one row per line"
    elif "\t" in line or "," in line:
        return "tsv" if "\t" in line else "csv"
    else:
        advice = "has an unknown format; name it with --input-format"
    message = f"{file} {advice}"
    raise ArgumentError(message)


#: Prefixes of columns with counts.
_NUMBERS, _ODD = "numbers of ", "odd numbers of "

#: Fields of a line of a TREC run and of judgments.
_RUN = ("query", "iteration", "doc", "rank", "score", "run")
_QRELS = ("query", "subtopic", "doc", "label")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _begins(file: str, magic: bytes) -> bool:
    with Path(file).open("rb") as stream:
        return stream.read(len(magic)) == magic


def _ending(path: str) -> str:
    name = Path(path)
    return Path(name.stem if name.suffix.lower() in _PACKED else name).suffix.lower()
