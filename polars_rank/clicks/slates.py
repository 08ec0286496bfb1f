"""`sips`, `iips`, `rips` and `cascade_dr`: the value of a new slate policy, from logged slates.

Both policies are randomized. The log has the probability of each document at its position, given
the documents above it, under both policies. The weight of a reward is the ratio of the two
probabilities of the documents on which the reward depends: the whole slate (SIPS), the documents
down to its position (RIPS), or its own document (IIPS).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import polars as pl

from polars_rank._docstrings import described_by
from polars_rank._params import OWN, Names, find_columns, free, names, some_names
from polars_rank.clicks.certainty import (
    EFFECTIVE,
    check_weights,
    cluster_columns,
    concentration,
    interval,
    ratio_variance,
)
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import Check, checks_of, failed, raise_failed
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.per_ranking import per_ranking
from polars_rank.frames.tables import framed, schema_of

__all__ = ["cascade_dr", "iips", "rips", "sips"]

COLUMNS = (
    *("slates", "value", "variance", "low", "high"),
    *("mean_weight", "effective_sample_size", "max_weight_share"),
)

#: Internal names of the columns of a slate.
_POSITION, _REWARD, _LOGGED, _NEW, _ESTIMATE, _EXPECTED = (
    OWN + name for name in ("position", "reward", "logged", "new", "estimate", "expected")
)
#: Statistics of a slate: its value; the sum, the sum of squares, the maximum and the number of its
#: weights. `_SLATES` is the number of slates of a cluster.
_VALUE, _WEIGHTS, _SQUARES, _HIGHEST, _NUMBER, _SLATES = (
    OWN + name for name in ("value", "weights", "squares", "highest", "number", "slates")
)
#: Invalid slates: duplicate positions, joint probabilities that increase, several clusters.
_DUPLICATES, _INCREASING, _CLUSTERS = (
    OWN + name for name in ("duplicates", "increasing", "clusters")
)


class _Slate(NamedTuple):
    """The rewards and weights of the documents of a slate, from the top."""

    reward: pl.Expr
    #: Weight of each document, and product of the weights down to each document.
    own_weight: pl.Expr
    weight_down: pl.Expr


#: A function that returns the value of a slate and its weights.
Estimator: TypeAlias = Callable[[_Slate], tuple[pl.Expr, pl.Expr]]


@framed
def sips(
    frame: pl.LazyFrame,
    *,
    slate: Names = "slate",
    position: str = "position",
    reward: str = "reward",
    logged: str = "logged_probability",
    new: str = "new_probability",
    joint: bool = False,
    by: Names | None = None,
    cluster: Names | None = None,
) -> pl.LazyFrame:
    r"""Estimate the value of a slate policy by standard IPS: one weight for the whole slate.

    $$V = \frac{1}{n} \sum_i \prod_k \frac{\pi(a_{ik} | a_{i,<k})}{\pi_0(a_{ik} | a_{i,<k})}
    \sum_k r_{ik}$$

    Unbiased without assumptions about user behavior, but with the highest variance of the
    estimators. A slate that the new policy cannot draw has weight 0.

    Parameters
    ----------
    frame
        One row per document of a slate.
    slate
        Columns that identify the slate (one impression).
    position
        Column with the position of the document in the slate.
    reward
        Column with the reward of the document, such as a click.
    logged, new
        Columns with the probability that the logging policy, and the new policy, put this document
        at this position given the documents above it; in (0, 1] and in [0, 1].
    joint
        Whether the probabilities are joint probabilities of all documents down to this one, not
        conditional on the documents above it. Joint probabilities cannot increase down a slate.
    by
        Columns that split the table into groups; constant within a slate.
    cluster
        Columns that identify the sampling unit if it is not the slate, such as the query or the
        user; constant within a slate. Without `cluster`, the interval is for other slates of the
        same users; with `cluster="user"`, it is for slates of other users from the same
        population, and is wider. A slate with a null is its own cluster.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group, sorted, with the `by` columns and

        - `slates`: the number of slates;
        - `value`: the estimated mean reward of a slate under the new policy;
        - `variance`, `low`, `high`: the variance of the estimate, over slates or clusters, and the
          bounds of the normal 95% interval. With `cluster`, the variance has the factor
          n / (n - 1) with the effective number of clusters n (Kish, 1965), and is null if n is 1
          or less. If the variance is 0, the bounds are null;
        - `mean_weight`: about 1 if the probabilities are correct;
        - `effective_sample_size` (Kish, 1965) and `max_weight_share`, the share of the largest
          weight, of the weights of slates, or of clusters with `cluster`.

    Raises
    ------
    DataError
        If there are nulls, probabilities out of range or duplicate positions in a slate, or if
        `cluster` varies within a slate; raised when the result is collected.

    Warns
    -----
    RankWarning
        If the effective sample size, or the effective number of slates or clusters, is below 30:
        the interval is then too narrow. If the variance is 0. Issued when the result is collected.

    Notes
    -----
    A slate needs rows for all of its documents, also those without a reward, because the weights
    depend on them. Positions only define the order of documents and may start at any number.

    A table sorted by slate, such as one from `scan_log(..., query=slate)`, streams in flat memory.

    References
    ----------
    Precup, Sutton & Singh, Eligibility traces for off-policy policy evaluation, 2000; as the
    baseline "IPS" in McInerney et al., 2020.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "slate": [1, 1],
    ...     "position": [1, 2],
    ...     "reward": [1, 2],
    ...     "logged_probability": [0.5, 0.5],
    ...     "new_probability": [1.0, 0.25],
    ... })
    >>> pr.clicks.sips(log)["value"].item()  # (1 / 0.5) x (0.25 / 0.5) x (1 + 2)
    3.0
    """
    columns = _Columns(slate, position, reward, logged, new, joint, by, cluster)
    return _estimate(frame, columns, _of_slate)


def _of_slate(rows: _Slate) -> tuple[pl.Expr, pl.Expr]:
    slate_weight = rows.weight_down.last()
    return slate_weight * rows.reward.sum(), slate_weight


@described_by(sips)
@framed
def iips(
    frame: pl.LazyFrame,
    *,
    slate: Names = "slate",
    position: str = "position",
    reward: str = "reward",
    logged: str = "logged_probability",
    new: str = "new_probability",
    by: Names | None = None,
    cluster: Names | None = None,
) -> pl.LazyFrame:
    r"""Estimate the value of a slate policy by independent IPS: one weight per document.

    $$V = \frac{1}{n} \sum_i \sum_k \frac{\pi(a_{ik})}{\pi_0(a_{ik})} r_{ik}$$

    Low variance. Unbiased only if the reward of a document does not depend on the other documents
    of the slate (the item-position click model).

    Parameters
    ----------
    frame, slate, position, reward
        As in `sips`.
    logged, new
        Columns with the probability that the logging policy, and the new policy, put this document
        at this position, whatever the documents above it; in (0, 1] and in [0, 1].
    by
        As in `sips`.
    cluster
        Columns that identify the sampling unit if it is not the slate, such as the query or the
        user; constant within a slate.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group, with the columns of `sips`; the weights
        are those of all documents.

    References
    ----------
    Li et al., Offline evaluation of ranking policies with click models, 2018.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "slate": [1, 1],
    ...     "position": [1, 2],
    ...     "reward": [1, 2],
    ...     "logged_probability": [0.5, 0.5],
    ...     "new_probability": [1.0, 0.25],
    ... })
    >>> pr.clicks.iips(log)["value"].item()  # 2 x 1 + 0.5 x 2
    3.0
    """
    columns = _Columns(slate, position, reward, logged, new, joint=False, by=by, cluster=cluster)
    return _estimate(
        frame, columns, lambda rows: ((rows.own_weight * rows.reward).sum(), rows.own_weight)
    )


@described_by(sips)
@framed
def rips(
    frame: pl.LazyFrame,
    *,
    slate: Names = "slate",
    position: str = "position",
    reward: str = "reward",
    logged: str = "logged_probability",
    new: str = "new_probability",
    joint: bool = False,
    by: Names | None = None,
    cluster: Names | None = None,
) -> pl.LazyFrame:
    r"""Estimate the value of a slate policy by reward interaction IPS (cascade model).

    $$V = \frac{1}{n} \sum_i \sum_k \prod_{j \le k}
    \frac{\pi(a_{ij} | a_{i,<j})}{\pi_0(a_{ij} | a_{i,<j})} r_{ik}$$

    The weight of a reward is the product of the weights of the documents down to its position.
    Unbiased if users read from the top, so that the reward of a document depends only on those
    above it (the cascade model). The variance is between those of `iips` and `sips`.

    Parameters
    ----------
    frame, slate, position, reward, logged, new, joint, by
        As in `sips`.
    cluster
        Columns that identify the sampling unit if it is not the slate, such as the query or the
        user; constant within a slate.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group, with the columns of `sips`; the weights
        are those of all documents.

    References
    ----------
    McInerney et al., Counterfactual evaluation of slate recommendations with sequential reward
    interactions, 2020.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "slate": [1, 1],
    ...     "position": [1, 2],
    ...     "reward": [1, 2],
    ...     "logged_probability": [0.5, 0.5],
    ...     "new_probability": [1.0, 0.25],
    ... })
    >>> pr.clicks.rips(log)["value"].item()  # 2 x 1 + (2 x 0.5) x 2
    4.0
    """
    columns = _Columns(slate, position, reward, logged, new, joint, by, cluster)
    return _estimate(
        frame, columns, lambda rows: ((rows.weight_down * rows.reward).sum(), rows.weight_down)
    )


@described_by(sips)
@framed
def cascade_dr(
    frame: pl.LazyFrame,
    *,
    slate: Names = "slate",
    position: str = "position",
    reward: str = "reward",
    logged: str = "logged_probability",
    new: str = "new_probability",
    estimate: str = "estimate",
    expected: str = "expected",
    joint: bool = False,
    by: Names | None = None,
    cluster: Names | None = None,
) -> pl.LazyFrame:
    r"""Estimate the value of a slate policy by cascade doubly robust (a reward model and RIPS).

    $$V = \frac{1}{n} \sum_i \sum_k w_{i,\le k} (r_{ik} - \hat Q_{ik}) + w_{i,<k} \hat V_{ik}$$

    where w are the weights of `rips`. Under the cascade model, the estimate is unbiased for any
    reward model; a better reward model gives a lower variance.

    Parameters
    ----------
    frame, slate, position, reward, logged, new
        As in `sips`.
    estimate
        Column with Q, the reward model's estimate of the reward of the slate from this position
        on under the new policy, given this document and those above it.
    expected
        Column with V, the mean of Q over the documents that the new policy could put at this
        position, given those above it.
    joint, by
        As in `sips`.
    cluster
        Columns that identify the sampling unit if it is not the slate, such as the query or the
        user; constant within a slate.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group, with the columns of `sips`; the weights
        are those of all documents.

    References
    ----------
    Kiyohara et al., Doubly robust off-policy evaluation for ranking policies under the cascade
    behavior model, 2022.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "slate": [1, 1],
    ...     "position": [1, 2],
    ...     "reward": [1, 2],
    ...     "logged_probability": [0.5, 0.5],
    ...     "new_probability": [1.0, 0.25],
    ...     "estimate": [2.0, 1.0],
    ...     "expected": [2.0, 0.5],
    ... })
    >>> # 2 (1 - 2) + 1 x 2 + 1 (2 - 1) + 2 x 0.5.
    >>> pr.clicks.cascade_dr(log)["value"].item()
    2.0
    """
    columns = _Columns(
        slate, position, reward, logged, new, joint, by, cluster, (estimate, expected)
    )

    def corrected(rows: _Slate) -> tuple[pl.Expr, pl.Expr]:
        down = rows.weight_down
        above = down.shift(1, fill_value=1.0)
        model, mean = _from_top(_ESTIMATE), _from_top(_EXPECTED)
        return (down * (rows.reward - model) + above * mean).sum(), down

    return _estimate(frame, columns, corrected)


class _Columns(NamedTuple):
    """The columns of a log of slates."""

    slate: Names
    position: str
    reward: str
    logged: str
    new: str
    joint: bool
    by: Names | None
    cluster: Names | None
    model: tuple[str, ...] = ()

    @property
    def clusters(self) -> dict[str, str]:
        """Internal names of the columns of clusters → the user's names."""
        return cluster_columns(self.cluster)

    @property
    def numbers(self) -> dict[str, tuple[str, str]]:
        """Internal names of the numeric columns → parameters and the user's names."""
        both = {
            _POSITION: ("position", self.position),
            _REWARD: ("reward", self.reward),
            _LOGGED: ("logged", self.logged),
            _NEW: ("new", self.new),
        }
        model = zip((_ESTIMATE, _EXPECTED), ("estimate", "expected"), self.model, strict=False)
        return both | {own: (parameter, name) for own, parameter, name in model}

    def checked(self, schema: pl.Schema) -> Columns:
        """Check names and types; raise `SchemaError` if one is invalid."""
        numbers = dict(self.numbers.values())
        roles = find_columns(
            schema,
            {
                "slate": some_names("slate", self.slate),
                "by": self.by,
                "cluster": self.cluster,
                **numbers,
            },
            numbers=[*numbers],
            ids=("cluster",),
        )
        slates, groups = roles["slate"], roles["by"]
        free(groups, COLUMNS)
        return Columns(slates, groups, None, self.position, self.reward, schema)

    def checks(self) -> list[Check]:
        """Return the checks of rows."""
        finite = {
            f"null, NaN or infinite in the column {name!r} (`{parameter}`); drop the slate or fill "
            "the value": ~_number(name).is_finite().fill_null(value=False)
            for parameter, name in self.numbers.values()
        }
        logged, new = _number(self.logged), _number(self.new)
        problems = {
            **{
                f"null in the column {name!r} (`slate`); drop these rows": pl.col(name).is_null()
                for name in names("slate", self.slate)
            },
            **finite,
            f"column {self.logged!r} (`logged`) must have probabilities above 0 and at most 1": ~(
                (logged > 0) & (logged <= 1)
            ),
            f"column {self.new!r} (`new`) must have probabilities from 0 to 1": ~new.is_between(
                0, 1
            ),
        }
        return checks_of("row", problems)


