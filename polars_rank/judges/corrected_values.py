"""`corrected`: per-query values from a judge's labels, corrected by people's labels of a sample."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank.checks import with_check
from polars_rank.errors import ArgumentError, DataError, number_of, warn
from polars_rank.evaluation.corrections import Correction, corrected_metric
from polars_rank.evaluation.evaluate import per_query_table
from polars_rank.evaluation.means import grouped
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.analyses import names_read
from polars_rank.metrics.expectations import expectation
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import listed
from polars_rank.metrics.ties import is_settled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from polars_rank.evaluation.parameters import EvaluateOptions
    from polars_rank.metrics.names import Metrics

#: Numbers of rows, of labels of people, of those with a probability below 1, and of documents with
#: the probability 1 and no such label; the number of groups without such labels, and one of them.
_ROWS, _JUDGED = OWN + "rows", OWN + "judged by people"
_CHOSEN, _CERTAIN = OWN + "chosen at random", OWN + "certain"
_MISSING, _EXAMPLE = OWN + "missing", OWN + "example"

#: Options of `per_query` and `evaluate` that are not supported, and why.
_UNSUPPORTED = {
    "label": "`judge` and `human` name the columns of labels",
    "weight": "pass it to the function that computes statistics, and name the column in `keep`",
}


@framed
def corrected(
    log: pl.LazyFrame,
    metrics: Metrics,
    *,
    judge: str,
    human: str,
    probability: str,
    keep: Names | None = None,
    **options: Unpack[EvaluateOptions],
) -> pl.LazyFrame:
    r"""Compute metrics of each ranking by a judge's labels, corrected by people's labels.

    People judge a random sample of the documents. A metric that is a sum over documents becomes

    $$\sum_d w_d \left( g(\mathrm{judge}_d) + \frac{1}{\pi_d} \left[ g(\mathrm{human}_d) -
    g(\mathrm{judge}_d) \right] \right)$$

    where $w_d$ is the weight of the document's rank, g the gain of a label or whether it is
    relevant, and $\pi_d$ the probability with which the document was chosen. The second term is 0
    for documents that people did not judge.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c"], "score": [3.0, 2.0, 1.0],
    ...     "llm": [2, 1, 0], "human": [None, 0, 1], "chosen": [0.5, 0.5, 0.25],
    ... })
    >>> sample = {"judge": "llm", "human": "human", "probability": "chosen"}
    >>> # Documents: 2; 1 + (0 - 1) / 0.5; 0 + (1 - 0) / 0.25
    >>> pr.judges.corrected(log, ["cg@2", "cg@3"], **sample)
    shape: (1, 3)
    ┌───────┬──────┬──────┐
    │ query ┆ cg@2 ┆ cg@3 │
    │ ---   ┆ ---  ┆ ---  │
    │ i32   ┆ f64  ┆ f64  │
    ╞═══════╪══════╪══════╡
    │ 1     ┆ 1.0  ┆ 5.0  │
    └───────┴──────┴──────┘

    Parameters
    ----------
    log
        The long table, one row per document.
    metrics
        Metrics, by name or as expressions. They must be sums over documents with a fixed weight per
        rank, such as `cg`, `dcg`, `precision`, `rbp`, `num_relevant_retrieved`, metrics of
        `define_metric` of this form, and their sums, differences and multiples. This is read from
        the definition of the metric.
    judge
        Column of the judge's labels, such as those of a language model. Null: the document counts
        as unjudged.
    human
        Column of the labels of people. Null: no person judged the document.
    probability
        Column of the inclusion probability of a document, in (0, 1]: the probability with which it
        was chosen for people to judge. It has no effect where no person judged.
    keep
        Columns to keep in the result.
    **options
        Other options of `per_query`, such as `run`, `by`, `query`, `doc`, `score`, `ties`,
        `rel`, `duplicates` and `conventions`, except `label`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `log`, with the rows and columns of `per_query`: one row per ranking, one
        column per metric.

    Raises
    ------
    ArgumentError
        A metric is not such a sum, as NDCG, AP, RR and recall; or the ranking depends on labels:
        `ties` is "best" or "worst", documents with equal scores have no ids, or `unjudged` is
        "removed".
    DataError
        A probability is null or not in (0, 1] where a person judged, or no document has a label of
        a person. Raised when the result is collected.

    Warns
    -----
    RankWarning
        The values may be biased: a group of `by` has no label of a person, or all probabilities are
        1, but not all documents have such a label. Issued when the result is collected.

    Notes
    -----
    The values are unbiased: their mean over all random samples is the value of `per_query` by the
    labels of people for all documents, for any judge. A good judge makes them less variable. All
    statistics apply to them. Documents need not be chosen independently, but the choice must not
    depend on their labels other than through `probability`, which must be above 0 for every
    document that a metric counts. If the documents of different queries were not chosen
    independently of each other, intervals over queries are approximate.

    A value may be outside the range of the metric, such as negative or above 1. It is not clipped,
    which would bias the mean. `summarize` and `compare` use the intervals of proportions only for
    values that are all 0 or 1; corrected values have those of other means.

    A document has one label of a person and one probability in all runs. The log is read once more
    to count the labels of people.

    References
    ----------
    Horvitz & Thompson, A generalization of sampling without replacement from a finite universe,
    1952; Särndal, Swensson & Wretman, Model assisted survey sampling, 1992; Angelopoulos et al.,
    Prediction-powered inference, 2023.
    """
    for name, reason in _UNSUPPORTED.items():
        if name in options:
            raise ArgumentError(f"`{name}` is not supported: {reason}")
    correction = Correction(human, probability)
    applied: dict[str, Any] = {**options, "label": judge, "keep": keep}
    given = Evaluation.of(schema_of(log), listed(metrics), **applied)
    given = given._replace(correction=correction)
    has_ids = given.read(log).columns.doc is not None
    labels = {judge, human, "label"}  # the ranked table has the judge's labels as "label"
    columns = [_corrected(column, labels, has_ids=has_ids) for column in given.metrics]
    values = per_query_table(log, given._replace(metrics=columns))
    return _checked(values, log, given.by, correction)


def _corrected(column: MetricColumn, labels: set[str], *, has_ids: bool) -> MetricColumn:
    """Return the corrected metric; raise `ArgumentError` if it cannot be corrected.

    `labels` are the columns of labels.
    """
    metric, conventions = column.metric, column.conventions
    if labels.intersection(names_read(tree_of(metric))):
        raise ArgumentError(
            f"{column.name} (`metrics`) reads the labels as a column, which is not corrected; use "
            "t.LABEL, t.gain and t.relevant"
        )
    changed = corrected_metric(metric, column.name, conventions.rel)
    if conventions.unjudged != "nonrelevant":
        raise ArgumentError(
            "`unjudged` must be 'nonrelevant': if documents without a label are removed, ranks "
            f"depend on labels; found {conventions.unjudged!r}"
        )
    ties = conventions.ties or ("doc" if has_ids else "worst")
    if ties in {"best", "worst"} and isinstance(metric, Metric) and not is_settled(metric.tree):
        remedy = "'doc' or 'expected'" if has_ids else "'input' or 'expected', or name ids as `doc`"
        raise ArgumentError(
            f"the ranking must not depend on labels, but ties={ties!r} orders documents with equal "
            f"scores by label; pass ties={remedy}"
        )
    if ties == "expected":
        expectation(metric, whole_labels=False)  # raises with the name of the metric
    return column._replace(metric=changed)


def _checked(
    values: pl.LazyFrame, log: pl.LazyFrame, by: Sequence[str], correction: Correction
) -> pl.LazyFrame:
    """Return the values; collecting them raises or warns if labels of people are missing."""
    groups = [name for name in by if name in schema_of(log)]
    is_judged = pl.col(correction.human).is_not_null()
    is_certain = pl.col(correction.probability).cast(pl.Float64) == 1
    counts = [
        is_judged.sum().alias(_JUDGED),
        (is_judged & ~is_certain).sum().alias(_CHOSEN),
        (is_certain & ~is_judged).sum().alias(_CERTAIN),
    ]
    counted = grouped(log, groups, [pl.len().alias(_ROWS), *counts])
    # Judged documents that were not retrieved may be in no group.
    known = pl.all_horizontal(pl.lit(value=True), *(pl.col(name).is_not_null() for name in groups))
    missing = pl.struct(*groups, _JUDGED).filter(known & (pl.col(_JUDGED) == 0))
    sums = pl.col(_ROWS, _JUDGED, _CHOSEN, _CERTAIN).sum()
    facts = counted.select(sums, missing.len().alias(_MISSING), missing.first().alias(_EXAMPLE))
    check = partial(_check_labels, groups=groups, correction=correction)
    return with_check(values, facts, check, last=True)


def _check_labels(facts: pl.DataFrame, *, groups: Sequence[str], correction: Correction) -> None:
    """Raise `DataError` without labels of people; warn of groups and documents without them."""
    human = f"column {correction.human!r} (`human`)"
    row = facts.row(0, named=True)
    if row[_ROWS] and not row[_JUDGED]:
        raise DataError(
            f"{human} has no labels ({number_of(row[_ROWS], 'row')}), so nothing can be corrected; "
            "check that the labels were joined by the right keys"
        )
    if groups and row[_MISSING]:
        example = {name: row[_EXAMPLE][name] for name in groups}
        warn(
            f"{human} has no labels in {number_of(row[_MISSING], 'group')} of `by`, e.g. "
            f"{example}, whose values are those of the judge, without correction"
        )
    if row[_CERTAIN] and not row[_CHOSEN]:
        warn(
            f"all probabilities of judged documents are 1 ({correction.probability!r}), but "
            f"{human} has no label of {number_of(row[_CERTAIN], 'document')} with the probability "
            "1, so that values are biased; pass the probability with which a document was chosen "
            "for people to judge"
        )
