"""`identify` runs backward: it finds the definition by which a number was computed."""

from __future__ import annotations

from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.conformance.choices import reference_choices
from polars_rank.conformance.reference import METRICS, value
from polars_rank.conventions import POLARS_RANK, PRESETS
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
    preset.name: [SPELLED[name] for name in COMPARED[preset.name].split() if name in SPELLED]
    for preset in PRESETS
}


def number(log: pl.DataFrame, metric: Any, **options: Any) -> float:
    """Return the mean of a metric."""
    return float(pr.evaluate(log, metric, **options).item(0, -1))


def computed(code: str, log: pl.DataFrame) -> float:
    """Return the value that a call computes."""
    return float(eval(code, {"pr": pr, "pl": pl, "log": log}).item(0, -1))


def check(found: pl.DataFrame, log: pl.DataFrame, expected: float) -> None:
    """Check that the rows fit, and that their code computes their values."""
    assert found["fits"].all() and found["others"].unique().to_list() == [found.height - 1]
    assert found["value"].to_list() == pytest.approx([expected] * found.height, abs=1e-6)
    codes = found.drop_nulls("code")
    assert [computed(code, log) for code in codes["code"]] == pytest.approx(
        codes["value"].to_list()
    )


@pytest.mark.parametrize(
    ("preset", "metric"),
    [
        ("polars_rank", "ndcg@4"),
        *((each, name) for each, names in TESTED.items() for name in names),
    ],
)
def test_presets(preset: str, metric: str) -> None:
    expected = pr.evaluate(LOG, metric, conventions=preset).item(0, -1)
    if expected is None:  # an undefined value makes the mean null
        return
    found = pr.identify(LOG, metric, repr(expected), n=20)
    texts = [text.removeprefix("as ").split(", ") for text in found["changes"]]
    assert any(preset in names for names in texts)
    check(found, LOG, expected)


SINGLE = {
    "gain: 2^label - 1": {"metrics": "ndcg(gain='exp2')@4"},
    "discount: 1 / rank": {"metrics": "ndcg(discount='reciprocal')@4"},
    "discount: 1 / log2(rank + 2)": {
        "metrics": pr.ndcg(4, discount=lambda rank: 1 / (rank + 2).log(2))
    },
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
}


@pytest.mark.parametrize("text", SINGLE)
def test_single_changes(text: str) -> None:
    call = {"metrics": "ndcg@4", **SINGLE[text]}
    expected = number(LOG, call.pop("metrics"), **call)
    found = pr.identify(LOG, "ndcg@4", f"{expected:.6f}", n=50)
    assert text in found["changes"].to_list()
    check(found, LOG, expected)


def test_thresholds() -> None:
    expected = number(LOG, "p@4", rel=3)
    found = pr.identify(LOG, "p@4", expected)
    assert found["changes"].to_list() == ["relevant: label of 3 or more"]
    check(found, LOG, expected)


@pytest.mark.parametrize(
    ("text", "metric", "options"),
    [
        ("gain: 2^label - 1; ideal ranking: of the retrieved documents only",
         "ndcg(gain='exp2', ideal='retrieved')@4", {}),
        ("gain: 2^label - 1; cutoff: 5", "ndcg(gain='exp2')@5", {}),
        ("discount: 1 / rank; tied scores: highest label first",
         "ndcg(discount='reciprocal')@4", {"ties": "best"}),
        ("tied scores: in the order of the rows; scores: compared as 32-bit floats",
         "ndcg@4", {"ties": "input", "float32_scores": True}),
    ],
)  # fmt: skip
def test_pairs(text: str, metric: str, options: dict[str, Any]) -> None:
    expected = number(LOG, metric, **options)
    found = pr.identify(LOG, "ndcg@4", expected, n=100)
    assert text in found["changes"].to_list()
    check(found, LOG, expected)


def test_the_conventions_that_change() -> None:
    expected = number(LOG, "ndcg@4", conventions="lightgbm", undefined="skip")
    found = pr.identify(LOG, "ndcg@4", expected, conventions="lightgbm")
    assert "as lightgbm; undefined" in found["changes"][0].lower()
    check(found, LOG, expected)


def test_choices_without_the_value_true() -> None:
    expected = number(LOG, "ndcg@4", conventions="trec_eval_9", float32_scores=False)
    found = pr.identify(LOG, "ndcg@4", expected, conventions="trec_eval_9")
    assert "as trec_eval 9; scores: compared as 64-bit floats" in found["changes"].to_list()
    check(found, LOG, expected)


