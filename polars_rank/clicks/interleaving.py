"""`team_draft` and `balanced_interleaving`: merged rankings of several rankers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from hashlib import shake_256
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast, overload

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    free,
    integer,
    names,
    public,
    whole_number,
)
from polars_rank.checks import FAILED, checks_of, failed, refuse_failed
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, SchemaError, short
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import as_table, collected, is_table, lazy, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from polars_rank.frames.tables import Table

__all__ = ["balanced_interleaving", "team_draft"]

#: The documents of each ranker, best first.
Docs: TypeAlias = "list[list[Hashable]]"
#: The documents to show, in order → the number of the ranker that contributed the document.
Shown: TypeAlias = "dict[Hashable, int]"

_TEAM, _DOCS, _KEY = (OWN + name for name in ("team", "docs", "key"))
#: Errors in a ranking → remedies.
_REMEDIES = {
    "null query ids": "drop these rows or give them an id",
    "null document ids": "drop these rows or give them an id",
    "NaN scores": "use null for 'unknown'",
    "duplicate documents in a ranking": (
        "name all columns that identify a ranking with query=[...], or drop duplicates with "
        ".unique()"
    ),
}
#: Additional random bits, with which all orders of rankers are almost equally likely.
_EXTRA_BITS = 64


class _Interleave(Protocol):
    """An interleaving function: LazyFrames give a LazyFrame, other tables a DataFrame."""

    @overload
    def __call__(
        self, a: pl.LazyFrame, b: Any, /, k: int = 10, seed: int = 0, **columns: Any
    ) -> pl.LazyFrame: ...
    @overload
    def __call__(
        self, a: Table, b: Table, /, k: int = 10, seed: int = 0, **columns: Any
    ) -> pl.DataFrame: ...
    @overload
    def __call__(
        self, a: Any, b: Any = None, k: int = 10, seed: int = 0, **columns: Any
    ) -> Any: ...


def _interleave(function: Callable[..., Any]) -> _Interleave:
    """Return the function with the types of `_Interleave`."""
    return cast("_Interleave", function)


@public
@_interleave
def team_draft(
    a: Any,
    b: Any = None,
    k: int = 10,
    seed: int = 0,
    *,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    position: str | None = None,
) -> Any:
    """Interleave the rankings of two or more rankers by team draft.

    In each round, the rankers take turns in a random order, and each adds its best document that is
    not yet in the merged ranking. The ranker with more clicks on its documents wins the ranking;
    see `interleaving_result`.

    Examples
    --------
    >>> old = pl.DataFrame({
    ...     "query": 1, "doc": ["x", "y", "z"], "score": [3.0, 2.0, 1.0],
    ... })
    >>> new = pl.DataFrame({
    ...     "query": 1, "doc": ["y", "w", "x"], "score": [3.0, 2.0, 1.0],
    ... })
    >>> pr.clicks.team_draft(old, new, 3, seed=1)
    shape: (3, 4)
    ┌───────┬──────────┬─────┬──────┐
    │ query ┆ position ┆ doc ┆ team │
    │ ---   ┆ ---      ┆ --- ┆ ---  │
    │ i32   ┆ u32      ┆ str ┆ str  │
    ╞═══════╪══════════╪═════╪══════╡
    │ 1     ┆ 1        ┆ x   ┆ a    │
    │ 1     ┆ 2        ┆ y   ┆ b    │
    │ 1     ┆ 3        ┆ z   ┆ a    │
    └───────┴──────────┴─────┴──────┘

    Parameters
    ----------
    a, b
        Tables of rankings with a column "rank", as added by `rank`, or with scores. Documents with
        a null rank or score are not retrieved. For any number of rankers, pass a single list of
        tables, or a mapping from the names of the rankers to their tables.
    k
        Number of documents to show, at least 1.
    seed
        Random seed. Draws are a hash of the seed and the query: the same arguments give the same
        rankings on every machine, and other queries do not change the ranking of a query.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better. Tied scores are ordered by document id descending, as
        in `rank`.
    position
        Column of the position, 1 first; replaces `score`.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if any table is one; sorted by query, with the `query` columns, `position` from
        1, `doc`, and `team`, the ranker that contributed the document: "a", "b", ... in the order
        of the tables, or its name in the mapping.

    Raises
    ------
    SchemaError
        If the ids of one ranker are text and those of another are numbers.
    DataError
        If a query or document is null, a score is NaN, or a ranking has duplicate documents; raised
        when the result is collected.

    Notes
    -----
    If a ranker has no documents left, the others continue until there are k documents. If a query
    is missing for a ranker, its ranking has only documents of the others.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Schuth et al., Multileaved comparisons for fast online evaluation, 2014.
    """
    rankers, columns = _rankers(a, b), _Columns.of(query, doc, score, position, k, seed)
    rounds = k + len(rankers)
    bits = rounds * math.ceil(math.log2(math.factorial(len(rankers)))) + _EXTRA_BITS
    return _interleaved(rankers, partial(_team_draft, k=k), bits, columns)


@public
@_interleave
def balanced_interleaving(
    a: Any,
    b: Any = None,
    k: int = 10,
    seed: int = 0,
    *,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    position: str | None = None,
) -> Any:
    """Interleave the rankings of two rankers by balanced interleaving.

    The rankers take turns, and each adds the next document of its ranking unless it is already in
    the merged ranking. The first ranker is drawn at random.

    Examples
    --------
    >>> old = pl.DataFrame({
    ...     "query": 1, "doc": ["x", "y", "z"], "score": [3.0, 2.0, 1.0],
    ... })
    >>> new = pl.DataFrame({
    ...     "query": 1, "doc": ["y", "w", "x"], "score": [3.0, 2.0, 1.0],
    ... })
    >>> pr.clicks.balanced_interleaving(old, new, 3, seed=1)
    shape: (3, 6)
    ┌───────┬──────────┬─────┬──────┬────────┬────────┐
    │ query ┆ position ┆ doc ┆ team ┆ rank_a ┆ rank_b │
    │ ---   ┆ ---      ┆ --- ┆ ---  ┆ ---    ┆ ---    │
    │ i32   ┆ u32      ┆ str ┆ str  ┆ u32    ┆ u32    │
    ╞═══════╪══════════╪═════╪══════╪════════╪════════╡
    │ 1     ┆ 1        ┆ x   ┆ a    ┆ 1      ┆ 3      │
    │ 1     ┆ 2        ┆ y   ┆ b    ┆ 2      ┆ 1      │
    │ 1     ┆ 3        ┆ w   ┆ b    ┆ null   ┆ 2      │
    └───────┴──────────┴─────┴──────┴────────┴────────┘

    Parameters
    ----------
    a, b
        Tables of rankings with a column "rank", as added by `rank`, or with scores. Documents with
        a null rank or score are not retrieved. Alternatively, pass a single list of two tables, or
        a mapping from the names of the rankers to their tables.
    k
        Number of documents to show, at least 1.
    seed
        Random seed. Draws are a hash of the seed and the query: the same arguments give the same
        rankings on every machine, and other queries do not change the ranking of a query.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better. Tied scores are ordered by document id descending, as
        in `rank`.
    position
        Column of the position, 1 first; replaces `score`.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if any table is one; sorted by query, with the `query` columns, `position` from
        1, `doc`, `team`, the ranker that contributed the document ("a" or "b", or its name in the
        mapping), and the rank of the document by each ranker, `rank_a` and `rank_b`, null below
        rank k.

    Raises
    ------
    SchemaError
        If the ids of one ranker are text and those of another are numbers.
    DataError
        If a query or document is null, a score is NaN, or a ranking has duplicate documents; raised
        when the result is collected.

    Notes
    -----
    Most documents are in both rankings, so `team` contains little information. As in the paper by
    Joachims, `interleaving_result(..., ranks=...)` compares the numbers of clicked documents in the
    top ranks of each ranker. If one ranking is the other shifted by one position, even
    random clicks favor one ranker; `team_draft` has no such bias.

    References
    ----------
    Joachims, Evaluating retrieval performance using clickthrough data, 2003; Chapelle, Joachims,
    Radlinski & Yue, Large-scale validation and analysis of interleaved search evaluation, 2012.
    """
    rankers = _rankers(a, b)
    if len(rankers) != len("ab"):
        raise ArgumentError(
            f"balanced interleaving needs two rankers; found {len(rankers)}; use team_draft"
        )
    columns = _Columns.of(query, doc, score, position, k, seed)
    return _interleaved(rankers, partial(_balanced, k=k), 1, columns, ranks=True)


def _team_draft(docs: Docs, bits: int, k: int) -> Shown:
    """Return the documents chosen in rounds, in which the rankers take turns in a random order."""
    shown: Shown = {}
    rest = [iter(each) for each in docs]
    remaining = set(range(len(docs)))
    while remaining:
        bits, order = _order(bits, len(docs))
        for team in order:
            best = next((doc for doc in rest[team] if doc not in shown), None)
            if best is None:
                remaining.discard(team)
                continue
            shown[best] = team
            if len(shown) == k:
                return shown
    return shown


def _balanced(docs: Docs, bits: int, k: int) -> Shown:
    """Return the documents taken alternately from both rankings."""
    shown: Shown = {}
    for rank in range(k):
        for team in (bits & 1, 1 - (bits & 1)):
            if rank < len(docs[team]) and len(shown) < k:
                shown.setdefault(docs[team][rank], team)
    return shown


def _order(bits: int, count: int) -> tuple[int, list[int]]:
    """Return the remaining random bits and a random permutation of range(count)."""
    remaining, order = [*range(count)], []
    while remaining:
        bits, index = divmod(bits, len(remaining))
        order.append(remaining.pop(index))
    return bits, order


def _rankers(a: Any, b: Any) -> dict[str, Any]:
    """Return the tables of the rankers by name."""
    if isinstance(a, Mapping) and b is None:
        rankers = dict(a)
    else:
        tables = [*a] if isinstance(a, (list, tuple)) and b is None else [a, b]
        rankers = dict(zip(ascii_lowercase, tables, strict=False))
        if len(tables) > len(rankers):
            raise ArgumentError(
                f"{len(tables)} rankers need names; pass a mapping from names to tables as `a`"
            )
    for name, table in rankers.items():
        if not isinstance(name, str):
            raise ArgumentError(f"`a` must have strings as names of rankers; found {short(name)}")
        if table is not None and not is_table(table):
            as_table(table, "b" if table is b else "a")  # raises the error
    if len(rankers) < len("ab") or any(table is None for table in rankers.values()):
        raise ArgumentError(
            "interleaving needs the tables of two or more rankers: `a` and `b`, or as `a` a list, "
            f"or a mapping from their names; found {len(rankers) - (b is None)}"
        )
    return rankers


def _interleaved(
    rankers: Mapping[str, Any],
    choose: Callable[[Docs, int], Shown],
    bits: int,
    columns: _Columns,
    *,
    ranks: bool = False,
) -> Any:
    """Return the interleaved rankings."""
    tables = [lazy(table) for table in rankers.values()]
    schemas = {name: schema_of(table) for name, table in zip(rankers, tables, strict=True)}
    for name, schema in schemas.items():
        columns.check(name, schema)
    types = {name: _common(name, schemas) for name in (*columns.query, columns.doc)}
    lists = pl.concat(
        [
            columns.lists(table.cast(types), number)  # type: ignore[arg-type]
            for number, table in enumerate(tables)
        ]
    )
    together = (
        lists.with_columns(columns.seed_key)
        .sort(columns.query)
        .set_sorted([*columns.query])
        .group_by(columns.query, maintain_order=True)
        .agg(pl.col(_KEY).first(), pl.col(FAILED).max(), pl.col(_TEAM, _DOCS))
    )
    schema = schema_of(lists.explode(_DOCS))
    places = {f"rank_{name}": pl.UInt32() for name in rankers if ranks}
    result_schema = {
        **{name: schema[name] for name in columns.query},
        "position": pl.UInt32(),
        columns.doc: schema[_DOCS],
        "team": pl.String(),
        **places,
    }
    shown = partial(_shown, choose=choose, bits=bits, rankers=[*rankers], schema=result_schema)
    plan = together.map_batches(shown, schema=result_schema, streamable=True)
    is_lazy = any(isinstance(table, pl.LazyFrame) for table in rankers.values())
    return plan if is_lazy else collected(plan)


def _common(column: str, schemas: Mapping[str, pl.Schema]) -> pl.DataType:
    """Return the common type of the ids of all rankers; raise `SchemaError` if there is none."""
    (first, schema), *others = schemas.items()
    common = schema[column]
    for ranker, other in others:
        shared = common_type(common, other[column])
        if shared is None:
            raise SchemaError(
                f"column {column!r} is {schema[column]} in the table of the ranker {first!r} and "
                f"{other[column]} in the table of {ranker!r}, so no ids would match; cast one of "
                f"them, e.g. with .cast({{{column!r}: pl.{schema[column]}}})"
            )
        common = shared
    return common


class _Columns(NamedTuple):
    """The columns of the rankers' tables, and the parameters of interleaving."""

    query: tuple[str, ...]
    doc: str
    score: str
    position: str | None
    k: int
    seed: int

    @classmethod
    def of(
        cls, query: Names, doc: str, score: str, position: str | None, k: int, seed: int
    ) -> _Columns:
        """Return the columns; raise `ArgumentError` for an invalid parameter."""
        columns = cls(
            names("query", query),
            doc,
            score,
            position,
            whole_number("k", k),
            integer("seed", seed),
        )
        free([*columns.query, doc], ["position", "team"], "query")
        return columns

    def place(self, schema: pl.Schema) -> str | None:
        """Return the column of ranks from 1; None if documents are ordered by score."""
        return ("rank" if "rank" in schema else None) if self.position is None else self.position

    def check(self, ranker: str, schema: pl.Schema) -> None:
        """Raise `SchemaError` for a missing column or ranks that are not numeric."""
        place = self.place(schema)
        order = {"score": self.score} if place is None else {"position": place}
        roles = {"query": self.query, "doc": self.doc, **order}
        Columns.find(schema, roles, table=f"the table of the ranker {ranker!r}")

    def lists(self, table: pl.LazyFrame, number: int) -> pl.LazyFrame:
        """Return the top documents of each ranking of a ranker."""
        place = self.place(schema_of(table))
        order = pl.col(self.score if place is None else place)
        docs = pl.col(self.doc)
        conditions = (
            pl.any_horizontal(pl.col(name).is_null() for name in self.query).any(),
            docs.is_null().any(),
            order.cast(pl.Float64).is_nan().any(),
            docs.n_unique() < pl.len(),
        )
        checks = checks_of("ranking", dict(zip(_REMEDIES, conditions, strict=True)))
        best = pl.col(self.doc).sort_by([order, self.doc], descending=[place is None, True])
        return (
            table.sort(self.query)
            .filter(order.is_not_null())
            .select(*self.query, self.doc, order)
            .set_sorted([*self.query])
            .group_by(self.query, maintain_order=True)
            .agg(best.head(self.k).alias(_DOCS), failed(checks, "ranking"))
            .with_columns(pl.lit(number, dtype=pl.UInt32).alias(_TEAM))
        )

    @property
    def seed_key(self) -> pl.Expr:
        """The text that is hashed to draw random bits for a ranking."""
        keys = (pl.col(name).cast(pl.String).fill_null("") for name in self.query)
        return pl.concat_str(pl.lit(str(self.seed)), *keys, separator="\x1f").alias(_KEY)


