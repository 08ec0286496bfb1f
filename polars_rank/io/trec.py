"""Text files with one document per line: TREC runs and judgments ("qrels"), and SVMlight."""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl
from polars import col

from polars_rank._params import OWN
from polars_rank.errors import DataError, RankError, warn
from polars_rank.io.copies import origin
from polars_rank.io.fields import VALUE, Kind
from polars_rank.io.judgments import judged_once
from polars_rank.io.lines import LINE, NUMBER, PATH, numbered_lines, scan_lines, tagged

if TYPE_CHECKING:
    from collections.abc import Sequence

Negative: TypeAlias = Literal["unjudged", "keep"]

_FIELDS = OWN + "fields"
#: The fields of a line, by kind of file. The first layout of a length that fits a line is used;
#: the tag of a run may have blanks.
_LAYOUTS: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "run": (
        ("query", "iteration", "doc", "rank", "score", "run"),
        ("query", "iteration", "doc", "rank", "score"),
        ("query", "doc", "rank"),  # MS MARCO
    ),
    "judgments": (("query", "subtopic", "doc", "label"), ("query", "doc", "label")),
}
_NUMBERS = ("rank", "score", "label")
_SVMLIGHT = re.compile(r"[-+.\deE]+\s+(qid:\S+|\d+:\S+)")


def layout_of(line: str, kind: Kind) -> tuple[str, ...] | None:
    """Return the names of the fields of a line, or None if it is not of this kind."""
    fields = line.split()
    for layout in _LAYOUTS[kind]:
        fits = len(fields) == len(layout) or (layout[-1] == "run" and len(fields) > len(layout))
        numbers = (fields[layout.index(name)] for name in _NUMBERS if fits and name in layout)
        if fits and all(map(_is_number, numbers)):
            return layout
    return None


def is_svmlight(line: str, file: str) -> bool:
    """Return whether a line has a label, and a query or features, as in SVMlight."""
    found = _SVMLIGHT.match(line)
    return found is not None and (found[1].startswith("qid:") or _sizes_file(file) is not None)


def scan_trec_run(files: Sequence[str], layout: tuple[str, ...]) -> pl.LazyFrame:
    """Return the retrieved documents in TREC run files."""
    if "score" not in layout:
        lines = _scan(files, layout, "rank", pl.Float64())
        return lines.select("query", "doc", -col("rank").alias("score"))
    if "run" not in layout:
        return _scan(files, layout, "score", pl.Float64()).select("query", "doc", "score")
    tags = {origin(file): _tag(file) for file in files}
    first, *others = {*tags.values()}
    if first is not None and not others:
        lines = _scan(files, layout, "score", pl.Float64(), first)
        return lines.select("query", "doc", "score", pl.lit(first).alias("run"))
    known = col(PATH).replace_strict(tags, return_dtype=pl.String, default=None)
    lines = _scan(files, layout, "score", pl.Float64())
    return lines.select("query", "doc", "score", pl.coalesce(known, "run").alias("run"))


def _tag(file: str) -> str | None:
    """Return the tag of a file, or None if it is read from the lines."""
    try:
        return None if "://" in file else tagged(file) or _run_of_tags(file)
    except RankError:  # the scan raises it, too
        return None


def _run_of_tags(file: str) -> str | None:
    """Return the only tag of a file, None if tags are of several runs, else the name of the file.

    Tags are of several runs if a document of a query has two of them.
    """
    lines = _scan([file], _LAYOUTS["run"][0], "score", pl.Float64()).select("query", "doc", "run")
    rows = lines.collect(engine="streaming")
    tags = rows["run"].unique().sort()
    if len(tags) == 1 or rows[["query", "doc"]].is_duplicated().any():
        return None
    name = Path(origin(file)).name.split(".")[0] or origin(file)
    if len(tags):
        warn(
            f"{origin(file)} has {len(tags):,} different tags, such as {tags[0]!r} and "
            f"{tags[1]!r}, and no document of a query has two of them; the run is {name!r}, the "
            "name of the file"
        )
    return name


def scan_qrels(
    files: Sequence[str], layout: tuple[str, ...], *, diversity: bool, fractional: bool
) -> pl.LazyFrame:
    """Return the judged documents in TREC judgment files."""
    lines = _scan(files, layout, "label", pl.Float64() if fractional else pl.Int64())
    keys = ["query", *(["subtopic"] if diversity else []), "doc"]
    remedy = "" if diversity else "; for judgments of subtopics, set `diversity`"
    return lines.select(*keys, "label").map_batches(
        partial(judged_once, keys=keys, label="label", table="the judgments", remedy=remedy)
    )


def scan_svmlight(file: str) -> pl.LazyFrame:
    """Return the labels of an SVMlight file; its comments may have ids of documents.

    Without ids, the document is the number of the line. Without queries in its lines, a file
    "NAME.query" has the number of documents of each query, as LightGBM reads it.
    """
    line = col(LINE).str.strip_chars()
    comment = line.str.extract(r"#\s*(.*)$")
    doc = comment.str.extract(r"doc_?id\s*=\s*(\S+)").fill_null(comment.str.extract(r"^(\S+)"))
    rows = (
        scan_lines([file])
        .filter(line != "", ~line.str.starts_with("#"))
        .select(
            LINE, NUMBER, PATH,
            line.str.extract(r"^\S+\s+qid:(\S+)").alias("query"),
            doc.fill_null(col(NUMBER).cast(pl.String)).alias("doc"),
            line.str.extract(r"^(\S+)").cast(pl.Float64, strict=False).alias("label"),
        )
    )  # fmt: skip
    sizes = _sizes_file(file)
    if sizes is None:
        checked = rows.map_batches(_refuse_without_query, streamable=True)
    else:
        checked = rows.map_batches(partial(_with_queries, sizes=sizes))
    return checked.select("query", "doc", "label")


