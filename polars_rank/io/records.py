"""Records and tables with the documents of a query as the long table."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import polars as pl
from polars import col

from polars_rank._params import OWN
from polars_rank.checks import refuse
from polars_rank.errors import DataError, RankError, hint, number_of, short
from polars_rank.io.fields import MISSING, VALUE, Fields, FieldValues, is_list, listed, place, plain
from polars_rank.io.spans import separate_spans
from polars_rank.io.traces import flat, is_spans, retrievals

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from polars_rank.io.fields import FieldNames, Kind

#: Records with their places in a file, such as "line 3".
Records: TypeAlias = Iterator[tuple[str, "Mapping[str, Any]"]]

#: Number of records whose values are moved to columns at a time.
_BATCH = 10_000
#: The roles that decide numbers, in the order in which they are shown.
_SHOWN = [
    *("query", "relevant", "forbidden", "results", "doc", "label", "score", "rank"),
    *("start", "end", "run"),
]
#: Types of values that a column of text keeps.
_SCALARS = {"flag", "whole", "number", "numeric", "text"}
#: Types of ids and of numbers in a long table.
_IDS, _NUMBERS = (pl.String, pl.Int64), (pl.Int64, pl.Float64)
#: Number of elements of a pair (id, value).
_PAIR = 2
#: Columns of the number of a record, of whether its document is only an id, and of values.
_RECORD, _PLAIN, _NUMBER = OWN + "record", OWN + "plain", OWN + "number"
#: Separators of ids in a column of text.
_SEPARATORS = re.compile(r"\s*[;|,]\s*")
#: Flags in a column of text that also has numbers.
_NOTHING = pl.lit(None, pl.String)
_FLAGS = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}


class ReadFile(NamedTuple):
    """The long table of a file, which field has which role, and what looks wrong."""

    file: str
    kind: Kind
    table: pl.LazyFrame
    #: The fields by role.
    roles: Mapping[str, str]
    #: The roles whose fields the user named, and all fields.
    found: frozenset[str] = frozenset()
    names: Sequence[str] = ()
    warnings: Sequence[str] = ()
    is_empty: bool = False
    #: The run of all rows, if it is known without reading them.
    run: str | None = None

    def runs(self) -> set[str]:
        """Return the runs; none if the file does not name them."""
        if self.run is not None or "run" not in self.table.collect_schema():
            return {self.run} if self.run is not None else set()
        try:
            found = self.table.select(col("run").drop_nulls().unique()).collect(engine="streaming")
        except RankError:  # reading the rows raises it, too
            return {""}
        return {*found["run"]}

    def sentence(self) -> str:
        """Return what was read, and which field has which role; this counts the queries."""
        number = self.table.select(col("query").n_unique()).collect(engine="streaming").item()
        what = number_of(number, "ranking")
        if self.kind == "judgments":
            is_golden = bool({"relevant", "text"} & self.roles.keys())
            what = number_of(number, *(("question",) if is_golden else ("query", "queries")))
        shown = [
            f"{role} {self.roles[role]!r}" for role in _SHOWN
            if role in self.roles and not self.roles[role].endswith((".id", ".key", ".value"))
        ]  # fmt: skip
        return f"{what} from {Path(self.file).name}: {', '.join(shown)}"


def is_long(kind: Kind, given: FieldNames, schema: pl.Schema) -> bool:
    """Return whether each row of a table is one document, with ids and numbers of plain types."""
    fields = {name: FieldValues.of_column(dtype) for name, dtype in schema.items()}
    try:
        roles = Fields(kind, fields, given).roles
    except RankError:
        return False
    ids, numbers = ("query", "doc", "run"), ("label", "score", "rank")
    types = dict.fromkeys(ids, _IDS) | dict.fromkeys(numbers, _NUMBERS)
    return "doc" in roles and all(
        schema[name] in types.get(role, ()) for role, name in roles.items()
    )


def read_table(
    table: pl.LazyFrame, kind: Kind, file: str, given: FieldNames, *, is_text: bool
) -> ReadFile:
    """Return the long table of a table with a document, or a list of documents, in each row.

    `is_text` says whether the table is from a text file, where ids may be separated in a column.
    """
    table = separate_spans(table) if kind == "run" else table
    schema = table.collect_schema()
    lists = [name for name in schema if is_list(name, kind, given)]
    texts = [name for name in lists if schema[name] == pl.String]
    has_docs = "doc" in given or any(place(name, "doc", kind) in (0, 1) for name in schema)
    if (
        (kind == "run" and is_spans(schema))
        or any(schema[name].is_nested() for name in lists)
        or (texts and not has_docs)
    ):
        return read_records(_rows(table, kind, texts, is_text=is_text), kind, file, given)
    fields = {name: FieldValues.of_column(dtype) for name, dtype in schema.items()}
    found = Fields(kind, fields, given)
    if "doc" not in found.roles:  # only queries with an error
        return read_records(_rows(table, kind, (), is_text=is_text), kind, file, given)
    is_empty = table.head(1).collect(engine="streaming").is_empty()
    return _read_rows(table, found, file)._replace(is_empty=is_empty)


def _rows(table: pl.LazyFrame, kind: Kind, texts: Collection[str], *, is_text: bool) -> Records:
    """Yield the rows of a table with lists or spans; `texts` are lists as text."""
    batches = table.collect_batches(maintain_order=True, engine="streaming")
    rows = chain.from_iterable(batch.iter_rows(named=True) for batch in batches)
    for number, row in enumerate(rows, 1):
        where = f"row {number}"
        if kind == "run" and is_spans(row):
            yield from ((where, each) for each in retrievals(row, where))
            continue
        for name in texts:
            row[name] = _cell(row[name], where, name, is_text=is_text)
        yield where, row


def _cell(text: str | None, where: str, name: str, *, is_text: bool) -> Any:
    """Return the list in a cell: in JSON or Python, or separated ids in a column of ids."""
    text = (text or "").strip()
    if not text:  # text files have no other empty list
        return [] if is_text else None
    if not text.startswith(("[", "{", "(")):
        is_ids = is_text and plain(name).endswith("ids")
        return [each for each in _SEPARATORS.split(text) if each] if is_ids else text
    found = None
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
            json.dumps(found, ensure_ascii=False, default=str).encode()  # half of a character
            break
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            found = None
    if not isinstance(found, (list, tuple, dict)):
        order = ", whose order is random" if isinstance(found, set) else ""
        raise DataError(f"{where}: {name!r} has {short(text)}{order}, which is no list of ids")
    return found


def read_records(records: Records, kind: Kind, file: str, given: FieldNames) -> ReadFile:
    """Return the long table of records with a document, or a list of documents, in each."""
    places, values, documents = _by_field(records, kind, given)
    if not places:
        columns = {"query": pl.String(), "doc": pl.String(), VALUE[kind]: pl.Float64()}
        return ReadFile(file, kind, pl.LazyFrame(schema=columns), {}, is_empty=True)
    fields: dict[str, FieldValues] = {}
    for name, column in values.items():
        fields[name] = FieldValues.of(column, places)
        if name in documents:
            at = [places[record] for record in documents[name][_RECORD]]
            fields |= {
                f"{name}.{key}": FieldValues.of(inner, at, name)
                for key, inner in documents[name].items()
                if key not in (_RECORD, _PLAIN)
            }
    found = Fields(kind, fields, given)
    in_list = documents.get(found.documents or "", {})
    _check_queries(found, places, {*in_list.get(_RECORD, ())})
    rows = pl.DataFrame(_columns(found, inside=False)).with_row_index(_RECORD)
    if found.documents is not None:
        rows = _with_documents(rows, found, in_list, places)
    read = _read_rows(rows.lazy(), found, file)
    return read._replace(table=_with_forbidden(read.table)) if "forbidden" in found.roles else read


def _with_forbidden(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return a row for each forbidden document, with the label 0, instead of lists of them."""
    queries = table.drop("doc", "label", "start", "end", strict=False)
    pairs = queries.explode("forbidden").drop_nulls("forbidden").rename({"forbidden": "doc"})
    pairs = pairs.unique(["query", "doc"], keep="first", maintain_order=True)
    both = table.join(pairs, on=["query", "doc"], how="semi").select("query", "doc").collect()
    refuse(both, pl.lit(value=True), "forbidden documents are in another list, too", "remove them")
    is_alone = col("doc").is_null() & (col("forbidden").list.len() > 0)
    rows = table.filter(~is_alone).with_columns(forbidden=pl.lit(value=False))
    marks = pairs.with_columns(label=pl.lit(0), forbidden=pl.lit(value=True))
    return pl.concat([rows, marks.cast({"label": table.collect_schema()["label"]})], how="diagonal")


