"""Records with the documents of a query, from JSON, spans and text tables, as the long table."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import polars as pl
from polars import col

from polars_rank.errors import DataError, RankError, hint, number_of, short
from polars_rank.io.fields import VALUE, Field, Fields, is_list, listed, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.io.fields import FieldNames, Kind

#: Records with their places in a file, such as "line 3"; each call reads the file again.
Records: TypeAlias = Callable[[], Iterator[tuple[str, "Mapping[str, Any]"]]]

#: Number of queries in a batch.
_BATCH = 10_000
#: The roles that decide numbers, in the order in which they are shown.
_SHOWN = ["query", "relevant", "results", "doc", "label", "score", "rank", "start", "end", "run"]
#: Types of values that a column of text keeps.
_SCALARS = {"flag", "whole", "number", "numeric", "text"}
#: Number of elements of a pair (id, value).
_PAIR = 2


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


#: The key of a query; its documents by role: "doc", "label" or "score", "start", "end"; its record.
_Query: TypeAlias = tuple[str, dict[str, list[Any]], "Mapping[str, Any]"]


def read_records(records: Records, kind: Kind, file: str, given: FieldNames) -> ReadFile:
    """Return the long table of records.

    The records are read twice: first, to find out which fields they have.
    """
    fields, size = _survey(records, kind, given)
    if not size:
        columns = {"query": pl.String(), "doc": pl.String(), VALUE[kind]: pl.Float64()}
        return ReadFile(file, kind, pl.LazyFrame(schema=columns), {}, is_empty=True)
    found = Fields.resolved(kind, fields, given)
    table, warnings = _Reader(found).read(records)
    return ReadFile(file, kind, table.lazy(), found.roles, found.found, [*fields], warnings)


def _survey(records: Records, kind: Kind, given: FieldNames) -> tuple[dict[str, Field], int]:
    """Return the fields of records and of documents in lists, and the number of records."""
    fields: dict[str, Field] = {}
    lists: set[str] = set()
    size = 0
    for where, record in records():
        size += 1
        for name, value in record.items():
            if name not in fields:
                fields[name] = Field()
                lists |= {name} if is_list(name, kind, given) else set()
            fields[name].add(where, value)
            if name not in lists or not isinstance(value, (list, dict)):
                continue
            for each in elements(value, where, name):
                for key, part in each.items() if isinstance(each, dict) else [("id", each)]:
                    inner = f"{name}.{key}"
                    if inner not in fields:
                        fields[inner] = Field()
                    fields[inner].add(where, part)
    return fields, size


def elements(value: Any, where: str, name: str) -> list[Any]:
    """Return the documents in a list or mapping: ids, or dictionaries of their fields."""
    if isinstance(value, dict):
        if isinstance(value.get("hits"), (list, dict)):
            return elements(value["hits"], where, name)
        return [
            {"id": doc, **(_flat(each) if isinstance(each, dict) else {"value": each})}
            for doc, each in value.items()
        ]
    if all(type(each) is str and each for each in value):  # the most frequent case
        return list(value)
    return [_element(each, where, name) for each in value]


def _element(value: Any, where: str, name: str) -> Any:
    if isinstance(value, dict):
        return _flat(value)
    if isinstance(value, (str, int)) and not isinstance(value, bool) and value != "":
        return value
    is_pair = isinstance(value, (list, tuple)) and len(value) == _PAIR
    if is_pair and isinstance(value[0], str) and (value[1] is None or _is_number(value[1])):
        return {"id": value[0], "value": value[1]}
    raise DataError(
        f"{where}: {name!r} has {'null' if value is None else short(value)}, which is neither an "
        "id (text or a whole number), nor a pair of text and number, nor an object"
    )


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the fields of nested objects with names such as "metadata.source"."""
    if not prefix and dict not in map(type, value.values()):
        return dict(value)
    found: dict[str, Any] = {}
    for name, each in value.items():
        found |= (
            _flat(each, f"{prefix}{name}.") if isinstance(each, dict) else {prefix + name: each}
        )
    return found


