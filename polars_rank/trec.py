"""The text files of TREC: runs and judgments ("qrels"), one document per line."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import polars as pl
from polars import col

from polars_rank._params import OWN, find_columns, one_of
from polars_rank.errors import DataError, SchemaError
from polars_rank.evaluation.checks import refuse
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.files import new_file
from polars_rank.io.lines import LINE, NUMBER, PATH, Paths, scan_lines, text_files

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "scan_qrels",
    "scan_run",
    "write_qrels",
    "write_run",
]

Negative: TypeAlias = Literal["unjudged", "keep"]

_RUN = ("query", "iteration", "doc", "rank", "score", "run")
_QRELS = ("query", "subtopic", "doc", "label")
_FIELDS, _ORDER = (OWN + name for name in ("fields", "order"))


def scan_run(path: Paths) -> pl.LazyFrame:
    """Scan the retrieved documents of TREC run files, without reading them yet.

    A line is ``query iteration doc rank score run``, divided by spaces or tabs. Empty lines and
    lines that begin with ``#`` are skipped. Iteration and rank are ignored, as trec_eval does,
    and so are words behind the name of the run.

    Parameters
    ----------
    path
        A file, plain or compressed (gzip, bzip2, xz, zstd), a pattern such as ``"runs/*.txt"``,
        or several.

    Returns
    -------
    LazyFrame
        Columns ``query``, ``doc``, ``run`` (strings) and ``score`` (float).

    Raises
    ------
    SourceError
        If there is no such file; when the frame is collected, if one is not whole or not in UTF-8.
    DataError
        When the frame is collected: if a line has too few fields, or a score that is not a
        finite number. The error tells file, line and content.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars_rank as pr
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "bm25.run")
    ...     _ = file.write_text("301 Q0 FT911-3 1 14.5 bm25")
    ...     pr.trec.scan_run(file).collect().rows()
    [('301', 'FT911-3', 14.5, 'bm25')]
    """
    return _scan(path, _RUN, number="score", dtype=pl.Float64()).select(
        "query", "doc", "score", "run"
    )


def scan_qrels(
    path: Paths,
    *,
    subtopics: bool = False,
    fractional: bool = False,
    negative: Negative = "unjudged",
) -> pl.LazyFrame:
    r"""Scan the judged documents of TREC judgment files ("qrels"), without reading them yet.

    A line is ``query iteration doc label``, divided by spaces or tabs. Empty lines and lines that
    begin with ``#`` are skipped.

    Parameters
    ----------
    path
        A file, plain or compressed (gzip, bzip2, xz, zstd), a pattern such as ``"qrels/*.txt"``,
        or several.
    subtopics
        Keep the second field, in which judgments of diversity have the subtopic, as the column
        ``subtopic``. A document then has one row for each subtopic it was judged for.
    fractional
        Read labels as floats. By default they must be whole numbers.
    negative
        What a negative label is: "unjudged", which in judgments of TREC is what -1 says of a
        document of the pool, becomes a null label; "keep" keeps it as a label below all others.

    Returns
    -------
    LazyFrame
        Columns ``query``, ``doc`` (strings) and ``label``; with ``subtopics``, ``subtopic`` too.

    Raises
    ------
    SourceError
        If there is no such file; when the frame is collected, if one is not whole or not in UTF-8.
    DataError
        When the frame is collected: if a line has more or fewer fields, or a label that is not a
        number. The error tells file, line and content.
    ArgumentError
        For another word as `negative`.

    Notes
    -----
    With null for what is not judged, NDCG, bpref, judged and unjudged documents are those of
    trec_eval. Two measures tell "in the pool, but not judged" from "not in the pool" and need
    ``negative="keep"``: inferred AP, and ``Judged`` of ir_measures. Then also evaluate with
    ``conventions=pr.conventions.TREC_EVAL``, or negative labels are negative gains.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars_rank as pr
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "qrels")
    ...     _ = file.write_text("301 0 FT911-3 1\n301 0 FT911-4 -1")
    ...     pr.trec.scan_qrels(file).collect().rows()
    [('301', 'FT911-3', 1), ('301', 'FT911-4', None)]
    """
    one_of("negative", negative, get_args(Negative))
    lines = _scan(path, _QRELS, number="label", dtype=pl.Float64() if fractional else pl.Int64())
    if negative == "unjudged":
        lines = lines.with_columns(pl.when(col("label") >= 0).then("label"))
    return lines.select("query", *(["subtopic"] if subtopics else []), "doc", "label")


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
    """Write the retrieved documents of a long table as a TREC run file.

    Rows with a null score, that is documents that were not retrieved, are left out. Lines are
    ordered by run, query, and rank, which is by score and then by doc, both descending, doc as
    text: the order that trec_eval sees.

    Parameters
    ----------
    rankings
        The long table.
    path
        The file to write; with the ending ``.gz`` it is compressed.
    tag
        Of the run, in the last field of each line. By default the column ``run``, if there is
        one, or else ``polars_rank``.
    query, doc, score
        Columns of the table.
    overwrite
        Replace the file if there is one already.

    Raises
    ------
    SchemaError
        If a column is missing.
    DataError
        If an id is null, empty or has whitespace in it, a score is not finite, or a document is
        twice in a list.
    SourceError
        If the file is there already, or its directory is not.

    Notes
    -----
    The file appears under its name only when it is complete.

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
    """
    rows = lazy(rankings)
    schema = schema_of(rows)
    _check("rankings", schema, query, doc, score=score)
    run = (
        col("run")
        if tag is None and "run" in schema
        else pl.lit("polars_rank" if tag is None else tag)
    )
    retrieved = rows.filter(col(score).is_not_null()).select(
        col(query).alias(_ORDER),
        col(query).cast(pl.String).alias("query"),
        col(doc).cast(pl.String).alias("doc"),
        col(score).alias("score"),
        run.cast(pl.String).alias("run"),
    )
    twice = retrieved.group_by("run", "query", "doc").len("lines").filter(col("lines") > 1)
    faults = [
        *_faults(retrieved, ["query", "doc", "run"], "score"),
        _fault(twice, "a document is more than once in a list", "keep one of its rows"),
    ]
    by_rank = retrieved.sort(
        "run", _ORDER, "score", "doc", descending=[False, False, True, True]
    ).with_columns(rank=pl.int_range(1, pl.len() + 1).over("run", "query"))
    lines = by_rank.select("query", pl.lit("Q0"), "doc", "rank", "score", "run")
    _write(lines, faults, Path(path), overwrite=overwrite)


def write_qrels(
    judgments: Any,
    path: str | Path,
    *,
    query: str = "query",
    doc: str = "doc",
    label: str = "label",
    overwrite: bool = False,
) -> None:
    """Write the judged documents of a long table as a TREC judgment file ("qrels").

    Rows with a null label, that is documents that were not judged, are left out. A document that
    is in several runs is written once. Lines are ordered by query and doc.

    Parameters
    ----------
    judgments
        The long table, or a table of judgments. A column ``subtopic`` becomes the second field,
        otherwise it is 0.
    path
        The file to write; with the ending ``.gz`` it is compressed.
    query, doc, label
        Columns of the table.
    overwrite
        Replace the file if there is one already.

    Raises
    ------
    SchemaError
        If a column is missing, or labels are not numbers.
    DataError
        If an id is null, empty or has whitespace in it, a label is not finite, or a document has
        several labels for one query.
    SourceError
        If the file is there already, or its directory is not.

    Notes
    -----
    The file appears under its name only when it is complete. Fractional labels are written as
    they are; trec_eval reads only their whole part.

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
    """
    rows = lazy(judgments)
    schema = schema_of(rows)
    _check("judgments", schema, query, doc, label=label)
    subtopic = col("subtopic") if "subtopic" in schema else pl.lit("0")
    judged = rows.filter(col(label).is_not_null()).select(
        col(query).alias(_ORDER),
        col(query).cast(pl.String).alias("query"),
        subtopic.cast(pl.String).alias("subtopic"),
        col(doc).cast(pl.String).alias("doc"),
        col(label).alias("label"),
    )
    keys = ["query", "subtopic", "doc"]
    once = judged.group_by(_ORDER, *keys).agg(col("label").min(), highest=col("label").max())
    several = once.filter(col("label") < col("highest")).drop(_ORDER)
    faults = [
        *_faults(judged, keys, "label"),
        _fault(several, "a document has several labels for one query", "keep one of them"),
    ]
    whole = col("label").cast(pl.Int64, strict=False)
    number = (
        pl.when(whole == col("label"))
        .then(whole.cast(pl.String))
        .otherwise(col("label").cast(pl.String))
    )
    lines = once.sort(_ORDER, "subtopic", "doc").select(*keys, number)
    _write(lines, faults, Path(path), overwrite=overwrite)


def _scan(path: Paths, layout: tuple[str, ...], number: str, dtype: pl.DataType) -> pl.LazyFrame:
    """Scan lines of fields; the one called `number` is a number, all others are strings."""
    words = col(LINE).str.replace_all("\t", " ", literal=True).str.split(" ")
    fields = words.list.eval(pl.element().filter(pl.element() != ""))
    field = {name: col(_FIELDS).list.get(i, null_on_oob=True) for i, name in enumerate(layout)}
    value = field.pop(number).cast(dtype, strict=False).alias(number)
    return (
        scan_lines(text_files(path))
        .with_columns(fields.alias(_FIELDS))
        .filter(~field["query"].str.starts_with("#"))  # null, which is left out, without fields
        .select(LINE, NUMBER, PATH, value, col(_FIELDS).list.len(), **field)
        .map_batches(partial(_refuse_malformed, layout=layout, number=number), streamable=True)
    )


def _refuse_malformed(lines: pl.DataFrame, layout: tuple[str, ...], number: str) -> pl.DataFrame:
    malformed = lines.filter(
        (col(_FIELDS) != len(layout)) | ~col(number).is_finite().fill_null(value=False)
    )
    if layout == _RUN and not malformed.is_empty():
        # Words may follow the tag; but where the rank is no number, an id has a space in it.
        rank = col("rank").cast(pl.Float64, strict=False)
        fine = (col(_FIELDS) > len(layout)) & rank.is_not_null() & col(number).is_finite()
        malformed = malformed.filter(~fine.fill_null(value=False))
    if malformed.is_empty():
        return lines
    row = malformed.row(0, named=True)
    whole = lines.schema[number].is_integer()
    msg = (
        f"line {row[NUMBER]} of {row[PATH]} must be {' '.join(layout)!r}, with a "
        f"{'whole' if whole else 'finite'} number as the {number}; found {row[LINE]!r}"
        f"{'; set `fractional` for labels such as 0.5' if whole else ''}"
    )
    raise DataError(msg, *(["fractional"] if whole else []))


def _check(table: str, schema: pl.Schema, query: str, doc: str, **numbers: str) -> None:
    find_columns(schema, {"query": query, "doc": doc, **numbers}, table=f"`{table}`")
    (number,) = numbers.values()
    if not schema[number].is_numeric():
        msg = f"column {number!r} must be numeric; found {schema[number]}"
        raise SchemaError(msg)


def _faults(rows: pl.LazyFrame, ids: list[str], number: str) -> list[pl.LazyFrame]:
    """Return the rows that have no place in a TREC file."""
    rows = rows.drop(_ORDER)
    blank = [col(name).is_null() | col(name).str.contains(r"^$|\s") for name in ids]
    return [
        *(
            _fault(
                rows.filter(condition),
                f"{name} is null, empty or has whitespace in it",
                "TREC files divide fields by whitespace; give these rows another one",
            )
            for name, condition in zip(ids, blank, strict=True)
        ),
        _fault(
            rows.filter(col("query").str.starts_with("#")),
            "query begins with '#', as comments do",
            "give these rows another one",
        ),
        _fault(
            rows.filter(~col(number).is_finite()),
            f"{number} is NaN or infinite",
            "drop these rows, or use null for 'unknown'",
        ),
    ]


def _fault(rows: pl.LazyFrame, problem: str, remedy: str) -> pl.LazyFrame:
    """Return a plan that raises if there are any such rows."""

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        refuse(rows, pl.lit(value=True), problem, remedy)
        return rows

    return rows.map_batches(check)  # all these rows at once, so that they can be counted


def _write(
    lines: pl.LazyFrame, faults: list[pl.LazyFrame], target: Path, *, overwrite: bool
) -> None:
    """Write lines under another name; give the file its name if there are no faults."""
    with new_file(target, overwrite=overwrite) as part:
        written = lines.sink_csv(
            part,
            compression="gzip" if target.suffix == ".gz" else "uncompressed",
            check_extension=False,
            include_header=False,
            separator=" ",
            quote_style="never",
            lazy=True,
        )
        pl.collect_all([*faults, written], engine="streaming")


def __dir__() -> list[str]:
    return __all__