def test_rounded_numbers() -> None:
    expected = number(LOG, "ndcg@4", conventions="lightgbm")
    few, many = (pr.identify(LOG, "ndcg@4", round(expected, digits), n=50) for digits in (1, 6))
    assert few["others"][0] > many["others"][0] == 0
    # Zeros at the end count as text.
    text = f"{round(expected, 1):.4f}"
    assert not pr.identify(LOG, "ndcg@4", text)["changes"].equals(few["changes"])


def test_rounded_values_of_queries() -> None:
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
    log = pl.DataFrame({
        "query": ["a", "a", "b", "b"], "doc": ["1", "2", "1", "2"],
        "score": [1.0, 1.0, 1.0, 1.0], "label": [1, 0, 0, 1],
    })  # fmt: skip
    # By id, query b has the value 1, and in the order of the rows, query a.
    found = pr.identify(log, "rr", 0.75)
    assert found["others"].unique().to_list() == [found.height - 1]
    assert found["queries"].to_list()[:2] == [
        [],
        [{"query": "a", "value": 1.0, "other": 0.5}, {"query": "b", "value": 0.5, "other": 1.0}],
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


def test_nothing_fits() -> None:
    found = pr.identify(LOG, "ndcg@4", "0.999999", n=3)
    assert found.height == 3 and not found["fits"].any() and found["others"].sum() == 0
    assert found["deviation"].is_sorted()
    assert (found["value"] + found["deviation"]).to_list() == pytest.approx([0.999999] * 3)


def of_reference(log: pl.DataFrame, metric: str, **changes: Any) -> float:
    """Return the mean of the reference."""
    parsed = read(metric)
    choices = {**reference_choices(parsed, POLARS_RANK), **changes}
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


@pytest.mark.parametrize(
    ("changes", "has_code"),
    [({"ties": "reversed"}, True), ({"ideal": "cut"}, False)],
    ids=["reversed", "cut"],
)
def test_choices_of_other_tools(changes: dict[str, Any], *, has_code: bool) -> None:
    expected = of_reference(LOG, "ndcg@4", **changes)
    found = pr.identify(LOG, "ndcg@4", f"{expected:.9f}")
    assert found.height == 1 and (found["code"].item() is not None) == has_code
    check(found, LOG, expected)


def test_metrics_of_the_library_only() -> None:
    expected = number(LOG, "rbp.8", ties="best", unjudged="removed")
    found = pr.identify(LOG, "rbp.8", expected)
    assert found["changes"].to_list() == [
        "tied scores: highest label first; unjudged documents: removed before documents are ranked"
    ]
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


@pytest.mark.parametrize(
    "value",
    [
        "many", "1_0", "٠.٨", "1e400", "-1e400", "0e400", float("nan"), None, [],
        pl.DataFrame({"a": 1, "b": 2}), pl.DataFrame({"query": ["1_0"], "ndcg": ["0.5_1"]}),
    ],
)  # fmt: skip
def test_only_numbers(value: Any) -> None:
    with pytest.raises(pr.errors.ArgumentError, match="`value`"):
        pr.identify(LOG, "ndcg@4", value)


def test_percentages_are_not_searched() -> None:
    with pytest.raises(pr.errors.ArgumentError, match=r"above 1, .*; divide percentages by 100"):
        pr.identify(LOG, "ndcg@4", "57.72")


def test_numbers_of_queries_need_the_column_of_queries() -> None:
    values = pr.per_query(LOG, "ndcg@4").rename({"query": "qid"})
    with pytest.raises(pr.errors.ArgumentError, match=r"rows, but no column 'query'; rename"):
        pr.identify(LOG, "ndcg@4", values)


def test_only_means() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="must be averaged over queries"):
        pr.identify(LOG, "num_retrieved", 3)


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
    expected = number(log, "ndcg@4", ties="best")
    found = pr.identify(log, "ndcg@4", expected)
    assert found["changes"].to_list() == ["tied scores: highest label first"]


def test_keys_of_long_logs_have_128_bits() -> None:
    row = pl.int_range(1_700_000, eager=True)
    log = pl.DataFrame(
        {
            "query": row // 20,
            "doc": row % 20,
            "score": row * 7919 % 13,
            "label": row * 104729 % 5 % 3,
        }
    )
    mean = pr.evaluate(log, "ndcg@10", conventions="trec_eval")["ndcg@10"].item()
    found = pr.identify(log, "ndcg@10", mean)
    assert found["fits"].all() and found["changes"][0].startswith("as trec_eval 10")
