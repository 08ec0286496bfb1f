"""Values of single queries: how they are spread, and how those of two runs differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank.arguments import one_of, whole_number
from polars_rank.columns import OWN, Names, collected, lazy, names, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions, named
from polars_rank.errors import ArgumentError, DataError
from polars_rank.reporting.plot.drawing import (
    ROWS,
    altair,
    axis,
    by_run,
    counted,
    layered,
    something,
    told_undefined,
    tooltip,
)
from polars_rank.reporting.plot.runs import (
    NEUTRAL,
    RUN,
    Runs,
    label_of,
    labelled,
    run_column,
)
from polars_rank.statistics.lists import agreed_on, key_columns, variables
from polars_rank.statistics.pairs import is_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from polars_rank.conventions import Undefined
    from polars_rank.measures.metric import Metric
    from polars_rank.reporting.plot.runs import Colors

Kind: TypeAlias = Literal["histogram", "ecdf"]

#: Pairs of values that are drawn one by one; more are counted in cells.
SINGLE = 1_000
_SIDE = 40

_VALUE, _CELL = OWN + "value", OWN + "cell"


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
    found = _Values.of(lists, metric, run, (), undefined, conventions)
    groups = found.groups
    spread = collected(_grouped(found.rows, groups, _SPREAD))
    found.check(spread)
    spread, runs = labelled(spread, groups, baseline=baseline, colors=colors, needed=True)
    if bins * len(runs.labels) > ROWS:
        message = f"`bins` must be at most {ROWS // len(runs.labels):,} here; found {bins:,}"
        raise ArgumentError(message)
    low, high = _range(spread.get_column("low").min(), spread.get_column("high").max())
    draw = _histogram if kind == "histogram" else _ecdf
    steps = bins if kind == "histogram" else (ROWS // 2) // len(runs.labels)
    cell = ((pl.col(_VALUE) - low) / (high - low) * steps + _TINY).floor().clip(0, steps - 1)
    cells = found.rows.filter(pl.col(_VALUE).is_not_null()).with_columns(
        cell.cast(pl.Int64).alias("cell")
    )
    counts = collected(
        cells.group_by([*groups, "cell"]).agg(pl.len().alias("number"), x=pl.col(_VALUE).max())
    )
    counts, _ = labelled(counts, groups)
    width = (high - low) / steps
    layers, data = draw(counts, spread, runs, found.name, low, high, width, steps)
    what = "Distribution" if kind == "histogram" else "Cumulative distribution"
    return layered(
        data, layers, title=f"{what} of {found.name} over queries",
        told=[found.said(spread) + " · rule: mean"],
    )  # fmt: skip


def _histogram(
    counts: pl.DataFrame, spread: pl.DataFrame, runs: Runs, name: str, low: float, high: float,
    width: float, steps: int,
) -> tuple[list[Any], pl.DataFrame]:  # fmt: skip
    alt = altair()
    whole = spread.select("run", "counted")
    grid = whole.join(pl.DataFrame({"cell": range(steps)}, schema={"cell": pl.Int64}), how="cross")
    table = (
        grid.join(counts.drop("x"), on=["run", "cell"], how="left")
        .with_columns(pl.col("number").fill_null(0), x=low + pl.col("cell") * width)
        .select(
            "run", "x", "number", end=pl.col("x") + width, y=pl.col("number") / pl.col("counted")
        )
        .sort("run", "x")
    )
    channels = by_run(runs)
    x = axis("X", "x", name, scale={"domain": [low, high], "nice": False})
    y = axis("Y", "y", "share of queries", format="%")
    tips = tooltip(
        *_run_tip(runs), ("x", "from", ".4~g"), ("end", "below", ".4~g"),
        ("number", "queries", ",d"), ("y", "share", ".2%"),
    )  # fmt: skip
    bars = alt.Chart().mark_bar(opacity=0.75, binSpacing=1)
    if runs.several:
        last = table.group_by("run").agg(pl.all().sort_by("x").last())
        last = last.with_columns(x=pl.col("end"))
        outline = pl.concat([table, last.select(table.columns)]).sort("run", "x")
        step = alt.Chart(outline).encode(x=x, y=y, color=channels["color"])
        layers = [
            step.mark_area(interpolate="step-after", opacity=0.12, strokeWidth=0),
            step.mark_line(interpolate="step-after", strokeWidth=2).encode(
                strokeDash=channels["dash"]
            ),
            bars.mark_bar(opacity=0).encode(x=x, x2="end", y=y, tooltip=tips),
        ]
    else:
        layers = [bars.encode(x=x, x2="end", y=y, color=channels["color"], tooltip=tips)]
    return [*layers, _means(spread, name, x, channels)], table


def _ecdf(
    counts: pl.DataFrame, spread: pl.DataFrame, runs: Runs, name: str, low: float, high: float,
    _width: float, _steps: int,
) -> tuple[list[Any], pl.DataFrame]:  # fmt: skip
    alt = altair()
    whole = spread.select("run", pl.col("counted"))
    risen = (
        counts.sort("run", "x")
        .with_columns(number=pl.col("number").cum_sum().over("run"))
        .join(whole, on="run")
        .select("run", "x", "number", y=pl.col("number") / pl.col("counted"))
    )
    ends = [(low, 0.0), (high, 1.0)]
    beside = [
        whole.select(
            "run", x=pl.lit(at), y=pl.lit(share),
            number=(pl.col("counted") * share).round().cast(risen.schema["number"]),
        ).select(risen.columns)
        for at, share in ends
    ]  # fmt: skip
    table = pl.concat([beside[0], risen, beside[1]]).sort("run", "x", "y")
    channels = by_run(runs)
    x = axis("X", "x", name, scale={"domain": [low, high], "nice": False}, grid=True)
    y = axis("Y", "y", "share of queries with at most this", format="%", scale={"domain": [0, 1]})
    tips = tooltip(*_run_tip(runs), ("x", name, ".4f"), ("y", "share at most", ".2%"))
    line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=2)
    layers = [
        line.encode(x=x, y=y, color=channels["color"], strokeDash=channels["dash"]),
        alt.Chart().mark_point(opacity=0, size=60).encode(x=x, y=y, tooltip=tips),
        _means(spread, name, x, channels),
    ]
    return layers, table


def _means(spread: pl.DataFrame, name: str, x: Any, channels: Mapping[str, Any]) -> Any:
    alt = altair()
    means = spread.select("run", "counted", x="mean").filter(pl.col("x").is_not_null())
    tips = tooltip(("run", "run"), ("x", f"mean {name}", ".4f"), ("counted", "queries", ",d"))
    return (
        alt.Chart(means)
        .mark_rule(strokeWidth=1.5)
        .encode(x=x, color=channels["color"], strokeDash=channels["dash"], tooltip=tips)
    )


def differences(
    lists: Any,
    metric: str | Metric | None = None,
    *,
    baseline: Any,
    run: str = "run",
    query: Names = "query",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Differences from the baseline, query by query, from the greatest gain to the greatest loss.

    Parameters
    ----------
    lists
        What `per_query` returns of several runs.
    metric
        The column to draw; None if there is one only.
    baseline, run, query
        As for `compare`; only queries that both runs have are drawn.
    undefined, conventions
        As for `summarize`: as what an undefined value counts.
    colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        A bar per query; of more than a thousand, a bar for those queries that have nearly the
        same difference, as wide as they are many. Of several runs, a line each.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.distribution` and `compare`.

    Notes
    -----
    The table is read twice.

    Examples
    --------
    >>> lists = pr.per_query(pr.datasets.search_log(50), "ndcg@10", by="run").collect()
    >>> chart = pr.plot.differences(lists, "ndcg@10", baseline="bm25")
    >>> chart.save("differences.png")  # doctest: +SKIP
    """
    alt = altair()
    found = _Values.of(lists, metric, run, query, undefined, conventions)
    pairs = found.beside(baseline).with_columns(
        (pl.col(_VALUE) - pl.col(_BASELINE)).alias("difference")
    )
    spread = found.paired(pairs)
    spread, runs = labelled(spread, found.groups, colors=colors)
    total = int(spread.get_column("counted").sum())
    if total <= SINGLE:
        bars = _single(pairs, found)
    else:
        bars = _cells(pairs, found.groups, spread, (ROWS // 2) // len(runs.labels))
    bars, _ = labelled(bars, found.groups)
    after = pl.col("number").cum_sum().over("run")
    bars = bars.sort("run", "y", descending=[False, True]).with_columns(
        start=after - pl.col("number"), end=after
    )
    told = [
        f"{label}: higher on {higher:,}, the same on {same:,}, lower on {lower:,} "
        f"of {counted([number])} · mean {mean:+.4f}"
        for label, higher, same, lower, number, mean in spread.sort("run")
        .select("run", "wins", "ties", "losses", "counted", "mean")
        .head(4)
        .iter_rows()
    ]
    channels = by_run(runs)
    x = axis("X", "start", "queries, by difference", format=",d", scale={"nice": False})
    y = axis("Y", "y", f"difference of {found.name}", format="+.2~f")
    tips = tooltip(
        *_run_tip(runs),
        *([("query", "query")] if "query" in bars.columns else [("number", "queries", ",d")]),
        ("y", "difference", "+.4f"),
    )  # fmt: skip
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(color=NEUTRAL).encode(y=y)
    shown = bars.drop([name for name in found.groups if name != "run"])
    if runs.several:
        last = shown.group_by("run").agg(pl.all().sort_by("end").last())
        last = last.with_columns(start="end").select(shown.columns)
        step = alt.Chart(pl.concat([shown, last]).sort("run", "start", "end"))
        layers = [
            step.mark_line(interpolate="step-after", strokeWidth=2).encode(
                x=x, y=y, color=channels["color"], strokeDash=channels["dash"], tooltip=tips
            )
        ]
    else:
        color = alt.value(runs.colors[0])
        bar = alt.Chart().mark_rect(opacity=0.85, strokeWidth=0)
        layers = [bar.encode(x=x, x2="end", y=y, y2=alt.datum(0), color=color, tooltip=tips)]
    which = "the runs" if runs.several else runs.labels[0]
    return layered(
        shown, [*layers, zero], told=told,
        title=f"{found.name}: {which} against {label_of(baseline)}, query by query",
    )  # fmt: skip


def _single(pairs: pl.LazyFrame, found: _Values) -> pl.DataFrame:
    """Return a bar for each query."""
    name = pl.concat_str(
        [pl.col(each).cast(pl.String).fill_null("null") for each in found.query], separator=" · "
    )
    return collected(
        pairs.filter(pl.col("difference").is_not_null())
        .select(*found.groups, y="difference", query=name, number=pl.lit(1))
        .sort("y", "query", descending=[True, False])
    )


def _cells(
    pairs: pl.LazyFrame, groups: Sequence[str], spread: pl.DataFrame, cells: int
) -> pl.DataFrame:
    """Return a bar for the queries of each cell of differences; 0 is a cell of its own."""
    highest = max(abs(spread.get_column("low").min()), abs(spread.get_column("high").max()))  # type: ignore[arg-type]
    width = 2 * (highest or 1.0) / (cells - 1)
    difference = pl.col("difference")
    cell = (difference.abs() / width - _TINY).ceil() * difference.sign()
    counts = (
        pairs.filter(difference.is_not_null())
        .group_by([*groups, cell.cast(pl.Int64).alias(_CELL)])
        .agg(pl.len().alias("number"), y=difference.mean())
    )
    return collected(counts.drop(_CELL))


def scatter(
    lists: Any,
    metric: str | Metric | None = None,
    *,
    x: Any = None,
    y: Any = None,
    run: str = "run",
    query: Names = "query",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """One run against another, query by query.

    Parameters
    ----------
    lists
        What `per_query` returns of several runs.
    metric
        The column to draw; None if there is one only.
    x, y
        The runs; of two runs that there are, the first in order is x unless said otherwise.
    run, query
        As for `compare`; only queries that both runs have are drawn.
    undefined, conventions
        As for `summarize`: as what an undefined value counts.
    colors
        As for `pr.plot.at_k`: that of y is the colour of the points.

    Returns
    -------
    altair.LayerChart
        A point per query; of more than a thousand, 40 x 40 cells coloured by the number of queries
        in them. On the dashed line, both runs are alike.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.distribution` and `compare`.

    Examples
    --------
    >>> lists = pr.per_query(pr.datasets.search_log(50), "ndcg@10", by="run").collect()
    >>> chart = pr.plot.scatter(lists, "ndcg@10", x="bm25", y="neural")
    >>> chart.save("runs.png")  # doctest: +SKIP
    """
    alt = altair()
    found = _Values.of(lists, metric, run, query, undefined, conventions)
    first, second = found.two(x, y)
    pairs = found.beside(first, second)
    spread = found.paired(pairs.with_columns(difference=pl.col(_VALUE) - pl.col(_BASELINE)))
    number, wins, ties, losses = spread.select("counted", "wins", "ties", "losses").row(0)
    both = pairs.filter(pl.col(_VALUE).is_not_null() & pl.col(_BASELINE).is_not_null())
    ends = spread.select(
        pl.min_horizontal("least", "least of baseline"),
        pl.max_horizontal("most", "most of baseline"),
    ).row(0)
    low, high = _range(*ends)
    a, b = label_of(first), label_of(second)
    scale = {"domain": [low, high], "nice": False}
    across = axis("X", "x", f"{found.name} of {a}", scale=scale, grid=True)
    up = axis("Y", "y", f"{found.name} of {b}", scale=scale)
    if number <= SINGLE:
        name = pl.concat_str(
            [pl.col(each).cast(pl.String).fill_null("null") for each in found.query],
            separator=" · ",
        )
        data = collected(both.select(query=name, x=_BASELINE, y=_VALUE).sort("x", "y", "query"))
        tips = tooltip(("query", "query"), ("x", a, ".4f"), ("y", b, ".4f"))
        color = Runs.of(sorted([a, b]), a, colors).color_of(b)
        mark = alt.Chart().mark_point(filled=True, size=36, opacity=0.5, color=color)
        cells = mark.encode(x=across, y=up, tooltip=tips)
    else:
        data = _grid(both, low, high)
        tips = tooltip(
            ("x", f"{a} from", ".3f"), ("x2", "below", ".3f"), ("y", f"{b} from", ".3f"),
            ("y2", "below", ".3f"), ("number", "queries", ",d"),
        )  # fmt: skip
        shade = alt.Color(
            field="number", type="quantitative", title="queries",
            scale=alt.Scale(type="log", scheme="viridis", domainMin=1),
            legend=alt.Legend(format=",~s", labelFontSize=11, titleFontSize=11, gradientLength=180),
        )  # fmt: skip
        mark = alt.Chart().mark_rect(strokeWidth=0)
        cells = mark.encode(x=across, x2="x2", y=up, y2="y2", color=shade, tooltip=tips)
    line = pl.DataFrame({"x": [low, high], "y": [low, high]})
    same = alt.Chart(line).mark_line(strokeDash=[4, 3], color=NEUTRAL, strokeWidth=1.5)
    return layered(
        data, [cells, same.encode(x=across, y=up)], width=340, height=340,
        title=f"{found.name} of {b} against {a}",
        told=[
            f"{b}: higher on {wins:,}, the same on {ties:,}, lower on {losses:,} "
            f"of {counted([number])}"
        ],
    )  # fmt: skip


def _grid(both: pl.LazyFrame, low: float, high: float) -> pl.DataFrame:
    """Return how many queries there are in each cell of the two values."""
    width = (high - low) / _SIDE

    def cell(column: str) -> pl.Expr:
        return ((pl.col(column) - low) / width + _TINY).floor().clip(0, _SIDE - 1)

    counts = both.group_by(i=cell(_BASELINE), j=cell(_VALUE)).agg(pl.len().alias("number"))
    x, y = low + pl.col("i") * width, low + pl.col("j") * width
    return collected(counts.sort("i", "j").select("number", x=x, x2=x + width, y=y, y2=y + width))


class _Values(NamedTuple):
    """The values of one metric: as what they count, with the columns that tell lists apart."""

    rows: pl.LazyFrame
    name: str
    groups: list[str]
    query: list[str]
    rule: str

    @classmethod
    def of(
        cls,
        lists: Any,
        metric: Any,
        run: str | None,
        query: Names,
        undefined: Any,
        conventions: Conventions | str,
    ) -> _Values:
        """Return the values of a table of lists, its columns checked."""
        rows = lazy(lists)
        schema = schema_of(rows)
        agreed = agreed_on(named(conventions), undefined)
        column = run_column(schema, run)
        keys = key_columns(schema, run=column, query=query)
        taken = [name for several in keys.values() for name in several]
        asked = variables(schema, None if metric is None else [metric], agreed, taken)
        if len(asked) > 1:
            there = ", ".join(repr(each.name) for each in asked)
            message = f"name the metric to draw; there are {there}"
            raise ArgumentError(message)
        variable = asked[0]
        picked = rows.select(
            *taken,
            variable.value.alias(_VALUE),
            pl.col(variable.name).is_null().alias(_UNDEFINED),
        )
        return cls(picked, variable.name, [*keys["run"]], [*keys["query"]], variable.counts_as)

    def check(self, spread: pl.DataFrame) -> None:
        """Raise `DataError` where there is nothing to draw, or values are no numbers."""
        bad = spread.get_column("bad").sum()
        if bad:
            message = (
                f"{bad:,} rows: NaN or infinite values in the column {self.name!r}; use null for "
                f"'undefined', as in pl.col({self.name!r}).fill_nan(None)"
            )
            raise DataError(message)
        something(spread, "low", f"value of {self.name}")

    def said(self, spread: pl.DataFrame) -> str:
        """Say over how many queries, and as what undefined values count."""
        undefined = int(spread.get_column("undefined").max() or 0)  # type: ignore[arg-type]
        told = counted(spread.get_column("queries"))
        return told + told_undefined(undefined, self.rule)

    def two(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the two runs to be drawn against each other."""
        if x is not None and y is not None:
            return x, y
        runs = collected(self.rows.select(self.groups).unique().sort(self.groups))
        there = runs.get_column(self.groups[0]).to_list()
        if len(there) != 2:  # noqa: PLR2004
            message = f"name the runs with x=... and y=...; there are {there[:10]}"
            raise ArgumentError(message)
        if x is not None:
            return x, next(each for each in there if each != x)
        if y is not None:
            return next(each for each in there if each != y), y
        return there[0], there[1]

    def beside(self, baseline: Any, other: Any = None) -> pl.LazyFrame:
        """Return the value of each query beside the baseline's, of all other runs or of one."""
        (run,) = self.groups
        dtype = schema_of(self.rows)[run]
        lists = self.rows.group_by([run, *self.query]).agg(
            pl.col(_VALUE).first(), pl.col(_UNDEFINED).first(), pl.len().alias(_TIMES)
        )
        is_baseline = is_run(run, dtype, baseline)
        base = lists.filter(is_baseline).select(
            *self.query,
            pl.col(_VALUE).alias(_BASELINE),
            pl.col(_UNDEFINED).alias(_UNDEFINED + " base"),
            pl.col(_TIMES).alias(_TIMES + " base"),
        )
        others = lists.filter(~is_baseline if other is None else is_run(run, dtype, other))
        pairs = others.join(base, on=self.query, how="inner", nulls_equal=True)
        return pairs.select(
            run, *self.query, _VALUE, _BASELINE,
            pl.max_horizontal(_TIMES, _TIMES + " base").alias(_TIMES),
            pl.any_horizontal(_UNDEFINED, _UNDEFINED + " base").alias(_UNDEFINED),
        )  # fmt: skip

    def paired(self, pairs: pl.LazyFrame) -> pl.DataFrame:
        """Return what is to be known of the differences of each run; raise where they are none."""
        difference = pl.col("difference")
        spread = collected(
            _grouped(
                pairs,
                self.groups,
                [
                    pl.len().alias("queries"),
                    difference.count().alias("counted"),
                    pl.col(_UNDEFINED).sum().alias("undefined"),
                    pl.col(_TIMES).max().alias("times"),
                    (~difference.is_finite()).sum().alias("bad"),
                    difference.min().alias("low"),
                    difference.max().alias("high"),
                    difference.mean().alias("mean"),
                    (difference > 0).sum().alias("wins"),
                    (difference == 0).sum().alias("ties"),
                    (difference < 0).sum().alias("losses"),
                    pl.col(_VALUE).min().alias("least"),
                    pl.col(_VALUE).max().alias("most"),
                    pl.col(_BASELINE).min().alias("least of baseline"),
                    pl.col(_BASELINE).max().alias("most of baseline"),
                ],
            )
        )
        if not spread.height:
            message = (
                f"there is nothing to draw: no query has a list in both runs; name the runs by "
                f"values of the column {self.groups[0]!r}"
            )
            raise DataError(message)
        if (spread.get_column("times") > 1).any():
            message = (
                f"a query has several lists in one run; name all columns of its id with query=..., "
                f"of which there is {self.query}"
            )
            raise DataError(message)
        self.check(spread)
        return spread


_UNDEFINED, _TIMES, _BASELINE = OWN + "undefined", OWN + "times", OWN + "baseline"
#: What rounding may take from a value that is on the edge of two cells.
_TINY = 1e-9
_SPREAD = [
    pl.len().alias("queries"),
    pl.col(_VALUE).count().alias("counted"),
    pl.col(_UNDEFINED).sum().alias("undefined"),
    (~pl.col(_VALUE).is_finite()).sum().alias("bad"),
    pl.col(_VALUE).min().alias("low"),
    pl.col(_VALUE).max().alias("high"),
    pl.col(_VALUE).mean().alias("mean"),
]


def _grouped(rows: pl.LazyFrame, groups: Sequence[str], values: list[pl.Expr]) -> pl.LazyFrame:
    return rows.group_by(groups).agg(values) if groups else rows.select(values)


def _range(low: Any, high: Any) -> tuple[float, float]:
    """Return the range of an axis: from 0 to 1 for values within."""
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _run_tip(runs: Runs) -> list[tuple[str, str]]:
    return [("run", "run")] if runs.labels != ("",) else []
