"""`from_pairs`: labels from pairwise verdicts, by the model of Bradley and Terry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, Names, find_columns, free, names, some_names
from polars_rank.errors import DataError, SchemaError, number_of
from polars_rank.evaluation.checks import FAILED, Check, failed, raise_failed
from polars_rank.frames.ids import common_type, is_text
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats.intervals import special
from polars_rank.stats.resampling import numpy

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_RESULT = {
    **dict.fromkeys(("label", "std_error"), pl.Float64()),
    "verdicts": pl.Int64(),
    **dict.fromkeys(("ridge", "flipped", "first_share"), pl.Float64()),
}
#: The penalty where no maximum of the likelihood exists.
RIDGE = 0.01
#: Labels are computed until no step is larger, or only rounding errors remain after many steps.
_PRECISION, _STEPS = 1e-10, 100
#: Maximum number of cells of the matrices of queries that are computed at once.
_CELLS = 2**20

_A, _B, _WINNER = OWN + "a", OWN + "b", OWN + "winner"
_SWAPPED, _NODE = OWN + "swapped", OWN + "node"
#: The verdicts of a pair in one order: wins of a and of b, and ties.
_COUNTS = ("a wins", "b wins", "ties")


@framed_table
def from_pairs(
    pairs: pl.LazyFrame,
    *,
    query: Names = "query",
    first: str = "first",
    second: str = "second",
    winner: str = "winner",
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Compute labels of documents from pairwise verdicts, by Bradley and Terry's model.

    $$P(a \text{ beats } b) = \frac{1}{1 + e^{\theta_b - \theta_a}}, \qquad
    \sum_a \theta_a = 0$$

    The labels θ of a query maximize the likelihood of its verdicts. They are log odds: a document
    with a label higher by 1 is preferred with odds of e = 2.7.

    Parameters
    ----------
    pairs
        Table with a row for each verdict of a person or a language model. A pair may occur more
        than once, in either order.
    query
        Columns that identify the query.
    first, second
        Columns of the ids of the two documents, in the order in which they were shown.
    winner
        Column of the id of the winner; null for a tie, which counts as half a win of each. Drop
        rows without a verdict, such as answers that could not be read.
    by
        Columns that split the table, such as the judge.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `pairs`, in the order of `by`, query and document: a row for each document of
        a query, with the columns of `by` and `query`, and

        - `doc`: the id of the document;
        - `label`: θ, with mean 0 for each query;
        - `std_error`: standard error of θ, from the inverse of the information matrix of the query;
        - `verdicts`: number of verdicts about the document;
        - `ridge`: 0, or 0.01 if the likelihood of the query has no maximum, such as if a document
          won or lost all its comparisons. Then labels maximize the log-likelihood minus
          $0.005 \sum \theta^2$, and the information includes this term: it is a normal prior
          with standard deviation 10, and `std_error` is large;
        - `flipped`: among the pairs of the query that were shown in both orders, the share whose
          winner depends on the order. If a pair was shown repeatedly, the probability that a
          verdict in one order differs from one in the other. A tie differs from a win. Null if no
          pair was shown in both orders;
        - `first_share`: over the same pairs, the mean of the shares of verdicts for the document
          that was shown first in the two orders. Ties count as half. It is 0.5 for a judge without
          a preference for a position.

    Raises
    ------
    DataError
        Ids are null, a document is compared with itself, a winner is neither of the two documents,
        or no chain of comparisons connects two documents of a query, so that their labels cannot
        be compared. Raised when the result is collected.
    MissingExtraError
        numpy or scipy is not installed (extra "stats").

    Notes
    -----
    Each query has its own labels, from its own verdicts, so standard errors do not depend on how
    other queries vary. They assume that the verdicts of a query are independent given the labels;
    if a model gives the same answer to a repeated question, count it once. Over queries, summarize
    a value per query, such as `flipped`: the interval is then clustered by query.

    Show each pair in both orders: otherwise a preference for the first position is a preference
    for the documents that were shown first. Labels may be negative. To use them as gains, subtract
    the lowest label of the query; labels of different queries have no common zero. Memory is
    proportional to the square of the number of documents of a query.

    References
    ----------
    Bradley & Terry, Rank analysis of incomplete block designs: the method of paired comparisons,
    1952. Ford, Solution of a ranking problem from binary comparisons, 1957.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pairs = pl.DataFrame({
    ...     "query": 1,
    ...     "first": ["a", "b", "a", "b"],
    ...     "second": ["b", "a", "b", "a"],
    ...     "winner": ["a", "a", "a", "b"],
    ... })
    >>> labels = pr.judges.from_pairs(pairs)
    >>> labels.drop("verdicts", "ridge")
    shape: (2, 6)
    ┌───────┬─────┬───────────┬───────────┬─────────┬─────────────┐
    │ query ┆ doc ┆ label     ┆ std_error ┆ flipped ┆ first_share │
    │ ---   ┆ --- ┆ ---       ┆ ---       ┆ ---     ┆ ---         │
    │ i32   ┆ str ┆ f64       ┆ f64       ┆ f64     ┆ f64         │
    ╞═══════╪═════╪═══════════╪═══════════╪═════════╪═════════════╡
    │ 1     ┆ a   ┆ 0.549306  ┆ 0.57735   ┆ 0.5     ┆ 0.75        │
    │ 1     ┆ b   ┆ -0.549306 ┆ 0.57735   ┆ 0.5     ┆ 0.75        │
    └───────┴─────┴───────────┴───────────┴─────────┴─────────────┘
    """
    special()
    schema, queries = schema_of(pairs), some_names("query", query)
    ids = {"first": first, "second": second, "winner": winner}
    find_columns(schema, {"by": by, "query": queries, **ids}, ids=("by", "query", *ids))
    keys = [*names("by", by), *queries]
    for parameter, columns in (("by", names("by", by)), ("query", queries)):
        free(columns, ["doc", *_RESULT], parameter)
    doc = _type(schema, ids)
    counted = _counted(pairs, keys, ids, doc, queries)
    table = {**{name: schema[name] for name in keys}, "doc": doc, **_RESULT}

    def labels(rows: pl.DataFrame) -> pl.DataFrame:
        return _labeled(rows, keys).select(*table)

    return counted.map_batches(labels, schema=table)


