"""`judgment_bounds(documents=)` against `evaluate` with the label of one document in the log."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.diagnostics import documents_to_judge
from polars_rank.metrics.analyses import rank_depth
from polars_rank.metrics.names import metric as read_metric

METRICS = ["ndcg@2", "p@2", "recall@2", "ap", "rr@2", "dcg", "num_rel_ret", "bpref", "rbp(rel=2)"]


def random_log(
    seed: int = 0, runs: tuple[str, ...] = ("a", "b", "c"), length: int = 5
) -> pl.DataFrame:
    """A log with unjudged documents, documents that are not retrieved, and a group."""
    draw = random.Random(seed)
    rows = []
    for query in range(4):
        labels = {doc: draw.choice((None, None, 0, 1, 2)) for doc in range(7)}
        weight = draw.choice((1.0, 2.0, 0.5))
        for run in runs:
            for doc in draw.sample(range(7), length):
                score = draw.choice((None, 1.0, 2.0, 3.0, 4.0, 5.0))
                rows.append((run, query % 2, query, doc, score, labels[doc], weight))
    schema = ["run", "group", "query", "doc", "score", "label", "weight"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def brute_force(
    log: pl.DataFrame,
    metrics: list[str],
    grade: float,
    by: list[str],
    baseline: str | None = None,
    **options: Any,
) -> pl.DataFrame:
    """The change of each mean or difference by the label of each unjudged, retrieved document."""
    groups = [name for name in by if name != "run"]

    def values(log: pl.DataFrame) -> pl.DataFrame:
        means = pr.evaluate(log, metrics, by=by, **options)
        if baseline is None:
            return means
        base = means.filter(run=baseline)
        joined = means.filter(pl.col("run") != baseline).join(base, on=groups)
        return joined.select(*by, *(pl.col(name) - pl.col(f"{name}_right") for name in metrics))

    unjudged = log.filter(pl.col("score").is_not_null() & pl.col("label").is_null())
    before = values(log)
    changes = []
    for key in unjudged.select(*groups, "query", "doc").unique().iter_rows(named=True):
        this = pl.all_horizontal(pl.col(name) == value for name, value in key.items())
        label = pl.when(this & pl.col("label").is_null()).then(pl.lit(grade)).otherwise("label")
        after = values(log.with_columns(label=label.cast(pl.Float64)))
        changes += [
            {**{name: old[name] for name in by}, "metric": metric, "query": key["query"],
             "doc": key["doc"], "change": new[metric] - old[metric]}
            for old, new in zip(before.iter_rows(named=True), after.iter_rows(named=True))
            if all(old[name] == key[name] for name in groups)
            for metric in metrics
            if None not in (old[metric], new[metric])
        ]  # fmt: skip
    return pl.DataFrame(changes).filter(pl.col("change").abs() > 1e-12)


def check(result: pl.DataFrame, expected: pl.DataFrame, keys: list[str]) -> None:
    """Compare all changes, and their order."""
    result = result.filter(pl.col("change").abs() > 1e-12)
    assert_frame_equal(
        result.select(*keys, "change"), expected.select(*keys, "change"), check_row_order=False,
        check_dtypes=False, abs_tol=1e-12,
    )  # fmt: skip
    groups = [name for name in keys if name not in ("query", "doc")]
    for part in result.partition_by(groups):
        sizes = part["change"].abs()
        assert sizes.equals(sizes.sort(descending=True))


OPTIONS: list[dict[str, Any]] = [
    {},
    {"weight": "weight"},
    {"undefined": "skip"},
    {"undefined": "null", "query_set": "judged"},
    {"query_set": "judged", "undefined": "skip"},
    {"ties": "worst"},
    {"ties": "doc_ascending", "rel": 2},
    {"conventions": "trec_eval"},
]


@pytest.mark.parametrize("options", OPTIONS)
def test_changes_of_means(options: dict[str, Any]) -> None:
    log = random_log()
    grade = options.get("rel", 1)
    metrics = [name for name in METRICS if "rel=" not in name]
    for by in ([], ["run", "group"]):
        one = log.filter(run="a") if not by else log
        result = pr.diagnostics.judgment_bounds(one, metrics, documents=99, by=by, **options)
        keys = [*by, "metric", "query", "doc"]
        assert result.columns == [*keys, "rank", "change"]
        check(result, brute_force(one, metrics, grade, by, **options), keys)


@pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers")
@pytest.mark.parametrize("options", OPTIONS)
def test_changes_of_differences(options: dict[str, Any]) -> None:
    log = random_log(1)
    grade = options.get("rel", 1)
    metrics = [name for name in METRICS if "rel=" not in name]
    result = pr.diagnostics.judgment_bounds(
        log, metrics, documents=99, by=["group", "run"], baseline="b", **options
    )
    keys = ["group", "metric", "run", "query", "doc"]
    assert result.columns == [
        *("group", "metric", "run", "baseline", "query", "doc"),
        *("rank", "baseline_rank", "change"),
    ]
    assert result["baseline"].unique().to_list() == ["b"]
    expected = brute_force(log, metrics, grade, ["group", "run"], "b", **options)
    check(result, expected, keys)


def test_first_documents_and_ranks() -> None:
    log = pl.DataFrame({
        "run": ["a"] * 3 + ["b"] * 3, "query": "q", "doc": [1, 2, 3, 2, 4, 1],
        "score": [3.0, 2.0, 1.0] * 2, "label": [None, None, 0, None, None, None],
    })  # fmt: skip
    result = pr.diagnostics.judgment_bounds(
        log, ["dcg", "p@1"], by="run", baseline="a", documents=2, grade=2
    )
    log3 = 2 / 1.584962500721156
    assert result.select("metric", "doc", "rank", "baseline_rank").rows() == [
        ("dcg", 4, 2, None), ("dcg", 1, 3, 1), ("p@1", 1, 3, 1), ("p@1", 2, 1, 2)
    ]  # fmt: skip
    assert result["change"].to_list() == pytest.approx([log3, 1 - 2, -1, 1])
    assert result.filter(metric="p@1").height == 2
    one = pr.diagnostics.judgment_bounds(log, "p@1", by="run", documents=1)
    assert one.rows() == [("a", "p@1", "q", 1, 1, 1.0), ("b", "p@1", "q", 2, 1, 1.0)]


def test_default_label_of_each_metric() -> None:
    log = random_log(2, runs=("a",))
    result = pr.diagnostics.judgment_bounds(log, ["rbp(rel=2)", "dcg"], documents=99)
    expected = [brute_force(log, ["rbp(rel=2)"], 2, []), brute_force(log, ["dcg"], 1, [])]
    check(result, pl.concat(expected), ["metric", "query", "doc"])


def test_tables_scores_and_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(3, runs=("a",)).drop("run").with_columns(other=-pl.col("score") * 2)
    options = {"scores": ["score", "other"], "baseline": "score", "documents": 3}
    whole = pr.diagnostics.judgment_bounds(log, METRICS, **options)
    assert whole["run"].unique().to_list() == ["other"]
    wide = [log.with_columns(run=pl.lit("score"))]
    wide += [log.with_columns(run=pl.lit("other"), score="other")]
    long = pr.diagnostics.judgment_bounds(
        pl.concat(wide), METRICS, by="run", baseline="score", documents=3
    )
    assert_frame_equal(whole.cast({"run": pl.String, "baseline": pl.String}), long)
    monkeypatch.setattr(documents_to_judge, "_MOST_ROWS", 7)
    for engine in ("in-memory", "streaming"):
        lazy = pr.diagnostics.judgment_bounds(log.lazy(), METRICS, **options)
        assert lazy.collect_schema() == whole.schema
        assert_frame_equal(lazy.collect(engine=engine), whole)
    assert_frame_equal(pr.diagnostics.judgment_bounds(log.to_arrow(), METRICS, **options), whole)


def test_nothing_to_judge() -> None:
    judged = random_log().with_columns(label=pl.col("label").fill_null(0))
    for log in (judged, judged.head(0)):
        result = pr.diagnostics.judgment_bounds(log, "ndcg@2", by="run", documents=3)
        assert result.is_empty()
    # No metric reads labels.
    result = pr.diagnostics.judgment_bounds(judged.drop("label"), "num_ret", by="run", documents=3)
    assert result.is_empty()


@pytest.mark.parametrize(
    ("metric", "depth"),
    [
        *(("ndcg@10", 10), ("p@5", 5), ("recall@5", 5), ("rr@3", 3), ("ap@7", 7), ("err@4", 4)),
        *(("ndcg", None), ("ap", None), ("r_precision", None), ("roc_auc", None)),
        ("num_rel", 0),
    ],
)
def test_depth_of_metrics(metric: str, depth: int | None) -> None:
    assert rank_depth(read_metric(metric).tree) == depth


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"documents": None}, "`baseline` needs `documents`"),
        ({"documents": 0}, "`documents` must be"),
        ({"by": None}, "`baseline` needs one column of runs"),
        ({"by": ["run", "model"]}, "`baseline` needs one column of runs"),
        ({"baseline": 3}, "`baseline` must be a value of the column 'run'"),
        ({"baseline": "z"}, r"run 'z' \(`baseline`\) not found in the column 'run'"),
        ({"doc": None}, "needs the ids of documents"),
        ({"labels": ["label", "doc"]}, "does not support `labels`"),
        ({"align": "common"}, "`align` is not supported"),
        ({"query": "rank"}, "'rank'"),
    ],
)
def test_invalid_arguments(options: dict[str, Any], message: str) -> None:
    log = random_log().with_columns(model=pl.lit("m"), rank=pl.col("query"))
    log = log if options.get("query") == "rank" else log.drop("rank")
    given = {"by": "run", "baseline": "a", "documents": 3, **options}
    with pytest.raises(pr.errors.RankError, match=message):
        pr.diagnostics.judgment_bounds(log, "p@2", **given)
    with pytest.raises(pr.errors.RankError, match=message):
        pr.diagnostics.judgment_bounds(log.lazy(), "p@2", **given).collect()


def test_runs_on_different_queries() -> None:
    log = random_log(4).filter((pl.col("run") != "a") | (pl.col("query") > 0))
    with pytest.warns(pr.errors.RankWarning, match="different numbers of queries"):
        pr.diagnostics.judgment_bounds(log, "p@2", by="run", baseline="a", documents=1)


def test_invalid_rows_are_those_of_evaluate() -> None:
    log = random_log().with_columns(score=pl.lit(float("nan")))
    with pytest.raises(pr.errors.DataError, match="'score' .* has NaN"):
        pr.diagnostics.judgment_bounds(log, "p@2", by="run", documents=1)
