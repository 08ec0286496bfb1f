"""The queries with the largest changes, or the best and worst, with their documents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.definitions import Definition
from polars_rank.diagnostics.changes import GOOD, PLACE, TOTAL, largest_changes
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.ranking import ranked_documents
from polars_rank.frames.tables import collected, schema_of
from polars_rank.metrics.names import lower_is_better
from polars_rank.reporting.question import DEFINED
from polars_rank.stats.value_columns import variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.reporting.question import Question

#: Maximum number of runs whose rankings are shown.
_MAX_RUNS = 6
#: Maximum number of relevant documents below the cutoff that are shown.
_MAX_MISSED = 5
_VALUE, _BASE = OWN + "value", OWN + "baseline"
_RUN, _RANKING, _SCORE = OWN + "run", OWN + "ranking", OWN + "shown score"


def selected_queries(
    values: pl.LazyFrame, question: Question, runs: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return the queries of each run with the largest gains and losses, or best and worst.

    Each has its values, the rankings of the run and of the baseline, and as "total" the number of
    queries with a gain (a loss), or of all queries without a baseline.
    """
    selected = collected(_extremes(_with_values(values, question, runs), question))
    if selected.is_empty():
        return []
    documents = _documents(selected, question)
    columns = {name: f"shown {index}" for index, name in enumerate(question.show)}
    # The columns with one value per query, such as its text; the others are of documents.
    of_queries = {
        name: column
        for name, column in columns.items()
        if any(each.height > 1 for each in documents.values())
        and all(each.get_column(column).drop_nulls().n_unique() <= 1 for each in documents.values())
    }
    of_documents = {name: column for name, column in columns.items() if name not in of_queries}
    changes = []
    for number, row in enumerate(selected.iter_rows(named=True)):
        base = documents.get(number + selected.height)
        rankings = {} if question.baseline is None else {question.baseline: base}
        rankings[row[_RUN]] = documents.get(number)
        found = {run: table for run, table in rankings.items() if table is not None}
        query = {name: row[name] for name in question.queries}
        kept = {}
        for name, column in of_queries.items():
            known = (each.get_column(column).drop_nulls() for each in [*found.values()][::-1])
            kept[name] = next((each[0] for each in known if each.len()), None)
        previous = {}
        if base is not None and "doc" in base.columns:
            previous = dict(base.select("doc", "rank").iter_rows())
        changes.append({
            "run": row[_RUN], "good": row[GOOD], "query": query, "value": row[_VALUE],
            "kept": {name: value for name, value in kept.items() if name not in query},
            "baseline_value": row[_BASE], "total": row[TOTAL],
            "difference": None if row[_BASE] is None else row[_VALUE] - row[_BASE],
            "sides": [
                _side(run, table, {} if table is base else previous, question, of_documents)
                for run, table in found.items()
            ],
        })  # fmt: skip
    return changes


def _with_values(values: pl.LazyFrame, question: Question, runs: Sequence[Any]) -> pl.LazyFrame:
    """Return the rankings of the runs with their values and those of the baseline."""
    (variable,) = variables(values.collect_schema(), [question.first])
    keys = question.queries
    # Without a baseline, rankings with an undefined metric are neither best nor worst.
    value = pl.col(DEFINED + variable.name) if question.baseline is None else variable.value
    name = pl.lit(None, pl.String) if question.run is None else pl.col(question.run)

    def of(runs: Sequence[Any]) -> pl.LazyFrame:
        rows = question.of_runs(values, runs)
        return rows.select(name.alias(_RUN), *keys, value.alias(_VALUE)).drop_nulls(_VALUE)

    if question.baseline is None:
        return of(runs[:_MAX_RUNS]).with_columns(pl.lit(None, pl.Float64).alias(_BASE))
    others = [run for run in runs if run != question.baseline]
    base = of([question.baseline]).select(*keys, pl.col(_VALUE).alias(_BASE))
    return of(others[:_MAX_RUNS]).join(base, on=keys, nulls_equal=True)


def _extremes(values: pl.LazyFrame, question: Question) -> pl.LazyFrame:
    """Return the rankings of each run with the largest changes, or the worst and best ones.

    No query of a small log is among both the best and the worst.
    """
    sign = -1 if lower_is_better(question.first) else 1
    if question.baseline is not None:
        gain = (pl.col(_VALUE) - pl.col(_BASE)) * sign
        changes = largest_changes(values, gain, [_RUN], question.queries, question.n)
    else:
        row, total = pl.int_range(pl.len(), dtype=pl.Int64), pl.len().cast(pl.Int64)
        is_best, place = pl.col(PLACE) >= (pl.col(TOTAL) + 1) // 2, pl.col(PLACE)
        place = pl.when(is_best).then(pl.col(TOTAL) - 1 - place).otherwise(place)
        changes = values.sort(_RUN, pl.col(_VALUE) * sign, *question.queries)
        changes = changes.with_columns(row.over(_RUN).alias(PLACE), total.over(_RUN).alias(TOTAL))
        changes = changes.with_columns(is_best.alias(GOOD), place.alias(PLACE))
        changes = changes.filter(pl.col(PLACE) < question.n)
    return changes.sort(_RUN, GOOD, PLACE)


def _documents(selected: pl.DataFrame, question: Question) -> dict[int, pl.DataFrame]:
    """Return the ranked documents of the selected rankings by number.

    Row i of `selected` has the number i, and its ranking in the baseline the number
    i + height of `selected`.
    """
    columns, keys = question.columns, question.queries
    keys_of_rankings = selected.select(keys)
    if question.run is not None:
        dtype = columns.schema[question.run]
        runs = [pl.col(_RUN), *([] if question.baseline is None else [pl.lit(question.baseline)])]
        keys_of_rankings = pl.concat(
            selected.select(run.cast(dtype).alias(question.run), *keys) for run in runs
        )
    on = keys_of_rankings.columns
    rows = question.log.join(
        keys_of_rankings.with_row_index(_RANKING).lazy(),
        on=on, how="inner", nulls_equal=True, maintain_order="left",
    )  # fmt: skip
    shown = {f"shown {index}": pl.col(name) for index, name in enumerate(question.show)}
    log = Log(
        rows,
        columns._replace(by=(), query=(_RANKING,), schema=schema_of(rows)),
        Definition.of(question.first, question.conventions).ordering,
        {_SCORE: pl.col(columns.score), **shown},
    )
    ranked = ranked_documents(log, ["rank", "relevant"])
    table = collected(ranked).sort("rank", nulls_last=True)
    return {int(rows.item(0, _RANKING)): rows for rows in table.partition_by(_RANKING)}


def _side(
    run: Any, table: pl.DataFrame, previous: Mapping[Any, int | None], question: Question,
    shown: Mapping[str, str],
) -> dict[str, Any]:  # fmt: skip
    """Return the top documents of a ranking, and relevant documents below them."""
    rows = table.filter((pl.col("rank") <= question.k) | pl.col("relevant")).rows(named=True)
    top = [row for row in rows if row["rank"] is not None and row["rank"] <= question.k]
    missed = sorted(rows[len(top) :], key=lambda row: (-row["label"], row["rank"] or math.inf))
    for row in rows:
        row["shown"] = [row[column] for column in shown.values()]
        row["score"] = row[_SCORE]
        # The rank in the baseline is None if not retrieved, 0 for the baseline and without one.
        row["previous"] = previous.get(row["doc"]) if previous else 0
    return {
        "run": run, "columns": [*shown], "documents": top,
        "missed": missed[:_MAX_MISSED], "missed_count": len(missed),
        "retrieved": table.get_column("rank").count(),
    }  # fmt: skip
