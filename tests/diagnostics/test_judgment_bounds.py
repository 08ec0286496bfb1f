"""`judgment_bounds` against `evaluate` with all labels that unjudged documents can have."""

from __future__ import annotations

import itertools
import random
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

# The number of rows from which plans differ.
from polars_rank.frames.tables import FEW_ROWS
from strategies import every_metric, log_of, random_lists

RUNS = ("x", "y", "z")
SCHEMA = {
    "run": pl.String, "query": pl.Int64, "doc": pl.String, "score": pl.Float64,
    "label": pl.Float64, "weight": pl.Float64,
}  # fmt: skip


def small_log(seed: int) -> pl.DataFrame:
    """Two queries of three runs with ties, graded labels, and up to three unjudged documents."""
    draw, rows = random.Random(seed), []
    for query in range(2):
        labels: dict[str, float | None] = {doc: draw.choice((0, 0, 1, 2, 3)) for doc in "abcdefg"}
        labels |= dict.fromkeys(draw.sample("abcdefg", draw.randint(1, 3)))
        for run in RUNS:
            scores = {doc: draw.choice((1.0, 2.0, 3.0)) for doc in draw.sample("abcdefg", 5)}
            rows += [
                (run, query, doc, scores.get(doc), label, 1.0 + query)
                for doc, label in labels.items()
                if doc in scores or label is not None
            ]
    return pl.DataFrame(rows, SCHEMA, orient="row")


def log_of_queries_that_may_not_count() -> pl.DataFrame:
    """Whether queries 0 to 3 count, or are defined, depends on the labels of open documents.

    With these, means are higher or lower: the ranks of the open documents differ.
    """
    queries: list[dict[str, float | None]] = [
        {"a": None}, {"x": 0, "a": None}, {"x": 0, "y": 0, "a": None, "b": None},
        {"a": None, "b": None}, {"a": 1, "x": 0, "y": 2, "b": None},
    ]  # fmt: skip
    rows = [
        (run, query, doc, 1.0 - place if order > 0 else 1.0 + place, label, 1.0 + query)
        for run, order in (("x", 1), ("y", -1), ("z", 1))
        for query, labels in enumerate(queries)
        for place, (doc, label) in enumerate(labels.items())
        if label is not None or run != "z" or query != 3
    ]
    return pl.DataFrame(rows, SCHEMA, orient="row")


def with_all_labels(log: pl.DataFrame, grade: float) -> pl.DataFrame:
    """The log with each set of its unjudged documents judged as relevant, in all runs."""
    unjudged = log.filter(pl.col("label").is_null()).select("query", "doc")
    unjudged = unjudged.unique(maintain_order=True)
    rankings = log.select("run", "query", "weight").unique(maintain_order=True)
    labelings = []
    for labeling, relevant in enumerate(itertools.product((False, True), repeat=unjudged.height)):
        judgments = rankings.join(unjudged.filter(pl.Series(relevant)), on="query")
        rows = log.join(
            judgments.with_columns(grade=grade), on=["run", "query", "doc"], how="full",
            coalesce=True, maintain_order="left_right",
        )  # fmt: skip
        label, weight = pl.coalesce("label", "grade"), pl.coalesce("weight", "weight_right")
        labelings.append(rows.select("run", "query", "doc", "score", label, weight, n=labeling))
    return pl.concat(labelings)


def bounded() -> list[pr.Metric]:
    """All metrics that have bounds, with cutoffs and other parameters."""
    forms = [
        *("ndcg(gain='exp2')@3", "ndcg(discount='jarvelin')", "ndcg(ideal='retrieved')@3"),
        *("ndcg(depth='retrieved')@4", "ap(norm='min')@3", "p(depth='retrieved')@3", "p@9"),
        *("p(short='null')@5", "rbp(graded=True)", "err(max_grade=3)", "fbeta(beta=2)@2"),
    ]
    metrics = [*every_metric(2), *map(pr.metric, forms)]
    return [metric for metric in metrics if has_bounds(metric)]


