"""The numbers that a change of the code must not change: `fixtures/goldens.parquet`.

`PYTHONPATH=tests python -m goldens` writes the file anew. Only a change that means to change numbers
does so, and its commit says which and why.
"""

from __future__ import annotations

import inspect
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl

import polars_rank as pr

FIXTURES = Path(__file__).parent / "fixtures"
FILE = FIXTURES / "goldens.parquet"
#: Arguments of metrics that need some.
NEEDED = {"k": 4, "max_grade": 4, "recall": 0.5, "T": 1.0, "p": 0.7}
#: Metrics of clicks, which are not frozen.
_OF_CLICKS = {
    "abandonment", "ctr", "good_abandonment", "max_click_rr", "mean_click_rr", "min_click_rr",
    "num_clicks", "pskip", "satisfied_rate", "successful_sessions", "time_to_first_click",
    "time_to_last_click",
}  # fmt: skip
#: Numbers in the cells of a report.
_DECIMALS = re.compile(r"-?[\d,]*\.?\d+(e-?\d+)?%?")


@cache
def log(name: str) -> pl.DataFrame:
    """Return one of three logs: grades with ties, generated search results, and fractions."""
    return pl.read_parquet(FIXTURES / "golden_logs.parquet").filter(log=name).drop("log")


@cache
def values() -> pl.DataFrame:
    """Return per-query values of four runs, with ties, nulls, values of 0 or 1, and weights."""
    found = pl.read_parquet(FIXTURES / "statistics" / "values.parquet")
    return found.with_columns(pl.col("ndcg@10", "rr", "hit_rate@5").fill_null(0.0))


def metrics() -> list[pr.Metric]:
    """Return each metric of the package, also at the cutoff 3 if it has one."""
    found = []
    for name in pr.list_metrics()["metric"]:
        if name in _OF_CLICKS:
            continue
        build = getattr(pr.metrics, name)
        parameters = inspect.signature(build).parameters
        needed = {
            key: NEEDED[key] for key, each in parameters.items() if each.default is each.empty
        }
        found.append(build(**needed))
        if "k" in parameters:
            found.append(build(**{**needed, "k": 3}))
    return found


@cache
def _accepted(tool: str) -> list[pr.Metric]:
    """Return the metrics that have a value under the choices of a tool."""
    table = log("grades").lazy()
    try:
        pr.evaluate(table, metrics(), conventions=tool, run=None)
    except pr.errors.RankError:
        return [each for each in metrics() if _is_accepted(table, each, tool)]
    return metrics()


def _is_accepted(table: pl.LazyFrame, metric: pr.Metric, tool: str) -> bool:
    try:
        pr.evaluate(table, metric, conventions=tool, run=None)
    except pr.errors.RankError:
        return False
    return True


def _evaluated() -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    for name in ("grades", "search", "fractions"):
        for preset in ("polars_rank", *pr.conventions.PRESETS):
            tool = preset if isinstance(preset, str) else preset.name

            def means(name: str = name, tool: str = tool) -> pl.DataFrame:
                return pr.evaluate(log(name), _accepted(tool), conventions=tool, run=None)

            yield f"evaluate {name} {tool}", means
        yield f"per_query {name}", lambda name=name: pr.per_query(
            log(name), ["ndcg@10", "ap", "rr", "p@5", "err(max_grade=4)", "rbp", "roc_auc"],
            ties="expected" if name == "grades" else "doc", run=None,
        )  # fmt: skip
        yield f"rank {name}", lambda name=name: pr.rank(log(name).select(_OF_LOG), run=None)


_OF_LOG = ["query", "doc", "score", "label"]
_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {}, "weight": {"weight": "traffic"}, "cluster": {"cluster": "user"},
    "both": {"weight": "traffic", "cluster": "user"},
}  # fmt: skip
METRICS = ["ndcg@10", "rr", "hit_rate@5", "rare"]


