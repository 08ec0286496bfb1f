"""`agreement`: how far judges agree on labels."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import integer, share, whole_number
from polars_rank.frames.tables import framed
from polars_rank.judges.bootstrap import FEW, Bootstrap, noted, warn_of_few
from polars_rank.judges.labels import JudgeTable, Labels
from polars_rank.stats._arrays import Array, np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank._params import Names
    from polars_rank.columns import Label

#: Statistics of any number of judges, and of a judge and a reference, in the order of the result.
OF_ALL = ("agreement", "alpha_ordinal", "ac2_quadratic")
OF_PAIRS = ("agreement", "kappa", "kappa_quadratic", "alpha_ordinal", "ac2_quadratic", "bias")

_CELLS = (-2, -1)
#: The values of a row, in the order of `_SCHEMA`.
_Row: TypeAlias = "tuple[Any, ...]"
_SCHEMA = {
    **dict.fromkeys(("judge", "reference", "statistic"), pl.String()),
    **dict.fromkeys(("value", "low", "high"), pl.Float64()),
    **dict.fromkeys(("pairs", "unpaired"), pl.Int64()),
    "note": pl.String(),
}
#: Maximum number of counts per cluster that are resampled at once, if a pair does not have more.
_COLUMNS = 256
#: Why a statistic is undefined.
_NOTES = {
    **dict.fromkeys(OF_PAIRS, "all labels are one and the same grade"),
    "ac2_quadratic": "there is only one category",
}


@framed
def agreement(
    judgments: pl.LazyFrame,
    *,
    judge: str = "judge",
    reference: Any = None,
    query: Names = "query",
    doc: str = "doc",
    label: Label = "label",
    categories: Sequence[float] | None = None,
    by: Names | None = None,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Compute how far judges agree on labels, with confidence intervals.

    Most statistics are 1 minus a ratio of disagreements, with a distance $\delta$ between grades:

    $$1 - \frac{\sum_{g,h} o_{gh} \delta_{gh}}{\sum_{g,h} e_{gh} \delta_{gh}}$$

    where $o_{gh}$ is the share of documents with the grades g and h, and $e_{gh}$ the share that is
    expected by chance.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [*range(40)] * 2,
    ...     "doc": ["a"] * 40 + ["b"] * 40,
    ...     "human": [0, 1, 2, 3] * 20,
    ...     "llm": [0, 1, 3, 3, 1, 1, 2, 3] * 10,
    ... })
    >>> judgments = log.unpivot(
    ...     index=["query", "doc"], variable_name="judge", value_name="label"
    ... )
    >>> table = pr.judges.agreement(judgments, reference="human")
    >>> table.filter(pl.col("statistic").is_in(["agreement", "bias"])).select(
    ...     "statistic", "value", "pairs"
    ... )
    shape: (2, 3)
    ┌───────────┬───────┬───────┐
    │ statistic ┆ value ┆ pairs │
    │ ---       ┆ ---   ┆ ---   │
    │ str       ┆ f64   ┆ i64   │
    ╞═══════════╪═══════╪═══════╡
    │ agreement ┆ 0.75  ┆ 80    │
    │ bias      ┆ 0.25  ┆ 80    │
    └───────────┴───────┴───────┘

    Parameters
    ----------
    judgments
        Table with a row per document and judge. Unpivot a table with a column per judge. Null
        labels are missing. A label that occurs more than once, such as in several runs of a log,
        counts once.
    judge
        Column of the judge. Judges are people or models.
    reference
        The judge with which the others are compared. Default: all pairs of judges are compared,
        and with three or more judges also all together.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    label
        Column of the relevance label. It is a whole number, unless `categories` lists the grades.
    categories
        All possible grades. Default: those that any judge gave in the table. The weighted
        statistics read the values of the grades, not their places. AC2 depends on the number of
        categories.
    by
        Columns to group by.
    confidence
        Confidence level.
    n_resamples
        Number of bootstrap resamples.
    seed
        Random seed.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `judgments`, in the order of `by`, then of the judges: a row for each group,
        pair of judges and statistic, with the columns of `by` and

        - `judge`, `reference`: the pair, as text. Without `reference`, the reference is the judge
          that comes first in the alphabet. All judges together: "all" and null;
        - `statistic`, `value`: see below;
        - `low`, `high`: the bounds of the confidence interval;
        - `pairs`: the number of documents that both judges labeled; of all judges together, that
          two or more labeled. Other documents do not count;
        - `unpaired`: the number of documents that only one of them labeled;
        - `note`: why a value or a bound is null, or in how many resamples the value is undefined.

        The statistics are

        - `agreement`: the share of documents with equal labels;
        - `kappa`, `kappa_quadratic`: Cohen's kappa. Chance draws from the grades of each judge.
          The quadratic distance is the squared difference of the grades;
        - `alpha_ordinal`: Krippendorff's alpha. Chance draws two of all labels. The distance is
          $(\sum_{i=g}^{h} n_i - (n_g + n_h) / 2)^2$, where $n_i$ is the number of labels of
          grade i;
        - `ac2_quadratic`: Gwet's AC2. Chance agreement is
          $\frac{\sum w_{gh}}{q (q - 1)} \sum_g \pi_g (1 - \pi_g)$ with q categories, the
          weights $w = 1 - \delta / \max \delta$ of the quadratic distance, and the mean share
          $\pi_g$ of grade g;
        - `bias`: the mean difference of the labels, judge minus reference.

        Cohen's kappa and bias have no row for all judges together.

    Raises
    ------
    ArgumentError
        If `label` names several columns, or there are more than 128 grades.
    DataError
        If ids are null, labels are NaN or not in `categories` (default: not whole numbers), a judge
        gave a document different labels, a judge has no labels, or there are no two judges; raised
        when the result is collected.
    MissingExtraError
        If numpy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        If there are fewer than 30 queries: the intervals are then too narrow. Issued when the
        result is collected.

    Notes
    -----
    Labels of a query depend on each other, so the bootstrap draws queries, with Poisson weights;
    bounds are quantiles of the resampled values. With more than 16,384 queries, or 1,024 if there
    are many judges and grades, it draws groups of queries that are formed at random. Bounds are
    null if all resamples have the same value, such as with one query. Memory is proportional to
    the number of labels.

    scikit-learn's weighted kappa reads the places of the grades, which is the same only if the
    values are equally spaced. The "ordinal" weights of irrCAC are not Krippendorff's ordinal
    distance. irrCAC also estimates the chance agreement of AC2 from documents with one label; and
    it returns 0 or 1 where these statistics are undefined.

    References
    ----------
    Cohen, A coefficient of agreement for nominal scales, 1960, and Weighted kappa, 1968;
    Krippendorff, Computing Krippendorff's alpha-reliability, 2011; Gwet, Handbook of inter-rater
    reliability, 2014.
    """
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    bootstrap = Bootstrap(n_resamples, integer("seed", seed), confidence)
    given = JudgeTable(
        judge=judge, reference=reference, query=query, doc=doc, label=label,
        categories=categories, by=by,
    )  # fmt: skip

    def rows(labels: Labels) -> list[_Row]:
        found = _of_pairs(labels, bootstrap)
        if reference is None and len(labels.judges) > 2:
            sums, pairs, single = labels.unit_sums()
            estimates = bootstrap.estimates(
                labels.keys, sums,
                lambda each: unit_statistics(each[..., 0, :, :], each[..., 1, :, :], labels.values),
            )  # fmt: skip
            found += _rows(("all", None), OF_ALL, estimates, pairs, single)
        return found

    return given.table(judgments, _SCHEMA, rows)


