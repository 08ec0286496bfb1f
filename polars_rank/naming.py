"""Names of metrics: "ndcg(gain='exp2')@10" to the function call, in every dialect."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import polars as pl

import polars_rank.metrics  # noqa: F401  (fills the register)
from polars_rank import gain
from polars_rank.errors import ArgumentError, hint
from polars_rank.metrics.metric import REGISTER, Metric

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Other names for a metric, lower case: of ir_measures, trec_eval, ranx and everyday speech.
ALIASES: dict[str, tuple[str, dict[str, Any]]] = {
    "ap": ("average_precision", {}),
    "map": ("average_precision", {}),
    "map_cut": ("average_precision", {}),
    "mean_average_precision": ("average_precision", {}),
    "rr": ("reciprocal_rank", {}),
    "mrr": ("reciprocal_rank", {}),
    "recip_rank": ("reciprocal_rank", {}),
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
    "lrap": ("label_ranking_average_precision", {}),
    "tau_b": ("kendall_tau_b", {}),
}

_NAME = re.compile(r"(?P<name>[A-Za-z][\w.-]*?)(?:\((?P<arguments>.*)\))?(?:@(?P<k>[^@()]*))?")
_TREC_CUTOFF = re.compile(r"(?P<name>.*?)[_.](?P<k>\d+)")

#: What may be written without quotes inside a name, as in "dcg(discount=jarvelin(3))".
_FUNCTIONS = {
    name: getattr(gain, name)
    for name in ("linear", "exp2", "log2", "log", "jarvelin", "reciprocal")
}


@lru_cache(maxsize=1024)
def metric(name: str) -> Metric:
    """Read the name of a metric into the metric.

    Parameters
    ----------
    name
        A name with parameters in brackets and the cutoff behind "@", as in
        "ndcg(gain='exp2')@10". Names of ir_measures ("nDCG@10", "AP"), trec_eval
        ("ndcg_cut_10", "map", "recip_rank") and ranx are understood; case does not matter.

    Returns
    -------
    Metric
        The metric; its output column has the name that was asked for.

    Raises
    ------
    ArgumentError
        For a name that does not exist (with close matches), or parameters that do not fit.

    Examples
    --------
    >>> import polars_rank as pr
    >>> str(pr.metric("nDCG@10"))
    'ndcg@10'
    >>> str(pr.metric("P_5"))
    'precision@5'
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        message = f"cannot read {name!r} as a metric; write it like \"ndcg(gain='exp2')@10\""
        raise ArgumentError(message)
    called, arguments, cutoff = match["name"], match["arguments"], match["k"]
    function, fixed = _find(called)
    trec = _TREC_CUTOFF.fullmatch(called)
    if function is None and cutoff is None and trec is not None:
        function, fixed = _find(trec["name"])
        cutoff = trec["k"]
    if function is None:
        message = f"there is no metric {called!r}.{hint(called, [*REGISTER, *ALIASES])}"
        raise ArgumentError(message)
    parameters = {**fixed, **_arguments(name, arguments)}
    if cutoff is not None:
        if "k" in parameters:
            message = f"`k` is given twice in {name!r}; write it once, behind the '@'"
            raise ArgumentError(message)
        if not cutoff.isdecimal():
            message = f"`k` must be a positive whole number; found {cutoff!r} in {name!r}"
            raise ArgumentError(message)
        parameters["k"] = int(cutoff)
    try:
        return REGISTER[function](**parameters).alias(name)
    except TypeError as error:
        message = f"{name!r} does not fit the parameters of {function}: {error}"
        raise ArgumentError(message) from None


def resolve(metrics: str | pl.Expr | Iterable[str | pl.Expr]) -> list[pl.Expr]:
    """Read names and expressions into expressions with distinct output names."""
    given = [metrics] if isinstance(metrics, (str, pl.Expr)) else list(metrics)
    if not given:
        message = "`metrics` is empty; name at least one, such as 'ndcg@10'"
        raise ArgumentError(message)
    for item in given:
        if not isinstance(item, (str, pl.Expr)):
            message = (
                f"`metrics` must be names or Polars expressions; found {item!r} "
                f"of type {type(item).__name__}"
            )
            raise ArgumentError(message)
    resolved = [metric(item) if isinstance(item, str) else item for item in given]
    twice = [name for name, count in Counter(map(output_name, resolved)).items() if count > 1]
    if twice:
        message = f"`metrics` has the name {twice[0]!r} twice; use .alias() to tell them apart"
        raise ArgumentError(message)
    return resolved


def output_name(expression: pl.Expr) -> str:
    """Return the name of the column that an expression makes."""
    if isinstance(expression, Metric):
        return expression.output_name
    try:
        return expression.meta.output_name()
    except pl.exceptions.PolarsError:
        message = (
            f"a metric must make one column with a name of its own; add .alias() to {expression}"
        )
        raise ArgumentError(message) from None


def _find(name: str) -> tuple[str | None, dict[str, Any]]:
    lower = name.lower()
    if lower in REGISTER:
        return lower, {}
    return ALIASES.get(lower, (None, {}))


def _arguments(name: str, text: str | None) -> dict[str, Any]:
    if not text:
        return {}
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        assert isinstance(call, ast.Call)
        if call.args or any(keyword.arg is None for keyword in call.keywords):
            raise ValueError
        return {str(keyword.arg): _value(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, KeyError, TypeError, AssertionError):
        message = (
            f"cannot read the parameters in {name!r}; write them like \"ndcg(gain='exp2')@10\""
        )
        raise ArgumentError(message) from None


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        return _FUNCTIONS[node.id]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _FUNCTIONS[node.func.id](*map(_value, node.args))  # type: ignore[operator]
    return ast.literal_eval(node)
