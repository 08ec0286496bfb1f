"""`summary`, computed by hand and in plain Python."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from strategies import assert_close, log_of, random_lists, shuffled


def tops(log: pl.DataFrame, k: int | None, ties: str) -> list[list[int]]:
    """Return the first k documents of each query, best first; [] for a query without any."""
    rows: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for query, doc, score in log.select("query", "doc", "score").iter_rows():
        rows[query] += [] if score is None else [(score, doc)]
    for pairs in rows.values():
        if ties != "input":
            pairs.sort(key=lambda pair: pair[1], reverse=ties == "doc")
        pairs.sort(key=lambda pair: -pair[0])
    return [[doc for _, doc in pairs][:k] for pairs in rows.values()]


def gini(values: list[float]) -> float | None:
    """Half the mean absolute difference of all pairs, relative to the mean."""
    n, total = len(values), sum(values)
    if not total:
        return None
    return sum(abs(a - b) for a in values for b in values) / (2 * n * total)


def summary_of(
    log: pl.DataFrame, k: int, catalog: set[int] | None, top: float, ties: str = "doc"
) -> dict[str, Any]:
    """Return the summary by its definition, from pairs of documents and of rankings."""
    lists = tops(log, k, ties)
    every = Counter(chain.from_iterable(lists))
    pairs = list(combinations([set(docs) for docs in lists if docs], 2))
    cosines = [len(a & b) / math.sqrt(len(a) * len(b)) for a, b in pairs]
    known = {doc: x for doc, x in every.items() if catalog is None or doc in catalog}
    values = sorted((known.get(doc, 0.0) for doc in catalog or known), reverse=True)
    n, total = len(values), sum(values)
    entropy = -math.fsum(x / total * math.log2(x / total) for x in values if x)
    tail = sum(x for doc, x in known.items() if doc % 3 == 0)
    found = {
        "queries": len(lists),
        "fill_rate": sum(len(docs) >= k for docs in lists) / len(lists),
        "personalization": 1 - math.fsum(cosines) / len(pairs),
        "documents": n,
        "recommended": len(known),
        "coverage": len(known) / n,
        "unknown": len(every) - len(known),
        "gini": gini(values),
        "gini_equality": 1 - gini(values),
        "gini_recommended": gini(list(known.values())),
        "entropy": entropy,
        "normalized_entropy": entropy / math.log2(n),
        "effective_documents": 2**entropy,
        "top_share": sum(values[: math.ceil(top * n)]) / total,
        "long_tail_share": tail / total,
    }
    # Without a catalog, the documents that are never recommended are unknown.
    of_catalog = ("documents", "coverage", "gini", "gini_equality", "normalized_entropy",
                  "top_share", "long_tail_share")  # fmt: skip
    return found if catalog is not None else {**found, **dict.fromkeys(of_catalog)}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_against_plain_python(engine: str) -> None:
    log = log_of(random_lists(seed=3))
    catalog = pl.DataFrame({"doc": range(10, 60)}).with_columns(long_tail=pl.col("doc") % 3 == 0)
    for items, ties in product((None, catalog), ("doc", "doc_ascending", "input")):
        plan = pr.catalog.summary(log.lazy(), 3, items=items, top=0.25, ties=ties)
        actual = plan.collect(engine=engine)
        truth = summary_of(log, 3, None if items is None else {*items["doc"]}, 0.25, ties)
        assert actual.columns == [*truth]
        assert_close(actual, pl.DataFrame([truth]))


def test_runs() -> None:
    log = log_of(random_lists(seed=4)).with_columns(run=pl.col("query") % 2)
    items = pl.DataFrame({"doc": range(40)}, schema={"doc": pl.Int32})
    actual = pr.catalog.summary(shuffled(log), 2, items=items, by="run", discount="log2")
    for run in (0, 1):
        alone = pr.catalog.summary(log.filter(run=run).drop("run"), 2, items=items, discount="log2")
        assert_close(actual.filter(run=run).drop("run"), alone)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_weights_multiply_exposures(engine: str) -> None:
    """Document a has 1 + 3 of 8, b and c have 1 and 3: H = 1/2 + 1/8 * 3 + 3/8 * log2(8/3)."""
    log = pl.LazyFrame({
        "query": [1, 1, 2, 2, 3], "doc": ["a", "b", "a", "c", None], "traffic": [1, 1, 3, 3, 5],
        "score": [2.0, 1.0, 2.0, 1.0, None],
    })  # fmt: skip
    entropy = 1 / 2 + 1 / 8 * 3 + 3 / 8 * math.log2(8 / 3)
    for table in (log, log.set_sorted("query")):
        actual = pr.catalog.summary(table, 2, weight="traffic").collect(engine=engine)
        assert actual["entropy"].item() == pytest.approx(entropy)


def test_discounts_and_positions() -> None:
    """With 1 / rank, documents a and b have exposures of 1 + 1/2 each, with 0 all have none."""
    log = pl.DataFrame({"query": [1, 1, 2, 2], "doc": [*"abba"], "score": [2.0, 1.0] * 2})
    places = log.select("query", "doc", rank=pl.Series([1, 2] * 2))
    for table, options in ((log, {}), (places, {"position": "rank"})):
        found = pr.catalog.summary(table, discount="reciprocal", **options)
        assert found["entropy"].item() == 1
        one = pr.catalog.summary(table.head(2), discount="reciprocal", **options)
        assert one["entropy"].item() == pytest.approx(math.log2(3) - 2 / 3)  # shares 2/3 and 1/3
        none = pr.catalog.summary(table, discount=lambda rank: rank * 0, **options)
        assert none.select("gini_recommended", "entropy").row(0) == (None, None)


def test_sums_of_sorted_logs_need_memory_for_documents_only(tmp_path: Path) -> None:
    log = pr.datasets.search_log(90, runs=["a", "b"], seed=2).collect().sort("run", "query")
    log.write_parquet(tmp_path / "log")
    plan = pr.catalog.summary(pr.scan_log(tmp_path / "log", by="run"), 5)
    with pl.Config(streaming_chunk_size=50):
        assert_frame_equal(plan.collect(engine="streaming"), pr.catalog.summary(shuffled(log), 5))


def test_extremes() -> None:
    def of(*lists: str, **options: Any) -> dict[str, Any]:
        rows = [(i, doc, -float(j)) for i, docs in enumerate(lists) for j, doc in enumerate(docs)]
        log = pl.DataFrame(rows, ["query", "doc", "score"], orient="row")
        return pr.catalog.summary(log, **options).row(0, named=True)

    same = of("ab", "ab", "ab", k=2, items=pl.DataFrame({"doc": ["a", "b"]}))
    assert same["personalization"] == pytest.approx(0, abs=1e-12)
    assert (same["gini"], same["normalized_entropy"]) == (0, 1)
    apart = of("ab", "cd", k=3)
    assert apart["personalization"] == pytest.approx(1, abs=1e-12)
    assert apart["fill_rate"] == 0
    catalog = pl.DataFrame({"doc": [*"abcdefghij"]})
    one = of("a", "a", items=catalog, k=1)
    assert one["gini"] == pytest.approx(0.9)
    assert (one["entropy"], one["effective_documents"], one["top_share"]) == (0, 1, 1)
    alone = of("a", k=None, items=pl.DataFrame({"doc": ["a"]}))
    assert [alone[name] for name in ("fill_rate", "personalization", "normalized_entropy")] == [
        None
    ] * 3
    # The smallest number of documents that is at least the share: 1 of 10 for 0.1.
    whole: dict[str, Any] = {"items": catalog, "k": None}
    assert of("abcdefghij", top=0.1, **whole)["top_share"] == pytest.approx(0.1)
    assert of("abcdefghij", top=0.11, **whole)["top_share"] == pytest.approx(0.2)


def test_rankings_without_documents_count_as_queries() -> None:
    log = pl.DataFrame({"query": [1, 2, 3], "doc": ["a", None, "b"], "score": [1.0, None, None]})
    catalog = pl.DataFrame({"doc": ["a", "b"]})
    actual = pr.catalog.summary(log, 1, items=catalog)
    assert actual.select("queries", "fill_rate", "recommended").row(0) == (3, 1 / 3, 1)
    empty = pr.catalog.summary(log.clear(), 1, items=catalog).row(0, named=True)
    assert [empty[name] for name in ("queries", "documents", "coverage", "gini")] == [0, 2, 0, None]
    runs = log.clear().with_columns(run=1)
    assert pr.catalog.summary(runs, 1, items=catalog, by="run").is_empty()


def test_invalid_items() -> None:
    log = pl.DataFrame({"query": [1], "doc": ["a"], "score": [1.0]})
    rows, schema = pr.errors.DataError, pr.errors.SchemaError
    for items, error, message in (
        ({"doc": ["a", "a"]}, rows, "'doc' .`doc`. of `items` has duplicates"),
        ({"doc": ["a", None]}, rows, "'doc' .`doc`. of `items` has nulls"),
        ({"doc": [1]}, schema, "String in the rankings and Int64 in `items`"),
        ({"doc": ["a"], "long_tail": 1}, schema, "'long_tail' of `items` must be Boolean"),
    ):
        with pytest.raises(error, match=message):
            pr.catalog.summary(log, items=pl.DataFrame(items))


def test_invalid_input() -> None:
    log = pl.DataFrame({"query": [1, 1], "doc": ["a", "b"], "score": [2.0, 1.0]})
    log = log.with_columns(weight=-1, coverage=1)
    rows, arguments = pr.errors.DataError, pr.errors.ArgumentError
    for table, options, error, message in (
        (pl.concat([log, log]), {}, rows, "pr.collapse"),
        (log.with_columns(query=None), {}, rows, "`query`.* has nulls"),
        (log.with_columns(score=float("nan")), {}, rows, "NaN"),
        (log, {"weight": "weight"}, rows, "finite numbers of 0 or more"),
        (log, {"by": "coverage"}, arguments, "name of a result column"),
        (log, {"top": 1}, arguments, "`top` must be"),
        (log, {"k": 0}, arguments, "`k`"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            pr.catalog.summary(table, **options)
