"""The report in a real browser without a network: what a reader sees, clicks and types."""

import base64
import json
from importlib.resources import files
from pathlib import Path

import needs
import polars as pl
import polars_rank as pr
import pytest

webdriver = needs.package("selenium.webdriver", "browser")
By = needs.package("selenium.webdriver.common.by", "browser").By
Keys = needs.package("selenium.webdriver.common.keys", "browser").Keys
ui = needs.package("selenium.webdriver.support.ui", "browser")

EVIL = "</script><script>window.hacked = 1</script>"
RTL = "שאילתה 🙂 " + "x" * 300
RUNS = ["bm25", EVIL, "neural.b[0]:'\""]


@pytest.fixture(scope="module")
def log():
    rows = pr.datasets.search_log(120, 10, runs=RUNS, string_ids=True).collect()
    # The baseline finds nothing for a query that the others answer best, so the page shows it.
    odd = pl.col("query") == "q0000000003"
    label = pl.col("label").fill_null(0).cast(pl.Float64)
    best = pl.when((pl.col("run") != "bm25") & pl.col("score").is_not_null()).then(label)
    return rows.with_columns(
        score=pl.when(odd & (label > 0)).then(best).otherwise("score")
    ).with_columns(
        query=pl.when(odd).then(pl.lit(RTL)).otherwise("query"),
        doc=pl.when(odd & (pl.col("score").rank("ordinal").over("run", "query") == 1))
        .then(pl.lit(EVIL))
        .otherwise("doc"),
        device=pl.format("{}", pl.col("query").hash() % 5),
    )


@pytest.fixture(scope="module")
def page(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return pr.report(
        log,
        ["ndcg@10", "ap"],
        baseline="bm25",
        slices=["country", "device"],
        rules=["ndcg@10 >= 0.2", "ndcg@10 >= 0.99"],
        show=["country", "click"],
        path=path,
        title="Title <b>not bold</b>",
    )


@pytest.fixture(scope="module")
def driver():
    options = webdriver.ChromeOptions()
    options.binary_location = needs.program(
        "chromium", "chromium-browser", "google-chrome", package="chromium"
    )
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(
        needs.program("chromedriver", "chromium.chromedriver", package="chromium-driver")
    )
    made = webdriver.Chrome(options=options, service=service)
    made.set_script_timeout(120)  # axe takes seconds, and many where a machine has much to do
    made.execute_cdp_cmd("Network.enable", {})
    nothing = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    made.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **nothing})
    yield made
    made.quit()


def opened(driver, page, *, width=1440, theme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": theme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": [feature]})
    driver.get(page.as_uri())
    drawn(driver, lambda count: count >= driver.execute_script(FIGURES))
    return driver


FIGURES = "return document.querySelectorAll('figure:not([hidden])').length"


def drawn(driver, enough):
    """Wait until charts are drawn; return how many have been since the page was opened."""

    def count(_):
        return int(driver.execute_script("return document.documentElement.dataset.drawn ?? 0"))

    ui.WebDriverWait(driver, 60).until(lambda _: enough(count(_)))
    return count(driver)