def _estimate(frame: pl.LazyFrame, parameters: _Columns, estimator: Estimator) -> pl.LazyFrame:
    """Return the estimate for each group."""
    columns = parameters.checked(schema_of(frame))
    ratios = _from_top(_NEW) / _from_top(_LOGGED)
    value, weights = estimator(
        _Slate(_from_top(_REWARD), ratios, ratios if parameters.joint else ratios.cum_prod())
    )
    clusters = parameters.clusters
    cluster_varies = (pl.col(own).n_unique() > 1 for own in clusters)
    values = {
        **{own: pl.col(own).first() for own in clusters},
        _VALUE: value,
        _WEIGHTS: weights.sum(),
        _SQUARES: (weights**2).sum(),
        _HIGHEST: weights.max(),
        _NUMBER: weights.count(),
        _DUPLICATES: pl.col(_POSITION).n_unique() < pl.len(),
        _INCREASING: _increases(_LOGGED) | _increases(_NEW)
        if parameters.joint
        else pl.lit(value=False).first(),
        _CLUSTERS: pl.any_horizontal(pl.lit(value=False).first(), *cluster_varies),
    }
    slates, keys = per_ranking(
        frame,
        columns,
        {
            **{own: _number(name) for own, (_, name) in parameters.numbers.items()},
            **{own: pl.col(name) for own, name in clusters.items()},
        },
        [value.alias(name) for name, value in values.items()],
        parameters.checks(),
    )
    problems = {
        f"duplicate positions of a slate in {parameters.position!r}; name all columns that "
        "identify a slate with slate=[...]": pl.col(_DUPLICATES),
        "joint probabilities increase down a slate, which is impossible; use joint=False if they "
        "are conditional on the documents above": pl.col(_INCREASING),
        f"the columns {[*clusters.values()]} (`cluster`) must be constant within a slate": (
            pl.col(_CLUSTERS)
        ),
    }
    checks = checks_of("ranking", problems)
    flagged = slates.with_columns(failed(checks, "ranking"))
    valid = raise_failed(flagged, checks, keys=keys.names)
    slates = valid.rename({keys.names[name]: name for name in columns.by})
    if clusters:
        slate = [keys.names[name] for name in columns.query]
        sums = _by_cluster(slates, columns.by, [*clusters], slate)
        estimates = grouped(sums, columns.by, _cluster_estimates())
    else:
        estimates = grouped(slates, columns.by, _slate_estimates())
    return estimates.map_batches(
        partial(check_weights, by=columns.by, number="slates", variances=["variance"]),
        schema=estimates.drop(EFFECTIVE).collect_schema(),
        streamable=True,
    )