def _type(schema: pl.Schema, ids: dict[str, str]) -> pl.DataType:
    """Return the type of the documents; raise if it differs between columns."""
    doc = schema[ids["first"]]
    for parameter, name in [*ids.items()][1:]:
        common = common_type(doc, schema[name])
        if common is None:
            raise SchemaError(
                f"columns {ids['first']!r} (`first`) and {name!r} (`{parameter}`) must have the "
                f"same type; found {schema[ids['first']]} and {schema[name]}; cast one of them"
            )
        doc = common
    return doc


def _counted(
    pairs: pl.LazyFrame,
    keys: Sequence[str],
    ids: dict[str, str],
    doc: pl.DataType,
    query: Sequence[str],
) -> pl.LazyFrame:
    """Return the numbers of verdicts of each pair a < b in both orders."""
    first, second, winner = (pl.col(name).cast(doc) for name in ids.values())
    checks = [*_checks(ids, query, first, second, winner)]
    text = is_text(doc)
    swapped = second.cast(pl.String) < first.cast(pl.String) if text else second < first
    rows = pairs.select(
        *keys,
        pl.when(swapped).then(second).otherwise(first).alias(_A),
        pl.when(swapped).then(first).otherwise(second).alias(_B),
        winner.alias(_WINNER),
        swapped.alias(_SWAPPED),
        failed(checks, "row"),
    )
    chosen = pl.col(_WINNER)
    verdicts = (chosen == pl.col(_A), chosen == pl.col(_B), chosen.is_null())
    orders = {"first ": ~pl.col(_SWAPPED), "second ": pl.col(_SWAPPED)}
    counts = rows.group_by([*keys, _A, _B]).agg(
        *(
            (verdict & shown).sum().cast(pl.Float64).alias(OWN + order + name)
            for order, shown in orders.items()
            for name, verdict in zip(_COUNTS, verdicts, strict=True)
        ),
        pl.col(FAILED).max(),
    )
    return raise_failed(counts, checks, log=pairs)


def _checks(
    ids: dict[str, str], query: Sequence[str], first: pl.Expr, second: pl.Expr, winner: pl.Expr
) -> Iterator[Check]:
    columns = [("query", name) for name in query]
    columns += [(parameter, ids[parameter]) for parameter in ("first", "second")]
    for parameter, name in columns:
        message = f"column {name!r} (`{parameter}`) has nulls; drop these rows, or fill in an id"
        yield Check("row", pl.col(name).is_null(), message)
    both = f"columns {ids['first']!r} (`first`) and {ids['second']!r} (`second`)"
    yield Check("row", first == second, f"{both} have the same document; drop these rows")
    yield Check(
        "row",
        (winner != first) & (winner != second),
        f"column {ids['winner']!r} (`winner`) has ids of neither document; use null for a tie, and "
        "drop rows without a verdict",
    )


