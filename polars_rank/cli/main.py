"""`polars-rank`: the process around the commands, how it starts and how it ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NoReturn

from polars_rank import progress
from polars_rank.cli import INTERRUPTED, MISUSED
from polars_rank.errors import missing_extra
from polars_rank.logs.files import discard_parts

#: Seconds after Ctrl-C until the process ends even if Polars is deep in one long operation.
PATIENCE = 1.0

_ENDING = Lock()


def main() -> NoReturn:
    """Run the command line; temporary files are gone when it ends, also by Ctrl-C.

    Exit codes: 0 when all went well, 2 for wrong usage or input, 130 for Ctrl-C.
    """
    folder = Path(tempfile.mkdtemp(prefix="polars_rank-"))
    tempfile.tempdir = str(folder)
    _heed_interrupts(folder)
    try:
        code = _run()
        if code == INTERRUPTED:
            _end_now(folder)
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


def _heed_interrupts(folder: Path) -> None:
    """End the process soon after Ctrl-C, whatever it is doing."""
    signal.signal(signal.SIGINT, _interrupt_once)
    hears, tells = socket.socketpair()
    tells.setblocking(False)  # noqa: FBT003  (the name says it)
    signal.set_wakeup_fd(tells.detach())

    def wait() -> None:
        hears.recv(1)
        time.sleep(PATIENCE)
        _end_now(folder)

    Thread(target=wait, daemon=True).start()


def _interrupt_once(_signal: int, _frame: Any) -> None:
    # For one Ctrl-C, Polars raises a KeyboardInterrupt as Python does here: the second one
    # would cut short the clean-up after the first.
    if not isinstance(sys.exc_info()[1], KeyboardInterrupt):
        raise KeyboardInterrupt


def _end_now(folder: Path) -> NoReturn:
    """Clean up, say so, and end without waiting for the threads of Polars."""
    with _ENDING:
        progress.close()
        discard_parts()
        _clear(folder)
        print("Interrupted; nothing was written.", file=sys.stderr, flush=True)  # noqa: T201
        os._exit(INTERRUPTED)


def _clear(folder: Path) -> None:
    # After Ctrl-C, a thread may go on writing for a moment.
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.05)


if __name__ == "__main__":
    main()
