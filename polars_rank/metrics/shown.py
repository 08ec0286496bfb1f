"""Metrics of what users did with the list that they were shown.

They read a column of clicks, not the label, so that both can be asked of one log. Ranked by
`position`, a position that comes twice in a list is an error: it is several lists. None of them
says by itself which ranking is better: of eight such metrics, several of them here, Radlinski,
Kurup & Joachims (How does clickthrough data reflect retrieval quality?, 2008) found none that
followed the known quality of rankings reliably, where interleaving did (`pr.clicks.team_draft`).
"""

from __future__ import annotations

import polars as pl

from polars_rank._params import number
from polars_rank.discounts import reciprocal
from polars_rank.errors import ArgumentError
from polars_rank.metrics.metric import metric
from polars_rank.metrics.terms import RANK, Term, Terms, Value, ratio, where

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

_NO_CLICK = "nothing was clicked"


@metric(undefined="nothing was shown")
def ctr(t: Terms, k: int | None = None, *, click: str = "click") -> Value:
    r"""Click-through rate: the share of the first k documents shown that were clicked.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} c_r$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere; n documents were
    shown.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was shown. A null click is none.

    Notes
    -----
    It rewards whatever stood on top. Of eight absolute metrics of clicks, Radlinski, Kurup &
    Joachims (2008) found none that followed the quality of rankings reliably; interleaving did:
    `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({"query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1]})
    >>> log.ranking.ctr(2, position="position"), log.ranking.ctr(position="position")
    (0.5, 0.5)
    """
    return ratio(_clicks(t, click, k), t.retrieved(k))


@metric(high=None)
def num_clicks(t: Terms, k: int | None = None, *, click: str = "click") -> Value:
    r"""Clicks: how many of the first k documents were clicked.

    $$\sum_{r=1}^{k} c_r$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere.

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their mean,
        the clicks per query. A document counts once, however often it was clicked.

    Notes
    -----
    More clicks may be more that was good, or a longer search for it. Of eight absolute metrics of
    clicks, Radlinski, Kurup & Joachims (2008) found none that followed the quality of rankings
    reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({"query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1]})
    >>> log.ranking.num_clicks(3, position="position")
    1.0
    """
    return _clicks(t, click, k)


@metric()
def abandonment(t: Terms, *, click: str = "click") -> Value:
    r"""Abandonment: 1 where nothing was clicked.

    $$\prod_r (1 - c_r)$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere. Its mean is the
    abandonment rate.

    Returns
    -------
    Metric
        0.0 or 1.0 per list, never null.

    Notes
    -----
    A list may be left because it was bad, or because it was itself the answer (`good_abandonment`).
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({"query": [1, 1, 2], "position": [1, 2, 1], "click": [0, 1, 0]})
    >>> log.ranking.abandonment(position="position")
    0.5
    """
    return where(_clicks(t, click) > 0, 0.0, 1.0)


@metric()
def good_abandonment(t: Terms, *, good: str = "good", click: str = "click") -> Value:
    r"""Good abandonment: 1 where nothing was clicked because the list itself was the answer.

    $$g \prod_r (1 - c_r)$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere; g is 1 where the list
    itself was the answer.

    Parameters
    ----------
    good
        The column that says so: true, or above 0, in any row of the list.

    Returns
    -------
    Metric
        0.0 or 1.0 per list, never null; `abandonment` less this is the bad kind.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Li, Huffman & Tokuda, Good abandonment in mobile and PC internet search, 2009.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 2, 3], "position": 1, "click": [0, 0, 1], "good": [True, False, False]
    ... })
    >>> log.ranking.good_abandonment(position="position")  # one of three
    0.3333333333333333
    """
    answered = t.each(t.signal("good", good) > 0).number()
    return where(_clicks(t, click) > 0, 0.0, where(answered > 0, 1.0, 0.0))


