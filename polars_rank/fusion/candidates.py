"""The parameters of `fuse` among which `tune_fusion` chooses."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

from polars_rank._params import is_number
from polars_rank.errors import ArgumentError, DataError, hint, short
from polars_rank.fusion.methods import RULES
from polars_rank.fusion.parameters import Fusion

#: A step of weights, or dictionaries of parameters of `fuse`.
Candidates: TypeAlias = "float | Sequence[Mapping[str, Any]]"


class Candidate(NamedTuple):
    """Parameters of `fuse`."""

    #: The checked parameters without weights.
    fusion: Fusion
    weights: Mapping[str, float] | None
    #: The parameters as JSON.
    text: str

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Candidate:
        """Return a candidate; raise `ArgumentError` for invalid parameters."""
        fusion = Fusion.of(**parameters)
        without_effect = {name for name, value in parameters.items() if value is None}
        without_effect |= {"k"} if fusion.method != "rrf" else set()
        without_effect |= {"ddof"} if fusion.numbers.ddof == 0 else set()
        given: dict[str, Any] = {"weights": fusion.weights} if fusion.weights else {}
        given |= {
            name: value
            for name, value in parameters.items()
            if name not in {*without_effect, "weights"}
        }
        if "k" in given and float(given["k"]).is_integer():
            given["k"] = int(given["k"])
        return cls(replace(fusion, weights=None), fusion.weights, json.dumps(given, default=float))


@dataclass(frozen=True)
class Choices:
    """The candidates of a call, which depend on the runs of the table if they are a step."""

    #: The parameters of the call, to which those of a candidate are added.
    parameters: Mapping[str, Any]
    #: The number of steps from 0 to 1, or candidates.
    candidates: int | Sequence[Candidate]
    max_candidates: int

    @classmethod
    def of(
        cls, candidates: Candidates, max_candidates: int, parameters: Mapping[str, Any]
    ) -> Choices:
        """Return the candidates; raise `ArgumentError` for invalid ones."""
        if isinstance(candidates, (int, float)) and is_number(candidates):
            Fusion.of(**parameters, weights={"": 1.0})
            return cls(parameters, _steps(candidates), max_candidates)
        if isinstance(candidates, (str, Mapping)) or not isinstance(candidates, Sequence):
            raise _invalid(candidates)
        _check_count(len(candidates), max_candidates, "pass fewer candidates")
        if not candidates:
            raise ArgumentError("`candidates` is empty; pass dictionaries of parameters of `fuse`")
        Fusion.of(**parameters, weights=_ones(parameters, [""]))
        return cls(
            parameters,
            [_candidate(index, each, parameters) for index, each in enumerate(candidates)],
            max_candidates,
        )

    def unweighted(self, runs: Sequence[str]) -> Candidate:
        """Return the parameters of the call, with the same weight for each run."""
        return Candidate.of({**self.parameters, "weights": _ones(self.parameters, runs)})

    def list(self, runs: Sequence[str]) -> list[Candidate]:
        """Return the candidates for the runs of a table.

        Raise `ArgumentError` if they are too many, and `DataError` if a run has no weight.
        """
        if isinstance(self.candidates, int):
            steps = self.candidates
            count = math.comb(steps + len(runs) - 1, steps)
            remedy = f"choose a larger step of weights for {len(runs)} runs"
            _check_count(count, self.max_candidates, remedy)
            return [
                Candidate.of(
                    {
                        **self.parameters,
                        "weights": {
                            run: part / steps for run, part in zip(runs, parts, strict=True)
                        },
                    }
                )
                for parts in _parts(steps, len(runs))
            ]
        for index, candidate in enumerate(self.candidates):
            missing = [run for run in runs if run not in (candidate.weights or runs)]
            if missing:
                raise DataError(
                    f"`candidates`[{index}] has no weight for the run {missing[0]!r}; add it to "
                    "its `weights`, or drop the rows of the run"
                )
        return [*self.candidates]


def _ones(parameters: Mapping[str, Any], runs: Sequence[str]) -> dict[str, float] | None:
    """Return weights of 1 if the method needs weights."""
    rule = RULES.get(parameters["method"])
    return dict.fromkeys(runs, 1.0) if rule is not None and rule.needs_weights else None


def _candidate(index: int, given: Any, parameters: Mapping[str, Any]) -> Candidate:
    if not isinstance(given, Mapping):
        raise _invalid(given)
    available = [*parameters, "weights"]
    for name in given:
        if name not in available:
            raise ArgumentError(
                f"`candidates`[{index}] has the unknown parameter {name!r}; available: "
                f"{', '.join(available)}.{hint(str(name), available)}"
            )
    try:
        return Candidate.of({"weights": None, **parameters, **given})
    except ArgumentError as error:
        raise ArgumentError(f"`candidates`[{index}]: {error}") from None


def _invalid(value: Any) -> ArgumentError:
    return ArgumentError(
        "`candidates` must be a step of weights, such as 0.1, or a list of dictionaries of "
        f"parameters of `fuse`; found {short(value)}"
    )


def _steps(step: float) -> int:
    """Return the number of steps from 0 to 1."""
    count = round(1 / step) if 0 < step <= 1 else 0
    if not count or not math.isclose(count * step, 1, rel_tol=1e-9):
        raise ArgumentError(
            "`candidates` must be a step of weights that divides 1, such as 0.1, 0.05 or 0.25; "
            f"found {step!r}"
        )
    return count


def _check_count(count: int, most: int, remedy: str) -> None:
    if count > most:
        raise ArgumentError(
            f"there are {count:,} candidates, more than `max_candidates` ({most:,}); {remedy}, or "
            "increase `max_candidates`"
        )


def _parts(total: int, count: int) -> Iterator[tuple[int, ...]]:
    """Yield all tuples of integers of 0 or more with a sum; the highest first integer first."""
    if count == 1:
        yield (total,)
        return
    for first in range(total, -1, -1):
        for rest in _parts(total - first, count - 1):
            yield (first, *rest)
