"""Charts: their data against the library's tables and by hand, limits, names, colours, pictures."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from datetime import date, datetime, timezone
from math import log2
from statistics import mean
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import polars_rank as pr
import pytest
import vl_convert
from polars.testing import assert_frame_equal
from polars_rank.plot import drawing, run_styles
from tables import by_query

if TYPE_CHECKING:
    import altair

#: Text that would be a path, a formula or markup, if anything read it as more than a name.
ODD = "a.b[0]:'\"\\"
MARKUP = "<!--<script></script><b><img src=x onerror=alert(1)>ü\0\u2028\u202e"

#: A chart, or its specification.
Chart: TypeAlias = "altair.LayerChart | dict"


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    return pr.datasets.search_log(80, runs=["bm25", "mixed", "neural"], seed=1).collect()


@pytest.fixture(scope="module")
def lists(log: pl.DataFrame) -> pl.DataFrame:
    return pr.per_query(log, ["ndcg@10", "rr"], by=["run", "country"])


def many_times(lists: pl.DataFrame) -> pl.DataFrame:
    """Return the same values of 13 times the 80 queries: more than are drawn one by one."""
    return pl.concat(
        lists.with_columns(pl.format("{}-{}", "query", pl.lit(copy)).alias("query"))
        for copy in range(13)
    )


def spec_of(chart: Chart) -> dict:
    """The specification of a chart, or the one that is given; `specs` validates each kind."""
    return chart if isinstance(chart, dict) else chart.to_dict(validate=False)


def datasets(chart: Chart) -> list[list[dict[str, object]]]:
    return list(spec_of(chart)["datasets"].values())


def rows_of(chart: Chart, *columns: str) -> pl.DataFrame:
    """The rows of the layer that has these columns."""
    for rows in datasets(chart):
        if set(columns) <= set(rows[0]):
            return pl.DataFrame(rows, infer_schema_length=None).select(columns)
    raise AssertionError(columns)


def size(chart: Chart) -> int:
    return sum(map(len, datasets(chart)))


def subtitle(chart: Chart) -> str:
    return " | ".join(spec_of(chart)["title"].get("subtitle", []))


def title(chart: Chart) -> str:
    return spec_of(chart)["title"]["text"]


def scales(chart: Chart, channel: str = "color") -> dict[str, object]:
    """From run to colour (dash, shape), as the first scale of the chart has it."""
    for layer in spec_of(chart)["layer"]:
        scale = layer.get("encoding", {}).get(channel, {}).get("scale", {})
        if "domain" in scale:
            return dict(zip(scale["domain"], scale["range"], strict=True))
    raise AssertionError(channel)


def every_chart(
    log: pl.DataFrame, lists: pl.DataFrame, run: str = "run", query: str = "query"
) -> dict[str, altair.LayerChart]:
    """A chart of each kind, of a log and lists with runs of any names."""
    base = lists[run].drop_nulls().min()
    one = lists.drop("rr")
    by = {"by": run, "query": query}
    daily = log.with_columns(
        day=pl.lit(date(2026, 1, 1)).dt.offset_by(pl.format("{}d", pl.col(query).rank("dense") % 9))
    )
    daily = pr.per_query(daily, "ndcg@10", by=[run, "day"], query=query)
    named = {"run": run, "baseline": base}
    sliced = pr.compare(one, baseline=base, slices="country", min_queries=5, run=run, query=query)
    unjudged = pr.diagnostics.judgment_bounds(log, ["ndcg@10", "ap"], **by)
    board = pr.leaderboard(lists, run=run, query=query)
    exact = log.filter(pl.col(run) == base).drop(run)
    fidelity = pr.diagnostics.fidelity(
        exact, log.with_columns(latency=pl.col(run).is_null() + 1.0), [1, 5], tolerance=None,
        details=True, run=run, query=query,
    )  # fmt: skip
    return {
        "at_k": pr.plot.at_k(log, query=query, **named),
        "pr_curve": pr.plot.pr_curve(log, run=run, baseline=base),
        "histogram": pr.plot.distribution(one, **named),
        "ecdf": pr.plot.distribution(one, kind="ecdf", **named),
        "differences": pr.plot.differences(one, query=query, **named),
        "means": pr.plot.intervals(pr.summarize(lists, run=run, query=query), **named),
        "comparison": pr.plot.intervals(pr.compare(lists, query=query, **named), **named),
        "slices": pr.plot.slices(sliced, run=run),
        "over_time": pr.plot.over_time(
            pr.summarize(daily, run=run, by="day", query=query), **named
        ),
        "ties": pr.plot.bounds(pr.diagnostics.tie_bands(log, ["ndcg@10", "ap"], **by), **named),
        "judgments": pr.plot.bounds(unjudged, **named),
        "fidelity": pr.plot.fidelity(fidelity, run=run),
        "leaderboard": pr.plot.leaderboard(board, "rr", run=run),
        "ranks": pr.plot.leaderboard(board, "rr", kind="ranks", run=run),
    }  # fmt: skip


@pytest.fixture(scope="module")
def charts(log: pl.DataFrame, lists: pl.DataFrame) -> dict[str, altair.LayerChart]:
    return every_chart(log, lists)


@pytest.fixture(scope="module")
def specs(charts: dict[str, altair.LayerChart]) -> dict[str, dict]:
    """The specification of each kind of chart, validated."""
    return {name: chart.to_dict() for name, chart in charts.items()}


class TestValues:
    def test_at_k_is_the_rank_curve_with_intervals_of_summarize(self, log: pl.DataFrame) -> None:
        chart = pr.plot.at_k(log, "ndcg", ks=[1, 3, 10], confidence=0.9)
        result = rows_of(chart, "run", "x", "y", "low", "high", "queries")

        curve = pr.rank_curve(log, "ndcg", [1, 3, 10], by="run").rename({"k": "x", "ndcg": "y"})
        assert_frame_equal(
            result.select("run", "x", "queries", "y"), curve.select("run", "x", "queries", "y"),
            check_row_order=False, check_dtypes=False, rel_tol=1e-12,
        )  # fmt: skip
        lists = pr.per_query(log, "ndcg@3", by="run")
        intervals = pr.summarize(lists, confidence=0.9).select("run", "low", "high")
        assert_frame_equal(
            result.filter(x=3).select("run", "low", "high"), intervals, check_row_order=False
        )

    def test_at_k_of_a_table_has_its_values_and_no_band(self, log: pl.DataFrame) -> None:
        table = pr.rank_curve(log, ["recall", "p"], range(1, 6), by="run")
        chart = pr.plot.at_k(table, "recall", ks=[2, 4])
        result = rows_of(chart, "run", "x", "y", "low")
        expected = table.filter(pl.col("k").is_in([2, 4])).sort("run", "k")
        assert result["y"].to_list() == expected["recall"].to_list()
        assert result["low"].null_count() == 6
        assert not [layer for layer in chart.to_dict()["layer"] if layer["mark"]["type"] == "area"]

    def test_pr_curve_has_points_area_and_best_f1_of_the_table(self, log: pl.DataFrame) -> None:
        chart = pr.plot.pr_curve(log)
        table = pr.pr_curve(log)
        area = table.group_by("run").agg(pl.col("auc").first()).sort("run")
        names = [f"{run} (area {auc:.3f})" for run, auc in area.iter_rows()]
        assert [*scales(chart)] == names

        drawn = rows_of(chart, "run", "found", "precision", "recall", "f1").filter(run=names[0])
        assert drawn.row(0)[1:4] == (0, 1.0, 0.0)
        theirs = table.filter(run="bm25").select("found", "precision", "recall", "f1")
        both = drawn.drop("run")[1:].join(theirs, on="found", suffix=" there")
        assert both.height == drawn.height - 1
        for name in ("precision", "recall", "f1"):
            assert (both[name] - both[name + " there"]).abs().max() == pytest.approx(0, abs=1e-12)
        best = [r for r in datasets(chart) if len(r) == 3 and "best_f1" in r[0]][0]
        assert {row["run"]: row["f1"] for row in best} == {
            f"{run} (area {auc:.3f})": f1
            for run, auc, f1 in table.group_by("run").agg(pl.col("auc", "best_f1").first()).rows()
        }
        for one, other in zip(datasets(pr.plot.pr_curve(table)), datasets(chart), strict=True):
            assert_frame_equal(pl.DataFrame(one), pl.DataFrame(other))  # sums of threads differ

    def test_pr_curve_by_hand(self) -> None:
        log = pl.DataFrame({"score": [0.6, 0.5, 0.1, 0.1, 0.1], "label": [1, 1, 0, 0, 1]})
        chart = pr.plot.pr_curve(log)
        result = rows_of(chart, "found", "precision", "recall")
        assert result.rows() == [(0, 1, 0), (1, 1, 1 / 3), (2, 1, 2 / 3), (5, 0.6, 1)]
        assert rows_of(chart, "no_skill")["no_skill"].to_list() == [0.6]
        assert "area 0.933" in subtitle(chart)

    def test_thinned_curves_keep_ends_extremes_and_best_f1(self) -> None:
        log = pr.datasets.search_log(1500, 40, runs=1).with_columns(
            score=pl.col("score") + (pl.col("doc").hash() % 10_000) / 1e7
        ).collect()  # fmt: skip
        table = pr.pr_curve(log)
        assert table.height > 20_000
        chart = pr.plot.pr_curve(log, run=None)
        result = rows_of(chart, "found", "precision", "recall", "f1")
        assert size(chart) <= drawing.ROWS
        assert result["found"].max() == table["found"].max()
        assert result["f1"].max() == table["best_f1"][0]
        assert result["precision"].min() == table["precision"].min()
        # The line through the points left is that through all, to a pixel.
        line = result.sort("recall", "found")
        near = table.select("recall", "precision").sort("recall").join_asof(
            line.select("recall", nearest="precision"), on="recall", strategy="nearest"
        ).filter(pl.col("recall") > 0.02)  # fmt: skip
        assert (near["precision"] - near["nearest"]).abs().max() < 0.01

    def test_histogram_by_hand(self) -> None:
        lists = pl.DataFrame({"rr": [0.0, 0.5, 0.5, 1.0, None]})
        chart = pr.plot.distribution(lists, bins=4)
        result = rows_of(chart, "x", "end", "number", "y")
        # 1.0 is in the last bin, null does not count; the last row ends the line.
        assert result.rows() == [
            (0.0, 0.25, 1, 0.25), (0.25, 0.5, 0, 0.0), (0.5, 0.75, 2, 0.5), (0.75, 1.0, 1, 0.25),
            (1.0, 1.0, 1, 0.25),
        ]  # fmt: skip
        means = [rows for rows in datasets(chart) if len(rows) == 1][0]
        assert means[0]["x"] == mean([0, 0.5, 0.5, 1])
        assert "1 undefined, skipped" in subtitle(chart)

    def test_values_on_the_edge_of_a_bin_are_in_the_upper_one(self) -> None:
        values = [step / 100 for step in range(100)]
        chart = pr.plot.distribution(pl.DataFrame({"p@5": values}), bins=100)
        assert rows_of(chart, "number")["number"].to_list() == [1] * 101

    def test_ecdf_is_exact(self, lists: pl.DataFrame) -> None:
        chart = pr.plot.distribution(lists, "rr", kind="ecdf")
        values = lists.filter(run="bm25")["rr"].fill_null(0).to_list()
        for x, y in rows_of(chart, "run", "x", "y").filter(run="bm25").drop("run")[1:].rows():
            assert y == pytest.approx(sum(value <= x for value in values) / len(values))

    @pytest.mark.filterwarnings("ignore:more than 5% of the queries")
    def test_differences_by_hand(self) -> None:
        lists = pl.DataFrame({
            "run": ["a"] * 5 + ["b"] * 5, "query": [1, 2, 3, 4, 5, 5, 4, 3, 2, 6],
            "rr": [0.5, 0.5, 1.0, 0.0, 0.2, 0.1, 0.5, 0.25, 1.0, 1.0],
        })  # fmt: skip
        chart = pr.plot.differences(lists, baseline="a")
        result = rows_of(chart, "query", "start", "end", "y")
        # Query 2: 1 - 0.5; 4: 0.5 - 0; 5: 0.1 - 0.2; 3: 0.25 - 1; 1 and 6: in one only.
        assert result.rows() == [
            ("2", 0, 1, 0.5), ("4", 1, 2, 0.5), ("5", 2, 3, -0.1), ("3", 3, 4, -0.75),
            ("3", 4, 4, -0.75),
        ]  # fmt: skip
        assert subtitle(chart) == (
            "b: 2 higher, 0 equal, 2 lower · mean difference +0.0375 | 4 queries"
        )
        table = pr.compare(lists, baseline="a")
        assert table["difference"].item() == pytest.approx(0.0375)

    def test_many_differences_keep_sum_outcomes_and_order(self, lists: pl.DataFrame) -> None:
        one = many_times(lists.select("run", "query", "rr"))
        exact = pr.compare(one, baseline="bm25", details=True)
        chart = pr.plot.differences(one, baseline="bm25")
        result = rows_of(chart, "run", "start", "end", "number", "y").filter(
            pl.col("start") < pl.col("end")
        )
        for run, difference, wins, ties, losses in exact.select(
            "run", "difference", "wins", "ties", "losses"
        ).rows():
            bars = result.filter(run=run)
            assert (bars["y"] * bars["number"]).sum() / 1040 == pytest.approx(difference)
            assert bars.filter(pl.col("y") > 0)["number"].sum() == wins
            assert bars.filter(pl.col("y") == 0)["number"].sum() == ties
            assert bars.filter(pl.col("y") < 0)["number"].sum() == losses
            assert bars["y"].is_sorted(descending=True)
            assert bars["end"].to_list()[:-1] == bars["start"].to_list()[1:]

    def test_better_is_green_and_worse_is_red(self, lists: pl.DataFrame) -> None:
        two = lists.filter(pl.col("run") != "mixed")
        colors = [run_styles.HIGHER, run_styles.LOWER]
        for column, metric, direction in (
            ("rr", "rr", ""), ("fall_out@2", "fall_out@2", " (lower is better)"),
            ("x", pr.fall_out(2).alias("x"), " (lower is better)"),
            ("x", "x", " (higher is better)"),
        ):  # fmt: skip
            chart = pr.plot.differences(two.rename({"rr": column}), metric, baseline="bm25")
            assert f"{direction}: neural vs. bm25" in title(chart)
            areas = [each for each in spec_of(chart)["layer"] if each["mark"]["type"] == "area"]
            expected = colors[::-1] if "lower" in direction else colors
            assert [each["encoding"]["color"]["value"] for each in areas] == expected

    def test_cutoffs_end_with_the_longest_ranking(self, log: pl.DataFrame) -> None:
        rank = pl.col("score").rank("ordinal", descending=True).over("run", "query")
        short = log.filter((rank <= 4) | pl.col("score").is_null())
        assert rows_of(pr.plot.at_k(short), "run", "x")["x"].max() == 4

    def test_forest_plots_have_the_tables_rows(self, lists: pl.DataFrame) -> None:
        summary = pr.summarize(lists)
        result = rows_of(pr.plot.intervals(summary), "run", "metric", "x", "low", "high")
        assert_frame_equal(result, summary.select("run", "metric", "mean", "low", "high").rename(
            {"mean": "x"}), check_row_order=False)  # fmt: skip
        table = pr.compare(lists, baseline="bm25", details=True)
        assert set(rows_of(pr.plot.intervals(table), "label")["label"]) == set(table["metric"])
        chart = pr.plot.intervals(table, metrics=pr.reciprocal_rank().alias("rr"))
        assert rows_of(chart, "label", "x")["x"].to_list() == (
            table.filter(metric="rr")["difference"].to_list()
        )
        assert title(chart) == "Difference in MRR from bm25, with 95% confidence intervals"

    @pytest.mark.filterwarnings("ignore:all values are equal")
    def test_groups_are_rows_of_a_forest_plot(self, lists: pl.DataFrame) -> None:
        summary = pr.summarize(lists, "rr", by="country")
        labels = rows_of(pr.plot.intervals(summary), "label")["label"]
        assert labels.unique().sort().to_list() == ["BR", "DE", "FR", "GB", "IN", "US"]
        summary = pr.summarize(lists.filter(run="bm25"), by="country", details=True)
        labels = rows_of(pr.plot.intervals(summary), "label")["label"]
        assert "ndcg@10 · DE" in labels

    def test_slices_are_sorted_by_difference_after_the_overall_one(
        self, lists: pl.DataFrame
    ) -> None:
        one = lists.filter(pl.col("run") != "mixed")
        table = pr.compare(one, slices="country", baseline="bm25", min_queries=12)
        of_metric = table.filter(metric="rr")
        chart = pr.plot.slices(table, "rr")
        result = rows_of(chart, "label", "x", "low", "high", "contribution", "verdict")
        whole, parts = of_metric.head(1), of_metric[1:]
        ordered = pl.concat([whole, parts.sort("difference", descending=True)])
        assert result["label"].to_list() == ["overall", *ordered["value"].drop_nulls()]
        fields = ("difference", "low", "high", "contribution", "verdict")
        assert result.drop("label").rows() == ordered.select(fields).rows()
        assert "too few" in result["verdict"] and "hollow: no interval" in subtitle(chart)
        assert title(chart) == "Difference in MRR by slice: neural vs. bm25"
        largest = parts.sort(pl.col("contribution").abs(), descending=True).head(2)["value"]
        few = pr.plot.slices(of_metric, n=2)
        assert set(rows_of(few, "label")["label"]) == {"overall", *largest}
        assert "2 of 6 slices" in subtitle(few)

    @pytest.mark.filterwarnings("ignore:all values are equal")
    def test_slices_are_rows_of_a_forest_plot(self, lists: pl.DataFrame) -> None:
        values = lists.select("run", "query", "rr", "country", half=pl.col("query") % 2)
        summary = pr.summarize(values, "rr", slices=["country", "half"])
        chart = pr.plot.intervals(summary, "rr")
        assert rows_of(chart, "label")["label"].unique(maintain_order=True).to_list() == [
            "overall", *(f"country: {each}" for each in ["BR", "DE", "FR", "GB", "IN", "US"]),
            "half: 0", "half: 1",
        ]  # fmt: skip
        odd = values.with_columns(
            country=pl.col("country").replace({"BR": None, "DE": "null", "FR": "overall"})
        )
        table = pr.compare(odd, "rr", baseline="bm25", slices="country", min_queries=2)
        assert {*rows_of(pr.plot.slices(table), "label")["label"]} == {
            "overall", "null", '"null"', '"overall"', "GB", "IN", "US",
        }  # fmt: skip

    def test_several_baselines_give_pairs_of_runs(self, lists: pl.DataFrame) -> None:
        table = pr.compare(lists, "rr")
        chart = pr.plot.intervals(table)
        result = rows_of(chart, "run", "x", "low", "high", "p_value", "verdict")
        names = table.select(pl.format("{} vs. {}", "run", "baseline")).to_series().to_list()
        assert names == ["mixed vs. bm25", "neural vs. bm25", "neural vs. mixed"]
        fields = ("difference", "low", "high", "p_value", "verdict")
        assert result.rows() == [
            (name, *row) for name, row in zip(names, table.select(fields).rows(), strict=True)
        ]
        assert title(chart) == "Difference in MRR, with confidence intervals"

    @pytest.mark.filterwarnings("ignore:all values are equal")
    def test_tables_from_text_files_have_the_types_of_results(self, lists: pl.DataFrame) -> None:
        one = lists.filter(pl.col("run") != "mixed")
        compared = pr.compare(one, "rr", baseline="bm25", slices="country", min_queries=12)
        for draw, table in (
            (pr.plot.slices, compared),
            (pr.plot.intervals, pr.summarize(one, "rr", slices="country")),
            (pr.plot.leaderboard, pr.leaderboard(one, "rr")),
        ):
            text = io.StringIO(table.write_csv())
            assert datasets(draw(pl.read_csv(text, infer_schema=False))) == datasets(draw(table))

    def test_leaderboards_have_the_rows_of_the_table(self) -> None:
        noise = [0.1, -0.1, -0.1, 0.1] * 10
        rows = [
            (run, query, rr + each)
            for n, (run, rr) in enumerate([("b", 0.3), ("best", 0.5), ("a", 0.52)])
            for query, each in enumerate(noise[n:] + noise[:n])
        ]
        values = pl.DataFrame(rows, ["run", "query", "rr"], orient="row")
        board = pr.leaderboard(values)
        fields = ("run", "mean", "low", "high", "rank", "rank_low", "rank_high", "best")
        for kind in ("means", "ranks"):
            chart = pr.plot.leaderboard(board.lazy(), kind=kind)
            assert_frame_equal(rows_of(chart, *fields), board.select(fields))
        assert board["best"].to_list() == [True, True, False]
        ticks = [layer["encoding"].get("x", {}).get("axis") for layer in spec_of(chart)["layer"]]
        assert [each["values"] for each in ticks if each] == [[1, 2, 3]] * 2
        assert title(chart) == "Ranks by MRR, with simultaneous confidence intervals"
        assert subtitle(chart) == "40 queries · shaded: no run is significantly better"
        for name, metric, words in (
            ("x", "x", "higher"), ("fall_out@5", "fall_out@5", "lower"),
            ("x", pr.fall_out(5).alias("x"), "lower"),
        ):  # fmt: skip
            board = pr.leaderboard(values.rename({"rr": name}), metric)
            assert f"Mean {name} ({words} is better), with" in title(pr.plot.leaderboard(board))

    def test_bounds(self, log: pl.DataFrame) -> None:
        bands = pr.diagnostics.tie_bands(log, ["rr", "ndcg@5"], by="run")
        result = rows_of(pr.plot.bounds(bands), "run", "metric", "low", "x", "high")
        expected = bands.select("run", "metric", "low", x="expected", high="high")
        assert_frame_equal(result, expected, check_row_order=False)
        judged = pr.diagnostics.judgment_bounds(log, ["rr", "ndcg@5"], by="run")
        result = rows_of(pr.plot.bounds(judged), "run", "metric", "low", "high", "share")
        expected = judged.select("run", "metric", "low", "high", share="judged")
        assert_frame_equal(result, expected, check_row_order=False)

    def test_fidelity_has_the_rows_of_its_table(self) -> None:
        """Settings x and y find 3 and 4 of the 4 first documents, in 2 and 30 ms."""
        exact = pl.DataFrame({"query": range(4), "doc": "a", "score": 1.0})
        doc = pl.when((pl.col("run") == "x") & (pl.col("query") == 0)).then(pl.lit("b"))
        settings = pl.DataFrame({"run": ["x", "y"], "latency": [2.0, 30.0]})
        approximate = settings.join(exact, how="cross").with_columns(doc=doc.otherwise(pl.lit("a")))
        table = pr.diagnostics.fidelity(exact, approximate, 1, tolerance=None, details=True)
        chart = pr.plot.fidelity(table)
        result = rows_of(chart, "setting", "x", "y", "low", "high", "name")
        low, high = table["low"].to_list(), table["high"].to_list()
        assert result.rows() == [
            ("x", 2.0, 3 / 4, low[0], high[0], "x"), ("y", 30.0, 1.0, low[1], high[1], "y"),
        ]  # fmt: skip
        axes = [each["encoding"] for each in chart.to_dict()["layer"] if "x" in each["encoding"]]
        assert {each["x"]["scale"].get("type") for each in axes} == {"log"}  # 30 > 10 * 2
        assert axes[-1]["y"]["title"] == "recall@1"
        near = table.with_columns(latency_mean=pl.Series([2.0, 3.0]))
        spec = pr.plot.fidelity(near).to_dict()["layer"][0]["encoding"]
        assert "type" not in spec["x"]["scale"]

    def test_over_time_has_the_rows_of_summarize(self, specs: dict) -> None:
        result = rows_of(specs["over_time"], "run", "x", "y", "low", "high")
        assert result.height == 27
        table = pl.DataFrame({
            "day": [date(2026, 1, 2), date(2026, 1, 1)], "queries": 5, "ap": [0.5, 0.25],
        })  # fmt: skip
        result = rows_of(pr.plot.over_time(table), "x", "y")
        assert result.rows() == [("2026-01-01T00:00:00", 0.25), ("2026-01-02T00:00:00", 0.5)]


class TestTimes:
    def test_kinds_of_time(self) -> None:
        hours = [datetime(2026, 1, 1, hour, tzinfo=timezone.utc) for hour in (5, 9)]
        for times, kind in (
            ([date(2026, 1, 1), date(2026, 1, 2)], "temporal"), (hours, "temporal"),
            (["2026-01-01", "2026-01-02"], "temporal"),
            ([1, 2], "quantitative"), (["first", "second"], "ordinal"),
        ):  # fmt: skip
            table = pl.DataFrame({"when": times, "queries": 3, "rr": [0.1, 0.2]})
            chart = pr.plot.over_time(table, time="when")
            assert chart.to_dict()["layer"][0]["encoding"]["x"]["type"] == kind
            svg(chart)

    def test_sequence_and_one_day(self, lists: pl.DataFrame) -> None:
        table = pr.summarize(lists, "rr", repeated=True).with_columns(day=1)
        spec = pr.plot.over_time(table).to_dict()
        assert rows_of(spec, "low")["low"].null_count() == 0
        svg(spec)  # a rule where a band would have no width
        assert spec["layer"][0]["mark"]["type"] == "rule"


class TestLimits:
    def test_no_chart_has_more_rows_than_it_may(self) -> None:
        big = pr.datasets.search_log(1100, 6, runs=4)
        lists = pr.per_query(big, "ndcg@10", by="run").collect()
        noisy = lists.with_columns(pl.col("ndcg@10") + (pl.col("query").hash() % 1000) / 1e6)
        for chart in (
            pr.plot.pr_curve(big),
            pr.plot.distribution(noisy),
            pr.plot.distribution(noisy, kind="ecdf"),
            pr.plot.differences(noisy, baseline="run1"),
            pr.plot.at_k(big, ks=range(1, 41)),
        ):
            assert 0 < size(chart) <= drawing.ROWS

    def test_long_series_are_thinned_to_their_shape(self) -> None:
        series = pl.DataFrame({"minute": range(50_000)}).with_columns(
            queries=9, rr=pl.when(pl.col("minute") == 31_234).then(1.0).otherwise(0.5)
        )
        chart = pr.plot.over_time(series, time="minute")
        result = rows_of(chart, "x", "y")
        assert result.height <= drawing.ROWS
        assert result.filter(y=1.0)["x"].to_list() == [31_234]
        assert (result["x"].min(), result["x"].max()) == (0, 49_999)


class TestColors:
    def test_a_run_has_one_colour_dash_and_shape_in_every_chart(self, specs: dict) -> None:
        for channel in ("color", "strokeDash", "shape"):
            result: dict[str, set[str]] = {}
            for name, spec in specs.items():
                if name == "fidelity":  # a colour is a cutoff
                    continue
                for layer in spec["layer"]:
                    scale = layer.get("encoding", {}).get(channel, {}).get("scale", {})
                    for run, look in zip(
                        scale.get("domain", []), scale.get("range", []), strict=True
                    ):
                        result.setdefault(run.partition(" (area")[0], set()).add(str(look))
            assert set(result) == {"bm25", "mixed", "neural"}
            assert [len(looks) for looks in result.values()] == [1, 1, 1]

    def test_the_baseline_is_first_and_grey_the_others_sorted(self, log: pl.DataFrame) -> None:
        result = scales(pr.plot.at_k(log, ks=[1, 2], baseline="neural"))
        assert [*result.items()] == [
            ("neural", run_styles.NEUTRAL), ("bm25", run_styles.PALETTE[0]),
            ("mixed", run_styles.PALETTE[1]),
        ]  # fmt: skip
        assert run_styles.run_colors(["mixed", "neural", "bm25"], "neural") == result

    def test_chosen_colours(self, log: pl.DataFrame) -> None:
        chosen = {"mixed": "#123456", "not there": "red"}
        result = scales(pr.plot.at_k(log, ks=[1, 2], colors=chosen))
        assert result == {
            "bm25": run_styles.PALETTE[0], "mixed": "#123456", "neural": run_styles.PALETTE[2]
        }  # fmt: skip

    def test_colours_with_dashes_and_shapes_tell_thirty_runs_apart(self) -> None:
        result = run_styles.Runs.of([f"{number:02}" for number in range(30)])
        colors, dashes = result.styles["color"], map(str, result.styles["strokeDash"])
        assert len(set(zip(colors, dashes, strict=True))) == 30


class TestNames:
    def test_any_names_of_runs_and_columns(
        self, log: pl.DataFrame, lists: pl.DataFrame, specs: dict
    ) -> None:
        names = {"bm25": ODD, "mixed": None, "neural": MARKUP}
        odd = {"run": "x.y[0]'\"", "query": "que.ry"}

        def renamed(table: pl.DataFrame) -> pl.DataFrame:
            run = pl.col("run").replace_strict(names, return_dtype=pl.String)
            return table.with_columns(run).rename(odd)

        # Rows without a run and a score are judgments of no run.
        log = log.filter((pl.col("run") != "mixed") | pl.col("score").is_not_null())
        made = every_chart(renamed(log), renamed(lists), odd["run"], odd["query"])
        for name, chart in made.items():
            spec = spec_of(chart)
            assert size(spec) > 0
            assert title(spec).split()[0] in svg(spec)
            # A page has the specification as it is: see the next test.
            assert "</script><b>" not in json.dumps(spec, ensure_ascii=False), name
            fields = {field for rows in datasets(spec) for row in rows for field in row}
            assert fields <= {
                field for rows in datasets(specs[name]) for row in rows for field in row
            }
        result = rows_of(made["at_k"], "run", "x", "y").sort("x", "y")
        there = rows_of(every_chart(log, lists)["at_k"], "run", "x", "y").sort("x", "y")
        assert result["y"].to_list() == pytest.approx(there["y"].to_list())
        assert set(result["run"]) == {ODD, "null", run_styles.label_of(MARKUP)}

    @pytest.mark.filterwarnings("ignore:fewer than 30 queries", "ignore:all values are equal")
    def test_no_text_of_data_ends_the_script_of_a_page(self, log: pl.DataFrame) -> None:
        lists = pr.per_query(log, "rr", by=["run", "country"]).with_columns(
            pl.col("query").cast(pl.String) + MARKUP, pl.col("country") + MARKUP,
            pl.col("run") + MARKUP,
        ).rename({"rr": MARKUP})  # fmt: skip
        base, other = "bm25" + MARKUP, "neural" + MARKUP
        summary = pr.summarize(lists, by="country")
        sliced = pr.compare(lists, MARKUP, slices="country", baseline=base)
        table = pl.DataFrame({MARKUP: ["a" + MARKUP, "b"], "queries": 3, "rr": [0.5, 0.6]})
        for chart in (
            pr.plot.differences(lists, baseline=base),
            pr.plot.distribution(lists, baseline=base, colors={other: "red"}),
            pr.plot.intervals(summary),
            pr.plot.slices(sliced),
            pr.plot.over_time(table, time=MARKUP),
        ):
            page = io.StringIO()
            chart.save(page, format="html")
            assert "<!--" not in page.getvalue().replace("<!-- ", "")
            assert "</script><b>" not in page.getvalue()
        drawn = scales(pr.plot.distribution(lists, baseline=base, colors={other: "red"}))
        assert drawn[run_styles.label_of(base)] == run_styles.NEUTRAL
        assert drawn[run_styles.label_of(other)] == "red"

    def test_columns_with_names_of_ours(self, lists: pl.DataFrame) -> None:
        values = lists.select("run", "query", "rr")
        for name in ("x", "y", "k", "label", "metric", "number", "value", "found"):
            one = values.rename({"run": name})
            assert size(pr.plot.distribution(one, run=name)) > 0, name
            assert size(pr.plot.differences(one, run=name, baseline="bm25")) > 0, name
            other = values.rename({"query": name})
            assert size(pr.plot.differences(other, query=name, baseline="bm25")) > 0, name

    def test_a_run_called_null_is_not_the_run_without_a_name(self) -> None:
        lists = pl.DataFrame({"run": ["null", None], "rr": [0.5, 1.0]})
        assert [*scales(pr.plot.distribution(lists))] == ["null", "(null)"]

    def test_runs_of_any_type(self) -> None:
        for dtype, values in (
            (pl.Int8, [2, 10]), (pl.Float64, [2, 10]), (pl.Categorical, ["a", "b"]),
            (pl.Boolean, [False, True]),
        ):  # fmt: skip
            lists = pl.DataFrame({
                "run": [values[0]] * 3 + [values[1]] * 3, "query": [1, 2, 3] * 2,
                "rr": [0.5, 1.0, 0.2] * 2,
            }).cast({"run": dtype})  # fmt: skip
            base = lists["run"][0]
            styles = scales(pr.plot.distribution(lists, baseline=base))
            assert [*styles.values()] == [run_styles.NEUTRAL, run_styles.PALETTE[0]]
            assert size(pr.plot.differences(lists, baseline=base)) > 0
            assert "red" in scales(pr.plot.distribution(lists, colors={base: "red"})).values()


class TestDegenerate:
    def test_one_query_one_run_no_run(self, log: pl.DataFrame, lists: pl.DataFrame) -> None:
        single = log.filter(pl.col("query") == pl.col("query").min(), run="bm25")
        for table in (single, single.drop("run")):
            for chart in (
                pr.plot.at_k(table),
                pr.plot.distribution(pr.per_query(table, "rr")),
            ):
                spec = chart.to_dict()
                assert "1 query" in subtitle(spec) or "shown" in subtitle(spec)
                if "run" not in table.columns:  # of one run, charts differ in tooltips only
                    svg(spec)
        two = lists.filter(pl.col("query") == pl.col("query").min())
        assert size(pr.plot.differences(two, "rr", baseline="bm25")) > 0

    def test_constant_and_boolean_metrics(self, lists: pl.DataFrame) -> None:
        constant = lists.select("run", "query", other=pl.lit(3.5))
        assert rows_of(pr.plot.distribution(constant), "x")["x"].min() == 3.0
        svg(pr.plot.distribution(constant, kind="ecdf"))
        svg(pr.plot.differences(constant, baseline="bm25"))
        hit = lists.select("run", hit=pl.col("rr") == 1)
        assert size(pr.plot.distribution(hit, "hit")) > 0

    @pytest.mark.filterwarnings("ignore:all values are equal")
    def test_errors(self, log: pl.DataFrame, lists: pl.DataFrame) -> None:
        plot, summary, base = pr.plot, pr.summarize(lists), {"baseline": "bm25"}
        rr = lists.select("run", "query", "rr")
        null = rr.with_columns(rr=pl.lit(None, dtype=pl.Float64))
        nan = rr.with_columns(rr=float("nan"))
        many = pl.DataFrame({"rr": range(60), "run": range(60)}).cast({"rr": pl.Float64})
        wide = pl.DataFrame({"k": range(1, 5000), "queries": 1, "ndcg": 0.5})
        groups = pl.DataFrame({
            "group": range(80), "metric": "rr", "queries": 3, "mean": 0.5, "low": 0.4, "high": 0.6,
        })  # fmt: skip
        bands = pr.diagnostics.tie_bands(log, "rr", by="run")
        curve = pr.rank_curve(log, "rr", [1], by="run")
        of_day = pr.summarize(lists, "rr", by="country").with_columns(day=1)
        sliced = pr.compare(lists, slices="country", **base)
        board = pr.leaderboard(lists, "rr")
        two = board.with_columns(metric=pl.lit("ap")).vstack(board)
        no_ranks = board.with_columns(rank_low=None)
        one = log.filter(run="bm25").with_columns(latency=1.0)
        exact = pr.diagnostics.fidelity(one, one, 1, details=True)
        argument, data, schema = (
            pr.errors.ArgumentError, pr.errors.DataError, pr.errors.SchemaError
        )  # fmt: skip
        for draw, table, options, error, message in (
            (plot.at_k, log.clear(), {}, data, "nothing to draw"),
            (plot.pr_curve, log.with_columns(label=0), {}, data, "nothing to draw"),
            (plot.distribution, rr.clear(), {}, data, "nothing to draw"),
            (plot.distribution, null, {}, data, "nothing to draw"),
            (plot.distribution, null.rename({"rr": "other"}), {}, data, "nothing to draw"),
            (plot.intervals, summary.clear(), {}, data, "nothing to draw"),
            (plot.over_time, summary.clear(), {"time": "metric"}, data, "nothing to draw"),
            (plot.bounds, bands.clear(), {}, data, "nothing to draw"),
            (plot.fidelity, exact.filter(k=2), {}, data, "nothing to draw"),
            (plot.fidelity, exact.drop("low"), {}, schema, "'low' .*fidelity.*details=True"),
            (plot.fidelity, exact.drop("latency_mean"), {}, schema, "'latency_mean' .*latencies"),
            (plot.over_time, of_day, {}, argument, r"rows for one value of 'day'.*\['country'\]"),
            (plot.differences, rr, {"baseline": "BM25"}, data, "run 'BM25' .`baseline`. not found"),
            (plot.at_k, log, {"baseline": "x"}, data, "'x' .* not found; available: 'bm25'"),
            (plot.intervals, summary, {"baseline": "x"}, data, "run 'x' .*not found"),
            (plot.distribution, rr, {"run": None, **base}, argument, "table has no column of runs"),
            (plot.distribution, lists, {}, argument, "one metric.*'ndcg@10', 'rr'"),
            (plot.at_k, log, {"metric": "ndcg@10"}, argument, "without a cutoff"),
            (plot.at_k, log, {"by": "country"}, argument, "charts do not support `by`"),
            (plot.at_k, curve, {"ties": "best"}, argument, "`ties` applies to a log"),
            (plot.distribution, log, {}, schema, "so it is a log"),
            (plot.distribution, log, {"metric": "ap"}, schema, "so it is a log"),
            (plot.distribution, rr, {"metric": "ap"}, schema, "'ap' .`metric`. not found"),
            (plot.distribution, rr, {"run": "runs"}, schema, "column 'runs' .`run`. not found"),
            (plot.distribution, rr, {"kind": "pie"}, argument, "`kind` must be one of"),
            (plot.distribution, nan, {}, data, "240 rows: NaN"),
            (plot.intervals, rr, {}, schema, "column 'metric' .`table`. not found"),
            (plot.intervals, summary, {"metrics": "ap"}, argument, "'ap' .`metrics`. not found"),
            (plot.slices, pr.compare(rr, **base), {}, schema, "'slice' .`table`. not found"),
            (plot.differences, pl.concat([rr, rr]), base, data, "duplicate rankings.*160 rows"),
            (plot.slices, sliced, {}, argument, "a chart shows one metric"),
            (plot.intervals, pr.compare(rr), {"baseline": "x"}, data, "'x' .`baseline`. not found"),
            (plot.leaderboard, two, {}, argument, "a chart shows one metric"),
            (plot.leaderboard, no_ranks, {"kind": "ranks"}, data, "all values of ranks are null"),
            # More than fits.
            (plot.slices, sliced, {"metric": "rr", "n": 60}, argument, "`n` .* at most 59"),
            (plot.leaderboard, pl.concat([board] * 21), {}, argument, "63 rows, more than 60"),
            (plot.at_k, wide, {}, argument, "4,999 points.*use fewer `ks`"),
            (plot.distribution, many, {}, argument, "at most 30 runs; found 60"),
            (plot.distribution, many.head(2), {"bins": 5000}, argument, "`bins` must be at most"),
            (plot.intervals, groups, {}, argument, "80 rows, more than 60"),
            (plot.at_k, log, {"colors": ["red"]}, argument, "`colors` must be a mapping"),
            (plot.at_k, log, {"colors": {"bm25": 3}}, argument, "`colors` must have a color"),
        ):  # fmt: skip
            with pytest.raises(error, match=message):
                draw(table, **options)


class TestCharts:
    def test_every_function_has_a_chart_here(self, charts: dict) -> None:
        named = {"distribution": "histogram", "bounds": "ties", "intervals": "means"}
        assert {named.get(each, each) for each in pr.plot.__all__} <= set(charts)

    def test_a_chart_is_a_picture_and_a_page(self, charts: dict) -> None:
        """`test_any_names_of_runs_and_columns` draws each kind, with names that are harder."""
        assert png(charts["histogram"])
        text = io.StringIO()
        charts["histogram"].save(text, format="svg")
        assert "Distribution of NDCG@10" in text.getvalue()

    def test_combined_charts_are_pages(self, charts: dict) -> None:
        page = io.StringIO()
        (charts["histogram"] | charts["at_k"]).save(page, format="html", inline=True)
        assert not re.search(r"<script[^>]+src=|<link", page.getvalue())

    def test_charts_say_metric_and_number(self, specs: dict) -> None:
        for name, spec in specs.items():
            if name not in ("ties", "judgments"):
                assert any(letter.isdigit() for letter in subtitle(spec)), name
            assert spec["description"].startswith(title(spec))
        assert "80 queries" in subtitle(specs["at_k"])
        assert "95% confidence interval of the mean (Student's t)" in subtitle(specs["at_k"])
        assert "ndcg(gain=at_least(0)) · trec_eval 10 conventions" in subtitle(
            pr.plot.at_k(pr.datasets.search_log(40), ks=[1, 2], conventions="trec_eval", ties="doc")
        )

    def test_subtitles_are_not_wider_than_charts(self, specs: dict) -> None:
        lines = [
            (line, spec["width"]) for spec in specs.values() for line in spec["title"]["subtitle"]
        ]
        assert len(lines) > len(specs)
        for line, width in lines:  # 6.5 pixels per character in DejaVu Sans
            assert len(line) * 6.5 <= width or " · " not in line

    def test_charts_say_what_was_chosen_and_left_out(self, log: pl.DataFrame) -> None:
        chart = pr.plot.at_k(log, "recall", ks=[1, 2], rel=2, ties="best")
        assert "recall · rel=2 · ties=best · mean of 80" in subtitle(chart)
        table = pl.DataFrame({"day": [1, 2, None], "queries": 4, "rr": [0.1, 0.2, 0.3]})
        assert "1 row with null day omitted" in subtitle(pr.plot.over_time(table))

    def test_charts_compose(self, charts: dict, specs: dict) -> None:
        smaller = charts["pr_curve"].properties(width=200, height=100)
        svg((charts["at_k"] | charts["histogram"]) & (charts["slices"] | smaller))
        svg(charts["at_k"] + charts["at_k"])
        for spec in specs.values():  # scales that charts share would mix up their colours
            resolved = spec["resolve"]["scale"]
            assert {"color", "strokeDash", "shape", "opacity"} <= set(resolved)
            assert set(resolved.values()) == {"independent"}
            legends = [
                layer["encoding"]["color"].get("legend")
                for layer in spec["layer"]
                if "scale" in layer["encoding"].get("color", {})
            ]
            assert sum(legend is not None for legend in legends) <= 1

    def test_lazy_is_eager_and_streaming(self, log: pl.DataFrame, lists: pl.DataFrame) -> None:
        for function, table, options in (
            (pr.plot.at_k, log, {"ks": [1, 5]}),
            (pr.plot.pr_curve, log, {}),
            (pr.plot.distribution, lists, {"metric": "rr"}),
            (pr.plot.differences, lists, {"metric": "rr", "baseline": "bm25"}),
        ):
            eager, lazy = (datasets(function(t, **options)) for t in (table, table.lazy()))
            assert len(eager) == len(lazy)
            for one, other in zip(eager, lazy, strict=True):
                assert_frame_equal(
                    pl.DataFrame(one, infer_schema_length=None),
                    pl.DataFrame(other, infer_schema_length=None),
                    rel_tol=1e-9,
                )
        assert size(pr.plot.at_k(log.to_arrow(), ks=[1]))


def test_altair_is_imported_when_a_chart_is_made_only() -> None:
    code = "import sys, polars_rank as pr; pr.plot.at_k; sys.exit('altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def svg(chart: Chart) -> str:
    """The chart, validated unless it is a specification, as a picture that has marks."""
    spec = chart if isinstance(chart, dict) else chart.to_dict()
    picture = vl_convert.vegalite_to_svg(spec)
    assert picture.startswith("<svg")
    assert re.search(r'class="mark-(?!text|group)', picture)
    return picture


def png(chart: altair.LayerChart) -> bytes:
    """The chart as a picture that is not empty."""
    buffer = io.BytesIO()
    chart.save(buffer, format="png")
    picture = buffer.getvalue()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 3000
    return picture


def test_a_distribution_of_runs_in_a_column_with_another_name_warns() -> None:
    values = pr.per_query(pr.datasets.search_log(20).rename({"run": "model"}), "rr", by="model")
    with pytest.warns(pr.errors.RankWarning, match=r"'model'.*run='model'"):
        pr.plot.distribution(values)


def test_without_altair_the_error_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, log: pl.DataFrame
) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(pr.errors.MissingExtraError, match=r"polars_rank\[plot\]"):
        pr.plot.at_k(log)
