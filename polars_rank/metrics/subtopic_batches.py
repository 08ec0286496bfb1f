"""Metrics of subtopics, computed for many rankings at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import number
from polars_rank.discounts import Discount, log2
from polars_rank.errors import DataError, SchemaError
from polars_rank.frames.ids import as_text
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.discounted_gain import weight_sum
from polars_rank.metrics.vocabulary import DOC, RANK, RETRIEVED, Value, where

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

#: The divisor of alpha-DCG and ERR-IA.
Norm: TypeAlias = Literal["full", "none", "ndeval"]

#: Condition under which most metrics of subtopics are undefined.
NO_SUBTOPIC = "no document is relevant to a subtopic"

#: The gain of a document that is already in the greedy ranking.
_RANKED = -(2**62)


class Subtopics(NamedTuple):
    """The columns of subtopics, and the lowest relevant grade."""

    subtopics: str
    grades: str | None
    weights: str | None
    rel: float

    @property
    def columns(self) -> dict[str, str]:
        """The names of columns by parameter."""
        every = self._asdict().items()
        return {name: each for name, each in every if name != "rel" and each is not None}


class Persistence(NamedTuple):
    """Discount of a user who continues to the next document with probability `beta`."""

    beta: float

    @property
    def depth(self) -> int:
        """The rank below which gains are too small to count."""
        return math.ceil(math.log(2.0**-60 * (1 - self.beta), self.beta))

    def __call__(self, rank: pl.Expr) -> pl.Expr:
        """Return the probability of reaching a rank."""
        return pl.lit(float(self.beta)).pow(rank - 1)


#: One rank of the greedy rankings: the intents of its documents, and their gains.
_Step: TypeAlias = tuple[pl.Series, pl.Series]


class _Batch(NamedTuple):
    """Many rankings at once."""

    #: A row for each document: `ranking`, `rank` and, if needed, `doc`.
    documents: pl.DataFrame
    #: A row for each relevant subtopic of a document: `ranking`, `document`, `rank`, `intent`,
    #: which identifies the subtopic and the ranking, `grade` and `weight`.
    pairs: pl.DataFrame
    #: A row for each intent, in this order: `ranking`, `intent` and `weight`.
    intents: pl.DataFrame
    #: The number of rankings.
    length: int
    #: By alpha: the steps of the greedy rankings that are left, and those that are done.
    greedy: dict[float, tuple[Iterator[_Step], list[_Step]]]

    def greedy_steps(self, alpha: float, k: int | None) -> list[_Step]:
        """Return the first k steps of the greedy rankings."""
        left, done = self.greedy.setdefault(alpha, (_greedy(self, alpha), []))
        done += islice(left, None if k is None else max(0, k - len(done)))
        return done[:k]


@dataclass(frozen=True)
class _Computed:
    """A function that returns rows of `ranking` and `value` for a batch, and its parameters."""

    compute: Callable[..., pl.DataFrame]
    parameters: tuple[Any, ...]

    def __call__(self, batch: _Batch) -> pl.Series:
        """Return the value of each ranking; those without a row are null."""
        results = pl.repeat(None, batch.length, dtype=pl.Float64, eager=True)
        if not batch.pairs.is_empty():
            rows = self.compute(batch, *self.parameters)
            values = rows.get_column("value").cast(pl.Float64).fill_nan(None)
            results.scatter(rows.get_column("ranking"), values)
        return results


def judged(
    compute: Callable[..., pl.DataFrame],
    judgments: Subtopics,
    *parameters: Any,
    ranked: bool = True,
    ids: bool = False,
) -> Value:
    """Return a value computed for many rankings at once from their judgments.

    `compute` is called with a batch and the parameters, and returns rows of `ranking` and `value`;
    rankings without a row are undefined. Without `ranked`, the rank of a retrieved document is 1.
    """
    number("rel", judgments.rel)
    terms = {"rank": RANK if ranked else where(RETRIEVED, 1.0)}
    if ids:
        terms["doc"] = DOC
    for parameter, column in judgments.columns.items():
        terms[parameter] = t.column(column, parameter, kind="as is")
    return t.batch(_Computed(compute, parameters), _batch, judgments, **terms)


def _batch(judgments: Subtopics, rankings: pl.Series) -> _Batch:
    """Return the documents of many rankings, and their judgments."""
    documents = (
        rankings.alias("row")
        .to_frame()
        .with_row_index("ranking")
        .explode("row", empty_as_null=False)
        .unnest("row")
        .with_row_index("document")
    )
    parameters = judgments.columns
    for parameter, column in parameters.items():
        dtype = documents.schema[parameter]
        inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else None
        if parameter == "subtopics":
            of, valid = "ids", not isinstance(inner, (type(None), pl.List, pl.Array))
        else:
            of, valid = "numbers", inner is not None and (inner.is_numeric() or inner == pl.Null)
        if not valid and dtype != pl.Null:
            raise SchemaError(
                f"column {column!r} (`{parameter}`) must have lists of {of}; found {dtype}"
            )
    lengths = pl.col("subtopics").list.len()
    for parameter, column in list(parameters.items())[1:]:
        differ = documents.filter(lengths.ne_missing(pl.col(parameter).list.len()))
        if not differ.is_empty():
            raise DataError(
                f"columns {judgments.subtopics!r} (`subtopics`) and {column!r} (`{parameter}`) "
                f"must have lists of the same length; found {differ.item(0, 'subtopics')} and "
                f"{differ.item(0, parameter)}"
            )
    grade = pl.col("grades").cast(pl.Float64) if judgments.grades else pl.lit(1.0)
    weight = pl.col("weights").cast(pl.Float64) if judgments.weights else pl.lit(1.0)
    pairs = (
        documents.select("ranking", "document", "rank", *parameters)
        .explode(*parameters, empty_as_null=False, keep_nulls=False)
        .with_columns(grade.alias("grade"), weight.alias("weight"))
        .filter(pl.col("subtopics").is_not_null() & (pl.col("grade") >= judgments.rel))
        # In order of the text, so that sums over subtopics have one order of their terms.
        .cast({pl.Categorical: pl.String})
        .with_columns((pl.struct("ranking", "subtopics").rank("dense") - 1).alias("intent"))
    )
    intents = pairs.select("ranking", "intent", "weight").unique("intent").sort("intent")
    _check(pairs, judgments)
    return _Batch(documents, pairs, intents, len(rankings), {})


def _whole(value: Any) -> int:
    return 0 if value is None else int(value)


def _check(pairs: pl.DataFrame, judgments: Subtopics) -> None:
    """Raise `DataError` for subtopics that a document lists twice, and for invalid weights."""
    pair = pl.col("document").cast(pl.Int64) * 2**32 + pl.col("intent")
    problems = {
        f"column {judgments.subtopics!r} (`subtopics`) lists the subtopic {{}} twice for one "
        "document": pair.is_duplicated()
    }
    if judgments.weights:
        weight, weights = pl.col("weight"), f"column {judgments.weights!r} (`weights`)"
        problems |= {
            f"{weights} must have finite numbers of 0 or more; that of the subtopic {{}} is not": (
                ~((weight >= 0) & weight.is_finite()).fill_null(value=False)
            ),
            f"{weights} has several weights for the subtopic {{}} of a query": (
                weight.min().over("intent") < weight.max().over("intent")
            ),
        }
    for problem, condition in problems.items():
        failing = pairs.filter(condition)
        if not failing.is_empty():
            raise DataError(problem.format(repr(failing.item(0, "subtopics"))))


def discounted_gain(
    batch: _Batch, k: int | None, discount: Discount, alpha: float, norm: Norm
) -> pl.DataFrame:
    """Return the discounted gain of each ranking, divided by that of perfect documents."""
    gained = _gained(batch.pairs, k, discount, alpha)
    if norm == "none":
        return _by_ranking(batch, gained, pl.col("gain"))
    shares = pl.col("gain") / pl.col("weight")
    if isinstance(discount, Persistence):
        return _by_ranking(batch, gained, shares * (1 - (1 - alpha) * discount.beta))

    def weight(rank: pl.Expr) -> pl.Expr:
        return discount(rank) * pl.lit(1.0 - alpha).pow(rank - 1)

    if k is not None:
        return _by_ranking(batch, gained, shares / weight_sum(weight, k))
    lengths = _lengths(batch)
    rank = pl.int_range(1, pl.col("length").max() + 1).cast(pl.Float64)
    full = lengths.select(weight(rank).cum_sum())
    whole = pl.lit(full.to_series()).gather(pl.col("length") - 1)
    return _by_ranking(
        batch, gained.join(lengths, on="ranking", how="full", coalesce=True), shares / whole
    )


def normalized_gain(
    batch: _Batch, k: int | None, discount: Discount, alpha: float, depth: int | None
) -> pl.DataFrame:
    """Return the discounted gain of each ranking, divided by that of the greedy ranking."""
    steps = batch.greedy_steps(alpha, depth)
    rank = pl.int_range(1, len(steps) + 1).cast(pl.Float64)
    gains = pl.repeat(0.0, len(batch.intents), eager=True)
    for (intent, gain), weight in zip(steps, pl.select(discount(rank)).to_series(), strict=True):
        gains.scatter(intent, gains[intent] + gain * weight)
    rankings = batch.intents.get_column("ranking")
    first, numbers = _runs(rankings)
    sums = _lists(gains, numbers).list.sum()
    ideal = pl.DataFrame({"ranking": rankings[first], "ideal": sums})
    gained = _gained(batch.pairs, k, discount, alpha)
    both = ideal.join(gained, on="ranking", how="left").with_columns(pl.col("gain").fill_null(0.0))
    return _by_ranking(batch, both, pl.col("gain") / pl.col("ideal"))


def _lengths(batch: _Batch) -> pl.DataFrame:
    """Return the number of retrieved documents of each ranking, at least 1."""
    length = pl.col("rank").count().clip(1).alias("length")
    return batch.documents.group_by("ranking").agg(length)


def _by_ranking(batch: _Batch, gained: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """Return a value of the gain and of the sum of weights of each ranking with relevant pairs."""
    return (
        batch.intents.group_by("ranking", maintain_order=True)
        .agg(pl.col("weight").sum())
        .filter(pl.col("weight") > 0)
        .join(gained, on="ranking", how="left")
        .with_columns(pl.col("gain").fill_null(0.0))
        .select("ranking", value.alias("value"))
    )


def _mean(batch: _Batch, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the sum of the gains of rows over the sum of weights."""
    gained = rows.group_by("ranking", maintain_order=True).agg(pl.col("gain").sum())
    return _by_ranking(batch, gained, pl.col("gain") / pl.col("weight"))


