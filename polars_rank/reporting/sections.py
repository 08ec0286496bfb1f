"""Template variables of a report: the headline, and rows of tables in the order of the page.

Also, sentences about what affects the means and the headline, or contradicts the headline.
"""

from __future__ import annotations

import math
import platform
from collections import Counter
from importlib.metadata import version
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.conventions import POLARS_RANK, preset_of
from polars_rank.definitions import TEXTS
from polars_rank.errors import number_of
from polars_rank.explanation import explain
from polars_rank.frames.tables import collected
from polars_rank.metrics import incomplete_judgments
from polars_rank.metrics.analyses import reads_labels
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import direction_note, lower_is_better, output_name
from polars_rank.plot.run_styles import NEUTRAL
from polars_rank.reporting.charts import colors_of
from polars_rank.reporting.csv_links import csv_link
from polars_rank.reporting.evidence import JUDGED, number_of_clusters, ranked
from polars_rank.reporting.page_formats import count, listed, percent, text, whole_text
from polars_rank.reporting.question import names_of
from polars_rank.stats.verdict_files import WORST_FIRST, failing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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

#: Share of the first documents that must be judged for a headline.
_FEWEST = 0.5
#: The number of the compared runs that have a query.
_RUNS = OWN + "runs"
#: Kinds of choices in sentences.
_WORDS = {"unjudged": "unjudged documents", "undefined": "undefined values"}

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


class RunPair(NamedTuple):
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


def headline_context(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return the template variables of the headline, about the first metric.

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
    return {
        "headline": {
            "metric": metric, "lower": lower, "direction": direction_note(question.first),
            # The number of comparisons for which p-values and intervals are corrected.
            "tests": tests, "comparison": first, "others": comparisons[1:], "means": means,
        },
        "unjudged_reason": _unjudged_reason(evidence, question, first),
        "sample": _sample(evidence, question, first, means),
        "but": [] if first is None else _contradictions(evidence, question, first),
        "robustness": None if first is None else _robustness_text(evidence, question, first),
    }  # fmt: skip


def _sample(
    evidence: Evidence, question: Question, first: RunPair | None, means: Sequence[Row]
) -> str | None:
    """Return the size of the sample of the headline, such as "840 queries in 60 clusters (user)".

    The sample is that of the queries that all compared runs have; None if there is none.
    """
    if first is None and not means:
        return None
    row = means[0] if first is None else first.row
    runs = [None if question.run is None else row[question.run]] if first is None else first.runs
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


def _robustness_text(evidence: Evidence, question: Question, comparison: RunPair) -> str | None:
    """Return what becomes of the verdict of a headline under other choices, in words."""
    table = evidence.robustness
    if table is None:
        return None
    rows = table.filter(pl.col(str(question.run)).eq_missing(pl.lit(comparison.run)))
    word, _, reasons = rows.item(0, "headline").partition(": ")
    rows = rows.drop_nulls("changes")
    choices = pl.col("choice").replace(_WORDS).unique(maintain_order=True)
    changed, every = (
        listed(part.select(choices).to_series().to_list())
        for part in (rows.filter("changes"), rows[1:])
    )
    others = number_of(rows.height - 1, "other choice")
    return {
        "broken": f"A run looks broken: {reasons}.",
        "depends on": f"The verdict depends on {changed} ({others} tried).",
        "holds": f"The verdict holds with {others} of {every}.",
        "unclear": f"The verdict remains unclear with {others} of {every}.",
    }[word]


def _unjudged_reason(evidence: Evidence, question: Question, first: RunPair | None) -> str | None:
    """Return why there is no headline, if few of the documents that it is about are judged.

    Without irrelevant labels, documents without a label are those without a purchase or click.
    """
    leaves = question.first.leaves if isinstance(question.first, Metric) else []
    # Metrics that are made for incomplete judgments have values for them.
    is_robust = any(each.function.__name__ in incomplete_judgments.__all__ for each in leaves)
    if not reads_labels(tree_of(question.first)) or is_robust or evidence.only_relevant:
        return None
    values = evidence.values
    if first is not None:
        values = question.of_runs(values, first.runs)
    share = collected(values.select(pl.col(JUDGED).mean())).item()
    if share is None or share >= _FEWEST:
        return None
    documents = "documents" if question.depth == 1 else f"{question.depth} documents"
    return (
        f"{percent(share)} of the first {documents} are judged, and the others count as "
        f"not relevant, so {output_name(question.first)} says more about the judgments than about "
        "the rankings. Judge these documents, or use a metric for incomplete judgments, such as "
        "bpref."
    )


def _cautions(evidence: Evidence, question: Question) -> Iterator[str]:
    """Yield cautions about differences between the queries of runs, and about rows.

    Rows may be unjudged, tied or duplicate.
    """
    contents, conventions = evidence.contents, question.conventions
    compared, lengths = evidence.comparison, contents.get_column("rankings")
    has_missing = compared is not None and compared.get_column("missing").max()
    if has_missing or (question.run is not None and lengths.n_unique() > 1):
        yield (
            "Runs were evaluated on different queries. Comparisons use the queries of both runs, "
            "means all queries of each run."
        )
    totals = contents.select("unjudged", "not_retrieved", "rows").sum().row(0, named=True)
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
            f"documents: {TEXTS['ties'][rule]}."
        )
    if duplicates := sum(contents.get_column("repeated")) if "repeated" in contents.columns else 0:
        is_first = conventions.of(question.first).duplicates == "first"
        yield (
            f"{count(duplicates)} of {number_of(totals['rows'], 'row')} had a document that was "
            "already in the ranking; of such rows, the "
            f"{'first one' if is_first else 'one with the highest score'} was kept."
        )


