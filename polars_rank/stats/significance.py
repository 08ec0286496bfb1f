"""Significance tests of paired differences, and corrections for multiple tests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from polars_rank.stats.intervals import Alternative, special, stats
from polars_rank.stats.resampling import RESIDUE, all_sign_sums, numpy, poisson_sums, sign_sums

if TYPE_CHECKING:
    from collections.abc import Sequence

Test: TypeAlias = Literal["t", "randomization", "bootstrap", "wilcoxon", "sign"]
Correction: TypeAlias = Literal["holm", "bh", "bonferroni", "none"]

#: Up to this many differences, the randomization test enumerates all signs.
_MAX_ENUMERATED = 16
#: Sums that differ by less, relative to their size, are equal up to rounding.
_ROUNDING = 1e-12


class Result(NamedTuple):
    """The p-value and confidence interval of a test; None where they are undefined."""

    p_value: float | None
    low: float | None
    high: float | None


class Sample(NamedTuple):
    """Statistics of a sample of differences."""

    mean: float | None
    std_error: float | None
    units: int
    wins: int
    losses: int
    #: The mean difference under the null hypothesis.
    null: float
    #: The differences and the keys of their queries, if the test needs them.
    values: Any = None
    keys: Any = None


@dataclass(frozen=True)
class Testing:
    """Parameters of the tests of differences."""

    test: Test
    alternative: Alternative
    confidence: float
    n_resamples: int
    seed: int

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
        if self.test == "randomization":
            shifted = np.column_stack([sample.values - sample.null for sample in samples])
            if len(keys) <= _MAX_ENUMERATED:
                return [all_sign_sums(column) for column in shifted.T]
            return [*sign_sums(keys, shifted, self.n_resamples, self.seed).T]
        # Squares of deviations do not cancel, as those of the values would.
        off = np.column_stack([sample.values - (sample.mean or 0.0) for sample in samples])
        columns = np.column_stack([np.ones(len(keys)), off, off**2])
        sums = poisson_sums(keys, columns, self.n_resamples, self.seed)
        count = len(samples)
        return [(sums[:, 0], sums[:, 1 + i], sums[:, 1 + count + i]) for i in range(count)]

    def _result(self, sample: Sample, sums: Any) -> Result:
        mean, error = sample.mean, sample.std_error
        if mean is None or error is None or math.isnan(error):
            return Result(None, None, None)
        if mean == sample.null and not error:  # all differences equal the null hypothesis
            return Result(1.0, *self._bounds(mean, mean))
        if self.test == "bootstrap":
            return self._bootstrap(sample, mean, error, sums)
        low, high = self._t_interval(mean, error, sample.units)
        p_value = {
            "t": self._t,
            "sign": self._sign,
            "wilcoxon": self._wilcoxon,
            "randomization": self._randomization,
        }[self.test](sample, sums)
        return Result(min(float(p_value), 1.0), low, high)

    def _t_interval(self, mean: float, error: float, units: int) -> tuple[float, float]:
        two_sided = self.alternative == "two-sided"
        share = (1 + self.confidence) / 2 if two_sided else self.confidence
        width = float(special().stdtrit(units - 1, share)) * error
        return self._bounds(mean - width, mean + width)

    def _bounds(self, low: float, high: float) -> tuple[float, float]:
        return (
            -math.inf if self.alternative == "less" else low,
            math.inf if self.alternative == "greater" else high,
        )

    def _t(self, sample: Sample, _: Any) -> float:
        statistic = _studentized(sample)
        if self.alternative == "two-sided":
            statistic = -abs(statistic)
        elif self.alternative == "greater":
            statistic = -statistic
        below = float(special().stdtr(sample.units - 1, statistic))
        return 2 * below if self.alternative == "two-sided" else below

    def _sign(self, sample: Sample, _: Any) -> float:
        wins, losses = sample.wins, sample.losses
        if sample.values is not None:
            wins = int((sample.values > sample.null).sum())
            losses = int((sample.values < sample.null).sum())
        if wins + losses == 0:
            return 1.0
        return float(stats().binomtest(wins, wins + losses, alternative=self.alternative).pvalue)

    def _wilcoxon(self, sample: Sample, _: Any) -> float:
        shifted = sample.values - sample.null
        if not shifted.any():
            return 1.0
        return float(stats().wilcoxon(shifted, alternative=self.alternative).pvalue)

    def _randomization(self, sample: Sample, sums: Any) -> float:
        observed = float((sample.values - sample.null).sum())
        slack = _ROUNDING * float(abs(sample.values - sample.null).sum())
        if self.alternative == "two-sided":
            extreme = int((abs(sums) >= abs(observed) - slack).sum())
        elif self.alternative == "greater":
            extreme = int((sums >= observed - slack).sum())
        else:
            extreme = int((sums <= observed + slack).sum())
        if len(sample.values) <= _MAX_ENUMERATED:
            return extreme / len(sums)
        return (1 + extreme) / (1 + len(sums))

    def _bootstrap(self, sample: Sample, mean: float, error: float, sums: Any) -> Result:
        np = numpy()
        counts, firsts, squares = sums
        spread = squares - firsts**2 / np.maximum(counts, 1)
        # The statistic of a resample without variance counts as infinite.
        spreads = (spread > RESIDUE * squares) & (error > 0)
        pivots = np.full(len(spread), math.inf)
        unit = math.sqrt(sample.units / (sample.units - 1))
        signed = -1.0 if self.alternative == "less" else 1.0
        pivots[spreads] = signed * firsts[spreads] / (np.sqrt(spread[spreads]) * unit)
        statistic = signed * _studentized(sample)
        if self.alternative == "two-sided":
            pivots, statistic = abs(pivots), abs(statistic)
        with np.errstate(invalid="ignore"):
            width = float(np.quantile(pivots, self.confidence))
        if not math.isfinite(width):  # too many resamples without variance
            return Result(None, None, None)
        p_value = (1 + int((pivots >= statistic).sum())) / (1 + len(pivots))
        return Result(p_value, *self._bounds(mean - width * error, mean + width * error))


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
