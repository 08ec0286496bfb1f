"""The catalog: how rankings distribute exposure over its documents.

Experimental: names and results may change in a minor version without a deprecation.
"""

from polars_rank.catalog.item_popularity import popularity
from polars_rank.catalog.sampling import sampled
from polars_rank.catalog.seen_items import exclude_seen, leave_one_out
from polars_rank.catalog.summaries import summary

__all__ = ["exclude_seen", "leave_one_out", "popularity", "sampled", "summary"]


def __dir__() -> list[str]:
    return __all__
