"""Resampling with weights that are a hash of (query, replicate, seed).

The weights do not depend on the order of rows, or on batches, files or machines: a query has the
same weight in a replicate everywhere, so that sums over parts add up to the sums over all rows.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import missing_extra
from polars_rank.stats.intervals import EXTRA
from polars_rank.stats.query_hash import mixed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

KEY, REPLICATE = OWN + "key", OWN + "replicate"
_DRAWS, _BITS = 4, 64  # Poisson draws of 16 bits, and signs, in one hash
#: Below this share of the squares, the variance of a resample may be a rounding error. Above it, a
#: studentized statistic is at most a million.
RESIDUE = 1e-12
_ROWS = 128  # per block, so that weights fit the cache; 512 rows take ten times as long

#: BLAS computes matrix products up to this size (rows x columns x inner) in one thread.
_ONE_THREAD = 2**18


def numpy() -> ModuleType:
    """Return numpy; raise `MissingExtraError` if it is not installed."""
    try:
        import numpy as np  # noqa: PLC0415  (an extra, as scipy)
    except ImportError as error:
        raise missing_extra(EXTRA, error) from error
    return np


def bootstrap_sums(
    rows: pl.LazyFrame, by: Sequence[str], columns: Sequence[str], n_resamples: int, seed: int
) -> pl.LazyFrame:
    """Return a row per group and replicate: the sums of columns under Poisson weights.

    Rows are processed in batches, with memory for groups x columns x n_resamples. `rows` has
    the columns `by`, `KEY` and `columns`.
    """
    np = numpy()
    given = rows.collect_schema()
    schema = {
        **{name: given[name] for name in by},
        REPLICATE: pl.UInt32(),
        **{name: pl.Float64() for name in columns},
    }

    def weighed(batch: pl.DataFrame) -> pl.DataFrame:
        groups = [group for group in batch.partition_by(by) if group.height] if by else [batch]
        parts = [_resampled(np, group, columns, n_resamples, seed) for group in groups]
        # Callbacks must not run a query, as `select` would.
        repeated = np.repeat(np.arange(len(groups)), n_resamples)
        made = [
            pl.Series(name, [group.get_column(name)[0] for group in groups], schema[name])
            for name in by
        ]
        number = np.tile(np.arange(n_resamples, dtype=np.uint32), len(groups))
        sums = np.concatenate(parts) if parts else np.empty((0, len(columns)))
        return pl.DataFrame(
            [
                *(key.gather(repeated) for key in made),
                pl.Series(REPLICATE, number, pl.UInt32),
                *(pl.Series(name, sums[:, index]) for index, name in enumerate(columns)),
            ]
        )

    sums = rows.map_batches(weighed, schema=schema, streamable=True)
    return sums.group_by([*by, REPLICATE]).agg(pl.col(columns).sum())


def _resampled(
    np: Any, group: pl.DataFrame, columns: Sequence[str], n_resamples: int, seed: int
) -> Any:
    values = np.column_stack([group.get_column(name).to_numpy() for name in columns])
    return poisson_sums(group.get_column(KEY).to_numpy(), values, n_resamples, seed)


def poisson_sums(keys: Any, values: Any, n_resamples: int, seed: int) -> Any:
    """Return the sums (n_resamples x columns) of rows under their Poisson(1) weights."""
    np = numpy()
    counts = _poisson_counts(np)
    words = -(-n_resamples // _DRAWS)
    sums = np.zeros((values.shape[1], words * _DRAWS))
    for start in range(0, len(keys), _ROWS):
        bits = _hashes(np, keys[start : start + _ROWS], words, seed)
        weights = np.take(counts, bits.view(np.uint16))
        _add_product(sums, values[start : start + _ROWS], weights)
    return sums.T[:n_resamples]


def sign_sums(keys: Any, values: Any, n_resamples: int, seed: int) -> Any:
    """Return the sums (n_resamples x columns) of rows with random signs."""
    np = numpy()
    words = -(-n_resamples // _BITS)
    positive = np.zeros((values.shape[1], words * _BITS))
    for start in range(0, len(keys), _ROWS):
        bits = _hashes(np, keys[start : start + _ROWS], words, seed)
        signs = np.unpackbits(bits.view(np.uint8), axis=1).astype(np.float64)
        _add_product(positive, values[start : start + _ROWS], signs)
    return (2 * positive.T - values.sum(axis=0))[:n_resamples]


def _add_product(sums: Any, values: Any, weights: Any) -> None:
    """Add valuesᵀ · weights to the sums, in pieces that BLAS computes in one thread.

    Its threads spin while they wait; together with the threads of Polars, this takes twenty times
    as long.
    """
    step = max(1, _ONE_THREAD // values.size)
    for start in range(0, weights.shape[1], step):
        stop = start + step
        sums[:, start:stop] += values.T @ weights[:, start:stop]


def all_sign_sums(values: Any) -> Any:
    """Return the sums of a few values with each choice of signs."""
    np = numpy()
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


def _poisson_counts(np: Any) -> Any:
    """Return the Poisson(1) variate of each number of 16 bits."""
    steps = [sum(math.exp(-1) / math.factorial(j) for j in range(k + 1)) for k in range(9)]
    numbers = np.arange(2**16)
    return sum((numbers >= round(2**16 * step)).astype(np.float64) for step in steps)


def _hashes(np: Any, keys: Any, words: int, seed: int) -> Any:
    """Return random words for each key: splitmix64 as a hash."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = mixed(keys.astype(np.uint64) + np.uint64(seed * _ODD % 2**64))
    steps = np.arange(1, words + 1, dtype=np.uint64) * golden
    return mixed(start[:, None] + steps[None, :])


_ODD = 0xD6E8FEB86659FD93
