"""One API: the same names, defaults and order of columns in every public function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

MODULES = ("", "catalog", "clicks", "datasets", "diagnostics", "judges", "plot", "stats", "trec")
#: Names that parameters and result columns must not have, and the names to use instead.
FORBIDDEN = {
    **{"worst": "n", "most": "n", "resamples": "n_resamples"},
    **{"lists": "values", "columns": "slices", "group_by": "by"},
    **{"lower": "low", "upper": "high", "tied_lists": "tied_rankings"},
}
#: The default of each shared parameter, if it has one.
DEFAULTS = {
    **dict.fromkeys(("baseline", "by", "cluster", "colors", "history", "items", "keep"), None),
    **dict.fromkeys(("metric", "metrics", "position", "query_set", "rel", "rules", "scores"), None),
    **dict.fromkeys(
        ("labels", "slices", "ties", "undecided", "undefined", "unjudged", "weight"), None
    ),
    **{"query": "query", "doc": "doc", "score": "score", "label": "label", "click": "click"},
    **{"run": "run", "time": "day", "interval": "auto", "alternative": "two-sided"},
    **{"confidence": 0.95, "n_resamples": 10_000, "seed": 0, "min_queries": 30, "k": 10, "p": 0.9},
    **{"duplicates": None, "conventions": pr.conventions.POLARS_RANK},
    **dict.fromkeys(("dark", "overwrite", "progress"), False),
}
_LOG_OF_CLICKS = "documents of a log of clicks have positions instead of scores"
#: Parameters that differ from the rules, and why.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("diagnostics.movers", "k"): "None: without documents, one row per query",
    ("clicks.labels", "time"): "None: the click at the last position is the last one",
    ("from_lists", "query"): "None: each row is a query",
    ("gate", "metrics"): "it has metrics of its own",
    **{
        (f"clicks.{name}", "position"): _LOG_OF_CLICKS
        for name in ("click_through_rates", "coec", "labels")
    },
    **{
        ("scan_log", role): "None: a log of results only may lack the column"
        for role in ("doc", "score", "label")
    },
    ("stats.write_junit", "undecided"): "verdicts have no TOML file with another default",
}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return the public functions except metrics, which have other parameters."""
    metrics = {*pr.list_metrics()["metric"]}
    for module in MODULES:
        owner = import_module(f"polars_rank.{module}".rstrip("."))
        for name in dir(owner):
            value = getattr(owner, name)
            of_metric = module == "" and (name in metrics or _returns_metric(value))
            if inspect.isfunction(value) and not of_metric:
                yield f"{module}.{name}".lstrip("."), value


def _returns_metric(value: Any) -> bool:
    returned = str(getattr(value, "__annotations__", {}).get("return", ""))
    return re.search(r"\bMetric\b", returned) is not None


FUNCTIONS = dict(functions())


def parameters() -> Iterator[tuple[str, str, inspect.Parameter]]:
    for function, value in FUNCTIONS.items():
        for each in inspect.signature(value).parameters.values():
            if each.kind is not each.VAR_KEYWORD:
                yield function, each.name, each


def differing(is_valid: Callable[[str, inspect.Parameter], bool]) -> set[tuple[str, str]]:
    return {(function, name) for function, name, each in parameters() if not is_valid(name, each)}


def test_names_of_parameters() -> None:
    assert differing(lambda name, _: name not in FORBIDDEN) == set()


def test_shared_parameters_have_one_default() -> None:
    def has_default(name: str, each: inspect.Parameter) -> bool:
        return each.default is each.empty or name not in DEFAULTS or each.default == DEFAULTS[name]

    assert differing(has_default) - {*EXCEPTIONS} == set()
    # An exception that is no longer needed is deleted.
    assert {*EXCEPTIONS} - differing(has_default) - differing(_prints_as_itself) == set()


def test_defaults_can_be_printed() -> None:
    assert differing(_prints_as_itself) - {*EXCEPTIONS} == set()


