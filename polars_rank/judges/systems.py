"""`system_agreement`: how far judges agree on the order of runs."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    check_column,
    check_distinct,
    free,
    integer,
    share,
    whole_number,
)
from polars_rank.errors import ArgumentError, DataError, hint, number_of, short, warn
from polars_rank.evaluation.checks import with_check
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.judges.bootstrap import Bootstrap, clusters, warn_of_few
from polars_rank.judges.rank_correlations import OF_LEADERBOARDS, leaderboard_statistics
from polars_rank.stats.intervals import special
from polars_rank.stats.per_query_tables import (
    first_few,
    key_columns,
    known_query,
    query_columns,
    row_labels,
    variables,
    with_definitions,
)
from polars_rank.stats.resampling import numpy
from polars_rank.stats.run_matrices import RUN_NUMBER, Matrix, RunMatrices
from polars_rank.stats.run_pairs import check_run, duplicates, is_run
from polars_rank.stats.simultaneous import max_t_tests, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.per_query_tables import Variable
    from polars_rank.stats.simultaneous import Array

_VERDICTS = ("same_winner", "opposite_winner", "only_reference", "only_judge")
_JUDGE, _JUDGES, _RUN, _RUNS = (OWN + name for name in ("judge", "judges", "run", "runs"))
_DROPPED, _OF_REFERENCE, _UNITS = (OWN + name for name in ("dropped", "of reference", "units"))
_PLACE, _FACTS = OWN + "place", OWN + "facts"
#: The columns of the result after those of `by`.
_SCHEMA = {
    **dict.fromkeys(("metric", "judge", "reference", "statistic"), pl.String()),
    **dict.fromkeys(("value", "low", "high"), pl.Float64()),
    **dict.fromkeys(("runs", "queries"), pl.Int64()),
    "note": pl.String(),
}
#: A larger share of the reference's queries without values of both judges leads to a warning.
_MOST_DROPPED = 0.05


@framed_table
def system_agreement(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    judge: str = "judge",
    reference: Any,
    run: str = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    p: float = 0.9,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Compute how far judges agree on the order of runs, with confidence intervals.

    The means of the runs are those of the queries for which all runs have a value from both judges.
    For n runs, the AP correlation of the judge's order with the reference is

    $$\tau_{AP} = \frac{2}{n - 1} \sum_{i=2}^{n} \frac{C_i}{i - 1} - 1$$

    where $C_i$ is the number of runs above the run at rank i of the judge's order that the
    reference also has above it.

    Parameters
    ----------
    values
        Per-query values of several runs under several judges, as `per_query` returns them with
        `labels`: one row per query, run and judge, one column per metric, null where a metric is
        undefined.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats. If a
        lower value of a metric is better, the run with the lowest mean is the best.
    judge
        Column of the judge, such as a person or a model.
    reference
        The judge with which the others are compared.
    run
        Column of runs.
    by
        Columns that split the table into groups.
    query
        Columns that identify the query. If there is no column "query": the one column that
        identifies the rows of each run and judge.
    weight
        Column of query weights, 0 or more. A query has one weight in all runs.
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user. A query with a
        null cluster forms its own cluster.
    p
        Persistence of `rbo`, between 0 and 1.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the table names, as `per_query` returns it; else the
        default.
    confidence
        Confidence level of the intervals. Verdicts are significant below 1 - `confidence`.
    n_resamples
        Number of bootstrap resamples, and of resamples of the tests.
    seed
        Random seed.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`, in the order of `by`, metrics and judges. One row for each group,
        metric, judge other than the reference, and statistic, with the columns of `by` and

        - `metric`; `judge`, `reference`: the judges, as text;
        - `statistic`, `value`: see below;
        - `low`, `high`: the bounds of the confidence interval; null for the shares of pairs;
        - `runs`, `queries`: the numbers of runs and of queries that are compared;
        - `note`: why a value or a bound is null, or in how many resamples the value is undefined.

        The statistics are

        - `tau_b`: Kendall's tau_b, for ties in both orders;
        - `tau_ap_a`: the AP correlation of the judge's order with the reference. Errors among the
          first runs count more. It is not symmetric, and the mean over all orders of tied runs;
        - `tau_ap_b`: the symmetric AP correlation: the mean of both directions. In each, a run is
          compared with those above its ties, and pairs that the other judge ties are not
          concordant;
        - `rbo`: rank-biased overlap as in `pr.diagnostics.rbo` with `ties="b"`. Both orders have
          all runs, so that the agreement beyond the last one is 1: with few runs and a large `p`,
          the value is high for any order, such as 0.9 for two runs in opposite orders;
        - `largest_drop`: the largest number of ranks by which a run is lower in the judge's order
          than in that of the reference. Tied runs have the mean of their ranks;
        - `same_winner`, `opposite_winner`, `only_reference`, `only_judge`: shares of all pairs of
          runs, by the tests of `compare_all` with the values of each judge: both are significant
          with the same better run, both with different ones, or one of the two. Neither is
          significant for the remaining share.

    Raises
    ------
    ArgumentError
        A metric is a sum or a geometric mean.
    DataError
        There are no values of `reference` or of another judge; a run of a group has values of only
        one of two judges; a query occurs twice, or has different weights or clusters. Raised when
        the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        More than 5% of the reference's queries are not compared, because a run has no value of the
        other judge; the other judge's further queries do not matter. Or there are fewer than 30
        queries or clusters, for which the intervals are too narrow. Issued when the result is
        collected.

    Notes
    -----
    The bootstrap draws queries or clusters with Poisson weights, the same for both judges and all
    runs; bounds are quantiles of the resampled values. Each resample adds noise to the means, so
    that agreement is lower in resamples than in the table if runs are close to each other, and the
    intervals are wide. With more than 16,384 queries, it draws groups of queries that are formed at
    random. In simulations with 5 to 20 such runs and 50 to 200 queries, 95% intervals
    contained the value for many queries in 94% to 100% of cases. Values are discrete: with ten
    runs, most of which differ clearly, it was 81% for `largest_drop`, 88% for `tau_ap_b`, and 96%
    to 100% for the others. Means that are equal up to rounding are tied.

    References
    ----------
    Kendall, The treatment of ties in ranking problems, 1945; Yilmaz, Aslam & Robertson, A new rank
    correlation coefficient for information retrieval, 2008; Urbano & Marrero, The treatment of ties
    in AP correlation, 2017; Webber, Moffat & Zobel, A similarity measure for indefinite rankings,
    2010; Corsi & Urbano, The treatment of ties in rank-biased overlap, 2024; Faggioli et al.,
    Perspectives on large language models for relevance judgment, 2023.

    Examples
    --------
    >>> values = pl.DataFrame({
    ...     "run": ["a", "b", "c"] * 80,
    ...     "query": [query for query in range(40) for _ in range(3)] * 2,
    ...     "judge": ["human"] * 120 + ["llm"] * 120,
    ...     "rr": [0.2, 0.5, 1, 0.3, 0.5, 0.5] * 20
    ...     + [0.2, 1, 0.5, 0.3, 0.5, 0.5] * 20,
    ... })
    >>> table = pr.judges.system_agreement(values, reference="human")
    >>> table.select("statistic", "value").head(5)
    shape: (5, 2)
    ┌──────────────┬──────────┐
    │ statistic    ┆ value    │
    │ ---          ┆ ---      │
    │ str          ┆ f64      │
    ╞══════════════╪══════════╡
    │ tau_b        ┆ 0.333333 │
    │ tau_ap_a     ┆ 0.0      │
    │ tau_ap_b     ┆ 0.0      │
    │ rbo          ┆ 0.9      │
    │ largest_drop ┆ 1.0      │
    └──────────────┴──────────┘
    """
    share("p", p)
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    bootstrap = Bootstrap(n_resamples, integer("seed", seed), confidence)
    special()
    values, definitions = with_definitions(values, conventions, undefined)
    schema = schema_of(values)
    for parameter, name in (("judge", judge), ("run", run)):
        check_column(parameter, name, schema)
    keys = key_columns(schema, by=by, judge=judge, run=run, weight=weight, cluster=cluster)
    taken = {**keys, "by": (*keys["by"], judge)}
    keys = {**keys, "query": query_columns(values, query, metrics, taken)}
    check_distinct(keys)
    check_run("reference", reference, judge, schema[judge])
    free(keys["by"], _SCHEMA)
    selected = variables(schema, metrics, definitions, keys, undefined=undefined)
    for each in selected:
        if each.aggregate != "mean":
            raise ArgumentError(f"the metric {each.name!r} is not a mean over queries")
    default_query = () if known_query(schema, query) else keys["query"]
    leaderboards = _Leaderboards(
        judge=judge, reference=reference, run=run, keys=keys, weight=weight, selected=selected,
        duplicates=duplicates([*keys["by"], judge, run, *keys["query"]], default_query),
        bootstrap=bootstrap, p=p,
    )  # fmt: skip
    return leaderboards.table(values)


