"""What a new policy of slates is worth, by rewards of the slates that another one drew.

Both policies draw by lot, and the probabilities are logged: of each document at its position,
given those above it. The weight of a reward is the ratio of the two policies' probabilities of
whatever the reward may depend on: the whole slate (SIPS), the documents down to it (RIPS), or its
own document alone (IIPS).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, check_apart, find_columns, free, names
from polars_rank.clicks.certainty import concentration, interval, warn_of_few
from polars_rank.clicks.impressions import per_list
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import Check, checks_of, failed, raise_failed
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.frames.tables import framed, schema_of

__all__ = ["cascade_dr", "iips", "rips", "sips"]

COLUMNS = (
    *("slates", "value", "variance", "low", "high"),
    *("mean_weight", "effective_sample_size", "max_weight_share"),
)

#: Rows of a slate, under our own names.
_POSITION, _REWARD, _LOGGED, _NEW, _ESTIMATE, _EXPECTED = (
    OWN + name for name in ("position", "reward", "logged", "new", "estimate", "expected")
)
#: By slate: what it is worth, its weights, their squares, the highest, and how many they are;
#: by cluster, its slates.
_WORTH, _WEIGHTS, _SQUARES, _HIGHEST, _NUMBER, _SLATES = (
    OWN + name for name in ("worth", "weights", "squares", "highest", "number", "slates")
)
_REPEATED, _RISING, _SEVERAL = (OWN + name for name in ("repeated", "rising", "several"))


class _Slate(NamedTuple):
    """The rows of one slate from the top: rewards, and weights given what stands above."""

    reward: pl.Expr
    #: Of each document alone, and of all documents down to it.
    alone: pl.Expr
    down: pl.Expr


#: What a slate is worth, and its weights.
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
    r"""Slate value by standard IPS: each reward weighs as the whole slate does.

    $$V = \frac{1}{n} \sum_i \prod_k \frac{\pi(a_{ik} | a_{i,<k})}{\pi_0(a_{ik} | a_{i,<k})}
    \sum_k r_{ik}$$

    Unbiased whatever users do, and of the highest variance: a slate that the new policy would not
    draw counts for nothing.

    Parameters
    ----------
    frame
        One row per document of a slate.
    slate, position, reward
        Names of the columns: the slate (its impression, several columns if need be), the
        position of the document in it, and what it brought, such as a click.
    logged, new
        The columns of the probability that the logging policy, and the new one, put this document
        at this position given those above it: above 0 and at most 1, and 0 to 1.
    joint
        The probabilities are those of all documents down to this one together (which do not rise
        down a slate), not of this one given those above.
    by
        Columns that split the table: each group has its own estimate. They are the same in all
        rows of a slate.
    cluster
        Columns that identify what was sampled, if it is not the slate, such as the query or the
        user; the same in all rows of a slate. Without it, the interval is for other slates of
        these users; with `cluster="user"` it is for slates of other users from the same
        population, and is wider. A slate with a null is a cluster of its own.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group, in order, with the `by` columns and

        - `slates`: how many;
        - `value`: the mean reward of a slate by the new policy;
        - `variance`, `low`, `high`: of that mean over slates, or over clusters of them, and the
          normal interval of 95 %;
        - `mean_weight`: about 1, if the probabilities are what they are said to be;
        - `effective_sample_size`, `max_weight_share`: how many equal weights would say as much
          (Kish, 1965), and the share of the greatest; with `cluster`, of the weights of clusters.

    Raises
    ------
    SchemaError, ArgumentError
        For a missing or not numeric column.
    DataError
        For nulls, probabilities out of range, a position that comes twice in a slate, a cluster
        that differs within a slate; lazily, when the result is collected.

    Warns
    -----
    RankWarning
        When the result is collected, if the effective sample size or the number of slates is
        below 30, where intervals are too narrow.

    Notes
    -----
    All documents of a slate must be there, those without a reward, too: weights are made of them.
    Positions say which stands above which, from whatever number they count.

    A table in the order of slates, as `scan_log(..., query=slate)` makes any, streams in flat
    memory.

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
    return _valued(frame, columns, _of_slate)


