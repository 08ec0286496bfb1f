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


def per_query(frame: Any, **options: Any) -> Any:
    return pr.per_query(frame, "ap", **options)


def evaluate(frame: Any, **options: Any) -> Any:
    return pr.evaluate(frame, "ap", **options)


FUNCTIONS = (pr.rank, per_query, evaluate)


def eager(function: Callable[..., Any], frame: Any, **options: Any) -> Any:
    return function(frame, **options)


def in_memory(function: Callable[..., Any], frame: Any, **options: Any) -> Any:
    plan = function(frame.lazy(), **options)
    assert isinstance(plan, pl.LazyFrame)  # nothing is read before
    return plan.collect(engine="in-memory")


def streaming(function: Callable[..., Any], frame: Any, **options: Any) -> Any:
    return function(frame.lazy(), **options).collect(engine="streaming")


#: Each function and each engine.
CALLS = [
    *((eager, function) for function in FUNCTIONS),
    *((in_memory, per_query), (streaming, pr.rank), (streaming, evaluate)),
]


def assert_raises(error: type, frame: Any, options: dict, parts: tuple[str, ...]) -> None:
    """Assert the error of each function, eager and lazy; `parts` are in its message in order.

    While a plan runs, the number of invalid rows is unknown; there is no example either, and the
    first of two problems stops the plan.
    """
    sure = [re.sub(r"^\d of \d rows:? ?", "", part) for part in parts]
    sure = [part for part in sure if part and not re.match(r"\d+ $|'\w+': ", part)]
    for run, function in CALLS:
        of_rows = run is not eager and error is pr.errors.DataError
        with pytest.raises(error, match=says(*(sure[:1] if of_rows else parts))) as caught:
            run(function, frame, **options)
        assert isinstance(caught.value, pr.errors.RankError)
        assert isinstance(caught.value, ValueError) or error is not pr.errors.DataError


def says(*parts: str) -> str:
    """Return a pattern for these texts, in this order."""
    return "(?s)" + ".*".join(map(re.escape, parts))


FIRST, NAN, INF = DOC == "x", float("nan"), float("inf")
TWICE = "more than once in a ranking"

BAD_ROWS = [
    (GOOD.with_columns(pl.when(~FIRST).then(QUERY)), {},
     ("2 of 4 rows", "'query' (`query`) has nulls", "drop", "'query': None")),
    (GOOD.with_columns(pl.when((QUERY == "a") | FIRST).then(DOC)), {},
     ("1 of 4 rows", "'doc' (`doc`) has nulls", "doc=None", "'score': 0.1")),
    (GOOD.with_columns(pl.when(FIRST).then(NAN).otherwise(SCORE).alias("score")), {},
     ("2 of 4 rows", "'score'", "NaN or infinite values", "null", "'score': nan")),
    (GOOD.with_columns(pl.when(FIRST).then(-INF).otherwise(SCORE).alias("score")), {},
     ("2 of 4 rows", "NaN or infinite values", "'score': -inf")),
    (GOOD.select(QUERY, DOC, SCORE, pl.Series("grade", [NAN, 0.0, 1.0, None])), {"label": "grade"},
     ("1 of 4 rows", "'grade'", "NaN or infinite values", "'grade': nan")),
    (GOOD.with_columns(pl.Series("label", [1.0, 0.0, INF, None])), {},
     ("1 of 4 rows", "NaN or infinite values", "'query': 'b'", "'label': inf")),
    (GOOD.with_columns(doc=pl.lit("x")), {},
     ("2 ", TWICE, "with `run`, `by` or `query`", "`duplicates`", "'doc': 'x'", "'rows': 2")),
    (pl.concat([GOOD, GOOD.head(1)]).rename({"query": "user"}).with_columns(page=1),
     {"query": ["user", "page"]}, ("1 ", TWICE, "'user': 'a', 'page': 1, 'doc': 'x', 'rows': 2")),
    # Two faults at once.
    (GOOD.with_columns(pl.Series("score", [NAN] * 4), doc=pl.lit("x")), {},
     ("4 of 4 rows", "NaN or infinite values", "2 ", TWICE)),
]  # fmt: skip


def test_bad_rows() -> None:
    for frame, options, parts in BAD_ROWS:
        assert_raises(pr.errors.DataError, frame, options, parts)
    message = says("NaN or infinite values", "ranking {'query': 'a'}")
    with pytest.raises(pr.errors.DataError, match=message):  # of a plan
        per_query(BAD_ROWS[2][0].lazy()).collect(engine="in-memory")


