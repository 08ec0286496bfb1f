"""What a reader of means should know of the log: sentences, from what was counted in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank.errors import number_of
from polars_rank.reporting.formats import count, percent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

_TIES = {
    "doc": "by document id, descending", "doc_ascending": "by document id, ascending",
    "best": "the higher label first", "worst": "the lower label first",
    "input": "in the order of the rows", "expected": "as the mean over all their orders",
}  # fmt: skip


def cautions(evidence: Evidence, question: Question) -> list[str]:
    """Return the sentences, those that change most what means say first."""
    return [*_of_runs(evidence, question), *_of_rows(evidence, question)]


def _of_runs(evidence: Evidence, question: Question) -> Iterator[str]:
    """Return what runs do not have in common."""
    if question.run is None:
        return
    lists = evidence.found.get_column("lists")
    compared = evidence.comparison if evidence.comparison is not None else evidence.pairs
    missing: Any = None if compared is None else compared.get_column("missing").max()
    low: Any
    high: Any
    low, high = lists.min(), lists.max()
    if missing:
        yield (
            f"Runs do not have the same queries: up to {count(missing)} "
            f"{'is' if missing == 1 else 'are'} missing on one side. "
            "Comparisons are over the queries that both have, means over those of each run."
        )
    elif low != high:
        yield (
            f"Runs have different numbers of lists, {count(low)} to {count(high)}: "
            "their means are not over the same queries."
        )


def _of_rows(evidence: Evidence, question: Question) -> Iterator[str]:
    """Return what rows lack, and by which rule they were evaluated in spite of it."""
    found = evidence.found.select(
        "unjudged", "not_retrieved", "barren_lists", "unretrieved_lists", "rows", "lists"
    ).sum().row(0, named=True)  # fmt: skip
    agreed = question.agreed
    retrieved = found["rows"] - found["not_retrieved"]
    if found["unjudged"]:
        done = {
            "removed": "were removed before ranks were given",
            "nonrelevant": "count as not relevant",
        }
        yield (
            f"{percent(found['unjudged'] / retrieved)} of the retrieved documents are unjudged; "
            f"they {done[agreed.unjudged]}."
        )
    tied: Any = evidence.found.get_column("tied_lists").max()
    if tied:
        rule = agreed.ties or ("doc" if question.columns.doc else "worst")
        yield (
            f"Scores are tied in {percent(tied)} of the lists"
            f"{' of the run that has most' if evidence.found.height > 1 else ''}; tied documents "
            f"were ordered {_TIES[rule]}."
        )
    if found["barren_lists"]:
        barren, them = found["barren_lists"], "it" if found["barren_lists"] == 1 else "them"
        yield (
            f"{_of_lists(barren, found['lists'])} no relevant document; most metrics are undefined "
            f"for {them} (see below for what they count as)."
        )
    if found["unretrieved_lists"]:
        yield f"{_of_lists(found['unretrieved_lists'], found['lists'])} no retrieved document."
    known = "repeated" in evidence.found.columns
    repeated: Any = evidence.found.get_column("repeated").sum() if known else 0
    if repeated:
        kept = {"max": "of the highest score", "first": "that came first"}
        choice = str(question.options.get("duplicates"))
        yield (
            f"{count(repeated)} of {number_of(found['rows'], 'row')} "
            f"{'repeats a document of its' if repeated == 1 else 'repeat a document of their'} "
            f"list: duplicates were removed, the row {kept[choice]} was kept."
        )


def _of_lists(some: int, lists: int) -> str:
    """Return how many of the lists have, such as "1 of 900 lists has"."""
    return f"{count(some)} of {number_of(lists, 'list')} {'has' if some == 1 else 'have'}"
