"""Wrong arguments of public functions: every error names the parameter.

Functions and parameters are those of the public modules. A new function needs a valid argument for
each of its required parameters in `ARGUMENTS`, and values that are unusual but valid in `VALID`.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache, partial
from itertools import combinations
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from test_architecture import PUBLIC

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

#: Values of types that most parameters do not accept.
VALUES: dict[str, Any] = {
    "None": None,
    "-1": -1,
    "True": True,
    "''": "",
    "text": "nothing\0",
    "bytes": b"x",
    "[]": [],
    "{}": {},
    "nan": math.nan,
    "huge": 10**400,
    "[[1]]": [[1]],
    "lambda": lambda value: value,
    "expression": pl.col("nothing"),
}

ONE = pl.DataFrame(
    {
        "query": [1, 1, 2, 2, 3, 3],
        "session": 1,
        "doc": [1, 2, 1, 2, 1, 3],
        "score": [2.0, 1.0, 1.0, 2.0, 3.0, 1.0],
        "label": [1, 0, 0, 1, 1, 0],
        "position": [1, 2, 1, 2, 1, 2],
        "click": [1, 0, 0, 1, 1, 1],
        "dwell": [40.0, None, None, 1.0, 50.0, None],
        "time": [1, 2, 1, 2, 1, 2],
        "country": ["a", "a", "b", "b", "a", "a"],
        "propensity": [1.0, 0.5, 1.0, 0.5, 1.0, 0.5],
        "reward": [1, 0, 0, 1, 1, 1],
        "traffic": [1.0, 1.0, 2.0, 2.0, 1.0, 1.0],
        "group": ["g", "h", "g", "h", "g", "h"],
    }
)
LOG = pl.concat(
    ONE.with_columns(score=pl.col("score") * sign, run=pl.lit(run))
    for run, sign in (("a", 1), ("b", -1))
)
VALUES_OF_QUERIES = pr.per_query(LOG, ["ndcg@2", "rr"], by="run", keep=["country", "traffic"])
DAYS = VALUES_OF_QUERIES.with_columns(day=pl.lit(date(2026, 1, 1)))
JUDGMENTS, RANKINGS = ONE.select("query", "doc", "label"), ONE.select("query", "doc", "score")
JUDGED = JUDGMENTS.with_columns(judge=pl.lit("a")).vstack(JUDGMENTS.with_columns(judge=pl.lit("b")))
OF_JUDGES = pl.concat(VALUES_OF_QUERIES.with_columns(judge=pl.lit(name)) for name in "ab")
CHUNKS = RANKINGS.with_columns(start=0, end=10)


@cache
def tables() -> dict[str, Any]:
    """Return results of functions that other functions take as input."""
    needs.package("altair", "plot")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        summary = pr.summarize(VALUES_OF_QUERIES)
        return {
            "check.result": summary,
            "flat.result": summary,
            "plot.bounds.table": pr.diagnostics.tie_bands(LOG, "rr", by="run"),
            "plot.intervals.table": summary,
            "plot.leaderboard.table": pr.leaderboard(VALUES_OF_QUERIES),
            "plot.over_time.table": pr.summarize(DAYS, by="day"),
            "plot.slices.table": pr.compare(
                VALUES_OF_QUERIES, "rr", slices="country", baseline="a", min_queries=1
            ),
            "verdicts": pr.check(summary, ["rr >= 0"], on_fail="return"),
        }


#: Valid arguments of required parameters, and of others that a function needs for a result. The
#: arguments of "function.parameter" come before those of "parameter".
ARGUMENTS: dict[str, Any] = {
    "a": RANKINGS,
    "b": RANKINGS,
    "baseline": "a",
    "doc": "doc",
    "frame": ONE,
    "gains": {0: 0, 1: 1},
    "gold": CHUNKS.drop("score"),
    "history": pl.DataFrame({"query": [1], "doc": [2]}),
    "judgments": JUDGMENTS,
    "k": 2,
    "ks": [1, 2],
    "label": pl.col("label"),
    "labels": [1, 0],
    "lowest": 1,
    "max_grade": 1,
    "metric": "rr",
    "metrics": "rr",
    "n_items": 10,
    "n_sampled": 1,
    "name": "rr",
    "path": "written",
    "paths": "log.parquet",
    "rank": pl.col("rank"),
    "rankings": RANKINGS,
    "rules": ["rr >= 0"],
    "runs": ["a", "b"],
    "scores": [0.5, 0.2],
    "slices": "country",
    "table": VALUES_OF_QUERIES,
    "time": "time",
    "value": 0.5,
    "values": VALUES_OF_QUERIES,
    "catalog.sampled.metrics": "ndcg@2",
    "clicks.labels.log": ONE.drop("label"),
    "diagnostics.movers.frame": LOG,
    "diagnostics.robustness.frame": LOG,
    "explain_difference.a": "trec_eval",
    "explain_difference.b": "sklearn",
    "from_dicts.judgments": {"q": {"d": 1}},
    "from_dicts.rankings": {"q": {"d": 1.0}},
    **dict.fromkeys(("fuse.log", "tune_fusion.log", "report.log"), LOG),
    "from_lists.frame": pl.DataFrame({"query": [1], "shown": [[1, 2]], "bought": [[1]]}),
    "gate.results": RANKINGS,
    "join_spans.retrieved": CHUNKS,
    "judges.agreement.judgments": JUDGED,
    "judges.confusion.judgments": JUDGED,
    **{f"judges.estimate.{name}": VALUES_OF_QUERIES for name in ("human", "predicted")},
    "judges.system_agreement.reference": "a",
    "judges.system_agreement.values": OF_JUDGES,
    "plot.at_k.metric": "ndcg",
    "rank_curve.metrics": "ndcg",
    "scan_judgments.path": "qrels.txt",
    "scan_run.path": "run.txt",
    "training.catboost.groups": [2],
}
#: The same for optional parameters.
OPTIONS: dict[str, dict[str, Any]] = {
    "diagnostics.overlap": {"b": RANKINGS},
    "from_arrays": {"groups": [2]},
    "tune_fusion": {"folds": 2, "step": 0.5},
    "from_lists": {"retrieved": "shown", "relevant": "bought"},
    "plot.differences": {"metric": "rr"},
    "plot.distribution": {"metric": "rr"},
    "plot.leaderboard": {"metric": "rr"},
    "plot.over_time": {"metric": "rr"},
    "datasets.search_log": {"queries": 2},
    "referee": {"function": lambda ids, relevant: float(bool({*ids} & {*relevant}))},
    "report": {"overwrite": True},
    **dict.fromkeys(
        ("stats.write_junit", "stats.write_markdown", "trec.write_qrels", "trec.write_run"),
        {"overwrite": True},
    ),
}  # fmt: skip

#: The values that a part of an annotation may accept.
ALLOWED = {
    "None": "None",
    "bool": "True",
    "pl.Expr": "expression",
    "Discount": "lambda",
    "Gain": "lambda",
    "Names": "[]",
    "Sequence": "[]",
    "Mapping": "{}",
    "FieldNames": "{}",
    "ConventionsLike": "{}",
}
#: Other values that a parameter, or one of a function, may allow. A string names a column of a
#: table that the function does not have, or one that is not read.
MORE = {
    **dict.fromkeys(("a", "b", "c", "d", "gain_from", "grade", "lowest", "rel", "single"), "-1"),
    "min_grade": "-1",
    "seed": "-1 huge",
    "colors": "{}",
    "from_dicts.judgments": "{}",
    "fuse.name": "'' text",
    "identify.value": "-1 huge",
    "referee.function": "lambda",
    **{f"define_metric.{name}": "-1" for name in ("low", "high")},
    "report.title": "'' text",
    "training.catboost.groups": "[[1]]",
}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each public function with its name, except those of terms, which take nodes."""
    for module in ("", *(name for name in PUBLIC if name != "terms")):
        members = getattr(pr, module) if module else pr
        for name in members.__all__:
            function = getattr(members, name)
            if inspect.isroutine(function):
                yield f"{module}.{name}".lstrip("."), function
    yield "Conventions", pr.Conventions
    yield "Fusion", pr.Fusion


