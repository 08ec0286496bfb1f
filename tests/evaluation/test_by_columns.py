"""Short rankings: columns of positions give the same values as rows of documents.

A DataFrame with many short rankings is evaluated by columns. A LazyFrame of it is evaluated by
rows, because the lengths of its rankings are unknown.
"""

from __future__ import annotations

import itertools
import math
import random
from functools import cache
from inspect import Parameter
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from plans import holding_nodes
from polars.testing import assert_frame_equal

# Which rankings are evaluated by columns is decided by their lengths and number alone.
from polars_rank._polars import rows_of_table
from polars_rank.metrics.analyses import LONGEST, fits_columns
from polars_rank.evaluation.by_columns import network
from polars_rank.frames.tables import FEW_ROWS
from polars_rank.metrics import beyond_accuracy, diversity
from polars_rank.metrics.metric import REGISTER, Metric
from polars_rank import terms as t
from polars_rank.terms import JUDGED, LABEL
from strategies import assert_close, every_metric, truth

#: Metrics that read more than labels and ranks at each position are evaluated by rows.
METRICS = [each.function.__name__ for each in every_metric() if fits_columns(each.tree)]
PARAMETERS: list[dict[str, Any]] = [
    {}, {"k": 1}, {"k": 3}, {"k": 50}, {"rel": 2}, {"gain": "exp2", "k": 4},
    {"gain": pr.gains.at_least(2), "discount": pr.discounts.jarvelin(3)},
]  # fmt: skip


#: A number of rows from which rankings are counted.
MANY_ROWS = FEW_ROWS + 1


