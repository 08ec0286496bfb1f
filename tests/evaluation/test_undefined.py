"""What undefined metrics count as, alone and in expressions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from oracles import Doc
from plans import holding_nodes
from polars_rank.conventions import POLARS_RANK, PRESETS

# The registry of metrics, to test each of them.
from polars_rank.metrics.metric import REGISTER
from strategies import (
    Lists,
    assert_close,
    every_metric,
    fewer_examples,
    large_logs,
    log_of,
    random_lists,
)

#: Presets warn about metrics that their tools do not have.
pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

#: Queries with and without relevant documents, and without documents.
LISTS: Lists = {
    **random_lists(5, 30),
    100: [Doc(1, 1.0, 0), Doc(2, 1.0, 0)],
    101: [Doc(1, 1.0, 1), Doc(2, 0.5, 2)],
    102: [Doc(1, None, 1), Doc(2, None, 0)],
    103: [Doc(1, None, None)],
    104: [Doc(1, 1.0, None), Doc(2, 0.5, None)],
}
LOG = log_of(LISTS)
#: Each metric once, at a cutoff if it has one.
METRICS = [*{m.function: m for m in every_metric(3) if "rel=" not in str(m)}.values()]
MEANS = [metric for metric in METRICS if metric.aggregate == "mean"]
SKIPPED = {
    *"""
        roc_auc partial_auc pr_auc pair_accuracy ordered_pair_accuracy
        label_ranking_average_precision label_ranking_loss coverage_error kendall_tau_b spearman
        mcc yaap average_relevance_position fall_out unjudged calibration category_entropy
        intra_list_diversity max_share long_tail_share novelty popularity serendipity surprisal
        unexpectedness unseen_share abstained answered
    """.split()
}

#: Two rankings with the recall 1/2, and no relevant document.
TWO = pl.DataFrame({
    "query": ["a", "a", "a", "b"], "doc": [1, 2, 3, 1], "score": [3.0, 2.0, 1.0, 1.0],
    "label": [1, 0, 1, 0],
})  # fmt: skip
RECALL, AUC = pr.recall(2), pr.roc_auc()


def test_metrics_of_which_0_is_the_worst_value_count_as_0() -> None:
    undefined = {name for name, each in REGISTER.items() if each.undefined is not None}
    known = {name for name in undefined if REGISTER[name].function.__module__.startswith("polars")}
    assert {name for name in known if REGISTER[name].skipped} == SKIPPED & known == SKIPPED
    for name in known - SKIPPED:
        low = REGISTER[name].low
        assert low == 0 or REGISTER[name].aggregate == "geometric", name
    table = pr.list_metrics().filter(pl.col("metric").is_in([*known]))
    counted = dict(table.select("metric", "counts_as").iter_rows())
    geometric = dict.fromkeys(("log_average_precision", "log_bpref"), 1e-5)
    assert counted == dict.fromkeys(known - SKIPPED, 0) | dict.fromkeys(SKIPPED) | geometric


@pytest.mark.parametrize("undefined", [None, "one", "skip"])
def test_rest_of_undefined_metrics(undefined: str | None) -> None:
    """Check the means and the values of `1 - m` for all metrics that are means."""
    whole = {f"m{index}": metric for index, metric in enumerate(MEANS)}
    rest = {f"rest of {name}": 1 - metric for name, metric in whole.items()}
    metrics = [each.alias(name) for name, each in {**whole, **rest}.items()]
    for function in (pr.evaluate, pr.per_query):
        table = function(LOG, metrics, undefined=undefined)
        expected = table.select((1 - pl.col(name)).alias(name) for name in whole)
        assert_close(table.select([*rest]).rename(dict(zip(rest, whole, strict=True))), expected)


def is_supported(metric: pl.Expr, conventions: pr.Conventions) -> bool:
    """Return whether a metric has a definition by some conventions."""
    try:
        pr.per_query(LOG.lazy(), metric, conventions=conventions)
    except pr.errors.ArgumentError:
        return False
    return True


def approximately(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("conventions", [POLARS_RANK, *PRESETS], ids=lambda each: each.name)
def test_means_of_per_query_values_are_those_of_evaluate(conventions: pr.Conventions) -> None:
    # All metrics by the conventions of polars_rank; by a preset those that it treats in another
    # way, and some of the others.
    place = [POLARS_RANK, *PRESETS].index(conventions)
    general = replace(conventions, exceptions={})
    asked = METRICS[place % 5 :: 5] + [each for each in METRICS if conventions.of(each) != general]
    asked = METRICS if conventions is POLARS_RANK else [*{str(m): m for m in asked}.values()]
    known = [metric for metric in asked if is_supported(metric, conventions)]
    known += [1 - metric for metric in known if metric.aggregate == "mean"]
    values = pr.per_query(LOG, known, conventions=conventions)
    means = pr.evaluate(LOG, known, conventions=conventions)
    for metric in known:
        name, column = metric.output_name, values[metric.output_name]
        if conventions.counts_as(metric) == "null" and column.null_count():
            assert means[name].item() is None
            continue
        kinds = {"sum": column.sum, "geometric": lambda column=column: math.exp(column.mean())}
        mean = kinds.get(conventions.aggregate(metric), column.mean)()
        assert means[name].item() == approximately(mean), name


EXPRESSIONS: list[tuple[pl.Expr, float, float | None]] = [
    (RECALL, 1 / 2, 0),
    (1 - RECALL, 1 / 2, 1),
    (RECALL == 1, 0, 0),
    (RECALL == 1 / 2, 1, 0),
    (RECALL < 1 / 2, 0, 1),
    ((RECALL + 1 / 4).sqrt(), 3**0.5 / 2, 1 / 2),
    (RECALL.clip(1 / 4, 1 / 3), 1 / 3, 1 / 4),
    ((2 * RECALL).floor(), 1, 0),
    (RECALL.round(), 0, 0),
    ((2 * RECALL).cast(pl.Int64), 1, 0),
    (RECALL**2, 1 / 4, 0),
    (RECALL.exp().log1p().abs(), math.log1p(math.exp(1 / 2)), math.log(2)),
    # Functions of Polars need metrics that say what they count as.
    (pl.when(RECALL.fill_null(0) > 0).then(2.0).otherwise(RECALL.fill_null(0) + 5), 2, 5),
    (pl.max_horizontal(RECALL.fill_null(0), pr.precision(1).fill_null(0)), 1, 0),
    (pl.max_horizontal(1 - RECALL.fill_null(1), pr.num_relevant()), 2, 0),
    # `fill_null` says what its metric counts as.
    (RECALL.fill_null(1 / 3), 1 / 2, 1 / 3),
    (1 - RECALL.fill_null(1 / 3), 1 / 2, 2 / 3),
    # AUC does not count, and neither does what is computed of it, nor a quotient by 0.
    (AUC, 1 / 2, None),
    (RECALL + AUC, 1, None),
    (AUC == 1, 0, None),
    (pr.num_relevant_retrieved(2) / pr.num_relevant(), 1 / 2, None),
    # Expressions without metrics are as Polars computes them.
    (pl.col("label").filter(pl.col("label") > 0).mean(), 1, None),
]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_expressions(engine: Any) -> None:
    metrics = [each.alias(str(place)) for place, (each, *_) in enumerate(EXPRESSIONS)]
    values = pr.per_query(TWO.lazy(), metrics).collect(engine=engine)
    means = pr.evaluate(TWO.lazy(), metrics).collect(engine=engine)
    for place, (expression, a, b) in enumerate(EXPRESSIONS):
        found = [*values[str(place)], means[str(place)].item()]
        expected = [a, b, a if b is None else (a + b) / 2]
        assert found == [*map(approximately, expected)], expression
        alone = pr.evaluate(TWO, metrics[place]).item(0, -1)
        assert alone == approximately(expected[-1]), expression


def test_expressions_stream(tmp_path: Path) -> None:
    TWO.write_parquet(tmp_path / "log.parquet")
    metrics = [each.alias(str(index)) for index, (each, *_) in enumerate(EXPRESSIONS)]
    for function in (pr.evaluate, pr.per_query):
        assert not holding_nodes(function(pr.scan_log(tmp_path / "log.parquet"), metrics))


def test_rules() -> None:
    metric = (1 - RECALL).alias("x")
    for undefined, b, mean in (
        ("zero", 1, 3 / 4), ("one", 0, 1 / 4), ("skip", None, 1 / 2), ("null", None, None),
        # A metric, or the column of the whole expression.
        ({"recall": "one"}, 0, 1 / 4), ({"x": "one"}, 1, 3 / 4), ({"x": "null"}, None, None),
        ({"*": "skip"}, None, 1 / 2), ({}, 1, 3 / 4),
    ):  # fmt: skip
        assert pr.per_query(TWO, metric, undefined=undefined)["x"].to_list() == [1 / 2, b]
        assert pr.evaluate(TWO, metric, undefined=undefined)["x"].item() == mean


GAIN = pr.ndcg(2, gain=lambda label: label * 2)
UNDECIDED = [
    pl.max_horizontal(RECALL, pr.precision(1)),
    pl.when(RECALL > 0).then(2.0).otherwise(RECALL),
    pl.coalesce(RECALL.alias("r"), 1.0),
    RECALL.map_batches(lambda values: values, return_dtype=pl.Float64, returns_scalar=True),
    pl.lit(1.0) - GAIN,
    pl.max_horizontal(pr.precision(2, irrelevant="null"), 0.5),
]


def test_functions_of_polars_say_what_metrics_count_as() -> None:
    message = r"'x' contains the metric .* as 0 .*\.fill_"
    for expression in UNDECIDED:
        metric = expression.alias("x")
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.evaluate(TWO, metric)
        for undefined in ("skip", "null", {"x": "zero"}):
            assert pr.per_query(TWO, metric, undefined=undefined).height == 2


def test_names_of_metrics_in_own_expressions() -> None:
    own = pl.col("label").sum().alias("recall@2") + pl.col("label").len().alias("ndcg")
    assert pr.per_query(TWO, own.alias("x"))["x"].to_list() == [2 + 3, 0 + 1]


def test_values_without_a_relevant_document() -> None:
    metric = pr.metrics.log_average_precision(floor=1e-3)
    for each in (metric, metric.round(12)):
        values = pr.per_query(TWO, each.alias("x"))["x"]
        assert values[1] == approximately(math.log(1e-3))
    # In queries over the ranked table, metrics are null where they are undefined.
    ranked = pr.rank(TWO)
    for metric in (RECALL, 1 - RECALL, RECALL == 1):
        found = ranked.group_by("query", maintain_order=True).agg(x=metric)["x"]
        assert found.is_null().to_list() == [False, True]
        assert ranked.select(metric.over("query").alias("x"))["x"].null_count() == 1


def test_truth_values_are_values() -> None:
    # For "a", y has 2 of 3, and x has 1 of 2 relevant documents.
    log = pl.concat([TWO.with_columns(run=pl.lit(run)) for run in ("x", "y")])
    log = log.with_columns(score=pl.when(run="y").then(-pl.col("doc")).otherwise("score"))
    log = log.with_columns(pl.when(run="y", doc=2).then(1).otherwise("label").alias("label"))
    values = pr.per_query(log, (RECALL > 1 / 2).alias("hit"), by="run")
    assert values["hit"].to_list() == [0, 0, 1, 0]
    assert pr.compare(values, baseline="x")["difference"].item() == 1 / 2
    conditions = values.with_columns(pl.col("hit").cast(pl.Boolean), kept=True)
    assert pr.summarize(conditions, "hit")["mean"].to_list() == [0, 1 / 2]
