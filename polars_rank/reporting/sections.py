"""Template variables of a report: rows of tables in the order of the page."""

from __future__ import annotations

import math
import platform
from collections import Counter
from dataclasses import fields
from importlib.metadata import version
from itertools import groupby
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.conventions import POLARS_RANK, Conventions, preset_of
from polars_rank.errors import short
from polars_rank.explanation import explain
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.plot.run_styles import NEUTRAL
from polars_rank.reporting.charts import colors_of
from polars_rank.reporting.csv_links import csv_link
from polars_rank.reporting.formats import percent, whole_text
from polars_rank.reporting.headline import cautions, headline_context
from polars_rank.reporting.question import names_of
from polars_rank.stats.verdict_files import WORST_FIRST, failing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

#: Maximum rows of slices, groups and verdicts, and columns of labels, of a page.
_SLICES, _GROUPS, _VERDICTS, _LABELS = 2_000, 1_000, 300, 12
#: Margin at both ends of a cell with an interval, in percent.
_MARGIN = 6.0
#: Approximate number of ticks of an axis, and maximum number of characters of their labels, each
#: with a space after it.
_TICKS, _CHARACTERS = 5, 28
#: Verdicts in the order of sorted tables.
_ORDER = ("better", "unclear", "too few", "worse")
_PACKAGES = ("polars_rank", "polars", "altair", "scipy")

Row = dict[str, Any]


