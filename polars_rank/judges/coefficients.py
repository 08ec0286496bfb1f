"""Coefficients of agreement, as functions of tables of counts of pairs of grades.

Tables may have any number of leading axes, such as resamples and pairs of judges. Undefined values
are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank.stats.resampling import numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Statistics of any number of judges, and of a judge and a reference, in the order of the result.
OF_ALL = (
    "agreement", "agreement_constant", "alpha_nominal", "alpha_ordinal", "alpha_interval", "ac1",
    "ac2_linear", "ac2_quadratic", "fleiss_kappa",
)  # fmt: skip
OF_PAIRS = (
    *OF_ALL[:2], "kappa", "kappa_linear", "kappa_quadratic", *OF_ALL[2:], "precision", "recall",
    "bias",
)  # fmt: skip

_CELLS = (-2, -1)


def pair_statistics(counts: Any, values: Any, rel: float) -> Mapping[str, Any]:
    """Return the statistics of tables of counts by grade of the reference and of the judge."""
    both = counts + counts.swapaxes(-2, -1)
    number = counts.sum(axis=_CELLS)
    reference, judge = counts.sum(axis=-1), counts.sum(axis=-2)
    distances = _distances(values)
    expected = reference[..., :, None] * judge[..., None, :]
    relevant = values >= rel
    hits = counts[..., relevant, :][..., relevant].sum(axis=_CELLS)
    statistics = {
        **unit_statistics(both / 2, both, values),
        "agreement_constant": _ratio(reference.max(axis=-1), number),
        **{
            name: _beyond_chance(
                _ratio((counts * distance).sum(axis=_CELLS), number),
                _ratio((expected * distance).sum(axis=_CELLS), number**2),
            )
            for name, distance in zip(
                ("kappa", "kappa_linear", "kappa_quadratic"), distances, strict=True
            )
        },
        "precision": _ratio(hits, judge[..., relevant].sum(axis=-1)),
        "recall": _ratio(hits, reference[..., relevant].sum(axis=-1)),
        "bias": _ratio((judge - reference) @ values, number),
    }
    return {name: statistics[name] for name in OF_PAIRS}


def unit_statistics(pairs: Any, coincidences: Any, values: Any) -> Mapping[str, Any]:
    """Return the statistics of several judges from sums over documents, see `unit_sums`."""
    number, shares = pairs.sum(axis=_CELLS), pairs.sum(axis=-1)
    nominal, linear, quadratic = _distances(values)
    labels = coincidences.sum(axis=-1)
    total = labels.sum(axis=-1)
    middle = labels.cumsum(axis=-1) - labels / 2
    ordinal = (middle[..., :, None] - middle[..., None, :]) ** 2
    different = labels[..., :, None] * labels[..., None, :]
    prevalence = _ratio(shares, number[..., None])
    squares = prevalence[..., :, None] * prevalence[..., None, :]
    largest = values[-1] - values[0]
    weighted = {"ac1": nominal, "ac2_linear": linear, "ac2_quadratic": quadratic}
    maxima = {"ac1": 1.0, "ac2_linear": largest, "ac2_quadratic": largest**2}
    return {
        "agreement": _ratio((pairs * (1 - nominal)).sum(axis=_CELLS), number),
        "agreement_constant": prevalence.max(axis=-1),
        **{
            f"alpha_{name}": _beyond_chance(
                _ratio((coincidences * distance).sum(axis=_CELLS), total),
                _ratio((different * distance).sum(axis=_CELLS), total * (total - 1)),
            )
            for name, distance in (
                ("nominal", nominal), ("ordinal", ordinal), ("interval", quadratic)
            )
        },
        **{
            name: _gwet(_ratio(pairs, number[..., None, None]), prevalence, distance, maxima[name])
            for name, distance in weighted.items()
        },
        "fleiss_kappa": _beyond_chance(
            _ratio((pairs * nominal).sum(axis=_CELLS), number),
            (squares * nominal).sum(axis=_CELLS),
        ),
    }  # fmt: skip


def _distances(values: Any) -> tuple[Any, Any, Any]:
    """Return the nominal, linear and quadratic distances between grades."""
    linear = abs(values[:, None] - values[None, :])
    return (linear > 0).astype(float), linear, linear**2


def _gwet(pairs: Any, prevalence: Any, distance: Any, largest: float) -> Any:
    """Return AC1 or AC2; its chance agreement depends on the number of categories."""
    np = numpy()
    number = len(distance)
    if number == 1:
        return np.full(prevalence.shape[:-1], np.nan)
    weights = 1 - distance / largest
    varied = (prevalence * (1 - prevalence)).sum(axis=-1)
    chance = weights.sum() * varied / (number * (number - 1))
    return _beyond_chance((pairs * distance).sum(axis=_CELLS) / largest, 1 - chance)


def _beyond_chance(observed: Any, expected: Any) -> Any:
    """Return 1 minus the ratio of observed and expected disagreement."""
    return 1 - _ratio(observed, expected)


def _ratio(numerator: Any, denominator: Any) -> Any:
    """Return a ratio, NaN if the denominator is 0."""
    np = numpy()
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    quotient = np.full(shape, np.nan)
    return np.divide(numerator, denominator, out=quotient, where=denominator > 0)
