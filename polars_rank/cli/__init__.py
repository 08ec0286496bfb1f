"""`polars-rank`: the command line."""

#: Exit code of `check` if a rule fails.
FAILED = 1
#: Exit code for invalid usage or input.
MISUSED = 2
#: Exit code for an internal error, as in sysexits.h.
BUG = 70
#: Exit codes for signals, 128 + their number: SIGINT and SIGPIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141
