"""Columns of a log: query, document, score and label, checked against the schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import (
    OWN,
    Kind,
    Names,
    check_column,
    check_distinct,
    check_reads,
    find_columns,
    missing_column,
    some_names,
)
from polars_rank.errors import ArgumentError
from polars_rank.frames.batches import NUMBERED
from polars_rank.frames.tables import own_name, schema_of

Score: TypeAlias = "str | pl.Expr"

#: The columns that the ranked table adds to a log.
RANKED = ("rank", "ideal_rank", "relevant", "hits")


#: Column that says whether a document is excluded because the user has seen it.
EXCLUDED = OWN + "seen"


#: Names of columns, in lower case, that identify the run.
RUNS = frozenset({
    *("run", "run_id", "runid", "system", "model", "ranker", "retriever", "method"),
    *("variant", "experiment"),
})  # fmt: skip


#: Names of columns, in lower case, that identify the document.
IDS = frozenset({
    *("docid", "doc_id", "docno", "document", "document_id", "documentid", "passage_id", "pid"),
    *("item", "item_id", "itemid", "product", "product_id", "sku", "asin", "url", "object_id"),
})  # fmt: skip


#: Names of columns, in lower case, that hold positions; the most likely first.
POSITIONS = ("position", "rank", "pos", "place")


def default_column(name: str | None, default: str, schema: pl.Schema) -> str | None:
    """Return the column of a parameter; None for the default one if the table does not have it."""
    return None if name == default and default not in schema else name


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
    #: The parameter that the scores come from: "score", "scores", or "position".
    score_parameter: str = "score"
    #: The parameter that names the labels: "label" or "labels".
    label_parameter: str = "label"

    @property
    def placed(self) -> bool:
        """Whether the score is computed from positions at which documents were shown."""
        return self.score_parameter == "position"

    @property
    def keys(self) -> list[str]:
        """The columns that identify a ranking."""
        return [*self.by, *self.query]

    @property
    def pair(self) -> list[str]:
        """The columns that identify a document of a ranking."""
        return [*self.keys, str(self.doc)]

    @property
    def is_document(self) -> pl.Expr:
        """Whether a row has a document that is not excluded.

        With ids, rows of rankings without documents have no id.
        """
        has_id = pl.lit(value=True) if self.doc is None else pl.col(self.doc).is_not_null()
        return has_id & ~pl.col(EXCLUDED) if EXCLUDED in self.schema else has_id

    def check(self, parameter: str, names: Sequence[str], kind: Kind | None = None) -> None:
        """Raise an error unless the columns of another parameter are suitable and unused."""
        for name in names:
            check_column(parameter, name, self.schema, kind)
        self.check_other(parameter, names)

    def check_other(self, parameter: str, names: Sequence[str]) -> None:
        """Raise `ArgumentError` if another parameter names one of these columns."""
        roles = {"query": self.query, "by": self.by, "doc": [self.doc] if self.doc else []}
        values = {self.score_parameter: [self.score], self.label_parameter: [self.label]}
        check_distinct({**roles, **values, parameter: names})

    def number(self, name: str) -> pl.Expr:
        """Return a score or label column as integers or floats."""
        dtype = self.number_type(name)
        return pl.col(name) if dtype == self.schema[name] else pl.col(name).cast(dtype)

    def number_type(self, name: str) -> pl.DataType:
        """Return the type of the column that `number` returns."""
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
        run: str | None = None,
        score_parameter: str = "score",
        label_parameter: str = "label",
        needs_ids: bool = True,
    ) -> Columns:
        """Return the columns of parameters; raise `SchemaError` for missing or unsuitable ones.

        If `needs_ids` is false, a table without the column "doc" may have documents without ids.
        """
        if not needs_ids and doc is not None and default_column(doc, "doc", schema) is None:
            doc, looks = None, RUNS | IDS
        else:
            looks = RUNS
        columns = find_columns(
            schema,
            {
                "by": by,
                "run": run,
                "query": None if query is None else some_names("query", query),
                "doc": doc,
                score_parameter: score,
                label_parameter: label,
            },
            numbers=(score_parameter, label_parameter),
            ids=("query", "by", "run", "doc"),
        )
        queries, groups = columns["query"], (*columns["by"], *columns["run"])
        named = {name for of_parameter in columns.values() for name in of_parameter}
        # The only columns with internal names are those that polars_rank has added.
        own = {OWN + "score", *(name for name, dtype in schema.items() if dtype == NUMBERED)}
        for name in schema:
            if name.startswith(OWN) and name not in named | own:
                raise own_name(name)
        unnamed = tuple(
            name
            for name, dtype in schema.items()
            if name not in named and name.lower() in looks
            if not dtype.is_nested()
        )
        return cls(
            queries, groups, doc, score, label, schema, unnamed, score_parameter, label_parameter
        )


def scored(
    log: pl.LazyFrame, score: Score, position: str | None, parameter: str = "score"
) -> tuple[pl.LazyFrame, str]:
    """Return the log and its column of scores, higher is better, computed if necessary.

    `parameter` is the name that errors give to the parameter `score`.
    """
    if position is not None:
        if score != "score":
            raise ArgumentError("`score` and `position` exclude each other; pass one of them")
        score, parameter = f"-{position}", "position"
    schema = schema_of(log)
    if isinstance(score, str) and score not in schema and score.startswith("-"):
        name = score[1:]
        check_column(parameter, name, schema, "number")
        score = _negative(pl.col(name), schema[name])
    if isinstance(score, str):
        positions = [
            name
            for name, dtype in schema.items()
            if name.lower() in POSITIONS and dtype.is_numeric()
        ]
        if score not in schema and positions:
            advice = f" To rank by positions, 1 first, pass position={positions[0]!r}"
            raise missing_column(f"`{parameter}`", score, schema, advice=advice)
        check_column(parameter, score, schema, "number")
        return log, score
    if not isinstance(score, pl.Expr):
        raise ArgumentError(
            "`score` must be the name of a column ('-name' if lower is better) or an expression; "
            f"found {score!r}; use `scores` for several columns"
        )
    check_reads(parameter, score, schema)
    return log.with_columns(score.alias(OWN + "score")), OWN + "score"


def is_relevant(label: pl.Expr, lowest: float) -> pl.Expr:
    """Return whether a document is relevant; unjudged documents are not.

    Labels of all types are compared as Float64: for Float32 labels, Polars would round the lowest
    relevant label.
    """
    return (label.cast(pl.Float64) >= lowest).fill_null(value=False)


def labeled(log: pl.LazyFrame, label: str | None) -> tuple[pl.LazyFrame, str]:
    """Return the log and its column of labels, which is null for None or a missing "label"."""
    column = None if label is None else default_column(label, "label", schema_of(log))
    if column is not None:
        return log, column
    return log.with_columns(pl.lit(None, dtype=pl.Int8).alias(OWN + "label")), OWN + "label"


def _negative(number: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return numbers in reverse order: integers and decimals exactly, whatever their size."""
    if dtype.is_decimal():
        return -number
    if dtype in (pl.Int128, pl.UInt128):
        return ~number  # -number - 1, because -number may exceed every type
    if dtype in (pl.Int64, pl.UInt64):  # the negative may exceed Int64
        return -number.cast(pl.Decimal(20, 0))
    return -number.cast(pl.Int64 if dtype.is_integer() else pl.Float64)
