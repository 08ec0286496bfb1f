"""Properties of all public functions, with the calls of `calls.py`.

A test of a function collects what fails: parameters, values and columns.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations
from typing import Any

import calls
import polars as pl
import polars_rank as pr
import pytest
from calls import FUNCTIONS, LOG, ONE, applied, call, columns_of, parameters_of
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")

Arguments = dict[str, Any]
#: What is wrong with a call.
Problems = Iterator[str]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with calls.files(tmp_path_factory.mktemp("functions")):
        yield


def same(one: Any, other: Any) -> bool:
    """Return whether two results are equal, whatever the order of rows."""
    if not isinstance(one, pl.DataFrame):
        return str(one) == str(other)
    try:
        assert_frame_equal(one, other, check_row_order=False, rel_tol=1e-12, abs_tol=1e-12)
    except AssertionError:
        return False
    return True


def outcome(function: Callable[..., Any], arguments: Arguments, engine: str = "auto") -> Any:
    """Return the result of a function, or the error; a metric is evaluated."""
    try:
        result = call(function, arguments, engine)
        if isinstance(result, pr.Metric):
            log = ONE.select(pl.all(), pl.all().name.suffix(SECOND))
            result = pr.evaluate(log, result)
    except Exception as error:
        return error
    return result


def is_result(value: Any) -> bool:
    return not isinstance(value, Exception)


def changed(arguments: Arguments, change: Callable[[pl.DataFrame], Any]) -> Arguments:
    """Return arguments in which each table is changed."""
    return {
        name: change(value) if isinstance(value, pl.DataFrame) else value
        for name, value in arguments.items()
    }


#: What no message has: characters that no terminal shows, and names of internal columns.
UNREADABLE = re.compile("[\0\ud800-\udfff]|polars_rank:")


def wrong_values(name: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """An error names the parameter."""
    parameters = parameters_of(function)
    has_table = not calls.TABLES.isdisjoint(parameters)
    for parameter, described in parameters.items():
        valid = calls.allowed(name, parameter, described, has_table)
        named = {parameter, calls.PASSED_ON.get(f"{name}.{parameter}", parameter)}
        for label, value in calls.WRONG.items():
            same_as_none = label in calls.EMPTY and described.default is None and name not in SLOW
            if label in valid and not same_as_none:
                continue
            problem = ""
            result = outcome(function, {**arguments, parameter: value})
            if isinstance(result, pr.errors.RankError):
                text = str(result)
                names_it = any(re.search(rf"`{each}[`\[]", text) for each in named)
                names_file = isinstance(result, pr.errors.SourceError) and repr(value) in text
                if not (names_it or names_file) or UNREADABLE.search(text):
                    problem = text
            elif label not in valid:
                problem = f"{result!r}"
            elif not same(result, outcome(function, arguments)):
                problem = "is not the same as the default"
            if problem:
                yield f"{parameter}={label}: {problem}"


def wrong_names(name: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """An unknown parameter has the similar one as a hint, and a missing one is named."""
    named = [
        each for each in parameters_of(function).values() if each.kind is not each.VAR_POSITIONAL
    ]
    similar = [each.name for each in named if each.kind is not each.POSITIONAL_ONLY][-1:]
    unknown = f"{''.join(similar)}_name"
    error = outcome(function, {**arguments, unknown: 1})
    said = f"{name.rpartition('.')[2]}() has no parameter `{unknown}`"
    hint = f"Did you mean `{similar[0]}`" if similar else ""
    if not str(error).startswith(said) or hint not in str(error) or error.parameter != unknown:
        yield f"{unknown}: {error}"
    needed = [each.name for each in named if each.default is each.empty]
    if needed and f"`{needed[0]}`" not in str(error := outcome(function, {})):
        yield f"without {needed[0]}: {error}"


def objects(_: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """Columns of Python objects are refused."""
    for parameter, table in arguments.items():
        if isinstance(table, pl.DataFrame):
            things = pl.Series("thing", [object()] * table.height, dtype=pl.Object)
            for given in (table.with_columns(things), table.with_columns(things).lazy()):
                error = outcome(function, {**arguments, parameter: given})
                if f"'thing' of `{parameter}` has the type Object" not in str(error):
                    yield f"{parameter}: {error}"


#: The end of the name of a copy of a column.
SECOND = "_2"


def without_copies(table: Any) -> Any:
    """Return a result in which copies of columns have the names of the columns."""
    if not isinstance(table, pl.DataFrame):
        return str(table).replace(SECOND, "")
    copies = [name + SECOND for name in table.columns if name + SECOND in table.columns]
    texts = pl.col(pl.String).str.replace_all(SECOND, "", literal=True)
    return by_place(table.drop(copies).with_columns(texts))


def by_place(table: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose columns, and fields of structs, have numbers as names."""
    columns = table.unnest(*table.select(pl.selectors.struct()).columns).get_columns()
    return pl.DataFrame({str(place): column for place, column in enumerate(columns)})


