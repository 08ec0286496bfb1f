"""The parameters of a fusion, and what engines set them to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import integer, is_number, number, one_of, positive, share, whole_number
from polars_rank.errors import ArgumentError, short
from polars_rank.fusion.methods import LOWEST, METHODS, RULES, Missing, Rule
from polars_rank.fusion.scales import NORMALIZATIONS, SCALES

Engine: TypeAlias = Literal["ranx", "opensearch", "elasticsearch"]

#: The parameters that an engine sets for methods that read scores.
_OF_SCORES: Mapping[str, Mapping[str, Any]] = {
    "ranx": {"normalize": "min_max", "constant": 0.0},
    "opensearch": {"normalize": "min_max", "constant": 1.0, "floor": 0.001},
    "elasticsearch": {},
}
#: The methods that an engine has.
_METHODS: Mapping[str, tuple[str, ...]] = {
    "ranx": tuple(name for name in METHODS if not name.endswith("_mean")),
    "opensearch": ("arithmetic_mean", "geometric_mean", "harmonic_mean", "rrf"),
    "elasticsearch": ("rrf",),
}
#: Elasticsearch fuses the first 10 documents of each run, the default of `rank_window_size`.
_WINDOW = 10


@dataclass(frozen=True, kw_only=True)
class Fusion:
    """The checked parameters of a fusion."""

    method: str
    k: float
    weights: Mapping[Any, float] | None
    normalize: str | None
    missing: str | None
    constant: float | None
    gamma: float
    phi: float
    ddof: int
    window: int | None
    #: What replaces a normalized score of 0.
    floor: float | None = None

    @property
    def rule(self) -> Rule:
        """The rule of the method."""
        return RULES[self.method]

    @property
    def points_of_missing(self) -> pl.Expr | None:
        """The points of documents that a run did not retrieve; None if they do not count."""
        if self.rule.of_missing is not None:
            return self.rule.of_missing
        if self.normalize is not None and (of_scale := SCALES[self.normalize].of_missing) is not None:
            return of_scale
        missing = self.rule.missing if self.missing is None else self.missing
        return {"zero": pl.lit(0.0), "lowest": LOWEST, "ignore": None}[missing]

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
        defaults: dict[str, Any] = {}
        if engine is not None:
            if method not in _METHODS[engine]:
                raise ArgumentError(
                    f"`engine` {engine!r} has no `method` {method!r}; it has "
                    f"{', '.join(map(repr, _METHODS[engine]))}"
                )
            if rule.reads_scores:
                defaults = {**_OF_SCORES[engine]}
            if engine == "elasticsearch":
                defaults["window"] = _WINDOW
        normalize = defaults.pop("normalize", None) if normalize is None else normalize
        constant = defaults.pop("constant", None) if constant is None else constant
        window = defaults.pop("window", None) if window is None else window
        floor = defaults.pop("floor", None) if normalize == "min_max" else None
        _check_scores(method, rule, normalize, missing)
        if constant is not None:
            share("constant", constant, ends=True)
            if normalize is not None and SCALES[normalize].constant is None:
                raise ArgumentError(
                    f"`constant` has no meaning for `normalize` {normalize!r}; it is for 'min_max', "
                    "'sum' and 'zscore'"
                )
        for name, value, owner in (("gamma", gamma, "gmnz"), ("phi", phi, "rbc")):
            if (value is None) == (method == owner):
                raise ArgumentError(
                    f"`method` {owner!r} needs `{name}`"
                    if value is None
                    else f"`{name}` is for `method` {owner!r}; found `method` {method!r}"
                )
        if gamma is not None:
            number("gamma", gamma)
        if phi is not None:
            share("phi", phi)
        positive("k", k)
        return cls(
            method=method, k=k, weights=_weights(weights, method, rule), normalize=normalize,
            missing=missing, constant=constant, gamma=gamma or 0.0, phi=phi or 0.0,
            ddof=integer("ddof", ddof, 0, 1), floor=floor,
            window=None if window is None else whole_number("window", window),
        )  # fmt: skip


def _check_scores(method: str, rule: Rule, normalize: str | None, missing: str | None) -> None:
    """Raise `ArgumentError` for parameters of scores if the method reads ranks."""
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


def _weights(
    weights: Mapping[Any, float] | None, method: str, rule: Rule
) -> Mapping[Any, float] | None:
    """Return the weights of runs; raise `ArgumentError` unless they are valid for the method."""
    if weights is None:
        if rule.needs_weights:
            raise ArgumentError(
                f"`method` {method!r} needs `weights`, such as {{'bm25': 0.3, 'dense': 0.7}}"
            )
        return None
    if not rule.is_weighted:
        has = ", ".join(repr(name) for name, each in RULES.items() if each.is_weighted)
        raise ArgumentError(f"`method` {method!r} has no weights; methods with `weights`: {has}")
    for run, weight in weights.items():
        if not is_number(weight) or weight < 0:
            raise ArgumentError(
                f"`weights` must be numbers of 0 or more; found {short(weight)} for the run {run!r}"
            )
    if not math.fsum(weights.values()) > 0:
        raise ArgumentError(f"`weights` must not all be 0; found {short({**weights})}")
    return {run: float(weight) for run, weight in weights.items()}