def _top(pairs: pl.DataFrame, k: int | None) -> pl.DataFrame:
    """Return the pairs of the first k documents."""
    place = pl.col("rank")
    return pairs.filter(place.is_not_null() if k is None else place <= k)


def _gained(pairs: pl.DataFrame, k: int | None, discount: Discount, alpha: float) -> pl.DataFrame:
    """Return the discounted gain of the first k documents of each ranking."""
    # Numbers of intents increase with the ranking.
    place = pl.col("intent").cast(pl.Int64) * (pl.col("rank").max().cast(pl.Int64) + 1)
    top = _top(pairs, k).select("ranking", "intent", "rank", "weight")
    top = top.sort(place + pl.col("rank").cast(pl.Int64))
    intent = top.get_column("intent")
    start = _runs(intent)[0][intent.rle_id()]
    covered = pl.select(pl.int_range(len(top)) - start.cast(pl.Int64)).to_series()
    # Powers take more time than looking them up.
    powers = pl.select(pl.lit(1.0 - alpha).pow(pl.int_range(1 + _whole(covered.max()))))
    gain = pl.col("weight") * powers.to_series()[covered] * discount(pl.col("rank"))
    first, length = _runs(top.get_column("ranking"))
    sums = _lists(top.select(gain).to_series(), length).list.sum()
    return pl.DataFrame({"ranking": top.get_column("ranking")[first], "gain": sums})


