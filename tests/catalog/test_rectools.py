"""The catalog, compared with values of RecTools from `python -m tests.recorded rectools_catalog`."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest

PEER = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "rectools_catalog.json").read_text("utf-8")
)
VALUES, K = PEER["values"], PEER["k"]
NAMES = {"query": "user", "doc": "item"}
LOG = pl.DataFrame(PEER["recommended"], ["user", "item", "position"], orient="row")
ITEMS = pl.DataFrame({"item": PEER["catalog"]})
POPULARITY = pr.catalog.popularity(
    pl.DataFrame(PEER["train"], ["user", "item"], orient="row"), **NAMES
)


def test_coverage() -> None:
    actual = pr.catalog.summary(LOG, K, items=ITEMS, position="position", **NAMES)
    recommended, unknown, documents, coverage = actual.select(
        "recommended", "unknown", "documents", "coverage"
    ).row(0)
    # RecTools also counts items that are not in the catalog.
    assert unknown > 0
    assert recommended + unknown == VALUES["coverage count"]
    assert (recommended + unknown) / documents == pytest.approx(VALUES["coverage"])
    known = LOG.filter(pl.col("item").is_in(PEER["catalog"]))
    actual = pr.catalog.summary(known, K, items=ITEMS, position="position", **NAMES)
    assert actual["coverage"].item() == coverage


def test_popularity() -> None:
    top = LOG.filter(pl.col("position") <= K).join(POPULARITY, on="item", how="left")
    users = top.group_by("user").agg(
        pl.col("interactions", "interaction_share").fill_null(0).mean(),
        # An item without interactions counts as if one user had interacted with it.
        miuf=-pl.col("share").fill_null(1 / 20).log(2).mean(),
    )
    means = users.select(pl.exclude("user").mean()).row(0, named=True)
    assert means["interactions"] == pytest.approx(VALUES["popularity"], rel=1e-12)
    assert means["interaction_share"] == pytest.approx(VALUES["popularity share"], rel=1e-12)
    assert len({user for user, _ in PEER["train"]}) == 20
    assert means["miuf"] == pytest.approx(VALUES["miuf"], rel=1e-12)
