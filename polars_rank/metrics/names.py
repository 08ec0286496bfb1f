"""Names of metrics, such as "ndcg(gain='exp2')@10" or "ndcg_cut_10", to metrics."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, TypeAlias, cast

import polars as pl

from polars_rank import discounts, gains
from polars_rank._params import is_number, number_in, public
from polars_rank._polars import inputs
from polars_rank.errors import ArgumentError, hint, short
from polars_rank.metrics import aliases
from polars_rank.metrics.documentation import described
from polars_rank.metrics.metric import FILLED, FORGET, REGISTER, Metric, direction, written

Metrics: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"
#: Parameters of a metric.
Parameters: TypeAlias = dict[str, Any]

# Patterns are compiled when they are first used, which keeps the import fast.
_NAME = r"(?P<name>[\w.,=#-]+?)(?:\((?P<arguments>.*)\))?(?:@(?P<at>[^@()]*?))?"
#: The next number of a list such as "5,10", after a comma.
_LISTED = r"-?[\d.]+(=[\d.]+)?(-l\d+)?(?=[,\s]|$)"

#: Several cutoffs of one metric: "ndcg@5,10", "ndcg@[5, 10]", "map@5,10-l2".
_CUTOFFS = (
    r"(?P<name>.+@)(?P<open>\[)?(?P<cutoffs>\s*[\d.]+(?:\s*,\s*[\d.]+)*\s*)(?(open)\])"
    r"(?P<level>-l\d+)?"
)

#: Gains and discounts that a name may contain without quotes: "ndcg(gain=exp2)".
_FUNCTIONS = {**gains.GAINS, **discounts.DISCOUNTS}
#: Functions that return gains and discounts: "dcg(discount=jarvelin(3))".
_CALLS: dict[str, Callable[..., Any]] = {
    "at_least": gains.at_least,
    "log": discounts.log,
    "jarvelin": discounts.jarvelin,
}

#: No cutoff, label or other number in a name has more digits.
_DIGITS = 20
#: Metrics for which several numbers after the name are one parameter, and not several cutoffs.
_OF_SEVERAL = ("eleven_point", "utility")
#: Parameters of ir_measures and torchmetrics, and their names in polars_rank.
_RENAMED = {
    "cutoff": "k", "top_k": "k", "gains": "gain", "min_rel": "min_grade", "max_rel": "max_grade",
}  # fmt: skip
#: Metrics of ir_measures that become another one with a certain parameter.
_VARIANTS = {
    ("num_retrieved", "rel"): "num_relevant_retrieved",
    ("set_precision", "relative"): "set_relative_precision",
}


#: Types of columns that may be null or empty in all rows.
_TYPES: dict[str, pl.DataType | type[pl.DataType]] = {
    **dict.fromkeys(("low", "high", "counts_as"), pl.Float64),
    **dict.fromkeys(("formula", "undefined", "source"), pl.String),
    "aliases": pl.List(pl.String),
}


@public
def metric(name: str) -> Metric:
    """Return the metric with the given name.

    Examples
    --------
    >>> str(pr.metric("nDCG@10"))
    'ndcg@10'
    >>> str(pr.metric("P_5"))
    'precision@5'

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
    """
    with naming("name"):
        return read(name)


@contextmanager
def naming(parameter: str) -> Iterator[None]:
    """Add the parameter with the name of a metric to errors about that name."""
    try:
        yield
    except ArgumentError as error:
        if error.parameter:  # of the metric itself
            raise
        raise ArgumentError(f"`{parameter}`: {error}") from None


def read(name: str, tool: str = "") -> Metric:
    """Return the metric of a name; `tool` decides names that mean different metrics in tools."""
    several = expand(name.strip())
    if len(several) > 1:
        raise ArgumentError(
            f"{short(name)} means {len(several)} metrics; name one, such as {short(several[0])}"
        )
    leveled = re.fullmatch(r"(.+?)-l(\d+)", name.strip())  # ranx appends the lowest relevant label
    match = re.fullmatch(_NAME, leveled[1] if leveled else name.strip())
    if match is None:
        raise ArgumentError(f"invalid metric {short(name)}; write it like \"ndcg(gain='exp2')@10\"")
    stem, at = match["name"], match["at"]
    function, parameters = find(stem, tool)
    if function is None and at is None:
        function, parameters = _numbered(name, stem, tool)
    if function is None:
        raise _unknown(stem, at or "")
    function, others = _of_tools(name, stem, function, _arguments(name, match["arguments"]))
    parameters = {**parameters, **others}
    if at is not None:
        is_recall = function == "interpolated_precision"
        key = "recall" if is_recall else "k"
        if key in parameters:
            raise ArgumentError(
                f"is given twice in {short(name)}; give it once, after the '@'", key
            )
        value = number(name, key, at, "a number from 0 to 1") if is_recall else whole(name, key, at)
        parameters[key] = value
    if leveled:
        parameters |= _of_level(function, whole(name, "rel", leveled[2]), parameters)
    return _metric_of(name, function, parameters)


def find(name: str, tool: str = "") -> tuple[str | None, Parameters]:
    """Return the metric of a name without cutoff, and the parameters that the name implies.

    Names of the given tool take precedence. torchmetrics' classes and functions begin with
    "Retrieval" or "retrieval_".
    """
    lower = name.lower()
    for known in (lower, re.sub("^retrieval_?", "", lower)):
        if (tool, known) in aliases.TOOL_ALIASES:
            return aliases.TOOL_ALIASES[tool, known]
        if known in REGISTER:
            return known, {}
        if known in aliases.ALIASES:
            return aliases.ALIASES[known]
    return None, {}


def whole(name: str, parameter: str, text: str) -> int:
    """Return a number in a name as an integer."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        advice = "; write the cutoff like 'ndcg@10'" if parameter == "k" else ""
        raise ArgumentError(
            f"must be a positive integer; found {short(text)} in {short(name)}{advice}", parameter
        )
    return int(text)


