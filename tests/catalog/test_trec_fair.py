"""AWRF, compared with values of the code of TREC Fair 2022 from `fixtures/write_trec_fair.py`."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest

PEER = json.loads((Path(__file__).parents[1] / "fixtures" / "trec_fair.json").read_text("utf-8"))
LOG = pl.DataFrame(
    [
        (query, str(doc), rank)
        for query, docs in PEER["rankings"].items()
        for rank, doc in enumerate(docs, 1)
    ],
    ["query", "doc", "position"],
    orient="row",
)


def members(name: str) -> pl.DataFrame:
    """Return the memberships of documents in the groups of a dimension."""
    rows = [
        (doc, group, part)
        for doc, parts in PEER["members"][name].items()
        for group, part in zip(PEER["dimensions"][name], parts, strict=True)
    ]
    return pl.DataFrame(rows, ["doc", name, "membership"], orient="row")


@pytest.mark.parametrize("dimensions", [["age"], ["age", "place"]], ids="-".join)
def test_every_ranking(dimensions: list[str]) -> None:
    """Memberships in groups of several dimensions are products; discounts have 32 bits there."""
    table = members(dimensions[0])
    for name in dimensions[1:]:
        other = members(name).rename({"membership": "other"})
        both = pl.col("membership") * pl.col("other")
        table = table.join(other, on="doc").with_columns(membership=both).drop("other")
    groups = product(*(PEER["dimensions"][name] for name in dimensions))
    key = "-".join(dimensions)
    rows = [(*group, part) for group, part in zip(groups, PEER["targets"][key], strict=True)]
    actual = pr.catalog.awrf(
        LOG, None, doc_groups=table, group=dimensions, position="position",
        target=pl.DataFrame(rows, [*dimensions, "target"], orient="row"),
    )  # fmt: skip
    assert dict(actual.rows()) == pytest.approx(PEER["values"][key], rel=1e-6)
