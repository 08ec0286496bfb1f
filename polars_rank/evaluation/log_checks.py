"""The checks of logs: ids, scores, labels, duplicates, and columns that no parameter names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

import polars as pl

from polars_rank._params import OWN, described
from polars_rank.checks import Check, with_check
from polars_rank.columns import RUN, RUNS, Columns, is_relevant
from polars_rank.errors import Finding, warning
from polars_rank.evaluation.order import CONFLICT

_ROWS = OWN + "rows"


def duplicates_remedy(keys: str = "`run`, `by` or `query`", choice: str = "") -> str:
    """Return what to do about documents that occur more than once in a ranking.

    `keys` are the parameters that identify rankings. `choice` is another remedy of the function.
    """
    return (
        f"name all columns that identify a ranking, such as the run or the fold, with {keys}; if "
        "the rows are chunks, turn them into documents with pr.collapse; if judgments have the "
        "document more than once, join them with pr.join_judgments; if rankings have it more than "
        f"once, drop the duplicates{choice}"
    )


DUPLICATES_REMEDY = duplicates_remedy(choice=", or set `duplicates` to 'max' or 'first'")


def row_checks(
    columns: Columns, refusals: Mapping[str, Callable[[pl.Expr], pl.Expr]] = MappingProxyType({})
) -> list[Check]:
    """Return the checks of the rows of every log: ids, scores and labels.

    `refusals` has the checks of gains that do not accept all labels: messages and conditions.
    """
    checks = [
        Check(
            "row",
            pl.col(name).is_null(),
            f"column {name!r} (`query`) has nulls; drop these rows or fill in an id",
        )
        for name in columns.query
    ]
    if columns.run is not None:
        message = (
            f"column {columns.run!r} (`run`) is null for judged documents that were not retrieved, "
            "so that they belong to no run; pr.join_judgments(rankings, judgments) adds the judged "
            "documents to each run"
        )
        stray = pl.col(columns.run).is_null() & pl.col(columns.score).is_null()
        checks.append(Check("row", stray, message))
    if columns.doc is not None:
        # A row with only a query stands for a ranking without documents.
        filled = pl.col(columns.score).is_not_null() | pl.col(columns.label).is_not_null()
        message = f"column {columns.doc!r} (`doc`) has nulls; drop these rows, or pass doc=None"
        missing = pl.col(columns.doc).is_null() & filled
        checks.append(Check("row", missing, message))
    numbers = {columns.score_parameter: columns.score, columns.label_parameter: columns.label}
    for role, name in numbers.items():
        if columns.schema[name].is_float():
            column = described(role, name)
            message = f"{column} has NaN or infinite values; use null for unknown"
            checks.append(Check("row", ~pl.col(name).is_finite(), message))
    for problem, condition in refusals.items():
        label = columns.number(columns.label).cast(pl.Float64)
        checks.append(Check("row", condition(label), f"{columns.label!r} {problem}"))
    return checks


def weight_check(column: str, weight: pl.Expr) -> Check:
    """Return the check for weights that are null, below 0, or not finite.

    `column` is the description of the column in the message.
    """
    valid = ((weight >= 0) & weight.is_finite()).fill_null(value=False)
    message = f"column {column} must have finite numbers of 0 or more"
    return Check("row", ~valid, message)


def duplicate_check(columns: Columns, repeated: pl.Expr, remedy: str = DUPLICATES_REMEDY) -> Check:
    """Return the check for rankings that have a document more than once.

    `repeated` is the condition.
    """
    run = next((n for n in columns.schema if n.lower() in RUNS and n not in columns.keys), None)
    if run is not None and "`by`" in remedy:
        remedy = f"there is a column {run!r}: {_split_by(run, columns)}"
    message = (
        f"column {columns.doc!r} (`doc`) has duplicates: a document occurs more than once in a "
        f"ranking; {remedy}"
    )
    count = partial(invalid_documents, columns.pair, pl.len() > 1, pl.len().alias(_ROWS), message)
    return Check("ranking", repeated, message, count_failures=count)


def conflict_check(columns: Columns) -> Check:
    """Return the check for documents with the score in one row and the label in another one."""
    scored = pl.col(columns.score).is_not_null()
    labeled = pl.col(columns.label).is_not_null()
    conflict = (scored & ~labeled).any() & (labeled & ~scored).any()
    message = (
        f"{described('label', columns.label)} has the labels of documents in rows without a score, "
        "and their scores are in rows without a label, of which `duplicates` keeps one; join the "
        "judgments with pr.join_judgments"
    )
    labels = pl.col(columns.label).unique().sort()
    count = partial(invalid_documents, columns.pair, conflict, labels, message)
    return Check("ranking", pl.col(CONFLICT).any(), message, count_failures=count)


def invalid_documents(
    pair: Sequence[str], condition: pl.Expr, shown: pl.Expr, problem: str, log: pl.LazyFrame
) -> Finding | None:
    """Return the number of documents that meet a condition, and one of them with what is shown.

    `condition` and `shown` are aggregations of the rows of a document.
    """
    documents = log.group_by(pair).agg(shown, condition.alias(CONFLICT)).filter(CONFLICT)
    invalid = documents.drop(CONFLICT).collect(engine="streaming").sort(pair)
    if invalid.is_empty():
        return None
    example = {name.removeprefix(OWN): each for name, each in invalid.row(0, named=True).items()}
    return Finding(problem, invalid.height, example, unit="document")


def unscored_check(metric: str, rel: float, parameter: str, score: str) -> Check:
    """Return the warning that relevant documents are not among those that a metric compares."""
    message = (
        f"{metric} compares retrieved documents only, but relevant documents were not retrieved "
        f"({described(parameter, score)} is null), as in rankings of the top k documents; score "
        "all documents, or use a metric that counts relevant documents without a score, such as "
        "'ap' or 'ndcg'"
    )
    missed = is_relevant(pl.col("label"), rel) & pl.col("score").is_null()
    return Check("ranking", missed.any(), message, warns=True)


def unnamed_checks(columns: Columns) -> list[Check]:
    """Return warnings about unused columns that look like runs or document ids.

    Their conditions read the columns under internal names.
    """
    checks = []
    for name in columns.unnamed:
        column = pl.col(OWN + name)
        if name == RUN:  # `run=None` says that it does not identify rankings
            continue
        if name.lower() in RUNS:
            # Nulls are ignored: judged documents that were not retrieved have no run.
            several = column.min() != column.max()
            advice = _split_by(name, columns)
            message = (
                f"rankings have several values of the column {name!r}, which no parameter names; "
                f"if it identifies rankings, {advice}; if not, drop or rename it"
            )
            checks.append(Check("ranking", several, message, warns=True))
        else:
            message = (
                f"rankings have duplicates in the column {name!r}, which looks like a document id; "
                "pass it as `doc` to find duplicate documents"
            )
            repeated = column.n_unique() < pl.len()
            checks.append(Check("ranking", repeated, message, warns=True))
    return checks


def _split_by(run: str, columns: Columns) -> str:
    """Return the advice to split a table by a column that looks like runs."""
    if columns.run is None:
        return f"pass run={run!r}"
    return f"add {run!r} to `by`" if len(columns.by) > 1 else f"pass by={run!r}"


def with_run_warning(
    results: pl.LazyFrame,
    rows: pl.LazyFrame,
    run: str | None,
    columns: Columns,
    *,
    table: str = "the table",
) -> pl.LazyFrame:
    """Return the results; collecting them warns of several runs in a column that is not named.

    There is no warning if the column `run` exists, or if it is None.
    """
    unnamed = columns.unnamed
    if run is None or run in columns.schema or not unnamed:
        return results
    column = pl.col(unnamed)
    several = rows.select(column.min() != column.max())
    issue = warning()

    def check(facts: pl.DataFrame) -> None:
        for name in unnamed:
            if facts.get_column(name).any():
                issue(
                    f"{table} has several values of the column {name!r}, which no parameter names; "
                    f"if it identifies runs, pass run={name!r}; if not, pass run=None"
                )

    return with_check(results, several, check, last=True)
