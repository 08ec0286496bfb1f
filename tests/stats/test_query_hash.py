"""Hashes of queries decide samples and folds, which must be the same in all versions."""

from __future__ import annotations

import numpy as np
import polars as pl

# No public function shows the bits.
from polars_rank.stats.query_hash import mixed, query_key

GAMMA = 0x9E3779B97F4A7C15


def test_bits_are_those_of_splitmix64() -> None:
    """The first numbers of Vigna's generator with the seed 0."""
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC]
    states = np.array([GAMMA * place % 2**64 for place in (1, 2, 3, 4)], dtype=np.uint64)
    assert mixed(states).tolist() == expected
    assert pl.select(mixed(pl.Series(states))).to_series().to_list() == expected


def test_integers_are_their_own_keys() -> None:
    for dtype, values, keys in (
        (pl.UInt64, [0, 7, None], [0, 7, 2**64 - 1]),
        (pl.Int8, [-1, 7, None], [2**64 - 1, 7, 2**64 - 1]),
    ):
        table = pl.DataFrame({"query": pl.Series(values, dtype=dtype)})
        assert table.select(query_key(["query"], table.schema)).to_series().to_list() == keys
    table = pl.DataFrame({"query": ["a", "b"], "user": ["b", "a"]})
    one, other = (
        table.select(query_key(names, table.schema)).to_series().to_list()
        for names in (["query", "user"], ["user", "query"])
    )
    assert one != other
