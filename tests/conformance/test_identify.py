"""`identify` runs backward: it finds the definition by which a number was computed."""

from __future__ import annotations

import random
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

# All choices of tools, with their values in plain Python.
from polars_rank.definitions import Definition
from polars_rank.conformance.reference import METRICS, value
from polars_rank.conventions import POLARS_RANK, PRESETS, named
from polars_rank.metrics.compared import COMPARED
from polars_rank.metrics.names import read

from .logs import GRADES, NEGATIVE, random_log

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

LOG = random_log(11, GRADES, queries=60)
#: Metrics of presets, by name: those of the reference, and some of the library only.
SPELLED = {
    **{name: name for name in METRICS},
    **{name: f"{name}@4" for name in ("dcg", "ndcg", "average_precision", "precision", "err")},
    "bpref": "bpref", "pair_accuracy": "pair_accuracy", "rbp": "rbp.8", "roc_auc": "roc_auc",
}  # fmt: skip
TESTED = {
    preset.name: [SPELLED[name] for name in COMPARED[preset.name] if name in SPELLED]
    for preset in PRESETS
}


def number(log: pl.DataFrame, metrics: Any, **options: Any) -> float:
    """Return the mean of a metric."""
    return float(pr.evaluate(log, metrics, **options).item(0, -1))


def computed(code: str, log: pl.DataFrame) -> float:
    """Return the value that a call computes."""
    return float(eval(code, {"pr": pr, "pl": pl, "log": log}).item(0, -1))


def check(found: pl.DataFrame, log: pl.DataFrame, expected: float | None = None) -> None:
    """Check that the rows fit, and that their code computes their values."""
    assert found["fits"].all() and found["others"].unique().to_list() == [found.height - 1]
    if expected is not None:
        assert found["value"].to_list() == pytest.approx([expected] * found.height, abs=1e-6)
    codes = found.drop_nulls("code")
    values = [computed(code, log) for code in codes["code"]]
    assert values == pytest.approx(codes["value"].to_list(), abs=1e-9)


def presets(found: pl.DataFrame) -> list[list[str]]:
    """Return the names of presets in the changes of each row."""
    texts = (text.removeprefix("as ").split(";")[0] for text in found["changes"])
    return [text.split(", ") for text in texts]


@pytest.mark.parametrize("preset", ["polars_rank", *TESTED])
def test_presets(preset: str) -> None:
    """Some metrics are enough: `test_reference` compares the values of all."""
    metrics = TESTED.get(preset, ["ndcg@4"])
    for metric in random.Random(preset).sample(metrics, min(len(metrics), 4)):
        expected = pr.evaluate(LOG, metric, conventions=preset).item(0, -1)
        if expected is None:  # an undefined value makes the mean null
            continue
        found = pr.identify(LOG, metric, repr(expected), n=20)
        assert any(preset in names for names in presets(found)), metric
        check(found, LOG, expected)


def log_with(seed: int, *, pooled: bool, empty: bool, copies: bool) -> pl.DataFrame:
    """Return a small random log, with rankings without documents and copies of documents."""
    log = random_log(seed, GRADES, queries=6, pooled=pooled, longest=7)
    if copies:  # with other scores, and some with other labels or none
        label = pl.Series([*random.Random(seed).choices([None, 0, 1, 2], k=50)], dtype=pl.Int64)
        few = log.drop_nulls().gather_every(3)
        log = pl.concat([few.with_columns(pl.col("score") * 0.7, label=label[: few.height]), log])
    if empty:
        rows = pl.DataFrame({"query": ["1", "zz"]}, {"query": pl.String})
        log = pl.concat([log, rows], how="diagonal")
    return log.sample(fraction=1, shuffle=True, seed=seed)


@pytest.mark.parametrize(("pooled", "empty", "copies"), [(1, 0, 1), (0, 1, 1)])
def test_numbers_of_each_preset(*, pooled: bool, empty: bool, copies: bool) -> None:
    draw, tried = random.Random(4), 0
    for seed, (preset, metrics) in enumerate(TESTED.items()):
        if not metrics:
            continue
        metric = draw.choice(metrics)
        log = log_with(seed, pooled=pooled, empty=empty, copies=copies)
        refused = copies and named(preset).duplicates == "error"
        treatment = {"duplicates": draw.choice(["max", "first"])} if refused else {}
        mean = pr.evaluate(log, metric, conventions=preset, **treatment).item(0, -1)
        given: Any = pr.per_query(log, metric, conventions=preset, **treatment)
        if mean is not None and draw.random() < 0.5:  # undefined values may make it null
            given = f"{mean:.9f}"
        found = pr.identify(log, metric, given, n=50)
        assert any(preset in each for each in presets(found)), (preset, metric)
        check(found, log)
        tried += 1
    assert tried > 12


