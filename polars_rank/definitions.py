"""One metric with all its choices, as a value, and choices in words."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from inspect import Parameter
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


#: Values of choices in words. Other values are shown as written. Choices that the library does not
#: have are at the end of their list.
TEXTS: dict[str, dict[Any, str]] = {
    "ties": {
        None: "by document id, descending; without ids, lowest label first",
        "doc": "by document id, descending",
        "doc_ascending": "by document id, ascending",
        "best": "highest label first",
        "worst": "lowest label first",
        "input": "in the order of the rows",
        "expected": "exact mean over all orders",
        "reversed": "in the reverse of the order of the rows",
    },
    "query_set": {
        "all": "all",
        "judged": "with at least one judged document, retrieved or not",
        "retrieved": "with at least one retrieved document",
        "both": "with at least one judged and at least one retrieved document",
    },
    "unjudged": {
        "nonrelevant": "not relevant, without gain; they keep their rank",
        "removed": "removed before documents are ranked",
    },
    "duplicates": {
        "error": "an error",
        "max": "the row with the highest score is kept",
        "first": "the first row is kept",
        "credited": "each copy counts again",
        "uncredited": "copies keep their rank and are not relevant",
        "separate": "each copy counts as another document with the same label",
    },
    "undefined": {
        "skip": "excluded from the mean",
        "null": "makes the mean null",
        "zero": "counts as 0",
        "one": "counts as 1",
        "empty": "counts as 1 if nothing was retrieved either, otherwise as 0",
    },
    "aggregate": {
        "mean": "mean over queries",
        "sum": "sum over queries",
        "geometric": "geometric mean over queries",
    },
    "gain": {
        "linear": "the label",
        "exp2": "2^label - 1",
        "binary": "1 for labels of 1 or more, otherwise 0",
        "positive": "1 for labels above 0, otherwise 0",
    },
    "discount": {
        "log2": "1 / log2(rank + 1)",
        "log": "1 / ln(rank + 1)",
        "jarvelin": "1 / log2(rank), and 1 at rank 1",
        "reciprocal": "1 / rank",
        "log2(rank + 2)": "1 / log2(rank + 2)",
    },
    "ideal": {
        "judged": "of all judged documents, retrieved or not",
        "all": "of all judged documents, retrieved or not, without the cutoff",
        "retrieved": "of the retrieved documents only",
        "full": "k documents with gain 1, even if fewer are judged",
        "cut": "of the first k retrieved documents only",
    },
    "norm": {
        "R": "number of relevant documents",
        "min": "the smaller of k and the number of relevant documents",
        "retrieved": "the smallest of k and the numbers of relevant and retrieved documents",
        "hits": "number of relevant documents among the first k",
        "full": "the value of documents that are each relevant to every subtopic",
        "none": "none",
        "ndeval": (
            "the value of documents that are each relevant to every subtopic; none at cutoff 1"
        ),
        "k": "k",
    },
    "depth": {
        None: "k",
        "k": "k",
        "retrieved": "the smaller of k and the number of retrieved documents",
    },
    "float32_scores": {False: "compared as 64-bit floats", True: "compared as 32-bit floats"},
    "text_ids": {False: "compared by their type", True: "compared as text"},
    "gain_from": {None: "any"},
    "decimals": {None: "not rounded"},
    "rounding": {
        "up": "number of hits is recall x R + 0.9, truncated",
        "nearest": "number of hits is recall x R, rounded",
    },
}

#: Choices in words, where their names are not.
TITLES = {
    "ties": "tied scores", "rel": "relevant", "k": "cutoff", "unjudged": "unjudged documents",
    "duplicates": "duplicate documents", "undefined": "undefined values", "query_set": "queries",
    "float32_scores": "scores", "text_ids": "document ids", "decimals": "values of queries",
    "gain_from": "lowest label with a gain", "irrelevant": "without relevant documents",
    "short": "rankings shorter than k", "norm": "divisor", "depth": "divisor",
    "ideal": "ideal ranking", "rounding": "recall level", "subtopics": "column of subtopics",
    "grades": "column of grades of subtopics", "weights": "column of weights of subtopics",
}  # fmt: skip

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
