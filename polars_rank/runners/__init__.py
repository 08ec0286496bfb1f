"""Where evaluations run that are past one machine: the same functions, on every part of a table."""
