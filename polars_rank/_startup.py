"""Ctrl-C during the start of the command: a message instead of a traceback.

The package imports this module first. It imports only what Python has already loaded: during other
imports, Ctrl-C would print a traceback.
"""

import os
import sys

try:  # `signal` imports enum, types and functools
    from _signal import (  # type: ignore[import-not-found]
        SIGINT,
        default_int_handler,
        getsignal,
        signal,
    )
except ImportError:  # other implementations of Python
    from signal import SIGINT, default_int_handler, getsignal, signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def is_command() -> bool:
    """Return whether the process is the command `polars-rank`, not a program of the user."""
    program = next(iter(getattr(sys, "argv", [])), "")  # empty if a program embeds Python
    if program == "-m":  # Python still looks for the module, whose name is before the arguments
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == "polars_rank"
    return os.path.splitext(os.path.basename(program))[0] == "polars-rank"  # noqa: PTH119, PTH122


def end(number: int, _frame: object = None) -> "NoReturn":
    """End the process after a signal, without waiting for other threads."""
    try:  # noqa: SIM105  (`contextlib` is an import)
        print("Interrupted; nothing was written.", file=sys.stderr, flush=True)  # noqa: T201
    except (OSError, AttributeError):  # the terminal may be closed
        pass
    os._exit(128 + number)


# The command handles signals itself once it is loaded. Ignored signals stay ignored.
if is_command() and getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, end)
