"""Charts that need no network: their HTML contains Vega instead of loading it."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import altair as alt

if TYPE_CHECKING:
    _Chart = alt.TopLevelMixin
else:
    _Chart = object

#: A cell of a notebook. Vega is run once per page, although each chart contains it.
_CELL = """\
<div id="{id}"></div>
<script>
window.polarsRankVega ??= (() => {{
{vega}
return window.vegaEmbed;
}})();
window.polarsRankVega("#{id}", {specification}, {options}).catch(console.error);
</script>
"""


class _Offline(_Chart):
    """Methods of Altair's charts that write HTML with all scripts."""

    def save(self, fp: Any, format: Any = None, *arguments: Any, **options: Any) -> None:  # noqa: A002
        """Save the chart as in Altair, except that HTML contains all scripts."""
        ending = format or str(fp).rpartition(".")[2]
        inline = {"inline": True} if ending == "html" else {}
        super().save(fp, format, *arguments, **{**inline, **options})

    def to_html(self, *arguments: Any, **options: Any) -> str:
        """Return the chart as in Altair, except that a complete page contains all scripts."""
        is_page = options.get("fullhtml", True) and not options.get("requirejs", False)
        html: str = super().to_html(*arguments, **{"inline": is_page, **options})
        return html

    def _repr_mimebundle_(self, *arguments: Any, **options: Any) -> Any:
        """Return the output of a notebook cell, for Altair's default renderer only."""
        if alt.renderers.active != "default":
            return super()._repr_mimebundle_(*arguments, **options)
        specification = json.dumps(self.to_dict(context={"pre_transform": False}))
        embedding = {"mode": "vega-lite", **alt.renderers.options.get("embed_options", {})}
        cell = _CELL.format(
            id=f"polars-rank-{uuid4().hex}", vega=vega(), options=json.dumps(embedding),
            specification=specification.replace("<", r"\u003c"),
        )  # fmt: skip
        return {"text/html": cell}

    def __add__(self, other: Any) -> Any:
        return offline(super().__add__(other))

    def __and__(self, other: Any) -> Any:
        return offline(super().__and__(other))

    def __or__(self, other: Any) -> Any:
        return offline(super().__or__(other))


def offline(chart: Any) -> Any:
    """Return the Altair chart as a chart that needs no network."""
    if not isinstance(chart, _Offline):
        chart = chart.copy(deep=False)
        # Charts store attributes in their specification.
        object.__setattr__(chart, "__class__", _offline_class(chart.__class__))
    return chart


@cache
def _offline_class(kind: type) -> type:
    return type(kind.__name__, (_Offline, kind), {"__doc__": kind.__doc__})


@cache
def vega() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script, which sets `window.vegaEmbed`."""
    from vl_convert import javascript_bundle  # noqa: PLC0415  (slow to import)

    bundle: str = javascript_bundle()  # type: ignore[call-arg]  # optional, but not typed so
    return bundle.replace("\r\n", "\n")
