"""Conventions: the choices that make two tools give two numbers for one ranking."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from polars_rank._params import one_of, threshold
from polars_rank.errors import ArgumentError, hint
from polars_rank.gains import at_least
from polars_rank.metrics.metric import REGISTER, Definition, Metric, parameters_of
from polars_rank.metrics.names import find, output_name, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from polars_rank.metrics.names import Metrics

__all__ = [
    "CATBOOST",
    "IR_MEASURES",
    "LIGHTGBM",
    "POLARS_RANK",
    "RANX",
    "SKLEARN",
    "TORCHMETRICS",
    "TREC_EVAL",
    "TREC_EVAL_9",
    "XGBOOST",
]

Ties: TypeAlias = Literal["doc", "doc_ascending", "best", "worst", "input", "expected"]
Duplicates: TypeAlias = Literal["error", "max", "first"]
Undefined: TypeAlias = Literal["zero", "skip", "one", "null"]
QuerySet: TypeAlias = Literal["all", "judged", "retrieved", "both"]
Unjudged: TypeAlias = Literal["nonrelevant", "removed"]

TIES = get_args(Ties)
DUPLICATES = get_args(Duplicates)

_CHOICES: dict[str, tuple[object, ...]] = {
    "ties": (None, *TIES),
    "undefined": get_args(Undefined),
    "own": get_args(Undefined),
    "query_set": get_args(QuerySet),
    "unjudged": get_args(Unjudged),
}


@dataclass(frozen=True)
class Conventions:
    """What an evaluation assumes beyond the names of its metrics.

    Parameters
    ----------
    name
        Who does it so.
    ties
        How tied scores are ordered; see `rank`. None: by document id descending where there
        are documents, else "worst".
    rel
        The lowest label that is relevant.
    undefined
        What a metric counts as in the mean where it is undefined for a list: "zero", "one",
        "skip" or "null"; or a mapping to these from names of metrics, such as "ndcg" for NDCG at
        every cutoff, and from names of columns, such as "ndcg@10", with "*" for the rest. The name
        of a column comes first.
    own
        What an expression of the user's own counts as where it is null, likewise; and a metric of
        clicks where nothing was clicked.
    query_set
        Which lists are averaged: "all", those with a "judged" document, those with a
        "retrieved" one, or those with "both".
    unjudged
        Whether retrieved documents without a label are "nonrelevant" or "removed" from the
        list before ranks are given (a condensed list).
    float32_scores
        Whether scores are compared as 32-bit floats.
    text_ids
        Whether document ids are compared as text, byte by byte, where they decide between tied
        scores: then "9" is above "10", as in trec_eval, whatever the type of the column. False:
        by the order of their type, numbers as numbers and enums in the order of their categories.
    gain_from
        The lowest label with a gain: those below it have gain 0, whatever the gain. None: every
        label has the gain that the gain says, negative ones as a penalty.
    parameters
        Defaults for parameters of metrics: `{"gain": "exp2"}` for every metric that has the
        parameter, `{"average_precision.norm": "min"}` for one. What is given to a metric itself
        comes first.
    exceptions
        Metrics for which other choices hold: `{"reciprocal_rank": {"ties": "input"}}`; "@k"
        behind the name, as in "reciprocal_rank@k", is for the metric with a cutoff only. `name`
        and `query_set` are the same for all.

    Raises
    ------
    ArgumentError
        For a choice that does not exist.

    Notes
    -----
    Lists are ranked once for each different order that the exceptions ask for.

    Examples
    --------
    >>> pr.Conventions(parameters={"gain": "exp2"}, undefined="one").undefined
    'one'
    """

    name: str = "polars_rank"
    ties: Ties | None = None
    rel: float = 1
    undefined: Undefined | Mapping[str, Undefined] = "zero"
    own: Undefined = "skip"
    query_set: QuerySet = "all"
    unjudged: Unjudged = "nonrelevant"
    float32_scores: bool = False
    text_ids: bool = False
    gain_from: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    exceptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for choice, allowed in _CHOICES.items():
            value = getattr(self, choice)
            for each in value.values() if isinstance(value, Mapping) else (value,):
                one_of(choice, each, allowed)
        threshold("rel", self.rel)
        for key in self.parameters:
            metric, _, parameter = key.rpartition(".")
            definitions = [_build(metric, key)] if metric else [*REGISTER.values()]
            accepted = {name for each in definitions for name in parameters_of(each)}
            if parameter not in accepted:
                message = (
                    f"`parameters` names {key!r}, but no metric takes {parameter!r}"
                    f"{f' in {metric}' * bool(metric)}.{hint(parameter, accepted)}"
                )
                raise ArgumentError(message, "parameters")
        for name in self.exceptions:
            _build(name.removesuffix("@k"), name)
        excepted = [choice.name for choice in fields(self) if choice.name not in _COMMON]
        for choices in self.exceptions.values():
            for choice in choices:
                if choice not in excepted:
                    message = (
                        f"`exceptions` must change {', '.join(map(repr, excepted))}; found "
                        f"{choice!r}.{hint(choice, excepted)}"
                    )
                    raise ArgumentError(message, "exceptions")
            replace(self, exceptions={}, **choices)

    def but(self, **choices: Any) -> Conventions:
        """Return the same conventions, for all metrics, with those choices that are not None."""
        known = [choice.name for choice in fields(self)]
        for key in choices:
            if key not in known:
                message = f"conventions have no choice {key!r}.{hint(key, known)}"
                raise ArgumentError(message)
        given = {key: value for key, value in choices.items() if value is not None}
        if not given:
            return self
        exceptions = {
            metric: {key: value for key, value in own.items() if key not in given}
            for metric, own in self.exceptions.items()
        }
        return replace(self, **{"exceptions": exceptions, **given})

    def of(self, metric: object) -> Conventions:
        """Return the conventions for one metric, without exceptions."""
        if not self.exceptions:
            return self
        if not isinstance(metric, Metric):
            return replace(self, exceptions={})
        first, *others = (self._of(leaf) for leaf in metric.leaves)
        if any(other != first for other in others):
            message = (
                f"{metric} is made of metrics that {self.name} evaluates by different "
                "conventions; evaluate them apart, and combine the results"
            )
            raise ArgumentError(message)
        return first

    def _of(self, metric: Metric) -> Conventions:
        name = metric.function.__name__
        own = self.exceptions.get(name, {})
        if metric.arguments.get("k") is not None:
            own = self.exceptions.get(f"{name}@k", own)
        return replace(self, exceptions={}, **own)

    def apply(self, metric: Metric) -> Metric:
        """Return the metric with these conventions' defaults for parameters not given to it."""
        if not self.parameters and self.gain_from is None and not self.exceptions:
            return metric
        return metric.with_leaves(self._applied)

    def _applied(self, metric: Metric) -> Metric:
        accepted = parameters_of(metric)
        own = f"{metric.function.__name__}."
        agreed = self._of(metric)
        parameters = {key: value for key, value in agreed.parameters.items() if key in accepted}
        for key, value in agreed.parameters.items():
            if key.startswith(own):
                parameters[key.removeprefix(own)] = value
        parameters = {**parameters, **metric.arguments}
        if "gain" in accepted and agreed.gain_from is not None:
            made = metric.but(**parameters)
            gain = made.arguments.get("gain", accepted["gain"])
            parameters["gain"] = at_least(agreed.gain_from, gain)
        return metric.but(**parameters) if parameters != metric.arguments else metric

    def counts_as(self, metric: pl.Expr) -> Undefined:
        """Return what a metric counts as where it is undefined, or an expression where null."""
        rules = self.undefined if isinstance(self.undefined, Mapping) else {"*": self.undefined}
        column = output_name(metric)
        if column in rules or not isinstance(metric, Metric):
            return rules.get(column, self.own)
        rules = {_known(name): value for name, value in rules.items()}
        found = {self._rule(leaf, rules) for leaf in metric.leaves}
        if len(found) > 1:
            message = (
                f"{metric} is made of metrics that count as different values where they are "
                "undefined; give its parts .fill_null(...), or evaluate them apart"
            )
            raise ArgumentError(message)
        return found.pop()

    def _rule(self, metric: Metric, rules: Mapping[str, Undefined]) -> Undefined:
        skipped = metric.definition is not None and metric.definition.skipped
        rest = self.own if skipped else rules.get("*", "zero")
        return rules.get(metric.function.__name__, rest)


