"""Values per query and means: groups, undefined values, names, and users' own expressions."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import polars_rank as pr
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans import holding_nodes
from polars.testing import assert_frame_equal
from strategies import Lists, assert_close, log_of, logs, random_lists, shuffled

METRICS = ["ndcg@3", "ap", "rr", "p@2"]
EXPRESSIONS = [pr.metric(name) for name in METRICS]
TIES = ("doc", "doc_ascending", "best", "worst", "input")

# RR is 1/2 in the first ranking, 1 in the second, and undefined in the third.
#: Ignored in tests whose runs have different queries.
DIFFERENT_QUERIES = pytest.mark.filterwarnings(
    "ignore:the runs were evaluated on different numbers of queries"
)

THREE = pl.DataFrame({
    "run": [*"bbab"], "query": [1, 1, 2, 3], "score": [0.9, 0.1, 0.5, 0.5], "label": [0, 1, 1, 0],
})  # fmt: skip
POOLED = THREE.drop("run")


def by_windows(
    frame: pl.DataFrame, metrics: list, keys: list[str], **options: object
) -> pl.DataFrame:
    """The naive plan: the ranked table by window functions, then one group-by."""
    *by, _ = keys
    ranked = pr.rank(frame, by=by or None, **options)
    return ranked.group_by(keys).agg(metrics).sort(keys)


def with_groups(lists: Lists) -> pl.DataFrame:
    return log_of(lists).with_columns(
        run=pl.format("run {}", pl.col("query") % 2),
        country=pl.when(pl.col("query") % 3 > 0).then(pl.col("query") % 3),
    )


@given(lists=logs(), ties=st.sampled_from(TIES))
def test_fast_plan_equals_window_functions(lists: Lists, ties: str) -> None:
    log = log_of(lists)
    plain = by_windows(log, EXPRESSIONS, ["query"], ties=ties)
    assert_close(pr.per_query(log, METRICS, ties=ties, undefined="null"), plain)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_groups(engine: str) -> None:
    log = shuffled(with_groups(random_lists(seed=1)))
    for by in (["run"], ["run", "country"], ["country", "run"]):
        lists = by_windows(log, EXPRESSIONS, [*by, "query"])
        found = pr.per_query(log.lazy(), METRICS, by=by, undefined="null").collect(engine=engine)
        assert found.columns == [*by, "query", *METRICS]
        assert_close(found, lists)
        count, mean = pl.len().alias("queries"), pl.col(METRICS).fill_null(0).mean()
        found = pr.evaluate(log.lazy(), METRICS, by=by).collect(engine=engine)
        assert found.columns == [*by, "queries", *METRICS]
        assert_close(found, lists.group_by(by).agg(count, mean).sort(by))


@DIFFERENT_QUERIES
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_undefined_values(engine: str) -> None:
    for undefined, mean, of_b in (
        ("zero", (1 / 2 + 1 + 0) / 3, (1 / 2 + 0) / 2),
        ("one", (1 / 2 + 1 + 1) / 3, (1 / 2 + 1) / 2),
        ("skip", (1 / 2 + 1) / 2, 1 / 2),
        ("null", None, None),
    ):
        plan = pr.evaluate(POOLED.lazy(), ["rr", "p@1"], undefined=undefined)
        found = plan.collect(engine=engine)
        assert plan.collect_schema() == found.schema
        assert found.rows() == [(3, mean, 1 / 3)]
        groups = pr.evaluate(THREE.lazy(), "rr", by="run", undefined=undefined)
        assert groups.collect(engine=engine).rows() == [("a", 1, 1.0), ("b", 2, of_b)]
    nothing = POOLED.lazy().filter(pl.col("query") == 3)
    found = pr.evaluate(nothing, "rr", undefined="skip").collect(engine=engine)
    assert found.rows() == [(1, None)]


@pytest.mark.filterwarnings("ignore:.*intervals exceed")
def test_undefined_values_of_some_metrics() -> None:
    asked = ["ndcg", "ndcg@1", pr.ndcg(2).alias("main"), pl.col("label").max().alias("top")]
    zero = pr.evaluate(POOLED, asked, undefined={}).drop("queries").row(0)
    for undefined, changed in (
        ({"ndcg@1": "one"}, [1]),
        ({"main": "one"}, [2]),
        ({"normalized_dcg": "one"}, [0, 1, 2]),
        ({"*": "one", "ndcg": "zero", "main": "one", "top": "skip"}, [2]),
        ({"*": "one", "main": "zero"}, [0, 1]),
    ):
        means = pr.evaluate(POOLED, asked, undefined=undefined).drop("queries").row(0)
        expected = [mean + (place in changed) / 3 for place, mean in enumerate(zero)]
        assert means == pytest.approx(expected)
    # Metrics of curves and bounds are evaluated under internal names.
    asked, undefined = pr.reciprocal_rank().alias("main"), {"main": "one"}
    mean = pr.evaluate(POOLED, asked, undefined=undefined)["main"].item()
    assert mean > pr.evaluate(POOLED, asked)["main"].item()
    bands = pr.diagnostics.tie_bands(POOLED, asked, undefined=undefined)
    assert bands.select("high", "low", "expected").row(0) == (mean, mean, mean)
    assert pr.diagnostics.judgment_bounds(POOLED, asked, undefined=undefined)["low"].item() == mean
    assert pr.rank_curve(POOLED, asked, [5], undefined=undefined)["main"].item() == mean


NOT_EVALUATED = r"metric '{}' \(`undefined`\) is not evaluated; available: 'ndcg@1', "
NO_METRIC = {
    **{name: NOT_EVALUATED.format(re.escape(name)) for name in ("ngcd", "ndcg@10", "ap", "*s")},
    1: r"the keys of `undefined` must be names .*; found 1|metric 1 \(`undefined`\) is not",
}


def test_undefined_values_of_no_metric() -> None:
    for call in (
        lambda **options: pr.evaluate(POOLED.lazy(), ["ndcg@1", "rr"], **options),
        lambda **options: pr.per_query(POOLED, ["ndcg@1", "rr"], **options),
        lambda **options: pr.diagnostics.tie_bands(POOLED, ["ndcg@1", "rr"], **options),
        lambda **options: pr.diagnostics.judgment_bounds(POOLED, ["ndcg@1", "rr"], **options),
    ):
        for name, message in NO_METRIC.items():
            with pytest.raises(pr.errors.ArgumentError, match=message):
                call(undefined={name: "one"})


@DIFFERENT_QUERIES
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_log_without_labels_warns(engine: str) -> None:
    log = POOLED.with_columns(pl.lit(None, pl.Int64).alias("label"))
    whole = r"no document has a label \(column 'label'\).* as in {'queries': 3}"
    of_run = r"column 'grade'.* as in {'run': 'b', 'queries': 2}"
    label = pl.when(pl.col("run") == "a").then("label")
    half = THREE.with_columns(label.alias("grade")).drop("label")
    for metrics in (["rr", "p@1"], "num_rel", pl.col("label").max()):
        with pytest.warns(pr.errors.RankWarning, match=whole):
            pr.evaluate(log.lazy(), metrics).collect(engine=engine)
        with pytest.warns(pr.errors.RankWarning, match=of_run):
            pr.evaluate(half.lazy(), metrics, label="grade", by="run").collect(engine=engine)
        pr.evaluate(half, metrics, label="grade", run=None)
        # A single ranking may have no label.
        pr.per_query(log, metrics)
    many = pl.concat([log.with_columns(pl.col("query") + 3 * i) for i in range(20)]).to_arrow()
    batches = pa.RecordBatchReader.from_batches(many.schema, many.to_batches(25))
    with pytest.warns(pr.errors.RankWarning, match="'queries': 60}"):
        pr.evaluate(batches, "rr")


def test_logs_that_need_no_labels() -> None:
    log = POOLED.with_columns(pl.lit(None, pl.Int64).alias("label"))
    for function in (pr.evaluate, pr.per_query):
        function(log, ["num_ret", pl.col("score").max()])
        function(log.drop("label"), "num_ret")
        function(log.clear(), "rr")
        function(log, "rr", query_set="judged")  # of no query
        assert_frame_equal(function(POOLED.to_arrow(), "ap"), function(POOLED, "ap"))


def test_gains_of_one_name_read_different_columns() -> None:
    log = POOLED.drop("label")
    constant = pr.dcg(2, gain=lambda label: pl.lit(1.0))
    doubled = pr.dcg(2, gain=lambda label: label * 2)
    mapped = pr.dcg(2, gain={0: 0, 1: 3})
    assert str(constant) == str(doubled)
    for _ in range(2):
        assert pr.evaluate(log, constant).item(0, 1) > 0
        for metric in (doubled, mapped, 1 - doubled):
            with pytest.raises(pr.errors.SchemaError, match="column 'label'"):
                pr.evaluate(log, metric)


def test_own_names_of_columns() -> None:
    log = with_groups(random_lists(seed=3))
    wanted = pr.per_query(log, METRICS, by="run")
    for names in (
        {"query": "qid", "doc": "item", "score": "prediction", "label": "grade"},
        {"query": "score", "doc": "query", "score": "label", "label": "doc"},
    ):
        renamed = log.rename(names)
        found = pr.per_query(renamed, METRICS, by="run", **names)
        assert_close(found, wanted.rename({"query": names["query"]}))
        assert_close(pr.evaluate(renamed, METRICS, **names), pr.evaluate(log, METRICS))


def test_columns_and_expressions_of_any_name() -> None:
    log = log_of(random_lists(seed=5)).with_columns(score=pl.col("label"))
    found = pr.per_query(log.drop("score"), METRICS, score=pl.col("label"))
    assert_close(found, pr.per_query(log, METRICS))
    own = [pl.col("grade").max().alias("a"), pl.col("label").max().alias("b")]
    found = pr.per_query(log.rename({"label": "grade"}), own, label="grade")
    assert found["a"].equals(found["b"])
    infinite = pr.dcg(1, gain=lambda label: label * float("inf")).alias("x")
    means = pr.evaluate(POOLED.with_columns(label=1), infinite)
    assert means["x"].item() == float("inf")


@DIFFERENT_QUERIES
def test_columns_of_the_result() -> None:
    metrics = ["nDCG@10", pr.ndcg(5), "map", pr.precision(2).alias("top two"), "recip_rank"]
    names = ["nDCG@10", "ndcg@5", "map", "top two", "recip_rank"]
    assert pr.per_query(POOLED, metrics).columns == ["query", *names]
    found = pr.evaluate(THREE, iter(metrics), by=(name for name in ["run"]))
    assert found.columns == ["run", "queries", *names]


RANK, RELEVANT = pl.col("rank"), pl.col("relevant")
LABEL, SCORE = pl.col("label"), pl.col("score")

OWN = [
    LABEL.filter(RANK <= 3).mean().alias("mean label at 3"),
    (1 / RANK.filter(RELEVANT)).max().alias("own rr"),
    (pl.col("hits") / RANK).filter(RELEVANT).max().alias("best precision"),
    pl.col("ideal_rank").max().alias("judged"),
    pl.col("ideal_rank").filter(RANK == 1).first().alias("ideal rank of the first"),
    (RANK - pl.col("ideal_rank").cast(pl.Int64)).abs().sum().alias("footrule"),
    SCORE.max().alias("highest"),
    pl.len().alias("rows"),
    pl.col("doc").filter(RANK == 1).first().alias("first"),
    pl.col("doc").filter(RANK <= 2).sort().alias("first two"),
    pl.col("price").filter(RANK <= 2).sum().alias("price at 2"),
    (pl.col("price") * pl.col("clicks")).sum().alias("revenue"),
    pl.corr("score", "price").fill_nan(None).alias("correlation"),
    (pr.ndcg(3) * pr.average_precision()).alias("product"),
    pr.ndcg(3).fill_null(0).alias("or zero"),
    (0.5 * pr.precision(1) + 0.5 * pl.col("clicks").mean()).alias("mixed"),
]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_own_expressions(engine: str) -> None:
    log = log_of(random_lists(seed=7)).with_columns(
        price=pl.col("doc") * 1.5 + pl.col("query"), clicks=pl.col("doc") % 3
    )
    found = pr.per_query(log.lazy(), [*OWN, "ap"], undefined="null").collect(engine=engine)
    assert_close(found, by_windows(log, [*OWN, pr.metric("ap")], ["query"]))


def test_own_expressions_alone_and_beside_a_shallow_metric() -> None:
    """A metric of the first ranks must not remove lower ranks from other metrics."""
    log = log_of(random_lists(seed=8)).with_columns(price=1.5 * pl.col("doc"), clicks=1)
    for own in OWN:
        metrics = [pr.ndcg(2), own]
        expected = by_windows(log, metrics, ["query"])
        assert_close(pr.per_query(log, metrics, undefined="null"), expected)
        found = pr.per_query(log, own, undefined="null")
        assert_close(found, expected.select(found.columns))
    highest = pr.evaluate(POOLED, pl.col("score").max().alias("highest"))["highest"].item()
    assert highest == pytest.approx((0.9 + 0.5 + 0.5) / 3)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_empty_frame(engine: str) -> None:
    full = with_groups(random_lists(seed=10))
    for call in (
        lambda log: pr.per_query(log, METRICS, by="run"),
        lambda log: pr.evaluate(log, METRICS, by="run"),
    ):
        found = call(full.clear().lazy()).collect(engine=engine)
        assert found.is_empty() and found.schema == call(full).schema
    for undefined in ("zero", "one", "skip", "null"):
        plan = pr.evaluate(full.clear().lazy(), METRICS, run=None, undefined=undefined)
        means = plan.collect(engine=engine)
        assert means.schema == pr.evaluate(full, METRICS, run=None).schema
        assert means.rows() == [(0, None, None, None, None)]


@pytest.fixture(params=["sorted", "said to be sorted", "shuffled"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> pl.LazyFrame:
    log = with_groups(random_lists(seed=11)).sort("run", "query")
    log = shuffled(log) if request.param == "shuffled" else log
    log.write_parquet(tmp_path / "log.parquet")
    scan = pl.scan_parquet(tmp_path / "log.parquet")
    return scan.set_sorted("run", "query") if request.param == "said to be sorted" else scan


def test_streams_without_falling_back_to_memory(plan: pl.LazyFrame) -> None:
    metrics = [*METRICS, "roc_auc", "ndcg(gain='exp2')", "r_precision"]
    for ties in TIES:
        for result in (
            pr.per_query(plan, metrics, by="run", ties=ties),
            pr.evaluate(plan, metrics, by="run", ties=ties),
            pr.evaluate(plan, metrics, query=["run", "query"], ties=ties),
        ):
            assert "in-memory-map" not in holding_nodes(result)


def test_same_numbers_for_any_layout(plan: pl.LazyFrame, tmp_path: Path) -> None:
    expected = pr.per_query(with_groups(random_lists(seed=11)), METRICS, by="run")
    lists = pr.per_query(plan, METRICS, by="run")
    assert_close(lists.collect(engine="streaming"), expected)
    lists.sink_parquet(tmp_path / "lists.parquet")
    assert_close(pl.read_parquet(tmp_path / "lists.parquet"), expected)


@pytest.mark.parametrize("weight", [None, "traffic"])
def test_means_do_not_depend_on_the_order_of_rankings(weight: str | None) -> None:
    log = pr.datasets.search_log(500, seed=1).collect()
    log = log.with_columns(traffic=1 + pl.col("query").hash() % 7)
    ids = pl.col("query")  # rankings are sorted by their ids
    orders = [log, log.with_columns(-ids), log.with_columns(query=ids * 7 % 500)]
    means = [pr.evaluate(each, METRICS, by="run", weight=weight).rows() for each in orders]
    assert means == means[:1] * 3
