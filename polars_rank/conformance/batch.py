"""Metrics of all queries of a log under many choices at once: the reference as expressions.

All orders of the documents have the same rows: position by position, ranking by ranking. A choice
is a column of this table, which all definitions with this choice share: the labels in an order, the
gains of labels, the discounts of ranks, and their sums.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.conformance.reference import METRICS
from polars_rank.definitions import LARGEST_32
from polars_rank.discounts import DISCOUNTS
from polars_rank.frames.ids import as_text
from polars_rank.gains import GAINS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Choices = Mapping[str, Any]

#: Discounts of ranks, those that the library does not name as well.
DISCOUNTS_OF_TOOLS: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    **DISCOUNTS,
    "log2(rank + 2)": lambda rank: 1 / (rank + 2).log(2),
}
#: The treatments of copies that keep one row of a document; columns of these names say which row.
KEPT = ("first", "max")
#: Metrics that are not linear in the gains or hits of tied documents.
_NOT_LINEAR = ("average_precision", "hit_rate", "reciprocal_rank")

_ORDER, _IDEAL, _GAIN, _RUNNING, _SUM, _IDEAL_SUM = range(6)


def computes(metric: str, choices: Choices) -> bool:
    """Return whether `values` computes a metric under choices."""
    expected = choices["ties"] == "expected"
    return (
        metric in METRICS
        and choices.get("gain", "linear") in GAINS
        and choices.get("discount", "log2") in DISCOUNTS_OF_TOOLS
        and not (expected and (metric in _NOT_LINEAR or choices["duplicates"] == "uncredited"))
        and not (expected and choices.get("ideal") == "cut")
    )


def documents(rankings: pl.DataFrame) -> pl.DataFrame:
    """Return one row per document, by ranking and score, with keys of order as integers.

    `rankings` has one row per ranking, with lists of scores, labels, and ids if there are any.
    """
    lists = rankings.select("score", "label", *({"doc"} & {*rankings.columns}))
    rows = lists.with_row_index("ranking").explode(lists.columns)
    if "doc" not in lists:
        rows = rows.with_columns(doc=pl.int_range(pl.len()))
    # Keys of documents are below those of the next ranking, and can be multiplied with those of
    # tied documents, which are from 1 - number to number - 1.
    number = rows.height + 1
    whole = pl.Int64 if 2 * number**3 < 2**63 else pl.Int128
    first = pl.col("ranking").cast(whole) * number

    def dense(column: pl.Expr, *, descending: bool = False) -> pl.Expr:
        return column.rank("dense", descending=descending).cast(whole)

    scores = {
        "score": pl.col("score"),
        "score32": pl.col("score").cast(pl.Float64).clip(-LARGEST_32, LARGEST_32).cast(pl.Float32),
    }
    scores = {name: dense(each, descending=True) for name, each in scores.items()}
    dtype = rows.schema["doc"]
    text = as_text("doc", dtype)
    # Categoricals are compared as text, as in the library.
    by_text = dtype == pl.Categorical or dtype.is_nested()
    ids = {"doc": dense(text if by_text else pl.col("doc"))}
    if "doc" in lists and dtype != pl.String:  # the order of text matters for tied documents
        tied = (
            pl.struct("ranking", scores["score32"]).is_duplicated() & pl.col("score").is_not_null()
        )
        ids["doc_text"] = dense(pl.when(tied).then(text))
    rows = rows.select(
        "ranking",
        pl.col("label").cast(pl.Float64),
        row=pl.int_range(pl.len(), dtype=whole),
        grade=dense(pl.col("label").fill_null(0)),
        retrieved=pl.col("score").is_not_null(),
        judged=pl.col("label").is_not_null(),
        last=first + number - 1,
        **{name: (first + each).fill_null(first + number - 1) for name, each in scores.items()},
        **ids,
    )
    pair = first + pl.col("doc")  # null for the row of an empty ranking
    rows = rows.with_columns(
        # As the key of ties, null would be before the keys of all rankings.
        *(pl.col(name).fill_null(0) for name in ids),
        pair=pair,
        pool=pl.when(pl.when("judged").then(pair).is_first_distinct()).then("label"),
        first=pair.is_first_distinct(),
    )
    # This order is near to all others, so that sorting takes less time, and the first row of a
    # document has its highest score.
    return rows.sort("score", "row").with_columns(max=pl.col("pair").is_first_distinct())


def values(rows: pl.DataFrame, definitions: Sequence[tuple[str, Choices]]) -> pl.DataFrame:
    """Return one row per ranking and one column per definition: "0", "1", ...

    Definitions are names of metrics and their choices; `rows` are those of `documents`. Undefined
    values are null, and choices about means have no effect.
    """
    plan = _Plan()
    found = [plan.value(*each).alias(str(index)) for index, each in enumerate(definitions)]
    rank = pl.int_range(1, pl.len() + 1).over("ranking").cast(pl.Float64)
    table = rows.select("ranking", rank.alias("rank"), **plan.whole[_ORDER])
    table = table.with_columns(**plan.whole[_IDEAL])
    deepest = max((choices.get("k") or 0 for _, choices in definitions), default=0)
    top = table.filter(pl.col("rank") <= max(deepest, 1)).with_columns(**plan.top[_IDEAL])
    sums = _sums(table, plan.whole).hstack(_sums(top, plan.top).drop("ranking"))
    return sums.with_columns(**plan.whole[_IDEAL_SUM]).select(found)


def _sums(table: pl.DataFrame, stages: Sequence[Mapping[str, pl.Expr]]) -> pl.DataFrame:
    """Return the sums of each ranking."""
    first = pl.int_range(pl.len()) - pl.col("rank").cast(pl.Int64) + 1
    table = table.with_columns(first.alias("row of rank 1"), **stages[_GAIN])
    table = table.with_columns(**stages[_RUNNING])
    return table.group_by("ranking", maintain_order=True).agg(**stages[_SUM])


class _Plan:
    """The columns that definitions need, by stage: each stage reads those of the stages before.

    After the stage `_IDEAL`, columns of metrics with a cutoff have the first documents only.
    """

    def __init__(self) -> None:
        self.whole: list[dict[str, pl.Expr]] = [{} for _ in range(6)]
        self.top: list[dict[str, pl.Expr]] = [{} for _ in range(6)]

    def value(self, metric: str, choices: Choices) -> pl.Expr:
        """Return the value of a metric."""
        return getattr(self, f"_{metric}")({"k": None, **choices})  # type: ignore[no-any-return]

    def _add(
        self, stage: int, name: str, column: Callable[[], pl.Expr], k: int | None = None
    ) -> str:
        """Return the name of a column, which is added if it is new."""
        stages, name = (self.whole, name) if k is None else (self.top, f"top {name}")
        if name not in stages[stage]:
            stages[stage][name] = column()
        return name

    def _retrieved(self, c: Choices) -> pl.Expr:
        """Return the number of retrieved documents."""
        name = f"retrieved {c['unjudged']} {c['duplicates']}"
        self._add(_ORDER, name, lambda: is_retrieved(c))
        return pl.col(self._add(_SUM, name, lambda: pl.col(name).sum()))

    def _labels(self, c: Choices) -> str:
        """Return the column of labels in rank order; that of ties has the same order."""
        ids = "doc_text" if c.get("text_ids") else "doc"
        by_id = ids if c["ties"] in ("doc", "doc_ascending") else ""
        name = "labels " + " ".join(str(c[choice]) for choice in _OF_ORDER) + by_id
        score = "score32" if c["float32_scores"] else "score"
        key = pl.when(is_retrieved(c)).then(score).otherwise("last")
        tie_keys = {  # the lowest comes first; Polars negates no Int128
            "doc": 0 - pl.col(ids), "doc_ascending": pl.col(ids), "best": 0 - pl.col("grade"),
            "worst": pl.col("grade"), "reversed": 0 - pl.col("row"),
        }  # fmt: skip
        order = (key * (2 * pl.len()) + tie_keys.get(c["ties"], pl.col("row"))).arg_sort()

        def column() -> pl.Expr:
            labels = pl.when(is_retrieved(c)).then("label").gather(order)
            if c["duplicates"] != "uncredited":
                return labels
            return pl.when(pl.col("pair").gather(order).is_first_distinct()).then(labels)

        if c["ties"] == "expected":
            self._add(_ORDER, f"ties of {name}", lambda: key.gather(order))
        return self._add(_ORDER, name, column)

    def _pool(self, c: Choices, ideal: str) -> str:
        """Return the column of labels from the highest to the lowest."""
        k = c["k"]
        if ideal == "cut" and k is not None:
            labels = self._labels(c)
            cut = _descending(pl.when(pl.col("rank") <= k).then(labels))
            return self._add(_IDEAL, f"first {k} of {labels}", lambda: cut, k)
        if ideal in ("cut", "retrieved"):
            labels = self._labels({**c, "ties": "input"})
            return self._add(_IDEAL, f"ideal {labels}", lambda: _descending(pl.col(labels)))
        kept = c["duplicates"] if c["duplicates"] in KEPT else None
        pool = pl.col("pool") if kept is None else pl.when(kept).then("label")
        return self._add(_ORDER, f"ideal labels {kept}", lambda: _descending(pool))

    def _gains(self, c: Choices, labels: str, k: int | None) -> str:
        """Return the column of gains of labels."""
        gain, lowest = c["gain"], c.get("gain_from")

        def column() -> pl.Expr:
            gains = GAINS[gain](pl.col(labels))
            some = pl.col(labels) >= (-math.inf if lowest is None else lowest)
            worth: pl.Expr = pl.when(some).then(gains).otherwise(0.0)
            return worth

        return self._of_labels(c, f"gain {gain} {lowest} {labels}", labels, column, k)

    def _hits(self, c: Choices, labels: str, k: int | None) -> str:
        """Return the column that is 1 for relevant documents, otherwise 0."""

        def column() -> pl.Expr:
            relevant: pl.Expr = pl.col(labels) >= c["rel"]
            return relevant.fill_null(value=False).cast(pl.Float64)

        return self._of_labels(c, f"hits {c['rel']} {labels}", labels, column, k)

    def _of_labels(
        self, c: Choices, name: str, labels: str, column: Callable[[], pl.Expr], k: int | None
    ) -> str:
        """Return a column, or its means over documents with the same score if all orders count."""
        if c["ties"] != "expected":
            return self._add(_GAIN, name, column, k)
        return self._add(_IDEAL, name, lambda: column().mean().over(f"ties of {labels}"))

    def _sum(self, values: str, k: int | None, discount: str = "") -> pl.Expr:
        """Return the sum of values of the first k documents, with a discount."""

        def weight() -> pl.Expr:
            rank = pl.col("rank")
            weights = DISCOUNTS_OF_TOOLS[discount](rank) if discount else pl.lit(1.0)
            return weights if k is None else pl.when(rank <= k).then(weights).otherwise(0.0)

        weights = self._add(_GAIN, f"weight {discount} {k}", weight, k)
        weighted = (pl.col(values) * pl.col(weights)).sum()
        return pl.col(self._add(_SUM, f"sum {k} {discount} {values}", lambda: weighted, k))

    def _has_gain(self, c: Choices) -> pl.Expr:
        gains = self._gains({**c, "ties": "input"}, self._pool(c, "judged"), None)
        return pl.col(self._add(_SUM, f"highest {gains}", lambda: pl.col(gains).max())) > 0

    def _top(self, c: Choices) -> pl.Expr:
        """Return the number of relevant documents among the first k."""
        return self._sum(self._hits(c, self._labels(c), c["k"]), c["k"])

    def _relevant(self, c: Choices) -> pl.Expr:
        """Return the number of relevant documents; null if there are none."""
        number = self._sum(self._hits({**c, "ties": "input"}, self._pool(c, "judged"), None), None)
        return pl.when(number > 0).then(number)

    def _cg(self, c: Choices) -> pl.Expr:
        return self._sum(self._gains(c, self._labels(c), c["k"]), c["k"])

    def _dcg(self, c: Choices) -> pl.Expr:
        value = self._sum(self._gains(c, self._labels(c), c["k"]), c["k"], c["discount"])
        return pl.when(self._has_gain(c)).then(value) if c.get("irrelevant") else value

    def _ndcg(self, c: Choices) -> pl.Expr:
        gains = self._gains(c, self._labels(c), c["k"])
        return self._sum(gains, c["k"], c["discount"]) / self._ideal(c)

    def _ideal(self, c: Choices) -> pl.Expr:
        """Return the DCG of the ideal ranking, null if it is not above 0."""
        ideal, depth, discount = c["ideal"], c.get("depth"), c["discount"]
        k = None if ideal == "all" else c["k"]
        has_gain = self._has_gain(c) if ideal == "full" else pl.lit(value=True)
        if ideal == "full" and k is not None and depth is None:
            ranks = pl.int_range(1, k + 1).cast(pl.Float64)
            every = pl.select(DISCOUNTS_OF_TOOLS[discount](ranks).sum()).item()
            return pl.when(has_gain).then(every)
        if ideal == "full":
            gains = self._add(_GAIN, "ones", lambda: pl.lit(1.0), k)
        else:
            gains = self._gains({**c, "ties": "input"}, self._pool(c, ideal), k)
        if depth == "retrieved" or ideal == "full":
            flags = self._retrieved(c).meta.output_name()
            total = pl.col(flags).sum().over("ranking")
            number = self._add(_IDEAL, f"number {flags}", lambda: total)
            inside = pl.when(pl.col("rank") <= pl.col(number)).then(gains).otherwise(0.0)
            gains = self._add(_RUNNING, f"{gains} of {flags}", lambda: inside, k)
        whole = self._sum(gains, k, discount)
        name = f"ideal {ideal} {c['gain']} {c.get('gain_from')} {whole.meta.output_name()}"
        some = (whole > 0) & has_gain
        return pl.col(self._add(_IDEAL_SUM, name, lambda: pl.when(some).then(whole)))

    def _average_precision(self, c: Choices) -> pl.Expr:
        k, norm = c["k"], c.get("norm", "R")
        hits = self._hits(c, self._labels(c), k)

        def precision() -> pl.Expr:
            running = pl.col(hits).cum_sum()
            above = running - (running - pl.col(hits)).gather("row of rank 1")
            return pl.col(hits) * above / pl.col("rank")

        parts = self._sum(self._add(_RUNNING, f"precision at {hits}", precision, k), k)
        relevant, retrieved = self._relevant(c), self._retrieved(c)
        top = retrieved if k is None else retrieved.clip(upper_bound=k)
        divisor = {
            "R": relevant, "min": relevant.clip(upper_bound=k),
            "retrieved": pl.min_horizontal(top, relevant),
            "hits": self._top(c).clip(1), "k": retrieved if k is None else pl.lit(k),
        }[norm]  # fmt: skip
        return pl.when(relevant.is_not_null() & (divisor > 0)).then(parts / divisor)

    def _reciprocal_rank(self, c: Choices) -> pl.Expr:
        k = c["k"]
        hits = self._hits(c, self._labels(c), k)
        some = (pl.col(hits) > 0) & (pl.lit(value=True) if k is None else pl.col("rank") <= k)
        first = (1 / pl.col("rank")).filter(some).max()
        name = self._add(_SUM, f"first {k} {hits}", lambda: first, k)
        return pl.when(self._relevant(c).is_not_null()).then(pl.col(name).fill_null(0.0))

    def _precision(self, c: Choices) -> pl.Expr:
        k, retrieved = c["k"], self._retrieved(c)
        length = retrieved if k is None else pl.lit(k)
        if k is not None and c.get("depth") == "retrieved":
            length = retrieved.clip(upper_bound=k)
        defined = length > 0
        if k is not None and c.get("short") == "null":
            defined &= retrieved >= k
        if c.get("irrelevant") == "null":
            defined &= self._relevant(c).is_not_null()
        return pl.when(defined).then(self._top(c) / length)

    def _recall(self, c: Choices) -> pl.Expr:
        return self._top(c) / self._relevant(c)

    def _recall_capped(self, c: Choices) -> pl.Expr:
        return self._top(c) / self._relevant(c).clip(upper_bound=c["k"])

    def _hit_rate(self, c: Choices) -> pl.Expr:
        hit = (self._top(c) > 0).cast(pl.Float64)
        return pl.when(self._relevant(c).is_not_null()).then(hit)

    def _f1(self, c: Choices) -> pl.Expr:
        precision, recall = self._precision(c), self._recall(c)
        value = 2 * precision * recall / (precision + recall)
        some = pl.when((precision > 0) & (recall > 0)).then(value).otherwise(0.0)
        return pl.when(recall.is_not_null()).then(some)

    def _r_precision(self, c: Choices) -> pl.Expr:
        hits = self._hits(c, self._labels(c), None)
        judged = pl.col(self._hits({**c, "ties": "input"}, self._pool(c, "judged"), None))

        def above() -> pl.Expr:
            inside = pl.col("rank") <= judged.sum().over("ranking")
            return pl.when(inside).then(hits).otherwise(0.0)

        return self._sum(self._add(_RUNNING, f"above R {hits}", above), None) / self._relevant(c)


#: The choices that order documents.
_OF_ORDER = ("ties", "float32_scores", "unjudged", "duplicates")


def is_retrieved(c: Choices) -> pl.Expr:
    """Return whether documents are retrieved, and not removed or dropped."""
    retrieved = pl.col("retrieved")
    if c["duplicates"] in KEPT:
        retrieved &= pl.col(c["duplicates"])
    return retrieved & pl.col("judged") if c["unjudged"] == "removed" else retrieved


def _descending(labels: pl.Expr) -> pl.Expr:
    """Return labels from the highest to the lowest in each ranking, nulls last."""
    order = pl.arg_sort_by("ranking", labels, descending=[False, True], nulls_last=True)
    return labels.gather(order)
