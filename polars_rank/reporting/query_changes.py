"""The queries with the largest changes, or the best and worst, with their documents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.log import Log, Rules
from polars_rank.evaluation.ranked import ranked_documents
from polars_rank.frames.tables import collected, schema_of
from polars_rank.metrics.names import lower_is_better
from polars_rank.reporting.question import DEFINED
from polars_rank.stats.run_pairs import PAIRED, baseline_of, is_run, with_baseline
from polars_rank.stats.value_columns import variables

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.reporting.question import Question

#: Maximum number of runs whose rankings are shown.
_MAX_RUNS = 6
#: Maximum number of relevant documents below the cutoff that are shown.
_MAX_MISSED = 5
_VALUE, _BASE = OWN + "value", OWN + "baseline"
_RUN, _PLACE, _GOOD = OWN + "run", OWN + "place", OWN + "good"
_RANKING, _SCORE = OWN + "ranking", OWN + "shown score"
_ROW, _TOTAL, _TIED = OWN + "row", OWN + "total", OWN + "tied"


def selected_queries(
    values: pl.LazyFrame, question: Question, runs: Sequence[Any]
) -> list[dict[str, Any]]:
    """Return the queries of each run with the largest gains and losses, or best and worst.

    Each has its values, the rankings of the run and of the baseline, the number of queries with a
    gain (a loss), or of all queries without a baseline, as "total", and as "tied" the number of
    queries that are not shown and tie with the last one that is.
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
    return [
        _query_change(number, row, question, documents, selected.height, of_queries, of_documents)
        for number, row in enumerate(selected.iter_rows(named=True))
    ]


def _with_values(values: pl.LazyFrame, question: Question, runs: Sequence[Any]) -> pl.LazyFrame:
    """Return the rankings of the runs with their values and those of the baseline."""
    schema = values.collect_schema()
    (variable,) = variables(schema, [question.first])
    keys = question.queries
    # Without a baseline, rankings with an undefined metric are neither best nor worst.
    value = pl.col(DEFINED + variable.name) if question.baseline is None else variable.value
    name = pl.lit(None, pl.String) if question.run is None else pl.col(question.run)
    values = values.select(name.alias(_RUN), *keys, value.alias(_VALUE)).drop_nulls(_VALUE)
    if question.run is None:
        return values.with_columns(pl.lit(None, pl.Float64).alias(_BASE))
    dtype = schema[question.run]
    compared_runs = [run for run in runs if run != question.baseline or question.baseline is None]
    is_compared = pl.any_horizontal(
        pl.lit(value=False), *(is_run(_RUN, dtype, each) for each in compared_runs[:_MAX_RUNS])
    )
    if question.baseline is None:
        return values.filter(is_compared).with_columns(pl.lit(None, pl.Float64).alias(_BASE))
    base = values.filter(is_run(_RUN, dtype, question.baseline))
    pairs = with_baseline(values.filter(is_compared), base, keys, [_VALUE]).filter(PAIRED)
    return pairs.with_columns(baseline_of(_VALUE).alias(_BASE))


def _extremes(values: pl.LazyFrame, question: Question) -> pl.LazyFrame:
    """Return the first and last rankings of each run.

    Of equal changes, the lowest keys come first. Equal values are ordered by key from the worst to
    the best, so that no query of a small log is among both the best and the worst.
    """
    compared = question.baseline is not None
    order = pl.col(_VALUE) - pl.col(_BASE) if compared else pl.col(_VALUE)
    order = -order if lower_is_better(question.first) else order
    place = pl.int_range(pl.len(), dtype=pl.Int64).over(_RUN)
    ends = []
    for good in (False, True):
        is_extreme = order > 0 if good else order < 0
        descending = [False, good, *(good and not compared for _ in question.queries)]
        half = (pl.len().over(_RUN) + (0 if good else 1)) // 2
        most = pl.lit(question.n) if compared else half.clip(upper_bound=question.n)
        number = pl.len().over(_RUN).cast(pl.Int64)
        shown = pl.col(_ROW) < most
        last = pl.col(_PLACE).filter(shown).last().over(_RUN)
        tied = (~shown & (pl.col(_PLACE) == last)).sum().over(_RUN).cast(pl.Int64)
        ends.append(
            (values.filter(is_extreme) if compared else values)
            .with_columns(order.alias(_PLACE))
            .sort(_RUN, _PLACE, *question.queries, descending=descending)
            .with_columns(place.alias(_ROW))
            .with_columns(number.alias(_TOTAL), tied.alias(_TIED), pl.lit(good).alias(_GOOD))
            .filter(shown)
            .with_columns(pl.col(_ROW).alias(_PLACE))
            .drop(_ROW)
        )
    return pl.concat(ends).sort(_RUN, _GOOD, _PLACE)


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
        Rules.of(question.conventions.of(question.first)),
        {_SCORE: pl.col(columns.score), **shown},
    )
    ranked = ranked_documents(log, ["rank", "relevant"])
    table = collected(ranked).sort("rank", nulls_last=True)
    return {int(rows.item(0, _RANKING)): rows for rows in table.partition_by(_RANKING)}


def _query_change(
    number: int,
    row: dict[str, Any],
    question: Question,
    documents: dict[int, pl.DataFrame],
    total: int,
    of_queries: Mapping[str, str],
    of_documents: Mapping[str, str],
) -> dict[str, Any]:
    query = {name: row[name] for name in question.queries}
    rankings = [documents[each] for each in (number, number + total) if each in documents]
    runs = {number: row[_RUN]}
    if question.baseline is not None:
        runs = {number + total: question.baseline, **runs}
    previous: dict[Any, int | None] = {}
    if number + total in documents and "doc" in documents[number + total].columns:
        previous = dict(documents[number + total].select("doc", "rank").iter_rows())
    kept = {}
    for name, column in of_queries.items():
        known = (each.get_column(column).drop_nulls() for each in rankings)
        kept[name] = next((each[0] for each in known if each.len()), None)
    value, baseline_value = row[_VALUE], row[_BASE]
    return {
        "run": row[_RUN], "good": row[_GOOD], "query": query, "value": value,
        "kept": {name: value for name, value in kept.items() if name not in query},
        "baseline_value": baseline_value, "total": row[_TOTAL], "tied": row[_TIED],
        "difference": None if baseline_value is None else value - baseline_value,
        "sides": [
            _side(run, documents[each], previous if each == number else {}, question, of_documents)
            for each, run in runs.items()
            if each in documents
        ],
    }  # fmt: skip


def _side(
    run: Any,
    table: pl.DataFrame,
    previous: dict[Any, int | None],
    question: Question,
    shown: Mapping[str, str],
) -> dict[str, Any]:
    """Return the top documents of a ranking, and relevant documents below them."""
    rows = table.filter((pl.col("rank") <= question.k) | pl.col("relevant")).rows(named=True)
    top = [row for row in rows if row["rank"] is not None and row["rank"] <= question.k]
    missed = sorted(rows[len(top) :], key=lambda row: (-row["label"], row["rank"] or math.inf))
    for row in rows:
        row["shown"] = [row[column] for column in shown.values()]
        row["score"] = row[_SCORE]
        # The rank in the baseline is None if not retrieved, 0 for the baseline and without one.
        row["previous"] = previous.get(row["doc"]) if previous else 0
    retrieved = int(table.get_column("rank").count())
    return {
        "run": run, "columns": [*shown], "documents": top,
        "missed": missed[:_MAX_MISSED], "missed_count": len(missed), "retrieved": retrieved,
    }  # fmt: skip
