"""Similarity of rankings of two tables, or of runs and a baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

import polars as pl

from polars_rank._params import OWN, free, one_of, share, some_names, whole_number
from polars_rank.columns import Columns
from polars_rank.definitions import Ordering
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.log_checks import duplicates_remedy
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.ranking import DOC, DOCUMENTS, TIES, retrieved_documents
from polars_rank.frames.batches import in_batches
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed, lazy, schema_of
from polars_rank.io.judgments import cast_keys
from polars_rank.stats.value_columns import check_run, is_run, with_known_baseline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names
    from polars_rank.columns import Score
    from polars_rank.conventions import Ties

#: The rank of a document in both runs; null if the run does not have it. If ties have no order, it
#: is the first rank of the tied documents.
LEFT, RIGHT = pl.col(OWN + "rank in left"), pl.col(OWN + "rank in right")
#: Treatments of ties without an order of the tied documents.
UNORDERED = ("w", "a", "b")
#: The score of a document in a list.
_SCORE = OWN + "score of document"
#: Column that says whether a query is in both runs.
_PAIRED = OWN + "paired"
#: Orders of documents with equal scores, and the treatments of ties without an order.
RboTies: TypeAlias = Literal["doc", "doc_ascending", "input", "w", "a", "b"]
Measure: TypeAlias = Literal["jaccard", "overlap", "churn", "rbo"]
MEASURES = get_args(Measure)


@framed
def overlap(
    a: pl.LazyFrame,
    b: Any = None,
    measure: Measure | Sequence[Measure] = "jaccard",
    *,
    k: int | None = 10,
    p: float = 0.9,
    run: str = "run",
    baseline: Any = None,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    ties: RboTies | None = None,
) -> pl.LazyFrame:
    r"""Compute the similarity of rankings: of two tables, or of runs and a baseline.

    With $a_{1..k}$ and $b_{1..k}$, the first k documents of two rankings of a query, the measures
    are

    - "jaccard": $|a_{1..k} \cap b_{1..k}| \, / \, |a_{1..k} \cup b_{1..k}|$;
    - "overlap": $|a_{1..k} \cap b_{1..k}| \, / \, k$;
    - "churn": 1 if the first k documents are not the same in the same order, otherwise 0;
    - "rbo", rank-biased overlap of whole rankings:
      $(1 - p) \sum_{d=1}^{\infty} p^{d-1} |a_{1..d} \cap b_{1..d}| \, / \, d$.

    Examples
    --------
    >>> a = pl.DataFrame({"query": 1, "doc": ["x", "y"], "score": [2.0, 1.0]})
    >>> b = pl.DataFrame({"query": 1, "doc": ["x", "z"], "score": [2.0, 1.0]})
    >>> pr.diagnostics.overlap(a, b, k=2)
    shape: (1, 2)
    ┌───────┬──────────┐
    │ query ┆ jaccard  │
    │ ---   ┆ ---      │
    │ i32   ┆ f64      │
    ╞═══════╪══════════╡
    │ 1     ┆ 0.333333 │
    └───────┴──────────┘
    >>> runs = {"bm25": a, "dense": b}
    >>> log = pl.concat(
    ...     table.with_columns(run=pl.lit(run)) for run, table in runs.items()
    ... )
    >>> pr.diagnostics.overlap(
    ...     log, measure=["overlap", "churn"], k=2, baseline="bm25"
    ... )
    shape: (1, 5)
    ┌───────┬─────────┬─────────┬─────────┬───────┐
    │ run   ┆ queries ┆ missing ┆ overlap ┆ churn │
    │ ---   ┆ ---     ┆ ---     ┆ ---     ┆ ---   │
    │ str   ┆ u32     ┆ u32     ┆ f64     ┆ f64   │
    ╞═══════╪═════════╪═════════╪═════════╪═══════╡
    │ dense ┆ 1       ┆ 0       ┆ 0.5     ┆ 1.0   │
    └───────┴─────────┴─────────┴─────────┴───────┘

    Parameters
    ----------
    a
        The long table, one row per document. A null score means not retrieved. Labels are not
        needed. Without `b`, it has several runs.
    b
        A second table, with the same columns.
    measure
        One or several measures: "jaccard", "overlap", "churn" or "rbo".
    k
        Cutoff of "jaccard", "overlap" and "churn", at least 1. None for whole rankings: "overlap"
        is then divided by the length of the longer ranking. "rbo" has no cutoff.
    p
        Persistence of "rbo", between 0 and 1: the higher, the more lower ranks count.
    run
        Column of the run. Only without `b`.
    baseline
        Run that the others are compared with. Only without `b`.
    by
        Columns to group by. Only without `b`.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    ties
        Order of documents with equal scores: "doc" (id descending; default), "doc_ascending" or
        "input". Or, for "rbo" alone, a treatment of ties without an order:

        - "w": tied documents share a rank, and the first d documents of a ranking are those whose
          rank is d or less. For ties that mean equality, as in sports;
        - "a": the mean over all orders of the tied documents. For ties whose order is unknown;
        - "b": as "a", but rankings with the same ties have an RBO of 1. For two runs of equal
          standing that both have ties.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `a`. With `b`, one row per query of either table: the columns of the query,
        and the measures. They are null if both rankings are empty ("overlap" at k is then 0).

        Without `b`, one row per group and run other than the baseline, with the columns of `by`,
        and

        - the column of the run;
        - `queries`, `missing`: number of queries in both runs, and in only one of them, which do
          not count otherwise;
        - for each measure, the mean over the queries.

    Raises
    ------
    DataError
        No row belongs to the baseline. Raised when the result is collected.

    Notes
    -----
    An order by id breaks ties of both rankings in the same way, which overestimates the similarity
    where both have ties.

    RBO is extrapolated: beyond the shorter ranking, and beyond both, the share of common documents
    is assumed to remain the same (equation 32 of Webber et al.). It is 0 if one of the rankings is
    empty.

    For "w", the agreement at depth d is
    $2 |a_{1..d} \cap b_{1..d}| \, / \, (|a_{1..d}| + |b_{1..d}|)$. For "a" and "b", $c_x(d)$ is the
    share of orders in which the document x is one of the first d, and the agreement is
    $\sum_x c^a_x c^b_x \, / \, d$ for "a", and for "b"

    $$\frac{\sum_x c^a_x(d) \, c^b_x(d)}{\sqrt{\sum_x c^a_x(d)^2 \sum_x c^b_x(d)^2}}$$

    Beyond the shorter ranking, at depth d > s, each of the d - s documents that it lacks counts as
    the agreement at s times the mean of $c_x(d)$, if it is not 0, over the documents that only the
    longer ranking has (1 for "w"). If one ranking is longer and has ties there, "a" is therefore
    not exactly the mean of the extrapolated values of all orders. Without ties, "w", "a" and "b"
    are equal to the values of an order.

    References
    ----------
    Webber, Moffat & Zobel, A similarity measure for indefinite rankings, 2010; Corsi & Urbano, The
    treatment of ties in rank-biased overlap, 2024; Fagin, Kumar & Sivakumar, Comparing top k
    lists, 2003.
    """
    measures = some_names("measure", measure)
    for each in measures:
        one_of("measure", each, MEASURES)
    share("p", p)
    if k is not None:
        whole_number("k", k)
    one_of("ties", ties, (None, *TIES, *(UNORDERED if measures == ("rbo",) else ())))
    values = {**_values_of_top(k), "rbo": rbo_value(p, ties)}
    given = _Given(doc, ties, [values[each].alias(each) for each in measures])
    if b is None:
        if baseline is None:
            raise ArgumentError("pass a second table (`b`), or the `baseline` of a table of runs")
        return given.of_runs(a, baseline, run, by, query, score)
    if baseline is not None or by is not None or run != "run":
        raise ArgumentError(
            "`run`, `baseline` and `by` are for one table with several runs; omit them or `b`"
        )
    return given.of_tables(a, lazy(b, "b"), query, score)


class _Given(NamedTuple):
    """What both kinds of tables have in common."""

    doc: str
    ties: str | None
    #: The values of measures for the rankings of a query.
    values: Sequence[pl.Expr]

    @property
    def is_tied(self) -> bool:
        return self.ties in UNORDERED

    def of_tables(
        self, a: pl.LazyFrame, b: pl.LazyFrame, query: Names, score: Score
    ) -> pl.LazyFrame:
        """Return the values of each query of two tables, in sorted order."""
        roles = {"query": query, "doc": self.doc, "score": score}
        (a, first), (b, second) = (Columns.read(each, roles) for each in (a, b))
        keys = [*first.query]
        types = key_types(schema_of(a), schema_of(b), [*keys, self.doc], ("`a`", "`b`"))
        left = self._retrieved(cast_keys(a, types), LEFT, keys, first.score)
        right = self._retrieved(cast_keys(b, types), RIGHT, keys, second.score)
        return self._of_pairs(left, right, keys, self.values).sort(keys)

    def of_runs(
        self, log: pl.LazyFrame, baseline: Any, run: str, by: Names | None, query: Names,
        score: Score,
    ) -> pl.LazyFrame:  # fmt: skip
        """Return the means over the queries of each group and run."""
        roles = {"run": run, "by": by, "query": query, "doc": self.doc, "score": score}
        log, columns = Columns.read(log, roles, optional=())
        schema, column = columns.schema, columns.score
        groups, keys = columns.groups, columns.query
        names = [each.meta.output_name() for each in self.values]
        free(columns.by, ["queries", "missing", *names])
        check_run("baseline", baseline, run, schema[run])
        of_baseline = is_run(run, schema[run], baseline)
        rankings = [run, *groups, *keys]
        others = self._retrieved(log.filter(~of_baseline), LEFT, rankings, column)
        base = self._retrieved(log.filter(of_baseline), RIGHT, rankings, column).drop(run)
        # One copy of the baseline per run, so that queries of the baseline only count as missing.
        runs = log.filter(~of_baseline).select(run).unique()
        is_paired = ((LEFT.count() > 0) & (RIGHT.count() > 0)).alias(_PAIRED)
        of_each = base.join(runs, how="cross")
        both = self._of_pairs(others, of_each, rankings, [*self.values, is_paired])
        counted = pl.col(_PAIRED)
        values = [
            counted.sum().alias("queries"),
            (~counted).sum().alias("missing"),
            *(pl.col(name).filter(counted).mean() for name in names),
        ]
        result = grouped(both, [*groups, run], values)
        return with_known_baseline(result, log, run, schema[run], baseline)

    def _of_pairs(
        self,
        left: pl.LazyFrame,
        right: pl.LazyFrame,
        keys: Sequence[str],
        values: Sequence[pl.Expr],
    ) -> pl.LazyFrame:
        """Return values of each ranking in either result of `_retrieved`.

        The values are aggregations of `LEFT` and `RIGHT`.
        """

        def of_batch(batch: pl.LazyFrame) -> pl.LazyFrame:
            first, second = (self._documents(batch, keys, side) for side in (LEFT, RIGHT))
            documents = first.join(second, on=[*keys, DOC], how="full", coalesce=True)
            return documents.group_by(keys).agg(values)

        return in_batches(left.join(right, on=keys, how="full", coalesce=True), of_batch)

    def _documents(self, batch: pl.LazyFrame, keys: Sequence[str], side: pl.Expr) -> pl.LazyFrame:
        """Return the documents of a run with their ranks.

        A ranking without documents has a row without a document.
        """
        documents = pl.col(side.meta.output_name())
        ranks = [pl.int_ranges(1, documents.list.len() + 1, dtype=pl.UInt32)]
        if self.is_tied:
            ranks = [*_tie_ranks(side)]
        named = [ranks[0].alias(side.meta.output_name()), *ranks[1:]]
        columns = [DOC, *(rank.meta.output_name() for rank in named)]
        lists = batch.select(*keys, documents.alias(DOC), *named)
        return lists.explode(columns, empty_as_null=True)

    def _retrieved(
        self, run: pl.LazyFrame, ranks: pl.Expr, query: Sequence[str], score: str
    ) -> pl.LazyFrame:
        """Return the retrieved documents of each query in rank order, as lists named like `ranks`.

        If ties have no order, there are also lists of the first and the last rank of the documents
        that are tied with each document.
        """
        ordering = Ordering(None if self.is_tied else cast("Ties | None", self.ties))
        roles = {"query": query, "doc": self.doc, "score": score, "label": None}
        log = Log.find(run, roles, ordering=ordering, remedy=duplicates_remedy("`query`"))
        log = replace(log, columns=log.columns._replace(unnamed=()))
        if self.is_tied:
            log = replace(log, others={_SCORE: log.columns.number(log.columns.score)})
        documents = pl.col(DOCUMENTS)
        fields = {ranks.meta.output_name(): pl.element().struct.field(DOC)}
        if self.is_tied:
            place = pl.element().struct.field(_SCORE).rank
            first, last = (rank.meta.output_name() for rank in _tie_ranks(ranks))
            fields[first] = place("min", descending=True).cast(pl.UInt32)
            fields[last] = place("max", descending=True).cast(pl.UInt32)
        lists = [documents.list.eval(field).alias(name) for name, field in fields.items()]
        table = retrieved_documents(log).select(*log.keys.named, *lists)
        return table if log.keys.number is not None else table.set_sorted([*query])


def _tie_ranks(side: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the columns with the first and the last rank of documents that are tied in a run."""
    name = side.meta.output_name()
    return pl.col(f"{name} first"), pl.col(f"{name} last")


