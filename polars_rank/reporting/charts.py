"""The charts of a report as Vega-Lite specifications by kind, metric and run."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank import plot
from polars_rank._texts import displayed
from polars_rank.errors import DataError
from polars_rank.frames.tables import collected
from polars_rank.metrics.names import output_name
from polars_rank.plot.cutoff_curves import by_cutoff
from polars_rank.plot.drawing import HEIGHT, confidence_text, config
from polars_rank.plot.run_styles import MAX_RUNS, PALETTE, groups, run_colors
from polars_rank.reporting.evidence import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

#: Maximum size of all charts in characters, and maximum number of runs.
_MAX_CHARACTERS, _MAX_RUNS = 2_000_000, 8
#: Maximum number of runs in one chart of distributions; more overlap too much.
_MAX_DISTRIBUTIONS = 3
_MAX_SLICES = 30

#: The kinds of charts in the order of the page → placeholder captions.
KINDS = {
    "differences": "Differences from the baseline by query",
    "cutoffs": "Means by cutoff",
    "distribution": "Distribution over queries",
    "slices": "Differences by slice",
}


def colors_of(evidence: Evidence, question: Question) -> dict[Any, str]:
    """Return the color of each run, the same in tables and charts."""
    if question.run is None:
        return {None: PALETTE[0]}
    return run_colors(evidence.runs[:MAX_RUNS], question.baseline)


def chart_context(evidence: Evidence, question: Question) -> dict[str, Any]:
    """Return the template variables of the charts of all metrics, up to the maximum size.

    The specifications are by kind, index of the metric, and index of the run; "" stands for all.
    """
    runs = [run for run in evidence.runs if run is not None or question.run is None]
    drawn_runs = runs[:_MAX_RUNS]
    values = question.of_runs(counted(evidence.values), drawn_runs)
    kinds: dict[str, dict[str, dict[str, Any]]] = {}
    metrics: list[str] = []
    size = 0
    for metric in question.metrics:
        if size > _MAX_CHARACTERS:
            break
        number = str(len(metrics))
        for kind, run, draw in _charts(evidence, question, values, drawn_runs, metric):
            spec = _specification(draw)
            if spec is not None:
                if kind != "slices":  # charts of a row have one height
                    spec["spec"]["height"] = HEIGHT
                kinds.setdefault(kind, {}).setdefault(number, {})[run] = spec
                size += len(json.dumps(spec))
        metrics.append(output_name(metric))
    missing = (len(question.metrics) - len(metrics), "metrics"), (len(runs[_MAX_RUNS:]), "runs")
    style = config()  # the style sheet of the page has the theme colors
    style["axis"] |= {"labelOverlap": True, "labelSeparation": 8}
    notes = ["Charts by query show a query once per group."] if evidence.repeated else []
    if question.weight is not None:
        notes.append("Charts by query, and their means, are without weights.")
    omitted = [f"{number} more {what}" for number, what in missing if number]
    return {
        "charts": {"config": style, "kinds": kinds},
        "kinds": [(kind, words) for kind, words in KINDS.items() if kind in kinds],
        "chart_metrics": metrics,
        "chart_runs": drawn_runs[1:],
        "charts_left_out": f"Without charts: {' and '.join(omitted)}." if omitted else "",
        "charts_note": " ".join(notes),
    }


def _charts(
    evidence: Evidence, question: Question, values: pl.LazyFrame, runs: list[Any], metric: Any
) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield the kind, run and drawing function of each chart of a metric."""
    name = output_name(metric)
    colors = colors_of(evidence, question) if question.run is not None else None
    options: dict[str, Any] = {"run": question.run, "colors": colors}
    of_slices = {**options, "n": _MAX_SLICES}
    options["baseline"] = question.baseline
    if evidence.curves is not None:
        yield "cutoffs", "", partial(_by_cutoff, evidence.curves, question, runs, name, colors)
    if len(runs) <= _MAX_DISTRIBUTIONS:
        yield "distribution", "", partial(plot.distribution, values, metric, **options)
    for number, run in enumerate(runs[1:]):
        if question.baseline is not None and question.slices:
            tables = [each for each in (evidence.comparison, evidence.slices) if each is not None]
            rows = question.of_runs(pl.concat(tables, how="diagonal").lazy(), [run])
            yield "slices", str(number), partial(plot.slices, rows, metric, **of_slices)
        pair = question.of_runs(values, [runs[0], run])
        if len(runs) > _MAX_DISTRIBUTIONS:
            draw = partial(plot.distribution, pair, metric, **options)
            yield "distribution", str(number), draw
        if question.baseline is not None:
            draw = partial(plot.differences, pair, metric, query=question.queries, **options)
            yield "differences", str(number), draw


def _by_cutoff(
    table: pl.DataFrame, question: Question, runs: list[Any], metric: str,
    colors: dict[Any, str] | None,
) -> Any:  # fmt: skip
    """Return the chart of the means of a metric by cutoff."""
    rows = collected(question.of_runs(table.lazy().filter(pl.col("metric") == metric), runs))
    points = rows.select(*groups(question.runs), "queries", "low", "high", x="k", y="mean")
    if points.get_column("x").n_unique() < 2:
        raise DataError("nothing to draw: fewer than two cutoffs")
    subtitle = [f"{confidence_text([question.confidence])} of the mean"]
    name = metric.partition("@")[0]
    return by_cutoff(points, name, subtitle, baseline=question.baseline, colors=colors)


def _specification(draw: Callable[[], Any]) -> dict[str, Any] | None:
    """Return a chart's specification, title and subtitle; None if there is nothing to draw."""
    try:
        # Validation is slow, and tests cover it.
        spec: dict[str, Any] = draw().to_dict(validate=False)
    except DataError:
        return None
    for name in ("$schema", "config"):
        spec.pop(name, None)
    title = spec.pop("title", {})
    spec["width"] = "container"
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return {
        "title": displayed(str(title.get("text", ""))),
        "subtitle": [displayed(str(line)) for line in title.get("subtitle", [])],
        "spec": json.loads(json.dumps(spec), parse_float=lambda text: float(f"{float(text):.5g}")),
    }