def _greedy(batch: _Batch, alpha: float) -> Iterator[_Step]:
    """Yield the steps of the greedy rankings, down to the last gain.

    Each step computes the gain of every document and chooses one document of every ranking. Gains
    are compared as whole numbers, so that equal sums are equal in any order of their terms.
    """
    first_pair, several = _runs(batch.pairs.get_column("document"))
    document = batch.pairs.get_column("document")[first_pair]
    documents = batch.documents.select("ranking", "doc")[document]
    documents = documents.with_columns(as_text("doc", documents.schema["doc"]))
    start, length = _runs(documents.get_column("ranking"))
    offsets = _offsets(length)
    longest = _whole(length.max())
    # The number in order of ids breaks ties: the maximum of one number finds the best document.
    bits = longest.bit_length()
    last = 2**bits - 1
    first = start[documents.get_column("ranking").rle_id()]
    ids = _nested(documents.get_column("doc"), offsets)
    by_id = first + ids.list.eval(pl.element().arg_sort(descending=True)).explode()
    ties = pl.repeat(last, len(documents), dtype=pl.Int64, eager=True)
    number = pl.int_range(len(documents), eager=True) - first.cast(pl.Int64)
    ties.scatter(by_id, last - number)
    # The first intents of documents, those with the most intents first; the second intents of the
    # documents that have several; and so on. And where each document is in this order.
    descending = several.arg_sort(descending=True)
    ordered = _lists(batch.pairs.get_column("intent"), several)[descending]
    layers = [
        ordered.head(_whole((several > index).sum())).list.get(index)
        for index in range(_whole(several.max()))
    ]
    order = descending.arg_sort()
    # Scaled by a power of two for each ranking, so that sums of weights fit into 61 bits.
    rankings = batch.intents.get_column("ranking")
    weights = batch.intents.get_column("weight")
    largest = pl.lit(_lists(weights, _runs(rankings)[1]).list.max())
    power = pl.when(largest > 0).then(-largest.log(2).ceil()).otherwise(0.0)
    highest = 61 - bits - len(layers).bit_length()
    scale = pl.select(pl.lit(2.0).pow(power + highest)).to_series()[rankings.rle_id()]
    weights = weights * scale
    for _ in range(longest):
        gains = _sums((weights + 0.5).cast(pl.Int64) * 2**bits, layers)
        best = _nested(gains[order] + ties, offsets).list.max()
        place = by_id[(start + (last - best % 2**bits)).filter(best > last)]
        if place.is_empty():
            break
        ties.scatter(place, _RANKED)
        index = order[place]
        intents = [layer[index.filter(index < len(layer))] for layer in layers]
        intent = pl.concat(intents, rechunk=True)
        gain = weights[intent]
        yield intent, gain / scale[intent]
        weights.scatter(intent, gain * (1.0 - alpha))


