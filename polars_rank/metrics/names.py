"""Names of metrics, such as "ndcg(gain='exp2')@10" or "ndcg_cut_10", to metrics."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import polars as pl

from polars_rank import discounts, gains
from polars_rank.errors import ArgumentError, hint
from polars_rank.metrics.metric import REGISTER, Metric

if TYPE_CHECKING:
    from collections.abc import Callable

Metrics: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"

#: Other names for a metric in lower case: those of other tools, and common long forms.
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ap": ("average_precision", {}),
    "map": ("average_precision", {}),
    "map_cut": ("average_precision", {}),
    "mean_average_precision": ("average_precision", {}),
    "rr": ("reciprocal_rank", {}),
    "mrr": ("reciprocal_rank", {}),
    "recip_rank": ("reciprocal_rank", {}),
    "reciprank": ("reciprocal_rank", {}),
    "p": ("precision", {}),
    "r": ("recall", {}),
    "f": ("fbeta", {}),
    "rprec": ("r_precision", {}),
    "r-precision": ("r_precision", {}),
    "success": ("hit_rate", {}),
    "hit": ("hit_rate", {}),
    "ndcg_cut": ("ndcg", {}),
    "ndcg_burges": ("ndcg", {"gain": "exp2"}),
    "dcg_burges": ("dcg", {"gain": "exp2"}),
    "idcg": ("ideal_dcg", {}),
    "auc": ("roc_auc", {}),
    "auroc": ("roc_auc", {}),
    "hr": ("hit_rate", {}),
    "set_p": ("set_precision", {}),
    "setp": ("set_precision", {}),
    "setr": ("set_recall", {}),
    "setf": ("set_f", {}),
    "set_map": ("set_ap", {}),
    "setap": ("set_ap", {}),
    "set_relative_p": ("set_relative_precision", {}),
    "relative_p": ("relative_precision", {}),
    "r_cap": ("recall_capped", {}),
    "num_ret": ("num_retrieved", {}),
    "numret": ("num_retrieved", {}),
    "num_rel": ("num_relevant", {}),
    "numrel": ("num_relevant", {}),
    "num_rel_ret": ("num_relevant_retrieved", {}),
    "numrelret": ("num_relevant_retrieved", {}),
    "num_nonrel_judged_ret": ("num_nonrelevant_judged_retrieved", {}),
    "unj": ("unjudged", {}),
    "infap": ("inf_ap", {}),
    "gm_map": ("log_average_precision", {}),
    "gm_bpref": ("log_bpref", {}),
    "g": ("g_measure", {}),
    "bing": ("binary_g", {}),
    "rbp_resid": ("rbp_residual", {}),
    "arp": ("average_relevance_position", {}),
    "opa": ("ordered_pair_accuracy", {}),
    "11pt_avg": ("eleven_point", {}),
    "iprec": ("interpolated_precision", {}),
    "iprec_at_recall": ("interpolated_precision", {}),
    "rprec_mult": ("r_precision", {}),
    "num_q": ("num_queries", {}),
    "numq": ("num_queries", {}),
    "setrelp": ("set_relative_precision", {}),
    "gmap": ("log_average_precision", {}),
    "normalized_dcg": ("ndcg", {}),
    "normalizeddcg": ("ndcg", {}),
    "hitrate": ("hit_rate", {}),
    "fallout": ("fall_out", {}),
    "rprecision": ("r_precision", {}),
    "pre": ("precision", {}),
    "ndcg_score": ("ndcg", {}),
    "dcg_score": ("dcg", {}),
    "roc_auc_score": ("roc_auc", {}),
    "average_precision_score": ("label_ranking_average_precision", {}),
    "label_ranking_average_precision_score": ("label_ranking_average_precision", {}),
    "lrap": ("label_ranking_average_precision", {}),
    "tau_b": ("kendall_tau_b", {}),
    "mean_reciprocal_rank": ("reciprocal_rank", {}),
    "cumulative_gain": ("cg", {}),
    "discounted_cumulative_gain": ("dcg", {}),
    "ideal_discounted_cumulative_gain": ("ideal_dcg", {}),
    "normalized_discounted_cumulative_gain": ("ndcg", {}),
    "normalised_discounted_cumulative_gain": ("ndcg", {}),
    "normalised_dcg": ("ndcg", {}),
    "expected_reciprocal_rank": ("err", {}),
    "rank_biased_precision": ("rbp", {}),
    "geometric_mean_average_precision": ("log_average_precision", {}),
    "inferred_average_precision": ("inf_ap", {}),
    "binary_preference": ("bpref", {}),
    "hit_ratio": ("hit_rate", {}),
    "f1_score": ("f1", {}),
    "click_through_rate": ("ctr", {}),
    "matthews_correlation_coefficient": ("mcc", {}),
    "alpha-dcg": ("alpha_dcg", {}),
    "alpha-ndcg": ("alpha_ndcg", {}),
    "err-ia": ("err_ia", {}),
    "nerr-ia": ("nerr_ia", {}),
    "map-ia": ("ap_ia", {}),
    "map_ia": ("ap_ia", {}),
    "p-ia": ("precision_ia", {}),
    "p_ia": ("precision_ia", {}),
    "strec": ("subtopic_recall", {}),
    "strecall": ("subtopic_recall", {}),
    "s_recall": ("subtopic_recall", {}),
    "i-rec": ("subtopic_recall", {}),
    "d#-ndcg": ("d_sharp_ndcg", {}),
    "miuf": ("novelty", {}),
    "mean_inv_user_freq": ("novelty", {}),
    "mean_inverse_user_frequency": ("novelty", {}),
    "meaninvuserfreq": ("novelty", {}),
    "avg_rec_popularity": ("popularity", {}),
    "avgrecpopularity": ("popularity", {}),
    "average_recommendation_popularity": ("popularity", {}),
    "ild": ("intra_list_diversity", {}),
    "intralistdiversity": ("intra_list_diversity", {}),
    "longtailshare": ("long_tail_share", {}),
    "aplt": ("long_tail_share", {}),
}

#: Names that have another meaning elsewhere, and mean a metric under a tool's conventions only.
TOOL_ALIASES: dict[tuple[str, str], str] = {
    ("ranx", "hits"): "num_relevant_retrieved",
    ("RePlay", "novelty"): "unseen_share",
    ("RecTools", "arp"): "popularity",
    ("Evidently", "arp"): "popularity",
    ("Evidently", "diversity"): "intra_list_diversity",
    ("LensKit", "recall"): "recall_capped",
}

#: Other meanings of the name of a metric.
OTHER_MEANINGS = {
    "average_relevance_position": (
        "in RecTools and Evidently, ARP is the average recommendation popularity, 'popularity'"
    ),
    "popularity": "without a preset, ARP is the average relevance position",
    "novelty": "in RePlay, Novelty is the share of unseen documents, 'unseen_share'",
    "unseen_share": "in RecTools and Evidently, Novelty is self-information, 'novelty'",
}

_SUMMARY = "pr.catalog.summary"
_EXPECTED = "pr.catalog.expected_exposure"
#: What to use for measures that are not metrics, but results of functions or of other metrics.
_FUNCTIONS_OF = {
    "catalogcoverage": f"'coverage' of {_SUMMARY} (a count in RecTools: 'recommended' + 'unknown')",
    "catalog_coverage": f"'coverage' of {_SUMMARY}",
    "item_coverage": f"'recommended' of {_SUMMARY}",
    "itemcoverage": f"'recommended' of {_SUMMARY}",
    "coverage": f"'coverage' of {_SUMMARY}",
    "gini": (
        f"'gini' of {_SUMMARY}, over the catalog (LensKit), or 'gini_recommended', over the "
        "recommended documents, which Evidently multiplies by n / (n - 1)"
    ),
    "listgini": f"'gini' of {_SUMMARY}",
    "exposuregini": f"'gini' of {_SUMMARY} with a `discount`",
    "personalization": f"'personalization' of {_SUMMARY}",
    "awrf": (
        "pr.catalog.awrf, which is 1 - Jensen-Shannon divergence; the score of TREC Fair 2022 is "
        "its product with NDCG, and other tools have 1 - another distance"
    ),
    "categoricaldiversity": "pr.category_count(k) / k",
    "ils": "1 - pr.intra_list_diversity(k, ...)",
    "ee-l": f"'ee_l' of {_EXPECTED}",
    "ee-d": f"'ee_d' of {_EXPECTED}",
    "ee-r": f"'ee_r' of {_EXPECTED}",
}

#: What to use instead of an ambiguous name.
_MEANINGS = {
    "hits": (
        "use 'hit_rate' for whether a relevant document was retrieved, or "
        "'num_relevant_retrieved' for how many were (ranx's hits)"
    ),
}

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

#: The parameter that the number at the end of a name sets if it is not a cutoff, and its parser:
#: "iprec_at_recall_0.10", "Rprec_mult_0.20", "set_F_4" (beta squared), "rbp.95" (without "0.").
_NUMBER: dict[str, tuple[str, Callable[[str], Any]]] = {
    "interpolated_precision": ("recall", float),
    "r_precision": ("multiple", float),
    "set_f": ("beta", lambda text: _beta(float(text))),
    "rbp": ("p", lambda text: float(text if "." in text else f"0.{text}")),
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

_DEPTHS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
_SET = ["num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_relative_P",
        "set_recall", "set_map", "set_F"]  # fmt: skip
_OFFICIAL = [
    *("num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref"),
    "recip_rank",
    *(f"iprec_at_recall_{tenth / 10:.2f}" for tenth in range(11)),
    *(f"P_{k}" for k in _DEPTHS),
]

#: Names of trec_eval that mean several metrics.
SETS: dict[str, list[str]] = {
    "official": _OFFICIAL,
    "set": _SET,
    "all_trec": [
        *_OFFICIAL,
        *(name for name in _SET if name not in _OFFICIAL),
        *("num_nonrel_judged_ret", "gm_bpref", "infAP", "11pt_avg", "G", "binG", "Rndcg"),
        *("ndcg", "ndcg_rel", "success_1", "success_5", "success_10"),
        *(f"Rprec_mult_{fifth / 5:.2f}" for fifth in range(1, 11)),
        *(f"{name}_{k}" for name in ("relative_P", "recall", "ndcg_cut", "map_cut")
          for k in _DEPTHS),
    ],
}  # fmt: skip

#: Gains and discounts that a name may contain without quotes: "dcg(discount=jarvelin(3))".
_FUNCTIONS = {
    name: getattr(module, name)
    for module, names in (
        (gains, ("linear", "exp2", "at_least")),
        (discounts, ("log2", "log", "jarvelin", "reciprocal")),
    )
    for name in names
}


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
    return read(name)


def read(name: str, tool: str = "") -> Metric:
    """Return the metric of a name; `tool` decides names that mean different metrics in tools."""
    _check_is_one(name)
    listed = _with_listed_parameters(name.strip())
    if listed is not None:
        return listed.alias(name)
    match = re.fullmatch(_NAME, name.strip())
    if match is None:
        message = f"invalid metric {name!r}; write it like \"ndcg(gain='exp2')@10\""
        raise ArgumentError(message)
    at, level = match["at"], match["level"]
    stem, function, parameters = _metric_and_number(match["name"], tool, numbered=at is None)
    for key, value in _arguments(name, match["arguments"]).items():
        if value is not False:
            function = _VARIANTS.get((function, key), function)
        parameters = {**parameters, **_parameter(name, stem, key, value)}
    if at is not None:
        key, value = _at(name, function, at)
        if key in parameters:
            message = f"`{key}` is given twice in {name!r}; give it once, after the '@'"
            raise ArgumentError(message, key)
        parameters = {**parameters, key: value}
    if level is not None:
        parameters = {**parameters, **_level(function, int(level), parameters)}
    return _metric_of(name, function, parameters)


def _check_is_one(name: str) -> None:
    several = expand(name.strip())
    if len(several) > 1:
        message = f"{name!r} means {len(several)} metrics; name one, such as {several[0]!r}"
        raise ArgumentError(message)


def _metric_of(name: str, function: str, parameters: dict[str, Any]) -> Metric:
    accepted = inspect.signature(REGISTER[function]).parameters
    unknown = next((key for key in parameters if key not in accepted), None)
    if unknown is not None:
        available = ", ".join(map(repr, accepted)) or "none"
        message = (
            f"{function} has no parameter {unknown!r} (in {name!r}); available: "
            f"{available}.{hint(unknown, accepted)}"
        )
        if function in OTHER_MEANINGS:
            message += f" Note: {OTHER_MEANINGS[function]}"
        raise ArgumentError(message)
    try:
        return REGISTER[function](**parameters).alias(name)
    except TypeError as error:
        message = f"invalid parameters in {name!r}: {error}"
        raise ArgumentError(message) from None


def _metric_and_number(name: str, tool: str, *, numbered: bool) -> tuple[str, str, dict[str, Any]]:
    """Return the name without the number at its end, its metric, and the parameters of both."""
    function, parameters = find(name, tool)
    match = re.fullmatch(_NUMBERED, name)
    if function is None and numbered and match is not None:
        name = match["name"]
        function, parameters = find(name, tool)
        key, number = _NUMBER.get(str(function), ("k", int))
        parameters = {**parameters, key: number(match["number"])}
    if function is None:
        raise _unknown(name)
    return name, function, parameters


def _with_listed_parameters(name: str) -> Metric | None:
    """Return the metric of a trec_eval name such as "utility_2,-1,0,0"; None for other names."""
    levels = re.fullmatch(r"ndcg[_.](\d+=[\d.]+(?:,\d+=[\d.]+)*)", name, re.IGNORECASE)
    if levels is not None:
        pairs = (pair.partition("=") for pair in levels[1].split(","))
        gain = gains.Levels(tuple((float(label), float(value)) for label, _, value in pairs))
        return REGISTER["ndcg"](gain=gain)
    several = re.fullmatch(_NUMBERS, name)
    if several is None or (stem := several["name"][:-1].lower()) not in _TABLES:
        return None
    numbers = [float(number) for number in several["numbers"].split(",")]
    if stem != "utility":
        return REGISTER["eleven_point"](recalls=tuple(numbers))
    if len(numbers) != len("abcd"):
        message = f"{name!r} must have four numbers, the values of tp, fp, fn, and tn"
        raise ArgumentError(message)
    return REGISTER["utility"](**dict(zip("abcd", numbers, strict=True)))


def expand(name: str) -> list[str]:
    """Return the names that "official", "ndcg@5,10", or "P_5,10" means; else the name itself."""
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


def resolve(metrics: Metrics, tool: str = "") -> list[pl.Expr]:
    """Return expressions with distinct names; `tool` decides names as in `read`."""
    several = not isinstance(metrics, (str, pl.Expr)) and isinstance(metrics, Iterable)
    resolved: list[pl.Expr] = []
    for item in cast("Iterable[Any]", metrics) if several else [metrics]:
        if isinstance(item, str):
            resolved += _named(item, tool)
        elif isinstance(item, pl.Expr):
            resolved.append(item)
        else:
            remedy = callable(item) and f"; call it: pr.{getattr(item, '__name__', item)}()"
            message = (
                "`metrics` must be names or Polars expressions; found "
                f"{type(item).__name__} {getattr(item, '__name__', repr(item))}{remedy or ''}"
            )
            raise ArgumentError(message, "metrics")
    if not resolved:
        message = "`metrics` is empty; name at least one, such as 'ndcg@10'"
        raise ArgumentError(message, "metrics")
    twice = [name for name, count in Counter(map(output_name, resolved)).items() if count > 1]
    if twice:
        message = f"duplicate metric {twice[0]!r} (`metrics`); rename one of them with .alias()"
        raise ArgumentError(message, "metrics")
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
    names, depth = [""], 0
    for place, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        listed = lists and character == "," and re.match(_LISTED, text[place + 1 :])
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
        message = f"a metric must produce one column with one name; add .alias(...) to {expression}"
        raise ArgumentError(message) from None


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


def function_of(name: str) -> str | None:
    """Return the function that computes a measure which is not a metric; None for others."""
    match = re.fullmatch(_NAME, name.strip())
    return None if match is None else _FUNCTIONS_OF.get(match["name"].lower())


def _unknown(name: str) -> ArgumentError:
    if name.lower() in _MEANINGS:
        return ArgumentError(f"{name!r} is ambiguous; {_MEANINGS[name.lower()]}")
    if name.lower() in _FUNCTIONS_OF:
        return ArgumentError(f"{name!r} is not a metric; use {_FUNCTIONS_OF[name.lower()]}")
    if re.fullmatch(r"[\d.]+", name):
        message = f"{name!r} is not a metric; write several cutoffs without spaces: 'ndcg@5,10'"
        return ArgumentError(message)
    listed = " pr.list_metrics() and the command polars-rank metrics list all metrics."
    names = [*REGISTER, *ALIASES, *_FUNCTIONS_OF]
    return ArgumentError(f"unknown metric {name!r}.{hint(name, names) or listed}")


def _at(name: str, function: str, text: str) -> tuple[str, Any]:
    """Return the parameter after the "@": the cutoff, or the recall of "IPrec@0.1"."""
    if function == "interpolated_precision":
        try:
            return "recall", float(text)
        except ValueError:
            message = f"`recall` must be a number from 0 to 1; found {text!r} in {name!r}"
            raise ArgumentError(message, "recall") from None
    if not text.isdecimal():
        message = f"`k` must be a positive integer; found {text!r} in {name!r}"
        raise ArgumentError(message, "k")
    return "k", int(text)


def _parameter(name: str, stem: str, key: str, value: Any) -> dict[str, Any]:
    """Return our parameters for another tool's."""
    if key == "judged_only" and value:
        message = f"`judged_only` in {name!r} is not supported; use unjudged='removed' instead"
        raise ArgumentError(message)
    if key == "relative" and isinstance(value, bool):
        return {}
    if key == "beta" and stem.lower() == "setf":
        return {key: _beta(value)}
    try:
        return _WORDS[key](value) if key in _WORDS else {key: value}
    except (KeyError, TypeError):
        message = f"invalid parameter {key}={value!r} in {name!r}"
        raise ArgumentError(message) from None


def _level(function: str, level: int, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of ranx's "-l2": labels below 2 are not relevant and have no gain."""
    accepted = inspect.signature(REGISTER[function]).parameters
    if "gain" in accepted:
        gain = parameters.get("gain", accepted["gain"].default)
        return {"gain": gains.at_least(level, gains.GAINS.get(gain, gain))}
    return {"rel": level}


def _beta(squared: float) -> float:
    """Return our beta: the square root of what trec_eval calls x, and ir_measures beta."""
    return math.sqrt(squared)


def _arguments(name: str, text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    message = f"invalid parameters in {name!r}; write them like \"ndcg(gain='exp2')@10\""
    try:
        call = ast.parse(f"dict({text})", mode="eval").body
        given = call.keywords if isinstance(call, ast.Call) and not call.args else []
        parameters = {str(keyword.arg): _value(keyword.value) for keyword in given}
    except (SyntaxError, ValueError, KeyError, TypeError):
        raise ArgumentError(message) from None
    if not parameters or "None" in parameters:  # values without a name, or **
        raise ArgumentError(message)
    return parameters


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _FUNCTIONS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*map(_value, node.args))
    return ast.literal_eval(node)