@metric(undefined=_NO_CLICK, skipped=True)
def max_click_rr(t: Terms, *, click: str = "click") -> Value:
    r"""Greatest reciprocal rank of a click: 1 / rank of the highest document clicked.

    $$\max_{r : c_r = 1} \frac{1}{r}$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per list; null where nothing was clicked, and then left out of the
        mean.

    Notes
    -----
    Users click high up whatever stands there. Of eight absolute metrics of clicks, Radlinski, Kurup
    & Joachims (2008) found none that followed the quality of rankings reliably; interleaving did:
    `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({"query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1]})
    >>> log.ranking.max_click_rr(position="position")
    0.5
    """
    return 1 / _ranks(t, click).min()


@metric(undefined=_NO_CLICK, skipped=True)
def mean_click_rr(t: Terms, *, click: str = "click") -> Value:
    r"""Mean reciprocal rank of the clicks: the mean of 1 / rank over the documents clicked.

    $$\frac{\sum_r c_r / r}{\sum_r c_r}$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per list; null where nothing was clicked, and then left out of the
        mean.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008;
    Chuklin, Serdyukov & de Rijke, Click model-based information retrieval metrics, 2013.

    Examples
    --------
    >>> log = pl.DataFrame({"query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1]})
    >>> log.ranking.mean_click_rr(position="position")  # (1 / 2 + 1 / 4) / 2
    0.375
    """
    worth = pl.when(_clicked(t, click)).then(1.0)
    return ratio(t.top(worth, weight=reciprocal).sum(), _clicks(t, click))


@metric(undefined=_NO_CLICK, skipped=True)
def min_click_rr(t: Terms, *, click: str = "click") -> Value:
    r"""Least reciprocal rank of a click: 1 / rank of the lowest document clicked.

    $$\min_{r : c_r = 1} \frac{1}{r}$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per list; null where nothing was clicked, and then left out of the
        mean.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Chuklin, Serdyukov & de Rijke, Click model-based information retrieval metrics, 2013.

    Examples
    --------
    >>> log = pl.DataFrame({"query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1]})
    >>> log.ranking.min_click_rr(position="position")
    0.25
    """
    return 1 / _ranks(t, click).max()


@metric(undefined=_NO_CLICK, skipped=True, lower_is_better=True)
def pskip(t: Terms, *, click: str = "click") -> Value:
    r"""pSkip: the share of the documents down to the lowest click that were passed over.

    $$1 - \frac{1}{m} \sum_r c_r \qquad m = \max \lbrace r : c_r = 1 \rbrace$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere; m is the rank of the
    lowest click.

    Returns
    -------
    Metric
        One Float64 in [0, 1) per list, lower is better; null where nothing was clicked, and
        then left out of the mean.

    Notes
    -----
    Users are taken to read from the top down to their lowest click. Of eight absolute metrics of
    clicks, Radlinski, Kurup & Joachims (2008) found none that followed the quality of rankings
    reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Wang, Walker & Zheng, PSkip: estimating relevance ranking quality from web search clickthrough
    data, 2009.

    Examples
    --------
    >>> log = pl.DataFrame({"query": 1, "position": [1, 2, 3, 4], "click": [0, 1, 0, 1]})
    >>> log.ranking.pskip(position="position")  # 2 of 4
    0.5
    """
    return 1 - _clicks(t, click) / _ranks(t, click).max()


@metric(high=None, undefined=_NO_CLICK, skipped=True)
def time_to_first_click(t: Terms, *, time: str = "time", click: str = "click") -> Value:
    r"""Time to the first click: seconds from the query to the earliest click.

    $$\min_{r : c_r = 1} t_r$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere; t_r is the time of the
    click.

    Returns
    -------
    Metric
        One Float64 per list, in the unit of the column; null where nothing was clicked, or at no
        known time, and then left out of the mean.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1], "time": [31.0, None, 8.5]
    ... })
    >>> log.ranking.time_to_first_click(position="position")
    8.5
    """
    return _times(t, time, click).min()


