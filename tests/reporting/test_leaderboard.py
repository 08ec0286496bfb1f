"""The leaderboard of a report: its sentence by hand, and the numbers of the library."""

import re

import polars as pl
import polars_rank as pr
import pytest


def labels(**values):
    """A log with one document per ranking, whose label is the value of DCG, by run."""
    return pl.concat(
        pl.DataFrame({"run": run, "query": range(len(of_run)), "label": of_run})
        for run, of_run in values.items()
    ).with_columns(doc=1, score=1.0)


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
@pytest.mark.usefixtures("_no_charts")
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a": [1, 0], "b": [0, 1], "c": [1, 1]}, "Best: c, which is better than all others."),
        ({"a": [1, 0], "b": [0, 1], "c": [1, 0]}, "The 3 runs cannot be told apart."),
        (
            {"a": [4, 3], "b": [3, 4], "c": [0, 1]},
            "Best: a and b, which cannot be told apart; each other run is worse than at least one run.",
        ),
        # No run is better than b, and b is better than c only.
        (
            {"a": [4, 4, 4, 0], "b": [9, 9, 0, 0], "c": [0, 1, 0, 0]},
            "Best: b and a, which cannot be told apart; each other run is worse than at least one run.",
        ),
        # b is better than c, which cannot be told apart from a.
        (
            {"a": [0, 0, 0, 0, 10], "b": [3, 3, 3, 3, 2], "c": [1, 1, 1, 1, 3]},
            "Best: b and a, which cannot be told apart; each other run is worse than at least one run.",
        ),
    ],
)  # fmt: skip
def test_the_result_in_one_sentence(tmp_path, values, expected):
    log = labels(**{run: each * (40 // len(each)) for run, each in values.items()})
    page = pr.report(log, pr.dcg(1), path=tmp_path / "r.html").read_text("utf-8")
    text = re.sub(r"<[^>]+>", "", page[page.index('<section id="leaderboard"') :])
    assert expected in text
    assert text.count(expected) == 1


@pytest.mark.parametrize("baseline", [None, "old"])
def test_reports_of_more_than_two_runs_have_a_leaderboard(tmp_path, baseline):
    log = pr.datasets.search_log(60, runs=["old", "new", "best", "other"], seed=2).collect()
    page = pr.report(log, ["ndcg@10", "ap"], baseline=baseline, path=tmp_path / "r.html")
    text = page.read_text("utf-8")
    section = text[text.index('<section id="leaderboard"') :].partition("</section>")[0]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", section, re.DOTALL)
    values = pr.per_query(log, ["ndcg@10", "ap"], by="run")
    board = pr.leaderboard(values, ["ndcg@10", "ap"])
    assert len(rows) == board.height
    for row, expected in zip(rows, board.iter_rows(named=True), strict=True):
        assert f"<bdi>{expected['run']}</bdi>" in row
        assert ('<span class="tag">best</span>' in row) == expected["best"]
        low, high = expected["rank_low"], expected["rank_high"]
        assert f">{low} to {high}</td>" in row if low < high else f">{low}</td>" in row
        for number in ("mean", "low", "high"):
            assert f"{expected[number]:.4f}" in row
    # Comparisons have filters, and no chart has the distributions of four runs.
    assert 'data-filter="compared"' in text
    of_two = log.filter(pl.col("run").is_in(["old", "new"]))
    two = pr.report(of_two, "ap", baseline=baseline, path=tmp_path / "two.html").read_text("utf-8")
    assert 'id="leaderboard"' not in two
    assert 'data-filter="compared"' not in two


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
def test_runs_without_common_queries_have_a_report_without_a_leaderboard(tmp_path):
    log = pr.datasets.search_log(60, runs=["a", "b", "c"], seed=2).collect()
    part = pl.col("run").replace_strict({"a": 0, "b": 1, "c": 2}, return_dtype=pl.Int64)
    apart = log.filter(pl.col("query") % 3 == part)
    with pytest.warns(pr.errors.RankWarning, match="5% of the queries are not compared"):
        page = pr.report(apart, "ap", path=tmp_path / "r.html")
    assert 'id="leaderboard"' not in page.read_text("utf-8")


def test_runs_of_few_queries_have_a_report_without_a_leaderboard(tmp_path):
    log = pr.datasets.search_log(10, runs=["a", "b", "c"], seed=2)
    for queries in (9, 10):
        few = log.filter(pl.col("query") < queries)
        page = pr.report(few, "ap", path=tmp_path / "r.html", overwrite=True)
        assert ('id="leaderboard"' in page.read_text("utf-8")) == (queries == 10)
