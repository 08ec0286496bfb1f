"""`tune_fusion`, compared with values by hand and with Python."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

# A fusion from its text.
from polars_rank.fusion.methods import read_fusion
from strategies import shuffled

#: In query 1, run a has the relevant document first and run b second; in query 2, vice versa.
PAIR = pl.DataFrame({
    "run": [*"aabb"] * 3, "query": [q for q in (1, 2, 3) for _ in range(4)],
    "doc": [*"xyyx", *"yxxy", *"xyyx"], "score": [2.0, 1.0] * 6,
}).with_columns(label=pl.col("doc").eq("x").cast(pl.Int64))  # fmt: skip


few_queries = pytest.mark.filterwarnings("ignore:fewer than 30 queries")


def log(seed: int, *, queries: int = 30, runs: str = "abc", quality: float = 1.0) -> pl.DataFrame:
    """Return runs of different quality; they retrieve some of the documents of a query."""
    rng = random.Random(seed)
    rows = []
    for query in range(queries):
        labels = {doc: rng.choice([0, 0, 1, None]) for doc in "stuvwxyz"}
        labels["s"] = 1
        rows += [
            (
                run,
                query,
                doc,
                (quality + rank / 10) * (label or 0) + rng.gauss(0, 1),
                label,
                query // 2,
            )
            for rank, run in enumerate(runs)
            for doc, label in labels.items()
            if rng.random() < 0.7
        ]
    schema = {"run": pl.String, "query": pl.Int64, "doc": pl.String, "score": pl.Float64}
    return pl.DataFrame(rows, {**schema, "label": pl.Int64, "user": pl.Int64}, orient="row")


def row(table: pl.DataFrame, procedure: str = "tuned") -> dict[str, Any]:
    return table.row(by_predicate=pl.col("procedure") == procedure, named=True)


def values_of(frame: pl.DataFrame, method: str, metric: str = "ndcg@3") -> dict[int, float]:
    """Return the metric of each query for a method of fusion."""
    values = pr.per_query(pr.fuse(frame, method), metric, undefined="zero")
    return dict(values.select("query", metric).iter_rows())


def mixed(bits: int) -> int:
    """Return the output of splitmix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits = (bits ^ bits >> shift) * factor % 2**64
    return bits


def weights_of(method: str) -> Mapping[str, float]:
    return read_fusion(method).weights or {}


def folds_of(queries: Iterable[int], count: int) -> dict[int, int]:
    """Return the folds of queries: the places of their hashes, modulo the number of folds."""
    ordered = sorted(queries, key=mixed)
    return {query: place % count for place, query in enumerate(ordered)}


def test_the_grid_has_all_weights_that_are_multiples_of_the_step() -> None:
    for runs, count in (("ab", 11), ("abc", 66)):
        frame = pl.DataFrame({"run": [*runs], "query": 1, "doc": "x", "score": 1.0, "label": 1})
        frame = pl.concat([frame, frame.with_columns(query=2)])
        curve = pr.tune_fusion(frame, "rr", curve=True)
        weights = [tuple(weights_of(text).values()) for text in curve["method"]]
        tenths = [tuple(round(10 * weight) for weight in each) for each in weights]
        assert len({*tenths}) == len(tenths) == count
        assert {sum(each) for each in tenths} == {10}
        assert weights == [tuple(part / 10 for part in parts) for parts in tenths]
        assert curve["candidate"].to_list() == [*range(count)]


def test_by_hand() -> None:
    # k = 0: with weights (1, 0) and (0, 1), the fused ranking is that of a run; with equal weights,
    # documents are tied, and y is first.
    with warnings.catch_warnings(action="ignore"):  # of three queries
        curve = pr.tune_fusion(PAIR, "rr", "rrf(k=0)", step=0.5, curve=True)
        table = pr.tune_fusion(PAIR, "rr", "rrf(k=0)", step=1, folds=3)
    # a has reciprocal ranks 1, 1/2, 1; b has 1/2, 1, 1/2; the fusion with ties 1/2 for all.
    assert curve["mean"].to_list() == pytest.approx([2.5 / 3, 0.5, 2 / 3])
    assert table["procedure"].to_list() == ["tuned", "unweighted", "a", "b"]
    # Without query 1 or 3, a and b have 1 + 1/2 on the others, and a is the first. Without query 2,
    # a has 1 + 1. So a is chosen for all.
    assert row(table)["mean"] == pytest.approx(2.5 / 3)
    weights = [weights_of(text) for text in row(table)["by_fold"]]
    assert weights == [{"a": 1, "b": 0}] * 3
    assert row(table, "b")["difference"] == pytest.approx((-0.5 + 0.5 - 0.5) / 3)
    assert row(table, "unweighted")["difference"] == pytest.approx((-0.5 + 0 - 0.5) / 3)
    assert table["queries"].to_list() == [3] * 4


