"""movers, overlap and headroom: what changed between runs, and what could be gained."""

import oracles
import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal
from tables import by_query

LOG = pr.datasets.search_log(80, runs=["old", "new", "best"], seed=4).collect()


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_movers_are_the_greatest_differences(engine):
    plan = pr.diagnostics.movers(LOG.lazy(), "ndcg@5", baseline="old", n=4, keep="country")
    result = plan.collect(engine=engine)
    assert result.columns == [*("run", "query", "difference", "value", "baseline_value", "country")]
    wide = by_query(pr.per_query(LOG, "ndcg@5", by="run"), "ndcg@5")
    for run in ("new", "best"):
        difference = wide.select("query", d=pl.col(run) - pl.col("old")).sort("d", "query")
        lost = difference.filter(pl.col("d") < 0).head(4)
        gained = difference.sort("d", "query", descending=[True, False]).head(4)
        expected, of_run = pl.concat([gained, lost]), result.filter(run=run)
        assert of_run["query"].to_list() == expected["query"].to_list()
        assert of_run["difference"].to_list() == pytest.approx(expected["d"].to_list())
    countries = dict(LOG.select("query", "country").unique().iter_rows())
    assert result["country"].to_list() == [countries[query] for query in result["query"]]


def test_movers_of_groups_are_those_of_each_group():
    result = pr.diagnostics.movers(LOG, "ap", baseline="old", n=2, k=3, by="country")
    for (country,), part in LOG.group_by("country"):
        alone = pr.diagnostics.movers(part, "ap", baseline="old", n=2, k=3)
        assert_frame_equal(result.filter(country=country).drop("country"), alone)


def test_gains_of_a_metric_in_which_lower_is_better_are_lower_values():
    """In query 1, "new" moves the relevant document down; in query 2, it moves it up."""
    log = pl.DataFrame({
        "run": ["old"] * 4 + ["new"] * 4, "query": [1, 1, 2, 2] * 2, "doc": [1, 2] * 4,
        "score": [2, 1, 2, 1, 1, 2, 1, 2], "label": [1, 0, 0, 1] * 2,
    })  # fmt: skip
    result = pr.diagnostics.movers(log, "fall_out@1", baseline="old")
    assert result.select("query", "difference").rows() == [(2, -1.0), (1, 1.0)]


def test_movers_follow_conventions():
    log = LOG.with_columns(score=pl.col("score").round(0))
    result = pr.diagnostics.movers(log, "ap", baseline="old", n=3, k=3, ties="doc_ascending")
    ranked = pr.rank(log, by="run", ties="doc_ascending").filter(pl.col("rank") <= 3)
    on = ["run", "query", "rank", "doc"]
    assert result.drop_nulls("doc").join(ranked, on=on, how="anti").is_empty()
    values = pr.per_query(log, "ap", by="run", ties="doc_ascending").rename({"ap": "value"})
    assert result.join(values, on=["run", "query", "value"], how="anti").is_empty()


def test_movers_show_the_ranked_documents():
    result = pr.diagnostics.movers(LOG, "ap", baseline="old", n=2, k=4)
    ranked = pr.rank(LOG, by="run").filter(pl.col("rank") <= 4)
    for row in result.iter_rows(named=True):
        for run, side in ((row["run"], ""), ("old", "baseline_")):
            there = ranked.filter(run=run, query=row["query"], rank=row["rank"])
            expected = there.select("doc", "label").row(0) if there.height else (None, None)
            assert (row[side + "doc"], row[side + "label"]) == expected
    assert result.columns == [
        *("run", "query", "difference", "rank", "value", "baseline_value"),
        *("baseline_doc", "baseline_label", "doc", "label"),
    ]


