"""Web servers of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def serving(files: Mapping[str, bytes]) -> Iterator[str]:
    """Yield the URL of a server that answers for parts of files, as object stores do.

    The answer to any other path is an error: its status is the path, or 404.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.partition("?")[0].strip("/")
            if name not in files:
                return self.send_error(int(name) if name.isdecimal() else 404)
            data, asked = files[name], self.headers.get("Range")
            first, last = 0, len(data) - 1
            if asked:
                begin, _, end = asked.removeprefix("bytes=").partition("-")
                first = int(begin) if begin else max(0, len(data) - int(end))
                last = min(int(end), last) if begin and end else last
            self.send_response(206 if asked else 200)
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
            self.send_header("Content-Length", str(last - first + 1))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data[first : last + 1])
            return None

        # Polars asks for the size first; without an answer, it tries again for 15 seconds.
        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
