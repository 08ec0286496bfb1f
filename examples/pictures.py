"""Generate the images of the README: `python examples/pictures.py examples`.

The image of the report needs Chromium and is skipped without it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=1_000, runs=["bm25", "hybrid", "neural"], seed=3)

# Left: the mean by cutoff with intervals. Right: the differences per query.
values = pr.per_query(log, "ndcg@10", by="run").collect()
curve = pr.plot.at_k(log, "ndcg", baseline="bm25")
spread = pr.plot.differences(values, "ndcg@10", baseline="bm25")
chart = (curve | spread).configure_concat(spacing=40)

with TemporaryDirectory() as nowhere:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else nowhere)
    picture = folder / "chart.png"
    chart.save(picture, scale_factor=1)
    print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")

    # The report of `polars-rank demo`.
    page = pr.report(
        search_log(1_000, runs=["bm25", "neural"]), ["ndcg@10", "ap", "rr"], baseline="bm25",
        slices="country", path=f"{nowhere}/report.html",
    )  # fmt: skip
    print(f"{page.name}: {page.stat().st_size / 1000:.0f} kB")
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is not None:
        picture = folder / "report.png"
        options = ["--headless=new", "--no-sandbox", "--hide-scrollbars"]
        options += ["--window-size=1280,995", "--force-device-scale-factor=1.5"]
        options += [f"--user-data-dir={nowhere}/browser", f"--screenshot={picture.resolve()}"]
        waiting = "--virtual-time-budget=5000"  # milliseconds for the page to draw its charts
        subprocess.run(  # noqa: S603
            [browser, *options, waiting, page.as_uri()],
            check=True,
            capture_output=True,
        )
        print(f"{picture.name}: {picture.stat().st_size / 1000:.0f} kB")
