"""Types of the columns that metrics of diversity read, and long rankings."""

from __future__ import annotations

from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from oracles import Doc
from strategies import assert_close, log_of, random_lists, truth

LOG = log_of(random_lists(seed=60))
ILD = pr.intra_list_diversity(4)


def test_types_of_embeddings() -> None:
    doubled = LOG.with_columns(pl.col("embedding").list.eval(pl.element() * 2))
    metrics = [ILD, pr.intra_list_diversity(4, distance="euclidean")]
    expected = pr.per_query(doubled, metrics)
    numbers = (pl.Array(dtype, 3) for dtype in (pl.Float64, pl.Float32, pl.Int16))
    for dtype in (*numbers, pl.List(pl.Float32)):
        cast = doubled.with_columns(pl.col("embedding").cast(dtype))
        assert_close(pr.per_query(cast, metrics), expected)


def test_embeddings_of_any_size() -> None:
    metrics = [pr.intra_list_diversity(), pr.intra_list_diversity(distance="euclidean")]
    for size in (1e-300, 1e-170, 1e155, 1e300):
        # The embeddings of query 2 are of the size 1: each ranking and document has its own unit.
        log = pl.DataFrame({
            "query": [1, 1, 1, 2, 2], "score": [3.0, 2.0, 1.0, 2.0, 1.0],
            "embedding": [[size, 0.0], [0.0, size], [-3 * size, 4 * size], [1.0, 0.0], [4.0, 4.0]],
        })  # fmt: skip
        found = pr.per_query(log, metrics)
        cosine = [(1 + (1 + 3 / 5) + (1 - 4 / 5)) / 3, 1 - 0.5**0.5]
        assert found.to_series(1).to_list() == pytest.approx(cosine, rel=1e-12)
        euclidean = [size * (2**0.5 + (16 + 16) ** 0.5 + (9 + 9) ** 0.5) / 3, 5.0]
        assert found.to_series(2).to_list() == pytest.approx(euclidean, rel=1e-12)


def test_types_of_categories_and_of_the_history() -> None:
    metrics = ["calibration@4", "category_count@4", "category_entropy@4", "max_share@4"]
    expected = pr.per_query(LOG, metrics)
    for category, history in (
        (pl.Categorical, pl.String),
        (pl.String, pl.Enum([*"dcba"])),
        (pl.Enum([*"abcd"]), pl.Enum([*"dcba"])),
        (pl.Categorical(pl.Categories("other")), pl.Categorical),
        *((dtype, dtype) for dtype in (pl.Categorical, pl.Enum([*"abcd"]), pl.Binary)),
    ):
        cast = LOG.with_columns(
            pl.col("category").cast(category), pl.col("history_category").cast(pl.List(history))
        )
        assert_close(pr.per_query(cast, metrics), expected)


def test_categories_that_cannot_match_the_history() -> None:
    log = pl.DataFrame({"query": 1, "score": 1.0, "category": 1, "history_category": [["a"]]})
    message = "`category` has Int32 and `history` has lists of String"
    with pytest.raises(pr.errors.SchemaError, match=message):
        pr.evaluate(log, "calibration")


def test_rankings_of_very_different_lengths() -> None:
    sizes = (200, 1, 2, 3, 40)
    lists = {q: [Doc(i * 3 + q, -float(i), 1) for i in range(size)] for q, size in enumerate(sizes)}
    metrics = [pr.intra_list_diversity(), pr.intra_list_diversity(distance="euclidean")]
    assert_close(pr.per_query(log_of(lists), metrics), truth(metrics, lists))


def test_no_row_has_features() -> None:
    for dtype in (pl.Null, pl.List(pl.Float64), pl.Array(pl.Float64, 2)):
        log = LOG.with_columns(embedding=pl.lit(None, dtype), category=pl.lit(None, pl.String))
        found = pr.per_query(log, [ILD, "max_share", "category_count"])
        assert found.to_series(1).is_null().all() and found["max_share"].is_null().all()
        assert (found["category_count"] == 0).all()