def _of_slate(rows: _Slate) -> tuple[pl.Expr, pl.Expr]:
    whole = rows.down.last()
    return whole * rows.reward.sum(), whole


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
    r"""Slate value by independent IPS: each reward weighs as its own document does.

    $$V = \frac{1}{n} \sum_i \sum_k \frac{\pi(a_{ik})}{\pi_0(a_{ik})} r_{ik}$$

    Of low variance, and unbiased only where what a document brings does not depend on the others
    in the slate (the item-position click model).

    Parameters
    ----------
    frame, slate, position, reward, by, cluster
        As for `sips`.
    logged, new
        The columns of the probability that each policy puts this document at this position,
        whatever stands above it.

    Returns
    -------
    LazyFrame or DataFrame
        As `sips`; the weights are those of all documents.

    Raises
    ------
    SchemaError, ArgumentError, DataError
        As `sips`.

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
    return _valued(frame, columns, lambda rows: ((rows.alone * rows.reward).sum(), rows.alone))


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
    r"""Slate value by reward interaction IPS: each reward weighs as the documents down to it do.

    $$V = \frac{1}{n} \sum_i \sum_k \prod_{j \le k}
    \frac{\pi(a_{ij} | a_{i,<j})}{\pi_0(a_{ij} | a_{i,<j})} r_{ik}$$

    Unbiased where users read from the top, so that what a document brings depends on those above
    it alone (the cascade model); of a variance between those of `iips` and `sips`.

    Parameters
    ----------
    frame, slate, position, reward, logged, new, joint, by, cluster
        As for `sips`.

    Returns
    -------
    LazyFrame or DataFrame
        As `sips`; the weights are those of all documents.

    Raises
    ------
    SchemaError, ArgumentError, DataError
        As `sips`.

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
    return _valued(frame, columns, lambda rows: ((rows.down * rows.reward).sum(), rows.down))


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
    r"""Slate value by the cascade doubly robust estimator: a reward model, corrected by `rips`.

    $$V = \frac{1}{n} \sum_i \sum_k w_{i,\le k} (r_{ik} - \hat Q_{ik}) + w_{i,<k} \hat V_{ik}$$

    with w the weights of `rips`. Unbiased, under the cascade model, whatever the reward model says;
    the better it is, the lower the variance.

    Parameters
    ----------
    frame, slate, position, reward, logged, new, joint, by, cluster
        As for `sips`.
    estimate
        The column of Q, the reward model's estimate of what the slate brings from this position
        on, by the new policy below it, given this document and those above.
    expected
        The column of V, the mean of that estimate over the documents that the new policy would
        put here, given those above.

    Returns
    -------
    LazyFrame or DataFrame
        As `sips`; the weights are those of all documents.

    Raises
    ------
    SchemaError, ArgumentError, DataError
        As `sips`.

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
    >>> pr.clicks.cascade_dr(log)["value"].item()  # 2 (1 - 2) + 1 x 2 + 1 (2 - 1) + 2 x 0.5
    2.0
    """
    columns = _Columns(
        slate, position, reward, logged, new, joint, by, cluster, (estimate, expected)
    )

    def corrected(rows: _Slate) -> tuple[pl.Expr, pl.Expr]:
        above = rows.down.shift(1, fill_value=1.0)
        model, mean = _from_top(_ESTIMATE), _from_top(_EXPECTED)
        return (rows.down * (rows.reward - model) + above * mean).sum(), rows.down

    return _valued(frame, columns, corrected)


class _Columns(NamedTuple):
    """What the caller says of the table."""

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
        """The columns of clusters: our own names → the user's."""
        return {
            f"{OWN}cluster {index}": name
            for index, name in enumerate(names("cluster", self.cluster))
        }

    @property
    def numbers(self) -> dict[str, tuple[str, str]]:
        """The columns of numbers: our own names → parameters and the user's names."""
        both = {
            _POSITION: ("position", self.position),
            _REWARD: ("reward", self.reward),
            _LOGGED: ("logged", self.logged),
            _NEW: ("new", self.new),
        }
        model = zip((_ESTIMATE, _EXPECTED), ("estimate", "expected"), self.model, strict=False)
        return both | {own: (parameter, name) for own, parameter, name in model}

    def checked(self, schema: pl.Schema) -> Columns:
        """Check names and types; raise `SchemaError` where one is off."""
        numbers = dict(self.numbers.values())
        found = find_columns(
            schema,
            {"slate": self.slate, "by": self.by or (), "cluster": self.cluster or (), **numbers},
            numbers=[*numbers],
            ids=("cluster",),
        )
        slates, groups, clusters = found["slate"], found["by"], found["cluster"]
        check_apart("slate", slates, groups)
        if clusters:
            check_apart("cluster", clusters, groups)
        free(groups, COLUMNS)
        return Columns(slates, groups, None, self.position, self.reward, schema)

    def checks(self) -> list[Check]:
        """Return the checks of the rows."""
        finite = {
            f"null, NaN or infinite in the column {name!r} ({parameter}); drop the slate or fill it"
            " in": ~_number(name).is_finite().fill_null(value=False)
            for parameter, name in self.numbers.values()
        }
        logged, new = _number(self.logged), _number(self.new)
        problems = {
            **{
                f"null in the column {name!r} (slate); drop these rows": pl.col(name).is_null()
                for name in names("slate", self.slate)
            },
            **finite,
            f"the logged probability in {self.logged!r} must be above 0 and at most 1: what the "
            "logging policy never draws tells nothing": ~((logged > 0) & (logged <= 1)),
            f"the new probability in {self.new!r} must be from 0 to 1": ~new.is_between(0, 1),
        }
        return checks_of("row", problems)


