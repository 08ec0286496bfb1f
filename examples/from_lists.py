"""Evaluate recommendations in list columns: one row per user, with items shown and bought."""

import polars as pl

import polars_rank as pr

shown = pl.DataFrame(
    {
        "query": ["ann", "bob", "cyd"],
        "shown": [["tea", "jam", "ham"], ["rye", "tea", "jam"], ["ham", "rye", "tea"]],
        "bought": [["jam"], ["rye", "oat"], []],
    }
)

log = pr.from_lists(shown, retrieved="shown", relevant="bought")
print(log)
print(pr.per_query(log, ["rr", "p@3", "recall@3", "ndcg@3"]))
print(pr.evaluate(log, ["rr", "p@3", "recall@3", "ndcg@3"], undefined="skip"))
