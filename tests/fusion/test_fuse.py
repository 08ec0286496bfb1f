"""`fuse`, compared with values by hand and with Python."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from fusion.oracle import Row, fused
from plans import holding_nodes
from polars.testing import assert_frame_equal

# All methods of fusion.
from polars_rank.fusion.methods import (
    FORMULAS,
    METHODS,
    NORMALIZATIONS,
    read_fusion,
    total,
)
from strategies import shuffled

SCHEMA = {"run": pl.String, "query": pl.Int64, "doc": pl.String, "score": pl.Float64}
LOG = pl.DataFrame({
    "run": [*"aaabbb"], "query": [1, 1, 2, 1, 1, 1], "doc": [*"xyxxzw"],
    "score": [3.0, 1.0, 1.0, 0.5, 0.2, None], "label": [1, None, 2, None, 0, 2],
})  # fmt: skip


def rows(seed: int) -> list[Row]:
    """Return three runs with ties, documents that were not retrieved, and missing rankings."""
    rng = random.Random(seed)
    scores = [None, 0.5, 1.0, 2.0, 2.0, 3.0, 7.25]
    drawn = [
        (run, query, doc, rng.choice(scores) if query else 2.0)
        for run in "abc"
        for query in range(6)
        for doc in "stuvwxyz"
        if rng.random() < (0.6 if query else 0.2)
    ]
    return [*drawn, ("a", 9, "s", 1.0), ("c", 9, "t", None)]


def scores_of(table: pl.DataFrame) -> dict[tuple[Any, str], float]:
    retrieved = table.filter(pl.col("score").is_not_null())
    return {(query, doc): score for query, doc, score in
            retrieved.select("query", "doc", "score").rows()}  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_against_plain_python(method: str) -> None:
    rule = FORMULAS[method]
    options: dict[str, Any] = {"gmnz": {"gamma": 1.5}, "rbc": {"phi": 0.8}}.get(method, {})
    if method == "rrf":
        options["k"] = 2.5
    if rule.is_weighted:
        options["weights"] = {"a": 0.5, "b": 2.0, "c": 0.0}
    log_rows = rows(len(method))
    log = pl.DataFrame(log_rows, SCHEMA, orient="row")
    #: All normalizations, and all values of `missing` for scores as they are, and one for others.
    choices = [None, "zero", "ignore", "lowest"]
    for place, normalize in enumerate((None, *NORMALIZATIONS) if rule.points is None else (None,)):
        chooses = rule.points is None and normalize != "borda"
        one = [choices[(place + [*METHODS].index(method)) % 4]]
        for missing in (one if normalize else choices) if chooses else (None,):
            chosen = {**options, "normalize": normalize, "missing": missing}
            expected = fused(log_rows, method, **chosen)
            fusion = pr.Fusion(method, **chosen)
            assert read_fusion(str(fusion)) == fusion
            for given in (fusion, str(fusion)):
                scores = scores_of(pr.fuse(log, given))
                assert scores == pytest.approx(expected, rel=1e-12, abs=1e-12), given


def test_by_hand() -> None:
    assert pr.fuse(LOG).to_dict(as_series=False) == {
        "run": ["fused"] * 5,
        "query": [1, 1, 1, 1, 2],
        "doc": ["x", "z", "y", "w", "x"],
        "score": [2 / 61, 1 / 62, 1 / 62, None, 1 / 61],
        # A document has the label of any run; w was judged, but no run retrieved it.
        "label": [1, 0, None, 2, 2],
    }
    method = "weighted_sum(normalize='min_max', weights={'a': 3, 'b': 1})"
    weighted = pr.fuse(LOG.drop("label"), method, name="ab")
    assert weighted.columns == ["run", "query", "doc", "score"]
    assert weighted.rows() == [
        ("ab", 1, "x", 3 * 1.0 + 1.0), ("ab", 1, "z", 0.0), ("ab", 1, "y", 0.0),
        ("ab", 2, "x", 3 * 1.0),
    ]  # fmt: skip


def test_runs_are_kept_with_all_judged_documents() -> None:
    both = pr.fuse(LOG, keep_runs=True)
    assert_frame_equal(both.filter(run="fused"), pr.fuse(LOG))
    rows_of_b = [("b", 1, "x", 0.5, 1), ("b", 1, "z", 0.2, 0), ("b", 1, "w", None, 2)]
    assert both.filter(run="b").rows() == rows_of_b
    values = pr.per_query(both, "recall", by="run").filter(query=1)
    # x and w are relevant in query 1, for all runs.
    assert values.select("run", "recall").rows() == [("a", 0.5), ("b", 0.5), ("fused", 0.5)]


def test_a_document_counts_once_at_its_best_rank() -> None:
    again = LOG.filter(doc="x").with_columns(score=pl.lit(0.1))
    for keep_runs in (False, True):
        repeated = pr.fuse(pl.concat([again, LOG]), "borda", keep_runs=keep_runs)
        assert_frame_equal(repeated, pr.fuse(LOG, "borda", keep_runs=keep_runs))


def test_ties() -> None:
    tied = pl.DataFrame({"run": "a", "query": 1, "doc": ["y", "z", "x"], "score": 1})
    log = pl.concat([tied, tied.with_columns(run=pl.lit("b"))])
    given: dict[Any, str] = {None: "zyx", "doc_ascending": "xyz", "input": "yzx"}
    for ties, docs in given.items():
        for frame in (log, log.lazy().set_sorted("query")):
            table = pr.fuse(frame, ties=ties).lazy().collect()
            ranks = dict(table.select("doc", 2 / pl.col("score") - 60).rows())
            assert ranks == pytest.approx({doc: rank for rank, doc in enumerate(docs, 1)})


@pytest.mark.parametrize("method", ["rrf", "isr", "borda", "arithmetic_mean", "geometric_mean"])
def test_documents_with_the_same_ranks_in_different_runs_are_tied(method: Any) -> None:
    orders = {"a": [1.0, 0.1, 0.07], "b": [0.07, 1.0, 0.1], "c": [0.1, 0.07, 1.0]}
    log = pl.concat(
        pl.DataFrame({"run": run, "query": 1, "doc": ["x", "y", "z"], "score": scores})
        for run, scores in orders.items()
    )
    # Small tables are fused without Polars' optimizer, which removes a sort before a sum.
    many = pl.concat([log, *(log.with_columns(query=query) for query in range(2, 3000))])
    for frame in (log, log.lazy(), many):
        table = pr.fuse(frame, method).lazy().collect()
        assert table.group_by("query").agg(pl.col("score").n_unique())["score"].unique().item() == 1


def test_sums_do_not_depend_on_the_order_of_values() -> None:
    rng = random.Random(1)
    values = [[rng.expovariate(1) * 10 ** rng.randint(-2, 2) for _ in range(4)] for _ in range(500)]
    values += [[-1.7e308, 1.0, 1e39, 2.0], [0.1, 0.2, -0.3, 1e-3]]
    rows = [(row, value) for row, each in enumerate(values) for value in each]
    table = pl.DataFrame(rows, ["row", "value"], orient="row")
    for frame in (table, shuffled(table, 1)):
        sums = frame.lazy().group_by("row").agg(total(pl.col("value"))).collect().sort("row")
        assert sums["value"].to_list() == [math.fsum(each) for each in values]


def test_a_run_takes_part_in_the_queries_for_which_it_has_rows() -> None:
    alone = pr.fuse(LOG, "arithmetic_mean").filter(query=2)
    assert alone["score"].to_list() == [1.0]
    empty = pl.DataFrame([("b", 2, None, None, None)], LOG.schema, orient="row")
    table = pr.fuse(pl.concat([LOG, empty]), "arithmetic_mean", keep_runs=True).filter(query=2)
    assert table.filter(run="fused")["score"].to_list() == [1 / 2]
    found_nothing = pr.fuse(pl.concat([empty, empty.with_columns(run=pl.lit("a"))]))
    assert found_nothing.rows() == [("fused", 2, None, None, None)]


def test_ids_runs_and_scores_of_other_types() -> None:
    method = "rrf(weights={'a': 1, 'b': 2})"
    expected = pr.fuse(LOG, method, keep_runs=True).select("doc", "score").rows()
    numbers = LOG.with_columns(run=pl.col("run").replace_strict({"a": 1, "b": 2}))
    table = pr.fuse(numbers, pr.Fusion(weights={1: 1, 2: 2}), keep_runs=True)
    assert table.select("doc", "score").rows() == expected
    assert table["run"].unique().sort().to_list() == ["1", "2", "fused"]
    categories = LOG.cast({"run": pl.Categorical, "doc": pl.Categorical, "score": pl.Decimal(9, 1)})
    table = pr.fuse(categories, method, keep_runs=True)
    assert table.select(pl.col("doc").cast(pl.String), "score").rows() == expected
    # As Float64, the first two scores would be equal.
    large = pl.DataFrame({"run": ["a", "a", "b"], "query": 1, "doc": ["x", "y", "x"],
                          "score": [2**53 + 1, 2**53, 1]})  # fmt: skip
    assert scores_of(pr.fuse(large)) == {(1, "x"): 2 / 61, (1, "y"): 1 / 62}


def test_groups() -> None:
    days = pl.concat([
        LOG.with_columns(day=pl.lit(day), score=pl.col("score") * sign, label=pl.lit(day))
        for day, sign in ((1, 1), (2, -1))
    ])  # fmt: skip
    table = pr.fuse(days, by="day", query=["query"])
    assert table.columns == ["day", "run", "query", "doc", "score", "label"]
    for (day,), part in days.group_by("day"):
        assert_frame_equal(table.filter(day=day).drop("day"), pr.fuse(part.drop("day")))


@pytest.mark.parametrize("layout", ["sorted", "by run", "adjacent", "shuffled"])
def test_logs_in_order_are_fused_in_batches(tmp_path: Path, layout: str) -> None:
    log = pl.DataFrame(rows(1), SCHEMA, orient="row").with_columns(label=pl.lit(1))
    place = pl.col("query") * 7 % 5 if layout == "adjacent" else pl.col("query")
    log = shuffled(log) if layout == "shuffled" else log.sort(place, maintain_order=True)
    log = log.sort("run", "query", maintain_order=True) if layout == "by run" else log
    log.write_parquet(tmp_path / "log.parquet")
    run = "run" if layout == "by run" else None
    options: Mapping[str, Any] = {"method": "mnz(missing='lowest')", "keep_runs": True}
    plan = pr.fuse(pr.scan_log(tmp_path / "log.parquet", run=run), **options)
    assert not holding_nodes(plan)
    if layout == "sorted":
        assert not holding_nodes(pr.fuse(pl.scan_parquet(tmp_path).set_sorted("query"), **options))
        one_run = pr.fuse(pr.scan_log(tmp_path / "log.parquet", run=None))
        assert "sort" not in holding_nodes(pr.per_query(one_run, "rr"))
    with pl.Config(streaming_chunk_size=10):
        table = plan.collect(engine="streaming")
    expected = pr.fuse(log, **options)
    assert_frame_equal(table.sort("query", maintain_order=True), expected)
    assert_frame_equal(log.lazy().ranking.fuse(**options).collect(engine="in-memory"), expected)


def test_streams_of_other_engines() -> None:
    log = pr.datasets.search_log(3_000, 20).select("run", "query", "doc", "score").collect()
    reader = log.sort("query").to_arrow().to_reader(max_chunksize=10_000)
    assert_frame_equal(pr.fuse(reader), pr.fuse(log))


MISUSES: list[tuple[dict[str, Any], str]] = [
    ({"method": "condorcet"}, "`method` must be one of 'rrf'"),
    ({"method": "rrf(k=-1)"}, "`method`: `k` must be a number of 0 or more; found -1"),
    ({"method": "sum(k=60)"}, "`k` is for `method` 'rrf'; found `method` 'sum'"),
    ({"method": "gmnz"}, "`method` 'gmnz' needs `gamma`"),
    ({"method": "rrf(phi=0.5)"}, "`phi` is for `method` 'rbc'"),
    ({"method": "rbc(phi=1)"}, "`phi` must be a number between 0 and 1"),
    ({"method": "wmnz"}, "`method`: 'wmnz' needs `weights`"),
    ({"method": "min(weights={'a': 1, 'b': 1})"}, "`method` 'min' has no weights"),
    ({"method": "rrf(weights={'a': 1, 'b': -1})"}, "0 or more; found -1 for the run 'b'"),
    ({"method": "rrf(weights={'a': 1, 'b': 1e999})"}, "0 or more; found inf for the run 'b'"),
    ({"method": "rrf(weights={'a': 0, 'b': 0})"}, "must not all be 0"),
    ({"method": "rrf(weights=[1, 2])"}, "`weights` must be a mapping"),
    ({"method": "rrf(normalize='min_max')"}, "`normalize` is for a `method` that reads scores"),
    ({"method": "rrf(missing='zero')"}, "`missing` is for a `method` that reads scores"),
    ({"method": "sum(normalize='borda', missing='zero')"}, "`normalize` other than 'borda'"),
    ({"method": "sum(normalise='max')"}, "no parameter `normalise`. Did you mean `normalize`"),
    ({"method": "rrf(60)"}, r"invalid parameters in 'rrf\(60\)'; write them like .rrf\(k=60\)"),
    ({"method": "rrf(k=1, k=2)"}, "`k` is given twice"),
    ({"method": "rrf@10"}, "invalid text 'rrf@10'; write it like"),
    ({"method": ""}, "invalid text ''"),
    ({"method": 60}, "`method` must be a text, such as .*or a pr.Fusion; found 60"),
    ({"ties": "best"}, "`ties` must be one of None, 'doc'"),
    ({"run": "query"}, "used for both `run` and `query`"),
    ({"score": "label"}, "used for both `score` and `label`"),
]


def test_invalid_parameters() -> None:
    for options, message in MISUSES:
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.fuse(LOG.lazy(), **options)


def test_the_text_of_a_method() -> None:
    weights = {"it's": 0.3, 'a "b"': 1, "c, d)@5": 1 / 3}
    method = pr.Fusion("sum", normalize="min_max", weights=weights)
    assert str(method) == (
        "sum(normalize='min_max', weights={\"it's\": 0.3, 'a \"b\"': 1, 'c, d)@5': "
        "0.3333333333333333})"
    )
    assert read_fusion(str(method)) == method
    assert {*map(str, (pr.Fusion(), pr.Fusion("rrf", k=60), read_fusion("RRF(k=60.0)")))} == {"rrf"}
    assert str(read_fusion(" rrf(k=0.5, weights={'a': 1}) ")) == "rrf(k=0.5, weights={'a': 1})"


X = pl.col("doc") == "x"
OTHER_LABEL = pl.when(X & (pl.col("run") == "b")).then(7).otherwise("label")


INVALID: list[tuple[pl.DataFrame, dict[str, Any], str]] = [
    (LOG, {"method": "rrf(weights={'a': 1})"},
     "3 of 6 rows: column 'run' .`run`. has runs without a weight"),
    (LOG, {"method": "rrf(weights={'a': 1, 'b': 1, 'bb': 1})"},
     "run 'bb' .*not found.*Did you mean 'b'"),
    (LOG.filter(run="a"), {}, "has only the run 'a'; pass the rankings of several runs"),
    (LOG.clear(), {}, "has no runs"),
    (LOG.with_columns(run=pl.when(~X).then("run")), {}, "3 of 6 rows: column 'run' .* nulls"),
    (LOG.with_columns(score=pl.when(X).then(float("nan")).otherwise("score")), {},
     "3 of 6 rows: column 'score' .* NaN or infinite"),
    (LOG.with_columns(label=OTHER_LABEL), {},
     r"1 document: column 'label' .*e.g. {'query': 1, 'doc': 'x', 'label': \[1, 7\]}"),
    (LOG, {"keep_runs": True, "name": "b"}, "has a run 'b'; choose another `name`"),
    (LOG.with_columns(pl.col("score") - 3), {"method": "sum(normalize='max')"},
     "highest scores of 0 or less, by which `normalize` 'max' would divide"),
]  # fmt: skip


def test_invalid_rows() -> None:
    for log, options, message in INVALID:
        with pytest.raises(pr.errors.DataError, match=message):
            pr.fuse(log, **options)
        with pytest.raises(pr.errors.DataError):
            pr.fuse(log.lazy(), **options).collect()


def test_the_first_rows_are_checked_too() -> None:
    runs = pr.datasets.search_log(3, 5, runs=["a", "b"])
    fused = pr.fuse(runs, "rrf(weights={'a': 1, 'b': 1, 'c': 1})")
    for engine in ("in-memory", "streaming"):
        with pytest.raises(pr.errors.DataError, match="run 'c'"):
            fused.head(1).collect(engine=engine)