class _ByField:
    """The values of rows by field, with `MISSING` where a row has no such field."""

    def __init__(self) -> None:
        self.height = 0
        self.columns: dict[str, list[Any]] = {}

    def extend(self, columns: Mapping[str, Sequence[Any]], height: int) -> None:
        """Add rows, whose values are in columns."""
        for name, values in columns.items():
            column = self.columns.setdefault(name, [])
            column += [MISSING] * (self.height - len(column))
            column += values
        self.height += height

    def filled(self) -> dict[str, list[Any]]:
        """Return all columns with the same length."""
        for column in self.columns.values():
            column.extend([MISSING] * (self.height - len(column)))
        return self.columns


def _transposed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(chain.from_iterable(rows))
    return {name: [row.get(name, MISSING) for row in rows] for name in names}


def _by_field(
    records: Records, kind: Kind, given: FieldNames
) -> tuple[list[str], dict[str, list[Any]], dict[str, dict[str, list[Any]]]]:
    """Return the places of records, the values of their fields, and those of documents by list."""
    places: list[str] = []
    values, documents = _ByField(), dict[str, _ByField]()
    while batch := [*islice(records, _BATCH)]:
        start = len(places)
        places += [where for where, _ in batch]
        values.extend(_transposed([record for _, record in batch]), len(batch))
        for name in (name for name in values.columns if is_list(name, kind, given)):
            docs, column = documents.setdefault(name, _ByField()), values.columns[name]
            for record, value in enumerate(column[start:], start):
                if isinstance(value, (list, dict)):
                    columns, count = _documents(value, places[record], name)
                    docs.extend({**columns, _RECORD: [record] * count}, count)
                    if count and _PLAIN not in columns:  # frees memory
                        column[record] = {} if isinstance(value, dict) else [None]
    found = {name: docs.filled() for name, docs in documents.items() if docs.height}
    return places, values.filled(), found