def _prints_as_itself(_: str, each: inspect.Parameter) -> bool:
    """Return whether a default is a value that callers can pass, with the same meaning."""
    plain = (bool, int, float, str, tuple, type(None), pr.Conventions)
    return each.default is each.empty or type(each.default) in plain or callable(each.default)


def test_metrics_are_the_second_parameter() -> None:
    of_values = {}
    for name, value in FUNCTIONS.items():
        names = [*inspect.signature(value).parameters.values()]
        if names and names[0].name == "values":
            assert names[1].name in ("metric", "metrics"), name
            assert names[1].kind is names[1].POSITIONAL_OR_KEYWORD, name
            of_values[name] = names[1].name
    assert {*of_values} == {
        *("summarize", "compare", "leaderboard", "power"),
        *("plot.differences", "plot.distribution"),
        "judges.system_agreement",
    }


def test_the_column_of_runs_may_be_named_as_a_group() -> None:
    log = pr.datasets.search_log(20).collect()
    values = pr.per_query(log, "ap")
    baseline = {"baseline": "bm25"}
    for function, table, options in (
        (pr.evaluate, log, {"metrics": "ap"}),
        (pr.per_query, log, {"metrics": "ap"}),
        (pr.rank, log, {}),
        (pr.catalog.summary, log, {}),
        (pr.summarize, values, {}),
        (pr.compare, values, baseline),
        (pr.leaderboard, values, {}),
        (pr.power, values, baseline),
    ):
        assert_frame_equal(function(table, by="run", **options), function(table, **options))


