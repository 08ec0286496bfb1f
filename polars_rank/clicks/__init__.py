"""Clicks: labels, position bias, counterfactual estimates, and interleaving.

Experimental: names and results may change in a minor version without a deprecation.
"""

from polars_rank.clicks.bias import position_bias
from polars_rank.clicks.click_labels import labels
from polars_rank.clicks.estimates import estimate
from polars_rank.clicks.interleaving import balanced_interleaving, team_draft
from polars_rank.clicks.interleaving_results import interleaving_result
from polars_rank.clicks.preference_pairs import preferences
from polars_rank.clicks.rates import click_through_rates, coec
from polars_rank.clicks.ubi import scan_ubi
from polars_rank.clicks.weights import inverse_propensity

__all__ = [
    "balanced_interleaving",
    "click_through_rates",
    "coec",
    "estimate",
    "interleaving_result",
    "inverse_propensity",
    "labels",
    "position_bias",
    "preferences",
    "scan_ubi",
    "team_draft",
]


def __dir__() -> list[str]:
    return __all__
