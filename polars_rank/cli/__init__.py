"""The command `polars-rank`, and its exit codes."""

#: Exit code of `check` and `gate` if a rule fails, and of `referee` if it finds a defect; no other
#: failure has it.
FAILED = 1
#: Exit code of all other failures: invalid usage or input, and internal errors.
MISUSED = 2
#: Exit codes for SIGINT and SIGPIPE: 128 plus the number of the signal.
INTERRUPTED = 130
BROKEN_PIPE = 141
