"""Interleaving: one list to show made of those of several rankers, and whose each document is."""

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
    find_columns,
    free,
    names,
    whole_number,
)
from polars_rank.errors import ArgumentError, DataError, SchemaError
from polars_rank.evaluation.checks import FAILED, checks_of, failed, refuse_failed
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.io.ids import common_type

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from polars_rank.frames.tables import Table

__all__ = ["balanced_interleaving", "team_draft"]

#: The list of each ranker, best first.
Docs: TypeAlias = "list[list[Hashable]]"
#: The documents to show, in order, each with the number of the ranker that put it there.
Shown: TypeAlias = "dict[Hashable, int]"

_TEAM, _DOCS, _KEY = (OWN + name for name in ("team", "docs", "key"))
#: What may be wrong with the list of a ranker → what to do about it.
_REMEDIES = {
    "null among queries": "drop these rows or give them an id",
    "null among documents": "drop these rows or give them an id",
    "NaN among scores": "use null for 'unknown'",
    "a document comes twice in the list of a ranker": (
        "name all columns that tell lists apart with query=[...], or drop one with .unique()"
    ),
}
#: Random bits beyond those that the orders of all rounds take, so that each is as likely.
_SPARE = 64


class _Interleave(Protocol):
    """Make lists of those of rankers: LazyFrames give a LazyFrame, other tables a DataFrame."""

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
    """Say what types the result has."""
    return cast("_Interleave", function)


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
    """Interleave the lists of two or more rankers by team draft.

    As captains choose players: in each round every ranker, in an order drawn anew, puts the best of
    its documents that is not yet there on the list. Who gets more clicks on its documents, wins
    the list: `interleaving_result`.

    Parameters
    ----------
    a, b
        The ranked tables: with a column "rank" as `rank` adds it, or with scores; documents of a
        null rank or score are not retrieved. Or one argument for two rankers or more: the tables
        in a list, or in a mapping from the names of the rankers.
    k
        How many documents to show, at least 1.
    seed
        Any whole number. The draws are a hash of it and the query: the same arguments give the
        same lists, on every machine, and a query its list whatever others there are.
    query, doc, score
        Names of the columns; `query` may be several. Tied scores are ordered by document
        descending, as `rank` orders them.
    position
        In place of `score`: the column of positions, 1 first.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if a table is one; sorted by query, with the `query` columns, `position` from
        1, `doc`, and `team`: "a", "b", ... by the place of the ranker's table, or its name in the
        mapping.

    Raises
    ------
    SchemaError
        For a missing column, scores that are not numbers, or ids of which those of one ranker are
        text and those of another numbers.
    ArgumentError
        For fewer than two rankers, or a parameter out of its range.
    DataError
        For a null query or document, a NaN among the scores, a document that comes twice in a
        list; lazily, when the result is collected.

    Notes
    -----
    A ranker all of whose documents are on the list passes, and the others go on until there are k:
    it has fewer documents to be clicked. A query that one ranker does not know is all the others'.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Schuth et al., Multileaved comparisons for fast online evaluation, 2014.

    Examples
    --------
    >>> old = pl.DataFrame({"query": 1, "doc": ["x", "y", "z"], "score": [3.0, 2.0, 1.0]})
    >>> new = pl.DataFrame({"query": 1, "doc": ["y", "w", "x"], "score": [3.0, 2.0, 1.0]})
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
    """
    rankers, columns = _rankers(a, b), _Columns.of(query, doc, score, position, k, seed)
    rounds = k + len(rankers)
    bits = rounds * math.ceil(math.log2(math.factorial(len(rankers)))) + _SPARE
    return _interleaved(rankers, partial(_drafted, k=k), bits, columns)


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
    """Interleave the lists of two rankers in balance: from the top of both, in turn.

    The first k documents of the list are the first of both rankers, as many of one as of the
    other, or one more; who comes first is drawn.

    Parameters
    ----------
    a, b
        The ranked tables: with a column "rank" as `rank` adds it, or with scores; documents of a
        null rank or score are not retrieved. Or one argument: both in a list, or in a mapping
        from the names of the rankers.
    k
        How many documents to show, at least 1.
    seed
        Any whole number. The draw is a hash of it and the query: the same arguments give the
        same lists, on every machine, and a query its list whatever others there are.
    query, doc, score
        Names of the columns; `query` may be several. Tied scores are ordered by document
        descending, as `rank` orders them.
    position
        In place of `score`: the column of positions, 1 first.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if a table is one; sorted by query, with the `query` columns, `position` from
        1, `doc`, `team`: "a" or "b", or its name in the mapping, the ranker that put it there, and
        its rank with each, `rank_a` and `rank_b`, null beyond the first k.

    Raises
    ------
    SchemaError
        For a missing column, scores that are not numbers, or ids of which those of one ranker are
        text and those of another numbers.
    ArgumentError
        For other than two rankers, or a parameter out of its range.
    DataError
        For a null query or document, a NaN among the scores, a document that comes twice in a
        list; lazily, when the result is collected.

    Notes
    -----
    Most documents are on both lists, so that `team` says little. Joachims compares how many of the
    documents clicked each ranker has among its first: `interleaving_result(..., ranks=...)`. Where
    one list is the other shifted by one, even random clicks make a winner of it: `team_draft` has
    no such bias.

    References
    ----------
    Joachims, Evaluating retrieval performance using clickthrough data, 2003; Chapelle, Joachims,
    Radlinski & Yue, Large-scale validation and analysis of interleaved search evaluation, 2012.

    Examples
    --------
    >>> old = pl.DataFrame({"query": 1, "doc": ["x", "y", "z"], "score": [3.0, 2.0, 1.0]})
    >>> new = pl.DataFrame({"query": 1, "doc": ["y", "w", "x"], "score": [3.0, 2.0, 1.0]})
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
    """
    rankers = _rankers(a, b)
    if len(rankers) != len("ab"):
        message = f"balanced interleaving is of two rankers; found {len(rankers)}; see team_draft"
        raise ArgumentError(message)
    columns = _Columns.of(query, doc, score, position, k, seed)
    return _interleaved(rankers, partial(_balanced, k=k), 1, columns, ranks=True)


