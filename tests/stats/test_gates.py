"""check: verdicts, the error that lists them, and the files."""

import warnings
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


def test_where():
    rule = {"rule": "ndcg@10 >= 0.45", "where": {"country": "DE"}}
    found = pr.check(SUMMARY, [rule])
    assert found.row(0) == ("ndcg@10 >= 0.45", "country=DE", 0.5, 0.48, 0.52, 1000, "pass")
    gone = {"rule": "ndcg@10 >= 0.45", "where": {"country": "IT"}}
    assert verdicts(SUMMARY, gone) == ["fail"]


def test_several_tables():
    rules = ["queries >= 1000", "difference(ndcg@10) >= -0.01"]
    found = pr.check([SUMMARY.lazy(), COMPARISON], rules, on_fail="return")
    assert found["where"].to_list() == ["country=DE", "country=FR", "run=new", "run=new"]
    assert found["verdict"].to_list() == ["pass", "fail", "pass", "pass"]


def test_one_rule_and_one_run_get_one_verdict():
    """A mean is decided by its own interval, a count by the lowest, each row once."""
    summary = SUMMARY.rename({"country": "run"}).with_columns(run=pl.Series(["old", "new"]))
    tables = [COMPARISON, summary]
    for rule, old, new in (
        ("ndcg@10 >= 0.45", "pass", "undecided"),
        ("low(ndcg@10) >= 0.25", "pass", "pass"),
        ("high(ndcg@10) <= 0.51", "fail", "pass"),
    ):
        found = pr.check(tables, [rule], on_fail="return")
        assert found.select("where", "verdict").rows() == [("run=old", old), ("run=new", new)]
    assert verdicts(tables, "difference(ndcg@10) >= -0.01") == ["pass"]
    # The summary has 50 queries of the new run, the comparison 1,050.
    found = pr.check(tables, ["queries >= 100"], on_fail="return")
    assert found.select("where", "value", "verdict").rows() == [
        ("run=new", 50.0, "fail"), ("run=old", 1000.0, "pass")
    ]  # fmt: skip


def test_a_mean_does_not_need_a_query_in_common():
    """A comparison without common queries fails, and the mean of the run is decided by itself."""
    summary = SUMMARY.rename({"country": "run"}).with_columns(run=pl.Series(["old", "new"]))
    apart = COMPARISON.with_columns(
        queries=0, **dict.fromkeys(("difference", "low", "high"), pl.lit(None, pl.Float64))
    )
    for tables in ([summary, apart], [apart, summary]):
        found = pr.check(tables, ["ndcg@10 >= 0.2", "difference >= -9"], on_fail="return")
        assert found.select("where", "verdict").rows() == [
            ("run=old", "pass"), ("run=new", "pass"), ("run=new, metric=ndcg@10", "fail")
        ]  # fmt: skip


def test_one_row_per_rule_and_subject():
    """Counts are the same for all metrics; other numbers say of which metric they are."""
    both = pl.concat(
        [SUMMARY, SUMMARY.with_columns(metric=pl.lit("ap"), undefined=pl.Series([0, 3]))]
    )
    found = pr.check(
        both,
        ["queries >= 100", {"rule": "queries >= 100", "where": {"country": "FR"}}, "undefined < 5"],
        on_fail="return",
    )
    assert found.select("rule", "where", "verdict").rows() == [
        ("queries >= 100", "country=DE", "pass"),
        ("queries >= 100", "country=FR", "fail"),
        ("undefined < 5", "country=DE, metric=ndcg@10", "fail"),
        ("undefined < 5", "country=FR, metric=ndcg@10", "pass"),
        ("undefined < 5", "country=DE, metric=ap", "pass"),
        ("undefined < 5", "country=FR, metric=ap", "pass"),
    ]


def test_without_an_interval_a_rule_is_undecided():
    one = pl.DataFrame({"run": ["a", "b"], "query": 1, "rr": [0.5, 1.0]})
    compared = pr.compare(one, baseline="a")
    for rule in ("difference(rr) >= -0.01", "low(rr) >= 0", "p_value(rr) <= 1"):
        assert verdicts(compared, rule) == ["undecided"]
        assert pr.check(compared, [rule], undecided="pass").height == 1
    assert verdicts(compared, "wins >= 1", "queries >= 2") == ["pass", "fail"]
    summary = pr.summarize(one, interval="none")
    assert verdicts(summary, "rr >= 0.1") == ["undecided"] * 2


