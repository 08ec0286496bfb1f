"""`fuse`: one run from several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl
from polars import selectors as cs

from polars_rank._params import Names, described, names, one_of, used_twice
from polars_rank._polars import FewRows, is_sorted_by
from polars_rank.checks import Check, raise_failed, with_check
from polars_rank.columns import Columns, without_run
from polars_rank.conventions import Ties
from polars_rank.errors import DataError, hint
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log_checks import invalid_documents, row_checks
from polars_rank.evaluation.ranking import TIES
from polars_rank.frames.batches import by_ranking, merged
from polars_rank.frames.engines import Mergeable, Separable
from polars_rank.frames.tables import framed, schema_of
from polars_rank.fusion.combination import FUSED, HIGHEST, LABEL, LOWEST_LABEL, Combination
from polars_rank.fusion.methods import Fusion, read_fusion


@framed
def fuse(
    log: pl.LazyFrame,  # noqa: ARG001  (`Separable` passes it, or parts of it)
    method: str | Fusion = "rrf",
    *,
    run: str = "run",
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    ties: Ties | None = None,
    name: str = "fused",
    keep_runs: bool = False,
) -> Separable:
    r"""Fuse the rankings of several runs into one run.

    The default is reciprocal rank fusion (RRF) with k = 60:

    $$\mathrm{score}(d) = \sum_{r} \frac{w_r}{k + \mathrm{rank}_r(d)}$$

    over the runs r that retrieved the document d for the query.

    Examples
    --------
    >>> runs = pl.DataFrame({
    ...     "run": ["bm25", "bm25", "bm25", "dense", "dense"],
    ...     "query": 1,
    ...     "doc": ["a", "b", "c", "b", "d"],
    ...     "score": [12.0, 10.5, 7.0, 0.9, 0.8],
    ...     "label": [0, 1, 0, 1, 0],
    ... })
    >>> hybrid = pr.fuse(runs)
    >>> hybrid
    shape: (4, 5)
    ┌───────┬───────┬─────┬──────────┬───────┐
    │ run   ┆ query ┆ doc ┆ score    ┆ label │
    │ ---   ┆ ---   ┆ --- ┆ ---      ┆ ---   │
    │ str   ┆ i32   ┆ str ┆ f64      ┆ i64   │
    ╞═══════╪═══════╪═════╪══════════╪═══════╡
    │ fused ┆ 1     ┆ b   ┆ 0.032522 ┆ 1     │
    │ fused ┆ 1     ┆ a   ┆ 0.016393 ┆ 0     │
    │ fused ┆ 1     ┆ d   ┆ 0.016129 ┆ 0     │
    │ fused ┆ 1     ┆ c   ┆ 0.015873 ┆ 0     │
    └───────┴───────┴─────┴──────────┴───────┘

    A weighted sum of normalized scores, compared with the runs:

    >>> method = "sum(normalize='min_max', weights={'bm25': 0.7, 'dense': 0.3})"
    >>> both = pr.fuse(runs, method, keep_runs=True)
    >>> pr.evaluate(both, "rr", by="run")
    shape: (3, 3)
    ┌───────┬─────────┬─────┐
    │ run   ┆ queries ┆ rr  │
    │ ---   ┆ ---     ┆ --- │
    │ str   ┆ u32     ┆ f64 │
    ╞═══════╪═════════╪═════╡
    │ bm25  ┆ 1       ┆ 0.5 │
    │ dense ┆ 1       ┆ 1.0 │
    │ fused ┆ 1       ┆ 1.0 │
    └───────┴─────────┴─────┘

    Parameters
    ----------
    log
        Long table of at least two runs, with a row per run, query and document. A document without
        a score was judged, but not retrieved.
    method
        Method with its parameters, such as "rrf(k=10)", "borda" or "sum(normalize='min_max',
        weights={'bm25': 0.3, 'dense': 0.7})". Or a `Fusion`. `Fusion` lists the methods and their
        parameters.
    run
        Column of the run.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label. The result has it if the table has it.
    by
        Columns to group by. Runs are fused within each group.
    ties
        Order of documents with equal scores. By id, "doc" (default, descending, as trec_eval) or
        "doc_ascending", or "input", the order of the rows.
    name
        Name of the fused run.
    keep_runs
        Whether to keep the other runs in the result, to compare them with the fused run.

    Returns
    -------
    LazyFrame or DataFrame
        Like `log`, query by query and by fused score descending: the columns of `by`, `run`,
        `query` and `doc`, the score as Float64, and the label. All other columns are dropped. A
        document has the label that it has in any run. Judged documents that no run retrieved have
        a null score.

        With `keep_runs`, the rankings of the runs come before that of the fused run, each document
        once. All judged documents of the query are added to each of them, with a null score if the
        run did not retrieve them: recall and ideal rankings are then the same for all runs.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, documents or runs, NaN or infinite scores or labels, a document that has
        different labels for a query, fewer than two runs, a run that is not in `weights` or the
        other way round, or highest scores of 0 or less with "max". A lazy result raises it when it
        is collected.
    ArgumentError
        For an invalid parameter, or one that has no effect with the method.

    Notes
    -----
    A document that occurs twice in a ranking counts once, at its best rank. Only the runs that have
    rows for a query are fused: in a query that one run has alone, the others count neither as
    missing nor with their weight. A row without a document says that a run found nothing.

    Fused scores depend only on the documents of the query: if the rows of each query are adjacent,
    as in the result of `scan_log(path, run=None)`, memory does not grow with the table. The same is
    true if `scan_log(path)` finds it sorted by run and query: up to 50 runs are then read side by
    side. The column of runs is read once more, to check the runs.
    """
    fusion = read_fusion(method)
    fusion.check_weights()
    one_of("ties", ties, (None, *TIES))
    roles = {"run": run, "by": by, "query": query, "doc": doc, "score": score, "label": label}
    queries, groups = names("query", query), without_run(names("by", by), run)
    order = [*groups, *queries]

    def fused(frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the result without the check of the runs of the whole table."""
        log, columns = columns_of_runs(frame, roles)
        plan = Combination(
            fusion, columns, run, ties, checks_of_log(columns, run, fusion), keep_runs
        )
        keys, table = Keys.of(columns), log
        if not isinstance(log, FewRows) and is_sorted_by(log, [*columns.by, run, *columns.query]):
            read = {name for value in plan.inputs for name in value.meta.root_names()}
            table = merged(log.select(cs.by_name(*read)), run, columns.keys)
        if adjacent := keys.are_adjacent(table):
            rows = keys.rows(table, plan.inputs)
            documents = by_ranking(rows, keys.group, lambda rows: plan.fused(rows, keys.group))
        else:
            documents = plan.fused(log.select(plan.inputs), columns.keys)
        where = {column: column for column in columns.pair}
        documents = raise_failed(documents, plan.checks, log=log, keys=where)
        if adjacent and keys.number is None:
            documents = documents.set_sorted(columns.keys)
        return documents.select(
            *columns.by,
            pl.col(run).fill_null(name),
            *columns.query,
            doc,
            FUSED.alias(score),
            *([LABEL.alias(label)] if label == columns.label else []),
        )

    def runs_of(log: pl.LazyFrame) -> pl.LazyFrame:
        """Return the runs of a log as text.

        They are read by a plan of their own: in one plan, Polars would scan the log once, and hold
        the rows that the fusion has not yet read.
        """
        runs = log.select(pl.col(run).cast(pl.String).unique())
        return pl.defer(lambda: runs.collect(engine="streaming"), schema={run: pl.String})

    def check(table: pl.DataFrame) -> pl.DataFrame:
        """Return no rows, after the check of all runs at once."""
        found = table.to_series().drop_nulls().sort().to_list()
        check_runs(run, found, fusion.weights or (), name if keep_runs else None)
        return table.clear()

    def whole(log: pl.LazyFrame) -> pl.LazyFrame:
        result = fused(log)
        found = with_check(result, runs_of(log), check)
        # Polars does not know that the check adds no rows.
        if not is_sorted_by(result, order):
            return found
        # Without the runs, there is one run.
        return found.set_sorted(order if keep_runs else [*groups, run, *queries])

    return Separable(
        queries,
        fused,
        Mergeable((), runs_of, pl.LazyFrame.unique, lambda runs: runs.map_batches(check)),
        whole,
    )


