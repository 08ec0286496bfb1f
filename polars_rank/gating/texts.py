"""A gate as text of at most 80 columns, as Markdown for a pull request, as HTML, JSON and JUnit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple
from unicodedata import east_asian_width

import polars as pl
from polars import col

from polars_rank import _texts
from polars_rank._formats import FORMAT_VERSION, GATE_JSON
from polars_rank.errors import number_of
from polars_rank.gating.evaluation import BEFORE, Outcome, main_metric
from polars_rank.gating.inputs import ALL
from polars_rank.metrics.names import lower_is_better
from polars_rank.stats import verdicts

_WIDTH = 80
#: The queries that are shown, and the rules that do not pass.
_QUERIES, _RULES = 5, 20
#: The largest widths of the names of categories, of rules and of ids of documents.
_CATEGORY, _RULE, _ID = 16, 36, 30


def headline(gate: Outcome) -> str:
    """Return whether a gate passed; if it did, no loss is shown, which is not proof of none."""
    count, failed = number_of(gate.verdicts.height, "rule"), len(gate.failed)
    if gate.verdicts.is_empty():
        needs = " with more common queries" if "docs" + BEFORE in gate.queries.columns else ""
        return f"No rule was checked: give floors or a baseline{needs}"
    result = f"FAILED: {failed} of {count}" if failed else f"PASSED: {count}"
    if not failed and gate.verdicts["rule"].str.starts_with("not ").any():
        is_loss = "worse" in gate.verdicts["reason"]
        result += f", no loss {'beyond the margin ' if is_loss else ''}shown"
    return f"{result} ({gate.robustness.split()[0].rstrip(':')})"


def plain(gate: Outcome) -> str:
    """Return the whole text, failures first."""
    notes = (line for each in gate.notes for line in wrap(_texts.visible(each), _WIDTH))
    parts = ["\n".join([headline(gate), *notes])]
    parts += ["\n".join(_columns(rows)) for rows in [_rules(gate)] if rows]
    parts += ["\n".join(_columns(rows)) for rows in _means(gate.table)]
    changes = Changes.of(gate)
    if changes is not None:
        lines = [changes.title]
        for row in changes.rows:
            cells = [row["query"], row["category"], changes.value(row), row["text"]]
            lines.append("  ".join(_texts.visible(each) for each in cells if each))
            lines += [f"  {name:9}  {docs}" for name, docs in changes.documents(row).items()]
        parts.append("\n".join(_cut(line, _WIDTH) for line in lines))
    return "\n\n".join(parts)


def _rules(gate: Outcome) -> list[list[str]]:
    """Return the cells of the rules that do not pass."""
    failed = gate.verdicts.filter(col("verdict") != "pass")
    categories = [
        _cut((where or "").removeprefix("category=") or ALL, _CATEGORY) for where in failed["where"]
    ]
    width = _RULE + _CATEGORY - max(map(_width, ["category", *categories]))
    cells = []
    for category, row in zip(categories, failed.head(_RULES).iter_rows(named=True), strict=False):
        interval = "" if row["low"] is None else f"[{row['low']:.3f}, {row['high']:.3f}]"
        cells.append([_cut(row["rule"], width), category, _number(row["value"]), interval])
    if failed.height > _RULES:
        cells.append([f"and {failed.height - _RULES} more", "", "", ""])
    return [["failed rule", "category", "value", "interval"], *cells] if cells else []


def _means(table: pl.DataFrame) -> Iterator[list[list[str]]]:
    """Yield tables of means and differences, each with as many metrics as fit."""
    names = [name for name in table.columns[2:] if not name.startswith("difference(")]
    categories = [_cut(each, _CATEGORY) for each in table["category"]]
    space = _WIDTH - max(map(_width, ["category", *categories])) - len("  queries")
    widths = [
        2 + max(len(name.rpartition("@")[0]), len(name.rpartition("@")[2]) + 1, 6) for name in names
    ]
    first = 0
    while first < len(names):
        last = first + 1
        while last < len(names) and sum(widths[first : last + 1]) <= space:
            last += 1
        yield [*_block(table, categories, names[first:last])]
        first = last


def _block(
    table: pl.DataFrame, categories: Sequence[str], names: Sequence[str]
) -> Iterator[list[str]]:
    """Yield the rows of a table: names, cutoffs, and means above differences other than 0."""
    heads = [name.rpartition("@") if "@" in name else ("", "", name) for name in names]
    if any(metric for metric, _, _ in heads):
        yield ["", "", *(_cut(metric, _ID) for metric, _, _ in heads)]
    yield ["category", "queries", *(_cut(at + cutoff, _ID) for _, at, cutoff in heads)]
    for category, row in zip(categories, table.iter_rows(named=True), strict=True):
        means = [_number(row[name]) for name in names]
        changes = [row.get(f"difference({name})") for name in names]
        if any(means):
            yield [category, f"{row['queries']:,}", *means]
        if any(changes):
            yield ["", "", *(f"{each:+.3f}" if each else "" for each in changes)]


class Changes(NamedTuple):
    """The queries that lost most, or without a baseline those with the lowest values."""

    title: str
    metric: str
    rows: list[dict[str, Any]]
    is_compared: bool

    @classmethod
    def of(cls, gate: Outcome) -> Changes | None:
        """Return the queries of the first rule that fails, or those that lost most."""
        table, metrics = gate.queries, gate.metrics
        failed = gate.verdicts.filter(verdict="fail")
        metric, category = main_metric(metrics), None
        for row in failed.head(1).iter_rows(named=True):
            metric = max((name for name in metrics if name in row["rule"]), key=len, default=metric)
            category = (row["where"] or "").partition("category=")[2] or None
        if category is not None:
            table = table.filter(category=category)
        sign = -1 if lower_is_better(metric) else 1
        if metric + BEFORE in table.columns:
            loss = (col(metric + BEFORE) - col(metric)) * sign
            lost = table.filter(loss > 0).sort(loss, "query", descending=[True, False])
            if lost.height:
                rows = lost.head(_QUERIES).to_dicts()
                return cls(f"Queries that lost most in {metric}", metric, rows, is_compared=True)
        if failed.is_empty():
            return None
        low = table.drop_nulls(metric).sort(col(metric) * sign, "query").head(_QUERIES)
        low = low.filter(col(metric) < 1) if sign > 0 else low
        if low.is_empty():
            return None
        title = f"Queries with the {'lowest' if sign > 0 else 'highest'} {metric}"
        return cls(title, metric, low.to_dicts(), is_compared=False)

    def value(self, row: dict[str, Any]) -> str:
        """Return the values of a query before and after."""
        now = _number(row[self.metric])
        return f"{_number(row[self.metric + BEFORE])} -> {now}" if self.is_compared else now

    def documents(self, row: dict[str, Any]) -> dict[str, str]:
        """Return the documents of a query; * marks the relevant ones."""
        relevant = {*row["relevant"]}

        def marked(docs: Sequence[str]) -> str:
            texts = ["*" * (doc in relevant) + _cut(doc, _ID) for doc in docs]
            return " ".join(texts) or "nothing"

        if self.is_compared:
            return {"before": marked(row["docs" + BEFORE] or []), "after": marked(row["docs"])}
        return {
            "relevant": " ".join(_cut(doc, _ID) for doc in row["relevant"]) or "nothing",
            "retrieved": marked(row["docs"]),
        }


def markdown(gate: Outcome) -> str:
    """Return a comment for a pull request."""
    lines = [f"### Retrieval gate: {headline(gate)}", ""]
    lines += [f"- {_texts.markdown(each)}" for each in gate.notes]
    lines += [f"- Warning: {_texts.markdown(each)}" for each in gate.warnings]
    failed = gate.verdicts.filter(col("verdict") != "pass")
    passed = gate.verdicts.filter(verdict="pass")
    lines += ["", verdicts.markdown(failed)] if failed.height else []
    lines += ["", _markdown_table(gate.table)]
    if (changes := Changes.of(gate)) is not None:
        lines += ["", f"{_texts.markdown(changes.title)}:", ""]
        for row in changes.rows:
            docs = (
                f"{name} {_texts.markdown(text)}" for name, text in changes.documents(row).items()
            )
            texts = [f"{_texts.markdown(row['query'])}: {changes.value(row)}", *docs]
            lines.append("- " + "<br>".join(texts))
    if passed.height:
        summary = f"<details><summary>{number_of(passed.height, 'rule')} passed</summary>"
        lines += ["", summary, "", verdicts.markdown(passed), "</details>"]
    return "\n".join(lines) + "\n"


def _markdown_table(table: pl.DataFrame) -> str:
    names = [name for name in table.columns[2:] if not name.startswith("difference(")]
    lines = [
        "| category | queries | " + " | ".join(map(_texts.markdown, names)) + " |",
        "| --- |" + " ---: |" * (len(names) + 1),
    ]
    for row in table.iter_rows(named=True):
        cells = [_texts.markdown(row["category"]), f"{row['queries']:,}"]
        for name in names:
            difference = row.get(f"difference({name})")
            cells.append(
                _number(row[name]) + ("" if difference is None else f" ({difference:+.3f})")
            )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def html(gate: Outcome) -> str:
    """Return HTML for notebooks."""
    notes = "".join(f"<li>{escape(each)}</li>" for each in [*gate.notes, *gate.warnings])
    tables = "".join(each._repr_html_() for each in (gate.verdicts, gate.table))
    return f"<p><b>{headline(gate)}</b></p><ul>{notes}</ul>{tables}"


def as_json(gate: Outcome) -> str:
    """Return all tables as JSON."""
    tables = {name: getattr(gate, name).to_dicts() for name in ("verdicts", "table", "queries")}
    found = {
        FORMAT_VERSION: GATE_JSON, "passed": gate.passed, "robustness": gate.robustness,
        "notes": gate.notes, "warnings": gate.warnings, **tables,
    }  # fmt: skip
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def junit(gate: Outcome) -> str:
    """Return JUnit XML."""
    return "<testsuites />\n" if gate.verdicts.is_empty() else verdicts.junit(gate.verdicts, "pass")


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def _width(text: str) -> int:
    return sum(1 + (east_asian_width(each) in "WF") for each in text)


def _cut(text: str, width: int) -> str:
    """Return visible text, cut off at a width."""
    text = _texts.visible(text)
    if _width(text) <= width:
        return text
    while _width(text) > width - 1:
        text = text[: max(len(text) - max((_width(text) - width) // 2, 1), 0)]
    return text + "…"


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield lines of aligned cells; columns of numbers are right-aligned."""
    columns = [*zip(*rows, strict=True)]
    widths = [max(map(_width, cells)) for cells in columns]
    numeric = [
        all(not cell or cell[0] in "+-.0123456789" for cell in cells[2:]) and any(cells[2:])
        for cells in columns
    ]
    for row in rows:
        cells = [
            " " * (width - _width(cell)) + cell
            if is_number
            else cell + " " * (width - _width(cell))
            for cell, width, is_number in zip(row, widths, numeric, strict=True)
        ]
        yield "  ".join(cells).rstrip()