def _values_of_top(k: int | None) -> dict[str, pl.Expr]:
    """Return the measures of the first k documents, or of whole rankings."""
    left, right = (
        rank.is_not_null() if k is None else (rank <= k).fill_null(value=False)
        for rank in (LEFT, RIGHT)
    )
    both = (left & right).sum()
    longer = pl.max_horizontal(LEFT.count(), RIGHT.count())
    changed = ((left | right) & LEFT.ne_missing(RIGHT)).any().cast(pl.Float64)
    return {
        "jaccard": ratio(both, left.sum() + right.sum() - both),
        "overlap": ratio(both, longer) if k is None else both / k,
        "churn": pl.when(longer > 0).then(changed),
    }


def rbo_value(p: float, ties: str | None = None) -> pl.Expr:
    """Return rank-biased overlap.

    A document contributes c(d), from 0 to 1, to the first d documents of a run. The agreement at
    depth d is the sum of the products of the contributions to both runs, divided by a size that
    depends on `ties`. Beyond the shorter ranking, unknown documents contribute the mean of the
    documents that only the longer one has, times the agreement at the end of the shorter one.
    """
    left, right = _Side(LEFT, ties), _Side(RIGHT, ties)
    shorter = pl.min_horizontal(left.length, right.length)
    longer = pl.max_horizontal(left.length, right.length)
    power = pl.lit(float(p)).pow
    size = _size(left, right, ties)
    # Depths beyond the longer ranking are added at the end.
    weights = pl.when(longer >= _DEPTH).then(power(_DEPTH - 1) / size).otherwise(0.0)

    is_left_longer = left.length > right.length
    at_shorter = (left.share(shorter) * right.share(shorter)).sum() / size.get(shorter - 1)
    unknown = weights * (_DEPTH - shorter)
    if ties in ("a", "b"):
        of_left, of_right = left.mean_share(right), right.mean_share(left)
        unknown = unknown * pl.when(is_left_longer).then(of_left).otherwise(of_right)
    unknown = pl.when(shorter < _DEPTH).then(unknown).otherwise(0.0).sum()
    known = _weighted(left, right, weights, ties) + at_shorter * unknown
    both = (LEFT.is_not_null() & RIGHT.is_not_null()).sum()
    last = (both + (longer - shorter) * at_shorter) / longer
    value = ((1 - p) * known + power(longer) * last).clip(0.0, 1.0)  # rounding errors
    value = pl.when(shorter > 0).then(value).otherwise(0.0)
    return pl.when(longer > 0).then(value)


