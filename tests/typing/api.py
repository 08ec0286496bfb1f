"""What type checkers know of the results: read by mypy and pyright, and run by nobody."""

from __future__ import annotations

from typing import assert_type

import altair as alt
import polars as pl
import polars_rank as pr


class Stream:
    """Any table with Arrow's C stream."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pl.DataFrame().__arrow_c_stream__(requested_schema)


class OnSpark:
    """What a Spark DataFrame has."""

    def mapInArrow(self, func: object, schema: object) -> object:
        raise NotImplementedError


eager = pl.DataFrame()
on_spark = OnSpark()
lazy = pl.LazyFrame()

assert_type(pr.evaluate(lazy, "ndcg@10"), pl.LazyFrame)
assert_type(pr.evaluate(eager, ["ndcg@10", pr.ndcg(5)]), pl.DataFrame)
assert_type(pr.evaluate(Stream(), "ndcg@10", by="run"), pl.DataFrame)
assert_type(pr.per_query(lazy, [pr.ndcg(10, gain="exp2")], ties="best"), pl.LazyFrame)
assert_type(pr.per_query(eager, "ap", keep=["country"]), pl.DataFrame)
assert_type(pr.rank(lazy, position="position"), pl.LazyFrame)
assert_type(pr.rank(eager), pl.DataFrame)
assert_type(pr.diagnostics.tie_bands(lazy, "rr"), pl.LazyFrame)
assert_type(pr.diagnostics.judgment_bounds(eager, "rr"), pl.DataFrame)
assert_type(pr.diagnostics.judgment_bounds(lazy, "rr", by="run", grade=2), pl.LazyFrame)
assert_type(pr.pr_curve(eager), pl.DataFrame)
assert_type(pr.rank_curve(lazy, "recall", range(1, 4)), pl.LazyFrame)
assert_type(pr.diagnostics.overlap(lazy, eager, "rbo"), pl.LazyFrame)
assert_type(pr.diagnostics.overlap(eager, eager, ["jaccard", "churn"], k=3), pl.DataFrame)
assert_type(pr.clicks.coec(lazy, grades=5), pl.LazyFrame)
assert_type(pr.catalog.summary(eager, items=lazy), pl.DataFrame)
assert_type(pr.judges.agreement(lazy, reference="human"), pl.LazyFrame)
assert_type(pr.judges.confusion(eager, label="grade"), pl.DataFrame)
assert_type(pr.judges.system_agreement(lazy, reference="human"), pl.LazyFrame)
assert_type(pr.collapse(lazy, doc="document_id"), pl.LazyFrame)
assert_type(pr.training.lightgbm("rr", ties="best")([], {}), tuple[str, float, bool])
assert_type(pr.training.xgboost(pr.ndcg(5), conventions="xgboost")([], {}), tuple[str, float])
assert_type(pr.training.Accumulator(["rr", pr.ndcg(5)], rel=2).compute(), dict[str, float])
assert_type(pr.fuse(lazy, "borda"), pl.LazyFrame)
assert_type(pr.fuse(eager, pr.Fusion("sum", normalize="min_max")), pl.DataFrame)
assert_type(pr.tune_fusion(lazy, "ndcg@10", ["rrf", pr.Fusion(k=10)]), pl.LazyFrame)
assert_type(lazy.select(pr.catalog.leave_one_out("time")), pl.LazyFrame)
assert_type(pr.clicks.click_through_rates(eager, prior=(1, 1)), pl.DataFrame)
assert_type(pr.clicks.labels(lazy, "graded", grades={"view": 0, "buy": 2}), pl.LazyFrame)
assert_type(pr.scan_log("log.parquet"), pl.LazyFrame)
assert_type(pr.ndcg(10), pr.Metric)
assert_type(pr.metric("ndcg@10"), pr.Metric)
assert_type(pr.identify(lazy, "ap", "0.5", n=3, query="q", ties="best"), pl.DataFrame)
assert_type(pr.explain("ap", pr.conventions.LIGHTGBM), str)
assert_type(pr.join_judgments(lazy, eager), pl.LazyFrame)
assert_type(pr.join_judgments(eager, lazy), pl.LazyFrame)
assert_type(pr.join_judgments(eager, eager), pl.DataFrame)

assert_type(pr.summarize(lazy), pl.LazyFrame)
assert_type(pr.summarize(eager, pr.ndcg(10), slices="country"), pl.DataFrame)
assert_type(pr.compare(lazy, baseline="bm25", margin="2%"), pl.LazyFrame)
assert_type(pr.compare(Stream(), run="system", baseline="bm25"), pl.DataFrame)
assert_type(pr.compare(eager, run="run", margin=0.01, slices=["country"]), pl.DataFrame)
assert_type(pr.leaderboard(eager), pl.DataFrame)
assert_type(pr.plot.at_k(lazy, "ndcg", baseline="bm25"), alt.LayerChart)
assert_type(pr.plot.differences(eager, baseline="bm25", colors={"b": "red"}), alt.LayerChart)
assert_type(pr.power(eager, baseline="bm25"), pl.DataFrame)
assert_type(pr.diagnostics.movers(lazy, "ndcg@10", baseline="bm25"), pl.LazyFrame)
assert_type(pr.diagnostics.overlap(eager, baseline="bm25"), pl.DataFrame)
assert_type(pr.diagnostics.robustness(eager, "ndcg@10", baseline="bm25"), pl.DataFrame)
assert_type(pr.diagnostics.headroom(lazy, ["ndcg@10"]), pl.LazyFrame)
assert_type(pr.diagnostics.stages(lazy, "rr", order=["a", "b"]), pl.LazyFrame)
assert_type(pr.diagnostics.fidelity(eager, lazy, [1, 10], rel=2), pl.DataFrame)
assert_type(pr.plot.fidelity(eager), alt.LayerChart)
assert_type(pr.diagnostics.answerability(eager, "ap", by="country"), pl.DataFrame)
assert_type(pr.join_spans(lazy, eager, "any", of="gold"), pl.LazyFrame)
assert_type(pr.join_spans(eager, lazy), pl.DataFrame)
assert_type(pr.list_metrics(), pl.DataFrame)

assert_type(pr.evaluate(on_spark, "ndcg@10", by="run"), OnSpark)
assert_type(pr.per_query(on_spark, "ndcg@10"), OnSpark)
assert_type(pr.join_judgments(on_spark, on_spark), OnSpark)

# Options of other functions: a wrong name and a wrong type are errors.
assert_type(pr.rank_curve(lazy, "ndcg", [5], by="run", ties="worst"), pl.LazyFrame)
pr.rank_curve(lazy, "ndcg", [5], group_by="run")  # type: ignore[call-overload]  # pyright: ignore
pr.rank_curve(lazy, "ndcg", [5], ties="random")  # type: ignore[call-overload]  # pyright: ignore
pr.diagnostics.tie_bands(lazy, "rr", weight=1)  # type: ignore[call-overload]  # pyright: ignore
pr.diagnostics.judgment_bounds(lazy, "rr", rel="1")  # type: ignore[call-overload]  # pyright: ignore
pr.diagnostics.headroom(lazy, "rr", byy="run")  # type: ignore[call-overload]  # pyright: ignore
pr.diagnostics.movers(lazy, "rr", baseline="a", weight="w")  # type: ignore[call-overload]  # pyright: ignore
pr.compare(lazy, test="sign")  # type: ignore[call-overload]  # pyright: ignore
pr.explain_difference(lazy, "rr", "a", "b", rel=2)  # type: ignore[call-arg]  # pyright: ignore
pr.plot.at_k(lazy, "ndcg", group_by="run")  # type: ignore[call-arg]  # pyright: ignore

# Metrics of one's own: a term, one value per document, and a value per ranking do not mix.
t = pr.terms


@pr.define_metric(undefined="no document is relevant")
def found(k: int = 10, *, rel: float | None = None) -> t.Value:
    return t.ratio(t.top(t.relevant(rel), k).count(), t.num_relevant(rel))


assert_type(found(5, rel=2), pr.Metric)
assert_type(found.tree(5), t.Value)
assert_type(t.LABEL * 2 + t.gain("exp2"), t.Term)
assert_type(1 - t.top(t.LABEL, t.num_relevant()).sum() / 2, t.Value)
assert_type(t.where(t.relevant(), t.RANK), t.Term)
found("5")  # type: ignore[arg-type]  # pyright: ignore
t.LABEL * t.num_relevant()  # type: ignore[operator]  # pyright: ignore
t.num_relevant() + t.RANK  # type: ignore[operator]  # pyright: ignore
t.ratio(t.LABEL, t.num_relevant())  # type: ignore[arg-type]  # pyright: ignore
t.fold(pl.Expr.sum, t.LABEL)  # type: ignore[arg-type]  # pyright: ignore
t.top(t.num_relevant())  # type: ignore[arg-type]  # pyright: ignore
