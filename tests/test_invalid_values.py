"""Invalid values of parameters raise errors that name the parameter."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

LOG = pl.DataFrame({
    "run": ["a", "a", "b", "b"], "query": 1, "doc": [1, 2, 1, 2], "position": [1, 2, 1, 2],
    "score": [2.0, 1.0, 1.0, 2.0], "label": [1, 0, 1, 0], "click": [1, 0, 1, 0],
    "country": "DE",
})  # fmt: skip
ONE = LOG.filter(run="a")
VALUES = LOG.group_by("run", "query").agg(pl.col("country").first(), rr=pl.col("score").first())
VERDICTS = pr.check(pr.summarize(VALUES), ["rr > 0"], on_fail="return")

UNGROUPED: dict[str, Callable[[Any], Any]] = {
    "rank": lambda by: pr.rank(ONE, by=by),
    "evaluate": lambda by: pr.evaluate(ONE, "rr", by=by),
    "overlap": lambda by: pr.diagnostics.overlap(LOG, baseline="a", by=by),
    "summary": lambda by: pr.catalog.summary(ONE, by=by),
    "click_through_rates": lambda by: pr.clicks.click_through_rates(ONE, by=by),
}


@pytest.mark.parametrize("by", ["", 0, False])
@pytest.mark.parametrize("function", UNGROUPED.values(), ids=UNGROUPED)
def test_only_none_means_ungrouped(function: Callable[[Any], Any], by: Any) -> None:
    with pytest.raises(pr.errors.RankError, match="`by`"):
        function(by)


#: Parameters, and calls with an invalid value.
INVALID: list[tuple[str, Callable[[], Any]]] = [
    # Metrics
    ("a", lambda: pr.metrics.utility(a=math.nan)),
    ("b", lambda: pr.metrics.utility(b=1e308)),
    ("d", lambda: pr.metrics.utility(d=10**400)),
    ("beta", lambda: pr.fbeta(beta=1e200)),
    ("beta", lambda: pr.metrics.set_f(beta=1e200)),
    ("multiple", lambda: pr.r_precision(multiple=1e200)),
    ("max_grade", lambda: pr.metrics.inst(max_grade=math.inf)),
    ("max_grade", lambda: pr.metrics.pfound(max_grade=1e-320)),
    ("min_grade", lambda: pr.metrics.sdcg(3, max_grade=1, min_grade=-math.inf)),
    ("T", lambda: pr.metrics.inst(max_grade=1, T=1e200)),
    ("T", lambda: pr.metrics.insq(max_grade=1, T=1e-320)),
    ("floor", lambda: pr.metrics.log_average_precision(floor=2)),
    ("floor", lambda: pr.metrics.log_bpref(floor=1e200)),
    ("normalize", lambda: pr.metrics.compat(normalize="no")),
    ("graded", lambda: pr.rbp(graded="no")),
    ("num_users", lambda: pr.metrics.novelty(num_users=-1)),
    ("gain", lambda: pr.gains.at_least(1, "exp3")),
    # Conventions
    ("parameters", lambda: pr.Conventions(parameters={"a": 1})),
    ("gain", lambda: pr.Conventions(parameters={"gain": "exp3"})),
    ("gain_from", lambda: pr.Conventions(gain_from=math.nan)),
    ("graded", lambda: pr.Conventions(parameters={"rbp.graded": "no"})),
    ("float32_scores", lambda: pr.Conventions(float32_scores=2)),
    ("text_ids", lambda: pr.Conventions(text_ids="no")),
    # Statistics
    ("query", lambda: pr.summarize(VALUES, query="session")),
    ("correction", lambda: pr.compare(VALUES, "rr", baseline="a", correction="no")),
    ("margin", lambda: pr.compare(VALUES, "rr", baseline="a", margin="2")),
    ("undecided", lambda: pr.check(pr.summarize(VALUES), ["rr > 0"], undecided="")),
    ("n", lambda: pr.identify(ONE, "rr", 0.5, n=-1)),
    ("n", lambda: pr.explain_difference(ONE, "rr", "ranx", "trec_eval", n=-1)),
    # Inputs
    ("paths", lambda: pr.scan_log("")),
    ("paths", lambda: pr.scan_log(["", "log.parquet"])),
    ("path", lambda: pr.scan_run("")),
    ("diversity", lambda: pr.scan_judgments("qrels", diversity="no")),
    ("subtopic", lambda: pr.join_judgments(ONE.drop("label"), ONE, subtopic="")),
    ("retrieved", lambda: pr.from_lists(ONE, retrieved="", relevant="doc")),
    ("queries", lambda: pr.datasets.search_log(2**70)),
]


@pytest.mark.parametrize(
    ("parameter", "call"), INVALID, ids=[f"{i} {name}" for i, (name, _) in enumerate(INVALID)]
)
def test_values_that_a_parameter_cannot_have(parameter: str, call: Callable[[], Any]) -> None:
    with pytest.raises((pr.errors.ArgumentError, pr.errors.SchemaError), match=f"`{parameter}`"):
        call()


@pytest.mark.parametrize("write", [pr.stats.write_junit, pr.stats.write_markdown])
def test_files_of_verdicts_have_verdicts(write: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(pr.errors.ArgumentError, match="`verdicts` has no rows"):
        write(VERDICTS.clear(), tmp_path / "file")
    with pytest.raises(pr.errors.SchemaError, match="'rule' .`verdicts`. not found"):
        write(VALUES, tmp_path / "file")
    with pytest.raises(pr.errors.ArgumentError, match="`path` has an empty path"):
        write(VERDICTS, "")
    write(VERDICTS, tmp_path / "file")
    with pytest.raises(pr.errors.ArgumentError, match="`overwrite` must be True or False"):
        write(VERDICTS, tmp_path / "file", overwrite="no")
