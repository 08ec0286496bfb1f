"""The position-based click model, fitted by expectation-maximization (EM).

A document at a position is clicked if the user examines the position and the document is
attractive: P(click) = propensity · attractiveness. Without a click, the log does not show which of
the two is missing; each iteration computes the expected values. (query, document) pairs with a
single position contain no information about the ratio of propensities and are excluded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.checks import FAILED
from polars_rank.errors import number_of, warn
from polars_rank.stats._arrays import Array, numpy, special

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


def fit(
    impressions: ImpressionLog,
    groups: Sequence[str],
    iterations: int,
    tolerance: float,
) -> pl.LazyFrame:
    """Return the propensity of each position in each group, with its standard error."""
    special()
    counts, pair = impressions.counts()
    columns = list(dict.fromkeys([*pair, *groups, "position", "clicks", "impressions", FAILED]))
    kept = [*groups, "position", "clicks", "impressions", FAILED]
    schema = counts.select(kept).collect_schema() | _ESTIMATED
    fit_batch = partial(_fit, list(groups), pair, iterations, tolerance)
    return counts.select(columns).map_batches(fit_batch, schema=schema)


_ESTIMATED = {"propensity": pl.Float64(), "std_error": pl.Float64(), "pairs": pl.UInt32()}


def _fit(
    groups: list[str],
    pair: Sequence[str],
    iterations: int,
    tolerance: float,
    counts: pl.DataFrame,
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
        (pl.col("pair").rank("dense") - 1).cast(pl.Int64),
        pl.col("place").cast(pl.Int64),
        _CLICKS.cast(pl.Float64),
        _IMPRESSIONS.cast(pl.Float64),
    )
    model = _Model(cells.sort("pair", "place"), linked.get_column("top"))
    if len(model.top) and not counts.get_column(FAILED).max():  # otherwise `checked` raises
        model.fit(iterations, tolerance)
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
    bound = numpy().flatnonzero(model.at_bound())
    if len(bound):
        warn(
            f"the propensity of {number_of(len(bound), 'position')} is at a bound (0, or equal to "
            f"that of the top position), e.g. at position {positions[int(bound[0])]}: the standard "
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
        np = numpy()
        #: The pair, the place, and the numbers of clicks and impressions of each cell.
        self.pair, self.place, self.clicks, self.impressions = (
            cells.get_column(name).to_numpy() for name in ("pair", "place", "clicks", "impressions")
        )
        #: The top place of the group of each place; the places of a group follow each other.
        self.top: Array = top.to_numpy()
        self.clicks_of_places = np.bincount(self.place, self.clicks, minlength=len(self.top))
        with np.errstate(all="ignore"):
            rates = self.clicks_of_places / np.bincount(self.place, self.impressions)
            relative = rates / rates.max(initial=0.0)
        self.examined = np.clip(np.nan_to_num(relative, nan=1.0), 0.01, 1 - 0.01)
        self.attractive = np.full(len(np.unique(self.pair)), 0.5)

    def fit(
        self, iterations: int, tolerance: float, tick: Callable[[int], None] | None = None
    ) -> None:
        """Iterate until no propensity changes by more than the tolerance; warn if that fails."""
        previous = self.propensity()
        for _ in range(iterations):
            self.iterate()
            current = self.propensity()
            change = float(abs(current - previous).max())
            previous = current
            if tick is not None:
                tick(len(self.pair))
            if change <= tolerance:
                return
        warn(
            f"no convergence in {iterations:,} iterations: a propensity still changes by "
            f"{change:.2g}, more than `tolerance`, {tolerance:g}; increase one of the two"
        )

    def propensity(self) -> Array:
        """Return the propensity of each place: its probability relative to the top place."""
        return self.examined / self.examined[self.top]

    def iterate(self) -> None:
        """Run one iteration: the expected values (E step), then new probabilities (M step)."""
        examined, attractive = self.examined[self.place], self.attractive[self.pair]
        not_clicked = (self.impressions - self.clicks) / (1 - examined * attractive)
        expected_examined = self.clicks + not_clicked * examined * (1 - attractive)
        expected_attracted = self.clicks + not_clicked * attractive * (1 - examined)
        self.examined = self._share(self.place, expected_examined)
        self.attractive = self._share(self.pair, expected_attracted)

    def _share(self, key: Array, expected: Array) -> Array:
        """Return the expected share of the impressions of each place or pair."""
        np = numpy()
        share = np.bincount(key, expected) / np.bincount(key, self.impressions)
        return np.clip(share, _MARGIN, 1 - _MARGIN)

    def estimates(self) -> pl.DataFrame:
        """Return propensities and standard errors; null for places not linked to the top place."""
        np = numpy()
        errors, propensity = self._relative_errors(), self.propensity()
        known = np.where(np.isnan(errors), np.nan, propensity)
        std_error = np.where(self.at_bound(), np.nan, propensity * errors)
        return pl.DataFrame({"propensity": known, "std_error": std_error}, nan_to_null=True)

    def at_bound(self) -> Array:
        """Return whether each place, other than a top, has a propensity of 0 or that of its top."""
        always = self.examined >= _AT_BOUND
        is_top = self.top == numpy().arange(len(self.top))
        return ((always & always[self.top]) | (self.clicks_of_places == 0)) & ~is_top

    def _relative_errors(self) -> Array:
        """Return the standard errors of log propensities, from the Fisher information.

        The information of a cell on the sum of log propensity and log attractiveness is
        n s / (1 - s), where s is its probability of a click. The attractiveness parameters are
        eliminated from the information matrix.
        """
        from scipy import sparse  # noqa: PLC0415  (an extra)

        np, size = numpy(), len(self.top)
        clicked = self.examined[self.place] * self.attractive[self.pair]
        information = self.impressions * clicked / (1 - clicked)
        share = information / np.bincount(self.pair, information)[self.pair]
        cells, shape = (self.pair, self.place), (len(self.attractive), size)
        totals = sparse.diags_array(np.bincount(self.place, information, size), dtype=float)
        shared = sparse.csr_array((share, cells), shape).T @ sparse.csr_array(
            (information, cells), shape
        )
        matrix = (totals - shared).tocsr()
        # Places that pairs link to the top, also through others.
        component = sparse.csgraph.connected_components(matrix, directed=False)[1]
        errors = np.full(size, np.nan)
        for top in np.unique(self.top):
            linked = np.flatnonzero(component == component[top])
            others = linked[linked != top]
            inverse = np.linalg.inv(matrix[others][:, others].toarray())
            errors[top], errors[others] = 0.0, np.sqrt(np.maximum(inverse.diagonal(), 0.0))
        return errors