CANDIDATES = [
    "rrf(k=0)", "mnz(normalize='min_max', missing='lowest')",
    pr.Fusion("weighted_sum", weights={"a": 1, "b": 2, "c": 0.5}),
    "rrf(weights={'a': 0, 'b': 1, 'c': 2})",
]  # fmt: skip
NORMALIZED = [f"sum(normalize='{each}')" for each in ("min_max", "sum", "zscore", "rank", "borda")]


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("ndcg@3", {"step": 0.25}), ("ndcg@3", {"candidates": CANDIDATES}),
        ("ndcg@3", {"candidates": NORMALIZED}),
        ("ndcg@3", {"candidates": ["rrf(k=0)", "mnz", "weighted_sum"], "step": 0.5}),
        ("max_share(category='label')@3", {"candidates": "borda", "step": 0.5}),
    ],
)  # fmt: skip
def test_choices_and_held_out_values_against_python(metric: str, options: Any) -> None:
    frame = log(1)
    table = pr.tune_fusion(frame, metric, folds=4, **options)
    curve = pr.tune_fusion(frame, metric, curve=True, **options)
    values = [values_of(frame, text, metric) for text in curve["method"]]
    assert curve["mean"].to_list() == pytest.approx([sum(v.values()) / 30 for v in values])

    tuned = row(table)
    chosen = [curve["method"].to_list().index(text) for text in tuned["by_fold"]]
    lower = pr.metric(metric).lower_is_better
    folds = folds_of(range(30), 4)
    for fold in range(4):
        means = [
            math.fsum(v for q, v in each.items() if folds[q] != fold)
            / sum(1 for q in each if folds[q] != fold)
            for each in values
        ]
        best = min(means) if lower else max(means)
        assert means[chosen[fold]] == pytest.approx(best, abs=1e-12)
    held_out = [values[chosen[fold]][query] for query, fold in folds.items()]
    assert tuned["mean"] == pytest.approx(sum(held_out) / len(held_out))
    means = [sum(each.values()) for each in values]
    winner = curve["method"].to_list().index(tuned["method"])
    assert means[winner] == pytest.approx(min(means) if lower else max(means))


@pytest.mark.parametrize(("cluster", "folds"), [(None, 5), ("user", 3)])
def test_intervals_account_for_training_queries_in_common(cluster: str | None, folds: int) -> None:
    frame = log(2, queries=150, quality=0.5)
    options: dict[str, Any] = {"step": 0.25, "folds": folds, "cluster": cluster}
    with warnings.catch_warnings(action="ignore"):  # of 15 clusters
        table = pr.tune_fusion(frame, "ndcg@3", **options)
    users = dict(frame.select("query", "user").unique().iter_rows())
    units = folds_of({*(users.values() if cluster else users)}, folds)
    texts = row(table)["by_fold"]
    values = {text: values_of(frame, text) for text in texts}
    rows = [
        ("tuned", query, user, values[texts[units[user if cluster else query]]][query])
        for query, user in users.items()
    ]
    held_out = pl.DataFrame(rows, ["run", "query", "user", "ndcg@3"], orient="row")
    best = max("abc", key=lambda name: row(table, name)["mean"])
    single = pr.per_query(pr.fuse(frame, keep_runs=True).filter(run=best), "ndcg@3", by="run")
    single = single.join(held_out.select("query", "user"), on="query").select(held_out.columns)
    both, given = pl.concat([held_out, single]), {"baseline": best, "correction": False}
    with warnings.catch_warnings(action="ignore"):
        of_tuned = pr.summarize(held_out, run="run", cluster=cluster).row(0, named=True)
        paired = pr.compare(both, cluster=cluster, **given).row(0, named=True)
    # The variance of independent values times 1 + (folds - 1) / folds.
    factor = math.sqrt(1 + (folds - 1) / folds)
    assert row(table)["mean"] == pytest.approx(of_tuned["mean"])
    for name in ("low", "high"):
        error = of_tuned[name] - of_tuned["mean"]
        assert row(table)[name] - row(table)["mean"] == pytest.approx(factor * error)
        error = paired[name] - paired["difference"]
        difference = row(table)[f"difference_{name}"] - row(table)["difference"]
        assert difference == pytest.approx(factor * error)
    assert row(table)["difference"] == pytest.approx(paired["difference"])
    assert row(table)["p_value"] > paired["p_value"]