def _shown(
    lists: pl.DataFrame,
    choose: Callable[[Docs, int], Shown],
    bits: int,
    rankers: Sequence[str],
    schema: Mapping[str, pl.DataType],
) -> pl.DataFrame:
    """Return the interleaved rankings of a batch of queries."""
    query = [name for name in lists.columns if not name.startswith(OWN)]
    checks = checks_of("ranking", dict.fromkeys(_REMEDIES, pl.lit(value=True)))
    refuse_failed(lists.select(*query, FAILED), checks, _REMEDIES)
    position, doc, team, *ranks = (name for name in schema if name not in query)
    values: dict[str, list[Any]] = {name: [] for name in schema}
    rows: list[int] = []
    for row, (key, teams, known) in enumerate(lists.select(_KEY, _TEAM, _DOCS).iter_rows()):
        docs: Docs = [[] for _ in rankers]
        for number, each in zip(teams, known, strict=True):
            if docs[number]:
                raise DataError(
                    f"the rows of the ranker {rankers[number]!r} are not sorted by query, although "
                    "the column is flagged as sorted (set_sorted); sort them"
                )
            docs[number] = each
        random_bytes = shake_256(key.encode()).digest((bits + 7) // 8)
        shown = choose(docs, int.from_bytes(random_bytes, "big"))
        rows += [row] * len(shown)
        values[position] += range(1, len(shown) + 1)
        values[doc] += shown
        values[team] += (rankers[number] for number in shown.values())
        for name, each in zip(ranks, docs, strict=False):
            places = {other: rank for rank, other in reversed([*enumerate(each, 1)])}
            values[name] += map(places.get, shown)
    columns = [
        pl.Series(name, values[name], dtype=schema[name]) for name in (position, doc, team, *ranks)
    ]
    return lists.select(query)[rows].with_columns(columns)
