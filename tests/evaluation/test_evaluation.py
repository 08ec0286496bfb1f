"""Values per query and means: groups, undefined values, names, and users' own expressions."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import polars_rank as pr
import pyarrow as pa
import pytest
from hypothesis import given
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

THREE = pl.DataFrame(
    {
        "run": ["b", "b", "a", "b"],
        "query": [1, 1, 2, 3],
        "score": [0.9, 0.1, 0.5, 0.5],
        "label": [0, 1, 1, 0],
    }
)
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


@pytest.mark.parametrize("ties", TIES)
@given(lists=logs())
def test_fast_plan_equals_window_functions(lists: Lists, ties: str) -> None:
    log = log_of(lists)
    plain = by_windows(log, EXPRESSIONS, ["query"], ties=ties)
    assert_close(pr.per_query(log, METRICS, ties=ties, undefined="null"), plain)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("by", [["run"], ["run", "country"], ["country", "run"]])
def test_groups(by: list[str], engine: str) -> None:
    log = shuffled(with_groups(random_lists(seed=1)))
    lists = by_windows(log, EXPRESSIONS, [*by, "query"])
    found = pr.per_query(log.lazy(), METRICS, by=by, undefined="null").collect(engine=engine)
    assert found.columns == [*by, "query", *METRICS]
    assert_close(found, lists)
    means = lists.group_by(by).agg(pl.len().alias("queries"), pl.col(METRICS).fill_null(0).mean())
    found = pr.evaluate(log.lazy(), METRICS, by=by).collect(engine=engine)
    assert found.columns == [*by, "queries", *METRICS]
    assert_close(found, means.sort(by))


def test_one_query_in_several_groups_is_several_lists() -> None:
    log = log_of(random_lists(seed=2))
    both = pl.concat(
        log.with_columns(run=pl.lit(run), score=sign * pl.col("score"))
        for run, sign in (("a", 1), ("b", -1))
    )
    alone = pr.evaluate(both.filter(pl.col("run") == "b").drop("run"), METRICS)
    assert_close(pr.evaluate(both, METRICS)[1:].drop("run"), alone)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize(
    ("undefined", "mean"),
    [
        ("zero", (1 / 2 + 1 + 0) / 3),
        ("one", (1 / 2 + 1 + 1) / 3),
        ("skip", (1 / 2 + 1) / 2),
        ("null", None),
    ],
)
def test_undefined_values(undefined: str, mean: float | None, engine: str) -> None:
    plan = pr.evaluate(POOLED.lazy(), ["rr", "p@1"], undefined=undefined)
    found = plan.collect(engine=engine)
    assert plan.collect_schema() == found.schema
    assert found.rows() == [(3, mean, 1 / 3)]


@DIFFERENT_QUERIES
def test_undefined_values_per_group() -> None:
    rows = {
        rule: pr.evaluate(THREE, "rr", by="run", undefined=rule).rows()
        for rule in ("zero", "skip", "null")
    }
    assert rows == {
        "zero": [("a", 1, 1.0), ("b", 2, (1 / 2 + 0) / 2)],
        "skip": [("a", 1, 1.0), ("b", 2, 1 / 2)],
        "null": [("a", 1, 1.0), ("b", 2, None)],
    }


@pytest.mark.filterwarnings("ignore:.*intervals exceed")
def test_undefined_values_of_some_metrics() -> None:
    asked = ["ndcg", "ndcg@1", pr.ndcg(2).alias("main"), pl.col("label").max().alias("top")]

    def means(undefined: dict[str, str]) -> list[float]:
        return pr.evaluate(POOLED, asked, undefined=undefined).drop("queries").row(0)

    zero = means({})
    for undefined, changed in (
        ({"ndcg@1": "one"}, [1]),
        ({"main": "one"}, [2]),
        ({"normalized_dcg": "one"}, [0, 1, 2]),
        ({"*": "one", "ndcg": "zero", "main": "one", "top": "skip"}, [2]),
        ({"*": "one", "main": "zero"}, [0, 1]),
    ):
        assert means(undefined) == pytest.approx(
            [mean + (index in changed) / 3 for index, mean in enumerate(zero)]
        )


NO_METRIC = {
    **{
        name: rf"metric '{re.escape(name)}' \(`undefined`\) is not evaluated; available: 'ndcg@1', "
        for name in ("ngcd", "ndcg@10", "ap", "*s")
    },
    1: r"the keys of `undefined` must be names .*; found 1|metric 1 \(`undefined`\) is not",
}


@pytest.mark.parametrize("name", NO_METRIC)
def test_undefined_values_of_no_metric(name: object) -> None:
    for call in (
        lambda **options: pr.evaluate(POOLED.lazy(), ["ndcg@1", "rr"], **options),
        lambda **options: pr.per_query(POOLED, ["ndcg@1", "rr"], **options),
        lambda **options: pr.diagnostics.tie_bands(POOLED, ["ndcg@1", "rr"], **options),
        lambda **options: pr.diagnostics.judgment_bounds(POOLED, ["ndcg@1", "rr"], **options),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=NO_METRIC[name]):
            call(undefined={name: "one"})


def test_undefined_values_under_other_names() -> None:
    """Metrics of curves and bounds are evaluated under internal names."""
    asked, undefined = pr.reciprocal_rank().alias("main"), {"main": "one"}
    mean = pr.evaluate(POOLED, asked, undefined=undefined)["main"].item()
    assert mean > pr.evaluate(POOLED, asked)["main"].item()
    bands = pr.diagnostics.tie_bands(POOLED, asked, undefined=undefined)
    assert bands.select("high", "low", "expected").row(0) == (mean, mean, mean)
    assert pr.diagnostics.judgment_bounds(POOLED, asked, undefined=undefined)["low"].item() == mean
    assert pr.rank_curve(POOLED, asked, [5], undefined=undefined)["main"].item() == mean


@DIFFERENT_QUERIES
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("metrics", [["rr", "p@1"], "num_rel", pl.col("label").max()])
def test_a_log_without_labels_warns(metrics: object, engine: str) -> None:
    log = POOLED.with_columns(pl.lit(None, pl.Int64).alias("label"))
    whole = r"no document has a label \(column 'label'\).* as in {'queries': 3}"
    with pytest.warns(pr.errors.RankWarning, match=whole):
        pr.evaluate(log.lazy(), metrics).collect(engine=engine)
    label = pl.when(pl.col("run") == "a").then("label")
    half = THREE.with_columns(label.alias("grade")).drop("label")
    of_run = r"column 'grade'.* as in {'run': 'b', 'queries': 2}"
    with pytest.warns(pr.errors.RankWarning, match=of_run):
        pr.evaluate(half.lazy(), metrics, label="grade", by="run").collect(engine=engine)
    pr.evaluate(half, metrics, label="grade", run=None)
    # A single ranking may have no label.
    pr.per_query(log, metrics)


def test_logs_that_need_no_labels() -> None:
    log = POOLED.with_columns(pl.lit(None, pl.Int64).alias("label"))
    for function in (pr.evaluate, pr.per_query):
        function(log, ["num_ret", pl.col("score").max()])
        function(log.drop("label"), "num_ret")
        function(log.clear(), "rr")
        function(log, "rr", query_set="judged")  # of no query


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


def test_a_table_of_pyarrow_without_labels_warns() -> None:
    log = pl.concat([POOLED.with_columns(query=pl.col("query") + 3 * i) for i in range(20)])
    log = log.sort("query").with_columns(label=pl.lit(None, pl.Int64))
    batches = pa.RecordBatchReader.from_batches(
        log.to_arrow().schema, log.to_arrow().to_batches(25)
    )
    with pytest.warns(pr.errors.RankWarning, match="'queries': 60}"):
        pr.evaluate(batches, "rr")


def test_a_mean_of_nothing_is_null() -> None:
    nothing = POOLED.filter(pl.col("query") == 3)
    assert pr.evaluate(nothing, "rr", undefined="skip").rows() == [(1, None)]


def test_own_names_of_columns() -> None:
    log = with_groups(random_lists(seed=3))
    names = {"query": "qid", "doc": "item", "score": "prediction", "label": "grade"}
    renamed = log.rename(names)
    wanted = pr.per_query(log, METRICS, by="run").rename({"query": "qid"})
    assert_close(pr.per_query(renamed, METRICS, by="run", **names), wanted)
    assert_close(pr.evaluate(renamed, METRICS, **names), pr.evaluate(log, METRICS))


def test_names_that_mean_something_else() -> None:
    """The score column is called "label", the label column "query", and so on."""
    log = log_of(random_lists(seed=4))
    names = {"query": "score", "doc": "query", "score": "label", "label": "doc"}
    wanted = pr.per_query(log, METRICS).rename({"query": "score"})
    assert_close(pr.per_query(log.rename(names), METRICS, **names), wanted)


def test_labels_as_scores_are_an_expression() -> None:
    log = log_of(random_lists(seed=5)).with_columns(score=pl.col("label"))
    found = pr.per_query(log.drop("score"), METRICS, score=pl.col("label"))
    assert_close(found, pr.per_query(log, METRICS))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_several_query_columns(engine: str) -> None:
    one = log_of(random_lists(seed=6))
    log = one.with_columns(user=pl.col("query") // 4, page=pl.col("query") % 4).drop("query")
    found = pr.per_query(shuffled(log).lazy(), METRICS, query=["user", "page"])
    found = found.collect(engine=engine)
    assert found.columns == ["user", "page", *METRICS]
    assert_close(found.drop("user", "page"), pr.per_query(one, METRICS).drop("query"))


@DIFFERENT_QUERIES
def test_columns_of_the_result() -> None:
    metrics = ["nDCG@10", pr.ndcg(5), "map", pr.precision(2).alias("top two"), "recip_rank"]
    names = ["nDCG@10", "ndcg@5", "map", "top two", "recip_rank"]
    assert pr.per_query(POOLED, metrics).columns == ["query", *names]
    assert pr.evaluate(THREE, iter(metrics), by="run").columns == ["run", "queries", *names]


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


def test_own_expression_alone() -> None:
    """The expression is the only metric, and reads one column."""
    log = log_of(random_lists(seed=8))
    for own in OWN[:9]:
        assert_close(pr.per_query(log, own), by_windows(log, [own], ["query"]))


@pytest.mark.parametrize("own", OWN, ids=lambda own: own.meta.output_name())
def test_own_expression_beside_a_shallow_metric(own: pl.Expr) -> None:
    """A metric of the first ranks must not remove lower ranks from other metrics."""
    log = log_of(random_lists(seed=8)).with_columns(price=1.5 * pl.col("doc"), clicks=1)
    metrics = [pr.ndcg(2), own]
    assert_close(pr.per_query(log, metrics, undefined="null"), by_windows(log, metrics, ["query"]))


def test_own_expression_reads_a_renamed_column_by_its_own_name() -> None:
    log = log_of(random_lists(seed=9)).rename({"label": "grade"})
    own = [pl.col("grade").max().alias("a"), pl.col("label").max().alias("b")]
    found = pr.per_query(log, own, label="grade")
    assert found["a"].equals(found["b"])


def test_mean_of_an_own_expression() -> None:
    assert pr.evaluate(POOLED, pl.col("score").max().alias("highest"))["highest"].item() == (
        pytest.approx((0.9 + 0.5 + 0.5) / 3)
    )


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_empty_frame(engine: str) -> None:
    full, empty = with_groups(random_lists(seed=10)), with_groups(random_lists(seed=10)).clear()
    lists = pr.per_query(empty.lazy(), METRICS, by="run").collect(engine=engine)
    assert lists.is_empty()
    assert lists.schema == pr.per_query(full, METRICS, by="run").schema
    for undefined in ("zero", "one", "skip", "null"):
        plan = pr.evaluate(empty.lazy(), METRICS, run=None, undefined=undefined)
        means = plan.collect(engine=engine)
        assert means.schema == pr.evaluate(full, METRICS, run=None).schema
        assert means.rows() == [(0, None, None, None, None)]
    groups = pr.evaluate(empty.lazy(), METRICS, by="run").collect(engine=engine)
    assert groups.is_empty()
    assert groups.schema == pr.evaluate(full, METRICS, by="run").schema


def test_same_kind_of_frame() -> None:
    for function in (pr.per_query, pr.evaluate):
        assert isinstance(function(POOLED, "ap"), pl.DataFrame)
        assert isinstance(function(POOLED.lazy(), "ap"), pl.LazyFrame)
        assert_frame_equal(function(POOLED.to_arrow(), "ap"), function(POOLED, "ap"))


@pytest.fixture(params=["sorted", "said to be sorted", "shuffled"])
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> pl.LazyFrame:
    log = with_groups(random_lists(seed=11)).sort("run", "query")
    log = shuffled(log) if request.param == "shuffled" else log
    log.write_parquet(tmp_path / "log.parquet")
    scan = pl.scan_parquet(tmp_path / "log.parquet")
    return scan.set_sorted("run", "query") if request.param == "said to be sorted" else scan


@pytest.mark.parametrize("ties", TIES)
def test_streams_without_falling_back_to_memory(plan: pl.LazyFrame, ties: str) -> None:
    metrics = [*METRICS, "roc_auc", "ndcg(gain='exp2')", "r_precision"]
    for result in (
        pr.per_query(plan, metrics, by="run", ties=ties),
        pr.evaluate(plan, metrics, by="run", ties=ties),
        pr.evaluate(plan, metrics, query=["run", "query"], ties=ties),
    ):
        nodes = result.show_graph(
            engine="streaming", plan_stage="physical", raw_output=True, show=False
        )
        assert "sorted-group-by" in nodes
        assert "in-memory-map" not in nodes


def test_same_numbers_for_any_layout(plan: pl.LazyFrame) -> None:
    log = with_groups(random_lists(seed=11))
    assert_close(
        pr.per_query(plan, METRICS, by="run").collect(engine="streaming"),
        pr.per_query(log, METRICS, by="run"),
    )


def test_result_can_be_sunk(plan: pl.LazyFrame, tmp_path: Path) -> None:
    pr.per_query(plan, METRICS, by="run").sink_parquet(tmp_path / "lists.parquet")
    assert_close(
        pl.read_parquet(tmp_path / "lists.parquet"), pr.per_query(plan.collect(), METRICS, by="run")
    )


@pytest.mark.parametrize("kind", ["eager", "lazy", "stream"])
def test_names_may_come_from_an_iterator(kind: str) -> None:
    frame = pl.DataFrame({"run": ["a", "b"], "query": 1, "score": [0.5, 0.4], "label": [1, 0]})
    log = {"eager": frame, "lazy": frame.lazy(), "stream": frame.to_arrow().to_reader()}[kind]
    found = pr.evaluate(log, "rr", by=(name for name in ["run"]), query=iter(["query"])).lazy()
    assert found.collect().rows() == [("a", 1, 1.0), ("b", 1, 0.0)]
    assert pr.rank_curve(frame, "ndcg", [1], by=iter(["run"])).columns[0] == "run"
    assert pr.diagnostics.tie_bands(frame, "rr", by=iter(["run"])).columns[0] == "run"


@pytest.mark.parametrize("weight", [None, "traffic"])
def test_means_do_not_depend_on_the_order_of_rankings(weight: str | None) -> None:
    log = (
        pr.datasets.search_log(500, seed=1)
        .collect()
        .with_columns(traffic=1 + pl.col("query").hash() % 7)
    )
    ids = pl.col("query")  # rankings are sorted by their ids
    orders = [log, log.with_columns(-ids), log.with_columns(query=ids * 7 % 500)]
    means = [pr.evaluate(each, METRICS, by="run", weight=weight).rows() for each in orders]
    assert means == means[:1] * 3


def test_a_metric_may_be_infinite() -> None:
    log = pr.from_dicts({"q": {"a": 2.0}, "r": {"a": 1.0}}, {"q": {"a": 1}, "r": {"a": 1}})
    infinite = pr.dcg(1, gain=lambda label: label * float("inf")).alias("infinite")
    assert pr.evaluate(log, infinite)["infinite"].to_list() == [float("inf")]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_first_of_documents_that_are_all_relevant(engine: pl.EngineType) -> None:
    log = pl.DataFrame({"query": [1, 1], "score": [2.0, 1.0], "label": [1, 1]})
    for each in (log, log.sort("label", descending=True)):
        assert pr.evaluate(each.lazy(), "rr").collect(engine=engine)["rr"].to_list() == [1.0]