# By score: x, y, z in the baseline, and z, y, x in the other run.
BOTH_WAYS = pl.DataFrame({
    "run": ["a"] * 3 + ["b"] * 3, "query": 1, "doc": [*"xyz"] * 2,
    "score": [3.0, 2.0, 1.0, 1.0, 2.0, 3.0], "label": [0, 1, 0] * 2,
})  # fmt: skip
UNJUDGED = pl.when(pl.col("doc") != "x").then("label")
#: A log, options, and the documents that the metric reads in the baseline and in the other run.
READ = {
    "seen documents": (
        pr.catalog.exclude_seen(BOTH_WAYS, pl.DataFrame({"query": 1, "doc": ["x"]})),
        {}, "yz", "zy",
    ),
    # Of two rows of x, the one with the highest score is kept, and is then removed.
    "unjudged documents and duplicates": (
        pl.concat([BOTH_WAYS, BOTH_WAYS.with_columns(pl.col("score") + 3, label=UNJUDGED)]),
        {"unjudged": "removed", "duplicates": "max"}, "yz", "zy",
    ),
    # Scores of x are the highest of 32 bits, and those of y and z equal 0.
    "32 bits": (
        BOTH_WAYS.with_columns(
            score=pl.when(pl.col("doc") == "x").then(1e300).otherwise(pl.col("score") * 1e-300),
            label=(pl.col("doc") == "z") & (pl.col("run") == "b"),
        ),
        {"conventions": "trec_eval 9"}, "xzy", "xzy",
    ),
}  # fmt: skip


def test_movers_show_the_documents_that_the_metric_reads():
    for name, (log, options, baseline_docs, docs) in READ.items():
        result = pr.diagnostics.movers(log, "rr", baseline="a", k=3, **options)
        assert result["baseline_doc"].to_list() == [*baseline_docs], name
        assert result["doc"].to_list() == [*docs], name


def test_movers_show_no_more_ranks_than_the_longest_ranking_has():
    whole = pr.diagnostics.movers(LOG, "ap", baseline="old", n=2, k=LOG.height)
    deep = pr.diagnostics.movers(LOG.lazy(), "ap", baseline="old", n=2, k=2**32 - 1)
    assert deep.collect(engine="streaming").equals(whole)


def test_movers_of_a_run_that_is_the_same():
    twins = pl.concat([LOG.filter(run="old"), LOG.filter(run="old").with_columns(run=pl.lit("x"))])
    assert pr.diagnostics.movers(twins, "ap", baseline="old").is_empty()


def test_scores_or_positions_say_how_runs_rank():
    long = pl.DataFrame({
        "run": ["a"] * 5 + ["b"] * 5, "query": [1, 1, 1, 2, 2] * 2, "doc": [*"xyzxy"] * 2,
        "score": [3.0, 2, 1, 2, 1, 1, 2, 3, 1, 2], "label": [0, 1, 1, 0, 1] * 2,
    })  # fmt: skip
    lower = long.with_columns(score=-pl.col("score"))
    place = pl.col("score").rank("ordinal", descending=True).over("run", "query")
    ranked = long.select("run", "query", "doc", "label", rank=place)
    moved = pr.diagnostics.movers(long, "ap", baseline="a", k=3)
    by_lower = pr.diagnostics.movers(lower, "ap", baseline="a", k=3, score="-score")
    assert_frame_equal(by_lower, moved)
    by_position = pr.diagnostics.movers(ranked, "ap", baseline="a", k=3, position="rank")
    assert_frame_equal(by_position, moved)
    for tables, options in (
        ([long], {"baseline": "a"}), ([long.filter(run=run).drop("run") for run in "ab"], {}),
    ):  # fmt: skip
        options = {"measure": "rbo", **options}
        turned = [table.with_columns(score=-pl.col("score")) for table in tables]
        again = pr.diagnostics.overlap(*turned, score="-score", **options)
        assert_frame_equal(again, pr.diagnostics.overlap(*tables, **options))


def test_overlap_of_runs_is_the_mean_of_the_overlap_of_tables():
    measures = ["jaccard", "overlap", "churn", "rbo"]
    options = {"measure": measures, "baseline": "old", "k": 5}
    of_groups = pr.diagnostics.overlap(LOG, by="country", **options)
    result = pl.concat([pr.diagnostics.overlap(LOG, **options), of_groups], how="diagonal")
    for row in result.iter_rows(named=True):
        country = row["country"]
        log = LOG if country is None else LOG.filter(country=country)
        left, right = log.filter(run=row["run"]), log.filter(run="old")
        values = pr.diagnostics.overlap(left, right, measures, k=5)
        assert values.columns == ["query", *measures]
        for measure in measures:
            assert row[measure] == pytest.approx(values[measure].mean())
        assert (row["queries"], row["missing"]) == (left["query"].n_unique(), 0)


