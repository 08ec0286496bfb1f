"""`polars-rank`: the process around the commands, how it starts and how it ends."""

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

#: Seconds after a signal until the process ends even if Polars is deep in one long operation.
PATIENCE = 1.0

#: What ends the process from outside: Ctrl-C, `kill`, and a terminal that is closed.
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]

_ENDING = Lock()


def main() -> NoReturn:
    """Run the command line; temporary files are gone when it ends, also by a signal.

    Exit codes: 0 when all went well, 2 for wrong usage or input, 128 and the number of the signal
    for one of those that end it: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
    """
    folder = Path(tempfile.mkdtemp(prefix="polars_rank-"))
    tempfile.tempdir = str(folder)
    received: list[int] = []
    _heed_signals(folder, received)
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


def _heed_signals(folder: Path, received: list[int]) -> None:
    """End the process soon after a signal, whatever it is doing."""

    def interrupt(number: int, _frame: Any) -> None:
        received.append(number)
        for each in _SIGNALS:  # another one would cut short the clean-up
            signal.signal(each, signal.SIG_IGN)
        # For one Ctrl-C, Polars raises a KeyboardInterrupt as Python does here.
        if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
            raise KeyboardInterrupt

    for number in _SIGNALS:
        # `nohup` has a process ignore that its terminal is closed.
        if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    hears, tells = socket.socketpair()
    tells.setblocking(False)  # noqa: FBT003  (the name says it)
    signal.set_wakeup_fd(tells.detach())

    def wait() -> None:
        while (number := hears.recv(1)[0]) not in _SIGNALS:
            pass
        received.append(number)
        time.sleep(PATIENCE)
        _end_now(folder, received)

    Thread(target=wait, daemon=True).start()


def _end_now(folder: Path, received: list[int]) -> NoReturn:
    """Clean up, say so, and end without waiting for the threads of Polars."""
    with _ENDING:
        progress.close()
        discard_parts()
        _clear(folder)
        with suppress(OSError):  # the terminal may be closed
            print("Interrupted; nothing was written.", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(128 + received[0] if received else INTERRUPTED)


def _clear(folder: Path) -> None:
    # After a signal, a thread may go on writing for a moment.
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main()
