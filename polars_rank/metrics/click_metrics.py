"""Metrics of clicks on the ranking that users were shown.

Click metrics read a column of clicks instead of the label, so one call can evaluate both. If
documents are ranked by `position`, a position that occurs twice in a ranking is an error. A click
metric alone does not show which of two rankings is better: Radlinski, Kurup & Joachims (How does
clickthrough data reflect retrieval quality?, 2008) compared eight such metrics, several of them
in this module, and none reliably reflected the known quality of the rankings. Interleaving did:
see `pr.clicks.team_draft`.
"""

from __future__ import annotations

from polars_rank._params import number
from polars_rank.discounts import reciprocal
from polars_rank.errors import ArgumentError
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.terms import RANK, Selection, Term, Value, ratio, where

__all__ = [
    "abandonment",
    "ctr",
    "good_abandonment",
    "max_click_rr",
    "mean_click_rr",
    "min_click_rr",
    "num_clicks",
    "pskip",
    "satisfied_rate",
    "successful_sessions",
    "time_to_first_click",
    "time_to_last_click",
]

_NO_CLICK = "no document was clicked"


@define_metric(skipped=True, undefined="no document was shown", order_matters="cutoff")
def ctr(k: int | None = None, *, click: str = "click") -> Value:
    r"""Click-through rate: fraction of the first k documents that were clicked.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} c_r$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0, and n is the number of
    documents shown.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. A null click counts as no click.

    Notes
    -----
    Click-through rate rewards top positions, whatever the documents there. Absolute click metrics
    do not reliably reflect the quality of rankings (Radlinski, Kurup & Joachims, 2008).
    Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1],
    ... })
    >>> log.ranking.ctr(2, position="position")  # one of two
    0.5
    >>> log.ranking.ctr(position="position")  # two of four
    0.5
    """
    return ratio(_clicks(click, k), t.num_retrieved(k))


@define_metric(high=None, order_matters="cutoff")
def num_clicks(k: int | None = None, *, click: str = "click") -> Value:
    r"""Number of documents among the first k that were clicked.

    $$\sum_{r=1}^{k} c_r$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0.

    Returns
    -------
    Metric
        One Float64 per ranking: an integer, 0 or more. `evaluate` returns the mean number of clicks
        per ranking. A document counts once, however often it was clicked.

    Notes
    -----
    More clicks can mean more good documents, or a longer search for one. Absolute click metrics do
    not reliably reflect the quality of rankings (Radlinski, Kurup & Joachims, 2008). Interleaving
    does: see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1],
    ... })
    >>> log.ranking.num_clicks(3, position="position")
    1.0
    """
    return _clicks(click, k)


@define_metric(binary=True, order_matters="never")
def abandonment(*, click: str = "click") -> Value:
    r"""Abandonment: 1 if no document was clicked, otherwise 0.

    $$\prod_r (1 - c_r)$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0. The mean is the abandonment
    rate.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking.

    Notes
    -----
    Users abandon a ranking because it is bad, or because it answers the query by itself: see
    `good_abandonment`. Absolute click metrics do not reliably reflect the quality of rankings
    (Radlinski, Kurup & Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2], "position": [1, 2, 1], "click": [0, 1, 0],
    ... })
    >>> log.ranking.abandonment(position="position")
    0.5
    """
    return where(_clicks(click) > 0, 0.0, 1.0)


@define_metric(binary=True, order_matters="never")
def good_abandonment(*, good: str = "good", click: str = "click") -> Value:
    r"""Good abandonment: 1 if the ranking answered the query without a click.

    $$g \prod_r (1 - c_r)$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0, and g is 1 if the ranking
    answered the query by itself.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 2, 3], "position": 1, "click": [0, 0, 1],
    ...     "good": [True, False, False],
    ... })
    >>> log.ranking.good_abandonment(position="position")  # one of three
    0.3333333333333333

    Parameters
    ----------
    good
        Column of booleans or counts that is true, or above 0, in any row of a ranking that
        answered the query by itself.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking. `abandonment` minus this metric is bad abandonment.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Li, Huffman & Tokuda, Good abandonment in mobile and PC internet search, 2009.
    """
    answered = t.each(t.column(good, "good", kind="count") > 0).count()
    return where(_clicks(click) > 0, 0.0, where(answered > 0, 1.0, 0.0))