def log_of(text: str) -> pl.DataFrame:
    """Return a log of rows "query doc score label", with "-" for null."""
    rows = [[None if cell == "-" else cell for cell in row.split()] for row in text.split(",")]
    frame = pl.DataFrame(rows, ["query", "doc", "score", "label"], orient="row")
    return frame.cast({"query": pl.Int64, "score": pl.Float64, "label": pl.Int64})


#: The kept copy decides the rank of a document, its label and whether the query counts.
COPIES = "1 a 1 1, 1 a 3 0, 1 b 2 1, 2 c 2 -, 2 c 1 1"
#: A log, a metric, its options, the number as text, its value, and the start of the changes.
SMALL: list[tuple[str, str, dict[str, Any], str, float, str]] = [
    # "max" keeps label 0 of a before b, and "first" label 1 of a after b; c is not judged.
    (COPIES, "ap", {"duplicates": "max", "query_set": "judged"}, "0.500000", 1 / 2, "as given"),
    (COPIES, "ap", {"duplicates": "first", "query_set": "judged"}, "1.000000", 1, "as given"),
    # Query 2 has one retrieved document, which is not judged.
    ("1 a 1 1, 1 b 2 0, 2 c 1 -, 2 d - 1", "rr",
     {"unjudged": "removed", "query_set": "retrieved"}, "0.500000", 1 / 2, "as given"),
    # RBP of ranx may be above 1: 0.2 * 4 * (1 + 0.8).
    ("1 a 2 4, 1 b 1 4", "rbp.8", {}, "1.440000", 1.44, "as ranx"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "metric", "options", "given", "expected", "start"), SMALL)
def test_small_logs(
    text: str, metric: str, options: Any, given: str, expected: float, start: str
) -> None:
    log = log_of(text)
    found = pr.identify(log, metric, given, **options)
    assert found["changes"][0].startswith(start)
    check(found, log, expected)


def test_a_ranking_without_documents_does_not_change_the_order_of_others() -> None:
    for dtype in (pl.String, pl.Int64, pl.Categorical):
        log = log_of("1 1 1 1, 1 2 1 0, 2 - - -").with_columns(pl.col("doc").cast(dtype))
        # Document 2 is first: document 1 has rank 2, and the other ranking has the value 0.
        found = pr.identify(log, "rr", pr.per_query(log, "rr"))
        assert "polars_rank" in found["changes"].item()
        check(found, log, (1 / 2 + 0) / 2)


#: Changes of `ndcg@4`: their text, and the call that makes them.
CHANGES: dict[str, dict[str, Any]] = {
    "gain: 2^label - 1": {"metrics": "ndcg(gain='exp2')@4"},
    "discount: 1 / rank": {"metrics": "ndcg(discount='reciprocal')@4"},
    "discount: 1 / log2(rank + 2)": {
        "metrics": pr.ndcg(4, discount=lambda rank: 1 / (rank + 2).log(2))},
    "ideal ranking: of the retrieved documents only": {"metrics": "ndcg(ideal='retrieved')@4"},
    "cutoff: 3": {"metrics": "ndcg@3"},
    "cutoff: 5": {"metrics": "ndcg@5"},
    "tied scores: highest label first": {"ties": "best"},
    "tied scores: in the order of the rows": {"ties": "input"},
    "scores: compared as 32-bit floats": {"float32_scores": True},
    "unjudged documents: removed before documents are ranked": {"unjudged": "removed"},
    "undefined values: counts as 1": {"undefined": "one"},
    "undefined values: excluded from the mean": {"undefined": "skip"},
    "queries: with at least one judged and at least one retrieved document": {"query_set": "both"},
    "gain: 2^label - 1; ideal ranking: of the retrieved documents only": {
        "metrics": "ndcg(gain='exp2', ideal='retrieved')@4"
    },
    "discount: 1 / rank; tied scores: highest label first": {
        "metrics": "ndcg(discount='reciprocal')@4", "ties": "best"
    },
    "tied scores: in the order of the rows; scores: compared as 32-bit floats": {
        "ties": "input", "float32_scores": True
    },
}  # fmt: skip


