"""Values of many rankings at once, from the lists of subtopics of their documents."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import number
from polars_rank.discounts import Discount, log2
from polars_rank.errors import DataError, SchemaError
from polars_rank.metrics.terms import RANK, RETRIEVED, Terms, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

#: The divisor of alpha-DCG and ERR-IA.
Norm: TypeAlias = Literal["full", "none", "ndeval"]

#: The number of intents for which gaps between their numbers do no harm.
_FEW = 2**16


class Judgments(NamedTuple):
    """The columns of judgments, and the lowest relevant grade."""

    subtopics: str
    grades: str | None
    weights: str | None
    rel: float

    def columns(self) -> Iterator[tuple[str, str]]:
        """Return the parameters that name a column, with the name."""
        for parameter in ("subtopics", "grades", "weights"):
            column = getattr(self, parameter)
            if column is not None:
                yield parameter, column


class Persistence(NamedTuple):
    """The discount of a user who continues to the next document with a probability."""

    beta: float

    def __call__(self, rank: pl.Expr) -> pl.Expr:
        """Return the probability of reaching a rank."""
        return pl.lit(float(self.beta)).pow(rank - 1)


class _Batch(NamedTuple):
    """Many rankings at once."""

    #: A row for each document: `ranking`, `rank` and, if needed, `doc`.
    documents: pl.DataFrame
    #: A row for each relevant subtopic of a document: `ranking`, `document`, `rank`, `intent`,
    #: which identifies the subtopic and the ranking, `grade` and `weight`.
    pairs: pl.DataFrame
    #: A row for each intent: `ranking`, `intent`, `weight`, `number` of relevant documents, and
    #: `documents`.
    intents: pl.DataFrame


#: The expressions of metrics. Polars shares equal expressions, but two expressions that call one
#: Python function are not equal unless they are the same object.
_EXPRESSIONS: dict[tuple[Any, ...], pl.Expr] = {}


def judged(
    t: Terms,
    compute: Callable[..., pl.DataFrame],
    judgments: Judgments,
    *parameters: Any,
    ranked: bool = True,
    ids: bool = False,
) -> Value:
    """Return a value computed for many rankings at once from their judgments.

    `compute` is called with a batch and the parameters, and returns rows of `ranking` and `value`;
    rankings without a row are undefined. Without `ranked`, the rank of a retrieved document is 1.
    """
    number("rel", judgments.rel)
    terms = {"rank": t.in_any_order(RANK if ranked else pl.when(RETRIEVED).then(1.0))}
    if ids:
        terms["doc"] = t.in_any_order(t.doc())
    for parameter, column in judgments.columns():
        terms[parameter] = t.in_any_order(t.lists(parameter, column))

    def value(*columns: pl.Expr) -> pl.Expr:
        key = (compute, parameters, judgments, *map(str, columns))
        if key not in _EXPRESSIONS:
            documents = (each.alias(name) for name, each in zip(terms, columns, strict=True))
            _EXPRESSIONS[key] = (
                pl.struct(*documents)
                .implode()
                .map_batches(
                    partial(_values, compute, parameters, judgments),
                    return_dtype=pl.Float64,
                    is_elementwise=True,
                    returns_scalar=True,
                )
            )
        return _EXPRESSIONS[key]

    return t.fold(value, *terms.values())


def _values(
    compute: Callable[..., pl.DataFrame],
    parameters: tuple[Any, ...],
    judgments: Judgments,
    rankings: pl.Series,
) -> pl.Series:
    """Return the value of each ranking, given a list of documents for each."""
    index = pl.DataFrame({"ranking": pl.int_range(len(rankings), dtype=pl.UInt32, eager=True)})
    batch = _batch(judgments, rankings)
    if batch.pairs.is_empty():
        return pl.repeat(None, len(rankings), dtype=pl.Float64, eager=True).alias(rankings.name)
    values = compute(batch, *parameters).select(
        "ranking", pl.col("value").cast(pl.Float64).fill_nan(None)
    )
    found = index.join(values, on="ranking", how="left", maintain_order="left")
    return found.get_column("value").alias(rankings.name)


def _batch(judgments: Judgments, rankings: pl.Series) -> _Batch:
    """Return the documents of many rankings, and their judgments."""
    documents = (
        rankings.alias("row")
        .to_frame()
        .with_row_index("ranking")
        .explode("row", empty_as_null=False)
        .unnest("row")
        .with_row_index("document")
    )
    parameters = dict(judgments.columns())
    for parameter, column in parameters.items():
        dtype = documents.schema[parameter]
        if not isinstance(dtype, (pl.List, pl.Array)) and dtype != pl.Null:
            message = f"column {column!r} (`{parameter}`) must be a list column; found {dtype}"
            raise SchemaError(message, parameter)
    lengths = pl.col("subtopics").list.len()
    for parameter, column in list(parameters.items())[1:]:
        differ = documents.filter(lengths.ne_missing(pl.col(parameter).list.len()))
        if not differ.is_empty():
            message = (
                f"columns {judgments.subtopics!r} (`subtopics`) and {column!r} (`{parameter}`) "
                f"must have lists of the same length; found {differ.item(0, 'subtopics')} and "
                f"{differ.item(0, parameter)}"
            )
            raise DataError(message)
    grade = pl.col("grades").cast(pl.Float64) if judgments.grades else pl.lit(1.0)
    weight = pl.col("weights").cast(pl.Float64) if judgments.weights else pl.lit(1.0)
    pairs = (
        documents.drop("doc", strict=False)
        .explode(*parameters, empty_as_null=False, keep_nulls=False)
        .with_columns(grade.alias("grade"), weight.alias("weight"))
    )
    known = pl.col("subtopics").is_not_null() & (pl.col("grade") >= judgments.rel)
    pairs = pairs.filter(known)
    pairs = pairs.with_columns(_intents(pairs))
    by_intent = pairs.select("intent", "ranking", "weight", "document").sort("intent")
    runs = _runs(by_intent.get_column("intent"))
    number = runs.get_column("length")
    intents = by_intent.select(
        pl.exclude("document").gather(runs.get_column("start"))
    ).with_columns(
        number.alias("number"), _lists(by_intent.get_column("document"), number).alias("documents")
    )
    # Number the intents without gaps.
    place = pl.int_range(len(intents), dtype=pl.UInt32, eager=True).alias("intent")
    highest = _whole(pairs.get_column("intent").max())
    places = pl.repeat(0, highest + 1, dtype=pl.UInt32, eager=True)
    places.scatter(intents.get_column("intent"), place)
    pairs = pairs.with_columns(places.gather(pairs.get_column("intent")).alias("intent"))
    intents = intents.with_columns(place)
    _check(pairs, judgments)
    return _Batch(documents, pairs, intents)


def _intents(pairs: pl.DataFrame) -> pl.Series:
    """Return a number from 0 for each subtopic of each ranking."""
    subtopics = pairs.get_column("subtopics")
    if subtopics.dtype in (pl.String, pl.Categorical):
        text = subtopics.cast(pl.String)
        # In order of the text, so that sums over subtopics have one order of their terms.
        codes = text.cast(pl.Enum(text.unique().sort())).to_physical()
    elif subtopics.dtype.is_integer() and _whole(subtopics.max()) - _whole(subtopics.min()) < _FEW:
        codes = (subtopics - _whole(subtopics.min())).cast(pl.Int64)
    else:
        codes = subtopics.rank("dense") - 1
    highest = codes.cast(pl.Int64).max()
    number = pairs.get_column("ranking").cast(pl.Int64) * (_whole(highest) + 1) + codes
    if _whole(number.max()) > 4 * len(pairs) + _FEW:
        number = number.rank("dense") - 1
    return number.cast(pl.UInt32).alias("intent")


def _whole(value: Any) -> int:
    return 0 if value is None else int(value)


def _check(pairs: pl.DataFrame, judgments: Judgments) -> None:
    """Raise `DataError` for subtopics that a document lists twice, and for invalid weights."""
    weight = pl.col("weight")
    several = weight.min().over("intent") < weight.max().over("intent")
    weights = f"column {judgments.weights!r} (`weights`)"
    problems = {
        f"column {judgments.subtopics!r} (`subtopics`) lists the subtopic {{}} twice for one "
        "document": pl.struct("document", "intent").is_duplicated(),
        f"{weights} must have finite numbers of 0 or more; the subtopic {{}} has another one": (
            ~((weight >= 0) & weight.is_finite()).fill_null(value=False)
        ),
        f"{weights} has several weights for the subtopic {{}} of a query": several,
    }
    once = pl.col("document").cast(pl.Int64) * 2**32 + pl.col("intent")
    if pairs.select(once.n_unique()).item() == len(pairs):
        problems = dict(list(problems.items())[1:]) if judgments.weights else {}
    for problem, condition in problems.items():
        failing = pairs.filter(condition)
        if not failing.is_empty():
            raise DataError(problem.format(repr(failing.item(0, "subtopics"))))


def discounted_gain(
    batch: _Batch,
    k: int | None,
    discount: Discount,
    alpha: float,
    norm: Norm,
    beta: float | None,
) -> pl.DataFrame:
    """Return the discounted gain of each ranking, divided by the largest conceivable one."""
    gained = _gained(batch.pairs, k, discount, alpha)
    if norm == "none":
        return _by_ranking(batch, gained, pl.col("gain"))
    shares = pl.col("gain") / pl.col("weight")
    if beta is not None:
        return _by_ranking(batch, gained, shares * (1 - (1 - alpha) * beta))
    lengths = _lengths(batch, k)
    rank = pl.int_range(1, pl.col("length").max() + 1).cast(pl.Float64)
    full = lengths.select((discount(rank) * pl.lit(1.0 - alpha).pow(rank - 1)).cum_sum())
    whole = pl.lit(full.to_series()).gather(pl.col("length") - 1)
    return _by_ranking(
        batch, gained.join(lengths, on="ranking", how="full", coalesce=True), shares / whole
    )


def normalized_gain(
    batch: _Batch, k: int | None, discount: Discount, alpha: float, depth: int | None
) -> pl.DataFrame:
    """Return the discounted gain of each ranking, divided by that of the greedy ranking."""
    gained = _gained(batch.pairs, k, discount, alpha)
    ideal = _greedy_gain(batch, depth, discount, alpha)
    both = ideal.join(gained, on="ranking", how="left").with_columns(pl.col("gain").fill_null(0.0))
    return _by_ranking(batch, both, pl.col("gain") / pl.col("ideal"))


def _lengths(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the number of ranks of each ranking that count: k, or those of all documents."""
    if k is not None:
        return batch.intents.select(pl.col("ranking").unique()).with_columns(length=pl.lit(k))
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


