"""Downloads from web servers.

Polars would request parts of a file without a time limit: a server that stops sending would block
it forever, and some servers do not send parts.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Mapping
from http.client import HTTPException, responses
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, unquote, urlsplit
from urllib.request import Request, urlopen

from polars_rank.errors import ArgumentError, SourceError
from polars_rank.frames.stores import check_storage_options
from polars_rank.io.copies import Copy, chunks_of

#: Status codes after which another attempt may succeed.
_BUSY = {429, 500, 502, 503, 504}

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def download(url: str, options: Mapping[str, Any] | None = None) -> Copy:
    """Return a temporary copy of a file from a web server.

    Parameters
    ----------
    url
        Address that begins with "http://" or "https://".
    options
        "read_timeout", the time limit for the next bytes (default: "30s"), "max_retries" (default:
        2), and "retry_init_backoff_ms" (default: 250). All others are headers of the request, such
        as "Authorization".

    Raises
    ------
    SourceError
        If the URL is invalid, the server denies access or does not have the file, or the
        connection fails.
    """
    check_storage_options(options)
    options = options or {}
    request = _request(url, options)
    url = re.sub("//[^/?#]*@", "//", url)  # without the password, for messages
    name = re.sub(r"[^\w.-]", "_", Path(urlsplit(url).path).name, flags=re.ASCII).lstrip(".")
    timeout = _seconds(options.get("read_timeout", "30s"))
    retries = _whole_number(options, "max_retries", 2)
    pause = _whole_number(options, "retry_init_backoff_ms", 250) / 1000
    for attempt in range(retries + 1):
        time.sleep(pause * 2 ** (attempt - 1) if attempt else 0)
        try:
            with urlopen(request, timeout=timeout) as response:  # noqa: S310  (checked above)
                if response.status != 200:
                    raise _refused(url, response.status)
                copy = Copy.of(chunks_of(response), name[-100:] or "download", url)
                length = response.headers.get("Content-Length")
            if length is None or Path(copy).stat().st_size == int(length):
                return copy
            problem = "the connection was closed before the end of the file"
        except HTTPError as error:
            error.close()  # the connection
            if error.code not in _BUSY:
                raise _refused(url, error.code) from error
            problem = f"the server answered {_status(error.code)}"
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, URLError) else error
            problem = f"the connection failed ({reason})"
            if isinstance(reason, TimeoutError):
                problem = f"the server did not answer within {timeout:g} seconds"
    raise SourceError(
        f"{url!r} cannot be read: {problem}, in {retries + 1} attempts; try again, or increase the "
        "limits with storage_options={'max_retries': ..., 'read_timeout': '60s'}"
    )


def _request(url: str, options: Mapping[str, Any]) -> Request:
    """Return the request; its headers are not sent to other servers after a redirect."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        server = f"[{host}]" if ":" in host else host.encode("idna").decode()
    except ValueError:
        server = ""
    if not re.fullmatch(r"[\w.-]+|\[[0-9a-f:.]+\]", server):
        raise SourceError(f"{url!r} is not a valid URL; check the name of the server and the port")
    netloc = server if port is None else f"{server}:{port}"
    # "%" is safe, because the URL may be quoted already.
    path = quote(parts.path, safe="/%:@!$&'()*+,;=~") or "/"
    query = "?" + quote(parts.query, safe="/%:@!$&'()*+,;=~?") if parts.query else ""
    request = Request(f"{parts.scheme}://{netloc}{path}{query}")  # noqa: S310
    if parts.username is not None:
        account = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        code = base64.b64encode(account.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {code}")
    for key, value in options.items():
        if "timeout" not in key and "retr" not in key:
            request.add_unredirected_header(key, str(value))
    return request


def _refused(url: str, code: int) -> SourceError:
    """Return the error for a status that does not justify another attempt."""
    if code in (401, 403, 407):
        problem = f"access is denied ({_status(code)})"
        remedy = "pass headers, such as storage_options={'Authorization': 'Bearer ...'}"
    elif code in (404, 410):
        problem, remedy = f"file not found ({_status(code)})", "check the URL"
    else:
        problem = f"the server answered {_status(code)} instead of the file"
        remedy = "check the URL"
    return SourceError(f"{url!r} cannot be read: {problem}; {remedy}")


def _status(code: int) -> str:
    return f"{code} {responses.get(code, '')}".strip()


def _whole_number(options: Mapping[str, Any], key: str, default: int) -> int:
    value = str(options.get(key, default))
    if not value.isdecimal():
        raise ArgumentError(f"{key!r} in `storage_options` must be a whole number; found {value!r}")
    return int(value)


def _seconds(duration: Any) -> float:
    match = re.fullmatch(r"\s*(\d+\.?\d*)\s*(ms|s|m|h)?\s*", str(duration))
    if match is None or float(match[1]) == 0:
        raise ArgumentError(
            "'read_timeout' in `storage_options` must be a duration, such as '30s' or '500ms'; "
            f"found {duration!r}"
        )
    return float(match[1]) * _UNITS[match[2] or "s"]
