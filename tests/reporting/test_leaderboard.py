"""The leaderboard of a report: its sentence by hand, and the numbers of the library."""

import re

import polars as pl
import polars_rank as pr
import pytest

from polars_rank.reporting.leaderboard import Board


def sentence(*rows: tuple[str, str]) -> str:
    """Return the result of runs with these letters; the first one is the best."""
    first = {*rows[0][1]}
    board = [{"run": run, "letters": each, "best": bool({*each} & first)} for run, each in rows]
    return Board("ap", board).result


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (
            [("hybrid", "a"), ("neural", "a"), ("bm25", "b")],
            "Best: hybrid and neural (cannot be told apart); bm25 is worse than both.",
        ),
        ([("a", "a"), ("b", "b"), ("c", "b")], "Best: a; b and c are worse than a."),
        ([("a", "a"), ("b", "a"), ("c", "a")], "The 3 runs cannot be told apart."),
        (
            [("a", "a"), ("b", "a"), ("c", "a"), ("d", "b")],
            "Best: a, b and c (cannot be told apart); d is worse than all of them.",
        ),
        # b and c differ from each other, but not from a.
        (
            [("a", "ab"), ("b", "a"), ("c", "b")],
            "Best: a, b and c (cannot be told apart from a).",
        ),
        # c differs from a, but not from b.
        (
            [("a", "a"), ("b", "ab"), ("c", "b")],
            "Best: a and b (cannot be told apart); c is worse than a.",
        ),
        (
            [(str(number), "a") for number in range(1, 9)] + [("x", "b")],
            "Best: 1, 2, 3, 4, 5, 6 and 2 more (cannot be told apart); x is worse than all of them.",
        ),
    ],
)  # fmt: skip
def test_the_result_in_one_sentence(rows, expected):
    assert sentence(*rows) == expected


@pytest.mark.parametrize("baseline", [None, "old"])
def test_reports_of_more_than_two_runs_have_a_leaderboard(tmp_path, baseline):
    log = pr.datasets.search_log(60, runs=["old", "new", "best", "other"], seed=2).collect()
    page = pr.report(log, ["ndcg@10", "ap"], baseline=baseline, path=tmp_path / "r.html")
    text = page.read_text("utf-8")
    section = text[text.index('<section id="leaderboard"') :].partition("</section>")[0]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</tr>", section, re.DOTALL)
    values = pr.per_query(log, ["ndcg@10", "ap"], by="run")
    board = pr.stats.leaderboard(values, ["ndcg@10", "ap"])
    assert len(rows) == board.height
    for row, expected in zip(rows, board.iter_rows(named=True), strict=True):
        assert f"<bdi>{expected['run']}</bdi>" in row
        assert ('<span class="tag">best</span>' in row) == expected["best"]
        assert f'<td class="num">{expected["letters"]}</td>' in row
        assert f"{expected['mean']:.4f}" in row
    # Comparisons have filters, and no chart has the distributions of four runs.
    assert 'data-filter="compared"' in text
    of_two = log.filter(pl.col("run").is_in(["old", "new"]))
    two = pr.report(of_two, "ap", baseline=baseline, path=tmp_path / "two.html").read_text("utf-8")
    assert 'id="leaderboard"' not in two
    assert 'data-filter="compared"' not in two


def test_runs_without_common_queries_have_a_report_without_a_leaderboard(tmp_path):
    log = pr.datasets.search_log(60, runs=["a", "b", "c"], seed=2).collect()
    part = pl.col("run").replace_strict({"a": 0, "b": 1, "c": 2}, return_dtype=pl.Int64)
    apart = log.filter(pl.col("query") % 3 == part)
    with pytest.warns(pr.errors.RankWarning, match="5% of the queries are not compared"):
        page = pr.report(apart, "ap", path=tmp_path / "r.html")
    assert 'id="leaderboard"' not in page.read_text("utf-8")