@pytest.mark.parametrize("k", [3, None])
def test_measures_of_two_tables(k):
    left, right = LOG.filter(run="new"), LOG.filter(run="old")
    measures = ["jaccard", "overlap", "churn"]
    values = pr.diagnostics.overlap(left, right, measures, k=k).sort("query")
    tops = [
        dict(
            pr.rank(side).filter(pl.col("rank") <= (k or LOG.height)).sort("query", "rank")
            .group_by("query").agg("doc").iter_rows()
        )
        for side in (left, right)
    ]  # fmt: skip
    for row in values.iter_rows(named=True):
        a, b = (top[row["query"]] for top in tops)
        both, longer = len({*a} & {*b}), max(len(a), len(b))
        assert row["jaccard"] == pytest.approx(both / len({*a} | {*b}))
        assert row["overlap"] == pytest.approx(both / (k or longer))
        assert row["churn"] == (a != b)


def files_of_two_runs(folder, layout):
    """Return scans of two logs; some queries are in one of them, or have no retrieved document."""
    scans = {}
    for run, seed in (("old", 3), ("new", 11)):
        log = LOG.filter(pl.col("run") == run, pl.col("query") % seed > 0).drop("run")
        nothing = {"query": [100, 101 + seed], "doc": [1, 1]}
        log = pl.concat([log, pl.DataFrame(nothing)], how="diagonal_relaxed")
        log = log.sort(pl.col("query").hash(seed) if layout == "adjacent" else "query")
        log.write_parquet(folder / run)
        scans[run] = pr.scan_log(folder / run).select(~pl.selectors.by_name("label", "position"))
    return scans


@pytest.mark.parametrize("layout", ["sorted", "adjacent"])
def test_similarity_of_logs_in_order(tmp_path, layout):
    left, right = files_of_two_runs(tmp_path, layout).values()
    plans = {
        "rbo": pr.diagnostics.overlap(left, right, "rbo", p=0.8),
        "overlap": pr.diagnostics.overlap(left, right, "overlap", k=5),
    }
    for plan in plans.values():
        # One row per query is joined and sorted.
        few = ("sort", "equi-join") if layout == "adjacent" else ("sort",)
        assert not holding_nodes(plan, *few)
    with pl.Config(streaming_chunk_size=100):
        result = {name: plan.collect(engine="streaming") for name, plan in plans.items()}
    ranked = [
        dict(
            log.drop_nulls("score").sort(["score", "doc"], descending=True)
            .group_by("query").agg("doc").collect().iter_rows()
        )
        for log in (left, right)
    ]  # fmt: skip
    queries = sorted({query for log in (left, right) for query in log.collect()["query"]})
    sides = [[docs.get(query, []) for docs in ranked] for query in queries]
    assert result["rbo"]["query"].to_list() == queries
    assert result["rbo"]["rbo"].to_list() == pytest.approx(
        [oracles.rbo(*side, 0.8) for side in sides]
    )
    shares = [len({*a[:5]} & {*b[:5]}) / 5 for a, b in sides]
    assert result["overlap"]["overlap"].to_list() == pytest.approx(shares)


def test_similarity_of_ids_of_different_types():
    left = pl.DataFrame({"query": [1, 2], "doc": ["a", "b"], "score": [1.0, 1.0]})
    right = left.cast({"query": pl.Int16, "doc": pl.Categorical})
    assert pr.diagnostics.overlap(left, right)["jaccard"].to_list() == [1.0, 1.0]
    with pytest.raises(pr.errors.SchemaError, match="'doc' is String in `a` and Int32 in `b`"):
        pr.diagnostics.overlap(left, left.with_columns(doc=1))


