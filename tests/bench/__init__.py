"""Time and memory from a Parquet log to ranking metrics, polars_rank and its peers.

    python -m tests.bench

This measures all cases of `__main__.py` and writes the generated parts of README.md and of the
guide's page on performance. Options measure a single log instead; `--help` lists them. The logs are
generated (`logs.py`) and kept in `--data`. Each contender (`contenders.py`) runs in its own process,
in turn with the others: A B C A B C. `report.py` writes the tables.

How to read the numbers
-----------------------
- *seconds*: from before the Parquet file is read to the means, taken inside the process.
- *in the peer*: the part that is spent in the peer after the data has been converted.
- *start*: the rest of the process: interpreter, imports and, for compilers, the warm-up on a small
  log. It is not included in the other times.
- *CPU* and *peak* (resident memory): of the whole process, as reported by the system.
"""
