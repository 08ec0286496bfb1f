"""`fuse`: one run from several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl

from polars_rank._params import OWN, Names, described, free, one_of
from polars_rank.columns import Columns, labeled
from polars_rank.conventions import Ties
from polars_rank.errors import DataError, Finding, hint
from polars_rank.evaluation.checks import (
    FAILED,
    Check,
    failed,
    raise_failed,
    row_checks,
    with_check,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.order import Order, position, rank_order
from polars_rank.evaluation.per_ranking import TIES
from polars_rank.frames.batches import by_ranking
from polars_rank.frames.tables import framed, schema_of
from polars_rank.fusion.methods import (
    CANDIDATES,
    LOWEST,
    POINTS,
    RANK,
    SCORE,
    SIZE,
    WEIGHT,
    Method,
    Missing,
)
from polars_rank.fusion.parameters import Engine, Fusion
from polars_rank.fusion.scales import Normalization, normalized

_RANK, _SCORE, _POINTS, _WEIGHT, _SIZE, _CANDIDATES, _LOWEST = (
    each.meta.output_name() for each in (RANK, SCORE, POINTS, WEIGHT, SIZE, CANDIDATES, LOWEST)
)
#: The score in the log, the place of a row in it, and the highest and lowest label of a document.
_ORIGINAL, _ROW = OWN + "original score", OWN + "row"
_LABEL, _LOWEST_LABEL = OWN + "label", OWN + "lowest label"
#: The highest score of a run, and the lowest points that it gave to a document.
_HIGHEST = OWN + "highest"


@framed
def fuse(
    frame: pl.LazyFrame,
    method: Method = "rrf",
    *,
    run: str = "run",
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    k: float = 60,
    weights: Mapping[Any, float] | None = None,
    normalize: Normalization | None = None,
    missing: Missing | None = None,
    constant: float | None = None,
    gamma: float | None = None,
    phi: float | None = None,
    ddof: int = 0,
    window: int | None = None,
    engine: Engine | None = None,
    ties: Ties | None = None,
    name: str = "fused",
    keep_runs: bool = False,
) -> pl.LazyFrame:
    """Fuse the rankings of several runs into one run."""
    fusion = Fusion.of(
        method, k=k, weights=weights, normalize=normalize, missing=missing, constant=constant,
        gamma=gamma, phi=phi, ddof=ddof, window=window, engine=engine,
    )  # fmt: skip
    one_of("ties", ties, (None, *TIES))
    log, own_label = labeled(frame, label)
    columns = Columns.find(
        schema_of(log), query=query, doc=doc, score=score, label=own_label, by=by
    )
    columns.check("run", [run], "id")
    columns = columns._replace(unnamed=())
    free([*columns.keys, doc], [run], "run")
    checks = [*row_checks(columns), *_run_checks(run, fusion), *_ranking_checks(columns, fusion)]
    plan = _Plan(fusion, columns, run, ties, checks, keeps_runs=keep_runs)
    keys = Keys.of(columns)
    adjacent = keys.are_adjacent(log)
    if adjacent:
        rows = keys.rows(log, plan.inputs)
        fused = by_ranking(rows, keys.group, lambda rows: plan.fused(rows, keys.group))
    else:
        fused = plan.fused(log.select(plan.inputs), columns.keys)
    fused = raise_failed(fused, checks, log=log, keys={each: each for each in columns.pair})
    if adjacent and keys.number is None:
        fused = fused.set_sorted(columns.keys)
    result = fused.select(
        *columns.keys,
        pl.col(run).cast(pl.String).fill_null(name),
        doc,
        SCORE.alias(score),
        *([pl.col(_LABEL).alias(label)] if own_label == label else []),
    )
    return with_check(result, log.select(run).unique(), partial(_check_runs, run, fusion))


def _run_checks(run: str, fusion: Fusion) -> list[Check]:
    """Return the checks of the column of runs."""
    checks = [
        Check("row", pl.col(run).is_null(), f"column {run!r} (`run`) has nulls; drop these rows")
    ]
    if fusion.weights is not None:
        message = (
            f"column {run!r} (`run`) has runs without a weight; add them to `weights`, or drop "
            "their rows"
        )
        checks.append(Check("row", ~pl.col(run).is_in([*fusion.weights]), message))
    return checks


def _ranking_checks(columns: Columns, fusion: Fusion) -> list[Check]:
    """Return the checks of documents."""
    label = described(columns.label_parameter, columns.label)
    checks = [
        Check(
            "ranking",
            pl.col(_LABEL) != pl.col(_LOWEST_LABEL),
            f"{label} has different labels for a document of a query; keep one of them, or name "
            "all columns that identify a query with `query`",
            count_failures=partial(_conflicts, columns.pair, columns.label),
        )
    ]
    if fusion.normalize == "max":
        message = (
            "`normalize` 'max' divides by the highest score of a run, which must be above 0; use "
            "'min_max'"
        )
        checks.append(Check("ranking", pl.col(_HIGHEST) <= 0, message))
    return checks


def _conflicts(pair: Sequence[str], label: str, log: pl.LazyFrame) -> Finding | None:
    """Return the documents with different labels."""
    labels = OWN + "labels"
    several = (
        log.group_by(pair)
        .agg(pl.col(label).drop_nulls().unique().sort().alias(labels))
        .filter(pl.col(labels).list.len() > 1)
        .collect(engine="streaming")
    )
    if several.is_empty():
        return None
    example = several.sort(pair).row(0, named=True)
    example[label] = example.pop(labels)
    return Finding("a document has different labels", several.height, example)


def _check_runs(run: str, fusion: Fusion, table: pl.DataFrame) -> None:
    """Raise `DataError` if there are fewer than two runs, or a weight has no run."""
    runs = table.get_column(run).drop_nulls().sort().to_list()
    unknown = [each for each in fusion.weights or () if each not in runs]
    if unknown:
        close = hint(str(unknown[0]), [*map(str, runs)])
        raise DataError(
            f"run {unknown[0]!r} (`weights`) not found in the column {run!r}; available: "
            f"{', '.join(map(repr, runs))}.{close}"
        )
    if len(runs) < 2:
        only = f"has only the run {runs[0]!r}" if runs else "has no runs"
        raise DataError(f"the column {run!r} {only}; pass the rankings of several runs")


@dataclass(frozen=True)
class _Plan:
    """The plan that fuses the rankings of complete queries."""

    fusion: Fusion
    columns: Columns
    run: str
    ties: Ties | None
    checks: Sequence[Check]
    keeps_runs: bool

    @property
    def doc(self) -> str:
        """The column of documents."""
        return str(self.columns.doc)

    @property
    def inputs(self) -> list[pl.Expr]:
        """The columns that the plan reads."""
        columns = self.columns
        score = columns.number(columns.score)
        return [
            *(pl.col(each) for each in (*columns.pair, self.run)),
            score.alias(_ORIGINAL),
            columns.number(columns.label).alias(_LABEL),
            failed(self.checks, "row"),
        ]

    def fused(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the documents of the fused run, and of the runs to keep, query by query."""
        query = [*dict.fromkeys([*keys, *self.columns.keys])]
        distinct = self._distinct(rows, query)
        ranked = self._scored(self._ranked(distinct, query), query)
        documents = self._combined(ranked, query)
        if self.keeps_runs:
            documents = pl.concat([self._kept(distinct, documents, query), documents])
        return documents.sort(
            *keys, self.run, _SCORE, self.doc,
            descending=[False] * (len(keys) + 1) + [True, False], nulls_last=True,
        )  # fmt: skip

    def _distinct(self, rows: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Return each document of a run once, with its highest score."""
        best = pl.col(_ROW).sort_by(_ORIGINAL, descending=True, nulls_last=True, maintain_order=True)
        return (
            rows.with_columns(pl.int_range(pl.len()).alias(_ROW))
            .group_by(*query, self.run, self.doc)
            .agg(
                pl.col(_ORIGINAL).max(),
                pl.col(_LABEL).max(),
                pl.col(_LABEL).min().alias(_LOWEST_LABEL),
                pl.col(FAILED).max(),
                *([best.first()] if self.ties == "input" else []),
            )
        )

    def _ranked(self, documents: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Add ranks, scores of the first documents, and the weights of runs."""
        fusion, of_run = self.fusion, [*query, self.run]
        retrieved = pl.col(_ORIGINAL).is_not_null()
        if fusion.window is not None:
            retrieved &= pl.col(_RANK) <= fusion.window
        weight = pl.lit(1.0)
        if fusion.weights is not None:
            runs, weights = [*fusion.weights], [*fusion.weights.values()]
            weight = pl.col(self.run).replace_strict(
                runs, weights, default=None, return_dtype=pl.Float64
            )
        return (
            documents.with_columns(
                position(self._order()).over(of_run).cast(pl.Float64).alias(_RANK),
                weight.alias(_WEIGHT),
            )
            .with_columns(
                pl.when(retrieved).then(_RANK),
                pl.when(retrieved).then(_ORIGINAL).cast(pl.Float64).alias(_SCORE),
            )
            .with_columns(
                SCORE.count().over(of_run).cast(pl.Float64).alias(_SIZE),
                SCORE.max().over(of_run).alias(_HIGHEST),
                pl.col(self.doc).filter(SCORE.is_not_null()).n_unique().over(query)
                .cast(pl.Float64).alias(_CANDIDATES),
            )
        )  # fmt: skip

    def _order(self) -> Order:
        """Return the order of the documents of a run."""
        schema = self.columns.schema
        own = self.columns._replace(
            score=_ORIGINAL, label=_LABEL,
            schema=pl.Schema({
                self.doc: schema[self.doc],
                _ORIGINAL: self.columns.number_type(self.columns.score),
                _LABEL: pl.Float64(),
            }),
        )  # fmt: skip
        if self.ties == "input":
            return Order(
                by=[pl.col(_ORIGINAL), pl.col(_ROW)], descending=[True, False], nulls_last=[True] * 2
            )
        return rank_order(self.ties, own)

    def _scored(self, ranked: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Add the points of documents; with a row for missing documents that have points."""
        fusion, rule = self.fusion, self.fusion.rule
        of_run = [*query, self.run]
        points = normalized(fusion, of_run) if rule.points is None else rule.points(fusion)
        scored = ranked.with_columns(pl.when(SCORE.is_not_null()).then(points).alias(_POINTS))
        of_missing = fusion.points_of_missing
        if of_missing is None:
            return scored
        of_runs = scored.group_by(of_run).agg(
            *(pl.col(each).first() for each in (_WEIGHT, _SIZE, _CANDIDATES, _HIGHEST)),
            POINTS.min().alias(_LOWEST),
        )
        pairs = scored.select(*query, self.doc).unique().join(of_runs, on=query, nulls_equal=True)
        own = scored.drop(_WEIGHT, _SIZE, _CANDIDATES, _HIGHEST)
        joined = pairs.join(own, on=[*of_run, self.doc], how="left", nulls_equal=True)
        return joined.with_columns(POINTS.fill_null(of_missing))

    def _combined(self, scored: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Return the documents of the fused run."""
        score = self.fusion.rule.combined(POINTS, self.fusion)
        documents = (
            scored.with_columns(pl.when(POINTS.is_not_null()).then(_WEIGHT))
            .group_by(*query, self.doc)
            .agg(
                pl.when(RANK.count() > 0).then(score).alias(_SCORE),
                pl.col(_LABEL).max(),
                pl.col(_LOWEST_LABEL).min(),
                pl.col(_HIGHEST).min(),
                pl.col(FAILED).max().fill_null(0),
            )
        )
        checked = pl.max_horizontal(FAILED, failed(self.checks, "ranking"))
        # Documents beyond the window, and rows of empty rankings, stay only if a query has no others.
        counts = SCORE.is_not_null() | pl.col(_LABEL).is_not_null()
        return documents.filter(counts | ~counts.any().over(query)).select(
            *query, pl.lit(None, dtype=pl.String).alias(self.run), self.doc, SCORE, _LABEL,
            checked.alias(FAILED),
        )  # fmt: skip

    def _kept(
        self, distinct: pl.LazyFrame, documents: pl.LazyFrame, query: Sequence[str]
    ) -> pl.LazyFrame:
        """Return the documents of the runs, with all judged documents of the query."""
        labels = documents.filter(pl.col(_LABEL).is_not_null()).select(*query, self.doc, _LABEL)
        runs = distinct.select(*query, self.run).unique()
        judged = runs.join(labels, on=query, nulls_equal=True)
        return (
            distinct.drop(_LABEL)
            .join(
                judged, on=[*query, self.run, self.doc], how="full", coalesce=True,
                nulls_equal=True,
            )
            .select(
                *query, pl.col(self.run).cast(pl.String), self.doc,
                pl.col(_ORIGINAL).cast(pl.Float64).alias(_SCORE), _LABEL,
                pl.lit(0, dtype=pl.UInt16).alias(FAILED),
            )
        )  # fmt: skip
