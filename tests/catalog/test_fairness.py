"""`group_exposure` and `awrf`, computed by hand, in plain Python and with scipy."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
import scipy
from catalog.plain import tops
from strategies import assert_close, log_of, random_lists, shuffled

DRAW = random.Random(7)
#: Documents from 25 on have no group; the others are partly in each.
MEMBERS = {doc: {group: DRAW.random() for group in "abc"} for doc in range(25)}
DOC_GROUPS = pl.DataFrame(
    [(doc, group, part) for doc, parts in MEMBERS.items() for group, part in parts.items()],
    ["doc", "group", "membership"],
    orient="row",
)
TARGET = pl.DataFrame({"group": ["a", "b", "d"], "target": [1.0, 2.0, 1.0]})


def exposure_of(docs: list[int], discount: Any) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for rank, doc in enumerate(docs, 1):
        for group, part in MEMBERS.get(doc, {}).items():
            total[group] += part * discount(rank)
    return total


def fair(target: Any, relevant: list[int]) -> dict[str, float]:
    if isinstance(target, pl.DataFrame):
        return dict(target.rows())
    return exposure_of([*MEMBERS] if target == "items" else relevant, lambda rank: 1.0)


TARGETS = pytest.mark.parametrize("target", ["items", "relevant", TARGET], ids=["i", "r", "t"])
ENGINES = pytest.mark.parametrize("engine", ["in-memory", "streaming"])


@ENGINES
@TARGETS
def test_awrf_against_scipy(engine: str, target: Any) -> None:
    log = log_of(random_lists(seed=8))
    actual = pr.catalog.awrf(log.lazy(), 5, doc_groups=DOC_GROUPS, target=target)
    relevant = defaultdict(list)
    for row in log.filter(pl.col("label") >= 1).to_dicts():
        relevant[row["query"]].append(row["doc"])
    truth = {}
    for query, docs in tops(log, 5).items():
        # TREC's code computes 1 / log2(max(rank, 2)) in 32 bits.
        p = exposure_of(docs, lambda rank: 1 / math.log2(max(rank, 2)))
        t = fair(target, relevant[query])
        groups = sorted({*p, *t})
        p, t = ([values.get(group, 0) for group in groups] for values in (p, t))
        known = sum(p) > 0 and sum(t) > 0
        distance = scipy.spatial.distance.jensenshannon
        truth[query] = 1 - distance(np.array(p), np.array(t)) ** 2 if known else None
    expected = pl.DataFrame({"query": truth.keys(), "awrf": truth.values()}, strict=False)
    assert None in truth.values()
    result = actual.collect(engine=engine)
    assert result["awrf"].is_null().to_list() == expected["awrf"].is_null().to_list()
    assert result["awrf"].drop_nulls().to_list() == pytest.approx(
        expected["awrf"].drop_nulls().to_list(), rel=1e-9
    )
    assert result["awrf"].drop_nulls().is_between(1 - math.log(2), 1).all()


@ENGINES
@TARGETS
def test_group_exposure_against_plain_python(engine: str, target: Any) -> None:
    log = log_of(random_lists(seed=9))
    actual = pr.catalog.group_exposure(log.lazy(), 5, doc_groups=DOC_GROUPS, target=target)
    total: dict[str, float] = defaultdict(float)
    for docs in tops(log, 5).values():
        for group, value in exposure_of(docs, lambda rank: 1 / math.log2(rank + 1)).items():
            total[group] += value
    t = fair(target, log.filter(pl.col("label") >= 1)["doc"].to_list())
    rows = []
    for group in sorted({*total, *t}):
        share, aim = total.get(group, 0) / sum(total.values()), t.get(group, 0) / sum(t.values())
        rows.append((group, total.get(group, 0.0), share, aim, share / aim if aim else None))
    expected = pl.DataFrame(rows, ["group", "exposure", "share", "target", "ratio"], orient="row")
    assert_close(actual.collect(engine=engine), expected)


def test_runs_and_several_attributes() -> None:
    log = log_of(random_lists(seed=10)).with_columns(run=pl.col("query") % 2)
    sizes = pl.DataFrame({"doc": range(30)}).with_columns(size=pl.col("doc") % 2)
    both = DOC_GROUPS.join(sizes, on="doc")
    for function in (pr.catalog.awrf, pr.catalog.group_exposure):
        for target in ("items", "relevant"):
            options = {"doc_groups": both, "group": ["group", "size"], "target": target}
            actual = function(shuffled(log), 4, by="run", **options)
            for run in (0, 1):
                alone = function(log.filter(run=run).drop("run"), 4, **options)
                assert_close(actual.filter(run=run).drop("run"), alone)


def test_extremes() -> None:
    groups = pl.DataFrame({"item": ["x", "y"], "group": [1, 2]})
    log = pl.DataFrame({"query": [1, 2], "item": ["x", "?"], "score": 1.0})
    target = pl.DataFrame({"group": [1, 2], "target": [0, 5]})
    options = {"doc_groups": groups, "target": target, "doc": "item"}
    actual = pr.catalog.awrf(log, **options)
    # All exposure where none should be; and a document without a group.
    assert actual["awrf"].to_list() == [pytest.approx(1 - math.log(2)), None]
    shares = pr.catalog.group_exposure(log, **options)
    assert shares.rows() == [(1, 1.0, 1.0, 0.0, None), (2, 0.0, 0.0, 1.0, 0.0)]
    weighted = log.with_columns(traffic=pl.Series([0, 1]))
    actual = pr.catalog.group_exposure(weighted, weight="traffic", **options)
    assert actual["share"].to_list() == [None, None]


def test_invalid_input() -> None:
    log = pl.DataFrame({"query": 1, "doc": ["x", "y"], "score": 1.0, "label": 1})
    groups = pl.DataFrame({"doc": ["x", "y"], "group": [1, 2]})
    for function in (pr.catalog.awrf, pr.catalog.group_exposure):
        with pytest.raises(pr.errors.DataError, match="'membership' of `doc_groups`"):
            function(log, doc_groups=groups.with_columns(membership=-1))
        with pytest.raises(pr.errors.DataError, match="of `doc_groups` must not be null"):
            function(log, doc_groups=groups.with_columns(group=pl.lit(None, pl.Int64)))
        with pytest.raises(pr.errors.SchemaError, match="Int32 in `doc_groups`"):
            function(log, doc_groups=groups.with_columns(doc=1))
        with pytest.raises(pr.errors.SchemaError, match="'g' .`group`. not found; available in"):
            function(log, doc_groups=groups, group="g")
        with pytest.raises(pr.errors.ArgumentError, match="`target` must be one of"):
            function(log, doc_groups=groups, target="uniform")
        with pytest.raises(pr.errors.SchemaError, match="String in `target`"):
            function(log, doc_groups=groups, target=pl.DataFrame({"group": ["1"], "target": [1]}))
        with pytest.raises(pr.errors.DataError, match="'target' of `target` must have finite"):
            function(log, doc_groups=groups, target=pl.DataFrame({"group": [1], "target": [-1]}))
        with pytest.raises(pr.errors.SchemaError, match="'grade' .`label`. not found"):
            function(log, doc_groups=groups, target="relevant", label="grade")
