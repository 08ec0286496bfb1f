"""`polars-rank`: the command line."""

#: Exit codes: of a shell for Ctrl-C, 128 + SIGINT; for wrong usage or input.
INTERRUPTED = 130
MISUSED = 2
#: Exit code of `check` where a rule fails.
FAILED = 1
