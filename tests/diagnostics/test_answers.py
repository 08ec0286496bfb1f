"""`answerability` against plain Python, MTEB's formula of nAUC, and the level of its threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

SCHEMA = {"query": pl.Int64, "doc": pl.Int64, "score": pl.Float64, "label": pl.Int64}
#: The documents of queries: scores and labels.
queries = st.lists(
    st.lists(st.tuples(st.sampled_from((None, 0.1, 0.2, 0.2, 0.5)),
                       st.sampled_from((None, 0, 0, 1, 2))), min_size=1, max_size=4),
    min_size=1, max_size=12,
)  # fmt: skip


def log_of(rankings: list[list[tuple[float | None, int | None]]]) -> pl.DataFrame:
    rows = [(q, d, *doc) for q, docs in enumerate(rankings) for d, doc in enumerate(docs)]
    return pl.DataFrame(rows, SCHEMA, orient="row")


def oracle(rankings: list[list[tuple[float | None, int | None]]]) -> list[dict[str, Any]]:
    tops = [max((s for s, _ in docs if s is not None), default=None) for docs in rankings]
    answers = [any((label or 0) >= 1 for _, label in docs) for docs in rankings]
    wrong = [t for t, a in zip(tops, answers, strict=True) if not a]
    right = [t for t, a in zip(tops, answers, strict=True) if a]
    low = [-1.0 if t is None else t for t in wrong]
    high = [-1.0 if t is None else t for t in right]
    won = sum((h > w) + (h == w) / 2 for h in high for w in low)
    rows = []
    for threshold in sorted({t for t in tops if t is not None}, reverse=True):
        false = sum(t is not None and t >= threshold for t in wrong)
        missed = sum(t is None or t < threshold for t in right)
        rows.append({
            "threshold": threshold,
            "false_answers": false / len(wrong) if wrong else None,
            "missed_answers": missed / len(right) if right else None,
            "auroc": won / len(low) / len(high) if low and high else None,
            "unanswerable": len(wrong),
            "answerable": len(right),
        })  # fmt: skip
    return rows


@given(rankings=queries, engine=st.sampled_from(("in-memory", "streaming")))
def test_equals_its_oracle(rankings: list[Any], engine: Any) -> None:
    table = pr.diagnostics.answerability(log_of(rankings).lazy(), "ap").collect(engine=engine)
    expected = oracle(rankings)
    assert table.height == len(expected)
    for row, wanted in zip(table.iter_rows(named=True), expected, strict=True):
        assert {name: row[name] for name in wanted} == pytest.approx(wanted)


@given(rankings=queries)
def test_a_threshold_is_a_min_score(rankings: list[Any]) -> None:
    log = log_of(rankings)
    for row in pr.diagnostics.answerability(log, "ap").iter_rows(named=True):
        lowest = {"min_score": row["threshold"]}
        metrics = [pr.metrics.abstained(**lowest), pr.metrics.answered(**lowest)]
        abstained, answered = pr.evaluate(log, metrics).row(0)[1:]
        rates = [row["false_answers"], row["missed_answers"]]
        found = [None if rate is None else 1 - rate for rate in (abstained, answered)]
        assert found == pytest.approx(rates)


def mteb_nauc(confidence: np.ndarray, values: np.ndarray) -> float:
    """Return the normalized area under the curve of abstention as MTEB defines it."""
    rates = np.linspace(0, 1, 11)[:-1]

    def curve(order: np.ndarray) -> np.ndarray:
        kept = values[np.argsort(order, stable=True)]
        return np.array([kept[min(round(r * len(kept)), len(kept) - 1) :].mean() for r in rates])

    own, best = (np.trapezoid(curve(order), rates) for order in (confidence, values))
    flat = values.mean() * rates[-1]
    return float((own - flat) / (best - flat))


@pytest.mark.parametrize("n", [5, 37])
def test_nauc_is_that_of_mteb(n: int) -> None:
    random = np.random.default_rng(n)
    log = pl.DataFrame({
        "query": np.arange(5 * n) // 5, "doc": np.arange(5 * n), "score": random.normal(size=5 * n),
        "label": random.integers(0, 2, 5 * n),
    })  # fmt: skip
    values = pr.per_query(log, "rr")["rr"].to_numpy()
    tops = log.group_by("query", maintain_order=True).agg(pl.col("score").max())["score"]
    nauc = pr.diagnostics.answerability(log, "rr")["nauc"].unique().item()
    assert nauc == pytest.approx(mteb_nauc(tops.to_numpy(), values))


def test_nauc_is_0_if_all_top_scores_are_equal_and_null_if_all_values_are() -> None:
    log = log_of([[(0.5, 1)], [(0.5, 0)], [(0.5, 1)], [(0.5, 0)]])
    assert pr.diagnostics.answerability(log, "ap")["nauc"].item() == pytest.approx(0)
    assert pr.diagnostics.answerability(log.filter(label=1), "ap")["nauc"].item() is None


def test_upper_bound_is_that_of_clopper_and_pearson() -> None:
    log = log_of([[(float(score), 0)] for score in range(40)])
    table = pr.diagnostics.answerability(log, "ap", max_false_answers=0.25, confidence=0.9)
    counts, high = range(1, 41), table["false_answers_high"].to_list()
    assert high[-1] == 1
    assert binom.cdf(counts[:-1], 40, high[:-1]) == pytest.approx(0.1)
    allowed = [row for row in table.iter_rows(named=True) if row["false_answers_high"] <= 0.25]
    assert table["safe_threshold"].unique().item() == allowed[-1]["threshold"]


def test_safe_threshold_keeps_its_level() -> None:
    runs, n, limit = 400, 60, 0.1
    random = np.random.default_rng(0)
    # The share of queries whose top score is at least t is 1 - t.
    log = pl.DataFrame({
        "run": np.repeat(np.arange(runs), n), "query": np.tile(np.arange(n), runs), "doc": 0,
        "score": random.random(runs * n), "label": 0,
    })  # fmt: skip
    table = pr.diagnostics.answerability(log, "ap", max_false_answers=limit, confidence=0.8)
    safe = table.group_by("run").agg(pl.col("safe_threshold").first())["safe_threshold"]
    wrong = (1 - safe > limit).mean()
    assert safe.null_count() == 0
    assert 0.05 < wrong < 0.2 + 3 * (0.2 * 0.8 / runs) ** 0.5
    few = pr.diagnostics.answerability(log.filter(pl.col("query") < 58, run=0), "ap")
    assert few["safe_threshold"].null_count() == few.height


def test_runs_and_groups_have_their_own_curves() -> None:
    log = pr.datasets.search_log(20).collect()
    table = pr.diagnostics.answerability(log, "rr")
    parts = [pr.diagnostics.answerability(log.filter(run=run), "rr") for run in ("bm25", "neural")]
    assert table.equals(pl.concat(parts))


def test_invalid_arguments() -> None:
    log = log_of([[(0.5, 1)]])
    with pytest.raises(pr.errors.ArgumentError, match="`max_false_answers`"):
        pr.diagnostics.answerability(log, "ap", max_false_answers=1.5)
    with pytest.raises(pr.errors.ArgumentError, match="has the name of a result column"):
        pr.diagnostics.answerability(log.with_columns(nauc=1), "ap", by="nauc")