@pytest.mark.parametrize("text", CHANGES)
def test_changes(text: str) -> None:
    expected = number(LOG, **{"metrics": "ndcg@4", **CHANGES[text]})
    found = pr.identify(LOG, "ndcg@4", f"{expected:.9f}", n=100)
    assert text in found["changes"].to_list()
    check(found, LOG, expected)


#: A metric, options of its number and of `identify`, and the changes, or the start of one.
OTHERS: list[tuple[str, dict[str, Any], dict[str, Any], list[str] | str]] = [
    ("p@4", {"rel": 3}, {}, ["relevant: label of 3 or more"]),
    ("rbp.8", {"ties": "best", "unjudged": "removed"}, {},
     ["tied scores: highest label first; unjudged documents: removed before documents are ranked"]),
    ("ndcg@4", {"undefined": "skip"}, {"conventions": "lightgbm"}, "as LightGBM; undefined"),
    ("ndcg@4", {"float32_scores": False}, {"conventions": "trec_eval_9"},
     "as trec_eval 9; scores: compared as 64-bit"),
]  # fmt: skip


def test_changes_of_other_metrics_and_presets() -> None:
    for metric, options, both, text in OTHERS:
        expected = number(LOG, metric, **options, **both)
        found = pr.identify(LOG, metric, expected, **both)
        changes = found["changes"].to_list()
        assert changes == text or any(each.startswith(text) for each in changes if both), changes
        check(found, LOG, expected)


def test_rounded_numbers() -> None:
    expected = number(LOG, "ndcg@4", conventions="lightgbm")
    few, many = (pr.identify(LOG, "ndcg@4", round(expected, digits), n=50) for digits in (1, 6))
    assert few["others"][0] > many["others"][0] == 0
    # Zeros at the end count as text.
    text = f"{round(expected, 1):.4f}"
    assert not pr.identify(LOG, "ndcg@4", text)["changes"].equals(few["changes"])
    values = pr.per_query(LOG, "ndcg@4")["ndcg@4"]
    expected = float(values.round(2).mean())  # type: ignore[arg-type]
    found = pr.identify(LOG, "ndcg@4", f"{expected:.8f}")
    assert found["changes"][0] == "values of queries: rounded to 2 decimals"
    check(found, LOG, expected)


def test_values_of_queries() -> None:
    values = pr.per_query(LOG, "ndcg@4", conventions="trec_eval_9")
    missing = LOG["query"].n_unique() - values.height
    assert missing > 0
    found = pr.identify(LOG, "ndcg@4", values)
    assert found["changes"][0].startswith("as trec_eval 9") and found["deviation"][0] < 1e-12
    assert found["queries"].to_list() == [[]] * found.height
    # The values of some queries do not fit: a missing query does not count.
    some = pr.identify(LOG, "ndcg@4", values.head(-1))
    assert not some["fits"].any()
    query, last = values.row(-1)
    assert some["queries"][0][0] == {"query": query, "value": last, "other": None}
    # One query of another definition: what fits best, and where it does not.
    one = pl.col("query") == values["query"][0]
    other = values.with_columns(pl.when(one).then(0.123456).otherwise("ndcg@4").alias("ndcg@4"))
    found = pr.identify(LOG, "ndcg@4", other)
    assert not found["fits"].any()
    assert found["queries"][0][0]["query"] == values["query"][0]
    assert found["queries"][0][0]["other"] == 0.123456


def test_queries_that_tell_numbers_apart() -> None:
    log = log_of("1 1 1 1, 1 2 1 0, 2 1 1 0, 2 2 1 1")
    # By id, query 2 has the value 1, and in the order of the rows, query 1.
    found = pr.identify(log, "rr", 0.75)
    assert found["others"].unique().to_list() == [found.height - 1]
    assert found["queries"].to_list()[:2] == [
        [],
        [{"query": 1, "value": 1.0, "other": 0.5}, {"query": 2, "value": 0.5, "other": 1.0}],
    ]