def _known(name: str) -> str:
    """Return the name of a metric by any of its names; others are those of own expressions."""
    function, parameters = find(name)
    return name if function is None or parameters else function


def check_undefined(undefined: object, metrics: Iterable[pl.Expr]) -> None:
    """Raise `ArgumentError` if a mapping names a metric that is not among those evaluated."""
    if not isinstance(undefined, Mapping):
        return
    metrics = [*metrics]
    columns = [output_name(metric) for metric in metrics]
    leaves = [leaf for metric in metrics if isinstance(metric, Metric) for leaf in metric.leaves]
    functions = {leaf.function.__name__ for leaf in leaves}
    for name in undefined:
        if name in ("*", *columns) or (isinstance(name, str) and _known(name) in functions):
            continue
        available = [*dict.fromkeys([*columns, *sorted(functions)])]
        message = (
            f"`undefined` names {name!r}, which is not among the metrics "
            f"{', '.join(map(repr, available))}; '*' stands for the rest."
            f"{hint(str(name), available)}"
        )
        raise ArgumentError(message, "undefined")


def counted_as(metric: pl.Expr, conventions: Conventions) -> float | Undefined:
    """Return the value that an undefined one is replaced by, or "skip" or "null"."""
    undefined = conventions.counts_as(metric)
    if undefined not in ("zero", "one"):
        return undefined
    value = 1.0 if undefined == "one" else 0.0
    if isinstance(metric, Metric) and metric.aggregate == "geometric":  # of logarithms
        return math.log(max(value, metric.arguments.get("floor", 1e-5)))
    return value


