"""Precision against recall at every threshold of the score."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public
from polars_rank.columns import RUN, Columns
from polars_rank.conventions import lowest_relevant
from polars_rank.errors import DataError
from polars_rank.evaluation import curves
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.run_styles import NEUTRAL, grouped, groups, labeled

if TYPE_CHECKING:
    import altair as alt

    from polars_rank._params import Names
    from polars_rank.plot.run_styles import Colors, Runs

#: Steps of recall, about one per pixel; differences within a step are not visible.
_STEPS = 400
#: Maximum number of points that are kept per step.
_KEPT = 6
_POINTS = ("threshold", "found", "precision", "recall", "f1", "auc", "best_f1", "no_skill")


@public
def pr_curve(
    frame: Any,
    *,
    run: str | None = "run",
    by: Names | None = None,
    baseline: Any = None,
    score: str = "score",
    label: str = "label",
    rel: float | None = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw precision by recall over all score thresholds, one curve for each run.

    The chart also shows the precision of a random order (dashed), the area under the curve (in the
    legend), and the point with the best F1.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> chart = pr.plot.pr_curve(log, baseline="bm25")
    >>> chart.save("precision_recall.png")  # doctest: +SKIP

    Parameters
    ----------
    frame
        A log, or the table that `pr.pr_curve` returns.
    run
        Column of the run. None for one series.
    by
        Columns to group by. Each group has its own curves, with names such as "DE · bm25".
    baseline
        Run that the others are compared with, whose curve is drawn first, in gray.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label.
    rel
        Lowest relevant label. Default: 1.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        In each of a few hundred steps of recall, only the first, last, highest and lowest points
        and the best F1 are kept; other points would not be visible. The area and F1 are computed
        from all points.

    Raises
    ------
    DataError
        If no document is relevant.

    References
    ----------
    Davis & Goadrich, The relationship between precision-recall and ROC curves, 2006.
    Jugel, Jerzak, Hackenbroich & Markl, M4: a visualization-oriented time series data aggregation,
    2014.
    """
    draw.altair()
    log = lazy(frame)
    schema = schema_of(log)
    roles = {"run": run, "by": by}
    found = Columns.find(schema, roles)
    columns = [*found.groups, *found.roles[RUN]]
    relevance = ""
    if not {*_POINTS} <= set(schema):
        lowest = lowest_relevant(rel)
        Columns.find(schema, {**roles, "score": score, "label": label})
        log = curves.pr_curve(log, run=None, by=columns, score=score, label=label, rel=lowest)
        relevance = f" · relevant: label ≥ {lowest:g}"
    points = log.select(*groups(columns), *_POINTS).filter(pl.col("recall").is_not_null())
    table = collected(_few_points(points, grouped(points.collect_schema()), _STEPS))
    if not table.height:
        raise DataError("nothing to draw: no document is relevant; use a lower `rel`")
    table, runs = labeled(table, baseline, colors)
    if table.height > draw.ROWS // 2:
        steps = max(1, draw.ROWS // (2 * _KEPT * len(runs.labels)))
        table = collected(_few_points(table.lazy(), ["run"], steps), few=True)
    table = table.sort("run", "found")
    retrieved = table.group_by("run").agg(pl.col("found").max())["found"]
    documents = draw.counted(retrieved, "document retrieved", "documents retrieved")
    area = dict(table.group_by("run").agg(pl.col("auc").first()).iter_rows())
    if runs.several:
        renamed = {name: f"{name} (area {value:.3f})" for name, value in area.items()}
        runs = replace(runs, labels=tuple(renamed.get(name, name) for name in runs.labels))
        table = table.with_columns(pl.col("run").replace(renamed))
    else:
        documents = f"area {next(iter(area.values())):.3f} · {documents}"
    # The area starts at recall 0 and precision 1.
    values = {"recall": 0.0, "precision": 1.0, "f1": 0.0, "found": 0, "threshold": None}
    start = table.unique("run").with_columns(
        pl.lit(value).cast(table.schema[name]).alias(name) for name, value in values.items()
    )
    return draw.layered(
        pl.concat([start, table]).sort("run", "found").drop("auc", "best_f1", "no_skill"),
        _layers(table, runs),
        title="Precision and recall by score threshold",
        subtitle=[documents + relevance, "point: best F1 · dashed line: random order"],
        height=320,
    )


def _few_points(points: pl.LazyFrame, by: list[str], steps: int) -> pl.LazyFrame:
    return draw.thinned(
        points, by, pl.col("recall"), order="found", ys=("precision", "f1"), steps=steps
    )


def _layers(table: pl.DataFrame, runs: Runs) -> list[Any]:
    best = table.filter(pl.col("f1") == pl.col("best_f1"))
    best = best.unique("run", keep="first", maintain_order=True)
    random_order = table.select("run", "no_skill").unique("run").sort("run")
    same_line = random_order.get_column("no_skill").n_unique() == 1
    color = draw.looks(runs, "color")
    x = draw.axis("X", "recall", "recall", scale={"domain": [0, 1]}, grid=True)
    y = draw.axis("Y", "precision", "precision", scale={"domain": [0, 1]})
    no_skill = draw.tooltip(("no_skill", "random order", ".4f"), of=None if same_line else runs)
    tips = draw.tooltip(
        ("threshold", "score of at least", ".4~g"), ("found", "retrieved", ",d"),
        ("precision", "precision", ".4f"), ("recall", "recall", ".4f"), ("f1", "F1", ".4f"),
        of=runs,
    )  # fmt: skip
    mark = {"filled": True, "size": 90, "stroke": "white", "strokeWidth": 1, "opacity": 1}
    order = draw.altair().Order(field="found", type="quantitative")
    lines = {"x": x, "y": y, "order": order, **draw.looks(runs, "color", "strokeDash")}
    points = {"x": x, "y": y, "tooltip": tips}
    return [
        draw.layer(
            "rule", {"strokeDash": [4, 3], "strokeWidth": 1.5},
            data=random_order.head(1) if same_line else random_order,
            y=draw.with_field(y, "no_skill"), tooltip=no_skill,
            **({"color": NEUTRAL} if same_line else color),
        ),
        draw.layer("line", {"strokeWidth": 2, "strokeJoin": "round"}, **lines),
        draw.layer("point", {"filled": True, "size": 60, "opacity": 0}, **points, **color),
        draw.layer(
            "point", mark, data=best, **points, **draw.looks(runs, "color", "shape", legend=True)
        ),
    ]  # fmt: skip