def test_one_query_in_each_fold() -> None:
    frame = log(3, queries=6)
    with warnings.catch_warnings(action="ignore"):  # of six queries
        table = pr.tune_fusion(frame, "ndcg@3", step=0.5, folds=6)
        curve = pr.tune_fusion(frame, "ndcg@3", step=0.5, curve=True)
    values = [values_of(frame, text) for text in curve["method"]]
    held_out = []
    for query in range(6):
        others = [sum(each[q] for q in range(6) if q != query) for each in values]
        best = max(range(len(others)), key=lambda number: round(others[number], 9))
        held_out.append(values[best][query])
    assert row(table)["mean"] == pytest.approx(sum(held_out) / 6)


def test_queries_without_a_cluster_are_clusters() -> None:
    frame = log(4)
    nulls = frame.with_columns(user=pl.lit(None, pl.Int64))
    alone = pr.tune_fusion(frame, "ndcg@3", step=0.5)
    assert_frame_equal(pr.tune_fusion(nulls, "ndcg@3", step=0.5, cluster="user"), alone)
    some = frame.with_columns(user=pl.when(pl.col("run") != "a").then("user"))
    with pytest.raises(pr.errors.DataError, match="several clusters"):
        pr.tune_fusion(some, "ndcg@3", cluster="user")


def test_a_run_without_judged_documents() -> None:
    frame = log(5)
    unjudged = frame.filter(run="a").with_columns(
        run=pl.lit("d"), doc=pl.col("doc") + "!", label=pl.lit(None, pl.Int64)
    )
    with pytest.warns(pr.errors.RankWarning, match="all values are equal"):
        table = pr.tune_fusion(pl.concat([frame, unjudged]), "ndcg@3", step=1)
    assert row(table, "d")["mean"] == 0
    assert row(table, "d")["queries"] == row(table)["queries"] == 30


def test_procedures_equal_the_functions_for_one_step() -> None:
    frame = log(2)
    table = pr.tune_fusion(frame, "ndcg@3", step=0.5)
    both = pr.fuse(frame, keep_runs=True)
    values = pr.per_query(both, "ndcg@3", by="run")
    expected = pr.summarize(values).select("run", "mean", "low", "high")
    names = pl.col("procedure").replace("unweighted", "fused").alias("run")
    others = table[1:]
    ours = others.select(names, "mean", "low", "high").sort("run")
    assert_frame_equal(ours, expected.sort("run"))
    best = expected.filter(pl.col("run") != "fused").sort("mean")["run"][-1]
    paired = pr.compare(values, baseline=best, correction=False)
    paired = paired.select("run", "difference", "low", "high", "p_value")
    differences = others.filter(pl.col("procedure") != best).select(
        names, "difference", pl.col("difference_low").alias("low"),
        pl.col("difference_high").alias("high"), "p_value",
    )  # fmt: skip
    assert_frame_equal(differences.sort("run"), paired.sort("run"))
    assert row(table, best)["difference"] is None


def test_lazy_eager_order_of_rows_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = log(3)
    table = pr.tune_fusion(frame, "ndcg@3", step=0.25)
    curve = pr.tune_fusion(frame, "ndcg@3", step=0.25, curve=True)
    monkeypatch.setattr("polars_rank.fusion.cross_validation.memory_bytes", lambda _: 10**6)
    lazy = shuffled(frame, 1).lazy()
    assert_frame_equal(pr.tune_fusion(lazy, "ndcg@3", step=0.25).collect(), table)
    assert_frame_equal(pr.tune_fusion(lazy, "ndcg@3", step=0.25, curve=True).collect(), curve)


