"""Rule: a value that reads itself from text, prints itself, and decides a row."""

from __future__ import annotations

from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import check_each

needs.package("scipy", "stats")

NUMBERS = st.integers(-10_000, 10_000).map(lambda n: n / 100) | st.floats(-1, 1)
RULES = st.builds(
    pr.Rule,
    st.sampled_from(["ndcg@10", "ndcg(gain='exp2')@10", "low", "p_value", "diff(ap)"]),
    st.sampled_from([">=", "<=", ">", "<"]),
    NUMBERS,
    st.sampled_from(["difference", "relative_difference", "low", "queries", "p_value"]),
    st.dictionaries(
        st.sampled_from(["country", "day"]), st.sampled_from(["JP", "a, b", "null", None])
    ),
    st.booleans(),
)


@given(RULES)
def test_a_rule_reads_what_it_prints(rule: pr.Rule) -> None:
    assert pr.Rule.read(str(rule)) == rule
    assert str(pr.Rule("rr", ">=", -0.0, "relative_difference")) == "difference(rr) >= 0%"
    assert hash(pr.Rule.read(str(rule))) == hash(rule)


def test_texts_of_rules() -> None:
    def check(text: Any, *arguments: Any, **options: Any) -> None:
        assert pr.Rule.read(text) == pr.Rule(*arguments, **options)
        assert isinstance(text, dict) or str(pr.Rule.read(text)) == text

    relative = "relative_difference"
    check_each(lambda text, rule, more=None: check(text, *rule, **(more or {})), [
        ("ndcg@10 >= 0.4", ("ndcg@10", ">=", 0.4)),
        ("mean(ndcg@10) >= 0.4", ("ndcg@10", ">=", 0.4)),
        ("low(ap) >= .3", ("ap", ">=", 0.3, "low")),
        ("queries >= 100", (None, ">=", 100, "queries")),
        ("difference(rr) >= -1%", ("rr", ">=", -0.01, relative)),
        ("relative_difference(rr) >= -.01", ("rr", ">=", -0.01, relative)),
        ("low(rr) > -2.5%", ("rr", ">", -0.025, "relative_low")),
        ("not difference(rr) < -1%", ("rr", ">=", -0.01, relative), {"is_guard": True}),
        ("rr >= 0 where(country=JP)", ("rr", ">=", 0), {"where": {"country": "JP"}}),
        ('rr >= 0 where(a="b, c", d=null)', ("rr", ">=", 0), {"where": {"a": "b, c", "d": None}}),
        ({"rule": "rr >= 0", "where": {"day": 1}}, ("rr", ">=", 0), {"where": {"day": 1}}),
    ])  # fmt: skip


def test_the_interval_of_the_row_decides() -> None:
    def check(low: Any, high: Any, sign: str, verdict: str) -> None:
        row = {"queries": 9, "difference": 0.5, "low": low, "high": high}
        rule = pr.Rule("rr", sign, 0.5, "difference")
        guarded = "pass" if verdict == "undecided" else verdict
        assert rule.decide(row)[0] == verdict
        assert pr.Rule("rr", sign, 0.5, "difference", is_guard=True).decide(row)[0] == guarded
        assert rule.decide({**row, "slice": "x"})[0] == guarded
        assert rule.decide({**row, "queries": 0}) == ("fail", "no queries")
        assert rule.decide({**row, "difference": None}) == ("fail", "the value is null")

    assert not pr.Rule("ap", ">=", 0).is_about({"metric": "rr"})
    check_each(check, [
        (0.4, 0.6, ">=", "undecided"),
        (0.5, 0.6, ">=", "pass"),
        (0.5, 0.6, ">", "undecided"),
        (0.4, 0.5, ">", "fail"),
        (0.4, 0.5, "<=", "pass"),
        (None, None, ">=", "undecided"),
    ])  # fmt: skip


def test_invalid_rules() -> None:
    def check(arguments: Any, message: str) -> None:
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.Rule.read(arguments) if isinstance(arguments, str) else pr.Rule(*arguments)

    percent = "has a percentage, which is a share of the"
    check_each(check, [
        ((5, ">=", 0), "`metric` must be the name of a metric"),
        (("rr", "=>", 0), "`sign` must be one of"),
        (("rr", ">=", "5%"), "`bound` must be a number"),
        (("rr", ">=", float("nan")), "`bound` must be a number"),
        (("rr", ">=", 0, "std"), "no confidence interval"),
        (("rr", ">=", 0, "diference"), "`column` must be one of.*Did you mean 'difference'"),
        (("rr", ">=", 0, "mean", "JP"), "`where` must be a mapping"),
        ("rr >= 0 where(k=1, k=2)", "names a column of `where` twice"),
        *((rule, percent) for rule in ("rr >= 40%", "queries >= 1%", "p_value(rr) < 5%")),
        *((rule, percent) for rule in ("not rr < 40%", "mean >= 1%")),
    ])  # fmt: skip


def two_runs(old: list[float], new: list[float]) -> pl.DataFrame:
    queries = [*range(len(old))]
    runs = ["a"] * len(old) + ["b"] * len(new)
    return pl.DataFrame({"run": runs, "query": queries * 2, "rr": old + new})


def test_a_share_of_a_mean_of_0_is_unknown() -> None:
    values = two_runs([0.0] * 60, [0, 0.5] * 30)
    table = pr.compare(values, baseline="a", details=True)
    rules = ["not difference(rr) < -1%", "difference(rr) >= -1%", "difference(rr) >= -0.01"]
    found = pr.check(table, rules, on_fail="return")
    assert found["verdict"].to_list() == ["pass", "undecided", "pass"]
    assert found["reason"].to_list()[:2] == ["the baseline's mean is 0"] * 2


def test_values_and_texts_have_the_same_verdicts() -> None:
    values = two_runs([0.5, 0.6, 0.7, 0.9] * 15, [0.52, 0.6, 0.75, 0.9] * 15)
    table = pr.compare(values, baseline="a", details=True)
    texts = ["difference(rr) >= 1%", "difference(rr) >= 0.02", "not difference(rr) < 9%"]
    found = pr.check(table, texts, on_fail="return")
    assert found.equals(pr.check(table, [*map(pr.Rule.read, texts)], on_fail="return"))
    row = table.row(0, named=True)
    assert found["value"][0] == row["relative_difference"] == pytest.approx(0.0175 / 0.675)
    assert found.row(0)[3:5] == (row["relative_low"], row["relative_high"])
    assert found["verdict"].to_list() == ["pass", "undecided", "fail"]
    with pytest.raises(pr.errors.ArgumentError, match="pr.compare with details=True"):
        pr.check(pr.compare(values, baseline="a"), texts[:1])
