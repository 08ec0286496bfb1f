"""A nightly job that evaluates new days and records them in a manifest.

The job can be stopped and restarted at any time without repeating or double counting a day: each
day has one file of moments, which is renamed to its final name when complete, and only days in the
manifest count. A day is evaluated again if its files, the metrics, the conventions or the version
change.
"""

import json
from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

METRICS = ["ndcg@10", "rr"]
CONVENTIONS = pr.conventions.TREC_EVAL


def update(logs: Path, moments: Path) -> list[str]:
    """Evaluate new or changed days and return their names."""
    manifest = Manifest(moments / "manifest.json")
    done = []
    for folder in sorted(logs.glob("day=*")):
        files = file_stats(folder)
        if manifest.days.get(folder.name) == files:
            continue
        values = pr.per_query(pr.scan_log(folder), METRICS, conventions=CONVENTIONS)
        values = values.with_columns(day=pl.lit(folder.name.removeprefix("day=")).str.to_date())
        day = pr.moments(values, by="day").collect()
        part = moments / f"{folder.name}.part"
        day.write_parquet(part)
        part.replace(moments / f"{folder.name}.parquet")
        manifest.add(folder.name, files)
        done.append(folder.name)
    manifest.keep({folder.name for folder in logs.glob("day=*")})
    return done


def merged(moments: Path) -> pl.DataFrame:
    """Merge the moments of all days in the manifest, which must not share queries."""
    days = Manifest(moments / "manifest.json").days
    return pr.merge([pl.read_parquet(moments / f"{day}.parquet") for day in days])


def file_stats(folder: Path) -> list[list[object]]:
    """Return the name, size and modification time of each file, to detect changes."""
    status = {file.name: file.stat() for file in sorted(folder.glob("*.parquet"))}
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in status.items()]


class Manifest:
    """The evaluated days and their files, for the current metrics, conventions and version."""

    def __init__(self, path: Path) -> None:
        self.path = path
        settings = [METRICS, repr(CONVENTIONS), pr.__version__]
        manifest = json.loads(path.read_text("utf-8")) if path.exists() else {}
        days = manifest.get("days", {}) if manifest.get("settings") == settings else {}
        self.settings, self.days = settings, days

    def add(self, day: str, files: list[list[object]]) -> None:
        """Record a day after its moments are written."""
        self.days[day] = files
        self._write()

    def keep(self, days: set[str]) -> None:
        """Remove days whose logs no longer exist."""
        if self.days.keys() - days:
            self.days = {day: files for day, files in self.days.items() if day in days}
            self._write()

    def _write(self) -> None:
        part = self.path.with_suffix(".part")
        part.write_text(
            json.dumps({"settings": self.settings, "days": self.days}, indent=1), "utf-8"
        )
        part.replace(self.path)  # the manifest is the old one or the new one, never half of it


def write_log(logs: Path, day: date, run: str) -> None:
    """Write what the engine answered on a day."""
    folder = logs / f"day={day}"
    folder.mkdir()
    log = search_log(queries=200, runs=["bm25", "neural"], seed=day.toordinal())
    # Each day has new queries. The same queries on several days would need an average per query.
    log = log.with_columns(pl.col("query") + 1_000 * day.toordinal())
    log.filter(pl.col("run") == run).sink_parquet(folder / "0.parquet")


def main() -> None:
    """Run the job on two nights, and look at all days."""
    days = [date(2024, 6, 1) + timedelta(days=number) for number in range(15)]
    with TemporaryDirectory() as folder:
        logs, moments = Path(folder, "logs"), Path(folder, "moments")
        logs.mkdir()
        moments.mkdir()
        for day in days[:-1]:
            write_log(logs, day, "neural")
        print(f"first night: {len(update(logs, moments))} days")
        write_log(logs, days[-1], "bm25")  # on the last day, the old ranker is back
        print(f"second night: {update(logs, moments)}")
        print(f"once more: {update(logs, moments)}")
        whole = merged(moments)

    # The first 14 days together, with the same result as a single evaluation.
    print(pr.summarize(whole.filter(pl.col("day") < days[-1])))
    print(pr.summarize(whole, "ndcg@10", by="day").tail(3))

    # Intervals for monitoring: with `repeated=True`, they hold on all days simultaneously.
    so_far = [
        pr.summarize(whole.filter(pl.col("day") <= day), "rr", repeated=True) for day in days[6::7]
    ]
    print(pl.concat(so_far).select("queries", "mean", "low", "high"))

    # Yesterday vs. the week before: the queries differ, so there are no pairs to compare.
    yesterday, last_week = pl.col("day") == days[-1], pl.col("day").is_in(days[-8:-1])
    for name, chosen in {"last week": last_week, "yesterday": yesterday}.items():
        row = pr.summarize(whole.filter(chosen), "ndcg@10").row(0, named=True)
        print(f"{name}: {row['mean']:.3f}, from {row['low']:.3f} to {row['high']:.3f}")


if __name__ == "__main__":
    main()
