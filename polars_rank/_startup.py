"""Ctrl-C during the start of the command: a message instead of a traceback.

The package imports this module before Polars, whose import takes most of the time.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn


def is_command() -> bool:
    """Return whether the process is the command `polars-rank`, not a program of the user."""
    program = next(iter(getattr(sys, "argv", [])), "")  # empty if a program embeds Python
    if program == "-m":  # Python still looks for the module, whose name is before the arguments
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "polars_rank"
    return Path(program).stem == "polars-rank"


def end(number: int, _frame: Any = None) -> NoReturn:
    """End the process after a signal, without waiting for other threads."""
    with suppress(OSError, AttributeError):  # the terminal may be closed
        print("Interrupted; nothing was written.", file=sys.stderr, flush=True)  # noqa: T201
    os._exit(128 + number)


# The command handles signals itself once it is loaded. Ignored signals stay ignored.
if is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, end)
