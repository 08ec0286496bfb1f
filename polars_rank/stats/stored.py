"""Moments in Parquet files, on disk or in an object store, which say what they are."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import hash_version
from polars_rank.errors import RankWarning, SourceError, number_of
from polars_rank.frames.stores import patient, scan_store, store_error
from polars_rank.frames.tables import lazy
from polars_rank.io.files import DAMAGE, find_files, new_file
from polars_rank.stats.moment_tables import KINDS, groups_of, merged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_METADATA, _FORMAT = "polars_rank.moments", 4


def write_moments(
    table: Any,
    path: str | Path,
    *,
    overwrite: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write moments as a Parquet file, whose metadata say what they are.

    The file gets its name when it is whole: who is interrupted leaves the one that was there, or
    none.

    Parameters
    ----------
    table
        What `moments` or `merge` returns.
    path
        The file, or the URL of an object.
    overwrite
        Replace it if it is there already.
    storage_options
        Of the object store, as for `scan_log`.

    Raises
    ------
    SchemaError
        For a table that is no moments.
    SourceError
        Where the file cannot be written, or is there already.

    See Also
    --------
    scan_moments : reads one or many of them, merged.
    """
    rows: pl.DataFrame = lazy(table).collect()
    about = {
        "format": _FORMAT,
        "hash": hash_version(),
        "groups": groups_of(rows.schema),
        **{kind: rows.get_column(kind).unique(maintain_order=True).to_list() for kind in KINDS},
    }
    metadata = {_METADATA: json.dumps(about)}
    if not _is_url(path):
        with new_file(path, overwrite=overwrite) as part:
            rows.write_parquet(part, metadata=metadata)
        return
    options = patient(str(path), storage_options)
    if not overwrite and _is_there(str(path), options):
        message = f"{str(path)!r} already exists; use `overwrite` to replace it"
        raise SourceError(message, "overwrite")
    try:
        rows.write_parquet(path, metadata=metadata, storage_options=options)
    except DAMAGE as error:
        raise store_error(error, [str(path)], "written") or error from error


def scan_moments(
    path: str | Path | Sequence[str | Path],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> pl.LazyFrame:
    """Read moments from Parquet files, merged.

    Parameters
    ----------
    path
        A file, a directory, a pattern such as "moments/*.parquet", or several of them; also URLs.
    storage_options
        Of the object store, as for `scan_log`.

    Returns
    -------
    LazyFrame
        The moments of all the files together; see `merge`.

    Raises
    ------
    SourceError
        For a file that is not there, or was not written by `write_moments`.
    DataError
        For files of different conventions, which are named, and for a list that is in two of
        them; when the result is collected.

    Warns
    -----
    RankWarning
        For files from a release of Polars with another hash: a ranking that is in two files may
        then not be found.
    """
    given = [path] if isinstance(path, (str, Path)) else list(path)
    options = patient(str(given[0]), storage_options) if given else None
    files = _files(given, options)
    hashes = {file: _about(file, options).get("hash") for file in files}
    if others := [file for file in files if hashes[file] != hash_version()]:
        message = (
            f"{len(others)} of {number_of(len(files), 'file')} of moments, such as {others[0]!r}, "
            f"come from a release of Polars with another hash than that of {pl.__version__}: parts "
            "that count twice may not be found; make these moments again, or see to it that no "
            "ranking is in two files"
        )
        warnings.warn(message, RankWarning, stacklevel=2)
    parts = [pl.scan_parquet(file, glob=False, storage_options=options) for file in files]
    return merged(parts, [repr(file) for file in files])


def _is_url(path: str | Path) -> bool:
    return "://" in os.fspath(path)


def _is_there(url: str, options: dict[str, Any] | None) -> bool:
    """Return whether a store has an object of this name."""
    try:
        pl.read_parquet_metadata(url, storage_options=options)
    except FileNotFoundError:
        return False
    except DAMAGE as error:  # by the store; otherwise it is an object of another kind
        if (found := store_error(error, [url], "written")) is not None:
            raise found from error
    return True


def _files(given: Sequence[str | Path], options: dict[str, Any] | None) -> list[str]:
    """Return the names of the files that paths stand for."""
    found = find_files(given)
    if not found.remote:
        return found.names
    name = OWN + "file"
    each = {"include_file_paths": name, "missing_columns": "insert", "extra_columns": "ignore"}
    try:
        rows = scan_store(found.names, {"storage_options": options, **each})
        return rows.select(pl.col(name).unique().sort()).collect().to_series().to_list()
    except DAMAGE as error:
        raise store_error(error, found.names) or error from error


def _about(file: str, options: dict[str, Any] | None) -> dict[str, Any]:
    """Return what a file of moments says of itself."""
    try:
        found = pl.read_parquet_metadata(file, storage_options=options).get(_METADATA)
    except (OSError, pl.exceptions.PolarsError) as error:
        message = f"the moments in {file!r} cannot be read: {error}"
        raise store_error(error, [file]) or SourceError(message) from error
    if found is None:
        message = f"{file!r} holds no moments; write them with pr.stats.write_moments(table, path)"
        raise SourceError(message)
    about: dict[str, Any] = json.loads(found)
    if (version := about["format"]) > _FORMAT:
        message = (
            f"{file!r} has moments of format {version}, this release of polars_rank reads "
            f"{_FORMAT}; install a newer one"
        )
        raise SourceError(message)
    return about