class _Comparisons(NamedTuple):
    """The comparisons of all queries; documents are numbered in the order of their queries."""

    #: The number of the first document of each query, and of the end.
    bounds: Any
    #: The query and the documents of each pair, and the wins of both; ties count as half.
    query: Any
    a: Any
    b: Any
    a_wins: Any
    b_wins: Any


def _labeled(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return the documents of all queries with their labels."""
    np = numpy()
    both = [rows.select(*keys, pl.col(name).alias("doc")) for name in (_A, _B)]
    docs = pl.concat(both).unique().sort([*keys, "doc"]).with_row_index(_NODE)
    if docs.is_empty():
        return docs.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in _RESULT.items())
    queries = docs.select(pl.struct(keys).rle_id()).to_series().to_numpy()
    bounds = np.append(np.searchsorted(queries, np.arange(queries[-1] + 1)), len(queries))
    for name in (_A, _B):
        number = docs.select(*keys, pl.col("doc").alias(name), pl.col(_NODE).alias(name + _NODE))
        rows = rows.join(number, on=[*keys, name], how="left", nulls_equal=True)
    a, b = (rows.get_column(name + _NODE).to_numpy().astype(np.int64) for name in (_A, _B))
    counts = {
        name: sum(rows.get_column(OWN + order + name).to_numpy() for order in ("first ", "second "))
        for name in _COUNTS
    }
    ties = counts["ties"] / 2
    given = _Comparisons(bounds, queries[a], a, b, counts["a wins"] + ties, counts["b wins"] + ties)
    _check_connected(given, docs, keys)
    ridge = np.where(_is_one(_parts(given, strongly=True), given), 0.0, RIDGE)
    label, error = _fitted(given, ridge)
    verdicts = sum(
        np.bincount(doc, weights=given.a_wins + given.b_wins, minlength=len(queries))
        for doc in (a, b)
    )
    columns = {"label": label, "std_error": error, "ridge": ridge[queries]}
    return docs.with_columns(
        *(pl.Series(name, each) for name, each in columns.items()),
        pl.Series("verdicts", verdicts.astype(np.int64)),
    ).join(_orders(rows, keys), on=keys, how="left", nulls_equal=True, maintain_order="left")


def _orders(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return for each query how the verdicts depend on the order."""
    wins, losses, ties = (
        [pl.col(OWN + order + name) for order in ("first ", "second ")] for name in _COUNTS
    )
    shown = [sum(each, start=pl.lit(0.0)) for each in zip(wins, losses, ties, strict=True)]
    in_both = (shown[0] > 0) & (shown[1] > 0)
    equal = wins[0] * wins[1] + losses[0] * losses[1] + ties[0] * ties[1]
    # The document a was shown first in the first order.
    of_first = (wins[0] + ties[0] / 2) / shown[0] + (losses[1] + ties[1] / 2) / shown[1]
    return rows.group_by(keys).agg(
        pl.when(in_both).then(1 - equal / (shown[0] * shown[1])).mean().alias("flipped"),
        pl.when(in_both).then(of_first / 2).mean().alias("first_share"),
    )


def _parts(given: _Comparisons, *, strongly: bool) -> Any:
    """Return the number of the connected part of each document.

    Documents are connected if they were compared; strongly if each beat the other, also through
    others.
    """
    np = numpy()
    from scipy.sparse import csr_array  # noqa: PLC0415  (an extra)
    from scipy.sparse.csgraph import connected_components  # noqa: PLC0415

    won = (given.a_wins > 0, given.b_wins > 0)
    winners, losers = (
        np.concatenate([each[is_won] for each, is_won in zip(docs, won, strict=True)])
        for docs in ((given.a, given.b), (given.b, given.a))
    )
    size = int(given.bounds[-1])
    graph = csr_array((np.ones(len(winners)), (winners, losers)), shape=(size, size))
    return connected_components(graph, directed=strongly, connection="strong")[1]


def _is_one(parts: Any, given: _Comparisons) -> Any:
    """Return whether all documents of a query are in the same part."""
    np = numpy()
    starts = given.bounds[:-1]
    return np.minimum.reduceat(parts, starts) == np.maximum.reduceat(parts, starts)


def _check_connected(given: _Comparisons, docs: pl.DataFrame, keys: Sequence[str]) -> None:
    """Raise `DataError` if no chain of comparisons connects two documents of a query."""
    np = numpy()
    parts = _parts(given, strongly=False)
    apart = np.flatnonzero(~_is_one(parts, given))
    if not len(apart):
        return
    low, high = (int(each) for each in given.bounds[apart[0] : apart[0] + 2])
    other = low + int(np.flatnonzero(parts[low:high] != parts[low])[0])
    one, another = (docs.get_column("doc")[place] for place in (low, other))
    raise DataError(
        "no chain of comparisons connects all documents of "
        f"{number_of(len(apart), 'query', 'queries')}, e.g. {one!r} and {another!r} of "
        f"{docs.select(keys).row(low, named=True)}; compare both with the same document, or drop "
        "one of them"
    )


def _fitted(given: _Comparisons, ridge: Any) -> tuple[Any, Any]:
    """Return labels and standard errors of all documents."""
    np = numpy()
    label, error = np.zeros(given.bounds[-1]), np.zeros(given.bounds[-1])
    sizes = np.diff(given.bounds)
    order = np.argsort(given.query, kind="stable")
    pair_bounds = np.searchsorted(given.query[order], np.arange(len(sizes) + 1))
    for size in np.unique(sizes):
        alike = np.flatnonzero(sizes == size)
        at_once = max(1, _CELLS // int(size) ** 2)
        for start in range(0, len(alike), at_once):
            block = alike[start : start + at_once]
            lengths = pair_bounds[block + 1] - pair_bounds[block]
            place = np.repeat(np.arange(len(block)), lengths)
            offsets = np.arange(lengths.sum()) - np.repeat(lengths.cumsum() - lengths, lengths)
            chosen = order[pair_bounds[block][place] + offsets]
            first = given.bounds[block]
            a, b = given.a[chosen] - first[place], given.b[chosen] - first[place]
            wins = np.zeros((len(block), size, size))
            wins[place, a, b], wins[place, b, a] = given.a_wins[chosen], given.b_wins[chosen]
            documents = first[:, None] + np.arange(size)
            label[documents], error[documents] = _maximum(wins, ridge[block])
    return label, error


def _maximum(wins: Any, ridge: Any) -> tuple[Any, Any]:
    """Return the labels that maximize the likelihood, and their standard errors.

    `wins` has a matrix for each query: how often the document of the row beat that of the column.
    Newton's method halves steps that do not increase the likelihood.
    """
    np, expit = numpy(), special().expit
    size = wins.shape[1]
    compared, penalty = wins + wins.swapaxes(1, 2), ridge[:, None]

    def loss(label: Any) -> Any:
        distance = label[:, :, None] - label[:, None, :]
        losses = (wins * np.logaddexp(0, -distance)).sum(axis=(1, 2))
        return losses + ridge / 2 * (label * label).sum(axis=1)

    def information(label: Any) -> tuple[Any, Any, Any]:
        """Return the gradient, the information and what is added for the direction of ones.

        The likelihood does not depend on the mean of the labels, so without an addition the matrix
        has no inverse.
        """
        likely = expit(label[:, :, None] - label[:, None, :])
        unlikely = likely.swapaxes(1, 2)
        # wins - compared * likely would lose digits for shares near 0 and 1.
        gradient = (wins * unlikely - wins.swapaxes(1, 2) * likely).sum(axis=2) - penalty * label
        matrix = -compared * likely * unlikely
        diagonal = -matrix.sum(axis=2)
        scale = diagonal.mean(axis=1)
        matrix += (scale / size)[:, None, None]
        matrix[:, np.arange(size), np.arange(size)] += diagonal + penalty
        return gradient, matrix, scale

    label = np.zeros(wins.shape[:2])
    for _ in range(_STEPS):
        gradient, matrix, _ = information(label)
        step = np.linalg.solve(matrix, gradient[:, :, None])[:, :, 0]
        before = loss(label)
        most = before + 1e-12 * (1 + np.abs(before))
        while (worse := loss(label + step) > most).any():
            step[worse] /= 2
        label = label + step
        label -= label.mean(axis=1, keepdims=True)
        if np.abs(step).max() <= _PRECISION:
            break
    _, matrix, scale = information(label)
    inverse = np.linalg.inv(matrix)
    of_mean = 1 / (size * (ridge + scale))
    variance = np.diagonal(inverse, axis1=1, axis2=2) - of_mean[:, None]
    return label, np.sqrt(variance)
