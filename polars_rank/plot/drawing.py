"""Elements that all charts share: sizes, axes, titles, tooltips, lines.

Columns of charts have internal names, because Vega reads some characters of names as paths.
Axes, scales and legends are dictionaries, and channels have explicit classes and types: otherwise
Altair validates, copies and infers them at every step, which took most of the time of a report.
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError, RankError, missing_extra, number_of
from polars_rank.plot.run_styles import NEUTRAL, harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import altair as alt

    from polars_rank.plot.run_styles import Runs

#: Maximum number of rows of a chart, over all layers.
ROWS = 3_000
WIDTH, HEIGHT = 460, 280
#: Pixels of a character of a subtitle, in the widest fonts, and the sign between its parts.
_CHARACTER, _SEPARATOR = 6.5, " · "
#: Maximum number of points of a line that are drawn as marks.
_FEW = 40

#: Pixels between the intervals of runs at one point, and from the ends of an axis to its points.
_GAP, _MARGIN = 3, 9
#: Maximum number of runs with filled areas; more would hide each other.
FILLED = 2
#: Cutoffs are sparse if there are more than this many ranks per cutoff.
_SPARSE = 5
#: Maximum number of ticks of an axis of ranks, and the possible steps between them.
_TICKS = 14
_STEPS = [1, 5, *(number * 10**power for power in range(1, 10) for number in (1, 2, 5))]

#: Style of points under the pointer, of a line that is a step function, and of a dashed rule.
HOVER: Mapping[str, Any] = {"opacity": 0, "size": 60}
STEPS: Mapping[str, Any] = {"interpolate": "step-after", "strokeWidth": 2}
DASHED: Mapping[str, Any] = {"strokeDash": [4, 3], "color": NEUTRAL}
#: Whether a row has an interval.
HAS_INTERVAL = "isValid(datum.low) && isValid(datum.high)"
#: Fields of the tooltips of means.
INTERVAL = (("low", "low", ".4f"), ("high", "high", ".4f"), ("queries", "queries", ",d"))

#: Names of metrics as in titles.
_TITLES = {"average_precision": "AP", "reciprocal_rank": "RR"}
_ACRONYMS = frozenset(
    {"ap", "auc", "cg", "dcg", "err", "f1", "map", "mrr", "ndcg", "p", "r", "rbo", "rbp", "rr"}
)

_CELL, _KEPT = OWN + "cell", OWN + "kept"

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def altair(extra: str = "plot") -> Any:
    """Return the module altair; raise `MissingExtraError` where it is not installed."""
    if sys.flags.optimize > 1:
        raise RankError(
            "charts and reports do not work with python -OO, because Altair needs its docstrings; "
            "run Python without -OO"
        )
    try:
        import altair  # noqa: ICN001, PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise missing_extra(extra, error) from error
    return altair


def config() -> dict[str, Any]:
    """Return the Vega-Lite config of charts in reports."""
    text, quiet, line = "#1f2328", "#57606a", "#d0d7de"
    labels = {"labelColor": quiet, "titleColor": text, "labelFont": _FONT, "titleFont": _FONT}
    return {
        "background": "transparent",
        "font": _FONT,
        "axis": {**labels, "gridColor": line, "domainColor": quiet, "tickColor": quiet},
        "legend": labels,
        "title": {"color": text, "subtitleColor": quiet, "font": _FONT, "subtitleFont": _FONT},
        "view": {"stroke": None},
    }


def layered(
    data: pl.DataFrame,
    layers: Sequence[Any],
    *,
    title: str,
    subtitle: Iterable[str],
    height: float = HEIGHT,
    width: float = WIDTH,
) -> alt.LayerChart:
    """Return the layers as one chart with a title and subtitle."""
    title = harmless(title)
    subtitle_lines = [
        part for line in subtitle if line for part in _subtitle_lines(harmless(line), width)
    ]
    heading = {
        "text": title, "subtitle": subtitle_lines, "anchor": "start", "frame": "group",
        "fontSize": 14, "fontWeight": 600, "subtitleFontSize": 11, "subtitlePadding": 4,
        "offset": 12, "limit": width + 120,
    }  # fmt: skip
    # In a combined chart, each chart keeps its own colors and legend.
    own = dict.fromkeys(("color", "strokeDash", "shape", "opacity"), "independent")
    # Set everything in one call, because each method of a chart copies all of its layers.
    chart: alt.LayerChart = altair().LayerChart(
        data, [*layers], title=heading, width=width, height=height, view={"stroke": None},
        description=". ".join([title, *subtitle_lines]), resolve={"scale": own},
    )  # fmt: skip
    return chart


def layer(
    mark: str, style: Mapping[str, Any], *, data: Any = None, where: str = "", **channels: Any
) -> Any:
    """Return marks of the rows of the chart, or of other data, where a condition is true.

    The channels "x2" and "y2" are columns or numbers; "color" may be a color.
    """
    alt = altair()
    chart = alt.Chart() if data is None else alt.Chart(data)
    chart = chart.transform_filter(where) if where else chart
    for name, value in channels.items():
        if name in ("x2", "y2"):
            kind, is_column = name.upper(), isinstance(value, str)
            of_column, of_number = getattr(alt, kind), getattr(alt, f"{kind}Datum")
            channels[name] = of_column(field=value) if is_column else of_number(value)
        elif name == "color" and isinstance(value, str):
            channels[name] = alt.ColorValue(value)
    # Screen readers get the description of the chart, not thousands of points.
    return getattr(chart, f"mark_{mark}")(**style, aria=False).encode(**channels)


def _subtitle_lines(line: str, width: float) -> list[str]:
    """Return the lines of a subtitle, which is broken between its parts to fit above a chart."""
    lines: list[str] = []
    for part in line.split(_SEPARATOR):
        longer = _SEPARATOR.join([*lines[-1:], part])
        if lines and len(longer) * _CHARACTER <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def axis(
    kind: str,
    field: str,
    title: str | None,
    *,
    type: str = "quantitative",  # noqa: A002
    scale: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """Return the channel "X" or "Y" of a column, with its axis."""
    alt = altair()
    look: dict[str, Any] = {
        "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": 500, "titlePadding": 8,
        "gridOpacity": 0.6, "grid": kind == "Y", "domain": kind == "X", "ticks": kind == "X",
        "labelPadding": 4 if kind == "X" else 8, "tickSize": 4, "labelLimit": 260,
        "titleLimit": 460,
    }  # fmt: skip
    if kind == "X":
        look["labelFlush"] = False
    if type == "quantitative" and "values" not in options:
        look["tickCount"] = 5  # Vega draws up to nine
    scaled = alt.Undefined if scale is None else {**scale}
    sort = options.pop("sort", alt.Undefined)
    return getattr(alt, kind)(
        field=field, type=type, title=title and harmless(title), scale=scaled, sort=sort,
        axis={**look, **options},
    )  # fmt: skip


def tooltip(
    *fields: tuple[str, str] | tuple[str, str, str],
    of: Runs | None = None,
    data: pl.DataFrame | None = None,
) -> list[Any]:
    """Return the fields of a tooltip, from columns, titles and number formats.

    The name of the run comes first, if runs have names. Columns that `data` does not have, or
    that have no values, are omitted.
    """
    alt = altair()
    channels = [alt.Tooltip(field="run", type="nominal", title="run")] if of and of.named else []
    for field, title, *form in fields:
        if data is not None and (field not in data.columns or not data.get_column(field).count()):
            continue
        known = {"type": "quantitative", "format": form[0]} if form else {"type": "nominal"}
        channels.append(alt.Tooltip(field=field, title=escaped(title), **known))
    return channels


def escaped(title: str) -> str:
    """Return the title of a tooltip, escaped because Vega-Lite inserts it into an expression."""
    return harmless(title).replace("\\", "\\\\")


def looks(runs: Runs, *channels: str, legend: bool = False) -> dict[str, Any]:
    """Return the channels that distinguish runs; set `legend` in one layer of a chart."""
    alt = altair()
    longest = max(map(len, runs.labels))
    points = "shape" in channels
    legend_options = {
        "orient": "top", "direction": "horizontal", "title": None, "symbolSize": 90,
        "symbolOpacity": 1, "symbolStrokeWidth": 0 if points else 2,
        **({} if points else {"symbolType": "stroke"}),
        "labelFontSize": 11, "labelLimit": WIDTH - 60, "columnPadding": 14, "offset": 8,
        "columns": max(1, min(len(runs.labels), WIDTH // (34 + 6 * min(longest, 60)))),
        "symbolLimit": len(runs.labels),
    }  # fmt: skip
    kinds = {"color": alt.Color, "strokeDash": alt.StrokeDash, "shape": alt.Shape}
    return {
        channel: kinds[channel](
            field="run", type="nominal", title=None, sort=None,
            legend=legend_options if legend and runs.several else None,
            scale={"domain": [*runs.labels], "range": runs.styles[channel]},
        )
        for channel in channels
    }  # fmt: skip


def lines(table: pl.DataFrame, runs: Runs, x: Any, y: Any, tips: Sequence[Any]) -> list[Any]:
    """Return a line with points for each run, and intervals from "low" to "high" if known.

    Intervals are bands for up to two runs, and rules for more runs with few points.

    The columns are "run", "x", "y", "low" and "high".
    """
    max_points = max(table.get_column("run").value_counts(name="points").get_column("points"))
    draws_points = max_points <= _FEW
    layers = []
    offset: dict[str, Any] = {}
    if table.get_column("low").is_not_null().any():
        ends = {"x": x, "y": with_field(y, "low"), "y2": "high", **looks(runs, "color")}
        if len(runs.labels) <= FILLED and max_points > 1:  # a band needs two points
            band = {"opacity": 0.16, "strokeWidth": 0}
            layers.append(layer("area", band, where=HAS_INTERVAL, **ends))
        elif draws_points:
            # Side by side, the intervals of runs do not hide each other.
            place = f"indexof({json.dumps(runs.labels)}, datum.run) - {(len(runs.labels) - 1) / 2}"
            offset = {"xOffset": {"expr": f"{_GAP} * ({place})"}}
            rule = {"opacity": 0.5, "strokeWidth": 2, **offset}
            layers.append(layer("rule", rule, where=HAS_INTERVAL, **ends))
    both = {"x": x, "y": y}
    line = {"strokeWidth": 2, "strokeJoin": "round", **offset}
    point = {"filled": True, "opacity": 1, "size": 34, **offset} if draws_points else HOVER
    of_points = looks(runs, "color", "shape", legend=True) if draws_points else {}
    of_lines = looks(runs, "color", "strokeDash", legend=not draws_points)
    return [
        *layers,
        layer("line", line, **both, **of_lines),
        layer("point", point, **both, tooltip=[*tips], **of_points),
    ]


def cutoffs(title: str, ks: Iterable[int], **options: Any) -> Any:
    """Return the axis "x" of ranks, logarithmic if there are few and sparse cutoffs."""
    ranks = sorted(set(ks))
    first, last = ranks[0], ranks[-1]
    # The points and intervals of several runs are side by side, also at the ends.
    ends = {"domain": [first, last], "nice": False, "padding": _MARGIN} if first < last else {}
    scale: dict[str, Any] = {"zero": False, **ends}
    if last - first > _SPARSE * len(ranks) and len(ranks) <= _TICKS:
        scale = {"type": "log", **ends}
    elif ends:
        step = next(step for step in _STEPS if last - first < _TICKS * step)
        ranks = sorted({first, *range(step * (first // step + 1), last + 1, step)})
    return axis("X", "x", title, format=",d", values=ranks, scale=scale, **options)


def means(title: str, table: pl.DataFrame) -> Any:
    """Return the axis of means "y", with the range of means and intervals."""
    numbers = pl.col("low", "y", "high").cast(pl.Float64)
    ends = pl.min_horizontal(numbers.min()), pl.max_horizontal(numbers.max()).alias("high")
    low, high = table.select(ends).row(0)
    scale: dict[str, Any] = {"zero": False}
    if low is not None and low == high:  # Vega would draw a single tick
        pad = abs(low) / 10 or 0.1
        scale["domain"] = [low - pad, low + pad]
    return axis("Y", "y", title, scale=scale)


def with_field(channel: Any, field: str) -> Any:
    """Return a copy of the channel for another column."""
    same = channel.copy(deep=False)
    same.field = field
    return same


def non_empty(table: pl.DataFrame, column: str, what: str) -> pl.DataFrame:
    """Return the table; raise `DataError` if there is nothing to draw."""
    if not table.get_column(column).count():
        reason = f"all values of {what} are null" if table.height else f"no rows with {what}"
        raise DataError(f"nothing to draw: {reason}")
    return table


def counted(numbers: Iterable[int | None], one: str = "query", several: str = "queries") -> str:
    """Return a count or range of counts, such as "20 to 1,000 queries"."""
    known = [number for number in numbers if number is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    return number_of(low, one, several) if low == high else f"{low:,} to {high:,} {several}"


def undefined_note(number: int) -> str:
    """Return a note on values that do not count; empty if there are none."""
    return f" · {number:,} undefined, skipped" if number else ""


def aggregate_title(name: str) -> str:
    """Return the name of the mean of a metric as in a title, without the word "mean".

    Examples
    --------
    >>> from polars_rank.plot.drawing import aggregate_title
    >>> aggregate_title("ndcg@10"), aggregate_title("rr")
    ('NDCG@10', 'MRR')
    """
    return mean_title(name).removeprefix("mean ")


def confidence_text(levels: Iterable[float | None]) -> str:
    """Return the confidence level of intervals, such as "95% confidence interval".

    The level is omitted if it is unknown or differs between intervals.
    """
    known = {*levels}
    level = known.pop() if len(known) == 1 else None
    return "confidence interval" if level is None else f"{100 * level:g}% confidence interval"


def metric_title(name: str) -> str:
    """Return the name of a metric as in a title.

    Examples
    --------
    >>> from polars_rank.plot.drawing import metric_title
    >>> metric_title("ndcg@10"), metric_title("average_precision"), metric_title("recall@20")
    ('NDCG@10', 'AP', 'recall@20')
    """
    base = re.split("[@(]", name, maxsplit=1)[0]
    return _TITLES.get(base, base.upper() if base in _ACRONYMS else base) + name[len(base) :]


def mean_title(name: str, *, capital: bool = False) -> str:
    """Return the name of the mean of a metric as in a title.

    Examples
    --------
    >>> from polars_rank.plot.drawing import mean_title
    >>> mean_title("ndcg@10", capital=True), mean_title("rr"), mean_title("ap")
    ('Mean NDCG@10', 'MRR', 'MAP')
    """
    title = metric_title(name)
    base = re.split("[@(]", title, maxsplit=1)[0]
    if base in ("RR", "AP"):
        return f"M{title}"
    return title if base in ("MRR", "MAP") else f"{'Mean' if capital else 'mean'} {title}"


def thinned(
    points: pl.LazyFrame, groups: Sequence[str], x: pl.Expr, *, order: str, ys: Sequence[str],
    steps: int,
) -> pl.LazyFrame:  # fmt: skip
    """Return at most 2 + 2 x (number of `ys`) points of each curve per step of x, unsorted.

    `x` is from 0 to 1 and is split into equal steps. The first and last points of a step (by the
    column `order`) and the points with the minimum and maximum of each of `ys` are kept. If a step
    is a pixel, a line through these points covers the same pixels as the original (Jugel, Jerzak,
    Hackenbroich & Markl, M4: a visualization-oriented time series data aggregation, 2014).
    """
    columns = [name for name in points.collect_schema().names() if name not in groups]
    point = pl.struct(columns)
    cell = (x * steps).floor().clip(0, steps - 1).cast(pl.Int64).alias(_CELL)
    kept = [("first", point.min_by(order)), ("last", point.max_by(order))]
    for y in ys:
        kept += [(f"least {y}", point.min_by(y)), (f"greatest {y}", point.max_by(y))]
    steps_of_groups = points.group_by([*groups, cell]).agg(
        each.alias(OWN + name) for name, each in kept
    )
    several = pl.concat_list(OWN + name for name, _ in kept).alias(_KEPT)
    return steps_of_groups.select(*groups, several).explode(_KEPT).unnest(_KEPT).unique()