def _top(pairs: pl.DataFrame, k: int | None) -> pl.DataFrame:
    """Return the pairs of the first k documents."""
    place = pl.col("rank")
    return pairs.filter(place.is_not_null() if k is None else place <= k)


def _gained(pairs: pl.DataFrame, k: int | None, discount: Discount, alpha: float) -> pl.DataFrame:
    """Return the discounted gain of the first k documents of each ranking."""
    # Numbers of intents increase with the ranking.
    top = _top(pairs, k).select("ranking", "intent", "rank", "weight").sort("intent", "rank")
    runs = _runs(top.get_column("intent"))
    start = _repeated(runs.get_column("start"), runs.get_column("length"))
    covered = pl.int_range(pl.len()) - start.cast(pl.Int64)
    gain = pl.col("weight") * pl.lit(1.0 - alpha).pow(covered) * discount(pl.col("rank"))
    rankings = _runs(top.get_column("ranking"))
    gains = _lists(top.select(gain).to_series(), rankings.get_column("length")).list.sum()
    return pl.DataFrame(
        {"ranking": top.get_column("ranking").gather(rankings.get_column("start")), "gain": gains}
    )


def _greedy_gain(batch: _Batch, k: int | None, discount: Discount, alpha: float) -> pl.DataFrame:
    """Return the discounted gain of the first k documents of the greedy ranking.

    Each step chooses a document of every ranking, and updates the gains of only those documents
    that share a subtopic with it. Gains are compared as whole numbers, so that equal sums are equal
    in any order of their terms.
    """
    documents, place_of = _by_id(batch)
    rankings = _runs(documents.get_column("ranking"))
    found, sizes = rankings.get_column("start"), rankings.get_column("length")
    # The place in the ranking breaks ties: the maximum of one number finds the best document.
    bits = _whole(sizes.max()).bit_length()
    weights, intents = batch.intents.get_column("weight"), documents.get_column("intents")
    highest = float(weights.max() or 1) * _whole(intents.list.len().max())  # type: ignore[arg-type]
    unit = 2.0 ** (61 - bits - math.ceil(math.log2(highest)))
    sums = _lists(_units(weights, unit).gather(intents.explode()), intents.list.len()).list.sum()
    places = pl.int_range(len(documents), eager=True)
    offsets = (
        pl.Series([0], dtype=pl.Int64).append(sizes.cast(pl.Int64).cum_sum()).rechunk().to_arrow()
    )
    gains = sums * 2**bits + (2**bits - 1 - places + _repeated(found.cast(pl.Int64), sizes))
    number = batch.intents.get_column("number")
    covering = _lists(place_of.gather(batch.intents.get_column("documents").explode()), number)
    ideal = pl.repeat(0.0, len(sizes), eager=True)
    steps = _whole(sizes.max()) if k is None else min(k, _whole(sizes.max()))
    rank = pl.int_range(1, steps + 1).cast(pl.Float64)
    discounts = pl.select(discount(rank)).to_series()
    for step in range(1, steps + 1):
        best = _highest(gains, offsets)
        open_ = best >= 2**bits
        place = (found + (2**bits - 1 - best % 2**bits)).filter(open_).cast(pl.UInt32)
        if place.is_empty():
            break
        covered = intents.gather(place)
        chosen, number = covered.explode(), covered.list.len()
        old = weights.gather(chosen)
        gained = pl.repeat(0.0, len(sizes), eager=True)
        gained.scatter(open_.arg_true(), _lists(old, number).list.sum())
        ideal = ideal + gained * discounts[step - 1]
        new = old * (1.0 - alpha)
        weights.scatter(chosen, new)
        lost = (_units(old, unit) - _units(new, unit)) * 2**bits
        gains.scatter(place, 0)
        changes = (
            pl.DataFrame({"place": covering.gather(chosen), "lost": lost})
            .explode("place")
            .group_by("place")
            .agg(pl.col("lost").sum())
        )
        changed = changes.get_column("place")
        gains.scatter(changed, gains.gather(changed) - changes.get_column("lost"))
    return pl.DataFrame({"ranking": documents.get_column("ranking").gather(found), "ideal": ideal})


