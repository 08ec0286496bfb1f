"""`agreement`: how far judges agree on labels."""

from __future__ import annotations

from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import integer, share, threshold, whole_number
from polars_rank.frames.tables import framed_table
from polars_rank.judges.bootstrap import Bootstrap, warn_of_few
from polars_rank.judges.coefficients import OF_ALL, OF_PAIRS, pair_statistics, unit_statistics
from polars_rank.judges.counts import pair_counts, unit_sums, unpaired
from polars_rank.judges.labels import Judgments, Labels
from polars_rank.stats.intervals import FEW
from polars_rank.stats.resampling import numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank._params import Names

#: The values of a row, in the order of `_SCHEMA`.
_Row: TypeAlias = "tuple[Any, ...]"
_SCHEMA = {
    "judge": pl.String(),
    "reference": pl.String(),
    "statistic": pl.String(),
    "value": pl.Float64(),
    "low": pl.Float64(),
    "high": pl.Float64(),
    "pairs": pl.Int64(),
    "unpaired": pl.Int64(),
    "note": pl.String(),
}
#: The row of all judges.
_ALL = "all"
#: Maximum number of counts per cluster that are resampled at once, if a pair does not have more.
_COLUMNS = 256

_ONE_GRADE = "all labels are one and the same grade"
_ONE_CATEGORY = "there is only one category"
_NOTES = {
    **dict.fromkeys(
        (
            *("kappa", "kappa_linear", "kappa_quadratic", "fleiss_kappa"),
            *("alpha_nominal", "alpha_ordinal", "alpha_interval"),
        ),
        _ONE_GRADE,
    ),
    **dict.fromkeys(("ac1", "ac2_linear", "ac2_quadratic"), _ONE_CATEGORY),
    "precision": "the judge labeled no document as relevant",
    "recall": "the reference labeled no document as relevant",
}


