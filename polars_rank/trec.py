"""TREC text files as output: runs and judgments ("qrels"), with one document per line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from polars_rank._params import OWN, public
from polars_rank.checks import FAILED, Check, failed, raise_failed, refuse
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.log import per_ranking
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.outputs import new_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

__all__ = ["write_qrels", "write_run"]

_LINES, _ORDER = OWN + "lines", OWN + "order"

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
        raise ArgumentError(f"`tag` must be text without whitespace; found {tag!r}")
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
    checks, remedies = _checks([_QUERY, _DOC, _TAG], _SCORE)
    repeated = "duplicate documents in a ranking"
    checks.append(Check("ranking", col(_DOC).n_unique() < pl.len(), repeated))
    remedies[repeated] = "keep one row of each"
    columns = columns._replace(label=score, schema=schema_of(retrieved))
    inputs = {name: col(name) for name in (_QUERY, _DOC, _SCORE, _TAG)}
    by_rank = pl.struct(_DOC, _SCORE).sort_by(_SCORE, _DOC, descending=True).alias(_LINES)
    values = [col(_QUERY).first(), col(_TAG).first(), by_rank]
    documents, keys = per_ranking(retrieved, columns, inputs, values, checks)
    if keys.number is not None:  # rankings are in any order
        documents = documents.sort([keys.names[name] for name in columns.keys])
    ranks = pl.int_ranges(1, col(_LINES).list.len() + 1).alias("rank")
    ranked = documents.select(_QUERY, _TAG, _LINES, ranks).explode(_LINES, "rank").unnest(_LINES)
    lines = ranked.select(_QUERY, pl.lit("Q0"), _DOC, "rank", _SCORE, _TAG)

    times = retrieved.group_by(_TAG, _QUERY, _DOC).len("lines").filter(col("lines") > 1)
    failures = [
        retrieved.select(*inputs, failed(checks, "row")),
        times.with_columns(pl.lit(1).alias(FAILED)),  # 1 is the number of the last check
    ]
    _write(lines, checks, remedies, failures, rows, path, overwrite=overwrite)


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
    checks, remedies = _checks(keys, _LABEL)
    conflict = "several labels for one document of a query"
    lowest, highest = col(_LABEL), col("highest")
    checks.append(Check("ranking", lowest < highest, conflict))
    remedies[conflict] = "keep one of them"
    judged = (
        rows.filter(col(label).is_not_null())
        .select(
            col(query).alias(_ORDER),
            col(query).cast(pl.String).alias(_QUERY),
            subtopic.cast(pl.String).alias(_SUBTOPIC),
            col(doc).cast(pl.String).alias(_DOC),
            columns.number(label).alias(_LABEL),
        )
        .with_columns(failed(checks, "row"))
    )
    once = judged.group_by(_ORDER, *keys).agg(
        lowest.min(), lowest.max().alias("highest"), col(FAILED).max()
    )
    once = once.with_columns(pl.max_horizontal(FAILED, failed(checks, "ranking")))
    whole = lowest.cast(pl.Int64, strict=False)
    number = pl.when(whole == lowest).then(whole.cast(pl.String)).otherwise(lowest.cast(pl.String))
    lines = raise_failed(once, checks).sort(_ORDER, _SUBTOPIC, _DOC).select(*keys, number)
    failures = [judged.drop(_ORDER), once.drop(_ORDER)]
    _write(lines, checks, remedies, failures, rows, path, overwrite=overwrite)


def _checks(ids: Sequence[str], number: str) -> tuple[list[Check], dict[str, str]]:
    """Return checks for rows that a TREC file cannot represent, and their remedies."""
    separated = "TREC files separate fields by whitespace; replace these values"
    remedies = {
        f"{_named(name)} is null, empty, or contains whitespace or a null character": separated
        for name in ids
    }
    conditions = [col(name).is_null() | col(name).str.contains(r"^$|[\s\x00]") for name in ids]
    conditions += [col(_QUERY).str.starts_with("#"), ~col(number).is_finite()]
    remedies["query begins with '#', so its lines would be comments"] = "replace these values"
    not_finite = f"{_named(number)} is NaN or infinite"
    remedies[not_finite] = "drop these rows, or replace the value with null"
    checks = [
        Check("row", condition, problem)
        for condition, problem in zip(conditions, remedies, strict=True)
    ]
    return checks, remedies


def _named(column: str) -> str:
    return column.removeprefix(_FIELD)


def _write(
    lines: pl.LazyFrame,
    checks: Sequence[Check],
    remedies: Mapping[str, str],
    failures: Sequence[pl.LazyFrame],
    rows: pl.LazyFrame,
    path: str | Path,
    *,
    overwrite: bool,
) -> None:
    """Write lines to a temporary file, and rename it if all checks pass.

    If a check fails, the tables `failures` are read to count the failing rows and to show one.
    """
    with new_file(path, overwrite=overwrite, inputs=[rows]) as part:
        try:
            with part.open("wb") as file:
                lines.sink_csv(
                    file,
                    compression="gzip" if Path(path).suffix == ".gz" else "uncompressed",
                    check_extension=False,
                    include_header=False,
                    separator=" ",
                    quote_style="never",
                    engine="streaming",
                )
        except DataError:
            for table in failures:
                failing = table.filter(col(FAILED) > 0).collect(engine="streaming")
                failing = failing.rename(_named, strict=False)
                for index, check in enumerate(checks):
                    is_failed = col(FAILED) == len(checks) - index
                    refuse(failing, is_failed, check.message, remedies[check.message])
            raise


def __dir__() -> list[str]:
    return __all__
