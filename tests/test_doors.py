"""Special logs and calls, each of which once gave a wrong value, and mistakes that rows show."""

from __future__ import annotations

import copy
import importlib
import math
import pickle
import pkgutil
import threading
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

# The prefix of internal columns, and which metrics there are.
from polars_rank._params import OWN
from polars_rank.metrics.metric import REGISTER
from strategies import assert_close, every_metric, log_of, random_lists, shuffled

HUGE = pl.Series(["1.00000000000000000001", "1.00000000000000000002"]).cast(pl.Decimal(38, 20))
MISSED = {"query": 1, "doc": [None, 1, 2], "score": [None, -5.0, -6.0], "label": [None, 1, 0]}
PLACES = {"query": 1, "position": [1, 2, 3], "label": [0, 1, 0]}
CLICKED = {"query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "click": [False, True, False], "label": 0}
WEIGHED = {"query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "label": [0, 1, 1], "traffic": [3, 3, 1]}
GRADES = {"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 4, 0, 2]}
IN_COUNTRY = {"query": 1, "doc": [1, 2], "score": [1.0, None], "label": 1, "country": ["DE", None]}
#: The first score is infinite in 32 bits.
LOW = {"query": 1, "doc": ["a", "b"], "score": [-1e39, None], "label": [1, 0]}
FIRST = pl.col("rank").filter("click").min().alias("first")
TREC_EVAL = {"conventions": pr.conventions.TREC_EVAL_9}
OWN_DCG = pr.dcg(2, gain=lambda label: label * 100)
#: Discounts of ranks 2 and 4; that of rank 3 is 1 / 2.
SECOND, FOURTH = 1 / math.log2(3), 1 / math.log2(5)
OF_GRADES = (3 + 4.5 * SECOND + 9 * FOURTH) / (9 + 4.5 * SECOND + 3 / 2)
#: Logs and types of a column, metrics and options, and the means.
MEANS: list[tuple[dict[str, Any], dict[str, Any], Any, dict[str, Any], list[float]]] = [
    (LOW, {}, "rr", TREC_EVAL, [1.0]),
    ({"query": 1, "doc": [2, 1], "score": HUGE, "label": [0, 1]}, {}, "rr", {}, [1.0]),
    (MISSED, {"doc": pl.Int32}, "rr", {}, [1.0]),
    (MISSED, {"doc": pl.String}, "rr", {}, [1.0]),
    (GRADES, {"label": pl.Int8}, OWN_DCG, {}, [100 + 400 * SECOND]),
    (GRADES, {"label": pl.Float32}, OWN_DCG, {}, [100 + 400 * SECOND]),
    (WEIGHED, {}, "rr", {"undefined": {"rr": "skip"}}, [0.75]),
    (CLICKED, {}, FIRST, {}, [2.0]),
    (CLICKED, {}, FIRST, {"undefined": "zero"}, [1.0]),
    (PLACES, {"position": pl.UInt8}, "rr", {"position": "position"}, [0.5]),
    (PLACES, {"position": pl.UInt8}, "rr", {"score": "-position"}, [0.5]),
    (PLACES, {"position": pl.Float64}, "rr", {"score": "-position"}, [0.5]),
    (WEIGHED, {}, ["rr", "num_rel"], {"weight": "traffic"}, [(3 * 0.5 + 1) / 4, 3 + 1]),
    (GRADES, {}, ["utility_2,-1,0,0", "11pt_avg_.25,.5"], {}, [2 * 3 - 1, 1.0]),
    (GRADES, {}, "ndcg_1=3,2=9,4=4.5", {}, [OF_GRADES]),
    (GRADES, {}, "err(max_grade=4)", {}, [1 / 16 + 225 / 512 + 45 / 4 / 16**3]),
]


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_means_of_special_logs() -> None:
    wrong = []
    for log, dtypes, metrics, options, expected in MEANS:
        frame = pl.DataFrame(log).cast(dtypes)
        for table in (frame, frame.lazy()):
            result = pr.evaluate(table, metrics, **options)
            found = result.lazy().collect().row(0)[-len(expected) :]
            if found != pytest.approx(tuple(expected), abs=1e-12):
                wrong.append((metrics, options, found, expected))
    assert not wrong


def pickled(metric: pr.Metric) -> pr.Metric:
    return pickle.loads(pickle.dumps(metric))


def test_metrics_are_copied_and_pickled() -> None:
    log = log_of(random_lists(seed=21, queries=5))
    of_users = [
        pr.ndcg(3, gain={0: 0, 1: 3}),
        pr.dcg(discount=pr.discounts.jarvelin(3)),
        pr.ndcg(gain=pr.gains.at_least(1)),
    ]
    once = {str(metric) for metric in every_metric()}
    expected = pr.per_query(log, once)
    for function in (pickled, copy.copy, copy.deepcopy):
        copies = []
        for metric in (*every_metric(3), *of_users):
            again = function(metric)
            assert isinstance(again, pr.Metric)
            assert (str(again), again.output_name) == (str(metric), metric.output_name)
            assert again.arguments == metric.arguments
            copies += [again] if str(again) in once else []
        found = pr.per_query(log, copies)
        assert_close(found, expected.select(found.columns))
    assert pickled(pr.conventions.IR_MEASURES) == pr.conventions.IR_MEASURES


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


def test_gains_outside_an_evaluation_refuse_labels_as_well() -> None:
    ranked = pr.rank(pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [60, 1]}))
    with pytest.raises(pl.exceptions.PolarsError, match="label 60.0 is above 50"):
        ranked.select(pr.ndcg(gain="exp2"))
    with pytest.raises(pl.exceptions.PolarsError, match="60.0 is not in the gain mapping"):
        ranked.select(pr.dcg(gain={0: 0, 1: 1}))
    fine = ranked.with_columns(label=pl.Series([2, None]))
    assert fine.select(pr.dcg(gain="exp2")).item() == 3.0


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


def test_numbers_of_numpy_are_numbers() -> None:
    np = needs.package("numpy", "stats")
    log = log_of(random_lists(seed=46, queries=40))
    values = pr.per_query(log, "rr")
    pairs = pl.concat(
        values.with_columns(pl.col("rr") ** power, run=pl.lit(power)) for power in (1, 2)
    )
    for kind, number in ((np.int64, 1), (np.uint8, 1), (np.float32, 0.5), (np.float64, 0.5)):
        for function in (
            lambda x: pr.compare(pairs, margin=x),
            lambda x: pr.evaluate(log, "rr", rel=x),
            lambda x: pr.evaluate(log, [pr.rbp(p=x * 0.5)]),
            *([lambda x: pr.rank_curve(log, pr.ndcg(), [x, 2])] if number == 1 else []),
            *([lambda x: pr.summarize(values, confidence=x)] if number < 1 else []),
        ):
            assert_frame_equal(function(kind(number)), function(number))
    assert str(pr.ndcg(np.uint8(3))) == "ndcg@3"
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


def test_runs_with_different_documents_are_reported() -> None:
    log = pl.LazyFrame({
        "run": ["a", "b", "b"], "day": 1, "query": 1, "doc": [1, 2, 3],
        "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    })  # fmt: skip
    one = log.filter(pl.col("run") == "b")
    # Judged documents that were not retrieved have no run.
    missed = one.with_columns(run=pl.lit(None, pl.String), doc=pl.lit(9), score=pl.lit(None))
    for function in (
        lambda log, **by: pr.evaluate(log, "rr", **by),
        lambda log, **by: pr.per_query(log, "rr", **by),
        lambda log, **by: pr.per_query(log, "rr", duplicates="max", **by),
        lambda log, **by: pr.rank(log, **by),
        lambda log, **by: pr.catalog.summary(log, 2, **by),
    ):
        for name in ("system", "Model", "ranker", "retriever", "method"):
            named = log.rename({"run": name})
            said = f"values of the column '{name}'.* pass run='{name}'; if not, drop or rename"
            for by in ({}, {"by": "day"}):
                with pytest.warns(pr.errors.RankWarning, match=said):
                    function(named, **by).collect()
            assert function(named, by=name).collect().height
        for other in (one, pl.concat([one, missed.head(1)], how="vertical_relaxed")):
            assert function(other).collect().height


def test_columns_that_are_kept() -> None:
    log = log_of(random_lists(seed=27)).with_columns(country=pl.col("query") % 3)
    for metrics in (["rr"], ["roc_auc"]):
        found = pr.per_query(log, metrics, keep="country")
        assert found.columns == ["query", "country", *metrics]
        assert (found["country"] == found["query"] % 3).all()


def test_judged_documents_are_not_lost_to_a_group_that_nobody_knows() -> None:
    log = pl.DataFrame(IN_COUNTRY)
    with pytest.raises(pr.errors.DataError, match="belong to no group"):
        pr.evaluate(log, "recall", by="country")
    joined = pr.join_judgments(log.head(1).drop("label"), log.select("query", "doc", "label"))
    assert pr.evaluate(joined, "recall", by="country")["recall"].item() == 0.5


def test_decimals_that_floats_cannot_tell_apart_are_no_ties() -> None:
    log = pl.DataFrame({"query": 1, "doc": [2, 1], "score": HUGE, "label": [0, 1]})
    assert pr.diagnostics.tie_bands(log, "rr")["tied_rankings"].item() == 0
    assert pr.rank(log)["rank"].to_list() == [2, 1]


def test_rows_at_fault_are_an_error_and_never_a_hang() -> None:
    rows = {"query": [q for q in range(100) for _ in range(10)], "doc": [*range(10)] * 100}
    scores = [float(i % 7) for i in range(999)] + [float("nan")]
    bad = pl.DataFrame({**rows, "score": scores, "label": [i % 3 for i in range(1000)]})
    calls = (
        lambda: pr.diagnostics.tie_bands(bad, ["ndcg@3", "rr"]),
        lambda: pr.diagnostics.judgment_bounds(bad, ["ndcg@3", "rr"]),
        lambda: pr.explain_difference(bad, "ndcg@3", "polars_rank", "lightgbm"),
        lambda: pr.evaluate(bad, ["rr@10", "rr", "err"], conventions="ir_measures"),
        lambda: pr.diagnostics.tie_bands(bad.lazy(), "rr").collect(engine="streaming"),
    )
    found = []

    def many() -> None:
        for call in calls * 5:
            with pytest.raises(pr.errors.DataError, match="NaN or infinite values"):
                call()
            found.append(call)

    thread = threading.Thread(target=many, daemon=True)
    thread.start()
    thread.join(timeout=300)
    assert len(found) == 5 * len(calls), f"hangs or fails after {len(found)} calls"


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


def test_long_lists() -> None:
    """Sums of 32-bit ranks and hits would overflow in rankings of this length."""
    length = 140_000
    row = pl.int_range(length, eager=True)
    log = pl.DataFrame({"query": 1, "score": row.cast(pl.Float64), "label": row >= length // 2})
    names = ["ordered_pair_accuracy", "pair_accuracy", "roc_auc", "kendall_tau_b"]
    metrics = [getattr(pr.metrics, name)() for name in names]
    for sign, best in ((-1, 0.0), (1, 1.0)):
        frame = log.with_columns(pl.col("score") * sign, pl.col("label").cast(pl.Int64))
        found = pr.evaluate(frame, metrics).select(names).row(0)
        assert found == pytest.approx(pr.rank(frame).select(metrics).row(0), abs=1e-9)
        assert found == pytest.approx((best, best, best, sign * 0.5**0.5), abs=1e-5)


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
        forbidden=False,
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


def test_names_that_are_read() -> None:
    log = log_of(random_lists(seed=30))
    for given, columns in {
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
    }.items():
        assert pr.evaluate(log, given).columns == ["queries", *columns]
    assert "counts as 1e-05" in pr.explain("gm_map", "trec_eval")
    assert "Did you mean" not in str(pytest.raises(pr.errors.ArgumentError, pr.metric, "fairness"))


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


def test_logs_whose_queries_have_any_name(tmp_path: Path) -> None:
    log = log_of(random_lists(seed=36)).with_columns(group=pl.col("query") % 3)
    expected = pr.evaluate(log, "ndcg")
    for name in ("row", "row:", "key 0", "before 0", "query:before"):
        for rows in (log, shuffled(log)):
            rows.rename({"query": name}).write_parquet(tmp_path / "a.parquet")
            read = pr.scan_log(tmp_path / "a.parquet", query=[name, "group"])
            assert_close(pr.evaluate(read, "ndcg", query=[name, "group"]).collect(), expected)


def test_32_bit_labels_are_compared_as_64_bit_floats() -> None:
    """0.7 is 0.699999988 in 32 bits, below the lowest relevant label."""
    labels = [0.7, 0.1, 0.8, None]
    log = pl.DataFrame(
        {"query": 1, "doc": range(4), "score": [4.0, 3.0, 2.0, 1.0], "label": labels}
    )
    rounded = log.cast({"label": pl.Float32})
    for function in (
        lambda log: pr.evaluate(log, ["p@1", "ap", "bpref"], rel=0.7),
        lambda log: pr.evaluate(log, ["p(rel=0.7)@1", "ap(rel=0.7)"], ties="expected"),
        lambda log: pr.rank(log, rel=0.7).select("relevant", "hits"),
        lambda log: pr.rank(log).select(pr.average_precision(rel=0.7)),
        lambda log: pr.pr_curve(log, rel=0.7, query="query"),
        lambda log: pr.grouped_auc(log, rel=0.7),
        lambda log: pr.diagnostics.judgment_bounds(log, ["p@1", "p@4"], rel=0.7),
    ):
        assert not function(rounded).equals(function(log))
        assert_close(function(rounded), function(rounded.cast({"label": pl.Float64})))


def test_free_standing_metrics_of_any_type() -> None:
    log = pl.DataFrame({"query": 1, "score": [3, 2, 1], "label": [0, 1, 1]})
    metrics = [pr.metrics.spearman(), pr.metrics.kendall_tau_b(), pr.ndcg(), pr.roc_auc(), pr.err()]
    scores = (pl.Decimal(10, 2), pl.Float32, pl.UInt8, pl.UInt8)
    for score, label in zip(scores, (pl.Boolean, pl.Int8, pl.Float32, pl.Decimal(10, 2))):
        cast = log.cast({"score": score, "label": label})
        plain = pr.rank(cast).group_by("query").agg(metrics)
        assert_close(plain, pr.per_query(cast, metrics))


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
