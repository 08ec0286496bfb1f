"""`gate` on tables: values, rules, baselines, and what looks wrong in the input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from datetime import date
from pathlib import Path
from statistics import NormalDist, stdev
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from rows import check_each

needs.package("scipy", "stats")

Judged = dict[str, list[str]]


def golden(relevant: Judged, **categories: str) -> pl.DataFrame:
    """Return judgments; a query without documents has one row."""
    rows = [
        (query, doc, categories.get(query))
        for query, docs in relevant.items()
        for doc in docs or [None]
    ]
    table = pl.DataFrame(
        rows, schema=dict.fromkeys(("query", "doc", "category"), pl.String), orient="row"
    )
    return table.with_columns(label=pl.when(pl.col("doc").is_not_null()).then(1))


def results(retrieved: Judged) -> pl.DataFrame:
    """Return rankings, the best document first."""
    rows = [
        (query, doc, float(-place))
        for query, docs in retrieved.items()
        for place, doc in enumerate(docs or [None])
    ]
    return pl.DataFrame(
        rows, schema={"query": pl.String, "doc": pl.String, "score": pl.Float64}, orient="row"
    )


def gated(*arguments: Any, **options: Any) -> Any:
    """Return a gate without its warnings, which it lists."""
    with warnings.catch_warnings(action="ignore", category=pr.errors.RankWarning):
        return pr.gate(*arguments, **options)


RELEVANT = {"a": ["d1"], "b": ["d2", "d3"], "c": ["d4"]}
FOUND = {"a": ["d1", "x"], "b": ["x", "d2"], "c": ["x", "y", "d4"]}
FINDS = "is found with 80% probability"
IF = "if the differences from a later run vary as much as the values do"
#: Enough queries for intervals.
MANY = {f"q{n:02}": [f"d{n}"] for n in range(60)}
FIRST = {query: [*docs, "x"] for query, docs in MANY.items()}
SECOND = {query: ["x", *docs] for query, docs in MANY.items()}


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    """Return the baseline of rankings with the relevant document first."""
    path = tmp_path / "baseline.jsonl"
    gated(golden(MANY), results(FIRST)).write_baseline(path)
    return path


def test_means_are_those_of_the_golden_queries_by_category() -> None:
    gate = gated(
        golden(RELEVANT, a="easy", b="hard", c="hard"),
        results(FOUND),
        metrics=["recall@2", "mrr@10"],
    )
    assert gate.table.to_dict(as_series=False) == {
        "category": ["all", "easy", "hard"],
        "queries": [3, 1, 2],
        "recall@2": [0.5, 1.0, 0.25],
        "mrr@10": pytest.approx([11 / 18, 1.0, 5 / 12]),
    }
    assert gate.queries["docs"].to_list()[1] == ["x", "d2"]


def test_default_metrics() -> None:
    gate = gated(golden(RELEVANT), results(FOUND))
    assert gate.table.columns[2:] == [
        *("recall@5", "recall@10", "full_recall@10", "mrr@10", "ndcg@10", "hit_rate@5")
    ]


def test_floors_decide_without_an_interval_and_name_the_queries() -> None:
    judged = golden(RELEVANT, a="easy", b="hard", c="hard")
    gate = gated(
        judged, results(FOUND), floors={"recall@5": 0.84, "hard": {"recall@5": 0.75}, "mrr@10": 0.6}
    )
    assert gate.verdicts.select("rule", "where", "verdict").rows() == [
        ("recall@5 >= 0.84", "", "fail"),
        ("recall@5 >= 0.75", "category=hard", "pass"),
        ("mrr@10 >= 0.6", "", "pass"),
    ]
    assert not gate.passed
    assert "FAILED: 1 of 3 rules" in str(gate)
    assert "recall@5 >= 0.84 0.833333 3 " in " ".join(str(gate).split())
    assert "b  hard  0.500\n  relevant   d2 d3\n  retrieved  x *d2" in str(gate)
    assert repr(gate) == "FAILED: 1 of 3 rules: recall@5 >= 0.84"


def test_a_floor_of_a_metric_that_should_be_low_is_a_ceiling() -> None:
    gate = gated(golden(RELEVANT), results(FOUND), floors={"fall_out@5": 0.0})
    assert gate.verdicts["rule"][0] == "fall_out@5 <= 0"


def test_a_category_of_a_floor_must_exist() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="'hrad'.*categories: 'hard'"):
        gated(golden(RELEVANT, a="hard"), results(FOUND), floors={"hrad": {"recall@5": 0.1}})


def test_columns_of_categories() -> None:
    judged = golden(RELEVANT, a="easy").rename({"category": "class"})
    found = results(FOUND)
    assert gated(judged, found).table["category"].to_list() == ["all", "easy"]
    judged = judged.with_columns(tags=["easy"])
    with pytest.raises(pr.errors.ArgumentError, match="must have text"):
        gated(judged, found, category="tags")


def test_limits_of_latency() -> None:
    timed = results(FOUND).with_columns(
        latency_ms=pl.col("query").replace_strict({"a": 10, "b": 20, "c": 90})
    )
    gate = gated(golden(RELEVANT), timed, latency={"mean": 40, "p50": 20, "max": 89})
    assert gate.verdicts.sort("rule").select("rule", "value", "verdict").rows() == [
        ("latency_max <= 89", 90.0, "fail"),
        ("latency_mean <= 40", 40.0, "pass"),
        ("latency_p50 <= 20", 20.0, "pass"),
    ]


def test_equal_rankings_pass_each_rule_about_differences(baseline: Path) -> None:
    gate = gated(golden(MANY), results(FIRST), baseline, max_drop=0)
    assert gate.passed
    assert {*gate.verdicts["verdict"]} == {"pass"}
    assert {*gate.verdicts["reason"]} == {"equal in all 60 queries"}


def test_guards_fail_if_a_loss_is_shown(baseline: Path) -> None:
    gate = gated(golden(MANY), results(SECOND), baseline)
    assert gate.failed == ["not difference(mrr@10) < 0", "not difference(ndcg@10) < 0"]
    assert gate.table["difference(mrr@10)"][0] == -0.5
    assert "q00  1.000 -> 0.500\n  before  *d0 x\n  after   x *d0" in str(gate)
    words = " ".join(str(gate).split())
    assert "not difference(mrr@10) < 0 -0.5 [-0.5351, -0.3946] 60" in words
    assert repr(gate) == f"FAILED: 2 of 6 rules: {', '.join(gate.failed)}"
    assert gated(
        golden(MANY), results(SECOND), baseline, margin={"mrr@10": 0.6, "ndcg@10": 0.4}
    ).passed


def test_max_drop_compares_the_numbers(baseline: Path) -> None:
    one = {**FIRST, "q00": ["x", "d0"]}
    limits = {"mrr@10": 0.0, "ndcg@10": 0.01}
    gate = gated(golden(MANY), results(one), baseline, max_drop=limits)
    assert gate.failed == ["difference(mrr@10) >= 0"]


def test_the_baseline_is_sorted_lines_of_json(baseline: Path) -> None:
    head, *lines = map(json.loads, baseline.read_text("utf-8").splitlines())
    assert head["queries"] == 60
    assert head["metrics"]["mrr@10"] == (
        "metric=reciprocal_rank, duplicates=error, float32_scores=False, k=10, query_set=all, "
        "rel=1 or more, ties=input, undefined=zero, unjudged=nonrelevant"
    )
    assert (head["polars_rank"], head["format_version"]) == (pr.__version__, 2)
    assert {"date", "golden", "corpus", "repetitions"} < {*head}
    assert [line["query"] for line in lines] == sorted(MANY)
    assert lines[0]["docs"] == ["d0", "x"]
    assert lines[0]["values"]["mrr@10"] == 1.0


def test_a_failed_run_becomes_the_baseline_only_with_a_reason(baseline: Path) -> None:
    before = baseline.read_text("utf-8")
    gate = gated(golden(MANY), results(SECOND), baseline)
    with pytest.raises(pr.errors.GateFailed):
        gate.write_baseline(baseline)
    assert baseline.read_text("utf-8") == before
    gate.write_baseline(baseline, accept_loss="a smaller index")
    head = json.loads(baseline.read_text("utf-8").splitlines()[0])
    assert head["accepted"][0]["reason"] == "a smaller index"
    assert head["accepted"][0]["failed"] == gate.failed
    assert gated(golden(MANY), results(SECOND), baseline).passed


def test_a_run_that_is_clearly_better_shows_that_the_baseline_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    gated(golden(MANY), results(SECOND)).write_baseline(path)
    with pytest.warns(pr.errors.RankWarning, match="mrr@10 by 0.500.*stale"):
        assert pr.gate(golden(MANY), results(FIRST), path).passed


def test_an_old_baseline_leads_to_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline = tmp_path / "baseline.jsonl"
    with monkeypatch.context() as then:
        then.setattr("polars_rank.gates.measures.today", lambda: date(2020, 1, 1))
        gated(golden(MANY), results(FIRST)).write_baseline(baseline)
    with pytest.warns(pr.errors.RankWarning, match="days old"):
        pr.gate(golden(MANY), results(FIRST), baseline)


def test_a_changed_golden_file_compares_the_common_queries(baseline: Path) -> None:
    judged = {**MANY, "new": ["x"], "q01": ["x"]}
    del judged["q00"]
    # Only the query with other labels is worse.
    found = {**FIRST, "new": ["x"], "q01": ["y", "x"]}
    del found["q00"]
    with pytest.warns(pr.errors.RankWarning, match="golden file has changed") as caught:
        gate = pr.gate(golden(judged), results(found), baseline, max_drop=0)
    text = next(str(each.message) for each in caught if "has changed" in str(each.message))
    for part in ("1 new ('new')", "1 missing ('q00')", "1 with other labels ('q01')", "58 common"):
        assert part in text
    assert gate.passed
    assert {*gate.verdicts["queries"]} == {58}


def test_a_changed_corpus_leads_to_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    corpus = pl.DataFrame({"id": ["d1", "d2", "d3", "d4", "x", "y"], "text": "old"})
    gated(golden(RELEVANT), results(FOUND), corpus=corpus).write_baseline(path)
    changed = corpus.with_columns(text=pl.lit("new"))
    with pytest.warns(pr.errors.RankWarning, match="corpus has changed"):
        pr.gate(golden(RELEVANT), results(FOUND), path, corpus=changed)


def test_metrics_with_another_definition_are_not_compared(baseline: Path) -> None:
    with pytest.warns(pr.errors.RankWarning, match="lacks 'recall@5'"):
        gate = pr.gate(golden(MANY), results(FIRST), baseline, rel=0.5)
    # NDCG does not depend on the lowest relevant label.
    assert ["ndcg@10" in rule for rule in gate.verdicts["rule"]] == [True]
    with pytest.warns(pr.errors.RankWarning, match="lacks .* with this definition"):
        assert pr.gate(golden(MANY), results(FIRST), baseline, ties="worst").verdicts.is_empty()


@pytest.mark.parametrize("text", ["", "[]", '{"query": "a"}', "no json"])
def test_a_file_that_is_no_baseline(tmp_path: Path, text: str) -> None:
    path = tmp_path / "baseline.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(pr.errors.DataError, match="is not a baseline: line 1"):
        gated(golden(RELEVANT), results(FOUND), path)


@pytest.mark.parametrize("name", ["judged", "doc", "label", "rank", "value", "slice", "all", "a b"])
def test_a_metric_may_have_the_name_of_an_internal_column(tmp_path: Path, name: str) -> None:
    metrics = [pr.reciprocal_rank(10).alias(name), "recall@1"]
    path = tmp_path / "baseline.jsonl"
    gated(golden(RELEVANT), results(FOUND), metrics=metrics).write_baseline(path)
    found = {**FOUND, "a": ["x", "d1"]}
    gate = gated(golden(RELEVANT), results(found), path, metrics=metrics, floors={name: 0.5}, max_drop={name: 0.1})  # fmt: skip
    assert gate.queries[name].to_list() == pytest.approx([1 / 2, 1 / 2, 1 / 3])
    assert gate.queries[f"{name}_before"].to_list() == pytest.approx([1, 1 / 2, 1 / 3])
    # The mean was 11/18 and is 8/18.
    assert gate.failed == [f"{name} >= 0.5", f"difference({name}) >= -0.1"]
    page = gate.page
    for text in (str(gate), gate._repr_html_(), page.markdown(), page.json(), page.junit()):
        assert name in text


def test_the_share_of_judged_documents_without_a_cutoff() -> None:
    gate = gated(golden(RELEVANT), results(FOUND), metrics=["judged"])
    assert gate.queries["judged"].to_list() == pytest.approx([1 / 2, 1 / 2, 1 / 3])


OTHER_COLUMNS = [
    *("query", "queries", "category", "relevant", "text", "docs", "docs_before", "mrr@10_before"),
    *("run", "metric", "repetition", "mean", "low", "high", "difference", "p_value", "std"),
    *("difference(x)", "not x", "low(x)", "x where(a=b)", "*", "^x.*$", "polars_rank:x"),
]


def test_a_metric_with_the_name_of_another_column_is_an_error() -> None:
    def check(name: str) -> None:
        with pytest.raises(pr.errors.RankError, match=re.escape(repr(name)) + ".*; rename it"):
            gated(golden(RELEVANT), results(FOUND), metrics=[pr.reciprocal_rank(10).alias(name)])

    check_each(check, [(name,) for name in OTHER_COLUMNS])


def test_repetitions_are_averaged_and_their_noise_is_stated() -> None:
    runs = [results(FIRST), results({**FIRST, "q00": ["x", "d0"]})]
    gate = gated(golden(MANY), runs, metrics=["mrr@10"])
    assert gate.queries["mrr@10"][0] == 0.75
    assert "2 repetitions" in gate.notes[1]
    assert "1 query" in gate.notes[1]


def test_queries_without_a_result_are_an_error_with_their_ids() -> None:
    found = results(FOUND).filter(pl.col("query") != "b")
    with pytest.raises(pr.errors.DataError, match="1 of 3 queries have no result: 'b'"):
        gated(golden(RELEVANT), found)
    gate = gated(golden(RELEVANT), found, missing="zero", metrics=["recall@5"])
    assert gate.queries["recall@5"].to_list() == [1.0, 0.0, 1.0]


def test_a_result_with_an_error_is_missing_and_an_empty_one_is_not() -> None:
    found = results({**FOUND, "b": []})
    assert gated(golden(RELEVANT), found, metrics=["recall@5"]).queries["recall@5"].sum() == 2
    failed = found.with_columns(error=pl.when(pl.col("query") == "c").then(pl.lit("timeout")))
    with pytest.raises(pr.errors.DataError, match="no result: 'c' has the error 'timeout'"):
        gated(golden(RELEVANT), failed)


def test_a_repeated_id_counts_once_at_its_first_place() -> None:
    found = {**FOUND, "b": ["d2", "d2", "d3"]}
    with pytest.warns(pr.errors.RankWarning, match="1 query .* with repeated ids, .*: 'b'"):
        gate = pr.gate(golden(RELEVANT), results(found), metrics=["recall@2"])
    assert gate.queries["recall@2"][1] == 1.0


def test_queries_that_are_not_in_the_golden_file_are_left_out() -> None:
    with pytest.warns(pr.errors.RankWarning, match="1 query .* 'z'"):
        assert pr.gate(golden(RELEVANT), results({**FOUND, "z": ["d1"]})).queries.height == 3


def test_files_without_a_common_query_show_ids_of_both() -> None:
    with pytest.raises(pr.errors.DataError, match="'a', 'b' and 1 more, those of the results 'z'"):
        gated(golden(RELEVANT), results({"z": ["d1"]}))


def test_results_of_several_runs_are_an_error() -> None:
    found = pl.concat(results(FOUND).with_columns(run=pl.lit(name)) for name in "xy")
    with pytest.raises(pr.errors.ArgumentError, match="several runs: 'x', 'y'"):
        gated(golden(RELEVANT), found)


@pytest.mark.parametrize(
    ("judged", "text"),
    [
        (golden({**RELEVANT, " A": ["d9"]}), "repeated but for case and blanks: ' A', 'a'"),
        (
            golden({**RELEVANT, "a": ["d1", "d1"]}),
            "golden file with repeated documents, which count once: 'a'",
        ),
    ],
)
def test_what_looks_wrong_in_a_golden_file(judged: pl.DataFrame, text: str) -> None:
    gate = gated(judged, results({**FOUND, " A": ["d9"]}))
    assert [each for each in gate.warnings if text in each]


def test_ids_that_neither_corpus_nor_results_have() -> None:
    corpus = pl.DataFrame({"doc": ["d1"]})
    gate = gated(golden(RELEVANT), results(FOUND), corpus=corpus)
    assert (
        "1 document of the golden file in neither the corpus nor the results: 'd3'" in gate.warnings
    )


def test_a_golden_file_that_equals_the_results() -> None:
    gate = gated(golden(RELEVANT), results(RELEVANT))
    assert [each for each in gate.warnings if "equals the results" in each]


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        (["1", "high", "1", "1"], "must have numbers .*'d2', .*'high'"),
        ([1.0, float("nan"), 1.0, 1.0], "grades are not finite .*rows: 1; .*'d2', label = nan"),
    ],
)
def test_grades_must_be_numbers(labels: list[Any], text: str) -> None:
    with pytest.raises(pr.errors.DataError, match=text):
        gated(golden(RELEVANT).with_columns(label=pl.Series(labels)), results(FOUND))


def test_a_document_with_several_labels_is_an_error() -> None:
    judged = golden({"a": ["d1", "d1"]}).with_columns(label=pl.Series([1, 2]))
    with pytest.raises(pr.errors.DataError, match="several labels"):
        gated(judged, results(FOUND))


def test_queries_without_a_relevant_document_are_a_category() -> None:
    judged = golden({**RELEVANT, "n1": [], "n2": []}, n1="easy")
    found = results({**FOUND, "n1": [], "n2": ["x"]})
    gate = gated(judged, found, metrics=["recall@5"], floors={"unanswerable": {"abstained": 0.6}})
    assert gate.table.rows() == [
        ("all", 5, pytest.approx(2.5 / 3), 0.5, 1.0),
        ("unanswerable", 2, None, 0.5, None),
    ]
    assert gate.failed == ["abstained >= 0.6 (category=unanswerable)"]
    assert "n2  unanswerable  0.000" in str(gate)


def test_a_low_score_and_a_failure_of_a_query_without_an_answer() -> None:
    judged = golden({**RELEVANT, "n1": [], "n2": [], "n3": []})
    found = results({**FOUND, "n1": [], "n2": ["x", "y"]})
    metrics = ["recall@5", "abstained", "abstained(min_score=1)"]
    gate = gated(judged, found, metrics=metrics, missing="zero", conventions="trec_eval")
    values = gate.queries.filter(pl.col("query").str.starts_with("n"))
    assert values["abstained"].to_list() == [1.0, 0.0, 0.0]
    assert values["abstained(min_score=1)"].to_list() == [1.0, 1.0, 0.0]
    assert values["recall@5"].null_count() == 3


def test_queries_without_an_answer_are_compared_with_the_baseline(tmp_path: Path) -> None:
    judged = golden({**MANY, **{f"n{n}": [] for n in range(40)}})
    nothing: Judged = {f"n{n}": [] for n in range(40)}
    path = tmp_path / "baseline.jsonl"
    gated(judged, results({**FIRST, **nothing})).write_baseline(path)
    answers = {query: ["x"] for query in nothing}
    gate = gated(judged, results({**FIRST, **answers}), path)
    assert {each.partition(" (")[0] for each in gate.failed} == {"not difference(abstained) < 0"}


def test_the_resolution_is_stated() -> None:
    found = {query: docs if n % 2 else ["x"] for n, (query, docs) in enumerate(FIRST.items())}
    # 1.96 + 0.84 standard errors of values that are 0 or 1 with the same probability
    gate = gated(golden(MANY), results(found), metrics="ndcg@10")
    assert gate.notes[0] == f"60 queries: a loss of 0.18 in ndcg@10 {FINDS}, {IF}"
    # With six metrics, the interval of a guard is at most as wide as Bonferroni's: 2.64 + 0.84.
    assert gated(golden(MANY), results(found)).notes[0] == (
        f"60 queries: a loss of 0.23 in ndcg@10 {FINDS}, {IF}"
    )
    # 1.96 + 0.84 standard errors beyond the margin; 0.84 beyond the largest drop.
    for options, loss in (({"margin": 0.1}, 0.28), ({"max_drop": 0.05}, 0.1)):
        gate = gated(golden(MANY), results(found), metrics="ndcg@10", **options)
        assert gate.notes[0].startswith(f"60 queries: a loss of {loss} in ndcg@10 is found")


@pytest.mark.parametrize("metric", ["rr", "average_relevance_position"])
def test_with_a_baseline_the_resolution_follows_from_paired_differences(
    metric: str, tmp_path: Path
) -> None:
    # The values vary far more than the differences of the queries.
    ranks = {f"q{n:02}": (1 + 4 * (n % 2), 1 + 4 * (n % 2) + (n % 8 < 2)) for n in range(80)}
    judged = golden({query: [f"d{query}"] for query in ranks})
    before, now = (
        results({query: [*"abcdef"[: pair[i] - 1], f"d{query}"] for query, pair in ranks.items()})
        for i in (0, 1)
    )
    path = tmp_path / "baseline.jsonl"
    gated(judged, before, metrics=metric).write_baseline(path)
    value = (lambda rank: 1 / rank) if metric == "rr" else float
    values = {run: [value(pair[i]) for pair in ranks.values()] for i, run in enumerate(("a", "b"))}
    table = pl.DataFrame({"query": [*ranks], **values}).unpivot(
        index="query", variable_name="run", value_name=metric
    )
    (row,) = pr.compare(table, metric, baseline="a").to_dicts()
    half = row["high"] - row["difference"] if metric == "rr" else row["difference"] - row["low"]
    error = stdev(b - a for a, b in zip(*values.values(), strict=True)) / 80**0.5
    assert stdev(values["b"]) > 2 * 80**0.5 * error
    for options, limit in [
        ({}, half),
        ({"margin": 0.02}, 0.02 + half),
        ({"margin": {metric: 0.02}, "max_drop": 0.9}, 0.02 + half),
        ({"max_drop": 0.01}, 0.01),
    ]:
        loss = limit + NormalDist().inv_cdf(0.8) * error
        gate = gated(judged, now, path, metrics=metric, **options)
        assert gate.notes[0] == f"80 queries: a loss of {loss:.2g} in {metric} {FINDS}"
    # Without differences, it is unknown how much they vary.
    same = gated(judged, before, path, metrics=metric)
    assert same.notes[0].endswith(f"{FINDS}, {IF}")


def test_few_queries_show_no_loss_in_a_metric_of_unknown_range(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    few = {query: MANY[query] for query in [*MANY][:20]}
    before = {query: FIRST[query] if n % 3 else SECOND[query] for n, query in enumerate(few)}
    written = gated(golden(few), results(before), metrics="dcg@10")
    written.write_baseline(path)
    missed = "20 queries: too few to find a loss in dcg@10 with 80% probability"
    assert written.notes[0] == f"{missed}, {IF}"
    now = {query: SECOND[query] for query in few}
    gate = gated(golden(few), results(now), path, metrics="dcg@10")
    assert gate.verdicts.select("rule", "verdict", "reason").rows() == [
        ("not difference(dcg@10) < 0", "pass", "too few")
    ]
    assert gate.notes[0] == missed
    # A drop of the mean needs no interval. 13 of 20 queries lose 1 - 1 / log2(3).
    gate = gated(golden(few), results(now), path, metrics="dcg@10", max_drop=0.1)
    assert gate.failed == ["difference(dcg@10) >= -0.1"]
    error = stdev([0.369] * 13 + [0.0] * 7) / 20**0.5
    loss = 0.1 + NormalDist().inv_cdf(0.8) * error
    assert gate.notes[0].startswith(f"20 queries: a loss of {loss:.2g} in dcg@10 is found")


def test_a_gate_that_passes_shows_no_loss(baseline: Path) -> None:
    shown = {
        "PASSED: 6 rules, no loss shown": gated(golden(MANY), results(FIRST), baseline),
        "PASSED: 6 rules, no loss beyond the margin shown": gated(
            golden(MANY), results(SECOND), baseline, margin=0.6
        ),
        # Nothing is compared.
        "PASSED: 1 rule": gated(golden(MANY), results(FIRST), floors={"mrr@10": 0.5}),
    }
    for headline, gate in shown.items():
        assert str(gate).splitlines()[0] == headline
        assert headline in gate.page.markdown()
        assert headline in gate._repr_html_()


def test_the_text_has_80_columns_for_any_names_and_metrics(baseline: Path) -> None:
    judged = golden(MANY, **{query: "a category with a long name" for query in MANY})
    judged = judged.with_columns(text=pl.lit("how do I " * 20))
    wide = {
        query: [*docs, *(f"{'long' * 9}{n}" for n in range(12))] for query, docs in SECOND.items()
    }
    metrics = [
        "recall@5",
        "full_recall@10",
        "ndcg(gain='exp2')@10",
        "mrr",
        "ap",
        "p@1",
        "hit_rate@5",
        "ndcg@10",
    ]
    gate = gated(
        judged, results(wide), baseline, metrics=metrics, max_drop=0.0, floors={"p@1": 0.5}
    )
    assert max(map(len, str(gate).splitlines())) <= 80
    assert all(name.partition("@")[0] in str(gate) for name in metrics)


def test_ids_mention_nobody_in_a_comment() -> None:
    judged = golden({"@ann how?": ["@bob/x"]}, **{"@ann how?": "@team"})
    metrics = [pr.reciprocal_rank().alias("@rr"), "ndcg(gain='exp2')@10", "recall@5"]
    gate = gated(
        judged, results({"@ann how?": ["x", "@bob/x"]}), metrics=metrics, floors={"@rr": 0.9}
    )
    text = gate.page.markdown()
    assert re.findall(r"(?<!\w)@\w", text) == []
    for name in ("@&#8203;ann how?", "@&#8203;bob/x", "@&#8203;team", "@&#8203;rr", ")@&#8203;10"):
        assert name in text
    assert "recall@5" in text


def test_a_gate_without_rules_says_so() -> None:
    gate = gated(golden(RELEVANT), results(FOUND))
    assert gate.passed
    assert "No rule was checked" in str(gate)
    assert "No rule was checked" in gate._repr_html_()


def test_without_a_baseline_neither_numpy_nor_charts_are_imported() -> None:
    program = (
        "import sys, polars as pl, polars_rank as pr; "
        "table = pl.DataFrame({'query': ['a'], 'doc': ['d'], 'score': [1.0]}); "
        "print(pr.gate(table.drop('score'), table, floors={'recall@5': 1})); print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    loaded = {*result.stdout.split()}
    assert not loaded & {"numpy", "scipy", "altair", "pyarrow", "polars_rank.plot"}


def test_with_a_baseline_scipy_stats_is_not_imported(baseline: Path) -> None:
    program = (
        "import sys, polars as pl, polars_rank as pr; "
        "table = pl.DataFrame({'query': [f'q{n:02}' for n in range(60)], 'doc': [f'd{n}' for n in range(60)], 'score': 1.0}); "
        "print(pr.gate(table.drop('score'), table, sys.argv[1])); print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, baseline],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    loaded = {*result.stdout.split()}
    assert "scipy.special" in loaded
    assert not loaded & {"scipy.stats", "scipy.optimize", "altair", "pandas"}


def test_metrics_of_answers_can_be_named() -> None:
    judged = golden({**RELEVANT, "z": []})
    metrics = ["abstained", "answered"]
    gate = gated(judged, results({**FOUND, "z": []}), metrics=metrics)
    assert gate.metrics == metrics


def test_results_that_look_broken() -> None:
    constant = results(SECOND).with_columns(score=1.0)
    gate = gated(golden(MANY), constant, floors={"mrr@10": 0.1})
    assert "PASSED: 1 rule" in str(gate)
    assert gate.warnings == [
        "the results look broken (constant scores): all documents have the same score in 60 of 60 "
        "rankings"
    ]
    # The cutoff of the default metrics is at least 5.
    gate = gated(golden({query: [*docs, "y"] for query, docs in MANY.items()}), results(SECOND))
    assert "the results look broken (cut off)" in " ".join(gate.warnings)
    gate = gated(golden(MANY), results({**SECOND, **{f"q{n:02}": [] for n in range(9)}}))
    # The results say for which queries nothing is retrieved.
    assert "broken" not in " ".join(gate.warnings)
    some = results({query: docs for query, docs in SECOND.items() if query >= "q09"})
    gate = gated(golden(MANY), some, missing="zero")
    assert "the results look broken (queries missing)" in " ".join(gate.warnings)


TIED = pl.DataFrame({"query": ["q", "q"], "doc": ["a", "b"], "score": [0.9, 0.9]})


def test_tied_documents_are_in_the_order_of_the_results(tmp_path: Path) -> None:
    judged = golden({"q": ["a"]})

    def mrr(**options: Any) -> float:
        return float(gated(judged, TIED, metrics="mrr", **options).table["mrr"][0])

    assert (mrr(), mrr(conventions={"rel": 1})) == (1, 1)
    # Documents in descending order of their ids, as in trec_eval: b, a.
    assert (mrr(ties="doc"), mrr(ties="worst"), mrr(conventions="trec_eval")) == (0.5, 0.5, 0.5)
    assert gated(judged, TIED.reverse(), metrics="mrr").table["mrr"][0] == 0.5
    gate = gated(judged, TIED, metrics="mrr")
    assert "documents with equal scores are in the order of the results" in gate.notes
    gate.write_baseline(tmp_path / "baseline.jsonl")
    other = gated(judged, TIED, tmp_path / "baseline.jsonl", metrics="mrr", ties="doc")
    assert other.verdicts.is_empty()  # the baseline has another definition


def test_losses_may_be_shares_of_the_means_of_the_baseline(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    gated(golden(MANY), results(SECOND), metrics="mrr").write_baseline(path)
    worse = results({**SECOND, **{f"q{n:02}": ["x", "y", f"d{n}"] for n in range(6)}})
    # The mean was 1/2, and 6 of 60 queries lose 1/2 - 1/3: a share of 1/30.
    for drop, passed in (("3.3%", False), ("3.4%", True), ({"mrr": "3.3%"}, False)):
        gate = gated(golden(MANY), worse, path, metrics="mrr", max_drop=drop, margin="9%")
        assert gate.passed == passed
    gate = gated(golden(MANY), worse, path, metrics="mrr", max_drop="3.3%")
    assert gate.failed == ["difference(mrr) >= -3.3%"]
    assert "difference(mrr) >= -3.3% -0.0333333 60" in " ".join(str(gate).split())
    # Guards: 60 queries lose half of their value.
    gated(golden(MANY), results(FIRST), metrics="mrr").write_baseline(path)
    for margin, passed in (("40%", False), ("60%", True), ({"mrr": "40%"}, False)):
        gate = gated(golden(MANY), results(SECOND), path, metrics="mrr", margin=margin)
        assert gate.passed == passed
    for bad in ("5", "-5%", "x%", "5%%", [1]):
        with pytest.raises(pr.errors.ArgumentError, match="`max_drop` must be"):
            gated(golden(MANY), results(FIRST), path, max_drop=bad)


CHUNKS = pl.DataFrame({
    "query": ["q1", "q1", "q1", "q2", "q2"], "doc": ["a", "a", "b", "c", "c"],
    "start": [0, 100, 0, 0, 50], "end": [100, 200, 100, 50, 100],
    "score": [0.9, 0.8, 0.7, 0.9, 0.2],
})  # fmt: skip
SPANS = pl.DataFrame({
    "query": ["q1", "q1", "q2"], "doc": ["a", "c", "c"], "start": [90, 0, 60], "end": [150, 40, 80],
    "label": [2, 1, 1],
})  # fmt: skip


def test_spans_of_text_are_joined(tmp_path: Path) -> None:
    # Of q1, the second chunk covers 50 of 60 characters of one span, and nothing the other.
    gate = gated(SPANS, CHUNKS, metrics=["recall@5", "mrr@10"])
    assert gate.table.row(0)[2:] == ((1 / 2 + 1) / 2, (1 / 2 + 1 / 2) / 2)
    joined = pr.join_spans(CHUNKS, SPANS)
    assert pr.evaluate(joined, ["recall@5", "mrr@10"]).row(0)[1:] == gate.table.row(0)[2:]
    assert "a:0-100 *a:100-200 b:0-100" in str(gated(SPANS, CHUNKS, floors={"recall@5": 0.9}))
    SPANS.write_ndjson(tmp_path / "golden.jsonl")
    CHUNKS.write_ndjson(tmp_path / "chunks.jsonl")
    joined.write_parquet(tmp_path / "joined.parquet")
    for found in (joined, tmp_path / "chunks.jsonl", tmp_path / "joined.parquet"):
        other = gated(tmp_path / "golden.jsonl", found, metrics=["recall@5", "mrr@10"])
        assert other.table.equals(gate.table)
        assert other.queries.drop("text").equals(gate.queries.drop("text"))
    for judged in (joined, joined.drop("score")):  # their documents are chunks, not judged spans
        with pytest.raises(pr.errors.SchemaError, match="'doc' has the type Struct"):
            gated(judged, CHUNKS)
    with pytest.raises(pr.errors.SchemaError, match="'start' .*not found; available in `results`"):
        gated(SPANS, CHUNKS.drop("start", "end"))


def test_queries_without_a_result_are_named_with_their_errors() -> None:
    rows = pl.DataFrame(
        {"query": ["a", "c"], "doc": ["d1", None], "score": [1.0, None], "error": [None, "timeout"]}
    )
    with pytest.raises(pr.errors.DataError, match="2 of 3 queries .*: 'b', 'c' has the error 'tim"):
        gated(golden(RELEVANT), rows)


def test_the_representation_names_what_failed() -> None:
    judged = golden(RELEVANT, a="easy", b="hard", c="hard")
    floors = {"hard": {"recall@5": 0.8}, "recall@5": 0.9, "mrr": 0.9, "ndcg@10": 0.9, "ap": 0.1}
    gate = gated(judged, results(FOUND), floors=floors)
    failed = "recall@5 >= 0.8 (category=hard), recall@5 >= 0.9, mrr >= 0.9, …"
    assert repr(gate) == f"FAILED: 4 of 5 rules: {failed}"
    assert "\n" not in repr(gate)


def test_nothing_can_be_lost_of_a_mean_of_0(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    judged = golden({"a": ["d1"], "n": []})
    found = results({"a": ["d1"], "n": ["x"]})  # n is never abstained from
    gated(judged, found).write_baseline(path)
    for options in ({"max_drop": "5%"}, {"margin": "5%"}):
        assert gated(judged, found, path, **options).passed


def test_a_drop_is_of_the_queries_that_count_in_both(tmp_path: Path) -> None:
    path, options = tmp_path / "baseline.jsonl", {"metrics": "recall@5", "query_set": "retrieved"}
    before = {query: docs if n < 30 else ["x"] for n, (query, docs) in enumerate(MANY.items())}
    now = {query: docs if n < 28 else ["x"] * (n < 35) for n, (query, docs) in enumerate(MANY.items())}  # fmt: skip
    gated(golden(MANY), results(before), **options).write_baseline(path)
    gate = gated(golden(MANY), results(now), path, max_drop=0.01, **options)
    row = gate.verdicts.row(0, named=True)
    # 28 and 30 of the 35 queries with a document, not 28 of 35 and 30 of 60.
    assert (row["value"], row["queries"]) == (pytest.approx(-2 / 35), 35)
    assert not gate.passed


def test_a_floor_without_a_query_that_counts_fails() -> None:
    gate = gated(golden(RELEVANT), results(FOUND), floors={"abstained": 0.5, "answered": 0.9})
    assert gate.verdicts.select("rule", "queries", "verdict", "reason").rows() == [
        ("abstained >= 0.5", 0, "fail", "no queries"),
        ("answered >= 0.9", 3, "pass", None),
    ]


@pytest.mark.parametrize(("drop", "passed"), [("5%", True), ("4.99%", False), (1 / 30, True)])
def test_rounding_does_not_decide(tmp_path: Path, drop: Any, passed: bool) -> None:
    path = tmp_path / "baseline.jsonl"
    first = {query: docs if n < 40 else ["x"] for n, (query, docs) in enumerate(MANY.items())}
    second = {query: docs if n < 38 else ["x"] for n, (query, docs) in enumerate(MANY.items())}
    gated(golden(MANY), results(first), metrics="recall").write_baseline(path)
    options = {"metrics": "recall", "floors": {"recall": 38 / 60}}
    assert gated(golden(MANY), results(second), path, max_drop=drop, **options).passed == passed


def test_categories_of_any_name_have_their_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    for name in ("", "null"):
        judged = golden(MANY, **{q: name if n < 40 else "k" for n, q in enumerate(MANY)})
        lost = {q: ["x", *d] if n < 20 else [*d, "x"] for n, (q, d) in enumerate(MANY.items())}
        gated(judged, results(FIRST), metrics="mrr").write_baseline(path)
        gate = gated(judged, results(lost), path, metrics="mrr")
        where = {"": "category=", "null": 'category="null"'}[name]
        rows = gate.verdicts.filter(verdict="fail").select("where", "value").rows()
        assert rows == [("", pytest.approx(-1 / 6)), (where, pytest.approx(-1 / 4))]


def test_categories_that_the_baseline_lacks_are_not_compared(tmp_path: Path) -> None:
    path = tmp_path / "baseline.jsonl"
    gated(golden({"a": ["d1"]}, a="x"), results({"a": ["d1"]})).write_baseline(path)
    judged, found = (
        golden({"a": ["d1"], "b": ["d2"]}, a="x", b="1"),
        results({"a": ["d1"], "b": []}),
    )
    assert gated(judged, found, path, max_drop={"1": {"mrr@10": 0.1}}).passed
    with pytest.raises(pr.errors.ArgumentError, match="category 'z' .* no queries; .* '1', 'x'"):
        gated(judged, found, max_drop={"z": {"mrr@10": 0.1}})
    assert gated(judged, found, floors={1: {"mrr@10": 0.5}}).failed == [
        "mrr@10 >= 0.5 (category=1)"
    ]
    assert gated(judged, found, floors={"all": {"mrr@10": 0.5}}).passed


def test_latencies_have_one_unit_and_are_numbers() -> None:
    found = results(FOUND)
    both = [found.with_columns(latency=0.1), found.with_columns(latency_ms=100.0)]
    with pytest.raises(pr.errors.ArgumentError, match="'latency', 'latency_ms'; use one unit"):
        gated(golden(RELEVANT), both, latency={"max": 1})
    for value, text in ((float("nan"), "NaN or infinite"), (None, "no column 'latency'")):
        timed = found.with_columns(latency=pl.lit(value, pl.Float64))
        with pytest.raises(pr.errors.ArgumentError, match=text):
            gated(golden(RELEVANT), timed, latency={"max": 1})
    assert gated(golden(RELEVANT), both[0], latency={"p0": 0.1}).passed


def test_documents_without_a_score_are_a_warning() -> None:
    found = results(FOUND).with_columns(score=pl.when(pl.col("doc") != "d4").then("score"))
    gate = gated(golden(RELEVANT), found)
    text = "1 query of the results with documents without a score, which count as not retrieved"
    assert f"{text}: 'c'" in gate.warnings


def test_ids_with_a_long_beginning_are_told_apart() -> None:
    start = "https://docs.example.com/handbook/2024/section-"
    judged, found = golden({"a": [f"{start}1"]}), results({"a": [f"{start}2"]})
    gate = gated(judged, found, floors={"mrr": 1})
    assert "section-1" in str(gate)
    assert "section-2" in gate.page.markdown()


@pytest.mark.parametrize("none", [[], False, "False", "", None])
def test_fields_of_errors_without_one(none: Any) -> None:
    found = results(FOUND).with_columns(error=pl.Series([none] * 7, strict=False))
    assert gated(golden(RELEVANT), found).queries.height == 3
