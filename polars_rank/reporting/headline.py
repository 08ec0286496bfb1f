"""The headline of a report: which run is better, by how much, and whether it is significant.

Also, sentences about what affects the means and the headline, or contradicts the headline.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import number_of
from polars_rank.frames.tables import collected
from polars_rank.metrics import incomplete_judgments
from polars_rank.metrics.analyses import reads_labels
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import direction_note, lower_is_better, output_name
from polars_rank.reporting.evidence import JUDGED, number_of_clusters, ranked
from polars_rank.reporting.formats import count, listed, percent, text
from polars_rank.reporting.question import DEFINED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

#: Share of the first documents that must be judged for a headline.
_FEWEST = 0.5
_TIES = {
    "doc": "by document id, descending", "doc_ascending": "by document id, ascending",
    "best": "the higher label first", "worst": "the lower label first",
    "input": "in the order of the rows", "expected": "in all possible orders (mean)",
}  # fmt: skip

#: The number of the compared runs that have a query.
_RUNS = OWN + "runs"
#: Kinds of choices in sentences.
_WORDS = {"unjudged": "unjudged documents", "undefined": "undefined values"}


@dataclass(frozen=True)
class RunPair:
    """The comparison of two runs by the first metric."""

    run: Any
    other: Any
    row: Mapping[str, Any]
    #: The means of the run and of the other run, as in the table of means.
    after: float | None
    before: float | None

    @property
    def runs(self) -> list[Any]:
        """The two runs."""
        return [self.run, self.other]

    @property
    def verdict(self) -> str:
        """The verdict of `compare`."""
        return str(self.row["verdict"])

    @property
    def is_of_means(self) -> bool:
        """Whether the difference is that of the two means: not over other queries or labels."""
        if self.after is None or self.before is None:
            return False
        change = self.after - self.before
        return math.isclose(change, self.row["difference"], rel_tol=1e-9, abs_tol=1e-12)

    @property
    def is_equal(self) -> bool:
        """Whether the runs have equal values in all queries."""
        numbers = (self.row[name] for name in ("difference", "wins", "losses"))
        return self.verdict == "unclear" and not any(numbers)


@dataclass(frozen=True)
class Headline:
    """The headline of a report."""

    metric: str
    lower: bool
    #: What the name of the metric is followed by: which direction is better, if it may surprise.
    direction: str
    #: The comparison that is shown first; None if there is nothing to compare.
    comparison: RunPair | None
    others: list[RunPair]
    #: The number of comparisons for which p-values and intervals are corrected.
    tests: int
    #: The means of the metric by run, best first.
    means: list[dict[str, Any]]


def headline_context(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return the template variables of the headline."""
    first = headline(evidence, question)
    reason, compared = unjudged_reason(evidence, question, first), first.comparison
    content: dict[str, Any] = {
        "headline": first, "unjudged_reason": reason, "sample": _sample(evidence, question, first),
        "but": [], "robustness": None, "alerts": [],
    }  # fmt: skip
    if compared is not None:
        content["but"] = contradictions(evidence, question, compared)
        content["robustness"] = robustness_text(evidence, question, compared)
        content["alerts"] = [] if reason else [*alerts(evidence, question, compared)]
    return content


def headline(evidence: Evidence, question: Question) -> Headline:
    """Return the headline, about the first metric.

    It has the comparisons with the baseline, the best run first, or of the best run with others.
    """
    metric, lower = output_name(question.first), lower_is_better(question.first)
    means = ranked(evidence.summary, question).rows(named=True)
    comparisons, tests = [], 0
    if evidence.comparison is not None:
        tests = evidence.comparison.get_column("p_value").count()
        run = str(question.run)
        mean_of = {row[run]: row["mean"] for row in means}
        comparisons = [
            RunPair(
                row[run], row["baseline"], row, mean_of.get(row[run]), mean_of.get(row["baseline"])
            )
            for row in evidence.comparison.filter(metric=metric).iter_rows(named=True)
        ]
        if question.baseline is None:  # the pairs of the best run are the first ones
            comparisons = [each for each in comparisons if each.run == comparisons[0].run]
        else:
            comparisons.sort(key=lambda each: each.row["difference"] or 0.0, reverse=not lower)
    first = comparisons[0] if comparisons else None
    direction = direction_note(question.first)
    return Headline(metric, lower, direction, first, comparisons[1:], tests, means)


