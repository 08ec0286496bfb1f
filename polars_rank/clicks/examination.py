"""The position-based click model, fitted by expectation-maximization (EM).

A document at a position is clicked if the user examines the position and the document is
attractive: P(click) = propensity · attractiveness. Without a click, the log does not show which of
the two is missing; each iteration computes the expected values. (query, document) pairs with a
single position contain no information about the ratio of propensities and are excluded.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._progress import counter
from polars_rank.errors import number_of, warn
from polars_rank.evaluation.checks import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polars_rank.clicks.impression_counts import ImpressionLog

#: If the probabilities of examination at a position and at the top position both reach this value,
#: the constraint that probabilities are at most 1 is active, and the standard error is unknown.
_AT_BOUND = 0.99
#: With fewer impressions per pair and position, propensities are overestimated by 10% to 130%.
_MIN_IMPRESSIONS = 1.5
#: Minimum distance of probabilities from 0 and 1, where iterations would not change them any more.
_MARGIN = 1e-9

_CLICKS, _IMPRESSIONS = pl.col("clicks"), pl.col("impressions")
_POSITION = pl.col("position")
_EXAMINED, _ATTRACTIVE = pl.col("examined"), pl.col("attractive")


def fit(
    impressions: ImpressionLog,
    groups: Sequence[str],
    iterations: int,
    tolerance: float,
    *,
    progress: bool,
) -> pl.LazyFrame:
    """Return the propensity of each position in each group, with its standard error."""
    counts, pair = impressions.counts()
    columns = list(dict.fromkeys([*pair, *groups, "position", "clicks", "impressions", FAILED]))
    kept = [*groups, "position", "clicks", "impressions", FAILED]
    schema = counts.select(kept).collect_schema() | _ESTIMATED
    fit_batch = partial(_fit, list(groups), pair, iterations, tolerance, progress=progress)
    return counts.select(columns).map_batches(fit_batch, schema=schema)


_ESTIMATED = {"propensity": pl.Float64(), "std_error": pl.Float64(), "pairs": pl.UInt32()}


def _fit(
    groups: list[str],
    pair: Sequence[str],
    iterations: int,
    tolerance: float,
    counts: pl.DataFrame,
    *,
    progress: bool,
) -> pl.DataFrame:
    """Return the estimates for the counts of (query, document, position)."""
    keys = [*groups, "position"]
    places = counts.group_by(keys).agg(
        _CLICKS.sum(), _IMPRESSIONS.sum().cast(counts.schema["impressions"]), pl.col(FAILED).max()
    )
    cells = counts.with_columns(pl.struct(pair).rle_id().alias("pair")).filter(
        pl.len().over("pair") > 1
    )
    pairs = cells.group_by(keys).agg(pl.len().cast(pl.UInt32).alias("pairs"))
    # Without clicks at the top position, no propensity relative to it can be estimated.
    of_top = _CLICKS.filter(_POSITION.min() == _POSITION).sum()
    cells = cells.filter((of_top > 0).over(groups or pl.lit(0)))
    linked = cells.select(keys).unique().sort(keys).with_row_index("place")
    linked = linked.with_columns(pl.col("place").first().over(groups or pl.lit(0)).alias("top"))
    fewest: Any = cells.group_by(groups or pl.lit(0)).agg(_IMPRESSIONS.mean())["impressions"].min()
    cells = cells.join(linked.select(*keys, "place"), on=keys, nulls_equal=True).select(
        pl.col("pair").rank("dense") - 1,
        "place",
        "position",
        _CLICKS.cast(pl.Float64),
        _IMPRESSIONS.cast(pl.Float64),
    )
    model = _Model(cells.sort("pair", "place"), linked.get_column("top"))
    if model.top.len() and not counts.get_column(FAILED).max():  # otherwise `checked` raises
        model.fit(iterations, tolerance, counter(cells.height * iterations) if progress else None)
        _warn_of(model, linked.get_column("position"), fewest)
    estimates = linked.select(keys).hstack(model.estimates())
    table = places.join(pairs, on=keys, how="left", nulls_equal=True)
    table = table.join(estimates, on=keys, how="left", nulls_equal=True)
    # In a group without pairs at several positions, only the propensity of the top is known.
    top = _POSITION.min().over(groups or pl.lit(0)) == _POSITION
    return table.with_columns(
        pl.when(top).then(1.0).otherwise("propensity").alias("propensity"),
        pl.when(top).then(0.0).otherwise("std_error").alias("std_error"),
        pl.col("pairs").fill_null(0),
    ).select(*keys, "clicks", "impressions", FAILED, *_ESTIMATED)


def _warn_of(model: _Model, positions: pl.Series, fewest: float) -> None:
    """Warn of propensities at a bound, and of pairs with too few impressions."""
    bound = [place for place, at_bound in enumerate(model.at_bound()) if at_bound]
    if bound:
        warn(
            f"the propensity of {number_of(len(bound), 'position')} is at a bound (0, or equal to "
            f"that of the top position), e.g. at position {positions[bound[0]]}: the standard "
            "error is unknown (null); use a log with more impressions per pair, or method='pivot'"
        )
    if fewest < _MIN_IMPRESSIONS:
        warn(
            f"pairs have {fewest:.2f} impressions per position on average, fewer than "
            f"{_MIN_IMPRESSIONS}: 'em' overestimates the propensities of lower positions; use a "
            "log of a longer period, or method='pivot'"
        )


class _Model:
    """Probabilities that a place is examined, and that the document of a pair is attractive.

    A place is a position of a group. A pair is a query and a document.
    """

    def __init__(self, cells: pl.DataFrame, top: pl.Series) -> None:
        #: Numbers of clicks and impressions by pair and place.
        self.cells = cells
        #: The top place of the group of each place.
        self.top = top
        rates = cells.group_by("place").agg(rate=_CLICKS.sum() / _IMPRESSIONS.sum()).sort("place")
        self.examined = rates.select(
            (pl.col("rate") / pl.col("rate").max()).fill_nan(1).clip(0.01, 1 - 0.01)
        ).to_series()
        pairs = cells.get_column("pair").n_unique()
        self.attractive = pl.Series([0.5]).new_from_index(0, pairs)

    def fit(
        self, iterations: int, tolerance: float, tick: Callable[[int], None] | None = None
    ) -> None:
        """Iterate until no propensity changes by more than the tolerance; warn if that fails."""
        previous = self.propensity()
        for _ in range(iterations):
            self.iterate()
            current = self.propensity()
            change = float((current - previous).abs().max())  # type: ignore[arg-type]
            previous = current
            if tick is not None:
                tick(self.cells.height)
            if change <= tolerance:
                return
        warn(
            f"no convergence in {iterations:,} iterations: a propensity still changes by "
            f"{change:.2g}, more than `tolerance`, {tolerance:g}; increase one of the two"
        )

    def propensity(self) -> pl.Series:
        """Return the propensity of each place: its probability relative to the top place."""
        return self.examined / self.examined.gather(self.top)

    def iterate(self) -> None:
        """Run one iteration: the expected values (E step), then new probabilities (M step)."""
        cells = self._with_probabilities()
        not_clicked = (_IMPRESSIONS - _CLICKS) / (1 - _EXAMINED * _ATTRACTIVE)
        whole = _IMPRESSIONS.sum()
        expected_examined = _CLICKS + not_clicked * _EXAMINED * (1 - _ATTRACTIVE)
        expected_attracted = _CLICKS + not_clicked * _ATTRACTIVE * (1 - _EXAMINED)
        self.examined = _by_key(cells, "place", expected_examined.sum() / whole)
        self.attractive = _by_key(cells, "pair", expected_attracted.sum() / whole)

    def estimates(self) -> pl.DataFrame:
        """Return propensities and standard errors; null for places not linked to the top place."""
        propensity = self.propensity().to_list()
        errors = self._relative_errors()
        bound = self.at_bound()
        return pl.DataFrame(
            {
                "propensity": [
                    None if error is None else value
                    for value, error in zip(propensity, errors, strict=True)
                ],
                "std_error": [
                    None if error is None or at_bound else value * error
                    for value, error, at_bound in zip(propensity, errors, bound, strict=True)
                ],
            },
            schema=dict.fromkeys(("propensity", "std_error"), pl.Float64),
        )

    def at_bound(self) -> list[bool]:
        """Return whether each place, other than a top, has a propensity of 0 or that of its top."""
        clicks = self.cells.group_by("place").agg(_CLICKS.sum()).sort("place").get_column("clicks")
        always = self.examined >= _AT_BOUND
        places = pl.int_range(self.top.len(), eager=True)
        at_bound = ((always & always.gather(self.top)) | (clicks == 0)) & (places != self.top)
        return at_bound.to_list()

    def _with_probabilities(self) -> pl.DataFrame:
        return self.cells.with_columns(
            self.examined.gather(self.cells.get_column("place")).alias("examined"),
            self.attractive.gather(self.cells.get_column("pair")).alias("attractive"),
        )

    def _relative_errors(self) -> list[float | None]:
        """Return the standard errors of log propensities, from the Fisher information.

        The information of a cell on the sum of log propensity and log attractiveness is
        n s / (1 - s), where s is its probability of a click. The attractiveness parameters are
        eliminated from the information matrix.
        """
        places = self.top.len()
        clicked = _EXAMINED * _ATTRACTIVE
        cells = self._with_probabilities().with_columns(
            information=_IMPRESSIONS * clicked / (1 - clicked)
        )
        information = pl.col("information")
        cells = cells.with_columns(share=information / information.sum().over("pair"))
        matrix = [[0.0] * places for _ in range(places)]
        for _, part in cells.group_by("position"):
            # A pair is in one group, and there at this position at most once.
            other = part.select("pair", "share", pl.col("place").alias("other"))
            both = cells.join(other, on="pair", suffix=" of other")
            sums = both.group_by("place", "other").agg(
                (information * pl.col("share of other")).sum()
            )
            for place, column, value in sums.rows():
                matrix[place][column] -= value
        for place, value in cells.group_by("place").agg(information.sum()).rows():
            matrix[place][place] += value
        errors: list[float | None] = [None] * places
        for top in sorted(set(self.top.to_list())):
            connected = _connected(matrix, top)
            others = [place for place in connected if place != top]
            inverse = _inverse([[matrix[a][b] for b in others] for a in others])
            errors[top] = 0.0
            for index, place in enumerate(others):
                errors[place] = math.sqrt(max(inverse[index][index], 0.0))
        return errors


def _by_key(cells: pl.DataFrame, key: str, value: pl.Expr) -> pl.Series:
    """Return the probability of each place or pair, sorted by the key."""
    values = cells.group_by(key).agg(value.clip(_MARGIN, 1 - _MARGIN).alias("value"))
    return values.sort(key).get_column("value")


def _connected(matrix: Sequence[Sequence[float]], start: int) -> list[int]:
    """Return the places that pairs link to a place, directly or through other places."""
    places, edge = {start}, [start]
    while edge:
        here = edge.pop()
        new = {there for there, value in enumerate(matrix[here]) if value} - places
        places |= new
        edge += new
    return sorted(places)


def _inverse(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
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
