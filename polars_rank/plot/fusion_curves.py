"""Means of a fusion by the weights of its runs."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import public
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.fusion.parameters import read_fusion
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import NEUTRAL, PALETTE, harmless, labeled
from polars_rank.plot.statistics_tables import result

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

    from polars_rank.fusion.parameters import Fusion

_COLUMNS = ("candidate", "metric", "mean", "low", "high", "queries", "method")
_OF_TUNING = ("procedure", "metric", "mean", "difference", "method")
#: Maximum number of candidates of a dot plot, and the pixels of each.
_MAX_ROWS, _STEP = 40, 16


@public
def fusion(curve: Any, tuning: Any = None) -> alt.LayerChart:
    """Draw the mean of a fusion by the weights of its runs.

    The highest point is too high, because it was chosen after its mean was known. With `tuning`,
    the chart also has the mean of the tuned fusion on held-out queries.

    Examples
    --------
    >>> runs = pr.datasets.search_log(200)
    >>> method = "sum(normalize='min_max')"
    >>> curve = pr.tune_fusion(runs, "ndcg@10", method, curve=True)
    >>> tuning = pr.tune_fusion(runs, "ndcg@10", method)
    >>> chart = pr.plot.fusion(curve, tuning)
    >>> chart.save("fusion.png")  # doctest: +SKIP

    Parameters
    ----------
    curve
        The table that `tune_fusion` returns with `curve=True`, of one group.
    tuning
        The table that `tune_fusion` returns for the same runs; None to draw the curve only.

    Returns
    -------
    altair.LayerChart
        For weights of two runs, a line with a band from `low` to `high`, by the weight of the run
        that is last by name. Otherwise, one point with an interval per candidate, the highest mean
        first, for at most 40 candidates. With `tuning`, a dashed line at the held-out mean of
        "tuned", and a dotted line at the mean of the best single run.

    Raises
    ------
    ArgumentError
        If a table has several groups, or the tables are about different metrics.
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    rows = _rows(curve, "curve", "candidate", _COLUMNS, "pr.tune_fusion(curve=True)")
    metric = rows.get_column("metric")[0] if rows.height else None
    rows = draw.non_empty(rows.rename({"mean": "y"}).drop_nulls("y"), "y", "candidates")
    levels = _levels(tuning, metric)
    methods = [read_fusion(text) for text in rows.get_column("method")]
    labels = [harmless(label) for label in _labels(methods)]
    weights = _weights_of_two(methods)
    data, runs = labeled(rows.drop("metric", "method").with_columns(label=pl.Series(labels)))
    notes = [f"{draw.counted(data.get_column('queries'))}, none held out"]
    tips = draw.tooltip(
        ("label", "candidate"), ("y", "mean", ".4f"), ("low", "low", ".4f"),
        ("high", "high", ".4f"), ("queries", "queries", ",d"),
    )  # fmt: skip
    if weights is None:
        omitted = data.height - _MAX_ROWS
        data = data.sort("y", descending=True, maintain_order=True).head(_MAX_ROWS)
        notes += [f"{_MAX_ROWS} of {data.height + omitted:,} candidates"] if omitted > 0 else []
        notes.append("lines: confidence intervals")
        x = _scale(data, metric, levels, "X")
        layers, height = [*_rules(levels, x, "X"), *_dots(data, x, tips)], _STEP * data.height
    else:
        data = data.with_columns(x=pl.Series(weights, dtype=pl.Float64)).sort("x")
        run = [*(methods[0].weights or ())][-1]
        notes.append("band: confidence intervals")
        x = draw.axis("X", "x", f"weight of {run}", format="~g", scale={"domain": [0, 1]})
        y = _scale(data, metric, levels, "Y")
        layers = [*_rules(levels, y, "Y"), *draw.lines(data, runs, x, y, tips)]
        height = draw.HEIGHT
    lines = (f"{each.style}: {each.text}, {each.mean:.4f}" for each in levels)
    what = "candidate" if weights is None else "weights"
    title = f"{draw.metric_title(str(metric))} by {what} of a fusion"
    subtitle = [" · ".join(notes), " · ".join(lines)]
    return draw.layered(data, layers, title=title, height=height, subtitle=subtitle)


class _Level(NamedTuple):
    """A mean that is drawn as a line."""

    text: str
    style: str
    mean: float
    dash: Sequence[int]