#: The depths from 1 to the number of documents of both runs.
_DEPTH = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)


class _Side:
    """A run: the first and the last rank of each document's ties, and of the ties at each depth."""

    def __init__(self, side: pl.Expr, ties: str | None) -> None:
        self.first = side.cast(pl.Int64)
        self.last = _tie_ranks(side)[1].cast(pl.Int64) if ties in UNORDERED else self.first
        self.length = side.count().cast(pl.Int64)
        self.is_shared = ties in ("a", "b")

    def at_depth(self, rank: pl.Expr) -> pl.Expr:
        """Return a rank of the ties at each depth; beyond the run, it is the depth."""
        return rank.sort(nulls_last=True).fill_null(_DEPTH)

    @property
    def share_at_depth(self) -> pl.Expr:
        """Return the contribution of each of the documents that are tied at a depth."""
        first, last = self.at_depth(self.first), self.at_depth(self.last)
        return (_DEPTH - first + 1) / (last - first + 1)

    def share(self, depth: pl.Expr) -> pl.Expr:
        """Return the contribution of each document to the first documents up to a depth."""
        if not self.is_shared:
            return (self.first <= depth).cast(pl.Float64)
        return ((depth - self.first + 1) / (self.last - self.first + 1)).clip(0.0, 1.0)

    def mean_share(self, other: _Side) -> pl.Expr:
        """Return the mean contribution at each depth of the documents that only this run has.

        Documents that contribute nothing do not count.
        """
        only = (self.first.is_not_null() & other.first.is_null()).cast(pl.Int64)
        only = only.sort_by(self.first, nulls_last=True)
        up_to = only.cum_sum()
        before = (up_to - only).gather(self.at_depth(self.first) - 1)
        until = up_to.gather(self.at_depth(self.last) - 1)
        return (before + (until - before) * self.share_at_depth) / until


