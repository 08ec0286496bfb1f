"""The facts of a log: labels, ties, unjudged documents, lengths, empty rankings, and broken runs.

`facts` decides which choices can matter, and finds runs that do what no retrieval system does, such
as the same score for all documents: the rows of a log, or of a random sample of its queries, are
grouped by ranking and label. `log_counts` counts all rows.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import is_relevant
from polars_rank.errors import number_of, short
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import collected, number_column
from polars_rank.stats.query_hash import mixed, query_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.columns import Columns
    from polars_rank.evaluation.log import Log

_RUN, _LABEL, _DOC = OWN + "run", OWN + "label", OWN + "doc"
#: A run is broken if most of its rankings are, or for some problems a tenth of them; and the fewest
#: rankings that show it.
_MOST, _SOME, FEWEST = 0.5, 0.1, 10
#: Logs with more than twice as many rows are sampled, unless the sample has fewer queries.
_ROWS, _QUERIES = 200_000, 100


class Problem(NamedTuple):
    """Why a run looks broken, in a few words and with numbers."""

    name: str
    text: str


class LogFacts(NamedTuple):
    """What a log contains, as far as it decides about choices; and which runs look broken."""

    problems: Mapping[Any, Sequence[Problem]]
    #: The different labels, sorted.
    labels: Sequence[float]
    #: Whether documents of a ranking have equal scores.
    has_ties: bool
    #: Whether documents without a label may be relevant: not if all labels are, as for purchases.
    has_unjudged: bool
    #: The largest number of retrieved documents of a ranking.
    longest: int
    #: The mean number of rows of a query, of all runs.
    rows_per_query: float

    @property
    def warnings(self) -> Iterator[str]:
        """Yield a sentence about each problem."""
        for run, problems in self.problems.items():
            for each in problems:
                subject = "the run" if run is None else f"the run {short(run)}"
                yield f"{subject} looks broken ({each.name}): {each.text}"


def facts(log: Log, rel: float, k: int | None) -> LogFacts:
    """Return the facts of a log, by a sample of its queries if it is long.

    `rel` is the lowest relevant label, and `k` the cutoff above which rankings must not end.
    """
    table, columns = log.table, log.columns
    queries = [name for name in columns.keys if name != columns.run]
    names = [f"{OWN}query {index}" for index in range(len(queries))]
    keys, label, known_rows = [_RUN, *names], pl.col(_LABEL), pl.col("rows")
    step = collected(table.select(pl.len())).item() // _ROWS
    rows = _rows(sampled(table, queries, columns.schema, step), columns, queries, names)
    if step > 1 and rows.select(pl.struct(names).n_unique()).item() < _QUERIES:
        rows = _rows(table, columns, queries, names)
    by_label = _by_label(rows, keys)
    relevant = (label >= rel).fill_null(value=False)
    rankings = by_label.group_by(keys).agg(
        known_rows.sum(),
        pl.col("retrieved", "digest").sum(),
        pl.col("low").min(),
        pl.col("high").max(),
        own=pl.col("own").filter(~relevant).max(),
        relevant=relevant.any(),
    )
    known = by_label.get_column(_LABEL).drop_nulls().unique().sort()
    unjudged: Any = by_label.filter(label.is_null()).get_column("retrieved").sum()
    number: Any = rankings.select(pl.struct(names).n_unique()).item()
    longest: Any = rankings.get_column("retrieved").max()
    # As 32-bit floats, scores have at least the ties that any conventions see.
    scores = rows.select(*keys, pl.col("score").cast(pl.Float32)).drop_nulls("score")
    return LogFacts(
        _problems(rankings, by_label, names, k), known.to_list(),
        has_ties=scores.n_unique() < scores.height,
        has_unjudged=bool((known < rel).any()) and unjudged > 0,
        longest=longest or 0,
        rows_per_query=rankings.get_column("rows").sum() / max(number, 1),
    )  # fmt: skip


def sampled(
    log: pl.LazyFrame, queries: Sequence[str], schema: pl.Schema, step: int
) -> pl.LazyFrame:
    """Return the rows of a random sample of queries: of one in `step`."""
    if step < 2:
        return log
    return log.filter(mixed(query_key(queries, schema)) % step == 0)


def _rows(
    log: pl.LazyFrame, columns: Columns, queries: Sequence[str], names: Sequence[str]
) -> pl.DataFrame:
    """Return the documents of rankings, under the names of this module."""
    return collected(
        log.select(
            (pl.lit(None) if columns.run is None else pl.col(columns.run)).alias(_RUN),
            *(pl.col(query).alias(name) for query, name in zip(queries, names, strict=True)),
            columns.number(columns.label).cast(pl.Float64).alias(_LABEL),
            columns.number(columns.score).cast(pl.Float64).alias("score"),
            _is_query(columns).alias("own"),
            (pl.lit(None) if columns.doc is None else pl.col(columns.doc)).hash(1).alias("id"),
        )
    )


def _by_label(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return a row for each ranking and label: counts and scores of documents."""
    score = pl.col("score")
    retrieved = score.is_not_null()
    # The sum over the documents does not depend on their order.
    document = pl.col("id") ^ score.hash(2) ^ pl.col(_LABEL).hash(3)
    return rows.group_by([*keys, _LABEL]).agg(
        rows=(retrieved | pl.col(_LABEL).is_not_null()).sum().cast(pl.Int64),
        retrieved=retrieved.sum().cast(pl.Int64),
        low=score.min(),
        high=score.max(),
        own=score.filter("own").max(),
        digest=document.filter(retrieved).sum(),
    )