LOG = pr.datasets.search_log(40).collect()
SESSIONS = LOG.rename({"run": "session"}).drop("label").with_columns(device=pl.lit("phone"))
BOTH = ["country", "run"]
VALUES = pr.per_query(LOG, ["ap", "rr"], by=["run", "country"])
JUDGMENTS = LOG.unique(["query", "doc"]).select("query", "doc", "label")
GROUPED = {"baseline": "bm25", "by": "country"}
LABELED = pl.concat(LOG.with_columns(judge=pl.lit(name)) for name in ("human", "llm"))
LEFT, RIGHT = LOG.filter(run="bm25"), LOG.filter(run="neural")
ONE = pl.DataFrame({
    **{"country": "DE", "run": "bm25", "query": [1, 1, 2, 2], "doc": [1, 2, 1, 2]},
    **{"score": [0.9, 0.8, 0.9, 0.8], "label": [1, 0, 0, 1], "position": [1, 2, 1, 2]},
    **{"click": [1, 0, 0, 1], "chunk": [1, 2, 1, 2]},
})  # fmt: skip
#: Calls of functions that compute a table, with groups if possible.
RESULTS: dict[str, Callable[[], pl.DataFrame]] = {
    "evaluate": lambda: pr.evaluate(LOG, "ap", by=BOTH),
    "per_query": lambda: pr.per_query(LOG, "ap", by=BOTH),
    "rank_curve": lambda: pr.rank_curve(LOG, "p", [1, 5], by=BOTH),
    "grouped_auc": lambda: pr.grouped_auc(LOG, by=BOTH),
    "pr_curve": lambda: pr.pr_curve(LOG, by="country"),
    "collapse": lambda: pr.collapse(ONE.drop("doc"), doc="chunk", by=BOTH),
    "fuse": lambda: pr.fuse(LOG, by="country", keep_runs=True),
    "tune_fusion": lambda: pr.tune_fusion(LOG, "ap", step=1, folds=2, by="country"),
    "rank": lambda: pr.rank(LOG, by=BOTH),
    "join_judgments": lambda: pr.join_judgments(LOG.drop("label"), JUDGMENTS, by="country"),
    "list_metrics": pr.list_metrics,
    "explain_difference": lambda: pr.explain_difference(LEFT, "ap", "polars_rank", "lightgbm"),
    "identify": lambda: pr.identify(LEFT, "ap", 0.5),
    "summarize": lambda: pr.summarize(VALUES, by="country"),
    "compare": lambda: pr.compare(VALUES, **GROUPED),
    "check": lambda: pr.check(pr.summarize(VALUES, by="country"), ["ap >= 0"], on_fail="return"),
    "leaderboard": lambda: pr.leaderboard(VALUES, by="country"),
    "power": lambda: pr.power(VALUES, **GROUPED),
    "catalog.exclude_seen": lambda: pr.catalog.exclude_seen(LOG, JUDGMENTS.head(1), by=BOTH),
    "catalog.popularity": lambda: pr.catalog.popularity(JUDGMENTS),
    "catalog.sampled": lambda: pr.catalog.sampled(ONE, "rr@1", n_items=9, n_sampled=1, by=BOTH),
    "catalog.summary": lambda: pr.catalog.summary(LOG, 5, by=BOTH),
    "clicks.click_through_rates": lambda: pr.clicks.click_through_rates(SESSIONS, by="device"),
    "clicks.coec": lambda: pr.clicks.coec(SESSIONS, by="device"),
    "clicks.labels": lambda: pr.clicks.labels(SESSIONS),
    **{
        f"judges.{name}": partial(getattr(pr.judges, name), LABELED, by=BOTH)
        for name in ("agreement", "confusion")
    },
    "judges.estimate": lambda: pr.judges.estimate(VALUES, VALUES, **GROUPED),
    "judges.system_agreement": lambda: pr.judges.system_agreement(
        pr.per_query(LABELED, ["ap", "rr"], by=["judge", *BOTH]), reference="human", by="country"
    ),
    "diagnostics.answerability": lambda: pr.diagnostics.answerability(LOG, "ap", by=BOTH),
    "diagnostics.headroom": lambda: pr.diagnostics.headroom(LOG, "ap", by=BOTH),
    "diagnostics.judgment_bounds": lambda: pr.diagnostics.judgment_bounds(LOG, "ap", by=BOTH),
    "diagnostics.movers": lambda: pr.diagnostics.movers(LOG, "ap", **GROUPED),
    "diagnostics.overlap": lambda: pr.diagnostics.overlap(LOG, **GROUPED),
    "diagnostics.robustness": lambda: pr.diagnostics.robustness(LOG, "ap", baseline="bm25"),
    "diagnostics.tie_bands": lambda: pr.diagnostics.tie_bands(LOG, "ap", by=BOTH),
}
#: Results with another order of columns, and why.
OTHER_ORDER = dict.fromkeys(
    ("rank", "join_judgments", "catalog.exclude_seen", "clicks.labels"),
    "the columns of the log, and new ones",
)
#: Functions that do not compute such a table, by what they return or write.
OTHERS = {
    "charts": {name for name in FUNCTIONS if name.startswith("plot.")},
    "expressions": {"catalog.leave_one_out"},
    "logs": {
        *("from_arrays", "from_dicts", "from_lists", "join_spans", "scan_log", "scan_judgments"),
        *("scan_run", "datasets.search_log"),
    },
    "files": {
        *("report", "stats.write_junit", "stats.write_markdown", "trec.write_qrels"),
        "trec.write_run",
    },
    "text": {"explain"},
    "dictionaries": {"flat"},
    "objects": {"gate", "referee"},
    "decorators": {"define_metric"},
}


def test_each_result_is_tested() -> None:
    assert {*RESULTS}.union(*OTHERS.values()) == {*FUNCTIONS}


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
@pytest.mark.parametrize("name", RESULTS)
def test_results_begin_with_groups_metric_and_run(name: str) -> None:
    columns = RESULTS[name]().columns
    assert not {*columns} & {*FORBIDDEN}
    parameters = {*inspect.signature(FUNCTIONS[name]).parameters}
    groups = ["column", "value"] if name == "slices" else ["device", "country"]
    # Runs of rankings are the last groups.
    has_runs = name != "catalog.sampled" and "run" in parameters
    last = ["metric", "run"] if has_runs else ["run", "metric"]
    first = [each for each in (*groups, *last) if each in columns]
    assert (columns[: len(first)] == first) is (name not in OTHER_ORDER)