FUNCTIONS = dict(public_functions())
#: Values with the same meaning as the default None, if they are valid.
EMPTY = ("[]", "{}")
#: Parameters of tables whose columns other parameters name.
TABLES = (
    *("a", "b", "frame", "judgments", "log", "pairs"),
    *("rankings", "result", "table", "tables", "values", "verdicts"),
)
#: Parameters that a function passes on under another name.
PASSED_ON = {f"diagnostics.{name}.metric": "metrics" for name in ("movers", "robustness")}
#: Functions that are called with invalid values only, because they take long.
SLOW = ("plot.at_k", "plot.slices", "report")


@cache
def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function, except `**options`."""
    described = inspect.signature(function).parameters
    return {name: each for name, each in described.items() if each.kind is not each.VAR_KEYWORD}


def arguments_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return valid arguments of a function."""
    given = dict(OPTIONS.get(name, {}))
    for parameter, described in parameters_of(function).items():
        if described.default is described.empty:
            key = f"{name}.{parameter}"
            results = tables()
            known = {**ARGUMENTS, **results}
            assert key in known or parameter in known, f"{key} needs a valid argument"
            given[parameter] = known.get(key, known.get(parameter))
    return given


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    """Return the result of a function: a collected table, a chart as a dictionary, or a value."""
    keywords = dict(arguments)
    positional = [
        keywords.pop(name)
        for name, each in parameters_of(function).items()
        if each.kind is each.POSITIONAL_ONLY and name in keywords
    ]
    result = function(*positional, **keywords)
    if isinstance(result, pl.LazyFrame):
        return result.collect()
    if type(result).__module__.startswith("altair"):
        return result.to_dict()
    return result