def undefined_of_renamed(
    undefined: Any, metrics: Sequence[pl.Expr], names: Callable[[int, str], Iterable[str]]
) -> Any:
    """Return `undefined` for metrics that are evaluated under other names, each by its index."""
    check_undefined(undefined, metrics)
    if not isinstance(undefined, Mapping):
        return undefined
    columns = {output_name(metric): index for index, metric in enumerate(metrics)}
    renamed = {
        name: value
        for column, value in undefined.items()
        if column in columns
        for name in names(columns[column], column)
    }
    general = {
        name: value
        for name, value in undefined.items()
        if name not in columns or _known(name) in REGISTER
    }
    return {**general, **renamed}


def _build(name: str, key: str) -> Definition[...]:
    if name not in REGISTER:
        message = f"there is no metric {name!r}, which {key!r} names.{hint(name, REGISTER)}"
        raise ArgumentError(message)
    return REGISTER[name]


def named(conventions: Conventions | str) -> Conventions:
    """Return conventions, or the preset of a name such as "lightgbm"."""
    if isinstance(conventions, Conventions):
        return conventions
    presets = {
        spelling: preset
        for preset in (POLARS_RANK, *PRESETS)
        for spelling in {_plain(preset.name), _plain(preset.name.removesuffix(" 10"))}
    }
    presets["sklearn"] = SKLEARN
    found = presets.get(_plain(conventions)) if isinstance(conventions, str) else None
    if found is None:
        known = ", ".join(sorted({preset.name for preset in (POLARS_RANK, *PRESETS)}))
        message = (
            f"`conventions` must be Conventions or the name of a preset ({known}); found "
            f"{conventions!r}.{hint(str(conventions), presets)}"
        )
        raise ArgumentError(message, "conventions")
    return found