def test_runs_in_order_are_compared_without_holding_their_rows(tmp_path):
    LOG.sort("run", "query").write_parquet(tmp_path / "log")
    log = pr.scan_log(tmp_path / "log", by="run")
    plan = pr.diagnostics.overlap(log, baseline="old", k=5)
    assert "window" not in holding_nodes(plan)  # joins hold lists of documents
    assert_frame_equal(plan.collect(), pr.diagnostics.overlap(LOG, baseline="old", k=5))
    moved = pr.diagnostics.movers(log, "ap", baseline="old", n=2, k=3)
    assert_frame_equal(moved.collect(), pr.diagnostics.movers(LOG, "ap", baseline="old", n=2, k=3))


def test_overlap_by_hand():
    log = pl.DataFrame({
        "run": ["a"] * 5 + ["b"] * 5, "query": [1, 1, 2, 2, 3, 1, 1, 2, 2, 4],
        "doc": [*"xyxyxxyyxx"], "score": [2.0, 1, 2, 1, 1, 2, 1, 2, 1, 1],
    })  # fmt: skip
    options = {"measure": ["overlap", "churn"], "k": 2}
    result = pr.diagnostics.overlap(log, baseline="a", **options)
    row = result.row(0, named=True)
    # Query 1 is as it was, of query 2 the order changed, 3 and 4 are on one side only.
    found = [row[name] for name in ("queries", "missing", "overlap", "churn")]
    assert found == [2, 2, 1, 0.5]
    assert pr.diagnostics.overlap(log, baseline="b", k=2)["run"].to_list() == ["a"]
    lazily = pr.diagnostics.overlap(log.lazy(), baseline="a", **options)
    assert_frame_equal(lazily.collect(engine="streaming"), result)


def test_rbo_of_empty_and_tied_rankings():
    left = pl.DataFrame({
        "query": [1, 1, 1, 2, 3, 4], "doc": [*"abcaaa"],
        "score": [0.0, -0.0, None, 1.0, None, None],
    })  # fmt: skip
    right = left.with_columns(pl.col("score").fill_null(1.0)).filter(~pl.col("query").is_in([2, 4]))
    for ties, order in {"doc": "ba", "doc_ascending": "ab", "input": "ab"}.items():
        result = pr.diagnostics.overlap(left, right, "rbo", ties=ties, p=0.5)
        expected = oracles.rbo(order, "c" + order, 0.5)
        assert result["rbo"].to_list() == [pytest.approx(expected), 0.0, 0.0, None]
        lazily = pr.diagnostics.overlap(left.lazy(), right.lazy(), "rbo", ties=ties, p=0.5)
        assert_frame_equal(lazily.collect(engine="streaming"), result)


def test_no_log():
    assert pr.diagnostics.overlap(LOG.clear(), baseline="old").is_empty()
    assert pr.diagnostics.movers(LOG.clear(), "ap", baseline="old").is_empty()
    assert pr.diagnostics.headroom(LOG.clear(), "ap", run=None)["queries"].to_list() == [0]