def _is_query(columns: Columns) -> pl.Expr:
    """Return whether a document has the id of the query; False for ids of different kinds."""
    doc, schema = columns.doc, columns.schema
    alike = [pl.lit(value=False)]
    for query in columns.query if doc is not None else ():
        types = schema[query], schema[str(doc)]
        if all(each.is_integer() for each in types):
            alike.append(pl.col(query) == pl.col(str(doc)))
        elif all(map(is_text, types)):
            alike.append(pl.col(query).cast(pl.String) == pl.col(str(doc)).cast(pl.String))
    return reduce(or_, alike)


def _problems(
    rankings: pl.DataFrame, by_label: pl.DataFrame, names: Sequence[str], k: int | None
) -> dict[Any, list[Problem]]:
    """Return the problems of the runs that have some."""
    retrieved, known = pl.col("retrieved"), pl.col("rows")
    length = retrieved.max().over(_RUN)
    ends = (length < (k or 0)) & (retrieved == length) & (known.max().over(names) > length)
    rankings = rankings.join(
        _scored_by_labels(by_label, [_RUN, *names]), on=[_RUN, *names], how="left", nulls_equal=True
    ).with_columns(ends=ends)
    some, several = retrieved > 0, retrieved > 1
    of_query = pl.struct(names).hash(4)
    counts = rankings.group_by(_RUN).agg(
        rankings=pl.len(),
        empty=(~some).sum(),
        found=some.sum(),
        several=several.sum(),
        constant=(several & (pl.col("low") == pl.col("high"))).sum(),
        telling=pl.col("copied").count(),
        copied=pl.col("copied").sum(),
        own=(pl.col("own") == pl.col("high")).sum(),
        ends=pl.col("ends").sum(),
        longest=retrieved.max(),
        digest=(of_query ^ pl.col("digest").hash(5)).filter(some).sum(),
    )
    needed = rankings.filter("relevant" if rankings.get_column("relevant").any() else some)
    needed = needed.select(names).unique()
    answered = rankings.filter(some).join(needed, on=names, how="semi", nulls_equal=True)
    counts = counts.join(
        answered.group_by(_RUN).agg(answered=pl.len()), on=_RUN, how="left", nulls_equal=True
    )
    rows = counts.sort(_RUN).to_dicts()
    found = {}
    for row in rows:
        content = row["digest"], row["found"]
        alike = [
            each[_RUN] for each in rows
            if each is not row and content == (each["digest"], each["found"])
        ]  # fmt: skip
        if problems := [*_of_run(row, needed.height, alike)]:
            found[row[_RUN]] = problems
    return found


