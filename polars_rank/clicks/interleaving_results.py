"""`interleaving_result`: a test of which ranker users prefer in an interleaving experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, find_columns, free, share, some_names
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.evaluation.checks import FAILED, checks_of, failed, refuse, refuse_failed
from polars_rank.evaluation.means import grouped
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats.intervals import stats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_CLICKED, _PREFERRED, _PLACE = (OWN + name for name in ("clicked", "preferred", "place"))
_REMEDY = "drop these rows, or name all columns that identify a ranking with query=[...]"
#: Errors in rows → remedies.
_REMEDIES = {
    "null query ids": _REMEDY,
    "NaN, negative or fractional clicks": "use null for 'unknown'",
}
#: Whether a ranking has duplicate positions.
_DUPLICATE = OWN + "duplicate"
#: Whether the log has documents of the first and the second ranker of a pair.
_FIRST, _SECOND = OWN + "first", OWN + "second"
_PRESENT = {"team": _FIRST, "other": _SECOND}
_CHECKED = (FAILED, _DUPLICATE, _FIRST, _SECOND)
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
          equally likely.

    Raises
    ------
    DataError
        If the log or a group has documents of fewer than two teams, a query is null, a click is
        neither Boolean nor a count, or a ranking has duplicate positions, for example because
        `query` does not include the session; raised when the result is collected.
    MissingExtraError
        If scipy is not installed (extra "stats").

    Notes
    -----
    The test is the exact two-sided binomial test over the rankings that are not tied.

    The interval is Tango's score interval for the difference of two paired proportions: wins,
    losses and ties are all random, so it includes the uncertainty of the share of ties. In
    simulations, the 95% interval contains the true Δ in at least 0.935 of logs with 100 or more
    rankings, even if one ranker wins every ranking that is not tied. The exact test is slightly
    more conservative: with few decided rankings, the interval can exclude 0 although the p-value is
    slightly above 1 - `confidence`.

    With several pairs or groups, some differences are significant by chance; correct the p-values
    for multiple comparisons.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Chapelle, Joachims, Radlinski & Yue, Large-scale validation and analysis of interleaved search
    evaluation, 2012; Joachims, Evaluating retrieval performance using clickthrough data, 2003.
    Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, 1998: the interval.

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
            "click": click,
            "team": team if ranks is None else (),
            "ranks": () if ranks is None else [*ranks.values()],
            "position": position if position_used else (),
        },
        numbers=("click",) if ranks is None else ("click", "ranks", "position"),
        ids=("team",),
    )
    keys, groups = roles["query"], roles["by"]
    free(groups, ["team", "other", *_COUNTS, *_ESTIMATES])
    free(keys, ["team", "other"], "query")
    number = pl.col(click).cast(pl.Float64)
    clicked = (number > 0).fill_null(value=False)
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in keys)
    conditions = (unknown, ~((number >= 0) & (number == number.floor()) & number.is_finite()))
    row_checks = failed(checks_of("row", dict(zip(_REMEDIES, conditions, strict=True))), "row")
    if ranks is None:
        text = is_text(schema[team])
        name = pl.col(team).cast(pl.String) if text else pl.col(team)
        place = pl.col(position) if has_position else pl.lit(None)
        rankings = _by_team(frame, row_checks, clicked, name, place, keys, groups)
    else:
        rankings = _by_rank(frame, row_checks, clicked, ranks, position, keys, groups)
    preferred = pl.col(_PREFERRED)
    counts = [
        pl.len().alias("queries"),
        (preferred > 0).sum().alias("wins"),
        (preferred == 0).sum().alias("ties"),
        (preferred < 0).sum().alias("losses"),
        pl.col(_CHECKED).max(),
    ]
    pairs = grouped(rankings, [*groups, "team", "other"], counts)
    result_schema = pl.Schema({**pairs.drop(_CHECKED).collect_schema(), **_ESTIMATES})
    with_tests = partial(_with_tests, confidence=confidence, distribution=stats())
    return pairs.map_batches(with_tests, schema=result_schema, streamable=True)


def _by_team(
    log: pl.LazyFrame,
    row_checks: pl.Expr,
    clicked: pl.Expr,
    team: pl.Expr,
    place: pl.Expr,
    keys: Sequence[str],
    groups: Sequence[str],
) -> pl.LazyFrame:
    """Return the difference in clicks for each ranking and pair of rankers."""
    pairs = _pairs(log.select(*groups, team.alias("team")), groups)
    first, second = (
        (pl.col(_CLICKED) == pl.col(name)).sum().cast(pl.Int64) for name in ("team", "other")
    )
    click = pl.when(clicked).then(team).alias(_CLICKED)
    rankings = log.select(*groups, *keys, click, place.alias(_PLACE), row_checks)
    return (
        _joined(rankings, pairs, groups)
        .group_by([*groups, *keys, "team", "other"])
        .agg((first - second).alias(_PREFERRED), pl.col(FAILED).max(), _has_duplicates(_PLACE))
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
        *(
            pl.col(ranks[name]).is_not_null().any().alias(present)
            for name, present in ((first, _FIRST), (second, _SECOND))
        ),
    )
    teams = (pl.lit(first).alias("team"), pl.lit(second).alias("other"))
    return rankings.select(*groups, *teams, _PREFERRED, *_CHECKED)


def _has_duplicates(place: str) -> pl.Expr:
    """Return whether positions are duplicate, because the rows belong to several rankings."""
    known = pl.col(place).drop_nulls()
    return (known.n_unique() < known.len()).alias(_DUPLICATE)


def _with_tests(pairs: pl.DataFrame, confidence: float, distribution: ModuleType) -> pl.DataFrame:
    """Return the pairs with estimates and sign tests; raise `DataError` for invalid rows."""
    flags = pairs.drop(_COUNTS)
    _check_two_teams(flags)
    checks = checks_of("row", dict.fromkeys(_REMEDIES, pl.lit(value=True)))
    refuse_failed(flags, checks, _REMEDIES)
    refuse(flags, pl.col(_DUPLICATE), "duplicate positions in a ranking", _REMEDY)
    estimates: dict[str, list[float]] = {name: [] for name in _ESTIMATES}
    for rankings, wins, ties, losses in pairs.select(_COUNTS).iter_rows():
        decided = wins + losses
        low, high = difference_interval(wins, losses, rankings, confidence)
        row = {
            "delta": (wins + ties / 2) / rankings - 0.5,
            "low": low / 2,
            "high": high / 2,
            "p_value": float(distribution.binomtest(wins, decided).pvalue) if decided else 1.0,
        }
        for name, value in row.items():
            estimates[name].append(value)
    return pairs.drop(_CHECKED).hstack(
        [pl.Series(name, values, dtype=_ESTIMATES[name]) for name, values in estimates.items()]
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
