"""Columns of tables: which column plays which role, checked against the schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import (
    OWN,
    Kind,
    check_name,
    check_type,
    missing_column,
    names,
    some_names,
    used_twice,
)
from polars_rank._polars import NUMBERED
from polars_rank.errors import ArgumentError, short
from polars_rank.frames.tables import own_name, schema_of

Score: TypeAlias = "str | pl.Expr"

#: A column; `check_single` raises the error for several.
Label: TypeAlias = "str"


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


#: Roles that have at most one column.
_SINGLE = (RUN, "doc", "score", "label")


class Role(NamedTuple):
    """What the columns of a parameter contain, and how many there may be.

    The default column of a role has the name of the role.
    """

    kind: Kind | None = None
    is_several: bool = False
    is_needed: bool = False


#: Roles by the parameters that name their columns; other parameters name columns of any type.
ROLES: Mapping[str, Role] = {
    **dict.fromkeys(("doc", "judge", "run"), Role("id", is_needed=True)),
    "query": Role("id", is_several=True, is_needed=True),
    **dict.fromkeys(("by", "cluster"), Role("id", is_several=True)),
    **dict.fromkeys(
        ("click", "dwell", "forbidden", "human", "label", "latency", "metrics", "position",
         "probability", "score", "start", "end"),
        Role("number", is_needed=True),
    ),
    "weight": Role("number"),
}  # fmt: skip

#: Roles that may have the same column.
_MAY_SHARE_COLUMN = (
    {"by", "position"}, {"by", "run"}, {"doc", "keep"}, {"label", "keep"}, {"score", "keep"},
    {"cluster", "query"}, {"cluster", "by"}, {"slices", "query"},
)  # fmt: skip


class Columns(NamedTuple):
    """Names of the columns in one frame, checked against its schema."""

    query: tuple[str, ...]
    #: The columns of groups with that of runs, which is the last if the parameter lacks it.
    by: tuple[str, ...]
    doc: str | None
    score: str
    label: str
    schema: pl.Schema
    #: Columns that no parameter names and that look like document ids or runs.
    unnamed: tuple[str, ...] = ()
    #: The parameters that the scores and the labels come from.
    score_parameter: str = "score"
    label_parameter: str = "label"
    #: The column of runs, one of `by`, if there is one.
    run: str | None = None
    #: The columns of all roles.
    roles: Mapping[str, tuple[str, ...]] = {}

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns of groups without that of runs."""
        return without_run(self.by, self.run)

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

    @property
    def parameters(self) -> dict[str, str]:
        """The parameter that names each column."""
        return {name: role for role, named in self.roles.items() for name in named}

    def one(self, role: str) -> str | None:
        """Return the column of a role that has at most one."""
        return next(iter(self.roles.get(role, ())), None)

    def check_unused(self, parameter: str, names: Sequence[str]) -> None:
        """Raise `ArgumentError` if one of these columns of another table has a role."""
        _check_distinct({**self.roles, parameter: names})

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
        given: Mapping[str, Any],
        *,
        optional: Collection[str] = (RUN,),
        parameters: Mapping[str, str] = {},
        table: str = "",
    ) -> Columns:
        """Return the columns that parameters name, by role.

        The table may lack the default columns of `optional` roles. `parameters` maps roles to their
        parameters if these have other names, and `table` is the name of the table in errors.

        Raises
        ------
        SchemaError
            For a missing column, or one of an unsuitable type.
        ArgumentError
            For a needed role without a column, and a column of two roles.
        """
        parameter_of = {role: parameters.get(role, role) for role in given}
        roles = {role: names(parameter_of[role], value) for role, value in given.items()}
        # The default column of runs may have a role that identifies rankings without runs.
        known = {*schema} - ({*roles.get("query", ())} & {RUN})
        absent = {role for role in optional if roles.get(role) == (role,) and role not in known}
        roles |= dict.fromkeys(absent, ())
        for role, value in given.items():
            kind, may_be_none = ROLES.get(role, Role()), value is None and role in optional
            if kind.is_needed and not roles[role] and role not in absent and not may_be_none:
                what = "at least one column" if kind.is_several else "a column"
                raise ArgumentError(
                    f"`{parameter_of[role]}` must name {what}; found {short(value)}"
                )
        _check_distinct({parameter_of[role]: named for role, named in roles.items()})
        for role, named in roles.items():
            for name in named:
                of_runs = RUN if RUN in given else parameter_of[role]
                _check_column(role, parameter_of[role], name, schema, table, of_runs)
        others = [name for name in schema if name not in chain(*roles.values())]
        if "score" in given:  # other tables may be internal
            for name in others:
                internal = name == OWN + "score" or schema[name] == NUMBERED
                if name.startswith(OWN) and not internal:
                    raise own_name(name)
        looks = RUNS | IDS if given.get("doc") is not None and not roles["doc"] else RUNS
        run, doc, score, label = (next(iter(roles.get(role, ())), None) for role in _SINGLE)
        by = roles.get("by", ())
        return cls(
            roles.get("query", ()), by if run is None or run in by else (*by, run), doc,
            score or "", label or "", schema,
            tuple(n for n in others if n.lower() in looks and not schema[n].is_nested()),
            run=run, roles=roles,
        )  # fmt: skip

    @classmethod
    def read(
        cls,
        log: pl.LazyFrame,
        given: Mapping[str, Any],
        *,
        optional: Collection[str] = (RUN, "label"),
    ) -> tuple[pl.LazyFrame, Columns]:
        """Return a log with columns of scores and labels, and its columns, as `find` does.

        Scores are computed from an expression, from "-name", or from positions. A label that is
        optional and missing is null.
        """
        position = given.get("position")
        log, score = scored(log, given.get("score", "score"), position)
        roles = {**given, "score": score if position is None else None}
        columns = cls.find(schema_of(log), roles, optional=(*optional, "position", "score"))
        if position is not None:
            columns = columns._replace(score=score, score_parameter="position")
        return columns.labeled(log) if "label" in given else (log, columns)

    def labeled(self, log: pl.LazyFrame) -> tuple[pl.LazyFrame, Columns]:
        """Return the log with a column of labels, which are null if it has none."""
        if self.label:
            return log, self
        log = log.with_columns(pl.lit(None, dtype=pl.Int8).alias(OWN + "label"))
        return log, self._replace(label=OWN + "label", schema=schema_of(log))


