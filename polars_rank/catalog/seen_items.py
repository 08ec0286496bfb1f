"""`exclude_seen` drops documents that users have already seen; `leave_one_out` splits a log."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
from polars import selectors as cs

from polars_rank._params import OWN, Names, public, some_names, whole_number
from polars_rank.columns import RUN, Columns
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log import with_known_runs
from polars_rank.frames.batches import by_query
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed_by_query, lazy, schema_of

_SEEN = OWN + "seen"


@framed_by_query
def exclude_seen(
    frame: pl.LazyFrame,
    history: Any,
    *,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    run: str | None = RUN,
    by: Names | None = None,
) -> pl.LazyFrame:
    """Drop documents that the user of a ranking has already seen.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2], "doc": ["a", "b", "a"], "score": [2.0, 1.0, 1.0],
    ... })
    >>> history = pl.DataFrame({"query": [1, 2], "doc": ["a", "a"]})
    >>> pr.catalog.exclude_seen(log, history)
    shape: (2, 3)
    ┌───────┬──────┬───────┐
    │ query ┆ doc  ┆ score │
    │ ---   ┆ ---  ┆ ---   │
    │ i64   ┆ str  ┆ f64   │
    ╞═══════╪══════╪═══════╡
    │ 1     ┆ b    ┆ 1.0   │
    │ 2     ┆ null ┆ null  │
    └───────┴──────┴───────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking.
    history
        Table of the documents that each user has already seen. It has the columns `query` and
        `doc`, such as the training log. A document may occur more than once.
    query
        Column or columns that identify the query, in both tables.
    doc
        Column of the document, in both tables.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label. The result has it if the table has it.
    run
        Column of the run. Default: "run" if `frame` has it.
    by
        Columns to group by.

    Returns
    -------
    LazyFrame or DataFrame
        The other rows of `frame`, in their order. A ranking whose documents were all seen keeps
        one row, in which the document, score, label and list columns are null, so that it counts in
        means.

    Raises
    ------
    SchemaError
        If a column is missing, or the ids of the two tables have types that do not match.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    Judgments of seen documents are dropped, too, so that a relevant document that cannot be
    recommended does not lower recall. To keep these judgments, for example of repeat purchases,
    drop the seen documents before you join the judgments.
    """
    roles = {"run": run, "by": by, "query": query, "doc": doc, "score": score, "label": label}
    columns = Columns.find(schema_of(frame), roles, optional=(RUN, "label"))
    rows, seen = with_known_runs(frame, columns), lazy(history, "history")
    unseen, schema = partial(_unseen, columns=columns), schema_of(seen)
    # Rankings of several runs, or groups, of a user are apart: each would read the history again.
    if columns.by or any(schema.get(name) != columns.schema[name] for name in columns.query):
        return unseen(rows, seen)
    found = Columns.find(schema, {"query": columns.query, "doc": doc}, table="`history`")
    others = [name for name in columns.schema if name not in columns.keys]
    lists = Keys.of(columns).lists(rows, others)
    seen_lists = Keys.of(found).lists(seen, [doc], sort=True)
    if lists is None or seen_lists is None:
        return unseen(rows, seen)
    result = by_query([lists, seen_lists], columns.query, unseen, "left")
    return result.select(cs.by_name([*columns.schema])).set_sorted(columns.keys)


def _unseen(rows: pl.LazyFrame, history: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
    """Return the documents that are not in the history, and a row of each other ranking."""
    doc, schema = str(columns.doc), schema_of(history)
    Columns.find(schema, {"doc": doc}, table="`history`")
    keys = [name for name in columns.query if name in schema]
    if not keys:
        Columns.find(schema, {"history": columns.query[0]}, table="`history`")
    on = [*keys, doc]
    key_types(columns.schema, schema, on, ("the rankings", "`history`"))
    # Ids that the types of the log cannot hold become null, and null matches nothing.
    pairs = history.select(on).unique()
    pairs = pairs.with_columns(pl.col(name).cast(columns.schema[name], strict=False) for name in on)
    seen = pairs.with_columns(pl.lit(value=True).alias(_SEEN))
    rows = rows.join(seen, on=on, how="left", maintain_order="left")
    rows = rows.with_columns(pl.col(_SEEN).fill_null(value=False))
    is_seen = pl.col(_SEEN)
    # The first row of each ranking whose documents were all seen.
    stays = is_seen.all().over(columns.keys) & (pl.int_range(pl.len()).over(columns.keys) == 0)
    # Lists, such as of subtopics, describe the document. With them, it would count as judged.
    # Other columns are not selected by name, because Polars reads some names as patterns.
    emptied = pl.col([name for name in (columns.doc, columns.score, columns.label) if name])
    return (
        rows.filter(~is_seen | stays)
        .with_columns(pl.when(~is_seen).then(each) for each in (emptied, cs.list() | cs.array()))
        .drop(_SEEN)
    )


@public
def leave_one_out(time: str, *, n: int = 1, query: Names = "query", doc: str = "doc") -> pl.Expr:
    """Return whether an interaction is the last one of its user: the test set of a split.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2], "doc": ["a", "b", "a"], "time": [1, 2, 1],
    ... })
    >>> test = pr.catalog.leave_one_out("time")
    >>> log.with_columns(test=test)
    shape: (3, 4)
    ┌───────┬─────┬──────┬───────┐
    │ query ┆ doc ┆ time ┆ test  │
    │ ---   ┆ --- ┆ ---  ┆ ---   │
    │ i64   ┆ str ┆ i64  ┆ bool  │
    ╞═══════╪═════╪══════╪═══════╡
    │ 1     ┆ a   ┆ 1    ┆ false │
    │ 1     ┆ b   ┆ 2    ┆ true  │
    │ 2     ┆ a   ┆ 1    ┆ true  │
    └───────┴─────┴──────┴───────┘

    Parameters
    ----------
    time
        Column of the time of an interaction.
    n
        Number of interactions of each user in the test set. Users with `n` or fewer interactions
        have none in the training set.
    query
        Column or columns that identify the query: here the user.
    doc
        Column of the document. Among interactions at the same time, the highest ids are last.

    Returns
    -------
    pl.Expr
        A condition on rows of a log.

    Raises
    ------
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    With leave-one-out, the training log can contain interactions after those of the test set. To
    prevent this, split at a point in time: `pl.col("time") >= day` for the test set, and its
    negation for the training log.

    References
    ----------
    Ji et al., A critical study on data leakage in recommender system offline evaluation, 2023.
    """
    users = some_names("query", query)
    named = pl.Schema(dict.fromkeys([time, doc, *users], pl.Int64()))
    Columns.find(named, {"time": time, "doc": doc, "query": users})
    # Within groups, `arg_sort_by` compares the codes of categoricals: they depend on row order.
    interaction = pl.struct(pl.col(time).alias("time"), pl.col(doc).alias("doc"))
    return interaction.rank("ordinal", descending=True).over(users) <= whole_number("n", n)