def allowed(name: str, parameter: str, described: inspect.Parameter, has_table: bool) -> set[str]:
    """Return the descriptions of values that a parameter may accept."""
    labels = set(MORE.get(f"{name}.{parameter}", MORE.get(parameter, "")).split())
    if described.default is None:
        labels.add("None")
    annotation = str(described.annotation)
    for part in annotation.replace("[", " | ").replace("]", "").replace(",", " |").split(" | "):
        labels |= {*ALLOWED.get(part.strip(), "").split()}
    if not has_table and ("str" in annotation or "Names" in annotation):
        labels |= {"''", "text"}
    return labels


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Write the files that functions read, in the working directory."""
    needs.package("jinja2", "report")
    with contextlib.chdir(tmp_path_factory.mktemp("arguments")):
        ONE.select(pl.all(), pl.all().name.suffix(SECOND)).write_parquet("log.parquet")
        Path("run.txt").write_text("1 Q0 d 1 0.5 tag\n", "utf-8")
        Path("qrels.txt").write_text("1 0 d 1\n", "utf-8")
        yield


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_wrong_value_names_its_parameter(name: str) -> None:
    function = FUNCTIONS[name]
    parameters, arguments = parameters_of(function), arguments_of(name, function)
    has_table = not {*parameters}.isdisjoint(TABLES)
    wrong = []
    for parameter, described in parameters.items():
        valid = allowed(name, parameter, described, has_table)
        for label, value in VALUES.items():
            same_as_none = label in EMPTY and described.default is None and name not in SLOW
            if label in valid and not same_as_none:
                continue
            try:
                result = call(function, {**arguments, parameter: value})
            except pr.errors.RankError as error:
                named = {parameter, PASSED_ON.get(f"{name}.{parameter}", parameter)}
                if any(f"`{each}`" in str(error) or f"`{each}[" in str(error) for each in named):
                    continue
                if isinstance(error, pr.errors.SourceError) and repr(value) in str(error):
                    continue  # it names the file
                problem = f"{type(error).__name__}: {error}"
            except Exception as error:  # an error of Python or of Polars
                problem = f"{type(error).__name__}: {error}"
            else:
                if label not in valid:
                    problem = f"returns {str(result)[:80]!r}"
                elif not same(result, call(function, arguments)):
                    problem = "is not the same as the default"
                else:
                    continue
            wrong.append(f"{parameter}={label}: {problem}")
    assert wrong == []


def same(one: Any, other: Any) -> bool:
    """Return whether two results are equal, whatever the order of rows."""
    if not isinstance(one, pl.DataFrame):
        return str(one) == str(other)
    try:
        assert_frame_equal(one, other, check_row_order=False)
    except AssertionError:
        return False
    return True


def error_of(call: Callable[[], Any]) -> pr.errors.ArgumentError:
    with pytest.raises(pr.errors.ArgumentError) as caught:
        call()
    return caught.value


@pytest.mark.usefixtures("files")
def test_an_unknown_parameter_names_the_similar_one() -> None:
    for name, function in FUNCTIONS.items():
        named = [
            parameter
            for parameter, each in parameters_of(function).items()
            if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        last = named[-1] if named else ""
        arguments = {**arguments_of(name, function), f"{last}_name": 1}
        error = error_of(partial(call, function, arguments))
        unknown = f"{name.rpartition('.')[2]}() has no parameter `{last}_name`"
        assert str(error).startswith(unknown)
        assert not last or f"Did you mean `{last}`" in str(error)
        assert error.parameter == f"{last}_name"


def test_a_call_without_arguments_names_those_that_it_needs() -> None:
    for function in FUNCTIONS.values():
        needed = [
            parameter
            for parameter, each in parameters_of(function).items()
            if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
        ]
        if needed:
            assert f"`{needed[0]}`" in str(error_of(function))


#: Columns for parameters whose default does not name one.
COLUMNS = {
    **dict.fromkeys(("by", "cluster", "slices", "keep", "sample", "swap"), "country"),
    **dict.fromkeys(("doc", "position", "run", "score", "time"), ""),
    "weight": "traffic",
}
#: Parameters with names that do not name columns.
NO_COLUMNS = ("actions", "event", "metric", "name", "tag", "title", "undecided", "url", "x", "y")


def naming_columns(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a function that name columns."""
    kinds = {"str", "str | None", "Names", "Names | None", "Score", "str | pl.Expr"}
    return {
        name: each
        for name, each in parameters_of(function).items()
        if str(each.annotation) in kinds and name not in NO_COLUMNS
    }


