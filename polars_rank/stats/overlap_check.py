"""Samples of rankings that moments contain, to find rankings that are in two parts.

Two parts of a log must not have a ranking in common. The moments of each part contain

- the keys of its first and its last ranking in the order of the keys: if a sorted log is split
  within a ranking, it is the last of one part and the first of another;
- a sample of keys: those with the lowest of each of 32 hashes (Broder, On the resemblance and
  containment of documents, 1997). If a share j of the rankings of two parts is in both, a ranking
  is in both samples with a probability of 1 - (1 - j)^32. This is 1 if a part is merged twice, and
  close to 1 if the rows of an unsorted log were split into parts.

The samples of several parts can be merged to the sample of their union. If rankings form clusters,
the keys are those of clusters. The samples also show whether groups, such as days, have the same
queries, which are not new queries if the groups are pooled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError, warn
from polars_rank.stats.per_query_tables import without

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Keys of rankings as text, and the type of the columns of keys: equal ids of different types have
#: different keys.
COLUMNS = {
    "ranking_type": pl.String(),
    "first_ranking": pl.String(),
    "last_ranking": pl.String(),
    "sampled_rankings": pl.List(pl.String),
}

#: Column of the part of each row.
PART = OWN + "part"

_TYPE, _FIRST, _LAST, _SAMPLE = map(pl.col, COLUMNS)
_KEY, _NAME, _HASH = OWN + "key", OWN + "name", OWN + "hash"
_TWICE, _OTHER, _REPEATED = OWN + "twice", OWN + "other part", OWN + "repeated"
#: Columns of `of_pooled`.
POOLED = ("ranking_type", _REPEATED)
#: Columns of `with_names`.
NAMES = (_KEY, _NAME, _HASH)
_SEEDS = range(32)
_LEAST = [f"{OWN}least {seed}" for seed in _SEEDS]

#: A number that is added to integers, so that their texts have `_DIGITS` digits and sort like the
#: integers; the separator between the columns of a key; the maximum length of a key in a sample.
_ABOVE, _DIGITS, _SEPARATOR, _LONGEST = 2 * 10**19, 20, "\x1f", 64


def with_names(
    rankings: pl.LazyFrame, query: Sequence[str], schema: pl.Schema, *, clusters: bool = False
) -> pl.LazyFrame:
    """Add the key of each ranking as text, if the table has the columns of the query.

    A ranking without a cluster has no key.
    """
    if not query or any(name not in schema for name in query):
        return rankings
    key = pl.concat_str([_text(name, schema[name]) for name in query], separator=_SEPARATOR)
    if clusters:
        key = pl.when(pl.all_horizontal(pl.col(*query).is_not_null())).then(key)
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


def type_of(query: Sequence[str], schema: pl.Schema) -> str | None:
    """Return the types of the columns of a key as text, if the table has the columns."""
    if not query or any(name not in schema for name in query):
        return None
    return ", ".join(_kind(schema[name]) for name in query)


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "integer"
    return "text" if dtype in (pl.String, pl.Categorical, pl.Enum) else str(dtype)


def of_rankings(schema: pl.Schema, *, clusters: bool = False) -> list[pl.Expr]:
    """Return the aggregations for the keys of a group; those of clusters may be null."""
    if _NAME not in schema:
        return []
    name = pl.col(_NAME)
    hashes = (pl.col(_HASH).hash(seed) for seed in _SEEDS)
    if clusters:  # the hash of null is a number
        hashes = (pl.when(name.is_not_null()).then(each) for each in hashes)
    least = (name.min_by(each) for each in hashes)
    return [
        pl.col(_KEY).min().alias("first_ranking"),
        pl.col(_KEY).max().alias("last_ranking"),
        *(each.alias(column) for column, each in zip(_LEAST, least, strict=True)),
    ]


def kept(schema: pl.Schema, of_type: str | None = None) -> list[pl.Expr]:
    """Return the columns of moments from the aggregations of `of_rankings`."""
    if _LEAST[0] not in schema:
        return unknown()
    kind = pl.lit(of_type, dtype=pl.String).alias("ranking_type")
    return [kind, _FIRST, _LAST, _set(pl.concat_list(_LEAST))]


def unknown(*there: str) -> list[pl.Expr]:
    """Return nulls for the columns of moments, except for those in `there`."""
    columns = {name: dtype for name, dtype in COLUMNS.items() if name not in there}
    return [pl.lit(None, dtype=dtype).alias(name) for name, dtype in columns.items()]


def of_parts() -> list[pl.Expr]:
    """Return the aggregations for the keys of several parts."""
    types = _TYPE.drop_nulls().unique().sort()
    return [types, _FIRST.min(), _LAST.max(), _SAMPLE.explode().drop_nulls().unique()]


def of_pooled(one_run: pl.Expr) -> list[pl.Expr]:
    """Return the aggregations for groups that are pooled: types, and a query in several of them.

    Rows count for which `one_run` is true: a query may occur in several runs.
    """
    each = _SAMPLE.filter(one_run).explode(empty_as_null=False)
    repeated = each.filter(each.is_duplicated() & each.is_not_null()).first()
    return [_TYPE.drop_nulls().unique().sort(), repeated.alias(_REPEATED)]


def with_twice(
    added: pl.LazyFrame, tables: pl.LazyFrame, groups: Sequence[str], apart: Sequence[str]
) -> pl.LazyFrame:
    """Add a ranking that is in two parts of a group, and one that is in two groups.

    `groups` are the columns that identify groups, and those of them in `apart` may be pooled.
    """
    edges = (_short(edge) for edge in (_FIRST, _LAST))
    names = pl.concat_list(_SAMPLE.fill_null([]), *edges).list.drop_nulls()
    each = tables.select(*groups, PART, names.alias(_NAME)).explode(_NAME, empty_as_null=False)
    several = each.group_by(*groups, _NAME, maintain_order=True).agg(
        pl.col(PART).min(), pl.col(PART).max().alias(_OTHER)
    )
    several = several.cache() if apart else several
    both = several.filter(pl.col(PART) != pl.col(_OTHER))
    twice = both.select(pl.struct(pl.all()).first().alias(_TWICE))
    result = added.join(twice, how="cross", maintain_order="left")
    if not apart:
        return result.with_columns(pl.lit(None, dtype=pl.String).alias(_REPEATED))
    others = [name for name in groups if name not in apart]
    in_groups = several.group_by(*others, _NAME, maintain_order=True).agg(pl.len().alias(_OTHER))
    repeated = in_groups.filter(pl.col(_OTHER) > 1).select(pl.col(_NAME).first().alias(_REPEATED))
    return result.join(repeated, how="cross", maintain_order="left")


def sampled(merged: pl.LazyFrame) -> pl.LazyFrame:
    """Return the sample of the union of parts from their samples."""
    name = pl.element()
    least = (
        _SAMPLE.list.eval(name.min_by(name.hash(0).hash(seed)).drop_nulls()) for seed in _SEEDS
    )
    return merged.with_columns(_TYPE.list.first(), _set(pl.concat_list(*least)))


def check(
    table: pl.DataFrame, by: Sequence[str], apart: Sequence[str], *, clusters: bool
) -> pl.DataFrame:
    """Raise `DataError` if a ranking is in two parts; return the table without that column.

    Clusters in two parts, and queries in several groups, lead to warnings.
    """
    check_types(table)
    twice: dict[str, Any] | None = table.get_column(_TWICE)[0] if table.height else None
    if twice is not None and twice[_NAME] is not None:
        first, second, name = twice[PART], twice[_OTHER], _shown(twice[_NAME])
        group = "".join(f", {key} = {twice[key]!r}" for key in by)
        if not clusters:
            raise DataError(
                f"the ranking of query {name}{group} is in two parts, {first} and {second}; merge "
                "each part once, split logs only between queries, and if parts have different "
                "rankings of the same query, add a column that distinguishes them, such as the "
                "day, to `by` of `moments`"
            )
        warn(
            f"the cluster {name}{group} is in two parts, {first} and {second}, and counts as two "
            "clusters: standard errors, intervals and p-values are too small; merge each part "
            "once, and split logs only between clusters"
        )
    if table.height and (name := table.get_column(_REPEATED)[0]) is not None:
        of_groups = ", ".join(map(repr, apart))
        warn(
            f"the same {_units(clusters)}, e.g. {_shown(name)}, occur in several groups (by "
            f"{of_groups}). {_remedy('If these groups are pooled later', apart, clusters)}"
        )
    return without(table, _TWICE, _REPEATED)


def check_pooled(table: pl.DataFrame, apart: Sequence[str], *, clusters: bool) -> pl.DataFrame:
    """Warn if groups with the same queries were pooled; return the table without the columns."""
    check_types(table)
    known = [name for name in table.get_column(_REPEATED) if name is not None]
    if known:
        of_groups = ", ".join(map(repr, apart))
        warn(
            f"the same {_units(clusters)}, e.g. {_shown(known[0])}, occur in several of the groups "
            f"that are pooled (by {of_groups}). {_remedy('Then', apart, clusters)}"
        )
    return without(table, *POOLED)


def _units(clusters: bool) -> str:  # noqa: FBT001
    return "clusters" if clusters else "queries"


def _remedy(then: str, apart: Sequence[str], clusters: bool) -> str:  # noqa: FBT001
    """Return what repeated queries do to statistics, and what to do about it."""
    if clusters:
        return (
            f"{then}, repeated clusters count as new ones, and intervals are too narrow; compute "
            "`moments` of all rows of a cluster together, without these groups"
        )
    columns = ", ".join(f'"{name}"' for name in apart)
    return (
        f"{then}, repeated queries count as new ones, and intervals are too narrow: average the "
        "values of each query over the groups first, or pass per-query values with "
        f'query=["query", {columns}] and cluster="query". If equal ids stand for different '
        "queries, add the group to the ids"
    )


def check_types(table: pl.DataFrame) -> None:
    """Raise `DataError` if ids have different types, so that equal ids have different keys."""
    types = {each for row in table.get_column("ranking_type") for each in row}
    if len(types) > 1:
        raise DataError(
            f"moments with ids of different types cannot be merged: {', '.join(sorted(types))}; "
            "equal ids of different types count as different queries. Compute the moments with "
            "ids of one type"
        )


def _shown(name: str) -> str:
    """Return the values of the columns of a key as text."""
    values = name.split(_SEPARATOR)
    return ", ".join(
        str(int(value) - _ABOVE) if value.isdecimal() and len(value) == _DIGITS else repr(value)
        for value in values
    )


def _set(names: pl.Expr) -> pl.Expr:
    return names.list.drop_nulls().list.unique().list.sort().alias("sampled_rankings")
