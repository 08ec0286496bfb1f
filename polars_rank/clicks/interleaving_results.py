"""`interleaving_result`: a test of which ranker users prefer in an interleaving experiment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, free, share
from polars_rank.checks import FAILED, checks_of, failed, refuse, refuse_failed
from polars_rank.clicks.units import unit_keys, warn_of_few
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.evaluation.means import grouped
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats._arrays import special
from polars_rank.stats.ratios import EFFECTIVE_UNITS, power_sums, ratio_estimates

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_COUNTS = ("queries", "wins", "ties", "losses")
_ESTIMATES = ("delta", "low", "high", "p_value")
#: Of a unit: the difference of wins and losses, the number of rankings, and of those that are not
#: tied.
_VALUE, _DIVISOR, _DECIDED = OWN + "value", OWN + "divisor", OWN + "decided"


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
    >>> row["delta"], round(row["p_value"], 3)  # (1 + 1 / 2) / 4 - 1 / 2
    (-0.125, 0.564)

    Parameters
    ----------
    frame
        The log of rankings from `team_draft` or `balanced_interleaving`, with clicks; one row per
        shown document.
    team
        Column with the ranker that contributed the document; null for other documents, such as
        advertisements.
    click
        Column of clicks.
    query
        Column or columns that identify the query: each ranking that a user saw, such as the
        session.
    by
        Columns to group by. Rankers are compared within each group.
    cluster
        Columns that identify the sampling unit, such as the user. They are constant within a
        ranking. Without `cluster`, the result is about other rankings of the same queries and
        users; with `cluster="user"`, it is about other users from the same population, and the
        interval is wider. Memory then grows with the number of rankings.
    ranks
        For balanced interleaving: mapping from each ranker to the column with its ranks,
        `{"a": "rank_a", "b": "rank_b"}`. The ranker with more clicked documents among its top n
        wins, where n is the lower of the two ranks of the lowest clicked document (Joachims,
        2003). `team` is not read.
    position
        Column of the position, 1 first. It is required with `ranks`, without duplicates in a
        ranking. Default: "position" if the log has it.
    confidence
        Confidence level.

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
        - `p_value`: the two-sided p-value of Δ = 0, that wins and losses are equally likely;
        - `effective`, only with `cluster`: the effective number of clusters (Kish, 1965).

        Bounds and p-value are null if there is only one ranking or cluster.

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
        With `cluster`, if the effective number of clusters is below 5. Issued when the result is
        collected.

    Notes
    -----
    The interval is Tango's score interval for the difference of two paired proportions, and the
    test is the score test of the same model, McNemar's, so the interval contains 0 if and only if
    the p-value is above 1 - `confidence`. Wins, losses and ties are all random, so the interval
    includes the uncertainty of the share of ties. In simulations, the 95% interval contains the
    true Δ in at least 0.935 of logs with 100 or more rankings, even if one ranker wins every
    ranking that is not tied.

    Without `cluster`, rankings are independent. If a log has several rankings of a query or a user,
    and the result is to hold for others, name the column with `cluster`: with 40 sessions of each
    of 50 queries that differ in their preference, the 95% interval contains the true Δ in about 45%
    of simulated logs without `cluster`, and in 95% with `cluster`.

    With `cluster`, Δ is the mean of the clusters' Δ with the weights w, their numbers of rankings,
    and has the squared standard error

    $$\frac{n}{n - 1} \cdot \frac{\sum_c w_c^2 (\Delta_c - \Delta)^2}{(\sum_c w_c)^2},
    \qquad n = \frac{(\sum_c w_c)^2}{\sum_c w_c^2}$$

    The number of rankings is then that number, from n to all, with which independent rankings
    would have this standard error, and the quantile is that of the t distribution with n - 1
    degrees of freedom.

    With several pairs or groups, some differences are significant by chance; correct the p-values
    for multiple comparisons.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Chapelle, Joachims, Radlinski & Yue, Large-scale validation and analysis of interleaved search
    evaluation, 2012; Joachims, Evaluating retrieval performance using clickthrough data, 2003.
    Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, 1998: the interval. McNemar, Note on the sampling error of the difference
    between correlated proportions or percentages, 1947: the test. Kish, Survey sampling, 1965, and
    Cochran, Sampling techniques, 1977: clusters.
    """
    share("confidence", confidence)
    if ranks is not None and (not isinstance(ranks, Mapping) or len(ranks) != len(_PRESENT)):
        raise ArgumentError(
            "`ranks` must map the names of two rankers to the columns of their ranks; found "
            f"{ranks!r}"
        )
    schema = schema_of(frame)
    roles = {
        "by": by, "query": query, "cluster": cluster, "click": click,
        "team": team if ranks is None else None,
        "ranks": None if ranks is None else [*ranks.values()],
    }  # fmt: skip
    columns = Columns.find(schema, {**roles, "position": position}, optional=("team", "position"))
    keys, groups, place = columns.query, columns.groups, columns.one("position")
    named = columns.roles["cluster"]
    clusters = {f"{OWN}cluster {index}": name for index, name in enumerate(named)}
    added = ["effective"] if clusters else []
    free(groups, ["team", "other", *_COUNTS, *_ESTIMATES, *added])
    free(keys, ["team", "other"], "query")
    special()
    number = pl.col(click).cast(pl.Float64)
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in keys)
    conditions = (unknown, ~((number >= 0) & (number == number.floor()) & number.is_finite()))
    if ranks is None:
        is_name = is_text(schema[team])
        teams = {"team": pl.col(team).cast(pl.String) if is_name else pl.col(team)}
    else:
        teams = {f"{OWN}rank {name}": pl.col(column) for name, column in ranks.items()}
    rows = frame.select(
        *groups,
        *keys,
        *(pl.col(name).alias(own) for own, name in clusters.items()),
        (number > 0).fill_null(value=False).alias(_CLICKED),
        (pl.col(place) if place else pl.lit(None)).alias(_PLACE),
        failed(checks_of("row", dict(zip(_REMEDIES, conditions, strict=True))), "row"),
        **teams,
    )
    known, varies = pl.col(_PLACE).drop_nulls(), [pl.col(own).n_unique() > 1 for own in clusters]
    flags = [
        pl.col(FAILED).max(),
        (known.n_unique() < known.len()).alias(_DUPLICATE),
        pl.any_horizontal(pl.lit(value=False).first(), *varies).alias(_VARIES),
        *(pl.col(own).first() for own in clusters),
    ]
    if ranks is None:
        rankings = _by_team(rows, keys, groups, flags)
    else:
        rankings = _by_rank(rows, [*groups, *keys], sorted(ranks), flags)
    preferred, pair = pl.col(_PREFERRED), [*groups, "team", "other"]
    outcomes = (pl.lit(value=True), preferred > 0, preferred == 0, preferred < 0)
    sums, units = [pl.col(_COUNTS).sum(), pl.col(_CHECKED).max()], unit_keys([*clusters], keys)
    results = rankings.select(
        *pair,
        *_CHECKED,
        *(each.cast(pl.UInt32).alias(name) for name, each in zip(_COUNTS, outcomes, strict=True)),
        **units,
    )
    if clusters:
        results = grouped(results, [*pair, *units], sums)
    wins, losses = (pl.col(name).cast(pl.Float64) for name in ("wins", "losses"))
    values = {_VALUE: wins - losses, _DIVISOR: pl.col("queries").cast(pl.Float64)}
    pairs = grouped(
        results.with_columns(**values), pair, [*sums, *power_sums([_VALUE], _DIVISOR)]
    ).with_columns((wins + losses).alias(_DECIDED), effective=EFFECTIVE_UNITS)
    counted = pairs.select(*pair, *_COUNTS).collect_schema()
    result_schema = pl.Schema({**counted, **dict.fromkeys([*_ESTIMATES, *added], pl.Float64())})
    tested = partial(_tested, [*result_schema], confidence, clustered=bool(clusters))
    return pairs.map_batches(tested, schema=result_schema, streamable=True)


