"""Leaderboards: means or ranks of runs with intervals, best first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import one_of, public
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.metrics.names import direction_note, direction_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import NEUTRAL, PALETTE, harmless_texts, run_labels
from polars_rank.plot.statistics_tables import only_metric, result

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.metrics.metric import Metric

Kind: TypeAlias = Literal["means", "ranks"]

#: Maximum number of runs of a chart, and pixels of a run.
_MAX_RUNS, _STEP = 60, 22
_COLUMNS = ("rank", "rank_low", "rank_high", "best", "mean", "low", "high")
_OPTIONAL = ("queries", "confidence")


@public
def leaderboard(
    table: Any,
    metric: str | Metric | None = None,
    *,
    kind: Kind = "means",
    run: str = "run",
) -> alt.LayerChart:
    """Draw a leaderboard: means or ranks of runs with intervals, best first.

    Examples
    --------
    >>> log = pr.datasets.search_log(200, runs=["bm25", "dense", "hybrid"])
    >>> values = pr.per_query(log, "ndcg@10", by="run").collect()
    >>> board = pr.leaderboard(values)
    >>> ranks = pr.plot.leaderboard(board, kind="ranks")
    >>> chart = pr.plot.leaderboard(board) | ranks
    >>> chart.save("leaderboard.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `leaderboard` returns.
    metric
        Metric of the table to draw. Not needed for a table with one metric.
    kind
        What to draw:

        - "means": means, with the interval of each run on its own;
        - "ranks": ranks, with the simultaneous intervals `rank_low` to `rank_high`.
    run
        Column of the run.

    Returns
    -------
    altair.LayerChart
        A row per run. Runs than which no run is significantly better are shaded and colored.

    Raises
    ------
    ArgumentError
        If the table has several metrics and `metric` is not set, or it has more than 60 runs.
    DataError
        If there is nothing to draw, such as ranks of few queries.
    """
    draw.altair()
    one_of("kind", kind, get_args(Kind))
    rows = lazy(table, "table")
    schema = schema_of(rows)
    rows = result(rows, ("metric", *_COLUMNS), "pr.leaderboard", optional=_OPTIONAL)
    name, rows = only_metric(rows, metric)
    drawn = {"x": "mean", "low": "low", "high": "high"}
    if kind == "ranks":
        drawn = {"x": "rank", "low": "rank_low", "high": "rank_high"}
    names = str(Columns.find(schema, {"run": run}, optional=()).run)
    data = collected(rows.select(pl.col(names).alias("run"), *_COLUMNS, *_OPTIONAL))
    data = harmless_texts(draw.non_empty(data, drawn["low" if kind == "ranks" else "x"], kind))
    if data.height > _MAX_RUNS:
        raise ArgumentError(
            f"the chart would have {data.height:,} rows, more than {_MAX_RUNS}; filter the table"
        )
    data = data.with_columns(
        run_labels(data.get_column("run")).alias("run"),
        pl.col("best").fill_null(value=False),
    )
    x = draw.axis("X", "mean", "mean", grid=True, scale={"zero": False})
    if kind == "ranks":
        x = draw.with_field(draw.cutoffs("rank", range(1, data.height + 1), grid=True), "rank")
    order = data.get_column("run").to_list()
    bands = {"type": "band", "paddingInner": 0, "paddingOuter": 0}
    y = draw.axis(
        "Y", "run", None, type="nominal", grid=False, sort=order, labelPadding=8, scale=bands
    )
    tips = draw.tooltip(
        ("run", "run"), ("mean", "mean", ".4f"), ("low", "low", ".4f"), ("high", "high", ".4f"),
        ("rank", "rank", ",d"), ("rank_low", "best rank", ",d"),
        ("rank_high", "worst rank", ",d"), ("queries", "queries", ",d"), data=data,
    )  # fmt: skip
    both = {"y": y, "tooltip": tips}
    both["color"] = draw.altair().ColorValue(
        NEUTRAL, condition={"test": "datum.best", "value": PALETTE[0]}
    )
    shade = {"x": 0, "x2": "width", "color": PALETTE[0], "opacity": 0.1}
    ends = {"x": draw.with_field(x, drawn["low"]), "x2": drawn["high"]}
    layers = [
        draw.layer("rect", shade, where="datum.best", y=y),
        draw.layer("rule", {"strokeWidth": 2}, where=draw.HAS_INTERVAL, **ends, **both),
        draw.layer("point", {"filled": True, "size": 64, "opacity": 1}, x=x, **both),
    ]
    level = draw.confidence_text(data.get_column("confidence"))
    direction = _direction(name, data)
    title = f"{draw.mean_title(name, capital=True)}{direction}, with {level}s"
    if kind == "ranks":
        title = f"Ranks by {draw.aggregate_title(name)}{direction}, with simultaneous {level}s"
    notes = [draw.counted(data.get_column("queries"))]
    if data.get_column("best").any():
        notes.append("shaded: no run is significantly better")
    subtitle = [" · ".join(filter(None, notes))]
    height = max(56, _STEP * data.height)
    return draw.layered(data, layers, title=title, subtitle=subtitle, height=height)


def _direction(name: str, data: pl.DataFrame) -> str:
    """Return what a title says of the direction, which the ranks show if the name does not."""
    means = data.sort("rank", maintain_order=True).get_column("mean").drop_nulls()
    if not direction_of(name) and len(means) and means[0] < means[-1]:
        return " (lower is better)"
    return direction_note(name)
