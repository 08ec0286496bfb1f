"""`grouped_auc`, the mean AUC weighted by numbers of documents, and curves over all rows."""

from __future__ import annotations

import warnings

import oracles
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

TIED = pl.DataFrame({"query": "q", "score": [0.6, 0.5, 0.1, 0.1, 0.1], "label": [1, 1, 0, 0, 1]})
LOG = pl.DataFrame({
    "run": ["x"] * 5 + ["y"] * 6, "query": [*"aabbbaaabbc"],
    "score": [0.9, 0.1, 0.9, 0.5, 0.1, 0.5, 0.5, None, 0.3, 0.2, 0.1],
    "label": [1, 0, 0, 1, 0, 1, 0, 1, 1, 1, None],
})  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_weighted_by_impressions(engine):
    found = pr.grouped_auc(LOG.lazy(), by="run").collect(engine=engine)
    # x: AUC 1 of 2 documents and 1/2 of 3. y: only "a" has both kinds, a tied pair.
    assert found.columns == ["run", "queries", "impressions", "gauc"]
    assert found.rows() == [("x", 2, 5, (2 * 1 + 3 * 0.5) / 5), ("y", 1, 2, 0.5)]
    nothing = pr.grouped_auc(LOG.filter(pl.col("query") == "c"), run=None)
    assert nothing.row(0) == (0, 0, None)


def test_equals_the_oracle():
    log = pr.datasets.search_log(50, runs=1, seed=3).collect()
    parts = log.select("query", "doc", "score", "label").partition_by("query", include_key=False)
    lists = [[oracles.Doc(*row) for row in rows.iter_rows()] for rows in parts]
    assert pr.grouped_auc(log)["gauc"].item() == pytest.approx(oracles.gauc(lists), abs=1e-12)


def test_curve_over_all_rows() -> None:
    curve = pr.pr_curve(TIED)
    assert curve["precision"].to_list() == pytest.approx([1 / 1, 2 / 2, 3 / 5], abs=1e-12)
    assert curve["recall"].to_list() == pytest.approx([1 / 3, 2 / 3, 3 / 3], abs=1e-12)
    whole = curve.select("auc", "average_precision", "best_f1", "no_skill").unique().row(0)
    area = 1 / 3 + 1 / 3 + (1 + 3 / 5) / 2 / 3
    steps = 1 / 3 + 1 / 3 + 3 / 5 / 3
    assert whole == pytest.approx((area, steps, 2 * 1 * (2 / 3) / (1 + 2 / 3), 3 / 5), abs=1e-12)


def test_curves_of_runs_and_groups() -> None:
    one = TIED.with_columns(query=1, day=1)
    runs = pl.concat([one.with_columns(run=pl.lit("b")), one.with_columns(run=pl.lit("a"))])
    assert pr.pr_curve(runs).drop("run").rows() == 2 * pr.pr_curve(TIED).rows()
    assert pr.pr_curve(runs, by="day").columns[:3] == ["day", "run", "threshold"]
    systems = runs.rename({"run": "system"})
    assert_frame_equal(pr.pr_curve(systems, run="system").rename({"system": "run"}),
                       pr.pr_curve(runs))  # fmt: skip
    pooled = pr.pr_curve(runs, run=None)
    # The documents of both runs count twice, the relevant ones, too.
    assert_frame_equal(pooled.drop("found", "hits"), pr.pr_curve(TIED).drop("found", "hits"))
    with pytest.raises(pr.errors.SchemaError, match="column 'systm' .`run`. not found"):
        pr.pr_curve(runs, run="systm")
    assert_frame_equal(pr.pr_curve(runs, by="run"), pr.pr_curve(runs))


def test_rows_that_no_curve_counts() -> None:
    log = TIED.with_columns(query=1, doc=pl.int_range(pl.len()).cast(pl.String))
    empty = log.head(1).with_columns(pl.lit(None).alias(c) for c in ("doc", "score", "label"))
    for columns in (log.columns, ["query", "score", "label"], ["score", "label"]):
        both = pl.concat([log, empty]).select(columns)
        assert_frame_equal(pr.pr_curve(both), pr.pr_curve(TIED))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_curves_that_pool_rows_warn(engine: str) -> None:
    log = TIED.with_columns(query=1, doc=pl.int_range(pl.len()), run=pl.lit("a"))
    more = pl.concat([log, log.with_columns(query=2), log.with_columns(pl.lit("b").alias("run"))])
    assert pr.pr_curve(more).height == 2 * pr.pr_curve(TIED).height
    systems = more.rename({"run": "system"})
    named = more.rename({"query": "q", "doc": "d"}).drop("run")
    repeats = "column 'doc' (`doc`) has duplicates"
    runs = "rankings have several values of the column 'system', which no parameter names"
    # If several checks fail, the first is reported.
    for table, options, message in (
        (systems, {"run": None}, runs),
        (more.drop("run"), {"run": None}, repeats),
        (systems.drop("doc"), {"run": None}, runs),
        (systems.select("system", "score", "label"), {}, ""),
        (named, {"query": "q", "doc": "d"}, ""),
        (more.drop("doc"), {"run": None}, None),
        (more, {}, None),
        (more.drop("run", "query"), {}, None),
        (more, {"run": None, "query": ["run", "query"]}, None),
        (more.drop("run"), {"doc": None}, None),
        (named, {}, None),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pr.pr_curve(table.lazy(), **options).collect(engine=engine)
        said = [str(each.message) for each in caught]
        assert len(said) == (message is not None), (table.columns, options)
        assert not message or (message in said[0] and "as in {'query': 1}" in said[0])
