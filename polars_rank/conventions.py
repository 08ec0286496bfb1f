"""Definitions of metrics that differ between tools, and presets for these tools."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from polars_rank._params import OPTIONS, OWN, check_types, number, one_of, public, threshold
from polars_rank.discounts import jarvelin
from polars_rank.errors import ArgumentError, hint, short, warn
from polars_rank.frames.plans import IMMUTABLE
from polars_rank.gains import at_least
from polars_rank.metrics.metric import (
    FILLED,
    REGISTER,
    Aggregate,
    Metric,
    MetricFunction,
    checked_parameter,
    parameters_of,
)
from polars_rank.metrics.names import find, leaves_of, named_in, output_name, resolve
from polars_rank.metrics.names import metric as read_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from polars_rank.metrics.names import Metrics

__all__ = [
    "CATBOOST", "ELASTICSEARCH", "EVIDENTLY", "IR_MEASURES", "LENSKIT", "LIGHTGBM", "MTEB",
    "NDEVAL", "POLARS_RANK", "QUEPID", "RANX", "RECTOOLS", "REPLAY", "SENTENCE_TRANSFORMERS",
    "SKLEARN", "TORCHMETRICS", "TREC_EVAL", "TREC_EVAL_9", "VESPA", "XGBOOST",
]  # fmt: skip

Ties: TypeAlias = Literal["doc", "doc_ascending", "best", "worst", "input", "expected"]
Duplicates: TypeAlias = Literal["error", "max", "first"]
Undefined: TypeAlias = Literal["zero", "skip", "one", "null"]
QuerySet: TypeAlias = Literal["all", "judged", "retrieved", "both"]
Unjudged: TypeAlias = Literal["nonrelevant", "removed"]
Counts: TypeAlias = Literal["sum", "mean"]
#: A preset by its name, conventions, or some of their fields.
ConventionsLike: TypeAlias = "Conventions | str | Mapping[str, Any]"

TIES = get_args(Ties)
DUPLICATES = get_args(Duplicates)

_CHOICES: dict[str, tuple[object, ...]] = {
    "ties": (None, *TIES), "undefined": get_args(Undefined), "query_set": get_args(QuerySet),
    "unjudged": get_args(Unjudged), "duplicates": DUPLICATES, "counts": get_args(Counts),
}  # fmt: skip


class Definitions(TypedDict, total=False):
    """The fields of `Conventions` that functions also take as keywords."""

    ties: Ties | None
    rel: float | None
    undefined: Undefined | Mapping[str, Undefined] | None
    query_set: QuerySet | None
    unjudged: Unjudged | None
    duplicates: Duplicates | None
    counts: Counts | None
    float32_scores: bool | None
    text_ids: bool | None
    gain_from: float | None
    parameters: Mapping[str, Any] | None
    exceptions: Mapping[str, Mapping[str, Any]] | None


OPTIONS["Definitions"] = [*Definitions.__annotations__]


@dataclass(frozen=True)
class Conventions:
    """Metric definitions that differ between tools, such as ties and undefined values.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "label": [1, 2, 0],
    ... })
    >>> own = pr.Conventions(parameters={"gain": "exp2"}, undefined="one")
    >>> pr.evaluate(df, "ndcg", conventions=own)
    shape: (1, 2)
    ┌─────────┬──────────┐
    │ queries ┆ ndcg     │
    │ ---     ┆ ---      │
    │ u32     ┆ f64      │
    ╞═════════╪══════════╡
    │ 2       ┆ 0.898354 │
    └─────────┴──────────┘

    Parameters
    ----------
    name
        Name of the tool or preset.
    ties
        Order of documents with equal scores: "doc" (id descending; the default if there are
        ids), "doc_ascending", "best" or "worst" (higher or lower label first; "worst" is the
        default without ids), "input" (order of rows), or "expected": the mean over all orders of
        tied documents (McSherry & Najork, 2008), which is exact and has a closed form for most
        metrics; the others raise `ArgumentError`.
    rel
        Lowest relevant label. Labels are compared as Float64: 0.7 as Float32 is 0.699999988, and
        below 0.7.
    undefined
        What a metric counts as where it is undefined for a ranking: "zero", "one" (as in LightGBM),
        "skip" to leave the ranking out of the mean, "null" to make the mean null, or a mapping to
        these from names of metrics ("ndcg", for all cutoffs) or of result columns ("ndcg@10"), with
        "*" for the rest. Names of columns take precedence. Default: 0 for metrics of which 0 is the
        worst value, such as NDCG and recall; others, such as AUC and correlations, do not count.
        `list_metrics` has a column with these defaults. In an expression of metrics, they are
        replaced before the expression is computed, so that the mean of `1 - m` is 1 minus the mean
        of `m`. An expression that is null all the same does not count. In a function of Polars,
        such as `pl.max_horizontal`, a metric says itself what it counts as: `m.fill_null(0)`.
    query_set
        Rankings that count: "all" (with several labels, those of queries that the judge labeled),
        "judged" (with at least one judged document, as `trec_eval -c`), "retrieved" (with at least
        one retrieved document), or "both".
    unjudged
        Treatment of retrieved documents without a label: "nonrelevant", or "removed" from the
        ranking before ranks are computed (condensed rankings).
    duplicates
        Treatment of a document that occurs more than once in a ranking:

        - "error": raise `DataError`;
        - "max": keep the row with the highest score, or of equal scores the first row;
        - "first": keep the first row.

        A document has the label of the row that is kept; `DataError` if one row of a document has
        only a score and another one only a label, as in judgments that were not joined. Without
        document ids, rows have no copies.
    counts
        Aggregate of counts, such as `num_retrieved`, over the queries: "sum" or "mean".
    float32_scores
        Compare scores as 32-bit floats.
    text_ids
        Compare document ids that break ties as text, as in trec_eval. Text is compared byte by
        byte: "9" is greater than "10". False: compare them by their type, for example numerically.
    gain_from
        Lowest label with a gain; labels below it have the gain 0. None: all labels have their
        gain, and negative labels are a penalty.
    parameters
        Default parameters of metrics, such as `{"gain": "exp2"}`, of all metrics with this
        parameter. `{"average_precision.norm": "min"}` is for one metric. Parameters of the metric
        itself take precedence.
    exceptions
        Metrics with other choices, such as `{"reciprocal_rank": {"ties": "input"}}`. A name that
        ends in "@k", such as "reciprocal_rank@k", means the metric with a cutoff only. `name`,
        `query_set` and `counts` cannot differ.

    Raises
    ------
    ArgumentError
        If a choice does not exist.

    Notes
    -----
    The log is ranked once per different order of tied documents in `exceptions`.
    """

    name: str = "polars_rank"
    ties: Ties | None = None
    rel: float = 1
    undefined: Undefined | Mapping[str, Undefined] = field(default_factory=dict)
    query_set: QuerySet = "all"
    unjudged: Unjudged = "nonrelevant"
    duplicates: Duplicates = "error"
    counts: Counts = "sum"
    float32_scores: bool = False
    text_ids: bool = False
    gain_from: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    exceptions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for choice, allowed in _CHOICES.items():
            value = getattr(self, choice)
            several = choice == "undefined" and isinstance(value, Mapping)
            for each in value.values() if several else (value,):
                one_of(choice, each, allowed)
        number("rel", self.rel, "the lowest relevant label")
        if self.gain_from is not None:
            number("gain_from", self.gain_from, "the lowest label with a gain, or None")
        for key, value in self.parameters.items():
            _check_parameter(str(key), value)
        for name, choices in self.exceptions.items():
            if not isinstance(choices, Mapping):
                raise ArgumentError(
                    "must map names of metrics to mappings of choices; "
                    f"found {short(self.exceptions)}",
                    "exceptions",
                )
            _definition(str(name).removesuffix("@k"), "exceptions")
            self._check_names(choices, "exceptions", _WITHOUT_EXCEPTIONS)
            replace(self, **{"parameters": {}, "exceptions": {}, **choices})

    def _check_names(
        self, choices: Iterable[str], parameter: str = "", without: Sequence[str] = ()
    ) -> None:
        """Raise `ArgumentError` unless the conventions have all these choices."""
        known = [choice.name for choice in fields(self) if choice.name not in without]
        where = f" (`{parameter}`)" if parameter else ""
        for choice in choices:
            if choice not in known:
                raise ArgumentError(
                    f"invalid choice {choice!r}{where}; available: {', '.join(map(repr, known))}."
                    f"{hint(choice, known)}"
                )

    def but(self, **choices: Any) -> Conventions:
        """Return the conventions with other choices for all metrics; None keeps a choice."""
        self._check_names(choices)
        changes = {key: value for key, value in choices.items() if value is not None}
        if not changes:
            return self
        exceptions = {
            metric: {key: value for key, value in own.items() if key not in changes}
            for metric, own in self.exceptions.items()
        }
        return replace(self, **{"exceptions": exceptions, **changes})

    def of(self, metric: pl.Expr) -> Conventions:
        """Return the conventions of one metric, without exceptions."""
        plain = replace(self, exceptions={}) if self.exceptions else self
        if not isinstance(metric, Metric):
            for name, leaf in named_in(metric).items():
                if self._of(leaf) != plain or self._changes(name.partition(FILLED)[0]):
                    raise ArgumentError(
                        f"expression {output_name(metric)!r} contains the metric {leaf} in a "
                        "function of Polars, which would not follow the conventions "
                        f"{self.name!r}; evaluate the metric itself, and use its column of the "
                        "result"
                    )
            return plain
        first, *others = (self._of(leaf) for leaf in metric.leaves)
        if any(other != first for other in others):
            raise ArgumentError(
                f"{self.name} evaluates the parts of {metric} by different conventions; evaluate "
                "the parts separately, and combine the results"
            )
        return first

    def _of(self, metric: Metric) -> Conventions:
        name = metric.function.__name__
        own = self.exceptions.get(name, {})
        if metric.arguments.get("k") is not None:
            own = self.exceptions.get(f"{name}@k", own)
        return replace(self, exceptions={}, **own)

    def _changes(self, name: str) -> bool:
        """Return whether the conventions change the parameters of a metric."""
        if not self.parameters and self.gain_from is None:
            return False
        try:
            metric = read_metric(name)
        except ArgumentError:  # a parameter has no representation as text
            return True
        return self.apply(metric).arguments != metric.arguments

    def apply(self, metric: Metric) -> Metric:
        """Return the metric with the default parameters of these conventions."""
        if not self.parameters and self.gain_from is None and not self.exceptions:
            return metric
        return metric.with_leaves(self._with_defaults)

    def _with_defaults(self, metric: Metric) -> Metric:
        accepted = parameters_of(metric)
        prefix = f"{metric.function.__name__}."
        conventions = self._of(metric)
        defaults = conventions.parameters
        parameters = {key: value for key, value in defaults.items() if key in accepted}
        for key, value in defaults.items():
            if key.startswith(prefix):
                parameters[key.removeprefix(prefix)] = value
        parameters = {**parameters, **metric.arguments}
        if "gain" in accepted and conventions.gain_from is not None:
            gain = metric.but(**parameters).arguments.get("gain", accepted["gain"])
            parameters["gain"] = at_least(conventions.gain_from, gain)
        return metric.but(**parameters) if parameters != metric.arguments else metric

    def aggregate(self, metric: pl.Expr) -> Aggregate:
        """Return how a metric or an expression is aggregated over the queries."""
        own = metric.aggregate if isinstance(metric, Metric) else "mean"
        return self.counts if own == "sum" else own

    @property
    def _rules(self) -> Mapping[str, Undefined]:
        """What undefined values count as, by metric or column, with "*" for all others."""
        return self.undefined if isinstance(self.undefined, Mapping) else {"*": self.undefined}

    def counts_as(self, metric: pl.Expr) -> Undefined:
        """Return what an undefined metric counts as, or an expression of metrics that is null."""
        rules, column = self._rules, output_name(metric)
        if column in rules:
            return rules[column]
        if isinstance(metric, Metric) and not metric.parts:
            return self._of_leaf(metric)
        if any(self._of_leaf(leaf) == "null" for leaf in leaves_of(metric)):
            return "null"
        return rules.get("*", "skip")

    def _of_leaf(self, leaf: Metric) -> Undefined:
        """Return what a single metric counts as where it is undefined."""
        rules = {_metric_name(name): value for name, value in self._rules.items()}
        skipped = leaf.definition is not None and leaf.definition.skipped
        by_default: Undefined = "skip" if skipped else "zero"
        return rules.get(leaf.function.__name__, rules.get("*", by_default))

    def filled(self, metric: pl.Expr) -> pl.Expr:
        """Return an expression of metrics that is computed with what they count as.

        A single metric is returned as it is: its undefined values are replaced in the table of all
        rankings, which takes less time. An expression whose column has a rule of its own is also
        returned as it is: the rule is about the whole expression.
        """
        if isinstance(metric, Metric) and metric.parts and output_name(metric) not in self._rules:
            return metric.filled(self._value_of_leaf)
        return metric

    def _value_of_leaf(self, leaf: Metric) -> float | None:
        value = counted_as(self._of_leaf(leaf), leaf)
        return value if isinstance(value, float) else None


IMMUTABLE.add(Conventions)


# A dataclass writes the function itself.
Conventions.__init__ = public(Conventions.__init__)  # type: ignore[method-assign]


def _metric_name(name: str) -> str:
    """Return the main name of a metric; return other names, such as columns, unchanged."""
    if not isinstance(name, str):
        raise ArgumentError(f"the keys of `undefined` must be names; found {short(name)}")
    function, parameters = find(name)
    return name if function is None or parameters else function


def check_undefined(undefined: Mapping[str, Undefined], metrics: Iterable[pl.Expr]) -> None:
    """Raise `ArgumentError` if a mapping names a metric that is not evaluated."""
    metrics = [*metrics]
    columns = [output_name(metric) for metric in metrics]
    functions = {leaf.function.__name__ for metric in metrics for leaf in leaves_of(metric)}
    for name in undefined:
        if name in ("*", *columns) or (isinstance(name, str) and _metric_name(name) in functions):
            continue
        available = [*dict.fromkeys([*columns, *sorted(functions)])]
        raise ArgumentError(
            f"metric {name!r} (`undefined`) is not evaluated; available: "
            f"{', '.join(map(repr, available))}, or '*' for all others."
            f"{hint(str(name), available)}"
        )


def counted_as(undefined: Undefined, metric: pl.Expr) -> float | Undefined:
    """Return the value that replaces an undefined one of a metric, or "skip" or "null"."""
    if undefined not in ("zero", "one"):
        return undefined
    aggregate = metric.aggregate if isinstance(metric, Metric) else "mean"
    if aggregate == "sum":  # of counts
        return 0.0
    value = 1.0 if undefined == "one" else 0.0
    if isinstance(metric, Metric) and aggregate == "geometric":  # values are logarithms
        return math.log(max(value, metric.arguments.get("floor", 1e-5)))
    return value


def preset_of(name: str) -> Conventions | None:
    """Return the preset with a name such as "LightGBM" or "lightgbm", or None."""
    return _spellings().get(_plain(name))


def undefined_of_renamed(
    undefined: Any, metrics: Sequence[pl.Expr], names: Callable[[str], Iterable[str]]
) -> Any:
    """Return `undefined` for renamed metrics; `names` returns the new names of a column."""
    if not isinstance(undefined, Mapping):
        return undefined
    check_undefined(undefined, metrics)
    columns = [output_name(metric) for metric in metrics]
    found: dict[str, Any] = {}
    for name, value in undefined.items():
        if name not in columns or _metric_name(name) in REGISTER:
            found[name] = value
        if name in columns:
            found |= dict.fromkeys(names(name), value)
    return found


def _check_parameter(key: str, value: object) -> None:
    """Raise `ArgumentError` unless a metric has the parameter and accepts this default."""
    metric, _, parameter = key.rpartition(".")
    definitions = [_definition(metric, "parameters")] if metric else [*REGISTER.values()]
    having = [each for each in definitions if parameter in parameters_of(each)]
    if not having:
        accepted = {name for each in definitions for name in parameters_of(each)}
        raise ArgumentError(
            f"{metric or 'no metric'} has {'no' if metric else 'the'} parameter "
            f"{parameter!r} (`parameters`).{hint(parameter, accepted)}"
        )
    if not metric and len(having) == 1:
        qualified = f"{having[0].__name__}.{parameter}"
        raise ArgumentError(
            f"only one metric has {parameter!r} (`parameters`); write {qualified!r}"
        )
    for each in having:
        check_types(each, {parameter: value})
    checked_parameter(parameter, value)


def _definition(name: str, parameter: str) -> MetricFunction[...]:
    if name not in REGISTER:
        raise ArgumentError(f"unknown metric {name!r} (`{parameter}`).{hint(name, REGISTER)}")
    return REGISTER[name]


#: Tools without a preset, and where they are explained.
_IN_GUIDE = {"recbole": " For RecBole, see the page tasks/recbole of the guide."}


@cache
def _spellings() -> Mapping[str, Conventions]:
    """Return the presets by plain names, such as "lightgbm" and "sklearn"."""
    presets = {_plain(name): each for name, each in _PRESET_OF.items()}
    return {**presets, "treceval": TREC_EVAL, "sklearn": SKLEARN}


def named(conventions: ConventionsLike, parameter: str = "conventions") -> Conventions:
    """Return the preset with a name such as "lightgbm", or the conventions with some fields."""
    if isinstance(conventions, Conventions):
        return conventions
    if isinstance(conventions, Mapping):
        changes = {str(choice): value for choice, value in conventions.items()}
        if "name" in changes:
            raise ArgumentError(
                "has the key 'name', which does not choose a preset; pass the name "
                "by itself, or as 'base' with the fields that differ from it",
                parameter,
            )
        return named(changes.pop("base", POLARS_RANK), parameter).but(**changes)
    preset = preset_of(conventions) if isinstance(conventions, str) else None
    if preset is None:
        known = sorted(_PRESET_OF)
        close = _IN_GUIDE.get(str(conventions).lower(), hint(str(conventions), known))
        raise ArgumentError(
            f"unknown preset {short(conventions)} (`{parameter}`); available: "
            f"{', '.join(known)}.{close}"
        )
    return preset


def read_metrics(
    metrics: Metrics, conventions: ConventionsLike | None = None, parameter: str = "metrics"
) -> list[pl.Expr]:
    """Return metrics as expressions; names that differ between tools follow the conventions."""
    return resolve(
        metrics, named(POLARS_RANK if conventions is None else conventions).name, parameter
    )


def warn_of_uncompared(metrics: Iterable[pl.Expr], conventions: Conventions) -> None:
    """Warn about metrics that no test compares with the tool of a preset."""
    if conventions.name == POLARS_RANK.name or conventions.name not in _PRESET_OF:
        return
    # Most calls have no preset.
    from polars_rank.metrics.compared import COMPARED  # noqa: PLC0415

    compared = COMPARED.get(conventions.name, ())
    named_by_users = (each for each in metrics if not each.meta.output_name().startswith(OWN))
    leaves = [leaf for each in named_by_users if isinstance(each, Metric) for leaf in each.leaves]
    # A tool cannot have the metrics that users define.
    own = [leaf.function for leaf in leaves if leaf.function.__module__.startswith("polars_rank.")]
    names = dict.fromkeys(function.__name__ for function in own)
    unknown = [name for name in names if name in REGISTER and name not in compared]
    if unknown:
        warn(
            f"no test compares {', '.join(map(repr, unknown))} with {conventions.name}, which may "
            "define it differently, or not at all"
        )


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


#: Choices that `exceptions` cannot change.
_WITHOUT_EXCEPTIONS = ("name", "query_set", "counts", "undefined", "exceptions")

#: The lowest float above 0.5.
_OVER_HALF = math.nextafter(0.5, 1)

POLARS_RANK = Conventions()


def _preset(**choices: Any) -> Conventions:
    """Return conventions without the checks of a call, which take time in each import."""
    preset = object.__new__(Conventions)
    vars(preset).update({**vars(POLARS_RANK), **choices})
    return preset


def lowest_relevant(rel: float | None) -> float:
    """Return the lowest relevant label, by default that of polars_rank."""
    return POLARS_RANK.rel if rel is None else threshold("rel", rel)


#: trec_eval 10 with `-c`: topics missing from the run count as 0.
TREC_EVAL = _preset(
    name="trec_eval 10", ties="doc", text_ids=True, undefined={"yaap": "zero", "unjudged": "zero"},
    query_set="judged", gain_from=0,
    parameters={"rounding": "nearest", "rbp.p": 0.9, "rbp_residual.p": 0.9},
)  # fmt: skip

#: trec_eval 9 and pytrec_eval, which is built on it: topics in both files.
TREC_EVAL_9 = _preset(
    name="trec_eval 9", ties="doc", text_ids=True, undefined={"yaap": "zero"}, query_set="both",
    float32_scores=True, gain_from=0, parameters={"rounding": "up"},
)  # fmt: skip

#: Intent-aware metrics that ndeval, and ir_measures after it, compute.
_OF_NDEVAL = (
    *("alpha_dcg", "alpha_ndcg", "err_ia", "nerr_ia", "nrbp", "nnrbp"),
    *("ap_ia", "precision_ia", "subtopic_recall"),
)
_NDEVAL_NORM = {f"{name}.norm": "ndeval" for name in ("alpha_dcg", "err_ia")}

#: ndeval as pyndeval calls it, which orders tied documents by ascending id.
NDEVAL = _preset(
    name="ndeval", ties="doc_ascending", text_ids=True, undefined={"nnrbp": "null"},
    query_set="both", parameters=_NDEVAL_NORM,
)  # fmt: skip

_TIES_OF_IR_MEASURES = {
    "doc_ascending": ("reciprocal_rank@k", "judged", "compat", *_OF_NDEVAL),
    "input": (
        *("rbp", "bpm", "sdcg", "nerr8", "nerr9", "nerr10", "nerr11", "inst", "insq"),
        "pair_accuracy",
    ),
}

#: ir_measures with its default providers, which order tied documents differently.
IR_MEASURES = _preset(
    name="ir_measures", ties="doc", text_ids=True, undefined={"nnrbp": "null"}, query_set="judged",
    float32_scores=True, gain_from=0,
    parameters={"err.max_grade": 4, "judged.depth": "retrieved", "rounding": "up", **_NDEVAL_NORM},
    exceptions={
        "err": {"float32_scores": False},
        **{
            name: {"ties": ties, "float32_scores": False}
            for ties, names in _TIES_OF_IR_MEASURES.items() for name in names
        },
    },
)  # fmt: skip

#: ranx with `make_comparable=True`.
RANX = _preset(
    name="ranx", ties="input", query_set="judged", counts="mean", gain_from=1,
    parameters={"rbp.graded": True},
)  # fmt: skip

SKLEARN = _preset(
    name="scikit-learn", ties="expected",
    undefined={
        "label_ranking_average_precision": "one", "roc_auc": "null", "partial_auc": "null",
        **dict.fromkeys(("pr_auc", "coverage_error", "label_ranking_loss", "mcc"), "zero"),
    },
)  # fmt: skip

#: torchmetrics; its order of tied documents is defined for NDCG only.
TORCHMETRICS = _preset(
    name="torchmetrics", ties="input", undefined={"fall_out": "one", "roc_auc": "zero"},
    float32_scores=True, parameters={"average_precision.norm": "hits"},
    exceptions={"ndcg": {"ties": "expected"}},
)  # fmt: skip

LIGHTGBM = _preset(
    name="LightGBM", ties="input", rel=_OVER_HALF,
    undefined={"average_precision": "one", "ndcg": "one", "roc_auc": "one"},
    parameters={"gain": "exp2", "average_precision.norm": "min"},
)  # fmt: skip

XGBOOST = _preset(
    name="XGBoost", ties="input",
    undefined={"average_precision": "one", "ndcg": "one", "precision": "one"}, float32_scores=True,
    parameters={"gain": "exp2", "average_precision.norm": "min", "precision.depth": "retrieved"},
)  # fmt: skip

CATBOOST = _preset(
    name="CatBoost", ties="worst", rel=_OVER_HALF,
    undefined={"ndcg": "one", "recall": "one", "roc_auc": "zero"},
    parameters={"average_precision.norm": "min"},
)  # fmt: skip

#: Choices of tools that know relevant documents, without grades, and average over the queries or
#: users with a relevant document.
_OF_BINARY = {"gain": "binary", "precision.irrelevant": "null"}

#: RecTools. NDCG is divided by the DCG of k relevant documents. A document that is not in the
#: training log counts as a document of one user. A ranking of one document has the diversity 0.
RECTOOLS = _preset(
    name="RecTools", ties="input", undefined="skip",
    parameters={
        **_OF_BINARY, "ndcg.ideal": "full", "novelty.unknown": "max",
        "intra_list_diversity.single": 0.0,
    },
)  # fmt: skip

#: RePlay, for data frames. Surprisal and Unexpectedness are divided by k, also if a ranking is
#: shorter; "Novelty" is the share of unseen documents.
REPLAY = _preset(
    name="RePlay", ties="doc", undefined="skip",
    parameters={
        **_OF_BINARY, "average_precision.norm": "min", "surprisal.unknown": "max",
        "surprisal.depth": "k", "unexpectedness.depth": "k",
    },
)  # fmt: skip

#: LensKit. Its discount is 1 / log2(max(rank, 2)). The similarity within a ranking of one document
#: is 1, so that its diversity is 0. Means are over the rankings that have a value.
LENSKIT = _preset(
    name="LensKit", ties="input", undefined="skip",
    parameters={
        "gain": "binary", "discount": jarvelin(2), "average_precision.norm": "retrieved",
        "dcg.irrelevant": "null", "rbp.irrelevant": "null", "intra_list_diversity.single": 0.0,
        "precision.depth": "retrieved", "rbp.p": 0.85,
    },
)  # fmt: skip

#: Evidently, which knows the labels of retrieved documents only. Documents that are not in the
#: training log are left out.
EVIDENTLY = _preset(
    name="Evidently", ties="input", undefined="skip", query_set="retrieved",
    parameters={
        "ndcg.ideal": "retrieved", "precision.depth": "retrieved", "precision.irrelevant": "null",
        "novelty.unknown": "skip", "popularity.unknown": "skip",
    },
)  # fmt: skip

#: The ranking evaluation API of Elasticsearch, `_rank_eval`, for hits down to the given cutoff.
ELASTICSEARCH = _preset(
    name="Elasticsearch", ties="input",
    parameters={"gain": "exp2", "ndcg.depth": "retrieved", "precision.depth": "retrieved"},
)  # fmt: skip

#: The evaluator of sentence-transformers, which knows relevant documents without grades and counts
#: only queries with a relevant document.
SENTENCE_TRANSFORMERS = _preset(
    name="sentence-transformers", ties="doc_ascending", undefined="skip",
    parameters={**_OF_BINARY, "average_precision.norm": "min"},
)  # fmt: skip

#: Retrieval tasks of MTEB, by pytrec_eval; MRR compares scores with 64 bits.
MTEB = _preset(
    **vars(TREC_EVAL_9)
    | {"name": "MTEB", "exceptions": {"reciprocal_rank": {"float32_scores": False}}}
)

#: The evaluator of pyvespa, which keeps the order of hits and counts only queries with a relevant
#: document.
VESPA = _preset(
    name="Vespa", ties="input", undefined="skip",
    parameters={"average_precision.norm": "min", "precision.irrelevant": "null"},
)  # fmt: skip

#: The scorers of Quepid, for a scale from 0 to 3. The ideal of `ndcg@10` is not cut at 10; that of
#: `ndcg_cut@10` is. Queries without results or ratings do not count.
QUEPID = _preset(
    name="Quepid", ties="input", query_set="both", undefined={"average_precision": "skip"},
    parameters={
        "gain": "exp2", "cg.gain": "linear", "ndcg.ideal": "all", "precision.depth": "retrieved",
        "err.max_grade": 3,
    },
)  # fmt: skip

PRESETS = (
    TREC_EVAL, TREC_EVAL_9, IR_MEASURES, NDEVAL, RANX, SKLEARN, TORCHMETRICS, LIGHTGBM, XGBOOST,
    CATBOOST, RECTOOLS, REPLAY, LENSKIT, EVIDENTLY, ELASTICSEARCH, SENTENCE_TRANSFORMERS, MTEB,
    VESPA, QUEPID,
)  # fmt: skip

_PRESET_OF = {each.name: each for each in (POLARS_RANK, *PRESETS)}


def __dir__() -> list[str]:
    return __all__
