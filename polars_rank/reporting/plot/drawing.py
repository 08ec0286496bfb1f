"""How all charts look: sizes, axes, titles, tooltips; and how lines are drawn.

Charts have columns of our own names only, so that no name of a user's is read as a path by Vega.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import DataError, missing_extra
from polars_rank.reporting.plot.runs import NEUTRAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import altair as alt

    from polars_rank.reporting.plot.runs import Runs

#: The most rows that a chart carries, all its layers together.
ROWS = 3_000
WIDTH, HEIGHT = 460, 280
#: Points of a line that are shown one by one.
_FEW = 40

_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def altair() -> Any:
    """Return the module altair; raise `MissingExtraError` where it is not installed."""
    try:
        import altair  # noqa: ICN001, PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise missing_extra("plot", error) from error
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
    lines = [line for line in told if line]
    heading = alt.TitleParams(
        title, subtitle=lines, anchor="start", frame="group", fontSize=14, fontWeight=600,
        subtitleFontSize=11, subtitlePadding=4, offset=12, limit=width + 120,
    )  # fmt: skip
    chart: alt.LayerChart = alt.layer(*layers, data=data).properties(
        title=heading,
        width=width,
        height=height,
        view=alt.ViewBackground(stroke=None),
        description=". ".join([title, *lines]),
    )
    return chart


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
    scaled = alt.Undefined if scale is None else alt.Scale(**scale)
    sort = options.pop("sort", alt.Undefined)
    return getattr(alt, kind)(
        field=field, type=type, title=title, scale=scaled, sort=sort,
        axis=alt.Axis(**{**look, **options}),
    )  # fmt: skip


def tooltip(*fields: tuple[str, str] | tuple[str, str, str]) -> list[Any]:
    """Return what is shown under the pointer: column, title, and format of numbers."""
    alt = altair()
    made = []
    for field, title, *form in fields:
        known = {"type": "quantitative", "format": form[0]} if form else {"type": "nominal"}
        made.append(alt.Tooltip(field=field, title=title, **known))
    return made


def by_run(runs: Runs, *, title: str | None = None, legend: bool | None = None) -> dict[str, Any]:
    """Return the channels of colour, dash and shape; their legends are one."""
    alt = altair()
    shown = runs.several if legend is None else legend
    look = None
    if shown:
        longest = max(map(len, runs.labels))
        look = alt.Legend(
            orient="top", direction="horizontal", title=title, symbolStrokeWidth=2, symbolSize=90,
            labelFontSize=11, labelLimit=WIDTH - 60, columnPadding=14, offset=8,
            columns=max(1, min(len(runs.labels), WIDTH // (30 + 7 * min(longest, 60)))),
            symbolLimit=len(runs.labels), symbolOpacity=1,
        )  # fmt: skip
    domain = [*runs.labels]

    def channel(kind: str, values: Sequence[Any]) -> Any:
        return getattr(alt, kind)(
            field="run", type="nominal", title=title, sort=None, legend=look,
            scale=alt.Scale(domain=domain, range=[*values]),
        )  # fmt: skip

    return {
        "color": channel("Color", runs.colors),
        "dash": channel("StrokeDash", runs.dashes),
        "shape": channel("Shape", runs.shapes),
    }


def lines(
    table: pl.DataFrame, runs: Runs, x: Any, y: Any, tips: Sequence[Any], *, bands: bool = True
) -> list[Any]:
    """Return a line for each run, with points, over a band from "low" to "high" where known.

    The columns are "run", "x", "y", "low" and "high".
    """
    alt = altair()
    channels = by_run(runs)
    layers = []
    if bands and table.get_column("low").is_not_null().any():
        band = alt.Chart().transform_filter("isValid(datum.low) && isValid(datum.high)")
        layers.append(
            band.mark_area(opacity=0.16, strokeWidth=0).encode(
                x=x, y=with_field(y, "low"), y2="high", color=channels["color"]
            )
        )
    layers.append(
        alt.Chart()
        .mark_line(strokeWidth=2, strokeJoin="round")
        .encode(x=x, y=y, color=channels["color"], strokeDash=channels["dash"])
    )
    few = table.group_by("run").len().get_column("len").max() or 0
    shown = {"opacity": 1, "size": 34} if few <= _FEW else {"opacity": 0, "size": 60}  # type: ignore[operator]
    layers.append(
        alt.Chart()
        .mark_point(filled=True, **shown)
        .encode(x=x, y=y, color=channels["color"], shape=channels["shape"], tooltip=list(tips))
    )
    return layers


def with_field(channel: Any, field: str) -> Any:
    """Return a channel of the same axis for another column."""
    same = channel.copy(deep=False)
    same.field = field
    return same


def something(table: pl.DataFrame, column: str, what: str) -> pl.DataFrame:
    """Return the table; raise `DataError` where there is nothing to draw."""
    if not table.height:
        message = f"there is nothing to draw: the table of {what} has no rows"
        raise DataError(message)
    if not table.get_column(column).is_not_null().any():
        message = f"there is nothing to draw: every {what} is null"
        raise DataError(message)
    return table


def counted(numbers: Iterable[int | None], what: str = "queries") -> str:
    """Write how many there are, such as "1,000 queries" or "20 to 1,000 queries"."""
    known = [number for number in numbers if number is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    if low == high:
        return (
            f"{low:,} {what.removesuffix('ies') + 'y' if low == 1 and what == 'queries' else what}"
        )
    return f"{low:,} to {high:,} {what}"


def told_undefined(number: int, rule: str) -> str:
    """Say as what undefined values count, where there are any."""
    words = {"zero": "count as 0", "one": "count as 1", "skip": "left out", "null": "make it null"}
    return f" · {number:,} undefined {words[rule]}" if number else ""