def _statistics() -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    compared = {
        "plain": {"baseline": "a"},
        "margin": {"baseline": "a", "margin": 0.02},
        "percent": {"baseline": "a", "margin": "5%"},
        "slices": {"baseline": "a", "slices": ["country", "day"]},
        "by": {"baseline": "a", "by": "country"},
        "uncorrected": {"baseline": "a", "correction": False},
        "all pairs": {},
        "repeated": {"baseline": "a", "repeated": True},
    }
    for case, options in _OPTIONS.items():
        yield (
            f"summarize {case}",
            lambda options=options: pr.summarize(values(), METRICS, details=True, **options),
        )
        yield (
            f"summarize by {case}",
            lambda options=options: pr.summarize(values(), METRICS, by="country", **options),
        )
        for name, more in compared.items():
            if not (name == "repeated" and case != "plain"):
                yield (
                    f"compare {name} {case}",
                    lambda options=options, more=more: pr.compare(
                        values(), METRICS, details=True, **options, **more
                    ),
                )
        yield (
            f"leaderboard {case}",
            lambda options=options: pr.leaderboard(values(), METRICS, **options),
        )
        yield (
            f"power {case}",
            lambda options=options: pr.power(
                values(), METRICS, baseline="a", difference=0.05, **options
            ),
        )
    rules = [
        "rr >= 0.5", "low(hit_rate@5) >= 0.5", "difference(ndcg@10) >= -0.02", "queries >= 100",
        "not p_value(rr) < 0.05",
    ]  # fmt: skip
    yield "check", lambda: pr.check(
        [pr.summarize(values(), METRICS), pr.compare(values(), METRICS, baseline="a")],
        rules, on_fail="return",
    )  # fmt: skip


@cache
def _runs() -> pl.DataFrame:
    return log("search").with_columns(run=pl.lit("x")).select(
        "run", *_OF_LOG
    ).vstack(
        log("search").select(
            pl.lit("y").alias("run"), "query", "doc", (pl.col("score").rank() % 97).alias("score"),
            "label",
        )
    )  # fmt: skip


def _others() -> Iterator[tuple[str, Callable[[], pl.DataFrame]]]:
    for method in ("rrf", "sum(normalize='min_max')", "sum(normalize='zscore')", "borda", "isr"):
        yield f"fuse {method}", lambda method=method: pr.fuse(_runs(), method).sort("query", "doc")
    # Folds depend on hashes, which versions of Polars change.
    yield (
        "tune_fusion",
        lambda: pr.tune_fusion(_runs(), "ndcg@10", "sum(normalize='min_max')", curve=True),
    )
    for value in (0.55, 0.4):
        yield (
            f"identify {value}",
            lambda value=value: pr.identify(log("search"), "ndcg@10", value, run=None).drop(
                "queries"
            ),
        )
    yield (
        "identify values",
        lambda: pr.identify(
            log("grades"),
            "ap",
            pr.per_query(log("grades"), "ap", conventions="LightGBM", run=None),
            run=None,
        ).drop("queries"),
    )
    yield (
        "explain_difference",
        lambda: pr.explain_difference(log("grades"), "ndcg@10", "trec_eval", "lightgbm", run=None),
    )
    yield "robustness", lambda: pr.diagnostics.robustness(_runs(), "ndcg@10", baseline="x")
    yield "movers", lambda: pr.diagnostics.movers(_runs(), "ndcg@10", baseline="x")
    yield "overlap", lambda: pr.diagnostics.overlap(_runs(), baseline="x")
    yield "tie_bands", lambda: pr.diagnostics.tie_bands(log("grades"), "ndcg@10", run=None)
    yield (
        "judgment_bounds",
        lambda: pr.diagnostics.judgment_bounds(log("grades"), "ndcg@10", run=None),
    )
    yield "headroom", lambda: pr.diagnostics.headroom(log("grades"), "ndcg@10", run=None)
    yield (
        "catalog summary",
        lambda: pr.catalog.summary(_runs(), 5, items=log("search").select("doc").unique()),
    )
    yield "rank_curve", lambda: pr.rank_curve(_runs(), "ndcg", [1, 3, 10])
    yield "pr_curve", lambda: pr.pr_curve(_runs())
    yield "grouped_auc", lambda: pr.grouped_auc(_runs())
    yield "referee", _refereed
    yield "gate", _gated
    yield "report", _reported


