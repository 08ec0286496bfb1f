"""TREC text files as output: runs and judgments ("qrels"), with one document per line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from polars_rank._params import OWN, public
from polars_rank.checks import Check, checks_of, failed, raise_failed
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.log import per_ranking
from polars_rank.evaluation.log_checks import duplicate_check
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.judgments import judged_once
from polars_rank.io.outputs import new_file

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["write_qrels", "write_run"]

_LINES = OWN + "lines"

#: Columns of the fields of a line that is written.
_FIELD = OWN + "field "
_QUERY, _SUBTOPIC, _DOC, _SCORE, _TAG, _LABEL = (
    _FIELD + name for name in ("query", "subtopic", "doc", "score", "run", "label")
)


@public
def write_run(
    rankings: Any,
    path: str | Path,
    *,
    tag: str | None = None,
    query: str = "query",
    doc: str = "doc",
    score: str = "score",
    overwrite: bool = False,
) -> None:
    """Write the retrieved documents of a long table to a TREC run file.

    Documents that were not retrieved, whose score is null, are left out. Lines are sorted by run,
    query, and rank. As in trec_eval, documents rank by score, and by doc as text if scores are
    tied, both descending.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({"query": [7, 7], "doc": [1, 2], "score": [0.25, 0.5]})
    >>> with TemporaryDirectory() as folder:
    ...     pr.trec.write_run(log, Path(folder, "a.run"), tag="a")
    ...     print(Path(folder, "a.run").read_text(), end="")
    7 Q0 2 1 0.5 a
    7 Q0 1 2 0.25 a

    Parameters
    ----------
    rankings
        The long table.
    path
        File to write. A file whose name ends in ``.gz`` is compressed.
    tag
        Name of the run, in the last field of each line. Default: the column ``run`` if there is
        one, otherwise ``polars_rank``.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better.
    overwrite
        Whether to replace an existing file.

    Raises
    ------
    DataError
        If an id is null, empty, or contains whitespace or a null character, if a score is not
        finite, or if a ranking has duplicate documents.
    SourceError
        If the file exists, is an input, or cannot be written, or if its directory does not exist.

    Notes
    -----
    The file appears under its name only when it is complete.
    """
    if tag == "" or any(each.isspace() or not each.isprintable() for each in tag or ""):
        raise ArgumentError(f"must be text without whitespace; found {tag!r}", "tag")
    rows = lazy(rankings, "rankings")
    schema = schema_of(rows)
    roles = {"run": RUN if tag is None else None, "query": query, "doc": doc, "score": score}
    columns = Columns.find(schema, roles, table="`rankings`")
    if columns.run and schema["run"] != pl.String:
        rows = rows.with_columns(col("run").cast(pl.String))  # lines are sorted by text
    retrieved = rows.filter(col(score).is_not_null()).with_columns(
        col(query).cast(pl.String).alias(_QUERY),
        col(doc).cast(pl.String).alias(_DOC),
        columns.number(score).alias(_SCORE),
        (col("run") if columns.run else pl.lit("polars_rank" if tag is None else tag)).alias(_TAG),
    )
    columns = columns._replace(label=score, schema=schema_of(retrieved))
    checks = _checks([_QUERY, _DOC, _TAG], _SCORE)
    repeated = col(_DOC).n_unique() < pl.len()
    checks.append(duplicate_check(columns, repeated, "keep one row of each"))
    inputs = {name: col(name) for name in (_QUERY, _DOC, _SCORE, _TAG)}
    by_rank = pl.struct(_DOC, _SCORE).sort_by(_SCORE, _DOC, descending=True).alias(_LINES)
    values = [col(_QUERY).first(), col(_TAG).first(), by_rank]
    documents, keys = per_ranking(retrieved, columns, inputs, values, checks)
    if keys.number is not None:  # rankings are in any order
        documents = documents.sort([keys.names[name] for name in columns.keys])
    ranks = pl.int_ranges(1, col(_LINES).list.len() + 1).alias("rank")
    ranked = documents.select(_QUERY, _TAG, _LINES, ranks).explode(_LINES, "rank").unnest(_LINES)
    lines = ranked.select(_QUERY, pl.lit("Q0"), _DOC, "rank", _SCORE, _TAG)
    _write(lines, rows, path, overwrite=overwrite)


@public
def write_qrels(
    judgments: Any,
    path: str | Path,
    *,
    query: str = "query",
    doc: str = "doc",
    label: str = "label",
    overwrite: bool = False,
) -> None:
    """Write the judged documents of a long table to a TREC judgment file ("qrels").

    Documents that were not judged, whose label is null, are left out. A document in several runs
    is written once. Lines are sorted by query and doc.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({"query": [7, 7], "doc": ["b", "a"], "label": [0, 2]})
    >>> with TemporaryDirectory() as folder:
    ...     pr.trec.write_qrels(log, Path(folder, "qrels"))
    ...     print(Path(folder, "qrels").read_text(), end="")
    7 0 a 2
    7 0 b 0

    Parameters
    ----------
    judgments
        The long table, or a table of judgments. The second field is the column ``subtopic`` if
        there is one, otherwise 0.
    path
        File to write. A file whose name ends in ``.gz`` is compressed.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    label
        Column of the relevance label.
    overwrite
        Whether to replace an existing file.

    Raises
    ------
    DataError
        If an id is null, empty, or contains whitespace or a null character, if a label is not
        finite, or if a document has several labels for one query.
    SourceError
        If the file exists, is an input, or cannot be written, or if its directory does not exist.

    Notes
    -----
    The file appears under its name only when it is complete. Fractional labels are written in
    full, but trec_eval reads only their integer part.
    """
    rows = lazy(judgments, "judgments")
    schema = schema_of(rows)
    roles = {"query": query, "doc": doc, "label": label}
    columns = Columns.find(schema, roles, table="`judgments`")
    subtopic = col("subtopic") if "subtopic" in schema else pl.lit("0")
    keys = [_QUERY, _SUBTOPIC, _DOC]
    checks = _checks(keys, _LABEL)
    judged = rows.filter(col(label).is_not_null()).with_columns(
        col(query).cast(pl.String).alias(_QUERY),
        subtopic.cast(pl.String).alias(_SUBTOPIC),
        col(doc).cast(pl.String).alias(_DOC),
        columns.number(label).alias(_LABEL),
    )
    valid = raise_failed(judged.with_columns(failed(checks, "row")), checks, log=judged)
    given = [query, *(["subtopic"] if "subtopic" in schema else []), doc]
    distinct = valid.select(*given, label, *keys, _LABEL).unique()
    once = distinct.map_batches(partial(judged_once, keys=given, label=label, table="`judgments`"))
    whole = col(_LABEL).cast(pl.Int64, strict=False)
    text, fraction = whole.cast(pl.String), col(_LABEL).cast(pl.String)
    number = pl.when(whole == col(_LABEL)).then(text).otherwise(fraction)
    lines = once.sort(query, _SUBTOPIC, _DOC).select(*keys, number)
    _write(lines, rows, path, overwrite=overwrite)


def _checks(ids: Sequence[str], number: str) -> list[Check]:
    """Return checks for rows that a TREC file cannot represent."""
    unfit = (
        "is null, empty, or contains whitespace or a null character; TREC files separate fields by "
        "whitespace, so replace these values"
    )
    is_comment = "query begins with '#', so its lines would be comments; replace these values"
    not_finite = "is NaN or infinite; drop these rows, or replace the value with null"
    problems = {
        f"{name.removeprefix(_FIELD)} {unfit}": col(name).is_null()
        | col(name).str.contains(r"^$|[\s\x00]")
        for name in ids
    }
    problems[is_comment] = col(_QUERY).str.starts_with("#")
    problems[f"{number.removeprefix(_FIELD)} {not_finite}"] = ~col(number).is_finite()
    return checks_of("row", problems)


def _write(lines: pl.LazyFrame, rows: pl.LazyFrame, path: str | Path, *, overwrite: bool) -> None:
    """Write lines to a temporary file, and rename it if all checks pass."""
    with new_file(path, overwrite=overwrite, inputs=[rows]) as part, part.open("wb") as file:
        try:
            lines.sink_csv(
                file,
                compression="gzip" if Path(path).suffix == ".gz" else "uncompressed",
                check_extension=False,
                include_header=False,
                separator=" ",
                quote_style="never",
                engine="streaming",
            )
        except DataError as error:
            raise error.explained() from None


def __dir__() -> list[str]:
    return __all__
