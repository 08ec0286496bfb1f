"""check: verdicts, guards, exact bounds, the error that lists failures, and files."""

from xml.etree import ElementTree

import polars as pl
import polars_rank as pr
import pytest
from rows import check_each

SUMMARY = pl.DataFrame({
    "country": ["DE", "FR"], "metric": "ndcg@10", "queries": [1000, 50], "undefined": [10, 0],
    "mean": [0.5, 0.4], "std": 0.1, "low": [0.48, 0.3], "high": [0.52, 0.5],
})  # fmt: skip
COMPARISON = pl.DataFrame({
    "metric": ["ndcg@10"], "run": "new", "baseline_mean": 0.5, "mean": 0.51, "difference": 0.01,
    "low": -0.005, "high": 0.025, "queries": 1050,
})  # fmt: skip
UNKNOWN = COMPARISON.with_columns(low=pl.lit(None, pl.Float64), high=pl.lit(None, pl.Float64))
EXP2 = SUMMARY.with_columns(metric=pl.lit("ndcg(gain='exp2')@10"))


def verdicts(result, *rules, **options):
    return pr.check(result, rules, on_fail="return", **options)["verdict"].to_list()


def runs(a, b, **columns):
    """Return the values `x` of two runs."""
    n = len(a)
    of_queries = {name: [*each, *each] for name, each in {"query": range(n), **columns}.items()}
    return pl.DataFrame({"run": ["a"] * n + ["b"] * n, "x": [*a, *b], **of_queries})


VERDICTS = [
    (SUMMARY, "ndcg@10 >= 0.45", "pass undecided"),
    (SUMMARY, "ndcg@10 >= 0.48", "pass undecided"),
    (SUMMARY, "ndcg@10 >= 0.53", "fail fail"),
    (SUMMARY, "ndcg@10 <= 0.51", "undecided pass"),
    (SUMMARY, "ndcg@10 > 0.5", "undecided fail"),
    (SUMMARY, "ndcg@10 < 0.3", "fail fail"),
    (SUMMARY, "low(ndcg@10) >= 0.45", "pass fail"),
    (SUMMARY, "  undefined( ndcg@10 ) <= 10 ", "pass pass"),
    (SUMMARY, "queries >= 100", "pass fail"),
    (SUMMARY, "queries(ndcg@10)>=50", "pass pass"),
    (SUMMARY, {"rule": "ndcg@10 >= 0.45", "where": {"country": "IT"}}, "fail"),
    (EXP2, "ndcg(gain='exp2')@10 >= 0.3", "pass pass"),
    (EXP2, "low(ndcg(gain='exp2')@10) >= 0.3", "pass pass"),
    (COMPARISON, "difference(ndcg@10) >= -0.01", "pass"),
    (COMPARISON, "difference(ndcg@10) >= 0", "undecided"),
    (COMPARISON, "difference(ndcg@10) >= 0.03", "fail"),
    (COMPARISON, "not difference(ndcg@10) < 0", "pass"),
    (COMPARISON, "not difference(ndcg@10) < 0.03", "fail"),
    (COMPARISON, "not difference < 0", "pass"),
    (UNKNOWN, "not difference < -9", "pass"),
    (UNKNOWN, "difference >= -9", "undecided"),
]


def test_verdicts():
    def check(table, rule, expected):
        assert verdicts(table, rule) == expected.split()

    check_each(check, VERDICTS)
    rule = {"rule": "ndcg@10 >= 0.45", "where": {"country": "DE"}}
    found = pr.check(SUMMARY, [rule])
    assert found.row(0) == ("ndcg@10 >= 0.45", "country=DE", 0.5, 0.48, 0.52, 1000, "pass", None)


