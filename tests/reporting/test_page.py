"""`report`: what the page says, that it says nothing it was not told, and that it is whole."""

import base64
import json
import re
import sys
import warnings
from html import unescape
from html.parser import HTMLParser

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.conventions import named
from polars_rank.reporting.csv_links import csv_link
from polars_rank.reporting.page_formats import number, p_value, percent, signed

EVIL = "</script><script>alert(1)</script>"
RUNS = ["bm25", "neural"]


@pytest.fixture(scope="module")
def log():
    return pr.datasets.search_log(120, runs=RUNS).collect()


@pytest.fixture(scope="module")
def lists(log):
    return pr.per_query(log, ["ndcg@10", "ap"], by="run", keep="country")


class Read(HTMLParser):
    """A page: its text, its tables by id, its elements, and its scripts."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        self.elements, self.scripts, self.tables = [], [], {}
        self.stack, self.row, self.words = [], None, []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        self.stack.append((tag, attributes))
        if tag not in ("a", "b", "bdi", "code", "span", "strong"):
            self.words.append(" ")
        if tag == "table":
            self.rows = self.tables.setdefault(attributes.get("id", "no id"), [])
        elif tag == "tr":
            self.row = []
            if attributes.get("class") != "metric":  # the name and axis of the rows below
                self.rows.append(self.row)
        elif tag in ("td", "th"):
            self.row.append("")
        if tag in ("meta", "input", "link", "br"):
            self.stack.pop()

    def handle_endtag(self, tag):
        assert self.stack.pop()[0] == tag
        if tag in ("td", "th"):
            self.row[-1] = " ".join(self.row[-1].split())

    def handle_data(self, data):
        tag = self.stack[-1][0] if self.stack else ""
        if tag == "script":
            self.scripts.append(data)
        elif tag != "style":
            self.words.append(data)
            if any(each in ("td", "th") for each, _ in self.stack):
                self.row[-1] += data


def read(log, tmp_path, metrics=("ndcg@10", "ap"), **options):
    path = pr.report(log, metrics, path=tmp_path / "report.html", overwrite=True, **options)
    return Read(path)


def gates(page):
    """The rule, the verdict, and whether it is unfolded, of each check in the order of the page."""
    text = page.path.read_text(encoding="utf-8").partition('id="gates-title"')[2]
    text = text.partition("</section>")[0]
    checks, rule, opened = [], "", []
    for part in re.finditer(
        r"<details[^>]*?( open)?>|</details>|<strong><bdi>(.*?)</bdi>|<th scope=\"row\">.*?badge (\w+)",
        text,
    ):
        if part[2]:
            rule = unescape(part[2])
        elif part[3]:
            checks.append((rule, part[3], all(opened)))
        elif part[0] == "</details>":
            opened.pop()
        else:
            opened.append(bool(part[1]))
    return checks


INTERVAL = re.compile(r" (\S+ to \S+)$")

#: For tests of text and tables: charts take half of the time of a page.
without_charts = pytest.mark.usefixtures("_no_charts")
#: For tests of numbers: to try the verdict under other choices takes a third of the time.
tables_only = pytest.mark.usefixtures("_tables_only")


def column(page, table, name):
    """The cells of a column, without the intervals below their numbers."""
    head, *rows = page.tables[table]
    return [INTERVAL.sub("", row[head.index(name)]) for row in rows]


def intervals(page, table, name):
    """The intervals below the numbers of a column; "" if there is none."""
    head, *rows = page.tables[table]
    found = [INTERVAL.search(row[head.index(name)]) for row in rows]
    return [each[1] if each else "" for each in found]


def words(page, table):
    """The verdicts of a table, without their signs."""
    return [each.partition(" ")[2] for each in column(page, table, "Verdict")]


@pytest.fixture(scope="module")
def page(log, tmp_path_factory):
    """A page with a baseline and slices."""
    return read(log, tmp_path_factory.mktemp("page"), baseline="bm25", slices="country")


def test_numbers_are_those_of_the_library(page, lists):
    summary = pr.summarize(lists).sort("metric", "run", descending=[True, False])
    assert column(page, "means", "Mean") == [*map(number, summary["mean"])]
    assert column(page, "means", "Queries") == ["120"] * 4
    assert intervals(page, "means", "Mean") == [
        f"{number(low)} to {number(high)}" for low, high in summary.select("low", "high").rows()
    ]
    compared = pr.compare(lists, baseline="bm25", slices="country", details=True)
    for table, rows in (
        ("compared", compared.filter(pl.col("slice").is_null())),
        ("slices-table", compared.drop_nulls("slice")),
    ):
        assert column(page, table, "Difference") == [*map(signed, rows["difference"])]
        assert intervals(page, table, "Difference") == [
            "" if low is None else f"{signed(low)} to {signed(high)}"
            for low, high in rows.select("low", "high").rows()
        ]
        assert column(page, table, "p") == [*map(p_value, rows["p_value"])]
        assert words(page, table) == rows["verdict"].to_list()
    assert column(page, "compared", "Relative") == [
        percent(each, sign=True)
        for each in compared.filter(pl.col("slice").is_null())["relative_difference"]
    ]


def test_tables_are_downloads_of_the_page(page, lists):
    links = {a["download"]: a["href"] for tag, a in page.elements if "download" in a}
    assert {*links} == {
        f"{name}.csv" for name in ("means", "comparison", "slices", "contents", "labels")
    }
    content = base64.b64decode(links["comparison.csv"].partition("base64,")[2])
    compared = pr.compare(lists, baseline="bm25", details=True).drop("undefined")
    assert_frame_equal(pl.read_csv(content), compared, check_dtypes=False)


def test_downloads_hold_no_formulas():
    """A spreadsheet shows an apostrophe in front of text as text; numbers stay numbers."""
    formulas = [
        "=cmd|' /C calc'!A0",
        "=HYPERLINK(1)",
        "+1+1",
        "-a",
        "@SUM(1)",
        "\t=1",
        "\r=1",
        "＝1",
    ]
    others = ["-0.5", "+1", "-1e-5", "a=1", "1-1", "", None]
    table = pl.DataFrame({"=id": formulas + others, "n": -0.5}).with_columns(
        kind=pl.col("=id").cast(pl.Categorical), ids=pl.concat_list("=id")
    )
    content = base64.b64decode(csv_link(table).partition("base64,")[2])
    read = pl.read_csv(content, infer_schema=False, empty_string_is_null=False)
    shown = ["'" + text for text in formulas] + others[:-1] + [""]
    assert read["'=id"].to_list() == read["kind"].to_list() == shown
    assert read["n"].to_list() == ["-0.5"] * len(table)
    assert read["ids"].to_list() == shown


@without_charts
def test_pages_that_cannot_be_written(log, tmp_path):
    device = needs.full_device(tmp_path)
    with pytest.raises(pr.errors.SourceError, match=f"cannot write '{device}': No space left"):
        pr.report(log.filter(run="bm25"), "ap", path=device, overwrite=True)
    assert device.is_char_device()


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
@pytest.mark.filterwarnings("ignore:all values are equal")
@tables_only
def test_the_headline_names_the_better_run_and_how_sure_that_is(tmp_path):
    # Per query 1 and 0, 30 times.
    best = pl.DataFrame({"query": range(30), "doc": 1, "score": 1.0, "label": 1, "run": "new"})
    worse = pl.concat([best, best.with_columns(doc=2, score=2.0, label=0)])
    log = pl.concat([best, worse.with_columns(run=pl.lit("old"))])
    page = read(log, tmp_path, ["hit_rate@1"], baseline="old")
    assert "new is better than old" in page.text
    assert "hit_rate@1 rises from 0.0000 to 1.0000: +1.0000." in page.text
    page = read(log, tmp_path, ["hit_rate@1"], baseline="new")
    assert "old is worse than new" in page.text
    assert "hit_rate@1 falls from 1.0000 to 0.0000: −1.0000 (−100.0%)." in page.text
    # One half of the queries each way: no difference.
    half = log.with_columns(run=pl.when(pl.col("query") % 2 == 0).then("run").otherwise(
        pl.when(pl.col("run") == "new").then(pl.lit("old")).otherwise(pl.lit("new"))
    ))  # fmt: skip
    page = read(half, tmp_path, "hit_rate@1", baseline="old")
    assert "No clear difference between new and old" in page.text
    assert "○ unclear 95% interval of the difference: −0." in page.text
    few = log.filter(pl.col("query") == 0)
    page = read(few, tmp_path, "hit_rate@1", baseline="old")
    assert "Too few queries to compare new with old" in page.text
    # Each query gains 1 - 1 / log2(3) = 0.369. Of the range from -1, which may be missing with a
    # share of 1 - 0.025^(1/n), that is shown from 12 queries on.
    for queries, words in (
        (11, "Too few queries to compare new with old"),
        (12, "new is better than old"),
    ):
        page = read(log.filter(pl.col("query") < queries), tmp_path, "ndcg@2", baseline="old")
        assert words in page.text
    equal = pl.concat([worse, worse.with_columns(run=pl.lit("old"))])
    page = read(equal, tmp_path, "ndcg@2", baseline="old")
    assert "new and old have equal values in all queries" in page.text
    page = read(worse, tmp_path, "ndcg@2", run=None)
    assert "all values are equal" not in page.text


@tables_only
def test_several_comparisons_have_corrected_intervals(tmp_path):
    log = pr.datasets.search_log(60, runs=["a", "b", "c"]).collect()
    page = read(log, tmp_path, ["ndcg@10", "ap", "p@1"], baseline="a", by="country")
    values = pr.per_query(log, ["ndcg@10", "ap", "p@1"], by="run", keep="country")
    compared = pr.compare(values, baseline="a", details=True)
    assert intervals(page, "compared", "Difference") == [
        f"{signed(low)} to {signed(high)}" for low, high in compared.select("low", "high").rows()
    ]
    assert "intervals and p-values corrected for 6 comparisons" in page.text
    # An uncorrected interval above 0 does not make a run better.
    assert compared.filter(pl.col("low_uncorrected") > 0, verdict="unclear").height
    assert words(page, "compared") == compared["verdict"].to_list()
    by_group = pr.compare(values, baseline="a", by="country")
    keys = "country", "metric", "run"
    verdicts = dict(zip(by_group.select(keys).rows(), by_group["verdict"], strict=True))
    metrics = [each for each in ("ndcg@10", "ap", "p@1") for _ in range(by_group.height // 2)]
    head, *rows = page.tables["groups-table"]
    for metric, cells in zip(metrics, rows, strict=True):
        row = dict(zip(head, cells, strict=True))
        if row["Run"] != "a":
            assert cells[-1].endswith(verdicts[row["country"], metric, row["Run"]])


@tables_only
@pytest.mark.filterwarnings("ignore:fewer than 5 degrees of freedom")
def test_all_tables_have_weights_and_clusters(log, tmp_path):
    units = log.filter(pl.col("query") < 60).with_columns(
        user=pl.col("query") % 20, traffic=1.0 + pl.col("query") % 4
    )
    given = {"weight": "traffic", "cluster": "user"}
    page = read(units, tmp_path, "ap", baseline="bm25", slices="country", **given)
    values = pr.per_query(units, "ap", by="run", keep=["user", "traffic", "country"])
    (row,) = pr.compare(values, baseline="bm25", details=True, **given).to_dicts()
    assert row["effective"] < 19
    assert f"60 queries in 20 clusters (user), effective number {row['effective']:.1f}" in page.text
    assert "weight traffic, cluster user" in page.text
    assert column(page, "compared", "Difference") == [signed(row["difference"])]
    assert column(page, "compared", "Queries") == [f"60{row['effective']:.1f} effective"]
    summary = pr.summarize(values, **given)
    assert column(page, "means", "Mean") == [*map(number, summary["mean"])]
    sliced = pr.compare(values, "ap", slices="country", baseline="bm25", **given)
    assert column(page, "slices-table", "Difference") == [*map(signed, sliced["difference"][1:])]
    page = read(units, tmp_path, "ap", **given)
    pairs = pr.compare(values, **given)
    assert column(page, "compared", "Difference") == [signed(pairs["difference"].item())]
    alone = units.filter(run="bm25").with_columns(
        user=pl.when(pl.col("user") > 0).then("user"), session=pl.lit(1)
    )
    page = read(alone, tmp_path, "ap", run=None, cluster=["user", "session"])
    assert "60 queries in 22 clusters (user, session)" in page.text  # 3 queries without a user
    with pytest.raises(pr.errors.SchemaError, match="column 'who' .`cluster`. not found"):
        read(units, tmp_path, "ap", cluster="who")
    with pytest.raises(pr.errors.ArgumentError, match="`cluster` contains the column of runs"):
        read(units, tmp_path, "ap", baseline="bm25", cluster="run")


@without_charts
@pytest.mark.parametrize("baseline", ["bm25", None])
def test_queries_of_several_groups_are_counted_once(log, tmp_path, baseline):
    days = pl.concat(log.with_columns(day=pl.lit(day)) for day in range(3))
    once = "120 of 120 queries are in several groups of day. .* count each query once"
    with pytest.warns(pr.errors.RankWarning, match=once):
        page = read(days, tmp_path, "ap", baseline=baseline, by="day")
    assert re.search(once, page.text)
    assert "120 queries, 360 rankings" in page.text
    # The same intervals as for one day: repetitions are no new queries.
    one = read(log, tmp_path, "ap", baseline=baseline)
    for table, name in (("means", "Mean"), ("compared", "Difference")):
        assert intervals(page, table, name) == intervals(one, table, name)
    if baseline is None:
        return
    users = days.with_columns(
        user=pl.col("query") % 40, session=100 * pl.col("day") + pl.col("query")
    )
    read(users, tmp_path, "ap", baseline=baseline, by="day", cluster="user")
    with pytest.warns(pr.errors.RankWarning, match="groups of day and in several clusters"):
        read(users, tmp_path, "ap", baseline=baseline, by="day", cluster="session")


@without_charts
@pytest.mark.filterwarnings("ignore:the run .* looks broken")
def test_one_line_says_whether_the_verdict_holds(tmp_path):
    log, score = pr.datasets.search_log(120, runs=RUNS, seed=7).collect(), pl.col("score")
    old = log.filter(run="bm25")
    lines = {
        "The verdict holds with 8 other choices of ties, unjudged documents, gain, cutoff, "
        "undefined values and outliers.": log,
        "The verdict holds with 7 other choices of ties, gain, cutoff, undefined values and "
        "outliers.": log.with_columns(pl.col("label").fill_null(0)),
        "A run looks broken: constant scores ('bm25').": log.with_columns(
            pl.when(pl.col("run") == "bm25").then(1.0).otherwise(score).alias("score")
        ),
        "The verdict remains unclear with 8 other choices of ties, unjudged documents, gain, "
        "cutoff, undefined values and outliers.": pl.concat(
            [old, old.with_columns(score + 1, run=pl.lit("neural"))]
        ),
    }
    for line, table in lines.items():
        assert line in read(table, tmp_path, "ndcg@10", baseline="bm25").text
    # The groups of a query count as queries of their own, and may be null.
    countries = log.with_columns(pl.col("country").replace("DE", None))
    page = read(countries, tmp_path, "ndcg@10", baseline="bm25", by="country")
    assert "The verdict holds with 8 other choices of ties, unjudged documents" in page.text
    # Without a baseline, broken runs are found, too.
    with pytest.warns(pr.errors.RankWarning, match="looks broken .constant scores"):
        page = read(log.with_columns(score * 0), tmp_path, "ndcg@10")
    assert "the run 'bm25' looks broken (constant scores)" in page.text


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
@tables_only
def test_unreliable_headlines_have_warnings(log, tmp_path):
    # The overall comparison, groups and slices have warnings of one kind.
    some = log.filter((pl.col("run") == "bm25") | (pl.col("query") > 20))
    with pytest.warns(pr.errors.RankWarning, match="more than 5% of the queries") as caught:
        page = read(some, tmp_path, "ap", baseline="bm25", by="country", slices="country")
    assert page.text.count("more than 5% of the queries") == 1
    assert sum("more than 5%" in str(each.message) for each in caught) == 1
    assert "99 queries" in page.text and "21 queries missing in one of the runs" in page.text


@tables_only
def test_without_a_baseline_the_best_run_stands_beside_the_next(tmp_path):
    log = pr.datasets.search_log(60, runs=["a", "b", "c"]).collect()
    page = read(log, tmp_path)
    pairs = pr.compare(pr.per_query(log, ["ndcg@10", "ap"], by="run"))
    # As in the headline, the better run by the first metric is the first of a pair.
    turned = dict(
        zip(zip(*pairs["metric", "run", "baseline"], strict=True), pairs["difference"], strict=True)
    )
    turned |= {(metric, other, run): -value for (metric, run, other), value in turned.items()}
    order = [
        (name, *pair) for name in ("ndcg@10", "ap") for pair in (("c", "b"), ("c", "a"), ("b", "a"))
    ]
    assert column(page, "compared", "Difference") == [signed(turned[key]) for key in order]
    assert column(page, "compared", "Metric, runs") == [f"{n} {a} vs. {b}" for n, a, b in order]
    assert re.search(r"c is better than b|No clear difference between c and b", page.text)
    (ndcg,) = pairs.filter(metric="ndcg@10", run="c", baseline="b").iter_rows(named=True)
    assert (
        f"ndcg@10 is {ndcg['mean']:.4f} for c and {ndcg['baseline_mean']:.4f} for b: "
        f"+{ndcg['difference']:.4f}"
    ) in page.text


@pytest.mark.parametrize(
    ("metric", "direction", "conclusion"),
    [
        (pr.metric("label_ranking_loss").alias("loss"), " (lower is better)", "neural is better than"),
        (1 - pr.metric("label_ranking_loss"), "", "neural is better than"),
        # It is not known of an expression.
        (pl.col("rank").filter("relevant").mean().alias("x"), " (higher is better)", "x (higher is better)"),
    ],
)  # fmt: skip
def test_the_page_says_which_direction_is_better(log, tmp_path, metric, direction, conclusion):
    name = metric.output_name if isinstance(metric, pr.Metric) else "x"
    page = read(log, tmp_path, metric, baseline="bm25")
    assert page.text.count(f"{name}{direction}") >= 2
    assert page.text.count(" is better)") == (2 if direction else 0)
    charts = page.path.read_text(encoding="utf-8")
    assert f"{name}{direction}: neural vs. bm25, per query" in charts
    assert conclusion in page.text


@tables_only
def test_lists_that_moved_are_those_of_movers(log, tmp_path):
    page = read(log, tmp_path, "ndcg@10", baseline="bm25")
    moved = pr.diagnostics.movers(log, "ndcg@10", baseline="bm25", n=5, k=10)
    result = re.findall(r"query (\d+) ", page.text.partition("Biggest changes per query")[2])
    order = moved.unique("query", maintain_order=True)
    difference = pl.col("difference")
    lost, gained = (
        order.filter(each)["query"].to_list() for each in (difference < 0, difference > 0)
    )
    assert [*dict.fromkeys(map(int, result))][:10] == [*lost, *gained]
    first = moved.filter(query=lost[0])
    tables = page.tables["no id"]
    ranked = [row for row in tables if row[0].isdigit()]
    base = first["baseline_doc"].drop_nulls().cast(pl.String).to_list()
    # The ranking of the baseline has no movement; documents of the run have their rank in it.
    assert [row[1] for row in ranked[: len(base)]] == base
    whole = pr.rank(log.filter(pl.col("query") == lost[0], run="bm25").drop("run"))
    ranks = dict(whole.select(pl.col("doc").cast(pl.String), "rank").rows())
    docs = first["doc"].drop_nulls().cast(pl.String).to_list()
    moved_from = [
        "" if ranks.get(doc) == rank
        else f" was {ranks[doc]}" if ranks.get(doc) else " was not retrieved"
        for rank, doc in enumerate(docs, start=1)
    ]  # fmt: skip
    assert any(moved_from)
    assert [row[1] for row in ranked[len(base) :][: len(docs)]] == [
        doc + moved for doc, moved in zip(docs, moved_from, strict=True)
    ]


@tables_only
def test_shown_columns_of_queries_and_documents_and_links(log, lists, tmp_path):
    shown = log.with_columns(
        pl.format("https://x.org/{}?a=<b>", "doc").alias("url"),
        pl.format("title {}", "doc").alias("title"),
        # Judged documents that were not retrieved have no text of the query.
        text=pl.when(pl.col("score").is_not_null()).then(pl.format("words of {}", "query")),
    )
    show = ["text", "title", "url"]
    page = read(shown, tmp_path, "p@1", baseline="bm25", show=show)
    links = {a["href"] for tag, a in page.elements if tag == "a" and "target" in a}
    assert links and all(re.fullmatch(r"https://x.org/\d+\?a=<b>", each) for each in links)
    heads = [row for row in page.tables["no id"] if row[0] == "Rank"]
    assert heads
    assert all(row == ["Rank", "Document", "Label", "title", "url", "Score"] for row in heads)
    queries = re.findall(r"query (\d+) text words of (\d+) ", page.text)
    assert queries and all(query == text for query, text in queries)
    # Ids that are addresses are links; other texts are not.
    own = log.with_columns(doc=pl.format("http://y.org/{}", "doc"), js=pl.lit("javascript:x"))
    page = read(own, tmp_path, "p@1", baseline="bm25", show="js")
    links = {a["href"] for tag, a in page.elements if tag == "a" and "target" in a}
    assert links and all(re.fullmatch(r"http://y.org/\d+", each) for each in links)
    hint = "To show the texts of queries and documents"
    assert hint not in page.text and hint in read(log, tmp_path, "p@1").text


@tables_only
def test_parts_say_how_many_queries_changed(log, tmp_path):
    page = read(log, tmp_path, "p@1", baseline="bm25")
    compared = pr.compare(pr.per_query(log, "p@1", by="run"), baseline="bm25")
    wins, losses = compared.select("wins", "losses").row(0)
    assert f"5 of {losses} queries with a loss." in page.text
    assert f"5 of {wins} queries with a gain." in page.text


@tables_only
def test_undefined_values_of_each_metric_in_all_sections(tmp_path):
    rows = pr.datasets.search_log(40, 8, runs=["a", "b", "c"], seed=4).collect()
    rows = rows.with_columns(label=pl.when(pl.col("query") % 9 > 0).then("label"))
    undefined = {"p@1": "one", "ap": "skip"}
    conventions = pr.Conventions(undefined=undefined)
    page = read(
        rows, tmp_path, ["p@1", "ap"], baseline="a", slices="country", conventions=conventions
    )
    # As `evaluate` counts undefined values, though the default is 0 for both metrics.
    means = pr.evaluate(rows, ["p@1", "ap"], by="run", undefined=undefined)
    assert column(page, "means", "Mean") == [
        number(mean) for metric in ("p@1", "ap") for mean in means[metric]
    ]
    values = pr.per_query(rows, ["p@1", "ap"], by="run", undefined="null")
    nulls = values.group_by("run").agg(pl.col("p@1", "ap").null_count()).sort("run")
    assert [*map(int, column(page, "means", "Undefined"))] == [*nulls["p@1"], *nulls["ap"]]
    assert nulls["ap"].sum() > 0


@tables_only
@pytest.mark.parametrize(
    ("conventions", "undefined"),
    [
        ("LightGBM", None), ("RecTools", {"ap": "one"}),
        ("polars_rank", {"fall_out@2": "one", "*": "skip"}),
    ],
)  # fmt: skip
def test_means_and_wins_are_of_values_as_evaluate_counts_them(tmp_path, conventions, undefined):
    rows = pr.datasets.search_log(60, 6, runs=["a", "b"], seed=4).collect()
    label = pl.when(pl.col("query") % 9 == 0).then(0).when(pl.col("query") % 7 == 0).then(1)
    rows = rows.with_columns(label=label.otherwise("label"))
    metrics = ["fall_out@2", "ap"]
    options = {"conventions": named(conventions).but(undefined=undefined)}
    with warnings.catch_warnings():  # of metrics that no test compares with the tool
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        page = read(rows, tmp_path, metrics, baseline="a", **options)
        means = pr.evaluate(rows, metrics, by="run", **options)
        values = pr.per_query(rows, metrics, by="run", **options)
    assert column(page, "means", "Mean") == [
        number(mean) for metric in metrics for mean in means.sort("run")[metric]
    ]
    # A lower fall-out is better, whether or not undefined values count.
    of_runs = [values.filter(run=run).sort("query")["fall_out@2"] for run in "ab"]
    wins, losses = ((of_runs[i] < of_runs[1 - i]).sum() for i in (1, 0))
    counts = column(page, "compared", "Wins / ties / losses")[0]
    assert (wins, losses) == (int(counts.split()[0]), int(counts.split()[-1]))
    assert wins != losses


@without_charts
def test_no_query_of_a_small_log_is_both_best_and_worst(log, tmp_path):
    for queries in (1, 2, 3):
        small = log.filter((pl.col("run") == "bm25") & (pl.col("query") < queries))
        shown = re.findall(r"query (\d+) ", read(small, tmp_path, "p@5").text)
        assert len(shown) == len({*shown}) == queries


@tables_only
def test_gates_are_shown_and_do_not_raise(log, lists, tmp_path):
    rules = ["ndcg@10 >= 0.99", "queries >= 100", {"rule": "ap >= 0", "where": {"run": "neural"}}]
    page = read(log, tmp_path, baseline="bm25", rules=rules)
    assert [verdict for _, verdict, _ in gates(page)] == ["fail", "pass", "pass"]
    headline = page.text.partition("Skip to the results")[2].partition("Metrics")[0]
    assert "✕ Gates failed 2 of 3 gate checks pass, 1 fail" in headline
    assert "ndcg@10 >= 0.99: 1 of 1" in headline
    (tmp_path / "rules.toml").write_text('[[rules]]\nrule = "ap >= 0.01"\n', encoding="utf-8")
    page = read(log, tmp_path, "ap", rules=tmp_path / "rules.toml")
    assert len(gates(page)) == len(RUNS)


@tables_only
def test_gates_stand_by_rule_with_failures_first(log, tmp_path):
    rules = ["missing <= 5", "queries >= 20", "difference(ap) >= 0", "ap >= 0.6"]
    page = read(log, tmp_path, "ap", baseline="bm25", slices="country", rules=rules)
    checks = gates(page)
    assert [rule.split()[0] for rule, *_ in checks] == [
        *["queries"] * 7, *["ap"] * 7, *["missing"] * 7, *["difference(ap)"] * 7,
    ]  # fmt: skip
    rank = {"fail": 0, "undecided": 1, "pass": 2}
    for start in range(0, 28, 7):
        result = [rank[verdict] for _, verdict, _ in checks[start : start + 7]]
        assert result == sorted(result)
    # Rules apply to slices of means and of differences, as `check` decides.
    values = pr.per_query(log, "ap", by="run", keep="country")
    means = pr.summarize(values, slices="country", details=True).filter(pl.col("run") != "bm25")
    differences = pr.compare(values, baseline="bm25", slices="country", details=True)
    expected = pr.check([means, differences], rules, on_fail="return")
    assert sorted((rule, verdict) for rule, verdict, _ in checks) == sorted(
        expected.select("rule", "verdict").iter_rows()
    )
    # Rules without failures are closed, and so are the other checks of a rule with failures.
    assert all(is_open is (verdict != "pass") for _, verdict, is_open in checks)


@pytest.mark.filterwarnings("ignore:more than 5% of the queries")
@tables_only
def test_a_run_without_rankings_in_a_group_is_shown(log, tmp_path):
    gone = log.filter((pl.col("run") == "bm25") | (pl.col("country") != "DE"))
    with pytest.warns(pr.errors.RankWarning, match="only one of the runs has them"):
        page = read(gone, tmp_path, "ap", baseline="bm25", by="country", rules=["ap >= 0"])
    assert [verdict for _, verdict, _ in gates(page)] == ["fail", *["pass"] * 5]
    rows = [row for row in page.tables["groups-table"] if row[:2] == ["DE", "neural"]]
    assert rows


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
@pytest.mark.filterwarnings("ignore:all values are equal")
@without_charts
@pytest.mark.parametrize("baseline", ["bm25", None])
def test_a_run_that_retrieved_nothing_is_warned_of(log, tmp_path, baseline):
    score = pl.when(pl.col("run") == "bm25").then("score")
    with pytest.warns(pr.errors.RankWarning, match="most rankings have no retrieved document"):
        page = read(log.with_columns(score), tmp_path, "ap", baseline=baseline)
    assert page.text.count("most rankings have no retrieved document") == 1
    assert "{'run': 'neural', 'queries': 120}" in page.text


@without_charts
@pytest.mark.parametrize("undecided", ["pass", "fail"])
def test_what_undecided_rules_count_as_is_said(log, lists, tmp_path, undecided):
    rule = f"ap >= {pr.summarize(lists.filter(run='neural'), 'ap')['mean'].item()}"
    rules = [rule]
    if undecided == "pass":
        rules = tmp_path / "rules.toml"
        rules.write_text(f'undecided = "pass"\n[[rules]]\nrule = "{rule}"\n', encoding="utf-8")
    page = read(log.filter(run="neural"), tmp_path, "ap", rules=rules)
    assert [verdict for _, verdict, _ in gates(page)] == ["undecided"]
    assert f"1 undecided (counted as a {undecided})" in page.text


RULES = [
    ([], "`rules` is empty"),
    (3, "`rules` must be a list or the path of a file"),
    ("ap >= 0.1", "cannot read the rules"),
    (["what"], "invalid rule"),
    (["rr >= 0.1"], "metric 'rr' of the rule .* not found"),
    (["difference(ap) >= 0"], "set `baseline`"),
    (["std(ap) <= 1"], "which has no confidence interval"),
]


def test_rules_about_nothing_are_refused_before_the_log_is_read(log, tmp_path):
    def read_it(_):
        pytest.fail("the log was read")

    unread = log.lazy().map_batches(read_it, schema=log.schema)
    for rules, match in RULES:
        error = pr.errors.SourceError if isinstance(rules, str) else pr.errors.ArgumentError
        with pytest.raises(error, match=match):
            read(unread, tmp_path, rules=rules)


@pytest.mark.filterwarnings("ignore:all values are equal")
def test_values_that_may_change_the_result_are_warned_of(tmp_path):
    # Recall is undefined without a relevant document: here in one run, for one half of queries.
    label = pl.when(pl.col("run") == "new").then(pl.col("query") % 2).otherwise(1)
    log = pl.DataFrame({"query": [*range(20)] * 2, "run": ["new"] * 20 + ["old"] * 20})
    log = log.with_columns(doc=pl.col("run"), score=1.0, label=label)
    page = read(log, tmp_path, "recall@1", baseline="old")
    assert "new is worse than old" in page.text
    assert "The verdict depends on undefined values" in page.text


REASON = (
    "are judged, and the others count as not relevant, so recall@2 says more about the judgments "
    "than about the rankings"
)


@tables_only
@pytest.mark.parametrize("baseline", ["old", None])
@pytest.mark.filterwarnings("ignore:all values are equal")
def test_there_is_no_headline_if_few_of_the_first_documents_are_judged(tmp_path, baseline):
    """Document 1 of three is judged, which is the first one of a run, and the second one of another."""
    rows = [(query, run, doc) for query in range(40) for run in ("new", "old") for doc in (1, 2, 3)]
    log = pl.DataFrame(rows, ["query", "run", "doc"], orient="row").with_columns(
        score=pl.when(run="old", doc=2).then(9).otherwise(-pl.col("doc")),
        label=pl.when(doc=1).then(pl.col("query") % 2),
    )
    for metric in ("recall@1", "recall@2"):  # half of the first documents
        page = read(log, tmp_path, metric, baseline=baseline)
        assert "No conclusion" not in page.text
    fewer = log.with_columns(label=pl.when(pl.col("query") > 0).then("label"))  # 39 of 80
    page = read(fewer, tmp_path, ["recall@2", "recall@1"], baseline=baseline)
    assert card(page) == ("unclear", "No conclusion: too few of the first documents are judged")
    assert f"48.8% of the first 2 documents {REASON}" in page.text  # 39 / 80
    assert "recall@2 is " not in page.text and "may reverse this result" not in page.text
    assert column(page, "means", "Mean")  # the tables remain
    if baseline is None:
        return
    for options in (
        {"metrics": "bpref"}, {"metrics": "judged@2"},
        {"metrics": "recall@2", "unjudged": "removed"},
    ):  # fmt: skip
        page = read(fewer, tmp_path, baseline=baseline, **options)
        assert "No conclusion" not in page.text
    purchases = fewer.with_columns(label=pl.when(pl.col("label") > 0).then("label"))
    page = read(purchases, tmp_path, "recall@2", baseline=baseline)
    assert "No conclusion" not in page.text


def test_definitions_are_keywords(tmp_path):
    log = pr.datasets.search_log(40, runs=["a", "b"], seed=1).collect()
    page = read(log, tmp_path, "ap", baseline="a", rel=2)
    assert page.text != read(log, tmp_path, "ap", baseline="a").text
    means = pr.evaluate(log, "ap", rel=2)["ap"]
    assert column(page, "means", "Mean") == [number(mean) for mean in means]


def card(page):
    """The class of the headline's section, and its first sentence."""
    text = page.path.read_text(encoding="utf-8")
    section = re.search(
        r'<section class="headline (\w+)".*?<p class="verdict">(.*?)</p>', text, re.S
    )
    return section[1], unescape(re.sub(r"<[^>]+>", "", section[2]))


