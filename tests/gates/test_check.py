"""check: verdicts, guards, exact bounds, the error that lists failures, and files."""

import math
from xml.etree import ElementTree

import polars as pl
import polars_rank as pr
import pytest
from scipy.stats import beta, binom, binomtest

SUMMARY = pl.DataFrame(
    {
        "country": ["DE", "FR"],
        "metric": ["ndcg@10", "ndcg@10"],
        "queries": [1000, 50],
        "undefined": [10, 0],
        "mean": [0.5, 0.4],
        "std": [0.1, 0.1],
        "low": [0.48, 0.3],
        "high": [0.52, 0.5],
    }
)
COMPARISON = pl.DataFrame(
    {
        "metric": ["ndcg@10"],
        "run": ["new"],
        "baseline_mean": [0.5],
        "mean": [0.51],
        "difference": [0.01],
        "low": [-0.005],
        "high": [0.025],
        "queries": [1050],
    }
)


def verdicts(result, *rules, **options):
    return pr.check(result, rules, on_fail="return", **options)["verdict"].to_list()


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("ndcg@10 >= 0.45", ["pass", "undecided"]),
        ("ndcg@10 >= 0.48", ["pass", "undecided"]),
        ("ndcg@10 >= 0.53", ["fail", "fail"]),
        ("ndcg@10 <= 0.51", ["undecided", "pass"]),
        ("ndcg@10 > 0.5", ["undecided", "fail"]),
        ("ndcg@10 < 0.3", ["fail", "fail"]),
        ("low(ndcg@10) >= 0.45", ["pass", "fail"]),
        ("  undefined( ndcg@10 ) <= 10 ", ["pass", "pass"]),
        ("queries >= 100", ["pass", "fail"]),
        ("queries(ndcg@10)>=50", ["pass", "pass"]),
    ],
)
def test_verdicts(rule, expected):
    assert verdicts(SUMMARY, rule) == expected


def test_comparisons():
    assert verdicts(COMPARISON, "difference(ndcg@10) >= -0.01") == ["pass"]
    assert verdicts(COMPARISON, "difference(ndcg@10) >= 0") == ["undecided"]
    assert verdicts(COMPARISON, "difference(ndcg@10) >= 0.03") == ["fail"]


def test_guards_fail_only_if_a_loss_is_shown():
    assert verdicts(COMPARISON, "not difference(ndcg@10) < 0") == ["pass"]
    assert verdicts(COMPARISON, "not difference(ndcg@10) < 0.03") == ["fail"]
    assert verdicts(COMPARISON, "not difference < 0") == ["pass"]
    unknown = COMPARISON.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
    assert verdicts(unknown, "not difference < -9") == ["pass"]
    assert verdicts(unknown, "difference >= -9") == ["undecided"]


def test_rules_are_guards_in_slices():
    sliced = pl.concat([
        COMPARISON.with_columns(slice=pl.lit(None, pl.String), value=pl.lit(None, pl.String)),
        COMPARISON.with_columns(slice=pl.lit("country"), value=pl.lit("DE")),
        COMPARISON.with_columns(slice=pl.lit("country"), value=pl.lit("JP"), high=-0.001, low=-0.1),
    ])  # fmt: skip
    found = pr.check(sliced, ["difference(ndcg@10) >= 0"], on_fail="return")
    assert found.select("where", "verdict").rows() == [
        ("run=new", "undecided"), ("run=new, country=DE", "pass"), ("run=new, country=JP", "fail")
    ]  # fmt: skip
    strict = "difference(ndcg@10) >= 0 where(country=DE)"
    assert verdicts(sliced, strict) == ["undecided"]
    both = pr.check(sliced, ["difference(ndcg@10) >= 0", strict], on_fail="return")
    assert both["verdict"].to_list() == ["undecided", "undecided", "fail"]


