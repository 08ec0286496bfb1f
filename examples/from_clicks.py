"""Is the new ranker better? From clicks on the lists of the old one, without a single judgment."""

import polars as pl

import polars_rank as pr

# What was shown where and clicked, in sessions, with the scores of a new ranker beside.
log = pr.datasets.click_log(queries=300, sessions=100, seed=2).collect()
asked = {"query": "session", "score": "new"}
# The sessions of a query are alike. Intervals are for the population of queries that these were
# drawn from; without `cluster`, they would be for other sessions of these same queries.
sampled = {"cluster": "query"}

# The naive answer takes a click as the label: whatever stood on top before looks good.
clicks = log.with_columns(label=pr.clicks.clicked())
print(pr.evaluate(clicks, ["dcg@5"], **asked))

# The same documents were seen at several positions: how likely does a user look at each?
bias = pr.clicks.position_bias(log, "adjacent")
print(bias)

# A click at a place that few look at counts for all who did not.
weighted = log.with_columns(label=pr.clicks.inverse_propensity("click", bias))
new = pr.clicks.estimate(weighted, ["dcg@5"], normalize="ips", **asked, **sampled)
shown = {"query": "session", "position": "position"}
old = pr.clicks.estimate(weighted, ["dcg@5"], normalize="ips", **shown, **sampled)
columns = ["dcg@5", "dcg@5_low", "dcg@5_high", "effective_sample_size"]
print(pl.concat([old, new]).select(pl.Series("ranker", ["old", "new"]), *columns))

# How much of that hangs on a few heavy weights?
clips = [2, 5, 10, None]
print(pr.clicks.propensity_sweep(log, "dcg@5", propensity=bias, clips=clips, **asked, **sampled))

# Here the truth is known.
print(pr.evaluate(log, ["dcg@5"], label="relevance", **asked))