def test_a_run_that_retrieved_nothing_is_warned_of():
    table = COMPARISON.with_columns(empty=pl.lit(600))
    with pytest.warns(
        pr.errors.RankWarning, match=r"no retrieved document; .*: run = 'new' \(600 of 1,050"
    ):
        assert verdicts(table, "empty <= 5", "difference(ndcg@10) >= -0.01") == ["fail", "pass"]


@pytest.mark.filterwarnings("ignore:.* intervals are unreliable")
def test_a_group_in_which_a_run_has_no_rankings_does_not_pass():
    lists = pl.DataFrame({
        "run": ["a"] * 8 + ["b"] * 4, "query": [*range(8), *range(4)],
        "country": (["DE"] * 4 + ["FR"] * 4 + ["DE"] * 4),
        "rr": [0.2, 0.4, 0.6, 0.5] * 2 + [0.3, 0.4, 0.6, 0.4],
    })  # fmt: skip
    summary = pr.summarize(lists.filter(run="b"), by="country")
    with pytest.warns(pr.errors.RankWarning, match="no query in common"):
        compared = pr.compare(lists, baseline="a", by="country")
    sliced = pr.slices(lists, "rr", slices="country", baseline="a", min_queries=2)
    rules = ["missing <= 9", "queries >= 1", "difference(rr) >= -9", "rr >= -9", "low(rr) >= -9"]
    for tables, where in (
        ([summary, compared], "country=FR, run=b"), ([sliced], "country=FR, run=b")
    ):  # fmt: skip
        about = rules if len(tables) > 1 else rules[:3]
        found = pr.check(tables, about, on_fail="return")
        assert found.height == 2 * len(about)
        gone = found.filter(where=where)
        assert set(gone["verdict"]) == {"fail"}
        assert gone["value"].to_list() == [4.0, 0.0, None, None, None][: len(about)]
        assert set(found.filter(where != pl.col("where"))["verdict"]) == {"pass"}
        with pytest.raises(pr.errors.GateFailed, match="FR, run=b.: fail, no queries"):
            pr.check(tables, [f"{rules[2]} where(country=FR)"], undecided="pass")


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


@pytest.mark.filterwarnings("ignore:all differences are equal")
def test_where_names_slices_of_any_type():
    lists = pl.DataFrame({
        "run": ["a"] * 6 + ["b"] * 6, "query": [*range(6)] * 2, "rr": [0.2, 0.4, 0.5] * 4,
        "flag": [True, True, False, False, None, None] * 2, "level": [1.0, 1.0, 2.0, 2.0, 3.5, 3.5] * 2,
    })  # fmt: skip
    table = pr.slices(lists, "rr", slices=["flag", "level"], baseline="a", min_queries=2)
    for column, value in (("flag", True), ("flag", None), ("level", 2), ("level", 3.5)):
        rule = {"rule": "queries >= 2", "where": {"column": column, "value": value}}
        assert pr.check(table, [rule])["queries"].to_list() == [2]


def test_where_in_the_text_of_a_rule():
    """Values are written as in the result; those with a comma or a bracket are in quotes."""
    table = pl.DataFrame({
        "run": "b", "column": ["country", "country", "country", "country & device"],
        "value": ["US", "Korea, Republic of", None, "US & phone"], "contribution": 0.0,
        "metric": "ap", "queries": [10, 20, 30, 40], "mean": 0.5, "low": 0.4, "high": 0.6,
    })  # fmt: skip
    for where, queries, shown in (
        ("country=US, run=b", 10, "run=b, country=US"),
        ('country = "Korea, Republic of"', 20, "run=b, country=Korea, Republic of"),
        ("country=null", 30, "run=b, country=null"),
        ("country & device=US & phone", 40, "run=b, country & device=US & phone"),
        ("column=country, value=US", 10, "run=b, country=US"),
    ):
        found = pr.check(table, [f"queries(ap) >= 1 where({where})"])
        assert found.select("rule", "where", "queries").rows() == [
            ("queries(ap) >= 1", shown, queries)
        ]
    with pytest.raises(pr.errors.GateFailed, match="country=XX.: fail, no such rows"):
        pr.check(table, ["ap >= 0 where(country=XX)"])
    with pytest.raises(pr.errors.ArgumentError, match="columns: .*'country'"):
        pr.check(table, ["ap >= 0 where(city=X)"])
    with pytest.raises(pr.errors.ArgumentError, match=r"rule 'ap >= 0 where\(city=X\)'"):
        pr.check(table, [{"rule": "ap >= 0", "where": {"city": "X"}}])
    for wrong in ("ap >= 0 where()", "ap >= 0 where(country)", 'ap >= 0 where(country="US)'):
        with pytest.raises(pr.errors.ArgumentError, match="invalid rule"):
            pr.check(table, [wrong])


