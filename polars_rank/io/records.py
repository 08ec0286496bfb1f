"""Records with the documents of a query, from JSON, spans and list columns, as the long table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import polars as pl

from polars_rank._polars import scan_of_files
from polars_rank.errors import DataError, short, warn
from polars_rank.frames.batches import requested
from polars_rank.io.copies import origin
from polars_rank.io.fields import VALUE, Kind, Roles, expected, listed, plain, roles_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Records with their places in a file, such as "line 3"; each call reads the file again.
Records: TypeAlias = Callable[[], Iterator[tuple[str, "Mapping[str, Any]"]]]

#: Number of queries in a batch.
_BATCH = 10_000
#: Fields of an element of a list that hold the document.
_WRAPPERS = ("hit", "document", "doc", "node")
#: Number of elements of a pair (id, value).
_PAIR = 2


class _Query(NamedTuple):
    """A query of a file, or one of its documents if each record has one."""

    where: str
    #: The text of each key that it has: query_id, id, text.
    keys: Mapping[str, str]
    docs: list[str]
    values: list[float]
    others: Mapping[str, Any]
    #: Whether the file has one record per query.
    is_whole: bool


def scan_records(records: Records, kind: Kind, file: str) -> pl.LazyFrame:
    """Return the long table of records. They are read twice: first, to find the columns."""
    columns = _Columns(kind, origin(file))
    for query in columns.queries(records):
        columns.add(query)
    schema = columns.schema()

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001  (only a suggestion)
    ) -> Iterator[pl.DataFrame]:
        yield from requested(columns.frames(records), with_columns, predicate, n_rows)

    return scan_of_files(read, [file], schema=schema, explain_name="RECORDS")


def _query(record: Mapping[str, Any], where: str, kind: Kind) -> _Query:
    """Return a query from a record; `where` is its place."""
    roles = roles_of(record, kind)
    names = {"query_id": roles.query_id, "id": roles.id, "text": roles.text}
    if plain(roles.text or "") == "searchtext":  # the id is of a result of OpenSearch
        names["id"] = None
    # A scalar such as "doc" or "relevant" is of one document.
    lists = [
        name for name in roles.lists
        if not isinstance(record[name], (bool, int, float))
        and (name != roles.doc or isinstance(record[name], (list, dict)))
    ]  # fmt: skip
    known = {*roles.known, *lists[:1]}
    docs: list[str] = []
    values: list[float] = []
    if lists:
        docs, values = _documents(record[lists[0]], where, kind)
    elif record.get("error") is not None and roles.doc is None:
        pass  # nothing was retrieved
    elif doc := roles.doc or (roles.id if roles.text or roles.query_id else None):
        if roles.text or roles.query_id:
            names["id"] = None
        known.add(doc)
        if record[doc] is not None:
            value = _value(record, roles, where, kind)
            if value is None and kind == "run":
                raise DataError(f"{where}: a document needs a score or a rank")
            docs, values = [_id(record[doc], where, doc)], [1 if value is None else value]
    else:
        names = {}
    keys = {
        role: _id(record[name], where, name) for role, name in names.items()
        if name is not None and (role != "text" or isinstance(record[name], (str, int)))
    }  # fmt: skip
    if not keys:
        raise DataError(f"{where}: {expected(kind)}; found the fields {listed(record)}")
    others = {name: _kept(name, each) for name, each in record.items() if name not in known}
    if kind == "run" and roles.run is not None and isinstance(record[roles.run], (str, int)):
        others = {"run": str(record[roles.run]), **others}
    is_whole = "trace" not in record and (bool(lists) or "error" in record)
    return _Query(where, keys, docs, values, others, is_whole)


def _documents(value: Any, where: str, kind: Kind) -> tuple[list[str], list[float]]:
    """Return the ids and the labels or scores of documents."""
    if isinstance(value, str):
        text = value.strip()
        is_json = text.startswith(("[", "{"))
        value = (_in_text(text, where) if is_json else [text]) if text else None
    if isinstance(value, dict) and isinstance(value.get("hits"), (list, dict)):
        return _documents(value["hits"], where, kind)
    if isinstance(value, dict):
        return (
            [_id(doc, where, "id") for doc in value],
            [_number(each, where, VALUE[kind]) for each in value.values()],
        )
    docs: list[str]
    values: list[float | None]
    if value and all(type(each) is str and each for each in value):  # the most frequent case
        docs, values = [*value], [None] * len(value)
    else:
        pairs = [_document(each, where, kind) for each in value or ()]
        docs, values = [doc for doc, _ in pairs], [number for _, number in pairs]
    missing = values.count(None)
    if kind == "judgments":
        return docs, [1 if number is None else number for number in values]
    if missing == len(values):
        return docs, [float(-position) for position in range(1, len(docs) + 1)]
    if missing:
        doc = docs[values.index(None)]
        raise DataError(f"{where}: the document {doc!r} has no score, but others have one")
    return docs, values  # type: ignore[return-value]


def _in_text(text: str, where: str) -> Any:
    """Return a list in the text of a column, in JSON or as Python writes it."""
    import ast  # noqa: PLC0415  (rarely needed)

    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    raise DataError(f"{where}: {short(text)} is not a list of ids")


def _document(value: Any, where: str, kind: Kind) -> tuple[str, float | None]:
    """Return the id and the label or score of an element of a list."""
    if isinstance(value, (list, tuple)) and len(value) == _PAIR:
        return _id(value[0], where, "id"), _number(value[1], where, VALUE[kind])
    if not isinstance(value, dict):
        return _id(value, where, "id"), None
    fields = value
    if any(type(each) is dict for each in value.values()):
        inner = [value[name] for name in _WRAPPERS if isinstance(value.get(name), dict)]
        fields = {name: each for name, each in value.items() if not isinstance(each, dict)}
        fields |= inner[0] if inner else {}
    roles = roles_of(fields, kind)
    # Next to "id", a field such as "document" or "url" describes the document.
    is_id = roles.doc is not None and plain(roles.doc).endswith("id")
    name = roles.doc if is_id or roles.id is None else roles.id
    if name is None:
        raise DataError(
            f"{where}: a document needs an id (id, doc_id or corpus_id); found the fields "
            f"{listed(value)}"
        )
    return _id(fields[name], where, name), _value(fields, roles, where, kind)


def _value(fields: Mapping[str, Any], roles: Roles, where: str, kind: Kind) -> float | None:
    """Return the label or score in a record of one document, or None."""
    if roles.value is not None and fields[roles.value] is not None:
        return _number(fields[roles.value], where, roles.value)
    if kind == "run" and roles.rank is not None and fields[roles.rank] is not None:
        return -_number(fields[roles.rank], where, roles.rank)
    return None


def _id(value: Any, where: str, name: str) -> str:
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise DataError(f"{where}: {name!r} must be text or a whole number; found {short(value)}")


def _number(value: Any, where: str, name: str) -> float:
    number = value
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            number = None
    elif isinstance(value, bool):
        number = int(value)
    if isinstance(number, (int, float)) and math.isfinite(number):
        return number
    raise DataError(f"{where}: {name!r} must be a number; found {short(value)}")


class _Columns:
    """The columns of the long table of a file, found from its queries."""

    def __init__(self, kind: Kind, name: str) -> None:
        self.kind, self.name = kind, name
        #: First places of the queries, by key.
        self._places: dict[str, dict[tuple[Any, str], str]] = {}
        self._missing: dict[str, str] = {}
        self._repeated: dict[str, str] = {}
        self._types: dict[str, pl.DataType] = {}
        self._is_whole_number = kind == "judgments"
        self._ascending, self._ordered = 0, 0

    def queries(self, records: Records) -> Iterator[_Query]:
        """Yield the queries of records; errors name the file."""
        try:
            for where, record in records():
                yield _query(record, where, self.kind)
        except DataError as error:
            raise DataError(f"{self.name}: {str(error).lstrip()}") from None

    def add(self, query: _Query) -> None:
        """Take a query into account."""
        run = query.others.get("run")
        for key in ("query_id", "id", "text"):
            text = query.keys.get(key)
            if text is None:
                self._missing.setdefault(key, query.where)
                continue
            places = self._places.setdefault(key, {})
            first = places.setdefault((run, text), query.where)
            if query.is_whole and first != query.where:
                self._repeated.setdefault(
                    key, f"{query.where} repeats the query {short(text)} of {first}"
                )
        for name, value in query.others.items():
            dtype = _type(value, self.kind)
            if dtype is not None and plain(name) != "text":
                known = self._types.setdefault(name, dtype)
                if dtype != known:
                    numbers = {known, dtype} == {pl.Int64(), pl.Float64()}
                    self._types[name] = pl.Float64() if numbers else pl.String()
        if self._is_whole_number:
            self._is_whole_number = all(isinstance(each, int) for each in query.values)
        if self.kind == "run" and query.is_whole and len(query.values) > 1:
            pairs = zip(query.values, query.values[1:], strict=False)
            self._ordered += 1
            self._ascending += query.values[0] >= 0 and all(a < b for a, b in pairs)

    @property
    def _key(self) -> str:
        """The key that identifies queries: query_id, else id if it is unique, else the text."""
        found = [
            key for key in ("query_id", "id", "text")
            if key in self._places and key not in self._missing
            and (key != "id" or key not in self._repeated or "text" in self._missing)
        ]  # fmt: skip
        if not found:
            key = next(iter(self._places))
            raise DataError(
                f"{self.name}: {self._missing[key]} has no {key}, which other queries have"
            )
        return found[0]

    def schema(self) -> pl.Schema:
        """Return the columns; raise `DataError` if queries are repeated or have no key."""
        if not self._places:
            self.key = "text"
        else:
            self.key = self._key
            if self.key in self._repeated:
                raise DataError(
                    f"{self.name}: {self._repeated[self.key]}; keep one of them, or give each a "
                    "query_id"
                )
        if self._ordered and self._ascending == self._ordered:
            warn(
                f"{self.name}: the scores of every query ascend, as distances do, but documents "
                "rank by score, highest first; negate them if lower is better"
            )
        value = pl.Int64() if self._is_whole_number else pl.Float64()
        columns: dict[str, Any] = {"query": pl.String(), "doc": pl.String()}
        columns |= {VALUE[self.kind]: value}
        if self.kind == "judgments" and self.key != "text" and "text" in self._places:
            columns["text"] = pl.String()
        self.found = pl.Schema(columns | self._types)
        return self.found

    def frames(self, records: Records) -> Iterator[pl.DataFrame]:
        """Yield the long table in batches."""
        schema, value = self.found, VALUE[self.kind]
        lists = {name: pl.List(schema[name]) for name in ("doc", value)}
        queries = self.queries(records)
        while part := [*islice(queries, _BATCH)]:
            columns: dict[str, Sequence[Any]] = {
                "query": [each.keys[self.key] for each in part],
                "text": [each.keys.get("text") for each in part],
                # An empty list would have no row.
                "doc": [each.docs or [None] for each in part],
                value: [each.values or [None] for each in part],
            }
            for name, dtype in self._types.items():
                columns[name] = [_as(dtype, each.others.get(name)) for each in part]
            rows = {name: columns[name] for name in schema}
            yield pl.DataFrame(rows, {**schema, **lists}, strict=False).explode("doc", value)


def _kept(name: str, value: Any) -> Any:
    """Return the value of a column; an error that is an object is text, which a column keeps."""
    if name != "error" or not isinstance(value, (dict, list)):
        return value
    return json.dumps(value) if value else None


def _type(value: Any, kind: Kind) -> pl.DataType | None:
    """Return the type of a column with a value; None if the column is not kept."""
    if isinstance(value, (bool, int, float, str)):
        return {bool: pl.Boolean(), int: pl.Int64(), float: pl.Float64()}.get(
            type(value), pl.String()
        )
    is_tags = kind == "judgments" and isinstance(value, list) and value
    return pl.List(pl.String()) if is_tags and all(isinstance(x, str) for x in value) else None


def _as(dtype: pl.DataType, value: Any) -> Any:
    """Return a value as a type, which is text if types differ."""
    if value is None or dtype != pl.String():
        return None if isinstance(value, dict) else value
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
