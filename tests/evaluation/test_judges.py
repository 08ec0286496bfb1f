"""Several columns of labels in one call: values, and the queries that count for a judge."""

from __future__ import annotations

import random
from itertools import product
from pathlib import Path
from typing import Any

import oracles
import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from plans import holding_nodes
from polars.testing import assert_frame_equal
from strategies import assert_close, shuffled

JUDGES = ["human", "llm"]
RUNS = ["bm25", "neural"]
METRICS = {
    "ndcg@3": lambda docs: oracles.ndcg(docs, 3),
    "ap": oracles.average_precision,
    "rr": oracles.reciprocal_rank,
}
QUERY_SETS = ("all", "judged", "retrieved", "both")


def random_log(seed: int) -> pl.DataFrame:
    """Return a log of two runs that retrieve different documents, of which few have labels."""
    draw = random.Random(seed)
    rows = []
    for query in range(30):
        # The human labels few of the queries; both judges leave documents out.
        share = {"human": draw.choice((0, 0, 0.2)), "llm": draw.choice((0, 0.3, 1))}
        labels = {
            judge: {doc: draw.choice((0, 1, 2, 3)) for doc in range(9) if draw.random() < share}
            for judge, share in share.items()
        }
        for run in RUNS:
            for doc in draw.sample(range(9), draw.randint(1, 5)):
                score = draw.choice((None, 0.5, 1.0, 2.0))
                rows.append((run, query, doc, score, *(labels[judge].get(doc) for judge in JUDGES)))
    schema = {"run": pl.String, "query": pl.Int64, "doc": pl.Int64, "score": pl.Float64}
    return pl.DataFrame(rows, {**schema, "human": pl.Int64, "llm": pl.Float64}, orient="row")


def counting(log: pl.DataFrame, judge: str, query_set: str | None) -> set[tuple[str, int]]:
    """Return the rankings that count for a judge, as pairs of run and query."""
    rows = log.rows(named=True)
    judged = {(row["run"], row["query"]) for row in rows if row[judge] is not None}
    retrieved = {(row["run"], row["query"]) for row in rows if row["score"] is not None}
    all_rankings = {(row["run"], row["query"]) for row in rows}
    if query_set is not None:
        sets = {"all": all_rankings, "judged": judged, "retrieved": retrieved}
        return {**sets, "both": judged & retrieved}[query_set]
    labeled = {query for _, query in judged}
    return {(run, query) for run, query in all_rankings if query in labeled}


def expected(log: pl.DataFrame, query_set: str | None = None) -> pl.DataFrame:
    """Return the per-query table from the oracles."""
    rows = []
    for run, query, judge in product(RUNS, range(30), JUDGES):
        if (run, query) in counting(log, judge, query_set):
            docs = [
                Doc(row["doc"], row["score"], row[judge])
                for row in log.filter(run=run, query=query).rows(named=True)
            ]
            rows.append((run, query, judge, *(metric(docs) for metric in METRICS.values())))
    return pl.DataFrame(rows, ["run", "query", "judge", *METRICS], orient="row", strict=False)


def values_of(table: pl.DataFrame) -> pl.DataFrame:
    return table.select(pl.exclude("num_retrieved")).with_columns(pl.col("judge").cast(pl.String))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("query_set", [None, *QUERY_SETS])
def test_values_of_each_judge(seed: int, query_set: Any, tmp_path: Path) -> None:
    log = shuffled(random_log(seed), seed)
    options: dict[str, Any] = {"by": "run", "label": JUDGES, "query_set": query_set}
    truth = expected(log, query_set)
    assert_close(values_of(pr.per_query(log, [*METRICS], **options, undefined="null")), truth)
    log.write_parquet(tmp_path / "log.parquet")
    for lazy in (log.lazy(), pr.scan_log(tmp_path / "log.parquet", by="run")):
        plan = pr.per_query(lazy, [*METRICS], **options, undefined="null")
        for engine in ("in-memory", "streaming"):
            found = values_of(plan.collect(engine=engine)).sort("run", "query", "judge")
            assert_close(found, truth)


@pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers of queries")
@pytest.mark.parametrize("query_set", [None, "judged"])
def test_means_of_each_judge(query_set: Any) -> None:
    log = random_log(4)
    found = pr.evaluate(log, [*METRICS], by="run", label=JUDGES, query_set=query_set)
    counts = [pl.len().alias("queries")]
    means = [pl.col(name).fill_null(0).mean() for name in METRICS]  # undefined values count as 0
    truth = expected(log, query_set).group_by("run", "judge").agg(*counts, *means)
    added = [name for name in ("queries_judged", "queries_retrieved") if query_set is not None]
    assert found.columns == ["run", "judge", "queries", *added, *METRICS]
    own = found.drop(added).with_columns(pl.col("judge").cast(pl.String))
    assert_close(own, truth.sort("run", "judge"))
    if query_set is None:  # the runs have the same queries for each judge
        assert found.group_by("judge").agg(pl.col("queries").n_unique())["queries"].max() == 1