def _sizes_file(file: str) -> str | None:
    path = f"{file}.query"
    return path if "://" not in file and Path(path).is_file() else None


def _refuse_without_query(rows: pl.DataFrame) -> pl.DataFrame:
    invalid = rows.filter(col("query").is_null() | ~col("label").is_finite().fill_null(value=False))
    if not invalid.is_empty():
        row = invalid.row(0, named=True)
        raise DataError(
            f"line {row[NUMBER]} of {row[PATH]} must begin with a label and the query, as in "
            f"'2 qid:7'; found {row[LINE][:200]!r}"
        )
    return rows


def _with_queries(rows: pl.DataFrame, sizes: str) -> pl.DataFrame:
    """Return the rows with the number of their query, from a file of the numbers of rows."""
    counts = [int(text) for _, line in numbered_lines(sizes) if (text := line.strip()).isdecimal()]
    if sum(counts) != rows.height:
        raise DataError(
            f"{sizes} has {sum(counts):,} documents in {len(counts):,} queries, but the file of "
            f"labels has {rows.height:,} lines"
        )
    numbers = pl.Series(range(1, len(counts) + 1)).repeat_by(pl.Series(counts, dtype=pl.Int64))
    query = numbers.explode(empty_as_null=False, keep_nulls=False).cast(pl.String).alias("query")
    return _refuse_without_query(rows.with_columns(query))


def _scan(
    files: Sequence[str],
    layout: tuple[str, ...],
    number: str,
    dtype: pl.DataType,
    tag: str | None = None,
) -> pl.LazyFrame:
    """Return the fields of lines as columns: `number` as a number, all others as strings.

    `tag` is the tag of all lines of runs if it is known; it may have blanks.
    """
    parts = col(LINE).str.replace_all("\t", " ", literal=True).str.split(" ")
    fields = parts.list.eval(pl.element().filter(pl.element() != ""))
    field = {name: col(_FIELDS).list.get(i, null_on_oob=True) for i, name in enumerate(layout)}
    if layout[-1] == "run" and tag is None:
        field["run"] = col(_FIELDS).list.slice(len(layout) - 1).list.join(" ")
    elif layout[-1] == "run":  # only these are needed
        field = {name: field[name] for name in ("query", "doc", number)}
    value = field.pop(number).cast(dtype, strict=False).alias(number)
    check = partial(_refuse_malformed, layout=layout, number=number, tag=tag)
    return (
        scan_lines(files)
        .with_columns(fields.alias(_FIELDS))
        .filter(~field["query"].str.starts_with("#"))  # also drops empty lines: null
        .select(LINE, NUMBER, PATH, value, col(_FIELDS).list.len(), **field)
        .map_batches(check, streamable=True)
    )


def _refuse_malformed(
    lines: pl.DataFrame, layout: tuple[str, ...], number: str, tag: str | None
) -> pl.DataFrame:
    length = len(layout)
    is_invalid = col(_FIELDS) != length + (0 if tag is None else len(tag.split()) - 1)
    if layout[-1] == "run" and tag is None:  # more fields are a tag with blanks, or ids with blanks
        has_rank = col("rank").cast(pl.Float64, strict=False).is_not_null()
        is_invalid &= (col(_FIELDS) < length) | ~has_rank
    malformed = lines.filter(is_invalid | ~col(number).is_finite().fill_null(value=False))
    if malformed.is_empty():
        return lines
    row = malformed.row(0, named=True)
    whole = lines.schema[number].is_integer()
    message = (
        f"line {row[NUMBER]} of {row[PATH]} must be {' '.join(layout)!r}, where the {number} is a "
        f"{'whole' if whole else 'finite'} number; found {row[LINE]!r}"
    )
    kind: Kind = "judgments" if number == VALUE["judgments"] else "run"
    if advice := other_kind(row[LINE], kind):
        message += f". {advice}"
    elif number == "score" and row[_FIELDS] > length:
        message += "; ids must not contain spaces"
    elif whole and row[_FIELDS] == length and _is_number(row[LINE].split()[-1]):
        message += "; set `fractional` for labels such as 0.5"
    raise DataError(message)


def other_kind(line: str, kind: Kind) -> str:
    """Return advice if a line looks like a file of the other kind, else an empty string."""
    fields = line.split()
    if kind == "run" and len(fields) == len(_LAYOUTS["judgments"][0]) and _is_number(fields[3]):
        found, reader = "qrels file", "scan_judgments"
    elif (
        kind == "judgments"
        and len(fields) > len(_LAYOUTS["judgments"][0])
        and (layout_of(line, "run"))
    ):
        found, reader = "run file", "scan_run"
    else:
        return ""
    return f"The file looks like a {found}, which pr.{reader} reads; were run and qrels swapped?"


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
