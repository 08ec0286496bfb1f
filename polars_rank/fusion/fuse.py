"""`fuse`: one run from several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._params import Names, described, names, one_of, used_twice
from polars_rank._polars import is_sorted_by
from polars_rank.columns import Columns, labeled, without_run
from polars_rank.conventions import Ties
from polars_rank.errors import DataError, hint
from polars_rank.evaluation.checks import (
    Check,
    label_conflicts,
    raise_failed,
    row_checks,
    with_check,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.per_ranking import TIES
from polars_rank.frames.batches import by_ranking
from polars_rank.frames.streams import is_scanned_once
from polars_rank.frames.tables import framed, schema_of
from polars_rank.fusion.methods import Method, Missing
from polars_rank.fusion.parameters import RANK_CONSTANT, Engine, Fusion
from polars_rank.fusion.plan import FUSED, HIGHEST, LABEL, LOWEST_LABEL, Plan
from polars_rank.fusion.scales import Normalization


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
    k: float = RANK_CONSTANT,
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
    r"""Fuse the rankings of several runs into one run.

    The default is reciprocal rank fusion (RRF):

    $$\mathrm{score}(d) = \sum_{r} \frac{w_r}{k + \mathrm{rank}_r(d)}$$

    over the runs r that retrieved the document d for the query.

    Parameters
    ----------
    frame
        Long table of at least two runs, with a row per run, query and document. A document without
        a score was judged, but not retrieved.
    method
        How scores or ranks are combined. With the weight $w_r$ of a run (1 without `weights`), the
        score $s_r$ of the document in the run after `normalize`, and the number m of runs that
        count for the document, its fused score is

        - "rrf": $\sum w_r / (k + \mathrm{rank}_r)$;
        - "sum", "weighted_sum": $\sum w_r s_r$;
        - "mnz": $m \sum s_r$; "gmnz": $m^\gamma \sum s_r$; "wmnz": $\sum w_r \sum s_r$;
          "mixed": $\sqrt{m} \sum w_r s_r$; "anz": $\sum s_r / m$;
        - "min", "max", "median": of the scores $s_r$;
        - "arithmetic_mean": $\sum w_r s_r / \sum w_r$;
        - "geometric_mean": $\exp(\sum w_r \ln s_r / \sum w_r)$ and "harmonic_mean":
          $\sum w_r / \sum (w_r / s_r)$, both over scores above 0; 0 if there are none;
        - "isr": $m \sum w_r / \mathrm{rank}_r^2$; "log_isr" and "logn_isr" have $\ln m$ and
          $\ln(m + 0.01)$ instead of m;
        - "rbc": $\sum w_r (1 - \phi) \phi^{\mathrm{rank}_r - 1}$;
        - "borda", "weighted_borda": $\sum w_r (c - \mathrm{rank}_r + 1)$, where c is the number of
          documents that any run retrieved for the query. A run that retrieved n documents gives
          each of the others $(c - n + 1) / 2$ points, half of the remaining ones.
    run
        Column of the run.
    query
        Column of the query, or several columns that identify it.
    doc
        Column of the document.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label. The result has it if the table has it.
    by
        Columns that split the table, such as the day. Runs are fused within each group.
    k
        Rank constant of RRF, 0 or more.
    weights
        Weight of each run, such as `{"bm25": 0.3, "dense": 0.7}`: numbers of 0 or more. Each run
        of the table must have a weight. "weighted_sum", "wmnz", "mixed" and "weighted_borda" need
        weights; "mnz", "gmnz", "anz", "min", "max" and "median" have none. Weights are not scaled
        to a sum of 1. A run with weight 0 takes part, as in ranx and OpenSearch: it counts in m,
        and its documents remain candidates. If no other run retrieved them, their fused score is 0
        (for Borda counts, that of missing documents). With "rrf", they follow all documents of the
        other runs; with "zscore", they precede documents with negative scores. To leave a run out,
        drop its rows.
    normalize
        What is done with the scores of each run and query before they are combined, for methods
        that read scores. Default: nothing.

        - "min_max": $(s - \min) / (\max - \min)$;
        - "max": $s / \max$; the highest score must be above 0;
        - "sum": $(s - \min) / \sum (s - \min)$;
        - "zscore": $(s - \mathrm{mean}) / \mathrm{sd}$;
        - "rank": $1 - (\mathrm{rank} - 1) / n$ for a run that retrieved n documents;
        - "borda": $1 - (\mathrm{rank} - 1) / c$. Documents that the run did not retrieve have
          $(c - n + 1) / (2 c)$.
    missing
        What a run counts as for a document that other runs retrieved, for methods that read scores:
        "ignore" leaves it out, "zero" gives the document a normalized score of 0, and "lowest" the
        lowest normalized score that the run gave for the query. Default: "zero" for
        "arithmetic_mean", "ignore" for other methods. Runs that count are part of m.
    constant
        Normalized score, from 0 to 1, of the documents of a run whose scores for a query are all
        equal, as with one document. Default: 1 with "min_max" and "sum", 0 with "zscore".
    gamma
        Exponent of "gmnz".
    phi
        Persistence of "rbc", between 0 and 1.
    ddof
        0 for the population standard deviation of "zscore", 1 for that of a sample.
    window
        Number of documents per run and query that count; the others are not retrieved. Default:
        all documents.
    engine
        Tool whose choices are the defaults of `normalize`, `constant` and `window`; see Notes.
    ties
        Order of documents with equal scores in a run: by id, "doc" (default, descending, as
        trec_eval) or "doc_ascending", or "input", the order of the rows.
    name
        Name of the fused run.
    keep_runs
        Whether the result has the runs, too, so that one `per_query` compares them with the fused
        run.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, query by query and by fused score descending: the columns of `by`, `run`,
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
    A document that occurs twice in a ranking counts once, at its best rank. A run takes part in the
    queries for which it has rows: in a query that one run has alone, the others count neither as
    missing nor with their weight. A row without a document says that a run found nothing.

    Methods read ranks or scores; scores of runs with different scales need `normalize`. Fused
    scores depend only on the documents of the query: if the rows of each query are adjacent, as in
    the result of `scan_log(path, run=None)`, memory does not grow with the table. Its column of
    runs is read once more, to check the runs. Streams of other engines are read into memory.

    Engines differ as follows. A parameter that is not None overrides the choice of the engine.

    - "ranx" (0.3.21): "min_max" for methods that read scores, and `constant=0`. With `ties="input"`
      and rows in the order of the runs, scores are equal within 1e-9. ranx has no means. It fails
      if a query is missing in a run, its "max" normalization divides scores of 0 or less by 1e-9,
      and the order of its Condorcet methods, which are not available here, depends on the hash
      seed.
    - "opensearch" (neural-search 3.8.0): for the three means, "min_max" with a lowest score of
      0.001 instead of 0, and `constant=1`. OpenSearch needs weights that add up to 1, for RRF, too.
      It computes with 32 bits, so fused scores agree within 1e-6 if all scores of runs are above 0,
      as they are in OpenSearch. It replaces z-scores of 0 or less by 0.001; `normalize="zscore"`
      does not.
    - "elasticsearch" (9.1, `RRFRetrieverBuilder` at commit 0050ad5): RRF with `window=10`, the
      default of `rank_window_size`. It returns at most that many documents, as a metric "@10"
      reads, and computes with 32 bits. It has weights since version 9.2.

    References
    ----------
    Fox & Shaw, Combination of multiple searches, 1994 ("sum", "mnz", "anz", "min", "max",
    "median"); Lee, Analyses of multiple evidence combination, 1997 ("gmnz", "min_max", "rank");
    Aslam & Montague, Models for metasearch, 2001 ("borda"); Montague & Aslam, Relevance score
    normalization for metasearch, 2001 ("sum", "zscore"); Wu & Crestani, Data fusion with estimated
    weights, 2002 ("wmnz", "mixed"); Renda & Straccia, Web metasearch: rank vs. score based rank
    aggregation methods, 2003 ("borda" normalization); Cormack, Clarke & Büttcher, Reciprocal rank
    fusion outperforms Condorcet and individual rank learning methods, 2009; Mourão, Martins &
    Magalhães, Multimodal medical information retrieval with unsupervised rank fusion, 2015 ("isr",
    "log_isr", "logn_isr"); Bailey et al., Retrieval consistency in the presence of query
    variations, 2017 ("rbc").

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

    >>> weights = {"bm25": 0.7, "dense": 0.3}
    >>> options = {"normalize": "min_max", "weights": weights}
    >>> both = pr.fuse(runs, "sum", **options, keep_runs=True)
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
    """
    by = without_run(names("by", by), run)
    parameters = {name: value for name, value in locals().items() if name != "frame"}
    result = fused(frame, **parameters)
    runs, keys = Runs.of(parameters), [*names("by", by), *names("query", query)]
    checked = with_check(result, runs.read(frame), runs)
    # Polars does not know that the check adds no rows.
    if not is_sorted_by(result, keys):
        return checked
    # Without the runs, there is one run.
    return checked.set_sorted(keys if keep_runs else [*by, run, *names("query", query)])


@framed
def fused(
    frame: pl.LazyFrame,
    /,
    *,
    run: str,
    query: Names,
    doc: str,
    score: str,
    label: str,
    by: Names | None,
    ties: Ties | None,
    name: str,
    keep_runs: bool,
    **parameters: Any,
) -> pl.LazyFrame:
    """Return the result of `fuse` without the check of the runs of the whole table."""
    fusion = Fusion.of(**parameters)
    one_of("ties", ties, (None, *TIES))
    log, own_label = labeled(frame, label)
    columns = columns_of_runs(
        schema_of(log), run=run, query=query, doc=doc, score=score, label=own_label, by=by
    )
    plan = Plan(fusion, columns, run, ties, checks_of_log(columns, run, fusion), keep_runs)
    keys = Keys.of(columns)
    if adjacent := keys.are_adjacent(log):
        rows = keys.rows(log, plan.inputs)
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
        *([LABEL.alias(label)] if own_label == label else []),
    )


def columns_of_runs(schema: pl.Schema, *, run: str, **roles: Any) -> Columns:
    """Return the columns of a log of several runs; raise `SchemaError` if one is missing."""
    columns = Columns.find(schema, **roles)
    columns.check("run", [run], "id")
    if columns.score == columns.label:
        raise used_twice(columns.score, "score", "label")
    return columns


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
    count = partial(label_conflicts, columns.pair, columns.label, message, conflict)
    checks.append(Check("ranking", LABEL != LOWEST_LABEL, message, count_failures=count))
    if fusion.normalize == "max":
        message = (
            f"{described('score', columns.score)} has highest scores of 0 or less, by which "
            "`normalize` 'max' would divide; use 'min_max'"
        )
        checks.append(Check("ranking", HIGHEST <= 0, message))
    return checks


@dataclass(frozen=True)
class Runs:
    """The check of the runs of a table."""

    column: str
    #: The runs that have a weight; none without weights.
    weighted: Sequence[str]
    #: The name of the fused run, if the result also has the runs.
    name: str | None

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Runs:
        """Return the check for the parameters of `fuse`."""
        name = parameters["name"] if parameters["keep_runs"] else None
        return cls(parameters["run"], [*map(str, parameters["weights"] or ())], name)

    def read(self, log: pl.LazyFrame) -> pl.LazyFrame:
        """Return the runs of a log as text.

        They are read by a plan of their own: in one plan, Polars would scan the log once, and hold
        the rows that the fusion has not yet read. Streams that can be read only once are read into
        memory if a plan scans them twice.
        """
        runs = log.select(pl.col(self.column).cast(pl.String).unique())
        if is_scanned_once(log):
            return runs

        def read(*_: Any) -> Iterator[pl.DataFrame]:
            yield runs.collect(engine="streaming")

        return register_io_source(read, schema={self.column: pl.String})

    def __call__(self, table: pl.DataFrame) -> None:
        """Raise `DataError` if there are fewer than two runs, or they do not fit the parameters."""
        runs = table.to_series().drop_nulls().sort().to_list()
        unknown = [run for run in self.weighted if run not in runs]
        if unknown:
            raise DataError(
                f"run {unknown[0]!r} (`weights`) not found in column {self.column!r}; available: "
                f"{', '.join(map(repr, runs))}.{hint(unknown[0], runs)}"
            )
        if len(runs) < 2:
            only = f"only the run {runs[0]!r}" if runs else "no runs"
            raise DataError(
                f"column {self.column!r} (`run`) has {only}; pass the rankings of several runs"
            )
        if self.name in runs:
            raise DataError(
                f"column {self.column!r} (`run`) has a run {self.name!r}; choose another `name` "
                "for the fused run"
            )
