"""How the values of a metric are spread over queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import one_of, whole_number
from polars_rank.columns import RUN
from polars_rank.conventions import POLARS_RANK
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected
from polars_rank.plot.drawing import ROWS, altair, axis, layered, looks, tooltip
from polars_rank.plot.runs import grouped, labelled
from polars_rank.plot.values import TINY, VALUE, Values, extent

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt

    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs

Kind: TypeAlias = Literal["histogram", "ecdf"]


def distribution(
    lists: Any,
    metric: str | Metric | None = None,
    *,
    kind: Kind = "histogram",
    run: str | None = RUN,
    baseline: Any = None,
    bins: int = 20,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Spread of a metric over the queries, by run.

    Parameters
    ----------
    lists
        What `per_query` returns: a row per list, a column per metric.
    metric
        The column to draw; None if there is one only.
    kind
        "histogram", or "ecdf": the share of queries with at most this value.
    run, baseline, colors
        As for `pr.plot.at_k`.
    bins
        Of a histogram: how many of equal width, from 0 to 1 for values in this range, otherwise
        from the least to the greatest value.
    undefined, conventions
        As for `summarize`: as what an undefined value counts.

    Returns
    -------
    altair.LayerChart
        A rule stands at the mean of a run. The points of an ECDF are exact; of more than a few
        hundred different values, some are left out.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `summarize`; also where there is nothing to draw.
    MissingExtraError
        Without altair (extra "plot").

    Notes
    -----
    The table is read twice; it should not be a plan that ranks a log anew each time.

    Examples
    --------
    >>> lists = pr.per_query(pr.datasets.search_log(50), "ndcg@10", by="run")
    >>> chart = pr.plot.distribution(lists.collect(), kind="ecdf")
    >>> chart.save("ndcg.png")  # doctest: +SKIP
    """
    altair()
    one_of("kind", kind, ("histogram", "ecdf"))
    whole_number("bins", bins)
    found = Values.of(lists, metric, run, (), undefined, conventions)
    spread = found.spread()
    told = [found.said(spread) + " · rule: mean"]
    spread, runs = labelled(spread, baseline=baseline, colors=colors, needed=True)
    most = ROWS // (2 * len(runs.labels)) - 1
    if kind == "histogram" and bins > most:
        message = f"`bins` must be at most {most:,} for {len(runs.labels)} runs; found {bins:,}"
        raise ArgumentError(message, "bins")
    ends = extent(min(spread.get_column("low")), max(spread.get_column("high")))
    if kind == "ecdf":
        counts = _counts(found.known, ends, most)
        data, layers = _ecdf(counts, spread, runs, found.name, ends)
        title = f"Cumulative distribution of {found.name} over queries"
    else:
        counts = _counts(found.known, ends, bins)
        data, layers = _histogram(counts, spread, runs, found.name, ends, bins)
        title = f"Distribution of {found.name} over queries"
    return layered(data, layers, title=title, told=told)


def _counts(values: pl.LazyFrame, ends: tuple[float, float], cells: int) -> pl.DataFrame:
    """Return how many values of each run are in each cell of equal width, and the greatest."""
    low, high = ends
    place = (pl.col(VALUE) - low) / (high - low) * cells
    cell = (place + TINY).floor().clip(0, cells - 1).cast(pl.Int64).alias("cell")
    by = [*grouped(values.collect_schema()), cell]
    counts = values.group_by(by).agg(pl.len().alias("number"), pl.col(VALUE).max().alias("x"))
    return labelled(collected(counts))[0]


def _histogram(
    counts: pl.DataFrame, spread: pl.DataFrame, runs: Runs, name: str, ends: tuple[float, float],
    bins: int,
) -> tuple[pl.DataFrame, list[Any]]:  # fmt: skip
    alt = altair()
    low, width = ends[0], (ends[1] - ends[0]) / bins
    cells = pl.DataFrame({"cell": range(bins)}, schema={"cell": pl.Int64})
    start = low + pl.col("cell") * width
    number = pl.col("number").fill_null(0)
    table = (
        spread.select("run", "counted")
        .join(cells, how="cross")
        .join(counts.drop("x"), on=["run", "cell"], how="left")
        .select("run", x=start, end=start + width, number=number, y=number / pl.col("counted"))
    )
    last = table.filter(pl.col("x") == pl.col("x").max()).with_columns(x="end")
    table = pl.concat([table, last]).sort("run", "x")  # a line of steps has an end

    color = looks(runs, "color")
    x = axis("X", "x", name, scale={"domain": [*ends], "nice": False})
    y = axis("Y", "y", "share of queries", format="%", scale={"domainMin": 0, "nice": True})
    tips = tooltip(
        ("x", "from", ".4~g"), ("end", "below", ".4~g"), ("number", "queries", ",d"),
        ("y", "share", ".2%"), of=runs,
    )  # fmt: skip
    bar = {"x": x, "x2": alt.X2(field="end"), "y": y, "y2": alt.Y2Datum(0)}
    layers = [
        alt.Chart().mark_rect(opacity=0.75, strokeWidth=0).encode(**bar, **color, tooltip=tips)
    ]
    if runs.several:
        steps = alt.Chart().encode(x=x, y=y)
        layers = [
            steps.mark_area(interpolate="step-after", opacity=0.12, strokeWidth=0).encode(
                y2=alt.Y2Datum(0), **color
            ),
            steps.mark_line(interpolate="step-after", strokeWidth=2).encode(
                **looks(runs, "color", "strokeDash", legend=True)
            ),
            alt.Chart().mark_rect(opacity=0).encode(**bar, tooltip=tips),
        ]
    return table, [*layers, _means(spread, runs, name, x)]


def _ecdf(
    counts: pl.DataFrame, spread: pl.DataFrame, runs: Runs, name: str, ends: tuple[float, float]
) -> tuple[pl.DataFrame, list[Any]]:
    alt = altair()
    whole = spread.select("run", "counted")
    risen = (
        counts.sort("run", "x")
        .with_columns(pl.col("number").cum_sum().over("run"))
        .join(whole, on="run")
        .select("run", "x", y=pl.col("number") / pl.col("counted"))
    )
    first, last = (
        whole.select("run", x=pl.lit(at), y=pl.lit(share))
        for at, share in zip(ends, (0.0, 1.0), strict=True)
    )
    table = pl.concat([first, risen, last]).sort("run", "x", "y")
    x = axis("X", "x", name, scale={"domain": [*ends], "nice": False}, grid=True)
    y = axis("Y", "y", "share of queries with at most this", format="%", scale={"domain": [0, 1]})
    tips = tooltip(("x", name, ".4f"), ("y", "share at most", ".2%"), of=runs)
    line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=2)
    return table, [
        line.encode(x=x, y=y, **looks(runs, "color", "strokeDash", legend=True)),
        alt.Chart().mark_point(opacity=0, size=60).encode(x=x, y=y, tooltip=tips),
        _means(spread, runs, name, x),
    ]


def _means(spread: pl.DataFrame, runs: Runs, name: str, x: Any) -> Any:
    alt = altair()
    means = spread.select("run", "counted", x="mean").filter(pl.col("x").is_not_null())
    tips = tooltip(("x", f"mean {name}", ".4f"), ("counted", "queries", ",d"), of=runs)
    rule = alt.Chart(means).mark_rule(strokeWidth=1.5)
    return rule.encode(x=x, tooltip=tips, **looks(runs, "color", "strokeDash"))
