"""The grades of a judge for each grade of a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public
from polars_rank.errors import ArgumentError, DataError, short
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import LABEL, PALETTE
from polars_rank.plot.statistics_tables import result

if TYPE_CHECKING:
    import altair as alt

_GRADES = ("reference_label", "label")
_COLUMNS = ("judge", "reference", *_GRADES, "pairs", "share")
#: Pixels of a cell and of the longest side, and the maximum number of grades with written shares.
_CELL, _SIDE, _FEW = 64, 420, 8
#: Opacity of a cell with the share 0 and the share 1.
_OPACITY = [0.05, 0.45]


@public
def confusion(table: Any, *, judge: Any = None, reference: Any = None) -> alt.LayerChart:
    """Draw the grades that a judge gave the documents of each grade of the reference.

    Examples
    --------
    >>> log = pr.datasets.search_log(200).unique(["query", "doc"])
    >>> log = log.with_columns(llm=(pl.col("label") + pl.col("doc") % 2).clip(0, 3))
    >>> table = pr.judges.confusion(log, label=["label", "llm"])
    >>> chart = pr.plot.confusion(table)
    >>> chart.save("confusion.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `pr.judges.confusion` returns.
    judge, reference
        The pair of judges to draw. Default: the only one of the table.

    Returns
    -------
    altair.LayerChart
        A row of cells for each grade of the reference. The opacity of a cell is its share of the
        documents in the row, so that rows with few documents are as visible as others. With up to
        8 grades, the shares are written. The outlined cells on the diagonal have equal grades.

    Raises
    ------
    ArgumentError
        If the table has several pairs of judges or several groups.
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    cells = collected(result(rows, _COLUMNS, "pr.judges.confusion"))
    for name, value in (("judge", judge), ("reference", reference)):
        known = cells.get_column(name).unique().sort().to_list()
        if value is not None and str(value) not in known:
            raise ArgumentError(f"`{name}` must be one of {short(known)}; found {short(value)}")
        cells = cells if value is None else cells.filter(pl.col(name) == str(value))
    judges = cells.select("judge", "reference").unique().sort("judge", "reference").rows()
    if not judges:
        raise DataError("nothing to draw: no rows of such a pair of judges")
    if len(judges) > 1:
        raise ArgumentError(
            f"set `judge` and `reference` to one pair of the table; available: {short(judges)}"
        )
    if cells.select(_GRADES).is_duplicated().any():
        groups = [name for name in schema if name not in _COLUMNS]
        raise ArgumentError(
            f"several rows for a pair of grades; filter the table to one value of {groups}"
        )
    pairs = int(cells.get_column("pairs").sum())
    if not pairs:
        raise DataError("nothing to draw: no document has labels of both judges")
    equal = cells.filter(pl.col("reference_label") == pl.col("label")).get_column("pairs").sum()
    grades = cells.get_column("label").unique().sort()
    data = _marks(cells, grades)
    omitted = cells.filter(pl.col("pairs") > 0).height - data.height
    side = min(_SIDE, _CELL * len(grades))
    name, of_reference = judges[0]
    return draw.layered(
        data,
        _layers(name, of_reference, _names(grades)),
        title=f"Labels: {name} vs. {of_reference}",
        subtitle=[
            f"{draw.counted([pairs], 'documents')} · {equal / pairs:.1%} with equal labels",
            "cells: shares of the documents in a row"
            + (
                f" · {draw.counted([omitted], 'cells')} with few documents omitted"
                if omitted
                else ""
            ),
        ],
        width=side,
        height=side,
    )


def _names(grades: pl.Series) -> list[str]:
    return [f"{grade:g}" for grade in grades]


def _marks(cells: pl.DataFrame, grades: pl.Series) -> pl.DataFrame:
    """Return the cells with documents, the names of grades, and the shares as text."""
    written = pl.format("{}%", (100 * pl.col("share")).round(0).cast(pl.Int64))
    names = pl.col(_GRADES).replace_strict(grades, _names(grades), return_dtype=pl.String)
    text = written if len(grades) <= _FEW else pl.lit("")
    filled = cells.filter(pl.col("pairs") > 0).sort("pairs", descending=True, maintain_order=True)
    return filled.head(draw.ROWS).select(names, "pairs", "share", text=text)


def _layers(judge: str, reference: str, grades: list[str]) -> list[Any]:
    """Return the cells, the outlines of equal grades, and the shares."""
    look: dict[str, Any] = {"scale": {"domain": grades}}
    look |= dict.fromkeys(("grid", "domain", "ticks"), False)
    x = draw.axis("X", "label", f"label of {judge}", type="ordinal", labelAngle=0, **look)
    y = draw.axis("Y", "reference_label", f"label of {reference}", type="ordinal", **look)
    opacity = draw.altair().Opacity(
        field="share", type="quantitative", legend=None, scale={"domain": [0, 1], "range": _OPACITY}
    )
    tips = draw.tooltip(
        ("reference_label", reference), ("label", judge), ("pairs", "documents", ",d"),
        ("share", "share of the row", ".1%"),
    )  # fmt: skip
    both = {"x": x, "y": y}
    equal = pl.DataFrame({"reference_label": grades, "label": grades})
    outline = {"filled": False, "stroke": LABEL, "strokeWidth": 1}
    cell = {"color": PALETTE[0], "strokeWidth": 0}
    text = {"fontSize": 12, "fontWeight": 600, "color": LABEL}
    written = draw.altair().Text(field="text", type="nominal")
    return [
        draw.layer("rect", outline, data=equal, **both),
        draw.layer("rect", cell, **both, opacity=opacity, tooltip=tips),
        draw.layer("text", text, **both, text=written, tooltip=tips),
    ]
