"""Similarity of rankings of two tables, or of runs and a baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

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

#: The rank of a document in both runs; null if the run does not have it.
LEFT, RIGHT = pl.col(OWN + "rank in left"), pl.col(OWN + "rank in right")
#: Column that says whether a query is in both runs.
_PAIRED = OWN + "paired"
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
    ties: Literal["doc", "doc_ascending", "input"] | None = None,
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
        "input".

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

    References
    ----------
    Webber, Moffat & Zobel, A similarity measure for indefinite rankings, 2010; Fagin, Kumar &
    Sivakumar, Comparing top k lists, 2003.
    """
    measures = some_names("measure", measure)
    for each in measures:
        one_of("measure", each, MEASURES)
    share("p", p)
    if k is not None:
        whole_number("k", k)
    one_of("ties", ties, (None, *TIES))
    values = {**_values_of_top(k), "rbo": _rbo(p)}
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
    ties: Ties | None
    #: The values of measures for the rankings of a query.
    values: Sequence[pl.Expr]

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
        return _of_pairs(left, right, keys, self.values).sort(keys)

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
        both = _of_pairs(others, of_each, rankings, [*self.values, is_paired])
        counted = pl.col(_PAIRED)
        values = [
            counted.sum().alias("queries"),
            (~counted).sum().alias("missing"),
            *(pl.col(name).filter(counted).mean() for name in names),
        ]
        result = grouped(both, [*groups, run], values)
        return with_known_baseline(result, log, run, schema[run], baseline)

    def _retrieved(
        self, run: pl.LazyFrame, ranks: pl.Expr, query: Sequence[str], score: str
    ) -> pl.LazyFrame:
        """Return the retrieved documents of each query in rank order, as lists like `ranks`."""
        roles = {"query": query, "doc": self.doc, "score": score, "label": None}
        remedy = duplicates_remedy("`query`")
        log = Log.find(run, roles, ordering=Ordering(self.ties), remedy=remedy)
        log = replace(log, columns=log.columns._replace(unnamed=()))
        documents = pl.col(DOCUMENTS).list.eval(pl.element().struct.field(DOC))
        lists = documents.alias(ranks.meta.output_name())
        table = retrieved_documents(log).select(*log.keys.named, lists)
        return table if log.keys.number is not None else table.set_sorted([*query])


def _of_pairs(
    left: pl.LazyFrame, right: pl.LazyFrame, keys: Sequence[str], values: Sequence[pl.Expr]
) -> pl.LazyFrame:
    """Return values of each ranking in either result of `_retrieved`.

    The values are aggregations of `LEFT` and `RIGHT`.
    """

    def documents(batch: pl.LazyFrame, side: pl.Expr) -> pl.LazyFrame:
        """Return the documents of a run with their ranks; a row without one if there are none."""
        name = side.meta.output_name()
        ranks = pl.int_ranges(1, side.list.len() + 1, dtype=pl.UInt32).alias(name)
        return batch.select(*keys, side.alias(DOC), ranks).explode(DOC, name, empty_as_null=True)

    def of_batch(batch: pl.LazyFrame) -> pl.LazyFrame:
        first, second = (documents(batch, side) for side in (LEFT, RIGHT))
        both = first.join(second, on=[*keys, DOC], how="full", coalesce=True)
        return both.group_by(keys).agg(values)

    return in_batches(left.join(right, on=keys, how="full", coalesce=True), of_batch)


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


def _rbo(p: float) -> pl.Expr:
    """Return rank-biased overlap.

    Beyond the shorter ranking, unknown documents agree as much as those down to its end.
    """
    left, right = LEFT.cast(pl.Int64), RIGHT.cast(pl.Int64)
    lengths = [side.count().cast(pl.Int64) for side in (LEFT, RIGHT)]
    shorter, longer = pl.min_horizontal(lengths), pl.max_horizontal(lengths)
    # The depths from 1 to the number of documents of both runs. Those beyond the longer ranking
    # are added at the end.
    depth = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
    power = pl.lit(float(p)).pow
    weights = pl.when(longer >= depth).then(power(depth - 1) / depth).otherwise(0.0)
    both = left.is_not_null() & right.is_not_null()
    # A common document counts from its lower rank on.
    first = pl.max_horizontal(left, right).filter(both)
    at_shorter = (first <= shorter).sum() / shorter
    unknown = pl.when(depth > shorter).then(weights * (depth - shorter)).otherwise(0.0).sum()
    known = weights.cum_sum(reverse=True).gather(first - 1).sum() + at_shorter * unknown
    last = (both.sum() + (longer - shorter) * at_shorter) / longer
    value = ((1 - p) * known + power(longer) * last).clip(0.0, 1.0)  # rounding errors
    return pl.when(longer > 0).then(pl.when(shorter > 0).then(value).otherwise(0.0))