def test_separate_calls_on_the_queries_that_count() -> None:
    log = random_log(5).with_columns(other=-pl.col("score"))
    together = {
        (): {"by": "run"},
        ("other",): {"by": "run", "score": "other", "ties": "worst", "rel": 2, "duplicates": "max"},
        ("two rules",): {"by": "run", "conventions": "ranx"},
    }
    for options in together.values():
        found = pr.per_query(log, ["ndcg@3", "ap"], label=JUDGES, query_set="all", **options)
        union = pr.per_query(log, ["ndcg@3", "ap"], label=JUDGES, **options)
        for judge in JUDGES:
            alone = pr.per_query(log, ["ndcg@3", "ap"], label=judge, query_set="all", **options)
            assert_frame_equal(found.filter(judge=judge).drop("judge"), alone)
            if "conventions" not in options:
                labeled = log.filter(pl.col(judge).is_not_null()).select("query").unique()
                of_labeled = alone.join(labeled, on="query", how="semi", maintain_order="left")
                assert_frame_equal(union.filter(judge=judge).drop("judge"), of_labeled)


def test_a_query_set_of_conventions_takes_precedence() -> None:
    log = random_log(6)
    preset = pr.conventions.TREC_EVAL
    found = pr.per_query(log, "ndcg@3", by="run", label=JUDGES, conventions=preset)
    assert set(found.select("judge", "run", "query").iter_rows()) == {
        (judge, *ranking) for judge in JUDGES for ranking in counting(log, judge, preset.query_set)
    }


def test_scores_and_labels_of_one_call() -> None:
    log = random_log(7).filter(run="bm25").drop("run").with_columns(new=-pl.col("score"))
    options: dict[str, Any] = {"score": ["new", "score"], "label": ["llm", "human"]}
    found = pr.evaluate(log, [*METRICS], **options)
    assert found.select("run", "judge").rows() == [
        ("new", "llm"), ("new", "human"), ("score", "llm"), ("score", "human")
    ]  # in the order of the parameters  # fmt: skip
    for run, judge in product(*options.values()):
        labeled = log.filter(pl.col(judge).is_not_null().any().over("query"))
        alone = pr.evaluate(labeled, [*METRICS], score=run, label=judge)
        assert_close(found.filter(run=run, judge=judge).drop("run", "judge"), alone)


def test_a_label_counts_for_all_runs_but_not_for_other_groups() -> None:
    log = pl.DataFrame({
        "run": ["a", "b", "a", "b"], "country": ["DE", "DE", "FR", "FR"], "query": 1,
        "doc": [1, 2, 1, 2], "score": 1.0, "human": [1, None, None, None],
    })  # fmt: skip
    options: dict[str, Any] = {"by": ["country", "run"], "label": ["human"], "keep": "traffic"}
    found = pr.per_query(log.with_columns(traffic=7), "p@1", **options)
    assert found.rows() == [("DE", "a", 1, "human", 7, 1, 1.0), ("DE", "b", 1, "human", 7, 1, 0.0)]
    with pytest.warns(pr.errors.RankWarning, match="no document has a label .column 'human'"):
        means = pr.evaluate(log, "p@1", by=["country", "run"], label=["human"])
    assert means.rows() == [("DE", "a", "human", 1, 1.0), ("DE", "b", "human", 1, 0.0)]


@pytest.mark.filterwarnings("ignore:no document has a label")  # of the queries that runs share
def test_runs_are_aligned_for_each_judge() -> None:
    log = random_log(8).filter((pl.col("run") == "bm25") | (pl.col("query") < 20))
    for align in ("common", "all"):
        options: dict[str, Any] = {"by": "run", "align": align}
        found = pr.evaluate(log, ["rr"], label=JUDGES, **options)
        for judge in JUDGES:
            labeled = log.filter(pl.col(judge).is_not_null().any().over("query"))
            alone = pr.evaluate(labeled, ["rr"], label=judge, **options)
            assert_close(found.filter(judge=judge).drop("judge"), alone)


def test_a_judge_without_labels() -> None:
    log = random_log(9).with_columns(human=pl.lit(None, pl.Int64))
    with pytest.warns(pr.errors.RankWarning, match="in the column 'human' .`label`., so there"):
        found = pr.evaluate(log, "rr", by="run", label=JUDGES)
    assert found["judge"].to_list() == ["llm", "llm"]


