"""Estimate a new ranker from clicks on the rankings of the old one, without judgments."""

import polars as pl

import polars_rank as pr

# Sessions with positions and clicks, and the scores of a new ranker.
log = pr.datasets.click_log(queries=300, sessions=100, seed=2).collect()
new_ranker = {"query": "session", "score": "new"}
# Sessions of a query are correlated. With `cluster`, intervals are for the population of queries;
# without it, they would be for other sessions of the same queries.
unit = {"cluster": "query"}

# The naive estimate uses clicks as labels, which favors documents that were shown near the top.
clicks = pr.clicks.labels(log, "clicked")
print(pr.evaluate(clicks, ["dcg@5"], **new_ranker))

# Propensities of positions, from documents that were shown at several positions.
bias = pr.clicks.position_bias(log, "adjacent")
print(bias)

# Inverse propensity weights: a click at a low position has a higher weight.
weighted = log.with_columns(label=pr.clicks.inverse_propensity("click", bias))
new = pr.clicks.estimate(weighted, ["dcg@5"], normalize="ips", **new_ranker, **unit)
shown = {"query": "session", "position": "position"}
old = pr.clicks.estimate(weighted, ["dcg@5"], normalize="ips", **shown, **unit)
columns = ["dcg@5", "dcg@5_low", "dcg@5_high", "effective_sample_size"]
print(pl.concat([old, new]).select(pl.Series("ranker", ["old", "new"]), *columns))

# The sensitivity to large weights.
for clip in (2, 5, 10, None):
    label = pr.clicks.inverse_propensity("click", bias, clip=clip)
    row = pr.clicks.estimate(log.with_columns(label=label), "dcg@5", **new_ranker, **unit)
    print(clip, row.select("dcg@5", "effective_sample_size").row(0))

# The true value, known for this generated log.
print(pr.evaluate(log, ["dcg@5"], label="relevance", **new_ranker))
