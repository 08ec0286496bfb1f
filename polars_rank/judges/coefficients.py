"""Coefficients of agreement, as functions of tables of counts of pairs of grades.

Tables may have any number of leading axes, such as resamples and pairs of judges. Undefined values
are NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_rank.stats._arrays import Array, numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Statistics of any number of judges, and of a judge and a reference, in the order of the result.
OF_ALL = ("agreement", "alpha_ordinal", "ac2_quadratic")
OF_PAIRS = ("agreement", "kappa", "kappa_quadratic", "alpha_ordinal", "ac2_quadratic", "bias")

_CELLS = (-2, -1)


def pair_statistics(counts: Array, values: Array) -> Mapping[str, Array]:
    """Return the statistics of tables of counts by grade of the reference and of the judge."""
    both = counts + counts.swapaxes(-2, -1)
    number = counts.sum(axis=_CELLS)
    reference, judge = counts.sum(axis=-1), counts.sum(axis=-2)
    chance = reference[..., :, None] * judge[..., None, :]
    squares = _squares(values)
    statistics = {
        **unit_statistics(both / 2, both, values),
        **{
            name: _beyond_chance(
                _ratio((counts * distance).sum(axis=_CELLS), number),
                _ratio((chance * distance).sum(axis=_CELLS), number**2),
            )
            for name, distance in (("kappa", squares > 0), ("kappa_quadratic", squares))
        },
        "bias": _ratio((judge - reference) @ values, number),
    }
    return {name: statistics[name] for name in OF_PAIRS}


def unit_statistics(pairs: Array, coincidences: Array, values: Array) -> Mapping[str, Array]:
    """Return the statistics of several judges from sums over documents, see `unit_sums`."""
    number = pairs.sum(axis=_CELLS)
    equal = pairs.diagonal(axis1=-2, axis2=-1).sum(axis=-1)
    labels = coincidences.sum(axis=-1)
    total = labels.sum(axis=-1)
    middle = labels.cumsum(axis=-1) - labels / 2
    ordinal = (middle[..., :, None] - middle[..., None, :]) ** 2
    different = labels[..., :, None] * labels[..., None, :]
    return {
        "agreement": _ratio(equal, number),
        "alpha_ordinal": _beyond_chance(
            _ratio((coincidences * ordinal).sum(axis=_CELLS), total),
            _ratio((different * ordinal).sum(axis=_CELLS), total * (total - 1)),
        ),
        "ac2_quadratic": _ac2(pairs, number, _squares(values)),
    }


def _ac2(pairs: Array, number: Array, squares: Array) -> Array:
    """Return AC2; its chance agreement depends on the number of categories."""
    np = numpy()
    categories = len(squares)
    if categories == 1:
        return np.full(number.shape, np.nan)
    distance = squares / squares.max()
    prevalence = _ratio(pairs.sum(axis=-1), number[..., None])
    varied = (prevalence * (1 - prevalence)).sum(axis=-1)
    chance = (1 - distance).sum() * varied / (categories * (categories - 1))
    return _beyond_chance(_ratio((pairs * distance).sum(axis=_CELLS), number), 1 - chance)


def _squares(values: Array) -> Array:
    """Return the squared distances between grades."""
    return (values[:, None] - values[None, :]) ** 2


def _beyond_chance(observed: Array, expected: Array) -> Array:
    """Return 1 minus the ratio of observed and expected disagreement."""
    return 1 - _ratio(observed, expected)


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Return a ratio, NaN if the denominator is 0."""
    np = numpy()
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    quotient = np.full(shape, np.nan)
    return np.divide(numerator, denominator, out=quotient, where=denominator > 0)