def _by_team(
    rows: pl.LazyFrame, keys: Sequence[str], groups: Sequence[str], flags: Sequence[pl.Expr]
) -> pl.LazyFrame:
    """Return the difference in clicks for each ranking and pair of rankers."""
    pairs = _pairs(rows.select(*groups, "team"), groups)
    first, second = (
        (pl.col(_CLICKED) == pl.col(name)).sum().cast(pl.Int64) for name in ("team", "other")
    )
    click = pl.when(_CLICKED).then("team").alias(_CLICKED)
    return (
        _joined(rows.with_columns(click).drop("team"), pairs, groups)
        .group_by([*groups, *keys, "team", "other"])
        .agg((first - second).alias(_PREFERRED), *flags)
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
    rows: pl.LazyFrame, keys: Sequence[str], rankers: Sequence[str], flags: Sequence[pl.Expr]
) -> pl.LazyFrame:
    """Return the difference in clicked top documents for each ranking."""
    clicked, place = pl.col(_CLICKED), pl.col(_PLACE)
    ranks = [f"{OWN}rank {name}" for name in rankers]
    lowest = place.filter(clicked).max() == place
    depth = pl.min_horizontal(ranks).filter(clicked & lowest).first()
    hits = [(clicked & (pl.col(rank) <= depth)).sum().cast(pl.Int64) for rank in ranks]
    present = (pl.col(rank).is_not_null().any() for rank in ranks)
    rankings = rows.group_by(keys).agg(
        (hits[0] - hits[1]).alias(_PREFERRED),
        *flags,
        **dict(zip(_PRESENT.values(), present, strict=True)),
    )
    teams = zip(_PRESENT, rankers, strict=True)
    return rankings.with_columns(pl.lit(ranker).alias(name) for name, ranker in teams)


def _tested(
    columns: Sequence[str], confidence: float, pairs: pl.DataFrame, *, clustered: bool
) -> pl.DataFrame:
    """Return the pairs with estimates and tests; raise `DataError` for invalid rows."""
    pair = pairs.columns[: pairs.columns.index("queries")]
    flags = pairs.select(*pair, *_CHECKED)
    _check_two_teams(flags)
    checks = checks_of("row", dict.fromkeys(_REMEDIES, pl.lit(value=True)))
    refuse_failed(flags, checks, _REMEDIES)
    refuse(flags, pl.col(_DUPLICATE), "duplicate positions in a ranking", _REMEDY)
    refuse(flags, pl.col(_VARIES), "several clusters in a ranking", _ONE_CLUSTER)
    found = ratio_estimates(
        pairs, _VALUE, rows="queries", confidence=confidence, differences=True,
        discordant=_DECIDED, weighted=clustered,
    )  # fmt: skip
    halves = found.select(
        (pl.col("value", "low", "high") / 2).name.replace("value", "delta"), "p_value"
    )
    if clustered:
        warn_of_few(pairs, pl.col("effective"), pair, "use a log with more clusters")
    return pairs.hstack(halves).select(columns)


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