BAD_COLUMNS = [
    (GOOD.rename({"label": "labels"}), {},
     ("column 'label' (`label`) not found", "'score', 'labels'", "Did you mean 'labels'?")),
    (GOOD.drop("query"), {}, ("column 'query' (`query`) not found", "'doc'")),
    (GOOD, {"by": ["quer"]}, ("column 'quer' (`by`) not found", "Did you mean 'query'?")),
    (GOOD, {"doc": "item"}, ("column 'item' (`doc`) not found",)),
    (GOOD.with_columns(score=pl.lit("high")), {}, ("'score'", "must be numeric; found String")),
    (GOOD.with_columns(label=pl.date(2024, 1, 1)), {}, ("'label'", "must be numeric; found Date")),
    (GOOD.with_columns(pl.concat_list("score")), {}, ("'score'", "List(Float64)", "from_lists")),
    (GOOD.with_columns(pl.concat_arr("label")), {}, ("'label'", "found Array", "from_lists")),
    (GOOD.with_columns(pl.concat_list("doc")), {}, ("'doc'", "one id per row; found List(String)")),
    (GOOD.with_columns(pl.concat_list("query")), {}, ("'query'", "one id per row; found List(")),
]  # fmt: skip


def test_bad_columns() -> None:
    for frame, options, parts in BAD_COLUMNS:
        assert_raises(pr.errors.SchemaError, frame, options, parts)
    with pytest.raises(pr.errors.SchemaError, match=says("'labl'", "ranked table", "'label'")):
        pr.per_query(GOOD.lazy(), pl.col("labl").sum())
    for name in ("*", "^a.*$"):
        with pytest.raises(pr.errors.SchemaError, match="a name that Polars reads as a pattern"):
            pr.per_query(GOOD, pr.average_precision().alias(name))


BAD_OPTIONS = [
    ({"ties": "docs"}, ("`ties` must be one of", "'doc'", "found 'docs'", "Did you mean")),
    ({"doc": None, "ties": "doc"}, ("`ties` is 'doc'", "`doc`")),
    ({"duplicates": "last"}, ("`duplicates` must be one of", "found 'last'")),
    ({"rel": "high"}, ("`rel` must be a number", "found 'high'")),
    ({"rel": True}, ("`rel` must be a number", "True")),
    ({"query": []}, ("`query` must name at least one column",)),
    ({"query": [1]}, ("`query` must be the name of a column or several names; found [1]",)),
    ({"query": ["query", "query"]}, ("`query`", "'query' twice")),
    ({"by": "query"}, ("'query' is used for both `by` and `query`",)),
    ({"label": "score"}, ("'score' is used for both `score` and `label`",)),
    ({"score": "label"}, ("'label' is used for both `score` and `label`",)),
]


def test_bad_options() -> None:
    for options, parts in BAD_OPTIONS:
        assert_raises(pr.errors.ArgumentError, GOOD, options, parts)


