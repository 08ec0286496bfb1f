"""`join_spans`: the long table from retrieved chunks and the spans of text that are relevant."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from polars import col

from polars_rank._params import OWN, is_number, one_of
from polars_rank.checks import Check, checks_of, failed, raise_failed
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, SchemaError, short
from polars_rank.evaluation.log_checks import row_checks
from polars_rank.evaluation.means import ratio
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import Table, framed, lazy, schema_of
from polars_rank.io.judgments import cast_keys, judged_once, with_constants, without_own_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names

#: Names of internal columns: numbers, starts and ends of chunks and of spans, and labels of spans.
_CHUNK, _CHUNK_START, _CHUNK_END = (OWN + f"chunk{each}" for each in ("", " start", " end"))
_SPAN, _SPAN_START, _SPAN_END = (OWN + f"span{each}" for each in ("", " start", " end"))
_SPAN_LABEL = OWN + "span label"
#: The starts of the parts of a chunk and of a span that those before it do not have.
_CHUNK_REST, _SPAN_REST = OWN + "rest of the chunk", OWN + "rest of the span"
_COVERED, _EVERY, _SEEN, _ALL = (OWN + each for each in ("covered", "every", "seen", "all"))
#: The columns of characters.
_CHARACTERS = ("character_recall", "character_precision", "chunk_precision", "character_iou")


@framed
def join_spans(
    retrieved: pl.LazyFrame,
    gold: pl.LazyFrame | Table,
    overlap: float | str = 0.5,
    *,
    of: Literal["gold", "chunk"] = "gold",
    characters: bool = False,
    run: str | None = RUN,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    start: str = "start",
    end: str = "end",
    score: str = "score",
    label: str = "label",
) -> pl.LazyFrame:
    r"""Join retrieved chunks and relevant spans of text to the long table.

    Judgments of spans remain valid if documents are divided into other chunks. With the
    characters C of a chunk and S of a span, the chunk is relevant if

    $$|C \cap S| \ge \mathrm{overlap} \cdot |S| \quad \mathrm{or} \quad
    |C \cap \bigcup S| \ge \mathrm{overlap} \cdot |C|$$

    by `of="gold"` or `of="chunk"`.

    Examples
    --------
    >>> chunks = pl.DataFrame({
    ...     "query": 1,
    ...     "doc": ["a", "a", "b"],
    ...     "start": [0, 100, 0],
    ...     "end": [100, 200, 100],
    ...     "score": [0.9, 0.8, 0.7],
    ... })
    >>> gold = pl.DataFrame({
    ...     "query": 1,
    ...     "doc": ["a", "c"],
    ...     "start": [90, 0],
    ...     "end": [150, 40],
    ...     "label": [2, 1],
    ... })
    >>> table = pr.join_spans(chunks, gold)
    >>> table
    shape: (4, 5)
    ┌───────┬───────────────┬───────┬───────┬───────────┐
    │ query ┆ doc           ┆ score ┆ label ┆ subtopics │
    │ ---   ┆ ---           ┆ ---   ┆ ---   ┆ ---       │
    │ i32   ┆ struct[3]     ┆ f64   ┆ i64   ┆ list[u32] │
    ╞═══════╪═══════════════╪═══════╪═══════╪═══════════╡
    │ 1     ┆ {"a",0,100}   ┆ 0.9   ┆ null  ┆ null      │
    │ 1     ┆ {"a",100,200} ┆ 0.8   ┆ 2     ┆ [0]       │
    │ 1     ┆ {"b",0,100}   ┆ 0.7   ┆ null  ┆ null      │
    │ 1     ┆ {"c",0,40}    ┆ null  ┆ 1     ┆ [1]       │
    └───────┴───────────────┴───────┴───────┴───────────┘
    >>> pr.evaluate(table, ["rr", "subtopic_recall@5"])
    shape: (1, 3)
    ┌─────────┬─────┬───────────────────┐
    │ queries ┆ rr  ┆ subtopic_recall@5 │
    │ ---     ┆ --- ┆ ---               │
    │ u32     ┆ f64 ┆ f64               │
    ╞═════════╪═════╪═══════════════════╡
    │ 1       ┆ 0.5 ┆ 0.5               │
    └─────────┴─────┴───────────────────┘

    Parameters
    ----------
    retrieved
        Table of retrieved chunks, with a query, a document, the start and end of the chunk in the
        document, and a score in each row. Other columns are kept. A row with a query but without a
        document stands for an empty ranking.
    gold
        Table of judged spans, with a query, a document, a start and an end, and a label in each
        row. Without a label column, every span is relevant (label 1). A row with a query but
        without a document stands for a query without an answer.
    overlap
        Share of the span, or of the chunk, that must be covered: a number above 0, at most 1. Or
        "any": one character is enough.
    of
        What `overlap` is a share of. "gold": a chunk covers a span if it contains this share of the
        span. "chunk": a chunk covers all spans that it overlaps if they make up this share of its
        text; text in several spans counts once. Long chunks then seldom cover short spans.
    characters
        Whether to add columns of shares of characters, which are constant in a ranking.
    run
        Column of the run in `retrieved`. Each run is joined with all spans.
    by
        Columns to group by in `retrieved`. Each combination of groups and runs is joined with all
        spans.
    query
        Column or columns that identify the query, in both tables.
    doc
        Column of the document, in both tables.
    start
        Column of the first position in the document, in both tables. Positions are integers that
        count characters, or tokens.
    end
        Column of the position after the last one, in both tables.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label in `gold`.

    Returns
    -------
    DataFrame or LazyFrame
        Same type as `retrieved`. One row per chunk, in the order of `retrieved`, and one for each
        span that no chunk of a ranking covers: judged, but not retrieved. The columns are those of
        `retrieved`, but `doc` identifies a chunk or span by a struct of document, start and end;
        and

        - `label`: the highest label of the spans that the chunk covers; null if there are none;
        - `subtopics`: the numbers of the rows of `gold` with these spans, if their label is above
          0. The metric `subtopic_recall` is thus the recall of spans, which does not depend on how
          documents are divided into chunks.

        With `characters`, also

        - `character_recall`: share of the text of the spans that chunks contain; null if the query
          has no spans with a label above 0;
        - `character_precision`: share of the text of the chunks that is in spans;
        - `chunk_precision`: the same, but text that is in several chunks counts once for each of
          them as retrieved, and only once as found;
        - `character_iou`: number of characters in both chunks and spans, divided by the number of
          characters in either; null if there are none.

    Raises
    ------
    SchemaError
        If a column is missing, exists already or has a wrong type.
    DataError
        For nulls, a start after the end, an empty span, and spans with several labels. A lazy
        result raises it when it is collected.

    See Also
    --------
    join_judgments : The same for judgments of documents.

    Notes
    -----
    Spans with and without a label above 0 are separate judgments: "chunk" adds up the shares of
    each kind, and a chunk that covers both kinds has the label of the relevant ones. Columns of
    characters ignore spans without a label above 0. To compute them for the first k chunks, filter
    `retrieved`. `pr.per_query` has them in its result with `keep`, so that `pr.summarize` and
    `pr.compare` read them like metrics.

    References
    ----------
    Smith & Troynikov, Evaluating chunking strategies for retrieval, 2024.
    """
    one_of("of", of, ("gold", "chunk"))
    left, right = without_own_columns(retrieved), without_own_columns(lazy(gold, "gold"))
    both, ends, places = {"query": query, "doc": doc}, {"start": start, "end": end}, (start, end)
    left_schema = schema_of(left)
    columns = Columns.find(
        left_schema, {"run": run, "by": by, **both, **ends, "score": score}, table="`retrieved`"
    )
    queries, groups, keys = columns.query, columns.by, [*columns.query, doc]
    right_schema = schema_of(right)
    if label == "label" and label not in right_schema and doc in right_schema:
        is_relevant = pl.when(col(doc).is_not_null()).then(pl.lit(1, pl.Int64))
        right = right.with_columns(is_relevant.alias(label))
        right_schema = schema_of(right)
    Columns.find(right_schema, {**both, **ends, "label": label}, table="`gold`")
    for schema, of_table in ((left_schema, "`retrieved`"), (right_schema, "`gold`")):
        for parameter, name in zip(("start", "end"), places, strict=True):
            if not schema[name].is_integer():
                raise SchemaError(
                    f"column {name!r} (`{parameter}`) of {of_table} must be integers; found "
                    f"{schema[name]}; cast it to Int64"
                )
    added = (label, "subtopics", *(_CHARACTERS if characters else ()))
    for name in added:
        if name in left_schema:
            raise SchemaError(
                f"`retrieved` already has a column {name!r}, which join_spans adds; rename it"
            )
    types = key_types(left_schema, right_schema, keys, ("`retrieved`", "`gold`"))
    types |= dict.fromkeys(places, pl.Int64())
    left, right = cast_keys(left, types), cast_keys(right, types)

    spans = _spans(right, queries, doc, places, label)
    spans = _with_rest(spans, [*keys, _IS_RELEVANT], _SPAN_START, _SPAN_END, _SPAN_REST)
    spans = spans.sort(_SPAN).cache()
    checks = row_checks(columns._replace(label=score, label_parameter="score"))
    checks += _checks(doc, places, score, "score")
    chunks = left.with_row_index(_CHUNK).with_columns(failed(checks, "row"))
    chunks = raise_failed(chunks, checks, log=left).cache()
    at = {start: _CHUNK_START, end: _CHUNK_END}
    parts = chunks.select(_CHUNK, *groups, *keys, *places).rename(at)
    if characters:
        parts = _with_rest(parts, [*groups, *keys], _CHUNK_START, _CHUNK_END, _CHUNK_REST).cache()
    pairs = parts.join(spans, on=keys).filter(
        col(_CHUNK_START) < col(_SPAN_END),
        col(_CHUNK_END) > col(_SPAN_START),
        col(_CHUNK_START) < col(_CHUNK_END),  # a chunk without text covers nothing
    )
    pairs = pairs.cache() if characters else pairs
    if of == "gold":
        share = _shared(_CHUNK_START, _SPAN_START) / (col(_SPAN_END) - col(_SPAN_START))
    else:
        shared = _shared(_CHUNK_START, _SPAN_REST).sum().over(_CHUNK, _IS_RELEVANT)
        share = shared / (col(_CHUNK_END) - col(_CHUNK_START))
    covered = (
        pairs.filter(share >= _least(overlap)).select(_CHUNK, _SPAN, *groups, _SPAN_LABEL).cache()
    )
    labels = covered.group_by(_CHUNK).agg(
        col(_SPAN_LABEL).max().alias(label),
        col(_SPAN).filter(_IS_RELEVANT).sort().alias("subtopics"),
    )
    # Joins of sorted tables keep the order at no cost.
    labels = labels.sort(_CHUNK).set_sorted(_CHUNK)
    others = [name for name in left_schema if name not in (*columns.keys, doc, *places, score)]
    missed = _missed(spans, covered, chunks, groups, keys)
    missed = with_constants(missed, chunks, others, [(*groups, *queries), queries, groups]).select(
        *columns.keys,
        _identified(doc, _SPAN_START, _SPAN_END, places),
        pl.lit(None, left_schema[score]).alias(score),
        *(col(OWN + name).alias(name) for name in others),
        col(_SPAN_LABEL).alias(label),
        pl.when(_IS_RELEVANT).then(pl.concat_list(_SPAN)).otherwise([]).alias("subtopics"),
    )
    names = [name for name in left_schema if name not in places] + [label, "subtopics"]
    table = pl.concat(
        [
            chunks.set_sorted(_CHUNK)
            .join(labels, on=_CHUNK, how="left", maintain_order="left")
            .with_columns(_identified(doc, start, end, places))
            .select(names),
            missed.select(names),
        ]
    )
    if not characters:
        return table
    return _with_characters(table, parts, spans, pairs, [*groups, *queries], queries)


def separate_spans(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return the chunks of a result of `join_spans`, with document, start and end as columns.

    The labels are left out, because they follow from the spans. Other tables are unchanged.
    """
    schema = table.collect_schema()
    doc = schema.get("doc")
    names = [each.name for each in doc.fields] if isinstance(doc, pl.Struct) else []
    if names != ["doc", "start", "end"] or "score" not in schema:
        return table
    # A span that was not retrieved is no chunk, but its query has a ranking.
    chunk = pl.when(col("score").is_not_null()).then(col(names))
    return table.drop("label", "subtopics", strict=False).unnest("doc").with_columns(chunk)


