"""Attributes of documents and of histories, joined by the line that an error gives."""

from __future__ import annotations

import math
import re

import polars as pl
import polars_rank as pr
import pytest
from strategies import assert_close

LOG = pl.DataFrame({
    "user": [1, 1, 2, 2], "item": [*"abax"], "score": [2.0, 1.0, 2.0, 1.0], "label": 1,
})  # fmt: skip
ITEMS = pl.DataFrame({"item": [*"abc"], "share": [0.5, 0.25, 1.0], "genre": [*"xyy"]})
HISTORY = pl.DataFrame({"user": [1, 1, 1, 2], "item": [*"aacc"]})
NAMES = {"query": "user", "doc": "item"}


@pytest.mark.parametrize("lazy", [False, True])
def test_the_error_gives_the_line_that_joins_a_column(lazy: bool) -> None:
    tables = (LOG, ITEMS, HISTORY, HISTORY.tail(1))
    log, items, history, forbidden = (each.lazy() if lazy else each for each in tables)
    named = {"log": log, "items": items, "history": history, "forbidden": forbidden}
    for metric, expected in (
        ("novelty@2", [(1 + 2) / 2, 1]),  # 1 and 2 bits; 1 bit and an unknown document
        ("unseen_share@2", [1 / 2, 1]),
        ("forbidden@2", [0, 0]),  # user 2 has no c
        ("category_count(category='genre')@2", [2, 1]),
    ):
        with pytest.raises(pr.errors.SchemaError, match="not found; available: 'user', ") as error:
            pr.per_query(log, metric, **NAMES)
        line = str(error.value).partition("or join it: ")[2]
        joined = eval(line, named)
        assert joined.lazy().select("user", "item").collect().equals(LOG.select("user", "item"))
        found = pr.per_query(joined, metric, **NAMES).lazy().collect()
        assert found.get_column(found.columns[-1]).to_list() == expected


@pytest.mark.parametrize("listed", [False, True])
def test_the_error_gives_the_line_that_joins_the_categories_of_the_history(listed: bool) -> None:
    # Documents without a category, or in no row of `items`, do not count.
    genres = ITEMS.vstack(
        pl.DataFrame({"item": ["d"], "share": [1.0], "genre": [None]}, ITEMS.schema)
    )
    history = HISTORY.vstack(pl.DataFrame({"user": [1, 1], "item": [*"dz"]}))
    items = genres.with_columns(genre=pl.concat_list("genre")) if listed else genres
    log = LOG.join(items, on="item", how="left", maintain_order="left")
    metric = "calibration(category='genre')@2"
    with pytest.raises(pr.errors.SchemaError, match="'history_category'") as error:
        pr.per_query(log, metric, **NAMES)
    line = str(error.value).partition("or join it: ")[2]
    found = pr.per_query(
        eval(line, {"log": log, "items": items, "history": history}), metric, **NAMES
    )
    own = pl.DataFrame({"user": [1, 2], "history_category": [[*"xxy"], ["y"]]})
    assert_close(found, pr.per_query(log.join(own, on="user"), metric, **NAMES))


def test_the_name_of_a_similar_column_is_given() -> None:
    log = LOG.with_columns(my_share=0.5)
    with pytest.raises(pr.errors.SchemaError, match=re.escape("novelty(share='my_share')")):
        pr.evaluate(log, "novelty", **NAMES)
    with pytest.raises(pr.errors.SchemaError, match="recall.subtopics='...'.@2.$"):
        pr.evaluate(log, "subtopic_recall@2", **NAMES)  # which no line joins


def test_the_number_of_users_is_that_of_the_training_log() -> None:
    """The values equal those of RecTools, also for a ranking without a known document."""
    train = pl.DataFrame({"query": [1, 2, 3, 4], "doc": [*"aaba"]})
    items = pr.catalog.popularity(train)
    log = pl.LazyFrame({"query": [1, 1, 2, 2], "doc": [*"xyax"], "score": [2.0, 1.0] * 2})
    joined = log.join(items.lazy(), on="doc", how="left", maintain_order="left")
    metric = pr.metric("MIUF(num_users=4)@2").alias("miuf")
    found = pr.per_query(joined, metric, conventions="rectools").collect()
    # Three of four users used a; x and y count as documents of one of four: 2 bits.
    known = -math.log2(3 / 4)
    assert found["miuf"].to_list() == pytest.approx([2.0, (known + 2) / 2])


def test_unknown_documents_that_are_an_error() -> None:
    metric = pr.metrics.novelty(2, unknown="error")
    log = pl.DataFrame({"query": [1, 2], "doc": [*"ab"], "score": 1.0, "share": [0.5, None]})
    with pytest.raises(pr.errors.DataError, match=r"'share' \(`share`\) has nulls.*'query': 2"):
        pr.evaluate(log, metric)
    ranked = pr.rank(log.with_columns(label=0))
    found = ranked.group_by("query").agg(metric.alias("novelty")).sort("query")
    assert found["novelty"].to_list() == [1.0, None]
    ild = pr.intra_list_diversity(features="share", distance="category", unknown="error")
    with pytest.raises(pr.errors.DataError, match=r"'share' \(`features`\) has nulls"):
        pr.evaluate(log, ild)