@pytest.mark.filterwarnings("ignore:.* intervals are unreliable")
def test_small_slices_are_undecided_but_for_counts():
    """They have no interval: a handful of queries must neither open a gate nor shut it."""
    log = pr.datasets.search_log(60, runs=["old", "new"])
    lists = pr.per_query(log, "ap", by="run", keep="country")
    table = pr.slices(lists, "ap", slices="country", baseline="old", min_queries=10).collect()
    assert 0 < table["small"].sum() < table.height
    sure, low, p_value, queries = (
        pr.check(table, [rule], on_fail="return")["verdict"]
        for rule in ("difference(ap) >= -9", "low(ap) >= 2", "p_value(ap) <= 1", "queries(ap) >= 1")
    )
    for found, large in ((sure, "pass"), (low, "fail"), (p_value, "pass")):
        assert found.to_list() == ["undecided" if small else large for small in table["small"]]
    assert set(queries) == {"pass"}
    with pytest.raises(pr.errors.GateFailed, match="undecided, found .*, no interval .. quer"):
        pr.check(table, ["difference(ap) >= -9"])


def test_the_error_lists_all_that_fail():
    with pytest.raises(pr.errors.GateFailed, match="3 of 4 checks failed") as caught:
        pr.check(SUMMARY, ["ndcg@10 >= 0.45", "ndcg@10 >= 0.53"])
    message = str(caught.value)
    assert "ndcg@10 >= 0.45 (country=FR): undecided, found 0.4, interval [0.3, 0.5]" in message
    assert message.count("ndcg@10 >= 0.53") == 2
    assert caught.value.verdicts.height == 4
    assert pr.check(SUMMARY, ["ndcg@10 >= 0.45"], undecided="pass").height == 2


