"""`rank`: the ranked table of a log."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._docstrings import described_by
from polars_rank._params import OWN, Names, one_of
from polars_rank.columns import RANKED, Columns, Score, is_relevant, scored
from polars_rank.conventions import DUPLICATES, TIES, Duplicates, Ties, lowest_relevant
from polars_rank.errors import SchemaError
from polars_rank.evaluation.checks import (
    FAILED,
    Check,
    duplicate_check,
    failed,
    failed_in_ranking,
    raise_failed,
    row_checks,
    unnamed_checks,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.evaluate import evaluate
from polars_rank.evaluation.order import Order, position, rank_order
from polars_rank.evaluation.rows import Rules
from polars_rank.frames.batches import by_ranking
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Columns of the score that ranks documents, and of the number of the row.
_SCORE, _ROW = OWN + "ranked score", OWN + "row"


@described_by(evaluate)
@framed
def rank(
    frame: pl.LazyFrame,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
    duplicates: Duplicates = "error",
) -> pl.LazyFrame:
    """Return the ranked table: the log with `rank`, `ideal_rank`, `relevant` and `hits`.

    Parameters
    ----------
    frame, query, doc, score, label, position, by
        As in `evaluate`.
    ties
        Order of documents with equal scores: "doc" (id descending; the default if there are
        ids), "doc_ascending", "best" or "worst" (higher or lower label first; "worst" is the
        default without ids), or "input" (order of rows).
    rel, duplicates
        As in `evaluate`.

    Returns
    -------
    LazyFrame or DataFrame
        The rows in the same order (Spark: in no particular order), with these columns added. Lazy
        if `frame` is lazy; a Spark DataFrame if `frame` is one.

        - `rank`: 1, 2, ... by score descending; null if the score is null.
        - `ideal_rank`: 1, 2, ... by label descending, equal labels by rank; null if the label is
          null.
        - `relevant`: whether the label is at least `rel`; false if the label is null; null for the
          row of a ranking without documents.
        - `hits`: the number of relevant documents at this rank or above; null if the rank is null.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type, or has the name of an added column.
    DataError
        For null queries, NaN or infinite scores or labels, and duplicate documents. A lazy result
        raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    Unless `ties` is "input", the order of rows does not affect any value. Integers and decimals
    are compared exactly.

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
    """
    lowest = lowest_relevant(rel)
    one_of("ties", ties, (None, *TIES))
    one_of("duplicates", duplicates, DUPLICATES)

    log, by_score = scored(frame, score, position)
    columns = Columns.find(
        schema_of(log), query=query, doc=doc, score=by_score, label=label, by=by, needs_ids=False
    )
    for role, name in (("score", by_score), ("label", label)):
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
    checks = row_checks(columns)
    if columns.doc is not None:
        checks.append(duplicate_check(columns, columns.doc))
    checks += unnamed_checks(columns)
    rules = Rules(ties, lowest)
    table = _ranked(log, columns, rules, duplicates, checks)
    if isinstance(score, str) and score == by_score:
        return table
    shown = pl.col(by_score)
    negated = position or (score[1:] if isinstance(score, str) and score != by_score else None)
    if negated is not None and columns.schema[negated] == pl.Int64:
        # The negative of the lowest Int64 is beyond its range.
        shown = shown.clip(upper_bound=2**63 - 1).cast(pl.Int64)
    return table.with_columns(shown).rename({by_score: "score"})


def _ranked(
    log: pl.LazyFrame,
    columns: Columns,
    rules: Rules,
    duplicates: Duplicates,
    checks: Sequence[Check] = (),
) -> pl.LazyFrame:
    """Return the log without duplicates and with the columns that the ranked table adds."""
    keys = Keys.of(columns)
    adjacent = keys.are_adjacent(log)
    if adjacent:
        rows = keys.rows(log, [*columns.schema])
        plan = partial(
            _with_ranks, columns=columns, rules=rules, duplicates=duplicates, checks=checks
        )
        ranked = by_ranking(rows, keys.group, plan).drop({*keys.group, *keys.names.values()})
    else:
        ranked = _with_ranks(log, columns, rules, duplicates, checks)
    ranked = raise_failed(ranked, checks, log=log, keys={key: key for key in columns.keys})
    return ranked.set_sorted(columns.keys) if adjacent and keys.number is None else ranked


def _with_ranks(
    log: pl.LazyFrame,
    columns: Columns,
    rules: Rules,
    duplicates: Duplicates,
    checks: Sequence[Check],
) -> pl.LazyFrame:
    """Return the ranked table of complete rankings, with the number of a failed check."""
    log = _without_duplicates(log, columns, duplicates)
    unnamed = {OWN + name: pl.col(name) for name in columns.unnamed}
    label = columns.number(columns.label)
    retrieved, judged = pl.col(_SCORE).is_not_null(), label.is_not_null()
    own = columns._replace(
        score=_SCORE, schema=pl.Schema({**columns.schema, _SCORE: rules.score_type(columns)})
    )
    by_score = rank_order(rules.ties, own, text_ids=rules.text_ids)
    by_label = Order(by=[label, pl.col("rank")], descending=[True, False], nulls_last=[True, True])
    return (
        log.with_columns(failed(checks, "row"), rules.score(columns).alias(_SCORE), **unnamed)
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
        )
        # Columns of the log are not selected by name, because Polars reads some names as patterns.
        .select(pl.exclude(FAILED, _SCORE, *RANKED, *unnamed), *RANKED, FAILED)
    )


def ranked_documents(
    log: pl.LazyFrame, columns: Columns, rules: Rules, duplicates: Duplicates, *others: pl.Expr
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
    return _ranked(rows, own, rules, duplicates).drop(OWN + "score")


def _without_duplicates(log: pl.LazyFrame, columns: Columns, keep: Duplicates) -> pl.LazyFrame:
    """Return the log with the first or highest-scored row of each document in a ranking."""
    if columns.doc is None or keep == "error":
        return log
    pair = [*columns.keys, columns.doc]
    if keep == "first":
        return log.unique(pair, keep="first", maintain_order=True)
    by_score = log.with_row_index(_ROW).sort(
        columns.score, descending=True, nulls_last=True, maintain_order=True
    )
    return by_score.unique(pair, keep="first", maintain_order=True).sort(_ROW).drop(_ROW)