def test_reasons():
    equal = pl.DataFrame(
        {"run": ["a"] * 9 + ["b"] * 9, "query": [*range(9)] * 2, "x": [0.3, 0.5, 0.6] * 6}
    )
    found = pr.check(pr.compare(equal, baseline="a"), ["not difference < 0"])
    assert found["reason"].item() == "equal in all 9 queries"
    worse = pl.DataFrame(
        {"run": ["a"] * 30 + ["b"] * 30, "query": [*range(30)] * 2, "x": [0.5] * 30 + [0.2] * 30}
    )
    known = worse.rename({"x": "rr"})
    found = pr.check(pr.compare(known, baseline="a"), ["not difference < 0"], on_fail="return")
    assert found.select("verdict", "reason").row(0) == ("fail", "worse")
    unknown = pr.compare(worse, baseline="a")  # all differences are equal, in no known range
    found = pr.check(unknown, ["not difference < 0"])
    assert found.select("verdict", "reason").row(0) == ("pass", "too few")
    few = pr.compare(equal.filter(pl.col("query") == 1), baseline="a")
    found = pr.check(few, ["difference >= 0"], on_fail="return")
    assert found.select("verdict", "reason").row(0) == ("undecided", "too few")


def test_where():
    rule = {"rule": "ndcg@10 >= 0.45", "where": {"country": "DE"}}
    found = pr.check(SUMMARY, [rule])
    assert found.row(0) == ("ndcg@10 >= 0.45", "country=DE", 0.5, 0.48, 0.52, 1000, "pass", None)
    gone = {"rule": "ndcg@10 >= 0.45", "where": {"country": "IT"}}
    assert verdicts(SUMMARY, gone) == ["fail"]


def test_several_tables():
    rules = ["queries >= 1000", "difference(ndcg@10) >= -0.01"]
    found = pr.check([SUMMARY.lazy(), COMPARISON], rules, on_fail="return")
    assert found["where"].to_list() == ["country=DE", "country=FR", "run=new", "run=new"]
    assert found["verdict"].to_list() == ["pass", "fail", "pass", "pass"]


def test_a_mean_is_decided_by_its_own_interval():
    summary = SUMMARY.rename({"country": "run"}).with_columns(run=pl.Series(["old", "new"]))
    tables = [COMPARISON, summary]
    for rule, old, new in (
        ("ndcg@10 >= 0.45", "pass", "undecided"),
        ("low(ndcg@10) >= 0.25", "pass", "pass"),
        ("high(ndcg@10) <= 0.51", "fail", "pass"),
    ):
        found = pr.check(tables, [rule], on_fail="return")
        assert found.select("where", "verdict").rows() == [("run=old", old), ("run=new", new)]
    with pytest.raises(pr.errors.ArgumentError, match="The result of pr.summarize has"):
        pr.check(COMPARISON, ["ndcg@10 >= 0.45"])


def test_counts_are_the_same_for_all_metrics():
    both = pl.concat(
        [SUMMARY, SUMMARY.with_columns(metric=pl.lit("ap"), undefined=pl.Series([0, 3]))]
    )
    found = pr.check(both, ["queries >= 100", "undefined < 5"], on_fail="return")
    assert found.select("rule", "where", "verdict").rows() == [
        ("queries >= 100", "country=DE", "pass"),
        ("queries >= 100", "country=FR", "fail"),
        ("undefined < 5", "country=DE, metric=ndcg@10", "fail"),
        ("undefined < 5", "country=FR, metric=ndcg@10", "pass"),
        ("undefined < 5", "country=DE, metric=ap", "pass"),
        ("undefined < 5", "country=FR, metric=ap", "pass"),
    ]


