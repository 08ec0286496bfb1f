"""How all charts look: sizes, axes, titles, tooltips; and how lines are drawn.

Charts have columns of our own names only, so that no name of a user's is read as a path by Vega.
Axes, scales and legends are dictionaries, and each channel names its class and its type: altair
checks, copies and infers the rest on every step, which took most of the time of a report.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from polars_rank.errors import DataError, RankError, missing_extra
from polars_rank.plot.runs import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import altair as alt
    import polars as pl

    from polars_rank.plot.runs import Runs

Channel: TypeAlias = Literal["color", "strokeDash", "shape"]

#: What brings altair.
EXTRA = "plot"
#: The most rows that a chart carries, all its layers together.
ROWS = 3_000
WIDTH, HEIGHT = 460, 280
#: Points of a line that are shown one by one.
_FEW = 40

#: Runs whose bands may lie over each other.
_BANDS = 4
#: Ranks are far apart when there are more than this many to a cutoff.
_SPARSE = 5
#: How many ticks an axis of ranks has at most, and how far apart they may be.
_TICKS = 14
_STEPS = [1, 5, *(number * 10**power for power in range(1, 10) for number in (1, 2, 5))]

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def altair(extra: str = EXTRA) -> Any:
    """Return the module altair; raise `MissingExtraError` where it is not installed."""
    if sys.flags.optimize > 1:
        message = (
            "charts and reports need Altair, which needs its docstrings, and python -OO leaves "
            "them out; run Python without -OO"
        )
        raise RankError(message)
    try:
        import altair  # noqa: ICN001, PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise missing_extra(extra, error) from error
    return altair


def style(*, dark: bool = False) -> dict[str, Any]:
    """Vega-Lite's config for a page: fonts, and colours of text and grid for its background.

    Charts of this module have no config, which Altair would not let one compose. A page, or a chart
    that is complete, takes this one.

    Parameters
    ----------
    dark
        Whether the page's background is dark.

    Returns
    -------
    dict
        For `chart.configure(**pr.plot.style(dark=True))`, or the `config` of vega-embed; with a
        transparent background.

    Examples
    --------
    >>> pr.plot.style(dark=True)["background"]
    'transparent'
    """
    text, quiet, line = (
        ("#e8eaed", "#b0b6be", "#454b54") if dark else ("#1f2328", "#57606a", "#d0d7de")
    )
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
    told: Iterable[str] = (),
    height: float = HEIGHT,
    width: float = WIDTH,
) -> alt.LayerChart:
    """Return the layers as one chart, with a title and what is to be known in smaller letters."""
    alt = altair()
    title, shown = harmless(title), [harmless(line) for line in told if line]
    for layer in layers:  # a screen reader has the description; thousands of points would bury it
        layer.mark = {**layer.mark.to_dict(validate=False), "aria": False}
    heading = {
        "text": title, "subtitle": shown, "anchor": "start", "frame": "group", "fontSize": 14,
        "fontWeight": 600, "subtitleFontSize": 11, "subtitlePadding": 4, "offset": 12,
        "limit": width + 120,
    }  # fmt: skip
    # Beside other charts, a chart keeps its own colours and legend.
    own = dict.fromkeys(("color", "strokeDash", "shape", "opacity"), "independent")
    # In one step: each method of a chart copies all of its layers.
    return alt.LayerChart(  # type: ignore[no-any-return]
        data,
        [*layers],
        title=heading,
        width=width,
        height=height,
        view={"stroke": None},
        description=". ".join([title, *shown]),
        resolve={"scale": own},
    )


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
        "labelPadding": 4, "tickSize": 4, "labelLimit": 260, "titleLimit": 460,
    }  # fmt: skip
    if kind == "X" and type == "quantitative":
        look["labelFlush"] = False
    scaled = alt.Undefined if scale is None else {**scale}
    sort = options.pop("sort", alt.Undefined)
    return getattr(alt, kind)(
        field=field, type=type, title=title and harmless(title), scale=scaled, sort=sort,
        axis={**look, **options},
    )  # fmt: skip


def tooltip(*fields: tuple[str, str] | tuple[str, str, str], of: Runs | None = None) -> list[Any]:
    """Return what is shown under the pointer: column, title, and format of numbers.

    Before them stands the name of the run, where runs have names.
    """
    alt = altair()
    made = [alt.Tooltip(field="run", type="nominal", title="run")] if of and of.named else []
    for field, title, *form in fields:
        known = {"type": "quantitative", "format": form[0]} if form else {"type": "nominal"}
        made.append(alt.Tooltip(field=field, title=escaped(title), **known))
    return made


def escaped(title: str) -> str:
    """Return the title of a tooltip, which Vega-Lite puts into a formula as it is."""
    return harmless(title).replace("\\", "\\\\")


def looks(runs: Runs, *channels: Channel, legend: bool = False) -> dict[str, Any]:
    """Return the channels that tell runs apart, with a legend in one layer of a chart."""
    alt = altair()
    longest = max(map(len, runs.labels))
    points = "shape" in channels
    shown = {
        "orient": "top", "direction": "horizontal", "title": None, "symbolSize": 90,
        "symbolOpacity": 1, "symbolStrokeWidth": 0 if points else 2,
        **({} if points else {"symbolType": "stroke"}),
        "labelFontSize": 11, "labelLimit": WIDTH - 60, "columnPadding": 14, "offset": 8,
        "columns": max(1, min(len(runs.labels), WIDTH // (34 + 6 * min(longest, 60)))),
        "symbolLimit": len(runs.labels),
    }  # fmt: skip
    kinds: dict[str, tuple[Any, Sequence[Any]]] = {
        "color": (alt.Color, runs.colors),
        "strokeDash": (alt.StrokeDash, runs.dashes),
        "shape": (alt.Shape, runs.shapes),
    }
    made: dict[str, Any] = {}
    for channel in channels:
        kind, values = kinds[channel]
        made[channel] = kind(
            field="run",
            type="nominal",
            title=None,
            sort=None,
            legend=shown if legend and runs.several else None,
            scale={"domain": [*runs.labels], "range": [*values]},
        )
    return made


def lines(table: pl.DataFrame, runs: Runs, x: Any, y: Any, tips: Sequence[Any]) -> list[Any]:
    """Return a line for each run, with points, over a band from "low" to "high" where known.

    The columns are "run", "x", "y", "low" and "high".
    """
    alt = altair()
    most = max(table.get_column("run").value_counts(name="points").get_column("points"))
    few = most <= _FEW
    layers = []
    if table.get_column("low").is_not_null().any():
        known = alt.Chart().transform_filter("isValid(datum.low) && isValid(datum.high)")
        opacity = 0.16 if len(runs.labels) <= _BANDS else 0.07
        band = known.mark_area(opacity=opacity, strokeWidth=0)
        if most == 1:  # a band has two ends
            band = known.mark_rule(opacity=0.6, strokeWidth=2)
        ends = {"x": x, "y": with_field(y, "low"), "y2": alt.Y2(field="high")}
        layers.append(band.encode(**ends, **looks(runs, "color")))
    line = alt.Chart().mark_line(strokeWidth=2, strokeJoin="round")
    points = alt.Chart().encode(x=x, y=y, tooltip=[*tips])
    if few:
        points = points.mark_point(filled=True, opacity=1, size=34)
        points = points.encode(**looks(runs, "color", "shape", legend=True))
    else:
        points = points.mark_point(opacity=0, size=60)
    of_lines = looks(runs, "color", "strokeDash", legend=not few)
    return [*layers, line.encode(x=x, y=y, **of_lines), points]


def cutoffs(title: str, ks: Iterable[int]) -> Any:
    """Return the axis of ranks "x": logarithmic where there are but a few, far apart."""
    found = sorted(set(ks))
    first, last = found[0], found[-1]
    if first == last:
        return axis("X", "x", title, format=",d", values=found, scale={"zero": False})
    if last - first > _SPARSE * len(found) and len(found) <= _TICKS:
        scale = {"type": "log", "domain": [first, last], "nice": False}
        return axis("X", "x", title, format=",d", values=found, scale=scale)
    step = next(step for step in _STEPS if last - first < _TICKS * step)
    values = sorted({first, *range(step * (first // step + 1), last + 1, step)})
    scale = {"domain": [first, last], "nice": False, "zero": False}
    return axis("X", "x", title, format=",d", values=values, scale=scale)


def means(title: str, table: pl.DataFrame) -> Any:
    """Return the axis of means "y", as far as they and their bands go."""
    ends = [
        value
        for name in ("low", "y", "high")
        for value in (table.get_column(name).min(), table.get_column(name).max())
        if isinstance(value, (int, float))
    ]
    scale: dict[str, Any] = {"zero": False}
    if ends and min(ends) == max(ends):  # which Vega would write as one tick
        pad = abs(ends[0]) / 10 or 0.1
        scale["domain"] = [ends[0] - pad, ends[0] + pad]
    return axis("Y", "y", title, scale=scale)


def with_field(channel: Any, field: str) -> Any:
    """Return a channel of the same axis for another column."""
    same = channel.copy(deep=False)
    same.field = field
    return same


def something(table: pl.DataFrame, column: str, what: str) -> pl.DataFrame:
    """Return the table; raise `DataError` where there is nothing to draw."""
    if not table.get_column(column).is_not_null().any():
        why = f"there are no rows of {what}" if not table.height else f"every {what} is null"
        message = f"there is nothing to draw: {why}"
        raise DataError(message)
    return table


def counted(numbers: Iterable[int | None], what: str = "queries") -> str:
    """Write how many there are, such as "1,000 queries" or "20 to 1,000 queries"."""
    known = [number for number in numbers if number is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    if low == high == 1:
        words = {"queries": "query", "documents": "document", "rows": "row"}
        what = " ".join(words.get(word, word) for word in what.split(" "))
    return f"{low:,} {what}" if low == high else f"{low:,} to {high:,} {what}"


def told_undefined(number: int, rule: str) -> str:
    """Say as what undefined values count, where there are any."""
    words = {"zero": " undefined count as 0", "one": " undefined count as 1"}
    return f" · {number:,}{words.get(rule, ' undefined, left out')}" if number else ""
