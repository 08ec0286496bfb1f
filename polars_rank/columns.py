"""The columns of a log: query, document, score and label, checked against its schema."""

from __future__ import annotations

from typing import (
    NamedTuple,
    TypeAlias,
)

import polars as pl

from polars_rank._params import OWN, Names, check_column, find_columns
from polars_rank.errors import ArgumentError
from polars_rank.frames.pieces import NUMBERED
from polars_rank.frames.tables import own_name, schema_of

Score: TypeAlias = "str | pl.Expr"


#: The columns that the ranked table adds to a log.
RANKED = ("rank", "ideal_rank", "relevant", "hits")


#: Names of columns, in lower case, that identify the run.
RUNS = frozenset({"run", "run_id", "runid", "model", "system", "variant", "ranker", "experiment"})


#: Names of columns, in lower case, that identify the document.
IDS = frozenset({
    *("docid", "doc_id", "docno", "document", "document_id", "documentid", "passage_id", "pid"),
    *("item", "item_id", "itemid", "product", "product_id", "sku", "asin", "url", "object_id"),
})  # fmt: skip


class _Unsaid(str):
    """A default that differs from the same text passed by the caller, in any process."""

    __slots__ = ()

    def __reduce__(self) -> str:
        return self.upper()


#: The column of queries, if there is one.
QUERY: str = _Unsaid("query")


#: The column of documents, if there is one.
DOC: str = _Unsaid("doc")


#: The column of runs, if there is one.
RUN: str = _Unsaid("run")


#: The column of positions at which documents were shown, if there is one.
POSITION: str = _Unsaid("position")


#: The column of clicks, if there is one.
CLICK: str = _Unsaid("click")


class Columns(NamedTuple):
    """Names of the columns in one frame, checked against its schema."""

    query: tuple[str, ...]
    by: tuple[str, ...]
    doc: str | None
    score: str
    label: str
    schema: pl.Schema
    #: Columns that no parameter names and that look like document ids or runs.
    unnamed: tuple[str, ...] = ()
    #: Whether the score is computed from positions at which documents were shown.
    placed: bool = False

    @property
    def keys(self) -> list[str]:
        """The columns that identify a ranking."""
        return [*self.by, *self.query]

    @property
    def pair(self) -> list[str]:
        """The columns that identify a document of a ranking."""
        if not self.query or self.doc is None or self.doc in self.keys:
            message = (
                "`query` and `doc` must name different columns that are not in `by`; found `query` "
                f"{[*self.query]}, `doc` {self.doc!r} and `by` {[*self.by]}"
            )
            raise ArgumentError(message, "query", "doc", "by")
        return [*self.keys, self.doc]

    def number(self, name: str) -> pl.Expr:
        """Return a score or label column as integers or floats."""
        dtype = self.number_type(name)
        return pl.col(name) if dtype == self.schema[name] else pl.col(name).cast(dtype)

    def number_type(self, name: str) -> pl.DataType:
        """Return the type of a score or label column as `number` returns it."""
        dtype = self.schema[name]
        # Scores that are equal as Float64 must not become ties.
        exact = dtype.is_decimal() and name == self.score
        return dtype if dtype.is_integer() or dtype.is_float() or exact else pl.Float64()

    @classmethod
    def find(
        cls,
        schema: pl.Schema,
        *,
        query: Names | None,
        doc: str | None,
        score: str,
        label: str,
        by: Names | None,
    ) -> Columns:
        """Check names and types against the schema; raise `SchemaError` for invalid ones."""
        looks = RUNS
        if doc is DOC and doc not in schema:
            doc, looks = None, RUNS | IDS
        found = find_columns(
            schema,
            {
                "query": query or (),
                "by": by or (),
                "doc": doc or (),
                "score": score,
                "label": label,
            },
            numbers=("score", "label"),
            ids=("query", "by", "doc"),
        )
        queries, groups = found["query"], found["by"]
        if query is not None and not queries:
            message = "`query` must name at least one column"
            raise ArgumentError(message, "query")
        named = {column for columns in found.values() for column in columns}
        # The only columns with internal names are those that polars_rank has added.
        own = {OWN + "score", *(name for name, dtype in schema.items() if dtype == NUMBERED)}
        for name in schema:
            if name.startswith(OWN) and name not in named | own:
                raise own_name(name)
        both = set(queries) & set(groups)
        if both:
            message = f"column {both.pop()!r} is used for both `by` and `query`; remove it from one"
            raise ArgumentError(message, "by", "query")
        unnamed = tuple(
            name
            for name, dtype in schema.items()
            if name not in named and name.lower() in looks and dtype != pl.Object
        )
        return cls(queries, groups, doc, score, label, schema, () if doc else unnamed)


def scored(log: pl.LazyFrame, score: Score, position: str | None) -> tuple[pl.LazyFrame, str]:
    """Return the log with a column of scores, higher is better, and its name."""
    if position is not None:
        if score != "score":
            message = "`score` and `position` exclude each other; pass one of them"
            raise ArgumentError(message, "score", "position")
        score = f"-{position}"
    schema = schema_of(log)
    if isinstance(score, str) and score not in schema and score.startswith("-"):
        name = score[1:]
        check_column("score" if position is None else "position", name, schema, "number")
        score = _negative(pl.col(name), schema[name])
    if isinstance(score, str):
        check_column("score", score, schema)
        return log, score
    if not isinstance(score, pl.Expr):
        message = (
            "`score` must be the name of a column ('-name' if lower is better) or an expression; "
            f"found {score!r}; use `scores` for several columns"
        )
        raise ArgumentError(message, "score", "scores")
    return log.with_columns(score.alias(OWN + "score")), OWN + "score"


def labeled(log: pl.LazyFrame, label: str | None) -> tuple[pl.LazyFrame, str]:
    """Return the log and its column of labels; nulls if there is no column "label", or for None."""
    if label is not None and (label != "label" or label in schema_of(log)):
        return log, label
    return log.with_columns(pl.lit(None, dtype=pl.Int8).alias(OWN + "label")), OWN + "label"


def _negative(number: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return numbers in reverse order: integers and decimals exactly, whatever their size."""
    if dtype.is_decimal():
        return -number
    if dtype in (pl.Int128, pl.UInt128):
        return ~number  # -number - 1, because -number may be beyond any type
    if dtype in (pl.Int64, pl.UInt64):  # their negatives may be beyond Int64
        return -number.cast(pl.Decimal(20, 0))
    return -number.cast(pl.Int64 if dtype.is_integer() else pl.Float64)