def list_in(text: str, where: str, name: str) -> Any:
    """Return the list in a text, in JSON or as Python writes it."""
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


class _Reader:
    """Reads records whose fields have known roles."""

    def __init__(self, fields: Fields) -> None:
        self.fields, self.kind, self.roles = fields, fields.kind, fields.roles
        self.list: str | None = fields.documents
        self.doc: str = fields.of_document("doc") or "id"
        #: Whether the values are labels, scores or ranks, and their field.
        self.role: str = value_role(fields)
        self.value: str | None = fields.of_document(self.role)
        self.passage: dict[str, str] = {
            role: name for role in ("start", "end") if (name := fields.of_document(role))
        }
        self.columns: dict[str, str] = fields.columns()
        self.types: dict[str, pl.DataType] = {
            name: type_ for name, field in self.columns.items()
            if (type_ := _type(name, fields.fields[field], self.kind))
        }  # fmt: skip
        #: Lists of numbers that are as long as those of documents: they may be labels or scores.
        self.beside: set[str] = set()
        if self.list and self.role not in self.roles and VALUE[self.kind] not in fields.given:
            known = {name: fields.fields[name].types for name in fields.names()}
            self.beside = {name for name in known if known[name] == {"list"}} - {self.list}
        self.lengths = self.ascending = self.ordered = 0
        self.errors: list[str] = []

    def read(self, records: Records) -> tuple[pl.DataFrame, list[str]]:
        """Return the long table, and what looks wrong."""
        frames: list[pl.DataFrame] = []
        first: dict[tuple[Any, str], tuple[str, Any]] = {}
        queries = self._queries(records, first)
        while part := [*islice(queries, _BATCH)]:
            frames.append(self._frame(part))
        if self.beside and self.lengths:
            self.fields.fail_unknown(min(self.beside))
        table = pl.concat(frames)
        texts = {text for _, text in first.values()}
        if not self.list and plain(self.roles["query"]) == "id" and "text" in self.roles:
            check_row_ids(self.fields, table.height, len(first), len(texts))
        return table, [*self._warnings()]

    def _queries(
        self, records: Records, first: dict[tuple[Any, str], tuple[str, Any]]
    ) -> Iterator[_Query]:
        """Yield the queries; `first` is filled with their first places and texts."""
        run, text, error = (self.roles.get(role, "") for role in ("run", "text", "error"))
        name = self.roles["query"]
        for where, record in records():
            if record.get(name) in (None, ""):
                raise DataError(
                    f"{where} has no query in {name!r}. Fields: {listed(record)}; if another field "
                    f"identifies queries, write {self.fields.line('query', '...')}"
                )
            key = _id(record[name], where, name)
            before, known = first.setdefault((record.get(run), key), (where, record.get(text)))
            is_repeated = before != where and "trace" not in record
            if is_repeated and (self.list or record.get(text) != known):
                raise DataError(
                    f"{where} repeats the query {short(key)} of {before}; keep one of them, or "
                    "give each an id of its own"
                )
            if is_error(record.get(error)):
                self.errors.append(key)
            yield key, self._documents(where, record), record

    def _documents(self, where: str, record: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return the ids, values and passages of the documents of a record."""
        found = self._elements(where, record)
        docs: list[Any] = found
        values: list[Any] = [None] * len(found)
        if not all(type(each) is str for each in found):
            docs = [
                _id(each.get(self.doc) if isinstance(each, dict) else each, where, self.doc)
                for each in found
            ]
        for name in [*self.beside] if docs else ():
            numbers = record.get(name) or []
            if len(numbers) != len(docs) or not all(map(_is_number, numbers)):
                self.beside.discard(name)
            self.lengths += 1
        if self.value is not None and any(isinstance(each, dict) for each in found):
            values = [self._value(each, where) for each in found]
        elif self.role in self.roles and self.value is None:
            values = self._values_beside(where, record, docs)
        elif self.kind == "judgments":
            values = [1] * len(docs)
        if self.list and self.kind == "run":
            values = self._scores(where, docs, values)
        elif self.role == "rank":
            values = [-rank for rank in values]
        passages = {
            role: [_number(each.get(name), where, name) for each in found]
            for role, name in self.passage.items()
        }
        return {"doc": docs, VALUE[self.kind]: values, **passages}

    def _value(self, document: Any, where: str) -> float | None:
        """Return the label, score or rank of a document; null is none."""
        name = self.role if self.value == "value" else str(self.value)
        if not isinstance(document, dict):
            raise DataError(
                f"{where}: the document {document!r} has no {name!r}, but others have one"
            )
        return _number(document.get(str(self.value)), where, name)

    def _elements(self, where: str, record: Mapping[str, Any]) -> list[Any]:
        """Return the documents of a record: ids, or dictionaries."""
        name = str(self.list or self.doc)
        is_unanswerable = record.get(self.roles.get("answerable", "")) is False
        is_excused = is_unanswerable or is_error(record.get(self.roles.get("error", "")))
        value = record.get(name)
        if value is None or (value == "" and not self.list):
            if not is_excused and (self.list or name not in record):
                advice = "If nothing was retrieved, write []"
                if self.kind == "judgments":
                    advice = (
                        'If the query has no relevant document, write [] or "answerable": false'
                    )
                lists = [each for each, value in record.items() if isinstance(value, list)]
                problem = "null as" if name in record else "no"
                raise DataError(
                    f"{where} has {problem} {name!r}, which other records have."
                    f"{hint(name, [each for each in record if each != name])} Fields: "
                    f"{listed(record)}; lists: {listed(lists)}. {advice}"
                )
            return []
        found = elements(value, where, name) if self.list else [record]
        if found and is_unanswerable:
            raise DataError(
                f"{where} has documents in {name!r}, although {self.roles['answerable']!r} is false"
            )
        return found

    def _values_beside(
        self, where: str, record: Mapping[str, Any], docs: Sequence[str]
    ) -> list[Any]:
        """Return the labels or scores in a list of their own."""
        name = self.roles[self.role]
        numbers = record.get(name) or []
        if not isinstance(numbers, list) or len(numbers) != len(docs):
            raise DataError(
                f"{where}: {name!r} has {len(numbers)} values, and {self.list!r} has {len(docs)}"
            )
        return [_number(each, where, name) for each in numbers]

    def _scores(self, where: str, docs: Sequence[str], values: list[Any]) -> list[Any]:
        """Return the scores of documents in a list; without scores, they are in order."""
        missing = values.count(None)
        if missing == len(values):
            return [float(-rank) for rank in range(1, len(docs) + 1)]
        if missing:
            doc = docs[values.index(None)]
            raise DataError(
                f"{where}: the document {doc!r} has no {self.role}, but others have one"
            )
        if self.role == "rank":
            return [-each for each in values]
        if len(values) > 1:
            self.ordered += 1
            is_rising = all(a <= b for a, b in pairwise(values))
            self.ascending += is_rising and values[0] < values[-1]
        return values

    def _warnings(self) -> Iterator[str]:
        if self.ordered and self.ascending == self.ordered:
            yield (
                "the scores of every query ascend, as distances do, but documents rank by score, "
                "highest first; negate them if lower is better"
            )
        if self.errors:
            yield failures(len(self.errors), self.errors[0])

    def _frame(self, part: Sequence[_Query]) -> pl.DataFrame:
        """Return queries as the long table."""
        value, known = VALUE[self.kind], self.fields.fields
        labels = known[self.roles["label"]].types if "label" in self.roles else set()
        is_whole = self.kind == "judgments" and labels <= {"whole", "flag"}
        types: dict[str, pl.DataType] = {
            "doc": pl.String(), value: pl.Int64() if is_whole else pl.Float64(),
            **{
                role: pl.Int64() if known[self.roles[role]].types <= {"whole"} else pl.Float64()
                for role in self.passage
            },
        }  # fmt: skip
        # An empty list would have no row.
        keys, documents, records = zip(*part, strict=True)
        columns: dict[str, pl.Series] = {"query": pl.Series(keys)}
        for name, dtype in types.items():
            lists = [each[name] or [None] for each in documents]
            columns[name] = pl.Series(lists, dtype=pl.List(dtype), strict=False)
        if self.kind == "judgments" and "text" in self.roles:
            texts = [each.get(self.roles["text"]) for each in records]
            columns["text"] = pl.Series(
                [None if x is None else str(x) for x in texts], dtype=pl.String
            )
        for name, dtype in self.types.items():
            if name in types:
                continue
            values = [_as(dtype, each.get(self.columns[name])) for each in records]
            columns[name] = pl.Series(values, dtype=dtype, strict=False)
        return pl.DataFrame(columns).explode(*types, empty_as_null=True, keep_nulls=True)


def value_role(fields: Fields) -> str:
    """Return whether the values of documents are labels, scores or ranks."""
    value, rank = VALUE[fields.kind], fields.roles.get("rank")
    if rank is None:
        return value
    counts = {role: fields.fields[fields.roles[role]].count for role in (value, "rank", "doc")
              if role in fields.roles}  # fmt: skip
    scores, ranks = counts.get(value, 0), counts["rank"]
    if ranks and max(scores, ranks if not scores else 0) < counts.get("doc", 0):
        fields.fail(
            f"{scores:,} of {counts['doc']:,} documents have a score, and {ranks:,} have a rank; "
            f"for the order of ranks, write {fields.line(value, None)}"
        )
    return value if scores or not ranks else "rank"


def check_row_ids(fields: Fields, rows: int, ids: int, texts: int) -> None:
    """Raise an error if the field "id" differs in each row, although queries have several rows."""
    if ids == rows > texts:
        id_, text = fields.roles["query"], fields.roles["text"]
        fields.fail(
            f"{id_!r} differs in each of {rows:,} rows, but {text!r} has "
            f"{number_of(texts, 'text')}, so {id_!r} may identify rows; write "
            f"{fields.line('query', text)} or {fields.line('query', id_)}"
        )


def is_error(value: Any) -> bool:
    """Return whether a field of errors has one."""
    text = value.lower() if isinstance(value, str) else value
    return text is not None and text not in ("", "false", False, [], {})


def failures(number: int, query: str) -> str:
    """Return the warning about queries with an error."""
    return (
        f"{number_of(number, 'query has', 'queries have')} an error, such as {query!r}; a query "
        "for which nothing was retrieved counts as 0"
    )


def _id(value: Any, where: str, name: str) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return str(value)
        except ValueError:  # thousands of digits
            pass
    raise DataError(
        f"{where}: {name!r} must be text or a whole number; found "
        f"{'no value' if value is None else short(value)}"
    )


def _number(value: Any, where: str, name: str) -> float | None:
    """Return a number, also if it is text or a flag; null and empty text are no values."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return int(value)
    try:
        number = value if isinstance(value, int) and abs(value) < 2**63 else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(f"{where}: {name!r} must be a finite number; found {short(value)}")
    return number


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _type(name: str, field: Field, kind: Kind) -> pl.DataType | None:
    """Return the type of a further column; None if it is not kept."""
    if name in ("run", "error"):
        return pl.String() if field.count else None
    scalars = field.types - {"list", "object"}
    if scalars == {"flag"}:
        return pl.Boolean()
    if scalars and scalars <= {"whole", "number"}:
        return pl.Int64() if scalars == {"whole"} else pl.Float64()
    if scalars and scalars <= _SCALARS:
        return pl.String()
    if field.types == {"list"} and kind == "judgments":
        _, tags = field.places["list"]
        return pl.List(pl.String()) if all(isinstance(each, str) for each in tags) else None
    return None


def _as(dtype: pl.DataType | None, value: Any) -> Any:
    """Return a value as the type of a column, which is text if types differ."""
    if dtype == pl.String() and value is not None and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, default=str) if value not in ({}, []) else None
    return None if isinstance(value, (dict, list)) != isinstance(dtype, pl.List) else value