@framed_table
def agreement(
    judgments: pl.LazyFrame,
    *,
    judge: str = "judge",
    reference: Any = None,
    labels: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    label: str = "label",
    categories: Sequence[float] | None = None,
    rel: float = 1,
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

    Parameters
    ----------
    judgments
        Table with a row per document and judge; or a log with a column per judge, see `labels`.
        Null labels are missing. A label that occurs more than once, such as in several runs of a
        log, counts once.
    judge
        Column of the judge, such as a person or a model.
    reference
        The judge with which the others are compared. Default: all pairs of judges are compared,
        and with three or more judges also all together.
    labels
        Columns of labels, at least two: each is a judge. They replace `judge` and `label`.
    query, doc
        Columns of the query and the document.
    label
        Column of the grade: a whole number, unless `categories` lists the grades.
    categories
        All possible grades. Default: those that any judge gave in the table. The weighted
        statistics read the values of the grades, not their places. AC1 and AC2 depend on the
        number of categories.
    rel
        Lowest relevant label, for precision and recall.
    by
        Columns that split the table.
    confidence
        Confidence level of the intervals.
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
          that comes first in the alphabet or in `labels`. All judges together: "all" and null;
        - `statistic`, `value`: see below;
        - `low`, `high`: the bounds of the confidence interval;
        - `pairs`: the number of documents that both judges labeled; of all judges together, that
          two or more labeled. Other documents do not count;
        - `unpaired`: the number of documents that only one of them labeled;
        - `note`: why a value or a bound is null, or in how many resamples the value is undefined.

        The statistics are

        - `agreement`: the share of documents with equal labels;
        - `agreement_constant`: the agreement of the reference with the best judge that gives all
          documents the same grade;
        - `kappa`, `kappa_linear`, `kappa_quadratic`: Cohen's kappa. Chance draws from the grades of
          each judge. Linear and quadratic distances are those of the values of the grades;
        - `alpha_nominal`, `alpha_ordinal`, `alpha_interval`: Krippendorff's alpha. Chance draws two
          of all labels. The ordinal distance is
          $(\sum_{i=g}^{h} n_i - (n_g + n_h) / 2)^2$, where $n_i$ is the number of labels of
          grade i;
        - `ac1`, `ac2_linear`, `ac2_quadratic`: Gwet's coefficients. Chance agreement is
          $\frac{\sum w_{gh}}{q (q - 1)} \sum_g \pi_g (1 - \pi_g)$ with q categories, the
          weights $w = 1 - \delta / \max \delta$, and the mean share $\pi_g$ of grade g;
        - `fleiss_kappa`: Fleiss' kappa; of two judges, Scott's pi;
        - `precision`, `recall`: of the judge, if the documents that the reference labels at least
          `rel` are relevant;
        - `bias`: the mean difference of the labels, judge minus reference.

        Cohen's kappa, precision, recall and bias have no row for all judges together.

    Raises
    ------
    ArgumentError
        If labels are not whole numbers and `categories` is None.
    DataError
        If ids are null, labels are NaN or not in `categories`, a judge gave a document different
        labels, a column has no labels, or there are no two judges; raised when the result is
        collected.
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
    distance. irrCAC also estimates the chance agreement of AC1, AC2 and Fleiss' kappa from
    documents with one label; and it returns 0 or 1 where these statistics are undefined.

    References
    ----------
    Cohen, A coefficient of agreement for nominal scales, 1960, and Weighted kappa, 1968;
    Krippendorff, Computing Krippendorff's alpha-reliability, 2011; Gwet, Computing inter-rater
    reliability and its variance in the presence of high agreement, 2008, and Handbook of
    inter-rater reliability, 2014; Fleiss, Measuring nominal scale agreement among many raters,
    1971.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [*range(40)] * 2,
    ...     "doc": ["a"] * 40 + ["b"] * 40,
    ...     "human": [0, 1, 2, 3] * 20,
    ...     "llm": [0, 1, 3, 3, 1, 1, 2, 3] * 10,
    ... })
    >>> table = pr.judges.agreement(log, labels=["human", "llm"], reference="human")
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
    """
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    bootstrap = Bootstrap(n_resamples, integer("seed", seed), confidence)
    given = Judgments(
        judge=judge, reference=reference, labels=labels, query=query, doc=doc, label=label,
        categories=categories, by=by,
    )  # fmt: skip
    of_pairs = partial(_of_pairs, rel=threshold("rel", rel), bootstrap=bootstrap)

    def rows(labels: Labels) -> list[_Row]:
        together = reference is None and len(labels.judges) > 2
        return [*of_pairs(labels), *(_of_all(labels, bootstrap) if together else ())]

    return given.plan(judgments, _SCHEMA, rows)


def _of_pairs(labels: Labels, *, rel: float, bootstrap: Bootstrap) -> list[_Row]:
    """Return the rows of pairs of judges."""
    np = numpy()
    statistics = partial(pair_statistics, values=labels.values, rel=rel)
    at_once = max(1, _COLUMNS // len(labels.values) ** 2)
    rows: list[_Row] = []
    fewest = FEW
    for start in range(0, len(labels.pairs), at_once):
        block = labels.pairs[start : start + at_once]
        counts = np.stack([pair_counts(labels, *pair) for pair in block], axis=1)
        estimates = bootstrap.estimates(labels.keys, counts, statistics)
        queries = counts.any(axis=(2, 3)).sum(axis=0)
        fewest = min([fewest, *queries[queries > 1]])
        for place, (first, second) in enumerate(block):
            pairs = int(counts[:, place].sum())
            single = unpaired(labels, first, second, pairs)
            names = labels.judges[second], labels.judges[first]
            rows += _noted(names, estimates[:, :, place], OF_PAIRS, pairs, single)
    warn_of_few(fewest)
    return rows


def _of_all(labels: Labels, bootstrap: Bootstrap) -> list[_Row]:
    """Return the rows of all judges together."""
    sums, pairs, single = unit_sums(labels)

    def statistics(tables: Any) -> Mapping[str, Any]:
        return unit_statistics(tables[..., 0, :, :], tables[..., 1, :, :], labels.values)

    estimates = bootstrap.estimates(labels.keys, sums, statistics)
    return _noted((_ALL, None), estimates, OF_ALL, pairs, single)


def _noted(
    names: tuple[str, str | None],
    estimates: Any,
    statistics: Sequence[str],
    pairs: int,
    single: int,
) -> list[_Row]:
    """Return the rows of a pair or of all judges, with notes on what is undefined."""
    rows: list[_Row] = []
    for statistic, numbers in zip(statistics, estimates.T.tolist(), strict=True):
        value, low, high, undefined = (None if isnan(each) else each for each in numbers)
        note = None
        if not pairs:
            note = "no document has labels of two judges"
        elif value is None:
            note = _NOTES[statistic]
        elif low is None:
            note = "no interval: all resamples have the same value"
        elif undefined:
            note = f"undefined in {100 * undefined:.2g}% of the resamples"
        rows.append((*names, statistic, value, low, high, pairs, single, note))
    return rows
