"""Curves: metrics at every cutoff, cumulated gain, precision against recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.arguments import one_of, share, whole_number
from polars_rank.columns import check_there, collected, lazy, names, schema_of
from polars_rank.conventions import POLARS_RANK, named
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation import per_query
from polars_rank.measures.gains import cg, dcg, ideal_dcg
from polars_rank.measures.names import output_name, resolve
from polars_rank.measures.points import interpolated_precision
from polars_rank.reporting import curves
from polars_rank.reporting.plot.drawing import (
    ROWS,
    altair,
    axis,
    by_run,
    counted,
    layered,
    lines,
    something,
    told_undefined,
    tooltip,
    with_field,
)
from polars_rank.reporting.plot.runs import NEUTRAL, RUN, Runs, labelled, run_column
from polars_rank.reporting.plot.thinning import thinned
from polars_rank.statistics.intervals import Interval
from polars_rank.statistics.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import altair as alt

    from polars_rank.columns import Names
    from polars_rank.measures.gain import Discount, Gain
    from polars_rank.measures.metric import Metric
    from polars_rank.reporting.plot.runs import Colors

_INTERVALS = {
    "t": "Student's t",
    "normal": "normal",
    "bootstrap": "bootstrap",
    "studentized": "studentized bootstrap",
    "sequence": "confidence sequence",
}
#: Of a precision-recall curve: within a 400th of the recall, a pixel, nothing is to be seen.
_STEPS = 400


def at_k(
    frame: Any,
    metric: str | Metric | None = None,
    *,
    ks: Iterable[int] | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    interval: Interval = "t",
    confidence: float = 0.95,
    colors: Colors | None = None,
    **options: Any,
) -> alt.LayerChart:
    """Mean of a metric at every cutoff k: a line per run, with its intervals as a band.

    Parameters
    ----------
    frame
        A log; or the table that `rank_curve` returns, which has no intervals.
    metric
        A metric that takes a cutoff, without one: "ndcg" (the default for a log), `pr.recall()`;
        of a table, one of its columns.
    ks
        Cutoffs; of a log, 1 to 20 unless said otherwise, of a table all.
    run
        The column that tells runs apart; None for one line of all. "run" if there is such a column.
    baseline
        The run that is drawn first, and grey.
    interval, confidence
        As for `summarize`; interval="none" for lines alone.
    colors
        Colours of runs: `{"bm25": "#0072B2"}`.
    **options
        Of a log, options of `per_query`: names of columns, `ties`, `undefined`, `conventions`, ...

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate` and `summarize`; also for a metric with a cutoff, and where there is
        nothing to draw.
    MissingExtraError
        Without altair (extra "plot"), or what the interval needs (extra "stats").

    Notes
    -----
    An undefined list counts as in `evaluate`.

    Examples
    --------
    >>> log = pr.datasets.search_log(50)
    >>> chart = pr.plot.at_k(log, "ndcg", ks=range(1, 11), baseline="bm25")
    >>> chart.save("ndcg.png")  # doctest: +SKIP
    """
    altair()
    log = lazy(frame)
    schema = schema_of(log)
    if "k" in schema and "queries" in schema:
        _only_of_logs(options)
        name = column_of(schema, metric, ("k", "queries"))
        kept = log if ks is None else log.filter(pl.col("k").is_in([*ks]))
        columns = [column for column in [run_column(schema, run)] if column]
        table = collected(kept.select(*columns, "queries", x="k", y=pl.col(name).cast(pl.Float64)))
        table = table.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
        told = [f"mean of {counted(table.get_column('queries'))}"]
    else:
        measure = curves.curve_of(resolve("ndcg" if metric is None else metric)[0])
        cutoffs = [whole_number("ks", k) for k in (range(1, 21) if ks is None else ks)]
        name = output_name(measure)
        table, columns, told = _estimated(
            log, {k: measure.at(k) for k in cutoffs}, run, interval, confidence, options
        )
    table, runs = labelled(
        something(table, "y", name), columns, baseline=baseline, colors=colors, needed=True
    )
    x = axis("X", "x", "cutoff k", format="d", tickMinStep=1, scale=_FROM_FIRST)
    y = axis("Y", "y", f"mean {name}@k", scale={"zero": False})
    return _lines(table, runs, x, y, f"{name} at every cutoff", told, ("k", "d"))


def gain(
    frame: Any,
    *,
    k: int = 20,
    discount: bool | Discount = False,
    gain: Gain | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
    **options: Any,
) -> alt.LayerChart:
    """Cumulated gain against rank, with and without discount, beside that of the ideal list.

    Parameters
    ----------
    frame
        A log.
    k
        The last rank.
    discount
        False for cumulated gain (CG), True for DCG with 1 / log2(rank + 1), or a discount such as
        `pr.reciprocal`.
    gain
        What a label is worth, as for `pr.dcg`; None for what the conventions say.
    run, baseline, colors
        As for `at_k`.
    **options
        Options of `evaluate`: names of columns, `ties`, `conventions`, ...

    Returns
    -------
    altair.LayerChart
        The mean over queries for each run, and dashed that of the ideal order of all judged
        documents; one ideal line for runs that have the same.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `at_k`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> chart = pr.plot.gain(pr.datasets.search_log(50), k=10, discount=True)
    >>> chart.save("dcg.svg")  # doctest: +SKIP
    """
    alt = altair()
    log = lazy(frame)
    columns = _groups(log, run, options)
    worth = {} if gain is None else {"gain": gain}
    weigh = {} if discount is True else {"discount": discount or _undiscounted}
    measure = dcg(**worth, **weigh) if discount else cg(**worth)
    curve = curves.rank_curve(
        log,
        [measure.alias("y"), ideal_dcg(**worth, **weigh).alias("ideal")],
        range(1, whole_number("k", k) + 1),
        **_by(columns, options),
    )
    name = ("DCG" if discount else "CG") + "@k"
    table, runs = labelled(
        something(collected(curve).rename({"k": "x"}), "y", name), columns,
        baseline=baseline, colors=colors, needed=True,
    )  # fmt: skip
    _check_rows(table)
    ideals = table.group_by("x").agg(pl.col("ideal").max() - pl.col("ideal").min())
    alike = (ideals.get_column("ideal").max() or 0.0) < _ALIKE
    one = pl.col("run") == runs.labels[0]
    ideal = table.filter(one) if alike else table

    x = axis("X", "x", "rank k", format="d", tickMinStep=1, scale=_FROM_FIRST)
    y = axis("Y", "y", f"mean {name}", scale={"zero": True})
    tips = tooltip(
        *_run_tip(columns), ("x", "rank", "d"), ("y", name, ".4f"), ("ideal", "ideal", ".4f")
    )
    best = ideal.select("run", "x", "ideal")
    colored = {"color": alt.value(NEUTRAL)} if alike else {"color": by_run(runs)["color"]}
    end = best.filter(pl.col("x") == pl.col("x").max()).head(1)
    dashed = alt.Chart(best).mark_line(strokeWidth=1.5, strokeDash=[4, 3])
    label = alt.Chart(end).mark_text(align="right", dy=-9, fontSize=11, color=NEUTRAL)
    over = [
        dashed.encode(x=x, y=with_field(y, "ideal"), detail="run:N", **colored),
        label.encode(x=x, y=with_field(y, "ideal"), text=alt.value("ideal")),
    ]
    what = "discounted cumulated gain" if discount else "cumulated gain"
    bare = table.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
    return layered(
        bare.drop("ideal", *columns) if "run" not in columns else bare,
        [*over, *lines(bare, runs, x, y, tips)],
        title=f"{what.capitalize()} by rank",
        told=[_said(measure.at(k), options, table.get_column("queries"))],
    )


def interpolated(
    frame: Any,
    *,
    recalls: Iterable[float] | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    interval: Interval = "t",
    confidence: float = 0.95,
    colors: Colors | None = None,
    **options: Any,
) -> alt.LayerChart:
    """Interpolated precision against recall: the mean over queries at eleven points of recall.

    What trec_eval calls `iprec_at_recall`.

    Parameters
    ----------
    frame
        A log.
    recalls
        Points of recall, from 0 to 1; None for 0, 0.1, ..., 1.
    run, baseline, interval, confidence, colors
        As for `at_k`.
    **options
        Options of `per_query`: names of columns, `ties`, `relevant`, `undefined`, ...

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `at_k`.

    References
    ----------
    Harman, Overview of the second Text REtrieval Conference, 1993.

    Examples
    --------
    >>> chart = pr.plot.interpolated(pr.datasets.search_log(50), baseline="bm25")
    >>> chart.save("precision.png")  # doctest: +SKIP
    """
    altair()
    points = [tenth / 10 for tenth in range(11)] if recalls is None else [*recalls]
    asked = {point: interpolated_precision(recall=point) for point in points}
    table, columns, told = _estimated(lazy(frame), asked, run, interval, confidence, options)
    name = "interpolated precision"
    table, runs = labelled(
        something(table, "y", name), columns, baseline=baseline, colors=colors, needed=True
    )
    x = axis("X", "x", "recall", format=".1f", scale={"domain": [0, 1]}, grid=True)
    y = axis("Y", "y", f"mean {name}", scale={"zero": True})
    title = "Interpolated precision at recall"
    return _lines(table, runs, x, y, title, told, ("recall", ".2f"))


def pr_curve(
    frame: Any,
    *,
    by: Names | None = RUN,
    baseline: Any = None,
    score: str = "score",
    label: str = "label",
    relevant: float = 1,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Precision against recall at every score threshold, over all rows or per group.

    With the precision of a random order (dashed), the area under the curve in the legend, and the
    point of the best F1.

    Parameters
    ----------
    frame
        A log; or the table that `pr.pr_curve` returns.
    by
        The columns that split the table into one curve each; "run" if there is such a column.
    baseline, colors
        As for `at_k`; with several columns in `by`, a curve is called "a · b".
    score, label, relevant
        As for `pr.pr_curve`.

    Returns
    -------
    altair.LayerChart
        Of a curve of more points, those are kept that are first, last, highest and lowest, and of
        the best F1, in each of equal steps of recall: at most a few hundred, between which nothing
        is to be seen. Area and F1 are those of all points.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.pr_curve`; also where no document is relevant.

    References
    ----------
    Davis & Goadrich, The relationship between precision-recall and ROC curves, 2006.
    Jugel, Jerzak, Hackenbroich & Markl, M4: a visualization-oriented time series data aggregation,
    2014.

    Examples
    --------
    >>> chart = pr.plot.pr_curve(pr.datasets.search_log(50), by="run")
    >>> chart.save("precision_recall.png")  # doctest: +SKIP
    """
    alt = altair()
    log = lazy(frame)
    schema = schema_of(log)
    columns = [] if by is RUN and RUN not in schema else [*names("by", by)]
    if not {"threshold", "precision", "recall", "auc"} <= set(schema):
        log = curves.pr_curve(log, by=columns or None, score=score, label=label, relevant=relevant)
    points = log.select(*columns, *_POINTS).filter(pl.col("recall").is_not_null())
    table = collected(_few_points(points, columns, _STEPS))
    table = something(table, "recall", "precision and recall, for no document is relevant")
    table, runs = labelled(table, columns, baseline=baseline, colors=colors, needed=True)
    steps = ROWS // (2 * 8 * len(runs.labels))
    if table.height > ROWS // 2:
        table = collected(_few_points(table.lazy(), ["run"], steps), few=True)
    table = table.sort("run", "found").drop(set(columns) - {"run"})
    area = dict(table.group_by("run").agg(pl.col("auc").first()).iter_rows())
    if runs.several:
        renamed = {name: f"{name} (area {value:.3f})" for name, value in area.items()}
        runs = runs.called(lambda name: renamed.get(name, name))
        table = table.with_columns(pl.col("run").replace(renamed))
    # The area is that from precision 1 at recall 0.
    start = table.unique("run").with_columns(
        recall=pl.lit(0.0), precision=pl.lit(1.0), f1=pl.lit(0.0), found=pl.lit(0).cast(table.schema["found"]),
        threshold=pl.lit(None, table.schema["threshold"]),
    )  # fmt: skip
    curve = pl.concat([start, table]).sort("run", "found")
    best = table.filter(pl.col("f1") == pl.col("best_f1")).unique(
        "run", keep="first", maintain_order=True
    )
    chance = table.select("run", "no_skill").unique("run").sort("run")
    same = chance.get_column("no_skill").n_unique() == 1

    channels = by_run(runs)
    x = axis("X", "recall", "recall", scale={"domain": [0, 1]}, grid=True)
    y = axis("Y", "precision", "precision", scale={"domain": [0, 1]})
    tips = tooltip(
        *_run_tip(columns), ("threshold", "score of at least", ".4~g"), ("found", "found", ",d"),
        ("precision", "precision", ".4f"), ("recall", "recall", ".4f"), ("f1", "F1", ".4f"),
    )  # fmt: skip
    random = alt.Chart(chance.head(1) if same else chance)
    colored = {"color": alt.value(NEUTRAL)} if same else {"color": channels["color"]}
    layers = [
        random.mark_rule(strokeDash=[4, 3], strokeWidth=1.5).encode(
            y=with_field(y, "no_skill"), **colored, tooltip=tooltip(("no_skill", "no skill", ".4f"))
        ),
        alt.Chart().mark_line(strokeWidth=2, strokeJoin="round").encode(
            x=x, y=y, order=alt.Order(field="found", type="quantitative"),
            color=channels["color"], strokeDash=channels["dash"],
        ),
        alt.Chart().mark_point(filled=True, size=60, opacity=0).encode(
            x=x, y=y, color=channels["color"], tooltip=tips
        ),
        alt.Chart(best).mark_point(filled=True, size=90, stroke="white", strokeWidth=1, opacity=1).encode(
            x=x, y=y, color=channels["color"], shape=channels["shape"], tooltip=tips
        ),
    ]  # fmt: skip
    found = "" if runs.several else f"area {next(iter(area.values())):.3f} · "
    return layered(
        curve, layers, title="Precision and recall at every threshold",
        told=[f"{found}point: best F1 · dashed: no skill · relevant: label ≥ {relevant:g}"],
        height=320,
    )  # fmt: skip


_POINTS = (
    *("threshold", "found", "precision", "recall", "f1", "auc", "best_f1", "no_skill"),
)  # fmt: skip
#: A scale of cutoffs.
_FROM_FIRST = {"zero": False, "nice": False, "padding": 8}
#: Ideal lists that differ by less have the same judgments.
_ALIKE = 1e-9


def _few_points(points: pl.LazyFrame, groups: list[str], steps: int) -> pl.LazyFrame:
    ys = ("precision", "f1")
    return thinned(points, groups, pl.col("recall"), order="found", ys=ys, steps=steps)


def _undiscounted(rank: pl.Expr) -> pl.Expr:
    return rank * 0 + 1.0


def _lines(
    table: pl.DataFrame, runs: Runs, x: Any, y: Any, title: str, told: list[str],
    of_x: tuple[str, str],
) -> alt.LayerChart:  # fmt: skip
    """Return means by "x" as lines, with what is known of each."""
    _check_rows(table)
    known = table.get_column("low").is_not_null().any()
    tips = tooltip(
        *([("run", "run")] if runs.labels != ("",) else []),
        ("x", *of_x), ("y", y["title"], ".4f"),
        *([("low", "low", ".4f"), ("high", "high", ".4f")] if known else []),
        ("queries", "queries", ",d"),
    )  # fmt: skip
    rows = table.select("run", "x", "y", "low", "high", "queries")
    return layered(rows, lines(rows, runs, x, y, tips), title=title, told=told)


def _estimated(
    log: pl.LazyFrame,
    metrics: Mapping[Any, Metric],
    run: str | None,
    interval: Interval,
    confidence: float,
    options: dict[str, Any],
) -> tuple[pl.DataFrame, list[str], list[str]]:
    """Return the mean of each metric with its interval, by run; and what is to be said of it."""
    one_of("interval", interval, (*_INTERVALS, "none"))
    share("confidence", confidence)
    if not metrics:
        message = "there is nothing to draw: `ks` is empty; give at least one cutoff"
        raise ArgumentError(message)
    columns = _groups(log, run, options)
    asked = [*metrics.values()]
    agreed = named(options.get("conventions", POLARS_RANK))
    undefined = options.pop("undefined", None)
    lists = per_query(log, asked, **_by(columns, options))
    summary = summarize(
        lists, asked, by=columns, query=options.get("query", "query"), undefined=undefined,
        conventions=agreed, interval=interval, confidence=confidence,
    )  # fmt: skip
    at = {output_name(metric): point for point, metric in metrics.items()}
    found = collected(summary).with_columns(x=pl.col("metric").replace_strict(at), y="mean")
    said = [
        _said(asked[-1], options, found.get_column("queries"))
        + _undefined(found.get_column("undefined").max(), undefined, agreed, asked[-1])
    ]
    if interval != "none":
        said.append(f"band: {100 * confidence:g} % interval of the mean ({_INTERVALS[interval]})")
    return found, columns, said


def _groups(log: pl.LazyFrame, run: str | None, options: Mapping[str, Any]) -> list[str]:
    """Return the columns of the result that tell runs apart: one or none."""
    if "by" in options:
        message = "`by` does not go with a chart; name the column that splits it with run=..."
        raise ArgumentError(message)
    if options.get("scores"):
        return ["run"]
    column = run_column(schema_of(log), run)
    return [] if column is None else [column]


def _by(columns: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, "by": None if options.get("scores") else columns or None}


def _said(metric: Metric, options: Mapping[str, Any], queries: pl.Series) -> str:
    """Say of which metric, by whose conventions and over how many queries."""
    agreed = named(options.get("conventions", POLARS_RANK))
    applied = agreed.apply(metric)
    written = str(applied).partition("@")[0]
    whose = "" if agreed.name == POLARS_RANK.name else f" as {agreed.name} has it"
    return f"{written}{whose} · mean of {counted(queries)}"


def _undefined(number: Any, undefined: Any, agreed: Any, metric: Metric) -> str:
    rule = agreed.but(undefined=undefined).counts_as(metric)
    return told_undefined(int(number or 0), rule)


def _run_tip(columns: list[str]) -> list[tuple[str, str]]:
    return [("run", "run")] if columns else []


def column_of(schema: pl.Schema, metric: Any, taken: tuple[str, ...]) -> str:
    """Return the column of the metric of a table: that named, or the only one of floats."""
    if metric is not None:
        name = metric if isinstance(metric, str) else output_name(metric)
        check_there("metric", name, schema)
        return name
    found = [name for name, dtype in schema.items() if dtype.is_float() and name not in taken]
    if len(found) == 1:
        return found[0]
    message = f"name the column to draw with metric=...; there are {found or 'none of floats'}"
    raise SchemaError(message)


def _only_of_logs(options: Mapping[str, Any]) -> None:
    if options:
        message = f"`{next(iter(options))}` goes with a log; the table has its means already"
        raise ArgumentError(message)


def _check_rows(table: pl.DataFrame) -> None:
    if table.height > ROWS:
        message = (
            f"the chart would have {table.height:,} points, more than {ROWS:,}; give fewer cutoffs, "
            "such as ks=[1, 2, 5, 10, 20, 50, 100]"
        )
        raise ArgumentError(message)