def test_nothing_is_read_while_a_plan_is_built() -> None:
    def fail(_: pl.DataFrame) -> pl.DataFrame:
        raise AssertionError("the log was read")

    frame = log(1)
    unread = frame.lazy().map_batches(fail, schema=frame.schema)
    for curve in (False, True):
        plan = pr.tune_fusion(unread, "ndcg@3", curve=curve)
        assert plan.collect_schema() == pr.tune_fusion(frame, "ndcg@3", step=1, curve=curve).schema


def test_clusters_are_in_one_fold_and_widen_intervals() -> None:
    frame = log(4)
    doubled = pl.concat([frame, frame.with_columns(pl.col("query") + 100)])
    doubled = doubled.with_columns(user=pl.col("query") % 100)
    once = pr.tune_fusion(frame, "ndcg@3", step=0.5)
    twice = pr.tune_fusion(doubled, "ndcg@3", step=0.5, cluster="user")
    for procedure in ("unweighted", "a"):
        first, second = row(once, procedure), row(twice, procedure)
        assert second["queries"] == 2 * first["queries"]
        assert (second["low"], second["high"]) == pytest.approx((first["low"], first["high"]))
    conflict = frame.with_columns(user=pl.int_range(pl.len()))
    with pytest.raises(pr.errors.DataError, match="several clusters"):
        pr.tune_fusion(conflict, "ndcg@3", cluster="user")


def test_groups_are_tuned_by_themselves() -> None:
    parts = {None: log(5, runs="ab"), "en": log(6)}
    frame = pl.concat(
        part.with_columns(lang=pl.lit(name, pl.String)) for name, part in parts.items()
    )
    table = pr.tune_fusion(frame, "ndcg@3", step=0.5, by="lang")
    for name, part in parts.items():
        alone = pr.tune_fusion(part, "ndcg@3", step=0.5)
        of_group = table.filter(pl.col("lang").eq_missing(pl.lit(name)))
        assert_frame_equal(of_group.drop("lang"), alone)
    few = frame.filter(pl.col("lang").is_null() | (pl.col("query") < 3))
    with pytest.raises(pr.errors.DataError, match="only 3 queries; .*; in the group .*'en'"):
        pr.tune_fusion(few, "ndcg@3", by="lang")


def test_runs_without_rows_for_a_query_have_retrieved_nothing() -> None:
    frame = log(7).filter(~((pl.col("run") == "c") & (pl.col("query") < 10)))
    table = pr.tune_fusion(frame, "ndcg@3", step=1)
    values = pr.per_query(pr.fuse(frame, keep_runs=True).filter(run="c"), "ndcg@3")
    assert values.height == 20
    assert row(table, "c")["queries"] == 30
    assert row(table, "c")["mean"] == pytest.approx(values["ndcg@3"].sum() / 30)


@few_queries
def test_held_out_means_of_noise_are_not_above_those_of_runs() -> None:
    above, too_high = 0.0, 0.0
    for seed in range(6):
        frame = log(seed, queries=24, quality=-0.1)
        tuned = pr.tune_fusion(frame, "ndcg@3", step=0.5)
        fixed = pr.tune_fusion(frame, "ndcg@3", step=0.5, curve=True)["mean"]
        above += row(tuned)["mean"] - fixed.mean()
        too_high += fixed.max() - fixed.mean()
    assert above < 0.3 * too_high


@few_queries
def test_undefined_values_of_the_metric() -> None:
    frame = log(2).with_columns(label=pl.when(pl.col("query") > 9).then("label").otherwise(0))
    skipped, zero = (
        pr.tune_fusion(frame, "rr", step=0.5, conventions=pr.Conventions(undefined=undefined))
        for undefined in ({"rr": "skip"}, "zero")
    )
    assert (row(skipped, "a")["queries"], row(zero, "a")["queries"]) == (20, 30)
    assert row(skipped, "a")["mean"] == pytest.approx(row(zero, "a")["mean"] * 30 / 20)


