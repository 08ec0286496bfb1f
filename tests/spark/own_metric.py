"""A metric that users define; importing it registers it in the process."""

from __future__ import annotations

import polars_rank as pr
from polars_rank import terms as t


@pr.define_metric(high=None, aggregate="sum", order_matters="never")
def retrieved_twice() -> t.Value:
    """Twice how many documents were retrieved."""
    return t.num_retrieved() * 2