#: Whether a span is relevant.
_IS_RELEVANT = col(_SPAN_LABEL) > 0


def _least(overlap: float | str) -> float:
    """Return the least share that must be covered; 0 for "any"."""
    if isinstance(overlap, str) and overlap == "any":
        return 0.0
    if not (is_number(overlap) and 0 < float(overlap) <= 1):
        raise ArgumentError(
            f"must be a number above 0 and at most 1, or 'any'; found {short(overlap)}", "overlap"
        )
    return float(overlap)


def _checks(doc: str, places: Sequence[str], number: str, parameter: str) -> list[Check]:
    """Return the checks of the places and of the scores or labels of chunks and spans."""
    start, end = map(col, places)
    has_document = col(doc).is_not_null()
    is_finite = col(number).cast(pl.Float64).is_finite().fill_null(value=False)
    first, last = f"{places[0]!r} (`start`)", f"{places[1]!r} (`end`)"
    problems = {
        f"{first} or {last} has nulls; fill them in": start.is_null() | end.is_null(),
        f"{first} is after {last}": start > end,
        f"column {number!r} (`{parameter}`) has nulls or NaN; drop these rows": ~is_finite,
    }
    return checks_of("row", {text: has_document & invalid for text, invalid in problems.items()})


def _spans(
    gold: pl.LazyFrame, queries: Sequence[str], doc: str, places: Sequence[str], label: str
) -> pl.LazyFrame:
    """Return each span once, with the number of its row; collecting the result checks spans."""
    problems = {f"column {name!r} (`query`) has nulls": col(name).is_null() for name in queries}
    problems["spans are empty; drop these rows"] = col(places[0]) == col(places[1])
    checks = [*_checks(doc, places, label, "label"), *checks_of("row", problems)]
    checks = [check._replace(message=f"`gold`: {check.message}") for check in checks]
    keys = [*queries, doc, *places]
    spans = gold.select(*keys, label).with_row_index(_SPAN).with_columns(failed(checks, "row"))
    unique = partial(judged_once, keys=keys, label=label, table="`gold`", what="span")
    spans = raise_failed(spans, checks, log=gold).map_batches(unique)
    return spans.rename({places[0]: _SPAN_START, places[1]: _SPAN_END, label: _SPAN_LABEL})


