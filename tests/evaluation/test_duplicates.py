"""Documents that occur more than once in a ranking, compared with plain Python."""

from __future__ import annotations

import math
import random
from itertools import permutations, product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import Doc
from polars_rank.evaluation.parameters import Evaluation
from strategies import assert_close, every_metric, more_examples
from strategies import log_of as log_with_attributes

MODES = ["credit_once", "credit_each", "distinct"]
METRICS = [
    *("p@1", "p@3", "precision(depth='retrieved')@3", "recall", "recall@2", "ap", "ap@3", "rr"),
    *("ndcg", "ndcg@3", "ndcg(gain='exp2')@2", "dcg@2", "ideal_dcg", "hit_rate@2", "r_precision"),
    *("rbp", "err@3", "num_rel", "num_rel_ret", "num_ret", "judged@3", "ap(rel=2)", "f1@3"),
]
pytestmark = pytest.mark.filterwarnings("ignore:column 'doc' .*each copy is credited")


class Row(NamedTuple):
    """A row of a log."""

    doc: str
    score: float | None
    label: int | None


def values(ranked: list[int | None], ideal: list[int]) -> dict[str, float | None]:
    """Return the metrics of the labels at the ranks, and the labels of the judgments."""
    ideal = sorted(ideal, reverse=True)

    def dcg(labels: list[Any], k: int | None, gain: Any = float) -> float:
        return sum(gain(label or 0) / math.log2(i + 2) for i, label in enumerate(labels[:k]))

    def ndcg(k: int | None, gain: Any = float) -> float | None:
        best = dcg(ideal, k, gain)
        return dcg(ranked, k, gain) / best if best else None

    def hits(k: int | None, rel: int = 1) -> int:
        return sum((label or 0) >= rel for label in ranked[:k])

    def ap(k: int | None, rel: int = 1) -> float | None:
        relevant = sum(label >= rel for label in ideal)
        precisions = [
            hits(i + 1, rel) / (i + 1) for i, x in enumerate(ranked[:k]) if (x or 0) >= rel
        ]
        return sum(precisions) / relevant if relevant else None

    relevant = sum(label >= 1 for label in ideal)
    places = [i + 1 for i, label in enumerate(ranked) if (label or 0) >= 1]
    stop, arrived, highest = 0.0, 1.0, max(ideal, default=0)
    for i, label in enumerate(ranked[:3]):
        likely = (2 ** (label or 0) - 1) / 2**highest
        stop, arrived = stop + arrived * likely / (i + 1), arrived * (1 - likely)

    def known(value: float) -> float | None:
        return value if relevant else None

    return {
        "p@1": hits(1),
        "p@3": hits(3) / 3,
        "precision(depth='retrieved')@3": hits(3) / min(3, len(ranked)) if ranked else None,
        "recall": known(hits(None) / max(relevant, 1)),
        "recall@2": known(hits(2) / max(relevant, 1)),
        "ap": ap(None),
        "ap@3": ap(3),
        "rr": known(1 / places[0] if places else 0.0),
        "ndcg": ndcg(None),
        "ndcg@3": ndcg(3),
        "ndcg(gain='exp2')@2": ndcg(2, lambda label: 2**label - 1),
        "dcg@2": dcg(ranked, 2),
        "ideal_dcg": dcg(ideal, None),
        "hit_rate@2": known(float(hits(2) > 0)),
        "r_precision": hits(relevant) / relevant if relevant else None,
        "rbp": sum(0.2 * 0.8 ** (place - 1) for place in places),
        "err@3": stop,
        "num_rel": relevant,
        "num_rel_ret": len(places),
        "num_ret": len(ranked),
        "judged@3": sum(x is not None for x in ranked[:3]) / 3,
        "ap(rel=2)": ap(None, 2),
        "f1@3": known(2 * hits(3) / (3 + relevant)),
    }


