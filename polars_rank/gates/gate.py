"""`gate`: whether a retriever passes its rules, from a golden file and its results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from os import PathLike
from statistics import NormalDist, stdev
from typing import Any, Literal, Unpack, cast

import polars as pl
from polars import col

from polars_rank._pages import Page, Paged
from polars_rank._params import one_of, public
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions, named
from polars_rank.diagnostics.log_facts import facts
from polars_rank.errors import DataError, GateFailed, number_of, warn
from polars_rank.evaluation.log import Log
from polars_rank.gates import golden as files
from polars_rank.gates.baseline import Baseline
from polars_rank.gates.gate_page import page_of
from polars_rank.gates.limits import Limits, expressions, limits_of
from polars_rank.gates.measures import DECIMALS, Change, Measures, main_metric, means_by_category
from polars_rank.io.fields import FieldNames, check_found, checked_fields, fields_of
from polars_rank.metrics.metric import cutoff
from polars_rank.metrics.names import Metrics, bounds_of, lower_is_better
from polars_rank.stats.estimate import FEW_QUERIES

METRICS = ("recall@5", "recall@10", "full_recall@10", "mrr@10", "ndcg@10", "hit_rate@5")
#: What a loss that a baseline would find depends on.
ASSUMPTION = ", if the differences from a later run vary as much as the values do"


@dataclass(repr=False, eq=False)
class Gate(Paged):
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
    page
        The page that is printed, which is also written as Markdown, HTML, JSON and JUnit XML.
    """

    verdicts: pl.DataFrame
    table: pl.DataFrame
    queries: pl.DataFrame
    metrics: list[str]
    warnings: list[str]
    notes: list[str]
    _current: Baseline

    @property
    def page(self) -> Page:
        """The page that is printed."""
        return page_of(self)

    @property
    def passed(self) -> bool:
        """Whether no rule fails."""
        return "fail" not in self.verdicts["verdict"]

    @property
    def failed(self) -> list[str]:
        """The rules that fail."""
        rows = self.verdicts.filter(verdict="fail").iter_rows(named=True)
        return [f"{row['rule']} ({row['where']})" if row["where"] else row["rule"] for row in rows]

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
            loss = {"date": current.date, "reason": accept_loss, "failed": self.failed}
            current = replace(current, accepted=[*current.accepted, loss])
        current.write(path)


