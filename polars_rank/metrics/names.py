"""Names of metrics, such as "ndcg(gain='exp2')@10" or "ndcg_cut_10", to metrics."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import polars as pl

from polars_rank import discounts, gains
from polars_rank._params import is_number, number_in, public
from polars_rank.errors import ArgumentError, hint, short
from polars_rank.metrics.aliases import (
    ALIASES,
    FUNCTIONS_OF,
    MEANINGS,
    OF_GENERATION,
    OTHER_MEANINGS,
    SETS,
    TOOL_ALIASES,
)
from polars_rank.metrics.metric import REGISTER, Metric, direction, written

if TYPE_CHECKING:
    from collections.abc import Callable

Metrics: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"

# Patterns are compiled when they are first used, which keeps the import fast.
_NAME = r"(?P<name>[\w.#-]+?)(?:\((?P<arguments>.*)\))?(?:@(?P<at>[^@()]*?))?(?:-l(?P<level>\d+))?"
_NUMBERED = r"(?P<name>.+?)[_.](?P<number>\d+(?:\.\d+)?)"
_NUMBERS = r"(?P<name>.+?[_.])(?P<numbers>-?[\d.]+(?:,-?[\d.]+)+)"
#: Names of trec_eval whose numbers are parameters of one metric, not several metrics.
_TABLES = ("11pt_avg", "eleven_point", "utility")
#: The next number of a list such as "5,10", after a comma.
_LISTED = r"-?[\d.]+(=[\d.]+)?(-l\d+)?(?=[,\s]|$)"

#: Several cutoffs of one metric: "ndcg@5,10", "ndcg@[5, 10]", "map@5,10-l2".
_CUTOFFS = (
    r"(?P<name>.+@)(?P<open>\[)?(?P<cutoffs>\s*[\d.]+(?:\s*,\s*[\d.]+)*\s*)(?(open)\])"
    r"(?P<level>-l\d+)?"
)

#: The parameter that the number at the end of a name sets if it is not a cutoff:
#: "iprec_at_recall_0.10", "Rprec_mult_0.20", "set_F_4" (beta squared), "rbp.95" (without "0.").
_NUMBER = {
    "interpolated_precision": "recall",
    "r_precision": "multiple",
    "set_f": "beta",
    "rbp": "p",
}

#: Parameters of other tools, as functions from their value to our parameters.
_WORDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "cutoff": lambda value: {"k": value},
    "top_k": lambda value: {"k": value},
    "min_rel": lambda value: {"min_grade": value},
    "max_rel": lambda value: {"max_grade": value},
    "gains": lambda value: {"gain": value},
    "dcg": lambda value: {"log2": {}, "exp-log2": {"gain": gains.exp2}}[value],
    "adaptive_k": lambda value: {"depth": "retrieved"} if value else {},
    "judged_only": lambda _: {},
}

#: Metrics that become another one with a certain parameter.
_VARIANTS = {
    ("num_retrieved", "rel"): "num_relevant_retrieved",
    ("set_precision", "relative"): "set_relative_precision",
}

#: Gains and discounts that a name may contain without quotes: "ndcg(gain=exp2)".
_FUNCTIONS = {**gains.GAINS, **discounts.DISCOUNTS}
#: Functions that return gains and discounts: "dcg(discount=jarvelin(3))".
_CALLS: dict[str, Callable[..., Any]] = {
    "at_least": gains.at_least,
    "log": discounts.log,
    "jarvelin": discounts.jarvelin,
}


@public
def metric(name: str) -> Metric:
    """Return the metric with the given name.

    Parameters
    ----------
    name
        A name with parameters in parentheses and the cutoff after "@", such as
        "ndcg(gain='exp2')@10". Also the names of ir_measures ("nDCG(dcg='exp-log2')@10",
        "AP(rel=2)"), trec_eval ("ndcg_cut_10", "iprec_at_recall_0.10"), ranx ("map@5-l2",
        "rbp.95"), and torchmetrics ("RetrievalMRR"). Names are case-insensitive.

    Returns
    -------
    Metric
        The metric. Its output column has the name as given.

    Raises
    ------
    ArgumentError
        If the name is unknown, or means several metrics, such as "ndcg@5,10".

    Examples
    --------
    >>> str(pr.metric("nDCG@10"))
    'ndcg@10'
    >>> str(pr.metric("P_5"))
    'precision@5'
    """
    with naming("name"):
        return read(name)


def is_metric(name: str) -> bool:
    """Return whether a text is the name of a metric."""
    try:
        read(name)
    except ArgumentError:
        return False
    return True


@contextmanager
def naming(parameter: str) -> Iterator[None]:
    """Add the parameter with the name of a metric to errors about that name."""
    try:
        yield
    except ArgumentError as error:
        if error.parameters:  # of the metric itself
            raise
        raise ArgumentError(f"`{parameter}`: {error}") from None


def read(name: str, tool: str = "") -> Metric:
    """Return the metric of a name; `tool` decides names that mean different metrics in tools."""
    _check_is_one(name)
    listed = _with_listed_parameters(name.strip())
    if listed is not None:
        return listed.alias(name)
    match = re.fullmatch(_NAME, name.strip())
    if match is None:
        raise ArgumentError(f"invalid metric {short(name)}; write it like \"ndcg(gain='exp2')@10\"")
    at, level = match["at"], match["level"]
    stem, function, parameters = _metric_and_number(name, match["name"], tool, numbered=at is None)
    for key, value in _arguments(name, match["arguments"]).items():
        if value is not False:
            function = _VARIANTS.get((function, key), function)
        parameters = {**parameters, **_parameter(name, stem, key, value)}
    if at is not None:
        key, value = _at(name, function, at)
        if key in parameters:
            raise ArgumentError(
                f"`{key}` is given twice in {short(name)}; give it once, after the '@'"
            )
        parameters = {**parameters, key: value}
    if level is not None:
        lowest = _whole(name, "rel", level)
        parameters = {**parameters, **_level(function, lowest, parameters)}
    return _metric_of(name, function, parameters)


def _check_is_one(name: str) -> None:
    several = expand(name.strip())
    if len(several) > 1:
        raise ArgumentError(
            f"{short(name)} means {len(several)} metrics; name one, such as {short(several[0])}"
        )


def _metric_of(name: str, function: str, parameters: dict[str, Any]) -> Metric:
    accepted = inspect.signature(REGISTER[function]).parameters
    unknown = next((key for key in parameters if key not in accepted), None)
    if unknown is not None:
        available = ", ".join(map(repr, accepted)) or "none"
        message = (
            f"{function} has no parameter {short(unknown)} (in {short(name)}); available: "
            f"{available}.{hint(unknown, accepted)}"
        )
        if function in OTHER_MEANINGS:
            message += f" Note: {OTHER_MEANINGS[function]}"
        raise ArgumentError(message)
    needed = [key for key, each in accepted.items() if each.default is each.empty]
    missing = [key for key in needed if key not in parameters]
    if missing:
        given = ", ".join(f"{key}=..." for key in needed if key != "k")
        example = f"{function}{given and f'({given})'}{'@10' if 'k' in needed else ''}"
        raise ArgumentError(f"{short(name)} needs `{missing[0]}`; write it like '{example}'")
    return REGISTER[function](**parameters).alias(name)


def _metric_and_number(
    name: str, stem: str, tool: str, *, numbered: bool
) -> tuple[str, str, dict[str, Any]]:
    """Return the stem without the number at its end, its metric, and the parameters of both."""
    function, parameters = find(stem, tool)
    if function is not None:
        return stem, function, parameters
    match = re.fullmatch(_NUMBERED, stem) if numbered else None
    if match is None:
        raise _unknown(stem)
    stem, text = match["name"].removesuffix("_at"), match["number"]  # "ndcg_at_10" of MTEB, BEIR
    function, parameters = find(stem, tool)
    if function is None:
        raise _unknown(stem)
    key = _NUMBER.get(function, "k")
    if key == "k":
        return stem, function, {**parameters, key: _whole(name, key, text)}
    if key == "p" and "." not in text:
        text = f"0.{text}"
    number = _number(name, key, text)
    return stem, function, {**parameters, key: _beta(name, number) if key == "beta" else number}


def _with_listed_parameters(name: str) -> Metric | None:
    """Return the metric of a trec_eval name such as "utility_2,-1,0,0"; None for other names."""
    levels = re.fullmatch(r"ndcg[_.](\d+=[\d.]+(?:,\d+=[\d.]+)*)", name, re.IGNORECASE)
    if levels is not None:
        pairs = (pair.partition("=") for pair in levels[1].split(","))
        levels_of = [
            (_number(name, "gain", label), _number(name, "gain", value))
            for label, _, value in pairs
        ]
        if len(dict(levels_of)) < len(levels_of):
            raise ArgumentError(f"`gain` of a label is given twice in {short(name)}; give it once")
        return REGISTER["ndcg"](gain=gains.Levels(tuple(levels_of)))
    several = re.fullmatch(_NUMBERS, name)
    if several is None or (stem := several["name"][:-1].lower()) not in _TABLES:
        return None
    key = "a" if stem == "utility" else "recalls"
    numbers = [_number(name, key, number) for number in several["numbers"].split(",")]
    if stem != "utility":
        return REGISTER["eleven_point"](recalls=tuple(numbers))
    if len(numbers) != len("abcd"):
        raise ArgumentError(
            f"{short(name)} must have four numbers, the values of tp, fp, fn, and tn"
        )
    return REGISTER["utility"](**dict(zip("abcd", numbers, strict=True)))


def expand(name: str) -> list[str]:
    """Return the names that "official", "ndcg@5,10" or "P_5,10" stands for, or the name itself."""
    if name.lower() in SETS:
        return SETS[name.lower()]
    listed = re.fullmatch(_CUTOFFS, name)
    if listed is not None:
        level = listed["level"] or ""
        return [f"{listed['name']}{k.strip()}{level}" for k in listed["cutoffs"].split(",")]
    several = re.fullmatch(_NUMBERS, name)
    if several is None or several["name"][:-1].lower() in _TABLES:
        return [name]
    return [several["name"] + number for number in several["numbers"].split(",")]


def listed(metrics: Metrics, parameter: str = "metrics") -> list[str | pl.Expr]:
    """Return one or several metrics as a list; raise `ArgumentError` for anything else."""
    one = isinstance(metrics, (str, bytes, pl.Expr)) or not isinstance(metrics, Iterable)
    given: list[Any] = [metrics] if one else [*cast("Iterable[Any]", metrics)]
    if not given:
        raise ArgumentError(f"`{parameter}` is empty; name at least one, such as 'ndcg@10'")
    for item in given:
        if not isinstance(item, (str, pl.Expr)):
            name = getattr(item, "__name__", None)
            remedy = f"; call it: pr.{name}()" if name in REGISTER else ""
            raise ArgumentError(
                f"`{parameter}` must be names of metrics or expressions; "
                f"found {short(item)}{remedy}"
            )
    return given


def resolve(metrics: Metrics, tool: str = "", parameter: str = "metrics") -> list[pl.Expr]:
    """Return expressions with distinct names; `tool` decides names as in `read`."""
    resolved: list[pl.Expr] = []
    for item in listed(metrics, parameter):
        if isinstance(item, str):
            with naming(parameter):
                resolved += _named(item, tool)
        else:
            resolved.append(item)
    twice = [name for name, count in Counter(map(output_name, resolved)).items() if count > 1]
    if twice:
        raise ArgumentError(
            f"duplicate metric {twice[0]!r} (`{parameter}`); rename one of them with .alias()"
        )
    return resolved


@lru_cache(maxsize=1024)
def _named(text: str, tool: str) -> tuple[Metric, ...]:
    """Return the metrics of a text such as "ndcg@10", "ndcg@10, ap", "P_5,10" or "official"."""
    parts = split(text)
    names = parts if len(parts) > 1 else [text]
    return tuple(read(name, tool) for part in names for name in expand(part))


def split(text: str, *, lists: bool = True) -> list[str]:
    """Split text at spaces and commas outside brackets.

    If `lists` is true, a comma between numbers does not split, as in "ndcg@5,10" and "P_5,10".

    Examples
    --------
    >>> from polars_rank.metrics.names import split
    >>> split("ndcg(gain='exp2', depth='retrieved')@10, ap rr P_5,10 ndcg@[5, 10]")
    ["ndcg(gain='exp2', depth='retrieved')@10", 'ap', 'rr', 'P_5,10', 'ndcg@[5, 10]']
    """
    names, depth, number = [""], 0, re.compile(_LISTED)
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        listed = lists and character == "," and number.match(text, place + 1)
        if depth <= 0 and (character.isspace() or (character == "," and not listed)):
            names.append("")
        else:
            names[-1] += character
    return [name for name in names if name]


def output_name(expression: pl.Expr) -> str:
    """Return the name of the column that an expression produces."""
    if isinstance(expression, Metric):
        return expression.output_name
    try:
        return expression.meta.output_name()
    except pl.exceptions.PolarsError:
        raise ArgumentError(
            f"a metric must produce one column with one name; add .alias(...) to {expression}"
        ) from None


def direction_of(metric: str | pl.Expr, tool: str = "") -> int:
    """Return 1 if a higher value is better, -1 if a lower one is, 0 if unknown.

    It is unknown for expressions, and for columns whose name is not that of a metric.
    """
    if isinstance(metric, str):
        try:
            metric = read(metric, tool)
        except ArgumentError:
            return 0
    return direction(metric)


def lower_is_better(metric: str | pl.Expr, tool: str = "") -> bool:
    """Return whether a lower value is better; False if this is unknown."""
    return direction_of(metric, tool) < 0


def direction_note(metric: str | pl.Expr, tool: str = "") -> str:
    """Return what a title adds to the name of a metric, unless it is known to rise."""
    return {-1: " (lower is better)", 0: " (higher is better)", 1: ""}[direction_of(metric, tool)]


def find(name: str, tool: str = "") -> tuple[str | None, dict[str, Any]]:
    """Return the metric of a name without cutoff, and the parameters that the name implies."""
    lower = name.lower()
    for known in (lower, re.sub("^retrieval_?", "", lower)):
        if (tool, known) in TOOL_ALIASES:
            return TOOL_ALIASES[tool, known], {}
        if known in REGISTER:
            return known, {}
        if known in ALIASES:
            return ALIASES[known]
    return None, {}


def instead(name: str) -> str:
    """Return what to use instead of a name that is not the function of a metric, or ''."""
    lower = name.lower()
    function, parameters = find(name)
    if function is not None:
        given = ", ".join(f"{key}={written(value)}" for key, value in parameters.items())
        return f"use {function}({given})"
    if lower in FUNCTIONS_OF:
        return f"use {FUNCTIONS_OF[lower]}"
    return MEANINGS.get(lower) or OF_GENERATION.get(lower.replace("_", ""), "")


def function_of(name: str) -> str | None:
    """Return the function that computes a measure which is not a metric; None for others."""
    match = re.fullmatch(_NAME, name.strip())
    return None if match is None else FUNCTIONS_OF.get(match["name"].lower())


def _unknown(name: str) -> ArgumentError:
    if name.lower() in MEANINGS:
        return ArgumentError(f"{name!r} is ambiguous; {instead(name)}")
    if advice := instead(name):
        return ArgumentError(f"{name!r} is not a metric; {advice}")
    if re.fullmatch(r"[\d.]+", name):
        return ArgumentError(
            f"{short(name)} is not a metric; write several cutoffs without spaces: 'ndcg@5,10'"
        )
    listed = " pr.list_metrics() and the command polars-rank metrics list all metrics."
    names = [*REGISTER, *ALIASES, *FUNCTIONS_OF]
    return ArgumentError(f"unknown metric {short(name)}.{hint(name, names) or listed}")


def _at(name: str, function: str, text: str) -> tuple[str, Any]:
    """Return the parameter after the "@": the cutoff, or the recall of "IPrec@0.1"."""
    if function == "interpolated_precision":
        return "recall", _number(name, "recall", text, "a number from 0 to 1")
    return "k", _whole(name, "k", text)


#: No cutoff, label or other number in a name has more digits.
_DIGITS = 20


def _whole(name: str, parameter: str, text: str) -> int:
    """Return a number in a name as an integer."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        advice = "; write the cutoff like 'ndcg@10'" if parameter == "k" else ""
        raise ArgumentError(
            f"`{parameter}` must be a positive integer; found {short(text)} in {short(name)}"
            f"{advice}"
        )
    return int(text)