@pytest.mark.parametrize(
    ("values", "asked", "expected"),
    [
        ([True, False, None], True, ["flag=true"]),
        ([True, False, None], False, ["flag=false"]),
        ([True, False, None], None, ["flag=null"]),
        ([1.0, 2.5, None], 1, ["flag=1.0"]),
        ([1.0, 2.5, None], 2.5, ["flag=2.5"]),
        ([1, 2, None], 2.0, ["flag=2"]),
        ([1, 2, None], "2", ["flag=2"]),
        (["true", "1.0", "1"], True, ["flag=true"]),
        (["true", "1.0", "2"], 1, ["flag=1.0"]),
        (["1", "1.0", "2"], "1", ["flag=1"]),
        (["null", None, "a"], None, ["flag=null"]),
        (["null", None, "a"], "null", ['flag="null"', "flag=null"]),
    ],
)
def test_where_names_any_value(values, asked, expected):
    table = pl.DataFrame({"flag": values, "metric": "ap", "queries": 5})
    found = pr.check(table, [{"rule": "queries(ap) > 0", "where": {"flag": asked}}])
    assert found["where"].to_list() == expected
    assert set(found["verdict"]) == {"pass"}


def test_where_names_slices():
    values = pl.DataFrame({
        "run": ["a"] * 6 + ["b"] * 6, "query": [*range(6)] * 2, "x": [0.2, 0.4, 0.5] * 4,
        "flag": [True, True, False, False, None, None] * 2,
        "level": [1.0, 1.0, 2.0, 2.0, 3.5, 3.5] * 2,
    })  # fmt: skip
    table = pr.compare(values, "x", slices=["flag", "level"], baseline="a", min_queries=2)
    for column, value in (("flag", True), ("flag", None), ("level", 2), ("level", 3.5)):
        rule = {"rule": "queries >= 2", "where": {column: value}}
        assert pr.check(table, [rule])["queries"].to_list() == [2]
    for where, shown in (
        ("flag=true, run=b", "run=b, flag=true"),
        ("level=3.5", "run=b, level=3.5"),
        ("slice=level, value=3.5", "run=b, level=3.5"),
    ):
        assert pr.check(table, [f"queries(x) >= 1 where({where})"])["where"].to_list() == [shown]
    with pytest.raises(pr.errors.GateFailed, match="flag=no.: fail, no such rows"):
        pr.check(table, ["queries >= 0 where(flag=no)"])
    with pytest.raises(pr.errors.ArgumentError, match=r"rule 'queries >= 0 where\(city=X\)'"):
        pr.check(table, ["queries >= 0 where(city=X)"])


def test_the_error_lists_all_that_fail():
    with pytest.raises(pr.errors.GateFailed, match="3 of 4 checks failed") as caught:
        pr.check(SUMMARY, ["ndcg@10 >= 0.45", "ndcg@10 >= 0.53"])
    message = str(caught.value)
    assert "ndcg@10 >= 0.45 (country=FR): undecided, found 0.4, interval [0.3, 0.5]" in message
    assert message.count("ndcg@10 >= 0.53") == 2
    assert caught.value.verdicts.height == 4
    assert pr.check(SUMMARY, ["ndcg@10 >= 0.45"], undecided="pass").height == 2


@pytest.mark.parametrize(
    "rule", ["difference >= -0.01", "not difference < -1", "low >= -1", "wins <= 9"]
)
def test_a_run_without_rankings_fails(rule):
    values = pl.DataFrame({
        "run": ["a"] * 8 + ["b"] * 4, "query": [*range(8), *range(4)],
        "country": ["DE"] * 4 + ["FR"] * 4 + ["DE"] * 4, "x": [0.2, 0.4, 0.6, 0.5] * 3,
    })  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match="only one of the runs"):
        table = pr.compare(values, "x", baseline="a", by="country")
    with pytest.raises(pr.errors.GateFailed, match="country=FR, run=b.*: fail, no queries"):
        pr.check(table, [f"{rule} where(country=FR)"], undecided="pass")


