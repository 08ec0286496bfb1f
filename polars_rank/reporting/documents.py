"""The lists that moved most, or are best and worst, with their documents side by side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.ranking import as_text, rank
from polars_rank.frames.tables import collected
from polars_rank.reporting.question import lower_is_better
from polars_rank.stats.pairs import is_run
from polars_rank.stats.tables import agreed_on, variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.reporting.question import Question

#: Runs whose lists are shown.
_MANY_RUNS = 6
#: Relevant documents that are named though they are not among the first.
_MISSED = 5
_VALUE, _BASE = OWN + "value", OWN + "baseline"
_RUN, _PLACE, _GOOD = OWN + "run", OWN + "place", OWN + "good"
_LIST = OWN + "list"


@dataclass(frozen=True)
class Document:
    """A document of a list: where it stands, what it is worth, and where the other run has it."""

    rank: int | None
    doc: Any
    label: Any
    score: Any
    shown: tuple[Any, ...]
    relevant: bool
    #: Its rank in the other run; None where it is not retrieved, 0 where there is no other run.
    elsewhere: int | None = 0


@dataclass(frozen=True)
class Side:
    """The first documents of a list in one run, and relevant ones that are not among them."""

    run: Any
    documents: list[Document]
    missed: list[Document]
    missed_count: int
    retrieved: int


@dataclass(frozen=True)
class Moved:
    """A list, and why it is shown: it gained or lost most, or is the best or the worst."""

    run: Any
    good: bool
    query: dict[str, Any]
    kept: dict[str, Any]
    value: float
    baseline_value: float | None
    sides: list[Side] = field(default_factory=list)

    @property
    def difference(self) -> float | None:
        """By how much the value is above the baseline's."""
        return None if self.baseline_value is None else self.value - self.baseline_value


def chosen_lists(lists: pl.LazyFrame, question: Question, runs: Sequence[Any]) -> list[Moved]:
    """Return for each run the lists that gained and lost most, or are best and worst."""
    chosen = collected(_most(_valued(lists, question, runs), question))
    if chosen.is_empty():
        return []
    documents = _documents(chosen, question)
    return [
        _moved(number, row, question, documents, chosen.height)
        for number, row in enumerate(chosen.iter_rows(named=True))
    ]


def _valued(lists: pl.LazyFrame, question: Question, runs: Sequence[Any]) -> pl.LazyFrame:
    """Return the lists of the runs with their value, and that of the baseline beside it."""
    agreed = agreed_on(question.conventions, question.undefined)
    schema = lists.collect_schema()
    (variable,) = variables(schema, [question.first], agreed, question.columns.keys)
    keys = question.queries
    # Of single runs, lists for which the metric is undefined are neither good nor bad.
    value = pl.col(variable.name) if question.baseline is None else variable.value
    name = pl.lit(None, pl.String) if question.run is None else pl.col(question.run)
    extra = [each for each in question.keep if each not in question.columns.keys]
    valued = lists.select(name.alias(_RUN), *keys, *extra, value.alias(_VALUE)).drop_nulls(_VALUE)
    if question.run is None:
        return valued.with_columns(pl.lit(None, pl.Float64).alias(_BASE))
    dtype = schema[question.run]
    some = [run for run in runs if run != question.baseline or question.baseline is None]
    of_some = pl.any_horizontal(
        pl.lit(value=False), *(is_run(_RUN, dtype, each) for each in some[:_MANY_RUNS])
    )
    if question.baseline is None:
        return valued.filter(of_some).with_columns(pl.lit(None, pl.Float64).alias(_BASE))
    base = valued.filter(is_run(_RUN, dtype, question.baseline))
    beside = base.select(*keys, pl.col(_VALUE).alias(_BASE))
    return valued.filter(of_some).join(beside, on=keys, how="inner", nulls_equal=True)


def _most(valued: pl.LazyFrame, question: Question) -> pl.LazyFrame:
    """Return the first and the last lists of each run; of the same value, those of lower keys."""
    compared = question.baseline is not None
    order = pl.col(_VALUE) - pl.col(_BASE) if compared else pl.col(_VALUE)
    order = -order if lower_is_better(question.first) else order
    place = pl.int_range(pl.len(), dtype=pl.Int64).over(_RUN)
    ends = []
    for good in (False, True):
        moved = order > 0 if good else order < 0
        first = [False, good, *(False for _ in question.queries)]
        ends.append(
            (valued.filter(moved) if compared else valued)
            .with_columns(order.alias(_PLACE))
            .sort(_RUN, _PLACE, *question.queries, descending=first)
            .with_columns(place.alias(_PLACE), pl.lit(good).alias(_GOOD))
            .filter(pl.col(_PLACE) < question.worst)
        )
    return pl.concat(ends).sort(_RUN, _GOOD, _PLACE)