def number(name: str, parameter: str, text: str, what: str = "a number") -> float:
    """Return a number in a name as a float."""
    found = number_in(text)
    if found is None:
        raise ArgumentError(f"must be {what}; found {short(text)} in {short(name)}", parameter)
    return found


def _numbered(name: str, stem: str, tool: str) -> tuple[str | None, Parameters]:
    """Return the metric and the parameters of a stem with numbers, such as "P_5", if it is one."""
    match = re.fullmatch(r"(.+?)[_.](-?[\d.][\d.,=-]*)", stem)
    if match is None:
        return None, {}
    # "ndcg_at_10" of MTEB and BEIR
    function, parameters = find(match[1].removesuffix("_at"), tool)
    own = {} if function is None else _after_name(name, function, match[2])
    return (None, {}) if parameters.keys() & own.keys() else (function, {**parameters, **own})


def _after_name(name: str, function: str, text: str) -> Parameters:
    """Return the parameters that the numbers after a name mean in trec_eval and ranx.

    Examples are "iprec_at_recall_0.10", "set_F_4", "utility_2,-1,0,0", "rbp.95" and "P_5".
    """
    match function:
        case "interpolated_precision" | "r_precision":
            parameter = "recall" if function == "interpolated_precision" else "multiple"
            return {parameter: number(name, parameter, text)}
        case "set_f":
            return {"beta": _root(name, number(name, "beta", text))}
        case "rbp":
            return {"p": number(name, "p", text if "." in text else f"0.{text}")}
        case "eleven_point":
            return {"recalls": tuple(number(name, "recalls", each) for each in text.split(","))}
        case "utility":
            worths = [number(name, "a", each) for each in text.split(",")]
            if len(worths) != len("abcd"):
                raise ArgumentError(
                    f"{short(name)} must have four numbers, the values of tp, fp, fn, and tn"
                )
            return dict(zip("abcd", worths, strict=True))
        case "ndcg" if "=" in text:  # the gains of labels
            levels = [
                (number(name, "gain", label), number(name, "gain", value))
                for label, _, value in (pair.partition("=") for pair in text.split(","))
            ]
            if len(dict(levels)) < len(levels):
                raise ArgumentError(
                    f"of a label is given twice in {short(name)}; give it once", "gain"
                )
            return {"gain": gains.Levels(tuple(levels))}
    return {"k": whole(name, "k", text)}