def _valued(frame: pl.LazyFrame, asked: _Columns, estimator: Estimator) -> pl.LazyFrame:
    """Return the estimate for each group."""
    columns = asked.checked(schema_of(frame))
    ratios = _from_top(_NEW) / _from_top(_LOGGED)
    worth, weights = estimator(
        _Slate(_from_top(_REWARD), ratios, ratios if asked.joint else ratios.cum_prod())
    )
    clusters = asked.clusters
    varies = (pl.col(own).n_unique() > 1 for own in clusters)
    values = {
        **{own: pl.col(own).first() for own in clusters},
        _WORTH: worth,
        _WEIGHTS: weights.sum(),
        _SQUARES: (weights**2).sum(),
        _HIGHEST: weights.max(),
        _NUMBER: weights.count(),
        _REPEATED: pl.col(_POSITION).n_unique() < pl.len(),
        _RISING: _rising(_LOGGED) | _rising(_NEW) if asked.joint else pl.lit(value=False).first(),
        _SEVERAL: pl.any_horizontal(pl.lit(value=False).first(), *varies),
    }
    slates, lists = per_list(
        frame,
        columns,
        {
            **{own: _number(name) for own, (_, name) in asked.numbers.items()},
            **{own: pl.col(name) for own, name in clusters.items()},
        },
        [value.alias(name) for name, value in values.items()],
        asked.checks(),
    )
    broken = {
        f"a position comes twice in {asked.position!r}; name the columns that tell slates apart "
        "with slate=[...]": pl.col(_REPEATED),
        "joint probabilities rise down a slate, which those of more and more documents cannot; "
        "leave out joint=True if each is given those above": pl.col(_RISING),
        f"the columns {[*clusters.values()]} (cluster) must be the same in all rows of a slate": (
            pl.col(_SEVERAL)
        ),
    }
    checks = checks_of("ranking", broken)
    flagged = slates.with_columns(failed(checks, "ranking"))
    whole = raise_failed(flagged, checks, keys=lists.names)
    of_groups = {lists.names[name]: name for name in columns.by}
    found = whole.rename(of_groups)
    if clusters:
        slate = [lists.names[name] for name in columns.query]
        found = grouped(_units(found, columns.by, [*clusters], slate), columns.by, _of_units())
    else:
        found = grouped(found, columns.by, _of_slates())
    return found.map_batches(
        partial(_doubted, columns.by), schema=found.collect_schema(), streamable=True
    )


def _doubted(by: Sequence[str], groups: pl.DataFrame) -> pl.DataFrame:
    warn_of_few(groups, by, "slates")
    return groups


def _units(
    slates: pl.LazyFrame, by: Sequence[str], clusters: Sequence[str], slate: Sequence[str]
) -> pl.LazyFrame:
    """Return the sums over the slates of each cluster; one that is null has one slate."""
    alone = pl.any_horizontal(pl.col(name).is_null() for name in clusters)
    unit = [pl.when(~alone).then(name).alias(name) for name in clusters]
    unit += [pl.when(alone).then(name).alias(name) for name in slate]
    sums = [pl.col(_WORTH, _WEIGHTS, _NUMBER).sum(), pl.len().alias(_SLATES)]
    return slates.group_by([*by, *unit]).agg(sums)


def _of_slates() -> list[pl.Expr]:
    """Return the mean over slates, its variance and interval, and how weights are spread."""
    hangs_on = concentration(pl.col(_WEIGHTS).sum(), pl.col(_SQUARES).sum(), pl.col(_HIGHEST).max())
    return _named(pl.len(), pl.col(_WORTH).mean(), pl.col(_WORTH).var() / pl.len(), hangs_on)


def _of_units() -> list[pl.Expr]:
    """Return the same of clusters: the mean is a ratio of sums over them."""
    worth, slates, weight = pl.col(_WORTH), pl.col(_SLATES), pl.col(_WEIGHTS)
    value = ratio(worth.sum(), slates.sum())
    spread = ((worth - value * slates) ** 2).sum()
    variance = spread / slates.sum() ** 2 * pl.len() / (pl.len() - 1)
    hangs_on = concentration(weight.sum(), (weight**2).sum(), weight.max())
    return _named(slates.sum(), value, pl.when(pl.len() > 1).then(variance), hangs_on)


def _named(
    slates: pl.Expr, value: pl.Expr, variance: pl.Expr, hangs_on: tuple[pl.Expr, pl.Expr]
) -> list[pl.Expr]:
    mean_weight = ratio(pl.col(_WEIGHTS).sum(), pl.col(_NUMBER).sum())
    totals = (slates, value, variance, *interval(value, variance), mean_weight, *hangs_on)
    return [each.alias(name) for each, name in zip(totals, COLUMNS, strict=True)]


def _number(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)


def _from_top(name: str) -> pl.Expr:
    return pl.col(name).sort_by(_POSITION)


def _rising(name: str) -> pl.Expr:
    return (_from_top(name).diff() > 0).any()
