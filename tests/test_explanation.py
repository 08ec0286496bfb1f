"""`explain` has words for every choice; `explain_difference` adds up to the difference."""

from __future__ import annotations

import inspect
import math
from dataclasses import fields, replace

import polars as pl
import polars_rank as pr
import pytest
from polars_rank.conventions import PRESETS
from polars_rank.metrics.metric import REGISTER
from strategies import NEEDED, log_of, random_lists

LOG = log_of(random_lists(5, queries=20))
OURS = pr.POLARS_RANK
COLUMNS = ["choice", "a", "b", "before", "after", "change", "share", "worst"]


def table(lists: dict[str, list[tuple]]) -> pl.DataFrame:
    """Lists of (score, label), documents numbered in order."""
    rows = [(q, d, *row) for q, docs in lists.items() for d, row in enumerate(docs)]
    schema = {"query": pl.String, "doc": pl.Int64, "score": pl.Float64, "label": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


def worst(row: dict) -> dict[str, float]:
    return {each["query"]: each["change"] for each in row["worst"]}


def single(log: pl.DataFrame, metric: str | pl.Expr, **choices: object) -> dict:
    """The only row of the difference that some choices make."""
    (row,) = pr.explain_difference(log, metric, OURS, replace(OURS, **choices)).to_dicts()
    return row


# Each choice, with the numbers by hand. Where nothing else is said, list "b" stays as it is.

TIED = table({"a": [(1, 0), (1, 1)], "b": [(2, 1), (1, 0)]})


@pytest.mark.parametrize(
    ("ties", "value"), [("worst", 1 / 2), ("doc_ascending", 1 / 2), ("expected", (1 + 1 / 2) / 2)]
)
def test_ties(ties: str, value: float) -> None:
    row = single(TIED, "rr", ties=ties)  # by document id descending, the relevant one is first
    assert [row[name] for name in COLUMNS[:3]] == ["ties", "doc", ties]
    assert (row["before"], row["after"]) == pytest.approx(((1 + 1) / 2, (value + 1) / 2))
    assert row["change"] == pytest.approx((value - 1) / 2)
    assert row["share"] == 1
    assert worst(row) == pytest.approx({"a": value - 1})


def test_relevant() -> None:
    log = table({"a": [(2, 1), (1, 2)], "b": [(2, 2), (1, 0)]})
    row = single(log, "rr", relevant=2)
    assert [row[name] for name in COLUMNS[:3]] == ["relevant", "at least 1", "at least 2"]
    assert row["change"] == (1 / 2 - 1) / 2
    assert worst(row) == {"a": 1 / 2 - 1}
    assert single(log, "rr", relevant=math.nextafter(1.5, 2))["b"] == "above 1.5"


UNDEFINED = table({"a": [(2, 0), (1, 0)], "b": [(2, 0), (1, 1)]})


def test_undefined() -> None:
    one = single(UNDEFINED, "rr", undefined="one")
    assert [one[name] for name in COLUMNS[:3]] == ["undefined", "zero", "one"]
    assert (one["before"], one["after"]) == ((0 + 1 / 2) / 2, (1 + 1 / 2) / 2)
    assert worst(one) == {"a": 1 - 0}
    skip = single(UNDEFINED, "rr", undefined={"reciprocal_rank": "skip", "ndcg": "one"})
    assert (skip["b"], skip["after"]) == ("skip", 1 / 2)
    assert worst(skip) == {"a": 1 / 2 - 0}  # it now stands at the mean
    null = single(UNDEFINED, "rr", undefined="null")
    assert (null["after"], null["change"], null["share"]) == (None, None, None)
    assert worst(null) == {"a": None}
    geometric = single(UNDEFINED, "gmap", undefined="one")
    assert geometric["before"] == pytest.approx(math.sqrt(1e-5 * 1 / 2))
    assert geometric["after"] == pytest.approx(math.sqrt(1 * 1 / 2))


def test_queries() -> None:
    log = table({"a": [(1, None)], "b": [(None, 1)], "c": [(2, 0), (1, 1)]})
    judged, found, both = (
        single(log, "rr", queries=which) for which in ("judged", "retrieved", "both")
    )
    assert judged["before"] == (0 + 0 + 1 / 2) / 3
    assert (judged["after"], found["after"], both["after"]) == (1 / 4, 1 / 4, 1 / 2)
    assert worst(judged) == {"a": 1 / 4 - 0}
    assert worst(found) == {"b": 1 / 4 - 0}
    assert worst(both) == {"a": 1 / 2 - 0, "b": 1 / 2 - 0}
    counted = single(log, "num_q", queries="both")
    assert (counted["before"], counted["after"]) == (3, 1)
    assert worst(counted) == {"a": -1, "b": -1}


def test_unjudged() -> None:
    log = table({"a": [(2, None), (1, 1)], "b": [(2, 1), (1, 0)]})
    row = single(log, "rr", unjudged="removed")
    assert [row[name] for name in COLUMNS[:3]] == ["unjudged", "nonrelevant", "removed"]
    assert row["change"] == (1 - 1 / 2) / 2
    assert worst(row) == {"a": 1 - 1 / 2}


def test_float32_scores() -> None:
    log = table({"a": [(1 + 1e-9, 1), (1, 0)], "b": [(2, 1), (1, 0)]})
    row = single(log, "rr", float32_scores=True)
    assert [row[name] for name in COLUMNS[:3]] == ["float32_scores", "False", "True"]
    assert worst(row) == {"a": 1 / 2 - 1}


def test_gain_from() -> None:
    log = table({"a": [(2, -1), (1, 1)], "b": [(2, 1), (1, 0)]})
    row = single(log, "cg", gain_from=0)
    assert [row[name] for name in COLUMNS[:3]] == ["gain_from", "None", "at least 0"]
    assert (row["before"], row["after"]) == ((-1 + 1 + 1) / 2, (0 + 1 + 1) / 2)
    assert worst(row) == {"a": 1}


def test_parameters() -> None:
    log = table({"a": [(3, 2), (2, 1), (1, 0), (None, 1)], "b": [(3, 1), (2, 0)]})
    gain = single(log, "cg@2", parameters={"gain": "exp2", "norm": "min"})
    assert [gain[name] for name in COLUMNS[:3]] == ["gain", "linear", "exp2"]
    assert gain["change"] == ((3 + 1) - (2 + 1)) / 2
    norm = single(log, "ap@2", parameters={"average_precision.norm": "min", "recall.norm": "?"})
    assert [norm[name] for name in COLUMNS[:3]] == ["norm", "R", "min"]
    assert norm["change"] == pytest.approx((2 / 2 - 2 / 3) / 2)
    assert worst(norm) == pytest.approx({"a": 2 / 2 - 2 / 3})


def test_exceptions() -> None:
    other = {"reciprocal_rank": {"ties": "worst"}}
    assert single(TIED, "rr", exceptions=other)["choice"] == "ties"
    assert pr.explain_difference(TIED, "p@1", OURS, replace(OURS, exceptions=other)).is_empty()


# What is no difference.


@pytest.mark.parametrize(
    ("metric", "choices"),
    [
        ("rr", {}),
        ("rr", {"name": "other", "ties": "doc", "undefined": {"*": "zero", "ndcg": "one"}}),
        ("rr", {"parameters": {"gain": "exp2"}, "gain_from": 1}),
        ("cg", {"relevant": 2, "parameters": {"gain": "linear"}}),
        ("ndcg(gain={0: 0, 1: 2})", {"parameters": {"gain": {0: 0, 1: 3}}}),
        ("recall(rel=2)", {"relevant": 3}),
        ("set_recall", {"ties": "worst", "float32_scores": True}),
        (pl.col("label").max(), {"ties": "worst", "relevant": 2, "gain_from": 1}),
    ],
)
def test_nothing_differs(metric: str | pl.Expr, choices: dict) -> None:
    found = pr.explain_difference(LOG, metric, OURS, replace(OURS, **choices))
    assert found.is_empty()
    assert found.schema == pr.explain_difference(LOG, "rr", OURS, pr.LIGHTGBM).schema
    assert found.columns == COLUMNS


def test_without_documents() -> None:
    log = TIED.drop("doc")
    assert pr.explain_difference(log, "rr", OURS, replace(OURS, ties="worst")).is_empty()
    assert pr.explain_difference(log, "rr", OURS, replace(OURS, ties="best")).height == 1


# The changes add up.


@pytest.mark.parametrize("other", PRESETS, ids=lambda preset: preset.name)
def test_changes_add_up(other: pr.Conventions) -> None:
    for metric in ("ndcg@3", "ap@3", "p@2", "rr", "gmap@3", "num_rel"):
        if metric == "gmap@3" and other.ties == "expected":
            continue
        for a, b in ((OURS, other), (other, OURS)):
            found = pr.explain_difference(LOG, metric, a, b, worst=99)
            means = [pr.evaluate(LOG, metric, conventions=each)[metric].item() for each in (a, b)]
            total = means[1] - means[0]
            assert found["change"].sum() == pytest.approx(total, abs=1e-12)
            assert found["before"].to_list()[1:] == found["after"].to_list()[:-1]
            if not found.is_empty():
                ends = (found["before"][0], found["after"][-1])
                assert ends == pytest.approx(means, abs=1e-12)
            if abs(total) > 1e-9:
                assert found["share"].sum() == pytest.approx(1)


def test_expected_ties_come_last() -> None:
    # Divided by hits, AP has no closed form for tied documents.
    found = pr.explain_difference(LOG, "ap@3", pr.TORCHMETRICS, pr.SKLEARN)
    assert found["choice"].to_list() == ["float32_scores", "norm", "ties"]
    back = pr.explain_difference(LOG, "ap@3", pr.SKLEARN, pr.TORCHMETRICS)
    assert back["choice"].to_list() == ["ties", "float32_scores", "norm"]


def test_lists_add_up() -> None:
    other = replace(OURS, ties="worst", relevant=2)
    found = pr.explain_difference(LOG, "rr", OURS, other, worst=99)
    queries = LOG["query"].n_unique()
    for row in found.to_dicts():
        assert sum(worst(row).values()) / queries == pytest.approx(row["change"])
        changes = [abs(change) for change in worst(row).values()]
        assert changes == sorted(changes, reverse=True)
    few = pr.explain_difference(LOG, "rr", OURS, other, worst=2)
    assert few["worst"].to_list() == found["worst"].list.head(2).to_list()


# Frames.


def test_groups_and_names() -> None:
    log = LOG.rename({"query": "q", "doc": "d", "score": "s", "label": "l"})
    log = log.with_columns(run=pl.col("q") % 2, half=pl.col("q") // 10)
    names = {"query": ["half", "q"], "doc": "d", "score": "s", "label": "l", "by": "run"}
    other = replace(OURS, ties="worst", undefined="skip")
    found = pr.explain_difference(log, "rr", OURS, other, **names)
    assert found.columns == ["run", *COLUMNS]
    assert found.select("run", "choice").rows() == [
        (run, choice) for run in (0, 1) for choice in ("ties", "undefined")
    ]
    total = found.group_by("run").agg(pl.col("change").sum()).sort("run")["change"].to_list()
    means = [pr.evaluate(log, "rr", **names, conventions=each)["rr"] for each in (OURS, other)]
    assert total == pytest.approx((means[1] - means[0]).to_list())
    assert {field.name for field in found.schema["worst"].inner.fields} == {"half", "q", "change"}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy(engine: str) -> None:
    other = replace(pr.XGBOOST, queries="both", unjudged="removed")
    eager = pr.explain_difference(LOG, "ap@3", OURS, other)
    lazy = pr.explain_difference(LOG.lazy(), "ap@3", OURS, other)
    assert isinstance(lazy, pl.LazyFrame)
    collected = lazy.collect(engine=engine)
    assert collected.select(COLUMNS[:3]).equals(eager.select(COLUMNS[:3]))
    assert collected["change"].to_list() == pytest.approx(eager["change"].to_list())
    same = pr.explain_difference(LOG.lazy(), "ap@3", OURS, OURS)
    assert same.collect(engine=engine).is_empty()


def test_empty_log() -> None:
    found = pr.explain_difference(LOG.clear(), "rr", OURS, pr.LIGHTGBM)
    assert found["choice"].to_list() == ["ties", "relevant", "undefined"]
    assert found["change"].null_count() == 3
    assert found["worst"].to_list() == [[], [], []]


def test_bad_arguments() -> None:
    with pytest.raises(pr.ArgumentError, match="one metric"):
        pr.explain("official")
    with pytest.raises(pr.ArgumentError, match="one metric"):
        pr.explain_difference(LOG, "official", OURS, pr.TREC_EVAL)
    with pytest.raises(pr.ArgumentError, match="worst"):
        pr.explain_difference(LOG, "rr", OURS, pr.TREC_EVAL, worst=0)
    with pytest.raises(pr.ArgumentError, match="`by` names the column 'share'"):
        pr.explain_difference(LOG.with_columns(share=1), "rr", OURS, OURS, by="share")
    with pytest.raises(pr.ArgumentError, match="`query` names the column 'change'"):
        log = LOG.rename({"query": "change"})
        pr.explain_difference(log, "rr", OURS, OURS, query="change")


# Words.


@pytest.mark.parametrize(
    ("metric", "choices", "words"),
    [
        ("rr", {}, "by document id, descending; without ids, the lower label"),
        ("rr", {"ties": "doc_ascending"}, "by document id, ascending"),
        ("rr", {"ties": "best"}, "the higher label comes first"),
        ("rr", {"ties": "worst"}, "the lower label comes first"),
        ("rr", {"ties": "input"}, "as their rows come"),
        ("rr", {"ties": "expected"}, "the mean over all those orders"),
        ("rr", {"relevant": 2}, "relevant if its label is at least 2"),
        ("rr", {"relevant": math.nextafter(0.5, 1)}, "relevant if its label is above 0.5"),
        ("rr", {}, "undefined counts as 0 in the mean"),
        ("rr", {"undefined": {"reciprocal_rank": "one"}}, "undefined counts as 1 in the mean"),
        ("gmap", {}, "undefined counts as 1e-05 in the geometric mean"),
        ("num_rel", {"undefined": "skip"}, "undefined is left out of the sum"),
        ("rr", {"undefined": "null"}, "undefined makes the mean null"),
        ("rr", {}, "Every list counts"),
        ("rr", {"queries": "judged"}, "at least one of its documents is judged"),
        ("rr", {"queries": "retrieved"}, "at least one of its documents is retrieved"),
        ("rr", {"queries": "both"}, "is judged, and at least one is retrieved"),
        ("rr", {}, "without a label keeps its rank"),
        ("rr", {"unjudged": "removed"}, "removed before ranks are given"),
        ("rr", {}, "compared as they are"),
        ("rr", {"float32_scores": True}, "compared as 32-bit floats"),
        ("ndcg", {}, "negative ones as a penalty"),
        ("ndcg", {"gain_from": 0}, "has a gain if it is at least 0"),
        ("ndcg", {}, "holds all judged documents, retrieved or not"),
        ("ndcg(ideal='retrieved')", {}, "only if they are retrieved"),
        ("ndcg", {"parameters": {"gain": "exp2"}}, "- gain = exp2 (other): Gain 2^label - 1"),
        ("ndcg", {"parameters": {"gain": "linear"}}, "- gain = linear (default): Gain equal"),
        ("ndcg", {}, "- discount = log2 (default): Discount 1 / log2(rank + 1)"),
        ("ap@5", {}, "- k = 5 (given): Cutoff"),
        ("ap", {}, "divisor is the number of relevant documents, retrieved or not"),
        ("ap", {"parameters": {"average_precision.norm": "min"}}, "smaller of k and"),
        ("ap(norm='hits')", {"parameters": {"norm": "min"}}, "- norm = hits (given): The divisor"),
        ("rr", {"exceptions": {"reciprocal_rank": {"ties": "input"}}}, "as their rows come"),
    ],
)
def test_words(metric: str, choices: dict, words: str) -> None:
    text = pr.explain(metric, replace(OURS, name="other", **choices))
    assert words in text
    assert "Choices of other" in text


def test_choices_that_cannot_matter_are_left_out() -> None:
    assert "is relevant if" not in pr.explain("ndcg")
    assert "same score" not in pr.explain("set_recall")
    assert "has the gain" not in pr.explain("ap")


def test_own_expression() -> None:
    best = pl.col("label").filter(pl.col("rank") <= 3).max().alias("best")
    text = pr.explain(best)
    assert text.startswith(f"best: {best}\nChoices of polars_rank:")
    assert "same score" in text
    log = table({"a": [(1, 0), (1, 2)], "b": [(2, 1), (1, 0)]})
    first = pl.col("label").filter(pl.col("rank") == 1).first().alias("first")
    row = single(log, first, ties="worst")
    assert (row["before"], row["after"]) == ((2 + 1) / 2, (0 + 1) / 2)
    assert worst(row) == {"a": 0 - 2}


@pytest.mark.parametrize("name", REGISTER)
def test_every_metric_is_explained(name: str) -> None:
    parameters = inspect.signature(REGISTER[name]).parameters.values()
    metric = REGISTER[name](**{p.name: NEEDED[p.name] for p in parameters if p.default is p.empty})
    for preset in (OURS, *PRESETS):
        lines = pr.explain(metric, preset).splitlines()
        assert lines[0].startswith(f"{metric}: ")
        assert any(line.startswith("Value: ") for line in lines)
        assert not any(line.endswith((": ", " ")) for line in lines)


def test_every_choice_has_a_sentence() -> None:
    from polars_rank.explanation import _SENTENCES

    apart = {"name", "parameters", "exceptions"}
    assert {choice.name for choice in fields(OURS)} == apart | _SENTENCES.keys()
