"""Conventions: the choices that make two tools give two numbers for one ranking."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, TypeAlias

from polars_rank.errors import ArgumentError
from polars_rank.metrics.metric import Metric, one_of
from polars_rank.ranking import Ties  # noqa: TC001  (dataclasses read their annotations)

Undefined: TypeAlias = Literal["zero", "skip", "one", "null"]
Queries: TypeAlias = Literal["all", "judged", "retrieved", "both"]
Unjudged: TypeAlias = Literal["nonrelevant", "removed"]

_CHOICES: dict[str, tuple[object, ...]] = {
    "ties": (None, "doc", "doc_ascending", "best", "worst", "input", "expected"),
    "undefined": ("zero", "skip", "one", "null"),
    "queries": ("all", "judged", "retrieved", "both"),
    "unjudged": ("nonrelevant", "removed"),
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
    relevant
        The lowest label that is relevant.
    undefined
        What a metric counts as in the mean where it is undefined for a list: "zero", "one",
        "skip" or "null"; or a mapping from names of metrics to these, with "*" for the rest.
    queries
        Which lists are averaged: "all", those with a "judged" document, those with a
        "retrieved" one, or those with "both".
    unjudged
        Whether retrieved documents without a label are "nonrelevant" or "removed" from the
        list before ranks are given (a condensed list).
    float32_scores
        Whether scores are compared as 32-bit floats.
    parameters
        Defaults for parameters of metrics: `{"gain": "exp2"}` for every metric that has the
        parameter, `{"average_precision.norm": "min"}` for one. What is given to a metric itself
        comes first.

    Raises
    ------
    ArgumentError
        For a choice that does not exist.

    Examples
    --------
    >>> import polars_rank as pr
    >>> pr.Conventions(parameters={"gain": "exp2"}, undefined="one").undefined
    'one'
    """

    name: str = "polars_rank"
    ties: Ties | None = None
    relevant: float = 1
    undefined: Undefined | Mapping[str, Undefined] = "zero"
    queries: Queries = "all"
    unjudged: Unjudged = "nonrelevant"
    float32_scores: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for choice, allowed in _CHOICES.items():
            value = getattr(self, choice)
            for each in value.values() if isinstance(value, Mapping) else (value,):
                one_of(choice, each, allowed)
        if isinstance(self.relevant, bool) or not isinstance(self.relevant, (int, float)):
            message = (
                f"`relevant` must be a number, the lowest relevant label; found {self.relevant!r}"
            )
            raise ArgumentError(message)

    def but(self, **choices: Any) -> Conventions:
        """Return the same conventions with those choices changed that are not None."""
        known = {choice.name for choice in fields(self)}
        given = {key: value for key, value in choices.items() if value is not None and key in known}
        return replace(self, **given) if given else self

    def apply(self, metric: Metric) -> Metric:
        """Return the metric with these conventions' defaults for parameters not given to it."""
        accepted = inspect.signature(metric.function).parameters
        own = f"{metric.function.__name__}."
        general = {key: value for key, value in self.parameters.items() if key in accepted}
        special = {
            key.removeprefix(own): value
            for key, value in self.parameters.items()
            if key.startswith(own)
        }
        if not general and not special:
            return metric
        return metric.with_defaults({**general, **special})

    def counts_as(self, metric: str) -> Undefined:
        """Return what the metric of that name counts as where it is undefined."""
        if isinstance(self.undefined, Mapping):
            return self.undefined.get(metric, self.undefined.get("*", "zero"))
        return self.undefined


POLARS_RANK = Conventions()
