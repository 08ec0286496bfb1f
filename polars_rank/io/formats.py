"""`scan_judgments` and `scan_run`: any file of judgments or results as the long table."""

from __future__ import annotations

import os
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args

import polars as pl
from polars import col

from polars_rank._params import one_of, public
from polars_rank.errors import ArgumentError, SourceError, short
from polars_rank.io.copies import origin
from polars_rank.io.fields import Kind, Roles, is_id
from polars_rank.io.files import find_files, scan_files
from polars_rank.io.inputs import check_path
from polars_rank.io.json_files import json_records
from polars_rank.io.lines import Paths, reading, text_files
from polars_rank.io.records import scan_records
from polars_rank.io.tables import ARROW_STREAM, scan_csv, scan_ipc, scan_rows
from polars_rank.io.trec import (
    Negative,
    is_svmlight,
    layout_of,
    other_kind,
    scan_qrels,
    scan_svmlight,
    scan_trec_run,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Format: TypeAlias = Literal["trec", "json", "csv", "tsv", "parquet", "ipc", "svmlight"]

#: Number of bytes from which the format is recognized.
_START_BYTES = 1 << 16


class Start(NamedTuple):
    """The beginning of a file, from which its format is recognized."""

    file: str
    kind: Kind
    content: bytes
    #: The first line that is neither empty nor a comment, and its number.
    line: str
    number: int

    @classmethod
    def of(cls, file: str, kind: Kind) -> Start:
        """Return the beginning of a local file."""
        with reading(file) as stream:
            content = stream.read(_START_BYTES)
        lines = content.decode("utf-8", "replace").removeprefix("\ufeff").splitlines()
        found = ((i, line.strip()) for i, line in enumerate(lines, 1))
        number, line = next(((i, x) for i, x in found if x and not x.startswith("#")), (1, ""))
        return cls(file, kind, content, line, number)

    def format(self) -> Format | None:
        """Return the format, or None if it is unknown."""
        return next((name for name, form in _FORMATS.items() if form.is_known(self)), None)

    def is_table(self, separator: str) -> bool:
        """Return whether the first line is a header with a column of the query."""
        names = [name.strip().strip('"') for name in self.line.split(separator)]
        roles = Roles(names, self.kind)
        return len(names) > 1 and (roles.query_id or roles.text or roles.id) is not None


class _Format(NamedTuple):
    """How a format is recognized, described in messages, and read."""

    about: str
    #: Endings of files in an object store, whose content is not read to recognize the format.
    endings: tuple[str, ...]
    is_known: Callable[[Start], bool]
    #: Returns the long table of files of one kind with these options.
    scan: Callable[[list[str], Kind, dict[str, Any]], pl.LazyFrame]


def _each(
    scan: Callable[[str, Kind], pl.LazyFrame],
) -> Callable[[list[str], Kind, dict[str, Any]], pl.LazyFrame]:
    def scanned(files: list[str], kind: Kind, _: dict[str, Any]) -> pl.LazyFrame:
        return pl.concat([scan(file, kind) for file in files], how="diagonal_relaxed")

    return scanned


def _scan_trec(files: list[str], kind: Kind, options: dict[str, Any]) -> pl.LazyFrame:
    def layout(file: str) -> tuple[str, ...]:
        line = "" if "://" in file else Start.of(file, kind).line
        found = layout_of(line, kind)
        return found or _TREC[kind]

    scan: Any = scan_trec_run if kind == "run" else partial(scan_qrels, **options)
    scans: list[pl.LazyFrame] = [scan([*part], each) for each, part in groupby(files, key=layout)]
    return scans[0] if len(scans) == 1 else pl.concat(scans, how="diagonal")


def _text(file: str, kind: Kind, separator: str) -> pl.LazyFrame:
    table = scan_csv([file], partial(is_id, kind=kind), separator, alone=True)
    return scan_rows(table, kind, file, is_text=True)


#: The layouts of TREC, for files without lines and for lines that are malformed.
_TREC: dict[Kind, tuple[str, ...]] = {
    "run": ("query", "iteration", "doc", "rank", "score", "run"),
    "judgments": ("query", "subtopic", "doc", "label"),
}
#: The formats in the order in which they are tried.
_FORMATS: dict[Format, _Format] = {
    "parquet": _Format(
        "Parquet", (".parquet", ".pq"), lambda start: start.content.startswith(b"PAR1"),
        _each(lambda file, kind: scan_rows(
            scan_files(find_files([file]), {}), kind, file, is_text=False)),
    ),
    "ipc": _Format(
        "Arrow", (".arrow", ".feather", ".ipc"),
        lambda start: start.content.startswith((b"ARROW1", ARROW_STREAM)),
        _each(lambda file, kind: scan_rows(scan_ipc([file]), kind, file, is_text=False)),
    ),
    "json": _Format(
        "JSON or JSON lines: records, or mappings from queries to documents",
        (".json", ".jsonl", ".ndjson"), lambda start: start.line.startswith(("{", "[")),
        _each(lambda file, kind: scan_records(json_records(file, kind), kind, file)),
    ),
    "svmlight": _Format(
        "SVMlight with qid, or with a file NAME.query", (".svm", ".svmlight"),
        lambda start: start.kind == "judgments" and is_svmlight(start.line, start.file),
        _each(lambda file, _: scan_svmlight(file)),
    ),
    "trec": _Format(
        "TREC or MS MARCO: fields separated by spaces or tabs", (),
        lambda start: not start.line or layout_of(start.line, start.kind) is not None,
        _scan_trec,
    ),
    "tsv": _Format(
        "TSV with a header", (".tsv",), lambda start: start.is_table("\t"),
        _each(partial(_text, separator="\t")),
    ),
    "csv": _Format(
        "CSV with a header", (".csv",), lambda start: start.is_table(","),
        _each(partial(_text, separator=",")),
    ),
}  # fmt: skip


@public
def scan_run(path: Paths, format: Format | None = None) -> pl.LazyFrame:  # noqa: A002
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
        A file, a pattern such as ``"runs/*.txt"``, a URL, or several of them. Text files may be
        compressed (gzip, bzip2, xz, zstd). Pipes and files of web servers (http, https) are copied
        to temporary files first.
    format
        Format of the files. Default: the content decides, or for files in an object store the
        ending of the name.

    Returns
    -------
    LazyFrame
        Columns ``query`` and ``doc``, which are strings, and ``score`` (Float64); ``run`` if the
        files name it; and other fields, such as ``latency`` and ``error``. Without scores, the
        score is minus the rank. A query without retrieved documents has one row, in which ``doc``
        and ``score`` are null.

    Raises
    ------
    SourceError
        If a file does not exist, is damaged, is not UTF-8, or has an unknown format.
    DataError
        If a line or record is invalid, such as a score that is not a number. The message has the
        file and the line or key. For TREC files, CSV and Parquet, collecting the LazyFrame raises
        it.
    SchemaError
        If a table lacks the columns of queries and documents, or ids are floats.

    See Also
    --------
    scan_judgments : The labels of documents.
    join_judgments : The long table of both.

    Notes
    -----
    The query is identified by ``query_id``, otherwise by ``id`` if it is unique, otherwise by its
    text (``query``, ``question``). Judgments must have the same. The text is not kept, because the
    judgments have it.

    The name of the run is the tag of a TREC file. If a file has several tags and no document of a
    query has two of them, they do not name runs: the run is then the name of the file, with a
    `RankWarning`.
    """
    return _scan(path, "run", format, {})


@public
def scan_judgments(
    path: Paths,
    format: Format | None = None,  # noqa: A002
    *,
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
      OpenSearch, and requests to ``_rank_eval`` of Elasticsearch.
    - CSV and TSV with a header, Parquet, and Arrow: a document or a list of documents in each row.
      Examples are BEIR's ``qrels/test.tsv`` and exports of Quepid.
    - SVMlight with ``qid``, or with LightGBM's file ``.query`` beside it.
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
        compressed (gzip, bzip2, xz, zstd). Pipes and files of web servers (http, https) are copied
        to temporary files first.
    format
        Format of the files. Default: the content decides, or for files in an object store the
        ending of the name.
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
        are null. Lines of TREC files that occur more than once give one row.

    Raises
    ------
    SourceError
        If a file does not exist, is damaged, is not UTF-8, or has an unknown format.
    DataError
        If a line or record is invalid, such as a label that is not a number. The message has the
        file and the line or key. Also if a query occurs twice in JSON, or if a document has several
        labels for one query (and subtopic, if `diversity`) in TREC files. For TREC files, CSV and
        Parquet, collecting the LazyFrame raises it.
    SchemaError
        If a table lacks the columns of queries and documents, or ids are floats.

    See Also
    --------
    scan_run : The retrieved documents.
    join_judgments : The long table of both.

    Notes
    -----
    The query is identified by ``query_id``, otherwise by ``id`` if it is unique, otherwise by its
    text (``query``, ``question``). Results must have the same.

    With ``negative="unjudged"``, NDCG, bpref, and numbers of judged documents equal those of
    trec_eval. Two measures need ``negative="keep"``, because they distinguish unjudged documents
    in the pool from documents outside it: inferred AP, and ``Judged`` of ir_measures. Then also
    evaluate with ``conventions="trec_eval"``; otherwise negative labels are negative gains.
    """
    one_of("negative", negative, get_args(Negative))
    rows = _scan(path, "judgments", format, {"diversity": diversity, "fractional": fractional})
    if negative == "keep":
        return rows
    return rows.with_columns(pl.when(col("label") >= 0).then("label").alias("label"))


def _scan(path: Paths, kind: Kind, named: Format | None, options: dict[str, Any]) -> pl.LazyFrame:
    """Return the long table of files, each in the format that is named or recognized."""
    if named is not None:
        one_of("format", named, tuple(_FORMATS))
    names = [path] if isinstance(path, (str, os.PathLike)) else [*path]
    files = [file for name in names for file in _files(os.fspath(name), kind)] or text_files([])
    scans = []
    for form, part in groupby(files, key=lambda file: named or _recognized(file, kind)):
        if options.get("diversity") and form != "trec":
            raise ArgumentError(f"`diversity` needs TREC judgments; found {form}")
        scans.append(_FORMATS[form].scan([*part], kind, options))
    return scans[0] if len(scans) == 1 else pl.concat(scans, how="diagonal_relaxed")


def _files(name: str, kind: Kind) -> list[str]:
    """Return the files of a name, which may be a folder of Parquet files or of a dataset."""
    check_path(name)
    # Unlike Path's, these functions accept unknown users and long names.
    local = os.path.expanduser(name)  # noqa: PTH111
    if "://" in name or not os.path.isdir(local):  # noqa: PTH112
        return text_files(name)
    folder = Path(local)
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
        return find_files([name]).names
    return text_files(name)


def _recognized(file: str, kind: Kind) -> Format:
    """Return the format of a file; raise `SourceError` if it is unknown."""
    if "://" in file:
        name = file.lower().removesuffix(".gz").removesuffix(".zst")
        return next(
            (each for each, form in _FORMATS.items() if name.endswith(form.endings)), "trec"
        )
    start = Start.of(file, kind)
    if (found := start.format()) is not None:
        return found
    advice = other_kind(start.line, kind)
    if not advice:
        known = "; ".join(f"{name} ({form.about})" for name, form in _FORMATS.items())
        advice = f"Name the format with `format`. Known are {known}"
    what = "judgments" if kind == "judgments" else "results"
    raise SourceError(
        f"{origin(file)} has an unknown format of {what}: line {start.number} is "
        f"{short(start.line)}. {advice}"
    )
