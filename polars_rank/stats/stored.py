"""Moments in Parquet files, on disk or in an object store, which say what they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import hash_version
from polars_rank.errors import SourceError
from polars_rank.frames.stores import patient, scan_store, store_error
from polars_rank.frames.tables import lazy
from polars_rank.io.files import DAMAGE, find_files, new_file
from polars_rank.stats.moments import KINDS, groups_of, merged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_METADATA, _FORMAT = "polars_rank.moments", 4


def write_moments(
    table: Any, path: str | Path, *, storage_options: Mapping[str, Any] | None = None
) -> None:
    """Write moments as a Parquet file, whose metadata say what they are.

    The file gets its name when it is whole: who is interrupted leaves the one that was there, or
    none.

    Parameters
    ----------
    table
        What `moments` or `merge` returns.
    path
        The file, or the URL of an object; one that is there is overwritten.
    storage_options
        Of the object store, as for `scan_log`.

    Raises
    ------
    SchemaError
        For a table that is no moments.
    SourceError
        Where the file cannot be written.

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
        with new_file(path, overwrite=True) as part:
            rows.write_parquet(part, metadata=metadata)
        return
    options = patient(str(path), storage_options)
    try:
        rows.write_parquet(path, metadata=metadata, storage_options=options)
    except DAMAGE as error:
        raise store_error(error, [str(path)], "written") or error from error


def scan_moments(
    source: str | Path | Sequence[str | Path],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> pl.LazyFrame:
    """Read moments from Parquet files, merged.

    Parameters
    ----------
    source
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
    """
    given = [source] if isinstance(source, (str, Path)) else list(source)
    options = patient(str(given[0]), storage_options) if given else None
    files = _files(given, options)
    for file in files:
        _check_format(file, options)
    parts = [pl.scan_parquet(file, glob=False, storage_options=options) for file in files]
    return merged(parts, [repr(file) for file in files])


def _is_url(path: str | Path) -> bool:
    return "://" in os.fspath(path)


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


def _check_format(file: str, options: dict[str, Any] | None) -> None:
    try:
        found = pl.read_parquet_metadata(file, storage_options=options).get(_METADATA)
    except (OSError, pl.exceptions.PolarsError) as error:
        message = f"the moments in {file!r} cannot be read: {error}"
        raise store_error(error, [file]) or SourceError(message) from error
    if found is None:
        message = f"{file!r} holds no moments; write them with pr.stats.write_moments(table, path)"
        raise SourceError(message)
    version = json.loads(found)["format"]
    if version > _FORMAT:
        message = (
            f"{file!r} has moments of format {version}, this release of polars_rank reads "
            f"{_FORMAT}; install a newer one"
        )
        raise SourceError(message)