def a_column_twice(name: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """The error names both parameters, or the result equals that for two equal columns.

    Only the column of runs may be a group as well, as without `by`.
    """
    columns = columns_of(name, function)
    for one, other in combinations(columns, 2):
        column = columns[one]

        def with_copy(table: pl.DataFrame, column: str = column) -> pl.DataFrame:
            copies = [pl.col(column).alias(column + SECOND)] if column in table.columns else []
            return table.with_columns(copies)

        twice = {**arguments, one: column, other: column}
        result = outcome(function, twice)
        lazily = outcome(function, changed(twice, pl.DataFrame.lazy))
        is_ours = isinstance(result, pr.errors.RankError)
        text = str(result)
        if type(result) is not type(lazily) or not (is_ours or is_result(result)):
            yield f"{one}={column!r}, {other}: {result!r}; lazily {lazily!r}"
        if is_ours and ((f"`{one}`" in text and f"`{other}`" in text) or "has the name of" in text):
            continue
        apart = {**changed(arguments, with_copy), one: column, other: column + SECOND}
        if {one, other} == {"run", "by"} and name != "judges.system_agreement":
            apart = (
                arguments if any(column in _columns(each) for each in arguments.values()) else twice
            )
        expected = outcome(function, apart)
        is_same = is_ours and type(result) is type(expected)
        if not (is_same or same(without_copies(result), without_copies(expected))):
            yield f"{one}={column!r}, {other}: {result!r}; of two columns {expected!r}"


def _columns(value: Any) -> list[str]:
    return value.columns if isinstance(value, pl.DataFrame) else []


def _first(column: str, value: float | None) -> pl.Expr:
    return pl.when(pl.int_range(pl.len()) > 0).then(column).otherwise(value).alias(column)


#: Changes of a column for which functions fail, or not.
CHANGES: dict[str, Callable[[pl.DataFrame, str], pl.DataFrame]] = {
    "null": lambda table, column: table.with_columns(_first(column, None)),
    "text": lambda table, column: table.with_columns(pl.lit("é").alias(column)),
    "NaN": lambda table, column: table.cast({column: pl.Float64}, strict=False).with_columns(
        _first(column, float("nan"))
    ),
}


def lazy_tables(name: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """Results and errors of lazy tables are those of tables in memory, with both engines.

    Plans are built without reading rows, and arguments are not changed.
    """
    given = copy.deepcopy(arguments)
    reads = []

    def source(table: pl.DataFrame) -> pl.LazyFrame:
        def read(columns: Any, predicate: Any, rows: Any, _: object) -> Iterator[pl.DataFrame]:
            reads.append(1)
            found = table.slice(0, rows)
            found = found if predicate is None else found.filter(predicate)
            yield found if columns is None else found.select(columns)

        return register_io_source(read, schema=table.schema)

    expected = outcome(function, arguments)
    plan = applied(function, changed(arguments, source))
    if isinstance(plan, pl.LazyFrame) and reads:
        yield "reads rows while it builds a plan"
    for table, engine in ((pl.DataFrame.lazy, "in-memory"), (source, "streaming")):
        found = outcome(function, changed(arguments, table), engine)
        if not (is_result(expected) and same(found, expected)):
            yield f"lazily, {engine}: {found!r}; of tables in memory {expected!r}"
    if not all(
        same(value, given[key]) for key, value in arguments.items() if value is not given[key]
    ):
        yield "changes its arguments"
    for number, column in enumerate(dict.fromkeys(columns_of(name, function).values())):
        for change in ("null", ("text", "NaN")[number % 2])[: 1 if name in LONG else 2]:

            def broken(table: pl.DataFrame) -> pl.DataFrame:
                has_values = column in table.columns and not table[column].dtype.is_nested()
                return CHANGES[change](table, column) if has_values else table

            bad = changed(arguments, broken)
            expected = outcome(function, bad)
            found = outcome(function, changed(bad, pl.DataFrame.lazy), "streaming")
            is_right = isinstance(expected, pr.errors.RankError) and type(found) is type(expected)
            if not (is_right or (is_result(expected) and same(found, expected))):
                yield f"{column} {change}: lazily {found!r}; of tables in memory {expected!r}"


#: Names of columns that charts and results have, and unusual ones.
NAMES = ("value", "é `b`. c", "low", "*", "metric", "x", "rank", "label", "run", "queries", "y")
PATTERN, RESERVED = "^x$", "polars_rank:value"
REFUSED = "rename (it|them)|Polars reads as a pattern|has the name of|is used for both|; omit it"
#: Functions that take longer than others.
LONG = ("compare", "judges.system_agreement", "diagnostics.robustness", "tune_fusion")
#: Functions that meet errors of Python or Polars for the reserved name.
NOT_RESERVED = ("diagnostics.robustness", "plot.differences", "plot.distribution", "rank")


def names_of_columns(name: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """Columns of any name have the same results, or the message says that they must be renamed."""
    present = {column for value in arguments.values() for column in _columns(value)}
    names = (each for each in NAMES * 9 if each not in present)
    columns = columns_of(name, function)
    for parameter, column in columns.items():
        if column not in present or (name, parameter) == ("rank", "score"):  # which adds a column
            continue
        # Other parameters that name the column because of their default.
        given = {key: arguments.get(key, parameters_of(function)[key].default) for key in columns}
        others = [key for key, each in given.items() if isinstance(each, str) and each == column]
        for new in (PATTERN, RESERVED, *([] if name in LONG else [next(names)])):

            def renamed(table: pl.DataFrame) -> pl.DataFrame:
                return table.rename({column: new}, strict=False)

            given = dict.fromkeys([*others, parameter], new)
            result = outcome(function, {**changed(arguments, renamed), **given})
            is_ours = isinstance(result, pr.errors.RankError)
            if is_ours and (new == RESERVED or re.search(REFUSED, str(result))):
                continue
            if new == RESERVED and name in NOT_RESERVED:
                continue
            expected = outcome(function, {**arguments, parameter: column})
            if isinstance(result, pl.DataFrame) and isinstance(expected, pl.DataFrame):
                texts = pl.col(pl.String).replace(new, column)
                is_same = same(by_place(result.with_columns(texts)), by_place(expected))
            else:  # charts have the names in titles
                is_same = type(result) is type(expected) and (is_ours or is_result(result))
            if new == PATTERN or not is_same:
                yield f"{parameter}={new!r}: {result!r}; of another name {expected!r}"


#: Results with another order of columns: those of the log, and new ones.
OTHER_ORDER = ("rank", "join_judgments", "catalog.exclude_seen", "clicks.labels")


def order_of_columns(name: str, function: Callable[..., Any], arguments: Arguments) -> Problems:
    """Results begin with groups, the metric and the run."""
    for options in ({}, {"by": "country"}):
        result = outcome(function, {**arguments, **options})
        if isinstance(result, pl.DataFrame) and name not in OTHER_ORDER:
            order = ("country", "metric", *(["run"] if "run" in parameters_of(function) else []))
            first = [each for each in order if each in result.columns]
            if result.columns[: len(first)] != first or {*FORBIDDEN} & {*result.columns}:
                yield f"{options}: {result.columns}"


PROPERTIES = (wrong_values, wrong_names, objects)
#: Properties of functions of tables.
OF_TABLES = (a_column_twice, lazy_tables, names_of_columns, order_of_columns)
#: Functions that are called with invalid values only, because they take long.
SLOW = ("plot.at_k", "plot.slices", "referee", "report")
#: Functions by the name of a test: metrics, gains and discounts are fast.
TESTS: dict[str, list[str]] = defaultdict(list)
for _name, _function in FUNCTIONS.items():
    _is_metric = "Metric" in str(inspect.signature(_function).return_annotation)
    _module = re.match("gains|discounts|training", _name)
    TESTS["metrics" if _is_metric else _module[0] if _module else _name].append(_name)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("test", TESTS)
def test_properties(test: str) -> None:
    wrong = []
    for name in TESTS[test]:
        function = FUNCTIONS[name]
        arguments = calls.arguments_of(name, function)
        has_table = any(isinstance(each, pl.DataFrame) for each in arguments.values())
        for check in (*PROPERTIES, *(OF_TABLES if has_table and name not in SLOW else ())):
            wrong += [
                f"{name}: {check.__name__}: {each}" for each in check(name, function, arguments)
            ]
    assert not wrong, "\n".join(wrong)


def test_parameters_of_methods() -> None:
    for name in dir(LOG.ranking):
        if not name.startswith("_"):
            method = getattr(LOG.ranking, name)
            error = outcome(partial(method, **calls.arguments_of(name, method)), {"nothing": 1})
            assert str(error).startswith(f"{name}() has no parameter `nothing`")
    with pytest.raises(pr.errors.ArgumentError, match=r"^check\(\): missing .* argument: `rules`$"):
        ONE.ranking.check()


#: Names that parameters and result columns must not have, and the names to use instead.
FORBIDDEN = {
    **{"worst": "n", "most": "n", "resamples": "n_resamples", "lists": "values"},
    **{"columns": "slices", "group_by": "by", "lower": "low", "upper": "high"},
    "tied_lists": "tied_rankings",
}
#: Parameters whose default differs from that of other functions, and why.
OTHER_DEFAULTS: dict[str, str] = {
    "diagnostics.movers k": "None: without documents, one row per query",
    "from_lists query": "None: each row is a query",
    "gate latency": "None: no limits",
    "gate metrics": "it has metrics of its own",
    **{
        f"clicks.{name} position": "documents of a log of clicks have positions, not scores"
        for name in ("click_through_rates", "coec", "labels")
    },
    **{
        f"scan_log {role}": "None: a log of results only may lack the column"
        for role in ("doc", "score", "label")
    },
    "check undecided": "None: of the file of rules; verdicts have no such file",
    "diagnostics.robustness judge": "None: one judge",
}
#: Parameters that mean something else in each function.
OWN = {"n", "kind", "method", "missing", "name", "base", "queries"}


def test_signatures_agree() -> None:
    """Shared parameters have one default, which can be passed; metrics come second."""
    defaults: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, function in FUNCTIONS.items():
        parameters = parameters_of(function)
        assert not {*FORBIDDEN} & {*parameters}, name
        if [*parameters][0:1] == ["values"]:
            second = [*parameters.values()][1]
            assert (second.name, second.kind) in {
                (each, second.POSITIONAL_OR_KEYWORD) for each in ("metric", "metrics")
            }, name
        if name in TESTS["metrics"] or name in ("Conventions", "Fusion", "define_metric"):
            continue
        for parameter, each in parameters.items():
            plain = (bool, int, float, str, tuple, type(None), pr.Conventions)
            if each.default is not each.empty:
                assert isinstance(each.default, plain) or callable(each.default), (name, parameter)
                if parameter not in OWN:
                    defaults[parameter][repr(each.default)].append(f"{name} {parameter}")
    rare = {
        name
        for by_default in defaults.values()
        for names in sorted(by_default.values(), key=len)[:-1]
        for name in names
    }
    assert rare == {*OTHER_DEFAULTS}
