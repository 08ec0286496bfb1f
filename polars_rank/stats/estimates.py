"""Estimates of means and differences from moments, and from predictions, ready for inference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.groups import Facts
from polars_rank.stats.inference import NONE, SAME, TANGO, WILSON, ZERO, Inference, T
from polars_rank.stats.kernel import (
    ONE_UNIT,
    ROUNDING,
    TWO_UNITS,
    Moments,
    degrees_of_freedom,
    two_sided,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Below this p-value, judged queries are not a random sample.
_SELECTIVE = 0.001


@dataclass(frozen=True)
class Judged:
    """Estimates from values by people for some queries and by a judge for all, as arrays.

    For n queries that people judged, with the values H and J by people and by the judge, and N
    other queries with values J only, the estimate is

        mean(H - λJ over the judged queries) + λ · mean(J over the others)

    (Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023). It is
    unbiased for any λ if the judged queries are a random sample. The best λ is
    cov(H, J) / ((1 + n/N) · var(J)).
    """

    value: Array
    error: Array
    #: Kish's effective number of units that people judged.
    units: Array
    #: The effective number of units for proportions.
    proportion_units: Array
    #: λ
    judge_weight: Array
    #: The number of judged queries alone that would give the same standard error.
    effective_queries: Array
    #: Whether the judge's mean differs between judged and other queries with p < 0.001.
    is_selective: Array

    @classmethod
    def of(cls, m: Moments) -> Judged:
        """Return the estimates from the moments of `PREDICTED`."""
        np = numpy()
        n, others, a, b = m["nw"], m["nv"], m["Ww"], m["Wv"]
        units, of_others = m.effective("w"), m.effective("v")
        judge, other = m["mj"], np.where(others > 0, m["mo"], 0.0)
        middle = (a * judge + b * other) / (a + b)
        between = a * (judge - middle) ** 2 + b * (other - middle) ** 2
        squares = m["rjj"] + m["roo"] + between
        variance = squares / (a + b) * (n + others) / (n + others - 1)
        slope = m["rdj"] / a / ((1 + n / others) * variance)
        known = (n > 0) & (others > 0) & (variance > 0)
        weight = np.where(known, np.clip(slope, 0.0, 1.0), 0.0)
        alone = np.where(units > ONE_UNIT, m["dd"] / a**2 * units / (units - 1), np.nan)
        residual = m["dd"] - 2 * weight * m["dj"] + weight**2 * m["jj"]
        crossed = 2 * weight * (m["do"] - weight * m["jo"]) / (a * b)
        factor = np.where(units > TWO_UNITS, units / (units - 2), np.nan)
        of_other = np.where(
            of_others > ONE_UNIT, m["oo"] / b**2 * of_others / (of_others - 1), variance / others
        )
        square = (residual / a**2 + crossed) * factor + weight**2 * of_other
        # Few queries on which the judge is right do not show that it always is: for
        # proportions, half a query is added on which it is wrong, in each direction.
        half = 0.5 / units**2
        of_human = (m["dd"] / a**2 + half) * units / (units - 1)
        proportion = units * of_human / (square + half * (1 + weight**2) * factor)
        used = weight > 0
        value = np.where(used, m["md"] + weight * (other - judge), m["md"])
        square = np.maximum(np.where(used, square, alone), 0.0)
        error = np.sqrt(square)
        size = np.sqrt(m["rdd"] / a) + np.abs(m["md"])
        error = np.where(error * np.sqrt(np.maximum(units - 1, 1.0)) <= ROUNDING * size, 0.0, error)
        apart = np.sqrt(m["jj"] / a**2 + m["oo"] / b**2)
        p_values = two_sided(units - 1, np.abs(judge - other) / apart)
        return cls(
            value, error, units, np.where(used, np.fmax(units, proportion), units), weight,
            np.where(square > 0, n * alone / square, np.nan),
            (others > 0) & (apart > 0) & (p_values < _SELECTIVE),
        )  # fmt: skip


@dataclass(frozen=True)
class Predicted(Judged):
    """An estimate with predictions, and what its interval needs besides moments."""

    others: float
    degrees: float
    acceleration: float
    influence: Array


def predicted(sums: Mapping[str, float], letters: Mapping[str, Array]) -> Predicted:
    """Return the estimate from the moments of `PREDICTED` and the letters of the units."""
    np = numpy()
    judged = {name: each.item() for name, each in vars(Judged.of(Moments([sums]))).items()}
    weight, a, b = judged["judge_weight"], sums["Ww"], sums["Wv"]
    residuals = letters["d"] - weight * letters["j"]
    influence = residuals / (a or 1.0) + (weight * letters["o"] / b if weight else 0.0)
    squared = residuals * residuals
    fourth = float(squared @ squared)
    shape = float(squared.sum()) ** 2 / fourth if fourth else np.nan
    degrees = degrees_of_freedom(*map(np.array, (sums["uw"], judged["units"], shape)))
    total = float(influence @ influence)
    skewed = float(influence @ (influence * influence)) / total**1.5 / 6 if total else 0.0
    degrees = float(degrees) - (weight > 0)
    return Predicted(**judged, others=sums["nv"], degrees=degrees, acceleration=skewed,
                     influence=influence)  # fmt: skip


def inference_of(
    moments: Moments,
    facts: Sequence[Facts],
    *,
    differences: bool,
    weighted: bool,
    known: Array = True,
    predictions: Sequence[Predicted] = (),
) -> Inference:
    """Return the estimates with the method of each row; only the rows `known` have an interval."""
    np = numpy()
    value, error, degrees = moments["md"].copy(), moments.error, moments.degrees
    acceleration, effective = moments.acceleration, moments.effective()
    rows = moments["nw"]
    spread = moments["rdd"] / moments["Ww"]
    share_degrees = np.full(value.shape, np.inf)
    units = rows.copy()
    if weighted:
        share_degrees = effective - 1
        found = spread / error**2
        units = np.clip(np.where(error > 0, found, effective), effective, rows)
    if predictions:
        fields = ("value", "error", "degrees", "acceleration", "proportion_units", "judge_weight")
        value, error, degrees, acceleration, units, weights = (
            np.array([getattr(each, name) for each in predictions], dtype=float) for name in fields
        )
        if not differences:
            share_degrees = np.where(weights > 0, degrees, share_degrees)
    discordant = np.maximum(spread + value**2, np.abs(value))
    is_binary = np.array([each.is_binary for each in facts], dtype=bool)
    size = np.array([each.range for each in facts], dtype=float)
    several = known & (effective > ONE_UNIT) & (rows > 1)
    varies = several & (error > 0)
    method = np.where(varies, T, NONE).astype(object)
    if differences:
        nothing = np.abs(value) <= ROUNDING * moments.size
        method[several & (error == 0) & nothing] = ZERO
        method[several & (error == 0) & ~nothing] = SAME
        method[several & is_binary & (discordant > 0)] = TANGO
        same = (method == ZERO) | (method == SAME)
        units = np.where(same, np.where(method == SAME, moments["uw"], effective), units)
    else:
        method[several & is_binary] = WILSON
    return Inference(
        value, error, degrees, acceleration, method, units, share_degrees, discordant, size
    )
