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

# Numbers and links as pages write them.
from polars_rank.reporting.csv_links import csv_link
from polars_rank.reporting.page_formats import number, p_value, percent, signed

EVIL = "</script><script>alert(1)</script>"
RUNS = ["bm25", "neural"]
METRICS = ["ndcg@10", "ap", "fall_out@2"]


@pytest.fixture
def _no_charts(monkeypatch):
    monkeypatch.setattr("polars_rank.reporting.charts._charts", lambda *_: iter(()))


@pytest.fixture
def _tables_only(_no_charts, monkeypatch):
    monkeypatch.setattr("polars_rank.reporting.evidence._robustness", lambda *_: None)


#: For tests of text and tables: charts take half of the time of a page.
without_charts = pytest.mark.usefixtures("_no_charts")
#: For tests of numbers: to try the verdict under other choices takes a third of the time.
tables_only = pytest.mark.usefixtures("_tables_only")


@pytest.fixture(scope="module")
def log():
    return pr.datasets.search_log(120, runs=RUNS).collect()


@pytest.fixture(scope="module")
def lists(log):
    return pr.per_query(log, METRICS, by="run", keep="country")


class Read(HTMLParser):
    """A page: its text, its tables by id, its elements, and its scripts."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.elements, self.scripts, self.tables = [], [], {}
        self.stack, self.row, self.words = [], None, []
        self.feed(self.source)
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
    return Read(pr.report(log, metrics, path=tmp_path / "page.html", overwrite=True, **options))


GATE = r'<details[^>]*?( open)?>|</details>|<strong><bdi>(.*?)</bdi>|<th scope="row">.*?badge (\w+)'


def gates(page):
    """The rule, the verdict, and whether it is unfolded, of each check in the order of the page."""
    text = page.source.partition('id="gates-title"')[2].partition("</section>")[0]
    checks, rule, opened = [], "", []
    for part in re.finditer(GATE, text):
        if part[2]:
            rule = unescape(part[2])
        elif part[3]:
            checks.append((rule, part[3], all(opened)))
        elif part[0] == "</details>":
            opened.pop()
        else:
            opened.append(bool(part[1]))
    return checks


def verdicts(page):
    return [verdict for _, verdict, _ in gates(page)]


def card(page):
    """The class of the headline's section, and its first sentence."""
    pattern = r'<section class="headline (\w+)".*?<p class="verdict">(.*?)</p>'
    section = re.search(pattern, page.source, re.S)
    return section[1], unescape(re.sub(r"<[^>]+>", "", section[2]))


INTERVAL = re.compile(r" (\S+ to \S+)$")


def column(page, table, name):
    """The cells of a column, without the intervals below their numbers."""
    head, *rows = page.tables[table]
    return [INTERVAL.sub("", row[head.index(name)]) for row in rows]


def intervals(page, table, name):
    """The intervals below the numbers of a column; "" if there is none."""
    head, *rows = page.tables[table]
    found = [INTERVAL.search(row[head.index(name)]) for row in rows]
    return [each[1] if each else "" for each in found]


def shown(table, form):
    """The intervals of a table as the page writes them."""
    rows = table.select("low", "high").rows()
    return ["" if low is None else f"{form(low)} to {form(high)}" for low, high in rows]


def words(page, table):
    """The verdicts of a table, without their signs."""
    return [each.partition(" ")[2] for each in column(page, table, "Verdict")]


@pytest.fixture(scope="module")
def page(log, tmp_path_factory):
    """A page with a baseline and slices."""
    folder = tmp_path_factory.mktemp("page")
    return read(log, folder, METRICS, baseline="bm25", slices="country")


def test_numbers_are_those_of_the_library(page, lists):
    summary = pr.summarize(lists).sort(pl.col("metric").cast(pl.Enum(METRICS)), "run")
    assert column(page, "means", "Mean") == [*map(number, summary["mean"])]
    assert column(page, "means", "Queries") == [*["120"] * 4, *["118"] * 2]
    assert intervals(page, "means", "Mean") == shown(summary, number)
    compared = pr.compare(lists, baseline="bm25", slices="country", details=True)
    whole = compared.filter(pl.col("slice").is_null())
    for table, rows in (("compared", whole), ("slices-table", compared.drop_nulls("slice"))):
        assert column(page, table, "Difference") == [*map(signed, rows["difference"])]
        assert intervals(page, table, "Difference") == shown(rows, signed)
        assert column(page, table, "p") == [*map(p_value, rows["p_value"])]
        assert words(page, table) == rows["verdict"].to_list()
    relative = [percent(each, sign=True) for each in whole["relative_difference"]]
    assert column(page, "compared", "Relative") == relative
    # A lower fall-out is better.
    counts = whole.select("wins", "ties", "losses").rows()
    assert column(page, "compared", "Wins / ties / losses") == [
        f"{wins} / {ties} / {losses}" for wins, ties, losses in counts
    ]
    wins, ties, losses = counts[0]
    assert f"120 queries: {wins} better, {ties} equal, {losses} worse" in page.text
    assert f"5 of {losses} queries with a loss." in page.text
    assert f"5 of {wins} queries with a gain." in page.text


