"""Checks of parameters and of the columns that they name."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, wraps
from inspect import BoundArguments, Parameter, Signature, signature
from numbers import Real
from operator import index
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, TypeAlias, TypeVar, cast

import polars as pl

from polars_rank.errors import ArgumentError, RankError, SchemaError, hint, short

if TYPE_CHECKING:
    from collections.abc import Sequence

F = TypeVar("F", bound="Callable[..., Any]")

Names: TypeAlias = "str | Sequence[str]"

#: Maximum number of documents in a ranking; Polars counts rows with 32 bits.
MAX_DOCUMENTS = 2**32 - 1

#: Iterable types that count as a single value.
_SINGLE_VALUES = (str, bytes, Mapping, pl.DataFrame)


class _Type(NamedTuple):
    """The values that a parameter accepts."""

    description: str
    classes: tuple[type, ...]
    #: The classes of the elements, if the parameter accepts several values.
    elements: tuple[type, ...] = ()

    def accepts(self, value: Any) -> bool:
        """Return whether the parameter accepts a value; an iterator is not read."""
        if isinstance(value, self.classes) or (self.elements and isinstance(value, Iterator)):
            return True
        several = isinstance(value, Iterable) and not isinstance(value, _SINGLE_VALUES)
        return bool(self.elements) and several and all(isinstance(e, self.elements) for e in value)


#: Accepted values by annotation. Functions check numbers and choices themselves, with their range.
_TYPES = {
    "None": _Type("None", (type(None),)),
    "bool": _Type("True or False", (bool,)),
    "str": _Type("the name of a column", (str,)),
    "pl.Expr": _Type("an expression", (pl.Expr, pl.Series)),
    "Metric": _Type("a metric", (pl.Expr,)),
    "Names": _Type("the name of a column or several names", (str,), (str,)),
    "Paths": _Type("a path or several paths", (str, PathLike), (str, PathLike)),
    "Path": _Type("a path", (PathLike,)),
    "os.PathLike[str]": _Type("a path", (PathLike,)),
    "Sequence[str]": _Type("several strings", (), (str,)),
    "Sequence[float]": _Type("several numbers", (), (Real,)),
    "Sequence[float | None]": _Type("several numbers", (), (Real, type(None))),
    "Iterable[float]": _Type("several numbers", (), (Real,)),
    "Iterable[int]": _Type("several integers", (), (SupportsIndex,)),
    "Iterable[Any]": _Type("several values", (), (object,)),
    "Mapping": _Type("a mapping", (Mapping,)),
    "Colors": _Type("a mapping from runs to colors", (Mapping,)),
}

#: Descriptions of strings that do not name columns, by parameter.
_STRING_DESCRIPTIONS = {
    **dict.fromkeys(("metric", "x", "y"), "the name of a metric"),
    **dict.fromkeys(("name", "path", "source", "tag", "title", "undecided", "url"), "a string"),
}

#: Names of the options of functions that accept `**options: Unpack[...]`, by the name of the class.
OPTIONS: dict[str, Sequence[str]] = {}


class _Parameters(NamedTuple):
    """The parameters of a function."""

    signature: Signature
    #: Names of the parameters except `**options`.
    names: Sequence[str]
    #: The name of `**options`, and the class of `OPTIONS` that has their names.
    options: tuple[str, str]
    #: Accepted values of the parameters; nothing unless the annotation has only names in `_TYPES`.
    types: Mapping[str, Sequence[_Type]]


@cache
def _parameters(function: Callable[..., Any]) -> _Parameters:
    described, names, options, types = signature(function), [], ("", ""), {}
    for name, each in described.parameters.items():
        if each.kind is each.VAR_KEYWORD:
            options = name, str(each.annotation).removeprefix("Unpack[").removesuffix("]")
            continue
        if each.kind is not each.POSITIONAL_ONLY and name not in ("self", "cls"):
            names.append(name)
        types[name] = _types(each)
    return _Parameters(described, names, options, types)


def _types(parameter: Parameter) -> list[_Type]:
    """Return the accepted values of a parameter, or nothing if `_TYPES` does not describe all."""
    alternatives = re.split(r" \| (?![^\[]*\])", str(parameter.annotation))
    names = [re.sub(r"^Mapping\[.*\]$", "Mapping", each) for each in alternatives]
    if not {*names} <= _TYPES.keys():
        return []
    text = _STRING_DESCRIPTIONS.get(parameter.name, _TYPES["str"].description)
    return [_Type(text, (str,)) if name == "str" else _TYPES[name] for name in names]


#: Parameters by their names in other libraries, if the two are spelled too differently for a hint.
_OTHER_NAMES = {
    **dict.fromkeys(("group_id", "qid"), "queries"),
    **dict.fromkeys(("target", "y_true"), "labels"),
    **dict.fromkeys(("preds", "y_pred", "y_score"), "scores"),
    **dict.fromkeys(("group_by", "groupby"), "by"),
    **dict.fromkeys(("k", "at", "cutoff", "top_k", "topk"), "k"),
}


def unknown_parameter(function: str, name: str, available: Iterable[str]) -> ArgumentError:
    """Return the error for a name that is not among the parameters of a function."""
    names = [*dict.fromkeys(available)]
    known = _OTHER_NAMES.get(name, name)
    close = hint(known, names).replace("'", "`")
    listed = ", ".join(f"`{each}`" for each in names)
    remedy = f".{close}" if close else f"; available: {listed or 'none'}"
    if known == "k" and "k" not in names and "metrics" in names:
        remedy = "; the cutoff is part of the metric, e.g. 'ndcg@10'"
    error = ArgumentError(f"{function}() has no parameter `{name}`{remedy}")
    error.parameter, error.available = name, names
    return error


def arguments_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> BoundArguments:
    """Return the arguments of a call; raise `ArgumentError` for an invalid call.

    Iterators, which can be read only once, become tuples, and scalars of NumPy become Python's.
    """
    described = _parameters(function)
    try:
        bound = described.signature.bind(
            *map(scalar, args), **{name: scalar(_read(value)) for name, value in kwargs.items()}
        )
    except TypeError as error:
        names = described.names
        if "unexpected keyword" in str(error):
            unknown = next(each for each in kwargs if each not in names)
            raise unknown_parameter(_name(function), unknown, names) from None
        raise ArgumentError(f"{_name(function)}(): {error}".replace("'", "`")) from None
    variable, options = described.options
    accepted = OPTIONS.get(options)
    if accepted is not None:
        for name in {*bound.arguments.get(variable, ())} - {*accepted}:
            raise unknown_parameter(_name(function), name, [*described.names, *accepted])
    check_types(function, bound.arguments)
    for parameter, value in bound.arguments.items():
        for table in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(table, (pl.DataFrame, pl.LazyFrame)):
                _refuse_objects(parameter, table)
    return bound


def _refuse_objects(parameter: str, table: pl.DataFrame | pl.LazyFrame) -> None:
    """Raise `SchemaError` for a column of Python objects: Polars panics if it is sorted or sent."""
    try:
        schema = table.collect_schema()
    except (OSError, pl.exceptions.PolarsError):  # the function itself reports it
        return
    for column, dtype in schema.items():
        if dtype == pl.Object:
            raise SchemaError(
                f"column {column!r} of `{parameter}` has the type Object, which Polars cannot "
                "sort or compare; convert it to another type, such as text, or drop it"
            )


def scalar(value: Any) -> Any:
    """Return a number or a truth value of NumPy as Python's; return other values unchanged."""
    kind = type(value)
    # Another thread may still be importing NumPy, whose names must not be read then.
    names = {each.__name__ for each in kind.__mro__ if each.__module__ == "numpy"}
    return value.item() if names & {"number", "bool", "bool_"} else value


