"""CPU time of `join_spans`, compared with the join of overlapping chunks and spans alone.

Run `python -m tests.benchmarks.spans` in the root of the project; `--output` writes the page.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import polars_rank as pr

from .pages import publish

CHUNKS, SPANS, QUERIES, DOCUMENTS = 1_000_000, 100_000, 20_000, 5

HEAD = f"""\
# Spans

CPU seconds of `join_spans` on Parquet files of {CHUNKS:,} chunks and {SPANS:,} spans by the streaming
engine, the minimum of several runs in turn. `join_where` is the join of chunks and spans of the same
query and document that overlap, alone. Written by `python -m tests.benchmarks.spans --output`.

| what | CPU seconds | ratio |
| --- | --- | --- |
"""


def write(folder: Path) -> tuple[pl.LazyFrame, pl.LazyFrame]:
    """Write chunks and spans to files, and scan them."""

    def parts(rows: int, length: int) -> pl.DataFrame:
        number = pl.int_range(rows)
        table = pl.select(
            query=number // (rows // QUERIES), doc=number.hash(1) % DOCUMENTS,
            start=(number.hash(2) % 10_000).cast(pl.Int64),
        )  # fmt: skip
        return table.with_columns(end=pl.col("start") + length + pl.col("start") % length)

    chunks = parts(CHUNKS, 200).with_columns(score=pl.col("start").hash(3) % 1_000 / 1_000)
    parts(SPANS, 50).with_columns(label=1).write_parquet(folder / "spans.parquet")
    chunks.write_parquet(folder / "chunks.parquet")
    return pl.scan_parquet(folder / "chunks.parquet"), pl.scan_parquet(folder / "spans.parquet")


def overlapping(chunks: pl.LazyFrame, spans: pl.LazyFrame) -> pl.LazyFrame:
    """Return the pairs of chunks and spans that overlap."""
    return chunks.join_where(
        spans,
        pl.col("query") == pl.col("query_right"),
        pl.col("doc") == pl.col("doc_right"),
        pl.col("start") < pl.col("end_right"),
        pl.col("end") > pl.col("start_right"),
    )


def main() -> None:
    """Measure the plans in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        chunks, spans = write(Path(folder))
        several = chunks.with_columns(run=pl.col("query") % 2)
        plans: dict[str, Callable[[], pl.LazyFrame]] = {
            "`join_where`": lambda: overlapping(chunks, spans),
            '`of="gold"`': lambda: pr.join_spans(chunks, spans),
            '`of="chunk"`': lambda: pr.join_spans(chunks, spans, of="chunk"),
            "two runs": lambda: pr.join_spans(several, spans),
            "`characters=True`": lambda: pr.join_spans(chunks, spans, characters=True),
        }
        seconds = dict.fromkeys(plans, float("inf"))
        for _ in range(given.runs):
            for name, plan in plans.items():
                start = time.process_time()
                plan().collect(engine="streaming")
                seconds[name] = min(seconds[name], time.process_time() - start)
    alone = seconds["`join_where`"]
    rows = "".join(f"| {name} | {s:.2f} | {s / alone:.1f} |\n" for name, s in seconds.items())
    publish(HEAD + rows, given.output)


if __name__ == "__main__":
    main()