def by_rule(rows: list[Row], duplicates: str) -> tuple[list[int | None], list[int]]:
    """Return the labels at the ranks and those of the judgments, for rows in rank order."""
    known: set[str] = set()
    first = [not (row.doc in known or known.add(row.doc)) for row in rows]  # type: ignore[func-returns-value]
    labels = [row.label for row in rows]
    once = [label if is_first else None for label, is_first in zip(labels, first, strict=True)]
    ranked = once if duplicates == "credit_once" else labels
    judged = labels if duplicates == "distinct" else once
    retrieved = [row.score is not None for row in rows]
    return (
        [label for label, kept in zip(ranked, retrieved, strict=True) if kept],
        [label for label in judged if label is not None],
    )


def in_order(rows: list[Row], ties: str) -> list[Row]:
    """Return rows by score, then by the rule for ties; copies keep their order."""
    if ties in ("doc", "doc_ascending"):
        rows = sorted(rows, key=lambda row: row.doc, reverse=ties == "doc")
        # A reverse sort keeps the order of equal rows.
    return sorted(rows, key=lambda row: -math.inf if row.score is None else row.score, reverse=True)


@st.composite
def rankings(draw: st.DrawFn, *, scores: int = 4, most: int = 7) -> list[list[Row]]:
    """Draw rankings with copies, whose labels may differ, and with documents not retrieved."""
    row = st.builds(
        Row,
        doc=st.sampled_from("abcd"),
        score=st.one_of(st.none(), st.integers(1, scores).map(float)),
        label=st.one_of(st.none(), st.integers(0, 3)),
    )
    return draw(st.lists(st.lists(row, min_size=1, max_size=most), min_size=1, max_size=4))