def test_rules_are_guards_in_slices():
    null = pl.lit(None, pl.String)
    sliced = pl.concat([
        COMPARISON.with_columns(slice=null, value=null),
        COMPARISON.with_columns(slice=pl.lit("country"), value=pl.lit("DE")),
        COMPARISON.with_columns(slice=pl.lit("country"), value=pl.lit("JP"), high=-0.001, low=-0.1),
    ])  # fmt: skip
    found = pr.check(sliced, ["difference(ndcg@10) >= 0"], on_fail="return")
    assert found.select("where", "verdict").rows() == [
        ("run=new", "undecided"), ("run=new, country=DE", "pass"), ("run=new, country=JP", "fail")
    ]  # fmt: skip
    strict = "difference(ndcg@10) >= 0 where(country=DE)"
    assert verdicts(sliced, strict) == ["undecided"]
    assert verdicts(sliced, "difference(ndcg@10) >= 0", strict) == ["undecided"] * 2 + ["fail"]


def test_reasons():
    equal, worse = runs([0.3, 0.5, 0.6] * 3, [0.3, 0.5, 0.6] * 3), runs([0.5] * 30, [0.2] * 30)
    for values, rule, expected in (
        (equal, "not difference < 0", ("pass", "equal in all 9 queries")),
        (worse.rename({"x": "rr"}), "not difference < 0", ("fail", "worse")),
        (worse, "not difference < 0", ("pass", "too few")),  # differences of no known range
        (equal.filter(query=1), "difference >= 0", ("undecided", "too few")),
    ):
        found = pr.check(pr.compare(values, baseline="a"), [rule], on_fail="return")
        assert found.select("verdict", "reason").row(0) == expected


def test_several_tables():
    rules = ["queries >= 1000", "difference(ndcg@10) >= -0.01"]
    found = pr.check([SUMMARY.lazy(), COMPARISON], rules, on_fail="return")
    assert found["where"].to_list() == ["country=DE", "country=FR", "run=new", "run=new"]
    assert found["verdict"].to_list() == ["pass", "fail", "pass", "pass"]
    # A mean is decided by its own interval.
    summary = SUMMARY.rename({"country": "run"}).with_columns(run=pl.Series(["old", "new"]))
    rules = ["ndcg@10 >= 0.45", "low(ndcg@10) >= 0.25", "high(ndcg@10) <= 0.51"]
    found = pr.check([COMPARISON, summary], rules, on_fail="return")
    assert found["where"].to_list() == ["run=old", "run=new"] * 3
    assert " ".join(found["verdict"]) == "pass undecided pass pass fail pass"


def test_counts_are_the_same_for_all_metrics():
    ap = SUMMARY.with_columns(metric=pl.lit("ap"), undefined=pl.Series([0, 3]))
    rules = ["queries >= 100", "undefined < 5"]
    found = pr.check(pl.concat([SUMMARY, ap]), rules, on_fail="return")
    assert found.select("rule", "where", "verdict").rows() == [
        ("queries >= 100", "country=DE", "pass"),
        ("queries >= 100", "country=FR", "fail"),
        ("undefined < 5", "country=DE, metric=ndcg@10", "fail"),
        ("undefined < 5", "country=FR, metric=ndcg@10", "pass"),
        ("undefined < 5", "country=DE, metric=ap", "pass"),
        ("undefined < 5", "country=FR, metric=ap", "pass"),
    ]


NAMED = [
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
]


def test_where_names_any_value():
    def check(values, asked, expected):
        table = pl.DataFrame({"flag": values, "metric": "ap", "queries": 5})
        found = pr.check(table, [{"rule": "queries(ap) > 0", "where": {"flag": asked}}])
        assert found["where"].to_list() == expected
        assert set(found["verdict"]) == {"pass"}
        if not isinstance(values[0], str):  # as text, the rule has the same meaning
            text = str(pr.Rule("ap", ">", 0, "queries", where={"flag": asked}))
            assert pr.check(table, [text])["where"].to_list() == expected

    check_each(check, NAMED)