def _drafted(docs: Docs, bits: int, k: int) -> Shown:
    """Let the rankers choose in rounds, each in an order of its own."""
    shown: Shown = {}
    rest = [iter(each) for each in docs]
    left = set(range(len(docs)))
    while left:
        bits, order = _order(bits, len(docs))
        for team in order:
            best = next((doc for doc in rest[team] if doc not in shown), None)
            if best is None:
                left.discard(team)
                continue
            shown[best] = team
            if len(shown) == k:
                return shown
    return shown


def _balanced(docs: Docs, bits: int, k: int) -> Shown:
    """Go down both lists at once, one of them a step ahead."""
    shown: Shown = {}
    for rank in range(k):
        for team in (bits & 1, 1 - (bits & 1)):
            if rank < len(docs[team]) and len(shown) < k:
                shown.setdefault(docs[team][rank], team)
    return shown


def _order(bits: int, count: int) -> tuple[int, list[int]]:
    """Return an order of the first numbers, each as likely, and the random bits that are left."""
    left, order = [*range(count)], []
    while left:
        bits, index = divmod(bits, len(left))
        order.append(left.pop(index))
    return bits, order


def _rankers(a: Any, b: Any) -> dict[str, Any]:
    """Return the tables of the rankers by name."""
    if isinstance(a, Mapping) and b is None:
        rankers = dict(a)
    else:
        tables = [*a] if isinstance(a, (list, tuple)) and b is None else [a, b]
        rankers = dict(zip(ascii_lowercase, tables, strict=False))
        if len(tables) > len(rankers):
            message = f"of as many as {len(tables)} rankers, give names: a mapping to their tables"
            raise ArgumentError(message)
    if len(rankers) < len("ab") or any(table is None for table in rankers.values()):
        message = (
            "interleaving needs the tables of two rankers or more: (a, b), a list, or a mapping "
            f"from their names; found {len(rankers) - (b is None)}"
        )
        raise ArgumentError(message)
    for name in rankers:
        if not isinstance(name, str):
            message = f"the names of rankers must be text; found {name!r}"
            raise ArgumentError(message)
    return rankers


def _interleaved(
    rankers: Mapping[str, Any],
    choose: Callable[[Docs, int], Shown],
    bits: int,
    columns: _Columns,
    *,
    ranks: bool = False,
) -> Any:
    """Return the lists to show, made of the first documents of each ranker."""
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
        lists.with_columns(columns.hashed)
        .sort(columns.query)
        .set_sorted([*columns.query])
        .group_by(columns.query, maintain_order=True)
        .agg(pl.col(_KEY).first(), pl.col(FAILED).max(), pl.col(_TEAM, _DOCS))
    )
    schema = schema_of(lists.explode(_DOCS))
    places = {f"rank_{name}": pl.UInt32() for name in rankers if ranks}
    made = {
        **{name: schema[name] for name in columns.query},
        "position": pl.UInt32(),
        columns.doc: schema[_DOCS],
        "team": pl.String(),
        **places,
    }
    shown = partial(_shown, choose=choose, bits=bits, rankers=[*rankers], made=made)
    plan = together.map_batches(shown, schema=made, streamable=True)
    waits = any(isinstance(table, pl.LazyFrame) for table in rankers.values())
    return plan if waits else collected(plan)