def _by_id(batch: _Batch) -> tuple[pl.DataFrame, pl.Series]:
    """Return the documents with a subtopic, by ranking and descending id, with their intents.

    Also return the place of each document of the batch among them.
    """
    runs = _runs(batch.pairs.get_column("document"))
    own = batch.pairs.get_column("document").gather(runs.get_column("start"))
    documents = batch.documents.select(pl.col("ranking", "doc").gather(own))
    if documents.schema["doc"] == pl.Categorical:  # ordered by its text, as in `rank`
        documents = documents.cast({"doc": pl.String})
    rankings = _runs(documents.get_column("ranking"))
    ids = _lists(documents.get_column("doc"), rankings.get_column("length"))
    order = (
        ids.list.eval(pl.element().arg_sort(descending=True)).explode()
        + _repeated(rankings.get_column("start"), rankings.get_column("length"))
    ).cast(pl.UInt32)
    intents = _lists(batch.pairs.get_column("intent"), runs.get_column("length"))
    place_of = pl.repeat(0, len(batch.documents), dtype=pl.UInt32, eager=True)
    place_of.scatter(own.gather(order), pl.int_range(len(order), dtype=pl.UInt32, eager=True))
    ordered = {"ranking": documents.get_column("ranking"), "intents": intents}
    return pl.DataFrame({name: each.gather(order) for name, each in ordered.items()}), place_of