BAD_CALLS: list[tuple[Callable[[], Any], tuple[str, ...]]] = [
    *((lambda metrics=metrics, f=f, x=x: f(x, metrics), parts)
      for f, x in ((pr.per_query, GOOD), (pr.evaluate, GOOD.lazy()))
      for metrics, parts in (
        ([], ("`metrics` is empty", "ndcg@10")),
        (["ap", "ap"], ("duplicate metric 'ap'", "alias")),
        (["ndcg@5", pr.ndcg(5)], ("duplicate metric 'ndcg@5'",)),
        (["ngcd@10"], ("unknown metric 'ngcd'", "Did you mean", "'ndcg@10'")),
        ([10], ("`metrics` must be names of metrics or expressions", "found 10")),
        ([pr.average_precision().alias("query")], ("metric 'query'", ".alias()")),
        ([pl.all()], ("must produce one column", ".alias(...)")),
    )),
    (lambda: pr.evaluate(GOOD, pl.len().alias("queries")), ("metric 'queries'",)),
    (lambda: pr.evaluate(GOOD.with_columns(w=1), pr.average_precision().alias("w"), weight="w"),
     ("column 'w' (`weight`)", "the name of a result column")),
    (lambda: evaluate(GOOD, undefined="zeros"), ("`undefined` must be", "'zeros'", "'zero'?")),
    *((lambda build=build, k=k: build(k), ("`k` must be a positive integer", repr(k)))
      for build in (pr.ndcg, pr.average_precision) for k in (0, -1, 2.5, 10.0, "10", True)),
    (lambda: pr.ndcg(gain="exp"), ("`gain` must be 'linear', 'exp2'", "'exp'", "'exp2'?")),
    (lambda: pr.dcg(discount="ln"), ("`discount` must be 'log2'", "found 'ln'")),
    (lambda: pr.cg(gain=2), ("`gain` must be", "found 2")),
    (lambda: pr.cg(gain={}), ("`gain` must map finite grades to finite gains; found {}",)),
    (lambda: pr.ndcg(gain={0: 1, 1: 0}), ("`gain` must not decrease",)),
    (lambda: pr.cg(gain={1: INF}), ("finite gains", "inf")),
    (lambda: pr.discounts.log(1), ("`base` must be a number above 1; found 1",)),
    (lambda: pr.discounts.jarvelin(0), ("`base` must be a number above 1; found 0",)),
    (lambda: pr.ndcg(ideal="best"), ("`ideal` must be one of", "'judged'", "'best'")),
    (lambda: pr.ndcg(depth="k"), ("`depth` must be one of", "'k'")),
    (lambda: pr.precision(depth="n"), ("`depth` must be one of", "'n'")),
    (lambda: pr.precision(short="zero"), ("`short` must be one of", "'zero'")),
    (lambda: pr.average_precision(norm="r"), ("`norm` must be one of", "'R'", "'r'")),
    (lambda: pr.fbeta(beta=0), ("`beta` must be a number above 0; found 0",)),
    (lambda: pr.rbp(p=1), ("`p` must be a number between 0 and 1; found 1",)),
    *((lambda f=f, x=x: f(x), ("`frame` must be a table; found", type(x).__name__))
      for f in FUNCTIONS for x in ({"query": [1]}, [1, 2], None, GOOD["score"])),
]  # fmt: skip


def test_bad_arguments() -> None:
    for call, parts in BAD_CALLS:
        with pytest.raises(pr.errors.ArgumentError, match=says(*parts)):
            call()


def test_labels_that_a_gain_cannot_take() -> None:
    large = GOOD.with_columns(pl.Series("label", [0, 1, 51, None]))
    for metric, problem, parts in (
        ("ndcg(gain='exp2')@2", "'label' above 50", ("exp2", "linear", "mapping")),
        ("dcg(gain={0: 0, 1: 1})", "'label' not in the gain mapping", ("[0, 1]",)),
    ):
        for function in (pr.per_query, pr.evaluate):
            for run in (eager, in_memory, streaming):
                rows = ("1 of 4 rows", problem, *parts, "'label': 51")
                said = says(*rows) if run is eager else problem
                with pytest.raises(pr.errors.DataError, match=said):
                    run(lambda frame, f=function, m=metric: f(frame, ["ap", m]), large)
    fifty = GOOD.with_columns(pl.Series("label", [0, 1, 50, None]))
    assert pr.evaluate(fifty, pr.cg(gain="exp2")).row(0)[1] == (1 + 2.0**50 - 1) / 2


def test_ranked_table_keeps_its_names() -> None:
    for name in ("rank", "ideal_rank", "relevant", "hits"):
        taken = GOOD.with_columns(pl.lit(1).alias(name))
        said = says("already has the columns", name, "rename")
        with pytest.raises(pr.errors.SchemaError, match=said):
            pr.rank(taken.lazy())
        assert pr.evaluate(taken, "ap").equals(pr.evaluate(GOOD, "ap"))


def test_sinks_raise_the_same_error(tmp_path: Path) -> None:
    bad = GOOD.with_columns(score=NAN).lazy()
    for function in FUNCTIONS:
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


def test_files_that_are_no_log(tmp_path: Path) -> None:
    whole, cut, other, absent = (tmp_path / f"{x}.parquet" for x in ("whole", "cut", "other", "no"))
    GOOD.write_parquet(whole)
    cut.write_bytes(whole.read_bytes()[:-20])
    GOOD.with_columns(query=1).write_parquet(other)
    calls = [
        (lambda: pr.scan_log(absent), ("file or directory ", "no.parquet' not found")),
        (lambda: pr.scan_log(cut), ("cannot read ", " as Parquet")),
        (lambda: pr.scan_log([whole, other]), ("have different types in column 'query'",)),
    ]
    for function in FUNCTIONS:
        calls += [
            (lambda f=function: f(pl.scan_parquet(cut)), ("cannot read the log",)),
            (lambda f=function: f(pl.scan_parquet(absent)), ("cannot read the log", "no.parquet")),
        ]
    for call, parts in calls:
        with pytest.raises(pr.errors.SourceError, match=says(*parts)):
            call()
