"""How other tools write metrics: their names, numbers after names, and parameters.

`aliases` has the tables of names. The tables here have what follows a name.
"""

from __future__ import annotations

import inspect
import math
import re
from typing import TYPE_CHECKING, Any, TypeAlias

from polars_rank import gains
from polars_rank._params import is_number, number_in
from polars_rank.errors import ArgumentError, short
from polars_rank.metrics.aliases import ALIASES, SETS, TOOL_ALIASES
from polars_rank.metrics.metric import REGISTER

if TYPE_CHECKING:
    from collections.abc import Callable

#: Parameters of a metric.
Parameters: TypeAlias = dict[str, Any]

#: No cutoff, label or other number in a name has more digits.
_DIGITS = 20


def find(name: str, tool: str = "") -> tuple[str | None, Parameters]:
    """Return the metric of a name without cutoff, and the parameters that the name implies.

    `tool` decides names that mean different metrics in tools. Names of torchmetrics begin with
    "Retrieval".
    """
    lower = name.lower()
    for known in (lower, re.sub("^retrieval_?", "", lower)):
        if (tool, known) in TOOL_ALIASES:
            return TOOL_ALIASES[tool, known]
        if known in REGISTER:
            return known, {}
        if known in ALIASES:
            return ALIASES[known]
    return None, {}


def whole(name: str, parameter: str, text: str) -> int:
    """Return a number in a name as an integer."""
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS:
        advice = "; write the cutoff like 'ndcg@10'" if parameter == "k" else ""
        raise ArgumentError(
            f"`{parameter}` must be a positive integer; found {short(text)} in {short(name)}"
            f"{advice}"
        )
    return int(text)


def number(name: str, parameter: str, text: str, what: str = "a number") -> float:
    """Return a number in a name as a float."""
    found = number_in(text)
    if found is None:
        raise ArgumentError(f"`{parameter}` must be {what}; found {short(text)} in {short(name)}")
    return found


def _cutoff(name: str, text: str) -> Parameters:
    return {"k": whole(name, "k", text)}


def _gain_or_cutoff(name: str, text: str) -> Parameters:
    """Return the gains of labels, as in trec_eval's "ndcg_1=3,2=7", or a cutoff."""
    if "=" not in text:
        return _cutoff(name, text)
    levels = [
        (number(name, "gain", label), number(name, "gain", value))
        for label, _, value in (pair.partition("=") for pair in text.split(","))
    ]
    if len(dict(levels)) < len(levels):
        raise ArgumentError(f"`gain` of a label is given twice in {short(name)}; give it once")
    return {"gain": gains.Levels(tuple(levels))}


def _persistence(name: str, text: str) -> Parameters:
    """Return the parameter of ranx's "rbp.95", which has no "0."."""
    return {"p": number(name, "p", text if "." in text else f"0.{text}")}


def _values(name: str, text: str) -> Parameters:
    numbers = [number(name, "a", each) for each in text.split(",")]
    if len(numbers) != len("abcd"):
        raise ArgumentError(
            f"{short(name)} must have four numbers, the values of tp, fp, fn, and tn"
        )
    return dict(zip("abcd", numbers, strict=True))


def _beta(name: str, squared: float) -> float:
    """Return `beta`, the square root of the parameter of trec_eval and ir_measures."""
    if not is_number(squared) or squared <= 0:
        raise ArgumentError(
            f"`beta` must be a number above 0; found {short(squared)} in {short(name)}"
        )
    return math.sqrt(squared)


#: trec_eval and ranx: what the numbers after a name mean if they are not a cutoff, as in
#: "iprec_at_recall_0.10", "Rprec_mult_0.20", "set_F_4", "utility_2,-1,0,0" or "rbp.95".
_NUMBERS: dict[str, Callable[[str, str], Parameters]] = {
    "interpolated_precision": lambda name, text: {"recall": number(name, "recall", text)},
    "r_precision": lambda name, text: {"multiple": number(name, "multiple", text)},
    "set_f": lambda name, text: {"beta": _beta(name, number(name, "beta", text))},
    "ndcg": _gain_or_cutoff,
    "eleven_point": lambda name, text: {
        "recalls": tuple(number(name, "recalls", each) for each in text.split(","))
    },
    "utility": _values,
    "rbp": _persistence,
}
#: Metrics for which several numbers are one parameter, and not several cutoffs.
_OF_SEVERAL = ("eleven_point", "utility")


