"""`sampled`: metrics of one relevant item among sampled others, corrected for the sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, free, one_of, share, whole_number
from polars_rank.checks import Check, failed, raise_failed
from polars_rank.columns import RUN, Score
from polars_rank.conventions import TIES, Ties
from polars_rank.errors import ArgumentError, number_of
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.plan import per_query
from polars_rank.evaluation.stages import RETRIEVED
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import Metrics, output_name, resolve
from polars_rank.stats._arrays import Array, np, require_scipy, special

#: The value of a metric for a ranking with one relevant document, by the document's rank.
_BY_RANK: dict[str, Callable[[int], float]] = {
    "hit_rate": lambda _: 1.0,
    "recall": lambda _: 1.0,
    "ndcg": lambda rank: 1 / math.log2(rank + 1),
    "reciprocal_rank": lambda rank: 1 / rank,
}

Method: TypeAlias = Literal["bias_variance", "maximum_likelihood"]

_RANK, _RELEVANT = OWN + "rank", OWN + "relevant"


@framed
def sampled(
    frame: pl.LazyFrame,
    metrics: Metrics,
    *,
    n_items: int,
    n_sampled: int,
    method: Method = "bias_variance",
    variance_weight: float = 0.1,
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
) -> pl.LazyFrame:
    r"""Metrics of one positive among sampled negatives, corrected for the sampling.

    $$\hat f = ((1 - \gamma)\, A^\top A + \gamma\, \mathrm{diag}(A^\top 1))^{-1} A^\top f \qquad
    A_{rs} = \binom{m}{s - 1} q_r^{s-1} (1 - q_r)^{m-s+1}, \quad q_r = \frac{r - 1}{n - 1}$$

    where $f_r$ is the metric of a positive at rank r of all n items, and $A_{rs}$ the probability
    that its rank is s among m sampled negatives. The corrected metric is the mean of $\hat f_s$
    over the ranks s in the table. Of all functions of s, $\hat f$ minimizes the mean squared bias
    over all ranks r plus $\gamma / (1 - \gamma)$ times the mean squared value.

    With `method="maximum_likelihood"`, the corrected metric is the mean of $f_r$ over the
    distribution $\pi$ of ranks that maximizes the likelihood of the sampled ranks:

    $$\pi \leftarrow \sum_s h_s \frac{\pi_r A_{rs}}{\sum_{r'} \pi_{r'} A_{r's}}$$

    where $h_s$ is the share of queries with the sampled rank s. The distribution is the result of
    200 steps of the EM algorithm from the uniform distribution.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 1, 2, 2, 2], "doc": [1, 2, 3] * 2,
    ...     "score": [3, 2, 1] * 2, "label": [1, 0, 0, 0, 1, 0],
    ... })
    >>> table = pr.catalog.sampled(log, "hit_rate@1", n_items=10, n_sampled=2)
    >>> table.select("metric", "queries", "sampled", "corrected")
    shape: (1, 4)
    ┌────────────┬─────────┬─────────┬───────────┐
    │ metric     ┆ queries ┆ sampled ┆ corrected │
    │ ---        ┆ ---     ┆ ---     ┆ ---       │
    │ str        ┆ u32     ┆ f64     ┆ f64       │
    ╞════════════╪═════════╪═════════╪═══════════╡
    │ hit_rate@1 ┆ 2       ┆ 0.5     ┆ 0.093261  │
    └────────────┴─────────┴─────────┴───────────┘

    Parameters
    ----------
    frame
        Long table with one row per candidate of a query: one relevant document and `n_sampled`
        others, drawn uniformly from the other items.
    metrics
        Metrics, by name or as expressions. They must be hit rate, recall, NDCG or reciprocal rank
        with a cutoff.
    n_items
        Number of items of the catalog that a full evaluation would rank.
    n_sampled
        Number of sampled negatives of each query.
    method
        "bias_variance" (Krichene & Rendle) assumes that all ranks are equally likely;
        "maximum_likelihood" (Jin, Li et al.) estimates their distribution from all queries.
    variance_weight
        The weight γ of the variance against the bias, in (0, 1), for "bias_variance". A lower
        weight gives a lower bias and wider intervals.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    label
        Column of the relevance label.
    position
        Column of the position, 1 first; replaces `score`.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by.
    ties
        Order of documents with equal scores. "doc" (id descending; default), "doc_ascending",
        "best", "worst" or "input".
    rel
        Lowest relevant label. Default: 1.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per metric for each value of `by`, with the `by` columns and

        - `metric`: the name of the metric;
        - `queries`: the number of queries;
        - `sampled`: the mean among the sampled candidates;
        - `corrected`: the estimate of the mean among all items; it may be outside [0, 1];
        - `std_error`: of `corrected`, from the variance over queries, without its bias; null
          for "maximum_likelihood".

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For a query without exactly one relevant and `n_sampled` other documents, all with scores,
        and for invalid ids, scores and labels. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter, or a metric that has no correction.
    MissingExtraError
        scipy is not installed (extra "stats").

    Notes
    -----
    If possible, rank all items. A metric at k among 100 sampled negatives depends mostly on ranks
    far below k among all items, so it may order two systems differently than the metric itself.
    The correction reduces this bias and increases the variance. If only a small share of the items
    is sampled, "bias_variance" underestimates good rankings, because few negatives are sampled from
    the top ranks. "maximum_likelihood" has a lower bias, and needs more time.

    The page "How statistics are computed" of the guide has simulations of both methods.

    The methods assume that negatives are drawn with replacement. Without replacement, they are
    accurate as long as `n_sampled` is a small share of `n_items`.

    References
    ----------
    Krichene & Rendle, On sampled metrics for item recommendation, 2020. Li et al., On sampling
    top-K recommendation evaluation, 2020. Jin, Li et al., On estimating recommendation evaluation
    metrics under sampling, 2021 (maximum likelihood).
    """
    whole_number("n_items", n_items)
    whole_number("n_sampled", n_sampled)
    one_of("method", method, ("bias_variance", "maximum_likelihood"))
    share("variance_weight", variance_weight)
    one_of("ties", ties, (None, *TIES))
    if n_sampled >= n_items:
        raise ArgumentError(
            f"must be below `n_items`; found {n_sampled} and {n_items}", "n_sampled"
        )
    values_by_rank = {output_name(metric): _by_rank(metric) for metric in resolve(metrics)}
    reads = {_RANK: "rr", _RELEVANT: "num_rel"}
    log = Log.of(
        frame,
        [metric.alias(own) for own, metric in zip(reads, resolve([*reads.values()]), strict=True)],
        query=query, doc=doc, score=score, label=label, position=position,
        run=run, by=by, ties=ties, rel=rel,
    )  # fmt: skip
    require_scipy()
    groups = log.columns.by
    free(groups, ["metric", "queries", "sampled", "corrected", "std_error"])
    wrong = (pl.col(_RELEVANT) != 1) | (pl.col(RETRIEVED) != n_sampled + 1)
    check = Check(
        "ranking",
        wrong | (pl.col(_RANK).fill_null(0) == 0),
        f"a ranking must have one relevant document and {number_of(n_sampled, 'other')} "
        "(`n_sampled`), all with scores",
    )
    keys = {key: key for key in log.columns.keys}
    rankings = per_query(log).with_columns(failed([check], "ranking"))
    rank = (1 / pl.col(_RANK)).round().cast(pl.Int64).alias(_RANK)
    ranks = raise_failed(rankings, [check], keys=keys).select(*groups, rank)
    counts = ranks.group_by(*groups, _RANK).agg(pl.len().alias("queries"))
    given = schema_of(counts)
    schema = pl.Schema({
        **{name: given[name] for name in groups}, "metric": pl.String(), "queries": pl.UInt32(),
        **dict.fromkeys(("sampled", "corrected", "std_error"), pl.Float64()),
    })  # fmt: skip

    def result(counts: pl.DataFrame) -> pl.DataFrame:
        n, m = n_items, n_sampled
        of_ranks = np.zeros((max(n, *map(len, values_by_rank.values())), len(values_by_rank)))
        for column, values in enumerate(values_by_rank.values()):
            of_ranks[: len(values), column] = values
        if method == "bias_variance":
            by_sampled_rank = _bias_variance(of_ranks[:n], m, variance_weight)
        rows = []
        parts = counts.partition_by(groups, maintain_order=True) if groups else [counts]
        for part in parts if counts.height else []:
            places, number = part[_RANK].to_numpy() - 1, part["queries"].to_numpy()
            corrected = (
                by_sampled_rank[places]
                if method == "bias_variance"
                else _maximum_likelihood(places, number, of_ranks[:n], m)
            )
            total = number.sum()
            sampled, means = (number @ each / total for each in (of_ranks[places], corrected))
            error = np.full(len(means), np.nan)
            if total > 1 and method == "bias_variance":
                error = np.sqrt(number @ (corrected - means) ** 2 / total / (total - 1))
            columns = zip(values_by_rank, sampled, means, error, strict=True)
            rows += [(*part.row(0)[: len(groups)], name, total, *each) for name, *each in columns]
        return pl.DataFrame(rows, schema, orient="row").with_columns(
            pl.col("std_error").fill_nan(None)
        )

    return counts.sort(*groups, _RANK).map_batches(result, schema=schema)


def _by_rank(metric: pl.Expr) -> Sequence[float]:
    """Return the value of a metric for a relevant document at each rank, down to the cutoff."""
    name = metric.function.__name__ if isinstance(metric, Metric) and not metric.parts else None
    k = metric.arguments.get("k") if isinstance(metric, Metric) else None
    if name not in _BY_RANK or k is None or {*metric.arguments} - {"k"}:  # type: ignore[attr-defined]
        raise ArgumentError(
            f"of sampled candidates must be hit_rate, recall, ndcg or rr with a cutoff "
            f"and no other parameter, such as 'ndcg@10'; found {output_name(metric)!r}",
            "metrics",
        )
    return [_BY_RANK[name](rank) for rank in range(1, k + 1)]


def _bias_variance(of_ranks: Array, m: int, gamma: float) -> Array:
    """Return the corrected value of each metric for each sampled rank."""
    n, depth = len(of_ranks), int(of_ranks.any(axis=1).sum())
    trial = np.arange(m + 1)
    # The product of two binomial probabilities of m trials is one of 2 m trials.
    both = trial[:, None] + trial
    single, double = _log_choose(m, trial), _log_choose(2 * m, both)
    products = np.exp(single[:, None] + single - double) * _probability_sums(2 * m, n)[both]
    matrix = (1 - gamma) * products + gamma * np.diag(_probability_sums(m, n))
    of_top = _probability(m, trial[:, None], np.arange(depth) / (n - 1))
    return np.linalg.solve(matrix, of_top @ of_ranks[:depth])


#: Steps of the EM algorithm.
_STEPS = 200


def _maximum_likelihood(places: Array, counts: Array, of_ranks: Array, m: int) -> Array:
    """Return the expected value of each metric for each sampled rank, from 0, in `places`.

    The mean of the expected values is the mean of the metric over the most likely distribution of
    ranks. The EM algorithm starts with equal weights of all ranks; its last step is that mean.
    """
    depth = int(of_ranks.any(axis=1).sum())
    nodes, sizes = np.array(_nodes(len(of_ranks), m, depth)).T
    likelihoods = _probability(m, places[:, None], nodes)
    weights = sizes / sizes.sum()
    for _ in range(_STEPS - 1):
        weights = weights * (counts / counts.sum() / (likelihoods @ weights) @ likelihoods)
    joint = likelihoods * weights
    return joint[:, :depth] @ of_ranks[:depth] / joint.sum(axis=1, keepdims=True)


def _nodes(n: int, m: int, depth: int) -> list[tuple[float, float]]:
    """Return nodes: the share of items that rank higher, and the number of ranks of each node.

    Down to `depth`, each rank is a node. Below, ranks are in bins with three nodes each, for which
    sums of polynomials up to degree 5 equal the sums over all ranks of the bin (Gauss quadrature
    with Gram polynomials).

    After all steps of the EM algorithm, the weights vary like binomial probabilities of m * _STEPS
    trials. The arcsine of the square root of a binomial share has a standard deviation of
    1 / (2 sqrt(trials)), and a bin is twice as wide. The relative error, compared with a node for
    each rank, is below 0.0002.
    """
    step = 1 / math.sqrt(m * _STEPS)
    angles = (number * step for number in range(math.ceil(math.pi / 2 / step)))
    starts = {math.ceil((n - 1) * math.sin(angle) ** 2) for angle in angles}
    bins = sorted({*range(depth), *(start for start in starts if start > depth), min(depth, n - 1)})
    nodes = []
    for start, end in zip(bins, [*bins[1:], n], strict=True):
        size, middle = end - start, (start + end - 1) / 2
        offset = math.sqrt((3 * size**2 - 7) / 20) if size > 1 else 0.0
        outer = size * (size**2 - 1) / 24 / offset**2 if size > 1 else 0.0
        parts = [(-offset, outer), (0.0, size - 2 * outer), (offset, outer)]
        nodes += [((middle + off) / (n - 1), part) for off, part in parts if part > 0]
    return nodes


def _log_choose(m: int, i: Array) -> Array:
    return -special.betaln(m - i + 1.0, i + 1.0) - math.log(m + 1)


def _probability(m: int, i: Array, q: Array) -> Array:
    """Return the binomial probability of i successes in m trials."""
    return np.exp(_log_choose(m, i) + special.xlogy(i, q) + special.xlog1py(m - i, -q))


#: From this number of items per trial on, sums over all ranks are computed as integrals with the
#: Euler-Maclaurin correction at the ends. The relative error is below 1e-8.
_MIN_INTEGRATED = 100


def _probability_sums(m: int, n: int) -> Array:
    """Return, for each i of 0 to m, the sum of its binomial probabilities over all n ranks."""
    steps, i = n - 1, np.arange(m + 1)
    if steps < _MIN_INTEGRATED * m:
        q = np.arange(n) / steps
        return np.array([_probability(m, each, q).sum() for each in i])
    ends = (i == 0) * 1.0 + (i == m)
    slopes = m * ((i == 1) * 1.0 - (i == 0) + (i == m - 1) - (i == m))
    return steps / (m + 1) + ends / 2 - slopes / (12 * steps)