def test_features_that_do_not_fit() -> None:
    numbers, lists = pr.errors.DataError, pr.errors.SchemaError
    for metric, values, error, message in (
        ({}, [1.0, 2.0], lists, "`features`.* must have arrays or lists of numbers; found Float64"),
        ({}, [["a"], ["b"]], lists, r"`features`.* found List\(String\)"),
        ({}, [[1.0], [1.0, 2.0]], numbers, "`features`.* different lengths, from 1 to 2"),
        ({}, [[1.0], [None]], numbers, "has null, NaN or infinite numbers in an embedding"),
        ({}, [[1.0], [float("nan")]], numbers, "has null, NaN or infinite numbers"),
        ({"distance": "jaccard"}, ["a", "b"], lists, "must have lists"),
        ({"distance": "category"}, [["a"], ["b"]], lists, "must have one value"),
    ):
        log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "embedding": values})
        for frame in (log, log.lazy()):
            with pytest.raises(error, match=message):
                pr.evaluate(frame, pr.intra_list_diversity(**metric)).lazy().collect()


#: Rankings without a known document, with one known document of two, and without documents.
PARTLY_KNOWN = pl.DataFrame({
    "query": [1, 1, 2, 2, 3], "doc": [*"abcde"], "score": [2.0, 1.0, 2.0, 1.0, None],
    "label": [1, 0, 1, 0, 1], "share": [None, None, 0.25, None, 0.5],
    "users": [None, None, 4, None, 8], "long_tail": [None, None, True, None, True],
    "interactions": [None, None, 3, None, 4], "seen": [True, None, None, None, False],
    "expected": [None, None, 0.5, None, 0.5],
})  # fmt: skip


#: The divisor "k" is 4, less the number of skipped documents.
UNKNOWN = {
    **{
        f"{name}({users}depth='{depth}', unknown='{unknown}')@4": values
        for name, users, known, largest in (
            ("novelty", "num_users=16, ", 2.0, 4.0),
            ("surprisal", "", 2 / 4, 1.0),
            ("long_tail_share", "", 1.0, 1.0),
        )
        for depth, unknown, values in (
            ("retrieved", "skip", [None, known, None]),
            ("retrieved", "zero", [0, known / 2, None]),
            ("k", "skip", [None, known / 3, None]),
            ("k", "zero", [0, known / 4, None]),
            ("k", "max", [2 * largest / 4, (known + largest) / 4, None]),
        )
    },
    "popularity(unknown='skip')@4": [None, 3, None],
    "popularity(depth='k', unknown='skip')@4": [None, 3 / 3, None],
    "popularity(depth='k')@4": [0, 3 / 4, None],
    "unseen_share(depth='retrieved')@4": [1 / 2, 2 / 2, None],
    "unseen_share(depth='k')@4": [1 / 4, 2 / 4, None],
    "unexpectedness(depth='retrieved')@4": [1, 1 - 0.5 / 2, None],
    "unexpectedness(depth='k')@4": [1, 1 - 0.5 / 4, None],
    "serendipity(depth='retrieved')@4": [1 / 2, 0.5 / 2, None],
    "serendipity(depth='k')@4": [1 / 4, 0.5 / 4, None],
}


def test_unknown_documents_and_empty_rankings() -> None:
    metrics = [pr.metric(name).alias(name) for name in UNKNOWN]
    expected = pl.DataFrame({"query": [1, 2, 3], **UNKNOWN}, strict=False)
    assert_close(pr.per_query(PARTLY_KNOWN, metrics), expected)
    plain = pr.rank(PARTLY_KNOWN).group_by("query").agg(metrics).sort("query")
    assert_close(plain, expected)


def test_parameters_out_of_range() -> None:
    m = pr.metrics
    for build, message in (
        (lambda: pr.intra_list_diversity(distance="dot"), "`distance` must be one of"),
        (lambda: pr.intra_list_diversity(single="0"), "`single` must be a number; found '0'"),
        (lambda: pr.intra_list_diversity(unknown="zero"), "`unknown` must be one of"),
        (lambda: m.calibration(alpha=0), "`alpha` must be a number between 0 and 1"),
        (lambda: m.novelty(unknown="drop"), "`unknown` must be one of"),
        (lambda: m.novelty(unknown="max", num_users=0), "`num_users` must be a positive integer"),
        (lambda: pr.per_query(PARTLY_KNOWN, "MIUF", conventions="rectools"),
         r"`unknown='max'` counts unknown documents.*novelty\(num_users=1000\)"),
        (lambda: m.popularity(unknown="max"), "`unknown` must be one of"),
        (lambda: m.unseen_share(depth="all"), "`depth` must be one of"),
        (lambda: m.category_count(category=3), "`category` must be the name of a column"),
    ):  # fmt: skip
        with pytest.raises(pr.errors.ArgumentError, match=message):
            build()