def numbered(name: str, stem: str, tool: str = "") -> tuple[str, Parameters] | None:
    """Return the metric and the parameters of a stem with numbers, such as "P_5"; else None.

    `name` is the whole name.
    """
    match = re.fullmatch(r"(.+?)[_.](-?[\d.][\d.,=-]*)", stem)
    if match is None:
        return None
    # "ndcg_at_10" of MTEB and BEIR
    function, parameters = find(match[1].removesuffix("_at"), tool)
    if function is None:
        return None
    own = _NUMBERS.get(function, _cutoff)(name, match[2])
    return None if parameters.keys() & own.keys() else (function, {**parameters, **own})


def expanded(name: str) -> list[str]:
    """Return the names that trec_eval's "official" or "P_5,10" stands for, or the name itself."""
    if name.lower() in SETS:
        return SETS[name.lower()]
    match = re.fullmatch(r"(.+?)([_.])(-?[\d.]+(?:,-?[\d.]+)+)", name)
    if match is None or find(match[1])[0] in _OF_SEVERAL:
        return [name]
    return [f"{match[1]}{match[2]}{each}" for each in match[3].split(",")]


def level_of(text: str) -> tuple[str, str | None]:
    """Return a name without the "-l2" that ranx appends, and the lowest relevant label in it."""
    match = re.fullmatch(r"(.+?)-l(\d+)", text)
    return (text, None) if match is None else (match[1], match[2])


def with_level(name: str, function: str, level: str, parameters: Parameters) -> Parameters:
    """Return the parameters by which labels below a level are not relevant and have no gain."""
    lowest, accepted = whole(name, "rel", level), inspect.signature(REGISTER[function]).parameters
    if "gain" not in accepted:
        return {**parameters, "rel": lowest}
    gain = parameters.get("gain", accepted["gain"].default)
    return {**parameters, "gain": gains.at_least(lowest, gains.GAINS.get(gain, gain))}


#: Parameters of ir_measures and torchmetrics, as functions from their value to our parameters.
_PARAMETERS: dict[str, Callable[[Any], Parameters]] = {
    # ir_measures
    "cutoff": lambda value: {"k": value},
    "min_rel": lambda value: {"min_grade": value},
    "max_rel": lambda value: {"max_grade": value},
    "gains": lambda value: {"gain": value},
    "dcg": lambda value: {"log2": {}, "exp-log2": {"gain": gains.exp2}}[value],
    "judged_only": lambda _: {},
    # torchmetrics
    "top_k": lambda value: {"k": value},
    "adaptive_k": lambda value: {"depth": "retrieved"} if value else {},
}
#: Metrics of ir_measures that become another one with a certain parameter.
_VARIANTS = {
    ("num_retrieved", "rel"): "num_relevant_retrieved",
    ("set_precision", "relative"): "set_relative_precision",
}


def with_parameters(
    name: str, stem: str, function: str, given: Parameters
) -> tuple[str, Parameters]:
    """Return the metric and our parameters, for parameters that may be of another tool.

    `name` is the whole name, and `stem` the part before the parameters.
    """
    parameters: Parameters = {}
    for key, value in given.items():
        if value is not False:
            function = _VARIANTS.get((function, key), function)
        parameters |= _parameters(name, stem, key, value)
    return function, parameters


def _parameters(name: str, stem: str, key: str, value: Any) -> Parameters:
    if key == "judged_only" and value:
        raise ArgumentError(
            f"`judged_only` in {short(name)} is not supported; use unjudged='removed' instead"
        )
    if key == "relative" and isinstance(value, bool):
        return {}
    if key == "beta" and stem.lower() == "setf":  # ir_measures
        return {key: _beta(name, value)}
    try:
        return _PARAMETERS[key](value) if key in _PARAMETERS else {key: value}
    except (KeyError, TypeError):
        raise ArgumentError(f"invalid parameter {key}={short(value)} in {short(name)}") from None
