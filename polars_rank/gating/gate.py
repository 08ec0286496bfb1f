"""`gate`: whether a retriever passes its rules, from a golden file and its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any, Literal, Unpack

from polars_rank._params import one_of, public
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions, named
from polars_rank.errors import ArgumentError, DataError, GateFailed, number_of, warn
from polars_rank.gating import evaluation, inputs, texts
from polars_rank.gating.baseline import Baseline
from polars_rank.gating.robustness import Bounds, problems_of, robustness
from polars_rank.gating.rules import bounds_of
from polars_rank.io.fields import FieldNames, check_found, checked_fields, fields_of
from polars_rank.metrics.names import Metrics

METRICS = ("recall@5", "recall@10", "full_recall@10", "mrr@10", "ndcg@10", "hit_rate@5")


class Gate(evaluation.Outcome):
    """The verdicts of a gate, with the values behind them.

    Attributes
    ----------
    verdicts
        One row per rule and category, failures first, as `check` returns it.
    table
        Means of all queries and of each category, and with a baseline the differences.
    queries
        One row per query: its values, its first documents, and those of the baseline.
    warnings
        What looks wrong in the golden file, the results and the baseline.
    notes
        What was evaluated, and which loss the rules find with 80% probability.
    robustness
        What becomes of the result: "holds" if the gate passes or fails alike in the best and the
        worst order of tied documents, and without the 1% of the queries that differ most from the
        baseline; "depends on: ties, outliers" if not; "unclear" without rules; or "broken: ..." if
        the results look broken, as in `diagnostics.robustness`. Its first word is in the headline.
    """

    _current: Baseline

    def write_baseline(self, path: str | PathLike[str], *, accept_loss: str | None = None) -> None:
        """Write the values of this run as the baseline.

        Parameters
        ----------
        path
            File of JSON lines. An existing file is replaced.
        accept_loss
            Why a run that fails becomes the baseline, which the file records.

        Raises
        ------
        GateFailed
            A rule fails, and `accept_loss` is not given.
        """
        current = self._current
        if not self.passed:
            if accept_loss is None or not str(accept_loss).strip():
                raise GateFailed(
                    f"the baseline was not written, because {number_of(len(self.failed), 'rule')} "
                    "failed; to accept the loss, give a reason with `accept_loss`", self.verdicts,
                )  # fmt: skip
            current = current.accept(accept_loss, self.failed)
        current.write(path)

    def __str__(self) -> str:
        return texts.plain(self)

    def _repr_html_(self) -> str:
        return texts.html(self)


@public
def gate(
    judgments: Any,
    run: Any,
    baseline: Any = None,
    *,
    metrics: Metrics = METRICS,
    floors: Mapping[str, Any] | None = None,
    max_drop: float | Mapping[str, Any] | None = None,
    margin: float | Mapping[str, Any] = 0,
    latency: Mapping[str, Any] | None = None,
    category: str | None = None,
    corpus: Any = None,
    missing: Literal["raise", "zero"] = "raise",
    fields: FieldNames | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> Gate:
    """Check rules about the results of a retriever on the queries of a golden file.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> golden = pl.DataFrame({"query": ["a", "b"], "doc": ["d1", "d2"]})
    >>> results = pl.DataFrame({
    ...     "query": ["a", "b", "b"],
    ...     "doc": ["d1", "d3", "d2"],
    ...     "score": [1.0, 0.9, 0.8],
    ... })
    >>> gate = pr.gate(golden, results, floors={"recall@5": 0.9, "mrr@10": 0.8})
    >>> gate.failed
    ['mrr@10 >= 0.8']
    >>> gate.verdicts.select("rule", "value", "verdict")
    shape: (2, 3)
    ┌─────────────────┬───────┬─────────┐
    │ rule            ┆ value ┆ verdict │
    │ ---             ┆ ---   ┆ ---     │
    │ str             ┆ f64   ┆ str     │
    ╞═════════════════╪═══════╪═════════╡
    │ mrr@10 >= 0.8   ┆ 0.75  ┆ fail    │
    │ recall@5 >= 0.9 ┆ 1.0   ┆ pass    │
    └─────────────────┴───────┴─────────┘

    Parameters
    ----------
    judgments
        Golden file: a path, or a table with the columns "query", "doc" and "label". A row without a
        document is a query without a relevant one.
    run
        Results of one retriever: a path, or a table with the columns "query", "doc" and "score". A
        row without a document is a query for which nothing was retrieved. Several are repetitions,
        whose values are averaged.
    baseline
        File that `write_baseline` wrote.
    metrics
        Metrics, by name or as expressions.
    floors
        Smallest means: numbers by metric, for all queries, or such mappings by category.
    max_drop
        Largest loss of a mean against the baseline: a number, or numbers as in `floors`.
    margin
        Size of a loss that does not matter to guards: a number of 0 or above, or numbers by metric.
        A guard fails if a larger loss is shown, for all queries or a category.
    latency
        Largest latencies: numbers by "mean", "max" or a percentile such as "p95".
    category
        Column of the category of a query in `judgments`. Default: "category" or "class", if it
        exists.
    corpus
        Corpus, to find unknown ids in the golden file: a path, or a table with the column "doc" or
        "id".
    missing
        Treatment of queries without a result, or whose result has an error: "raise" an error, or
        count them as 0 ("zero").
    fields
        Fields by role, if their names are not known. For example, ``{"label": "relevancy"}``; see
        `scan_judgments` and `scan_run`. They apply to each file that has the field, unless they are
        named for one, like ``"judgments.query"`` and ``"results.query"``.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`.

    Returns
    -------
    Gate
        `passed`, `verdicts` (a row per rule, as in `check`), `table` (means by category),
        `queries`, `warnings`, `notes`, `robustness`, and the method `write_baseline`. It prints as
        a report.

    Raises
    ------
    ArgumentError
        A rule is about an unknown metric or category.
    DataError
        Queries have no result, grades are not numbers, or a document has several labels.

    Warns
    -----
    RankWarning
        The golden file, the results or the baseline look wrong; `warnings` lists why.

    Notes
    -----
    Floors, `max_drop` and `latency` compare the numbers of these queries, without an interval.
    Guards use the intervals of `compare` against the baseline, on the queries with the same labels
    in both. All guards together fail an equal retriever in at most 5% of runs. A gate that passes
    shows no loss; it does not prove that there is none. `notes` has the loss over all queries that
    the rules find with 80% probability.

    Queries without a relevant document have the category "unanswerable". Their only metric is
    `abstained`, which is 1 if nothing was retrieved, and that of the others is `answered`.
    """
    one_of("missing", missing, ("raise", "zero"))
    chosen = named(conventions).but(**definitions)
    lowest = bounds_of("floors", {} if floors is None else floors)
    limits = bounds_of("latency", {} if latency is None else latency)
    drops = bounds_of("max_drop", {} if max_drop is None else max_drop, is_loss=True)
    margins = bounds_of("margin", margin, is_loss=True)
    given = checked_fields(fields, "judgments", "run")
    golden = inputs.read_golden(judgments, category, fields_of(given, "judgments"))
    runs = inputs.read_results(run, golden, fields_of(given, "run"))
    sources = [golden.source, *(each.source for each in runs)]
    of_runs = {role for each in runs for role in each.source.found}
    names = [name for each in sources for name in each.names]
    check_found(given, {"judgments": golden.source.found, "run": of_runs}, names)
    failed = sorted({query for each in runs for query in each.failed})
    if failed and missing == "raise":
        raise DataError(
            f"{len(failed):,} of {number_of(golden.queries.height, 'query', 'queries')} have no "
            f"result: {inputs.listed(failed)}; run them again, or pass missing='zero' to count "
            "them as 0"
        )
    documents = None if corpus is None else inputs.read_corpus(corpus)
    before = None if baseline is None else Baseline.read(baseline)
    measured = evaluation.expressions(metrics, {"floors": lowest, "max_drop": drops}, chosen)
    result = evaluation.Evaluation(golden, runs, measured, chosen)
    for each in margins:
        if each.category is not None or each.metric not in {"", *result.metrics}:
            raise ArgumentError(
                f"`margin` has numbers by metric: {', '.join(map(repr, result.metrics))}; found "
                f"{each.category or each.metric!r}"
            )
    current = result.as_baseline(None if documents is None else inputs.digest(documents))
    problems = [*golden.warnings, *dict.fromkeys(text for each in runs for text in each.warnings)]
    problems += inputs.low_grades(golden, chosen.rel)
    problems += [] if documents is None else inputs.unknown_ids(golden, documents, runs)
    broken = problems_of(golden, runs, measured, chosen)
    problems += [f"the results look broken ({each.name}): {each.text}" for each in broken]
    change = None
    if before is not None:
        problems += before.changes(golden, current.corpus, current.definitions)
        current = replace(current, accepted=before.accepted)
        change = evaluation.Change(result, before)
        problems += [] if change.is_empty else change.stale
    bounds = Bounds(lowest, limits, drops, margins)
    verdicts = bounds.verdicts(result, change)
    for text in problems:
        warn(text)
    survival = robustness(verdicts, bounds, result, change, broken)
    notes = [*evaluation.notes(result, change, drops, margins)]
    notes += [f"the result {survival}"] if survival.startswith("depends") else []
    notes += [text for each in sources for text in each.sentences()]
    found = Gate(
        verdicts, evaluation.table(result, change), evaluation.queries(result, before),
        result.metrics, problems, notes, survival,
    )  # fmt: skip
    found._current = current
    return found
