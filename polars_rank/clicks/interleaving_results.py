"""`interleaving_result`: a test of which ranker users prefer in an interleaving experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, find_columns, free, share, some_names
from polars_rank.clicks.certainty import (
    MIN_SAMPLE_SIZE,
    Result,
    cluster_columns,
    first_group,
    ratio_variance,
    t_test,
)
from polars_rank.errors import ArgumentError, DataError, number_of, warn
from polars_rank.evaluation.checks import FAILED, checks_of, failed, refuse, refuse_failed
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats.intervals import stats
from polars_rank.stats.moment_math import alone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_CLICKED, _PREFERRED, _PLACE = (OWN + name for name in ("clicked", "preferred", "place"))
_REMEDY = "drop these rows, or name all columns that identify a ranking with query=[...]"
#: Errors in rows → remedies.
_REMEDIES = {
    "null query ids": _REMEDY,
    "NaN, negative or fractional clicks": "use null for 'unknown'",
}
_ONE_CLUSTER = "name columns with `cluster` that are constant within a ranking"
#: Whether a ranking has duplicate positions.
_DUPLICATE = OWN + "duplicate"
#: Whether the log has documents of the first and the second ranker of a pair.
_FIRST, _SECOND = OWN + "first", OWN + "second"
_PRESENT = {"team": _FIRST, "other": _SECOND}
#: Whether the cluster varies within a ranking.
_VARIES = OWN + "varies"
_CHECKED = (FAILED, _DUPLICATE, _FIRST, _SECOND, _VARIES)
_VARIANCE, _EFFECTIVE = OWN + "variance", "effective"
_COUNTS = ("queries", "wins", "ties", "losses")
_ESTIMATES = {name: pl.Float64() for name in ("delta", "low", "high", "p_value")}
#: Number of bisection steps for a bound, which reaches the precision of a Float64.
_BISECTIONS = 60


@framed
def interleaving_result(
    frame: pl.LazyFrame,
    *,
    team: str = "team",
    click: str = "click",
    query: Names = "query",
    by: Names | None = None,
    cluster: Names | None = None,
    ranks: Mapping[str, str] | None = None,
    position: str = "position",
    confidence: float = 0.95,
) -> pl.LazyFrame:
    r"""Test which ranker users prefer: the ranker with more clicks per interleaved ranking.

    $$\Delta_{AB} = \frac{wins + ties / 2}{wins + ties + losses} - \frac{1}{2}$$

    Parameters
    ----------
    frame
        The log of rankings from `team_draft` or `balanced_interleaving`, with clicks; one row per
        shown document.
    team
        Column with the ranker that contributed the document; null for other documents, such as
        advertisements.
    click
        Column of clicks: Boolean, or a count.
    query
        Columns that identify a ranking that a user saw, such as the session.
    by
        Columns that split the log into groups. Rankers are compared within each group.
    cluster
        Columns that identify the sampling unit if it is not the ranking, such as the text of the
        query or the user; constant within a ranking. Without `cluster`, the result is about other
        rankings of the same queries and users; with `cluster="user"`, it is about other users from
        the same population, and the interval is wider. A ranking with a null is its own cluster.
        With `cluster`, memory grows with the number of rankings.
    ranks
        For balanced interleaving: mapping from each ranker to the column with its ranks,
        `{"a": "rank_a", "b": "rank_b"}`. The ranker with more clicked documents among its top n
        wins, where n is the lower of the two ranks of the lowest clicked document (Joachims,
        2003). `team` is not read.
    position
        Column with the position at which a document was shown, required with `ranks` and without
        duplicates in a ranking. Default: "position", if the log has that column.
    confidence
        Confidence level of the intervals.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group and pair of rankers, sorted, with the `by`
        columns, `team` and `other`, and

        - `queries`: the number of rankings;
        - `wins`, `ties`, `losses`: the numbers of rankings that `team` wins, ties and loses; a
          ranking without a click is a tie;
        - `delta`: Δ, in [-1/2, 1/2], above 0 if `team` is preferred;
        - `low`, `high`: the bounds of its confidence interval;
        - `p_value`: the p-value of the sign test, whose null hypothesis is that wins and losses are
          equally likely; with `cluster`, of the t test of Δ = 0;
        - `effective`, only with `cluster`: the effective number of clusters (Kish, 1965). Bounds
          and p-value are null if it is 1 or less.

    Raises
    ------
    DataError
        If the log or a group has documents of fewer than two teams, a query is null, a click is
        neither Boolean nor a count, a ranking has duplicate positions, for example because `query`
        does not include the session, or `cluster` varies within a ranking; raised when the result
        is collected.
    MissingExtraError
        If scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        With `cluster`, if the effective number of clusters is below 30, or if Δ is the same in all
        clusters: the bounds are then null, and the p-value is 1 if Δ is 0, otherwise null. Issued
        when the result is collected.

    Notes
    -----
    The test is the exact two-sided binomial test over the rankings that are not tied. It treats
    rankings as independent. If a log has several rankings of a query or a user, and the result is
    to hold for others, name the column with `cluster`: with 40 sessions of each of 50 queries that
    differ in their preference, the 95% interval contains the true Δ in about 45% of simulated logs
    without `cluster`, and in 95% with `cluster`.

    The interval is Tango's score interval for the difference of two paired proportions: wins,
    losses and ties are all random, so it includes the uncertainty of the share of ties. In
    simulations, the 95% interval contains the true Δ in at least 0.935 of logs with 100 or more
    rankings, even if one ranker wins every ranking that is not tied. The exact test is slightly
    more conservative: with few decided rankings, the interval can exclude 0 although the p-value is
    slightly above 1 - `confidence`.

    With `cluster`, Δ is a ratio of sums over clusters, and the variance is

    $$\frac{n}{n - 1} \cdot \frac{\sum_c w_c^2 (\Delta_c - \Delta)^2}{(\sum_c w_c)^2},
    \qquad n = \frac{(\sum_c w_c)^2}{\sum_c w_c^2}$$

    where w is the number of rankings of a cluster. The interval and the test use the t distribution
    with n - 1 degrees of freedom.

    With several pairs or groups, some differences are significant by chance; correct the p-values
    for multiple comparisons.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Chapelle, Joachims, Radlinski & Yue, Large-scale validation and analysis of interleaved search
    evaluation, 2012; Joachims, Evaluating retrieval performance using clickthrough data, 2003.
    Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, 1998: the interval. Kish, Survey sampling, 1965, and Cochran, Sampling
    techniques, 1977: clusters.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2, 3, 3, 4, 4],
    ...     "team": ["a", "b"] * 4,
    ...     "click": [0, 1, 0, 1, 1, 0, 0, 0],
    ... })
    >>> row = pr.clicks.interleaving_result(log).row(0, named=True)
    >>> row["wins"], row["ties"], row["losses"]
    (1, 1, 2)
    >>> row["delta"], row["p_value"]  # (1 + 1 / 2) / 4 - 1 / 2
    (-0.125, 1.0)
    """
    share("confidence", confidence)
    if ranks is not None and (not isinstance(ranks, Mapping) or len(ranks) != len(_PRESENT)):
        raise ArgumentError(
            "`ranks` must map the names of two rankers to the columns of their ranks; found "
            f"{ranks!r}"
        )
    schema = schema_of(frame)
    has_position = position in schema
    position_used = has_position or ranks is not None or position != "position"
    roles = find_columns(
        schema,
        {
            "query": some_names("query", query),
            "by": by,
            "cluster": cluster,
            "click": click,
            "team": team if ranks is None else (),
            "ranks": () if ranks is None else [*ranks.values()],
            "position": position if position_used else (),
        },
        numbers=("click",) if ranks is None else ("click", "ranks", "position"),
        ids=("team", "cluster"),
    )
    keys, groups, clusters = roles["query"], roles["by"], cluster_columns(cluster)
    added = [_EFFECTIVE] if clusters else []
    free(groups, ["team", "other", *_COUNTS, *_ESTIMATES, *added])
    free(keys, ["team", "other"], "query")
    number = pl.col(click).cast(pl.Float64)
    clicked = (number > 0).fill_null(value=False)
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in keys)
    conditions = (unknown, ~((number >= 0) & (number == number.floor()) & number.is_finite()))
    row_checks = failed(checks_of("row", dict(zip(_REMEDIES, conditions, strict=True))), "row")
    log = frame.with_columns(pl.col(name).alias(own) for own, name in clusters.items())
    if ranks is None:
        text = is_text(schema[team])
        name = pl.col(team).cast(pl.String) if text else pl.col(team)
        place = pl.col(position) if has_position else pl.lit(None)
        rankings = _by_team(log, row_checks, clicked, name, place, keys, groups, clusters)
    else:
        rankings = _by_rank(log, row_checks, clicked, ranks, position, keys, groups, clusters)
    preferred = pl.col(_PREFERRED)
    counts = [
        pl.len().alias("queries"),
        (preferred > 0).sum().alias("wins"),
        (preferred == 0).sum().alias("ties"),
        (preferred < 0).sum().alias("losses"),
        pl.col(_CHECKED).max(),
    ]
    pair = [*groups, "team", "other"]
    if clusters:
        units = rankings.group_by([*pair, *clusters, alone([*clusters])]).agg(counts)
        pairs = _of_clusters(units, pair)
    else:
        pairs = grouped(rankings, pair, counts)
    stats()
    counted = pairs.select(*pair, *_COUNTS).collect_schema()
    result_schema = pl.Schema({**counted, **_ESTIMATES, **dict.fromkeys(added, pl.Float64())})
    with_tests = partial(_with_tests, confidence=confidence, clusters=[*clusters.values()])
    return pairs.map_batches(with_tests, schema=result_schema, streamable=True)


def _of_clusters(clusters: pl.LazyFrame, pair: Sequence[str]) -> pl.LazyFrame:
    """Return the counts of each pair, the variance of Δ and the effective number of clusters."""
    number = pl.col("queries").cast(pl.Float64)
    value = (pl.col("wins").cast(pl.Float64) - pl.col("losses")) / 2
    sums = {"v": value, "d": number, "vv": value**2, "vd": value * number, "dd": number**2}
    pairs = grouped(
        clusters,
        pair,
        [
            pl.col(_COUNTS).sum(),
            pl.col(_CHECKED).max(),
            *(each.sum().alias(OWN + name) for name, each in sums.items()),
        ],
    )
    v, d, vv, vd, dd = (pl.col(OWN + name) for name in sums)
    delta = ratio(v, d)
    terms = vv + delta**2 * dd
    return pairs.with_columns(
        ratio_variance(terms - 2 * delta * vd, terms, d, dd).alias(_VARIANCE),
        ratio(d**2, dd).alias(_EFFECTIVE),
    ).drop(OWN + name for name in sums)


def _by_team(
    log: pl.LazyFrame,
    row_checks: pl.Expr,
    clicked: pl.Expr,
    team: pl.Expr,
    place: pl.Expr,
    keys: Sequence[str],
    groups: Sequence[str],
    clusters: Iterable[str],
) -> pl.LazyFrame:
    """Return the difference in clicks for each ranking and pair of rankers."""
    pairs = _pairs(log.select(*groups, team.alias("team")), groups)
    first, second = (
        (pl.col(_CLICKED) == pl.col(name)).sum().cast(pl.Int64) for name in ("team", "other")
    )
    click = pl.when(clicked).then(team).alias(_CLICKED)
    rankings = log.select(*groups, *keys, *clusters, click, place.alias(_PLACE), row_checks)
    return (
        _joined(rankings, pairs, groups)
        .group_by([*groups, *keys, "team", "other"])
        .agg(
            (first - second).alias(_PREFERRED),
            pl.col(FAILED).max(),
            _has_duplicates(_PLACE),
            *_cluster(clusters),
        )
        .with_columns(
            pl.col(name).is_not_null().alias(present) for name, present in _PRESENT.items()
        )
    )


def _pairs(rows: pl.LazyFrame, groups: Sequence[str]) -> pl.LazyFrame:
    """Return the pairs of teams of each group; a group with fewer than two teams keeps a row."""
    team = pl.col("team")
    known = team.drop_nulls()
    teams = grouped(rows.unique(), groups, [known if groups else known.implode()])
    lone = pl.when(team.list.len() < len(_PRESENT))
    return (
        teams.with_columns(lone.then(team.list.head(0)).otherwise(team).alias("other"))
        .explode("team", empty_as_null=True)
        .explode("other", empty_as_null=True)
        .filter((team < pl.col("other")) | pl.col("other").is_null())
    )


def _joined(left: pl.LazyFrame, right: pl.LazyFrame, groups: Sequence[str]) -> pl.LazyFrame:
    """Join each row with all rows of its group."""
    if not groups:
        return left.join(right, how="cross")
    return left.join(right, on=groups, nulls_equal=True)


def _by_rank(
    log: pl.LazyFrame,
    row_checks: pl.Expr,
    clicked: pl.Expr,
    ranks: Mapping[str, str],
    position: str,
    keys: Sequence[str],
    groups: Sequence[str],
    clusters: Iterable[str],
) -> pl.LazyFrame:
    """Return the difference in clicked top documents for each ranking."""
    first, second = sorted(ranks)
    lowest = pl.col(position).filter(clicked).max() == pl.col(position)
    depth = pl.min_horizontal(ranks.values()).filter(clicked & lowest).first()
    hits = [(clicked & (pl.col(ranks[name]) <= depth)).sum() for name in (first, second)]
    rankings = log.group_by([*groups, *keys]).agg(
        (hits[0].cast(pl.Int64) - hits[1].cast(pl.Int64)).alias(_PREFERRED),
        row_checks.max(),
        _has_duplicates(position),
        *_cluster(clusters),
        *(
            pl.col(ranks[name]).is_not_null().any().alias(present)
            for name, present in ((first, _FIRST), (second, _SECOND))
        ),
    )
    teams = (pl.lit(first).alias("team"), pl.lit(second).alias("other"))
    return rankings.select(*groups, *teams, *clusters, _PREFERRED, *_CHECKED)


def _has_duplicates(place: str) -> pl.Expr:
    """Return whether positions are duplicate, because the rows belong to several rankings."""
    known = pl.col(place).drop_nulls()
    return (known.n_unique() < known.len()).alias(_DUPLICATE)


def _cluster(clusters: Iterable[str]) -> list[pl.Expr]:
    """Return the cluster of a ranking, and whether it varies within the ranking."""
    varies = [pl.col(name).n_unique() > 1 for name in clusters]
    return [
        *(pl.col(name).first() for name in clusters),
        pl.any_horizontal(pl.lit(value=False).first(), *varies).alias(_VARIES),
    ]


def _with_tests(pairs: pl.DataFrame, confidence: float, clusters: Sequence[str]) -> pl.DataFrame:
    """Return the pairs with estimates and tests; raise `DataError` for invalid rows."""
    flags = pairs.drop(_COUNTS, _VARIANCE, _EFFECTIVE, strict=False)
    _check_two_teams(flags)
    checks = checks_of("row", dict.fromkeys(_REMEDIES, pl.lit(value=True)))
    refuse_failed(flags, checks, _REMEDIES)
    refuse(flags, pl.col(_DUPLICATE), "duplicate positions in a ranking", _REMEDY)
    refuse(flags, pl.col(_VARIES), "several clusters in a ranking", _ONE_CLUSTER)
    test = _cluster_test if clusters else _sign_test
    delta = (pl.col("wins") + pl.col("ties") / 2) / pl.col("queries") - 0.5
    tested = pairs.with_columns(delta.alias("delta"))
    tests = [test(row, confidence) for row in tested.iter_rows(named=True)]
    results = pl.DataFrame(tests, schema=dict.fromkeys(Result._fields, pl.Float64), orient="row")
    added = [_EFFECTIVE] if clusters else []
    tested = tested.hstack(results).drop(_CHECKED)
    if clusters:
        _warn_of_clusters(tested)
    return tested.select(pl.exclude(*_ESTIMATES, _VARIANCE, _EFFECTIVE), *_ESTIMATES, *added)


def _sign_test(pair: Mapping[str, Any], confidence: float) -> Result:
    """Return Tango's interval for Δ, and the p-value of the exact sign test."""
    wins, losses = pair["wins"], pair["losses"]
    low, high = difference_interval(wins, losses, pair["queries"], confidence)
    decided = wins + losses
    p_value = float(stats().binomtest(wins, decided).pvalue) if decided else 1.0
    return Result(low / 2, high / 2, p_value)