@public
def gate(
    judgments: Any,
    results: Any,
    baseline: Any = None,
    *,
    metrics: Metrics = METRICS,
    floors: Mapping[str, Any] | None = None,
    max_drop: float | str | Mapping[str, Any] | None = None,
    margin: float | str | Mapping[str, Any] = 0,
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
        document is a query without a relevant one. Documents that must not be retrieved are true in
        a column "forbidden", or in a list "forbidden" of the query.
    results
        Results of one retriever: a path, or a table with the columns "query", "doc" and "score". A
        row without a document is a query for which nothing was retrieved. Several are repetitions,
        whose values are averaged. If `judgments` have spans of text ("start" and "end"), the
        results have chunks of text, too, which `join_spans` joins; its result is a table of
        results, too.
    baseline
        File that `write_baseline` wrote.
    metrics
        Metrics, by name or as expressions.
    floors
        Smallest means: numbers by metric, for all queries, or such mappings by category. For a
        metric of which less is better, it is the largest mean.
    max_drop
        Largest loss of a mean against the baseline: a number, a share of the baseline's mean, such
        as "5%", or a mapping as in `floors`.
    margin
        Size of a loss that does not matter to guards: a number of 0 or above, a share such as "2%",
        or a mapping by metric. A guard fails if a larger loss is shown, for all queries or a
        category.
    latency
        Largest latencies: numbers by "mean", "max" or a percentile such as "p95". The results have
        the column "latency" or "latency_ms".
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
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields. Without
        a choice of `ties`, tied documents are in the order of the results, as users see them
        (``ties="input"``).
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`.

    Returns
    -------
    Gate
        `passed`, `verdicts` (a row per rule, as in `check`), `table` (means by category),
        `queries`, `warnings`, `notes`, `page`, and the method `write_baseline`. As text, it is a
        page of 80 columns; its representation names the rules that fail, as for
        ``assert gate.passed, gate``.

    Raises
    ------
    ArgumentError
        A rule is about an unknown metric or category.
    DataError
        Queries have no result, grades are not numbers, or a document has several labels or is both
        relevant and forbidden.

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
    `forbidden`, the share of queries with a forbidden document, is over all queries without an
    error, and is computed at 10 if `metrics` lack it and a document is forbidden.
    """
    one_of("missing", missing, ("raise", "zero"))
    chosen = named(conventions).but(**definitions)
    chosen = chosen.but(ties="input") if chosen.ties is None else chosen
    limits = Limits(
        limits_of("floors", {} if floors is None else floors),
        limits_of("latency", {} if latency is None else latency),
        limits_of("max_drop", {} if max_drop is None else max_drop, is_loss=True),
        limits_of("margin", margin, is_loss=True),
    )
    given = checked_fields(fields, "judgments", "run")
    golden = files.read_golden(judgments, category, fields_of(given, "judgments"))
    runs = files.read_results(results, golden, fields_of(given, "run"))
    sources = [golden.source, *(each.source for each in runs)]
    of_runs = {role for each in runs for role in each.source.found}
    names = [name for each in sources for name in each.names]
    check_found(given, {"judgments": golden.source.found, "run": of_runs}, names)
    if missing == "raise":
        _check_results(golden, runs)
    documents = None if corpus is None else files.read_corpus(corpus)
    before = None if baseline is None else Baseline.read(baseline)
    measures = Measures(golden, runs, expressions(metrics, golden, limits, chosen), chosen)
    limits.check(measures)
    current = measures.as_baseline(None if documents is None else files.digest(documents))
    problems = [*golden.warnings, *dict.fromkeys(text for each in runs for text in each.warnings)]
    problems += files.low_grades(golden, chosen.rel)
    problems += [] if documents is None else files.unknown_ids(golden, documents, runs)
    problems += _broken(measures)
    change = None
    if before is not None:
        problems += before.changes(golden, current.corpus, current.definitions)
        current = replace(current, accepted=before.accepted)
        change = Change.of(measures, before, before.compared(current.definitions))
        problems += [] if change is None else change.stale
    verdicts = limits.verdicts(measures, change)
    for text in problems:
        warn(text)
    resolution, loss = _resolution(measures, change, limits)
    notes = [resolution, *_notes(measures, before, loss)]
    notes += [text for each in sources for text in each.sentences()]
    return Gate(
        verdicts, means_by_category(measures, change), measures.queries(before), measures.metrics,
        problems, notes, current,
    )  # fmt: skip


def _check_results(golden: files.Golden, runs: Sequence[files.Results]) -> None:
    """Raise `DataError` for queries without a result, with their errors."""
    failed = {query: error for each in runs for query, error in each.failed.items()}
    if failed:
        texts = [
            f"{query!r} has the error {error!r}" if error else repr(query)
            for query, error in sorted(failed.items())[: files.SHOWN]
        ]
        raise DataError(
            f"{len(failed):,} of {number_of(golden.queries.height, 'query', 'queries')} have no "
            f"result: {', '.join(texts)}{', …' * (len(failed) > len(texts))}; run them again, or "
            "pass missing='zero' to count them as 0"
        )


def _broken(measures: Measures) -> Iterator[str]:
    """Yield why results look broken."""
    cutoffs = [k for k in map(cutoff, measures.expressions) if k is not None]
    found: dict[str, str] = {}
    for each in measures.runs:
        lowest, k = measures.conventions.rel, min(cutoffs, default=None)
        problems = facts(Log.of(each.log.lazy(), run=None), lowest, k).problems
        for problem in chain.from_iterable(problems.values()):
            # The results say for which queries nothing was retrieved; others have failed.
            if problem.name != "queries missing" or each.failed:
                found.setdefault(problem.name, problem.text)
    for name, text in found.items():
        yield f"the results look broken ({name}): {text}"


def _notes(measures: Measures, before: Baseline | None, loss: str) -> Iterator[str]:
    """Yield the order of ties, the noise of repetitions, and the age of the baseline."""
    if measures.has_ties:
        ties = measures.conventions.ties
        order = "in the order of the results" if ties == "input" else f"ordered by ties={ties!r}"
        yield f"documents with equal scores are {order}"
    every, main = pl.concat(measures.repetitions), main_metric(measures.metrics)
    means = every.group_by("repetition").agg(col(main).mean())[main].drop_nulls().to_list()
    if len(means) > 1:
        changed = every.group_by("query").agg(col(main).n_unique() > 1)[main]
        yield (
            f"{len(measures.runs)} repetitions: the standard deviation of the mean {main} is "
            f"{stdev(means):.3f}, the largest difference of two is {max(means) - min(means):.2g}"
            f"{loss and f' (a loss of {loss} is found)'}, and "
            f"{number_of(int(changed.sum()), 'query differs', 'queries differ')} in it"
        )
    if before is not None:
        number = number_of(before.rows.height, "query", "queries")
        yield f"baseline of {number}, written {f'on {before.date}' if before.age else 'today'}"


def _resolution(measures: Measures, change: Change | None, limits: Limits) -> tuple[str, str]:
    """Return which loss the rules find with 80% probability, as a sentence and as a number."""
    main = main_metric(measures.metrics)
    quantile, values = NormalDist().inv_cdf, measures.values[main].drop_nulls()
    std, mean = (cast("float", each or 0.0) for each in (values.std(), values.mean()))
    error = round(std, DECIMALS) / max(len(values), 1) ** 0.5
    # A guard fails if the difference is beyond the margin by half of its interval. All intervals
    # hold together: for other data, this is Bonferroni's.
    half, assumption = quantile(1 - 0.025 / len(measures.metrics)) * error, ASSUMPTION
    if len(values) < FEW_QUERIES and bounds_of(main) is None:
        half = math.inf
    if change is not None:
        rows = change.whole.filter(col("std_error") > 0, metric=main).fill_null(math.inf)
        for row in rows.iter_rows(named=True):
            error, mean, assumption = row["std_error"], row["baseline_mean"], ""
            half = abs(row["low" if lower_is_better(main) else "high"] - row["difference"])
    text = number_of(measures.golden.queries.height, "query", "queries")
    if not error:
        return text, ""
    margins, drops = (
        # Shares are of the mean.
        [each.value * (abs(mean) if each.column != "difference" else 1) for each in some
         if each.category is None and each.metric in ("", main)]
        for some in (limits.margins, limits.drops)
    )  # fmt: skip
    loss = min([[0.0, *margins][-1] + half, *drops]) + quantile(0.8) * error
    is_possible = loss < (math.inf if lower_is_better(main) else mean)
    number = f"{loss:.2g}" if is_possible else ""
    found = (
        f"a loss of {number} in {main} is found" if number else f"too few to find a loss in {main}"
    )
    return f"{text}: {found} with 80% probability{assumption}", number
