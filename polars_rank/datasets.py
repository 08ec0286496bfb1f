"""A generated log for examples and tests, without a download.

All values are hashes of (seed, query, document, run, purpose), so the log does not depend on the
engine, the batch size, or the selected columns and rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from polars import col
from polars.io.plugins import register_io_source

from polars_rank._params import integer, is_integer, public
from polars_rank.errors import ArgumentError, short
from polars_rank.frames.batches import BATCH_ROWS
from polars_rank.stats.query_hash import mixed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["search_log"]

_SCHEMA = {
    "run": pl.String, "query": pl.Int64, "doc": pl.Int64, "score": pl.Float64, "label": pl.Int8,
    "country": pl.String, "position": pl.Int32, "click": pl.Boolean, "dwell": pl.Float64,
}  # fmt: skip
#: Chunks of the streaming engine per batch. Each batch has its own plan, which takes time.
_CHUNKS_PER_BATCH = 3

#: Numbers of documents in a catalog. They are primes, so that no stride repeats a document.
_CATALOG_SIZES = (9_999_991, 2**31 - 1)
#: Maximum number of queries, documents, or runs.
_MAX_COUNT = 10**9
#: Cumulative shares of queries by country.
_COUNTRIES = {"BR": 0.08, "DE": 0.22, "FR": 0.36, "GB": 0.52, "IN": 0.70, "US": 1.0}
#: Shares of documents with a label of at least 1, 2, 3, 4.
_GRADE_SHARES = (0.38, 0.18, 0.06, 0.015)
#: Share of queries without a relevant document.
_NO_RELEVANT_SHARE = 0.06
#: Share of unjudged documents.
_UNJUDGED_SHARE = 0.12
#: Share of documents with a rounded score, which causes ties.
_ROUNDED_SHARE = 0.3


@public
def search_log(
    queries: int = 1_000,
    docs_per_query: int | tuple[int, int] = 20,
    *,
    runs: int | str | Sequence[str] = ("bm25", "neural"),
    seed: int = 0,
    string_ids: bool = False,
) -> pl.LazyFrame:
    """Generate a realistic search log with several runs and the same judgments.

    Rows are generated in batches while they are read, so ``sink_parquet`` writes a log of any size
    with little memory. The same arguments always give the same rows, and a run of a longer log
    starts with the rows of a shorter one.

    Examples
    --------
    >>> from polars_rank.datasets import search_log
    >>> log = search_log(100, docs_per_query=(5, 30), seed=7)
    >>> log.select("run", "query", "doc", "score", "label").head(3).collect()
    shape: (3, 5)
    ┌──────┬───────┬─────────┬───────────┬───────┐
    │ run  ┆ query ┆ doc     ┆ score     ┆ label │
    │ ---  ┆ ---   ┆ ---     ┆ ---       ┆ ---   │
    │ str  ┆ i64   ┆ i64     ┆ f64       ┆ i8    │
    ╞══════╪═══════╪═════════╪═══════════╪═══════╡
    │ bm25 ┆ 0     ┆ 5199467 ┆ 8.5       ┆ null  │
    │ bm25 ┆ 0     ┆ 5883281 ┆ 11.587891 ┆ null  │
    │ bm25 ┆ 0     ┆ 6567095 ┆ null      ┆ 0     │
    └──────┴───────┴─────────┴───────────┴───────┘

    Parameters
    ----------
    queries
        Number of queries, 0 or more. Each has one ranking in every run.
    docs_per_query
        Mean number of documents per ranking, or a pair of the minimum and maximum. With a mean m,
        numbers are uniform from 1 to 2 m - 1. Judged documents that are not retrieved count.
    runs
        Number or names of runs, from the worst to the best.
    seed
        Random seed, any integer.
    string_ids
        Whether to write ids as text instead of integers, such as ``"q0000000042"``.

    Returns
    -------
    LazyFrame
        One row per run, query and doc, sorted by run and query but not within a ranking, with the
        columns

        - ``run``, ``query``, ``doc``: the ids;
        - ``score``: higher is better, with some ties; null = judged but not retrieved;
        - ``label``: from 0 (most common) to 4, the same in every run; null = retrieved but not
          judged. Some queries have no relevant document;
        - ``country``: the country of the query;
        - ``position``: the position at which the document was shown, 1 = top; null = not shown;
        - ``click``: more likely near the top and with a higher label; null = not shown;
        - ``dwell``: seconds spent on the document; null = not clicked.
    """
    integer("queries", queries, 0, _MAX_COUNT)
    integer("seed", seed)
    low, high = _lengths(docs_per_query)
    run_names = _run_names(runs)
    schema = pl.Schema(_SCHEMA)
    if string_ids:
        schema |= {"query": pl.String(), "doc": pl.String()}

    def plans(rows: int) -> Iterator[pl.LazyFrame]:
        """Yield the parts of the log, with about this number of rows each."""
        step = max(1, 2 * rows // (low + high))
        # Few queries: several runs per batch.
        runs_per_batch = max(1, step // max(1, queries))
        ordered = sorted(run_names)
        for first in range(0, len(ordered), runs_per_batch):
            names = ordered[first : first + runs_per_batch]
            orders = {name: run_names.index(name) for name in names}
            for start in range(0, queries, step):
                log = _log(start, min(start + step, queries), low, high, orders, seed)
                yield log.with_columns(_text("query"), _text("doc")) if string_ids else log

    def batches(
        columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        left = queries * high * len(run_names) if n_rows is None else n_rows
        for plan in plans(min(left, _CHUNKS_PER_BATCH * (batch_size or BATCH_ROWS))):
            part = plan.select(schema.names()).cast(schema).select(columns or schema.names())
            rows = part.head(left).collect()
            yield rows if predicate is None else rows.filter(predicate)
            left -= rows.height
            if left == 0:
                return

    return register_io_source(batches, schema=schema, is_pure=True, explain_name="search_log")


def _log(
    start: int, stop: int, low: int, high: int, orders: Mapping[str, int], seed: int
) -> pl.LazyFrame:
    """Return the rankings of the queries in range(start, stop) in some runs.

    `orders` maps the names of runs to their places, 0 = the worst.
    """
    catalog = next(size for size in _CATALOG_SIZES if size > high)
    runs = (
        pl.Series("run", [*orders], pl.String),
        pl.Series("_run", [_number(f"run {order}") for order in orders.values()], pl.UInt64),
        pl.Series("_quality", [1 - 0.5 ** (order + 1) for order in orders.values()]),
    )
    quality = col("_quality")  # weight of the label in the scores of the run
    query, doc, shown = col("_query"), col("_doc"), col("_shown")  # random bits of each
    u_relevant, u_rich, u_country = _uniforms(query)
    has_relevant = u_relevant >= _NO_RELEVANT_SHARE
    u_label, u_judged, u_rounded = _uniforms(doc)
    u_retrieved, u_click, u_dwell = _uniforms(shown)

    rankings = (
        pl.LazyFrame()
        .select(_ranking=pl.int_range((stop - start) * len(orders), dtype=pl.UInt64))
        .with_columns(
            *(pl.lit(each).gather(col("_ranking") // (stop - start)) for each in runs),
            query=start + col("_ranking") % (stop - start),
        )
        # A literal: the expression of a hash of a hash contains its input 64 times.
        .with_columns(
            _query=_hash(_uint64(pl.select(_hash(_uint64(seed), "seed")).item()), col("query"))
        )
        .with_columns(
            _index=pl.int_ranges(low + _hash(query, "length") % (high - low + 1), dtype=pl.UInt64),
            _first=_hash(query, "first") % catalog,
            _stride=_hash(query, "stride") % (catalog - 1) + 1,
            _richness=pl.when(has_relevant).then(0.3 + 1.4 * u_rich).otherwise(0.0),
            country=pl.coalesce(
                pl.when(u_country < share).then(pl.lit(name)) for name, share in _COUNTRIES.items()
            ),
        )
    )
    documents = rankings.explode("_index").with_columns(_doc=_hash(query, col("_index")))
    judgments = documents.with_columns(
        doc=(col("_first") + col("_index") * col("_stride")) % catalog,
        _shown=_hash(doc, col("_run")),
        _truth=pl.sum_horizontal(u_label < col("_richness") * g for g in _GRADE_SHARES),
        _judged=u_judged >= _UNJUDGED_SHARE,
        _grid=pl.when(u_rounded < _ROUNDED_SHARE).then(2.0).otherwise(1024.0),
    )
    # The error of a score has a part that all runs share (`doc`), and one of the run (`shown`).
    belief = 0.8 * quality * col("_truth") + _noise(doc) + _noise(shown)
    retrieved = ~col("_judged") | (u_retrieved < 0.8 + 0.15 * quality)
    return (
        judgments.with_columns(
            label=pl.when("_judged").then("_truth"),
            score=pl.when(retrieved).then(
                ((10 + 2 * belief) * col("_grid")).floor() / col("_grid")
            ),
        )
        .with_columns(position=col("score").rank("ordinal", descending=True).over("_ranking"))
        .with_columns(
            click=u_click < (0.05 + 0.2 * col("_truth")) / col("position").cast(pl.Float64).sqrt()
        )
        # A skewed duration of about 8 s per grade, at most half an hour.
        .with_columns(dwell=8 * (1 + col("_truth")) * u_dwell / (1.02 - u_dwell))
        .with_columns(dwell=pl.when("click").then(col("dwell").clip(0.5, 1800).round(1)))
    )


def _text(name: str) -> pl.Expr:
    """Return ids as strings with ten digits, which sort in the order of the numbers."""
    digits = col(name) + 10**10
    return pl.format(name[0] + "{}", digits.cast(pl.String).str.slice(1)).alias(name)


# Random numbers come from the splitmix64 generator (Steele, Lea and Flood 2014), used as a hash in
# wrapping 64-bit arithmetic. All operations on them are exact. A logarithm would not be: its last
# digit depends on the machine.


def _uint64(value: int) -> pl.Expr:
    return pl.lit(value % 2**64, dtype=pl.UInt64)


def _number(purpose: str) -> int:
    return int.from_bytes(purpose.encode(), "big") % 2**64


def _hash(state: pl.Expr, purpose: str | pl.Expr) -> pl.Expr:
    """Return 64 random bits for each state and purpose."""
    if isinstance(purpose, str):
        purpose = _uint64(_number(purpose))
    bits: pl.Expr = mixed(state + (purpose + 1) * _uint64(0x9E3779B97F4A7C15))
    return bits


def _uniforms(bits: pl.Expr) -> list[pl.Expr]:
    """Return three numbers in [0, 1), from 21 bits each."""
    parts = [bits // 2 ** (21 * part) % 2**21 for part in range(3)]
    return [part.cast(pl.Float64) * 2.0**-21 for part in parts]


def _noise(state: pl.Expr) -> pl.Expr:
    """Return a number from -1 to 1 with mean 0 and variance 1/6, the sum of two uniform numbers."""
    bits = _hash(state, "noise")
    return (bits // 2**32 + bits % 2**32).cast(pl.Float64) * 2.0**-32 - 1


def _lengths(docs_per_query: int | tuple[int, int]) -> tuple[int, int]:
    """Return the minimum and the maximum number of documents in a ranking."""
    if is_integer(docs_per_query):
        return 1, 2 * integer("docs_per_query", docs_per_query, 1, _MAX_COUNT) - 1
    if not isinstance(docs_per_query, (tuple, list)) or len(docs_per_query) != len(("low", "high")):
        raise ArgumentError(
            f"must be an integer or a pair of integers; found {short(docs_per_query)}",
            "docs_per_query",
        )
    low = integer("docs_per_query", docs_per_query[0], 1, _MAX_COUNT)
    return low, integer("docs_per_query", docs_per_query[1], low, _MAX_COUNT)


def _run_names(runs: int | str | Sequence[str]) -> Sequence[str]:
    if is_integer(runs):
        number = integer("runs", runs, 1, _MAX_COUNT)
        return [f"run{place:0{len(str(number))}}" for place in range(1, number + 1)]
    names = [runs] if isinstance(runs, str) else runs
    if (
        not isinstance(names, Sequence)
        or not all(isinstance(name, str) for name in names)
        or not 0 < len(names) == len(set(names))
    ):
        raise ArgumentError(
            f"must be a number of runs or distinct names; found {short(runs)}", "runs"
        )
    return names


def __dir__() -> list[str]:
    return __all__
