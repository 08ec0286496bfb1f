"""One metric with all its choices, as a value, and choices in words."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from inspect import Parameter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank.conventions import counted_as
from polars_rank.errors import ArgumentError
from polars_rank.metrics.analyses import reads_labels, reads_order
from polars_rank.metrics.expectations import has_expectation
from polars_rank.metrics.metric import Metric, parameters_of, tree_of, written
from polars_rank.metrics.names import naming, output_name, read

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.columns import Columns
    from polars_rank.conventions import Conventions, Duplicates, Ties, Undefined, Unjudged

#: The largest 32-bit float.
LARGEST_32 = (2 - 2**-23) * 2.0**127

_TEXT_IDS = pl.String()
#: Fields of conventions that a metric has in other ways.
_NO_CHOICES = ("name", "parameters", "exceptions")


class Ordering(NamedTuple):
    """What orders the documents of a ranking, and which of them are relevant."""

    ties: Ties | None = None
    rel: float = 1
    unjudged: Unjudged = "nonrelevant"
    float32_scores: bool = False
    text_ids: bool = False
    duplicates: Duplicates = "error"

    @classmethod
    def of(cls, own: Conventions) -> Ordering:
        """Return the ordering by the conventions of a metric."""
        # The mean over all orders does not depend on the order; "worst" needs no document ids.
        ties: Ties | None = "worst" if own.ties == "expected" else own.ties
        return cls(ties, own.rel, own.unjudged, own.float32_scores, own.text_ids, own.duplicates)

    def score(self, columns: Columns) -> pl.Expr:
        """Return the score that ranks documents; null if a document is not retrieved."""
        score = columns.number(columns.score)
        if self.float32_scores:
            # A score must not become infinite: -inf is the score of documents not retrieved.
            score = score.cast(pl.Float64).clip(-LARGEST_32, LARGEST_32).cast(pl.Float32)
        if self.unjudged == "removed":
            # The row remains, so that a ranking that loses all its documents counts.
            score = pl.when(pl.col(columns.label).is_not_null()).then(score)
        return score


@dataclass(frozen=True, eq=False)
class Definition:
    """One metric with all its choices, and its column in the per-query table."""

    name: str
    #: The metric as it was given.
    given: pl.Expr
    #: The metric with the parameters that the conventions set.
    metric: pl.Expr
    #: The conventions of the metric, without exceptions.
    conventions: Conventions
    #: What null counts as in means: a number, "skip" or "null". The leaves of an expression are
    #: filled, so that its nulls are of rankings for which it does not count.
    counts_as: float | Undefined

    @classmethod
    def of(cls, metric: pl.Expr, conventions: Conventions) -> Definition:
        """Return the definition of a metric under conventions."""
        applied = conventions.apply(metric) if isinstance(metric, Metric) else metric
        return cls(
            output_name(metric), metric, conventions.filled(applied), conventions.of(metric),
            counted_as(conventions.counts_as(metric), metric),
        )  # fmt: skip

    def but(self, **choices: Any) -> Definition:
        """Return the definition with other parameters of the metric, or other conventions.

        Raises
        ------
        ArgumentError
            If the library does not have a choice.
        """
        metric = self.given
        leaves = metric.leaves if isinstance(metric, Metric) else []
        names = {name for leaf in leaves for name in parameters_of(leaf)}
        parameters = {name: choices.pop(name) for name in [*choices] if name in names}

        def changed(leaf: Metric) -> Metric:
            known = parameters_of(leaf)
            return leaf.but(**{name: value for name, value in parameters.items() if name in known})

        if isinstance(metric, Metric):
            metric = metric.with_leaves(changed)
        found = Definition.of(metric.alias(self.name), replace(self.conventions, **choices))
        _ = tree_of(found.metric)  # checks the parameters
        if found.conventions.ties == "expected" and not has_expectation(found.metric):
            raise ArgumentError(f"no closed form is known for {metric} with ties='expected'")
        return found

    @property
    def function(self) -> str:
        """The name of a single metric without parameters."""
        metric: Any = self.metric
        return str(metric.function.__name__)

    @property
    def plain(self) -> Metric:
        """The single metric with the parameters that the conventions set, but for `gain_from`."""
        metric: Any = self.given
        return replace(self.conventions, gain_from=None).apply(metric)

    def choices(self, ids: pl.DataType | None = _TEXT_IDS) -> dict[str, Any]:
        """Return all choices of a single metric, in the order in which they are switched.

        Gains and discounts are names, if they have one. `ids` is the type of document ids, if there
        are any.
        """
        own, metric = self.conventions, self.plain
        accepted = parameters_of(metric)
        parameters = {
            name: value
            for name, value in {**accepted, **metric.arguments}.items()
            if value is not Parameter.empty
        }
        for name in parameters.keys() & {"gain", "discount"}:
            text = value_text(name, parameters[name])
            if text in TEXTS[name]:  # other functions remain
                parameters[name] = text
        if parameters.get("rel", 0) is None:
            parameters["rel"] = own.rel
        return {
            "float32_scores": own.float32_scores,
            "ties": own.ties or ("worst" if ids is None else "doc"),
            **({} if ids in (None, pl.String) else {"text_ids": own.text_ids}),
            "unjudged": own.unjudged,
            "duplicates": own.duplicates,
            **({"rel": parameters["rel"]} if "rel" in parameters else {}),
            **parameters,
            **({"gain_from": own.gain_from} if "gain" in accepted else {}),
            "undefined": own.counts_as(self.given),
            "query_set": own.query_set,
            **({"counts": own.counts} if metric.aggregate == "sum" else {}),
        }

    def items(self) -> dict[str, str]:
        """Return all choices as sorted text: the key of the definition, which a file stores."""
        own, metric = self.conventions, self.metric
        if isinstance(metric, Metric) and not metric.parts:
            text, choices = self.function, self.choices()
        else:
            text = str(metric) if isinstance(metric, Metric) else self.name
            choices = {**vars(own), "undefined": own.counts_as(self.given)}
            choices = {name: each for name, each in choices.items() if name not in _NO_CHOICES}
        texts = {name: value_text(name, value) for name, value in sorted(choices.items())}
        return {"metric": text, **texts}

    @property
    def ordering(self) -> Ordering:
        """What orders the documents."""
        return Ordering.of(self.conventions)

    @property
    def reads_labels(self) -> bool:
        """Whether the metric or a convention reads labels."""
        own = self.conventions
        by_convention = own.unjudged != "nonrelevant" or own.query_set not in ("all", "retrieved")
        return by_convention or reads_labels(tree_of(self.metric))

    @property
    def breaks_ties_by_id(self) -> bool:
        """Whether the ids of tied documents, if there are ids, change the value."""
        return (
            self.conventions.ties in (None, "doc", "doc_ascending")
            and isinstance(self.metric, Metric)
            and reads_order(self.metric.tree)
        )

    @property
    def counted(self) -> pl.Expr:
        """The values of the per-query table as they enter means; null does not count."""
        value = pl.col(self.name)
        return value.fill_null(self.counts_as) if isinstance(self.counts_as, float) else value


def one_metric(metric: str | pl.Expr, name: str = "polars_rank") -> Metric:
    """Return the metric of the parameter `metric`, read as the conventions of a name mean it."""
    with naming("metric"):
        parsed = read(metric, name) if isinstance(metric, str) else metric
    if not isinstance(parsed, Metric) or parsed.parts:
        text = str(metric) if isinstance(metric, pl.Expr) else repr(metric)
        raise ArgumentError(f"must be the name of a metric, or one metric; found {text}", "metric")
    return parsed


_WORDS = json.loads(Path(__file__).with_name("choices.json").read_text("utf-8"))
_VALUES = {"None": None, "False": False, "True": True}
#: Values of choices in words. Other values are shown as written. Choices that the library does not
#: have are at the end of their list.
TEXTS: dict[str, dict[Any, str]] = {
    choice: {_VALUES.get(value, value): text for value, text in texts.items()}
    for choice, texts in _WORDS["values"].items()
}
#: Choices in words, where their names are not.
TITLES: dict[str, str] = _WORDS["choices"]

#: Values of choices that tools are known to have.
ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "gain": ("linear", "exp2", "binary"), "gain_from": (None, 0, 1),
    "discount": ("log2", "jarvelin", "log", "reciprocal", "log2(rank + 2)"),
    "ideal": ("judged", "retrieved", "cut", "all", "full"),
    "norm": ("R", "min", "retrieved", "hits", "k"), "depth": ("k", "retrieved"), "rel": (1, 2),
    "ties": ("input", "reversed", "doc", "doc_ascending", "best", "worst", "expected"),
    "undefined": ("zero", "one", "null", "skip"), "unjudged": ("nonrelevant", "removed"),
    "duplicates": ("error", "max", "first", "credited", "uncredited"),
    "float32_scores": (False, True), "decimals": (None, 2, 3, 4, 5, 6),
}  # fmt: skip


def changes(
    choices: Mapping[str, Any], alternatives: Mapping[str, Sequence[Any]] = ALTERNATIVES
) -> Iterator[dict[str, Any]]:
    """Yield each single change of choices, as the choice and its new value."""
    for choice, values in alternatives.items():
        if choice in choices:
            yield from ({choice: each} for each in values if each != choices[choice])


def words(choice: str, value: Any) -> str:
    """Return the value of a choice in words."""
    if choice == "rel":
        return f"label {threshold_text(value)}"
    if choice == "decimals" and value is not None:
        return f"rounded to {value} decimals"
    return TEXTS.get(choice, {}).get(value) or value_text(choice, value)


def change_text(choice: str, value: Any) -> str:
    """Return a choice and its value in words."""
    return f"{TITLES.get(choice, choice)}: {words(choice, value)}"


def value_text(choice: str, value: Any) -> str:
    """Return the value of a choice as text: a name such as "exp2", or a threshold in words."""
    if choice == "rel":
        return threshold_text(value).removeprefix("of ")
    return written(value).strip("'")


def threshold_text(lowest: float) -> str:
    """Return a threshold in words: "of 1 or more", or "above 0.5" for the next float after 0.5."""
    below = math.nextafter(lowest, -math.inf)
    if len(repr(below)) < len(repr(lowest)):
        return f"above {int(below) if below.is_integer() else below}"
    return f"of {lowest} or more"