@dataclass(frozen=True, kw_only=True)
class _Leaderboards:
    """The runs and judges of a table, and how they are compared."""

    judge: str
    reference: Any
    run: str
    #: The columns of other parameters.
    keys: Mapping[str, tuple[str, ...]]
    weight: str | None
    selected: Sequence[Variable]
    #: The message about a query that occurs twice in a run.
    duplicates: str
    bootstrap: Bootstrap
    p: float

    def table(self, values: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per group, metric, judge and statistic."""
        schema, groups = schema_of(values), [*self.keys["by"]]
        is_reference = is_run(self.judge, schema[self.judge], self.reference)
        judges = values.select(self.judge).unique().sort(~is_reference, self.judge)
        judges = judges.with_row_index(_JUDGE).cache()
        runs = values.select(self.run).unique().sort(self.run).with_row_index(_RUN).cache()
        counts = judges.select(pl.len().alias(_JUDGES)).join(
            runs.select(pl.len().alias(_RUNS)), how="cross"
        )
        # A run of a judge is a run of the matrices; those of the reference come first.
        number = pl.col(_JUDGE) * pl.col(_RUNS) + pl.col(_RUN)
        numbers = (
            judges.join(runs, how="cross")
            .join(counts, how="cross")
            .select(self.judge, self.run, number.alias(RUN_NUMBER))
        )
        of_judge = OWN + "run of judge"
        rows = values.join(
            numbers.rename({RUN_NUMBER: of_judge}), on=[self.judge, self.run], nulls_equal=True
        )
        matrices = RunMatrices(
            rows, self.selected, groups, of_judge, self.keys["query"], self.weight,
            self.keys["cluster"], self.duplicates,
        )  # fmt: skip
        same = numbers.select(pl.col(RUN_NUMBER).alias(of_judge), RUN_NUMBER)
        lists = matrices.lists(same).join(counts, how="cross")
        result = pl.Schema(
            {
                **{name: schema[name] for name in groups},
                _JUDGE: pl.UInt32(),
                **{name: _SCHEMA[name] for name in _SCHEMA if name not in ("judge", "reference")},
                **dict.fromkeys((_DROPPED, _OF_REFERENCE, _UNITS, _PLACE), pl.Int64()),
            }
        )
        numbered = lists.map_batches(
            lambda table: self._rows(table, matrices, result), schema=result
        )
        names = judges.select(_JUDGE, pl.col(self.judge).cast(pl.String).alias("judge"))
        # An enum may lack the reference, which is an error about the rows when they are read.
        dtype = None if is_text(schema[self.judge]) else schema[self.judge]
        reference = pl.lit(self.reference, dtype=dtype).cast(pl.String)
        named = numbered.join(names, on=_JUDGE).with_columns(reference.alias("reference"))
        checked = named.sort(*groups, _PLACE).map_batches(self._with_warnings)
        facts = values.group_by([*groups, pl.col(self.judge).cast(pl.String).alias(_JUDGE)]).agg(
            pl.col(self.run).unique().sort().alias(_RUNS), is_reference.any().alias(_OF_REFERENCE)
        )
        facts = facts.select(pl.struct(pl.all()).implode().alias(_FACTS))
        return with_check(checked.select(*groups, *_SCHEMA), facts, self._check)

    def _check(self, facts: pl.DataFrame) -> None:
        """Raise unless the runs of each group have values of the reference and of another judge."""
        column, rows = f"column {self.judge!r} (`judge`)", facts.get_column(_FACTS)[0].to_list()
        judges = sorted({row[_JUDGE] for row in rows if row[_JUDGE] is not None})
        if any(row[_JUDGE] is None for row in rows):
            raise DataError(f"{column} has nulls; drop these rows, or fill in a name")
        if rows and not any(row[_OF_REFERENCE] for row in rows):
            close = hint(str(self.reference), judges)
            raise DataError(
                f"no values of the judge {self.reference!r} (`reference`); judges: "
                f"{short(judges)}.{close}"
            )
        if len(judges) == 1:
            raise DataError(f"{column} has only the judge {judges[0]!r}; agreement needs two")
        groups = self.keys["by"]
        of_reference = {
            tuple(row[name] for name in groups): row[_RUNS] for row in rows if row[_OF_REFERENCE]
        }
        for row in rows:
            group = {name: row[name] for name in groups}
            expected = of_reference.get(tuple(group.values()), row[_RUNS])
            if row[_RUNS] != expected:
                either = [name for name in expected if name not in row[_RUNS]]
                either += [name for name in row[_RUNS] if name not in expected]
                where = f" in {group}" if group else ""
                raise DataError(
                    f"{number_of(len(either), 'run')}{where}, e.g. {either[0]!r}, with values of "
                    f"only one of the judges {str(self.reference)!r} and {row[_JUDGE]!r}; drop "
                    "them, or compute the values for both judges"
                )

    def _rows(
        self, lists: pl.DataFrame, matrices: RunMatrices, schema: Mapping[str, pl.DataType]
    ) -> pl.DataFrame:
        """Return the rows of all groups, metrics and judges, by the number of the judge."""
        np = numpy()
        columns: dict[str, list[Any]] = {name: [] for name in schema}
        with np.errstate(all="ignore"):  # values are checked, and undefined results are NaN
            for group, variable, cells in matrices.cells(lists):
                runs, judges = (lists.get_column(name)[0] for name in (_RUNS, _JUDGES))
                judge_of_run = cells.runs // runs
                known = cells.known[:, judge_of_run == 0].any(axis=1)
                for judge in range(1, judges):
                    of_pair = _of_pair(cells.runs, runs, judge)
                    if of_pair is None:
                        continue
                    matrix = matrices.complete(variable, cells, of_pair)
                    is_paired = cells.known[:, of_pair].all(axis=1) & (len(of_pair) > 0)
                    head = (*group, judge, variable.name)
                    dropped = int((known & ~is_paired).sum())
                    tail = (dropped, int(known.sum()), len(np.unique(matrix.keys)))
                    for row in self._statistics(variable, matrix):
                        values = (*head, *row, *tail, len(columns[_PLACE]))
                        for name, value in zip(schema, values, strict=True):
                            columns[name].append(value)
        return pl.DataFrame([pl.Series(name, columns[name], schema[name]) for name in schema])

    def _statistics(self, variable: Variable, matrix: Matrix) -> Iterator[tuple[Any, ...]]:
        """Yield the statistic, the numbers and the note of each row of a judge."""
        np = numpy()
        used = matrix.weights > 0
        values, weights, keys = matrix.values[used], matrix.weights[used], matrix.keys[used]
        runs = values.shape[1] // 2
        queries = len(values) if runs else 0
        note = None
        if not queries:
            positive = "" if self.weight is None else " and a weight above 0"
            note = f"no query has values of both judges for all runs{positive}"
        elif runs < 2:
            note = "there is only one run"
        if note is not None:
            for statistic in (*OF_LEADERBOARDS, *_VERDICTS):
                yield statistic, None, None, None, runs, queries, note
            return
        of_queries = np.column_stack([values * weights[:, None], weights])
        of_clusters, cluster = clusters(keys, of_queries.shape[1])
        sums = np.zeros((len(of_clusters), of_queries.shape[1]))
        np.add.at(sums, cluster, of_queries)
        estimates = self.bootstrap.estimates(
            of_clusters, sums,
            lambda sums: leaderboard_statistics(
                sums, p=self.p, lower_is_better=variable.lower_is_better
            ),
        )  # fmt: skip
        for statistic, numbers in zip(OF_LEADERBOARDS, estimates.T.tolist(), strict=True):
            value, low, high, share_undefined = (None if isnan(each) else each for each in numbers)
            if value is None:
                note = "all runs are tied under one of the judges"
            elif low is None:
                note = "no interval: all resamples have the same value"
            else:
                note = _note_of_undefined(share_undefined)
            yield statistic, value, low, high, runs, queries, note
        shares, note = self._verdicts(values, weights, keys)
        for statistic, value in zip(_VERDICTS, shares, strict=True):
            yield statistic, value, None, None, runs, queries, note

    def _verdicts(
        self, values: Array, weights: Array, keys: Array
    ) -> tuple[Sequence[float | None], str]:
        """Return the shares of pairs by their verdicts, and a note."""
        np = numpy()
        runs = values.shape[1] // 2
        winners = []
        for half in (values[:, :runs], values[:, runs:]):
            sums, units = units_of(half, weights / weights.max(), keys)
            tests = max_t_tests(
                sums, units, confidence=self.bootstrap.confidence,
                n_resamples=self.bootstrap.n_resamples, seed=self.bootstrap.seed,
            )  # fmt: skip
            if unknown := int(np.isnan(tests.p_values).sum()):
                pairs = number_of(unknown, "pair")
                return [None] * len(_VERDICTS), f"the tests of {pairs} of runs are undefined"
            is_significant = tests.p_values < 1 - self.bootstrap.confidence
            winners.append(np.sign(tests.differences) * is_significant)
        reference, judge = winners
        shares = [
            reference * judge > 0, reference * judge < 0,
            (reference != 0) & (judge == 0), (reference == 0) & (judge != 0),
        ]  # fmt: skip
        return [float(each.mean()) for each in shares], "shares of pairs have no interval"

    def _with_warnings(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows; warn of queries that are not compared, and of few queries."""
        labels = row_labels(rows, [*self.keys["by"], "metric", "judge"])
        columns = (rows.get_column(name) for name in (_DROPPED, _OF_REFERENCE, _UNITS, "queries"))
        examples, fewest = [], None
        for label, dropped, known, units, queries in zip(labels, *columns, strict=True):
            if dropped > _MOST_DROPPED * known:
                examples.append(f"{label} ({dropped:,} of {known:,})")
            if queries > 1 and (fewest is None or units < fewest):
                fewest = units
        if examples:
            warn(
                f"queries with values of the judge {str(self.reference)!r} are not compared, "
                f"because a run has no value of one of the judges: {first_few(examples)}"
            )
        if fewest is not None:
            warn_of_few(fewest, "clusters" if self.keys["cluster"] else "queries")
        return rows


def _of_pair(numbers: Array, runs: int, judge: int) -> Array | None:
    """Return the places of the runs of the reference, then those of a judge.

    There are none if one of them has no values in the group. The result is None if their runs
    differ, for which `_check` raises.
    """
    np = numpy()
    places = [np.flatnonzero(numbers // runs == each) for each in (0, judge)]
    if not all(map(len, places)):
        return places[0][:0]
    of_reference, of_judge = (numbers[each] % runs for each in places)
    return np.concatenate(places) if np.array_equal(of_reference, of_judge) else None


def _note_of_undefined(share_undefined: float | None) -> str | None:
    return (
        f"undefined in {100 * share_undefined:.2g}% of the resamples" if share_undefined else None
    )