def context(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return the template variables of the tables."""
    counts = evidence.contents.select("rows", "rankings").sum().row(0, named=True)
    gates = _verdicts(evidence.verdicts, question)
    by_group = evidence.groups
    groups = [] if by_group is None else _rows(by_group.head(_GROUPS), question, "mean")
    tables = {
        "means": evidence.summary, "comparison": evidence.comparison, "gates": evidence.verdicts,
        "groups": by_group, "slices": evidence.slices, "contents": evidence.contents,
        "labels": evidence.labels,
    }  # fmt: skip
    return {
        "q": question,
        **headline_context(evidence, question),
        "only_relevant": evidence.only_relevant,
        "level": percent(question.confidence).replace(".0", ""),
        **counts,
        **_means(evidence, question),
        "comparison": _rows(evidence.comparison, question, "difference"),
        "counted": "Rankings" if evidence.repeated else "Queries",
        "groups": groups,
        "groups_hidden": 0 if by_group is None else by_group.height - len(groups),
        **_slices(evidence, question),
        "gates": gates,
        **_changes(evidence, question),
        **_data(evidence, question),
        "csv_links": {key: csv_link(t.head(_SLICES)) for key, t in tables.items() if t is not None},
        **_method(question),
    }


def _rows(table: pl.DataFrame | None, question: Question, value: str) -> list[Row]:
    """Return the rows of a table in the order of `metrics`, with positions of their bars.

    The groups of a metric, and the runs of a group, are in the order of the table, with the
    baseline first.
    """
    if table is None:
        return []
    table_rows = [_row(row, question) for row in table.iter_rows(named=True)]
    order = names_of(question.metrics)
    groups = {whole_text(row["group"]): None for row in table_rows}
    places = {group: place for place, group in enumerate(groups)}
    table_rows.sort(
        key=lambda row: (
            order.index(row["metric"]), places[whole_text(row["group"])], not row["is_baseline"]
        )
    )  # fmt: skip
    for _, items in groupby(table_rows, key=lambda row: row["metric"]):
        rows = [*items]
        # The values at the ends of a cell; it contains all intervals, and 0 of differences.
        ends = [row.get(name) for row in rows for name in (value, "low", "high")]
        finite = [end for end in ends if end is not None and math.isfinite(end)]
        finite += [0.0] if value == "difference" else []
        low, high = min(finite, default=0.0), max(finite, default=0.0)
        marks = ticks(low, high)
        for index, row in enumerate(rows):
            row.update(place=_place(row, value, low, high), first=not index, ticks=marks)
    return table_rows


def _place(row: Row, value: str, low: float, high: float) -> dict[str, float] | None:
    """Return the positions of an interval, its value and 0, in percent of a cell.

    A position outside of the cell is below 0 or above 100. There is none without a value.
    """
    at = row[value]
    if at is None or high <= low:
        return None
    places = {"low": row.get("low"), "high": row.get("high"), "at": at, "zero": 0.0}
    return {key: _percent(at if each is None else each, low, high) for key, each in places.items()}


def _percent(value: float, low: float, high: float) -> float:
    inside = min(max((value - low) / (high - low), -1.0), 2.0)
    return round(_MARGIN + (100 - 2 * _MARGIN) * inside, 2)


def ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return the positions and labels of a few round values between the ends of a cell.

    Examples
    --------
    >>> from polars_rank.reporting.sections import ticks
    >>> [label for _, label in ticks(-0.013, 0.052)]
    ['0.00', '0.02', '0.04']
    """
    if high <= low:
        return []
    power = math.floor(math.log10((high - low) / _TICKS))
    found: list[tuple[float, str]] = []
    for step in (factor * 10.0**power for factor in (1, 2, 5, 10)):
        numbers = range(math.ceil(low / step), math.floor(high / step) + 1)
        digits = max(0, -math.floor(math.log10(step)))
        labels = [f"{n * step:,.{digits}f}".replace("-", "\N{MINUS SIGN}") for n in numbers]
        found = [
            (_percent(n * step, low, high), label) for n, label in zip(numbers, labels, strict=True)
        ]
        if sum(len(label) + 1 for label in labels) <= _CHARACTERS:
            break
    return found


def _means(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return the runs, the means by metric and run, and their rows."""
    rows = _rows(evidence.summary, question, "mean")
    colors = colors_of(evidence, question)
    metrics = []
    for name, items in groupby(rows, key=lambda row: row["metric"]):
        of_metric = [*items]
        by_run = {row["run"]: row for row in of_metric}
        cells = [by_run.get(run) for run in evidence.runs]
        metrics.append({"name": name, "cells": cells, "ticks": of_metric[-1]["ticks"]})
    runs = [{"name": run, "color": colors.get(run, NEUTRAL)} for run in evidence.runs]
    return {"means": rows, "metrics": metrics, "runs": runs}


def _row(row: Mapping[str, Any], question: Question) -> Row:
    """Return a row with its run in the key "run", and the result of its comparison."""
    run = None if question.run is None else row.get(question.run)
    result = {**row, "run": run, "group": {name: row.get(name) for name in question.by}}
    result["is_baseline"] = question.baseline is not None and run == question.baseline
    if row.get("verdict") is not None:
        result["order"] = _ORDER.index(row["verdict"])
    return result


def _slices(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return the slices; if there are too many, those with the largest weights."""
    table = evidence.slices
    if table is None:
        return {"slices": []}
    compared = "contribution" in table.columns
    weight = pl.col("contribution").abs() if compared else pl.col("queries")
    shown = table.filter(weight.fill_null(-1).rank("ordinal", descending=True) <= _SLICES)
    rows = _rows(shown, question, "difference" if compared else "mean")
    return {
        "slices": rows,
        "slices_hidden": table.height - len(rows),
        "slice_runs": [*dict.fromkeys(row["run"] for row in rows)],
    }


def _verdicts(table: pl.DataFrame | None, question: Question) -> dict[str, Any]:
    """Return the verdicts by rule, failures first, and their counts."""
    if table is None:
        return {}
    failures = failing(question.undecided)
    # If there are too many, failures take precedence: they come first.
    ordered = sorted(table.rows(named=True), key=lambda row: WORST_FIRST.index(row["verdict"]))
    rules: dict[str, Row] = {}
    for number, row in enumerate(ordered):
        text, is_failure = row["rule"], row["verdict"] in failures
        new = {"text": text, "checks": 0, "failures": 0, "failed": [], "passed": []}
        rule = rules.setdefault(text, new)
        rule["checks"] += 1
        rule["failures"] += is_failure
        if number < _VERDICTS:
            rule["failed" if is_failure else "passed"].append(row)
    return {
        **dict.fromkeys(WORST_FIRST, 0),
        **Counter(row["verdict"] for row in ordered),
        "all": len(ordered),
        "rules": [*rules.values()],
        "failures": sum(rule["failures"] for rule in rules.values()),
        "failed_rules": sum(rule["failures"] > 0 for rule in rules.values()),
        "failed_shown": sum(len(rule["failed"]) for rule in rules.values()),
        "hidden": max(0, len(ordered) - _VERDICTS),
    }


def _changes(evidence: Evidence, question: Question) -> dict[str, Any]:
    compared = question.baseline is not None
    kinds = ("largest losses", "largest gains") if compared else ("worst", "best")
    items = groupby(evidence.moved, key=lambda each: (each["run"], each["good"]))
    parts = [
        {"run": run, "kind": kinds[good], "open": not number, "changes": [*changes]}
        for number, ((run, good), changes) in enumerate(items)
    ]
    hidden = len(evidence.runs) - compared - len({part["run"] for part in parts})
    return {"moved_parts": parts, "moved_hidden": hidden if parts else 0}


def _data(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return statistics of the log by run, and the share of each label."""
    table_rows = [_row(row, question) for row in evidence.contents.iter_rows(named=True)]
    labels = evidence.labels.get_column("label").unique().sort(nulls_last=True).to_list()
    counts = {
        (row.get(str(question.run)), row["label"]): row["rows"]
        for row in evidence.labels.iter_rows(named=True)
    }
    shares = []
    for row in table_rows if 0 < len(labels) <= _LABELS else []:
        of_run = [counts.get((row["run"], label), 0) for label in labels]
        shares.append((row["run"], [rows / (sum(of_run) or 1) for rows in of_run]))
    return {
        "contents": table_rows,
        "cautions": [*cautions(evidence, question)],
        "label_names": labels,
        "labels": shares,
    }


def _method(question: Question) -> dict[str, Any]:
    by, cluster = tuple(question.by), tuple(question.cluster)
    weight = () if question.weight is None else (question.weight,)
    roles = {**question.columns.roles, "by": by, "weight": weight, "cluster": cluster}
    return {
        "roles": [
            (role, "(an expression)" if named[0].startswith(OWN) else ", ".join(named))
            for role, named in roles.items()
            if named
        ],
        "conventions": _conventions(question.conventions),
        "explained": [*_definitions(question)],
        "versions": {each: version(each) for each in _PACKAGES}
        | {"Python": platform.python_version()},
    }


def _conventions(conventions: Conventions) -> str:
    """Return the name of conventions, and how they differ from the preset with this name."""
    name = conventions.name
    preset = preset_of(name) or POLARS_RANK
    changes = [
        f"{each.name}={short(getattr(conventions, each.name))}"
        for each in fields(conventions)
        if each.name != "name" and getattr(conventions, each.name) != getattr(preset, each.name)
    ]
    named = f"{name} defaults" if name == POLARS_RANK.name else name
    return f"{named}, with {', '.join(changes)}" if changes else named


def _definitions(question: Question) -> Iterator[Row]:
    """Return the definition of each metric in words; for expressions, their code."""
    for metric in question.metrics:
        if not isinstance(metric, Metric) or metric.parts or metric.definition is None:
            yield {"name": output_name(metric), "lines": [], "expression": str(metric)}
            continue
        lines = explain(metric, question.conventions).splitlines()[1:]
        yield {
            "name": output_name(metric),
            "lines": [line.removeprefix("- ").partition(": ")[::2] for line in lines],
        }