def _sample(evidence: Evidence, question: Question, first: Headline) -> str | None:
    """Return the size of the sample of the headline, such as "840 queries in 60 clusters (user)".

    The sample is that of the queries that all compared runs have; None if there is none.
    """
    if first.comparison is not None:
        runs, row = first.comparison.runs, first.comparison.row
    elif first.means:
        row = first.means[0]
        runs = [None if question.run is None else row[question.run]]
    else:
        return None
    clusters = rankings = row["queries"]
    size, cluster = number_of(rankings, "query", "queries"), evidence.cluster
    if cluster:
        # Those with queries that all of the runs have.
        others = [name for name in cluster if name not in question.queries]
        in_runs = question.of_runs(evidence.values, runs).group_by(question.queries)
        counts = in_runs.agg(pl.len().alias(_RUNS), pl.col(others).first())
        common = counts.filter(pl.col(_RUNS) == len(runs))
        clusters = int(collected(common.select(number_of_clusters(cluster))).item())
        size += f" in {number_of(clusters, 'cluster')} ({', '.join(cluster)})"
    if evidence.repeated:
        size = f"{number_of(clusters, 'query', 'queries')}, {number_of(rankings, 'ranking')}"
    is_weighted, effective = question.weight is not None or cluster, row["effective"]
    if is_weighted and effective is not None and round(effective, 1) < clusters:
        size += f", effective number {effective:,.1f}"
    return size


def robustness_text(evidence: Evidence, question: Question, comparison: RunPair) -> str | None:
    """Return what becomes of the verdict of a headline under other choices, in words."""
    table = evidence.robustness
    if table is None:
        return None
    rows = table.filter(pl.col(str(question.run)).eq_missing(pl.lit(comparison.run)))
    result, *labels = rows.item(0, "headline").split("; the labels", 1)
    word, _, reasons = result.partition(": ")
    rows = rows.drop_nulls("changes")
    choices = pl.col("choice").replace(_WORDS).unique(maintain_order=True)
    changed, every = (
        listed(part.select(choices).to_series().to_list())
        for part in (rows.filter("changes"), rows[1:])
    )
    others = number_of(rows.height - 1, "other choice")
    sentence = {
        "broken": f"A run looks broken: {reasons}.",
        "depends on": f"The verdict depends on {changed} ({others} tried).",
        "holds": f"The verdict holds with {others} of {every}.",
        "unclear": f"The verdict remains unclear with {others} of {every}.",
    }[word]
    return " ".join([sentence, *(f"The labels{each}." for each in labels)])


def unjudged_reason(evidence: Evidence, question: Question, headline: Headline) -> str | None:
    """Return why there is no headline, if few of the documents that it is about are judged.

    Without irrelevant labels, documents without a label are those without a purchase or click.
    """
    leaves = question.first.leaves if isinstance(question.first, Metric) else []
    # Metrics that are made for incomplete judgments have values for them.
    is_robust = any(each.function.__name__ in incomplete_judgments.__all__ for each in leaves)
    if not reads_labels(tree_of(question.first)) or is_robust or evidence.only_relevant:
        return None
    values = evidence.values
    if headline.comparison is not None:
        values = question.of_runs(values, headline.comparison.runs)
    share = collected(values.select(pl.col(JUDGED).mean())).item()
    if share is None or share >= _FEWEST:
        return None
    documents = "documents" if question.depth == 1 else f"{question.depth} documents"
    return (
        f"{percent(share)} of the first {documents} are judged, and the others count as "
        f"not relevant, so {headline.metric} says more about the judgments than about the "
        "rankings. Judge these documents, or use a metric for incomplete judgments, such as bpref."
    )


def alerts(evidence: Evidence, question: Question, comparison: RunPair) -> Iterator[str]:
    """Yield a warning if the metric is undefined for queries in one of the two runs only."""
    metric = output_name(question.first)
    if comparison.row["low"] is None:
        return
    undefined = pl.col(DEFINED + metric).is_null().sum()
    pairs = question.of_runs(evidence.values, comparison.runs).group_by(question.queries)
    in_one = pairs.agg(one=(pl.len() == 2) & (undefined == 1)).select(pl.col("one").sum())
    if ones := int(collected(in_one).item()):
        rule = question.conventions.counts_as(question.first)
        yield (
            f"{metric} is undefined for {number_of(ones, 'query', 'queries')} "
            f"({percent(ones / comparison.row['queries'])}) in one of the two runs, where "
            f'`undefined` is "{rule}"; this result may depend on it.'
        )


