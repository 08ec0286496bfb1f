"""Text files with one document per line: TREC runs and judgments ("qrels"), and SVMlight."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from polars import col

from polars_rank._params import OWN
from polars_rank.errors import DataError
from polars_rank.io.fields import NO_FIELDS, Kind, is_number
from polars_rank.io.files import origin
from polars_rank.io.judgments import judged_once
from polars_rank.io.records import ReadFile
from polars_rank.io.text_files import LINE, NUMBER, PATH, scan_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.io.fields import FieldNames

_FIELDS = OWN + "fields"
#: The fields of a line, by kind of file. The first layout of a length that fits a line is used;
#: the tag of a run may have blanks.
LAYOUTS: dict[Kind, tuple[tuple[str, ...], ...]] = {
    "run": (
        ("query", "iteration", "doc", "rank", "score", "run"),
        ("query", "iteration", "doc", "rank", "score"),
        ("query", "doc", "rank"),  # MS MARCO
    ),
    "judgments": (("query", "subtopic", "doc", "label"), ("query", "doc", "label")),
}
_NUMBERS = ("rank", "score", "label")
#: The label and the query, with which a line of SVMlight begins.
SVMLIGHT = re.compile(r"[-+.\deE]+\s+qid:\S+")


def layout_of(line: str, kind: Kind, given: FieldNames = NO_FIELDS) -> tuple[str, ...] | None:
    """Return the roles of the fields of a line, or None if it is not of this kind.

    Fields that the user leaves out have no role.
    """
    fields = line.split()
    for layout in LAYOUTS[kind]:
        fits = len(fields) == len(layout) or (layout[-1] == "run" and len(fields) > len(layout))
        numbers = (fields[layout.index(name)] for name in _NUMBERS if fits and name in layout)
        if fits and all(map(is_number, numbers)):
            names = ["" if given.get(name, name) is None else name for name in layout]
            is_whole = {"query", "doc"} <= {*names} and bool({*_NUMBERS} & {*names})
            return tuple(names) if is_whole else None
    return None


def read_run(file: str, layout: tuple[str, ...], lines: Sequence[str]) -> ReadFile:
    """Return the retrieved documents in a TREC run; `lines` are the first ones."""
    value = "score" if "score" in layout else "rank"
    has_tag = layout[-1] == "run"
    run = _common_tag(file, layout) if has_tag else None
    found = _lines(file, layout, value, pl.Float64() if value == "score" else pl.Int64(), run)
    number = col(value) if value == "score" else -col(value).cast(pl.Float64)
    warnings = []
    if value == "rank":
        _check_ranks(found, layout, lines, origin(file))
    elif "rank" in layout and _contradict(layout, lines):
        warnings.append(
            "the ranks contradict the scores in every query; documents rank by score, highest first"
        )
    columns = ["query", "doc", number.alias("score")]
    if has_tag:
        columns.append(col("run") if run is None else pl.lit(run).alias("run"))
    table = found.select(columns)
    return ReadFile(origin(file), "run", table, {}, warnings=warnings, run=run)


def _common_tag(file: str, layout: tuple[str, ...]) -> str | None:
    """Return the text after the other fields of the first line if all lines end with it."""
    if "://" in file:
        return None
    lines = pl.scan_lines(file, name=LINE, glob=False)
    with suppress(OSError, pl.exceptions.PolarsError):  # reading the lines raises the error
        for line in lines.head(1).collect()[LINE]:
            tag = " ".join(line.split()[len(layout) - 1 :])
            end = line[-len(tag) - 1 :]
            is_last = col(LINE).str.ends_with(end).all()
            if tag and end[1:] == tag and lines.select(is_last).collect(engine="streaming").item():
                return tag
    return None


def _numbers_by_query(
    layout: tuple[str, ...], lines: Sequence[str], *roles: str
) -> dict[str, list[list[float]]]:
    """Return the numbers of these roles in lines, by query."""
    query, *places = (layout.index(role) for role in ("query", *roles))
    numbers: dict[str, list[list[float]]] = {}
    for parts in map(str.split, lines):
        if len(parts) >= len(layout) and all(is_number(parts[place]) for place in places):
            numbers.setdefault(parts[query], []).append([float(parts[place]) for place in places])
    return numbers


def _check_ranks(
    found: pl.LazyFrame, layout: tuple[str, ...], lines: Sequence[str], name: str
) -> None:
    """Raise `DataError` if the third column of a run cannot have ranks.

    Ranks are whole numbers, and include 1 or 0 in each query. The whole file is read only if the
    first lines leave it open.
    """
    by_query = _numbers_by_query(layout, lines, "rank")
    ranks = {query: [rank for (rank,) in each] for query, each in by_query.items()}
    invalid = [(query, each) for query, each in ranks.items() if any(rank % 1 for rank in each)]
    if not invalid and any({0, 1}.isdisjoint(each) for each in ranks.values()):
        queries = found.group_by("query", maintain_order=True).agg(
            col("rank").head(3), col("rank").is_between(0, 1).any().alias("has_first")
        )
        missing = queries.filter(~col("has_first")).head(1)
        invalid = missing.select("query", "rank").collect(engine="streaming").rows()
    if not invalid:
        return
    place = layout.index("rank") + 1
    query, numbers = invalid[0]
    raise DataError(
        f"{name} has {len(layout)} columns without a header, and column {place} does not have the "
        f"ranks 1, 2, ...: query {query!r} has {', '.join(f'{each:g}' for each in numbers[:3])}. "
        f"For scores, add a header, or write the six columns '{' '.join(LAYOUTS['run'][0])}'"
    )


def _contradict(layout: tuple[str, ...], lines: Sequence[str]) -> bool:
    """Return whether a better rank has a lower score in every query of these lines."""
    queries = map(sorted, _numbers_by_query(layout, lines, "rank", "score").values())
    several = [each for each in queries if each[0][0] < each[-1][0]]
    return bool(several) and all(
        any(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(each)) for each in several
    )


def stem(file: str) -> str:
    """Return the name of a file without folders and endings."""
    name = Path(origin(file)).name
    return name.split(".")[0] or name


def read_qrels(
    file: str, layout: tuple[str, ...], *, diversity: bool, fractional: bool
) -> ReadFile:
    """Return the judged documents in a TREC judgment file."""
    rows = _lines(file, layout, "label", pl.Float64() if fractional else pl.Int64())
    keys = ["query", *(["subtopic"] if diversity else []), "doc"]
    remedy = "" if diversity else "; for judgments of subtopics, set `diversity`"
    table = rows.select(*keys, "label").map_batches(
        partial(judged_once, keys=keys, label="label", table="the judgments", remedy=remedy)
    )
    return ReadFile(origin(file), "judgments", table, {})


def read_svmlight(file: str, given: FieldNames) -> ReadFile:
    """Return the labels of an SVMlight file; its comments may have ids of documents.

    Without ids, the document is the number of the line.
    """
    without_ids = "doc" in given and given["doc"] is None
    line = col(LINE).str.strip_chars()
    comment = line.str.extract(r"#\s*(.*)$")
    named, first = comment.str.extract(r"doc_?id\s*=\s*(\S+)"), comment.str.extract(r"^(\S+)")
    doc = pl.lit(None, pl.String) if without_ids else named.fill_null(first)
    rows = (
        scan_lines(file)
        .filter(line != "", ~line.str.starts_with("#"))
        .select(
            LINE, NUMBER, PATH,
            line.str.extract(r"^\S+\s+qid:(\S+)").alias("query"),
            doc.fill_null(col(NUMBER).cast(pl.String)).alias("doc"),
            line.str.extract(r"^(\S+)").cast(pl.Float64, strict=False).alias("label"),
        )
    )  # fmt: skip
    checked = rows.map_batches(_refuse_without_query, streamable=True)
    ids = checked.group_by("query", "doc", maintain_order=True).agg(col(NUMBER).head(2), pl.len())
    repeated = ids.filter(col("len") > 1).head(1).collect(engine="streaming")
    if repeated.height:
        _, each, numbers, _ = repeated.row(0)
        raise DataError(
            f"{origin(file)}: the comments of lines {numbers[0]} and {numbers[1]}, which are of "
            f"one query, both begin with {each!r}; write them as '# docid = ID', or write "
            "fields={'doc': None} to number documents by line"
        )
    roles = {
        "query": "qid",
        "doc": "the line" if without_ids else "the comment",
        "label": "column 1",
    }
    found = frozenset({"doc"} if without_ids else ())
    table = checked.select("query", "doc", "label")
    return ReadFile(origin(file), "judgments", table, roles, found)


def _refuse_without_query(rows: pl.DataFrame) -> pl.DataFrame:
    invalid = rows.filter(col("query").is_null() | ~col("label").is_finite().fill_null(value=False))
    if not invalid.is_empty():
        row = invalid.row(0, named=True)
        raise DataError(
            f"line {row[NUMBER]} of {row[PATH]} must begin with a label and the query, as in "
            f"'2 qid:7'; found {row[LINE][:200]!r}"
        )
    return rows


def _lines(
    file: str, layout: tuple[str, ...], number: str, dtype: pl.DataType, tag: str | None = None
) -> pl.LazyFrame:
    """Return the fields of lines as columns: `number` as a number, all others as strings.

    `tag` is the tag of all lines of runs if it is known; it may have blanks. A line that begins
    with "#" is a comment, unless it has all fields.
    """
    parts = col(LINE).str.replace_all("\t", " ", literal=True).str.split(" ")
    fields = parts.list.eval(pl.element().filter(pl.element() != ""))
    places = {name: place for place, name in enumerate(layout) if name}
    field = {name: col(_FIELDS).list.get(i, null_on_oob=True) for name, i in places.items()}
    numbers = (field[name].cast(pl.Float64, strict=False) for name in _NUMBERS if name in field)
    known = (each.is_finite().fill_null(value=False) for each in numbers)
    size = col(_FIELDS).list.len()
    length = size >= len(layout) if layout[-1] == "run" else size == len(layout)
    is_comment = field["query"].str.starts_with("#") & ~pl.all_horizontal(length, *known)
    if layout[-1] == "run" and tag is None:
        field["run"] = col(_FIELDS).list.slice(len(layout) - 1).list.join(" ")
    elif layout[-1] == "run":  # only these are needed
        field = {name: field[name] for name in ("query", "doc", number)}
    value = field.pop(number).cast(dtype, strict=False).alias(number)
    check = partial(_refuse_malformed, layout=layout, number=number, tag=tag)
    return (
        scan_lines(file)
        .with_columns(fields.alias(_FIELDS))
        .filter(size > 0, ~is_comment)
        .select(LINE, NUMBER, PATH, value, size, **field)
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
    if not malformed.is_empty():
        row = malformed.row(0, named=True)
        where = f"line {row[NUMBER]} of {row[PATH]}"
        is_whole = lines.schema[number].is_integer()
        raise malformed_line(row[LINE], where, layout, is_whole=is_whole)
    return lines


def malformed_line(line: str, where: str, layout: Sequence[str], *, is_whole: bool) -> DataError:
    """Return the error for a line that does not have the fields of its file."""
    number = next(name for name in ("label", "score", "rank") if name in layout)
    fields, length = line.split(), len(layout)
    message = (
        f"{where} must be {' '.join(name or '-' for name in layout)!r}, where the {number} is a "
        f"{'whole' if is_whole else 'finite'} number; found {line!r}"
    )
    if number == "score" and len(fields) > length:
        message += "; ids must not contain spaces"
    elif is_whole and len(fields) == length and number == "label" and is_number(fields[-1]):
        message += "; set `fractional` for labels such as 0.5"
    return DataError(message)


def malformed_layout(line: str, kind: Kind) -> tuple[str, ...] | None:
    """Return the layout that a line has the number of fields of, although a number is invalid."""
    return next((each for each in LAYOUTS[kind] if len(each) == len(line.split())), None)