def column(driver, table, index):
    cells = driver.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr:not(.metric)`)]"
        ".filter((row) => !row.hidden).map((row) => row.cells[arguments[1]].innerText)",
        table,
        index,
    )
    return [cell.strip() for cell in cells]


def names(driver):
    """The names of the slices, without those of runs."""
    slices = "#slices-table tbody tr:not([hidden], .metric) th > bdi"
    return {each.text for each in driver.find_elements(By.CSS_SELECTOR, slices)}


def headings(driver, table):
    cells = driver.find_elements(By.CSS_SELECTOR, f"#{table} thead th")
    return [cell.text.replace("\n", " ") for cell in cells]


def numbers(cells):
    """The numbers of cells, without the intervals below them."""
    shown = (cell.partition("\n")[0] for cell in cells)
    return [float(each.replace("\N{MINUS SIGN}", "-").replace(",", "")) for each in shown]


def test_opens_without_a_network_an_error_or_a_script_of_the_log(driver, page):
    driver.get_log("browser"), driver.get_log("performance")
    opened(driver, page)
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    }
    assert {url for url in asked if not url.startswith("data:")} == {page.as_uri()}
    # Text from the log stays text.
    assert driver.execute_script("return window.hacked") is None
    assert driver.title == "Title <b>not bold</b>"
    assert driver.find_element(By.TAG_NAME, "h1").text == "Title <b>not bold</b>"
    assert any(EVIL in cell for cell in column(driver, "compared", 0))
    assert RTL in driver.find_element(By.ID, "main").get_attribute("textContent")
    assert not driver.find_elements(By.CSS_SELECTOR, "h1 b")
    chosen = ui.Select(driver.find_element(By.NAME, "run"))
    assert EVIL in [option.text for option in chosen.options]


def test_charts_of_python_are_drawn_without_a_network(driver, tmp_path):
    values = pr.per_query(pr.datasets.search_log(30, runs=["a", "b"]), "rr", by="run")
    chart = pr.plot.distribution(values, "rr") | pr.plot.differences(values, "rr", baseline="a")
    chart.save(tmp_path / "saved.html", inline=True)
    driver.get((tmp_path / "saved.html").as_uri())
    drawings = By.CSS_SELECTOR, "svg.marks"
    ui.WebDriverWait(driver, 60).until(lambda _: len(driver.find_elements(*drawings)) == 1)
    assert all(each.size["width"] > 600 for each in driver.find_elements(*drawings))


def test_charts_show_the_metric_and_the_run_that_are_chosen(driver, page):
    opened(driver, page)
    before = drawn(driver, bool)
    form = driver.find_element(By.CSS_SELECTOR, "form[data-for=charts]")
    titles = "return [...document.querySelectorAll('figure:not([hidden]) strong')].map((e) => e.innerText)"
    assert all("NDCG" in title for title in driver.execute_script(titles))
    ui.Select(form.find_element(By.NAME, "metric")).select_by_visible_text("ap")
    drawn(driver, lambda count: count >= before + 4)
    shown = driver.execute_script(titles)
    assert len(shown) == 4 and all(title.startswith(("AP", "D", "MAP")) for title in shown)
    assert not any("NDCG" in title for title in shown)
    second = drawn(driver, bool)
    ui.Select(form.find_element(By.NAME, "run")).select_by_index(0)
    drawn(driver, lambda count: count >= second + 4)
    # Charts write text that could end a script with a joiner that nobody sees.
    plain = [title.replace("\u2060", "") for title in driver.execute_script(titles)]
    assert any(EVIL in title for title in plain)
    svgs = driver.find_elements(By.CSS_SELECTOR, "figure:not([hidden]) .chart svg")
    assert len(svgs) == 4 and all(svg.size["width"] > 200 for svg in svgs)


def test_a_chart_tells_its_numbers_under_the_pointer(driver, page):
    opened(driver, page)
    bars = driver.find_elements(By.CSS_SELECTOR, "figure[data-kind=slices] .mark-symbol path")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", bars[0])
    webdriver.ActionChains(driver).move_to_element(bars[0]).perform()
    tip = ui.WebDriverWait(driver, 10).until(
        lambda d: d.find_element(By.CSS_SELECTOR, "#vg-tooltip-element.visible")
    )
    assert "queries" in tip.text


def test_tables_sort_by_their_headings(driver, page):
    opened(driver, page)
    index = headings(driver, "slices-table").index("Difference")
    button = driver.find_elements(By.CSS_SELECTOR, "#slices-table thead th")[index]
    button.find_element(By.TAG_NAME, "button").click()
    assert button.get_attribute("aria-sort") == "descending"
    values = numbers(column(driver, "slices-table", index))
    assert len(values) > 20 and values == sorted(values, reverse=True)
    button.find_element(By.TAG_NAME, "button").click()
    assert button.get_attribute("aria-sort") == "ascending"
    assert numbers(column(driver, "slices-table", index)) == sorted(values)
    assert "ascending" in driver.find_element(By.ID, "status").get_attribute("textContent")
    # Values that are not known are last, whichever way.
    index = headings(driver, "slices-table").index("p")
    for _ in range(2):
        heading = driver.find_elements(By.CSS_SELECTOR, "#slices-table thead th")[index]
        heading.find_element(By.TAG_NAME, "button").click()
        cells = column(driver, "slices-table", index)
        assert "–" in cells and set(cells[cells.index("–") :]) == {"–"}


def test_slices_are_filtered_by_text_metric_run_column_and_sureness(driver, page):
    opened(driver, page)
    form = driver.find_element(By.CSS_SELECTOR, "form[data-filter=slices-table]")
    whole = len(driver.find_elements(By.CSS_SELECTOR, "#slices-table tbody tr:not(.metric)"))

    def metrics():
        rows = driver.find_elements(By.CSS_SELECTOR, "#slices-table .metric")
        axes = [row.find_elements(By.CSS_SELECTOR, ".axis > span") for row in rows]
        assert all(len(axis) > 1 for axis in axes)
        return [row.text.split("\n")[0] for row in rows if row.is_displayed()]

    assert metrics() == ["ndcg@10"]
    ui.Select(form.find_element(By.NAME, "metric")).select_by_visible_text("all")
    assert len(column(driver, "slices-table", 0)) == whole and metrics() == ["ndcg@10", "ap"]
    ui.Select(form.find_element(By.NAME, "column")).select_by_visible_text("country")
    countries = {"BR", "DE", "FR", "GB", "IN", "US"}
    assert names(driver) == countries
    ui.Select(form.find_element(By.NAME, "run")).select_by_visible_text(EVIL)
    assert len(column(driver, "slices-table", 0)) == 2 * len(countries)
    form.find_element(By.NAME, "text").send_keys("ap US")
    assert names(driver) == {"US"}
    assert form.find_element(By.TAG_NAME, "output").text == f"1 of {whole} rows"
    form.find_element(By.NAME, "text").clear()
    form.find_element(By.NAME, "text").send_keys("nothing of this kind")
    assert column(driver, "slices-table", 0) == []
    opened(driver, page)
    form = driver.find_element(By.CSS_SELECTOR, "form[data-filter=slices-table]")
    form.find_element(By.NAME, "significant").click()
    verdict = headings(driver, "slices-table").index("Verdict")
    assert {v.split()[-1] for v in column(driver, "slices-table", verdict)} <= {"better", "worse"}


def test_everything_can_be_done_by_keyboard(driver, page):
    opened(driver, page)
    active = "return document.activeElement"
    body = driver.find_element(By.TAG_NAME, "body")
    body.send_keys(Keys.TAB)
    skip = driver.execute_script(active)
    assert skip.text == "Skip to the results" and skip.rect["y"] >= 0
    skip.send_keys(Keys.ENTER)
    assert driver.execute_script(active).get_attribute("id") == "main"
    reached = set()
    focused = """const element = document.activeElement;
        return [element.localName, element.name ?? "", getComputedStyle(element).outlineStyle]"""
    for _ in range(60):
        webdriver.ActionChains(driver).send_keys(Keys.TAB).perform()
        tag, name, outline = driver.execute_script(focused)
        reached.add((tag, name))
        assert outline != "none"
    assert {("a", ""), ("button", ""), ("div", ""), ("select", "metric")} <= reached
    heading = driver.find_element(By.CSS_SELECTOR, "#compared thead button")
    heading.send_keys(Keys.ENTER)
    parent = driver.find_element(By.CSS_SELECTOR, "#compared thead th")
    assert parent.get_attribute("aria-sort") == "ascending"
    summary = driver.find_elements(By.CSS_SELECTOR, "details:not([open]) summary")[0]
    summary.send_keys(Keys.ENTER)
    assert summary.find_element(By.XPATH, "..").get_attribute("open") is not None
    theme = driver.find_element(By.ID, "theme")
    assert theme.text == "Use dark theme"
    theme.send_keys(Keys.SPACE)
    assert theme.text == "Use light theme"
    driver.execute_script("localStorage.clear()")


def background(driver):
    return driver.execute_script(
        "return getComputedStyle(document.documentElement).backgroundColor"
    )


def test_the_theme_is_that_of_the_system_until_it_is_switched(driver, page):
    opened(driver, page, theme="light")
    light = background(driver)
    opened(driver, page, theme="dark")
    dark = background(driver)
    assert light != dark
    driver.find_element(By.ID, "theme").click()
    assert background(driver) == light
    driver.refresh()
    assert background(driver) == light
    driver.execute_script("localStorage.clear()")


def violations(driver):
    """What axe finds, with everything open; and how many rules it found to be kept."""
    driver.execute_script((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    result = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "document.querySelectorAll('details').forEach((each) => { each.open = true; });"
        "axe.run(document, {resultTypes: ['violations']}).then(done);"
    )
    told = [(v["id"], [node["html"] for node in v["nodes"][:3]]) for v in result["violations"]]
    return told, len(result["passes"])


# Colors are of the theme, the layout is of the width: two pages have all four.
@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1440)])
def test_axe_finds_no_violation_and_only_tables_scroll(driver, page, theme, width):
    opened(driver, page, theme=theme, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    wide = "return [...document.querySelectorAll('.chart svg')].map((e) => e.clientWidth)"
    assert max(driver.execute_script(wide)) <= width
    found, kept = violations(driver)
    assert found == [] and kept > 30


@pytest.mark.filterwarnings("ignore:more than 5% of the queries")
def test_a_laptop_shows_all_columns_and_a_phone_all_sections(driver, tmp_path):
    log = pr.datasets.search_log(200, runs=["bm25", "neural"]).collect()
    some = log.filter((pl.col("run") == "bm25") | (pl.col("query") > 20))
    for rows in (log, some):  # means of different queries are in the comparison as well
        page = pr.report(
            rows, ["ndcg@10", "ap", "rr"], baseline="bm25", slices="country",
            path=tmp_path / "report.html", overwrite=True,
        )  # fmt: skip
        opened(driver, page, width=1280)
        assert not driver.find_elements(By.CSS_SELECTOR, ".scroll.more")
    opened(driver, page, width=390)
    links = driver.find_elements(By.CSS_SELECTOR, "nav a")
    assert [links[0].text, links[-2].text, links[-1].text] == ["Metrics", "Data", "Method"]
    assert all(link.rect["x"] + link.rect["width"] <= 390 for link in links)
    intervals = driver.find_elements(By.CSS_SELECTOR, "#metrics-table .bar, #compared .bar")
    assert all(each.rect["x"] + each.rect["width"] <= 366 for each in intervals)
    assert len(intervals) == 9 and min(each.rect["width"] for each in intervals) > 80


@pytest.mark.parametrize(
    "options",
    [
        {"run": None, "by": "country"},
        {"by": ["country", "device"]},
        {"baseline": "bm25", "by": "country"},
    ],
    ids=["groups of one run", "several groups", "groups with a baseline"],
)
def test_axe_finds_no_violation_in_pages_of_other_kinds(driver, log, tmp_path, options):
    rows = log.filter(run="bm25").drop("run") if "run" in options else log
    rows = rows.filter(pl.col("country").is_in(["IN", "US"]), pl.col("device").is_in(["0", "1"]))
    page = pr.report(rows, "ap", path=tmp_path / "report.html", **options)
    found, kept = violations(opened(driver, page))
    assert found == [] and kept > 30


def test_on_paper_everything_is_open_and_light_and_there_are_no_controls(driver, page):
    opened(driver, page, theme="dark")
    printed = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    closed = driver.find_elements(By.CSS_SELECTOR, "details:not([open])")
    assert closed  # as the reader had them
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert background(driver) == "rgb(255, 255, 255)"
    for selector in ("form.tools", "#theme", "nav"):
        shown = [each.is_displayed() for each in driver.find_elements(By.CSS_SELECTOR, selector)]
        assert shown and not any(shown)
    assert driver.find_elements(By.CSS_SELECTOR, "details:not([open])") == []
    # A head stands on the page of its first row.
    breaks = """return [...document.querySelectorAll("caption, thead")].map(
        (each) => getComputedStyle(each).breakAfter)"""
    assert {*driver.execute_script(breaks)} == {"avoid"}
    hidden = driver.find_elements(By.CSS_SELECTOR, "#slices-table tbody tr[hidden]")
    assert hidden and all(row.is_displayed() for row in hidden)
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert len(driver.find_elements(By.CSS_SELECTOR, "details:not([open])")) == len(closed)


def test_without_scripts_all_tables_are_there(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(Path(page).as_uri())
        rows = driver.find_elements(By.CSS_SELECTOR, "#compared tbody tr")
        assert len(rows) == 4 and all(row.is_displayed() for row in rows)
        assert not any(
            each.is_displayed() for each in driver.find_elements(By.CSS_SELECTOR, "form, #theme")
        )
        assert driver.find_element(By.CSS_SELECTOR, "noscript p").is_displayed()
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