@pytest.mark.parametrize(
    "rule",
    [
        "difference(ap) >= -0.01",
        "relative_difference(ap) >= -1",
        "low(ap) >= -1",
        "p_value(ap) <= 1",
        "missing <= 100",
        "difference(ap) >= -0.01 where(country=US)",
        "difference(ap) >= -0.01 where(country=IT)",
        "difference(ap) >= -0.01 where(run=gone)",
    ],
)
def test_a_lost_group_fails_although_undecided_rules_pass(rule, tmp_path):
    numbers = ("mean", "difference", "low", "high", "p_value", "relative_difference",
               "relative_low", "relative_high")  # fmt: skip
    lost = pl.DataFrame({
        "run": ["b"], "column": ["country"], "value": ["US"], "metric": ["ap"], "queries": [0],
        "missing": [40], **dict.fromkeys(numbers, pl.Series([None], dtype=pl.Float64)),
    })  # fmt: skip
    with pytest.raises(pr.errors.GateFailed, match="1 of 1 checks failed") as caught:
        pr.check(lost, [rule], undecided="pass")
    found = caught.value.verdicts
    assert found["verdict"].to_list() == ["fail"]
    pr.stats.write_junit(found, tmp_path / "a.xml", undecided="pass")
    suite = ElementTree.parse(tmp_path / "a.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "0")
    pr.stats.write_markdown(found, tmp_path / "a.md")
    assert (tmp_path / "a.md").read_text().splitlines()[2].startswith("| fail | ")


def of_hits(hits: float, n: int, **columns: object) -> pl.DataFrame:
    """Return the summary of a metric of 0 and 1, with bounds that no rule uses."""
    return pl.DataFrame({
        "metric": "hit", "mean": hits / n, "queries": n, "used": n, "low": 0.1, "high": 0.9,
        "confidence": 0.95, "interval": "wilson", **columns,
    })  # fmt: skip


@pytest.mark.parametrize(("hits", "n"), [(2, 2), (30, 30), (29, 30), (0, 7), (5, 12)])
def test_means_of_zeros_and_ones_are_decided_by_exact_bounds(hits, n):
    low, high = binomtest(hits, n).proportion_ci(0.95, method="exact")
    found = pr.check(of_hits(hits, n), ["hit >= 0"], on_fail="return").row(0, named=True)
    assert (found["low"], found["high"]) == pytest.approx((low, high))
    margin = 1e-9
    for rule, expected in (
        (f"hit >= {low - margin}", "pass"),
        (f"hit >= {low + margin}", "undecided" if high > low + margin else "fail"),
        (f"hit > {high + margin}", "fail"),
        (f"low(hit) >= {low - margin}", "pass"),
        (f"low(hit) >= {low + margin}", "fail"),
        (f"high(hit) <= {high + margin}", "pass"),
        (f"high(hit) <= {high - margin}", "fail"),
    ):
        assert verdicts(of_hits(hits, n), rule) == [expected]


def test_exact_bounds_use_the_effective_number_of_values():
    # The share below the lower bound is 2.5%: a beta distribution with 7.5 of 10.5 successes.
    found = pr.check(of_hits(15, 21, effective=10.5), ["hit >= 0"], on_fail="return")
    assert found["low"].item() == pytest.approx(beta(7.5, 10.5 - 7.5 + 1).ppf(0.025))
    assert found["high"].item() == pytest.approx(beta(7.5 + 1, 10.5 - 7.5).ppf(0.975))
    plain = pr.check(of_hits(15, 21), ["hit >= 0"], on_fail="return")
    null = of_hits(15, 21, effective=None)
    assert pr.check(null, ["hit >= 0"], on_fail="return").equals(plain)
    unknown = of_hits(1, 1).with_columns(low=None, high=None)
    assert verdicts(unknown, "hit >= 0", "low(hit) >= 0") == ["undecided"] * 2


def test_wrong_passes_at_the_boundary_are_rare():
    """Whatever the true rate, at most 2.5% of samples pass a rule that asks for it."""
    tables = pl.concat(of_hits(hits, 30, by=hits) for hits in range(31))
    shares = []
    for rate in (0.1, 0.5, 0.7, 0.8, 0.88, 0.9, 0.95):
        passes = pl.Series(verdicts(tables, f"hit >= {rate}")) == "pass"
        shares.append(binom(30, rate).pmf(passes.arg_true().to_numpy()).sum())
    assert 0.02 < max(shares) <= 0.025


def test_other_intervals_are_those_of_the_table():
    table = of_hits(5, 10, interval=pl.Series(["tango"]))
    assert verdicts(table, "hit >= 0.11", "hit >= 0.09") == ["undecided", "pass"]


def test_relative_differences_and_effect_sizes_have_their_own_intervals():
    table = COMPARISON.with_columns(
        relative_difference=0.02, relative_low=-0.12, relative_high=0.14,
        effect_size=0.1, effect_low=-0.05, effect_high=0.25,
    )  # fmt: skip
    for rule, expected in (
        ("relative_difference(ndcg@10) >= -0.05", "undecided"),
        ("relative_difference(ndcg@10) >= -0.15", "pass"),
        ("relative_difference(ndcg@10) >= 0.15", "fail"),
        ("effect_size(ndcg@10) >= 0", "undecided"),
        ("effect_size(ndcg@10) >= -0.1", "pass"),
        ("relative_low(ndcg@10) >= -0.05", "fail"),
        ("effect_high(ndcg@10) <= 0.3", "pass"),
    ):
        assert verdicts(table, rule) == [expected]
    found = pr.check(table, ["effect_size(ndcg@10) >= -0.1"])
    assert found.select("value", "low", "high").row(0) == (0.1, -0.05, 0.25)
    # All differences are 0.1: the effect size and its interval are unknown.
    same = table.with_columns(
        pl.lit(None, pl.Float64).alias(f"effect_{n}") for n in ("size", "low", "high")
    )
    assert verdicts(same, "effect_size(ndcg@10) >= 0") == ["undecided"]


@pytest.mark.parametrize(
    ("table", "rule", "message"),
    [
        (COMPARISON, "ndcg@10 >= 0.5", "pass the result of `summarize` too, .*'difference.ndcg@10"),
        (COMPARISON, "mean >= 0.5", "pass the result of `summarize` too, .*'difference.ndcg@10"),
        (COMPARISON, "baseline_mean(ndcg@10) >= 0.5", "'ndcg@10' is about .* `summarize`"),
        (COMPARISON, "contribution(ndcg@10) >= 0", "'difference.ndcg@10.' is"),
        (SUMMARY, "std(ndcg@10) <= 0.2", "'low.ndcg@10.' and 'high.ndcg@10.'"),
        (SUMMARY, "std <= 0.2", "'ndcg@10' is about the mean"),
        (SUMMARY, "std_error(ndcg@10) <= 0.2", "'low.ndcg@10.' and 'high.ndcg@10.'"),
        (SUMMARY, "skewness(ndcg@10) <= 2", "'ndcg@10' is about the mean"),
        (SUMMARY, "effective(ndcg@10) >= 30", "'used.ndcg@10.'"),
        (SUMMARY, "q0.5(ndcg@10) >= 0.2", "'q0.5', .* no confidence interval; 'ndcg@10' is"),
        (SUMMARY.drop("low"), "ndcg@10 >= 0.2", "column 'low' .*pass the whole result"),
        (SUMMARY.drop("mean"), "ndcg@10 >= 0.2", "no table has the metric and the columns"),
    ],
)
def test_a_number_without_an_interval_is_an_error(table, rule, message):
    with pytest.raises(pr.errors.ArgumentError, match=message):
        pr.check(table, [rule], on_fail="return")


def test_bounds_and_counts_decide_by_themselves():
    table = COMPARISON.with_columns(
        used=1040, low_corrected=-0.02, high_corrected=0.03, p_value=0.2, p_corrected=0.4,
        interval=pl.lit("t"), skewness=0.1, effective=800.0,
    )  # fmt: skip
    rules = ["used >= 1000", "low_corrected(ndcg@10) >= -0.01", "high_corrected(ndcg@10) <= 0.04",
             "p_corrected(ndcg@10) >= 0.05"]  # fmt: skip
    found = pr.check(table, rules, on_fail="return")
    assert found["verdict"].to_list() == ["pass", "fail", "pass", "pass"]
    assert {*found["where"]} == {"run=new, metric=ndcg@10", "run=new"}


def test_decisions_on_few_skewed_values_are_warned_of():
    # The skewness of ten values, one of which differs, is 8/3: at least 25 * 2.7² = 180 are needed.
    skewed = SUMMARY.with_columns(interval=pl.lit("t"), used=10, skewness=8 / 3)
    with pytest.warns(
        pr.errors.RankWarning, match=r"2 verdicts .*'ndcg@10 >= 0.2' .country=DE.* 2.7"
    ):
        pr.check(skewed, ["ndcg@10 >= 0.2"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.check(skewed, ["ndcg@10 >= 0.5"], undecided="pass", on_fail="return")  # undecided
        pr.check(skewed, ["queries >= 1"])
        for columns in ({"used": 1000}, {"skewness": 0.3}, {"interval": pl.lit("tango")},
                        {"effective": 1000.0}, {"skewness": None}):  # fmt: skip
            pr.check(skewed.with_columns(**columns), ["ndcg@10 >= 0.2"])
    with pytest.warns(pr.errors.RankWarning, match="2 verdicts"):
        pr.check(skewed.with_columns(interval=pl.lit("bootstrap")), ["ndcg@10 >= 0.2"])


def test_skewness_matters_for_relative_differences_of_zeros_and_ones():
    # Three of 40 queries are lost: Tango's interval holds, that of the ratio is of the t distribution.
    runs = {"a": [1] * 40, "b": [0] * 3 + [1] * 37}
    tables = (
        pl.DataFrame({"run": run, "query": range(40), "hit_rate@10": x}) for run, x in runs.items()
    )
    comparison = pr.compare(pl.concat(tables), ["hit_rate@10"], baseline="a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.check(comparison, ["difference(hit_rate@10) >= -0.5"])
    with pytest.warns(pr.errors.RankWarning, match="skewness of -3.2"):
        pr.check(comparison, ["relative_difference(hit_rate@10) >= -0.5"])


def test_intervals_of_real_tables_decide():
    """Rules use the bounds that the tables show, but for exact bounds of means of 0 and 1."""
    runs = pl.DataFrame({"run": ["a"] * 40 + ["b"] * 40, "query": [*range(40)] * 2})
    values = runs.with_columns(
        pl.Series("hit_rate@5", [query % 8 > 0 for query in range(80)]).cast(pl.Float64),
        pl.Series("rr", [(query * 7 % 11 + 5) / 20 for query in range(80)]),
    )
    compared = pr.compare(values, baseline="a")
    for column, bounds in (
        ("difference", "low high"), ("relative_difference", "relative_low relative_high"),
        ("effect_size", "effect_low effect_high"),
    ):  # fmt: skip
        found = pr.check(compared, [f"{column}(rr) >= -9"])
        expected = compared.filter(metric="rr").select(column, *bounds.split())
        assert found.select("value", "low", "high").row(0) == expected.row(0)
    found = pr.check(pr.summarize(values), ["hit_rate@5 >= 0.7"])
    exact = binomtest(35, 40).proportion_ci(0.95, method="exact")
    assert found.select("low", "high").row(0) == pytest.approx(exact)
    # Two hits of two queries, and two equal differences, decide nothing.
    two = values.filter(pl.col("query").is_in([1, 2]))
    means = pr.summarize(two, "hit_rate@5")
    assert verdicts(means, "hit_rate@5 >= 0.99") == ["undecided"] * 2
    equal = pl.DataFrame(
        {"run": ["a", "a", "b", "b"], "query": [1, 2] * 2, "rr": [0.1, 0.2, 0.3, 0.4]}
    )
    with pytest.warns(pr.errors.RankWarning, match="all differences are equal"):
        same = pr.compare(equal, baseline="a")
    assert verdicts(same, "difference(rr) >= 0", "p_value(rr) <= 0.05") == ["undecided"] * 2


def test_tables_that_have_no_intervals_are_refused():
    values = pl.DataFrame({"run": ["a"] * 4 + ["b"] * 4, "query": [*range(4)] * 2,
                           "rr": [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.6, 0.9]})  # fmt: skip
    power = pr.stats.power(values, baseline="a")
    for rule in ("rr >= 0", "difference(rr) >= 0", "queries >= 1"):
        with pytest.raises(pr.errors.ArgumentError, match=r"power.*pass the result of pr.compare"):
            pr.check(power, [rule])
        for moments in (pr.stats.moments(values), pr.stats.moments(values, baseline="a")):
            with pytest.raises(pr.errors.ArgumentError, match="moments.*pass the result of pr.sum"):
                pr.check(moments, [rule])


def test_a_value_that_is_not_there_fails():
    unknown = SUMMARY.with_columns(mean=pl.lit(None, dtype=pl.Float64))
    with pytest.raises(pr.errors.GateFailed, match="fail, the value is null"):
        pr.check(unknown, ["ndcg@10 >= 0"])


def test_metrics_with_parameters():
    named = SUMMARY.with_columns(metric=pl.lit("ndcg(gain='exp2')@10"))
    assert verdicts(named, "ndcg(gain='exp2')@10 >= 0.3") == ["pass", "pass"]
    assert verdicts(named, "low(ndcg(gain='exp2')@10) >= 0.3") == ["pass", "pass"]


def test_rules_in_a_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(
        'undecided = "pass"\n'
        '[[rules]]\nrule = "ndcg@10 >= 0.45"\n'
        '[[rules]]\nrule = "queries >= 500"\nwhere = { country = "DE" }\n'
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
    path.write_text(text)
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
        ({"rule": "ndcg@10 >= 0", "where": "DE"}, "`where` of a rule .`rules`. must be"),
        (3, "a rule .`rules`. must be text"),
    ],
)
def test_rules_that_are_wrong(rule, message):
    with pytest.raises(pr.errors.ArgumentError, match=message):
        pr.check(SUMMARY, [rule])


def test_misuse():
    with pytest.raises(pr.errors.ArgumentError, match="`rules` is empty"):
        pr.check(SUMMARY, [])
    with pytest.raises(
        pr.errors.SchemaError, match="columns 'metric' and 'queries' .`result`. not found"
    ):
        pr.check(pl.DataFrame({"a": [1]}), ["queries >= 1"])
    with pytest.raises(pr.errors.ArgumentError, match="`on_fail` must be one of"):
        pr.check(SUMMARY, ["queries >= 1"], on_fail="ignore")


def test_junit(tmp_path):
    found = pr.check(SUMMARY, ["ndcg@10 >= 0.45", "queries >= 100"], on_fail="return")
    pr.stats.write_junit(found, tmp_path / "a.xml")
    suite = ElementTree.parse(tmp_path / "a.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "2", "0")
    assert [case.get("name") for case in suite if len(case)] == [
        "ndcg@10 >= 0.45 (country=FR)",
        "queries >= 100 (country=FR)",
    ]
    assert len({case.get("name") for case in suite}) == 4
    assert "interval [0.3, 0.5]" in suite[1][0].get("message")
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
    assert suite[0].get("classname") == escapes


def test_rules_of_invalid_bytes_are_refused():
    """A command line may have them; Python reads them as lone surrogates."""
    for rule in (
        "ap\udcff >= 1",
        "queries >= 1 where(country=a\udcff)",
        {"rule": "queries >= 1", "where": {"country": "a\udcff"}},
    ):
        with pytest.raises(pr.errors.ArgumentError, match="not Unicode"):
            pr.check(SUMMARY, [rule])


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
        f"| pass | queries >= 100 | country={text} | 1000 |  | 1,000 |" for text in shown.values()
    ]


def test_markdown(tmp_path):
    found = pr.check(SUMMARY, ["ndcg@10 >= 0.45", "queries >= 100"], on_fail="return")
    pr.stats.write_markdown(found, tmp_path / "a.md")
    lines = (tmp_path / "a.md").read_text().splitlines()
    assert len(lines) == 6
    assert lines[3] == "| undecided | ndcg@10 >= 0.45 | country=FR | 0.4 | [0.3, 0.5] | 50 |"
    assert lines[5] == "| fail | queries >= 100 | country=FR | 50 |  | 50 |"


@pytest.mark.filterwarnings("ignore:.* intervals are unreliable")
def test_of_real_tables():
    log = pr.datasets.search_log(200, runs=["old", "new"])
    lists = pr.per_query(log, ["ndcg@10", "ap"], by=["run", "country"])
    tables = [
        pr.summarize(lists, by="country"),
        pr.compare(lists, baseline="old", query=["query"]),
        # Six countries share 200 queries: with the default, some would be too small to decide.
        pr.slices(lists, "ap", slices="country", baseline="old", min_queries=2),
    ]
    rules = [
        {"rule": "ap >= 0.1", "where": {"run": "new", "country": "US"}},
        "difference(ndcg@10) >= -0.05",
        "difference(ap) >= -0.5",
    ]
    found = pr.check(tables, rules)
    assert set(found["verdict"]) == {"pass"}
    assert found["where"][0] == "country=US, run=new"
    # Polars prints at most 32 characters of a cell.
    assert "country=US, run=new" in str(found.select("where"))


@pytest.mark.parametrize(("sign", "meant"), [("=>", ">="), ("=<", "<="), ("≥", ">="), ("≤", "<=")])
def test_signs_that_rules_do_not_have(sign, meant):
    rule = f"difference(ndcg(gain='exp2')@10) {sign} -0.01"
    with pytest.raises(pr.errors.ArgumentError, match=f"invalid sign '{sign}'.*use '{meant}'"):
        pr.check(SUMMARY, [rule])


def test_a_rule_is_no_result(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given in (["difference >= 0"], [["rr >= 0.4"], "rules.toml"], ["no such file", ["rr > 0"]]):
        with pytest.raises(pr.errors.ArgumentError, match="`result` is missing; pass it first"):
            pr.check(*given)
    (tmp_path / "table").touch()
    for path in ("table", "means.parquet"):
        with pytest.raises(pr.errors.ArgumentError, match="`result` must be a table"):
            pr.check(path, ["rr > 0"])
