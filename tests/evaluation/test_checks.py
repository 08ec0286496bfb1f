"""Invalid input: errors say what is wrong, where, how often, and what to do."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

GOOD = pl.DataFrame(
    {
        "query": ["a", "a", "b", "b"],
        "doc": ["x", "y", "x", "y"],
        "score": [0.4, 0.3, 0.2, 0.1],
        "label": [1, 0, 2, None],
    }
)
QUERY, DOC, SCORE, LABEL = (pl.col(name) for name in GOOD.columns)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "rank": pr.rank,
    "per_query": lambda frame, **options: pr.per_query(frame, "ap", **options),
    "evaluate": lambda frame, **options: pr.evaluate(frame, "ap", **options),
}
RUNS: dict[str, Callable[..., Any]] = {
    "eager": lambda function, frame, **options: function(frame, **options),
    "in-memory": lambda function, frame, **options: function(frame.lazy(), **options).collect(
        engine="in-memory"
    ),
    "streaming": lambda function, frame, **options: function(frame.lazy(), **options).collect(
        engine="streaming"
    ),
}


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test for each function that takes a log, eager and lazy on both engines."""
    test = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())(test)
    return pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())(test)


def says(*parts: str) -> str:
    """Return a pattern for these texts, in this order."""
    return "(?s)" + ".*".join(map(re.escape, parts))


FIRST = DOC == "x"

BAD_ROWS = {
    "null query": (
        GOOD.with_columns(pl.when(~FIRST).then(QUERY)),
        {},
        ("2 of 4 rows", "'query' (`query`) has nulls", "drop", "'query': None"),
    ),
    "null doc": (
        GOOD.with_columns(pl.when((QUERY == "a") | FIRST).then(DOC)),
        {},
        ("1 of 4 rows", "'doc' (`doc`) has nulls", "doc=None", "'score': 0.1"),
    ),
    "NaN score": (
        GOOD.with_columns(pl.when(FIRST).then(float("nan")).otherwise(SCORE).alias("score")),
        {},
        ("2 of 4 rows", "'score'", "NaN or infinite values", "null", "'score': nan"),
    ),
    "infinite score": (
        GOOD.with_columns(pl.when(FIRST).then(-float("inf")).otherwise(SCORE).alias("score")),
        {},
        ("2 of 4 rows", "NaN or infinite values", "'score': -inf"),
    ),
    "NaN label under another name": (
        GOOD.select(QUERY, DOC, SCORE, pl.Series("grade", [float("nan"), 0.0, 1.0, None])),
        {"label": "grade"},
        ("1 of 4 rows", "'grade'", "NaN or infinite values", "'grade': nan"),
    ),
    "infinite label": (
        GOOD.with_columns(pl.Series("label", [1.0, 0.0, float("inf"), None])),
        {},
        ("1 of 4 rows", "NaN or infinite values", "'query': 'b'", "'label': inf"),
    ),
    "duplicate documents": (
        GOOD.with_columns(doc=pl.lit("x")),
        {},
        (
            "2 ",
            "more than once in a ranking",
            "with `run`, `by` or `query`",
            "`duplicates`",
            "'doc': 'x'",
            "'rows': 2",
        ),
    ),
    "duplicates in several query columns": (
        pl.concat([GOOD, GOOD.head(1)]).rename({"query": "user"}).with_columns(page=1),
        {"query": ["user", "page"]},
        ("1 ", "more than once in a ranking", "'user': 'a', 'page': 1, 'doc': 'x', 'rows': 2"),
    ),
    "two faults at once": (
        GOOD.with_columns(pl.Series("score", [float("nan")] * 4), doc=pl.lit("x")),
        {},
        ("4 of 4 rows", "NaN or infinite values", "2 ", "more than once in a ranking"),
    ),
}


def said(run: Callable, *parts: str) -> str:
    """Return the message of an error; while a plan runs, the number of invalid rows is unknown.

    There is no example either, and the first of two problems stops the plan.
    """
    if run is RUNS["eager"]:
        return says(*parts)
    found = [re.sub(r"^\d of \d rows:? ?", "", part) for part in parts]
    sure = [part for part in found if part and not re.match(r"\d+ $|'\w+': ", part)]
    return says(sure[0])