def _read(value: Any) -> Any:
    """Return the elements of an iterator; return other values, such as streams, unchanged."""
    is_read = isinstance(value, Iterator) and not hasattr(value, "__arrow_c_stream__")
    return tuple(value) if is_read else value


def check_types(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` for an argument that does not have the type of its parameter."""
    types_of = _parameters(function).types
    for parameter, value in arguments.items():
        types = types_of.get(parameter, ())
        if types and not any(each.accepts(value) for each in types):
            expected = " or ".join(each.description for each in types)
            raise ArgumentError(f"must be {expected}; found {short(value)}", parameter)


def _name(function: Callable[..., Any]) -> str:
    """Return the name by which users call a function or a class."""
    return function.__qualname__.removesuffix(".__init__").rpartition(".")[2]


def public(function: F) -> F:
    """Return the function with checks of the names and types of its arguments.

    Annotations define the types, see `_TYPES`. Errors have no traceback of internal frames, which
    would push the message off the screen.
    """

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = arguments_of(function, args, kwargs)
            return function(*bound.args, **bound.kwargs)
        except RankError as error:
            if isinstance(error, ArgumentError) and error.available:  # from an inner function
                names = [*_parameters(function).names, *error.available]
                error = unknown_parameter(_name(function), error.parameter, names)
            raise error.with_traceback(None) from error.__cause__

    return cast("F", checked)


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise `ArgumentError` unless `value` is one of the allowed values."""
    if not any(value is choice or (type(value) is str and value == choice) for choice in allowed):
        choices = ", ".join(map(repr, allowed))
        close = hint(str(value), [str(choice) for choice in allowed])
        raise ArgumentError(f"must be one of {choices}; found {short(value)}.{close}", name)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number that Float64 can hold."""
    value = scalar(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above all floats
        return False


def is_integer(value: object) -> bool:
    """Return whether a value is an integer, of Python or of another library."""
    if isinstance(value, (bool, type)) or not isinstance(value, SupportsIndex):
        return False
    try:
        index(value)
    except TypeError:  # an array of numpy
        return False
    return True


def number_in(text: str) -> float | None:
    """Return the finite decimal number that a text is; None for other text.

    Unlike `float`, this refuses digits of other scripts, underscores and spaces.
    """
    decimal = re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, re.ASCII | re.IGNORECASE)
    value = float(text) if decimal else math.nan
    return value if math.isfinite(value) else None


def number(name: str, value: Any, what: str = "") -> float:
    """Return a finite number; raise `ArgumentError` for anything else."""
    if not is_number(value):
        raise ArgumentError(f"must be a number{what and f', {what}'}; found {short(value)}", name)
    return float(value)


def share(name: str, value: float, low: float = 0, high: float = 1, *, ends: bool = False) -> None:
    """Raise `ArgumentError` unless `value` is a number between `low` and `high`.

    `ends` is whether `low` and `high` themselves are allowed.
    """
    if not is_number(value) or not low <= value <= high or (not ends and value in (low, high)):
        range_ = f"from {low} to {high}" if ends else f"between {low} and {high}"
        raise ArgumentError(f"must be a number {range_}; found {short(value)}", name)


def positive(name: str, value: float, most: float = math.inf) -> None:
    """Raise `ArgumentError` unless `value` is a finite number above 0, and at most `most`."""
    if not is_number(value) or not value > 0:
        raise ArgumentError(f"must be a number above 0; found {short(value)}", name)
    if value > most:
        raise ArgumentError(f"must be at most {most:g}; found {value!r}", name)


def threshold(name: str, value: float) -> float:
    """Return the lowest relevant label; raise `ArgumentError` unless it is a finite number."""
    number(name, value, "the lowest relevant label")
    return value


def integer(name: str, value: Any, low: int | None = None, high: int | None = None) -> int:
    """Return an integer; raise `ArgumentError` unless it is one, within `low` and `high`."""
    if not is_integer(value) or (low is not None and index(value) < low):
        what = "an integer" if low is None else f"an integer of at least {low}"
        what = "a positive integer" if low == 1 else what
        raise ArgumentError(f"must be {what}; found {short(value)}", name)
    if high is not None and index(value) > high:
        raise ArgumentError(f"must be at most {high:,}; found {short(value)}", name)
    return index(value)


def whole_number(name: str, value: Any) -> int:
    """Return a positive integer, such as a cutoff; raise `ArgumentError` for anything else."""
    return integer(name, value, 1, MAX_DOCUMENTS)


#: Kinds of columns: numbers, and one id per row.
Kind: TypeAlias = Literal["number", "id"]

#: The remedy for a table with one row per query.
_LIST_REMEDY = "use from_lists to turn one row per query into one row per document"


#: Prefix of internal columns. Columns of users must not have it.
OWN = "polars_rank:"


def names(parameter: str, value: Names | None) -> tuple[str, ...]:
    """Return one name, several names or None as a tuple; raise `ArgumentError` otherwise."""
    if value is None:
        return ()
    several = isinstance(value, Iterable) and not isinstance(value, str)
    given: tuple[Any, ...] = tuple(value) if several else (value,)
    for name in given:
        if not isinstance(name, str):
            raise ArgumentError(f"must be the name of a column; found {short(name)}", parameter)
        if given.count(name) > 1:
            raise ArgumentError(f"has the column {name!r} twice", parameter)
    return given


def some_names(parameter: str, value: Names) -> tuple[str, ...]:
    """Return one or several names as a tuple; raise `ArgumentError` otherwise."""
    given = names(parameter, value)
    if not given:
        raise ArgumentError(f"must name at least one column; found {short(value)}", parameter)
    return given


def free(columns: Sequence[str], added: Iterable[str], parameter: str = "by") -> None:
    """Raise `ArgumentError` if a parameter names a column that the result adds."""
    for name in added:
        if name in columns:
            raise ArgumentError(
                f"column {name!r} (`{parameter}`) has the name of a result column; rename it"
            )


def used_twice(column: str, parameter: str, other: str) -> ArgumentError:
    """Return the error for a column that two parameters name."""
    return ArgumentError(
        f"column {column!r} is used for both `{parameter}` and `{other}`; name different columns"
    )


def missing_column(
    parameter: str, column: str, schema: Iterable[str], table: str = "", advice: str = ""
) -> SchemaError:
    """Return the error for a column that a table lacks, with the available columns.

    `parameter` says where the column is named. `advice` is a sentence; the default is a hint.
    """
    available = [name for name in schema if not name.startswith(OWN)]
    return SchemaError(
        f"column {column!r} ({parameter}) not found; available{table and f' in {table}'}: "
        f"{', '.join(map(repr, available)) or 'no columns'}.{advice or hint(column, available)}"
    )


def check_name(column: str) -> None:
    """Raise `SchemaError` for a column name that Polars reads as a pattern."""
    if column == "*" or (column[:1], column[-1:]) == ("^", "$"):
        raise SchemaError(f"column {column!r} has a name that Polars reads as a pattern; rename it")


def described(parameter: str, column: str) -> str:
    """Return a column and its parameter for a message; for internal columns only the parameter."""
    return f"`{parameter}`" if column.startswith(OWN) else f"column {column!r} (`{parameter}`)"


def check_type(parameter: str, column: str, dtype: pl.DataType, kind: Kind) -> None:
    """Raise `SchemaError` unless a column is of a kind."""
    if kind == "number":
        if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
            return
        problem, remedy = f"must be numeric; found {dtype}", "cast it to Float64"
        if dtype in (pl.String, pl.Categorical, pl.Enum):
            remedy += ", or replace words by numbers, as in .replace_strict({'no': 0, 'yes': 1})"
        elif dtype == pl.Duration:
            remedy = "convert it to seconds"
        elif dtype.is_temporal():
            remedy += ", or replace it with a test such as .is_not_null()"
    elif dtype.is_nested() and not isinstance(dtype, pl.Struct):
        problem, remedy = f"must have one id per row; found {dtype}", "use a column of ids"
    else:
        return
    if isinstance(dtype, (pl.List, pl.Array)):
        of_documents = kind == "number" or parameter in ("doc", "query")
        remedy = _LIST_REMEDY if of_documents else "convert it to text"
    raise SchemaError(f"{described(parameter, column)} {problem}; {remedy}")