def _documents(value: Any, where: str, name: str) -> tuple[dict[str, list[Any]], int]:
    """Return the fields of the documents in a list or mapping, and the number of documents."""
    if isinstance(value, dict):
        for key in ("hits", "ranked_items"):  # of search engines and of LongMemEval
            if isinstance(value.get(key), (list, dict)):
                return _documents(value[key], where, name)
        value = [
            {"id": doc, **(flat(each) if isinstance(each, dict) else {"value": each})}
            for doc, each in value.items()
        ]
    elif value and all(type(each) is str and each for each in value):  # the most frequent case
        return {"id": value, _PLAIN: [True] * len(value)}, len(value)
    return _transposed([_element(each, where, name) for each in value]), len(value)


def _element(value: Any, where: str, name: str) -> dict[str, Any]:
    if isinstance(value, dict):
        return flat(value)
    if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
        return {"id": value, _PLAIN: True}
    is_pair = isinstance(value, (list, tuple)) and len(value) == _PAIR
    if is_pair and isinstance(value[0], str) and (value[1] is None or _is_number(value[1])):
        return {"id": value[0], "value": value[1]}
    raise DataError(
        f"{where}: {name!r} has {'null' if value is None else short(value)}, which is neither an "
        "id (text or a whole number), nor a pair of text and number, nor an object"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _check_queries(found: Fields, places: Sequence[str], with_documents: Collection[int]) -> None:
    """Raise an error for a record without a query or list, or with the query of another one."""
    name = found.documents or found.roles.get("doc", "doc")
    roles = ("query", "text", "run", "error", "answerable")
    query, text, run, error, answerable, trace, values = (
        found.fields[each].values if each in found.fields else [MISSING] * len(places)
        for each in (*(found.roles.get(role, "") for role in roles), "trace", name)
    )
    first: dict[tuple[Any, Any], int] = {}
    for record, (where, key) in enumerate(zip(places, query, strict=True)):
        if key in (None, "", MISSING):
            raise DataError(
                f"{where} has no query in {found.roles['query']!r}; if another field identifies "
                f"queries, write {found.line('query', '...')}. Fields: {listed(found.names())}"
            )
        before = first.setdefault((run[record], str(key)), record)
        is_repeated = places[before] != where and trace[record] in (None, MISSING)
        if is_repeated and (found.documents or text[record] != text[before]):
            raise DataError(
                f"{where} repeats the query {short(str(key))} of {places[before]}; keep one of "
                "them, or give each an id of its own"
            )
        value = values[record]
        is_excused = answerable[record] is False or is_error(error[record])
        if not is_excused and (value is MISSING or (value is None and found.documents)):
            names = [each for each in found.names()
                     if found.fields[each].values[record] is not MISSING]  # fmt: skip
            remedy = "If nothing was retrieved, write []"
            if found.kind == "judgments":
                remedy = 'If the query has no relevant document, write [] or "answerable": false'
            raise DataError(
                f"{where} has {'null as' if value is None else 'no'} {name!r}, which other records "
                f"have.{hint(name, {*names} - {name})} Fields: {listed(names)}. {remedy}"
            )
        has_documents = record in with_documents if found.documents else value not in (None, "")
        if has_documents and answerable[record] is False:
            raise DataError(
                f"{where} has documents in {name!r}, although "
                f"{found.roles['answerable']!r} is false"
            )


def is_error(value: Any) -> bool:
    """Return whether a field of errors has one."""
    text = value.lower() if isinstance(value, str) else value
    return text not in (None, MISSING, "", "false", False, [], {})


def _columns(found: Fields, *, inside: bool) -> dict[str, pl.Series]:
    """Return the fields of records, or of documents in a list, that the long table needs."""
    roles = {name: role for role, name in found.roles.items()}
    columns = {}
    for name in found.names(inside=inside):
        role, field = roles.get(name, ""), found.fields[name]
        if role in ("label", "score", "rank", "start", "end"):
            columns[name] = _numbers(found.shown(role), field)
        elif role in ("query", "doc", "text", "run", "error"):
            columns[name] = _typed(field, pl.String())
        elif role == "forbidden":
            columns[name] = _ids(name, field)
        elif not inside and (dtype := _type(field, found.kind)) is not None:
            columns[name] = _typed(field, dtype)
    return columns


def _type(field: FieldValues, kind: Kind) -> pl.DataType | None:
    """Return the type of a further column; None if it is not kept."""
    scalars = field.types - {"list", "object"}
    if scalars == {"flag"}:
        return pl.Boolean()
    if scalars and scalars <= {"whole", "number"}:
        return pl.Int64() if scalars == {"whole"} else pl.Float64()
    if scalars and scalars <= _SCALARS:
        return pl.String()
    if field.types == {"list"} and kind == "judgments":
        tags = next(each for each in field.values if isinstance(each, list))
        return pl.List(pl.String()) if all(isinstance(each, str) for each in tags) else None
    return None


def _typed(field: FieldValues, dtype: pl.DataType) -> pl.Series:
    """Return values as the type of a column, which is text if types differ."""
    values: list[Any] = [None if each is MISSING else each for each in field.values]
    if dtype == pl.String():
        values = [
            each if isinstance(each, str) or each is None
            else None if each in ({}, []) else json.dumps(each, ensure_ascii=False, default=str)
            for each in values
        ]  # fmt: skip
    elif field.types & {"list", "object"}:
        is_listed = dtype == pl.List
        values = [each if isinstance(each, list) == is_listed else None for each in values]
    return pl.Series(values, dtype=dtype, strict=False)


def _numbers(name: str, field: FieldValues) -> pl.Series:
    """Return numbers, also if they are text or flags; null and empty text are no values."""
    if field.types == {"flag"}:
        return pl.Series([each if isinstance(each, bool) else None for each in field.values])
    number = int if field.types <= {"whole", "flag"} else _float
    values = [None if each in (None, "", MISSING) else number(each) for each in field.values]
    found = pl.Series(values, dtype=pl.Int64 if number is int else pl.Float64)
    for index in (~found.cast(pl.Float64).is_finite()).arg_true().head(1):
        value = short(field.values[index])
        raise DataError(f"{field.places[index]}: {name!r} must be a finite number; found {value}")
    return found


def _ids(name: str, field: FieldValues) -> pl.Series:
    """Return lists of ids as text; raise `DataError` for anything else. Null is no document."""
    lists = [[] if each in (None, MISSING) else each for each in field.values]
    for where, ids in zip(field.places, lists, strict=True):
        if not isinstance(ids, list) or not all(type(x) in (str, int) and x != "" for x in ids):
            raise DataError(f"{where}: {name!r} must be a list of ids; found {short(ids)}")
    return pl.Series([[*map(str, ids)] for ids in lists], dtype=pl.List(pl.String))


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("inf")


def _with_documents(
    records: pl.DataFrame, found: Fields, in_list: Mapping[str, list[Any]], places: Sequence[str]
) -> pl.DataFrame:
    """Return a row for each document in the lists of records, with its label or score."""
    record = pl.Series(_RECORD, in_list.get(_RECORD, []), dtype=pl.get_index_type())
    columns = _columns(found, inside=True).items()
    docs = pl.DataFrame([record, *(each.alias(name) for name, each in columns)])
    role = value_role(found, docs)
    name, doc = found.roles.get(role, ""), found.roles.get("doc", "")
    number = col(name) if name else pl.lit(None, pl.Float64)
    is_plain = pl.lit(value=False)  # only an id, next to which others may have a value
    if _PLAIN in in_list and found.roles.get(role, "").startswith(found.inside):
        marks = [each is True for each in in_list[_PLAIN]]
        docs, is_plain = docs.with_columns(pl.Series(_PLAIN, marks)), col(_PLAIN)
    known = number.count().over(_RECORD)
    is_partial = is_plain & ~is_plain.all().over(_RECORD)
    if found.kind == "run":
        is_partial |= number.is_null() & (known > 0)
    invalid = docs.filter(is_partial).head(1)
    if doc:
        invalid = pl.concat([docs.filter(col(doc).fill_null("") == "").head(1), invalid])
    for row in invalid.iter_rows(named=True):
        problem = f"{found.shown('doc')!r} must be text or a whole number; found no value"
        if row[doc]:
            problem = f"the document {row[doc]!r} has no {found.shown(role)!r}, but others have one"
        raise DataError(f"{places[row[_RECORD]]}: {problem}")
    if found.kind == "judgments":
        value = pl.when(is_plain).then(1).otherwise(number) if name else pl.lit(1)
    else:
        position = pl.int_range(1, pl.len() + 1).over(_RECORD)
        number = 0 - number if role == "rank" else number
        value = pl.when(known > 0).then(number).otherwise(-position)
    docs = docs.with_columns(value.alias(_NUMBER))
    return records.join(docs, on=_RECORD, how="left", maintain_order="left_right")


def value_role(found: Fields, rows: pl.DataFrame | pl.LazyFrame) -> str:
    """Return whether the values of documents are labels, scores or ranks."""
    value, roles = VALUE[found.kind], found.roles
    if "rank" not in roles:
        return value
    documents = rows.lazy().filter(col(roles["doc"]).is_not_null())
    counts = documents.select(
        docs=pl.len(), ranks=col(roles["rank"]).count(),
        scores=col(roles[value]).count() if value in roles else pl.lit(0),
    )  # fmt: skip
    docs, ranks, scores = counts.collect(engine="streaming").row(0)
    if ranks and max(scores, ranks if not scores else 0) < docs:
        found.fail(
            f"{scores:,} of {docs:,} documents have a score, and {ranks:,} have a rank; "
            f"for the order of ranks, write {found.line(value, None)}"
        )
    return value if scores or not ranks else "rank"


def _read_rows(table: pl.LazyFrame, found: Fields, file: str) -> ReadFile:
    """Return the long table of a table with a document in each row."""
    kind, roles, value = found.kind, found.roles, VALUE[found.kind]
    schema = table.collect_schema()
    doc = col(roles["doc"]).cast(pl.String).replace("", None) if "doc" in roles else _NOTHING
    role = value if _NUMBER in schema else value_role(found, table)
    name = roles.get(role, "")
    number = pl.lit(1 if kind == "judgments" else None, pl.Int64)  # ranks may be null
    if kind == "judgments" and schema.get("forbidden") == pl.Boolean:
        number = pl.when(col("forbidden")).then(0).otherwise(1)
    if _NUMBER in schema or name:
        number = col(_NUMBER if _NUMBER in schema else name)
    dtype = schema.get(name, pl.Int64())
    if dtype == pl.String:
        number = number.str.strip_chars().replace(_FLAGS)
        check = partial(_numeric, text=number, name=name, file=file)
        table = table.map_batches(check, streamable=True)
    is_whole = kind == "judgments" and (dtype.is_integer() or dtype == pl.Boolean)
    number = number.cast(pl.Int64 if is_whole else pl.Float64, strict=False)
    number = 0 - number if role == "rank" else number
    columns = {
        "query": col(roles["query"]).cast(pl.String),
        "doc": doc,
        value: pl.when(doc.is_not_null()).then(number),
    }
    columns |= {role: col(roles[role]) for role in ("start", "end") if role in roles}
    if kind == "judgments" and "text" in roles:
        columns["text"] = col(roles["text"]).cast(pl.String)
    for name, field in found.columns().items():
        if field in schema:
            columns[name] = col(field).cast(pl.String) if name == "run" else col(field)
    rows = table.select(each.alias(name) for name, each in columns.items())
    named = frozenset(roles.keys() & found.given.keys())
    return ReadFile(file, kind, rows, roles, named, [*found.fields], _warnings(table, found))


def _warnings(table: pl.LazyFrame, found: Fields) -> list[str]:
    """Return what looks wrong, and raise an error if the field "id" differs in each row."""
    roles, texts = found.roles, []
    query = col(roles["query"])
    if found.documents is None and plain(roles["query"]) == "id" and "text" in roles:
        id_, text = roles["query"], roles["text"]
        run = [roles["run"]] if "run" in roles else []
        numbers = {name: pl.struct(*run, name).n_unique() for name in (id_, text)}
        counts = table.select(pl.len().alias(_NUMBER), **numbers)
        rows, ids, different = counts.collect(engine="streaming").row(0)
        if ids == rows > different:
            found.fail(
                f"{id_!r} differs in each of {rows:,} rows, but {text!r} has "
                f"{number_of(different, 'text')}, so {id_!r} may identify rows; write "
                f"{found.line('query', text)} or {found.line('query', id_)}"
            )
    schema = table.collect_schema()
    if _NUMBER in schema and roles.get("score", "") in schema:
        score = col(roles["score"])
        rises = (score.diff().drop_nulls() >= 0).all() & (score.first() < score.last())
        lists = table.group_by(_RECORD).agg(rises.alias("rises"), score.count())
        several = lists.filter(score > 1).collect()["rises"]
        if len(several) and several.all():
            texts.append(
                "the scores of every query ascend, as distances do, but documents rank by score, "
                "highest first; negate them if lower is better"
            )
    if roles.get("error", "") in schema:
        error = col(roles["error"])
        errors = table.filter(error.is_not_null()).select(query.cast(pl.String), error).collect()
        failed = [*dict.fromkeys(key for key, each in errors.iter_rows() if is_error(each))]
        if failed:
            texts.append(
                f"{number_of(len(failed), 'query has', 'queries have')} an error, such as "
                f"{failed[0]!r}; a query for which nothing was retrieved counts as 0"
            )
    return texts


def _numeric(rows: pl.DataFrame, text: pl.Expr, name: str, file: str) -> pl.DataFrame:
    """Return rows; raise `DataError` if a text is no number."""
    invalid = (text != "") & ~text.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)
    refuse(rows, invalid, f"column {name!r} of {file} must have numbers", "correct the file")
    return rows