@everywhere
@pytest.mark.parametrize(("frame", "options", "parts"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_bad_rows(
    frame: pl.DataFrame, options: dict, parts: tuple[str, ...], function: Callable, run: Callable
) -> None:
    with pytest.raises(pr.errors.DataError, match=said(run, *parts)) as caught:
        run(function, frame, **options)
    assert isinstance(caught.value, pr.errors.RankError)
    assert isinstance(caught.value, ValueError)


def test_an_error_of_a_plan_names_the_list_and_a_call_of_ours_the_row() -> None:
    frame = BAD_ROWS["NaN score"][0]
    with pytest.raises(
        pr.errors.DataError, match=says("NaN or infinite values", "ranking {'query': 'a'}")
    ):
        pr.per_query(frame.lazy(), "ap").collect(engine="in-memory")
    with pytest.raises(pr.errors.DataError, match=says("2 of 4 rows", "NaN", "'doc': 'x'")):
        pr.per_query(frame, "ap")


BAD_COLUMNS = {
    "missing": (
        GOOD.rename({"label": "labels"}),
        {},
        ("column 'label' (`label`) not found", "'score', 'labels'", "Did you mean 'labels'?"),
    ),
    "missing query": (GOOD.drop("query"), {}, ("column 'query' (`query`) not found", "'doc'")),
    "missing by": (
        GOOD,
        {"by": ["quer"]},
        ("column 'quer' (`by`) not found", "Did you mean 'query'?"),
    ),
    "missing doc that was asked for": (GOOD, {"doc": "item"}, ("column 'item' (`doc`) not found")),
    "text as score": (
        GOOD.with_columns(score=pl.lit("high")),
        {},
        ("column 'score'", "must be numeric; found String", "cast"),
    ),
    "date as label": (
        GOOD.with_columns(label=pl.date(2024, 1, 1)),
        {},
        ("column 'label'", "must be numeric; found Date", "cast"),
    ),
    "lists as score": (
        GOOD.with_columns(pl.concat_list("score")),
        {},
        ("column 'score'", "found List(Float64)", "from_lists"),
    ),
    "arrays as label": (
        GOOD.with_columns(pl.concat_arr("label")),
        {},
        ("column 'label'", "found Array", "from_lists"),
    ),
    "lists as doc": (
        GOOD.with_columns(pl.concat_list("doc")),
        {},
        ("column 'doc'", "one id per row; found List(String)", "from_lists"),
    ),
    "lists as query": (
        GOOD.with_columns(pl.concat_list("query")),
        {},
        ("column 'query'", "one id per row; found List(String)", "from_lists"),
    ),
}


@everywhere
@pytest.mark.parametrize(
    ("frame", "options", "parts"), BAD_COLUMNS.values(), ids=BAD_COLUMNS.keys()
)
def test_bad_columns(
    frame: pl.DataFrame, options: dict, parts: tuple[str, ...], function: Callable, run: Callable
) -> None:
    with pytest.raises(pr.errors.SchemaError, match=says(*parts)):
        run(function, frame, **options)


BAD_OPTIONS = {
    "ties": ({"ties": "docs"}, ("`ties` must be one of", "'doc'", "found 'docs'", "Did you mean")),
    "ties without documents": ({"doc": None, "ties": "doc"}, ("`ties` is 'doc'", "`doc`")),
    "duplicates": ({"duplicates": "last"}, ("`duplicates` must be one of", "found 'last'")),
    "rel": ({"rel": "high"}, ("`rel` must be a number", "found 'high'")),
    "rel, a truth value": ({"rel": True}, ("`rel` must be a number", "True")),
    "no query": ({"query": []}, ("`query` must name at least one column",)),
    "query that is no name": (
        {"query": [1]},
        ("`query` must be the name of a column or several names; found [1]",),
    ),
    "query twice": ({"query": ["query", "query"]}, ("`query`", "'query' twice")),
    "by and query": ({"by": "query"}, ("'query' is used for both `by` and `query`",)),
    "score and label": ({"label": "score"}, ("'score' is used for both `score` and `label`",)),
    "label and score": ({"score": "label"}, ("'label' is used for both `score` and `label`",)),
}


@everywhere
@pytest.mark.parametrize(("options", "parts"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_bad_options(
    options: dict, parts: tuple[str, ...], function: Callable, run: Callable
) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=says(*parts)):
        run(function, GOOD, **options)


BAD_METRICS = {
    "none": ([], ("`metrics` is empty", "ndcg@10")),
    "twice": (["ap", "ap"], ("duplicate metric 'ap'", "alias")),
    "twice, as a name and as a metric": (["ndcg@5", pr.ndcg(5)], ("duplicate metric 'ndcg@5'",)),
    "unknown": (["ngcd@10"], ("unknown metric 'ngcd'", "Did you mean", "'ndcg@10'")),
    "a number": ([10], ("`metrics` must be names of metrics or expressions", "found 10")),
    "called like a key": ([pr.average_precision().alias("query")], ("metric 'query'", ".alias()")),
    "many columns": ([pl.all()], ("must produce one column", ".alias(...)")),
}


@pytest.mark.parametrize("frame", [GOOD, GOOD.lazy()], ids=["eager", "lazy"])
@pytest.mark.parametrize("function", [pr.per_query, pr.evaluate])
@pytest.mark.parametrize(("metrics", "parts"), BAD_METRICS.values(), ids=BAD_METRICS.keys())
def test_bad_metrics(metrics: list, parts: tuple[str, ...], function: Callable, frame: Any) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=says(*parts)):
        function(frame, metrics)


def test_unknown_policy_for_undefined_values() -> None:
    with pytest.raises(
        pr.errors.ArgumentError, match=says("`undefined` must be", "'zeros'", "'zero'?")
    ):
        pr.evaluate(GOOD.lazy(), "ap", undefined="zeros")


def test_metric_called_queries() -> None:
    with pytest.raises(pr.errors.ArgumentError, match="metric 'queries'"):
        pr.evaluate(GOOD, pl.len().alias("queries"))


def test_own_expression_reads_a_missing_column() -> None:
    with pytest.raises(pr.errors.SchemaError, match=says("'labl'", "ranked table", "'label'")):
        pr.per_query(GOOD.lazy(), pl.col("labl").sum())


@pytest.mark.parametrize("k", [0, -1, 2.5, 10.0, "10", True])
@pytest.mark.parametrize("build", [pr.ndcg, pr.precision, pr.average_precision, pr.rbp])
def test_bad_cutoff(build: Callable, k: object) -> None:
    with pytest.raises(
        pr.errors.ArgumentError, match=says("`k` must be a positive integer", repr(k))
    ):
        build(k)


BAD_PARAMETERS = {
    "gain": (lambda: pr.ndcg(gain="exp"), ("`gain` must be 'linear', 'exp2'", "'exp'", "'exp2'?")),
    "discount": (lambda: pr.dcg(discount="ln"), ("`discount` must be 'log2'", "found 'ln'")),
    "gain, no function": (lambda: pr.cg(gain=2), ("`gain` must be", "found 2")),
    "empty mapping": (
        lambda: pr.cg(gain={}),
        ("`gain` must map finite grades to finite gains; found {}",),
    ),
    "falling mapping": (lambda: pr.ndcg(gain={0: 1, 1: 0}), ("`gain` must not decrease",)),
    "infinite mapping": (lambda: pr.cg(gain={1: float("inf")}), ("finite gains", "inf")),
    "base of a logarithm": (
        lambda: pr.discounts.log(1),
        ("`base` must be a number above 1; found 1",),
    ),
    "base of a discount": (
        lambda: pr.discounts.jarvelin(0),
        ("`base` must be a number above 1; found 0",),
    ),
    "ideal": (lambda: pr.ndcg(ideal="best"), ("`ideal` must be one of", "'judged'", "'best'")),
    "depth of an ideal list": (lambda: pr.ndcg(depth="k"), ("`depth` must be one of", "'k'")),
    "depth of precision": (lambda: pr.precision(depth="n"), ("`depth` must be one of", "'n'")),
    "short": (lambda: pr.precision(short="zero"), ("`short` must be one of", "'zero'")),
    "norm": (lambda: pr.average_precision(norm="r"), ("`norm` must be one of", "'R'", "'r'")),
    "beta": (lambda: pr.fbeta(beta=0), ("`beta` must be a number above 0; found 0",)),
    "persistence": (lambda: pr.rbp(p=1), ("`p` must be a number between 0 and 1; found 1",)),
}


@pytest.mark.parametrize(("call", "parts"), BAD_PARAMETERS.values(), ids=BAD_PARAMETERS.keys())
def test_bad_parameter(call: Callable, parts: tuple[str, ...]) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=says(*parts)):
        call()


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("function", [pr.per_query, pr.evaluate])
@pytest.mark.parametrize(
    ("metric", "parts"),
    [
        ("ndcg(gain='exp2')@2", ("1 of 4 rows", "'label' above 50", "exp2", "linear", "mapping")),
        ("dcg(gain={0: 0, 1: 1})", ("1 of 4 rows", "'label' not in the gain mapping", "[0, 1]")),
    ],
)
def test_labels_that_a_gain_cannot_take(
    metric: str, parts: tuple[str, ...], function: Callable, run: Callable
) -> None:
    large = GOOD.with_columns(pl.Series("label", [0, 1, 51, None]))
    with pytest.raises(pr.errors.DataError, match=said(run, *parts, "'label': 51")):
        run(lambda frame: function(frame, ["ap", metric]), large)


def test_largest_label_that_exp2_takes() -> None:
    fifty = GOOD.with_columns(pl.Series("label", [0, 1, 50, None]))
    assert pr.evaluate(fifty, pr.cg(gain="exp2")).row(0)[1] == (1 + 2.0**50 - 1) / 2


@pytest.mark.parametrize("name", ["rank", "ideal_rank", "relevant", "hits"])
def test_ranked_table_keeps_its_names(name: str) -> None:
    taken = GOOD.with_columns(pl.lit(1).alias(name))
    with pytest.raises(
        pr.errors.SchemaError, match=says("already has the columns", name, "rename")
    ):
        pr.rank(taken.lazy())
    assert pr.evaluate(taken, "ap").equals(pr.evaluate(GOOD, "ap"))


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_sinks_raise_the_same_error(function: Callable, tmp_path: Path) -> None:
    bad = GOOD.with_columns(score=float("nan")).lazy()
    with pytest.raises(pr.errors.DataError, match="has NaN or infinite values"):
        function(bad).sink_parquet(tmp_path / "result.parquet")
    with pytest.raises(pr.errors.DataError, match="has NaN or infinite values"):
        function(bad).sink_csv(tmp_path / "result.csv")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy_results_warn_whenever_they_are_collected(engine: str) -> None:
    runs = GOOD.select("query", "score", "label", system="doc").lazy()
    several_orders = pr.Conventions(exceptions={"average_precision": {"ties": "best"}})
    for plan in (
        pr.per_query(runs, "ap"),
        pr.per_query(runs, ["ndcg", "ap"], conventions=several_orders),
        pl.concat([pr.per_query(runs, "ap")] * 2),
        pr.evaluate(runs, "ap"),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            plan.collect(engine=engine)
            plan.collect(engine=engine)
        assert ["which no parameter names" in str(each.message) for each in caught] == [True] * 2


def test_warnings_name_the_line_of_the_call() -> None:
    with pytest.warns(pr.errors.RankWarning) as caught:
        pr.evaluate(GOOD.select("query", "score", "label", system="doc"), "ap")
    assert caught[0].filename == __file__


def test_nothing_is_read_before_it_is_asked_for() -> None:
    bad = GOOD.with_columns(score=float("nan")).lazy()
    for function in FUNCTIONS.values():
        assert isinstance(function(bad), pl.LazyFrame)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_files_that_cannot_be_read(function: Callable, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.parquet", tmp_path / "cut.parquet"
    GOOD.write_parquet(whole)
    cut.write_bytes(whole.read_bytes()[:-20])
    with pytest.raises(pr.errors.SourceError, match="cannot read the log"):
        function(pl.scan_parquet(cut))
    with pytest.raises(pr.errors.SourceError, match=says("cannot read the log", "absent.parquet")):
        function(pl.scan_parquet(tmp_path / "absent.parquet"))


def test_files_that_are_no_log(tmp_path: Path) -> None:
    whole, cut, other = (tmp_path / f"{name}.parquet" for name in ("whole", "cut", "other"))
    GOOD.write_parquet(whole)
    cut.write_bytes(whole.read_bytes()[:-20])
    GOOD.with_columns(query=1).write_parquet(other)
    with pytest.raises(
        pr.errors.SourceError, match="file or directory .*absent.parquet' not found"
    ):
        pr.scan_log(tmp_path / "absent.parquet")
    with pytest.raises(pr.errors.SourceError, match="cannot read .* as Parquet"):
        pr.scan_log(cut)
    with pytest.raises(pr.errors.SourceError, match="files have different types in column 'query'"):
        pr.scan_log([whole, other])


@pytest.mark.parametrize("frame", [{"query": [1]}, [1, 2], None, GOOD["score"]])
def test_not_a_frame(frame: object) -> None:
    for function in FUNCTIONS.values():
        with pytest.raises(
            pr.errors.ArgumentError,
            match=says("`frame` must be a table; found", type(frame).__name__),
        ):
            function(frame)