def _size(left: _Side, right: _Side, ties: str | None) -> pl.Expr:
    """Return by what the agreement at each depth is divided."""
    if ties == "w":
        return (left.at_depth(left.last) + right.at_depth(right.last)) / 2
    if ties == "b":
        squares = []
        for side in (left, right):
            first, last = side.at_depth(side.first), side.at_depth(side.last)
            squares.append(first - 1 + side.share_at_depth**2 * (last - first + 1))
        return (squares[0] * squares[1]).sqrt()
    return _DEPTH


def _weighted(left: _Side, right: _Side, weights: pl.Expr, ties: str | None) -> pl.Expr:
    """Return the sum over depths of the weight times the agreement of the known documents."""
    both = left.first.is_not_null() & right.first.is_not_null()

    def between(values: pl.Expr, start: pl.Expr, end: pl.Expr) -> pl.Expr:
        """Return the sum of values over the depths from a start to the one before an end."""
        sums = values.cum_sum(reverse=True)
        start = pl.min_horizontal(start, end)
        return (sums.gather(start.filter(both) - 1) - sums.gather(end.filter(both) - 1)).sum()

    def beyond(start: pl.Expr) -> pl.Expr:
        return weights.cum_sum(reverse=True).gather(start.filter(both) - 1).sum()

    first = pl.max_horizontal(left.first, right.first)
    if ties not in ("a", "b"):
        return beyond(first)
    a, b = left.share_at_depth, right.share_at_depth
    return (
        # From the last rank of its ties on, a document contributes 1.
        beyond(pl.max_horizontal(left.last, right.last))
        + between(weights * a, pl.max_horizontal(left.first, right.last), left.last)
        + between(weights * b, pl.max_horizontal(right.first, left.last), right.last)
        + between(weights * a * b, first, pl.min_horizontal(left.last, right.last))
    )