def columns_of_runs(
    log: pl.LazyFrame, roles: Mapping[str, Any], optional: Sequence[str] = ("label",)
) -> tuple[pl.LazyFrame, Columns]:
    """Return a log of several runs and its columns; the run is not one of the groups."""
    log, columns = Columns.find(schema_of(log), roles, optional=optional).labeled(log)
    if columns.score == columns.label:
        raise used_twice(columns.score, "score", "label")
    return log, columns._replace(by=columns.groups, run=None)


def checks_of_log(columns: Columns, run: str, fusion: Fusion) -> list[Check]:
    """Return the checks of rows and of documents."""
    checks = [
        *row_checks(columns),
        Check("row", pl.col(run).is_null(), f"column {run!r} (`run`) has nulls; drop these rows"),
    ]
    if fusion.weights is not None:
        message = (
            f"column {run!r} (`run`) has runs without a weight; add them to `weights`, or drop "
            "their rows"
        )
        has_weight = pl.col(run).cast(pl.String).is_in([*fusion.weights])
        checks.append(Check("row", ~has_weight, message))
    message = (
        f"{described('label', columns.label)} has different labels for a document of a query; "
        "keep one of them, or name all columns that identify a query with `query` or `by`"
    )
    conflict = pl.col(columns.label).drop_nulls().n_unique() > 1
    labels = pl.col(columns.label).unique().sort()
    count = partial(invalid_documents, columns.pair, conflict, labels, message)
    checks.append(Check("ranking", LABEL != LOWEST_LABEL, message, count_failures=count))
    if fusion.normalize == "max":
        message = (
            f"{described('score', columns.score)} has highest scores of 0 or less, by which "
            "`normalize` 'max' would divide; use 'min_max'"
        )
        checks.append(Check("ranking", HIGHEST <= 0, message))
    return checks


def check_runs(
    column: str, runs: Sequence[str], weighted: Iterable[str] = (), name: str | None = None
) -> None:
    """Raise `DataError` if there are fewer than two runs, or they do not fit the parameters.

    `weighted` are runs that have a weight, and `name` is that of a run of the result.
    """
    unknown = [run for run in weighted if run not in runs]
    if unknown:
        raise DataError(
            f"run {unknown[0]!r} (`weights`) not found in column {column!r}; available: "
            f"{', '.join(map(repr, runs))}.{hint(unknown[0], runs)}"
        )
    if len(runs) < 2:
        only = f"only the run {runs[0]!r}" if runs else "no runs"
        raise DataError(f"column {column!r} (`run`) has {only}; pass the rankings of several runs")
    if name in runs:
        raise DataError(
            f"column {column!r} (`run`) has a run {name!r}; choose another `name` for the fused run"
        )
