"""Physical plans of the streaming engine: which of their nodes hold rows."""

from __future__ import annotations

import re

import polars as pl

#: Nodes whose memory grows with the number of rows. All others pass rows on in batches, except
#: `multiplexer`, which holds the rows that one of its readers has not read yet.
_HOLDING = {
    *("sort", "window", "group-by", "in-memory-map", "in-memory-join", "multiplexer"),
    *("equi-join", "semi-join", "anti-join", "cross-join"),
}


def holding_nodes(plan: pl.LazyFrame, *few: str) -> set[str]:
    """Return the nodes of a plan that hold rows, except for those that get `few` rows."""
    graph = plan.show_graph(engine="streaming", plan_stage="physical", raw_output=True, show=False)
    nodes = re.findall(r'label="([\w-]+)', str(graph))
    assert nodes
    return _HOLDING & {*nodes} - {*few}
