"""Clicks: labels, position bias, counterfactual estimates, and interleaving."""

from polars_rank.clicks.bias import position_bias
from polars_rank.clicks.estimates import estimate
from polars_rank.clicks.interleaving import balanced_interleaving, team_draft
from polars_rank.clicks.interleaving_results import interleaving_result
from polars_rank.clicks.labels import clicked, graded, graded_dwell, satisfied
from polars_rank.clicks.preferences import last_click, skip_above
from polars_rank.clicks.rates import click_through_rates, coec
from polars_rank.clicks.ubi import scan_ubi
from polars_rank.clicks.weights import inverse_propensity

__all__ = [
    "balanced_interleaving",
    "click_through_rates",
    "clicked",
    "coec",
    "estimate",
    "graded",
    "graded_dwell",
    "interleaving_result",
    "inverse_propensity",
    "last_click",
    "position_bias",
    "satisfied",
    "scan_ubi",
    "skip_above",
    "team_draft",
]


def __dir__() -> list[str]:
    return __all__