def test_values_of_the_metric_may_be_integers() -> None:
    hits = pl.col("hits").max().alias("x")
    options: dict[str, Any] = {"candidates": ["rrf(k=1)", "rrf"]}
    table = pr.tune_fusion(log(2), hits, **options)
    expected = pr.tune_fusion(log(2), hits.cast(pl.Float64), **options)
    assert_frame_equal(table, expected)


@few_queries
def test_the_fusion_without_weights_is_the_first_method() -> None:
    candidates = ["sum(normalize='min_max', weights={'a': 1, 'b': 2, 'c': 3})", "rrf(k=1)"]
    table = pr.tune_fusion(log(1), "rr", candidates)
    assert row(table, "unweighted")["method"] == "sum(normalize='min_max')"
    table = pr.tune_fusion(log(1), "rr", "weighted_sum(normalize='min_max')", step=0.5)
    assert weights_of(row(table, "unweighted")["method"]) == {"a": 1, "b": 1, "c": 1}


MISUSES: list[tuple[dict[str, Any], str]] = [
    ({"step": 0.3}, "`step` must divide 1"),
    ({"step": 0}, "`step` must divide 1"),
    ({"step": float("nan")}, "`step`"),
    ({"candidates": 0.1}, "`candidates` must be"),
    ({"candidates": [0.1]}, r"`candidates`.0. must be a text"),
    ({"candidates": []}, "empty"),
    ({"candidates": ["rrf(kk=1)"]}, r"`candidates`.0.: .* no parameter `kk`"),
    ({"candidates": ["rrf", "rrf(k=-1)"]}, r"`candidates`.1.: `k`"),
    ({"candidates": ["wmnz"]}, r"`candidates`.0.: 'wmnz' needs `weights`"),
    ({"step": 0.01}, "5,151 candidates are more than 1,000; choose a larger `step` for 3 runs"),
    ({"candidates": ["rrf"] * 1001}, "1,001 candidates are more than 1,000; pass fewer methods"),
    ({"candidates": "mnz"}, "'mnz' has no weights; pass a list"),
    ({"candidates": "rrf(weights={'a': 1})"}, "already has weights; pass a list"),
    ({"folds": 1}, "`folds`"),
    ({"metric": ["rr", "ap"]}, "metric"),
    ({"metric": "num_retrieved"}, "must be a mean"),
    ({"metric": "gmap"}, "'gmap' is a geometric mean"),
    ({"metric": "nope"}, "nope"),
    ({"conventions": pr.Conventions(undefined="null")}, "`undefined` of `conventions`"),
    ({"cluster": "run"}, "used for both"),
]


def test_invalid_arguments() -> None:
    for frame in (log(1), log(1).lazy()):
        for options, message in MISUSES:
            with pytest.raises(pr.errors.ArgumentError, match=message):
                pr.tune_fusion(frame, **{"metric": "rr", **options}).lazy().collect()


INVALID_LOGS: dict[str, Any] = {
    "only the run 'a'": lambda f: f.filter(run="a"),
    "no runs": lambda f: f.clear(),
    "NaN or infinite": lambda f: f.with_columns(score=pl.lit(math.nan)),
    "no labels": lambda f: f.with_columns(label=pl.lit(None, pl.Int64)),
    "only 2 queries": lambda f: f.filter(pl.col("query") < 2),
    "has a run 'tuned'": lambda f: f.with_columns(pl.col("run").replace("a", "tuned")),
    "different labels": lambda f: f.with_columns(label=pl.int_range(pl.len()) % 3),
    "no weight for the run 'c'": lambda _: log(1),
    "run 'b' .* not found": lambda f: f.with_columns(pl.col("run").replace("b", "c")),
}
WEIGHTED = [pr.Fusion(weights={"a": 1, "b": 1})]


def test_invalid_logs() -> None:
    for message, invalid in INVALID_LOGS.items():
        frame = invalid(log(1, runs="ab"))
        candidates: Any = {"candidates": WEIGHTED} if "'c'" in message or "'b'" in message else {}
        for table in (frame, frame.lazy()):
            with pytest.raises(pr.errors.DataError, match=message):
                pr.tune_fusion(table, "rr", **candidates).lazy().collect()
    with pytest.raises(pr.errors.SchemaError, match="label"):
        pr.tune_fusion(log(1).drop("label"), "rr")
