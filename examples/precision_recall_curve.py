"""Compute a precision-recall curve, and means by cutoff."""

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=1_000)

curve = pr.pr_curve(log, rel=2)
best = curve.filter(pl.col("f1") == pl.col("best_f1"))
print(best.select("run", "threshold", "precision", "recall", "f1", "auc", "no_skill").collect())

print(pr.rank_curve(log, ["ndcg", "recall"], ks=[1, 3, 5, 10, 20]).collect())
