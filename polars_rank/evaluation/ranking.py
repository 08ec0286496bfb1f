"""`rank`: the ranked table of a log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Unpack

import polars as pl

from polars_rank._docstrings import described_by
from polars_rank._params import OWN, Names
from polars_rank.columns import (
    RANKED,
    RUN,
    Columns,
    Scores,
    is_relevant,
)
from polars_rank.conventions import (
    POLARS_RANK,
    ConventionsLike,
    Definitions,
    Duplicates,
)
from polars_rank.errors import ArgumentError, SchemaError, short
from polars_rank.evaluation.attributes import IN_ITEMS, unknown_check
from polars_rank.evaluation.checks import (
    FAILED,
    Check,
    conflict_check,
    duplicate_check,
    failed,
    failed_in_ranking,
    raise_failed,
    row_checks,
    unnamed_checks,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.evaluate import evaluate
from polars_rank.evaluation.order import (
    CONFLICT,
    Order,
    best_of_each,
    conflict_with,
    position,
    rank_order,
)
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.evaluation.rows import Rules
from polars_rank.frames.batches import NUMBERED, by_ranking
from polars_rank.frames.tables import Table, framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Column of the score that ranks documents.
_SCORE = OWN + "ranked score"
#: Columns that are not in the result.
_INTERNAL = (FAILED, _SCORE, IN_ITEMS, CONFLICT)


@described_by(evaluate)
@framed
def rank(
    frame: pl.LazyFrame,
    /,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: Scores = "score",
    label: str = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    items: Table | None = None,
    history: Table | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> pl.LazyFrame:
    """Return the ranked table: the log with `rank`, `ideal_rank`, `relevant` and `hits`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [0.1, 0.9, None], "label": [1, 0, 2],
    ... })
    >>> pr.rank(df).select("score", "rank", "ideal_rank", "relevant", "hits")
    shape: (3, 5)
    ┌───────┬──────┬────────────┬──────────┬──────┐
    │ score ┆ rank ┆ ideal_rank ┆ relevant ┆ hits │
    │ ---   ┆ ---  ┆ ---        ┆ ---      ┆ ---  │
    │ f64   ┆ u32  ┆ u32        ┆ bool     ┆ u32  │
    ╞═══════╪══════╪════════════╪══════════╪══════╡
    │ 0.1   ┆ 2    ┆ 2          ┆ true     ┆ 1    │
    │ 0.9   ┆ 1    ┆ 3          ┆ false    ┆ 0    │
    │ null  ┆ null ┆ 1          ┆ true     ┆ null │
    └───────┴──────┴────────────┴──────────┴──────┘

    Parameters
    ----------
    frame, query, doc
        As in `evaluate`.
    score
        Column of the score, higher is better. "-distance" ranks by a column in which lower is
        better. An expression computes it from other columns. Null: judged but not retrieved.
        Several columns, such as `["bm25", "dense"]`, are runs with their names: the result has the
        rows of all runs, with columns `score` and `run`.
    label
        Column of the relevance label, a number. Null: retrieved but not judged.
    position, run, by
        As in `evaluate`.
    items
        Table with one row per document: the column named by `doc`, and attributes. All its columns
        are joined. `RankWarning` if it has no row for some retrieved documents.
    history
        Table with one row per query and document that the user has seen before. It adds the column
        `seen` and, for each attribute such as `category`, the lists `history_category`.
    conventions
        Metric definitions to use, such as "trec_eval". A preset or its name, a `Conventions`, or a
        dictionary of its fields. The ranked table follows `ties`, `rel`, `unjudged`, `duplicates`,
        `float32_scores` and `text_ids`; parameters and exceptions of metrics do not affect it.
    **definitions
        Fields of `Conventions`, such as `ties="input"`. They take precedence over `conventions`.

    Returns
    -------
    LazyFrame or DataFrame
        The rows in the same order (Spark: in no particular order), with these columns added. Lazy
        if `frame` is lazy; a Spark DataFrame if `frame` is one.

        - `rank`: 1, 2, ... by score descending; null if the score is null.
        - `ideal_rank`: 1, 2, ... by label descending, equal labels by rank; null if the label is
          null.
        - `relevant`: whether the label is at least `rel`; false if the label is null; null for
          the row of a ranking without documents.
        - `hits`: the number of relevant documents at this rank or above; null if the rank is null.

        Documents that are dropped or removed are not retrieved, but their rows remain, because a
        ranking that loses all its documents still counts. With `unjudged="removed"`, scores of
        unjudged documents are null. If the conventions compare 32-bit scores, scores are Float32.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type, or has the name of an added column.
    DataError
        For null queries, NaN or infinite scores or labels, and duplicate documents (see
        `duplicates`). A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter, and for conventions with `ties="expected"`, which is a mean over
        many orders.

    Notes
    -----
    Metrics as expressions over the ranked table equal those of `per_query` with the same options,
    unless the conventions change a parameter of the metric or have an exception for it.

    Unless `ties` is "input", the order of rows does not affect any value. Integers and decimals
    are compared exactly.
    """
    if not isinstance(label, str):
        raise ArgumentError(f"`label` must be the name of a column; found {short(label)}")
    evaluation = Evaluation.of(
        schema_of(frame),
        None,
        query=query,
        doc=doc,
        score=score,
        label=label,
        position=position,
        run=run,
        by=by,
        items=items,
        history=history,
        conventions=conventions,
        **definitions,
    )
    log, columns = evaluation.read(frame)
    if evaluation.scores is not None:
        log, columns = _as_runs(log, columns, evaluation.scores)
    for role, name in (("score", columns.score), ("label", label)):
        if name != role and role in columns.schema:
            other = "another expression" if name.startswith(OWN) else repr(name)
            raise SchemaError(
                f"`{role}` is {other}, but the frame also has a column {role!r}, which metrics "
                "would read in the ranked table; drop it or rename it"
            )
    there = [name for name in RANKED if name in columns.schema]
    if there:
        raise SchemaError(
            f"the frame already has the columns {there}, which the ranked table adds; "
            "drop or rename them"
        )
    # Unlike an evaluation, a ranked table has one order: "expected" is an error.
    rules = Rules.of(evaluation.conventions)._replace(ties=evaluation.conventions.ties)
    checks = _checks(columns, rules)
    if items is not None:
        unknown = (pl.col(IN_ITEMS).is_null() & pl.col(_SCORE).is_not_null()).any()
        checks.append(unknown_check("ranking")._replace(condition=unknown))
    table = _ranked(log, columns, rules, checks)
    if not columns.score.startswith(OWN):
        return table
    negated = position or (score[1:] if isinstance(score, str) else None)
    if negated is not None and columns.schema[negated] == pl.Int64:
        # The negative of the lowest Int64 is beyond its range.
        exact = pl.col(columns.score).clip(upper_bound=2**63 - 1).cast(pl.Int64)
        table = table if rules.float32_scores else table.with_columns(exact)
    return table.rename({columns.score: "score"})


def _checks(columns: Columns, rules: Rules) -> list[Check]:
    """Return the checks of rows and rankings."""
    checks = row_checks(columns)
    if columns.doc is not None and rules.duplicates == "error":
        checks.append(duplicate_check(columns, columns.doc))
    if rules.merges_copies(columns):
        checks.append(conflict_check(columns))
    return [*checks, *unnamed_checks(columns)]


def _as_runs(
    log: pl.LazyFrame, columns: Columns, scores: Sequence[str]
) -> tuple[pl.LazyFrame, Columns]:
    """Return the log of several runs without columns that are valid for one run only."""
    dropped = [
        name
        for name, dtype in columns.schema.items()
        if dtype == NUMBERED or (name == "score" and name in scores)
    ]
    log = log.drop(dropped)
    return log, columns._replace(schema=schema_of(log))


def _ranked(
    log: pl.LazyFrame,
    columns: Columns,
    rules: Rules,
    checks: Sequence[Check] = (),
) -> pl.LazyFrame:
    """Return the log without duplicates and with the columns that the ranked table adds."""
    keys = Keys.of(columns)
    adjacent = keys.are_adjacent(log)
    if adjacent:
        rows = keys.rows(log, [*columns.schema])
        plan = partial(_with_ranks, columns=columns, rules=rules, checks=checks)
        ranked = by_ranking(rows, keys.group, plan).drop({*keys.group, *keys.names.values()})
    else:
        ranked = _with_ranks(log, columns, rules, checks)
    ranked = raise_failed(ranked, checks, log=log, keys={key: key for key in columns.keys})
    return ranked.set_sorted(columns.keys) if adjacent and keys.number is None else ranked


def _with_ranks(
    log: pl.LazyFrame,
    columns: Columns,
    rules: Rules,
    checks: Sequence[Check],
) -> pl.LazyFrame:
    """Return the ranked table of complete rankings, with the number of a failed check."""
    label = columns.number(columns.label)
    schema = pl.Schema({**columns.schema, _SCORE: rules.score_type(columns)})
    own = columns._replace(score=_SCORE, schema=schema)
    if rules.merges_copies(columns):
        log = _without_copies(log, columns, rules.duplicates)
    unnamed = {OWN + name: pl.col(name) for name in columns.unnamed}
    retrieved, judged = pl.col(_SCORE).is_not_null(), label.is_not_null()
    by_score = rank_order(rules.ties, own, text_ids=rules.text_ids)
    by_label = Order(by=[label, pl.col("rank")], descending=[True, False], nulls_last=[True, True])
    own_columns = {_SCORE: rules.score(columns), **unnamed}
    return (
        log.with_columns(failed(checks, "row"), **own_columns)
        .with_columns(
            position(by_score).over(columns.keys).alias("rank"),
            pl.when(columns.is_document).then(is_relevant(label, rules.rel)).alias("relevant"),
            failed_in_ranking(checks).over(columns.keys),
        )
        .with_columns(
            pl.when(judged).then(position(by_label).over(columns.keys)).alias("ideal_rank"),
            pl.col("relevant").cum_sum().over(columns.keys, order_by="rank").alias("hits"),
        )
        .with_columns(
            pl.when(retrieved).then(pl.col("rank", "hits")),
            *([pl.col(_SCORE).alias(columns.score)] if rules.changes_scores else []),
        )
        # Columns of the log are not selected by name, because Polars reads some names as patterns.
        .select(pl.exclude(*_INTERNAL, *RANKED, *unnamed), *RANKED, FAILED)
    )


def ranked_documents(
    log: pl.LazyFrame, columns: Columns, rules: Rules, *others: pl.Expr
) -> pl.LazyFrame:
    """Return the documents of a checked log, ranked by the rules of a metric.

    The columns are the keys, `doc` if there are ids, `label`, `others`, and the columns that the
    ranked table adds.
    """
    rows = log.select(
        *columns.keys,
        *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
        pl.col(columns.label).alias("label"),
        pl.col(columns.score).alias(OWN + "score"),
        *others,
    )
    own = columns._replace(
        doc=None if columns.doc is None else "doc", label="label", score=OWN + "score",
        schema=schema_of(rows), unnamed=(),
    )  # fmt: skip
    return _ranked(rows, own, rules).drop(OWN + "score")


def _without_copies(log: pl.LazyFrame, columns: Columns, duplicates: Duplicates) -> pl.LazyFrame:
    """Return one row of each document: the one with the highest score, or the first one.

    A row in `CONFLICT` with another copy is not dropped.
    """
    order = best_of_each(columns, duplicates)
    row = pl.int_range(pl.len()).sort_by(**order)
    is_best = pl.col(str(columns.doc)).sort_by(**order).is_first_distinct().sort_by(row)
    conflict = conflict_with(lambda value: value.first().over(columns.pair), columns)
    conflicting = log.with_columns(conflict.alias(CONFLICT))
    return conflicting.filter(is_best.over(columns.keys) | pl.col(CONFLICT))
