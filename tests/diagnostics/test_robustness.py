"""`robustness`: choices against calls of public functions, and planted broken runs."""

from __future__ import annotations

import math
import warnings
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

# Their limits, and the verdict of one of several metrics, which reports show.
from polars_rank.diagnostics import log_facts, robust_verdicts

ESTIMATES = ["run", "difference", "low", "high", "verdict"]
LOG = pr.datasets.search_log(150, (5, 30), runs=["bm25", "dense", "hybrid"], seed=4).collect()
SMALL = LOG.filter(pl.col("query") < 60)


def robustness(log: pl.DataFrame, metric: Any = "ndcg@10", **options: Any) -> pl.DataFrame:
    return pr.diagnostics.robustness(log, metric, **{"baseline": "bm25", **options})


def of_choice(table: pl.DataFrame, choice: str, value: str | None) -> pl.DataFrame:
    rows = table.filter(pl.col("choice") == choice, pl.col("value").eq_missing(pl.lit(value)))
    return rows.select(ESTIMATES)


def compared(log: pl.DataFrame, metric: Any, **options: Any) -> pl.DataFrame:
    return pr.compare(pr.per_query(log, metric, **options), baseline="bm25").select(ESTIMATES)


#: Of a metric, by choice: the metric and the options that are compared.
CHOICES: dict[str, dict[tuple[str, str | None], tuple[str, dict[str, Any]]]] = {
    "ndcg@10": {
        ("gain", "exp2"): ("ndcg(gain='exp2')@10", {}),
        ("cutoff", "5"): ("ndcg@5", {}),
        ("cutoff", "20"): ("ndcg@20", {}),
        ("undefined", "skip"): ("ndcg@10", {"undefined": "skip"}),
    },
    "p(rel=2)@5": {
        ("cutoff", "10"): ("p(rel=2)@10", {}),
        ("cutoff", "20"): ("p(rel=2)@20", {}),
        ("threshold", "1"): ("p@5", {}),
        ("threshold", "3"): ("p(rel=3)@5", {}),
    },
}


def test_a_choice_is_the_comparison_with_this_choice() -> None:
    for (metric, own), engine in zip(CHOICES.items(), ("in-memory", "streaming"), strict=True):
        choices = {
            ("as made", None): (metric, {}), ("ties", "best"): (metric, {"ties": "best"}),
            ("ties", "worst"): (metric, {"ties": "worst"}),
            ("unjudged", "removed"): (metric, {"unjudged": "removed"}), **own,
        }  # fmt: skip
        plan = pr.diagnostics.robustness(LOG.lazy(), metric, baseline="bm25")
        table = plan.collect(engine=engine)
        for (choice, value), (name, options) in choices.items():
            expected = compared(LOG, name, **options)
            assert_frame_equal(of_choice(table, choice, value), expected, abs_tol=1e-9)
        found = table.filter(run="dense").select("choice", "value").rows()
        assert {*found} == {*choices, ("unjudged", "bounds"), ("outliers", "removed")}