def log_of(lists: list[list[Row]]) -> pl.DataFrame:
    rows = [(query, *row) for query, ranking in enumerate(lists) for row in ranking]
    schema = {"query": pl.Int64, "doc": pl.String, "score": pl.Float64, "label": pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def expected_of(lists: list[list[Row]], duplicates: str) -> pl.DataFrame:
    """Return the per-query table of rankings in rank order."""
    tables = [values(*by_rule(rows, duplicates)) for rows in lists]
    table = pl.DataFrame(tables, dict.fromkeys(METRICS, pl.Float64))
    return table.select(pl.int_range(pl.len()).alias("query"), pl.all())


@pytest.mark.parametrize("duplicates", MODES)
@more_examples
@given(
    lists=rankings(),
    ties=st.sampled_from(["doc", "doc_ascending", "input"]),
    engine=st.sampled_from(["in-memory", "streaming"]),
    removed=st.booleans(),
)
def test_metrics(
    lists: list[list[Row]], duplicates: str, ties: str, engine: str, removed: bool
) -> None:
    options: dict[str, Any] = {"ties": ties, "duplicates": duplicates}
    options |= {"unjudged": "removed"} if removed else {}
    if removed or duplicates != "distinct":  # all copies of a document have the same label
        labels = {"a": None, "b": 0, "c": 1, "d": 2}
        lists = [[row._replace(label=labels[row.doc]) for row in rows] for rows in lists]
    log = log_of(lists)
    if removed:
        lists = [[row for row in rows if row.label is not None] for rows in lists]
    expected = expected_of([in_order(rows, ties) for rows in lists], duplicates)
    actual = pr.per_query(log.lazy(), METRICS, **options).collect(engine=engine)
    assert_close(actual, expected)
    if duplicates != "credit_each":
        ranked = pr.rank(log, **options).group_by("query").agg(map(pr.metric, METRICS))
        assert_close(ranked.sort("query"), expected)


@pytest.mark.parametrize("duplicates", MODES)
@more_examples
@given(lists=rankings(scores=2, most=5))
def test_bounds_and_mean_over_orders_of_ties(lists: list[list[Row]], duplicates: str) -> None:
    metrics = ["dcg", "dcg(gain='exp2')"]
    # The label of a document is the same in all its rows.
    lists = [[row._replace(label=ord(row.doc) % 4) for row in rows] for rows in lists]
    log = log_of(lists)
    every: list[list[list[float]]] = []
    for rows in lists:
        blocks = [[row for row in rows if row.score == score] for score in (2.0, 1.0, None)]
        orders = [sum(blocks, []) for blocks in product(*map(permutations, map(tuple, blocks)))
                  for blocks in [[list(block) for block in blocks]]]  # fmt: skip
        ranked = [by_rule(order, duplicates)[0] for order in orders]
        every.append([
            [sum(gain(x or 0) / math.log2(i + 2) for i, x in enumerate(labels)) for labels in ranked]
            for gain in (float, lambda label: 2**label - 1)
        ])  # fmt: skip
    scored = [[(row.doc, row.score) for row in rows if row.score is not None] for rows in lists]
    closed = duplicates != "credit_once" or all(len({*pairs}) == len(pairs) for pairs in scored)
    for ties, bound in (("worst", min), ("best", max)):
        table = pr.per_query(log, metrics, duplicates=duplicates, ties=ties)
        expected = [tuple(map(bound, each)) for each in every]
        # A copy without gain can push others down: the worst order depends on the discount.
        if closed or ties == "best":
            assert [*table.select(metrics).iter_rows()] == [pytest.approx(row) for row in expected]
        if duplicates != "credit_each":
            ranked = pr.rank(log, duplicates=duplicates, ties=ties)
            own = ranked.group_by("query").agg(map(pr.metric, metrics)).sort("query")
            assert_close(own, table)
    if closed:
        table = pr.per_query(log, metrics, duplicates=duplicates, ties="expected")
        means = [tuple(sum(each) / len(each) for each in of_query) for of_query in every]
        assert [*table.select(metrics).iter_rows()] == [pytest.approx(row) for row in means]


@pytest.mark.parametrize("metric", ["ap", "rr", "err@3", "hit_rate@2", "r_precision", "recall@2"])
@pytest.mark.parametrize("duplicates", MODES)
def test_mean_over_orders_of_other_metrics(duplicates: str, metric: str) -> None:
    # Two blocks of tied documents; the copies of "a" and "b" are in different blocks.
    first = [Row("a", 2.0, 1), Row("c", 2.0, 0), Row("d", 2.0, 2)]
    second = [Row("a", 1.0, 1), Row("b", 1.0, 3), Row("e", 1.0, 1)]
    third = [Row("b", None, 3), Row("f", None, 1)]
    all_values = [
        values(*by_rule([*above, *below, *third], duplicates))[metric]
        for above, below in product(permutations(first), permutations(second))
    ]
    log = log_of([[*first, *second, *third]])
    actual = pr.per_query(log, metric, duplicates=duplicates, ties="expected")
    assert actual[metric].item() == pytest.approx(sum(all_values) / len(all_values))


def random_log(seed: int, queries: int = 60) -> tuple[pl.DataFrame, list[list[Row]]]:
    """Return a log with copies, and its rankings in rank order."""
    draw = random.Random(seed)
    lists = []
    for _ in range(queries):
        scores = draw.sample(range(20), draw.randint(1, 8))
        labels = {doc: draw.choice([None, 0, 0, 1, 2]) for doc in "abcdef"}
        docs = [draw.choice("abcdef") for _ in scores]
        lists.append([Row(doc, float(s), labels[doc]) for doc, s in zip(docs, scores, strict=True)])
    return log_of(lists), [in_order(rows, "input") for rows in lists]


@pytest.mark.parametrize("duplicates", MODES)
def test_layouts(tmp_path: Path, duplicates: str) -> None:
    log, lists = random_log(1)
    expected = expected_of(lists, duplicates)
    log.write_parquet(tmp_path / "log.parquet")
    scanned = pr.scan_log(tmp_path / "log.parquet")
    log.sample(fraction=1, shuffle=True, seed=0).write_parquet(tmp_path / "shuffled.parquet")
    shuffled = pr.scan_log(tmp_path / "shuffled.parquet")
    for frame in (log, scanned, shuffled):
        for ties in (None, "input", "worst"):  # no scores are tied
            found = pr.per_query(frame, METRICS, duplicates=duplicates, ties=ties).lazy().collect()
            assert_close(found.sort("query"), expected)
    means = pr.evaluate(log, METRICS, duplicates=duplicates)
    assert means["ap"].item() == pytest.approx(expected["ap"].fill_null(0).mean())
    several = pr.evaluate(log.with_columns(other=-pl.col("score")), METRICS,
                          score=["score", "other"], duplicates=duplicates)  # fmt: skip
    assert_close(several.filter(run="score").drop("run"), means)
    curve = pr.rank_curve(log, "ndcg", [2, 3], duplicates=duplicates)
    assert curve["ndcg"].to_list()[1] == pytest.approx(means["ndcg@3"].item())


@pytest.mark.parametrize("duplicates", MODES)
def test_attributes_and_seen_documents(duplicates: str) -> None:
    log, lists = random_log(2)
    items = pl.DataFrame({"doc": [*"abcdef"], "price": range(6)})
    assert_close(
        pr.per_query(log, METRICS, duplicates=duplicates, items=items),
        expected_of(lists, duplicates),
    )
    cheap = (pl.col("price") < 2).sum().alias("cheap")
    own = [cheap, pl.len().alias("rows"), pl.col("label").count().alias("labels")]
    found = pr.per_query(log, own, duplicates=duplicates, items=items)
    rows = log.group_by("query", maintain_order=True)
    assert (
        found["cheap"].to_list() == rows.agg(pl.col("doc").is_in(["a", "b"]).sum())["doc"].to_list()
    )
    assert found["rows"].to_list() == rows.len()["len"].to_list()
    history = pl.DataFrame({"query": range(60), "doc": "a"})
    unseen = [[row for row in ranking if row.doc != "a"] for ranking in lists]
    left = pr.catalog.exclude_seen(log, history)
    found = pr.per_query(left, METRICS, duplicates=duplicates)
    assert_close(found, expected_of(unseen, duplicates))


def without_copies(log: pl.DataFrame, duplicates: str, ties: str) -> pl.DataFrame:
    """Return an equal log without copies: they are dropped, or have ids and labels of their own."""
    best_first = pl.struct(-pl.col("score").fill_null(-9), pl.int_range(pl.len()))
    order = best_first if duplicates != "first" else pl.int_range(pl.len())
    copy = order.rank("ordinal").over("query", "doc").cast(pl.Int64) - 1
    if duplicates in ("max", "first"):
        return log.filter(copy == 0)
    # Of copies with equal scores, the first row ranks first.
    own = pl.col("label") if duplicates == "distinct" else pl.when(copy == 0).then("label")
    new_id = 100 * pl.col("doc") + (copy if ties == "doc_ascending" else 50 - copy)
    return log.with_columns(own, new_id.alias("doc"))


@pytest.mark.parametrize(
    ("duplicates", "ties"),
    [
        *(("max", "worst"), ("max", "input"), ("first", "doc"), ("distinct", "doc_ascending")),
        *(("distinct", "worst"), ("credit_once", "doc"), ("credit_once", "input")),
    ],
)
def test_every_metric(duplicates: str, ties: str) -> None:
    draw, lists = random.Random(5), {}
    for query in range(30):
        labels = [draw.choice([None, 0, 0, 1, 2, 3]) for _ in range(7)]
        docs = [draw.randrange(7) for _ in range(draw.randint(1, 9))]
        scores = [draw.choice([None, 0.0, 0.5, 1.0, 1.0]) for _ in docs]
        lists[query] = [Doc(d, s, labels[d]) for d, s in zip(docs, scores, strict=True)]
    log, metrics = log_with_attributes(lists), every_metric(3)
    expected = pr.per_query(without_copies(log, duplicates, ties), metrics, ties=ties)
    assert_close(pr.per_query(log, metrics, duplicates=duplicates, ties=ties), expected)


@pytest.mark.parametrize("ties", ["doc", "input", "best", "worst"])
def test_ideal_ranking_as_long_as_the_ranking_has_distinct_copies_down_to_k(ties: str) -> None:
    def dcg(labels: list[int | None]) -> float:
        return sum((label or 0) / math.log2(i + 2) for i, label in enumerate(labels))

    def ideal_dcg(rows: list[Row], k: int, judged_copies: int) -> float:
        """Return the DCG of the best k documents, with the copies down to a rank."""
        docs = [row.doc for row in rows]
        labels = [
            row.label or 0
            for i, row in enumerate(rows)
            if i < judged_copies or row.doc not in docs[:i]
        ]
        return dcg(sorted(labels, reverse=True)[:k])

    log, lists = random_log(3)  # no scores are tied
    cut, whole = "ndcg(depth='retrieved')@3", "ndcg@3"
    metrics = [cut, "ideal_dcg(depth='retrieved')@2", whole]
    options: dict[str, Any] = {"duplicates": "distinct", "ties": ties}
    actual = pr.per_query(log.lazy(), metrics, **options).collect(engine="streaming")
    for rows, values in zip(lists, actual.iter_rows(named=True), strict=True):
        value = dcg([row.label for row in rows[:3]])
        for metric, judged_copies in ((cut, 3), (whole, len(rows))):
            best = ideal_dcg(rows, 3, judged_copies)
            assert values[metric] == (pytest.approx(value / best) if best else None)
        assert values[metrics[1]] == pytest.approx(ideal_dcg(rows, 2, 2))
    with pytest.raises(pr.errors.ArgumentError, match="`depth='retrieved'`.*the metric itself"):
        pr.evaluate(log, pr.metric(cut) + pr.ndcg(5), **options)
    expected = {"duplicates": "distinct", "ties": "expected"}
    with pytest.raises(pr.errors.DataError, match="has duplicates.*`ties` to one order"):
        pr.evaluate(log, cut, **expected)
    unique = log.unique(["query", "doc"])
    assert_close(pr.evaluate(unique, cut, **expected), pr.evaluate(unique, cut))
    with pytest.raises(pr.errors.ArgumentError, match="contains the metric"):
        half = (pl.col("rank").max() + pr.metric(cut)).alias("sum")
        pr.evaluate(log, half, **options)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("function", [pr.per_query, pr.rank])
@pytest.mark.parametrize("ties", ["doc", "input"])
def test_labels_of_copies_that_contradict_each_other(lazy: bool, function: Any, ties: str) -> None:
    def evaluate(rows: list[Row], duplicates: str) -> pl.DataFrame:
        log: Any = log_of([rows, [Row("b", 1.0, 1)]])
        log = log.lazy() if lazy else log
        metrics = [] if function is pr.rank else ["num_rel_ret"]
        result: pl.DataFrame = (
            function(log, *metrics, duplicates=duplicates, ties=ties).lazy().collect()
        )
        return result

    other = [Row("b", 3.0, 1), Row("c", 2.0, 1), Row("b", 1.0, 0)]
    unjudged = [Row("b", 3.0, None), Row("c", 2.0, 1), Row("b", 1.0, 1)]
    # Rows of a run and of its judgments, which were not joined.
    separate = [Row("b", 3.0, None), Row("c", 2.0, None), Row("c", None, 1), Row("b", None, 1)]
    once = "'label' .*different labels.*`duplicates` 'credit_once' needs one.*pr.join_judgments"
    for rows in (other, unjudged, separate):
        with pytest.raises(pr.errors.DataError, match=once):
            evaluate(rows, "credit_once")
        evaluate(rows, "distinct")  # copies are documents of their own
    for duplicates in ("max", "first"):
        with pytest.raises(pr.errors.DataError, match="rows without a score.*pr.join_judgments"):
            evaluate(separate, duplicates)
        with pytest.raises(pr.errors.DataError, match="rows without a score.*pr.join_judgments"):
            evaluate(separate[::-1], duplicates)
        for rows, relevant in ((other, 2), (unjudged, 1)):  # the row that is kept has its label
            result = evaluate(rows, duplicates).filter(query=0)
            column = "relevant" if function is pr.rank else "num_rel_ret"
            assert result[column].sum() == relevant
    if not lazy:
        with pytest.raises(pr.errors.DataError, match=r"1 document.*'doc': 'b', 'label': \[0, 1\]"):
            evaluate(other, "credit_once")
        with pytest.raises(pr.errors.DataError, match=r"2 documents.*'label': \[None, 1\]"):
            evaluate(separate, "max")
    elif function is pr.per_query:
        with pytest.raises(pr.errors.DataError, match="different labels.*in the ranking.*0"):
            evaluate(other, "credit_each")


@pytest.mark.parametrize("lazy", [False, True])
def test_errors_and_warnings(lazy: bool) -> None:
    rows = [Row("b", 2.0, 1), Row("b", 2.0, 1), Row("c", 1.0, 1)]
    log: Any = log_of([rows]).lazy() if lazy else log_of([rows])

    def value(frame: Any, **options: Any) -> float:
        return pr.evaluate(frame, "ap", **options).lazy().collect()["ap"].item()

    # The example of the guide: precisions at b, b, c with the relevant documents b and c.
    assert value(log, duplicates="max") == 1
    assert value(log, duplicates="credit_once") == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert value(log, duplicates="distinct") == 1
    with pytest.warns(pr.errors.RankWarning, match="each copy is credited, so values can exceed 1"):
        assert value(log, duplicates="credit_each") == (1 / 1 + 2 / 2 + 3 / 3) / 2
    assert value(log.head(1), duplicates="credit_each") == 1  # without a warning
    with pytest.raises(pr.errors.DataError, match="with equal scores.*one order"):
        value(log, duplicates="credit_once", ties="expected")
    with pytest.raises(pr.errors.ArgumentError, match="`duplicates` must be one of.*'twice'"):
        value(log, duplicates="twice")
    with pytest.raises(pr.errors.ArgumentError, match="'credit_each'.*Use per_query"):
        pr.rank(log, duplicates="credit_each")
    with pytest.raises(pr.errors.ArgumentError, match="contains the metric"):
        half = (pl.col("rank").max() + pr.metric("ap")).alias("sum")
        pr.evaluate(log, half, duplicates="credit_each")


def test_conventions_set_the_treatment() -> None:
    log = log_of([[Row("b", 3.0, 1), Row("b", 2.0, 1), Row("c", 1.0, 1)]])
    own = pr.Conventions(
        duplicates="credit_once", exceptions={"precision": {"duplicates": "distinct"}}
    )
    values = pr.evaluate(log, ["ap", "p@2", "recall@2"], conventions=own).row(0)
    assert values == pytest.approx((1, (1 / 1 + 2 / 3) / 2, 2 / 2, 1 / 2))
    # The parameter of the call takes precedence, also over exceptions.
    values = pr.evaluate(log, ["ap", "p@2"], conventions=own, duplicates="max").row(0)
    assert values == (1, 1, 2 / 2)
    with pytest.raises(pr.errors.DataError, match="has duplicates"):
        pr.evaluate(log, "ap")
    assert pr.rank(log, conventions=own).sort("rank")["hits"].to_list() == [1, 1, 2]
    assert "later copies keep their ranks, without gain" in pr.explain("ap", own)
    why = pr.explain_difference(log, "ap", pr.Conventions(duplicates="max"), own)
    assert why.select("choice", "a", "b").row(0) == ("duplicates", "max", "credit_once")
    assert why["change"].sum() == pytest.approx((1 / 1 + 2 / 3) / 2 - 1)
    # One of the conventions has no value, unless no document is repeated.
    for pair in (("polars_rank", own), (own, "polars_rank")):
        with pytest.raises(
            pr.errors.DataError, match="has duplicates: .*set `duplicates` to 'max'"
        ):
            pr.explain_difference(log, "ap", *pair)
        assert pr.explain_difference(log.unique("doc"), "ap", *pair).is_empty()
        assert pr.explain_difference(log, "ap", *pair, duplicates="max").is_empty()
    assert (
        Evaluation.of(pl.Schema(), "ap", conventions=own).metrics[0].conventions.duplicates
        == "credit_once"
    )