def _root(name: str, squared: Any) -> float:
    """Return `beta`, the square root of the parameter of trec_eval and ir_measures."""
    if not is_number(squared) or squared <= 0:
        raise ArgumentError(
            f"must be a number above 0; found {short(squared)} in {short(name)}", "beta"
        )
    return math.sqrt(squared)


def _of_tools(name: str, stem: str, function: str, given: Parameters) -> tuple[str, Parameters]:
    """Return the metric and our parameters, for parameters that may be of another tool."""
    parameters: Parameters = {}
    for key, value in given.items():
        if value is not False:
            function = _VARIANTS.get((function, key), function)
        match key:
            case "judged_only":
                if value:
                    raise ArgumentError(
                        f"in {short(name)} is not supported; use unjudged='removed' instead",
                        "judged_only",
                    )
            case "dcg":
                if value not in ("log2", "exp-log2"):
                    raise ArgumentError(f"invalid parameter dcg={short(value)} in {short(name)}")
                parameters |= {"gain": gains.exp2} if value == "exp-log2" else {}
            case "adaptive_k":
                parameters |= {"depth": "retrieved"} if value else {}
            case "beta" if stem.lower() == "setf":
                parameters[key] = _root(name, value)
            case _ if key != "relative" or not isinstance(value, bool):
                parameters[_RENAMED.get(key, key)] = value
    return function, parameters


def _of_level(function: str, lowest: int, parameters: Parameters) -> Parameters:
    """Return the parameter by which labels below a level are not relevant or have no gain."""
    accepted = inspect.signature(REGISTER[function]).parameters
    if "gain" not in accepted:
        return {"rel": lowest}
    gain = parameters.get("gain", accepted["gain"].default)
    return {"gain": gains.at_least(lowest, gains.GAINS.get(gain, gain))}


def _metric_of(name: str, function: str, parameters: dict[str, Any]) -> Metric:
    accepted = inspect.signature(REGISTER[function]).parameters
    unknown = next((key for key in parameters if key not in accepted), None)
    if unknown is not None:
        available = ", ".join(map(repr, accepted)) or "none"
        raise ArgumentError(
            f"{function} has no parameter {short(unknown)} (in {short(name)}); available: "
            f"{available}.{hint(unknown, accepted)}"
        )
    needed = [key for key, each in accepted.items() if each.default is each.empty]
    missing = [key for key in needed if key not in parameters]
    if missing:
        given = ", ".join(f"{key}=..." for key in needed if key != "k")
        example = f"{function}{given and f'({given})'}{'@10' if 'k' in needed else ''}"
        raise ArgumentError(f"{short(name)} needs `{missing[0]}`; write it like '{example}'")
    return REGISTER[function](**parameters).alias(name)


def expand(name: str) -> list[str]:
    """Return the names that "ndcg@5,10", "official" or "P_5,10" stands for, or the name itself."""
    if match := re.fullmatch(_CUTOFFS, name):
        level, cutoffs = match["level"] or "", match["cutoffs"].split(",")
        return [f"{match['name']}{k.strip()}{level}" for k in cutoffs]
    if name.lower() in aliases.SETS:
        return aliases.SETS[name.lower()]
    match = re.fullmatch(r"(.+?[_.])(-?[\d.]+(?:,-?[\d.]+)+)", name)
    if match is None or find(match[1][:-1])[0] in _OF_SEVERAL:
        return [name]
    return [match[1] + each for each in match[2].split(",")]


