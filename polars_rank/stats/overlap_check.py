"""Samples of rankings that moments contain, to find rankings that are in two parts.

Two parts of a log must not have a ranking in common. The moments of each part contain

- the keys of its first and its last ranking in the order of the keys: if a sorted log is split
  within a ranking, it is the last of one part and the first of another;
- a sample of keys: those with the lowest of each of 32 hashes (Broder, On the resemblance and
  containment of documents, 1997). If a share j of the rankings of two parts is in both, a ranking
  is in both samples with a probability of 1 - (1 - j)^32. This is 1 if a part is merged twice, and
  close to 1 if the rows of an unsorted log were split into parts.

The samples of several parts can be merged to the sample of their union.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Keys of rankings as text.
COLUMNS = {
    "first_ranking": pl.String(),
    "last_ranking": pl.String(),
    "sampled_rankings": pl.List(pl.String),
}

#: Column of the part of each row.
PART = OWN + "part"

_FIRST, _LAST, _SAMPLE = map(pl.col, COLUMNS)
_KEY, _NAME, _HASH = OWN + "key", OWN + "name", OWN + "hash"
_TWICE, _OTHER = OWN + "twice", OWN + "other part"
#: Columns of `with_names`.
NAMES = (_KEY, _NAME, _HASH)
_SEEDS = range(32)
_LEAST = [f"{OWN}least {seed}" for seed in _SEEDS]

#: A number that is added to integers, so that their texts have `_DIGITS` digits and sort like the
#: integers; the separator between the columns of a key; the maximum length of a key in a sample.
_ABOVE, _DIGITS, _SEPARATOR, _LONGEST = 2 * 10**19, 20, "\x1f", 64


def with_names(rankings: pl.LazyFrame, query: Sequence[str], schema: pl.Schema) -> pl.LazyFrame:
    """Add the key of each ranking as text, if the table has the columns of the query."""
    if not query or any(name not in schema for name in query):
        return rankings
    key = pl.concat_str([_text(name, schema[name]) for name in query], separator=_SEPARATOR)
    named = rankings.with_columns(key.alias(_KEY)).with_columns(_short(pl.col(_KEY)).alias(_NAME))
    return named.with_columns(pl.col(_NAME).hash(0).alias(_HASH))


def _short(key: pl.Expr) -> pl.Expr:
    """Return text of bounded length that is different for different keys."""
    short = pl.concat_str(key.str.head(_LONGEST), pl.lit("... #"), key.hash(0).cast(pl.String))
    return pl.when(key.str.len_bytes() > _LONGEST).then(short).otherwise(key)


def _text(name: str, dtype: pl.DataType) -> pl.Expr:
    column = pl.col(name)
    if dtype.is_integer() or dtype == pl.Duration:
        text = (column.cast(pl.Int128) + pl.lit(_ABOVE, dtype=pl.Int128)).cast(pl.String)
    elif dtype == pl.Binary:
        text = column.bin.encode("hex")
    else:
        text = (column.hash(0) if dtype.is_nested() else column).cast(pl.String)
    return text.fill_null("")


def of_rankings(schema: pl.Schema) -> list[pl.Expr]:
    """Return the aggregations for the keys of a group."""
    if _NAME not in schema:
        return []
    name = pl.col(_NAME)
    least = (name.min_by(pl.col(_HASH).hash(seed)) for seed in _SEEDS)
    return [
        pl.col(_KEY).min().alias("first_ranking"),
        pl.col(_KEY).max().alias("last_ranking"),
        *(each.alias(column) for column, each in zip(_LEAST, least, strict=True)),
    ]


def kept(schema: pl.Schema) -> list[pl.Expr]:
    """Return the columns of moments from the aggregations of `of_rankings`."""
    if _LEAST[0] not in schema:
        return unknown()
    return [_FIRST, _LAST, _set(pl.concat_list(_LEAST))]


def unknown(*there: str) -> list[pl.Expr]:
    """Return nulls for the columns of moments, except for those in `there`."""
    columns = {name: dtype for name, dtype in COLUMNS.items() if name not in there}
    return [pl.lit(None, dtype=dtype).alias(name) for name, dtype in columns.items()]


def of_parts() -> list[pl.Expr]:
    """Return the aggregations for the keys of several parts."""
    return [_FIRST.min(), _LAST.max(), _SAMPLE.explode().drop_nulls().unique()]


def with_twice(added: pl.LazyFrame, tables: pl.LazyFrame, groups: Sequence[str]) -> pl.LazyFrame:
    """Add a ranking that is in two parts of a group, if there is one."""
    edges = (_short(edge) for edge in (_FIRST, _LAST))
    names = pl.concat_list(_SAMPLE.fill_null([]), *edges).list.drop_nulls()
    each = tables.select(*groups, PART, names.alias(_NAME)).explode(_NAME, empty_as_null=False)
    several = each.group_by(*groups, _NAME, maintain_order=True).agg(
        pl.col(PART).min(), pl.col(PART).max().alias(_OTHER)
    )
    both = several.filter(pl.col(PART) != pl.col(_OTHER))
    twice = both.select(pl.struct(pl.all()).first().alias(_TWICE))
    return added.join(twice, how="cross", maintain_order="left")


def sampled(merged: pl.LazyFrame) -> pl.LazyFrame:
    """Return the sample of the union of parts from their samples."""
    name = pl.element()
    least = (
        _SAMPLE.list.eval(name.min_by(name.hash(0).hash(seed)).drop_nulls()) for seed in _SEEDS
    )
    return merged.with_columns(_set(pl.concat_list(*least)))


def check(table: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Raise `DataError` if a ranking is in two parts; return the table without that column."""
    twice: dict[str, Any] | None = table.get_column(_TWICE)[0] if table.height else None
    if twice is not None and twice[_NAME] is not None:
        first, second = twice[PART], twice[_OTHER]
        group = "".join(f", {key} = {twice[key]!r}" for key in by)
        raise DataError(
            f"the ranking of query {_shown(twice[_NAME])}{group} is in two parts, {first} and "
            f"{second}; merge each part once, split logs only between queries, and if parts have "
            "different rankings of the same query, add a column that distinguishes them, such as "
            "the day, to `by` of `moments`"
        )
    return pl.DataFrame([column for column in table.get_columns() if column.name != _TWICE])


def _shown(name: str) -> str:
    """Return the values of the columns of a key as text."""
    values = name.split(_SEPARATOR)
    return ", ".join(
        str(int(value) - _ABOVE) if value.isdecimal() and len(value) == _DIGITS else repr(value)
        for value in values
    )


def _set(names: pl.Expr) -> pl.Expr:
    return names.list.drop_nulls().list.unique().list.sort().alias("sampled_rankings")