def _common(column: str, schemas: Mapping[str, pl.Schema]) -> pl.DataType:
    """Return the type in which the ids of all rankers can be compared."""
    (first, schema), *others = schemas.items()
    common = schema[column]
    for ranker, other in others:
        found = common_type(common, other[column])
        if found is None:
            message = (
                f"column {column!r} is {schema[column]} in the table of the ranker {first!r} and "
                f"{other[column]} in that of {ranker!r}, so that no id would be the same in both; "
                f"cast one of them, as in .cast({{{column!r}: pl.{schema[column]}}})"
            )
            raise SchemaError(message)
        common = found
    return common


class _Columns(NamedTuple):
    """The columns of the rankers' tables, and what decides about the lists."""

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
        """Return the columns; raise `ArgumentError` for a parameter out of its range."""
        if not isinstance(seed, int) or isinstance(seed, bool):
            message = f"`seed` must be a whole number; found {seed!r}"
            raise ArgumentError(message, "seed")
        columns = cls(names("query", query), doc, score, position, whole_number("k", k), seed)
        if not columns.query or not isinstance(doc, str) or doc in columns.query:
            message = (
                "`query` and `doc` must name the columns of queries and of documents; found "
                f"{query!r} and {doc!r}"
            )
            raise ArgumentError(message, "query", "doc")
        free([*columns.query, doc], ["position", "team"], "query")
        return columns

    def place(self, schema: pl.Schema) -> str | None:
        """Return the column by which documents are ranked from 1 on, if there is one."""
        return self.position or ("rank" if "rank" in schema else None)

    def check(self, ranker: str, schema: pl.Schema) -> None:
        """Raise `SchemaError` if the table of a ranker lacks a column, or ranks by no number."""
        place = self.place(schema)
        order = {"position": place} if place else {"score": self.score}
        find_columns(
            schema,
            {"query": self.query, "doc": self.doc, **order},
            numbers=[*order],
            ids=("query", "doc"),
            table=f"the table of the ranker {ranker!r}",
        )

    def lists(self, table: pl.LazyFrame, number: int) -> pl.LazyFrame:
        """Return the first documents of each list of a ranker."""
        place = self.place(schema_of(table))
        order = pl.col(place or self.score)
        docs = pl.col(self.doc)
        found = (
            pl.any_horizontal(pl.col(name).is_null() for name in self.query).any(),
            docs.is_null().any(),
            order.cast(pl.Float64).is_nan().any(),
            docs.n_unique() < pl.len(),
        )
        checks = checks_of("ranking", dict(zip(_REMEDIES, found, strict=True)))
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
    def hashed(self) -> pl.Expr:
        """What the draws for a list are a hash of."""
        keys = (pl.col(name).cast(pl.String).fill_null("") for name in self.query)
        return pl.concat_str(pl.lit(str(self.seed)), *keys, separator="\x1f").alias(_KEY)


def _shown(
    lists: pl.DataFrame,
    choose: Callable[[Docs, int], Shown],
    bits: int,
    rankers: Sequence[str],
    made: Mapping[str, pl.DataType],
) -> pl.DataFrame:
    """Choose the documents of many lists, one after the other."""
    query = [name for name in lists.columns if not name.startswith(OWN)]
    checks = checks_of("ranking", dict.fromkeys(_REMEDIES, pl.lit(value=True)))
    refuse_failed(lists.select(*query, FAILED), checks, _REMEDIES)
    position, doc, team, *ranks = (name for name in made if name not in query)
    found: dict[str, list[Any]] = {name: [] for name in made}
    rows: list[int] = []
    for row, (key, teams, known) in enumerate(lists.select(_KEY, _TEAM, _DOCS).iter_rows()):
        docs: Docs = [[] for _ in rankers]
        for number, each in zip(teams, known, strict=True):
            if docs[number]:
                message = (
                    f"the rows of the ranker {rankers[number]!r} do not stand query by query as "
                    "set_sorted said; sort them"
                )
                raise DataError(message)
            docs[number] = each
        drawn = shake_256(key.encode()).digest((bits + 7) // 8)
        shown = choose(docs, int.from_bytes(drawn, "big"))
        rows += [row] * len(shown)
        found[position] += range(1, len(shown) + 1)
        found[doc] += shown
        found[team] += (rankers[number] for number in shown.values())
        for name, each in zip(ranks, docs, strict=False):
            places = {other: rank for rank, other in reversed([*enumerate(each, 1)])}
            found[name] += map(places.get, shown)
    columns = [
        pl.Series(name, found[name], dtype=made[name]) for name in (position, doc, team, *ranks)
    ]
    return lists.select(query)[rows].with_columns(columns)
