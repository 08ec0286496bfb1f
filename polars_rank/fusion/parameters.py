"""The parameters of a fusion, and what engines set them to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import integer, is_number, number, one_of, share, whole_number
from polars_rank.errors import ArgumentError, short
from polars_rank.fusion.methods import METHODS, POINTS, RULES, SCORE, Missing, Numbers, Rule
from polars_rank.fusion.scales import NORMALIZATIONS, SCALES

Engine: TypeAlias = Literal["ranx", "opensearch", "elasticsearch"]

#: The methods that an engine has.
_METHODS: Mapping[str, tuple[str, ...]] = {
    "ranx": tuple(name for name in METHODS if not name.endswith("_mean")),
    "opensearch": ("arithmetic_mean", "geometric_mean", "harmonic_mean", "rrf"),
    "elasticsearch": ("rrf",),
}
#: The parameters that an engine sets: for all methods, and for methods that read scores.
_OF_METHODS: Mapping[str, Mapping[str, Any]] = {"elasticsearch": {"window": 10}}
_OF_SCORES: Mapping[str, Mapping[str, Any]] = {
    "ranx": {"normalize": "min_max", "constant": 0.0},
    "opensearch": {"normalize": "min_max", "constant": 1.0},
}
#: What OpenSearch replaces a min-max normalized score of 0 with.
_FLOOR = 0.001
#: The default of `k`, the rank constant of reciprocal rank fusion.
RANK_CONSTANT = 60


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """The checked parameters of a fusion."""

    method: str
    numbers: Numbers
    #: Weights by the text of the run.
    weights: Mapping[str, float] | None
    normalize: str | None
    missing: str
    constant: float | None
    window: int | None
    #: What replaces a normalized score of 0.
    floor: float | None

    @property
    def rule(self) -> Rule:
        """The definition of the method."""
        return RULES[self.method]

    def points(self, run: Sequence[str]) -> pl.Expr:
        """Return the points of a document that a run retrieved.

        `run` are the keys of its ranking in the run.
        """
        if self.rule.points is not None:
            return self.rule.points(self.numbers)
        if self.normalize is None:
            return SCORE
        scale = SCALES[self.normalize]
        if isinstance(scale.value, pl.Expr):
            return scale.value
        origin, unit = (each.over(run) for each in scale.value(self.numbers))
        value = (SCORE - origin) / unit
        if scale.constant is not None:
            constant = scale.constant if self.constant is None else self.constant
            is_constant = SCORE.min().over(run) == SCORE.max().over(run)
            value = pl.when(is_constant).then(constant).otherwise(value)
        if self.floor is not None:
            value = pl.when(value == 0).then(self.floor).otherwise(value)
        return value

    @property
    def points_of_missing(self) -> pl.Expr | None:
        """The points of documents that a run did not retrieve; None if they have none.

        The expression reads one row of the run for the query, with the lowest points of the run.
        """
        scale = None if self.normalize is None else SCALES[self.normalize].of_missing
        if self.rule.points_of_missing is not None:
            return self.rule.points_of_missing
        if scale is not None:
            return scale
        return {"zero": pl.lit(0.0), "lowest": POINTS, "ignore": None}[self.missing]

    @classmethod
    def of(
        cls,
        method: str,
        *,
        k: float,
        weights: Mapping[Any, float] | None,
        normalize: str | None,
        missing: str | None,
        constant: float | None,
        gamma: float | None,
        phi: float | None,
        ddof: int,
        window: int | None,
        engine: str | None,
    ) -> Fusion:
        """Return checked parameters; raise `ArgumentError` for invalid ones."""
        one_of("method", method, METHODS)
        one_of("normalize", normalize, (None, *NORMALIZATIONS))
        one_of("missing", missing, (None, *get_args(Missing)))
        one_of("engine", engine, (None, *get_args(Engine)))
        rule = RULES[method]
        if not is_number(k) or k < 0:
            raise ArgumentError(f"`k` must be a number of 0 or more; found {short(k)}")
        integer("ddof", ddof, 0, 1)
        if constant is not None:
            share("constant", constant, ends=True)
        if window is not None:
            whole_number("window", window)
        _check_owners(method, k=k, gamma=gamma, phi=phi)
        of_engine = {} if engine is None else _of_engine(engine, method, rule)
        scale = of_engine.get("normalize") if normalize is None else normalize
        _check_scores(method, rule, scale, missing, constant, ddof)
        return cls(
            method=method,
            numbers=Numbers(k=k, gamma=gamma or 0.0, phi=phi or 0.0, ddof=ddof),
            weights=_weights(weights, method, rule),
            normalize=scale,
            missing=missing or rule.missing,
            constant=of_engine.get("constant") if constant is None else constant,
            window=of_engine.get("window") if window is None else window,
            floor=_FLOOR if engine == "opensearch" and scale == "min_max" else None,
        )


def _of_engine(engine: str, method: str, rule: Rule) -> Mapping[str, Any]:
    """Return the parameters that an engine sets; raise `ArgumentError` if it lacks the method."""
    if method not in _METHODS[engine]:
        raise ArgumentError(
            f"`engine` {engine!r} has no `method` {method!r}; it has "
            f"{', '.join(map(repr, _METHODS[engine]))}"
        )
    of_scores = _OF_SCORES.get(engine, {}) if rule.reads_scores else {}
    return {**_OF_METHODS.get(engine, {}), **of_scores}


def _check_owners(method: str, *, k: float, gamma: float | None, phi: float | None) -> None:
    """Raise `ArgumentError` if a parameter of one method is missing, or given for another one."""
    rank_constant = None if k == RANK_CONSTANT else k
    owners = (("k", rank_constant, "rrf"), ("gamma", gamma, "gmnz"), ("phi", phi, "rbc"))
    for name, value, owner in owners:
        if value is not None and method != owner:
            raise ArgumentError(f"`{name}` is for `method` {owner!r}; found `method` {method!r}")
        if value is None and method == owner and name != "k":
            raise ArgumentError(f"`method` {owner!r} needs `{name}`")
    if gamma is not None:
        number("gamma", gamma)
    if phi is not None:
        share("phi", phi)


def _check_scores(
    method: str,
    rule: Rule,
    normalize: str | None,
    missing: str | None,
    constant: float | None,
    ddof: int,
) -> None:
    """Raise `ArgumentError` for parameters of scores that would have no effect."""
    for name, value in (("normalize", normalize), ("missing", missing)):
        if value is not None and not rule.reads_scores:
            raise ArgumentError(
                f"`{name}` is for methods that read scores; `method` {method!r} reads ranks"
            )
    if missing is not None and normalize == "borda":
        raise ArgumentError(
            "`normalize` 'borda' gives missing documents half of the remaining points; leave out "
            "`missing`"
        )
    has_constant = [name for name, scale in SCALES.items() if scale.constant is not None]
    if constant is not None and normalize not in has_constant:
        raise ArgumentError(
            f"`constant` is for `normalize` {', '.join(map(repr, has_constant))}; found "
            f"`normalize` {normalize!r}"
        )
    if ddof != 0 and normalize != "zscore":
        raise ArgumentError(f"`ddof` is for `normalize` 'zscore'; found `normalize` {normalize!r}")


def _weights(
    weights: Mapping[Any, float] | None, method: str, rule: Rule
) -> Mapping[str, float] | None:
    """Return the weights of runs; raise `ArgumentError` unless they are valid for the method."""
    if weights is None:
        if rule.needs_weights:
            raise ArgumentError(
                f"`method` {method!r} needs `weights`, such as {{'bm25': 0.3, 'dense': 0.7}}"
            )
        return None
    if not rule.is_weighted:
        weighted = ", ".join(repr(name) for name, each in RULES.items() if each.is_weighted)
        raise ArgumentError(
            f"`method` {method!r} has no weights; methods with `weights`: {weighted}"
        )
    if not isinstance(weights, Mapping):
        raise ArgumentError(f"`weights` must be a mapping or None; found {short(weights)}")
    for run, weight in weights.items():
        if not is_number(weight) or weight < 0:
            raise ArgumentError(
                f"`weights` must be numbers of 0 or more; found {short(weight)} for the run {run!r}"
            )
    if not any(weights.values()):
        raise ArgumentError(f"`weights` must not all be 0; found {short({**weights})}")
    return {str(run): float(weight) for run, weight in weights.items()}
