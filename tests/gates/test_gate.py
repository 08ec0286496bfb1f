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
from polars import col
from rows import check_each

needs.package("scipy", "stats")

Judged = dict[str, list[str]]
STRING = pl.String


def golden(relevant: Judged, **categories: str) -> pl.DataFrame:
    """Return judgments; a query without documents has one row."""
    rows = [(q, doc, categories.get(q)) for q, docs in relevant.items() for doc in docs or [None]]
    schema = {"query": STRING, "doc": STRING, "category": STRING}
    table = pl.DataFrame(rows, schema, orient="row")
    return table.with_columns(label=pl.when(col("doc").is_not_null()).then(1))


def results(retrieved: Judged) -> pl.DataFrame:
    """Return rankings, the best document first."""
    rows = [
        (query, doc, float(-place))
        for query, docs in retrieved.items()
        for place, doc in enumerate(docs or [None])
    ]
    schema = {"query": STRING, "doc": STRING, "score": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def gated(*arguments: Any, **options: Any) -> Any:
    """Return a gate without its warnings, which it lists."""
    with warnings.catch_warnings(action="ignore", category=pr.errors.RankWarning):
        return pr.gate(*arguments, **options)


RELEVANT = {"a": ["d1"], "b": ["d2", "d3"], "c": ["d4"]}
FOUND = {"a": ["d1", "x"], "b": ["x", "d2"], "c": ["x", "y", "d4"]}
JUDGED, RUN = golden(RELEVANT), results(FOUND)
#: With categories.
SORTED = golden(RELEVANT, a="easy", b="hard", c="hard")
FINDS = "is found with 80% probability"
IF = "if the differences from a later run vary as much as the values do"
#: Enough queries for intervals.
MANY = {f"q{n:02}": [f"d{n}"] for n in range(60)}
FIRST = {query: [*docs, "x"] for query, docs in MANY.items()}
SECOND = {query: ["x", *docs] for query, docs in MANY.items()}


def first(n: int, others: Judged, every: Judged = MANY) -> Judged:
    """Return rankings in which queries after the first n have other documents."""
    return {
        query: docs if at < n else others[query] for at, (query, docs) in enumerate(every.items())
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "baseline.jsonl"


@pytest.fixture
def baseline(path: Path) -> Path:
    """Return the baseline of rankings with the relevant document first."""
    gated(golden(MANY), results(FIRST)).write_baseline(path)
    return path


def test_means_are_those_of_the_golden_queries_by_category() -> None:
    gate = gated(SORTED, RUN, metrics=["recall@2", "mrr@10"])
    assert gate.table.to_dict(as_series=False) == {
        "category": ["all", "easy", "hard"],
        "queries": [3, 1, 2],
        "recall@2": [0.5, 1.0, 0.25],
        "mrr@10": pytest.approx([11 / 18, 1.0, 5 / 12]),
    }
    assert gate.queries["docs"].to_list()[1] == ["x", "d2"]
    assert "hard 2 0.250 0.417" in " ".join(str(gate).split())
    assert gated(JUDGED, RUN).table.columns[2:] == [
        *("recall@5", "recall@10", "full_recall@10", "mrr@10", "ndcg@10", "hit_rate@5")
    ]
    # The name of a metric is also that of an internal column.
    gate = gated(JUDGED, RUN, metrics=["judged"])
    assert gate.queries["judged"].to_list() == pytest.approx([1 / 2, 1 / 2, 1 / 3])
    # The column of categories may be called "class".
    judged = golden(RELEVANT, a="easy").rename({"category": "class"})
    assert gated(judged, RUN).table["category"].to_list() == ["all", "easy"]


def test_floors_decide_without_an_interval_and_name_the_queries() -> None:
    floors = {"recall@5": 0.84, "hard": {"recall@5": 0.75}, "mrr@10": 0.6}
    gate = gated(SORTED, RUN, floors=floors)
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
    floors = {"hard": {"recall@5": 0.8}, "recall@5": 0.9, "mrr": 0.9, "ndcg@10": 0.9, "ap": 0.1}
    assert repr(gated(SORTED, RUN, floors=floors)) == (
        "FAILED: 4 of 5 rules: recall@5 >= 0.8 (category=hard), recall@5 >= 0.9, mrr >= 0.9, …"
    )
    many = gated(JUDGED, RUN, floors={f"p@{k}": 1.0 for k in range(1, 24)})
    assert "and 3 more" in str(many)
    # A floor of a metric that should be low is a ceiling.
    gate = gated(JUDGED, RUN, floors={"fall_out@5": 0.0})
    assert gate.verdicts["rule"][0] == "fall_out@5 <= 0"
    assert "Queries with the highest fall_out@5" in str(gate)
    # A metric without a query that counts.
    gate = gated(JUDGED, RUN, floors={"abstained": 0.5, "answered": 0.9})
    assert gate.verdicts.select("rule", "queries", "verdict", "reason").rows() == [
        ("abstained >= 0.5", 0, "fail", "no queries"), ("answered >= 0.9", 3, "pass", None)
    ]  # fmt: skip


def test_a_gate_without_rules_says_so() -> None:
    gate = gated(JUDGED, RUN)
    assert gate.passed
    assert "No rule was checked" in str(gate)
    assert "No rule was checked" in gate._repr_html_()


def test_limits_of_latency() -> None:
    seconds = RUN.with_columns(latency=0.1)
    timed = RUN.with_columns(latency_ms=col("query").replace_strict({"a": 10, "b": 20, "c": 90}))
    gate = gated(JUDGED, timed, latency={"mean": 40, "p50": 20, "max": 89})
    assert gate.verdicts.sort("rule").select("rule", "value", "verdict").rows() == [
        ("latency_max <= 89", 90.0, "fail"),
        ("latency_mean <= 40", 40.0, "pass"),
        ("latency_p50 <= 20", 20.0, "pass"),
    ]
    assert gated(JUDGED, seconds, latency={"p0": 0.1}).passed
    # That of other queries does not count.
    other = pl.concat([seconds, results({"z": ["d"]}).with_columns(latency=9.0)])
    assert gated(JUDGED, other, latency={"max": 1}).verdicts["value"].to_list() == [0.1]

    def check(found: Any, latency: dict[str, Any], message: str) -> None:
        with pytest.raises(pr.errors.ArgumentError, match=message):
            gated(JUDGED, found, latency=latency)

    null = pl.lit(None, pl.Float64)
    limits = "limits 'mean', 'max' or percentiles such as 'p95'; found"
    check_each(check, [
        ([seconds, timed], {"max": 1}, "'latency', 'latency_ms'; use one unit"),
        (RUN.with_columns(latency=float("nan")), {"max": 1}, "NaN or infinite"),
        (RUN.with_columns(latency=null), {"max": 1}, "no column 'latency'"),
        (RUN.with_columns(latency=pl.lit("fast")), {"max": 1}, "'latency' .* must have numbers"),
        (seconds, {"p100": 1}, f"{limits} 'p100'"),
        (seconds, {"hard": {"max": 1}}, f"{limits} 'hard'"),
    ])  # fmt: skip


def test_guards_fail_if_a_loss_is_shown(baseline: Path) -> None:
    gate = gated(golden(MANY), results(SECOND), baseline)
    assert gate.failed == ["not difference(mrr@10) < 0", "not difference(ndcg@10) < 0"]
    assert gate.table["difference(mrr@10)"][0] == -0.5
    assert "q00  1.000 -> 0.500\n  before  *d0 x\n  after   x *d0" in str(gate)
    words = " ".join(str(gate).split())
    assert "not difference(mrr@10) < 0 -0.5 [-0.5351, -0.3946] 60" in words
    assert repr(gate) == f"FAILED: 2 of 6 rules: {', '.join(gate.failed)}"
    margin = {"mrr@10": 0.6, "ndcg@10": 0.4}
    assert gated(golden(MANY), results(SECOND), baseline, margin=margin).passed
    # Equal rankings pass each rule about differences, of which a drop compares the numbers.
    equal = gated(golden(MANY), results(FIRST), baseline, max_drop=0).verdicts
    assert {*equal.select("verdict", "reason").rows()} == {("pass", "equal in all 60 queries")}
    one, limits = results({**FIRST, "q00": ["x", "d0"]}), {"mrr@10": 0.0, "ndcg@10": 0.01}
    drop = gated(golden(MANY), one, baseline, max_drop=limits)
    assert drop.failed == ["difference(mrr@10) >= 0"]
    assert ("q00" in str(drop), "q01" in str(drop)) == (True, False)
    # Accepted, it is the baseline.
    gate.write_baseline(baseline, accept_loss="a smaller index")
    assert gated(golden(MANY), results(SECOND), baseline).passed


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


def test_what_has_changed_since_the_baseline(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = pl.DataFrame({"id": ["d1", "d2", "d3", "d4", "x", "y"], "text": "old"})
    with monkeypatch.context() as then:
        then.setattr("polars_rank.gates.measures.today", lambda: date(2020, 1, 1))
        gated(JUDGED, RUN, corpus=corpus).write_baseline(path)
    gate = gated(JUDGED, RUN, path, corpus=corpus.with_columns(text=pl.lit("new")))
    old, changed = gate.warnings
    assert re.fullmatch(r"the baseline is \d+ days old; .*", old)
    assert changed == "the corpus has changed since the baseline was written"
    gated(golden(MANY), results(SECOND)).write_baseline(path)
    with pytest.warns(pr.errors.RankWarning, match="mrr@10 by 0.500.*stale"):
        assert pr.gate(golden(MANY), results(FIRST), path).passed


def test_a_changed_golden_file_compares_the_common_queries(baseline: Path) -> None:
    judged = {**MANY, "new": ["x"], "q01": ["x"]}
    del judged["q00"]
    # Only the query with other labels is worse.
    found = {**FIRST, "new": ["x"], "q01": ["y", "x"]}
    del found["q00"]
    gate = gated(golden(judged), results(found), baseline, max_drop=0)
    (text,) = [each for each in gate.warnings if "golden file has changed" in each]
    for part in ("1 new ('new')", "1 missing ('q00')", "1 with other labels ('q01')", "58 common"):
        assert part in text
    assert gate.passed
    assert {*gate.verdicts["queries"]} == {58}


def test_metrics_with_another_definition_are_not_compared(baseline: Path) -> None:
    with pytest.warns(pr.errors.RankWarning, match="lacks 'recall@5'"):
        gate = pr.gate(golden(MANY), results(FIRST), baseline, rel=0.5)
    # NDCG does not depend on the lowest relevant label.
    assert ["ndcg@10" in rule for rule in gate.verdicts["rule"]] == [True]
    with pytest.warns(pr.errors.RankWarning, match="lacks .* with this definition"):
        assert pr.gate(golden(MANY), results(FIRST), baseline, ties="worst").verdicts.is_empty()


def test_metrics_may_have_the_names_of_internal_columns(path: Path) -> None:
    names = ["judged", "doc", "label", "rank", "value", "slice", "all", "a b"]
    metrics = [*(pr.reciprocal_rank(10).alias(name) for name in names), "recall@1"]
    gated(JUDGED, RUN, metrics=metrics).write_baseline(path)
    found = results({**FOUND, "a": ["x", "d1"]})
    rules = {"floors": dict.fromkeys(names, 0.5), "max_drop": dict.fromkeys(names, 0.1)}
    gate = gated(JUDGED, found, path, metrics=metrics, **rules)
    page = gate.page
    texts = (str(gate), gate._repr_html_(), page.markdown(), page.json(), page.junit())
    for name in names:
        assert gate.queries[name].to_list() == pytest.approx([1 / 2, 1 / 2, 1 / 3])
        assert gate.queries[f"{name}_before"].to_list() == pytest.approx([1, 1 / 2, 1 / 3])
        assert all(name in text for text in texts)
    # The mean was 11/18 and is 8/18.
    drops = [f"difference({name}) >= -0.1" for name in names]
    assert gate.failed == [*(f"{name} >= 0.5" for name in names), *drops]


OTHER_COLUMNS = [
    *("query", "queries", "category", "relevant", "text", "docs", "docs_before", "mrr@10_before"),
    *("run", "metric", "repetition", "mean", "low", "high", "difference", "p_value", "std"),
    *("difference(x)", "not x", "low(x)", "x where(a=b)", "*", "^x.*$", "polars_rank:x"),
]


def test_a_metric_with_the_name_of_another_column_is_an_error() -> None:
    def check(name: str) -> None:
        with pytest.raises(pr.errors.RankError, match=re.escape(repr(name)) + ".*; rename it"):
            gated(JUDGED, RUN, metrics=[pr.reciprocal_rank(10).alias(name)])

    check_each(check, [(name,) for name in OTHER_COLUMNS])


def test_repetitions_are_averaged_and_their_noise_is_stated() -> None:
    runs = [results(FIRST), results({**FIRST, "q00": ["x", "d0"]})]
    gate = gated(golden(MANY), runs, metrics=["mrr@10"])
    assert gate.queries["mrr@10"][0] == 0.75
    # The means are 1 and 1 - 1/120. Of the values, one is 1 - 1/4.
    loss = (NormalDist().inv_cdf(0.975) + NormalDist().inv_cdf(0.8)) * stdev([0.75] + [1] * 59)
    assert gate.notes[0].startswith(
        f"60 queries: a loss of {loss / 60**0.5:.2g} in mrr@10 is found"
    )
    noise = "the standard deviation of the mean mrr@10 is 0.006, the largest difference of two is"
    text = f"0.0083 (a loss of {loss / 60**0.5:.2g} is found), and 1 query differs in it"
    assert gate.notes[1] == f"2 repetitions: {noise} {text}"
    # Equal repetitions of queries that are too few for a loss.
    runs = [results({"a": ["d1"], "b": ["x"], "c": ["d4"]})] * 3
    assert gated(JUDGED, runs, metrics="rr").notes[1] == (
        "3 repetitions: the standard deviation of the mean rr is 0.000, the largest difference of "
        "two is 0, and 0 queries differ in it"
    )
    # A metric that no query counts in.
    assert len(gated(JUDGED, runs, metrics="abstained").notes) == 1


def test_queries_without_a_result() -> None:
    def check(found: pl.DataFrame, message: str) -> None:
        with pytest.raises(pr.errors.DataError, match=message):
            gated(JUDGED, found)

    timeout = pl.when(query="c").then(pl.lit("timeout"))
    some = RUN.filter(col("query") != "b")
    check_each(check, [
        (some, "1 of 3 queries have no result: 'b'"),
        (RUN.with_columns(error=timeout), "no result: 'c' has the error 'timeout'"),
        (some.with_columns(error=timeout), "2 of 3 queries .*: 'b', 'c' has the error 'timeout'"),
        (results({"z": ["d1"]}), "'a', 'b' and 1 more, those of the results 'z'"),
        (RUN.clear(), "those of the results none"),
    ])  # fmt: skip
    many = golden({f"q{n:02}": ["d"] for n in range(12)})
    with pytest.raises(pr.errors.DataError, match="11 of 12 .*'q10', …; run them again"):
        gated(many, results({"q00": ["d"]}))
    recall = {"metrics": ["recall@5"]}
    gate = gated(JUDGED, some, missing="zero", **recall)
    assert gate.queries["recall@5"].to_list() == [1.0, 0.0, 1.0]
    # An empty result is one, and so is one with a field of errors that has none.
    assert gated(JUDGED, results({**FOUND, "b": []}), **recall).queries["recall@5"].sum() == 2
    for none in ([], False, "False", "", None):
        found = RUN.with_columns(error=pl.Series([none] * 7, strict=False))
        assert gated(JUDGED, found, **recall).queries.height == 3


def test_a_repeated_id_counts_once_at_its_first_place() -> None:
    found = {**FOUND, "b": ["d2", "d2", "d3"]}
    with pytest.warns(pr.errors.RankWarning, match="1 query .* with repeated ids, .*: 'b'"):
        gate = pr.gate(JUDGED, results(found), metrics=["recall@2"])
    assert gate.queries["recall@2"][1] == 1.0


def test_what_looks_wrong_is_a_warning() -> None:
    def check(judged: Any, found: Any, text: str, options: dict[str, Any] | None = None) -> None:
        gate = gated(judged, found, **(options or {}))
        assert [each for each in gate.warnings if text in each], gate.warnings

    twice, above = {**RELEVANT, "a": ["d1", "d1"]}, golden({**RELEVANT, " A": ["d9"]})
    half = JUDGED.with_columns(label=pl.Series([0.5, 1.0, 1.0, 1.0]))
    check_each(check, [
        (above, results({**FOUND, " A": ["d9"]}), "repeated but for case and blanks: ' A', 'a'"),
        (golden(twice), RUN, "golden file with repeated documents, which count once: 'a'"),
        (JUDGED, results({**FOUND, "z": ["d1"]}), "1 query of the results that are not in the go"),
        (JUDGED, results(RELEVANT), "equals the results"),
        (JUDGED, results(dict.fromkeys("abc", ["x"])), "no relevant document was retrieved; ids of "
         "the golden file are 'd1', 'd2' and 2 more, those of the results 'x', 'x' and 1 more"),
        (JUDGED, RUN.with_columns(score=pl.when(col("doc") != "d4").then("score")),
         "1 query of the results with documents without a score, which count as not retr"),
        (JUDGED, RUN, "1 document of the golden file in neither the corpus nor the results: 'd3'",
         {"corpus": pl.DataFrame({"doc": ["d1"]})}),
        (half, RUN, "1 query without a grade of at least 1 (`rel`), so that no document"),
    ])  # fmt: skip
    assert not any("grade of" in each for each in gated(half, RUN, rel=0.5).warnings)


def test_what_cannot_be_used() -> None:
    def check(judged: Any, found: Any, text: str, options: dict[str, Any] | None = None) -> None:
        with pytest.raises(pr.errors.RankError, match=text):
            gated(judged, found, **(options or {}))

    two_runs = pl.concat(RUN.with_columns(run=pl.lit(name)) for name in "xy")
    several = golden({"a": ["d1", "d1"]}).with_columns(label=pl.Series([1, 2]))
    text, nan = pl.Series(["1", "high", "1", "1"]), pl.Series([1.0, float("nan"), 1.0, 1.0])
    tags, lists = JUDGED.with_columns(tags=["easy"]), JUDGED.with_columns(label=pl.lit([1]))
    check_each(check, [
        (JUDGED, two_runs, "several runs: 'x', 'y'"),
        (JUDGED, [], "`results` is empty"),
        (JUDGED.clear(), RUN, "`judgments` has no queries"),
        (JUDGED.with_columns(query=None), RUN, r"column 'query' \(`judgments`\) is null"),
        (several, RUN, "several labels"),
        (JUDGED.with_columns(label=text), RUN, "must have numbers .*'d2', .*'high'"),
        (JUDGED.with_columns(label=nan), RUN, "not finite .*rows: 1; .*'d2', label = nan"),
        (lists, RUN, "'label' .* must be a number"),
        (tags, RUN, "must have text", {"category": "tags"}),
        (JUDGED, RUN, "column 'tag' .*not found", {"category": "tag"}),
        (SORTED, RUN, "'hrad'.*categories: 'easy', 'hard'", {"floors": {"hrad": {"ap": 0.1}}}),
        (JUDGED, RUN, "`floors` must be a mapping or None; found 3", {"floors": 3}),
        *((JUDGED, RUN, f"`{name}`: unknown metric", {name: {"ndgc@10": 0.5}})
          for name in ("floors", "max_drop")),
        *((JUDGED, RUN, "`margin` has numbers by metric", {"margin": margin})
          for margin in ({"ndgc@10": 0.1}, {"low": {"ndcg@10": 0.1}})),
        *((JUDGED, RUN, f"`{name}` has an empty path; name a", {name: ""})
          for name in ("baseline", "corpus")),
        *((JUDGED, RUN, "`max_drop` must be", {"max_drop": bad})
          for bad in (-0.1, "5", "-5%", "x%", "5%%", [1])),
        (JUDGED, RUN, "`corpus` has no column 'doc' or 'id'", {"corpus": pl.DataFrame({"a": [1]})}),
    ])  # fmt: skip


def test_queries_without_a_relevant_document_are_a_category(path: Path) -> None:
    judged = golden({**RELEVANT, "n1": [], "n2": []}, n1="easy")
    found = results({**FOUND, "n1": [], "n2": ["x"]})
    gate = gated(judged, found, metrics=["recall@5"], floors={"unanswerable": {"abstained": 0.6}})
    assert gate.table.rows() == [
        ("all", 5, pytest.approx(2.5 / 3), 0.5, 1.0),
        ("unanswerable", 2, None, 0.5, None),
    ]
    assert gate.failed == ["abstained >= 0.6 (category=unanswerable)"]
    assert "n2  unanswerable  0.000" in str(gate)
    # A low score, and a failure.
    judged = golden({**RELEVANT, "n1": [], "n2": [], "n3": []})
    found = results({**FOUND, "n1": [], "n2": ["x", "y"]})
    metrics = ["recall@5", "abstained", "abstained(min_score=1)"]
    gate = gated(judged, found, metrics=metrics, missing="zero", conventions="trec_eval")
    values = gate.queries.filter(col("query").str.starts_with("n"))
    assert values["abstained"].to_list() == [1.0, 0.0, 0.0]
    assert values["abstained(min_score=1)"].to_list() == [1.0, 1.0, 0.0]
    assert values["recall@5"].null_count() == 3
    metrics = ["abstained", "answered"]
    assert gated(judged, found, metrics=metrics, missing="zero").metrics == metrics
    # They are compared with the baseline.
    nothing: Judged = {f"n{n}": [] for n in range(40)}
    judged = golden({**MANY, **nothing})
    gated(judged, results({**FIRST, **nothing})).write_baseline(path)
    gate = gated(judged, results({**FIRST, **{query: ["x"] for query in nothing}}), path)
    assert {each.partition(" (")[0] for each in gate.failed} == {"not difference(abstained) < 0"}


def test_forbidden_documents(path: Path) -> None:
    lists = pl.DataFrame({
        "query": ["a", "b", "n", "m"], "relevant": [["d1"], ["d2"], [], []],
        "forbidden": [["x"], None, ["y"], []],
    })  # fmt: skip
    long = pl.DataFrame({
        "query": ["a", "a", "b", "n", "m"], "doc": ["d1", "x", "d2", "y", None],
        "label": [1, None, 1, 0, None], "forbidden": [False, True, None, True, None],
    })  # fmt: skip
    found = results({"a": ["d1", "x"], "b": ["d2", "x"], "n": ["y"], "m": []})
    for judged in (lists, long, lists.lazy()):
        floors = {"forbidden@1": 0.5, "forbidden@2": 0.25, "unanswerable": {"forbidden@2": 1}}
        gate = gated(judged, found, metrics="recall@2", floors=floors)
        # Of four queries, the document y is first, and x is second.
        assert gate.verdicts.select("rule", "where", "value", "verdict").rows() == [
            ("forbidden@2 <= 0.25", "", 2 / 4, "fail"),
            ("forbidden@1 <= 0.5", "", 1 / 4, "pass"),
            ("forbidden@2 <= 1", "category=unanswerable", 1 / 2, "pass"),
        ]
        text = str(gate)
        assert "Queries with the highest forbidden@2" in text and "*d1 !x" in text
        assert "b" not in re.findall(r"^(\w+)  ", text.partition("highest")[2], re.MULTILINE)
        assert gate.queries["forbidden_docs"].to_list() == [["x"], [], [], ["y"]]
    # It is a metric without being named, and has a guard.
    metrics = gated(lists, found, metrics="rr").metrics
    assert metrics == ["rr", "abstained", "answered", "forbidden@10"]
    many = lists.clear().vstack(
        pl.DataFrame([(q, d, ["y"]) for q, d in MANY.items()], lists.schema, orient="row")
    )
    gated(many, results(FIRST), metrics="rr").write_baseline(path)
    worse = results({query: [*docs, "y"] for query, docs in MANY.items()})
    assert gated(many, worse, path, metrics="rr").failed == ["not difference(forbidden@10) > 0"]
    # Other forbidden documents are another question.
    other = many.with_columns(forbidden=pl.lit(["z"]))
    assert "60 with other labels" in str(gated(other, worse, path, metrics="rr").warnings)
    # What a query that failed would retrieve is unknown.
    some = results({"a": ["d1", "x"], "b": ["d2", "x"], "n": ["y"]})
    gate = gated(lists, some, metrics="rr", missing="zero")
    assert gate.queries["forbidden@10"].to_list() == [1, 0, None, 1]

    def check(judged: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(pr.errors.RankError, match=message):
            gated(judged, found, **options)

    none = lists.drop("forbidden")
    twice = long.with_columns(label=pl.when("forbidden").then(1).otherwise("label"))
    spans = long.drop_nulls("doc").with_columns(start=0, end=9)
    check_each(check, [
        (none, {"metrics": "forbidden@3"}, r"no forbidden document for 'forbidden@3': add the"),
        (twice, {}, r"relevant and forbidden .* 'x', label = 1.0\); keep one"),
        (lists.with_columns(forbidden="relevant"), {}, "'a', doc = 'd1'.; remove them"),
        (long.with_columns(forbidden=pl.lit("x")), {}, r"'forbidden' .*must be numeric"),
        (spans, {}, "has forbidden documents, and passages"),
        (lists, {"metrics": pr.metrics.forbidden(2).alias("leaks")}, "'leaks': lower is better"),
    ])  # fmt: skip


def test_the_resolution_is_stated() -> None:
    found = results(
        {query: docs if n % 2 else ["x"] for n, (query, docs) in enumerate(FIRST.items())}
    )
    # 1.96 + 0.84 standard errors of values that are 0 or 1 with the same probability
    gate = gated(golden(MANY), found, metrics="ndcg@10")
    assert gate.notes[0] == f"60 queries: a loss of 0.18 in ndcg@10 {FINDS}, {IF}"
    # With six metrics, the interval of a guard is at most as wide as Bonferroni's: 2.64 + 0.84.
    gate = gated(golden(MANY), found)
    assert gate.notes[0] == f"60 queries: a loss of 0.23 in ndcg@10 {FINDS}, {IF}"
    # 1.96 + 0.84 standard errors beyond the margin; 0.84 beyond the largest drop.
    for options, loss in (({"margin": 0.1}, 0.28), ({"max_drop": 0.05}, 0.1)):
        gate = gated(golden(MANY), found, metrics="ndcg@10", **options)
        assert gate.notes[0].startswith(f"60 queries: a loss of {loss} in ndcg@10 is found")
    # Few queries whose values vary more than there is to lose, and one that does not vary.
    assert gated(golden({"a": ["d1"]}), results({"a": ["d1"]})).notes == ["1 query"]
    notes = gated(golden({"a": ["d1"], "b": ["d2"]}), results({"a": ["d1"], "b": ["x"]})).notes
    assert notes == [f"2 queries: too few to find a loss in ndcg@10 with 80% probability, {IF}"]


@pytest.mark.parametrize("metric", ["rr", "average_relevance_position"])
def test_with_a_baseline_the_resolution_follows_from_paired_differences(
    metric: str, path: Path
) -> None:
    # The values vary far more than the differences of the queries.
    ranks = {f"q{n:02}": (1 + 4 * (n % 2), 1 + 4 * (n % 2) + (n % 8 < 2)) for n in range(80)}
    judged = golden({query: [f"d{query}"] for query in ranks})
    before, now = (
        results({query: [*"abcdef"[: pair[i] - 1], f"d{query}"] for query, pair in ranks.items()})
        for i in (0, 1)
    )
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


def test_few_queries_show_no_loss_in_a_metric_of_unknown_range(path: Path) -> None:
    few = {query: MANY[query] for query in [*MANY][:20]}
    before = {query: FIRST[query] if n % 3 else SECOND[query] for n, query in enumerate(few)}
    written = gated(golden(few), results(before), metrics="dcg@10")
    written.write_baseline(path)
    missed = "20 queries: too few to find a loss in dcg@10 with 80% probability"
    assert written.notes[0] == f"{missed}, {IF}"
    now = results({query: SECOND[query] for query in few})
    gate = gated(golden(few), now, path, metrics="dcg@10")
    assert gate.verdicts.select("rule", "verdict", "reason").rows() == [
        ("not difference(dcg@10) < 0", "pass", "too few")
    ]
    assert gate.notes[0] == missed
    # A drop of the mean needs no interval. 13 of 20 queries lose 1 - 1 / log2(3).
    gate = gated(golden(few), now, path, metrics="dcg@10", max_drop=0.1)
    assert gate.failed == ["difference(dcg@10) >= -0.1"]
    error = stdev([0.369] * 13 + [0.0] * 7) / 20**0.5
    loss = 0.1 + NormalDist().inv_cdf(0.8) * error
    assert gate.notes[0].startswith(f"20 queries: a loss of {loss:.2g} in dcg@10 is found")


def test_a_gate_that_passes_shows_no_loss(baseline: Path) -> None:
    shown = {
        "PASSED: 6 rules, no loss shown": (FIRST, {"baseline": baseline}),
        "PASSED: 6 rules, no loss beyond the margin shown": (
            SECOND, {"baseline": baseline, "margin": 0.6}
        ),
        # Nothing is compared.
        "PASSED: 1 rule": (FIRST, {"floors": {"mrr@10": 0.5}}),
    }  # fmt: skip
    for headline, (found, options) in shown.items():
        gate = gated(golden(MANY), results(found), **options)
        assert str(gate).splitlines()[0] == headline
        assert headline in gate.page.markdown()
        assert headline in gate._repr_html_()


def test_the_text_has_80_columns_for_any_names_and_metrics(baseline: Path) -> None:
    judged = golden(MANY, **dict.fromkeys(MANY, "a category with a long name"))
    judged = judged.with_columns(text=pl.lit("how do I " * 20))
    long = [f"{'long' * 9}{n}" for n in range(12)]
    wide = results({query: [*docs, *long] for query, docs in SECOND.items()})
    metrics = ["recall@5", "ndcg(gain='exp2')@10", "mrr", "ap", "p@1", "hit_rate@5", "ndcg@10"]
    rules = {"max_drop": 0.0, "floors": {"p@1": 0.5}}
    shown = str(gated(judged, wide, baseline, metrics=metrics, **rules))
    assert max(map(len, shown.splitlines())) <= 80
    assert all(name.partition("@")[0] in shown for name in metrics)
    # Ids with a long beginning are told apart.
    start = "https://docs.example.com/handbook/2024/section-"
    judged, found = golden({"a": [f"{start}1"]}), results({"a": [f"{start}2"]})
    gate = gated(judged, found, floors={"mrr": 1})
    assert "section-1" in str(gate)
    assert "section-2" in gate.page.markdown()


def test_a_gate_imports_only_what_it_needs(baseline: Path) -> None:
    """In one process: without a baseline first, and then with one, which needs intervals."""
    program = (
        "import sys, polars as pl, polars_rank as pr\n"
        "rows = [(f'q{n:02}', f'd{n}', 1.0) for n in range(60)]\n"
        "table = pl.DataFrame(rows, ['query', 'doc', 'score'], orient='row')\n"
        "for options in {'floors': {'recall@5': 1}}, {'baseline': sys.argv[1]}:\n"
        "    print(pr.gate(table.drop('score'), table, **options))\n"
        "    print('loaded:', *sys.modules)"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, baseline]
    shown = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    alone, compared = ({*line.split()} for line in re.findall("^loaded: (.*)", shown, re.MULTILINE))
    assert not alone & {"numpy", "scipy", "altair", "pyarrow", "polars_rank.plot"}
    assert "scipy.special" in compared
    assert not compared & {"scipy.stats", "scipy.optimize", "altair", "pandas"}


def test_results_that_look_broken() -> None:
    gate = gated(golden(MANY), results(SECOND).with_columns(score=1.0), floors={"mrr@10": 0.1})
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


def test_tied_documents_are_in_the_order_of_the_results(path: Path) -> None:
    tied = pl.DataFrame({"query": ["q", "q"], "doc": ["a", "b"], "score": [0.9, 0.9]})
    judged = golden({"q": ["a"]})
    for options, mrr in (
        ({}, 1), ({"conventions": {"rel": 1}}, 1),
        # Documents in descending order of their ids, as in trec_eval: b, a.
        ({"ties": "doc"}, 0.5), ({"ties": "worst"}, 0.5), ({"conventions": "trec_eval"}, 0.5),
    ):  # fmt: skip
        assert gated(judged, tied, metrics="mrr", **options).table["mrr"][0] == mrr
    assert gated(judged, tied.reverse(), metrics="mrr").table["mrr"][0] == 0.5
    gate = gated(judged, tied, metrics="mrr")
    assert "documents with equal scores are in the order of the results" in gate.notes
    gate.write_baseline(path)
    other = gated(judged, tied, path, metrics="mrr", ties="doc")
    assert other.verdicts.is_empty()  # the baseline has another definition


def test_losses_may_be_shares_of_the_means_of_the_baseline(path: Path) -> None:
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
    # Rounding does not decide: 38 and 40 of 60.
    options = {"metrics": "recall", "floors": {"recall": 38 / 60}}
    nothing = dict.fromkeys(MANY, ["x"])
    gated(golden(MANY), results(first(40, nothing)), metrics="recall").write_baseline(path)
    for drop, passed in (("5%", True), ("4.99%", False), (1 / 30, True)):
        found = results(first(38, nothing))
        assert gated(golden(MANY), found, path, max_drop=drop, **options).passed == passed
    # Nothing can be lost of a mean of 0: n is never abstained from.
    judged, found = golden({"a": ["d1"], "n": []}), results({"a": ["d1"], "n": ["x"]})
    gated(judged, found).write_baseline(path)
    for options in ({"max_drop": "5%"}, {"margin": "5%"}):
        assert gated(judged, found, path, **options).passed


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


def test_a_drop_is_of_the_queries_that_count_in_both(path: Path) -> None:
    options = {"metrics": "recall@5", "query_set": "retrieved"}
    nothing: Judged = {query: ["x"] * (n < 35) for n, query in enumerate(MANY)}
    gated(golden(MANY), results(first(30, dict.fromkeys(MANY, ["x"]))), **options).write_baseline(
        path
    )
    gate = gated(golden(MANY), results(first(28, nothing)), path, max_drop=0.01, **options)
    row = gate.verdicts.row(0, named=True)
    # 28 and 30 of the 35 queries with a document, not 28 of 35 and 30 of 60.
    assert (row["value"], row["queries"]) == (pytest.approx(-2 / 35), 35)
    assert not gate.passed


def test_categories_of_any_name_have_their_own_rows(path: Path) -> None:
    for name, where in {"": "category=", "null": 'category="null"'}.items():
        judged = golden(MANY, **{q: name if n < 40 else "k" for n, q in enumerate(MANY)})
        lost = results(first(20, FIRST, SECOND))
        gated(judged, results(FIRST), metrics="mrr").write_baseline(path)
        gate = gated(judged, lost, path, metrics="mrr")
        rows = gate.verdicts.filter(verdict="fail").select("where", "value").rows()
        assert rows == [("", pytest.approx(-1 / 6)), (where, pytest.approx(-1 / 4))]


def test_categories_that_the_baseline_lacks_are_not_compared(path: Path) -> None:
    gated(golden({"a": ["d1"]}, a="x"), results({"a": ["d1"]})).write_baseline(path)
    judged = golden({"a": ["d1"], "b": ["d2"]}, a="x", b="1")
    found = results({"a": ["d1"], "b": []})
    assert gated(judged, found, path, max_drop={"1": {"mrr@10": 0.1}}).passed
    with pytest.raises(pr.errors.ArgumentError, match="category 'z' .* no queries; .* '1', 'x'"):
        gated(judged, found, max_drop={"z": {"mrr@10": 0.1}})
    failed = gated(judged, found, floors={1: {"mrr@10": 0.5}}).failed
    assert failed == ["mrr@10 >= 0.5 (category=1)"]
    assert gated(judged, found, floors={"all": {"mrr@10": 0.5}}).passed
    # These are names of other queries, so that two rows would have one name.
    for name in ("all", "unanswerable"):
        with pytest.raises(pr.errors.DataError, match=f"'b', category = '{name}'.; rename"):
            gated(golden({"a": ["d1"], "b": ["d2"], "c": []}, a="x", b=name), RUN)
    # A query without a relevant document has no category of its own.
    gate = gated(golden({"a": ["d1"], "c": []}, a="x", c="all"), RUN, metrics="rr")
    assert gate.table["category"].to_list() == ["all", "unanswerable", "x"]
