"""Mistakes of users and special cases, each of which once gave a wrong value."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import threading
import warnings
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal
from polars_rank._params import OWN
from polars_rank.metrics.metric import REGISTER
from strategies import assert_close, every_metric, log_of, random_lists, shuffled

BAD = pl.DataFrame(
    {
        "query": [q for q in range(100) for _ in range(10)],
        "doc": list(range(10)) * 100,
        "score": [float(i % 7) for i in range(999)] + [float("nan")],
        "label": [i % 3 for i in range(1000)],
    }
)
CALLS: dict[str, Any] = {
    "tie_bands": lambda: pr.diagnostics.tie_bands(BAD, ["ndcg@3", "rr"]),
    "judgment_bounds": lambda: pr.diagnostics.judgment_bounds(BAD, ["ndcg@3", "rr"]),
    "explain_difference": lambda: pr.explain_difference(BAD, "ndcg@3", "polars_rank", "lightgbm"),
    "several orders": lambda: pr.evaluate(BAD, ["rr@10", "rr", "err"], conventions="ir_measures"),
    "lazy": lambda: pr.diagnostics.tie_bands(BAD.lazy(), "rr").collect(engine="streaming"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_rows_at_fault_are_an_error_and_never_a_hang(call: Any) -> None:
    found = []

    def many() -> None:
        for _ in range(10):
            try:
                call()
            except pr.errors.DataError as error:
                found.append(str(error))

    thread = threading.Thread(target=many, daemon=True)
    thread.start()
    thread.join(timeout=300)
    assert not thread.is_alive(), f"hangs after {len(found)} calls"
    assert len(found) == 10
    assert all("NaN or infinite values" in text for text in found)


def pickled(metric: pr.Metric) -> pr.Metric:
    return pickle.loads(pickle.dumps(metric))


def test_metrics_are_copied_and_pickled() -> None:
    log, metrics = log_of(random_lists(seed=21, queries=5)), every_metric(3)
    once = {str(metric) for metric in every_metric()}
    expected = pr.per_query(log, once)
    for function in (pickled, copy.copy, copy.deepcopy):
        copies = [function(metric) for metric in metrics]
        for metric, again in zip(metrics, copies, strict=True):
            assert isinstance(again, pr.Metric)
            assert str(again) == str(metric)
            assert again.output_name == metric.output_name
        found = pr.per_query(log, [each for each in copies if str(each) in once])
        assert_close(found, expected.select(found.columns))


@pytest.mark.parametrize(
    "metric",
    [
        pr.ndcg(3, gain={0: 0, 1: 3}),
        pr.dcg(discount=pr.discounts.jarvelin(3)),
        pr.ndcg(gain=pr.gains.at_least(1)),
    ],
    ids=str,
)
def test_gains_and_conventions_are_pickled(metric: pr.Metric) -> None:
    again = pickle.loads(pickle.dumps(metric))
    assert again.arguments == metric.arguments
    assert pickle.loads(pickle.dumps(pr.conventions.IR_MEASURES)) == pr.conventions.IR_MEASURES


def test_ranked_table_under_other_names_does_not_read_the_wrong_column() -> None:
    log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [5, 0], "grade": [0, 1]})
    with pytest.raises(pr.errors.SchemaError, match="also has a column 'label'"):
        pr.rank(log, label="grade")
    renamed = log.drop("label").rename({"score": "s"}).with_columns(score=pl.lit(0.0))
    with pytest.raises(pr.errors.SchemaError, match="also has a column 'score'"):
        pr.rank(renamed, score="s", label="grade")


def test_columns_of_our_own_are_out_of_reach() -> None:
    log = log_of(random_lists(seed=22))
    with pytest.raises(pr.errors.ArgumentError, match="internal columns"):
        pr.evaluate(log, pl.col(OWN + "position").max().alias("x"))
    with pytest.raises(pr.errors.SchemaError, match="has the prefix 'polars_rank:'"):
        pr.evaluate(log.with_columns(pl.lit(1).alias(OWN + "rows")), "rr")
    plain = log.with_columns(__rows=1, __position=2, __term_0=3)
    assert_close(pr.evaluate(plain, "ndcg"), pr.evaluate(log, "ndcg"))


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int64, pl.Float32])
def test_a_gain_of_ones_own_gets_labels_that_do_not_wrap(dtype: pl.DataType) -> None:
    log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 3]}).cast({"label": dtype})
    found = pr.evaluate(log, pr.ndcg(gain=lambda label: label * 100))["ndcg(gain=<lambda>)"]
    assert found.item() == pytest.approx(pr.evaluate(log, "ndcg")["ndcg"].item(), abs=1e-12)


def test_scores_beyond_32_bits_stay_above_what_was_not_retrieved() -> None:
    log = pl.DataFrame(
        {"query": 1, "doc": ["a", "b"], "score": [-1e39, None], "label": [1, 0]},
        schema_overrides={"score": pl.Float64},
    )
    assert pr.evaluate(log, "rr", conventions=pr.conventions.TREC_EVAL_9)["rr"].item() == 1.0


def test_decimals_that_floats_cannot_tell_apart_are_no_ties() -> None:
    scores = pl.Series(["1.00000000000000000001", "1.00000000000000000002"]).cast(
        pl.Decimal(38, 20)
    )
    log = pl.DataFrame({"query": 1, "doc": [2, 1], "score": scores, "label": [0, 1]})
    assert pr.evaluate(log, "rr")["rr"].item() == 1.0
    assert pr.diagnostics.tie_bands(log, "rr")["tied_rankings"].item() == 0
    assert pr.rank(log)["rank"].to_list() == [2, 1]


def test_large_labels_and_small_collections_are_refused() -> None:
    log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1024]})
    with pytest.raises(pr.errors.DataError, match="too large for ERR"):
        pr.evaluate(log, "err")
    assert pr.evaluate(log, "err(max_grade=4)")[0, 1] == pytest.approx((2**4 - 1) / 2**4 / 2)
    for metric in (
        pr.metrics.mcc(1, size=1),
        pr.fall_out(size=1),
        pr.metrics.classification_accuracy(size=1),
    ):
        with pytest.raises(pr.errors.DataError, match="`size` of the collection is 1"):
            pr.evaluate(log, metric)
        assert not pr.rank(log).select(metric).to_series().is_nan().any()


def test_the_row_of_an_empty_list_is_no_document() -> None:
    log = pl.DataFrame(
        {"query": ["a", "b", "b"], "doc": [None, "x", "y"], "score": [None, 2.0, 1.0],
         "label": [None, 1, 0]}
    )  # fmt: skip
    found = pr.per_query(log, ["classification_accuracy", "utility(d=1)"], undefined="null")
    assert found["classification_accuracy"].to_list() == [None, 0.5]
    assert found["utility(d=1)"].to_list() == [0, 0]
    plain = (
        pr.rank(log)
        .group_by("query")
        .agg(pr.metrics.classification_accuracy(), pr.metrics.utility(d=1))
        .sort("query")
    )
    assert_close(plain, found)


@pytest.mark.parametrize("ids", [pl.Int32, pl.Int64, pl.String])
def test_a_row_without_a_document_is_last(ids: pl.DataType) -> None:
    log = pl.DataFrame({"query": 1, "doc": [None, 1, 2], "score": [None, -5.0, -6.0],
                        "label": [None, 1, 0]}).cast({"doc": ids})  # fmt: skip
    assert pr.evaluate(log, "rr")["rr"].item() == 1.0


def test_gains_outside_an_evaluation_refuse_labels_as_well() -> None:
    ranked = pr.rank(pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [60, 1]}))
    with pytest.raises(pl.exceptions.PolarsError, match="label 60.0 is above 50"):
        ranked.select(pr.ndcg(gain="exp2"))
    with pytest.raises(pl.exceptions.PolarsError, match="60.0 is not in the gain mapping"):
        ranked.select(pr.dcg(gain={0: 0, 1: 1}))
    fine = ranked.with_columns(label=pl.Series([2, None]))
    assert fine.select(pr.dcg(gain="exp2")).item() == 3.0


WRONG_CHOICES = {
    "unknown parameter": lambda: pr.Conventions(parameters={"gian": "exp2"}),
    "parameter that a metric lacks": lambda: pr.Conventions(parameters={"ndcg.norm": "min"}),
    "metric that there is not": lambda: pr.Conventions(exceptions={"ndgc": {"ties": "input"}}),
    "choice that there is not": lambda: pr.conventions.TREC_EVAL.but(tie="doc"),
    "preset that there is not": lambda: pr.evaluate(BAD[:10], "rr", conventions="lightgmb"),
}


@pytest.mark.parametrize("call", WRONG_CHOICES.values(), ids=WRONG_CHOICES.keys())
def test_misspelt_choices_are_refused(call: Any) -> None:
    with pytest.raises(pr.errors.ArgumentError):
        call()


def test_undefined_by_another_name_of_the_metric() -> None:
    log = pl.DataFrame({"query": [1, 2], "score": [1.0, 1.0], "label": [1, 0]})
    assert pr.evaluate(log, "rr", undefined={"rr": "skip"})["rr"].item() == 1.0


@pytest.mark.parametrize("name", ["queries"])
def test_groups_named_as_columns_of_the_result(name: str) -> None:
    log = log_of(random_lists(seed=23)).with_columns(pl.lit(1).alias(name))
    with pytest.raises(
        pr.errors.ArgumentError, match="'queries' .`by`. has the name of a result column"
    ):
        pr.evaluate(log, "rr", by=name)
    with pytest.raises(
        pr.errors.ArgumentError, match="'hits' .`by`. has the name of a result column"
    ):
        pr.pr_curve(log.with_columns(hits=1), by="hits")


def test_no_public_name_hides_a_module() -> None:
    for module in pkgutil.walk_packages(pr.__path__, "polars_rank."):
        if module.name.endswith((".conftest", "__main__")):
            continue
        found = importlib.import_module(module.name)
        parent, _, name = module.name.rpartition(".")
        assert getattr(importlib.import_module(parent), name) is found, module.name


def test_names_of_metrics_are_registered_once() -> None:
    from polars_rank.metrics.metric import define_metric

    def ndcg() -> Any:
        return pr.terms.num_documents()

    with pytest.raises(pr.errors.ArgumentError, match="a metric 'ndcg' already exists"):
        define_metric()(ndcg)
    assert REGISTER["ndcg"].__module__ == "polars_rank.metrics.discounted_gain"


def test_an_expression_of_ones_own_that_is_null_is_skipped() -> None:
    log = pl.DataFrame({"query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "click": [False, True, False],
                        "label": 0})  # fmt: skip
    first = pl.col("rank").filter("click").min().alias("first")
    assert pr.evaluate(log, first)["first"].item() == 2.0
    assert pr.evaluate(log, first, undefined="zero")["first"].item() == 1.0


@pytest.mark.parametrize("dtype", [pl.UInt8, pl.Int32, pl.Float64])
def test_positions_are_better_the_lower_they_are(dtype: pl.DataType) -> None:
    log = pl.DataFrame({"query": 1, "position": [1, 2, 3], "label": [0, 1, 0]})
    log = log.cast({"position": dtype})
    calls = [{"position": "position"}, {"score": "-position"},
             {"score": -pl.col("position").cast(pl.Int64)}]  # fmt: skip
    for options in calls:
        assert pr.evaluate(log, "rr", **options)["rr"].item() == 0.5
        ranked = pr.rank(log, **options)
        assert ranked["rank"].to_list() == [1, 2, 3]
        assert ranked.columns[:3] == ["query", "position", "label"]
    with pytest.raises(pr.errors.ArgumentError, match="`score` and `position` exclude each other"):
        pr.evaluate(log, "rr", score="s", position="position")


@pytest.mark.parametrize("name", ["rank", "Position", "pos"])
def test_a_table_with_positions_and_no_score(name: str) -> None:
    log = pl.DataFrame({"query": 1, name: [1, 2], "label": [0, 1]})
    for function in (pr.evaluate, pr.per_query, pr.diagnostics.tie_bands):
        with pytest.raises(pr.errors.SchemaError, match=f"'score'.* pass position='{name}'"):
            function(log, "rr")
        with pytest.raises(pr.errors.SchemaError, match=f"'score'.* pass position='{name}'"):
            function(log.lazy(), "rr")
    assert pr.evaluate(log, "rr", position=name)["rr"].item() == 1 / 2
    texts = log.cast({name: pl.String})  # are no positions
    with pytest.raises(
        pr.errors.SchemaError, match="'score' .`score`. not found; available: [^.]*.$"
    ):
        pr.evaluate(texts, "rr")


@pytest.mark.parametrize(
    ("function", "option"),
    [
        (lambda **options: pr.diagnostics.tie_bands(BAD, "rr", **options), "keep"),
        (lambda **options: pr.diagnostics.judgment_bounds(BAD, "rr", **options), "keep"),
        (lambda **options: pr.rank_curve(BAD, "rr", [1], **options), "keep"),
        (lambda **options: pr.grouped_auc(BAD, **options), "weight"),
        (
            lambda **options: pr.explain_difference(BAD, "ndcg", "sklearn", "ranx", **options),
            "conventions",
        ),
    ],
)
def test_options_that_a_function_does_not_pass_on(function: Any, option: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=f"has no parameter `{option}`"):
        function(**{option: "query"})


def test_numbers_of_numpy_are_numbers() -> None:
    np = needs.package("numpy", "stats")
    log = log_of(random_lists(seed=46, queries=40))
    values = pr.per_query(log, "rr")
    pairs = pl.concat(
        values.with_columns(pl.col("rr") ** power, run=pl.lit(power)) for power in (1, 2)
    )
    for integer in (np.int64, np.uint8):
        assert str(pr.ndcg(integer(3))) == "ndcg@3"
        assert_frame_equal(pr.compare(pairs, margin=integer(1)), pr.compare(pairs, margin=1))
        sampled = {"n_items": integer(100), "n_sampled": integer(1)}
        one = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 0]})
        assert_frame_equal(
            pr.catalog.sampled(one, "hit_rate@1", **sampled),
            pr.catalog.sampled(one, "hit_rate@1", n_items=100, n_sampled=1),
        )
        curve = pr.rank_curve(log, "ndcg", np.arange(1, 4, dtype=integer))
        assert_frame_equal(curve, pr.rank_curve(log, "ndcg", [1, 2, 3]))
        assert_frame_equal(pr.evaluate(log, "rr", rel=integer(1)), pr.evaluate(log, "rr"))
    for number in (np.float32, np.float64):
        assert str(pr.rbp(p=number(0.5))) == "rbp(p=0.5)"
        assert_frame_equal(
            pr.summarize(values, confidence=number(0.5)), pr.summarize(values, confidence=0.5)
        )
    assert str(pr.ndcg(gain={np.int64(0): np.float32(0), 1: 3})) == "ndcg(gain={0: 0.0, 1: 3})"
    assert pr.metric(str(pr.rbp(np.int64(5), p=np.float32(0.25)))).arguments == {"k": 5, "p": 0.25}
    with pytest.raises(pr.errors.ArgumentError, match="`k` must be a positive integer"):
        pr.ndcg(np.float64(3))
    with pytest.raises(pr.errors.ArgumentError, match="`rel` must be a number"):
        pr.evaluate(log, "rr", rel=np.float32("nan"))


def test_iterators_of_names_are_read_once() -> None:
    log = log_of(random_lists(seed=47, queries=5)).with_columns(session=pl.col("query"))
    rankings = log.select("query", "session", "doc", "score")
    judgments = log.select("query", "session", "doc", "label").drop_nulls("label")
    keys = ["query", "session"]
    for function in (
        lambda query: pr.join_judgments(rankings, judgments, query=query),
        lambda query: pr.evaluate(log, "rr", query=query),
        lambda query: pr.diagnostics.tie_bands(log, "rr", by=query, query="doc", doc=None),
    ):
        assert_frame_equal(function(iter(keys)), function(keys), check_row_order=False)


def test_errors_of_users_have_no_internal_frames() -> None:
    for call in (
        lambda: pr.evaluate(BAD, "ndgc"),
        lambda: pr.evaluate(BAD, "ndcg"),
        lambda: pr.compare(BAD, baseline="a"),
    ):
        with pytest.raises(pr.errors.RankError) as caught:
            call()
        assert len(caught.traceback) <= 3


def test_a_column_of_runs_explains_duplicates() -> None:
    log = pr.datasets.search_log(5, runs=2).rename({"run": "model"})
    two = log.with_columns(run=1)
    for log, options, advice in (
        (log, {}, "pass run='model'"),
        (log, {"by": "country"}, "pass run='model'"),
        (two, {}, "pass by='model'"),
        (two, {"by": "country"}, "add 'model' to `by`"),
    ):
        with pytest.raises(
            pr.errors.DataError, match=f"more than once.*there is a column 'model': {advice}"
        ):
            pr.evaluate(log.collect(), "ndcg@10", **options)
        with pytest.raises(pr.errors.DataError, match=advice):
            pr.evaluate(log, "ndcg@10", **options).collect()


def test_judged_documents_are_not_lost_to_a_group_that_nobody_knows() -> None:
    log = pl.DataFrame({"query": [1, 1], "doc": [1, 2], "score": [1.0, None], "label": [1, 1],
                        "country": ["DE", None]})  # fmt: skip
    with pytest.raises(pr.errors.DataError, match="belong to no group"):
        pr.evaluate(log, "recall", by="country")
    run = pl.DataFrame({"query": [1], "doc": [1], "score": [1.0], "country": ["DE"]})
    judged = pl.DataFrame({"query": [1, 1], "doc": [1, 2], "label": [1, 1]})
    joined = pr.join_judgments(run, judged)
    assert pr.evaluate(joined, "recall", by="country")["recall"].item() == 0.5


def test_what_looks_like_an_id_or_a_run_is_not_passed_over() -> None:
    rows = {"query": [1, 1, 2, 2], "docid": [1, 1, 2, 3], "score": 1.0, "label": [1, 0, 1, 0]}
    log = pl.DataFrame(rows)
    with pytest.warns(pr.errors.RankWarning, match="'docid'.* pass it as `doc`"):
        pr.evaluate(log, "rr")
    with pytest.warns(pr.errors.RankWarning, match="'model'.* pass run='model'"):
        pr.evaluate(log.rename({"docid": "model"}), "rr")
    with pytest.warns(pr.errors.RankWarning, match="'docid'.* pass it as `doc`"):
        pr.evaluate(log, "rr", doc="doc")  # the same as the default
    runs = log.rename({"docid": "model"})
    with pytest.warns(pr.errors.RankWarning, match="'model'.* pass run='model'"):
        pr.pr_curve(runs)
    with pytest.warns(pr.errors.RankWarning, match="'model'.* pass by='model'"):
        pr.pr_curve(runs.with_columns(run=1))
    with pytest.raises(pr.errors.SchemaError, match="column 'dok' .`doc`. not found"):
        pr.evaluate(log, "rr", doc="dok")
    pr.evaluate(log, "rr", doc=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        pr.evaluate(log, "rr")


@pytest.mark.parametrize(
    "function",
    [
        lambda log, **by: pr.evaluate(log, "rr", **by),
        lambda log, **by: pr.per_query(log, "rr", **by),
        lambda log, **by: pr.per_query(log, "rr", duplicates="max", **by),
        lambda log, **by: pr.rank(log, **by),
        lambda log, **by: pr.catalog.summary(log, 2, **by),
    ],
)
def test_runs_with_different_documents_are_reported(function: Any) -> None:
    log = pl.LazyFrame({
        "run": ["a", "b", "b"], "day": 1, "query": 1, "doc": [1, 2, 3],
        "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    })  # fmt: skip
    for name in ("system", "Model", "ranker", "retriever", "method"):
        named = log.rename({"run": name})
        for by in ({}, {"by": "day"}):
            plan = function(named, **by)
            message = f"values of the column '{name}'.* pass run='{name}'; if not, drop or rename"
            with pytest.warns(pr.errors.RankWarning, match=message):
                plan.collect()
        assert function(named, by=name).collect().height
    one = log.filter(pl.col("run") == "b")
    # Judged documents that were not retrieved have no run.
    missed = one.with_columns(run=pl.lit(None, pl.String), doc=pl.lit(9), score=pl.lit(None))
    for other in (one, pl.concat([one, missed.head(1)], how="vertical_relaxed")):
        assert function(other).collect().height


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_ranking_merged_from_two_systems_is_reported(engine: Any) -> None:
    log = pl.LazyFrame({
        "system": ["A", "A", "B", "B"], "query": 1, "doc": [1, 2, 3, 4],
        "score": [0.8, 0.4, 0.9, 0.6], "label": [1, 0, 0, 1],
    })  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match="pass run='system'"):
        merged = pr.evaluate(log, "mrr").collect(engine=engine)
    assert merged["mrr"].item() == 1 / 2
    split = pr.evaluate(log, "mrr", by="system").collect(engine=engine)
    assert split.rows() == [("A", 1, 1.0), ("B", 1, 1 / 2)]


def test_a_warning_about_systems_holds_no_rows(tmp_path: Path) -> None:
    log = pl.DataFrame({
        "query": [1, 1, 2], "system": ["A", "A", "B"], "doc": [1, 2, 3],
        "score": [1.0, 0.5, 1.0], "label": 1,
    })  # fmt: skip
    log.write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    for function in (pr.evaluate, pr.per_query):
        assert not holding_nodes(function(scanned, "rr"))


def runs(first: int, second: int) -> pl.DataFrame:
    """A log of two runs, each with its own number of queries."""
    log = log_of(random_lists(seed=26, queries=60))
    return pl.concat(
        log.filter(pl.col("query") < count).with_columns(run=pl.lit(run))
        for run, count in (("a", first), ("b", second))
    )


def test_the_same_queries_are_no_news() -> None:
    pr.evaluate(shuffled(runs(60, 60)), "rr", by="run")


def test_weights() -> None:
    log = pl.DataFrame({"query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "label": [0, 1, 1],
                        "traffic": [3, 3, 1]})  # fmt: skip
    found = pr.evaluate(log, ["rr", "num_rel"], weight="traffic")
    assert found.row(0) == (2, (3 * 0.5 + 1 * 1) / 4, 3 * 1 + 1 * 1)
    with pytest.raises(pr.errors.DataError, match="has several values in a ranking"):
        pr.evaluate(log.with_columns(traffic=pl.Series([3, 2, 1])), "rr", weight="traffic")
    with pytest.raises(pr.errors.DataError, match="finite numbers of 0 or more"):
        pr.evaluate(log.with_columns(traffic=-pl.col("traffic")), "rr", weight="traffic")


def test_columns_that_are_kept() -> None:
    log = log_of(random_lists(seed=27)).with_columns(country=pl.col("query") % 3)
    for metrics in (["rr"], ["roc_auc"]):
        found = pr.per_query(log, metrics, keep="country")
        assert found.columns == ["query", "country", *metrics]
        assert (found["country"] == found["query"] % 3).all()
    with pytest.raises(pr.errors.DataError, match="'doc' has several values in a ranking"):
        pr.per_query(log, "rr", keep="doc")


@pytest.mark.parametrize("layout", ["adjacent", "shuffled", "spilled"])
def test_numbers_of_lists_do_not_outlive_their_meaning(layout: str, tmp_path: Path) -> None:
    log = log_of(random_lists(seed=28)).with_columns(query=-pl.col("query"))
    if layout == "spilled":  # enough rows for temporary files
        log = pl.concat(log.with_columns(pl.col("query") - 1000 * copy) for copy in range(150))
    log = log if layout == "adjacent" else shuffled(log)
    log.write_parquet(tmp_path / "log.parquet")
    scan = pr.scan_log(tmp_path / "log.parquet", memory="1MB")
    alone = pr.evaluate(log, ["rr", "ndcg"])
    assert_close(pr.evaluate(scan, ["rr", "ndcg"]).collect(), alone)
    halves = [scan.filter(pl.col("query") % 2 == part) for part in (0, 1)]
    changed = {
        "concatenated": pl.concat(halves),
        "other keys": scan.with_columns(query=pl.col("query") // 2),
        "in another order": scan.reverse(),
    }
    column = [name for name in scan.collect_schema() if name.startswith(OWN)]
    for what, frame in changed.items():
        if column:
            message = (
                "have changed since scan_log" if what == "other keys" else "may not be adjacent"
            )
            with pytest.raises(pr.errors.DataError, match=message):
                pr.evaluate(frame, "rr").collect(), what
        elif what != "other keys":  # the log was sorted, so the rows of these rankings are adjacent
            rr = pr.evaluate(frame.collect(), "rr").item(0, "rr")
            assert pr.evaluate(frame, "rr").collect().item(0, "rr") == pytest.approx(rr), what
    assert bool(column) is (layout != "shuffled")
    again = pl.concat(halves).drop(column)
    assert_close(pr.evaluate(again, ["rr", "ndcg"]).collect(), alone)
    stored = pl.LazyFrame.collect(scan)  # with the numbers, as in a file
    both = pl.concat([stored, stored.with_columns(query=pl.col("query") - 1000)])
    if column:
        with pytest.raises(pr.errors.DataError, match=r"the keys \['query'\] have changed"):
            pr.evaluate(both, "rr")


def test_a_hint_of_sorted_keys_is_verified() -> None:
    log = shuffled(log_of(random_lists(seed=29))).lazy().set_sorted("query")
    with pytest.raises(pr.errors.DataError, match="may not be adjacent"):
        pr.evaluate(log, "rr").collect(engine="streaming")


def test_two_empty_rows_of_one_list_are_a_message() -> None:
    log = pl.DataFrame({"query": [1, 1], "doc": [None, None], "score": [None, None],
                        "label": [None, None]})  # fmt: skip
    with pytest.raises(pr.errors.DataError, match="more than once in a ranking"):
        pr.evaluate(log, "rr")
    twice = pl.DataFrame({"query": [1, 1], "doc": [1, 1], "score": [1.0, 2.0], "label": 1,
                          "by": [None, None]})  # fmt: skip
    with pytest.raises(pr.errors.DataError, match="more than once in a ranking"):
        pr.evaluate(twice, "rr", by="by")


@pytest.mark.parametrize("length", [66_000, 140_000])
def test_long_lists(length: int) -> None:
    """Sums of 32-bit ranks and hits would overflow in rankings of this length."""
    worst_first = pl.DataFrame(
        {"query": 1, "score": [-float(i) for i in range(length)],
         "label": [int(i >= length // 2) for i in range(length)]}
    )  # fmt: skip
    perfect = worst_first.with_columns(score=-pl.col("score"))
    metrics = [
        pr.metrics.ordered_pair_accuracy(),
        pr.metrics.kendall_tau_b(),
        pr.metrics.pair_accuracy(),
        pr.roc_auc(),
    ]
    names = [metric.output_name for metric in metrics]
    for frame, value in ((worst_first, 0.0), (perfect, 1.0)):
        expected = [value, -1.0, value, value] if not value else [1.0] * 4
        tau = (
            (2 * value - 1)
            * (0.5 * length * length / 2)
            / ((length * (length - 1) / 2 * (length // 2) ** 2) ** 0.5)
        )
        expected[1] = pytest.approx(tau, rel=1e-3, abs=0.3)
        found = pr.evaluate(frame, metrics).select(names).row(0)
        plain = pr.rank(frame).select(metrics).row(0)
        assert found == pytest.approx(plain, abs=1e-9)
        assert [found[0], *found[2:]] == [expected[0], *expected[2:]]
        assert found[1] == expected[1]


def test_every_metric_of_a_very_long_list() -> None:
    length = 200_000  # the number of pairs exceeds 32 bits
    log = pl.select(
        query=pl.lit(1),
        score=pl.int_range(length, 0, -1).cast(pl.Float64),
        label=(pl.int_range(length) < length // 4).cast(pl.Int8),
        doc=pl.int_range(length),
        subtopics=pl.concat_list(pl.int_range(length) % 7),
        users=1,
        share=0.25,
        interactions=3,
        seen=True,
        expected=False,
        long_tail=True,
        category=pl.lit("a"),
        history_category=pl.lit(["a", "b"]),
    )
    # Time of the mean distance over pairs grows with the square of the length.
    metrics = [each for each in every_metric() if str(each) != "intra_list_diversity"]
    # The best ranking, document by document, takes longer than all other metrics: on a shorter one.
    greedy = ["alpha_ndcg", "nerr_ia", "nnrbp"]
    others = [each for each in metrics if str(each) not in greedy]
    short = pr.per_query(log.head(length // 10), greedy)
    values = pr.per_query(log, others).join(short, on="query")
    for metric in metrics:
        definition = REGISTER[metric.function.__name__]
        value = values[metric.output_name].item()
        assert value is not None or definition.undefined, metric
        if value is None:
            continue
        assert definition.low is None or value >= definition.low - 1e-9, metric
        assert definition.high is None or value <= definition.high + 1e-9, metric


NAMES = {
    "ndcg@10 mrr": ["ndcg@10", "mrr"],
    "hr@10": ["hr@10"],
    "ndcg@[5, 10]": ["ndcg@5", "ndcg@10"],
    "ndcg@5,10 mrr": ["ndcg@5", "ndcg@10", "mrr"],
    "ndcg(gain='exp2')@5,10": ["ndcg(gain='exp2')@5", "ndcg(gain='exp2')@10"],
    "map@5,10-l2,mrr": ["map@5-l2", "map@10-l2", "mrr"],
    "IPrec@0.1,0.5": ["IPrec@0.1", "IPrec@0.5"],
    "P_5,10 11pt_avg": ["P_5", "P_10", "11pt_avg"],
    "11pt_avg_.25,.5,.75": ["11pt_avg_.25,.5,.75"],
    "utility_2,-1,0,0": ["utility_2,-1,0,0"],
    "ndcg_1=3,2=9,4=4.5": ["ndcg_1=3,2=9,4=4.5"],
}


@pytest.mark.parametrize(("given", "columns"), NAMES.items(), ids=NAMES.keys())
def test_names_that_are_read(given: str, columns: list[str]) -> None:
    log = log_of(random_lists(seed=30))
    assert pr.evaluate(log, given).columns == ["queries", *columns]


def test_names_with_lists_of_parameters() -> None:
    log = pl.DataFrame({"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 4, 0, 2]})
    row = pr.evaluate(log, ["utility_2,-1,0,0", "ndcg_1=3,2=9,4=4.5", "11pt_avg_.25,.5"]).row(0)
    log2 = [1 / pl.select(pl.lit(i + 1).log(2)).item() for i in range(1, 5)]
    dcg = 3 * log2[0] + 4.5 * log2[1] + 9 * log2[3]
    ideal = 9 * log2[0] + 4.5 * log2[1] + 3 * log2[2]
    assert row[1:] == pytest.approx((2 * 3 - 1, dcg / ideal, 1.0), abs=1e-12)


UNCLEAR = {
    "a function in place of its call": (lambda: pr.evaluate(BAD[:9], pr.ndcg), r"ndcg\(\)"),
    "one cutoff for several": (lambda: pr.rank_curve(BAD[:9], "ndcg", 20), "ks"),
    "explanations of several": (lambda: pr.explain(["ndcg", "ap"]), "must be the name of a metric"),
    "an expression explained": (lambda: pr.explain(pl.len()), "must be the name of a metric"),
    "a metric that is a list": (
        lambda: pr.evaluate(BAD[:9], pl.col("score").alias("x")),
        "one value per ranking",
    ),
    "a huge threshold": (lambda: pr.evaluate(BAD[:9], "rr", rel=10**400), "relevant"),
    "a gain of text": (lambda: pr.ndcg(gain={"a": 1}), "finite grades"),
    "a huge cutoff": (lambda: pr.ndcg(2**32), "`k` must be"),
}


@pytest.mark.parametrize(("call", "said"), UNCLEAR.values(), ids=UNCLEAR.keys())
def test_errors_are_ours_and_say_what_to_write(call: Any, said: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=said):
        call()


def test_geometric_means_are_explained_by_their_floor() -> None:
    assert "counts as 1e-05" in pr.explain("gm_map", "trec_eval")


@pytest.mark.parametrize("name", ["*", "^x$", "a b", "é"])
def test_columns_of_any_name(name: str) -> None:
    log = pl.DataFrame({name: ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 1]})
    if name in ("*", "^x$"):
        with pytest.raises(pr.errors.SchemaError, match="pattern"):
            pr.evaluate(log, "rr", query=name)
    else:
        assert pr.evaluate(log, "rr", query=name)["rr"].item() == 0.75


@pytest.mark.parametrize("name", ["*", "^x$"])
@pytest.mark.parametrize("function", [pr.evaluate, pr.per_query])
def test_no_metric_has_a_pattern_as_its_name(function: Any, name: str) -> None:
    log = pl.DataFrame({"query": ["a", "a"], "score": [0.9, 0.1], "label": [0, 1]})
    metrics = [pr.reciprocal_rank().alias(name), "ndcg"]
    for table in (log, log.lazy()):
        with pytest.raises(pr.errors.SchemaError, match="pattern"):
            function(table, metrics)


@pytest.mark.parametrize(
    "call",
    [
        lambda log, path: pr.scan_log(path, query="^x$"),
        lambda log, _: pr.evaluate(log, "rr", score=["^x$"]),
        lambda log, _: pr.evaluate(log, "rr", score="-^x$"),
        lambda log, _: pr.evaluate(log, "rr", weight="^x$"),
        lambda log, _: pr.per_query(log, "rr", keep="^x$"),
        lambda log, _: pr.evaluate(log, pr.metrics.popularity(interactions="^x$")),
        lambda log, _: pr.diagnostics.overlap(log, run="^x$", baseline=1),
        lambda log, _: pr.summarize(pr.per_query(log, "rr", by="x").rename({"x": "^x$"}), by="^x$"),
        lambda log, _: pr.join_judgments(log.drop("label"), log[["query", "doc", "label"]]),
    ],
)
def test_no_column_is_read_as_a_pattern(call: Any, tmp_path: Path) -> None:
    log = log_of(random_lists(seed=35)).with_columns(pl.lit(1).alias("x"), pl.lit(1).alias("^x$"))
    log.write_parquet(tmp_path / "log.parquet")
    with pytest.raises(pr.errors.SchemaError, match="has a name that Polars reads as a pattern"):
        call(log, tmp_path / "log.parquet")


def test_columns_that_nobody_names_may_have_any_name(tmp_path: Path) -> None:
    log = log_of(random_lists(seed=35))
    more = log.with_columns(pl.lit(1).alias(name) for name in ("^x$", "x", "*", "row", "row:"))
    assert_frame_equal(pr.per_query(more, ["ndcg", "rr"]), pr.per_query(log, ["ndcg", "rr"]))
    ranked = pr.rank(more)
    assert ranked.columns == [*more.columns, "rank", "ideal_rank", "relevant", "hits"]
    assert_frame_equal(ranked.select(pr.rank(log).columns), pr.rank(log))
    shuffled(more).write_parquet(tmp_path / "log.parquet")
    read = pr.scan_log(tmp_path / "log.parquet")
    assert {*more.columns} == {*read.collect().columns}
    assert_frame_equal(pr.evaluate(read, "ndcg").collect(), pr.evaluate(log, "ndcg"))


@pytest.mark.parametrize("name", ["row", "row:", "key 0", "before 0", "query:before"])
@pytest.mark.parametrize("mixed", [True, False])
def test_logs_whose_queries_have_any_name(name: str, mixed: bool, tmp_path: Path) -> None:
    log = log_of(random_lists(seed=36)).with_columns(group=pl.col("query") % 3)
    (shuffled(log) if mixed else log).rename({"query": name}).write_parquet(tmp_path / "a.parquet")
    read = pr.scan_log(tmp_path / "a.parquet", query=[name, "group"])
    found = pr.evaluate(read, "ndcg", query=[name, "group"]).collect()
    assert_close(found, pr.evaluate(log, "ndcg"))


@pytest.mark.parametrize(
    "function", [pr.evaluate, pr.diagnostics.tie_bands, pr.diagnostics.judgment_bounds]
)
def test_a_column_called_like_the_numbers_of_lists(function: Any) -> None:
    log = log_of(random_lists(seed=37)).with_columns(pl.lit(1).alias("polars_rank:ranking(query)"))
    with pytest.raises(
        pr.errors.SchemaError, match="has the prefix 'polars_rank:', which is reserved; rename"
    ):
        function(log, "ndcg")
    shown = log.rename({"doc": "position"}).with_columns(doc="position")
    with pytest.raises(
        pr.errors.SchemaError, match="has the prefix 'polars_rank:', which is reserved; rename"
    ):
        pr.clicks.coec(shown)


def test_own_expressions_of_text_have_no_mean() -> None:
    log = log_of(random_lists(seed=39))
    text = pl.col("label").max().cast(pl.String).alias("best")
    assert pr.per_query(log, text)["best"].dtype == pl.String
    for function in (pr.evaluate, pr.diagnostics.tie_bands):
        for frame in (log, log.lazy()):
            with pytest.raises(
                pr.errors.SchemaError, match="'best' must be numeric.*; found String"
            ):
                function(frame, ["rr", text])


@pytest.mark.parametrize(
    "function",
    [
        lambda log: pr.evaluate(log, ["p@1", "ap", "bpref"], rel=0.7),
        lambda log: pr.evaluate(log, ["p(rel=0.7)@1", "ap(rel=0.7)"], ties="expected"),
        lambda log: pr.rank(log, rel=0.7).select("relevant", "hits"),
        lambda log: pr.rank(log).select(pr.average_precision(rel=0.7)),
        lambda log: pr.pr_curve(log, rel=0.7, query="query"),
        lambda log: pr.grouped_auc(log, rel=0.7),
        lambda log: pr.diagnostics.judgment_bounds(log, ["p@1", "p@4"], rel=0.7),
    ],
)
def test_32_bit_labels_are_compared_as_64_bit_floats(function: Any) -> None:
    """0.7 is 0.699999988 in 32 bits, below the lowest relevant label."""
    log = pl.DataFrame({
        "query": 1, "doc": [1, 2, 3, 4], "score": [4.0, 3.0, 2.0, 1.0],
        "label": [0.7, 0.1, 0.8, None],
    })  # fmt: skip
    rounded = log.cast({"label": pl.Float32})
    assert not function(rounded).equals(function(log))
    assert_close(function(rounded), function(rounded.cast({"label": pl.Float64})))


@pytest.mark.parametrize("label", [pl.Boolean, pl.Int8, pl.Float32, pl.Decimal(10, 2)])
@pytest.mark.parametrize("score", [pl.Decimal(10, 2), pl.Float32, pl.UInt8])
def test_free_standing_metrics_of_any_type(score: pl.DataType, label: pl.DataType) -> None:
    log = pl.DataFrame({"query": 1, "score": [3, 2, 1], "label": [0, 1, 1]})
    log = log.cast({"score": score, "label": label})
    metrics = [pr.metrics.spearman(), pr.metrics.kendall_tau_b(), pr.ndcg(), pr.roc_auc(), pr.err()]
    plain = pr.rank(log).group_by("query").agg(metrics)
    assert_close(plain, pr.per_query(log, metrics))


def test_any_table_with_arrows_stream() -> None:
    log = log_of(random_lists(seed=31))
    wanted = pr.evaluate(log, ["rr", "ndcg"])
    assert_close(pr.evaluate(log.to_arrow(), ["rr", "ndcg"]), wanted)
    pandas = needs.package("pandas", "test")
    duckdb = needs.package("duckdb", "test")
    frame = pandas.DataFrame(log.to_dict(as_series=False)).astype({"score": "float64"})
    frame["score"] = frame["score"].astype("Float64")
    frame["label"] = frame["label"].astype("Int64")
    assert_close(pr.evaluate(frame, ["rr", "ndcg"]), wanted)
    arrow = log.to_arrow()
    assert_close(pr.evaluate(duckdb.from_arrow(arrow), ["rr", "ndcg"]), wanted)


def test_methods_are_those_of_the_package() -> None:
    log = log_of(random_lists(seed=32))
    assert_close(log.ranking.tie_bands("rr"), pr.diagnostics.tie_bands(log, "rr"))
    assert_close(log.ranking.rank_curve("rr", [1, 2]), pr.rank_curve(log, "rr", [1, 2]))
    runs = pr.datasets.search_log(30, 5, runs=["a", "b"])
    table = runs.ranking.tune_fusion("rr", step=0.5, folds=2).collect()
    assert_close(table, pr.tune_fusion(runs.collect(), "rr", step=0.5, folds=2))
    assert "Parameters" in (log.ranking.evaluate.__doc__ or "")
    assert {"ndcg", "evaluate", "judgment_bounds"} <= set(dir(log.ranking))
    assert "datasets" in dir(pr)
    assert "measures" not in dir(pr)


def test_a_metric_in_a_notebook_is_its_name() -> None:
    assert pr.ndcg(10)._repr_html_() is None
    assert repr(pr.ndcg(10) * 2) == "<Metric (ndcg@10 * 2)>"


def test_hints_are_near_or_absent() -> None:
    for name in ("freshness", "fairness"):
        with pytest.raises(pr.errors.ArgumentError) as caught:
            pr.metric(name)
        assert "Did you mean" not in str(caught.value)
    with pytest.raises(pr.errors.ArgumentError, match="Did you mean 'ndcg'"):
        pr.metric("ndgc")


def test_weighted_means_are_those_of_the_statistics() -> None:
    log = log_of(random_lists(seed=33)).with_columns(traffic=1.0 + pl.col("query") % 4)
    metrics = ["rr", "ap"]
    lists = pr.per_query(log, metrics, keep="traffic")
    means = pr.evaluate(log, metrics, weight="traffic")
    found = pr.summarize(lists, metrics, weight="traffic")
    for name in metrics:
        mean = found.filter(metric=name)["mean"].item()
        assert means[name].item() == pytest.approx(mean, rel=1e-12), name


@pytest.mark.parametrize(
    "call",
    [
        lambda log: pr.per_query(log, "rr", keep="query"),
        lambda log: pr.evaluate(log, "rr", by="w", weight="w"),
        lambda log: pr.evaluate(log.rename({"w": "rr"}), "rr", weight="rr"),
    ],
    ids=["a key kept", "a group as weight", "a weight called like a metric"],
)
def test_kept_columns_and_weights_have_names_of_their_own(call: Any) -> None:
    log = log_of(random_lists(seed=34)).with_columns(w=1)
    with pytest.raises(
        pr.errors.ArgumentError,
        match="used for both `query` and `keep`|used for both `by` and `weight`|"
        "'rr' .`weight`. has the name of a result column",
    ):
        call(log)
