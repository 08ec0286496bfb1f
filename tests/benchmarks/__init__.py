"""Time and memory from a Parquet log to ranking metrics, polars_rank beside its peers.

    python -m tests.benchmarks --rows 1_000_000 10_000_000 --runs 3

`python -m tests.benchmarks --help` lists the options. The logs are generated (`logs.py`) and
kept in `--data`; each contender (`contenders.py`) is a process of its own, run in turn with the
others, A B C A B C; `report.py` writes the table, the picture and every single run.

How to read the numbers
-----------------------
- *seconds*: from before the Parquet file is read to the means, taken inside the process.
- *in the peer*: the part of it that is spent in the peer, once the data is in its own form.
- *start*: all the rest of the process: interpreter, imports, and for compilers the warm-up on a
  small log. It is in no other time.
- *CPU* and *peak* (resident memory): of the whole process, as the system counted them.
- A contender marked slow runs up to `--limit-rows` rows; nothing is extrapolated.
"""
