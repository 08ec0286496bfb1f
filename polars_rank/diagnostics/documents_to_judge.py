"""Unjudged documents whose labels would change the mean of a metric most.

The label of one document is set in all rows of the document and its query, and the rankings that
contain it are evaluated again. Queries are processed in batches, with a limited number of copies of
rows at a time. Documents below all cutoffs of a query have the same effect if they are in the same
rankings, so that one of them is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from polars_rank._params import OWN, free
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.checks import with_check
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.means import COUNTED, Means, grouped, to_rows
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.evaluation.ranking import ranked_documents
from polars_rank.evaluation.rows import Rules
from polars_rank.frames.batches import NUMBERED, by_ranking
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.analyses import names_read, rank_depth
from polars_rank.metrics.metric import tree_of
from polars_rank.stats.run_pairs import check_run, is_run, with_known_baseline

#: Maximum number of rows that are evaluated at once, if one document does not need more.
_MOST_ROWS = 500_000

_DOC, _COPY, _SIZE, _PART = (OWN + name for name in ("document", "copy", "size", "part"))
_RANK, _BASELINE_RANK, _CHANGE, _METRIC, _LABEL = (
    OWN + name for name in ("rank", "baseline rank", "change", "metric", "label")
)
#: Whether a document is unjudged, its first rank, and the rankings that contain it; the number of
#: the kind of such a ranking, and whether the document is not retrieved.
_UNJUDGED, _FIRST, _RANKINGS = (OWN + name for name in ("unjudged", "first rank", "rankings"))
_KIND, _MISSED = OWN + "kind", OWN + "missed"
#: Whether a mean is not null.
_KNOWN = OWN + "known"
#: Suffix of the sums over all rankings, and over a ranking before a document is judged.
_OF_ALL = " of all"

#: Rules for ties by which the order depends on labels, or is a mean over orders.
_OF_LABELS = ("best", "worst", "expected")


@dataclass(frozen=True)
class DocumentsToJudge:
    """The parameters of `judgment_bounds` with `documents`, and its computation."""

    #: The metrics count unjudged documents as not relevant.
    evaluation: Evaluation
    #: The label of the document that is judged, by metric.
    labels: Sequence[float]
    documents: int
    baseline: Any = None

    def table(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per group, metric and document, with the largest changes first."""
        evaluation = self.evaluation
        if evaluation.labels is not None:
            raise ArgumentError("`documents` does not support `labels`; pass one column as `label`")
        if evaluation.has_optional_label and evaluation.label not in schema_of(frame):
            frame = frame.with_columns(pl.lit(None, dtype=pl.Float64).alias(evaluation.label))
        log, columns = evaluation.read(frame)
        if columns.doc is None:
            raise ArgumentError("`documents` needs the ids of documents; name their column `doc`")
        keys = [*evaluation.query, columns.doc]
        free(evaluation.by, self._added)
        free(keys, self._added, "query")
        if self.run is not None:
            check_run("baseline", self.baseline, self.run, columns.schema[self.run])

        rankings = plan.per_query(frame, evaluation).cache()
        sums = [each for index in self._indices for each in self._sums(index)]
        totals = grouped(rankings, evaluation.by, [each.sum() for each in sums])
        result = self._largest(self._changes(frame, columns, totals), totals, columns)
        # The means issue the warnings and errors of `evaluate`, except about missing labels.
        means = Means.of(evaluation)._replace(label=None)
        means = means if self.run is not None else means._replace(runs=())
        result = with_check(result, means.finish(means.add_up(rankings)), lambda _: None)
        if self.run is None:
            return result
        dtype = columns.schema[self.run]
        return with_known_baseline(result, log, self.run, dtype, self.baseline)

    @cached_property
    def run(self) -> str | None:
        """The column of runs, if they are compared with a baseline."""
        if self.baseline is None:
            return None
        by = self.evaluation.by
        runs = self.evaluation.runs or by
        if len(runs) != 1:
            raise ArgumentError(
                f"`baseline` needs one column of runs in `by`, such as 'run'; found {[*by]}"
            )
        return runs[0]

    @property
    def _added(self) -> list[str]:
        """The columns of the result that are not keys."""
        of_baseline = [] if self.run is None else ["baseline", "baseline_rank"]
        return ["metric", *of_baseline, "rank", "change"]

    @property
    def _indices(self) -> range:
        return range(len(self.evaluation.metrics))

    def _sums(self, index: int) -> list[pl.Expr]:
        """Return what a ranking adds to a mean: its value, its weight, and whether it is null."""
        column, query_set = self.evaluation.metrics[index], self.evaluation.conventions.query_set
        value = pl.col(column.name).cast(pl.Float64)
        if isinstance(column.counts_as, float):
            value = value.fill_null(column.counts_as)
        name = self.evaluation.weight
        weight = pl.lit(1.0) if name is None else pl.col(name).cast(pl.Float64)
        counts = pl.lit(value=True) if query_set == "all" else COUNTED[query_set]
        defined = counts & value.is_not_null()
        sums = (
            pl.when(defined).then(value * weight).otherwise(0.0),
            pl.when(defined).then(weight).otherwise(0.0),
            (counts & value.is_null()).cast(pl.Float64),
        )
        return [each.alias(name) for each, name in zip(sums, _names(index), strict=True)]

    def _changes(self, frame: pl.LazyFrame, columns: Columns, totals: pl.LazyFrame) -> pl.LazyFrame:
        """Return the change of each mean by each document, one row per metric and group."""
        by = self.evaluation.by
        rows = self._rows(frame, columns)
        names = [name for index in self._indices for name in _names(index)]
        of_all = totals.rename({name: name + _OF_ALL for name in names})
        if by:
            rows = rows.join(of_all, on=by, how="left", nulls_equal=True)
        else:
            rows = rows.join(of_all, how="cross")
        metrics = self.evaluation.metrics
        changes = [
            {_METRIC: pl.lit(index, dtype=pl.Int32), _CHANGE: _change(metrics[index], index)}
            for index in self._indices
        ]
        keys = [*by, *self.evaluation.query, str(columns.doc), _RANK]
        return to_rows(rows, keys, changes)

    def _largest(
        self, changes: pl.LazyFrame, totals: pl.LazyFrame, columns: Columns
    ) -> pl.LazyFrame:
        """Return the largest changes of each metric and group, or pair of runs."""
        by, document = [*self.evaluation.by], [*self.evaluation.query, str(columns.doc)]
        groups, ranks = by, [_RANK]
        if self.run is not None:
            groups, ranks = [name for name in by if name != self.run], [_RANK, _BASELINE_RANK]
            dtype = columns.schema[self.run]
            changes = self._differences(changes, totals, [*groups, _METRIC, *document], dtype)
        runs = [] if self.run is None else [self.run]
        pair = [*groups, _METRIC, *runs]
        absolute = pl.col(_CHANGE).abs()
        rank = pl.min_horizontal(ranks)
        order = [*pair, absolute, rank, *document]
        descending, nulls_last = ([each is of for each in order] for of in (absolute, rank))
        # Null: the mean is undefined. 0: the label does not matter.
        largest = (
            changes.filter(pl.col(_CHANGE) != 0)
            .sort(order, descending=descending, nulls_last=nulls_last, maintain_order=True)
            .group_by(pair, maintain_order=True)
            .head(self.documents)
        )
        names = pl.Series([column.name for column in self.evaluation.metrics], dtype=pl.String)
        metric = pl.lit(names).gather(pl.col(_METRIC)).alias("metric")
        values = [pl.col(_RANK).alias("rank"), pl.col(_CHANGE).alias("change")]
        if self.run is None:
            return largest.select(*groups, metric, *document, *values)
        baseline = pl.lit(self.baseline).cast(columns.schema[self.run]).alias("baseline")
        values.insert(1, pl.col(_BASELINE_RANK).alias("baseline_rank"))
        return largest.select(*groups, metric, *runs, baseline, *document, *values)

    def _differences(
        self, changes: pl.LazyFrame, totals: pl.LazyFrame, keys: Sequence[str], dtype: pl.DataType
    ) -> pl.LazyFrame:
        """Return the change of the difference of each run from the baseline."""
        run = str(self.run)
        of_baseline = is_run(run, dtype, self.baseline)
        pair = [name for name in keys if name in (*self.evaluation.by, _METRIC)]
        known = [
            {_METRIC: pl.lit(index, dtype=pl.Int32), _KNOWN: _is_known(column, _sums_of(index))}
            for index, column in enumerate(self.evaluation.metrics)
        ]
        means = to_rows(totals, self.evaluation.by, known).filter(_KNOWN).cache()
        base = means.filter(of_baseline)
        runs = means.filter(~of_baseline).join(base, on=pair, how="semi", nulls_equal=True)
        changes = changes.cache()
        no_rank = pl.lit(None, dtype=pl.UInt32)
        parts = [
            changes.join(runs, on=[*pair, run], how="semi", nulls_equal=True).select(
                *keys, run, _CHANGE, _RANK, no_rank.alias(_BASELINE_RANK)
            ),
            changes.filter(of_baseline)
            .drop(run)
            .join(runs.select(*pair, run), on=pair, nulls_equal=True)
            .select(
                *keys, run, -pl.col(_CHANGE), no_rank.alias(_RANK),
                pl.col(_RANK).alias(_BASELINE_RANK),
            ),
        ]  # fmt: skip
        change = pl.col(_CHANGE)
        return (
            pl.concat(parts)
            .group_by(*keys, run)
            .agg(
                pl.when(change.is_not_null().all()).then(change.sum()).alias(_CHANGE),
                pl.col(_RANK, _BASELINE_RANK).max(),
            )
        )

    def _rows(self, frame: pl.LazyFrame, columns: Columns) -> pl.LazyFrame:
        """Return what each document adds to the sums of each group if it is judged."""
        evaluation = self.evaluation
        schema = schema_of(frame)
        trees = [tree_of(column.metric) for column in evaluation.metrics]
        unread = {*columns.unnamed} - names_read(*trees)
        kept = [name for name, dtype in schema.items() if dtype != NUMBERED and name not in unread]
        groups = [name for name in evaluation.by if name in schema]
        units = [name for name in groups if name not in evaluation.runs and name != self.run]
        own = columns._replace(by=tuple(units), schema=schema)
        keys = Keys.of(own)
        of_changes = {
            **{name: columns.schema[name] for name in (*evaluation.by, *evaluation.query)},
            str(columns.doc): columns.schema[str(columns.doc)],
            _RANK: pl.UInt32(),
            **{name: pl.Float64() for index in self._indices for name in _names(index)},
        }

        def judged(rows: pl.DataFrame) -> pl.DataFrame:
            parts = self._judged(rows.select(kept), [*units, *evaluation.query], str(columns.doc))
            return pl.concat([pl.DataFrame(schema=of_changes), *parts])

        return by_ranking(
            keys.rows(frame, kept),
            keys.group,
            lambda rows: rows.map_batches(judged, schema=pl.Schema(of_changes)),
        )

    def _judged(self, rows: pl.DataFrame, unit: Sequence[str], doc: str) -> Iterator[pl.DataFrame]:
        """Yield what documents of some queries add to the sums, with one of them judged each."""
        by, query = self.evaluation.by, self.evaluation.query
        documents = self._documents(rows, doc)
        candidates = self._candidates(documents, rows, unit, doc)
        if candidates.is_empty():
            return
        table = plan.per_query(rows.lazy(), self._quiet)
        sums = [each.name.suffix(_OF_ALL) for index in self._indices for each in self._sums(index)]
        before = table.select(*by, *query, *sums).collect(engine="in-memory").lazy()
        keys = [name for name in (*by, *query) if name in rows.columns]
        occurrences = rows.lazy().select(*keys, pl.col(doc).alias(_DOC)).unique()
        ranks = documents.lazy().select(*by, *query, doc, _RANK)
        added = [pl.col(name) - pl.col(name + _OF_ALL) for i in self._indices for name in _names(i)]
        for part in candidates.partition_by(_PART):
            copied = part.lazy().unique(_COPY).select(*unit, _COPY, pl.col(doc).alias(_DOC))
            copies = copied.join(rows.lazy(), on=unit, nulls_equal=True).join(
                occurrences, on=[*keys, _DOC], how="semi", nulls_equal=True
            )
            changes = (
                self._after(copies, doc)
                .join(before, on=[*by, *query], nulls_equal=True)
                .select(_COPY, *by, *query, *added)
                .join(part.lazy().select(_COPY, doc), on=_COPY)
                .join(ranks, on=[*by, *query, doc], how="left", nulls_equal=True)
            )
            names = [name for index in self._indices for name in _names(index)]
            yield changes.select(*by, *query, doc, _RANK, *names).collect(engine="in-memory")

    @cached_property
    def _quiet(self) -> Evaluation:
        """The evaluation of a part of the log."""
        return self.evaluation._replace(progress=False)

    def _documents(self, rows: pl.DataFrame, doc: str) -> pl.DataFrame:
        """Return the rankings of some queries, with the ranks of retrieved documents."""
        log, columns = self._quiet.read(rows.lazy())
        rules = Rules.of(self.evaluation.conventions)
        ranked = ranked_documents(log, columns, rules)
        named = {doc: pl.col("doc"), _LABEL: pl.col("label"), _RANK: pl.col("rank")}
        return ranked.select(*columns.keys, **named).collect(engine="in-memory")

    def _candidates(
        self, documents: pl.DataFrame, rows: pl.DataFrame, unit: Sequence[str], doc: str
    ) -> pl.DataFrame:
        """Return the unjudged documents of each query, and the copy of the query for each.

        A copy serves all documents below the cutoffs that are in the same rankings. `_PART` numbers
        the copies that are evaluated together.
        """
        kind = [name for name in self.evaluation.by if name not in unit]
        kinds = documents.select(*kind, _LABEL, pl.col(_RANK).is_null().alias(_MISSED))
        number = kinds.select(pl.struct(pl.all()).rank("dense").alias(_KIND)).to_series()
        retrieved = pl.col(_RANK).is_not_null()
        candidates = (
            documents.with_columns(number)
            .group_by([*unit, doc], maintain_order=True)
            .agg(
                (retrieved & pl.col(_LABEL).is_null()).any().alias(_UNJUDGED),
                pl.col(_RANK).min().alias(_FIRST),
                pl.col(_KIND).sort().cast(pl.String).str.join(" ").alias(_RANKINGS),
            )
            .filter(_UNJUDGED)
            .with_row_index(_COPY)
        )
        depth = self._depth
        if depth is not None:
            first = pl.col(_COPY).first().over([*unit, _RANKINGS, pl.col(_FIRST) > depth])
            copy = pl.when(pl.col(_FIRST) > depth).then(first).otherwise(_COPY)
            candidates = candidates.with_columns(copy.alias(_COPY))
        sizes = rows.group_by(unit).agg(pl.len().alias(_SIZE))
        copies = candidates.unique(_COPY, maintain_order=True)
        copies = copies.join(sizes, on=unit, nulls_equal=True, maintain_order="left")
        parts = copies.select(_COPY, (pl.col(_SIZE).cum_sum() // _MOST_ROWS).alias(_PART))
        return candidates.join(parts, on=_COPY, maintain_order="left")

    @property
    def _depth(self) -> int | None:
        """The rank below which the place of a document does not matter; None if there is none."""
        depths = [
            None if column.conventions.ties in _OF_LABELS else rank_depth(tree_of(column.metric))
            for column in self.evaluation.metrics
        ]
        known = [depth for depth in depths if depth is not None]
        return max(known) if len(known) == len(depths) else None

    def _after(self, copies: pl.LazyFrame, doc: str) -> pl.LazyFrame:
        """Return the sums of the rankings of each copy, in which one document is judged."""
        by, query = self._quiet.by, self._quiet.query
        keys, label = [_COPY, *by, *query], self._quiet.label
        is_judged = (pl.col(doc) == pl.col(_DOC)) & pl.col(label).is_null()
        tables = []
        for grade in dict.fromkeys(self.labels):
            indices = [index for index in self._indices if self.labels[index] == grade]
            evaluation = self._quiet._replace(
                by=(*by, _COPY), metrics=[self._quiet.metrics[index] for index in indices]
            )
            known = pl.col(label).cast(pl.Float64)
            judged = copies.with_columns(
                pl.when(is_judged).then(pl.lit(grade, pl.Float64)).otherwise(known).alias(label)
            ).drop(_DOC)
            sums = [each for index in indices for each in self._sums(index)]
            tables.append(plan.per_query(judged, evaluation).select(*keys, *sums))
        table = tables[0]
        for other in tables[1:]:
            table = table.join(other, on=keys, nulls_equal=True)
        return table


def _names(index: int) -> list[str]:
    """Return the columns of the sums of a metric."""
    return [f"{OWN}{index} {part}" for part in ("sum", "weight", "undefined")]


def _sums_of(index: int, suffix: str = "") -> list[pl.Expr]:
    return [pl.col(name + suffix) for name in _names(index)]


def _change(column: MetricColumn, index: int) -> pl.Expr:
    """Return the change of a mean or a total, from changes of the sums and the sums of all."""
    added, before = _sums_of(index), _sums_of(index, _OF_ALL)
    after = [old + new for old, new in zip(before, added, strict=True)]
    aggregate = column.conventions.aggregate(column.metric)
    mean_before, mean_after = (each[0] / each[1] for each in (before, after))
    if aggregate == "sum":
        change = added[0]
    elif aggregate == "geometric":
        change = mean_after.exp() - mean_before.exp()
    else:  # labels that do not matter change nothing, also in the last digit
        same = added[1] == 0
        change = pl.when(same).then(added[0] / before[1]).otherwise(mean_after - mean_before)
    return pl.when(_is_known(column, before) & _is_known(column, after)).then(change)


def _is_known(column: MetricColumn, sums: Sequence[pl.Expr]) -> pl.Expr:
    """Return whether a mean or total is not null, given the sums of `_names`."""
    if column.conventions.aggregate(column.metric) == "sum":
        return pl.lit(value=True)
    _, weight, undefined = sums
    return (weight > 0) & (undefined == 0) if column.counts_as == "null" else weight > 0