@pytest.mark.parametrize(
    ("details", "confidence"), [(True, 0.95), (False, 0.95), (True, 0.9), (False, 0.9)]
)
def test_means_of_zeros_and_ones_are_decided_by_exact_bounds(details, confidence):
    for hits, n in ((2, 2), (30, 30), (29, 30), (0, 7), (5, 12), (1, 4)):
        low, high = binomtest(hits, n).proportion_ci(confidence, method="exact")
        values = pl.DataFrame({"query": range(n), "hit": [1.0] * hits + [0.0] * (n - hits)})
        table = pr.summarize(values, details=details, confidence=confidence)
        found = pr.check(table, ["hit >= 0"], on_fail="return").row(0, named=True)
        assert (found["low"], found["high"]) == pytest.approx((low, high)), (hits, n)
        for rule, expected in (
            (f"low(hit) >= {low - 1e-9}", "pass"),
            (f"low(hit) >= {low + 1e-9}", "fail"),
        ):
            assert verdicts(table, rule) == [expected], (hits, n)


@pytest.mark.parametrize("details", [True, False])
@pytest.mark.parametrize("options", [{"weight": "w"}, {"cluster": "user"}, {}])
def test_the_interval_of_the_table_decides(options, details):
    values = pl.DataFrame({
        "query": range(40), "hit": [1.0, 1.0, 1.0, 0.0] * 10, "w": [1.0, 2.0] * 20,
        "user": [each // 4 for each in range(40)],
    })  # fmt: skip
    table = pr.summarize(values, "hit", details=details, **options)
    low, high = table.select("low", "high").row(0)
    found = pr.check(table, ["hit >= 0.01"]).row(0, named=True)
    assert (found["low"], found["high"]) == (low, high)
    for bound, sign in ((low, ">="), (high, "<=")):
        inside = bound + (-1e-9 if sign == ">=" else 1e-9)
        outside = bound + (1e-9 if sign == ">=" else -1e-9)
        assert verdicts(table, f"hit {sign} {inside!r}") == ["pass"]
        assert verdicts(table, f"hit {sign} {outside!r}") == ["undecided"]


def test_wrong_passes_at_the_boundary_are_rare():
    """Of logs whose true rate is the threshold, at most 2.5% pass."""
    n, rate = 100, 0.9
    passed = [
        hits for hits in range(n + 1)
        if binomtest(hits, n).proportion_ci(0.95, method="exact").low >= rate
    ]  # fmt: skip
    assert binom.pmf(passed, n, rate).sum() <= 0.025


def test_relative_differences_have_their_own_interval():
    values = pl.DataFrame({
        "run": ["a"] * 30 + ["b"] * 30, "query": [*range(30)] * 2,
        "x": [0.5 + 0.01 * (q % 5) for q in range(30)] + [0.6 + 0.01 * (q % 3) for q in range(30)],
    })  # fmt: skip
    table = pr.compare(values, baseline="a", details=True)
    row = table.row(0, named=True)
    found = pr.check(table, ["relative_difference(x) >= 0.1"]).row(0, named=True)
    assert (found["low"], found["high"]) == (row["relative_low"], row["relative_high"])
    with pytest.raises(pr.errors.ArgumentError, match="details=True"):
        pr.check(pr.compare(values, baseline="a"), ["relative_difference(x) >= 0.1"])


@pytest.mark.parametrize("rule", ["std(x) >= 0", "baseline_mean(x) >= 0", "contribution >= 0"])
def test_a_number_without_an_interval_is_an_error(rule):
    with pytest.raises(pr.errors.ArgumentError, match="no confidence interval"):
        pr.check(SUMMARY, [rule])


@pytest.mark.parametrize("make", [
    lambda values: pr.power(values, baseline="a"),
    lambda values: values,
])  # fmt: skip
def test_tables_without_intervals_are_refused(make):
    values = pl.DataFrame(
        {"run": ["a", "a", "b", "b"], "query": [1, 2, 1, 2], "x": [0.1, 0.2, 0.4, 0.6]}
    )
    with pytest.raises((pr.errors.ArgumentError, pr.errors.SchemaError), match="`result`"):
        pr.check(make(values), ["x >= 0"])


def test_tables_from_files(tmp_path):
    values = pl.DataFrame({"query": range(9), "rr": [0.2, 0.4, 0.9] * 3})
    pr.summarize(values).write_csv(tmp_path / "summary.csv")
    text = pl.read_csv(tmp_path / "summary.csv", infer_schema=False)
    assert verdicts(text, "rr >= 0", "queries >= 9") == ["pass", "pass"]
    with pytest.raises(pr.errors.SchemaError, match="'mean'"):
        pr.check(text.with_columns(mean=pl.lit("high")), ["rr >= 0"])


def test_metrics_with_parameters():
    named = SUMMARY.with_columns(metric=pl.lit("ndcg(gain='exp2')@10"))
    assert verdicts(named, "ndcg(gain='exp2')@10 >= 0.3") == ["pass", "pass"]
    assert verdicts(named, "low(ndcg(gain='exp2')@10) >= 0.3") == ["pass", "pass"]


def test_rules_in_a_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(
        'undecided = "pass"\n'
        '[[rules]]\nrule = "ndcg@10 >= 0.45"\n'
        '[[rules]]\nrule = "queries >= 500"\nwhere = { country = "DE" }\n',
        "utf-8",
    )
    assert pr.check(SUMMARY, path)["verdict"].to_list() == ["pass", "undecided", "pass"]
    with pytest.raises(pr.errors.GateFailed):
        pr.check(SUMMARY, str(path), undecided="fail")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("rules = 1", pr.errors.ArgumentError, r"must have \[\[rules\]\]"),
        ("= 1", pr.errors.SourceError, "cannot read"),
        (
            '[[rules]]\nrule = "x"\nwhen = 1',
            pr.errors.ArgumentError,
            "a rule .`rules`. must be text",
        ),
        (
            'undecided = "maybe"\n[[rules]]\nrule = "queries > 1"',
            pr.errors.ArgumentError,
            "`undecided`",
        ),
        ('[[rule]]\nrule = "queries > 1"', pr.errors.ArgumentError, r"must have \[\[rules\]\]"),
    ],
)
def test_files_that_are_wrong(tmp_path, text, error, message):
    path = tmp_path / "rules.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(error, match=message):
        pr.check(SUMMARY, path)
    with pytest.raises(pr.errors.SourceError, match="cannot read"):
        pr.check(SUMMARY, tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("ndcg@10", "invalid rule 'ndcg@10'"),
        ("ndcg@10 >= high", "invalid rule"),
        ("ndcg@10 >= nan", "invalid rule"),
        ("ndcg@10>\N{FULLWIDTH DIGIT ONE}", "invalid rule"),
        ("ndcg@10 > 1_0", "invalid rule"),
        ("ndcg@10 > 0x1", "invalid rule"),
        ("ndcg@5 >= 0.4", "no table has the metric and the columns.*Did you mean 'ndcg@10'"),
        ("difference(ndcg@10) >= 0", "no table has the metric and the columns"),
        (
            {"rule": "ndcg@10 >= 0", "where": {"browser": "x"}},
            "no table has the metric and the columns",
        ),
        ({"rule": "ndcg@10 >= 0", "where": "DE"}, "`where` must be a mapping"),
        (3, "a rule .`rules`. must be text"),
    ],
)
def test_rules_that_are_wrong(rule, message):
    with pytest.raises(pr.errors.ArgumentError, match=message):
        pr.check(SUMMARY, [rule])


