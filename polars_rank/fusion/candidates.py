"""The methods among which `tune_fusion` chooses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from polars_rank._params import is_number
from polars_rank.errors import ArgumentError, DataError, short
from polars_rank.fusion.parameters import Fusion, read_fusion

#: One method, whose weights are tuned, or several methods.
Candidates: TypeAlias = "str | Fusion | Sequence[str | Fusion]"

#: The default step of the weights of a method.
_STEP = 0.1
#: The maximum number of candidates.
_MOST = 1000


@dataclass(frozen=True)
class Choices:
    """The candidates of a call, which depend on the runs of the table if weights are tuned."""

    methods: Sequence[Fusion]
    #: The number of steps of weights from 0 to 1; None if no weights are tuned.
    steps: int | None

    @classmethod
    def of(cls, candidates: Candidates, step: float | None) -> Choices:
        """Return the candidates; raise `ArgumentError` for invalid ones."""
        if isinstance(candidates, (str, Fusion)):
            method = read_fusion(candidates, "`candidates`")
            if not _is_tuned(method):
                problem = "already has weights" if method.weights else "has no weights"
                raise ArgumentError(
                    f"`candidates` is one method, whose weights would be tuned, but "
                    f"{str(method)!r} {problem}; pass a list of methods"
                )
            return cls([method], _steps(_STEP if step is None else step))
        if not isinstance(candidates, Sequence):
            raise ArgumentError(
                "`candidates` must be a method, such as \"sum(normalize='min_max')\", or a list "
                f"of methods; found {short(candidates)}"
            )
        if not candidates:
            raise ArgumentError("`candidates` is empty; pass methods, such as 'rrf(k=10)'")
        steps = None if step is None else _steps(step)
        arguments = [f"`candidates`[{index}]" for index in range(len(candidates))]
        methods = [*map(read_fusion, candidates, arguments)]
        for argument, method in zip(arguments, methods, strict=True):
            if steps is None:
                method.check_weights(argument)
        choices = cls(methods, steps)
        _check_count(choices.count(1), "pass fewer methods")
        return choices

    def unweighted(self, runs: Sequence[str]) -> Fusion:
        """Return the first method, with the same weight for each run."""
        method = self.methods[0]
        weights = dict.fromkeys(runs, 1.0) if method.rule.needs_weights else None
        return replace(method, weights=weights)

    def count(self, runs: int) -> int:
        """Return the number of candidates for a number of runs."""
        if self.steps is None:
            return len(self.methods)
        tuned = sum(_is_tuned(method) for method in self.methods)
        return tuned * math.comb(self.steps + runs - 1, self.steps) + len(self.methods) - tuned

    def list(self, runs: Sequence[str]) -> list[Fusion]:
        """Return the candidates for the runs of a table.

        Raise `ArgumentError` if they are too many, and `DataError` if a run has no weight.
        """
        _check_count(self.count(len(runs)), f"choose a larger `step` for {len(runs)} runs")
        candidates: list[Fusion] = []
        for index, method in enumerate(self.methods):
            if self.steps is not None and _is_tuned(method):
                for parts in _parts(self.steps, len(runs)):
                    shares = [part / self.steps for part in parts]
                    weights = dict(zip(runs, shares, strict=True))
                    candidates.append(replace(method, weights=weights))
                continue
            missing = [run for run in runs if run not in (method.weights or runs)]
            if missing:
                raise DataError(
                    f"`candidates`[{index}] has no weight for the run {missing[0]!r}; add it to "
                    "its `weights`, or drop the rows of the run"
                )
            candidates.append(method)
        return candidates


def _is_tuned(method: Fusion) -> bool:
    """Return whether the weights of a method can be tuned."""
    return method.rule.is_weighted and method.weights is None


def _steps(step: Any) -> int:
    """Return the number of steps from 0 to 1."""
    count = round(1 / step) if is_number(step) and 0 < step <= 1 else 0
    if not count or not math.isclose(count * step, 1, rel_tol=1e-9):
        raise ArgumentError(f"`step` must divide 1, such as 0.1, 0.05 or 0.25; found {short(step)}")
    return count


def _check_count(count: int, remedy: str) -> None:
    if count > _MOST:
        raise ArgumentError(f"{count:,} candidates are more than {_MOST:,}; {remedy}")


def _parts(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of integers of 0 or more with a sum; the highest first integer first."""
    if count == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _parts(total - first, count - 1):
            yield (first, *rest)