def _contradictions(evidence: Evidence, question: Question, comparison: RunPair) -> list[str]:
    """Return sentences about what contradicts the comparison of a headline.

    These are significant differences of the same runs in the other direction, or in any direction
    if the headline is undecided.
    """
    run, others = str(question.run), {"better", "worse"} - {comparison.verdict}
    found: dict[tuple[str, str], list[str]] = {}
    for table in (evidence.comparison, evidence.groups, evidence.slices):
        for row in [] if table is None else table.rows(named=True):
            runs = [row[run], row.get("baseline", comparison.other)]
            if runs == comparison.runs and row.get("verdict") in others:
                part = {name: row[name] for name in question.by if name in row}
                part = {row["slice"]: row["value"]} if "slice" in row else part
                where = ", ".join(f"{name}={text(value)}" for name, value in part.items())
                found.setdefault((row["verdict"], where), []).append(row["metric"])
    parts: dict[tuple[str, str], list[str]] = {}
    for (verdict, where), metrics in found.items():
        # If a metric is worse over all queries, its parts say no more.
        whole = found.get((verdict, ""), []) if where else []
        if names := ", ".join(metric for metric in metrics if metric not in whole):
            parts.setdefault((verdict, names), []).append(where)
    return [
        f"{'Over all queries' if named == [''] else f'In {listed(named)}'}, "
        f"{text(comparison.run)} is {verdict} ({names})."
        for (verdict, names), named in parts.items()
    ]


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
        "cautions": [*_cautions(evidence, question)],
        "label_names": labels,
        "labels": shares,
    }


def _method(question: Question) -> dict[str, Any]:
    by, cluster = tuple(question.by), tuple(question.cluster)
    weight = () if question.weight is None else (question.weight,)
    roles = {**question.columns.roles, "by": by, "weight": weight, "cluster": cluster}
    conventions, name = question.conventions, question.conventions.name
    is_changed = conventions != (preset_of(name) or POLARS_RANK)
    return {
        "roles": [
            (role, "(an expression)" if named[0].startswith(OWN) else ", ".join(named))
            for role, named in roles.items()
            if named
        ],
        "conventions": f"{name}, with changes" if is_changed else name,
        "explained": [*_definitions(question)],
        "versions": {each: version(each) for each in _PACKAGES}
        | {"Python": platform.python_version()},
    }


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
