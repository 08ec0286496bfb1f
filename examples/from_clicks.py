"""Evaluate runs with labels from clicks, without judgments."""

import polars as pl

import polars_rank as pr

# Rankings of 20 rankers, with the positions at which documents were shown, clicks and dwell times.
log = pr.datasets.search_log(300, 10, runs=20, seed=2).collect()
shown = log.drop("label")
two = log.filter(pl.col("run").is_in(["run01", "run20"]))
rankings = two.select("run", "query", "doc", "score").drop_nulls()

# Labels of documents. A click-through rate favors documents that were shown near the top; COEC
# compares the clicks with those that the same positions get on average.
rates = pr.clicks.click_through_rates(shown, grades=5)
corrected = pr.clicks.coec(shown, grades=5)
for labels in (rates, corrected):
    judged = pr.join_judgments(rankings, labels.select("query", "doc", "label"))
    print(pr.evaluate(judged, "ndcg@10"))

# The same with judgments, which this generated log has.
print(pr.evaluate(two, "ndcg@10"))

# Labels of impressions: whether the user stayed, and the documents skipped above a click.
satisfied = pr.clicks.labels(shown, "satisfied", seconds=20)
skipped = pr.clicks.labels(shown, "skip_above", query=["run", "query"])
print(satisfied["label"].mean(), skipped["label"].mean())