def columns_of(name: str, function: Callable[..., Any]) -> dict[str, str]:
    """Return a column of a table for each parameter of a function that names columns."""
    arguments, found = arguments_of(name, function), {}
    for parameter, each in naming_columns(function).items():
        given = arguments.get(parameter, each.default)
        column = given if isinstance(given, str) else COLUMNS.get(parameter)
        found[parameter] = column or parameter
    return found


def outcome(function: Callable[..., Any], arguments: dict[str, Any], *, lazy: bool) -> Any:
    """Return the result of a function, or the error; a metric is evaluated."""
    given = {
        name: value.lazy() if lazy and isinstance(value, pl.DataFrame) else value
        for name, value in arguments.items()
    }
    try:
        result = call(function, given)
        if isinstance(result, pr.Metric):
            log = ONE.select(pl.all(), pl.all().name.suffix(SECOND))
            result = pr.evaluate(log, result)
    except Exception as error:
        return error
    return result


#: The end of the name of a copy of a column.
SECOND = "_2"


def without_copies(table: Any) -> Any:
    """Return a result in which copies of columns have the names of the columns."""
    if not isinstance(table, pl.DataFrame):
        return str(table).replace(SECOND, "")
    copies = [name + SECOND for name in table.columns if name + SECOND in table.columns]
    texts = pl.col(pl.String).str.replace_all(SECOND, "", literal=True)
    columns = table.drop(copies).with_columns(texts).get_columns()
    return pl.DataFrame({str(place): column for place, column in enumerate(columns)})


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "name",
    [n for n, each in FUNCTIONS.items() if n not in SLOW and len(naming_columns(each)) > 1],
)
def test_a_column_of_two_parameters(name: str) -> None:
    """The error names both parameters, or the result equals that for two equal columns."""
    function = FUNCTIONS[name]
    arguments, columns = arguments_of(name, function), columns_of(name, function)
    wrong = []
    for one, other in combinations(columns, 2):
        if {one, other} == {"run", "by"}:  # both name the column of runs
            continue
        column = columns[one]
        twice = {**arguments, one: column, other: column}
        result = outcome(function, twice, lazy=False)
        lazily = outcome(function, twice, lazy=True)
        if type(result) is not type(lazily):
            wrong.append(f"{one}={column!r}, {other}: {result}; lazily {lazily}")
        text = str(result)
        if isinstance(result, pr.errors.RankError) and (
            (f"`{one}`" in text and f"`{other}`" in text) or "has the name of a result" in text
        ):
            continue
        copied = {
            key: value.with_columns(pl.col(column).alias(column + SECOND))
            if isinstance(value, pl.DataFrame) and column in value.columns
            else value
            for key, value in arguments.items()
        }
        apart = outcome(function, {**copied, one: column, other: column + SECOND}, lazy=False)
        is_error = isinstance(result, Exception)
        if is_error and not isinstance(result, pr.errors.RankError):
            wrong.append(f"{one}={column!r}, {other}: {type(result)}: {result}")
        elif type(result) is not type(apart) or not (
            is_error or same(without_copies(result), without_copies(apart))
        ):
            wrong.append(f"{one}={column!r}, {other}: {result}; of two columns {apart}")
    assert wrong == []


