"""Generate the images of the README: `python examples/pictures.py examples`.

The image of the report needs Chromium and is skipped without it. It contains the words of the
report that it shows, so that a test can tell whether it is up to date.
"""

import re
import shutil
import struct
import subprocess
import sys
import zlib
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory

import polars_rank as pr
from polars_rank.datasets import search_log

#: The start of a chunk of text in UTF-8 of a PNG file, which comes before the chunk of the end.
CHUNK = b"iTXtWords" + bytes(5)


def chart(path: Path) -> None:
    """Save a chart: the mean by cutoff with intervals, and the differences per query."""
    log = search_log(queries=1_000, runs=["bm25", "hybrid", "neural"], seed=3)
    values = pr.per_query(log, "ndcg@10").collect()
    curve = pr.plot.at_k(log, "ndcg", baseline="bm25")
    spread = pr.plot.differences(values, "ndcg@10", baseline="bm25")
    (curve | spread).configure_concat(spacing=40).save(path, scale_factor=1)


def report(path: Path) -> Path:
    """Write the report of `polars-rank demo`."""
    log = search_log(1_000, runs=["bm25", "neural"])
    metrics = ["ndcg@10", "ap", "rr"]
    return pr.report(log, metrics, baseline="bm25", slices="country", path=path)


def words(page: Path) -> str:
    """Return the words of a report that its image shows: the result and the metrics."""
    html = page.read_text(encoding="utf-8")
    section = r"<section (?:class=\"headline|id=\"metrics\").*?</section>"
    parts = re.findall(section, html, re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", "".join(parts))).split())


def words_in(picture: Path) -> str:
    """Return the words that an image contains as text."""
    _, _, rest = picture.read_bytes().rpartition(CHUNK)
    return rest[:-16].decode()  # without the checksum and the chunk of the end


def take(browser: str, page: Path, picture: Path) -> None:
    """Take the image of a page, and add the words of the page to it."""
    options = ["--headless=new", "--no-sandbox", "--hide-scrollbars"]
    options += ["--window-size=1280,1020", "--force-device-scale-factor=1.5"]
    options += [f"--user-data-dir={page.parent}/browser", f"--screenshot={picture.resolve()}"]
    waiting = "--virtual-time-budget=5000"  # milliseconds for the page to draw its charts
    subprocess.run(  # noqa: S603
        [browser, *options, waiting, page.as_uri()], check=True, capture_output=True
    )
    chunk = CHUNK + words(page).encode()
    text = struct.pack(">I", len(chunk) - 4) + chunk + struct.pack(">I", zlib.crc32(chunk))
    image = picture.read_bytes()
    picture.write_bytes(image[:-12] + text + image[-12:])


def main(folder: Path, pages: Path) -> None:
    """Write the images to a folder."""
    picture = folder / "chart.png"
    chart(picture)
    print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")
    page = report(pages / "report.html")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is not None:
        picture = folder / "report.png"
        take(browser, page, picture)
        print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    with TemporaryDirectory() as nowhere:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else nowhere), Path(nowhere))
