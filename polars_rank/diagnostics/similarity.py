"""Similarity of rankings of two tables, or of runs and a baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

import polars as pl

from polars_rank._params import OWN, free, one_of, share, some_names, whole_number
from polars_rank.columns import Columns
from polars_rank.diagnostics.overlaps import (
    LEFT,
    RIGHT,
    UNORDERED,
    churn_value,
    jaccard_value,
    last_rank,
    overlap_value,
    rbo_value,
)
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.checks import duplicates_remedy
from polars_rank.evaluation.log import Log, Rules
from polars_rank.evaluation.means import grouped
from polars_rank.evaluation.ranked import DOC, DOCUMENTS, TIES, retrieved_documents
from polars_rank.frames.batches import in_batches
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed, lazy, schema_of
from polars_rank.stats.run_pairs import is_run, with_known_baseline
from polars_rank.stats.value_columns import check_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names
    from polars_rank.columns import Score
    from polars_rank.conventions import Ties

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
    given = _Given(doc, ties, [_value(each, k, p, ties) for each in measures])
    if b is None:
        if baseline is None:
            raise ArgumentError("pass a second table (`b`), or the `baseline` of a table of runs")
        return given.of_runs(a, baseline, run, by, query, score)
    if baseline is not None or by is not None or run != "run":
        raise ArgumentError(
            "`run`, `baseline` and `by` are for one table with several runs; omit them or `b`"
        )
    return given.of_tables(a, lazy(b, "b"), query, score)


def _value(measure: str, k: int | None, p: float, ties: str | None) -> pl.Expr:
    """Return the value of a measure for the rankings of a query."""
    if measure == "rbo":
        return rbo_value(p, ties)
    return {"jaccard": jaccard_value, "overlap": overlap_value, "churn": churn_value}[measure](k)


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
        keys, schemas = [*first.query], [schema_of(a), schema_of(b)]
        runs = [(a, first.score), (b, second.score)]
        types = key_types(schemas[0], schemas[1], [*keys, self.doc], ("`a`", "`b`"))
        tables = []
        for ranks, (rows, column), schema in zip((LEFT, RIGHT), runs, schemas, strict=True):
            # A cast hides the order of a table from Polars, even a cast to the same type.
            casts = {name: dtype for name, dtype in types.items() if schema[name] != dtype}
            same = rows.cast(casts) if casts else rows  # type: ignore[arg-type]
            tables.append(self._retrieved(same, ranks, keys, column))
        return of_pairs(tables[0], tables[1], keys, self.values, is_tied=self.is_tied).sort(keys)

    def of_runs(
        self,
        log: pl.LazyFrame,
        baseline: Any,
        run: str,
        by: Names | None,
        query: Names,
        score: Score,
    ) -> pl.LazyFrame:
        """Return the means over the queries of each group and run."""
        roles = {"run": run, "by": by, "query": query, "doc": self.doc, "score": score}
        log, columns = Columns.read(log, roles, optional=())
        schema, column = columns.schema, columns.score
        groups, keys = columns.groups, columns.query
        counts = ("queries", "missing")
        names = [each.meta.output_name() for each in self.values]
        free(columns.by, [*counts, *names])
        check_run("baseline", baseline, run, schema[run])
        of_baseline = is_run(run, schema[run], baseline)
        rankings = [run, *groups, *keys]
        others = self._retrieved(log.filter(~of_baseline), LEFT, rankings, column)
        base = self._retrieved(log.filter(of_baseline), RIGHT, rankings, column).drop(run)
        # One copy of the baseline per run, so that queries of the baseline only count as missing.
        runs = log.filter(~of_baseline).select(run).unique()
        is_paired = ((LEFT.count() > 0) & (RIGHT.count() > 0)).alias(_PAIRED)
        both = of_pairs(
            others, base.join(runs, how="cross"), rankings, [*self.values, is_paired],
            is_tied=self.is_tied,
        )  # fmt: skip
        counted = pl.col(_PAIRED)
        values = [
            counted.sum().alias("queries"),
            (~counted).sum().alias("missing"),
            *(pl.col(name).filter(counted).mean() for name in names),
        ]
        result = grouped(both, [*groups, run], values)
        return with_known_baseline(result, log, run, schema[run], baseline)

    def _retrieved(
        self, log: pl.LazyFrame, ranks: pl.Expr, query: Sequence[str], score: str
    ) -> pl.LazyFrame:
        return retrieved(log, ranks, query=query, doc=self.doc, score=score, ties=self.ties)


def of_pairs(
    left: pl.LazyFrame,
    right: pl.LazyFrame,
    keys: Sequence[str],
    values: Sequence[pl.Expr],
    *,
    is_tied: bool = False,
) -> pl.LazyFrame:
    """Return values of each ranking in either table.

    The tables are results of `retrieved`; `is_tied` says whether ties have no order. The values are
    aggregations of `LEFT` and `RIGHT`.
    """

    def of_batch(batch: pl.LazyFrame) -> pl.LazyFrame:
        first, second = (_documents(batch, keys, side, is_tied=is_tied) for side in (LEFT, RIGHT))
        documents = first.join(second, on=[*keys, DOC], how="full", coalesce=True)
        return documents.group_by(keys).agg(values)

    return in_batches(left.join(right, on=keys, how="full", coalesce=True), of_batch)


def _documents(
    batch: pl.LazyFrame, keys: Sequence[str], side: pl.Expr, *, is_tied: bool
) -> pl.LazyFrame:
    """Return the documents of a run with their ranks.

    A ranking without documents has a row without a document.
    """
    documents = pl.col(side.meta.output_name())
    ranks = [pl.int_ranges(1, documents.list.len() + 1, dtype=pl.UInt32)]
    if is_tied:
        ranks = [_first_rank(side), last_rank(side)]
    named = [ranks[0].alias(side.meta.output_name()), *ranks[1:]]
    columns = [DOC, *(rank.meta.output_name() for rank in named)]
    lists = batch.select(*keys, documents.alias(DOC), *named)
    return lists.explode(columns, empty_as_null=True)


def _first_rank(side: pl.Expr) -> pl.Expr:
    return pl.col(side.meta.output_name() + " first")


def retrieved(
    run: pl.LazyFrame,
    ranks: pl.Expr,
    *,
    query: Sequence[str],
    doc: str,
    score: str,
    ties: str | None = None,
) -> pl.LazyFrame:
    """Return the retrieved documents of each query in rank order, as lists named like `ranks`.

    If ties have no order, there are also lists of the first and the last rank of the documents that
    are tied with each document.
    """
    is_tied = ties in UNORDERED
    rules = Rules(None if is_tied else cast("Ties | None", ties))
    roles = {"query": query, "doc": doc, "score": score, "label": None}
    log = Log.find(run, roles, rules=rules, remedy=duplicates_remedy("`query`"))
    log = replace(log, columns=log.columns._replace(unnamed=()))
    if is_tied:
        log = replace(log, others={_SCORE: log.columns.number(log.columns.score)})
    rankings = retrieved_documents(log)
    documents = pl.col(DOCUMENTS)
    lists = [documents.list.eval(_field(DOC)).alias(ranks.meta.output_name())]
    if is_tied:
        first = _field(_SCORE).rank("min", descending=True).cast(pl.UInt32)
        last = _field(_SCORE).rank("max", descending=True).cast(pl.UInt32)
        for rank, column in ((first, _first_rank(ranks)), (last, last_rank(ranks))):
            lists.append(documents.list.eval(rank).alias(column.meta.output_name()))
    table = rankings.select(*log.keys.named, *lists)
    return table if log.keys.number is not None else table.set_sorted([*query])


def _field(name: str) -> pl.Expr:
    return pl.element().struct.field(name)