def test_an_unknown_parameter_of_a_method() -> None:
    for name in dir(LOG.ranking):
        if not name.startswith("_"):
            method = getattr(LOG.ranking, name)
            error = error_of(partial(method, **arguments_of(name, method), nothing=1))
            assert str(error).startswith(f"{name}() has no parameter `nothing`")


def test_a_method_names_what_it_needs() -> None:
    with pytest.raises(
        pr.errors.ArgumentError, match=r"^check\(\): missing a required argument: `rules`$"
    ):
        ONE.ranking.check()


#: Calls with likely mistakes, and texts in their messages.
MISTAKES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a parameter of another function": (
        lambda: pr.rank_curve(ONE, "dcg", [2], margin=0.1),
        pr.errors.ArgumentError,
        r"^rank_curve\(\) has no parameter `margin`; available: `metrics`, `ks`",
    ),
    "runs under another name": (
        lambda: pr.compare(pl.DataFrame({"query": 1, "model": ["a"], "rr": 1.0})),
        pr.errors.SchemaError,
        r"column 'run' \(`run`\) not found.*If 'model' identifies the runs, pass run='model'$",
    ),
    "runs under another name as groups": (
        lambda: pr.evaluate(ONE.lazy().with_columns(model=pl.lit("a")), "ap", by="run"),
        pr.errors.SchemaError,
        r"column 'run' \(`by`\) not found.*If 'model' identifies the runs, pass run='model'$",
    ),
    "runs as groups of a function without `run`": (
        lambda: pr.clicks.coec(pl.DataFrame({"System": ["a"]}), by="run"),
        pr.errors.SchemaError,
        r"column 'run' \(`by`\) not found.*If 'System' identifies the runs, pass by='System'$",
    ),
    "scores that are text": (
        lambda: pr.evaluate(ONE.with_columns(new=pl.lit("x")), "rr", score="new"),
        pr.errors.SchemaError,
        r"^column 'new' \(`score`\) must be numeric; found String; cast it to Float64, or replace words by",
    ),
    "an expression of text": (
        lambda: pr.evaluate(ONE, "rr", score=pl.lit("x")),
        pr.errors.SchemaError,
        "^`score` must be numeric; found String; cast it to Float64, or replace words by",
    ),
    "an expression that is not a number": (
        lambda: pr.evaluate(ONE, "rr", score=pl.lit(math.nan)),
        pr.errors.DataError,
        r"^6 of 6 rows: `score` has NaN or infinite values.*e\.g\. \{'query': 1, ",
    ),
    "another name of a metric as a function": (
        lambda: pr.__getattr__("mrr"),
        AttributeError,
        r"'mrr'; use reciprocal_rank\(\)$",
    ),
    "another name of a metric as a method": (
        lambda: ONE.ranking.mrr(),
        AttributeError,
        r"'mrr'; use reciprocal_rank\(\)$",
    ),
    "an attribute of documents that the log does not have": (
        lambda: pr.evaluate(ONE, "intra_list_diversity@2"),
        pr.errors.SchemaError,
        r"column 'embedding' \(`features` of .* Name the column.*; or join it: log.join\(items, ",
    ),
    "earlier documents that the log does not have": (
        lambda: pr.evaluate(ONE, "unseen_share@2"),
        pr.errors.SchemaError,
        "column 'seen' .* Name the column.*; or join it: log.join\\(history",
    ),
    "groups that join_judgments does not know": (
        lambda: pr.evaluate(
            pr.join_judgments(LOG.filter(doc=2).drop("label").rename({"run": "system"}), JUDGMENTS),
            "rr",
            by="system",
        ),
        pr.errors.DataError,
        "'system' .`by`. is null for judged documents .*pr.join_judgments.rankings, judgments. adds",
    ),
    "queries that restart in each fold": (
        lambda: pr.evaluate(pl.concat([ONE, ONE]), "rr"),
        pr.errors.DataError,
        "has duplicates: .*name all columns that identify a ranking.* with `run`, `by` or `query`; if "
        "the rows are chunks, .*; if judgments .*; if rankings .* or set `duplicates` to",
    ),
    "a run of another type": (
        lambda: pr.diagnostics.overlap(LOG, baseline=1),
        pr.errors.ArgumentError,
        "`baseline`",
    ),
    "an option that scan_parquet does not have": (
        lambda: pr.scan_log("log.parquet", rows=1),
        pr.errors.ArgumentError,
        r"^scan_log\(\) has no parameter `rows`\. Did you mean `n_rows`",
    ),
    "an invalid value for scan_parquet": (
        lambda: pr.scan_log("log.parquet", n_rows=-1),
        pr.errors.ArgumentError,
        r"^`n_rows` has an invalid value: -1",
    ),
    "a user without a home directory": (
        lambda: pr.scan_log("~no user/log.parquet"),
        pr.errors.SourceError,
        "^file or directory '~no user/log.parquet' not found",
    ),
}


@pytest.mark.parametrize(("mistake", "error", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_a_message_says_what_to_do(
    mistake: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        mistake()
    assert "polars_rank:" not in str(caught.value)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.usefixtures("files")
def test_columns_of_objects_are_refused(name: str) -> None:
    function = FUNCTIONS[name]
    arguments = arguments_of(name, function)
    for parameter, table in arguments.items():
        if not isinstance(table, pl.DataFrame):
            continue
        things = pl.Series("thing", [object()] * table.height, dtype=pl.Object)
        changed = table.with_columns(things)
        refused = f"'thing' of `{parameter}` has the type Object"
        for given in (changed, changed.lazy()):
            with pytest.raises(pr.errors.SchemaError, match=refused):
                call(function, {**arguments, parameter: given})
