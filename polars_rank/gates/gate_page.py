"""The page of a gate: what failed, the means by category, and the queries that lost most."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import polars as pl
from polars import col

from polars_rank._pages import Page, PageTable
from polars_rank.errors import number_of
from polars_rank.gates.measures import BEFORE, main_metric
from polars_rank.gates.rules import text_of
from polars_rank.metrics.names import lower_is_better
from polars_rank.stats.verdict_files import page_of_verdicts, table_of_verdicts

#: The queries that are shown, the failures that are shown, and those that one line names.
_QUERIES, _FAILURES, _NAMED = 5, 20, 3


def page_of(gate: Any) -> Page:
    """Return the page of a gate."""
    verdicts = gate.verdicts
    failed, passed = (verdicts.filter(verdict=each) for each in ("fail", "pass"))
    title, names = _headline(gate), gate.failed
    texts = [*names[:_NAMED], *["…"] * (len(names) > _NAMED)]
    tables = [_means(gate.table), *_queries(gate)]
    if failed.height:
        below = f"and {failed.height - _FAILURES} more" * (failed.height > _FAILURES)
        table = table_of_verdicts(failed.head(_FAILURES))
        shown = replace(table, frame=table.frame.drop("verdict"), below=below, folds=True)
        tables.insert(0, shown)
    count = f"{number_of(passed.height, 'rule')} passed"
    return Page(
        title, gate.notes, tables, about="Retrieval gate", warnings=gate.warnings,
        details=[table_of_verdicts(passed, count)] if passed.height else [],
        summary=f"{title}: {', '.join(texts)}" if names else title,
        data={
            "passed": gate.passed, "warnings": gate.warnings,
            "verdicts": verdicts, "table": gate.table, "queries": gate.queries,
        },
        cases=page_of_verdicts(verdicts).cases if verdicts.height else (),
    )  # fmt: skip


def _headline(gate: Any) -> str:
    """Return whether a gate passed; if it did, no loss is shown, which is not proof of none."""
    count, failed = number_of(gate.verdicts.height, "rule"), len(gate.failed)
    if gate.verdicts.is_empty():
        return "No rule was checked: give floors or a baseline with common queries"
    if failed:
        return f"FAILED: {failed} of {count}"
    is_guarded = gate.verdicts["rule"].str.starts_with("not ").any()
    is_loss = "worse" in gate.verdicts["reason"]
    loss = f", no loss {'beyond the margin ' * is_loss}shown" if is_guarded else ""
    return f"PASSED: {count}{loss}"


def _means(table: pl.DataFrame) -> PageTable:
    """Return the means by category, each with the differences from the baseline below it."""
    names = [name for name in table.columns[2:] if not name.startswith("difference(")]
    rows = []
    for row in table.iter_rows(named=True):
        means = ["" if row[name] is None else f"{row[name]:.3f}" for name in names]
        changes = [row.get(f"difference({name})") for name in names]
        if any(means):
            rows.append([row["category"], f"{row['queries']:,}", *means])
        if any(changes):
            rows.append(["", "", *(f"{each:+.3f}" if each else "" for each in changes)])
    schema = dict.fromkeys(["category", "queries", *names], pl.String)
    return PageTable(pl.DataFrame(rows, schema, orient="row"))


def _ids(
    docs: Sequence[str], relevant: Collection[str] = (), forbidden: Collection[str] = ()
) -> str:
    """Return ids, the relevant ones with "*", and the forbidden ones with "!"."""
    marks = ("*" * (doc in relevant) + "!" * (doc in forbidden) + doc for doc in docs)
    return " ".join(marks) or "nothing"


def _queries(gate: Any) -> Iterator[PageTable]:
    """Yield the queries that lost most, or without a baseline those with the lowest values.

    They are those of the first rule that fails.
    """
    table, metrics = gate.queries, gate.metrics
    failed = gate.verdicts.filter(verdict="fail")
    metric = main_metric(metrics)
    for rule, where in failed.head(1).select("rule", "where").rows():
        metric = max((name for name in metrics if name in rule), key=len, default=metric)
        for category in table["category"].drop_nulls().unique() if where else ():
            if where == f"category={text_of(category)}":
                table = table.filter(category=category)
    sign, lost = -1 if lower_is_better(metric) else 1, table.clear()
    if metric + BEFORE in table.columns:
        loss = (col(metric + BEFORE) - col(metric)) * sign
        lost = table.filter(loss > 0).sort(loss, "query", descending=[True, False])
    is_compared, title = lost.height > 0, f"Queries that lost most in {metric}"
    if not is_compared and failed.height:
        lost = table.drop_nulls(metric).sort(col(metric) * sign, "query")
        lost = lost.filter(col(metric) < 1 if sign > 0 else col(metric) > 0)
        title = f"Queries with the {'lowest' if sign > 0 else 'highest'} {metric}"
    rows = []
    for row in lost.head(_QUERIES).iter_rows(named=True):
        has_text = row["text"] not in (None, row["query"])
        query = f"{row['query']}: {row['text']}" if has_text else row["query"]
        now, first = f"{row[metric]:.3f}", _ids(row["relevant"])
        marks = (row["relevant"], row.get("forbidden_docs", ()))
        if is_compared:
            now = f"{row[metric + BEFORE]:.3f} -> {now}"
            first = _ids(row["docs" + BEFORE] or [], *marks)
        docs = _ids(row["docs"], *marks)
        rows.append([query, row["category"] or "", now, first, docs])
    if rows:
        names = ("before", "after") if is_compared else ("relevant", "retrieved")
        schema = dict.fromkeys(["query", "category", metric, *names], pl.String)
        yield PageTable(pl.DataFrame(rows, schema, orient="row"), title, paragraphs=3)