def contradictions(page):
    """The sentences below the headline about what contradicts it."""
    text = page.path.read_text(encoding="utf-8")
    return re.findall(r'<p class="but"><bdi>(.*?)</bdi>', text)


@tables_only
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_the_headline_names_what_contradicts_it(tmp_path):
    # Document a is at rank 1 of one run and at rank 2 of the other: mostly of the new run, but not in
    # Japan. Document b is at ranks 3 and 4, and 3 mostly in the old run.
    rows = []
    for query in range(160):
        country = "JP" if query % 4 == 0 else "US"
        a_of_new = 1 if (query % 5 > 0) == (country == "US") else 2
        b_of_new = 4 if query % 7 > 0 else 3
        for run, a, b in (("new", a_of_new, b_of_new), ("old", 3 - a_of_new, 7 - b_of_new)):
            ranks = {"a": a, "b": b, "c": 3 - a, "d": 7 - b}
            rows += [
                (run, query, doc, -rank, int(doc in "ab"), country) for doc, rank in ranks.items()
            ]
    names = ["run", "query", "doc", "score", "label", "country"]
    log = pl.DataFrame(rows, names, orient="row")
    options = {"baseline": "old"}
    assert card(read(log, tmp_path, "rr", **options)) == ("better", "new is better than old")
    page = read(log, tmp_path, ["rr", "p@3"], **options)
    assert card(page) == ("mixed", "new is better than old")
    assert contradictions(page) == ["Over all queries, new is worse (p@3)."]
    in_japan = ["In country=JP, new is worse (rr)."]
    assert contradictions(read(log, tmp_path, "rr", slices="country", **options)) == in_japan
    assert contradictions(read(log, tmp_path, "rr", by="country", **options)) == in_japan
    # What happened overall comes first: which run is better, by how much, and how sure that is.
    both = {"slices": "country", "rules": ["rr >= 0.9", "rr > 0.1", "difference >= 0"]}
    page = read(log, tmp_path, ["rr", "p@3"], **options, **both)
    assert contradictions(page) == ["Over all queries, new is worse (p@3).", *in_japan]
    places = [page.text.index(each) for each in ("95% interval of", "Over all", "✕ Gates failed")]
    assert card(page)[0] == "mixed" and places == sorted(places)
    # Metrics of the same groups are one sentence.
    two = read(log, tmp_path, ["rr", "rr@1", "rr@2"], slices="country", **options)
    assert contradictions(two) == ["In country=JP, new is worse (rr, rr@1, rr@2)."]
    # A failed rule alone.
    page = read(log, tmp_path, "rr", **options, rules=["rr >= 0.9"])
    assert (card(page)[0], contradictions(page)) == ("mixed", [])
    # An undecided headline, and a run that is worse.
    undecided = read(log, tmp_path, ["hit_rate@2", "p@3"], **options)
    assert card(undecided) == ("mixed", "new and old have equal values in all queries")
    assert contradictions(undecided) == ["Over all queries, new is worse (p@3)."]
    page = read(log, tmp_path, ["p@3", "rr"], **options)
    assert card(page) == ("mixed", "new is worse than old")
    assert contradictions(page) == ["Over all queries, new is better (rr)."]
    # Without a baseline, the runs of a pair are in the order of the headline.
    page = read(log, tmp_path, ["rr", "p@3"])
    assert card(page) == ("mixed", "new is better than old")
    assert contradictions(page) == ["Over all queries, new is worse (p@3)."]