def listed(metrics: Metrics, parameter: str = "metrics") -> list[str | pl.Expr]:
    """Return one or several metrics as a list; raise `ArgumentError` for anything else."""
    one = isinstance(metrics, (str, bytes, pl.Expr)) or not isinstance(metrics, Iterable)
    given: list[Any] = [metrics] if one else [*cast("Iterable[Any]", metrics)]
    if not given:
        raise ArgumentError("is empty; name at least one, such as 'ndcg@10'", parameter)
    for item in given:
        if not isinstance(item, (str, pl.Expr)):
            name = getattr(item, "__name__", None)
            remedy = f"; call it: pr.metrics.{name}()" if name in REGISTER else ""
            raise ArgumentError(
                f"must be names of metrics or expressions; found {short(item)}{remedy}", parameter
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


FORGET.append(_named.cache_clear)


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


def _known(metric: str | pl.Expr) -> pl.Expr | None:
    """Return the metric of a name or an expression; None for a name that is not one."""
    if isinstance(metric, str):
        with suppress(ArgumentError):
            return read(metric)
        return None
    return metric


def direction_of(metric: str | pl.Expr) -> int:
    """Return 1 if a higher value is better, -1 if a lower one is, 0 if unknown.

    It is unknown for expressions, and for columns whose name is not that of a metric.
    """
    known = _known(metric)
    return 0 if known is None else direction(known)


def bounds_of(metric: str | pl.Expr) -> tuple[float, float] | None:
    """Return the range of a metric's values; None if it is unbounded or unknown."""
    known = _known(metric)
    definition = known.definition if isinstance(known, Metric) else None
    if definition is None or definition.low is None or definition.high is None:
        return None
    return float(definition.low), float(definition.high)


def lower_is_better(metric: str | pl.Expr) -> bool:
    """Return whether a lower value is better; False if this is unknown."""
    return direction_of(metric) < 0


def direction_note(metric: str | pl.Expr) -> str:
    """Return what a title adds to the name of a metric, unless it is known to rise."""
    return {-1: " (lower is better)", 0: " (higher is better)", 1: ""}[direction_of(metric)]


def instead(name: str) -> str:
    """Return what to use instead of a name that is not the function of a metric, or ''."""
    lower = name.lower()
    function, parameters = find(name)
    if function is not None:
        given = ", ".join(f"{key}={written(value)}" for key, value in parameters.items())
        return f"use {function}({given})"
    if lower in aliases.FUNCTIONS_OF:
        return f"use {aliases.FUNCTIONS_OF[lower]}"
    return aliases.MEANINGS.get(lower, "")


def function_of(name: str) -> str | None:
    """Return the function that computes a measure which is not a metric; None for others."""
    match = re.fullmatch(_NAME, name.strip())
    return None if match is None else aliases.FUNCTIONS_OF.get(match["name"].lower())


def _unknown(name: str, at: str) -> ArgumentError:
    if advice := instead(name):
        what = "ambiguous" if name.lower() in aliases.MEANINGS else "not a metric"
        return ArgumentError(f"{name!r} is {what}; {advice}")
    if re.fullmatch(r"[\d.]+", name):
        advice = "write several cutoffs without spaces: 'ndcg@5,10'"
        return ArgumentError(f"{short(name)} is not a metric; {advice}")
    listed = " pr.list_metrics() and the command polars-rank metrics list all metrics."
    text = name if at else name.rstrip("0123456789")  # "ndcg10"
    at = at or name[len(text) :]
    known = [text] if find(text)[0] else [*REGISTER, *aliases.ALIASES, *aliases.FUNCTIONS_OF]
    close = re.sub(r"'(.*?)'", rf"'\1{at and '@' + at}'", hint(text, known))
    return ArgumentError(f"unknown metric {short(name)}.{close or listed}")


def call_in(text: str, example: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a text without a cutoff, such as "rrf(k=60)"."""
    match = re.fullmatch(_NAME, text.strip())
    if match is None or match["at"] is not None:
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
            raise ArgumentError(f"is given twice in {short(name)}; give it once", key)
    return dict(zip(keys, values, strict=True))


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _FUNCTIONS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        named = {str(keyword.arg): _value(keyword.value) for keyword in node.keywords}
        return _CALLS[node.func.id](*map(_value, node.args), **named)
    return ast.literal_eval(node)


def leaves_of(metric: pl.Expr) -> list[Metric]:
    """Return the single metrics that a metric or an expression combines."""
    return metric.leaves if isinstance(metric, Metric) else [*named_in(metric).values()]


def named_in(expression: pl.Expr) -> dict[str, Metric]:
    """Return the single metrics in a plain expression, by name.

    Names of metrics whose undefined values are replaced end as in "ndcg@10.fill_null(0)". A metric
    whose parameters have no text is returned without them.
    """
    found, pending = {}, [expression]
    while pending:
        part = pending.pop()
        pending += inputs(part)
        if part.meta.has_multiple_outputs():
            continue
        output = str(part.meta.output_name(raise_if_undetermined=False))
        name = output.partition(FILLED)[0]
        function = REGISTER.get(re.split("[(@]", name, maxsplit=1)[0])
        if function is None:
            continue
        try:
            single = read(name)
        except ArgumentError:
            single = Metric(function.function, {})
        if "(" in output or part.meta.eq(single.expr):  # a column may have the name "ndcg"
            found[output] = single
    return found


@public
def list_metrics() -> pl.DataFrame:
    """Return a table of all metrics.

    Returns
    -------
    DataFrame
        One row per metric, sorted by name, with the columns

        - `metric`: name of the metric, in `evaluate` and as a function;
        - `parameters`: parameters with their defaults; "@k" stands for the cutoff;
        - `low`, `high`: range of the values, null if unbounded;
        - `binary`: whether all values are 0 or 1, except by `ties="expected"`;
        - `definition`: definition in one sentence;
        - `aliases`: other names that `evaluate` accepts;
        - `family`: module in which the metric is defined;
        - `formula`: formula in LaTeX;
        - `undefined`: condition under which the metric is undefined for a ranking; null if it never
          is;
        - `counts_as`: what an undefined ranking counts as by default; null if it does not count;
        - `aggregate`: what `evaluate` returns: the "mean", "sum" or "geometric mean";
        - `source`: publication or tool in which the metric is defined.

    Examples
    --------
    >>> metrics = pr.list_metrics().filter(family="pairwise")
    >>> metrics.select("metric", "parameters", "low", "high").head(3)
    shape: (3, 4)
    ┌─────────────────────────────────┬────────────┬─────┬──────┐
    │ metric                          ┆ parameters ┆ low ┆ high │
    │ ---                             ┆ ---        ┆ --- ┆ ---  │
    │ str                             ┆ str        ┆ f64 ┆ f64  │
    ╞═════════════════════════════════╪════════════╪═════╪══════╡
    │ coverage_error                  ┆ rel=None   ┆ 1.0 ┆ null │
    │ label_ranking_average_precisio… ┆ rel=None   ┆ 0.0 ┆ 1.0  │
    │ label_ranking_loss              ┆ rel=None   ┆ 0.0 ┆ 1.0  │
    └─────────────────────────────────┴────────────┴─────┴──────┘
    """
    others: dict[str, list[str]] = {name: [] for name in REGISTER}
    for alias, (name, fixed) in aliases.ALIASES.items():
        others[name].append(f"{alias} = {REGISTER[name](**fixed)}" if fixed else alias)
    rows = []
    for name, definition in sorted(REGISTER.items()):
        description, signature = described(definition), inspect.signature(definition)
        # What an undefined ranking counts as in the mean.
        counted = None if definition.undefined is None or definition.skipped else 0.0
        if counted is not None and definition.aggregate == "geometric":
            counted = getattr(signature.parameters.get("floor"), "default", counted)
        rows.append(
            {
                "metric": name,
                "parameters": ", ".join(map(_parameter_text, signature.parameters.values())),
                "low": definition.low,
                "high": definition.high,
                "binary": definition.binary,
                "definition": description.definition,
                "aliases": others[name],
                "family": definition.function.__module__.rpartition(".")[2],
                "formula": description.formula or None,
                "undefined": definition.undefined,
                "counts_as": counted,
                "aggregate": definition.aggregate.replace("geometric", "geometric mean"),
                "source": description.source or None,
            }
        )
    return pl.DataFrame(rows, schema_overrides=_TYPES, infer_schema_length=None)


def _parameter_text(parameter: inspect.Parameter) -> str:
    if parameter.name == "k":
        return "@k"
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    return f"{parameter.name}={getattr(default, '__name__', repr(default))}"