@pytest.fixture(autouse=True)
def columns_if_lengths_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are tested with logs that are so small that rows are faster."""
    for module in ("evaluation.plan", "io.parquet"):
        rule = f"polars_rank.{module}.columns_are_faster"
        monkeypatch.setattr(rule, lambda lengths: lengths.longest <= LONGEST)


@cache
def log(
    longest: int = 8,
    *,
    score: type[pl.DataType] = pl.Float32,
    label: type[pl.DataType] = pl.Int8,
    doc: type[pl.DataType] = pl.Int32,
) -> pl.DataFrame:
    """Return short rankings with ties, and documents that are not retrieved or not judged."""
    draw = random.Random(1)
    queries, docs = [], []
    while 20 * len(queries) < MANY_ROWS:
        length = draw.randint(1, longest)
        queries += [len(queries)] * length
        docs += draw.sample(range(2 * longest), length)
    table = pl.DataFrame({
        "query": queries, "doc": docs,
        "score": [draw.choice([-1.5, -0.0, 0.0, 0.25, 2.0, 2.0, None]) for _ in queries],
        "label": [draw.choice([-1, 0, 0, 1, 2, 3, None]) for _ in queries],
    })  # fmt: skip
    copies = pl.concat(table.with_columns(pl.col("query") + 10_000 * copy) for copy in range(20))
    text = pl.col("doc").cast(pl.String)
    return copies.with_columns(
        (text if doc in (pl.String, pl.Categorical) else pl.col("doc")).cast(doc),
        pl.col("score").cast(score),
        (pl.col("label") / 2 if label.is_float() else pl.col("label").abs()).cast(label),
    )


def one_by_one(rows: int) -> pl.LazyFrame:
    return pl.LazyFrame({"query": range(rows), "doc": 1, "score": 1.0, "label": 1})


def in_memory(table: pl.DataFrame) -> pl.LazyFrame:
    """Return what functions get from a DataFrame, as a LazyFrame, so that they return a plan."""
    return rows_of_table(table, FEW_ROWS)


def of_unknown_lengths(table: pl.DataFrame) -> pl.LazyFrame:
    """Return a plan whose rankings are evaluated by rows."""
    return pl.concat([table.lazy(), table.lazy().head(0)])


def is_wide(plan: pl.LazyFrame) -> bool:
    return ".int_ranges(" not in plan.explain(optimized=False)


def all_metrics() -> list[pr.Metric]:
    metrics: dict[str, pr.Metric] = {}
    for name in METRICS:
        for parameters in PARAMETERS:
            try:
                metric = REGISTER[name](**parameters)
            except (TypeError, pr.errors.ArgumentError):  # it has no such parameter
                continue
            metrics.setdefault(str(metric), metric)
    return [metric.alias(f"{index} {name}") for index, (name, metric) in enumerate(metrics.items())]


def assert_same(table: pl.DataFrame, metrics: Any, **options: Any) -> None:
    wide, rows = (
        pr.per_query(frame, metrics, **options)
        for frame in (in_memory(table), of_unknown_lengths(table))
    )
    assert (is_wide(wide), is_wide(rows)) == (True, False)
    found, expected = (plan.collect(engine="streaming") for plan in (wide, rows))
    assert_frame_equal(found, expected, rel_tol=1e-12, abs_tol=1e-12)


def test_every_metric() -> None:
    assert_same(log(), all_metrics())


OWN = [
    lambda: t.top(JUDGED.cast(pl.Float64) * 2).min(),
    lambda: t.top(LABEL.fill_null(0) - 9).max(),
    lambda: t.top(~t.relevant()).count(),
    lambda: t.top(LABEL.fill_null(0), 2).min(),
    lambda: t.top(LABEL.fill_null(1), 3).sum(),
    lambda: t.top(LABEL, weight=lambda rank: pl.when(rank > 1).then(rank)).max(),
]


def test_own_terms_gains_and_discounts() -> None:
    """Of which some are neither null nor 0 beyond the end of a ranking."""
    gain = lambda label: label.fill_null(1) + 1  # noqa: E731
    discount = lambda rank: pl.when(rank > 2).then(1 / rank)  # noqa: E731
    metrics = [
        *(Metric(function, {}, f"term {place}") for place, function in enumerate(OWN)),
        *(pr.ndcg(k, gain=gain).alias(f"gain {k}") for k in (None, 2, 5)),
        *(pr.ndcg(k, discount=discount).alias(f"discount {k}") for k in (None, 4)),
        pr.ideal_dcg(3, gain=gain),
        *(pr.precision(3, rel=rel).alias(f"rel {rel}") for rel in (2.0, 2)),
    ]
    assert_same(log(6), metrics)
    for metric in metrics[: len(OWN)]:
        assert_same(log(6), [metric, "p@1"])


FEW = ["ndcg@3", "ndcg(gain='exp2')", "ap", "rr", "p@2", "recall(rel=2)@3", "num_ret", "unjudged@3"]


@pytest.mark.filterwarnings("ignore:.*has fractions:polars_rank.errors.RankWarning")
def test_types_and_lengths() -> None:
    for score, label, doc in (
        (pl.Float64, pl.Float64, pl.Int64),
        (pl.Float64, pl.UInt8, pl.UInt64),
        (pl.Float32, pl.Float32, pl.UInt32),
        (pl.Float32, pl.Int64, pl.String),
        (pl.Float64, pl.Int8, pl.Categorical),
    ):
        assert_same(log(6, score=score, label=label, doc=doc), FEW)
    for longest in (1, 2, 13, 17):
        assert_same(log(longest), FEW)
    table = log(4, doc=pl.Int64, label=pl.Int64, score=pl.Float64)
    lowest, highest, least = -(2**63), 2**63 - 1, -1.7976931348623157e308
    extreme = pl.DataFrame({
        "query": [-2] * 4 + [-1] * 2, "doc": [lowest, highest, 0, lowest + 1, highest, lowest],
        "score": [least, least, None, 1e308, 0.0, -0.0],
        "label": [lowest, highest, 1, None, highest, lowest],
    })  # fmt: skip
    assert_same(pl.concat([extreme, table]), ["p@1", "p@2", "ap", "dcg", "num_ret", "unjudged@4"])


@pytest.mark.parametrize(
    "options",
    [
        *({"ties": ties} for ties in ("doc_ascending", "best", "worst", "input")),
        *({"ties": ties, "doc": None} for ties in ("best", "worst", "input")),
        {"unjudged": "removed", "rel": 2}, {"query_set": "both"},
        {"duplicates": "max", "undefined": "one"}, {"by": "group", "keep": "text"},
        {"query": ["query", "group"]},
        *({"conventions": each} for each in ("trec_eval", "trec_eval 9", "ranx", "lightgbm")),
        *({"conventions": each} for each in ("xgboost", "catboost")),
    ],
    ids=str,
)  # fmt: skip
def test_options(options: dict[str, Any]) -> None:
    table = log(5).with_columns(group=pl.col("query") % 2, text=pl.lit("a"))
    metrics = FEW[:-1] if options.get("conventions") == "xgboost" else FEW
    assert_same(table, metrics, **options)


@pytest.mark.parametrize("layout", ["sorted", "adjacent", "shuffled"])
def test_logs_in_files(tmp_path: Path, layout: str) -> None:
    table = log(5)
    expected = pr.per_query(of_unknown_lengths(table), FEW).collect(engine="streaming")
    if layout == "adjacent":
        table = table.sort(pl.col("query").hash(), maintain_order=True)
    elif layout == "shuffled":
        table = table.sample(fraction=1, shuffle=True, seed=1)
    table.write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    plan = pr.per_query(scanned, FEW)
    assert is_wide(plan)
    assert_frame_equal(plan.collect(engine="streaming").sort("query"), expected, rel_tol=1e-12)
    some = pr.evaluate(scanned.filter(pl.col("doc") > 3).with_columns(x=pl.lit(1)), FEW)
    assert is_wide(some)
    assert_frame_equal(
        some.collect(engine="streaming"),
        pr.evaluate(table.lazy().filter(pl.col("doc") > 3), FEW).collect(engine="streaming"),
        rel_tol=1e-12,
    )


@pytest.mark.filterwarnings("ignore:in each ranking:polars_rank.errors.RankWarning")
def test_rankings_that_became_longer_take_rows(tmp_path: Path) -> None:
    table = log(5)
    table.write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    other = scanned.with_columns(pl.col("doc") + 100)
    for longer in (
        pl.concat([scanned, other]),
        scanned.with_columns(pl.col("query") // 100, doc=pl.int_range(pl.len())),
        scanned.select(pl.col("query") // 100, "score", "label", doc=pl.int_range(pl.len())),
        scanned.drop("query").with_columns(query=pl.lit(1), doc=pl.int_range(pl.len())),
        scanned.rename({"query": "x"}).with_columns(query=pl.lit(1), doc=pl.int_range(pl.len())),
        scanned.join(table.lazy().select("doc").unique().head(2), how="cross")
        .drop("doc").rename({"doc_right": "doc"}).unique(["query", "doc"]),
    ):  # fmt: skip
        plan = pr.evaluate(longer, "ndcg")
        assert not is_wide(plan)
        expected = pr.evaluate(longer.collect(), "ndcg")
        assert_frame_equal(plan.collect(), expected, rel_tol=1e-12)


def test_bad_rows_are_the_same_errors() -> None:
    for doc in (pl.Int32, pl.Int64, pl.String):
        table = log(4, doc=doc)
        row = table.slice(1_500, 1)
        for bad in (
            row,
            row.with_columns(pl.lit(None, doc).alias("doc"), score=pl.lit(1.0, pl.Float32)),
            row.with_columns(score=pl.lit(float("nan"), pl.Float32)),
            row.with_columns(score=pl.lit(float("inf"), pl.Float32)),
        ):
            faulty = pl.concat([table, bad])
            messages = []
            for frame in (in_memory(faulty), of_unknown_lengths(faulty)):
                with pytest.raises(pr.errors.DataError) as caught:
                    pr.evaluate(frame, "ndcg").collect(engine="streaming")
                messages.append(str(caught.value))
            assert messages[0] == messages[1]


def test_32_bit_labels_are_compared_as_64_bit_floats() -> None:
    """0.7 is 0.699999988 in 32 bits, and the next float after 0.5 is 0.5."""
    after = math.nextafter(0.5, 1)
    for label, rel, relevant in (
        (0.7, 0.7, False), (0.5, after, False), (0.5, 0.5, True), (3, 2.5, True),
    ):  # fmt: skip
        metrics = ["p@1", f"precision(rel={rel!r})@1"]
        for rows in (1, MANY_ROWS):
            table = one_by_one(rows).with_columns(label=pl.lit(label, pl.Float32)).collect()
            assert is_wide(pr.per_query(in_memory(table), metrics, rel=rel)) == (rows == MANY_ROWS)
            assert pr.evaluate(table, metrics, rel=rel).row(0) == (rows, relevant, relevant)
    half = one_by_one(1).with_columns(label=pl.lit(0.5, pl.Float32)).collect()
    for preset in ("catboost", "lightgbm"):
        assert pr.evaluate(half, "p@1", conventions=preset)["p@1"].item() == 0


@pytest.mark.parametrize("dtype", [pl.Int8, pl.Int32, pl.Int64, pl.UInt8, pl.UInt32, pl.UInt64])
def test_ids_at_the_ends_of_their_types(dtype: type[pl.DataType]) -> None:
    """Documents have the lowest score or none, and a row of the ranking has no document."""
    low, high = pl.select(low=dtype.min(), high=dtype.max()).row(0)
    draw, metrics = random.Random(3), [*map(pr.metric, ("p@1", "p@2", "num_ret", "unjudged@6"))]
    for score, lowest in (
        (pl.Float32, -(2 - 2**-23) * 2.0**127),
        (pl.Float64, -(2 - 2**-52) * 2.0**1023),
    ):
        lists = {
            -query: [Doc(doc, draw.choice([lowest, None]), draw.choice([0, 1]))
                     for doc in (low, low + 1, 2, high - 1, high)]
            for query in range(1, 9)
        }  # fmt: skip
        rows = [(q, *row) for q, docs in lists.items() for row in [*docs, (None, None, None)]]
        schema = {"query": pl.Int64, "doc": dtype, "score": score, "label": pl.Int8}
        few = pl.DataFrame(rows, schema, orient="row")
        many = pl.concat([few, one_by_one(MANY_ROWS).collect().cast(schema)])
        for ties in ("doc", "doc_ascending", "best", "worst", "input"):
            expected = truth(metrics, lists, ties).sort("query")
            for table in (few, many):
                plan = pr.per_query(in_memory(table), metrics, ties=ties)
                assert is_wide(plan) == (table is many)
                assert_close(plan.filter(pl.col("query") < 0).collect().sort("query"), expected)


def test_documents_that_are_repeated() -> None:
    """The lowest id is different from a row without a document."""
    few = pl.DataFrame(
        {"query": -1, "doc": [0, 1, None], "score": [1.0, 2.0, None], "label": [1, 1, None]}
    )
    for doc in (pl.UInt8, pl.Int64, pl.String):
        many = one_by_one(MANY_ROWS).collect().cast({"doc": doc})
        rows = few.cast(dict(many.schema))
        pr.evaluate(pl.concat([rows, many]), "ndcg")
        for bad in (rows[[0, 0, 2]], rows[[0, 1, 1, 2]], rows[[0, 1, 2, 2]]):
            for table in (bad, pl.concat([bad, many])):
                with pytest.raises(pr.errors.DataError, match="more than once in a ranking"):
                    pr.evaluate(table, "ndcg")


def test_no_node_of_the_plan_holds_all_rows() -> None:
    plan = pr.evaluate(in_memory(log(5)).set_sorted("query"), FEW)
    assert "in-memory-map" not in holding_nodes(plan)
