"""`sampled`, compared with the normal equations, and in a simulation with all items."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
import scipy

# Sums of probabilities over ranks in bins are more precise than what corrected means show.
from polars_rank.catalog.sampling import _probability_sums

K = 3
METRICS = {
    "hit_rate@3": lambda rank: float(rank <= K),
    "recall@3": lambda rank: float(rank <= K),
    "ndcg@3": lambda rank: (rank <= K) / math.log2(rank + 1),
    "rr@3": lambda rank: (rank <= K) / rank,
}


def log_with(ranks: list[int], m: int) -> pl.DataFrame:
    """Return a log with the positive at a rank of each query."""
    places = pl.DataFrame({"doc": range(1, m + 2)}).with_columns(score=m + 1.0 - pl.col("doc"))
    queries = pl.DataFrame({"query": range(len(ranks)), "rank": ranks})
    label = (pl.col("doc") == pl.col("rank")).cast(pl.Int64)
    return queries.join(places, how="cross").select("query", "doc", "score", label.alias("label"))


def estimate(f: list[float], m: int, gamma: float) -> np.ndarray:
    """The solution by definition: least mean squared bias plus variance."""
    q = np.arange(len(f)) / (len(f) - 1)
    a = scipy.stats.binom.pmf(np.arange(m + 1)[None, :], m, q[:, None])
    normal = (1 - gamma) * a.T @ a + gamma * np.diag(a.sum(axis=0))
    return np.linalg.solve(normal, a.T @ np.array(f))


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_against_the_normal_equations(engine: str) -> None:
    n, m, ranks = 40, 6, [1, 1, 2, 3, 5, 7]
    for gamma in (0.1, 0.01):
        actual = pr.catalog.sampled(
            log_with(ranks, m).lazy(), [*METRICS], n_items=n, n_sampled=m, variance_weight=gamma
        ).collect(engine=engine)
        for (name, of_rank), row in zip(METRICS.items(), actual.to_dicts(), strict=True):
            values = estimate([of_rank(rank) for rank in range(1, n + 1)], m, gamma)
            each = [values[rank - 1] for rank in ranks]
            assert row == {
                "metric": name,
                "queries": len(ranks),
                "sampled": pytest.approx(np.mean([of_rank(rank) for rank in ranks])),
                "corrected": pytest.approx(np.mean(each), rel=1e-9),
                "std_error": pytest.approx(np.std(each, ddof=1) / math.sqrt(len(ranks))),
            }


def most_likely(f: list[float], ranks: list[int], m: int) -> float:
    """The mean of a metric over the ranks that are most likely: the EM algorithm by definition."""
    q = np.arange(len(f)) / (len(f) - 1)
    a = scipy.stats.binom.pmf(np.arange(m + 1)[None, :], m, q[:, None])[:, np.array(ranks) - 1]
    weights = np.full(len(f), 1 / len(f))
    for _ in range(200):
        joint = weights[:, None] * a
        weights = (joint / joint.sum(axis=0)).mean(axis=1)
    return float(weights @ f)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize(
    ("n", "m", "rel"),
    [(40, 6, 1e-9), (5000, 6, 2e-4), (3000, 1, 2e-4)],
    ids=["each rank", "in bins", "one sampled item"],
)
def test_against_the_em_algorithm(engine: str, n: int, m: int, rel: float) -> None:
    """Ranks far below the cutoff are in bins, of which some nodes are evaluated."""
    ranks = {"a": [1, 1, 2, 3, 5, 7], "b": [1, 2, 2, 3, 4, 4, 6]}
    if m == 1:
        ranks = {"a": [1, 1, 1], "b": [1, 1, 1, 2]}
    log = pl.concat(log_with(each, m).with_columns(run=pl.lit(run)) for run, each in ranks.items())
    actual = pr.catalog.sampled(
        log.lazy(), [*METRICS], n_items=n, n_sampled=m, method="maximum_likelihood", by="run"
    ).collect(engine=engine)
    expected = {
        (run, name): most_likely([of_rank(rank) for rank in range(1, n + 1)], each, m)
        for run, each in ranks.items()
        for name, of_rank in METRICS.items()
    }
    corrected = {(run, name): value for run, name, value in
                 actual.select("run", "metric", "corrected").iter_rows()}  # fmt: skip
    assert corrected == pytest.approx(expected, rel=rel)
    assert actual["std_error"].is_null().all()
    whole = pr.catalog.sampled(
        log_with(ranks["a"], m), "rr@3", n_items=n, n_sampled=m, method="maximum_likelihood"
    )
    assert whole["corrected"].item() == pytest.approx(expected["a", "rr@3"], rel=rel)


def test_sums_over_ranks() -> None:
    for m, n in ((7, 20), (7, 5000), (50, 40_000)):
        q = np.arange(n) / (n - 1)
        pmf = scipy.stats.binom.pmf(np.arange(m + 1)[None, :], m, q[:, None])
        assert _probability_sums(m, n) == pytest.approx(pmf.sum(axis=0), rel=1e-8)


def test_the_error_in_a_simulation() -> None:
    """The metric among sampled candidates orders two systems wrongly, the corrected one rightly."""
    n, m, users, draw = 2000, 100, 3000, np.random.default_rng(1)
    is_hit = draw.random(users) < 0.15
    ranks = {
        "bold": np.where(is_hit, draw.integers(1, 11, users), draw.integers(1, n, users)),
        "even": draw.integers(1, 400, users),  # seldom among the first 10, never far below
    }
    full = {run: float(np.mean(of_run <= 10)) for run, of_run in ranks.items()}
    places = {run: draw.binomial(m, (each - 1) / (n - 1)) + 1 for run, each in ranks.items()}
    logs = {run: log_with(each.tolist(), m) for run, each in places.items()}
    for method in ("bias_variance", "maximum_likelihood"):
        options = {"n_items": n, "n_sampled": m, "method": method}
        rows = {run: pr.catalog.sampled(log, "hit_rate@10", **options).row(0, named=True)
                for run, log in logs.items()}  # fmt: skip
        bold, even = rows["bold"], rows["even"]
        assert full["bold"] > full["even"]
        assert bold["sampled"] < even["sampled"]
        assert bold["corrected"] > even["corrected"]
        for run, value in full.items():
            assert abs(rows[run]["corrected"] - value) < abs(rows[run]["sampled"] - value)


def test_runs_and_ties() -> None:
    log = pl.concat([log_with([1, 2], 2).with_columns(run=1), log_with([3], 2).with_columns(run=2)])
    actual = pr.catalog.sampled(log, "rr@3", n_items=9, n_sampled=2, by="run")
    assert actual.select("run", "queries", "sampled").rows() == [(1, 2, 0.75), (2, 1, 1 / 3)]
    assert actual["std_error"].is_null().to_list() == [False, True]
    tied = pr.catalog.sampled(
        log.with_columns(score=0.0), "rr@3", n_items=9, n_sampled=2, by="run", ties="best"
    )
    assert tied["sampled"].to_list() == [1, 1]


def test_invalid_input() -> None:
    log, options = log_with([1, 2], 2), {"n_items": 9, "n_sampled": 2}
    of_rows = "one relevant document and 2 others"
    of_metric = "hit_rate, recall, ndcg or rr with a cut"
    hidden = log.with_columns(score=pl.when(pl.col("label") == 0).then("score"))
    logs = (log[1:], log.with_columns(label=1), log.with_columns(label=0), hidden)
    metrics = ("rr", "map@3", "ndcg(gain='exp2')@3", pl.len().alias("n"))
    wrong = {"n_items": 2, "n_sampled": 0, "variance_weight": 0, "method": ""}
    for changed, metric, more, error, message in (
        *((changed, "rr@3", {}, pr.errors.DataError, of_rows) for changed in logs),
        *((log, metric, {}, pr.errors.ArgumentError, of_metric) for metric in metrics),
        *(
            (log, "rr@3", {name: wrong[name]}, pr.errors.ArgumentError, f"`{name}`")
            for name in wrong
        ),
    ):
        with pytest.raises(error, match=message):
            pr.catalog.sampled(changed, metric, **{**options, **more})
