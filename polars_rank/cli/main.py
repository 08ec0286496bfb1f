"""The entry point of `polars-rank`: signals, closed streams, temporary files and exit codes."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NoReturn

from polars_rank import _progress as progress
from polars_rank.cli import INTERRUPTED, MISUSED
from polars_rank.errors import missing_extra
from polars_rank.io.outputs import discard_all, new_folder

#: Seconds from a signal to the end of the process, even if Polars is still running.
GRACE_PERIOD = 1.0

#: Signals that end the process: Ctrl-C, `kill`, and a closed terminal.
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]

_ENDING = Lock()


def main() -> NoReturn:
    """Run the command line and remove temporary files, also after a signal.

    The exit code is 0 for success, 1 if a rule fails, 2 for any other error, and 128 plus the
    number of the signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
    """
    received: list[int] = []
    try:
        code = _run(received)
        if code == INTERRUPTED:
            _end_now(received)
    finally:
        discard_all()
    sys.exit(code)


def _run(received: list[int]) -> str | int | None:
    """Run the command and return its exit code."""
    try:
        _handle_signals(received)
        _prepare_streams()
        tempfile.tempdir = str(new_folder())  # also removed after a signal
        from polars_rank.cli.program import app  # noqa: PLC0415  (an extra)

        app(prog_name="polars-rank")
    except KeyboardInterrupt:
        return INTERRUPTED
    except SystemExit as ended:
        return ended.code
    except BaseException as error:  # noqa: BLE001  (before the program handles its errors itself)
        problem: BaseException = error
        if isinstance(error, ImportError):
            problem = missing_extra(extra="cli", cause=error)
        with suppress(OSError):  # the terminal may be closed
            print(f"Error: {str(problem) or type(problem).__name__}", file=sys.stderr)  # noqa: T201
        return MISUSED
    return 0


def _prepare_streams() -> None:
    """Open the null device for closed streams; show letters that a terminal lacks as `?`."""
    # Otherwise, the next file that is opened gets the descriptor of the stream and its messages.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115  (writing raises)
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper) and sys.stdout.isatty():
        sys.stdout.reconfigure(errors="replace")


def _handle_signals(received: list[int]) -> None:
    """End the process soon after a signal, even if Polars is running."""

    def interrupt(number: int, _frame: Any) -> None:
        received.append(number)
        for other in _SIGNALS:  # another signal would interrupt the cleanup
            signal.signal(other, signal.SIG_IGN)
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
        time.sleep(GRACE_PERIOD)
        _end_now(received)

    Thread(target=wait, daemon=True).start()


def _end_now(received: list[int]) -> NoReturn:
    """Clean up, print a message, and end without waiting for the threads of Polars."""
    with _ENDING:
        progress.close()
        discard_all()
        with suppress(OSError, AttributeError):  # the terminal may be closed
            print("Interrupted; nothing was written.", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(128 + (received[0] if received else signal.SIGINT))