def has_bounds(metric: pr.Metric) -> bool:
    try:
        pr.diagnostics.judgment_bounds(small_log(0).lazy(), metric)
    except pr.errors.ArgumentError as error:
        assert "has no known bounds" in str(error)
        return False
    return True


METRICS = bounded()


def test_metrics_with_bounds() -> None:
    names = {metric.function.__name__ for metric in METRICS}
    assert len(names) >= 25
    assert names > {
        *("ndcg", "recall", "precision", "average_precision", "f1", "reciprocal_rank"),
        *("dcg", "rbp", "err", "roc_auc", "average_relevance_position"),
    }


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
@pytest.mark.parametrize(
    ("log", "options"),
    [
        (small_log(0), {}),
        (small_log(1), {"ties": "worst", "undefined": "null"}),
        (small_log(0), {"ties": "best", "query_set": "judged", "undefined": "skip"}),
        (small_log(1), {"ties": "input", "undefined": "one", "rel": 2, "weight": "weight"}),
        (small_log(0), {"ties": "expected"}),
        (small_log(1), {"grade": 2, "weight": "weight", "undefined": "skip"}),
        (small_log(0), {"grade": 1.5, "ties": "doc_ascending", "conventions": "trec_eval"}),
        (log_of_queries_that_may_not_count(), {"undefined": "skip", "weight": "weight"}),
        # A metric is undefined for queries that do not count only.
        (log_of_queries_that_may_not_count().filter(~pl.col("query").is_in([1, 2])),
         {"undefined": "null", "query_set": "judged"}),
        (log_of_queries_that_may_not_count(), {"query_set": "judged"}),
        (log_of_queries_that_may_not_count(), {"query_set": "both", "undefined": "skip", "rel": 2}),
    ],
    ids=lambda each: f"{len(each)} rows" if isinstance(each, pl.DataFrame) else str(each),
)  # fmt: skip
def test_bounds_are_the_extremes_over_all_labels(
    log: pl.DataFrame, options: dict[str, Any]
) -> None:
    grade = options.get("grade")
    others = {name: value for name, value in options.items() if name != "grade"}
    expected = options.get("ties") == "expected"
    metrics = [each for each in METRICS if not expected or each.definition.expected]
    by_grade: dict[float, list[pr.Metric]] = {}
    for metric in metrics:
        lowest = metric.arguments.get("rel", options.get("rel", 1))
        by_grade.setdefault(lowest if grade is None else grade, []).append(metric)
    bounds = pr.diagnostics.judgment_bounds(log, metrics, by="run", **options)
    wrong = []
    for label, alike in by_grade.items():
        every = with_all_labels(log, label)
        means = pr.evaluate(every, alike, by=["run", "n"], **others)
        means = means.select("run", *(each.output_name for each in alike))
        ends = means.group_by("run", maintain_order=True)
        low, high = ends.agg(pl.all().min()), ends.agg(pl.all().max())
        nulls = ends.agg(pl.all().null_count())
        for metric, run in itertools.product(alike, RUNS):
            name = metric.output_name
            found = bounds.filter(run=run, metric=name).select("low", "high").row(0)
            right = low.filter(run=run)[name].item(), high.filter(run=run)[name].item()
            if options.get("undefined") == "null" and nulls.filter(run=run)[name].item():
                right = (None, None)
            if found != pytest.approx(right, abs=1e-12):
                wrong.append((run, name, found, right))
    assert wrong == []


@pytest.mark.filterwarnings("ignore:in each ranking, all documents have the same score")
def test_documents_that_only_another_run_retrieved() -> None:
    # b misses the relevant document in half of the queries, where it has five unjudged documents.
    a = {query: {"relevant": 1.0} for query in range(40)}
    b = {query: a[query] if query % 2 else dict.fromkeys("uvwxy", 1.0) for query in a}
    log = pr.from_dicts({"a": a, "b": b}, {query: {"relevant": 1} for query in a})
    bounds = pr.diagnostics.judgment_bounds(log, "recall@5", by="run").select("run", "low", "high")
    # a has 1 of 1 + 5 relevant documents in these queries, b 5 of 1 + 5.
    assert bounds.rows() == [
        ("a", pytest.approx((20 + 20 / 6) / 40), 1),
        ("b", 20 / 40, pytest.approx((20 + 20 * 5 / 6) / 40)),
    ]
    # Without ids, these are other documents in each ranking: a has 1 of 1 + 1 in other queries.
    unnamed = pr.diagnostics.judgment_bounds(log.drop("doc"), "recall@5", by="run")
    assert unnamed["low"].to_list() == [pytest.approx((20 + 20 / 6) / 40), 20 / 40]
    # One group per query and run, of the same documents.
    groups = log.with_columns(country=pl.lit("JP"))
    both = pr.diagnostics.judgment_bounds(groups, "recall@5", by=["country", "run"])
    assert both.select("run", "low", "high").equals(bounds)


