"""TREC text files as input: runs and judgments ("qrels"), with one document per line."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import polars as pl
from polars import col

from polars_rank._params import OWN, one_of, public
from polars_rank.errors import DataError
from polars_rank.io.judgments import judged_once
from polars_rank.io.lines import LINE, NUMBER, PATH, Paths, scan_lines, text_files

if TYPE_CHECKING:
    from collections.abc import Sequence

Negative: TypeAlias = Literal["unjudged", "keep"]

_RUN = ("query", "iteration", "doc", "rank", "score", "run")
_QRELS = ("query", "subtopic", "doc", "label")
_FIELDS = OWN + "fields"


@public
def scan_run(path: Paths) -> pl.LazyFrame:
    """Return a LazyFrame of the retrieved documents in TREC run files.

    A line has the fields ``query iteration doc rank score run``, separated by spaces or tabs.
    Empty lines and lines that begin with ``#`` are skipped. As in trec_eval, iteration and rank
    are ignored.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars_rank as pr
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "bm25.run")
    ...     _ = file.write_text("301 Q0 FT911-3 1 14.5 bm25")
    ...     print(pr.scan_run(file).collect())
    shape: (1, 4)
    ┌───────┬─────────┬───────┬──────┐
    │ query ┆ doc     ┆ score ┆ run  │
    │ ---   ┆ ---     ┆ ---   ┆ ---  │
    │ str   ┆ str     ┆ f64   ┆ str  │
    ╞═══════╪═════════╪═══════╪══════╡
    │ 301   ┆ FT911-3 ┆ 14.5  ┆ bm25 │
    └───────┴─────────┴───────┴──────┘

    Parameters
    ----------
    path
        A file, a pattern such as ``"runs/*.txt"``, a URL, or several of them. Files may be
        compressed (gzip, bzip2, xz, zstd). Pipes and files of web servers (http, https) are copied
        to temporary files first.

    Returns
    -------
    LazyFrame
        Columns ``query``, ``doc``, ``score`` (Float64), and ``run``. Ids are strings.

    Raises
    ------
    SourceError
        If a file does not exist; when the LazyFrame is collected, if a file is damaged or not
        UTF-8.
    DataError
        When the LazyFrame is collected, if a line does not have six fields or has an invalid
        score. The message has the file, the number of the line, and its text.
    """
    return _scan(path, _RUN, number="score", dtype=pl.Float64()).select(
        "query", "doc", "score", "run"
    )


@public
def scan_judgments(
    path: Paths,
    *,
    diversity: bool = False,
    fractional: bool = False,
    negative: Negative = "unjudged",
) -> pl.LazyFrame:
    r"""Return a LazyFrame of the judged documents in TREC judgment files ("qrels").

    A line has the fields ``query iteration doc label``, separated by spaces or tabs. Empty lines
    and lines that begin with ``#`` are skipped.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars_rank as pr
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "qrels")
    ...     _ = file.write_text("301 0 FT911-3 1\n301 0 FT911-4 -1")
    ...     print(pr.scan_judgments(file).collect())
    shape: (2, 3)
    ┌───────┬─────────┬───────┐
    │ query ┆ doc     ┆ label │
    │ ---   ┆ ---     ┆ ---   │
    │ str   ┆ str     ┆ i64   │
    ╞═══════╪═════════╪═══════╡
    │ 301   ┆ FT911-3 ┆ 1     │
    │ 301   ┆ FT911-4 ┆ null  │
    └───────┴─────────┴───────┘

    Parameters
    ----------
    path
        A file, a pattern such as ``"qrels/*.txt"``, a URL, or several of them. Files may be
        compressed (gzip, bzip2, xz, zstd). Pipes and files of web servers (http, https) are copied
        to temporary files first.
    diversity
        Whether the judgments are of diversity: the second field is then the subtopic, and becomes
        the column ``subtopic``. A document has one row for each subtopic it was judged for;
        ``join_judgments`` with ``subtopic="subtopic"`` makes lists of them.
    fractional
        Read labels as floats. By default they must be whole numbers.
    negative
        Meaning of negative labels. "unjudged": a document that was in the pool but not judged, as
        TREC uses -1; the label becomes null. "keep": a label below all others.

    Returns
    -------
    LazyFrame
        Columns ``query``, ``subtopic`` (if `diversity`), ``doc``, and ``label``. Ids are strings.
        Lines that occur more than once give one row.

    Raises
    ------
    SourceError
        If a file does not exist; when the LazyFrame is collected, if a file is damaged or not
        UTF-8.
    DataError
        When the LazyFrame is collected, if a line does not have four fields or has an invalid
        label. The message has the file, the number of the line, and its text. Also if a document
        has several labels for one query (and subtopic, if `diversity`).

    Notes
    -----
    With ``negative="unjudged"``, NDCG, bpref, and numbers of judged documents equal those of
    trec_eval. Two measures need ``negative="keep"``, because they distinguish unjudged documents
    in the pool from documents outside it: inferred AP, and ``Judged`` of ir_measures. Then also
    evaluate with ``conventions="trec_eval"``; otherwise negative labels are negative gains.
    """
    one_of("negative", negative, get_args(Negative))
    lines = _scan(path, _QRELS, number="label", dtype=pl.Float64() if fractional else pl.Int64())
    if negative == "unjudged":
        lines = lines.with_columns(pl.when(col("label") >= 0).then("label"))
    keys = ["query", *(["subtopic"] if diversity else []), "doc"]
    remedy = "" if diversity else "; for judgments of subtopics, set `diversity`"
    return lines.select(*keys, "label").map_batches(
        partial(judged_once, keys=keys, label="label", table="the judgments", remedy=remedy)
    )


def _scan(path: Paths, layout: tuple[str, ...], number: str, dtype: pl.DataType) -> pl.LazyFrame:
    """Return the fields of lines as columns: `number` as a number, all others as strings."""
    parts = col(LINE).str.replace_all("\t", " ", literal=True).str.split(" ")
    fields = parts.list.eval(pl.element().filter(pl.element() != ""))
    field = {name: col(_FIELDS).list.get(i, null_on_oob=True) for i, name in enumerate(layout)}
    value = field.pop(number).cast(dtype, strict=False).alias(number)
    return (
        scan_lines(text_files(path))
        .with_columns(fields.alias(_FIELDS))
        .filter(~field["query"].str.starts_with("#"))  # also drops empty lines: null
        .select(LINE, NUMBER, PATH, value, col(_FIELDS).list.len(), **field)
        .map_batches(partial(_refuse_malformed, layout=layout, number=number), streamable=True)
    )


def _refuse_malformed(lines: pl.DataFrame, layout: tuple[str, ...], number: str) -> pl.DataFrame:
    malformed = lines.filter(
        (col(_FIELDS) != len(layout)) | ~col(number).is_finite().fill_null(value=False)
    )
    if malformed.is_empty():
        return lines
    row = malformed.row(0, named=True)
    whole = lines.schema[number].is_integer()
    message = (
        f"line {row[NUMBER]} of {row[PATH]} must be {' '.join(layout)!r}, where the {number} is a "
        f"{'whole' if whole else 'finite'} number; found {row[LINE]!r}"
    )
    if _is_other_kind(row[LINE].split(), layout):
        kind, reader = (
            ("qrels file", "scan_judgments") if layout == _RUN else ("run file", "scan_run")
        )
        message += (
            f". The file looks like a {kind}, which pr.{reader} reads; were run and qrels swapped?"
        )
    elif layout == _RUN and row[_FIELDS] > len(layout):
        message += "; ids and the name of the run must not contain spaces"
    elif whole and row[_FIELDS] == len(layout) and _is_number(row[LINE].split()[-1]):
        message += "; set `fractional` for labels such as 0.5"
    raise DataError(message)


def _is_other_kind(fields: Sequence[str], layout: tuple[str, ...]) -> bool:
    """Return whether a line looks like the other kind of file: a run, or judgments."""
    if layout == _RUN:
        return len(fields) == len(_QRELS) and _is_number(fields[3])
    return len(fields) >= len(_RUN) and _is_number(fields[3]) and _is_number(fields[4])


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