def _of_pairs(labels: Labels, bootstrap: Bootstrap) -> list[_Row]:
    """Return the rows of pairs of judges."""
    statistics = partial(pair_statistics, values=labels.values)
    at_once = max(1, _COLUMNS // len(labels.values) ** 2)
    rows: list[_Row] = []
    fewest = FEW
    for start in range(0, len(labels.pairs), at_once):
        block = labels.pairs[start : start + at_once]
        counts = np.stack([labels.pair_counts(*pair) for pair in block], axis=1)
        estimates = bootstrap.estimates(labels.keys, counts, statistics)
        queries = counts.any(axis=(2, 3)).sum(axis=0)
        fewest = min([fewest, *queries[queries > 1]])
        for place, (first, second) in enumerate(block):
            pairs = int(counts[:, place].sum())
            single = sum(len(labels.documents[each]) for each in (first, second)) - 2 * pairs
            names = labels.judges[second], labels.judges[first]
            rows += _rows(names, OF_PAIRS, estimates[:, :, place], pairs, single)
    warn_of_few(fewest)
    return rows


def _rows(
    pair: tuple[str, str | None], names: Sequence[str], estimates: Array, pairs: int, single: int
) -> list[_Row]:
    """Return the rows of a pair or of all judges, with notes on what is undefined."""
    rows: list[_Row] = []
    for name, numbers in zip(names, estimates.T.tolist(), strict=True):
        undefined = _NOTES[name] if pairs else "no document has labels of two judges"
        *interval, note = noted(numbers, undefined)
        rows.append((*pair, name, *interval, pairs, single, note))
    return rows


def pair_statistics(counts: Array, values: Array) -> Mapping[str, Array]:
    """Return the statistics of tables of counts by grade of the reference and of the judge."""
    both = counts + counts.swapaxes(-2, -1)
    number = counts.sum(axis=_CELLS)
    reference, judge = counts.sum(axis=-1), counts.sum(axis=-2)
    chance = reference[..., :, None] * judge[..., None, :]
    squares = _squares(values)
    statistics = {
        **unit_statistics(both / 2, both, values),
        **{
            name: 1
            - _ratio(
                _ratio((counts * distance).sum(axis=_CELLS), number),
                _ratio((chance * distance).sum(axis=_CELLS), number**2),
            )
            for name, distance in (("kappa", squares > 0), ("kappa_quadratic", squares))
        },
        "bias": _ratio((judge - reference) @ values, number),
    }
    return {name: statistics[name] for name in OF_PAIRS}


def unit_statistics(pairs: Array, coincidences: Array, values: Array) -> Mapping[str, Array]:
    """Return the statistics of several judges from sums over documents, see `unit_sums`."""
    number = pairs.sum(axis=_CELLS)
    equal = pairs.diagonal(axis1=-2, axis2=-1).sum(axis=-1)
    labels = coincidences.sum(axis=-1)
    total = labels.sum(axis=-1)
    middle = labels.cumsum(axis=-1) - labels / 2
    ordinal = (middle[..., :, None] - middle[..., None, :]) ** 2
    different = labels[..., :, None] * labels[..., None, :]
    return {
        "agreement": _ratio(equal, number),
        "alpha_ordinal": 1
        - _ratio(
            _ratio((coincidences * ordinal).sum(axis=_CELLS), total),
            _ratio((different * ordinal).sum(axis=_CELLS), total * (total - 1)),
        ),
        "ac2_quadratic": _ac2(pairs, number, _squares(values)),
    }


def _ac2(pairs: Array, number: Array, squares: Array) -> Array:
    """Return AC2; its chance agreement depends on the number of categories."""
    categories = len(squares)
    if categories == 1:
        return np.full(number.shape, np.nan)
    distance = squares / squares.max()
    prevalence = _ratio(pairs.sum(axis=-1), number[..., None])
    varied = (prevalence * (1 - prevalence)).sum(axis=-1)
    chance = (1 - distance).sum() * varied / (categories * (categories - 1))
    return 1 - _ratio(_ratio((pairs * distance).sum(axis=_CELLS), number), 1 - chance)


def _squares(values: Array) -> Array:
    """Return the squared distances between grades."""
    return (values[:, None] - values[None, :]) ** 2


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Return a ratio, NaN if the denominator is 0."""
    shape = np.broadcast_shapes(numerator.shape, denominator.shape)
    quotient = np.full(shape, np.nan)
    return np.divide(numerator, denominator, out=quotient, where=denominator > 0)
