"""The charts of a report, as Vega-Lite specifications by kind, metric and run."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank import plot
from polars_rank.errors import DataError
from polars_rank.metrics.names import output_name
from polars_rank.stats.pairs import is_run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

#: What all charts of a page may take, in characters, and how many runs they tell apart.
_MOST, _MANY_RUNS = 2_000_000, 8
_DIGITS = 5
_MANY_SLICES = 30

#: The kinds in the order in which they are shown, with what is said until they are drawn.
KINDS = {
    "differences": "Differences from the baseline, list by list",
    "distribution": "How the values are distributed",
    "cumulative": "The share of lists up to a value",
    "scatter": "Run against run, list by list",
    "slices": "Differences in slices",
}


@dataclass
class Pictures:
    """Specifications by kind, metric (its number) and run (its number, or "" for all)."""

    config: dict[str, Any]
    metrics: list[str]
    runs: list[Any]
    kinds: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    #: How many metrics and runs there is no chart of.
    other_metrics: int = 0
    other_runs: int = 0


def pictures(evidence: Evidence, question: Question) -> Pictures:
    """Draw the charts of all metrics, until they are too many for a page."""
    runs = [run for run in evidence.runs if run is not None or question.run is None]
    shown = runs[:_MANY_RUNS]
    made = Pictures(_config(), [], shown[1:] if len(shown) > 1 else [])
    made.other_runs = len(runs) - len(shown)
    lists = _of(evidence.lists, question, shown)
    size = 0
    for metric in question.metrics:
        if size > _MOST:
            break
        number = str(len(made.metrics))
        for kind, run, draw in _charts(evidence, question, lists, shown, output_name(metric)):
            spec = _drawn(draw)
            if spec is not None:
                made.kinds.setdefault(kind, {}).setdefault(number, {})[run] = spec
                size += len(json.dumps(spec))
        made.metrics.append(output_name(metric))
    made.other_metrics = len(question.metrics) - len(made.metrics)
    return made


def _config() -> dict[str, Any]:
    """Return the style of all charts; the page's own style sheet has the colours of both themes."""
    config = plot.style()
    return {**config, "axis": {**config["axis"], "labelOverlap": True, "labelSeparation": 8}}


def _of(lists: pl.LazyFrame, question: Question, runs: list[Any]) -> pl.LazyFrame:
    """Return the lists of some runs."""
    if question.run is None:
        return lists
    dtype = lists.collect_schema()[question.run]
    return lists.filter(
        pl.any_horizontal(pl.lit(value=False), *(is_run(question.run, dtype, run) for run in runs))
    )


def _charts(
    evidence: Evidence, question: Question, lists: pl.LazyFrame, runs: list[Any], metric: str
) -> Iterator[tuple[str, str, Callable[[], Any]]]:
    """Yield kind, run and what draws each chart of a metric."""
    several = question.run is not None
    colors = plot.run_colors(runs, baseline=question.baseline) if several else None
    named: dict[str, Any] = {"run": question.run, "baseline": question.baseline, "colors": colors}
    common: dict[str, Any] = {"undefined": question.undefined, "conventions": question.conventions}
    yield "distribution", "", partial(plot.distribution, lists, metric, **named, **common)
    cumulative = partial(plot.distribution, kind="ecdf")
    yield "cumulative", "", partial(cumulative, lists, metric, **named, **common)
    for number, run in enumerate(runs[1:]):
        pair = _of(lists, question, [runs[0], run])
        options = {"query": question.queries, **common}
        both = {"x": runs[0], "y": run, "run": question.run, "colors": colors}
        yield "scatter", str(number), partial(plot.scatter, pair, metric, **both, **options)
        if question.baseline is None:
            continue
        yield (
            "differences",
            str(number),
            partial(plot.differences, pair, metric, **named, **options),
        )
        if evidence.slices is not None:
            of_metric = evidence.slices.filter(pl.col("metric") == metric).lazy()
            sliced = _of(of_metric, question, [run])
            alone = {**named, "baseline": None}
            yield "slices", str(number), partial(plot.slices, sliced, most=_MANY_SLICES, **alone)


def _drawn(draw: Callable[[], Any]) -> dict[str, Any] | None:
    """Return a chart's specification with its words apart; None where there is nothing to draw."""
    try:
        spec: dict[str, Any] = draw().to_dict(validate=False)  # that is tested, and slow
    except DataError:
        return None
    for name in ("$schema", "config"):
        spec.pop(name, None)
    title = spec.pop("title", {})
    spec["width"] = "container"
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return {
        "title": str(title.get("text", "")),
        "told": [str(line) for line in title.get("subtitle", [])],
        "spec": _rounded(spec),
    }


def _rounded(value: Any) -> Any:
    """Return the same with numbers as exact as a picture can show."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return value


def shown(made: Pictures) -> dict[str, Any]:
    """Return what the templates show of the charts."""
    left = []
    if made.other_metrics:
        left.append(f"{made.other_metrics} more metrics")
    if made.other_runs:
        left.append(f"{made.other_runs} more runs")
    return {
        "charts": {"config": made.config, "kinds": made.kinds},
        "kinds": [(kind, words) for kind, words in KINDS.items() if kind in made.kinds],
        "chart_metrics": made.metrics,
        "chart_runs": made.runs,
        "charts_left_out": f"Without charts: {' and '.join(left)}." if left else "",
    }
