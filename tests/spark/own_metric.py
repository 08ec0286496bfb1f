"""A metric that users define; importing it registers it in the process."""

from __future__ import annotations

from polars_rank.metrics.metric import metric
from polars_rank.metrics.terms import Terms, Value


@metric(high=None, aggregate="sum")
def retrieved_twice(t: Terms) -> Value:
    """Twice the number of retrieved documents."""
    return t.retrieved() * 2
