"""`scan_judgments` and `scan_run`: any file of judgments or results as the long table."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import contextmanager
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

import polars as pl
from polars import col

from polars_rank._params import one_of, public
from polars_rank._polars import scan_of_files
from polars_rank.errors import (
    ArgumentError,
    DataError,
    RankError,
    SchemaError,
    SourceError,
    short,
    warn,
)
from polars_rank.frames.stores import store_error
from polars_rank.io import trec_lines
from polars_rank.io.fields import (
    NO_FIELDS,
    FieldNames,
    Kind,
    check_found,
    checked_fields,
    is_known,
    is_text,
)
from polars_rank.io.files import DAMAGE, damaged, find_files, origin, readable, scan_files
from polars_rank.io.json_files import json_records, uniform_rows
from polars_rank.io.records import ReadFile, is_long, read_records, read_table
from polars_rank.io.text_files import Paths, reading, scan_csv, text_files

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

Format: TypeAlias = Literal["trec", "json", "csv", "tsv", "parquet", "ipc", "svmlight"]
Negative: TypeAlias = Literal["unjudged", "keep"]
TableFormat: TypeAlias = Literal["parquet", "csv", "tsv", "ndjson", "ipc", "trec"]

#: Number of bytes from which the format is recognized.
_START_BYTES = 1 << 16


#: Formats by the ending of the name, without that of a compression.
_ENDINGS: dict[str, TableFormat] = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson",
    ".jsonl": "ndjson", **dict.fromkeys((".arrow", ".feather", ".ipc"), "ipc"),
}  # fmt: skip
_COMPRESSED = {".gz", ".zst", ".bz2", ".xz"}


class Start(NamedTuple):
    """The beginning of a file, from which its format is recognized."""

    file: str
    kind: Kind
    content: bytes
    #: The complete lines that are neither empty nor comments.
    lines: Sequence[str]
    #: The number of the first of them.
    number: int
    given: FieldNames

    @classmethod
    def of(cls, file: str, kind: Kind, given: FieldNames = NO_FIELDS) -> Start:
        """Return the beginning of a local file."""
        with reading(file) as stream:
            content = stream.read(_START_BYTES)
        text = content.decode("utf-8", "replace").removeprefix("\ufeff")
        lines = text.split("\n")
        lines = lines[:-1] if len(content) == _START_BYTES and len(lines) > 1 else lines
        known = [
            (number, line) for number, line in enumerate(map(str.strip, lines), 1)
            if line
            and not (line.startswith("#") and trec_lines.layout_of(line, kind, given) is None)
        ]  # fmt: skip
        number = next((number for number, _ in known), 1)
        return cls(file, kind, content, [line for _, line in known], number, given)

    @property
    def line(self) -> str:
        """The first line; empty if there is none."""
        return next(iter(self.lines), "")

    @property
    def place(self) -> str:
        """The first line as a place in messages."""
        return f"line {self.number} of {origin(self.file)}"

    @property
    def layout(self) -> tuple[str, ...] | None:
        """The roles of the fields of a TREC file, or None for another format."""
        return trec_lines.layout_of(self.line, self.kind, self.given)

    def format(self) -> Format | None:
        """Return the format, or None if it is unknown."""
        return next((name for name, form in _FORMATS.items() if form.is_known(self)), None)

    def has_header(self, separators: str) -> bool:
        """Return whether the first line is a header that has a known name."""
        names = [name.strip().strip('"') for name in re.split(f"[{separators}]", self.line)]
        return len(names) > 1 and any(is_known(name, self.kind, self.given) for name in names)


class _Format(NamedTuple):
    """How a format is described in messages, and recognized."""

    about: str
    is_known: Callable[[Start], bool]


#: The formats in the order in which they are tried.
_FORMATS: dict[Format, _Format] = {
    "parquet": _Format("Parquet", lambda start: start.content.startswith(b"PAR1")),
    "ipc": _Format("Arrow", lambda start: start.content.startswith(b"ARROW1")),
    "json": _Format(
        "JSON or JSON lines: records, or mappings from queries to documents",
        lambda start: start.line.startswith(("{", "[")),
    ),
    "svmlight": _Format(
        "SVMlight with qid",
        lambda start: start.kind == "judgments" and bool(trec_lines.SVMLIGHT.match(start.line)),
    ),
    "trec": _Format(
        "TREC or MS MARCO: fields separated by spaces or tabs",
        lambda start: not start.line or start.layout is not None,
    ),
    "tsv": _Format("TSV with a header", lambda start: start.has_header("\t")),
    "csv": _Format("CSV with a header", lambda start: start.has_header(",;")),
}


def scan_table(
    paths: Sequence[str],
    form: TableFormat | None,
    is_id: Callable[[str], bool],
    options: Mapping[str, str] | None = None,
    *,
    alone: bool = False,
) -> pl.LazyFrame:
    """Scan a table in any format, with rows in any order.

    `is_id` says which columns of text files are ids, `alone` whether a row of such a file may have
    only its first field. `options` are those of Parquet files whose columns differ.
    """
    form = form or table_format(paths)
    if form == "parquet":
        return scan_files(find_files(paths), {**(options or {})})
    if form is None:
        raise SourceError(
            f"{', '.join(map(origin, paths))} has an unknown format; a table is Parquet, Arrow, "
            "JSON lines, CSV or TSV with a header, or a TREC run"
        )
    files = [file for path in paths for file in text_files(path)]
    if form == "ipc":
        return pl.scan_ipc(files, glob=False)
    if form == "ndjson":  # unlike other functions, Polars' function expands patterns in all names
        names = [file if "://" in file else escape(file) for file in files]
        try:
            table = pl.scan_ndjson(names, infer_schema_length=None)
            table.collect_schema()  # reads all rows
        except DAMAGE as error:
            raise damaged(", ".join(map(origin, files)), error, "JSON lines") from error
        return table
    if form == "trec":
        return scan_run(files, "trec")
    return scan_csv(files, is_id, "\t" if form == "tsv" else ",", alone=alone)


def table_format(paths: Sequence[str]) -> TableFormat | None:
    """Return the format of files, or None if it is unknown.

    Raise `ArgumentError` for files of different formats.
    """
    forms = {*map(_table_format, paths)}
    if len(forms) > 1:
        raise ArgumentError(f"files of different formats: {', '.join(paths)}")
    return forms.pop() if forms else "parquet"


def _table_format(path: str) -> TableFormat | None:
    """Return the format of a file, a directory, a pattern or a URL, or None if it is unknown."""
    if _ending(path) in _ENDINGS or "://" in path:
        return _ENDINGS.get(_ending(path), "parquet")
    if Path(path).is_dir():
        return "parquet"
    (file, *_) = text_files(path)
    if _ending(file) in _ENDINGS:
        return _ENDINGS[_ending(file)]
    start = Start.of(file, "run")
    form = start.format()
    if form in ("parquet", "ipc", "trec") and start.line:
        return cast("TableFormat", form)
    if start.line.startswith("{"):
        return "ndjson"
    is_other = trec_lines.layout_of(start.line, "judgments") or start.line.startswith("[")
    if not is_other and ("\t" in start.line or "," in start.line):
        return "tsv" if "\t" in start.line else "csv"
    return None


def _ending(path: str) -> str:
    name = Path(path)
    return Path(name.stem if name.suffix.lower() in _COMPRESSED else name).suffix.lower()


def _read_file(
    file: str, form: Format, kind: Kind, given: FieldNames, options: Mapping[str, Any]
) -> ReadFile:
    """Return a file of one kind, with these fields and options."""
    if form == "trec":
        return _read_trec(file, kind, given, options)
    if form == "svmlight":
        return trec_lines.read_svmlight(file, given)
    name = origin(file)
    if form == "json":
        rows = None if "://" in file else uniform_rows(file, partial(is_long, kind, given))
        if rows is not None:
            return read_table(rows.lazy(), kind, name, given, is_text=False)
        return read_records(json_records(file, kind, given), kind, name, given)
    table = scan_table([file], form, partial(is_text, kind=kind, given=given), alone=True)
    read = read_table(table, kind, name, given, is_text=form in ("csv", "tsv"))
    return read._replace(table=_guarded(read.table, file, form))


def _read_trec(file: str, kind: Kind, given: FieldNames, options: Mapping[str, Any]) -> ReadFile:
    lines: Sequence[str] = []
    layout = trec_lines.LAYOUTS[kind][0]
    if "://" not in file:
        start = Start.of(file, kind, given)
        lines, known = start.lines, start.layout
        if known is None and lines:
            columns = trec_lines.malformed_layout(start.line, kind) or layout
            is_whole = kind == "judgments" and not options["fractional"]
            raise trec_lines.malformed_line(start.line, start.place, columns, is_whole=is_whole)
        layout = known or layout
    found = (
        trec_lines.read_run(file, layout, lines)
        if kind == "run"
        else trec_lines.read_qrels(file, layout, **options)
    )
    value = next(role for role in ("label", "score", "rank") if role in layout)
    roles = {role: f"column {layout.index(role) + 1}" for role in ("query", "doc", value)}
    named = frozenset(role for role, name in given.items() if name is None)
    is_empty = not lines and "://" not in file
    return found._replace(roles=roles, found=named, is_empty=is_empty)


@public
def scan_run(
    path: Paths | Mapping[str, Paths],
    format: Format | None = None,  # noqa: A002
    *,
    fields: FieldNames | None = None,
) -> pl.LazyFrame:
    r"""Return a LazyFrame of the retrieved documents in files of results.

    The format is recognized by content:

    - TREC runs, with or without the name of the run, and ``query doc rank`` of MS MARCO.
    - JSON and JSON lines: records with a query and its documents, a list of records under a key,
      or a mapping from queries to documents. Documents are lists of ids, of pairs of id and score,
      or of objects, or mappings from ids to scores. Examples are prediction files of
      sentence-transformers and MTEB, responses of ``_rank_eval`` of Elasticsearch, evaluation
      results of OpenSearch, and retriever spans of OpenInference and MLflow.
    - CSV and TSV with a header, Parquet, and Arrow: a document or a list of documents in each row.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import polars_rank as pr
    >>> text = '{"id": 1, "results": ["b", "a"]}\n{"id": 2, "results": []}'
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "results.jsonl")
    ...     _ = file.write_text(text)
    ...     print(pr.scan_run(file).collect())
    shape: (3, 3)
    ┌───────┬──────┬───────┐
    │ query ┆ doc  ┆ score │
    │ ---   ┆ ---  ┆ ---   │
    │ str   ┆ str  ┆ f64   │
    ╞═══════╪══════╪═══════╡
    │ 1     ┆ b    ┆ -1.0  │
    │ 1     ┆ a    ┆ -2.0  │
    │ 2     ┆ null ┆ null  │
    └───────┴──────┴───────┘

    Parameters
    ----------
    path
        A file, a pattern such as ``"runs/*.txt"``, a URL, several of them, or a mapping from names
        of runs to them. A folder of Parquet files is one run. Text files may be compressed (gzip,
        zstd).
    format
        Format of the files. Default: the content decides, or for files in an object store the
        ending of the name.
    fields
        Fields by role, if their names are not known. For example, ``{"doc": "path", "score":
        "sim"}``. Roles are query, doc, score, rank, run, results (a list), start, end, category,
        latency and error. None means that there is no such field: ``{"score": None}`` ranks by the
        rank, or by the order of a list. By default, common names are known, and a field with
        another name that could have a role is an error.
        Fields of objects in a list may be named like ``"metadata.source"``.

    Returns
    -------
    LazyFrame
        Columns ``query`` and ``doc``, which are strings, and ``score`` (Float64); ``run`` if the
        files or `path` name it, or if there are several files; and other fields, such as
        ``latency`` and ``error``. Without scores, the score is minus the rank. A query without
        retrieved documents has one row, in which ``doc`` and ``score`` are null.

    Raises
    ------
    SourceError
        If a file does not exist, is damaged, is not UTF-8, or has an unknown format.
    DataError
        If a line or record is invalid, such as a score that is not a number. The message has the
        file and the line or key. For TREC files, CSV and Parquet, collecting the LazyFrame may
        raise it.
    SchemaError
        If no field, or more than one, is known to have a role, or no file has a field of `fields`.

    Warns
    -----
    RankWarning
        If queries have an error, the scores of all queries ascend or contradict the ranks, or a
        file is empty.

    See Also
    --------
    scan_judgments : The labels of documents.
    join_judgments : The long table of both.

    Notes
    -----
    The query is identified by ``query_id``, otherwise by ``id``, otherwise by its text (``query``,
    ``question``). Judgments may have both. The text is not kept, because the judgments have it.

    The name of the run is the tag of a TREC file. Of several files, those that name no run, or that
    have the run and a query of another file, are runs with the names of the files.

    Three columns without a header are ``query doc rank`` if the ranks are whole numbers and include
    1 or 0 in each query. Null scores are of documents that were judged, not retrieved, unless the
    file has ranks, or a list of documents.
    """
    given = checked_fields(fields, "run")
    named = path.items() if isinstance(path, Mapping) else [("", path)]
    found = read_run_files(named, given, format)
    check_found(given, {"run": found.found}, found.names)
    return found.warned()


@public
def scan_judgments(
    path: Paths,
    format: Format | None = None,  # noqa: A002
    *,
    fields: FieldNames | None = None,
    diversity: bool = False,
    fractional: bool = False,
    negative: Negative = "unjudged",
) -> pl.LazyFrame:
    r"""Return a LazyFrame of the judged documents in files of judgments.

    The format is recognized by content:

    - TREC judgments ("qrels"), also those of MS MARCO.
    - JSON and JSON lines: records with a query and its relevant documents, a list of records under
      a key, or a mapping from queries to documents. Documents are lists of ids, of pairs of id and
      label, or of objects, or mappings from ids to labels. Examples are golden sets, judgments of
      OpenSearch, requests to ``_rank_eval`` of Elasticsearch, ratings of RRE, and LongMemEval.
    - CSV and TSV with a header, Parquet, and Arrow: a document or a list of documents in each row.
      Examples are BEIR's ``qrels/test.tsv`` and exports of Quepid.
    - SVMlight with ``qid``.
    - A folder with the judgments of a BEIR or MTEB dataset: the split "test", or the only one.

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
    >>> text = '{"question": "Who?", "relevant_ids": ["a"], "category": "easy"}'
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder, "golden.jsonl")
    ...     _ = file.write_text(text)
    ...     print(pr.scan_judgments(file).collect())
    shape: (1, 4)
    ┌───────┬─────┬───────┬──────────┐
    │ query ┆ doc ┆ label ┆ category │
    │ ---   ┆ --- ┆ ---   ┆ ---      │
    │ str   ┆ str ┆ i64   ┆ str      │
    ╞═══════╪═════╪═══════╪══════════╡
    │ Who?  ┆ a   ┆ 1     ┆ easy     │
    └───────┴─────┴───────┴──────────┘

    Parameters
    ----------
    path
        A file, a pattern such as ``"qrels/*.txt"``, a URL, or several of them. Text files may be
        compressed (gzip, zstd).
    format
        Format of the files. Default: the content decides, or for files in an object store the
        ending of the name.
    fields
        Fields by role, if their names are not known. For example, ``{"label": "relevancy"}``. Roles
        are query, doc, label, relevant (a list), forbidden (a list), start, end and category. None
        means that there is no such field: with ``{"label": None}``, each document is relevant. By
        default, common names are known, and a field with another name that could have a role is an
        error.
        Fields of objects in a list may be named like ``"metadata.source"``.
    diversity
        Whether TREC judgments are of diversity: the second field is then the subtopic, and becomes
        the column ``subtopic``. A document has one row for each subtopic it was judged for;
        ``join_judgments`` with ``subtopic="subtopic"`` makes lists of them.
    fractional
        Read labels of TREC files as floats. By default they must be whole numbers.
    negative
        Meaning of negative labels. "unjudged": a document that was in the pool but not judged, as
        TREC uses -1; the label becomes null. "keep": a label below all others.

    Returns
    -------
    LazyFrame
        Columns ``query``, ``subtopic`` (if `diversity`), ``doc``, and ``label``; ``text``, the text
        of the query if it is not its id; and other fields, such as ``category`` and ``tags``. Ids
        are strings. A query without relevant documents has one row, in which ``doc`` and ``label``
        are null. Documents of a list "forbidden" have rows with the label 0, in which the column
        ``forbidden`` is true. Lines of TREC files that occur more than once give one row.

    Raises
    ------
    SourceError
        If a file does not exist, is damaged, is not UTF-8, or has an unknown format.
    DataError
        If a line or record is invalid, such as a label that is not a number. The message has the
        file and the line or key. Also if the files are empty, if a query occurs twice in JSON, or
        if a document has several labels for one query (and subtopic, if `diversity`) in TREC files.
        For TREC files, CSV and Parquet, collecting the LazyFrame may raise it.
    SchemaError
        If no field, or more than one, is known to have a role, or no file has a field of `fields`.

    See Also
    --------
    scan_run : The retrieved documents.
    join_judgments : The long table of both.

    Notes
    -----
    The query is identified by ``query_id``, otherwise by ``id``, otherwise by its text (``query``,
    ``question``). Results must have the id or the text. A null label means unjudged. If all
    documents are relevant, there is no label, and no other field of numbers or flags.

    With ``negative="unjudged"``, NDCG, bpref, and numbers of judged documents equal those of
    trec_eval. Two measures need ``negative="keep"``, because they distinguish unjudged documents
    in the pool from documents outside it: inferred AP, and ``Judged`` of ir_measures. Then also
    evaluate with ``conventions="trec_eval"``; otherwise negative labels are negative gains.
    """
    given = checked_fields(fields, "judgments")
    found = read_judgment_files(
        path, given, format, diversity=diversity, fractional=fractional, negative=negative
    )
    check_found(given, {"judgments": found.found}, found.names)
    return found.warned()


class Reading(NamedTuple):
    """The long table of files, and the files."""

    table: pl.LazyFrame
    files: Sequence[ReadFile]

    @property
    def found(self) -> set[str]:
        """The roles whose fields the user named, and that a file has."""
        return {role for file in self.files for role in file.found}

    @property
    def names(self) -> list[str]:
        """The fields of all files."""
        return [name for file in self.files for name in file.names]

    @property
    def warnings(self) -> list[str]:
        """What looks wrong in the files."""
        return [f"{file.file}: {each}" for file in self.files for each in file.warnings]

    def sentences(self) -> list[str]:
        """Return what was read from each file, and which field has which role."""
        return [file.sentence() for file in self.files if file.roles]

    def warned(self) -> pl.LazyFrame:
        """Warn of what looks wrong, and return the table."""
        for text in self.warnings:
            warn(text)
        return self.table


def read_judgment_files(
    path: Paths,
    given: FieldNames,
    format: Format | None = None,  # noqa: A002
    *,
    diversity: bool = False,
    fractional: bool = False,
    negative: Negative = "unjudged",
) -> Reading:
    """Return the judgments in files. Fields that the user names may be missing."""
    one_of("negative", negative, get_args(Negative))
    options = {"diversity": diversity, "fractional": fractional}
    files = [file for _, file in _read(path, "judgments", format, given, options)]
    if all(file.is_empty for file in files):
        raise DataError(f"{', '.join(file.file for file in files)} has no judgments")
    table = pl.concat([file.table for file in files], how="diagonal_relaxed")
    if negative == "unjudged":
        table = table.with_columns(pl.when(col("label") >= 0).then("label").alias("label"))
    return Reading(table, files)


def read_run_files(
    paths: Collection[tuple[str, Paths]],
    given: FieldNames,
    format: Format | None = None,  # noqa: A002
) -> Reading:
    """Return the results in files, whose runs may have names; see `read_judgment_files`."""
    named = paths or [("", [])]
    files = [pair for name, each in named for pair in _read(each, "run", format, given, {}, name)]
    tables = _with_runs(files)
    return Reading(pl.concat(tables, how="diagonal_relaxed"), [file for _, file in files])


def _with_runs(files: Sequence[tuple[str, ReadFile]]) -> list[pl.LazyFrame]:
    """Return the tables of files, each of which is at least one run.

    A file is a run with the name that the user gives, or otherwise with the name of the file if it
    has no runs, or if a run and a query of it are in another file. For a file without rows, nothing
    was retrieved for the queries of the other files.
    """
    full = [n for n, (_, file) in enumerate(files) if not file.is_empty]
    names = {n: name for n, (name, _) in enumerate(files) if name}
    if len(files) > 1:
        known = {n: runs for n in full if n not in names and (runs := files[n][1].runs())}
        shared = {
            n for n, runs in known.items() for other in known
            if n != other and runs & known[other] and _overlap(files[n][1], files[other][1])
        }  # fmt: skip
        for n, (_, file) in enumerate(files):
            if n in shared and len(known[n]) > 1:
                raise DataError(
                    f"{file.file} has several runs, of which others of these files have queries, "
                    "too; pass files with different runs"
                )
            if n not in names and (n in shared or n not in known):
                names[n] = trec_lines.stem(file.file)
        taken = [*names.values(), *(run for n in known if n not in names for run in known[n])]
        for n, name in names.items():
            if taken.count(name) > 1:
                raise ArgumentError(
                    f"several runs have the name {name!r}, which is that of {files[n][1].file}; "
                    "name each with a mapping of names to files, e.g. "
                    f"{{{name + '-1'!r}: {files[n][1].file!r}, ...}}"
                )
    queries = [files[n][1].table.select("query") for n in full]
    every = pl.concat([pl.LazyFrame(schema={"query": pl.String}), *queries])
    nothing = every.unique(maintain_order=True).with_columns(
        doc=pl.lit(None, pl.String), score=pl.lit(None, pl.Float64)
    )
    tables = [nothing if file.is_empty else file.table for _, file in files]
    return [
        table.with_columns(run=pl.lit(names[n])) if full and n in names else table
        for n, table in enumerate(tables)
    ]


def _overlap(one: ReadFile, other: ReadFile) -> bool:
    """Return whether two files have the same query of the same run."""
    keys = ["run", "query"]
    both = one.table.select(keys).join(other.table.select(keys).unique(), on=keys, how="semi")
    try:
        return both.head(1).collect(engine="streaming").height > 0
    except RankError:  # reading the rows raises it, too
        return False


def _read(
    path: Paths, kind: Kind, format_: Format | None, given: FieldNames,
    options: Mapping[str, Any], name: str = "",
) -> Iterator[tuple[str, ReadFile]]:  # fmt: skip
    """Yield the files of paths, each read in its format, with the name of its run."""
    if format_ is not None:
        one_of("format", format_, tuple(_FORMATS))
    paths = [path] if isinstance(path, (str, os.PathLike)) else [*path]
    files = [file for each in paths for file in _files(os.fspath(each), kind)]
    if not files:
        raise ArgumentError("is empty; name at least one file", "path")
    if name and len(files) > 1:
        raise ArgumentError(f"the run {name!r} has {len(files)} files; name each of them")
    for file in files:
        form = format_ or _recognized(file, kind, given)
        if options.get("diversity") and form != "trec":
            raise ArgumentError(f"needs TREC judgments; found {form}", "diversity")
        try:
            with _naming(file, form):
                found = _read_file(file, form, kind, given, options)
        except (DataError, SchemaError) as error:
            if form in ("trec", "svmlight"):  # these have lines with the name of the file
                raise
            raise type(error)(f"{origin(file)}: {str(error).lstrip()}") from None
        if kind == "run" and found.is_empty:
            found = found._replace(warnings=["the file has no results: nothing was retrieved"])
        yield name, found


@contextmanager
def _naming(file: str, form: Format) -> Iterator[None]:
    """Raise `SourceError` with the name of the file if Polars cannot read it."""
    try:
        yield
    except RankError:
        raise
    except DAMAGE as error:
        raise store_error(error, [file]) or damaged(file, error, _FORMATS[form].about) from error


def _guarded(table: pl.LazyFrame, file: str, form: Format) -> pl.LazyFrame:
    """Return a table whose errors name the file."""

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        plan = table if columns is None else table.select(columns)
        plan = plan if predicate is None else plan.filter(predicate)
        plan = plan if n_rows is None else plan.head(n_rows)
        with _naming(file, form):
            yield from plan.collect_batches(maintain_order=True, engine="streaming")

    return scan_of_files(read, [file], schema=table.collect_schema(), explain_name="FILE")


def _files(name: str, kind: Kind) -> list[str]:
    """Return the files of a name, which may be a folder of Parquet files or of a dataset."""
    name = readable(name)
    folder = Path(name)
    if "://" in name or not folder.is_dir():
        return text_files(name)
    qrels = folder if folder.name == "qrels" else folder / "qrels"
    if kind == "judgments" and qrels.is_dir():
        endings = (".tsv", ".parquet", ".jsonl", ".txt", ".csv")
        splits: dict[str, list[str]] = {}
        for file in sorted(qrels.iterdir()):
            if file.suffix in endings:  # parts of a split are "test-00000-of-00002.parquet"
                splits.setdefault(file.name.split(".")[0].split("-")[0], []).append(str(file))
        chosen = "test" if "test" in splits else next(iter(splits), None)
        if chosen is None or (len(splits) > 1 and chosen != "test"):
            raise SourceError(
                f"'{qrels}' has no split 'test', but {', '.join(map(repr, splits)) or 'no files'}; "
                "name a file"
            )
        return splits[chosen]
    if any(folder.rglob("*.parquet")):
        return [str(folder)]
    return text_files(name)


def _recognized(file: str, kind: Kind, given: FieldNames) -> Format:
    """Return the format of a file; raise `SourceError` if it is unknown."""
    if "://" in file:
        ending = _ending(file)
        table = _ENDINGS.get(ending, "trec")
        if ending == ".json" or table == "ndjson":
            return "json"
        return "svmlight" if ending in (".svm", ".svmlight") else table
    if Path(file).is_dir():
        return "parquet"
    start = Start.of(file, kind, given)
    if (found := start.format()) is not None:
        return found
    if "\r" in start.line:
        raise SourceError(f"{start.place} has a carriage return; end lines with LF or CRLF")
    if trec_lines.malformed_layout(start.line, kind) is not None:
        return "trec"  # reading it raises the error
    known = "; ".join(f"{name} ({form.about})" for name, form in _FORMATS.items())
    what = "judgments" if kind == "judgments" else "results"
    raise SourceError(
        f"{origin(file)} has an unknown format of {what}: line {start.number} is "
        f"{short(start.line)}. "
        f"Known formats are {known}. If it has a header with other names, name them with `fields`"
    )