def without_run(by: Sequence[str], run: str | None) -> tuple[str, ...]:
    """Return the columns of groups without that of runs."""
    return tuple(name for name in by if name != run)


def _check_column(
    role: str, parameter: str, column: str, schema: pl.Schema, table: str, of_runs: str = RUN
) -> None:
    """Raise `SchemaError` unless the column of a role exists and is suitable.

    `of_runs` is the parameter that names the column of runs.
    """
    if column not in schema:
        advice = ""
        is_of_runs = role == RUN or (role == "by" and column == RUN)
        if is_of_runs and (other := next((n for n in schema if n.lower() in RUNS), None)):
            remedy = "omit `run`" if other == RUN else f"pass {of_runs}={other!r}"
            advice = f" If {other!r} identifies the runs, {remedy}"
        numbers = [name for name, dtype in schema.items() if dtype.is_numeric()]
        if role == "score" and (place := next((n for n in numbers if n.lower() in POSITIONS), "")):
            advice = f" To rank by positions, 1 first, pass position={place!r}"
        raise missing_column(f"`{parameter}`", column, schema, table, advice)
    check_name(column)
    if kind := ROLES.get(role, Role()).kind:
        check_type(parameter, column, schema[column], kind)


def _check_distinct(columns: Mapping[str, Sequence[str]]) -> None:
    """Raise `ArgumentError` if two parameters name the same column.

    `columns` maps parameters to their columns.
    """
    parameters: dict[str, str] = {}
    for parameter, named in columns.items():
        for name in named:
            other = parameters.setdefault(name, parameter)
            if other != parameter and {other, parameter} not in _MAY_SHARE_COLUMN:
                raise used_twice(name, other, parameter)


def scored(log: pl.LazyFrame, score: Score, position: str | None) -> tuple[pl.LazyFrame, str]:
    """Return the log and its column of scores, higher is better, computed if necessary."""
    parameter = "score" if position is None else "position"
    if position is not None:
        if score != "score":
            raise ArgumentError("and `position` exclude each other; pass one of them", "score")
        score = f"-{position}"
    schema = schema_of(log)
    check_single(schema, parameter, score)
    if isinstance(score, str) and (score in schema or not score.startswith("-")):
        _check_column(parameter, parameter, score, schema, "")
        return log, score
    if isinstance(score, str):
        name = score[1:]
        _check_column(parameter, parameter, name, schema, "")
        score = _negative(pl.col(name), schema[name])
    if not isinstance(score, pl.Expr):
        raise ArgumentError(
            "must be the name of a column ('-name' if lower is better) or an expression; "
            f"found {score!r}",
            "score",
        )
    for name in score.meta.root_names():
        if name not in schema:
            raise missing_column(f"`{parameter}`", name, schema)
        check_name(name)
    return log.with_columns(score.alias(OWN + "score")), OWN + "score"


def check_single(
    schema: pl.Schema, parameter: str, value: Any, *, judge_parameter: str = "by"
) -> None:
    """Raise `ArgumentError` if `score` or `label` names several columns.

    `judge_parameter` is the parameter for the column of judges.
    """
    if isinstance(value, (str, pl.Expr)) or not isinstance(value, Iterable):
        return
    given = some_names(parameter, [*value])
    on = [name if name in schema else name.removeprefix("-") for name in given]
    for name in on:
        _check_column(parameter, parameter, name, schema, "")
    lower = [name for name, each in zip(on, given, strict=True) if name != each]
    role, named = (RUN, RUN) if parameter == "score" else ("judge", judge_parameter)
    roles = {named: role, parameter: parameter}
    new = {key: name + "_" * (name in schema) for key, name in roles.items()}
    raise ArgumentError(
        f"must be a single column; found {[*given]}. Unpivot the table: "
        f"log{f'.with_columns(pl.col({lower}) * -1.0)' if lower else ''}.unpivot({on}, "
        f"index={[name for name in schema if name not in on]}, variable_name={new[named]!r}, "
        f"value_name={new[parameter]!r}), and pass "
        + ", ".join(f"{key}={name!r}" for key, name in new.items()),
        parameter,
    )


def is_relevant(label: pl.Expr, lowest: float) -> pl.Expr:
    """Return whether a document is relevant; unjudged documents are not.

    Labels of all types are compared as Float64: for Float32 labels, Polars would round the lowest
    relevant label.
    """
    return (label.cast(pl.Float64) >= lowest).fill_null(value=False)


def _negative(number: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """Return numbers in reverse order: integers and decimals exactly, whatever their size."""
    if dtype.is_decimal():
        return -number
    if dtype in (pl.Int128, pl.UInt128):
        return ~number  # -number - 1, because -number may exceed every type
    if dtype in (pl.Int64, pl.UInt64):  # the negative may exceed Int64
        return -number.cast(pl.Decimal(20, 0))
    return -number.cast(pl.Int64 if dtype.is_integer() else pl.Float64)