def _number(name: str, parameter: str, text: str, what: str = "a number") -> float:
    """Return a number in a name as a float."""
    number = number_in(text)
    if number is None:
        raise ArgumentError(f"`{parameter}` must be {what}; found {short(text)} in {short(name)}")
    return number


def _parameter(name: str, stem: str, key: str, value: Any) -> dict[str, Any]:
    """Return the parameters of polars_rank for a parameter of another tool."""
    if key == "judged_only" and value:
        raise ArgumentError(
            f"`judged_only` in {short(name)} is not supported; use unjudged='removed' instead"
        )
    if key == "relative" and isinstance(value, bool):
        return {}
    if key == "beta" and stem.lower() == "setf":
        return {key: _beta(name, value)}
    try:
        return _WORDS[key](value) if key in _WORDS else {key: value}
    except (KeyError, TypeError):
        raise ArgumentError(f"invalid parameter {key}={short(value)} in {short(name)}") from None


def _level(function: str, level: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of ranx's "-l2": labels below 2 are not relevant and have no gain."""
    accepted = inspect.signature(REGISTER[function]).parameters
    if "gain" in accepted:
        gain = parameters.get("gain", accepted["gain"].default)
        return {"gain": gains.at_least(level, gains.GAINS.get(gain, gain))}
    return {"rel": level}


def _beta(name: str, squared: float) -> float:
    """Return `beta`, the square root of the parameter of trec_eval and ir_measures."""
    if not is_number(squared) or squared <= 0:
        raise ArgumentError(
            f"`beta` must be a number above 0; found {short(squared)} in {short(name)}"
        )
    return math.sqrt(squared)


def call_in(text: str, example: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a text without a cutoff, such as "rrf(k=60)"."""
    match = re.fullmatch(_NAME, text.strip())
    if match is None or match["at"] is not None or match["level"] is not None:
        raise ArgumentError(f"invalid text {short(text)}; write it like {example}")
    return match["name"].lower(), _arguments(text, match["arguments"], example)


def _arguments(
    name: str, text: str | None, example: str = "\"ndcg(gain='exp2')@10\""
) -> dict[str, Any]:
    if not text:
        return {}
    message = f"invalid parameters in {short(name)}; write them like {example}"
    try:
        call = ast.parse(f"dict({text})", mode="eval").body
        given = call.keywords if isinstance(call, ast.Call) and not call.args else []
        keys = [str(keyword.arg) for keyword in given]
        values = [_value(keyword.value) for keyword in given]
    except ArgumentError:
        raise
    except (SyntaxError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
        raise ArgumentError(message) from None
    if not keys or "None" in keys:  # values without a name, or **
        raise ArgumentError(message)
    for key, count in Counter(keys).items():
        if count > 1:
            raise ArgumentError(f"`{key}` is given twice in {short(name)}; give it once")
    return dict(zip(keys, values, strict=True))


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _FUNCTIONS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        named = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
        return _CALLS[node.func.id](*map(_value, node.args), **named)
    return ast.literal_eval(node)
