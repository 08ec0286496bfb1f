"""`explain` and `explain_difference`."""

from __future__ import annotations

import inspect
import re

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.conventions import PRESETS

# The registry of metrics, to test each of them.
from polars_rank.metrics.metric import REGISTER
from strategies import assert_close, every_metric, log_of, random_lists

LOG = log_of(random_lists(seed=30))
METRICS = ["ndcg@5", "ap@3", "rr@10", "rr", "recall@3", "rbp.5"]

PAIRS = [
    (pr.conventions.TREC_EVAL_9, pr.conventions.LIGHTGBM),
    (pr.conventions.LIGHTGBM, pr.conventions.SKLEARN),
    (pr.conventions.IR_MEASURES, pr.conventions.RANX),
    (pr.conventions.CATBOOST, pr.conventions.TORCHMETRICS),
    (pr.conventions.XGBOOST, pr.conventions.TREC_EVAL),
    (pr.conventions.POLARS_RANK, pr.conventions.IR_MEASURES),
]


def test_from_one_mean_to_the_other() -> None:
    # NDCG, which most choices change, between all pairs of presets, and the others between some:
    # RR with and without a cutoff where the cutoff decides about ties.
    cases = [(METRICS[0], *pair) for pair in PAIRS]
    for number, metric in enumerate(METRICS[1:]):
        cases += [(metric, *PAIRS[(number + more) % len(PAIRS)]) for more in (0, 1)]
    for metric, a, b in cases:
        start, end = (pr.evaluate(LOG, metric, conventions=each).item(0, metric) for each in (a, b))
        why = pr.explain_difference(LOG.lazy(), metric, a, b)
        assert why["mean"][-1] == pytest.approx(end, rel=1e-12)
        assert why["mean"][0] - why["change"][0] == pytest.approx(start, rel=1e-12)
        assert why["change"].sum() == pytest.approx(end - start, rel=1e-9)
        assert why["share"].sum() == pytest.approx(1)


def test_what_is_no_difference() -> None:
    why = pr.explain_difference(LOG, "ndcg", "ranx", "ranx")
    assert why.is_empty()
    assert why.columns == ["choice", "a", "b", "mean", "change", "share", "changes"]
    assert "gain" not in pr.explain_difference(LOG, "rr", "ranx", "lightgbm")["choice"]
    # What a metric says itself.
    why = pr.explain_difference(LOG, pr.ndcg(5, gain="exp2"), "polars_rank", "lightgbm")
    assert why["choice"].to_list() == ["ties", "undefined"]
    why = pr.explain_difference(LOG, "ap", "polars_rank", "lightgbm")
    rel = why.row(by_predicate=pl.col("choice") == "rel", named=True)
    assert (rel["a"], rel["b"]) == ("1 or more", "above 0.5")
    with pytest.raises(pr.errors.ArgumentError, match="`metric` must be the name of a metric"):
        pr.explain_difference(LOG, pl.col("score").max(), "ranx", "ranx")


@pytest.mark.filterwarnings("ignore:in each ranking:polars_rank.errors.RankWarning")
def test_ids_compared_as_text_are_a_choice() -> None:
    log = pl.DataFrame({"query": 1, "doc": [9, 10], "score": 1.0, "label": [1, 0]})
    why = pr.explain_difference(log, "rr", "polars_rank", "trec_eval")
    text = why.row(by_predicate=pl.col("choice") == "text_ids", named=True)
    assert (text["a"], text["b"], text["change"]) == ("False", "True", 0.5)
    why = pr.explain_difference(log.cast({"doc": pl.String}), "rr", "polars_rank", "trec_eval")
    assert "text_ids" not in why["choice"]


def test_worst_lists() -> None:
    log = pl.DataFrame({
        "q": ["a", "a", "b", "b", "c"], "score": [2, 1, 2, 1, 1], "label": [1, 2, 1, 3, 0]
    })  # fmt: skip
    exp2, one = pr.Conventions(parameters={"gain": "exp2"}), pr.Conventions(undefined="one")
    why = pr.explain_difference(log, "ndcg", pr.conventions.POLARS_RANK, exp2, query="q", n=1)
    change = {
        each: pr.per_query(log, f"ndcg(gain={each})", query="q") for each in ("linear", "exp2")
    }
    expected = change["exp2"].item(1, 1) - change["linear"].item(1, 1)
    assert why["changes"].to_list() == [[{"q": "b", "change": pytest.approx(expected)}]]
    why = pr.explain_difference(log, "ndcg", pr.conventions.POLARS_RANK, one, query="q")
    assert why["changes"].to_list() == [[{"q": "c", "change": 1.0}]]