def _refereed() -> pl.DataFrame:
    def recall(labels: list[float], scores: list[float], k: int = 5) -> float:
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        relevant = sum(label > 0 for label in labels)
        return sum(labels[i] > 0 for i in order[:k]) / relevant if relevant else 0.0

    found = pr.referee(recall, metric="recall", signature="labels, scores, k")
    return pl.DataFrame({"text": str(found).splitlines()})


def _gated() -> pl.DataFrame:
    golden = log("search").select("query", "doc", "label").with_columns(
        category=pl.format("c{}", pl.col("query").cast(pl.Int64) % 3)
    )  # fmt: skip
    results = _runs().filter(run="x").select("query", "doc", "score")
    floors = {"ndcg@10": 0.5, "recall@5": 0.4, "c1": {"mrr@10": 0.6}}
    worse = _runs().filter(run="y").select("query", "doc", "score")
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder, "baseline.jsonl")
        pr.gate(golden, results, ties="doc").write_baseline(before)
        gate = pr.gate(golden, worse, before, floors=floors, max_drop=0.1, ties="doc")
    return gate.verdicts


class _Cells(HTMLParser):
    """The texts of the cells of tables with an id."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.is_cell = "", False
        self.cells: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.table = dict(attrs).get("id") or ""
        if tag in ("td", "th"):
            self.is_cell = True
            self.cells.append((self.table, ""))

    def handle_endtag(self, tag: str) -> None:
        self.is_cell = self.is_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.is_cell:
            table, text = self.cells[-1]
            self.cells[-1] = table, text + data


def _reported() -> pl.DataFrame:
    generated = pr.datasets.search_log(80, runs=["a", "b"], seed=3).collect()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "report.html")
        options: dict[str, Any] = {"baseline": "a", "slices": "country", "path": path}
        pr.report(generated, ["ndcg@10", "rr"], **options)
        parser = _Cells()
        parser.feed(path.read_text("utf-8"))
    cells = [(table, " ".join(text.split())) for table, text in parser.cells if table]
    numbers = [(table, text) for table, text in cells if _DECIMALS.search(text)]
    return pl.DataFrame(numbers, ["table", "text"], orient="row")


def cases() -> dict[str, Callable[[], pl.DataFrame]]:
    """Return a function for each table of goldens."""
    return {**dict(_evaluated()), **dict(_statistics()), **dict(_others())}


def long(case: str, table: pl.DataFrame) -> pl.DataFrame:
    """Return a table as one row per cell, with its number or its text."""
    parts = []
    for name, column in zip(table.columns, table, strict=True):
        is_number = column.dtype.is_numeric() or column.dtype == pl.Boolean
        text = pl.Series([None if each is None else str(each) for each in column], dtype=pl.String)
        parts.append(
            pl.DataFrame({
                "case": [case] * len(column),
                "row": pl.Series(range(len(column)), dtype=pl.UInt32),
                "column": [name] * len(column),
                "number": column.cast(pl.Float64) if is_number else [None] * len(column),
                "text": [None] * len(column) if is_number else text,
            }, schema_overrides={"number": pl.Float64, "text": pl.String})
        )  # fmt: skip
    return pl.concat(parts)


def main() -> None:
    """Write the file."""
    warnings.simplefilter("ignore")
    found = pl.concat(long(name, function()) for name, function in cases().items())
    found.with_columns(pl.col("case", "column").cast(pl.Categorical)).write_parquet(
        FILE, compression="zstd", compression_level=19
    )
    print(f"{found.height:,} numbers of {found['case'].n_unique()} tables")


if __name__ == "__main__":
    main()