def _by_cluster(
    slates: pl.LazyFrame, by: Sequence[str], clusters: Sequence[str], slate: Sequence[str]
) -> pl.LazyFrame:
    """Return the sums over the slates of each cluster. A slate with a null is its own cluster."""
    alone = pl.any_horizontal(pl.col(name).is_null() for name in clusters)
    keys = [pl.when(~alone).then(name).alias(name) for name in clusters]
    keys += [pl.when(alone).then(name).alias(name) for name in slate]
    sums = [pl.col(_VALUE, _WEIGHTS, _NUMBER).sum(), pl.len().alias(_SLATES)]
    return slates.group_by([*by, *keys]).agg(sums)


def _slate_estimates() -> list[pl.Expr]:
    """Return the columns of the result as aggregations of slates."""
    weight_statistics = concentration(
        pl.col(_WEIGHTS).sum(), pl.col(_SQUARES).sum(), pl.col(_HIGHEST).max()
    )
    value, number = pl.col(_VALUE), pl.len().cast(pl.Float64)
    variance = ratio_variance(
        value.var(ddof=0) * number, (value**2).sum(), divisor=number, divisor_squares=number
    )
    return _named(pl.len(), value.mean(), variance, number, weight_statistics)


def _cluster_estimates() -> list[pl.Expr]:
    """Return the columns of the result as aggregations of clusters; the mean is a ratio of sums."""
    total, slates, weight = pl.col(_VALUE), pl.col(_SLATES).cast(pl.Float64), pl.col(_WEIGHTS)
    value = ratio(total.sum(), slates.sum())
    variance = ratio_variance(
        ((total - value * slates) ** 2).sum(),
        (total**2).sum() + value**2 * (slates**2).sum(),
        divisor=slates.sum(),
        divisor_squares=(slates**2).sum(),
    )
    effective = ratio(slates.sum() ** 2, (slates**2).sum())
    weight_statistics = concentration(weight.sum(), (weight**2).sum(), weight.max())
    return _named(pl.col(_SLATES).sum(), value, variance, effective, weight_statistics)


def _named(
    slates: pl.Expr,
    value: pl.Expr,
    variance: pl.Expr,
    effective: pl.Expr,
    weight_statistics: tuple[pl.Expr, pl.Expr],
) -> list[pl.Expr]:
    mean_weight = ratio(pl.col(_WEIGHTS).sum(), pl.col(_NUMBER).sum())
    totals = (slates, value, variance, *interval(value, variance), mean_weight, *weight_statistics)
    columns = [each.alias(name) for each, name in zip(totals, COLUMNS, strict=True)]
    return [*columns, effective.alias(EFFECTIVE)]


def _number(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)


def _from_top(name: str) -> pl.Expr:
    return pl.col(name).sort_by(_POSITION)


def _increases(name: str) -> pl.Expr:
    return (_from_top(name).diff() > 0).any()