def test_queries_that_lose_all_their_documents() -> None:
    """Query 2 retrieves one document, which is not judged: it does not count if it is removed."""
    log = pl.DataFrame({
        "query": [1, 1, 2, 2], "doc": ["a", "b", "c", "d"], "score": [1.0, 2.0, 1.0, None],
        "label": [1, 0, None, 1],
    })  # fmt: skip
    kept = pr.Conventions(query_set="retrieved")
    removed = pr.Conventions(query_set="retrieved", unjudged="removed")
    row = pr.explain_difference(log, "rr", kept, removed).row(0, named=True)
    # The mean of 1/2 and 0, and 1/2.
    assert (row["mean"], row["change"]) == (1 / 2, 1 / 2 - (1 / 2 + 0) / 2)


def test_undefined_lists_that_one_side_leaves_out() -> None:
    log = pl.DataFrame({
        "query": ["a", "a", "b", "b", "c"], "score": [2, 1, 2, 1, 1], "label": [1, 0, 0, 1, 0]
    })  # fmt: skip
    for undefined, mean in (("skip", 3 / 4), ("null", None)):  # of 1 and 1/2
        other = pr.Conventions(undefined=undefined)
        why = pr.explain_difference(log, "rr", "polars_rank", other)
        change = None if mean is None else pytest.approx(mean - 1 / 2)
        assert why.select("choice", "mean", "change").row(0) == ("undefined", mean, change)
        worst = [] if mean is None else [{"query": "c", "change": mean}]
        assert why["changes"].to_list() == [worst]
        back = pr.explain_difference(log, "rr", other, "polars_rank")
        assert back["mean"].to_list() == [pytest.approx(1 / 2)]
    # The defaults of two presets, one of which has a null mean.
    why = pr.explain_difference(log, "roc_auc", "polars_rank", "sklearn")
    assert why["mean"][-1] is None and why["share"].null_count() == why.height


def test_groups_are_parts_of_the_query() -> None:
    log, pair = LOG.with_columns(run=pl.col("query") % 2), ("trec_eval", "lightgbm")
    why = pr.explain_difference(log, "ndcg@5", *pair, by="run")
    assert why["changes"].dtype.inner.fields[0].name == "run"
    whole = pr.explain_difference(LOG, "ndcg@5", *pair)
    assert_close(why.drop("changes"), whole.drop("changes"))


def test_every_metric_has_words() -> None:
    for conventions in PRESETS:
        for metric in every_metric():
            name = metric.function.__name__
            if (conventions.name, name) == ("RecTools", "novelty"):
                continue  # it needs the number of users
            text = pr.explain(metric, conventions)
            assert text.startswith(name) and "<function" not in text and "None" not in text
            assert re.search(r"^- definition: \S.*\S$", text, re.MULTILINE)


WORDS = [
    ("ndcg@10", "trec_eval 9", "gain: the label; 0 for labels below 0"),
    ("ndcg@10", "trec_eval 9", "discount: 1 / log2(rank + 1)"),
    ("ndcg@10", "trec_eval 9", "ideal ranking: of all judged documents, retrieved or not"),
    ("ndcg@10", "trec_eval 9", "scores: compared as 32-bit floats"),
    ("ndcg@10", "trec_eval 9", "queries: with at least one judged and at least one retrieved"),
    ("ndcg@10", "lightgbm", "gain: 2^label - 1"),
    ("ndcg@10", "lightgbm", "tied scores: in the order of the rows"),
    ("RR@10", "ir_measures", "tied scores: by document id, ascending"),
    ("RR", "ir_measures", "tied scores: by document id, descending; ids are compared as text"),
    ("RetrievalMAP", "torchmetrics", "divisor: number of relevant documents among the first k"),
    ("gm_map", "trec_eval", "aggregation: geometric mean over queries"),
    ("iprec_at_recall_0.10", "trec_eval", "recall level: number of hits is recall x R, rounded"),
    ("AP(rel=2)", "lightgbm", "relevant: label of 2 or more"),
    ("Gini@10", "polars_rank", "use: 'gini' of pr.catalog.summary"),
    ("ILS@5", "lenskit", "use: 1 - pr.intra_list_diversity(k, ...)"),
    ("ARP", "polars_rank", "other meanings of the name: in RecTools and Evidently"),
    ("ARP@5", "rectools", "definition: Popularity"),
    ("Novelty@5", "replay", "definition: Unseen share"),
    ("NDCG@5", "rectools", "ideal ranking: k documents with gain 1"),
    ("DCG@5", "lenskit", "undefined where no document is relevant: excluded"),
    ("AveragePrecision@5", "lenskit",
     "divisor: the smallest of k and the numbers of relevant and retrieved documents"),
]  # fmt: skip


def test_words() -> None:
    for metric, conventions, words in WORDS:
        assert f"- {words}" in pr.explain(metric, conventions)
