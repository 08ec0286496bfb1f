"""The position-based click model, fitted by expectation-maximisation.

A document at a position is clicked if the position is examined and the document attractive:
P(click) = propensity · attractiveness. Of those who did not click, one of the two went unseen;
each iteration puts in what is expected of them. A pair of query and document that was only ever
shown at one position says nothing of how positions compare, and is left out.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._progress import counter
from polars_rank.errors import RankWarning, number_of
from polars_rank.evaluation.checks import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polars_rank.clicks.exposure import Exposure

#: A place that is examined this surely, as is its top, is as if it were always examined: the
#: constraint that probabilities are at most 1 holds it there, and no information tells its error.
_ALWAYS = 0.99
#: With fewer impressions per pair and position, propensities come out 10% to 130% too high.
_THIN = 1.5
#: Probabilities stay this far from 0 and 1, which no iteration would leave again.
_EDGE = 1e-9

_CLICKS, _SEEN = pl.col("clicks"), pl.col("impressions")
_POSITION = pl.col("position")
_EXAMINED, _ATTRACTIVE = pl.col("examined"), pl.col("attractive")


def fitted(
    shown: Exposure, groups: Sequence[str], iterations: int, tolerance: float, *, progress: bool
) -> pl.LazyFrame:
    """Return the propensity of each position in each group, with its standard error."""
    counts, pair = shown.counts()
    columns = list(dict.fromkeys([*pair, *groups, "position", "clicks", "impressions", FAILED]))
    kept = [*groups, "position", "clicks", "impressions", FAILED]
    schema = counts.select(kept).collect_schema() | _ESTIMATED
    fit = partial(_fit, list(groups), pair, iterations, tolerance, progress=progress)
    return counts.select(columns).map_batches(fit, schema=schema)


_ESTIMATED = {"propensity": pl.Float64(), "standard_error": pl.Float64(), "pairs": pl.UInt32()}


def _fit(
    groups: list[str],
    pair: Sequence[str],
    iterations: int,
    tolerance: float,
    counts: pl.DataFrame,
    *,
    progress: bool,
) -> pl.DataFrame:
    keys = [*groups, "position"]
    places = counts.group_by(keys).agg(
        _CLICKS.sum(), _SEEN.sum().cast(counts.schema["impressions"]), pl.col(FAILED).max()
    )
    cells = counts.with_columns(pl.struct(pair).rle_id().alias("pair")).filter(
        pl.len().over("pair") > 1
    )
    pairs = cells.group_by(keys).agg(pl.len().cast(pl.UInt32).alias("pairs"))
    # Nothing can be told relative to a top that nobody clicked.
    of_top = _CLICKS.filter(_POSITION.min() == _POSITION).sum()
    cells = cells.filter((of_top > 0).over(groups or pl.lit(0)))
    linked = cells.select(keys).unique().sort(keys).with_row_index("place")
    linked = linked.with_columns(pl.col("place").first().over(groups or pl.lit(0)).alias("top"))
    thinnest: Any = cells.group_by(groups or pl.lit(0)).agg(_SEEN.mean())["impressions"].min()
    cells = cells.join(linked.select(*keys, "place"), on=keys, nulls_equal=True).select(
        pl.col("pair").rank("dense") - 1,
        "place",
        "position",
        _CLICKS.cast(pl.Float64),
        _SEEN.cast(pl.Float64),
    )
    model = _Model(cells.sort("pair", "place"), linked.get_column("top"))
    if model.top.len() and not counts.get_column(FAILED).max():  # or else it is raised further on
        model.fit(iterations, tolerance, counter(cells.height * iterations) if progress else None)
        _warn_of(model, linked.get_column("position"), thinnest)
    estimates = linked.select(keys).hstack(model.estimates())
    found = places.join(pairs, on=keys, how="left", nulls_equal=True)
    found = found.join(estimates, on=keys, how="left", nulls_equal=True)
    # Of a group without pairs at several positions, all that is known is that its top is the top.
    top = _POSITION.min().over(groups or pl.lit(0)) == _POSITION
    return found.with_columns(
        pl.when(top).then(1.0).otherwise("propensity").alias("propensity"),
        pl.when(top).then(0.0).otherwise("standard_error").alias("standard_error"),
        pl.col("pairs").fill_null(0),
    ).select(*keys, "clicks", "impressions", FAILED, *_ESTIMATED)


def _warn_of(model: _Model, positions: pl.Series, thinnest: float) -> None:
    """Warn of propensities at a bound, and of pairs that were shown too seldom."""
    bound = [place for place, held in enumerate(model.at_bound()) if held]
    if bound:
        message = (
            f"the propensity of {number_of(len(bound), 'position')} is at a bound, either 0 or as "
            f"high as that of the top, e.g. at position {positions[bound[0]]}: its standard error "
            "is not known (null); take a log in which pairs were shown more often, or "
            "method='pivot'"
        )
        warnings.warn(message, RankWarning, stacklevel=2)
    if thinnest < _THIN:
        message = (
            f"pairs were shown {thinnest:.2f} times at a position on average, fewer than {_THIN}: "
            "'em' overestimates the propensities of lower positions; take a log of a longer time, "
            "or method='pivot'"
        )
        warnings.warn(message, RankWarning, stacklevel=2)


class _Model:
    """How likely each place (a position of a group) is examined, and each pair attractive."""

    def __init__(self, cells: pl.DataFrame, top: pl.Series) -> None:
        #: By pair and place: clicks and impressions.
        self.cells = cells
        #: For each place, the topmost one of its group.
        self.top = top
        rates = cells.group_by("place").agg(rate=_CLICKS.sum() / _SEEN.sum()).sort("place")
        self.examined = rates.select(
            (pl.col("rate") / pl.col("rate").max()).fill_nan(1).clip(0.01, 1 - 0.01)
        ).to_series()
        pairs = cells.get_column("pair").n_unique()
        self.attractive = pl.Series([0.5]).new_from_index(0, pairs)

    def fit(
        self, iterations: int, tolerance: float, tick: Callable[[int], None] | None = None
    ) -> None:
        """Improve until no propensity changes by more than the tolerance; or warn."""
        before = self.propensity()
        for _ in range(iterations):
            self.improve()
            now = self.propensity()
            change = float((now - before).abs().max())  # type: ignore[arg-type]
            before = now
            if tick is not None:
                tick(self.cells.height)
            if change <= tolerance:
                return
        message = (
            f"no convergence in {iterations:,} iterations: a propensity still changes by "
            f"{change:.2g}, and the tolerance is {tolerance:g}; raise one of them"
        )
        warnings.warn(message, RankWarning, stacklevel=2)

    def propensity(self) -> pl.Series:
        """Return how likely each place is examined, relative to the top of its group."""
        return self.examined / self.examined.gather(self.top)

    def improve(self) -> None:
        """Expect who examined and who was attracted; estimate both probabilities from that."""
        cells = self._probable()
        missed = (_SEEN - _CLICKS) / (1 - _EXAMINED * _ATTRACTIVE)
        whole = _SEEN.sum()
        looked = _CLICKS + missed * _EXAMINED * (1 - _ATTRACTIVE)
        attracted = _CLICKS + missed * _ATTRACTIVE * (1 - _EXAMINED)
        self.examined = _by(cells, "place", looked.sum() / whole)
        self.attractive = _by(cells, "pair", attracted.sum() / whole)

    def estimates(self) -> pl.DataFrame:
        """Return the propensity and its standard error; null where no pairs lead to the top."""
        propensity = self.propensity().to_list()
        errors = self._relative_errors()
        bound = self.at_bound()
        return pl.DataFrame(
            {
                "propensity": [
                    None if error is None else value
                    for value, error in zip(propensity, errors, strict=True)
                ],
                "standard_error": [
                    None if error is None or held else value * error
                    for value, error, held in zip(propensity, errors, bound, strict=True)
                ],
            },
            schema=dict.fromkeys(("propensity", "standard_error"), pl.Float64),
        )

    def at_bound(self) -> list[bool]:
        """Return which places, beside the tops, have a propensity as high as the top's, or 0."""
        clicks = self.cells.group_by("place").agg(_CLICKS.sum()).sort("place").get_column("clicks")
        always = self.examined >= _ALWAYS
        places = pl.int_range(self.top.len(), eager=True)
        held = ((always & always.gather(self.top)) | (clicks == 0)) & (places != self.top)
        return held.to_list()

    def _probable(self) -> pl.DataFrame:
        return self.cells.with_columns(
            self.examined.gather(self.cells.get_column("place")).alias("examined"),
            self.attractive.gather(self.cells.get_column("pair")).alias("attractive"),
        )

    def _relative_errors(self) -> list[float | None]:
        """Return the standard errors of the logarithms, by the Fisher information.

        Of log propensities and log attractiveness, a cell says n s / (1 - s), s being its
        probability of a click; what it says of the attractiveness is taken out.
        """
        places = self.top.len()
        clicked = _EXAMINED * _ATTRACTIVE
        cells = self._probable().with_columns(told=_SEEN * clicked / (1 - clicked))
        told = pl.col("told")
        cells = cells.with_columns(share=told / told.sum().over("pair"))
        matrix = [[0.0] * places for _ in range(places)]
        for _, part in cells.group_by("position"):
            # A pair is in one group, and there at this position at most once.
            other = part.select("pair", "share", pl.col("place").alias("other"))
            both = cells.join(other, on="pair", suffix=" of other")
            sums = both.group_by("place", "other").agg((told * pl.col("share of other")).sum())
            for place, column, value in sums.rows():
                matrix[place][column] -= value
        for place, value in cells.group_by("place").agg(told.sum()).rows():
            matrix[place][place] += value
        errors: list[float | None] = [None] * places
        for top in sorted(set(self.top.to_list())):
            reached = _reached(matrix, top)
            others = [place for place in reached if place != top]
            inverse = _inverted([[matrix[a][b] for b in others] for a in others])
            errors[top] = 0.0
            for index, place in enumerate(others):
                errors[place] = math.sqrt(max(inverse[index][index], 0.0))
        return errors


def _by(cells: pl.DataFrame, key: str, value: pl.Expr) -> pl.Series:
    """Return a probability for each place or pair, in their order."""
    found = cells.group_by(key).agg(value.clip(_EDGE, 1 - _EDGE).alias("value"))
    return found.sort(key).get_column("value")


def _reached(matrix: Sequence[Sequence[float]], start: int) -> list[int]:
    """Return the places that pairs link to a place, directly or by way of others."""
    found, edge = {start}, [start]
    while edge:
        here = edge.pop()
        new = {there for there, value in enumerate(matrix[here]) if value} - found
        found |= new
        edge += new
    return sorted(found)


def _inverted(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the inverse of a positive definite matrix, by elimination."""
    size = len(matrix)
    rows = [
        [*row, *(float(index == column) for column in range(size))]
        for index, row in enumerate(matrix)
    ]
    for index, row in enumerate(rows):
        scaled = [value / row[index] for value in row]
        for other in range(size):
            factor = rows[other][index] if other != index else 0.0
            rows[other] = [a - factor * b for a, b in zip(rows[other], scaled, strict=True)]
        rows[index] = scaled
    return [row[size:] for row in rows]
