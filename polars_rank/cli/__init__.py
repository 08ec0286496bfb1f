"""The command `polars-rank`, and its exit codes."""

#: Exit code of `check` if a rule fails.
FAILED = 1
#: Exit code for invalid usage or input.
MISUSED = 2
#: Exit code for an internal error, as in sysexits.h.
BUG = 70
#: Exit codes for SIGINT and SIGPIPE: 128 plus the number of the signal.
INTERRUPTED = 130
BROKEN_PIPE = 141
