"""Object stores and web servers: scans of URLs, and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import unknown_parameter
from polars_rank.errors import ArgumentError, SourceError, short

if TYPE_CHECKING:
    from collections.abc import Sequence

_DENIED = (
    r"(?i)40[13] |AccessDenied|Unauthorized|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken"
    r"|lacked the necessary privileges|credential"
)
_MOVED = r"30[127] |PermanentRedirect|AuthorizationHeaderMalformed|redirect without LOCATION"
_RETRIED = r"after [1-9]\d* retries|response body error"
_BROKEN = "(?<!Generic )HTTP error|timed out|error sending request|connection"
_LIMITS = "try again, or increase 'max_retries' and 'read_timeout' in storage_options={...}"
#: A pattern of the code and the text of an error, the problem with what its group found, and the
#: remedy. The first pattern counts. They are compiled on first use, which keeps the import fast.
_PROBLEMS = (
    ("^NoSuchBucket ", "bucket not found", "check its name, the endpoint, and the region"),
    (
        _DENIED, "access is denied{}",
        "check the key, the secret and the region in storage_options={...}, and permissions",
    ),
    ("Object at location (.+?) not found", "object {!r} not found", "check the path"),
    (
        f"(?s)^(?!.*Generic HTTP error).*(?:{_MOVED})",
        "the bucket is in another region", "set it in storage_options={...}",
    ),
    ("Unable parse source url", "the URL is invalid", "check the name of the server and the port"),
    (
        rf"(?s)^(?!.*(?:{_RETRIED})).*?status code: (\d{{3}}[^:(]*)",
        "the server answered {}", "check the URL",
    ),
    (_RETRIED, "the connection failed after several retries", _LIMITS),
    (_BROKEN, "the connection failed", _LIMITS),
    ("", "the object store returned an error", "see the details"),
)  # fmt: skip

#: Column of the file names, and options of `scan_parquet` that change the rows or columns.
_FILE = "polars_rank:file"
_ROW_OPTIONS = ("n_rows", "row_index_name", "row_index_offset", "include_file_paths")


def is_pattern(path: str) -> bool:
    """Return whether a path or URL has wildcards."""
    return not {*"*?["}.isdisjoint(path)


def check_options(options: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for an invalid option of `polars.scan_parquet`."""
    known = [name for name in signature(pl.scan_parquet).parameters if not name.startswith("_")]
    for name, value in options.items():
        if name not in known[1:]:
            raise unknown_parameter(pl.scan_parquet.__name__, name, known[1:])
        if name == "storage_options" and not (value is None or isinstance(value, Mapping)):
            raise ArgumentError(
                f"must be a mapping of options to values; found {short(value)}", "storage_options"
            )
        try:  # this reads no file
            pl.scan_parquet("log.parquet", **{name: value})
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise ArgumentError(
                f"has an invalid value: {short(value)}; see the parameters of polars.scan_parquet",
                name,
            ) from error


def scan_store(urls: Sequence[str], options: dict[str, Any]) -> pl.LazyFrame:
    """Return a scan of Parquet files in object stores.

    A directory is a bucket, a URL that ends in "/", or a URL that has no object and does not end in
    ".parquet". It means all files below it that end in ".parquet". Hive partitions become columns.
    """
    folders = {url for url in urls if _is_folder(url, options)}
    if folders:
        options = {"hive_partitioning": True, "hidden_file_prefix": ("_", "."), **options}
    patterns = [f"{url.rstrip('/')}/**/*.parquet" if url in folders else url for url in urls]
    patterns = [*dict.fromkeys(patterns)]
    if len(patterns) > 1 and any(map(is_pattern, patterns)):
        # Polars reads a file once for each pattern that matches it.
        own = {key: value for key, value in options.items() if key not in _ROW_OPTIONS}
        rows = pl.scan_parquet(patterns, **own, include_file_paths=_FILE)
        names = rows.select(pl.col(_FILE).unique(maintain_order=True)).collect(engine="streaming")
        files = names.get_column(_FILE).to_list()
        if files:  # none if all files are empty
            return pl.scan_parquet(files, **{**options, "glob": False})
    return pl.scan_parquet(patterns, **options)


def _is_folder(url: str, options: dict[str, Any]) -> bool:
    if "://" not in url:
        return Path(url).is_dir()
    _, _, path = url.partition("://")[2].partition("/")
    if path.endswith(".parquet") or is_pattern(url) or url.lower().startswith("http"):
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


def store_error(error: BaseException, urls: Sequence[str] = ()) -> SourceError | None:
    """Return a `SourceError` for an error of an object store; None for other errors."""
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
    tried: Any = ((re.search(each[0], f"{code} {text}"), *each[1:]) for each in _PROBLEMS)
    found, problem, remedy = next(each for each in tried if each[0])
    problem = problem.format(found[1].strip() if found.re.groups else code and f" ({code})")
    return SourceError(f"{names} cannot be read: {problem}; {remedy}. Details: {details}")