@metric(high=None, undefined=_NO_CLICK, skipped=True)
def time_to_last_click(t: Terms, *, time: str = "time", click: str = "click") -> Value:
    r"""Time to the last click: seconds from the query to the latest click.

    $$\max_{r : c_r = 1} t_r$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere; t_r is the time of the
    click.

    Returns
    -------
    Metric
        One Float64 per list, in the unit of the column; null where nothing was clicked, or at no
        known time, and then left out of the mean.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Radlinski, Kurup & Joachims, How does clickthrough data reflect retrieval quality?, 2008.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1], "time": [31.0, None, 8.5]
    ... })
    >>> log.ranking.time_to_last_click(position="position")
    31.0
    """
    return _times(t, time, click).max()


@metric(undefined=_NO_CLICK, skipped=True)
def satisfied_rate(
    t: Terms,
    k: int | None = None,
    *,
    seconds: float = 30,
    dwell: str = "dwell",
    click: str = "click",
) -> Value:
    r"""Satisfied rate: the share of the clicks on the first k documents that satisfied.

    $$\frac{\sum_{r=1}^{k} s_r}{\sum_{r=1}^{k} c_r}$$

    with c_r 1 where the document at rank r was clicked, and 0 elsewhere; s_r is 1 where the
    user then stayed with it for `seconds` at least.

    Parameters
    ----------
    seconds
        The least time, 0 or more.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where none of them was clicked, and then left out of
        the mean.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Fox et al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling
    dwell time to predict click-level satisfaction, 2014.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1], "dwell": [4.0, None, 95.0]
    ... })
    >>> log.ranking.satisfied_rate(position="position")
    0.5
    """
    return ratio(_satisfied(t, k, seconds, dwell, click), _clicks(t, click, k))


@metric()
def successful_sessions(
    t: Terms,
    k: int | None = None,
    *,
    seconds: float = 30,
    dwell: str = "dwell",
    click: str = "click",
) -> Value:
    r"""Successful sessions: 1 where a click on the first k documents satisfied.

    $$1 - \prod_{r=1}^{k} (1 - s_r)$$

    with s_r 1 where the document at rank r was clicked and the user stayed with it for
    `seconds` at least, and 0 elsewhere. The mean is the share of lists, or sessions, that were
    a success.

    Parameters
    ----------
    seconds
        How long the user stayed at least with a document that satisfied, 0 or more.

    Returns
    -------
    Metric
        0.0 or 1.0 per list, never null: 0 where nothing was clicked.

    Notes
    -----
    Of eight absolute metrics of clicks, Radlinski, Kurup & Joachims (2008) found none that followed
    the quality of rankings reliably; interleaving did: `pr.clicks.team_draft`.

    References
    ----------
    Fox et al., Evaluating implicit measures to improve web search, 2005; Kim et al., Modeling
    dwell time to predict click-level satisfaction, 2014.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "position": [1, 2, 3], "click": [1, 0, 1], "dwell": [4.0, None, 95.0]
    ... })
    >>> [log.ranking.successful_sessions(k, position="position") for k in (2, 3)]
    [0.0, 1.0]
    """
    return where(_satisfied(t, k, seconds, dwell, click) > 0, 1.0, 0.0)


def _clicked(t: Terms, click: str) -> pl.Expr:
    """Return whether a document was clicked: a column of conditions or counts says so."""
    t.require_one_list()
    return t.signal("click", click) > 0


def _clicks(t: Terms, click: str, k: int | None = None) -> Value:
    return t.top(_clicked(t, click), k).number()


def _ranks(t: Terms, click: str) -> Term:
    """Return the ranks of the documents that were clicked."""
    return t.top(pl.when(_clicked(t, click)).then(RANK))


def _times(t: Terms, time: str, click: str) -> Term:
    """Return when documents were clicked."""
    return t.top(pl.when(_clicked(t, click)).then(t.signal("time", time)))


def _satisfied(t: Terms, k: int | None, seconds: float, dwell: str, click: str) -> Value:
    if number("seconds", seconds) < 0:
        message = f"`seconds` must be 0 or more; found {seconds!r}"
        raise ArgumentError(message, "seconds")
    stayed = t.signal("dwell", dwell) >= seconds
    return t.top(_clicked(t, click) & stayed, k).number()