def cautions(evidence: Evidence, question: Question) -> Iterator[str]:
    """Yield cautions about differences between the queries of runs, and about rows.

    Rows may be unjudged, tied or duplicate.
    """
    contents, conventions = evidence.contents, question.conventions
    lengths, compared = contents.get_column("rankings"), evidence.comparison
    missing: Any = None if compared is None else compared.get_column("missing").max()
    if missing:
        yield (
            f"Runs were evaluated on different queries (up to {count(missing)} missing in one of "
            "two runs). Comparisons use the queries of both runs, means all queries of each run."
        )
    elif question.run is not None and lengths.n_unique() > 1:
        yield (
            f"Runs were evaluated on different queries: they have {count(min(lengths))} to "
            f"{count(max(lengths))} rankings."
        )
    totals = contents.select(
        "unjudged", "not_retrieved", "barren_rankings", "unretrieved_rankings", "rows", "rankings"
    ).sum().row(0, named=True)  # fmt: skip
    if totals["unjudged"]:
        is_removed = conventions.unjudged == "removed"
        share = percent(totals["unjudged"] / (totals["rows"] - totals["not_retrieved"]))
        if evidence.only_relevant and not is_removed:
            yield (
                "All labels are relevant, as those of purchases or clicks: the retrieved documents "
                f"without a label ({share}), such as items without an interaction, count as not "
                "relevant."
            )
        else:
            treatment = "were removed before ranking" if is_removed else "count as not relevant"
            yield f"{share} of the retrieved documents are unjudged; they {treatment}."
    tied: Any = contents.get_column("tied_rankings").max()
    if tied:
        rule = conventions.ties or ("doc" if question.columns.doc else "worst")
        yield (
            f"{percent(tied)} of the rankings have tied scores"
            f"{' in the run with the most ties' if contents.height > 1 else ''}; tied "
            f"documents were ordered {_TIES[rule]}."
        )
    texts = {
        "barren_rankings": "no relevant document; most metrics are then undefined (see Method)",
        "unretrieved_rankings": "no retrieved document",
    }
    for name, what in texts.items():
        if some := totals[name]:
            share = f"{count(some)} of {number_of(totals['rankings'], 'ranking')}"
            yield f"{share} {'has' if some == 1 else 'have'} {what}."
    if duplicates := sum(contents.get_column("repeated")) if "repeated" in contents.columns else 0:
        is_first = conventions.of(question.first).duplicates == "first"
        yield (
            f"{count(duplicates)} of {number_of(totals['rows'], 'row')} had a document that was "
            "already in the ranking; of such rows, the "
            f"{'first one' if is_first else 'one with the highest score'} was kept."
        )


def contradictions(evidence: Evidence, question: Question, comparison: RunPair) -> list[str]:
    """Return sentences about what contradicts the comparison of a headline.

    These are significant differences of the same runs in the other direction, or in any direction
    if the headline is undecided.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for part, row in _differences(evidence, question, comparison):
        if row["verdict"] in ("better", "worse") and row["verdict"] != comparison.verdict:
            found.setdefault((row["verdict"], part), []).append(row["metric"])
    parts: dict[tuple[str, str], list[str]] = {}
    for (verdict, part), metrics in found.items():
        # If a metric is worse over all queries, its parts say no more.
        whole = found.get((verdict, ""), []) if part else []
        if names := ", ".join(metric for metric in metrics if metric not in whole):
            parts.setdefault((verdict, names), []).append(part)
    return [
        f"{'Over all queries' if named == [''] else f'In {listed(named)}'}, "
        f"{text(comparison.run)} is {verdict} ({names})."
        for (verdict, names), named in parts.items()
    ]


def _differences(
    evidence: Evidence, question: Question, comparison: RunPair
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield other differences of the two runs of the headline, with a name for some queries."""
    run, first = str(question.run), output_name(question.first)
    compared = evidence.comparison
    for row in [] if compared is None else compared.rows(named=True):
        runs = row[run], row["baseline"]
        if runs == (comparison.run, comparison.other) and row["metric"] != first:
            yield "", row
    if question.baseline is None:
        return
    for row in [] if evidence.groups is None else evidence.groups.rows(named=True):
        if row[run] == comparison.run and row["difference"] is not None:
            yield ", ".join(f"{name}={text(row[name])}" for name in question.by), row
    for row in [] if evidence.slices is None else evidence.slices.rows(named=True):
        if row[run] == comparison.run:
            yield f"{row['slice']}={text(row['value'])}", row