@tables_only
def test_documents_without_a_purchase_count_as_not_relevant(log, tmp_path):
    bought = log.with_columns(label=pl.when(pl.col("label") >= 2).then(1))
    page = read(bought, tmp_path, "ndcg@10", baseline="bm25")
    share = bought.filter(pl.col("score").is_not_null())["label"].is_null().mean()
    assert (
        "All labels are relevant, as those of purchases or clicks: the retrieved documents without "
        f"a label ({100 * share:.1f}%), such as items without an interaction, count as not relevant."
    ) in page.text
    assert "unjudged" not in page.text.partition("Method Files")[0]
    # With a label below the threshold, documents without one are unjudged.
    judged = bought.with_columns(pl.when(pl.col("query") > 0).then("label").otherwise(0))
    page = read(judged, tmp_path, "ndcg@10", baseline="bm25")
    assert "of the retrieved documents are unjudged; they count as not relevant." in page.text


@tables_only
def test_numbers_of_better_and_worse_queries_are_those_of_compare(log, tmp_path):
    page = read(log, tmp_path, "fall_out@2", baseline="bm25")
    values = pr.per_query(log, "fall_out@2", by="run")
    row = pr.compare(values, baseline="bm25", details=True).row(0, named=True)
    wins, ties, losses = (row[name] for name in ("wins", "ties", "losses"))
    assert f"{row['queries']} queries: {wins} better, {ties} equal, {losses} worse" in page.text
    assert column(page, "compared", "Wins / ties / losses") == [f"{wins} / {ties} / {losses}"]


