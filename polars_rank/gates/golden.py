"""The golden file and the results of a gate, checked and joined to the long table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from os import PathLike, fspath
from typing import Any, NamedTuple

import polars as pl
from polars import col

from polars_rank.checks import refuse
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, SourceError, hint, number_of
from polars_rank.frames.tables import lazy
from polars_rank.io.fields import FieldNames, Kind, listed, place
from polars_rank.io.formats import Reading, read_judgment_files, read_run_files, scan_table
from polars_rank.io.judgments import with_ids
from polars_rank.io.outputs import check_path
from polars_rank.io.records import is_error, read_table
from polars_rank.io.spans import join_spans

#: The category of all queries in tables, and that of the queries without a relevant document.
ALL, UNANSWERABLE = "all", "unanswerable"
#: Names of the column of documents in a corpus.
_IDS = ("doc", "id", "_id", "doc_id", "docid", "corpus_id", "document_id", "chunk_id")
#: Names of the column of the category.
_CATEGORIES = ("category", "class")
#: Names in a message.
SHOWN = 10
_PAIR = pl.struct("query", "doc")
#: A span of text as an id.
_SPAN = pl.format("{}:{}-{}", "doc", "start", "end")


class Golden(NamedTuple):
    """The judged documents, the queries with their categories, and what looks wrong."""

    judgments: pl.DataFrame
    #: The judged spans of text, if the judgments have a start and an end; else None.
    spans: pl.DataFrame | None
    #: `query` (sorted), `category`, `relevant` and `forbidden_docs` (sorted ids), `judged` (a
    #: fingerprint), and `text`.
    queries: pl.DataFrame
    warnings: list[str]
    source: Reading

    @property
    def answerable(self) -> pl.DataFrame:
        """The queries with a relevant document."""
        return self.queries.filter(col("relevant").list.len() > 0)

    @property
    def has_forbidden(self) -> bool:
        """Whether a query has a forbidden document."""
        return self.judgments["forbidden"].any()

    @property
    def fingerprint(self) -> str:
        """A fingerprint of the queries and their labels, whatever their order and format."""
        return digest(self.queries.select("query", "judged"))


def digest(table: pl.DataFrame) -> str:
    """Return a fingerprint of the columns of text of a table."""
    rows = table.select(pl.concat_str(pl.col(pl.String).fill_null(""), separator="\t"))
    return _hash("\n".join(rows.to_series()), 16)


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def _table(
    given: Any, parameter: str, kind: Kind, fields: FieldNames
) -> tuple[pl.DataFrame, Reading]:
    """Return a table, or the table of a file, with ids as text; and what was read."""
    if isinstance(given, (str, PathLike)):
        check_path(fspath(given), parameter)
        is_golden = kind == "judgments"
        files: Any = given if is_golden else [("", given)]
        found = (read_judgment_files if is_golden else read_run_files)(files, fields)
    else:
        table = lazy(given, parameter)
        file = read_table(table, kind, f"`{parameter}`", fields, is_text=False)
        found = Reading(file.table, [file._replace(roles={})])
    frame = found.table.collect()
    Columns.find(frame.schema, {"query": "query", "doc": "doc"})
    frame = frame.cast({"query": pl.String, "doc": pl.String})
    is_null = f"column 'query' (`{parameter}`) is null"
    refuse(frame, col("query").is_null(), is_null, "drop these rows, or set an id")
    return frame, found


def read_golden(given: Any, category: str | None, fields: FieldNames) -> Golden:
    """Read and check a golden file."""
    table, source = _table(given, "judgments", "judgments", fields)
    if table.is_empty():
        raise DataError("`judgments` has no queries")
    if category is not None:
        Columns.find(table.schema, {"category": category})
    texts = {
        "text": "text",
        "category": category or next(filter({*table.columns}.__contains__, _CATEGORIES), ""),
    }
    for role, name in texts.items():
        dtype = table.schema.get(name, pl.String())
        if dtype.is_nested():
            raise ArgumentError(f"column {name!r} (`{role}`) must have text; found {dtype}")
    misspelled = [*_misspelled(table, texts["category"] or _CATEGORIES[0])]
    Columns.find(table.schema, {"forbidden": "forbidden"}, optional=("forbidden",))
    forbidden = col("forbidden") if "forbidden" in table.columns else pl.lit(value=False)
    table = table.with_columns(
        forbidden.cast(pl.Boolean).fill_null(value=False).alias("forbidden"),
        (col("label") if "label" in table.columns else pl.lit(1)).cast(pl.Float64).alias("label"),
        **{
            role: (col(name) if name in table.columns else pl.lit(None)).cast(pl.String)
            for role, name in texts.items()
        },
    )
    known = table.select("query", "doc", "label")
    refuse(known, ~col("label").is_finite(), "grades are not finite (`judgments`)", "use numbers")
    marked = table.filter("forbidden")
    both = "documents are relevant and forbidden (`judgments`)"
    refuse(marked.select("query", "doc", "label"), col("label") > 0, both, "keep one of the two")
    table = table.with_columns(label=pl.when("forbidden").then(0.0).otherwise("label"))
    spans = None
    if {"start", "end"} <= {*table.columns}:
        names = ["query", "doc", "start", "end", "label"]
        if marked.height:
            raise ArgumentError("has forbidden documents, and passages; leave out one", "judgments")
        spans = table.filter(col("label").is_not_null() | col("doc").is_null()).select(names)
        table = table.with_columns(doc=_SPAN)
    found = table.filter(col("doc").is_not_null() & col("label").is_not_null())
    judgments = found.select("query", "doc", "label", "forbidden").unique(maintain_order=True)
    several = "documents of a query have several labels (`judgments`)"
    refuse(judgments, _PAIR.is_duplicated(), several, "keep one of them")
    relevant = col("doc").filter(col("label") > 0).sort()
    mark = pl.when("forbidden").then(pl.lit("\tforbidden")).otherwise(pl.lit(""))
    judged = pl.format("{}\t{}{}", "doc", "label", mark).sort().str.join("\n")
    forbidden = col("doc").filter("forbidden").sort()
    of_query = judgments.group_by("query").agg(
        relevant=relevant, forbidden_docs=forbidden, judged=judged
    )
    queries = (
        table.group_by("query")
        .agg(col("category", "text").drop_nulls().first())
        .join(of_query, on="query", how="left")
        .with_columns(col("relevant", "forbidden_docs").fill_null([]), col("judged").fill_null(""))
        .sort("query")
    )
    is_answerable = queries["relevant"].list.len() > 0
    named = queries.filter(is_answerable).select("query", "category")
    reserved = f"{ALL!r} and {UNANSWERABLE!r} are names of other queries (`judgments`)"
    refuse(named, col("category").is_in([ALL, UNANSWERABLE]), reserved, "rename the category")
    queries = queries.with_columns(
        category=pl.when(is_answerable).then("category").otherwise(pl.lit(UNANSWERABLE)),
        judged=pl.Series([_hash(each, 8) for each in queries["judged"]]),
    )
    warnings = [*source.warnings, *_doubts(found, queries), *misspelled]
    return Golden(judgments, spans, queries, warnings, source)


def _sentence(ids: pl.Series, text: str, noun: str = "query", plural: str = "queries") -> list[str]:
    """Return a sentence about ids, the first of which it names; nothing if there are none."""
    return [f"{number_of(len(ids), noun, plural)} {text}: {listed(ids, SHOWN)}"] * bool(len(ids))


def _misspelled(table: pl.DataFrame, category: str) -> Iterator[str]:
    """Yield fields with a name like that of the category, which only rows without one have."""
    for name in sorted({*table.columns} - {category, "query", "doc", "label", "text"}):
        rows = table.filter(col(name).is_not_null())
        is_lost = category not in rows.columns or not rows[category].count()
        if is_lost and (name in _CATEGORIES or hint(name, [category])):
            text = f"with the field {name!r} instead of {category!r}, in no category"
            yield from _sentence(rows["query"].unique(maintain_order=True), text)


def _doubts(found: pl.DataFrame, queries: pl.DataFrame) -> Iterator[str]:
    """Yield what looks wrong in a golden file."""
    repeated = found.filter(_PAIR.is_duplicated())["query"].unique(maintain_order=True)
    yield from _sentence(repeated, "of the golden file with repeated documents, which count once")
    for name in ("query", "text"):
        plain = col(name).str.strip_chars().str.replace_all(r"\s+", " ").str.to_lowercase()
        alike = queries.filter(plain.is_duplicated() & plain.is_not_null()).sort(plain)
        yield from _sentence(alike[name], "that are repeated but for case and blanks")


def low_grades(golden: Golden, rel: float) -> list[str]:
    """Return which queries have grades above 0, but none that counts as relevant."""
    best = golden.judgments.group_by("query").agg(col("label").max()).sort("query")
    low = best.filter(col("label") > 0, col("label") < rel)["query"]
    text = f"without a grade of at least {rel:g} (`rel`), so that no document counts as relevant"
    return _sentence(low, text)


class Results(NamedTuple):
    """One result file: its documents with their places, and the queries with an error."""

    #: `query`, `doc`, `score`, by query and place.
    run: pl.DataFrame
    #: The long table: `run` with labels, and the judged documents that were not retrieved.
    log: pl.DataFrame
    #: The latency of each query, if it is known.
    latency: pl.Series
    #: The queries without a result, and their errors.
    failed: dict[str, str | None]
    warnings: list[str]
    source: Reading


def read_results(given: Any, golden: Golden, fields: FieldNames) -> list[Results]:
    """Read and check result files; several of them are repetitions."""
    every = given if isinstance(given, (list, tuple)) else [given]
    if not every:
        raise ArgumentError("is empty; pass at least one table or file of results", "results")
    found = [_read_results(each, golden, fields) for each in every]
    names = {name for each in found for name in each.source.names}
    units = sorted(name for name in names if place(name, "latency", "run") is not None)
    if len(units) > 1:
        raise ArgumentError(f"has several latencies: {listed(units)}; use one unit", "results")
    return found


def _read_results(given: Any, golden: Golden, fields: FieldNames) -> Results:
    table, source = _table(given, "results", "run", fields)
    table = with_ids(table.lazy(), golden.queries.lazy(), ["query"]).collect()
    Columns.find(table.schema, {"score": "score"})
    names = [*table["run"].unique().sort()] if "run" in table.columns else []
    if len(names) > 1:
        raise ArgumentError(f"has several runs: {listed(names)}; repetitions are a list", "results")
    queries = golden.queries.select("query")
    found = table["error"].to_list() if "error" in table.columns else [None] * table.height
    error = pl.Series("error", [str(x) if is_error(x) else None for x in found], pl.String)
    errors = table.select("query", error).drop_nulls("error")
    known = table.join(errors, on="query", how="anti")
    missing = queries.join(known, on="query", how="anti")
    others = table.join(queries, on="query", how="anti")["query"].unique(maintain_order=True)
    if len(missing) == len(queries) and errors.is_empty():
        raise DataError(
            "no query of the golden file is in the results; its queries are "
            f"{listed(missing['query'], 2)}, those of the results {listed(others, 2)}: use the "
            "same ids"
        )
    failed = missing.join(errors.unique("query", keep="first"), on="query", how="left")
    text = "of the results that are not in the golden file, left out"
    warnings = [*source.warnings, *_sentence(others, text)]
    retrieved = known.join(queries, on="query", how="semi").drop_nulls("doc")
    unscored = retrieved.filter(col("score").is_null())["query"].unique(maintain_order=True)
    text = "of the results with documents without a score, which count as not retrieved"
    warnings += _sentence(unscored, text)
    retrieved = retrieved.drop_nulls("score")
    ordered = retrieved.sort("query", "score", descending=[False, True], maintain_order=True)
    log = None
    if golden.spans is not None:
        Columns.find(ordered.schema, {"start": "start", "end": "end"}, table="`results`")
        chunks = ordered.select("query", "doc", "start", "end", "score")
        table_of_spans = join_spans(chunks, golden.spans, run=None).unnest("doc")
        log = table_of_spans.with_columns(doc=_SPAN).drop("start", "end")
        ordered = log.drop_nulls("score")
    run = ordered.select("query", "doc", "score")
    run = run.unique(["query", "doc"], keep="first", maintain_order=True)
    repeated = ordered.filter(_PAIR.is_duplicated())["query"].unique(maintain_order=True)
    warnings += _sentence(repeated, "of the results with repeated ids, which count once")
    if log is None:  # in the order of the file, which breaks ties
        labels, on = golden.judgments, ["query", "doc"]
        log = run.join(labels, on, "full", coalesce=True, maintain_order="left_right")
    log = log.unique(["query", "doc"], keep="first", maintain_order=True)
    latency = pl.Series(dtype=pl.Float64)
    if "latency" in table.columns:
        of_query = table.join(queries, on="query", how="semi").group_by("query")
        latency = of_query.agg(col("latency").drop_nulls().first())["latency"]
        if not latency.dtype.is_numeric() and latency.dtype != pl.Null:
            raise ArgumentError(f"'latency' (`results`) must have numbers; found {latency.dtype}")
    warnings += _suspicions(golden, run, log)
    return Results(run, log, latency, dict(failed.rows()), warnings, source)


def _suspicions(golden: Golden, run: pl.DataFrame, log: pl.DataFrame) -> Iterator[str]:
    """Yield what looks wrong in results beside a golden file."""
    relevant = log.filter(col("label") > 0)
    both = relevant.drop_nulls("score")
    if run.height and relevant.height and both.is_empty():
        yield (
            "no relevant document was retrieved; ids of the golden file are "
            f"{listed(relevant['doc'], 2)}, those of the results {listed(run['doc'], 2)}"
        )
    if both.height == run.height == relevant.height and golden.answerable.height > 1:
        yield "the golden file equals the results: was it written by the same retriever?"


def unknown_ids(golden: Golden, corpus: pl.DataFrame, runs: Sequence[Results]) -> list[str]:
    """Return what a corpus says about the ids of a golden file."""
    known = pl.concat([corpus.select("doc"), *(each.run.select("doc") for each in runs)])
    unknown = golden.judgments.join(known, on="doc", how="anti")["doc"].unique().sort()
    text = "of the golden file in neither the corpus nor the results"
    return _sentence(unknown, text, "document", "documents")


def read_corpus(given: Any) -> pl.DataFrame:
    """Return the documents of a corpus, with the column `doc`."""
    if isinstance(given, (str, PathLike)):
        name = fspath(given)
        check_path(name, "corpus")
        try:
            if name.lower().endswith(".json"):
                table = pl.read_json(name)
            else:  # all columns of text files are text, whatever the version of Polars
                table = scan_table([name], None, lambda _: True).collect()
        except (OSError, SourceError, pl.exceptions.PolarsError) as error:
            raise SourceError(f"cannot read the corpus '{name}': {error}") from error
    else:
        table = lazy(given, "corpus").collect()
    found = [name for name in _IDS if name in table.columns]
    if not found:
        raise ArgumentError(f"has no column 'doc' or 'id'; available: {table.columns}", "corpus")
    return table.rename({found[0]: "doc"}).cast({"doc": pl.String}).sort("doc")
