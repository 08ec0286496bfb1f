"""`polars-rank`: the process of the command line, with signals and temporary files."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NoReturn

from polars_rank import _progress as progress
from polars_rank.cli import INTERRUPTED, MISUSED
from polars_rank.errors import missing_extra
from polars_rank.io.files import discard_parts

#: Seconds after a signal until the process ends even if Polars is still running.
PATIENCE = 1.0

#: Signals that end the process: Ctrl-C, `kill`, and a closed terminal.
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]

_ENDING = Lock()


def main() -> NoReturn:
    """Run the command line and remove temporary files, also after a signal.

    Exit codes: 0 for success, 2 for invalid usage or input, and 128 + the number of a signal: 130
    for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
    """
    folder = Path(tempfile.mkdtemp(prefix="polars_rank-"))
    tempfile.tempdir = str(folder)
    received: list[int] = []
    _handle_signals(folder, received)
    try:
        code = _run()
        if code == INTERRUPTED:
            _end_now(folder, received)
    finally:
        _clear(folder)
    sys.exit(code)


def _run() -> int | str | None:
    try:
        from polars_rank.cli.commands import app  # noqa: PLC0415  (an extra)

        app(prog_name="polars-rank")
    except ImportError as error:
        print(f"Error: {missing_extra(extra='cli', cause=error)}", file=sys.stderr)  # noqa: T201
        return MISUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as end:
        return end.code
    return 0


def _handle_signals(folder: Path, received: list[int]) -> None:
    """End the process soon after a signal, even if Polars is running."""

    def interrupt(number: int, _frame: Any) -> None:
        received.append(number)
        for each in _SIGNALS:  # another signal would interrupt the cleanup
            signal.signal(each, signal.SIG_IGN)
        # Polars may already have raised a KeyboardInterrupt.
        if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            raise KeyboardInterrupt

    for number in _SIGNALS:
        # `nohup` makes a process ignore SIGHUP.
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # noqa: FBT003
    signal.set_wakeup_fd(writer.detach())

    def wait() -> None:
        while (number := reader.recv(1)[0]) not in _SIGNALS:
            pass
        received.append(number)
        time.sleep(PATIENCE)
        _end_now(folder, received)

    Thread(target=wait, daemon=True).start()


def _end_now(folder: Path, received: list[int]) -> NoReturn:
    """Clean up, print a message, and end without waiting for the threads of Polars."""
    with _ENDING:
        progress.close()
        discard_parts()
        _clear(folder)
        with suppress(OSError):  # the terminal may be closed
            print("Interrupted; nothing was written.", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(128 + received[0] if received else INTERRUPTED)


def _clear(folder: Path) -> None:
    # After a signal, a thread may continue to write for a moment.
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main()