def _with_rest(
    parts: pl.LazyFrame, keys: Sequence[str | pl.Expr], start: str, end: str, name: str
) -> pl.LazyFrame:
    """Return parts of documents, sorted, with the start of what earlier parts do not contain.

    Thus the rests do not overlap, and together they contain what all parts contain.
    """
    # A cumulative maximum per document takes three times as long.
    document = pl.struct(keys).rle_id().cast(pl.Int128) * 2**64
    before = ((document + col(end)).cum_max().shift(1) - document).clip(-(2**63)).cast(pl.Int64)
    return parts.sort(*keys, start, end).with_columns(pl.max_horizontal(start, before).alias(name))


def _shared(*starts: str) -> pl.Expr:
    """Return the number of characters that a chunk and a span share, given their starts."""
    return (pl.min_horizontal(_CHUNK_END, _SPAN_END) - pl.max_horizontal(starts)).clip(0)


def _identified(doc: str, start: str, end: str, places: Sequence[str]) -> pl.Expr:
    """Return the id of a chunk or of a span; null if there is no document."""
    part = pl.struct(doc, col(start).alias(places[0]), col(end).alias(places[1]))
    return pl.when(col(doc).is_not_null()).then(part).alias(doc)


def _missed(
    spans: pl.LazyFrame,
    covered: pl.LazyFrame,
    chunks: pl.LazyFrame,
    groups: Sequence[str],
    keys: Sequence[str],
) -> pl.LazyFrame:
    """Return the spans that no chunk covers, for each group of chunks.

    A query without an answer has a row without a document, unless its rankings have one.
    """
    if groups:
        every = chunks.select(groups).unique(maintain_order=True)
        spans = every.join(spans, how="cross", maintain_order="left_right")
    empty = chunks.filter(col(keys[-1]).is_null())
    same: Any = {"how": "anti", "nulls_equal": True, "maintain_order": "left"}
    missed = spans.join(covered, on=[*groups, _SPAN], **same)
    return missed.join(empty, on=[*groups, *keys], **same)


