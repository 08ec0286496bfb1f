"""Object stores: files of URLs, timeouts, and the meaning of errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import ArgumentError, SourceError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: By default Polars waits forever for a store that stops sending data.
_TIMEOUTS = {"read_timeout": "30s"}
_STORES = ("s3", "s3a", "gs", "gcs", "az", "azure", "abfs", "abfss", "adl", "http", "https")

# Patterns are compiled when they are first used, which keeps the import fast.
_DENIED = (
    r"(?i)40[13] |AccessDenied|Unauthorized|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|lacked the necessary privileges|credential"
)
_MOVED = r"30[127] |PermanentRedirect|AuthorizationHeaderMalformed"
_BROKEN = r"after \d+ retries|HTTP error|timed out|error sending request|connection"

#: Column of the file names, and options of `scan_parquet` that change the rows or columns.
_FILE = "polars_rank:file"
_ROW_OPTIONS = ("n_rows", "row_index_name", "row_index_offset", "include_file_paths")


def scan_store(urls: Sequence[str], options: dict[str, Any]) -> pl.LazyFrame:
    """Return a scan of Parquet files in object stores.

    A directory is a bucket, a URL that ends in "/", or a URL of no object that does not end in
    ".parquet". It means all files below it that end in ".parquet"; hive partitions become columns.
    """
    options = {**options, "storage_options": with_timeout(urls[0], options.get("storage_options"))}
    folders = {url for url in urls if _is_folder(url, options)}
    if folders:
        options = {"hive_partitioning": True, "hidden_file_prefix": ("_", "."), **options}
    patterns = [f"{url.rstrip('/')}/**/*.parquet" if url in folders else url for url in urls]
    patterns = [*dict.fromkeys(patterns)]
    if len(patterns) > 1 and any(sign in "".join(patterns) for sign in "*?["):
        # Polars reads a file once for each pattern that matches it.
        files = _expanded(patterns, options)
        if files:  # empty if there are no rows
            return pl.scan_parquet(files, **{**options, "glob": False})
    return pl.scan_parquet(patterns, **options)


def _expanded(patterns: list[str], options: dict[str, Any]) -> list[str]:
    """Return the distinct files with rows that match the patterns."""
    options = {key: value for key, value in options.items() if key not in _ROW_OPTIONS}
    rows = pl.scan_parquet(patterns, **options, include_file_paths=_FILE)
    names = rows.select(pl.col(_FILE).unique(maintain_order=True)).collect(engine="streaming")
    return names.get_column(_FILE).to_list()


def with_timeout(url: str, options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return storage options with a read timeout."""
    if options is not None and not isinstance(options, Mapping):
        message = f"`storage_options` must be a mapping of options to values; found {options!r}"
        raise ArgumentError(message, "storage_options")
    timeouts = _TIMEOUTS if url.partition("://")[0] in _STORES else {}
    return {**timeouts, **(options or {})} or None


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
        return False  # the scan will raise the error
    return False


def store_error(
    error: BaseException, urls: Sequence[str] = (), done: str = "read"
) -> SourceError | None:
    """Return the error for an error of an object store, or None for other errors."""
    text = str(error)
    names = ", ".join(map(repr, urls[:3])) + (f" and {len(urls) - 3} more" if urls[3:] else "")
    names = names or "the log"
    if "expanded paths were empty" in text:
        return SourceError(f"no file matches {names}; check the bucket, the path, and the pattern")
    if "object-store error" not in text:
        return None
    match = re.search(r"<Code>(\w+)</Code>", text)
    code = match[1] if match else ""
    details = " ".join(re.split(r"<\?xml|\(path: ", text)[0].split())
    details = details.removeprefix("object-store error: ").strip(" :-")
    key = re.search(r"Object at location (.+?) not found", text)
    if code == "NoSuchBucket":
        problem, remedy = "bucket not found", "check its name, the endpoint, and the region"
    elif re.search(_DENIED, f"{code} {text}"):
        problem = f"access is denied{f' ({code})' if code else ''}"
        remedy = (
            "check the key, the secret, the region, and their permissions (storage_options={...} "
            "or environment variables)"
        )
    elif key:
        problem, remedy = f"object {key[1]!r} not found", "check the path"
    elif re.search(_MOVED, f"{code} {text}"):
        problem, remedy = "the bucket is in another region", "set it in storage_options={...}"
    elif re.search(_BROKEN, text):
        problem = "the connection failed after several retries"
        remedy = (
            "try again, or increase the limits with storage_options="
            "{'max_retries': ..., 'retry_timeout_ms': ..., 'read_timeout': '60s'}"
        )
    else:
        problem, remedy = "the object store returned an error", "see the details"
    return SourceError(f"{names} cannot be {done}: {problem}; {remedy}. Details: {details}")