def test_means_of_runs() -> None:
    runs = pl.concat(
        random_log(seed, GRADES).with_columns(run=pl.lit(f"run {seed}")) for seed in (1, 2)
    )
    means = pr.evaluate(runs, "ndcg@4", conventions="ranx")
    numbers = dict(means.select("run", pl.col("ndcg@4").round(4)).iter_rows())
    for given in (numbers, means.select("run", "ndcg@4")):
        found = pr.identify(runs, "ndcg@4", given)
        assert found["changes"].to_list() == ["as ranx"]
    with pytest.raises(pr.errors.ArgumentError, match="no column 'run', in which the rankings"):
        pr.identify(runs, "ndcg@4", 0.5)
    with pytest.raises(pr.errors.DataError, match=r"1 number of `value` not found .*'other'"):
        pr.identify(runs, "ndcg@4", {"other": 0.5})


def test_the_value_is_that_of_the_run_with_the_largest_difference() -> None:
    log = pl.DataFrame({
        "run": ["a", "a", "b", "b", "c", "c"], "query": 1, "doc": [1, 2] * 3,
        "score": [2.0, 1.0, 1.0, 2.0, 1.0, 2.0], "label": [1, 0, 1, 0, 1, 1],
    })  # fmt: skip
    # The values are 1, 1/2 and 1. The mean of all runs, 5/6, is the value of none.
    row = pr.identify(log, "rr", {"a": "1.00", "b": "0.50"}).row(0, named=True)
    assert (row["value"], row["deviation"], row["fits"]) == (1.0, 0.0, True)
    row = pr.identify(log, "rr", {"a": "1.00", "b": "0.504"}).row(0, named=True)
    assert (row["value"], row["fits"]) == (0.5, False)
    assert row["deviation"] == pytest.approx(0.504 - 0.5)
    assert pr.identify(log, "rr", {"b": "0.50"})["value"].item() == 0.5
    values = pr.per_query(log, "rr").with_columns(pl.col("rr") + pl.Series([0.0, 0.004, 0.0]))
    assert pr.identify(log, "rr", values)["value"][0] == 0.5


def test_exact_fits_come_first() -> None:
    """The only relevant document is tied at ranks 4 and 5."""
    log = log_of("1 e 5 0, 1 d 4 0, 1 c 3 0, 1 a 2 0, 1 b 2 1")
    found = pr.identify(log, "rr", pl.DataFrame({"query": [1], "rr": [0.2]}), n=20)
    assert found["fits"].all() and found["tolerance"].unique().to_list() == [0.05]
    # By document id, as in the first presets, it is at rank 4: 0.25 fits, but not exactly.
    assert found["value"].to_list() == [1 / 5, 1 / 4]
    assert found["deviation"].to_list() == pytest.approx([0, 0.05])
    assert "polars_rank" in found["changes"][1]
    exact = pr.identify(log, "rr", "0.2000")
    assert (exact["tolerance"].item(), exact["value"].item()) == (0.00005, 1 / 5)


def test_values_of_queries_that_are_all_undefined() -> None:
    log = log_of("1 a 1 0, 2 a 1 0")
    values = pr.per_query(log, "rr", undefined="null")
    assert values["rr"].to_list() == [None, None]
    found = pr.identify(log, "rr", values)
    assert found["fits"].all() and found["deviation"].to_list() == [0.0] * found.height
    assert not pr.identify(log, "rr", values.with_columns(rr=pl.Series([None, 0.5])))["fits"].any()


def test_nothing_fits() -> None:
    found = pr.identify(LOG, "ndcg@4", "0.999999", n=3)
    assert found.height == 3 and not found["fits"].any() and found["others"].sum() == 0
    assert found["deviation"].is_sorted()
    assert (found["value"] + found["deviation"]).to_list() == pytest.approx([0.999999] * 3)


def of_reference(log: pl.DataFrame, metric: str, **changes: Any) -> float:
    """Return the mean of the reference."""
    parsed = read(metric)
    choices = {**Definition.of(parsed, POLARS_RANK).choices(), **changes}
    values = []
    for _, rows in log.group_by("query"):
        ranking = rows.drop_nulls("score").select("doc", "score").rows()
        judgments = dict(rows.drop_nulls("label").select("doc", "label").iter_rows())
        values.append(value(parsed.function.__name__, ranking, judgments, choices) or 0.0)
    return sum(values) / len(values)


