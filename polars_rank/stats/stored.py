"""Moments in Parquet files, on disk or in an object store."""

from __future__ import annotations

import json
import os
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, public
from polars_rank._polars import hash_version, scan_of_files
from polars_rank.errors import SourceError, number_of, warn
from polars_rank.frames.batches import requested
from polars_rank.frames.stores import scan_store, store_error, with_timeout
from polars_rank.frames.tables import lazy
from polars_rank.io.copies import held, origin
from polars_rank.io.files import DAMAGE, damaged, find_files
from polars_rank.io.inputs import is_of_web_server
from polars_rank.io.lines import Paths
from polars_rank.io.outputs import new_file
from polars_rank.stats.moment_tables import KINDS, groups_of, merged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_METADATA, _FORMAT = "polars_rank.moments", 6


@public
def write_moments(
    table: Any,
    path: str | Path,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write moments to a Parquet file, with metadata that describes them.

    The file is written under a temporary name first, so that an interruption leaves the previous
    file, or none.

    Parameters
    ----------
    table
        The result of `moments` or `merge`.
    path
        Path of the file, or URL of an object.
    overwrite
        Whether to overwrite an existing file.
    storage_options
        Options of the object store, as in `pl.scan_parquet`.

    Raises
    ------
    SourceError
        The file cannot be written, already exists, or is an input.

    See Also
    --------
    scan_moments : reads and merges one or more files.
    """
    plan = lazy(table, "table")
    if not _is_url(path):
        with new_file(path, overwrite=overwrite, inputs=[plan]) as part:
            rows = plan.collect()
            rows.write_parquet(part, metadata=_metadata(rows))
        return
    if is_of_web_server(fspath(path)):
        raise SourceError(
            f"cannot write {fspath(path)!r}: web servers are only read; name a file or an object"
        )
    options = with_timeout(fspath(path), storage_options)
    if not overwrite and _exists(str(path), options):
        raise SourceError(f"{str(path)!r} already exists; use `overwrite` to replace it")
    rows = plan.collect()
    try:
        rows.write_parquet(path, metadata=_metadata(rows), storage_options=options)
    except DAMAGE as error:
        raise store_error(error, [str(path)], "written") or error from error


def _metadata(moments: pl.DataFrame) -> dict[str, str]:
    """Return the metadata that describes moments."""
    about = {
        "format": _FORMAT,
        "hash": hash_version(),
        "groups": groups_of(moments.schema),
        **{kind: moments.get_column(kind).unique(maintain_order=True).to_list() for kind in KINDS},
    }
    return {_METADATA: json.dumps(about)}


@public
def scan_moments(
    path: Paths,
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> pl.LazyFrame:
    """Read and merge moments from Parquet files.

    Parameters
    ----------
    path
        File, directory, glob pattern such as ``"moments/*.parquet"``, or URL; or several of them.
    storage_options
        Options of the object store, as in `pl.scan_parquet`.

    Returns
    -------
    LazyFrame
        The moments of all files together; see `merge`.

    Raises
    ------
    SourceError
        A file does not exist, or was not written by `write_moments`.
    DataError
        Files have different conventions, or a ranking is in two of them. Raised when the result is
        collected.

    Warns
    -----
    RankWarning
        Files were written with a release of Polars that has another hash function, so that a
        ranking in two files may go unnoticed.
    """
    given = [path] if isinstance(path, (str, PathLike)) else list(path)
    options = with_timeout(fspath(given[0]), storage_options) if given else None
    files = _files(given, options)
    hashes = {file: _about(file, options).get("hash") for file in files}
    if others := [file for file in files if hashes[file] != hash_version()]:
        warn(
            f"{len(others)} of {number_of(len(files), 'file')} of moments, e.g. {others[0]!r}, "
            f"come from a release of Polars with another hash function than Polars "
            f"{pl.__version__}: rankings that are in two files may go unnoticed; compute these "
            "moments again, or make sure that no ranking is in two files"
        )
    parts = [_scan(file, options) for file in files]
    return held(merged(parts, [repr(origin(file)) for file in files]), files)


def _scan(file: str, options: dict[str, Any] | None) -> pl.LazyFrame:
    """Return the moments of a file; errors name the file, which those of Polars do not."""
    plan = pl.scan_parquet(file, glob=False, storage_options=options)
    schema = plan.collect_schema()

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _: int | None,
    ) -> Iterator[pl.DataFrame]:
        try:
            rows = plan.collect()
        except DAMAGE as error:
            raise store_error(error, [file]) or damaged(file, error) from error
        columns = [*schema] if with_columns is None else with_columns
        yield from requested(iter([rows]), columns, predicate, n_rows)

    return scan_of_files(read, [file], schema=schema, explain_name=f"MOMENTS {origin(file)}")


def _is_url(path: str | Path) -> bool:
    return "://" in os.fspath(path)


def _exists(url: str, options: dict[str, Any] | None) -> bool:
    """Return whether a store has an object of this name."""
    try:
        pl.read_parquet_metadata(url, storage_options=options)
    except FileNotFoundError:
        return False
    except DAMAGE as error:  # either of the store, or the object is not Parquet
        if (problem := store_error(error, [url], "written")) is not None:
            raise problem from error
    return True


def _files(given: Sequence[str | PathLike[str]], options: dict[str, Any] | None) -> list[str]:
    """Return the names of the files that paths stand for."""
    files = find_files(given, "path", storage_options=options)
    if not files.remote:
        return files.names
    name = OWN + "file"
    each = {"include_file_paths": name, "missing_columns": "insert", "extra_columns": "ignore"}
    try:
        rows = scan_store(files.names, {"storage_options": options, **each})
        return rows.select(pl.col(name).unique().sort()).collect().to_series().to_list()
    except DAMAGE as error:
        raise store_error(error, files.names) or error from error


def _about(file: str, options: dict[str, Any] | None) -> dict[str, Any]:
    """Return the description of the moments in a file."""
    name = origin(file)
    try:
        text = pl.read_parquet_metadata(file, storage_options=options).get(_METADATA)
    except (OSError, pl.exceptions.PolarsError) as error:
        message = f"the moments in {name!r} cannot be read: {error}"
        raise store_error(error, [file]) or SourceError(message) from error
    if text is None:
        raise SourceError(
            f"{name!r} has no moments; write them with pr.stats.write_moments(table, path)"
        )
    try:
        about: dict[str, Any] = json.loads(text)
        version = int(about["format"])
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"the description of the moments in {name!r} is damaged") from error
    if version != _FORMAT:
        remedy = "install a newer release" if version > _FORMAT else "compute the moments again"
        raise SourceError(
            f"{name!r} has moments of format {version}, but this release of polars_rank reads "
            f"format {_FORMAT}; {remedy}"
        )
    return about
