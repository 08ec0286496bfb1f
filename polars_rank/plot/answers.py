"""Missed against false answers at every threshold of the top score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import groups, labeled, run_columns
from polars_rank.plot.thinning import thinned

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.plot.runs import Colors

#: Points of all curves, of which at most four are kept per step.
_POINTS = draw.ROWS // 4
_COLUMNS = (
    *("threshold", "false_answers", "false_answers_high", "missed_answers"),
    *("safe_threshold", "auroc", "unanswerable", "answerable"),
)


@public
def answerability(
    table: Any,
    *,
    run: str | None = "run",
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw missed by false answers over all thresholds of the top score, one curve for each run.

    The best curve is closest to the lower left corner. The chart also shows the probability that a
    query with an answer has a higher top score than one without (AUROC), and the point of the
    lowest threshold that is safe.

    Examples
    --------
    >>> log = pr.datasets.search_log(400).with_columns(
    ...     label=pl.when(pl.col("query") % 3 > 0).then("label").otherwise(0)
    ... )
    >>> curve = pr.diagnostics.answerability(log, "ndcg@10")
    >>> chart = pr.plot.answerability(curve, baseline="bm25")
    >>> chart.save("answers.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `pr.diagnostics.answerability` returns.
    run
        Column of the run. None for one series.
    baseline
        Run that the others are compared with, whose curve is drawn first, in gray.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    DataError
        If all queries have an answer, or none has.
    """
    draw.altair()
    log = lazy(table, "table", collects=True)
    schema = schema_of(log)
    if not {*_COLUMNS} <= {*schema}:
        raise ArgumentError(
            "`table` must be the result of pr.diagnostics.answerability; found the columns "
            f"{', '.join(map(repr, schema))}"
        )
    columns = run_columns(schema, run)
    known = pl.all_horizontal(pl.col("false_answers", "missed_answers").is_not_null())
    points = collected(log.select(*groups(columns), *_COLUMNS).filter(known))
    if not points.height:
        raise DataError(
            "nothing to draw: queries with and without relevant documents are needed; found only "
            "one kind"
        )
    points, runs = labeled(points, baseline=baseline, colors=colors, needed=True)
    is_safe = pl.col("threshold") == pl.col("safe_threshold")
    safe = points.filter(is_safe)
    steps = max(1, min(400, _POINTS // len(runs.labels)))
    few = thinned(
        points.lazy(), ["run"], pl.col("false_answers"), order="threshold",
        ys=("missed_answers",), steps=steps,
    )  # fmt: skip
    rows = collected(few, few=True).sort("run", "threshold", descending=[False, True])
    area = dict(points.group_by("run").agg(pl.col("auroc").first()).iter_rows())
    numbers = [
        draw.counted(points.get_column(name), f"queries {which} an answer")
        for name, which in (("answerable", "with"), ("unanswerable", "without"))
    ]
    if runs.several:
        renamed = {name: f"{name} (area {value:.3f})" for name, value in area.items()}
        runs = runs.renamed(lambda name: renamed.get(name, name))
        rows, safe = (each.with_columns(pl.col("run").replace(renamed)) for each in (rows, safe))
        explained = "area: AUROC"
    else:
        explained = f"AUROC {next(iter(area.values())):.3f}"
    explained += " · point: lowest safe threshold" if safe.height else ""
    return draw.layered(
        rows.drop("safe_threshold", "auroc", "unanswerable", "answerable"), _layers(safe, runs),
        title="Missed and false answers by threshold", subtitle=[" · ".join(numbers), explained],
        height=320,
    )  # fmt: skip


def _layers(safe: pl.DataFrame, runs: Any) -> list[Any]:
    x = draw.axis(
        "X", "false_answers", "false answers, of queries without an answer", format="%",
        scale={"domain": [0, 1]}, grid=True,
    )  # fmt: skip
    y = draw.axis(
        "Y", "missed_answers", "missed answers, of queries with one", format="%",
        scale={"domain": [0, 1]},
    )  # fmt: skip
    tips = draw.tooltip(
        ("threshold", "top score of at least", ".4~g"),
        ("false_answers", "false answers", ".2%"), ("false_answers_high", "at most", ".2%"),
        ("missed_answers", "missed answers", ".2%"), of=runs,
    )  # fmt: skip
    order = draw.altair().Order(field="threshold", type="quantitative", sort="descending")
    points = {"x": x, "y": y, "tooltip": tips}
    mark = {"filled": True, "size": 90, "stroke": "white", "strokeWidth": 1, "opacity": 1}
    has_legend = draw.looks(runs, "color", "strokeDash", legend=True)
    return [
        draw.layer(
            "line", {"strokeWidth": 2, "strokeJoin": "round"}, x=x, y=y, order=order, **has_legend
        ),
        draw.layer("point", draw.HOVER, **points, **draw.looks(runs, "color")),
        draw.layer("point", mark, data=safe, **points, **draw.looks(runs, "color")),
    ]