@pytest.mark.parametrize("treatment", ["max", "first", "credited", "uncredited"])
def test_copies(treatment: str) -> None:
    rows = random_log(5, NEGATIVE, queries=30, tied=False)
    copies = rows.drop_nulls("score").gather_every(3).with_columns(pl.col("score") * 1.3 - 1)
    log = pl.concat([copies, rows])
    expected = of_reference(log, "dcg@4", duplicates=treatment)
    found = pr.identify(log, "dcg@4", expected)
    assert found.height == 1 and found["fits"].item()
    library = treatment in ("max", "first")
    assert (found["code"].item() is not None) == library
    check(found, log, expected)


def test_choices_of_other_tools() -> None:
    for changes, has_code in (({"ties": "reversed"}, True), ({"ideal": "cut"}, False)):
        expected = of_reference(LOG, "ndcg@4", **changes)
        found = pr.identify(LOG, "ndcg@4", f"{expected:.9f}")
        assert found.height == 1 and (found["code"].item() is not None) == has_code
        check(found, LOG, expected)


def test_columns_are_in_the_code() -> None:
    log = LOG.rename({"query": "q", "doc": "d"}).with_columns(score=-pl.col("score"))
    columns = {"query": "q", "doc": "d", "score": "-score"}
    expected = number(log, "ndcg@4", ties="best", **columns)
    found = pr.identify(log.lazy(), "ndcg@4", expected, **columns)
    assert found["code"].to_list() == [
        'pr.evaluate(log, "ndcg@4", query="q", doc="d", score="-score", ties="best")'
    ]
    check(found, log, expected)


WRONG = [
    *("many", "1_0", "٠.٨", "1e400", "-1e400", "0e400", float("nan"), None, []),
    *(pl.DataFrame({"a": 1, "b": 2}), pl.DataFrame({"query": ["1_0"], "ndcg": ["0.5_1"]})),
]


def test_errors() -> None:
    values = pr.per_query(LOG, "ndcg@4").rename({"query": "qid"})
    for metric, value, message in (
        *(("ndcg@4", each, "`value`") for each in WRONG),
        ("ndcg@4", "57.72", "above 1, .*; divide percentages by 100"),
        ("ndcg@4", values, "rows, but no column 'query'; rename"),
        ("num_retrieved", 3, "must be averaged over queries"),
    ):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.identify(LOG, metric, value)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Categorical, pl.Enum([f"d{i}" for i in range(30)])])
def test_ids_of_any_type(dtype: Any) -> None:
    ids = pl.col("doc").str.strip_prefix("d") if dtype == pl.Int64 else pl.col("doc")
    log = LOG.with_columns(ids.cast(dtype))
    for text_ids in (False, True):
        expected = number(log, "ndcg@4", text_ids=text_ids)
        found = pr.identify(log, "ndcg@4", expected, n=20)
        is_default = found["changes"][0].startswith("as polars_rank")
        assert is_default == (not text_ids or dtype == pl.Categorical)
        check(found, log, expected)


def test_logs_without_ids() -> None:
    log = LOG.drop("doc")
    found = pr.identify(log, "ndcg@4", number(log, "ndcg@4", ties="best"))
    assert found["changes"].to_list() == ["tied scores: highest label first"]


def test_a_log_without_rows_has_no_definition() -> None:
    log = pl.DataFrame({"query": 1, "doc": 1, "score": 1.0, "label": 1}).clear()
    assert pr.identify(log, value=0.5, metric="ndcg@3").is_empty()


def test_parts_of_a_log_have_the_values_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    log = pr.datasets.search_log(60, runs=1).select("query", "doc", "score", "label").collect()
    value = pr.evaluate(log, "ndcg@3", conventions="lightgbm").item(0, 1)
    calls = [{"value": value, "metric": "ndcg@3"}, {"value": 0.4321, "metric": "ap"}]
    whole = [pr.identify(log, **call) for call in calls]
    for kept in (10**6, 100):
        monkeypatch.setattr("polars_rank.conformance.search._ROWS_OF_PART", 100)
        monkeypatch.setattr("polars_rank.conformance.search._ROWS_KEPT", kept)
        for call, expected in zip(calls, whole, strict=True):
            assert_frame_equal(pr.identify(log, **call), expected, rel_tol=1e-12, abs_tol=1e-12)