def _cluster_test(pair: Mapping[str, Any], confidence: float) -> Result:
    """Return the t interval for Δ over clusters, and the p-value of the t test."""
    return t_test(pair["delta"], pair[_VARIANCE], pair[_EFFECTIVE], confidence)


def _warn_of_clusters(pairs: pl.DataFrame) -> None:
    """Warn of few clusters, and of clusters with the same Δ."""
    groups = pairs.columns[: pairs.columns.index("queries")]
    few = pairs.filter(pl.col(_EFFECTIVE) < MIN_SAMPLE_SIZE).sort(_EFFECTIVE)
    if not few.is_empty():
        warn(
            f"the effective number of clusters is {few[_EFFECTIVE][0]:.3g}, below "
            f"{MIN_SAMPLE_SIZE}{first_group(few, groups)}: the interval is likely inaccurate; use "
            "a log with more clusters"
        )
    equal = pairs.filter(pl.col(_VARIANCE) == 0)
    if not equal.is_empty():
        warn(
            f"delta is the same in all clusters{first_group(equal, groups)}: its interval is "
            "unknown; use a log with more clusters"
        )


def difference_interval(
    wins: int, losses: int, rankings: int, confidence: float
) -> tuple[float, float]:
    """Return Tango's score interval for the share of wins minus the share of losses.

    A difference is in the interval if its distance from the estimate, in standard errors, is at
    most the normal quantile. The standard error is that of the maximum likelihood estimates of the
    shares under this difference.
    """
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)

    def contains(difference: float) -> bool:
        linear = (2 * rankings - wins + losses) * difference - wins - losses
        root = linear**2 + 8 * rankings * losses * difference * (1 - difference)
        lost = (math.sqrt(max(root, 0.0)) - linear) / (4 * rankings)
        variance = rankings * (2 * lost + difference * (1 - difference))
        return (wins - losses - rankings * difference) ** 2 <= quantile**2 * variance

    bounds = []
    for end in (-1.0, 1.0):
        inside, outside = (wins - losses) / rankings, end
        for _ in range(_BISECTIONS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if contains(middle) else (inside, middle)
        bounds.append((inside + outside) / 2)
    return bounds[0], bounds[1]


def _check_two_teams(pairs: pl.DataFrame) -> None:
    """Raise `DataError` if there are fewer than two rankers to compare."""
    lone = pairs.filter(~(pl.col(_FIRST) & pl.col(_SECOND)))
    if lone.is_empty():
        return
    row = lone.row(0, named=True)
    teams = [row[name] for name, present in _PRESENT.items() if row[present]]
    group = {n: value for n, value in row.items() if n not in _PRESENT and not n.startswith(OWN)}
    where = f" in the group {group} ({number_of(lone.height, 'such group')})" if group else ""
    known = f"only documents of the team {teams[0]!r}" if teams else "no documents of a team"
    raise DataError(
        f"nothing to compare: the log has {known}{where}; add the documents of all teams"
        f"{' or drop the group' if group else ''}"
    )
