"""Methods of fusion: normalized scores, points of a document in a run, and their combination.

A method is an aggregation of the rows of a document: one row per run that counts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import polars as pl

from polars_rank._params import OWN, is_number, number, one_of, public, share
from polars_rank.errors import ArgumentError, short
from polars_rank.metrics.names import call_in

Missing: TypeAlias = Literal["zero", "ignore", "lowest"]
Method: TypeAlias = Literal[
    "rrf", "sum", "mnz", "anz", "min", "max", "median", "weighted_sum", "gmnz", "wmnz", "mixed",
    "arithmetic_mean", "geometric_mean", "harmonic_mean", "isr", "log_isr", "logn_isr", "rbc",
    "borda", "weighted_borda",
]  # fmt: skip
METHODS: tuple[str, ...] = get_args(Method)
Normalization: TypeAlias = Literal["min_max", "max", "sum", "zscore", "rank", "borda"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)

#: Rank, score and points of a document in a run, and the weight of the run. Rank and score are null
#: if the run did not retrieve the document; points are null if the run does not count for it.
RANK, SCORE, POINTS, WEIGHT = (pl.col(OWN + name) for name in ("rank", "score", "points", "weight"))
#: The numbers of documents that the run, and that any run, retrieved for the query.
SIZE, CANDIDATES = (pl.col(OWN + name) for name in ("size", "candidates"))


#: A number below the largest 32-bit float.
_LARGEST = 3e38


def total(values: pl.Expr) -> pl.Expr:
    """Return the sum of values, which does not depend on their order.

    In different orders, rounding would give documents with the same values different sums, and the
    optimizer of Polars removes a sort before a sum. Each value is the sum of two numbers of at most
    29 bits: the sums of both are exact unless values differ by a factor of a million or more.
    """
    high = values.clip(-_LARGEST, _LARGEST).cast(pl.Float32).cast(pl.Float64)
    return high.sum() + (values - high).sum()


_SUM, _COUNT = total(WEIGHT * POINTS), POINTS.count()
#: Added to the number of runs, so that documents of one run do not all have a score of 0.
_SIGMA = 0.01


class Formula(NamedTuple):
    """The definition of a method."""

    #: The score of a document, from the points of the runs that count.
    score: pl.Expr | Callable[[Any], pl.Expr] = _SUM
    #: The points that a run gives to a document that it retrieved. Default: the score in the run.
    points: pl.Expr | Callable[[Any], pl.Expr] | None = None
    #: The points that a run gives to a document that it did not retrieve.
    points_of_missing: pl.Expr | None = None
    #: The default treatment of documents that a run did not retrieve.
    missing: Missing = "ignore"
    #: Whether runs may have weights, and whether they must have some.
    is_weighted: bool = True
    needs_weights: bool = False


def _positive_mean(mean: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Formula:
    """Return a weighted mean of the scores above 0, which is 0 if there are none."""
    counts = (POINTS > 0) & (WEIGHT > 0)
    score = mean(POINTS.filter(counts), WEIGHT.filter(counts))
    return Formula(pl.when(counts.any()).then(score).otherwise(0.0))


_INVERSE_SQUARE = 1 / RANK**2
_BORDA = Formula(points=CANDIDATES - RANK + 1, points_of_missing=(CANDIDATES - SIZE + 1) / 2)
FORMULAS: dict[str, Formula] = {
    "rrf": Formula(points=lambda fusion: 1 / (fusion.k + RANK)),
    "sum": Formula(),
    "weighted_sum": Formula(needs_weights=True),
    "mnz": Formula(_SUM * _COUNT, is_weighted=False),
    "gmnz": Formula(
        lambda fusion: _SUM * _COUNT.cast(pl.Float64).pow(fusion.gamma), is_weighted=False
    ),
    "wmnz": Formula(total(POINTS) * total(WEIGHT), needs_weights=True),
    "mixed": Formula(_SUM * _COUNT.sqrt(), needs_weights=True),
    "anz": Formula(_SUM / _COUNT, is_weighted=False),
    "min": Formula(POINTS.min(), is_weighted=False),
    "max": Formula(POINTS.max(), is_weighted=False),
    "median": Formula(POINTS.median(), is_weighted=False),
    "arithmetic_mean": Formula(
        pl.when(WEIGHT.max() > 0).then(_SUM / total(WEIGHT)).otherwise(0.0), missing="zero"
    ),
    "geometric_mean": _positive_mean(
        lambda points, weight: (total(weight * points.log()) / total(weight)).exp()
    ),
    "harmonic_mean": _positive_mean(lambda points, weight: total(weight) / total(weight / points)),
    # The factor of inverse square ranks grows with the number of runs.
    "isr": Formula(_SUM * _COUNT, _INVERSE_SQUARE),
    "log_isr": Formula(_SUM * _COUNT.log(), _INVERSE_SQUARE),
    "logn_isr": Formula(_SUM * (_COUNT + _SIGMA).log(), _INVERSE_SQUARE),
    "rbc": Formula(points=lambda fusion: (1 - fusion.phi) * pl.lit(fusion.phi).pow(RANK - 1)),
    "borda": _BORDA,
    "weighted_borda": _BORDA._replace(needs_weights=True),
}


class Scale(NamedTuple):
    """A normalization of the scores of a run, query by query."""

    #: The normalized score; or origin and unit of (score - origin) / unit, which are aggregations
    #: of the scores of a run.
    value: pl.Expr | tuple[pl.Expr, pl.Expr]
    #: The normalized score of documents that the run did not retrieve, if they have one.
    of_missing: pl.Expr | None = None
    #: The normalized score of all documents of a run whose scores are all equal.
    constant: float | None = None


_MEAN = total(SCORE) / SCORE.count()
_VARIANCE = total((SCORE - _MEAN) ** 2) / SCORE.count()
SCALES: Mapping[str, Scale] = {
    "min_max": Scale((SCORE.min(), SCORE.max() - SCORE.min()), constant=1.0),
    "max": Scale((pl.lit(0.0), SCORE.max())),
    "sum": Scale((SCORE.min(), total(SCORE - SCORE.min())), constant=1.0),
    "zscore": Scale((_MEAN, _VARIANCE.sqrt()), constant=0.0),
    "rank": Scale(1 - (RANK - 1) / SIZE),
    "borda": Scale(1 - (RANK - 1) / CANDIDATES, of_missing=0.5 - (SIZE - 1) / (2 * CANDIDATES)),
}


#: The default of `k`, the rank constant of reciprocal rank fusion.
_RANK_CONSTANT = 60
_EXAMPLE = "\"rrf(k=60)\" or \"sum(normalize='min_max', weights={'bm25': 0.3, 'dense': 0.7})\""


@dataclass(frozen=True, repr=False)
class Fusion:
    r"""A method of `fuse` with its parameters.

    Its text, such as "sum(normalize='min_max', weights={'bm25': 0.3, 'dense': 0.7})", means the
    same in `fuse` and `tune_fusion`.

    Examples
    --------
    >>> weights = {"bm25": 0.3, "dense": 0.7}
    >>> str(pr.Fusion("sum", normalize="min_max", weights=weights))
    "sum(normalize='min_max', weights={'bm25': 0.3, 'dense': 0.7})"

    Parameters
    ----------
    method
        How scores or ranks are combined. With the weight $w_r$ of a run (1 without `weights`), the
        score $s_r$ of the document in the run after `normalize`, and the number m of runs that
        count for the document, its fused score is

        - "rrf": $\sum w_r / (k + \mathrm{rank}_r)$;
        - "sum", "weighted_sum": $\sum w_r s_r$;
        - "mnz": $m \sum s_r$; "gmnz": $m^\gamma \sum s_r$; "wmnz": $\sum w_r \sum s_r$;
          "mixed": $\sqrt{m} \sum w_r s_r$; "anz": $\sum s_r / m$;
        - "min", "max", "median": of the scores $s_r$;
        - "arithmetic_mean": $\sum w_r s_r / \sum w_r$;
        - "geometric_mean": $\exp(\sum w_r \ln s_r / \sum w_r)$ and "harmonic_mean":
          $\sum w_r / \sum (w_r / s_r)$, both over scores above 0; 0 if there are none;
        - "isr": $m \sum w_r / \mathrm{rank}_r^2$; "log_isr" and "logn_isr" have $\ln m$ and
          $\ln(m + 0.01)$ instead of m;
        - "rbc": $\sum w_r (1 - \phi) \phi^{\mathrm{rank}_r - 1}$;
        - "borda", "weighted_borda": $\sum w_r (c - \mathrm{rank}_r + 1)$, where c is the number of
          documents that any run retrieved for the query. A run that retrieved n documents gives
          each of the others $(c - n + 1) / 2$ points, half of the remaining ones.
    k
        Rank constant of "rrf", 0 or more. Default: 60.
    normalize
        What is done with the scores of each run and query before they are combined, for methods
        that read scores. Default: nothing. If all scores of a run for a query are equal, as with
        one document, the normalized score is 1 with "min_max" and "sum", and 0 with "zscore".

        - "min_max": $(s - \min) / (\max - \min)$;
        - "max": $s / \max$; the highest score must be above 0;
        - "sum": $(s - \min) / \sum (s - \min)$;
        - "zscore": $(s - \mathrm{mean}) / \mathrm{sd}$, where sd is that of the population;
        - "rank": $1 - (\mathrm{rank} - 1) / n$ for a run that retrieved n documents;
        - "borda": $1 - (\mathrm{rank} - 1) / c$. Documents that the run did not retrieve have
          $(c - n + 1) / (2 c)$.
    missing
        What a run counts as for a document that other runs retrieved, for methods that read scores:
        "ignore" leaves it out, "zero" gives the document a normalized score of 0, and "lowest" the
        lowest normalized score that the run gave for the query. Default: "zero" for
        "arithmetic_mean", "ignore" for other methods. Runs that count are part of m.
    gamma
        Exponent of "gmnz".
    phi
        Persistence of "rbc", between 0 and 1.
    weights
        Weight of each run, such as `{"bm25": 0.3, "dense": 0.7}`: numbers of 0 or more. Each run
        of the table must have a weight. "weighted_sum", "wmnz", "mixed" and "weighted_borda" need
        weights; "mnz", "gmnz", "anz", "min", "max" and "median" have none. Weights are not scaled
        to a sum of 1.

    Raises
    ------
    ArgumentError
        For an invalid parameter, or one that has no effect with the method.

    Notes
    -----
    Methods read ranks or scores; scores of runs with different scales need `normalize`.

    A document that occurs twice in a ranking counts once, at its best rank. Only the runs that have
    rows for a query are fused: in a query that one run has alone, the others count neither as
    missing nor with their weight. A row without a document says that a run found nothing.

    A run with weight 0 is fused, too, as in ranx and OpenSearch: it counts in m, and its documents
    remain candidates. If no other run retrieved them, their fused score is 0 (for Borda counts,
    that of missing documents). With "rrf", they follow all documents of the other runs; with
    "zscore", they precede documents with negative scores. To leave a run out, drop its rows.

    References
    ----------
    Fox & Shaw, Combination of multiple searches, 1994 ("sum", "mnz", "anz", "min", "max",
    "median"); Lee, Analyses of multiple evidence combination, 1997 ("gmnz", "min_max", "rank");
    Aslam & Montague, Models for metasearch, 2001 ("borda"); Montague & Aslam, Relevance score
    normalization for metasearch, 2001 ("sum", "zscore"); Wu & Crestani, Data fusion with estimated
    weights, 2002 ("wmnz", "mixed"); Renda & Straccia, Web metasearch: rank vs. score based rank
    aggregation methods, 2003 ("borda" normalization); Cormack, Clarke & Büttcher, Reciprocal rank
    fusion outperforms Condorcet and individual rank learning methods, 2009; Mourão, Martins &
    Magalhães, Multimodal medical information retrieval with unsupervised rank fusion, 2015 ("isr",
    "log_isr", "logn_isr"); Bailey et al., Retrieval consistency in the presence of query
    variations, 2017 ("rbc").
    """

    method: Method = "rrf"
    _: KW_ONLY
    k: float | None = None
    normalize: Normalization | None = None
    missing: Missing | None = None
    gamma: float | None = None
    phi: float | None = None
    weights: Mapping[Any, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        one_of("method", self.method, METHODS)
        one_of("normalize", self.normalize, (None, *NORMALIZATIONS))
        one_of("missing", self.missing, (None, *get_args(Missing)))
        if self.k is not None and (not is_number(self.k) or self.k < 0):
            raise ArgumentError(f"must be a number of 0 or more; found {short(self.k)}", "k")
        self._check_owners()
        if self.method == "rrf" and self.k is None:
            object.__setattr__(self, "k", _RANK_CONSTANT)
        if self.weights is not None:
            object.__setattr__(self, "weights", self._checked_weights(self.weights))

    def __str__(self) -> str:
        values = {each.name: getattr(self, each.name) for each in fields(self)[1:]}
        if values["k"] == _RANK_CONSTANT:
            del values["k"]
        texts = [f"{name}={_written(value)}" for name, value in values.items() if value is not None]
        return f"{self.method}({', '.join(texts)})" if texts else self.method

    def __repr__(self) -> str:
        return f"<Fusion {self}>"

    @property
    def rule(self) -> Formula:
        """The definition of the method."""
        return FORMULAS[self.method]

    @property
    def has_free_weights(self) -> bool:
        """Whether runs may have weights, and have none."""
        return self.rule.is_weighted and self.weights is None

    @property
    def score(self) -> pl.Expr:
        """The fused score of a document, from the points and weights of its runs."""
        score = self.rule.score
        return score if isinstance(score, pl.Expr) else score(self)

    def points(self, run: Sequence[str]) -> pl.Expr:
        """Return the points of a document that a run retrieved.

        `run` are the keys of its ranking in the run.
        """
        points = self.rule.points
        if points is not None:
            return points if isinstance(points, pl.Expr) else points(self)
        if self.normalize is None:
            return SCORE
        scale = SCALES[self.normalize]
        if isinstance(scale.value, pl.Expr):
            return scale.value
        origin, unit = (each.over(run) for each in scale.value)
        value = (SCORE - origin) / unit
        if scale.constant is None:
            return value
        is_constant = SCORE.min().over(run) == SCORE.max().over(run)
        return pl.when(is_constant).then(scale.constant).otherwise(value)

    @property
    def points_of_missing(self) -> pl.Expr | None:
        """The points of documents that a run did not retrieve; None if they have none.

        The expression reads one row of the run for the query, with the lowest points of the run.
        """
        if self.rule.points_of_missing is not None:
            return self.rule.points_of_missing
        if self.normalize is not None and SCALES[self.normalize].of_missing is not None:
            return SCALES[self.normalize].of_missing
        missing = self.missing or self.rule.missing
        return {"zero": pl.lit(0.0), "lowest": POINTS, "ignore": None}[missing]

    def check_weights(self, argument: str = "`method`") -> None:
        """Raise `ArgumentError` if the method needs weights and has none."""
        if self.rule.needs_weights and self.weights is None:
            raise ArgumentError(
                f"{argument}: {self.method!r} needs `weights`, such as "
                "{'bm25': 0.3, 'dense': 0.7}"
            )

    def _checked_weights(self, weights: Any) -> dict[str, float]:
        """Return the weights by run; raise `ArgumentError` unless they are valid for the method."""
        if not self.rule.is_weighted:
            weighted = ", ".join(repr(name) for name, each in FORMULAS.items() if each.is_weighted)
            raise ArgumentError(
                f"{self.method!r} has no weights; methods with `weights`: {weighted}", "method"
            )
        if not isinstance(weights, Mapping):
            raise ArgumentError(f"must be a mapping or None; found {short(weights)}", "weights")
        for run, weight in weights.items():
            if not is_number(weight) or weight < 0:
                raise ArgumentError(
                    f"must be numbers of 0 or more; found {short(weight)} for the run {run!r}",
                    "weights",
                )
        if not any(weights.values()):
            raise ArgumentError(f"must not all be 0; found {short({**weights})}", "weights")
        return {str(run): float(weight) for run, weight in weights.items()}

    def _check_owners(self) -> None:
        """Raise `ArgumentError` for a parameter of another method or normalization, or a lack."""
        reads_scores = self.rule.points is None  # otherwise, the method reads ranks only
        owners = (
            ("k", "`method` 'rrf'", self.method == "rrf"),
            ("gamma", "`method` 'gmnz'", self.method == "gmnz"),
            ("phi", "`method` 'rbc'", self.method == "rbc"),
            ("normalize", "a `method` that reads scores, not ranks", reads_scores),
            ("missing", "a `method` that reads scores, not ranks", reads_scores),
            ("missing", "`normalize` other than 'borda'", self.normalize != "borda"),
        )
        for name, owner, is_owner in owners:
            value = getattr(self, name)
            if value is not None and not is_owner:
                raise ArgumentError(
                    f"is for {owner}; found `method` {self.method!r}"
                    + (f" and `normalize` {self.normalize!r}" if self.normalize else ""),
                    name,
                )
            if value is None and name in ("gamma", "phi") and is_owner:
                raise ArgumentError(f"{self.method!r} needs `{name}`", "method")
        if self.gamma is not None:
            number("gamma", self.gamma)
        if self.phi is not None:
            share("phi", self.phi)


# A dataclass writes the function itself.
Fusion.__init__ = public(Fusion.__init__)  # type: ignore[method-assign]


def read_fusion(method: str | Fusion, argument: str = "`method`") -> Fusion:
    """Return a method of fusion, such as "rrf(k=60)"; raise `ArgumentError` if it is invalid."""
    if isinstance(method, Fusion):
        return method
    if not isinstance(method, str):
        raise ArgumentError(
            f"{argument} must be a text, such as {_EXAMPLE}, or a pr.Fusion; found {short(method)}"
        )
    try:
        name, arguments = call_in(method, _EXAMPLE)
        return Fusion(name, **arguments)  # type: ignore[arg-type]
    except ArgumentError as error:
        if str(error).startswith(argument):
            raise
        raise ArgumentError(f"{argument}: {error}") from None


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{run!r}: {_written(each)}' for run, each in value.items())}}}"
    return repr(float(value)).removesuffix(".0") if is_number(value) else repr(value)
