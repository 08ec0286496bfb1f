"""The golden file and the results of a gate, checked and joined to the long table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any, NamedTuple

import polars as pl
from polars import col

from polars_rank.columns import Columns
from polars_rank.diagnostics.broken_runs import FEWEST
from polars_rank.errors import ArgumentError, DataError, SchemaError, SourceError, hint, number_of
from polars_rank.frames.tables import lazy
from polars_rank.io.fields import FieldNames, Kind, listed, place
from polars_rank.io.formats import Reading, read_judgment_files, read_run_files
from polars_rank.io.judgments import with_ids
from polars_rank.io.outputs import check_path
from polars_rank.io.records import is_error
from polars_rank.io.spans import join_spans
from polars_rank.io.table_files import read_table

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
_MULTI_HOP = r"^(?i)multi[-_ ]?hop$"


class Golden(NamedTuple):
    """The judged documents, the queries with their categories, and what looks wrong."""

    judgments: pl.DataFrame
    #: The judged spans of text, if the judgments have a start and an end; else None.
    spans: pl.DataFrame | None
    #: `query` (sorted), `category`, `relevant` (sorted ids), `judged` (a fingerprint), and `text`.
    queries: pl.DataFrame
    warnings: list[str]
    source: Reading

    @property
    def answerable(self) -> pl.DataFrame:
        """The queries with a relevant document."""
        return self.queries.filter(col("relevant").list.len() > 0)

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
    if count := frame["query"].null_count():
        raise DataError(f"column 'query' (`{parameter}`) is null in {number_of(count, 'row')}")
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
        if name in table.columns and table.schema[name].is_nested():
            raise ArgumentError(
                f"column {name!r} (`{role}`) must have text; found {table.schema[name]}"
            )
    misspelled = [*_misspelled(table, texts["category"] or _CATEGORIES[0])]
    table = table.with_columns(
        (col("label") if "label" in table.columns else pl.lit(1)).cast(pl.Float64).alias("label"),
        **{
            role: (col(name) if name in table.columns else pl.lit(None)).cast(pl.String)
            for role, name in texts.items()
        },
    )
    infinite = table.filter(~col("label").is_finite())
    for row in infinite.head(1).iter_rows(named=True):
        problem = number_of(infinite.height, "grade is not finite", "grades are not finite")
        raise DataError(
            f"{problem} (`judgments`), such as {row['label']} of document {row['doc']!r} for query "
            f"{row['query']!r}"
        )
    spans = None
    if {"start", "end"} <= {*table.columns}:
        names = ["query", "doc", "start", "end", "label"]
        spans = table.filter(col("label").is_not_null() | col("doc").is_null()).select(names)
        table = table.with_columns(doc=_SPAN)
    found = table.filter(col("doc").is_not_null() & col("label").is_not_null())
    judgments = found.select("query", "doc", "label").unique(maintain_order=True)
    twice = judgments.filter(_PAIR.is_duplicated())
    if twice.height:
        query, doc, _ = twice.row(0)
        raise DataError(
            f"document {doc!r} of query {query!r} (`judgments`) has several labels: "
            f"{listed(twice.filter(query=query, doc=doc)['label'], SHOWN)}; keep one of them"
        )
    relevant = col("doc").filter(col("label") > 0).sort()
    judged = pl.format("{}\t{}", "doc", "label").sort().str.join("\n")
    of_query = judgments.group_by("query").agg(relevant=relevant, judged=judged)
    queries = (
        table.group_by("query")
        .agg(col("category", "text").drop_nulls().first())
        .join(of_query, on="query", how="left")
        .with_columns(col("relevant").fill_null([]), col("judged").fill_null(""))
        .sort("query")
    )
    is_answerable = queries["relevant"].list.len() > 0
    _check_categories(queries.filter(is_answerable))
    queries = queries.with_columns(
        category=pl.when(is_answerable).then("category").otherwise(pl.lit(UNANSWERABLE)),
        judged=pl.Series([_hash(each, 8) for each in queries["judged"]]),
    )
    warnings = [*source.warnings, *_doubts(found, judgments, queries), *misspelled]
    return Golden(judgments, spans, queries, warnings, source)


def _check_categories(answerable: pl.DataFrame) -> None:
    """Raise `DataError` for categories with names that mean other queries."""
    for name, meaning in {
        ALL: "the name of all queries", UNANSWERABLE: "that of queries without a relevant document"
    }.items():  # fmt: skip
        queries = answerable.filter(category=name)["query"]
        if len(queries):
            raise DataError(
                f"the category {name!r} (`judgments`) of "
                f"{number_of(len(queries), 'query', 'queries')} with a relevant document is "
                f"{meaning}: {listed(queries, SHOWN)}; rename it"
            )


def _misspelled(table: pl.DataFrame, category: str) -> Iterable[str]:
    """Yield fields with a name like that of the category, which only queries without one have."""
    names = [
        name
        for name in {*table.columns} - {category, "query", "doc", "label", "text"}
        if (name in _CATEGORIES or hint(name, [category])) and not table.schema[name].is_nested()
    ]
    values = table.select("query", *names, *({category} & {*table.columns}))
    of_query = values.group_by("query", maintain_order=True).agg(pl.all().drop_nulls().first())
    for name in sorted(names):
        queries = of_query.filter(col(name).is_not_null())
        has_category = category in queries.columns and queries[category].count()
        if queries.height and not has_category:
            yield (
                f"the golden file has the field {name!r} instead of {category!r} in "
                f"{number_of(queries.height, 'query', 'queries')}, which count in no category: "
                f"{listed(queries['query'], SHOWN)}; rename the field"
            )


def _doubts(found: pl.DataFrame, judgments: pl.DataFrame, queries: pl.DataFrame) -> Iterable[str]:
    """Yield what looks wrong in a golden file."""
    if count := found.height - judgments.height:
        pairs = found.filter(_PAIR.is_duplicated())
        yield (
            f"{number_of(count, 'document')} of the golden file are repeated and count once; "
            f"queries: {listed(pairs['query'].unique(maintain_order=True), SHOWN)}"
        )
    for name in {"query", "text"} & {*queries.columns}:
        plain = col(name).str.strip_chars().str.replace_all(r"\s+", " ").str.to_lowercase()
        alike = queries.filter(plain.is_duplicated() & plain.is_not_null()).sort(plain)
        if alike.height:
            yield f"queries are repeated but for case and blanks: {listed(alike[name], SHOWN)}"
    hops = col("category").str.contains(_MULTI_HOP) & (col("relevant").list.len() < 2)
    single = queries.filter(hops)
    if single.height:
        yield (
            f"{number_of(single.height, 'query', 'queries')} of the category "
            f"{single['category'][0]!r} have one relevant document: "
            f"{listed(single['query'], SHOWN)}"
        )


def low_grades(golden: Golden, rel: float) -> Iterable[str]:
    """Yield which queries have grades above 0, but none that counts as relevant."""
    best = golden.judgments.group_by("query").agg(col("label").max()).sort("query")
    low = best.filter(col("label") > 0, col("label") < rel)["query"]
    if len(low):
        yield (
            f"{number_of(len(low), 'query', 'queries')} without a grade of at least {rel:g} "
            f"(`rel`), so that no document counts as relevant: {listed(low, SHOWN)}"
        )


class Results(NamedTuple):
    """One result file: its documents with their places, and the queries with an error."""

    #: `query`, `doc`, `score`, by query and place.
    run: pl.DataFrame
    #: The long table: `run` with labels, and the judged documents that were not retrieved.
    log: pl.DataFrame
    #: The latency of each query, if it is known.
    latency: pl.Series | None
    #: The queries without a result, and their errors.
    failed: dict[str, str | None]
    warnings: list[str]
    source: Reading

    def tops(self) -> pl.DataFrame:
        """Return the first documents of each query."""
        return self.run.group_by("query", maintain_order=True).agg(docs=col("doc").head(10))


def read_results(given: Any, golden: Golden, fields: FieldNames) -> list[Results]:
    """Read and check result files; several of them are repetitions."""
    every = given if isinstance(given, (list, tuple)) else [given]
    if not every:
        raise ArgumentError("`results` is empty; pass at least one table or file of results")
    found = [_read_results(each, golden, fields) for each in every]
    names = {name for each in found for name in each.source.names}
    units = {name for name in names if place(name, "latency", "run") is not None}
    if len(units) > 1:
        raise ArgumentError(
            f"the results have latencies in several columns: {listed(sorted(units))}; use one unit"
        )
    return found


def _read_results(given: Any, golden: Golden, fields: FieldNames) -> Results:
    table, source = _table(given, "results", "run", fields)
    table = with_ids(table.lazy(), golden.queries.lazy(), ["query"]).collect()
    Columns.find(table.schema, {"score": "score"})
    names = [*table["run"].unique().sort()] if "run" in table.columns else []
    if len(names) > 1:
        raise ArgumentError(
            f"`results` has several runs: {listed(names)}; pass one of them, and repetitions as a "
            "list"
        )
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
    warnings = [*source.warnings]
    if len(others):
        warnings.append(
            f"{number_of(len(others), 'query', 'queries')} of the results are not in the golden "
            f"file and are left out: {listed(others, 3)}"
        )
    retrieved = known.join(queries, on="query", how="semi").drop_nulls("doc")
    if count := retrieved["score"].null_count():
        warnings.append(
            f"{number_of(count, 'document has', 'documents have')} no score in the results; "
            "documents without a score count as not retrieved; queries: "
            f"{listed(retrieved.filter(col('score').is_null())['query'], 3)}"
        )
    retrieved = retrieved.drop_nulls("score")
    ordered = retrieved.sort("query", "score", descending=[False, True], maintain_order=True)
    log = None if golden.spans is None else _joined_spans(ordered, golden.spans)
    if log is not None:
        ordered = log.drop_nulls("score")
    run = ordered.select("query", "doc", "score")
    run = run.unique(["query", "doc"], keep="first", maintain_order=True)
    if count := ordered.height - run.height:
        repeated = ordered.filter(_PAIR.is_duplicated())["query"].unique(maintain_order=True)
        warnings.append(
            f"{number_of(count, 'repeated id')} in the results count once, at the first place, in "
            f"{number_of(len(repeated), 'query', 'queries')}: {listed(repeated, 3)}"
        )
    if log is None:  # in the order of the file, which breaks ties
        labels = golden.judgments
        log = run.join(labels, on=["query", "doc"], how="left", maintain_order="left")
        missed = labels.join(run, on=["query", "doc"], how="anti")
        log = pl.concat([log, missed], how="diagonal")
    log = log.unique(["query", "doc"], keep="first", maintain_order=True)
    latency = None
    if "latency" in table.columns:
        of_query = table.join(queries, on="query", how="semi").group_by("query")
        latency = of_query.agg(col("latency").drop_nulls().first())["latency"]
        if not latency.dtype.is_numeric() and latency.dtype != pl.Null:
            raise ArgumentError(
                f"column 'latency' (`results`) must have numbers; found {latency.dtype}"
            )
    warnings += _suspicions(golden, run, log)
    return Results(run, log, latency, dict(failed.rows()), warnings, source)


def _joined_spans(chunks: pl.DataFrame, spans: pl.DataFrame) -> pl.DataFrame:
    """Return the long table of retrieved chunks and judged spans of text, with ids as text."""
    try:
        Columns.find(chunks.schema, {"start": "start", "end": "end"}, table="`results`")
    except SchemaError as error:
        raise SchemaError(
            f"{error}; the golden file has spans of text (start, end), which chunks must have, too"
        ) from error
    names = ["query", "doc", "start", "end", "score"]
    table = join_spans(chunks.select(names), spans, run=None)
    return table.unnest("doc").with_columns(doc=_SPAN).drop("start", "end")


def _suspicions(golden: Golden, run: pl.DataFrame, log: pl.DataFrame) -> Iterable[str]:
    """Yield what looks wrong in results beside a golden file."""
    relevant = log.filter(col("label") > 0)
    both = relevant.drop_nulls("score")
    if run.height and relevant.height and both.is_empty():
        yield (
            "no relevant document was retrieved; ids of the golden file are "
            f"{listed(relevant['doc'], 2)}, those of the results {listed(run['doc'], 2)}"
        )
    several = run.group_by("query").agg(pl.len(), scores=col("score").n_unique())
    several = several.filter(col("len") > 1)
    # Of more rankings, `broken_runs` says it.
    if 0 < several.height < FEWEST and several["scores"].n_unique() == several["scores"][0] == 1:
        yield (
            f"all documents have the same score in {several.height} of "
            f"{number_of(several.height, 'ranking')}"
        )
    if both.height == run.height == relevant.height and golden.answerable.height > 1:
        yield "the golden file equals the results: was it written by the same retriever?"


def unknown_ids(golden: Golden, corpus: pl.DataFrame, runs: Sequence[Results]) -> Iterable[str]:
    """Yield what a corpus says about the ids of a golden file."""
    known = pl.concat([corpus.select("doc"), *(each.run.select("doc") for each in runs)])
    unknown = golden.judgments.join(known, on="doc", how="anti")["doc"].unique().sort()
    if len(unknown):
        yield (
            f"{number_of(len(unknown), 'document')} of the golden file are in neither the corpus "
            f"nor the results: {listed(unknown, SHOWN)}"
        )


def read_corpus(given: Any) -> pl.DataFrame:
    """Return the documents of a corpus, with the column `doc`; paths are read by their endings."""
    if isinstance(given, (str, PathLike)):
        table = _read_file(fspath(given))
    else:
        table = lazy(given, "corpus").collect()
    found = [name for name in _IDS if name in table.columns]
    if not found:
        raise ArgumentError(
            f"`corpus` has no column of ids, such as 'doc' or 'id'; available: {table.columns}"
        )
    return table.rename({found[0]: "doc"}).cast({"doc": pl.String}).sort("doc")


def _read_file(name: str) -> pl.DataFrame:
    check_path(name, "corpus")
    ending = PurePath(name).suffix.lower()
    try:
        if ending in (".parquet", ".pq"):
            return pl.read_parquet(name)
        if ending in (".csv", ".tsv"):
            separator = "\t" if ending == ".tsv" else ","
            return pl.scan_csv(name, separator=separator, infer_schema=False).collect()
        return pl.read_json(name) if ending == ".json" else pl.scan_ndjson(name).collect()
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SourceError(
            f"cannot read the corpus '{name}', whose ending must say its format (.jsonl, .json, "
            f".csv, .tsv, .parquet): {error}"
        ) from error
