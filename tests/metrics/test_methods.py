"""Methods of metrics, and metrics in functions of Polars: names, directions and conventions."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

# Metrics are registered and removed.
from polars_rank.metrics.metric import REGISTER

t = pr.terms
ONE = pl.DataFrame({
    "run": ["a", "a", "b", "b"], "doc": [1, 2, 1, 2], "score": [2, 1, 1, 2], "label": [0, 1, 0, 1],
})  # fmt: skip
LOG = ONE.join(pl.DataFrame({"query": range(40)}), how="cross")
TIED = pl.DataFrame({"query": 1, "doc": [*"abcd"], "score": 1.0, "label": [0, 0, 2, 0]})


def test_a_lower_value_is_better() -> None:
    @pr.define_metric(lower_is_better=True)
    def missed(k: int | None = None, *, method: str = "plain") -> t.Value:
        return 1 - t.ratio(t.top(t.LABEL, k).sum(), t.num_retrieved(k))

    for metric in (missed(1), missed(1, method="other"), missed(1).clip(0, 1)):
        found = pr.compare(pr.per_query(LOG, [metric]), [metric], baseline="a")
        assert found.select("difference", "verdict").row(0) == (-1.0, "better")
    del REGISTER["missed"]


F = pr.fall_out(2)
METHODS = [
    (F < 0.3, "(fall_out@2 < 0.3)", False), (F > 0.3, "(fall_out@2 > 0.3)", True),
    (F.clip(0, 0.3), "fall_out@2", True), (F.sqrt(), "fall_out@2", True),
    (F.log1p(), "fall_out@2.log1p()", True), (-F, "(0 - fall_out@2)", False),
]  # fmt: skip


def test_names_and_directions() -> None:
    found = [(each, each.output_name, each.lower_is_better) for each, *_ in METHODS]
    assert [row[1:] for row in found] == [row[1:] for row in METHODS]


@pytest.mark.parametrize("metric", [F == 0.3, F**2, pr.ndcg(2) * pr.recall(2)])
def test_an_unknown_direction_is_a_warning(metric: Any) -> None:
    values = pr.per_query(LOG, [metric])
    with pytest.warns(pr.errors.RankWarning, match="not known whether higher values"):
        pr.compare(values, [metric], baseline="a")


@pytest.mark.parametrize(
    ("metric", "conventions"),
    [
        (pr.ndcg(3), "torchmetrics"),
        (pr.reciprocal_rank(3), "ir_measures"),
        (pr.ndcg(3), {"exceptions": {"ndcg": {"ties": "best"}}}),
    ],
)
def test_functions_of_polars_do_not_ignore_exceptions(metric: pr.Metric, conventions: Any) -> None:
    inside = pl.max_horizontal(metric.fill_null(0), 0.0)
    with pytest.raises(pr.errors.ArgumentError, match="would not follow the conventions"):
        pr.evaluate(TIED, inside, conventions=conventions)


def test_rules_of_columns_hold_in_functions_of_polars() -> None:
    made = pl.max_horizontal(pr.recall(2), 0.0)
    with pytest.raises(pr.errors.ArgumentError, match="undefined values as 1"):
        pr.evaluate(LOG, made, undefined={"recall@2": "one"})
    found = pr.evaluate(LOG, made.alias("made"), undefined={"made": "skip"})
    assert found["made"].to_list() == [1.0, 1.0]


def test_a_warning_of_the_log_is_in_the_report_once(tmp_path: Path) -> None:
    needs.package("jinja2", "report")
    rankings = LOG.drop("label").lazy()
    judgments = pl.LazyFrame({"query": range(36, 44), "doc": 1, "label": 1})
    log = pr.join_judgments(rankings, judgments)
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        pr.report(log, ["rr"], baseline="a", path=tmp_path / "report.html")
    texts = [str(each.message) for each in issued if "are in no run" in str(each.message)]
    assert len(texts) == 1
    assert "4 of 8 judged queries are in no run" in (tmp_path / "report.html").read_text("utf-8")