@define_metric(undefined=_NO_CLICK, skipped=True, expected=False)
def max_click_rr(*, click: str = "click") -> Value:
    r"""Highest reciprocal rank of a click: 1 / rank of the top clicked document.

    $$\max_{r : c_r = 1} \frac{1}{r}$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per ranking.

    Notes
    -----
    Users prefer to click top positions, whatever the documents there. Absolute click metrics do not
    reliably reflect the quality of rankings (Radlinski, Kurup & Joachims, 2008). Interleaving does:
    see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1],
    ... })
    >>> log.ranking.max_click_rr(position="position")
    0.5
    """
    return 1 / _ranks(click).min()


@define_metric(undefined=_NO_CLICK, skipped=True)
def mean_click_rr(*, click: str = "click") -> Value:
    r"""Mean reciprocal rank of clicks: mean of 1 / rank over the clicked documents.

    $$\frac{\sum_r c_r / r}{\sum_r c_r}$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per ranking.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Chuklin, Serdyukov & de Rijke, Click model-based information retrieval metrics, 2013.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1],
    ... })
    >>> log.ranking.mean_click_rr(position="position")  # (1 / 2 + 1 / 4) / 2
    0.375
    """
    worth = where(_clicked(click), 1.0)
    return ratio(t.top(worth, weight=reciprocal).sum(), _clicks(click))


@define_metric(undefined=_NO_CLICK, skipped=True, expected=False)
def min_click_rr(*, click: str = "click") -> Value:
    r"""Lowest reciprocal rank of a click: 1 / rank of the lowest clicked document.

    $$\min_{r : c_r = 1} \frac{1}{r}$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per ranking.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Chuklin, Serdyukov & de Rijke, Click model-based information retrieval metrics, 2013.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1],
    ... })
    >>> log.ranking.min_click_rr(position="position")
    0.25
    """
    return 1 / _ranks(click).max()


@define_metric(undefined=_NO_CLICK, skipped=True, lower_is_better=True, expected=False)
def pskip(*, click: str = "click") -> Value:
    r"""pSkip: fraction of the documents down to the lowest click that were skipped.

    $$1 - \frac{1}{m} \sum_r c_r \qquad m = \max \lbrace r : c_r = 1 \rbrace$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0, and m is the rank of the
    lowest clicked document.

    Returns
    -------
    Metric
        One Float64 in [0, 1) per ranking.

    Notes
    -----
    pSkip assumes that users read from the top down to the lowest document that they click. Absolute
    click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup & Joachims,
    2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Wang, Walker & Zheng, PSkip: estimating relevance ranking quality from web search clickthrough
    data, 2009.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1],
    ... })
    >>> log.ranking.pskip(position="position")  # 2 of 4
    0.5
    """
    return 1 - _clicks(click) / _ranks(click).max()


@define_metric(
    high=None, undefined=f"{_NO_CLICK} or no click has a time", skipped=True, order_matters="never"
)
def time_to_first_click(*, time: str = "time", click: str = "click") -> Value:
    r"""Time to first click: seconds from the query to the earliest click.

    $$\min_{r : c_r = 1} t_r$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0, and t_r is the time of the
    click.

    Returns
    -------
    Metric
        One Float64 per ranking, in the unit of the column `time`.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1],
    ...     "time": [31.0, None, 8.5],
    ... })
    >>> log.ranking.time_to_first_click(position="position")
    8.5
    """
    return _times(time, click).min()