def test_tables_are_downloads_of_the_page(page, lists):
    links = {a["download"]: a["href"] for tag, a in page.elements if "download" in a}
    names = ("means", "comparison", "slices", "contents", "labels")
    assert {*links} == {f"{name}.csv" for name in names}
    content = base64.b64decode(links["comparison.csv"].partition("base64,")[2])
    compared = pr.compare(lists, baseline="bm25", details=True).drop("undefined")
    assert_frame_equal(pl.read_csv(content), compared, check_dtypes=False)


def test_downloads_hold_no_formulas():
    """A spreadsheet shows an apostrophe in front of text as text; numbers stay numbers."""
    formulas = ["=HYPERLINK(1)", "+1+1", "-a", "@SUM(1)", "\t=1", "\r=1", "＝1"]
    others = ["-0.5", "+1", "-1e-5", "a=1", "1-1", "", None]
    table = pl.DataFrame({"=id": formulas + others, "n": -0.5}).with_columns(
        kind=pl.col("=id").cast(pl.Categorical), ids=pl.concat_list("=id")
    )
    content = base64.b64decode(csv_link(table).partition("base64,")[2])
    read = pl.read_csv(content, infer_schema=False, empty_string_is_null=False)
    safe = ["'" + text for text in formulas] + others[:-1] + [""]
    assert read["'=id"].to_list() == read["kind"].to_list() == safe
    assert read["n"].to_list() == ["-0.5"] * len(table)
    assert read["ids"].to_list() == safe


def test_lists_that_moved_are_those_of_movers(page, log):
    moved = pr.diagnostics.movers(log, "ndcg@10", baseline="bm25", n=5, k=10)
    result = re.findall(r"query (\d+) ", page.text.partition("Biggest changes per query")[2])
    order = moved.unique("query", maintain_order=True)
    lost, gained = (
        order.filter(each)["query"].to_list()
        for each in (pl.col("difference") < 0, pl.col("difference") > 0)
    )
    assert [*dict.fromkeys(map(int, result))][:10] == [*lost, *gained]
    first = moved.filter(query=lost[0])
    ranked = [row for row in page.tables["no id"] if row[0].isdigit()]
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


