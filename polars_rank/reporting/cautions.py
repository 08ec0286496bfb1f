"""Sentences about what affects the means and the headline, or contradicts the headline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import number_of
from polars_rank.frames.tables import collected
from polars_rank.metrics import incomplete_judgments
from polars_rank.metrics.analyses import reads_labels
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import output_name
from polars_rank.reporting.estimates import DEFINED, JUDGED
from polars_rank.reporting.formats import count, listed, percent, text
from polars_rank.stats.run_pairs import is_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.headline import Comparison, Headline
    from polars_rank.reporting.question import Question

#: Share of the first documents that must be judged for a headline.
_FEWEST = 0.5
_TIES = {
    "doc": "by document id, descending", "doc_ascending": "by document id, ascending",
    "best": "the higher label first", "worst": "the lower label first",
    "input": "in the order of the rows", "expected": "in all possible orders (mean)",
}  # fmt: skip


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
        values = values.filter(_is_compared(evidence, question, headline.comparison))
    share = collected(values.select(pl.col(JUDGED).mean())).item()
    if share is None or share >= _FEWEST:
        return None
    documents = "documents" if question.depth == 1 else f"{question.depth} documents"
    return (
        f"{percent(share)} of the first {documents} are judged, and the others count as "
        f"not relevant, so {headline.metric} says more about the judgments than about the "
        "rankings. Judge these documents, or use a metric for incomplete judgments, such as bpref."
    )


def alerts(evidence: Evidence, question: Question, headline: Headline) -> Iterator[str]:
    """Yield a warning if the metric is undefined for queries in one of the two runs only."""
    metric, comparison = headline.metric, headline.comparison
    if comparison is None or comparison.row["low"] is None:
        return
    undefined = pl.col(DEFINED + metric).is_null().sum()
    is_compared = _is_compared(evidence, question, comparison)
    pairs = evidence.values.filter(is_compared).group_by(question.queries)
    in_one = pairs.agg(one=(pl.len() == 2) & (undefined == 1)).select(pl.col("one").sum())
    if ones := int(collected(in_one).item()):
        rule = question.conventions.counts_as(question.first)
        yield (
            f"{metric} is undefined for {number_of(ones, 'query', 'queries')} "
            f"({percent(ones / comparison.row['queries'])}) in one of the two runs, where "
            f'`undefined` is "{rule}"; this result may depend on it.'
        )


def _is_compared(evidence: Evidence, question: Question, comparison: Comparison) -> pl.Expr:
    """Return whether a row belongs to one of two runs."""
    run, dtype = str(question.run), evidence.values.collect_schema()[str(question.run)]
    return pl.any_horizontal(
        is_run(run, dtype, each) for each in (comparison.run, comparison.other)
    )


def cautions(evidence: Evidence, question: Question) -> Iterator[str]:
    """Yield cautions about differences between the queries of runs, and about rows.

    Rows may be unjudged, tied or duplicate.
    """
    rankings = evidence.contents.get_column("rankings")
    compared = evidence.comparison
    missing: Any = None if compared is None else compared.get_column("missing").max()
    low, high = min(rankings, default=0), max(rankings, default=0)
    if missing:
        yield (
            f"Runs were evaluated on different queries: up to {count(missing)} "
            f"{'is' if missing == 1 else 'are'} missing in one of two runs. Comparisons use the "
            "queries of both runs, means all queries of each run."
        )
    elif question.run is not None and low != high:
        yield (
            f"Runs were evaluated on different queries: they have {count(low)} to {count(high)} "
            "rankings."
        )
    totals = evidence.contents.select(
        "unjudged", "not_retrieved", "barren_rankings", "unretrieved_rankings", "rows", "rankings"
    ).sum().row(0, named=True)  # fmt: skip
    conventions = question.conventions
    retrieved = totals["rows"] - totals["not_retrieved"]
    if totals["unjudged"]:
        is_removed = conventions.unjudged == "removed"
        share = percent(totals["unjudged"] / retrieved)
        if evidence.only_relevant and not is_removed:
            yield (
                "All labels are relevant, as those of purchases or clicks: the retrieved documents "
                f"without a label ({share}), such as items without an interaction, count as not "
                "relevant."
            )
        else:
            treatment = "were removed before ranking" if is_removed else "count as not relevant"
            yield f"{share} of the retrieved documents are unjudged; they {treatment}."
    tied: Any = evidence.contents.get_column("tied_rankings").max()
    if tied:
        rule = conventions.ties or ("doc" if question.columns.doc else "worst")
        yield (
            f"{percent(tied)} of the rankings have tied scores"
            f"{' in the run with the most ties' if evidence.contents.height > 1 else ''}; tied "
            f"documents were ordered {_TIES[rule]}."
        )
    if totals["barren_rankings"]:
        barren, them = totals["barren_rankings"], "it" if totals["barren_rankings"] == 1 else "them"
        yield (
            f"{_share_text(barren, totals['rankings'])} no relevant document; most "
            f"metrics are undefined for {them} (see Method for how they count)."
        )
    if totals["unretrieved_rankings"]:
        unretrieved = _share_text(totals["unretrieved_rankings"], totals["rankings"])
        yield f"{unretrieved} no retrieved document."
    has_duplicates = "repeated" in evidence.contents.columns
    duplicates: Any = evidence.contents.get_column("repeated").sum() if has_duplicates else 0
    if duplicates:
        was = "was" if duplicates == 1 else "were"
        effects = {
            "max": f"{was} removed; the row with the highest score was kept",
            "first": f"{was} removed; the row that came first was kept",
        }
        choice = question.conventions.of(question.first).duplicates
        yield (
            f"{count(duplicates)} of {number_of(totals['rows'], 'row')} "
            f"{'is a duplicate' if duplicates == 1 else 'are duplicates'} of a document in the "
            f"same ranking and {effects[choice]}."
        )


def _share_text(some: int, rankings: int) -> str:
    """Return the subject and verb of a caution, such as "1 of 900 rankings has"."""
    return f"{count(some)} of {number_of(rankings, 'ranking')} {'has' if some == 1 else 'have'}"


def contradictions(evidence: Evidence, question: Question, comparison: Comparison) -> list[str]:
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
    evidence: Evidence, question: Question, comparison: Comparison
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
