"""`polars-rank`: the command line."""

#: Exit code of `check` where a rule fails.
FAILED = 1
#: Exit code for wrong usage or input.
MISUSED = 2
#: Exit code for a fault of the program, as in sysexits.h.
BUG = 70
#: Exit codes of a shell for signals, 128 and their number: SIGINT, and SIGPIPE.
INTERRUPTED = 130
BROKEN_PIPE = 141
