"""`sampled`: metrics of one relevant item among sampled others, corrected for the sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import mul
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, free, one_of, share, whole_number
from polars_rank.checks import Check, failed, raise_failed
from polars_rank.columns import RUN, Score
from polars_rank.conventions import TIES, Ties
from polars_rank.errors import ArgumentError, number_of, warn
from polars_rank.evaluation.parameters import Evaluation
from polars_rank.evaluation.plan import per_query
from polars_rank.evaluation.stages import RETRIEVED
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import Metrics, output_name, resolve

#: The value of a metric for a ranking with one relevant document, by the document's rank.
_BY_RANK: dict[str, Callable[[int], float]] = {
    "hit_rate": lambda _: 1.0,
    "recall": lambda _: 1.0,
    "ndcg": lambda rank: 1 / math.log2(rank + 1),
    "reciprocal_rank": lambda rank: 1 / rank,
}

Method: TypeAlias = Literal["bias_variance", "maximum_likelihood", "rank_mapping"]

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

    With `method="rank_mapping"`, the corrected metric is the mean of $f_r$ at ranks in proportion
    to the sampled ranks, $r = 1 + \lfloor (s - 1)(n - 1) / m \rfloor$.

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
        "maximum_likelihood" (Jin, Li et al.) estimates their distribution from all queries;
        "rank_mapping" (Li et al.) is for cutoffs of n / m or more.
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

    Warns
    -----
    RankWarning
        If "rank_mapping" is used for a cutoff below `n_items` / `n_sampled`.

    Notes
    -----
    If possible, rank all items. A metric at k among 100 sampled negatives depends mostly on ranks
    far below k among all items, so it may order two systems differently than the metric itself.
    The correction reduces this bias and increases the variance. If only a small share of the items
    is sampled, "bias_variance" underestimates good rankings, because few negatives are sampled from
    the top ranks. "maximum_likelihood" has a lower bias, and takes about two seconds for 100
    sampled negatives.

    "rank_mapping" estimates the metric at about k n / m by that at k among sampled candidates, and
    is unsuitable for cutoffs below n / m. The page "How statistics are computed" of the guide has
    simulations of all methods.

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
    one_of("method", method, ("bias_variance", "maximum_likelihood", "rank_mapping"))
    share("variance_weight", variance_weight)
    one_of("ties", ties, (None, *TIES))
    if n_sampled >= n_items:
        raise ArgumentError(f"`n_sampled` must be below `n_items`; found {n_sampled} and {n_items}")
    values_by_rank = {output_name(metric): _by_rank(metric) for metric in resolve(metrics)}
    reads = {_RANK: "rr", _RELEVANT: "num_rel"}
    evaluation = Evaluation.of(
        schema_of(frame),
        [metric.alias(own) for own, metric in zip(reads, resolve([*reads.values()]), strict=True)],
        query=query, doc=doc, score=score, label=label, position=position,
        run=run, by=by, ties=ties, rel=rel,
    )  # fmt: skip
    if method == "rank_mapping":
        _warn_of_cutoffs(values_by_rank, n_items / n_sampled)
    groups = evaluation.by
    free(groups, ["metric", "queries", "sampled", "corrected", "std_error"])
    wrong = (pl.col(_RELEVANT) != 1) | (pl.col(RETRIEVED) != n_sampled + 1)
    check = Check(
        "ranking",
        wrong | (pl.col(_RANK).fill_null(0) == 0),
        f"a ranking must have one relevant document and {number_of(n_sampled, 'other')} "
        "(`n_sampled`), all with scores",
    )
    keys = {key: key for key in (*groups, *evaluation.query)}
    rankings = per_query(frame, evaluation).with_columns(failed([check], "ranking"))
    rank = (1 / pl.col(_RANK)).round().cast(pl.Int64).alias(_RANK)
    ranks = raise_failed(rankings, [check], keys=keys).select(*groups, rank)
    counts = ranks.group_by(*groups, _RANK).agg(pl.len().cast(pl.Float64).alias("queries"))
    schema = pl.Schema(
        {_RANK: pl.Int64(), "metric": pl.Enum([*values_by_rank]), "sampled": pl.Float64(),
         "corrected": pl.Float64()}
    )  # fmt: skip
    if method != "maximum_likelihood":
        rows = (
            _bias_variance(values_by_rank, n_items, n_sampled, variance_weight)
            if method == "bias_variance"
            else _rank_mapping(values_by_rank, n_items, n_sampled)
        )
        values = counts.join(pl.LazyFrame(rows, schema, orient="row"), on=_RANK)
    else:
        of_group = partial(
            _maximum_likelihood,
            metrics=values_by_rank,
            n=n_items,
            m=n_sampled,
            groups=groups,
            schema=schema,
        )
        lists = [pl.col(_RANK), pl.col("queries")]
        each = (
            counts.group_by(groups).agg(lists)
            if groups
            else counts.select(column.implode() for column in lists)
        )
        given = schema_of(counts)
        types = {name: given[name] for name in (*groups, "queries")}
        values = each.map_batches(
            of_group, schema=pl.Schema({**types, **schema}), streamable=True,
            validate_output_schema=False,
        )  # fmt: skip
    n = pl.col("queries")

    def mean(value: pl.Expr) -> pl.Expr:
        return (value * n).sum() / n.sum()

    corrected = pl.col("corrected")
    variance = mean(corrected**2) - mean(corrected) ** 2
    return (
        values.group_by(*groups, "metric")
        .agg(
            n.sum().cast(pl.UInt32).alias("count"),
            mean(pl.col("sampled")).alias("sampled"),
            mean(corrected).alias("corrected"),
            pl.when((n.sum() > 1) & (method != "maximum_likelihood"))
            .then((variance.clip(0) / (n.sum() - 1)).sqrt())
            .alias("std_error"),
        )
        .sort(*groups, "metric")
        .select(
            *groups,
            pl.col("metric").cast(pl.String),
            pl.col("count").alias("queries"),
            "sampled",
            "corrected",
            "std_error",
        )
    )


def _warn_of_cutoffs(metrics: Mapping[str, Sequence[float]], lowest: float) -> None:
    """Warn of cutoffs below `lowest`, the rank to which the sampled rank 2 is mapped."""
    low = [name for name, values in metrics.items() if len(values) < lowest]
    if low:
        warn(
            "'rank_mapping' is unsuitable for cutoffs below n_items / n_sampled = "
            f"{lowest:g}: it maps the sampled rank 1 to rank 1 of all items. This applies to "
            f"{', '.join(low)}; use 'maximum_likelihood' or higher cutoffs"
        )


def _by_rank(metric: pl.Expr) -> Sequence[float]:
    """Return the value of a metric for a relevant document at each rank, down to the cutoff."""
    name = metric.function.__name__ if isinstance(metric, Metric) and not metric.parts else None
    k = metric.arguments.get("k") if isinstance(metric, Metric) else None
    if name not in _BY_RANK or k is None or {*metric.arguments} - {"k"}:  # type: ignore[attr-defined]
        raise ArgumentError(
            f"`metrics` of sampled candidates must be hit_rate, recall, ndcg or rr with a cutoff "
            f"and no other parameter, such as 'ndcg@10'; found {output_name(metric)!r}"
        )
    return [_BY_RANK[name](rank) for rank in range(1, k + 1)]


def _bias_variance(
    metrics: Mapping[str, Sequence[float]], n: int, m: int, gamma: float
) -> list[tuple[int, str, float, float]]:
    """Return, for each sampled rank and metric, the sampled and the corrected value."""
    sums, double = _probability_sums(m, n), _probability_sums(2 * m, n)
    # The product of two binomial probabilities of m trials is one of 2 m trials.
    pairs = [
        [
            (1 - gamma) * double[i + j]
            * math.exp(_log_choose(m, i) + _log_choose(m, j) - _log_choose(2 * m, i + j))
            for j in range(i + 1)
        ]
        for i in range(m + 1)
    ]  # fmt: skip
    for i in range(m + 1):
        pairs[i][i] += gamma * sums[i]
    factor = _cholesky(pairs)
    rows = []
    for name, values in metrics.items():
        of_ranks = [*values[:n]]
        right = [
            math.fsum(
                value * _probability(m, i, rank / (n - 1)) for rank, value in enumerate(of_ranks)
            )
            for i in range(m + 1)
        ]
        corrected = _solution(factor, right)
        rows += [(i + 1, name, _value_at(values, i + 1), corrected[i]) for i in range(m + 1)]
    return rows


def _rank_mapping(
    metrics: Mapping[str, Sequence[float]], n: int, m: int
) -> list[tuple[int, str, float, float]]:
    """Return, for each sampled rank and metric, the sampled value and that at the mapped rank."""
    return [
        (i + 1, name, _value_at(values, i + 1), _value_at(values, 1 + i * (n - 1) // m))
        for name, values in metrics.items()
        for i in range(m + 1)
    ]


def _value_at(values: Sequence[float], rank: int) -> float:
    """Return the value of a metric at a rank, 0 below its cutoff."""
    return values[rank - 1] if rank <= len(values) else 0.0


def _maximum_likelihood(
    counts: pl.DataFrame,
    metrics: Mapping[str, Sequence[float]],
    n: int,
    m: int,
    groups: Sequence[str],
    schema: pl.Schema,
) -> pl.DataFrame:
    """Return, for each group, sampled rank and metric, the sampled and the expected value.

    The mean of the expected values is the mean of the metric over the most likely distribution of
    ranks.
    """
    depth = min(max(map(len, metrics.values())), n)
    places, sizes = zip(*_nodes(n, m, depth), strict=True)
    tables = [
        pl.DataFrame(schema={**counts.select(groups).schema, "queries": pl.Float64, **schema})
    ]
    for row in counts.iter_rows(named=True):
        ranks, queries = row[_RANK], row["queries"]
        likelihoods = [[_probability(m, rank - 1, q) for q in places] for rank in ranks]
        weights = _node_weights(likelihoods, queries, sizes)
        rows = []
        for rank, number, likelihood in zip(ranks, queries, likelihoods, strict=True):
            joint = [*map(mul, weights, likelihood)]
            for name, of_rank in metrics.items():
                sampled = _value_at(of_rank, rank)
                expected = sum(map(mul, of_rank, joint)) / sum(joint)
                rows.append((number, rank, name, sampled, expected))
        table = pl.DataFrame(rows, {"queries": pl.Float64, **schema}, orient="row")
        keys = (pl.lit(row[name], dtype=counts.schema[name]).alias(name) for name in groups)
        tables.append(table.select(*keys, pl.all()))
    return pl.concat(tables)


#: Steps of the EM algorithm.
_STEPS = 200


def _node_weights(
    likelihoods: Sequence[Sequence[float]], counts: Sequence[float], sizes: Sequence[float]
) -> list[float]:
    """Return the weights of nodes before the last step of the EM algorithm.

    The algorithm starts with equal weights of all ranks. The caller computes the last step as the
    mean of expected values.
    """
    weights = [size / sum(sizes) for size in sizes]
    of_nodes = [*zip(*likelihoods, strict=True)]
    total = sum(counts)
    for _ in range(_STEPS - 1):
        factors = [
            count / total / sum(map(mul, weights, likelihood))
            for count, likelihood in zip(counts, likelihoods, strict=True)
        ]
        weights = [
            weight * sum(map(mul, factors, of_node))
            for weight, of_node in zip(weights, of_nodes, strict=True)
        ]
    return weights


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


def _log_choose(m: int, i: int) -> float:
    return math.lgamma(m + 1) - math.lgamma(i + 1) - math.lgamma(m - i + 1)


def _probability(m: int, i: int, q: float) -> float:
    """Return the binomial probability of i successes in m trials."""
    if q in (0, 1):
        return float(i == m * q)
    return math.exp(_log_choose(m, i) + i * math.log(q) + (m - i) * math.log1p(-q))


#: From this number of items per trial on, sums over all ranks are computed as integrals with the
#: Euler-Maclaurin correction at the ends. The relative error is below 1e-8.
_MIN_INTEGRATED = 100


def _probability_sums(m: int, n: int) -> list[float]:
    """Return, for each i of 0 to m, the sum of its binomial probabilities over all n ranks."""
    steps = n - 1
    if steps < _MIN_INTEGRATED * m:
        q = pl.int_range(1, steps).cast(pl.Float64) / steps
        ranks = pl.select(q.log().alias("log"), (1 - q).log().alias("other"))
        log, other = pl.col("log"), pl.col("other")
        values = ranks.select(
            (_log_choose(m, i) + i * log + (m - i) * other).exp().sum().alias(str(i))
            for i in range(m + 1)
        ).row(0)
        return [value + (i == 0) + (i == m) for i, value in enumerate(values)]
    ends = [(i == 0) + (i == m) for i in range(m + 1)]
    slopes = [m * ((i == 1) - (i == 0) + (i == m - 1) - (i == m)) for i in range(m + 1)]
    return [
        steps / (m + 1) + end / 2 - slope / (12 * steps)
        for end, slope in zip(ends, slopes, strict=True)
    ]


def _cholesky(matrix: Sequence[Sequence[float]]) -> list[list[float]]:
    """Return the Cholesky factor of a matrix, given its lower triangle."""
    rows: list[list[float]] = []
    for given in matrix:
        row: list[float] = []
        for j, value in enumerate(given[:-1]):
            row.append((value - sum(map(mul, row, rows[j]))) / rows[j][j])
        row.append(math.sqrt(given[-1] - sum(map(mul, row, row))))
        rows.append(row)
    return rows


def _solution(factor: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Return the solution of a linear system, given the Cholesky factor of its matrix."""
    forward: list[float] = []
    for row, value in zip(factor, right, strict=True):
        forward.append((value - sum(map(mul, row, forward))) / row[-1])
    solution = [0.0] * len(factor)
    for i in reversed(range(len(factor))):
        below = sum(factor[j][i] * solution[j] for j in range(i + 1, len(factor)))
        solution[i] = (forward[i] - below) / factor[i][i]
    return solution
