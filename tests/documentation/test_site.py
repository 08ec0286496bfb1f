"""The documentation site in a browser, and its links."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import needs
import pytest


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    chromium = needs.program("chromium", "chromium-browser", "google-chrome", package="chromium")
    service = needs.program("chromedriver", "chromium.chromedriver", package="chromium-driver")
    webdriver = needs.package("selenium.webdriver", "browser")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(service))
    browser.execute_cdp_cmd("Network.enable", {})
    nothing = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", {"offline": True, **nothing})
    yield browser
    browser.quit()


@pytest.fixture(scope="module")
def site() -> Path:
    if "POLARS_RANK_SITE" not in os.environ:
        pytest.skip("needs POLARS_RANK_SITE=OUT, of `python -m sphinx -W examples/guide OUT`")
    return Path(os.environ["POLARS_RANK_SITE"]).resolve()


def opened(driver: Any, page: Path, width: int) -> Any:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get(page.as_uri())
    return driver


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize(
    "page", ["index", "gallery", "tasks/rag", "reference/polars_rank.metrics.ndcg", "peers"]
)
def test_axe_finds_no_violation(driver: Any, site: Path, page: str, width: int) -> None:
    axe = (files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
    opened(driver, site / f"{page}.html", width).execute_script(axe)
    result = driver.execute_async_script(
        "axe.run(document, {resultTypes: ['violations']}).then(arguments[arguments.length - 1]);"
    )
    violations = [(v["id"], [n["html"] for n in v["nodes"][:3]]) for v in result["violations"]]
    assert violations == [] and len(result["passes"]) > 20


def pages_of(site: Path) -> list[Path]:
    """Return the pages that have the site's text, without sources and files of the theme."""
    folders = {site, site / "tasks", site / "reference"}
    return sorted(page for page in site.rglob("*.html") if page.parent in folders)


def test_a_phone_scrolls_down_only(driver: Any, site: Path) -> None:
    pages = pages_of(site)
    reference = [page for page in pages if page.parent.name == "reference"]
    some = {*reference[::8]}  # they have one template
    widths = {}
    for page in pages:
        if page in some or page not in reference:
            opened(driver, page, 390)
            widths[page.name] = driver.execute_script("return document.documentElement.scrollWidth")
    assert len(widths) > 60
    assert {name: width for name, width in widths.items() if width > 390} == {}


def test_links_lead_to_pages_and_headings(site: Path) -> None:
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    anchors = {page: {*re.findall(r'\bid="([^"]+)"', text)} for page, text in pages.items()}
    broken, links = [], 0
    for page, text in pages.items():
        for link in re.findall(r'<a\b[^>]*\bhref="([^"]+)"', text):
            path, _, anchor = unescape(link).partition("#")
            if re.match(r"\w+:", path):
                continue
            target = (page.parent / unquote(path)).resolve() if path else page
            found = target in pages or (not anchor and target.is_file())
            known = not anchor or unquote(anchor) in anchors.get(target, ())
            broken += [] if found and known else [(page.name, link)]
            links += 1
    assert broken == []
    assert links > 10_000


@pytest.mark.parametrize("words", ["mean reciprocal rank", "mrr", "reciprocal_rank"])
def test_search_works_without_a_network(driver: Any, site: Path, words: str) -> None:
    """The names of a metric in words and in other tools lead to its page first."""
    driver.get((site / "search.html").as_uri() + f"?q={words.replace(' ', '+')}")
    found = "return [...document.querySelectorAll('#search-results li a')].map((a) => a.href)"
    for _ in range(100):
        if links := driver.execute_script(found):
            time.sleep(0.5)  # results are inserted one by one
            assert "polars_rank.metrics.reciprocal_rank.html" in links[0]
            return
        time.sleep(0.1)
    pytest.fail("the search finds nothing")


def test_pages_load_nothing_and_metrics_are_no_addresses(site: Path) -> None:
    pages = [*site.rglob("*.html")]
    assert len(pages) > 150
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "mailto:" not in text
        assert not re.search(r"<(script|link|img)\b[^>]+(src|href)=\"(https?:)?//", text), page


def test_charts_are_light_or_dark_as_the_page(driver: Any, site: Path) -> None:
    ui = needs.package("selenium.webdriver.support.ui", "browser")
    dark = {"name": "prefers-color-scheme", "value": "dark"}
    visible = """return [...document.querySelectorAll('article img')]
        .filter((each) => each.offsetWidth)
        .map((each) => [each.src.split('/').at(-1), getComputedStyle(each).backgroundColor])"""
    for page in ("gallery", "reference/polars_rank.plot.differences"):
        for features, ending in (([], ""), ([dark], "-dark")):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            opened(driver, site / f"{page}.html", 1440)
            # The page has neither kind until its script has read the color scheme.
            images = ui.WebDriverWait(driver, 20).until(lambda page: page.execute_script(visible))
            for name, background in images:
                assert name.endswith(f"{ending}.svg") and ("-dark" in name) is bool(ending)
                assert background == "rgba(0, 0, 0, 0)"
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_code_has_a_button_that_copies_it(driver: Any, site: Path) -> None:
    opened(driver, site / "start.html", 1440)
    buttons = "return document.querySelectorAll('.highlight > button.copybtn').length"
    blocks = (
        "return document.querySelectorAll('div:not(.highlight-text) > .highlight > pre').length"
    )
    assert driver.execute_script(buttons) == driver.execute_script(blocks) > 5