def _sums(values: pl.Series, layers: list[pl.Series]) -> pl.Series:
    """Return the sum over the layers; a sum of lists takes twice the time."""
    total = values.clear()
    for layer in reversed(layers):
        added = values[layer]
        both = added.head(len(total)) + total
        total = pl.concat([both, added.slice(len(total))], rechunk=True)
    return total


def _runs(values: pl.Series) -> tuple[pl.Series, pl.Series]:
    """Return the start and the length of each sequence of equal values."""
    length = values.rle().struct.field("len")
    return (length.cum_sum() - length).cast(pl.UInt32), length


def _lists(values: pl.Series, lengths: pl.Series) -> pl.Series:
    """Return consecutive values as lists of the given lengths."""
    return _nested(values, _offsets(lengths))


def _offsets(lengths: pl.Series) -> pa.Array:
    """Return the offsets of lists of the given lengths, and the end of the last list."""
    ends = lengths.cast(pl.Int64).cum_sum()
    return pl.Series([0], dtype=pl.Int64).append(ends).rechunk().to_arrow()


def _nested(values: pl.Series, offsets: pa.Array) -> pl.Series:
    """Return consecutive values as lists with the given offsets."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    lists = pa.LargeListArray.from_arrays(offsets, values.rechunk().to_arrow())
    return pl.Series(pl.from_arrow(lists))


def average_precision(batch: _Batch) -> pl.DataFrame:
    """Return the mean of the average precision over subtopics."""
    precision = pl.int_range(1, pl.len() + 1).over("intent") / pl.col("rank")
    pairs = batch.pairs.with_columns(pl.len().over("intent").alias("number"))
    top = _top(pairs, None).sort("ranking", "rank", "intent")
    gain = pl.col("weight") * precision / pl.col("number")
    return _mean(batch, top.select("ranking", gain=gain))


def precision(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the mean of the precision over subtopics."""
    gained = _top(batch.pairs, k).group_by("ranking").agg(pl.col("weight").sum().alias("gain"))
    share = pl.col("gain") / pl.col("weight")
    if k is not None:
        return _by_ranking(batch, gained, share / k)
    both = gained.join(_lengths(batch), on="ranking", how="full", coalesce=True)
    return _by_ranking(batch, both, share / pl.col("length"))


def recall(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the share of the subtopics that the first k documents cover."""
    covered = _top(batch.pairs, k).unique("intent", maintain_order=True)
    return _mean(batch, covered.select("ranking", gain="weight"))


def support(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the mean over subtopics of the highest grade among the first k documents."""
    gain = pl.col("weight").first() * pl.col("grade").clip(0, 1).max()
    intents = _top(batch.pairs, k).group_by("ranking", "intent", maintain_order=True)
    return _mean(batch, intents.agg(gain.alias("gain")))


def d_sharp(batch: _Batch, k: int | None, gamma: float) -> pl.DataFrame:
    """Return the mean of the recall of subtopics and of the NDCG of global gains."""
    documents = batch.pairs.group_by("ranking", "document", maintain_order=True).agg(
        pl.col("rank").first(), (pl.col("weight") * pl.col("grade")).sum().alias("gain")
    )
    place = pl.int_range(1, pl.len() + 1).over("ranking")
    ideal = documents.sort("ranking", "gain", descending=[False, True]).with_columns(rank=place)
    parts = [
        _top(each, k)
        .group_by("ranking", maintain_order=True)
        .agg((pl.col("gain") * log2(pl.col("rank"))).sum().alias(name))
        for name, each in (("own", documents), ("ideal", ideal))
    ]
    covered = _top(batch.pairs, k).unique("intent").group_by("ranking").agg(gain=pl.len())
    number = batch.intents.group_by("ranking").agg(number=pl.len())
    both = _by_ranking(batch, covered, pl.col("gain")).join(number, on="ranking")
    for part in parts:
        both = both.join(part, on="ranking", how="left")
    recalled = pl.col("value") / pl.col("number")
    relevance = pl.col("own").fill_null(0.0) / pl.col("ideal")
    return both.select("ranking", value=gamma * recalled + (1 - gamma) * relevance)
