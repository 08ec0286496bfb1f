"""Object stores: what a URL stands for, how long is waited, and what their errors mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import ArgumentError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Polars waits for ever for a store that falls silent, and tries again where one hangs up.
_PATIENCE = {"read_timeout": "30s"}
_STORES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "http", "https")

_DENIED = re.compile(
    r"40[13] |AccessDenied|Unauthorized|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|lacked the necessary privileges|credential",
    re.IGNORECASE,
)
_MOVED = re.compile(r"30[127] |PermanentRedirect|AuthorizationHeaderMalformed")
_BROKEN = re.compile(r"after \d+ retries|HTTP error|timed out|error sending request|connection")

#: The column of the name of a row's file, and options of `scan_parquet` that change which rows or
#: columns there are.
_FILE = "polars_rank:file"
_OF_ROWS = ("n_rows", "row_index_name", "row_index_offset", "include_file_paths")


def scan_store(urls: Sequence[str], options: dict[str, Any]) -> pl.LazyFrame:
    """Scan Parquet files in object stores, as `scan_files` does those of a file system.

    A bucket, a URL that ends in "/", and one of no object whose name does not end in ".parquet" are
    directories: they stand for the files below that do, and hive partitions become columns.
    """
    given = {**options, "storage_options": patient(urls[0], options.get("storage_options"))}
    folders = {url for url in urls if _is_folder(url, given)}
    if folders:
        given = {"hive_partitioning": True, "hidden_file_prefix": ("_", "."), **given}
    patterns = [f"{url.rstrip('/')}/**/*.parquet" if url in folders else url for url in urls]
    patterns = [*dict.fromkeys(patterns)]
    if len(patterns) > 1 and any(sign in "".join(patterns) for sign in "*?["):
        # Polars reads a file once for each pattern that matches it.
        files = _expanded(patterns, given)
        if files:  # none of them, if there are no rows
            return pl.scan_parquet(files, **{**given, "glob": False})
    return pl.scan_parquet(patterns, **given)


def _expanded(patterns: list[str], options: dict[str, Any]) -> list[str]:
    """Return the files with rows that patterns match, each once."""
    whole = {key: value for key, value in options.items() if key not in _OF_ROWS}
    rows = pl.scan_parquet(patterns, **whole, include_file_paths=_FILE)
    names = rows.select(pl.col(_FILE).unique(maintain_order=True)).collect(engine="streaming")
    return names.get_column(_FILE).to_list()


def patient(url: str, options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return options for a store that may fall silent: it is waited for, but not for ever."""
    if options is not None and not isinstance(options, Mapping):
        message = f"`storage_options` must be a mapping of options to values; found {options!r}"
        raise ArgumentError(message, "storage_options")
    waits = _PATIENCE if url.partition("://")[0] in _STORES else {}
    return {**waits, **(options or {})} or None


def _is_folder(url: str, options: dict[str, Any]) -> bool:
    _, _, path = url.partition("://")[2].partition("/")
    if path.endswith(".parquet") or any(sign in url for sign in "*?["):
        return False
    if not path or path.endswith("/"):
        return True
    reading = ("storage_options", "credential_provider")
    try:
        pl.scan_parquet(
            url, glob=False, **{key: options[key] for key in reading if key in options}
        ).collect_schema()
    except FileNotFoundError as error:
        return "NoSuchBucket" not in str(error)
    except (OSError, pl.exceptions.PolarsError):
        return False  # something is wrong with it, which its scan will say
    return False


def store_error(
    error: BaseException, urls: Sequence[str] = (), done: str = "read"
) -> SourceError | None:
    """Return what an error means that an object store gave; None for any other error."""
    text = str(error)
    named = ", ".join(map(repr, urls[:3])) + (f" and {len(urls) - 3} more" if urls[3:] else "")
    named = named or "the log"
    if "expanded paths were empty" in text:
        return SourceError(f"no file matches {named}; check the bucket, the path and the pattern")
    if "object-store error" not in text:
        return None
    found = re.search(r"<Code>(\w+)</Code>", text)
    code = found[1] if found else ""
    said = " ".join(re.split(r"<\?xml|\(path: ", text)[0].split())
    said = said.removeprefix("object-store error: ").strip(" :-")
    key = re.search(r"Object at location (.+?) not found", text)
    if code == "NoSuchBucket":
        problem, remedy = "there is no such bucket", "check its name, the endpoint and the region"
    elif _DENIED.search(f"{code} {text}"):
        problem = f"access is denied{f' ({code})' if code else ''}"
        remedy = (
            "check the key, the secret and the region, which are given as storage_options={...} "
            "or by the environment, and what they allow"
        )
    elif key:
        problem, remedy = f"there is no object {key[1]!r}", "check the path"
    elif _MOVED.search(f"{code} {text}"):
        problem, remedy = "the bucket is in another region", "name it in storage_options={...}"
    elif _BROKEN.search(text):
        problem = "the connection to the store cannot be made, or broke off and was tried again"
        remedy = (
            "try again, or allow for more with storage_options="
            "{'max_retries': ..., 'retry_timeout_ms': ..., 'read_timeout': '60s'}"
        )
    else:
        problem, remedy = "the store gave an error", "see what it says"
    return SourceError(f"{named} cannot be {done}: {problem}; {remedy}. It says: {said}")