def read_metrics(metrics: Metrics, conventions: Conventions | str | None = None) -> list[pl.Expr]:
    """Read names and expressions into expressions, names as the tool of the conventions does."""
    return resolve(metrics, named(conventions or POLARS_RANK).name)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


#: What is decided for all metrics at once.
_COMMON = ("name", "query_set", "undefined", "own", "exceptions")

#: "Above a half" as the lowest label for which that is so.
_OVER_HALF = math.nextafter(0.5, 1)

POLARS_RANK = Conventions()

#: trec_eval 10 with `-c`: topics that the run lacks count as 0.
TREC_EVAL = Conventions(
    name="trec_eval 10",
    ties="doc",
    text_ids=True,
    query_set="judged",
    gain_from=0,
    parameters={"rounding": "nearest", "rbp.p": 0.9, "rbp_residual.p": 0.9},
)

#: trec_eval 9, and pytrec_eval, which is made of it: topics that both files have.
TREC_EVAL_9 = Conventions(
    name="trec_eval 9",
    ties="doc",
    text_ids=True,
    query_set="both",
    float32_scores=True,
    gain_from=0,
    parameters={"rounding": "up"},
)

#: ir_measures with its default providers, each of which orders tied documents in its own way.
IR_MEASURES = Conventions(
    name="ir_measures",
    ties="doc",
    text_ids=True,
    undefined={"pair_accuracy": "skip", "*": "zero"},
    query_set="judged",
    float32_scores=True,
    gain_from=0,
    parameters={"err.max_grade": 4, "judged.depth": "retrieved", "rounding": "up"},
    exceptions={
        "err": {"float32_scores": False},
        **{
            name: {"ties": "doc_ascending", "float32_scores": False}
            for name in ("reciprocal_rank@k", "judged", "compat")
        },
        **{
            name: {"ties": "input", "float32_scores": False}
            for name in (
                *("rbp", "bpm", "sdcg", "nerr8", "nerr9", "nerr10", "nerr11", "inst", "insq"),
                "pair_accuracy",
            )
        },
    },
)

#: ranx with `make_comparable=True`.
RANX = Conventions(
    name="ranx", ties="input", query_set="judged", gain_from=1, parameters={"rbp.graded": True}
)

SKLEARN = Conventions(
    name="scikit-learn",
    ties="expected",
    undefined={
        "label_ranking_average_precision": "one",
        "roc_auc": "null",
        "partial_auc": "null",
        "*": "zero",
    },
)

#: torchmetrics; its order of tied documents is not defined but for NDCG.
TORCHMETRICS = Conventions(
    name="torchmetrics",
    ties="input",
    float32_scores=True,
    parameters={"average_precision.norm": "hits"},
    exceptions={"ndcg": {"ties": "expected"}},
)

LIGHTGBM = Conventions(
    name="LightGBM",
    ties="input",
    rel=_OVER_HALF,
    undefined="one",
    parameters={"gain": "exp2", "average_precision.norm": "min"},
)

XGBOOST = Conventions(
    name="XGBoost",
    ties="input",
    undefined="one",
    float32_scores=True,
    parameters={"gain": "exp2", "average_precision.norm": "min", "precision.depth": "retrieved"},
)

CATBOOST = Conventions(
    name="CatBoost",
    ties="worst",
    rel=_OVER_HALF,
    undefined={"ndcg": "one", "recall": "one", "*": "zero"},
    parameters={"average_precision.norm": "min"},
)

PRESETS = (
    TREC_EVAL,
    TREC_EVAL_9,
    IR_MEASURES,
    RANX,
    SKLEARN,
    TORCHMETRICS,
    LIGHTGBM,
    XGBOOST,
    CATBOOST,
)


def __dir__() -> list[str]:
    return __all__