@define_metric(
    high=None, undefined=f"{_NO_CLICK} or no click has a time", skipped=True, order_matters="never"
)
def time_to_last_click(*, time: str = "time", click: str = "click") -> Value:
    r"""Time to last click: seconds from the query to the latest click.

    $$\max_{r : c_r = 1} t_r$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0, and t_r is the time of the
    click.

    Returns
    -------
    Metric
        One Float64 per ranking, in the unit of the column `time`.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1],
    ...     "time": [31.0, None, 8.5],
    ... })
    >>> log.ranking.time_to_last_click(position="position")
    31.0
    """
    return _times(time, click).max()


@define_metric(
    undefined="none of the first k documents was clicked",
    skipped=True,
    order_matters="cutoff",
    expected=False,
)
def satisfied_rate(
    k: int | None = None,
    *,
    seconds: float = 30,
    dwell: str = "dwell",
    click: str = "click",
) -> Value:
    r"""Satisfied rate: fraction of the clicks among the first k that were satisfied.

    $$\frac{\sum_{r=1}^{k} s_r}{\sum_{r=1}^{k} c_r}$$

    where c_r is 1 if the document at rank r was clicked, otherwise 0, and s_r is 1 if the user also
    stayed with the document for `seconds` or longer.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1],
    ...     "dwell": [4.0, None, 95.0],
    ... })
    >>> log.ranking.satisfied_rate(position="position")
    0.5

    Parameters
    ----------
    seconds
        Shortest dwell time of a satisfied click in seconds, 0 or more.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Fox et al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling
    dwell time to predict click-level satisfaction, 2014.
    """
    return ratio(_satisfied(k, seconds, dwell, click), _clicks(click, k))


@define_metric(binary=True, order_matters="cutoff", expected=False)
def successful_sessions(
    k: int | None = None,
    *,
    seconds: float = 30,
    dwell: str = "dwell",
    click: str = "click",
) -> Value:
    r"""Successful session: 1 if a click among the first k was satisfied, otherwise 0.

    $$1 - \prod_{r=1}^{k} (1 - s_r)$$

    where s_r is 1 if the document at rank r was clicked and the user stayed with it for `seconds`
    or longer, otherwise 0. The mean is the fraction of successful rankings or sessions.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1],
    ...     "dwell": [4.0, None, 95.0],
    ... })
    >>> [log.ranking.successful_sessions(k, position="position") for k in (2, 3)]
    [0.0, 1.0]

    Parameters
    ----------
    seconds
        Shortest dwell time of a satisfied click in seconds, 0 or more.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking; 0 if no document was clicked.

    Notes
    -----
    Absolute click metrics do not reliably reflect the quality of rankings (Radlinski, Kurup &
    Joachims, 2008). Interleaving does: see `pr.clicks.team_draft`.

    References
    ----------
    Fox et al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling
    dwell time to predict click-level satisfaction, 2014.
    """
    return where(_satisfied(k, seconds, dwell, click) > 0, 1.0, 0.0)


def _clicked(click: str) -> Term:
    """Return whether a document was clicked, from a column of booleans or counts."""
    return t.column(click, "click", kind="count", different_positions=True) > 0


def _clicks(click: str, k: int | None = None) -> Value:
    return t.top(_clicked(click), k).count()


def _ranks(click: str) -> Selection:
    """Return the ranks of the clicked documents."""
    return t.top(where(_clicked(click), RANK))


def _times(time: str, click: str) -> Selection:
    """Return the times of the clicks."""
    return t.top(where(_clicked(click), t.column(time, "time")))


def _satisfied(k: int | None, seconds: float, dwell: str, click: str) -> Value:
    if number("seconds", seconds) < 0:
        raise ArgumentError(f"`seconds` must be 0 or more; found {seconds!r}")
    stayed = t.column(dwell, "dwell") >= seconds
    return t.top(_clicked(click) & stayed, k).count()