def _scored_by_labels(by_label: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Return, for rankings that can show it, whether the judged documents are scored by labels.

    Documents with the same label then have the same score, and a higher label has a higher score.
    """
    low, high = pl.col("low"), pl.col("high")
    is_higher = (low > high.shift(1)).over(keys).fill_null(value=True)
    judged = by_label.filter(pl.col(_LABEL).is_not_null() & (pl.col("retrieved") > 0))
    table = judged.sort(*keys, _LABEL).with_columns(copied=(low == high) & is_higher)
    can_show = (pl.len() > 1) & (pl.col("retrieved").max() > 1)
    return table.group_by(keys).agg(copied=pl.when(can_show).then(pl.col("copied").all()))


def _of_run(row: Mapping[str, Any], needed: int, alike: Sequence[Any]) -> Iterator[Problem]:
    """Yield the problems of a run."""

    def is_most(some: str, every: str) -> bool:
        return bool(row[some] > _MOST * row[every] and row[some] >= FEWEST)

    def share(some: str, every: str = "rankings") -> str:
        return f"{row[some]:,} of {number_of(row[every], 'ranking')}"

    if is_most("empty", "rankings"):
        yield Problem("nothing retrieved", f"no document is retrieved in {share('empty')}")
        return
    if is_most("constant", "several"):
        text = f"all documents have the same score in {share('constant', 'several')}"
        yield Problem("constant scores", text)
    if is_most("copied", "telling"):
        text = f"the score follows from the label in {share('copied', 'telling')}"
        yield Problem("scores equal to labels", text)
    if row["own"] >= max(_SOME * row["rankings"], FEWEST):
        text = "the first document has the id of the query, and is not relevant, in "
        yield Problem("query is its own document", text + share("own"))
    if alike and row["found"] >= FEWEST:
        names = ", ".join(map(short, alike))
        yield Problem("identical runs", f"documents, scores and labels are those of {names}")
    if is_most("ends", "found"):
        length = number_of(row["longest"], "document")
        text = f"{share('ends', 'found')} end above the cutoff, after {length}"
        yield Problem("cut off", text)
    missing = needed - (row["answered"] or 0)
    if missing >= max(_SOME * needed, 2):
        some = f"{missing:,} of {number_of(needed, 'query', 'queries')}"
        yield Problem("queries missing", f"no document is retrieved for {some}")


_RANKING, _LENGTH = OWN + "ranking", OWN + "length"
_SUMS = ("rows", "retrieved", "not_retrieved", "unjudged", "tied", "repeated")


def log_counts(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return the numbers of rows, rankings, missing values and ties of a valid log, by group.

    Lengths are in rows. The unjudged rows have a score and no label, and barren rankings have no
    relevant document. `tied_rankings`, `tied_documents` and `unjudged_share` are shares.
    """
    rankings = _by_ranking(log, columns, rel, groups)
    names = [name for name in _SUMS if name != "repeated" or columns.doc is not None]
    counts = {
        "rankings": pl.len(),
        "tied_rankings": (pl.col("tied") > 0).sum(),
        "barren_rankings": (pl.col("hits") == 0).sum(),
        "unretrieved_rankings": (pl.col("retrieved") == 0).sum(),
        **{name: pl.col(name).sum() for name in names},
    }
    # By length, the median does not need the lengths of all rankings.
    by_length = rankings.group_by(*groups, pl.col("rows").cast(pl.Int64).alias(_LENGTH)).agg(
        count.cast(pl.Int64).alias(name) for name, count in counts.items()
    )
    length, number, retrieved = (pl.col(name) for name in (_LENGTH, "rankings", "retrieved"))
    so_far, every = number.cum_sum(), number.sum()
    middle = [length.filter(so_far >= at).min() for at in ((every + 1) // 2, every // 2 + 1)]
    aggregates = [
        pl.exclude(*groups, _LENGTH).sum(),
        length.min().alias("shortest"),
        length.max().alias("longest"),
        ((middle[0] + middle[1]) / 2).alias("median_length"),
    ]
    return grouped(by_length.sort(*groups, _LENGTH), groups, aggregates).with_columns(
        tied_rankings=ratio(pl.col("tied_rankings"), number),
        tied_documents=ratio(pl.col("tied"), retrieved),
        unjudged_share=ratio(pl.col("unjudged"), retrieved),
    )


def label_counts(log: pl.LazyFrame, columns: Columns, groups: Sequence[str]) -> pl.LazyFrame:
    """Return the number of rows with each label, by group: `label` and `rows`."""
    label = pl.col(columns.label).alias(OWN + "label")
    counted = log.select(*groups, label).group_by([*groups, OWN + "label"]).agg(pl.len())
    return counted.sort([*groups, OWN + "label"], nulls_last=True).select(
        *groups, label=pl.col(OWN + "label"), rows=pl.col("len").cast(pl.Int64)
    )


def _by_ranking(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return the counts of each ranking."""
    score, label = columns.number(columns.score), columns.number(columns.label)
    number, keys = number_column(columns.keys), columns.keys
    if number in columns.schema:  # the rows of each ranking are adjacent and numbered
        log = log.with_columns(pl.col(number).struct.field("number").alias(_RANKING))
        log, keys = log.set_sorted(_RANKING), [_RANKING]
    retrieved, labelled = score.is_not_null(), label.is_not_null()
    # A row with only a query represents a ranking without documents.
    known = [] if columns.doc is None else [pl.col(columns.doc)]
    row = pl.any_horizontal(
        retrieved, labelled, *(doc.is_not_null() for doc in known), *(() if known else (True,))
    )
    counts = {
        "rows": row,
        "retrieved": retrieved,
        "not_retrieved": row & ~retrieved,
        "unjudged": retrieved & ~labelled,
        "tied": retrieved & score.is_duplicated(),
        "hits": is_relevant(label, rel),
    }
    return log.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).first() for name in groups if name not in keys),
        *(count.sum().alias(name) for name, count in counts.items()),
        *((doc.count() - doc.drop_nulls().n_unique()).alias("repeated") for doc in known),
    )
