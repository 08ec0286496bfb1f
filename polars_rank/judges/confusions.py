"""`confusion`: the grades of a judge for each grade of a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.frames.tables import framed
from polars_rank.judges.labels import JudgeTable, Labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank._params import Names
    from polars_rank.columns import Label


@framed
def confusion(
    judgments: pl.LazyFrame,
    *,
    judge: str = "judge",
    reference: Any = None,
    query: Names = "query",
    doc: str = "doc",
    label: Label = "label",
    categories: Sequence[float] | None = None,
    by: Names | None = None,
) -> pl.LazyFrame:
    """Count the documents of each pair of grades of a reference and a judge.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1,
    ...     "doc": ["a", "b", "c", "d"],
    ...     "human": [0, 1, 1, 1],
    ...     "llm": [0, 0, 1, 1],
    ... })
    >>> judgments = log.unpivot(
    ...     index=["query", "doc"], variable_name="judge", value_name="label"
    ... )
    >>> table = pr.judges.confusion(judgments)
    >>> table.select("reference_label", "label", "pairs", "share")
    shape: (4, 4)
    ┌─────────────────┬───────┬───────┬──────────┐
    │ reference_label ┆ label ┆ pairs ┆ share    │
    │ ---             ┆ ---   ┆ ---   ┆ ---      │
    │ i64             ┆ i64   ┆ i64   ┆ f64      │
    ╞═════════════════╪═══════╪═══════╪══════════╡
    │ 0               ┆ 0     ┆ 1     ┆ 1.0      │
    │ 0               ┆ 1     ┆ 0     ┆ 0.0      │
    │ 1               ┆ 0     ┆ 1     ┆ 0.333333 │
    │ 1               ┆ 1     ┆ 2     ┆ 0.666667 │
    └─────────────────┴───────┴───────┴──────────┘

    Parameters
    ----------
    judgments
        Table with a row per document and judge. Unpivot a table with a column per judge. Null
        labels are missing. A label that occurs more than once, such as in several runs of a log,
        counts once.
    judge
        Column of the judge. Judges are people or models.
    reference
        The judge with which the others are compared. Default: all pairs of judges.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    label
        Column of the relevance label. It is a whole number, unless `categories` lists the grades.
    categories
        All possible grades. Default: those that any judge gave in the table.
    by
        Columns to group by.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `judgments`, in the order of `by`, then of the judges and grades: a row for
        each group, pair of judges and pair of grades, with the columns of `by` and

        - `judge`, `reference`: the pair, as text. Without `reference`, the reference is the judge
          that comes first in the alphabet;
        - `reference_label`, `label`: the grades;
        - `pairs`: the number of documents with these labels; a document that only one of the two
          judges labeled does not count;
        - `share`: the share of this number in the documents with the grade of the reference; null
          if there are none.

    Raises
    ------
    ArgumentError
        If `label` names several columns, or there are more than 128 grades.
    DataError
        If ids are null, labels are NaN or not in `categories` (default: not whole numbers), a judge
        gave a document different labels, a judge has no labels, or there are no two judges; raised
        when the result is collected.
    MissingExtraError
        If numpy is not installed (extra "stats").
    """
    given = JudgeTable(
        judge=judge, reference=reference, query=query, doc=doc, label=label,
        categories=categories, by=by,
    )  # fmt: skip
    is_whole = given.values is None or all(value.is_integer() for value in given.values)
    grade = pl.Int64() if is_whole else pl.Float64()
    schema = {
        **dict.fromkeys(("judge", "reference"), pl.String()),
        **dict.fromkeys(("reference_label", "label"), grade),
        "pairs": pl.Int64(),
        "share": pl.Float64(),
    }
    return given.table(judgments, schema, lambda labels: [*_rows(labels, grade)])


def _rows(labels: Labels, dtype: pl.DataType) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of all pairs of judges and grades."""
    values = pl.Series(labels.values).cast(dtype).to_list()
    for first, second in labels.pairs:
        counts = labels.pair_counts(first, second).sum(axis=0).tolist()
        for grade, row in zip(values, counts, strict=True):
            total = sum(row)
            for other, count in zip(values, row, strict=True):
                share = count / total if total else None
                yield labels.judges[second], labels.judges[first], grade, other, count, share
