"""Use the `.ranking` namespace of DataFrame and LazyFrame."""

import polars_rank as pr
from polars_rank.datasets import search_log

df = search_log(queries=500, runs=1).collect()

print(df.ranking.ndcg(10))  # a float
print(df.ranking.average_precision(rel=2))
print(df.ranking.evaluate(["ndcg@10", "ap"], by="country"))
print(df.lazy().ranking.per_query(["ndcg@10", "ap"]).head(3).collect())

# The ranked table, for any other computation.
ranked = df.ranking.rank()
print(ranked.filter(rank=1).select("query", "doc", "score", "label", "ideal_rank").head(3))
print(ranked.group_by("query").agg(pr.ndcg(3), pr.reciprocal_rank()).head(3))