@pytest.mark.filterwarnings("ignore:.*has fractions:polars_rank.errors.RankWarning")
def test_expressions_may_have_another_type_for_each_judge() -> None:
    log = pl.DataFrame({"query": 1, "score": [1.0, 2.0], "a": [1, 2], "b": [0.5, None]})
    highest = pl.col("label").max().alias("highest")
    found = pr.per_query(log, ["rr", highest], label=["a", "b"], undefined="null")
    assert found.rows() == [(1, "a", 1.0, 2.0), (1, "b", None, 0.5)]


def test_statistics_of_each_judge() -> None:
    log = random_log(10).with_columns(pl.col("human").fill_null(1))
    values = pr.per_query(log, "rr", by="run", label=JUDGES, undefined="zero")
    of_judges = pr.compare(values, baseline="bm25")
    assert_close(
        of_judges.select("judge"), pr.compare(values, baseline="bm25", by="judge").select("judge")
    )
    of_moments = pr.compare(pr.moments(values, baseline="bm25"), baseline="bm25")
    assert_close(of_moments.select("judge", "difference"), of_judges.select("judge", "difference"))
    for judge in JUDGES:
        alone = pr.compare(values.filter(judge=judge).drop("judge"), baseline="bm25")
        assert of_judges.filter(judge=judge)["difference"].item() == alone["difference"].item()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"label": ["llm", "llm"]}, "ArgumentError", "`label` has the column 'llm' twice"),
        ({"label": []}, "ArgumentError", "`label` must name at least one column"),
        ({"label": ["llm", "none"]}, "SchemaError", "column 'none' .`label`. not found"),
        ({"label": ["llm", "text"]}, "SchemaError", "column 'text' .`label`. must be numeric"),
        ({"label": ["llm", "query"]}, "ArgumentError", "used for both `query` and `label`"),
        (
            {"label": JUDGES, "by": ["run", "judge"]},
            "ArgumentError",
            "'judge' .`by`. has the name",
        ),
        ({"label": JUDGES, "query": "judge"}, "ArgumentError", "'judge' .`query`. has the name"),
    ],
    ids=str,
)
def test_invalid_labels(options: dict[str, Any], error: str, message: str) -> None:
    log = random_log(11).with_columns(text=pl.lit("x"))
    for function in (pr.evaluate, pr.per_query):
        with pytest.raises(getattr(pr.errors, error), match=message):
            function(log, "rr", **options)


def test_the_column_of_judges_is_not_in_the_log() -> None:
    log = random_log(12).with_columns(judge=pl.lit("x"))
    with pytest.raises(pr.errors.SchemaError, match="already has a column 'judge'"):
        pr.per_query(log, "rr", label=JUDGES)
    with pytest.raises(pr.errors.ArgumentError, match="'judge' .`keep`. has the name of a result"):
        pr.per_query(log, "rr", label=JUDGES, keep="judge")


def test_errors_in_labels_name_the_column() -> None:
    log = random_log(13).with_columns(llm=pl.lit(float("nan")))
    with pytest.raises(pr.errors.DataError, match="column 'llm' .`label`. has NaN"):
        pr.evaluate(log, "rr", by="run", label=JUDGES)


def test_functions_of_other_labels() -> None:
    log = random_log(14)
    curve = pr.rank_curve(log, "ndcg", [1, 3], by="run", label=JUDGES)
    at = pr.evaluate(log, "ndcg@3", by="run", label=JUDGES)
    assert curve.filter(k=3)["ndcg"].to_list() == at["ndcg@3"].to_list()
    assert pr.grouped_auc(log, by="run", label=JUDGES).columns[:2] == ["run", "judge"]
    assert isinstance(log.ranking.ndcg(3, query=["run", "query"], label=JUDGES), pl.DataFrame)
    for call in (
        lambda: pr.diagnostics.headroom(log, "rr", by="run", label=JUDGES),
        lambda: pr.plot.at_k(log, label=JUDGES),
    ):
        with pytest.raises(pr.errors.ArgumentError, match="`label` must be a single column"):
            call()


def test_sorted_logs_are_evaluated_in_flat_memory(tmp_path: Path) -> None:
    random_log(15).sort("run", "query").write_parquet(tmp_path / "log.parquet")
    log = pr.scan_log(tmp_path / "log.parquet", by="run")
    without_runs: dict[str, Any] = {"query": ["run", "query"], "label": JUDGES}
    assert not holding_nodes(pr.per_query(log, ["ndcg@3", "rr"], **without_runs))
    by_run: dict[str, Any] = {"by": "run", "label": JUDGES}
    assert not holding_nodes(pr.per_query(log, ["ndcg@3"], query_set="all", **by_run))
    # The rankings of a query are counted over runs: only rows of the result are held.
    held = holding_nodes(pr.per_query(log, ["ndcg@3", "rr"], **by_run))
    assert held == {"group-by", "equi-join", "multiplexer"}