def test_the_page_asks_for_nothing(page):
    assert not {"link", "img", "iframe", "base", "object"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:text/csv;"))
    style = page.source.partition("<style>")[2]
    assert not re.search(r"url\(|@import", style.partition("</style>")[0])
    (policy,) = [
        attributes["content"] for _, attributes in page.elements
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]  # fmt: skip
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-eval" not in policy and "http" not in policy


@without_charts
def test_pages_that_cannot_be_written(log, tmp_path):
    device = needs.full_device(tmp_path)
    with pytest.raises(pr.errors.SourceError, match=f"cannot write '{device}': No space left"):
        pr.report(log.filter(run="bm25"), "ap", path=device, overwrite=True)
    assert device.is_char_device()


@pytest.mark.filterwarnings("ignore:all values are equal", "ignore:the run .* looks broken")
@tables_only
def test_the_headline_names_the_better_run_and_how_sure_that_is(tmp_path):
    # Per query 1 and 0, 30 times.
    best = pl.DataFrame({"query": range(30), "doc": 1, "score": 1.0, "label": 1, "run": "new"})
    worse = pl.concat([best, best.with_columns(doc=2, score=2.0, label=0)])
    log = pl.concat([best, worse.with_columns(run=pl.lit("old"))])
    # One half of the queries each way: no difference.
    half = log.with_columns(run=pl.when(pl.col("query") % 2 == 0).then("run").otherwise(
        pl.when(pl.col("run") == "new").then(pl.lit("old")).otherwise(pl.lit("new"))
    ))  # fmt: skip
    twins = pl.concat([worse, worse.with_columns(run=pl.lit("old"))])
    for table, metric, baseline, *sentences in (
        (log, "hit_rate@1", "old", "new is better than old",
         "hit_rate@1 rises from 0.0000 to 1.0000: +1.0000."),
        (log, "hit_rate@1", "new", "old is worse than new",
         "hit_rate@1 falls from 1.0000 to 0.0000: −1.0000 (−100.0%)."),
        (half, "hit_rate@1", "old", "No clear difference between new and old",
         "○ unclear 95% interval of the difference: −0."),
        # Each query gains 1 - 1 / log2(3) = 0.369. Of the range from -1, which may be missing with
        # a share of 1 - 0.025^(1/n), that is shown from 12 queries on.
        (log.filter(pl.col("query") < 11), "ndcg@2", "old",
         "Too few queries to compare new with old"),
        (log.filter(pl.col("query") < 12), "ndcg@2", "old", "new is better than old"),
        (twins, "ndcg@2", "old", "new and old have equal values in all queries"),
    ):  # fmt: skip
        text = read(table, tmp_path, metric, baseline=baseline).text
        assert [each for each in sentences if each not in text] == []
    assert "all values are equal" not in read(worse, tmp_path, "ndcg@2", run=None).text


@tables_only
def test_several_comparisons_have_corrected_intervals(tmp_path):
    log = pr.datasets.search_log(60, runs=["a", "b", "c"]).collect()
    metrics = ["ndcg@10", "ap", "p@1"]
    page = read(log, tmp_path, metrics, baseline="a", by="country")
    values = pr.per_query(log, metrics, by="run", keep="country")
    compared = pr.compare(values, baseline="a", details=True)
    assert intervals(page, "compared", "Difference") == shown(compared, signed)
    assert "intervals and p-values corrected for 6 comparisons" in page.text
    # An uncorrected interval above 0 does not make a run better.
    assert compared.filter(pl.col("low_uncorrected") > 0, verdict="unclear").height
    assert words(page, "compared") == compared["verdict"].to_list()
    by_group = pr.compare(values, baseline="a", by="country")
    keys = "country", "metric", "run"
    expected = dict(zip(by_group.select(keys).rows(), by_group["verdict"], strict=True))
    head, *rows = page.tables["groups-table"]
    of_rows = [each for each in metrics for _ in range(by_group.height // 2)]
    for metric, cells in zip(of_rows, rows, strict=True):
        row = dict(zip(head, cells, strict=True))
        if row["Run"] != "a":
            assert cells[-1].endswith(expected[row["country"], metric, row["Run"]])


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
    assert column(page, "means", "Mean") == [*map(number, pr.summarize(values, **given)["mean"])]
    sliced = pr.compare(values, "ap", slices="country", baseline="bm25", **given)
    assert column(page, "slices-table", "Difference") == [*map(signed, sliced["difference"][1:])]
    # Without a baseline, in clusters of two columns; 3 queries are of no user.
    nulls = units.with_columns(user=pl.when(pl.col("user") > 0).then("user"), session=1)
    given["cluster"] = ["user", "session"]
    page = read(nulls, tmp_path, "ap", **given)
    assert "60 queries in 22 clusters (user, session)" in page.text
    values = pr.per_query(nulls, "ap", by="run", keep=["user", "traffic", "session"])
    difference = pr.compare(values, **given)["difference"].item()
    assert column(page, "compared", "Difference") == [signed(difference)]


@without_charts
def test_queries_of_several_groups_are_counted_once(log, lists, tmp_path):
    days = pl.concat(log.with_columns(day=pl.lit(day)) for day in range(3))
    once = "120 of 120 queries are in several groups of day. .* count each query once"
    ap = lists.select("run", "query", "ap")
    for baseline in ("bm25", None):
        with pytest.warns(pr.errors.RankWarning, match=once):
            page = read(days, tmp_path, "ap", baseline=baseline, by="day")
        assert re.search(once, page.text)
        assert "120 queries, 360 rankings" in page.text
        # The same intervals as for one day: repetitions are no new queries.
        assert intervals(page, "means", "Mean") == shown(pr.summarize(ap), number)
        compared = pr.compare(ap, baseline=baseline)
        assert intervals(page, "compared", "Difference") == shown(compared, signed)
    users = days.with_columns(
        user=pl.col("query") % 40, session=100 * pl.col("day") + pl.col("query")
    )
    read(users, tmp_path, "ap", baseline="bm25", by="day", cluster="user")
    with pytest.warns(pr.errors.RankWarning, match="groups of day and in several clusters"):
        read(users, tmp_path, "ap", baseline="bm25", by="day", cluster="session")


@without_charts
@pytest.mark.filterwarnings("ignore:the run .* looks broken")
def test_one_line_says_whether_the_verdict_holds(tmp_path):
    log, score = pr.datasets.search_log(120, runs=RUNS, seed=7).collect(), pl.col("score")
    old = log.filter(run="bm25")
    # Recall is undefined without a relevant document: here in one run, for one half of queries.
    label = pl.when(pl.col("run") == "neural").then(pl.col("query") % 2).otherwise(1)
    undefined = log.filter(pl.col("query") < 40).group_by("run", "query").agg(
        doc=pl.col("run").first(), score=pl.lit(1.0)
    ).with_columns(label=label)  # fmt: skip
    kinds = "ties, unjudged documents, gain, cutoff, undefined values and outliers."
    constant = pl.when(pl.col("run") == "bm25").then(1.0).otherwise(score).alias("score")
    for line, table, options in (
        (f"The verdict holds with 8 other choices of {kinds}", log, {}),
        ("The verdict holds with 7 other choices of ties, gain, cutoff, undefined values and",
         log.with_columns(pl.col("label").fill_null(0)), {}),
        ("A run looks broken: constant scores ('bm25').",
         log.with_columns(constant), {}),
        (f"The verdict remains unclear with 8 other choices of {kinds}",
         pl.concat([old, old.with_columns(score + 1, run=pl.lit("neural"))]), {}),
        # The groups of a query count as queries of their own, and may be null.
        (f"The verdict holds with 8 other choices of {kinds}",
         log.with_columns(pl.col("country").replace("DE", None)), {"by": "country"}),
        # Without a baseline, broken runs are found, too.
        ("the run 'bm25' looks broken (constant scores)", log.with_columns(score * 0),
         {"baseline": None}),
        ("The verdict depends on undefined values", undefined, {"metrics": "recall@1"}),
    ):  # fmt: skip
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "all values are equal")
            page = read(table, tmp_path, **{"metrics": "ndcg@10", "baseline": "bm25", **options})
        assert line in page.text


@tables_only
def test_without_a_baseline_the_best_run_stands_beside_the_next(tmp_path):
    log = pr.datasets.search_log(60, runs=["a", "b", "c"]).collect()
    page = read(log, tmp_path)
    pairs = pr.compare(pr.per_query(log, ["ndcg@10", "ap"], by="run"))
    # As in the headline, the better run by the first metric is the first of a pair.
    keys = zip(*pairs["metric", "run", "baseline"], strict=True)
    turned = dict(zip(keys, pairs["difference"], strict=True))
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


def test_the_page_says_which_direction_is_better(log, tmp_path):
    loss = pr.metric("label_ranking_loss")
    unknown = pl.col("rank").filter("relevant").mean().alias("x")  # of an expression
    for metrics, name, direction, conclusion in (
        (loss.alias("loss"), "loss", " (lower is better)", "neural is better than"),
        ((1 - loss).alias("gain"), "gain", "", "neural is better than"),
        (unknown, "x", " (higher is better)", "x (higher is better)"),
    ):
        page = read(log, tmp_path, metrics, baseline="bm25")
        assert page.text.count(f"{name}{direction}") >= 2
        assert page.text.count(" is better)") == (2 if direction else 0)
        assert f"{name}{direction}: neural vs. bm25, per query" in page.source
        assert conclusion in page.text
        (row,) = pr.compare(
            pr.per_query(log, metrics, by="run"), metrics, baseline="bm25"
        ).to_dicts()
        better, worse = (row[name] for name in ("wins", "losses"))
        assert f"{better} better, " in page.text and f"{worse} worse" in page.text
        assert f"5 of {worse} queries with a loss." in page.text
        assert f"5 of {better} queries with a gain." in page.text


@tables_only
def test_shown_columns_of_queries_and_documents_and_links(page, log, tmp_path):
    hint = "To show the texts of queries and documents"
    assert hint in page.text
    texts = log.with_columns(
        pl.format("https://x.org/{}?a=<b>", "doc").alias("url"),
        pl.format("title {}", "doc").alias("title"),
        # Judged documents that were not retrieved have no text of the query.
        text=pl.when(pl.col("score").is_not_null()).then(pl.format("words of {}", "query")),
    )
    page = read(texts, tmp_path, "p@1", baseline="bm25", show=["text", "title", "url"])
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
    assert hint not in page.text


@tables_only
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_undefined_values_count_as_evaluate_counts_them(tmp_path):
    rows = pr.datasets.search_log(60, 6, runs=["a", "b"], seed=4).collect()
    label = pl.when(pl.col("query") % 9 == 0).then(0).when(pl.col("query") % 7 == 0).then(1)
    rows = rows.with_columns(label=label.otherwise("label"))
    metrics = ["fall_out@2", "ap"]
    of_runs = pr.per_query(rows, metrics, by="run", undefined="null").group_by("run")
    nulls = of_runs.agg(pl.col(metrics).null_count()).sort("run")
    for conventions, undefined in (
        ("LightGBM", None), ("RecTools", {"ap": "one"}),
        ("polars_rank", {"fall_out@2": "one", "*": "skip"}),
    ):  # fmt: skip
        options = {"conventions": named(conventions).but(undefined=undefined)}
        page = read(rows, tmp_path, metrics, baseline="a", slices="country", **options)
        means = pr.evaluate(rows, metrics, by="run", **options)
        values = pr.per_query(rows, metrics, by="run", **options)
        assert column(page, "means", "Mean") == [
            number(mean) for metric in metrics for mean in means.sort("run")[metric]
        ]
        # A lower fall-out is better, whether or not undefined values count.
        runs = [values.filter(run=run).sort("query")["fall_out@2"] for run in "ab"]
        wins, losses = ((runs[i] < runs[1 - i]).sum() for i in (1, 0))
        counts = column(page, "compared", "Wins / ties / losses")[0]
        assert (wins, losses) == (int(counts.split()[0]), int(counts.split()[-1]))
        assert wins != losses
    counts = [*map(int, column(page, "means", "Undefined"))]
    assert counts == [*nulls["fall_out@2"], *nulls["ap"]]
    assert nulls["ap"].sum() > 0


@tables_only
def test_no_query_of_a_small_log_is_both_best_and_worst(log, tmp_path):
    for queries in (1, 3):
        small = log.filter((pl.col("run") == "bm25") & (pl.col("query") < queries))
        found = re.findall(r"query (\d+) ", read(small, tmp_path, "p@5").text)
        assert len(found) == len({*found}) == queries


@tables_only
def test_gates_are_shown_and_do_not_raise(log, tmp_path):
    rules = ["ndcg@10 >= 0.99", "queries >= 100", {"rule": "ap >= 0", "where": {"run": "neural"}}]
    page = read(log, tmp_path, baseline="bm25", rules=rules)
    assert verdicts(page) == ["fail", "pass", "pass"]
    headline = page.text.partition("Skip to the results")[2].partition("Metrics")[0]
    assert "✕ Gates failed 2 of 3 gate checks pass, 1 fail" in headline
    assert "ndcg@10 >= 0.99: 1 of 1" in headline


@tables_only
def test_gates_stand_by_rule_with_failures_first(log, lists, tmp_path):
    rules = ["missing <= 5", "queries >= 20", "difference(ap) >= 0", "ap >= 0.6"]
    page = read(log, tmp_path, "ap", baseline="bm25", slices="country", rules=rules)
    checks = gates(page)
    names = [name for name in ("queries", "ap", "missing", "difference(ap)") for _ in range(7)]
    assert [rule.split()[0] for rule, *_ in checks] == names
    rank = {"fail": 0, "undecided": 1, "pass": 2}
    for start in range(0, 28, 7):
        result = [rank[verdict] for _, verdict, _ in checks[start : start + 7]]
        assert result == sorted(result)
    # Rules apply to slices of means and of differences, as `check` decides.
    values = lists.select("run", "query", "country", "ap")
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
    assert verdicts(page) == ["fail", *["pass"] * 5]
    assert [row for row in page.tables["groups-table"] if row[:2] == ["DE", "neural"]]


@pytest.mark.filterwarnings("ignore:the run .* looks broken", "ignore:all values are equal")
@without_charts
def test_a_run_that_retrieved_nothing_is_warned_of(log, tmp_path):
    score = pl.when(pl.col("run") == "bm25").then("score")
    for baseline in ("bm25", None):
        with pytest.warns(pr.errors.RankWarning, match="most rankings have no retrieved document"):
            page = read(log.with_columns(score), tmp_path, "ap", baseline=baseline)
        assert page.text.count("most rankings have no retrieved document") == 1
        assert "{'run': 'neural', 'queries': 120}" in page.text


@tables_only
def test_what_undecided_rules_count_as_is_said(log, lists, tmp_path):
    rule = f"ap >= {pr.summarize(lists.filter(run='neural'), 'ap')['mean'].item()}"
    path = tmp_path / "rules.toml"
    path.write_text(f'undecided = "pass"\n[[rules]]\nrule = "{rule}"\n', encoding="utf-8")
    for rules, undecided in ((path, "pass"), ([rule], "fail")):
        page = read(log.filter(run="neural"), tmp_path, "ap", rules=rules)
        assert verdicts(page) == ["undecided"]
        assert f"1 undecided (counted as a {undecided})" in page.text


REASON = (
    "are judged, and the others count as not relevant, so recall@2 says more about the judgments "
    "than about the rankings"
)


@tables_only
@pytest.mark.filterwarnings("ignore:all values are equal")
def test_there_is_no_headline_if_few_of_the_first_documents_are_judged(tmp_path):
    """Document 1 of three is judged, which is the first of a run, and the second of another."""
    rows = [(query, run, doc) for query in range(40) for run in ("new", "old") for doc in (1, 2, 3)]
    log = pl.DataFrame(rows, ["query", "run", "doc"], orient="row").with_columns(
        score=pl.when(run="old", doc=2).then(9).otherwise(-pl.col("doc")),
        label=pl.when(doc=1).then(pl.col("query") % 2),
    )
    fewer = log.with_columns(label=pl.when(pl.col("query") > 0).then("label"))  # 39 of 80
    for baseline in ("old", None):
        page = read(fewer, tmp_path, ["recall@2", "recall@1"], baseline=baseline)
        assert card(page) == ("unclear", "No conclusion: too few of the first documents are judged")
        assert f"48.8% of the first 2 documents {REASON}" in page.text  # 39 / 80
        assert "recall@2 is " not in page.text and "may reverse this result" not in page.text
        assert column(page, "means", "Mean")  # the tables remain
    purchases = fewer.with_columns(label=pl.when(pl.col("label") > 0).then("label"))
    for table, options in (
        (log, {"metrics": "recall@1"}), (log, {"metrics": "recall@2"}),  # half of the documents
        (fewer, {"metrics": "bpref"}), (fewer, {"metrics": "judged@2"}),
        (fewer, {"metrics": "recall@2", "unjudged": "removed"}),
        (purchases, {"metrics": "recall@2"}),
    ):  # fmt: skip
        assert "No conclusion" not in read(table, tmp_path, baseline="old", **options).text


@tables_only
def test_definitions_are_keywords(tmp_path):
    log = pr.datasets.search_log(40, runs=["a", "b"], seed=1).collect()
    page = read(log, tmp_path, "ap", baseline="a", rel=2)
    means = pr.evaluate(log, "ap", rel=2)["ap"]
    assert column(page, "means", "Mean") == [number(mean) for mean in means]


@tables_only
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_the_headline_names_what_contradicts_it(tmp_path):
    # Document a is at rank 1 of one run and at rank 2 of the other: mostly of the new run, but not
    # in Japan. Document b is at ranks 3 and 4, and 3 mostly in the old run.
    rows = []
    for query in range(160):
        country = "JP" if query % 4 == 0 else "US"
        a_of_new = 1 if (query % 5 > 0) == (country == "US") else 2
        b_of_new = 4 if query % 7 > 0 else 3
        for run, a, b in (("new", a_of_new, b_of_new), ("old", 3 - a_of_new, 7 - b_of_new)):
            for doc, rank in {"a": a, "b": b, "c": 3 - a, "d": 7 - b}.items():
                rows.append((run, query, doc, -rank, int(doc in "ab"), country))
    names = ["run", "query", "doc", "score", "label", "country"]
    log = pl.DataFrame(rows, names, orient="row")
    worse, in_japan = "Over all queries, new is worse (p@3).", "In country=JP, new is worse (rr)."
    better = "new is better than old"
    for metrics, options, expected, sentences in (
        ("rr", {}, ("better", better), []),
        ("rr", {"rules": ["rr >= 0.9"]}, ("mixed", better), []),
        ("rr", {"by": "country"}, ("mixed", better), [in_japan]),
        (["p@3", "rr"], {}, ("mixed", "new is worse than old"),
         ["Over all queries, new is better (rr)."]),
        (["hit_rate@2", "p@3"], {}, ("mixed", "new and old have equal values in all queries"),
         [worse]),
        # Metrics of the same groups are one sentence.
        (["rr", "rr@1", "rr@2"], {"slices": "country"}, ("mixed", better),
         ["In country=JP, new is worse (rr, rr@1, rr@2)."]),
        # Without a baseline, the runs of a pair are in the order of the headline.
        (["rr", "p@3"], {"baseline": None}, ("mixed", better), [worse]),
        (["rr", "p@3"],
         {"slices": "country", "rules": ["rr >= 0.9", "rr > 0.1", "difference >= 0"]},
         ("mixed", better), [worse, in_japan]),
    ):  # fmt: skip
        page = read(log, tmp_path, metrics, **{"baseline": "old", **options})
        assert card(page) == expected
        assert re.findall(r'<p class="but"><bdi>(.*?)</bdi>', page.source) == sentences
    # What happened overall comes first: which run is better, by how much, and how sure that is.
    places = [page.text.index(each) for each in ("95% interval of", "Over all", "✕ Gates failed")]
    assert places == sorted(places)


@tables_only
def test_documents_without_a_purchase_count_as_not_relevant(log, tmp_path):
    bought = log.with_columns(label=pl.when(pl.col("label") >= 2).then(1))
    page = read(bought, tmp_path, "ndcg@10", baseline="bm25")
    share = bought.filter(pl.col("score").is_not_null())["label"].is_null().mean()
    assert (
        "All labels are relevant, as those of purchases or clicks: the retrieved documents without "
        f"a label ({100 * share:.1f}%), such as items without an interaction, count as not "
        "relevant."
    ) in page.text
    assert "unjudged" not in page.text.partition("Method Files")[0]
    # With a label below the threshold, documents without one are unjudged.
    judged = bought.with_columns(pl.when(pl.col("query") > 0).then("label").otherwise(0))
    page = read(judged, tmp_path, "ndcg@10", baseline="bm25")
    assert "of the retrieved documents are unjudged; they count as not relevant." in page.text


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
    kinds = [tag for tag, _ in page.elements]
    assert "i" not in kinds and kinds.count("script") == 3
    data, *code = page.scripts
    assert not any("alert(1)" in each for each in code)
    # Charts put a joiner without width where text could end a script.
    assert EVIL in json.dumps(json.loads(data), ensure_ascii=False).replace("\u2060", "")
    assert page.text.count("alert(1)") > 10


def test_pages_are_small_whatever_the_log(tmp_path):
    log = pr.datasets.search_log(300, 2, runs=["a", "b"]).with_columns(slice=pl.col("query"))
    page = read(log, tmp_path, "ndcg@10", baseline="a", slices=["slice", "country"])
    assert len(page.source) < 2_500_000
    page = read(pr.datasets.search_log(20, 5, runs=14), tmp_path, "ndcg@10")
    assert len(page.source) < 3_000_000
    # Without the picture of intervals, which 14 runs would make higher than the page.
    assert len(page.tables["means"]) == 1 + 14 and len(page.tables["metrics-table"][0]) == 15
    assert "Without charts: " in page.text and "6 more runs" in page.text
    assert re.search(r"run.. has the highest ndcg@10: 0\.\d+", page.text)


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


@tables_only
def test_cautions_say_what_matters(page, log, tmp_path):
    retrieved = log.filter(pl.col("score").is_not_null())
    share = retrieved["label"].null_count() / retrieved.height
    assert f"{100 * share:.1f}% of the retrieved documents are unjudged" in page.text
    assert "tied documents: by document id, descending" in page.text
    twice = pl.concat([log, log.head(7)])
    page = read(twice, tmp_path, "ap", conventions=pr.Conventions(duplicates="max"))
    assert "Conventions polars_rank, with changes" in page.text
    assert (
        f"7 of {log.height + 7:,} rows had a document that was already in the ranking; of such "
        "rows, the one with the highest score was kept."
    ) in page.text
    # The overall comparison, groups and slices have warnings of one kind.
    some = log.filter((pl.col("run") == "bm25") | (pl.col("query") > 20))
    with pytest.warns(pr.errors.RankWarning, match="more than 5% of the queries") as caught:
        page = read(some, tmp_path, "ap", baseline="bm25", by="country", slices="country")
    assert page.text.count("more than 5% of the queries") == 1
    assert sum("more than 5%" in str(each.message) for each in caught) == 1
    assert "99 queries" in page.text and "21 queries missing in one of the runs" in page.text
    assert "Runs were evaluated on different queries." in page.text
    # The difference is not that of the means, which are over all queries of each run.
    values = pr.per_query(some, "ap", by="run")
    with pytest.warns(pr.errors.RankWarning, match="more than 5%"):
        (row,) = pr.compare(values, baseline="bm25", details=True).to_dicts()
    assert column(page, "compared", "Difference") == [signed(row["difference"])]
    old, new = pr.summarize(values)["mean"]
    assert (
        f"ap is {new:.4f} for neural and {old:.4f} for bm25. The difference is over the queries of "
        f"both runs: {signed(row['difference'])} ({percent(row['relative_difference'], sign=True)})"
    ) in page.text
    assert column(page, "compared", "Queries") == [f"{row['queries']}{row['missing']} missing"]


@pytest.mark.filterwarnings("ignore:all values are equal")
@tables_only
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
    assert "1 of 3 rows had a document that was already in the ranking; of such" in page.text
    assert "of such rows, the first" in page.text


@tables_only
def test_warnings_are_on_the_page_and_raised(log, tmp_path):
    mixed = log.drop("doc").rename({"run": "system"})
    with pytest.warns(pr.errors.RankWarning, match="system") as caught:
        page = read(mixed, tmp_path, "ap")
    assert str(caught[0].message) in page.text


BASE = pr.datasets.search_log(40, runs=["a", "b"]).collect()
ONE = BASE.filter(pl.col("run") == "a").drop("run")
ODD = ["𝔘nicode 🙂", "עברית " + "x" * 3000]
CASES = {
    "positions and groups of one run": (
        ONE.drop("score"),
        {"run": None, "slices": "country", "by": "country", "position": "position"},
        "(?s)(?=.*ndcg@10 is 0.)(?=.*By country)",
    ),
    "groups and null": (
        BASE.with_columns(country=pl.when(pl.col("country") != "US").then("country")),
        {"by": "country", "baseline": "a", "slices": "country"}, "By country",
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
    "rankings of one document": (
        BASE.drop_nulls("score").group_by("run", "query", maintain_order=True).first(),
        {"metrics": "recall@1", "baseline": "a"}, "recall@1 (rises|falls|is)|equal|No clear",
    ),
    "all undefined": (
        BASE.with_columns(label=0),
        {"conventions": pr.Conventions(undefined="skip"), "slices": "country"},
        "is undefined|No conclusion|Too few",
    ),
    "null where undefined": (
        BASE, {"conventions": pr.Conventions(undefined="null"), "baseline": "a"},
        "(?s)No clear difference.*is undefined for 14 rankings, which the report leaves out",
    ),
    "no scores and no labels": (
        BASE.with_columns(score=pl.lit(None, pl.Float64), label=pl.lit(None, pl.Int8)), {},
        "No clear|equal values",
    ),
    "scores beyond 32 bits": (
        BASE.with_columns(pl.col("score") * 1e300), {"baseline": "a", "conventions": "trec_eval 9"},
        "Biggest changes per query",
    ),
    "expressions, runs that are numbers": (
        BASE.with_columns(run=pl.col("run").replace_strict({"a": 1, "b": 2})),
        {"baseline": 1,
         "metrics": [pl.col("click").sum().alias("clicks"), pr.ndcg(10) - pr.precision(1)]},
        "(?s)(between 2 and 1|2 is (better|worse) than 1).*clicks",
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
    "odd ids, several query columns": (
        BASE.with_columns(
            query=pl.format(ODD[1] + "{}", "query"), doc=pl.format(ODD[0] + "{}", "doc"),
            part=pl.col("query") % 3,
        ),
        {"query": ["query", "part"], "baseline": "a"}, f"(?s)(?=.*{ODD[0]})(?=.*part)",
    ),
    "structs, bytes and dates": (
        BASE.with_columns(
            query=pl.struct("query", "country"), doc=pl.col("doc").cast(pl.String).cast(pl.Binary),
            day=pl.date(2026, 1, 1) + pl.duration(days=pl.col("query") % 3),
        ),
        {"baseline": "a", "by": "day"}, "(?s)(?=.*b')(?=.*2026-01-03)",
    ),
}  # fmt: skip


@pytest.mark.filterwarnings(
    "ignore:most rankings have no", "ignore:all values are equal", "ignore:the run .* looks broken",
    "ignore:more than 5% of the queries", "ignore:.* which the report leaves out",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES)
def test_any_log_has_a_report(case, tmp_path):
    log, options, expected = CASES[case]
    page = read(log, tmp_path, **{"metrics": "ndcg@10", **options})
    assert re.search(expected, page.text), page.text[:1500]
    assert page.stack == []  # every element is closed
    for head, *rows in (table for name, table in page.tables.items() if name != "no id"):
        assert {len(row) for row in rows} <= {len(head)}


def test_lazy_and_eager_logs_have_the_same_page(tmp_path):
    lazy, eager = (read(each, tmp_path, "ndcg@10", baseline="a") for each in (BASE.lazy(), BASE))
    assert (lazy.tables, lazy.scripts) == (eager.tables, eager.scripts)


@tables_only
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


A, D, S = pr.errors.ArgumentError, pr.errors.DataError, pr.errors.SchemaError
ERRORS = [
    ({"run": "system"}, S, "column 'system' .`run`. not found"),
    ({"run": None, "baseline": "a"}, A, "`baseline` needs a column of runs"),
    ({"slices": "land"}, S, "column 'land' .`slices`. not found"),
    ({"slices": "run"}, A, "`slices` contains the column of runs"),
    ({"show": "titel"}, S, "column 'titel' .`show`. not found"),
    ({"slices": "click"}, D, "has several values in a ranking"),
    ({"metrics": "ndgc"}, A, "Did you mean"),
    ({"metrics": ["ap", "gm_map"]}, A, "'gm_map', a geometric mean"),
    ({"n": 9}, A, "no parameter `n`"),
    ({"columns": "query"}, A, "no parameter `columns`"),
    ({"qury": "q"}, A, "no parameter `qury`. Did you mean `query`"),
    ({"query": "q"}, S, "column 'q' .`query`. not found"),
    ({"baseline": 1}, A, "`baseline` must be a value of the column 'run'"),
    ({"score": ["score"]}, A, "`score` must be a single column"),
    ({"label": "nothing"}, S, "'nothing' .`label`. not found"),
    ({"cluster": "who"}, S, "column 'who' .`cluster`. not found"),
    ({"baseline": "bm25", "cluster": "run"}, A, "`cluster` contains the column of runs"),
]  # fmt: skip
#: Errors before the log is read.
RULES = [
    ([], A, "`rules` is empty"),
    (3, A, "`rules` must be a list or the path of a file"),
    ("ap >= 0.1", pr.errors.SourceError, "cannot read the rules"),
    (["what"], A, "invalid rule"),
    (["rr >= 0.1"], A, "metric 'rr' of the rule .* not found"),
    (["difference(ap) >= 0"], A, "set `baseline`"),
    (["std(ap) <= 1"], A, "which has no confidence interval"),
]


def test_errors_are_ours(log, tmp_path, monkeypatch):
    def read_it(_):
        pytest.fail("the log was read")

    for options, error, match in ERRORS:
        with pytest.raises(error, match=match):
            read(log, tmp_path, **options)
    unread = log.lazy().map_batches(read_it, schema=log.schema)
    for rules, error, match in RULES:
        with pytest.raises(error, match=match):
            read(unread, tmp_path, rules=rules)
    for package in ("jinja2", "altair", "vl_convert"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            with pytest.raises(pr.errors.MissingExtraError, match=r"polars_rank\[(report|plot)\]"):
                read(log, tmp_path, "ndcg@10")
    assert [*tmp_path.iterdir()] == []