def test_misuse():
    with pytest.raises(pr.errors.ArgumentError, match="`rules` is empty"):
        pr.check(SUMMARY, [])
    with pytest.raises(pr.errors.SchemaError, match="`result` must be the result of pr.summarize"):
        pr.check(pl.DataFrame({"a": [1]}), ["queries >= 1"])
    with pytest.raises(pr.errors.ArgumentError, match="`on_fail` must be one of"):
        pr.check(SUMMARY, ["queries >= 1"], on_fail="ignore")


def test_junit(tmp_path):
    found = pr.check(SUMMARY, ["ndcg@10 >= 0.45", "queries >= 100"], on_fail="return")
    pr.stats.write_junit(found, tmp_path / "a.xml")
    suite = ElementTree.parse(tmp_path / "a.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "2", "0")
    properties, *cases = suite
    assert [each.attrib for each in properties] == [{"name": "format_version", "value": "1"}]
    assert [case.get("name") for case in cases if len(case)] == [
        "ndcg@10 >= 0.45 (country=FR)",
        "queries >= 100 (country=FR)",
    ]
    assert len({case.get("name") for case in cases}) == 4
    assert "interval [0.3, 0.5]" in cases[1][0].get("message")
    pr.stats.write_junit(found, tmp_path / "b.xml", undecided="pass")
    suite = ElementTree.parse(tmp_path / "b.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")


def test_junit_of_control_characters(tmp_path):
    """A build server reads a file with one of them as no XML at all."""
    where = "".join(map(chr, range(32))) + "\ufffe"
    found = pr.check(SUMMARY, ["queries >= 100"], on_fail="return")
    pr.stats.write_junit(found.with_columns(where=pl.lit(where)), tmp_path / "a.xml")
    suite = ElementTree.parse(tmp_path / "a.xml").getroot()[0]
    escapes = "".join(ascii(each).strip("'") for each in where)
    assert suite.find("testcase").get("classname") == escapes


def test_markdown_of_any_group(tmp_path):
    """Each verdict is one row, whatever the characters of a group."""
    shown = {
        "a|b": r"a\|b", "a\\": r"a\\", "`a": r"\`a", "a\nb": r"a\\nb", "a\r\nb": r"a\\r\\nb",
        "a\u2028b": r"a\\u2028b", "a\x0bb": r"a\\x0bb",
    }  # fmt: skip
    table = pl.concat([SUMMARY[:1]] * len(shown)).with_columns(country=pl.Series([*shown]))
    found = pr.check(table, ["queries >= 100"])
    pr.stats.write_markdown(found, tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text(encoding="utf-8").splitlines()[2:] == [
        f"| pass | queries >= 100 | country={text} | 1000 |  | 1000 |" for text in shown.values()
    ]


def test_markdown(tmp_path):
    found = pr.check(SUMMARY, ["ndcg@10 >= 0.45", "queries >= 100"], on_fail="return")
    pr.stats.write_markdown(found, tmp_path / "a.md")
    lines = (tmp_path / "a.md").read_text("utf-8").splitlines()
    assert len(lines) == 6
    assert lines[3] == "| undecided | ndcg@10 >= 0.45 | country=FR | 0.4 | [0.3, 0.5] | 50 |"
    assert lines[5] == "| fail | queries >= 100 | country=FR | 50 |  | 50 |"


@pytest.mark.parametrize("sign", ["=>", "=<", "≥", "≤"])
def test_signs_that_rules_do_not_have(sign):
    rule = f"difference(ndcg(gain='exp2')@10) {sign} -0.01"
    with pytest.raises(
        pr.errors.ArgumentError, match="invalid rule .* examples of rules: .* >= 0.4"
    ):
        pr.check(SUMMARY, [rule])


def test_a_rule_is_no_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pr.errors.ArgumentError, match="missing a required argument: `rules`"):
        pr.check(["difference >= 0"])
    (tmp_path / "table").touch()
    for path in ("table", "means.parquet", "no such file", "rr >= 0.4"):
        with pytest.raises(pr.errors.ArgumentError, match="`result` must be a table"):
            pr.check(path, ["rr > 0"])
