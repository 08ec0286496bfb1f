"""`from_dicts`: the long table from dictionaries of ranx and pytrec_eval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Protocol, TypeAlias, cast

import polars as pl
from polars import col

from polars_rank._params import OWN, public
from polars_rank.errors import ArgumentError
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import is_table
from polars_rank.io.judgments import judged_once
from polars_rank.io.matching import Ids

_RUN, _ROWS = OWN + "run", OWN + "rows"
_KEYS = {"query": "queries", "doc": "documents"}


class RanxObject(Protocol):
    """A `Run` or `Qrels` of ranx."""

    def to_dict(self) -> Mapping[Any, Mapping[Any, float]]:
        """Return the scores or labels by query and document."""


Nested: TypeAlias = "Mapping[Any, Mapping[Any, float]] | RanxObject"


@public
def from_dicts(rankings: Nested | Mapping[Any, Nested], judgments: Nested) -> pl.DataFrame:
    """Convert dictionaries of scores and labels to the long table.

    Examples
    --------
    >>> import polars_rank as pr
    >>> judgments = {"q1": {"a": 1, "b": 0, "c": 2}}
    >>> bm25 = {"q1": {"a": 0.9, "b": 0.8}}
    >>> pr.from_dicts(bm25, judgments)
    shape: (3, 4)
    ┌───────┬─────┬───────┬───────┐
    │ query ┆ doc ┆ score ┆ label │
    │ ---   ┆ --- ┆ ---   ┆ ---   │
    │ str   ┆ str ┆ f64   ┆ i64   │
    ╞═══════╪═════╪═══════╪═══════╡
    │ q1    ┆ a   ┆ 0.9   ┆ 1     │
    │ q1    ┆ b   ┆ 0.8   ┆ 0     │
    │ q1    ┆ c   ┆ null  ┆ 2     │
    └───────┴─────┴───────┴───────┘

    Several runs:

    >>> neural = {"q1": {"c": 0.7, "a": 0.3}}
    >>> table = pr.from_dicts({"bm25": bm25, "neural": neural}, judgments)
    >>> pr.evaluate(table, "ap", by="run")
    shape: (2, 3)
    ┌────────┬─────────┬─────┐
    │ run    ┆ queries ┆ ap  │
    │ ---    ┆ ---     ┆ --- │
    │ str    ┆ u32     ┆ f64 │
    ╞════════╪═════════╪═════╡
    │ bm25   ┆ 1       ┆ 0.5 │
    │ neural ┆ 1       ┆ 1.0 │
    └────────┴─────────┴─────┘

    Parameters
    ----------
    rankings
        Scores of the retrieved documents, ``{query: {doc: score}}``, as in pytrec_eval and ranx;
        or a ``ranx.Run``. For several runs, a mapping of their names to such dictionaries or
        objects.
    judgments
        Labels of the judged documents, ``{query: {doc: label}}``; or a ``ranx.Qrels``. A
        ``ranx.Run`` and a ``ranx.Qrels`` may come in either order.

    Returns
    -------
    DataFrame
        Columns ``run`` (if `rankings` holds several runs), ``query``, ``doc``, ``score`` and
        ``label``. The score is null where a document was judged but not retrieved, the label
        where it was retrieved but not judged. A query without any document keeps one row, in
        which ``doc`` is null.

    Raises
    ------
    ArgumentError
        If the dictionaries are not nested in this way, if a score or label is not a number, if
        the two look swapped (whole scores, and labels that are fractions or differ for all
        documents), or if the ids in `rankings` and `judgments` have types that never match, such
        as 1 and "1".

    See Also
    --------
    join_judgments : The same for tables.

    Notes
    -----
    In each run, every query of `judgments` counts, even if the run retrieved nothing for it. A
    `RankWarning` names the runs of which no query or no retrieved document is judged, and gives the
    numbers of queries that are in only one of the dictionaries.
    Evaluate with ``conventions="ranx"``, or with ``conventions="trec_eval_9"`` for pytrec_eval,
    to get the values of these tools.
    """
    if _is_ranx(rankings, "Qrels") or _is_ranx(judgments, "Run"):
        rankings, judgments = judgments, rankings
    if _is_ranx(rankings, "Qrels") or _is_ranx(judgments, "Run"):
        raise ArgumentError(
            f"`rankings` and `judgments` are both {type(rankings).__name__}; pass one of each"
        )
    if _holds_runs(judgments):
        raise ArgumentError(
            "`judgments` holds several runs; pass the rankings first, and the judgments second"
        )
    several = _holds_runs(rankings)
    runs = cast("Mapping[Any, Nested]", rankings) if several else {None: rankings}
    names = _series("run", runs)
    retrieved = _table("rankings", [*runs.values()], "score", pl.Float64())
    judged = _table("judgments", [judgments], "label", pl.Int64()).drop(_RUN)
    judged = judged_once(judged, keys=[*_KEYS], label="label", table="`judgments`")
    if _look_swapped(retrieved, judged):
        raise ArgumentError(
            "`rankings` looks like judgments, and `judgments` like rankings; were they swapped? "
            "Pass the rankings first. If they were not, convert the scores to floats"
        )
    types = {key: common_type(retrieved.schema[key], judged.schema[key]) for key in _KEYS}
    for key, dtype in types.items():
        if dtype is None:
            raise ArgumentError(
                f"`rankings` has ids of {_KEYS[key]} of type {retrieved.schema[key]} and "
                f"`judgments` of type {judged.schema[key]}, so none would match; convert one of "
                "them, for example with str"
            )
    in_each_run = pl.DataFrame({_RUN: range(len(runs))}).join(judged, how="cross")
    table = retrieved.cast(types).join(  # type: ignore[arg-type]
        in_each_run.cast(types),  # type: ignore[arg-type]
        on=[_RUN, *_KEYS],
        how="full",
        coalesce=True,
        nulls_equal=True,
        maintain_order="left_right",
    )
    empty = col("doc").is_null()
    table = table.filter(~empty | empty.all().over(_RUN, "query"))
    columns = table.select(*_KEYS, "score", "label")
    if several:
        columns.insert_column(0, names.gather(table[_RUN]))
    run = ["run"] if several else []
    ids = Ids(run, ["query"], "doc", col("score").is_not_null(), col("label").is_not_null())
    return ids.checked(columns)


def _holds_runs(rankings: Any) -> bool:
    """Return whether the values of a mapping are runs instead of documents."""
    if not isinstance(rankings, Mapping):
        return False
    for value in rankings.values():
        first = next(iter(value.values()), None) if isinstance(value, Mapping) else value
        if isinstance(first, Mapping) or _is_ranx(first):
            return True
    return False


def _is_ranx(value: Any, name: str | None = None) -> bool:
    """Return whether a value is an object of ranx, optionally of a class with this name."""
    if name is not None and type(value).__name__ != name:
        return False
    return hasattr(value, "to_dict") and not is_table(value)


def _look_swapped(retrieved: pl.DataFrame, judged: pl.DataFrame) -> bool:
    """Return whether scores look like labels, and labels like scores.

    Labels are whole numbers with many equal values. Scores are fractions, or all distinct.
    """
    if retrieved.schema["score"].is_float() or not judged.schema["label"].is_float():
        return False
    label = col("label").drop_nulls()
    if judged.select((label != label.floor()).any()).item():
        return True
    return _has_ties(retrieved, [_RUN, "query"], "score") and not _has_ties(
        judged, ["query"], "label"
    )


def _has_ties(table: pl.DataFrame, keys: Sequence[str], value: str) -> bool:
    """Return whether two documents of a ranking have the same value."""
    known = table.drop_nulls(value)
    return known.select(*keys, value).is_duplicated().any()


def _table(parameter: str, runs: Sequence[Nested], value: str, empty: pl.DataType) -> pl.DataFrame:
    """Return one row per document, with the index of its run.

    `empty` is the type of the column of values if there are none.
    """
    nested = [_nested(parameter, run, value) for run in runs]
    documents = [docs for queries in nested for docs in queries.values()]
    if any(None in docs for docs in documents):
        raise ArgumentError(f"`{parameter}` has the document None; leave it out, or give it an id")
    # A query without documents has one row.
    values = _series(value, chain.from_iterable(docs.values() or (None,) for docs in documents))
    if values.dtype == pl.Null:
        values = values.cast(empty)
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise ArgumentError(f"the {value}s in `{parameter}` must be numbers; found {values.dtype}")
    queries = pl.DataFrame(
        {
            _RUN: [index for index, queries in enumerate(nested) for _ in queries],
            "query": _series("query", chain.from_iterable(nested)),
            _ROWS: [len(docs) or 1 for docs in documents],
        },
        schema_overrides={_RUN: pl.Int64, _ROWS: pl.Int64},
    )
    return queries.select(
        pl.exclude(_ROWS).repeat_by(_ROWS).explode(empty_as_null=False)
    ).with_columns(
        _series("doc", chain.from_iterable(docs or (None,) for docs in documents)), values
    )


def _series(name: str, values: Iterable[Any]) -> pl.Series:
    return pl.Series(name, [*values], strict=False)


def _nested(parameter: str, given: Any, value: str) -> Mapping[Any, Mapping[Any, Any]]:
    """Return the dictionaries `{query: {doc: value}}`; raise `ArgumentError` for anything else."""
    nested = given.to_dict() if _is_ranx(given) else given
    if not isinstance(nested, Mapping):
        table = "; for tables, use pr.join_judgments" if is_table(given) else ""
        raise ArgumentError(
            f"`{parameter}` must be a dictionary {{query: {{doc: {value}}}}}; found "
            f"{type(given).__name__}{table}"
        )
    for query, docs in nested.items():
        if not isinstance(docs, Mapping):
            message = (
                f"`{parameter}` must map each query to a dictionary {{doc: {value}}}; found "
                f"{type(docs).__name__} for query {query!r}"
            )
            if isinstance(docs, (list, tuple, set, frozenset)) and value == "label":
                message += "; for documents that are all relevant, pass dict.fromkeys(docs, 1)"
            raise ArgumentError(message)
    return nested
