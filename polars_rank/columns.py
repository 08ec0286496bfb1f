"""Columns of a log: query, document, score and label, checked against the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
    names,
    some_names,
)
from polars_rank.errors import ArgumentError
from polars_rank.frames.batches import NUMBERED
from polars_rank.frames.tables import own_name, schema_of

Score: TypeAlias = "str | pl.Expr"

#: One column of scores, or several, each of which is a run.
Scores: TypeAlias = "Score | Sequence[str]"


#: The columns that the ranked table adds to a log.
RANKED = ("rank", "ideal_rank", "relevant", "hits")


#: Names of columns, in lower case, that identify the run.
RUNS = frozenset({
    *("run", "run_id", "runid", "system", "model", "ranker", "retriever", "method"),
    *("variant", "experiment"),
})  # fmt: skip

#: The default name of the column that identifies the run.
RUN = "run"


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


def run_column(
    schema: pl.Schema, run: str | None, *, required: bool = False, taken: Iterable[str] = ()
) -> str | None:
    """Return the column of runs, checked; None if there is none.

    Unless it is `required`, the default column may be missing, or be one of the columns `taken` by
    other parameters.
    """
    if run is None and required:
        raise ArgumentError("`run` must name the column of the runs; found None")
    if run == RUN and not required and (RUN not in schema or RUN in taken):
        return None
    if isinstance(run, str) and run not in schema:
        other = next((name for name in schema if name.lower() in RUNS), None)
        remedy = "omit `run`" if other == RUN else f"pass run={other!r}"
        advice = f" If {other!r} identifies the runs, {remedy}" if other else ""
        raise missing_column("`run`", run, schema, advice=advice)
    if run is not None:
        check_column("run", run, schema)
    return run


def with_run(by: Sequence[str], run: str | None) -> tuple[str, ...]:
    """Return the columns of groups with that of runs, which is the last if `by` lacks it."""
    return (*by, run) if run is not None and run not in by else (*by,)


def groups_of(
    schema: pl.Schema, by: Names | None, run: str | None, taken: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return the columns of groups with that of runs, as `run_column` finds it."""
    return with_run(names("by", by), run_column(schema, run, taken=taken))


def without_run(by: Sequence[str], run: str | None) -> tuple[str, ...]:
    """Return the columns of groups without that of runs."""
    return tuple(name for name in by if name != run)


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
    #: The column of runs, one of `by`, if there is one.
    run: str | None = None

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
        """Whether a row has a document. With ids, rows of rankings without documents have no id."""
        return pl.lit(value=True) if self.doc is None else pl.col(self.doc).is_not_null()

    def check(self, parameter: str, names: Sequence[str], kind: Kind | None = None) -> None:
        """Raise an error unless the columns of another parameter are suitable and unused."""
        for name in names:
            check_column(parameter, name, self.schema, kind)
        self.check_other(parameter, names)

    def check_other(self, parameter: str, names: Sequence[str]) -> None:
        """Raise `ArgumentError` if another parameter names one of these columns."""
        run = [] if self.run is None else [self.run]
        by = without_run(self.by, self.run)
        roles = {"query": self.query, "run": run, "by": by, "doc": [self.doc] if self.doc else []}
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

        `run_column` finds the column of runs, which is the last of `by` unless `by` names it. If
        `needs_ids` is false, a table without the column "doc" may have documents without ids.
        """
        if not needs_ids and doc is not None and default_column(doc, "doc", schema) is None:
            doc, looks = None, RUNS | IDS
        else:
            looks = RUNS
        run = run_column(schema, run, taken=names("query", query))
        columns = find_columns(
            schema,
            {
                "run": run,
                "by": by,
                "query": None if query is None else some_names("query", query),
                "doc": doc,
                score_parameter: score,
                label_parameter: label,
            },
            numbers=(score_parameter, label_parameter),
            ids=("query", "by", "run", "doc"),
        )
        queries, groups = columns["query"], with_run(columns["by"], run)
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
            queries, groups, doc, score, label, schema, unnamed, score_parameter, label_parameter,
            run,
        )  # fmt: skip


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
            f"found {score!r}"
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