def test_where_names_slices():
    flag, level = [True, True, False, False, None, None], [1.0, 1.0, 2.0, 2.0, 3.5, 3.5]
    values = runs([0.2, 0.4, 0.5] * 2, [0.2, 0.4, 0.5] * 2, flag=flag, level=level)
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


def test_a_run_without_rankings_fails():
    values = runs([0.2, 0.4, 0.6, 0.5] * 2, [0.2, 0.4, 0.6, 0.5] * 2, country=["DE", "FR"] * 4)
    values = values.filter(~((pl.col("run") == "b") & (pl.col("country") == "FR")))
    with pytest.warns(pr.errors.RankWarning, match="only one of the runs"):
        table = pr.compare(values, "x", baseline="a", by="country")
    for rule in ("difference >= -0.01", "not difference < -1", "low >= -1", "wins <= 9"):
        with pytest.raises(pr.errors.GateFailed, match="country=FR, run=b.*: fail, no queries"):
            pr.check(table, [f"{rule} where(country=FR)"], undecided="pass")


def test_the_interval_of_the_table_decides():
    values = pl.DataFrame({
        "query": range(40), "hit": [1.0, 1.0, 1.0, 0.0] * 10, "w": [1.0, 2.0] * 20,
        "user": [each // 4 for each in range(40)],
    })  # fmt: skip
    for options in ({"weight": "w", "details": True}, {"cluster": "user"}, {}):
        table = pr.summarize(values, "hit", **options)
        low, high = table.select("low", "high").row(0)
        found = pr.check(table, ["hit >= 0.01"]).row(0, named=True)
        assert (found["low"], found["high"]) == (low, high)
        for bound, sign, out in ((low, ">=", 1e-9), (high, "<=", -1e-9)):
            assert verdicts(table, f"hit {sign} {bound - out!r}") == ["pass"]
            assert verdicts(table, f"hit {sign} {bound + out!r}") == ["undecided"]


def test_tables_from_files(tmp_path):
    values = pl.DataFrame({"query": range(9), "rr": [0.2, 0.4, 0.9] * 3})
    pr.summarize(values).write_csv(tmp_path / "summary.csv")
    text = pl.read_csv(tmp_path / "summary.csv", infer_schema=False)
    assert verdicts(text, "rr >= 0", "queries >= 9") == ["pass", "pass"]
    with pytest.raises(pr.errors.SchemaError, match="'mean'"):
        pr.check(text.with_columns(mean=pl.lit("high")), ["rr >= 0"])


def test_files_of_rules(tmp_path):
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

    def check(text, message):
        path.write_text(text, "utf-8")
        with pytest.raises(pr.errors.RankError, match=message):
            pr.check(SUMMARY, path)

    check_each(check, [
        ("rules = 1", r"must have \[\[rules\]\]"),
        ("= 1", "cannot read"),
        ('[[rules]]\nrule = "x"\nwhen = 1', "a rule .`rules`. must be text"),
        ('undecided = "maybe"\n[[rules]]\nrule = "queries > 1"', "`undecided`"),
        ('[[rule]]\nrule = "queries > 1"', r"must have \[\[rules\]\]"),
        ('more = 1\n[[rules]]\nrule = "queries > 1"', r"must have \[\[rules\]\]"),
    ])  # fmt: skip
    with pytest.raises(pr.errors.SourceError, match="cannot read"):
        pr.check(SUMMARY, tmp_path / "none.toml")


NO_TABLE = "no table has the metric and the columns"
WRONG_RULES = [
    ("ndcg@10", "invalid rule 'ndcg@10'"),
    ("ndcg@10 >= high", "invalid rule .* examples of rules: .* >= 0.4"),
    ("ndcg@10 >= nan", "invalid rule"),
    ("ndcg@10>\N{FULLWIDTH DIGIT ONE}", "invalid rule"),
    ("ndcg@10 > 1_0", "invalid rule"),
    ("ndcg@10 > 0x1", "invalid rule"),
    *((f"difference(ndcg(gain='exp2')@10) {sign} -0.01", "invalid rule")
      for sign in ("=>", "=<", "≥")),
    ("ndcg@5 >= 0.4", f"{NO_TABLE}.*Did you mean 'ndcg@10'"),
    ("difference(ndcg@10) >= 0", f"{NO_TABLE}.*result of pr.compare has"),
    ({"rule": "ndcg@10 >= 0", "where": {"browser": "x"}}, NO_TABLE),
    ({"rule": "ndcg@10 >= 0", "where": "DE"}, "`where` must be a mapping"),
    (3, "a rule .`rules`. must be text"),
    ("queries > 1 where(country=\udcff)", "is not valid Unicode"),
    ("std(x) >= 0", "no confidence interval"),
    ("contribution >= 0", "no confidence interval"),
]  # fmt: skip


def test_rules_that_are_wrong():
    def check(rule, message):
        with pytest.raises(pr.errors.ArgumentError, match=message):
            pr.check(SUMMARY, [rule])

    check_each(check, WRONG_RULES)
    with pytest.raises(pr.errors.ArgumentError, match="The result of pr.summarize has"):
        pr.check(COMPARISON, ["ndcg@10 >= 0.45"])


def test_misuse(tmp_path, monkeypatch):
    values = runs([0.1, 0.2], [0.4, 0.6])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table").touch()
    of_results = "`result` must be the result of pr.summarize"

    def check(result, rules, message):
        with pytest.raises(pr.errors.RankError, match=message):
            pr.check(result, rules)

    check_each(check, [
        (SUMMARY, [], "`rules` is empty"),
        (SUMMARY, 3, "`rules` must be a list or the path of a file; found 3"),
        (pl.DataFrame({"a": [1]}), ["queries >= 1"], of_results),
        (values, ["x >= 0"], of_results),
        (pr.power(values, baseline="a"), ["x >= 0"], of_results),
        (SUMMARY.with_columns(queries=None), ["queries >= 1"], "column 'queries' .*is null"),
        *((path, ["rr > 0"], "`result` must be a table")
          for path in ("table", "no file", "rr > 1")),
    ])  # fmt: skip
    with pytest.raises(pr.errors.ArgumentError, match="`on_fail` must be one of"):
        pr.check(SUMMARY, ["queries >= 1"], on_fail="ignore")
    with pytest.raises(pr.errors.ArgumentError, match="missing a required argument: `rules`"):
        pr.check(["difference >= 0"])


def test_junit(tmp_path):
    def suite(verdicts, **options):
        pr.stats.write_junit(verdicts, tmp_path / "a.xml", overwrite=True, **options)
        return ElementTree.parse(tmp_path / "a.xml").getroot()[0]

    found = pr.check(SUMMARY, ["ndcg@10 >= 0.45", "queries >= 100"], on_fail="return")
    written = suite(found)
    assert [written.get(name) for name in ("tests", "failures", "skipped")] == ["4", "2", "0"]
    properties, *cases = written
    assert [each.attrib for each in properties] == [{"name": "format_version", "value": "1"}]
    assert [case.get("name") for case in cases if len(case)] == [
        "ndcg@10 >= 0.45 (country=FR)", "queries >= 100 (country=FR)"
    ]  # fmt: skip
    assert len({case.get("name") for case in cases}) == 4
    assert "interval [0.3, 0.5]" in cases[1][0].get("message")
    written = suite(found, undecided="pass")
    assert (written.get("failures"), written.get("skipped")) == ("1", "1")


def test_markdown(tmp_path):
    found = pr.check(SUMMARY, ["ndcg@10 >= 0.45"], on_fail="return")
    pr.stats.write_markdown(found, tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text("utf-8").splitlines()[2:] == [
        "| pass | ndcg@10 >= 0.45 | country=DE | 0.5 | [0.48, 0.52] | 1000 |",
        "| undecided | ndcg@10 >= 0.45 | country=FR | 0.4 | [0.3, 0.5] | 50 |",
    ]