def _documents(chosen: pl.DataFrame, question: Question) -> dict[int, pl.DataFrame]:
    """Return the ranked documents of the lists that are shown, by their number.

    The list of a row has the number of the row, that of the baseline as much more as rows are.
    """
    columns, keys = question.columns, question.queries
    wanted = chosen.select(keys)
    if question.run is not None:
        dtype = columns.schema[question.run]
        runs = [pl.col(_RUN), *([] if question.baseline is None else [pl.lit(question.baseline)])]
        wanted = pl.concat(
            chosen.select(run.cast(dtype).alias(question.run), *keys) for run in runs
        )
    on = wanted.columns
    rows = question.log.join(
        wanted.with_row_index(_LIST).lazy(), on=on, how="inner", nulls_equal=True
    ).select(
        pl.col(_LIST).alias("query"),
        *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
        pl.col(columns.score).alias("score"),
        pl.col(columns.label).alias("label"),
        *(pl.col(name).alias(f"shown {index}") for index, name in enumerate(question.show)),
    )
    agreed = question.agreed.of(question.first)
    if agreed.unjudged == "removed":
        rows = rows.filter(pl.col("label").is_not_null())
    if agreed.float32_scores:
        rows = rows.with_columns(pl.col("score").cast(pl.Float32))
    if agreed.text_ids and columns.doc is not None:
        rows = rows.with_columns(as_text("doc", columns.schema[columns.doc]))
    ranked = rank(
        collected(rows),
        doc=None if columns.doc is None else "doc",
        ties=None if agreed.ties == "expected" else agreed.ties,
        rel=agreed.rel,
        duplicates=question.options.get("duplicates", "error"),
    ).sort("rank", nulls_last=True)
    return {int(rows.item(0, "query")): rows for rows in ranked.partition_by("query")}


def _moved(
    number: int,
    row: dict[str, Any],
    question: Question,
    documents: dict[int, pl.DataFrame],
    total: int,
) -> Moved:
    query = {name: row[name] for name in question.queries}
    lists = {number: row[_RUN]}
    if question.baseline is not None:
        lists = {number + total: question.baseline, **lists}
    places = [_places(documents.get(each)) for each in lists]
    sides = [
        _side(run, documents[each], places[1 - index] if len(lists) > 1 else None, question)
        for index, (each, run) in enumerate(lists.items())
        if each in documents
    ]
    return Moved(
        run=row[_RUN], good=row[_GOOD], query=query,
        kept={name: row[name] for name in question.keep if name not in query},
        value=row[_VALUE], baseline_value=row[_BASE], sides=sides,
    )  # fmt: skip


def _places(table: pl.DataFrame | None) -> dict[Any, int | None]:
    """Return the rank of each document of a list."""
    if table is None or "doc" not in table.columns:
        return {}
    return dict(table.select("doc", "rank").iter_rows())


def _side(
    run: Any, table: pl.DataFrame, places: dict[Any, int | None] | None, question: Question
) -> Side:
    missing: pl.Expr = ~(pl.col("rank") <= question.k).fill_null(value=False)
    missed = table.filter(missing & pl.col("relevant")).sort(
        "label", "rank", descending=[True, False], nulls_last=True
    )

    def documents(rows: pl.DataFrame) -> list[Document]:
        return [
            Document(
                rank=row["rank"],
                doc=row.get("doc"),
                label=row["label"],
                score=row["score"],
                shown=tuple(row[f"shown {index}"] for index, _ in enumerate(question.show)),
                relevant=bool(row["relevant"]),
                elsewhere=places.get(row["doc"]) if places and "doc" in row else 0,
            )
            for row in rows.iter_rows(named=True)
        ]

    first = table.filter(~missing)
    retrieved = int(table.get_column("rank").count())
    return Side(run, documents(first), documents(missed.head(_MISSED)), missed.height, retrieved)