def _with_characters(
    table: pl.LazyFrame,
    parts: pl.LazyFrame,
    spans: pl.LazyFrame,
    pairs: pl.LazyFrame,
    ranking: Sequence[str],
    queries: Sequence[str],
) -> pl.LazyFrame:
    """Return the long table with the shares of characters of each ranking."""
    end, length = col(_CHUNK_END), (col(_SPAN_END) - col(_SPAN_REST)).clip(0)
    retrieved = parts.group_by(ranking).agg(
        (end - col(_CHUNK_START)).sum().alias(_ALL),
        (end - col(_CHUNK_REST)).clip(0).sum().alias(_EVERY),
    )
    relevant = spans.filter(_IS_RELEVANT).group_by(queries).agg(length.sum().alias(_SEEN))
    shared = _shared(_CHUNK_REST, _SPAN_REST).sum().alias(_COVERED)
    both = pairs.filter(_IS_RELEVANT).group_by(ranking).agg(shared)
    for keys, sums in ((ranking, retrieved), (queries, relevant), (ranking, both)):
        table = table.join(sums, on=keys, how="left", nulls_equal=True, maintain_order="left")
    found, every, seen, total = (col(each).fill_null(0) for each in (_COVERED, _EVERY, _SEEN, _ALL))
    shares = (
        ratio(found, seen),
        # Without chunks, all spans are missed.
        pl.when(every + seen > 0).then(found / every.clip(1)),
        pl.when(total + seen > 0).then(found / total.clip(1)),
        ratio(found, every + seen - found),
    )
    named = dict(zip(_CHARACTERS, shares, strict=True))
    return table.with_columns(**named).drop(_COVERED, _EVERY, _SEEN, _ALL)