def _highest(values: pl.Series, offsets: pa.Array) -> pl.Series:
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    # No other reference to the values is left, so that they can be changed in place.
    return pl.Series(
        pl.from_arrow(pa.LargeListArray.from_arrays(offsets, values.to_arrow()))
    ).list.max()


def _units(weights: pl.Series, unit: float) -> pl.Series:
    return (weights * unit).round().cast(pl.Int64)


def _runs(values: pl.Series) -> pl.DataFrame:
    """Return the `start` and the `length` of each run of equal values."""
    length = values.rle().struct.field("len")
    start = length.cast(pl.Int64).cum_sum() - length
    return pl.DataFrame({"start": start.cast(pl.UInt32), "length": length})


def _lists(values: pl.Series, lengths: pl.Series) -> pl.Series:
    """Return consecutive values as lists of the given lengths."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    ends = lengths.cast(pl.Int64).cum_sum()
    offsets = pl.Series([0], dtype=pl.Int64).append(ends).rechunk().to_arrow()
    lists = pa.LargeListArray.from_arrays(offsets, values.rechunk().to_arrow())
    return pl.Series(pl.from_arrow(lists))


def _repeated(values: pl.Series, times: pl.Series) -> pl.Series:
    """Return each value a number of times."""
    return pl.select(pl.lit(values).repeat_by(pl.lit(times))).to_series().explode()


def average_precision(batch: _Batch) -> pl.DataFrame:
    """Return the mean of the average precision over subtopics."""
    found = pl.int_range(1, pl.len() + 1).over("intent") / pl.col("rank")
    gained = (
        _top(batch.pairs, None)
        .sort("ranking", "rank", "intent")
        .with_columns(found.alias("precision"))
        .join(batch.intents.select("intent", "number"), on="intent", maintain_order="left")
        .group_by("ranking", maintain_order=True)
        .agg((pl.col("weight") * pl.col("precision") / pl.col("number")).sum().alias("gain"))
    )
    return _by_ranking(batch, gained, pl.col("gain") / pl.col("weight"))


def precision(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the mean of the precision over subtopics."""
    gained = _top(batch.pairs, k).group_by("ranking").agg(pl.col("weight").sum().alias("gain"))
    both = gained.join(_lengths(batch, k), on="ranking", how="full", coalesce=True)
    return _by_ranking(batch, both, pl.col("gain") / pl.col("weight") / pl.col("length"))


def recall(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the share of the subtopics that the first k documents cover."""
    covered = _top(batch.pairs, k).unique("intent", maintain_order=True)
    gained = covered.group_by("ranking", maintain_order=True).agg(
        pl.col("weight").sum().alias("gain")
    )
    return _by_ranking(batch, gained, pl.col("gain") / pl.col("weight"))


def support(batch: _Batch, k: int | None) -> pl.DataFrame:
    """Return the mean over subtopics of the highest grade among the first k documents."""
    gained = (
        _top(batch.pairs, k)
        .group_by("ranking", "intent", maintain_order=True)
        .agg(pl.col("weight").first() * pl.col("grade").clip(0, 1).max())
        .group_by("ranking", maintain_order=True)
        .agg(pl.col("weight").sum().alias("gain"))
    )
    return _by_ranking(batch, gained, pl.col("gain") / pl.col("weight"))


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