def test_outliers_are_the_queries_with_the_largest_differences() -> None:
    values = pr.per_query(LOG, "ndcg@10")
    base = dict(values.filter(run="bm25").select("query", "ndcg@10").rows())
    kept = [values.filter(run="bm25")]
    for run in ("dense", "hybrid"):
        rows = values.filter(run=run).rows()
        largest = sorted(rows, key=lambda row: -abs(row[2] - base[row[1]]))
        removed = {row[1] for row in largest[: math.ceil(0.01 * len(rows))]}
        assert len(removed) == 2  # 1% of 150, rounded up
        kept.append(
            values.filter(run=run).with_columns(
                pl.when(~pl.col("query").is_in(removed)).then("ndcg@10").alias("ndcg@10")
            )
        )
    expected = pr.compare(pl.concat(kept), baseline="bm25").select(ESTIMATES)
    assert_frame_equal(of_choice(robustness(LOG), "outliers", "removed"), expected, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("metric", "unjudged"), [("ndcg@10", 1), ("ndcg@10", 9), ("average_relevance_position", 9)]
)
def test_bounds_are_the_range_of_the_difference(metric: str, unjudged: int) -> None:
    # Of every n-th query, documents remain unjudged.
    remain = pl.col("query") % unjudged == 0
    log = LOG.with_columns(
        label=pl.when(remain).then("label").otherwise(pl.col("label").fill_null(0))
    )
    bounds = pr.diagnostics.judgment_bounds(log, metric)
    low, high = (dict(bounds.select("run", name).rows()) for name in ("low", "high"))
    table = robustness(log, metric)
    assert {*of_choice(table, "as made", None)["verdict"]} == {"better"}
    for row in table.filter(value="bounds").iter_rows(named=True):
        least, most = low[row["run"]] - high["bm25"], high[row["run"]] - low["bm25"]
        assert (row["low"], row["high"]) == pytest.approx((least, most))
        is_sure = least > 0 if metric == "ndcg@10" else most < 0
        assert (row["verdict"], row["changes"]) == (("unclear", "better")[is_sure], None)
        assert is_sure == (unjudged == 9)
    # The headline does not depend on bounds.
    changing = {*table.filter("changes")["choice"]}
    assert {*table["headline"].drop_nulls()} == (
        {f"depends on: {', '.join(changing)}"} if changing else {"holds"}
    )


def test_large_gains_hold_whatever_the_unjudged_documents() -> None:
    log = pr.datasets.search_log(200, runs=["bm25", "neural"], seed=0).collect()
    table = robustness(log)
    assert table["verdict"][0] == "better"
    assert "unclear" in {*table.filter(value="bounds")["verdict"]}
    assert table["headline"][0] == "holds"


def test_other_judges() -> None:
    other = pl.when(pl.col("query") < 40).then(pl.col("doc").hash(1) % 3).cast(pl.Int8)
    made = SMALL.with_columns(rater=pl.lit("a"))
    of_other = SMALL.with_columns(rater=pl.lit("b"), label=other)
    # Only the queries that the other judge labeled count for that judge.
    labeled = of_other.filter(pl.col("query") < 40)
    table = robustness(pl.concat([of_other, made]), judge="rater")
    lazy = robustness(pl.concat([of_other, made]).lazy(), judge="rater").collect()
    assert_frame_equal(lazy, table)
    for log, choice in ((made, ("as made", None)), (labeled, ("judge", "b"))):
        assert_frame_equal(of_choice(table, *choice), compared(log, "ndcg@10"), abs_tol=1e-9)
    nothing = robustness(SMALL.clear())
    assert nothing.is_empty() and robustness(made.clear(), judge="rater").equals(nothing)
    unknown = pl.concat([made, of_other.with_columns(rater=pl.lit(None, pl.String))])
    with pytest.raises(pr.errors.DataError, match="'rater' .`judge`. has nulls"):
        robustness(unknown, judge="rater")
    with pytest.raises(pr.errors.SchemaError, match="'raters' .`judge`. not found"):
        robustness(unknown, judge="raters")