def _rows(
    table: Any, parameter: str, key: str, columns: Sequence[str], function: str
) -> pl.DataFrame:
    """Return the columns of a table; raise `ArgumentError` if it has several groups."""
    frame = lazy(table, parameter)
    schema = schema_of(frame)
    rows = collected(result(frame, columns, function, parameter))
    if rows.get_column(key).is_duplicated().any():
        others = list(itertools.takewhile(lambda name: name != "metric", schema))
        raise ArgumentError(
            f"`{parameter}` has several rows for one {key}; filter the table to one value of "
            f"{others}"
        )
    return rows.select(columns)


def _levels(tuning: Any, metric: str | None) -> list[_Level]:
    """Return the means of the tuned fusion and of the best single run."""
    if tuning is None:
        return []
    rows = _rows(tuning, "tuning", "procedure", _OF_TUNING, "pr.tune_fusion")
    metrics = rows.get_column("metric").unique().to_list()
    if metrics != [metric]:
        raise ArgumentError(
            f"`curve` and `tuning` must be about the same metric; found {metric!r} and {metrics}"
        )
    tuned = rows.filter(pl.col("procedure") == "tuned").get_column("mean")
    best = rows.filter(pl.col("difference", "method").is_null(), pl.col("mean").is_not_null())
    levels = [_Level("held-out mean", "dashed line", mean, [5, 3]) for mean in tuned]
    names = map(harmless, best.get_column("procedure"))
    return levels + [
        _Level(name, "dotted line", mean, [1, 3])
        for name, mean in zip(names, best.get_column("mean"), strict=True)
    ]


def _weights_of_two(methods: Sequence[Fusion]) -> list[float] | None:
    """Return the weights of the last run if the candidates are the weights of two runs."""
    unweighted = {replace(each, weights=None) for each in methods}
    weights = [each.weights or {} for each in methods]
    is_grid = len(methods) > 1 and len(unweighted) == 1 and all(
        len(each) == 2 and each.keys() == weights[0].keys() for each in weights
    )  # fmt: skip
    sums_are_1 = all(math.isclose(sum(of.values()), 1, rel_tol=1e-9) for of in weights)
    return [[*of.values()][-1] for of in weights] if is_grid and sums_are_1 else None


def _labels(methods: Sequence[Fusion]) -> list[str]:
    """Return a text for each candidate: its weights if only weights differ, else the method."""
    if len({replace(each, weights=None) for each in methods}) > 1:
        return [*map(str, methods)]
    return [
        ", ".join(f"{run} {weight:g}" for run, weight in each.weights.items())
        if each.weights
        else str(each)
        for each in methods
    ]


def _scale(data: pl.DataFrame, metric: str | None, levels: Sequence[_Level], kind: str) -> Any:
    """Return the axis of means, which has room for the lines."""
    means_of_lines = pl.DataFrame({"y": [each.mean for each in levels]}, {"y": pl.Float64})
    table = pl.concat([data.select("low", "y", "high"), means_of_lines], how="diagonal")
    return draw.means(str(metric), table, kind=kind)


def _rules(levels: Sequence[_Level], channel: Any, kind: str) -> list[Any]:
    tips = draw.tooltip(("name", "line"), ("y", "mean", ".4f"))
    return [
        draw.layer(
            "rule", {"strokeDash": [*each.dash], "strokeWidth": 2, "color": NEUTRAL},
            data=pl.DataFrame({"y": [each.mean], "name": [each.text]}),
            **{kind.lower(): channel}, tooltip=tips,
        )
        for each in levels
    ]  # fmt: skip


def _dots(data: pl.DataFrame, x: Any, tips: list[Any]) -> list[Any]:
    order = data.get_column("label").unique(maintain_order=True).to_list()
    y = draw.axis("Y", "label", None, type="nominal", sort=order, labelOverlap=False)
    low, rule = draw.with_field(x, "low"), {"strokeWidth": 2, "opacity": 0.6, "color": PALETTE[0]}
    point = {"filled": True, "opacity": 1, "size": 50, "color": PALETTE[0]}
    return [
        draw.layer("rule", rule, where=draw.HAS_INTERVAL, x=low, x2="high", y=y),
        draw.layer("point", point, x=x, y=y, tooltip=tips),
    ]
