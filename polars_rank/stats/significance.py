"""Significance tests of paired differences, and corrections for multiple tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeAlias

from polars_rank.stats.intervals import Alternative, special, stats, t_width
from polars_rank.stats.proportions import score_test, tango
from polars_rank.stats.resampling import RESIDUE, all_sign_sums, numpy, poisson_sums, sign_sums
from polars_rank.stats.sequences import ConfidenceSequence

Test: TypeAlias = Literal["auto", "t", "randomization", "bootstrap", "wilcoxon", "sign"]
Correction: TypeAlias = Literal["holm", "bh", "bonferroni", "none"]
Bounds: TypeAlias = "tuple[float | None, float | None]"

#: Up to this many differences, the randomization test enumerates all signs.
_MAX_ENUMERATED = 16
#: Sums that differ by less, relative to their size, are equal up to rounding.
_ROUNDING = 1e-12

_UNKNOWN: Bounds = (None, None)


class Result(NamedTuple):
    """The p-value of a test, None where it is undefined, and its confidence interval."""

    p_value: float | None
    #: Method of the interval.
    interval: str
    #: The bounds, as a function of the confidence level.
    bounds: Callable[[float], Bounds]


class Sample(NamedTuple):
    """Statistics of a sample of differences."""

    mean: float | None
    std_error: float | None
    #: The effective number of units.
    effective: float
    #: The numbers of differences above and below 0.
    above: int
    below: int
    #: The share of differences that are not 0, if all values are 0 or 1.
    discordant: float | None = None
    #: The differences and the keys of their queries, if the test needs them.
    values: Any = None
    keys: Any = None
    #: The sums of the empirical Bernstein sequence, if it has bounds.
    sums: Any = None
    #: The mean difference under the null hypothesis.
    null: float = 0.0


@dataclass(frozen=True)
class Testing:
    """Parameters of the tests of differences."""

    test: Test
    alternative: Alternative
    confidence: float
    n_resamples: int
    seed: int
    #: The confidence sequence, if there is one instead of a test of a fixed number of queries.
    sequence: ConfidenceSequence | None = None

    def directed(self, alternative: Alternative) -> Testing:
        """Return the tests of another alternative."""
        sequence = self.sequence
        if sequence is not None:
            sequence = replace(sequence, alternative=alternative)
        return replace(self, alternative=alternative, sequence=sequence)

    def __call__(self, samples: Sequence[Sample]) -> list[Result]:
        """Test each sample; consecutive samples of the same queries share their resamples."""
        sums = self._all_sums(samples)
        return [self._result(sample, each) for sample, each in zip(samples, sums, strict=True)]

    def _all_sums(self, samples: Sequence[Sample]) -> list[Any]:
        """Return the resampled sums of each sample, or None if the test needs none."""
        if self.test not in ("randomization", "bootstrap"):
            return [None] * len(samples)
        sums: list[Any] = []
        while len(sums) < len(samples):
            sums += self._resampled_sums(_same_queries(samples[len(sums) :]))
        return sums

    def _resampled_sums(self, samples: Sequence[Sample]) -> list[Any]:
        np = numpy()
        keys = samples[0].keys
        ones = np.ones(len(keys))
        # Squares of deviations do not cancel, as those of the values would.
        off = np.column_stack([sample.values - (sample.mean or 0.0) for sample in samples])
        count = len(samples)
        if self.test == "randomization":
            columns = np.column_stack([ones, off])
            if len(keys) <= _MAX_ENUMERATED:
                sums = np.column_stack([all_sign_sums(column) for column in columns.T])
            else:
                sums = sign_sums(keys, columns, self.n_resamples, self.seed)
            return [(sums[:, 0], sums[:, 1 + i]) for i in range(count)]
        columns = np.column_stack([ones, off, off**2])
        sums = poisson_sums(keys, columns, self.n_resamples, self.seed)
        return [(sums[:, 0], sums[:, 1 + i], sums[:, 1 + count + i]) for i in range(count)]

    def _result(self, sample: Sample, sums: Any) -> Result:
        if self.sequence is not None and self.sequence.bounds is not None:
            return self._bernstein(sample, self.sequence)
        mean, error = sample.mean, sample.std_error
        test: str = self.test
        if test == "auto":
            test = "t" if sample.discordant is None or self.sequence is not None else "tango"
        method = test if test in ("tango", "randomization", "bootstrap") else "t"
        if self.sequence is not None:
            method = self.sequence.method
        if mean is None or error is None or math.isnan(error):
            return Result(None, method, lambda _: _UNKNOWN)
        if test == "tango":
            return self._tango(sample)
        p_value = {
            "t": self._t,
            "sign": self._sign,
            "wilcoxon": self._wilcoxon,
            "randomization": self._randomization,
            "bootstrap": self._bootstrap,
        }[test](sample, sums)
        if mean == sample.null and not error:  # all differences equal the null hypothesis
            p_value = 1.0
        bounds = {
            "randomization": self._randomization_bounds,
            "bootstrap": self._bootstrap_bounds,
        }.get(test, self._t_bounds)

        def at(confidence: float) -> Bounds:
            return self._one_sided(*bounds(sample, sums, confidence)) if error else _UNKNOWN

        return Result(None if p_value is None else min(p_value, 1.0), method, at)

    def _share(self, confidence: float) -> float:
        """Return the probability below the upper bound."""
        return (1 + confidence) / 2 if self.alternative == "two-sided" else confidence

    def _one_sided(self, low: float | None, high: float | None) -> Bounds:
        if low is None or high is None:
            return _UNKNOWN
        return (
            -math.inf if self.alternative == "less" else low,
            math.inf if self.alternative == "greater" else high,
        )

    def _tango(self, sample: Sample) -> Result:
        mean, n, share = float(sample.mean or 0.0), sample.effective, float(sample.discordant or 0)
        wins, losses = n * max(share + mean, 0.0) / 2, n * max(share - mean, 0.0) / 2

        def at(confidence: float) -> Bounds:
            width = NormalDist().inv_cdf(self._share(confidence))
            return self._one_sided(*tango(wins, losses, n, width))

        return Result(score_test(wins, losses, n, sample.null, self.alternative), "tango", at)

    def _bernstein(self, sample: Sample, sequence: ConfidenceSequence) -> Result:
        sums = sample.sums
        if sums is None or not sums["weight"]:
            return Result(None, sequence.method, lambda _: _UNKNOWN)
        return Result(
            sequence.p_value_of(sums, sample.null),
            sequence.method,
            lambda confidence: self._one_sided(*sequence.limits(sums, confidence)),
        )

    def width(self, sample: Sample) -> float | None:
        """Return the half-width of intervals in standard errors; None if the error is unknown."""
        if not sample.std_error or (self.sequence is not None and self.sequence.bounds is not None):
            return None
        return self._width(sample, self.confidence)

    def _width(self, sample: Sample, confidence: float) -> float:
        if self.sequence is not None:
            return self.sequence.width(sample.effective, confidence)
        return t_width(sample.effective, self._share(confidence))

    def _t_bounds(self, sample: Sample, _: Any, confidence: float) -> Bounds:
        mean = float(sample.mean or 0.0)
        width = self._width(sample, confidence) * float(sample.std_error or 0.0)
        return mean - width, mean + width

    def _t(self, sample: Sample, _: Any) -> float | None:
        if not sample.std_error:
            return None
        statistic = _studentized(sample)
        if self.sequence is not None:
            return self.sequence.p_value(sample.effective, statistic)
        if self.alternative == "two-sided":
            statistic = -abs(statistic)
        elif self.alternative == "greater":
            statistic = -statistic
        below = float(special().stdtr(sample.effective - 1, statistic))
        return 2 * below if self.alternative == "two-sided" else below

    def _sign(self, sample: Sample, _: Any) -> float:
        above, below = sample.above, sample.below
        if sample.values is not None:
            above = int((sample.values > sample.null).sum())
            below = int((sample.values < sample.null).sum())
        if above + below == 0:
            return 1.0
        return float(stats().binomtest(above, above + below, alternative=self.alternative).pvalue)

    def _wilcoxon(self, sample: Sample, _: Any) -> float:
        shifted = sample.values - sample.null
        if not shifted.any():
            return 1.0
        return float(stats().wilcoxon(shifted, alternative=self.alternative).pvalue)

    def _randomization(self, sample: Sample, sums: Any) -> float:
        signs, off = sums
        # Differences from the null hypothesis, from deviations from the mean.
        shift = float(sample.mean or 0.0) - sample.null
        shifted = off + shift * signs
        observed = float((sample.values - sample.null).sum())
        slack = _ROUNDING * float(abs(sample.values - sample.null).sum())
        if self.alternative == "two-sided":
            extreme = int((abs(shifted) >= abs(observed) - slack).sum())
        elif self.alternative == "greater":
            extreme = int((shifted >= observed - slack).sum())
        else:
            extreme = int((shifted <= observed + slack).sum())
        if len(sample.values) <= _MAX_ENUMERATED:
            return extreme / len(shifted)
        return (1 + extreme) / (1 + len(shifted))

    def _randomization_bounds(self, sample: Sample, sums: Any, confidence: float) -> Bounds:
        """Return the null hypotheses that the test does not reject.

        Signs are at least as extreme as the observed ones if the mean of the differences with a
        negative sign is on the other side of the null hypothesis; two-sided, also if that of the
        others is. The bounds are order statistics of these means (Hartigan, Using subsample values
        as typical values, 1969).
        """
        np = numpy()
        signs, off = sums
        number, mean = len(sample.values), float(sample.mean or 0.0)
        total = float((sample.values - mean).sum())
        subsets = [((number - signs) / 2, (total - off) / 2)]
        if self.alternative == "two-sided":
            subsets.append(((number + signs) / 2, (total + off) / 2))
        sizes, totals = (np.concatenate(each) for each in zip(*subsets, strict=True))
        means = totals[sizes > 0] / sizes[sizes > 0]
        # A random draw counts the observed signs, too.
        observed = 0 if number <= _MAX_ENUMERATED else 1
        extreme = (1 - confidence) * (len(signs) + observed) * (1 + _ROUNDING) - observed
        rank = math.floor(extreme) - int((sizes == 0).sum())
        if rank < 0:
            return -math.inf, math.inf
        low, high = np.partition(means, (rank, len(means) - 1 - rank))[[rank, -1 - rank]]
        return mean + float(low), mean + float(high)

    def _pivots(self, sample: Sample, sums: Any) -> Any:
        """Return the studentized means of the resamples, infinite without variance."""
        np = numpy()
        counts, firsts, squares = sums
        spread = squares - firsts**2 / np.maximum(counts, 1)
        spreads = (spread > RESIDUE * squares) & (float(sample.std_error or 0.0) > 0)
        pivots = np.full(len(spread), math.inf)
        unit = math.sqrt(sample.effective / (sample.effective - 1))
        signed = -1.0 if self.alternative == "less" else 1.0
        pivots[spreads] = signed * firsts[spreads] / (np.sqrt(spread[spreads]) * unit)
        return abs(pivots) if self.alternative == "two-sided" else pivots

    def _bootstrap(self, sample: Sample, sums: Any) -> float | None:
        pivots = self._pivots(sample, sums)
        if not math.isfinite(_quantile(pivots, self.confidence)):  # too few resamples vary
            return None
        statistic = _studentized(sample) * (-1.0 if self.alternative == "less" else 1.0)
        statistic = abs(statistic) if self.alternative == "two-sided" else statistic
        return (1 + int((pivots >= statistic).sum())) / (1 + len(pivots))

    def _bootstrap_bounds(self, sample: Sample, sums: Any, confidence: float) -> Bounds:
        width = _quantile(self._pivots(sample, sums), confidence)
        if not math.isfinite(width):
            return _UNKNOWN
        mean, error = float(sample.mean or 0.0), float(sample.std_error or 0.0)
        return mean - width * error, mean + width * error


def _quantile(values: Any, share: float) -> float:
    np = numpy()
    with np.errstate(invalid="ignore"):
        return float(np.quantile(values, share))


def _studentized(sample: Sample) -> float:
    distance = float(sample.mean or 0.0) - sample.null
    if sample.std_error:
        return distance / sample.std_error
    return math.copysign(math.inf, distance) if distance else 0.0


def _same_queries(samples: Sequence[Sample]) -> list[Sample]:
    """Return the leading samples that have the same queries."""
    np = numpy()
    first = samples[0].keys
    same = [samples[0]]
    for sample in samples[1:]:
        if not np.array_equal(sample.keys, first):
            break
        same.append(sample)
    return same


def corrected(p_values: Sequence[float | None], correction: Correction) -> list[float | None]:
    """Return p-values corrected for the number of tests."""
    order = sorted((p, index) for index, p in enumerate(p_values) if p is not None)
    results: list[float | None] = [None] * len(p_values)
    tests, so_far = len(order), 0.0
    if correction == "holm":
        for rank, (p, index) in enumerate(order):
            so_far = max(so_far, (tests - rank) * p)
            results[index] = min(so_far, 1.0)
    elif correction == "bh":
        so_far = 1.0
        for rank, (p, index) in reversed([*enumerate(order, start=1)]):
            so_far = min(so_far, p * tests / rank)
            results[index] = so_far
    else:
        for p, index in order:
            results[index] = min(p * tests, 1.0) if correction == "bonferroni" else p
    return results


def corrected_confidence(
    p_values: Sequence[float | None], correction: Correction, confidence: float
) -> float:
    """Return the confidence level of intervals that are corrected for the number of tests.

    For "holm", these are Bonferroni's intervals. For "bh", they hold the false coverage rate
    (Benjamini and Yekutieli, 2005): the level depends on the number of rejected hypotheses.
    """
    alpha = 1 - confidence
    tests = max(sum(p is not None for p in p_values), 1)
    if correction == "none":
        return confidence
    rejected = 1
    if correction == "bh":
        adjusted = corrected(p_values, correction)
        rejected = max(sum(p is not None and p <= alpha for p in adjusted), 1)
    return 1 - rejected * alpha / tests