def test_statistics_follow_their_options() -> None:
    log = SMALL.with_columns(traffic=pl.col("query") % 3 + 1, user=pl.col("query") // 2)
    options: dict[str, Any] = {"weight": "traffic", "cluster": "user", "confidence": 0.8}
    table = robustness(log, margin="60%", **options)
    values = pr.per_query(log, "ndcg@10", keep=["traffic", "user"])
    expected = pr.compare(values, "ndcg@10", baseline="bm25", margin="60%", **options)
    assert_frame_equal(of_choice(table, "as made", None), expected.select(ESTIMATES), abs_tol=1e-9)


def test_intervals_are_corrected_for_other_metrics() -> None:
    metrics = [pr.metric(name) for name in ("ndcg@10", "ap", "rr")]
    columns = {name: name for name in ("query", "doc", "score", "label", "run")}
    statistics = {"weight": None, "cluster": None, "margin": 0, "confidence": 0.95}
    table = robust_verdicts.robustness_of(
        LOG.lazy(), metrics, None, {**columns, "position": None}, {**statistics, "baseline": "bm25"}
    ).collect()
    expected = pr.compare(pr.per_query(LOG, metrics), baseline="bm25").filter(metric="ndcg@10")
    assert_frame_equal(of_choice(table, "as made", None), expected.select(ESTIMATES), abs_tol=1e-9)


def ranked(orders: dict[str, list[list[tuple[float, int | None]]]]) -> pl.DataFrame:
    """Return a log: for each run, the scores and labels of the documents of each query."""
    rows = [
        (run, query, f"{query} {doc}", *each)
        for run, rankings in orders.items()
        for query, docs in enumerate(rankings)
        for doc, each in enumerate(docs)
    ]
    return pl.DataFrame(rows, ["run", "query", "doc", "score", "label"], orient="row")


def test_headlines() -> None:
    """Of 40 queries: a run is better in all, or only if its ties are broken in its favor."""
    first, second = [(3.0, 1), (2.0, 0), (1.0, 0)], [(3.0, 0), (2.0, 1), (1.0, 0)]
    bm25, sure, tied = (
        [docs if query % 4 else first for query in range(40)]
        for docs in (second, [(1.0, 0), (3.0, 1), (2.0, 0)], [(2.0, 0), (2.0, 1), (1.0, 0)])
    )
    same = [[(4.0 * s, label) for s, label in docs] for docs in bm25]
    log = ranked({"bm25": bm25, "sure": sure, "tied": tied, "same": same})
    table = robustness(log, "rr", ties="best")
    headlines = dict(table.drop_nulls("headline").select("run", "headline").rows())
    assert headlines == {"sure": "holds", "tied": "depends on: ties", "same": "unclear"}
    # Without ties in favor, the ranks of relevant documents are those of bm25.
    ties = table.filter(run="tied").select("choice", "value", "verdict", "changes").rows()
    assert ties == [
        ("as made", None, "better", False),
        ("ties", "worst", "unclear", True),
        ("outliers", "removed", "better", False),
    ]


def broken_log() -> pl.DataFrame:
    """Return a log with a run of each kind of problem, and two without."""
    score, label, query = pl.col("score"), pl.col("label"), pl.col("query")
    clean = LOG.filter(run="dense")
    place = score.rank("ordinal", descending=True).over("query")
    runs = {
        "nothing": clean.with_columns(score=pl.lit(None, pl.Float64)),
        "constant": clean.with_columns(score=score * 0),
        "labels": clean.with_columns(
            score=pl.when(score.is_not_null()).then(label.cast(pl.Float64).exp().fill_null(0.5))
        ),
        "own": pl.concat([clean, queries_first(clean, pl.lit(None, pl.Int8))]),
        "copy": LOG.filter(run="hybrid"),
        "cut": clean.with_columns(score=pl.when(place <= 4).then(score)),
        "missing": clean.filter(query % 9 != 0).with_columns(score + 1),
    }
    planted = [each.with_columns(run=pl.lit(name)) for name, each in runs.items()]
    return pl.concat([LOG, *planted])


def queries_first(log: pl.DataFrame, label: pl.Expr) -> pl.DataFrame:
    """The first document of each ranking, which is the query itself."""
    first = log.group_by("run", "query").first()
    return first.with_columns(doc="query", score=1e3, label=label).select(log.columns)


def test_each_kind_of_broken_run_is_found() -> None:
    with pytest.warns(pr.errors.RankWarning) as caught:
        table = robustness(broken_log())
    texts = [str(each.message) for each in caught if "looks broken" in str(each.message)]
    headlines = dict(table.drop_nulls("headline").select("run", "headline").rows())
    assert {run: text for run, text in headlines.items() if text.startswith("broken")} == {
        "nothing": "broken: nothing retrieved",
        "constant": "broken: constant scores",
        "labels": "broken: scores equal to labels",
        "own": "broken: query is its own document",
        "hybrid": "broken: identical runs",
        "copy": "broken: identical runs",
        "cut": "broken: cut off",
        "missing": "broken: queries missing",
    }
    assert len(texts) == 8
    assert texts[0] == (
        "the run 'constant' looks broken (constant scores): all documents have the same score in "
        "150 of 150 rankings"
    )


def test_a_broken_baseline_is_in_the_headline_of_each_run() -> None:
    log = LOG.with_columns(
        pl.when(pl.col("run") != "bm25").then("score").otherwise(1.0).alias("score")
    )
    with pytest.warns(pr.errors.RankWarning, match="the run 'bm25' looks broken"):
        table = robustness(log)
    assert {*table["headline"].drop_nulls()} == {"broken: constant scores ('bm25')"}


CLEAN = {
    "text ids": SMALL.with_columns(query=pl.format("q{}", "query"), doc=pl.format("{}", "doc")),
    "few candidates, all of which are ranked": SMALL.filter(pl.col("score").is_not_null()).filter(
        pl.int_range(pl.len()).over("run", "query") < 4
    ),
    "the relevant document has the id of the query":
        pl.concat([SMALL, queries_first(SMALL, pl.lit(1, pl.Int8))]),
    "purchases": SMALL.with_columns(label=pl.when(pl.col("label") > 0).then(1)),
    "integers as scores": SMALL.with_columns(score=pl.col("score").round()),
    "a run that abstains from queries without a relevant document": SMALL.with_columns(
        score=pl.when(
            (pl.col("run") != "dense") | (pl.col("label").max().over("query") > 0)
        ).then("score")
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("error")
def test_no_run_of_a_clean_log_is_broken() -> None:
    for name, log in CLEAN.items():
        assert not robustness(log)["headline"].str.contains("broken").any(), name


def test_long_logs_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    log = broken_log()
    tables = []
    for rows, queries in ((10**9, 10**9), (10_000, 100)):
        monkeypatch.setattr(log_facts, "_ROWS", rows)
        monkeypatch.setattr(robust_verdicts, "_MOST_QUERIES", queries)
        monkeypatch.setattr(log_facts, "_QUERIES", 20)
        with warnings.catch_warnings(action="ignore"):
            tables.append(robustness(log))
    of_all, sampled = (each.filter(pl.col("value").ne_missing("bounds")) for each in tables)
    assert_frame_equal(of_all.drop("headline"), sampled.drop("headline"))
    broken = [each.filter(pl.col("headline").str.contains("broken")) for each in (of_all, sampled)]
    assert_frame_equal(*broken)
    bounds = [each.filter(value="bounds") for each in tables]
    assert bounds[0].height == bounds[1].height == 9
    assert not bounds[0].equals(bounds[1])


def test_metrics_without_a_cutoff_have_no_bounds_if_they_take_long() -> None:
    log = pr.datasets.search_log(100, 400, seed=1).collect()
    assert "bounds" not in {*robustness(log, "ap")["value"]}
    assert "bounds" in {*robustness(log, "ap@10")["value"]}


def test_bounds_of_counts_are_those_of_means() -> None:
    bounds = pr.diagnostics.judgment_bounds(SMALL, "num_rel_ret", counts="mean")
    low, high = (dict(bounds.select("run", name).rows()) for name in ("low", "high"))
    (row,) = (
        robustness(SMALL.filter(pl.col("run") != "hybrid"), "num_rel_ret")
        .filter(value="bounds")
        .to_dicts()
    )
    assert row["low"] == pytest.approx(low["dense"] - high["bm25"])
    assert row["high"] == pytest.approx(high["dense"] - low["bm25"])
    # A geometric mean is not the mean of the values that are compared.
    assert "bounds" not in {*robustness(SMALL, "log_average_precision")["value"]}


def test_warnings_of_other_threads_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Filters of warnings are those of all threads: another one may not change them."""

    def changed(*_: Any, **__: Any) -> Any:
        raise AssertionError("the filters of warnings are changed")

    monkeypatch.setattr(warnings, "catch_warnings", changed)
    assert robustness(SMALL.lazy()).collect()["headline"][0] is not None