def test_text_from_the_log_is_escaped_everywhere(log, tmp_path):
    odd = log.with_columns(
        pl.lit(EVIL).alias("<i>note"),
        run=pl.when(pl.col("run") == "neural").then(pl.lit(EVIL)).otherwise("run"),
        doc=pl.format("{} " + EVIL, "doc"),
        country=pl.when(pl.col("country") == "US").then(pl.lit(EVIL)).otherwise("country"),
    ).rename({"country": "<i>country", "query": "<i>query"})
    page = read(
        odd, tmp_path, [pr.ndcg(10).alias("x<i>x</i>")], baseline="bm25", slices="<i>country",
        query="<i>query", show=["<i>country", "<i>note"], title=EVIL,
        rules=["difference(x<i>x</i>) >= -1"],
    )  # fmt: skip
    kinds = {tag for tag, _ in page.elements}
    assert "i" not in kinds
    assert sum(tag == "script" for tag, _ in page.elements) == 3
    data, *code = page.scripts
    assert not any("alert(1)" in each for each in code)
    # Charts put a joiner without width where text could end a script.
    assert EVIL in json.dumps(json.loads(data), ensure_ascii=False).replace("\u2060", "")
    assert page.text.count("alert(1)") > 10


def test_the_page_asks_for_nothing(page):
    assert not {"link", "img", "iframe", "base", "object"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:text/csv;"))
    style = page.path.read_text(encoding="utf-8").partition("<style>")[2]
    assert not re.search(r"url\(|@import", style.partition("</style>")[0])
    policy = dict(page.elements)["meta"] and next(
        attributes["content"] for tag, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )  # fmt: skip
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy and "http" not in policy


def test_pages_are_small_whatever_the_log(tmp_path):
    log = pr.datasets.search_log(300, 2, runs=["a", "b"]).with_columns(slice=pl.col("query"))
    path = tmp_path / "slices.html"
    pr.report(log, "ndcg@10", baseline="a", slices=["slice", "country"], path=path)
    assert path.stat().st_size < 2_500_000


def test_charts_are_of_a_few_of_many_runs(tmp_path):
    page = read(pr.datasets.search_log(20, 5, runs=14), tmp_path, "ndcg@10", baseline="run01")
    assert page.path.stat().st_size < 3_000_000
    # Without the picture of intervals, which 14 runs would make higher than the page.
    assert len(page.tables["means"]) == 1 + 14 and len(page.tables["metrics-table"][0]) == 15
    assert "Without charts: " in page.text and "6 more runs" in page.text


@tables_only
def test_what_was_evaluated_and_how(page, log, tmp_path):
    assert "a table in memory" in page.text
    path = tmp_path / "a log.parquet"
    log.write_parquet(path)
    for scanned in (pr.scan_log(path, by="run"), pl.scan_parquet(path)):
        page = read(scanned, tmp_path, "ndcg@10", baseline="bm25", conventions="trec_eval")
        assert page.text.count(str(path)) == 2
        assert f"{log.height:,} rows · 240 rankings" in page.text
        assert "Conventions trec_eval" in page.text
        assert "the label in log2" not in page.text
        for line in pr.explain("ndcg@10", "trec_eval").splitlines()[1:]:
            title, _, said = line.removeprefix("- ").partition(": ")
            assert title in page.text and said in page.text
        for name in ("polars_rank", "polars", "Python"):
            assert re.search(rf"\b{name} \d+\.\d+", page.text)


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
@pytest.mark.filterwarnings("ignore:more than 5% of the queries")
@without_charts
def test_cautions_say_what_matters(page, log, tmp_path):
    retrieved = log.filter(pl.col("score").is_not_null())
    share = retrieved["label"].null_count() / retrieved.height
    assert f"{100 * share:.1f}% of the retrieved documents are unjudged" in page.text
    assert "tied documents were ordered by document id, descending" in page.text
    twice = pl.concat([log, log.head(7)])
    page = read(twice, tmp_path, "ap", conventions=pr.Conventions(duplicates="max"))
    assert "Conventions polars_rank, with changes" in page.text
    assert (
        f"7 of {log.height + 7:,} rows had a document that was already in the ranking; of such rows, "
        "the one with the highest score was kept."
    ) in page.text
    some = log.filter((pl.col("run") == "bm25") | (pl.col("query") > 20))
    page = read(some, tmp_path, "ap", baseline="bm25")
    assert "Runs were evaluated on different queries." in page.text
    # The difference is not that of the means, which are over all queries of each run.
    values = pr.per_query(some, "ap", by="run")
    (row,) = pr.compare(values, baseline="bm25", details=True).to_dicts()
    assert column(page, "compared", "Difference") == [signed(row["difference"])]
    old, new = pr.summarize(values)["mean"]
    assert (
        f"ap is {new:.4f} for neural and {old:.4f} for bm25. The difference is over the queries of "
        f"both runs: {signed(row['difference'])} ({percent(row['relative_difference'], sign=True)})"
    ) in page.text
    assert column(page, "compared", "Queries") == [f"{row['queries']}{row['missing']} missing"]


@pytest.mark.filterwarnings("ignore:all values are equal")
@without_charts
def test_one_is_not_many(tmp_path):
    one = pl.DataFrame({"query": 1, "doc": [1], "score": [1.0], "label": [0]})
    page = read(one, tmp_path)
    assert "1 row · 1 ranking ·" in page.text and "1 query: too few for an interval" in page.text
    assert column(page, "contents", "Rankings without relevant documents") == ["1"]
    nothing = one.with_columns(query=2, score=pl.lit(None, pl.Float64))
    page = read(
        pl.concat([one, one, nothing]), tmp_path, conventions=pr.Conventions(duplicates="first")
    )
    assert "3 rows · 2 rankings ·" in page.text
    assert column(page, "contents", "Rankings without relevant documents") == ["2"]
    assert column(page, "contents", "Rankings without retrieved documents") == ["1"]
    assert (
        "1 of 3 rows had a document that was already in the ranking; of such rows, the first"
        in page.text
    )
    table = pr.per_query(pl.concat([one, nothing]), "p@1").with_columns(w=pl.Series([1.0, -1.0]))
    with pytest.raises(
        pr.errors.DataError,
        match="^1 row: null, negative, NaN or infinite weights in the column 'w'",
    ):
        pr.summarize(table, weight="w")


@without_charts
def test_warnings_are_on_the_page_and_raised(log, tmp_path):
    mixed = log.drop("doc").rename({"run": "system"})
    with pytest.warns(pr.errors.RankWarning, match="system") as caught:
        page = read(mixed, tmp_path, "ap")
    assert str(caught[0].message) in page.text


BASE = pr.datasets.search_log(40, runs=["a", "b"]).collect()
ONE = BASE.filter(pl.col("run") == "a").drop("run")
ODD = ["𝔘nicode 🙂", "עברית " + "x" * 3000]
CASES = {
    "run is none, positions": (
        ONE.drop("score"), {"run": None, "slices": "country", "position": "position"}, "ndcg@10 is 0.",
    ),
    "groups of one run": (ONE, {"by": "country"}, "By country"),
    "groups and null": (
        BASE.with_columns(country=pl.when(pl.col("country") != "US").then("country")),
        {"by": "country", "baseline": "a", "slices": "country"},
        "By country",
    ),
    "no documents, labels of all sizes": (
        BASE.drop("doc").with_columns(label=pl.col("label") + pl.col("query") / 100),
        {"baseline": "a"}, "distinct labels, from",
    ),
    "no rows": (
        BASE.clear(), {"baseline": "a", "slices": "country", "rules": ["ndcg@10 > 0"]},
        "The log has no rankings.*0 of 1 gate checks pass",
    ),
    "no rows of one run": (ONE.clear(), {}, "The log has no rankings"),
    "one query": (BASE.filter(query=1), {"baseline": "a", "slices": "country"}, "Too few"),
    "one query of one run": (ONE.filter(query=1), {}, "1 query: too few for an interval"),
    "nothing relevant": (BASE.with_columns(label=0), {"baseline": "a"}, "have equal values in all queries"),
    "all undefined": (
        BASE.with_columns(label=0), {"conventions": pr.Conventions(undefined="skip"), "slices": "country"}, "is undefined|No conclusion|Too few",
    ),
    "null where undefined": (
        BASE, {"conventions": pr.Conventions(undefined="null"), "baseline": "a"},
        "(?s)No clear difference.*is undefined for 14 rankings, which the report leaves out",
    ),
    "no scores and no labels": (
        BASE.with_columns(score=pl.lit(None, pl.Float64), label=pl.lit(None, pl.Int8)), {}, "No clear|equal values",
    ),
    "expressions": (
        BASE, {"metrics": [pl.col("click").sum().alias("clicks"), pr.ndcg(10) - pr.precision(1)]},
        "clicks",
    ),
    "scores beyond 32 bits": (
        BASE.with_columns(pl.col("score") * 1e300), {"baseline": "a", "conventions": "trec_eval 9"},
        "Biggest changes per query",
    ),
    "runs that are numbers": (
        BASE.with_columns(run=pl.col("run").replace_strict({"a": 1, "b": 2})), {"baseline": 1},
        "between 2 and 1|2 is better than 1",
    ),
    "runs that are categories, condensed lists, expected ties": (
        BASE.with_columns(pl.col("run").cast(pl.Categorical)),
        {
            "baseline": "a",
            "conventions": pr.Conventions(unjudged="removed", query_set="both", ties="expected"),
        },
        "(?s)(?=.*were removed before)(?=.*exact mean over all orders)",
    ),
    "a null run": (
        BASE.filter(pl.col("score").is_not_null()).with_columns(
            run=pl.when(pl.col("run") == "a").then("run")
        ),
        {"baseline": "a"}, "null",
    ),
    "many runs": (
        pr.datasets.search_log(20, 5, runs=14), {},
        r"run.. has the highest ndcg@10: 0\.\d+",
    ),
    "odd ids": (
        BASE.with_columns(
            query=pl.format(ODD[1] + "{}", "query"), doc=pl.format(ODD[0] + "{}", "doc")
        ),
        {"baseline": "a"}, ODD[0],
    ),
    "several query columns": (
        BASE.with_columns(part=pl.col("query") % 3), {"query": ["query", "part"], "baseline": "a"},
        "part",
    ),
    "structs, bytes and dates": (
        BASE.with_columns(
            query=pl.struct("query", "country"), doc=pl.col("doc").cast(pl.String).cast(pl.Binary),
            day=pl.date(2026, 1, 1) + pl.duration(days=pl.col("query") % 3),
        ),
        {"baseline": "a", "by": "day"}, "(?s)(?=.*b')(?=.*2026-01-03)",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:the run .* looks broken")
@pytest.mark.filterwarnings(
    "ignore:most rankings have no", "ignore:all values are equal",
    "ignore:more than 5% of the queries", "ignore:.* which the report leaves out",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_any_log_has_a_report(case, tmp_path):
    log, options, expected = CASES[case]
    options = {"metrics": "ndcg@10", **options}
    page = read(log, tmp_path, **options)
    assert re.search(expected, page.text), page.text[:1500]
    assert page.stack == []  # every element is closed
    for head, *rows in (table for name, table in page.tables.items() if name != "no id"):
        assert {len(row) for row in rows} <= {len(head)}


def test_lazy_and_eager_logs_have_the_same_page(tmp_path):
    made = [
        Read(pr.report(each, "ndcg@10", path=tmp_path / name, baseline="a"))
        for name, each in {"a.html": BASE, "b.html": BASE.lazy(), "c.html": BASE.to_arrow()}.items()
    ]
    first, *others = ([page.tables, page.scripts] for page in made)
    assert all(each == first for each in others)


@without_charts
def test_an_error_leaves_nothing_behind_and_what_was_there(log, tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises(pr.errors.DataError, match="run 'nobody' .`baseline`. not found"):
        pr.report(log, "ap", baseline="nobody", path=path)
    assert [*tmp_path.iterdir()] == []
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(pr.errors.SourceError, match="already exists"):
        pr.report(log, "ap", path=path)
    twice = pl.concat([log, log.head(1)])
    with pytest.raises(pr.errors.DataError, match="'doc' .*has duplicates.*more than once"):
        pr.report(twice, "ap", path=path, overwrite=True)
    assert path.read_text(encoding="utf-8") == "mine"
    assert [*tmp_path.iterdir()] == [path]
    assert pr.report(log, "ap", path=str(path), overwrite=True) == path
    with pytest.raises(pr.errors.SourceError, match="directory .* does not exist"):
        pr.report(log, "ap", path=tmp_path / "no" / "report.html")


ERRORS = [
    ({"run": "system"}, pr.errors.SchemaError, "column 'system' .`run`. not found"),
    ({"run": None, "baseline": "a"}, pr.errors.ArgumentError, "`baseline` needs a column of runs"),
    ({"slices": "land"}, pr.errors.SchemaError, "column 'land' .`slices`. not found"),
    ({"slices": "run"}, pr.errors.ArgumentError, "`slices` contains the column of runs"),
    ({"show": "titel"}, pr.errors.SchemaError, "column 'titel' .`show`. not found"),
    ({"slices": "click"}, pr.errors.DataError, "has several values in a ranking"),
    ({"metrics": "ndgc"}, pr.errors.ArgumentError, "Did you mean"),
    ({"metrics": ["ap", "gm_map"]}, pr.errors.ArgumentError, "'gm_map', a geometric mean"),
    ({"metrics": "gm_map"}, pr.errors.ArgumentError, "'gm_map', a geometric mean"),
    ({"n": 9}, pr.errors.ArgumentError, "no parameter `n`"),
    ({"columns": "query"}, pr.errors.ArgumentError, "no parameter `columns`"),
    ({"qury": "q"}, pr.errors.ArgumentError, "no parameter `qury`. Did you mean `query`"),
    ({"query": "q"}, pr.errors.SchemaError, "column 'q' .`query`. not found"),
    ({"rules": ["what"]}, pr.errors.ArgumentError, "invalid rule"),
    ({"baseline": 1}, pr.errors.ArgumentError, "`baseline` must be a value of the column 'run'"),
    ({"score": ["score"]}, pr.errors.ArgumentError, "`score` must be a single column"),
    ({"label": "nothing"}, pr.errors.SchemaError, "'nothing' .`label`. not found"),
]


def test_errors_are_ours(log, tmp_path):
    for options, error, match in ERRORS:
        with pytest.raises(error, match=match):
            read(log, tmp_path, **options)
    assert [*tmp_path.iterdir()] == []


def test_without_the_extra_the_error_names_it(log, tmp_path, monkeypatch):
    for package in ("jinja2", "altair", "vl_convert"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(pr.errors.MissingExtraError, match=r"polars_rank\[(report|plot)\]"):
                read(log, tmp_path, "ndcg@10")
    assert [*tmp_path.iterdir()] == []
