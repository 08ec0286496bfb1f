"""The pages of examples/guide: their code runs and prints what they show; a browser test of the site.

Run `PYTHONPATH=tests python -m tests.test_guide` in the root of the project to update the printed
output on all pages.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib.util
import inspect
import io
import os
import re
import shlex
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from html import unescape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import needs
import polars_rank as pr
import pytest
from commands import run
from polars_rank.metrics.metric import REGISTER

GUIDE = Path(__file__).parents[1] / "examples" / "guide"
#: A block of code; the name of the file that a reader saves it in; the output below it.
BLOCK = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>\w+)\n(?::caption: (?P<file>\S+)\n\n)?(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
#: Pages of pairs of code, which test_coming_from.py runs.
ELSEWHERE = ("coming_from.md",)
PAGES = {
    path.relative_to(GUIDE).with_suffix("").as_posix(): path
    for path in sorted(GUIDE.rglob("*.md"))
    if "```python" in path.read_text(encoding="utf-8") and path.name not in ELSEWHERE
}
#: Packages that are not in the group "test".
PACKAGES = {
    "tasks/latex": ["great_tables"],
    "tasks/lightgbm": ["lightgbm"],
    "tasks/spark": ["pyspark"],
    "tasks/training": ["lightgbm", "xgboost", "catboost"],
}
#: Spark's workers run on this Python, and its driver needs no network.
SPARK = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def executed(path: Path) -> str:
    """Run the code of a page in the current directory; return the page with what it prints."""
    text = path.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}

    def replaced(block: re.Match[str]) -> str:
        language, code = block["language"], block["code"]
        if block["file"]:
            Path(block["file"]).parent.mkdir(parents=True, exist_ok=True)
            Path(block["file"]).write_text(code, encoding="utf-8")
        line = text.count("\n", 0, block.start("code"))
        printed = io.StringIO()
        if language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + code, str(path), "exec"), names)
        elif language in ("sh", "yaml"):
            lines = re.sub(r">-\n +|\n {10}", " ", code)  # folded lines of YAML
            for command in re.findall(
                r"(?:^|run: +)(polars-rank (?:\\\n|.)*)", lines, re.MULTILINE
            ):
                _, *arguments = shlex.split(command.replace("\\\n", " "))
                status, output, errors = run(*arguments)
                # A gate that fails is an answer, and its table says so.
                fails = {"check": "fail", "gate": "FAIL", "referee": "DEFECT"}
                is_gate = arguments[0] in fails and fails[arguments[0]] in output
                assert status == 0 or is_gate, errors
                printed.write(output)
        output = "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip("\n")
        whole, shown = block.group(), block["output"]
        if shown is None:
            assert not output or language != "python", f"{path}:{line}: the output is not shown"
            return whole
        return whole[: block.start("output") - block.start()] + output + "\n```\n"

    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(os.getcwd())
        known, imported = {*REGISTER}, {*sys.modules}
        try:
            return BLOCK.sub(replaced, text)
        finally:  # remove the metrics that the page defines
            for name in REGISTER.keys() - known:
                module = REGISTER.pop(name).function.__module__
                if module not in imported:
                    sys.modules.pop(module, None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for setting in SPARK.items():
        monkeypatch.setenv(*setting)
    return tmp_path


@contextlib.contextmanager
def object_store() -> Iterator[None]:
    """Run an S3 server with an empty bucket "logs", to which the environment points."""
    boto3 = needs.package("boto3", "test")
    server = needs.package("moto.server", "test").ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        settings = {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_REGION": "us-east-1",
        }
        reset = urllib.request.Request(f"http://{host}:{port}/moto-api/reset", method="POST")
        urllib.request.urlopen(reset).close()  # all servers of a process have the same objects
        with pytest.MonkeyPatch.context() as environment:
            for name, value in settings.items():
                environment.setenv(name, value)
            boto3.client("s3").create_bucket(Bucket="logs")
            yield
    finally:
        server.stop()


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
@pytest.mark.parametrize("name", PAGES)
def test_code_runs_and_prints_what_the_page_shows(name: str, folder: Path) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        if block["language"] == "python":
            compile(block["code"], name, "exec")
    for package in PACKAGES.get(name, []):
        needs.package(package, "conformance")
    if name == "tasks/spark":
        if missing := needs.without_spark():
            pytest.skip(missing)
        needs.new_jvm()
    with object_store() if name == "tasks/stores" else contextlib.nullcontext():
        assert executed(PAGES[name]) == text, "run `PYTHONPATH=tests python -m tests.test_guide`"


def described() -> Iterator[tuple[str, str]]:
    """Yield the public names and their docstrings."""
    for name in pr.__all__:
        value = getattr(pr, name)
        yield name, inspect.getdoc(value) or ""
        for inner in getattr(value, "__all__", ()) if inspect.ismodule(value) else ():
            yield f"{name}.{inner}", inspect.getdoc(getattr(value, inner)) or ""


def test_lines_of_code_are_not_cut_off() -> None:
    """The site shows 80 characters beside its sidebars; output may be wider, and scrolls."""
    long = [
        f"{path.name}: {line}"
        for path in sorted([*GUIDE.rglob("*.md"), GUIDE.parents[1] / "README.md"])
        for block in BLOCK.finditer(path.read_text(encoding="utf-8"))
        for line in block["code"].splitlines()
        if len(line) > {"text": 100, "pycon": 100, "json": 110}.get(block["language"], 80)
        and not line.startswith("python3 -m venv")  # one line, as a reader copies it
    ]
    long += [
        f"{name}: {line}"
        for name, text in described()
        for line in text.splitlines()
        if re.match(r" *(>>>|\.\.\.) ", line) and len(line) > 80
    ]
    assert not long


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith(("start", "tasks/"))])
def test_the_first_result_comes_after_one_screen_of_prose(name: str) -> None:
    before, found, _ = PAGES[name].read_text(encoding="utf-8").partition("```text\n")
    prose = re.sub(r"^```.*?^```$|^#.*?$", "", before, flags=re.MULTILINE | re.DOTALL)
    assert found
    assert len(prose.split()) <= 120


def test_examples_show_more_than_a_flag_or_a_count() -> None:
    parser = doctest.DocTestParser()
    for name, text in described():
        for example in parser.get_examples(text):
            assert not re.fullmatch(r"True|False|[2-9]\d+", example.want.strip()), (
                name,
                example.source,
            )


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


def test_examples_are_within_the_first_40_lines_of_reference_pages(site: Path) -> None:
    """Pages without an example, such as those of presets, are no longer than that."""
    lengths = {}
    for page in site.glob("reference/polars_rank.*.html"):
        article = (
            page.read_text(encoding="utf-8").partition("<article")[2].partition("</article")[0]
        )
        before = re.sub(r"<[^>]*>", "", article.partition("&gt;&gt;&gt;")[0])
        lengths[page.name] = sum(not line.isspace() for line in before.splitlines(keepends=True))
    assert len(lengths) > 150
    assert {name: lines for name, lines in lengths.items() if lines > 40} == {}


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


def main() -> None:
    """Write the printed output to the pages that can run here."""
    os.environ.update(SPARK)
    start = os.getcwd()
    for name, path in PAGES.items():
        if not all(map(importlib.util.find_spec, PACKAGES.get(name, ()))):
            print(f"{name}: needs {PACKAGES[name]}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                with object_store() if name == "tasks/stores" else contextlib.nullcontext():
                    path.write_text(executed(path), encoding="utf-8")
            finally:
                os.chdir(start)


if __name__ == "__main__":
    main()
