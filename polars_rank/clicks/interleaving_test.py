"""`interleaving_result`: which ranker users preferred, where lists were made of several."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, check_apart, find_columns, free, share
from polars_rank.columns import POSITION
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.checks import FAILED, checks_of, failed, refuse, refuse_failed
from polars_rank.evaluation.means import grouped
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats.intervals import stats

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_CLICKED, _PREFERRED, _PLACE = (OWN + name for name in ("clicked", "preferred", "place"))
_SEVERAL = "drop these rows, or name the columns that tell lists apart with query=[...]"
#: What may be wrong with a row → what to do about it.
_REMEDIES = {
    "null among queries": _SEVERAL,
    "NaN or numbers below 0 among clicks": "use null for 'unknown'",
}
#: Of a list: whether it is several.
_TWICE = OWN + "twice"
#: Of a list and a pair of rankers: whether the log has the first of them, and the second.
_FIRST, _SECOND = OWN + "first", OWN + "second"
_THERE = {"team": _FIRST, "other": _SECOND}
_CHECKED = (FAILED, _TWICE, _FIRST, _SECOND)
_COUNTS = ("queries", "wins", "ties", "losses")
_FOUND = {name: pl.Float64() for name in ("delta", "low", "high", "p_value")}
#: How often an interval is halved to find a bound: to the last digit of a Float64.
_HALVINGS = 60


@framed
def interleaving_result(
    frame: pl.LazyFrame,
    *,
    team: str = "team",
    click: str = "click",
    query: Names = "query",
    by: Names | None = None,
    ranks: Mapping[str, str] | None = None,
    position: str = POSITION,
    confidence: float = 0.95,
) -> pl.LazyFrame:
    r"""Say which ranker users preferred: on more of whose documents they clicked, list by list.

    $$\Delta_{AB} = \frac{wins + ties / 2}{wins + ties + losses} - \frac{1}{2}$$

    Parameters
    ----------
    frame
        The log of lists as `team_draft` or `balanced_interleaving` made them, with the clicks; one
        row per document shown.
    team, click, query
        Names of the columns; `query` may be several, and must tell the lists apart that users
        saw, such as sessions. A click is a condition, or a count above 0. A document without a
        team, such as an advertisement, is nobody's; a list may be one ranker's alone.
    by
        Columns that split the log; rankers are compared within each group.
    ranks
        For balanced interleaving, each ranker's name with the column of ranks in its own list:
        `{"a": "rank_a", "b": "rank_b"}`. Then who has more of the documents clicked among its
        first n wins the list, where n is the least rank that the lowest click has with any
        of the two (Joachims, 2003); teams are not read.
    position
        The column of the position where a document was shown, which `ranks` need; none may come
        twice in a list. By default "position", if the log has it.
    confidence
        Of the intervals.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group and pair of rankers, in sorted order, with the `by` columns,
        `team` and `other`, and

        - `queries`: lists;
        - `wins`, `ties`, `losses`: of `team`; a list without a click is a tie;
        - `delta`: Δ, in [-1/2, 1/2], above 0 where `team` is preferred;
        - `low`, `high`: its confidence interval;
        - `p_value`: of the sign test: that wins and losses are equally likely.

    Raises
    ------
    SchemaError
        For a missing column, or clicks, positions or ranks that are not numbers.
    DataError
        For documents of less than two teams, in the log or in a group of it; for a null query, a
        click below 0 or NaN, or a position that comes twice in a list, as where several lists of
        one query are taken for one; lazily, when the result is collected.
    ArgumentError
        For a parameter out of its range.
    MissingExtraError
        Without the extra "stats".

    Notes
    -----
    The test is the exact binomial one, of two sides, over the lists that are not tied.

    The interval is Tango's score interval for the difference of two paired shares: wins, losses
    and ties are all random, so it also reflects the uncertainty of the share of ties. In
    simulations the 95% interval contains the true Δ in at least 0.935 of logs from 100 lists up,
    even if one ranker wins every list that is not tied. The exact test is slightly more
    conservative: with few decided lists, the interval can exclude 0 although the p-value is
    slightly above 1 - `confidence`.

    With several pairs or groups, some differ by chance: correct the p-values for it, or compare
    fewer.

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
    >>> row["delta"], row["p_value"]  # (1 + 1 / 2) / 4 - 1 / 2; all of 3 lists may come so
    (-0.125, 1.0)
    """
    share("confidence", confidence)
    if ranks is not None and (not isinstance(ranks, Mapping) or len(ranks) != len(_THERE)):
        message = (
            "`ranks` must map the names of two rankers to the columns of their ranks; found "
            f"{ranks!r}"
        )
        raise ArgumentError(message, "ranks")
    schema = schema_of(frame)
    placed = position in schema
    named = placed or ranks is not None or position is not POSITION
    found = find_columns(
        schema,
        {
            "query": query,
            "by": by or (),
            "click": click,
            "team": team if ranks is None else (),
            "ranks": () if ranks is None else [*ranks.values()],
            "position": position if named else (),
        },
        numbers=("click",) if ranks is None else ("click", "ranks", "position"),
        ids=("team",),
    )
    keys, groups = found["query"], found["by"]
    check_apart("query", keys, groups)
    free(groups, ["team", "other", *_COUNTS, *_FOUND])
    free(keys, ["team", "other"], "query")
    number = pl.col(click).cast(pl.Float64)
    clicked = (number > 0).fill_null(value=False)
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in keys)
    conditions = (unknown, (number < 0) | number.is_nan())
    faults = failed(checks_of("row", dict(zip(_REMEDIES, conditions, strict=True))), "row")
    if ranks is None:
        text = schema[team] == pl.Categorical or isinstance(schema[team], pl.Enum)
        name = pl.col(team).cast(pl.String) if text else pl.col(team)
        place = pl.col(position) if placed else pl.lit(None)
        lists = _by_team(frame, faults, clicked, name, place, keys, groups)
    else:
        lists = _by_rank(frame, faults, clicked, ranks, position, keys, groups)
    preferred = pl.col(_PREFERRED)
    counts = [
        pl.len().alias("queries"),
        (preferred > 0).sum().alias("wins"),
        (preferred == 0).sum().alias("ties"),
        (preferred < 0).sum().alias("losses"),
        pl.col(_CHECKED).max(),
    ]
    pairs = grouped(lists, [*groups, "team", "other"], counts)
    made = pl.Schema({**pairs.drop(_CHECKED).collect_schema(), **_FOUND})
    tested = partial(_tested, confidence=confidence, distribution=stats())
    return pairs.map_batches(tested, schema=made, streamable=True)


def _by_team(
    log: pl.LazyFrame,
    faults: pl.Expr,
    clicked: pl.Expr,
    team: pl.Expr,
    place: pl.Expr,
    keys: Sequence[str],
    groups: Sequence[str],
) -> pl.LazyFrame:
    """Return for each list and pair of rankers how many more clicks the first one has."""
    pairs = _pairs(log.select(*groups, team.alias("team")), groups)
    first, second = (
        (pl.col(_CLICKED) == pl.col(name)).sum().cast(pl.Int64) for name in ("team", "other")
    )
    click = pl.when(clicked).then(team).alias(_CLICKED)
    lists = log.select(*groups, *keys, click, place.alias(_PLACE), faults)
    return (
        _beside(lists, pairs, groups)
        .group_by([*groups, *keys, "team", "other"])
        .agg((first - second).alias(_PREFERRED), pl.col(FAILED).max(), _is_twice(_PLACE))
        .with_columns(pl.col(name).is_not_null().alias(there) for name, there in _THERE.items())
    )


def _pairs(rows: pl.LazyFrame, groups: Sequence[str]) -> pl.LazyFrame:
    """Return the pairs of teams of each group; of one that has less than two, what it has."""
    team = pl.col("team")
    known = team.drop_nulls()
    teams = grouped(rows.unique(), groups, [known if groups else known.implode()])
    lone = pl.when(team.list.len() < len(_THERE))
    return (
        teams.with_columns(lone.then(team.list.head(0)).otherwise(team).alias("other"))
        .explode("team", empty_as_null=True)
        .explode("other", empty_as_null=True)
        .filter((team < pl.col("other")) | pl.col("other").is_null())
    )


def _beside(left: pl.LazyFrame, right: pl.LazyFrame, groups: Sequence[str]) -> pl.LazyFrame:
    """Return each row beside all others of its group."""
    if not groups:
        return left.join(right, how="cross")
    return left.join(right, on=groups, nulls_equal=True)


def _by_rank(
    log: pl.LazyFrame,
    faults: pl.Expr,
    clicked: pl.Expr,
    ranks: Mapping[str, str],
    position: str,
    keys: Sequence[str],
    groups: Sequence[str],
) -> pl.LazyFrame:
    """Return for each list how many more of its first documents were clicked of one ranker."""
    first, second = sorted(ranks)
    lowest = pl.col(position).filter(clicked).max() == pl.col(position)
    depth = pl.min_horizontal(ranks.values()).filter(clicked & lowest).first()
    hits = [(clicked & (pl.col(ranks[name]) <= depth)).sum() for name in (first, second)]
    lists = log.group_by([*groups, *keys]).agg(
        (hits[0].cast(pl.Int64) - hits[1].cast(pl.Int64)).alias(_PREFERRED),
        faults.max(),
        _is_twice(position),
        *(
            pl.col(ranks[name]).is_not_null().any().alias(there)
            for name, there in ((first, _FIRST), (second, _SECOND))
        ),
    )
    teams = (pl.lit(first).alias("team"), pl.lit(second).alias("other"))
    return lists.select(*groups, *teams, _PREFERRED, *_CHECKED)


def _is_twice(place: str) -> pl.Expr:
    """Return whether a position comes twice in a list, which then is several."""
    known = pl.col(place).drop_nulls()
    return (known.n_unique() < known.len()).alias(_TWICE)


def _tested(pairs: pl.DataFrame, confidence: float, distribution: ModuleType) -> pl.DataFrame:
    """Return the pairs with the sign test of each."""
    told = pairs.drop(_COUNTS)
    _refuse_lone(told)
    checks = checks_of("row", dict.fromkeys(_REMEDIES, pl.lit(value=True)))
    refuse_failed(told, checks, _REMEDIES)
    refuse(told, pl.col(_TWICE), "a position comes twice in a list", _SEVERAL)
    found: dict[str, list[float]] = {name: [] for name in _FOUND}
    for lists, wins, ties, losses in pairs.select(_COUNTS).iter_rows():
        decided = wins + losses
        low, high = difference_interval(wins, losses, lists, confidence)
        row = {
            "delta": (wins + ties / 2) / lists - 0.5,
            "low": low / 2,
            "high": high / 2,
            "p_value": float(distribution.binomtest(wins, decided).pvalue) if decided else 1.0,
        }
        for name, value in row.items():
            found[name].append(value)
    return pairs.drop(_CHECKED).hstack(
        [pl.Series(name, values, dtype=_FOUND[name]) for name, values in found.items()]
    )


def difference_interval(
    wins: int, losses: int, lists: int, confidence: float
) -> tuple[float, float]:
    """Return Tango's score interval for the share of wins less the share of losses.

    A difference is in the interval if it lies within so many standard errors of the one found,
    where the standard error is that of the most likely shares which have this difference.
    """
    quantile = NormalDist().inv_cdf((1 + confidence) / 2)

    def contains(difference: float) -> bool:
        linear = (2 * lists - wins + losses) * difference - wins - losses
        root = linear**2 + 8 * lists * losses * difference * (1 - difference)
        lost = (math.sqrt(max(root, 0.0)) - linear) / (4 * lists)
        variance = lists * (2 * lost + difference * (1 - difference))
        return (wins - losses - lists * difference) ** 2 <= quantile**2 * variance

    bounds = []
    for end in (-1.0, 1.0):
        inside, outside = (wins - losses) / lists, end
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if contains(middle) else (inside, middle)
        bounds.append((inside + outside) / 2)
    return bounds[0], bounds[1]


def _refuse_lone(pairs: pl.DataFrame) -> None:
    """Raise `DataError` where there are no two rankers to compare."""
    lone = pairs.filter(~(pl.col(_FIRST) & pl.col(_SECOND)))
    if lone.is_empty():
        return
    row = lone.row(0, named=True)
    found = [row[name] for name, there in _THERE.items() if row[there]]
    group = {n: value for n, value in row.items() if n not in _THERE and not n.startswith(OWN)}
    where = f" in the group {group} ({lone.height:,} of such)" if group else ""
    known = f"one team alone, {found[0]!r}" if found else "no team"
    message = (
        f"the documents are of {known}{where}, so that there is nothing to compare; give the log "
        f"the lists of all teams{', or leave out the group' if group else ''}"
    )
    raise DataError(message)