ARGUMENT, SCHEMA = pr.errors.ArgumentError, pr.errors.SchemaError
OLDER = "run 'older' .`baseline`. not found in the column 'run'; available: 'b"
PLAIN = LOG.rename({"run": "metric"}).drop("doc")
MISUSES = [
    ("movers", LOG, ("ap",), {"baseline": "older"}, pr.errors.DataError, OLDER),
    ("movers", LOG, ("ap",), {"run": "system"}, SCHEMA, "column 'system' .`run`. not found"),
    ("movers", LOG, ("ap",), {"n": 0}, ARGUMENT, "`n` must be"),
    ("movers", LOG, ("mapp",), {}, ARGUMENT, "unknown metric 'mapp'"),
    ("movers", PLAIN, ("ap",), {"run": "metric", "k": 3}, SCHEMA, "'doc' .`doc`. not found"),
    ("movers", LOG.rename({"country": "value"}), ("ap",), {"keep": "value"}, ARGUMENT,
     "column 'value' .`keep`. has the name of a result"),
    ("overlap", LOG, (), {"baseline": "older"}, pr.errors.DataError, OLDER),
    ("overlap", LOG, (), {"k": 0}, ARGUMENT, "`k` must be"),
    ("overlap", LOG, (), {"by": "lang"}, SCHEMA, "'lang' .`by`. not found"),
    ("overlap", LOG, (), {"measure": "rbo", "p": 1}, ARGUMENT, "`p` must be"),
    ("overlap", LOG, (), {"measure": "tau"}, ARGUMENT, "`measure` must be one"),
    ("overlap", LOG, (), {"measure": []}, ARGUMENT, "`measure` must name"),
    ("overlap", LOG, (), {"baseline": None}, ARGUMENT, "second table .`b`., or the `baseline`"),
    ("overlap", LOG, (LOG,), {}, ARGUMENT, "are for one table with several"),
    ("overlap", LOG, (LOG,), {"baseline": None, "score": ["score"]}, ARGUMENT,
     "`score` must be a single column"),
    ("headroom", LOG.drop("score"), ("ap",), {}, SCHEMA, "column 'score' .`score`. not found"),
    ("headroom", PLAIN, ("ap",), {"by": "metric"}, ARGUMENT, "name of a result column; rename it"),
    ("headroom", LOG, ([],), {}, ARGUMENT, "`metrics` is empty"),
    ("headroom", LOG, ("rr",), {"score": ["label"]}, ARGUMENT, "`score` must be a single column"),
]  # fmt: skip


def test_misuse():
    for name, log, args, options, error, match in MISUSES:
        given = options if name == "headroom" else {"baseline": "old", **options}
        function = getattr(pr.diagnostics, name)
        for table in (log, log.lazy()):
            with pytest.raises(error, match=match):
                function(table, *args, **given).lazy().collect(engine="streaming")


METRICS = ["ndcg@5", "ap", "rr", "recall@5", "p@5"]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_headroom(engine):
    result = pr.diagnostics.headroom(LOG.lazy(), METRICS, by="run").collect(engine=engine)
    means = pr.evaluate(LOG, METRICS, by="run")
    for row in result.iter_rows(named=True):
        value = means.filter(run=row["run"])[row["metric"]].item()
        assert row["value"] == pytest.approx(value)
        assert row["value"] <= row["reordered"] <= row["complete"]
        assert row["lost_by_order"] == pytest.approx(row["reordered"] - row["value"])
        assert row["lost_by_retrieval"] == pytest.approx(row["complete"] - row["reordered"])
    # All that is judged, in the order of the labels: the ideal list.
    solvable = pr.evaluate(LOG, "ndcg@5", by="run", undefined="skip")["ndcg@5"].len()
    ideal = pr.diagnostics.headroom(LOG, "ndcg@5", by="run", undefined="skip")["complete"]
    assert ideal.to_list() == pytest.approx([1.0] * solvable)
    # What all runs could be is the same.
    assert result.filter(metric="ap")["complete"].n_unique() == 1


def test_headroom_by_hand():
    log = pl.DataFrame(
        {"query": 1, "doc": [1, 2, 3, 4], "score": [3.0, 2, 1, None], "label": [None, 0, 1, 1]}
    )
    # As it is (1/3)/2; reordered 1/2; complete 1.
    row = pr.diagnostics.headroom(log, "ap").row(0, named=True)
    found = [row[name] for name in ("value", "reordered", "complete")]
    assert found == pytest.approx([1 / 6, 0.5, 1])


def test_headroom_of_other_orders():
    log = pl.DataFrame({"query": 1, "doc": [1, 2, 3], "label": [0, 1, 2], "place": [1, 2, 3]})
    row = pr.diagnostics.headroom(log, "rr", position="place").row(0, named=True)
    assert (row["value"], row["reordered"]) == (1 / 2, 1)
    # Labels as scores are the ideal order.
    row = pr.diagnostics.headroom(log, "rr", score=pl.col("label")).row(0, named=True)
    assert (row["value"], row["reordered"]) == (1, 1)