def test_documents_below_the_cutoff() -> None:
    log = pl.DataFrame({"query": 1, "score": [3, 2, 1], "label": [1, None, None]})
    bounds = pr.diagnostics.judgment_bounds(log, ["recall@1", "ndcg@1", "p@1", "ap@2"])
    assert bounds["low"].to_list() == pytest.approx([1 / 3, 1, 1, 1 / 2])
    assert bounds["high"].to_list() == [1, 1, 1, 1]


def test_many_unjudged_documents_are_evaluated_in_parts() -> None:
    depth, queries = 200, 20
    log = pl.DataFrame({"query": range(queries)}).join(
        pl.DataFrame({"score": range(depth, 0, -1), "label": [1] + [None] * (depth - 1)}),
        how="cross",
    )
    bounds = pr.diagnostics.judgment_bounds(log, ["ap", "p"])
    # The relevant document comes first. If the last m documents of 199 are relevant, they have the
    # ranks 201 - m to 200.
    lowest = min(
        (1 + sum((1 + i) / (depth - m + i) for i in range(1, m + 1))) / (1 + m)
        for m in range(depth)
    )
    assert bounds["low"].to_list() == pytest.approx([lowest, 1 / depth])
    assert bounds["high"].to_list() == [1, 1]


UNBOUNDED = [
    *((name, rf"{name} .*has no known bounds") for name in ("bpref", "fall_out@2", "rprec")),
    ("ap(norm='hits')", "no known bounds .* with `norm='hits'`"),
    (pr.ndcg(discount=lambda rank: rank), "with a discount that .*increases with the rank"),
    (pr.cg(gain=lambda label: label.fill_null(1)), "not 0 for documents without a label"),
    (pr.precision(1) - pr.precision(2), "has no known bounds"),
    (pl.col("label").sum().alias("total"), "total .*has no known bounds"),
]


def test_metrics_without_bounds() -> None:
    log = log_of(random_lists(3))
    for given, (metric, message) in itertools.product((log, log.lazy()), UNBOUNDED):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.diagnostics.judgment_bounds(given, metric)


def test_negative_gains() -> None:
    ranking = pl.DataFrame({"score": [2.0, 1.0], "label": [None, -1]})
    log = pl.DataFrame({"query": range(FEW_ROWS)}).join(ranking, how="cross")
    for table in (log, log.head(2).lazy()):
        with pytest.raises(pr.errors.DataError, match="with a negative gain, for which NDCG"):
            pr.diagnostics.judgment_bounds(table, "ndcg").lazy().collect()
    gain = pr.ndcg(gain=pr.gains.at_least(0))
    assert pr.diagnostics.judgment_bounds(log.head(2), gain).select("low", "high").row(0) == (0, 1)


def test_conventions_without_bounds() -> None:
    bounds = pr.diagnostics.judgment_bounds
    for name in ("trec_eval", "sklearn", "ranx", "lightgbm"):
        assert bounds(small_log(0), "ndcg@2", by="run", conventions=name).height == 3
    own = pr.Conventions(name="own", exceptions={"precision": {"unjudged": "removed"}})
    assert bounds(small_log(0), "p@1", by="run", conventions=own)["high"].max() == 1
    for options, message in (
        ({"label": ["label"]}, "`label` must be a single column"),
        ({"grade": -1}, "`grade` must be 0 or more; found -1"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            bounds(small_log(0), "p@1", by="run", **options)
